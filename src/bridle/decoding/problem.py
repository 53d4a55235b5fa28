"""A problem: lattices, rules and what was given with the sequences, packed for the engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import GivenError, LatticeError
from bridle.labels import Labels
from bridle.lattice import AnyScores, Batch, Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.lower import Givens, Lowering

FOREVER = 1e9  # seconds; clocks count on from there without a fault
OPTIMAL, LIMIT, INFEASIBLE, NOTHING_FOUND, TOO_LARGE = range(5)  # as in cpp/search.h


@dataclass(frozen=True)
class Options:
    """What a decoder was told; engines read what concerns them."""

    time_limit: float | None = None  # seconds per sequence
    max_states: int | None = None  # states an engine may look at per sequence
    width: int = 8  # beam
    tau: float = 0.9  # two_stage
    stage: str = "native"  # two_stage: "native" or "ilp"
    formulation: str = "tight"  # ilp
    seed: int = 0  # relax
    max_product_states: int = 64  # search: fold broken rules into the lattice while their product has so few states
    arcs: bool = True  # product, relax: count lattice arcs

    @cached_property
    def native(self) -> _native.Options:
        """The same for the kernels."""
        out = _native.Options()
        out.time_limit = -1.0 if self.time_limit is None else min(float(self.time_limit), FOREVER)
        out.max_states = -1 if self.max_states is None else int(self.max_states)
        out.width, out.tau, out.seed, out.arcs = int(self.width), float(self.tau), int(self.seed), self.arcs
        out.max_product_states = int(self.max_product_states)
        return out


@dataclass(slots=True)
class Answers:
    """What an engine found, for all sequences of a batch."""

    ids: npt.NDArray[np.int32]  # (N,)
    score: npt.NDArray[np.float64]  # (B,)    lattice score - penalty; -inf: no labelling
    bound: npt.NDArray[np.float64]  # (B,)
    status: npt.NDArray[np.uint8]  # (B,)
    violations: npt.NDArray[np.int32]  # (B, R)  violations of each rule
    counters: npt.NDArray[np.int64]  # (B, X)
    stats: list[dict[str, Any]]  # (B,)    of engines that count more than numbers

    @classmethod
    def blank(cls, n_tokens: int, n_sequences: int, n_rules: int, n_counters: int) -> Answers:
        return cls(
            np.zeros(n_tokens, dtype=np.int32),
            np.full(n_sequences, -np.inf),
            np.full(n_sequences, np.inf),
            np.zeros(n_sequences, dtype=np.uint8),
            np.zeros((n_sequences, n_rules), dtype=np.int32),
            np.zeros((n_sequences, n_counters), dtype=np.int64),
            [],
        )

    def part(self, low: int, high: int, offsets: npt.NDArray[np.int64]) -> Answers:
        """Room for sequences low .. high-1: what is written there is written here (`stats` is not shared)."""
        if high - low == len(self.score):
            return replace(self, stats=[])
        rows = slice(low, high)
        return Answers(
            self.ids[offsets[low] : offsets[high]], self.score[rows], self.bound[rows], self.status[rows],
            self.violations[rows], self.counters[rows], [],
        )


class Problem:
    """Lattices packed end to end, with the rules bound to them on demand."""

    def __init__(
        self,
        lowering: Lowering,
        lattices: Sequence[Lattice] | Batch,
        givens: Givens,
        options: Options,
        *,
        first: int = 0,  # the number of the first sequence, for messages
        stop: _native.Stop | None = None,  # set it to end the work on this problem
    ) -> None:
        self.lowering, self.givens, self.options = lowering, givens, options
        self.lattices, self.first = lattices, first
        self.stop = _native.Stop() if stop is None else stop
        m = len(lowering.labels)
        self.rows: npt.NDArray[np.int64] | None = None  # (B,) where the scores of each sequence begin, if not packed
        self.heads: list[tuple[AnyScores | None, AnyScores | None, AnyScores | None]] = []
        if isinstance(lattices, Batch):
            _expect(lattices.n_labels, m, "the batch")
            self.unary, self.offsets, self.rows = lattices.unary, lattices.offsets, lattices.first
            self.heads.append((lattices.pairwise, lattices.start, lattices.end))
            self.head_of = np.zeros(len(lattices), dtype=np.int32)
        else:
            self._pack(lattices, m)

    def number(self, k: int) -> int | None:
        """The number of sequence k in the whole batch, if there are many, for messages."""
        return self.first + k if self.first or len(self.lattices) > 1 else None

    def _pack(self, lattices: Sequence[Lattice], m: int) -> None:
        known: dict[tuple[int, int, int], int] = {}
        head_of = []
        self.offsets = offsets_of(lattices)
        for k, lattice in enumerate(lattices):
            _expect(lattice.n_labels, m, "the lattice", self.number(k))
            head = (lattice.pairwise, lattice.start, lattice.end)
            number = known.setdefault((id(head[0]), id(head[1]), id(head[2])), len(self.heads))
            if number == len(self.heads):
                self.heads.append(head)
            head_of.append(number)
        if not self.heads:
            self.heads.append((None, None, None))
        self.head_of = np.array(head_of, dtype=np.int32)
        if len(lattices) == 1:
            self.unary = lattices[0].unary
        else:
            self.unary = np.concatenate([x.unary for x in lattices]) if lattices else np.zeros((0, m))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def labels(self) -> Labels:
        return self.lowering.labels

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.lowering.rules

    def given(self, b: int) -> Mapping[str, Any]:
        return {} if self.givens is None else self.givens[b]

    def native(self, *, absorb: bool) -> _native.Problem:
        """The problem in the kernels' hands. absorb: hard masks are folded into the lattice, else all are automata."""
        bound = self.lowering.bind(self.offsets, self.givens, absorb=absorb, first=self.first)
        made = _native.Problem(
            unary=self.unary,
            offsets=self.offsets,
            first=self.rows,
            tables=self.lowering.tables(absorb=absorb, tied=bound.tied is not None),
        )
        for pairwise, start, end in self.heads:
            double = [None if x is None else np.ascontiguousarray(x, dtype=np.float64) for x in (pairwise, start, end)]
            made.add_head(double[0], pairwise is not None and pairwise.ndim == 3, double[1], double[2])
        words = 0 if bound.allowed is None else bound.allowed.shape[1]
        made.set_masks(self.head_of, bound.allowed, words, bound.tied)
        for rule in self.rules:
            mode = 0 if not isinstance(rule, Soft) else 1 if rule.per == "violation" else 2
            made.add_rule(mode, rule.penalty if isinstance(rule, Soft) else 0.0)
        for part in bound.parts:
            made.add_part(part.rule, part.automata, part.which, part.marks)
        return made

    def parts_of(self, *, absorb: bool) -> list[int]:
        """The rule of each part, in the kernels' order."""
        return [part.rule for part in self.lowering.bind(self.offsets, self.givens, absorb=absorb).parts]


