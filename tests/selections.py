"""Random candidate spans, and the plain meaning of rules about them, by enumeration.

The meaning is written down here once more, in other words than in `bridle.spans`: a selection becomes the labels of its
items under BIO, each span a B, and a rule about positions becomes a rule about items.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

from numpy.random import Generator

from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.rules.conditions import Given, TokenPlace, Tokens, TokensIn
from bridle.rules.counts import Length
from bridle.rules.positions import Forbid
from bridle.rules.references import Place, positions_in, spans_in
from strategies import RULE_KINDS, Values, random_rule, random_soft

NAMES = ["X", "Y", "Z"]
LABELS = Labels(["O", *NAMES], "IO")  # the names that random rules are made of
BIO = Labels(["O", *(f"B-{name}" for name in NAMES)], "BIO")
KINDS = sorted(set(RULE_KINDS) - {"SameLabelForEqual"})  # that one compares tokens
WORDS = ["a", "b7", "12345", "x/y", "(", "ab"]
Candidate = tuple[int, int, str, float]


@dataclass
class Case:
    """Candidates, rules and what comes with them."""

    spans: list[Candidate]
    rules: list[Rule]
    given: Values
    overlap: Any
    text: str | None = None
    tokens: list[str] | None = None

    @property
    def places(self) -> dict[str, Any]:
        """The arguments that say where spans lie."""
        return {"text": self.text, "tokens": self.tokens, "given": self.given}

    def tokens_at(self) -> list[tuple[int, int]]:
        """The positions that each token holds."""
        if self.tokens is not None:
            return [(t, t + 1) for t in range(len(self.tokens))]
        return [m.span() for m in re.finditer(r"\w+|[^\w\s]", self.text or "")]

    def shown(self, start: int, end: int) -> str:
        return " ".join(self.tokens[start:end]) if self.tokens is not None else (self.text or "")[start:end]


# ---- the plain meaning ----------------------------------------------------------------------------------------------


def legal(chosen: tuple[Candidate, ...], overlap: str) -> bool:
    for (a, b, *_), (c, d, *_) in combinations(chosen, 2):
        if set(range(a, b)) & set(range(c, d)):
            item, other = set(range(a, b)), set(range(c, d))
            if overlap == "forbid" or item == other or not (item < other or other < item):
                return False
    return True


def items_of(case: Case, chosen: tuple[Candidate, ...]) -> list[tuple[int, int, str]]:
    """Chosen spans and uncovered pieces of tokens, in order."""
    covered = "".join("#" if any(a <= t < b for a, b, *_ in chosen) else "." for t in range(size_of(case)))
    items = [(a, b, f"B-{label}") for a, b, label, _ in chosen]
    for low, high in case.tokens_at():
        items += [(low + m.start(), low + m.end(), "O") for m in re.finditer(r"\.+", covered[low:high])]
    return sorted(items, key=lambda item: (item[0], -item[1]))


def size_of(case: Case) -> int:
    return len(case.tokens) if case.tokens is not None else len(case.text or "")


def on_items(value: Any, case: Case, items: list[tuple[int, int, str]]) -> Any:
    """A rule about positions and lengths as one about items."""
    if isinstance(value, Place) and isinstance(value.source, TokenPlace):
        return on_tokens(value, case, items)
    if isinstance(value, Place):
        source = case.given[value.source.key] if isinstance(value.source, Given) else value.source
        n = size_of(case)
        if value.tied:
            inner = {t for a, b in spans_in(source, "") for t in range(a + 1, b)}
            at = [k for k, (start, _, _) in enumerate(items) if start in inner and k]
            return Place(tuple((k - 1, k + 1) for k in at), tied=True)
        wanted = {t % n for t in positions_in(source, "")}
        return Place(tuple(k for k, (a, b, _) in enumerate(items) if wanted & set(range(a, b))))
    if isinstance(value, Length):
        low, high = value.at_least or 0, value.at_most or math.inf
        sizes = [sum(max(a, c) < min(b, d) for c, d in case.tokens_at()) for a, b, _ in items]
        return Forbid(value.of, Place(tuple(k for k, size in enumerate(sizes) if not low <= size <= high)))
    if isinstance(value, Rule):
        return replace(value, **{f.name: on_items(getattr(value, f.name), case, items) for f in fields(value)})
    return value


def on_tokens(place: Place, case: Case, items: list[tuple[int, int, str]]) -> Place:
    """A condition on tokens as one about items: on their texts, or on the tokens that they hold."""
    match place.source:
        case Tokens(column=None):
            return place
        case TokensIn(phrases, ignoring, None):
            folded = str.casefold if ignoring == "case" else str
            known = [folded(phrase).split() for phrase in phrases.phrases()]
            return Place(tuple(k for k, (a, b, _) in enumerate(items) if folded(case.shown(a, b)).split() in known))
    tokens = case.tokens_at()
    result = place.positions(len(tokens), {**case.given, "tokens": [case.shown(a, b) for a, b in tokens]})
    wanted = {t for k in result for t in range(*tokens[k])}
    return Place(tuple(k for k, (a, b, _) in enumerate(items) if wanted & set(range(a, b))))


def value_of(case: Case, chosen: tuple[Candidate, ...]) -> float:
    """Sum of scores minus penalties; -inf if a hard rule is broken."""
    items = items_of(case, chosen)
    given = {**case.given, "tokens": [case.shown(a, b) for a, b, _ in items]}
    score = sum(span[3] for span in chosen)
    for rule in case.rules:
        v = on_items(rule, case, items).violations([label for *_, label in items], BIO, given)
        score -= rule.cost(v) if isinstance(rule, Soft) else math.inf if v else 0.0
    return score


def selections(case: Case) -> Iterator[tuple[int, ...]]:
    """All legal selections without impossible spans."""
    possible = [k for k, span in enumerate(case.spans) if span[3] > -math.inf]
    for size in range(len(possible) + 1):
        for some in combinations(possible, size):
            if legal(tuple(case.spans[k] for k in some), case.overlap):
                yield some


def best_of(case: Case) -> float:
    return max(value_of(case, tuple(case.spans[k] for k in some)) for some in selections(case))


# ---- random ones ----------------------------------------------------------------------------------------------------


def random_case(rng: Generator, kind: str | None, overlap: str, *, by_token: bool) -> Case:
    given: Values = {}
    words = [str(word) for word in rng.choice(WORDS, int(rng.integers(0, 6)))]
    gaps = [str(gap) for gap in rng.choice([" ", "", "  "], len(words))]
    text = None if by_token else "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    n = len(words) if text is None else len(text)
    spans: list[Candidate] = []
    for _ in range(int(rng.integers(0, 8)) if n else 0):
        start = int(rng.integers(0, n))
        end = min(n, start + int(rng.integers(1, 4 if by_token else 7)))
        score = -math.inf if rng.random() < 0.05 else float(rng.integers(-4, 5)) / 2
        spans.append((start, end, str(rng.choice(NAMES)), score))
    rules, share = list[Rule](), float(rng.choice([0.0, 0.5, 1.0]))
    for k in range(int(rng.integers(1, 4))):
        rule = _rule(rng, n, given, kind if k == 0 else None)
        rules.append(random_soft(rng, rule) if rng.random() < share else rule)
    case = Case(spans, rules, given, overlap, text, words if text is None else None)
    for column in sorted({column for rule in rules for place in rule.places() for column in place.columns}):
        given[column] = [str(word) for word in rng.choice(WORDS, len(case.tokens_at()))]  # one per token
    given.pop("tokens", None)
    return case


def _rule(rng: Generator, n: int, given: Values, kind: str | None) -> Rule:
    while True:
        before = dict(given)
        rule, _ = random_rule(rng, LABELS, n, given, 1, kind)
        if not _limits_outside(rule, given) and "same label for equal" not in str(rule):
            return rule
        given.clear()
        given.update(before)


def _limits_outside(value: Any, given: Values) -> bool:
    """Is it, or a part of it, about the length of what is outside? That is refused."""
    if isinstance(value, Length):
        return any(0 in ids for ids in value.of.resolve(LABELS, given))
    return isinstance(value, Rule) and any(_limits_outside(getattr(value, f.name), given) for f in fields(value))
