"""Curves over a common axis, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bridle.extras import needed
from bridle.report.bars import save_figure

_NAMED = 8  # curves that get a name and a colour of their own: the longest, which went on to the end


def draw_curves(path: str | Path, curves: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> None:
    """Draw (x, y) points by name; the longest curves are named. The suffix of the file says what to write."""
    drawing = needed("matplotlib.figure", "plot", f"cannot draw {path} without Matplotlib")
    figure = drawing.Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    order = sorted(curves, key=lambda name: (-len(curves[name]), -curves[name][-1][1]))
    for k, name in enumerate(order):
        places, heights = zip(*curves[name], strict=True)
        look = {"label": name} if k < _NAMED else {"color": "0.8", "zorder": 0}
        axes.plot(places, heights, marker="o", markersize=4, **look)
    axes.set_xscale("log")
    ticks = sorted({point[0] for curve in curves.values() for point in curve})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.minorticks_off()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    for text in axes.legend(fontsize="small").get_texts():
        text.set_parse_math(False)  # a template may hold dollar signs
    save_figure(figure, path)
