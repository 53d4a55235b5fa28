"""Timing, one row of the table, and the check that two sides found the same optimum."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import bridle
from bridle.lattice import Lattice
from problems import Problem

TURN = 30  # calls before it is the other's turn
TOLERANCE = 1e-6  # of the optimum; OpenFst adds in single precision, CP-SAT in whole numbers


def where() -> dict[str, Any]:
    """Describe this machine: processor, tier of vector instructions, cores and load."""
    here = bridle.simd()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {"processor": here.processor, "tier": here.tier, "cores": os.cpu_count(), "load": round(load, 2)}


def told(place: dict[str, Any]) -> str:
    """Format the description of a machine as one line."""
    busy = "; busy, so that times are rough, most of all two threads" if place["load"] > 0.5 else ""
    return f"{place['processor']}, {place['cores']} cores, tier {place['tier']}, load {place['load']:.2f}{busy}"


@dataclass(frozen=True)
class Row:
    """One comparison. `ratio` is peer / ours, or ours / base where less is better."""

    section: str
    what: str
    ours_ms: float  # per sequence
    other_ms: float
    ratio: float
    target: float | None = None
    sense: Literal[">=", "<="] = ">="

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.ratio >= self.target if self.sense == ">=" else self.ratio <= self.target


@dataclass
class Report:
    """Results of a run; sections add to it."""

    quick: bool
    limit: float = 30.0  # seconds that a general solver has for a hard sequence
    corpora: Path | None = None  # folder with data sets, for what needs them
    rows: list[Row] = field(default_factory=list)
    proved: dict[str, float] = field(default_factory=dict)  # share of answers proved optimal
    wrong: list[str] = field(default_factory=list)  # different optima, broken rules, failed sections
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)  # figures for the JSON file and the plots

    def faster(self, section: str, what: str, ours: float, peer: float, target: float | None = None) -> None:
        """Ours takes `ours` seconds per sequence, a peer `peer`."""
        self.rows.append(Row(section, what, ours * 1e3, peer * 1e3, peer / ours, target))

    def within(self, section: str, what: str, ours: float, base: float, target: float | None) -> None:
        """Ours may take `target` times as long as `base`."""
        self.rows.append(Row(section, what, ours * 1e3, base * 1e3, ours / base, target, "<="))

    def agree(self, section: str, peer: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
        """Compare the optima of each sequence; add a line to `wrong` if they differ. The shorter side sets how many."""
        for k, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if not abs(a - b) <= TOLERANCE * max(1.0, abs(b)):
                self.wrong.append(f"{section}, sequence {k}: bridle {a:.9g}, {peer} {b:.9g}")

    def obeys(self, problem: Problem, decodings: Sequence[Any], count: int = 200) -> None:
        """Proved shares; and on some sequences, hard rules hold and the score is the lattice's less the penalty."""
        self.proved[problem.name] = sum(bool(d.optimal) for d in decodings) / max(1, len(decodings))
        givens = problem.givens()
        for k in range(min(count, len(problem))):
            d, lattice = decodings[k], problem.batch[k]
            if not abs(lattice.score(d.ids) - d.penalty - d.score) <= TOLERANCE * max(1.0, abs(d.score)):
                self.wrong.append(f"{problem.name}, sequence {k}: the score is not that of the labelling")
            for rule in problem.rules:
                if not hasattr(rule, "penalty") and not rule.holds(d.ids, problem.labels, givens[k]):
                    self.wrong.append(f"{problem.name}, sequence {k} breaks: {rule}")


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def best_of(repeats: int, *works: Callable[[], Any]) -> list[float]:
    """The least seconds of each piece of work; they take turns, so that a slow moment of the machine hits all."""
    rounds = [[seconds(work) for work in works] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def best_calls(repeats: int, *works: tuple[Callable[[Any], Any], Sequence[Any]]) -> list[float]:
    """Microseconds per call of each function: each sequence has its best time, and these have their mean.

    They take turns, so that a slow moment of the machine hits all of them; a call that was interrupted is forgotten.
    """
    best = [[float("inf")] * len(xs) for _, xs in works]
    for _ in range(repeats):
        for low in range(0, len(works[0][1]), TURN):
            for (call, xs), times in zip(works, best, strict=True):
                for k in range(low, min(low + TURN, len(xs))):
                    begin = time.perf_counter()
                    call(xs[k])
                    times[k] = min(times[k], time.perf_counter() - begin)
    return [1e6 * sum(times) / len(times) for times in best]


def peer_seconds(
    peer: Callable[..., tuple[float, list[int]]], problem: Problem, repeats: int = 1
) -> tuple[float, list[float]]:
    """Mean seconds per sequence of a peer, the best of some passes over the set, and the optima that it found."""
    lattices: list[Lattice] = problem.lattices()
    pairs = [(x.unary, x.pairwise, f) for x, f in zip(lattices, problem.facts, strict=True)]
    peer(*pairs[0])
    answers: list[tuple[float, list[int]]] = []
    took = best_of(repeats, lambda: answers.extend(peer(*pair) for pair in pairs))[0]
    return took / len(pairs), [score for score, _ in answers[: len(pairs)]]
