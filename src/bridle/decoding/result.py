"""Decodings: labels with their proof, or the reason why there are none: rules that clash, or a limit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline
from bridle.decoding.problem import (
    FAILED,
    INFEASIBLE,
    LIMIT,
    NOTHING_FOUND,
    OPTIMAL,
    RELAXED,
    TOO_LARGE,
    Answers,
    Limits,
    Objective,
    Problem,
)
from bridle.engines import Search, solve_one
from bridle.errors import Argument, BridleError, Infeasible, LimitReached
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder
    from bridle.lattice import Lattice

Row = TypeVar("Row")
Status = Literal["optimal", "limit", "relaxed", "infeasible", "nothing_found", "error"]
_NAMES: dict[int, Status] = {
    OPTIMAL: "optimal",
    LIMIT: "limit",
    INFEASIBLE: "infeasible",
    NOTHING_FOUND: "nothing_found",
    RELAXED: "relaxed",
    FAILED: "error",
}
STATUSES = np.array([_NAMES.get(code, "") for code in range(FAILED + 1)])
PATIENCE = 5.0  # seconds that the search for a minimal clash may take if the decoder has no time limit


class Answer:
    """The part that decodings of sequences and of documents share."""

    status: Status
    unanswered: Any  # None if there is an answer

    @property
    def relaxed(self) -> bool:
        """True if no labelling obeys all hard rules, and this one violates the fewest."""
        return self.status == "relaxed"

    @property
    def clash(self) -> tuple[Rule, ...]:
        """Hard rules that cannot hold together, if that is why there is no answer."""
        return self.unanswered.clash if self.unanswered is not None else ()


@dataclass(frozen=True, eq=False)
class Decoding(Answer):
    """The best labelling of one sequence under the rules, with its proof. Decoders create it.

    Attributes
    ----------
    labels : list of str
        The labelling, by names; empty if there is no answer.
    ids : array of int32, shape (n,)
        The same by ids; empty if there is no answer.
    status : {"optimal", "limit", "relaxed", "infeasible", "nothing_found"}
        Proved to be the best; the best that was found within the limits; the fewest violations, since no labelling
        obeys all hard rules; no labelling obeys them; a limit was reached before any labelling was found.
    relaxed : bool
        True if the status is "relaxed".
    score : float
        Lattice score minus penalty; -inf if there is no answer.
    penalty : float
        Sum of the penalties of violated soft rules.
    violated : list of (Rule, int)
        The violated soft rules, and how often each is violated; if relaxed, also the hard rules.
    bound : float
        No labelling under the rules scores higher. With ``objective="two_stage"``: none that breaks as
        little.
    optimal : bool
        True if bound and score meet and, if relaxed, it is proved that no labelling violates hard rules less often.
    engine : str
        The engine that found it.
    stats : dict
        Statistics of the engine. If relaxed: "hard_violations" and "hard_violations_bound", a proved lower bound of
        it; "solves" and "expansions", the work that it took.
    clash : tuple of Rule
        If infeasible: a minimal set of hard rules that contradict each other. It is computed when you read it.
    label_set : Labels
        The labels that `ids` are numbers of.
    unanswered : Unanswered or None
        If there is no answer: its `error` is what `Decoder.decode` raises by default.
    objective : {"score", "two_stage"}
        What was optimised. "score": lattice score minus penalty. "two_stage" (`bridle.engines.TwoStage`): the least
        penalty among labellings that score close to the best, then the score; others may score higher, so `bound`
        and `optimal` are only about labellings with that least penalty.

    Examples
    --------
    >>> import bridle
    >>> rules = ["at most 1 token of B", "A before B  [penalty 0.5]"]
    >>> d = bridle.Decoder(["A", "B"], rules).decode(bridle.Lattice([[1, 2], [0, 3], [1, 0]]))
    >>> d.labels, d.score, d.status, d.bound
    (['A', 'B', 'A'], 4.5, 'optimal', 4.5)
    >>> [(str(rule), times) for rule, times in d.violated]
    [('A before B  [penalty 0.5]', 1)]
    """

    ids: npt.NDArray[np.int32]
    score: float
    penalty: float
    violated: list[tuple[Rule, int]]
    bound: float
    optimal: bool
    engine: str
    stats: dict[str, Any]
    label_set: Labels = field(repr=False)
    status: Status = "optimal"
    unanswered: Unanswered | None = field(default=None, repr=False)
    objective: Objective = "score"

    @cached_property
    def labels(self) -> list[str]:
        """The labelling, by names."""
        names = self.label_set.names
        return [names[y] for y in self.ids.tolist()]

    def __len__(self) -> int:
        return len(self.ids)

    def to_dict(self, text: Callable[[Rule], str] = str) -> dict[str, Any]:
        """Convert to what JSON can hold; an infinite score or bound becomes None.

        Parameters
        ----------
        text : callable, optional
            Function that prints a rule; `str` by default.

        Returns
        -------
        dict
            labels, score, penalty, bound, optimal and violated; "relaxed": True if it is; "objective" if it is not
            "score"; "labels": None and the clash if there is no answer.

        Examples
        --------
        >>> import bridle
        >>> bridle.Decoder(["A", "B"]).decode(bridle.Lattice([[1, 2]])).to_dict()
        {'labels': ['B'], 'score': 2.0, 'penalty': 0.0, 'bound': 2.0, 'optimal': True, 'violated': []}
        """
        bound = self.bound if math.isfinite(self.bound) else None
        if self.status == "infeasible":
            return {"labels": None, "clash": [text(rule) for rule in self.clash]}
        if self.status == "nothing_found":
            return {"labels": None, "bound": bound, "optimal": False}
        entries: dict[str, Any] = {
            "labels": self.labels,
            "score": self.score if math.isfinite(self.score) else None,
            "penalty": self.penalty,
            "bound": bound,
            "optimal": self.optimal,
            "violated": [{"rule": text(rule), "times": times} for rule, times in self.violated],
        }
        if self.objective != "score":
            entries["objective"] = self.objective
        return {**entries, "relaxed": True} if self.relaxed else entries


@dataclass(frozen=True)
class Unanswered:
    """A sequence without an answer, with the data that explain why."""

    decoder: Decoder
    lattice: Lattice
    given: Mapping[str, Any] | None
    status: Status
    bound: float
    seconds: float | None = None  # to search for rules that clash; None: the time limit of the decoder

    @cached_property
    def error(self) -> Infeasible | LimitReached:
        """The error that says why."""
        if self.status == "infeasible":
            return infeasible_on(self.decoder, self.lattice, self.given, self.seconds)
        return nothing_found(self.decoder.plan.engine, self.bound)

    @property
    def clash(self) -> tuple[Rule, ...]:
        """Hard rules that cannot hold together."""
        return tuple(getattr(self.error, "clash", ()))


class PackedRows(Sequence[Row], ABC):
    """A sequence whose rows are made from packed arrays when they are indexed."""

    @abstractmethod
    def _row(self, k: int) -> Row: ...

    @overload
    def __getitem__(self, k: int) -> Row: ...
    @overload
    def __getitem__(self, k: slice) -> list[Row]: ...
    def __getitem__(self, k: int | slice) -> Row | list[Row]:
        if isinstance(k, slice):
            return [self._row(i) for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        return self._row(k % len(self))

    def __iter__(self) -> Iterator[Row]:
        return map(self._row, range(len(self)))


class Decodings(PackedRows[Decoding]):
    """The decodings of a batch, in order. They are packed arrays; a `Decoding` is created when you index them.

    Attributes
    ----------
    ids : array of int32, shape (N,)
        Label ids of all sequences, end to end; -1 where there is no answer.
    offsets : array of int64, shape (B + 1,)
        Where each sequence begins.
    labels : list of list of str
        All labellings, by names; an empty list where there is no answer.
    scores, bounds : arrays of float, shape (B,)
        As in `Decoding`.
    status : array of str, shape (B,)
        "optimal", "limit", "relaxed", "infeasible" or "nothing_found", as in `Decoding`.
    optimal, relaxed : arrays of bool, shape (B,)
        As in `Decoding`.
    violations : array of int, shape (B, rules)
        How often each rule of the decoder is violated.
    answered : array of bool, shape (B,)
        Sequences that have labels: the status is "optimal", "limit" or "relaxed".
    unanswered : dict of int to Unanswered
        The others; ``decodings[k].clash`` or ``decodings.unanswered[k].error`` says why.
    errors : dict of int to BridleError
        Sequences that could not be read or decoded, whose status is "error"; `Decoder.decode_batch` raises the first
        error instead.
    label_set : Labels
        The labels that `ids` are numbers of.

    Examples
    --------
    >>> import bridle
    >>> decoder = bridle.Decoder(["A", "B"], ["fix A at 0", "fix B at given x"], on_infeasible="skip")
    >>> lattices = [bridle.Lattice([[0, 1], [1, 0]])] * 3
    >>> decodings = decoder.decode_batch(lattices, given=[{"x": 1}, {"x": 0}, {"x": 1}])
    >>> decodings.status.tolist(), decodings.labels
    (['optimal', 'infeasible', 'optimal'], [['A', 'B'], [], ['A', 'B']])
    >>> [str(rule) for rule in decodings[1].clash]
    ['fix A at 0', 'fix B at given x']
    """

    def __init__(
        self,
        decoder: Decoder,
        answers: Answers,
        offsets: npt.NDArray[np.int64],
        unanswered: dict[int, Unanswered],
        relaxed: dict[int, dict[str, Any]],  # what was counted for relaxed sequences, and whether they are "optimal"
        errors: dict[int, BridleError],  # sequences that cannot be decoded; their status is FAILED
        grid: tuple[int, npt.NDArray[np.int64]] | None = None,  # of a padded batch: T, and where sequences begin
    ) -> None:
        self._decoder, self._answers, self._relaxed, self._grid = decoder, answers, relaxed, grid
        self.label_set, self.ids, self.offsets = decoder.labels, answers.ids, offsets
        self.unanswered, self.errors = unanswered, errors
        self.scores, self.bounds = answers.score, answers.bound
        self.optimal, self.relaxed = answers.status == OPTIMAL, answers.status == RELAXED
        self.answered: npt.NDArray[np.bool_] = (answers.status <= LIMIT) | self.relaxed
        for k in (*unanswered, *errors):
            self.ids[offsets[k] : offsets[k + 1]] = -1
        for k, stats in relaxed.items():
            self.optimal[k] = stats["optimal"]
        for k in errors:  # whatever was found for what stood in its place
            self.scores[k], self.bounds[k], answers.violations[k] = -np.inf, np.inf, 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def status(self) -> npt.NDArray[np.str_]:
        """The status of each sequence."""
        return np.asarray(STATUSES[self._answers.status])

    @property
    def violations(self) -> npt.NDArray[np.integer]:
        """Violations of each rule of the decoder, for each sequence."""
        return self._answers.violations

    @property
    def labels(self) -> list[list[str]]:
        """All labellings, by names, without a Decoding for each; an empty list where there is no answer."""
        flat = list(map(self._decoder.labels.names.__getitem__, self.ids.tolist()))  # whatever stands for -1
        cuts = self.offsets.tolist()
        empty = self.unanswered.keys() | self.errors.keys()
        return [[] if k in empty else flat[a:b] for k, (a, b) in enumerate(pairwise(cuts))]

    def padded(self, fill: int = -1) -> npt.NDArray[np.int32]:
        """Return the ids of all labellings as one array.

        Parameters
        ----------
        fill : int, default -1
            The value of cells without a token or without an answer.

        Returns
        -------
        array of int32, shape (B, T)
            T and the places of the tokens are those of the scores if they came from `Batch.from_padded`; otherwise T is
            the length of the longest sequence, and every sequence begins at 0.

        Examples
        --------
        >>> import bridle
        >>> lattices = [bridle.Lattice([[0, 1]]), bridle.Lattice([[1, 0]] * 3)]
        >>> decodings = bridle.Decoder(["A", "B"]).decode_batch(lattices)
        >>> decodings.padded(fill=-100).tolist()
        [[1, -100, -100], [0, 0, 0]]
        """
        sizes = np.diff(self.offsets)
        length, begin = self._grid or (int(sizes.max(initial=0)), np.zeros(len(self), dtype=np.int64))
        padded = np.full((len(self), length), fill, dtype=np.int32)
        at = np.arange(length)
        padded[(at >= begin[:, None]) & (at < (begin + sizes)[:, None])] = np.where(self.ids < 0, fill, self.ids)
        return padded

    def _row(self, k: int) -> Decoding:
        answers, unanswered = self._answers, self.unanswered.get(k)
        has_labels = unanswered is None and k not in self.errors
        return decoding_of(
            self._decoder,
            self.ids[slice(*self.offsets[k : k + 2])] if has_labels else self.ids[:0],
            float(self.scores[k]),
            float(self.bounds[k]),
            int(answers.status[k]),
            answers.violations[k].tolist(),
            self._stats(k),
            optimal=bool(self.optimal[k]),
            unanswered=unanswered,
        )

    def _stats(self, k: int) -> dict[str, Any]:
        if (stats := self._relaxed.get(k)) is not None:
            return {name: value for name, value in stats.items() if name != "optimal"}
        answers = self._answers
        return answers.stats[k] if answers.stats else self._decoder.resolved_engine.stats(answers.counters[k].tolist())


def join_decodings(parts: Sequence[Decodings]) -> Decodings:
    """Join the decodings of parts of a batch, in order."""
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    unanswered, relaxed, errors = (
        {first + k: row for first, part in zip(starts, parts, strict=False) for k, row in rows_of(part).items()}
        for rows_of in (attrgetter("unanswered"), attrgetter("_relaxed"), attrgetter("errors"))
    )
    grids = [part._grid for part in parts if part._grid is not None]
    return Decodings(
        parts[0]._decoder,
        Answers.joined([part._answers for part in parts]),
        np.cumsum(np.concatenate([[0], *(np.diff(part.offsets) for part in parts)])),
        unanswered,
        relaxed,
        errors,
        (grids[0][0], np.concatenate([begin for _, begin in grids])) if grids else None,
    )


def decoding_of(
    decoder: Decoder,
    ids: npt.NDArray[np.int32],
    score: float,
    bound: float,
    status: int,
    counts: Sequence[int] | None,  # (R,)  violations of each rule; None: there are none
    stats: dict[str, Any],
    *,
    optimal: bool | None = None,
    engine: str | None = None,
    unanswered: Unanswered | None = None,
) -> Decoding:
    """Make a decoding from what an engine found; engine: the one that did, if it is not the decoder's."""
    violated = violations_of(decoder.rules, counts) if counts else []
    return Decoding(
        ids,
        score,
        penalty_of(violated) if violated else 0.0,
        violated,
        bound,
        status == OPTIMAL if optimal is None else optimal,
        decoder.plan.engine if engine is None else engine,
        stats,
        decoder.labels,
        _NAMES[status],
        unanswered,
        "score" if engine is not None or status == RELAXED else decoder.resolved_engine.objective,
    )


