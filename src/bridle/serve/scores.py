"""POST /decode: scores that somebody else computed, under rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bridle import _native
from bridle.errors import LatticeError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.serve.batching import Job
from bridle.serve.problems import HttpError
from bridle.serve.rulebook import RuleText
from bridle.serve.schemas import DecodeRequest, ScoredSequence, TagAnswer
from bridle.serve.service import Service, span_labels
from bridle.serve.tagging import Stops, rank, results_of, spans_of


def decode(service: Service, request: DecodeRequest, job: Job) -> TagAnswer:
    """Label scored sequences."""
    service.limits.check_k(request.k)
    service.limits.check_sequences([one.tokens or [""] * len(one.unary) for one in request.sequences])
    labels = Labels(request.labels, request.scheme)
    labels = service.labels if labels == service.labels else labels  # what was compiled for them can be used again
    rules = _rules(service, request, labels)
    decoder = service.decoder(rules, request.on_infeasible, labels)
    lattices = [_lattice(one, b) for b, one in enumerate(request.sequences)]
    given = [_given(one) for one in request.sequences]
    stops = Stops([job])

    def part(low: int, high: int, stop: _native.Stop) -> tuple[Sequence[Lattice], Sequence[Mapping[str, Any]], None]:
        stops.add(stop)
        return lattices[low:high], given[low:high], None

    results = results_of(decoder.decode_parts(part, len(lattices), threads=1), rules)
    if request.spans:
        known = span_labels(labels)
        for result in results:
            result.spans = spans_of(result.labels, known, None, None)
    if request.k > 1:
        rank(decoder, lattices, given, results, k=request.k, chances=False)
    return TagAnswer(None, results)


def _rules(service: Service, request: DecodeRequest, labels: Labels) -> RuleText:
    """The rules of the request; by default those of the server if they are about these labels, and otherwise none."""
    book = service.book
    if labels == service.labels:
        return book.read(request.rules, request.rule_set)
    if request.rule_set is not None and request.rule_set in book.sets:
        own = book.sets[request.rule_set]
        return book.for_labels(own.sentences, labels)
    _ = book.own(request.rules, request.rule_set)  # raises if both are there, or the set is not
    return book.for_labels(request.rules or "", labels)


def _lattice(one: ScoredSequence, sequence: int) -> Lattice:
    try:
        parts = [_array(one.unary), *map(_array, (one.pairwise, one.start, one.end))]
        return Lattice(*parts)
    except LatticeError as error:
        raise error.at(sequence=sequence) from None
    except (TypeError, ValueError):
        what, wanted = "scores are not a table", "lists of the same length"
        raise HttpError(
            422, "scores", what, got="lists of different lengths", wanted=wanted, sequence=sequence
        ) from None


def _array(values: list[Any] | None) -> Any:
    """Numbers; null is impossible."""
    if values is None:
        return None
    found = np.array(values, dtype=np.float64)  # None becomes nan, which JSON cannot hold
    return np.where(np.isnan(found), -np.inf, found)


def _given(one: ScoredSequence) -> dict[str, Any]:
    if one.tokens is not None and len(one.tokens) != len(one.unary):
        got, wanted = f"{len(one.tokens)} tokens", f"{len(one.unary)}, as many as rows of scores"
        raise HttpError(422, "tokens", "`tokens` must have a text per row of scores", got=got, wanted=wanted)
    return {**one.given, **({} if one.tokens is None else {"tokens": one.tokens})}
