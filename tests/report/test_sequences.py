"""Figures of single sequences, of two labellings or by ids against gold: they add up to the counts of `score`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from bridle import FileError, Labels
from bridle.errors import LabelError
from bridle.report import score
from bridle.report.plots import draw_bars
from bridle.report.sequences import GoldCounts, SequenceScores
from strategies import seeds

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
    result = scores_of(Labels(["A", "B"]), [], [])
    assert len(result) == 0
    assert result.to_dict() == {"exact": 0.0, "f1": 0.0, "accuracy": 0.0, "quality": 0.0}


def test_bars_are_drawn(tmp_path) -> None:  # type: ignore[no-untyped-def]
    draw_bars(tmp_path / "bars.svg", [("at most 1 of $A$", 1.0), ("x" * 90, -0.5)], "points")
    assert (tmp_path / "bars.svg").read_text().startswith("<?xml")
    with pytest.raises(FileError, match="cannot draw this file"):
        draw_bars(tmp_path / "bars.odd", [("a", 1.0)], "points")


# ---- gold labels, counted by ids -------------------------------------------------------------------------------------

NAMES = {
    None: ["O", "A", "B"],
    "IO": ["O", "A", "I-B"],
    "BIO": ["O", "B-A", "I-A", "I-B"],
    "BIOES": ["O", "B-A", "I-A", "E-A", "S-B"],
    "BMES": ["B", "M", "E", "S"],
}
MORE = {None: "X", "IO": "X", "BIO": "B-X", "BIOES": "S-X", "BMES": "S-X"}


def random_gold(rng: Generator, names: list[str], sizes: list[int]) -> list[list[str | None]]:
    pool = [*names, None] if rng.random() < 0.5 else names
    return [[pool[int(k)] for k in rng.integers(len(pool), size=n)] for n in sizes]


@pytest.mark.parametrize("scheme", NAMES)
def test_the_same_as_score(scheme: str | None) -> None:
    names = NAMES[scheme]
    for rng in seeds(40, key=73):
        sizes = rng.integers(0, 6, size=8).tolist()
        gold = random_gold(rng, [*names, MORE[scheme]], sizes)
        ids = rng.integers(len(names), size=sum(sizes))
        guessed = [[names[y] for y in part] for part in np.split(ids, np.cumsum(sizes)[:-1])]
        wanted, counts = score(gold, guessed, scheme), GoldCounts(gold, names, scheme)
        assert counts.shares(counts.counts(ids).sum(axis=0)) == (wanted.accuracy, wanted.segments.f1, wanted.exact)
        assert (counts.tokens, counts.segments) == (wanted.tokens, wanted.segments.gold)
        assert int(counts.counted.sum()) == wanted.sequences
        some = np.flatnonzero(rng.random(8) < 0.5)
        its = np.concatenate([np.zeros(0, dtype=np.int64), *(np.split(ids, np.cumsum(sizes)[:-1])[b] for b in some)])
        assert (counts.counts(its, some) == counts.counts(ids)[some]).all()


def test_no_answer_is_never_right() -> None:
    counts = GoldCounts([["O", "A"], ["O"]], ["O", "A"], "IO")
    assert counts.counts(np.array([-1, -1, 0])).tolist() == [[0, 0, 0, 0], [1, 1, 0, 0]]
    wanted = score([["O", "A"], ["O"]], [["_", "_"], ["O"]], "IO")
    assert counts.shares(np.array([1, 1, 0, 0])) == (wanted.accuracy, wanted.segments.f1, wanted.exact)


def test_labels_must_fit_the_scheme() -> None:
    with pytest.raises(LabelError, match="does not fit the scheme BIO"):
        GoldCounts([["strange"]], ["O", "B-A"], "BIO")
