"""Properties of all integrations: they import, their examples run, and `import bridle` needs none of them."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import spacy

import bridle.integrations
from bridle.arrow import Tag
from bridle.integrations import crfsuite, presidio, sklearn, transformers
from tests.heavy.integrations.tiny_models import bert, word_piece

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


UNKNOWN = ["at most 1 segment of TITEL"]
MODEL = bridle.CRF(features=["word[0]"]).fit([["a", "b"]], [["TITLE", "O"]])
FEATURES = bridle.CRF(features=None).fit([[["a"], ["b"]]], [["TITLE", "O"]])


def add_tagger(rules: list[str]) -> Any:
    MODEL.save(path := "m.bridle")
    return spacy.blank("en").add_pipe("bridle_tagger", config={"model": path, "rules": rules})


def add_spans(rules: list[str]) -> Any:
    return spacy.blank("en").add_pipe("bridle_spans", config={"labels": ["TITLE"], "rules": rules})


@pytest.mark.parametrize(
    "build",
    [
        lambda rules: crfsuite.Tagger(FEATURES, rules=rules),
        lambda rules: presidio.resolve([], "", rules, labels=["TITLE"]),
        lambda rules: sklearn.scorer(rules=rules, labels=["O", "TITLE"]),
        lambda rules: transformers.pipeline(bert(["O", "TITLE"]), word_piece(), rules=rules),
        lambda rules: Tag(MODEL, rules),  # for rows of datasets, Spark and Ray
        add_tagger,
        add_spans,
    ],
    ids=["crfsuite", "presidio", "sklearn", "transformers", "datasets", "bridle_tagger", "bridle_spans"],
)
def test_rules_about_unknown_labels_fail_at_construction(
    build: Callable[[list[str]], Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GLiNER, Spark and Ray have this test beside their others."""
    monkeypatch.chdir(tmp_path)
    build(["at most 1 segment of TITLE"])
    with pytest.raises(bridle.LabelError, match=r"unknown label .*got 'TITEL'; wanted one of .*TITLE"):
        build(UNKNOWN)
