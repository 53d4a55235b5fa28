"""Blocks: some sequences on their way to a model, packed end to end, with what comes with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, FeatureError
from bridle.features.columns import Packed, null_token
from bridle.lattice import Batch, Lattices
from bridle.texts import Offsets, Texts

Flags = npt.NDArray[np.bool_]
NO_ID, TEXT, INTEGER, JSON = range(4)  # kinds of ids


def offsets_of(lengths: Iterable[int]) -> Offsets:
    """Turn lengths into offsets: (B + 1) from 0."""
    return np.fromiter(accumulate(lengths, initial=0), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A list of strings per sequence, end to end."""

    texts: Sequence[str]  # (N) a list, or `Texts`
    offsets: Offsets  # (B + 1) from 0
    known: Flags | None = None  # (B) sequences that have this column; None: all of them
    whole: Flags | None = None  # (N) strings that are not null; None: all of them

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, lists: Sequence[Sequence[str | None] | None]) -> Column:
        """Pack lists; None is a sequence without this column, or a string that is missing."""
        flat = list(chain.from_iterable(cells or () for cells in lists))
        known = None if None not in lists else np.array([cells is not None for cells in lists], dtype=bool)
        whole = None
        if None in flat:
            whole = np.array([text is not None for text in flat], dtype=bool)
            flat = [text or "" for text in flat]
        return cls(flat, offsets_of(len(cells or ()) for cells in lists), known, whole)  # type: ignore[arg-type]

    @classmethod
    def joined(cls, columns: Sequence[Column | None], counts: Sequence[int]) -> Column:
        """Join columns of blocks end to end; None stands for `counts` sequences without it."""
        if len(columns) == 1 and columns[0] is not None:
            return columns[0]
        filled = [_absent(count) if column is None else column for column, count in zip(columns, counts, strict=True)]
        known = whole = None
        if any(column.known is not None for column in filled):
            known = np.concatenate([_flags(column.known, len(column)) for column in filled])
        if any(column.whole is not None for column in filled):
            whole = np.concatenate([_flags(column.whole, len(column.texts)) for column in filled])
        lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(column.offsets) for column in filled)])
        return cls(Texts.joined([column.texts for column in filled]), np.cumsum(lengths), known, whole)

    def row(self, k: int) -> list[str | None] | None:
        """List the strings of one sequence; None if it does not have this column."""
        return self.part(k, k + 1).lists()[0]

    def lists(self) -> list[list[str | None] | None]:
        """List the strings of all sequences; None for those that do not have this column."""
        texts: list[str | None] = list(self.texts)
        if self.whole is not None:
            texts = [text if there else None for text, there in zip(texts, self.whole.tolist(), strict=True)]
        lists: list[list[str | None] | None] = [texts[low:high] for low, high in pairwise(self.offsets.tolist())]
        if self.known is not None:
            lists = [cells if there else None for cells, there in zip(lists, self.known.tolist(), strict=True)]
        return lists

    def part(self, low: int, high: int) -> Column:
        """Take sequences low .. high-1."""
        begin, end = int(self.offsets[low]), int(self.offsets[high])
        known, whole = (
            None if x is None else x[a:b] for x, a, b in ((self.known, low, high), (self.whole, begin, end))
        )
        return Column(self.texts[begin:end], self.offsets[low : high + 1] - begin, known, whole)

    def without(self, rows: Iterable[int]) -> Column:
        """Empty the lists of some sequences."""
        kept = np.ones(len(self), dtype=bool)
        kept[list(rows)] = False
        lengths = np.diff(self.offsets)
        tokens = np.repeat(kept, lengths)
        if tokens.all():
            return self
        places = np.flatnonzero(tokens)
        texts = self.texts.take(places) if isinstance(self.texts, Texts) else [self.texts[t] for t in places.tolist()]
        whole = None if self.whole is None else self.whole[tokens]
        return Column(texts, np.concatenate([[0], np.cumsum(lengths * kept)]), self.known, whole)


def _absent(count: int) -> Column:
    return Column([], np.zeros(count + 1, np.int64), np.zeros(count, dtype=bool))


def _flags(flags: Flags | None, count: int) -> Flags:
    return np.ones(count, dtype=bool) if flags is None else flags


