"""The audit of rules: how often gold and a model obey each rule, and what each rule does to the model's labels.

    gain of r alone = F1 with r only - F1 without rules        gain of r among all = F1 with all - F1 with all but r

A rule changes a sequence only if the plain labelling breaks a rule, so only such sequences are decoded (trials.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from bridle.arrays import Ints, ranges
from bridle.decoding.documents import cuts_of
from bridle.decoding.problem import offsets_of
from bridle.errors import LabelError, LatticeError
from bridle.features import sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Lattices
from bridle.learn.evidence import Given, violations
from bridle.learn.trials import DocumentTrials, Trial, Trials, broken_in_documents, plain_ids
from bridle.models.checks import OnUnknown, all_known, given_of, labellings_of, one_of, used_sequences
from bridle.models.tagger import Tagger
from bridle.models.task import select
from bridle.report.plots import Drawn, draw_bars
from bridle.report.sequences import GoldCounts
from bridle.report.text import aligned
from bridle.rules.base import Rule, Soft
from bridle.rules.order import Before, FirstBefore

COLUMNS = (
    *("rule", "kind", "gold", "plain", "alone_f1", "alone_accuracy", "alone_relaxed"),
    *("among_f1", "among_accuracy", "without_relaxed"),
)
_HEADS = ["in gold", "plain", "F1 alone", "tokens alone", "F1 among", "tokens among", "relaxed", "rule"]
_OFTEN, _BETTER = 0.05, 0.05  # shares of the sequences for a hint: the rule is broken; the other rule holds in more

Labellings = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Measures of labellings: token accuracy, F1 of segments, and sequences that no labelling under the rules fits."""

    accuracy: float
    f1: float
    relaxed: int = 0


@dataclass(frozen=True, slots=True)
class AuditedRule:
    """A rule with its figures; those of decoding are None without scores."""

    rule: Rule
    number: int  # its place among the rules, from 0
    gold: float  # share of the sequences in which gold obeys it
    plain: float | None = None  # ... in which the labels without rules do
    alone: Figures | None = None  # decoding with this rule only
    without: Figures | None = None  # decoding with all rules but this one


