"""A problem: lattices, rules and given values of sequences, packed for the engines; limits; answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import is_integer
from bridle.deadline import current_stop
from bridle.errors import Argument, BridleError, EngineError, GivenError, LatticeError, shown
from bridle.lattice import AnyScores, Batch, Lattice, Steps, subset
from bridle.rules.compiled import Absorb, CompiledRules, Givens

FOREVER = 1e9  # seconds; clocks count on from there without a fault
LEAST_MEMORY, MOST_MEMORY = 1_000_000, 1_000_000_000  # bytes: what max_memory is at least, and by default
TABLES = 8_000_000  # bytes of transition scores that are made at a time, where they depend on the token
OPTIMAL, LIMIT, INFEASIBLE, NOTHING_FOUND, TOO_LARGE = range(5)  # as in cpp/search/problem.h
RELAXED, FAILED = 5, 6  # FAILED: the sequence cannot be decoded, and an error says why
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Objective = Literal["score", "two_stage"]  # what an engine makes as good as possible


@dataclass(frozen=True)
class Limits:
    """Limits of the work on each sequence."""

    time_limit: float | None = None  # seconds
    max_states: int | None = None  # states that an engine may look at
    max_memory: int = MOST_MEMORY  # bytes that it may work in

    def __post_init__(self) -> None:
        seconds = self.time_limit
        number = isinstance(seconds, (int, float, np.integer, np.floating)) and not isinstance(seconds, bool)
        if seconds is not None and not (number and seconds >= 0):
            raise bad_option("time_limit", seconds, "seconds >= 0, or None")
        if self.max_states is not None and not is_integer(self.max_states, 1, 2**63 - 1):
            raise bad_option("max_states", self.max_states, "an integer >= 1, or None")
        if not is_integer(self.max_memory, LEAST_MEMORY, 2**62):
            raise bad_option("max_memory", self.max_memory, f"bytes, an integer from {LEAST_MEMORY:,} to 2**62")

    def native(self, engine: object = None, options: Sequence[str] = ()) -> _native.Options:
        """Return the limits for the kernels, with options of an engine that they take, too."""
        native = _native.Options()
        native.time_limit = -1.0 if self.time_limit is None else float(min(self.time_limit, FOREVER))
        native.max_states = -1 if self.max_states is None else min(int(self.max_states), 2**62)
        native.max_memory = int(self.max_memory)
        for name in options:
            setattr(native, name, type(getattr(native, name))(getattr(engine, name)))
        return native


def bad_option(name: str, got: object, wanted: str) -> EngineError:
    """Make the error for an option of a decoder or an engine."""
    return EngineError(f"invalid value of `{name}`", got=repr(got), wanted=wanted, argument=Argument(name, got))


@dataclass(slots=True)
class Answers:
    """Results of an engine, for all sequences of a batch."""

    ids: Ints  # (N,)
    score: Floats  # (B,)    lattice score - penalty; -inf: no labelling
    bound: Floats  # (B,)
    status: npt.NDArray[np.uint8]  # (B,)
    violations: Ints  # (B, R)  of each rule
    counters: npt.NDArray[np.int64]  # (B, X)
    seconds: Floats  # (B,)    spent on each, if there is a time limit
    stats: list[dict[str, Any]] = field(default_factory=list)  # (B,)    of engines that count more than numbers

    @property
    def arrays(self) -> tuple[Ints, Floats, Floats, npt.NDArray[np.uint8], Ints, npt.NDArray[np.int64], Floats]:
        """All arrays, in the order in which kernels fill them."""
        return self.ids, self.score, self.bound, self.status, self.violations, self.counters, self.seconds

    @classmethod
    def blank(cls, offsets: npt.NDArray[np.int64], n_rules: int, n_counters: int) -> Answers:
        """Allocate the answers to sequences that lie end to end."""
        n_sequences = len(offsets) - 1
        return cls(
            np.zeros(int(offsets[-1]), dtype=np.int32),
            np.full(n_sequences, -np.inf),
            np.full(n_sequences, np.inf),
            np.full(n_sequences, NOTHING_FOUND, dtype=np.uint8),
            np.zeros((n_sequences, n_rules), dtype=np.int32),
            np.zeros((n_sequences, n_counters), dtype=np.int64),
            np.zeros(n_sequences),
        )

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """Join the answers of parts of a batch, in order."""
        arrays: Any = [np.concatenate(same) for same in zip(*(part.arrays for part in parts), strict=True)]
        answers = cls(*arrays)
        answers.stats = [entries for part in parts for entries in part.stats]
        return answers


class Problem:
    """Lattices packed end to end, with rules that are bound to them on demand."""

    def __init__(
        self,
        rules: CompiledRules,
        lattices: Sequence[Lattice] | Batch,
        givens: Givens = None,
        *,
        first: int = 0,  # the number of the first sequence, for messages
        many: bool = False,  # is it one of many?
        texts: Sequence[str] | None = None,  # (N,)  of the tokens, instead of given["tokens"]
        stop: _native.Stop | None = None,  # ends the work on this problem; None: that of the work around the call
        errors: dict[int, BridleError] | None = None,  # takes those of single sequences; None: the first is raised
    ) -> None:
        self.compiled, self.givens, self.texts = rules, givens, texts
        self.labels, self.rules = rules.labels, rules.rules
        self.lattices, self.first, self.many = lattices, first, many
        self.stop, self.errors = stop or current_stop() or _native.Stop(), errors
        m = len(rules.labels.names)
        self.heads: list[tuple[AnyScores | None, AnyScores | None, AnyScores | None]] = []
        self.head_of: npt.NDArray[np.int32] | None = None  # (B,)  None: all have the first
        if isinstance(lattices, Batch):
            if lattices.unary.shape[1] != m:
                raise other_labels(lattices.n_labels, m)
            self.unary, self.offsets = lattices.unary, lattices.offsets
            self.rows = lattices.first  # (B,) where the scores of each sequence begin; None: packed
            self.heads.append((lattices.pairwise, lattices.start, lattices.end))
            if lattices.steps is not None:
                self._add_steps(lattices, lattices.steps)
        else:
            self.rows = None
            self._pack(lattices, m)
        self._native: dict[Absorb, _native.Problem] = {}

    @classmethod
    def of_one(cls, rules: CompiledRules, lattice: Lattice, given: Mapping[str, Any] | None) -> Problem:
        """Check the scores of a sequence and what comes with it, and pack them."""
        check_lattice(lattice)
        givens = None if given is None else [given]
        check_given(givens, 1)
        return cls(rules, [lattice], givens)

    def subset(self, chosen: npt.NDArray[np.int64]) -> Problem:
        """Return a problem with some of the sequences."""
        numbers, cuts = chosen.tolist(), self.offsets
        givens = None if self.givens is None else [self.givens[b] for b in numbers]
        texts = None if self.texts is None else [text for b in numbers for text in self.texts[cuts[b] : cuts[b + 1]]]
        return Problem(self.compiled, subset(self.lattices, chosen), givens, texts=texts, stop=self.stop)

    def _add_steps(self, batch: Batch, steps: Steps) -> None:
        """Add a head per sequence whose transition scores depend on the tokens."""
        tables = steps.tables(batch.pairwise, 0, len(steps), batch.n_labels)
        self.head_of = np.zeros(len(self), dtype=np.int32)
        for b, (low, high) in enumerate(pairwise(self.offsets.tolist())):
            if high - low > 1:
                self.head_of[b] = len(self.heads)
                self.heads.append((tables[low + 1 : high], batch.start, batch.end))

    def _pack(self, lattices: Sequence[Lattice], m: int) -> None:
        known: dict[tuple[int, int, int], int] = {}
        head_of = []
        self.offsets = offsets_of(lattices)
        for k, lattice in enumerate(lattices):
            if lattice.n_labels != m:
                raise other_labels(lattice.n_labels, m, self.first + k if self.many else None)
            head = (lattice.pairwise, lattice.start, lattice.end)
            number = known.setdefault((id(head[0]), id(head[1]), id(head[2])), len(self.heads))
            if number == len(self.heads):
                self.heads.append(head)
            head_of.append(number)
        if len(self.heads) > 1:
            self.head_of = np.array(head_of, dtype=np.int32)
        elif not self.heads:
            self.heads.append((None, None, None))
        if len(lattices) == 1:
            self.unary = lattices[0].unary
        else:
            self.unary = np.concatenate([x.unary for x in lattices]) if lattices else np.zeros((0, m))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def token_rows(self) -> npt.NDArray[np.int64]:
        """Return the row of scores of each token, (N,)."""
        tokens = np.arange(int(self.offsets[-1]))
        if self.rows is None:
            return tokens
        return tokens + np.repeat(self.rows - self.offsets[:-1], np.diff(self.offsets))

    def given(self, b: int) -> Mapping[str, Any]:
        """Return the values that came with sequence b."""
        return {} if self.givens is None else self.givens[b]

    def all_given(self, b: int) -> Mapping[str, Any] | None:
        """Return the values that came with sequence b, with the texts of its tokens."""
        if self.texts is None:
            return None if self.givens is None else self.givens[b]
        return {**self.given(b), "tokens": list(self.texts[self.offsets[b] : self.offsets[b + 1]])}

    def fail(self, b: int, error: BridleError) -> None:
        """Record why a sequence cannot be decoded; raise it if the problem does not collect errors."""
        if self.errors is None:
            error.sequence = self.first + b if self.many else None
            raise error
        self.errors.setdefault(b, error)

    def native(self, absorb: Absorb = "masks") -> _native.Problem:
        """Pack the problem for the kernels, once for each way to absorb rules."""
        if absorb not in self._native:
            rules, bound = self.compiled.native(absorb), None
            if rules.depends:
                bound = self.compiled.bind(
                    rules,
                    self.offsets,
                    self.givens,
                    first=self.first,
                    many=self.many,
                    texts=self.texts,
                    errors=self.errors,
                    stop=self.stop,
                )
            self._native[absorb] = _native.Problem(
                rules, bound, self.unary, self.offsets, self.rows, self.heads, self.head_of, self.stop
            )
        return self._native[absorb]


def pieces(
    batch: Sequence[Lattice] | Batch, givens: Givens, texts: Sequence[str] | None, errors: dict[int, BridleError]
) -> list[tuple[int, Sequence[Lattice] | Batch, Givens, Sequence[str] | None, dict[int, BridleError]]]:
    """Cut a batch into pieces, each after the number of its first sequence, so that tables of transition scores that
    depend on the tokens stay small; batches without such scores are one piece."""
    if not isinstance(batch, Batch) or batch.steps is None or not len(batch):
        return [(0, batch, givens, texts, errors)]
    most, cuts = max(1, TABLES // (8 * batch.n_labels**2)), [0]  # tokens
    ends = batch.offsets.tolist()
    for b in range(1, len(batch)):
        if ends[b + 1] - ends[cuts[-1]] > most:
            cuts.append(b)
    parts: list[Any] = []
    for low, high in pairwise([*cuts, len(batch)]):
        values = None if givens is None else givens[low:high]
        words = None if texts is None else texts[ends[low] : ends[high]]
        failed = {b - low: error for b, error in errors.items() if low <= b < high}
        parts.append((low, batch.part(low, high), values, words, failed))
    return parts


def offsets_of(lattices: Sequence[Lattice] | Batch) -> npt.NDArray[np.int64]:
    """Return where each sequence begins among all tokens, (B + 1,)."""
    if isinstance(lattices, Batch):
        return lattices.offsets
    return np.concatenate([[0], np.cumsum([len(x) for x in lattices])]).astype(np.int64)


def check_lattice(lattice: Any) -> None:
    """Raise `LatticeError` if this is not a `Lattice`."""
    if not isinstance(lattice, Lattice):
        cause = "Pass bridle.Lattice(scores)." if isinstance(lattice, (np.ndarray, list)) else None
        raise LatticeError("not a Lattice", got=type(lattice).__name__, wanted="bridle.Lattice", cause=cause)


def check_lattices(lattices: Any) -> Batch | Sequence[Lattice]:
    """Return a `Batch` or a list of lattices as it is; raise `LatticeError` for anything else."""
    if isinstance(lattices, Batch):
        return lattices
    if isinstance(lattices, Lattice) or not isinstance(lattices, Sequence):
        raise LatticeError(
            "a batch must be a list of lattices",
            got=type(lattices).__name__,
            wanted="a list of Lattice, or a Batch",
            cause="Use decode() for one lattice, and decode_batch([...]) for several.",
        )
    for k, lattice in enumerate(lattices):
        if not isinstance(lattice, Lattice):
            got = type(lattice).__name__
            raise LatticeError("not a Lattice", got=got, wanted="bridle.Lattice", sequence=k)
    return lattices if isinstance(lattices, (list, tuple)) else list(lattices)


def check_given(given: Givens, count: int, name: str = "given") -> None:
    """Raise `GivenError` unless there is one dict per sequence, or nothing at all."""
    if given is None:
        return
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or len(given) != count:
        raise GivenError(
            f"{name} does not fit the batch",
            got=f"{len(given)} dicts" if listed else f"one {type(given).__name__}",
            wanted=f"a list of {count}, one dict per sequence",
        )
    for k, values in enumerate(given):
        if type(values) is not dict and not isinstance(values, Mapping):
            raise not_a_dict(values, k if count > 1 else None, name)


def not_a_dict(got: object, sequence: int | None, name: str = "given") -> GivenError:
    """Make the error for values of a sequence that have no names."""
    wanted = "a dict, such as {'verb': 3}"
    return GivenError(f"{name} is not a dict", got=shown(got), wanted=wanted, sequence=sequence)


def other_labels(got: int, wanted: int, sequence: int | None = None) -> LatticeError:
    """Make the error for scores of another number of labels."""
    return LatticeError(
        "the scores and the decoder differ in their number of labels",
        got=got,
        wanted=wanted,
        sequence=sequence,
        cause="Are the columns of `unary` in the order of Labels?",
    )
