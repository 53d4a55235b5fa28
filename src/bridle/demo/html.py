"""The story as a page that opens without a network."""

from __future__ import annotations

from bridle.demo.experiment import UNSEEN, Story
from bridle.demo.words import HEADS, cells, head
from bridle.report.page import Page, fills


def page(story: Story) -> str:
    """The HTML file."""
    made = Page("References in styles that the tagger has never seen", head(story))
    ways = story.ways
    best = max(range(len(ways)), key=lambda k: ways[k].rate.accuracy)
    made.heading("Without and with rules")
    made.table(HEADS, [cells(way.name, way.rate, way.per_second) for way in ways], best=best)
    made.text(
        "The same scores three times. Plain Viterbi takes the best path; the others take the best one under their "
        "rules (soft ones may be broken at a price) and prove it. Break a rule: a hard one of the written.",
        "dim",
    )
    made.heading("Style by style, tokens right", 3)
    rows = [[way.name, *(f"{100 * way.by_style[style].accuracy:.1f} %" for style in UNSEEN)] for way in ways]
    made.table(["", *UNSEEN], rows)
    made.heading("Before and after")
    colours = fills(["O", "AUTHOR", "TITLE", "VENUE", "VOLUME", "PAGES", "PUBLISHER", "DATE"])
    made.legend(colours)
    for change in story.changes:
        made.heading(str(change.example.id), 3)
        made.text("Plain Viterbi breaks: " + "; ".join(change.broken), "bad")
        tokens, gold = change.example.tokens, change.example.labels or ()
        for name, labels in (("plain Viterbi", change.before), ("with rules", change.after)):
            wrong = [t for t, (a, b) in enumerate(zip(labels, gold, strict=True)) if a != b]
            made.tokens(tokens, labels, colours, name=name, wrong=wrong)
    made.text("Framed: a wrong label.", "dim")
    made.heading("The written rules").code(story.written)
    learned = next(way.rules for way in ways if way.name == "learned rules")
    made.heading("The learned rules").text("From the training references alone, with what breaking them costs.", "dim")
    return made.code("\n".join(map(str, learned))).html()
