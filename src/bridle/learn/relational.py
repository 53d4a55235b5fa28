"""RelationalRules: rules between the labels of a sequence, found in labelled sequences (Fersini et al. 2012, 3.1.1).

candidates of all kinds  ->  often enough, true enough, not by chance  ->  not implied by others  ->  needed to tell
right labellings from wrong ones  ->  penalties:  -log (exceptions + 1/2) / (support + 1)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self, cast

import numpy as np

from bridle.arrays import is_integer
from bridle.automata import DFA, CountingAutomaton
from bridle.decoding.problem import check_given
from bridle.errors import LabelError, ModelError, RuleError, shown
from bridle.features.columns import columns_of, sequences_of
from bridle.labels import Labels, Scheme, scheme_of
from bridle.learn.candidates import KINDS, OF_TOKENS, Candidate, Limits
from bridle.learn.counted import Counted, Ints, corrupted, given_wrong
from bridle.learn.evidence import Learned, rules_of
from bridle.learn.select import Clause, cover
from bridle.learn.statistics import believed
from bridle.models.checks import check_seed, given_of, ids_of, labellings_of, names_of, one_of
from bridle.models.estimator import Estimator
from bridle.rules.base import Rule
from bridle.rules.lint_automata import Questions, TooLarge
from bridle.rules.positions import Allow


def needed(rules: Sequence[Rule], data: Counted, *, budget: int = 10_000_000) -> list[bool]:
    """Which rules are left when those that follow from the others are dropped, the last ones first.

    The rules must be able to hold together, else all of them would follow. budget: steps of automata to spend.
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
    """Do all words that all of `others` accept belong to all of `parts`?"""
    for part in parts:
        product = [~part]
        while (word := ask.word(product)) is not None:
            broken = next((other for other in others if not other.accepts(word)), None)
            if broken is None:
                return False
            product.append(broken)
    return True


def automata_of(rule: Rule, labels: Labels) -> tuple[DFA, ...]:
    """The automata of a rule that looks at labels only; none if it is too large or looks at tokens."""
    if rule.places():
        return ()
    try:
        automata = rule.automata(tuple(names.resolve(labels, {}) for names in rule.names()), labels)
        return tuple(CountingAutomaton.build(automaton, len(labels)).dfa() for automaton in automata)
    except RuleError:
        return ()


def _covers(one: Rule, other: Rule, data: Counted) -> bool:
    """Does a rule that allows labels at some tokens say all that another one says of this data?"""
    if not (isinstance(one, Allow) and isinstance(other, Allow)):
        return False
    narrow, wide = (frozenset[int]().union(*rule.labels.resolve(data.labels, {})) for rule in (one, other))
    many, few = (data.matching(rule.at.source.pattern) for rule in (one, other))  # type: ignore[union-attr]
    return narrow <= wide and bool((many | ~few).all())


ALL = tuple(KINDS)


