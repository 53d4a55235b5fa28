"""The trellis as a picture: what is shown, that nothing falls out of the frame, that what users wrote is escaped."""

from __future__ import annotations

import random
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import LabelError
from bridle.labels import Labels
from bridle.report.trellis import (
    CONTEXT,
    MOST,
    ROWS,
    WHOLE,
    Note,
    Trellis,
    columns,
    draw_trellis,
    left_out,
    panels,
    rows,
    unseen,
)

SVG = "{http://www.w3.org/2000/svg}"


def trellis(plain: list[int], best: list[int], m: int = 3, **parts: Any) -> Trellis:
    n = len(plain)
    parts = {"tokens": [f"t{t}" for t in range(n)], "shade": [[1 / m] * m] * n, **parts}
    return Trellis(labels=Labels([f"L{y}" for y in range(m)]), plain=plain, best=best, **parts)


@st.composite
def trellises(draw: st.DrawFn) -> Trellis:
    """Lengths are drawn, so that they shrink; the rest is random, which is much faster."""
    n, m, changes = draw(st.integers(0, 60)), draw(st.integers(1, 20)), draw(st.integers(0, 4))
    rng = random.Random(draw(st.integers(0, 999)))
    plain, other = ([rng.randrange(m) for _ in range(n)] for _ in range(2))
    at = {rng.randrange(n) for _ in range(changes)} if n else set()
    best = [rng.randrange(m) if t in at else y for t, y in enumerate(plain)]
    words = rng.choices(["a", "in", "Wissenschaft", "数学", "x" * 40], k=n)
    notes = [Note("a rule", "price 1", tuple(t for t in range(n) if plain[t] != best[t]))] * rng.randrange(4)
    shade = [rng.choices([0.0, 0.004, 0.3, 1.0], k=m)] * n
    return trellis(plain, best, m, tokens=words, shade=shade, others=[other], notes=notes)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def classes(svg: str, tag: str) -> list[str]:
    return [result.get("class", "") for result in parsed(svg).iter(f"{SVG}{tag}")]


# ---- what is shown --------------------------------------------------------------------------------------------------


@given(trellises())
def test_columns_cover_every_token_once(item: Trellis) -> None:
    for show in ("changes", "all"):
        built = columns(item, show)  # type: ignore[arg-type]
        assert [t for a, b in built for t in range(a, b)] == list(range(len(item.tokens)))
        assert all(b - a == 1 or b - a >= 3 for a, b in built)
    assert len(columns(item, "all")) == len(item.tokens)


@given(trellises())
def test_changes_are_shown_with_their_neighbours(item: Trellis) -> None:
    shown = {a for a, b in columns(item) if b - a == 1}
    near = {t for c in item.changed for t in range(c - CONTEXT, c + CONTEXT + 1)} & set(range(len(item.tokens)))
    assert near <= shown
    assert shown == set(range(len(item.tokens))) or len(item.tokens) > WHOLE


def test_a_long_sequence_without_changes_is_cut() -> None:
    assert columns(trellis([0] * 100, [0] * 100)) == [*((t, t + 1) for t in range(WHOLE)), (WHOLE, 100)]


@given(st.lists(st.floats(1, 50), max_size=30), st.floats(20, 200))
def test_panels_are_a_partition_that_fits(widths: list[float], width: float) -> None:
    built = list(panels(widths, width))
    assert [k for some in built for k in some] == list(range(len(widths)))
    assert all(len(some) == 1 or sum(widths[k] for k in some) <= width + 1e-9 for some in built)


def test_panels_are_few_and_even() -> None:
    assert [len(some) for some in panels([10.0] * 21, 200)] == [11, 10]
    assert [len(some) for some in panels([10.0] * 20, 200)] == [20] and panels([], 200) == []


def test_many_changes_are_cut_and_told() -> None:
    item = trellis([0] * 5000, [1] * 5000)
    built = columns(item)
    assert built == [*((t, t + 1) for t in range(MOST)), (MOST, 5000)]
    assert unseen(item, built) == "4,760 more changed tokens are not shown" and unseen(item, built) in draw_trellis(
        item
    )
    assert unseen(item, columns(item, "all")) == "" and "not shown" not in draw_trellis(trellis([0] * 60, [0] * 60))


@given(trellises())
def test_labels_on_the_paths_have_rows(item: Trellis) -> None:
    at = range(len(item.tokens))
    shown, must = rows(item, at), {*item.plain, *item.best}
    assert must <= set(shown) and len(shown) <= max(ROWS, len(must))
    assert shown == sorted(set(shown))


def test_rows_are_for_gold_then_other_paths_then_good_labels() -> None:
    shade = [[0.0, 0.0, 0.2, 0.04, 0.0]]
    assert rows(trellis([0], [0], 5, shade=shade, others=[[1]], gold=["L4"]), [0]) == [0, 1, 2, 4]
    many = trellis([0], [0], 30, shade=[[k / 100 for k in range(30)]])
    assert rows(many, [0]) == [0, *range(30 - ROWS + 1, 30)]
    assert left_out(many, rows(many, [0])) == "not shown: L1, L2, L3, L4, L5, L6 and 12 more"