def first_error(
    decodings: Decodings, errors: Mapping[int, BridleError], *, infeasible: bool
) -> tuple[int, BridleError | None]:
    """Return the number of the first sequence with an error, and the error; if there is none, their number and None.

    errors: those of sequences that cannot be decoded; infeasible: sequences without an answer count, too.
    """
    count = len(decodings)
    failed = min(errors, default=count)
    left = min(decodings.unanswered, default=count) if infeasible else count
    return (left, decodings.unanswered[left].error) if left < failed else (failed, errors.get(failed))


def raise_first(decodings: Decodings, *, infeasible: bool, errors: Mapping[int, BridleError] | None = None) -> None:
    """Raise what `first_error` returns. errors: those that count; None: those of the decodings."""
    failed = decodings.errors if errors is None else errors
    if not failed and not decodings.unanswered:
        return
    b, error = first_error(decodings, failed, infeasible=infeasible)
    if error is None:
        return
    if len(decodings) > 1 or error.sequence is not None:
        error.sequence = b
    if isinstance(error, (Infeasible, LimitReached)):
        error.decodings = decodings
    raise error


def violations_of(rules: Sequence[Rule], counts: Sequence[int]) -> list[tuple[Rule, int]]:
    """Return the rules that are violated, with how often."""
    return [(rule, count) for rule, count in zip(rules, counts, strict=True) if count]


