"""`learned-rules`: do rules make a model better, or worse? Nine data sets, five random splits each.

    plain      a CRF, regularisation chosen by cross-validation, Viterbi
    counts     rules learned from the same sequences, priced by counts: what Bridle 0.1 did
    relative   rules priced against the model on cross-fitted scores, kept only if they earn it: `fit_rules`
    written    rules written by hand, as they are; `tuned`: after `tune_rules`

All see the same model and the same test sequences. A way is worse than plain if a sign test over the test sequences of
all splits says so (p < 0.05): of those that are all right under one way only, too many are so under plain.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import mean
from typing import Any

import numpy as np

from bridle.labels import Labels
from bridle.learn import Comparison, RelationalRules, fit_rules, tune_rules
from bridle.models import CRF
from bridle.processor import simd
from bridle.report.sequences import SequenceScores
from bridle.rules import Rule
from experiments.base import Recipe, Run
from experiments.fields import Fields
from experiments.learned_rules_data import SETS, SMALL, DataSet
from experiments.tables import Cell, Chart, Report, Row, Table

PLAIN, COUNTS, RELATIVE, WRITTEN, TUNED = WAYS = ("plain", "counts", "relative", "written", "tuned")
GRID = (0.03, 0.1, 0.3, 1.0, 3.0)
FIGURES = ("exact", "f1", "accuracy")


@dataclass(slots=True)
class Trials:
    """All splits of a data set."""

    exact: dict[str, list[Any]] = field(default_factory=dict)  # [way] -> per split, which test sequences are all right
    shares: dict[str, list[dict[str, float]]] = field(default_factory=dict)  # [way] -> per split, all figures
    splits: list[dict[str, Any]] = field(default_factory=list)  # per split: sizes, times, what was chosen
    grid: dict[str, list[float]] = field(default_factory=dict)  # [c2, or "auto"] -> per split, percent all right
    sizes: tuple[int, int] = (0, 0)

    def add(self, way: str, scores: SequenceScores) -> None:
        """Add the scores of one split."""
        self.exact.setdefault(way, []).append(scores.exact)
        self.shares.setdefault(way, []).append(scores.to_dict())

    def mean(self, way: str, figure: str = "exact") -> float:
        """In percent, over all splits."""
        return 100 * mean(item[figure] for item in self.shares[way])

    def gain(self, way: str) -> Comparison:
        """Over plain, in sequences all right."""
        before, after = (np.concatenate(self.exact[name]).astype(np.float64) for name in (PLAIN, way))
        return Comparison.of(before, after)


class LearnedRules(Recipe):
    """Rules that never hurt."""

    name = "learned-rules"
    title = "Learned rules: priced by counts, priced against the model, and written by hand"

    def run(self, run: Run) -> Report:
        """Measure all data sets, one after the other."""
        chosen = SETS[:1] + SETS[3:4] if run.quick else SETS
        return self.report(run, {item.name: self.measure(run, item) for item in chosen})

    def measure(self, run: Run, item: DataSet) -> Trials:
        """All splits of one data set."""
        trials = Trials()
        for k in range(splits := _splits(run)):
            run.say(f"{item.name}: split {k + 1} of {splits}")
            train, test = item.split(run, run.seed + k)
            _trial(run, item, train, test, trials, run.seed + k)
            if len(train) <= SMALL:
                _compare_strengths(run, item, train, test, trials)
        return trials

    def report(self, run: Run, result: dict[str, Trials]) -> Report:
        """The tables."""
        report = Report(self.name, self.title)
        report.tables = [_table(result), _verdict(result), _chosen(result), _strengths(result)]
        ticks = list(result)
        series = {way: [result[name].mean(way) - result[name].mean(PLAIN) for name in ticks] for way in WAYS[1:]}
        report.charts.append(Chart("Sequences all right, against no rules", ticks, series, label="points"))
        here = simd()
        report.settings = {
            "splits": f"{_splits(run)}, seeds {run.seed} to {run.seed + _splits(run) - 1}",
            "model": "CRF, c1 and c2 by cross-validation, 100 iterations at most",
            "sequences for training and testing": {name: trials.sizes for name, trials in result.items()},
            "written rules": "by hand, not adjusted to any result; `experiments/learned_rules_data.py` has them",
            "processor": f"{here.processor}, tier {here.tier}; times are those of a busy machine",
        }
        report.figures = {
            name: {"figures": trials.shares, "told": trials.splits, "grid": trials.grid}
            for name, trials in result.items()
        }
        return report


def _splits(run: Run) -> int:
    return 1 if run.quick else 5


def _trial(run: Run, item: DataSet, train: Fields, test: Fields, trials: Trials, seed: int) -> None:
    """One split: the model, then all ways."""
    begun = time.perf_counter()
    model = CRF(features=item.features, seed=seed, threads=run.threads).fit(train.X, train.y)
    trained = time.perf_counter()
    relative = fit_rules(model, train.X, train.y, seed=seed, threads=run.threads)
    learned = time.perf_counter()
    tuned = tune_rules(model, item.rules(train), train.X, train.y, seed=seed, threads=run.threads)
    ways: dict[str, Sequence[Rule]] = {
        PLAIN: [],
        COUNTS: RelationalRules(scheme=model.labels_.scheme, seed=seed).fit(train.X, train.y).rules_,
        RELATIVE: relative.rules,
        WRITTEN: item.rules(train),
        TUNED: tuned.rules,
    }
    for way, rules in ways.items():
        trials.add(way, _scores(model, test, rules))
    trials.sizes = len(train), len(test)
    trials.splits.append(
        {
            "c1": model.c1_,
            "c2": model.c2_,
            "seconds": {"training": trained - begun, "learning": learned - trained},
            "rules": {way: len(rules) for way, rules in ways.items()},
            "cross-fitted": {"plain": relative.plain, "relative": relative.held_out, "won": relative.won},
            "tuned": tuned.best,
        }
    )


def _scores(model: CRF, test: Fields, rules: Sequence[Rule] = ()) -> SequenceScores:
    """Labels of the test that the model does not know are never right."""
    result = model.decode(test.X, model.decoder(rules, on_infeasible="relax", max_states=10_000), threads=model.threads)
    strange = sorted(set(chain.from_iterable(test.y)).difference(model.labels_))
    labels = Labels([*model.labels_, *strange], model.labels_.scheme)
    return SequenceScores.of(labels, labels.ids(list(chain.from_iterable(test.y))), result.ids, result.offsets)


def _compare_strengths(run: Run, item: DataSet, train: Fields, test: Fields, trials: Trials) -> None:
    for c2 in GRID:
        model = CRF(features=item.features, c1=0.0, c2=c2, threads=run.threads).fit(train.X, train.y)
        trials.grid.setdefault(f"{c2:g}", []).append(100 * _scores(model, test).to_dict()["exact"])
    trials.grid.setdefault("auto", []).append(100 * trials.shares[PLAIN][-1]["exact"])


# ---- tables ---------------------------------------------------------------------------------------------------------


def _table(result: dict[str, Trials]) -> Table:
    columns = [f"{way}: {figure}" for figure in ("all right", "F1", "tokens") for way in WAYS]
    rows = [
        Row(name, [Cell(trials.mean(way, figure)) for figure in FIGURES for way in WAYS])
        for name, trials in result.items()
    ]
    return Table("Sequences all right, F1 of segments, tokens right, in percent", columns, rows)


def _verdict(result: dict[str, Trials]) -> Table:
    """Gains in sequences all right over plain, with intervals; what relative rules keep of the best gain."""
    columns = [*(f"{way}, gain (95 % interval, p)" for way in WAYS[1:]), "kept of the best gain"]
    rows, kept, better, worse = [], [], [], []
    for name, trials in result.items():
        gains = {way: trials.gain(way) for way in WAYS[1:]}
        best, own = max(gain.gain for gain in gains.values()), gains[RELATIVE]
        share = own.gain / best if best > 0 else None
        kept += [] if share is None else [share]
        better += [name] if own.gain > 0 and own.p < 0.05 else []
        worse += [name] if own.gain < 0 and own.p < 0.05 else []
        cells = [Cell(_told(gain)) for gain in gains.values()]
        rows.append(Row(name, [*cells, Cell(None if share is None else f"{share:.0%}")]))
    total = sum(max(trials.gain(way).gain for way in WAYS[1:]) for trials in result.values())
    own_total = sum(trials.gain(RELATIVE).gain for trials in result.values())
    analysis = (
        f"Rules priced against the model are significantly better than none on {len(better)} of {len(result)} data "
        f"sets, significantly worse on {len(worse)}. Of what the best way gains on each set they keep "
        f"{mean(kept) if kept else 0:.0%} (the mean of the last column), or "
        f"{own_total / total if total > 0 else 0:.0%} of all points together. Test sequences of different splits "
        "overlap, so the intervals are a little too narrow."
    )
    return Table("Gains over no rules, in points of sequences all right", columns, rows, "", analysis)


def _told(gain: Comparison) -> str:
    return f"{100 * gain.gain:+.2f} ({100 * gain.low:+.2f} to {100 * gain.high:+.2f}, {gain.p:.2g})"


def _chosen(result: dict[str, Trials]) -> Table:
    """Compare the number of rules, and the gain that cross-fitting foresaw with the gain on test data."""
    columns = (
        "rules by counts",
        "rules kept",
        "splits in which rules won",
        "gain foreseen",
        "gain seen",
        "seconds of training",
        "seconds of learning",
    )
    rows = []
    for name, trials in result.items():
        splits = trials.splits
        fitted = [item["cross-fitted"] for item in splits]
        foreseen = mean(100 * (item["relative"]["exact"] - item["plain"]["exact"]) * item["won"] for item in fitted)
        cells = [
            Cell(mean(item["rules"][COUNTS] for item in splits), digits=1),
            Cell(mean(item["rules"][RELATIVE] for item in splits), digits=1),
            Cell(f"{sum(item['won'] for item in fitted)} of {len(splits)}"),
            Cell(foreseen),
            Cell(trials.mean(RELATIVE) - trials.mean(PLAIN)),
            Cell(mean(item["seconds"]["training"] for item in splits), digits=1),
            Cell(mean(item["seconds"]["learning"] for item in splits), digits=1),
        ]
        rows.append(Row(name, cells))
    return Table("What was learned, and what cross-fitting foresaw", columns, rows)


def _strengths(result: dict[str, Trials]) -> Table:
    """Compare chosen and fixed regularisation by the share of sequences all right."""
    columns = [f"c2 = {c2:g}" for c2 in GRID] + ["auto", "auto - the best of each split"]
    rows, all_of_them = [], []
    for name, values in ((name, trials.grid) for name, trials in result.items() if trials.grid):
        fixed = [values[f"{c2:g}"] for c2 in GRID]
        gaps = [auto - max(item[k] for item in fixed) for k, auto in enumerate(values["auto"])]
        all_of_them += gaps
        rows.append(Row(name, [Cell(mean(item)) for item in (*fixed, values["auto"], gaps)]))
    analysis = (
        f"On average {mean(all_of_them) if all_of_them else 0:+.2f} points against the best fixed value of each split, "
        "which is not known in advance."
    )
    title = "c1 and c2 by cross-validation against fixed values of c2, sequences all right in percent"
    return Table(title, columns, rows, "", analysis)
