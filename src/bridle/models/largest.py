"""LargestWeights: what a model has learned, for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Literal

import numpy as np

from bridle.features import Features, TemplateFeatures
from bridle.labels import Labels
from bridle.models.checks import count_of, one_of
from bridle.models.linear import Ints, Linear

Direction = Literal["for", "against"]


class LargestWeights:
    """The weights of a model that say most."""

    labels_: Labels
    features_: Features
    linear_: Linear

    def _fitted(self) -> None:
        """Raise `ModelError` if the model has not been trained."""
        raise NotImplementedError

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
        names, labels = (
            _names(self, best),
            self.labels_.names,
        )
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


def top_by_label(
    model: LargestWeights, labels: Sequence[str], k: int, direction: Direction = "for"
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
    named = iter(
        zip(
            _names(model, best),
            weights[best].tolist(),
            strict=True,
        )
    )
    return {label: list(islice(named, len(part))) for label, part in zip(labels, chosen, strict=True)}


def _names(model: LargestWeights, slots: Ints) -> list[str]:
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
