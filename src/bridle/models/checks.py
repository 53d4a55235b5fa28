"""Gold labels and what comes with sequences, checked before training begins."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bridle import frames
from bridle.checks import MISSING, is_integer
from bridle.decoding.decoder import Decoder
from bridle.decoding.threads import cores
from bridle.errors import Argument, BridleError, LabelError, ModelError, shown
from bridle.features import Encoded, Features, PlainFeatures, TemplateFeatures
from bridle.labels import Labels
from bridle.rules.base import Rule
from bridle.rules.conditions import without_files
from bridle.tagging import Block
from bridle.tagging.labelling import with_columns

Given = Mapping[str, Any]
_NUMBERS = (int, float, np.integer, np.floating)


def count_of(name: str, value: Any) -> int:
    """A number of iterations."""
    if not is_integer(value, 1):
        raise ModelError(f"invalid value of `{name}`", got=repr(value), wanted="an integer >= 1")
    return int(value)


def count_of_threads(value: Any) -> int:
    """A number of threads; 0 is all cores."""
    if not is_integer(value, 0):
        raise ModelError("invalid value of `threads`", got=repr(value), wanted="0 (all cores) or more")
    return int(value) or cores()


def check_seed(value: Any) -> None:
    """A seed of random numbers."""
    if not is_integer(value, 0):
        raise ModelError("`seed` must be a non-negative integer", got=repr(value))


def path_of(name: str, value: Any) -> Path | None:
    """A path, or None."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ModelError(f"{name} is not a path", got=shown(value), wanted="a path, or None")
    return None if value is None else Path(value)


def check_pair(dev: Any) -> None:
    """A development set is a pair of X and y."""
    if not isinstance(dev, (tuple, list)) or len(dev) != 2 or any(not hasattr(part, "__len__") for part in dev):
        raise ModelError("dev is not a development set", got=shown(dev), wanted="(X, y)")


@contextmanager
def of_dev() -> Iterator[None]:
    """Errors raised inside are about the development set."""
    try:
        yield
    except BridleError as error:
        number = "" if error.sequence is None else f"sequence {error.sequence} of "
        error.at(where=f"{number}the development set")
        raise