@dataclass(frozen=True, slots=True, eq=False)
class Ids(Sequence[Any]):
    """Ids of sequences as text, with the kind of each: text, an integer, other JSON, or none."""

    texts: Sequence[str]  # (B)
    kinds: npt.NDArray[np.uint8]  # (B)

    @classmethod
    def of(cls, values: Iterable[Any]) -> Ids:
        """Note the ids of sequences; None means that there is no id."""
        pairs = [_id_text(value) for value in values]
        return cls([text for text, _ in pairs], np.array([kind for _, kind in pairs], dtype=np.uint8))

    @classmethod
    def packed(cls, ids: Sequence[Any]) -> Ids:
        """Pack ids, unless they are."""
        return ids if isinstance(ids, Ids) else cls.of(ids)

    def known_texts(self, n: int) -> Texts:
        """The texts of the first n ids, without those of sequences that have none."""
        texts = Texts.of(self.texts)
        return texts[:n] if self.kinds[:n].all() else texts.take(np.flatnonzero(self.kinds[:n]))

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return Ids(self.texts[k], self.kinds[k])
        kind, text = self.kinds[k], self.texts[k]
        return None if kind == NO_ID else text if kind == TEXT else json.loads(text)

    @classmethod
    def joined(cls, parts: Sequence[Ids | None], counts: Sequence[int]) -> Ids:
        """Join the ids of several blocks."""
        filled = [
            Ids([""] * n, np.zeros(n, np.uint8)) if part is None else part
            for part, n in zip(parts, counts, strict=True)
        ]
        return cls(Texts.joined([part.texts for part in filled]), np.concatenate([part.kinds for part in filled]))


def _id_text(value: Any) -> tuple[str, int]:
    if value is None:
        return "", NO_ID
    if isinstance(value, str):
        return value, TEXT
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), INTEGER
    return json.dumps(value, default=str), JSON


