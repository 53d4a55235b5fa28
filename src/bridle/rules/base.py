"""The base of all rules: a frozen value that says what must be true of a labelling, never how to find one.

A kind of rule is one dataclass with
    text               its sentence(s), from which it is printed and parsed         (text.py)
    count_violations   the number of violations of a labelling                      (for `holds` and the judge)
    automata           the same as counting automata, or `MembershipRule.read`      (for the engines: compiled.py)
    mask               optionally, the same as allowed labels and transitions       (folded into the lattice, free)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bridle.automata import CountingAutomaton, LazyAutomaton, by_sets
from bridle.errors import BridleError, RuleError
from bridle.labels import Bools, Labels
from bridle.lattice import LARGEST
from bridle.rules.references import Names, Place, RuleContext, union

Sets = tuple[frozenset[int], ...]  # label ids of each name of one field
Membership = tuple[bool, ...]  # for each field of label names, whether a label is among its labels
Labelling = Sequence[int] | Sequence[str] | npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A hard rule as allowed labels and transitions. None means that all are allowed."""

    token: Bools | None = None  # (m,)    at the places of the rule, or everywhere if it has none
    step: Bools | None = None  # (m, m)  from one position to the next
    first: Bools | None = None  # (m,)
    last: Bools | None = None  # (m,)
    tied: bool = False  # the places of the rule carry the type of the position before


