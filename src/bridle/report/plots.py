"""Bars and curves, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from bridle.atomic import replacing
from bridle.errors import FileError
from bridle.extras import needed

_NAMED = 8  # curves that get a name and a colour of their own: the longest, which went on to the end


class Drawn:
    """A result that can be drawn."""

    __slots__ = ()

    def _draw(self, path: str | Path) -> None:
        raise NotImplementedError

    def plot(self, path: str | Path) -> None:
        """Draw the result. It needs Matplotlib.

        Parameters
        ----------
        path : str or Path
            The file; its suffix is the format: .png, .svg or .pdf.

        Raises
        ------
        FileError
            If Matplotlib is not installed, or the file cannot be written.
        """
        self._draw(path)


def draw_bars(path: str | Path, bars: Sequence[tuple[str, float]], label: str) -> None:
    """Draw (name, length) pairs, the first on top. The suffix of the file is the format."""
    purpose = f"cannot draw {path} without Matplotlib"
    drawing = needed("matplotlib.figure", "plot", purpose, FileError)
    canvas = needed("matplotlib.backends.backend_agg", "plot", purpose, FileError)
    bars = bars[::-1]
    figure = drawing.Figure(figsize=(9, 1.2 + 0.28 * len(bars)), layout="constrained")
    canvas.FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = ["tab:red" if length < 0 else "tab:blue" for _, length in bars]
    axes.barh(range(len(bars)), [length for _, length in bars], color=colours)
    axes.set_yticks(range(len(bars)), [name if len(name) < 60 else name[:57] + "..." for name, _ in bars])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel(label)
    for tick in axes.get_yticklabels():
        tick.set_parse_math(False)  # a rule may hold dollar signs
    save_figure(figure, path)


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure of Matplotlib: .png, .svg or .pdf, as the suffix says."""
    drawn = BytesIO()
    try:
        figure.savefig(drawn, format=Path(path).suffix.removeprefix(".") or "png")
        with replacing(path) as file:
            file.write(drawn.getvalue())
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or str(error).split("\n")[0]
        wanted = "a .png, .svg or .pdf file"
        raise FileError("cannot draw this file", got=got, wanted=wanted, where=str(path)) from None


def draw_curves(path: str | Path, curves: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> None:
    """Draw (x, y) points by name; the longest curves are named. The suffix is the format."""
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
