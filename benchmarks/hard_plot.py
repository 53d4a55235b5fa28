"""Share of optima proved against time, a panel for each family of hard rule sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"bridle": "#0072B2", "HiGHS": "#D55E00", "CP-SAT": "#009E73", "toulbar2": "#CC79A7"}  # Okabe and Ito
STYLES = {"bridle": "-", "HiGHS": "--", "CP-SAT": "-.", "toulbar2": ":"}
WIDTHS = {"bridle": 2.4}
COLUMNS = 4


def _curve(solver: dict[str, Any], first: float, last: float) -> tuple[list[float], list[float]]:
    """Times and the share proved by then, from `first` to `last`."""
    total = len(solver["proved"])
    done = sorted(s for s, proved in zip(solver["seconds"], solver["proved"], strict=True) if proved)
    x, y = [first, *done, max(last, done[-1] if done else last)], [0.0]
    y += [100 * (k + 1) / total for k in range(len(done))]
    return x, [*y, y[-1]]


def plot_proved(many: dict[str, Any], file: Path) -> None:
    """Small multiples with one legend; a line ends where its solver had no more time."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter

    families = many["families"]
    rows = -(-len(families) // COLUMNS)
    figure, panels = plt.subplots(
        rows, COLUMNS, figsize=(12, 2.45 * rows + 0.9), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    fastest = min(min(family["solvers"]["bridle"]["seconds"]) for family in families.values())
    first, last = fastest / 2, max(many["limit"], many["peer_limit"])
    lines = {}
    for panel, (name, family) in zip(panels.flat, families.items(), strict=False):
        none: list[str] = []
        for solver, figures in reversed(family["solvers"].items()):  # bridle on top
            if not any(figures["proved"]):
                none.insert(0, solver)
                continue
            end = many["limit"] if solver == "bridle" else many["peer_limit"]
            style = {"color": COLOURS[solver], "linestyle": STYLES[solver], "linewidth": WIDTHS.get(solver, 1.8)}
            (lines[solver],) = panel.step(*_curve(figures, first, end), where="post", clip_on=False, **style)
        counts = [str(len(figures["seconds"])) for figures in family["solvers"].values()][:2]
        panel.set_title(name, fontsize=9, loc="left", pad=14)
        panel.set_title(" / ".join(counts), fontsize=8, loc="right", color="0.4", pad=14)
        if none:
            panel.text(0, 1.03, "none proved: " + ", ".join(none), fontsize=8, color="0.35", transform=panel.transAxes)
        panel.set_xscale("log")
        panel.set_xlim(first, 1.3 * last)
        panel.set_ylim(-3, 103)
        panel.grid(color="0.9", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.xaxis.set_major_locator(FixedLocator([1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10]))
        panel.xaxis.set_major_formatter(FuncFormatter(_seconds))
        panel.xaxis.set_minor_locator(FixedLocator([]))
        panel.tick_params(labelsize=8)
    for panel in panels.flat[len(families) :]:
        panel.set_visible(False)
    for panel in panels.flat[max(0, len(families) - COLUMNS) : len(families)]:
        panel.tick_params(labelbottom=True)
    panels_say = "Panels: tokens x labels x rules; sequences of bridle / of each other solver"
    figure.supxlabel(f"time for one sequence, one thread. {panels_say}", fontsize=9)
    figure.supylabel("proved optimal by then, %", fontsize=9)
    shown = [solver for solver in COLOURS if solver in lines]
    handles = [lines[solver] for solver in shown]
    figure.legend(handles, shown, loc="outside upper center", ncols=max(1, len(shown)), frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _seconds(value: float, _: int) -> str:
    """A round time with its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= 0.999 * size:
            return f"{value / size:g} {unit}"
    return ""
