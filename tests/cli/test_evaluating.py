"""`bridle eval`: it reads what `bridle tag` writes, in every format, and counts the same as with the model itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bridle.data import Example, formats, read, write
from commands import Cli

WHO = ["Ann", "Bob", "Cy Lee", "Dee Fox"]
WHERE = ["Paris", "Rome", "New York"]
COUNTS = ("tokens", "correct_tokens", "exact_sequences", "segments", "segment_errors")
FIGURES = (*COUNTS, "by_type", "by_label", "confusion")
SUFFIX = {"brat": ".ann", "parquet": ".parquet", "arrow": ".arrow", "csv": ".csv", "conllu": ".conllu"}


def labelled(who: str, where: str, kind: str = "LOC") -> list[tuple[str, str]]:
    """The tokens of a sentence with their labels."""
    pairs = [(word, f"{'B' if k == 0 else 'I'}-PER") for k, word in enumerate(who.split())]
    pairs += [("went", "O"), ("to", "O")]
    pairs += [(word, f"{'B' if k == 0 else 'I'}-{kind}") for k, word in enumerate(where.split())]
    return [*pairs, (".", "O")]


def sequences(gold: str) -> list[list[tuple[str, str]]]:
    """Those to train on; in those to compare with, some labels are others."""
    result = [labelled(who, where) for who in WHO for where in WHERE]
    if gold == "odd":
        result[1] = labelled(WHO[0], WHERE[1], "ORG")
        result[5][0] = (result[5][0][0], "O")
        result[7][1] = (result[7][1][0], "O")
        result[8] = [(word, "O") for word, _ in result[8]]
    return result


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gold in several formats, a model, and its figures."""
    place = tmp_path_factory.mktemp("evaluating")
    for name in ("train", "odd"):
        text = "\n".join("\n".join(map("\t".join, pairs)) + "\n" for pairs in sequences(name))
        (place / f"{name}.conll").write_text(text, encoding="utf-8")
    run.ok("train", place / "train.conll", "-o", place / "m.bridle", "--features", "word[0]", "--c2", 0.1)
    (place / "model.json").write_text(run.stdout("eval", place / "odd.conll", "--model", place / "m.bridle", "--json"))
    for name, kind in (("odd.jsonl", "jsonl"), ("odd.csv", "csv"), ("odd.doccano.jsonl", "doccano")):
        write(place / name, read(place / "odd.conll"), kind)
    return place


def figures(text: str) -> dict[str, Any]:
    document = json.loads(text)
    return {name: document[name] for name in FIGURES}


