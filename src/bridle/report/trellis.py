"""The trellis as a picture: tokens across, labels down, the best path without rules and the one with them.

    n tokens (t)    m labels (y)    a column is a token or a gap    a panel is a row of columns that fits the width

Long sequences are cut to windows around the places where the paths differ; what is left out is reported.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Literal

from bridle.errors import LabelError
from bridle.labels import Labels
from bridle.report.page import OUTSIDE, fills
from bridle.report.text import clean, cut

Show = Literal["changes", "all"]
WHOLE = 24  # tokens; a sequence that is no longer is shown whole
CONTEXT = 3  # tokens shown on each side of a place where the paths part
MOST = 240  # tokens shown at most, unless all are asked for
ROWS = 12  # labels shown at most
FAINT = 0.01  # labels below this share are not drawn
WORTH = 0.05  # ... and below this one are no reason for a row
_GAP = 3  # tokens; fewer are not worth hiding


@dataclass(frozen=True, slots=True)
class Note:
    """A rule that changed labels: its sentence, what else is to be said of it, and the positions that it changed."""

    text: str
    more: str
    at: tuple[int, ...]


@dataclass(frozen=True)
class Trellis:
    """The contents of a picture."""

    tokens: Sequence[str]  # (n,)
    labels: Labels  # m
    shade: Sequence[Sequence[float]]  # (n, m)  how good each label is, from 0 to 1
    plain: Sequence[int]  # (n,)  the best path without rules
    best: Sequence[int]  # (n,)  the best path with rules
    others: Sequence[Sequence[int]] = ()  # (k, n)  more paths; their labels are shown, but no lines
    notes: Sequence[Note] = ()
    gold: Sequence[str] | None = None  # (n,)
    hover_text: Callable[[int, int], str] | None = None  # the text on hover for position t and label y
    size_meaning: str = "how probable without rules"  # the meaning of the size of a node

    def __post_init__(self) -> None:
        n, m = len(self.tokens), len(self.labels)
        sizes = [len(self.shade), len(self.plain), len(self.best), *map(len, self.others)]
        sizes += [] if self.gold is None else [len(self.gold)]
        if set(sizes) - {n} or {len(row) for row in self.shade} - {m}:
            raise LabelError(
                "the parts of a trellis do not fit",
                got=f"lengths {', '.join(map(str, sizes))}",
                wanted=f"{n} tokens x {m} labels",
                cause="Are tokens and labellings of the same sequence?",
            )

    @cached_property
    def changed(self) -> frozenset[int]:
        """Positions where the paths differ."""
        return frozenset(t for t, (a, b) in enumerate(zip(self.plain, self.best, strict=True)) if a != b)

    @cached_property
    def _notes(self) -> dict[int, list[int]]:
        numbers: dict[int, list[int]] = {}
        for k, note in enumerate(self.notes, start=1):
            for t in note.at:
                numbers.setdefault(t, []).append(k)
        return numbers

    def notes_at(self, t: int) -> list[int]:
        """Return the numbers, from 1, of the notes about a position."""
        return self._notes.get(t, [])


Column = tuple[int, int]  # tokens a .. b-1; more than one: a gap, whose tokens are not shown


def columns(trellis: Trellis, show: Show = "changes") -> list[Column]:
    """Choose the columns: all tokens, or those near the places where the paths differ."""
    n = len(trellis.tokens)
    if show == "all" or n <= WHOLE:
        near = set(range(n))
    elif trellis.changed:
        around = {t for c in trellis.changed for t in range(max(c - CONTEXT, 0), min(c + CONTEXT + 1, n))}
        near = set(sorted(around)[:MOST])
    else:
        near = set(range(WHOLE))
    chosen: list[Column] = []
    for shown, run in groupby(range(n), key=near.__contains__):
        tokens = list(run)
        chosen += [(t, t + 1) for t in tokens] if shown or len(tokens) < _GAP else [(tokens[0], tokens[-1] + 1)]
    return chosen


def unseen(trellis: Trellis, chosen: Iterable[Column]) -> str:
    """Say how many changed tokens have no column; "" if none."""
    count = sum(t in trellis.changed for a, b in chosen if b - a > 1 for t in range(a, b))
    return f"{count:,} more changed tokens are not shown" if count else ""


def panels(widths: Sequence[float], width: float) -> list[range]:
    """Cut columns of these widths into rows no wider than `width`, each with one column at least: few, and even."""
    best = _fill(widths, width)
    low, high = sum(widths) / max(len(best), 1), width
    while len(best) > 1 and high - low > 0.5:  # the narrowest that takes no more rows: no token is left alone
        middle = (low + high) / 2
        narrower = _fill(widths, middle)
        if len(narrower) > len(best):
            low = middle
        else:
            best, high = narrower, middle
    return best


def _fill(widths: Sequence[float], width: float) -> list[range]:
    """Make each row as full as can be."""
    cuts, used = [0], 0.0
    for k, w in enumerate(widths):
        if k > cuts[-1] and used + w > width:
            cuts.append(k)
            used = 0.0
        used += w
    return [range(a, b) for a, b in pairwise([*cuts, len(widths)]) if b > a]


def rows(trellis: Trellis, positions: Iterable[int]) -> list[int]:
    """Choose labels for positions: those on the two paths, in gold, on other paths, then the best of the rest."""
    at = list(positions)
    named = {name: y for y, name in enumerate(trellis.labels)}
    first = [*dict.fromkeys(y for t in at for y in (trellis.best[t], trellis.plain[t]))]
    if trellis.gold is not None:
        first += [named[trellis.gold[t]] for t in at if trellis.gold[t] in named]
    first += [path[t] for path in trellis.others for t in at]
    top = {y: max((trellis.shade[t][y] for t in at), default=0.0) for y in range(len(trellis.labels))}
    first += sorted((y for y in top if top[y] >= WORTH), key=lambda y: (-top[y], y))
    must = len({y for t in at for y in (trellis.best[t], trellis.plain[t])})
    return sorted(list(dict.fromkeys(first))[: max(ROWS, must)])


def left_out(trellis: Trellis, shown: Sequence[int]) -> str:
    """Name the labels that have no row; "" if none."""
    missing = [name for y, name in enumerate(trellis.labels) if y not in shown]
    more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
    return f"not shown: {', '.join(missing[:6])}{more}" if missing else ""


# ---- the picture ----------------------------------------------------------------------------------------------------

_ROW, _HEAD, _NODE, _SIZE = 30.0, 42.0, 11.0, 13.0  # px: height of a row, of the tokens; largest node; text
_LETTER = _SIZE * 0.61  # px, about
_DIAMOND = "l4.5,4.5 -4.5,4.5 -4.5,-4.5z"
_LONGEST = 16  # characters of a token
_STYLE = """
.trellis{--i:#1b1f24;--d:#68707a;--l:#dfe3e8;--p:#ffffff;--b:#2463c9;--n:#c0362c;--w:#fff1cf;--g:#14743a;
 font:13px system-ui,sans-serif;background:var(--p)}
