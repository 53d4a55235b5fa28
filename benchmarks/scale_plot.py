"""Tokens per second on N cores: dots are measured, lines are computed."""

from __future__ import annotations

import io
import re
from typing import Any

from scale_costs import Costs

COLOURS = {"processes": "#0072B2", "threads": "#D55E00"}  # Okabe and Ito; both stand out on white and on black
INK = "#808080"  # of axes and text: readable on both
CORES = (1, 2, 4, 8, 16, 32, 64, 128)


def svg(costs: Costs) -> str:
    """The picture, with a transparent background."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    style = {"svg.hashsalt": "bridle", "svg.fonttype": "none", "font.size": 11, "font.family": "sans-serif"}
    with plt.rc_context({**style, **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK)}):
        figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
        _draw(axes, costs)
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return re.sub(r"[ \t]+$", "", drawing.getvalue(), flags=re.MULTILINE)


def _draw(axes: Any, costs: Costs) -> None:
    lines = {
        "processes": (costs.process_rate, "a process per core", "-"),
        "threads": (costs.thread_rate, "one process, a thread per core", "--"),
    }
    for name, (rate, caption, dashes) in lines.items():
        colour, computed, measured = COLOURS[name], CORES[1:], CORES[:2]
        axes.plot(
            computed, [rate(n) for n in computed], dashes, color=colour, label=f"{caption}: computed", linewidth=1.8
        )
        axes.plot(measured, [rate(n) for n in measured], "o", color=colour, label=f"{caption}: measured", markersize=7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(CORES, [str(n) for n in CORES])
    axes.set_xlabel("cores")
    axes.set_ylabel("million tokens per second")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g}")
    axes.tick_params(colors=INK, which="both")
    axes.grid(color=INK, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=10)
