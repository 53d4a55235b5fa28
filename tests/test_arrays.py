"""Checks that all parts share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bridle.arrays import is_integer


@pytest.mark.parametrize("value", [0, -3, 2**70, np.int32(5), np.uint8(0)])
def test_integers(value: object) -> None:
    assert is_integer(value)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float64(2), math.nan, "1", None, [1], np.array([1]), 1 + 0j])
def test_what_is_no_integer(value: object) -> None:
    assert not is_integer(value)


def test_bounds_belong_to_the_range() -> None:
    assert [is_integer(k, 1, 3) for k in range(5)] == [False, True, True, True, False]
    assert is_integer(np.int64(2**63 - 1), 1, 2**63 - 1) and not is_integer(2**63, 1, 2**63 - 1)
