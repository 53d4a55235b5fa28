"""Prices of rules that add to what a model knows, learned jointly and tested one by one.

    p(c) ~ p0(c) exp(- sum over r of w[r] v[r](c))        among the labellings c of a sequence (competitors.py)
    minimise  - sum over sequences of log p(gold)  +  l1 sum over r of w[r]        subject to  w >= 0
    penalty of r = multiple w[r] / s                                               in units of the model's scores

    p0 chance without rules, of scores at the scale s    v[r] how often rule r is paid for    multiple found by decoding
    B sequences (b)    C labellings of all sequences (c)    R rules (r)    N tokens

If two rules say the same, they share one price; what the model knows already costs nothing. The problem is convex. Most
prices are 0: only rules whose slope says that they gain enter the problem, which accelerated proximal gradient steps
solve (Beck & Teboulle 2009, with restarts), until no rule outside of it gains.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError
from bridle.labels import Bools
from bridle.learn.competitors import Competitors
from bridle.learn.evidence import Ids, priced
from bridle.learn.judged import Judged
from bridle.report.sequences import SequenceScores
from bridle.report.significance import Comparison, Floats, benjamini_hochberg, log_binomial, log_tail
from bridle.rules.base import Rule, Soft

Numbers = npt.NDArray[np.intp]
MULTIPLES = (1.0, 0.5, 0.25, 2.0)  # of all prices, tried on held-out sequences
_SIGNIFICANT = 0.05  # p of a sign test
_LEAST_MULTIPLE, _MOST_MULTIPLE = 0.05, 8.0  # if the first or the last of them is best, they go on
_STEPS, _TOLERANCE, _STEEPEST = 300, 1e-6, 1e30
_TINY = 1e-3  # a weight below this is none
_GAINS = 0.02  # the share of the L1 term by which a slope must exceed it for a rule to enter
_ROUNDS = 5
_FEW = 0.002  # new labellings per sequence below which another round changes nothing
_HARM = math.log(0.05)
_NOTHING = math.log(0.5)  # the tail above which several rules are removed at once, if they are about other sequences
_ALIKE = 0.2  # the cosine of what two rules gain, per sequence, from which on they are about the same


# ---- the most likely prices -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Weights of rules, in units of log-probability, and what makes them penalties."""

    w: Floats  # (R,)
    scale: float  # of the model's scores
    multiple: float = 1.0

    @property
    def penalties(self) -> Floats:
        """(R,): in units of the model's scores."""
        per_score: Floats = self.multiple * self.w / self.scale
        return per_score

    @property
    def kept(self) -> list[int]:
        """Rules that cost something."""
        return np.flatnonzero(self.w > 0).tolist()

    def without(self, r: int) -> Prices:
        """Return the same prices, but rule r costs nothing."""
        w = self.w.copy()
        w[r] = 0.0
        return replace(self, w=w)


class _Table:
    """Labellings of some sequences as far as some rules see them: those that break the same are one.

    Sequences whose labellings all break the same are left out: prices change nothing there. Few rules are broken by a
    labelling, so only what is paid is kept: entries (e) with a labelling, a rule and a number.
    """

    def __init__(self, competitors: Competitors, rules: Numbers, use: Bools | None) -> None:
        first, m = competitors.first, len(rules)
        column = np.full(competitors.n_rules, -1)
        column[rules] = np.arange(m)
        inside = column[competitors.rule] >= 0
        row, rule, times = competitors.row[inside], column[competitors.rule[inside]], competitors.times[inside]
        owner, log_p = competitors.owner, competitors.log_p
        weight = np.random.default_rng(0).random(m)
        digest = np.bincount(row, times * weight[rule], len(owner))  # labellings that break the same have equal ones
        varied = np.zeros(len(first), dtype=bool)
        varied[owner[digest != digest[first][owner]]] = True
        varied &= np.isfinite(log_p[first]) if use is None else use & np.isfinite(log_p[first])
        self.sequences = np.flatnonzero(varied)
        rows = np.flatnonzero(varied[owner])
        order = rows[np.lexsort((digest[rows], owner[rows]))]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(owner[order]) > 0) | (np.diff(digest[order]) != 0)
        start, group = np.flatnonzero(new), np.cumsum(new) - 1
        number = np.full(len(owner), -1)  # of a labelling among those that stand for others
        number[order[start]] = np.arange(len(start))
        self.owner = (np.cumsum(varied) - 1)[owner[order[start]]]
        self.first = np.searchsorted(self.owner, np.arange(len(self.sequences)))
        self.log_p = _log_sums(log_p[order], start, group)
        stays = number[row] >= 0
        self._row, self._rule, self._times = number[row[stays]], rule[stays], times[stays]
        self._gold = np.zeros((len(self.sequences), m))
        place = np.full(len(owner), -1)
        place[first[varied]] = np.arange(len(self.sequences))
        of_gold = place[row] >= 0
        self._gold[place[row[of_gold]], rule[of_gold]] = times[of_gold]
        self._gold_log_p, self._gold_sum = log_p[first][varied], self._gold.sum(axis=0)
        by_rule = np.argsort(self._rule, kind="stable")
        self._entries = np.split(by_rule, np.searchsorted(self._rule[by_rule], np.arange(1, m)))

    def losses(self, w: Floats) -> tuple[Floats, Floats]:
        """(B,): -log p(gold), up to what prices do not change; (C,): the probabilities of all."""
        values = self.log_p - np.bincount(self._row, w[self._rule] * self._times, len(self.log_p))
        log_z = _log_sums(values, self.first, self.owner)
        return log_z - self._gold_log_p + self._gold @ w, np.exp(values - log_z[self.owner])

    def slope(self, p: Floats) -> Floats:
        """(R,): the gradient of the sum of losses."""
        expected = np.bincount(self._rule, p[self._row] * self._times, len(self._gold_sum))
        gradient: Floats = self._gold_sum - expected
        return gradient

    def gains(self, w: Floats) -> list[Floats]:
        """(R) of (B,): how much -log p(gold) grows if a rule is free."""
        p, gains = self.losses(w)[1], []
        for r, e in enumerate(self._entries):
            more = p[self._row[e]] * np.expm1(w[r] * self._times[e])
            free = np.bincount(self.owner[self._row[e]], more, len(self.sequences))
            gains.append(np.log1p(free) - w[r] * self._gold[:, r])
        return gains


