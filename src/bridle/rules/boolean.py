"""Boolean rules: and, or, not, implies, iff over any hard rules; and label expressions. Broken means one violation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from bridle.automata import DFA, Classes, LazyAutomaton, check_regex, compile_regex, joint_classes
from bridle.errors import RuleError
from bridle.labels import Labels
from bridle.rules.base import Rule, Sets, Soft
from bridle.rules.references import Names, Place, RuleContext

_BROKEN = "broken"  # the state of a part after its first violation


@dataclass(frozen=True)
class Formula(Rule):
    """A truth function of other rules."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Rule, ...]: ...

    @abstractmethod
    def truth(self, held: Sequence[bool]) -> bool: ...

    def count_violations(self, context: RuleContext) -> int:
        return int(not self.truth([part.count_violations(context) == 0 for part in self.parts]))

    def names(self) -> tuple[Names, ...]:
        return tuple(name for part in self.parts for name in part.names())

    def places(self) -> tuple[Place, ...]:
        return tuple(place for part in self.parts for place in part.places())

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        """Run the automata of all parts side by side; the truth function is evaluated at the end."""
        automata: list[tuple[LazyAutomaton, int]] = []  # with the bit at which the marks of its part begin
        owner: list[int] = []
        names_before = bits_before = 0
        for k, part in enumerate(self.parts):
            n_names = len(part.names())
            of_part = part.automata(sets[names_before : names_before + n_names], labels)
            automata += [(automaton, bits_before) for automaton in of_part]
            owner += [k] * len(of_part)
            names_before += n_names
            bits_before += len(part.places())

        def read(states: Any, y: int, mark: int) -> tuple[Any, int]:
            after = []
            for (automaton, shift), state in zip(automata, states, strict=True):
                if state is not _BROKEN:
                    state, violations = automaton.step(state, y, mark >> shift)
                    state = _BROKEN if violations else state
                after.append(state)
            return tuple(after), 0

        def final(states: Any) -> int:
            held = [True] * len(self.parts)
            for k, (automaton, _), state in zip(owner, automata, states, strict=True):
                held[k] = held[k] and state is not _BROKEN and automaton.final(state) == 0
            return int(not self.truth(held))

        parts = [automaton for automaton, _ in automata]
        return [LazyAutomaton(tuple(part.start for part in parts), read, final, joint_classes(parts))]


@dataclass(frozen=True)
class Pair(Formula):
    """A truth function of two rules."""

    word: ClassVar[str]
    left: Rule
    right: Rule

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class And(Pair):
    """Both hold."""

    word = "and"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[0] and held[1]

    def conjuncts(self) -> tuple[Rule, ...]:
        return self.left.conjuncts() + self.right.conjuncts()


@dataclass(frozen=True)
class Or(Pair):
    """One holds, or both do."""

    word = "or"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[0] or held[1]


@dataclass(frozen=True)
class Implies(Pair):
    """If the first holds, so does the second."""

    word = "implies"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[1] or not held[0]


@dataclass(frozen=True)
class Iff(Pair):
    """Both hold or neither does."""

    word = "iff"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[0] == held[1]


@dataclass(frozen=True)
class Not(Formula):
    """The rule does not hold."""

    rule: Rule

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.rule,)

    def truth(self, held: Sequence[bool]) -> bool:
        return not held[0]


def leaves(rule: Rule) -> list[Rule]:
    """Return the rules that a formula is made of."""
    if isinstance(rule, Soft):
        return leaves(rule.rule)
    return [leaf for part in rule.parts for leaf in leaves(part)] if isinstance(rule, Formula) else [rule]


@lru_cache(maxsize=256)
def _compiled(pattern: str, labels: Labels) -> tuple[DFA, Classes]:
    """Return the automaton of an expression, over classes of labels, and the class of each label."""
    return compile_regex(pattern, labels.matching, len(labels))


@dataclass(frozen=True)
class Matches(Rule):
    """The whole label sequence matches an expression such as "O* A0+ (O|A1)*"."""

    text = ("matches {pattern:quoted}",)
    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise RuleError("a label expression must be a string", got=repr(self.pattern), wanted='such as "O* A0+"')
        check_regex(self.pattern)  # now, while the line of the file is known; the names wait for the label set

    def count_violations(self, context: RuleContext) -> int:
        dfa, class_of = _compiled(self.pattern, context.labels)
        return int(not dfa.accepts(class_of[y] for y in context.ids))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        dfa, class_of = _compiled(self.pattern, labels)
        step, accepting = dfa.step.tolist(), dfa.accepting.tolist()
        return [
            LazyAutomaton(0, lambda s, y, _mark: (step[s][class_of[y]], 0), lambda s: int(not accepting[s]), class_of)
        ]


# ---- public functions -----------------------------------------------------------------------------------------------


def matches(pattern: str) -> Rule:
    """Require that the whole label sequence matches a regular expression over labels.

    Parameters
    ----------
    pattern : str
        Names of labels or segment types, separated by spaces, with ``( )``, ``|``, ``*``, ``+``, ``?`` and ``{2,3}``.
        ``.`` is any label, ``[A B]`` one of these, ``[^A B]`` any other. Put names with characters other than
        letters, digits, ``_`` and ``-`` in quotation marks.

    Returns
    -------
    Rule
        A sequence that does not match is one violation.

    Raises
    ------
    RuleError
        If `pattern` is not a string; its subclass RuleSyntaxError if the expression is invalid.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "A0", "A1"])
    >>> rule = r.matches("O* A0+ (O|A1)*")
    >>> rule.holds(["O", "A0", "A1", "O"], labels), rule.holds(["A1", "A0"], labels)
    (True, False)
    """
    return Matches(pattern)
