"""Deterministic rules and the constrained tagger: against their definitions, written down slowly."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import Batch, Labels, _native
from bridle.errors import BridleError, LabelError, LatticeError, ModelError, ModelFileError
from bridle.learn import ConstrainedTagger, Decided, DeterministicRules
from bridle.learn.constrained import renumbered
from bridle.learn.deterministic import TEMPLATES

WORDS = ["the", "a", "cat", "dogs", "runs", "X-1", "of", "B2b", "trades", "in"]
TAGS = ["D", "N", "V", "P"]


def corpus(seed: int, sequences: int = 60) -> tuple[list[list[str]], list[list[str]]]:
    """Words whose tags depend on them and, now and then, on the word before."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(sequences):
        words = [WORDS[k] for k in rng.zipf(1.5, size=rng.integers(1, 9)) % len(WORDS)]
        tags = [TAGS[hash_of(word, before) % 4] for word, before in zip(words, ["", *words], strict=False)]
        for t in np.flatnonzero(rng.random(len(words)) < 0.02):
            tags[t] = TAGS[int(rng.integers(4))]
        X.append(words)
        y.append(tags)
    return X, y


def hash_of(word: str, before: str) -> int:
    return len(word) * 7 + ord(word[0]) + (5 if before == "the" and word in ("trades", "runs") else 0)


def morph_of(X: list[list[str]], y: list[list[str]], rare: int) -> dict[str, str]:
    count = Counter(word for words in X for word in words)
    tags = defaultdict(set)
    for words, labels in zip(X, y, strict=True):
        for word, label in zip(words, labels, strict=True):
            tags[word].add(label)
    return {word: "{" + ",".join(sorted(tags[word])) + "}" for word in count if count[word] >= rare}


def ending(word: str) -> str:
    flags = [("DIGIT", any(c.isdigit() for c in word)), ("HYPHEN", "-" in word), ("UPPER", word != word.lower())]
    return "+".join([f"-{word[-2:]}", *(name for name, there in flags if there)])


def contexts(words: list[str], morph: dict[str, str], wanted: str) -> list[list[tuple[Any, ...]]]:
    """The contexts of each token, as Table 2 has them."""
    found = []
    for t in range(len(words)):
        def both(k: int, t: int = t) -> list[tuple[str, str]]:
            if t + k < 0:
                return [("w", "<s>"), ("m", "<s>")]
            if t + k >= len(words):
                return [("w", "</s>"), ("m", "</s>")]
            return [("w", words[t + k]), ("m", morph.get(words[t + k]) or ending(words[t + k]))]

        bigrams = [(-1, *p) for p in product(both(-1), both(0))] + [(0, *p) for p in product(both(0), both(1))]
        trigrams = [(1, *p) for p in product(both(-1), both(0), both(1))]
        found.append({"bigram": bigrams, "trigram": trigrams, "both": bigrams + trigrams}[wanted])
    return found


def slow_rules(X: Any, y: Any, morph: dict[str, str], wanted: str, threshold: float, cutoff: int) -> dict[Any, str]:
    seen: dict[Any, Counter[str]] = defaultdict(Counter)
    for words, labels in zip(X, y, strict=True):
        for found, label in zip(contexts(words, morph, wanted), labels, strict=True):
            for context in found:
                seen[context][label] += 1
    rules = {}
    for context, labels in seen.items():
        (label, right), = labels.most_common(1)
        if sum(labels.values()) > cutoff and right > threshold * sum(labels.values()):
            rules[context] = label
    return rules


@pytest.mark.parametrize("wanted", ["bigram", "trigram", "both"])
@pytest.mark.parametrize("seed", range(4))
def test_rules_are_those_of_the_definition(seed: int, wanted: Any) -> None:
    X, y = corpus(seed)
    threshold, cutoff, rare = [(0.99, 5, 5), (0.8, 2, 3), (0.5, 0, 1), (0.95, 1, 8)][seed]
    learned = DeterministicRules(contexts=wanted, threshold=threshold, cutoff=cutoff, rare=rare).fit(X, y)
    morph = morph_of(X, y, rare)
    rules = slow_rules(X, y, morph, wanted, threshold, cutoff)
    assert learned.n_rules_ == len(rules)
    new = [*corpus(seed + 100, 30)[0], ["unknown", "the", "Trades"], []]
    slow = []
    for words in new:
        fired = [{rules[c] for c in found if c in rules} for found in contexts(words, morph, wanted)]
        slow.append([next(iter(labels)) if len(labels) == 1 else None for labels in fired])
    assert learned.decide(new).names() == slow
    assert learned.decide(new, threads=2).names() == learned.decide(new, threads=1).names() == slow


def test_the_papers_templates() -> None:
    assert [len(TEMPLATES["words"][name]) for name in ("bigram", "trigram", "both")] == [8, 8, 16]
    assert TEMPLATES["characters"]["both"] == ["char[-1] char[0]", "char[0] char[1]", "char[-1] char[0] char[1]"]