@pytest.mark.parametrize("name", sorted(set(formats()) - {"text", "segmented"}))
def test_what_was_tagged_is_read_back(run: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    """The figures of a file are those of the model, whichever formats gold and predictions have."""
    wanted = figures((folder / "model.json").read_text())
    assert 0 < wanted["exact_sequences"] < 12 and wanted["segment_errors"]["wrong_type"] == 1
    built = tmp_path / f"tagged{SUFFIX.get(name, '.out')}"
    run.ok("tag", folder / "m.bridle", folder / "odd.conll", "--to", name, "-o", built)
    named = ["--predicted-format", name] if name in ("segments", "slashed") else []  # others are told by their look
    for gold in ("odd.csv", "odd.doccano.jsonl"):
        assert figures(run.stdout("eval", folder / gold, built, *named, "--json")) == wanted, gold
    result = run("eval", built, "--format", name, "--json")
    if name in ("conll", "jsonl", "csv", "tsv", "parquet", "arrow"):  # gold stands there too
        assert figures(result.stdout) == wanted
    else:
        assert result.exit_code == 2 and "second file" in result.output


@pytest.mark.parametrize("to", [[], ["--to", "jsonl"], ["--to", "spans"], ["--to", "labelstudio"]])
def test_probabilities_do_no_harm(run: Cli, folder: Path, tmp_path: Path, to: list[str]) -> None:
    wanted = figures((folder / "model.json").read_text())
    out = run.stdout("tag", folder / "m.bridle", folder / "odd.conll", "--scores", *to)
    (tmp_path / "x.json").write_text(out)
    assert figures(run.stdout("eval", folder / "odd.conll", tmp_path / "x.json", "--json")) == wanted
    assert figures(run.stdout("eval", folder / "odd.conll", "-", "--json", stdin=out)) == wanted


def test_rules_that_are_broken_are_no_columns(run: Cli, folder: Path, tmp_path: Path) -> None:
    """Once: "'violated' is not a column"."""
    (tmp_path / "r.rules").write_text("at most 1 segment of PER [penalty 2]\nat least 6 tokens of PER [penalty 1]\n")
    out = run.stdout("tag", folder / "m.bridle", folder / "odd.conll", "--json", "--rules", tmp_path / "r.rules")
    assert len(json.loads(out.splitlines()[0])["violated"]) == 1
    assert figures(run.stdout("eval", "-", "--json", stdin=out))["tokens"] == 70
    ranked = run.stdout("tag", folder / "m.bridle", folder / "odd.conll", "--k", 2)
    assert figures(run.stdout("eval", "-", "--json", stdin=ranked)) == figures((folder / "model.json").read_text())


def test_packed_files_and_pipes(run: Cli, folder: Path, tmp_path: Path) -> None:
    wanted = figures((folder / "model.json").read_text())
    built = tmp_path / "tagged.csv.gz"
    run.ok("tag", folder / "m.bridle", folder / "odd.conll", "--to", "csv", "-o", built)
    assert gzip.decompress(built.read_bytes()).startswith(b"word,gold,label")
    assert figures(run.stdout("eval", folder / "odd.jsonl", built, "--json")) == wanted
    out = run.stdout("tag", folder / "m.bridle", folder / "odd.conll")
    assert figures(run.stdout("eval", "-", "--json", stdin=out)) == wanted
    assert figures(run.stdout("eval", folder / "odd.jsonl", "-", "--json", stdin=out)) == wanted
    assert "- twice" in run("eval", "-", "-").output


def test_the_options_of_gold_are_not_those_of_what_was_tagged(run: Cli, folder: Path, tmp_path: Path) -> None:
    """Gold has names of its own; `bridle tag` writes the usual ones, and one more column."""
    wanted = figures((folder / "model.json").read_text())
    rows = [json.loads(line) for line in (folder / "odd.jsonl").read_text().splitlines()]
    renamed = [{"words": row["tokens"], "ner": row["labels"]} for row in rows]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in renamed))
    (tmp_path / "gold.txt").write_text((folder / "odd.conll").read_text().replace("\t", " X "))
    run.ok("tag", folder / "m.bridle", folder / "odd.conll", "--json", "-o", tmp_path / "tagged.jsonl")
    run.ok("tag", folder / "m.bridle", folder / "odd.conll", "-o", tmp_path / "tagged.txt")
    jsonl = [tmp_path / "gold.jsonl", "--option", "tokens=words", "--label", "ner"]
    conll = [tmp_path / "gold.txt", "--columns", "word,pos,ner"]
    for gold in (jsonl, conll):
        for predicted in ("tagged.jsonl", "tagged.txt"):
            assert figures(run.stdout("eval", gold[0], tmp_path / predicted, *gold[1:], "--json")) == wanted
    moved = (folder / "odd.conll").read_text().splitlines()
    (tmp_path / "first.txt").write_text("\n".join("\t".join(reversed(line.split("\t"))) for line in moved) + "\n")
    pair = [tmp_path / "first.txt", tmp_path / "first.txt"]
    assert json.loads(run.stdout("eval", *pair, "--label", "1", "--format", "conll", "--json"))["exact"] == 1.0
    out = run("eval", folder / "odd.conll", tmp_path / "tagged.txt", "--predicted-option", "label=2", "--json")
    assert json.loads(out.stdout)["exact"] == 1.0  # the gold that was written along


