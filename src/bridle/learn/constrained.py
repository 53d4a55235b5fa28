"""ConstrainedTagger (Zhao & Marcus 2012, sections 2.2 and 4): rules decide most tokens, a perceptron the others.

    score(y at t) = static features of t + (t1 t0) + (t2 t1 t0)           t1, t2: the labels before
                    + look-ahead (t0 d1), (t0 d1 d2), (t1 t0 d1)          d1, d2: decided labels after it

Features of decided tokens are never made. With train="open", as in the paper, their score is 0. With train="all", the
weights are those of a raw tagger; tagging finds its best labelling among those that keep the decided labels, so that
(t1 t0), (t2 t1 t0), (t1 t0 d1) count for a decided t0 too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.threads import in_threads
from bridle.errors import ModelError, shown
from bridle.features import TemplateFeatures, Templates, sequences_of
from bridle.frames import LabelLists, Sequences
from bridle.labels import Labels
from bridle.learn.deterministic import UNDECIDED, Decided, DeterministicRules
from bridle.models.checks import check_seed, count_of, count_of_threads, ids_of, labellings_of, names_of, one_of
from bridle.models.estimator import Labellings, SavedEstimator, not_fitted
from bridle.models.linear import Array, Linear, Vector, Weights, refuse_edges
from bridle.models.perceptron import AveragedWeights
from bridle.models.task import Task
from bridle.models.training import Plan, Progress, Step, train

Ids = npt.NDArray[np.int32]
_INSIDE = "inside."  # before the names of the arrays of rules, in files
MOST_CONTEXT = 1 << 27  # weights of neighbouring labels: a gigabyte


class _Learner(AveragedWeights):
    """The averaged perceptron whose guesses come from the constrained search."""

    def __init__(self, task: Task, context: _native.Context, fixed: Ids, ahead: Ids, beam: int, seed: int) -> None:
        super().__init__(task, "averaged", seed)
        self._context, self._fixed, self._ahead, self._beam = context, fixed, ahead, beam
        self._around, self._around_sum = np.zeros(context.size), np.zeros(context.size)

    def step(self) -> float:
        """Make one pass over the sequences; return the share of wrong tokens on the way."""
        order = self._order(len(self._task.encoded))
        wrong = self._context.learn(
            self._native, self._task.joined, self._fixed, self._ahead, self._around, self._around_sum, self._beam, order
        )
        return self._ended(wrong, "no mistakes left")

    def weights(self) -> Weights:
        """Return averaged weights: static ones, and those of neighbouring labels."""
        steps = max(self._native.step, 1)
        return self._w - self._sum / steps, self._around - self._around_sum / steps, None

    def state(self) -> dict[str, Array]:
        """Return weights, sums, and how far training has come."""
        return super().state() | {"around": self._around, "around_sum": self._around_sum}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Continue from a state."""
        self._around[...], self._around_sum[...] = state["around"], state["around_sum"]
        super().restore(state)


