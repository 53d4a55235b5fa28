"""Changes to files, by chance: of bytes, and of what the bytes mean.

Everything comes from the generator that is passed in, so that a seed gives the same file again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bridle.models import files

NESTED_QUANTIFIERS = False  # expressions such as (a*)*b in rules, whose matching may take time without end
LARGE = 20_000  # bytes; larger files are not changed again
BOMBS = 0.004  # share of files that unpack to very much: each takes a second or more
BOMB = 16_000_000  # bytes that they unpack to: just below what one line may have

INTEGERS = [0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 0x7F000000]
LONG = [*INTEGERS, 2**40, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, 10**18]
TEXTS = [
    *("", " ", "\0", "\n", "\r", "\t", "\ufeff", "\u2028", "\u3000", "#", "# ", "-DOCSTART-", "/", "|", "<", ">", "&"),
    *(
        "&#1114112;",
        "&#xD800;",
        "<a>",
        "</a>",
        "<sequence>",
        "</sequence>",
        "<NEWREFERENCE>",
        '"',
        "'",
        "\\",
        "\\u",
        "{",
    ),
    *("}", "[", "]", "(", ")", "_", "O", "B-A", "I-A", "é" * 3, "\U0001f600", "\ud800", "x" * 300, "x" * 70_000),
]
NUMBERS = [
    "0",
    "-1",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "1e-400",
    "9" * 30,
    "9" * 5000,
    "0.1",
    "65536",
    "1000000",
    "1e300",
]
_WORDS = """
no duplicates of A, B|at most|at least|exactly|1|2|0|segments of|tokens of|segment of|A|B|O|before|next to|followed by|
starts with|ends with|fix|allow|forbid|at|tokens|/a+/|/[/|/(/|given verb|given phrases|given|same label|over|0:2|2:1|
0:999999999999999999|if|then|well formed|matches|"O* A+"|"("|"A{1,3}"|present|absent|label at|is|implies|iff|and|or|not|
(|)|[penalty 1]|[penalty 1e999]|[penalty nan]|[penalty 2 per violation]|nowhere|,|-1|999999999999999999|#|"|/
"""
RULE_WORDS = [word.strip() for word in _WORDS.split("|")]


def changed(rng: Random, kind: str, all_seeds: tuple[bytes, ...]) -> bytes:
    """A seed file of a kind of door (text, rules, json, npz, table, model), changed."""
    data = rng.choice(all_seeds)
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    structural = {"text": _text, "rules": _rules, "json": _json, "npz": _npz, "table": _table, "model": _model}[kind]
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        if len(data) > LARGE:
            break
        data = _tried(structural, rng, data) if rng.random() < 0.6 else _bytes(rng, data, all_seeds)
    return data


def _tried(change: Callable[[Random, bytes], bytes], rng: Random, data: bytes) -> bytes:
    """A change of what the bytes mean; they stay as they are if they mean nothing any more, by the changes before."""
    try:
        return change(rng, data)
    except Exception:
        return data


# ---- bytes ----------------------------------------------------------------------------------------------------------


def _bytes(rng: Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    out, n = bytearray(data), len(data)
    at, to = sorted((rng.randrange(n + 1), rng.randrange(n + 1)))
    match rng.randrange(9):
        case 0 if n:
            out[at % n] ^= 1 << rng.randrange(8)
        case 1 if n:
            out[at % n] = rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)])
        case 2:
            del out[at:]
        case 3:
            del out[at : min(to, at + rng.choice([1, 4, 8, 100]))]
        case 4:
            out[at:at] = out[at : min(to, at + 200)]
        case 5:
            other = rng.choice(others)
            out[at:] = other[rng.randrange(len(other) + 1) :]
        case 6:
            out[at:at] = rng.choice(
                [rng.randbytes(rng.randrange(16)), rng.choice(TEXTS).encode("utf-8", "surrogatepass")]
            )
        case _:
            width = rng.choice([1, 2, 4, 4, 4, 8, 8])
            at -= at % (width if rng.random() < 0.9 else 1)
            near = int.from_bytes(out[at : at + width], "little") + rng.randrange(-9, 10)
            value = rng.choice([*LONG, near, near * 2, rng.getrandbits(8 * width)])
            out[at : at + width] = (value % 256**width).to_bytes(width, rng.choice(["little", "little", "big"]))
    return bytes(out)


# ---- text -----------------------------------------------------------------------------------------------------------


def _text(rng: Random, data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return gzip.compress(_text(rng, gzip.decompress(data)), mtime=0)
    if rng.random() < BOMBS:
        piece = rng.choice([b"x", b"a b\n", b"ab cd\n", b"\n", b"ab ", b"a\tb\t", b"<a>"])
        return gzip.compress(data[: rng.randrange(len(data) + 1)] + piece * (BOMB // len(piece)), 1, mtime=0)
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    k = rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            lines[k:k] = [lines[k]] * rng.choice([1, 2, 50])
        case 1:
            del lines[k]
        case 2:
            lines[k] = rng.choice(TEXTS).join(re.split(r"([ \t/|]|<[^>]*>)", lines[k]))
        case 3:
            pieces = re.split(r"([ \t/|<>&;,]+)", lines[k])
            pieces[rng.randrange(len(pieces))] = rng.choice(TEXTS + NUMBERS)
            lines[k] = "".join(pieces)
        case 4:
            lines[k] = re.sub(r"\d+", lambda _: rng.choice(NUMBERS), lines[k])
        case 5:
            lines[k] += rng.choice(TEXTS)
        case 6:
            lines[k] = lines[k] * rng.choice([2, 100])
        case _:
            rng.shuffle(lines)
    made = "\n".join(lines).encode(
        "utf-8",
        "surrogatepass" if "\ud800" in text else "surrogateescape",
    )
    return rng.choice([b"\xef\xbb\xbf", b"\xff\xfe"]) + made if rng.random() < 0.03 else made


def _rules(rng: Random, data: bytes) -> bytes:
    lines = data.decode("utf-8", "replace").split("\n")
    k = rng.randrange(len(lines))
    pieces = re.split(r"(\s+|[,()\[\]\"/:])", lines[k])
    j = rng.randrange(len(pieces))
    match rng.randrange(8):
        case 0:
            pieces[j] = rng.choice(RULE_WORDS)
        case 1:
            pieces[j:j] = [" ", rng.choice(RULE_WORDS), " "]
        case 2:
            del pieces[j]
        case 3:
            deep = rng.choice([5, 50, 300, 3000])
            word = rng.choice(["(", "not ", "not (", "present A and ", "present A implies ", "present A or ", "("])
            pieces = [word * deep, *pieces, ")" * (deep if "(" in word and rng.random() < 0.8 else 0)]
        case 4:
            pieces = [re.sub(r"\d+", lambda _: rng.choice([*map(str, LONG), *NUMBERS]), x) for x in pieces]
        case 5:
            pieces = [" ".join(rng.choices(RULE_WORDS, k=rng.randrange(1, 9)))]
        case 6:
            quoted = rng.choice(_EXPRESSIONS + (_NESTED if NESTED_QUANTIFIERS else []))
            pieces = [rng.choice([f'matches "{quoted}"', f"fix A at tokens /{quoted}/"])]
        case _:
            lines[k:k] = [lines[k]] * rng.choice([1, 2, 30])
    lines[k] = "".join(pieces)
    text = "\n".join(lines)
    if not NESTED_QUANTIFIERS:
        text = re.sub(r"\)[*+?{]", ")", text)  # a group that is repeated is where they come from
    return text.encode("utf-8", "replace")


_EXPRESSIONS = [
    r"A{0,50}",
    r"(A|B|O)",
    "A|" * 200,
    "[" * 50,
    "(" * 2000,
    r"\d{1,4}",
    "A B O " * 300,
    ". . . .",
    r"(?i)x",
    r"\x",
]
_EXPRESSIONS += ["A{99999}", "A{1,70000}", "A{999999999999}", r"[^A]* A", "a{1000}{1000}", ".{65536}", "(?P<x>a)(?P=x)"]
_NESTED = ["(a*)*b", "(a|a)*b", "((A*)*)* B", "(A? B?)* O", "(A* B*)* (O* A*)* B"]


# ---- JSON -----------------------------------------------------------------------------------------------------------


def nasty(rng: Random) -> str:
    """A value of JSON that few expect, as text."""
    deep = rng.choice([3, 50, 900, 5000])
    values = [
        *NUMBERS,
        "null",
        "true",
        "false",
        '""',
        "[]",
        "{}",
        "[[]]",
        "[[[1]]]",
        '"-inf"',
        '"NaN"',
        "[" * deep,
        '{"a":' * 9,
    ]
    values += [
        "[" * deep + "]" * deep,
        '{"a":' * deep + "1" + "}" * deep,
        json.dumps(rng.choice(TEXTS)),
        json.dumps(TEXTS),
    ]
    values += [
        '"\\ud800"',
        json.dumps(list(range(300))),
        json.dumps([[0.5] * 3] * 50),
        json.dumps({f"k{k}": k for k in range(9)}),
    ]
    return rng.choice(values) if rng.random() < 0.8 else str(rng.choice(LONG))


_MARK = "\x01here\x01"


def json_changed(rng: Random, text: str) -> str:
    """A JSON value with one change: a value replaced, a key dropped, doubled or renamed."""
    value = json.loads(text)
    at, path = value, list[tuple[Any, Any]]()
    while isinstance(at, (dict, list)) and at and (not path or rng.random() < 0.8):
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        path.append((at, key))
        at = at[key]
    if not path:
        return nasty(rng)
    holder, key = path[-1]
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder.pop(key)
        case 1:
            holder.insert(key, holder[key])
        case 2 if isinstance(holder, dict):
            made = json.dumps({**holder, key: _MARK})
            same = f"{json.dumps(key)}: {nasty(rng)}, {json.dumps(key)}: "
            return (
                made.replace(f"{json.dumps(key)}: {json.dumps(_MARK)}", same + nasty(rng)) if holder is value else made
            )
        case 3 if isinstance(holder, list):
            holder[key:] = holder[key:] * rng.choice([0, 2, 40])
        case _:
            holder[key] = _MARK
    return json.dumps(value).replace(json.dumps(_MARK), nasty(rng))


def _json(rng: Random, data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return _text(rng, data)
    if rng.random() < BOMBS:
        body = rng.choice([b"[],", b"{},", b'"ab",', b"1,", b'{"a":0},', b"1.5,"])
        key = rng.choice([b"tokens", b"unary", b"labels", b"other"])
        return gzip.compress(b'{"tokens": ["a"], "' + key + b'": [' + body * (BOMB // len(body)) + b"0]}\n", 1, mtime=0)
    lines = data.decode("utf-8", "replace").split("\n")
    k = rng.randrange(len(lines))
    lines[k] = json_changed(rng, lines[k])
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# ---- npz ------------------------------------------------------------------------------------------------------------


def _npz(rng: Random, data: bytes) -> bytes:
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
            members[name] = _bytes(rng, members.get(name, b""), (b"", data))
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


def _table(rng: Random, data: bytes) -> bytes:
    """An Arrow or Parquet file with columns of odd types, or one as it was with other bytes."""
    arrow = data[:6] == b"ARROW1" or data[:4] == b"\xff\xff\xff\xff"
    if rng.random() < 0.5:
        return _bytes(rng, data, (data,))
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


def _model(rng: Random, data: bytes) -> bytes:
    """A model file with another header or other arrays, and the right checksums."""
    length = struct.unpack_from("<I", data, 12)[0]
    header = json.loads(data[48 : 48 + length])
    begin = 48 + length + -(48 + length) % files.ALIGN
    arrays = [bytearray(data[begin + x["offset"] :][: x["length"]]) for x in header["arrays"]]
    k = rng.randrange(len(arrays)) if arrays else 0
    if arrays and rng.random() < 0.5:
        arrays[k] = bytearray(_bytes(rng, bytes(arrays[k]), (bytes(arrays[k]),)))
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
        header["head"] = _MARK
    at = 0
    for entry, content in zip(header["arrays"], arrays, strict=True):
        at += -at % files.ALIGN
        digest = hashlib.sha256(content).hexdigest()
        entry |= {"offset": at, "length": len(content), "sha256": digest}
        at += len(content)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    if header["head"] == _MARK:
        head = json.loads(data[48 : 48 + length])["head"]
        text = text.replace(json.dumps(_MARK), json_changed(rng, json.dumps(head, ensure_ascii=False)))
    return signed(text.encode("utf-8", "surrogatepass"), [bytes(x) for x in arrays])


def signed(header: bytes, arrays: list[bytes]) -> bytes:
    """A model file with this header, and the right checksum of it."""
    start = files.MAGIC + struct.pack("<II", files.VERSION, len(header))
    out = bytearray(start + hashlib.sha256(start + header).digest() + header)
    for content in (b"", *arrays):
        out += bytes(-len(out) % files.ALIGN) + content
    return bytes(out)
