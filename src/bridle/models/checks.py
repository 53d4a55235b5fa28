"""Checks of settings, gold labels and given values before training begins."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bridle import frames
from bridle.arrays import is_integer
from bridle.decoding.decoder import Decoder
from bridle.decoding.threads import cores
from bridle.errors import Argument, BridleError, LabelError, ModelError, shown
from bridle.features import Features, PlainFeatures, TemplateFeatures
from bridle.labels import MISSING, Labels
from bridle.rules.base import Rule
from bridle.rules.conditions import without_files
from bridle.tagging import Block
from bridle.tagging.labelling import with_columns

Given = Mapping[str, Any]
OnUnknown = Literal["raise", "skip", "wrong"]  # what to do with gold labels that the model does not know
_REMEDIES = {"skip": "leave out such sequences", "wrong": "count it as an error"}
_NUMBERS = (int, float, np.integer, np.floating)


# ---- settings -------------------------------------------------------------------------------------------------------


def count_of(name: str, value: Any, least: int = 1) -> int:
    """Return a setting that is a count; raise `ModelError` if it is not an integer >= `least`."""
    if not is_integer(value, least):
        raise ModelError(f"invalid value of `{name}`", got=repr(value), wanted=f"an integer >= {least}")
    return int(value)


def count_of_threads(value: Any) -> int:
    """Return a number of threads; 0 is all cores."""
    if not is_integer(value, 0):
        raise ModelError("invalid value of `threads`", got=repr(value), wanted="0 (all cores) or more")
    return int(value) or cores()


def check_seed(value: Any) -> None:
    """Raise `ModelError` if a seed is not a non-negative integer."""
    if not is_integer(value, 0):
        raise ModelError("`seed` must be a non-negative integer", got=repr(value))


def check_labels(value: Any) -> None:
    """Raise `ModelError` if `labels` is not a list of names."""
    names = isinstance(value, Sequence) and not isinstance(value, str)
    if not (names and all(isinstance(name, str) and name for name in value)):
        raise ModelError("`labels` must be a list of names", got=shown(value), wanted="['PER', 'LOC'], or None")


def path_of(name: str, value: Any) -> Path | None:
    """Return a path, or None."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ModelError(f"{name} is not a path", got=shown(value), wanted="a path, or None")
    return None if value is None else Path(value)


def check_callable(name: str, value: Any, wanted: str) -> None:
    """Raise `ModelError` if a function that reports progress is neither callable nor None."""
    if value is not None and not callable(value):
        raise ModelError(f"{name} cannot be called", got=shown(value), wanted=wanted)


def one_of(name: str, value: Any, known: Sequence[str]) -> None:
    """Raise `ModelError` if a setting is not one of these words."""
    if value not in known:
        raise ModelError(f"unknown {name}", got=repr(value), wanted=" or ".join(map(repr, known)))


def positive(name: str, value: Any) -> None:
    """Raise `ModelError` if a setting is not a number above zero."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not 0 < value < math.inf:
        raise ModelError(f"`{name}` must be a number above 0", got=repr(value))


def not_negative(name: str, value: Any, otherwise: str | None = None) -> None:
    """Raise `ModelError` if a setting is neither a finite number >= 0 nor the word `otherwise`."""
    if isinstance(value, str) and value == otherwise:
        return
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not 0 <= value < math.inf:
        words = f" or {otherwise!r}" if otherwise else ""
        raise ModelError(f"`{name}` must be a non-negative number{words}", got=repr(value))


def jsonable(value: Any) -> Any:
    """Convert a setting to what JSON can hold; rules and templates become text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): jsonable(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(x) for x in value]
    return str(without_files(value) if isinstance(value, Rule) else value)


def templates_of(features: Features) -> TemplateFeatures:
    """Return the features of a model that reads text; raise `ModelError` for any other model."""
    if not isinstance(features, TemplateFeatures):
        raise ModelError(
            "the model takes ready-made features, not text",
            got="a model without templates",
            wanted="a model with templates, such as CRF(features='ner')",
            cause="Score your features in Python, and decode the scores with bridle.Decoder or bridle.arrow.Decode.",
        )
    return features


