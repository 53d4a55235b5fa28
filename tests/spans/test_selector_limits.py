"""Span selection at its limits: depth, memory, time, Ctrl-C, positions far away."""

from __future__ import annotations

import _thread
import gc
import subprocess
import sys
import threading
from typing import Any

import pytest

import bridle
from bridle import SpanSelector
from bridle.errors import EngineError, LatticeError, LimitReached
from stopwatch import Stopwatch


def onion(depth: int) -> list[Any]:
    """Spans inside one another, and one that only a rule asks for."""
    return [(k, 2 * depth - k, "A", 1.0) for k in range(depth)] + [(0, 1, "B", -3.0)]


def test_deeply_nested_spans_need_no_stack() -> None:
    result = list[bridle.Selection]()
    selector, before = (
        SpanSelector(["present B"], overlap="nest", max_memory=8_000_000),
        threading.stack_size(256 * 1024),
    )
    try:
        thread = threading.Thread(target=lambda: result.append(selector.select(onion(5000))))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert result[0].optimal and result[0].score == 5000 - 3.0
    assert result[0].indices == [0, 5000, *range(1, 5000)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_deeply_nested_spans_need_no_more_memory_than_allowed() -> None:
    code = (
        "import bridle\n"
        "def peak(): return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) << 10\n"
        "spans = [(k, 8000 - k, 'A', 1.0) for k in range(4000)] + [(0, 1, 'B', -3.0)]\n"
        "selector = bridle.SpanSelector(['present B'], overlap='nest', max_memory=64 << 20)\n"
        "selector.select(spans[-5:])\n"
        "before = peak()\n"
        "assert len(selector.select(spans).spans) == 4001\n"
        "assert peak() - before < 64 << 20, peak() - before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("rules", [[], ["present B"]])
def test_nested_spans_keep_to_the_time_limit(rules: list[str]) -> None:
    spans = [*onion(15_000), *((k, k + 1, "A", 0.3) for k in range(30_000))]
    selector = SpanSelector(rules, overlap="nest", time_limit=0.1, on_infeasible="skip")
    watch = Stopwatch()
    result = selector.select(spans)
    assert watch.seconds < 1.5  # without a limit, more than four seconds
    assert result.status == ("nothing_found" if rules else "limit") and result.bound >= 15_000 + 0.3 * 29_999


@pytest.mark.parametrize("rules", [[], ["present B"]])
def test_nested_spans_can_be_interrupted(rules: list[str]) -> None:
    spans = [*onion(40_000), *((k, k + 1, "A", 0.3) for k in range(80_000))]
    timer = threading.Timer(0.3, _thread.interrupt_main)
    gc.disable()  # Hypothesis looks on, and an interrupt that comes while garbage is collected is lost there
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            bridle.select(spans, rules, overlap="nest")
        timer.join()
    finally:
        gc.enable()


def test_a_program_over_too_deeply_nested_spans_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.spans.selector._MOST_STATES", 1)
    monkeypatch.setattr("bridle.spans.program._MOST_HELD", 30)
    with pytest.raises(LimitReached) as raised:
        bridle.select(onion(6), ["present B"], overlap="nest")
    assert raised.value.bound >= 3.0


@pytest.mark.parametrize("overlap", ["forbid", "nest"])
def test_rules_read_no_billions_of_positions(overlap: Any) -> None:
    far = [(0, 2_000_000_000, "A", 1.0)]
    assert bridle.select(far, overlap=overlap).indices == [0]
    assert SpanSelector([], ["A"], overlap=overlap).select(far).indices == [0]
    for rule in ("present A", "fix O at -1", "same label over 0:1999999999"):
        with pytest.raises(LatticeError, match="too many positions"):
            bridle.select(far, [rule], overlap=overlap)
    for where in ({"text": "a" * 10_000_001}, {"tokens": range(10_000_001)}):
        with pytest.raises(LatticeError, match="too many positions"):
            bridle.select([(0, 1, "A", 1.0)], ["present A"], overlap=overlap, **where)


@pytest.mark.parametrize("rules", [[], ["present A"]])
def test_memory_that_runs_out_is_told(rules: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("bridle.spans.selector.item_graph", full)
    monkeypatch.setattr("bridle._native.best_intervals", full)
    with pytest.raises(EngineError, match="max_memory"):
        bridle.select([(0, 1, "A", 1.0)], rules)