# ---- the picture ----------------------------------------------------------------------------------------------------


@given(trellises())
def test_nothing_falls_out_of_the_frame(item: Trellis) -> None:
    svg = draw_trellis(item)
    root = parsed(svg)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for circle in root.iter(f"{SVG}circle"):
        x, y, r = (float(circle.get(name, "nan")) for name in ("cx", "cy", "r"))
        assert r <= x <= width - r and r <= y <= height - r
    for line in root.iter(f"{SVG}polyline"):
        for point in line.get("points", "").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width and 0 <= y <= height
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x", "nan")) <= width and 0 <= float(text.get("y", "nan")) <= height
    assert width <= 1060 and svg == draw_trellis(item)


def test_both_paths_and_where_they_part() -> None:
    svg = draw_trellis(trellis([0, 1, 1, 0], [0, 1, 2, 0], gold=["L0", "L1", "L1", "?"]))
    assert classes(svg, "circle").count("on") == 4 and classes(svg, "circle").count("off") == 1
    lines = {line.get("class"): line for line in list(parsed(svg).iter(f"{SVG}polyline"))[:2]}
    assert len(lines["best"].get("points", "").split()) == 4
    assert len(lines["plain"].get("points", "").split()) == 3  # from where they part to where they meet again
    assert classes(svg, "rect").count("window") == 1 + 1  # and one in the legend
    assert classes(svg, "path").count("gold") == 3 + 1
    assert "without rules" in svg and "with and without rules" not in svg


def test_paths_that_never_part() -> None:
    svg = draw_trellis(trellis([0, 1], [0, 1]))
    assert "plain" not in classes(svg, "polyline") and "off" not in classes(svg, "circle")
    assert "with and without rules" in svg and "where they part" not in svg


def test_a_node_is_as_large_as_its_label_is_good() -> None:
    svg = draw_trellis(trellis([0], [0], shade=[[0.04, 0.36, 0.0]]))
    nodes = [c for c in parsed(svg).iter(f"{SVG}circle") if c.get("fill") != "none"]
    assert [float(c.get("r", "")) for c in nodes] == pytest.approx([3 + 8 * 0.2, 3 + 8 * 0.6], abs=0.05)


def test_gaps_say_how_many_tokens_they_hide() -> None:
    plain = [0] * 60
    best = [*plain[:30], 1, *plain[31:]]
    svg = draw_trellis(trellis(plain, best))
    assert re.findall(r">(\d+ more)<", svg) == ["27 more", "26 more"]
    assert classes(svg, "polyline").count("best stub") == 2
    assert " more<" not in draw_trellis(trellis(plain, best), show="all")


def test_rules_stand_where_they_bit() -> None:
    item = trellis([0, 1], [0, 2], notes=[Note("first", "price 1", ()), Note("second", "price 2", (1,))])
    listed, numbered = draw_trellis(item), draw_trellis(item, notes="numbers")
    assert [text.text for text in parsed(numbered).iter(f"{SVG}text") if "badge" in text.get("class", "")] == ["2"]
    assert "second" in listed and "price 2" in listed and "second" not in numbered


def test_a_long_rule_is_cut_but_told_on_hover() -> None:
    rule = "no duplicates of " + ", ".join(f"LABEL{k}" for k in range(50))
    svg = draw_trellis(trellis([0], [1], notes=[Note(rule, "price 1", (0,))]))
    assert f"<title>{rule}</title>" in svg and svg.count("LABEL49") == 1


def test_what_users_wrote_is_escaped_and_nothing_is_fetched() -> None:
    evil = '<script>alert("x")</script>&'
    item = Trellis(
        [evil],
        Labels([evil, "b"]),
        [[0.5, 0.5]],
        [0],
        [1],
        notes=[Note(evil, evil, (0,))],
        gold=[evil],
        hover_text=lambda t, y: evil,
        size_meaning=evil,
    )
    svg = draw_trellis(item, title=evil)
    assert "<script" not in svg and evil in "".join(parsed(svg).itertext())
    assert re.findall(r"href|src=|url\(|@import|<image|<foreignObject", svg) == []
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]


def test_what_xml_cannot_hold_is_replaced() -> None:
    svg = draw_trellis(trellis([0, 0], [0, 1], tokens=["\x00\x1b", "\ud800\uffff"]))
    parsed(svg)
    svg.encode()


def test_an_empty_sequence() -> None:
    assert "no tokens" in draw_trellis(trellis([], []))


@pytest.mark.parametrize("parts", [{"tokens": ["a"]}, {"shade": [[1.0, 0.0]] * 2}, {"gold": ["L0"]}, {"others": [[0]]}])
def test_parts_that_do_not_fit(parts: dict[str, Any]) -> None:
    with pytest.raises(LabelError, match="parts of a trellis do not fit"):
        trellis([0, 0], [0, 0], **parts)
