"""Models and data of different formats: read as what the file is, or refused with what to give."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from bridle.data import Example, read, write
from commands import Cli

WORDS = [["Ann", "went", "to", "Rome"], ["Bob", "sleeps"], ["Ann", "sleeps", "in", "Paris"]]
KINDS = {"Ann": "B-PER", "Bob": "B-PER", "Rome": "B-LOC", "Paris": "B-LOC"}
SUFFIX = {
    "conll": ".txt",
    "jsonl": ".jsonl",
    "csv": ".csv",
    "parquet": ".parquet",
    "doccano": ".jsonl",
    "tagged": ".txt",
}
TRAINED = ["conll", "jsonl", "csv", "parquet", "doccano", "tagged"]
TAGGED = ["conll", "jsonl", "csv", "parquet", "doccano", "spans", "text"]


def examples(more: bool = False) -> list[Example]:
    """Labelled sequences, with a column of lengths or without."""
    columns = [{"word": words, **({"pos": [str(len(w)) for w in words]} if more else {})} for words in WORDS]
    return [Example(x, [KINDS.get(word, "O") for word in x["word"]]) for x in columns]


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and models of each format."""
    place = tmp_path_factory.mktemp("matching")
    for name in {*TRAINED, *TAGGED} - {"text"}:
        write(place / f"{name}{SUFFIX.get(name, '.out')}", examples(), name)
    (place / "text.out").write_text("".join(" ".join(words) + "\n" for words in WORDS))
    for name in TRAINED:
        data, model = place / f"{name}{SUFFIX[name]}", place / f"{name}.bridle"
        run.ok("train", data, "-o", model, "--format", name, "--features", "word[0]", "--c2", 0.1)
    write(place / "pos.jsonl", examples(more=True), "jsonl")
    (place / "features").write_text("word[0]\npos[0]\n")
    for name in ("jsonl", "conll"):
        write(place / f"pos.{name}", examples(more=True), name)
        more = ["--columns", "token,pos,label"] if name == "conll" else []
        features = place / f"{name}.features"
        features.write_text("token[0]\npos[0]\n" if more else "word[0]\npos[0]\n")
        run.ok("train", place / f"pos.{name}", "-o", place / f"pos-{name}", *more, "--features", features, "--c2", 0.1)
    return place


@pytest.mark.parametrize("data", TAGGED)
@pytest.mark.parametrize("model", TRAINED)
def test_a_model_tags_data_of_any_format(run: Cli, folder: Path, model: str, data: str) -> None:
    path = folder / f"{data}{SUFFIX.get(data, '.out')}"
    command = ["tag", folder / f"{model}.bridle", path, "--to", "slashed"]
    result = run(*command)
    if data == "text" and model != "tagged":
        assert result.exit_code == 2 and "--format text" in result.output
        result = run(*command, "--format", "text")
    assert result.exit_code == 0, result.output
    assert [x.labels for x in read(path, data) if data != "text"] in ([], [x.labels for x in examples()])
    wanted = [" ".join(f"{w}/{KINDS.get(w, 'O')}" for w in words) for words in WORDS]
    assert result.stdout.splitlines() == wanted


def test_the_output_is_as_the_input(run: Cli, folder: Path) -> None:
    out = run.stdout("tag", folder / "conll.bridle", folder / "jsonl.jsonl")
    assert json.loads(out.splitlines()[0])["labels"] == ["B-PER", "O", "O", "B-LOC"]
    assert run.stdout("tag", folder / "jsonl.bridle", folder / "conll.txt").startswith("Ann\tB-PER\tB-PER\n")
    piped = (folder / "jsonl.jsonl").read_text()
    assert run.stdout("tag", folder / "conll.bridle", "-", "--to", "slashed", stdin=piped).startswith(
        "Ann/B-PER went/O"
    )


def test_columns_are_found_by_their_names(run: Cli, folder: Path, tmp_path: Path) -> None:
    """The tokens are called `token` in one, `tokens` in the other; `pos` is required."""
    wanted = run.stdout("tag", folder / "pos-conll", folder / "pos.conll", "--to", "slashed")
    assert run.stdout("tag", folder / "pos-conll", folder / "pos.jsonl", "--to", "slashed") == wanted
    result = run("tag", folder / "pos-jsonl", folder / "pos.conll")
    assert result.exit_code == 2 and "the model needs the column 'pos'" in result.output
    assert "--columns word,pos,label" in result.output
    named = ["--columns", "word,pos,label", "--to", "slashed"]
    assert run.stdout("tag", folder / "pos-jsonl", folder / "pos.conll", *named) == wanted
    bare = "".join(line.rpartition("\t")[0] + "\n" for line in (folder / "pos.conll").read_text().splitlines())
    (tmp_path / "bare.conll").write_text(bare)
    assert run.stdout("tag", folder / "pos-jsonl", tmp_path / "bare.conll", *named) == wanted


