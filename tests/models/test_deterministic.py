"""Deterministic rules and the constrained tagger: against their definitions, written down slowly."""

from __future__ import annotations

import pickle
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
from bridle.models import files
from bridle.models.constrained import renumbered
from bridle.models.deterministic import TEMPLATES

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
    result = []
    for t in range(len(words)):

        def both(k: int, t: int = t) -> list[tuple[str, str]]:
            if t + k < 0:
                return [("w", "<s>"), ("m", "<s>")]
            if t + k >= len(words):
                return [("w", "</s>"), ("m", "</s>")]
            return [("w", words[t + k]), ("m", morph.get(words[t + k]) or ending(words[t + k]))]

        bigrams = [(-1, *p) for p in product(both(-1), both(0))] + [(0, *p) for p in product(both(0), both(1))]
        trigrams = [(1, *p) for p in product(both(-1), both(0), both(1))]
        result.append({"bigram": bigrams, "trigram": trigrams, "both": bigrams + trigrams}[wanted])
    return result


def slow_rules(X: Any, y: Any, morph: dict[str, str], wanted: str, threshold: float, cutoff: int) -> dict[Any, str]:
    seen: dict[Any, Counter[str]] = defaultdict(Counter)
    for words, labels in zip(X, y, strict=True):
        for text, label in zip(contexts(words, morph, wanted), labels, strict=True):
            for context in text:
                seen[context][label] += 1
    rules = {}
    for context, labels in seen.items():
        ((label, right),) = labels.most_common(1)
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
        fired = [{rules[c] for c in text if c in rules} for text in contexts(words, morph, wanted)]
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
    built = decided.constrain(batch, labels)
    assert np.isneginf(built.unary).tolist() == [[True, True, False], [False] * 3, [False, True, True]]
    assert [d.labels for d in bridle.Decoder(labels).decode_batch(built)] == [["D", "N"], ["N"]]
    assert batch.unary[0, 0] == 3.0  # the caller's scores are as they were
    with pytest.raises(LatticeError):
        decided.constrain(Batch(np.zeros((3, 3)), [0, 3]), labels)
    with pytest.raises(LabelError):
        decided.constrain(batch, Labels(["X", "Y", "Z"]))


@pytest.mark.parametrize(
    "settings",
    [
        {"templates": "x"},
        {"contexts": "x"},
        {"threshold": 1.0},
        {"threshold": 0.2},
        {"threshold": "x"},
        {"cutoff": -1},
        {"cutoff": True},
        {"rare": 0},
    ],
)
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


@pytest.mark.parametrize(("size", "templates"), [(20, 5), (20, 70), (2**14, 40)])
def test_the_decider_is_a_look_up_of_everything(size: int, templates: int) -> None:
    """Also with more templates than a mask has bits, and with keys that are hashes (of five ids below 2^14)."""
    rng = np.random.default_rng(size)
    places = [
        [(int(rng.integers(2)), int(rng.integers(-2, 3))) for _ in range(rng.integers(1, 6))] for _ in range(templates)
    ]
    known = _native.Attributes(places, [size, size])
    offsets = np.array([0, 3, 3, 40, 300])

    def columns() -> Any:
        return rng.integers(0, 7, (2, 300)).astype(np.int32)

    indptr, attrs = np.empty(301, np.int64), np.empty(300 * templates, np.int32)
    known.fit(columns(), offsets, indptr, attrs)
    label = np.where(rng.random(len(known)) < 0.05, rng.integers(0, 3, len(known)), -1).astype(np.int32)
    out, ids = np.empty(300, np.int32), columns()
    _native.Decider(known, label).decide(ids, offsets, out)
    known.encode(ids, offsets, indptr, attrs)
    slow = []
    for t in range(300):
        fired = {int(label[a]) for a in attrs[indptr[t] : indptr[t + 1]]} - {-1}
        slow.append(fired.pop() if len(fired) == 1 else -1)
    assert out.tolist() == slow and len(set(slow)) > 1
    with pytest.raises(ValueError):
        _native.Decider(known, label[:-1])


