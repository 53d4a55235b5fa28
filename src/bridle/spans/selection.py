"""What a choice of spans comes with: its proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bridle.decoding.result import Status
from bridle.rules.base import Rule
from bridle.spans.candidates import Span


@dataclass(frozen=True, eq=False)
class Selection:
    """The best spans under the rules, and how we know. `select` and `SpanSelector` make it.

    Attributes
    ----------
    spans : list of Span
        The chosen spans in text order, of nested ones the outer first. Scores are those of the candidates.
    indices : list of int
        Which candidates they are.
    score : float
        Sum of the log-odds of the chosen spans, minus penalty; choosing nothing scores 0. -inf if there is no answer.
    penalty : float
        What violated soft rules cost.
    violated : list of (Rule, int)
        Soft rules that are violated, with how often.
    bound : float
        No choice under the rules scores higher.
    optimal : bool
        Do bound and score meet?
    status : {"optimal", "limit", "infeasible", "nothing_found"}
        As in `Decoding`. Without an answer there are no spans.
    engine : {"intervals", "search", "ilp"}
        What found it: a dynamic program without rules, the same with rules folded in, or an integer program.
    stats : dict
        What the engine counted.

    Examples
    --------
    >>> import bridle
    >>> found = bridle.select([(0, 2, "ORG", 1.5), (1, 3, "PER", 2.0), (4, 5, "PER", 0.5)])
    >>> found.indices, found.score, found.bound
    ([1, 2], 2.5, 2.5)
    """

    spans: list[Span]
    indices: list[int]
    score: float
    penalty: float
    violated: list[tuple[Rule, int]]
    bound: float
    status: Status
    engine: str
    stats: dict[str, Any]

    @property
    def optimal(self) -> bool:
        """Do bound and score meet?"""
        return self.status == "optimal"

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What an engine found of one sequence."""

    indices: list[int]  # of candidates, in text order
    score: float
    bound: float
    status: int
    violations: list[int]  # (R,)
    engine: str
    stats: dict[str, Any]
