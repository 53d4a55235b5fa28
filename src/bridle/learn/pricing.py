"""Prices of rules that add to what a model knows, learned jointly and tested one by one.

    p(c) ~ exp(s M(c) - sum over r of w[r] v[r](c))          among the candidate labellings c of a sequence
    minimise  - sum over sequences of log p(gold)  +  l1 sum over r of w[r]        subject to  w >= 0,  s >= least
    penalty of r = w[r] / s                                                        in units of the model's scores

    M score of the model    v[r] how often rule r is paid for    s the model's scale: below 1, it is too sure of itself
    B sequences (b)    C candidates of all sequences, those of a sequence side by side (c)    R rules (r)    N tokens

If two rules say the same, they share one price; what the model knows already costs nothing. The problem is convex; it
is solved by accelerated proximal gradient steps (Beck & Teboulle 2009) with restarts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import Limits, Problem, check_given, offsets_of
from bridle.decoding.threads import in_threads
from bridle.errors import LabelError, ModelError, shown
from bridle.features import sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Bools, Labels
from bridle.lattice import Lattice
from bridle.learn.evidence import Given, Ids, Offsets, counter, priced
from bridle.models.checks import all_known, check_seed, count_of_threads, given_of, ids_of, labellings_of, one_of
from bridle.models.folds import FOLDS, CrossFit, check_fits, deal, groups_of
from bridle.models.tagger import Tagger
from bridle.models.task import hashes_of
from bridle.report.sequences import SequenceScores
from bridle.report.significance import Floats, benjamini_hochberg, log_binomial, log_tail
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

Source = Literal["auto", "cross-fitted", "model"]
Floats32 = npt.NDArray[np.float32]
MOST = 4000  # sequences of larger data that are sampled: prices are a few numbers
SEEN = 0.1  # the share of sequences that a model has seen from which on they count as its training data
LEAST = 0.05  # of the model's scale: without it rules would decide alone
_STATES = 10_000  # of the search for a labelling: a guess that is not proved best serves as well
_K_BEST = 30
_STEPS, _TOLERANCE, _STEEPEST = 300, 1e-6, 1e30
_TINY = 1e-3  # a weight below this is none
_ROUNDS = 5
_FEW = 0.002  # new candidates per sequence below which another round changes nothing
_HARM = math.log(0.05)


# ---- sequences with scores of a model that has not seen them --------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Sequences with scores, gold labels, and the values that rules refer to."""

    labels: Labels
    lattices: list[Lattice]  # (B)
    gold: Ids  # (N,)
    offsets: Offsets  # (B + 1,)
    X: list[Any]  # (B)  the sequences themselves
    given: list[Given] | None
    fold: npt.NDArray[np.int64]  # (B,)
    source: str  # "cross-fitted" or "model"
    model: Tagger
    threads: int = 0

    @classmethod
    def of(
        cls,
        model: Tagger,
        X: Sequences,
        y: LabelLists,
        given: Sequence[Given] | Table | None,
        *,
        scores: Source,
        cross_fit: CrossFit | None,
        groups: Sequence[Hashable] | Table | None,
        threads: int,
        seed: int,
        say: Callable[[str], None],
    ) -> Scored:
        """Score sequences: by the model itself if they are new to it, otherwise by cross-fitting."""
        if not isinstance(model, Tagger):
            raise ModelError("not a trained model", got=shown(model), wanted="a trained CRF or LocalTagger")
        check_seed(seed)
        count_of_threads(threads)
        X, y, given = sequences_of(X), labellings_of(y), given_of(given)
        check_given(given, len(X))
        groups = groups_of(groups, len(X))
        one_of("scores", scores, ("auto", "cross-fitted", "model"))
        labels = model.decoder().labels
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise LabelError("`y` must be a list of label lists", got=shown(y), wanted="a list per sequence")
        if len(X) < 2:
            raise ModelError("there are too few sequences to hold some out", got=len(X), wanted="two or more")
        if len(y) != len(X):
            raise LabelError("y and X differ in length", got=f"{len(y)} lists", wanted=f"{len(X)} of them")
        y = all_known(y)
        if scores == "auto":
            share = model.share_seen(X)
            scores = "model" if cross_fit is None and share is not None and share < SEEN else "cross-fitted"
        if scores == "model":
            if cross_fit is not None:
                raise ModelError(
                    "`cross_fit` has no effect with scores='model'", got="cross_fit", wanted="scores='cross-fitted'"
                )
            known = np.arange(len(X))
            fold = deal(hashes_of(model.features_, X).tolist() if groups is None else groups, FOLDS, seed).of
            lattice_of = model.lattices(X, threads=threads).__getitem__
        else:
            if cross_fit is None:
                cross_fit = cross_fitted(model, X, y, given, groups, say)
            elif not isinstance(cross_fit, CrossFit):
                got = shown(cross_fit)
                raise ModelError("`cross_fit` must be what `cross_fit` returns", got=got, wanted="a CrossFit")
            else:
                check_fits(cross_fit, model.cross_fit_identity(X, y, groups))
            known, fold, lattice_of = cross_fit.sequences, cross_fit.fold, cross_fit.lattice
        sample = np.arange(len(known))
        if len(known) > MOST:
            sample = np.sort(np.random.default_rng(seed).choice(len(known), MOST, replace=False))
        numbers = known[sample].tolist()
        lattices = list(map(lattice_of, sample.tolist()))
        offsets = offsets_of(lattices)
        gold = ids_of(labels, [y[k] for k in numbers], offsets)
        values = None if given is None else [given[k] for k in numbers]
        X = [X[k] for k in numbers]
        return cls(labels, lattices, gold, offsets, X, values, fold[sample], scores, model, threads)

    def __len__(self) -> int:
        return len(self.lattices)

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return len(np.unique(self.fold))

    def split(self, ids: Ids) -> list[Ids]:
        """Cut labels of all sequences into those of each."""
        return [ids[a:b] for a, b in pairwise(self.offsets.tolist())]

    def given_for(self, rules: Sequence[Rule]) -> Sequence[Mapping[str, Any]] | None:
        """Return the values that these rules refer to."""
        return self.model.given(self.X, Decoder(self.labels, rules), self.given)

    def broken(self, rules: Sequence[Rule], ids: Ids) -> Bools:
        """(B, R): do these labels of all sequences break the rules?"""
        broken: Bools = counter(rules, self.labels, threads=self.threads)(ids, self.offsets, self.given_for(rules)) > 0
        return broken

    def decode(self, rules: Sequence[Rule], which: npt.NDArray[np.int64] | None = None) -> Ids:
        """(N,): the best labels of all sequences, or of those with these numbers, under rules."""
        numbers = range(len(self)) if which is None else which.tolist()
        decoder = Decoder(self.labels, rules, on_infeasible="relax", max_states=_STATES)
        values = None if self.given is None else [self.given[b] for b in numbers]
        given = self.model.given([self.X[b] for b in numbers], decoder, values)
        decodings = decoder.decode_batch([self.lattices[b] for b in numbers], given, threads=self.threads)
        return np.asarray(decodings.ids, dtype=np.int32)

    def quality(self, rules: Sequence[Rule], use: Bools) -> Floats:
        """Measure the quality of each sequence that is used, decoded under rules."""
        which = np.flatnonzero(use)
        lengths = np.diff(self.offsets)
        offsets = np.concatenate([[0], np.cumsum(lengths[which])])
        guesses = self.decode(rules, which)
        return SequenceScores.of(self.labels, self.gold[np.repeat(use, lengths)], guesses, offsets).quality

    def judge(self, guesses: npt.NDArray[np.integer]) -> SequenceScores:
        """Compare labels of all sequences with gold."""
        return SequenceScores.of(self.labels, self.gold, guesses, self.offsets)

    def held_out(self, rules_for: Callable[[Bools], Sequence[Rule]]) -> SequenceScores:
        """Decode each fold under the rules that `rules_for` makes from the other sequences."""
        guesses = np.empty(len(self.gold), dtype=np.int32)
        fold_of = np.repeat(self.fold, np.diff(self.offsets))
        for fold in np.unique(self.fold):
            guesses[fold_of == fold] = self.decode(rules_for(self.fold != fold), np.flatnonzero(self.fold == fold))
        return self.judge(guesses)


