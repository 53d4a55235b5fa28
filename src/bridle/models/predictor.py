"""Predictor: a trained model at work. Sequences in, lattices or labels out; and its largest weights, for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.documents import DocumentDecoding, cuts_of
from bridle.decoding.problem import check_given
from bridle.decoding.result import Decodings, raise_first
from bridle.decoding.threads import in_threads
from bridle.errors import BridleError, GivenError, LabelError
from bridle.features import Features, sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Steps
from bridle.models.checks import (
    Given,
    OnUnknown,
    count_of_threads,
    given_for,
    given_of,
    labellings_of,
    one_of,
    templates_of,
    used_sequences,
)
from bridle.models.estimator import Labellings, RoutedEstimator, not_fitted
from bridle.models.largest import LargestWeights
from bridle.models.linear import Kind, Linear
from bridle.models.task import Hashes, hashes_of, share_seen
from bridle.rules.base import Rule
from bridle.tagging import Block, tag
from bridle.tagging.labelling import with_columns

if TYPE_CHECKING:
    from bridle.models.deterministic import DeterministicRules


class Predictor(LargestWeights, RoutedEstimator):
    """A model that has labels, features and weights. Methods raise `ModelError` if it has not been trained."""

    labels_: Labels
    features_: Features
    linear_: Linear
    seen_: Hashes | None = None  # a sketch of the training sequences
    decides: DeterministicRules | None = None  # rules that decide tokens before the model does

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
                return self.scored(sequences[low:high], stop)[0]
            except BridleError as error:
                if error.sequence is not None:
                    error.sequence += low  # the caller knows the whole
                raise

        parts = in_threads(part, len(sequences), cores, stop)
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)]
        unary, steps = np.concatenate([part.unary for part in parts]), [part.steps for part in parts]
        batch = Batch(unary, np.concatenate([[0], *offsets]), parts[0].pairwise)
        return batch._with_steps(Steps.joined([part for part in steps if part is not None]) if any(steps) else None)

    def scored(
        self,
        sequences: Sequence[Any],
        stop: _native.Stop | None = None,
        errors: dict[int, BridleError] | None = None,
    ) -> tuple[Batch, Sequence[str] | None]:
        """Score sequences in one thread, as all routes do.

        Parameters
        ----------
        sequences : list
            Sequences, as for `fit`.
        stop : Stop, optional
            As in `Decoder.decode_batch`.
        errors : dict, optional
            Takes the errors of single sequences, by number; without it, the first is raised.

        Returns
        -------
        (Batch, sequence of str or None)
            The scores, and the texts of the tokens, end to end, as far as they are known.
        """
        encoded, texts = self.features_.encode_with_texts(sequences, errors)
        batch = self.linear_.scores(encoded, self.scores, stop, errors)
        if self.decides is not None:
            batch = self.decides.of_texts(texts, batch.offsets).constrain(batch, self.labels_)
        return batch, texts

    def decide_with(self, rules: DeterministicRules | None) -> Self:
        """Let deterministic rules decide tokens: their labels are kept, and this model labels the others.

        Rules that are passed to `predict` and to decoders then hold for all tokens; where they contradict a decided
        label, there is no labelling. Files do not keep these rules.

        Parameters
        ----------
        rules : DeterministicRules or None
            Trained rules; None: the model decides alone.

        Returns
        -------
        self
            The same model.

        Raises
        ------
        LabelError
            If a decided label is not one of the model.
        ModelError
            If the rules are not trained, or the model does not read text.

        Examples
        --------
        >>> import bridle
        >>> from bridle.learn import DeterministicRules
        >>> X, y = [["the", "cat"], ["the", "dog"]] * 5, [["D", "N"]] * 10
        >>> model = bridle.LocalTagger(features=["suffix1[0]"]).fit(X, y)
        >>> model.decide_with(DeterministicRules(cutoff=2).fit(X, y)).predict([["the", "e"]])
        [['D', 'D']]
        """
        self._fitted()
        if rules is not None:
            rules._fitted()
            templates_of(self.features_)
            if missing := [name for name in rules.labels_.names if name not in self.labels_]:
                wanted = ", ".join(self.labels_.names[:20])
                raise LabelError("the model lacks a label that rules decide", got=missing[0], wanted=wanted)
        self.decides = rules
        return self

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
        arrays = self._arrays()
        if self.decides is not None:
            arrays |= {f"decides.{name}": array for name, array in self.decides._stored()[1].items()}
        for name, array in sorted(arrays.items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, for files."""
        return {**self.features_.arrays(), **self.linear_.arrays()}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "linear_")

    def _fitted(self) -> None:
        if not hasattr(self, "linear_"):
            raise not_fitted("the model has not been trained", wanted="fit(X, y), or bridle.load(path)")