@dataclass(frozen=True)
class Report:
    """What became of the candidates."""

    candidates: dict[str, int]  # looked at, by kind
    dropped: dict[str, int]  # by reason: rare, broken too often, may be due to chance, redundant, not selected, ...
    kept: dict[str, int]  # by kind
    skipped: tuple[str, ...]  # kinds that look at tokens, when there are none
    wrong: int  # labellings made to tell good rules by
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

    `fit` sets `rules_`, ready for a `Decoder`; `learned_`, the same with their evidence, the most useful first;
    `powers_`, the share of wrong labellings that each separates; and `report_`, what became of all candidates.

    Parameters
    ----------
    kinds : sequence of str, optional
        Kinds of rules to look for; all by default. ``"adjacency"``, ``"precedence"``, ``"presence"``, ``"ends"``,
        ``"count"``, ``"implication"`` and ``"exclusion"`` are about labels only, ``"change"`` and ``"tokens"`` also
        look at tokens.
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
    powers_: list[float]  # of each: the share of wrong labellings that it separates by itself
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
        usual = self._defaults()
        shown = (f"{name}={value!r}" for name, value in self.get_params().items() if value != usual[name])
        return f"RelationalRules({', '.join(shown)})"

    def fit(
        self,
        X: Sequence[Any] | None,
        y: Sequence[Sequence[str]],
        given: Sequence[Mapping[str, Any]] | None = None,
        *,
        wrong: Sequence[Sequence[Sequence[str]]] | None = None,
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
        """
        self._check()
        data = self._counted(X, y, given)
        skipped = tuple(kind for kind in self.kinds if kind in OF_TOKENS) if data.tokens is None else ()
        limits = Limits(float(self.min_confidence), int(self.min_support))
        found = [one for kind in self.kinds if kind not in skipped for one in KINDS[kind](data, limits)]
        dropped: Counter[str] = Counter()
        good = self._needed(self._true(found, data, dropped), data, dropped)

        made, owner = corrupted(data, self.wrong, self.seed) if wrong is None else given_wrong(data, _ids(data, wrong))
        broken = [one.broken(data) for one in good]
        separates = np.zeros((len(good), len(made)), dtype=bool)
        for row, one, bad in zip(separates, good, broken, strict=True):
            row[:] = one.broken(made) & ~bad[owner] if len(made) else False
        powers = separates.mean(axis=1) if len(made) else np.zeros(len(good))
        clauses: tuple[Clause, ...] = ()
        picked = list(range(len(good)))
        if self.select == "cover" and len(made) and good:
            costs = np.array([bad.sum() + one.cost for one, bad in zip(good, broken, strict=True)])
            chosen = cover(separates, costs, min_power=self.min_power)
            clauses, picked = chosen.clauses, sorted(chosen.rules)
            dropped["not selected: others separate the same wrong labellings"] = len(good) - len(picked)
        best = sorted(picked, key=lambda i: (-powers[i], good[i].log_tail, str(good[i].rule)))
        if self.max_rules is not None and len(best) > self.max_rules:
            dropped["less useful than max_rules others"] = len(best) - self.max_rules
            best = best[: self.max_rules]

        self.labels_ = data.labels
        self.learned_ = [self._learned(good[i], int(broken[i].sum()), data) for i in best]
        self.powers_ = [float(powers[i]) for i in best]
        self.rules_ = rules_of(self.learned_)
        self.report_ = Report(
            dict(Counter(one.kind for one in found)),
            {reason: int(n) for reason, n in dropped.items()},
            dict(Counter(good[i].kind for i in best)),
            skipped,
            len(made),
            float(separates[best].any(axis=0).mean()) if len(made) and best else 0.0,
            tuple((tuple(str(good[i].rule) for i in clause.rules), clause.power) for clause in clauses),
        )
        return self

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
            value = getattr(self, name)
            if not is_integer(value, 1):
                raise ModelError(f"invalid value of `{name}`", got=repr(value), wanted="an integer >= 1")
        check_seed(self.seed)

    def _counted(self, X: Any, y: Any, given: Any) -> Counted:
        y, given = labellings_of(y), given_of(given)
        names = names_of(y)
        labels = Labels(names, cast(Scheme | None, scheme_of(names) if self.scheme == "auto" else self.scheme))
        check_given(given, len(y))
        texts: list[Sequence[str]] | None = None
        if X is not None:
            texts = [columns_of(x, (self.column,), self.column, k)[self.column] for k, x in enumerate(sequences_of(X))]
        elif given is not None and all("tokens" in one for one in given):
            texts = [one["tokens"] for one in given]
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

    def _true(self, found: list[Candidate], data: Counted, dropped: Counter[str]) -> list[Candidate]:
        """Candidates that apply often, are seldom broken, and do not hold by chance."""
        tested = [one for one in found if one.speaks.sum() >= self.min_support]
        dropped["apply to too few sequences"] = len(found) - len(tested)
        sure = believed([one.log_tail for one in tested], self.significance)
        held = [1 - one.broken(data).sum() / one.speaks.sum() >= self.min_confidence for one in tested]
        dropped["broken too often"] = len(tested) - sum(held)
        dropped["may be due to chance"] = sum(fine and not trust for fine, trust in zip(held, sure, strict=True))
        return [one for one, fine, trust in zip(tested, held, sure, strict=True) if fine and trust]

    def _needed(self, good: list[Candidate], data: Counted, dropped: Counter[str]) -> list[Candidate]:
        """Candidates that do not follow from others. Before: those that no sequence obeys together with the rest."""
        good = sorted(good, key=lambda one: (one.cost, one.broken(data).sum(), one.log_tail))
        broken = np.array([one.broken(data) for one in good]).reshape(len(good), len(data))
        keep = np.ones(len(good), dtype=bool)
        while keep.any() and broken[keep].any(axis=0).all():
            keep[int(np.argmax(np.where(keep, broken.sum(axis=1), -1)))] = False
        dropped["no sequence obeys them together with the others"] = int((~keep).sum())
        good = [one for one, stays in zip(good, keep, strict=True) if stays]
        left = needed([one.rule for one in good], data)
        dropped["follow from others"] = len(good) - sum(left)
        return [one for one, stays in zip(good, left, strict=True) if stays]

    def _learned(self, one: Candidate, exceptions: int, data: Counted) -> Learned:
        support = int(one.speaks.sum())
        made = Learned(one.rule, one.kind, len(data) - exceptions, len(data), support)
        return made if self.penalty is None else made.soft(round(-math.log((exceptions + 0.5) / (support + 1)), 3))


def _ids(data: Counted, wrong: Any) -> list[list[Ints]]:
    """Wrong labellings as ids, several per sequence."""
    if not hasattr(wrong, "__len__") or len(wrong) != len(data):
        raise LabelError("wrong labellings do not fit y", got=shown(wrong), wanted=f"{len(data)} lists of them")
    found = [[data.labels.ids(labels).astype(np.int64) for labels in some] for some in wrong]
    for k, some in enumerate(found):
        for labels in some:
            if len(labels) != data.lengths[k]:
                got, wanted = len(labels), int(data.lengths[k])
                raise LabelError("a wrong labelling has another length than y", got=got, wanted=wanted, sequence=k)
    return found
