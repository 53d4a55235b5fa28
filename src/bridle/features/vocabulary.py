"""Features from templates: strings are interned once, a feature is a number for the ids at its places, natively.

The vocabulary is frozen after `fit`: what was not seen in training has no number and no weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import BridleError, FeatureError
from bridle.features.columns import Packed, columns_of, names_in, pack, sequences_of
from bridle.features.derived import AFTER, BEFORE, FIRST, NOTHING, OF_PLACE, OF_TEXT, OfTexts
from bridle.features.encoded import EdgeAttributes, Encoded
from bridle.features.lists import VALUES, ListColumn, arrays_of, restored_lists
from bridle.features.prepared import Fresh, Prepared
from bridle.features.strings import Arrays, Interned
from bridle.features.templates import Template, Templates, split
from bridle.features.unseen import Derive, UnseenTexts
from bridle.phrases import PhraseList

Ids = npt.NDArray[np.int32]


class TemplateFeatures:
    """What templates say of tokens, as numbers."""

    kind = "templates"

    def __init__(
        self,
        templates: Templates,
        cutoff: int = 1,
        derived: Mapping[str, OfTexts] | None = None,
        lists: Mapping[str, PhraseList] | None = None,
    ) -> None:
        """derived: columns that are derived from the text besides those of derived.py; lists: of phrases, by name."""
        self.templates, self.cutoff, self.lists = templates, cutoff, dict(lists or {})
        self._functions = {**OF_TEXT, **(derived or {})}
        self._split = templates.parts
        if derived:
            self._split = {column: split(column, templates.main, self._functions) for column in templates.columns}
        # the columns that sequences must have; derived ones are made from them
        self.sources = tuple(dict.fromkeys(source for source, _ in self._split.values() if source is not None))
        self._lists = {c: ListColumn(f, self.lists) for c, (_, f) in self._split.items() if f and ":" in f}
        self._strings: dict[str, Interned] = {}  # of sources and of columns derived from them
        self._derived: dict[str, Ids] = {}  # derived column -> (number of a source's string) -> id, or word of a list
        self._sizes: dict[str, int] = {}  # column -> ids that it may have
        self._unseen: dict[str, UnseenTexts] = {}  # source -> what derived columns say of texts without a number
        self._attributes: _native.Attributes | None = None
        self._edges: _native.Attributes | None = None  # of templates with label[-1] beside other places

    @property
    def bigram(self) -> bool:
        """Do the templates ask for label bigrams?"""
        return self.templates.bigram

    @property
    def main(self) -> str:
        """The column that holds the texts of tokens, where nothing else is said."""
        main = self.templates.main
        return main if main in self.sources or not self.sources else self.sources[0]

    @property
    def vocabulary(self) -> Interned:
        """The texts of the main column that training has seen."""
        return self._strings.get(self.main, Interned())

    def __len__(self) -> int:
        return 0 if self._attributes is None else len(self._attributes)

    @property
    def n_edges(self) -> int | None:
        """Attributes of templates with label[-1] beside other places; None: there are no such templates."""
        return None if not self.templates.edges else 0 if self._edges is None else len(self._edges)

    # ---- learning the vocabulary ------------------------------------------------------------------------------------

    def fit(self, sequences: Sequence[Any]) -> Encoded:
        """Number everything that occurs; the attributes of the tokens."""
        sequences = sequences_of(sequences)
        if len(sequences) and (names := names_in(sequences[0])) is not None:  # others that lack a column: a fault of X
            self.templates.check_columns(names or [self.templates.main], self._functions)
        packed = pack(sequences, self.sources, self.templates.main)
        found: dict[str, Ids] = {}
        for source in self.sources:
            self._strings[source] = Interned()
            found[source] = self._strings[source].add(packed.texts[source])
        for column, (of, function) in self._split.items():
            if column in self._lists:
                self._derived[column] = self._lists[column].words(self._strings[str(of)].texts())
            elif of is not None and function is not None:
                self._strings[column] = Interned()
                texts = list(dict.fromkeys(packed.texts[of]))  # numbers follow first appearance
                self._derived[column] = _derive(texts, self._functions[function], self._strings[column].add)
        self._attributes, self._edges = self._blank()
        return self._cut_edges(self._cut(self._run("fit", Prepared(packed, found, {}))))

    def _cut(self, encoded: Encoded) -> Encoded:
        """Leave out attributes that are seen fewer than `cutoff` times."""
        if self.cutoff <= 1:
            return encoded
        return self.keep(np.bincount(encoded.attrs, minlength=len(self)) >= self.cutoff, encoded)

    def keep(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other attributes; what is kept has new numbers, in `encoded` too."""
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        self._known.renumber(number, int(kept.sum()))
        return (encoded or _NOBODY).keep(number)

    def _cut_edges(self, encoded: Encoded) -> Encoded:
        """The same for attributes of edges."""
        edges = encoded.edges
        if self.cutoff <= 1 or edges is None:
            return encoded
        return self.keep_edges(np.bincount(edges.attrs, minlength=edges.size) >= self.cutoff, encoded)

    def keep_edges(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """The same for attributes of edges."""
        assert self._edges is not None
        number, size = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32), int(kept.sum())
        self._edges.renumber(number, size)
        if encoded is None or encoded.edges is None:
            return _NOBODY
        return replace(encoded, edges=encoded.edges.keep(number, size))

    # ---- using it ---------------------------------------------------------------------------------------------------

    def encode(self, sequences: Sequence[Any], wanted: npt.NDArray[np.bool_] | None = None) -> Encoded:
        """The known attributes of the tokens. wanted (N): those of the other tokens are not asked for."""
        return self.encode_prepared(self.prepare(sequences), wanted)

    def prepare(self, sequences: Sequence[Any], errors: dict[int, BridleError] | None = None) -> Prepared:
        """The texts of sequences, looked up once; for all features that share their strings. errors: as in `pack`."""
        if self._attributes is None:
            raise FeatureError("the features have no vocabulary yet", got="no call of fit", wanted="fit(X) first")
        packed = pack(sequences, self.sources, self.templates.main, errors)
        numbers = {source: self._strings[source].find(packed.texts[source]) for source in self.sources}
        unseen = {source: ids for source, ids in numbers.items() if ids.min(initial=0) < 0}
        return Prepared(packed, numbers, {s: Fresh.of(ids, packed.texts[s]) for s, ids in unseen.items()})

    def encode_prepared(self, prepared: Prepared, wanted: npt.NDArray[np.bool_] | None = None) -> Encoded:
        """The known attributes of sequences that were prepared."""
        return self._run("encode", prepared, None if wanted is None else wanted.view(np.uint8))

    def share(self, other: TemplateFeatures) -> bool:
        """Use the strings of other features if they are the same; then one of them can prepare for both."""
        if self.sources != other.sources:
            return False
        same = all(self._strings[s].same(other._strings[s]) for s in self.sources)
        if same:
            self._strings |= {s: other._strings[s] for s in self.sources}
        return same

    def encode_with_texts(
        self, sequences: Sequence[Any], errors: dict[int, BridleError] | None = None
    ) -> tuple[Encoded, Sequence[str] | None]:
        """The attributes of the tokens, and the texts that rules may refer to, end to end.

        errors: takes what is wrong with single sequences; those of a `Packed` are all right.
        """
        prepared = self.prepare(sequences, errors)
        texts = prepared.packed.texts.get(self.templates.main)
        if texts is None and not isinstance(sequences, Packed):  # no template speaks of it
            texts = self._other_tokens(sequences, prepared.packed, errors)
        return self._run("encode", prepared), texts

    def _other_tokens(
        self, sequences: Sequence[Any], packed: Packed, errors: dict[int, BridleError] | None
    ) -> list[str]:
        """The texts of sequences of which no template looks at the texts."""
        texts: list[str] = []
        for k, (x, n) in enumerate(zip(sequences, np.diff(packed.offsets).tolist(), strict=True)):
            try:
                texts += self.tokens(x) if n else ()
            except FeatureError as error:
                if errors is None:
                    raise error.at(sequence=k) from None
                errors.setdefault(k, error)
                texts += [""] * n
        return texts

    def key(self, x: Any) -> str:
        """The same text for sequences with the same tokens."""
        return "\x1f".join(map(str, self.tokens(x)))

    def tokens(self, x: Any) -> Sequence[str]:
        """The texts of a sequence, for rules that refer to them."""
        main = self.templates.main
        return columns_of(x, (main,), main, 0)[main]

    @property
    def _known(self) -> _native.Attributes:
        if self._attributes is None:
            raise FeatureError("the features have no vocabulary yet", got="no call of fit", wanted="fit(X) first")
        return self._attributes

    def _blank(self) -> tuple[_native.Attributes, _native.Attributes | None]:
        """Room for attributes, now that the strings are known."""
        for column, (source, function) in self._split.items():
            of_place = source is None and function is not None
            names = VALUES if column in self._lists else OF_PLACE[str(function)][1] if of_place else None
            self._sizes[column] = FIRST + len(self._strings[column].native if names is None else names)
        self._unseen = {}
        columns = list(self._split)
        sizes = list(self._sizes.values())
        plain, edges = (
            _native.Attributes([[(columns.index(p.column), p.offset) for p in t.places] for t in templates], sizes)
            for templates in (self.templates.lines, self.templates.edges)
        )
        return plain, edges if self.templates.edges else None

    def _unseen_of(self, source: str) -> UnseenTexts:
        """What the columns that are derived from a source say of texts that are not among its strings."""
        native: dict[str, tuple[str, Interned]] = {}
        derive: dict[str, Derive] = {}
        for column, (of, function) in self._split.items():
            if of != source or function is None:
                continue
            if column in self._lists:
                derive[column] = self._lists[column].words
                continue
            derive[column] = partial(_derive, function=self._functions[function], number=self._strings[column].find)
            if self._functions[function] is OF_TEXT.get(function):  # not a function of the user with its name
                native[column] = function, self._strings[column]
        return UnseenTexts(native, derive)

    def _run(
        self, call: Literal["fit", "encode"], given: Prepared, wanted: npt.NDArray[np.uint8] | None = None
    ) -> Encoded:
        """The attributes of tokens, by a method of the kernel; wanted (N): those of other tokens are left out."""
        ids, offsets, lines = self._ids(given), given.packed.offsets, len(self.templates.lines)
        encoded = Encoded(offsets, *_rows(getattr(self._attributes, call), ids, offsets, lines, wanted))
        if self._edges is None:
            return encoded
        inside = np.ones(encoded.n_tokens + 1, dtype=np.uint8)
        inside[offsets[:-1]] = 0  # the first token of a sequence has no label before it
        indptr, attrs = _rows(getattr(self._edges, call), ids, offsets, len(self.templates.edges), inside[:-1])
        return replace(encoded, edges=EdgeAttributes(indptr, attrs, len(self._edges)))

    def _ids(self, given: Prepared) -> list[Ids]:
        """(N) ids of the tokens, for each column."""
        found: list[Ids] = []
        unseen: dict[str, Mapping[str, Ids]] = {}  # source -> derived column -> what it says of fresh texts
        for column, (source, function) in self._split.items():
            if source is None:
                found.append(OF_PLACE[str(function)][0](given.packed.offsets))
                continue
            numbers = given.numbers[source]
            if function is None:
                found.append(np.where(numbers >= 0, numbers + FIRST, NOTHING).astype(np.int32))
                continue
            if source not in unseen and source in given.fresh:
                if source not in self._unseen:
                    self._unseen.setdefault(source, self._unseen_of(source))
                unseen[source] = self._unseen[source].of(given.fresh[source].texts)
            table = self._derived[column] if len(self._derived[column]) else np.zeros(1, dtype=np.int32)
            ids = table[numbers]  # whatever stands for -1
            if (new := given.fresh.get(source)) is not None:
                ids[new.at] = unseen[source][column][new.which]
            found.append(ids if column not in self._lists else self._lists[column].ids(ids, given.packed.offsets))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        if self._functions.keys() != OF_TEXT.keys():
            raise TypeError("features with columns of their own cannot be copied; they have save and load")
        if self._attributes is None:
            return type(self), (self.templates, self.cutoff, None, self.lists)
        return type(self).restored, (self.head(), self.arrays())

    # ---- files and people -------------------------------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """What a file's header keeps of it."""
        lists = {"lists": list(self.lists)} if self.lists else {}
        return {"kind": self.kind, "templates": str(self.templates).splitlines(), "cutoff": self.cutoff, **lists}

    def arrays(self) -> Arrays:
        """What a file keeps of it besides."""
        out: Arrays = {}
        for name, strings in self._strings.items():
            out |= strings.arrays(f"strings.{name}.")
        out |= {f"derived.{name}": ids for name, ids in self._derived.items() if name not in self._lists}
        out |= arrays_of(self.lists)
        for name, attributes in (("attributes", self._known), ("edges", self._edges)):
            if attributes is not None:
                of, key = _listed(attributes)
                out |= {f"{name}.template": of, f"{name}.key": key}
        return out

    @classmethod
    def restored(cls, head: Mapping[str, Any], arrays: Arrays, derived: Mapping[str, OfTexts] | None = None) -> Self:
        """The way back; arrays that do not fit together raise FeatureError or KeyError."""
        lists = restored_lists(head["lists"], arrays) if "lists" in head else None
        made = cls(Templates.parse(list(head["templates"])), int(head["cutoff"]), derived, lists)
        for source in made.sources:
            made._strings[source] = Interned.restored(f"strings.{source}.", arrays)
        for column, (of, function) in made._split.items():
            if column in made._lists:
                made._derived[column] = made._lists[column].words(made._strings[str(of)].texts())
            elif of is not None and function is not None:
                made._strings[column] = Interned.restored(f"strings.{column}.", arrays)
                table: Any = np.ascontiguousarray(arrays[f"derived.{column}"])
                size = FIRST + len(made._strings[column].native)
                fits = table.dtype == np.int32 and table.shape == (len(made._strings[of].native),)
                if not fits or (table.size and not 0 <= table.min() <= table.max() < size):
                    raise FeatureError(f"the column {column!r} does not fit its strings")
                made._derived[column] = table
        made._attributes, made._edges = made._blank()
        for name, attributes in (("attributes", made._attributes), ("edges", made._edges)):
            if attributes is None:
                continue
            lines: Any = np.ascontiguousarray(arrays[f"{name}.template"])
            keys: Any = np.ascontiguousarray(arrays[f"{name}.key"])
            fits = lines.dtype == np.int32 and keys.dtype == np.uint64 and lines.shape == keys.shape and lines.ndim == 1
            if not fits or not attributes.put(lines, keys):
                raise FeatureError(f"the {name} do not fit the templates")
        return made

    def names(self) -> list[str]:
        """What people call each attribute: `word[-1]|word[0]=in|the`."""
        return self.named(np.arange(len(self)))

    def named(self, attributes: npt.NDArray[np.integer]) -> list[str]:
        """What people call some attributes."""
        return ["=".join(name) for name in self._named(self._known, self.templates.lines, attributes)]

    def edge_names(self, attributes: npt.NDArray[np.integer]) -> list[tuple[str, str]]:
        """The places of some attributes of edges, and their values: `word[-1]|word[0]`, `in|the`."""
        return [] if self._edges is None else self._named(self._edges, self.templates.edges, attributes)

    def _named(
        self, known: _native.Attributes, templates: Sequence[Template], attributes: npt.NDArray[np.integer]
    ) -> list[tuple[str, str]]:
        """The places and the values of some attributes."""
        of, key = _listed(known)
        texts = {column: self._texts(column) for column in self._split}
        out: dict[int, tuple[str, str]] = {}
        for k, template in enumerate(templates):
            columns = [texts[place.column] for place in template.places]
            exact = np.prod([float(len(column)) for column in columns]) < 2.0**64
            for a in attributes[of[attributes] == k].tolist():
                left, values = int(key[a]), []
                for column in reversed(columns):
                    left, number = divmod(left, len(column))
                    values.append(column[number])
                shown = "|".join(reversed(values)) if exact else f"#{int(key[a]):x}"
                out[a] = "|".join(map(str, template.places)), shown
        return [out[a] for a in attributes.tolist()]

    def _texts(self, column: str) -> list[str]:
        source, function = self._split[column]
        of_place = OF_PLACE[str(function)][1] if source is None else None
        own = of_place or (VALUES if column in self._lists else self._strings[column].texts())
        special = {NOTHING: "", BEFORE: "<s>", AFTER: "</s>"}
        return [*(special[k] for k in range(FIRST)), *own]


_NOBODY = Encoded(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32))  # no sequences


def _rows(
    call: Callable[..., int],
    ids: list[Ids],
    offsets: npt.NDArray[np.int64],
    n_templates: int,
    wanted: npt.NDArray[np.uint8] | None,
) -> tuple[npt.NDArray[np.int64], Ids]:
    """Attributes of all tokens, row by row: indptr (N + 1), and their numbers."""
    n = int(offsets[-1])
    indptr = np.empty(n + 1, dtype=np.int64)
    attrs = np.empty(max(n * n_templates, 1), dtype=np.int32)
    written = call(ids, offsets, indptr, attrs, wanted)
    short = attrs[:written]
    return indptr, short.copy() if 2 * written < len(attrs) else short


def _listed(attributes: _native.Attributes) -> tuple[Ids, npt.NDArray[np.uint64]]:
    """The template and the key of each attribute."""
    of, key = np.empty(len(attributes), dtype=np.int32), np.empty(len(attributes), dtype=np.uint64)
    attributes.list(of, key)
    return of, key


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
