"""What there is to say about an explanation, as rows of plain values that a terminal, a page or JSON can hold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bridle.decoding.result import Decoding
from bridle.errors import LabelError, shown
from bridle.explain.explanation import LEAST, Explanation, RuleEffect
from bridle.explain.impact import Impact, RuleImpact
from bridle.lattice import Scores
from bridle.report.trellis import Note, Trellis
from bridle.rules.base import Soft

IMPACT_HEADS = ("broken", "changed", "helped", "hurt", "tokens", "price", "charged", "rule")
MOST = 12  # stretches, alternatives' differences, positions that are told one by one
PRICE = "Price: how much the score would rise without this rule, the others kept. Prices do not have to add up."


class ChangedSpan(NamedTuple):
    """Neighbouring tokens whose labels the rules changed."""

    start: int
    end: int  # one past the last
    text: str
    before: str  # labels without rules
    after: str  # labels with rules
    rules: str  # numbers, from 1, of the rules that bit there


def number(value: float) -> str:
    """A score with four digits behind the point."""
    return f"{value:.4f}".replace("-0.0000", "0.0000")


def price(effect: RuleEffect) -> str:
    """The price of a rule; if a limit was reached before its proof, about what, or that nobody knows."""
    if effect.proved:
        return number(effect.price)
    return f"about {number(effect.price)}" if effect.price > LEAST else "?"


def together(told: Explanation, effect: RuleEffect) -> str:
    """Which other rules ask for the same, so that to leave out this one alone changes nothing."""
    if effect.price > LEAST or not effect.proved:
        return ""
    twins = [k for k, other in enumerate(told.effects, start=1) if other is not effect and {*other.at} & {*effect.at}]
    return f"together with {', '.join(map(str, twins))}" if twins else ""


def stretches(at: Sequence[int]) -> list[tuple[int, int]]:
    """Positions as stretches of neighbours, the end one past the last.

    >>> stretches([1, 2, 5])
    [(1, 3), (5, 6)]
    """
    cuts = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(at)) if b != a + 1), len(at)]
    return [(at[a], at[b - 1] + 1) for a, b in pairwise(cuts) if b > a]


def places(at: Sequence[int]) -> str:
    """Positions as text: 1-2, 5."""
    told = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in stretches(at)]
    return ", ".join([*told[:MOST], *(["..."] if len(told) > MOST else [])])


def folded(labels: Sequence[str]) -> str:
    """Labels as text, repeated ones once: A1 A1 A1 -> A1 x3."""
    cuts = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(labels)) if a != b), len(labels)]
    return " ".join(labels[a] if b == a + 1 else f"{labels[a]} x{b - a}" for a, b in pairwise(cuts) if b > a)


def changed_spans(told: Explanation, tokens: Sequence[str]) -> list[ChangedSpan]:
    """Where the labelling with rules differs from the one without."""
    found = stretches(told.changed)
    starts = [a for a, _ in found]
    bit: list[dict[str, None]] = [{} for _ in found]  # in order
    for k, effect in enumerate(told.effects, start=1):
        for t in effect.at:
            at = bisect_right(starts, t) - 1
            if at >= 0 and t < found[at][1]:
                bit[at][str(k)] = None
    return [
        ChangedSpan(
            a,
            b,
            _shortened(tokens[a:b], 18),
            folded(told.plain.labels[a:b]),
            folded(told.best.labels[a:b]),
            ", ".join(rules),
        )
        for (a, b), rules in zip(found, bit, strict=True)
    ]


def difference(best: Decoding, other: Decoding, tokens: Sequence[str]) -> str:
    """What another labelling has instead: 'my pearls' A2 x2 (not A1 x2)."""
    at = [t for t in range(len(best)) if best.ids[t] != other.ids[t]]
    told = [
        f"'{_shortened(tokens[a:b], 7)}' {folded(other.labels[a:b])} (not {folded(best.labels[a:b])})"
        for a, b in stretches(at)
    ]
    more = f"; {len(told) - 4} more places" if len(told) > 4 else ""
    return "; ".join(told[:4]) + more


def _shortened(tokens: Sequence[str], most: int) -> str:
    """Tokens as text; of many, the first and the last."""
    half = most // 2
    return " ".join(tokens if len(tokens) <= most else [*tokens[:half], "...", *tokens[-half:]])


def no_bites(told: Explanation) -> str:
    """What to say if no rule changed the labels."""
    if not told.decoder.rules:
        return "none: there are no rules"
    if told.best.relaxed:
        return "none: these are the labels that the scores alone prefer"
    return "none: the best labels by scores alone obey all rules"


def proof(told: Explanation) -> list[tuple[str, str]]:
    """Score, bound and engine, each with what it means."""
    best, plan = told.best, told.decoder.plan
    cost = f"; the rules cost {number(told.cost)}" if told.decoder.rules else ""
    which = "with as few violations of hard rules" if best.relaxed else "under the rules"
    proved = f"no labelling {which} scores higher: proved optimal"
    held = proved if best.optimal else "not proved: a limit was reached first"
    return [
        ("score", f"{number(best.score)} with rules, {number(told.plain.score)} without{cost}"),
        ("bound", f"{number(best.bound)}: {held}"),
        ("engine", f"{best.engine} ({plan.why})" if best.engine == plan.engine else best.engine),
    ]


def broken(told: Explanation) -> list[tuple[str, int]]:
    """Hard rules that a relaxed labelling breaks, with how often."""
    return [(str(rule), times) for rule, times in told.best.violated if not isinstance(rule, Soft)]


def to_dict(told: Explanation, tokens: Sequence[str], k: int) -> dict[str, Any]:
    """For JSON."""
    return {
        "tokens": list(tokens),
        "plain": told.plain.to_dict(),
        "best": told.best.to_dict(),
        "cost": told.cost,
        "changed": told.changed,
        "effects": [
            {
                "rule": str(b.rule),
                "broken_by_plain": b.broken_by_plain,
                "price": b.price,
                "proved": b.proved,
                "at": list(b.at),
                "without": None if b.without is None else b.without.labels,
            }
            for b in told.effects
        ],
        "charged": [{"rule": str(c.rule), "times": c.times, "cost": c.cost} for c in told.charged],
        "alternatives": [d.to_dict() for d in told.alternatives(k)],
        "alternatives_missing": told.alternatives_missing(k),
        "clash": [str(rule) for rule in told.clash],
        "engine": told.best.engine,
        "why": told.decoder.plan.why,
    }


# ---- of a data set --------------------------------------------------------------------------------------------------


def shares(found: Impact) -> list[str]:
    """What the rules did together, in sentences."""
    read = f"{_many(found.sequences)}, {_many(found.tokens, 'token')}."
    if not found.rules:
        right = [] if found.right is None else [f"Tokens right: {_percent(found.right, found.tokens)}."]
        return [f"{read} Pass --rules FILE to see the effect of rules.", *right]
    changed = sum(c.tokens for c in found.changes)
    told = [
        f"{read} The rules changed {_many(len(found.changes))} "
        f"({_percent(len(found.changes), found.sequences)}) and {_many(changed, 'token')} "
        f"({_percent(changed, found.tokens)})."
    ]
    if found.right is not None and found.right_plain is not None:
        helped, hurt = len(found.helped), len(found.hurt)
        told.append(
            f"Tokens right: {_percent(found.right_plain, found.tokens)} without rules, "
            f"{_percent(found.right, found.tokens)} with them ({found.right - found.right_plain:+,}). "
            f"Helped {_many(helped)}, hurt {hurt:,}, neither {len(found.changes) - helped - hurt:,}."
        )
    if found.relaxed:
        told.append(f"In {_many(len(found.relaxed))} no labelling obeys the hard rules: relaxed.")
    if found.unproved:
        told.append(f"In {_many(len(found.unproved))} a limit was reached before the proof; better labels may exist.")
    if found.unanswered:
        missing = _many(len(found.unanswered))
        told.append(f"Left out: {missing} in which a limit was reached before any labelling was found.")
    return told


def _many(count: int, what: str = "sequence") -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def impact_rows(found: Impact) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table of rules; what nobody knows, and what no rule did, has no column."""
    body = [
        [
            _count(t.broken),
            _count(t.changed),
            _count(t.helped),
            _count(t.hurt),
            f"{t.tokens:+,}" if t.tokens else "",
            _impact_price(t),
            f"{t.charged:,.2f}" if t.charged else "",
            str(t.rule),
        ]
        for t in found.rules
    ]
    kept = [c for c in range(len(IMPACT_HEADS)) if IMPACT_HEADS[c] == "rule" or any(row[c] for row in body)]
    return [IMPACT_HEADS[c] for c in kept], [[row[c] for c in kept] for row in body]


