"""Automata against plain Python sets of strings, label expressions against Python's `re`."""

from __future__ import annotations

import itertools
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from bridle.automata import DFA, CountingAutomaton, LazyAutomaton, check_regex, from_regex
from bridle.automata.dfa import number, refine
from bridle.errors import LabelError, RuleError, RuleSyntaxError
from bridle.labels import Labels
from stopwatch import patience
from strategies import labellings, seeds

Word = tuple[int, ...]


def words(m: int, n_max: int) -> list[Word]:
    return [w for n in range(n_max + 1) for w in labellings(n, m)]


def random_dfa(rng: Generator, m: int, s_max: int) -> DFA:
    s = int(rng.integers(1, s_max + 1))
    return DFA(rng.integers(0, s, (s, m)), rng.random(s) < 0.4)


def language(dfa: DFA, among: list[Word]) -> set[Word]:
    return {w for w in among if dfa.accepts(w)}


def same_tables(a: DFA, b: DFA) -> bool:
    return np.array_equal(a.step, b.step) and np.array_equal(a.accepting, b.accepting)


# ---- algebra ----------------------------------------------------------------------------------------------------


def test_operators_are_those_of_sets() -> None:
    for rng in seeds(150):
        m = int(rng.integers(1, 4))
        every = words(m, 5)
        a, b = random_dfa(rng, m, 5), random_dfa(rng, m, 5)
        in_a, in_b = language(a, every), language(b, every)
        assert language(a & b, every) == in_a & in_b
        assert language(a | b, every) == in_a | in_b
        assert language(~a, every) == set(every) - in_a
        assert language(a.minimal(), every) == in_a
        assert language(DFA.everything(m), every) == set(every)


def test_inclusion_and_equality() -> None:
    """Two automata of p and q states that differ, differ on a word shorter than p * q."""
    every = words(2, 8)
    for rng in seeds(100, key=1):
        a, b = random_dfa(rng, 2, 3), random_dfa(rng, 2, 3)
        in_a, in_b = language(a, every), language(b, every)
        assert (a <= b) == (in_a <= in_b)
        assert (b <= a) == (in_b <= in_a)
        assert (a == b) == (in_a == in_b)
        assert (a != b) == (in_a != in_b)
        assert a == a.minimal() and a <= (a | b) and (a & b) <= a
        assert ~(a & b) == (~a | ~b)
    assert (DFA.everything(2) == "all words") is False
    with pytest.raises(TypeError):
        hash(DFA.everything(2))  # equality is of languages, and tables do not show it


def test_minimal_is_minimal() -> None:
    """As many states as there are different futures of words (Myhill and Nerode)."""
    for rng in seeds(150, key=2):
        m = int(rng.integers(1, 3))
        dfa = random_dfa(rng, m, 6)
        small = dfa.minimal()
        futures = {
            tuple(dfa.accepts(past + future) for future in words(m, dfa.n_states - 1))
            for past in words(m, dfa.n_states - 1)
        }
        assert small.n_states == len(futures)
        assert same_tables(small, small.minimal())


def test_minimal_forgets_how_states_were_numbered() -> None:
    for rng in seeds(60, key=3):
        dfa = random_dfa(rng, 2, 6)
        order = np.concatenate([[0], 1 + rng.permutation(dfa.n_states - 1)])  # new number of each state
        back = np.argsort(order)
        other = DFA(order[dfa.step[back]], dfa.accepting[back])
        assert other == dfa
        assert other.minimal().n_states == dfa.minimal().n_states


def test_empty() -> None:
    for rng in seeds(200, key=4):
        m = int(rng.integers(1, 4))
        dfa = random_dfa(rng, m, 4)
        dfa = DFA(dfa.step, dfa.accepting & (rng.random(dfa.n_states) < 0.5))
        assert dfa.empty() == (not language(dfa, words(m, 4)))


# ---- expressions ------------------------------------------------------------------------------------------------

NAMES = "abc"


def _find(name: str) -> frozenset[int]:
    return frozenset({NAMES.index(name)})


def random_expression(rng: Generator, depth: int) -> tuple[str, str]:
    """Return an expression for Bridle, and the same one for `re`."""
    kind = int(rng.integers(6)) if depth else int(rng.integers(2))
    some = sorted({NAMES[int(rng.integers(3))] for _ in range(int(rng.integers(1, 4)))})
    if kind == 0:
        return (some[0], some[0]) if rng.random() < 0.7 else (".", "[abc]")
    if kind == 1:
        caret = "^" if rng.random() < 0.5 else ""
        return f"[{caret}{' '.join(some)}]", f"[{caret}{''.join(some)}]"
    parts = [random_expression(rng, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    if kind == 2:
        return "(" + "|".join(p[0] for p in parts) + ")", "(?:" + "|".join(p[1] for p in parts) + ")"
    if kind == 3:
        return "(" + " ".join(p[0] for p in parts) + ")", "(?:" + "".join(p[1] for p in parts) + ")"
    low, more = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    counts = ["*", "+", "?", f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + more}}}"]
    count = counts[int(rng.integers(len(counts)))]
    return f"({parts[0][0]}){count}", f"(?:{parts[0][1]}){count}"


