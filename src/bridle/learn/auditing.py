"""What each rule is worth: how often gold obeys it, how often a model does, and what it does to the model's labels.

    none   plain decoding                    alone[r]    plain decoding + rule r
    all    decoding with all rules           without[r]  decoding with all rules but r
    gain of r alone = alone[r] - none        gain of r among all = all - without[r]      (F1 of segments, tokens right)

    B sequences (b)    R rules (r)

A rule can change a sequence only if the plain labelling breaks one of the rules that are on: if it breaks none, it is
still the best. So only these are decoded (trials.py) and counted again, which makes R + R decodings of a corpus cheap.
Hard rules that no labelling obeys are relaxed to the fewest violations; the result says how many sequences did so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bridle.decoding.problem import offsets_of
from bridle.errors import LabelError, LatticeError
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Lattices
from bridle.learn.audit_result import Audit, Figures, Row, gain
from bridle.learn.trials import Trial, Trials, plain_ids
from bridle.learn.weights import Given, violations
from bridle.models.checks import all_known, labellings_of, one_of
from bridle.models.tagger import Tagger
from bridle.ranges import Ints, ranges
from bridle.report.packed import GoldCounts
from bridle.rules.base import Rule

Labellings = Sequence[Sequence[str]]


def audit(
    rules: Sequence[Rule],
    gold: Labellings,
    labels: Labels,
    *,
    given: Sequence[Given] | None = None,
    lattices: Lattices | None = None,
    guesses: Labellings | None = None,
    leave_out: Literal["each", "none"] = "each",
    threads: int = 0,
    **options: Any,
) -> Audit:
    """Check rules against gold labels and measure what they do to decoding.

    Parameters
    ----------
    rules : sequence of Rule
        The rules.
    gold : sequence of sequence of str
        Gold labels.
    labels : Labels
        Labels of the lattices; `gold` may hold more.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence.
    lattices : Batch or list of Lattice, optional
        Scores of the same sequences. Each rule is tried alone and left out of all; without scores, the audit only
        counts how often it holds.
    guesses : sequence of sequence of str, optional
        Labels of any tagger, to count how often they obey the rules; not together with `lattices`.
    leave_out : {"each", "none"}, default "each"
        ``"none"`` skips the decodings with all rules but one, which take half of the time.
    threads : int, default 0
        Number of threads; 0 means all cores.
    **options
        Options of `Decoder`, such as ``time_limit``.

    Returns
    -------
    Audit
        A row per rule, those that gain most first; `lines` prints it, `rows` and `to_dict` are for programs.

    Raises
    ------
    LatticeError
        If there are both lattices and guesses.
    LabelError
        If gold does not fit the lattices or guesses.

    Examples
    --------
    >>> from bridle import Labels, Lattice, rules
    >>> from bridle.learn import audit
    >>> found = audit([rules.at_most(1, of="A")], [["A", "B", "B"]], Labels(["A", "B"]),
    ...               lattices=[Lattice([[2, 0], [0, 2], [1, 0]])])
    >>> print(*found.lines(), sep="\\n")
    1 sequences, 1 rules
    no rules:  66.67% of the tokens right, F1 40.00%
    all rules: 100.00% of the tokens right, F1 100.00%
    in gold  plain  F1 alone  tokens alone  F1 among  tokens among  rule
     100.0%   0.0%    +60.00        +33.33    +60.00        +33.33  at most 1 segment of A
    """
    one_of("leave_out", leave_out, ("each", "none"))
    rules = list(rules)
    if lattices is not None and guesses is not None:
        raise LatticeError("`lattices` and `guesses` cannot be combined", got="both", wanted="one of them")
    in_gold = violations(rules, gold, widened(labels, gold), given, threads=threads) > 0
    count = len(in_gold)
    kept = (1 - in_gold.mean(axis=0) if count else np.ones(len(rules))).tolist()
    if lattices is None:
        obeys: list[Any] = [None] * len(rules)
        if guesses is not None:
            _same_lengths(gold, guesses)
            broken = violations(rules, guesses, widened(labels, guesses), given, threads=threads) > 0
            obeys = (1 - broken.mean(axis=0)).tolist() if count else [1.0] * len(rules)
        rows = [Row(rule, r, kept[r], obeys[r]) for r, rule in enumerate(rules)]
        return Audit(count, labels.scheme, tuple(sorted(rows, key=lambda row: -row.gold)))
    figures = _Figures(rules, gold, labels, given, lattices, {"threads": threads, **options})
    everything = list(range(len(rules)))
    none, full, broken = figures.of([]), figures.of(everything), figures.trials.broken
    rows = []
    for r, rule in enumerate(rules):
        others = [k for k in everything if k != r]
        without = figures.of(others) if leave_out == "each" else None
        obeyed = float(1 - broken[:, r].mean()) if count else 1.0
        rows.append(Row(rule, r, kept[r], obeyed, figures.of([r]), without))
    return Audit(count, labels.scheme, tuple(sorted(rows, key=lambda row: _worth(row, none, full))), none, full)


def audit_model(
    rules: Sequence[Rule],
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    *,
    given: Sequence[Given] | Table | None = None,
    threads: int = 0,
    **options: Any,
) -> Audit:
    """Measure what rules do to a trained model, as `audit` does.

    Parameters
    ----------
    rules : sequence of Rule
        The rules.
    model : Tagger
        The trained model.
    X : sequence of sequences
        Sequences as the model takes them; not those of its training.
    y : sequence of sequence of str
        Gold labels.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence. Texts of tokens come from `X`.
    threads : int, default 0
        Number of threads; 0 means all cores.
    **options
        `leave_out` of `audit`, and options of `Decoder`.

    Returns
    -------
    Audit
        A row per rule, those that gain most first.
    """
    lattices = model.lattices(X, threads=threads)
    known = model.given(X, model.decoder(rules), given)
    gold = all_known(labellings_of(y))
    return audit(rules, gold, model.labels_, given=known, lattices=lattices, threads=threads, **options)


def _worth(row: Row, none: Figures, everything: Figures) -> tuple[float, ...]:
    """Sorts the best first: gain alone, then gain among all, F1 before tokens, then what gold obeys more."""
    gains = [gain(none, row.alone, row.alone)[:2], gain(row.without, everything, row.without)[:2]]
    return (*(-(one or 0.0) for pair in gains for one in pair), -row.gold, row.number)


def widened(labels: Labels, labellings: Sequence[Sequence[str | None]]) -> Labels:
    """Labels with those that only these labellings have."""
    extra = sorted({name for one in labellings for name in one if isinstance(name, str)} - set(labels.names))
    return Labels([*labels.names, *extra], labels.scheme, outside=labels.outside) if extra else labels


def _same_lengths(gold: Labellings, guesses: Labellings) -> None:
    if list(map(len, gold)) != list(map(len, guesses)):
        raise LabelError(
            "guesses do not fit gold",
            got=f"{len(guesses)} labellings of other lengths",
            wanted=f"{len(gold)}, each as long as that of gold",
            cause="Are both from the same input?",
        )


class _Figures:
    """How good decoding with some of the rules is."""

    def __init__(
        self,
        rules: Sequence[Rule],
        gold: Labellings,
        labels: Labels,
        given: Sequence[Given] | None,
        lattices: Lattices,
        options: Mapping[str, Any],
    ) -> None:
        self.counts = gold_counts(gold, labels, lattices)
        options = dict(options)
        threads = options.pop("threads")
        plain = plain_ids(labels, lattices, threads=threads, options=options)
        self.trials = Trials(rules, labels, lattices, given, plain, threads=threads, options=options)
        self.base = self.counts.counts(plain)

    def of(self, chosen: Sequence[int]) -> Figures:
        """Decoding with these rules."""
        trial = self.trials.best(chosen)
        accuracy, f1, _ = self.counts.shares(changed_sum(self.counts, self.base, trial))
        return Figures(accuracy, f1, int(trial.relaxed.sum()))


def gold_counts(gold: Sequence[Sequence[str | None]], labels: Labels, lattices: Lattices) -> GoldCounts:
    """Gold labels, ready to be counted, if they fit the lattices."""
    offsets = offsets_of(lattices)
    if list(map(len, gold)) != np.diff(offsets).tolist():
        raise LabelError(
            "gold does not fit the lattices",
            got=f"{len(gold)} labellings",
            wanted=f"{len(offsets) - 1}, with a label per token",
            cause="Are both from the same input, in order?",
        )
    return GoldCounts(gold, labels.names, labels.scheme)


def changed_sum(counts: GoldCounts, base: Ints, trial: Trial) -> Ints:
    """Summed counts of a trial. base: of plain decoding, sequence by sequence."""
    some = trial.touched
    now = counts.counts(trial.ids[ranges(counts.offsets, some)[0]], some)
    total: Ints = base.sum(axis=0) - base[some].sum(axis=0) + now.sum(axis=0)
    return total