def offsets_of(lattices: Sequence[Lattice] | Batch) -> npt.NDArray[np.int64]:
    """(B + 1,) where each sequence begins among all tokens."""
    if isinstance(lattices, Batch):
        return lattices.offsets
    if isinstance(lattices, Lattice) or not isinstance(lattices, Sequence):
        raise LatticeError(
            "a batch is not a list of lattices", got=type(lattices).__name__, wanted="a list of Lattice, or a Batch",
            cause="One lattice is decoded by decode(), many by decode_batch([...]).",
        )
    for k, lattice in enumerate(lattices):
        if not isinstance(lattice, Lattice):
            raise LatticeError(
                "this is not a lattice", got=type(lattice).__name__, wanted="bridle.Lattice", sequence=k
            )
    return np.concatenate([[0], np.cumsum([len(x) for x in lattices])]).astype(np.int64)


def check_given(given: Givens, count: int) -> None:
    """One dict per sequence, or nothing at all."""
    if given is None:
        return
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or len(given) != count:
        raise GivenError(
            "given does not fit the batch", got=f"{len(given)} dicts" if listed else f"one {type(given).__name__}",
            wanted=f"a list of {count}, one dict per sequence",
        )
    for k, values in enumerate(given):
        if type(values) is not dict and not isinstance(values, Mapping):
            raise GivenError(
                "given is not a dict", got=repr(values)[:60], wanted="a dict, such as {'verb': 3}",
                sequence=k if count > 1 else None,
            )


def _expect(got: int, wanted: int, what: str, sequence: int | None = None) -> None:
    if got != wanted:
        raise LatticeError(
            f"{what} has another number of labels than the decoder", got=got, wanted=wanted,
            cause="Do the columns of unary stand in the order of Labels?", sequence=sequence,
        )
