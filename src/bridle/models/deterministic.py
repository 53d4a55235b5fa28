"""Deterministic rules (Zhao & Marcus 2012, sections 2.1 and 3.1): contexts that nearly always go with one label.

    a context C is a rule for the label t if   count(C, t) / count(C) > threshold   and   count(C) > cutoff
    a token is decided if a rule fires on it and all that fire agree

A context is a template (their Table 2) over words and morph features. The morph feature of a word seen at least `rare`
times in training is the set of its tags there; of other words, their last two characters with flags for digits, hyphens
and upper case.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from math import prod
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.threads import in_threads
from bridle.errors import LabelError, LatticeError, ModelError
from bridle.features import Encoded, Template, TemplateFeatures, Templates, sequences_of
from bridle.features.columns import Packed
from bridle.features.derived import FIRST, OfTexts
from bridle.features.templates import Place
from bridle.features.vocabulary import Prepared, listed
from bridle.frames import LabelLists, Sequences
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.models.checks import all_known, count_of, count_of_threads, ids_of, labellings_of, names_of, one_of
from bridle.models.estimator import SavedEstimator, not_fitted
from bridle.report import Counts

UNDECIDED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Labels of those tokens of many sequences on which rules decide.

    Attributes
    ----------
    ids : array of int, shape (N,)
        Label id of each token, end to end; -1 where nothing is decided.
    offsets : array of int, shape (B + 1,)
        Where each of the B sequences begins, and N at the end.
    labels : Labels
        The labels.
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    labels: Labels

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def share(self) -> float:
        """Share of the tokens that are decided."""
        return float((self.ids >= 0).mean()) if len(self.ids) else 0.0

    def names(self) -> list[list[str | None]]:
        """List the labels by name.

        Returns
        -------
        list of list of str or None
            Per sequence a label per token; None where nothing is decided.
        """
        names: list[str | None] = [*self.labels.names, None]
        flat = [names[y] for y in self.ids.tolist()]
        return [flat[a:b] for a, b in pairwise(self.offsets.tolist())]

    def constrain(self, batch: Batch, labels: Labels | None = None) -> Batch:
        """Leave each decided token only its label, for any engine.

        Parameters
        ----------
        batch : Batch
            Scores of the same sequences.
        labels : Labels, optional
            Labels of the scores, if they differ.

        Returns
        -------
        Batch
            A copy in which all other labels of decided tokens are impossible.

        Raises
        ------
        LatticeError
            If the scores belong to other sequences or labels.
        LabelError
            If the scores lack a decided label.
        """
        if not np.array_equal(batch.offsets, self.offsets):
            raise LatticeError("the lattices belong to other sequences", got="other lengths", wanted="those decided on")
        labels = self.labels if labels is None else labels
        try:
            number = np.array([labels.id(name) for name in self.labels.names], dtype=np.int64)
        except LabelError as error:
            raise LabelError("the lattices lack a decided label", got=error.got, wanted=error.wanted) from None
        if batch.n_labels != len(labels):
            raise LatticeError("the lattices have other labels", got=batch.n_labels, wanted=len(labels))
        decided = np.flatnonzero(self.ids >= 0)
        unary, y = batch.unary.copy(), number[self.ids[decided]]
        unary[decided] = -np.inf
        unary[decided, y] = batch.unary[decided, y]
        return Batch(unary, batch.offsets, batch.pairwise, batch.start, batch.end)._with_steps(batch.steps)

    def words(self, k: int, longest: int, begin: str = "B") -> Iterator[tuple[int, int]]:
        """List the spans of one sequence that may be words.

        A token decided to be `begin` begins a word; one decided to be anything else does not.

        Parameters
        ----------
        k : int
            Number of the sequence, from 0.
        longest : int
            Maximum number of tokens in a word.
        begin : str, default "B"
            Label of the first token of a word.

        Yields
        ------
        tuple of int
            A span (start, end), end not included.
        """
        b = self.labels.id(begin)
        ids = self.ids[self.offsets[k] : self.offsets[k + 1]].tolist()
        n = len(ids)
        for start in range(n):
            if ids[start] not in (UNDECIDED, b) and start:
                continue
            for end in range(start + 1, min(start + longest, n) + 1):
                if end == n or ids[end] in (UNDECIDED, b):
                    yield start, end
                if end < n and ids[end] == b:
                    break


Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]


def _grams(columns: Sequence[str]) -> dict[str, list[str]]:
    """Make the templates of Table 2: the token and one neighbour, or both, each as any of the columns."""
    bigrams = [f"{a}[{k}] {b}[{k + 1}]" for k in (-1, 0) for a, b in product(columns, columns)]
    trigrams = [f"{a}[-1] {b}[0] {c}[1]" for a, b, c in product(columns, repeat=3)]
    return {"bigram": bigrams, "trigram": trigrams, "both": bigrams + trigrams}


TEMPLATES = {"words": _grams(["word", "morph"]), "characters": _grams(["char"])}


class Contexts(TemplateFeatures):
    """Contexts that decide labels, and the few of them that must be looked up.

    A rule is implied if a context that holds wherever its own does is a rule for the same label: one with a place less,
    or with a derived column (morph) in place of the text it is derived from. Tokens are decided the same without it.
    """

    _decider: _native.Decider | None = None

    def keep(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other contexts."""
        self._decider = None
        return super().keep(kept, encoded)

    def agreed(self, prepared: Prepared, label: Ids) -> Ids:
        """(N,): the label on which all contexts of a token agree, or -1. label: what each context decides."""
        if self._decider is None:
            self._decider = _native.Decider(self._known, np.where(self.implied(label), np.int32(-1), label))
        offsets = prepared.packed.offsets
        out = np.empty(int(offsets[-1]), dtype=np.int32)
        self._decider.decide(self._ids(prepared), offsets, out)
        return out

    def implied(self, label: Ids) -> npt.NDArray[np.bool_]:
        """Mark the contexts that have a more general one that decides the same."""
        of, key = listed(self._known)
        sizes = self._sizes
        known: dict[Template, tuple[npt.NDArray[Any], Keys]] = {}  # numbers and keys, by key
        for k, line in enumerate(self.templates.lines):
            if prod(sizes[place.column] for place in line.places) < 2**64:  # else keys are hashes
                numbers = np.flatnonzero(of == k)
                numbers = numbers[np.argsort(key[numbers])]
                known[line] = numbers, key[numbers]
        out = np.zeros(len(self), dtype=bool)
        for line, (numbers, keys) in known.items():
            for general, ids in self._more_general(line, _cut(keys, [sizes[p.column] for p in line.places])):
                theirs, sought = known.get(general, (of[:0], key[:0]))
                if not len(theirs):
                    continue
                their_keys = _join(ids, [sizes[p.column] for p in general.places])
                at = np.minimum(np.searchsorted(sought, their_keys), len(sought) - 1)
                out[numbers] |= (sought[at] == their_keys) & (label[theirs[at]] == label[numbers])
        return out

    def _more_general(self, line: Template, ids: list[Keys]) -> Iterator[tuple[Template, list[Keys]]]:
        """Yield the templates that look at less, with the ids that they see."""
        for p, place in enumerate(line.places):
            before, after = line.places[:p], line.places[p + 1 :]
            yield Template(before + after), ids[:p] + ids[p + 1 :]
            for column, table in self._derived.items():
                if self._split[column][0] == place.column:
                    seen = np.concatenate([np.arange(FIRST), table]).astype(np.uint64)[ids[p]]
                    other = Place(column, place.offset)
                    yield Template((*before, other, *after)), [*ids[:p], seen, *ids[p + 1 :]]


