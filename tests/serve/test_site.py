"""Several models in one server, versions of paths, reloading, request ids and the log."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from bridle.errors import FileError, ModelError
from bridle.serve import RuleText, Service
from bridle.serve.server import JsonLines
from serving import Client, service_of

TEXT = "Knuth, D. E.: The TeXbook. Addison-Wesley, 1984."
SECRET = {"authorization": "Bearer secret"}


def other_service(rules: str = "forbid VENUE\n") -> Service:
    first = service_of()
    return replace(first, name="other", default=RuleText.from_text(rules, first.labels))


def test_paths_have_a_version_and_may_name_a_model() -> None:
    client = Client([service_of(), other_service("forbid AUTHOR\n")])  # type: ignore[arg-type]
    plain, body = client.ok("/tag", {"texts": [TEXT]}), {"texts": [TEXT]}
    assert client.ok("/v1/tag", body) == client.ok("/v1/models/references/tag", body) == plain
    other = client.ok("/v1/models/other/tag", body)
    assert "AUTHOR" in plain["results"][0]["labels"] and "AUTHOR" not in other["results"][0]["labels"]
    assert client.ok("/v1/models/other/model")["name"] == "other"
    assert [model["name"] for model in client.ok("/v1/models")["models"]] == ["references", "other"]
    assert client.ok("/v1/ready") == client.ok("/ready") == {"status": "READY", "models": ["references", "other"]}
    client.error("/v1/models/nothing/tag", body, 404, "unknown-model")
    client.error("/v1/models/other/nothing", body, 404, "not-found")
    client.error("/v2/tag", body, 404, "not-found")
    metrics = client.get("/v1/metrics").text
    assert 'bridle_requests_total{path="/tag",status="200"} 4' in metrics
    with pytest.raises(ModelError, match="models of a server need a name each; got other, other"):
        Client([other_service(), other_service()])  # type: ignore[arg-type]
    client.app.state.close()


def test_answers_say_which_rules_they_obey() -> None:
    client = Client(service_of())
    asked = [{}, {"rules": client.service.default.text}, {"rule_set": "none"}, {"rules": ["forbid VENUE"]}]
    default, same, none, own = (client.ok("/tag", {"text": TEXT, **more})["rules"] for more in asked)
    assert default == same == client.ok("/explain", {"text": TEXT})["rules"] and len({default, none, own}) == 3
    assert client.ok("/tag", {"text": TEXT, "rules": "# a comment\n  forbid   VENUE"})["rules"] == own
    assert client.ok("/tag", {"text": TEXT})["results"] == client.ok("/tag", {"texts": [TEXT]})["results"]
    client.error("/tag", {"text": TEXT, "texts": [TEXT]}, 422, "input")
    client.app.state.close()


def test_models_and_rules_are_loaded_again() -> None:
    rules, fails = ["forbid VENUE\n"], [False]

    def load() -> list[Service]:
        if fails[0]:
            raise FileError("the rules are gone", got="no file")
        return [other_service(rules[0])]

    client = Client(load()[0], load=load, token="secret")
    before = client.post("/tag", {"text": TEXT}, headers=SECRET).json()["rules"]
    rules[0] = "forbid AUTHOR\n"
    assert client.post("/reload").status_code == 401
    assert client.post("/reload", headers=SECRET).json() == {"status": "READY", "models": ["other"]}
    after = client.post("/tag", {"text": TEXT}, headers=SECRET).json()["rules"]
    assert before != after
    fails[0] = True
    failed = client.post("/reload", headers=SECRET)
    assert (failed.status_code, failed.json()["error"]["what"]) == (422, "the rules are gone")
    assert client.post("/tag", {"text": TEXT}, headers=SECRET).json()["rules"] == after
    client.app.state.close()
    for more, status in (({}, 403), ({"token": "secret"}, 409)):
        fixed = Client(service_of(), **more)
        assert fixed.post("/reload", headers=SECRET).status_code == status
        fixed.app.state.close()


def test_requests_have_an_id(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(service_of(), log_requests=True)
    with caplog.at_level(logging.INFO, "bridle.serve"):
        given = client.get("/health", headers={"x-request-id": "abc-1"})
        chosen = client.get("/nothing", headers={"x-request-id": "not good\t"})
    assert given.headers["x-request-id"] == "abc-1" and len(chosen.headers["x-request-id"]) == 16
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert [(line["request_id"], line["path"], line["status"]) for line in lines] == [
        ("abc-1", "/health", 200),
        (chosen.headers["x-request-id"], "/nothing", 404),
    ]
    assert all(line["milliseconds"] >= 0 and line["level"] == "info" and line["time"] for line in lines)
    assert "GET /health 200" in caplog.records[0].getMessage()
    client.app.state.close()


def test_too_many_requests_leave_room_for_health() -> None:
    client = Client(service_of(), requests=0)
    assert [client.get(path).status_code for path in ("/health", "/ready", "/metrics", "/model")] == [
        200,
        200,
        200,
        503,
    ]
    client.app.state.close()


def test_empty_sequences_have_empty_labels() -> None:
    client = Client(service_of())
    scores = {"labels": ["A", "B"], "sequences": [{"unary": []}, {"unary": [[0, 1]]}, {"unary": [], "tokens": []}]}
    for rules in ([], ["at most 1 token of B"]):
        results = client.ok("/decode", {**scores, "rules": rules})["results"]
        assert [item["labels"] for item in results] == [[], ["B"], []]
        assert {item["status"] for item in results} == {"optimal"}
    only = {"labels": ["A"], "sequences": [{"unary": []}]}
    assert client.ok("/decode", only)["results"][0]["labels"] == []
    assert client.ok("/tag", {"tokens": [[]]})["results"][0]["labels"] == []
    client.app.state.close()