@media (prefers-color-scheme:dark){.trellis{--i:#e6e9ec;--d:#98a2ad;--l:#343b43;--p:#16191d;--b:#7db2ff;--n:#ff8f86;
 --w:#40371c;--g:#7bd69a}}
.trellis text{fill:var(--i)} .trellis .dim{fill:var(--d)} .trellis .small{font-size:11px}
.trellis .mid{text-anchor:middle} .trellis .end{text-anchor:end} .trellis .part{font-weight:600}
.trellis .paper{fill:var(--p)} .trellis .window{fill:var(--w)} .trellis .line{stroke:var(--l);stroke-width:1}
.trellis .best{fill:none;stroke:var(--b);stroke-width:4;stroke-linecap:round;stroke-linejoin:round}
.trellis .plain{fill:none;stroke:var(--n);stroke-width:1.8;stroke-dasharray:5 4}
.trellis .stub{opacity:.4} .trellis circle{stroke:var(--d);stroke-width:.6}
.trellis circle.on{stroke:var(--b);stroke-width:3}
.trellis circle.off{fill:none;stroke:var(--n);stroke-width:1.8;stroke-dasharray:4 3}
.trellis circle.badge{fill:var(--i);stroke:none} .trellis text.badge{fill:var(--p);font-size:10.5px;font-weight:700}
.trellis .gold{fill:var(--g);stroke:var(--p);stroke-width:1}
"""


def draw_trellis(
    trellis: Trellis,
    *,
    show: Show = "changes",
    notes: Literal["list", "numbers"] = "list",
    width: float = 1040.0,
    title: str = "trellis",
) -> str:
    """Draw the trellis as SVG: tokens across, labels down, the best paths without and with rules.

    show: "changes" cuts long sequences to where the paths differ. notes: list the rules below, or only their numbers.
    The picture holds all it needs: no script, no font, nothing fetched; it follows the reader's light or dark mode.
    """
    chosen = columns(trellis, show)
    margin = 38 + max((_wide(name) for name in trellis.labels), default=0.0)
    widths = [_column_width(trellis, c) for c in chosen]
    y, right = 10.0, 560.0
    colours, parts = fills(trellis.labels), list[str]()
    for part in panels(widths, width - margin):
        panel = _Panel(trellis, [chosen[k] for k in part], [widths[k] for k in part], margin, y, colours)
        parts += panel.draw()
        y, right = panel.bottom + 14, max(right, panel.right)
    if not chosen:
        parts.append(f'<text x="12" y="{y + 16:.1f}" class="dim">no tokens</text>')
        y += 30
    if missing := unseen(trellis, chosen):
        parts.append(f'<text x="12" y="{y + 4:.1f}" class="dim">{missing}</text>')
        y += 24
    legend, end = _legend(trellis, y + 12)
    right, y = max(right + 12, end), y + 40
    for number, note in enumerate(trellis.notes if notes == "list" else (), start=1):
        parts += _note(note, number, y, right)
        y += 22
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="trellis" role="img" aria-label="{_safe(title)}" '
        f'viewBox="0 0 {right:.0f} {y:.0f}" width="{right:.0f}" height="{y:.0f}"><style>{_STYLE}</style>'
        f'<rect class="paper" width="{right:.0f}" height="{y:.0f}"/>{"".join([*parts, *legend])}</svg>\n'
    )


class _Panel:
    """Columns side by side, with their own choice of labels."""

    def __init__(
        self,
        trellis: Trellis,
        columns: list[Column],
        widths: list[float],
        left: float,
        top: float,
        colours: dict[str, str],
    ) -> None:
        self.trellis, self.left, self.top, self.colours = trellis, left, top, colours
        self.positions = [a for a, b in columns if b - a == 1]
        self.rows = rows(trellis, self.positions)
        self.x, at = {}, left
        for (a, b), w in zip(columns, widths, strict=True):
            self.x[a] = (at + w / 2, w, b)
            at += w
        self.right = at
        self.grid = top + _HEAD
        self.below = self.grid + _ROW * len(self.rows) + 4
        deepest = max((len(trellis.notes_at(t)) for t in self.positions), default=0)
        self.bottom = self.below + 20.0 * deepest + (16 if left_out(trellis, self.rows) else 0)

    def y(self, label: int) -> float:
        """Return the middle of a row."""
        return self.grid + _ROW * (self.rows.index(label) + 0.5)

    def draw(self) -> Iterator[str]:
        """Yield the elements, those behind first."""
        changed = self.trellis.changed
        for shown, run in groupby(self.x, key=changed.__contains__):
            if shown:  # one band for neighbours, without seams
                band = list(run)
                (first, w, _), (last, v, _) = self.x[band[0]], self.x[band[-1]]
                yield (
                    f'<rect class="window" x="{first - w / 2:.1f}" y="{self.top:.1f}" '
                    f'width="{last + v / 2 - first + w / 2:.1f}" height="{self.below - self.top:.1f}"/>'
                )
        yield from self._names()
        yield from self._heads(changed)
        yield from self._path("best", self.trellis.best)
        yield from self._path("plain", self.trellis.plain, changed)
        for t in self.positions:
            yield from (self._node(t, y) for y in self.rows)
            for k, number in enumerate(self.trellis.notes_at(t)):
                yield from _badge(self.x[t][0], self.below + 11 + 20 * k, number)
        if missing := left_out(self.trellis, self.rows):
            yield f'<text class="dim small" x="12" y="{self.bottom - 4:.1f}">{_safe(missing)}</text>'

    def _names(self) -> Iterator[str]:
        """Yield the labels on the left, each with its colour, and a line along its row."""
        for label in self.rows:
            name, y = self.trellis.labels.names[label], self.y(label)
            fill = self.colours.get(name, OUTSIDE)
            yield f'<line class="line" x1="{self.left:.1f}" x2="{self.right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<rect x="12" y="{y - 5:.1f}" width="10" height="10" rx="2" fill="{fill}"/>'
            yield f'<text x="28" y="{y + 4.5:.1f}">{_safe(name)}</text>'

    def _heads(self, changed: frozenset[int]) -> Iterator[str]:
        """Yield the tokens with their positions; a gap says how many it hides."""
        for a, (x, _, b) in self.x.items():
            if b - a > 1:
                yield f'<text class="dim mid" x="{x:.1f}" y="{self.top + 32:.1f}">⋯</text>'
                yield f'<text class="dim mid small" x="{x:.1f}" y="{self.top + 15:.1f}">{b - a} more</text>'
                continue
            token, kind = self.trellis.tokens[a], "mid part" if a in changed else "mid"
            yield f'<text class="dim mid small" x="{x:.1f}" y="{self.top + 15:.1f}">{a}</text>'
            yield (
                f'<text class="{kind}" x="{x:.1f}" y="{self.top + 32:.1f}">{_safe(cut(token, _LONGEST))}'
                f"<title>{_safe(token)}</title></text>"
            )

    def _path(self, kind: str, path: Sequence[int], only: frozenset[int] | None = None) -> Iterator[str]:
        """Yield lines through neighbours that are shown. only: steps to or from these positions."""
        run: list[int] = []
        for t in [*self.positions, -1]:
            apart = only is not None and run and not {run[-1], t} & only
            if run and (t != run[-1] + 1 or apart):
                yield from self._run(kind, path, run, only)
                run = []
            run.append(t)

    def _run(self, kind: str, path: Sequence[int], run: list[int], only: frozenset[int] | None) -> Iterator[str]:
        """Yield a line that fades out where a neighbour is not shown."""
        points = [(self.x[t][0], self.y(path[t])) for t in run]
        if len(points) > 1:
            yield f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        for (x, y), t, to, there in (
            (points[0], run[0], -1, run[0] > 0),
            (points[-1], run[-1], 1, run[-1] + 1 < len(path)),
        ):
            if there and t + to not in self.positions and (only is None or t in only):
                far = x + to * (self.x[t][1] / 2 + 2)
                yield f'<polyline class="{kind} stub" points="{x:.1f},{y:.1f} {far:.1f},{y:.1f}"/>'

    def _node(self, t: int, label: int) -> str:
        trellis, share = self.trellis, min(max(self.trellis.shade[t][label], 0.0), 1.0)
        on, off = trellis.best[t] == label, trellis.plain[t] == label
        if not on and not off and share < FAINT:
            return ""
        x, y, name = self.x[t][0], self.y(label), trellis.labels.names[label]
        kind, radius = ' class="on"' if on else "", 3 + (_NODE - 3) * share**0.5
        hover = trellis.hover_text(t, label) if trellis.hover_text is not None else f"{share:.1%}"
        node = (
            f'<circle{kind} cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="{self.colours.get(name, OUTSIDE)}"><title>{_safe(f"{trellis.tokens[t]}: {name}, {hover}")}</title>'
            "</circle>"
        )
        if off and not on:  # a ring of its own: its colour may be near that of the label
            node += f'<circle class="off" cx="{x:.1f}" cy="{y:.1f}" r="{radius + 3:.1f}"/>'
        if trellis.gold is not None and trellis.gold[t] == name:
            node += f'<path class="gold" d="M{x:.1f},{y - 4.5:.1f} {_DIAMOND}"/>'
        return node


def _safe(text: str) -> str:
    return html.escape(clean(text))


def _badge(x: float, y: float, number: int) -> Iterator[str]:
    yield f'<circle class="badge" cx="{x:.1f}" cy="{y:.1f}" r="8.5"/>'
    yield f'<text class="badge mid" x="{x:.1f}" y="{y + 3.8:.1f}">{number}</text>'


def _legend(trellis: Trellis, y: float) -> tuple[list[str], float]:
    """Make the legend; return it and its right end."""
    samples = [('<polyline class="best" points="{a},{y} {b},{y}"/>', "with rules")]
    if trellis.changed:
        samples.append(('<polyline class="plain" points="{a},{y} {b},{y}"/>', "without rules"))
        samples.append(('<rect class="window" x="{a}" y="{top}" width="28" height="16"/>', "where they part"))
    else:
        samples = [(samples[0][0], "with and without rules")]
    if trellis.gold is not None:
        samples.append((f'<path class="gold" d="M{{m}},{{up}} {_DIAMOND}"/>', "gold"))
    sizes = '<circle cx="{n}" cy="{y}" r="3.5" fill="none"/><circle cx="{m}" cy="{y}" r="8" fill="none"/>'
    samples.append((sizes, trellis.size_meaning))
    elements, x = list[str](), 12.0
    for sample, text in samples:
        places = {"a": x, "b": x + 28, "m": x + 18, "n": x + 4, "y": y, "top": y - 8, "up": y - 4.5}
        elements.append(sample.format(**{name: f"{value:.1f}" for name, value in places.items()}))
        elements.append(f'<text class="dim" x="{x + 35:.1f}" y="{y + 4.5:.1f}">{_safe(text)}</text>')
        x += 35 + _wide(text) + 22
    return elements, x


def _note(note: Note, number: int, y: float, right: float) -> Iterator[str]:
    """Yield a rule beside its number."""
    yield from _badge(20.5, y, number)
    text = cut(note.text, max(int((right - 76 - _wide(note.more)) / _LETTER), 12))
    yield f'<text x="36" y="{y + 4.5:.1f}">{_safe(text)}<title>{_safe(note.text)}</title></text>'
    yield f'<text class="dim end" x="{right - 12:.1f}" y="{y + 4.5:.1f}">{_safe(note.more)}</text>'


def _column_width(trellis: Trellis, column: Column) -> float:
    a, b = column
    return 58.0 if b - a > 1 else max(_wide(cut(trellis.tokens[a], _LONGEST)) + 16, 46.0)


def _wide(text: str) -> float:
    """Estimate the width of a text in px."""
    double = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return double * _SIZE + (len(text) - double) * _LETTER  # a sum of floats would depend on the version of Python
