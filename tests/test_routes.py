"""Every route from texts to labels gives the same: labels, scores, k best, probabilities, statuses, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import routes
from routes import BAD, CASES, COUNT, KNOWN_DIFFERENCES, ROUTES, ROWS, Route

RUNS = [
    pytest.param(route, case, id=f"{route}-{case}", marks=[pytest.mark.slow] if case == "plain" else [])
    for route in ROUTES
    for case in route.cases
]


@pytest.mark.parametrize(("route", "case"), RUNS)
def test_a_route_gives_what_the_reference_gives(route: Route, case: str, tmp_path: Path) -> None:
    routes.check(route, CASES[case], tmp_path)


def test_the_rows_are_of_all_kinds() -> None:
    """A case without bad rows, or without one that is infeasible, would compare little."""
    assert len(ROWS) == COUNT == len(CASES["plain"].rows)
    assert {kind for case in CASES.values() for kind in case.bad} == set(BAD)
    result = {name: routes.reference(name, False) for name in CASES}
    for name, status in (("relax", "relaxed"), ("skip", "infeasible"), ("raise", "infeasible")):
        output = {CASES[name].rows[k].kind for k, item in result[name].items() if item.status == status}
        assert output == {"infeasible"}
    errors = {outcome.error for results in result.values() for outcome in results.values()} - {None, routes.NONE}
    assert errors == {"FeatureError", "GivenError", "RuleError", "Infeasible"}
    for name, case in CASES.items():
        bad = {case.rows[k].kind for k, item in result[name].items() if item.status == "error"}
        assert bad == set(case.bad), name


def test_known_differences_are_of_routes_that_exist() -> None:
    known = {route.name: route.cases for route in [*ROUTES, *routes.OTHER_ROUTES]}
    for item in KNOWN_DIFFERENCES:
        for route, cases in item.routes.items():
            assert set(cases.split()) <= set(known[route]), item