@dataclass(frozen=True, slots=True)
class Audit(Drawn):
    """Figures about rules; `audit` returns it.

    Attributes
    ----------
    sequences : int
        Number of sequences.
    scheme : str or None
        Tagging scheme of the segments.
    audited : tuple of AuditedRule
        A row per rule, those that gain most first: `rule`, `number`, `gold`, `plain`, `alone` and `without`.
    none, all : Figures or None
        Decoding without rules, and with all of them: `accuracy`, `f1`, `relaxed`. None without scores.
    """

    sequences: int
    scheme: str | None
    audited: tuple[AuditedRule, ...]
    none: Figures | None = None
    all: Figures | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """Make a table.

        Returns
        -------
        list of tuple
            A row per rule: sentence, ``"hard"`` or ``"soft"``, share of gold and of plain decoding that obeys; then
            gain of F1, gain of accuracy and relaxed sequences, once for the rule alone over no rules, once for all
            rules over all but this one.
        """
        return [
            (
                str(row.rule),
                "soft" if isinstance(row.rule, Soft) else "hard",
                row.gold,
                row.plain,
                *_gains(self.none, row.alone),
                None if row.alone is None else row.alone.relaxed,
                *_gains(row.without, self.all),
                None if row.without is None else row.without.relaxed,
            )
            for row in self.audited
        ]

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures and the rows of the table by name; shares, not percent.
        """
        return {
            "sequences": self.sequences,
            "scheme": self.scheme,
            "none": None if self.none is None else asdict(self.none),
            "all": None if self.all is None else asdict(self.all),
            "rules": [dict(zip(COLUMNS, row, strict=True)) for row in self.rows()],
        }

    def lines(self) -> list[str]:
        """Print the table.

        Returns
        -------
        list of str
            Lines of text: shares in percent, gains in points. Empty columns are left out.
        """
        text = [f"{self.sequences:,} sequences, {len(self.audited)} rules"]
        for name, figures in (("no rules", self.none), ("all rules", self.all)):
            if figures is not None:
                relaxed = f", {figures.relaxed:,} sequences relaxed" if figures.relaxed else ""
                text.append(f"{name + ':':<11}{figures.accuracy:.2%} of the tokens right, F1 {figures.f1:.2%}{relaxed}")
        body = []
        for rule, _, gold, plain, f1, accuracy, relaxed, among, tokens, _ in self.rows():
            shares = ["" if share is None else f"{share:.1%}" for share in (gold, plain)]
            points = ["" if gain is None else f"{100 * gain:+.2f}" for gain in (f1, accuracy, among, tokens)]
            body.append([*shares, *points, str(relaxed or ""), rule])
        shown = [c for c in range(len(_HEADS)) if any(row[c] for row in body)]
        table = [[row[c] for c in shown] for row in (_HEADS, *body)] if body else []
        return text + aligned(table, left=[len(shown) - 1])

    def gains(self) -> list[tuple[str, float]]:
        """List the gains, which `plot` draws as bars.

        Returns
        -------
        list of tuple of str and float
            Of each rule its sentence and the gain of F1 when it is added alone, in points; without scores, the share of
            gold that obeys it, in percent.
        """
        if self.none is None:
            return [(str(row.rule), 100 * row.gold) for row in self.audited]
        return [(str(row.rule), 100 * (row.alone.f1 - self.none.f1)) for row in self.audited if row.alone is not None]

    def _draw(self, path: str | Path) -> None:
        draw_bars(path, self.gains(), "gold obeys, %" if self.none is None else "gain of F1 when added alone, points")


def _gains(before: Figures | None, after: Figures | None) -> tuple[float, float] | tuple[None, None]:
    if before is None or after is None:
        return None, None
    return after.f1 - before.f1, after.accuracy - before.accuracy


def audit(
    rules: Sequence[Rule],
    gold: Labellings,
    labels: Labels,
    *,
    given: Sequence[Given] | None = None,
    lattices: Lattices | None = None,
    guesses: Labellings | None = None,
    leave_out: Literal["each", "none"] = "each",
    groups: Sequence[Hashable] | None = None,
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
    groups : sequence, optional
        The document of each sequence; those of a document are in a row. They are decoded together, and shares and
        relaxed sequences are those of documents.
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
    >>> result = audit([rules.at_most(1, of="A")], [["A", "B", "B"]], Labels(["A", "B"]),
    ...                lattices=[Lattice([[2, 0], [0, 2], [1, 0]])])
    >>> print(*result.lines(), sep="\\n")
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

    cuts = None if groups is None else cuts_of(list(groups))

    def shares_obeying(labellings: Labellings) -> list[float]:
        if cuts is not None:
            known, values = widened(labels, labellings), [{}] * len(labellings) if given is None else given
            ids = [known.ids(names).tolist() for names in labellings]
            shares: list[float] = (1 - broken_in_documents(rules, ids, known, values, cuts).mean(axis=0)).tolist()
            return shares
        broken = violations(rules, labellings, widened(labels, labellings), given, threads=threads) > 0
        return (1 - broken.mean(axis=0)).tolist() if len(broken) else [1.0] * len(rules)

    in_gold = shares_obeying(gold)
    if lattices is not None:
        counts = gold_counts(gold, labels, lattices)
        plain = plain_ids(labels, lattices, threads=threads, options=options)
        trials: Trials | DocumentTrials
        if cuts is None:
            trials = Trials(rules, labels, lattices, given, plain, threads=threads, options=options)
        else:
            trials = DocumentTrials(rules, labels, lattices, given, plain, cuts, threads=threads, options=options)
        return _audit_trials(trials, counts, labels, in_gold, leave_out)
    in_guesses: Sequence[float | None] = [None] * len(rules)
    if guesses is not None:
        if list(map(len, gold)) != list(map(len, guesses)):
            raise LabelError(
                "guesses do not fit gold",
                got=f"{len(guesses)} labellings of other lengths",
                wanted=f"{len(gold)}, each as long as that of gold",
                cause="Are both from the same input?",
            )
        in_guesses = shares_obeying(guesses)
    rows = [AuditedRule(rule, r, in_gold[r], in_guesses[r]) for r, rule in enumerate(rules)]
    return Audit(len(gold), labels.scheme, tuple(sorted(rows, key=lambda row: -row.gold)))


def _audit_trials(
    trials: Trials | DocumentTrials,
    counts: GoldCounts,
    labels: Labels,
    in_gold: Sequence[float],
    leave_out: Literal["each", "none"],
) -> Audit:
    """Decode with each rule alone and with all others."""
    base, everything = counts.counts(trials.plain), list(range(len(trials.rules)))

    def figures_of(chosen: list[int]) -> Figures:
        trial = trials.best(chosen)
        accuracy, f1, _ = counts.shares(changed_sum(counts, base, trial))
        return Figures(accuracy, f1, int(trial.relaxed.sum()))

    none, full = figures_of([]), figures_of(everything)
    rows = []
    for r, rule in enumerate(trials.rules):
        without = figures_of([k for k in everything if k != r]) if leave_out == "each" else None
        obeyed = float(1 - trials.broken[:, r].mean()) if len(counts) else 1.0
        rows.append(AuditedRule(rule, r, in_gold[r], obeyed, figures_of([r]), without))

    def worth(row: AuditedRule) -> tuple[float, ...]:
        gains = (*_gains(none, row.alone), *_gains(row.without, full))
        return (*(-(gain or 0.0) for gain in gains), -row.gold, row.number)

    return Audit(len(counts), labels.scheme, tuple(sorted(rows, key=worth)), none, full)


def audit_model(
    rules: Sequence[Rule],
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    *,
    given: Sequence[Given] | Table | None = None,
    on_unknown: OnUnknown = "wrong",
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
    on_unknown : {"raise", "skip", "wrong"}, default "wrong"
        What to do with a gold label that the model does not know: raise an error, leave out the sequence, or count the
        label as an error.
    threads : int, default 0
        Number of threads; 0 means all cores.
    **options
        `leave_out` of `audit`, and options of `Decoder`.

    Returns
    -------
    Audit
        A row per rule, those that gain most first.
    """
    one_of("on_unknown", on_unknown, get_args(OnUnknown))
    X, gold, values = sequences_of(X), all_known(labellings_of(y)), given_of(given)
    used = used_sequences(model.decoder().labels.names, gold, on_unknown)
    if len(used) < len(gold) == len(X):
        chosen = used.tolist()
        X, gold, values = [X[k] for k in chosen], [gold[k] for k in chosen], select(values, used)
        if (groups := options.get("groups")) is not None:
            options["groups"] = [groups[k] for k in chosen]
    lattices = model.lattices(X, threads=threads)
    known = model.given(X, model.decoder(rules), values)
    return audit(rules, gold, model.labels_, given=known, lattices=lattices, threads=threads, **options)


