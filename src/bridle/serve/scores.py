"""POST /decode: scores that somebody else computed, under rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from bridle.errors import BridleError, LatticeError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.serve.rulebook import RuleText
from bridle.serve.schemas import DecodeRequest, ScoredSequence, TagAnswer
from bridle.serve.service import Service
from bridle.serve.tagging import request_error, results_of, spans_of, wanted
from bridle.tagging import Block, tag


def decode(service: Service, request: DecodeRequest) -> TagAnswer:
    """Label scored sequences."""
    service.limits.check_k(request.k)
    service.limits.check_sequences([one.tokens or [""] * len(one.unary) for one in request.sequences])
    labels = Labels(request.labels, request.scheme)
    labels = service.labels if labels == service.labels else labels  # what was compiled for them can be used again
    rules = _rules(service, request, labels)
    decoder = service.decoder(rules, request.on_infeasible, labels)
    errors: dict[int, BridleError] = {}
    lattices = [_lattice(one, b, len(labels), errors) for b, one in enumerate(request.sequences)]
    given = [{**one.given, **({} if one.tokens is None else {"tokens": one.tokens})} for one in request.sequences]
    block = Block(len(lattices), scores=lattices, given=given, errors=errors)
    outcomes = tag(block, None, decoder, want=wanted(request.k), k=request.k)
    if (error := request_error(outcomes, 0, len(block))) is not None:
        raise error
    results = results_of(outcomes, rules)
    if request.spans:
        for result in results:
            result.spans = spans_of(result.labels, labels.span_labels, None, None)
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


def _lattice(one: ScoredSequence, b: int, m: int, errors: dict[int, BridleError]) -> Lattice:
    """The scores of sequence b; none if they make no sense, which is its error."""
    n = len(one.unary)
    try:
        if one.tokens is not None and len(one.tokens) != n:
            got, wanted = f"{len(one.tokens)} tokens", f"{n}, as many as rows of scores"
            raise LatticeError("`tokens` must have a text per row of scores", got=got, wanted=wanted)
        parts = [_array(one.unary), *map(_array, (one.pairwise, one.start, one.end))]
        return Lattice(parts[0] if n else np.zeros((0, m)), *parts[1:])
    except LatticeError as error:
        errors[b] = error
    except (TypeError, ValueError):
        wanted = "lists of the same length"
        errors[b] = LatticeError("scores are not a table", got="lists of different lengths", wanted=wanted)
    return Lattice(np.zeros((0, m)))


def _array(values: list[Any] | None) -> Any:
    """Numbers; null is impossible."""
    if values is None:
        return None
    found = np.array(values, dtype=np.float64)  # None becomes nan, which JSON cannot hold
    return np.where(np.isnan(found), -np.inf, found)
