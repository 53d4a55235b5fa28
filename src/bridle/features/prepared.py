"""Texts that were looked up: their numbers, and those that training has never seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.features.columns import Packed
from bridle.texts import Texts

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Fresh:
    """Texts of a column that were never seen in training."""

    at: npt.NDArray[np.int64]  # where they stand
    texts: Texts  # each once
    which: npt.NDArray[np.integer]  # which of them it is, for each of `at`

    @classmethod
    def of(cls, numbers: Ids, texts: Sequence[str]) -> Fresh:
        """Those whose number is negative."""
        at = np.flatnonzero(numbers < 0)
        if isinstance(texts, Texts):
            return cls(at, *texts.distinct(at))
        return cls(at, *Texts.of([texts[t] for t in at.tolist()]).distinct())


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sequences whose texts were looked up."""

    packed: Packed
    numbers: Mapping[str, Ids]  # source -> (N), -1: never seen
    fresh: Mapping[str, Fresh]  # of sources that have texts that were never seen
