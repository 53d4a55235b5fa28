"""Features from templates: strings are interned once, a feature is a number for the ids at its places, natively.

The vocabulary is frozen after `fit`: a feature that was not seen in training has no number and no weight. Texts that
training has not seen still have derived columns: the kernels do the functions of derived.py for most text in Latin
script, Python does the rest, and remembers it, since words that are new to a model come again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import BridleError, FeatureError
from bridle.features.columns import (
    Arrays,
    EdgeAttributes,
    Encoded,
    Ids,
    Interned,
    Packed,
    columns_of,
    names_in,
    numbers_of_kept,
    pack,
    sequences_of,
    texts_of,
)
from bridle.features.derived import (
    AFTER,
    BEFORE,
    FIRST,
    NOTHING,
    OF_PLACE,
    OF_TEXT,
    VALUES,
    ListColumn,
    OfTexts,
    arrays_of,
    restored_lists,
)
from bridle.features.templates import Template, Templates, split
from bridle.phrases import PhraseList
from bridle.recent import RecentCache
from bridle.texts import Texts

Derive = Callable[[Sequence[str]], Ids]  # the ids of a column for texts

MOST_BYTES = 1 << 25  # that the rows of one source may take
LONGEST = 256  # characters of a text that is remembered
OVERHEAD = 200  # bytes of an entry besides its text and its row, roughly
_NO_SEQUENCES = Encoded(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32))


# ---- texts that were looked up --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sequences whose texts were looked up."""

    packed: Packed
    sources: Mapping[str, tuple[Texts, Ids]]  # by name: (N) texts, and their numbers; -1: never seen


