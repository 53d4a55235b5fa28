"""Wrong labellings, made from right ones by the mistakes that taggers make. Seeded.

relabel   a segment (or one token) gets another label         merge   a segment gets the label of a neighbour
swap      two segments exchange their labels                  split   the middle of a segment gets another label
shift     the border of two neighbours moves by a token or two
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator

from bridle.labels import Labels
from bridle.learn.counted import Counted, Ints

Pieces = list[tuple[int, str]]  # length and type of each segment, end to end


def corrupted(data: Counted, number: int, seed: int) -> tuple[Counted, Ints]:
    """About so many wrong labellings, and the sequence that each was made from."""
    rng = np.random.default_rng(seed)
    each = _spread(len(data), number, rng)
    ids: list[Ints] = []
    owner: list[int] = []
    for k, wanted in enumerate(each.tolist()):
        low, high = data.offsets[k : k + 2].tolist()
        gold = data.ids[low:high]
        seen = {gold.tobytes()}
        for _ in range(wanted if len(gold) else 0):
            made = _corrupt(gold, data.labels, rng)
            if made.tobytes() not in seen:
                seen.add(made.tobytes())
                ids.append(made)
                owner.append(k)
    return _taken(data, ids, owner), np.array(owner, dtype=np.int64)


def given_wrong(data: Counted, wrong: list[list[Ints]]) -> tuple[Counted, Ints]:
    """The same for labellings that somebody brings, several per sequence; those that are right are left out."""
    ids: list[Ints] = []
    owner: list[int] = []
    for k, some in enumerate(wrong):
        gold = data.ids[data.offsets[k] : data.offsets[k + 1]]
        fresh = [one for one in some if (one != gold).any()]
        ids += fresh
        owner += [k] * len(fresh)
    return _taken(data, ids, owner), np.array(owner, dtype=np.int64)


def _spread(n: int, number: int, rng: Generator) -> Ints:
    """(n,): how many for each sequence, as even as can be."""
    each = np.full(n, number // max(n, 1), dtype=np.int64)
    each[rng.permutation(n)[: number - int(each.sum())]] += 1
    return each


def _taken(data: Counted, ids: list[Ints], owner: list[int]) -> Counted:
    offsets = np.cumsum([0, *map(len, ids)]).astype(np.int64)
    tokens = data.tokens
    texts = None if tokens is None else [t for k in owner for t in tokens[data.offsets[k] : data.offsets[k + 1]]]
    return Counted(data.labels, np.concatenate([*ids, np.zeros(0, dtype=np.int64)]).astype(np.int64), offsets, texts)


def _corrupt(gold: Ints, labels: Labels, rng: Generator) -> Ints:
    pieces = list(_pieces(gold, labels))
    ways: list[Callable[[Pieces, Labels, Generator], Pieces]] = [_relabel, _split]
    if len(pieces) > 1:
        ways += [_merge, _swap, _shift]
    way = int(rng.integers(len(ways) + 1))
    if way == len(ways):
        made = gold.copy()
        made[rng.integers(len(gold))] = rng.integers(len(labels))
        return made
    return _written(ways[way](pieces, labels, rng), labels)


def _pieces(ids: Ints, labels: Labels) -> Iterator[tuple[int, str]]:
    before = np.append(len(labels), ids[:-1])
    starts = np.flatnonzero(labels.starts(before, ids)).tolist()
    for low, high in zip(starts, [*starts[1:], len(ids)], strict=True):
        yield high - low, labels.type_of[ids[low]]


def _relabel(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces)))
    return [*pieces[:at], (pieces[at][0], _any_type(labels, rng)), *pieces[at + 1 :]]


def _split(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces)))
    size, kind = pieces[at]
    low, high = sorted(rng.integers(size + 1, size=2).tolist())
    parts = [(low, kind), (high - low, _any_type(labels, rng)), (size - high, kind)]
    return [*pieces[:at], *(part for part in parts if part[0]), *pieces[at + 1 :]]


def _merge(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces) - 1))
    (left, one), (right, other) = pieces[at : at + 2]
    return [*pieces[:at], (left + right, one if rng.random() < 0.5 else other), *pieces[at + 2 :]]


def _swap(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    i, j = rng.choice(len(pieces), size=2, replace=False).tolist()
    made = list(pieces)
    made[i], made[j] = (pieces[i][0], pieces[j][1]), (pieces[j][0], pieces[i][1])
    return made


def _shift(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces) - 1))
    (left, one), (right, other) = pieces[at : at + 2]
    by = int(np.clip(rng.choice([-2, -1, 1, 2]), -left, right))
    moved = [(left + by, one), (right - by, other)]
    return [*pieces[:at], *(part for part in moved if part[0]), *pieces[at + 2 :]]


def _any_type(labels: Labels, rng: Generator) -> str:
    return labels.type_of[int(rng.integers(len(labels)))]


def _written(pieces: Pieces, labels: Labels) -> Ints:
    """Segments as labels under the scheme; a tag that the label set lacks is replaced by one that it has."""
    ids = {(kind, tag): y for y, (kind, tag) in enumerate(zip(labels.type_of, labels.tag_of, strict=True))}
    any_of = dict(zip(labels.type_of, range(len(labels)), strict=True))
    middle = "M" if labels.scheme == "BMES" else "I"
    closed = labels.scheme in ("BIOES", "BMES")
    out = []
    for size, kind in pieces:
        tags = ["B", *[middle] * (size - 2), "E" if closed else middle][:size] if size > 1 else ["S" if closed else "B"]
        out += [ids.get((kind, tag), any_of[kind]) for tag in tags]
    return np.array(out, dtype=np.int64)
