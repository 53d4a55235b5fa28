"""Weighted: what a trained model has learned, for people. Its largest weights, and the features that it chose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.features import FeatureChoice, choose_features
from bridle.models.checks import count_of, names_of, one_of
from bridle.models.edges import names_of_slots
from bridle.models.fitting import Data
from bridle.models.predictor import Predictor


class Weighted(Predictor):
    """A trained model whose weights can be looked at."""

    features: Any  # a setting
    feature_set_: FeatureChoice | None = None  # what was chosen for features="auto", and why

    @property
    def fingerprint_(self) -> str:
        """What tells this model from others: 16 hexadecimal digits made of its labels, features and weights."""
        self._fitted()
        about = [list(self.labels_.names), self.labels_.scheme, self.features_.head()]
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        for name, array in sorted({**self.features_.arrays(), **self.linear_.arrays()}.items()):
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def _chosen(self, data: Data) -> FeatureChoice | None:
        """The features for this data, if they are to be chosen."""
        if not isinstance(self.features, str) or self.features != "auto":
            return None
        names_of(data.y)  # which says what is wrong with labels
        return choose_features(data.X, data.y)

    def _choice_for(self, data: Data) -> FeatureChoice | None:
        """The features that were chosen; for a model that is not trained, those that would be."""
        return self.feature_set_ if self.features == "auto" and self.feature_set_ is not None else self._chosen(data)

    def top_features(
        self, label: str, k: int = 10, *, direction: Literal["for", "against"] = "for"
    ) -> list[tuple[str, float]]:
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
        ModelError
            If the model has not been trained.
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

    def top_transitions(
        self, k: int = 10, *, direction: Literal["for", "against"] = "for"
    ) -> list[tuple[str, str, float]]:
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

        Raises
        ------
        ModelError
            If the model has not been trained.

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

    def __repr__(self) -> str:
        settings = super().__repr__()
        if self.feature_set_ is None or self.features != "auto":
            return settings
        return f"{settings.removesuffix(')')}, feature_set_={self.feature_set_.name!r})"


def top_by_label(
    model: Predictor, labels: Sequence[str], k: int, direction: Literal["for", "against"] = "for"
) -> dict[str, list[tuple[str, float]]]:
    """`top_features` of some labels; the names of features are looked up once for all of them."""
    count_of("k", k)
    one_of("direction", direction, ("for", "against"))
    linear, layout = model.linear_, model.linear_.layout
    of_label, weights = layout.label, linear.weights
    if layout.edges is not None and linear.edges is not None:  # behind the others, and numbered after them
        of_label = np.concatenate([of_label, layout.edges.pair % layout.m])
        weights = np.concatenate([weights, linear.edges])
    sign = 1.0 if direction == "for" else -1.0
    slots = np.flatnonzero(sign * weights > 0)
    slots = slots[np.lexsort((-sign * weights[slots], of_label[slots]))]  # by label, the strongest first
    begin = np.searchsorted(of_label[slots], [model.labels_.id(label) for label in labels])
    end = np.searchsorted(of_label[slots], [model.labels_.id(label) for label in labels], side="right")
    chosen = [slots[a : min(a + k, b)] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    best = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    named = iter(zip(_names(model, best), weights[best].tolist(), strict=True))
    return {label: list(islice(named, len(part))) for label, part in zip(labels, chosen, strict=True)}


def _names(model: Predictor, slots: npt.NDArray[np.int64]) -> list[str]:
    """What people call some weights; those of label bigrams together with the text are numbered after the others."""
    layout = model.linear_.layout
    plain = slots < layout.size
    names = iter(model.features_.named(layout.attribute[slots[plain]]))
    if layout.edges is None:
        return list(names)
    of_edges = slots[~plain] - layout.size
    edges = iter(names_of_slots(model.features_, layout.edges, model.labels_.names, of_edges))
    return [next(names if one else edges) for one in plain.tolist()]
