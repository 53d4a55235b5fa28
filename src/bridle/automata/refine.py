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
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.empty_like(first)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(order[inverse.reshape(-1)], dtype=np.int64)