def _impact_price(impact: RuleImpact) -> str:
    if impact.unproved:
        return f"about {impact.price:,.2f}" if impact.price else "?"
    return f"{impact.price:,.2f}" if impact.price else ""


def gained(told: Explanation, gold: Sequence[str]) -> str:
    """Did the rules help?"""
    before, after = (sum(a == b for a, b in zip(d.labels, gold, strict=True)) for d in (told.plain, told.best))
    word = "helped" if after > before else "hurt" if after < before else "made no difference"
    return f"Of {len(gold)} tokens {before} are right without rules and {after} with them: the rules {word}."


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"


def _count(value: int | None) -> str:
    return f"{value:,}" if value else ""


def tokens_of(told: Explanation, tokens: Sequence[str] | None) -> list[str]:
    """The tokens: as passed, as given to the rules, or their positions."""
    n = len(told.best)
    found = tokens if tokens is not None else (told.given or {}).get("tokens")
    if found is None:
        return [str(t) for t in range(n)]
    if isinstance(found, str) or len(found) != n:
        raise LabelError(
            "tokens do not fit the labelling",
            got=shown(found) if isinstance(found, str) else len(found),
            wanted=f"a list of {n} texts",
            cause="Pass one text per position. Do the tokens belong to another sequence?",
        )
    return [str(token) for token in found]


