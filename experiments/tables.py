"""Reports of experiments: tables with ours beside the paper's, as Markdown, JSON and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridle.errors import FileError
from bridle.extras import needed, versions

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of ours, and the paper's if it has one."""

    ours: Value
    paper: Value = None
    digits: int = 2

    def __str__(self) -> str:
        paper = "" if self.paper is None else f" ({self._shown(self.paper)})"
        return f"{self._shown(self.ours)}{paper}"

    def _shown(self, value: Value) -> str:
        if isinstance(value, float):
            return f"{value:,.{self.digits}f}"
        return "" if value is None else f"{value:,}" if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table. seen: is the paper's effect seen here? None: the paper claims none."""

    name: str
    cells: Sequence[Cell]
    seen: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title. claim: what the paper says that should be seen."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    claim: str = ""
    analysis: str = ""  # of what is not seen, with evidence

    def markdown(self) -> Iterator[str]:
        """The lines of the table."""
        judged = any(row.seen is not None or row.note for row in self.rows)
        yield from (f"### {self.title}", "")
        if self.claim:
            yield from (f"The paper: {self.claim}", "")
        heads = ["", *self.columns, *(["effect"] if judged else [])]
        yield "| " + " | ".join(heads) + " |"
        yield "|---" * len(heads) + "|"
        for row in self.rows:
            seen = {True: "seen", False: "**not seen**", None: ""}[row.seen]
            last = [f"{seen}{': ' if seen and row.note else ''}{row.note}"] if judged else []
            yield "| " + " | ".join([row.name, *map(str, row.cells), *last]) + " |"
        if self.analysis:
            yield from ("", self.analysis)
        yield ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars or lines to draw: series of (name, values) over common ticks."""

    title: str
    ticks: Sequence[str]
    series: Mapping[str, Sequence[float]]
    kind: str = "bars"  # or "lines"
    label: str = ""


@dataclass(slots=True)
class Report:
    """All that one experiment found."""

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)  # data, seeds, sizes
    figures: dict[str, Any] = field(default_factory=dict)  # whatever else was measured

    def markdown(self) -> str:
        """The whole as one page. Figures in parentheses are the paper's."""
        built = f"Made by `bridle reproduce {self.name}`. Figures in parentheses are the paper's."
        lines = [f"# {self.title}", "", built, ""]
        for table in self.tables:
            lines += table.markdown()
        if self.charts:
            lines += [f"![{self.name}]({self.name}.svg)", ""]
        lines += ["## Settings", "", *(f"- {name}: {value}" for name, value in self.settings.items()), ""]
        return "\n".join(lines)

    def json(self) -> str:
        """Every figure, with settings and versions."""
        tables = [
            {
                "title": t.title,
                "claim": t.claim,
                "analysis": t.analysis,
                "columns": list(t.columns),
                "rows": [
                    {
                        "name": r.name,
                        "seen": r.seen,
                        "note": r.note,
                        "ours": [c.ours for c in r.cells],
                        "paper": [c.paper for c in r.cells],
                    }
                    for r in t.rows
                ],
            }
            for t in self.tables
        ]
        head = {"name": self.name, "settings": self.settings, "versions": versions()}
        return json.dumps({**head, "tables": tables, "figures": self.figures}, indent=1, default=str)

    def svg(self) -> str:
        """The charts, one under the other."""
        return draw(self.charts)


def draw(charts: Sequence[Chart]) -> str:
    """Charts as SVG, drawn by Matplotlib."""
    matplotlib = needed("matplotlib", "plot", "pictures are drawn by Matplotlib", FileError)
    from io import StringIO

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "bridle"  # the same charts give the same file
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4 * max(len(charts), 1)), layout="constrained")
    for k, chart in enumerate(charts):
        axes = figure.add_subplot(len(charts), 1, k + 1)
        places = range(len(chart.ticks))
        share = 0.8 / max(len(chart.series), 1)
        for s, (name, values) in enumerate(chart.series.items()):
            if chart.kind == "lines":
                axes.plot(places, values, marker="o", label=name)
            else:
                axes.bar([x - 0.4 + share * (s + 0.5) for x in places], values, share, label=name)
        axes.set_xticks(list(places), list(chart.ticks), rotation=20, ha="right")
        axes.set_title(chart.title)
        axes.set_ylabel(chart.label)
        if len(chart.series) > 1:
            axes.legend(fontsize="small")
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
