"""Confusions of labels and errors of segments: counted, and against plain definitions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.labels import scheme_of
from bridle.report import SegmentErrors, score, scoring
from bridle.report.metrics import confusion_rows, confusions, most_confused

LABELS = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])
PAIRS = st.lists(st.lists(st.tuples(LABELS, LABELS), max_size=8), min_size=1, max_size=6)


def segments(labels: list[str]) -> list[tuple[int, int, str]]:
    """As conlleval cuts them, in plain words."""
    result = list[tuple[int, int, str]]()
    for t, label in enumerate(labels):
        tag, _, kind = label.partition("-")
        if tag == "O":
            continue
        if tag == "I" and t and labels[t - 1].partition("-")[2] == kind:
            result[-1] = (result[-1][0], t + 1, kind)
        else:
            result.append((t, t + 1, kind))
    return result


def plain(gold: list[str], guessed: list[str]) -> Counter[str]:
    """The definition of the fields, one segment at a time."""
    ours, theirs = segments(gold), segments(guessed)
    counts = Counter[str]()
    for start, end, kind in ours:
        over = [(a, b, other) for a, b, other in theirs if a < end and start < b]
        if (start, end, kind) in theirs:
            continue
        if any((a, b) == (start, end) for a, b, _ in over):
            counts["wrong_type"] += 1
        elif any(other == kind for *_, other in over):
            counts["wrong_boundary"] += 1
        else:
            counts["both" if over else "missed"] += 1
    counts["spurious"] += sum(all(b <= start or end <= a for a, b, _ in ours) for start, end, _ in theirs)
    return counts


@given(PAIRS, st.sampled_from([1, 3, 1 << 15]))
def test_errors_are_those_of_the_definition(pairs: list[list[tuple[str, str]]], at_once: int) -> None:
    gold, guessed = ([[pair[k] for pair in sequence] for sequence in pairs] for k in (0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "_AT_ONCE", at_once)
        result = score(gold, guessed, "BIO")
    wanted = sum((plain(a, b) for a, b in zip(gold, guessed, strict=True)), Counter[str]())
    assert result.segment_errors == SegmentErrors(**wanted)
    errors = result.segment_errors
    assert result.segments.gold == result.segments.correct + sum(errors.to_dict().values()) - errors.spurious
    table = Counter((a, b) for sequence in pairs for a, b in sequence)
    assert {(a, b): n for a, row in result.confusion.items() for b, n in row.items()} == table
    assert sum(n for *_, n in result.confusions()) == result.tokens - result.correct_tokens


def test_tables() -> None:
    table = {"A": {"A": 5, "B": 2}, "B": {"C": 2, "B": 1}, "C": {"C": 9}}
    assert confusions(table) == [("A", "B", 2), ("B", "C", 2)]
    assert most_confused(table, 2) == ["A", "B"] and most_confused(table, 9) == ["A", "B", "C"]
    assert list(confusion_rows(table, ["A", "B"])) == [[5, 2], [0, 1]]


def test_a_sequence_without_an_answer_spoils_no_scheme() -> None:
    result = score([["B-A", "I-A"], ["B-A", "O"]], [["_", "_"], ["B-A", "O"]])
    assert result.scheme == "prefixes" and result.segments.guessed == 1 and result.segment_errors.missed == 1
    assert result.correct_tokens == 2 and scheme_of(["B-A", "I-A"]) == "BIO"
