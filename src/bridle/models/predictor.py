"""Predictor: a trained model at work. Sequences in, lattices or labels out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given
from bridle.decoding.result import Decodings, raise_first
from bridle.decoding.threads import in_threads
from bridle.errors import BridleError, LabelError
from bridle.features import Features, sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.models.checks import Given, count_of_threads, given_for, given_of, labellings_of
from bridle.models.edges import top_edges
from bridle.models.estimator import Labellings, not_fitted
from bridle.models.linear import Kind, Linear
from bridle.rules.base import Rule
from bridle.steps import Steps
from bridle.tagging import Block, tag


class Predictor:
    """What a model can do once it has labels, features and weights."""

    labels_: Labels
    features_: Features
    linear_: Linear

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
        ModelError
            If the model has not been trained.
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
        made = Batch(unary, np.concatenate([[0], *offsets]), self.linear_.pairwise)
        return made._with_steps(Steps.joined([one for one in steps if one is not None]) if any(steps) else None)

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

        Raises
        ------
        ModelError
            If the model has not been trained.

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
        ModelError
            If the model has not been trained.
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
        ModelError
            If the model has not been trained.
        GivenError
            If `given` has another length than `X`, or lacks a value that a rule refers to.
        Infeasible
            If no labelling of a sequence obeys the hard rules.

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
        return Labellings(self.decode(X, self.decoder(rules, **options), given=given, threads=threads).labels)

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
        ModelError
            If the model has not been trained.
        Infeasible, LimitReached
            As from `Decoder.decode_batch`.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> decoder = model.decoder(["forbid D", "fix D at tokens /the/"], on_infeasible="skip")
        >>> found = model.decode([["the", "cat"], ["cat"]], decoder)
        >>> found.status.tolist(), found.labels
        (['infeasible', 'optimal'], [[], ['N']])
        """
        self._fitted()
        X, given = sequences_of(X), given if isinstance(given, list) else given_of(given)
        check_given(given, len(X))
        outcomes = tag(Block(len(X), sequences=X, given=given), self, decoder, stop=stop, threads=threads)
        found = outcomes.decodings
        raise_first(found, infeasible=decoder.on_infeasible == "raise")
        return found

    def score(
        self,
        X: Sequences,
        y: LabelLists,
        *,
        rules: Iterable[Rule | str] = (),
        given: Sequence[Given] | Table | None = None,
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

        Returns
        -------
        float
            From 0 to 1; 0 if there are no tokens.

        Raises
        ------
        ModelError
            If the model has not been trained.
        LabelError
            If `y` does not have one label per token.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> model.score([["the", "cat"]], [["D", "D"]])
        0.5
        """
        guessed, y = self.predict(X, rules, given=given), labellings_of(y)
        if list(map(len, guessed)) != list(map(len, y)):
            raise LabelError("y does not fit X", got="other numbers of labels", wanted="one label per token")
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

        Raises
        ------
        ModelError
            If the model has not been trained.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> [(attribute, label) for attribute, label, weight in model.top_weights() if weight > 0]
        [('word[0]=the', 'D'), ('word[0]=cat', 'N')]
        """
        self._fitted()
        names, layout = self.features_.names(), self.linear_.layout
        found = [
            (names[layout.attribute[s]], self.labels_.names[layout.label[s]], float(self.linear_.weights[s]))
            for s in np.argsort(-np.abs(self.linear_.weights), kind="stable")[:count].tolist()
        ]
        if self.linear_.pairwise is not None:
            for (i, j), weight in np.ndenumerate(self.linear_.pairwise):
                found.append((f"label[-1]={self.labels_.names[i]}", self.labels_.names[j], float(weight)))
        found += top_edges(self.features_, self.linear_.layout.edges, self.linear_.edges, self.labels_.names, count)
        return sorted(found, key=lambda one: -abs(one[2]))[:count]

    @property
    def classes_(self) -> npt.NDArray[np.object_]:
        """The labels in an array, sorted, as scikit-learn has them; `labels_` says more."""
        self._fitted()
        return np.array(self.labels_.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "linear_")

    def _fitted(self) -> None:
        if not hasattr(self, "linear_"):
            raise not_fitted("the model has not been trained", wanted="fit(X, y), or bridle.load(path)")