@dataclass(frozen=True)
class Rule:
    """The base of all rules.

    A rule says what is true of a labelling. The functions of `bridle.rules` make rules; combine hard ones with ``&``
    (and), ``|`` (or), ``~`` (not), ``>>`` (implies) and `iff`, and weaken any of them with `soft`. ``str(rule)`` is its
    sentence in a .rules file.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> rule = r.present("PAGES") >> (r.present("JOURNAL") | r.present("BOOK"))
    >>> print(rule)
    (present PAGES) implies ((present JOURNAL) or (present BOOK))
    >>> rule.holds(["PAGES", "BOOK"], Labels(["PAGES", "JOURNAL", "BOOK"]))
    True
    """

    text: ClassVar[tuple[str, ...]] = ()  # sentences such as "at most {k:int} {count:unit} of {of:names}"
    kinds: ClassVar[list[type[Rule]]] = []  # all that can be written in a .rules file
    of_document: ClassVar[bool] = False  # is it about all sentences of a document together?

    def __init_subclass__(cls) -> None:
        if "text" in cls.__dict__:
            Rule.kinds.append(cls)

    @abstractmethod
    def count_violations(self, context: RuleContext) -> int:
        """Count the violations of one labelling. Each kind of rule defines this; to use a rule, call `violations`.

        Parameters
        ----------
        context : RuleContext
            One labelling, its labels and what comes with the sequence.

        Returns
        -------
        int
            Number of violations, 0 if the rule holds.
        """

    @abstractmethod
    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        """Express the rule as counting automata, for the engines.

        Parameters
        ----------
        sets : tuple of tuple of frozenset of int
            For each of `names`, the label ids of each name.
        labels : Labels
            All labels.

        Returns
        -------
        list of LazyAutomaton
            Their violations add up to those of the rule.
        """

    def tables(self, sets: tuple[Sets, ...], labels: Labels, marks: tuple[int, ...]) -> list[CountingAutomaton]:
        """Build the automata of the rule for the marks that occur.

        Parameters
        ----------
        sets : tuple of tuple of frozenset of int
            For each of `names`, the label ids of each name.
        labels : Labels
            All labels.
        marks : tuple of int
            The marks of positions that occur, 0 among them.

        Returns
        -------
        list of CountingAutomaton
            Their violations add up to those of the rule.
        """
        return [CountingAutomaton.build(automaton, len(labels), marks) for automaton in self.automata(sets, labels)]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        """Express the rule as allowed labels and transitions, where that is possible.

        Parameters
        ----------
        sets : tuple of tuple of frozenset of int
            For each of `names`, the label ids of each name.
        labels : Labels
            All labels.

        Returns
        -------
        Mask or None
            None if the rule needs an automaton. A mask costs nothing at run time.
        """
        return None

    def names(self) -> tuple[Names, ...]:
        """List the label arguments of the rule.

        Returns
        -------
        tuple of Names
            In the order of its fields.
        """
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(v for v in values if isinstance(v, Names))

    def places(self) -> tuple[Place, ...]:
        """List the position arguments of the rule.

        Returns
        -------
        tuple of Place
            In the order of its fields. Place k sets bit k of a position's mark.
        """
        values = (getattr(self, f.name) for f in fields(self))
        return tuple(v for v in values if isinstance(v, Place))

    def conjuncts(self) -> tuple[Rule, ...]:
        """Split a conjunction.

        Returns
        -------
        tuple of Rule
            Rules that hold together exactly when this one holds; a rule without ``&`` returns only itself.
        """
        return (self,)

    def violations(self, y: Labelling, labels: Labels, given: Mapping[str, Any] | None = None) -> int:
        """Count how often a labelling breaks the rule.

        Parameters
        ----------
        y : sequence of str or int
            A label per token, as names or as ids.
        labels : Labels
            The labels and their tagging scheme.
        given : mapping, optional
            Values that the rule refers to by `given` and `tokens`.

        Returns
        -------
        int
            Number of violations, 0 if the rule holds. The function that makes the rule documents what counts as one.

        Raises
        ------
        LabelError
            If `y` or the rule names an unknown label.
        GivenError
            If a value is missing in `given`, or does not fit.
        RuleError
            If the rule names a position outside the sequence.

        Examples
        --------
        >>> from bridle import Labels, rules as r
        >>> r.at_most(1, of="A0").violations(["A0", "O", "A0", "O", "A0"], Labels(["O", "A0"]))
        2
        """
        with named(self):
            return self.count_violations(RuleContext(tuple(labels.ids(y).tolist()), labels, given or {}))

    def holds(self, y: Labelling, labels: Labels, given: Mapping[str, Any] | None = None) -> bool:
        """Check whether a labelling obeys the rule.

        Parameters
        ----------
        y : sequence of str or int
            A label per token, as names or as ids.
        labels : Labels
            The labels and their tagging scheme.
        given : mapping, optional
            Values that the rule refers to by `given` and `tokens`.

        Returns
        -------
        bool
            True if it has no violations. Raises what `violations` raises.

        Examples
        --------
        >>> from bridle import Labels, rules
        >>> rules.at_most(1, of="A0").holds(["A0", "O", "A0"], Labels(["O", "A0"], "IO"))
        False
        """
        return self.violations(y, labels, given) == 0

    def soft(self, penalty: float, per: Literal["sequence", "violation"] = "sequence") -> Soft:
        """Make the rule soft: it can be broken for a penalty.

        Parameters
        ----------
        penalty : float
            The amount that is subtracted from the score, 0 or more, in units of the scores.
        per : {"sequence", "violation"}, default "sequence"
            Charge once for a sequence that breaks the rule, or once for each violation.

        Returns
        -------
        Soft
            The soft rule. The original rule does not change.

        Raises
        ------
        RuleError
            If the rule is already soft, or `penalty` is negative or not finite.

        Examples
        --------
        >>> from bridle import rules as r
        >>> print(r.before("AUTHOR", "TITLE").soft(2.3))
        AUTHOR before TITLE  [penalty 2.3]
        """
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
        """Combine two rules: both hold, or neither does.

        Parameters
        ----------
        other : Rule
            Another hard rule; soft rules cannot be combined.

        Returns
        -------
        Rule
            It has at most one violation.

        Examples
        --------
        >>> from bridle import rules as r
        >>> print(r.present("OPEN").iff(r.present("CLOSE")))
        (present OPEN) iff (present CLOSE)
        """
        return _combine("Iff", self, other)

    def __bool__(self) -> bool:
        raise RuleError(
            "a rule has no truth value",
            got=str(self),
            wanted="rule.holds(labels...)",
            cause="Combine rules with & | ~ instead of and, or, not.",
        )


