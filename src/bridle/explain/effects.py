"""What single rules did to one labelling."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.decoding.result import Decoding
from bridle.rules.base import Rule, Soft

LEAST = 1e-12  # a smaller price is none


@dataclass(frozen=True)
class RuleEffect:
    """What one rule did.

    Attributes
    ----------
    rule : Rule
        The rule.
    broken_by_plain : int
        How often the best labelling without rules violates it.
    price : float
        How much the score would rise without this rule, the others kept.
    without : Decoding or None
        The best labelling without it, if that is another one.
    at : tuple of int
        Positions that it changed, as far as that is known.
    proved : bool
        Is `price` proved? If not, a limit was reached first.
    """

    rule: Rule
    broken_by_plain: int
    price: float
    without: Decoding | None
    at: tuple[int, ...] = ()
    proved: bool = True


@dataclass(frozen=True)
class Charge:
    """The penalty of one soft rule that the best labelling violates.

    Attributes
    ----------
    rule : Soft
        The rule.
    times : int
        How often it is violated.
    cost : float
        Its penalty, once per sequence or per violation.
    """

    rule: Soft
    times: int
    cost: float
