"""`bridle serve` and `bridle explore`: options, what they start, and what they refuse to start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.serve import Limits
from commands import Cli


class Started(dict[str, Any]):
    """Arguments that a server would have been started with."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    result = Started()

    def run(service: Any, **options: Any) -> None:
        result.update(options, service=service)
        options["ready"]("http://127.0.0.1:8000")

    monkeypatch.setattr("bridle.serve.run", run)
    monkeypatch.delenv("BRIDLE_TOKEN", raising=False)
    opened = list[str]()
    monkeypatch.setattr("webbrowser.open", opened.append)
    result["opened"] = opened
    yield result


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving")
    tagger = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
    tagger.save(folder / "m.bridle", notes={"reader": {"format": "conll", "options": {"columns": ["word", "label"]}}})
    (folder / "one.rules").write_text("include two.rules\nat most 1 token of D  # one\n")
    (folder / "two.rules").write_text("present N\n")
    (folder / "bad.rules").write_text("forbid X\n")
    (folder / "dev.conll").write_text("the D\ncat N\n\na D\ndog N\n")
    return folder / "m.bridle"


def test_it_listens_on_this_machine_only(run: Cli, started: Started, model: Path) -> None:
    result = run.ok("serve", model)
    assert (started["host"], started["port"], started["token"], started["origins"]) == ("127.0.0.1", 8000, None, ())
    assert started["hosts"] == {"localhost", "127.0.0.1", "[::1]"}
    assert started["service"].limits == Limits() and started["service"].name == "m"
    memory = "300MB for compiled rules, 100MB for data, 200MB for each sequence at work"
    requests = "128MB of requests, which take several times that when they are parsed"
    assert result.stderr.splitlines() == [
        f"bridle: memory besides the models: {memory}, {requests}",
        "bridle: serving m at http://127.0.0.1:8000/ (Ctrl-C stops it)",
    ]
    assert not started["opened"]


def test_rules_sets_and_data(run: Cli, started: Started, model: Path) -> None:
    here = model.parent
    run.ok(
        "serve",
        model,
        "--rules",
        here / "one.rules",
        "--rule-set",
        f"n={here / 'two.rules'}",
        "--data",
        here / "dev.conll",
    )
    service = started["service"]
    assert service.default.text == "present N\nat most 1 token of D  # one\n"  # a page cannot include files
    assert sorted(service.book.sets) == ["n", "none"] and service.book.sets["n"].sentences == ("present N",)
    assert [example.labels for example in service.sample] == [["D", "N"], ["D", "N"]]


def test_how_texts_are_split(run: Cli, started: Started, model: Path) -> None:
    for command in ("serve", "explore"):
        run.ok(command, model)
        assert started["service"].tokens == "blanks"
        run.ok(command, model, "--tokens", "characters")
        assert started["service"].tokens == "characters"


def test_every_limit_is_an_option(run: Cli, started: Started, model: Path) -> None:
    asked = {
        "--seconds": 3,
        "--max-body": "1MB",
        "--max-sequences": 4,
        "--max-tokens": 5,
        "--max-sequence-tokens": 6,
        "--max-explain-tokens": 7,
        "--max-token-characters": 8,
        "--max-rules": 9,
        "--max-rule-characters": 10,
        "--max-rule-parts": 11,
        "--max-k": 12,
        "--max-waiting": 13,
        "--sequence-memory": "2MB",
        "--max-data": "3MB",
        "--max-compiled": "4MB",
    }
    run.ok("serve", model, *[word for pair in asked.items() for word in pair])
    result, default = started["service"].limits.to_dict(), Limits().to_dict()
    assert sorted(result.values()) == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1_000_000, 2_000_000, 3_000_000, 4_000_000]
    assert [name for name in result if result[name] == default[name]] == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_open_door_is_announced(run: Cli, started: Started, model: Path, host: str) -> None:
    assert "pass --token" in run.ok("serve", model, "--host", host).stderr
    assert started["hosts"] is None
    assert "pass --token" not in run.ok("serve", model, "--host", host, "--token", "sesame").stderr


