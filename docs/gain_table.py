"""The table of docs/when_rules_hurt.md: what rules gain and lose, from docs/results/learned-rules.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results" / "learned-rules.json"
TITLE = "Gains over no rules, in points of sequences all right"
SIGNIFICANT = 0.05
WAYS = {  # as the results call them: as the page does
    "counts": "priced by counts",
    "written": "written by hand",
    "tuned": "written, then tuned",
    "relative": "priced against the model",
}


class Gain(NamedTuple):
    """Gain of a way of making rules on one data set, in points, and how probable that is by chance."""

    points: float
    p: float

    @property
    def sign(self) -> int:
        """1: significantly better than no rules, -1: significantly worse, 0: neither."""
        return 0 if self.p >= SIGNIFICANT or not self.points else 1 if self.points > 0 else -1

    def __str__(self) -> str:
        return f"**{self.points:+.2f}**" if self.sign else f"{self.points:+.2f}"


def gains() -> dict[str, dict[str, Gain]]:
    """The gain of each way on each data set."""
    tables = json.loads(RESULTS.read_text(encoding="utf-8"))["tables"]
    table = next(candidate for candidate in tables if candidate["title"] == TITLE)
    ways = [column.partition(",")[0] for column in table["columns"]]
    return {row["name"]: dict(_parsed(ways, row["ours"])) for row in table["rows"]}


def _parsed(ways: list[str], cells: list[str | None]) -> list[tuple[str, Gain]]:
    matches = [(way, re.fullmatch(r"(\S+) \(.*, (\S+)\)", cell or "")) for way, cell in zip(ways, cells, strict=True)]
    return [(way, Gain(float(match[1]), float(match[2]))) for way, match in matches if match]


def text() -> str:
    """The table and what can be counted in it, as Markdown."""
    rows = gains()
    lines = [f"| data set | {' | '.join(WAYS.values())} |", "|---|" + "---|" * len(WAYS)]
    lines += [f"| {name} | {' | '.join(str(row[way]) for way in WAYS)} |" for name, row in rows.items()]
    lines += ["", f"| of {len(rows)} data sets | {' | '.join(WAYS.values())} |", "|---|" + "---|" * len(WAYS)]
    for heading, sign in (("significantly worse than no rules", -1), ("significantly better than no rules", 1)):
        counts = (sum(row[way].sign == sign for row in rows.values()) for way in WAYS)
        lines.append(f"| {heading} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)
