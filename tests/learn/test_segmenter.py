"""Segmenter: its scores against their definition, decoding against enumeration, dictionaries, rules and files."""

from __future__ import annotations

import copy
import math
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
from bridle.errors import BridleError, Infeasible, ModelError, ModelFileError
from bridle.learn import DeterministicRules
from bridle.learn.segmenter import Segmenter
from bridle.learn.word_scores import WordCounts, labels_of, spans_of, word_scores
from commands import Cli

LETTERS = "abcdef"


def corpus(seed: int, count: int = 150) -> list[list[str]]:
    """Words of one to four letters, some of them frequent."""
    rng = np.random.default_rng(seed)
    lexicon = ["".join(rng.choice([*LETTERS], size=n)) for n in (1, 1, 1, 2, 2, 2, 2, 3, 3, 4)]
    draw = np.random.default_rng(seed + 1)
    return [[lexicon[k % 10] for k in draw.zipf(1.6, size=draw.integers(1, 7))] for _ in range(count)]


def value(count: int) -> int:
    return math.floor(5 * math.log(count)) + 1 if count else 0


def by_definition(segmenter: Segmenter, text: str, words: list[str], counts: Counter[str]) -> float:
    """The score of words, written down slowly."""
    batch = segmenter.linear_.scores(segmenter.features_.encode([{"char": [*text]}]))
    unary, names = batch[0].unary.astype(float), segmenter.labels_.names
    total = sum(float(unary[t, names.index(y)]) for t, y in enumerate(labels_of(words, segmenter.scheme)))
    if segmenter.counts == "none":
        return total
    own, (left, right) = segmenter._weights[:4], segmenter._weights[4:]
    most = len(left) - 2
    for s, e in spans_of(words):
        total += own[min(e - s, 4) - 1, min(value(counts[text[s:e]]), most)]
        total += left[min(value(counts[text[s - 1 : s + 1]]), most)] if s else 0.0
        total += right[min(value(counts[text[e - 1 : e + 1]]), most)] if e < len(text) else 0.0
    return total


def cuts(text: str) -> list[list[str]]:
    """All ways to cut a text into words."""
    chosen = (at for size in range(len(text)) for at in combinations(range(1, len(text)), size))
    return [[text[a:b] for a, b in pairwise([0, *at, len(text)])] for at in chosen]


@pytest.mark.parametrize("scheme", ["BMES", "IB"])
@pytest.mark.parametrize("counts", ["words", "none"])
@pytest.mark.parametrize("training", ["stacked", "joint"])
def test_it_finds_the_best_words_of_all(scheme: Any, counts: Any, training: Any) -> None:
    sentences = corpus(3)
    segmenter = Segmenter(scheme=scheme, counts=counts, training=training, iterations=3).fit(sentences)
    known = Counter(word for words in sentences for word in words)
    rng = np.random.default_rng(7)
    for _ in range(12):
        text = "".join(rng.choice([*LETTERS], size=int(rng.integers(1, 8))))
        best = max(by_definition(segmenter, text, words, known) for words in cuts(text))
        for engine in ("auto", "ilp"):
            d = segmenter.decode([text], engine=engine)[0]
            assert d.optimal and d.score == pytest.approx(best, abs=1e-4)
            words = [text[s:e] for s, e in d.words]
            assert by_definition(segmenter, text, words, known) == pytest.approx(best, abs=1e-4)


def test_training_counts_the_other_sentences() -> None:
    """Count a word that only one sentence has as unknown there, as it would be in new text."""
    counts = WordCounts.of([["ab", "c"], ["c", "c"]], 5)
    whole, held_out = counts.ask("abc"), counts.ask("abc", Counter(["ab", "c"]))
    assert whole.at.tolist() == [[0, 1], [2, 0]] and whole.own.tolist() == [value(1), value(3)]
    assert held_out.at.tolist() == [[2, 0]] and held_out.own.tolist() == [value(2)]
    assert whole.between.tolist() == [-1, value(1), 0, -1] and held_out.between.tolist() == [-1, 0, 0, -1]


