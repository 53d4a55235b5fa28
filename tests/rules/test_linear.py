"""Linear rows against enumeration: every rule kind, hard and soft, in both formulations, and the two-stage program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from bridle import rules as r
from bridle.engines import Ilp, TwoStage
from bridle.engines.highs import ProgramAnswer
from bridle.engines.ilp import solve
from bridle.engines.two_stage import solve_two_stage
from bridle.errors import BridleError, EngineError, GivenError, RuleError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules import linear
from bridle.rules.base import Rule, Soft
from bridle.rules.counts import AtMost
from bridle.rules.linear import Program, rows

Rng = np.random.Generator
FORMULATIONS = ("tight", "paper")
SCHEMES = {
    "none": (Labels(["a", "b", "c"]), ["a", "b", "c"]),
    "two": (Labels(["a", "b"]), ["a", "b"]),
    "IO": (Labels(["O", "A", "I-A", "B"], "IO"), ["O", "A", "I-A", "B"]),
    "BIO": (Labels(["O", "B-X", "I-X", "B-Y"], "BIO"), ["O", "X", "Y", "B-X", "I-X"]),
}


class Draw:
    """Random pieces of rules for sequences of n tokens."""

    def __init__(self, rng: Rng, names: Sequence[str], n: int) -> None:
        self.rng, self.names, self.n = rng, list(names), n

    def some(self) -> Any:
        size = int(self.rng.integers(1, 3))
        picked = [str(x) for x in self.rng.permutation(self.names)[:size]]
        return picked[0] if len(picked) == 1 else picked

    def number(self, high: int = 3) -> int:
        return int(self.rng.integers(0, high))

    def unit(self) -> Any:
        return ("segments", "tokens")[self.number(2)]

    def at(self) -> list[int]:
        return sorted({int(t) for t in self.rng.integers(0, self.n, size=self.number() + 1)}) if self.n else []

    def spans(self) -> list[tuple[int, int]]:
        return [tuple(sorted(self.rng.integers(0, self.n + 1, size=2).tolist())) for _ in range(self.number() + 1)]

    def atom(self) -> Rule:
        return r.present(self.some()) if self.number(2) else r.label_at(self.at(), self.some())

    def formula(self, depth: int = 2, atom: Callable[[], Rule] | None = None) -> Rule:
        make = atom or self.atom
        if depth == 0:
            return make()
        a, b = self.formula(depth - 1, make), self.formula(depth - 1, make)
        return (a & b, a | b, ~a, a >> b, a.iff(b))[self.number(5)]

    def deep(self) -> Rule:
        return self.formula(1, lambda: KINDS[list(KINDS)[self.number(len(KINDS) - 2)]](self))


KINDS: dict[str, Callable[[Draw], Rule]] = {
    "forbid": lambda d: r.forbid(d.some(), d.at() if d.number(2) else None),
    "allow": lambda d: r.allow(d.some(), d.at()),
    "fix": lambda d: r.fix(d.some(), d.at()),
    "label_at": lambda d: r.label_at(d.at(), d.some()),
    "forbid_transition": lambda d: r.forbid_transition(d.some(), d.some()),
    "well_formed": lambda d: r.well_formed(),
    "at_most": lambda d: r.at_most(d.number(), d.some(), d.unit()),
    "at_most_one": lambda d: r.at_most(1, d.some()),
    "at_least": lambda d: r.at_least(d.number(4), d.some(), d.unit()),
    "at_least_one": lambda d: r.at_least(1, d.some(), d.unit()),
    "exactly": lambda d: r.exactly(d.number(), d.some(), d.unit()),
    "no_duplicates": lambda d: r.no_duplicates(d.some()),
    "length": lambda d: r.length(d.some(), at_least=d.number() + 1, at_most=d.number() + 1),
    "present": lambda d: r.present(d.some()),
    "if_present": lambda d: r.if_present(d.some(), then=d.some()),
    "same_label": lambda d: r.same_label(d.spans()),
    "immediately_followed_by": lambda d: r.immediately_followed_by(d.some(), d.some()),
    "followed_by": lambda d: r.followed_by(d.some(), d.some()),
    "around": lambda d: r.around(d.at(), left=d.some(), right=d.some()),
    "starts_with": lambda d: r.starts_with(d.some()),
    "ends_with": lambda d: r.ends_with(d.some()),
    "before": lambda d: r.before(d.some(), d.some()),
    "matches": lambda d: r.matches(f"({'|'.join(d.names[:2])})* .? {d.names[-1]}*"),
    "automaton": lambda d: r.automaton(f"0 0 ?; 0 1 {d.names[0]} 1; 1 1 {d.names[-1]}; 1 0 {d.names[0]}; 0; 1 1"),
    "formula": lambda d: d.formula(),
    "deep formula": lambda d: d.deep(),
}


def hardened(rule: Rule, rng: Rng) -> Iterator[Rule]:
    """The rule hard, and soft in both ways, at prices that bite."""
    yield rule
    yield rule.soft(float(rng.integers(1, 8)) / 4)
    yield rule.soft(float(rng.integers(1, 8)) / 4, per="violation")


def random_lattice(rng: Rng, n: int, m: int) -> Lattice:
    """Scores with ties (multiples of a half) and a few -inf."""

    def scores(*shape: int) -> Any:
        values = rng.integers(-4, 5, size=shape) / 2.0
        return np.where(rng.random(shape) < 0.06, -np.inf, values)

    pairwise = (None, scores(m, m), scores(max(n - 1, 0), m, m))[int(rng.integers(3))]
    start, end = (scores(m) if rng.random() < 0.4 else None for _ in range(2))
    return Lattice(scores(n, m), pairwise, start, end)


def only(y: Sequence[int], m: int) -> Lattice:
    """A lattice with one possible labelling, of score 0."""
    unary = np.full((len(y), m), -np.inf)
    unary[np.arange(len(y)), list(y)] = 0.0
    return Lattice(unary)


def worth(lattice: Lattice, rules: Sequence[Rule], labels: Labels, y: Sequence[int]) -> tuple[float, float]:
    """Score and penalty of a labelling; the score is -inf if a hard rule is broken."""
    broken = [(rule, rule.violations(y, labels)) for rule in rules]
    if any(times and not isinstance(rule, Soft) for rule, times in broken):
        return -np.inf, 0.0
    return lattice.score(y), sum(rule.cost(times) for rule, times in broken if isinstance(rule, Soft))


def everything(lattice: Lattice, rules: Sequence[Rule], labels: Labels) -> list[tuple[float, float]]:
    all_ids = itertools.product(range(lattice.n_labels), repeat=len(lattice))
    return [pair for y in all_ids if (pair := worth(lattice, rules, labels, y))[0] > -np.inf]


def agree(lattice: Lattice, rules: Sequence[Rule], labels: Labels, formulation: Any) -> ProgramAnswer:
    """The program and enumeration give the same."""
    answer = solve(lattice, rules, labels, {}, formulation=formulation)
    best = max((score - penalty for score, penalty in everything(lattice, rules, labels)), default=None)
    note = f"{formulation} {[str(rule) for rule in rules]} n={len(lattice)}"
    if best is None:
        assert (answer.status, answer.ids, answer.bound) == ("infeasible", None, -np.inf), note
        return answer
    assert answer.status == "optimal" and answer.ids is not None, note
    assert answer.ids.dtype == np.int32 and answer.ids.shape == (len(lattice),)
    assert answer.bound == pytest.approx(best, abs=1e-6), note
    score, penalty = worth(lattice, rules, labels, answer.ids.tolist())
    assert score - penalty == pytest.approx(best, abs=1e-6), note
    return answer


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_agree_with_enumeration(kind: str) -> None:
    rng = np.random.default_rng([7, *kind.encode()])
    for labels, names in SCHEMES.values():
        for n in (0, 1, int(rng.integers(2, 5)), int(rng.integers(3, 6 if len(labels) < 4 else 5))):
            rule = KINDS[kind](Draw(rng, names, n))
            lattice = random_lattice(rng, n, len(labels))
            y = rng.integers(0, len(labels), size=n).tolist()
            for item in hardened(rule, rng):
                for formulation in FORMULATIONS:
                    agree(lattice, [item], labels, formulation)
                    agree(only(y, len(labels)), [item], labels, formulation)


@pytest.mark.slow
def test_the_flow_alone_takes_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "TABLE", {})
    rng = np.random.default_rng(5)
    for kind, (labels, names) in itertools.product(KINDS, SCHEMES.values()):
        n = int(rng.integers(1, 5))
        rule, lattice = KINDS[kind](Draw(rng, names, n)), random_lattice(rng, n, len(labels))
        for item in hardened(rule, rng):
            agree(lattice, [item], labels, "tight")


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_mixed_rules_agree_with_enumeration(scheme: str, formulation: str) -> None:
    labels, names = SCHEMES[scheme]
    rng = np.random.default_rng(11)
    for _ in range(25):
        n = int(rng.integers(1, 5))
        draw = Draw(rng, names, n)
        kinds = rng.choice(list(KINDS), size=int(rng.integers(2, 5)))
        rules = [list(hardened(KINDS[kind](draw), rng))[int(rng.integers(3))] for kind in kinds]
        agree(random_lattice(rng, n, len(labels)), rules, labels, formulation)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_two_stages_agree_with_enumeration(formulation: Any) -> None:
    rng = np.random.default_rng(13)
    for round_ in range(40):
        labels, names = SCHEMES[list(SCHEMES)[round_ % len(SCHEMES)]]
        n = int(rng.integers(0, 5))
        draw = Draw(rng, names, n)
        kinds = rng.choice(list(KINDS), size=int(rng.integers(1, 4)))
        rules = [list(hardened(KINDS[kind](draw), rng))[int(rng.integers(3))] for kind in kinds]
        lattice, tau = random_lattice(rng, n, len(labels)), float(rng.choice([0.0, 0.3, 0.7, 1.0]))
        answer = solve_two_stage(lattice, rules, labels, {}, tau=tau, formulation=formulation)
        pairs = everything(lattice, rules, labels)
        if not pairs:
            assert answer.status == "infeasible" and answer.ids is None
            continue
        best = max(score for score, _ in pairs)
        near = [(p, -s) for s, p in pairs if s >= best - (1 - tau) * abs(best) - 1e-9]
        penalty, minus_score = min(near)
        assert answer.status == "optimal" and answer.ids is not None
        result = worth(lattice, rules, labels, answer.ids.tolist())
        assert result == pytest.approx((-minus_score, penalty), abs=1e-6)
        assert answer.bound == pytest.approx(result[0] - result[1], abs=1e-9)


def test_the_relaxation_of_a_plain_lattice_is_whole() -> None:
    rng = np.random.default_rng(17)
    labels = Labels(["a", "b", "c", "d"])
    for n in range(6):
        answer = agree(Lattice(rng.normal(size=(n, 4)), rng.normal(size=(4, 4))), [], labels, "tight")
        assert answer.lp_integral and answer.n_variables == (4 + 16 * (n - 1) + 4 if n else 0)


def test_tight_rows_are_tighter_than_the_printed_ones() -> None:
    rng = np.random.default_rng(19)
    labels = Labels(["O", "A", "B"], "IO")
    rules = [r.at_most(1, of="A"), r.at_most(1, of="B"), r.same_label((1, 4))]
    whole = {"tight": 0, "paper": 0}
    for _ in range(15):
        lattice = Lattice(rng.normal(size=(8, 3)))
        values = []
        for formulation in FORMULATIONS:
            answer = solve(lattice, rules, labels, {}, formulation=formulation)  # type: ignore[arg-type]
            whole[formulation] += answer.lp_integral
            values.append(answer.bound)
        assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert whole["tight"] > whole["paper"]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_values_given_with_the_sequence(formulation: Any) -> None:
    labels = Labels(["O", "A0", "A1"], "IO")
    rules = [
        r.fix("O", r.given("verb")),
        r.allow(["O", r.given("frame")]),
        r.same_label(r.given("candidates")),
        r.fix("A1", r.tokens(r"\d+")).soft(1.0),
        r.no_duplicates(r.given("frame")),
    ]
    given = {"verb": 1, "frame": ["A1"], "candidates": [(2, 4)], "tokens": ["I", "left", "my", "7"]}
    unary = np.array([[0, 3, 1], [0, 5, 5], [0, 0, 1], [0, 2, 0.5]])
    answer = solve(Lattice(unary), rules, labels, given, formulation=formulation)
    assert answer.ids is not None and answer.ids.tolist() == [0, 0, 2, 2]
    assert solve(Lattice(unary), rules, labels, {**given, "frame": []}, formulation=formulation).ids is not None
    with pytest.raises(GivenError, match="in the rule"):
        solve(Lattice(unary), rules, labels, {}, formulation=formulation)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_corners_of_counting(formulation: Any) -> None:
    labels = Labels(["a", "b"])
    for n in range(5, 10):
        y = [t % 2 for t in range(n)]
        for name, rule in itertools.product("ab", (r.at_most(3, of="a"), r.exactly(4, of="b"))):
            agree(only(y, 2), [rule.soft(1.0), r.at_least(n, of=name).soft(0.5)], labels, formulation)
    ends = Labels(["O", "B-X", "E-X"], "BIOES")  # each E-X after another E-X is a segment of its own
    for y in itertools.product(range(3), repeat=4):
        agree(only(y, 3), [r.at_most(1, of="E-X")], ends, formulation)


def test_large_and_tiny_scores_stay_exact() -> None:
    labels = Labels(["a", "b"])
    for scale in (1e-5, 1.0, 1e6):
        unary = np.array([[1.0, 0.5], [1.0, 0.75], [1.0, 0.25]]) * scale
        answer = solve(Lattice(unary), [r.at_least(1, of="b")], labels, {})
        assert answer.ids is not None and answer.ids.tolist() == [0, 1, 0]


def test_a_limit_leaves_a_true_bound() -> None:
    rng = np.random.default_rng(23)
    labels = Labels(list("abcde"))
    lattice = Lattice(rng.normal(size=(14, 5)), rng.normal(size=(5, 5)))
    rules = [r.at_most(1, of=name) for name in "abcd"]
    best = solve(lattice, rules, labels, {})
    for limit in (0.0, 0.003):
        answer = solve(lattice, rules, labels, {}, formulation="paper", time_limit=limit)
        assert answer.status == "limit" or answer.bound == pytest.approx(best.bound, abs=1e-6)
        assert np.isfinite(answer.bound) and answer.bound >= best.bound - 1e-6
    two = solve_two_stage(lattice, [rules[0], rules[1].soft(1.0)], labels, {}, tau=0.5, time_limit=0.0)
    assert two.status == "limit" and np.isfinite(two.bound)


def test_bad_input_is_told() -> None:
    labels, lattice = Labels(["a", "b"]), Lattice(np.zeros((2, 2)))
    wrong: list[tuple[type[BridleError], Callable[[], object]]] = [
        (EngineError, lambda: Ilp(formulation="loose")),  # type: ignore[arg-type]
        (EngineError, lambda: TwoStage(tau=1.5)),
        (RuleError, lambda: solve(lattice, [r.fix("a", 5)], labels, {})),
        (RuleError, lambda: rows("tight", AtMost)(lambda _case: True)),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()


def test_entries_of_one_place_are_added_up() -> None:
    program = Program(1, 2)
    row, col = np.zeros(3, np.intp), np.array([1, 0, 1])
    program.rows(row, col, [1.0, 2.0, 3.0], 0.0, np.ones(1))
    start, index, value = program.matrix()
    assert index[start[-1] :].tolist() == [0, 1] and value[start[-1] :].tolist() == [2.0, 4.0]