# ---- labels ---------------------------------------------------------------------------------------------------------


def labellings_of(y: Any) -> Sequence[Sequence[str | None]]:
    """Convert y to a list of label lists if it is a column of a table; `names_of` checks it.

    Labels that are missing (None, NaN, or another value that a table has for an empty cell) become None.
    """
    labellings: Sequence[Sequence[str | None]] = y if isinstance(y, list) else frames.cells(y)
    try:
        odd = {label for label in set(chain.from_iterable(labellings)) if not isinstance(label, str)}
    except TypeError:
        return labellings
    if not odd - {None} or not all(map(frames.is_missing, odd)):
        return labellings
    return [[label if isinstance(label, str) else None for label in labels] for labels in labellings]


def all_known(y: Sequence[Sequence[str | None]]) -> Sequence[Sequence[str]]:
    """Return the labels; raise `LabelError` if one is missing."""
    for k, labels in enumerate(y):
        if None in labels:
            raise LabelError(
                "a label is missing",
                got=f"{sum(label is None for label in labels)} of {len(labels)} labels",
                wanted="a label for every token",
                cause="Leave out such sequences. Only `fit` of CRF and LocalTagger learns from them.",
                sequence=k,
            )
    return cast(Sequence[Sequence[str]], y)


def names_of(y: Any) -> list[str]:
    """Return all labels of training data, sorted; raise `LabelError` if they are not names, or fewer than two."""
    if isinstance(y, (str, bytes)) or not hasattr(y, "__len__"):
        raise LabelError("y is not a list of label lists", got=type(y).__name__, wanted="a list per sequence")
    names: set[Any] = set()
    for k, labels in enumerate(y):
        if isinstance(labels, (str, bytes)) or not hasattr(labels, "__len__"):
            cause = (
                "One sequence? Pass [X] and [y]. Of a table with one row per token, bridle.frames.sequences makes both."
            )
            if frames.is_missing(labels):
                cause = "The cell is empty: leave the row out of X and y."
            wanted = "a list with one label per token"
            raise LabelError("the labels are not a list", got=shown(labels), wanted=wanted, cause=cause, sequence=k)
        try:
            names.update(labels)
        except TypeError:  # what cannot be hashed is no name
            odd = next(label for label in labels if not isinstance(label, str))
            raise LabelError("a label is not a name", got=shown(odd), wanted="non-empty strings", sequence=k) from None
    known = names - {None}
    if wrong := [name for name in known if not isinstance(name, str)]:
        cause = "Numbers? Turn them into text first: [[str(label) for label in labels] for labels in y]."
        raise LabelError("a label is not a name", got=shown(wrong[0]), wanted="non-empty strings", cause=cause)
    if len(known) < 2:
        nothing = "only missing labels" if names else "no labels at all"
        raise LabelError(
            "there is nothing to learn",
            got=f"only the label {min(known)!r}" if known else nothing,
            wanted="at least two different labels",
            cause="Is the label column the right one?",
        )
    return sorted(map(str, known))


def used_sequences(
    known: Iterable[str], y: Iterable[Sequence[str | None]], on_unknown: OnUnknown
) -> npt.NDArray[np.int64]:
    """Return the numbers of the sequences to use if gold may have labels that a model does not know.

    on_unknown: "raise" raises `LabelError`, "skip" leaves out the sequences that have such a label, and "wrong" keeps
    them: the label is never right. This is its meaning in all functions and commands.
    """
    names = {*known, None}
    return np.array([k for k, labels in enumerate(y) if is_used(names, labels, on_unknown, k)], dtype=np.int64)


def is_used(
    known: Set[str | None], labelling: Sequence[str | None], on_unknown: str, sequence: int | None = None
) -> bool:
    """Check whether a sequence is used; raise `LabelError` if it has an unknown label and that is an error."""
    if on_unknown == "wrong":
        return True
    try:
        unknown = set(labelling) - known
    except TypeError:  # what cannot be hashed is no label
        unknown = {shown(labelling)}
    if unknown and on_unknown == "raise":
        name = next((name for name in labelling if name in unknown), unknown.pop())
        raise _unknown_label(name, sequence, "skip")
    return not unknown


