"""Span selection against enumeration of all legal selections, for every kind of rule; the judge, batches, options."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import SpanSelector, check_selection
from bridle.errors import Infeasible
from selections import KINDS, Case, best_of, random_case, selections, value_of
from strategies import seeds

NEAR = 1e-9


def assert_best(case: Case) -> None:
    """The selection is the best by enumeration, or infeasibility is confirmed and the clash is minimal."""
    best = best_of(case)
    selector = SpanSelector(case.rules, overlap=case.overlap)
    if best == -float("inf"):
        with pytest.raises(Infeasible) as raised:
            selector.select(case.spans, **case.places)
        clash = list(raised.value.clash)
        assert best_of(_with(case, clash)) == -float("inf")
        for rule in clash:
            assert best_of(_with(case, [other for other in clash if other is not rule])) > -float("inf")
        return
    found = selector.select(case.spans, **case.places)
    assert found.optimal and found.score == pytest.approx(best, abs=NEAR)
    chosen = tuple(case.spans[k] for k in found.indices)
    assert tuple(sorted(found.indices)) in set(selections(case))
    assert value_of(case, chosen) == pytest.approx(best, abs=NEAR)
    verdict = check_selection(case.spans, case.rules, found, overlap=case.overlap, **case.places)
    assert verdict.complaints == []


def _with(case: Case, rules: list[Any]) -> Case:
    return Case(case.spans, rules, case.given, case.overlap, case.text, case.tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_disjoint_spans_are_those_of_enumeration(kind: str) -> None:
    for by_token in (True, False):
        for rng in seeds(8, key=7000 + 2 * KINDS.index(kind) + by_token):
            assert_best(random_case(rng, kind, "forbid", by_token=by_token))


@pytest.mark.parametrize("kind", KINDS)
def test_nested_spans_are_those_of_enumeration(kind: str) -> None:
    for by_token in (True, False):
        for rng in seeds(6, key=8000 + 2 * KINDS.index(kind) + by_token):
            assert_best(random_case(rng, kind, "nest", by_token=by_token))
