"""Rules about documents: found, priced and tested on documents that the model has not seen."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain, pairwise, product
from typing import Any

import numpy as np
import pytest

from bridle import Decoder, GivenError, Labels, Lattice, rules
from bridle.learn import FittedRules, RelationalRules, Scores, fit_rules, tune_rules
from bridle.learn.documents import Cases, Documents, _changes
from bridle.learn.judged import Judged, cuts_in_a_row

LABELS = Labels(["O", "PER", "LOC", "TOTAL"], "IO")
SAME = "in the document: same label for equal tokens /[A-Z].*/"
Data = tuple[list[list[str]], list[list[str]], list[int], list[Any]]


@lru_cache
def documents(count: int = 40, seed: int = 0) -> Data:
    """Names with one type in each document, one TOTAL per document, and scores that are often wrong."""
    rng = np.random.default_rng(seed)
    X, y, groups, logits = [], [], [], []
    for d in range(count):
        kinds = {f"N{k}": str(rng.choice(["PER", "LOC"])) for k in range(3)}
        at = int(rng.integers(4))
        for b in range(4):
            words = [*rng.choice(list(kinds), 2), "and", "7"]
            labels = [*(kinds[word] for word in words[:2]), "O", "TOTAL" if b == at else "O"]
            signal = np.zeros((4, len(LABELS)))
            signal[np.arange(4), LABELS.ids(labels)] = [1.0, 1.0, 4.0, 1.0]
            X.append(list(map(str, words)))
            y.append(labels)
            groups.append(d)
            noise = rng.normal(size=signal.shape)
            noise[:2, [0, 3]] -= 6
            noise[3, 1:3] -= 6
            logits.append(signal + noise)
    return X, y, groups, logits


@lru_cache
def fitted() -> FittedRules:
    X, y, groups, logits = documents()
    return fit_rules(Scores(LABELS, logits, X), y, groups=groups, threads=1)


def penalties(soft: list[Any]) -> dict[str, float]:
    return {str(rule.rule): rule.penalty for rule in soft}


def test_agreement_and_counts_of_documents_are_found_and_priced() -> None:
    result, (X, *_) = fitted(), documents()
    assert result.won and result.documents == 40 and result.sequences == len(X) == 160
    by_text = penalties(result.rules)
    assert by_text[SAME] > 0.3 and any(text.startswith("in the document: ") and "TOTAL" in text for text in by_text)
    assert result.quality.low > 0.03 and result.quality.better + result.quality.worse <= 40  # document by document
    assert result.quality.gain == pytest.approx(result.held_out["quality"] - result.plain["quality"])
    agreement = next(rule for rule in result.priced if rule.learned.kind == "agreement")
    assert agreement.learned.unit == "pairs of equal tokens" and agreement.learned.confidence == 1
    assert "160 sequences of 40 documents" in result.lines()[0]


def test_what_is_foreseen_is_seen_on_other_documents() -> None:
    X, y, _, logits = documents(30, seed=1)
    cuts = range(0, len(X), 4)
    given = [[{"tokens": words} for words in X[low : low + 4]] for low in cuts]
    lattices = [[Lattice(x) for x in logits[low : low + 4]] for low in cuts]
    gold = list(chain.from_iterable(y))

    def right(decoder: Decoder) -> int:
        decodings = decoder.decode_documents(lattices, given)
        labels = chain.from_iterable(sentence for d in decodings for sentence in d.labels)
        return sum(a == b for a, b in zip(labels, gold, strict=True))

    assert right(Decoder(LABELS, fitted().rules)) > 1.05 * right(Decoder(LABELS))


def test_groups_that_are_not_in_a_row_are_only_held_out_together() -> None:
    X, y, groups, logits = documents()
    order = np.random.default_rng(0).permutation(len(X)).tolist()
    mixed = [groups[b] for b in order]
    assert cuts_in_a_row(mixed) is None and cuts_in_a_row(list(range(5))) is None
    scores = Scores(LABELS, [logits[b] for b in order], [X[b] for b in order])
    result = fit_rules(scores, [y[b] for b in order], groups=mixed, rules=["starts with PER"], threads=1)
    assert result.documents == 0


def test_miner_finds_rules_about_documents() -> None:
    X, y, groups, _ = documents()
    miner = RelationalRules(["agreement", "count"], penalty=None).fit(X, y, groups=groups)
    by_text = {str(item.rule): item for item in miner.learned_}
    assert by_text[SAME].kind == "agreement"
    assert str(by_text["in the document: exactly 1 segment of TOTAL"]).endswith(
        "# held in 40 of 40 documents, applied in 40; count"
    )
    assert not any("\n" in text for text in by_text) and len(miner.powers_) == len(miner.learned_)
    assert penalties(RelationalRules(["agreement"]).fit(X, y, groups=groups).rules_)[SAME] > 3
    with pytest.raises(GivenError, match="a document comes back"):
        RelationalRules().fit(X[:3], y[:3], groups=[1, 2, 1])


def test_written_rules_about_documents_are_tuned() -> None:
    X, y, groups, logits = documents()
    written = [f"{SAME} [penalty 9 per violation]", "in the document: at least 2 segments of TOTAL", "present TOTAL"]
    tuned = tune_rules(Scores(LABELS, logits, X), written, y, groups=groups, threads=1)
    agreement, counted, _ = tuned.tuned
    assert tuned.best == "tuned" and agreement.choice in ("hard", "soft") and agreement.gold_breaks == 0
    assert counted.choice == "off" and counted.gold_breaks == 40
    assert tuned.figures["tuned"]["quality"] > tuned.figures["none"]["quality"] + 0.05


def test_changes_are_counted_as_by_enumeration() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=4)
    expected = np.zeros(4)
    for kinds in product(range(3), repeat=4):
        expected[sum(a != b for a, b in pairwise(kinds))] += math.prod(p[t, c] for t, c in enumerate(kinds))
    assert _changes(p) == pytest.approx(expected)


def test_the_weight_is_the_likeliest() -> None:
    rng = np.random.default_rng(1)
    cases = Cases(np.log(rng.dirichlet(np.ones(4), size=30)), rng.integers(0, 2, 30), np.arange(30))
    w = cases.weight(1.0)
    losses = [float(cases.losses(x).sum()) + x for x in (w - 0.01, w, w + 0.01)]
    assert w > 0.1 and losses[1] == min(losses)
    assert cases.weight(1e9) == 0 and cases.gains(w, 30).sum() == pytest.approx(
        float((cases.losses(0.0) - cases.losses(w)).sum())
    )


@pytest.mark.parametrize("per", ["sequence", "violation", None])
def test_cases_of_rules_that_do_not_depend_on_the_model_are_exact(per: Any) -> None:
    X, y, groups, _ = documents(6)
    flat = [np.zeros((4, len(LABELS)))] * len(X)
    settings: dict[str, Any] = {"scored_by": "auto", "cross_fit": None, "on_unknown": "raise", "threads": 1, "seed": 0}
    judged = Judged.of(Scores(LABELS, flat, X), y, None, None, groups=groups, watch=print, **settings)
    rule = rules.in_document(rules.same_label_for_equal(rules.tokens("[A-Z].*")))
    counted = rules.in_document(rules.at_most(1, of="TOTAL"))
    if per is not None:
        rule, counted = rule.soft(1, per=per), counted.soft(1, per=per)
    agreement, count = Documents(judged, [rule]).cases([rule, counted], 1.0)
    assert (agreement.gold == 0).all() and set(agreement.document) == set(range(6))
    assert np.exp(agreement.log_p).sum(axis=1) == pytest.approx(np.ones(len(agreement.gold)))
    if per != "sequence":  # every pair differs with a probability of 3/4
        sizes = [sum(w[0] == "N" for words in X[4 * d : 4 * d + 4] for w in words) for d in range(6)]
        texts = [len({w for words in X[4 * d : 4 * d + 4] for w in words if w[0] == "N"}) for d in range(6)]
        means = np.bincount(agreement.document, np.exp(agreement.log_p) @ np.arange(agreement.log_p.shape[1]))
        assert means == pytest.approx([0.75 * (n - k) for n, k in zip(sizes, texts, strict=True)])
    assert (count.gold == 0).all() and len(count.gold) == 6 and np.exp(count.log_p).sum(axis=1) == pytest.approx(1)
