"""The demonstration: rules help on styles that the tagger has not seen, and what is shown is what was found."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from bridle import demo
from bridle.data import references
from bridle.rules.base import Soft
from commands import Cli

pytestmark = pytest.mark.slow  # they share one experiment of a few seconds


@cache
def story() -> demo.Results:
    return demo.run()


def test_rules_help_on_unseen_styles() -> None:
    plain, learned, written = (way.rate for way in story().ways)
    assert plain.accuracy < learned.accuracy
    assert plain.accuracy + 0.02 < written.accuracy  # two points are to be seen
    assert plain.f1 < written.f1 and plain.exact < written.exact
    assert plain.broken > 0.1 and written.broken == 0


def test_gold_obeys_the_written_rules() -> None:
    """Otherwise they could not be hard."""
    rules = [rule for rule in story().ways[-1].rules if not isinstance(rule, Soft)]
    for example in references.references():
        ids = references.LABELS.ids(example.labels or ())
        broken = [str(rule) for rule in rules if not rule.holds(ids, references.LABELS, {"tokens": example.tokens})]
        assert not broken, example.id


def test_training_and_test_share_no_work_and_no_style() -> None:
    known, unknown = references.split(demo.WORKS)
    assert not {work.title for work in known} & {work.title for work in unknown}
    assert not set(demo.SEEN) & set(demo.UNSEEN)
    assert story().test == len(unknown) * len(demo.UNSEEN)


def test_changes_are_what_they_say() -> None:
    assert len(story().changes) == 3
    for change in story().changes:
        assert change.broken and change.before != change.after == tuple(change.example.labels or ())


def test_it_fits_in_100_columns() -> None:
    for terminal in (False, True):
        file = io.StringIO()
        demo.show(story(), Console(file=file, width=100, force_terminal=terminal, color_system=None))
        text = file.getvalue()
        assert max(map(len, text.splitlines())) <= 100
        for said in ("plain Viterbi", "learned rules", "written rules", "without rules, it breaks", "[TITLE"):
            assert said in text


def test_the_page_holds_the_figures() -> None:
    html = demo.page(story())
    for way in story().ways:
        assert f"{100 * way.rate.accuracy:.1f} %" in html
    assert html.count('class="token wrong"') >= 3
    assert "no duplicates of AUTHOR" in html


def test_the_command(run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run", lambda say: say("telling") or story())
    result = run("demo")
    assert result.exit_code == 0 and "plain Viterbi" in result.stdout and "telling" in result.stderr
    assert result.stdout.endswith("Report: bridle-demo.html\n")
    assert Path("bridle-demo.html").read_text().rstrip("\n") == demo.page(story()).rstrip("\n")
    result = run("demo", "--json", "-o", "x.html")
    assert json.loads(result.stdout) == json.loads(json.dumps(story().to_dict())) and Path("x.html").stat().st_size


def test_the_table_is_shown_before_the_report_is_written(
    run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "run", lambda say: story())
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    result = run("demo", "-o", tmp_path / "full.html")
    assert result.exit_code == 2 and "plain Viterbi" in result.stdout and "cannot write" in result.stderr


def test_the_place_is_looked_at_first(run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run", lambda say: pytest.fail("this takes seconds"))
    for out in (tmp_path / "none" / "x.html", tmp_path, "-"):
        result = run("demo", "-o", out)
        assert result.exit_code == 2 and "cannot write" in result.stderr and result.stdout == ""


def test_json() -> None:
    document = json.loads(json.dumps(story().to_dict()))
    assert [way["name"] for way in document["ways"]] == ["plain Viterbi", "learned rules", "written rules"]
    assert document["ways"][2]["accuracy"] == story().ways[2].rate.accuracy


def test_the_readme_tells_these_figures() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for way in story().ways:
        rate = way.rate
        shares = " | ".join(f"{100 * share:.1f} %" for share in (rate.accuracy, rate.f1, rate.exact, rate.broken))
        assert f"| {shares} |" in text, way.name
