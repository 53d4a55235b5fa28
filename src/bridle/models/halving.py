"""Search for settings by successive halving (Jamieson & Talwalkar 2016): a grid at the cost of a few of its points.

    rung 1      all n candidates, on B / 3^(R-1) of the B sequences
    rung r      the best third of rung r - 1, on three times as many
    rung R      at most three candidates, on all sequences; the best of them is taken

A candidate is judged as `c1="auto"` judges strengths (tuning.py): by models that are trained on some folds and label
the others, or, with a development set, by a model that labels that. Only candidates of the same rung are compared.
The samples of the rungs are parts of each other, and the same for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from bridle.deadline import Deadline
from bridle.errors import ModelError, shown
from bridle.frames import LabelLists, Sequences, Table
from bridle.models.checks import (
    OnUnknown,
    check_callable,
    check_seed,
    count_of,
    ids_of,
    jsonable,
    not_negative,
    of_dev,
    one_of,
)
from bridle.models.folds import FoldedExamples, Folds, check_held_out, deal, groups_of
from bridle.models.tagger import Tagger
from bridle.models.task import Data, Examples
from bridle.models.training import MEASURES, TITLES, Measure, measure_of, with_unknown
from bridle.models.tuning import halve
from bridle.report.plots import Drawn, draw_curves
from bridle.report.text import aligned

KEEP = 3  # of so many candidates one goes on, with so many times the sequences
FEWEST = 60  # sequences of the first rung
_FIXED = ("scheme", "labels")  # other labels, whose figures cannot be compared
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
class Search(Drawn):
    """The outcome of `search`; `plot` draws how the candidates did from rung to rung.

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
        """Return all attributes by name, for JSON."""
        best = {name: jsonable(value) for name, value in self.settings.items()}
        tried = [asdict(candidate) for candidate in self.tried]
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
        candidates = [candidate for candidate in self.tried if candidate.rung == rung]
        return sorted(candidates, key=lambda candidate: -getattr(candidate, self.measure))

    def lines(self) -> list[str]:
        """Return a table: for each rung its candidates, the best first; shares in percent."""
        names = list(self.tried[0].settings)
        body = [["rung", "sequences", *names, *_SHARES.values(), "seconds"]]
        for rung in range(1, len(self.rungs) + 1):
            body += [
                [
                    str(rung),
                    f"{candidate.sequences:,}",
                    *(_short(candidate.settings[name]) for name in names),
                    *(f"{100 * getattr(candidate, share):.2f}" for share in _SHARES),
                    f"{candidate.seconds:.1f}",
                ]
                for candidate in self.ranked(rung)
            ]
        by = "the development set" if not self.folds else f"{self.folds} folds"
        best = ", ".join(f"{name}={_short(jsonable(value))}" for name, value in self.settings.items())
        return [*aligned(body), f"best by {TITLES[self.measure]} on {by}: {best} ({self.why})"]

    def _draw(self, path: str | Path) -> None:
        curves: dict[str, list[tuple[float, float]]] = {}
        for candidate in self.tried:
            point = candidate.sequences, 100 * getattr(candidate, self.measure)
            curves.setdefault(str(candidate), []).append(point)
        draw_curves(path, curves, "training sequences", f"{TITLES[self.measure]}, %")


def _short(value: Any) -> str:
    """Format a value as a cell of a table; a list of templates by its length."""
    if isinstance(value, list):
        return f"{len(value)} templates"
    return f"{value:g}" if isinstance(value, float) else str(value)


