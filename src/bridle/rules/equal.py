"""One label for equal tokens: same_label_for_equal.

Tokens of a sequence that have the same text, or the same value in another column, make a group. Groups of two or more
are numbered from 1 in the order in which they begin, and the number of its group is the mark of a token, written bit by
bit by eight places:

    mark[t] = g        token t is one of group g; 0: its text does not repeat
    violations = sum over g of  #{consecutive tokens t < u of group g:  kind[y[t]] != kind[y[u]]}

`search` reads the groups as they are (cpp/search/agreement.h). Other engines have an automaton for each group, which
remembers the label that it saw last; a product of all of them would have as many states as there are ways to label the
groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.automata import CountingAutomaton, LazyAutomaton
from bridle.errors import RuleError
from bridle.labels import Labels
from bridle.rules.base import Rule, Sets
from bridle.rules.conditions import TOKENS, Given, Tokens, texts_of
from bridle.rules.patterns import matcher
from bridle.rules.references import Place, RuleContext

_BITS = 8  # of the number of a group: marks are bytes
_MOST_GROUPS = (1 << _BITS) - 1
_MOST_CELLS = 1 << 24  # of all tables of one sequence
_FEWER = "Compare fewer tokens, such as those that begin with a capital: tokens /[A-Z].*/."


class Equal(NamedTuple):
    """The tokens that are compared, and whether case matters."""

    pattern: Tokens | None = None  # those that match, by their values in its column; None: all, by their texts
    ignoring_case: bool = False

    @property
    def column(self) -> str:
        """The column whose values are compared."""
        return TOKENS if self.pattern is None else self.pattern.column or TOKENS


_ALL = Equal()


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of one sequence."""

    numbers: npt.NDArray[np.int32]  # (n,)  the group of each token, from 0; -1: it is alone
    count: int

    @classmethod
    def of(cls, given: Mapping[str, Any], n: int, equal: Equal) -> _Groups:
        return _grouped(tuple(SameLabelForEqual(equal).texts(given, n)), equal)


@lru_cache(maxsize=64)  # each place of a rule asks, and several rules may
def _grouped(texts: tuple[str, ...], equal: Equal) -> _Groups:
    matching = None if equal.pattern is None else matcher((equal.pattern.pattern, equal.pattern.engine))
    positions: dict[str, list[int]] = {}
    for t, text in enumerate(texts):
        if matching is None or matching(text):
            positions.setdefault(text.casefold() if equal.ignoring_case else text, []).append(t)
    repeated = [at for at in positions.values() if len(at) > 1]
    numbers = np.full(len(texts), -1, dtype=np.int32)
    for g, at in enumerate(repeated):
        numbers[at] = g
    numbers.flags.writeable = False
    return _Groups(numbers, len(repeated))


