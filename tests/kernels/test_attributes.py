"""Interned strings and attributes of templates against dicts.

N tokens (t)    K templates    id 0: nothing, 1: before the sequence, 2: after it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from bridle import _native
from bridle.errors import FeatureError
from bridle.features.columns import Arrays, Interned
from strategies import seeds

Ids = npt.NDArray[np.int32]
Places = list[list[tuple[int, int]]]  # per template: column, offset

# ---- strings --------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(st.text(max_size=6), st.text("\0\nn\\", max_size=4), st.text("ab\ud800\udc00é", max_size=10))


def numbered(texts: Sequence[str], known: dict[str, int]) -> list[int]:
    return [known.setdefault(text, len(known)) for text in texts]


@given(st.lists(st.lists(TEXTS, max_size=12), max_size=4), st.lists(TEXTS, max_size=12))
def test_strings_are_numbered_as_a_dict_would(batches: list[list[str]], others: list[str]) -> None:
    strings, known = Interned(), dict[str, int]()
    for texts in batches:
        assert strings.add(texts).tolist() == numbered(texts, known)
    assert len(strings) == len(known)
    for some in (others, [text for texts in batches for text in texts]):
        assert strings.find(some).tolist() == [known.get(text, -1) for text in some]
    assert len(strings) == len(known), "looking for a string does not add it"
    assert strings.texts() == list(known)
    again = Interned.restored("x.", strings.arrays("x."))
    assert again.texts() == list(known)
    assert again.find(others).tolist() == strings.find(others).tolist()
    assert again.add(others).tolist() == strings.add(others).tolist()


def test_a_hundred_thousand_strings() -> None:
    rng = np.random.default_rng(0)
    texts = [f"{'x' * (k % 19)}{k}" for k in rng.integers(0, 60_000, 100_000).tolist()]
    strings, known = Interned(), dict[str, int]()
    assert strings.add(texts).tolist() == numbered(texts, known)
    assert strings.find(texts[::-1]).tolist() == [known[text] for text in reversed(texts)]
    assert strings.texts() == list(known)
    assert Interned.restored("", strings.arrays("")).find(texts[:999]).tolist() == [known[text] for text in texts[:999]]


def test_strings_of_every_length() -> None:
    """The hash takes eight bytes at a time; texts that differ in one byte, or in zeros at the end, differ."""
    texts = ["a" * n + end for n in range(40) for end in ("", "b", "\x01")] + ["é" * n for n in range(1, 20)]
    assert Interned().add(texts).tolist() == numbered(texts, {})


def test_files_keep_nulls_and_line_feeds_escaped() -> None:
    """As all versions have written them."""
    texts = ["a\nb", "\0", "\0n", "n", ""]
    arrays = Interned.restored("", built := _interned(texts).arrays("")).arrays("")
    assert built["bytes"].tobytes() == b"a\0nb\0\0\0\0nn" and built["ends"].tolist() == [4, 6, 9, 10, 10]
    assert all(np.array_equal(arrays[name], built[name]) for name in built)
    assert Interned.restored("", built).texts() == texts and Interned.restored("", built).same(_interned(texts))


def _interned(texts: list[str]) -> Interned:
    strings = Interned()
    strings.add(texts)
    return strings


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (b"abc", [1, 2]),  # bytes are left over
        (b"abc", [1, 4]),  # there are not so many
        (b"abc", [2, 1, 3]),  # backwards
        (b"abc", [-1, 3]),
        (b"abc", [3, 2**62]),
        (b"abc", []),
        (b"aab", [1, 2, 3]),  # twice
        (b"a", [0, 0, 1]),  # the empty one twice
    ],
)
def test_bad_arrays_are_refused(text: bytes, ends: list[int]) -> None:
    data, cuts = np.frombuffer(text, dtype=np.uint8), np.array(ends, dtype=np.int64)
    with pytest.raises(FeatureError, match="do not fit together"):
        Interned.restored("word.", {"word.bytes": data, "word.ends": cuts})


def test_arrays_of_other_types_are_refused() -> None:
    good: Arrays = {"bytes": np.zeros(1, dtype=np.uint8), "ends": np.ones(1, dtype=np.int64)}
    assert len(Interned.restored("", dict(good))) == 1
    others: list[Arrays] = [
        {"bytes": np.zeros(1, np.int32)},
        {"ends": np.ones(1, np.int32)},
        {"ends": np.ones((1, 1), np.int64)},
    ]
    for other in others:
        with pytest.raises(FeatureError, match="do not fit together"):
            Interned.restored("", good | other)


def test_bytes_that_are_no_text_can_be_shown() -> None:
    """A file can hold any bytes; whoever prints the heaviest weights must not meet a UnicodeDecodeError."""
    odd = Interned.restored("", {"bytes": np.array([0xFF], np.uint8), "ends": np.array([1], np.int64)})
    assert odd.texts() == ["\ufffd"]


# ---- attributes -----------------------------------------------------------------------------------------------------


Key = tuple[int, ...]  # the template, then the ids at its places


def keys_of(places: Places, ids: list[Ids], offsets: npt.NDArray[np.int64]) -> list[list[Key]]:
    """The attributes of each token, as keys."""
    rows = []
    for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        for t in range(low, high):
            at = [[(c, t + o) for c, o in template] for template in places]
            keys = [tuple(1 if s < low else 2 if s >= high else int(ids[c][s]) for c, s in item) for item in at]
            rows.append([(k, *key) for k, key in enumerate(keys) if 0 not in key])
    return rows


class Slow:
    """Attributes by a dict; which number a key gets is left to the kernel, but no two keys get the same one."""

    def __init__(self, places: Places) -> None:
        self.places, self.known = places, dict[Key, int]()

    def check_fit(self, attributes: _native.Attributes, ids: list[Ids], offsets: npt.NDArray[np.int64]) -> None:
        rows = keys_of(self.places, ids, offsets)
        indptr, attrs = call(attributes.fit, ids, offsets, len(self.places))
        assert np.diff(indptr).tolist() == list(map(len, rows))
        for number, key in zip(attrs, (key for row in rows for key in row), strict=True):
            assert self.known.setdefault(key, number) == number
        assert sorted(self.known.values()) == list(range(len(attributes)))

    def check_encode(self, attributes: _native.Attributes, ids: list[Ids], offsets: npt.NDArray[np.int64]) -> None:
        size = len(attributes)
        rows = [[self.known[key] for key in row if key in self.known] for row in keys_of(self.places, ids, offsets)]
        indptr, attrs = call(attributes.encode, ids, offsets, len(self.places))
        assert np.diff(indptr).tolist() == list(map(len, rows))
        assert attrs == [number for row in rows for number in row]
        assert len(attributes) == size


def random_places(rng: Generator, columns: int, *, fewest: int = 1) -> Places:
    """Up to five templates of up to four places, some of them further away than any sequence is long."""

    def place() -> tuple[int, int]:
        return int(rng.integers(columns)), int(rng.choice([-1000, -9, -2, -1, 0, 0, 0, 1, 2, 9, 1000]))

    return [[place() for _ in range(int(rng.integers(fewest, 5)))] for _ in range(int(rng.integers(1, 6)))]


def random_ids(rng: Generator, ids: list[list[int]]) -> tuple[list[Ids], npt.NDArray[np.int64]]:
    lengths = rng.integers(0, 7, int(rng.integers(0, 50)))  # more than one block of tokens, with empty sequences
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return [rng.choice(some, offsets[-1]).astype(np.int32) for some in ids], offsets


def call(function: Any, ids: list[Ids], offsets: npt.NDArray[np.int64], k: int) -> tuple[list[int], list[int]]:
    n = int(offsets[-1])
    indptr, attrs = np.empty(n + 1, dtype=np.int64), np.empty(max(n * k, 1), dtype=np.int32)
    table = np.array(ids, dtype=np.int32).reshape(len(ids), int(offsets[-1]))
    written = function(table, offsets, indptr, attrs)
    return indptr.tolist(), attrs[:written].tolist()


def listed(attributes: _native.Attributes) -> tuple[Ids, npt.NDArray[np.uint64]]:
    of, key = np.empty(len(attributes), dtype=np.int32), np.empty(len(attributes), dtype=np.uint64)
    attributes.list(of, key)
    return of, key


@pytest.mark.parametrize("size", ["small", "large"])
def test_attributes_are_numbered_as_a_dict_would(size: str) -> None:
    """Large columns: the product of four sizes is beyond 64 bits, and keys are hashes."""
    for rng in seeds(40, 1):
        columns = int(rng.integers(1, 4))
        sizes = rng.integers(4, 9, columns) if size == "small" else rng.integers(2**22, 2**31 - 9, columns)
        # one place is looked up in an array as long as the column: too long here
        places = random_places(rng, columns, fewest=1 if size == "small" else 2)
        ids = [[0, *rng.integers(3, high, 5).tolist()] for high in sizes.tolist()]
        attributes, slow = _native.Attributes(places, sizes.tolist()), Slow(places)
        for _ in range(2):  # the second time some are known
            slow.check_fit(attributes, *random_ids(rng, ids))
        again = _native.Attributes(places, sizes.tolist())
        assert again.put(*listed(attributes))
        some = random_ids(rng, ids)
        slow.check_encode(attributes, *some)
        slow.check_encode(again, *some)
        assert [a.tolist() for a in listed(again)] == [a.tolist() for a in listed(attributes)]


def test_keys_can_be_read_back_while_they_fit() -> None:
    for rng in seeds(20, 2):
        sizes = [5, 7, 1000]
        places = random_places(rng, 3)
        attributes, slow = _native.Attributes(places, sizes), Slow(places)
        slow.check_fit(attributes, *random_ids(rng, [list(range(3, size)) for size in sizes]))
        result = {}
        for number, (k, key) in enumerate(zip(*(array.tolist() for array in listed(attributes)), strict=True)):
            values = []
            for column, _ in reversed(places[k]):
                key, value = divmod(key, sizes[column])
                values.append(value)
            result[k, *reversed(values)] = number
        assert result == slow.known


def test_a_hundred_thousand_keys_at_the_limit_of_64_bits() -> None:
    """The first product of sizes just fits, the second does not: in neither is a key taken for another one."""
    rng = np.random.default_rng(3)
    ids = [rng.integers(3, 2**31 - 1, 100_000, np.int32) for _ in range(2)]
    ids[1][::2] = ids[1][0]  # many differ in the first place only
    offsets, places = np.array([0, 100_000]), [[(0, 0), (1, 0)]]
    wanted = numbered([f"{a} {b}" for a, b in zip(*(column.tolist() for column in ids), strict=True)], {})
    for sizes in ([2**32, 2**32 - 1], [2**32, 2**32 + 1]):
        assert call(_native.Attributes(places, sizes).fit, ids, offsets, 1)[1] == wanted


def test_ids_out_of_range_are_no_attributes() -> None:
    attributes = _native.Attributes([[(0, 0)], [(0, 0), (0, -1)]], [4])
    offsets = np.array([0, 3])
    call(attributes.fit, [np.array([3, 3, 3], np.int32)], offsets, 2)
    hostile = [np.array([4, 2**31 - 1, -5], np.int32)]
    assert call(attributes.encode, hostile, offsets, 2) == ([0, 0, 0, 0], [])


def test_renumber_keeps_some() -> None:
    for rng in seeds(20, 4):
        places, sizes = random_places(rng, 2), [6, 9]
        attributes, slow = _native.Attributes(places, sizes), Slow(places)
        ids = [list(range(size)) for size in sizes]
        some = random_ids(rng, ids)
        slow.check_fit(attributes, *some)
        kept = rng.random(len(attributes)) < 0.5
        order = rng.permutation(int(kept.sum())).tolist()
        number = np.full(len(attributes), -1, dtype=np.int32)
        number[kept] = order
        attributes.renumber(number, len(order))
        slow.known = {key: int(number[old]) for key, old in slow.known.items() if number[old] >= 0}
        assert len(attributes) == len(order)
        again = _native.Attributes(places, sizes)
        assert again.put(*listed(attributes))
        for columns, offsets in (some, random_ids(rng, ids)):
            slow.check_encode(attributes, columns, offsets)
            slow.check_encode(again, columns, offsets)


@pytest.mark.parametrize(
    ("of", "key"),
    [
        ([2], [3]),  # there are two templates
        ([-1], [3]),
        ([2**31 - 1], [3]),
        ([0], [4]),  # beyond the column
        ([0], [2**64 - 1]),
        ([0, 0], [3, 3]),  # twice
        ([1, 0, 1], [9, 3, 9]),
    ],
)
def test_attributes_that_cannot_be_are_refused(of: list[int], key: list[int]) -> None:
    attributes = _native.Attributes([[(0, 0)], [(0, 0), (0, 1)]], [4])
    assert not attributes.put(np.array(of, dtype=np.int32), np.array(key, dtype=np.uint64))
    assert attributes.put(np.array([1, 0, 1], np.int32), np.array([15, 3, 0], np.uint64))


def test_no_tokens_at_all() -> None:
    attributes = _native.Attributes([[(0, 0)]], [3])
    for offsets in (np.array([0]), np.array([0, 0, 0])):
        assert call(attributes.fit, [np.zeros(0, np.int32)], offsets, 1) == ([0], [])
        assert call(attributes.encode, [np.zeros(0, np.int32)], offsets, 1) == ([0], [])
    assert len(attributes) == 0
