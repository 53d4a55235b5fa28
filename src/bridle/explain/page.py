"""Explanations, and the impact of rules, as pages: one HTML file each, to send around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridle.explain.explanation import Explanation
from bridle.explain.impact import Impact
from bridle.explain.words import broken_hard, gained, impact_rows, number, sections, shares, tokens_of, trellis_of
from bridle.report.page import UNKNOWN, Page, fills
from bridle.report.trellis import Show, draw_trellis, panels

_BLOCKS = 8  # lines of tokens that are shown
_MOST_CHANGES = 100  # places that are listed
_ACROSS = 90.0  # characters; more would not stand below each other


def explanation_page(
    explanation: Explanation,
    tokens: Sequence[str] | None = None,
    *,
    title: str = "Why these labels",
    below: str = "",
    k: int = 5,
    show: Show = "changes",
    gold: Sequence[str] | None = None,
) -> Page:
    """Show labels without and with rules, the trellis, the rules that changed labels, alternatives and the proof."""
    texts = tokens_of(explanation, tokens)
    page = Page(title, below)
    if explanation.best.relaxed:
        page.text("No labelling obeys the hard rules. The labels below break them the fewest times.", "bad")
        page.heading("Rules that contradict each other")
        page.table(["cannot hold together"], [[str(rule)] for rule in explanation.clash])
        page.heading("Hard rules broken by the labels below", 3).table(["rule", "times"], broken_hard(explanation))
    _add_labels(page, explanation, texts, gold)
    page.heading("The trellis")
    numbers = "Numbers are those of the rules below. " if any(effect.at for effect in explanation.effects) else ""
    caption = f"{numbers}Point at a circle for its score and probabilities."
    page.picture(draw_trellis(trellis_of(explanation, texts, k=k, gold=gold), show=show, notes="numbers"), caption)
    for section in sections(explanation, texts, k=k, most=_MOST_CHANGES):
        page.heading(section.title.capitalize())
        if section.rows:
            page.table(section.heads, section.rows).text(section.note, "dim")
        else:
            page.text(f"{section.note.capitalize()}.")
    return page


def _add_labels(page: Page, explanation: Explanation, texts: list[str], gold: Sequence[str] | None) -> None:
    """Show tokens in the colours of their labels; framed: changed, or wrong. Lines without frames are left out."""
    page.heading("The labels")
    changed, colours = explanation.changed, fills(explanation.decoder.labels)
    lines = [("without rules", explanation.plain.labels), ("with rules", explanation.best.labels)]
    lines += [] if gold is None else [("gold", list(gold))]
    used = {name for _, labels in lines for name in labels}
    strange = [name for name in dict.fromkeys(gold or ()) if name not in colours]
    legend = {name: fill for name, fill in colours.items() if name in used}
    page.legend({**legend, **{f"{name} (not a label of the model)": UNKNOWN for name in strange}})
    colours |= dict.fromkeys(strange, UNKNOWN)
    framed = [changed if gold is None else [t for t, y in enumerate(gold) if labels[t] != y] for _, labels in lines]
    blocks = panels([len(text) + 1.5 for text in texts], _ACROSS)
    marked = {t for at in framed for t in at}
    kept = [block for block in blocks if not marked.isdisjoint(block)] or blocks[:1]
    for block in kept[:_BLOCKS]:
        if len(blocks) > 1:
            page.text(f"tokens {block.start} to {block.stop - 1} of {len(texts)}", "dim")
        for (name, labels), at in zip(lines, framed, strict=True):
            part, inside = slice(block.start, block.stop), [t - block.start for t in at if t in block]
            page.tokens(texts[part], labels[part], colours, name=name, wrong=inside)
    meaning = "the rules changed the label" if gold is None else "the label differs from gold"
    rest = "" if len(kept[:_BLOCKS]) == len(blocks) else " Not all lines are shown."
    nothing = "The rules changed no label." if gold is None else "All labels are those of gold."
    page.text((f"Framed: {meaning}." if any(framed) else nothing) + rest, "dim")
    if gold is not None and changed:
        page.text(gained(explanation, gold))


def impact_page(impact: Impact, ids: Sequence[Any], *, title: str, below: str = "", look: str = "") -> Page:
    """Show what the rules did to a data set. look: the command that explains one sequence."""
    page = Page(title, below)
    for line in shares(impact):
        page.text(line)
    if impact.rules:
        page.heading("Rules").table(*impact_rows(impact))
        page.text(
            "Broken: sequences whose labels without rules break it. Changed: sequences whose labels differ because of "
            "it, with all other rules in place. Helped, hurt: sequences with more, or fewer, correct tokens because of "
            "it; tokens: how many. Price: how much the scores would rise without it. Charged: the penalties that it "
            "subtracted.",
            "dim",
        )
    changes = {"Most helped": impact.helped, "Most hurt": impact.hurt, "Most expensive": impact.dearest}
    for name, listed in changes.items():
        if listed:
            rows = [
                [c.sequence, ids[c.sequence], c.tokens, "" if c.gain is None else f"{c.gain:+d}", number(c.cost)]
                for c in listed[:10]
            ]
            page.heading(f"{name} sequences")
            page.table(["sequence", "id", "tokens changed", "tokens right", "cost"], rows)
    for name, numbers in (
        ("No labelling obeys the hard rules", impact.relaxed),
        ("A limit was reached before the proof", impact.unproved),
        ("Left out: a limit was reached before any labelling was found", impact.unanswered),
    ):
        if numbers:
            page.heading(name).table(["sequence", "id"], [[b, ids[b]] for b in numbers[:50]])
    if look:
        page.heading("Explain one sequence").code(look)
    return page
