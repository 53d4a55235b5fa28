"""docs/first_hour.sh, from a labelled file to a tagger with rules, as a user would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bridle

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_first_hour(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, words in {"bridle": "-m bridle ", "python": ""}.items():
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        command.chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(bridle.__file__).parents[1])}
    run = subprocess.run(
        ["bash", str(DOCS / "first_hour.sh"), str(tmp_path / "out")],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert "features: fields, because" in run.stderr  # what auto chose
    plain, ruled = (float(figure) for figure in re.findall(r"FB1: +(\d+\.\d+)\n", run.stdout) if figure)
    assert ruled > plain + 10
    page = (DOCS / "first_hour.md").read_text("utf-8")
    output = [float(figure) for figure in re.findall(r"(\d+\.\d) %", page)]
    assert output == pytest.approx([plain, ruled], abs=1.5)
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"report.html", "joint.rules", "learned.rules", "tagged.jsonl"} <= written
