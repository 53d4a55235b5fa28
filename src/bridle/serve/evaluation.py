"""Effect of rules on labelled sequences, computed fast enough to be shown while rules are typed.

`bridle.learn.audit` computes similar figures in one call. Here, values that do not change between calls stay with the
data, labels are ids throughout, and a call can end before every rule has been tried alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from bridle.arrays import Ints, ranges
from bridle.deadline import Deadline
from bridle.decoding.problem import check_given
from bridle.errors import BridleError
from bridle.labels import Bools, Labels
from bridle.lattice import Batch
from bridle.learn.auditing import changed_sum, gold_counts, widened
from bridle.learn.evidence import Given, Ids, counter
from bridle.learn.trials import Positions, Trial, Trials, plain_ids, positions_of, token_places, with_positions
from bridle.recent import RecentCache
from bridle.report.sequences import RIGHT
from bridle.rules.base import Rule
from bridle.rules.conditions import TokenPlace
from bridle.serve.schemas import EvaluateAnswer, Quality, RuleFigures

_MAX_RULES = 1000  # rules whose violations are cached with the data


class GoldData:
    """Scores of sequences, values that rules refer to (`given`), and gold labels if there are any.

    Values that do not depend on rules are computed once, when they are first needed; those of single rules are cached.
    Missing gold labels are None; names that `labels` lacks count as mistakes. It may be used in several threads.
    """

    def __init__(
        self,
        labels: Labels,
        lattices: Batch,
        gold: Sequence[Sequence[str | None]] | None = None,
        given: Sequence[Given] | None = None,
    ) -> None:
        check_given(given, len(lattices))
        self.labels, self.lattices, self.given = labels, lattices, given
        self.counts = None if gold is None else gold_counts(gold, labels, lattices)
        self._wide = labels if gold is None else widened(labels, gold)
        self._violating = RecentCache(_MAX_RULES, 1 << 26)  # rule -> sequences that violate it
        self._places = RecentCache(_MAX_RULES, 1 << 26)  # condition on tokens -> its name, and where it holds
        self._names = count()
        self._alone = RecentCache(_MAX_RULES, 1 << 26)  # rule and options -> quality with this rule alone

    @cached_property
    def plain(self) -> Ids:
        """The best labels without rules, end to end."""
        return plain_ids(self.labels, self.lattices, threads=1)

    @cached_property
    def plain_counts(self) -> Ints | None:
        """Counts of correct tokens and segments of `plain`, by sequence."""
        return None if self.counts is None else self.counts.counts(self.plain)

    def place(self, rules: Sequence[Rule]) -> tuple[list[Rule], Sequence[Given] | None]:
        """Replace conditions on tokens by given positions; return the new rules and the given values."""
        rule_of = {place: rule for rule in rules for place in token_places(rule)}
        if not rule_of:
            return list(rules), self.given
        places = self._locate(rule_of)
        positions = dict(places.values())
        values: Sequence[Given] = self.given or [{}] * len(self.lattices)
        given = [
            {**row, **dict(zip(positions, at, strict=True))}
            for row, *at in zip(values, *positions.values(), strict=True)
        ]
        return [with_positions(rule, lambda place: places[place][0]) for rule in rules], given

    def _locate(self, rule_of: Mapping[TokenPlace, Rule]) -> dict[TokenPlace, tuple[str, Positions]]:
        """Return a name and the positions of each condition on tokens."""
        places = {place: self._places.get(place) for place in rule_of}
        new = [place for place, entry in places.items() if entry is None]
        try:
            located = positions_of(new, self.lattices.offsets, self.given)
        except BridleError as error:  # refers to an internal rule; replace it by the rule of the user
            conditions = token_places(error.rule) if isinstance(error.rule, Rule) else []
            error.rule = next((rule_of[place] for place in conditions if place in rule_of), None)
            raise
        for place, positions in zip(new, located, strict=True):
            places[place] = f"__place_{next(self._names)}", positions
            self._places.keep(place, places[place], 8 * (len(positions) + sum(map(len, positions))))
        return places

    def violating(
        self, rules: Sequence[Rule], placed: Sequence[Rule], given: Sequence[Given] | None, threads: int
    ) -> tuple[Bools, Bools | None]:
        """Return the sequences whose plain and gold labels violate each rule, (B, R) both; None without gold.

        `placed` and `given` are the result of `place`.
        """
        columns = {rule: self._violating.get(rule) for rule in rules}
        new = {rule: placed[r] for r, rule in enumerate(rules) if columns[rule] is None}
        if new:
            count = counter(list(new.values()), self.labels, threads=threads)
            plain = count(self.plain, self.lattices.offsets, given) > 0
            gold = self._gold_violating(list(new.values()), given, threads)
            for r, rule in enumerate(new):
                columns[rule] = plain[:, r], None if gold is None else gold[:, r]
                self._violating.keep(rule, columns[rule], 2 * len(plain))
        empty = np.zeros((len(self.lattices), 0), dtype=bool)
        plain = np.column_stack([empty, *(columns[rule][0] for rule in rules)])
        gold = None if self.counts is None else np.column_stack([empty, *(columns[rule][1] for rule in rules)])
        return plain, gold

    def _gold_violating(self, rules: Sequence[Rule], given: Sequence[Given] | None, threads: int) -> Bools | None:
        counts = self.counts
        if counts is None:
            return None
        gaps = np.bincount(counts.sequence[counts.ids < 0], minlength=len(counts))
        complete = np.flatnonzero(gaps == 0)  # sequences without a missing label
        tokens, offsets = ranges(counts.offsets, complete)
        values = None if given is None else [given[b] for b in complete.tolist()]
        count = counter(rules, self._wide, threads=threads)
        violating = np.zeros((len(counts), len(rules)), dtype=bool)
        violating[complete] = count(counts.ids[tokens].astype(np.int32), offsets, values) > 0
        return violating

    def quality(self, trial: Trial) -> Quality | None:
        """Return the quality of the labels of a trial; None without gold."""
        if self.counts is None or self.plain_counts is None:
            return None
        return Quality(*self.counts.shares(changed_sum(self.counts, self.plain_counts, trial)))

    def quality_alone(self, r: int, rule: Rule, trials: Trials, options: Mapping[str, Any]) -> Quality | None:
        """Return the quality with one rule, which has number r in the trials."""
        key = rule, tuple(sorted((name, repr(value)) for name, value in options.items()))
        quality: Quality | None = self._alone.get(key)
        if quality is None:
            quality = self.quality(trials.best([r]))
            self._alone.keep(key, quality, 100)
        return quality

    def gain(self, trial: Trial) -> Ints:
        """Return by how many correct tokens each sequence differs from the labels without rules, (B,)."""
        gain = np.zeros(len(self.lattices), dtype=np.int64)
        if self.counts is not None and self.plain_counts is not None:
            touched = trial.touched
            counts = self.counts.counts(trial.ids[ranges(self.counts.offsets, touched)[0]], touched)
            gain[touched] = counts[:, RIGHT] - self.plain_counts[touched, RIGHT]
        return gain

    def differing(self, ids: Ids, others: Ids) -> list[int]:
        """Return the sequences in which two labellings of all sequences differ."""
        tokens = np.flatnonzero(ids != others)
        differing: list[int] = np.unique(np.searchsorted(self.lattices.offsets, tokens, side="right") - 1).tolist()
        return differing


def evaluate(
    rules: Sequence[Rule],
    data: GoldData,
    *,
    budget: float | None = None,
    threads: int = 1,
    **options: Any,
) -> EvaluateAnswer:
    """Compute the effect of rules on labelled sequences, together and one by one.

    Hard rules that no labelling obeys are relaxed. After `budget` seconds, no further rule is tried alone or left out.
    `options` are those of `Decoder`, such as ``time_limit``.

    >>> import bridle
    >>> labels = bridle.Labels(["O", "A"], scheme="IO")
    >>> data = GoldData(labels, bridle.Batch([[0, 2], [1, 0], [0, 1]], [0, 3]), [["A", "O", "O"]])
    >>> evaluation = evaluate([bridle.rules.at_most(1, of="A")], data)
    >>> evaluation.none.f1, evaluation.all.f1, evaluation.improved
    (0.6666666666666666, 1.0, [0])
    """
    begun = time.perf_counter()
    deadline = Deadline.after(budget)
    placed, given = data.place(rules)
    plain, gold = data.violating(rules, placed, given, threads)
    trials = Trials(
        placed, data.labels, data.lattices, given, data.plain, broken=plain, threads=threads, options=options
    )
    full = trials.full
    best = full.trial
    figures, complete = [], True
    for r, rule in enumerate(rules):
        alone = without = changed = None
        if not deadline.passed():
            left_out = trials.best([k for k in range(len(rules)) if k != r])
            changed = len(data.differing(best.ids, left_out.ids))
            alone, without = data.quality_alone(r, rule, trials, options), data.quality(left_out)
        else:
            complete = False
        counts = (None if gold is None else int(gold[:, r].sum()), int(plain[:, r].sum()), int(full.broken[:, r].sum()))
        figures.append(RuleFigures(None, str(rule), *counts, alone, without, changed))
    gain = data.gain(best)
    return EvaluateAnswer(
        sequences=len(data.lattices),
        tokens=len(data.plain),
        none=data.quality(trials.best([])),
        all=data.quality(best),
        rules=figures,
        changed=data.differing(best.ids, data.plain),
        broken=np.flatnonzero(plain.any(axis=1)).tolist(),
        improved=np.flatnonzero(gain > 0).tolist(),
        worse=np.flatnonzero(gain < 0).tolist(),
        relaxed=np.flatnonzero(best.relaxed).tolist(),
        complete=complete,
        seconds=time.perf_counter() - begun,
    )
