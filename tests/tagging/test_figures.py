"""Figures beside labels: a new one is in tables, in JSON and in answers of the service at once."""

from __future__ import annotations

import json
import runpy

import pyarrow as pa
import pytest

import bridle
from bridle.arrow import Tag
from bridle.data.base import format_named
from bridle.serve import schemas
from bridle.tagging import Block, tag
from bridle.tagging.arrow import Layout
from bridle.tagging.figures import FIGURES, Figure, figures_of, want_of

MODEL = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "met", "Bob"]] * 3, [["PER", "O", "PER"]] * 3)


def test_options_add_figures_and_these_name_the_work() -> None:
    assert figures_of(scores=False, k=False) == ()
    assert figures_of(scores=True, k=False) == ("score", "bound", "probabilities")
    assert want_of(figures_of(scores=True, k=True)) == ["probabilities", "k_best"]


def test_a_new_figure_needs_no_other_change(monkeypatch: pytest.MonkeyPatch) -> None:
    least = Figure(
        "scores",
        "probabilities",
        lambda arrow: arrow.float64(),
        lambda arrow, outcomes: arrow.array([min(FIGURES["probabilities"].value(outcomes, 0))]),
        lambda outcomes, row: min(FIGURES["probabilities"].value(outcomes, row)),
        float,
    )
    monkeypatch.setitem(FIGURES, "least", least)
    free = Figure(
        "scores",
        None,
        lambda arrow: arrow.int64(),
        lambda arrow, outcomes: arrow.array(range(len(outcomes))),
        lambda outcomes, row: row,
        int,
    )
    monkeypatch.setitem(FIGURES, "free", free)  # needs no work of its own
    [row] = Tag(MODEL, scores=True)(pa.table({"tokens": [["Ann", "met"]]})).to_pylist()
    assert row["least"] == min(row["probabilities"])
    assert row["free"] == 0
    outcomes = tag(Block(1, sequences=[["Ann", "met"]]), MODEL, MODEL.decoder(), want=["probabilities"])
    record = outcomes.record(0)
    assert (record["least"], record["free"]) == (row["least"], 0)
    lines = format_named("jsonl", {}).encode_rows(
        Block(1), outcomes, 1, Layout(figures=figures_of(scores=True, k=False))
    )
    assert json.loads(lines)["least"] == row["least"]
    assert set(FIGURES) <= set(runpy.run_path(schemas.__file__)["Result"].__struct_fields__)
