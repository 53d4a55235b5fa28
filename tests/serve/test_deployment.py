"""The examples of deployment in docs/serve.md: their commands start a server, and their probes are answered."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import signal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import Cli
from serving import service_of

PAGE = (Path(__file__).parents[2] / "docs/serve.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """Return the block of the page in this language."""
    match = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match[1]


def docker_words() -> list[str]:
    words: list[str] = json.loads(re.search(r"^CMD (.*)$", block("dockerfile"), re.MULTILINE)[1])  # type: ignore[index]
    return words


def kubernetes() -> dict[str, Any]:
    deployment, service = yaml.safe_load_all(block("yaml"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
    places = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(Path(word).parent) for word in container["args"] if word.startswith("/srv")} == places
    return dict(container)


def systemd() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    return unit["Service"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["systemd", "docker", "kubernetes"])
def test_the_command_starts_a_server(run: Cli, tmp_path: Path, kind: str) -> None:
    words = {
        "systemd": shlex.split(systemd()["ExecStart"])[1:],
        "docker": docker_words(),
        "kubernetes": kubernetes()["args"],
    }[kind]
    service = service_of()
    service.tagger.save(tmp_path / "refs.bridle", notes=service.tagger.notes_)
    (tmp_path / "my.rules").write_text(service.default.text, encoding="utf-8")
    here = [str(tmp_path / Path(word).name) if word.startswith("/srv/") else word for word in words]
    process = run.start(*here, "--port", "0", env={"BRIDLE_TOKEN": "secret"})
    try:
        assert process.stderr is not None
        lines = iter(process.stderr)
        port = next(int(match[1]) for line in lines if (match := re.search(r":(\d+)/ ", line.decode())))
        container = kubernetes()
        paths = [container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")]
        assert paths == ["/ready", "/health"] and "/health" in block("dockerfile")
        for path in paths:
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path, headers={"Host": "10.1.2.3:8000"} if kind == "kubernetes" else {})
            assert connection.getresponse().status == 200
            connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
