"""Outcomes are values: a status per sequence, and what was decoded is never thrown away."""

from __future__ import annotations

import functools
import json
import operator
from collections import deque

import numpy as np
import pytest

import bridle
from bridle import Batch, Decoder, Labels, Lattice, LatticeError
from bridle import rules as r
from bridle.decoding import result
from bridle.decoding.problem import Answers, Limits, Problem
from bridle.engines import Beam, Engine, Search
from stopwatch import Stopwatch

LABELS = Labels(["O", "A", "B"])
FINE = Lattice([[0.0, 2, 1], [0, 1, 0], [3, 0, 0]])
SCORES = np.zeros((3, 3))
NO_PATH = Lattice(np.full((3, 3), -np.inf))
CLASH = [r.fix("A", r.given("x")), r.fix("B", r.given("y"))]
APART, TOGETHER = {"x": 0, "y": 1}, {"x": 0, "y": 0}


def batch() -> tuple[list[Lattice], list[dict[str, int]]]:
    """The third and the fifth of six sequences cannot be labelled."""
    return [FINE] * 6, [TOGETHER if k in (2, 4) else APART for k in range(6)]


@pytest.mark.parametrize("threads", [1, 2])
def test_skip_gives_the_batch_whole(threads: int) -> None:
    lattices, given = batch()
    decodings = Decoder(LABELS, CLASH, on_infeasible="skip").decode_batch(lattices, given, threads)
    assert decodings.status.tolist() == ["optimal", "optimal", "infeasible", "optimal", "infeasible", "optimal"]
    assert decodings.answered.tolist() == (decodings.status == "optimal").tolist() == decodings.optimal.tolist()
    assert decodings.labels == [[] if k in (2, 4) else ["A", "B", "O"] for k in range(6)]
    assert decodings.ids.reshape(6, 3)[[2, 4]].tolist() == [[-1] * 3] * 2 == decodings.padded()[[2, 4]].tolist()
    assert (
        [d.labels for d in decodings] == decodings.labels and len(decodings[2]) == 0 and decodings[2].score == -np.inf
    )
    assert [d.status for d in decodings] == decodings.status.tolist() and sorted(decodings.unanswered) == [2, 4]
    assert decodings[4].clash == tuple(CLASH) and decodings[0].clash == ()
    assert json.loads(json.dumps(decodings[2].to_dict())) == {"labels": None, "clash": [str(rule) for rule in CLASH]}


def test_the_clash_is_searched_for_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    search = result.infeasible
    monkeypatch.setattr(result, "infeasible", lambda *args, **limits: asked.append(1) or search(*args, **limits))
    lattices, given = batch()
    decodings = Decoder(LABELS, CLASH, on_infeasible="skip").decode_batch(lattices, given)
    assert decodings.labels[2] == [] and asked == []
    assert decodings[2].clash == decodings[2].clash == tuple(CLASH) and asked == [1]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_carries_all_that_was_decoded(threads: int) -> None:
    lattices, given = batch()
    with pytest.raises(bridle.Infeasible) as caught:
        Decoder(LABELS, CLASH).decode_batch(lattices, given, threads)
    error = caught.value
    assert error.sequence == 2 and error.clash == tuple(CLASH) and str(error).startswith("sequence 2: no labelling")
    assert error.decodings.labels == [[] if k in (2, 4) else ["A", "B", "O"] for k in range(6)]
    assert error.decodings.status.tolist().count("infeasible") == 2