@dataclass(frozen=True, slots=True)
class EqualPlace(Place):
    """Tokens whose group has a number with this bit."""

    equal: Equal = _ALL
    bit: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that it reads."""
        return (self.equal.column,)

    def positions(self, n: int, given: Mapping[str, Any]) -> list[int]:
        """Return the positions in a sequence of n tokens."""
        groups = _Groups.of(given, n, self.equal)
        if groups.count > _MOST_GROUPS:
            raise RuleError(
                "too many texts occur more than once in a sequence",
                got=f"{groups.count:,}",
                wanted=f"at most {_MOST_GROUPS}, in formulas and for integer programs",
                cause=_FEWER,
            )
        return np.flatnonzero((groups.numbers + 1) >> self.bit & 1).tolist()


@dataclass(frozen=True)
class SameLabelForEqual(Rule):
    """Tokens with the same text carry the same label (under BIO and similar schemes: the same type).

    Each token that differs from the one before it with the same text is one violation. A pattern of another column
    compares the values of that column instead.
    """

    text = ("same label for equal {equal:equal}",)
    equal: Equal

    def places(self) -> tuple[Place, ...]:
        return tuple(EqualPlace((), equal=self.equal, bit=bit) for bit in range(_BITS))

    def count_violations(self, context: RuleContext) -> int:
        kinds, last, violations = context.labels.kinds, dict[int, int](), 0
        groups = self.groups(context.given, len(context.ids))
        for g, y in zip(groups.tolist(), context.ids, strict=True):
            if g >= 0:
                violations += last.setdefault(g, kinds[y]) != kinds[y]
                last[g] = kinds[y]
        return violations

    def groups(self, given: Mapping[str, Any], n: int) -> npt.NDArray[np.int32]:
        """Return the group of each of n tokens, from 0; -1 for a token whose text does not repeat."""
        return self.groups_of(self.texts(given, n))

    def texts(self, given: Mapping[str, Any], n: int) -> list[str]:
        """Return the texts of n tokens, or their values in the column that is compared."""
        column = self.equal.column
        values = given.get(column) if isinstance(given, dict) else None
        if type(values) is list and len(values) == n and set(map(type, values)) <= {str}:
            return values
        return texts_of(given, column, n)

    def groups_of(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the groups of tokens with these texts."""
        return _grouped(tuple(texts), self.equal).numbers

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        """Return one automaton for all groups, as formulas need it. Alone, the rule has one for each: `tables`."""
        kinds = labels.kinds

        def read(seen: Any, y: int, mark: int) -> tuple[Any, int]:
            g = mark & _MOST_GROUPS
            if not g:
                return seen, 0
            last = dict(seen)
            violations = int(last.get(g, kinds[y]) != kinds[y])
            return tuple(sorted({**last, g: kinds[y]}.items())), violations

        return [LazyAutomaton((), read, classes=np.array(kinds, dtype=np.uint16))]

    def tables(self, sets: tuple[Sets, ...], labels: Labels, marks: tuple[int, ...]) -> list[CountingAutomaton]:
        """Return an automaton for each group that occurs."""
        group = _one_group(tuple(labels.kinds))
        groups = [mark for mark in marks if mark]
        if (cells := len(groups) * len(marks) * group.step[0].size) > _MOST_CELLS:
            raise RuleError(
                "the automata of a rule are too large",
                got=f"{len(groups):,} texts that repeat, {group.n_states - 1:,} labels: {cells:,} cells",
                wanted=f"at most {_MOST_CELLS:,} cells",
                cause=_FEWER,
            )
        tables = []
        for g in groups:
            chosen = [int(mark == g) for mark in marks]
            tables.append(replace(group, step=group.step[chosen], violations=group.violations[chosen], marks=marks))
        return tables


@lru_cache(maxsize=32)
def _one_group(kinds: tuple[int, ...]) -> CountingAutomaton:
    """Return the automaton of one group, whose tokens have the mark 1."""

    def read(last: Any, y: int, mark: int) -> tuple[Any, int]:
        return (kinds[y], int(last not in (None, kinds[y]))) if mark else (last, 0)

    return CountingAutomaton.build(LazyAutomaton(None, read, classes=np.array(kinds, np.uint16)), len(kinds), (0, 1))


# ---- public functions -----------------------------------------------------------------------------------------------


def same_label_for_equal(tokens: Tokens | None = None, *, case: str = "exact") -> Rule:
    """Require that tokens with the same text carry the same label, anywhere in the sequence.

    Under BIO, BIOES and BMES, labels of one segment type agree: ``B-PER`` and ``I-PER`` are both PER. Function
    words repeat often and may well differ, so it helps to restrict the rule, for example to tokens that begin with a
    capital, and to make it soft.

    Parameters
    ----------
    tokens : Tokens, optional
        Compare only tokens that match: ``tokens(regex)``, or ``tokens(regex, column="lemma")`` for those whose lemmas
        match and are equal. None means all, by their texts.
    case : {"exact", "ignored"}, default "exact"
        With "ignored", ``Apple`` and ``APPLE`` are equal.

    Returns
    -------
    Rule
        Each token that disagrees with the one before it with the same text is one violation. The texts come with each
        sequence as ``given={"tokens": [...]}``, the values of a column under its name. Any number of texts may repeat.
        Inside ``not``, ``or`` and ``implies``, and with ``engine="ilp"``, at most 255 may, and a few are practical.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> rule = r.same_label_for_equal(r.tokens("[A-Z].*"))
    >>> print(rule)
    same label for equal tokens /[A-Z].*/
    >>> labels, given = Labels(["O", "PER", "LOC"]), {"tokens": ["Paris", "met", "Paris"]}
    >>> rule.holds(["PER", "O", "PER"], labels, given), rule.holds(["PER", "O", "LOC"], labels, given)
    (True, False)
    """
    if tokens is not None and not isinstance(tokens, Tokens):
        got = f"given({tokens.key!r})" if isinstance(tokens, Given) else repr(tokens)
        raise RuleError(
            "invalid `tokens` of a rule about equal tokens",
            got=got,
            wanted="tokens(regex), tokens(regex, column=...) or None",
        )
    if case not in ("exact", "ignored"):
        raise RuleError("unknown `case` of a rule about equal tokens", got=repr(case), wanted="'exact' or 'ignored'")
    return SameLabelForEqual(Equal(tokens, case == "ignored"))