def test_implied_rules_are_not_needed() -> None:
    X, y = corpus(2, 200)
    rules = DeterministicRules(cutoff=2).fit(X, y)
    implied = rules.features_.implied(rules._label)
    assert 0 < implied.sum() < rules.n_rules_
    for line, left_out in zip(rules.features_.names(), implied.tolist(), strict=True):
        assert not left_out or line.count("|") == 4 or "word" in line, "nothing is more general than two morph features"


# ---- the constrained tagger -----------------------------------------------------------------------------------------


def brute_force(unary: Any, fixed: list[int], ahead: list[int], weights: Any, context: Any) -> float:
    """The best score over all labellings that keep what is fixed."""
    return max(
        score_of(list(y), unary, fixed, ahead, weights, context)
        for y in product(*[[d] if d >= 0 else range(unary.shape[1]) for d in fixed])
    )


def score_of(y: list[int], unary: Any, fixed: list[int], ahead: list[int], weights: Any, context: Any) -> float:
    m, triple, look, into = context
    width = -(-m // 8) * 8
    rows = weights.reshape(-1, width)
    begin = m + 1 + ((m + 1) ** 2 if triple else 0)
    total = 0.0
    for t in range(len(y)):
        if fixed[t] >= 0 and not into:
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
@pytest.mark.parametrize("into", [False, True])
def test_the_search_against_enumeration(triple: bool, look: bool, into: bool) -> None:
    """A beam that is wide enough is exact; so is Viterbi if a label depends on one before only.

    With `into` it finds the best of the raw space among the labellings that keep what is fixed, though it never sees
    the scores of fixed tokens themselves.
    """
    rng = np.random.default_rng(5)
    for _ in range(60):
        m, n = int(rng.integers(2, 5)), int(rng.integers(0, 6))
        native = _native.Context(m, triple, look, into)
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
        context = (m, triple, look, into)
        best = brute_force(unary, fixed.tolist(), ahead.tolist(), weights, context)
        for beam in (0, m**n or 1) if not triple else (m**n or 1,):
            out = np.empty(n, np.int32)
            native.search(rows, x, static.ravel(), fixed, ahead, weights, beam, out, _native.Stop())
            assert ((fixed < 0) | (out == fixed)).all()
            assert score_of(out.tolist(), unary, fixed.tolist(), ahead.tolist(), weights, context) == best


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"width": 1},
        {"search": "viterbi"},
        {"lookahead": "decided"},
        {"search": "viterbi", "lookahead": "decided"},
        {"train": "all"},
        {"train": "all", "lookahead": "decided"},
        {"train": "all", "search": "viterbi"},
    ],
)
@pytest.mark.parametrize("rules", [None, DeterministicRules(cutoff=3)])
def test_it_learns_and_survives_a_file(settings: dict[str, Any], rules: Any, tmp_path: Path) -> None:
    X, y = corpus(11, 200)
    new, gold = corpus(12, 80)
    tagger = ConstrainedTagger(rules, iterations=4, **settings).fit(X, y)
    assert tagger.score(new, gold) > 0.9
    tagger.save(tmp_path / "t")
    again = bridle.load(tmp_path / "t")
    assert again.predict(new) == tagger.predict(new) == tagger.predict(new, threads=2)
    assert again.train == tagger.train
    if rules is not None:
        assert tagger.rules_ is not None and tagger.rules_.n_rules_ > 0
        for ours, sure in zip(tagger.predict(new), tagger.rules_.decide(new).names(), strict=True):
            assert all(b is None or a == b for a, b in zip(ours, sure, strict=True))