def test_a_limit_that_came_too_early_is_a_value_too() -> None:
    """The one hypothesis that a beam keeps has no B at the end."""
    hard = Lattice(np.tile([0.0, 2, 1], (9, 1)))
    rules, lattices = [r.at_least(1, of="B")], [Lattice([[0.0, 0, 1]]), hard]
    for what in ("skip", "relax"):
        decodings = Decoder(LABELS, rules, Beam(width=1), on_infeasible=what).decode_batch(lattices)  # type: ignore[arg-type]
        assert decodings.status.tolist() == ["optimal", "nothing_found"] and decodings.labels == [["B"], []]
        assert decodings[1].bound == decodings.bounds[1] == 18.0 and decodings[1].clash == ()
        assert decodings[1].to_dict() == {"labels": None, "bound": 18.0, "optimal": False}
    with pytest.raises(bridle.LimitReached) as caught:
        Decoder(LABELS, rules, Beam(width=1)).decode_batch(lattices)
    assert caught.value.sequence == 1 and caught.value.decodings.labels == [["B"], []]
    assert Decoder(LABELS, rules, Beam(width=1), on_infeasible="skip").decode(hard).status == "nothing_found"
    with pytest.raises(bridle.LimitReached):
        Decoder(LABELS, rules, Beam(width=1), on_infeasible="relax").decode(hard)


def test_what_a_limit_stopped_says_so() -> None:
    rng = np.random.default_rng(0)
    rules = [r.exactly(2, of=a).soft(1.0) for a in "OAB"] + [r.before("A", "B").soft(2.0), r.before("B", "O").soft(1.0)]
    lattices = [Lattice(rng.normal(size=(12, 3))) for _ in range(20)]
    decodings = Decoder(LABELS, rules, Beam(width=1)).decode_batch(lattices)
    assert {"limit"} <= set(decodings.status.tolist()) <= {"limit", "optimal"}
    assert (decodings.bounds[decodings.status == "limit"] > decodings.scores[decodings.status == "limit"]).all()


def test_relaxed_sequences_say_so() -> None:
    lattices, given = batch()
    decoder = Decoder(LABELS, CLASH, on_infeasible="relax")
    decodings = decoder.decode_batch([*lattices, NO_PATH], [*given, APART])
    assert decodings.status.tolist() == ["optimal", "optimal", "relaxed", "optimal", "relaxed", "optimal", "infeasible"]
    assert decodings.relaxed.tolist() == [k in (2, 4) for k in range(7)] and decodings.answered.tolist() == [
        True
    ] * 6 + [False]
    assert (
        decodings[2].labels == ["A", "A", "O"] and decodings[2].violated == [(CLASH[1], 1)] and decodings[2].clash == ()
    )
    assert decodings[6].clash == () and "no path" in str(decodings.unanswered[6].error)
    with pytest.raises(bridle.Infeasible, match="no path"):
        decoder.decode(NO_PATH, APART)
    assert Decoder(LABELS, on_infeasible="skip").decode(NO_PATH).status == "infeasible"


def test_padded_batches_keep_their_shape() -> None:
    scores = np.zeros((3, 4, 3))
    scores[1] = -np.inf
    decodings = Decoder(LABELS, on_infeasible="skip").decode_batch(Batch.from_padded(scores, lengths=[2, 4, 1]))
    assert decodings.padded().tolist() == [[0, 0, -1, -1], [-1] * 4, [0, -1, -1, -1]]
    assert decodings.status.tolist() == ["optimal", "infeasible", "optimal"]


def test_engines_that_users_make_have_outcomes_too() -> None:
    decodings = Decoder(LABELS, CLASH, "ilp", on_infeasible="skip").decode_batch(*batch())
    assert decodings.status.tolist().count("infeasible") == 2 and decodings[0].stats["lp_integral"] is True


@pytest.mark.parametrize("what", ["raise", "relax", "skip"])
def test_texts_of_a_model_are_known_when_rules_clash(what: str) -> None:
    """Scores come part by part, and the texts of tokens with them; relaxing and the search for a clash need them."""
    model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
    rules = ["forbid D", "fix D at tokens /the/"]
    decoder = model.decoder(rules, on_infeasible=what)
    if what == "raise":
        with pytest.raises(bridle.Infeasible) as caught:
            model.decode([["cat"], ["the", "cat"]], decoder)
        assert caught.value.sequence == 1 and len(caught.value.clash) == 2 and caught.value.decodings.labels[0] == ["N"]
        return
    result = model.decode([["cat"], ["the", "cat"]], decoder)
    assert result.status.tolist() == ["optimal", "relaxed" if what == "relax" else "infeasible"]
    assert result.labels == [["N"], ["D", "N"] if what == "relax" else []]
    assert len(result[1].clash) == (0 if what == "relax" else 2)


