"""The demonstration: the scores are such that the rules have something to do, and the answer is the book's."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

import bridle
from bridle import demo


def test_the_rules_mend_the_sentence() -> None:
    story = demo.tell(copies=3)
    best, plain = story.explanation.best, story.explanation.plain
    assert best.labels == "A0 O A1 A1 A2 A2 A2 AM-LOC AM-LOC AM-LOC O".split()  # noqa: SIM905
    assert best.optimal and best.bound == best.score < plain.score
    assert len([bite for bite in story.explanation.bites if bite.broken_by_plain and bite.price > 0]) == 4
    rules = [bridle.rules.parse(text) for text in demo.RULES]
    assert bridle.check(demo.lattice(), rules, best, demo.GIVEN).ok
    assert np.allclose(np.sum(demo.SCORES, axis=1), 1.0)


def test_it_fits_in_100_columns() -> None:
    for terminal in (False, True):
        file = io.StringIO()
        demo.show(demo.tell(copies=3), Console(file=file, width=100, force_terminal=terminal, color_system=None))
        text = file.getvalue()
        assert max(map(len, text.splitlines())) <= 100
        for said in ("daughter-in-law", "A1 -> A2", "no duplicates of A0", "proved optimal", "microseconds"):
            assert said in text