def test_expressions_are_those_of_re() -> None:
    every = words(3, 5)
    texts = ["".join(NAMES[y] for y in w) for w in every]
    for rng in seeds(150, key=5):
        ours, theirs = random_expression(rng, 3)
        dfa = from_regex(ours, _find, 3)
        wanted = re.compile(theirs)
        assert [dfa.accepts(w) for w in every] == [wanted.fullmatch(t) is not None for t in texts], ours
        assert same_tables(dfa, dfa.minimal())


@pytest.mark.parametrize(
    "text, yes, no",
    [
        ("", [""], ["a", "b"]),
        ("  a  b ", ["ab"], ["a", "b", "ba"]),
        ("a b|c", ["ab", "c"], ["ac", "abc"]),  # a choice is looser than a series
        ("a|", ["", "a"], ["b", "aa"]),
        ("a b*", ["a", "abb"], ["abab"]),
        ("(a b)*", ["", "abab"], ["aba"]),
        ("a{2} b{0,1}", ["aa", "aab"], ["a", "aabb", "b"]),
        ("(a b){2,}", ["abab", "ababab"], ["ab", ""]),
        ("(a|b{2}){2}", ["aa", "abb", "bba", "bbbb"], ["a", "ab", "bb"]),
        ("a{0} b", ["b"], ["ab", ""]),
        ("a**", ["", "aaa"], ["b"]),
        ("'a' \"b\"", ["ab"], ["a"]),
        ("[]", [], ["", "a"]),  # one of nothing
        ("[^]", ["a", "b", "c"], ["", "ab"]),
        ("a\n b", ["ab"], ["a"]),
    ],
)
def test_expressions_by_example(text: str, yes: list[str], no: list[str]) -> None:
    dfa = from_regex(text, _find, 3)
    assert [w for w in yes + no if dfa.accepts([NAMES.index(c) for c in w])] == yes


def test_names_in_expressions_are_labels_or_types() -> None:
    labels = Labels(["O", "B-PER", "I-PER", "B-two words", "B-*"], "BIO")
    dfa = from_regex("O* PER{2} 'two words' \"B-*\"", labels.matching, len(labels))
    assert dfa.accepts(labels.ids(["O", "B-PER", "I-PER", "B-two words", "B-*"]))
    assert not dfa.accepts(labels.ids(["O", "B-PER", "I-PER", "B-two words", "O"]))
    with pytest.raises(LabelError, match="'LOC'"):
        from_regex("LOC", labels.matching, len(labels))


@pytest.mark.parametrize(
    "text",
    [
        "(a",
        "a)",
        "*",
        "+a",
        "a|*",
        "[a",
        "[a|b]",
        "[^",
        "{2}",
        "a{2,1}",
        "a{2}{3}",
        "a*{2}",
        "a{,2}",
        "a{2",
        "'a",
        "a{x}",
        "(",
        ")",
        "a $",
        "a{1000000}",
        "a{99999999999}",
        "(a?){2000}",
        "((a{100}){100}){100}",
        "((((){999}){999}){999}){999}",
        "(" * 5000 + "a" + ")" * 5000,
    ],
)
def test_bad_expressions(text: str) -> None:
    for read in (check_regex, lambda t: from_regex(t, _find, 3)):
        with pytest.raises(RuleSyntaxError) as caught:
            read(text)
        error = caught.value
        assert error.what and error.got is not None and error.wanted is not None


def test_an_expression_with_too_many_states_says_so() -> None:
    with pytest.raises(RuleSyntaxError, match="too large"):
        from_regex(".* a .{14}", _find, 3)  # needs 2 ** 15 states
    assert from_regex("a{1000}", _find, 3).n_states == 1002


# ---- automata ---------------------------------------------------------------------------------------------------


def random_lazy(rng: Generator, m: int) -> tuple[LazyAutomaton, Any]:
    s = int(rng.integers(1, 6))
    step, violations = rng.integers(0, s, (2, s, m)), rng.integers(0, 2, (2, s, m))
    final = rng.integers(0, 2, s)

    def read(q: Any, y: int, mark: int) -> tuple[int, int]:
        return int(step[mark, q, y]), int(violations[mark, q, y])

    return LazyAutomaton(0, read, lambda q: int(final[q])), (step, violations, final)  # type: ignore[index]


