"""A real Label Studio with `bridle serve` as its backend: predictions, an annotation, its correction, a rule from that.

`make test-annotation-tools` installs Label Studio in its own environment, and sets BRIDLE_LABEL_STUDIO to its command.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bridle.data import read
from commands import Cli
from serving import service_of
from tests.heavy.annotation.conftest import command, free_port, ok, until

CONFIG = """<View>
  <Labels name="field" toName="reference">
    <Label value="AUTHOR"/><Label value="TITLE"/><Label value="VENUE"/><Label value="VOLUME"/><Label value="PAGES"/>
    <Label value="PUBLISHER"/><Label value="DATE"/>
  </Labels>
  <Text name="reference" value="$text"/>
</View>"""
SETTINGS = {  # what docs/serve.md says: loopback is allowed, and private networks stay refused
    "USE_DEFAULT_BANNED_SUBNETS": "false",
    "USER_ADDITIONAL_BANNED_SUBNETS": "10.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.168.0.0/16,fc00::/7,fe80::/10",
}
QUIET = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
COUNT = 60  # tasks


@contextmanager
def label_studio(folder: Path, **settings: str) -> Iterator[httpx.Client]:
    """Start Label Studio; return a client with the token of its user."""
    program, port, token = command("BRIDLE_LABEL_STUDIO", "label-studio"), free_port(), secrets.token_hex(20)
    words = ["start", "--no-browser", "--data-dir", folder, "--port", port, "--internal-host", "127.0.0.1"]
    words += ["--username", "annotator@example.org", "--password", secrets.token_hex(8), "--user-token", token]
    words += ["--enable-legacy-api-token"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *map(str, words)], env={**os.environ, **QUIET, **settings}, stdout=log, stderr=log, cwd=folder
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                client.headers["Authorization"] = f"Token {token}"
                until(lambda: _answers(client, process), 300)
                yield client
        finally:
            process.kill()
            process.wait(30)


def _answers(client: httpx.Client, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Label Studio did not start"
    return client.get("/api/projects/").status_code == 200


@contextmanager
def backend(run: Cli, folder: Path) -> Iterator[httpx.Client]:
    """Run `bridle serve` on the embedded references."""
    service = service_of()
    service.tagger.save(folder / "refs.bridle", notes=service.tagger.notes_)
    (folder / "my.rules").write_text(service.default.text, encoding="utf-8")
    words = [folder / "refs.bridle", "--rules", folder / "my.rules", "--corrections", folder / "corrections.jsonl"]
    process = run.start("serve", *words, "--port", "0")
    assert process.stderr is not None
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        address = next(m.group() for line in process.stderr if (m := re.search(r"http://[\d.:]+", line.decode())))
        reader.start()
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)
        reader.join(10)
        process.stderr.close()


def test_a_correction_in_label_studio_becomes_a_rule(run: Cli, tmp_path: Path) -> None:
    sample = [example for example in service_of().sample if example.text][:COUNT]
    with backend(run, tmp_path) as bridle, label_studio(tmp_path, **SETTINGS) as studio:
        # a project, its tasks, and the two addresses that docs/serve.md names
        project = ok(studio.post("/api/projects/", json={"title": "References", "label_config": CONFIG}))["id"]
        tasks = [{"text": example.text} for example in sample]
        assert ok(studio.post(f"/api/projects/{project}/import", json=tasks))["task_count"] == COUNT
        address = str(bridle.base_url)
        connected = ok(studio.post("/api/ml", json={"url": address, "project": project, "title": "Bridle"}))
        assert connected["state"] == "CO", connected
        hook = {"url": f"{address}/webhook", "project": project, "send_payload": True, "send_for_all_actions": True}
        ok(studio.post("/api/webhooks/", json=hook))

        # predictions arrive, and are those of POST /tag
        chosen = {"selectedItems": {"all": True, "excluded": []}}
        ok(studio.post(f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}", json=chosen))

        def predicted() -> list[Any]:
            query = {"project": project, "fields": "all", "page_size": COUNT}
            listed: list[Any] = ok(studio.get("/api/tasks/", params=query))["tasks"]
            return listed

        until(lambda: all(task["predictions"] for task in predicted()))
        predictions = predicted()
        texts = [task["data"]["text"] for task in predictions]
        answers = ok(bridle.post("/tag", json={"texts": texts, "spans": True, "tokens_out": True}))["results"]
        plain = ok(bridle.post("/tag", json={"texts": texts, "rule_set": "none"}))["results"]
        for task, answer, before in zip(predictions, answers, plain, strict=True):
            (prediction,) = task["predictions"]
            regions = [(x["value"]["start"], x["value"]["end"], x["value"]["labels"]) for x in prediction["result"]]
            assert regions == [(span["start"], span["end"], [span["label"]]) for span in answer["spans"]]
            assert (prediction["score"] < 0) == (answer["labels"] != before["labels"])  # those that rules changed first
            assert all(0 <= region["score"] <= 1 for region in prediction["result"])

        # an annotator corrects a prediction: the first task that still has a wrong token
        gold = {example.text: list(example.labels or ()) for example in sample}
        task, answer = next(
            (task, answer)
            for task, answer in zip(predictions, answers, strict=True)
            if answer["labels"] != gold[task["data"]["text"]]
        )
        labels = gold[task["data"]["text"]]
        result = regions_of(service_of().split(task["data"]["text"])[1], labels, task["data"]["text"])
        done = ok(studio.post(f"/api/tasks/{task['id']}/annotations/", json={"result": result, "lead_time": 3.2}))
        corrections = tmp_path / "corrections.jsonl"
        until(lambda: corrections.stat().st_size > 0)
        options = {"key": "text", "scheme": "IO", "tokens": "references"}
        (stored,) = read(corrections, "labelstudio", **options)
        assert (stored.text, list(stored.labels or ())) == (task["data"]["text"], labels)

        # what Label Studio exports says the same, and a rule repairs the label
        export = studio.get(f"/api/projects/{project}/export", params={"exportType": "JSON"})
        (tmp_path / "export.json").write_bytes(export.content)
        (exported,) = read(tmp_path / "export.json", "labelstudio", **options)
        assert list(exported.labels or ()) == labels
        at = next(t for t, (y, z) in enumerate(zip(answer["labels"], labels, strict=True)) if y != z)
        sent = {"name": corrections.name, "text": corrections.read_text(), "format": "labelstudio", "options": options}
        data = ok(bridle.post("/data", json=sent))["id"]
        question = {"columns": {"word": answer["tokens"]}, "at": [at, at + 1], "label": labels[at], "data": data}
        suggestions = ok(bridle.post("/suggest", json=question))["suggestions"]
        assert suggestions and suggestions[0]["effect"]["right"] > 0
        rules = (tmp_path / "my.rules").read_text(encoding="utf-8") + suggestions[0]["rule"]
        repaired = ok(bridle.post("/tag", json={"tokens": [answer["tokens"]], "rules": rules}))["results"][0]["labels"]
        assert repaired[at] == labels[at]

        # an annotation that is deleted is no correction any more
        assert studio.delete(f"/api/annotations/{done['id']}/").is_success
        until(lambda: not corrections.stat().st_size)


def regions_of(offsets: list[tuple[int, int]], labels: list[str], text: str) -> list[dict[str, Any]]:
    """Return labels as the regions of an annotation."""
    regions = []
    for segment in service_of().span_labels.segments(labels):
        start, end = offsets[segment.start][0], offsets[segment.end - 1][1]
        value = {"start": start, "end": end, "text": text[start:end], "labels": [segment.type]}
        names = {"from_name": "field", "to_name": "reference", "type": "labels"}
        regions.append({"id": f"r{segment.start}", **names, "value": value})
    return regions


def test_without_the_settings_the_backend_is_refused(run: Cli, tmp_path: Path) -> None:
    with backend(run, tmp_path) as bridle, label_studio(tmp_path) as studio:
        project = ok(studio.post("/api/projects/", json={"title": "References", "label_config": CONFIG}))["id"]
        refused = studio.post("/api/ml", json={"url": str(bridle.base_url), "project": project})
        assert refused.status_code == 403 and "reserved network address" in json.dumps(refused.json())
