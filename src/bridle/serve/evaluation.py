"""What each of some rules does to labelled sequences, fast enough to be shown while rules are typed.

`bridle.learn.audit` finds out the same, with other words, for people who can wait. Here, what does not change from one
call to the next stays with the data, labels are ids throughout, and a call can end before every rule was tried alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline
from bridle.decoding.problem import check_given
from bridle.errors import BridleError
from bridle.labels import Bools, Labels
from bridle.lattice import Batch
from bridle.learn.auditing import changed_sum, gold_counts, widened
from bridle.learn.evidence import Given, Ids, counter
from bridle.learn.trials import Positions, Trial, Trials, plain_ids, positions_of, token_places, with_positions
from bridle.ranges import Ints, ranges
from bridle.recent import RecentCache
from bridle.report.sequences import RIGHT
from bridle.rules.base import Rule
from bridle.rules.conditions import TokenPlace

_MOST_RULES = 1000  # that data remembers the violations of


@dataclass(frozen=True, slots=True)
class Quality:
    """How good some labellings are; shares from 0 to 1."""

    accuracy: float  # tokens with the right label
    f1: float  # of segments
    all_right: float  # sequences without a wrong label


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """What one rule does. None: there is no gold, or the time was up."""

    rule: Rule
    gold: int | None  # sequences whose gold labels break it
    plain: int  # ... whose labels without rules break it
    best: int  # ... whose labels under all rules break it
    alone: Quality | None  # with this rule only
    without: Quality | None  # with all rules but this one
    changed: int | None  # sequences whose labels are others because of it: all rules against all but this one


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What rules do to some sequences. Sequences are numbered from 0, in the order of the data."""

    sequences: int
    tokens: int
    none: Quality | None  # without rules; None without gold
    all: Quality | None  # with all rules
    rules: tuple[RuleFigures, ...]  # in the order of the rules
    changed: tuple[int, ...]  # sequences whose labels the rules change
    broken: tuple[int, ...]  # ... whose labels without rules break a rule
    improved: tuple[int, ...]  # ... with more tokens right than without rules
    worse: tuple[int, ...]  # ... with fewer
    relaxed: tuple[int, ...]  # ... in which no labelling obeys the hard rules
    complete: bool  # False: the time was up before `alone`, `without` and `changed` of every rule were computed
    seconds: float


