"""Pictures of automata: well-formed, complete, and inside their frame."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.automata import DFA, from_regex
from bridle.errors import LabelError
from docs.automaton_picture import draw_automaton

NAMES = ["O", "A", "<&>"]
SVG = "{http://www.w3.org/2000/svg}"


def parsed(dfa: DFA, **options: object) -> ElementTree.Element:
    return ElementTree.fromstring(draw_automaton(dfa, NAMES, **options))  # type: ignore[arg-type]


def texts(picture: ElementTree.Element) -> list[str]:
    return sorted(text.text or "" for text in picture.iter(f"{SVG}text"))


def matching(pattern: str) -> DFA:
    return from_regex(pattern, lambda name: frozenset([NAMES.index(name)]), len(NAMES))


@st.composite
def automata(draw: st.DrawFn) -> DFA:
    size = draw(st.integers(1, 6))
    step = draw(st.lists(st.lists(st.integers(0, size - 1), min_size=3, max_size=3), min_size=size, max_size=size))
    accepting = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return DFA(np.array(step, dtype=np.int64), np.array(accepting))


def useful(dfa: DFA) -> set[int]:
    """States on the way from the start to acceptance, and the start: found by walking from every state."""

    def reached(s: int) -> set[int]:
        result, todo = {s}, [s]
        for here in todo:
            fresh = set(dfa.step[here].tolist()) - result
            result |= fresh
            todo += fresh
        return result

    return {0} | {s for s in reached(0) if any(dfa.accepting[end] for end in reached(s))}


@pytest.mark.slow
@given(automata())
def test_every_useful_state_and_step_is_drawn_inside_the_frame(dfa: DFA) -> None:
    picture, states = parsed(dfa), useful(dfa)
    rings = len(states) + sum(bool(dfa.accepting[s]) for s in states)
    arrows = {(s, after) for s in states for after in dfa.step[s].tolist() if after in states}
    if not dfa.accepting[list(states)].any():
        arrows = set()  # the start alone: nothing that is read leads anywhere
    assert len(picture.findall(f"{SVG}circle")) == rings
    assert len(picture.findall(f"{SVG}polygon")) == len(arrows) + 1  # and the one that leads in
    assert len(texts(picture)) == len(arrows)
    left, top, width, height = map(float, (picture.get("viewBox") or "").split())
    for x, y in [("cx", "cy"), ("x", "y")]:
        for part in picture.iter():
            if part.get(x) is not None:
                assert left <= float(part.get(x, "")) <= left + width
                assert top <= float(part.get(y, "")) <= top + height


def test_arrows_say_what_they_read() -> None:
    assert texts(parsed(matching("O* A [A '<&>']*"))) == ["A", "O", "not O"]
    assert texts(parsed(matching(".*"))) == ["any"]
    assert texts(parsed(matching("'<&>'+"))) == ["<&>", "<&>"]


def test_the_empty_language_is_a_start_alone() -> None:
    picture = parsed(~DFA.everything(3))
    assert len(picture.findall(f"{SVG}circle")) == 1
    assert texts(picture) == []


def test_places_have_lines_of_their_own() -> None:
    step = np.array([[0, 0, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]])
    there = DFA(step, np.array([True, False]))
    assert texts(parsed(there, places=["elsewhere", "there"])) == ["elsewhere: any", "there: A"]
    everywhere = DFA(np.array([[0, 1, 0, 0, 1, 0], [1] * 6]), np.array([True, False]))
    assert texts(parsed(everywhere, places=["elsewhere", "there"])) == ["not A"]


# Automata of rules whose arrows stand close: at most 3 and at least 2 tokens, no duplicates of two, around, an
# implication, the same label. Step, accepting, places.
CROWDED: dict[str, tuple[list[list[int]], list[bool], list[str]]] = {
    "length": ([[0, 1, 0], [2, 3, 2], [2, 2, 2], [0, 4, 0], [0, 2, 0]], [True, False, False, True, True], [""]),
    "no duplicates": (
        [[0, 1, 2], [3, 1, 4], [5, 6, 2], [3, 7, 4], [8, 7, 4], [5, 6, 7], [8, 6, 7], [7, 7, 7], [8, 7, 7]],
        [True] * 7 + [False, True],
        [""],
    ),
    "around": (
        [[1, 0, 1, 2, 3, 2], [1, 0, 1, 4, 4, 4], [4, 4, 1, 4, 4, 4], [4, 4, 1, 4, 4, 2], [4, 4, 4, 4, 4, 4]],
        [True] * 4 + [False],
        ["elsewhere", "there"],
    ),
    "implies": (
        [[0, 1, 0, 2, 3, 0], [1, 1, 1, 3, 3, 1], [2, 3, 2, 2, 3, 2], [3, 3, 3, 3, 3, 3]],
        [True] * 3 + [False],
        ["elsewhere", "there"],
    ),
    "same label": (
        [[1, 2, 2, 1, 2, 2], [1, 2, 2, 1, 3, 3], [1, 2, 2, 3, 2, 2], [3, 3, 3, 3, 3, 3]],
        [True] * 3 + [False],
        ["elsewhere", "there"],
    ),
}


def on_curve(path: str) -> list[tuple[float, float]]:
    """Points of a Bezier curve, closer than a letter."""
    points = [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)]
    result, n = [], len(points) - 1
    for share in (k / 100 for k in range(101)):
        parts = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
        result.append(tuple(sum(w * p[axis] for w, p in zip(parts, points, strict=True)) for axis in (0, 1)))
    return result  # type: ignore[return-value]


@pytest.mark.parametrize("name", CROWDED)
def test_texts_meet_neither_lines_nor_states_nor_each_other(name: str) -> None:
    step, accepting, places = CROWDED[name]
    picture = parsed(DFA(np.array(step), np.array(accepting)), places=places)
    boxes = []  # of the letters themselves: left, top, right, bottom
    for text in picture.iter(f"{SVG}text"):
        x, y, half = float(text.get("x", "")), float(text.get("y", "")), 3.2 * len(text.text or "")
        boxes.append((x - half, y - 8.5, x + half, y + 1))
    inked = [point for path in picture.iter(f"{SVG}path") for point in on_curve(path.get("d", ""))]
    for ring in picture.iter(f"{SVG}circle"):
        x, y, r = (float(ring.get(key, "")) for key in ("cx", "cy", "r"))
        inked += [(x + r * math.cos(k / 5), y + r * math.sin(k / 5)) for k in range(32)]
    for k, (left, top, right, bottom) in enumerate(boxes):
        assert not [1 for x, y in inked if left < x < right and top < y < bottom]
        assert not [1 for a, b, c, d in boxes[:k] if a < right and left < c and b < bottom and top < d]


def test_what_xml_cannot_hold_is_replaced() -> None:
    svg = draw_automaton(DFA.everything(1), ["a\x00\x1b"], title="\ud800", places=["\x07"])
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == "\ufffd"
    svg = draw_automaton(matching("A"), ["O", "a\x00\x1b", "C"])
    assert texts(ElementTree.fromstring(svg)) == ["a\ufffd\ufffd"]


def test_the_title_is_told() -> None:
    assert parsed(matching("O"), title="a < b").findtext(f"{SVG}title") == "a < b"


def test_other_labels_are_refused() -> None:
    with pytest.raises(LabelError, match=r"reads other labels.*2 labels x 1 places.*3 letters"):
        draw_automaton(DFA.everything(3), ["O", "A"])