def digest_of(given: Sequence[Given] | None) -> str:
    """A digest that distinguishes given values."""
    return hashlib.sha256(_canonical(given).encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> str:
    """The same text for equal values."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{k!r}:{_canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(_canonical, value))) + ">"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return repr(value.item() if isinstance(value, np.generic) else value)


def labellings_of(y: Any) -> Sequence[Sequence[str | None]]:
    """y as a list of label lists, where it comes as a column of a table; what else it may be, `names_of` says.

    Labels that are missing (None, NaN, or another value that a table has for an empty cell) are None.
    """
    found: Sequence[Sequence[str | None]] = y if isinstance(y, list) else frames.cells(y)
    try:
        odd = {label for label in set(chain.from_iterable(found)) if not isinstance(label, str)}
    except TypeError:
        return found
    if not odd - {None} or not all(map(frames.is_missing, odd)):
        return found
    return [[label if isinstance(label, str) else None for label in labels] for labels in found]


def given_of(given: Any) -> Sequence[Given] | None:
    """Values for rules as a list of mappings, where they come as a table; `check_given` says what else they may be."""
    found: Sequence[Given] | None = frames.rows(given)
    return found


def all_known(y: Sequence[Sequence[str | None]]) -> Sequence[Sequence[str]]:
    """The same labels, none of which is missing."""
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
    """All labels of the training data, sorted; missing ones (None) are none."""
    if isinstance(y, (str, bytes)) or not hasattr(y, "__len__"):
        raise LabelError("y is not a list of label lists", got=type(y).__name__, wanted="a list per sequence")
    names: set[Any] = set()
    for k, labels in enumerate(y):
        if isinstance(labels, (str, bytes)) or not hasattr(labels, "__len__"):
            got, cause = shown(labels), None
            if frames.is_missing(labels):
                cause = "The cell is empty: leave the row out of X and y."
            raise LabelError(
                "the labels are not a list", got=got, wanted="one label per token", cause=cause, sequence=k
            )
        try:
            names.update(labels)
        except TypeError:  # what cannot be hashed is no name
            odd = next(label for label in labels if not isinstance(label, str))
            raise LabelError("a label is not a name", got=shown(odd), wanted="non-empty strings", sequence=k) from None
    unknown = None in names
    names.discard(None)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise LabelError("a label is not a name", got=shown(wrong[0]), wanted="non-empty strings")
    if len(names) < 2:
        raise LabelError(
            "there is nothing to learn",
            got=f"only the label {min(names)!r}" if names else "only missing labels" if unknown else "no labels at all",
            wanted="at least two different labels",
            cause="Is the label column the right one?",
        )
    return sorted(map(str, names))


def ids_of(
    labels: Labels,
    y: Sequence[Sequence[str | None]],
    offsets: npt.NDArray[np.int64],
    on_unknown: str | None = None,
    missing: str = "raise",
) -> npt.NDArray[np.int32]:
    """Gold labels as ids, end to end; checked against the sequences.

    on_unknown: what the caller asks for with an argument of this name, if it has one; "wrong": -1 for an unknown label.
    missing: what to do where a label is None: "raise", or "allow", which gives MISSING.
    """
    lengths, wanted = [len(one) for one in y], np.diff(offsets).tolist()
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
        raise LabelError(
            "unknown label",
            got=repr(flat[at]),
            wanted="a label of the training data",
            cause="Map it to a known label." + (" Or pass {argument} to count it as an error." if on_unknown else ""),
            sequence=int(np.searchsorted(offsets, at, side="right")) - 1,
            argument=Argument("on_unknown", "wrong") if on_unknown else None,
        ) from None


def given_for(
    features: Features, sequences: Sequence[Any], given: Sequence[Given] | None, decoder: Decoder
) -> Sequence[Given] | None:
    """What comes with the sequences, as far as rules ask for it; texts of tokens and other columns are added."""
    if not decoder.required_inputs:
        return None
    own: Sequence[Given] = [{}] * len(sequences) if given is None else given
    if not decoder.required_columns or isinstance(features, PlainFeatures):
        return own  # plain tokens have features, but no text
    errors: dict[int, BridleError] = {}
    rows = with_columns(Block(len(sequences), sequences=sequences), features, own, decoder.required_columns, errors)
    for k, error in errors.items():
        raise error.at(sequence=k)
    return rows


def fingerprint(encoded: Encoded, gold: npt.NDArray[np.int32]) -> str:
    """A digest that distinguishes training data."""
    digest = hashlib.sha256()
    edges = () if encoded.edges is None else (encoded.edges.indptr, encoded.edges.attrs)
    for array in (encoded.offsets, encoded.indptr, encoded.attrs, encoded.values, *edges, gold):
        if array is not None and array.size:
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()


def jsonable(value: Any) -> Any:
    """A setting as JSON has it; rules and templates as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): jsonable(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(x) for x in value]
    return str(without_files(value) if isinstance(value, Rule) else value)


def check_settings(
    model: Any, words: Mapping[str, Sequence[str]], numbers: Sequence[str] = (), strengths: Sequence[str] = ()
) -> None:
    """Settings that take one of some words, a number >= 0, or (strengths of regularisation) such a number or "auto"."""
    for name, known in words.items():
        if getattr(model, name) not in known:
            raise _unknown(name, getattr(model, name), known)
    for name in (*numbers, *strengths):
        value = getattr(model, name)
        if name in strengths and isinstance(value, str) and value == "auto":
            continue
        if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not 0 <= value < math.inf:
            raise _no_number(name, value, "a number >= 0" + (", or 'auto'" if name in strengths else ""))


def check_callable(name: str, value: Any, wanted: str) -> None:
    """A function that is called to report progress; or None."""
    if value is not None and not callable(value):
        raise ModelError(f"{name} cannot be called", got=shown(value), wanted=wanted)


def one_of(name: str, value: Any, known: Sequence[str]) -> None:
    """A setting that takes one of some words."""
    if value not in known:
        raise _unknown(name, value, known)


def positive(name: str, value: Any) -> None:
    """A setting that takes a number above zero."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not 0 < value < math.inf:
        raise _no_number(name, value, "a number > 0")


def _unknown(name: str, value: Any, known: Sequence[str]) -> ModelError:
    return ModelError(f"unknown {name}", got=repr(value), wanted=" or ".join(map(repr, known)))


def _no_number(name: str, value: Any, wanted: str) -> ModelError:
    return ModelError(f"bad setting {name}", got=repr(value), wanted=wanted)


def templates_of(features: Features) -> TemplateFeatures:
    """The features of a model that reads text."""
    if not isinstance(features, TemplateFeatures):
        raise ModelError(
            "the model takes ready-made features, not text",
            got="a model without templates",
            wanted="a model with templates, such as CRF(features='ner')",
            cause="Score your features in Python, and decode the scores with bridle.Decoder or bridle.arrow.Decode.",
        )
    return features
