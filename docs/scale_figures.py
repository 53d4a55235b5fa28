"""The figures of docs/scale.md, from docs/results/scale.json, which benchmarks/scale.py writes.

A part of the page between `<!-- figures: NAME -->` and `<!-- end of figures -->` is one of the functions in PARTS.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import scale_page
from scale_costs import FORMATS, costs_of, rate_of, told_rate, told_time

RESULTS = Path(__file__).parent / "results" / "scale.json"
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)
MISSING = "These figures have not been measured yet: `python benchmarks/scale.py`."
Sections = dict[str, Any]


def filled(page: str, sections: Sections | None = None) -> str:
    """The page with the figures of these sections; by default, of the results."""
    known = stored() if sections is None else sections
    return MARKED.sub(lambda match: f"{match[1]}\n{part(match[2], known)}\n\n{match[3]}", page)


def stored() -> Sections:
    """The sections that have been measured."""
    sections: Sections = json.loads(RESULTS.read_text("utf-8"))["sections"] if RESULTS.exists() else {}
    return sections


def part(name: str, sections: Sections) -> str:
    """The Markdown of a part; a sentence if what it needs has not been measured."""
    needs, show = PARTS[name]
    return "\n".join(show(sections)) if all(need in sections for need in needs) else MISSING


def rates(sections: Sections) -> list[str]:
    """Rates of one core, under rules, and of two."""
    section = sections["rate"]
    rows = []
    for way in ("library", "arrow", *FORMATS):
        values = [rate_of(section["rates"], name="references", way=way, rules=True, use=use) for use in scale_page.USES]
        rows.append([scale_page.WAYS[way], *map(told_rate, values)])
    heads = ["tokens per second, three rules", *scale_page.USES]
    return [*scale_page.table(heads, rows), "", scale_page.place(section["where"])]


def memory(sections: Sections) -> list[str]:
    """Peaks by the length of the input, and models."""
    return [*scale_page.memory(sections["memory"]), "", scale_page.place(sections["memory"]["where"])]


def startup(sections: Sections) -> list[str]:
    """Steps of a worker."""
    shown = scale_page.startup(sections["startup"], scale_page.starts(sections))
    return [*shown, "", scale_page.place(sections["startup"]["where"])]


def model(sections: Sections) -> list[str]:
    """The figures of the cost model, and the plot."""
    costs = costs_of(sections)
    if costs is None:
        return [MISSING]
    plot = "![Tokens per second on N cores, measured and computed](results/scale.svg)"
    return [*scale_page.figures(costs), "", plot]


def billion(sections: Sections) -> list[str]:
    """A billion tokens on some cores."""
    costs = costs_of(sections)
    if costs is None:
        return [MISSING]
    total = costs.seconds(scale_page.BILLION, 64)
    share = costs.startup / total
    return [
        *scale_page.worked(costs),
        "",
        f"With 64 processes, {told_time(costs.startup)} of {told_time(total)} are start-up ({share:.0%}).",
    ]


def trials(sections: Sections) -> list[str]:
    """All kill trials in one table."""
    kills = [trial for name in ("files", "spark", "ray") for trial in sections.get(name, {}).get("trials", ())]
    if not kills:
        return [MISSING]
    more = "[All results of the trials](results/scale.md), with the command that made them."
    return [*scale_page.kills({"trials": kills}), "", more]


PARTS: dict[str, tuple[tuple[str, ...], Callable[[Sections], list[str]]]] = {
    "rates": (("rate",), rates),
    "memory": (("memory",), memory),
    "startup": (("startup",), startup),
    "model": (("rate", "startup"), model),
    "billion": (("rate", "startup"), billion),
    "trials": ((), trials),
}
