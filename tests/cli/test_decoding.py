"""The command line: what it reads, prints and returns; and that Ctrl-C leaves whole lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import cli
from bridle.data import save_scores
from bridle.rules import lint
from commands import Cli, Result
from stopwatch import patience

NAMES = ["O", "A0", "A1"]
LABELS = bridle.Labels(NAMES, "IO")
RULES = "at most 1 segment of A0\nA0 before A1   [penalty 0.7 per violation]\n"


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "my.rules"
    path.write_text(RULES)
    return path


def some_lattices(count: int, seed: int = 0) -> list[bridle.Lattice]:
    rng = np.random.default_rng(seed)
    pairwise = rng.normal(size=(3, 3))
    return [bridle.Lattice(rng.normal(size=(int(rng.integers(0, 9)), 3)) * 2, pairwise) for _ in range(count)]


def packed(lattices: list[bridle.Lattice]) -> bridle.Batch:
    offsets = np.cumsum([0, *map(len, lattices)])
    return bridle.Batch(np.concatenate([x.unary for x in lattices]), offsets, lattices[0].pairwise)


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines))
    return path


CLASHING = {"id": "bad", "unary": [[0, 0, 0]], "given": {"at": 0}}
FINE = {"id": "good", "unary": [[0, 0, 1], [0, 0, 0.5]], "given": {"at": 1}, "labels": NAMES}


# ---- decode -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["s.npz", "s.jsonl", "s.jsonl.gz"])
def test_decode_says_what_the_library_says(run: Cli, tmp_path: Path, rules: Path, name: str) -> None:
    lattices = some_lattices(150)
    save_scores(tmp_path / name, packed(lattices) if name == "s.npz" else lattices, labels=NAMES)
    out = tmp_path / "out.jsonl"
    result = run("decode", tmp_path / name, "--rules", rules, "--scheme", "IO", "-o", out)
    assert (result.exit_code, result.output) == (0, "")
    decoder = bridle.Decoder(LABELS, bridle.rules.load(rules))
    for k, (got, lattice) in enumerate(zip(records(out.read_text()), lattices, strict=True)):
        d = decoder.decode(lattice)
        assert got == {
            "id": k,
            "labels": d.labels,
            "score": pytest.approx(d.score),
            "penalty": pytest.approx(d.penalty),
            "bound": pytest.approx(d.bound),
            "optimal": True,
            "violated": [{"rule": str(rule), "times": times} for rule, times in d.violated],
        }
    assert any(d["violated"] for d in records(out.read_text()))


def test_decode_from_stdin_with_tokens_and_given(run: Cli, tmp_path: Path) -> None:
    rules = tmp_path / "r"
    rules.write_text("fix A0 at tokens /x+/\nlabel at given verb is O\n")
    line = {"id": ["any"], "unary": [[0, 0, 9]] * 3, "tokens": ["a", "xx", "b"], "given": {"verb": 2}}
    result = run("decode", "-", "--rules", rules, "--labels", "O, A0, A1", stdin=json.dumps(line))
    (only,) = records(result.stdout)
    assert result.exit_code == 0 and only["id"] == ["any"] and only["labels"] == ["A1", "A0", "O"]


def test_labels_from_a_file_and_without_rules(run: Cli, tmp_path: Path) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("O\nA, B\n\n")
    result = run("decode", write(tmp_path / "s", {"unary": [[0, 1]]}, {"unary": []}), "--labels-file", names)
    assert [x["labels"] for x in records(result.stdout)] == [["A, B"], []]


def test_ids_that_json_cannot_hold(run: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s", *(f'{{"id": {name}, "unary": [[1]]}}' for name in ("NaN", '"\\ud800"', '"ü"')))
    result = run("decode", path, "--labels", "A")
    assert result.exit_code == 0
    assert [x["id"] for x in records(result.stdout)] == ["nan", "\ud800", "ü"]


def test_k_best(run: Cli, tmp_path: Path, rules: Path) -> None:
    lattices = some_lattices(5, seed=2)
    save_scores(tmp_path / "s.npz", packed(lattices), labels=NAMES)
    result = run("decode", tmp_path / "s.npz", "--rules", rules, "--scheme", "IO", "--k", 3)
    decoder = bridle.Decoder(LABELS, bridle.rules.load(rules))
    for got, lattice in zip(records(result.stdout), lattices, strict=True):
        wanted = decoder.k_best(lattice, 3)
        assert [x["labels"] for x in got["k_best"]] == [d.labels for d in wanted]
        assert got["labels"] == wanted[0].labels and "id" not in got["k_best"][0]


@pytest.fixture
def clashing(run: Cli, tmp_path: Path) -> Callable[..., Result]:
    """Decode sequences of which every second cannot obey the rules."""

    def decode(*options: str, count: int = 1) -> Result:
        rules = tmp_path / "r"
        rules.write_text("at least 2 tokens of A1\nlabel at given at is A1\nforbid A0\n")
        scores = write(tmp_path / "s.jsonl", FINE, *[CLASHING, FINE] * count)
        return run("decode", scores, "--rules", rules, *options)

    return decode


def test_infeasible_raise(clashing: Callable[..., Result], tmp_path: Path) -> None:
    result = clashing()
    assert result.exit_code == 3
    assert [x["id"] for x in records(result.stdout)] == ["good"]
    assert "s.jsonl:2: no labelling obeys the hard rules" in result.stderr and "Traceback" not in result.stderr
    result = clashing("-o", str(tmp_path / "out"))
    assert "1 lines were written; they are kept in" in result.stderr
    assert not (tmp_path / "out").exists() and len(records((tmp_path / "out.part").read_text())) == 1


@pytest.mark.parametrize("k", [[], ["--k", "2"]])
def test_infeasible_skip_and_relax(clashing: Callable[..., Result], tmp_path: Path, k: list[str]) -> None:
    result = clashing("--on-infeasible", "skip", *k, count=60)
    assert result.exit_code == 1 and "121 sequences, 60 infeasible" in result.stderr
    results = records(result.stdout)
    assert [x["id"] for x in results] == ["good", *["bad", "good"] * 60]
    figures = dict.fromkeys(["score", "bound", *(["k_best"] if k else [])])
    assert results[1] == {"id": "bad", "labels": None, "clash": ["at least 2 tokens of A1"], **figures}
    assert results[0]["labels"] == ["A1", "A1"] == results[-1]["labels"]
    result = clashing("--on-infeasible", "relax", *k)
    assert result.exit_code == 1 and "1 relaxed" in result.stderr
    bad = records(result.stdout)[1]
    assert bad["labels"] == ["A1"] and bad["relaxed"] is True
    assert bad["violated"] == [{"rule": "at least 2 tokens of A1", "times": 1}]


def test_a_lattice_without_a_path(run: Cli, tmp_path: Path) -> None:
    scores = write(tmp_path / "s", {"unary": [[1, 2]]}, {"unary": [[None, None]]})
    for mode in ("skip", "relax"):
        result = run("decode", scores, "--labels", "A,B", "--on-infeasible", mode)
        assert result.exit_code == 1
        assert records(result.stdout)[1] == {"id": 1, "labels": None, "clash": [], "score": None, "bound": None}
    result = run("decode", scores, "--labels", "A,B")
    assert result.exit_code == 3 and ":2: the lattice has no path" in result.stderr


def test_limits_are_told(run: Cli, tmp_path: Path) -> None:
    """A beam loses what it needs in the end: no labelling was found, but none is proved impossible."""
    rules = tmp_path / "r"
    rules.write_text("at least 20 tokens of A1\n")
    scores = write(tmp_path / "s", FINE, {"id": "lost", "unary": [[1, 1, -9]] * 20})
    options = ["--rules", rules, "--engine", "beam"]
    result = run("decode", scores, *options, "--on-infeasible", "skip")
    lost = records(result.stdout)[-1]
    assert lost.pop("bound") >= -180 and lost == {"id": "lost", "labels": None, "optimal": False, "score": None}
    assert result.exit_code == 1 and "stopped before any labelling" in result.stderr
    assert run("decode", scores, *options).exit_code == 3


def bad_calls(tmp: Path) -> list[tuple[list[object], str]]:
    good = write(tmp / "good", FINE)
    rules = tmp / "bad.rules"
    rules.write_text("forbid A0\nwhat is this\n")
    unknown, given, at = tmp / "u.rules", tmp / "g.rules", tmp / "p.rules"
    unknown.write_text("forbid A7\n")
    given.write_text("label at given verb is O\n")
    at.write_text("label at 1 is O\n")
    return [
        (["decode", tmp / "none.npz"], "none.npz: cannot read"),
        (["decode", good, "--rules", tmp / "no.rules"], "cannot read the rules file"),
        (["decode", good, "--rules", rules], "bad.rules:2: not a rule"),
        (["decode", good, "--rules", unknown], "unknown label"),
        (["decode", write(tmp / "l", {"unary": [[1]]})], "the score file does not name its labels"),
        (["decode", good, "--labels", "O,A1,A0"], "--labels differs from the labels in the score file"),
        (["decode", good, "--labels", "O,A0"], "columns"),
        (["decode", write(tmp / "d", {**FINE, "labels": ["O", "O", "A1"]})], "names repeat"),
        (["decode", good, "--labels", "", "--labels-file", good], "cannot be combined"),
        (["decode", good, "--labels-file", tmp / "no"], "cannot read"),
        (["decode", good, "--scheme", "BIO"], "does not fit the scheme"),
        (["decode", good, "--engine", "magic"], "unknown engine"),
        (["decode", good, "--time-limit", "-1"], "time_limit"),
        (["decode", good, "--max-memory", "much"], "bad option max_memory; got 'much'; wanted a size from 1MB"),
        (["decode", good, "--max-memory", "5kB"], "got '5kB'; wanted a size from 1MB, such as 500MB or 2GB"),
        (["decode", good, "--max-memory", "9" * 400], "wanted a size from 1MB"),
        (["decode", good, "--k", "0"], "k"),
        (["decode", good, "--scheme", "XYZ"], "scheme"),
        (["decode"], "SCORES"),
        (["decode", good, "-o", tmp / "no" / "out"], "cannot write"),
        (["decode", write(tmp / "m", FINE, FINE, "{")], "m:3: not a JSON line"),
        (["decode", write(tmp / "g", FINE, {"unary": [[0, 0, 0]]}), "--rules", given], "g:1: given['verb'] is missing"),
        (["decode", write(tmp / "p", FINE, {"unary": [[0, 0, 0]]}), "--rules", at], "p:2: a rule names position 1"),
        (["rules", "check", tmp / "no.rules"], "cannot read"),
        (["rules", "show", rules], "bad.rules:2"),
    ]


@pytest.mark.parametrize("case", range(25))
def test_bad_calls_say_why_and_return_2(run: Cli, tmp_path: Path, case: int) -> None:
    calls = bad_calls(tmp_path)
    assert len(calls) == 25
    args, said = calls[case]
    result = run(*args)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr and "Traceback" not in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_progress_when_asked_for(run: Cli, tmp_path: Path) -> None:
    scores = write(tmp_path / "s", FINE, FINE)
    assert "decoding" in run("decode", scores, "--progress").stderr
    assert run("decode", scores).stderr == run("decode", scores, "--no-progress").stderr == ""


# ---- the other commands -----------------------------------------------------------------------------------------


def test_rules_check(run: Cli, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    options = ["--labels", "O,A0,A1", "--scheme", "IO"]
    path.write_text("forbid A0\nlabel at given verb is O\n")
    result = run("rules", "check", path, *options)
    output = "line 2 needs given['verb'] with each sequence"  # about no line in particular
    assert (result.exit_code, result.stdout) == (0, f"{path}: info given {output}\n")
    assert "pass --labels or --model for more" in run("rules", "check", path).stdout
    path.write_text("forbid A0\nforbid A0\n")
    result = run("rules", "check", path, *options)
    assert (result.exit_code, result.stdout) == (1, f"{path}:2: warning duplicate the same rule as line 1\n")
    path.write_text("forbid A9\n")
    result = run("rules", "check", path, *options, "--json")
    (only,) = records(result.stdout)
    assert result.exit_code == 2
    assert only.pop("message").startswith("unknown label 'A9'")
    assert only == {"file": str(path), "line": 1, "level": "error", "code": "unknown-label", "suggestion": None}
    assert cli.rules._table(lint.lint(["forbid A9"], LABELS)).row_count == 1


def test_rules_show(run: Cli, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text("at most 1   segments of TITLE # so\n\n# nothing\nA before B [penalty 2]\n")
    assert run("rules", "show", path).stdout == "at most 1 segment of TITLE  # so\nA before B  [penalty 2.0]\n"


def test_version(run: Cli) -> None:
    assert run("--version").stdout == f"bridle {bridle.__version__}\n"


# ---- real processes ---------------------------------------------------------------------------------------------


def long_scores(path: Path) -> Path:
    """A few short sequences, then one that takes long."""
    rng = np.random.default_rng(0)
    short, long, m = 20, 400_000, 13
    unary = rng.normal(size=(short * 10 + long, m)).astype(np.float32)
    offsets = [*range(0, short * 10 + 1, 10), len(unary)]
    batch = bridle.Batch(unary, offsets, rng.normal(size=(m, m)))
    save_scores(path, batch, labels=["O", *(f"L{k}" for k in range(1, m))])
    return path


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_stops_soon_and_keeps_whole_lines(run: Cli, tmp_path: Path) -> None:
    scores, out = long_scores(tmp_path / "s.npz"), tmp_path / "out.jsonl"
    rules = tmp_path / "r"
    rules.write_text("".join(f"at most 1 segment of L{k}\n" for k in range(1, 13)))
    part = tmp_path / "out.jsonl.part"
    with run.start("decode", scores, "--rules", rules, "--scheme", "IO", "-o", out) as process:
        deadline = time.monotonic() + 60
        while sum(item.read_bytes().count(b"\n") for item in tmp_path.glob("out.jsonl.*.part")) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.3)
        assert process.poll() is None, "the long sequence did not take long"
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
        took = time.monotonic() - begun
    assert process.returncode == 130 and took < patience(2)
    assert "interrupted" in said and "kept in" in said and "Traceback" not in said
    assert not out.exists() and len(records(part.read_text())) == 20


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_reader_that_goes_away_is_no_error(run: Cli, tmp_path: Path) -> None:
    scores = write(tmp_path / "s", *[FINE] * 5000)
    with run.start("decode", scores, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["id"] == "good"
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(20)
    assert process.returncode == 141
