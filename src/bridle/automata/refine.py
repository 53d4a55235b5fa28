"""Partition refinement (Moore): the coarsest grouping of states that no input can tell apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def refine(output: Ints, step: Ints) -> Ints:
    """Block of each state, numbered in order of first appearance.

    output (S, x)  what a state shows by itself        step (S, y)  its successors
    """
    block = _number(output)
    while True:
        finer = _number(np.concatenate([block[:, None], block[step]], axis=1))
        if finer.max(initial=0) == block.max(initial=0):
            return block
        block = finer


def _number(rows: Ints) -> Ints:
    """A number for each distinct row, in order of first appearance."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known)) for row in rows], dtype=np.int64)
