"""Counts by ids, sequence by sequence, are those of `score`."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from bridle.errors import LabelError
from bridle.report import score
from bridle.report.sequences import GoldCounts
from strategies import seeds

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
