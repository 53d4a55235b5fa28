"""How much mistakes on each label weigh in training: `class_weight`, as in scikit-learn.

    CRF, lbfgs     softmax-margin (Gimpel & Smith 2010):
                   loss(x, y) = log (sum over y' of  exp(score(y') + sum over t with y'[t] != y[t] of log weight(y[t])))
                                - score(y)
    perceptrons    the update of a token is scaled by the weight of its label

The label of a token must beat the others by the log of its weight more. If all weights are 1, this is the plain loss;
it is as convex as that, and takes no more time. A loss that counts the likelihood of heavy tokens several times was
tried too: it took longer, fitted the training data more closely, and raised recall less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.errors import Argument, LabelError, ModelError, shown
from bridle.labels import Labels

ClassWeight = Mapping[str, float] | Literal["balanced"] | None


def check_class_weight(value: Any) -> None:
    """Refuse what can be no weights of classes, whatever the labels are."""
    if value == "balanced":
        return
    if not isinstance(value, Mapping):
        raise ModelError(
            "`class_weight` is not a mapping of labels to weights",
            got=shown(value),
            wanted="such as {'PER': 3.0}, 'balanced', or None",
            argument=Argument("class_weight"),
        )
    for name, weight in value.items():
        if not isinstance(name, str):
            raise ModelError("a class of `class_weight` is not a name", got=shown(name), wanted="a label, as text")
        number = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise ModelError(
                f"the weight of class {name!r} is not positive",
                got=shown(weight),
                wanted="a number above 0",
                cause="To leave tokens out of training, make their labels missing (None)." if weight == 0 else None,
                argument=Argument("class_weight"),
            )


def weights_of(class_weight: ClassWeight, labels: Labels, y: npt.NDArray[np.int32]) -> npt.NDArray[np.float64] | None:
    """(m): the weight of each label; None if all are 1. y: gold ids, below 0 where they are not known.

    >>> weights_of({"PER": 3.0, "I-PER": 2.0}, Labels(["B-PER", "I-PER", "O"], "BIO"), np.zeros(1, np.int32)).tolist()
    [3.0, 2.0, 1.0]
    """
    if class_weight is None:
        return None
    if class_weight == "balanced":
        made = _balanced(labels, y)
    else:
        assert not isinstance(class_weight, str)
        made = np.ones(len(labels))
        # Full labels after types, so that they count where both are there.
        for name in sorted(class_weight, key=lambda name: name in labels.names):
            try:
                made[sorted(labels.matching(name))] = float(class_weight[name])
            except LabelError as error:
                error.what = "`class_weight` names a label that the training data does not have"
                raise
    return None if (made == 1).all() else made


def _balanced(labels: Labels, y: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Tokens / (classes * tokens of the class); the labels of a segment type are one class."""
    kinds = np.array(labels.kinds)
    count = np.bincount(kinds[y[y >= 0]], minlength=int(kinds.max()) + 1)
    weight = count.sum() / (np.count_nonzero(count) * np.maximum(count, 1))
    return np.asarray(weight[kinds], dtype=np.float64)
