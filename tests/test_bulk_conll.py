"""Blocks of `conll`: the sequences, comments and errors of `bridle.data`, whatever the text; wherever a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.bulk.inputs import reader_of
from bridle.data import read
from bridle.errors import FileError

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


def expected(path: Path, **options: Any) -> tuple[list[Any], str | None]:
    """The sequences of a file before its first error, and the error."""
    found = list[Any]()
    try:
        for example in read(path, "conll", **options):
            columns = [list(column) for column in example.columns.values()]
            found.append((columns, example.labels and list(example.labels), list(example.comments) or None))
    except FileError as error:
        return found, error.what
    return found, None


def rows_of(batch: Any) -> list[Any]:
    names = [name for name in batch.schema.names if name not in ("gold", "_comments")]
    return [([row[name] for name in names], row.get("gold"), row.get("_comments")) for row in batch.to_pylist()]


def blocks_of(
    path: Path, rows: int, size: int, start: int = 0, **options: Any
) -> tuple[list[Any], str | None, list[int]]:
    """The rows of all blocks before the first error, the error, and where blocks end."""
    found, ends = list[Any](), list[int]()
    try:
        for block in reader_of("conll", **options).blocks(str(path), start, rows=rows, size=size):
            assert 0 <= block.share <= 1 and len(block.batch) <= rows and not block.errors
            block.batch.validate(full=True)
            found += rows_of(block.batch)
            ends.append(block.end)
    except FileError as error:
        return found, error.what, ends
    return found, None, ends


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(BYTES), max_size=40), st.sampled_from(OPTIONS), st.integers(1, 3), st.integers(1, 60))
def test_blocks_are_what_the_reader_of_sequences_reads(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], options: dict[str, Any], rows: int, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "law.conll"
    path.write_bytes(b"".join(pieces))
    whole, error = expected(path, **options)
    found, wrong, _ = blocks_of(path, rows, size, **options)
    assert (error is None) == (wrong is None), (error, wrong)
    assert found[: len(whole)] == whole[: len(found)]
    if error is None:
        assert found == whole
    else:  # one of them decodes more of the file at once, and so sees an error that comes later
        assert error == wrong or {error, wrong} & {"not utf-8", "a NUL character"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a B\n", "# # B\n", "# c\n", "b C\n", "\n", "-DOCSTART- O\n\n"]), max_size=40))
def test_a_run_goes_on_at_the_end_of_any_block(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "on.conll"
    path.write_text("a B\n\n" + "".join(pieces), "utf-8")
    whole, error, ends = blocks_of(path, 1, 1 << 16)
    for k, end in enumerate(ends):
        found, wrong, _ = blocks_of(path, 2, 32, end)
        assert (found, wrong) == (whole[k + 1 :], error)


def test_a_sequence_that_does_not_fit_is_a_row_with_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"He PRP\n\nleft\n\nthe D\n\n\xff N\n\nend .\n")
    (block,) = reader_of("conll", on_error="row").blocks(str(path))
    assert block.batch.column("tokens").to_pylist() == [["He"], None, ["the"], None, ["end"]]
    assert list(block.errors) == [1, 3]
    assert f"{path}:3: this line has a different number of columns" in block.errors[1]
    assert f"{path}:7: not utf-8" in block.errors[3]


def test_a_first_sequence_that_does_not_fit_is_an_error_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("He PRP\n")
    with pytest.raises(FileError, match="wanted 3: word, pos, chunk"):
        list(reader_of("conll", on_error="row", columns=["word", "pos", "chunk"]).blocks(str(path)))


def test_lines_are_counted_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a B\n\n" * 50 + "a B C\n", "utf-8")
    first = next(iter(reader_of("conll").blocks(str(path), rows=7)))
    with pytest.raises(FileError) as caught:
        list(reader_of("conll").blocks(str(path), first.end, rows=7))
    assert caught.value.where == f"{path}:101"


def test_what_is_skipped_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\na B\n\n-DOCSTART- O\n\n-DOCSTART- O\na B\n\n-DOCSTART- O\n", "utf-8")
    counts = [block.left_out.get("-DOCSTART- lines", 0) for block in reader_of("conll").blocks(str(path))]
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
        list(reader_of("conll", on_error="row").blocks(str(path)))


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a B\n", "utf-8")
    with pytest.raises(FileError, match="shorter than before"):
        list(reader_of("conll").blocks(str(path), 100))