def test_files_from_before_there_were_two_ways_to_train(tmp_path: Path) -> None:
    X, y = corpus(11, 60)
    tagger = ConstrainedTagger(DeterministicRules(cutoff=3), iterations=2).fit(X, y)
    tagger.save(tmp_path / "new")
    stored = files.open_file(tmp_path / "new")
    known = ("features", "search", "width", "lookahead", "folds", "cutoff", "iterations", "seed")
    names = ("labels", "scheme", "features", "progress", "rules")
    head = {name: stored.head[name] for name in names} | {
        "settings": {name: stored.head["settings"][name] for name in known}
    }
    files.save(tmp_path / "t", "constrained", head, stored.arrays)
    again = bridle.load(tmp_path / "t")
    assert again.train == "open" and again.predict(X) == tagger.predict(X)


def test_files_from_before_there_was_one_file(tmp_path: Path) -> None:
    X, y = corpus(11, 60)
    tagger = ConstrainedTagger(DeterministicRules(cutoff=3), iterations=2).fit(X, y)
    assert tagger.rules_ is not None
    tagger.save(tmp_path / "t")
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    stored = files.open_file(tmp_path / "t")
    arrays = {name: array for name, array in stored.arrays.items() if not name.startswith("inside.")}
    files.save(tmp_path / "old", "constrained", stored.head | {"rules": True}, arrays)
    tagger.rules_.save(tmp_path / "old.rules")
    again = bridle.load(tmp_path / "old")
    assert again.predict(X) == tagger.predict(X) and again.rules_ is not None
    assert list(again.rules_.lines()) == list(tagger.rules_.lines())


def test_all_tokens_teach_what_they_teach_the_raw_tagger() -> None:
    X, y = corpus(11, 120)
    raw, ruled = (
        ConstrainedTagger(rules, train="all", iterations=3).fit(X, y) for rules in (None, DeterministicRules(cutoff=3))
    )
    assert (raw.around_ == ruled.around_).all() and (raw.linear_.weights == ruled.linear_.weights).all()
    only = ConstrainedTagger(DeterministicRules(cutoff=3), iterations=3).fit(X, y)
    assert not np.array_equal(raw.around_, only.around_)


def test_decided_tokens_tell_of_the_ones_before() -> None:
    """x is nearly always A before C and B before D. Rules decide c and d; nothing but their labels tells of x."""
    X = [["x", "c"], ["x", "d"]] * 20
    y = [["A", "C"], ["B", "D"]] * 19 + [["B", "C"], ["A", "D"]]
    seen = {}
    for train in ("open", "all"):
        tagger = ConstrainedTagger(DeterministicRules(), features=["word[0]"], train=train, iterations=5).fit(X, y)
        assert tagger.rules_ is not None
        assert tagger.rules_.decide(X[:2]).names() == [[None, "C"], [None, "D"]]
        seen[train] = [labels[0] for labels in tagger.predict(X[:2])]
    assert seen["all"] == ["A", "B"]
    assert seen["open"] in (["A", "A"], ["B", "B"])


def test_label_bigrams_matter() -> None:
    """The label is the parity of the tokens so far: only the label before tells."""
    X = [["x"] * n for n in (3, 4, 5, 6)] * 5
    y = [["a" if t % 2 else "b" for t in range(len(x))] for x in X]
    for settings in ({"width": 1}, {"search": "viterbi"}):
        assert ConstrainedTagger(None, features=["word[0]"], **settings).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("look", ["none", "decided"])
@pytest.mark.parametrize("train", ["open", "all"])
@pytest.mark.parametrize("rules", [None, DeterministicRules(cutoff=3)])
def test_its_lattices_are_its_scores(look: Any, train: Any, rules: Any) -> None:
    """The best labelling of a lattice is that of the search; other rules hold beside the decided labels."""
    X, y = corpus(11, 120)
    settings: dict[str, Any] = {"search": "viterbi", "lookahead": look, "train": train}
    tagger = ConstrainedTagger(rules, features=["word[0]", "suffix1[-1]"], iterations=3, **settings).fit(X, y)
    new, _ = corpus(12, 60)
    new.insert(3, [])
    decodings = tagger.decode(new, tagger.decoder())
    assert decodings.labels == tagger.predict(new) and set(decodings.status) == {"optimal"}
    sentence = "at most 2 tokens of N"
    sure = [[None] * len(x) for x in new] if tagger.rules_ is None else tagger.rules_.decide(new).names()
    fits = [x for x, its in zip(new, sure, strict=True) if its.count("N") <= 2]
    sure = [its for its in sure if its.count("N") <= 2]
    assert len(fits) > 20
    for labels, its in zip(tagger.predict(fits, [sentence]), sure, strict=True):
        assert labels.count("N") <= 2 and all(b in (None, a) for a, b in zip(labels, its, strict=True))


