"""RelationalRules: rules between the labels of a sequence, found in labelled sequences (Fersini et al. 2012, 3.1.1).

candidates of all kinds  ->  often enough, true enough, not by chance  ->  not implied by others  ->  needed to tell
right labellings from wrong ones  ->  penalties:  -log (exceptions + 1/2) / (support + 1)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Any, Literal, Self, cast

import numpy as np

from bridle.automata import DFA, CountingAutomaton
from bridle.deadline import Deadline
from bridle.decoding.documents import cuts_of
from bridle.decoding.problem import check_given
from bridle.engines.highs import INTEGRALITY, IntegerProgram, Solver
from bridle.errors import LabelError, ModelError, RuleError, shown
from bridle.features.columns import columns_of, sequences_of
from bridle.labels import Bools, Labels, Scheme
from bridle.learn.candidates import KINDS, OF_TOKENS, Candidate, Limits
from bridle.learn.counted import Counted, Ints, corrupt, wrong_labellings
from bridle.learn.documents import ACROSS, AGREEMENT, across, joined_labels, mine_agreement
from bridle.learn.evidence import Learned, from_counts, penalty_of, rules_of
from bridle.models.checks import check_seed, count_of, given_of, ids_of, labellings_of, names_of, one_of
from bridle.models.estimator import Estimator
from bridle.report.significance import Floats, benjamini_hochberg
from bridle.rules.base import Rule
from bridle.rules.documents import in_document
from bridle.rules.lint_automata import Questions, TooLarge
from bridle.rules.positions import Allow

ALL = (*KINDS, AGREEMENT)
_SECONDS = 5.0  # for one clause; then the rules are chosen greedily
_PATTERNS = 2_000  # wrong labellings that the same rules separate are one pattern; the frequent ones count


@dataclass(frozen=True)
class Report:
    """Counts of candidates, and of those that were dropped or kept."""

    candidates: dict[str, int]  # by kind
    dropped: dict[str, int]  # by reason: rare, broken too often, may be due to chance, redundant, not selected, ...
    kept: dict[str, int]  # by kind
    skipped: tuple[str, ...]  # kinds that look at tokens, when there are none
    wrong: int  # number of wrong labellings
    separated: float  # the share of them that breaks a rule that was kept
    clauses: tuple[tuple[tuple[str, ...], float], ...]  # the rules of each clause as text, and its power

    def __str__(self) -> str:
        lines = [f"{sum(self.candidates.values())} candidates, {sum(self.kept.values())} rules kept"]
        lines += [f"  {n:5} {reason}" for reason, n in self.dropped.items() if n]
        if self.skipped:
            lines.append(f"  without tokens no rules of the kinds {', '.join(self.skipped)}")
        lines.append(f"  {self.separated:.1%} of {self.wrong} wrong labellings break a rule that was kept")
        return "\n".join(lines)


class RelationalRules(Estimator):
    """Find rules between the labels of a sequence in labelled sequences (Fersini et al. 2012).

    `fit` sets `rules_`, ready for a `Decoder`; `learned_`, the same with their evidence, the most useful first, those
    about documents last; `powers_`, the share of wrong labellings that each separates (NaN for rules about documents);
    and `report_`, counts of candidates.

    Parameters
    ----------
    kinds : sequence of str, optional
        Kinds of rules to look for; all by default. ``"adjacency"``, ``"precedence"``, ``"presence"``, ``"ends"``,
        ``"count"``, ``"implication"`` and ``"exclusion"`` are about labels only, ``"change"`` and ``"tokens"`` also
        look at tokens. ``"agreement"`` of equal tokens is about documents and looks at tokens; with ``penalty=None``
        it must reach `min_confidence`. Other kinds about documents: ``"precedence"``, ``"presence"``, ``"count"``,
        ``"implication"`` and ``"exclusion"``.
    min_support : int, default 10
        Number of sequences to which a rule must apply.
    min_confidence : float, default 0.95
        Share of these that must obey it.
    significance : float, default 0.01
        Share of the rules found that may be due to chance.
    select : {"cover", "all"}, default "cover"
        ``"cover"``: few rules that together separate right labellings from wrong ones; ``"all"``: all that qualify.
    min_power : float, default 0.002
        Share of the wrong labellings that the last rule of a cover must add.
    max_rules : int, optional
        Keep at most this many, the most useful ones.
    penalty : {"counts"} or None, default "counts"
        Soft rules, priced by `from_counts`; None makes hard rules.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        Tagging scheme of the labels; ``"auto"`` finds it from their names.
    column : str, default "word"
        Column of X with the texts of the tokens.
    wrong : int, default 4000
        Number of wrong labellings to generate; rules are judged by them.
    seed : int, default 0
        Seed of the random number generator that generates them.

    Examples
    --------
    >>> from bridle.learn import RelationalRules
    >>> y = [["A", "B", "B"], ["A", "A", "B"], ["A", "B"]] * 10
    >>> print(*RelationalRules(["presence", "count"], penalty=None).fit(None, y).rules_, sep="\\n")
    A before B
    """

    learned_: list[Learned]  # the most useful first
    powers_: list[float]  # the share of wrong labellings that each separates by itself
    rules_: list[Rule]
    labels_: Labels
    report_: Report

    def __init__(
        self,
        kinds: Sequence[str] = ALL,
        *,
        min_support: int = 10,
        min_confidence: float = 0.95,
        significance: float = 0.01,
        select: Literal["cover", "all"] = "cover",
        min_power: float = 0.002,
        max_rules: int | None = None,
        penalty: Literal["counts"] | None = "counts",
        scheme: str | None = "auto",
        column: str = "word",
        wrong: int = 4000,
        seed: int = 0,
    ) -> None:
        self.kinds, self.min_support, self.min_confidence = kinds, min_support, min_confidence
        self.significance, self.select, self.min_power, self.max_rules = significance, select, min_power, max_rules
        self.penalty, self.scheme, self.column, self.wrong, self.seed = penalty, scheme, column, wrong, seed

    def __repr__(self) -> str:
        defaults = self._defaults()
        shown = (f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name])
        return f"RelationalRules({', '.join(shown)})"

    def fit(
        self,
        X: Sequence[Any] | None,
        y: Sequence[Sequence[str]],
        given: Sequence[Mapping[str, Any]] | None = None,
        *,
        wrong: Sequence[Sequence[Sequence[str]]] | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> Self:
        """Find rules.

        Parameters
        ----------
        X : sequence of sequences or None
            Columns (``{"word": [...]}``), or lists of texts, for kinds of rules that look at tokens.
        y : sequence of sequence of str
            A label per token.
        given : sequence of mapping, optional
            A mapping per sequence; if `X` is None, its value ``"tokens"`` has the texts.
        wrong : sequence, optional
            For each sequence, labellings that are wrong, for example the k best of a model. By default they are
            generated from `y`.
        groups : sequence, optional
            The document of each sequence; those of a document are in a row. Rules about documents are then found, too.

        Returns
        -------
        RelationalRules
            Itself.

        Raises
        ------
        ModelError
            If a setting is invalid, or all kinds need tokens and there are none.
        LabelError
            If `y` does not fit `X`, or `wrong` does not fit `y`.
        GivenError
            If a document comes back after another one.
        """
        self._check()
        data = self._counted(X, y, given)
        of_tokens = {*OF_TOKENS, AGREEMENT} if groups is not None else OF_TOKENS
        skipped = tuple(kind for kind in self.kinds if kind in of_tokens) if data.tokens is None else ()
        limits = Limits(float(self.min_confidence), int(self.min_support))
        proposers = [KINDS[kind] for kind in self.kinds if kind in KINDS and kind not in skipped]
        candidates = [candidate for propose in proposers for candidate in propose(data, limits)]
        dropped: Counter[str] = Counter()
        good = self._needed(self._true(candidates, data, dropped), data, dropped)
        if wrong is None:
            labellings, owner = corrupt(data, self.wrong, self.seed)
        else:
            labellings, owner = wrong_labellings(data, _ids(data, wrong))
        broken = [c.broken(data) for c in good]
        separates = np.zeros((len(good), len(labellings)), dtype=bool)
        for row, c, bad in zip(separates, good, broken, strict=True):
            row[:] = c.broken(labellings) & ~bad[owner] if len(labellings) else False
        powers = separates.mean(axis=1) if len(labellings) else np.zeros(len(good))
        clauses: list[Clause] = []
        picked = list(range(len(good)))
        if self.select == "cover" and len(labellings) and good:
            costs = np.array([bad.sum() + c.cost for c, bad in zip(good, broken, strict=True)])
            clauses = cover(separates, costs, min_power=self.min_power)
            picked = sorted(i for clause in clauses for i in clause.rules)
            dropped["not selected: others separate the same wrong labellings"] = len(good) - len(picked)
        best = sorted(picked, key=lambda i: (-powers[i], good[i].log_tail, str(good[i].rule)))
        if self.max_rules is not None and len(best) > self.max_rules:
            dropped["less useful than max_rules others"] = len(best) - self.max_rules
            best = best[: self.max_rules]

        of_documents, proposed = ([], []) if groups is None else self._about_documents(data, groups, limits, dropped)
        if self.max_rules is not None:
            of_documents = of_documents[: self.max_rules - len(best)]
        self.labels_ = data.labels
        self.learned_ = [self._learned(good[i], int(broken[i].sum()), data) for i in best] + of_documents
        self.powers_ = [float(powers[i]) for i in best] + [math.nan] * len(of_documents)
        self.rules_ = rules_of(self.learned_)
        self.report_ = Report(
            dict(Counter([*(c.kind for c in candidates), *proposed])),
            {reason: int(n) for reason, n in dropped.items()},
            dict(Counter(learned.kind for learned in self.learned_)),
            skipped,
            len(labellings),
            float(separates[best].any(axis=0).mean()) if len(labellings) and best else 0.0,
            tuple((tuple(str(good[i].rule) for i in clause.rules), clause.power) for clause in clauses),
        )
        return self

    def _about_documents(
        self, data: Counted, groups: Sequence[Hashable], limits: Limits, dropped: Counter[str]
    ) -> tuple[list[Learned], list[str]]:
        """Find rules about documents; return the kinds of all candidates, too."""
        documents = np.array(cuts_of(groups), dtype=np.int64)
        agreement: list[Learned] = []
        if AGREEMENT in self.kinds and data.tokens is not None:
            limits_of_pairs = limits if self.penalty is None else replace(limits, confidence=0.0)
            agreement = mine_agreement(data, documents, limits_of_pairs, self.significance)
        kinds = [kind for kind in self.kinds if kind in ACROSS]
        joined, reasons = joined_labels(data, documents), Counter[str]()
        candidates = list(across(joined, kinds, limits))
        good = self._needed(self._true(candidates, joined, reasons), joined, reasons)
        others: list[Learned] = []
        for candidate in sorted(good, key=lambda c: (c.log_tail, str(c.rule))):
            learned = self._learned(candidate, int(candidate.broken(joined).sum()), joined)
            others.append(replace(learned.hard(), rule=in_document(candidate.rule), unit="documents"))
        for reason, n in reasons.items():
            dropped[f"about documents: {reason.replace('sequence', 'document')}"] += n
        kept = [learned if self.penalty is None else _by_counts(learned) for learned in (*agreement, *others)]
        return kept, [*(learned.kind for learned in agreement), *(c.kind for c in candidates)]

    def _check(self) -> None:
        if isinstance(self.kinds, str) or not all(isinstance(kind, str) for kind in self.kinds):
            raise ModelError("`kinds` must be a list of kinds", got=shown(self.kinds), wanted=", ".join(ALL))
        for kind in self.kinds:
            one_of("kind of rule", kind, ALL)
        one_of("select", self.select, ("cover", "all"))
        if self.penalty is not None:
            one_of("penalty", self.penalty, ("counts",))
        for name in ("min_confidence", "significance", "min_power"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.floating)) or isinstance(value, bool) or not 0 < value <= 1:
                raise ModelError(f"invalid value of `{name}`", got=repr(value), wanted="a number above 0, at most 1")
        for name in ("min_support", "wrong", *(["max_rules"] if self.max_rules is not None else [])):
            count_of(name, getattr(self, name))
        check_seed(self.seed)

    def _counted(self, X: Any, y: Any, given: Any) -> Counted:
        y, given = labellings_of(y), given_of(given)
        names = names_of(y)
        labels = Labels(names, cast(Scheme | None, self.scheme))
        check_given(given, len(y))
        texts: list[Sequence[str]] | None = None
        if X is not None:
            texts = [columns_of(x, (self.column,), self.column, k)[self.column] for k, x in enumerate(sequences_of(X))]
        elif given is not None and all("tokens" in values for values in given):
            texts = [values["tokens"] for values in given]
        elif self.kinds and set(self.kinds) <= OF_TOKENS:
            raise ModelError(
                "these kinds of rules need tokens",
                got="X=None",
                wanted="X, or given with 'tokens'",
                cause=f"Kinds that look at labels only: {', '.join(kind for kind in ALL if kind not in OF_TOKENS)}.",
            )
        offsets = np.cumsum([0, *map(len, y if texts is None else texts)]).astype(np.int64)
        ids = ids_of(labels, y, offsets).astype(np.int64)
        return Counted(labels, ids, offsets, None if texts is None else [str(t) for t in chain.from_iterable(texts)])

    def _true(self, candidates: list[Candidate], data: Counted, dropped: Counter[str]) -> list[Candidate]:
        """Select candidates that apply often, are seldom broken, and do not hold by chance."""
        tested = [c for c in candidates if c.applies.sum() >= self.min_support]
        dropped["apply to too few sequences"] = len(candidates) - len(tested)
        sure = benjamini_hochberg([c.log_tail for c in tested], self.significance)
        held = [1 - c.broken(data).sum() / c.applies.sum() >= self.min_confidence for c in tested]
        dropped["broken too often"] = len(tested) - sum(held)
        dropped["may be due to chance"] = sum(fine and not trust for fine, trust in zip(held, sure, strict=True))
        return [c for c, fine, trust in zip(tested, held, sure, strict=True) if fine and trust]

    def _needed(self, good: list[Candidate], data: Counted, dropped: Counter[str]) -> list[Candidate]:
        """Drop candidates until some sequence obeys all of them, then those that follow from others."""
        good = sorted(good, key=lambda c: (c.cost, c.broken(data).sum(), c.log_tail))
        broken = np.array([c.broken(data) for c in good]).reshape(len(good), len(data))
        keep = np.ones(len(good), dtype=bool)
        while keep.any() and broken[keep].any(axis=0).all():
            keep[int(np.argmax(np.where(keep, broken.sum(axis=1), -1)))] = False
        dropped["no sequence obeys them together with the others"] = int((~keep).sum())
        good = list(compress(good, keep))
        left = needed([c.rule for c in good], data)
        dropped["follow from others"] = len(good) - sum(left)
        return list(compress(good, left))

    def _learned(self, candidate: Candidate, exceptions: int, data: Counted) -> Learned:
        support = int(candidate.applies.sum())
        learned = Learned(candidate.rule, candidate.kind, len(data) - exceptions, len(data), support)
        return learned if self.penalty is None else _by_counts(learned)


def _by_counts(learned: Learned) -> Learned:
    (soft,) = from_counts([learned])
    return learned.soft(round(penalty_of(soft.rule), 3))


def _ids(data: Counted, wrong: Any) -> list[list[Ints]]:
    """Convert wrong labellings to ids, several per sequence."""
    if not hasattr(wrong, "__len__") or len(wrong) != len(data):
        raise LabelError("wrong labellings do not fit y", got=shown(wrong), wanted=f"{len(data)} lists of them")
    ids = [[data.labels.ids(labels).astype(np.int64) for labels in labellings] for labellings in wrong]
    for k, length in enumerate(data.lengths.tolist()):
        for labels in ids[k]:
            if len(labels) != length:
                got = len(labels)
                raise LabelError("a wrong labelling has another length than y", got=got, wanted=length, sequence=k)
    return ids


# ---- rules that follow from others ----------------------------------------------------------------------------------


def needed(rules: Sequence[Rule], data: Counted, *, budget: int = 10_000_000) -> list[bool]:
    """Mark the rules that stay when those that follow from the others are dropped, the last first.

    Rules over labels are automata D: the rules R imply r if no sequence is in ~D(r) & D(R). A rule that allows labels
    at tokens follows from one that allows no others at (in the data) no fewer tokens. What takes too long to decide
    stays. The rules must be able to hold together, else all would follow. budget: steps of automata to spend.
    """
    ask = Questions(budget)
    automata = [automata_of(rule, data.labels) for rule in rules]
    kept = [True] * len(rules)
    for i in reversed(range(len(rules))):
        others = [j for j in range(len(rules)) if kept[j] and j != i]
        if not automata[i]:
            kept[i] = not any(_covers(rules[j], rules[i], data) for j in others)
            continue
        try:
            kept[i] = not implied(automata[i], [part for j in others for part in automata[j]], ask)
        except TooLarge:
            if ask.left <= 0:
                break
    return kept


def implied(parts: Sequence[DFA], others: Sequence[DFA], ask: Questions) -> bool:
    """Check whether all words that all of `others` accept belong to all of `parts`; others are intersected lazily."""
    for part in parts:
        product = [~part]
        while (word := ask.word(product)) is not None:
            broken = next((other for other in others if not other.accepts(word)), None)
            if broken is None:
                return False
            product.append(broken)
    return True


def automata_of(rule: Rule, labels: Labels) -> tuple[DFA, ...]:
    """Build the automata of a rule that looks at labels only; none if it is too large or looks at tokens."""
    if rule.places():
        return ()
    try:
        automata = rule.automata(tuple(names.resolve(labels, {}) for names in rule.names()), labels)
        return tuple(CountingAutomaton.build(automaton, len(labels)).dfa() for automaton in automata)
    except RuleError:
        return ()


def _covers(rule: Rule, other: Rule, data: Counted) -> bool:
    """Check whether a rule that allows labels at tokens implies another such rule on this data."""
    if not (isinstance(rule, Allow) and isinstance(other, Allow)):
        return False
    narrow, wide = (frozenset[int]().union(*allow.labels.resolve(data.labels, {})) for allow in (rule, other))
    many, few = (data.matching(allow.at.source.pattern) for allow in (rule, other))  # type: ignore[union-attr]
    return narrow <= wide and bool((many | ~few).all())


# ---- rules that separate right labellings from wrong ones -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clause:
    """Rules that were selected together."""

    rules: tuple[int, ...]
    power: float  # the share of all wrong labellings that it separates and no clause before it


def cover(separates: Bools, costs: Floats, *, min_power: float, share: float = 0.5) -> list[Clause]:
    """Select rules by clauses of falling power. separates (R, W): rule j separates wrong labelling i; costs (R,) > 0.

    Each clause is the cheapest that separates a share of what is left (Felici & Truemper 2002, Fersini et al. 2012):

        minimise    sum_j cost[j] x[j]                          cost = exceptions in training + length
        subject to  sum_{j separates i} x[j] >= z[i]            for all i that no clause separates yet
                    sum_i weight[i] z[i] >= share * sum_i weight[i],   x[j] in {0, 1},  0 <= z[i] <= 1

    The first clause below `min_power` and all after it are left out: they explain outliers.

    >>> sees = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=bool)
    >>> cover(sees, np.ones(3), min_power=0.1)
    [Clause(rules=(0,), power=0.75), Clause(rules=(2,), power=0.25)]
    """
    total = separates.shape[1]
    patterns, counts = np.unique(separates[:, separates.any(axis=0)], axis=1, return_counts=True)  # (R, P), (P,)
    often = np.sort(np.argsort(-counts, kind="stable")[:_PATTERNS])
    patterns, weights = patterns[:, often], counts[often].astype(np.float64)
    clauses: list[Clause] = []
    while weights.sum() > 0:
        chosen = _clause(patterns, weights, costs, share)
        done = patterns[chosen].any(axis=0)
        power = float(weights[done].sum() / total)
        if power < min_power:
            break
        reach = patterns[chosen] @ weights
        clauses.append(Clause(tuple(chosen[i] for i in np.argsort(-reach, kind="stable")), power))
        patterns, weights = patterns[:, ~done], weights[~done]
    return clauses


def _clause(patterns: Bools, weights: Floats, costs: Floats, share: float) -> list[int]:
    """Find the cheapest rules that separate a share of the weight."""
    (n_rules, n), wanted = patterns.shape, share * float(weights.sum())
    rows, kinds = np.nonzero(np.append(patterns, np.eye(n, dtype=bool), axis=0).T)  # who separates i, and z[i]
    program = IntegerProgram(
        cost=np.concatenate([costs, np.zeros(n)]),
        upper=np.ones(n_rules + n),
        integer=np.arange(n_rules + n) < n_rules,
        low=np.append(np.zeros(n), wanted),
        high=np.full(n + 1, np.inf),
        start=np.append(np.searchsorted(rows, np.arange(n + 1)), len(rows) + n),
        index=np.append(kinds, np.arange(n_rules, n_rules + n)),
        value=np.append(np.where(kinds < n_rules, 1.0, -1.0), weights),
    )
    solution = Solver().solve(program, Deadline.after(_SECONDS), stages="branching")
    if solution.status != "optimal" or solution.x is None:
        return _greedy(patterns, weights, costs, wanted)
    values = solution.x[:n_rules]
    return [int(j) for j in np.flatnonzero(values > 1 - INTEGRALITY)]


def _greedy(patterns: Bools, weights: Floats, costs: Floats, wanted: float) -> list[int]:
    """Take the rule with the most weight for its cost, again and again: for programs that take too long."""
    chosen: list[int] = []
    left = weights.copy()
    while weights.sum() - left.sum() < wanted:
        best = int(np.argmax((patterns @ left) / costs))
        chosen.append(best)
        left[patterns[best]] = 0
    return chosen
