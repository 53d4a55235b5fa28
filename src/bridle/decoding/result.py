"""Decodings: labels with their proof. A sequence without an answer has a decoding, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from bridle.decoding.clash import infeasible_on, nothing_found
from bridle.decoding.problem import FAILED, LIMIT, OPTIMAL, RELAXED, Answers, Objective
from bridle.errors import BridleError, Infeasible, LimitReached
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder
    from bridle.lattice import Lattice

Status = Literal["optimal", "limit", "relaxed", "infeasible", "nothing_found", "error"]
_NAMES: dict[int, Status] = {
    0: "optimal",
    1: "limit",
    2: "infeasible",
    3: "nothing_found",
    RELAXED: "relaxed",
    FAILED: "error",
}
STATUSES = np.array([_NAMES.get(code, "") for code in range(FAILED + 1)])


@dataclass(frozen=True, eq=False)
class Decoding:
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

    @property
    def relaxed(self) -> bool:
        """Does no labelling obey all hard rules, so that this one violates the fewest?"""
        return self.status == "relaxed"

    @property
    def clash(self) -> tuple[Rule, ...]:
        """Hard rules that cannot hold together, if that is why there is no answer."""
        return self.unanswered.clash if self.unanswered is not None else ()

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
        made: dict[str, Any] = {
            "labels": self.labels,
            "score": self.score if math.isfinite(self.score) else None,
            "penalty": self.penalty,
            "bound": bound,
            "optimal": self.optimal,
            "violated": [{"rule": text(rule), "times": times} for rule, times in self.violated],
        }
        if self.objective != "score":
            made["objective"] = self.objective
        return {**made, "relaxed": True} if self.relaxed else made


@dataclass(frozen=True)
class Unanswered:
    """A sequence without an answer, with what is needed to say why."""

    decoder: Decoder
    lattice: Lattice
    given: Mapping[str, Any] | None
    status: Status
    bound: float
    seconds: float | None = None  # what saying why may take; None: the time limit of the decoder

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


class Decodings(Sequence[Decoding]):
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
    >>> found = decoder.decode_batch(lattices, given=[{"x": 1}, {"x": 0}, {"x": 1}])
    >>> found.status.tolist(), found.labels
    (['optimal', 'infeasible', 'optimal'], [['A', 'B'], [], ['A', 'B']])
    >>> [str(rule) for rule in found[1].clash]
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
        for k, told in relaxed.items():
            self.optimal[k] = told["optimal"]
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
        """How often each rule of the decoder is violated, for each sequence."""
        return self._answers.violations

    @property
    def labels(self) -> list[list[str]]:
        """All labellings, by names, without a Decoding for each; an empty list where there is no answer."""
        flat = np.array(self._decoder.labels.names, dtype=object)[self.ids].tolist()  # whatever stands for -1
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
        >>> found = bridle.Decoder(["A", "B"]).decode_batch([bridle.Lattice([[0, 1]]), bridle.Lattice([[1, 0]] * 3)])
        >>> found.padded(fill=-100).tolist()
        [[1, -100, -100], [0, 0, 0]]
        """
        sizes = np.diff(self.offsets)
        length, begin = self._grid or (int(sizes.max(initial=0)), np.zeros(len(self), dtype=np.int64))
        out = np.full((len(self), length), fill, dtype=np.int32)
        at = np.arange(length)
        out[(at >= begin[:, None]) & (at < (begin + sizes)[:, None])] = np.where(self.ids < 0, fill, self.ids)
        return out

    @overload
    def __getitem__(self, k: int) -> Decoding: ...
    @overload
    def __getitem__(self, k: slice) -> list[Decoding]: ...
    def __getitem__(self, k: int | slice) -> Decoding | list[Decoding]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        k %= len(self)
        answers, decoder, unanswered = self._answers, self._decoder, self.unanswered.get(k)
        violated, status = violations_of(decoder.rules, answers.violations[k].tolist()), _NAMES[int(answers.status[k])]
        return Decoding(
            ids=self.ids[:0]
            if unanswered is not None or k in self.errors
            else self.ids[slice(*self.offsets[k : k + 2])],
            score=float(self.scores[k]),
            penalty=penalty_of(violated),
            violated=violated,
            bound=float(self.bounds[k]),
            optimal=bool(self.optimal[k]),
            engine=decoder.plan.engine,
            stats=self._stats(k),
            label_set=decoder.labels,
            status=status,
            unanswered=unanswered,
            objective=decoder.objective if status != "relaxed" else "score",
        )

    def __iter__(self) -> Iterator[Decoding]:
        return (self[k] for k in range(len(self)))

    def _stats(self, k: int) -> dict[str, Any]:
        """What was counted for sequence k."""
        if (told := self._relaxed.get(k)) is not None:
            return {name: value for name, value in told.items() if name != "optimal"}
        answers = self._answers
        return answers.stats[k] if answers.stats else self._decoder._stats(answers.counters[k].tolist())


def joined(parts: Sequence[Decodings]) -> Decodings:
    """The decodings of parts of a batch, in order."""
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    unanswered, relaxed, errors = (
        {first + k: value for first, part in zip(starts, parts, strict=False) for k, value in own(part).items()}
        for own in (attrgetter("unanswered"), attrgetter("_relaxed"), attrgetter("errors"))
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


def first_error(
    found: Decodings, errors: Mapping[int, BridleError], *, infeasible: bool
) -> tuple[int, BridleError | None]:
    """The number of the first sequence that has one of these errors, and the error; how many there are if none has.

    infeasible: that no labelling obeys the rules, or none was found in time, is an error too.
    """
    failed = min(errors, default=len(found))
    left = min(found.unanswered, default=len(found)) if infeasible else len(found)
    return (left, found.unanswered[left].error) if left < failed else (failed, errors.get(failed))


def raise_first(found: Decodings, *, infeasible: bool, errors: Mapping[int, BridleError] | None = None) -> None:
    """Raise what `first_error` finds. errors: those that count; None: those of the decodings."""
    wrong = found.errors if errors is None else errors
    if not wrong and not found.unanswered:
        return
    b, error = first_error(found, wrong, infeasible=infeasible)
    if error is None:
        return
    if len(found) > 1 or error.sequence is not None:
        error.sequence = b
    if isinstance(error, (Infeasible, LimitReached)):
        error.decodings = found
    raise error


def violations_of(rules: Sequence[Rule], counts: list[int]) -> list[tuple[Rule, int]]:
    """The rules that are violated, with how often."""
    return [(rule, count) for rule, count in zip(rules, counts, strict=True) if count]


def penalty_of(violated: list[tuple[Rule, int]]) -> float:
    """What the soft ones of some violated rules cost."""
    return float(sum(rule.cost(count) for rule, count in violated if isinstance(rule, Soft)))


def status_of(code: int) -> Status:
    """The name of an outcome."""
    return _NAMES[code]