def test_characters_and_possible_words() -> None:
    X = [list("共同创造"), list("美好的世纪"), list("共同的世纪")] * 4
    y = [list("BIBI"), list("BIBBI"), list("BIBBI")] * 4
    rules = DeterministicRules("characters", cutoff=3).fit(X, y)
    decided = rules.decide([list("共同的世纪")])
    assert decided.names() == [["B", "I", "B", "B", "I"]]
    assert list(decided.words(0, 4)) == [(0, 2), (2, 3), (3, 5)]
    nothing = Decided(np.full(3, -1, np.int32), np.array([0, 3]), rules.labels_)
    assert len(list(nothing.words(0, 3))) == 6 and len(list(nothing.words(0, 2))) == 5
    assert nothing.share == 0.0 and decided.share == 1.0


def test_score_is_precision_and_recall() -> None:
    X, y = corpus(3)
    rules = DeterministicRules(cutoff=2).fit(X, y)
    new, gold = corpus(7, 40)
    ours = rules.decide(new).names()
    pairs = [pair for a, b in zip(ours, gold, strict=True) for pair in zip(a, b, strict=True)]
    counts = rules.score(new, gold)
    assert counts.guessed == sum(a is not None for a, _ in pairs) and counts.gold == len(pairs)
    assert counts.correct == sum(a == b for a, b in pairs)


def test_lines_and_files(tmp_path: Path) -> None:
    X, y = corpus(1)
    rules = DeterministicRules(cutoff=2).fit(X, y)
    lines = list(rules.lines())
    assert len(lines) == rules.n_rules_ and len(list(rules.lines(3))) == 3
    assert all(" & " in line and " -> " in line and "  # " in line for line in lines)
    rules.save(tmp_path / "r")
    again = DeterministicRules.load(tmp_path / "r")
    new = [["the", "never", "trades"], *X]
    assert (again.decide(new).ids == rules.decide(new).ids).all() and list(again.lines()) == lines
    bridle.CRF(features=["word[0]"]).fit(X, y).save(tmp_path / "m")
    for path in ("m", "nothing"):
        with pytest.raises(ModelFileError):
            DeterministicRules.load(tmp_path / path)


def test_any_engine_takes_decided_tokens() -> None:
    labels = Labels(["N", "V", "D"])
    decided = Decided(np.array([0, -1, 1], np.int32), np.array([0, 2, 3]), Labels(["D", "N"]))
    batch = Batch(np.array([[3.0, 2, 1], [3, 2, 1], [1, 2, 3]]), [0, 2, 3])
    made = decided.constrain(batch, labels)
    assert np.isneginf(made.unary).tolist() == [[True, True, False], [False] * 3, [False, True, True]]
    assert [d.labels for d in bridle.Decoder(labels).decode_batch(made)] == [["D", "N"], ["N"]]
    assert batch.unary[0, 0] == 3.0  # the caller's scores are as they were
    with pytest.raises(LatticeError):
        decided.constrain(Batch(np.zeros((3, 3)), [0, 3]), labels)
    with pytest.raises(LabelError):
        decided.constrain(batch, Labels(["X", "Y", "Z"]))


@pytest.mark.parametrize("settings", [
    {"templates": "x"}, {"contexts": "x"}, {"threshold": 1.0}, {"threshold": 0.2}, {"threshold": "x"}, {"cutoff": -1},
    {"cutoff": True}, {"rare": 0},
])  # fmt: skip
def test_bad_settings(settings: dict[str, Any]) -> None:
    X, y = corpus(0, 5)
    with pytest.raises(ModelError):
        DeterministicRules(**settings).fit(X, y)


def test_bad_input() -> None:
    with pytest.raises(ModelError, match="no call of fit"):
        DeterministicRules().decide([["a"]])
    for X, y in (([["a"]], [["N"]]), ([["a", "b"]], [["N"]]), ([], []), ([["a"], ["b"]], [["N"], [5]]), ("ab", ["NV"])):
        with pytest.raises(BridleError):
            DeterministicRules().fit(X, y)
    none = DeterministicRules(cutoff=1000).fit(*corpus(0, 5))
    assert none.n_rules_ == 0 and none.decide([["the"]]).names() == [[None]]


# ---- the constrained tagger -----------------------------------------------------------------------------------------


def brute_force(unary: Any, fixed: list[int], ahead: list[int], weights: Any, context: Any) -> float:
    """The best score over all labellings that keep what is fixed."""
    return max(score_of(list(y), unary, fixed, ahead, weights, context)
               for y in product(*[[d] if d >= 0 else range(unary.shape[1]) for d in fixed]))


