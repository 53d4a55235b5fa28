"""The trials at scale: the cost model, the page, going on after a stop, and a small measurement."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]


def module(name: str, folder: str = "benchmarks") -> ModuleType:
    """A script of the benchmarks or of the documentation."""
    sys.path.insert(0, str(ROOT / folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / folder))


scale, apart, costs, page, plot = (module(f"scale{part}") for part in ("", "_apart", "_costs", "_page", "_plot"))
rate, inputs, trials = (module(f"scale_{part}") for part in ("rate", "inputs", "trials"))
figures = module("scale_figures", "docs")

WHERE = {"processor": "a processor", "cores": 2, "tier": "avx2", "load": 0.1, "versions": {"Python": "3.11"}}
TRIAL = {"trial": "t", "kills": 5, "rows": 100, "lost": 0, "doubled": 0, "wrong": 0, "unknown": 0, "seconds": 9.6}
SPEED = {"library": 1000, "arrow": 700, "parquet": 600, "jsonl": 300, "conll": 300}


def sections(**trial: Any) -> dict[str, Any]:
    """Figures as a run stores them; the trial has other figures than usual if they are given."""
    chosen = rate.cases(inputs.Inputs(Path(), "references", ("tokens",), []))
    speed = [{**vars(case), "tokens": 10, "seconds": 1.0} for case in chosen]
    for item in speed:
        item["tokens_per_second"] = 1e3 * SPEED[item["way"]] * (1 if item["use"] == "one core" else 1.8)
        item["tokens_per_cpu_second"] = item["tokens_per_second"]
    peak = {"what": "a file", "way": "parquet", "tokens": [10**6, 10**7], "peak": [100.0, 130.0], "ratio": 1.3}
    model = {"model": "references", "file": 2.6, "before": 60.0, "with": 70.0}
    steps = {"python": 0.02, "import": 0.2, "load": 0.3, "batch": 0.1}
    result: dict[str, Any] = {name: {"trials": [{**TRIAL, **trial}]} for name in ("files", "spark", "ray")}
    result["rate"] = {"rates": speed, "limits": {"parquet": {"bridle-tag_0": 9e-7, "bridle-read": 5e-7}}}
    result |= {
        "memory": {"peaks": [peak], "models": [model]},
        "startup": {"worker": steps, "command": {"seconds": 0.8}},
    }
    return {name: {"key": {}, "where": WHERE, **section} for name, section in result.items()}


# ---- the cost model -------------------------------------------------------------------------------------------------

RATES = st.floats(1e3, 1e7)


@settings(max_examples=40)
@given(rate=RATES, gain=st.floats(1.0, 2.0), loss=st.floats(0.5, 1.0), limit=RATES, cores=st.integers(2, 200))
def test_the_model_goes_through_what_was_measured(
    rate: float, gain: float, loss: float, limit: float, cores: int
) -> None:
    two = gain * rate
    result = costs.Costs(1.0, rate, two, loss * two, limit)
    assert (result.process_rate(1), result.thread_rate(1)) == (rate, rate)
    assert result.process_rate(2) == pytest.approx(two)
    assert result.thread_rate(2) == pytest.approx(loss * two)
    assert result.thread_rate(cores) <= result.thread_rate(cores + 1)
    assert result.thread_rate(cores) <= result.process_rate(cores) * (1 + 1e-9)
    assert result.thread_rate(cores) <= max(limit, loss * two) * (1 + 1e-9)
    assert result.seconds(1e9, cores) == pytest.approx(1 + 1e9 / result.process_rate(cores))


def test_the_thread_that_reads_or_writes_is_the_limit() -> None:
    assert costs.limit_of({"bridle-tag_0": 9e-7, "bridle-read": 1e-7, "MainThread": 2e-7}) == pytest.approx(5e6)
    assert costs.limit_of({"bridle-tag_0": 9e-7}) == float("inf")
    half = costs.Costs(1.0, 1e6, 2e6, 2e6, 4e6)  # no serial share: straight up to the limit
    assert (half.thread_rate(3), half.thread_rate(64)) == (pytest.approx(3e6), pytest.approx(4e6))


def test_figures_for_people() -> None:
    assert [costs.told_time(s) for s in (0.84, 75, 1000, 7900)] == ["0.84 s", "75 s", "17 min", "2.2 h"]
    assert [costs.told_rate(r) for r in (215_400, 1_340_000, None)] == ["215,000", "1.34 million", ""]


# ---- the page -------------------------------------------------------------------------------------------------------


def test_the_page_shows_all_sections_and_what_was_missed() -> None:
    text = page.page(sections(), "python benchmarks/scale.py")
    assert "| t | 5 | 100 | 0 | 0 | 0 | 0 | 10 |" in text
    assert (
        "`bridle.arrow.Tag`, record batches / `Tagger.decode`, lists: references, one core | 0.70x | >= 0.8x (missed) |"
        in text
    )
    assert "| a file | 100 MB | 130 MB | 1.30x | <= 1.2x (missed) |" in text
    assert "a processor, 2 virtual cores, tier avx2, load 0.10 at the start; Python 3.11." in text
    assert "Not run yet" not in text
    assert page.page({}, "cmd").count("Not run yet") == len(page.TITLES) == len(scale.SECTIONS)


def test_the_plot_names_what_is_computed() -> None:
    drawn = plot.svg(costs.costs_of(sections()))
    ElementTree.fromstring(drawn)
    assert len(drawn) < 100_000
    assert all(f"a process per core: {how}" in drawn for how in ("measured", "computed"))


def test_figures_of_the_documentation_are_filled_in() -> None:
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    filled = figures.filled(text, sections())
    assert set(figures.PARTS) == {match[2] for match in figures.MARKED.finditer(text)}
    assert figures.MISSING not in filled and "results/scale.svg" in filled
    assert figures.filled(filled, sections()) == filled
    assert figures.filled(filled, {}).count(figures.MISSING) == len(figures.PARTS)


# ---- going on after a stop ------------------------------------------------------------------------------------------


def test_finished_sections_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, output = list[str](), list[str]()

    def section(name: str) -> Any:
        def run(chosen: Any) -> dict[str, Any]:
            done.append(name)
            if name == "ray" and len(done) < 4:
                raise trials.MissingError("ray is not installed")
            return {key: value for key, value in sections()[name].items() if key not in ("key", "where")}

        return run

    monkeypatch.setattr(scale, "SECTIONS", {name: section(name) for name in ("files", "ray", "startup")})
    monkeypatch.setattr(trials, "versions", lambda python, name: {"Python": "3"})
    path = tmp_path / "results" / "scale.json"

    def go(rows: int = 10, again: bool = False) -> list[str]:
        chosen = scale.Settings(rows, 1, 1, True, sys.executable, None, tmp_path, output.append)
        failed: list[str] = scale.measure(chosen, scale.Results.at(path), list(scale.SECTIONS), again)
        return failed

    assert (go(), done) == (["ray"], ["files", "ray", "startup"])
    assert "ray: left out. ray is not installed" in output
    assert list(json.loads(path.read_text("utf-8"))["sections"]) == ["files", "startup"]
    assert (go(), done[3:]) == ([], ["ray"])
    assert (go(), done[4:]) == ([], [])
    assert (go(rows=20), done[4:]) == ([], ["files", "ray"])  # the start-up does not depend on the rows
    assert (go(rows=20, again=True), done[6:]) == ([], ["files", "ray", "startup"])
    assert "Kill trials: Ray" in path.with_suffix(".md").read_text("utf-8")


def test_a_lost_row_is_found(tmp_path: Path) -> None:
    assert scale.Results(tmp_path, sections()).wrong() == []
    assert scale.Results(tmp_path, sections(lost=1)).wrong() == ["t"] * 3
    assert scale.Results(tmp_path, sections(ok=False)).wrong() == ["t"] * 3
    judged = trials.judged({"verdict": {"rows": 9, "lost": 1}, "kills": 5, "seconds": 3}, "a trial")
    assert judged == {"trial": "a trial", "rows": 9, "lost": 1, "kills": 5, "seconds": 3}


# ---- measurements ---------------------------------------------------------------------------------------------------


def test_each_of_several_commands_has_a_core() -> None:
    assert apart.places(1, 2, [3, 5, 7]) == [{3, 5}]
    assert apart.places(3, 2, [3, 5, 7]) == [{3}, {5}, {3}]
    assert apart.places(2, 0, [3, 5]) == [set(), set()]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no wait4")
def test_commands_are_measured_and_failures_told(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("7", encoding="ascii")
    code = "import sys; x = b'x' * (50 << 20); sys.exit(int(sys.stdin.read() or 9))"
    result = apart.apart([apart.Command((sys.executable, "-c", code), str(source))], 1, fine=(7,))
    assert result.peak > 50 and result.cpu > 0 and result.seconds > 0
    with pytest.raises(RuntimeError, match="returned 9"):
        apart.apart([apart.Command((sys.executable, "-c", code))], 1)


def test_runs_that_are_too_alike_give_no_rate() -> None:
    assert rate.slope((100, 1100), (1.0, 3.0)) == 500
    assert rate.slope((0, 1000), (0.0, 2.0)) == 500  # a child measures without its start
    assert rate.slope((100, 1100), (1.0, 1.1)) is None
    unclear = [{"way": "parquet", "tokens_per_second": None}]
    assert costs.rate_of(unclear, way="parquet") is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no wait4")
def test_rates_are_those_of_the_library(tmp_path: Path) -> None:
    some = inputs.References(tmp_path, "large", ("tokens",), ["at most 9 segments of TITLE"])
    inputs.large_model(some.model, 100)
    (result,) = rate.rates(some, [rate.Case("library", "one core", True, "large")], 40, 1, lambda text: None)
    assert result["tokens"] == some.tokens(40) > 1000
    assert result["tokens_per_second"] == pytest.approx(result["tokens"] / result["seconds"])
