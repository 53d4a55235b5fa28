"""A small demonstration: semantic roles of one sentence, without and with rules (after Roth & Yih 2005).

    I left my pearls to my daughter-in-law in my will .
    A0     A1-------- A2------------------ AM-LOC----

The scores are what a local classifier might say: mostly right, sure of some mistakes, and blind to the whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bridle.decode import Decoder
from bridle.explain import Explanation
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules.text import parse

TOKENS = ("I", "left", "my", "pearls", "to", "my", "daughter-in-law", "in", "my", "will", ".")
LABELS = Labels(["O", "A0", "A1", "A2", "A3", "AM-LOC"], scheme="IO")
GIVEN: Mapping[str, Any] = {
    "verb": 1,
    "candidates": [(0, 1), (2, 4), (4, 7), (7, 10)],  # what a parser proposes as arguments, ends not included
    "frame": ["A0", "A1", "A2"],  # leave.02 "give": the giver, the thing given, who gets it
}
RULES = {
    "no duplicates of A0, A1, A2, A3": "each argument at most once",
    "same label over given candidates": "a candidate is one argument or none",
    "at least 1 segment of A0, A1, A2, A3": "a verb has an argument",
    "label at given verb is O": "the verb is no argument of itself",
    "allow O, AM-LOC, given frame": "only arguments of the verb's frame",
}
SCORES = [
    # O    A0    A1    A2    A3    AM-LOC
    [0.06, 0.78, 0.09, 0.03, 0.02, 0.02],  # I
    [0.38, 0.02, 0.52, 0.04, 0.03, 0.01],  # left              taken for an argument
    [0.16, 0.07, 0.61, 0.12, 0.02, 0.02],  # my
    [0.09, 0.05, 0.72, 0.10, 0.03, 0.01],  # pearls
    [0.22, 0.01, 0.07, 0.55, 0.09, 0.06],  # to
    [0.13, 0.06, 0.42, 0.35, 0.02, 0.02],  # my                cuts the candidate
    [0.06, 0.06, 0.36, 0.48, 0.02, 0.02],  # daughter-in-law
    [0.18, 0.01, 0.11, 0.03, 0.40, 0.27],  # in                not in the frame of the verb
    [0.28, 0.01, 0.32, 0.01, 0.19, 0.19],  # my                cuts the candidate; a second A1
    [0.08, 0.02, 0.45, 0.02, 0.22, 0.21],  # will
    [0.97, 0.00, 0.01, 0.01, 0.00, 0.01],  # .
]  # fmt: skip


@dataclass(frozen=True)
class Story:
    """What the demonstration found."""

    explanation: Explanation
    engine: str
    why: str
    microseconds: float  # per sentence, when many are decoded at once on one thread
    copies: int


def lattice() -> Lattice:
    """Log-probabilities; what the classifier never saw is impossible."""
    with np.errstate(divide="ignore"):
        return Lattice(np.log(np.array(SCORES)))


def tell(copies: int = 2000) -> Story:
    """Decode the sentence with and without the rules, explain, and measure."""
    decoder = Decoder(LABELS, [parse(text) for text in RULES])
    scores = lattice()
    many, givens = [scores] * copies, [GIVEN] * copies
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        decoder.decode_batch(many, givens, threads=1)
        seconds.append(time.perf_counter() - begun)
    return Story(
        decoder.explain(scores, GIVEN), decoder.plan.engine, decoder.plan.why, 1e6 * min(seconds) / copies, copies
    )


def show(story: Story, console: Console) -> None:
    """Print the story."""
    plain, best = story.explanation.plain, story.explanation.best
    console.print(Text("Semantic roles of one sentence, without and with rules", style="bold"))
    console.print("Who did what to whom: A0 the giver, A1 the thing given, A2 who gets it, AM-LOC where.\n")
    console.print(_labellings(story))
    console.print("\nThe rules. Broken: by the labels without rules. Price: what the score would gain without it.\n")
    console.print(_rules(story))
    proof = "proved optimal" if best.optimal else "not proved optimal"
    for line in (
        "",
        f"score   {best.score:.4f} with rules, {plain.score:.4f} without: they cost {story.explanation.cost:.4f}",
        f"bound   {best.bound:.4f}: {proof}",
        f"engine  {story.engine} ({story.why})",
        f"time    {story.microseconds:.1f} microseconds per sentence ({story.copies:,} copies, one thread)",
    ):
        console.print(line, highlight=False)


def _labellings(story: Story) -> Table:
    explanation = story.explanation
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for head in ("token", "without rules", "with rules", "changed"):
        table.add_column(head)
    for t, (token, before, after) in enumerate(
        zip(TOKENS, explanation.plain.labels, explanation.best.labels, strict=True)
    ):
        changed = t in explanation.changed
        verb = " (the verb)" if t == GIVEN["verb"] else ""
        what = f"{before} -> {after}" if changed else ""
        colours = ("red", "green") if changed else ("", "")
        table.add_row(Text(token + verb), _label(before, colours[0]), _label(after, colours[1]), what)
    return table


def _label(name: str, style: str) -> Text:
    return Text("." if name == LABELS.outside else name, style=style or ("dim" if name == LABELS.outside else ""))


def _rules(story: Story) -> Table:
    bites = {str(bite.rule): bite for bite in story.explanation.bites}
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("rule", no_wrap=True)
    table.add_column("that is", no_wrap=True)
    table.add_column("broken", justify="right")
    table.add_column("price", justify="right")
    for text, meaning in sorted(RULES.items(), key=lambda item: -bites[item[0]].price if item[0] in bites else 1.0):
        bite = bites.get(text)
        broken = f"{bite.broken_by_plain}x" if bite is not None and bite.broken_by_plain else ""
        price = f"{bite.price:.4f}" if bite is not None else ""
        table.add_row(Text(text), meaning, broken, price, style="" if bite is not None else "dim")
    return table
