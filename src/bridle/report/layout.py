"""What of a trellis is shown: which tokens side by side, cut into panels that fit a width, and which labels.

    n tokens (t)    m labels (y)    a column is a token or a gap    a panel is a row of columns that fits the width

Long sequences are cut to windows around the places where the paths part; what is left out is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Literal

from bridle.errors import LabelError
from bridle.labels import Labels

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
    """What is drawn."""

    tokens: Sequence[str]  # (n,)
    labels: Labels  # m
    shade: Sequence[Sequence[float]]  # (n, m)  how good each label is, from 0 to 1
    plain: Sequence[int]  # (n,)  the best path without rules
    best: Sequence[int]  # (n,)  the best path with rules
    others: Sequence[Sequence[int]] = ()  # (k, n)  more paths; their labels are shown, but no lines
    notes: Sequence[Note] = ()
    gold: Sequence[str] | None = None  # (n,)
    tell: Callable[[int, int], str] | None = None  # what is told of label y at position t on hover
    means: str = "how probable without rules"  # what the size of a node is

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
        """Positions where the paths part."""
        return frozenset(t for t, (a, b) in enumerate(zip(self.plain, self.best, strict=True)) if a != b)

    @cached_property
    def _notes(self) -> dict[int, list[int]]:
        made: dict[int, list[int]] = {}
        for k, note in enumerate(self.notes, start=1):
            for t in note.at:
                made.setdefault(t, []).append(k)
        return made

    def notes_at(self, t: int) -> list[int]:
        """Numbers, from 1, of the notes about a position."""
        return self._notes.get(t, [])


Column = tuple[int, int]  # tokens a .. b-1; more than one: a gap, whose tokens are not shown


def columns(trellis: Trellis, show: Show = "changes") -> list[Column]:
    """What stands side by side: all tokens, or those near the places where the paths part."""
    n = len(trellis.tokens)
    if show == "all" or n <= WHOLE:
        near = set(range(n))
    elif trellis.changed:
        some = {t for c in trellis.changed for t in range(max(c - CONTEXT, 0), min(c + CONTEXT + 1, n))}
        near = set(sorted(some)[:MOST])
    else:
        near = set(range(WHOLE))
    made: list[Column] = []
    for shown, run in groupby(range(n), key=near.__contains__):
        tokens = list(run)
        made += [(t, t + 1) for t in tokens] if shown or len(tokens) < _GAP else [(tokens[0], tokens[-1] + 1)]
    return made


def unseen(trellis: Trellis, chosen: Iterable[Column]) -> str:
    """What to say of changes that have no column."""
    count = sum(t in trellis.changed for a, b in chosen if b - a > 1 for t in range(a, b))
    return f"{count:,} more changed tokens are not shown" if count else ""


def panels(widths: Sequence[float], width: float) -> list[range]:
    """Cut columns of these widths into rows no wider than `width`, each with one column at least: few, and even."""
    made = _filled(widths, width)
    low, high = sum(widths) / max(len(made), 1), width
    while len(made) > 1 and high - low > 0.5:  # the narrowest that takes no more rows: no token is left alone
        middle = (low + high) / 2
        narrower = _filled(widths, middle)
        if len(narrower) > len(made):
            low = middle
        else:
            made, high = narrower, middle
    return made


def _filled(widths: Sequence[float], width: float) -> list[range]:
    """Each row as full as can be."""
    cuts, used = [0], 0.0
    for k, w in enumerate(widths):
        if k > cuts[-1] and used + w > width:
            cuts.append(k)
            used = 0.0
        used += w
    return [range(a, b) for a, b in pairwise([*cuts, len(widths)]) if b > a]


def rows(trellis: Trellis, positions: Iterable[int]) -> list[int]:
    """Labels to show for some positions: those on the two paths, in gold, on other paths, then the best of the rest."""
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
    """What to say of the labels that have no row."""
    missing = [name for y, name in enumerate(trellis.labels) if y not in shown]
    more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
    return f"not shown: {', '.join(missing[:6])}{more}" if missing else ""