def cross_fitted(
    model: Tagger,
    X: Sequence[Any],
    y: Sequence[Sequence[str | None]],
    given: Sequence[Given] | None,
    groups: Sequence[Hashable] | None,
    say: Callable[[str], None],
) -> CrossFit:
    """Return scores of held-out sequences: those of the last `cross_fit` of the model, or new ones."""
    known = model.cross_fit_
    if known is not None and known.identity == model.cross_fit_identity(X, y, groups):
        return known
    say("scoring each part of the data by a model trained on the others")
    return model.cross_fit(X, y, given=given, groups=groups, watch=lambda done, of: say(f"fold {done} of {of}"))


# ---- labellings that compete with gold ------------------------------------------------------------------------------


class Competitors:
    """Gold and other labellings of sequences, with their scores and the rules that they break.

    A sum over gold, the k best labellings of the model, and those that were best under penalties met on the way stands
    for the sum over all labellings.
    """

    owner: npt.NDArray[np.int64]  # (C,)  the sequence of each; rising
    first: npt.NDArray[np.int64]  # (B,)  the first of each sequence, which is gold
    score: Floats  # (C,)
    paid: Floats32  # (C, R)  how often each rule is paid for; 0 or 1 for a rule paid once per sequence

    def __init__(
        self,
        labels: Labels,
        lattices: Sequence[Lattice],
        gold: Sequence[Ids],
        rules: Sequence[Rule],
        given: Sequence[Given] | None,
        *,
        k: int = _K_BEST,
        threads: int = 0,
    ) -> None:
        self._lattices, self._given = lattices, given
        self._count = counter(rules, labels, threads=threads)
        self._once = np.array([not isinstance(rule, Soft) or rule.per == "sequence" for rule in rules], dtype=bool)
        self._known: list[dict[bytes, tuple[float, Floats32]]] = [{} for _ in lattices]
        self._pack()
        self.add(enumerate(gold))
        self.add(_k_best(labels, lattices, k, count_of_threads(threads)))

    @property
    def n_rules(self) -> int:
        """R."""
        return len(self._once)

    def add(self, labellings: Iterable[tuple[int, Ids]]) -> int:
        """Add labellings, each with the number of its sequence; return how many of them were new."""
        new: dict[tuple[int, bytes], Ids] = {}
        for b, ids in labellings:
            path = np.ascontiguousarray(ids, dtype=np.int32)
            if path.tobytes() not in self._known[b]:
                new[b, path.tobytes()] = path
        if new:
            paths, offsets = np.concatenate([*new.values()]), np.cumsum([0, *map(len, new.values())]).astype(np.int64)
            broken = self._count(paths, offsets, None if self._given is None else [self._given[b] for b, _ in new])
            paid = np.where(self._once, np.minimum(broken, 1), broken).astype(np.float32)
            for (b, key), path, row in zip(new, new.values(), paid, strict=True):
                self._known[b][key] = self._lattices[b].score(path), row
            self._pack()
        return len(new)

    def _pack(self) -> None:
        sizes = list(map(len, self._known))
        self.owner = np.repeat(np.arange(len(sizes)), sizes)
        self.first = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        pairs = [pair for known in self._known for pair in known.values()]
        self.score = np.array([score for score, _ in pairs])
        self.paid = np.array([row for _, row in pairs], dtype=np.float32).reshape(len(pairs), self.n_rules)