def penalty_of(violated: list[tuple[Rule, int]]) -> float:
    """Sum the penalties of violated soft rules."""
    return float(sum(rule.cost(count) for rule, count in violated if isinstance(rule, Soft)))


def status_of(code: int) -> Status:
    """Name a status code."""
    return _NAMES[code]


def code_of(status: Status) -> int:
    """Return the code of a status."""
    return next(code for code, name in _NAMES.items() if name == status)


# ---- reasons --------------------------------------------------------------------------------------------------------


def infeasible(
    rules: Sequence[Rule],
    impossible: Callable[[Sequence[Rule], float], bool | None],
    no_path: dict[str, Any],
    noun: str = "labelling",
    *,
    instead: str = "relax",
    seconds: float,
) -> Infeasible:
    """Make the error for rules that no labelling obeys, with a minimal set of rules that clash.

    impossible(rules, seconds): is it proved that nothing obeys these rules? None: it is not known.
    no_path: the parts of the message if nothing is left even without rules.
    instead: the value of `on_infeasible` that would give an answer.
    seconds: time for all of it; rules that are not known by then to be needless stay in the set.
    """
    deadline = Deadline.after(seconds)
    if impossible((), seconds):  # one best path without rules
        return Infeasible(**no_path)
    clash = list(dict.fromkeys(rule for rule in rules if not isinstance(rule, Soft)))
    minimal = True
    for rule in list(clash) if len(clash) > 1 else ():  # leave out each that is not needed
        fewer = [other for other in clash if other is not rule]
        needless = None if deadline.passed() else impossible(fewer, deadline.left or 0.0)
        if needless:
            clash = fewer
        minimal = minimal and needless is not None
    cause = "Remove one of them, make it soft, or decode with {argument}."
    if not minimal:
        cause += (
            " The time limit was reached before every rule was shown to be necessary, so the set may not be minimal."
        )
    many = "1 rule that cannot hold" if len(clash) == 1 else f"{len(clash)} rules that contradict each other"
    return Infeasible(
        f"no {noun} obeys the hard rules",
        got=f"{many}: " + "; ".join(map(str, clash)),
        wanted="rules that can hold together (and with the -inf scores of the lattice)",
        cause=cause,
        argument=Argument("on_infeasible", instead),
        clash=clash,
        minimal=minimal,
    )


