"""Explanations and the impact of rules as rows of plain values, for terminals, pages, pictures and JSON."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
_PRICE = "Price: how much the score would rise without this rule, the others kept. Prices do not have to add up."
_MOST = 12  # stretches of positions in a cell
_PLACES = 4  # places in which an alternative differs


class ChangedSpan(NamedTuple):
    """Neighbouring tokens whose labels the rules changed."""

    start: int
    end: int  # one past the last
    text: str
    before: str  # labels without rules
    after: str  # labels with rules
    rules: str  # numbers, from 1, of the rules that changed labels there


class Section(NamedTuple):
    """A titled table with a note below it, or the note alone."""

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""


def sections(explanation: Explanation, tokens: Sequence[str], *, k: int, most: int) -> Iterator[Section]:
    """Yield all that is said below the trellis. k: alternatives; most: places that are listed."""
    spans = changed_spans(explanation, tokens)
    if spans:
        rows = [[places(range(s.start, s.end)), s.text, s.before, s.after, s.rules] for s in spans[:most]]
        more = f"and {len(spans) - most:,} more places" if len(spans) > most else ""
        yield Section("where the labels differ", ["tokens", "text", "without rules", "with rules", "rules"], rows, more)
    effects = [
        [str(n), price(effect), _times(effect.broken_by_plain), str(effect.rule), _where(explanation, effect)]
        for n, effect in enumerate(explanation.effects, start=1)
    ]
    note = _PRICE if effects else _no_effects(explanation)
    yield Section("rules that changed labels", ["", "price", "broken", "rule", "changed tokens"], effects, note)
    if explanation.charged:
        rows = [[number(charge.cost), _times(charge.times), str(charge.rule)] for charge in explanation.charged]
        yield Section("penalties of soft rules", ["cost", "broken", "rule"], rows)
    others, missing = explanation.alternatives(k), explanation.alternatives_missing(k) if k else ""
    if others or missing:
        best = explanation.best
        rows = [[number(d.score - best.score), difference(best, d, tokens)] for d in others]
        yield Section("next best under the rules", ["score", "instead"], rows, missing)
    yield Section("proof", ["", ""], list(map(list, _proof(explanation))))


def number(value: float) -> str:
    """Format a score with four digits behind the point."""
    return f"{value:.4f}".replace("-0.0000", "0.0000")


def price(effect: RuleEffect) -> str:
    """Format the price of a rule: "about" or "?" if a limit was reached before its proof."""
    if effect.proved:
        return number(effect.price)
    return f"about {number(effect.price)}" if effect.price > LEAST else "?"


def _times(count: int) -> str:
    return f"{count}x" if count else ""


def together(explanation: Explanation, effect: RuleEffect) -> str:
    """Name the rules that require the same, so that leaving out this rule alone changes nothing."""
    if effect.price > LEAST or not effect.proved:
        return ""
    others = enumerate(explanation.effects, start=1)
    twins = [k for k, other in others if other is not effect and {*other.at} & {*effect.at}]
    return f"together with {', '.join(map(str, twins))}" if twins else ""


def _where(explanation: Explanation, effect: RuleEffect) -> str:
    return ", ".join(filter(None, (places(effect.at), together(explanation, effect))))


def stretches(at: Sequence[int]) -> list[tuple[int, int]]:
    """Group positions into stretches of neighbours, the end one past the last.

    >>> stretches([1, 2, 5])
    [(1, 3), (5, 6)]
    """
    cuts = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(at)) if b != a + 1), len(at)]
    return [(at[a], at[b - 1] + 1) for a, b in pairwise(cuts) if b > a]


def places(at: Sequence[int]) -> str:
    """Format positions: 1-2, 5."""
    texts = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in stretches(at)]
    return ", ".join([*texts[:_MOST], *(["..."] if len(texts) > _MOST else [])])


def folded(labels: Sequence[str]) -> str:
    """Format labels, repeated ones once: A1 A1 A1 -> A1 x3."""
    cuts = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(labels)) if a != b), len(labels)]
    return " ".join(labels[a] if b == a + 1 else f"{labels[a]} x{b - a}" for a, b in pairwise(cuts) if b > a)


def changed_spans(explanation: Explanation, tokens: Sequence[str]) -> list[ChangedSpan]:
    """Return the places where the labelling with rules differs from the one without."""
    spans = stretches(explanation.changed)
    starts = [a for a, _ in spans]
    rules: list[dict[str, None]] = [{} for _ in spans]  # in order
    for k, effect in enumerate(explanation.effects, start=1):
        for t in effect.at:
            at = bisect_right(starts, t) - 1
            if at >= 0 and t < spans[at][1]:
                rules[at][str(k)] = None
    before, after = explanation.plain.labels, explanation.best.labels
    return [
        ChangedSpan(a, b, _shortened(tokens[a:b], 18), folded(before[a:b]), folded(after[a:b]), ", ".join(numbers))
        for (a, b), numbers in zip(spans, rules, strict=True)
    ]


def difference(best: Decoding, other: Decoding, tokens: Sequence[str]) -> str:
    """Format the labels of another labelling where it differs: 'my pearls' A2 x2 (not A1 x2)."""
    at = [t for t in range(len(best)) if best.ids[t] != other.ids[t]]
    texts = [
        f"'{_shortened(tokens[a:b], 7)}' {folded(other.labels[a:b])} (not {folded(best.labels[a:b])})"
        for a, b in stretches(at)
    ]
    more = f"; {len(texts) - _PLACES} more places" if len(texts) > _PLACES else ""
    return "; ".join(texts[:_PLACES]) + more


def _shortened(tokens: Sequence[str], most: int) -> str:
    """Join tokens; of many, the first and the last."""
    half = most // 2
    return " ".join(tokens if len(tokens) <= most else [*tokens[:half], "...", *tokens[-half:]])


def _no_effects(explanation: Explanation) -> str:
    if not explanation.decoder.rules:
        return "none: there are no rules"
    if explanation.best.relaxed:
        return "none: these are the labels that the scores alone prefer"
    return "none: the best labels by scores alone obey all rules"


def _proof(explanation: Explanation) -> list[tuple[str, str]]:
    """Return score, bound and engine, each with its meaning."""
    best, plain, plan = explanation.best, explanation.plain, explanation.decoder.plan
    cost = f"; the rules cost {number(explanation.cost)}" if explanation.decoder.rules else ""
    which = "with as few violations of hard rules" if best.relaxed else "under the rules"
    proved = f"no labelling {which} scores higher: proved optimal"
    return [
        ("score", f"{number(best.score)} with rules, {number(plain.score)} without{cost}"),
        ("bound", f"{number(best.bound)}: {proved if best.optimal else 'not proved: a limit was reached first'}"),
        ("engine", f"{best.engine} ({plan.why})" if best.engine == plan.engine else best.engine),
    ]


def broken_hard(explanation: Explanation) -> list[tuple[str, str]]:
    """Return the hard rules that a relaxed labelling breaks, with how often."""
    violated = explanation.best.violated
    return [(str(rule), _times(count)) for rule, count in violated if not isinstance(rule, Soft)]


def gained(explanation: Explanation, gold: Sequence[str]) -> str:
    """Say whether the rules helped."""
    labellings = explanation.plain.labels, explanation.best.labels
    before, after = (sum(a == b for a, b in zip(labels, gold, strict=True)) for labels in labellings)
    word = "helped" if after > before else "hurt" if after < before else "made no difference"
    return f"Of {len(gold)} tokens {before} are right without rules and {after} with them: the rules {word}."


def to_dict(explanation: Explanation, tokens: Sequence[str], k: int) -> dict[str, Any]:
    """Convert to what JSON can hold."""
    return {
        "tokens": list(tokens),
        "plain": explanation.plain.to_dict(),
        "best": explanation.best.to_dict(),
        "cost": explanation.cost,
        "changed": explanation.changed,
        "effects": [
            {
                "rule": str(effect.rule),
                "broken_by_plain": effect.broken_by_plain,
                "price": effect.price,
                "proved": effect.proved,
                "at": list(effect.at),
                "without": None if effect.without is None else effect.without.labels,
            }
            for effect in explanation.effects
        ],
        "charged": [{"rule": str(c.rule), "times": c.times, "cost": c.cost} for c in explanation.charged],
        "alternatives": [d.to_dict() for d in explanation.alternatives(k)],
        "alternatives_missing": explanation.alternatives_missing(k),
        "clash": [str(rule) for rule in explanation.clash],
        "engine": explanation.best.engine,
        "why": explanation.decoder.plan.why,
    }


# ---- the trellis ----------------------------------------------------------------------------------------------------


def tokens_of(explanation: Explanation, tokens: Sequence[str] | None) -> list[str]:
    """Return the tokens: as passed, as given to the rules, or their positions."""
    n = len(explanation.best)
    texts = tokens if tokens is not None else (explanation.given or {}).get("tokens")
    if texts is None:
        return [str(t) for t in range(n)]
    if isinstance(texts, str) or len(texts) != n:
        raise LabelError(
            "tokens do not fit the labelling",
            got=shown(texts) if isinstance(texts, str) else len(texts),
            wanted=f"a list of {n} texts",
            cause="Pass one text per position. Do the tokens belong to another sequence?",
        )
    return [str(token) for token in texts]


def trellis_of(
    explanation: Explanation, tokens: Sequence[str] | None = None, *, k: int = 5, gold: Sequence[str] | None = None
) -> Trellis:
    """Make the trellis to draw. k: alternatives whose labels are shown."""
    marginals = explanation.probabilities()
    shade = _normalised(np.asarray(explanation.lattice.unary, dtype=np.float64)) if marginals is None else marginals
    notes = []
    for effect in explanation.effects:
        broken = f"broken {effect.broken_by_plain}x without rules, " if effect.broken_by_plain else ""
        notes.append(Note(str(effect.rule), f"{broken}price {price(effect)}", effect.at))
    return Trellis(
        tokens=tokens_of(explanation, tokens),
        labels=explanation.decoder.labels,
        shade=shade.tolist(),
        plain=explanation.plain.ids.tolist(),
        best=explanation.best.ids.tolist(),
        others=[d.ids.tolist() for d in explanation.alternatives(k)],
        notes=notes,
        gold=None if gold is None else list(gold),
        hover_text=partial(_hover_text, explanation),
        size_meaning="how good by its own score" if marginals is None else "how probable without rules",
    )


def _normalised(unary: Scores) -> Scores:
    """(n, m) from 0 to 1: each position's own scores as probabilities."""
    top = np.max(unary, axis=1, keepdims=True, initial=-np.inf)
    raised = np.exp(unary - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(raised / np.maximum(raised.sum(axis=1, keepdims=True), 1e-300), dtype=np.float64)


def _hover_text(explanation: Explanation, t: int, y: int) -> str:
    """Describe label y at position t. Probabilities under the rules are computed only when this is called."""
    score, plain = explanation.lattice.unary[t, y], explanation.probabilities()
    under = explanation.probabilities("rules") if explanation.decoder.rules else None
    parts = [f"score {score:.4f}" if np.isfinite(score) else "impossible"]
    parts += [] if plain is None else [f"{plain[t, y]:.1%} without rules"]
    parts += [] if under is None else [f"{under[t, y]:.1%} with rules"]
    return ", ".join(parts)


# ---- a data set -----------------------------------------------------------------------------------------------------


def shares(impact: Impact) -> list[str]:
    """Say in sentences what the rules did together."""
    size = f"{_many(impact.sequences)}, {_many(impact.tokens, 'token')}."
    if not impact.rules:
        right = [] if impact.right is None else [f"Tokens right: {_percent(impact.right, impact.tokens)}."]
        return [f"{size} Pass --rules FILE to see the effect of rules.", *right]
    changed = sum(change.tokens for change in impact.changes)
    sentences = [
        f"{size} The rules changed {_many(len(impact.changes))} "
        f"({_percent(len(impact.changes), impact.sequences)}) and {_many(changed, 'token')} "
        f"({_percent(changed, impact.tokens)})."
    ]
    if impact.right is not None and impact.right_plain is not None:
        helped, hurt = len(impact.helped), len(impact.hurt)
        sentences.append(
            f"Tokens right: {_percent(impact.right_plain, impact.tokens)} without rules, "
            f"{_percent(impact.right, impact.tokens)} with them ({impact.right - impact.right_plain:+,}). "
            f"Helped {_many(helped)}, hurt {hurt:,}, neither {len(impact.changes) - helped - hurt:,}."
        )
    for numbers, text in (
        (impact.relaxed, "In {} no labelling obeys the hard rules: relaxed."),
        (impact.unproved, "In {} a limit was reached before the proof; better labels may exist."),
        (impact.unanswered, "Left out: {} in which a limit was reached before any labelling was found."),
    ):
        if numbers:
            sentences.append(text.format(_many(len(numbers))))
    return sentences


def _many(count: int, noun: str = "sequence") -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"


def impact_rows(impact: Impact) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the table of rules; columns without a figure are left out."""
    body = [
        [
            *(f"{count:,}" if count else "" for count in (rule.broken, rule.changed, rule.helped, rule.hurt)),
            f"{rule.tokens:+,}" if rule.tokens else "",
            _impact_price(rule),
            f"{rule.charged:,.2f}" if rule.charged else "",
            str(rule.rule),
        ]
        for rule in impact.rules
    ]
    kept = [c for c in range(len(IMPACT_HEADS)) if IMPACT_HEADS[c] == "rule" or any(row[c] for row in body)]
    return [IMPACT_HEADS[c] for c in kept], [[row[c] for c in kept] for row in body]


def _impact_price(rule: RuleImpact) -> str:
    if rule.unproved:
        return f"about {rule.price:,.2f}" if rule.price else "?"
    return f"{rule.price:,.2f}" if rule.price else ""