def test_words_of_characters(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("我 喜欢 你\n你 喜欢 我们\n" * 4, encoding="utf-8")
    (tmp_path / "features").write_text("char[0]\nchar[1]\n")
    (tmp_path / "gold.txt").write_text("我 喜欢 你\n你 喜 欢 我们\n", encoding="utf-8")
    model = ["-o", tmp_path / "m", "--format", "segmented", "--features", tmp_path / "features", "--c2", 0.01]
    run.ok("train", tmp_path / "train.txt", *model)
    wanted = figures(run.stdout("eval", tmp_path / "gold.txt", "--model", tmp_path / "m", "--json"))
    assert wanted["exact_sequences"] == 1
    for name in ("segmented", "conll", "jsonl", "spans"):
        run.ok("tag", tmp_path / "m", tmp_path / "gold.txt", "--to", name, "-o", tmp_path / "out")
        command = ["eval", tmp_path / "gold.txt", tmp_path / "out", "--format", "segmented", "--json"]
        assert figures(run.stdout(*command, "--predicted-format", name)) == wanted


# ---- sequences that belong together ---------------------------------------------------------------------------------


def test_sequences_are_matched_by_their_ids(run: Cli, tmp_path: Path) -> None:
    gold = [{"id": k, "tokens": [f"t{k}"], "labels": ["A"]} for k in range(4)]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    turned = "sentence,word,label\r\n" + "".join(f"{k},t{k},{'B' if k == 2 else 'A'}\r\n" for k in (3, 1, 0, 2))
    (tmp_path / "guess.csv").write_text(turned)
    command = ["eval", tmp_path / "gold.jsonl", tmp_path / "guess.csv", "--predicted-option", "sequence=sentence"]
    document = json.loads(run.stdout(*command, "--json", "--wrong", 9))
    assert document["exact_sequences"] == 3 and document["wrong"][0]["tokens"] == ["t2"]
    (tmp_path / "guess.csv").write_text(turned.replace("\n3,", "\n9,"))
    assert "this sequence has no prediction; got the id 3" in run(*command).output
    (tmp_path / "guess.csv").write_text(turned.replace("\n0,", "\n1,").replace("\n2,t2,B", "\n1,t2,B"))
    assert run(*command).exit_code == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\tX\n\nb\tX\n", "the files have different numbers of sequences; got 2 predicted; wanted 3"),
        ("a\tX\n\nb\tX\n\nc\tX\n\nd\tX\n", "got 4 predicted; wanted 3"),
        ("a\tX\n\nb\tX\nb\tX\n\nc\tX\n", "another number of tokens than gold"),
        ("a\tX\n\nz\tX\n\nc\tX\n", "another text than gold"),
        ("a\tX\n\nc\tX\n", "A sequence seems to be missing in the predictions."),
        ("a\n\nb\n\nc\n", "no predicted labels"),
    ],
)
def test_files_that_do_not_belong_together(run: Cli, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "gold.conll").write_text("a\tX\n\nb\tX\n\nc\tX\n")
    (tmp_path / "guess.conll").write_text(text)
    result = run("eval", tmp_path / "gold.conll", tmp_path / "guess.conll")
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output


