"""Checks of values that users pass, shared by all parts."""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np

MISSING = -2  # the id of a label that is not known: the token is neither learned from nor counted


def is_integer(value: object, low: float = -math.inf, high: float = math.inf) -> TypeGuard[int]:
    """Is it an integer, Python's or NumPy's, from `low` to `high`? Truth values are not.

    >>> is_integer(3, 1), is_integer(np.int64(0), 1), is_integer(True), is_integer(2.0)
    (True, False, False, False)
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return False
    return bool(low <= value <= high)
