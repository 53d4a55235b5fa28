"""Partition refinement (Moore): the coarsest grouping of states that no input can tell apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def refine(output: Ints, step: Ints) -> Ints:
    """Block of each state, numbered in order of first appearance.

    output (S, x)  what a state shows by itself        step (S, y)  its successors
    """
    block = number(output)
    while True:
        finer = number(np.concatenate([block[:, None], block[step]], axis=1))
        if finer.max(initial=0) == block.max(initial=0):
            return block
        block = finer


def first_of(block: Ints) -> Ints:
    """The first of each block, if blocks are numbered in order of first appearance."""
    return np.searchsorted(np.maximum.accumulate(block), np.arange(block.max(initial=-1) + 1))


def number(rows: Ints) -> Ints:
    """A number for each distinct row, in order of first appearance."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known)) for row in rows], dtype=np.int64)