class JsonObjects(Sequence[Mapping[str, Any]]):
    """Objects in JSON, one per sequence, each parsed when it is asked for; an empty text is an empty object."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return JsonObjects(self.texts[k])
        text = self.texts[k]
        return json.loads(text) if text else {}


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some sequences, in their order, with what comes with them.

    The sequences are columns of texts, sequences as models take them, or scores. Those that could not be read are in
    `errors`: they have no tokens here, so that every other sequence keeps its number.

    Parameters
    ----------
    count : int
        The number of sequences.
    columns : mapping of str to Column
        Columns of text by name; the first one holds the tokens.
    sequences : sequence, optional
        The sequences as `fit` takes them, instead of columns.
    scores : Batch or list of Lattice, optional
        Scores of the tokens, instead of a model's.
    errors : mapping of int to BridleError
        Why a sequence could not be read, by its number in the block.
    ids : sequence, optional
        Ids, None where a sequence has none.
    given : sequence of mappings, optional
        Values that rules refer to by name.
    groups : sequence, optional
        The document of each sequence, if documents are to be labelled as a whole. A block holds whole documents, and
        their sequences are in a row.
    gold, comments : Column, optional
        Labels that the source has; comment lines above the sequences.
    chars : pair of arrays, optional
        Where the tokens begin and end in the texts that they were cut from, in characters.
    examples : sequence, optional
        The sequences as `bridle.data.Example`, if they were read one by one.
    place : callable, optional
        Names the place of a sequence in its source, for messages.
    end, share, left_out
        Where the next block of the source begins, in units that its reader knows; the share of the source that has
        been read; counts, by name, of what was skipped.
    """

    count: int
    columns: Mapping[str, Column] = field(default_factory=dict)
    sequences: Sequence[Any] | None = None
    scores: Lattices | None = None
    errors: Mapping[int, BridleError] = field(default_factory=dict)
    ids: Sequence[Any] | None = None
    given: Sequence[Mapping[str, Any]] | None = None
    groups: Sequence[Any] | None = None
    gold: Column | None = None
    comments: Column | None = None
    chars: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None
    examples: Sequence[Any] | None = None
    place: Callable[[int], str] | None = None
    end: int = 0
    share: float = 1.0
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.count

    @property
    def tokens(self) -> Column:
        """The first column."""
        return next(iter(self.columns.values()))

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sequences."""
        return len(self.tokens.texts) if self.columns else 0

    @property
    def nbytes(self) -> int:
        """About how many bytes the texts have."""
        return sum(map(_size, self.columns.values()))

    def where(self, row: int) -> str | None:
        """Name the place of a sequence in its source; None if it is not known."""
        return None if self.place is None else self.place(row)

    def renamed(self, names: Mapping[str, str]) -> Block:
        """Rename columns: names by the names that they have."""
        return replace(self, columns={names.get(name, name): column for name, column in self.columns.items()})

    def part(self, low: int, high: int) -> Block:
        """Take rows low .. high-1 of a block of texts. What was skipped belongs to the part with the first row."""
        place, begin = self.place, 0 if not self.columns else int(self.tokens.offsets[low])
        end = 0 if not self.columns else int(self.tokens.offsets[high])
        listed = {name: getattr(self, name) for name in ("ids", "given", "groups", "examples")}
        rows: dict[str, Any] = {name: None if values is None else values[low:high] for name, values in listed.items()}
        return replace(
            self,
            count=high - low,
            columns={name: column.part(low, high) for name, column in self.columns.items()},
            errors={row - low: error for row, error in self.errors.items() if low <= row < high},
            gold=None if self.gold is None else self.gold.part(low, high),
            comments=None if self.comments is None else self.comments.part(low, high),
            chars=None if self.chars is None else (self.chars[0][begin:end], self.chars[1][begin:end]),
            place=None if place is None else lambda row: place(low + row),
            left_out={} if low else self.left_out,
            **rows,
        )

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """Join blocks of texts end to end."""
        if len(blocks) == 1:
            return blocks[0]
        counts = [len(block) for block in blocks]
        starts = [0, *accumulate(counts)]

        def column(get: Callable[[Block], Column | None]) -> Column | None:
            columns = [get(block) for block in blocks]
            return None if all(part is None for part in columns) else Column.joined(columns, counts)

        def rows(name: str, blank: Any) -> list[Any] | None:
            parts = [getattr(block, name) for block in blocks]
            if all(part is None for part in parts):
                return None
            return [x for part, n in zip(parts, counts, strict=True) for x in ([blank] * n if part is None else part)]

        def place(row: int) -> str:
            part = max(k for k, start in enumerate(starts[:-1]) if start <= row)
            return blocks[part].where(row - starts[part]) or ""

        names = dict.fromkeys(name for block in blocks for name in block.columns)
        examples = [block.examples for block in blocks]
        ids, left_out = rows("ids", None), Counter[str]()
        for block in blocks:
            left_out.update(block.left_out)
        return replace(
            blocks[-1],
            count=starts[-1],
            columns={name: column(lambda block, name=name: block.columns.get(name)) for name in names},  # type: ignore[misc]
            errors={start + row: e for start, b in zip(starts, blocks, strict=False) for row, e in b.errors.items()},
            ids=None if ids is None else Ids.of(ids),
            given=rows("given", {}),
            groups=rows("groups", None),
            gold=column(lambda block: block.gold),
            comments=column(lambda block: block.comments),
            chars=None
            if any(block.chars is None for block in blocks)
            else tuple(np.concatenate([block.chars[k] for block in blocks if block.chars]) for k in (0, 1)),  # type: ignore[arg-type]
            examples=None if None in examples else [example for part in examples for example in part or ()],
            place=place,
            left_out=dict(left_out),
        )

    def packed(self, names: Sequence[str], errors: dict[int, BridleError]) -> Packed:
        """Pack the columns with these names. Sequences that lack one, or whose columns differ in length, get errors."""
        picked = {name: self.columns[name] if name in self.columns else _absent(self.count) for name in names}
        picked = picked or dict(list(self.columns.items())[:1])
        offsets, scores = self.tokens.offsets, self.scores
        if scores is not None:
            offsets = scores.offsets if isinstance(scores, Batch) else offsets_of(map(len, scores))
        lengths, first = np.diff(offsets), next(iter(self.columns)) if self.scores is None else "scores"
        for name, column in picked.items():
            if column.known is not None:
                for row in np.flatnonzero(~column.known).tolist():
                    errors.setdefault(row, _no_column(name, self.columns))
            if column.whole is not None:
                bad = np.searchsorted(column.offsets, np.flatnonzero(~column.whole), side="right") - 1
                for row in dict.fromkeys(bad.tolist()):
                    errors.setdefault(row, null_token(name))
            if column.offsets is not offsets:
                theirs = np.diff(column.offsets)
                for row in np.flatnonzero(lengths != theirs).tolist():
                    errors.setdefault(row, _other_length(name, int(theirs[row]), first, int(lengths[row])))
        if errors:
            picked = {name: column.without(errors) for name, column in picked.items()}
        texts = {name: column.texts for name, column in picked.items()}
        return Packed(texts if names else {}, next(iter(picked.values())).offsets)


def _size(column: Column) -> int:
    texts = column.texts
    return len(texts.data) if isinstance(texts, Texts) else sum(map(len, texts))


def _no_column(name: str, columns: Iterable[str]) -> FeatureError:
    got = ", ".join(repr(other) for other in columns if other != name) or "no columns"
    return FeatureError(f"there is no column {name!r}", got=got, wanted=repr(name), cause="The model uses it.")


def _other_length(name: str, got: int, first: str, wanted: int) -> FeatureError:
    return FeatureError(
        "the columns differ in length",
        got=f"{got} in {name!r}",
        wanted=f"{wanted}, as in {first!r}",
        cause="Every column has one text per token.",
    )
