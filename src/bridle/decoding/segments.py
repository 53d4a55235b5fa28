"""How probable the segments of a labelling are: sums over all labellings that have them (cpp/sums.cpp).

    P(segment | rules) = Z(segment, rules) / Z(rules),    Z: the sum of exp(score) over labellings

A labelling has the segment if its labels over the segment's tokens are the same, a segment begins there, and another
one (or none) begins after it. With the labels fixed, all of that is said by masks on single positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline
from bridle.decoding.clash import infeasible_on
from bridle.decoding.marginals import hard_rules, log_sum, share
from bridle.labels import Labels, Segment
from bridle.lattice import Lattice, Scores

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder, Given


def segment_probabilities(
    decoder: Decoder, lattice: Lattice, labels: Sequence[str], segments: Sequence[Segment], given: Given | None = None
) -> list[float]:
    """Compute the probability of segments of a labelling, given that all hard rules hold.

    It is the probability of these very labels at these tokens, as one segment: the same tokens labelled ``I-X I-X``
    instead of ``B-X I-X`` are another segment. Soft rules do not count. The model is p(y) ~ exp(score(y)). The time is
    that of one sum over all labellings per segment, and one more.

    Parameters
    ----------
    decoder : Decoder
        Its labels, hard rules and time limit.
    lattice : Lattice
        Scores of the sequence.
    labels : sequence of str
        A labelling.
    segments : sequence of Segment
        Which tokens to look at, each time: those from `start` on, before `end`.
    given : mapping, optional
        Values that the rules refer to by name.

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
    problem = decoder._problem(lattice, given)
    everything = log_sum(problem.native(), hard_rules(problem), deadline)
    if everything.log_z == -math.inf:
        raise infeasible_on(decoder, lattice, given, deadline.left)
    ids, unary = decoder.labels.ids(labels), np.asarray(lattice.unary, dtype=np.float64)
    found = list[float]()
    for segment in segments:
        kept = _kept(decoder.labels, ids, unary, segment)
        shift = float((kept.max(axis=1) - unary.max(axis=1)).sum())
        if shift == -math.inf:  # a position without labels
            found.append(0.0)
            continue
        problem = decoder._problem(Lattice(kept, lattice.pairwise, lattice.start, lattice.end), given)
        found.append(share(log_sum(problem.native(), hard_rules(problem), deadline), everything, shift))
    return found


def _kept(labels: Labels, ids: npt.NDArray[np.intp], unary: Scores, segment: Segment) -> Scores:
    """The scores, -inf for labels at which a labelling does not have the segment."""
    first, end, kept = segment.start, segment.end, unary.copy()
    inside = np.arange(first, end)
    kept[inside] = -np.inf
    kept[inside, ids[inside]] = unary[inside, ids[inside]]
    if first > 0:
        kept[first - 1, ~labels.begins[:-1, ids[first]]] = -np.inf
    if end < len(ids):
        kept[end, ~labels.begins[ids[end - 1]]] = -np.inf
    return kept
