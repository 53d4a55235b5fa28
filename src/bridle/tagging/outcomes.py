"""Outcomes: what became of the sequences of a block, each with its labelling or its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.decoding.result import Decoding, Decodings, first_error
from bridle.errors import BridleError
from bridle.labels import Labels

_sentence = lru_cache(maxsize=1024)(str)  # of a rule: a few rules are broken again and again
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(eq=False)
class Outcomes:
    """The labellings of the sequences of a block; errors are values here, one per sequence that has one.

    Attributes
    ----------
    decodings : Decodings
        Labels, scores, bounds and statuses. A sequence that could not be labelled has the status "error".
    label_set : Labels
        The labels that ids are numbers of.
    errors : dict of int to BridleError
        Why a sequence could not be labelled, or why one that was labelled lacks what else was wanted.
    k_best : list, optional
        The best labellings of each sequence; None where there is no labelling.
    probabilities : array of float, shape (N,), optional
        The probability of each token's label, given that the hard rules hold; NaN where they do not.
    segment_probabilities : list, optional
        The probability of each segment of each labelling, in order; None where there is none.
    chars : pair of arrays, optional
        Where the tokens begin and end in their texts.
    """

    decodings: Decodings
    label_set: Labels
    errors: dict[int, BridleError] = field(default_factory=dict)
    k_best: list[Sequence[Decoding] | None] | None = None
    probabilities: npt.NDArray[np.float64] | None = None
    segment_probabilities: list[list[float] | None] | None = None
    chars: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None

    def __len__(self) -> int:
        return len(self.decodings)

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """(B) sequences that have labels."""
        return self.decodings.answered

    @cached_property
    def status(self) -> npt.NDArray[np.str_]:
        """(B) the status of each sequence."""
        return self.decodings.status

    @cached_property
    def labels(self) -> list[list[str] | None]:
        """The labels of each sequence; None where there are none."""
        there = self.labelled.tolist()
        return [labels if known else None for labels, known in zip(self.decodings.labels, there, strict=True)]

    @cached_property
    def offsets(self) -> npt.NDArray[np.int32]:
        """(B + 1) where the labels of each sequence begin among `ids`."""
        sizes = np.where(self.labelled, np.diff(self.decodings.offsets), 0)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)

    @cached_property
    def ids(self) -> npt.NDArray[np.int32]:
        """Label ids of all sequences that have labels, end to end."""
        return self.per_label(self.decodings.ids)

    def per_label(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Leave out the values of tokens without labels."""
        ids = self.decodings.ids
        return values if ids.min(initial=0) >= 0 else values[ids >= 0]

    @cached_property
    def segments(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The segments of all labellings: first token and the one after the last, among `ids`; the sequence."""
        return segments_of(self.label_set, self.ids, self.offsets)

    def record(self, row: int, *, rounded: bool = True) -> dict[str, Any]:
        """What is known of a sequence besides its labels, as JSON has it: `Decoding.to_dict` and what was wanted."""
        if row in self.decodings.errors:
            return {"error": str(self.errors[row])}
        record = self.decodings[row].to_dict(_sentence)
        del record["labels"]
        if self.k_best is not None and (best := self.k_best[row]) is not None:
            record["k_best"] = [decoding.to_dict(_sentence) for decoding in best]
        if self.probabilities is not None:
            chances = self.probabilities[slice(*self.decodings.offsets[row : row + 2])]
            listed = [round(p, 6) for p in chances.tolist()] if rounded else chances.tolist()
            record["probability"] = listed if self.labelled[row] and not np.isnan(chances).any() else None
        if row in self.errors:
            record["error"] = str(self.errors[row])
        return record

    def first_error(self, *, infeasible: bool) -> tuple[int, BridleError | None]:
        """The number of the first sequence that has an error, and the error; how many there are, if none has one.

        infeasible: that no labelling obeys the rules, or none was found in time, is an error too.
        """
        return first_error(self.decodings, self.errors, infeasible=infeasible)


def segments_of(
    labels: Labels, ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Cut many labellings into segments, as `Labels.segments` does: first token, the one after the last, sequence.

    Tokens are counted over all sequences.
    """
    none = np.zeros(0, dtype=np.int32)
    if not len(ids):
        return none, none, none.astype(np.int64)
    before = np.concatenate([[0], ids[:-1]])
    starts = labels.starts(before, ids)
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    first = np.flatnonzero(starts).astype(np.int32)
    last = np.append(first[1:], np.int32(len(ids)))
    inside = np.array([bool(tag) for tag in labels.tag_of])[ids[first]]
    first, last = first[inside], last[inside]
    return first, last, np.searchsorted(offsets, first, side="right") - 1
