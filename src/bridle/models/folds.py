"""Training sequences in folds, so that each can be scored by a model that has not seen it.

Sequences that belong together are in the same fold: those with equal features (a duplicate in another fold would be
known by heart), or those of the same group, if groups are given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.checks import is_integer
from bridle.errors import ModelError, shown
from bridle.features import Encoded
from bridle.frames import cells

Ints = npt.NDArray[np.int64]
FOLDS = 4  # unless a model says otherwise


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Which sequences are in which fold; each fold is held out once."""

    of: Ints  # (B,)  the number of each sequence's fold, from 0; -1: it is never held out

    def __len__(self) -> int:
        return int(self.of.max(initial=-1)) + 1

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        """For each fold: the sequences to train on, and those that are held out."""
        for fold in range(len(self)):
            yield np.flatnonzero(self.of != fold), np.flatnonzero(self.of == fold)


def folds_of(encoded: Encoded, count: int, seed: int, groups: Sequence[Hashable] | None = None) -> Folds:
    """Sequences in folds; those of a group, or without groups those with equal features, in the same one."""
    if groups is not None:
        return deal(groups, count, seed)
    keys: Sequence[Hashable] = [_key(encoded, b) for b in range(len(encoded))]
    return deal(keys if len(set(keys)) > 1 else range(len(keys)), count, seed)  # nothing tells them apart: one by one


def deal(keys: Sequence[Hashable], count: int, seed: int) -> Folds:
    """Deal sequences out to folds of about the same size, those with equal keys to the same one.

    There are fewer folds than `count` if there are fewer different keys.
    """
    members: dict[Hashable, list[int]] = {}
    for b, key in enumerate(keys):
        members.setdefault(key, []).append(b)
    parts = list(members.values())
    order = np.random.default_rng(seed).permutation(len(parts)).tolist()
    order.sort(key=lambda g: -len(parts[g]))  # the large ones first, so that small ones fill what is left
    of, sizes = np.zeros(len(keys), dtype=np.int64), np.zeros(min(count, len(parts)), dtype=np.int64)
    for g in order:
        fold = int(sizes.argmin())
        of[parts[g]] = fold
        sizes[fold] += len(parts[g])
    return Folds(of)


def check_folds(value: Any) -> int:
    """A number of folds."""
    if not is_integer(value, 2):
        raise ModelError("invalid value of `folds`", got=repr(value), wanted="an integer >= 2")
    return int(value)


def groups_of(groups: Any, count: int) -> Sequence[Hashable] | None:
    """A name or a number for each sequence, two different ones at least; or None."""
    if groups is None:
        return None
    groups = cells(groups)
    if isinstance(groups, str) or not hasattr(groups, "__len__") or len(groups) != count:
        got = f"{len(groups)} of them" if hasattr(groups, "__len__") else shown(groups)
        raise ModelError("groups do not fit the sequences", got=got, wanted=f"a list of {count}, one per sequence")
    try:
        different = len(set(groups))
    except TypeError:
        raise ModelError(
            "a group is neither a name nor a number", got=shown(groups), wanted="hashable values"
        ) from None
    if different < 2:
        raise ModelError(
            "all sequences are of the same group",
            got=shown(groups),
            wanted="at least two groups",
            cause="Leave it out.",
        )
    return list(groups)


def _key(encoded: Encoded, b: int) -> bytes:
    """Equal for sequences with equal features."""
    rows = encoded.indptr[encoded.offsets[b] : encoded.offsets[b + 1] + 1]
    digest = hashlib.blake2b((rows - rows[0]).tobytes(), digest_size=16)
    digest.update(encoded.attrs[rows[0] : rows[-1]].tobytes())
    if encoded.values is not None:
        digest.update(encoded.values[rows[0] : rows[-1]].tobytes())
    return digest.digest()