def _k_best(labels: Labels, lattices: Sequence[Lattice], k: int, threads: int) -> list[tuple[int, Ids]]:
    """Find the k best labellings of each sequence by scores alone."""
    compiled = CompiledRules(labels, [], Limits().native())

    def work(low: int, high: int, stop: _native.Stop) -> list[tuple[int, Ids]]:
        problem = Problem(compiled, lattices[low:high], None, first=low, many=True, stop=stop).native()
        best = problem.k_best_all(k, np.arange(high - low), stop)
        return [(low + b, np.array(path, dtype=np.int32)) for b, paths in enumerate(best) for path, *_ in paths]

    return [pair for part in in_threads(work, len(lattices), threads) for pair in part]


# ---- the most likely prices -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Weights of rules, and the model's scale."""

    w: Floats  # (R,)
    scale: float

    @classmethod
    def none(cls, n_rules: int) -> Prices:
        """No rule costs anything."""
        return cls(np.zeros(n_rules), 1.0)

    @property
    def penalties(self) -> Floats:
        """(R,): in units of the model's scores."""
        per_score: Floats = self.w / self.scale
        return per_score

    @property
    def kept(self) -> list[int]:
        """Rules that cost something."""
        return np.flatnonzero(self.w > 0).tolist()

    def without(self, r: int) -> Prices:
        """Return the same prices, but rule r costs nothing."""
        w = self.w.copy()
        w[r] = 0.0
        return Prices(w, self.scale)


