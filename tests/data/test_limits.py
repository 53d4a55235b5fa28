"""A small file cannot fill the memory: what it unpacks to is known, and refused, before any of it is read."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridle.data import limits, open_scores, read, scores, tables
from bridle.data.tables import Part, is_plain, is_strings
from bridle.errors import FeatureError, FileError

ARROW = {"arrow": pa.ipc.new_file, "arrow stream": pa.ipc.new_stream}
TOKENS = pa.array([["He", "left"], ["She"], []], pa.list_(pa.string()))


def arrow(table: Any, kind: str = "arrow", **options: Any) -> bytes:
    out = io.BytesIO()
    with ARROW[kind](out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


def parquet(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def texts(folder: Path, data: bytes, name: str) -> list[list[str]]:
    path = folder / "x"
    path.write_bytes(data)
    return [list(example.tokens) for example in read(path, name)]


def refused(folder: Path, data: bytes, name: str) -> str:
    with pytest.raises((FeatureError, FileError)) as caught:
        texts(folder, data, name)
    return str(caught.value)


# ---- lines and sequences --------------------------------------------------------------------------------------------

MANY = {
    "conll": b"a B\n" * 40,
    "segments": b"a |1\n" * 40,
    "tagged": b"<NEWREFERENCE>\n" + b"<a>b</a>\n" * 40,
    "parserator": b"<C>\n<S>\n<A>b</A></S><S>" + b"<A>b</A>\n" * 40,
}


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sequence_has_so_many_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(limits, "MOST_LINES", 30)
    assert "a sequence is too long" in refused(tmp_path, pack(MANY[name]), name)


@pytest.mark.parametrize("name", MANY)
def test_a_sequence_has_so_many_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(limits, "LONGEST", 50)
    for module in ("source", "base"):
        monkeypatch.setattr(f"bridle.data.{module}.BLOCK", 16)  # lines are held while more may come
    assert "a sequence is too long" in refused(tmp_path, MANY[name], name)


def test_lines_of_scores_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_SCORES", 100)
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"unary": [[1, 2]]}\n' + b"[" * 1000))
    with pytest.raises(FileError, match=r"x\.jsonl\.gz:2: a line is too long"):
        list(open_scores(str(path)).chunks)


@pytest.mark.parametrize("name", ["jsonl", "scores"])
def test_objects_with_too_many_keys(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({f"k{k}": 0 for k in range(limits.MOST_KEYS + 1)}) + "\n")
    with pytest.raises(FileError, match=r"x\.jsonl:1: an object has too many keys"):
        list(read(path)) if name == "jsonl" else open_scores(str(path))


@pytest.mark.parametrize(
    ("unary", "got"),
    [
        ('[["a", 1]]', "'a'"),
        ("[[true]]", "True"),
        ('[[""]]', "''"),
        ("[[[[1]]]]", r"\[1\]"),
        ("[[1], [1, 2]]", "lists of different lengths"),
        ("[[1], 2]", r"\[1\]"),
        ("[[{}]]", r"\{\}"),
        ("[[" + "9" * 400 + "]]", "int too large"),
    ],
)
def test_scores_that_are_no_numbers(tmp_path: Path, unary: str, got: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"unary": {unary}}}\n')
    with pytest.raises(FileError, match=f"unary is not an array of numbers; got {got}"):
        open_scores(str(path))


# ---- npz ------------------------------------------------------------------------------------------------------------

SOUND = {"unary": np.zeros((4, 3)), "offsets": np.array([0, 1, 4]), "labels": np.array(["O", "A", "B"])}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pairwise": np.zeros((9, 9), "i1")}, r"pairwise has a wrong shape; got \(9, 9\); wanted \(3, 3\)"),
        ({"pairwise": np.zeros((3, 3, 3), "i1")}, "pairwise has a wrong shape"),
        ({"start": np.zeros(4)}, "start has a wrong shape"),
        ({"labels": np.array(["O", "x" * 2000, "B"])}, "labels have space for 2,000 characters"),
        ({"tokens": np.array(["a"] * 5)}, "tokens has a wrong shape"),
        ({"offsets": np.zeros((3, 3), "i8")}, "offsets have a wrong shape"),
        ({"offsets": np.zeros(0, "i8")}, "offsets have a wrong shape"),
        ({"unary": np.zeros((4, 0))}, "unary has no columns, or too many"),
        ({"unary": np.zeros((0, 1 << 20), "i1")}, "unary has no columns, or too many"),
    ],
)
def test_shapes_are_compared_before_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, Any], message: str
) -> None:
    np.savez_compressed(tmp_path / "x.npz", **{**SOUND, **arrays})
    monkeypatch.setattr(scores._Rows, "_read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(FileError, match=message):
        open_scores(str(tmp_path / "x.npz"))


def test_too_many_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", **SOUND)
    monkeypatch.setattr(scores, "_MOST_SEQUENCES", 1)
    with pytest.raises(FileError, match="at most 1 sequences"):
        open_scores(str(tmp_path / "x.npz"))


def test_offsets_are_not_printed_in_full(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", unary=np.zeros((4, 3)), offsets=np.arange(100_000))
    with pytest.raises((FeatureError, FileError)) as caught:
        open_scores(str(tmp_path / "x.npz"))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez_compressed, np.savez])
def test_npz_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Any, save: Callable[..., None]
) -> None:
    save(tmp_path / "x.npz", unary=np.zeros((9000, 3), order=order))
    monkeypatch.setattr(limits, "UNPACKED", 100_000)
    file = open_scores(str(tmp_path / "x.npz"))
    if save is np.savez:  # as large as the file
        assert sum(map(len, file.chunks)) == 1
    else:
        with pytest.raises(FileError, match="array 'unary' decompresses to too much data; got 216,000 bytes from"):
            list(file.chunks)


def test_npz_is_packed_as_numpy_does(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as archive, archive.open("unary.npy", "w") as file:
        np.save(file, np.zeros((4, 3)))
    with pytest.raises(FileError, match="compressed in a way that NumPy does not use"):
        open_scores(str(tmp_path / "x.npz"))


# ---- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ARROW)
@pytest.mark.parametrize("packing", [None, "zstd", "lz4"])
def test_what_is_packed_within_limits_is_read(tmp_path: Path, kind: str, packing: str | None) -> None:
    data = arrow(pa.table({"tokens": TOKENS}), kind, compression=packing)
    assert texts(tmp_path, data, "arrow") == TOKENS.to_pylist()


@pytest.mark.parametrize("kind", ARROW)
def test_arrow_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(limits, "UNPACKED", 100_000)
    data = arrow(pa.table({"tokens": [["x" * 200_000]]}), kind, compression="zstd")
    assert "a record batch decompresses to too much data; got 200," in refused(tmp_path, data, "arrow")
    assert texts(tmp_path, arrow(pa.table({"tokens": [["x" * 200_000]]}), kind), "arrow") == [["x" * 200_000]]


def test_dictionaries_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNPACKED", 100_000)
    words = pa.DictionaryArray.from_arrays([0], ["x" * 200_000])
    data = arrow(pa.table({"tokens": pa.ListArray.from_arrays([0, 1], words)}), compression="zstd")
    assert "decompresses to too much data; got 200," in refused(tmp_path, data, "arrow")


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_a_long_word_that_comes_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each row alone is small enough; together they would not be, and are not made at once."""
    words = pa.DictionaryArray.from_arrays([0] * 12, ["x" * 1000])
    table = pa.table({"tokens": pa.ListArray.from_arrays([0, 4, 8, 12], words)})
    data = arrow(table) if name == "arrow" else parquet(table)
    monkeypatch.setattr("bridle.data.tables.LONGEST", 5000)
    assert texts(tmp_path, data, name) == [["x" * 1000] * 4] * 3
    monkeypatch.setattr("bridle.data.tables.LONGEST", 4000)
    assert "a sequence is too long; got 4,0" in refused(tmp_path, data, name)


