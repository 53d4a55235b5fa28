"""The OpenAPI description, made from the same structs that requests are checked against."""

from __future__ import annotations

from typing import Any

import msgspec

from bridle.serve.endpoints import ENDPOINTS, Endpoint
from bridle.serve.schemas import Failure
from bridle.serve.service import Service

_WHAT = {
    400: "The body is not JSON.",
    401: "A token is needed.",
    404: "There is no such rule set or data.",
    405: "The path has no such method.",
    408: "The body did not come in time.",
    413: "The request is over a limit.",
    415: "The body is not declared as JSON.",
    421: "The server is not known by this name.",
    422: "A value does not fit, or a rule cannot be read.",
    429: "Too many requests are waiting.",
    503: "The server is stopping.",
    504: "The request took too long.",
}
_ALWAYS = (401, 405, 421, 503)
_WITH_BODY = (400, 408, 413, 415, 422)


def description(service: Service) -> bytes:
    """The description of a server."""
    from bridle import __version__

    kinds = [kind for one in ENDPOINTS for kind in (one.request, one.answer) if kind not in (None, str)]
    kinds = [*dict.fromkeys(kinds), Failure]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_kind)
    return msgspec.json.format(
        msgspec.json.encode(
            {
                "openapi": "3.1.0",
                "info": {
                    "title": "Bridle",
                    "version": __version__,
                    "summary": "The best labelling of a sequence that obeys your rules.",
                    "description": f"Labels sequences with the model {service.name!r}.",
                    "license": {"name": "MIT", "identifier": "MIT"},
                },
                "paths": paths,
                "components": {
                    "schemas": components,
                    "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                },
                "security": [{}, {"token": []}],
            }
        ),
        indent=1,
    )


def _operation(one: Endpoint, by_kind: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    media = one.kind.partition(";")[0]
    schema = {"type": "string"} if one.answer is str else by_kind[one.answer]
    errors = sorted({*_ALWAYS, *one.errors, *(_WITH_BODY if one.request is not None else ())})
    failure = {"content": {"application/json": {"schema": by_kind[Failure]}}}
    made: dict[str, Any] = {
        "summary": one.summary,
        "operationId": f"{one.method.lower()}{one.path.replace('/', '_')}",
        "responses": {
            "200": {"description": "The answer.", "content": {media: {"schema": schema}}},
            **{str(status): {"description": _WHAT[status], **failure} for status in errors},
        },
    }
    if one.request is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_kind[one.request]}},
        }
    return made
