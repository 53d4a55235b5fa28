"""What every rule is: a frozen value that says what must be true of a labelling, never how to find one.

A kind of rule is one dataclass with
    text       its sentence(s), from which it is printed and parsed         (text.py)
    breaks     how many violations a labelling has: the plain definition    (read by `holds`, `violations`, the judge)
    automata   the same as counting automata                                (read by the engines, through compiled.py)
    mask       optionally, the same as allowed labels and transitions       (folded into the lattice, free)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bridle.automata import LazyAutomaton
from bridle.checks import is_integer
from bridle.errors import BridleError, RuleError
from bridle.labels import Bools, Labels
from bridle.lattice import LARGEST
from bridle.rules.refer import Given, Names, Place, RuleContext

Sets = tuple[frozenset[int], ...]  # label ids of each name of one field
Labelling = Sequence[int] | Sequence[str] | npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A hard rule as allowed labels and transitions. None: all are."""

    token: Bools | None = None  # (m,)    at the places of the rule, or everywhere if it has none
    step: Bools | None = None  # (m, m)  from one position to the next
    first: Bools | None = None  # (m,)
    last: Bools | None = None  # (m,)
    tied: bool = False  # the places of the rule carry the type of the position before


@dataclass(frozen=True)
class Rule:
    """The base of all rules. Combine with & | ~ >> and `iff`; weaken with `soft`."""

    text: ClassVar[tuple[str, ...]] = ()  # sentences such as "at most {k:int} {count:unit} of {of:names}"
    kinds: ClassVar[list[type[Rule]]] = []  # all that can be written in a .rules file

    def __init_subclass__(cls) -> None:
        if "text" in cls.__dict__:
            Rule.kinds.append(cls)

    @abstractmethod
    def count_violations(self, context: RuleContext) -> int:
        """How many violations this labelling has."""

    @abstractmethod
    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        """Counting automata whose violations add up to those of the rule. `sets` resolves `names()`."""

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        """The rule as a mask, where it can be one."""
        return None

    def names(self) -> tuple[Names, ...]:
        """The label fields of the rule, in the order of its fields."""
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(v for v in values if isinstance(v, Names))

    def places(self) -> tuple[Place, ...]:
        """The position fields of the rule; place k sets bit k of a position's mark."""
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(v for v in values if isinstance(v, Place))

    def conjuncts(self) -> tuple[Rule, ...]:
        """Rules that hold together exactly when this one holds."""
        return (self,)

    def violations(self, y: Labelling, labels: Labels, given: Mapping[str, Any] | None = None) -> int:
        """How often a labelling (names or ids) breaks the rule."""
        with named(self):
            return self.count_violations(RuleContext(tuple(labels.ids(y).tolist()), labels, given or {}))

    def holds(self, y: Labelling, labels: Labels, given: Mapping[str, Any] | None = None) -> bool:
        """Does a labelling (names or ids) obey the rule?

        >>> from bridle import Labels, rules
        >>> rules.at_most(1, of="A0").holds(["A0", "O", "A0"], Labels(["O", "A0"], "IO"))
        False
        """
        return self.violations(y, labels, given) == 0

    def soft(self, penalty: float, per: Literal["sequence", "violation"] = "sequence") -> Soft:
        """The same rule, breakable at a price: once per sequence that breaks it, or once per violation."""
        return Soft(self, penalty, per)

    def __str__(self) -> str:
        from bridle.rules.text import to_text  # the grammar knows all rules, so no rule can import it at the top

        return to_text(self)

    def __and__(self, other: Rule) -> Rule:
        return _combine("And", self, other)

    def __or__(self, other: Rule) -> Rule:
        return _combine("Or", self, other)

    def __rshift__(self, other: Rule) -> Rule:
        return _combine("Implies", self, other)

    def __invert__(self) -> Rule:
        return _combine("Not", self)

    def iff(self, other: Rule) -> Rule:
        """Both hold or neither does."""
        return _combine("Iff", self, other)

    def __bool__(self) -> bool:
        raise RuleError(
            "a rule is neither true nor false by itself",
            got=str(self),
            wanted="rule.holds(labels...)",
            cause="Combine rules with & | ~ instead of and, or, not.",
        )


@dataclass(frozen=True)
class Soft(Rule):
    """A rule that may be broken at a price."""

    rule: Rule
    penalty: float
    per: Literal["sequence", "violation"] = "sequence"

    def __post_init__(self) -> None:
        if isinstance(self.rule, Soft):
            raise RuleError("a soft rule cannot be softened again", got=str(self.rule), wanted="a hard rule")
        if self.per not in ("sequence", "violation"):
            raise RuleError("unknown `per` of a soft rule", got=repr(self.per), wanted="'sequence' or 'violation'")
        try:
            price = float(self.penalty)
        except (TypeError, ValueError):
            price = math.nan
        if not 0 <= price <= LARGEST:
            raise RuleError(
                "a penalty is not a price",
                got=repr(self.penalty),
                wanted=f"a number from 0 to {LARGEST:g}",
                cause="Penalties are subtracted from the score; a rule that must never be broken is a hard rule.",
            )
        object.__setattr__(self, "penalty", price)

    def count_violations(self, context: RuleContext) -> int:
        return self.rule.count_violations(context)

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        return self.rule.automata(sets, labels)

    def names(self) -> tuple[Names, ...]:
        return self.rule.names()

    def places(self) -> tuple[Place, ...]:
        return self.rule.places()

    def cost(self, violations: int) -> float:
        """What so many violations cost."""
        return self.penalty * (violations if self.per == "violation" else min(violations, 1))


def _combine(kind: str, *rules: Rule) -> Rule:
    from bridle.rules import boolean  # it builds on this module

    for rule in rules:
        if not isinstance(rule, Rule) or isinstance(rule, Soft):
            raise RuleError(
                "only hard rules can be combined", got=str(rule), wanted="rules without a penalty",
                cause="Combine first, then call .soft(...) on the whole.",
            )
    made: Rule = getattr(boolean, kind)(*rules)
    return made


class named:  # noqa: N801  (reads as a sentence: with named(rule))
    """Errors raised inside are about this rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, BridleError):
            error.at(rule=self.rule)


def natural(name: str, value: object, least: int = 0) -> int:
    """A whole number not below `least`."""
    if not is_integer(value, least):
        raise RuleError(f"{name} is not a count", got=repr(value), wanted=f"a whole number >= {least}")
    return int(value)


def union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """All ids of some sets."""
    return frozenset().union(*sets)


def flags(ids: Iterable[int], m: int) -> Bools:
    """(m,) which labels are in the set."""
    table = np.zeros(m, dtype=bool)
    table[list(ids)] = True
    return table


__all__ = [
    "Given", "Mask", "Names", "Place", "Rule", "RuleContext", "Sets", "Soft", "flags", "named", "natural",
    "union",
]