def test_relaxed_scores_are_true_beside_very_low_ones() -> None:
    """A finite mask, as networks use them, is far away, and does not swallow the other scores."""
    unary = np.array([[1.5, 2.25, 0.1], [0.3, np.finfo(np.float32).min, 0.7], [0.2, 0.9, 0.4]], dtype=np.float32)
    rules = [r.forbid("A"), r.fix("A", 0)]
    for lowest in (np.finfo(np.float32).min, -1e9, -50.0):
        lattice = Lattice(np.where(unary < -1e30, lowest, unary.astype(float)))
        d = Decoder(LABELS, rules, on_infeasible="relax").decode(lattice)
        assert d.score == pytest.approx(lattice.score(d.ids)) and d.bound >= d.score and d.relaxed
        assert d.optimal and bridle.check(lattice, rules, d).ok
    low = np.zeros((5, 3))
    low[:, 1] = -1e290
    assert Decoder(LABELS, rules, on_infeasible="relax").decode(Lattice(low)).relaxed


def test_relaxed_decodings_prove_both_parts() -> None:
    """Two rules cannot hold at once, twice: two violations at least, wherever the scores would like more of them."""
    rules = [r.fix("A", 0), r.forbid("A", at=0), r.fix("B", 2), r.forbid("B", at=2), r.forbid_transition("O", "O")]
    lattice = Lattice([[9.0, 0, 1], [9, 0, 0], [9, 0, 1]])
    d = Decoder(LABELS, rules, on_infeasible="relax").decode(lattice)
    assert (d.status, d.optimal, d.labels[::2], d.score) == ("relaxed", True, ["O", "O"], 18.0) and d.labels[1] != "O"
    assert d.stats["hard_violations"] == d.stats["hard_violations_bound"] == 2 and d.bound == d.score
    assert sum(times for _, times in d.violated) == 2


def test_masks_that_cannot_hold_are_given_up_where_they_cannot() -> None:
    """`forbid A` holds wherever it can: the one token that must be A does not justify giving it up elsewhere."""
    rules = [r.forbid("A"), r.fix("A", 3)]
    unary = np.zeros((6, 3))
    unary[:, 1] = 5.0  # the scores would like A everywhere
    d = Decoder(LABELS, rules, on_infeasible="relax").decode(Lattice(unary))
    assert d.labels.count("A") <= 1 and d.stats["hard_violations"] == 1
    rule = r.forbid("A") & r.present("A")  # one rule: it is broken, or it is not
    d = Decoder(LABELS, [rule], on_infeasible="relax").decode(Lattice(unary))
    assert d.labels == ["A"] * 6 and d.violated == [(rule, 1)] and d.optimal


def test_conjunctions_of_any_size_are_relaxed() -> None:
    """They count once, and their parts stay apart: nothing is too large."""
    names = [f"L{k}" for k in range(13)]
    rule = functools.reduce(operator.and_, [r.exactly(1, of=name) for name in names])
    rng = np.random.default_rng(0)
    lattices = [Lattice(rng.normal(size=(n, 13))) for n in (20, 5, 16)]  # 5 tokens cannot hold 13 segments
    decodings = Decoder(names, [rule], on_infeasible="relax").decode_batch(lattices)
    assert decodings.status.tolist() == ["optimal", "relaxed", "optimal"] and decodings.optimal.all()
    assert decodings[1].violated == [(rule, 1)] and decodings[1].score == pytest.approx(
        lattices[1].unary.max(axis=1).sum()
    )


@pytest.mark.parametrize("states", [1, 2, 64])
def test_a_conjunction_is_paid_for_once_however_it_is_folded(states: int) -> None:
    """One of its parts counts, the other does not: they are folded together, or not at all."""
    rules = ["A followed by C", "(at least 2 segments of C) and (not (length of D at least 1))"]
    lattice = Lattice([[1.5, 1.0, -2.0]], None, [-0.5, -1.5, 1.5], [-2.0, 1.0, 0.5])
    d = Decoder(["C", "A", "D"], rules, Search(max_product_states=states), on_infeasible="relax").decode(lattice)
    assert (d.labels, d.score, d.optimal) == (["D"], 0.0, True)