def _log_sums(values: Floats, first: Numbers, owner: Numbers) -> Floats:
    """Return log of the sum of exp of values, for each run of them. first: where runs begin; owner: the run of each."""
    if not len(first):
        return np.zeros(0)
    top = np.maximum.reduceat(values, first)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        sums: Floats = np.log(np.add.reduceat(np.exp(values - top[owner]), first)) + top
    return sums


def losses(competitors: Competitors, prices: Prices) -> Floats:
    """(B,): -log p(gold) of each sequence."""
    plain = _log_sums(competitors.log_p, competitors.first, competitors.owner) - competitors.log_p[competitors.first]
    table = _Table(competitors, np.arange(competitors.n_rules), None)
    plain[table.sequences] = table.losses(prices.w)[0]
    return plain


def fit_prices(
    competitors: Competitors,
    *,
    l1: float,
    start: Prices | None = None,
    use: Bools | None = None,  # (B,)  sequences to learn from
    rules: Bools | None = None,  # (R,)  rules that may cost something
) -> Prices:
    """Find the best prices for these labellings."""
    start = start or Prices(np.zeros(competitors.n_rules), competitors.scale)
    free = np.ones(competitors.n_rules, dtype=bool) if rules is None else rules
    w = np.where(free, start.w, 0.0)
    candidates = np.flatnonzero(free)
    whole = _Table(competitors, candidates, use)
    inside: Bools = w[candidates] > 0
    table, settled = whole, not inside.any()
    while True:
        if not settled:
            active = candidates[inside]
            table = whole if inside.all() else _Table(competitors, active, use)
            w[active] = _minimise(table, w[active], l1)
        entering = whole.slope(whole.losses(w[candidates])[1]) + l1 < -_GAINS * l1
        entering &= ~inside
        if not entering.any():
            break
        inside, settled = inside | entering, False
    return replace(start, w=np.where(w > _TINY, w, 0.0))


def _minimise(table: _Table, w: Floats, l1: float) -> Floats:
    """Minimise the losses of a table."""
    x = ahead = w
    momentum, curvature, before = 1.0, 1.0, math.inf
    for _ in range(_STEPS):
        each, p = table.losses(ahead)
        loss, gradient = float(each.sum()), table.slope(p)
        while True:
            there = np.maximum(ahead - (gradient + l1) / curvature, 0.0)
            step = there - ahead
            reached = float(table.losses(there)[0].sum())
            if reached <= loss + gradient @ step + curvature / 2 * step @ step + 1e-9 * abs(loss):
                break
            if not curvature < _STEEPEST:
                raise ModelError(
                    "penalties cannot be learned from these scores", got=f"loss {loss}", wanted="finite scores"
                )
            curvature *= 2
        total = reached + l1 * float(there.sum())
        if total > before:  # momentum has carried it too far: start again from where it was good
            ahead, momentum, before = x, 1.0, math.inf
            continue
        following = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = np.maximum(there + (momentum - 1) / following * (there - x), 0.0)
        done = before - total < _TOLERANCE * max(1.0, abs(total))
        x, momentum, before, curvature = there, following, total, curvature * 0.9
        if done:
            break
    return x


