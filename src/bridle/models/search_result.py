"""What a search for settings found: every candidate with its scores, as a table, a picture and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridle.models.checks import jsonable
from bridle.models.measures import TITLES
from bridle.report.plots import draw_curves
from bridle.report.text import aligned

_SHARES = {"f1": "F1", "accuracy": "tokens right", "exact": "all right", "quality": "quality"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings that were tried on one rung of a search.

    Attributes
    ----------
    rung : int
        Number of the rung, from 1.
    settings : dict
        Settings by name, as JSON has them.
    sequences : int
        Number of training sequences that it was tried on.
    quality, exact, f1, accuracy : float
        Shares of what was held out, or of the development set, as in `Trial`.
    iterations : int
        Iterations of all folds together.
    seconds : float
        Time that it took.
    """

    rung: int
    settings: Mapping[str, Any]
    sequences: int
    quality: float
    exact: float
    f1: float
    accuracy: float
    iterations: int
    seconds: float

    def __str__(self) -> str:
        return ", ".join(f"{name}={_short(value)}" for name, value in self.settings.items())


@dataclass(frozen=True, slots=True)
class Search:
    """What `search` found.

    Attributes
    ----------
    settings : dict
        The best settings, for `Tagger.set_params`.
    measure : str
        What decided, such as ``"f1"``.
    tried : tuple of Candidate
        All that was compared, in order; a candidate occurs once for each rung that it reached.
    rungs : tuple of int
        Number of training sequences of each rung.
    folds : int
        Folds of the cross-validation; 0 if a development set decided.
    why : str
        Why it ended.
    """

    settings: Mapping[str, Any]
    measure: str
    tried: tuple[Candidate, ...]
    rungs: tuple[int, ...]
    folds: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            All attributes by name; `settings` as JSON has them.
        """
        best = {name: jsonable(value) for name, value in self.settings.items()}
        tried = [asdict(one) for one in self.tried]
        return {name: getattr(self, name) for name in self.__slots__} | {"settings": best, "tried": tried}

    def ranked(self, rung: int) -> list[Candidate]:
        """List the candidates of a rung.

        Parameters
        ----------
        rung : int
            Number of the rung, from 1.

        Returns
        -------
        list of Candidate
            The best first; among equals, that which stands first in the grid.
        """
        return sorted((one for one in self.tried if one.rung == rung), key=lambda one: -getattr(one, self.measure))

    def lines(self) -> list[str]:
        """Print the table.

        Returns
        -------
        list of str
            For each rung its candidates, the best first; shares in percent.
        """
        names = list(self.tried[0].settings)
        body = [["rung", "sequences", *names, *_SHARES.values(), "seconds"]]
        for rung in range(1, len(self.rungs) + 1):
            body += [
                [
                    str(rung),
                    f"{one.sequences:,}",
                    *(_short(one.settings[name]) for name in names),
                    *(f"{100 * getattr(one, share):.2f}" for share in _SHARES),
                    f"{one.seconds:.1f}",
                ]
                for one in self.ranked(rung)
            ]
        by = "the development set" if not self.folds else f"{self.folds} folds"
        best = ", ".join(f"{name}={_short(jsonable(value))}" for name, value in self.settings.items())
        return [*aligned(body), f"best by {TITLES[self.measure]} on {by}: {best} ({self.why})"]

    def plot(self, path: str | Path) -> None:
        """Draw how the candidates did from rung to rung. It needs Matplotlib.

        Parameters
        ----------
        path : str or Path
            The file; its suffix says what to write: .png, .svg or .pdf.

        Raises
        ------
        MissingExtra
            If there is no Matplotlib.
        FileError
            If the file cannot be written.
        """
        curves: dict[str, list[tuple[float, float]]] = {}
        for one in self.tried:
            curves.setdefault(str(one), []).append((one.sequences, 100 * getattr(one, self.measure)))
        draw_curves(path, curves, "training sequences", f"{TITLES[self.measure]}, %")


def _short(value: Any) -> str:
    """A value as a cell of a table; a list of templates by its length."""
    if isinstance(value, list):
        return f"{len(value)} templates"
    return f"{value:g}" if isinstance(value, float) else str(value)