def losses(competitors: Competitors, prices: Prices) -> Floats:
    """(B,): -log p(gold) of each sequence."""
    objective = _Objective(competitors, None)
    return objective.per_sequence(objective.values(prices))[0]


def loss_without(competitors: Competitors, prices: Prices) -> dict[int, Floats]:
    """For each rule that costs something, (B,): how much -log p(gold) grows when it is free."""
    objective = _Objective(competitors, None)
    values = objective.values(prices)
    full = objective.per_sequence(values)[0]
    free = {r: values + prices.w[r] * competitors.paid[:, r] for r in prices.kept}
    return {r: objective.per_sequence(value)[0] - full for r, value in free.items()}


def fit_prices(
    competitors: Competitors,
    *,
    l1: float,
    start: Prices | None = None,
    use: Bools | None = None,  # (B,)  sequences to learn from
    rules: Bools | None = None,  # (R,)  rules that may cost something
) -> Prices:
    """Find the best prices for these labellings."""
    objective = _Objective(competitors, use)
    free = np.ones(competitors.n_rules, dtype=bool) if rules is None else rules
    start = start or Prices.none(competitors.n_rules)
    x = np.append(np.where(free, start.w, 0.0), start.scale * objective.unit)
    lower, shrink = np.append(np.zeros(len(free)), LEAST * objective.unit), np.append(np.full(len(free), l1), 0.0)
    moving = np.append(free, True)
    ahead, momentum, curvature, before = x, 1.0, 1.0, math.inf
    for _ in range(_STEPS):
        loss, gradient = objective(ahead)
        gradient = np.where(moving, gradient, 0.0)
        while True:
            there = np.maximum(ahead - (gradient + shrink) / curvature, lower)
            there = np.where(moving, there, 0.0)
            step = there - ahead
            reached = objective.value(there)
            if reached <= loss + gradient @ step + curvature / 2 * step @ step + 1e-9 * abs(loss):
                break
            if not curvature < _STEEPEST:
                raise ModelError(
                    "penalties cannot be learned from these scores", got=f"loss {loss}", wanted="finite scores"
                )
            curvature *= 2
        total = reached + float(shrink @ there)
        if total > before:  # momentum has carried it too far: start again from where it was good
            ahead, momentum, before = x, 1.0, math.inf
            continue
        following = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = there + (momentum - 1) / following * (there - x)
        ahead = np.maximum(ahead, lower)
        done = before - total < _TOLERANCE * max(1.0, abs(total))
        x, momentum, before, curvature = there, following, total, curvature * 0.9
        if done:
            break
    return Prices(np.where(x[:-1] > _TINY, x[:-1], 0.0), float(x[-1] / objective.unit))