def test_word_scores_by_hand() -> None:
    unary = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])
    table = word_scores(unary, ["B", "E", "M", "S"], 9)
    assert table[0].tolist() == [4, 1 + 6, 1 + 7 + 10] and table[1].tolist() == [8, 5 + 10, -np.inf]
    both = word_scores(unary[:, :2], ["B", "I"], 2, "IB")
    assert both.tolist() == [[1, 1 + 6], [5, 5 + 10], [9, -np.inf]]
    assert word_scores(unary[:0], ["B", "I"], 2, "IB").shape == (0, 0)


def test_a_label_that_training_does_not_have() -> None:
    table = word_scores(np.array([[1.0, 2.0, 4.0]] * 3), ["B", "E", "S"], 3)
    assert table.tolist() == [[4.0, 3.0], [4.0, 3.0], [4.0, -np.inf]]


WORDS = st.lists(st.text("甲乙丙", min_size=1, max_size=4), min_size=1, max_size=5)


@given(WORDS, st.integers(0, 2**32 - 1))
def test_the_score_of_words_is_that_of_their_labels(words: list[str], seed: int) -> None:
    names = ["B", "E", "M", "S"]
    n = sum(map(len, words))
    unary = np.random.default_rng(seed).normal(size=(n, 4))
    table = word_scores(unary, names, n)
    by_words = sum(table[s, e - s - 1] for s, e in spans_of(words))
    by_labels = sum(unary[t, names.index(y)] for t, y in enumerate(labels_of(words, "BMES")))
    assert by_words == pytest.approx(by_labels)


@given(WORDS, st.integers(0, 2**32 - 1))
def test_the_best_words_are_the_best_well_formed_labels(words: list[str], seed: int) -> None:
    labels = bridle.Labels(["B", "E", "M", "S"], scheme="BMES")
    unary = np.random.default_rng(seed).normal(size=(sum(map(len, words)), 4))
    table = word_scores(unary, list(labels.names), len(unary))
    best = bridle.SpanDecoder().decode(bridle.SpanLattice.all_words(len(unary), table))
    tags = bridle.Decoder(labels, [bridle.rules.well_formed()]).decode(bridle.Lattice(unary))
    assert best.score == pytest.approx(tags.score)


@pytest.mark.parametrize("training", ["stacked", "joint"])
def test_it_learns(training: Any) -> None:
    train, test = corpus(11, 300), corpus(11, 400)[300:]
    assert Segmenter(training=training, iterations=5).fit(train).score(test).f1 > 0.9
    judged = Segmenter(training=training, iterations=4).fit(train, dev=test)
    assert judged.progress_.best_score == judged.score(test).f1


def test_a_dictionary_and_rules() -> None:
    segmenter = Segmenter(iterations=3).fit(corpus(3))
    text = "fedcba"
    before = segmenter.decode([text])[0]
    words = segmenter.segment(text)
    rule = f'forbid WORD at tokens "{words[0]}"'
    after = segmenter.segment(text, [rule])
    assert "".join(after) == text and words[0] not in after
    assert segmenter.decode([text], [rule])[0].score <= before.score
    with pytest.raises(Infeasible):
        segmenter.segment("a", ['forbid WORD at tokens "a"'])
    long = "fedcba" * 5
    assert segmenter.add_words([long], count=10**6)._longest == 30
    assert len(segmenter.lattices([long])[0]) == 30 * 31 // 2
    with pytest.raises(ModelError, match="no counts of words"):
        Segmenter(counts="none", iterations=1).fit(corpus(3)).add_words(["ab"])


def test_white_space_separates_words() -> None:
    segmenter = Segmenter(iterations=3).fit(corpus(3))
    assert segmenter.segment("") == segmenter.segment(" \t") == []
    pieces = [segmenter.segment(piece) for piece in ("fedc", "bafe")]
    assert segmenter.segment(" fedc\u3000bafe\n") == pieces[0] + pieces[1]
    assert segmenter.segment_all([]) == []


