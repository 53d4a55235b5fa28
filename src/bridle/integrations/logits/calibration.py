"""The decoder of openai/privacy-filter: BIOES over the types of private data, six biases on transitions, rules on top.

transformers has the model (`OpenAIPrivacyFilterForTokenClassification`) without it. From the left label to the top one,
x and y being any types:

              O                    B-y, S-y             I-x                  E-x
    O         background_stay      background_to_start  -inf                 -inf
    B-x, I-x  -inf                 -inf                 inside_to_continue   inside_to_end
    E-x, S-x  end_to_background    end_to_start         -inf                 -inf

A text begins with O, B or S and ends with O, E or S.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from bridle.arrays import LARGEST, Scores
from bridle.errors import LabelError, ModelError, shown
from bridle.labels import Labels
from bridle.rules.loading import read_text

PREFIX = "transition_bias_"
# Of each bias: the tags of the label before, and of the label after.
STEPS = {
    "background_stay": ("O", "O"),
    "background_to_start": ("O", "BS"),
    "inside_to_continue": ("BI", "I"),
    "inside_to_end": ("BI", "E"),
    "end_to_background": ("ES", "O"),
    "end_to_start": ("ES", "BS"),
}
_WANTED = '{"operating_points": {"default": {"biases": {...}}}}'


def check_complete(labels: Labels) -> None:
    """Raise unless there are O and all four labels of each type: without one of them, whole types cannot be found.

    Parameters
    ----------
    labels : Labels
        Under BIOES.

    Raises
    ------
    LabelError
        If a label is missing, as in those of BIO.

    Examples
    --------
    >>> check_complete(Labels(["O", "B-x", "I-x"], "BIOES"))
    Traceback (most recent call last):
    bridle.errors.LabelError: BIOES labels are missing; got no E-x, no S-x; wanted O, and B-, I-, E-, S- of all types.
    Are these labels of BIO? Use pipeline() with the rule "well formed".
    """
    known = set(zip(labels.tag_of, labels.type_of, strict=True))
    missing = [] if "" in labels.tag_of else ["no O"]
    missing += [f"no {tag}-{kind}" for kind in sorted(labels.types) for tag in "BIES" if (tag, kind) not in known]
    if missing or not labels.types:
        raise LabelError(
            "BIOES labels are missing",
            got=", ".join(missing[:6]) + ", ..." * (len(missing) > 6) or "no types",
            wanted="O, and B-, I-, E-, S- of all types",
            cause='Are these labels of BIO? Use pipeline() with the rule "well formed".',
        )


def transitions(labels: Labels, biases: Mapping[str, float]) -> tuple[Scores, Scores, Scores]:
    """Make the scores of transitions of the biases.

    Parameters
    ----------
    labels : Labels
        Under BIOES.
    biases : mapping of str to float
        As `biases_of` gives them.

    Returns
    -------
    pairwise : array of float, shape (m, m)
    start, end : array of float, shape (m,)
        0 for labels that a text may begin and end with, -inf for others.

    Examples
    --------
    >>> labels = Labels(["S-x", "O"], "BIOES")
    >>> transitions(labels, {**biases_of(None), "end_to_start": -2.0})[0]
    array([[-2.,  0.],
           [ 0.,  0.]])
    """
    tags = np.array([tag or "O" for tag in labels.tag_of])
    allowed, first, last = labels.allowed
    pairwise = np.full(allowed.shape, -np.inf)
    for name, (before, after) in STEPS.items():
        step = np.isin(tags, list(before))[:, None] & np.isin(tags, list(after))[None, :]
        pairwise[step & allowed] = biases[name]
    return pairwise, np.where(first, 0.0, -np.inf), np.where(last, 0.0, -np.inf)


def biases_of(
    calibration: Mapping[str, Any] | str | PathLike[str] | None, operating_point: str = "default"
) -> dict[str, float]:
    """Read the six biases of a calibration.

    Parameters
    ----------
    calibration : mapping, str, path or None
        The content of a calibration file, or the file. None: all biases are 0.
    operating_point : str, default "default"
        Which of its entries to use.

    Returns
    -------
    dict of str to float
        By their names without "transition_bias_".

    Raises
    ------
    FileError
        If the file cannot be read.
    ModelError
        If it does not hold exactly the six biases, as finite numbers.

    Examples
    --------
    >>> biases = {f"transition_bias_{name}": 0.0 for name in STEPS} | {"transition_bias_background_stay": 0.5}
    >>> biases_of({"operating_points": {"default": {"biases": biases}}})["background_stay"]
    0.5
    """
    if calibration is None:
        return dict.fromkeys(STEPS, 0.0)
    where, found = None, calibration
    if isinstance(calibration, (str, PathLike)):
        where = str(calibration)
        try:
            found = json.loads(read_text(where, "the calibration file"))
        except (ValueError, RecursionError) as error:
            raise ModelError("the calibration is not JSON", got=str(error), wanted=_WANTED, where=where) from None
    for key in ("operating_points", operating_point, "biases"):
        if not isinstance(found, Mapping) or key not in found:
            got = ", ".join(map(str, found)) if isinstance(found, Mapping) else shown(found)
            raise ModelError(f"the calibration has no {key!r}", got=got or "nothing", wanted=_WANTED, where=where)
        found = found[key]
    names = {PREFIX + name: name for name in STEPS}
    if not isinstance(found, Mapping) or found.keys() != names.keys():
        keys = found.keys() if isinstance(found, Mapping) else set()
        told = [f"no {name}" for name in names if name not in keys] + [f"{key!r}" for key in keys if key not in names]
        raise ModelError(
            "the calibration does not have the six biases",
            got=", ".join(told),
            wanted=f"exactly {', '.join(names)}",
            where=where,
        )
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
            raise ModelError(f"{key} is not a bias", got=shown(value), wanted="a finite number", where=where)
    return {names[key]: float(value) for key, value in found.items()}
