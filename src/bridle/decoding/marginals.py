"""Probabilities under rules: sums over all labellings that obey them (cpp/search/sums.cpp).

    P(segment | rules) = Z(segment, rules) / Z(rules),    Z: the sum of exp(score) over labellings

A labelling has the segment if its labels over the segment's tokens are the same, a segment begins there, and another
one (or none) begins after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import Deadline, stopping
from bridle.decoding.problem import FOREVER, Problem
from bridle.decoding.result import infeasible_on
from bridle.errors import BridleError, EngineError, Infeasible, LatticeError, LimitReached
from bridle.labels import Segment
from bridle.lattice import Lattice, Scores
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import Absorb

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

LARGEST_ERROR = 1e-5  # of the log of a probability
LEAST_LOG = -745.0  # of a probability: exp of less is 0
Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int32]


class _Sum(NamedTuple):
    """log of a sum of exp(score), relative to the largest scores, and a bound on its rounding error."""

    log_z: float
    error: float


@dataclass(frozen=True)
class Probability:
    """Probabilities of rules under the model p(y) ~ exp(score(y)).

    Attributes
    ----------
    all : float
        The probability that all hard rules hold.
    each : list of (Rule, float)
        The same for each rule alone, hard or soft.
    """

    all: float
    each: list[tuple[Rule, float]]


def hard_rules(problem: Problem) -> list[int]:
    """Return the numbers of the hard rules."""
    return [k for k, rule in enumerate(problem.rules) if not isinstance(rule, Soft)]


def marginals(problem: Problem, blame: Callable[[float | None], Infeasible], time_limit: float | None) -> Scores:
    """Compute (n, m) posteriors given that the hard rules hold.

    blame(seconds) makes the error if no labelling obeys them.
    """
    deadline = Deadline.after(time_limit)
    table = np.zeros((int(problem.offsets[-1]), len(problem.labels)))
    total = _log_sum(problem, hard_rules(problem), deadline, into=table)
    if total.log_z == -math.inf:
        raise blame(deadline.left)
    if total.error > LARGEST_ERROR:
        raise _too_large(total.error)
    return table


def probability(problem: Problem, blame: Callable[[float | None], Infeasible], time_limit: float | None) -> Probability:
    """Compute P(all hard rules hold), and that of each rule alone; the time limit is for all sums together."""
    deadline = Deadline.after(time_limit)
    total = _log_sum(problem, [], deadline, absorb="nothing")
    if total.log_z == -math.inf:
        raise blame(deadline.left)
    sums = (_log_sum(problem, [k], deadline, absorb="nothing") for k in range(len(problem.rules)))
    each = [(rule, _ratio(part, total)) for rule, part in zip(problem.rules, sums, strict=True)]
    return Probability(_ratio(_log_sum(problem, hard_rules(problem), deadline), total), each)


def log_probability(problem: Problem, ids: npt.NDArray[np.integer], time_limit: float | None) -> float:
    """Compute log p(labelling) given that the hard rules hold; -inf if it breaks one, or if none can hold."""
    hard, lattice, at = hard_rules(problem), problem.lattices[0], np.arange(len(ids))
    broken = (problem.rules[k].violations(ids.tolist(), problem.labels, problem.given(0)) for k in hard)
    if lattice.score(ids) == -math.inf or any(broken):
        return -math.inf
    # As differences to the largest scores, as `_log_sum` has them: scores may be huge.
    score = float((lattice.unary[at, ids] - lattice.unary.max(axis=1)).sum())
    if lattice.pairwise is not None and len(ids) > 1:
        pairwise = lattice.pairwise if lattice.pairwise.ndim == 3 else lattice.pairwise[None]
        step = at[:-1] if len(pairwise) > 1 else 0
        score += float((pairwise[step, ids[:-1], ids[1:]] - pairwise.max(axis=(1, 2))[step]).sum())
    for edge, y in ((lattice.start, ids[:1]), (lattice.end, ids[-1:])):
        score += 0.0 if edge is None else float(edge[y].sum())
    total = _log_sum(problem, hard, Deadline.after(time_limit))
    if total.error > LARGEST_ERROR:
        raise _too_large(total.error)
    return min(0.0, score - total.log_z) if total.log_z > -math.inf else -math.inf


# ---- labels and segments of labellings ------------------------------------------------------------------------------


class Probabilities(NamedTuple):
    """Probabilities of labellings, given that the hard rules hold; NaN where they are not known."""

    log_z: Floats  # (rows,)  -inf: no labelling obeys the hard rules
    tokens: Floats | None  # (N,)  of the label of each token
    segments: Floats  # (S,)
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

    ids (N,): the labels; rows: the numbers of the sequences; tokens: also of the label of each token.
    segments: the first token of each segment and the one after its last, (S,), counted over all tokens, in order.
    seconds: time limit for each sequence.
    """
    hard, labels = hard_rules(problem), problem.labels
    first, end = segments or (np.zeros(0, np.int32), np.zeros(0, np.int32))
    chances = np.full(len(ids), np.nan) if tokens else None
    log_p, rounding = np.full(len(first), np.nan), np.zeros(len(first))
    limit = -1.0 if seconds is None else min(seconds, FOREVER)
    kinds = np.array(labels.kinds, dtype=np.int32)
    flags = np.array(labels.first, dtype=np.uint8), np.array(labels.last, dtype=np.uint8)  # segments begin, end there
    log_z, error = problem.native().probabilities(
        hard, ids, rows, limit, problem.stop, chances, first, end, kinds, *flags, log_p, rounding
    )
    errors: dict[int, BridleError] = {}
    for b, z, rounded in zip(rows.tolist(), log_z.tolist(), error.tolist(), strict=True):
        failure = _sum_error(z, len(hard)) or (_too_large(rounded) if rounded > LARGEST_ERROR else None)
        if failure is not None:
            errors[b] = failure
    vanishing = log_p + rounding < LEAST_LOG  # 0, however it was rounded
    for k in np.flatnonzero(~vanishing & (rounding > LARGEST_ERROR)).tolist():
        errors.setdefault(int(np.searchsorted(problem.offsets, first[k], side="right")) - 1, _too_large(rounding[k]))
    for b in errors:
        low, high = problem.offsets[b : b + 2]
        log_p[np.searchsorted(first, low) : np.searchsorted(first, high)] = np.nan
        if chances is not None:
            chances[low:high] = np.nan
    return Probabilities(log_z, chances, np.where(vanishing, 0.0, np.exp(np.minimum(log_p, 0.0))), errors)


