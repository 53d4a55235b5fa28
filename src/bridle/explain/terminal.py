"""Explanations, and the impact of rules, in a terminal: readable without colour, in 80 columns, and in a pipe.

           He   left   Rome        a number is a percentage: how probable the label is without rules
O           2   [ 38]     1        [ ] the labels with rules
A0       [ 97]              .      ( ) the labels without rules, where they are others
A1              ( 52)  [ 99]
rules              1               numbers of the rules that changed the label
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bridle.explain.explanation import Explanation
from bridle.explain.impact import Impact
from bridle.explain.words import (
    IMPACT_HEADS,
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
from bridle.report.text import visible
from bridle.report.trellis import FAINT, Column, Show, Trellis, columns, left_out, panels, rows, unseen

_LONGEST = 14  # cells of a token, and of a label
_MOST = 20  # places that are listed
_NUMBERS = {"", "price", "broken", "cost", "score", *IMPACT_HEADS[:-1]}  # columns of numbers


def show_explanation(
    told: Explanation,
    tokens: Sequence[str] | None,
    console: Console,
    *,
    name: str = "",
    k: int = 5,
    show: Show = "changes",
    gold: Sequence[str] | None = None,
) -> None:
    """Print the trellis and all that is to be said about it."""
    texts = tokens_of(told, tokens)
    if name:
        _say(console, name, "bold")
    if told.best.relaxed:
        _say(console, "No labelling obeys the hard rules. These contradict each other:", "bold red")
        for rule in told.clash:
            _say(console, f"  {rule}")
        _say(console, "The labels below break hard rules the fewest times:")
        for rule_text, times in broken(told):
            _say(console, f"  {times}x  {rule_text}")
    trellis = trellis_of(told, texts, k=k, gold=gold)
    _trellis(trellis, console, show)
    if gold is not None and told.changed:
        _say(console, gained(told, gold))
    found = changed_spans(told, texts)
    if found:
        _title(console, "where they differ")
        table = _table("tokens", "text", "without rules", "with rules", "rules")
        for p in found[:_MOST]:
            table.add_row(
                places(range(p.start, p.end)), _text(p.text), _text(p.before, "red"), _text(p.after, "green"), p.rules
            )
        console.print(table)
        if len(found) > _MOST:
            _say(console, f"and {len(found) - _MOST} more places")
    _rules(told, console)
    _alternatives(told, texts, console, k)
    _title(console, "proof")
    for word, text in proof(told):
        _say(console, f"{word:<7} {text}")


def _rules(told: Explanation, console: Console) -> None:
    _title(console, "rules that changed labels")
    if told.effects:
        table = _table("", "price", "broken", "rule")
        for n, effect in enumerate(told.effects, start=1):
            times = f"{effect.broken_by_plain}x" if effect.broken_by_plain else ""
            shared = f"  ({twins})" if (twins := together(told, effect)) else ""
            table.add_row(str(n), price(effect), times, _text(f"{effect.rule}{shared}"))
        console.print(table)
        _say(console, PRICE, "dim")
    else:
        _say(console, no_bites(told))
    if told.charged:
        _title(console, "penalties of soft rules")
        table = _table("cost", "broken", "rule")
        for charge in told.charged:
            table.add_row(number(charge.cost), f"{charge.times}x", _text(str(charge.rule)))
        console.print(table)


def _alternatives(told: Explanation, texts: list[str], console: Console, k: int) -> None:
    others, missing = told.alternatives(k), told.alternatives_missing(k) if k else ""
    if others or missing:
        _title(console, "next best under the rules")
    if others:
        table = _table("score", "instead")
        for d in others:
            table.add_row(number(d.score - told.best.score), _text(difference(told.best, d, texts)))
        console.print(table)
    if missing:
        _say(console, missing)


def _text(text: str, style: str = "") -> Text:
    """What came from users must not steer the terminal."""
    return Text(visible(text), style)


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(_text(text, style), highlight=False)


def _title(console: Console, text: str) -> None:
    console.print()
    _say(console, text, "bold")


def _table(*heads: str, gap: int = 2) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0))
    for head in heads:
        right = head in _NUMBERS
        table.add_column(head, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return table


# ---- the grid -------------------------------------------------------------------------------------------------------


def _trellis(trellis: Trellis, console: Console, show: Show) -> None:
    chosen = columns(trellis, show)
    if not chosen:
        _say(console, "no tokens", "dim")
        return
    margin = max(cell_len(_fit(name)) for name in (*trellis.labels, "rules")) + 2
    widths = [_width(trellis, c) for c in chosen]
    for some in panels(widths, console.width - margin):
        console.print()
        for line in _block(trellis, [chosen[k] for k in some], [widths[k] for k in some], margin):
            line.rstrip()
            console.print(line, no_wrap=True, overflow="crop", highlight=False)
    told = ["[ ] with rules", *(["( ) without rules"] if trellis.changed else []), f"numbers: {trellis.means}, %"]
    console.print()
    if missing := unseen(trellis, chosen):
        _say(console, missing)
    _say(console, "   ".join(told), "dim")


def _width(trellis: Trellis, column: Column) -> int:
    a, b = column
    return 8 if b - a > 1 else max(cell_len(_fit(trellis.tokens[a])), 5) + 2


def _block(trellis: Trellis, some: list[Column], widths: list[int], margin: int) -> list[Text]:
    """The lines of some columns."""
    shown = [a for a, b in some if b - a == 1]
    labels, changed = rows(trellis, shown), trellis.changed
    head = Text(" " * margin)
    for (a, b), w in zip(some, widths, strict=True):
        gap = b - a > 1
        text = f"..{b - a}.." if gap else _fit(trellis.tokens[a])
        head.append(_right(text, w), "dim" if gap else "bold yellow" if a in changed else "bold")
    lines = [head]
    for y in labels:
        line = Text(_left(trellis.labels.names[y], margin))
        for (a, b), w in zip(some, widths, strict=True):
            text, style = ("", "") if b - a > 1 else _cell(trellis, a, y)
            line.append(_right(text, w), style)
        lines.append(line)
    if trellis.gold is not None:
        lines.append(_foot("gold", {t: trellis.gold[t] for t in shown}, some, widths, margin))
    notes = {t: ",".join(map(str, trellis.notes_at(t))) or "*" for t in shown if t in changed or trellis.notes_at(t)}
    if notes:
        lines.append(_foot("rules", notes, some, widths, margin))
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


def _foot(name: str, texts: dict[int, str], some: list[Column], widths: list[int], margin: int) -> Text:
    line = Text(_left(name, margin), "dim")
    for (a, _), w in zip(some, widths, strict=True):
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


def show_impact(found: Impact, ids: Sequence[Any], console: Console, *, look: str = "") -> None:
    """Print what the rules did to a data set. look: how to look at one sequence."""
    for line in shares(found):
        _say(console, line)
    if found.rules:
        heads, body = impact_rows(found)
        _title(console, "rules")
        table = _table(*heads, gap=1)
        for row in body:
            table.add_row(*map(_text, row))
        console.print(table)
    told = [
        ("most helped", [f"{ids[c.sequence]} ({c.gain:+d})" for c in found.helped]),
        ("most hurt", [f"{ids[c.sequence]} ({c.gain:+d})" for c in found.hurt]),
        ("most expensive", [f"{ids[c.sequence]} ({number(c.cost)})" for c in found.dearest]),
        ("infeasible", [str(ids[b]) for b in found.relaxed]),
        ("not proved", [str(ids[b]) for b in found.unproved]),
        ("left out", [str(ids[b]) for b in found.unanswered]),
    ]
    if any(names for _, names in told):
        _title(console, "sequences")
        table = Table.grid(padding=(0, 2, 0, 0))
        for what, names in told:
            if names:
                table.add_row(what, _text(", ".join(names[:5]) + (", ..." if len(names) > 5 else "")))
        console.print(table)
    if look:
        console.print()
        console.print(_text(f"explain one sequence: {look}", "dim"), soft_wrap=True)  # to be copied as a whole
