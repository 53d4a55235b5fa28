"""ConstrainedTagger (Zhao & Marcus 2012, sections 2.2 and 4): rules decide most tokens, a perceptron the others.

    score(y at t) = static features of t + (t1 t0) + (t2 t1 t0)           t1, t2: the labels before
                    + look-ahead (t0 d1), (t0 d1 d2), (t1 t0 d1)          d1, d2: decided labels after it

Features of decided tokens are never made. With train="open", as in the paper, their score is 0. With train="all", the
weights are those of a raw tagger; tagging finds its best labelling among those that keep the decided labels, so that
(t1 t0), (t2 t1 t0), (t1 t0 d1) count for a decided t0 too. Without (t2 t1 t0), the scores make a lattice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal, NoReturn, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.threads import in_threads
from bridle.errors import BridleError, ModelError, shown
from bridle.features import Encoded, Features, TemplateFeatures, Templates, sequences_of
from bridle.features.vocabulary import Prepared
from bridle.frames import Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Batch, Steps
from bridle.models.checks import Given, all_known, check_labels, count_of, count_of_threads, one_of, templates_of
from bridle.models.deterministic import UNDECIDED, Decided, DeterministicRules
from bridle.models.estimator import Labellings
from bridle.models.linear import Array, Layout, Linear, Vector, Weights, refuse_edges, width_of
from bridle.models.perceptron import AveragedWeights
from bridle.models.tagger import Tagger
from bridle.models.task import Data, Examples, Learner, Task
from bridle.models.training import Judge
from bridle.models.tuning import Tuning
from bridle.rules.base import Rule

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


class ConstrainedTagger(Tagger):
    """A tagger whose tokens are decided by rules where possible, by a perceptron elsewhere (Zhao & Marcus 2012).

    Parameters
    ----------
    rules : DeterministicRules, optional
        Settings of the rules; `fit` learns them from the training data. None: the perceptron scores every token.
    features : str, list of str or Templates, default "pos"
        Features of undecided tokens: templates, the name of a set, or ``"auto"``; those of Ratnaparkhi by default.
    lists : mapping of str to list, Path or PhraseList, optional
        Lists of phrases by name, for templates such as ``in:cities[0]``, as for `CRF`.
    train : {"open", "all"}, default "open"
        ``"open"``: weights are learned on tokens that the rules leave open, as in the paper. ``"all"``: on all tokens;
        the rules are used only when tagging, which is more accurate with a beam wider than one.
    search : {"beam", "viterbi"}, default "beam"
        A beam of `width` over trigrams of labels, or exact search over bigrams. Only the latter has lattices, and can
        be combined with other rules.
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
    patience : int, optional
        Stop after this many iterations without a better score on the development set of `fit`.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        Tagging scheme of the labels; ``"auto"`` tells it from their names.
    labels : list of str, optional
        Labels that the model knows although the data may lack them.
    seed : int, default 0
        Seed of the random number generator, which shuffles the sequences.
    threads : int, default 0
        Number of threads; 0 means all cores.

    See Also
    --------
    DeterministicRules : The rules; `decide_with` gives them to any other model.

    Examples
    --------
    >>> from bridle.learn import ConstrainedTagger, DeterministicRules
    >>> X, y = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 10, [["D", "N", "V"]] * 20
    >>> tagger = ConstrainedTagger(DeterministicRules(cutoff=2), iterations=2).fit(X, y)
    >>> tagger.predict([["the", "dog", "sat"]])
    [['D', 'N', 'V']]
    """

    pairs = "seen"
    rules_: DeterministicRules | None
    features_: TemplateFeatures
    around_: Vector  # weights of neighbouring labels
    _training: tuple[DeterministicRules | None, Decided | None] = (None, None)  # rules, decisions on training data

    def __init__(
        self,
        rules: DeterministicRules | None = None,
        *,
        features: str | Sequence[str] | Templates = "pos",
        lists: Mapping[str, Any] | None = None,
        train: Literal["open", "all"] = "open",
        search: Literal["beam", "viterbi"] = "beam",
        width: int = 5,
        lookahead: Literal["none", "decided"] = "none",
        folds: int = 5,
        cutoff: int = 1,
        iterations: int = 10,
        patience: int | None = None,
        scheme: str | None = "auto",
        labels: Sequence[str] | None = None,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.rules, self.features, self.lists, self.train = rules, features, lists, train
        self.search, self.width, self.lookahead, self.folds = search, width, lookahead, folds
        self.cutoff, self.iterations, self.patience = cutoff, iterations, patience
        self.scheme, self.labels, self.seed, self.threads = scheme, labels, seed, threads

    def _check(self) -> None:
        one_of("train", self.train, ("open", "all"))
        one_of("search", self.search, ("beam", "viterbi"))
        one_of("lookahead", self.lookahead, ("none", "decided"))
        count_of("width", self.width)
        count_of("folds", self.folds, 2)
        if self.labels is not None:
            check_labels(self.labels)
        if self.rules is not None and not isinstance(self.rules, DeterministicRules):
            got = shown(self.rules)
            raise ModelError("`rules` must be DeterministicRules", got=got, wanted="DeterministicRules()")

    def _iterations(self) -> int:
        return self.iterations

    def _bigram(self, features: Features) -> bool:
        main = templates_of(features).templates.main
        if main not in templates_of(features).sources:
            got = ", ".join(map(str, templates_of(features).templates.lines))
            raise ModelError("no template looks at the tokens, which rules decide by", got=got, wanted=f"{main}[0]")
        refuse_edges(features, "ConstrainedTagger")
        return False  # they are among the weights of neighbouring labels

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "rules": None if self.rules is None else self.rules.get_params()}

    # ---- training ---------------------------------------------------------------------------------------------------

    def _fit(self, data: Data, *args: Any, **options: Any) -> Self:
        rules, decided = None, None
        if self.rules is not None:
            all_known(data.y)
            data.labels(self.scheme, self.labels)  # which says what is wrong with labels
            X = _tokens(self._new_features(self._choose_features(data)), data.X)
            rules = DeterministicRules(**self.rules.get_params()).fit(X, data.y)
            if self.train == "open" or self.lookahead == "decided":
                decided = self._stacked(X, data.y)
        self._training = rules, decided
        try:
            return super()._fit(data, *args, **options)
        finally:
            del self._training

    def _stacked(self, X: Sequence[Any], y: Sequence[Sequence[str | None]]) -> Decided:
        """Decide each fold by rules learned on the others: training must meet as many wrong decisions as tagging."""
        assert self.rules is not None
        cuts = [len(X) * k // self.folds for k in range(self.folds + 1)]
        parts: list[Decided] = []
        for low, high in pairwise(cuts):
            if low < high:
                others = list(chain(X[:low], X[high:])), list(chain(y[:low], y[high:]))
                parts.append(DeterministicRules(**self.rules.get_params()).fit(*others).decide(X[low:high]))
        labels = Labels(sorted(set(chain.from_iterable(part.labels.names for part in parts))))
        ids = [renumbered(part, labels) for part in parts]
        return Decided(np.concatenate(ids), np.zeros(1, np.int64), labels)

    def _learner(
        self, task: Task, decoder: Decoder, given: Sequence[Given] | None, tuning: Tuning | None = None
    ) -> Learner:
        context, gold = self._context(len(decoder.labels)), task.y
        if (gold < 0).any():
            got = f"{int((gold < 0).sum()):,} missing labels"
            raise ModelError("a ConstrainedTagger needs all labels", got=got, wanted="a label for every token")
        decided = self._training[1]
        ahead = np.full(len(gold), UNDECIDED, np.int32) if decided is None else renumbered(decided, decoder.labels)
        # A wrong decision would leave gold out.
        fixed = np.where((ahead == gold) & (self.train == "open"), ahead, UNDECIDED).astype(np.int32)
        return _Learner(task, context, fixed, ahead, self._beam(), self.seed)

    def _judge(self, examples: Examples, dev: Data, layout: Layout, measure: str) -> Judge:
        rules, context = self._training[0], self._context(len(examples.labels))
        decided = np.full(examples.encoded.n_tokens, UNDECIDED, dtype=np.int32)
        if rules is not None:
            decided = renumbered(rules.decide(_tokens(examples.features, dev.X)), examples.labels)

        def guess(weights: Weights) -> Ids:
            linear = Linear.of(layout, *weights)
            assert linear.pairwise is not None
            return self._searched(examples.encoded, linear, linear.pairwise, decided, context, _native.Stop())

        return Judge.of(examples, dev.y, measure, guess)

    def _use(self, linear: Linear) -> None:
        assert linear.pairwise is not None
        self.rules_, self.around_ = self._training[0], linear.pairwise
        self.linear_, self.n_weights_ = replace(linear, pairwise=None), self.n_weights_ + len(self.around_)
        self.__dict__.pop("_shared", None)

    def _folded(self, *args: Any, **options: Any) -> NoReturn:
        raise ModelError(
            "a ConstrainedTagger is not trained on folds",
            got="a search for settings, cross-validation, or cross-fitted scores",
            wanted="a development set: fit(X, y, dev=(X, y))",
            cause="For scores of held-out sequences, use a CRF; decide_with gives it deterministic rules.",
        )

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

    # ---- use --------------------------------------------------------------------------------------------------------

    def predict(
        self,
        X: Sequences,
        rules: Iterable[Rule | str] = (),
        *,
        given: Sequence[Given] | Table | None = None,
        groups: Sequence[Hashable] | None = None,
        threads: int = 0,
        **options: Any,
    ) -> list[list[str]]:
        """Find the best labels of sequences; under rules if the tagger was trained with search="viterbi".

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        rules : iterable of Rule or str
            Rules about the tokens that are not decided; decided labels are kept.
        given, groups : optional
            As for `CRF.predict`.
        threads : int, default 0
            Number of threads; 0 means all cores.
        **options : object
            Options of `Decoder`.

        Returns
        -------
        list of list of str
            A label per token.

        Raises
        ------
        ModelError
            If the tagger has not been trained, or there are rules for one with search="beam".
        Infeasible
            If no labelling of a sequence keeps the decided labels and obeys the hard rules.
        """
        rules = list(rules)
        if rules or options or groups is not None or self.decides is not None:
            return super().predict(X, rules, given=given, groups=groups, threads=threads, **options)
        self._fitted()
        X = sequences_of(X)
        context = self._context(len(self.labels_))

        def work(low: int, high: int, stop: _native.Stop) -> list[list[str]]:
            encoded, decided = self._encoded(self.features_.prepare(X[low:high]))
            ids = self._searched(encoded, self.linear_, self.around_, decided, context, stop)
            return self.labels_.named(ids, encoded.offsets)

        return Labellings(chain.from_iterable(in_threads(work, len(X), count_of_threads(threads))))

    def scored(
        self,
        sequences: Sequence[Any],
        stop: _native.Stop | None = None,
        errors: dict[int, BridleError] | None = None,
    ) -> tuple[Batch, Sequence[str] | None]:
        """Score sequences; a decided token has no other label.

        Parameters
        ----------
        sequences : list
            Sequences, as for `fit`.
        stop, errors : optional
            As for `CRF.scored`.

        Returns
        -------
        (Batch, sequence of str)
            The scores, and the texts of the tokens.

        Raises
        ------
        ModelError
            If the tagger was trained with search="beam": trigrams of labels make no lattice.
        """
        if self.search == "beam":
            raise ModelError(
                "scores of trigrams of labels make no lattice",
                got="a ConstrainedTagger with search='beam'",
                wanted="predict(X) without rules, or a tagger that was trained with search='viterbi'",
                cause="Rules, files and requests need a lattice; bridle train --learner constrained makes one.",
            )
        prepared = self.features_.prepare(sequences, errors)
        encoded, decided = self._encoded(prepared)
        batch = self._lattices(self.linear_.scores(encoded, "raw", stop, errors), decided)
        texts = prepared.packed.texts[self.features_.templates.main]
        if self.decides is not None:
            batch = self.decides.of_texts(texts, batch.offsets).constrain(batch, self.labels_)
        return batch, texts

    def _lattices(self, static: Batch, decided: Ids) -> Batch:
        """Add the weights of neighbouring labels, for search="viterbi"."""
        m, offsets, N = static.n_labels, static.offsets, len(decided)
        rows = self.around_.reshape(-1, width_of(m))[:, :m]
        pair, begin, rest = rows[:m], rows[m], rows[m + 1 :]
        unary, closed = static.unary.astype(np.float64), decided >= 0
        counts = ~closed | (self.train == "all")  # tokens whose label bigrams count
        first = np.zeros(N, dtype=bool)
        first[offsets[:-1][np.diff(offsets) > 0]] = True
        unary[first & counts] += begin
        steps = None
        if self.lookahead == "decided":
            d1, d2 = np.full(N, UNDECIDED), np.full(N, UNDECIDED)
            d1[:-1] = np.where(first[1:], UNDECIDED, decided[1:])
            d2[:-1] = np.where(first[1:] | (d1[:-1] < 0), UNDECIDED, d1[1:])
            after, after2 = rest[:m], rest[m : m + m * m].reshape(m, m, m)
            around = rest[m + m * m :].reshape(m + 1, m, m)  # the label before, d1, the label
            at, at2 = np.flatnonzero((d1 >= 0) & counts), np.flatnonzero((d2 >= 0) & counts)
            unary[at] += after[d1[at]]
            unary[at2] += after2[d1[at2], d2[at2]]
            unary[at[first[at]]] += around[m, d1[at[first[at]]]]
            at = at[~first[at]]
            sizes = np.zeros(N + 1, dtype=np.int64)
            sizes[at + 1] = m * m
            pairs = np.tile(np.arange(m * m, dtype=np.int32), len(at))
            steps = Steps(np.cumsum(sizes), pairs, around[:m, d1[at]].swapaxes(0, 1).astype(np.float32).reshape(-1))
        free = np.flatnonzero(closed & ~first & ~counts)  # a step to them costs nothing
        unary[free - 1] -= pair[:, decided[free]].T
        closed_at = np.flatnonzero(closed)
        kept = unary[closed_at, decided[closed_at]]
        unary[closed_at] = -np.inf
        unary[closed_at, decided[closed_at]] = kept
        return Batch(unary, offsets, np.ascontiguousarray(pair))._with_steps(steps)

    def _encoded(self, prepared: Prepared) -> tuple[Encoded, Ids]:
        """Return the attributes of tokens that rules leave open, and the labels of the others."""
        if self.rules_ is None:
            encoded = self.features_.encode_prepared(prepared)
            return encoded, np.full(encoded.n_tokens, UNDECIDED, dtype=np.int32)
        if self._shared:
            decided = self.rules_.agreed(prepared)
        else:
            packed = prepared.packed
            decided = self.rules_.of_texts(packed.texts[self.features_.templates.main], packed.offsets).ids
        decided = numbers(self.rules_.labels_, self.labels_)[decided]
        return self.features_.encode_prepared(prepared, decided < 0), decided

    def _searched(
        self, encoded: Encoded, linear: Linear, around: Vector, decided: Ids, context: _native.Context, stop: Any
    ) -> Ids:
        out = np.empty(encoded.n_tokens, dtype=np.int32)
        layout, weights = linear.layout.native, linear.weights
        context.search(layout, encoded.native(), weights, decided, decided, around, self._beam(), out, stop)
        return out

    @cached_property
    def _shared(self) -> bool:
        """Check whether rules and features know the same strings, so that texts are looked up once."""
        return self.rules_ is not None and self.features_.share(self.rules_.features_)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, Array]:
        inside = {} if self.rules_ is None else self.rules_._stored()[1]
        return {**super()._arrays(), "around": self.around_, **{f"{_INSIDE}{name}": inside[name] for name in inside}}

    def _stored(self, notes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
        head, arrays = super()._stored(notes)
        return {**head, "rules": None if self.rules_ is None else self.rules_._stored()[0]}, arrays

    def _restore(self, head: Mapping[str, Any], arrays: Mapping[str, Array], path: str) -> None:
        self.rules = None
        self._check()
        if isinstance(head["rules"], dict):
            self.rules = DeterministicRules(**head["rules"]["settings"])
            self.rules._check()
            inside = {name.removeprefix(_INSIDE): array for name, array in arrays.items() if name.startswith(_INSIDE)}
            self.rules_ = DeterministicRules(**self.rules.get_params())
            self.rules_._restore(head["rules"], inside, path)
        else:  # before 0.3, rules were in a second file beside it, NAME.rules
            self.rules_ = DeterministicRules.load(f"{path}.rules") if head["rules"] else None
            self.rules = None if self.rules_ is None else DeterministicRules(**self.rules_.get_params())
        around: Any = np.ascontiguousarray(arrays["around"])
        if around.dtype != np.float64 or around.shape != (self._context(len(self.labels_)).size,):
            raise ModelError("the weights of neighbouring labels do not fit the labels")
        if not np.isfinite(around).all():
            raise ModelError("a weight of neighbouring labels is not finite")
        self.around_ = around


def numbers(labels: Labels, others: Labels) -> Ids:
    """(m + 1): the id that each label has among others; -1 for those that they lack, and for -1."""
    known = {name: k for k, name in enumerate(others.names)}
    return np.array([*(known.get(name, UNDECIDED) for name in labels.names), UNDECIDED], dtype=np.int32)


def renumbered(decided: Decided, labels: Labels) -> Ids:
    """Return decided labels as ids of another label set; labels that it lacks are undecided."""
    return numbers(decided.labels, labels)[decided.ids]


def _tokens(features: Features, X: Sequence[Any]) -> list[Sequence[str]]:
    return [templates_of(features).tokens(x) for x in X]