def _unknown_label(name: Any, sequence: int | None, remedy: str | None) -> LabelError:
    """Return the error for a gold label; remedy: another value of `on_unknown` of the caller, if it has this option."""
    return LabelError(
        "unknown label",
        got=repr(name),
        wanted="a label of the training data",
        cause="Map it to a known label." + (f" Or pass {{argument}} to {_REMEDIES[remedy]}." if remedy else ""),
        sequence=sequence,
        argument=Argument("on_unknown", remedy) if remedy else None,
    )


def ids_of(
    labels: Labels,
    y: Sequence[Sequence[str | None]],
    offsets: npt.NDArray[np.int64],
    on_unknown: OnUnknown | None = None,
    missing: str = "raise",
) -> npt.NDArray[np.int32]:
    """Convert gold labels to ids, end to end; raise `LabelError` if they do not fit the sequences.

    on_unknown: the argument of this name of the caller, if it has one; "wrong" gives -1 for an unknown label. Leave
        out sequences before, with `used_sequences`.
    missing: what to do where a label is None: "raise", or "allow", which gives MISSING.
    """
    lengths, wanted = [len(labelling) for labelling in y], np.diff(offsets).tolist()
    if len(lengths) != len(wanted):
        raise LabelError("y and X differ in length", got=f"{len(lengths)} lists", wanted=f"{len(wanted)} of them")
    if lengths != wanted:
        k = next(k for k in range(len(wanted)) if lengths[k] != wanted[k])
        raise LabelError(
            "the labels and the tokens differ in length",
            got=f"{lengths[k]} labels",
            wanted=f"{wanted[k]}, one per token",
            sequence=k,
        )
    number: dict[str | None, int] = {name: k for k, name in enumerate(labels.names)}
    flat = list(chain.from_iterable(y))
    if missing == "allow":
        number[None] = MISSING
    else:
        all_known(y)
    if on_unknown == "wrong":
        return np.fromiter((number.get(name, -1) for name in flat), dtype=np.int32, count=len(flat))
    try:
        return np.fromiter(map(number.__getitem__, flat), dtype=np.int32, count=len(flat))
    except (KeyError, TypeError):
        at = next(k for k, name in enumerate(flat) if not isinstance(name, (str, type(None))) or name not in number)
        sequence = int(np.searchsorted(offsets, at, side="right")) - 1
        raise _unknown_label(flat[at], sequence, "wrong" if on_unknown else None) from None


# ---- given values and development sets ------------------------------------------------------------------------------


def given_of(given: Any) -> Sequence[Given] | None:
    """Convert values for rules to a list of mappings if they are a table; `check_given` checks them."""
    values: Sequence[Given] | None = frames.rows(given)
    return values


def given_for(
    features: Features, sequences: Sequence[Any], given: Sequence[Given] | None, decoder: Decoder
) -> Sequence[Given] | None:
    """Return the values that rules ask for; texts of tokens and other columns are added."""
    if not decoder.required_inputs:
        return None
    values: Sequence[Given] = [{}] * len(sequences) if given is None else given
    if not decoder.required_columns or isinstance(features, PlainFeatures):
        return values  # plain tokens have features, but no text
    errors: dict[int, BridleError] = {}
    rows = with_columns(Block(len(sequences), sequences=sequences), features, values, decoder.required_columns, errors)
    for k, error in errors.items():
        raise error.at(sequence=k)
    return rows


def check_pair(dev: Any) -> None:
    """Raise `ModelError` if a development set is not a pair of X and y."""
    if not isinstance(dev, (tuple, list)) or len(dev) != 2 or any(not hasattr(part, "__len__") for part in dev):
        raise ModelError("dev is not a development set", got=shown(dev), wanted="(X, y)")


@contextmanager
def of_dev() -> Iterator[None]:
    """Say of errors that are raised inside that they are about the development set."""
    try:
        yield
    except BridleError as error:
        number = "" if error.sequence is None else f"sequence {error.sequence} of "
        error.at(where=f"{number}the development set")
        raise
