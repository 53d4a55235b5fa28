"""The HTTP service against its own OpenAPI description: whatever is sent, answers are those that it describes.

`make test-explorer` runs it; schemathesis makes the requests.
"""

from __future__ import annotations

from typing import Any

import pytest

from serving import Client, service_of

schemathesis = pytest.importorskip("schemathesis", reason="pip install 'bridle-nlp[explorer]'")
from hypothesis import HealthCheck, settings  # noqa: E402  (after the package that is asked for)
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

CLIENT = Client(service_of(seconds=5.0))
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", CLIENT.app)


@SCHEMA.parametrize()
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
def test_answers_are_as_described(case: Any) -> None:
    answer = case.call()
    assert answer.status_code < 500, answer.text
    # no schema says what a rule is, or that sequences come in one of three forms: such requests get 422
    case.validate_response(answer, excluded_checks=[positive_data_acceptance])
