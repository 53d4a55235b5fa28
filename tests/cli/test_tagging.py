"""`bridle tag` with texts and spans: plain text in, character offsets out; every format there and back."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import bridle
from bridle.data import Example, read, write
from bridle.labels import Segment
from commands import Cli
from segment_sums import segment_probabilities

PEOPLE, PLACES = ["Ann", "Bob", "Cy Lee", "Dee Fox"], ["Paris", "Rome", "New York"]
NOTE = "😀 Bob Lee went to New York."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training data of doccano, and a model of it."""
    place = tmp_path_factory.mktemp("tagging")
    with (place / "train.jsonl").open("w", encoding="utf-8") as file:
        for k in range(24):
            who, where = PEOPLE[k % 4], PLACES[k % 3]
            text = f"{'😀 ' * (k % 2)}{who} went to {where}, and came back."
            first, at = text.index(who), text.index(where)
            label = [[first, first + len(who), "PER"], [at, at + len(where), "LOC"]]
            file.write(json.dumps({"id": k, "text": text, "label": label}))
            file.write("\n")
    Cli().ok("train", place / "train.jsonl", "-o", place / "m.bridle", "--features", "fields", "--c2", 0.5)
    (place / "notes.txt").write_text(f"{NOTE}\n\nAnn went to Rome.\n", encoding="utf-8")
    return place


def spans(text: str) -> list[list[tuple[int, int, str, str]]]:
    rows = [json.loads(line) for line in text.splitlines()]
    return [[(s["start"], s["end"], s["label"], s["text"]) for s in row["spans"]] for row in rows]


def test_plain_text_in_and_spans_out(run: Cli, folder: Path) -> None:
    """Cut as the training data was, without being told."""
    out = run.stdout("tag", folder / "m.bridle", folder / "notes.txt", "--format", "text", "--to", "spans")
    assert spans(out) == [
        [(2, 9, "PER", "Bob Lee"), (18, 26, "LOC", "New York")],
        [(0, 3, "PER", "Ann"), (12, 16, "LOC", "Rome")],
    ]
    assert [json.loads(line)["text"] for line in out.splitlines()] == [NOTE, "Ann went to Rome."]


def test_tokens_that_the_model_does_not_know_are_told(run: Cli, folder: Path) -> None:
    command = ["tag", folder / "m.bridle", folder / "notes.txt", "--format", "text", "--to", "spans"]
    assert run(*command, "--option", "tokens=punctuation").stderr.endswith("notes.txt: 2 sequences, 13 tokens\n")
    stderr = run.ok(*command, "--option", "tokens=blanks").stderr
    assert "tokens=blanks splits text differently from the training data, which used tokens=punctuation" in stderr
    assert (
        "tokens=words splits text differently"
        in run("tag", folder / "m.bridle", folder / "train.jsonl", "--option", "tokens=words").stderr
    )
    result = run.stdout("explain", folder / "m.bridle", "--text", "Ann went to Rome.", "--json")
    assert json.loads(result)["tokens"] == ["Ann", "went", "to", "Rome", "."]