# ---- which rules to keep --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one rule among all.

    Attributes
    ----------
    p : float or None
        Probability that gold is so much more likely with the rule by chance; None if that was not tested.
    gain : float
        Mean difference in the quality of a sequence that the rule makes.
    better, worse : int
        Sequences whose labels are better with it, and worse.
    """

    p: float | None
    gain: float
    better: int
    worse: int


def effect_of(d: Floats, p: float | None = None) -> Effect:
    """Summarise the differences (B,) that a rule makes to the quality of sequences."""
    return Effect(p, float(d.mean()), int((d > 0).sum()), int((d < 0).sum()))


class Pricing:
    """Rules on their way to their prices. Rules are removed one at a time, and the others are priced again.

    The paired test uses likelihood because labels show too little: a rule that shifts the odds in a hundred sequences
    may change the best labels of three of them. Tested by labels alone, hardly any rule passed.
    """

    def __init__(self, judged: Judged, rules: Sequence[Rule], *, l1: float, significance: float) -> None:
        self.judged, self.rules, self.l1, self._significance = judged, list(rules), l1, significance
        self.dropped: Counter[str] = Counter()
        self._placed, self.given = judged.with_positions(self.rules)
        self.competitors = Competitors(
            judged.labels,
            judged.scores.lattices,
            judged.split(judged.gold),
            self._placed,
            self.given,
            threads=judged.threads,
        )
        self._able = self._able_to_pass()

    @property
    def notes(self) -> list[str]:
        """Doubts about the scores."""
        if not self.competitors.at_bound:
            return []
        return [
            f"the scale of the scores is at its bound, {self.competitors.scale:.3g}: they say nearly nothing about "
            "gold, or have another meaning than log-probabilities and logits"
        ]

    def at(self, l1: float) -> Pricing:
        """Return the same rules and labellings under another L1 term."""
        other = copy(self)
        other.l1, other.dropped = l1, Counter()
        other._able = other._able_to_pass()
        return other

    def soft(self, prices: Prices) -> list[Soft]:
        """Return the rules that cost something, with their penalties."""
        return [priced(self.rules[r], float(prices.penalties[r])) for r in prices.kept]

    def _able_to_pass(self) -> Bools:
        """(R,): rules that pass the test at least if they are alone; the others are not priced with them."""
        able = np.ones(len(self.rules), dtype=bool)
        if self._significance < 1:
            for r in range(len(self.rules)):
                table = _Table(self.competitors, np.array([r]), None)
                w = _minimise(table, np.zeros(1), self.l1) if len(table.sequences) else np.zeros(1)
                able[r] = w[0] > _TINY and log_tail(table.gains(w)[0]) <= math.log(self._significance)
        return able

    def learn(self) -> Prices:
        """Find the most likely prices; labellings that are best under them join the competitors."""
        prices = None
        for k in range(_ROUNDS):
            prices = fit_prices(self.competitors, l1=self.l1, start=prices, rules=self._able)
            self.judged.say(f"round {k + 1}: {len(prices.kept)} of {len(self.rules)} rules have a price")
            best = self.judged.split(self.decode(prices))
            if self.competitors.add(enumerate(best)) <= _FEW * len(best):
                break
        assert prices is not None
        return prices

    def significant(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Remove rules that fail the paired test: per sequence, how much less likely gold is without the rule."""
        while prices.kept:
            gains = self._gains(prices, use)
            tails = {r: log_tail(d) for r, d in gains.items()}
            others = [0.0] * (len(self.rules) - len(tails))  # rules that are out already
            if all(benjamini_hochberg([*tails.values(), *others], self._significance)[: len(tails)]):
                break
            worst, *more = sorted(tails, key=lambda r: -tails[r])
            out = [worst]
            for r in more:  # others that gain nothing either, unless one may stand for the other
                if tails[r] > _NOTHING and all(_cosine(gains[r], gains[other]) < _ALIKE for other in out):
                    out.append(r)
            prices = self._without(out, prices, use)
        return prices

    def harmless(self, prices: Prices, use: Bools | None = None) -> tuple[Prices, dict[int, Effect]]:
        """Remove rules with which the exact decoder makes significantly more sequences worse than better.

        Returns the prices and the effects of the rules that are left.
        """
        while True:
            self.judged.say(f"decoding without each of {len(prices.kept)} rules")
            effects = self.effects(prices, use)
            bad = {r: log_binomial(e.worse, e.better + e.worse, 0.5) for r, e in effects.items() if e.worse > e.better}
            worst = min(bad, key=lambda r: bad[r]) if bad else None
            if worst is None or bad[worst] > _HARM:
                return prices, effects
            self.dropped["make more sequences worse than better"] += 1
            prices = self._without([worst], prices, use)

    def fold_prices(self, prices: Prices) -> list[Prices]:
        """Price and test all rules again, for each fold on the other ones. prices: where to begin."""
        prices_of_folds = []
        for fold, use in self._folds():
            self.judged.say(f"pricing and testing again without fold {fold + 1} of {self.judged.n_folds}")
            start = fit_prices(self.competitors, l1=self._l1_for(use), start=prices, use=use, rules=self._able)
            prices_of_folds.append(self.significant(start, use))
        return prices_of_folds

    def fold_harmless(self, prices: Sequence[Prices]) -> list[Prices]:
        """Remove harmful rules from the prices of each fold, by what the others show."""
        other = copy(self)
        other.dropped = Counter()
        return [other.harmless(mine, use)[0] for (_, use), mine in zip(self._folds(), prices, strict=True)]

    def held_out(self, prices: Sequence[Prices]) -> SequenceScores:
        """Decode each fold under the prices that come from the others."""
        ids = np.empty(len(self.judged.gold), dtype=np.int32)
        fold_of = np.repeat(self.judged.fold, np.diff(self.judged.offsets))
        for (fold, use), mine in zip(self._folds(), prices, strict=True):
            ids[fold_of == fold] = self.decode(mine, ~use)
        return self.judged.judge(ids)

    def _folds(self) -> Iterator[tuple[int, Bools]]:
        for fold in np.unique(self.judged.fold).tolist():
            yield fold, self.judged.fold != fold

    def effects(self, prices: Prices, use: Bools | None = None) -> dict[int, Effect]:
        """Measure what each rule does to labels, by decoding with all and with all but it."""
        if not prices.kept:
            return {}
        gains = self._gains(prices, use)
        best = self.judged.judge(self.decode(prices, use), use).quality
        effects = {}
        for r in prices.kept:
            d = best - self.judged.judge(self.decode(prices.without(r), use), use).quality
            effects[r] = effect_of(d, math.exp(log_tail(gains[r])))
        return effects

    def decode(self, prices: Prices, use: Bools | None = None) -> Ids:
        """(N,): the best labels of all sequences, or of those that are used."""
        touched: Bools = np.asarray(
            self._broken[:, prices.kept].any(axis=1)
        )  # the others stay as they are without rules
        rules = [priced(self._placed[r], float(prices.penalties[r])) for r in prices.kept]
        return self.judged.decode(rules, self.given, touched, use)

    @cached_property
    def _broken(self) -> Bools:
        """(B, R): the rules that the best labels without rules break."""
        return self.judged.broken(self._placed, self.judged.plain, self.given)

    def _gains(self, prices: Prices, use: Bools | None) -> dict[int, Floats]:
        """Return, for each rule that costs something, how much less likely gold is without it, sequence by sequence."""
        kept = np.array(prices.kept)
        gains = _Table(self.competitors, kept, use).gains(prices.w[kept])
        return dict(zip(kept.tolist(), gains, strict=True))

    def _without(self, out: list[int], prices: Prices, use: Bools | None) -> Prices:
        stay = prices.w > 0
        stay[out] = False
        return fit_prices(self.competitors, l1=self._l1_for(use), start=prices, use=use, rules=stay)

    def _l1_for(self, use: Bools | None) -> float:
        return self.l1 if use is None else self.l1 * float(use.mean())


def best_multiple(quality: Callable[[float], Floats]) -> tuple[float, dict[float, float]]:
    """Find the multiple of all prices with the best quality, and the mean qualities of all that were tried.

    It is 1 unless the best one is better on significantly more sequences. `quality` returns a figure for each sequence.
    """
    scores = {multiple: quality(multiple) for multiple in MULTIPLES}
    while True:
        tried = {multiple: float(values.mean()) for multiple, values in sorted(scores.items())}
        best = max(tried, key=lambda multiple: (tried[multiple], -abs(math.log(multiple))))
        following = best / 2 if best == min(tried) else best * 2 if best == max(tried) else best
        if following in tried or not _LEAST_MULTIPLE < following <= _MOST_MULTIPLE:
            return best if Comparison.of(scores[1.0], scores[best]).p <= _SIGNIFICANT else 1.0, tried
        scores[following] = quality(following)


def _cosine(a: Floats, b: Floats) -> float:
    size = math.sqrt(float(a @ a) * float(b @ b))
    return abs(float(a @ b)) / size if size > 0 else 0.0
