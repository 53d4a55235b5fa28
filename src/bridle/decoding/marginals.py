"""Sums over labellings under rules (cpp/search/sums_chain.h): log-partitions, probabilities, samples, entropies.

    P(segment | rules) = Z(segment, rules) / Z(rules),    Z: the sum of exp(score) over labellings

A labelling has the segment if its labels over the segment's tokens are the same, a segment begins there, and another
one (or none) begins after it. With ``soft="factor"`` the score is less what soft rules cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import is_integer
from bridle.deadline import Deadline, stopping
from bridle.decoding.problem import (
    FOREVER,
    Problem,
    bad_option,
    check_given,
    check_lattice,
    check_lattices,
    offsets_of,
    pieces,
)
from bridle.decoding.result import infeasible_on
from bridle.decoding.threads import over_parts, thread_count
from bridle.errors import BridleError, EngineError, LatticeError, LimitReached
from bridle.lattice import Batch, Lattice, Lattices, Scores
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import Absorb, Givens

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

LARGEST_ERROR = 1e-5  # of the log of a probability
LEAST_LOG = -745.0  # of a probability: exp of less is 0
SEQUENCES = 16  # that a thread sums up at a time, at least
Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int32]
SoftSums = Literal["ignore", "factor"]  # soft rules are left out, or factors exp(-penalty)


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


def soft_rules(problem: Problem, soft: SoftSums = "factor") -> list[int]:
    """Return the numbers of the soft rules, if they are factors."""
    if soft not in ("ignore", "factor"):
        raise bad_option("soft", soft, "'ignore' or 'factor'")
    return [k for k, rule in enumerate(problem.rules) if isinstance(rule, Soft)] if soft == "factor" else []


def log_probability(problem: Problem, ids: npt.NDArray[np.integer], time_limit: float | None) -> float:
    """Compute log p(labelling) given that the hard rules hold; -inf if it breaks one, or if none can hold."""
    hard, deadline, row = hard_rules(problem), Deadline.after(time_limit), np.zeros(1, dtype=np.int64)
    y, seconds = np.ascontiguousarray(ids, np.int32), _native_seconds(deadline.left)
    score = float(np.asarray(problem.native().score_paths(hard, [], row, y, seconds, problem.stop))[0])
    if (failure := _sum_error(score, len(hard))) is not None:
        raise failure
    if score == -math.inf:
        return score
    total = _log_sum(problem, hard, [], deadline)
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
    log_p, rounding = np.full(len(first), np.nan), np.zeros(len(first))
    kinds = np.array(labels.kinds, dtype=np.int32)
    flags = np.array(labels.first, dtype=np.uint8), np.array(labels.last, dtype=np.uint8)  # segments begin, end there
    shape = problem.unary.shape
    table = np.full(shape, np.nan) if tokens else None
    log_z, _, error = problem.native().sums(
        hard,
        [],
        rows,
        _native_seconds(seconds),
        problem.stop,
        marginals=table,
        segments=(ids, first, end, kinds, *flags, log_p, rounding) if len(first) else None,
    )
    chances = None if table is None else table[problem.token_rows(), ids]
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


# ---- batches --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums over the labellings of many sequences; None: not asked for."""

    log_z: Floats  # (B,) relative to `offset`; -inf: no labelling obeys the hard rules
    offset: Floats  # (B,) the same for every choice of rules
    error: Floats  # (B,) of log_z, and of the log of every probability, by rounding
    marginals: Scores | None = None  # (rows, m) in the rows of the scores
    edges: Scores | None = None  # (B, m, m) expected number of label bigrams
    edge_sum: Floats | None = None  # (m, m) of all sequences that are kept
    counts: Floats | None = None  # (B, R) expected violations of soft rules
    entropy: Floats | None = None  # (B,)
    samples: Tokens | None = None  # (n, N)
    gold: Floats | None = None  # (B,) score of a labelling, less penalties, relative to `offset`

    @property
    def log_partition(self) -> Floats:
        """The logarithm of the sum of exp(score)."""
        return self.log_z + self.offset


