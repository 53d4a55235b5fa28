"""The OpenAPI description says what the endpoints take and give."""

from __future__ import annotations

from typing import Any

import pytest

from bridle.serve.endpoints import ENDPOINTS
from serving import Client, service_of


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    result: dict[str, Any] = Client(service_of()).ok("/openapi.json")
    return result


def test_every_endpoint_is_described(description: dict[str, Any]) -> None:
    assert description["openapi"].startswith("3.1")
    described = {(method.upper(), path) for path, some in description["paths"].items() for method in some}
    assert described == {(item.method, item.path) for item in ENDPOINTS}
    names = [item["operationId"] for some in description["paths"].values() for item in some.values()]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere(description: dict[str, Any]) -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(item) for item in value.values()))
        return set().union(*(references(item) for item in value)) if isinstance(value, list) else set()

    result = references(description)
    assert "#/components/schemas/TagRequest" in result
    assert {item.rpartition("/")[2] for item in result} <= set(description["components"]["schemas"])


def test_errors_are_described(description: dict[str, Any]) -> None:
    answers = description["paths"]["/tag"]["post"]["responses"]
    assert set(answers) == {"200", *(str(s) for s in (400, 401, 404, 405, 408, 413, 415, 421, 422, 429, 503, 504))}
    schema = answers["422"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/Failure"}
