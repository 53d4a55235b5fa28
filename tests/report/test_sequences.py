"""Figures of single sequences: they add up to what `score` counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import FileError, Labels
from bridle.report import score
from bridle.report.plots import draw_bars
from bridle.report.sequences import SequenceScores

SCHEMES = {
    None: ["A", "B", "C"],
    "IO": ["O", "A", "B"],
    "BIO": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "BIOES": ["O", "B-X", "I-X", "E-X", "S-X"],
}


def scores_of(labels: Labels, gold: list[list[str]], guessed: list[list[str]]) -> SequenceScores:
    flat = [np.concatenate([labels.ids(y) for y in side] or [np.zeros(0, int)]).astype(int) for side in (gold, guessed)]
    return SequenceScores.of(labels, *flat, np.cumsum([0, *map(len, gold)]))


@given(st.sampled_from(list(SCHEMES)), st.data())
def test_counts_add_up_to_those_of_score(scheme: str | None, data: st.DataObject) -> None:
    labels = Labels(SCHEMES[scheme], scheme)  # type: ignore[arg-type]
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    draw = lambda n: data.draw(st.lists(st.sampled_from(SCHEMES[scheme]), min_size=n, max_size=n))  # noqa: E731
    gold, guessed = [draw(n) for n in lengths], [draw(n) for n in lengths]
    ours, theirs = scores_of(labels, gold, guessed), score(gold, guessed, scheme)
    assert ours.segments == theirs.segments
    assert int(ours.exact.sum()) == theirs.exact_sequences
    assert int(ours.right.sum()) == theirs.correct_tokens
    one_by_one = [score([a], [b], scheme) for a, b in zip(gold, guessed, strict=True)]
    wanted = [
        (float(s.exact) + (s.segments.f1 if s.segments.gold + s.segments.guessed else 1.0)) / 2 for s in one_by_one
    ]
    assert ours.quality.tolist() == pytest.approx(wanted)
    assert ours.to_dict()["quality"] == pytest.approx(np.mean(wanted))


def test_nothing_at_all() -> None:
    found = scores_of(Labels(["A", "B"]), [], [])
    assert len(found) == 0
    assert found.to_dict() == {"exact": 0.0, "f1": 0.0, "accuracy": 0.0, "quality": 0.0}


def test_bars_are_drawn(tmp_path) -> None:  # type: ignore[no-untyped-def]
    draw_bars(tmp_path / "bars.svg", [("at most 1 of $A$", 1.0), ("x" * 90, -0.5)], "points")
    assert (tmp_path / "bars.svg").read_text().startswith("<?xml")
    with pytest.raises(FileError, match="cannot draw this file"):
        draw_bars(tmp_path / "bars.odd", [("a", 1.0)], "points")
