"""What becomes of a row: labels, spans or ids, scores, status and error, as columns of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.arrow.reading import Chars, Errors, arrow
from bridle.decoding.result import Decoding, Decodings
from bridle.labels import Labels

Output = Literal["labels", "spans", "ids"]
OUTPUTS: tuple[Output, ...] = ("labels", "spans", "ids")

ERROR = "error"
STATUSES = ("optimal", "limit", "infeasible", "nothing_found", "relaxed", ERROR)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are added to a table."""

    output: Output = "labels"
    scores: bool = False
    k: int = 1
    prefix: str = ""

    def fields(self, chars: bool) -> list[Any]:
        """The fields. chars: do spans say where they are in a text?"""
        pa = arrow()
        texts, numbers = pa.list_(pa.string()), pa.list_(pa.float64())
        span = [("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())]
        span += [("start_char", pa.int32()), ("end_char", pa.int32())] if chars else []
        kinds = {"labels": texts, "ids": pa.list_(pa.int32()), "spans": pa.list_(pa.struct(span))}
        found: list[tuple[str, Any]] = [(self.output, kinds[self.output])]
        if self.scores:
            found += [("score", pa.float64()), ("bound", pa.float64()), ("probabilities", numbers)]
        if self.k > 1:
            found.append(("k_best", pa.list_(pa.struct([("labels", texts), ("score", pa.float64())]))))
        found += [("status", pa.string()), (ERROR, pa.string())]
        return [pa.field(self.prefix + name, kind) for name, kind in found]


@dataclass(slots=True)
class Answer:
    """Decodings of some rows, with what was asked for besides."""

    rows: npt.NDArray[np.int64]  # (B) which rows they are
    found: Decodings
    chars: Chars | None = None  # where their tokens are in their texts
    probabilities: list[npt.NDArray[np.float64] | None] = field(default_factory=list)
    k_best: list[Sequence[Decoding] | None] = field(default_factory=list)
    errors: Errors = field(default_factory=dict)  # of some of them, by their place here


class Answers:
    """All rows of a part of a table, put together from answers and errors."""

    def __init__(
        self, layout: Layout, labels: Labels, rows: int, answers: Sequence[Answer], errors: Errors, chars: bool
    ) -> None:
        self.chars = chars  # do spans say where they are in a text?
        self.layout, self.labels, self.rows = layout, labels, rows
        self.answers = sorted(answers, key=lambda one: int(one.rows[0]))
        self.messages: dict[int, str] = {row: str(error) for row, error in errors.items()}
        self.status = np.full(rows, STATUSES.index(ERROR), dtype=np.int8)
        self.size = np.zeros(rows, dtype=np.int64)  # labels of each row
        self.has = np.zeros(rows, dtype=bool)  # does it have labels?
        numbers = {name: k for k, name in enumerate(STATUSES)}
        for answer in self.answers:
            found = answer.found
            self.status[answer.rows] = [numbers[name] for name in found.status.tolist()]
            self.has[answer.rows] = found.answered
            self.size[answer.rows] = np.where(found.answered, np.diff(found.offsets), 0)

    @cached_property
    def ids(self) -> npt.NDArray[np.int32]:
        """Label ids of all rows, end to end."""
        return self._labelled([answer.found.ids for answer in self.answers])

    def _labelled(self, values: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
        """Values of tokens, those of rows without labels left out."""
        pairs = zip(values, (answer.found.ids for answer in self.answers), strict=True)
        kept = [some if (ids >= 0).all() else some[ids >= 0] for some, ids in pairs]
        return kept[0] if len(kept) == 1 else np.concatenate([np.zeros(0, np.int32), *kept])

    @cached_property
    def offsets(self) -> npt.NDArray[np.int32]:
        """(B + 1) where each row begins among them."""
        return np.concatenate([[0], np.cumsum(self.size)]).astype(np.int32)

    def arrays(self) -> list[Any]:
        """The columns."""
        made = {"labels": self._labels, "ids": self._plain_ids, "spans": self._spans}
        out = [made[self.layout.output]()]
        if self.layout.scores:
            out += [self._numbers("scores"), self._numbers("bounds"), self._probabilities()]
        if self.layout.k > 1:
            out.append(self._k_best())
        pa = arrow()
        told = self.messages
        messages = [told.get(row) for row in range(self.rows)] if told else pa.nulls(self.rows, pa.string())
        return [*out, pa.array(STATUSES).take(pa.array(self.status)), pa.array(messages, pa.string())]

    def _listed(self, values: Any, offsets: npt.NDArray[np.int32] | None = None) -> Any:
        pa = arrow()
        cuts = pa.array(self.offsets if offsets is None else offsets)
        return pa.ListArray.from_arrays(cuts, values, mask=None if self.has.all() else pa.array(~self.has))

    def _labels(self) -> Any:
        pa = arrow()
        return self._listed(pa.array(self.labels.names).take(pa.array(self.ids)))

    def _plain_ids(self) -> Any:
        return self._listed(arrow().array(self.ids))

    def _spans(self) -> Any:
        pa = arrow()
        first, last, row = segments_of(self.labels, self.ids, self.offsets)
        begin = self.offsets[row]
        types = pa.array(self.labels.type_of).take(pa.array(self.ids[first]))
        columns = {"start": pa.array(first - begin), "end": pa.array(last - begin), "label": types}
        if self.chars:
            begins, ends = (self._labelled([one.chars[k] for one in self.answers if one.chars]) for k in (0, 1))
            columns |= {"start_char": pa.array(begins[first]), "end_char": pa.array(ends[last - 1])}
        counts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.rows))]).astype(np.int32)
        return self._listed(pa.StructArray.from_arrays(list(columns.values()), list(columns)), counts)

    def _numbers(self, name: str) -> Any:
        values = np.full(self.rows, np.nan)
        for answer in self.answers:
            values[answer.rows] = getattr(answer.found, name)
        return arrow().array(values, mask=~(self.has & np.isfinite(values)))

    def _probabilities(self) -> Any:
        pa = arrow()
        return pa.array(self._by_row([one.probabilities for one in self.answers]), pa.list_(pa.float64()))

    def _k_best(self) -> Any:
        field = self.layout.fields(False)[-3]
        found = self._by_row([answer.k_best for answer in self.answers])
        listed = [None if x is None else [{"labels": one.labels, "score": one.score} for one in x] for x in found]
        return arrow().array(listed, field.type)

    def _by_row(self, lists: Sequence[Sequence[Any]]) -> list[Any]:
        out: list[Any] = [None] * self.rows
        for answer, values in zip(self.answers, lists, strict=True):
            for row, value in zip(answer.rows.tolist(), values, strict=True):
                out[row] = value
        return out


def segments_of(
    labels: Labels, ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The segments of many sequences, as `Labels.segments` cuts them: first token, the one after the last, sequence.

    Tokens are counted over all sequences.
    """
    none = np.zeros(0, dtype=np.int32)
    if not len(ids):
        return none, none, none.astype(np.int64)
    before = np.concatenate([[0], ids[:-1]])
    starts = labels.starts(before, ids)
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    first = np.flatnonzero(starts).astype(np.int32)
    last = np.append(first[1:], np.int32(len(ids)))
    inside = np.array([bool(tag) for tag in labels.tag_of])[ids[first]]
    first, last = first[inside], last[inside]
    return first, last, np.searchsorted(offsets, first, side="right") - 1
