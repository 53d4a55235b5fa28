"""Split sequences at random into parts: training, development, test; and copy the text of each one unchanged.

Sequences that belong together (a document, a file, equal tokens) are one *unit* and stay in one part. Units are placed
one by one, those with the rarest labels first, each into the part that needs its label most and has space:

    want[p][label]   share of part p x number of units with the label; at least one if there are enough
    space[p]         sequences that part p still needs; shares are rounded to integers by the largest remainders
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from bridle.arrays import is_integer
from bridle.data.base import Format
from bridle.data.detection import DOCSTART
from bridle.data.examples import Example
from bridle.data.source import Source
from bridle.errors import FileError, shown


def split_indices(
    examples: Sequence[Example],
    into: Mapping[str, float],
    *,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
    stratify: Literal["labels", "none"] = "labels",
    duplicates: Literal["keep", "together"] = "keep",
) -> dict[str, list[int]]:
    """Split sequences into parts at random.

    Parameters
    ----------
    examples : sequence of Example
        The sequences.
    into : mapping of str to float
        The share of each part by its name, such as ``{"train": 0.8, "dev": 0.1, "test": 0.1}``; they add up to 1.
    seed : int, default 0
        Seed of the random number generator.
    groups : sequence, optional
        A name or a number per sequence, for example its document. Sequences of a group stay in one part, so the
        shares are only approximate.
    stratify : {"labels", "none"}, default "labels"
        ``"labels"`` gives each part its share of every label, and at least one sequence with a rare label, if there
        are enough. ``"none"`` does not look at labels.
    duplicates : {"keep", "together"}, default "keep"
        Whether sequences with equal tokens may be in different parts, or stay together in one part.

    Returns
    -------
    dict of str to list of int
        Numbers of the sequences of each part, in increasing order.

    Raises
    ------
    FileError
        If the shares do not add up to 1, an option has an unknown value, or there are fewer sequences (or groups) than
        parts.

    Examples
    --------
    >>> from bridle.data import Example, split_indices
    >>> examples = [Example({"word": ["a"]}, ["RARE" if k < 3 else "O"]) for k in range(30)]
    >>> parts = split_indices(examples, {"train": 0.8, "dev": 0.1, "test": 0.1})
    >>> {name: (len(part), sum(k < 3 for k in part)) for name, part in parts.items()}
    {'train': (24, 1), 'dev': (3, 1), 'test': (3, 1)}
    """
    shares = _shares(into)
    for name, value, words in (("stratify", stratify, ("labels", "none")), ("duplicates", duplicates, _DUPLICATES)):
        if value not in words:
            raise FileError(f"unknown {name}", got=repr(value), wanted=" or ".join(map(repr, words)))
    if not is_integer(seed, 0):
        raise FileError("`seed` must be a non-negative integer", got=repr(seed))
    if groups is not None and len(groups) != len(examples):
        raise FileError(
            "`groups` must have one entry per sequence", got=len(groups), wanted=f"{len(examples)}, one per sequence"
        )
    units = _units(examples, groups, duplicates == "together")
    if len(units) < len(shares):
        what = "there are fewer sequences than parts" if groups is None else "there are fewer groups than parts"
        raise FileError(what, got=len(units), wanted=f"{len(shares)} or more")
    order = [units[u] for u in np.random.default_rng(seed).permutation(len(units)).tolist()]
    labels = [_names(examples[b] for b in unit) if stratify == "labels" else set() for unit in order]
    placed = _placed(order, labels, list(shares.values()), len(examples))
    return {
        name: sorted(b for unit, part in zip(order, placed, strict=True) if part == p for b in unit)
        for p, name in enumerate(shares)
    }


def _names(examples: Iterable[Example]) -> set[str]:
    return {label for example in examples for label in example.labels or () if label is not None}


_DUPLICATES = ("keep", "together")


def duplicates_across(examples: Sequence[Example], parts: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Count the sequences of each part that have the same tokens as a sequence of another part."""
    where: dict[Hashable, set[str]] = {}
    for name, part in parts.items():
        for b in part:
            where.setdefault(_tokens(examples[b]), set()).add(name)
    return {name: sum(len(where[_tokens(examples[b])]) > 1 for b in part) for name, part in parts.items()}


def _tokens(example: Example) -> tuple[str, ...]:
    return tuple(example.tokens)


def _shares(into: Any) -> dict[str, float]:
    """The share of each part, checked."""
    wanted = "shares that add up to 1, such as train=0.8, dev=0.1, test=0.1"
    if not isinstance(into, Mapping) or len(into) < 2:
        raise FileError("`into` must name at least two parts", got=shown(into), wanted=wanted)
    for name, share in into.items():
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
            raise FileError(f"the share of {name!r} must be between 0 and 1", got=shown(share), wanted=wanted)
    if abs(sum(into.values()) - 1) > 1e-6:
        raise FileError("the shares must add up to 1", got=f"{sum(into.values()):g}", wanted=wanted)
    return dict(into)


