"""Score files: what is written is read back, in chunks of any size; broken and hostile files give typed errors."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Batch, Lattice
from bridle.data import Chunk, Lines, Pace, ScoreFile, open_scores, save_scores
from bridle.data.output import deferred_interrupt
from bridle.errors import BridleError, FileError, LatticeError

NAMES = ["O", "A0", "A1"]


def batch(lengths: list[int], seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    unary = rng.normal(size=(sum(lengths), 3))
    unary[rng.random(unary.shape) < 0.1] = -np.inf
    return Batch(unary, np.cumsum([0, *lengths]), rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3))


def lattices_of(file: ScoreFile) -> list[Lattice]:
    return [chunk.lattices[k] for chunk in file.chunks for k in range(len(chunk))]


def same(a: Lattice, b: Lattice) -> bool:
    pairs = [(getattr(a, key), getattr(b, key)) for key in ("unary", "pairwise", "start", "end")]
    return all((x is None and y is None) or np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("name", ["s.npz", "s.jsonl", "s.jsonl.gz"])
@pytest.mark.parametrize("pace", [Pace(1), Pace(2), Pace(1000), Pace(1000, tokens=3)])
def test_what_is_written_is_read_back(tmp_path: Path, name: str, pace: Pace) -> None:
    whole = batch([3, 0, 1, 5, 2])
    lattices = [whole[k] for k in range(len(whole))]
    givens: list[dict[str, Any]] = [{"tokens": [f"w{t}" for t in range(len(x))]} for x in lattices]
    save_scores(tmp_path / name, whole if name == "s.npz" else lattices, labels=NAMES, givens=givens)
    file = open_scores(str(tmp_path / name), pace)
    assert file.labels == tuple(NAMES)
    chunks = list(file.chunks)
    read = [chunk.lattices[k] for chunk in chunks for k in range(len(chunk))]
    assert all(same(a, b) for a, b in zip(lattices, read, strict=True))
    assert [g for chunk in chunks for g in chunk.givens] == givens
    assert [i for chunk in chunks for i in chunk.ids] == [0, 1, 2, 3, 4]
    assert max(len(chunk) for chunk in chunks) <= pace.sequences
    assert file.total is not None and file.done() == file.total


def table(path: Path, rows: list[Any], kind: Any = None, metadata: Any = None, **more: Any) -> str:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = {**more, "scores": pa.array(rows, kind or pa.list_(pa.list_(pa.float64())))}
    built = pa.table(arrays).replace_schema_metadata(metadata)
    if path.suffix == ".parquet":
        parquet.write_table(built, path, row_group_size=2)
    else:
        with (
            pa.ipc.new_file(path, built.schema)
            if path.suffix == ".arrow"
            else pa.ipc.new_stream(str(path), built.schema) as out
        ):
            out.write_table(built, max_chunksize=2)
    return str(path)


@pytest.mark.parametrize("name", ["s.parquet", "s.arrow", "s.arrows"])
def test_tables_of_scores_are_read(tmp_path: Path, name: str) -> None:
    rows = [[[0.0, 1.0], [-np.inf, 2.0]], [], [[3.0, 4.0]]]
    more = {"tokens": [["a", "b"], [], ["c"]], "id": ["x", "y", "z"], "given": [{"verb": k} for k in range(3)]}
    path = table(tmp_path / name, rows, metadata={"labels": '["O", "X"]'}, **more)
    with open_scores(path) as file:
        chunks = list(file.chunks)
    assert file.labels == ("O", "X") and [len(chunk) for chunk in chunks] in ([3], [2, 1])
    read = [chunk.lattices[k].unary.tolist() for chunk in chunks for k in range(len(chunk))]
    assert read == rows and [i for chunk in chunks for i in chunk.ids] == ["x", "y", "z"]
    givens = [given for chunk in chunks for given in chunk.givens]
    assert givens == [{"tokens": words, "verb": k} for k, words in enumerate(more["tokens"])]
    assert chunks[-1].where[-1].endswith("row 2")


def test_tables_of_scores_that_are_wrong(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(FileError, match="no scores"):
        pa_path = tmp_path / "none.parquet"
        pytest.importorskip("pyarrow.parquet").write_table(pa.table({"x": [1]}), pa_path)
        open_scores(str(pa_path))
    odd = table(tmp_path / "odd.parquet", [[[0.0, 1.0]], [[0.0]]])
    with pytest.raises(LatticeError, match="another number of scores") as wrong, open_scores(odd) as file:
        list(file.chunks)
    assert "row 1" in str(wrong.value)
    short = table(tmp_path / "short.arrow", [[[0.0, 1.0]]], tokens=[["a", "b"]])
    with pytest.raises(FileError, match="differ in length"), open_scores(short) as file:
        list(file.chunks)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(Path(odd).read_bytes()[:-20])
    with pytest.raises(FileError, match="cannot read"):
        list(open_scores(str(cut)).chunks)
    fixed = table(tmp_path / "fixed.parquet", [[[1.0, 2.0]]], pa.list_(pa.list_(pa.float32(), 2)))
    assert [chunk.lattices[0].n_labels for chunk in open_scores(fixed).chunks] == [2]
    assert list(open_scores(table(tmp_path / "empty.parquet", [])).chunks) == []


def test_a_chunk_is_cut_without_loss() -> None:
    whole = batch([3, 0, 1, 5])
    for lattices in (whole, [whole[k] for k in range(4)]):
        part = Chunk(lattices, [{}, {}, {"a": 1}, {}], list("abcd"), list("wxyz")).cut(1, 4)
        assert (part.ids, part.where, part.givens) == (list("bcd"), list("xyz"), [{}, {"a": 1}, {}])
        assert all(same(part.lattices[k], whole[k + 1]) for k in range(3))


def test_the_pace_follows_the_work() -> None:
    pace = Pace()
    for _ in range(20):
        pace.took(0.01)
    assert pace.sequences == pace.most
    for _ in range(20):
        pace.took(9.0)
    assert pace.sequences == 1


def test_npz_of_one_sequence_and_other_layouts(tmp_path: Path) -> None:
    path, unary = tmp_path / "s.npz", np.arange(6.0).reshape(2, 3)
    for stored in (unary, np.asfortranarray(unary), unary.astype(np.float32), unary.astype(">f8"), unary.astype(int)):
        np.savez_compressed(path, unary=stored)
        (only,) = lattices_of(open_scores(str(path)))
        assert np.array_equal(only.unary, unary)
    np.savez(path, unary=unary, pairwise=np.zeros((1, 3, 3)))
    (only,) = lattices_of(open_scores(str(path)))
    assert only.pairwise is not None and only.pairwise.shape == (1, 3, 3)
    np.savez(path, unary=np.zeros((0, 3)), offsets=np.array([0, 0, 0]))
    assert [len(x) for x in lattices_of(open_scores(str(path)))] == [0, 0]
    np.savez(path, unary=np.zeros((0, 3)), offsets=np.array([0]))
    assert lattices_of(open_scores(str(path))) == []


def lines(tmp_path: Path, *records: Any) -> ScoreFile:
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records), encoding="utf-8")
    return open_scores(str(path))


def test_json_lines_in_all_their_forms(tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        {"id": {"any": 1}, "labels": NAMES, "unary": [[0, None, "-inf"], [1.5, 2, 3]], "given": {"verb": 0}, "x": 1},
        "",
        '{"unary": [[-Infinity, 1, "-Infinity"]], "tokens": ["w"], "given": null, "start": [1, 2, 3]}',
        {"unary": []},
    )
    (chunk,) = file.chunks
    unary = [chunk.lattices[k].unary.tolist() for k in range(3)]
    assert unary == [[[0, -np.inf, -np.inf], [1.5, 2, 3]], [[-np.inf, 1, -np.inf]], []]
    assert chunk.givens == [{"verb": 0}, {"tokens": ["w"]}, {}]
    assert chunk.ids == [{"any": 1}, 1, 2]
    assert [w.rsplit(":")[-1] for w in chunk.where] == ["1", "3", "4"]


def test_equal_pairwise_scores_are_shared(tmp_path: Path) -> None:
    record = {"unary": [[1.0, 2.0]], "pairwise": [[0, 1], [2, 3]]}
    a, b, c = lattices_of(lines(tmp_path, record, record, {**record, "pairwise": [[0, 1], [2, 4]]}))
    assert a.pairwise is b.pairwise is not c.pairwise


BAD_LINES = [
    ("{", "not a JSON line"),
    ("[1]", "not an object"),
    ("{}", "no scores"),
    ('{"unary": 3}', "wrong shape"),
    ('{"unary": [[1, "x"]]}', "not an array of numbers"),
    ('{"unary": [[1, "nan"]]}', "not an array of numbers"),
    ('{"unary": [[1], [1, 2]]}', "different lengths"),
    ('{"unary": [[true]]}', "not an array of numbers"),
    ('{"unary": [[NaN]]}', "not a score"),
    ('{"unary": [[Infinity]]}', "not a score"),
    ('{"unary": {}}', "numbers"),
    ('{"unary": [[1' + "0" * 400 + "]]}", "not an array of numbers"),
    ('{"unary": ' + "[" * 100_000, "not a JSON line"),
    ('{"unary": [[1]], "parwise": [[1]]}', "'pairwise'"),
    ('{"unary": [[1]], "given": 3}', "given is not an object"),
    ('{"unary": [[1]], "tokens": "w"}', "list of strings"),
    ('{"unary": [[1]], "tokens": ["a", "b"]}', "length"),
    ('{"unary": [[1]], "labels": "A"}', "list of names"),
    ('{"unary": [[1]], "labels": ["A", "B"]}', "columns"),
    ('{"unary": []}', "wrong shape"),
    ('{"unary": [[1]], "pairwise": [[1, 2]]}', "wrong shape"),
]


@pytest.mark.parametrize(("line", "said"), BAD_LINES)
def test_bad_lines_are_named(tmp_path: Path, line: str, said: str) -> None:
    good = {"unary": [[0.5]]}
    file = lines(tmp_path, good, good, line, good)
    got = []
    with pytest.raises((FileError, LatticeError), match=r"s\.jsonl:3: ") as caught:
        got += [len(chunk) for chunk in file.chunks]  # the sum does not matter: what comes before is read below
    assert said in str(caught.value)
    with pytest.raises(BridleError, match=":1: "):
        lines(tmp_path, line)


def test_lines_before_a_bad_one_come_out(tmp_path: Path) -> None:
    chunks = lines(tmp_path, {"unary": [[0.5]]}, {"unary": [[1.5]]}, "{").chunks
    assert len(next(chunks)) == 2
    with pytest.raises(FileError, match=":3:"):
        next(chunks)


def test_labels_may_not_change(tmp_path: Path) -> None:
    record = {"unary": [[1, 2]], "labels": ["A", "B"]}
    with pytest.raises(FileError, match="labels change"):
        lattices_of(lines(tmp_path, record, {**record, "labels": ["B", "A"]}))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match=":1: not a JSON line"):
        open_scores(str(path))
    path.write_bytes(b"")
    assert lattices_of(open_scores(str(path))) == []
    path.write_bytes(b'\xef\xbb\xbf{"unary": [[1]]}')
    assert len(lattices_of(open_scores(str(path)))) == 1
    path.write_bytes(gzip.compress(b'{"unary": [[1]]}\n' * 5000)[:-30])
    with pytest.raises(FileError, match="cannot read"):
        lattices_of(open_scores(str(path)))
    for missing in (str(tmp_path), str(tmp_path / "no"), "a\0b"):
        with pytest.raises(FileError, match="cannot read"):
            open_scores(missing)
    np.save(tmp_path / "s.npy", np.zeros(3))
    with pytest.raises(FileError, match="savez"):
        open_scores(str(tmp_path / "s.npy"))


# ---- broken archives ----------------------------------------------------------------------------------------------


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def floats(shape: str, data: bytes = b"") -> bytes:
    return npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", data)


def archive(path: Path, **members: bytes) -> str:
    with zipfile.ZipFile(path, "w") as built:
        for name, data in members.items():
            built.writestr(f"{name}.npy", data)
    return str(path)


HOSTILE = [
    b"",
    b"PK",
    b"garbage",
    b"\x93NUMPY\x01\x00",
    floats("(9999999999, 3)"),
    floats("(10**9, 3)"),
    npy("__import__('os')"),
    npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }", b"cos\nsystem\n."),
    floats("(-1, 3)"),
    floats("(1, 1)", b"\0" * 4),
    floats("()", b"\0" * 8),
    npy("{'descr': '|S3', 'fortran_order': False, 'shape': (1, 1), }", b"abc"),
    npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, 1), }", b"\0" * 8),
    npy("{'descr': '|V0', 'fortran_order': False, 'shape': (7, 2), }"),
    npy("(" * 5000),
    b"\x93NUMPY\x03\x00" + bytes(40),
    floats("(0, 0)"),
]


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_arrays_are_typed_errors(tmp_path: Path, data: bytes) -> None:
    good = io.BytesIO()
    np.save(good, np.zeros((2, 3)))
    with pytest.raises(BridleError, match=r"s\.npz"):
        lattices_of(open_scores(archive(tmp_path / "s.npz", unary=data)))
    for other in ("pairwise", "offsets", "labels", "tokens", "start"):
        with pytest.raises(BridleError, match=r"s\.npz"):
            lattices_of(open_scores(archive(tmp_path / "s.npz", unary=good.getvalue(), **{other: data})))
    (tmp_path / "s.npz").write_bytes(data)
    with pytest.raises(FileError, match=r"s\.npz"):
        open_scores(str(tmp_path / "s.npz"))


def test_cut_and_changed_archives(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    save_scores(path, batch([3, 4, 5]), labels=NAMES)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for k in range(150):
        broken = bytearray(whole)
        if k % 2:
            del broken[int(rng.integers(len(broken))) :]
        else:
            for at in rng.integers(len(broken), size=4):
                broken[at] = int(rng.integers(256))
        path.write_bytes(broken)
        try:
            lattices_of(open_scores(str(path)))
        except BridleError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"scores": np.zeros((2, 2))}, "no array 'unary'"),
        ({"unary": np.zeros(3)}, "unary has a wrong shape"),
        ({"unary": np.zeros((2, 2)), "offsets": np.array([0, 3])}, "offsets"),
        ({"unary": np.zeros((2, 2)), "offsets": np.array([0, 1.5, 2])}, "offsets"),
        ({"unary": np.zeros((2, 2)), "labels": np.array(["A"])}, "labels"),
        ({"unary": np.zeros((2, 2)), "tokens": np.array([1, 2])}, "tokens"),
        ({"unary": np.zeros((2, 2)), "pairwise": np.zeros((3, 3))}, "pairwise"),
        ({"unary": np.array([[0.0], [1], [np.nan]]), "offsets": np.array([0, 1, 3])}, r"sequence 1: unary\[1, 0\]"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, **arrays)
    with pytest.raises(BridleError, match=said) as caught:
        lattices_of(open_scores(str(path)))
    assert str(path) in str(caught.value)


# ---- output -------------------------------------------------------------------------------------------------------


def test_output_gets_its_name_at_the_end(tmp_path: Path) -> None:
    path, part = tmp_path / "out", tmp_path / "out.part"
    path.write_text("old")
    with Lines(str(path)) as out:
        out.write(["a", "b"])
        assert path.read_text() == "old" and [item.read_text() for item in tmp_path.glob("out.*.part")] == ["a\nb\n"]
    assert path.read_text() == "a\nb\n" and list(tmp_path.iterdir()) == [path] and out.kept is None
    with pytest.raises(KeyboardInterrupt), Lines(str(path)) as out:
        out.write(["c"])
        raise KeyboardInterrupt
    assert path.read_text() == "a\nb\n" and part.read_text() == "c\n" and out.kept == part
    with pytest.raises(ValueError, match="x"), Lines(str(path)) as out:
        raise ValueError("x")
    assert sorted(tmp_path.iterdir()) == [path, part] and out.kept is None  # what is kept is the user's
    with pytest.raises(ValueError, match="x"), Lines(str(path)) as out:
        out.write(["d"])
        raise ValueError("x")
    assert part.read_text() == "c\n" and out.kept == tmp_path / "out.part.2" and out.kept.read_text() == "d\n"
    with pytest.raises(FileError, match="cannot write"):
        Lines(str(tmp_path / "no" / "out"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said() -> None:
    with pytest.raises(FileError, match="disk is full"), Lines("/dev/full") as out:
        out.write(["a"])
    assert Path("/dev/full").exists() and out.count == 0


def test_a_line_cut_by_a_full_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Lines(str(tmp_path / "out"))
    file, room = out.raw, 7

    class Full:
        def write(self, data: memoryview) -> int:
            nonlocal room
            if not room:
                raise OSError(28, "No space left on device")
            done: int = file.write(data[:room])
            room -= done
            return done

        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

    monkeypatch.setattr(out, "raw", Full())
    with pytest.raises(FileError, match="disk is full"), out:
        out.write(["aaa", "bbbbbbb"])
    assert out.count == 1 and (tmp_path / "out.part").read_text() == "aaa\n"


def test_an_interrupt_waits_for_the_line() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("done")
    assert steps == ["done"]
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():  # the second one does not wait
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("never")
    assert steps == ["done"]
