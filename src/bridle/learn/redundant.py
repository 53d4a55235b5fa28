"""Which rules follow from the others? Rules over labels are automata D:

    rules R imply r      no sequence is in  ~D(r) & D(R)

R is grown lazily, as the linter grows it: a sequence that breaks r and a rule of R brings this rule in. One rule after
another is dropped if it follows from those still there, so what stays implies all that was dropped. A rule that allows
labels at some tokens follows from one that allows no others at (in the data) no fewer tokens. What takes too long to
decide stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridle.automata import DFA, CountingAutomaton
from bridle.errors import RuleError
from bridle.labels import Labels
from bridle.learn.counted import Counted
from bridle.rules.base import Rule
from bridle.rules.positions import Allow
from bridle.rules.questions import Questions, TooLarge


def needed(rules: Sequence[Rule], data: Counted, *, budget: int = 10_000_000) -> list[bool]:
    """Which rules are left when those that follow from the others are dropped, the last ones first.

    The rules must be able to hold together, else all of them would follow. budget: steps of automata to spend.
    """
    ask = Questions(budget)
    automata = [automata_of(rule, data.labels) for rule in rules]
    kept = [True] * len(rules)
    for i in reversed(range(len(rules))):
        others = [j for j in range(len(rules)) if kept[j] and j != i]
        if not automata[i]:
            kept[i] = not any(_covers(rules[j], rules[i], data) for j in others)
            continue
        try:
            kept[i] = not implied(automata[i], [part for j in others for part in automata[j]], ask)
        except TooLarge:
            if ask.left <= 0:
                break
    return kept


def implied(parts: Sequence[DFA], others: Sequence[DFA], ask: Questions) -> bool:
    """Do all words that all of `others` accept belong to all of `parts`?"""
    for part in parts:
        product = [~part]
        while (word := ask.word(product)) is not None:
            broken = next((other for other in others if not other.accepts(word)), None)
            if broken is None:
                return False
            product.append(broken)
    return True


def automata_of(rule: Rule, labels: Labels) -> tuple[DFA, ...]:
    """The automata of a rule that looks at labels only; none if it is too large or looks at tokens."""
    if rule.places():
        return ()
    try:
        automata = rule.automata(tuple(names.resolve(labels, {}) for names in rule.names()), labels)
        return tuple(CountingAutomaton.build(automaton, len(labels)).dfa() for automaton in automata)
    except RuleError:
        return ()


def _covers(one: Rule, other: Rule, data: Counted) -> bool:
    """Does a rule that allows labels at some tokens say all that another one says of this data?"""
    if not (isinstance(one, Allow) and isinstance(other, Allow)):
        return False
    narrow, wide = (frozenset[int]().union(*rule.labels.resolve(data.labels, {})) for rule in (one, other))
    many, few = (data.matching(rule.at.source.pattern) for rule in (one, other))  # type: ignore[union-attr]
    return narrow <= wide and bool((many | ~few).all())
