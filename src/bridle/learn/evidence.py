"""Learned rules travel with their evidence: how often they held in the data, and to how much of it they apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bridle.rules.base import Rule, Soft


@dataclass(frozen=True, slots=True)
class Learned:
    """A rule found in data, with its evidence.

    Parameters
    ----------
    rule : Rule
        The rule, hard or soft.
    kind : str
        How it was found: ``"adjacency"``, ``"precedence"``, ``"count"``, ...
    held : int
        Number of sequences that obey it.
    of : int
        Number of all sequences.
    support : int
        Number of sequences to which it applies; "if A then B" applies only to sequences with an A.

    Examples
    --------
    >>> from bridle import rules
    >>> from bridle.learn import Learned
    >>> print(Learned(rules.before("AUTHOR", "TITLE"), "presence", held=348, of=350, support=341).soft(2.3))
    AUTHOR before TITLE  [penalty 2.3]  # held in 348 of 350 sequences, applied in 341; presence
    """

    rule: Rule
    kind: str
    held: int
    of: int
    support: int

    @property
    def exceptions(self) -> int:
        """Number of sequences that break it."""
        return self.of - self.held

    @property
    def confidence(self) -> float:
        """Share of sequences that obey it, among those to which it applies."""
        return 1 - self.exceptions / self.support if self.support else 1.0

    def soft(self, penalty: float) -> Learned:
        """Make the rule soft, or give a soft one another penalty.

        Parameters
        ----------
        penalty : float
            The penalty for breaking it, 0 or more.

        Returns
        -------
        Learned
            A copy with the soft rule.
        """
        rule = self.rule.rule if isinstance(self.rule, Soft) else self.rule
        return replace(self, rule=rule.soft(penalty))

    def hard(self) -> Learned:
        """Make the rule hard.

        Returns
        -------
        Learned
            A copy with the rule without a penalty.
        """
        return replace(self, rule=self.rule.rule) if isinstance(self.rule, Soft) else self

    def __str__(self) -> str:
        return f"{self.rule}  # held in {self.held} of {self.of} sequences, applied in {self.support}; {self.kind}"


def rules_of(learned: Iterable[Learned]) -> list[Rule]:
    """Return the rules without their evidence.

    Parameters
    ----------
    learned : iterable of Learned
        Rules with their evidence.

    Returns
    -------
    list of Rule
        The rules, for a `Decoder`.
    """
    return [one.rule for one in learned]
