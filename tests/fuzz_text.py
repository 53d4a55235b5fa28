"""Changes of bytes, text, rules and JSON, by chance."""

from __future__ import annotations

import gzip
import json
import re
from random import Random
from typing import Any

NESTED_QUANTIFIERS = True  # expressions such as (a*)*b in rules, for which some engines take time without end
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
(|)|[penalty 1]|[penalty 1e999]|[penalty nan]|[penalty 2 per violation]|nowhere|,|-1|999999999999999999|#|"|/|
first A before first B|first|same label for equal tokens|equal|ignoring case|include|include x.rules|penalty=2|one
"""
RULE_WORDS = [word.strip() for word in _WORDS.split("|")]


# ---- bytes ----------------------------------------------------------------------------------------------------------


def bytes_changed(rng: Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
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


def text_changed(rng: Random, data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return gzip.compress(text_changed(rng, gzip.decompress(data)), mtime=0)
    if rng.random() < BOMBS:
        piece = rng.choice([b"x", b"a b\n", b"ab cd\n", b"\n", b"ab ", b"a\tb\t", b"<a>"])
        size = BOMB // (16 if b"\n" in piece else 4 if b"<" in piece else 1)  # many sequences, or tags, take longer
        return gzip.compress(data[: rng.randrange(len(data) + 1)] + piece * (size // len(piece)), 1, mtime=0)
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
    built = "\n".join(lines).encode(
        "utf-8",
        "surrogatepass" if "\ud800" in text else "surrogateescape",
    )
    return rng.choice([b"\xef\xbb\xbf", b"\xff\xfe"]) + built if rng.random() < 0.03 else built


def rules_changed(rng: Random, data: bytes) -> bytes:
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


MARK = "\x01here\x01"


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
            built = json.dumps({**holder, key: MARK})
            same = f"{json.dumps(key)}: {nasty(rng)}, {json.dumps(key)}: "
            return (
                built.replace(f"{json.dumps(key)}: {json.dumps(MARK)}", same + nasty(rng)) if holder is value else built
            )
        case 3 if isinstance(holder, list):
            holder[key:] = holder[key:] * rng.choice([0, 2, 40])
        case _:
            holder[key] = MARK
    return json.dumps(value).replace(json.dumps(MARK), nasty(rng))


def lines_changed(rng: Random, data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return text_changed(rng, data)
    if rng.random() < BOMBS:
        body = rng.choice([b"[],", b"{},", b'"ab",', b"1,", b'{"a":0},', b"1.5,"])
        key = rng.choice([b"tokens", b"unary", b"labels", b"other"])
        return gzip.compress(b'{"tokens": ["a"], "' + key + b'": [' + body * (BOMB // len(body)) + b"0]}\n", 1, mtime=0)
    lines = data.decode("utf-8", "replace").split("\n")
    k = rng.randrange(len(lines))
    lines[k] = json_changed(rng, lines[k])
    return "\n".join(lines).encode("utf-8", "surrogatepass")
