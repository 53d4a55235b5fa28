"""Differences of the engines: their counters, counted by hand on small lattices, and the problems that it refuses."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, ClassVar

import highspy
import numpy as np
import pytest

import bridle
from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.deadline import Deadline
from bridle.engines import Beam, NativeEngine, TwoStage, engine_named, engine_names, highs
from bridle.errors import EngineError
from contract import hard_lattice

LABELS = Labels(["O", "A"], "IO")
# The best path is A O A, two segments; the best with one is A A A.
TWICE = Lattice([[0, 2], [1, 0], [0, 2]])
ONCE = r.at_most(1, of="A")


def decode(
    lattice: Lattice, rules: list[r.Rule], engine: str, labels: Labels = LABELS, **options: Any
) -> bridle.Decoding:
    """A decoding that the judge accepts."""
    d = Decoder(labels, rules, engine_named(engine, **options)).decode(lattice)
    assert bridle.check(lattice, rules, d).ok and d.engine == engine
    return d


def test_product_counts_states_and_arcs() -> None:
    """States: no A yet, in the one A, after it. Arcs into t = 0: 2; 1: 2 + 2; 2: 2 + 2, and only O after the one A."""
    d = decode(TWICE, [ONCE], "product")
    assert (d.labels, d.score) == (["A", "A", "A"], 4.0)
    assert d.stats == {"states": 3, "arcs": 2 + 4 + 5}
    assert decode(TWICE, [], "product").stats == {"states": 1, "arcs": 2 + 4 + 4}


def test_product_counts_only_arcs_on_some_path() -> None:
    """Without A in the middle, its two arcs and the two that leave it are gone."""
    cut = Lattice([[0, 2], [1, -np.inf], [0, 2]])
    assert decode(cut, [], "product").stats["arcs"] == 2 + 2 + 2
    assert decode(cut, [ONCE], "product").stats["arcs"] == 2 + 2 + 3
    end = Lattice([[0, 2], [1, 0], [0, 2]], end=[0, -np.inf])
    assert decode(end, [], "product").stats["arcs"] == 2 + 4 + 2
    assert decode(Lattice(np.zeros((0, 2))), [ONCE], "product").stats["arcs"] == 0


def test_relax_intersects_what_is_violated() -> None:
    """Figure 2: the lattice, then the lattice with the one rule that its best path breaks."""
    never = r.at_most(3, of="O", count="tokens")
    d = decode(TWICE, [never, ONCE], "lazy_intersection")
    assert (d.labels, d.score) == (["A", "A", "A"], 4.0)
    assert d.stats == {"violated": [1], "intersections": 1, "branches": 0, "arcs": [10, 11]}
    none = decode(TWICE, [never], "lazy_intersection").stats
    assert none == {"violated": [], "intersections": 0, "branches": 0, "arcs": [10]}
    both = decode(TWICE, [ONCE, r.at_most(2, of="A", count="tokens")], "lazy_intersection").stats
    assert both["intersections"] == 2 and len(both["arcs"]) == 3 and both["arcs"][0] == 10


@pytest.mark.parametrize(
    ("penalty", "labels", "score"), [(0.5, "A O A", 4.5), (1.0, "A O A", 4.0), (2.0, "A A A", 4.0)]
)
def test_relax_branches_on_soft_rules(penalty: float, labels: str, score: float) -> None:
    """Figure 7: the root pays for the rule, its one branch keeps it; the better one stays."""
    d = decode(TWICE, [ONCE.soft(penalty)], "lazy_intersection")
    assert (" ".join(d.labels), d.score) == (labels, score)
    assert d.stats == {"violated": [0], "intersections": 1, "branches": 2, "arcs": [10, 11]}


def test_relax_does_not_depend_on_the_order_of_rules() -> None:
    rng = np.random.default_rng(5)
    labels = Labels(["O", "A", "B", "C"], "IO")
    rules = [r.at_most(1, of=x) for x in "ABC"] + [r.before("A", "B").soft(0.5), r.present("C").soft(1.0)]
    for _ in range(20):
        lattice = Lattice(rng.normal(size=(9, 4)) * 2, rng.normal(size=(4, 4)))
        result = {round(decode(lattice, rules, "lazy_intersection", labels, seed=seed).score, 9) for seed in range(5)}
        assert result == {round(decode(lattice, rules, "search", labels).score, 9)}


def test_ilp_says_how_large_it_was_and_whether_the_relaxation_was_whole() -> None:
    d = decode(TWICE, [ONCE], "ilp")
    assert (d.labels, d.score) == (["A", "A", "A"], 4.0)
    assert d.stats["lp_integral"] is True
    assert d.stats["variables"] == 2 + 2 * 4 + 2  # start edges, inner edges, end edges
    assert d.stats["rows"] == 3 * 2 + 2 + 1  # what enters a node leaves it; one unit enters, one leaves; the rule
    assert d.stats["build_seconds"] > 0 and d.stats["solve_seconds"] > 0


def test_ilp_branches_where_the_papers_rows_are_weak() -> None:
    rng = np.random.default_rng(2)
    labels = Labels(["O", "A", "B"], "IO")
    whole: dict[str, int] = {"tight": 0, "paper": 0}
    for _ in range(15):
        lattice = Lattice(rng.normal(size=(8, 3)), rng.normal(size=(3, 3)))
        best = decode(lattice, [r.no_duplicates(["A", "B"])], "search", labels).score
        for formulation in whole:
            d = decode(lattice, [r.no_duplicates(["A", "B"])], "ilp", labels, formulation=formulation)
            assert d.optimal and d.score == pytest.approx(best)
            whole[formulation] += d.stats["lp_integral"]
    assert whole["paper"] < whole["tight"]


STAGES = ["two_stage", "two_stage:stage=ilp", "two_stage:stage=ilp,formulation=paper"]


def test_both_formulations_of_two_stage_reach_its_optimum() -> None:
    labels, rng = Labels(["O", "A", "B"], "IO"), np.random.default_rng(3)
    for _ in range(8):
        lattice = Lattice(rng.normal(size=(6, 3)), rng.normal(size=(3, 3)))
        rules = [r.followed_by("A", "B").soft(1.0), r.if_present("B", then="A").soft(0.5), r.at_most(1, of="B")]
        decodings = [Decoder(labels, rules, stage).decode(lattice) for stage in STAGES]
        assert all(bridle.check(lattice, rules, d).ok and d.optimal for d in decodings)
        assert [d.penalty for d in decodings] == [decodings[0].penalty] * 3
        assert [d.score for d in decodings] == pytest.approx([decodings[0].score] * 3)


def test_a_name_can_carry_options() -> None:
    assert engine_named("beam:width=3") == Beam(width=3)
    assert engine_named("two_stage: tau=1, stage=ilp") == TwoStage(tau=1, stage="ilp")
    assert Decoder(LABELS, [], "ilp:formulation=paper").plan.engine == "ilp"


@pytest.mark.parametrize("stage", ["native", "ilp"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_stage_measures_its_slack_from_the_best_whatever_the_sign(sign: float, stage: str) -> None:
    """Z = 10 or -10, one less for A: within (1 - tau) |Z| when tau <= 0.9."""
    lattice = Lattice([[10 * sign, 10 * sign - 1]])
    rules = [r.starts_with("A").soft(0.25)]
    for tau, wanted in ((1.0, "O"), (0.95, "O"), (0.9, "A"), (0.5, "A"), (0.0, "A")):
        d = decode(lattice, rules, "two_stage", tau=tau, stage=stage)
        assert d.labels == [wanted] and d.optimal
        assert d.penalty == (0.25 if wanted == "O" else 0.0)
    assert decode(lattice, rules, "search").labels == ["O"]  # 0.25 is cheaper than 1


@pytest.mark.parametrize("stage", ["native", "ilp"])
def test_two_stage_takes_the_best_of_the_cheapest(stage: str) -> None:
    """Of A O and A A, both without a violation, the one that scores higher."""
    lattice = Lattice([[5, 4], [0, 0.5]])
    d = decode(lattice, [r.starts_with("A").soft(1.0)], "two_stage", tau=0.5, stage=stage)
    assert d.labels == ["A", "A"] and d.score == 4.5
    hard = decode(lattice, [r.starts_with("A").soft(1.0), r.ends_with("O")], "two_stage", tau=0.5, stage=stage)
    assert hard.labels == ["A", "O"] and hard.optimal


def test_two_stage_tells_the_penalty_when_a_limit_stops_it() -> None:
    labels, lattice, rules = hard_lattice(0)
    rules = [*rules, r.ends_with("L2").soft(3.0)]
    d = Decoder(labels, rules, "two_stage", max_states=1).decode(lattice)
    assert bridle.check(lattice, rules, d).ok


def test_two_stage_is_sure_of_a_sequence_without_tokens() -> None:
    assert decode(Lattice(np.zeros((0, 2))), [r.present("A").soft(1.0)], "two_stage").optimal


def test_beam_may_miss_the_best_and_says_so() -> None:
    """The one hypothesis that is kept begins with O; A A is better by its pairwise score."""
    lattice = Lattice([[1, 0], [0, 0]], pairwise=[[0, 0], [0, 5]])
    d = decode(lattice, [], "beam", width=1)
    assert (d.score, d.optimal, d.bound) == (1.0, False, 5.0)
    wide = decode(lattice, [], "beam", width=2)
    assert (wide.labels, wide.score, wide.optimal, wide.bound) == (["A", "A"], 5.0, True, 5.0)
    with pytest.raises(bridle.LimitReached) as caught:
        Decoder(LABELS, [r.at_least(2, of="A")], Beam(width=1)).decode(Lattice([[9, 0]] * 3))
    assert caught.value.bound == 27.0


def test_beam_is_under_the_rules_but_its_bound_is_not() -> None:
    d = decode(TWICE, [ONCE], "beam", width=20)
    assert (d.labels, d.score, d.bound, d.optimal) == (["A", "A", "A"], 4.0, 5.0, False)


def test_search_counts_its_work() -> None:
    d = decode(TWICE, [ONCE], "search")
    assert set(d.stats) == {"rounds", "passes", "expansions", "states", "active", "multipliers"}
    assert all(isinstance(v, int) and v >= 0 for v in d.stats.values()) and d.stats["rounds"] >= 1


def test_viterbi_takes_masks_only() -> None:
    asked = r.forbid_transition("A", r.given("x"))
    for rule in (ONCE, r.forbid("A", at=0).soft(1.0), r.forbid("A") & r.present("O"), asked):
        with pytest.raises(bridle.EngineError, match="only rules that are masks") as caught:
            Decoder(LABELS, [r.forbid("A", at=0), rule], "viterbi")
        assert caught.value.got == str(rule) and caught.value.wanted and caught.value.cause
    masks = [r.forbid("A", at=0), r.forbid_transition("A", "O"), r.fix("A", 1) & r.ends_with("A")]
    assert decode(TWICE, masks, "viterbi").labels == ["O", "A", "A"]


def test_relax_takes_no_penalties_per_violation() -> None:
    rule = ONCE.soft(1.0, per="violation")
    with pytest.raises(bridle.EngineError, match="only binary soft rules") as caught:
        Decoder(LABELS, [rule], "lazy_intersection")
    assert caught.value.got == str(rule) and "per='sequence'" in caught.value.wanted and caught.value.cause


@pytest.mark.parametrize("engine", ["product", "lazy_intersection"])
def test_an_intersection_that_is_too_large(engine: str) -> None:
    rules = [r.exactly(2, of="A", count="tokens"), r.exactly(1, of="O", count="tokens")]
    with pytest.raises(bridle.EngineError, match="cannot hold the intersection") as caught:
        Decoder(LABELS, rules, engine, max_states=2).decode(Lattice([[0, 1]] * 4))
    assert caught.value.got == "2 rules" and caught.value.wanted and "search" in str(caught.value.cause)


def test_engines_by_name() -> None:
    assert engine_names() == ["beam", "ilp", "lazy_intersection", "product", "search", "two_stage", "viterbi"]
    for name in ("Viterbi", "", None, 3, ["auto"]):
        with pytest.raises(bridle.EngineError, match="unknown engine") as caught:
            Decoder(LABELS, engine=name)  # type: ignore[arg-type]
        assert caught.value.got == repr(name) and "auto, beam, ilp" in caught.value.wanted


class Event:
    """A callback of a solver that is never called."""

    def clear(self) -> None:
        pass

    def subscribe(self, _callback: Any) -> None:
        pass


class Solver:
    """As much of HiGHS as is asked; it cannot be interrupted before `ends` is set."""

    cbSimplexInterrupt = cbIpmInterrupt = cbMipInterrupt = Event()  # noqa: N815

    def __init__(self, ends: threading.Event | None = None) -> None:
        self.set: dict[str, Any] = {}
        self.ends = ends

    def setOptionValue(self, name: str, value: Any) -> None:  # noqa: N802
        self.set[name] = value

    def getRunTime(self) -> float:  # noqa: N802
        return 1000.0

    def run(self) -> None:
        if self.ends:
            self.ends.wait(60)

    def getModelStatus(self) -> Any:  # noqa: N802
        return highspy.HighsModelStatus.kOptimal


def test_a_second_run_of_highs_has_all_the_time_that_is_left() -> None:
    """Its clock runs on from run to run."""
    solver: Any = Solver()
    assert highs.run(solver, Deadline.after(50), relaxed=True) == "optimal"
    assert 1000 < solver.set["time_limit"] <= 1050
    assert highs.run(solver, Deadline.after(0), relaxed=True) == "abandoned"


def test_highs_is_left_alone_when_it_does_not_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """But no more than a few of them are: one more waits for them, until its own deadline."""
    monkeypatch.setattr(highs, "MOST_ABANDONED", 1)
    ends = threading.Event()
    slow: Any = Solver(ends)
    assert highs.run(slow, Deadline.after(0.01), relaxed=True) == "abandoned"
    assert any(thread.is_alive() for thread in highs._abandoned)
    assert highs.run(slow, Deadline.after(0.01), relaxed=True) == "abandoned"  # there is no room for it
    threading.Timer(0.2, ends.set).start()
    assert highs.run(Solver(), Deadline.after(60), relaxed=True) == "optimal"  # when the first has ended
    assert not any(thread.is_alive() for thread in highs._abandoned)


def test_highs_that_stops_late_is_out_of_time() -> None:
    """A solver that is interrupted just after it was given up has not failed."""

    class Late(Solver):
        def run(self) -> None:
            time.sleep(0.05)

        def getModelStatus(self) -> Any:  # noqa: N802
            return highspy.HighsModelStatus.kInterrupt

    late: Any = Late()
    assert highs.run(late, Deadline.after(0.001), relaxed=True) in ("abandoned", "limit")
    for thread in list(highs._abandoned):
        thread.join()


@pytest.mark.parametrize("engine", ["search", "ilp"])
def test_a_limit_leaves_a_true_bound(engine: str) -> None:
    labels, lattice, rules = hard_lattice(1)
    full = Decoder(labels, rules).decode(lattice)
    try:
        d = Decoder(labels, rules, engine, time_limit=0.0).decode(lattice)
    except bridle.LimitReached as error:
        assert full.score <= error.bound < math.inf
    else:
        assert bridle.check(lattice, rules, d).ok and not d.optimal and d.score <= full.score <= d.bound


def test_an_engine_without_a_kernel_says_so() -> None:
    class Unheard(NativeEngine):
        name: ClassVar[str] = "unheard of"

    try:
        for engine in ("unheard of", Unheard()):
            with pytest.raises(EngineError, match="no kernel for this engine; got 'unheard of'"):
                Decoder(LABELS, [ONCE], engine)
    finally:
        bridle.engines._ENGINES.pop("unheard of")


def test_engines_are_values_with_their_own_options() -> None:
    assert engine_named("beam", width=3) == Beam(width=3) != Beam()
    assert Decoder(LABELS, engine=Beam(3)).plan.engine == "beam"
    assert Decoder(LABELS, [ONCE], Beam(width=3)).with_rules([]).engine == Beam(width=3)
    with pytest.raises(EngineError, match="has no option 'width'; got 3; wanted tau, stage"):
        engine_named("two_stage", width=3)


def test_a_decoding_says_which_objective_was_optimised() -> None:
    """`two_stage` calls a labelling optimal though another one scores higher than its bound: it names its objective."""
    lattice, rules = Lattice([[0.0, 3.0]]), [r.fix("O", 0).soft(1.0)]
    two, plain = Decoder(["O", "A"], rules, TwoStage(tau=0.0)), Decoder(["O", "A"], rules)
    for d in (two.decode(lattice), two.decode_batch([lattice] * 2)[1]):
        assert (d.labels, d.bound, d.optimal, d.objective) == (["O"], 0.0, True, "two_stage")
        assert d.to_dict()["objective"] == "two_stage"
        assert bridle.check(lattice, two.rules, d).ok
    for d in (plain.decode(lattice), plain.decode_batch([lattice] * 2)[1], two.k_best(lattice, 1)[0]):
        assert (d.labels, d.bound, d.objective) == (["A"], 2.0, "score")
        assert "objective" not in d.to_dict()
    clash = Decoder(["O", "A"], [r.fix("O", 0), r.fix("A", 0)], "two_stage", on_infeasible="relax")
    assert clash.decode(lattice).objective == clash.decode_batch([lattice] * 2)[0].objective == "score"
