"""Which rules to keep, and at what price: penalties learned jointly, then tested one by one.

    prices        the most likely ones with an L1 term (prices.py); what is best under them joins the candidates
    paired test   per sequence, how much less likely gold is without the rule; of the rules that stay, a share of at
                  most `significance` is expected to be chance (Benjamini & Hochberg, over all candidates)
    harm          the exact decoder, with and without the rule: one that makes significantly more sequences worse than
                  better goes, however likely it makes gold

Rules are removed one at a time, and the others are priced again: of rules that say the same, one remains.

The test uses likelihood because labels show too little: a rule that shifts the odds in a hundred sequences may
change the best labels of three of them. Tested by labels alone, hardly any rule passed, and the gains were lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
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
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.learn.evidence import counter, priced
from bridle.learn.statistics import believed, log_binomial, log_tail
from bridle.models.checks import (
    Given,
    all_known,
    check_seed,
    count_of_threads,
    given_of,
    ids_of,
    labellings_of,
    one_of,
)
from bridle.models.folds import FOLDS, CrossFit, check_fits, deal, groups_of
from bridle.models.tagger import Tagger
from bridle.models.task import hashes_of
from bridle.report.sequences import SequenceScores
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

Ids = npt.NDArray[np.int32]
Source = Literal["auto", "cross-fitted", "model"]
MOST = 4000  # sequences of larger data that are looked at: prices are a few numbers
SEEN = 0.1  # the share of sequences that a model has seen from which on they count as its training data
_STATES = 10_000  # of the search for a labelling: a guess that is not proved best serves as well


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Sequences with scores, gold labels, and what rules ask for."""

    labels: Labels
    lattices: list[Lattice]  # (B)
    gold: Ids  # (N,)
    offsets: npt.NDArray[np.int64]  # (B + 1,)
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
            chosen = np.arange(len(X))
            fold = deal(hashes_of(model.features_, X).tolist() if groups is None else groups, FOLDS, seed).of
            lattice_of = model.lattices(X, threads=threads).__getitem__
        else:
            if cross_fit is None:
                made = cross_fitted(model, X, y, given, groups, say)
            else:
                made = _checked(cross_fit, model.cross_fit_identity(X, y, groups))
            chosen, fold, lattice_of = made.sequences, made.fold, made.lattice
        some = _sample(len(chosen), seed)
        numbers = chosen[some].tolist()
        scored = list(map(lattice_of, some.tolist()))
        offsets = offsets_of(scored)
        return cls(
            labels,
            scored,
            ids_of(labels, [y[k] for k in numbers], offsets),
            offsets,
            [X[k] for k in numbers],
            None if given is None else [given[k] for k in numbers],
            fold[some],
            scores,
            model,
            threads,
        )

    def __len__(self) -> int:
        return len(self.lattices)

    def gold_of(self) -> list[Ids]:
        """Gold labels, sequence by sequence."""
        return [self.gold[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def asked_by(self, rules: Sequence[Rule]) -> Sequence[Mapping[str, Any]] | None:
        """What these rules ask for."""
        return self.model.given(self.X, Decoder(self.labels, rules), self.given)

    def decode(self, rules: Sequence[Rule], which: npt.NDArray[np.int64] | None = None) -> Ids:
        """(N,): the best labels of some sequences, or of all, under rules."""
        numbers = range(len(self)) if which is None else which.tolist()
        decoder = Decoder(self.labels, rules, on_infeasible="relax", max_states=_STATES)
        own = None if self.given is None else [self.given[b] for b in numbers]
        given = self.model.given([self.X[b] for b in numbers], decoder, own)
        found = decoder.decode_batch([self.lattices[b] for b in numbers], given, threads=self.threads)
        return np.asarray(found.ids, dtype=np.int32)

    def quality(self, rules: Sequence[Rule], use: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Of the labels of some sequences under rules."""
        which = np.flatnonzero(use)
        mine = np.repeat(use, np.diff(self.offsets))
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[which])])
        return SequenceScores.of(self.labels, self.gold[mine], self.decode(rules, which), offsets).quality

    def judge(self, guesses: npt.NDArray[np.integer]) -> SequenceScores:
        """Compare labels of all sequences with gold."""
        return SequenceScores.of(self.labels, self.gold, guesses, self.offsets)

    def held_out(self, rules_of: Callable[[npt.NDArray[np.bool_]], Sequence[Rule]]) -> SequenceScores:
        """Decode each fold under rules that were made from the others; rules_of(B) gets the ones to use."""
        guesses = np.empty(len(self.gold), dtype=np.int32)
        fold_of = np.repeat(self.fold, np.diff(self.offsets))
        for fold in np.unique(self.fold):
            rules = rules_of(self.fold != fold)
            guesses[fold_of == fold] = self.decode(rules, np.flatnonzero(self.fold == fold))
        return self.judge(guesses)


def cross_fitted(
    model: Tagger,
    X: Sequence[Any],
    y: Sequence[Sequence[str | None]],
    given: Sequence[Given] | None,
    groups: Sequence[Hashable] | None,
    say: Callable[[str], None],
) -> CrossFit:
    """Scores of held-out sequences: those by which the settings of the model were chosen, or new ones."""
    made = model.cross_fit_
    if made is not None and made.identity == model.cross_fit_identity(X, y, groups):
        return made
    say("scoring each part of the data by a model trained on the others")
    return model.cross_fit(X, y, given=given, groups=groups, watch=lambda done, of: say(f"fold {done} of {of}"))


def _checked(cross_fit: CrossFit, identity: Mapping[str, Any]) -> CrossFit:
    """Scores that came from elsewhere."""
    if not isinstance(cross_fit, CrossFit):
        raise ModelError("`cross_fit` must be what `cross_fit` returns", got=shown(cross_fit), wanted="a CrossFit")
    check_fits(cross_fit, identity)
    return cross_fit


def _sample(count: int, seed: int) -> npt.NDArray[np.int64]:
    if count <= MOST:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, MOST, replace=False))


Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
K = 30


class Candidates:
    """Candidate labellings of sequences, with their scores and the rules that they break."""

    owner: npt.NDArray[np.int64]  # (C,)  whose candidate it is; rising
    first: npt.NDArray[np.int64]  # (B,)  the first candidate of each sequence, which is gold
    score: Floats  # (C,)
    paid: npt.NDArray[np.float32]  # (C, R)  how often each rule is paid for; 0 or 1 for a rule paid once per sequence

    def __init__(
        self,
        labels: Labels,
        lattices: Sequence[Lattice],
        gold: Sequence[Ids],
        rules: Sequence[Rule],
        given: Sequence[Mapping[str, Any]] | None,
        *,
        k: int = K,
        threads: int = 0,
    ) -> None:
        self.labels, self.lattices, self.given = labels, lattices, given
        self._count = counter(rules, labels, threads=threads)
        self._once = np.array([not isinstance(rule, Soft) or rule.per == "sequence" for rule in rules], dtype=bool)
        self._known: list[dict[bytes, tuple[float, npt.NDArray[np.float32]]]] = [{} for _ in lattices]
        self._pack()
        self.add(enumerate(gold))
        self.add(_k_best(labels, lattices, k, count_of_threads(threads)))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def n_rules(self) -> int:
        """R."""
        return len(self._once)

    def add(self, found: Iterable[tuple[int, Ids]]) -> int:
        """Take labellings in, each with the number of its sequence; how many of them were new."""
        new: dict[tuple[int, bytes], Ids] = {}
        for b, ids in found:
            key = np.ascontiguousarray(ids, dtype=np.int32)
            if key.tobytes() not in self._known[b]:
                new[b, key.tobytes()] = key
        if new:
            owners = [b for b, _ in new]
            ids, offsets = np.concatenate([*new.values()]), np.cumsum([0, *map(len, new.values())]).astype(np.int64)
            broken = self._count(ids, offsets, None if self.given is None else [self.given[b] for b in owners])
            paid = np.where(self._once, np.minimum(broken, 1), broken).astype(np.float32)
            for (b, path), labelling, row in zip(new, new.values(), paid, strict=True):
                self._known[b][path] = self.lattices[b].score(labelling), row
            self._pack()
        return len(new)

    def _pack(self) -> None:
        sizes = [len(some) for some in self._known]
        self.owner = np.repeat(np.arange(len(sizes)), sizes)
        self.first = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        pairs = [pair for some in self._known for pair in some.values()]
        self.score = np.array([score for score, _ in pairs])
        self.paid = np.array([row for _, row in pairs], dtype=np.float32).reshape(len(pairs), self.n_rules)


def _k_best(labels: Labels, lattices: Sequence[Lattice], k: int, threads: int) -> Iterable[tuple[int, Ids]]:
    """The k best labellings of each sequence by scores alone."""
    compiled = CompiledRules(labels, [], Limits().native())

    def part(low: int, high: int, stop: _native.Stop) -> list[tuple[int, Ids]]:
        problem = Problem(compiled, lattices[low:high], None, first=low, many=True, stop=stop).native()
        found = problem.k_best_all(k, np.arange(high - low), stop)
        return [(low + b, np.array(path, dtype=np.int32)) for b, best in enumerate(found) for path, *_ in best]

    return [pair for some in in_threads(part, len(lattices), threads) for pair in some]


Floats = npt.NDArray[np.float64]
LEAST = 0.05  # of the model's scale: without it rules would decide alone
_STEPS, _TOLERANCE = 300, 1e-6
_STEEPEST = 1e30
_TINY = 1e-3  # a weight below this is none


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
        """The same, but rule r costs nothing."""
        w = self.w.copy()
        w[r] = 0.0
        return Prices(w, self.scale)


def losses(candidates: Candidates, prices: Prices) -> Floats:
    """(B,): -log p(gold) of each sequence."""
    objective = _Objective(candidates, None)
    return objective.per_sequence(objective.values(prices))[0]


def worth(candidates: Candidates, prices: Prices) -> dict[int, Floats]:
    """For each rule that costs something, (B,): how much -log p(gold) grows when it is free."""
    objective = _Objective(candidates, None)
    values = objective.values(prices)
    full = objective.per_sequence(values)[0]
    free = {r: values + prices.w[r] * candidates.paid[:, r] for r in prices.kept}
    return {r: objective.per_sequence(value)[0] - full for r, value in free.items()}


def fit(
    candidates: Candidates,
    *,
    l1: float,
    start: Prices | None = None,
    use: npt.NDArray[np.bool_] | None = None,  # (B,)  sequences to learn from
    rules: npt.NDArray[np.bool_] | None = None,  # (R,)  rules that may cost something
) -> Prices:
    """The best prices for these candidates."""
    objective = _Objective(candidates, use)
    free = np.ones(candidates.n_rules, dtype=bool) if rules is None else rules
    start = start or Prices.none(candidates.n_rules)
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

    def __init__(self, candidates: Candidates, use: npt.NDArray[np.bool_] | None) -> None:
        self._owner, self._first, self._score, self._paid = (
            candidates.owner,
            candidates.first,
            candidates.score,
            candidates.paid,
        )
        gaps = self._score - self._score[self._first][self._owner]
        gaps = gaps[np.isfinite(gaps)]
        self.unit = max(float(np.sqrt(np.mean(gaps * gaps))) if len(gaps) else 1.0, 1e-6)
        self._weight = np.ones(len(self._first)) if use is None else use.astype(np.float64)

    def values(self, prices: Prices) -> Floats:
        """(C,): what each candidate scores, penalties taken off."""
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
        """The loss alone."""
        return float(self._weight @ self._at(x)[0])

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        loss, p = self._at(x)
        slope = p * self._weight[self._owner]
        slope[self._first] -= self._weight
        with np.errstate(invalid="ignore"):  # as in `values`
            by_rule = -(slope.astype(np.float32) @ self._paid).astype(np.float64)
        return float(self._weight @ loss), np.append(by_rule, slope @ self._score / self.unit)


Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
_ROUNDS = 5
_FEW = 0.002  # new candidates per sequence below which another round changes nothing
_HARM = math.log(0.05)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one rule does among all.

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


class Pricing:
    """Rules under way to their prices."""

    def __init__(self, scored: Scored, rules: Sequence[Rule], *, l1: float, significance: float) -> None:
        self.scored, self.rules, self.l1, self._significance = scored, list(rules), l1, significance
        self.dropped: Counter[str] = Counter()
        given = scored.asked_by(self.rules)
        self.candidates = Candidates(
            scored.labels, scored.lattices, scored.gold_of(), rules, given, threads=scored.threads
        )

    def at(self, l1: float) -> Pricing:
        """The same rules and candidates under another L1 term."""
        made = copy(self)
        made.l1, made.dropped = l1, Counter()
        return made

    def soft(self, prices: Prices) -> list[Soft]:
        """The rules that cost something, with their penalties."""
        return [priced(self.rules[r], float(prices.penalties[r])) for r in prices.kept]

    def learn(self) -> Prices:
        """The most likely prices."""
        prices = Prices.none(self.candidates.n_rules)
        for _ in range(_ROUNDS):
            prices = fit(self.candidates, l1=self.l1, start=prices)
            ids, offsets = self.scored.decode(self.soft(prices)), self.scored.offsets
            found = ((b, ids[offsets[b] : offsets[b + 1]]) for b in range(len(self.scored)))
            if self.candidates.add(found) <= _FEW * len(self.scored):
                break
        return prices

    def significant(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Without the rules that fail the paired test. use (B,): the sequences to learn from."""
        here = np.ones(len(self.scored), dtype=bool) if use is None else use
        while prices.kept:
            tails = self.tails(prices, here)
            worst = max(tails, key=lambda r: tails[r])
            others = [0.0] * (len(self.rules) - len(tails))  # rules that are out already
            if all(believed([*tails.values(), *others], self._significance)[: len(tails)]):
                break
            prices = self._without(worst, prices, use)
        return prices

    def harmless(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Without rules that do more harm than good to labels. use (B,): the sequences to look at."""
        while True:
            effects = self.effects(prices, use)
            bad = {r: log_binomial(e.worse, e.better + e.worse, 0.5) for r, e in effects.items() if e.worse > e.better}
            worst = min(bad, key=lambda r: bad[r]) if bad else None
            if worst is None or bad[worst] > _HARM:
                return prices
            self.dropped["make more sequences worse than better"] += 1
            prices = self._without(worst, prices, use)

    def relearn(self, prices: Prices, use: Bools) -> Prices:
        """All candidates once more, priced and tested on some of the sequences only. prices: where to begin."""
        own = self.at(self.l1)  # with a count of its own of what is dropped
        share = float(use.mean())
        tested = own.significant(fit(self.candidates, l1=self.l1 * share, start=prices, use=use), use)
        return own.harmless(tested, use)

    def tails(self, prices: Prices, use: Bools) -> dict[int, float]:
        """For each rule that costs something: log of the probability that it helps gold so much by chance."""
        return {r: log_tail(d[use]) for r, d in worth(self.candidates, prices).items()}

    def effects(self, prices: Prices, use: Bools | None = None) -> dict[int, Effect]:
        """What each rule does to labels, by decoding with all and with all but it."""
        here = np.ones(len(self.scored), dtype=bool) if use is None else use
        tails = self.tails(prices, here)
        best = self.scored.quality(self.soft(prices), here)
        found = {}
        for r in prices.kept:
            d = best - self.scored.quality(self.soft(prices.without(r)), here)
            found[r] = Effect(math.exp(tails[r]), float(d.mean()), int((d > 0).sum()), int((d < 0).sum()))
        return found

    def _without(self, r: int, prices: Prices, use: Bools | None) -> Prices:
        """The prices without one of the rules."""
        stay = prices.w > 0
        stay[r] = False
        l1 = self.l1 if use is None else self.l1 * float(use.mean())
        return fit(self.candidates, l1=l1, start=prices, use=use, rules=stay)