def widened(labels: Labels, labellings: Sequence[Sequence[str | None]]) -> Labels:
    """Add the labels that only these labellings have."""
    extra = sorted({name for names in labellings for name in names if isinstance(name, str)} - set(labels.names))
    return Labels([*labels.names, *extra], labels.scheme, outside=labels.all_outside) if extra else labels


def gold_counts(gold: Sequence[Sequence[str | None]], labels: Labels, lattices: Lattices) -> GoldCounts:
    """Prepare gold labels for counting; raise `LabelError` if they do not fit the lattices."""
    lengths = offsets_of(lattices)[1:] - offsets_of(lattices)[:-1]
    if list(map(len, gold)) != lengths.tolist():
        raise LabelError(
            "gold does not fit the lattices",
            got=f"{len(gold)} labellings",
            wanted=f"{len(lengths)}, with a label per token",
            cause="Are both from the same input, in order?",
        )
    return GoldCounts(gold, labels.names, labels.scheme, labels.all_outside)


def changed_sum(counts: GoldCounts, base: Ints, trial: Trial) -> Ints:
    """Sum the counts of a trial over all sequences. base: counts of plain decoding, sequence by sequence."""
    touched = trial.touched
    now = counts.counts(trial.ids[ranges(counts.offsets, touched)[0]], touched)
    total: Ints = base.sum(axis=0) - base[touched].sum(axis=0) + now.sum(axis=0)
    return total


# ---- hints ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hint:
    """A rule that gold breaks often, and the rule that was perhaps meant, with the shares of gold that obey them."""

    rule: Rule
    instead: Rule
    gold: float
    gold_instead: float

    def __str__(self) -> str:
        written = f"`{self.rule}` holds in {self.gold:.1%} of gold"
        return f"{written}; did you mean `{self.instead}`, which holds in {self.gold_instead:.1%}?"

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold: sentences, and shares, not percent."""
        shares = {"gold": self.gold, "gold_instead": self.gold_instead}
        return {"rule": str(self.rule), "instead": str(self.instead), **shares}


def hints(
    result: Audit,
    gold: Sequence[Sequence[str]],
    labels: Labels,
    *,
    given: Sequence[Mapping[str, Any]] | None = None,
    threads: int = 0,
) -> list[Hint]:
    """Find rules `A before B` that gold breaks often, where `first A before first B` holds. Arguments as for `audit`.

    >>> from bridle import Labels, rules
    >>> gold, labels = [["START", "END", "START", "END"]], Labels(["START", "END"])
    >>> result = audit([rules.before("START", "END")], gold, labels)
    >>> print(*hints(result, gold, labels))
    `START before END` holds in 0.0% of gold; did you mean `first START before first END`, which holds in 100.0%?
    """
    often = {row.rule: row for row in result.audited if row.gold < 1 - _OFTEN}.values()  # each rule once
    pairs = [(row, other) for row in often if (other := _with_first(row.rule)) is not None]
    if not pairs:
        return []
    others = audit([other for _, other in pairs], gold, labels, given=given, threads=threads)
    held = {row.number: row.gold for row in others.audited}
    meant = [Hint(row.rule, other, row.gold, held[k]) for k, (row, other) in enumerate(pairs)]
    return [hint for hint in meant if hint.gold_instead >= hint.gold + _BETTER]


def _with_first(rule: Rule) -> Rule | None:
    """Return `first A before first B` for `A before B`, with the same penalty."""
    if isinstance(rule, Soft):
        inner = _with_first(rule.rule)
        return None if inner is None else replace(rule, rule=inner)
    return FirstBefore(rule.a, rule.b) if isinstance(rule, Before) else None