def test_automata_count_what_their_functions_count() -> None:
    for rng in seeds(60, key=6):
        m, n = int(rng.integers(1, 4)), 4
        lazy, _ = random_lazy(rng, m)
        automaton = CountingAutomaton.build(lazy, m, (0, 1))
        assert automaton.step.dtype == automaton.violations.dtype == automaton.final.dtype == np.int32
        classes = set(automaton.class_of.tolist())
        assert automaton.step.flags.c_contiguous and automaton.step.shape == (2, automaton.n_states, len(classes))
        assert classes == set(range(len(classes))) and automaton.class_of.shape == (m,)
        assert automaton.count is None and automaton.room is None
        marks = rng.integers(0, 2, n).tolist()
        for y in labellings(n, m):
            state, total = lazy.start, 0
            for label, mark in zip(y, marks, strict=True):
                state, violations = lazy.step(state, label, mark)
                total += violations
            assert automaton.count_violations(y, marks) == total + lazy.final(state)


def test_automata_are_minimal() -> None:
    """Every two states of an automaton are told apart by some marked labelling."""
    for rng in seeds(60, key=7):
        lazy, (_, _, final) = random_lazy(rng, 2)
        automaton = CountingAutomaton.build(lazy, 2, (0, 1)).by_label()

        def told(s: int, automaton: CountingAutomaton = automaton) -> tuple[int, ...]:
            shown = []
            for letters in itertools.chain([()], itertools.product(itertools.product((0, 1), (0, 1)), repeat=4)):
                q, total = s, 0
                for k, y in letters:
                    shown.append(total := total + int(automaton.violations[k, q, y]))
                    q = int(automaton.step[k, q, y])
                shown.append(total + int(automaton.final[q]))
            return tuple(shown)

        assert len({told(s) for s in range(automaton.n_states)}) == automaton.n_states <= len(final)


def test_an_automaton_knows_only_its_marks() -> None:
    lazy, _ = random_lazy(np.random.default_rng(0), 2)
    assert CountingAutomaton.build(lazy, 2).marks == (0,)
    with pytest.raises(ValueError):
        CountingAutomaton.build(lazy, 2, (1,)).count_violations([0, 1])
    with pytest.raises(RuleError, match="too large"):
        CountingAutomaton.build(LazyAutomaton(0, lambda q, _y, _mark: (q + 1, 0)), 2)  # type: ignore[operator]


# ---- large ones --------------------------------------------------------------------------------------------------


def moore(output: Any, step: Any) -> tuple[Any, int]:
    """Partition refinement by its definition, a round over all states until nothing changes; and how many rounds."""
    block, rounds = number(output), 0
    while (finer := number(np.concatenate([block[:, None], block[step]], axis=1))).max() > block.max():
        block, rounds = finer, rounds + 1
    return block, rounds


def test_refinement_is_the_same_when_it_takes_many_rounds() -> None:
    many = 0
    for rng in seeds(200, key=11):
        s, c = int(rng.integers(20, 80)), int(rng.integers(1, 4))
        step = np.minimum(np.arange(s)[:, None] + rng.integers(0, 2, (s, c)), s - 1)  # mostly a chain
        step = np.where(rng.random((s, c)) < 0.02, rng.integers(0, s, (s, c)), step)
        output = (rng.random((s, 1)) < 0.04).astype(np.int64)
        wanted, rounds = moore(output, step)
        assert np.array_equal(refine(output, step), wanted)
        many += rounds > 10
    assert many > 20


def cpu_seconds(make: Callable[[], object]) -> float:
    begin = time.process_time()
    make()
    return time.process_time() - begin


@pytest.mark.parametrize("text, seconds", [("a{800}", 0.3), ("(a{50}){50}", 1.0), ("(a?){600}", 1.0)])
def test_repeats_take_about_as_long_as_they_are_large(text: str, seconds: float) -> None:
    assert cpu_seconds(lambda: from_regex(text, _find, 3)) < patience(seconds)


def test_a_long_count_takes_about_as_long_as_it_is_large() -> None:
    lazy = LazyAutomaton(0, lambda s, y, _mark: (min(int(s) + (y == 1), 2000), 0), lambda s: int(s < 2000))  # type: ignore[call-overload, operator]
    assert cpu_seconds(lambda: CountingAutomaton.build(lazy, 2)) < patience(0.5)


@pytest.mark.parametrize("text", ["a{100000}", "(a{200}){200}", "((a|b)*a(a|b){20})", ".* a .{900}", "((a?){90}){90}"])
def test_what_is_too_large_is_refused_early(text: str) -> None:
    def refused() -> None:
        with pytest.raises(RuleSyntaxError):
            from_regex(text, _find, 3)

    assert cpu_seconds(refused) < patience(2)


def test_what_is_too_large_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RuleSyntaxError):
            from_regex(".* a .{900}", _find, 3)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
