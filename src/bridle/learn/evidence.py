"""Learned rules travel with their evidence: how often they held in the data, and how much they had to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bridle.rules.base import Rule, Soft


@dataclass(frozen=True, slots=True)
class Learned:
    """A rule found in data.

    >>> from bridle import rules
    >>> print(Learned(rules.before("AUTHOR", "TITLE"), "presence", held=348, of=350, support=341).soft(2.3))
    AUTHOR before TITLE  [penalty 2.3]  # held in 348 of 350 sequences, spoke in 341; presence
    """

    rule: Rule
    kind: str  # "adjacency", "precedence", "count", ...
    held: int  # sequences that obey it
    of: int  # all sequences
    support: int  # sequences in which it had something to say

    @property
    def exceptions(self) -> int:
        """Sequences that break it."""
        return self.of - self.held

    @property
    def confidence(self) -> float:
        """The share of the sequences in which it had something to say that obey it."""
        return 1 - self.exceptions / self.support if self.support else 1.0

    def soft(self, penalty: float) -> Learned:
        """The same with this penalty."""
        rule = self.rule.rule if isinstance(self.rule, Soft) else self.rule
        return replace(self, rule=rule.soft(penalty))

    def hard(self) -> Learned:
        """The same without a penalty."""
        return replace(self, rule=self.rule.rule) if isinstance(self.rule, Soft) else self

    def __str__(self) -> str:
        return f"{self.rule}  # held in {self.held} of {self.of} sequences, spoke in {self.support}; {self.kind}"


def rules_of(learned: Iterable[Learned]) -> list[Rule]:
    """The rules alone."""
    return [one.rule for one in learned]