class Wrapper(Rule):
    """A rule with the violations, labels and places of another one, which is its first field."""

    rule: Rule

    def count_violations(self, context: RuleContext) -> int:
        return self.rule.count_violations(context)

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        return self.rule.automata(sets, labels)

    def names(self) -> tuple[Names, ...]:
        return self.rule.names()

    def places(self) -> tuple[Place, ...]:
        return self.rule.places()


@dataclass(frozen=True)
class Soft(Wrapper):
    """A rule that can be broken for a penalty; `Rule.soft` creates one.

    Parameters
    ----------
    rule : Rule
        The hard rule.
    penalty : float
        The amount that is subtracted from the score, 0 or more, in units of the scores.
    per : {"sequence", "violation"}, default "sequence"
        Charge once for a sequence that breaks the rule, or once for each violation.

    Raises
    ------
    RuleError
        If `rule` is already soft, or `penalty` is negative or not finite.
    """

    rule: Rule
    penalty: float
    per: Literal["sequence", "violation"] = "sequence"

    def __post_init__(self) -> None:
        if isinstance(self.rule, Soft):
            raise RuleError("the rule is already soft", got=str(self.rule), wanted="a hard rule")
        if self.per not in ("sequence", "violation"):
            raise RuleError("unknown `per` of a soft rule", got=repr(self.per), wanted="'sequence' or 'violation'")
        try:
            price = float(self.penalty)
        except (TypeError, ValueError):
            price = math.nan
        if not 0 <= price <= LARGEST:
            raise RuleError(
                "`penalty` must be a non-negative number",
                got=repr(self.penalty),
                wanted=f"a number from 0 to {LARGEST:g}",
                cause="Penalties are subtracted from the score; a rule that must never be broken is a hard rule.",
            )
        object.__setattr__(self, "penalty", price)

    def cost(self, violations: int) -> float:
        """Compute the penalty for a number of violations.

        Parameters
        ----------
        violations : int
            Number of violations in one sequence.

        Returns
        -------
        float
            The penalty, multiplied by how often it is charged.

        Examples
        --------
        >>> from bridle import rules as r
        >>> r.present("A").soft(2).cost(3), r.present("A").soft(2, per="violation").cost(3)
        (2.0, 6.0)
        """
        return self.penalty * (violations if self.per == "violation" else min(violations, 1))


@dataclass(frozen=True)
class MembershipRule(Rule):
    """A rule whose automaton only sees which of the rule's label arguments a label belongs to."""

    start: ClassVar[Any] = False  # the first state

    @abstractmethod
    def read(self, state: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        """Return the next state and the violations, after a label that is inside some of the label arguments."""

    def final(self, state: Any) -> int:
        """Return the violations at the end."""
        return 0

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        unions = [union(names) for names in sets]

        def read(state: Any, y: int, mark: int) -> tuple[Any, int]:
            return self.read(state, tuple(y in ids for ids in unions), mark)

        return [LazyAutomaton(self.start, read, self.final, by_sets(len(labels), *unions))]


def _combine(kind: str, *rules: Rule) -> Rule:
    from bridle.rules import boolean  # it builds on this module

    soft = next((rule for rule in rules if not isinstance(rule, Rule) or isinstance(rule, Soft)), None)
    if soft is not None:
        wanted, cause = "rules without a penalty", "Combine the hard rules, then call .soft(...) on the result."
        raise RuleError("only hard rules can be combined", got=str(soft), wanted=wanted, cause=cause)
    whole = next((rule for rule in rules if rule.of_document), None)
    if whole is not None:
        wanted, cause = "rules about sequences", "Combine the rules, then call in_document(...) on the result."
        raise RuleError("rules about documents cannot be combined", got=str(whole), wanted=wanted, cause=cause)
    combined: Rule = getattr(boolean, kind)(*rules)
    return combined


@contextmanager
def named(rule: Rule, sequence: int | None = None) -> Iterator[None]:
    """Let errors that are raised inside name the rule, and the sequence if there is one."""
    try:
        yield
    except BridleError as error:
        error.at(rule=rule, sequence=sequence)
        raise