def _cut(keys: Keys, sizes: Sequence[int]) -> list[Keys]:
    """Return the ids that keys consist of."""
    out: list[Keys] = []
    for size in reversed(sizes):
        keys, ids = np.divmod(keys, np.uint64(size))
        out.append(ids)
    return out[::-1]


def _join(ids: Sequence[Keys], sizes: Sequence[int]) -> Keys:
    """Return keys as the kernel makes them."""
    keys = np.zeros_like(ids[0])
    for column, size in zip(ids, sizes, strict=True):
        keys = keys * np.uint64(size) + column
    return keys


Sizes = Literal["both", "bigram", "trigram"]


class DeterministicRules(SavedEstimator):
    """Learn rules that fix the label of single tokens by their context (Zhao & Marcus 2012).

    A context that nearly always goes with one label is a rule; a token is decided where all rules that fire agree.
    `fit` leaves `labels_`, and `n_rules_`, the number of rules.

    Parameters
    ----------
    templates : {"words", "characters"}, default "words"
        ``"words"``: the 16 templates of the paper over words and their morph features; ``"characters"``: the same over
        characters, without morph features.
    contexts : {"both", "bigram", "trigram"}, default "both"
        Which of the templates are used.
    threshold : float, default 0.99
        A context is a rule if more than this share of its tokens carries one label; from 0.5 to below 1.
    cutoff : int, default 5
        ... and if it occurs more than this many times.
    rare : int, default 5
        A word that occurs fewer times in training is known by its ending, others by the set of their tags.

    See Also
    --------
    ConstrainedTagger : A tagger that applies these rules first.

    Examples
    --------
    >>> from bridle.learn import DeterministicRules
    >>> X = [["the", "cat", "sat"], ["the", "dog", "sat"]] * 5
    >>> rules = DeterministicRules(cutoff=2).fit(X, [["D", "N", "V"]] * 10)
    >>> rules.decide([["the", "dog", "sat", "down"]]).names()
    [['D', 'N', 'V', None]]
    """

    _kind, _called = "deterministic", "deterministic rules"

    labels_: Labels
    features_: Contexts  # those that decide
    n_rules_: int

    def __init__(
        self,
        templates: Literal["words", "characters"] = "words",
        *,
        contexts: Sizes = "both",
        threshold: float = 0.99,
        cutoff: int = 5,
        rare: int = 5,
    ) -> None:
        self.templates, self.contexts = templates, contexts
        self.threshold, self.cutoff, self.rare = threshold, cutoff, rare

    def __repr__(self) -> str:
        known = f", {self.n_rules_:,} rules" if hasattr(self, "n_rules_") else ""
        return f"DeterministicRules({self.templates!r}, contexts={self.contexts!r}{known})"

    def fit(self, X: Sequences, y: LabelLists) -> Self:
        """Find the contexts that decide.

        Parameters
        ----------
        X : sequence of sequences
            Lists of words, or columns: ``{"word": [...]}``.
        y : sequence of sequence of str
            A label per token.

        Returns
        -------
        DeterministicRules
            Itself.

        Raises
        ------
        ModelError
            If a setting is invalid.
        LabelError
            If `y` does not fit `X`.
        """
        self._check()
        X, y = sequences_of(X), labellings_of(y)
        names = names_of(y)
        labels = Labels(names)
        features = self._features(_morph(X, all_known(y), self.rare) if self.templates == "words" else None)
        encoded = features.fit(X)
        gold = ids_of(labels, y, encoded.offsets)
        candidate, right, total = (np.empty(len(features), dtype=np.int32) for _ in range(3))
        _native.majority(encoded.native(gold), candidate, right, total)
        decides = (total > self.cutoff) & (right > self.threshold * total)
        features.keep(decides)
        self.labels_, self.features_ = labels, features
        self._label, self._right, self._total = candidate[decides], right[decides], total[decides]
        self.n_rules_ = int(decides.sum())
        return self

    def _check(self) -> None:
        one_of("templates", self.templates, tuple(TEMPLATES))
        one_of("contexts", self.contexts, ("both", "bigram", "trigram"))
        for name, low in (("cutoff", 0), ("rare", 1)):
            count_of(name, getattr(self, name), low)
        if not isinstance(self.threshold, (int, float)) or not 0.5 <= self.threshold < 1:
            raise ModelError(
                "invalid value of `threshold`", got=repr(self.threshold), wanted="a number from 0.5 to below 1"
            )

    def _features(self, morph: OfTexts | None) -> Contexts:
        lines = Templates.parse(TEMPLATES[self.templates][self.contexts])
        return Contexts(lines, derived={"morph": morph} if morph is not None else None)

    # ---- use --------------------------------------------------------------------------------------------------------

    def decide(self, X: Sequences, *, threads: int = 0) -> Decided:
        """Label the tokens on which all rules that fire agree.

        Parameters
        ----------
        X : sequence of sequences
            As in `fit`.
        threads : int, default 0
            Number of threads; 0 means all cores.

        Returns
        -------
        Decided
            Labels of the decided tokens.

        Raises
        ------
        ModelError
            If there are no rules yet.
        """
        self._fitted()
        X = sequences_of(X)

        def work(low: int, high: int, stop: _native.Stop) -> tuple[Ids, npt.NDArray[np.int64]]:
            prepared = self.features_.prepare(X[low:high])
            return self.agreed(prepared), np.diff(prepared.packed.offsets)

        parts = in_threads(work, len(X), count_of_threads(threads))
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([lengths for _, lengths in parts]))])
        return Decided(np.concatenate([ids for ids, _ in parts]), offsets.astype(np.int64), self.labels_)

    def agreed(self, prepared: Prepared) -> Ids:
        """Decide the tokens of sequences that are already prepared: texts looked up, columns derived.

        Parameters
        ----------
        prepared : Prepared
            The sequences, as the features prepare them.

        Returns
        -------
        array of int, shape (N,)
            The label id of each token; -1 where nothing is decided.
        """
        return self.features_.agreed(prepared, self._label)

    def of_texts(self, texts: Sequence[str] | None, offsets: npt.NDArray[np.int64]) -> Decided:
        """Decide the tokens of sequences whose texts are packed end to end.

        Parameters
        ----------
        texts : sequence of str or None
            The texts of all tokens; None: there are none.
        offsets : array of int, shape (B + 1,)
            Where each sequence begins.

        Returns
        -------
        Decided
            Labels of the decided tokens.
        """
        packed = Packed({self.features_.main: texts if texts is not None else []}, offsets)
        return Decided(self.agreed(self.features_.prepare(packed)), offsets, self.labels_)

    def score(self, X: Sequences, y: LabelLists) -> Counts:
        """Compare decided tokens with gold labels.

        Parameters
        ----------
        X : sequence of sequences
            As in `fit`.
        y : sequence of sequence of str
            Gold labels.

        Returns
        -------
        Counts
            Precision, recall and F1 as the paper defines them: decided tokens are guesses, all tokens are gold.
        """
        decided = self.decide(X)
        gold = ids_of(self.labels_, labellings_of(y), decided.offsets, "wrong")
        sure = decided.ids >= 0
        return Counts(int((decided.ids == gold)[sure].sum()), int(sure.sum()), len(gold))

    def _fitted(self) -> None:
        if not hasattr(self, "n_rules_"):
            raise not_fitted("there are no rules yet", wanted="fit(X, y), or DeterministicRules.load(path)")

    def lines(self, count: int | None = None) -> Iterator[str]:
        """Print the rules, the most frequent first.

        Parameters
        ----------
        count : int, optional
            Maximum number of rules; None means all.

        Yields
        ------
        str
            For example ``word[-1]=the & morph[0]={NNS,VBZ} -> NNS  # 34 of 34``.
        """
        self._fitted()
        names = self.features_.names()
        for a in np.argsort(-self._total, kind="stable")[:count].tolist():
            where, _, values = names[a].partition("=")
            parts = zip(where.split("|"), values.split("|"), strict=False)
            context = " & ".join(f"{place}={value}" for place, value in parts)
            yield f"{context} -> {self.labels_.names[self._label[a]]}  # {self._right[a]} of {self._total[a]}"

    # ---- files ------------------------------------------------------------------------------------------------------

    def _stored(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        head = {
            "settings": self.get_params(),
            "labels": list(self.labels_.names),
            "scheme": self.labels_.scheme,
            "features": self.features_.head(),
        }
        counts = {"rules.label": self._label, "rules.right": self._right, "rules.total": self._total}
        return head, {**self.features_.arrays(), **counts}

    def _restore(self, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], path: str) -> None:
        derived = {"morph": _endings} if self.templates == "words" else None
        self.features_ = Contexts.restored(head["features"], dict(arrays), derived)
        self.labels_ = Labels(head["labels"], head["scheme"])
        self.n_rules_ = len(self.features_)
        for name in ("label", "right", "total"):
            array: Any = np.ascontiguousarray(arrays[f"rules.{name}"])
            if array.dtype != np.int32 or array.shape != (self.n_rules_,):
                raise ModelError(f"the {name}s do not fit the rules")
            setattr(self, f"_{name}", array)
        if self.n_rules_ and not 0 <= self._label.min() <= self._label.max() < len(self.labels_):
            raise ModelError("a rule decides for an unknown label")