def test_relaxing_that_runs_out_of_time_is_not_infeasible() -> None:
    rules = [r.forbid("A"), r.fix("A", 0), r.at_most(3, of="B"), r.before("B", "O")]
    lattice = Lattice(np.random.default_rng(0).normal(size=(200_000, 3)))
    for limit in (0.0, 0.01):
        decoder = Decoder(LABELS, rules, on_infeasible="relax", time_limit=limit)
        try:
            d = decoder.decode(lattice)
        except bridle.LimitReached as error:
            assert error.bound > 0
        else:
            assert d.relaxed and d.stats["hard_violations"] >= 1
        assert decoder.decode_batch([lattice]).status[0] in ("relaxed", "nothing_found")


def test_relaxing_keeps_to_the_time_limit() -> None:
    rng, names = np.random.default_rng(0), [f"L{k}" for k in range(12)]
    pairs = [(a, b) for a in names for b in names if a != b]
    rules = [r.before(*pairs[k]) for k in rng.permutation(len(pairs))[:40]] + [r.present(a) for a in names]
    lattice = Lattice(rng.normal(size=(60, 12)))
    decoder = Decoder(names, rules, on_infeasible="relax", time_limit=0.1)
    watch = Stopwatch()
    try:
        d = decoder.decode(lattice)
    except bridle.LimitReached:  # it was not even known to be infeasible
        pass
    else:
        assert d.relaxed and d.stats["hard_violations_bound"] <= d.stats["hard_violations"]
        assert bridle.check(lattice, rules, d).ok and d.bound >= d.score
    assert watch.seconds < 0.5


def test_a_batch_may_be_any_sequence() -> None:
    decodings = Decoder(LABELS).decode_batch(deque([FINE, FINE]))
    assert len(decodings) == 2
    with pytest.raises(bridle.LatticeError) as caught:
        Decoder(LABELS).decode_batch([FINE, SCORES])  # type: ignore[list-item]
    assert caught.value.sequence == 1


def test_an_engine_that_writes_nothing_has_found_nothing() -> None:
    class Lazy(Engine):
        def solve(self, problem: Problem, limits: Limits, answers: Answers) -> None:
            pass

    decodings = Decoder(LABELS, engine=Lazy(), on_infeasible="skip").decode_batch([FINE])
    assert decodings.status.tolist() == ["nothing_found"] and decodings.labels == [[]]


def test_misspelt_options_are_refused() -> None:
    with pytest.raises(TypeError):
        Decoder(LABELS).with_rules([], on_infeasable="skip")  # type: ignore[call-arg]


def test_the_k_best_that_a_limit_stopped_have_a_bound() -> None:
    rng = np.random.default_rng(3)
    labels = Labels([f"L{k}" for k in range(8)])
    rules = [r.before(f"L{a}", f"L{b}").soft(2.0) for a in range(8) for b in range(8) if a != b]
    lattice = Lattice(rng.normal(size=(30, 8)))
    decoder = Decoder(labels, rules, max_states=1)
    assert decoder.k_best(lattice, 3)[0].bound == pytest.approx(decoder.decode(lattice).bound)


@pytest.mark.parametrize("engine", ["viterbi", "search", "product", "lazy_intersection", "beam", "two_stage"])
@pytest.mark.parametrize("written", [np.nan, np.inf])
def test_scores_written_to_after_the_check_are_no_labelling(engine: str, written: float) -> None:
    """A batch borrows its scores: what the caller writes into them later must not come back as an optimal answer."""
    scores = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    batch = Batch(scores, [0, 3, 6])
    scores[4] = written
    decoder = Decoder(Labels(["O", "A", "B"]), engine=engine)
    for on_infeasible in ("raise", "skip", "relax"):
        chosen = decoder.with_rules([], on_infeasible=on_infeasible)
        with pytest.raises(LatticeError, match=r"unary\[1, 0\] is not a score"):
            chosen.decode_batch(batch)
