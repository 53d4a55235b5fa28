"""CrossFitter: what a model has to do with the data that it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from bridle.features import FeatureChoice, Features, sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.models import fitting
from bridle.models.checks import Given, check_callable, check_seed, count_of
from bridle.models.crossfit import CrossFit
from bridle.models.folds import check_folds, groups_of
from bridle.models.seen import Hashes, hashes_of, share_seen
from bridle.models.training import Plan
from bridle.models.tuning import Tuning


class CrossFitter:
    """Scores of sequences by models that have not seen them, and which sequences a model has seen."""

    seed: int
    labels_: Labels
    features_: Features
    tuning_: Tuning | None
    seen_: Hashes | None

    # ---- what a model adds ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Are the settings possible?"""
        raise NotImplementedError

    def _fitted(self) -> None:
        """Is it trained?"""
        raise NotImplementedError

    def _setup(self, choice: FeatureChoice | None) -> fitting.Setup:
        """What training is to be like."""
        raise NotImplementedError

    def _choice_for(self, data: fitting.Data) -> FeatureChoice | None:
        """The features that were chosen; for a model that is not trained, those that would be."""
        raise NotImplementedError

    def _tuned(self) -> Tuning | None:
        """Settings that were chosen, as far as they are still asked for."""
        return self.tuning_

    def _iterations(self) -> int:
        """Iterations, unless something ends training before."""
        raise NotImplementedError

    def _tolerance(self) -> float:
        """Training ends when the loss falls by less than this share; 0: never."""
        return 0.0

    # -----------------------------------------------------------------------------------------------------------------

    def cross_fit(
        self,
        X: Sequences,
        y: LabelLists,
        *,
        given: Sequence[Given] | Table | None = None,
        groups: Sequence[Hashable] | Table | None = None,
        folds: int | None = None,
        watch: Callable[[int, int], None] | None = None,
    ) -> CrossFit:
        """Score sequences by models that have not seen them.

        The sequences are cut into folds, and each fold is scored by a model with the settings of this one, trained on
        the others. That is how good this model can be expected to be on new data, and what rules are priced against.

        Parameters
        ----------
        X, y : list
            Sequences and their labels, as for `fit`; usually those that the model was trained on.
        given : list of mapping, optional
            Values for rules that are used in training.
        groups : sequence, optional
            A name or a number per sequence; sequences of a group are held out together.
        folds : int, optional
            Number of folds; by default that of the settings, or 4.
        watch : callable, optional
            Called after each fold with the number of folds that are done, and of all.

        Returns
        -------
        CrossFit
            The scores of all sequences.

        Raises
        ------
        LabelError
            If labels do not fit the sequences, or one is not among those of the model.
        ModelError
            If a setting is impossible, or there are too few sequences to make two folds.

        Examples
        --------
        >>> import bridle
        >>> X, y = [["the", "cat"], ["a", "dog"], ["the", "dog"]], [["D", "N"]] * 3
        >>> found = bridle.LocalTagger(features=["word[0]"]).cross_fit(X, y, folds=3)
        >>> [lattice.unary.shape for lattice in found.lattices()]
        [(2, 2), (2, 2), (2, 2)]
        """
        self._check()
        check_seed(self.seed)
        data = fitting.Data.of(X, y, given)
        held_together = groups_of(groups, len(data.X))
        check_callable("watch", watch, "a function of two numbers")
        setup = self._setup(self._choice_for(data))
        setup = setup if folds is None else replace(setup, folds=check_folds(folds))
        plan = Plan(count_of("iterations", self._iterations()), self._tolerance())
        labels = getattr(self, "labels_", None)
        return fitting.cross_fit(setup, data, plan, labels, self._tuned(), held_together, watch)

    def cross_fit_identity(
        self,
        X: Sequences,
        y: LabelLists,
        groups: Sequence[Hashable] | Table | None = None,
    ) -> dict[str, Any]:
        """Identify data and settings: what cross-fitted scores of this data have as their `identity`.

        Parameters
        ----------
        X, y : list
            Sequences and their labels, as for `cross_fit`.
        groups : sequence, optional
            The groups, if there are any.

        Returns
        -------
        dict
            Settings, and checksums of the data.
        """
        self._fitted()
        data = fitting.Data.of(X, y)
        held = groups_of(groups, len(data.X))
        return fitting.data_identity(self._setup(self._choice_for(data)), data, self.labels_, self._tuned(), held)

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