def _endings(texts: Sequence[str]) -> list[str]:
    """Return the morph features of rare words."""
    return list(map(_ending, texts))


def _ending(text: str) -> str:
    ending = "-" + text[-2:]
    if text.isalpha():  # most are; tests that cost more are for the others
        return ending if text.islower() or not any(map(str.isupper, text)) else ending + "+UPPER"
    if any(map(str.isdigit, text)):
        ending += "+DIGIT"
    if "-" in text:
        ending += "+HYPHEN"
    return ending + "+UPPER" if any(map(str.isupper, text)) else ending


def _morph(X: Sequence[Any], y: Sequence[Sequence[str]], rare: int) -> OfTexts:
    """Make a function of texts that returns their morph features, by the tags of the training data."""
    words = [_words(x) for x in X]
    count = Counter(chain.from_iterable(words))
    tags: dict[str, set[str]] = defaultdict(set)
    for sequence, labels in zip(words, y, strict=False):  # lengths are checked later
        for word, label in zip(sequence, labels, strict=False):
            if count[word] >= rare:
                tags[word].add(label)
    known: Mapping[str, str] = {word: "{" + ",".join(sorted(names)) + "}" for word, names in tags.items()}
    return lambda texts: [known.get(text) or _ending(text) for text in texts]


def _words(x: Any) -> Sequence[str]:
    """Return the texts of a sequence; whatever is not a sequence is reported later."""
    column = x.get("word", ()) if isinstance(x, Mapping) else x
    if isinstance(column, (list, tuple)) and all(isinstance(token, Mapping) for token in column):
        return [str(token.get("word")) for token in column]
    return column if isinstance(column, (list, tuple)) else ()