def search(
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    grid: Mapping[str, Sequence[Any]],
    *,
    dev: tuple[Sequences, LabelLists] | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    given: Sequence[Mapping[str, Any]] | Table | None = None,
    dev_given: Sequence[Mapping[str, Any]] | Table | None = None,
    on_unknown: OnUnknown = "raise",
    folds: int = 4,
    measure: Measure = "auto",
    seconds: float | None = None,
    watch: Callable[[Candidate], None] | None = None,
) -> Search:
    """Search a grid of settings for the best, by successive halving.

    Parameters
    ----------
    model : Tagger
        All other settings. It need not be trained, and stays as it is. If it leaves `c1` and `c2` open and the grid
        does not name them, candidates are compared with the usual ones.
    X, y : list
        Sequences and their labels, as for `fit`.
    grid : mapping of str to list
        Values to try by the name of the setting, such as ``{"c1": [0, 0.1], "c2": [0.01, 0.1, 1]}``; every combination
        is a candidate.
    dev : (X, y), optional
        A development set to judge candidates by. Without one they are judged by cross-validation.
    groups : sequence, optional
        A name or a number per sequence; sequences of a group are held out together.
    given, dev_given : list of mapping, optional
        Values for rules that are used in training.
    on_unknown : {"raise", "skip", "wrong"}
        What to do with a label of the development set that the model does not know, as for `fit`.
    folds : int, default 4
        Folds of the cross-validation.
    measure : {"auto", "f1", "accuracy", "exact", "quality"}, default "auto"
        What decides, as for `fit`; ``"auto"`` is ``"f1"`` if the labels make segments, otherwise ``"accuracy"``.
    seconds : float, optional
        The most time. Then the best of the last rung that is complete is taken.
    watch : callable, optional
        Called with each `Candidate` that was tried.

    Returns
    -------
    Search
        The best settings, and all that was compared.

    Raises
    ------
    ModelError
        If a setting is unknown or impossible, the grid is empty, or there are too few sequences to hold some out.
    LabelError
        If labels do not fit the sequences.

    Examples
    --------
    >>> import bridle
    >>> X = [[word] for word in "Ann Bob Eve Dan Kim Lou cat dog cow".split()]
    >>> y = [["NAME" if word.istitle() else "O"] for [word] in X]
    >>> model = bridle.CRF(c2=0.1)
    >>> search = bridle.models.search(model, X, y, {"features": [["word[0]"], ["shape[0]"]]})
    >>> search.settings
    {'features': ['shape[0]']}
    >>> model = model.set_params(**search.settings).fit(X, y)
    """
    one_of("measure", measure, MEASURES)
    check_seed(model.seed)
    one_of("on_unknown", on_unknown, get_args(OnUnknown))
    check_callable("watch", watch, "a function of a Candidate")
    if seconds is not None and seconds != float("inf"):
        not_negative("seconds", seconds)
    candidates = _candidates(model, grid)
    data, dev_data = Data.of(X, y, given), Data.of_dev(dev, dev_given)
    trials = _Trials(candidates[0][1], data, dev_data, on_unknown, groups, count_of("folds", folds, 2), seconds)
    name, rungs = measure_of(measure, trials.labels), plan_rungs(len(candidates), len(data.X))
    tried: list[Candidate] = []

    def score(left: list[int], rung: int, sequences: int) -> Iterator[tuple[int, float]]:
        for k in sorted(left, key=lambda k: (_encoding(candidates[k][1]), k)):
            settings, tagger = candidates[k]
            tried.append(trials.run(tagger, settings, rung, sequences))
            if watch is not None:
                watch(tried[-1])
            yield k, getattr(tried[-1], name)

    shares, why = halve(range(len(candidates)), rungs, score)
    if not shares:
        got, wanted = f"{seconds:g} seconds", "more time, or fewer candidates"
        raise ModelError("the time was up before anything was compared", got=got, wanted=wanted)
    best = min(shares, key=lambda k: (-shares[k], k))
    return Search(candidates[best][0], name, tuple(tried), tuple(n for _, n in rungs), 0 if dev else int(folds), why)


