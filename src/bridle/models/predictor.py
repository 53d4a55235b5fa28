"""Predictor: a trained model at work. Sequences in, lattices or labels out; and its largest weights, for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice, pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.documents import DocumentDecoding, cuts_of
from bridle.decoding.problem import check_given
from bridle.decoding.result import Decodings, raise_first
from bridle.decoding.threads import in_threads
from bridle.errors import BridleError, GivenError, LabelError
from bridle.features import Features, TemplateFeatures, sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Steps
from bridle.models.checks import (
    Given,
    OnUnknown,
    count_of,
    count_of_threads,
    given_for,
    given_of,
    labellings_of,
    one_of,
    used_sequences,
)
from bridle.models.estimator import Labellings, RoutedEstimator, not_fitted
from bridle.models.linear import Ints, Kind, Linear
from bridle.models.task import Hashes, hashes_of, share_seen
from bridle.rules.base import Rule
from bridle.tagging import Block, tag
from bridle.tagging.labelling import with_columns

Direction = Literal["for", "against"]


class Predictor(RoutedEstimator):
    """A model that has labels, features and weights. Methods raise `ModelError` if it has not been trained."""

    labels_: Labels
    features_: Features
    linear_: Linear
    seen_: Hashes | None = None  # a sketch of the training sequences

    scores: Kind = "raw"  # what the scores of the lattices are

    def lattice(self, x: Any) -> Lattice:
        """Score one sequence.

        Parameters
        ----------
        x : mapping or list
            One sequence, as in a list `X` for `fit`.

        Returns
        -------
        Lattice
            Scores per token and label, and of label bigrams if the model has them.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> model.lattice(["the", "cat", "the"]).unary.shape  # tokens x labels
        (3, 2)
        """
        return self.lattices([x])[0]

    def lattices(self, X: Sequences, *, threads: int = 1, stop: _native.Stop | None = None) -> Batch:
        """Score many sequences.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        threads : int
            Number of threads; 0 means all cores.
        stop : Stop, optional
            As in `Decoder.decode_batch`.

        Returns
        -------
        Batch
            The scores of all sequences, packed end to end: what `Decoder.decode_batch` takes.

        Raises
        ------
        FeatureError
            If the features cannot be computed from `X`.

        Examples
        --------
        Scores are computed once, and decoded with and without rules:

        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> batch = model.lattices([["the", "cat"], ["cat"]])
        >>> [model.decoder(rules).decode_batch(batch).labels for rules in ([], ["forbid N"])]
        [[['D', 'N'], ['N']], [['D', 'D'], ['D']]]
        """
        self._fitted()
        sequences = sequences_of(X)
        cores = count_of_threads(threads)

        def part(low: int, high: int, stop: _native.Stop) -> Batch:
            try:
                encoded, _ = self.features_.encode_with_texts(sequences[low:high])
            except BridleError as error:
                if error.sequence is not None:
                    error.sequence += low  # the caller knows the whole
                raise
            return self.linear_.scores(encoded, self.scores, stop)

        parts = in_threads(part, len(sequences), cores, stop)
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)]
        unary, steps = np.concatenate([part.unary for part in parts]), [part.steps for part in parts]
        batch = Batch(unary, np.concatenate([[0], *offsets]), self.linear_.pairwise)
        return batch._with_steps(Steps.joined([part for part in steps if part is not None]) if any(steps) else None)

    def given(
        self, X: Sequences, decoder: Decoder, given: Sequence[Given] | Table | None = None
    ) -> Sequence[Given] | None:
        """Collect the values that the rules of a decoder ask for.

        Rules that refer to tokens need their texts, or their values in other columns; they are taken from `X`. All
        other values come from you.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        decoder : Decoder
            The decoder whose rules ask, for example `self.decoder(rules)`.
        given : list of mapping, optional
            Values of your own, one mapping per sequence.

        Returns
        -------
        list of mapping, or None
            What to pass to `Decoder.decode_batch`; None if the rules ask for nothing.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> decoder = model.decoder(['fix N at tokens "the"'])
        >>> model.given([["the", "cat"]], decoder)
        [{'tokens': ['the', 'cat']}]
        """
        self._fitted()
        return given_for(self.features_, sequences_of(X), given_of(given), decoder)

    def decoder(self, rules: Iterable[Rule | str] = (), **options: Any) -> Decoder:
        """Make a decoder for the labels of this model.

        Parameters
        ----------
        rules : iterable of Rule or str
            Rules, or sentences that are read as rules.
        **options : object
            Options of `Decoder`, for example ``engine="ilp"`` or ``on_infeasible="relax"``.

        Returns
        -------
        Decoder
            It takes what `lattice` and `lattices` return.

        Raises
        ------
        RuleError
            If a rule does not make sense for the labels of this model.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> d = model.decoder(["at most 1 token of D"]).decode(model.lattice(["the", "the"]))
        >>> d.labels.count("D"), d.optimal
        (1, True)
        """
        self._fitted()
        return Decoder(self.labels_, rules, **options)

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
        """Find the best labels of sequences under rules.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        rules : iterable of Rule or str
            Rules, or sentences that are read as rules.
        given : list of mapping, optional
            Values that the rules refer to by name, one mapping per sequence. The texts of tokens and other
            columns of `X` are filled in.
        groups : list, optional
            The document of each sequence; those of a document are in a row. Rules that begin with ``in the document:``
            hold over all of them together.
        threads : int
            Number of threads; 0 means all cores.
        **options : object
            Options of `Decoder`, for example ``on_infeasible="relax"``.

        Returns
        -------
        list of list of str
            One label per token.

        Raises
        ------
        GivenError
            If `given` or `groups` has another length than `X`, `given` lacks a value that a rule refers to, or a
            document comes back after another one.
        Infeasible
            If no labelling of a sequence, or of a document, obeys the hard rules.

        Examples
        --------
        A rule changes the labels of a model that was trained without it:

        >>> import bridle
        >>> X, y = [["the", "cat", "sleeps"], ["a", "dog", "runs"]], [["D", "N", "V"]] * 2
        >>> model = bridle.CRF(features=["word[0]", "label[-1]"]).fit(X, y)
        >>> model.predict([["a", "cat", "runs"]])
        [['D', 'N', 'V']]
        >>> model.predict([["a", "cat", "runs"]], rules=["forbid V"])
        [['D', 'N', 'D']]
        """
        decoder = self.decoder(rules, **options)
        if groups is None:
            return Labellings(self.decode(X, decoder, given=given, threads=threads).labels)
        decodings = self.decode_documents(X, decoder, groups, given=given, threads=threads)
        return Labellings([labels for d in decodings for labels in d.labels])

    def decode_documents(
        self,
        X: Sequences,
        decoder: Decoder,
        groups: Sequence[Hashable],
        *,
        given: Sequence[Given] | Table | None = None,
        threads: int = 0,
    ) -> list[DocumentDecoding]:
        """Find the best labellings of documents, with their scores, bounds and statuses.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        decoder : Decoder
            What `decoder` returns.
        groups : list
            The document of each sequence, as for `predict`.
        given, threads : optional
            As for `decode`.

        Returns
        -------
        list of DocumentDecoding
            One per document, as from `Decoder.decode_documents`.

        Raises
        ------
        GivenError, Infeasible, LimitReached
            As from `predict` and `Decoder.decode_documents`.

        Examples
        --------
        >>> import bridle
        >>> X, y = [["Boston", "is", "big"], ["Boston", "won"]], [["LOC", "O", "O"], ["ORG", "O"]]
        >>> model = bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(X * 5, y * 5)
        >>> decoder = model.decoder(["in the document: same label for equal tokens"])
        >>> [d.labels for d in model.decode_documents(X * 2, decoder, groups=[1, 1, 2, 2])][0]
        [['LOC', 'O', 'O'], ['LOC', 'O']]
        """
        self._fitted()
        X, given = sequences_of(X), given if isinstance(given, list) else given_of(given)
        check_given(given, len(X))
        if len(groups) != len(X):
            got = f"{len(groups)} documents"
            raise GivenError("groups does not fit the sequences", got=got, wanted=f"{len(X)}, one per sequence")
        cuts, batch, block = cuts_of(groups), self.lattices(X, threads=threads), Block(len(X), sequences=X, given=given)
        errors: dict[int, BridleError] = {}
        values = with_columns(block, self.features_, given, decoder.required_columns, errors)
        for row, error in sorted(errors.items()):
            error.sequence = row
            raise error
        parts = list(pairwise(cuts))
        documents = [batch.part(low, high) for low, high in parts]
        return decoder.decode_documents(documents, [values[low:high] for low, high in parts], threads)

    def decode(
        self,
        X: Sequences,
        decoder: Decoder,
        *,
        given: Sequence[Given] | Table | None = None,
        threads: int = 0,
        stop: _native.Stop | None = None,
    ) -> Decodings:
        """Find the best labellings of sequences, with their scores, bounds and statuses.

        Each part of the sequences is scored and decoded in one go, so that the scores of all of them are never held.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        decoder : Decoder
            What `decoder` returns; it can be used again and again.
        given : list of mapping, optional
            Values that the rules refer to by name, one mapping per sequence. The texts of tokens and other
            columns of `X` are filled in.
        threads : int
            Number of threads; 0 means all cores.
        stop : Stop, optional
            As in `Decoder.decode_batch`.

        Returns
        -------
        Decodings
            One decoding per sequence, as from `Decoder.decode_batch`.

        Raises
        ------
        Infeasible, LimitReached
            As from `Decoder.decode_batch`.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> decoder = model.decoder(["forbid D", "fix D at tokens /the/"], on_infeasible="skip")
        >>> decodings = model.decode([["the", "cat"], ["cat"]], decoder)
        >>> decodings.status.tolist(), decodings.labels
        (['infeasible', 'optimal'], [[], ['N']])
        """
        self._fitted()
        X, given = sequences_of(X), given if isinstance(given, list) else given_of(given)
        check_given(given, len(X))
        block = Block(len(X), sequences=X, given=given)
        decodings = tag(block, self, decoder, stop=stop, threads=threads).decodings
        raise_first(decodings, infeasible=decoder.on_infeasible == "raise")
        return decodings

    def score(
        self,
        X: Sequences,
        y: LabelLists,
        *,
        rules: Iterable[Rule | str] = (),
        given: Sequence[Given] | Table | None = None,
        on_unknown: OnUnknown = "wrong",
    ) -> float:
        """Return the accuracy: the share of tokens that get the right label.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.
        y : list of list of str
            The right labels; tokens whose label is missing (None) are not counted.
        rules, given : optional
            As for `predict`; there are no rules by default.
        on_unknown : {"raise", "skip", "wrong"}, default "wrong"
            What to do with a label in `y` that the model does not know, as for `fit`.

        Returns
        -------
        float
            From 0 to 1; 0 if there are no tokens.

        Raises
        ------
        LabelError
            If `y` does not have one label per token, or has an unknown label and `on_unknown` is "raise".

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> model.score([["the", "cat"]], [["D", "D"]])
        0.5
        """
        one_of("on_unknown", on_unknown, get_args(OnUnknown))
        guessed, y = self.predict(X, rules, given=given), labellings_of(y)
        if list(map(len, guessed)) != list(map(len, y)):
            raise LabelError("y does not fit X", got="other numbers of labels", wanted="one label per token")
        used = used_sequences(self.labels_.names, y, on_unknown).tolist()
        guessed, y = [guessed[k] for k in used], [y[k] for k in used]
        total = sum(label is not None for gold in y for label in gold)
        right = sum(a == b for ours, gold in zip(guessed, y, strict=True) for a, b in zip(ours, gold, strict=True))
        return right / total if total else 0.0

    def top_weights(self, count: int = 20) -> list[tuple[str, str, float]]:
        """Return the weights that are largest in absolute value.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        list of (str, str, float)
            Attribute, label and weight, largest first. The attribute of a label bigram is ``label[-1]=`` and the label
            before; with a token, ``label[-1]|word[0]=``, the label before, ``|`` and the token.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> [(attribute, label) for attribute, label, weight in model.top_weights() if weight > 0]
        [('word[0]=the', 'D'), ('word[0]=cat', 'N')]
        """
        self._fitted()
        of_label, weights = self.linear_.weights_by_label()
        best = np.argsort(-np.abs(weights), kind="stable")[:count]
        names, labels = _names(self, best), self.labels_.names
        top = [(name, labels[of_label[s]], float(weights[s])) for name, s in zip(names, best.tolist(), strict=True)]
        if self.linear_.pairwise is not None:
            for (i, j), weight in np.ndenumerate(self.linear_.pairwise):
                top.append((f"label[-1]={labels[i]}", labels[j], float(weight)))
        return sorted(top, key=lambda entry: -abs(entry[2]))[:count]

    def top_features(self, label: str, k: int = 10, *, direction: Direction = "for") -> list[tuple[str, float]]:
        """Find the features that speak most for a label, or against it.

        Parameters
        ----------
        label : str
            A label of the model, for example ``"B-PER"``.
        k : int, default 10
            The number of features.
        direction : {"for", "against"}, default "for"
            The largest weights, or the smallest.

        Returns
        -------
        list of (str, float)
            Features with their weights, the strongest first. Weights that are zero, or of the other sign, are left out,
            so that there may be fewer than `k`. A feature of the template ``label[-1] word[0]`` is called
            ``label[-1]|word[0]=``, the label before, ``|`` and the token.

        Raises
        ------
        LabelError
            If the model has no such label.

        Examples
        --------
        >>> import bridle
        >>> X, y = [["the", "cat"], ["the", "dog"]], [["D", "N"], ["D", "N"]]
        >>> model = bridle.CRF(features=["word[0]", "label[-1]"], c2=0.1).fit(X, y)
        >>> [name for name, weight in model.top_features("N", 2)]
        ['word[0]=cat', 'word[0]=dog']
        """
        self._fitted()
        self.labels_.id(label)
        return top_by_label(self, [label], k, direction)[label]

    def top_transitions(self, k: int = 10, *, direction: Direction = "for") -> list[tuple[str, str, float]]:
        """Find the label bigrams with the largest weights, or with the smallest.

        Parameters
        ----------
        k : int, default 10
            The number of bigrams.
        direction : {"for", "against"}, default "for"
            The largest weights, or the smallest.

        Returns
        -------
        list of (str, str, float)
            A label, the one after it, and the weight; the strongest first. Empty for a model without label bigrams.
            What single tokens add to them is among the `top_features`.

        Examples
        --------
        >>> import bridle
        >>> X, y = [["the", "cat"], ["the", "dog"]], [["D", "N"], ["D", "N"]]
        >>> model = bridle.CRF(features=["word[0]", "label[-1]"], c2=0.1).fit(X, y)
        >>> model.top_transitions(1)[0][:2]
        ('D', 'N')
        """
        self._fitted()
        count_of("k", k)
        one_of("direction", direction, ("for", "against"))
        pairwise = self.linear_.pairwise
        if pairwise is None:
            return []
        sign = 1.0 if direction == "for" else -1.0
        flat = pairwise.reshape(-1)
        pairs = np.flatnonzero(sign * flat > 0)
        best = pairs[np.argsort(-sign * flat[pairs], kind="stable")[:k]]
        names, m = self.labels_.names, len(self.labels_)
        return [(names[p // m], names[p % m], float(flat[p])) for p in best.tolist()]

    def share_seen(self, X: Sequences) -> float | None:
        """Estimate which share of sequences the model was trained on.

        Parameters
        ----------
        X : list
            Sequences, as for `fit`.

        Returns
        -------
        float or None
            From 0 to 1; exact for models of up to 4,096 sequences, estimated for larger ones. None: it cannot be told,
            because `X` is small and the training data large, or an older version of Bridle wrote the model.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> model.share_seen([["the", "cat"], ["a", "dog"]])
        0.5
        """
        self._fitted()
        sequences = sequences_of(X)
        return None if self.seen_ is None else share_seen(self.seen_, hashes_of(self.features_, sequences))

    @property
    def classes_(self) -> npt.NDArray[np.object_]:
        """The labels in an array, sorted, as scikit-learn has them; `labels_` says more."""
        self._fitted()
        return np.array(self.labels_.names, dtype=object)

    @property
    def fingerprint_(self) -> str:
        """A digest of labels, features and weights in 16 hexadecimal digits."""
        self._fitted()
        about = [list(self.labels_.names), self.labels_.scheme, self.features_.head()]
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        for name, array in sorted({**self.features_.arrays(), **self.linear_.arrays()}.items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "linear_")

    def _fitted(self) -> None:
        if not hasattr(self, "linear_"):
            raise not_fitted("the model has not been trained", wanted="fit(X, y), or bridle.load(path)")


def top_by_label(
    model: Predictor, labels: Sequence[str], k: int, direction: Direction = "for"
) -> dict[str, list[tuple[str, float]]]:
    """Return the `top_features` of each label; the names of features are looked up once for all of them."""
    count_of("k", k)
    one_of("direction", direction, ("for", "against"))
    of_label, weights = model.linear_.weights_by_label()
    sign = 1.0 if direction == "for" else -1.0
    slots = np.flatnonzero(sign * weights > 0)
    slots = slots[np.lexsort((-sign * weights[slots], of_label[slots]))]  # by label, the strongest first
    begin = np.searchsorted(of_label[slots], [model.labels_.id(label) for label in labels])
    end = np.searchsorted(of_label[slots], [model.labels_.id(label) for label in labels], side="right")
    chosen = [slots[a : min(a + k, b)] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    best = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    named = iter(zip(_names(model, best), weights[best].tolist(), strict=True))
    return {label: list(islice(named, len(part))) for label, part in zip(labels, chosen, strict=True)}


def _names(model: Predictor, slots: Ints) -> list[str]:
    """Return the names of weights, numbered as by `weights_by_label`: `word[0]=cat`, or `label[-1]|word[0]=D|cat`."""
    features, layout, labels = model.features_, model.linear_.layout, model.labels_.names
    plain = slots < layout.size
    names = iter(features.named(layout.attribute[slots[plain]]))
    if layout.edges is None:
        return list(names)
    assert isinstance(features, TemplateFeatures)
    of_edges = slots[~plain] - layout.size
    before, values = layout.edges.pair[of_edges] // layout.m, features.edge_names(layout.edges.attribute[of_edges])
    edges = iter([f"label[-1]|{at}={labels[i]}|{text}" for i, (at, text) in zip(before.tolist(), values, strict=True)])
    return [next(names if is_plain else edges) for is_plain in plain.tolist()]
