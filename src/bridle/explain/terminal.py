"""Explanations, and the impact of rules, in a terminal: readable without colour, in 80 columns, and in a pipe.

           He   left   Rome        a number is a percentage: how probable the label is without rules
O           2   [ 38]     1        [ ] the labels with rules
A0       [ 97]              .      ( ) the labels without rules, where they are others
A1              ( 52)  [ 99]
rules              1               numbers of the rules that changed the label
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bridle.explain.explanation import Explanation
from bridle.explain.impact import Impact
from bridle.explain.words import (
    IMPACT_HEADS,
    broken_hard,
    gained,
    impact_rows,
    number,
    sections,
    shares,
    tokens_of,
    trellis_of,
)
from bridle.report.text import visible
from bridle.report.trellis import FAINT, Column, Show, Trellis, columns, left_out, panels, rows, unseen

_LONGEST = 14  # cells of a token, and of a label
_MOST = 20  # places that are listed
_NUMBERS = {"", "price", "broken", "cost", "score", *IMPACT_HEADS[:-1]}  # columns of numbers
_STYLES = {"without rules": "red", "with rules": "green"}


def show_explanation(
    explanation: Explanation,
    tokens: Sequence[str] | None,
    console: Console,
    *,
    name: str = "",
    k: int = 5,
    show: Show = "changes",
    gold: Sequence[str] | None = None,
) -> None:
    """Print the trellis, the rules that changed labels, alternatives and the proof."""
    texts = tokens_of(explanation, tokens)
    if name:
        _print(console, name, "bold")
    if explanation.best.relaxed:
        _print(console, "No labelling obeys the hard rules. These contradict each other:", "bold red")
        for rule in explanation.clash:
            _print(console, f"  {rule}")
        _print(console, "The labels below break hard rules the fewest times:")
        for rule_text, times in broken_hard(explanation):
            _print(console, f"  {times}  {rule_text}")
    _print_trellis(trellis_of(explanation, texts, k=k, gold=gold), console, show)
    if gold is not None and explanation.changed:
        _print(console, gained(explanation, gold))
    for section in sections(explanation, texts, k=k, most=_MOST):
        _print_title(console, section.title)
        if section.rows:
            _print_table(console, section.heads, section.rows)
        if section.note:
            _print(console, section.note, "dim" if section.rows else "")


def _text(text: str, style: str = "") -> Text:
    """Make a text of users that cannot steer the terminal."""
    return Text(visible(text), style)


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(_text(text, style), highlight=False)


def _print_title(console: Console, text: str) -> None:
    console.print()
    _print(console, text, "bold")


def _print_table(console: Console, heads: Sequence[str], rows: Iterable[Sequence[str]], *, gap: int = 2) -> None:
    shown = any(heads)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0), show_header=shown)
    for head in heads:
        right = shown and head in _NUMBERS
        table.add_column(head, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell, _STYLES.get(head, "")) for head, cell in zip(heads, row, strict=True)))
    console.print(table)


# ---- the grid -------------------------------------------------------------------------------------------------------


def _print_trellis(trellis: Trellis, console: Console, show: Show) -> None:
    chosen = columns(trellis, show)
    if not chosen:
        _print(console, "no tokens", "dim")
        return
    margin = max(cell_len(_fit(name)) for name in (*trellis.labels, "rules")) + 2
    widths = [_width(trellis, c) for c in chosen]
    for panel in panels(widths, console.width - margin):
        console.print()
        for line in _block(trellis, [chosen[k] for k in panel], [widths[k] for k in panel], margin):
            line.rstrip()
            console.print(line, no_wrap=True, overflow="crop", highlight=False)
    without = ["( ) without rules"] if trellis.changed else []
    legend = ["[ ] with rules", *without, f"numbers: {trellis.size_meaning}, %"]
    console.print()
    if missing := unseen(trellis, chosen):
        _print(console, missing)
    _print(console, "   ".join(legend), "dim")


def _width(trellis: Trellis, column: Column) -> int:
    a, b = column
    return 8 if b - a > 1 else max(cell_len(_fit(trellis.tokens[a])), 5) + 2


def _block(trellis: Trellis, columns: list[Column], widths: list[int], margin: int) -> list[Text]:
    """The lines of columns columns."""
    shown = [a for a, b in columns if b - a == 1]
    labels, changed = rows(trellis, shown), trellis.changed
    head = Text(" " * margin)
    for (a, b), w in zip(columns, widths, strict=True):
        gap = b - a > 1
        text = f"..{b - a}.." if gap else _fit(trellis.tokens[a])
        head.append(_right(text, w), "dim" if gap else "bold yellow" if a in changed else "bold")
    lines = [head]
    for y in labels:
        line = Text(_left(trellis.labels.names[y], margin))
        for (a, b), w in zip(columns, widths, strict=True):
            text, style = ("", "") if b - a > 1 else _cell(trellis, a, y)
            line.append(_right(text, w), style)
        lines.append(line)
    if trellis.gold is not None:
        lines.append(_foot("gold", {t: trellis.gold[t] for t in shown}, columns, widths, margin))
    notes = {t: ",".join(map(str, trellis.notes_at(t))) or "*" for t in shown if t in changed or trellis.notes_at(t)}
    if notes:
        lines.append(_foot("rules", notes, columns, widths, margin))
    if missing := left_out(trellis, labels):
        lines.append(_text(missing, "dim"))
    return lines


def _cell(trellis: Trellis, t: int, y: int) -> tuple[str, str]:
    share = trellis.shade[t][y]
    percent = f"{100 * share:.0f}"
    parted = trellis.plain[t] != trellis.best[t]
    if trellis.best[t] == y:
        return f"[{percent:>3}]", "bold green" if parted else "bold"
    if trellis.plain[t] == y:
        return f"({percent:>3})", "bold red"
    return (f"{percent} ", "dim") if share >= FAINT else ("", "")


def _foot(name: str, texts: dict[int, str], columns: list[Column], widths: list[int], margin: int) -> Text:
    line = Text(_left(name, margin), "dim")
    for (a, _), w in zip(columns, widths, strict=True):
        line.append(_right(_fit(texts.get(a, ""), w - 1), w))
    return line


def _fit(text: str, most: int = _LONGEST) -> str:
    text = visible(text)
    return text if cell_len(text) <= most else set_cell_size(text, most - 1).rstrip() + "…"


def _left(text: str, width: int) -> str:
    return set_cell_size(_fit(text), width)


def _right(text: str, width: int) -> str:
    return " " * max(width - cell_len(text), 0) + text


# ---- a data set -----------------------------------------------------------------------------------------------------


def show_impact(impact: Impact, ids: Sequence[Any], console: Console, *, look: str = "") -> None:
    """Print what the rules did to a data set. look: the command that explains one sequence."""
    for line in shares(impact):
        _print(console, line)
    if impact.rules:
        _print_title(console, "rules")
        _print_table(console, *impact_rows(impact), gap=1)
    listed = {
        "most helped": [f"{ids[c.sequence]} ({c.gain:+d})" for c in impact.helped],
        "most hurt": [f"{ids[c.sequence]} ({c.gain:+d})" for c in impact.hurt],
        "most expensive": [f"{ids[c.sequence]} ({number(c.cost)})" for c in impact.dearest],
        "infeasible": [str(ids[b]) for b in impact.relaxed],
        "not proved": [str(ids[b]) for b in impact.unproved],
        "left out": [str(ids[b]) for b in impact.unanswered],
    }
    if any(listed.values()):
        _print_title(console, "sequences")
        cells = {title: ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") for title, names in listed.items()}
        _print_table(console, ["", ""], [(title, text) for title, text in cells.items() if text])
    if look:
        console.print()
        console.print(_text(f"explain one sequence: {look}", "dim"), soft_wrap=True)  # to be copied as a whole
