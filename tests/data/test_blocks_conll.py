"""Blocks of `conll`: the sequences, comments and errors of `bridle.data`, whatever the text; wherever a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.errors import FileError
from reading import blocks, read_blocks, read_one_by_one, rows_of

# Lines of which files are made: tokens, comments and what could be either, blanks, ends of lines, text that is none.
PIECES = ["He", "PRP", "B-NP", "?", "#", "# ", "# id 1", "-DOCSTART-", "é", "\t", " ", "\n", "\n", "\n\n", "\r\n", "\r"]
BYTES = [*(piece.encode() for piece in PIECES), b"a B\n", b"a\tB\n", b"# # B\n", b"\xff", b"\x00", b"\xef\xbb\xbf"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"label": None},
    {"columns": ["word", "label"], "unlabelled": "allow"},
    {"comment": None},
    {"comment": "#"},
    {"docstart": "keep", "separator": "blanks"},
    {"separator": "tab", "missing": None},
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(BYTES), max_size=40), st.sampled_from(OPTIONS), st.integers(1, 3), st.integers(1, 60))
def test_blocks_are_what_the_reader_of_sequences_reads(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], options: dict[str, Any], rows: int, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "law.conll"
    path.write_bytes(b"".join(pieces))
    whole, error = read_one_by_one(path, "conll", **options)
    result, wrong, _ = read_blocks(path, "conll", rows=rows, size=size, **options)
    assert result[: len(whole)] == whole[: len(result)]
    if error is None or wrong is None:
        assert result == whole and error is wrong is None
    else:  # one of them decodes more of the file at once, and so sees an error that comes later
        assert str(error) == str(wrong) or {error.what, wrong.what} & {"not utf-8", "a NUL character"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a B\n", "# # B\n", "# c\n", "b C\n", "\n", "-DOCSTART- O\n\n"]), max_size=40))
def test_a_run_goes_on_at_the_end_of_any_block(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "on.conll"
    path.write_text("a B\n\n" + "".join(pieces), "utf-8")
    whole, error, ends = read_blocks(path, "conll", rows=1, size=1 << 16)
    for k, end in enumerate(ends):
        result, wrong, _ = read_blocks(path, "conll", end, rows=2, size=32)
        assert (result, str(wrong)) == (whole[k + 1 :], str(error))


def test_a_sequence_that_does_not_fit_is_a_row_with_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"He PRP\n\nleft\n\nthe D\n\n\xff N\n\nend .\n")
    (block,) = blocks(path, "conll")
    assert [row and row[1]["word"] for row in rows_of(block)] == [["He"], None, ["the"], None, ["end"]]
    assert list(block.errors) == [1, 3] and block.tokens.row(1) is block.tokens.row(3) is None
    assert f"{path}:3: this line has a different number of columns" in str(block.errors[1])
    assert f"{path}:7: not utf-8" in str(block.errors[3])


def test_a_first_sequence_that_does_not_fit_is_an_error_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("He PRP\n")
    with pytest.raises(FileError, match="wanted 3: word, pos, chunk"):
        list(blocks(path, "conll", columns=["word", "pos", "chunk"]))


def test_lines_are_counted_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a B\n\n" * 50 + "a B C\n", "utf-8")
    first = next(blocks(path, "conll", rows=7))
    *_, last = blocks(path, "conll", first.end, rows=7)
    (row,) = last.errors
    assert last.errors[row].where == last.where(row) == f"{path}:101" and last.where(0) == f"{path}:99"


def test_what_is_skipped_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\na B\n\n-DOCSTART- O\n\n-DOCSTART- O\na B\n\n-DOCSTART- O\n", "utf-8")
    counts = [block.left_out.get("-DOCSTART- lines", 0) for block in blocks(path, "conll")]
    assert sum(counts) == 4


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"a B\n\n" + b"x" * (1 << 25), "a line is too long"),
        (b"a B\n\n" + b"xxxxxxx B\n" * (1 << 21), "a sequence is too long"),
    ],
)
def test_endless_lines_and_sequences_end_in_an_error(tmp_path: Path, text: bytes, what: str) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(text)
    with pytest.raises(FileError, match=what):
        list(blocks(path, "conll"))


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a B\n", "utf-8")
    with pytest.raises(FileError, match="shorter than before"):
        list(blocks(path, "conll", 100))