class GoldData:
    """Scores of some sequences, what rules read of them, and gold labels if there are any.

    Keep it beside the data: what does not depend on rules is computed once, when it is first needed, and what depends
    on a single rule is kept for the rules that were used last. It may be used in several threads.

    Parameters
    ----------
    labels : Labels
        The labels of the scores.
    lattices : Batch
        The scores (`Tagger.lattices`).
    gold : sequence of sequence of str, optional
        Gold labels; None where a label is missing. Names that `labels` lacks are never right.
    given : sequence of mapping, optional
        Values that rules may refer to by name, a mapping per sequence: the columns of the data, and its tokens
        as "tokens".

    Raises
    ------
    LabelError
        If gold does not fit the scores or the tagging scheme.
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
        self._known = RecentCache(_MOST_RULES, 1 << 26)  # rule -> which sequences break it
        self._places = RecentCache(_MOST_RULES, 1 << 26)  # condition on tokens -> its name, and where it holds
        self._names = count()
        self._alone = RecentCache(_MOST_RULES, 1 << 26)  # rule and options -> how good decoding with it is

    @cached_property
    def plain(self) -> Ids:
        """The best labels without rules, end to end."""
        return plain_ids(self.labels, self.lattices, threads=1)

    @cached_property
    def plain_counts(self) -> Ints | None:
        """What is right of them, sequence by sequence."""
        return None if self.counts is None else self.counts.counts(self.plain)

    @cached_property
    def _whole(self) -> npt.NDArray[np.intp]:
        """Sequences whose gold labels are all known."""
        counts = self.counts
        assert counts is not None
        gaps = np.bincount(counts.sequence[counts.ids < 0], minlength=len(counts))
        return np.flatnonzero(gaps == 0)

    def placed(self, rules: Sequence[Rule]) -> tuple[list[Rule], Sequence[Given] | None]:
        """Rules in which positions are given instead of conditions on tokens, and what is given."""
        rule_of = {place: rule for rule in rules for place in token_places(rule)}
        if not rule_of:
            return list(rules), self.given
        known = self._found(rule_of)
        found = dict(known.values())
        own: Sequence[Given] = self.given or [{}] * len(self.lattices)
        given = [
            {**its, **dict(zip(found, places, strict=True))} for its, *places in zip(own, *found.values(), strict=True)
        ]
        return [with_positions(rule, lambda place: known[place][0]) for rule in rules], given

    def _found(self, rule_of: Mapping[TokenPlace, Rule]) -> dict[TokenPlace, tuple[str, Positions]]:
        """Conditions on tokens with a name for each, as long as it is remembered, and where they hold."""
        known = {place: self._places.get(place) for place in rule_of}
        new = [place for place, found in known.items() if found is None]
        try:
            found = positions_of(new, self.lattices.offsets, self.given)
        except BridleError as error:  # names a rule that asks for the positions, not the one that needs them
            asked = token_places(error.rule) if isinstance(error.rule, Rule) else []
            error.rule = next((rule_of[place] for place in asked if place in rule_of), None)
            raise
        for place, its in zip(new, found, strict=True):
            known[place] = f"__place_{next(self._names)}", its
            self._places.keep(place, known[place], 8 * (len(its) + sum(map(len, its))))
        return known

    def broken(
        self, rules: Sequence[Rule], placed: Sequence[Rule], given: Sequence[Given] | None, threads: int
    ) -> tuple[Bools, Bools | None]:
        """(B, R): which rules the plain labels break, and which the gold labels; None without gold.

        placed, given: the same rules as `placed` returns them.
        """
        known = {rule: self._known.get(rule) for rule in rules}
        where = {rule: r for r, rule in enumerate(rules) if known[rule] is None}
        if where:
            new = [placed[r] for r in where.values()]
            plain = counter(new, self.labels, threads=threads)(self.plain, self.lattices.offsets, given) > 0
            gold = self._gold_broken(new, given, threads)
            for r, rule in enumerate(where):
                known[rule] = plain[:, r], None if gold is None else gold[:, r]
                self._known.keep(rule, known[rule], 2 * len(plain))
        found = [known[rule] for rule in rules]
        empty = np.zeros((len(self.lattices), 0), dtype=bool)
        plain = np.stack([one for one, _ in found], axis=1) if found else empty
        if self.counts is None:
            return plain, None
        return plain, np.stack([one for _, one in found], axis=1) if found else empty

    def alone(self, r: int, rule: Rule, trials: Trials, options: Mapping[str, Any]) -> Quality | None:
        """How good decoding with one rule is, which is number r of the trials."""
        key = rule, tuple(sorted((name, repr(value)) for name, value in options.items()))
        found: Quality | None = self._alone.get(key)
        if found is None:
            found = _quality(self, trials.best([r]))
            self._alone.keep(key, found, 100)
        return found

    def _gold_broken(self, rules: Sequence[Rule], given: Sequence[Given] | None, threads: int) -> Bools | None:
        counts = self.counts
        if counts is None:
            return None
        some = self._whole
        tokens, cuts = ranges(counts.offsets, some)
        its = None if given is None else [given[b] for b in some.tolist()]
        out = np.zeros((len(counts), len(rules)), dtype=bool)
        out[some] = counter(rules, self._wide, threads=threads)(counts.ids[tokens].astype(np.int32), cuts, its) > 0
        return out


def evaluate(
    rules: Sequence[Rule],
    data: GoldData,
    *,
    budget: float | None = None,
    threads: int = 1,
    **options: Any,
) -> Evaluation:
    """Find out what rules do to labelled sequences, together and one by one.

    Parameters
    ----------
    rules : sequence of Rule
        The rules; hard ones that no labelling obeys are relaxed.
    data : GoldData
        The sequences.
    budget : float, optional
        Seconds after which no further rule is tried alone and left out (`Evaluation.complete`).
    threads : int, default 1
        Number of threads; 0 means all cores.
    **options
        Options of `Decoder`, such as ``time_limit``.

    Returns
    -------
    Evaluation
        Figures of all rules together and of each.

    Examples
    --------
    >>> import bridle
    >>> labels = bridle.Labels(["O", "A"], scheme="IO")
    >>> data = GoldData(labels, bridle.Batch([[0, 2], [1, 0], [0, 1]], [0, 3]), [["A", "O", "O"]])
    >>> found = evaluate([bridle.rules.at_most(1, of="A")], data)
    >>> found.none.f1, found.all.f1, found.improved
    (0.6666666666666666, 1.0, (0,))
    """
    begun = time.perf_counter()
    deadline = Deadline.after(budget)
    placed, given = data.placed(rules)
    plain, gold = data.broken(rules, placed, given, threads)
    lattices = data.lattices
    trials = Trials(placed, data.labels, lattices, given, data.plain, broken=plain, threads=threads, options=options)
    full = trials.full
    best = full.trial
    figures, complete = [], True
    for r, rule in enumerate(rules):
        alone = without = changed = None
        if not deadline.passed():
            left_out = trials.best([k for k in range(len(rules)) if k != r])
            changed = len(_differ(data, best, left_out))
            alone, without = data.alone(r, rule, trials, options), _quality(data, left_out)
        else:
            complete = False
        in_gold = None if gold is None else int(gold[:, r].sum())
        broken = int(plain[:, r].sum()), int(full.broken[:, r].sum())
        figures.append(RuleFigures(rule, in_gold, *broken, alone, without, changed))
    gain = _gain(data, best)
    return Evaluation(
        sequences=len(lattices),
        tokens=len(data.plain),
        none=_quality(data, trials.best([])),
        all=_quality(data, best),
        rules=tuple(figures),
        changed=_numbers(_differ(data, best)),
        broken=_numbers(np.flatnonzero(plain.any(axis=1))),
        improved=_numbers(np.flatnonzero(gain > 0)),
        worse=_numbers(np.flatnonzero(gain < 0)),
        relaxed=_numbers(np.flatnonzero(best.relaxed)),
        complete=complete,
        seconds=time.perf_counter() - begun,
    )


def _quality(data: GoldData, trial: Trial) -> Quality | None:
    if data.counts is None or data.plain_counts is None:
        return None
    return Quality(*data.counts.shares(changed_sum(data.counts, data.plain_counts, trial)))


def _gain(data: GoldData, trial: Trial) -> Ints:
    """(B,) how many more tokens are right than without rules."""
    gain = np.zeros(len(data.lattices), dtype=np.int64)
    if data.counts is not None and data.plain_counts is not None:
        some = trial.touched
        now = data.counts.counts(trial.ids[ranges(data.counts.offsets, some)[0]], some)
        gain[some] = now[:, RIGHT] - data.plain_counts[some, RIGHT]
    return gain


def _differ(data: GoldData, trial: Trial, other: Trial | None = None) -> npt.NDArray[np.intp]:
    """Sequences with other labels than in another trial, or than without rules."""
    tokens = np.flatnonzero(trial.ids != (data.plain if other is None else other.ids))
    return np.unique(np.searchsorted(data.lattices.offsets, tokens, side="right") - 1)


def _numbers(found: npt.NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(found.tolist())
