"""Plain features: a list of strings per token, or a dict with values, as CRFsuite takes them.

["w=the", "pos=DT"]                                    each with the value 1
{"w": "the", "title": True, "length": 3, "in": ["a"]}  w:the, title, length with the value 3, in:a
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, FeatureError, shown
from bridle.features.columns import Arrays, Encoded, Interned, numbers_of_kept, sequences_of
from bridle.frames import is_missing

LARGEST = 1e9  # of a value


class PlainFeatures:
    """Features that users make themselves, as numbers."""

    kind = "plain"
    bigram = True
    n_edges = None

    def __init__(self, cutoff: int = 1) -> None:
        self.cutoff = cutoff
        self._strings = Interned()

    def __len__(self) -> int:
        return len(self._strings)

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Take attributes that another system has numbered: 0, 1, ... in this order; each name once."""
        features = cls()
        features._strings.add(names)
        return features

    def fit(self, sequences: Sequence[Any]) -> Encoded:
        """Number everything that occurs; return the attributes of the tokens."""
        encoded = _encoded(sequences, self._strings.add)
        if self.cutoff <= 1:
            return encoded
        return self.keep(np.bincount(encoded.attrs, minlength=len(self)) >= self.cutoff, encoded)

    def keep(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other attributes; those that are kept get new numbers, in `encoded` too."""
        texts = self._strings.texts()
        self._strings = Interned()
        self._strings.add([texts[a] for a in np.flatnonzero(kept).tolist()])
        blank = Encoded(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32))
        return (encoded or blank).keep(numbers_of_kept(kept))

    def encode(self, sequences: Sequence[Any], errors: dict[int, BridleError] | None = None) -> Encoded:
        """Return the known attributes of the tokens. errors: takes those of single sequences."""
        encoded = _encoded(sequences, self._strings.find, errors)
        known = np.arange(len(self) + 1, dtype=np.int32)
        known[-1] = -1  # an unknown string has the number -1: the last place
        return encoded.keep(known)

    def encode_with_texts(
        self, sequences: Sequence[Any], errors: dict[int, BridleError] | None = None
    ) -> tuple[Encoded, None]:
        """Return the known attributes of the tokens; such tokens have no texts."""
        return self.encode(sequences, errors), None

    def key(self, x: Any) -> str:
        """Return the same text for sequences with the same features."""
        return repr([sorted(_pairs(token)) for token in x])

    def head(self) -> dict[str, Any]:
        """Return the part of a file's header."""
        return {"kind": self.kind, "cutoff": self.cutoff}

    def arrays(self) -> Arrays:
        """Return the arrays for a file."""
        return self._strings.arrays("strings.")

    @classmethod
    def restored(cls, head: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore from a file."""
        features = cls(int(head["cutoff"]))
        features._strings = Interned.restored("strings.", arrays)
        return features

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restored, (self.head(), self.arrays())

    def names(self) -> list[str]:
        """Return the name of each attribute."""
        return self._strings.texts()

    def named(self, attributes: npt.NDArray[np.integer]) -> list[str]:
        """Return the names of attributes."""
        texts = self._strings.texts()
        return [texts[a] for a in attributes.tolist()]


def _encoded(sequences: Sequence[Any], number: Any, errors: dict[int, BridleError] | None = None) -> Encoded:
    names: list[Any] = []
    numbers: list[float] = []
    offsets, indptr = [0], [0]
    for k, x in enumerate(sequences_of(sequences)):
        before = len(indptr), len(names)
        try:
            _read(x, names, numbers, indptr)
        except FeatureError as error:
            if errors is None:
                raise error.at(sequence=k) from None
            errors[k] = error
            del indptr[before[0] :], names[before[1] :], numbers[before[1] :]
        offsets.append(len(indptr) - 1)
    values = None if numbers.count(1.0) == len(numbers) else np.array(numbers, dtype=np.float64)
    return Encoded(np.array(offsets, dtype=np.int64), np.array(indptr, dtype=np.int64), number(names), values)


def _read(x: Any, names: list[str], numbers: list[float], indptr: list[int]) -> None:
    """Add the attributes of the tokens of a sequence; read all once, as another thread may change it meanwhile."""
    if isinstance(x, Mapping):
        raise FeatureError(
            "the model takes ready-made features, not text",
            got=f"the columns {', '.join(map(str, x))}" if x else "columns of text",
            wanted="a list of features per token",
            cause="Columns of text need templates: features='chunking', or your own. A model of CRFsuite has none: "
            "make features as for its training, and call predict in Python.",
        )
    if not hasattr(x, "__len__") or not isinstance(x, Iterable):
        raise _no_features("the sequence", x)
    for token in list(x):
        begin = len(names)
        if type(token) is list:
            names += token
            numbers += [1.0] * (len(names) - begin)
        else:
            for name, value in pairs_of(token):
                names.append(name)
                numbers.append(value)
        indptr.append(len(names))
        if set(map(type, names[begin:])) - {str}:  # bytes are names too
            names[begin:] = map(_text, names[begin:])
            for name in names[begin:]:
                if not isinstance(name, str):
                    raise FeatureError("a feature is not a string", got=shown(name), wanted="str")


def pairs_of(token: Any) -> list[tuple[str, float]]:
    """Return the attributes of a token with their values."""
    try:
        return list(_pairs(token))
    except RecursionError:
        raise FeatureError("features are nested too deeply", wanted="dicts in dicts, to an end") from None


def _text(name: Any) -> Any:
    """Decode bytes: those that are not UTF-8 as half characters, which no other text has."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def _pairs(token: Any) -> Iterator[tuple[str, float]]:
    if isinstance(token, Mapping):
        for name, value in list(token.items()):
            yield from _named(str(_text(name)), value)
    elif isinstance(token, Iterable) and not isinstance(token, (str, bytes)):
        for name in list(token):
            yield _text(name), 1.0
    else:
        raise _no_features("a token", token)


def _named(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, (str, bytes)):
        yield f"{name}:{_text(value)}", 1.0
    elif isinstance(value, (bool, np.bool_)):
        if value:
            yield name, 1.0
    elif isinstance(value, (int, float, np.integer, np.floating, Decimal, Real)):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            number = math.inf
        if not -LARGEST <= number <= LARGEST:  # nor nan
            raise FeatureError(
                f"the value of {name!r} is not a number to count with",
                got=str(number),
                wanted=f"a number from -{LARGEST:g} to {LARGEST:g}",
                cause="Scale it: features are best around 1.",
            )
        yield name, number
    elif isinstance(value, Mapping):
        for inner, deeper in list(value.items()):
            yield from _named(f"{name}:{_text(inner)}", deeper)
    elif isinstance(value, (list, tuple, set, frozenset)):
        texts = [_text(item) for item in list(value)]
        for text in texts:
            if not isinstance(text, str):
                raise FeatureError(f"a value in {name!r} is not a string", got=shown(text), wanted="a list of strings")
        for text in sorted(texts) if isinstance(value, (set, frozenset)) else texts:
            yield f"{name}:{text}", 1.0
    else:
        raise _no_features(f"the value of {name!r}", value)


def _no_features(what: str, got: Any) -> FeatureError:
    cause = "Text is not a feature: pass ['word=the'], or train a model with templates: features='chunking'."
    return FeatureError(
        f"{what} has no features",
        got=shown(got),
        wanted="a list of strings, or a dict of names and values, per token",
        cause="It is empty: leave it out." if is_missing(got) else cause,
    )
