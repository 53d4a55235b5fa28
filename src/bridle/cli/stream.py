"""Decode a stream of chunks into records, one per sequence, in order; what goes wrong is told with its place."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from bridle.data.chunk import Chunk, Pace
from bridle.decoding.decoder import Decoder
from bridle.errors import BridleError, Infeasible, LimitReached
from bridle.rules.base import Rule

Record = dict[str, Any]
_PIECE = 32  # a chunk with a bad sequence is tried again in pieces of this size, then one by one


@dataclass(slots=True)
class Tally:
    """What came out."""

    sequences: int = 0
    infeasible: int = 0  # no labelling obeys the hard rules
    relaxed: int = 0  # a labelling that breaks some of them
    unfound: int = 0  # a limit came before the first labelling
    unproved: int = 0  # a limit came before the proof

    @property
    def clean(self) -> bool:
        return not (self.infeasible or self.relaxed or self.unfound)

    def __str__(self) -> str:
        parts = [
            (self.infeasible, "infeasible"), (self.relaxed, "relaxed"), (self.unfound, "stopped before any labelling"),
            (self.unproved, "not proved optimal"),
        ]  # fmt: skip
        told = [f"{count:,} {what}" for count, what in parts if count]
        return ", ".join([f"{self.sequences:,} sequences", *told])


@dataclass(slots=True)
class Stream:
    """Decodes chunks. The decoder relaxes if `on_infeasible` is "relax" and raises otherwise."""

    decoder: Decoder
    on_infeasible: Literal["raise", "relax", "skip"] = "raise"
    threads: int = 0
    k: int | None = None  # give the k best labellings too
    detail: Literal["all", "labels"] = "all"  # "labels": records without scores and broken rules, at half the price
    tally: Tally = field(default_factory=Tally)
    # Prints rules: a few are broken again and again, and need be printed once.
    _text: Callable[[Rule], str] = field(default_factory=lambda: lru_cache(maxsize=1024)(str), repr=False)

    def records(self, chunks: Iterable[Chunk], pace: Pace | None = None) -> Iterator[list[Record]]:
        """The records of all sequences, some at a time. Those before a bad sequence come before the error."""
        for chunk in chunks:
            begun = time.perf_counter()
            yield from self._decode(chunk)
            if pace is not None:
                pace.took(time.perf_counter() - begun)

    def _decode(self, chunk: Chunk) -> Iterator[list[Record]]:
        if self.k is not None and len(chunk) > 1:  # the k best are found one sequence at a time
            yield from self._pieces(chunk, 1)
            return
        try:
            made = self._best_k(chunk) if self.k is not None else self._best(chunk)
        except BridleError as error:
            if len(chunk) == 1:
                yield [self._unanswered(chunk, error)]
            else:
                yield from self._pieces(chunk, _PIECE if len(chunk) > _PIECE else 1)
            return
        for record in made:
            self.tally.sequences += 1
            self.tally.relaxed += "relaxed" in record
            self.tally.unproved += not record["optimal"]
        yield made

    def _pieces(self, chunk: Chunk, size: int) -> Iterator[list[Record]]:
        for a in range(0, len(chunk), size):
            yield from self._decode(chunk.cut(a, min(a + size, len(chunk))))

    def _best(self, chunk: Chunk) -> list[Record]:
        found = self.decoder.decode_batch(chunk.lattices, chunk.givens, self.threads)
        if self.detail == "labels":
            facts = zip(chunk.ids, found.labels, found.optimal.tolist(), found.relaxed.tolist(), strict=True)
            return [
                {"id": name, "labels": labels, "optimal": optimal, **({"relaxed": True} if relaxed else {})}
                for name, labels, optimal, relaxed in facts
            ]
        return [{"id": name, **d.to_dict(self._text)} for name, d in zip(chunk.ids, found, strict=True)]

    def _best_k(self, chunk: Chunk) -> list[Record]:
        lattice, given = chunk.lattices[0], chunk.givens[0]
        try:
            found = self.decoder.k_best(lattice, self.k or 1, given)
        except Infeasible:
            if self.on_infeasible != "relax":
                raise
            found = [self.decoder.decode(lattice, given)]
        ranked = [d.to_dict(self._text) for d in found]
        return [{"id": chunk.ids[0], **ranked[0], "k_best": ranked}]

    def _unanswered(self, chunk: Chunk, error: BridleError) -> Record:
        """The record of a sequence that has no labelling, or its error."""
        if self.on_infeasible == "raise" or not isinstance(error, (Infeasible, LimitReached)):
            raise error.at(where=chunk.where[0])
        self.tally.sequences += 1
        if isinstance(error, Infeasible):
            self.tally.infeasible += 1
            return {"id": chunk.ids[0], "labels": None, "clash": [str(rule) for rule in error.clash]}
        self.tally.unfound += 1
        bound = error.bound if math.isfinite(error.bound) else None
        return {"id": chunk.ids[0], "labels": None, "bound": bound, "optimal": False}


def to_json(made: Record) -> str:
    """One line of JSON; an id that JSON or UTF-8 cannot hold is escaped or becomes text."""
    try:
        line = json.dumps(made, ensure_ascii=False, allow_nan=False)
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(made)
    except ValueError:
        return json.dumps({**made, "id": str(made["id"])})
    return line
