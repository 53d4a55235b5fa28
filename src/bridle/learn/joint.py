"""JointWeights: penalties learned by decoding with the rules (Tromble & Eisner 2006, section 6.2).

y^  = argmax over y of  s M(y) - sum over r of w[r] v[r](y)      the best labelling under the current weights
w[r] <- max(0, w[r] + rate (v[r](y^) - v[r](gold)))              where y^ is not gold
s    <- max(least, s + rate (M(gold) - M(y^)) / tokens)          only if the scale of the model is learned too
penalty of r = mean of w[r] over all steps / mean of s

M score of the model    v[r] violations of rule r, or 0/1 for a rule that is paid once per sequence    s from 1
B sequences (b)    R soft rules (r)    a step is a mini-batch: its weights are fixed, its updates are added up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given, offsets_of
from bridle.errors import LabelError, ModelError, RuleError, shown
from bridle.labels import Labels
from bridle.lattice import Lattices, subset
from bridle.learn.evidence import Given, Ids, counter, penalty_of, priced
from bridle.models.checks import (
    OnUnknown,
    check_pair,
    check_seed,
    count_of,
    ids_of,
    labellings_of,
    of_dev,
    one_of,
    positive,
    used_sequences,
)
from bridle.models.estimator import Estimator
from bridle.models.linear import Array, Weights
from bridle.models.tagger import Tagger
from bridle.models.training import Judge, Plan, Progress, Step, train
from bridle.rules.base import Rule, Soft

Floats = npt.NDArray[np.float64]
_LEAST = 0.01  # of the model's scale: without it rules would decide alone


class _Data:
    """Sequences with their scores, gold labels, and the values that rules refer to."""

    def __init__(
        self, of: Tagger | Labels, decoder: Decoder, X: Any, y: Any, given: Any, on_unknown: OnUnknown = "raise"
    ) -> None:
        model = of if isinstance(of, Tagger) else None
        self.lattices: Lattices = X if model is None else model.lattices(X, threads=0)
        self.offsets = offsets_of(self.lattices)
        check_given(given, len(self))
        self.given: Sequence[Given] | None = given if model is None else model.given(X, decoder, given)
        y = labellings_of(y)
        kept = used_sequences(decoder.labels.names, y, on_unknown)
        if len(kept) < len(y) == len(self):
            self.lattices, y = subset(self.lattices, kept), [y[k] for k in kept.tolist()]
            self.given = None if self.given is None else [self.given[k] for k in kept.tolist()]
            self.offsets = offsets_of(self.lattices)
        self.gold = ids_of(decoder.labels, y, self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def gold_of(self, b: int) -> Ids:
        return self.gold[self.offsets[b] : self.offsets[b + 1]]


def _priced(rules: Sequence[Rule], penalties: Floats) -> list[Rule]:
    """Give the soft rules these penalties, in their order."""
    prices = iter(penalties.tolist())
    return [priced(rule, next(prices)) if isinstance(rule, Soft) else rule for rule in rules]


class _Perceptron:
    """The learner: one pass over all sequences per step. Weights are w, and s at the end."""

    def __init__(self, data: _Data, decoder: Decoder, settings: JointWeights) -> None:
        self.finished: str | None = None
        self._data, self._settings, self._epoch, self._steps = data, settings, 0, 0
        self._decoder = decoder.with_rules(
            decoder.rules, engine="search", on_infeasible="skip", max_states=settings.max_states
        )
        self._soft = np.array([isinstance(rule, Soft) for rule in decoder.rules], dtype=bool)
        soft = [rule for rule in decoder.rules if isinstance(rule, Soft)]
        self._once = np.array([rule.per == "sequence" for rule in soft])
        count = counter(soft, decoder.labels, threads=settings.threads)
        self._in_gold = self._paid(count(data.gold, data.offsets, data.given))
        self._gold_scores: Floats | None = None
        if settings.scale == "learned":
            self._gold_scores = np.array([data.lattices[b].score(data.gold_of(b)) for b in range(len(data))])
        start = [rule.penalty if settings.start == "penalties" else 0.0 for rule in soft]
        self._w = np.array([*start, 1.0])
        self._sum = np.zeros_like(self._w)

    def _paid(self, violations: npt.NDArray[np.integer]) -> Floats:
        """Count how often each soft rule is paid for."""
        return np.where(self._once, np.minimum(violations, 1), violations).astype(np.float64)

    def step(self) -> float:
        """Make one pass over the sequences; return the share of wrong tokens on the way."""
        order = np.random.default_rng((self._settings.seed, self._epoch)).permutation(len(self._data))
        size = self._settings.size
        wrong = sum(self._learn(order[k : k + size]) for k in range(0, len(order), size))
        self._epoch += 1
        self.finished = "no mistakes left" if wrong == 0 else None
        return wrong / max(len(self._data.gold), 1)

    def _learn(self, chosen: npt.NDArray[np.integer]) -> int:
        """Learn from a mini-batch; return how many tokens were wrong. Sequences without an answer teach nothing."""
        data, penalties = self._data, self._w[:-1] / self._w[-1]
        given = None if data.given is None else [data.given[b] for b in chosen.tolist()]
        decoder = self._decoder.with_rules(_priced(self._decoder.rules, penalties))
        guesses = decoder.decode_batch(subset(data.lattices, chosen), given, threads=self._settings.threads)
        cuts = guesses.offsets
        gold = np.concatenate([data.gold_of(b) for b in chosen.tolist()])
        errors = np.append(0, np.cumsum(guesses.ids != gold))
        learnt = (errors[cuts[1:]] > errors[cuts[:-1]]) & guesses.answered
        self._sum += self._w
        self._steps += 1
        if learnt.any():
            paid = self._paid(guesses.violations[:, self._soft])
            change = np.append((paid - self._in_gold[chosen])[learnt].sum(axis=0), 0.0)
            if self._gold_scores is not None:
                guessed = guesses.scores + paid @ penalties
                gap = (self._gold_scores[chosen] - guessed)[learnt]
                change[-1] = (gap / np.diff(cuts)[learnt])[np.isfinite(gap)].sum()
            self._w = np.maximum(self._w + self._settings.rate * change, [*np.zeros(len(self._w) - 1), _LEAST])
        return int(errors[-1])

    def weights(self) -> Weights:
        """Return penalties: weights in units of the model's scores."""
        last = self._settings.average == "last" or not self._steps
        w = self._w if last else np.asarray(self._sum + self._w) / (self._steps + 1)
        return w[:-1] / w[-1], None, None

    def state(self) -> dict[str, Array]:
        """Return weights, sums, and how far training has come."""
        return {"w": self._w, "sum": self._sum, "at": np.array([self._epoch, self._steps], dtype=np.int64)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Continue from a state."""
        self._w, self._sum = np.array(state["w"]), np.array(state["sum"])
        self._epoch, self._steps = (int(x) for x in state["at"])


class JointWeights(Estimator):
    """Learn the penalties of soft rules together, by an averaged perceptron (Tromble & Eisner 2006, section 6.2).

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
    >>> joint = JointWeights(soft, Labels(["A", "B"]), rate=0.5).fit([wrong] * 9, [["A", "B", "B"]] * 9)
    >>> print(joint.rules_[0].rule, joint.useless_[0].rule, sep="; ")
    at most 1 segment of A; starts with B
    """

    rules_: list[Rule]
    weights_: Floats  # (rules,)
    useless_: list[Rule]
    progress_: Progress  # iteration 0 is the rules as they were passed

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
        on_unknown: Literal["raise", "skip"] = "raise",
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
        on_unknown : {"raise", "skip"}, default "raise"
            What to do with a gold label that is none of the labels: raise an error, or leave out the sequence, also in
            `dev`.
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
            If `y` does not fit `X`, or has a label that is none of the labels.
        """
        labels = self._check()
        one_of("on_unknown", on_unknown, ("raise", "skip"))
        rules = list(self.rules)
        plan = Plan(count_of("iterations", self.iterations), 0.0, self.patience, watch)
        if plan.patience is not None and dev is None:
            raise ModelError("patience needs a development set", got="dev=None", wanted="fit(X, y, dev=(X, y))")
        decoder = Decoder(labels, rules)
        data = _Data(self.of, decoder, X, y, given, on_unknown)
        measure, written = None, np.array([rule.penalty for rule in rules if isinstance(rule, Soft)])
        if dev is not None:
            check_pair(dev)
            with of_dev():
                measure = self._measure(_Data(self.of, decoder, dev[0], dev[1], dev_given, on_unknown), decoder)
        if not len(written):
            self._keep(rules, np.empty(0), Progress(why="there are no soft rules"))
            return self
        judge = None if measure is None else Judge("accuracy", measure)
        (penalties, _, _), progress, interrupted = train(_Perceptron(data, decoder, self), plan, judge, {})
        if measure is not None:
            before = measure((written, None, None))
            if progress.best_score is None or before > progress.best_score:
                penalties, progress.best_score, progress.best_iteration = written, before, 0
        self._keep(rules, penalties, progress)
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
            count_of(name, getattr(self, name))
        check_seed(self.seed)
        if isinstance(self.of, Tagger):
            return self.of.decoder().labels
        if not isinstance(self.of, Labels):
            raise LabelError(
                "`of` must be a model or Labels", got=shown(self.of), wanted="a model, or the Labels of lattices"
            )
        return self.of

    def _measure(self, dev: _Data, decoder: Decoder) -> Callable[[Weights], float]:
        """Make a function of penalties that returns the accuracy on the development set."""
        if not len(dev.gold):
            raise ModelError("the development set is empty", got="no tokens", wanted="at least one")
        # Under hard rules a limit could come before any labelling; soft ones can always be broken.
        most = self.max_states if all(isinstance(rule, Soft) for rule in decoder.rules) else None

        def accuracy(weights: Weights) -> float:
            rules = _priced(decoder.rules, weights[0])
            limited = Decoder(decoder.labels, rules, on_infeasible="relax", max_states=most)
            return float((limited.decode_batch(dev.lattices, dev.given, threads=self.threads).ids == dev.gold).mean())

        return accuracy

    def _keep(self, rules: list[Rule], penalties: Floats, progress: Progress) -> None:
        self.weights_ = np.array([penalty_of(rule) for rule in rules])
        self.weights_[np.isfinite(self.weights_)] = penalties
        self.rules_ = [rule for rule in _priced(rules, penalties) if penalty_of(rule) > 0]
        self.useless_ = [rule for rule, weight in zip(rules, self.weights_.tolist(), strict=True) if weight == 0]
        self.progress_ = progress
