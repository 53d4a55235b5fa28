"""Changes of npz files, tables and models, by chance; what they say of themselves is right, or a lie."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bridle.models import files
from fuzz_text import BOMBS, LONG, MARK, TEXTS, bytes_changed, json_changed

# ---- npz ------------------------------------------------------------------------------------------------------------


def npz_changed(rng: Random, data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = list(members) or ["unary.npy"]
    name = rng.choice(names)
    match rng.randrange(7):
        case 0:
            members.pop(name, None)
        case 1:
            members[rng.choice([*names, "tokens.npy", "offsets.npy", "pairwise.npy", "x"])] = members.get(name, b"")
        case 2:
            members[name] = bytes_changed(rng, members.get(name, b""), (b"", data))
        case 3:
            members[name] = _header_changed(rng, members.get(name, b""))
        case _:
            members[name] = _array(rng, name)
    out, packing = io.BytesIO(), rng.choice([0, 0, 8, 8, 12, 14])
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return out.getvalue()


def _header_changed(rng: Random, content: bytes) -> bytes:
    """An npy file with a header that lies."""
    shape = tuple(rng.choice([*LONG, 3, 4, 6]) for _ in range(rng.randrange(4)))
    kind = rng.choice(["<f8", "<f4", "|O", "<U1", "<U200000000", "<i8", "|b1", "<c16", "|V8", "<f2", ">f8", "<U0"])
    order = rng.choice([True, False])
    text = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content[128:]


def _array(rng: Random, name: str) -> bytes:
    out = io.BytesIO()
    if rng.random() < 4 * BOMBS:
        shape = rng.choice([(3000, 3000), (10_000_000,), (1_000_000, 9), (9, 1_000_000), (200, 100, 100)])
        array: Any = np.zeros(shape, rng.choice(["i1", "f4", "<U3"]))
    elif name.startswith(("labels", "tokens")) and rng.random() < 0.7:
        array = np.array(rng.choices([x.replace("\0", "") for x in TEXTS[:-1]], k=rng.choice([0, 2, 3, 4, 6])))
    else:
        shape = rng.choice(
            [(), (0,), (3,), (6,), (4, 3), (3, 4), (6, 3), (0, 3), (3, 0), (3, 3), (3, 3, 3), (5, 3, 3), (1, 1)]
        )
        kind = rng.choice(["f8", "f8", "f4", "f2", "i8", "u8", "i1", ">f8", "c16", "?", "U3", "S3", "M8[s]", "V4"])
        count = int(np.prod(shape))
        values = [
            rng.choice([0.0, 1.0, 3.0, 4.0, 6.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 1e30]) for _ in range(count)
        ]
        with np.errstate(all="ignore"):
            array = (
                np.zeros(shape, kind) if kind in ("V4", "S3", "U3") else np.array(values).astype(kind).reshape(shape)
            )
        if name.startswith("offsets") and rng.random() < 0.5:
            array = np.array(
                rng.choice([[0, 4], [0, 6], [0, 0, 4, 6], [0, 4, 2, 6], [0, 2**62, 6], [-1, 6], [6], [0] * 999 + [6]])
            )
    np.save(out, np.asfortranarray(array) if rng.random() < 0.2 else array, allow_pickle=False)
    return out.getvalue()


# ---- tables ---------------------------------------------------------------------------------------------------------


def table_changed(rng: Random, data: bytes) -> bytes:
    """An Arrow or Parquet file with columns of odd types, or one as it was with other bytes."""
    arrow = data[:6] == b"ARROW1" or data[:4] == b"\xff\xff\xff\xff"
    if rng.random() < 0.5:
        return bytes_changed(rng, data, (data,))
    rows = rng.choice([1, 2, 5])
    columns = {"tokens": _column(rng, rows, arrow) if rng.random() < 0.5 else pa.array([["a", "b"]] * rows)}
    for name in rng.sample(["labels", "pos", "id", "given", "x"], rng.randrange(4)):
        columns[name] = _column(rng, rows, arrow)
    out, table = io.BytesIO(), pa.table(columns)
    if arrow:
        packing = rng.choice([None, None, "lz4", "zstd"])
        maker = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
        with maker(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=packing)) as writer:
            for _ in range(rng.choice([1, 1, 2])):
                writer.write_table(table, max_chunksize=rng.choice([1, 1000]))
    else:
        pq.write_table(
            table,
            out,
            compression=rng.choice(["none", "none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
            use_dictionary=rng.random() < 0.5,
            row_group_size=rng.choice([1, 1000]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            store_schema=rng.random() < 0.7,
        )
    return out.getvalue()


def _column(rng: Random, rows: int, arrow: bool) -> Any:
    words = pa.array([["a", "bc"], None, ["", "é"], [], ["x" * 99]][:rows] + [["z"]] * max(rows - 5, 0))
    flat = pa.array(["s", '{"verb": 1}', None, "[", "{}"][:rows])
    if rng.random() < BOMBS:
        return pa.array([["x" * 5_000_000] * 4] * rows)
    many = rng.choice([10, 100_000, 2**31 - 1 if arrow else 1_000_000])  # nulls take no room in Arrow files
    makers = [
        lambda: words,
        lambda: flat,
        lambda: words.cast(pa.large_list(pa.large_string())),
        lambda: words.cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        lambda: flat.dictionary_encode(),
        lambda: pa.nulls(rows, rng.choice([pa.null(), pa.list_(pa.string()), pa.list_(pa.null()), pa.struct([])])),
        lambda: pa.array([[1, 2]] * rows),
        lambda: pa.array([[["a"], ["b"]]] * rows),
        lambda: pa.array([{"verb": 1, "spans": [[0, 1]]}] * rows),
        lambda: pa.array([{}] * rows, pa.struct([])),
        lambda: words.cast(pa.list_view(pa.string())),
        lambda: pa.array([["a", "b"]] * rows, pa.list_(pa.string(), 2)),
        lambda: pa.array([["a"]] * rows, pa.list_(pa.string_view())),
        lambda: pa.array([b"\xff\xfe"] * rows, pa.binary()),
        lambda: pa.ListArray.from_arrays([0, *[1] * rows], pa.array([b"\xff"], pa.binary()).view(pa.string())),
        lambda: pa.array([[("k", "v")]] * rows, pa.map_(pa.string(), pa.string())),
        lambda: pa.array([2**62] * rows, pa.timestamp("ns")),
        lambda: pa.array([1] * rows, pa.date64()),
        lambda: pa.RunEndEncodedArray.from_arrays([rows], pa.array([["a"]])),
        lambda: pa.ListArray.from_arrays(pa.array([0] * rows + [many], pa.int32()), pa.nulls(many)),
        lambda: pa.ListArray.from_arrays(
            pa.array([0] * rows + [1000], pa.int32()), pa.DictionaryArray.from_arrays([0] * 1000, ["x" * 99_999])
        ),
        lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * rows, pa.binary(16))),
        lambda: pa.array([1.5] * rows, pa.decimal128(5, 1)),
        lambda: pa.array([[float("nan")]] * rows),
    ]
    return rng.choice(makers)()


# ---- models ---------------------------------------------------------------------------------------------------------


def model_changed(rng: Random, data: bytes) -> bytes:
    """A model file with another header or other arrays, and the right checksums."""
    length = struct.unpack_from("<I", data, 12)[0]
    header = json.loads(data[48 : 48 + length])
    begin = 48 + length + -(48 + length) % files.ALIGN
    arrays = [bytearray(data[begin + x["offset"] :][: x["length"]]) for x in header["arrays"]]
    k = rng.randrange(len(arrays)) if arrays else 0
    if arrays and rng.random() < 0.5:
        arrays[k] = bytearray(bytes_changed(rng, bytes(arrays[k]), (bytes(arrays[k]),)))
        entry, width = header["arrays"][k], np.dtype(header["arrays"][k]["dtype"]).itemsize
        arrays[k] = arrays[k][: len(arrays[k]) // width * width]
        if len(arrays[k]) != entry["length"]:
            entry["shape"] = [len(arrays[k]) // width]
    elif arrays and rng.random() < 0.3:
        entry = header["arrays"][k]
        match rng.randrange(4):
            case 0:
                entry["dtype"] = rng.choice([*files.DTYPES, "object", "O", "float128"])
            case 1:
                entry["shape"] = [rng.choice([*LONG, 1, 3]) for _ in range(rng.randrange(4))]
            case 2:
                entry["name"] = rng.choice([x["name"] for x in header["arrays"]])
            case _:
                del header["arrays"][k], arrays[k]
    else:
        header["head"] = MARK
    at = 0
    for entry, content in zip(header["arrays"], arrays, strict=True):
        at += -at % files.ALIGN
        digest = hashlib.sha256(content).hexdigest()
        entry |= {"offset": at, "length": len(content), "sha256": digest}
        at += len(content)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    if header["head"] == MARK:
        head = json.loads(data[48 : 48 + length])["head"]
        text = text.replace(json.dumps(MARK), json_changed(rng, json.dumps(head, ensure_ascii=False)))
    return signed(text.encode("utf-8", "surrogatepass"), [bytes(x) for x in arrays])


def signed(header: bytes, arrays: list[bytes]) -> bytes:
    """A model file with this header, and the right checksum of it."""
    start = files.MAGIC + struct.pack("<II", files.VERSION, len(header))
    out = bytearray(start + hashlib.sha256(start + header).digest() + header)
    for content in (b"", *arrays):
        out += bytes(-len(out) % files.ALIGN) + content
    return bytes(out)


# ---- models of CRFsuite ---------------------------------------------------------------------------------------------


def crfsuite_changed(rng: Random, data: bytes) -> bytes:
    """A number of the header, of a chunk's header, of a feature or of a record is another one; the size is right."""
    out = bytearray(data)
    chunks = struct.unpack_from("<5I", data, 28)
    features, labels, attributes = (min(place, len(data) - 64) for place in chunks[:3])
    back = labels + struct.unpack_from("<I", data, labels + 20)[0]
    at = rng.choice(
        [
            rng.randrange(8, 48),
            features + 4 * rng.randrange(3),
            features + 12 + 4 * rng.randrange(20),
            rng.choice([labels, attributes]) + 4 * rng.randrange(6),
            rng.choice([labels, attributes]) + 2072 + 4 * rng.randrange(20),
            back + 4 * rng.randrange(4),
        ]
    )
    old = struct.unpack_from("<I", data, min(at, len(data) - 4))[0]
    value = rng.choice([*LONG, 0, 1, old + 1, old - 1, 2 * old, len(data), len(data) - 8, rng.randrange(2**32)])
    struct.pack_into("<I", out, min(at, len(data) - 4), int(value) & 0xFFFFFFFF)
    if rng.random() < 0.1:
        out += rng.randbytes(rng.randrange(64))
    struct.pack_into("<I", out, 4, len(out))
    return bytes(out)