def test_lists_of_nothing_have_no_end(tmp_path: Path) -> None:
    nothing = pa.ListArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), pa.nulls(2**31 - 1))
    assert "a sequence is too long" in refused(tmp_path, arrow(pa.table({"tokens": nothing})), "arrow")
    inside = pa.StructArray.from_arrays([nothing], ["spans"])
    data = arrow(pa.table({"tokens": [["a"]], "given": inside}))
    assert "a sequence is too long" in refused(tmp_path, data, "arrow")


def test_types_that_are_read() -> None:
    text, number = pa.string(), pa.int64()
    for kind in (text, pa.large_string(), pa.dictionary(pa.int8(), text), pa.null()):
        assert is_strings(pa.list_(kind)) and is_strings(pa.large_list(kind)) and is_plain(kind)
    newer = {"list_view": [text], "uuid": []}  # not in every pyarrow that is allowed
    kinds = [getattr(pa, name)(*of) for name, of in newer.items() if hasattr(pa, name)]
    for kind in (*kinds, pa.list_(text, 2), pa.run_end_encoded(pa.int32(), text), pa.binary()):
        assert not is_strings(kind) and not is_plain(kind) and not is_plain(pa.struct([("a", kind)]))
    assert not hasattr(pa, "string_view") or not is_strings(pa.list_(pa.string_view()))
    assert not is_strings(pa.list_(number)) and is_plain(pa.list_(number))
    deep = text
    for _ in range(9):
        deep = pa.list_(deep)
    assert not is_plain(deep)


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_rows_of_nothing(tmp_path: Path, name: str) -> None:
    write = arrow if name == "arrow" else parquet
    assert texts(tmp_path, write(pa.table({"tokens": pa.nulls(0)})), name) == []
    many = pa.nulls(2**31 - 1 if name == "arrow" else 1000)
    assert "sequence 0: 'tokens' is null" in refused(tmp_path, write(pa.table({"tokens": many})), name)


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_dictionaries_become_strings(tmp_path: Path, kind: Callable[..., Any]) -> None:
    rows = [["a", "b"], [], ["a"], ["c", "a", "b"]] * 600
    words = pa.array(rows, kind(pa.string())).cast(kind(pa.dictionary(pa.int8(), pa.string())))
    assert texts(tmp_path, arrow(pa.table({"tokens": words})), "arrow") == rows
    words = pa.array([None, *rows], kind(pa.string())).cast(kind(pa.dictionary(pa.int8(), pa.string())))
    assert "sequence 0: 'tokens' is null" in refused(tmp_path, arrow(pa.table({"tokens": words})), "arrow")


