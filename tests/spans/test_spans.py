"""Word lattices: every engine against enumeration of all segmentations, the judge, cut(), limits and bad input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

import bridle
import bridle.rules as r
from bridle.errors import EngineError, GivenError, Infeasible, LabelError, LatticeError, LimitReached, RuleError
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.rules.conditions import Tokens
from bridle.spans import SpanDecoder, SpanDecoding, SpanLattice, check_spans
from stopwatch import Stopwatch
from strategies import RULE_KINDS, Values, random_labels, random_rule, random_soft, seeds

NEAR = 1e-9
NATIVE = ("auto", "search", "product")
CHARACTERS = ["a", "b7", "12345", "x/y", "", "("]  # "characters" may be any strings
KINDS = sorted(set(RULE_KINDS) - {"SameLabel", "SameLabelForEqual"})  # these speak of positions only

# ---- the oracle -------------------------------------------------------------------------------------------------


Path = tuple[int, ...]


def paths(lattice: SpanLattice, at: int = 0) -> Iterator[Path]:
    """All ways to hold each character once."""
    if at == lattice.n:
        yield ()
    for arc, (start, end) in enumerate(lattice.spans.tolist()):
        if start == at and lattice.scores[arc] > -math.inf:
            yield from ((arc, *rest) for rest in paths(lattice, end))


def ranked(lattice: SpanLattice, rules: list[Rule], labels: Labels, given: Values) -> list[tuple[float, Path]]:
    """Paths that obey the hard rules with score - penalty, best first."""
    out = []
    for path in paths(lattice):
        score = sum(float(lattice.scores[a]) for a in path)
        texts = ["".join(lattice.characters[slice(*lattice.spans[a])]) for a in path] if lattice.characters else []
        values, ids = {**given, "tokens": texts}, [int(lattice.labels[a]) for a in path]
        for rule in rules:
            v = rule.violations(ids, labels, values)
            score -= rule.cost(v) if isinstance(rule, Soft) else math.inf if v else 0.0
        if score > -math.inf:
            out.append((score, path))
    return sorted(out, key=lambda item: -item[0])


def random_lattice(rng: Generator, m: int, n_max: int = 6) -> SpanLattice:
    """Any words in any order, a few twice; scores are halves, so that ties are frequent and sums exact."""
    n = int(rng.integers(0, n_max + 1))
    every = [(s, e, y) for s in range(n) for e in range(s + 1, n + 1) for y in range(m)]
    kept = [word for word in every if rng.random() < min(1.0, 16 / len(every))] + every[:1] * int(rng.random() < 0.1)
    table = np.array(kept, dtype=np.int64).reshape(-1, 3)[rng.permutation(len(kept))]
    scores = np.where(rng.random(len(table)) < 0.1, -np.inf, rng.integers(-4, 5, len(table)) / 2)
    characters = [CHARACTERS[k] for k in rng.integers(0, len(CHARACTERS), n)]
    return SpanLattice(n, table[:, :2], scores.astype(rng.choice(["f4", "f8"])), table[:, 2], characters)


def word_rule(rng: Generator, labels: Labels, given: Values, kind: str | None) -> Rule:
    """A hard rule that names no positions."""
    while True:
        before = dict(given)
        rule, _ = random_rule(rng, labels, 0, given, 1, kind)
        if all(isinstance(p.source, Tokens) and p.source.column is None for p in rule.places()):
            return rule
        given.clear()
        given.update(before)


def random_rules(rng: Generator, labels: Labels, given: Values, kind: str | None) -> list[Rule]:
    rules = [word_rule(rng, labels, given, kind if k == 0 else None) for k in range(int(rng.integers(1, 4)))]
    share = float(rng.choice([0.0, 0.5, 1.0]))
    return [random_soft(rng, rule) if rng.random() < share else rule for rule in rules]


def same(decoding: SpanDecoding, lattice: SpanLattice, rules: list[Rule], given: Values, best: float) -> None:
    assert check_spans(lattice, rules, decoding, given).complaints == []
    assert decoding.optimal
    assert decoding.score == pytest.approx(best, abs=NEAR)


# ---- against enumeration ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_best_and_k_best_are_those_of_enumeration(kind: str) -> None:
    for rng in seeds(40, key=1000 + KINDS.index(kind)):
        labels, given = random_labels(rng, 3), Values()
        rules, lattice = random_rules(rng, labels, given, kind), random_lattice(rng, len(labels))
        wanted = ranked(lattice, rules, labels, given)
        if not wanted:
            assert_infeasible(lattice, rules, labels, given)
            continue
        for engine in NATIVE:
            same(SpanDecoder(labels, rules, engine).decode(lattice, given), lattice, rules, given, wanted[0][0])
        k = int(rng.choice([1, 3, len(wanted), len(wanted) + 5]))
        best = SpanDecoder(labels, rules).k_best(lattice, k, given)
        assert [d.score for d in best] == pytest.approx([score for score, _ in wanted[:k]], abs=NEAR)
        assert len({tuple(d.arcs.tolist()) for d in best}) == len(best) == min(k, len(wanted))
        for d in best:
            assert check_spans(lattice, rules, d, given).complaints == []


def assert_infeasible(lattice: SpanLattice, rules: list[Rule], labels: Labels, given: Values) -> None:
    """Assert that decoding raises `Infeasible`, with a minimal clash."""
    for call in (lambda d: d.decode(lattice, given), lambda d: d.k_best(lattice, 2, given)):
        with pytest.raises(Infeasible) as raised:
            call(SpanDecoder(labels, rules))
        clash = list(raised.value.clash)
        assert not ranked(lattice, clash, labels, given)
        assert bool(clash) == bool(ranked(lattice, [], labels, given))
        for rule in clash:
            assert ranked(lattice, [other for other in clash if other is not rule], labels, given)


def test_ilp_and_viterbi_agree_with_enumeration() -> None:
    for rng in seeds(120, key=2000):
        labels, given = random_labels(rng, 3), Values()
        kinds = rng.choice(["Forbid", "Allow", "Fix"], int(rng.integers(0, 3))).tolist()
        rules = [word_rule(rng, labels, given, kind) for kind in kinds]
        lattice = random_lattice(rng, len(labels))
        wanted = ranked(lattice, rules, labels, given)
        for engine in ("viterbi", "ilp"):
            decoder = SpanDecoder(labels, rules, engine)
            if not wanted:
                with pytest.raises(Infeasible):
                    decoder.decode(lattice, given)
                continue
            d = decoder.decode(lattice, given)
            same(d, lattice, rules, given, wanted[0][0])
            assert d.engine == engine
            assert engine == "viterbi" or d.stats["lp_integral"]  # runs of ones: the relaxation is whole


def test_ilp_of_larger_lattices() -> None:
    for rng in seeds(5, key=2100):
        lattice = SpanLattice.all_words(30, rng.normal(size=(30, 6)))
        a, b = SpanDecoder(engine="ilp").decode(lattice), SpanDecoder(engine="viterbi").decode(lattice)
        assert a.words == b.words and a.score == pytest.approx(b.score) and a.stats["lp_integral"]
        assert a.stats["variables"] == len(lattice) and a.stats["rows"] == 30


def test_batch_is_one_by_one_at_any_thread_count() -> None:
    rng = np.random.default_rng(5)
    labels = Labels(["A", "B"])
    unlikely = r.forbid("A", at=r.tokens("b7.*")).soft(0.5, "violation")
    rules = [r.at_most(2, of=r.given("which"), count="tokens"), unlikely]
    lattices = [random_lattice(rng, 2) for _ in range(60)]
    given = [{"which": str(rng.choice(["A", "B"]))} for _ in lattices]
    fine = [k for k, x in enumerate(lattices) if ranked(x, rules, labels, given[k])]
    lattices, given = [lattices[k] for k in fine], [given[k] for k in fine]
    decoder = SpanDecoder(labels, rules)
    decoding = [decoder.decode(x, g) for x, g in zip(lattices, given, strict=True)]
    for threads in (0, 1, 2, 5):
        batch = decoder.decode_batch(lattices, given, threads)
        assert len(batch) == len(decoding) and batch.scores.tolist() == [d.score for d in decoding]
        for a, b in zip(batch, decoding, strict=True):
            assert a.arcs.tolist() == b.arcs.tolist() and a.violated == b.violated
    assert [d.score for d in batch[1:3]] == [d.score for d in decoding[1:3]] and batch[-1].words == decoding[-1].words
    with pytest.raises(IndexError):
        batch[len(batch)]
    assert len(decoder.decode_batch([])) == 0


def test_the_judge_sees_what_is_wrong() -> None:
    lattice = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    labels, rules = Labels(["W"]), [r.at_most(1, of="W", count="tokens")]
    arcs = np.array([1, 2], dtype=np.int32)
    wrong = SpanDecoding([(0, 1), (1, 2)], arcs, arcs * 0, 9.0, 1.0, [], 1.0, True, "", {}, labels)
    text = " ".join(check_spans(lattice, rules, wrong).complaints)
    for part in ("the score is 2.0", "the penalty is 0", "hard rule is broken", "violated should be", "the bound 1.0"):
        assert part in text
    cut_short = SpanDecoding([(0, 1)], arcs[1:], arcs[1:] * 0, 1.0, 0.0, [], 1.0, True, "", {}, labels)
    text = " ".join(check_spans(lattice, [], cut_short).complaints)
    assert "arc 2 is not the word (0, 1)" in text and "end at 1, not at 2" in text


# ---- what words are ---------------------------------------------------------------------------------------------


def test_table_4_of_zhao_and_marcus() -> None:
    """They print 55 for the raw input; by their own n(n+1)/2 it is 66 (55 is n(n-1)/2). 18 with four Bs is right."""
    text = "法正研究从波黑撤军计划"
    begins = [text.index(c) for c in "研波撤计"]
    raw = SpanLattice.all_words(11, lambda start, end: np.zeros(len(start)), characters=text)
    assert len(raw) == 11 * 12 // 2 == 66
    smaller, back = raw.cut(begins)
    direct = SpanLattice.all_words(11, lambda start, end: np.zeros(len(start)), begins=begins)
    assert len(smaller) == len(direct) == 18
    assert smaller.spans.tolist() == direct.spans.tolist()
    path = SpanDecoder().k_best(smaller, 1)[0].arcs
    assert raw.words(back(path)) == smaller.words(path)


def test_cut_keeps_just_the_paths_with_these_beginnings() -> None:
    for rng in seeds(60, key=3000):
        lattice = random_lattice(rng, 2)
        at = [int(b) for b in rng.integers(0, lattice.n + 1, int(rng.integers(0, 3)))]
        smaller, back = lattice.cut(at)
        wanted = {p for p in paths(lattice) if set(at) <= {0, *(int(lattice.spans[a, 1]) for a in p)}}
        assert {tuple(back(p).tolist()) for p in paths(smaller)} == wanted
        for p in paths(smaller):
            assert lattice.score(back(p)) == smaller.score(p) and lattice.texts(back(p)) == smaller.texts(p)


def test_all_words_from_a_table_with_labels() -> None:
    table = np.arange(3 * 2 * 2, dtype=float).reshape(3, 2, 2)
    table[2, 1] = np.nan  # no such word: it would end after the last character
    lattice = SpanLattice.all_words(3, table)
    assert lattice.spans[::2].tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    assert lattice.labels.tolist() == [0, 1] * 5 and lattice.scores.tolist() == list(map(float, range(10)))
    assert len(SpanLattice.all_words(3, table, max_length=1)) == 6
    assert len(SpanLattice.all_words(3, lambda s, e: s * 0.0, max_length=2)) == 5
    d = SpanDecoder(["X", "Y"]).decode(lattice)
    assert (d.words, d.labels, d.score, len(d)) == ([(0, 1), (1, 2), (2, 3)], ["Y"] * 3, 15.0, 3)


def test_no_characters() -> None:
    empty = SpanLattice(0, [], [])
    for engine in ("auto", "viterbi", "product", "search", "ilp"):
        d = SpanDecoder(engine=engine).decode(empty)
        assert (d.words, d.labels, d.score, d.bound, d.optimal) == ([], [], 0.0, 0.0, True)
    assert len(SpanDecoder().k_best(empty, 4)) == 1
    d = SpanDecoder(rules=[r.present("WORD").soft(2.0)]).decode(empty)
    assert d.score == -2.0 and d.penalty == 2.0 and d.violated == [(r.present("WORD").soft(2.0), 1)]
    with pytest.raises(Infeasible, match="present WORD"):
        SpanDecoder(rules=[r.present("WORD")]).decode(empty)


def test_infeasible_says_why() -> None:
    gap = SpanLattice(3, [(0, 1), (2, 3)], [1, 1])
    for engine in ("viterbi", "ilp", "search"):
        with pytest.raises(Infeasible, match="has no path") as raised:
            SpanDecoder(engine=engine).decode(gap)
        assert raised.value.clash == ()
    with pytest.raises(Infeasible, match="sequence 1: the lattice has no path") as raised:
        SpanDecoder().decode_batch([SpanLattice(0, [], []), gap])
    assert raised.value.sequence == 1
    rules = [r.forbid("A"), r.starts_with("A"), r.present("B").soft(1.0), r.present("A")]
    with pytest.raises(Infeasible, match="no path obeys") as raised:
        SpanDecoder(["A", "B"], rules).decode(SpanLattice(1, [(0, 1), (0, 1)], [0, 0], [0, 1]))
    assert len(raised.value.clash) == 2 and raised.value.clash[0] == rules[0]


def test_plans_say_why() -> None:
    assert SpanDecoder().plan.engine == "viterbi"
    assert "single words" in SpanDecoder(["A", "B"], [r.forbid("A")]).plan.why
    assert "at most 1" in SpanDecoder(["A"], [r.at_most(1, of="A")]).plan.why
    assert repr(SpanDecoder()) == "SpanDecoder(1 labels, 0 rules, engine='viterbi')"


# ---- limits -----------------------------------------------------------------------------------------------------


def many_rules(m: int = 9) -> tuple[Labels, list[Rule], SpanLattice]:
    """Rules whose product is large, and scores that break all of them."""
    rng, labels = np.random.default_rng(1), Labels([f"L{k}" for k in range(m)])
    rules: list[Rule] = [r.at_most(1, of=name, count="tokens") for name in labels.names[:-1]]
    scores = rng.normal(size=(40, 3, m)) + 1.0
    scores[..., -1] -= 5.0
    return labels, rules, SpanLattice.all_words(40, scores)


def test_limits_leave_a_true_bound() -> None:
    labels, rules, lattice = many_rules()
    best = SpanDecoder(labels, rules).decode(lattice)
    assert best.optimal and check_spans(lattice, rules, best).ok
    with pytest.raises(EngineError, match="cannot hold the intersection"):
        SpanDecoder(labels, rules, "product", max_states=100).decode(lattice)
    with pytest.raises(EngineError, match="cannot hold the intersection"):
        SpanDecoder(labels, rules, max_states=100).k_best(lattice, 2)
    soft = [rule.soft(0.7, "violation") for rule in rules]
    full, short = SpanDecoder(labels, soft).decode(lattice), SpanDecoder(labels, soft, max_states=100).decode(lattice)
    assert not short.optimal and short.score <= full.score <= short.bound
    assert check_spans(lattice, soft, short).ok


def test_time_limit_stops() -> None:
    labels, rules, lattice = many_rules(13)
    watch = Stopwatch()
    for call in ("decode", "k_best"):
        with pytest.raises(LimitReached) as raised:
            decoder = SpanDecoder(labels, rules, "search", time_limit=0.0)
            decoder.decode(lattice) if call == "decode" else decoder.k_best(lattice, 100_000)
        assert raised.value.bound >= -math.inf
    with pytest.raises(LimitReached):
        SpanDecoder(engine="ilp", time_limit=0.0).decode(lattice_of_one_label())
    assert watch.seconds < 10


def lattice_of_one_label() -> SpanLattice:
    return SpanLattice.all_words(40, np.zeros((40, 4)))


def test_ties_do_not_explode() -> None:
    lattice = lattice_of_one_label()
    best = SpanDecoder().k_best(lattice, 2000)
    assert len({tuple(d.arcs.tolist()) for d in best}) == 2000 and all(d.score == 0.0 for d in best)


def test_long_texts() -> None:
    rng, n = np.random.default_rng(0), 20_000
    lattice = SpanLattice.all_words(n, rng.normal(size=(n, 4, 2)))
    rules = [r.forbid_transition("A", "A"), r.at_most(20, of="B", count="tokens").soft(0.5, "violation")]
    d = SpanDecoder(["A", "B"], rules).decode(lattice)
    assert d.optimal and check_spans(lattice, rules, d).ok


# ---- bad input --------------------------------------------------------------------------------------------------

ONE = [(0, 1)]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: SpanLattice(-1, [], []), "invalid value of `n`"),
        (lambda: SpanLattice(True, ONE, [0]), "invalid value of `n`"),
        (lambda: SpanLattice(1, ONE, [math.nan]), r"scores\[0\] is not a score"),
        (lambda: SpanLattice(1, ONE, [math.inf]), r"scores\[0\] is not a score"),
        (lambda: SpanLattice(1, ONE, [0, 1]), "scores has a wrong shape"),
        (lambda: SpanLattice(1, [(0, 2)], [0]), "span 0 is not a word"),
        (lambda: SpanLattice(1, [(-1, 1)], [0]), "span 0 is not a word"),
        (lambda: SpanLattice(2, [(0, 1), (1, 1)], [0, 0]), r"span 1 is not a word; got \(1, 1\)"),
        (lambda: SpanLattice(2, [(2, 1)], [0]), "span 0 is not a word"),
        (lambda: SpanLattice(1, [(0, 1.0)], [0]), "spans are not pairs"),
        (lambda: SpanLattice(1, [(0, 1, 1)], [0]), "spans are not pairs"),
        (lambda: SpanLattice(1, [(0, 1), (0,)], [0]), "spans are not pairs"),
        (lambda: SpanLattice(1, ONE, [0], [0, 0]), "labels do not fit"),
        (lambda: SpanLattice(1, ONE, [0], [-1]), "labels do not fit"),
        (lambda: SpanLattice(1, ONE, [0], [0.5]), "labels are not label ids"),
        (lambda: SpanLattice(1, ONE, [0], None, "ab"), "characters have another length"),
        (lambda: SpanLattice(1, ONE, [0]).cut([2]), "a boundary is outside"),
        (lambda: SpanLattice(1, ONE, [0]).cut([0.5]), "boundaries are not"),
        (lambda: SpanLattice.all_words(2, np.zeros((3, 2))), "table of word scores"),
        (lambda: SpanLattice.all_words(2, lambda s, e: [0.0]), "scores has a wrong shape"),
        (lambda: SpanLattice.all_words(2, np.zeros((2, 2)), max_length=0), "max_length"),
        (lambda: SpanLattice(2, [(0, 1), (1, 2)], [0, 0]).words([0]), "not a path"),
        (lambda: SpanLattice(2, [(0, 1), (1, 2)], [0, 0]).score([1, 0]), "not a path"),
        (lambda: SpanLattice(1, ONE, [0]).score([7]), "not a path"),
        (lambda: SpanLattice(1, ONE, [0]).score([0.0]), "not a path"),
        (lambda: SpanDecoder().decode(SpanLattice(1, ONE, [0], [1])), "an unknown label id"),
        (lambda: SpanDecoder().decode_batch([3]), "this is not a word lattice"),  # type: ignore[list-item]
    ],
)
def test_bad_lattices(make: Any, match: str) -> None:
    with pytest.raises(LatticeError, match=match) as raised:
        make()
    assert raised.value.what and raised.value.got is not None and raised.value.wanted is not None


def test_bad_decoders() -> None:
    lattice = SpanLattice(1, ONE, [0])
    for rule in (
        r.fix("A", 0),
        r.label_at(r.given("x"), "A"),
        r.same_label((0, 1)),
        r.same_label(r.given("spans")),
        r.forbid("A", at=[]),
        (r.label_at(-1, "A") | r.present("A")).soft(1.0),
    ):
        with pytest.raises(EngineError, match="take no rules about positions"):
            SpanDecoder(["A"], [rule])
    for engine in ("viterbi", "ilp"):
        for rule in (r.at_most(1, of="A"), r.starts_with("A"), r.forbid("A").soft(1.0)):
            with pytest.raises(EngineError, match="takes only hard rules about single words"):
                SpanDecoder(["A"], [rule], engine)
    with pytest.raises(EngineError, match="unknown engine"):
        SpanDecoder(engine="magic")
    with pytest.raises(EngineError, match="time_limit"):
        SpanDecoder(time_limit=-1)
    with pytest.raises(EngineError, match="max_states"):
        SpanDecoder(max_states=0)
    with pytest.raises(EngineError, match="`k` must be"):
        SpanDecoder().k_best(lattice, 0)
    with pytest.raises(EngineError, match="threads"):
        SpanDecoder().decode_batch([lattice], threads=-1)
    with pytest.raises(RuleError, match="not a rule"):
        SpanDecoder(rules=[7])  # type: ignore[list-item]
    with pytest.raises(LabelError):
        SpanDecoder(["A"], [r.forbid("B")])
    with pytest.raises(GivenError, match="no characters"):
        SpanDecoder(["A"], [r.fix("A", r.tokens("a"))]).decode(lattice)
    with pytest.raises(GivenError, match="no characters"):
        lattice.texts([0])
    with pytest.raises(GivenError, match="does not fit the batch"):
        SpanDecoder().decode_batch([lattice], {"x": 1})  # type: ignore[arg-type]
    with pytest.raises(GivenError, match="missing"):
        SpanDecoder(["A"], [r.present(r.given("x"))]).decode(lattice)


def test_sentences_are_rules() -> None:
    assert SpanDecoder(["A", "B"], ["at most 1 segment of A"]).rules == (r.at_most(1, of="A"),)


def test_sequences_without_an_answer_have_a_status() -> None:
    fine, broken = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1]), SpanLattice(2, [(0, 1)], [1])
    for engine in ("auto", "ilp"):
        decodings = SpanDecoder(engine=engine, on_infeasible="skip").decode_batch([fine, broken, fine])
        assert decodings.status.tolist() == ["optimal", "infeasible", "optimal"] and decodings[1].words == []
        assert decodings[1].status == "infeasible" and decodings[1].score == -np.inf
        with pytest.raises(bridle.Infeasible) as caught:
            SpanDecoder(engine=engine).decode_batch([fine, broken, fine])
        assert caught.value.sequence == 1 and caught.value.decodings[2].words == [(0, 2)]
    assert SpanDecoder(on_infeasible="skip").decode(broken).status == "infeasible"
    with pytest.raises(bridle.EngineError, match="invalid value of `on_infeasible`"):
        SpanDecoder(on_infeasible="relax")  # type: ignore[arg-type]
