"""Hints: a rule that gold breaks often, where a rule that people mean by the same words would hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridle.labels import Labels
from bridle.learn.audit_result import Audit
from bridle.learn.auditing import audit
from bridle.rules.base import Rule, Soft
from bridle.rules.order import Before, FirstBefore

_OFTEN, _BETTER = 0.05, 0.05  # shares of the sequences: broken often; held in so many more


@dataclass(frozen=True, slots=True)
class Hint:
    """A rule that was perhaps meant.

    Attributes
    ----------
    rule, instead : Rule
        The rule as it is written, and the other one.
    gold, gold_instead : float
        Share of the sequences in which gold obeys them.
    """

    rule: Rule
    instead: Rule
    gold: float
    gold_instead: float

    def __str__(self) -> str:
        was = f"`{self.rule}` holds in {self.gold:.1%} of gold"
        return f"{was}; did you mean `{self.instead}`, which holds in {self.gold_instead:.1%}?"

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            The sentences, and shares, not percent.
        """
        return {
            "rule": str(self.rule),
            "instead": str(self.instead),
            "gold": self.gold,
            "gold_instead": self.gold_instead,
        }


def hints(
    found: Audit,
    gold: Sequence[Sequence[str]],
    labels: Labels,
    *,
    given: Sequence[Mapping[str, Any]] | None = None,
    threads: int = 0,
) -> list[Hint]:
    """Find rules `A before B` that gold breaks often, where `first A before first B` holds.

    Parameters
    ----------
    found : Audit
        The audit of the rules on the same sequences.
    gold : sequence of sequence of str
        Gold labels.
    labels : Labels
        The labels, as for `audit`.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence.
    threads : int, default 0
        Number of threads; 0 means all cores.

    Returns
    -------
    list of Hint
        In the order of the audit.

    Examples
    --------
    >>> from bridle import Labels, rules
    >>> from bridle.learn import audit
    >>> gold, labels = [["START", "END", "START", "END"]], Labels(["START", "END"])
    >>> found = audit([rules.before("START", "END")], gold, labels)
    >>> print(*hints(found, gold, labels))
    `START before END` holds in 0.0% of gold; did you mean `first START before first END`, which holds in 100.0%?
    """
    often = {row.rule: row for row in found.found if row.gold < 1 - _OFTEN}.values()  # each rule once
    pairs = [(row, other) for row in often if (other := _first(row.rule)) is not None]
    if not pairs:
        return []
    others = audit([other for _, other in pairs], gold, labels, given=given, threads=threads)
    held = {row.number: row.gold for row in others.found}
    made = [Hint(row.rule, other, row.gold, held[k]) for k, (row, other) in enumerate(pairs)]
    return [one for one in made if one.gold_instead >= one.gold + _BETTER]


def _first(rule: Rule) -> Rule | None:
    """`first A before first B` for `A before B`, at the same price."""
    if isinstance(rule, Soft):
        inner = _first(rule.rule)
        return None if inner is None else replace(rule, rule=inner)
    return FirstBefore(rule.a, rule.b) if isinstance(rule, Before) else None
