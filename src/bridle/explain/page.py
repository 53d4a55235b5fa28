"""Explanations, and the impact of rules, as pages: one HTML file each, to send around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridle.explain.explanation import Explanation
from bridle.explain.impact import Impact
from bridle.explain.words import (
    PRICE,
    broken,
    changed_spans,
    difference,
    gained,
    impact_rows,
    no_bites,
    number,
    places,
    price,
    proof,
    shares,
    together,
    tokens_of,
    trellis_of,
)
from bridle.report.page import UNKNOWN, Page, fills
from bridle.report.trellis import Show, draw_trellis, panels

_BLOCKS = 8  # lines of tokens that are shown
_MOST_CHANGES = 100  # places that are listed
_ACROSS = 90.0  # characters; more would not stand below each other


def explanation_page(
    told: Explanation,
    tokens: Sequence[str] | None = None,
    *,
    title: str = "Why these labels",
    below: str = "",
    k: int = 5,
    show: Show = "changes",
    gold: Sequence[str] | None = None,
) -> Page:
    """Labels without and with rules, the trellis, the rules that changed labels, the alternatives, the proof."""
    texts = tokens_of(told, tokens)
    page = Page(title, below)
    if told.best.relaxed:
        page.text("No labelling obeys the hard rules. The labels below break them the fewest times.", "bad")
        page.heading("Rules that contradict each other")
        page.table(["cannot hold together"], [[str(rule)] for rule in told.clash])
        page.heading("Hard rules broken by the labels below", 3).table(["rule", "times"], broken(told))
    _labels(page, told, texts, gold)
    page.heading("The trellis")
    numbers = "Numbers are those of the rules below. " if any(effect.at for effect in told.effects) else ""
    caption = f"{numbers}Point at a circle for its score and probabilities."
    page.picture(draw_trellis(trellis_of(told, texts, k=k, gold=gold), show=show, notes="numbers"), caption)
    page.heading("Rules that changed labels")
    if told.effects:
        page.table(
            ["", "rule", "price", "broken without rules", "changed tokens"],
            [
                [
                    n,
                    effect.rule,
                    price(effect),
                    f"{effect.broken_by_plain}x" if effect.broken_by_plain else "",
                    ", ".join(filter(None, (places(effect.at), together(told, effect)))),
                ]
                for n, effect in enumerate(told.effects, start=1)
            ],
        )
        page.text(PRICE, "dim")
    else:
        page.text(no_bites(told).capitalize() + ".")
    found = changed_spans(told, texts)
    if found:
        page.heading("Where the labels differ")
        page.table(
            ["tokens", "text", "without rules", "with rules", "rules"],
            [[places(range(p.start, p.end)), p.text, p.before, p.after, p.rules] for p in found[:_MOST_CHANGES]],
        )
        if len(found) > _MOST_CHANGES:
            page.text(f"and {len(found) - _MOST_CHANGES:,} more places", "dim")
    if told.charged:
        page.heading("Penalties of soft rules")
        page.table(["rule", "broken", "cost"], [[c.rule, f"{c.times}x", number(c.cost)] for c in told.charged])
    others, missing = told.alternatives(k), told.alternatives_missing(k) if k else ""
    if others or missing:
        page.heading("The next best labellings under the rules")
    if missing:
        page.text(missing.capitalize() + ".")
    if others:
        rows = [[number(d.score - told.best.score), difference(told.best, d, texts)] for d in others]
        page.table(["score", "instead"], rows)
    page.heading("Proof").table(["", ""], proof(told))
    return page


def _labels(page: Page, told: Explanation, texts: list[str], gold: Sequence[str] | None) -> None:
    """The tokens in the colours of their labels; framed: what changed, or what is wrong. Other lines are left out."""
    page.heading("The labels")
    changed, colours = told.changed, fills(told.decoder.labels)
    lines = [("without rules", told.plain.labels), ("with rules", told.best.labels)]
    lines += [] if gold is None else [("gold", list(gold))]
    used = {name for _, labels in lines for name in labels}
    strange = [name for name in dict.fromkeys(gold or ()) if name not in colours]
    legend = {name: fill for name, fill in colours.items() if name in used}
    page.legend({**legend, **{f"{name} (not a label of the model)": UNKNOWN for name in strange}})
    colours |= dict.fromkeys(strange, UNKNOWN)
    framed = [changed if gold is None else [t for t, y in enumerate(gold) if labels[t] != y] for _, labels in lines]
    blocks = panels([len(text) + 1.5 for text in texts], _ACROSS)
    marked = {t for at in framed for t in at}
    kept = [some for some in blocks if not marked.isdisjoint(some)] or blocks[:1]
    for some in kept[:_BLOCKS]:
        if len(blocks) > 1:
            page.text(f"tokens {some.start} to {some.stop - 1} of {len(texts)}", "dim")
        for (name, labels), at in zip(lines, framed, strict=True):
            part, inside = slice(some.start, some.stop), [t - some.start for t in at if t in some]
            page.tokens(texts[part], labels[part], colours, name=name, wrong=inside)
    what = "the rules changed the label" if gold is None else "the label differs from gold"
    rest = "" if len(kept[:_BLOCKS]) == len(blocks) else " Not all lines are shown."
    nothing = "The rules changed no label." if gold is None else "All labels are those of gold."
    page.text((f"Framed: {what}." if any(framed) else nothing) + rest, "dim")
    if gold is not None and changed:
        page.text(gained(told, gold))


def impact_page(found: Impact, ids: Sequence[Any], *, title: str, below: str = "", look: str = "") -> Page:
    """What the rules did to a data set. look: how to look at one sequence."""
    page = Page(title, below)
    for line in shares(found):
        page.text(line)
    if found.rules:
        page.heading("Rules").table(*impact_rows(found))
        page.text(
            "Broken: sequences whose labels without rules break it. Changed: sequences whose labels differ because of "
            "it, with all other rules in place. Helped, hurt: sequences with more, or fewer, correct tokens because of "
            "it; tokens: how many. Price: how much the scores would rise without it. Charged: the penalties that it "
            "subtracted.",
            "dim",
        )
    for name, changes in (("Most helped", found.helped), ("Most hurt", found.hurt), ("Most expensive", found.dearest)):
        if changes:
            page.heading(f"{name} sequences")
            page.table(
                ["sequence", "id", "tokens changed", "tokens right", "cost"],
                [
                    [c.sequence, ids[c.sequence], c.tokens, "" if c.gain is None else f"{c.gain:+d}", number(c.cost)]
                    for c in changes[:10]
                ],
            )
    for name, some in (
        ("No labelling obeys the hard rules", found.relaxed),
        ("A limit was reached before the proof", found.unproved),
        ("Left out: a limit was reached before any labelling was found", found.unanswered),
    ):
        if some:
            page.heading(name).table(["sequence", "id"], [[b, ids[b]] for b in some[:50]])
    if look:
        page.heading("Explain one sequence").code(look)
    return page
