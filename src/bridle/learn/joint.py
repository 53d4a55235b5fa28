"""JointWeights: what rules cost, learned by decoding with them (Tromble & Eisner 2006, section 7).

    y^  = argmax over y of  s M(y) - sum over r of w[r] v[r](y)      the best labelling under the current weights
    w[r] <- max(0, w[r] + rate (v[r](y^) - v[r](gold)))              where y^ is not gold
    s    <- max(least, s + rate (M(gold) - M(y^)) / tokens)          only if the scale of the model is learned too
    penalty of r = mean of w[r] over all steps / mean of s

    M score of the model    v[r] violations of rule r, or 0/1 for a rule that is paid once per sequence    s from 1
    B sequences (b)    R soft rules (r)    a step is a mini-batch: its weights are fixed, its updates are added up

So a rule gets more expensive while guesses break it more often than gold does, and cheaper while gold does. A rule
whose weight ends at 0 is useless. Hard rules are obeyed and not learned. A model breaks few rules on the data it was
trained on: learn the weights on other data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import is_integer
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import LIMIT, OPTIMAL, Answers, Limits, Problem, check_given, offsets_of, pieces
from bridle.decoding.threads import over_parts
from bridle.engines import Search, solve_one
from bridle.errors import LabelError, ModelError, RuleError, shown
from bridle.labels import Labels
from bridle.lattice import Batch, Lattices, subset
from bridle.learn.evidence import Given, Ids, counter, penalty_of, priced
from bridle.models.checks import (
    check_pair,
    check_seed,
    count_of,
    count_of_threads,
    ids_of,
    labellings_of,
    of_dev,
    one_of,
    positive,
)
from bridle.models.estimator import Estimator
from bridle.models.linear import Array, Weights
from bridle.models.tagger import Tagger
from bridle.models.training import Judge, Plan, Progress, Step, train
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

Floats = npt.NDArray[np.float64]
_LEAST = 0.01  # of the model's scale: without it rules would decide alone


class _Data:
    """Sequences with their scores, gold labels, and what the rules ask for."""

    def __init__(self, of: Tagger | Labels, decoder: Decoder, X: Any, y: Any, given: Any) -> None:
        model = of if isinstance(of, Tagger) else None
        self.lattices: Lattices = X if model is None else model.lattices(X, threads=0)
        self.offsets = offsets_of(self.lattices)
        check_given(given, len(self))
        self.given: Sequence[Given] | None = given if model is None else model.given(X, decoder, given)
        self.gold = ids_of(decoder.labels, labellings_of(y), self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def scores_of_gold(self) -> Floats:
        """(B,): M(gold)."""
        cuts = self.offsets
        return np.array([self.lattices[b].score(self.gold[cuts[b] : cuts[b + 1]]) for b in range(len(self))])

    def given_of(self, chosen: npt.NDArray[np.integer]) -> Sequence[Given] | None:
        return None if self.given is None else [self.given[b] for b in chosen.tolist()]


class _Perceptron:
    """The learner: one pass over all sequences per step. Weights are w, and s at the end."""

    def __init__(self, data: _Data, labels: Labels, rules: Sequence[Rule], settings: JointWeights) -> None:
        self.finished: str | None = None
        self._data, self._set, self._epoch, self._steps = data, settings, 0, 0
        self._soft = np.array([isinstance(rule, Soft) for rule in rules], dtype=bool)
        self._once = np.array([isinstance(rule, Soft) and rule.per == "sequence" for rule in rules])[self._soft]
        self._limits, self._rules = Limits(max_states=settings.max_states), list(rules)
        self._compiled = CompiledRules(labels, rules, self._limits.native())
        count = counter([rule for rule in rules if isinstance(rule, Soft)], labels, threads=settings.threads)
        self._in_gold = self._paid(count(data.gold, data.offsets, data.given))
        self._gold_scores = data.scores_of_gold() if settings.scale == "learned" else None
        from_rules = settings.start == "penalties"
        w = [penalty_of(rule) if from_rules else 0.0 for rule in rules if isinstance(rule, Soft)]
        self._w = np.array([*w, 1.0])
        self._sum = np.zeros_like(self._w)
        self._threads = count_of_threads(settings.threads)

    def _paid(self, violations: Ids) -> Floats:
        """How often each soft rule is paid for."""
        return np.where(self._once, np.minimum(violations, 1), violations).astype(np.float64)

    def step(self) -> float:
        """One pass over the sequences; the share of wrong tokens on the way."""
        order = np.random.default_rng((self._set.seed, self._epoch)).permutation(len(self._data))
        size = self._set.size
        wrong = sum(self._batch(order[k : k + size]) for k in range(0, len(order), size))
        self._epoch += 1
        self.finished = "no mistakes left" if wrong == 0 else None
        return wrong / max(len(self._data.gold), 1)

    def _batch(self, chosen: npt.NDArray[np.integer]) -> int:
        """A mini-batch; how many tokens were wrong. Sequences without an answer teach nothing."""
        data = self._data
        lattices, given = subset(data.lattices, chosen), data.given_of(chosen)
        cuts = offsets_of(lattices)
        found = self._decode(lattices, given)
        gold = np.concatenate([data.gold[data.offsets[b] : data.offsets[b + 1]] for b in chosen.tolist()])
        errors = np.concatenate([[0], np.cumsum(found.ids != gold)])
        per_sequence = errors[cuts[1:]] - errors[cuts[:-1]]
        learnt = (per_sequence > 0) & ((found.status == OPTIMAL) | (found.status == LIMIT))
        self._sum += self._w
        self._steps += 1
        if learnt.any():
            paid = self._paid(found.violations[:, self._soft])
            change = np.append((paid - self._in_gold[chosen])[learnt].sum(axis=0), 0.0)
            if self._gold_scores is not None:
                guessed = found.score + paid @ (self._w[:-1] / self._w[-1])
                gap = (self._gold_scores[chosen] - guessed)[learnt]
                change[-1] = (gap / np.diff(cuts)[learnt])[np.isfinite(gap)].sum()
            self._w = np.maximum(self._w + self._set.rate * change, [*np.zeros(len(self._w) - 1), _LEAST])
        return int(errors[-1])

    def _decode(self, lattices: Lattices, given: Sequence[Given] | None) -> Answers:
        """Automata are built once: only what rules cost changes."""
        prices = iter((self._w[:-1] / self._w[-1]).tolist())
        rules = [priced(r, next(prices)) if isinstance(r, Soft) else r for r in self._rules]
        compiled = CompiledRules(self._compiled.labels, rules, self._limits.native())

        def solve(low: int, high: int, stop: _native.Stop) -> Answers:
            some = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
            its = None if given is None else given[low:high]
            problems = (
                Problem(compiled, piece, part, first=low + first, many=True, stop=stop)
                for first, piece, part, _, _ in pieces(some, its, None, {})
            )
            return Answers.joined([solve_one(Search(), problem, self._limits) for problem in problems])

        count = len(lattices)
        size = -(-count // self._threads)
        parts = [(low, min(low + size, count)) for low in range(0, count, size)]
        return Answers.joined(over_parts(solve, parts, self._threads))

    def weights(self) -> Weights:
        """Penalties: weights in units of the model's scores."""
        w = self._w if self._set.average == "last" or not self._steps else self._sum_with_last() / (self._steps + 1)
        return w[:-1] / w[-1], None, None

    def _sum_with_last(self) -> Floats:
        return np.asarray(self._sum + self._w)

    def state(self) -> dict[str, Array]:
        """Weights, sums, and how far we are."""
        return {"w": self._w, "sum": self._sum, "at": np.array([self._epoch, self._steps], dtype=np.int64)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from there."""
        self._w, self._sum = np.array(state["w"]), np.array(state["sum"])
        self._epoch, self._steps = (int(x) for x in state["at"])


class JointWeights(Estimator):
    """Learn the penalties of soft rules together, by an averaged perceptron (Tromble & Eisner 2006, section 7).

    A rule gets more expensive while the decoder breaks it more often than gold does, and cheaper while gold does. Hard
    rules are obeyed and not learned. A model breaks few rules on the data it was trained on, so learn the penalties on
    other data.

    `fit` sets `rules_`, the rules with their penalties, without those that ended at 0; `useless_`, the rules that did;
    `weights_`, the penalties of all rules (inf for hard ones); and `progress_`, the progress of training.

    Parameters
    ----------
    rules : iterable of Rule
        Soft rules whose penalties are learned, and hard ones.
    of : Tagger or Labels
        A model; then `fit` takes sequences. Or the labels of lattices; then it takes lattices.
    iterations : int, default 20
        Number of passes over the data.
    rate : float, default 0.1
        How much a penalty changes per violation.
    size : int, default 64
        Sequences in a mini-batch, decoded with the same penalties.
    scale : {"fixed", "learned"}, default "fixed"
        Whether the weight of the model's scores is learned with the penalties.
    start : {"zero", "penalties"}, default "zero"
        First penalties: 0, which stays for a rule that no guess breaks; or those of the rules, which are corrected.
    average : {"averaged", "last"}, default "averaged"
        The mean of the penalties over all steps, or the last ones.
    patience : int, optional
        Stop after this many iterations without a better accuracy on the development set of `fit`.
    max_states : int, default 10000
        Limit of the search for a guess. Training also uses guesses that are not proved to be best.
    seed : int, default 0
        Seed of the random number generator, which shuffles the sequences.
    threads : int, default 0
        Number of threads; 0 means all cores.

    Examples
    --------
    >>> from bridle import Labels, Lattice, rules
    >>> from bridle.learn import JointWeights
    >>> soft = [rules.at_most(1, of="A").soft(1), rules.starts_with("B").soft(1)]
    >>> wrong = Lattice([[1, 0], [0, 1], [1, 0]])
    >>> made = JointWeights(soft, Labels(["A", "B"]), rate=0.5).fit([wrong] * 9, [["A", "B", "B"]] * 9)
    >>> print(made.rules_[0].rule, made.useless_[0].rule, sep="; ")
    at most 1 segment of A; starts with B
    """

    rules_: list[Rule]  # the hard ones, and the soft ones that cost something, in their order
    weights_: Floats  # (rules,)  penalties of all rules that came; inf for hard ones
    useless_: list[Rule]  # soft rules whose weight ended at 0, as they came
    progress_: Progress  # how it went; iteration 0 is the rules as they came

    def __init__(
        self,
        rules: Iterable[Rule],
        of: Tagger | Labels,
        *,
        iterations: int = 20,
        rate: float = 0.1,
        size: int = 64,
        scale: Literal["fixed", "learned"] = "fixed",
        start: Literal["zero", "penalties"] = "zero",
        average: Literal["averaged", "last"] = "averaged",
        patience: int | None = None,
        max_states: int = 10_000,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.rules, self.of, self.iterations, self.rate, self.size = rules, of, iterations, rate, size
        self.scale, self.start, self.average, self.patience = scale, start, average, patience
        self.max_states, self.seed, self.threads = max_states, seed, threads

    def fit(
        self,
        X: Any,
        y: Sequence[Sequence[str]],
        *,
        given: Sequence[Given] | None = None,
        dev: tuple[Any, Sequence[Sequence[str]]] | None = None,
        dev_given: Sequence[Given] | None = None,
        watch: Callable[[Step], None] | None = None,
    ) -> Self:
        """Learn the penalties.

        Ctrl-C ends training: the best penalties so far are kept, and the interrupt is raised again.

        Parameters
        ----------
        X : sequence of sequences, Batch or list of Lattice
            Sequences, if `of` is a model; otherwise their scores.
        y : sequence of sequence of str
            Gold labels.
        given : sequence of mapping, optional
            Values that the rules refer to by name, a mapping per sequence.
        dev : tuple, optional
            A development set (X, y). The penalties that do best on it are kept, which can be the initial ones.
        dev_given : sequence of mapping, optional
            The same as `given`, for `dev`.
        watch : callable, optional
            Called with a `Step` after each iteration.

        Returns
        -------
        JointWeights
            Itself.

        Raises
        ------
        ModelError
            If a setting is invalid.
        LabelError
            If `y` does not fit `X`.
        """
        labels = self._check()
        rules = list(self.rules)
        plan = Plan(count_of("iterations", self.iterations), 0.0, self.patience, watch)
        if plan.patience is not None and dev is None:
            raise ModelError("patience needs a development set", got="dev=None", wanted="fit(X, y, dev=(X, y))")
        decoder = Decoder(labels, rules)
        data = _Data(self.of, decoder, X, y, given)
        measure, came = None, [penalty_of(rule) for rule in rules if isinstance(rule, Soft)]
        if dev is not None:
            check_pair(dev)
            with of_dev():
                held = _Data(self.of, decoder, dev[0], dev[1], dev_given)
                measure = self._measure(held, labels, rules)
        if not came:
            self._keep(rules, np.empty(0), Progress(why="there are no soft rules"))
            return self
        judge = None if measure is None else Judge("accuracy", measure)
        (found, _, _), progress, interrupted = train(_Perceptron(data, labels, rules, self), plan, judge, {})
        if measure is not None:
            before = measure((np.array(came), None, None))
            if progress.best_score is None or before > progress.best_score:
                found, progress.best_score, progress.best_iteration = np.array(came), before, 0
        self._keep(rules, found, progress)
        if interrupted:
            raise KeyboardInterrupt
        return self

    def _check(self) -> Labels:
        if isinstance(self.rules, Rule) or not isinstance(self.rules, Iterable):
            raise RuleError("`rules` must be a list", got=shown(self.rules), wanted="a list of rules")
        one_of("scale", self.scale, ("fixed", "learned"))
        one_of("start", self.start, ("zero", "penalties"))
        one_of("average", self.average, ("averaged", "last"))
        positive("rate", self.rate)
        for name in ("size", "max_states", *(["patience"] if self.patience is not None else [])):
            value = getattr(self, name)
            if not is_integer(value, 1):
                raise ModelError(f"invalid value of `{name}`", got=repr(value), wanted="an integer >= 1")
        check_seed(self.seed)
        if isinstance(self.of, Tagger):
            return self.of.decoder().labels
        if not isinstance(self.of, Labels):
            raise LabelError("whose weights?", got=shown(self.of), wanted="a model, or the Labels of lattices")
        return self.of

    def _measure(self, held: _Data, labels: Labels, rules: list[Rule]) -> Callable[[Weights], float]:
        """Accuracy on the development set, as a function of the penalties."""
        if not len(held.gold):
            raise ModelError("the development set is empty", got="no tokens", wanted="at least one")

        # Under hard rules a limit could come before any labelling; soft ones can always be broken.
        most = self.max_states if all(isinstance(rule, Soft) for rule in rules) else None

        def accuracy(found: Weights) -> float:
            prices = iter(found[0].tolist())
            now = [priced(rule, next(prices)) if isinstance(rule, Soft) else rule for rule in rules]
            decoder = Decoder(labels, now, on_infeasible="relax", max_states=most)
            ids = decoder.decode_batch(held.lattices, held.given, threads=self.threads).ids
            return float((ids == held.gold).mean())

        return accuracy

    def _keep(self, rules: list[Rule], found: Floats, progress: Progress) -> None:
        self.weights_ = np.array([penalty_of(rule) for rule in rules])
        self.weights_[np.isfinite(self.weights_)] = found
        weighed = list(zip(rules, self.weights_.tolist(), strict=True))
        self.rules_ = [priced(r, w) if isinstance(r, Soft) else r for r, w in weighed if w > 0]
        self.useless_ = [rule for rule, weight in weighed if weight == 0]
        self.progress_ = progress


__all__ = ["JointWeights"]
