"""Properties of all integrations: they import, their examples run, and `import bridle` needs none of them."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import bridle.integrations

NAMES = [node.name for node in pkgutil.walk_packages(bridle.integrations.__path__, "bridle.integrations.")]
ELSEWHERE = ("bridle.integrations.ray", "bridle.integrations.spark")  # by tests/heavy/distributed


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(ELSEWHERE)])
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_bridle_alone_imports_no_other_system() -> None:
    code = "import sys, bridle, bridle.cli; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "bridle" in loaded
    assert not loaded & {"torch", "transformers", "spacy", "onnxruntime", "gliner", "presidio_analyzer", "pandas"}