def score_of(y: list[int], unary: Any, fixed: list[int], ahead: list[int], weights: Any, context: Any) -> float:
    m, triple, look = context
    width = -(-m // 8) * 8
    rows = weights.reshape(-1, width)
    begin = m + 1 + ((m + 1) ** 2 if triple else 0)
    total = 0.0
    for t in range(len(y)):
        if fixed[t] >= 0:
            continue
        y1, y2 = y[t - 1] if t else m, y[t - 2] if t > 1 else m
        total += unary[t, y[t]] + rows[y1, y[t]]
        if triple:
            total += rows[m + 1 + y2 * (m + 1) + y1, y[t]]
        d1 = ahead[t + 1] if look and t + 1 < len(y) else -1
        d2 = ahead[t + 2] if d1 >= 0 and t + 2 < len(y) else -1
        if d1 >= 0:
            total += rows[begin + d1, y[t]] + rows[begin + m + m * m + y1 * m + d1, y[t]]
        if d2 >= 0:
            total += rows[begin + m + d1 * m + d2, y[t]]
    return total


@pytest.mark.parametrize("triple", [False, True])
@pytest.mark.parametrize("look", [False, True])
def test_the_search_against_enumeration(triple: bool, look: bool) -> None:
    """A beam that is wide enough is exact; so is Viterbi if a label depends on one before only."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        m, n = int(rng.integers(2, 5)), int(rng.integers(0, 6))
        native = _native.Context(m, triple, look)
        weights = rng.integers(-4, 5, native.size).astype(np.float64)
        unary = rng.integers(-4, 5, (n, m)).astype(np.float32)
        fixed = np.where(rng.random(n) < 0.4, rng.integers(0, m, n), -1).astype(np.int32)
        ahead = np.where(rng.random(n) < 0.5, rng.integers(0, m, n), -1).astype(np.int32)
        # every token has an attribute of its own, whose weights are its scores
        width = -(-m // 8) * 8
        begin, label = np.arange(n + 1) * width, np.tile(np.arange(width) % m, n).astype(np.uint16)
        static = np.zeros((n, width), np.float32)
        static[:, :m] = unary
        x = _native.Examples(np.array([0, n]), np.arange(n + 1), np.arange(n, dtype=np.int32), None, None)
        rows = _native.Rows(m, begin, label, None)
        best = brute_force(unary, fixed.tolist(), ahead.tolist(), weights, (m, triple, look))
        for beam in (0, m**n or 1) if not triple else (m**n or 1,):
            out = np.empty(n, np.int32)
            native.search(rows, x, static.ravel(), fixed, ahead, weights, beam, out, _native.Stop())
            assert ((fixed < 0) | (out == fixed)).all()
            assert score_of(out.tolist(), unary, fixed.tolist(), ahead.tolist(), weights, (m, triple, look)) == best


@pytest.mark.parametrize("settings", [
    {}, {"width": 1}, {"search": "viterbi"}, {"lookahead": "decided"}, {"search": "viterbi", "lookahead": "decided"},
])  # fmt: skip
@pytest.mark.parametrize("rules", [None, DeterministicRules(cutoff=3)])
def test_it_learns_and_survives_a_file(settings: dict[str, Any], rules: Any, tmp_path: Path) -> None:
    X, y = corpus(11, 200)
    new, gold = corpus(12, 80)
    tagger = ConstrainedTagger(rules, iterations=4, **settings).fit(X, y)
    assert tagger.score(new, gold) > 0.9
    tagger.save(tmp_path / "t")
    again = ConstrainedTagger.load(tmp_path / "t")
    assert again.predict(new) == tagger.predict(new) == tagger.predict(new, threads=2)
    if rules is not None:
        assert tagger.rules_ is not None and tagger.rules_.n_rules_ > 0
        for ours, sure in zip(tagger.predict(new), tagger.rules_.decide(new).names(), strict=True):
            assert all(b is None or a == b for a, b in zip(ours, sure, strict=True))


def test_label_bigrams_matter() -> None:
    """The label is the parity of the tokens so far: only the label before tells."""
    X = [["x"] * n for n in (3, 4, 5, 6)] * 5
    y = [["a" if t % 2 else "b" for t in range(len(x))] for x in X]
    for settings in ({"width": 1}, {"search": "viterbi"}):
        assert ConstrainedTagger(None, features=["word[0]"], **settings).fit(X, y).score(X, y) == 1.0


def test_decided_labels_of_other_numbers() -> None:
    decided = Decided(np.array([0, 1, -1], np.int32), np.array([0, 3]), Labels(["A", "Z"]))
    assert renumbered(decided, Labels(["B", "A"])).tolist() == [1, -1, -1]


@pytest.mark.parametrize("settings", [
    {"rules": 5}, {"search": "x"}, {"width": 0}, {"lookahead": "x"}, {"folds": 1}, {"iterations": 0}, {"seed": -1},
    {"features": "x"},
])  # fmt: skip
def test_bad_settings_of_the_tagger(settings: dict[str, Any]) -> None:
    X, y = corpus(0, 20)
    with pytest.raises(BridleError):
        ConstrainedTagger(**settings).fit(X, y)
    with pytest.raises(ModelError):
        ConstrainedTagger().predict(X)
