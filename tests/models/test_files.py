"""Model files: what was saved comes back, damaged and hostile files are errors, a save that fails changes nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import resource
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bridle.errors import ModelFileError
from bridle.models import files
from bridle.models.files import DTYPES, LARGEST_HEADER, MAGIC, Stored, open_file, save


def small(path: Path) -> Path:
    save(path, "crf", {"n": 1}, {"w": np.arange(3.0), "e": np.zeros((0, 2), np.uint8), "k": np.array([[7]], np.int32)})
    return path


def refused(path: Path | str) -> ModelFileError:
    """The error of a file that is not read: it names the file and has four parts."""
    with pytest.raises(ModelFileError) as caught:
        open_file(path)
    error = caught.value
    assert str(path) in str(error)
    assert None not in (error.got, error.wanted, error.cause)
    return error


# ---- round trip -----------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


@given(st.dictionaries(TEXT, JSON, max_size=4), st.dictionaries(TEXT.filter(bool), ARRAYS, max_size=4))
def test_saved_arrays_come_back(
    tmp_path_factory: pytest.TempPathFactory, head: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    path = tmp_path_factory.getbasetemp() / "model"
    save(path, "any", head, arrays)
    stored = open_file(path)
    assert (stored.kind, stored.head) == ("any", head)
    assert list(stored.arrays) == list(arrays)
    for name, array in arrays.items():
        back = stored.arrays[name]
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert back.tobytes() == array.tobytes()  # to the bit, NaNs too
        assert not back.flags.writeable


def test_other_layouts_are_stored_as_rows(tmp_path: Path) -> None:
    array = np.arange(12, dtype=">f8").reshape(3, 4)
    save(tmp_path / "m", "x", {}, {"t": array.T, "step": array[::2, ::-1], "one": np.array(3.0)})
    back = open_file(tmp_path / "m").arrays
    assert np.array_equal(back["t"], array.T) and back["t"].flags.c_contiguous and back["t"].dtype.isnative
    assert np.array_equal(back["step"], array[::2, ::-1])
    assert back["one"].shape == ()


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    assert small(tmp_path / "a").read_bytes() == small(tmp_path / "b").read_bytes()


def test_the_layout(tmp_path: Path) -> None:
    """A file can be read with nothing but the layout in the module's docstring."""
    data = small(tmp_path / "m").read_bytes()
    length = int.from_bytes(data[12:16], "little")
    header = json.loads(data[48 : 48 + length])
    assert data[:8] == MAGIC and data[8:12] == b"\1\0\0\0"
    assert data[16:48] == hashlib.sha256(data[:16] + data[48 : 48 + length]).digest()
    assert (header["kind"], header["head"]) == ("crf", {"n": 1})
    start = (48 + length + 63) // 64 * 64
    result = {}
    for entry in header["arrays"]:
        at = start + entry["offset"]
        assert at % 64 == 0
        raw = data[at : at + entry["length"]]
        assert hashlib.sha256(raw).hexdigest() == entry["sha256"]
        result[entry["name"]] = (raw, entry["dtype"], entry["shape"])
    assert result == {
        "w": (np.array([0, 1, 2], "<f8").tobytes(), "float64", [3]),
        "e": (b"", "uint8", [0, 2]),
        "k": (b"\7\0\0\0", "int32", [1, 1]),
    }


# ---- what cannot be saved -------------------------------------------------------------------------------------------

LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP


@pytest.mark.parametrize(
    "kind, head, arrays",
    [
        ("", {}, {}),
        (3, {}, {}),
        ("x", {"a": float("nan")}, {}),
        ("x", {"a": [float("-inf")]}, {}),
        ("x", {"a": {1: 2}}, {}),  # would come back as "1"
        ("x", {"a": [{None: 2}]}, {}),
        ("x", {"a": np.int64(1)}, {}),
        ("x", {"a": "\ud800"}, {}),
        ("x", {"a": {1, 2}}, {}),
        ("x", {"a": 10**5000}, {}),
        ("x", {"a": "x" * (LARGEST_HEADER + 1)}, {}),
        ("x", LOOP, {}),
        ("x", {}, {"a": [1.0]}),
        ("x", {}, {"a": np.array([None])}),
        ("x", {}, {"a": np.array(["text"])}),
        ("x", {}, {"a": np.array([True])}),
        ("x", {}, {"a": np.array([1j])}),
        ("x", {}, {"a": np.zeros(1, np.float16)}),
        ("x", {}, {"a": np.zeros(1, [("f", "f8")])}),
        ("x", {}, {"a": np.zeros(1, "M8[s]")}),
        ("x", {}, {"": np.zeros(1)}),
        ("x", {}, {1: np.zeros(1)}),
    ],
)
def test_what_cannot_come_back_is_not_saved(tmp_path: Path, kind: Any, head: Any, arrays: Any) -> None:
    with pytest.raises(ModelFileError) as caught:
        save(tmp_path / "m", kind, head, arrays)
    assert None not in (caught.value.got, caught.value.wanted, caught.value.cause)
    assert list(tmp_path.iterdir()) == []


# ---- damage ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_cut_off_anywhere(tmp_path: Path) -> None:
    data = small(tmp_path / "m").read_bytes()
    for length in range(len(data)):
        (tmp_path / "m").write_bytes(data[:length])
        assert ("length" if length else "empty") in str(refused(tmp_path / "m"))
    (tmp_path / "m").write_bytes(data + b"\0")
    assert "appended" in str(refused(tmp_path / "m"))