def test_spans_over_another_text(run: Cli, folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.spans", [Example({"word": ["Eve"]}, ["B-PER"])] * 12, "spans")
    result = run("eval", folder / "odd.conll", tmp_path / "x.spans", "--predicted-format", "spans")
    assert result.exit_code == 2 and "another text than" in result.output


def test_a_sequence_without_an_answer_is_wrong(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "no.rules").write_text("at least 2 tokens of PER\nat most 1 token of PER\n")
    tag = ["tag", folder / "m.bridle", folder / "odd.conll", "--rules", tmp_path / "no.rules"]
    for name in ("conll", "jsonl", "spans"):
        run.ok(*tag, "--on-infeasible", "skip", "--to", name, "-o", tmp_path / name, code=1)
        pair = [folder / "odd.conll", tmp_path / name, "--predicted-format", name]
        document = json.loads(run.stdout("eval", *pair, "--json"))
        assert document["unanswered"] == 12 and document["exact"] == document["accuracy"] == 0.0
        assert document["scheme"] == "prefixes" and document["segments"]["guessed"] == 0
        assert "sequences without predicted labels: 12 of 12" in run.stdout("eval", *pair)


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_what_is_printed(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text("at least 1 token of PER\n")
    more = ["--model", folder / "m.bridle", "--rules", tmp_path / "r.rules", "--wrong", 1]
    out = run.stdout("eval", folder / "odd.conll", *more)
    assert out.startswith("processed 70 tokens with")
    for line in (
        "sequences all right: 8 of 12 (66.67%)",
        "segments not right: 1 wrong type, 1 wrong boundary, 3 spurious",
        "B-LOC     83.33%  100.00%  90.91%       10",
        "O      B-PER           2    4.76%",
        "at least 1 token of PER               2             0",
        f"{folder / 'odd.conll'}:7: 1 of 5 labels wrong",
        "  Rome   B-ORG  B-LOC      <",
    ):
        assert line in out
    assert "<\n" not in run.stdout("eval", folder / "odd.conll", *more[:4])


def test_rules_without_a_model(run: Cli, folder: Path, tmp_path: Path) -> None:
    run.ok("tag", folder / "m.bridle", folder / "odd.conll", "-o", tmp_path / "out.txt")
    (tmp_path / "r.rules").write_text('present PER\nfix PER at tokens "Ann"\n')
    document = json.loads(run.stdout("eval", tmp_path / "out.txt", "--rules", tmp_path / "r.rules", "--json"))
    assert [(rule["gold"], rule["predicted"]) for rule in document["rules"]] == [(2, 0), (0, 0)]


def test_a_page_is_written(run: Cli, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run.ok("eval", folder / "odd.conll", "--model", folder / "m.bridle", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "gold B-ORG, predicted B-LOC: 1" in text and "odd.conll:7" in text and "src=" not in text
    result = run("eval", folder / "odd.conll", "--model", folder / "m.bridle", "--html", folder / "odd.conll")
    assert result.exit_code == 2 and "would be overwritten" in result.output


def test_options_that_have_nothing_to_say(run: Cli, folder: Path) -> None:
    assert "GOLD and PREDICTED" in run("eval", folder / "odd.conll", "--predicted-format", "csv").output


def test_an_estimate_without_labels(tmp_path: Path, run: Cli) -> None:
    (tmp_path / "train.txt").write_text("Ann N\nis O\n\nBob N\nis O\n\nRome C\nis O\n\nOslo C\nis O\n")
    (tmp_path / "heap.txt").write_text("Kim\nis\n\nLima\nis\n")
    (tmp_path / "my.rules").write_text("fix C at tokens /Lima/\n")
    gold, heap, rules = (tmp_path / name for name in ("train.txt", "heap.txt", "my.rules"))
    model = tmp_path / "m.bridle"
    run.ok("train", gold, "--columns", "word,label", "--features", "ner", "-o", model)
    output = run.stdout("eval", gold, "--model", model, "--unlabelled", heap, "--rules", rules)
    assert output.startswith("2 sequences without labels, 4 tokens\ntokens right: about ")
    figures = json.loads(run.stdout("eval", gold, "--model", model, "--unlabelled", heap, "--json"))
    assert 0 < figures["low"] < figures["accuracy"] < figures["high"] < 1 and figures["labelled"] == 4
    for wrong in (["--html", tmp_path / "page.html"], ["--wrong", "3"], ["--by-label"]):
        assert "--unlabelled" in run.ok("eval", gold, *wrong, "--model", model, "--unlabelled", heap, code=2).stderr
    assert "--model" in run.ok("eval", gold, "--unlabelled", heap, code=2).stderr