def _units(examples: Sequence[Example], groups: Sequence[Hashable] | None, together: bool) -> list[list[int]]:
    """Sequences that stay in one part: those of a group and, with duplicates="together", those with equal tokens."""
    above = list(range(len(examples)))  # a forest: each sequence points to one of its unit

    def root(b: int) -> int:
        while above[b] != b:
            above[b] = b = above[above[b]]
        return b

    for keys in (groups, list(map(_tokens, examples)) if together else None):
        first: dict[Hashable, int] = {}
        for b, key in enumerate(keys or ()):
            above[root(b)] = root(first.setdefault(key, b))
    members: dict[int, list[int]] = {}
    for b in range(len(examples)):
        members.setdefault(root(b), []).append(b)
    return list(members.values())


def _spaces(shares: Sequence[float], count: int) -> list[int]:
    """Integers that add up to `count`, as close to the shares as possible, all at least 1."""
    exact = [share * count for share in shares]
    spaces = [max(int(x), 1) for x in exact]
    by_rest = sorted(range(len(shares)), key=lambda p: int(exact[p]) - exact[p])
    k = 0
    while sum(spaces) < count:
        spaces[by_rest[k % len(spaces)]] += 1
        k += 1
    while sum(spaces) > count:
        spaces[spaces.index(max(spaces))] -= 1
    return spaces


def _wants(shares: Sequence[float], count: int) -> list[float]:
    """Divide `count` units with a label among the parts by their shares, at least one each if there are enough."""
    wants = [share * count for share in shares]
    if count < len(shares):
        return wants
    few = [want < 1 for want in wants]
    rest = sum(want for want, is_few in zip(wants, few, strict=True) if not is_few)
    left = count - sum(few)
    return [1.0 if is_few else want * left / rest for want, is_few in zip(wants, few, strict=True)]


def _placed(
    units: Sequence[Sequence[int]], labels: Sequence[set[str]], shares: Sequence[float], count: int
) -> list[int]:
    """The part of each unit."""
    space, part = _spaces(shares, count), [-1] * len(units)
    having: dict[str, list[int]] = {}  # units by label
    for u, names in enumerate(labels):
        for label in names:
            having.setdefault(label, []).append(u)
    got = [Counter[str]() for _ in shares]
    empty, left = set(range(len(shares))), len(units)

    def place(u: int, want: Sequence[float]) -> int:
        nonlocal left
        fits = empty if left <= len(empty) else [p for p in range(len(shares)) if space[p] > 0]  # no part stays empty
        best = max(fits, key=lambda p: (want[p], space[p], -p))
        part[u] = best
        space[best] -= len(units[u])
        got[best].update(labels[u])
        empty.discard(best)
        left -= 1
        return best

    for label, members in sorted(having.items(), key=lambda item: (len(item[1]), item[0])):
        want = [w - got[p][label] for p, w in enumerate(_wants(shares, len(members)))]
        for u in members:
            if part[u] < 0:
                want[place(u, want)] -= 1
    for u in sorted(range(len(units)), key=lambda u: -len(units[u])):  # large ones first, so that small ones fill up
        if part[u] < 0:
            place(u, space)
    return part


_DOCUMENTS = (DOCSTART, "# newdoc")  # lines that stand above the first sequence of a document


class Pieces(NamedTuple):
    """The text of a file, as it is: the text before all sequences, that of each, and the text after them."""

    head: str
    pieces: list[str]
    foot: str

    def text(self, chosen: Iterable[int]) -> str:
        """Return the text of a file with some of the sequences."""
        pieces = [self.pieces[b] for b in chosen]
        if self.head.rstrip().endswith("["):  # a list of JSON objects
            pieces = [",\n".join(piece.strip().removesuffix(",").rstrip() for piece in pieces)]
        return "".join([self.head, *pieces, self.foot])


def pieces_of(path: str, format: Format, examples: Sequence[Example]) -> Pieces | None:
    """Cut a file into the text of each sequence; None if the format does not allow that.

    examples: all sequences of the file, in order.
    """
    lines = [example.where.rpartition(":")[2] for example in examples]
    if not all(map(str.isdecimal, lines)):
        return None
    with closing(Source(path)) as source:
        text = b"".join(source.blocks()).decode(format.encoding).removeprefix("\ufeff")
    new_line = "\r\n" if "\r\n" in text[:10_000] else "\n"
    while text and not text.replace("\r\n", "\n").endswith(format.gap):
        text += new_line
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    bounds = format.boundaries(text, starts, [int(line) - 1 for line in lines])
    if bounds is None or len(bounds) != len(examples) + 1:
        return None
    return Pieces(text[: bounds[0]], [text[a:b] for a, b in pairwise(bounds)], text[bounds[-1] :])


def documents_of(pieces: Iterable[str]) -> list[int]:
    """The number of each sequence's document, from 0; -DOCSTART- or `# newdoc` begins a new one."""
    begins = (k > 0 and any(x.startswith(_DOCUMENTS) for x in piece.split("\n")) for k, piece in enumerate(pieces))
    return list(accumulate(map(int, begins)))
