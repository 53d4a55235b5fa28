"""Effect of rules on labelled sequences, computed fast enough to be shown while rules are typed.

`bridle.learn.audit` computes similar figures in one call. Here, values that do not change between calls stay with the
data, labels are ids throughout, and a call can end before every rule has been tried alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from bridle.arrays import Ints, ranges
from bridle.deadline import Deadline
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given, offsets_of
from bridle.errors import BridleError
from bridle.labels import Bools, Labels
from bridle.lattice import Lattices, subset
from bridle.learn.auditing import changed_sum, gold_counts, widened
from bridle.learn.counted import Counted
from bridle.learn.evidence import Given, Ids, counter
from bridle.learn.trials import Positions, Trial, Trials, plain_ids, positions_of, token_places, with_positions
from bridle.recent import RecentCache
from bridle.report.sequences import CORRECT, GUESSED, RIGHT
from bridle.report.significance import Floats
from bridle.rules.base import Rule
from bridle.rules.conditions import TokenPlace
from bridle.rules.documents import hard_part
from bridle.serve.schemas import RulesRequest

_MAX_RULES = 1000  # rules whose violations are cached with the data
_SAMPLES = 400  # of the bootstrap: enough for an interval that is shown with one decimal
_MOST_WEIGHTS = 8_000_000  # sequences x samples: larger data gets fewer samples
_MOST_MISTAKES = 20  # kinds of mistakes that are listed


class EvaluateRequest(RulesRequest, kw_only=True):
    """Rules to evaluate on uploaded data.

    After `budget` seconds, no further rule is tried alone or left out, and `complete` is false; the next request with
    the same rules goes on there.
    """

    data: str
    budget: Annotated[float, Meta(ge=0)] | None = None


class Quality(Struct):
    """Token accuracy, F1 of segments, and share of sequences without a mistake."""

    accuracy: float
    f1: float
    all_right: float


class Gain(Struct):
    """Gain in F1 with its 95 % bootstrap interval; sequences whose segments became better, and worse."""

    gain: float
    low: float
    high: float
    better: int
    worse: int


class Mistake(Struct):
    """A gold label and the one that was found instead, with its cause.

    "model": the label is the same without rules. "rules": the label without rules was right. "both": the rules changed
    a wrong label to another wrong one.
    """

    gold: str
    guess: str
    cause: Literal["model", "rules", "both"]
    count: int
    sequences: list[int]


class RuleEffect(Struct):
    """Effect of a rule on data, beside other rules.

    `gold_breaks` counts sequences whose gold labels break it, `right` and `wrong` the tokens that it makes so, and
    `changed` lists the sequences that it changes. Null: no gold labels.
    """

    gold_breaks: int | None
    right: int | None
    wrong: int | None
    gain: Gain | None
    changed: list[int]


class RuleSequences(Struct):
    """Sequences whose gold labels, labels without rules and labels under all rules violate a rule; those it changed."""

    gold: list[int] | None
    plain: list[int]
    best: list[int]
    changed: list[int] | None


class RuleFigures(Struct):
    """Figures of one rule.

    `gold`, `plain` and `best` count the sequences whose gold labels, labels without rules and labels under all rules
    violate it; `changed` counts the sequences whose labels depend on it. `alone` is the quality with this rule only,
    `without` the quality with all others; `gain` compares that with all rules, and `at` lists the sequences behind the
    counts. Null: no gold labels, or the time was up.
    """

    line: int | None
    rule: str
    gold: int | None
    plain: int
    best: int
    alone: Quality | None
    without: Quality | None
    changed: int | None
    gain: Gain | None
    at: RuleSequences


class EvaluateAnswer(Struct, kw_only=True):
    """Effect of rules on data, with sequences by number from 0.

    `none` is the quality without rules, `all` with all of them. `broken` lists the sequences whose labels without rules
    violate one; `improved` and `worse` those with more and fewer correct tokens; `relaxed` those in which no labelling
    obeys the hard rules.
    """

    sequences: int
    tokens: int
    none: Quality | None
    all: Quality | None
    gain: Gain | None
    rules: list[RuleFigures]
    changed: list[int]
    broken: list[int]
    improved: list[int]
    worse: list[int]
    relaxed: list[int]
    errors: list[int] | None
    errors_without: list[int] | None
    mistakes: list[Mistake]
    complete: bool
    seconds: float


_LeftOut = tuple[Quality | None, list[int], Gain | None]  # quality without it, sequences that it changes, its gain


class GoldData:
    """Scores of sequences, values that rules refer to (`given`), and gold labels if there are any.

    Values that do not depend on rules are computed once, when they are first needed; those of single rules are cached.
    Missing gold labels are None; names that `labels` lacks count as mistakes. It may be used in several threads.
    """

    def __init__(
        self,
        labels: Labels,
        lattices: Lattices,
        gold: Sequence[Sequence[str | None]] | None = None,
        given: Sequence[Given] | None = None,
    ) -> None:
        check_given(given, len(lattices))
        self.labels, self.lattices, self.given = labels, lattices, given
        self.offsets = offsets_of(lattices)
        self.counts = None if gold is None else gold_counts(gold, labels, lattices)
        self._wide = labels if gold is None else widened(labels, gold)
        self._violating = RecentCache(_MAX_RULES, 1 << 26)  # rule -> sequences that violate it
        self._places = RecentCache(_MAX_RULES, 1 << 26)  # condition on tokens -> its name, and where it holds
        self._names = count()
        self._alone = RecentCache(_MAX_RULES, 1 << 26)  # rule and options -> quality with this rule alone
        self._left_out: tuple[Any, dict[int, _LeftOut]] = None, {}  # rules and options; what leaving out a rule does

    @cached_property
    def plain(self) -> Ids:
        """The best labels without rules, end to end."""
        return plain_ids(self.labels, self.lattices, threads=1)

    @cached_property
    def plain_counts(self) -> Ints | None:
        """Counts of correct tokens and segments of `plain`, by sequence."""
        return None if self.counts is None else self.counts.counts(self.plain)

    @cached_property
    def gold_segments(self) -> Ints:
        """(B,): segments of the gold labels."""
        assert self.counts is not None
        return self.counts.counts(self.counts.ids)[:, CORRECT]

    @cached_property
    def lengths(self) -> Ints:
        """(B,): tokens with a gold label."""
        assert self.counts is not None
        return np.bincount(self.counts.sequence[self.counts.ids >= 0], minlength=len(self.counts))

    @cached_property
    def counted(self) -> Counted | None:
        """Sequences whose gold labels are complete and known, for the learner; None if there are none."""
        if self.counts is None or self.given is None:
            return None
        ids, known = self.counts.ids, len(self.labels)
        bad = np.bincount(self.counts.sequence[(ids < 0) | (ids >= known)], minlength=len(self.counts))
        chosen = np.flatnonzero(bad == 0)
        if not len(chosen):
            return None
        tokens, offsets = ranges(self.counts.offsets, chosen)
        texts = [text for b in chosen.tolist() for text in self.given[b]["tokens"]]
        return Counted(self.labels, ids[tokens], offsets, texts)

    @cached_property
    def weights(self) -> Floats:
        """(S, B): how often each sequence is in each sample of the bootstrap, the same samples for all rules."""
        count = len(self.lattices)
        samples = max(100, min(_SAMPLES, _MOST_WEIGHTS // max(count, 1)))
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / max(count, 1)), size=samples)
        return drawn.astype(np.float32)

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
            located = positions_of(new, self.offsets, self.given)
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
            plain = count(self.plain, self.offsets, given) > 0
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

    def left_out(self, rules: Sequence[Rule], options: Mapping[str, Any]) -> dict[int, _LeftOut]:
        """Return what leaving out each rule does, as far as calls with these rules have found it out."""
        key = list(rules), dict(options)
        if self._left_out[0] != key:
            self._left_out = key, {}
        return self._left_out[1]

    def f1_gain(self, before: Trial, after: Trial) -> Gain | None:
        """Return what the labels of a trial gain in F1 over those of another one, with a bootstrap interval."""
        if self.counts is None or not len(self.lattices):
            return None
        first, second = (self.counts_of(trial)[:, [CORRECT, GUESSED]] for trial in (before, after))
        columns = np.column_stack([first, second, self.gold_segments]).astype(np.float32)
        sums = np.vstack([columns.sum(axis=0, dtype=np.float64), self.weights @ columns])
        c0, g0, c1, g1, gold = sums.T
        gains = 2 * c1 / np.maximum(g1 + gold, 1) - 2 * c0 / np.maximum(g0 + gold, 1)
        better, worse = (int(np.sum(sign * (second - first) @ [2, -1] > 0)) for sign in (1, -1))
        low, high = np.quantile(gains[1:], [0.025, 0.975]).tolist()
        return Gain(float(gains[0]), low, high, better, worse)

    def counts_of(self, trial: Trial) -> Ints:
        """(B, 4): counts of the labels of a trial, by sequence."""
        assert self.counts is not None and self.plain_counts is not None
        counts, touched = self.plain_counts.copy(), trial.touched
        counts[touched] = self.counts.counts(trial.ids[ranges(self.counts.offsets, touched)[0]], touched)
        return counts

    def errors(self, trial: Trial) -> list[int] | None:
        """Count the wrong tokens of each sequence; None without gold."""
        if self.counts is None:
            return None
        errors: list[int] = (self.lengths - self.counts_of(trial)[:, RIGHT]).tolist()
        return errors

    def mistakes(self, trial: Trial) -> list[Mistake]:
        """Count pairs of a gold label and another one that a trial found, by cause; the most frequent first."""
        if self.counts is None:
            return []
        gold, best, plain = self.counts.ids, trial.ids.astype(np.int64), self.plain.astype(np.int64)
        at = np.flatnonzero((gold >= 0) & (best >= 0) & (gold != best))
        cause = np.where(plain[at] == best[at], 0, np.where(plain[at] == gold[at], 1, 2))
        keys = np.stack([gold[at], best[at], cause], axis=1)
        kinds, which, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
        which, names, mistakes = which.reshape(-1), self.counts.names, []
        for k in np.argsort(-counts, kind="stable")[:_MOST_MISTAKES].tolist():
            y, guess, why = kinds[k].tolist()
            sequences = np.unique(self.counts.sequence[at[which == k]]).tolist()
            mistakes.append(Mistake(names[y], names[guess], ("model", "rules", "both")[why], int(counts[k]), sequences))
        return mistakes

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
        differing: list[int] = np.unique(np.searchsorted(self.offsets, tokens, side="right") - 1).tolist()
        return differing


class Additions:
    """Effects of further rules, one at a time, in addition to some rules on labelled sequences.

    Only sequences whose labels break the further rule are decoded again: for the others, the best labels stay the best.
    """

    def __init__(self, data: GoldData, rules: Sequence[Rule], **options: Any) -> None:
        self._data, self._rules = data, list(rules)
        self._options = {"on_infeasible": "relax", **options}
        placed, given = data.place(self._rules)
        plain, _ = data.violating(self._rules, placed, given, 1)
        trials = Trials(placed, data.labels, data.lattices, given, data.plain, broken=plain, threads=1, options=options)
        self.base = trials.full.trial

    def gold_breaks(self, rule: Rule) -> int | None:
        """Count the sequences whose gold labels break a rule; None without gold."""
        bare = [hard_part(rule)]
        gold = self._data.violating(bare, *self._data.place(bare), 1)[1]
        return None if gold is None else int(gold.sum())

    def best(self, rule: Rule) -> Trial:
        """Return the labels under the rules and this one."""
        data, base = self._data, self.base
        placed, given = data.place([*self._rules, rule])
        count = counter(placed[-1:], data.labels, threads=1)
        chosen = np.flatnonzero(count(np.maximum(base.ids, 0), data.offsets, given)[:, 0])
        if not len(chosen):
            return base
        decoder = Decoder(data.labels, placed, **self._options)
        its = None if given is None else [given[b] for b in chosen.tolist()]
        decodings = decoder.decode_batch(subset(data.lattices, chosen), its, threads=1)
        ids, relaxed = base.ids.copy(), base.relaxed.copy()
        ids[ranges(data.offsets, chosen)[0]] = decodings.ids
        relaxed[chosen] = decodings.relaxed
        return Trial(ids, np.union1d(base.touched, chosen), relaxed)

    def effect(self, rule: Rule) -> RuleEffect:
        """Measure what this rule adds."""
        data, trial = self._data, self.best(rule)
        changed = data.differing(trial.ids, self.base.ids)
        if data.counts is None:
            return RuleEffect(None, None, None, None, changed)
        gold = data.counts.ids
        before, after = (gold >= 0) & (self.base.ids == gold), (gold >= 0) & (trial.ids == gold)
        right, wrong = int((after & ~before).sum()), int((before & ~after).sum())
        return RuleEffect(self.gold_breaks(rule), right, wrong, data.f1_gain(self.base, trial), changed)


def numbers(where: Bools) -> list[int]:
    """Return the numbers of the sequences that are marked."""
    marked: list[int] = np.flatnonzero(where).tolist()
    return marked


def evaluate(
    rules: Sequence[Rule],
    data: GoldData,
    *,
    budget: float | None = None,
    threads: int = 1,
    **options: Any,
) -> EvaluateAnswer:
    """Compute the effect of rules on labelled sequences, together and one by one.

    Hard rules that no labelling obeys are relaxed. After `budget` seconds, no further rule is tried alone or left out;
    the next call with the same rules goes on there. `options` are those of `Decoder`, such as ``time_limit``.

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
    figures, left_out = [], data.left_out(rules, options)
    for r, rule in enumerate(rules):
        alone = without = gained = None
        at = RuleSequences(
            None if gold is None else numbers(gold[:, r]), numbers(plain[:, r]), numbers(full.broken[:, r]), None
        )
        if r not in left_out and not deadline.passed():
            trial = trials.best([k for k in range(len(rules)) if k != r])
            left_out[r] = data.quality(trial), data.differing(best.ids, trial.ids), data.f1_gain(trial, best)
        if r in left_out:
            without, at.changed, gained = left_out[r]
            alone = data.quality_alone(r, rule, trials, options)
        changed = None if at.changed is None else len(at.changed)
        counts = None if at.gold is None else len(at.gold), len(at.plain), len(at.best)
        figures.append(RuleFigures(None, str(rule), *counts, alone, without, changed, gained, at))
    none = trials.best([])
    gain = data.gain(best)
    return EvaluateAnswer(
        sequences=len(data.lattices),
        tokens=len(data.plain),
        none=data.quality(none),
        all=data.quality(best),
        gain=data.f1_gain(none, best),
        rules=figures,
        changed=data.differing(best.ids, data.plain),
        broken=numbers(np.asarray(plain.any(axis=1))),
        improved=numbers(gain > 0),
        worse=numbers(gain < 0),
        relaxed=numbers(best.relaxed),
        errors=data.errors(best),
        errors_without=data.errors(none),
        mistakes=data.mistakes(best),
        complete=len(left_out) == len(rules),
        seconds=time.perf_counter() - begun,
    )
