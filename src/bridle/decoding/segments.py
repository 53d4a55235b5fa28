"""Probabilities of labels and segments of labellings: sums over all labellings that have them (cpp/search/sums.cpp).

    P(segment | rules) = Z(segment, rules) / Z(rules),    Z: the sum of exp(score) over labellings

A labelling has the segment if its labels over the segment's tokens are the same, a segment begins there, and another
one (or none) begins after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import Deadline, stopping
from bridle.decoding.clash import infeasible_on
from bridle.decoding.marginals import LARGEST_ERROR, LEAST_LOG, hard_rules, late_sum, too_large, too_many_states
from bridle.decoding.problem import FOREVER, Problem
from bridle.errors import BridleError
from bridle.labels import Labels, Segment
from bridle.lattice import Lattice

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder, Given

Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int32]


class Probabilities(NamedTuple):
    """Probabilities of labellings, given that the hard rules hold; NaN where they are not known."""

    log_z: Floats  # (B) of the sequences that were asked about; -inf: no labelling obeys the hard rules
    tokens: Floats | None  # (N) of the label of each token
    segments: Floats  # (S)
    errors: dict[int, BridleError]  # by number of the sequence: why its probabilities are not known


def probabilities(
    problem: Problem,
    ids: Tokens,
    rows: npt.NDArray[np.int64],
    *,
    tokens: bool = False,
    segments: tuple[Tokens, Tokens] | None = None,
    seconds: float | None = None,
) -> Probabilities:
    """Compute probabilities of labellings of a problem's sequences, with one pass in each direction for each of them.

    Parameters
    ----------
    problem : Problem
        The sequences.
    ids : array of int, shape (N,)
        Their labels.
    rows : array of int
        Numbers of the sequences to look at.
    tokens : bool, default False
        Whether to compute the probability of each token's label.
    segments : pair of arrays, shape (S,), optional
        The first token of each segment and the one after its last, counted over all tokens, in order.
    seconds : float, optional
        Time limit for each sequence.

    Returns
    -------
    Probabilities
    """
    hard, labels = hard_rules(problem), problem.labels
    first, end = segments or (np.zeros(0, np.int32), np.zeros(0, np.int32))
    chances = np.full(len(ids), np.nan) if tokens else None
    log_p, rounding = np.full(len(first), np.nan), np.zeros(len(first))
    limit = -1.0 if seconds is None else min(seconds, FOREVER)
    kinds, flags = np.array(labels.kinds, dtype=np.int32), _flags(labels)
    log_z, error = problem.native().probabilities(
        hard, ids, rows, limit, problem.stop, chances, first, end, kinds, *flags, log_p, rounding
    )
    errors = {
        b: wrong
        for b, z, e in zip(rows.tolist(), log_z.tolist(), error.tolist(), strict=True)
        if (wrong := _sum_error(z, e, len(hard))) is not None
    }
    vanishing = log_p + rounding < LEAST_LOG  # 0, however it was rounded
    for k in np.flatnonzero(~vanishing & (rounding > LARGEST_ERROR)).tolist():
        errors.setdefault(int(np.searchsorted(problem.offsets, first[k], side="right")) - 1, too_large(rounding[k]))
    for b in errors:
        low, high = problem.offsets[b : b + 2]
        log_p[np.searchsorted(first, low) : np.searchsorted(first, high)] = np.nan
        if chances is not None:
            chances[low:high] = np.nan
    return Probabilities(log_z, chances, np.where(vanishing, 0.0, np.exp(np.minimum(log_p, 0.0))), errors)


def _flags(labels: Labels) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Labels that always begin a segment, and those that always end one."""
    return np.array(labels.first, dtype=np.uint8), np.array(labels.last, dtype=np.uint8)


def _sum_error(log_z: float, error: float, n_rules: int) -> BridleError | None:
    """Why a sum over all labellings is of no use; None if it is."""
    if math.isnan(log_z):
        return late_sum(n_rules)
    if log_z == math.inf:
        return too_many_states(n_rules)
    return too_large(error) if error > LARGEST_ERROR else None


def segment_probabilities(
    decoder: Decoder,
    lattice: Lattice,
    labels: Sequence[str],
    segments: Sequence[Segment],
    given: Given | None = None,
    *,
    stop: _native.Stop | None = None,
) -> list[float]:
    """Compute the probability of segments of a labelling, given that all hard rules hold.

    It is the probability of these very labels at these tokens, as one segment: the same tokens labelled ``I-X I-X``
    instead of ``B-X I-X`` are another segment. Soft rules do not count. The model is p(y) ~ exp(score(y)).

    Parameters
    ----------
    decoder : Decoder
        Its labels, hard rules and time limit.
    lattice : Lattice
        Scores of the sequence.
    labels : sequence of str
        A labelling.
    segments : sequence of Segment
        Its segments, in order, or some of them.
    given : mapping, optional
        Values that the rules refer to by name.
    stop : Stop, optional
        As in `Decoder.decode_batch`.

    Returns
    -------
    list of float
        The probability of each segment.

    Raises
    ------
    Infeasible
        If no labelling obeys the hard rules.
    LimitReached
        If the time limit came first.
    EngineError
        If the product of all automata is too large.

    Examples
    --------
    >>> import bridle
    >>> decoder = bridle.Decoder(bridle.Labels(["O", "B-X", "I-X"], "BIO"), ["well formed"])
    >>> lattice = bridle.Lattice([[0, 1, 0], [0, 0, 1]])
    >>> segment_probabilities(decoder, lattice, ["B-X", "I-X"], [Segment(0, 2, "X")])  # doctest: +ELLIPSIS
    [0.498...]
    """
    deadline = Deadline.after(decoder.limits.time_limit)
    first, end = (np.array(ends, dtype=np.int32) for ends in ([s.start for s in segments], [s.end for s in segments]))
    ids, rows = decoder.labels.ids(labels).astype(np.int32), np.zeros(1, dtype=np.int64)
    with stopping(stop):
        problem = decoder._problem(lattice, given)
        found = probabilities(problem, ids, rows, segments=(first, end), seconds=deadline.left)
        for error in found.errors.values():
            raise error
        if found.log_z[0] == -math.inf:
            raise infeasible_on(decoder, lattice, given, deadline.left)
    return [float(p) for p in found.segments]