def test_any_changed_byte_is_found(tmp_path: Path) -> None:
    data = small(tmp_path / "m").read_bytes()
    for at in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            (tmp_path / "m").write_bytes(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
            refused(tmp_path / "m")


@pytest.mark.parametrize(
    "data, says",
    [
        (b"", "an empty file"),
        (b"PK\x03\x04 and more", "zip"),
        (pickle.dumps({"a": 1}), "a pickle"),
        (b"\x93NUMPY\x01\x00", "npy"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"{}\n", r"begins with b'{}\n'"),
        (b"BRIDLE", "begins with b'BRIDLE'"),
        (MAGIC + b"\2\0\0\0" + bytes(40), "newer Bridle"),
        (MAGIC + b"\0\0\0\0" + bytes(40), "damaged"),
    ],
)
def test_other_files(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "m").write_bytes(data)
    assert says in str(refused(tmp_path / "m"))


def test_places_that_hold_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for place in (tmp_path / "none", tmp_path, tmp_path / "pipe", tmp_path / "none" / "m", "/"):
        refused(place)
    for bad in ("a\0b", tmp_path / "circle", 3, None):
        for use in (open_file, lambda path: save(path, "x", {}, {})):
            with pytest.raises(ModelFileError, match="not a valid file name"):
                use(bad)  # type: ignore[arg-type]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path / "m")

    def denied(*_: Any, **__: Any) -> Any:  # said here, since root may read everything
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", denied)
    assert "Permission denied" in str(refused(path))


# ---- hostile files --------------------------------------------------------------------------------------------------


def forged(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with right checksums around any header."""
    start = MAGIC + b"\1\0\0\0" + (len(header) if length is None else length).to_bytes(4, "little")
    whole = start + hashlib.sha256(start + header).digest() + header
    return whole + bytes(-len(whole) % 64) + data


def entry(**changes: Any) -> dict[str, Any]:
    checksum = hashlib.sha256(b"ab").hexdigest()
    good = {"name": "a", "dtype": "uint8", "shape": [2], "offset": 0, "length": 2, "sha256": checksum}
    return good | changes


def described(*entries: Any, **parts: Any) -> bytes:
    return json.dumps({"kind": "x", "head": {}, "arrays": list(entries)} | parts, separators=(",", ":")).encode()


def test_the_forger_can_make_a_good_file(tmp_path: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    (tmp_path / "m").write_bytes(forged(described(entry()), b"ab"))
    assert open_file(tmp_path / "m").arrays["a"].tolist() == [97, 98]


TERA = 1 << 40
HOSTILE: dict[str, bytes] = {
    "huge header": forged(b"{}", length=LARGEST_HEADER + 1),
    "header of 4 GB": forged(b"{}", length=2**32 - 1),
    "header longer than the file": forged(b"{}", length=1000),
    "no header": forged(b""),
    "a list": forged(b"[]"),
    "not UTF-8": forged(b'{"kind": "\xff"}'),
    "deep": forged(b'{"kind": "x", "arrays": [], "head": {"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}"),
    "NaN": forged(described(head={"a": float("nan")})),
    "infinity": forged(b'{"kind":"x","head":{"a":1e999},"arrays":[]}'),
    "huge number": forged(b'{"kind":"x","head":{"a":' + b"9" * 5000 + b'},"arrays":[]}'),
    "half a character": forged(b'{"kind":"x","head":{"a":"\\ud800"},"arrays":[]}'),
    "a key twice": forged(b'{"kind":"x","head":{"a":1,"a":2},"arrays":[]}'),
    "blanks": forged(described().replace(b":", b": ")),
    "a part too many": forged(described(code="import os")),
    "kind is no name": forged(described(kind=3)),
    "kind is empty": forged(described(kind="")),
    "head is no object": forged(described(head=[])),
    "arrays is no list": forged(described(arrays={})),
    "an entry is no object": forged(described(3)),
    "a key missing": forged(described({"name": "a"})),
    "a key too many": forged(described(entry(more=1)), b"ab"),
    "1 TB in one row": forged(described(entry(shape=[TERA], length=TERA))),
    "1 TB, short length": forged(described(entry(shape=[TERA])), b"ab"),
    "product is 0 modulo 2**64": forged(described(entry(shape=[2**32, 2**32], length=0))),
    "product is 2 modulo 2**64": forged(described(entry(shape=[2, 2**63 + 1], length=2)), b"ab"),
    "empty, but too large for NumPy": forged(described(entry(shape=[0, 2**62, 2**62], length=0))),
    "negative": forged(described(entry(shape=[-2], length=-2))),
    "two negative": forged(described(entry(shape=[-1, -2])), b"ab"),
    "true is no number": forged(described(entry(shape=[2, True])), b"ab"),
    "2.0 is no number": forged(described(entry(shape=[2.0])), b"ab"),
    "length is a float": forged(described(entry(length=2.0)), b"ab"),
    "too many axes": forged(described(entry(shape=[2] + [1] * 100)), b"ab"),
    "object": forged(described(entry(dtype="object", shape=[1], length=8)), bytes(8)),
    "O": forged(described(entry(dtype="|O", shape=[1], length=8)), bytes(8)),
    "structured": forged(described(entry(dtype="i1,i1", shape=[1])), b"ab"),
    "bool": forged(described(entry(dtype="bool")), b"ab"),
    "negative offset": forged(described(entry(offset=-64)), b"ab"),
    "offset out of range": forged(described(entry(offset=64)), b"ab"),
    "unaligned": forged(described(entry(offset=1)), b"\0ab"),
    "overlap": forged(described(entry(), entry(name="b")), b"ab"),
    "a gap": forged(described(entry(), entry(name="b", offset=128)), b"ab" + bytes(126) + b"ab"),
    "bytes in between": forged(described(entry(), entry(name="b", offset=64)), b"ab" + b"\1" * 62 + b"ab"),
    "the same name twice": forged(described(entry(), entry(offset=64)), b"ab" + bytes(62) + b"ab"),
    "no name": forged(described(entry(name="")), b"ab"),
    "bytes after the end": forged(described(entry()), b"abc"),
    "checksum of others": forged(described(entry()), b"ba"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files(tmp_path: Path, case: str) -> None:
    path = tmp_path / "m"
    path.write_bytes(HOSTILE[case])
    if case == "huge header":
        os.truncate(path, 1 << 33)  # so large a header would be there: zeros that take no room on the disk
    tracemalloc.start()
    try:
        error = refused(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000 + 60 * len(HOSTILE[case])
    assert len(str(error)) < 1000


# ---- saving that fails ----------------------------------------------------------------------------------------------


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Path]:
    """A model that must outlive the failure, alone in its folder."""
    path = small(tmp_path / "m")
    data = path.read_bytes()
    yield path
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException, after: int = 0) -> None:
    """Let a step fail, at its call number `after`."""
    if name == "write":
        whole = files._parts

        def parts(*arguments: Any) -> Iterator[bytes | memoryview]:
            pieces = whole(*arguments)
            yield from pieces[:after]
            raise error

        monkeypatch.setattr(files, "_parts", parts)
        return
    real: Callable[..., Any] = getattr(os, name)
    calls = iter(range(1000))

    def fails(*arguments: Any, **options: Any) -> Any:
        if next(calls) == after:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(os, name, fails)


@pytest.mark.parametrize("step, after", [("write", 0), ("write", 2), ("write", 5), ("fsync", 0), ("replace", 0)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails(monkeypatch: pytest.MonkeyPatch, earlier: Path, step: str, after: int, number: int) -> None:
    with monkeypatch.context() as patch:
        failing(patch, step, OSError(number, os.strerror(number)), after)
        with pytest.raises(ModelFileError, match="disk is full" if number == errno.ENOSPC else "rror") as caught:
            save(earlier, "x", {}, {"a": np.ones(3), "b": np.ones(4)})
    assert str(earlier) in str(caught.value)


@pytest.mark.parametrize("step, after", [("write", 0), ("write", 4), ("fsync", 0), ("replace", 0)])
def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, earlier: Path, step: str, after: int) -> None:
    with monkeypatch.context() as patch:
        failing(patch, step, KeyboardInterrupt(), after)
        with pytest.raises(KeyboardInterrupt):
            save(earlier, "x", {}, {"a": np.ones(3), "b": np.ones(4)})


def test_a_file_that_may_grow_no_more(earlier: Path) -> None:
    """The system itself cuts a write short, then refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(ModelFileError, match="disk is full"):
            save(earlier, "x", {}, {"a": np.ones(5_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_killed_while_writing(tmp_path: Path) -> None:
    path = small(tmp_path / "m")
    data = path.read_bytes()
    program = (
        "import os, sys, numpy as np\nfrom bridle.models import files\n"
        "os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
        "files.save(sys.argv[1], 'x', {}, {'a': np.ones(9)})"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(files.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    assert done.returncode == -9
    assert path.read_bytes() == data
    assert [p.name.endswith(".part") for p in tmp_path.iterdir() if p != path] == [True]
    save(path, "next", {}, {})
    assert open_file(path).kind == "next" and list(tmp_path.iterdir()) == [path]  # what was left is gone


def test_devices_and_folders_are_not_replaced_or_made(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, *(p for p in [Path("/dev/full")] if p.exists())):
        mode = place.stat().st_mode
        with pytest.raises(ModelFileError, match="folder or a device"):
            save(place, "x", {}, {})
        assert place.stat().st_mode == mode
    with pytest.raises(ModelFileError, match="Does the folder exist"):
        save(tmp_path / "none" / "m", "x", {}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_links_and_rights_stay(tmp_path: Path) -> None:
    path = small(tmp_path / "m")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    save(tmp_path / "link", "new", {}, {})
    assert (tmp_path / "link").is_symlink()
    assert open_file(path) == Stored("new", {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_new_files_have_the_usual_rights_and_long_names(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    assert small(tmp_path / ("ä" * 127)).stat().st_mode == (tmp_path / "usual").stat().st_mode
