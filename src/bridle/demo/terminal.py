"""The story in the terminal: a table, three references before and after, and where the rules come from."""

from __future__ import annotations

from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bridle.data.markup import runs_of
from bridle.demo.experiment import Change, Story
from bridle.demo.words import HEADS, cells, head
from bridle.report.page import fills


def show(story: Story, console: Console) -> None:
    """Print the story."""
    console.print(Text("References in styles that the tagger has never seen", style="bold"))
    console.print(head(story) + "\n", highlight=False)
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for k, name in enumerate(HEADS):
        table.add_column(name, justify="right" if k else "left")
    for way in story.ways:
        table.add_row(*cells(way.name, way.rate, way.per_second))
    console.print(table)
    gain = story.ways[-1].rate.accuracy - story.ways[0].rate.accuracy
    console.print(f"\nWritten rules: {100 * gain:+.1f} points of tokens right over plain Viterbi.\n", highlight=False)
    for change in story.changes:
        _change(change, console)


def _change(change: Change, console: Console) -> None:
    colours = fills(sorted({*change.before, *change.after}))
    console.print(Text(f"{change.example.id}: without rules, it breaks", style="bold"))
    for rule in change.broken:
        console.print(Text(f"  {rule}", style="red"))
    table = Table.grid(padding=(0, 2))
    for name, labels in (("before", change.before), ("after", change.after)):
        line = Text()
        for label, tokens in runs_of(replace(change.example, labels=labels)):
            text = " ".join(tokens)
            if label == "O":
                line.append(f"{text} ", style="dim")
            else:
                line.append(f"[{label} {text}]", style=f"black on {colours[label]}")
                line.append(" ")
        table.add_row(f"  {name}", line)
    console.print(table)
    console.print()
