"""A real doccano: predictions are imported, one is corrected, and the export is read as it was labelled.

`make test-annotation-tools` installs doccano in an environment of its own and sets BRIDLE_DOCCANO to its command.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bridle.data import read
from commands import Cli
from serving import service_of
from tests.heavy.annotation.conftest import command, free_port, ok, until

OPTIONS = {"scheme": "IO", "tokens": "references"}


@contextmanager
def doccano(folder: Path) -> Iterator[httpx.Client]:
    """Start doccano, and the process that does its imports and exports; return a client that has logged in."""
    program, port = command("BRIDLE_DOCCANO", "doccano"), free_port()
    more = {"env": {**os.environ, "HOME": str(folder)}, "cwd": folder}
    with (folder / "log").open("wb") as log:
        more |= {"stdout": log, "stderr": log}
        user = {"username": "admin", "password": "secret-password"}
        words = [word for name, value in user.items() for word in (f"--{name}", value)]
        subprocess.run([program, "init"], check=True, **more)  # type: ignore[call-overload]
        subprocess.run([program, "createuser", *words], check=True, **more)  # type: ignore[call-overload]
        starts = (["webserver", "--port", str(port)], ["task"])
        processes = [subprocess.Popen([program, *start], start_new_session=True, **more) for start in starts]  # type: ignore[call-overload]
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                until(lambda: client.post("/v1/auth/login/", json=user).is_success, 300)
                client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
                yield client
        finally:
            for process in processes:
                os.killpg(process.pid, 9)  # with its workers
                process.wait(30)


def finished(client: httpx.Client, task: str) -> Any:
    """Wait for an import or an export; return its result."""
    state = until(lambda: _ready(ok(client.get(f"/v1/tasks/status/{task}"))))
    assert state["error"] is None
    return state["result"]


def _ready(state: Any) -> Any:
    return state if state["ready"] else None


def test_predictions_are_corrected_and_read_back(run: Cli, tmp_path: Path) -> None:
    service = service_of()
    sample = [example for example in service.sample if example.text][:20]
    service.tagger.save(tmp_path / "refs.bridle", notes=service.tagger.notes_)
    (tmp_path / "my.rules").write_text(service.default.text, encoding="utf-8")
    (tmp_path / "new.txt").write_text("".join(f"{example.text}\n" for example in sample), encoding="utf-8")
    words = [tmp_path / "new.txt", "--rules", tmp_path / "my.rules", "--format", "text", "--to", "doccano"]
    run.ok("tag", tmp_path / "refs.bridle", *words, "-o", tmp_path / "tagged.jsonl")
    kind = {"project_type": "SequenceLabeling", "resourcetype": "SequenceLabelingProject"}
    (tmp_path / "home").mkdir()
    with doccano(tmp_path / "home") as client:
        project = (
            f"/v1/projects/{ok(client.post('/v1/projects', json={'name': 'x', 'description': 'x', **kind}))['id']}"
        )
        sent = {"filepond": ("tagged.jsonl", (tmp_path / "tagged.jsonl").read_bytes())}
        upload = client.post("/v1/fp/process/", files=sent).text.strip('"')
        form = {"format": "JSONL", "task": "SequenceLabeling", "uploadIds": [upload], "encoding": "utf_8"}
        columns = {"column_data": "text", "column_label": "label"}
        task = ok(client.post(f"{project}/upload", json={**form, **columns}))["task_id"]
        assert finished(client, task) == {"error": []}

        # an annotator removes a span
        examples = ok(client.get(f"{project}/examples", params={"limit": 100}))["results"]
        assert sorted(example["text"] for example in examples) == sorted(example.text or "" for example in sample)
        corrected = examples[0]
        spans = ok(client.get(f"{project}/examples/{corrected['id']}/spans"))
        assert client.delete(f"{project}/examples/{corrected['id']}/spans/{spans[0]['id']}").is_success

        task = ok(client.post(f"{project}/download", json={"format": "JSONL", "exportApproved": False}))["task_id"]
        finished(client, task)
        export = client.get(f"{project}/download", params={"taskId": task}).content
    with zipfile.ZipFile(io.BytesIO(export)) as archive:
        (tmp_path / "export.jsonl").write_bytes(b"".join(map(archive.read, archive.namelist())))
    before, after = (
        {example.text: list(example.labels or ()) for example in read(tmp_path / name, "doccano", **OPTIONS)}
        for name in ("tagged.jsonl", "export.jsonl")
    )
    text = corrected["text"]
    assert after.keys() == before.keys() and [key for key in after if after[key] != before[key]] == [text]
    gone = [y for y, z in zip(before[text], after[text], strict=True) if y != z]
    assert len(set(gone)) == 1 and after[text].count("O") == before[text].count("O") + len(gone)
    run.ok("train", tmp_path / "export.jsonl", "-o", tmp_path / "next.bridle", "--format", "doccano", "--iterations", 3)
    assert json.loads((tmp_path / "export.jsonl").read_text().splitlines()[0])["text"]
