"""Features from templates: strings are interned once, a feature is a number for the ids at its places, natively.

The vocabulary is frozen after `fit`: what was not seen in training has no number and no weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import FeatureError
from bridle.features.columns import columns_of, pack
from bridle.features.derived import AFTER, BEFORE, FIRST, NOTHING, OF_PLACE, OF_TEXT, OfTexts
from bridle.features.encoded import Encoded
from bridle.features.prepared import Fresh, Prepared
from bridle.features.strings import Arrays, Interned
from bridle.features.templates import Templates, split

Ids = npt.NDArray[np.int32]


class TemplateFeatures:
    """What templates say of tokens, as numbers."""

    kind = "templates"

    def __init__(self, templates: Templates, cutoff: int = 1, derived: Mapping[str, OfTexts] | None = None) -> None:
        """derived: columns that are derived from the text besides those of derived.py."""
        self.templates, self.cutoff = templates, cutoff
        self._functions = {**OF_TEXT, **(derived or {})}
        self._split = {column: split(column, templates.main, self._functions) for column in templates.columns}
        self._sources = tuple(dict.fromkeys(source for source, _ in self._split.values() if source is not None))
        self._strings: dict[str, Interned] = {}  # of sources and of columns derived from them
        self._derived: dict[str, Ids] = {}  # derived column -> (number of a source's string) -> id
        self._sizes: dict[str, int] = {}  # column -> ids that it may have
        self._attributes: _native.Attributes | None = None

    @property
    def bigram(self) -> bool:
        """Do the templates ask for label bigrams?"""
        return self.templates.bigram

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that sequences must have; derived ones are made from them."""
        return self._sources

    def __len__(self) -> int:
        return 0 if self._attributes is None else len(self._attributes)

    # ---- learning the vocabulary ------------------------------------------------------------------------------------

    def fit(self, sequences: Sequence[Any]) -> Encoded:
        """Number everything that occurs; the attributes of the tokens."""
        packed = pack(sequences, self._sources, self.templates.main)
        found: dict[str, Ids] = {}
        for source in self._sources:
            self._strings[source] = Interned()
            try:
                found[source] = self._strings[source].add(packed.texts[source])
            except FeatureError as error:
                raise packed.located(error) from None
        for column, (of, function) in self._split.items():
            if of is not None and function is not None:
                self._strings[column] = Interned()
                texts = list(dict.fromkeys(packed.texts[of]))  # numbers follow first appearance
                self._derived[column] = _derive(texts, self._functions[function], self._strings[column].add)
        self._attributes = self._blank()
        return self._cut(self._run(self._attributes.fit, Prepared(packed, found, {})))

    def _cut(self, encoded: Encoded) -> Encoded:
        """Leave out attributes that are seen fewer than `cutoff` times."""
        if self.cutoff <= 1:
            return encoded
        return self.keep(np.bincount(encoded.attrs, minlength=len(self)) >= self.cutoff, encoded)

    def keep(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other attributes; what is kept has new numbers, in `encoded` too."""
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        self._known.renumber(number, int(kept.sum()))
        blank = Encoded(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32))
        return (encoded or blank).keep(number)

    # ---- using it ---------------------------------------------------------------------------------------------------

    def encode(self, sequences: Sequence[Any], wanted: npt.NDArray[np.bool_] | None = None) -> Encoded:
        """The known attributes of the tokens. wanted (N): those of the other tokens are not asked for."""
        return self.encode_prepared(self.prepare(sequences), wanted)

    def prepare(self, sequences: Sequence[Any]) -> Prepared:
        """The texts of sequences, looked up once; for all features that share their strings."""
        if self._attributes is None:
            raise FeatureError("the features have no vocabulary yet", got="no call of fit", wanted="fit(X) first")
        packed = pack(sequences, self._sources, self.templates.main)
        try:
            numbers = {source: self._strings[source].find(packed.texts[source]) for source in self._sources}
        except FeatureError as error:
            raise packed.located(error) from None
        unseen = {source: ids for source, ids in numbers.items() if ids.min(initial=0) < 0}
        return Prepared(packed, numbers, {s: Fresh.of(ids, packed.texts[s]) for s, ids in unseen.items()})

    def encode_prepared(self, prepared: Prepared, wanted: npt.NDArray[np.bool_] | None = None) -> Encoded:
        """The known attributes of sequences that were prepared."""
        return self._run(self._known.encode, prepared, *(() if wanted is None else (wanted.view(np.uint8),)))

    def share(self, other: TemplateFeatures) -> bool:
        """Use the strings of other features if they are the same; then one of them can prepare for both."""
        if self._sources != other._sources:
            return False
        same = all(self._strings[s].same(other._strings[s]) for s in self._sources)
        if same:
            self._strings |= {s: other._strings[s] for s in self._sources}
        return same

    def encode_with_texts(self, sequences: Sequence[Any]) -> tuple[Encoded, list[str] | None]:
        """The attributes of the tokens, and the texts that rules may speak of, end to end."""
        prepared = self.prepare(sequences)
        texts = prepared.packed.texts.get(self.templates.main)
        if texts is None:  # no template speaks of it
            texts = [text for x in sequences for text in self.tokens(x)]
        assert self._attributes is not None  # otherwise nothing could be prepared
        return self._run(self._attributes.encode, prepared), texts

    def key(self, x: Any) -> str:
        """The same text for sequences with the same tokens."""
        return "\x1f".join(map(str, self.tokens(x)))

    def tokens(self, x: Any) -> Sequence[str]:
        """The texts of a sequence, for rules that speak of them."""
        main = self.templates.main
        return columns_of(x, (main,), main, 0)[main]

    @property
    def _known(self) -> _native.Attributes:
        if self._attributes is None:
            raise FeatureError("the features have no vocabulary yet", got="no call of fit", wanted="fit(X) first")
        return self._attributes

    def _blank(self) -> _native.Attributes:
        """Room for attributes, now that the strings are known."""
        for column, (source, function) in self._split.items():
            of_place = source is None and function is not None
            own = OF_PLACE[str(function)][1] if of_place else self._strings[column].native
            self._sizes[column] = FIRST + len(own)
        columns = list(self._split)
        places = [[(columns.index(p.column), p.offset) for p in t.places] for t in self.templates.lines]
        return _native.Attributes(places, list(self._sizes.values()))

    def _run(self, call: Callable[..., int], given: Prepared, *more: Any) -> Encoded:
        ids = self._ids(given)
        offsets = given.packed.offsets
        n = int(offsets[-1])
        indptr = np.empty(n + 1, dtype=np.int64)
        attrs = np.empty(max(n * len(self.templates.lines), 1), dtype=np.int32)
        written = call(ids, offsets, indptr, attrs, *more)
        short = attrs[:written]
        return Encoded(offsets, indptr, short.copy() if 2 * written < len(attrs) else short)

    def _ids(self, given: Prepared) -> list[Ids]:
        """(N) ids of the tokens, for each column."""
        found: list[Ids] = []
        for column, (source, function) in self._split.items():
            if source is None:
                found.append(OF_PLACE[str(function)][0](given.packed.offsets))
                continue
            numbers = given.numbers[source]
            if function is None:
                found.append(np.where(numbers >= 0, numbers + FIRST, NOTHING).astype(np.int32))
                continue
            table = self._derived[column]
            if (new := given.fresh.get(source)) is not None:
                more = _derive(new.texts, self._functions[function], self._strings[column].find)  # may be known
                numbers, table = new.numbered(numbers, len(table)), np.concatenate([table, more])
            found.append(table[numbers])
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        if self._functions.keys() != OF_TEXT.keys():
            raise TypeError("features with columns of their own cannot be copied; they have save and load")
        if self._attributes is None:
            return type(self), (self.templates, self.cutoff)
        return type(self).restored, (self.head(), self.arrays())

    # ---- files and people -------------------------------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """What a file's header keeps of it."""
        return {"kind": self.kind, "templates": str(self.templates).splitlines(), "cutoff": self.cutoff}

    def arrays(self) -> Arrays:
        """What a file keeps of it besides."""
        out: Arrays = {}
        for name, strings in self._strings.items():
            out |= strings.arrays(f"strings.{name}.")
        out |= {f"derived.{name}": ids for name, ids in self._derived.items()}
        of, key = np.empty(len(self), dtype=np.int32), np.empty(len(self), dtype=np.uint64)
        self._known.list(of, key)
        return out | {"attributes.template": of, "attributes.key": key}

    @classmethod
    def restored(cls, head: Mapping[str, Any], arrays: Arrays, derived: Mapping[str, OfTexts] | None = None) -> Self:
        """The way back; arrays that do not fit together raise FeatureError or KeyError."""
        made = cls(Templates.parse(list(head["templates"])), int(head["cutoff"]), derived)
        for source in made._sources:
            made._strings[source] = Interned.restored(f"strings.{source}.", arrays)
        for column, (of, function) in made._split.items():
            if of is not None and function is not None:
                made._strings[column] = Interned.restored(f"strings.{column}.", arrays)
                table: Any = np.ascontiguousarray(arrays[f"derived.{column}"])
                size = FIRST + len(made._strings[column].native)
                fits = table.dtype == np.int32 and table.shape == (len(made._strings[of].native),)
                if not fits or (table.size and not 0 <= table.min() <= table.max() < size):
                    raise FeatureError(f"the column {column!r} does not fit its strings")
                made._derived[column] = table
        made._attributes = made._blank()
        lines: Any = np.ascontiguousarray(arrays["attributes.template"])
        keys: Any = np.ascontiguousarray(arrays["attributes.key"])
        fits = lines.dtype == np.int32 and keys.dtype == np.uint64 and lines.shape == keys.shape and lines.ndim == 1
        if not fits or not made._attributes.put(lines, keys):
            raise FeatureError("the attributes do not fit the templates")
        return made

    def names(self) -> list[str]:
        """What people call each attribute: `word[-1]|word[0]=in|the`."""
        of, key = np.empty(len(self), dtype=np.int32), np.empty(len(self), dtype=np.uint64)
        self._known.list(of, key)
        texts = {column: self._texts(column) for column in self._split}
        out = [""] * len(self)
        for k, template in enumerate(self.templates.lines):
            columns = [texts[place.column] for place in template.places]
            exact = np.prod([float(len(column)) for column in columns]) < 2.0**64
            for a in np.flatnonzero(of == k).tolist():
                left, values = int(key[a]), []
                for column in reversed(columns):
                    left, number = divmod(left, len(column))
                    values.append(column[number])
                shown = "|".join(reversed(values)) if exact else f"#{int(key[a]):x}"
                out[a] = f"{'|'.join(map(str, template.places))}={shown}"
        return out

    def _texts(self, column: str) -> list[str]:
        source, function = self._split[column]
        own = OF_PLACE[str(function)][1] if source is None else self._strings[column].texts()
        special = {NOTHING: "", BEFORE: "<s>", AFTER: "</s>"}
        return [*(special[k] for k in range(FIRST)), *own]


def _derive(texts: Sequence[str], function: OfTexts, number: Callable[[Sequence[str]], Ids]) -> Ids:
    """The id of what the function makes of each text; nothing where it says nothing or nobody knows it."""
    made = function(texts)
    if not made:
        return np.zeros(0, dtype=np.int32)
    says = np.fromiter(map(bool, made), dtype=bool, count=len(made))
    ids = np.zeros(len(made), dtype=np.int32)
    numbers = number([text for text in made if text])
    ids[says] = np.where(numbers >= 0, numbers + FIRST, NOTHING)
    return ids