class _Objective:
    """The loss and its gradient at (w, s unit); `unit` gives scores the size of violations."""

    def __init__(self, competitors: Competitors, use: Bools | None) -> None:
        self._owner, self._first = competitors.owner, competitors.first
        self._score, self._paid = competitors.score, competitors.paid
        gaps = self._score - self._score[self._first][self._owner]
        gaps = gaps[np.isfinite(gaps)]
        self.unit = max(float(np.sqrt(np.mean(gaps * gaps))) if len(gaps) else 1.0, 1e-6)
        self._weight = np.ones(len(self._first)) if use is None else use.astype(np.float64)

    def values(self, prices: Prices) -> Floats:
        """(C,): the scores less penalties."""
        with np.errstate(invalid="ignore"):  # some BLAS kernels raise the flag for unused lanes
            paid = self._paid @ prices.w.astype(np.float32)
        values: Floats = prices.scale * self._score - paid
        return values

    def per_sequence(self, value: Floats) -> tuple[Floats, Floats]:
        """(B,) losses, (C,) probabilities."""
        top = np.maximum.reduceat(value, self._first) if len(self._first) else value
        share = np.exp(value - top[self._owner])
        total = np.add.reduceat(share, self._first) if len(self._first) else share
        return np.log(total) + top - value[self._first], share / total[self._owner]

    def _at(self, x: Floats) -> tuple[Floats, Floats]:
        return self.per_sequence(self.values(Prices(x[:-1], float(x[-1] / self.unit))))

    def value(self, x: Floats) -> float:
        """Return the loss alone."""
        return float(self._weight @ self._at(x)[0])

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        loss, p = self._at(x)
        slope = p * self._weight[self._owner]
        slope[self._first] -= self._weight
        with np.errstate(invalid="ignore"):  # as in `values`
            by_rule = -(slope.astype(np.float32) @ self._paid).astype(np.float64)
        return float(self._weight @ loss), np.append(by_rule, slope @ self._score / self.unit)


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

    def __init__(self, scored: Scored, rules: Sequence[Rule], *, l1: float, significance: float) -> None:
        self.scored, self.rules, self.l1, self._significance = scored, list(rules), l1, significance
        self.dropped: Counter[str] = Counter()
        gold, given = scored.split(scored.gold), scored.given_for(self.rules)
        self.competitors = Competitors(scored.labels, scored.lattices, gold, rules, given, threads=scored.threads)

    def at(self, l1: float) -> Pricing:
        """Return the same rules and labellings under another L1 term."""
        other = copy(self)
        other.l1, other.dropped = l1, Counter()
        return other

    def soft(self, prices: Prices) -> list[Soft]:
        """Return the rules that cost something, with their penalties."""
        return [priced(self.rules[r], float(prices.penalties[r])) for r in prices.kept]

    def learn(self) -> Prices:
        """Find the most likely prices; labellings that are best under them join the competitors."""
        prices = Prices.none(len(self.rules))
        for _ in range(_ROUNDS):
            prices = fit_prices(self.competitors, l1=self.l1, start=prices)
            best = self.scored.split(self.scored.decode(self.soft(prices)))
            if self.competitors.add(enumerate(best)) <= _FEW * len(self.scored):
                break
        return prices

    def significant(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Remove rules that fail the paired test: per sequence, how much less likely gold is without the rule."""
        while prices.kept:
            tails = self._tails(prices, use)
            others = [0.0] * (len(self.rules) - len(tails))  # rules that are out already
            if all(benjamini_hochberg([*tails.values(), *others], self._significance)[: len(tails)]):
                break
            prices = self._without(max(tails, key=lambda r: tails[r]), prices, use)
        return prices

    def harmless(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Remove rules with which the exact decoder makes significantly more sequences worse than better."""
        while True:
            effects = self.effects(prices, use)
            bad = {r: log_binomial(e.worse, e.better + e.worse, 0.5) for r, e in effects.items() if e.worse > e.better}
            worst = min(bad, key=lambda r: bad[r]) if bad else None
            if worst is None or bad[worst] > _HARM:
                return prices
            self.dropped["make more sequences worse than better"] += 1
            prices = self._without(worst, prices, use)

    def relearn(self, prices: Prices, use: Bools) -> Prices:
        """Price and test all rules on the sequences that are used only. prices: where to begin."""
        other = self.at(self.l1)  # with its own counts of what is dropped
        start = fit_prices(self.competitors, l1=self._l1_for(use), start=prices, use=use)
        return other.harmless(other.significant(start, use), use)

    def effects(self, prices: Prices, use: Bools | None = None) -> dict[int, Effect]:
        """Measure what each rule does to labels, by decoding with all and with all but it."""
        here = np.ones(len(self.scored), dtype=bool) if use is None else use
        tails = self._tails(prices, use)
        best = self.scored.quality(self.soft(prices), here)
        differences = {r: best - self.scored.quality(self.soft(prices.without(r)), here) for r in prices.kept}
        return {r: effect_of(d, math.exp(tails[r])) for r, d in differences.items()}

    def _tails(self, prices: Prices, use: Bools | None) -> dict[int, float]:
        """Return, for each rule that costs something, log of the probability that it helps gold so much by chance."""
        gains = loss_without(self.competitors, prices)
        return {r: log_tail(d if use is None else d[use]) for r, d in gains.items()}

    def _without(self, r: int, prices: Prices, use: Bools | None) -> Prices:
        stay = prices.w > 0
        stay[r] = False
        return fit_prices(self.competitors, l1=self._l1_for(use), start=prices, use=use, rules=stay)

    def _l1_for(self, use: Bools | None) -> float:
        return self.l1 if use is None else self.l1 * float(use.mean())