@pytest.mark.parametrize("kind", [7, 8, 12, 1, 9])
def test_headers_with_lists_that_have_no_end(kind: int) -> None:
    """Files claim 2^62 doubles, bytes, structs, truth values or lists, and hold none."""
    endless = bytes([0x19, 0xF0 | kind]) + b"\xff" * 8 + b"\x3f"
    with pytest.raises(ValueError, match=r"ends too early|unknown kind"):
        tables._Compact(endless).struct({1: [...]})


def test_a_schema_without_its_length(tmp_path: Path) -> None:
    """Polars writes Arrow files like this; only who reads their foot can read them."""
    table, path = pa.table({"tokens": [["Ann", "left"]]}), tmp_path / "x.arrow"
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + (4).to_bytes(4, "little") + whole[12:])
    with pytest.raises(FileError, match="without its length, as write_ipc of Polars") as caught:
        list(read(path))
    assert "df.write_parquet" in str(caught.value)


def test_a_foot_that_pyarrow_dies_of(tmp_path: Path) -> None:
    """Numbers in the metadata of a column on which pyarrow, if asked for them, ends the process."""
    path = Path(__file__).parents[1] / "corpus" / "parquet--histogram.parquet"
    assert "cannot read this parquet file" in refused(tmp_path, path.read_bytes(), "parquet")


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_columns_of_other_types(tmp_path: Path, name: str) -> None:
    """Those that are needed are refused, others are skipped."""
    write = arrow if name == "arrow" else parquet
    odd = pa.array([b"x"], pa.binary())
    assert texts(tmp_path, write(pa.table({"tokens": [["a"]], "id": odd, "x": odd})), name) == [["a"]]
    assert texts(tmp_path, write(pa.table({"tokens": [["a"]], "labels": pa.nulls(1)})), name) == [["a"]]
    assert "tokens is not a column of lists of strings" in refused(tmp_path, write(pa.table({"tokens": odd})), name)
    assert "given is not an object" in refused(tmp_path, write(pa.table({"tokens": [["a"]], "given": odd})), name)