class ConstrainedTagger(SavedEstimator):
    """A tagger whose tokens are decided by rules where possible, by a perceptron elsewhere (Zhao & Marcus 2012).

    Parameters
    ----------
    rules : DeterministicRules, optional
        Settings of the rules; `fit` learns them from the training data. None: the perceptron scores every token.
    features : str, list of str or Templates, default "pos"
        Features of undecided tokens: templates, or the name of a set; those of Ratnaparkhi by default.
    train : {"open", "all"}, default "open"
        ``"open"``: weights are learned on tokens that the rules leave open, as in the paper. ``"all"``: on all tokens;
        the rules are used only when tagging, which is more accurate with a beam wider than one.
    search : {"beam", "viterbi"}, default "beam"
        A beam of `width` over trigrams of labels, or exact search over bigrams.
    width : int, default 5
        Width of the beam.
    lookahead : {"none", "decided"}, default "none"
        ``"decided"``: features of decided labels after the token (feature set B of the paper).
    folds : int, default 5
        What rules decide of the training data is learned on the other folds, so that training meets as many wrong
        decisions as tagging will; 2 or more.
    cutoff : int, default 1
        Features that occur fewer times in training are left out.
    iterations : int, default 10
        Number of passes over the training data.
    seed : int, default 0
        Seed of the random number generator, which shuffles the sequences.

    Examples
    --------
    >>> from bridle.learn import ConstrainedTagger, DeterministicRules
    >>> X, y = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 10, [["D", "N", "V"]] * 20
    >>> tagger = ConstrainedTagger(DeterministicRules(cutoff=2), iterations=2).fit(X, y)
    >>> tagger.predict([["the", "dog", "sat"]])
    [['D', 'N', 'V']]
    """

    _kind, _called = "constrained", "ConstrainedTagger"

    labels_: Labels
    rules_: DeterministicRules | None
    features_: TemplateFeatures
    linear_: Linear
    around_: Vector  # weights of neighbouring labels
    progress_: Progress

    def __init__(
        self,
        rules: DeterministicRules | None = None,
        *,
        features: str | Sequence[str] | Templates = "pos",
        train: Literal["open", "all"] = "open",
        search: Literal["beam", "viterbi"] = "beam",
        width: int = 5,
        lookahead: Literal["none", "decided"] = "none",
        folds: int = 5,
        cutoff: int = 1,
        iterations: int = 10,
        seed: int = 0,
    ) -> None:
        self.rules, self.features, self.train, self.search, self.width = rules, features, train, search, width
        self.lookahead, self.folds, self.cutoff, self.iterations, self.seed = lookahead, folds, cutoff, iterations, seed

    def fit(self, X: Sequences, y: LabelLists, *, watch: Callable[[Step], None] | None = None) -> Self:
        """Learn the rules, then the weights.

        Ctrl-C ends training: what was learned so far is kept, and the interrupt is raised again.

        Parameters
        ----------
        X : sequence of sequences
            Columns (``{"word": [...]}``), or lists of words.
        y : sequence of sequence of str
            A label per token.
        watch : callable, optional
            Called with a `Step` after each iteration.

        Returns
        -------
        ConstrainedTagger
            Itself.

        Raises
        ------
        ModelError
            If a setting is invalid, or there are too many labels for trigrams.
        LabelError
            If `y` does not fit `X`.
        """
        self._check()
        X, y = sequences_of(X), labellings_of(y)
        names = names_of(y)
        labels = Labels(names)
        rules = None if self.rules is None else DeterministicRules(**self.rules.get_params()).fit(X, y)
        templates = self.features if isinstance(self.features, Templates) else Templates.parse(self.features)
        features = TemplateFeatures(templates, self.cutoff)
        refuse_edges(features, "ConstrainedTagger")
        encoded = features.fit(X)
        gold = ids_of(labels, y, encoded.offsets)
        task = Task.of(encoded, gold, (len(features), len(labels)), "seen", bigram=False)
        context = self._context(len(labels))
        ahead = self._stacked(X, y, labels) if self._stacks() else np.full(len(gold), UNDECIDED, dtype=np.int32)
        # A wrong decision would leave gold out.
        fixed = np.where((ahead == gold) & (self.train == "open"), ahead, UNDECIDED).astype(np.int32)
        learner = _Learner(task, context, fixed, ahead, self._beam(), self.seed)
        plan = Plan(count_of("iterations", self.iterations), watch=watch)
        (weights, around, _), progress, interrupt = train(learner, plan, None, {})
        linear = Linear.of(task.layout, weights, None).pruned(features)
        self.labels_, self.rules_, self.features_, self.linear_ = labels, rules, features, linear
        self.around_, self.progress_ = np.zeros(0) if around is None else around, progress
        self.__dict__.pop("_shared", None)
        if interrupt is not None:
            raise interrupt
        return self

    def _check(self) -> None:
        one_of("train", self.train, ("open", "all"))
        one_of("search", self.search, ("beam", "viterbi"))
        one_of("lookahead", self.lookahead, ("none", "decided"))
        count_of("width", self.width)
        check_seed(self.seed)
        if self.rules is not None and not isinstance(self.rules, DeterministicRules):
            got = shown(self.rules)
            raise ModelError("`rules` must be DeterministicRules", got=got, wanted="DeterministicRules()")
        count_of("folds", self.folds, 2)

    def _stacks(self) -> bool:
        """Check whether training needs the decisions of rules."""
        return self.rules is not None and (self.train == "open" or self.lookahead == "decided")

    def _beam(self) -> int:
        return self.width if self.search == "beam" else 0

    def _context(self, m: int) -> _native.Context:
        context = _native.Context(m, self.search == "beam", self.lookahead == "decided", self.train == "all")
        if context.size > MOST_CONTEXT:
            raise ModelError(
                "there are too many labels for trigrams of them",
                got=f"{m} labels",
                wanted=f"{MOST_CONTEXT:,} weights",
                cause="search='viterbi' only uses the previous label.",
            )
        return context

    def _stacked(self, X: Sequence[Any], y: Sequence[Sequence[str | None]], labels: Labels) -> Ids:
        """Decide each fold by rules learned on the others: training must meet as many wrong decisions as tagging."""
        cuts = [len(X) * k // self.folds for k in range(self.folds + 1)]
        out: list[Ids] = []
        for low, high in pairwise(cuts):
            if low == high:
                continue
            others = list(chain(X[:low], X[high:])), list(chain(y[:low], y[high:]))
            assert self.rules is not None
            decided = DeterministicRules(**self.rules.get_params()).fit(*others).decide(X[low:high])
            out.append(renumbered(decided, labels))
        return np.concatenate(out)

    # ---- use --------------------------------------------------------------------------------------------------------

    def predict(self, X: Sequences, *, threads: int = 0) -> list[list[str]]:
        """Label sequences.

        Parameters
        ----------
        X : sequence of sequences
            As in `fit`.
        threads : int, default 0
            Number of threads; 0 means all cores.

        Returns
        -------
        list of list of str
            A label per token.

        Raises
        ------
        ModelError
            If the tagger has not been trained.
        """
        self._fitted()
        X = sequences_of(X)
        context = self._context(len(self.labels_))

        def work(low: int, high: int, stop: _native.Stop) -> list[list[str]]:
            return self.labels_.named(*self._ids(X[low:high], context, stop))

        return Labellings(chain.from_iterable(in_threads(work, len(X), count_of_threads(threads))))

    def _ids(self, X: Sequence[Any], context: _native.Context, stop: _native.Stop) -> tuple[Ids, npt.NDArray[np.int64]]:
        prepared = self.features_.prepare(X)
        if self.rules_ is None:
            encoded = self.features_.encode_prepared(prepared)
            decided = np.full(encoded.n_tokens, UNDECIDED, dtype=np.int32)
        else:
            ours = prepared if self._shared else self.rules_.features_.prepare(X)
            decided = self.rules_.agreed(ours)
            encoded = self.features_.encode_prepared(prepared, decided < 0)
        out = np.empty(encoded.n_tokens, dtype=np.int32)
        layout, weights = self.linear_.layout.native, self.linear_.weights
        context.search(layout, encoded.native(), weights, decided, decided, self.around_, self._beam(), out, stop)
        return out, encoded.offsets

    @cached_property
    def _shared(self) -> bool:
        """Check whether rules and features know the same strings, so that texts are looked up once."""
        return self.rules_ is not None and self.features_.share(self.rules_.features_)

    def score(self, X: Sequences, y: LabelLists) -> float:
        """Measure accuracy.

        Parameters
        ----------
        X : sequence of sequences
            As in `fit`.
        y : sequence of sequence of str
            Gold labels.

        Returns
        -------
        float
            Share of right tokens; 0 if there are none.
        """
        guessed, gold = (list(chain.from_iterable(labels)) for labels in (self.predict(X), labellings_of(y)))
        if len(guessed) != len(gold):
            raise ModelError("y does not fit X", got=f"{len(gold)} labels", wanted=f"{len(guessed)}, one per token")
        return sum(a == b for a, b in zip(guessed, gold, strict=True)) / max(len(gold), 1)

    def _fitted(self) -> None:
        if not hasattr(self, "linear_"):
            raise not_fitted("the tagger has not been trained")

    # ---- files ------------------------------------------------------------------------------------------------------

    def _stored(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        settings = {name: value for name, value in self.get_params().items() if name != "rules"}
        settings["features"] = str(self.features_.templates).splitlines()
        rules, of_rules = (None, {}) if self.rules_ is None else self.rules_._stored()
        head = {
            "settings": settings,
            "labels": list(self.labels_.names),
            "scheme": self.labels_.scheme,
            "features": self.features_.head(),
            "progress": asdict(self.progress_),
            "rules": rules,
        }
        inside = {f"{_INSIDE}{name}": array for name, array in of_rules.items()}
        return head, {**self.features_.arrays(), **self.linear_.arrays(), "around": self.around_, **inside}

    def _restore(self, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], path: str) -> None:
        if isinstance(head["rules"], dict):
            self.rules = DeterministicRules(**head["rules"]["settings"])
            self.rules._check()
            inside = {name.removeprefix(_INSIDE): array for name, array in arrays.items() if name.startswith(_INSIDE)}
            self.rules_ = DeterministicRules(**self.rules.get_params())
            self.rules_._restore(head["rules"], inside, path)
        else:  # before 0.3, rules were in a second file beside it, NAME.rules
            self.rules_ = DeterministicRules.load(f"{path}.rules") if head["rules"] else None
            self.rules = None if self.rules_ is None else DeterministicRules(**self.rules_.get_params())
        self.labels_ = Labels(head["labels"], head["scheme"])
        self.features_ = TemplateFeatures.restored(head["features"], dict(arrays))
        self.linear_ = Linear.restored(arrays, len(self.features_), len(self.labels_))
        around: Any = np.ascontiguousarray(arrays["around"])
        if around.dtype != np.float64 or around.shape != (self._context(len(self.labels_)).size,):
            raise ModelError("the weights of neighbouring labels do not fit the labels")
        self.around_, self.progress_ = around, Progress.restored(head["progress"])


def renumbered(decided: Decided, labels: Labels) -> Ids:
    """Return decided labels as ids of another label set; labels that it lacks are undecided."""
    known = {name: k for k, name in enumerate(labels.names)}
    number = np.array([*(known.get(name, UNDECIDED) for name in decided.labels.names), UNDECIDED], dtype=np.int32)
    return number[decided.ids]
