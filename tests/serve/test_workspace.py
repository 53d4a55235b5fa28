"""The explorer of one's own machine: the file of the rules, other models, tuning and learning."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.serve.workspace import Workspace
from serving import Client, service_of
from stopwatch import patience


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    service = replace(
        service_of(seconds=1000), sample=service_of().sample[:60], workspace=Workspace(tmp_path / "my.rules")
    )
    client = Client(service)
    yield client
    client.app.state.close()


def finished(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of a job when it has ended."""
    job = client.ok("/jobs", {"data": "sample", **body})
    ends = time.monotonic() + patience(60)
    while job["state"] == "running" and time.monotonic() < ends:
        time.sleep(0.02)
        job = client.ok("/jobs/state", {"job": job["job"]})
    answer: dict[str, Any] = job
    return answer


def test_rules_are_saved_to_their_file(client: Client, tmp_path: Path) -> None:
    path, text = tmp_path / "my.rules", "present TITLE  # “mine”\n"
    new = client.ok("/rules/file")
    assert (new["name"], new["text"]) == ("my.rules", None)
    saved = client.ok("/rules/save", {"text": text, "fingerprint": new["fingerprint"]})
    assert path.read_text(encoding="utf-8") == text and client.ok("/rules/file") == saved
    assert client.ok("/model")["rules_file"] == "my.rules"


def test_a_file_of_windows_keeps_its_lines(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_bytes(b"\xef\xbb\xbfpresent TITLE\r\npresent DATE\r\n")
    known = client.ok("/rules/file")
    assert known["text"] == "present TITLE\npresent DATE\n"
    saved = client.ok("/rules/save", {"text": "present DATE\n", "fingerprint": known["fingerprint"]})
    assert path.read_bytes() == b"present DATE\r\n" and client.ok("/rules/file") == saved


def test_a_file_that_was_changed_outside_is_kept(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text("present TITLE\n")
    known = client.ok("/rules/file")["fingerprint"]
    path.write_text("present DATE\n")
    client.error("/rules/save", {"text": "x", "fingerprint": known}, 409, "changed-outside")
    assert path.read_text() == "present DATE\n"
    client.ok("/rules/save", {"text": "x", "fingerprint": known, "overwrite": True})
    assert path.read_text() == "x"


def test_a_server_without_workspace_writes_and_learns_nothing() -> None:
    client = Client(service_of())
    assert client.get("/rules/file").status_code == 403
    for path, body in (
        ("/rules/save", {"text": "", "fingerprint": ""}),
        ("/model/open", {"name": "m", "content": ""}),
        ("/jobs", {"kind": "tune", "data": "sample"}),
    ):
        client.error(path, body, 403, "workspace")
    assert client.ok("/model")["workspace"] is False


def test_another_model_takes_over(client: Client, tmp_path: Path) -> None:
    bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["X", "Y"]]).save(tmp_path / "m.bridle")
    content = base64.b64encode((tmp_path / "m.bridle").read_bytes()).decode()
    opened = client.ok("/model/open", {"name": "m.bridle", "content": content})
    assert (opened["name"], opened["labels"], opened["rules_file"]) == ("m", ["X", "Y"], "my.rules")
    assert client.ok("/tag", {"tokens": [["b"]]})["results"][0]["labels"] == ["Y"]
    client.error("/model/open", {"name": "m.bridle", "content": ""}, 422, "data")


def test_a_rule_is_tuned_to_the_best_point_of_its_curve(client: Client) -> None:
    rules = "present TITLE\nfix DATE at tokens /.*/  [penalty 4 per violation]\n"
    [curve] = client.ok("/curves", {"data": "sample", "rules": rules})["curves"]
    f1 = {point["penalty"]: point["f1"] for point in curve["points"]}
    assert curve["line"] == 2 and curve["points"][0]["gain"] == 0 and f1[curve["best"]] == max(f1.values()) > f1[4]
    result = finished(client, {"kind": "tune", "rules": rules, "line": 2})["result"]
    tuned = f"fix DATE at tokens /.*/  [penalty {curve['best']} per violation]" if curve["best"] else None
    assert result["best"] == "tuned" and [row["rule"] for row in result["rules"]] == [tuned]
    assert f1[0] == pytest.approx(client.ok("/evaluate", {"data": "sample", "rules": "present TITLE\n"})["all"]["f1"])
    assert f1[4] == pytest.approx(client.ok("/evaluate", {"data": "sample", "rules": rules})["all"]["f1"])


def test_all_rules_are_tuned(client: Client) -> None:
    job = finished(client, {"kind": "tune", "rules": "starts with AUTHOR\nforbid DATE\n"})
    assert [(row["line"], row["choice"]) for row in job["result"]["rules"]] == [(1, "hard"), (2, "off")]


@pytest.mark.slow
def test_rules_are_learned_that_add_something(client: Client) -> None:
    job = finished(client, {"kind": "learn", "rules": "starts with AUTHOR\n"})
    assert job["state"] == "done", job
    rules = job["result"]["rules"]
    assert rules and all(row["effect"]["gain"]["gain"] > 0 for row in rules)
    best = rules[0]["rule"]
    before = client.ok("/evaluate", {"data": "sample", "rules": "starts with AUTHOR\n"})
    after = client.ok("/evaluate", {"data": "sample", "rules": f"starts with AUTHOR\n{best}\n"})
    assert sum(before["errors"]) - sum(after["errors"]) == rules[0]["effect"]["right"] - rules[0]["effect"]["wrong"]


def test_a_job_can_be_stopped_and_is_the_only_one(client: Client) -> None:
    job = client.ok("/jobs", {"kind": "learn", "data": "sample", "rules": ""})
    client.error("/jobs", {"kind": "learn", "data": "sample"}, 409, "busy")
    client.ok("/jobs/state", {"job": job["job"], "stop": True})
    job = client.ok("/jobs", {"kind": "learn", "data": "sample", "rules": ""})  # waits for the end of the other one
    client.ok("/jobs/state", {"job": job["job"], "stop": True})
    ends = time.monotonic() + patience(20)
    while (state := client.ok("/jobs/state", {"job": job["job"]})["state"]) == "running" and time.monotonic() < ends:
        time.sleep(0.02)
    assert state == "stopped"
    client.error("/jobs/state", {"job": "x"}, 404, "unknown-job")
