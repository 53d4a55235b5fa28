"""Automata as pictures: states left to right by their distance from the start, arrows with the labels they read.

A double ring is an accepting state. States from which acceptance cannot be reached are left out, with their arrows:
what is not drawn is not accepted. Arrows are drawn first; then each text takes, of the places beside its arrow, the one
where it meets the fewest lines, states and other texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from bridle.automata import DFA
from bridle.errors import LabelError
from bridle.report.text import clean

_RADIUS, _ROW, _LETTER, _LINE = 17.0, 118.0, 7.2, 15.0  # of a state; between rows; width and height of text
_SHARES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78)  # of an arrow: where a text may stand, the best place first
Point = tuple[float, float]
Points = npt.NDArray[np.float64]  # (number, 2)
_INK = "var(--color-foreground-primary, #222)"
_PAPER = "var(--color-background-primary, #fff)"
_STYLE = {
    "text": f"font:12px sans-serif;fill:{_INK};stroke:{_PAPER};stroke-width:4px;paint-order:stroke",
    "path": f"fill:none;stroke:{_INK};stroke-width:1.3px",
    "circle": f"fill:none;stroke:{_INK};stroke-width:1.3px",
    "polygon": f"fill:{_INK};stroke:none",
}


@dataclass(frozen=True, slots=True)
class _Arrow:
    """From a state to another, with the lines of text on it."""

    tail: int
    head: int
    lines: tuple[str, ...]


def draw_automaton(dfa: DFA, labels: Sequence[str], *, places: Sequence[str] = ("",), title: str = "automaton") -> str:
    """Draw an automaton as an SVG picture for an HTML page.

    labels: the m names, in the order of their ids. An automaton whose steps depend on the place of a token
    reads K * m letters, letter k * m + y for label y at a place of kind k; `places` names the K kinds.
    """
    names, kinds = list(labels), list(places)
    if dfa.n_labels != len(names) * len(kinds):
        raise LabelError(
            "an automaton reads other labels than it is drawn with",
            got=f"{len(names)} labels x {len(kinds)} places",
            wanted=f"{dfa.n_labels} letters",
            cause="Pass the names of all labels, in the order of their ids.",
        )
    step: list[list[int]] = dfa.step.tolist()
    alive = _alive(step, dfa.accepting.tolist())
    shown = _columns(step, alive)
    arrows = list(_arrows(step, alive & shown.keys(), names, kinds))
    widest = max((len(line) for arrow in arrows for line in arrow.lines), default=1) * _LETTER
    stacked = any(shown[a.tail] == shown[a.head] and a.tail != a.head for a in arrows)  # text beside a column, too
    at = _positions(shown, max(96.0, widest * (1.7 if stacked else 1.0) + 2 * _RADIUS + 26))
    canvas = _Canvas()
    texts = [_Text(arrow.lines, _draw(canvas, arrow, at, shown, arrows)) for arrow in arrows]
    for s, middle in at.items():
        for radius in (_RADIUS, _RADIUS - 4) if dfa.accepting[s] else (_RADIUS,):
            canvas.ring(middle, radius)
    x, y = at[0]
    canvas.curve([(x - _RADIUS - 26, y), (x - _RADIUS - 13, y), (x - _RADIUS, y)])
    for text, middle in zip(texts, _placed(texts, canvas.drawn, list(at.values())), strict=True):
        canvas.text(middle, text.lines)
    return canvas.svg(title)


def _alive(step: list[list[int]], accepting: list[bool]) -> set[int]:
    """States from which acceptance can be reached."""
    alive = {s for s, yes in enumerate(accepting) if yes}
    while more := {s for s, row in enumerate(step) if s not in alive and not alive.isdisjoint(row)}:
        alive |= more
    return alive


def _columns(step: list[list[int]], alive: set[int]) -> dict[int, int]:
    """Distance from the start of each state that is drawn; the start always is."""
    column, todo = {0: 0}, [0]
    for s in todo:  # breadth first
        for after in step[s]:
            if after in alive and after not in column:
                column[after] = column[s] + 1
                todo.append(after)
    return column


def _positions(column: dict[int, int], gap: float) -> dict[int, tuple[float, float]]:
    """Middle of each state; the states of a column stand below each other, around the line of the start."""
    at = {}
    for c in set(column.values()):
        members = [s for s in column if column[s] == c]
        for k, s in enumerate(members):
            at[s] = (c * gap, (k - (len(members) - 1) / 2) * _ROW)
    return at


def _arrows(step: list[list[int]], states: set[int], names: list[str], kinds: list[str]) -> Iterator[_Arrow]:
    """One arrow for all letters that lead from one state to another."""
    m = len(names)
    for s in sorted(states):
        for after in sorted(states.intersection(step[s])):
            sets = [[y for y in range(m) if step[s][k * m + y] == after] for k in range(len(kinds))]
            if all(ids == sets[0] for ids in sets):
                yield _Arrow(s, after, (_said(sets[0], names),))
                continue
            texts = [(kind, _said(ids, names)) for kind, ids in zip(kinds, sets, strict=True) if ids]
            yield _Arrow(s, after, tuple(f"{kind}: {text}" if kind else text for kind, text in texts))


def _said(ids: list[int], names: list[str]) -> str:
    """A set of labels, or those that are not in it if they are fewer."""
    others = [name for y, name in enumerate(names) if y not in ids]
    if not others:
        return "any"
    return f"not {', '.join(others)}" if len(others) < len(ids) else ", ".join(names[y] for y in ids)


def _draw(
    canvas: _Canvas, arrow: _Arrow, at: dict[int, Point], column: dict[int, int], arrows: list[_Arrow]
) -> list[Point]:
    """A loop at its state, a straight arrow to the next column, or a bow; returns places for its text, best first."""
    (x0, y0), (x1, y1) = at[arrow.tail], at[arrow.head]
    wide, high = _size(arrow.lines)
    if arrow.tail == arrow.head:
        up = 1 if y0 > 0 else -1  # away from the middle, where the arrows are
        side, foot, top = _RADIUS * 0.6, y0 + up * _RADIUS * 0.8, y0 + up * (_RADIUS + 34)
        canvas.curve([(x0 - side, foot), (x0 - 26, top), (x0 + 26, top), (x0 + side, foot)])
        over, beside = y0 + up * (_RADIUS + 28 + high / 2), y0 + up * (_RADIUS + 14)
        return [(x0, over), (x0 - 22 - wide / 2, beside), (x0 + 22 + wide / 2, beside)]
    jump = column[arrow.head] - column[arrow.tail]
    returns = any((other.tail, other.head) == (arrow.head, arrow.tail) for other in arrows)
    if jump == 1:
        bow = 13.0 if returns else 0.0
    elif jump > 1:  # below: the loops of the states between are above
        bow = -(34.0 + 18.0 * jump)
    elif jump < 0:
        bow = 13.0 - 18.0 * (jump + 1)
    else:
        bow = 24.0 * abs(y1 - y0) / _ROW * (1 if returns or y1 > y0 else -1)  # to the right, unless that is taken
    length = math.hypot(x1 - x0, y1 - y0)
    nx, ny = (y1 - y0) / length, -(x1 - x0) / length  # to the left of the way: above for an arrow to the right
    bend = ((x0 + x1) / 2 + nx * bow * 2, (y0 + y1) / 2 + ny * bow * 2)
    start, end = _rim((x0, y0), bend), _rim((x1, y1), bend)
    canvas.curve([start, bend, end])
    places = []
    for share in _SHARES:
        x, y = _between([start, bend, end], share)
        dx, dy = _direction(_between([start, bend, end], share - 0.02), _between([start, bend, end], share + 0.02))
        off = 4 + abs(dy) * wide / 2 + abs(dx) * high / 2
        out = off if bow >= 0 else -off  # outside the bow first
        places += [(x + dy * out, y - dx * out), (x - dy * out, y + dx * out)]
    return places


# ---- where texts stand ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    """Lines of text and the places, by their middle, where they may stand."""

    lines: tuple[str, ...]
    places: list[Point]


def _size(lines: Sequence[str]) -> Point:
    """About how wide and high lines of text are."""
    return max(map(len, lines)) * _LETTER, len(lines) * _LINE


def _placed(texts: list[_Text], drawn: list[Point], states: list[Point]) -> list[Point]:
    """The middle of each text. Three rounds: each text gives way to those that stand, loops last, as they can least."""
    stand = np.array([text.places[0] for text in texts]).reshape(-1, 2)
    sizes = np.array([_size(text.lines) for text in texts]).reshape(-1, 2)
    points, rings = np.array(drawn).reshape(-1, 2), np.array(states).reshape(-1, 2)

    def collisions(k: int, places: Points) -> npt.NDArray[np.int64]:
        """Count the lines, states and texts that text k meets at each of these places."""

        def meets(others: Points, size: Points | float) -> npt.NDArray[np.int64]:
            close = np.abs(others - places[:, None]) < (sizes[k] + size) / 2  # (places, others, 2)
            counts: npt.NDArray[np.int64] = close.all(axis=2).sum(axis=1)
            return counts

        others = np.arange(len(texts)) != k
        return meets(points, 0.0) + 20 * meets(rings, 2.0 * _RADIUS) + 50 * meets(stand[others], sizes[others])

    for _ in range(3):
        for k in sorted(range(len(texts)), key=lambda k: -len(texts[k].places)):
            places = np.array(texts[k].places)
            stand[k] = places[int(collisions(k, places).argmin())]  # the first of the best
    return [(x, y) for x, y in stand.tolist()]


def _rim(middle: Point, towards: Point) -> Point:
    """Return the point at which a line from the middle of a state leaves it."""
    dx, dy = _direction(middle, towards)
    return middle[0] + dx * _RADIUS, middle[1] + dy * _RADIUS


def _direction(start: Point, end: Point) -> Point:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    return dx / length, dy / length


def _between(points: list[Point], share: float) -> Point:
    """A point of a Bezier curve (de Casteljau)."""
    while len(points) > 1:
        points = [(a + share * (c - a), b + share * (d - b)) for (a, b), (c, d) in pairwise(points)]
    return points[0]


class _Canvas:
    """Pieces of a picture, and how far they reach."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.texts: list[str] = []  # above all lines
        self.reached: list[Point] = []
        self.drawn: list[Point] = []  # points of all curves, closer than a letter

    def ring(self, middle: Point, radius: float) -> None:
        self.lines.append(f'<circle cx="{middle[0]:.1f}" cy="{middle[1]:.1f}" r="{radius:g}"/>')
        self.reached += [(middle[0] + k * radius, middle[1] + k * radius) for k in (-1, 1)]

    def curve(self, points: list[Point]) -> None:
        """A Bezier curve through control points, with an arrow head at its end."""
        *before, end = points
        dx, dy = _direction(before[-1], end)
        back = (end[0] - 8 * dx, end[1] - 8 * dy)
        wings = [(back[0] + 3.5 * k * dy, back[1] - 3.5 * k * dx) for k in (-1, 1)]
        kind = {3: "Q", 4: "C"}[len(points)]
        self.lines.append(f'<path d="M{_pairs(before[:1])} {kind}{_pairs([*before[1:], back])}"/>')
        self.lines.append(f'<polygon points="{_pairs([end, *wings])}"/>')
        on = [_between(points, k / 64) for k in range(65)]
        self.reached += on
        self.drawn += on

    def text(self, middle: Point, lines: Sequence[str]) -> None:
        """Lines of text around a point."""
        x, y = middle
        wide, high = _size(lines)
        for k, line in enumerate(lines):
            base = y - high / 2 + (k + 0.75) * _LINE
            safe = escape(clean(line))
            self.texts.append(f'<text x="{x:.1f}" y="{base:.1f}" text-anchor="middle">{safe}</text>')
        self.reached += [(x + k * wide / 2, y + k * high / 2) for k in (-1, 1)]

    def svg(self, title: str) -> str:
        """Return the picture."""
        (left, top), (right, bottom) = ([edge(axis) for axis in zip(*self.reached, strict=True)] for edge in (min, max))
        width, height = right - left + 8, bottom - top + 8
        # A style inside a page of HTML is a style of the whole page, so that every line of it names the class.
        style = "".join(f".bridle-automaton {element}{{{how}}}" for element, how in _STYLE.items())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="bridle-automaton" role="img" '
            f'viewBox="{left - 4:.0f} {top - 4:.0f} {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" style="max-width:100%;height:auto">'
            f"<title>{escape(clean(title))}</title><style>{style}</style>{''.join(self.lines + self.texts)}</svg>"
        )


def _pairs(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
