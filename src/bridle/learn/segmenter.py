"""Segmenter: words of text that is written without blanks (Zhao & Marcus 2012, sections 3 and 4).

In training, the counts are those of the other sentences, since every word of a sentence has been counted there.
"stacked": weights of characters are learned first; those of counts then, by a perceptron that decodes words with scores
of characters by models that have not seen the sentence. "joint", as in the paper: one perceptron that decodes words
learns both; its characters know the training data, so that it relies too little on counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np

from bridle.decoding.threads import in_threads
from bridle.errors import ModelError, shown
from bridle.features import TemplateFeatures, Templates
from bridle.features.columns import Interned
from bridle.labels import Labels
from bridle.learn.word_scores import (
    LENGTHS,
    ROLES,
    AllValues,
    CountWeights,
    Floats,
    Spans,
    WordCounts,
    WordValues,
    labels_of,
    spans_of,
    word_scores,
)
from bridle.models.checks import (
    check_callable,
    check_seed,
    count_of,
    count_of_threads,
    ids_of,
    names_of,
    one_of,
    templates_of,
)
from bridle.models.crf import CRF
from bridle.models.deterministic import DeterministicRules
from bridle.models.estimator import SavedEstimator, not_fitted
from bridle.models.folds import FOLDS
from bridle.models.linear import Array, Linear, Vector, Weights
from bridle.models.perceptron import AveragedWeights
from bridle.models.task import Task
from bridle.models.training import Judge, Plan, Progress, Step, train
from bridle.report import Counts
from bridle.rules.base import Rule
from bridle.spans import SpanDecoder, SpanDecodings, SpanLattice

ROUNDS = 3  # passes that learn weights of counts over scores of characters that stand still
_X = list[dict[str, list[str]]]
LONGEST = 20  # characters of a possible word, unless training has longer ones
_DECODER = SpanDecoder()


# ---- training ------------------------------------------------------------------------------------------------------


class _Joint(AveragedWeights):
    """The averaged perceptron over words: weights of characters and of counts move together."""

    def __init__(self, task: Task, segmenter: Segmenter, labels: Labels, values: AllValues, gold: list[Spans]) -> None:
        super().__init__(task, "averaged", segmenter.seed)
        self._segmenter, self._labels, self._values, self._gold = segmenter, labels, values, gold
        self._counts = CountWeights(segmenter._size)

    def step(self) -> float:
        """Make one pass over the sentences; return the share of wrong characters on the way."""
        wrong, offsets = 0, self._task.encoded.offsets.tolist()
        for b in self._order(len(self._gold)).tolist():
            unary, step = np.empty((offsets[b + 1] - offsets[b], self._task.m)), self._native.step
            self._task.joined.score(offsets[b], self._w, unary)
            values, gold = self._values[b], self._gold[b]
            guess = self._segmenter._guess(unary, self._labels, values, self._counts.now)
            tags = labels_of(["x" * (e - s) for s, e in guess], self._segmenter.scheme)
            ids = np.array([self._labels.id(tag) for tag in tags], dtype=np.int32)
            wrong += self._native.perceptron_update(self._task.joined, b, ids)
            if values is not None and guess != gold:
                self._counts.update(values, gold, guess, step)
        return self._ended(wrong, "no mistakes left")

    def weights(self) -> Weights:
        """Return averaged weights: of characters, and of counts."""
        return self._w - self._sum / max(self._native.step, 1), self._counts.mean(self._native.step), None


# ---- the class ------------------------------------------------------------------------------------------------------


class Segmenter(SavedEstimator):
    """Cut text that is written without blanks into words, by a lattice of possible words (Zhao & Marcus 2012).

    Parameters
    ----------
    scheme : {"BMES", "IB"}, default "BMES"
        Labels of characters whose scores make up the score of a word.
    features : str, list of str or Templates, default "characters"
        Templates over the column ``char``, or the name of a set.
    counts : {"words", "none"}, default "words"
        ``"words"``: how often training has a word, and the two characters at each of its ends, are features too.
    training : {"stacked", "joint"}, default "stacked"
        ``"stacked"``: weights of counts are learned over scores of models that have not seen the sentence. ``"joint"``:
        one perceptron learns all weights, as in the paper, which is less accurate.
    prune : DeterministicRules or None, default None
        Rules about I and B, learned from the same sentences: words that cross a known beginning are left out, which
        makes integer programs small and costs a little accuracy. ``DeterministicRules("characters")``.
    cutoff : int, default 1
        Features that occur fewer times in training are left out.
    iterations : int, default 10
        Number of passes over the training data.
    seed : int, default 0
        Seed of the random number generator, which shuffles the sentences.

    Examples
    --------
    >>> import bridle
    >>> sentences = [["我们", "在", "北京"], ["北京", "人", "在", "学习"], ["我们", "学习", "历史"]] * 5
    >>> segmenter = bridle.Segmenter(iterations=3).fit(sentences)
    >>> segmenter.segment("我们在学习")
    ['我们', '在', '学习']
    >>> segmenter.segment("我们在学习", rules=['forbid WORD at tokens "学习"'])
    ['我们', '在', '学', '习']
    """

    _kind, _called = "segmenter", "segmenter"

    labels_: Labels
    features_: TemplateFeatures
    linear_: Linear
    progress_: Progress
    rules_: DeterministicRules | None
    _words: WordCounts | None

    def __init__(
        self,
        *,
        scheme: Literal["BMES", "IB"] = "BMES",
        features: str | Sequence[str] | Templates = "characters",
        counts: Literal["words", "none"] = "words",
        training: Literal["stacked", "joint"] = "stacked",
        prune: DeterministicRules | None = None,
        cutoff: int = 1,
        iterations: int = 10,
        seed: int = 0,
    ) -> None:
        self.scheme, self.features, self.counts, self.training = scheme, features, counts, training
        self.prune, self.cutoff, self.iterations, self.seed = prune, cutoff, iterations, seed

    def _check(self) -> None:
        one_of("scheme", self.scheme, tuple(ROLES))
        one_of("counts", self.counts, ("words", "none"))
        one_of("training", self.training, ("stacked", "joint"))
        count_of("cutoff", self.cutoff)
        check_seed(self.seed)
        if self.prune is not None and not isinstance(self.prune, DeterministicRules):
            wanted = 'DeterministicRules("characters"), or None'
            raise ModelError("`prune` must be DeterministicRules", got=shown(self.prune), wanted=wanted)

    def fit(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        dev: Iterable[Sequence[str]] | None = None,
        watch: Callable[[Step], None] | None = None,
    ) -> Self:
        """Learn from sentences that are cut into words.

        Parameters
        ----------
        sentences : iterable of list of str
            The words of each sentence.
        dev : iterable of list of str, optional
            A development set; the weights that do best on it, by the F1 of words, are kept.
        watch : callable, optional
            Called with a `Step` after each iteration.

        Returns
        -------
        Segmenter
            Itself.

        Raises
        ------
        ModelError
            If a setting is invalid, a word is empty or has white space, or there are no sentences.
        """
        self._check()
        check_callable("watch", watch, "a function of a Step")
        plan = Plan(count_of("iterations", self.iterations), watch=watch)
        train_on, held_out = _checked(sentences), None if dev is None else _checked(dev)
        self._longest = max(LONGEST, *(len(word) for words in train_on for word in words))
        self._words = None if self.counts == "none" else WordCounts.of(train_on, self._longest)
        texts, y = ["".join(words) for words in train_on], [labels_of(words, self.scheme) for words in train_on]
        gold = [spans_of(words) for words in train_on]
        values: AllValues = [None if self._words is None else self._words.ask("".join(s), Counter(s)) for s in train_on]
        learn = self._stacked if self.training == "stacked" else self._joint
        learn(_columns(texts), y, gold, values, plan, held_out)
        self.rules_ = None
        if self.prune is not None:
            marks = [labels_of(words, "IB") for words in train_on]
            self.rules_ = DeterministicRules(**self.prune.get_params()).fit(_columns(texts), marks)
        return self

    def _templates(self) -> list[str]:
        templates = self.features if isinstance(self.features, Templates) else Templates.parse(self.features)
        return [line for line in str(templates).splitlines() if line != "label[-1]"]  # words say which labels follow

    @property
    def _size(self) -> int:
        return 0 if self._words is None else self._words.size

    def _stacked(
        self, X: _X, y: list[list[str]], gold: list[Spans], values: AllValues, plan: Plan, dev: list[list[str]] | None
    ) -> None:
        """Learn weights of characters, then of counts over scores by models that have not seen the sentence."""
        settings: dict[str, Any] = {"features": self._templates(), "cutoff": self.cutoff, "iterations": plan.iterations}
        scheme = "BMES" if self.scheme == "BMES" else None
        model = CRF("perceptron", scheme=scheme, seed=self.seed, **settings).fit(X, y, watch=plan.watch)
        self.labels_, self.linear_, self.progress_ = model.labels_, model.linear_, model.progress_
        self.features_ = templates_of(model.features_)
        weights, best, step = np.zeros((LENGTHS + 2, self._size)), None, 0
        held = self._asked(dev or ())
        if self._words is not None and len(X) > 1:
            cross_fit, counts = model.cross_fit(X, y, folds=min(FOLDS, len(X))), CountWeights(self._size)
            unary = [cross_fit.unary[a:b] for a, b in pairwise(cross_fit.offsets.tolist())]
            for number in range(ROUNDS):
                for b in np.random.default_rng((self.seed, number)).permutation(len(X)).tolist():
                    guess, its = self._guess(unary[b], self.labels_, values[b], counts.now), values[b]
                    if guess != gold[b] and its is not None:
                        counts.update(its, gold[b], guess, step)
                    step += 1
                f1 = self._f1(dev, held, counts.mean(step)) if dev else None
                if f1 is None or best is None or f1 > best:
                    weights, best = counts.mean(step), f1
        self._weights = weights
        if dev:
            self.progress_ = replace(self.progress_, best_score=self._f1(dev, held, weights), measure="f1")

    def _joint(
        self, X: _X, y: list[list[str]], gold: list[Spans], values: AllValues, plan: Plan, dev: list[list[str]] | None
    ) -> None:
        """Learn weights of characters and of counts together."""
        features, names = TemplateFeatures(Templates.parse(self._templates()), self.cutoff), names_of(y)
        labels, encoded = Labels(names, "BMES" if self.scheme == "BMES" else None), features.fit(X)
        task = Task.of(encoded, ids_of(labels, y, encoded.offsets), (len(features), len(labels)), "seen", bigram=False)
        self.labels_, self.features_, held = labels, features, self._asked(dev or ())

        def f1(weights: Weights) -> float:
            self.linear_ = Linear.of(task.layout, weights[0], None)
            return self._f1(dev or [], held, weights[1])

        judge = None if dev is None else Judge("f1", f1)
        (weights, of_counts, _), self.progress_, stop = train(_Joint(task, self, labels, values, gold), plan, judge, {})
        self.linear_ = Linear.of(task.layout, weights, None).pruned(features)
        self._weights = np.zeros((LENGTHS + 2, 0)) if of_counts is None else of_counts
        if stop is not None:
            raise stop

    def _asked(self, sentences: Iterable[Sequence[str]]) -> list[WordValues | None]:
        return [None if self._words is None else self._words.ask("".join(words)) for words in sentences]

    def _f1(self, sentences: list[list[str]], values: AllValues, weights: Vector | None) -> float:
        """Measure weights of counts on sentences."""
        batch = self.linear_.scores(self.features_.encode(_columns(map("".join, sentences))))
        guessed = [self._guess(batch[k].unary, self.labels_, its, weights) for k, its in enumerate(values)]
        return _compare(guessed, [spans_of(words) for words in sentences]).f1

    def _guess(self, unary: Any, labels: Labels, values: WordValues | None, weights: Vector | None) -> Spans:
        """Find the best words of a sentence."""
        table = self._table(unary, labels, values, weights)
        return _DECODER.decode(SpanLattice.all_words(len(unary), table)).words

    def _table(self, unary: Any, labels: Labels, values: WordValues | None, weights: Vector | None) -> Floats:
        """(n, L): score the possible words of a sentence."""
        table = word_scores(unary, labels.names, self._longest, self.scheme)
        if values is None or self._words is None or weights is None:
            return table
        return self._words.added(table, values, weights)

    # ---- use --------------------------------------------------------------------------------------------------------

    def add_words(self, words: Iterable[str], *, count: int = 20) -> Self:
        """Add the words of a dictionary, as if training had each of them so many times more.

        Parameters
        ----------
        words : iterable of str
            The words.
        count : int, default 20
            How often; the more, the more the segmenter prefers them.

        Returns
        -------
        Segmenter
            Itself.

        Raises
        ------
        ModelError
            If the segmenter knows no counts of words (``counts="none"``), or a word is empty or has white space.

        Examples
        --------
        >>> import bridle
        >>> segmenter = bridle.Segmenter(iterations=3).fit([["我们", "在", "北京"], ["北京", "人", "多"]] * 5)
        >>> "海淀" in segmenter.add_words(["海淀"]).segment("我们在海淀")
        True
        """
        self._fitted()
        if self._words is None:
            raise ModelError("the segmenter knows no counts of words", got="counts='none'", wanted="counts='words'")
        more, times = _checked([list(words)])[0], count_of("count", count)
        counts = Counter(self._words.counts)
        counts.update(dict.fromkeys(more, times))
        self._longest = max([self._longest, *map(len, more)])
        self._words = WordCounts(counts, self._words.size, self._longest)
        return self

    def segment(self, text: str, rules: Iterable[Rule | str] = (), *, engine: str = "auto") -> list[str]:
        """Cut a text into words.

        Parameters
        ----------
        text : str
            The text. White space separates words and is left out.
        rules : iterable of Rule or str
            Rules about words, which have the label WORD, as `SpanDecoder` takes them.
        engine : str, default "auto"
            Engine of `SpanDecoder`; ``"ilp"`` is the integer program of the paper.

        Returns
        -------
        list of str
            The words.

        Raises
        ------
        Infeasible
            If no words obey the hard rules.
        """
        return self.segment_all([text], rules, engine=engine, threads=1)[0]

    def segment_all(
        self, texts: Sequence[str], rules: Iterable[Rule | str] = (), *, engine: str = "auto", threads: int = 0
    ) -> list[list[str]]:
        """Cut many texts into words.

        Parameters
        ----------
        texts : list of str
            The texts.
        rules, engine : optional
            As for `segment`.
        threads : int, default 0
            Number of threads; 0 means all cores.

        Returns
        -------
        list of list of str
            The words of each.
        """
        pieces, owners = [], []
        for k, text in enumerate(texts):
            if not isinstance(text, str):
                raise ModelError("a text is not a string", got=shown(text), wanted="str").at(sequence=k)
            parts = text.split()
            pieces += parts
            owners += [k] * len(parts)
        out: list[list[str]] = [[] for _ in texts]
        decodings = self.decode(pieces, rules, engine=engine, threads=threads)
        for piece, owner, d in zip(pieces, owners, decodings, strict=True):
            out[owner] += [piece[s:e] for s, e in d.words]
        return out

    def decode(
        self, texts: Sequence[str], rules: Iterable[Rule | str] = (), *, engine: str = "auto", threads: int = 0
    ) -> SpanDecodings:
        """Find the best words of texts without white space, with their scores and bounds.

        Parameters
        ----------
        texts, rules, engine, threads : optional
            As for `segment_all`.

        Returns
        -------
        SpanDecodings
            One decoding per text, as from `SpanDecoder.decode_batch`.
        """
        decoder = SpanDecoder(rules=rules, engine=engine)
        return decoder.decode_batch(self.lattices(texts, threads=threads), threads=threads)

    def lattices(self, texts: Sequence[str], *, threads: int = 0) -> list[SpanLattice]:
        """Return the possible words of texts and their scores.

        Parameters
        ----------
        texts : list of str
            Texts without white space.
        threads : int, default 0
            Number of threads; 0 means all cores.

        Returns
        -------
        list of SpanLattice
            What `SpanDecoder` takes; with `prune`, without the words that cross a known beginning.
        """
        self._fitted()
        begins: list[list[int]] = [[] for _ in texts]
        if self.rules_ is not None and len(texts):
            decided = self.rules_.decide(_columns(texts), threads=threads)
            first = decided.labels.id("B")
            for k, (low, high) in enumerate(pairwise(decided.offsets.tolist())):
                begins[k] = np.flatnonzero(decided.ids[low:high] == first).tolist()

        def part(low: int, high: int, stop: Any) -> list[SpanLattice]:
            batch = self.linear_.scores(self.features_.encode(_columns(texts[low:high])), stop=stop)
            out = []
            for k, text in enumerate(texts[low:high], start=low):
                values = None if self._words is None else self._words.ask(text)
                table = self._table(batch[k - low].unary, self.labels_, values, self._weights)
                out.append(SpanLattice.all_words(len(text), table, begins=begins[k], characters=text))
            return out

        return [lattice for many in in_threads(part, len(texts), count_of_threads(threads)) for lattice in many]

    def score(self, sentences: Iterable[Sequence[str]], *, threads: int = 0) -> Counts:
        """Compare words with those of sentences that are cut rightly.

        Parameters
        ----------
        sentences : iterable of list of str
            The words of each sentence.
        threads : int, default 0
            Number of threads; 0 means all cores.

        Returns
        -------
        Counts
            Right, guessed and gold words, with precision, recall and F1.
        """
        gold = _checked(sentences)
        decodings = self.decode(["".join(words) for words in gold], threads=threads)
        return _compare([d.words for d in decodings], [spans_of(words) for words in gold])

    def _fitted(self) -> None:
        if not hasattr(self, "linear_"):
            raise not_fitted("the segmenter has not been trained", wanted="fit(sentences), or Segmenter.load(path)")

    # ---- files ------------------------------------------------------------------------------------------------------

    def _stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        settings = {name: value for name, value in self.get_params().items() if name not in ("prune", "features")}
        rules, of_rules = (None, {}) if self.rules_ is None else self.rules_._stored()
        head = {
            "settings": settings,
            "labels": list(self.labels_.names),
            "features": self.features_.head(),
            "progress": asdict(self.progress_),
            "rules": rules,
            "longest": self._longest,
        }
        arrays = {**self.features_.arrays(), **self.linear_.arrays()}
        arrays |= {f"prune.{name}": array for name, array in of_rules.items()}
        if self._words is not None:
            strings = Interned()
            strings.add(list(self._words.counts))
            arrays |= strings.arrays("words.") | {"words.weights": self._weights}
            arrays["words.count"] = np.array(list(self._words.counts.values()), dtype=np.int64)
        return head, arrays

    def _restore(self, head: Mapping[str, Any], arrays: Mapping[str, Array], path: str) -> None:
        self.labels_ = Labels(head["labels"], "BMES" if self.scheme == "BMES" else None)
        self.features_ = TemplateFeatures.restored(head["features"], dict(arrays))
        self.features = list(head["features"]["templates"])
        self.linear_ = Linear.restored(arrays, len(self.features_), len(self.labels_))
        self.progress_, self._longest = Progress.restored(head["progress"]), count_of("longest", head["longest"])
        self.rules_, self.prune, self._words, self._weights = None, None, None, np.zeros((LENGTHS + 2, 0))
        if head["rules"] is not None:
            self.prune = DeterministicRules(**head["rules"]["settings"])
            self.rules_ = DeterministicRules(**head["rules"]["settings"])
            inside = {name[6:]: array for name, array in arrays.items() if name.startswith("prune.")}
            self.rules_._restore(head["rules"], inside, path)
            self.rules_.labels_.id("B")
        if self.counts == "words":
            weights, count = arrays["words.weights"], arrays["words.count"]
            words = Interned.restored("words.", dict(arrays)).texts()
            fits = (
                weights.dtype == np.float64
                and weights.ndim == 2
                and len(weights) == LENGTHS + 2
                and weights.shape[1] >= 2
            )
            if not fits or not np.isfinite(weights).all() or weights[LENGTHS:, -1].any():
                raise ModelError("the weights of word counts do not fit")
            if count.dtype != np.int64 or count.shape != (len(words),) or (count < 1).any():
                raise ModelError("the counts do not fit the words")
            counts = dict(zip(words, count.tolist(), strict=True))
            self._words, self._weights = WordCounts(counts, weights.shape[1], self._longest), weights


def _columns(texts: Iterable[str]) -> list[dict[str, list[str]]]:
    return [{"char": list(text)} for text in texts]


def _checked(sentences: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return sentences as lists of words."""
    out = []
    for k, words in enumerate(sentences):
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            cause = "A text instead of its words?" if isinstance(words, str) else None
            wanted = "['我们', '在']"
            raise ModelError("a sentence is not a list of words", got=shown(words), wanted=wanted, cause=cause)
        if bad := [word for word in words if word.split() != [word]]:
            raise ModelError(f"sentence {k} has a word that is empty or has white space", got=repr(bad[0]))
        out.append(list(words))
    if not any(out):
        raise ModelError("there are no words", got=f"{len(out)} empty sentences", wanted="sentences cut into words")
    return out


def _compare(guessed: Sequence[Spans], gold: Sequence[Spans]) -> Counts:
    right = sum(len(set(a) & set(b)) for a, b in zip(guessed, gold, strict=True))
    return Counts(right, sum(map(len, guessed)), sum(map(len, gold)))
