"""Data that is sent: read once, kept for figures, forgotten when others need the space; no file is opened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.report import score
from bridle.serve import Service
from serving import Client, service_of

CONLL = "Knuth AUTHOR\n, O\nTeX TITLE\n. O\n1984 DATE\n\nLamport AUTHOR\nLaTeX TITLE\n"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    built = Client(service_of())
    yield built
    built.app.state.close()


def test_data_is_read_by_its_name_and_content(client: Client) -> None:
    result = client.ok("/data", {"name": "refs.conll", "text": CONLL})
    assert (result["format"], result["has_gold"], result["warnings"]) == ("conll", True, [])
    assert result["sequences"][1] == {"id": None, "tokens": ["Lamport", "LaTeX"], "labels": ["AUTHOR", "TITLE"]}
    assert client.ok("/data", {"name": "refs.conll", "text": CONLL})["id"] == result["id"]
    lines = "".join(json.dumps({"id": k, "tokens": ["a", "b"], "labels": ["O", "?"]}) + "\n" for k in range(3))
    result = client.ok("/data", {"name": "refs.jsonl", "text": lines})
    assert (result["format"], result["sequences"][2]) == (
        "jsonl",
        {"id": "2", "tokens": ["a", "b"], "labels": ["O", None]},
    )
    result = client.ok("/data", {"name": "refs", "text": "Knuth, D. TeX. 1984\n"})
    assert (result["format"], result["has_gold"]) == ("text", False)
    assert result["sequences"][0]["tokens"] == [
        "Knuth",
        ",",
        "D.",
        "TeX",
        ".",
        "1984",
    ]  # split as the training data was


def test_labels_that_the_model_does_not_know_are_a_warning(client: Client) -> None:
    result = client.ok("/data", {"name": "x.conll", "text": "Knuth PERSON\n, O\n"})
    assert "PERSON" in result["warnings"][0]
    figures = client.ok("/evaluate", {"data": result["id"]})
    assert figures["none"]["accuracy"] <= 0.5


def test_labels_that_are_read_as_another_column_are_a_warning() -> None:
    tagger = bridle.LocalTagger(features=["word[0]", "pos[0]"])
    tagger.fit([{"word": ["the", "cat"], "pos": ["DT", "NN"]}], [["D", "N"]])
    tagger.notes_ = {"reader": {"format": "conll", "options": {"columns": ["word", "pos", "label"]}}}
    client = Client(Service(tagger))
    result = client.ok("/data", {"name": "x.conll", "text": "the D\ncat N\nsat V\n"})
    [warning] = result["warnings"]
    assert not result["has_gold"] and warning.startswith(
        "the last column looks like labels, but was read as 'pos'; pass"
    )
    for right in ("the DT\ncat NN\nsat V\n", "the DT D\ncat NN N\n"):
        assert client.ok("/data", {"name": "x.conll", "text": right})["warnings"] == []
    client.app.state.close()


@pytest.mark.parametrize("format", ["brat", "arrow", "parquet"])
def test_formats_that_open_files_are_refused(client: Client, format: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.ann"
    secret.write_text("T1\tX 0 1\ta\n")
    for name in (str(secret), str(secret.with_suffix(".txt")), "../../etc/passwd"):
        error = client.error("/data", {"name": name, "text": "a", "format": format}, 422, "format")
        assert "secret" not in str(error["got"])


def test_a_name_is_only_a_name(client: Client, tmp_path: Path) -> None:
    secret = tmp_path / "secret.conll"
    secret.write_text("secret AUTHOR\n")
    for name in (str(secret), str(tmp_path), "-", "", "\0", "x" * 10_000):
        answer = client.post("/data", {"name": name, "text": CONLL, "format": "conll"})
        assert answer.status_code == 200 and "secret" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x.conll", "text": ""},
        {"name": "x.conll", "text": "\n\n"},
        {"name": "x.jsonl", "text": "{"},
        {"name": "x.conll", "text": "a O\nb\n"},
        {"name": "x", "text": "a", "format": "no such"},
        {"name": "x", "text": "a", "format": "text", "options": {"no such": 1}},
        {"name": "x", "text": "a", "format": "conll", "options": {"columns": 3}},
        {"name": "x", "text": "a,b", "format": "csv", "options": {"delimiter": 7}},
        {"name": "x", "text": "a\0b", "format": "text"},
        {"name": "x", "text": "a", "format": "text", "options": {"encoding": "no such"}},
    ],
)
def test_data_that_cannot_be_read(client: Client, body: dict[str, Any]) -> None:
    answer = client.post("/data", body)
    assert answer.status_code == 422 and answer.json()["error"]["what"]


def test_the_sample_can_be_measured(client: Client) -> None:
    sample = client.ok("/data/sample")
    assert len(sample["sequences"]) >= 500 and sample["has_gold"]
    figures = client.ok("/evaluate", {"data": sample["id"]})
    service = client.service
    tokens = [sentence["tokens"] for sentence in sample["sequences"]]
    gold = [sentence["labels"] for sentence in sample["sequences"]]
    plain = service.tagger.predict(tokens)
    best = service.tagger.predict(tokens, service.default.rules, on_infeasible="relax")
    for labelling, labels in ((figures["none"], plain), (figures["all"], best)):
        assert labelling["accuracy"] == pytest.approx(score(gold, labels, scheme="IO").accuracy)
    assert figures["changed"] == [k for k, (a, b) in enumerate(zip(plain, best, strict=True)) if a != b]
    assert [rule["rule"] for rule in figures["rules"]] == [str(rule) for rule in service.default.rules]
    assert figures["all"]["accuracy"] > figures["none"]["accuracy"] and figures["complete"]


def test_data_without_gold_has_no_quality(client: Client) -> None:
    data = client.ok("/data", {"name": "x.txt", "text": "Knuth, D. TeX. 1984\n"})
    figures = client.ok("/evaluate", {"data": data["id"], "rules": "present AUTHOR"})
    assert (figures["none"], figures["all"], figures["rules"][0]["gold"]) == (None, None, None)


def test_data_is_forgotten_when_others_need_the_space() -> None:
    client = Client(service_of(data_bytes=30_000))
    first = client.ok("/data", {"name": "x.conll", "text": CONLL})["id"]
    client.ok("/evaluate", {"data": first})
    for k in range(20):
        client.ok("/data", {"name": f"{k}.conll", "text": CONLL})
    assert "again" in client.error("/evaluate", {"data": first}, 404, "unknown-data")["cause"]
    client.app.state.close()


def test_a_server_without_a_sample() -> None:
    service = service_of()
    client = Client(type(service)(service.tagger))
    assert client.get("/data/sample").json()["error"]["code"] == "unknown-data"
    client.app.state.close()


def test_a_model_of_several_columns_is_explained_by_them() -> None:
    words, pos = [["Ann", "left"], ["the", "cat"]], [["NNP", "VBD"], ["DT", "NN"]]
    X = [{"word": word, "pos": tag} for word, tag in zip(words, pos, strict=True)]
    model = bridle.CRF(features=["word[0]", "pos[0]"], c1=0.0, c2=0.1).fit(X, [["PER", "O"], ["O", "O"]])
    client = Client(Service(model))
    text = "Ann NNP PER\nleft VBD O\n\nthe DT O\ncat NN O\n"
    options = {"columns": ["word", "pos", "label"]}
    data = client.ok("/data", {"name": "x.conll", "text": text, "format": "conll", "options": options})
    columns = data["sequences"][0]["columns"]
    assert columns == {"word": ["Ann", "left"], "pos": ["NNP", "VBD"]} and list(columns) == ["word", "pos"]
    output = client.ok("/explain", {"columns": columns, "rules": "fix O at pos /NNP/"})
    assert (output["tokens"], output["plain"]["labels"], output["best"]["labels"]) == (
        words[0],
        ["PER", "O"],
        ["O", "O"],
    )
    client.error("/explain", {"tokens": words[0]}, 422, "columns")


def test_a_budget_leaves_out_single_rules() -> None:
    client = Client(service_of(seconds=36_000.0))  # no sequence runs out of time, however busy the machine is
    part = client.ok("/evaluate", {"data": "sample", "budget": 0})
    whole = client.ok("/evaluate", {"data": "sample"})
    assert whole["complete"] and not part["complete"]
    assert client.ok("/evaluate", {"data": "sample", "budget": 0})["rules"] == whole["rules"]  # it was found out before
    assert part["all"] == whole["all"] and {rule["alone"] is None for rule in part["rules"]} == {True}
    client.error("/evaluate", {"data": "sample", "budget": -1}, 422, "bad-value")
    client.app.state.close()