@pytest.mark.parametrize(
    ("data", "more", "says"),
    [
        ("jsonl.jsonl", [], "Add 'pos' to the data"),
        ("csv.csv", [], "Add 'pos' to the data"),
        ("spans.out", [], "spans has tokens only"),
        ("text.out", ["--format", "text"], "text has tokens only"),
    ],
)
def test_a_column_that_is_missing(run: Cli, folder: Path, data: str, more: list[str], says: str) -> None:
    for model, command in (("pos-jsonl", "tag"), ("pos-conll", "tag"), ("pos-jsonl", "explain")):
        result = run(command, folder / model, folder / data, *more)
        assert result.exit_code == 2 and "the model needs the column 'pos'" in result.output and says in result.output


def test_every_command_reads_other_formats(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text("at most 3 segments of PER\n")
    model, data = folder / "conll.bridle", folder / "jsonl.jsonl"
    assert json.loads(run.stdout("eval", data, "--model", model, "--json"))["exact"] == 1.0
    assert "100.0%" in run.stdout("rules", "test", tmp_path / "r.rules", data, "--model", model)
    assert run("explain", model, data, "--sequence", 0, "--json").exit_code == 0


def test_an_explicit_format_wins(run: Cli, folder: Path) -> None:
    result = run("tag", folder / "conll.bridle", folder / "jsonl.jsonl", "--format", "conll")
    assert result.exit_code == 2 or "B-PER" not in result.stdout.splitlines()[0]


def test_ten_columns_with_names_of_their_own(run: Cli, tmp_path: Path) -> None:
    """They look like CoNLL-U, but the model was trained on columns that the user has named."""
    names = "n,form,a,b,c,d,e,f,g,label"
    rows = [[str(k), f"w{k}", *["_"] * 7, f"L{k % 2}"] for k in range(1, 4)]
    (tmp_path / "x.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "t").write_text("form[0]\n")
    command = ["train", tmp_path / "x.txt", "-o", tmp_path / "m", "--format", "conll", "--columns", names]
    run.ok(*command, "--features", tmp_path / "t", "--c2", 0.1)
    assert json.loads(run.stdout("eval", tmp_path / "x.txt", "--model", tmp_path / "m", "--json"))["exact"] == 1.0


@pytest.mark.slow
def test_what_comes_through_a_pipe_is_answered_at_once(run: Cli, folder: Path) -> None:
    """Although it is looked at first."""
    with run.start("tag", folder / "conll.bridle", stdin=-1, stdout=-1) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"Ann O\nsleeps O\n\nBob O\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"Ann\tO\tB-PER\n"
        process.communicate(b"")


# ---- files that look like text --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def markup(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of formats whose data to be tagged is plain text, and labelled files with blanks."""
    place = tmp_path_factory.mktemp("markup")
    plain = [Example(x.columns, [label.rpartition("-")[2] for label in x.known_labels]) for x in examples()]
    for name in ("tagged", "segments", "parserator"):
        write(place / name, plain, name)
        run.ok("train", place / name, "-o", place / f"{name}.bridle", "--format", name, "--features", "word[0]")
    write(place / "conll", plain, "conll", separator="blanks")
    write(place / "slashed", plain, "slashed")
    return place


SLASHED = [" ".join(f"{w}/{KINDS.get(w, 'O').rpartition('-')[2]}" for w in words) for words in WORDS]


@pytest.mark.parametrize("data", ["conll", "segments", "slashed", "tagged", "parserator"])
@pytest.mark.parametrize("model", ["tagged", "segments", "parserator"])
def test_labelled_data_is_not_taken_for_text(run: Cli, markup: Path, model: str, data: str) -> None:
    out = run.stdout("tag", markup / f"{model}.bridle", markup / data, "--to", "slashed")
    assert out.splitlines() == SLASHED


@pytest.mark.parametrize(
    "text",
    [
        "Ann sleeps\nBob sleeps\nAnn left\n",  # as many words on each line
        "ANN LEE\nBOB ROSS\nJIM BEAM\n",
        "Ann sleeps.\n\nBob sleeps.\n\nAnn left.\n",
        "Rome | Paris\nAnn | Bob\n",
        "and/or\n1/2\nhttp://a/b\n",
    ],
)
def test_text_is_read_as_text(run: Cli, markup: Path, text: str) -> None:
    (markup / "notes").write_text(text)
    out = run.stdout("tag", markup / "tagged.bridle", markup / "notes", "--to", "slashed")
    words = [[piece.rpartition("/")[0] for piece in line.split()] for line in out.splitlines()]
    assert words == [line.split() for line in text.splitlines() if line]


@pytest.mark.parametrize("model", ["conll", "jsonl", "csv", "doccano"])
@pytest.mark.parametrize("data", ["conll", "segments", "slashed"])
def test_labelled_data_with_blanks(run: Cli, folder: Path, markup: Path, model: str, data: str) -> None:
    out = run.stdout("tag", folder / f"{model}.bridle", markup / data, "--to", "slashed")
    assert out.splitlines() == [" ".join(f"{w}/{KINDS.get(w, 'O')}" for w in words) for words in WORDS]


@pytest.mark.parametrize("model", ["jsonl", "doccano", "conll"])
@pytest.mark.parametrize(
    ("line", "format"),
    [
        ("Ann B-PER", "conll"),
        ("Ann NNP B-PER", "conll"),
        ("Ann/B-PER went/O home/O", "slashed"),
        ("Ann left |PER", "segments"),
        ("the dog sleeps .", "text"),
    ],
)
def test_the_advice_names_the_likely_format(
    run: Cli, folder: Path, tmp_path: Path, model: str, line: str, format: str
) -> None:
    (tmp_path / "x").write_text(line + "\n")
    result = run("tag", folder / f"{model}.bridle", tmp_path / "x", "--format", model)
    if model == "conll" == format:
        assert "Pass --format" not in result.output
    else:
        assert result.exit_code == 2 and f"Pass --format {format}." in result.output


def test_conllu_for_a_model_of_conll(run: Cli, folder: Path, tmp_path: Path) -> None:
    """By its suffix and by its first lines; read as conll, the error names the format."""
    rows = "".join(f"{k}\t{word}" + "\t_" * 8 + "\n" for k, word in enumerate(WORDS[0], 1))
    for name in ("x.conllu", "x.txt"):
        (tmp_path / name).write_text(f"# sent_id = 1\n{rows}\n")
        out = run.stdout("tag", folder / "conll.bridle", tmp_path / name, "--to", "slashed")
        assert out == "Ann/B-PER went/O to/O Rome/B-LOC\n"
    result = run("tag", folder / "conll.bridle", tmp_path / "x.conllu", "--format", "conll")
    assert result.exit_code == 2 and "Is it conllu? Pass --format conllu." in result.output


FIXED = ["--c1", "0", "--c2", "0.01"]
NESTED = [
    f"<author> <person>  A. {name} </person> , <person> B. C. </person> </author>\t<title> On {what} . </title> "
    f"<venue> <journal> J. {what} </journal> <i>vol.</i>  7 , <year> 19{k:02} </year> </venue>\n"
    for k, (name, what) in enumerate(itertools.product(["Cau", "Roe", "Kim", "Lee"], ["Logic", "Sets", "Graphs"]))
]


def test_nothing_of_nested_tags_is_lost(run: Cli, tmp_path: Path) -> None:
    """Split, train, tag, and back: inner tags, spacing, every token and every label."""
    path, parts = tmp_path / "refs.txt", tmp_path / "parts"
    path.write_text("".join(NESTED))
    refused = run.ok("train", path, "-o", tmp_path / "x.bridle", code=2).stderr
    assert "refs.txt:1: a tag is within another one; got <person> in <author>" in refused
    assert "--option depth=path" in refused and "depth=inner or depth=outer" in refused
    deep = ["--option", "depth=path"]
    run.ok("split", path, "-o", parts, "--into", "train=0.75,test=0.25", *deep)
    copied = [line for name in ("train", "test") for line in (parts / f"{name}.txt").read_text().splitlines(True)]
    assert sorted(copied) == sorted(NESTED)
    trained = run.ok("train", path, "-o", tmp_path / "m.bridle", *FIXED, "--iterations", "40", *deep)
    assert "refs.txt: 12 sequences, 168 tokens, 7 labels" in trained.stderr
    gold = list(read(path, depth="path"))
    assert {y for x in gold for y in x.labels or ()} == {
        "author",
        "author/person",
        "title",
        "venue",
        "venue/journal",
        "venue/i",
        "venue/year",
    }
    text = tmp_path / "new.raw"
    text.write_text("".join(" ".join(example.tokens) + "\n" for example in gold))
    run.ok("tag", tmp_path / "m.bridle", text, "-o", tmp_path / "tagged.txt", "--to", "tagged")
    again = list(read(tmp_path / "tagged.txt", depth="path"))
    assert [(x.tokens, x.labels) for x in again] == [(x.tokens, x.labels) for x in gold]
    spaced = "".join(NESTED).replace("<i>", "<i> ").replace("</i>", " </i>")
    assert (tmp_path / "tagged.txt").read_text().split() == spaced.split()
    assert '"accuracy": 1.0' in run.stdout("eval", path, "--model", tmp_path / "m.bridle", "--json")


@pytest.mark.parametrize("to", ["doccano", "labelstudio", "spans"])
def test_exports_are_read_as_the_model_reads(run: Cli, tmp_path: Path, to: str) -> None:
    """Plain labels and tokens split at blanks: B- and I- and other tokens gave 0 % and a warning."""
    rows = [Example({"word": ["Lee,", "A.", "(1999)"]}, ["AUTHOR", "AUTHOR", "DATE"]) for _ in range(6)]
    write(tmp_path / "train.txt", rows, "tagged")
    model, out = tmp_path / "m.bridle", tmp_path / "x.json"
    run.ok("train", tmp_path / "train.txt", "-o", model, *FIXED)
    (tmp_path / "new.raw").write_text("Lee, A. (1999)\n" * 3)
    kind = ["--to-option", "kind=annotations"] if to == "labelstudio" else []
    run.ok("tag", model, tmp_path / "new.raw", "--to", to, *kind, "-o", out)
    for words in ([], ["--format", to]):
        result = run.ok("eval", out, "--model", model, "--json", *words)
        assert json.loads(result.stdout)["accuracy"] == 1 and result.stderr.count("\n") == 1


def test_labels_of_other_names_are_an_error_or_renamed(run: Cli, tmp_path: Path) -> None:
    write(tmp_path / "a.txt", examples(), "conll")
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "b.txt").write_text(text.replace("-PER", "-PERS").replace("-LOC", "-PLACE"))
    model = tmp_path / "m.bridle"
    run.ok("train", tmp_path / "a.txt", "-o", model, *FIXED)
    wrong = run.ok("eval", tmp_path / "b.txt", "--model", model, code=2).stderr
    assert "the gold labels have other names than the predicted ones; got B-PERS, B-PLACE in gold" in wrong
    assert "--map OLD=NEW" in wrong
    (tmp_path / "names.map").write_text("PERS = PER\n\nPLACE\tLOC\n")
    for names in ("PERS=PER,PLACE=LOC", tmp_path / "names.map"):
        result = run.ok("eval", tmp_path / "b.txt", "--model", model, "--json", "--map", names)
        assert json.loads(result.stdout)["accuracy"] == 1
    other = tmp_path / "n.bridle"  # a model keeps the new names for its data
    run.ok("train", tmp_path / "b.txt", "-o", other, *FIXED, "--map", "PERS=PER,PLACE=O")
    assert json.loads(run.stdout("eval", tmp_path / "b.txt", "--model", other, "--json"))["accuracy"] == 1
    run.ok("split", tmp_path / "b.txt", "-o", tmp_path / "p", "--into", "a=0.5,b=0.5", "--map", "PERS=PER")
    assert "PERS" not in (tmp_path / "p" / "a.txt").read_text() + (tmp_path / "p" / "b.txt").read_text()
    for bad in ("PERS", "PERS=", "A=B,A=C"):
        run.ok("eval", tmp_path / "b.txt", "--model", model, "--map", bad, code=2)


def test_what_was_read_is_counted(run: Cli, tmp_path: Path) -> None:
    """One huge sequence, sequences of one token, labels that occur once."""

    def told(text: str) -> str:
        (tmp_path / "a.txt").write_text(text)
        return run.ok("train", tmp_path / "a.txt", "-o", tmp_path / "m.bridle", *FIXED, "--iterations", "2").stderr

    assert "a.txt: 1 sequence, 1,500 tokens, 2 labels" in (huge := told("a A\nb B\n" * 750))
    assert "a.txt:1: one sequence has 1,500 of 1,500 tokens" in huge and "--option comment='#doc'" in huge
    for command in (
        ["tag", tmp_path / "m.bridle"],
        ["eval", "--model", tmp_path / "m.bridle"],
        ["explain", tmp_path / "m.bridle"],
    ):
        stderr = run.ok(*command, tmp_path / "a.txt").stderr
        assert "a.txt: 1 sequence, 1,500 tokens" in stderr and "one sequence has 1,500 of 1,500 tokens" in stderr
    assert "every sequence has one token" in told("a A\n\nb B\n\n" * 20)
    rare = told("a A\nb B\n\n" * 9 + "a AA\n")
    assert "labels that occur once: AA;" in rare and "one sequence" not in rare and "one token" not in rare


@pytest.mark.parametrize("command", [["learn", "-o", "-"], ["eval"], ["tag", "conll.bridle"], ["train", "-o", "x"]])
def test_a_model_is_no_data(run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.chdir(folder)
    result = run(*command, "conll.bridle")
    assert result.exit_code == 2 and "conll.bridle: this is a model, not a file of sequences" in result.output