def segment_probabilities(
    decoder: Decoder,
    lattice: Lattice,
    labels: Sequence[str],
    segments: Sequence[Segment],
    given: Mapping[str, Any] | None = None,
    *,
    stop: _native.Stop | None = None,
) -> list[float]:
    """Compute the probability of segments of a labelling, given that all hard rules of a decoder hold.

    It is the probability of these very labels at these tokens, as one segment: the same tokens labelled ``I-X I-X``
    instead of ``B-X I-X`` are another segment. Soft rules do not count. Raises as `Decoder.marginals` does.

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
        problem = Problem.of_one(decoder.compiled, lattice, given)
        result = probabilities(problem, ids, rows, segments=(first, end), seconds=deadline.left)
        for error in result.errors.values():
            raise error
        if result.log_z[0] == -math.inf:
            raise infeasible_on(decoder, lattice, given, deadline.left)
    return [float(p) for p in result.segments]


# ---- sums -----------------------------------------------------------------------------------------------------------


def _log_sum(
    problem: Problem, rules: list[int], deadline: Deadline, into: Scores | None = None, absorb: Absorb = "masks"
) -> _Sum:
    """Sum over all labellings that obey these rules; posteriors are written into `into`."""
    native, left = problem.native(absorb), deadline.left
    log_z, error = native.log_sum(0, rules, into, -1.0 if left is None else min(left, FOREVER), problem.stop)
    if (failure := _sum_error(log_z, len(rules))) is not None:
        raise failure
    return _Sum(log_z, error)


def _ratio(part: _Sum, whole: _Sum) -> float:
    """Divide two sums; raise `LatticeError` if rounding does not leave the result its digits."""
    log_p, error = part.log_z - whole.log_z, part.error + whole.error
    if log_p + error < LEAST_LOG:
        return 0.0
    if error > LARGEST_ERROR:
        raise _too_large(error)
    return min(1.0, math.exp(min(log_p, 0.0)))


def _sum_error(log_z: float, n_rules: int) -> BridleError | None:
    """Make the error for a sum that a kernel did not finish (NaN: out of time, inf: too many states)."""
    got, cause = f"{n_rules} rules together", "Sums need the product of all automata; decoding does not."
    if math.isnan(log_z):
        return LimitReached(
            "the sum over all labellings was not finished within the time limit",
            bound=math.inf,
            got=got,
            wanted="fewer rules, or a higher time_limit" if n_rules else "a higher time_limit",
            cause=cause if n_rules else None,
        )
    if log_z == math.inf:
        return EngineError(
            "the sum over all labellings needs too many states",
            got=got,
            wanted="fewer rules, or a higher max_states or max_memory",
            cause=cause,
        )
    return None


def _too_large(error: float) -> LatticeError:
    return LatticeError(
        "the scores are too large for probabilities",
        got=f"sums that rounding can change by {error:.1g}",
        wanted=f"scores whose sums are exact to {LARGEST_ERROR:g}: below about 1e9 on every path that the rules allow",
        cause="Every path goes through a finite score that stands for impossible, such as -1e38; use -inf for those.",
    )
