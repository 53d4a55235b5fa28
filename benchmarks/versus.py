"""Bridle and CRFsuite side by side: rows with targets, a table, a JSON file."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from measure import told, where

FORMS = {
    "s": "{:,.2f} s",
    "tokens/s": "{:,.0f} tokens/s",
    "MB": "{:,.0f} MB",
    "%": "{:.2f} %",
    "loss": "{:,.2f}",
    "weights": "{:,.0f}",
}
COMPARED = {"x": "{:,.2f}x", "%": "{:.4f} %", "points": "{:+.2f} points"}


@dataclass(frozen=True)
class Row:
    """Bridle and CRFsuite by one measure."""

    what: str
    ours: float
    theirs: float
    unit: str  # of both, one of FORMS
    compared: float
    by: str = "x"  # one of COMPARED
    target: float | None = None
    sense: Literal[">=", "<="] = ">="

    @property
    def met(self) -> bool | None:
        """Is the target met? None: there is none."""
        if self.target is None:
            return None
        return self.compared >= self.target if self.sense == ">=" else abs(self.compared) <= self.target


def _form(value: float, unit: str) -> str:
    return f"{1e3 * value:.1f} ms" if unit == "s" and value < 1 else FORMS[unit].format(value)


@dataclass
class Table:
    """Results of a run."""

    title: str
    rows: list[Row] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # the two sides did not do the same
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)  # more figures, for the JSON file
    where: dict[str, Any] = field(default_factory=where)

    def faster(self, what: str, ours: float, theirs: float, target: float | None = None, unit: str = "s") -> None:
        """Seconds of both, or tokens per second."""
        ratio = ours / theirs if unit == "tokens/s" else theirs / ours
        self.rows.append(Row(what, ours, theirs, unit, ratio, target=target))

    def show(self) -> None:
        """Print everything."""
        from rich.console import Console
        from rich.table import Table as Grid

        console = Console(width=None if sys.stdout.isatty() else 140)
        title = f"{self.title}\n{told(self.where)}"
        grid = Grid("what", "bridle", "CRFsuite", "ratio", "wanted", "met", title=title)
        for row in self.rows:
            wanted = "" if row.target is None else f"{row.sense} {row.target:g} {row.by}".replace(" x", "x")
            ours, theirs = (_form(value, row.unit) for value in (row.ours, row.theirs))
            compared = COMPARED[row.by].format(row.compared)
            grid.add_row(row.what, ours, theirs, compared, wanted, {None: "", True: "yes", False: "NO"}[row.met])
        console.print(grid)
        for note in self.notes:
            console.print(note, highlight=False, markup=False)
        for line in self.wrong:
            console.print(f"WRONG  {line}", style="red", highlight=False, markup=False)

    def write(self, file: Path, **more: Any) -> None:
        """All figures, as JSON."""
        versions = {name: metadata.version(name) for name in ("numpy", "python-crfsuite")}
        rows = [{**asdict(row), "met": row.met} for row in self.rows]
        stored = {
            **more,
            "where": self.where,
            "python": platform.python_version(),
            **versions,
            "rows": rows,
            "wrong": self.wrong,
            "notes": self.notes,
            "data": self.data,
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
