"""`bridle train --cv` and `--search`: measure settings on held-out data, and find the best of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bridle.cli.base import show, warn
from bridle.cli.learners import Learner, strength_of, templates_of
from bridle.cli.options import Measure
from bridle.cli.reading import labels_in, split
from bridle.cli.training_run import sayer, with_place
from bridle.data import Example
from bridle.errors import BridleError, FeatureError, FileError, ModelError
from bridle.extras import needed
from bridle.features import SETS
from bridle.models import Candidate, CrossValidation, Fold, Search, Tagger, cross_validate, search
from bridle.models.training import TITLES, measure_of
from bridle.models.tuning import C1_PATH, C2_PATH
from bridle.rules.base import Rule

# What --search NAME tries if no values are given.
RANGES: dict[str, list[Any]] = {"c1": sorted([0.0, *C1_PATH]), "c2": sorted(C2_PATH), "cutoff": [1, 2, 3]}
_SEARCHED = (*RANGES, "features")

TheCv = Annotated[
    int | None,
    typer.Option(
        "--cv",
        metavar="N",
        min=2,
        help="Cross-validate the settings, and --rules, in N folds; -o is then optional.",
    ),
]
TheSearch = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="NAMES",
        help="Search for the best c1, c2, cutoff or features by successive halving: c1,c2 or c2=0.1,1. Repeatable.",
    ),
]
ThePlot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Plot the search to this file: .png, .svg or .pdf; needs Matplotlib."),
]


def grid_of(asked: list[str], columns: list[str]) -> dict[str, list[Any]]:
    """The values to try for each setting: NAME,NAME tries the usual values, NAME=VALUE,VALUE the given ones."""
    grid: dict[str, list[Any]] = {}
    for one in asked:
        name, given, values = (part.strip() for part in one.partition("="))
        listed = [value.strip() for value in values.split(",")]
        for each in [name] if given else [part.strip() for part in one.split(",")]:
            if each not in _SEARCHED or each in grid:
                wanted = f"{', '.join(_SEARCHED)}, each once; or NAME=VALUE,VALUE"
                raise ModelError("--search must name settings", got=repr(one), wanted=wanted)
            if given:
                grid[each] = [_value(each, value, columns) for value in listed]
            else:
                grid[each] = _usual(each, columns)
    return grid


def _value(name: str, text: str, columns: list[str]) -> Any:
    if name == "features":
        templates = templates_of(text, columns)
        return text if text in SETS else str(templates).splitlines()
    if name != "cutoff":
        return strength_of(name, text)
    if not text.isdecimal():
        raise ModelError("bad setting cutoff", got=repr(text), wanted="an integer >= 1")
    return int(text)


def _usual(name: str, columns: list[str]) -> list[Any]:
    """The usual values of a setting; for features, the sets that need only columns of the data."""
    if name != "features":
        return RANGES[name]
    found = []
    for one in SETS:
        try:
            found.append(_value(name, one, columns))
        except FeatureError:  # it needs a column that the data does not have
            continue
    return found


def check_grid(grid: Mapping[str, Any], learner: Learner, given: Mapping[str, Any]) -> None:
    """Refuse settings that the learner does not have, or that options set. given: those options."""
    for name in grid:
        if name in ("c1", "c2") and learner is not Learner.CRF:
            raise ModelError(f"`--search {name}` has no effect with `--learner {learner}`; use `--learner crf`")
        if given.get(name) is not None:
            raise ModelError(f"--{name} and --search {name} cannot be combined", got="both", wanted="one of them")


def check_usage(*, cv: int | None, search: list[str] | None, dev: str | None, plot: Path | None) -> None:
    """Refuse options that cannot be combined."""
    if cv is not None and dev is not None:
        cause = "Cross-validation holds out parts of DATA and does not use a development set."
        raise FileError("--cv and --dev cannot be combined", got="both", wanted="one of them", cause=cause)
    if plot is not None and not search:
        raise FileError("--plot needs --search", got="--plot alone", wanted="--search NAMES as well")
    if plot is not None:
        needed("matplotlib", "plot", f"cannot draw {plot} without Matplotlib")  # check before the search


@dataclass(frozen=True)
class Comparison:
    """Settings compared on held-out data, as the options ask."""

    cv: int | None
    grid: Mapping[str, list[Any]]  # empty: no search
    measure: Measure
    folds: int  # of the search
    seconds: float | None  # of the search
    on_unknown: str
    plot: Path | None
    progress: bool | None
    quiet: bool  # only JSON goes to standard output

    def run(
        self,
        model: Tagger,
        examples: list[Example],
        dev: list[Example] | None,
        rules: list[Rule],
        groups: list[str] | None,
    ) -> dict[str, Any]:
        """Give the model the best settings and measure them. Returns the results, for JSON."""
        found: dict[str, Any] = {}
        if self.grid:
            searched = self._search(model, examples, dev, groups)
            self._show(searched.lines())
            if self.plot is not None:
                searched.plot(self.plot)
            model.set_params(**searched.settings)
            found["search"] = searched.to_dict()
        if self.cv is not None:
            validated = self._validate(model, examples, rules, groups)
            self._show(validated.lines())
            found["cross_validation"] = validated.to_dict()
        return found

    def _show(self, lines: list[str]) -> None:
        if not self.quiet:
            show(lines)

    def _search(
        self, model: Tagger, examples: list[Example], dev: list[Example] | None, groups: list[str] | None
    ) -> Search:
        X, y, given = split(examples)
        held = None if dev is None else split(dev)
        tried: list[Candidate] = []
        say = sayer(self.progress)

        def watch(one: Candidate) -> None:
            tried.append(one)
            shares = f"F1 {one.f1:.2%}, {one.accuracy:.2%} of the tokens right"
            say(f"rung {one.rung}, {one.sequences:,} sequences, {one}: {shares}  {one.seconds:.1f} s")

        try:
            return search(
                model,
                X,
                y,
                self.grid,
                given=given,
                dev=None if held is None else (held[0], held[1]),
                dev_given=None if held is None else held[2],
                groups=groups,
                on_unknown="wrong" if self.on_unknown == "wrong" else "raise",
                folds=self.folds,
                measure=self.measure.value,
                seconds=self.seconds,
                watch=watch,
            )
        except KeyboardInterrupt:
            if tried:
                last = [one for one in tried if one.rung == tried[-1].rung]
                name = measure_of(self.measure.value, labels_in(y, "auto"))
                best = max(last, key=lambda one: float(getattr(one, name)))
                compared = f"{len(last)} candidates of rung {best.rung} were compared"
                warn(f"{compared}; the best by {TITLES[name]}: {best}; no model was written")
            raise
        except BridleError as error:
            raise with_place(error, examples, dev) from None

    def _validate(
        self, model: Tagger, examples: list[Example], rules: list[Rule], groups: list[str] | None
    ) -> CrossValidation:
        X, y, given = split(examples)
        say = sayer(self.progress)

        def watch(fold: Fold, number: int, count: int) -> None:
            shares = f"F1 {fold.plain.segments.f1:.2%}, {fold.plain.accuracy:.2%} of the tokens right"
            if fold.ruled is not None:
                shares += f"; with rules F1 {fold.ruled.segments.f1:.2%}, {fold.ruled.accuracy:.2%}"
            say(f"fold {number}/{count}: {shares}  {fold.seconds:.1f} s")

        return cross_validate(
            model,
            X,
            y,
            folds=self.cv or 0,
            groups=groups,
            given=given,
            rules=rules,
            measure=self.measure.value,
            watch=watch,
        )