class DerivedTexts:
    """The columns that Python derives from texts without a number; those of recent texts are kept."""

    def __init__(self, derive: Sequence[Derive]) -> None:
        self.derive = derive
        self.known = RecentCache(MOST_BYTES // OVERHEAD, MOST_BYTES)  # text -> bytes of an id per column

    def of(self, texts: list[str]) -> Ids:
        """(U, columns) return the ids of texts, or their numbers as words of a list."""
        rows = [self.known.get(text) for text in texts]
        new = [k for k, row in enumerate(rows) if row is None]
        if new:
            derived = [ids([texts[k] for k in new]) for ids in self.derive]
            for k, row in zip(new, np.stack(derived, axis=1), strict=True):
                rows[k] = row.tobytes()
                if len(texts[k]) <= LONGEST:
                    self.known.keep(texts[k], rows[k], 4 * len(texts[k]) + len(rows[k]) + OVERHEAD)
        return np.frombuffer(b"".join(rows), dtype=np.int32).reshape(len(texts), len(self.derive))


# ---- features -------------------------------------------------------------------------------------------------------


class TemplateFeatures:
    """Attributes of tokens by templates, as numbers."""

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
        self._columns: _native.TokenColumns | None = None
        self._python: list[tuple[str, list[int], DerivedTexts]] | None = None  # made when texts are left to Python
        self._attributes: _native.Attributes | None = None
        self._edges: _native.Attributes | None = None  # of templates with label[-1] beside other places

    @property
    def bigram(self) -> bool:
        """True if the templates ask for label bigrams."""
        return self.templates.bigram

    @property
    def main(self) -> str:
        """The column that holds the texts of tokens, unless sequences say otherwise."""
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
        """Number everything that occurs; return the attributes of the tokens."""
        sequences = sequences_of(sequences)
        if len(sequences) and (names := names_in(sequences[0])) is not None:  # others that lack a column: a fault of X
            self.templates.check_columns(names or [self.templates.main], self._functions)
        packed = pack(sequences, self.sources, self.templates.main)
        looked_up: dict[str, tuple[Texts, Ids]] = {}
        for source in self.sources:
            self._strings[source], texts = Interned(), texts_of(packed.texts[source])
            looked_up[source] = texts, self._strings[source].add(texts)
        for column, (of, function) in self._split.items():
            if column in self._lists:
                self._derived[column] = self._lists[column].words(self._strings[str(of)].texts())
            elif of is not None and function is not None:
                self._strings[column] = Interned()
                values = list(dict.fromkeys(packed.texts[of]))  # numbers follow first appearance
                self._derived[column] = _derive(values, self._functions[function], self._strings[column].add)
        self._attributes, self._edges = self._blank()
        encoded = self._run("fit", Prepared(packed, looked_up))
        if self.cutoff > 1:
            encoded = self.keep(np.bincount(encoded.attrs, minlength=len(self)) >= self.cutoff, encoded)
            if (edges := encoded.edges) is not None:
                encoded = self.keep_edges(np.bincount(edges.attrs, minlength=edges.size) >= self.cutoff, encoded)
        return encoded

    def keep(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other attributes; those that are kept get new numbers, in `encoded` too."""
        number = numbers_of_kept(kept)
        self._known.renumber(number, int(kept.sum()))
        return (encoded or _NO_SEQUENCES).keep(number)

    def keep_edges(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other attributes of edges, as `keep` does with the others."""
        assert self._edges is not None
        number, size = numbers_of_kept(kept), int(kept.sum())
        self._edges.renumber(number, size)
        if encoded is None or encoded.edges is None:
            return _NO_SEQUENCES
        return replace(encoded, edges=encoded.edges.keep(number, size))

    # ---- using it ---------------------------------------------------------------------------------------------------

    def encode(self, sequences: Sequence[Any]) -> Encoded:
        """Return the known attributes of the tokens."""
        return self.encode_prepared(self.prepare(sequences))

    def prepare(self, sequences: Sequence[Any], errors: dict[int, BridleError] | None = None) -> Prepared:
        """Look the texts of sequences up, once for all features that share their strings. errors: as in `pack`."""
        if self._attributes is None:
            raise _not_fitted()
        if isinstance(sequences, Packed) and sequences.texts.keys() >= set(self.sources):
            packed = sequences
        else:
            packed = pack(sequences, self.sources, self.templates.main, errors)
        return Prepared(
            packed, {source: self._strings[source].look_up(packed.texts[source]) for source in self.sources}
        )

    def encode_prepared(self, prepared: Prepared, wanted: npt.NDArray[np.bool_] | None = None) -> Encoded:
        """Return the known attributes of prepared sequences. wanted (N): only those of some tokens."""
        return self._run("encode", prepared, None if wanted is None else wanted.view(np.uint8))

    def share(self, other: TemplateFeatures) -> bool:
        """Use the strings of other features if they are the same: then one can prepare for both. Return True if so."""
        if self.sources != other.sources:
            return False
        same = all(self._strings[s].same(other._strings[s]) for s in self.sources)
        if same:
            self._strings |= {s: other._strings[s] for s in self.sources}
        return same

    def encode_with_texts(
        self, sequences: Sequence[Any], errors: dict[int, BridleError] | None = None
    ) -> tuple[Encoded, Sequence[str] | None]:
        """Return the attributes of the tokens, and the texts that rules may refer to, end to end.

        errors: takes those of single sequences; a `Packed` has none.
        """
        prepared = self.prepare(sequences, errors)
        texts = prepared.packed.texts.get(self.templates.main)
        if texts is None and not isinstance(sequences, Packed):  # no template speaks of it
            texts = self._other_tokens(sequences, prepared.packed, errors)
        return self._run("encode", prepared), texts

    def _other_tokens(
        self, sequences: Sequence[Any], packed: Packed, errors: dict[int, BridleError] | None
    ) -> list[str]:
        """Return the texts of sequences if no template looks at them."""
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
        """Return the same text for sequences with the same tokens."""
        return "\x1f".join(map(str, self.tokens(x)))

    def tokens(self, x: Any) -> Sequence[str]:
        """Return the texts of a sequence, for rules that refer to them."""
        main = self.templates.main
        return columns_of(x, (main,), main, 0)[main]

    @property
    def _known(self) -> _native.Attributes:
        if self._attributes is None:
            raise _not_fitted()
        return self._attributes

    def _blank(self) -> tuple[_native.Attributes, _native.Attributes | None]:
        """Make tables for attributes, now that the strings are known."""
        read: list[
            tuple[int, str, Ids | None, _native.Strings | None]
        ] = []  # by kernels: source, function, ids, values
        for column, (source, function) in self._split.items():
            names = VALUES if column in self._lists else OF_PLACE[str(function)] if source is None else None
            self._sizes[column] = FIRST + len(self._strings[column].native if names is None else names)
            at = -1 if source is None or column in self._lists else self.sources.index(source)
            if at < 0 or function is None:
                read.append((at, function or "", None, None))
            else:  # not a function of the user with the name of another one
                known = function if self._functions[function] is OF_TEXT.get(function) else ""
                read.append((at, known, self._derived[column], self._strings[column].native))
        self._columns, self._python = _native.TokenColumns(read), None
        columns, sizes = list(self._split), list(self._sizes.values())
        plain, edges = (
            _native.Attributes([[(columns.index(p.column), p.offset) for p in t.places] for t in templates], sizes)
            for templates in (self.templates.lines, self.templates.edges)
        )
        return plain, edges if self.templates.edges else None

    def _left_to_python(self) -> list[tuple[str, list[int], DerivedTexts]]:
        """Group the derived columns of each source: those that kernels derive from most texts, and the others."""
        groups: dict[tuple[str, bool], dict[int, Derive]] = {}
        for k, (column, (source, function)) in enumerate(self._split.items()):
            if source is None or function is None:
                continue
            if column in self._lists:
                groups.setdefault((source, False), {})[k] = self._lists[column].words
                continue
            derive = partial(_derive, function=self._functions[function], number=self._strings[column].find)
            known = self._functions[function] is OF_TEXT.get(function)
            groups.setdefault((source, known), {})[k] = derive
        return [(source, list(derive), DerivedTexts(list(derive.values()))) for (source, _), derive in groups.items()]

    def _run(
        self, call: Literal["fit", "encode"], given: Prepared, wanted: npt.NDArray[np.uint8] | None = None
    ) -> Encoded:
        """Compute the attributes of tokens by a method of the kernel; wanted (N): only those of some tokens."""
        ids, offsets, lines = self._ids(given), given.packed.offsets, len(self.templates.lines)
        encoded = Encoded(offsets, *_rows(getattr(self._attributes, call), ids, offsets, lines, wanted))
        if self._edges is None:
            return encoded
        inside = np.ones(encoded.n_tokens + 1, dtype=np.uint8)
        inside[offsets[:-1]] = 0  # the first token of a sequence has no label before it
        indptr, attrs = _rows(getattr(self._edges, call), ids, offsets, len(self.templates.edges), inside[:-1])
        return replace(encoded, edges=EdgeAttributes(indptr, attrs, len(self._edges)))

    def _ids(self, given: Prepared) -> Ids:
        """(columns, N) compute the ids of the tokens."""
        offsets = given.packed.offsets
        out = np.empty((len(self._split), int(offsets[-1])), dtype=np.int32)
        assert self._columns is not None
        sources = [(texts.data, texts.offsets, numbers) for texts, numbers in given.sources.values()]
        left = self._columns.ids(sources, offsets, out)
        if not left and not self._lists:
            return out
        rows = dict(zip(self._split, out, strict=True))
        for column in self._lists:
            _, numbers = given.sources[str(self._split[column][0])]
            rows[column][:] = np.append(self._derived[column], np.int32(-1))[numbers]
        self._python = self._left_to_python() if self._python is None else self._python
        for source, group, derived in self._python:
            texts, numbers = given.sources[source]
            at = np.flatnonzero((numbers < 0) & (out[group[0]] < 0))
            if len(at):
                distinct, which = texts.distinct(at)
                out[np.array(group)[:, None], at] = derived.of(distinct.tolist())[which].T
        for column, of_list in self._lists.items():
            rows[column][:] = of_list.ids(rows[column], offsets)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        if self._functions.keys() != OF_TEXT.keys():
            raise TypeError("features with columns of their own cannot be copied; they have save and load")
        if self._attributes is None:
            return type(self), (self.templates, self.cutoff, None, self.lists)
        return type(self).restored, (self.head(), self.arrays())

    # ---- files and people -------------------------------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """Return the part of a file's header."""
        lists = {"lists": list(self.lists)} if self.lists else {}
        return {"kind": self.kind, "templates": str(self.templates).splitlines(), "cutoff": self.cutoff, **lists}

    def arrays(self) -> Arrays:
        """Return the arrays for a file."""
        out: Arrays = {}
        for name, strings in self._strings.items():
            out |= strings.arrays(f"strings.{name}.")
        out |= {f"derived.{name}": ids for name, ids in self._derived.items() if name not in self._lists}
        out |= arrays_of(self.lists)
        for name, attributes in (("attributes", self._known), ("edges", self._edges)):
            if attributes is not None:
                of, key = listed(attributes)
                out |= {f"{name}.template": of, f"{name}.key": key}
        return out

    @classmethod
    def restored(cls, head: Mapping[str, Any], arrays: Arrays, derived: Mapping[str, OfTexts] | None = None) -> Self:
        """Restore from a file; raise FeatureError or KeyError if arrays do not fit together."""
        lists = restored_lists(head["lists"], arrays) if "lists" in head else None
        features = cls(Templates.parse(list(head["templates"])), int(head["cutoff"]), derived, lists)
        for source in features.sources:
            features._strings[source] = Interned.restored(f"strings.{source}.", arrays)
        for column, (of, function) in features._split.items():
            if column in features._lists:
                features._derived[column] = features._lists[column].words(features._strings[str(of)].texts())
            elif of is not None and function is not None:
                features._strings[column] = Interned.restored(f"strings.{column}.", arrays)
                table: Any = np.ascontiguousarray(arrays[f"derived.{column}"])
                size = FIRST + len(features._strings[column].native)
                fits = table.dtype == np.int32 and table.shape == (len(features._strings[of].native),)
                if not fits or (table.size and not 0 <= table.min() <= table.max() < size):
                    raise FeatureError(f"the column {column!r} does not fit its strings")
                features._derived[column] = table
        features._attributes, features._edges = features._blank()
        for name, attributes in (("attributes", features._attributes), ("edges", features._edges)):
            if attributes is None:
                continue
            lines: Any = np.ascontiguousarray(arrays[f"{name}.template"])
            keys: Any = np.ascontiguousarray(arrays[f"{name}.key"])
            fits = lines.dtype == np.int32 and keys.dtype == np.uint64 and lines.shape == keys.shape and lines.ndim == 1
            if not fits or not attributes.put(lines, keys):
                raise FeatureError(f"the {name} do not fit the templates")
        return features

    def names(self) -> list[str]:
        """Return the name of each attribute: `word[-1]|word[0]=in|the`."""
        return self.named(np.arange(len(self)))

    def named(self, attributes: npt.NDArray[np.integer]) -> list[str]:
        """Return the names of attributes."""
        return ["=".join(name) for name in self._named(self._known, self.templates.lines, attributes)]

    def edge_names(self, attributes: npt.NDArray[np.integer]) -> list[tuple[str, str]]:
        """Return the places of attributes of edges, and their values: `word[-1]|word[0]`, `in|the`."""
        return [] if self._edges is None else self._named(self._edges, self.templates.edges, attributes)

    def _named(
        self, known: _native.Attributes, templates: Sequence[Template], attributes: npt.NDArray[np.integer]
    ) -> list[tuple[str, str]]:
        """Return the places and the values of attributes."""
        of, key = listed(known)
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
        of_place = OF_PLACE[str(function)] if source is None else None
        texts = of_place or (VALUES if column in self._lists else self._strings[column].texts())
        special = {NOTHING: "", BEFORE: "<s>", AFTER: "</s>"}
        return [*(special[k] for k in range(FIRST)), *texts]


def _not_fitted() -> FeatureError:
    return FeatureError("the features have no vocabulary yet", got="no call of fit", wanted="fit(X) first")


def _rows(
    call: Callable[..., int],
    ids: Ids,
    offsets: npt.NDArray[np.int64],
    n_templates: int,
    wanted: npt.NDArray[np.uint8] | None,
) -> tuple[npt.NDArray[np.int64], Ids]:
    """Return the attributes of all tokens, row by row: indptr (N + 1), and their numbers."""
    n = int(offsets[-1])
    indptr = np.empty(n + 1, dtype=np.int64)
    attrs = np.empty(max(n * n_templates, 1), dtype=np.int32)
    written = call(ids, offsets, indptr, attrs, wanted)
    short = attrs[:written]
    return indptr, short.copy() if 2 * written < len(attrs) else short


def listed(attributes: _native.Attributes) -> tuple[Ids, npt.NDArray[np.uint64]]:
    """Return the template and the key of each attribute."""
    of, key = np.empty(len(attributes), dtype=np.int32), np.empty(len(attributes), dtype=np.uint64)
    attributes.list(of, key)
    return of, key


def _derive(texts: Sequence[str], function: OfTexts, number: Callable[[Sequence[str]], Ids]) -> Ids:
    """Return the id of the value of each text; NOTHING where the value is empty or unknown."""
    values = function(texts)
    ids = np.zeros(len(values), dtype=np.int32)
    numbers = number([value for value in values if value])
    ids[np.fromiter(map(bool, values), dtype=bool, count=len(values))] = np.where(
        numbers >= 0, numbers + FIRST, NOTHING
    )
    return ids