def test_a_beam_over_trigrams_has_no_lattice() -> None:
    X, y = corpus(11, 40)
    tagger = ConstrainedTagger(iterations=1).fit(X, y)
    with pytest.raises(ModelError, match=r"(?s)trigrams.*search='beam'.*--learner constrained"):
        tagger.predict(X, ["forbid N"])


def test_training_is_watched_judged_and_resumed(tmp_path: Path) -> None:
    X, y = corpus(11, 120)
    dev = corpus(13, 60)
    settings: dict[str, Any] = {"features": ["word[0]"], "patience": 3, "seed": 1}
    whole = ConstrainedTagger(DeterministicRules(cutoff=3), iterations=6, **settings)
    whole.fit(X, y, dev=dev, measure="accuracy")
    assert whole.progress_.best_score == whole.score(*dev)
    stopped = ConstrainedTagger(DeterministicRules(cutoff=3), iterations=2, **settings)
    stopped.fit(X, y, dev=dev, measure="accuracy", checkpoint=tmp_path / "c", every=1)
    again = ConstrainedTagger(DeterministicRules(cutoff=3), iterations=6, **settings)
    again.fit(X, y, dev=dev, measure="accuracy", resume=tmp_path / "c")
    assert again.fingerprint_ == whole.fingerprint_ and again.progress_.losses == whole.progress_.losses
    with pytest.raises(ModelError, match=r"(?s)not trained on folds.*dev=\(X, y\)"):
        whole.cross_fit(X, y)
    with pytest.raises(LabelError, match="label is missing"):
        ConstrainedTagger(DeterministicRules()).fit(X, [[None] * len(labels) for labels in y])


def test_deterministic_rules_decide_for_any_model() -> None:
    X, y = corpus(11, 120)
    new, _ = corpus(12, 60)
    rules = DeterministicRules(cutoff=3).fit(X, y)
    for model in (bridle.CRF(features=["suffix1[0]", "label[-1]"], c2=1), bridle.LocalTagger(features=["suffix1[0]"])):
        model.fit(X, y)
        before, plain = model.fingerprint_, model.predict(new)
        assert model.decide_with(rules).fingerprint_ != before
        for labels, sure in zip(model.predict(new), rules.decide(new).names(), strict=True):
            assert all(b in (None, a) for a, b in zip(labels, sure, strict=True))
        assert model.predict(new) != plain
        assert pickle.loads(pickle.dumps(model)).predict(new) == model.predict(new)
        assert model.decide_with(None).predict(new) == plain
    with pytest.raises(LabelError, match="lacks a label that rules decide"):
        bridle.CRF(c2=1).fit(X, [["Q"] * len(labels) for labels in y[:-1]] + [["R"] * len(y[-1])]).decide_with(rules)


def test_decided_labels_of_other_numbers() -> None:
    decided = Decided(np.array([0, 1, -1], np.int32), np.array([0, 3]), Labels(["A", "Z"]))
    assert renumbered(decided, Labels(["B", "A"])).tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    "settings",
    [
        {"rules": 5},
        {"search": "x"},
        {"width": 0},
        {"lookahead": "x"},
        {"folds": 1},
        {"iterations": 0},
        {"seed": -1},
        {"features": "x"},
        {"train": "x"},
        {"labels": 5},
    ],
)
def test_bad_settings_of_the_tagger(settings: dict[str, Any]) -> None:
    X, y = corpus(0, 20)
    with pytest.raises(BridleError):
        ConstrainedTagger(**settings).fit(X, y)
    with pytest.raises(ModelError):
        ConstrainedTagger().predict(X)
