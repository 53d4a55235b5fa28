"""Writes small model files of CRFsuite, so that its reader can be tested without CRFsuite."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def crfsuite_file(
    labels: Sequence[bytes],
    attributes: Sequence[bytes],
    state: Mapping[tuple[int, int], float],
    transition: Mapping[tuple[int, int], float],
) -> bytes:
    """A model file: weights by attribute and label, and by label and next label. Its tables of references are empty."""
    records = [(0, *pair, weight) for pair, weight in state.items()]
    records += [(1, *pair, weight) for pair, weight in transition.items()]
    features = b"".join(struct.pack("<3Id", *record) for record in records)
    chunks = [struct.pack("<4s2I", b"FEAT", 12 + len(features), len(records)) + features]
    chunks += [_strings(labels), _strings(attributes)]
    places, at = [], 48
    for chunk in chunks:
        places.append(at)
        at += len(chunk)
    header = struct.pack("<4sI4sI8I", b"lCRF", at, b"FOMC", 100, 0, len(labels), len(attributes), *places, at, at)
    return header + b"".join(chunks)


def _strings(texts: Sequence[bytes]) -> bytes:
    """A constant quark database, without the tables of hashes, which are empty here: 256 times (place, size)."""
    data, places = b"", []
    for number, text in enumerate(texts):
        places.append(24 + 2048 + len(data))
        data += struct.pack("<2I", number, len(text) + 1) + text + b"\0"
    back = 24 + 2048 + len(data)
    body = bytes(2048) + data + struct.pack(f"<{len(texts)}I", *places)
    return struct.pack("<4s5I", b"CQDB", 24 + len(body), 0, 0x62445371, len(texts), back) + body


SMALL = crfsuite_file(
    [b"O", b"A", b"B"],
    [b"w=a", b"w=b", b"line\nbreak", "Straße".encode(), b"\xff\xfe", b"w:a", b"in:deep:x"],
    {(0, 1): 1.5, (0, 0): -0.25, (1, 2): 2.0, (2, 1): 0.1, (3, 0): 0.7, (4, 2): 3.0, (5, 1): 0.3, (6, 2): 1 / 3},
    {(0, 1): 0.5, (1, 1): -0.1, (1, 2): 0.25, (2, 0): 1.0},
)