def test_spans_with_probabilities(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text("at most 1 segment of PER\n")
    out = run.stdout(
        "tag",
        folder / "m.bridle",
        "--format",
        "text",
        "--to",
        "spans",
        "--scores",
        "--rules",
        tmp_path / "r.rules",
        stdin=NOTE,
    )
    (result,) = [json.loads(line) for line in out.splitlines()]
    tagger = bridle.load(folder / "m.bridle")
    decoder = tagger.decoder(["at most 1 segment of PER"])
    x = {"word": ["😀", "Bob", "Lee", "went", "to", "New", "York", "."]}
    labels = ["O", "B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"]
    segments = [Segment(1, 3, "PER"), Segment(5, 7, "LOC")]
    wanted = segment_probabilities(decoder, tagger.lattice(x), labels, segments)
    assert [span["probability"] for span in result["spans"]] == pytest.approx(wanted, abs=1e-6)
    assert 0.5 < min(wanted) < max(wanted) < 1
    tasks = run.stdout("tag", folder / "m.bridle", "--format", "text", "--to", "labelstudio", "--scores", stdin=NOTE)
    (prediction,) = json.loads(tasks)[0]["predictions"]
    assert prediction["score"] == min(region["score"] for region in prediction["result"])


def test_a_text_without_an_answer_has_no_spans(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text("at least 9 tokens of PER\n")
    command = [
        "tag",
        folder / "m.bridle",
        "--format",
        "text",
        "--to",
        "spans",
        "--rules",
        tmp_path / "r.rules",
        "--scores",
    ]
    out = run(*command, "--on-infeasible", "skip", stdin="Ann left.\n")
    assert out.exit_code == 1 and json.loads(out.stdout) == {"text": "Ann left."}
    out = run(*command, "--on-infeasible", "relax", stdin="Ann left.\n")
    assert out.exit_code == 1 and "probability" not in out.stdout and json.loads(out.stdout)["spans"]
    out = run(*command, "--on-infeasible", "raise", stdin="Ann left.\n")
    assert out.exit_code == 3


@pytest.mark.parametrize(
    "name", ["spans", "doccano", "labelstudio", "brat", "csv", "tsv", "parquet", "arrow", "parserator"]
)
def test_every_format_there_and_back(run: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    """Plain text is tagged into each format; that is trained on, evaluated, and tagged again."""
    built = tmp_path / f"x.{'ann' if name == 'brat' else name}"
    run.ok("tag", folder / "m.bridle", folder / "notes.txt", "--format", "text", "--to", name, "-o", built)
    result = list(read(built, name))
    assert [example.tokens[:2] for example in result] == [["😀", "Bob"], ["Ann", "went"]]
    assert result[1].labels == ["B-PER", "O", "O", "B-LOC", "O"]
    run.ok("train", built, "-o", tmp_path / "m", "--format", name, "--features", "fields", "--c2", 0.01)
    assert "correct: 4." in run.stdout("eval", built, "--model", tmp_path / "m")
    if name != "parserator":  # its markup is the labels
        again = run.ok("tag", tmp_path / "m", built, "--to", name, "-o", tmp_path / f"y{built.suffix}")
        assert [x.labels for x in read(tmp_path / f"y{built.suffix}", name)] == [x.labels for x in result], again.output


def test_output_is_like_the_input(run: Cli, folder: Path, tmp_path: Path) -> None:
    """So that predictions can be loaded where the texts came from: keys, names and ids stay."""
    text = "Ann went to Rome."
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": 5, "text": text, "Comments": []}) + "\n")
    out = run.stdout("tag", folder / "m.bridle", tmp_path / "x.jsonl")
    assert json.loads(out) == {"id": 5, "text": text, "label": [[0, 3, "PER"], [12, 16, "LOC"]]}
    (tmp_path / "x.json").write_text(json.dumps([{"id": 5, "data": {"body": text}}]))
    command = ["tag", folder / "m.bridle", tmp_path / "x.json", "--format", "labelstudio", "--option", "key=body"]
    (task,) = json.loads(run.stdout(*command, "--to-option", "from_name=ner"))
    assert (task["id"], task["data"]) == (5, {"body": text})
    assert {region["from_name"] for region in task["predictions"][0]["result"]} == {"ner"}


def test_plain_text_is_written_with_the_options_of_the_training_data(run: Cli, folder: Path, tmp_path: Path) -> None:
    """So that predictions can be loaded where the training data came from."""
    result = list(read(folder / "train.jsonl"))
    write(tmp_path / "x.jsonl", result, "doccano", units="utf-16")
    more = ["--features", "fields", "--c2", 0.5]
    run.ok("train", tmp_path / "x.jsonl", "--option", "units=utf-16", "-o", tmp_path / "m", *more)
    command = ["tag", tmp_path / "m", folder / "notes.txt", "--format", "text", "--to"]
    first, _ = map(json.loads, run.stdout(*command, "doccano").splitlines())
    assert first["label"] == [[3, 10, "PER"], [19, 27, "LOC"]]
    first, _ = map(json.loads, run.stdout(*command, "doccano", "--to-option", "units=characters").splitlines())
    assert first["label"] == [[2, 9, "PER"], [18, 26, "LOC"]]
    assert spans(run.stdout(*command, "spans"))[0][0][:2] == (2, 9)  # another format

    names = {"key": "body", "from_name": "ner", "to_name": "note"}
    write(tmp_path / "x.json", result, "labelstudio", **names)
    asked = [word for key, value in names.items() for word in ("--option", f"{key}={value}")]
    run.ok("train", tmp_path / "x.json", *asked, "-o", tmp_path / "m", *more)
    task, _ = json.loads(run.stdout(*command, "labelstudio"))
    assert task["data"] == {"body": NOTE}
    assert {(item["from_name"], item["to_name"]) for item in task["predictions"][0]["result"]} == {("ner", "note")}


def test_gold_stands_beside_guess(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("s,Word,Tag\n1,a,X\n,b,Y\n2,a,X\n")
    names = ["--option", "tokens=Word", "--option", "sequence=s", "--label", "Tag"]
    run.ok("train", tmp_path / "x.csv", "-o", tmp_path / "m", "--features", "pos", *names)
    assert run.stdout("tag", tmp_path / "m", tmp_path / "x.csv") == "s,Word,gold,Tag\n1,a,X,X\n1,b,Y,Y\n2,a,X,X\n"


def test_bare_labels_are_spans_and_o_is_none(run: Cli, tmp_path: Path) -> None:
    write(tmp_path / "x.conll", [Example({"word": ["Ann", "Lee", "left"]}, ["PER", "PER", "O"])] * 3)
    run.ok("train", tmp_path / "x.conll", "-o", tmp_path / "m", "--features", "pos")
    assert (
        spans(run.stdout("tag", tmp_path / "m", tmp_path / "x.conll", "--to", "spans"))
        == [[(0, 7, "PER", "Ann Lee")]] * 3
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--to", "doccano", "--scores"], "got --to doccano; wanted --to jsonl, spans, labelstudio"),
        (["--to", "spans", "--k", "2"], "got --to spans; wanted --to jsonl"),
        (["--to", "text"], "the output cannot have this format; got text"),
        (["--to", "brat"], "two files"),
        (["--to", "spanz"], "unknown format; got 'spanz'; wanted 'spans'"),
        (
            ["--to", "spans", "--to-option", "unit=bytes"],
            "format 'spans' has no such option; got 'unit'; wanted 'units'",
        ),
        (
            ["--to", "spans", "--to-option", "units"],
            "--to-option is not of the form KEY=VALUE; got 'units'; wanted KEY=VALUE",
        ),
    ],
)
def test_what_cannot_be_written(run: Cli, folder: Path, more: list[str], message: str) -> None:
    out = run("tag", folder / "m.bridle", "--format", "text", *more, stdin=NOTE)
    assert out.exit_code == 2 and message in out.output


def test_what_reading_changed_is_told(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "Parisian food", "label": [[0, 5, "LOC"]]}\n')
    assert (
        "x.jsonl: changed 1 spans: widened to complete tokens"
        in run.ok("tag", folder / "m.bridle", tmp_path / "x.jsonl").stderr
    )


def test_training_passes_over_texts_that_nobody_has_annotated(run: Cli, tmp_path: Path) -> None:
    """As an export of all tasks has them, some with predictions of an earlier model."""
    region = {"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}
    done = {"data": {"text": "Ann left"}, "annotations": [{"result": [region]}]}
    open_task = {"data": {"text": "Bob left"}, "annotations": [], "predictions": [{"result": [region]}]}
    (tmp_path / "x.json").write_text(json.dumps([done, open_task, done]))
    stderr = run.ok("train", tmp_path / "x.json", "-o", tmp_path / "m", "--c2", 1, "--threads", 1).stderr
    assert "x.json: left out 1 texts without annotations" in stderr
    (tmp_path / "y.json").write_text(json.dumps([open_task]))
    stderr = run.ok("train", tmp_path / "y.json", "-o", tmp_path / "n", code=2).stderr
    assert "there are no sequences; got 1 texts without annotations; wanted labelled sequences" in stderr
    assert "processed 4 tokens" in run.stdout("eval", tmp_path / "x.json", "--model", tmp_path / "m")


def test_a_table_to_be_tagged_may_lack_the_labels_of_the_training_data(run: Cli, tmp_path: Path) -> None:
    example = Example({"word": ["Ann", "left"]}, ["B-PER", "O"])
    write(tmp_path / "train.parquet", [example] * 4, label="ner", names=["O", "B-PER"])
    completed = run("train", tmp_path / "train.parquet", "--label", "NER", "-o", tmp_path / "m.bridle")
    assert (
        completed.exit_code == 2 and "the column does not exist; got 'tokens', 'ner'; wanted 'NER'" in completed.stderr
    )
    run.ok("train", tmp_path / "train.parquet", "--label", "ner", "-o", tmp_path / "m.bridle")
    write(tmp_path / "new.parquet", [Example({"word": ["Ann"]})])
    assert run.stdout("tag", tmp_path / "m.bridle", tmp_path / "new.parquet") == "Ann\tB-PER\n\n"


def test_names_of_integers_on_the_command_line(run: Cli, tmp_path: Path) -> None:
    rows = {"tokens": [["Ann", "left"]] * 4, "ner_tags": [[1, 0]] * 4}
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "x.parquet")
    command = ["train", tmp_path / "x.parquet", "-o", tmp_path / "m.bridle"]
    completed = run(*command)
    assert completed.exit_code == 2 and "Pass --option names=A,B,..., the names of its integers." in completed.stderr
    run.ok(*command, "--option", "names=O,B-PER")
    assert list(bridle.load(tmp_path / "m.bridle").labels_) == ["B-PER", "O"]
