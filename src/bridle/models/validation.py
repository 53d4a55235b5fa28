"""Cross-validation: how good the settings of a model are on data that it has not seen.

Each fold is labelled by a model that is trained on the others from scratch, its regularisation chosen there too if the
settings leave it open: nothing of the fold is known to the model that labels it, but for the names of the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from time import perf_counter
from typing import Any

from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.models.checks import Given, check_callable, check_seed, count_of, one_of
from bridle.models.folds import check_held_out, deal, groups_of
from bridle.models.tagger import Tagger
from bridle.models.task import Data
from bridle.models.training import MEASURES, Measure
from bridle.report import Scores, score
from bridle.report.text import aligned
from bridle.rules.base import Rule

FIGURES: dict[str, Callable[[Scores], float]] = {
    "accuracy": lambda scores: scores.accuracy,
    "f1": lambda scores: scores.segments.f1,
    "exact": lambda scores: scores.exact,
}
_HEADS = ["tokens right", "F1", "all right"]  # of tables


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of a figure over the folds, and its standard deviation.

    Attributes
    ----------
    mean : float
        The mean.
    deviation : float
        The standard deviation of a sample: of one fold to the next, not of the mean; 0 if there is one fold only.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Compute mean and standard deviation of values."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.deviation:.2f}"


@dataclass(frozen=True, slots=True)
class Fold:
    """Scores of a fold by a model that was trained on the others.

    Attributes
    ----------
    plain : Scores
        Without rules.
    ruled : Scores or None
        Under the rules, if there are any.
    settings : dict
        Settings that were chosen on the other folds, such as ``{"c1": 0.0, "c2": 0.1}``.
    iterations : int
        Iterations of the training.
    seconds : float
        Time that training and labelling took.
    """

    plain: Scores
    ruled: Scores | None
    settings: Mapping[str, float]
    iterations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """The outcome of `cross_validate`.

    Attributes
    ----------
    folds : tuple of Fold
        The folds, in order.
    """

    folds: tuple[Fold, ...]

    @property
    def ways(self) -> dict[str, list[Scores]]:
        """The scores of all folds, ``"plain"`` and, if there are rules, ``"ruled"``."""
        ruled = [fold.ruled for fold in self.folds if fold.ruled is not None]
        return {"plain": [fold.plain for fold in self.folds], **({"ruled": ruled} if ruled else {})}

    def spread(self, figure: str, way: str = "plain") -> Spread:
        """Return mean and standard deviation of a figure.

        Parameters
        ----------
        figure : {"accuracy", "f1", "exact"}
            Tokens right, F1 of segments, or sequences all right.
        way : {"plain", "ruled"}
            Without or under the rules.

        Returns
        -------
        Spread
            Over the folds.
        """
        return Spread.of([FIGURES[figure](scores) for scores in self.ways[way]])

    def by_type(self, way: str = "plain") -> dict[str, Spread]:
        """Return mean and standard deviation of the F1 of each type of segment.

        Parameters
        ----------
        way : {"plain", "ruled"}
            Without or under the rules.

        Returns
        -------
        dict of str to Spread
            Over the folds in which the type occurs, in gold or as a guess.
        """
        by_type: dict[str, list[float]] = {}
        for scores in self.ways[way]:
            for name, counts in scores.by_type.items():
                by_type.setdefault(name, []).append(counts.f1)
        return {name: Spread.of(by_type[name]) for name in sorted(by_type)}

    def to_dict(self) -> dict[str, Any]:
        """Return means, standard deviations and all figures of the folds, for JSON; shares, not percent."""
        ways: dict[str, Any] = {
            way: {
                **{figure: asdict(self.spread(figure, way)) for figure in FIGURES},
                "by_type": {name: asdict(spread) for name, spread in self.by_type(way).items()},
            }
            for way in self.ways
        }
        folds = [
            {
                "plain": fold.plain.to_dict(),
                "ruled": None if fold.ruled is None else fold.ruled.to_dict(),
                "settings": dict(fold.settings),
                "iterations": fold.iterations,
                "seconds": round(fold.seconds, 3),
            }
            for fold in self.folds
        ]
        return {**ways, "folds": folds}

    def lines(self) -> list[str]:
        """Return a table in percent: a line per fold, mean ± standard deviation, the F1 of each type of segment."""
        ways = self.ways
        with_rules = [f"{head}, rules" for head in _HEADS] if "ruled" in ways else []
        body = [["fold", "sequences", *_HEADS, *with_rules]]
        for number, scores in enumerate(zip(*ways.values(), strict=True), 1):
            shares = [f"{100 * figure(way):.2f}" for way in scores for figure in FIGURES.values()]
            body.append([str(number), f"{scores[0].sequences:,}", *shares])
        count = sum(fold.plain.sequences for fold in self.folds)
        body.append(["mean", f"{count:,}", *(str(self.spread(figure, way)) for way in ways for figure in FIGURES)])
        types = [["segments", "gold", "F1", *(["F1, rules"] if with_rules else [])]]
        spreads = [self.by_type(way) for way in ways]
        for name in sorted(set().union(*spreads)):
            gold = sum(fold.plain.by_type[name].gold for fold in self.folds if name in fold.plain.by_type)
            types.append([name, f"{gold:,}", *(str(spread.get(name, "")) for spread in spreads)])
        return [*aligned(body), "", *aligned(types)]


def cross_validate(
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    *,
    folds: int = 5,
    groups: Sequence[Hashable] | Table | None = None,
    given: Sequence[Given] | Table | None = None,
    rules: Iterable[Rule | str] = (),
    measure: Measure = "auto",
    watch: Callable[[Fold, int, int], None] | None = None,
) -> CrossValidation:
    """Measure how good the settings of a model are on sequences that it has not seen.

    The sequences are dealt out to folds; equal ones are in the same fold. Each fold is labelled by a model with these
    settings that is trained on the others.

    Parameters
    ----------
    model : Tagger
        The settings. It need not be trained, and stays as it is.
    X, y : list
        Sequences and their labels, as for `fit`.
    folds : int, default 5
        Number of folds; there are fewer if there are fewer different sequences or groups.
    groups : sequence, optional
        A name or a number per sequence: its document, or its source. Sequences of a group are in the same fold.
    given : list of mapping, optional
        Values for rules, one mapping per sequence.
    rules : iterable of Rule or str, optional
        Every fold is labelled without and under these rules. Sequences that cannot obey the hard ones break the fewest.
    measure : {"auto", "f1", "accuracy", "exact", "quality"}, default "auto"
        By what each fold chooses `c1` and `c2`, if the settings leave them open; as for `fit`.
    watch : callable, optional
        Called after each fold with the `Fold`, its number from 1, and the number of folds.

    Returns
    -------
    CrossValidation
        The scores of each fold, with means and standard deviations.

    Raises
    ------
    ModelError
        If a setting is impossible, or there are too few sequences or groups to make two folds.
    LabelError
        If labels do not fit the sequences.

    Examples
    --------
    >>> import bridle
    >>> X = [[a, b] for a in ("the", "a") for b in ("cat", "dog", "fly")]
    >>> model = bridle.LocalTagger(features=["word[0]"])
    >>> validation = bridle.models.cross_validate(model, X, [["D", "N"]] * 6, folds=3)
    >>> print(validation.spread("accuracy"))
    100.00 ± 0.00
    """
    model._check()
    check_seed(model.seed)
    one_of("measure", measure, MEASURES)
    check_callable("watch", watch, "a function of a Fold and two numbers")
    data, rules = Data.of(X, y, given), list(rules)
    labels, names = data.labels(model.scheme, model.labels), groups_of(groups, len(data.X))
    dealt = deal(model._fold_keys(data, names), count_of("folds", folds, 2), model.seed)
    check_held_out(dealt)
    done: list[Fold] = []
    for number, (inside, outside) in enumerate(dealt, 1):
        begun = perf_counter()
        held_together = None if names is None else [names[b] for b in inside.tolist()]
        tagger: Tagger = type(model)(**model.get_params())
        tagger._fit(data.part(inside), tagger._plan(), held_together, measure, labels=labels)
        held, tuning = data.part(outside), tagger.tuning_
        plain = _scores(tagger, held, labels, [])
        ruled = _scores(tagger, held, labels, rules) if rules else None
        chosen = {} if tuning is None else {"c1": tuning.c1, "c2": tuning.c2}
        done.append(Fold(plain, ruled, chosen, tagger.progress_.iteration, perf_counter() - begun))
        if watch is not None:
            watch(done[-1], number, len(dealt))
    return CrossValidation(tuple(done))


def _scores(model: Tagger, held: Data, labels: Labels, rules: Sequence[Rule | str]) -> Scores:
    guessed = model.predict(held.X, rules, given=held.given, threads=model.threads, on_infeasible="relax")
    return score(held.y, guessed, labels.scheme, outside=labels.all_outside)