def trellis_of(
    told: Explanation, tokens: Sequence[str] | None = None, *, k: int = 5, gold: Sequence[str] | None = None
) -> Trellis:
    """What there is to draw. k: alternatives whose labels are to be seen."""
    sure = told.probabilities()
    shade = _scaled(np.asarray(told.lattice.unary, dtype=np.float64)) if sure is None else sure
    notes = [
        Note(str(effect.rule), f"{_broken(effect.broken_by_plain)}price {price(effect)}", effect.at)
        for effect in told.effects
    ]
    return Trellis(
        tokens=tokens_of(told, tokens),
        labels=told.decoder.labels,
        shade=shade.tolist(),
        plain=told.plain.ids.tolist(),
        best=told.best.ids.tolist(),
        others=[d.ids.tolist() for d in told.alternatives(k)],
        notes=notes,
        gold=None if gold is None else list(gold),
        tell=partial(_told, told),
        means="how good by its own score" if sure is None else "how probable without rules",
    )


def _broken(times: int) -> str:
    return f"broken {times}x without rules, " if times else ""


def _scaled(unary: Scores) -> Scores:
    """(n, m) from 0 to 1: each position's own scores as probabilities."""
    top = np.max(unary, axis=1, keepdims=True, initial=-np.inf)
    raised = np.exp(unary - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(raised / np.maximum(raised.sum(axis=1, keepdims=True), 1e-300), dtype=np.float64)


def _told(told: Explanation, t: int, y: int) -> str:
    """The text on hover. Without hover, nobody waits for the probabilities under the rules."""
    score, sure = told.lattice.unary[t, y], told.probabilities()
    under = told.probabilities("rules") if told.decoder.rules else None
    parts = [f"score {score:.4f}" if np.isfinite(score) else "impossible"]
    parts += [] if sure is None else [f"{sure[t, y]:.1%} without rules"]
    parts += [] if under is None else [f"{under[t, y]:.1%} with rules"]
    return ", ".join(parts)