def test_columns_of_the_same_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([TOKENS, TOKENS], names=["tokens", "tokens"])
    assert "columns have the same name" in refused(tmp_path, arrow(table), "arrow")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_that_unpack_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, dictionary: bool
) -> None:
    table = pa.table({"tokens": [["x" * 200_000, "y"]]})
    data = parquet(table, compression="zstd", use_dictionary=dictionary, data_page_version=version)
    assert texts(tmp_path, data, "parquet") == table["tokens"].to_pylist()
    monkeypatch.setattr(limits, "UNPACKED", 100_000)
    assert "a page of column 'tokens.list.element' decompresses to too much data" in refused(tmp_path, data, "parquet")


def test_columns_of_too_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = parquet(pa.table({"tokens": [["x"] * 100_000]}))
    monkeypatch.setattr(tables, "MOST_VALUES", 50_000)
    assert "decompresses to too many values; got 100,000 values" in refused(tmp_path, data, "parquet")


def test_pages_may_not_lie_about_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of the column say 3; its page says more."""
    data = parquet(pa.table({"tokens": [["a", "b", "c"]]}), compression="none", use_dictionary=False)
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    page = data[chunk.data_page_offset :][: chunk.total_compressed_size]
    assert page.count(b"\x2c\x15\x06") == 1  # field 5, a struct; its field 1: 3 as a zigzag
    lying = data.replace(page, page.replace(b"\x2c\x15\x06", b"\x2c\x15\x7e"))
    monkeypatch.setattr(tables, "MOST_VALUES", 10)
    monkeypatch.setattr(tables, "VALUES_PER_BYTE", 0)
    assert "decompresses to too many values; got 63 values" in refused(tmp_path, lying, "parquet")


@pytest.mark.parametrize("name", ["arrow", "arrow stream", "parquet"])
def test_every_cut_of_a_table_is_refused_or_read(tmp_path: Path, name: str) -> None:
    table = pa.table({"tokens": TOKENS})
    data = parquet(table) if name == "parquet" else arrow(table, name)
    for end in range(1, len(data), 7):
        with suppress(FileError):  # and no other error
            texts(tmp_path, data[:end], name.split()[0])


def test_messages_that_lie_about_their_length(tmp_path: Path) -> None:
    data = bytearray(arrow(pa.table({"tokens": TOKENS}), "arrow stream"))
    struct.pack_into("<I", data, 4, 0x7FFFFFF0)
    assert "a message of 2,147,483,632 bytes" in refused(tmp_path, bytes(data), "arrow")


def test_tables_through_a_pipe_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.data.parquet.PIPED", 100)
    data = io.BufferedReader(io.BytesIO(arrow(pa.table({"tokens": TOKENS}))))  # type: ignore[arg-type]
    monkeypatch.setattr("sys.stdin", type("", (), {"buffer": data}))
    with pytest.raises(FileError, match="<stdin>: too much for standard input"):
        list(read("-", "arrow"))


def test_a_part_of_a_file() -> None:
    part = Part(io.BytesIO(b"0123456789"), 2, 6)
    assert part.readable() and part.seekable() and part.read(1 << 60) == b"2345" and part.read(1) == b""
    assert part.seek(-1, io.SEEK_END) == 3 and part.read() == b"5" and part.tell() == 4
    assert part.seek(1 << 60) == 1 << 60 and part.read(1) == b"" and part.seek(-9, io.SEEK_CUR) > 0