def plan_rungs(candidates: int, sequences: int) -> list[tuple[int, int]]:
    """Return for each rung how many candidates go on from it (1 from the last), and its number of sequences.

    >>> plan_rungs(24, 9000), plan_rungs(24, 150), plan_rungs(24, 50)
    ([(8, 1000), (3, 3000), (1, 9000)], [(8, 60), (1, 150)], [(1, 50)])
    """
    counts = [candidates]
    while counts[-1] > KEEP:
        counts.append(-(-counts[-1] // KEEP))
    sizes = {max(sequences // KEEP**k, min(FEWEST, sequences)) for k in range(len(counts))}
    rungs = sorted(sizes)
    return list(zip([*counts[1 : len(rungs)], 1], rungs, strict=True))


def _candidates(model: Tagger, grid: Mapping[str, Sequence[Any]]) -> list[tuple[dict[str, Any], Tagger]]:
    """Return every combination of the values, with a model that has it."""
    if not isinstance(grid, Mapping) or not grid:
        raise ModelError("there is nothing to search", got=shown(grid), wanted="{'c2': [0.1, 1], ...}")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ModelError(f"the values of {name!r} are not a list", got=shown(values), wanted="one value or more")
        if name in _FIXED:
            raise ModelError(f"{name!r} cannot be searched", got=shown(values), wanted="settings of the training")
    candidates = []
    for combination in product(*grid.values()):
        settings = dict(zip(grid, combination, strict=True))
        tagger = type(model)(**model.get_params()).set_params(**settings)
        tagger._check()
        candidates.append((settings, tagger))
    return candidates


def _encoding(model: Tagger) -> str:
    """Return the same text for models that see sequences as the same numbers, with the same weights to learn."""
    settings = model.get_params()
    return repr([jsonable(settings.get(name)) for name in ("features", "cutoff", "pairs", "rules")])


class _Trials:
    """Tries settings on samples of the data."""

    def __init__(
        self,
        model: Tagger,
        data: Data,
        dev: Data | None,
        on_unknown: OnUnknown,
        groups: Any,
        folds: int,
        seconds: float | None,
    ) -> None:
        self._count, self._folds, self._seed = len(data.X), folds, model.seed
        self._deadline = Deadline.after(seconds)
        self._keys = model._fold_keys(data, groups_of(groups, self._count))
        self._choice = model._choose_features(data)
        self._order = np.random.default_rng(model.seed).permutation(self._count)
        self.labels, self._data = data.labels(model.scheme, model.labels), data
        if dev is not None:
            dev = dev.used(self.labels, on_unknown)
            given: list[Any] = [*(data.given or [{}] * len(data.X)), *(dev.given or [{}] * len(dev.X))]
            self._data = Data([*data.X, *dev.X], [*data.y, *dev.y], given)
            with of_dev():
                ids_of(self.labels, dev.y, np.cumsum([0, *map(len, dev.y)]), on_unknown)
            self.labels = with_unknown(self.labels, dev.y)
        self._dev = dev
        self._examples: dict[str, Examples] = {}  # by encoding
        self._last: tuple[tuple[str, int], FoldedExamples] | None = None  # the next one is mostly of the same

    def run(self, model: Tagger, settings: Mapping[str, Any], rung: int, sequences: int) -> Candidate:
        """Measure how good a model with these settings is."""
        folded = self._folded(model, sequences)
        decoder = folded.examples.decoder
        self._deadline.check()
        try:
            run = folded.run(lambda _, task, its: model._learner(task, decoder, its), model._plan(self._deadline))
            scores, effort = folded.scored(run, model.threads)
        except ModelError as error:
            raise error.at(where=", ".join(f"{name}={value!r}" for name, value in settings.items())) from None
        shares: dict[str, Any] = {**scores.to_dict(), **effort}
        return Candidate(rung, {name: jsonable(value) for name, value in settings.items()}, sequences, **shares)

    def _folded(self, model: Tagger, sequences: int) -> FoldedExamples:
        """Cut a sample of the data into folds; a development set is the only fold that is held out."""
        key = _encoding(model)
        if key not in self._examples:
            features = model._new_features(self._choice if model.features == "auto" else None)
            self._examples[key] = Examples.of(self._data, features, model._rules(), lambda: self.labels)
        if self._last is None or self._last[0] != (key, sequences):
            self._last = None  # two of them may be more than fits into memory
            chosen = np.sort(self._order[:sequences])
            if self._dev is None:
                folds = deal([self._keys[b] for b in chosen.tolist()], self._folds, self._seed)
                check_held_out(folds)
            else:
                beside = np.arange(self._count, self._count + len(self._dev.X))
                folds = Folds(np.repeat([-1, 0], [len(chosen), len(beside)]))
                chosen = np.concatenate([chosen, beside])
            self._last = (key, sequences), model._folded(self._examples[key], chosen, folds=folds)
        return self._last[1]