def test_the_token_may_come_from_the_environment(
    run: Cli, started: Started, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDLE_TOKEN", "sesame")
    result = run.ok("serve", model, "--host", "::1", "--cors", "https://a.example", "--allow-host", "b.example")
    assert (started["token"], list(started["origins"])) == ("sesame", ["https://a.example"])
    assert "b.example" in started["hosts"] and "sesame" not in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rules", "bad.rules"], "unknown label 'X'"),
        (["--rules", "missing.rules"], "cannot read"),
        (["--rule-set", "x"], "NAME=FILE"),
        (["--rule-set", "none=two.rules"], "NAME=FILE"),
        (["--token", " "], "token is empty"),
        (["--max-body", "nonsense"], "max_body"),
        (["--data", "missing.conll"], "cannot read"),
        (["--port", "70000"], "--port"),
    ],
)
def test_what_it_refuses(
    run: Cli, started: Started, model: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    completed = run("serve", "m.bridle", *words)
    assert completed.exit_code == 2 and said in completed.stderr and "service" not in started


def test_without_the_extra(run: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    for words in (["serve", model], ["explore"]):
        completed = run(*words)
        assert completed.exit_code == 2 and "pip install 'bridle-nlp[serve]'" in completed.stderr


def test_explore_needs_nothing(run: Cli, started: Started) -> None:
    run.ok("explore")
    service = started["service"]
    assert (started["host"], started["port"], started["more_ports"]) == ("127.0.0.1", 8765, 20)
    assert started["opened"] == ["http://127.0.0.1:8000/"]
    assert service.name == "references" and len(service.default.rules) == 9 and len(service.sample) >= 500
    seen = {str(example.id).rpartition("/")[2] for example in service.sample}
    assert seen == {"ieee", "apa", "mla", "bibtex"}
    assert all(text == example.text for text, example in zip(service.sample_texts, service.sample[::50], strict=True))


def test_explore_with_everything(run: Cli, started: Started, model: Path) -> None:
    here = model.parent
    run.ok(
        "explore", model, "--rules", here / "two.rules", "--data", here / "dev.conll", "--no-browser", "--port", "1234"
    )
    assert (started["port"], started["opened"], started["service"].default.text) == (1234, [], "present N\n")
    assert len(started["service"].sample) == 2


def test_explore_edits_a_file(run: Cli, started: Started, model: Path) -> None:
    here = model.parent
    for words, path in (
        ([model, here / "two.rules"], here / "two.rules"),
        ([model, "--rules", here / "two.rules"], here / "two.rules"),
        ([here / "new.rules"], here / "new.rules"),
        ([model, here / "one.rules"], None),  # it includes another one
        ([model, "--rules", here / "two.rules", here / "new.rules"], None),
    ):
        run.ok("explore", *words)
        service = started["service"]
        assert service.workspace is not None and service.workspace.rules == path
    assert "one model and one .rules file" in run("explore", model, model).stderr


def test_several_models_have_rules_of_their_own(run: Cli, started: Started, model: Path) -> None:
    other = model.with_name("other.bridle")
    bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["X", "Y"]]).save(
        other, notes={"reader": {"format": "conll", "options": {"columns": ["word", "label"]}}}
    )
    (model.parent / "x.rules").write_text("forbid X\n")
    run.ok(
        "serve",
        model,
        other,
        "--rules",
        f"m={model.parent / 'two.rules'}",
        "--rules",
        f"other={model.parent / 'x.rules'}",
    )
    first, second = started["service"]
    assert (first.name, first.default.sentences) == ("m", ("present N",))
    assert (second.name, second.default.sentences) == ("other", ("forbid X",))
    assert [service.name for service in started["load"]()] == ["m", "other"]
    corrections = model.parent / "corrections.jsonl"
    run.ok("serve", model, "--corrections", corrections, "--log-format", "json")
    assert corrections.read_bytes() == b"" and started["log_format"] == "json"