def test_pruning_leaves_out_words_that_cross_a_known_beginning() -> None:
    sentences = corpus(3, 300)
    segmenter = Segmenter(prune=DeterministicRules("characters", cutoff=3), iterations=3).fit(sentences)
    assert segmenter.rules_ is not None
    texts = ["".join(words) for words in sentences[:40]]
    decided = segmenter.rules_.decide([{"char": [*text]} for text in texts]).names()
    left_out = 0
    for text, lattice, its in zip(texts, segmenter.lattices(texts), decided, strict=True):
        known = [t for t, label in enumerate(its) if label == "B"]
        assert not any(s < t < e for s, e in lattice.spans.tolist() for t in known)
        left_out += len(text) * (len(text) + 1) // 2 - len(lattice)
    assert left_out > 0


@pytest.mark.parametrize(
    "settings", [{}, {"scheme": "IB", "counts": "none"}, {"prune": DeterministicRules("characters")}]
)
def test_files(settings: dict[str, Any], tmp_path: Path) -> None:
    sentences = corpus(3)
    segmenter = Segmenter(iterations=2, **settings).fit(sentences)
    segmenter.save(tmp_path / "s")
    again = Segmenter.load(tmp_path / "s")
    texts = ["".join(words) for words in sentences[:30]]
    assert again.segment_all(texts) == segmenter.segment_all(texts) == segmenter.segment_all(texts, threads=2)
    assert copy.deepcopy(again).segment_all(texts) == again.segment_all(texts)
    with pytest.raises(ModelFileError, match="Segmenter"):
        bridle.load(tmp_path / "s")


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        ({"scheme": "BIO"}, [["ab"]]),
        ({"counts": 3}, [["ab"]]),
        ({"prune": 3}, [["ab"]]),
        ({"iterations": 0}, [["ab"]]),
        ({}, []),
        ({}, [[]]),
        ({}, ["ab"]),
        ({}, [["a b"]]),
        ({}, [["a", ""]]),
        ({}, [["a", None]]),
    ],
)
def test_bad_input(settings: dict[str, Any], sentences: Any) -> None:
    with pytest.raises(BridleError):
        Segmenter(**settings).fit(sentences)


def test_bad_use() -> None:
    with pytest.raises(ModelError):
        Segmenter().segment("ab")
    with pytest.raises(ModelError, match="not a string"):
        Segmenter(iterations=1).fit([["ab", "c"]] * 3).segment_all(["a", None])  # type: ignore[list-item]


def test_the_command_line(run: Cli, tmp_path: Path) -> None:
    sentences = corpus(3, 200)
    (tmp_path / "train.txt").write_text("".join(" ".join(words) + "\n" for words in sentences))
    (tmp_path / "new.txt").write_text("".join("".join(words) + "\n" for words in sentences[:50]) + "\nab cd\n")
    model, out = tmp_path / "w.seg", tmp_path / "out.txt"
    train = ["train", tmp_path / "train.txt", "-o", model, "--task", "segmentation"]
    result = run.ok(*train, "--iterations", 3, "--dev", tmp_path / "train.txt")
    assert "200 sentences" in result.stderr and "best F1 of words" in result.stderr
    run.ok("tag", model, tmp_path / "new.txt", "-o", out)
    lines = out.read_text().split("\n")
    assert [line.replace(" ", "") for line in lines[:50]] == ["".join(words) for words in sentences[:50]]
    assert lines[50] == "" and lines[51].startswith(("a b ", "ab ")) and len(lines) == 53
    (tmp_path / "one.rules").write_text('forbid WORD at tokens "ab"\n')
    tagged = run.stdout("tag", model, "-", "--rules", tmp_path / "one.rules", "--engine", "ilp", stdin="ab\n")
    assert tagged == "a b\n"
    assert "--k has no effect with a segmenter" in run.ok("tag", model, out, "--k", 2, code=2).stderr
    assert "--c2 has no effect with --task segmentation" in run.ok(*train, "--c2", 1, code=2).stderr
    assert "a segmenter, use bridle.Segmenter.load" in run.ok("info", model, code=2).stderr