@dataclass(frozen=True, slots=True)
class Wanted:
    """Settings of a sum: over which labellings, and the figures that are wanted."""

    hard: Sequence[int]
    soft: Sequence[int] = ()
    marginals: bool = False
    edges: bool = False
    edge_sum: bool = False
    counts: bool = False
    entropy: bool = False
    samples: int = 0
    seed: int = 0
    penalties: Floats | None = None  # (R,) instead of those of the rules
    allowed: npt.NDArray[np.uint64] | None = None  # (N, words) bits of the labels that are allowed, too
    gold: Tokens | None = None  # (N,) labels; marginals, edges and counts are less what this labelling has
    keep: npt.NDArray[np.bool_] | None = None  # (B,) sequences that count in `edge_sum`; None: all
    absorb: Absorb = "masks"
    dtype: npt.DTypeLike = np.float64


def sum_up(
    decoder: Decoder,
    lattices: Lattices,
    given: Givens,
    wanted: Wanted,
    threads: int = 1,
    *,
    stop: _native.Stop | None = None,
) -> Sums:
    """Sum up over the labellings of many sequences; raise the error of the first whose sum is not known."""
    count, offsets, m = len(lattices), offsets_of(lattices), len(decoder.labels)
    padded = isinstance(lattices, Batch) and lattices.first is not None
    rows = len(lattices.unary) if isinstance(lattices, Batch) else int(offsets[-1])
    R, seconds = len(decoder.rules), _native_seconds(decoder.limits.time_limit)
    log_z, offset, error = np.zeros(count), np.zeros(count), np.zeros(count)
    whole = rows == int(offsets[-1])  # no padding, which would be left as it is
    table = (np.empty if whole else np.zeros)((rows, m), wanted.dtype) if wanted.marginals else None
    edges = np.zeros((count, m, m), wanted.dtype) if wanted.edges else None
    counts = np.zeros((count, R)) if wanted.counts else None
    entropy = np.zeros(count) if wanted.entropy else None
    samples = np.zeros((wanted.samples, int(offsets[-1])), np.int32) if wanted.samples else None
    gold = None if wanted.gold is None else np.zeros(count)
    keep = np.ones(count, np.uint8) if wanted.keep is None else wanted.keep.astype(np.uint8)

    def part(low: int, high: int, stop: _native.Stop) -> Floats:
        edge_sum = np.zeros((m, m))
        scores = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
        values = None if given is None else given[low:high]
        for k, lattices_here, given_here, _, _ in pieces(scores, values, None, {}):
            first, size = low + k, len(lattices_here)
            here, begin, end = slice(first, first + size), int(offsets[first]), int(offsets[first + size])
            problem = Problem(decoder.compiled, lattices_here, given_here, first=first, many=count > 1, stop=stop)
            drawn = None if samples is None else np.zeros((wanted.samples, end - begin), np.int32)
            log_z[here], offset[here], error[here] = problem.native(wanted.absorb).sums(
                list(wanted.hard),
                list(wanted.soft),
                np.arange(size, dtype=np.int64),
                seconds,
                problem.stop,
                penalties=wanted.penalties,
                allowed=None if wanted.allowed is None else wanted.allowed[begin:end],
                marginals=table if table is None or padded else table[begin:end],
                edges=None if edges is None else edges[here],
                counts=None if counts is None else counts[here],
                entropy=None if entropy is None else entropy[here],
                samples=drawn,
                seed=wanted.seed,
                number=first,
                edge_sum=(edge_sum, keep[here]) if wanted.edge_sum else None,
                gold=None if gold is None or wanted.gold is None else (wanted.gold[begin:end], gold[here]),
            )
            if samples is not None and drawn is not None:
                samples[:, begin:end] = drawn
        return edge_sum

    size = max(SEQUENCES, -(-count // max(1, 4 * threads)))
    cuts = [*range(0, count, size), count] if threads > 1 or stop is not None else [0, count]
    sums = over_parts(part, [*pairwise(cuts)], threads, stop)
    unknown = ~(log_z < math.inf) | (error > LARGEST_ERROR)
    for b in np.flatnonzero(unknown)[:1].tolist():
        failure = _sum_error(log_z[b], len(wanted.hard) + len(wanted.soft)) or _too_large(error[b])
        failure.sequence = b if count > 1 else None
        raise failure
    if table is not None and whole:
        for b in np.flatnonzero(np.isneginf(log_z)).tolist():
            begin = lattices.first[b] if isinstance(lattices, Batch) and lattices.first is not None else offsets[b]
            table[begin : begin + offsets[b + 1] - offsets[b]] = 0
    edge_sum = np.sum(sums, axis=0) if wanted.edge_sum else None
    return Sums(log_z, offset, error, table, edges, edge_sum, counts, entropy, samples, gold)


def sum_batch(
    decoder: Decoder,
    lattices: Lattices,
    given: Givens,
    threads: int,
    soft: SoftSums,
    stop: _native.Stop | None,
    *,
    blame: bool = False,
    **what: Any,
) -> tuple[Sums, npt.NDArray[np.int64]]:
    """Check the arguments of a public call and sum up; with the offsets of the sequences.

    blame: raise `Infeasible` for the first sequence that no labelling of obeys the rules, if the decoder says so.
    """
    lattices = check_lattices(lattices)
    check_given(given, len(lattices))
    problem = Problem(decoder.compiled, [])
    wanted = Wanted(hard_rules(problem), soft_rules(problem, soft), **what)
    with stopping(stop):
        sums = sum_up(decoder, lattices, given, wanted, thread_count(threads), stop=stop)
        if blame and decoder.on_infeasible == "raise":
            for b in np.flatnonzero(np.isneginf(sums.log_z))[:1].tolist():
                error = infeasible_on(decoder, lattices[b], None if given is None else given[b], None)
                error.sequence = b if len(lattices) > 1 else None
                raise error
    return sums, offsets_of(lattices)


# ---- methods of a decoder -------------------------------------------------------------------------------------------


class Summing:
    """Sums over all labellings, with p(y) ~ exp(score(y)) under the hard rules.

    ``soft="ignore"`` leaves soft rules out; with ``soft="factor"``, p(y) ~ exp(score(y) - penalty(y)).
    Sums are exact but for rounding: `LatticeError` is raised where it could change the logarithm of a probability by
    more than 1e-5, which takes scores beyond about 1e9. `LimitReached` is raised if the time limit was reached,
    `EngineError` if the product of all automata is too large, and `Infeasible` if no labelling obeys the hard rules;
    of many sequences for the first of this kind, with ``on_infeasible="raise"``.
    """

    @property
    def _decoder(self) -> Decoder:
        return cast("Decoder", self)

    def marginals(
        self,
        lattice: Lattice,
        given: Mapping[str, Any] | None = None,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> Scores:
        """Compute the probability of each label at each position, given that all hard rules hold.

        Parameters
        ----------
        lattice : Lattice
        given : mapping, optional
            As in `decode`.
        soft : {"ignore", "factor"}, default "ignore"
            What soft rules are: no part of the model, or factors exp(-penalty).
        stop : Stop, optional
            As in `decode_batch`.

        Returns
        -------
        array of float, shape (n, m)
        """
        decoder = self._decoder
        check_lattice(lattice)
        sums, _ = sum_batch(decoder, [lattice], None if given is None else [given], 1, soft, stop, marginals=True)
        assert sums.marginals is not None
        if sums.log_z[0] == -math.inf:
            raise infeasible_on(decoder, lattice, given)
        return sums.marginals

    def probability(
        self,
        lattice: Lattice,
        given: Mapping[str, Any] | None = None,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> Probability:
        """Compute the probability, under the model, that all hard rules hold, and that of each rule alone.

        Parameters
        ----------
        lattice, given, soft, stop
            As in `marginals`.

        Returns
        -------
        Probability
        """
        deadline = Deadline.after(self._decoder.limits.time_limit)
        with stopping(stop):
            problem = Problem.of_one(self._decoder.compiled, lattice, given)
            factors, numbers = soft_rules(problem, soft), range(len(problem.rules))
            total = _log_sum(problem, [], factors, deadline, absorb="nothing")
            if total.log_z == -math.inf:
                raise infeasible_on(self._decoder, lattice, given, deadline.left)
            without = ([s for s in factors if s != k] for k in numbers)
            sums = (_log_sum(problem, [k], others, deadline, absorb="nothing") for k, others in enumerate(without))
            each = [(rule, _ratio(part, total)) for rule, part in zip(problem.rules, sums, strict=True)]
            return Probability(_ratio(_log_sum(problem, hard_rules(problem), factors, deadline), total), each)

    def marginals_batch(
        self,
        lattices: Lattices,
        given: Givens = None,
        threads: int = 0,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> list[Scores]:
        """Compute the marginals of many sequences at once; several share each vector instruction.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given, threads, soft, stop : optional
            As in `decode_batch` and `marginals`.

        Returns
        -------
        list of array of float, shape (n, m)
            One per sequence; NaN where no labelling obeys the hard rules.
        """
        sums, offsets = sum_batch(self._decoder, lattices, given, threads, soft, stop, blame=True, marginals=True)
        table, first = sums.marginals, lattices.first if isinstance(lattices, Batch) else None
        assert table is not None
        begin = offsets[:-1] if first is None else first
        rows = [table[low : low + n] for low, n in zip(begin.tolist(), np.diff(offsets).tolist(), strict=True)]
        for b in np.flatnonzero(np.isneginf(sums.log_z)).tolist():
            rows[b][:] = np.nan
        return rows

    def log_partition(
        self,
        lattices: Lattices,
        given: Givens = None,
        threads: int = 0,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> Floats:
        """Compute log Z, the logarithm of the sum of exp(score) over the labellings that obey the hard rules.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given, threads, soft, stop : optional
            As in `decode_batch` and `marginals`.

        Returns
        -------
        array of float, shape (sequences,)
            -inf where no labelling obeys the hard rules.

        Examples
        --------
        >>> import bridle
        >>> decoder = bridle.Decoder(bridle.Labels(["O", "X"]), ["at most 1 token of X"])
        >>> decoder.log_partition([bridle.Lattice([[0, 0], [0, 0]])]).round(3)  # log 3
        array([1.099])
        """
        return sum_batch(self._decoder, lattices, given, threads, soft, stop)[0].log_partition

    def entropy(
        self,
        lattices: Lattices,
        given: Givens = None,
        threads: int = 0,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> Floats:
        """Compute the entropy, in nats, of the labelling of each sequence under the hard rules.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given, threads, soft, stop : optional
            As in `decode_batch` and `marginals`.

        Returns
        -------
        array of float, shape (sequences,)
            NaN where no labelling obeys the hard rules.
        """
        entropy = sum_batch(self._decoder, lattices, given, threads, soft, stop, entropy=True)[0].entropy
        assert entropy is not None
        return entropy

    def sample(
        self,
        lattices: Lattices,
        n: int,
        given: Givens = None,
        threads: int = 0,
        *,
        seed: int = 0,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> list[Tokens]:
        """Draw labellings of each sequence from the model under the hard rules, exactly.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        n : int
            How many labellings of each.
        given, threads : optional
            As in `decode_batch`.
        seed : int, default 0
            Seed of the random number generator. The labellings do not depend on `threads`.
        soft, stop : optional
            As in `marginals`.

        Returns
        -------
        list of array of int, shape (n, tokens)
            Label ids; shape (0, tokens) where no labelling obeys the hard rules.
        """
        if not is_integer(n, 1, 2**31 - 1):
            raise EngineError("`n` must be a positive integer", got=repr(n), wanted="1 or more")
        if not is_integer(seed, 0, 2**63 - 1):
            raise bad_option("seed", seed, "a non-negative integer")
        wanted = {"samples": int(n), "seed": int(seed)}
        sums, offsets = sum_batch(self._decoder, lattices, given, threads, soft, stop, blame=True, **wanted)
        assert sums.samples is not None
        drawn = [sums.samples[:, low:high] for low, high in pairwise(offsets.tolist())]
        return [ids[:0] if z == -math.inf else ids for ids, z in zip(drawn, sums.log_z.tolist(), strict=True)]


# ---- sums -----------------------------------------------------------------------------------------------------------


def _log_sum(
    problem: Problem,
    hard: list[int],
    soft: list[int],
    deadline: Deadline,
    absorb: Absorb = "masks",
) -> _Sum:
    """Sum over all labellings that obey these rules."""
    row, seconds = np.zeros(1, dtype=np.int64), _native_seconds(deadline.left)
    log_z, _, error = problem.native(absorb).sums(hard, soft, row, seconds, problem.stop)
    if (failure := _sum_error(float(log_z[0]), len(hard) + len(soft))) is not None:
        raise failure
    return _Sum(float(log_z[0]), float(error[0]))


def _native_seconds(seconds: float | None) -> float:
    """Return a time limit as the kernels take it; -1: there is none."""
    return -1.0 if seconds is None else float(min(seconds, FOREVER))


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
