"""brat: a text and its annotations beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.data import Example, read, write
from bridle.data.tokenizer import tokenize
from bridle.errors import FileError

TEXT = "Ann 😀 Lee left.\n\nShe saw New\nYork. Bob\r\n"
NOTES = (
    "T1\tPER 0 9\tAnn 😀 Lee\nT2\tLOC 25 28;29 33\tNew York\nT3\tPER 35 38\tBob\n"
    "R1\tx Arg1:T1 Arg2:T2\nT4\tX 0 3;10 14\tAnn left\nA1\tNeg T1\nE1\tBuy:T1\n#1\tNote T1\tx\n"
    "N1\tRef T1 W:1\tx\n*\tEquiv T1 T2\n"
)
PASSED_OVER = {
    "relations": 2,
    "attributes": 1,
    "events": 1,
    "notes": 1,
    "links to databases": 1,
    "spans in several parts": 1,
}


def pair(folder: Path, text: str, notes: str | None) -> Path:
    (folder / "x.txt").write_text(text, encoding="utf-8", newline="")
    if notes is not None:
        (folder / "x.ann").write_text(notes, encoding="utf-8", newline="")
    return folder / "x.ann"


def test_a_sequence_per_line(tmp_path: Path) -> None:
    path = pair(tmp_path, TEXT, NOTES)
    with read(path) as examples:
        result = list(examples)
        assert examples.left_out == PASSED_OVER | {"spans that go on in the next line": 1}
        assert examples.format == "brat" and examples.done() == examples.total
    assert [(x.text, x.labels) for x in result] == [
        ("Ann 😀 Lee left.", ["B-PER", "I-PER", "I-PER", "O", "O"]),
        ("She saw New", ["O", "O", "O"]),
        ("York. Bob", ["O", "O", "B-PER"]),
    ]
    assert [x.where for x in result] == [f"{tmp_path / 'x.txt'}:{line}" for line in (1, 3, 4)]
    assert list(read(tmp_path / "x.txt", "brat")) == result
    with pytest.raises(FileError, match=r"x\.txt:3: a span goes on in the next line"):
        list(read(path, on_mismatch="raise"))


def test_a_document_as_a_whole(tmp_path: Path) -> None:
    with read(pair(tmp_path, TEXT, NOTES), per="document") as examples:
        (result,) = examples
        assert examples.left_out == PASSED_OVER
    assert result.text == TEXT and result.labels is not None and result.labels[7:9] == ["B-LOC", "I-LOC"]
    write(tmp_path / "y.ann", [result])
    assert (tmp_path / "y.txt").read_bytes() == TEXT.encode()
    assert (tmp_path / "y.ann").read_text(encoding="utf-8") == "".join(NOTES.splitlines(keepends=True)[:3])


def test_a_text_without_annotations_is_not_labelled(tmp_path: Path) -> None:
    pair(tmp_path, "Ann left\n", None)
    assert [x.labels for x in read(tmp_path / "x.txt", "brat")] == [None]
    pair(tmp_path, "Ann left\n", "")
    assert [x.labels for x in read(tmp_path / "x.txt", "brat")] == [["O", "O"]]


def test_a_text_that_is_there_stays(tmp_path: Path) -> None:
    """Entities of a model are written with the offsets of the text beside it, blank lines and all."""
    text = "\nTitle 😀\n\n  Ann left.\nAnn left.\n"
    path = pair(tmp_path, text, None)
    lines = [Example({"word": ["Ann", "left", "."]}, ["B-PER", "O", "O"], text="Ann left.", starts=[0, 4, 8])] * 2
    write(path, lines)
    assert (tmp_path / "x.txt").read_text(encoding="utf-8") == text
    assert path.read_text() == "T1\tPER 12 15\tAnn\nT2\tPER 22 25\tAnn\n"
    assert [x.labels for x in read(path)][1:] == [["B-PER", "O", "O"]] * 2
    write(path, lines, units="utf-16")
    assert path.read_text().startswith("T1\tPER 13 16\t")
    assert [x.labels for x in read(path, units="utf-16")][1:] == [["B-PER", "O", "O"]] * 2
    with pytest.raises(FileError, match=r"a text is not in FILE\.txt; got 'Ann left\.'.*\n.*Choose another name"):
        write(path, lines * 2)


def test_texts_are_looked_up_at_the_beginning_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("He met Ann\nAnn\n")
    write(tmp_path / "x.ann", [Example({"word": ["Ann"]}, ["B-PER"], text="Ann", starts=[0])])
    assert (tmp_path / "x.ann").read_text() == "T1\tPER 11 14\tAnn\n"
    with pytest.raises(FileError, match=r"a text is not in FILE\.txt; got 'met'.*at the beginning of a line"):
        write(tmp_path / "x.ann", [Example({"word": ["met"]}, ["O"], text="met", starts=[0])])


LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), min_size=1, max_size=12)


@settings(max_examples=40)
@given(lines=st.lists(LINES.filter(lambda line: bool(line.strip())), min_size=1, max_size=4), every=st.integers(1, 3))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, lines: list[str], every: int) -> None:
    folder = tmp_path_factory.mktemp("brat")
    examples = []
    for line in lines:
        tokens, starts = tokenize(line)
        labels = ["B-X" if k % every == 0 else "I-X" for k in range(len(tokens))]
        examples.append(Example({"word": tokens}, labels, text=line, starts=starts))
    write(folder / "y.ann", examples)
    assert list(read(folder / "y.ann")) == examples


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ("T1\tPER 0 99\tAnn\n", r"x\.ann:1: a span is outside of its text; got '0 to 99'"),
        ("\nT1\tPER x\n", r"x\.ann:2: not an annotation; got 'T1\\tPER x'"),
        ("T1 PER 0 3\n", r"x\.ann:1: not an annotation"),
        ("T1\tPER 0 3;5\n", r"x\.ann:1: not an annotation"),
        ("T1\tPER -1 3\n", r"x\.ann:1: not an annotation"),
        ("T1\tPER 3 0\tAnn\n", r"x\.ann:1: offsets are not in order"),
        ("T1\tPER 0 3;2 5\tAnn\n", r"x\.ann:1: offsets are not in order"),
        ("T1\tPER 0 " + "9" * 30 + "\n", r"x\.ann:1: not an annotation"),
        (
            "T1\tPER 0 3\tBob\n",
            r"x\.ann:1: a span does not match its text; got 'Ann' at 0 to 3; wanted 'Bob'",
        ),
        ("?\n", r"x\.ann:1: not an annotation"),
    ],
)
def test_bad_annotations(tmp_path: Path, notes: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        list(read(pair(tmp_path, "Ann left\n", notes)))


def test_files_that_are_no_pair(tmp_path: Path) -> None:
    (tmp_path / "x.ann").write_text("T1\tPER 0 3\tAnn\n")
    with pytest.raises(FileError, match=r"x\.txt: cannot read this file"):
        list(read(tmp_path / "x.ann"))
    (tmp_path / "y").write_text("")
    with pytest.raises(FileError, match=r"two files, FILE\.txt and FILE\.ann; got y; wanted FILE\.ann"):
        list(read(tmp_path / "y", "brat"))
    for place in (None, tmp_path / "y.txt"):
        with pytest.raises(FileError, match=r"two files, FILE\.txt and FILE\.ann; got .*; wanted FILE\.ann"):
            write(place, [Example({"word": ["a"]}, ["O"])], "brat")
    with pytest.raises(FileError, match="a label cannot be written; got 'A B'"):
        write(tmp_path / "z.ann", [Example({"word": ["a"]}, ["B-A B"])])


def test_a_text_must_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.data.limits.LONGEST", 1000)
    with pytest.raises(FileError, match=r"x\.txt:1: a sequence is too long"):
        list(read(pair(tmp_path, "a\n" * 1000, "")))