def infeasible_on(
    decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None, seconds: float | None = None
) -> Infeasible:
    """Make the error for a lattice on which no labelling obeys the hard rules of a decoder.

    seconds: time to search for the rules that clash; None: the decoder's time limit.
    """

    def impossible(rules: Sequence[Rule], time_limit: float) -> bool | None:
        limits = Limits(time_limit, max_memory=decoder.limits.max_memory)
        compiled = CompiledRules(decoder.labels, rules, limits.native())
        problem = Problem(compiled, [lattice], None if given is None else [given])
        return proves_infeasible(int(solve_one(Search(), problem, limits).status[0]))

    no_path = {
        "what": "the lattice has no path",
        "got": "-inf on every labelling",
        "wanted": "one with a finite score",
        "cause": "Either all labels of a position are -inf, or no allowed transitions connect the positions. "
        "The rules are not the cause.",
    }
    return infeasible(decoder.rules, impossible, no_path, seconds=clash_seconds(decoder.limits, seconds))


def clash_seconds(limits: Limits, seconds: float | None = None) -> float:
    """Return how long the search for a minimal clash may take: what is left, the time limit, or PATIENCE."""
    return next((limit for limit in (seconds, limits.time_limit) if limit is not None), PATIENCE)


def proves_infeasible(status: int) -> bool | None:
    """Tell if a status proves that no labelling obeys the rules; None: it proves nothing."""
    return None if status in (NOTHING_FOUND, TOO_LARGE) else status == INFEASIBLE


def nothing_found(engine: str, bound: float) -> LimitReached:
    """Make the error for a limit that was reached before any labelling was found."""
    last = "width" if engine == "beam" else "max_memory"
    return LimitReached(
        f"engine {engine!r} stopped before it found a labelling that obeys the rules",
        bound=bound,
        got="no labelling",
        wanted=f"a higher time_limit, max_states or {last}",
    )
