"""Systems compared pair by pair: the figures of `score`, exact sign tests, bootstrap tests that do not overstate."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from numpy.random import Generator

from bridle.errors import LabelError
from bridle.report import RuleEffect, compare, score
from bridle.report.comparison import LabelledSequence
from bridle.report.significance import bootstrap_sums, holm, sign_test
from strategies import seeds

NAMES = {None: ["O", "A", "B"], "auto": ["O", "A", "B-A"], "BIO": ["O", "B-A", "I-A"], "BMES": ["B", "M", "E", "S"]}


def drawn(rng: Generator, names: list[str], sizes: list[int]) -> list[list[str]]:
    return [[names[int(y)] for y in rng.integers(len(names), size=n)] for n in sizes]


@pytest.mark.parametrize("scheme", NAMES)
def test_figures_are_those_of_score(scheme: str | None) -> None:
    for rng in seeds(20, key=31):
        sizes = rng.integers(0, 6, size=7).tolist()
        gold: list[list[str | None]] = [list(y) for y in drawn(rng, NAMES[scheme], sizes)]
        for labels in gold:
            if labels and rng.random() < 0.3:
                labels[0] = None
        systems = {name: drawn(rng, [*NAMES[scheme], "_"], sizes) for name in "abc"}
        comparison = compare(gold, systems, scheme, samples=20)
        for system, labels in zip(comparison.systems, systems.values(), strict=True):
            wanted = score(gold, labels, "prefixes" if comparison.scheme == "prefixes" else comparison.scheme)
            assert (system.exact, system.accuracy, system.segments) == (wanted.exact, wanted.accuracy, wanted.segments)
            assert system.f1 == pytest.approx(wanted.segments.f1)
            assert (comparison.sequences, comparison.tokens) == (wanted.sequences, wanted.tokens)
        known = [
            {tuple(z for y, z in zip(gold[b], x[b], strict=True) if y) for x in systems.values()} for b in range(7)
        ]
        assert list(comparison.differing) == [b for b in range(7) if len(known[b]) > 1]
        assert len(comparison.differences) == 9


def test_differences_count_sequences() -> None:
    gold = [["A", "B"], ["A", "B"], ["B", "B"], ["A", "A"]]
    first = [["A", "A"], ["A", "A"], ["B", "B"], ["B", "B"]]
    second = [["A", "B"], ["A", "B"], ["A", "B"], ["A", "B"]]
    by_measure = {d.measure: d for d in compare(gold, {"x": first, "y": second}).differences}
    exact, accuracy = by_measure["exact"], by_measure["accuracy"]
    assert (exact.better, exact.worse, exact.gain, exact.sign_p) == (2, 1, 0.25, 1.0)
    assert (accuracy.better, accuracy.worse, accuracy.gain) == (3, 1, 0.25)
    assert exact.low <= exact.gain <= exact.high and not exact.significant


def test_the_sign_test_is_exact() -> None:
    for n in range(1, 40):
        for k in range(n + 1):
            tail = sum(math.comb(n, j) for j in range(max(k, n - k), n + 1)) / 2**n
            assert sign_test(k, n - k) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)


def test_holm_keeps_the_first_of_many() -> None:
    """The corrected p of a test is the least level at which the step-down procedure rejects it."""
    for rng in seeds(50, key=5):
        tails = rng.random(6) ** 3
        corrected = holm(tails.tolist())
        for level in (0.01, 0.05, 0.3):
            rejected, left = set[int](), sorted(range(6), key=lambda i: tails[i])
            while left and tails[left[0]] * len(left) <= level:
                rejected.add(left.pop(0))
            assert rejected == {i for i, p in enumerate(corrected) if p <= level}
    assert holm([]) == []


def test_bootstrap_sums_are_sums_of_drawn_rows() -> None:
    columns = np.array([[1, 10], [1, 10], [1, 25]])
    sums = bootstrap_sums(columns, 3000, seed=1)
    assert (sums[:, 0] == 3).all() and set(np.unique(sums[:, 1])) == {30, 45, 60, 75}
    assert (sums[:, 1] == 75).mean() == pytest.approx(1 / 27, abs=0.02)
    assert sums.tolist() == bootstrap_sums(columns, 3000, seed=1).tolist()
    assert bootstrap_sums(np.zeros((0, 2), dtype=np.int64), 4, seed=0).tolist() == [[0, 0]] * 4


def test_equal_systems_seldom_differ() -> None:
    """Both tests together reject at most 5 % of differences that are chance; a large one is found."""
    rejected = 0
    for rng in seeds(200, key=17):
        right = rng.random((2, 60)) < [[0.6], [0.6]]
        systems = {name: [["A" if y else "B"] for y in row] for name, row in zip("xy", right, strict=True)}
        rejected += compare([["A"]] * 60, systems, samples=200).differences[0].significant
    assert rejected <= 14  # of 200: 10 are expected at most, 14 by chance once in ten
    better = {"x": [["A"]] * 30 + [["B"]] * 30, "y": [["A"]] * 45 + [["B"]] * 15}
    assert all(d.significant for d in compare([["A"]] * 60, better).differences)


def test_more_pairs_ask_for_more() -> None:
    systems = {"x": [["A"]] * 54 + [["B"]] * 6, "y": [["A"]] * 60}
    alone = compare([["A"]] * 60, systems).differences[0]
    assert alone.significant and alone.sign_p == pytest.approx(2 / 64)
    beside = compare([["A"]] * 60, {**systems, "z": systems["x"]}).differences[0]
    assert not beside.significant and beside.sign_p == pytest.approx(6 / 64)


def test_no_sequences_at_all() -> None:
    comparison = compare([], {"x": [], "y": []})
    assert comparison.sequences == 0 and not any(d.significant for d in comparison.differences)
    assert "0 sequences" in next(comparison.lines())


@pytest.mark.parametrize(
    ("systems", "options", "says"),
    [
        ({"x": [["A"]]}, {}, "nothing to compare; got 1 systems"),
        ({"x": [["A"]], "y": []}, {}, "as many labellings as in gold; got 0 by y; wanted 1"),
        ({"x": [["A"]], "y": [["A", "A"]]}, {}, "as many labels as in gold; got 2 by y; wanted 1"),
        ({"x": [["A"]], "y": ["A"]}, {}, "got 'A' by y"),
        ({"x": [["A"]], "y": [["B"]]}, {"samples": 0}, "bad option samples"),
        ({"x": [["A"]], "y": [["B"]]}, {"seed": -1}, "bad option seed"),
        ({"x": [["A"]], "y": [["B"]]}, {"scheme": "BOI"}, "unknown tagging scheme"),
        ({"x": [["A"]], "y": [["B"]]}, {"scheme": "BIO"}, "does not fit the scheme BIO"),
    ],
)
def test_what_does_not_fit(systems: dict[str, list[list[str]]], options: dict[str, int], says: str) -> None:
    with pytest.raises(LabelError, match=says):
        compare([["A"]], systems, **options)  # type: ignore[arg-type]


def test_lines_pages_and_json() -> None:
    gold, evil = [["A", "B"], ["A", "A"]], "<script>"
    labels = {"plain": [["A", "A"], ["A", "A"]], evil: [["A", "B"], ["A", "A"]]}
    comparison = compare(gold, labels).with_rules([RuleEffect(evil, "at most 1 token of A", 1, 1, 1, 0, 1)])
    text = "\n".join(comparison.lines())
    assert not any("\n" in line for line in comparison.lines())
    for part in ("2 sequences, 4 tokens; the systems differ in 1 of them", "plain        50.00%", "+50.00"):
        assert part in text
    sequences = [LabelledSequence("s0", ["u", "v"], gold[0], {name: y[0] for name, y in labels.items()})]
    html = comparison.page("Comparison", "x", sequences).html()
    assert "s0" in html and evil not in html and html.count('class="token wrong"') == 1
    document = json.loads(json.dumps(comparison.to_dict()))
    assert document["rules"][0]["helped"] == 1 and document["systems"][1]["exact"] == 1.0
    assert {"gain", "sign_p", "significant"} <= document["differences"][0].keys()
