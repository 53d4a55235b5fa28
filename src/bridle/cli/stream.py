"""Decode a stream of sequences into records, in order. Errors name the place of their sequence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from bridle.decoding.decoder import Decoder, Given
from bridle.decoding.result import Decoding, Decodings
from bridle.errors import BridleError
from bridle.lattice import Lattice
from bridle.rules.base import Rule

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """Some sequences that are decoded together."""

    ids: Sequence[Any]  # in the output
    where: Sequence[str]  # the place of each in its file
    decode: Callable[[int], Sequence[Decoding]]  # decodes the first n of them
    scores: Callable[[int], tuple[Lattice, Given | None]]  # of one of them


@dataclass(slots=True)
class Tally:
    """Counts of sequences by their results."""

    sequences: int = 0
    infeasible: int = 0  # no labelling obeys the hard rules
    relaxed: int = 0  # a labelling that breaks some of them
    unfound: int = 0  # a limit came before the first labelling
    unproved: int = 0  # a limit came before the proof

    def count(self, found: Decoding) -> None:
        """Add a decoding."""
        self.sequences += 1
        self.infeasible += found.status == "infeasible"
        self.relaxed += found.status == "relaxed"
        self.unfound += found.status == "nothing_found"
        self.unproved += len(found) > 0 and not found.optimal

    def __str__(self) -> str:
        parts = [
            (self.infeasible, "infeasible"),
            (self.relaxed, "relaxed"),
            (self.unfound, "stopped before any labelling"),
            (self.unproved, "not proved optimal"),
        ]
        told = [f"{count:,} {what}" for count, what in parts if count]
        return ", ".join([f"{self.sequences:,} sequences", *told])


@dataclass(slots=True)
class Stream:
    """Turns sequences into records."""

    decoder: Decoder
    k: int | None = None  # add the k best labellings
    detail: Literal["all", "labels"] = "all"  # "labels": records without scores and broken rules
    tally: Tally = field(default_factory=Tally)
    # Rules as text, cached: a few rules are broken again and again.
    _text: Callable[[Rule], str] = field(default_factory=lambda: lru_cache(maxsize=1024)(str), repr=False)

    def records(self, work: Work) -> tuple[list[Record], BridleError | None]:
        """The records of all sequences; if one fails, the records before it and the error."""
        found: Sequence[Decoding] = []
        n, wrong = len(work.ids), None
        while n:
            try:
                found = work.decode(n)
                break
            except BridleError as error:
                at = error.sequence if error.sequence is not None else 0 if n == 1 else None
                if at is None:
                    raise
                wrong = error.at(where=work.where[at])
                if (known := getattr(error, "decodings", None)) is not None:
                    found = known[:at]
                    break
                n = at
        if isinstance(found, Decodings) and (found.optimal & ~found.relaxed).all():
            self.tally.sequences += n
        else:
            for one in found:
                self.tally.count(one)
        if self.detail == "labels" and isinstance(found, Decodings):
            labels = [None if b in found.unanswered else one for b, one in enumerate(found.labels)]
            return [{"id": name, "labels": one} for name, one in zip(work.ids, labels, strict=False)], wrong
        records: list[Record] = []
        for b, one in enumerate(found):
            try:
                records.append(self._record(work.ids[b], one, work, b))
            except BridleError as error:  # of the k best, or of the search for a clash
                return records, error.at(where=work.where[b])
        return records, wrong

    def _record(self, name: Any, found: Decoding, work: Work, b: int) -> Record:
        if self.detail == "labels":
            return {"id": name, "labels": found.labels if found.unanswered is None else None}
        if self.k is None or found.unanswered is not None:
            return {"id": name, **found.to_dict(self._text)}
        if found.relaxed:
            return {"id": name, **found.to_dict(self._text), "k_best": [found.to_dict(self._text)]}
        lattice, given = work.scores(b)
        ranked = [one.to_dict(self._text) for one in self.decoder.k_best(lattice, self.k, given)]
        return {"id": name, **ranked[0], "k_best": ranked}


def to_json(made: Record) -> str:
    """One line of JSON; an id that JSON or UTF-8 cannot represent is escaped or becomes text."""
    try:
        line = json.dumps(made, ensure_ascii=False, allow_nan=False)
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(made)
    except ValueError:
        return json.dumps({**made, "id": str(made["id"])})
    return line
