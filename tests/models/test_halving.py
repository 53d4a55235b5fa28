"""Search by successive halving: who goes on, what is compared, what ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import CRF, FileError, LabelError, LocalTagger, MissingExtra, ModelError
from bridle.deadline import OutOfTime
from bridle.models import Candidate, halving, search
from bridle.models.halving import FEWEST, KEEP, plan_rungs
from tests.models.test_measures import DEV, TRAIN, WORD, names

GRID = {"c2": [100.0, 10.0, 1.0, 0.1], "cutoff": [1, 2]}


def model(**settings: Any) -> CRF:
    return CRF(features=WORD, threads=1, **{"iterations": 8, **settings})


@given(st.integers(1, 500), st.integers(2, 10**6))
def test_rungs_grow_and_the_last_one_has_all_sequences(candidates: int, sequences: int) -> None:
    rungs = plan_rungs(candidates, sequences)
    going_on, sizes = zip(*rungs, strict=True)
    assert sizes[-1] == sequences and list(sizes) == sorted(set(sizes)) and sizes[0] >= min(FEWEST, sequences)
    assert going_on[-1] == 1 and list(going_on) == sorted(going_on, reverse=True)
    tried = [candidates, *going_on[:-1]]
    assert all(after == -(-before // KEEP) for before, after in zip(tried, going_on[:-1], strict=False))


def test_the_best_third_goes_on_and_the_best_of_the_last_rung_is_taken() -> None:
    seen: list[Candidate] = []
    with patch.object(halving, "FEWEST", 20):
        result = search(model(), *TRAIN, GRID, measure="accuracy", watch=seen.append)
    assert result.tried == tuple(seen) and result.rungs == (20, 60) and result.folds == 4
    first, last = result.ranked(1), result.ranked(2)
    assert (len(first), len(last)) == (8, 3)
    assert {str(item) for item in last} == {str(item) for item in first[:3]}
    assert result.settings == last[0].settings
    assert last[0].accuracy == max(item.accuracy for item in last)


def test_candidates_are_judged_as_regularisation_is() -> None:
    """One mechanism: a candidate of the last rung has the figures that `c1="auto"` has for the same strengths."""
    tuned = model().fit(*TRAIN).tuning_
    assert tuned is not None
    trial = tuned.trials[0]
    (item,) = search(model(), *TRAIN, {"c1": [trial.c1], "c2": [trial.c2]}, folds=2).tried
    assert (item.f1, item.accuracy, item.exact, item.quality, item.iterations) == (
        trial.f1,
        trial.accuracy,
        trial.exact,
        trial.quality,
        trial.iterations,
    )


def test_on_a_development_set_a_candidate_is_what_fit_makes_of_it() -> None:
    result = search(model(), *TRAIN, {"c2": [10.0, 0.1]}, dev=DEV)
    assert (result.measure, result.folds) == ("f1", 0)
    for item in result.tried:
        alone = model(c2=item.settings["c2"]).fit(*TRAIN)
        assert item.accuracy == pytest.approx(alone.score(*DEV))


def test_features_and_learners_can_be_searched() -> None:
    result = search(model(), *TRAIN, {"features": ["pos", ["word[0]"]], "c2": [1.0]})
    assert result.settings["features"] in ("pos", ["word[0]"])
    local = search(LocalTagger(features=["word[0]"], iterations=2), *TRAIN, {"margin": [0.0, 1.0]})
    assert set(local.settings) == {"margin"}
    ibt = CRF("ibt", features=WORD, rules=["at most 1 segment of X"], iterations=2)
    assert len(search(ibt, *TRAIN, {"cutoff": [1, 2]}).tried) == 2


def test_all_candidates_get_the_same_folds() -> None:
    """By the texts, not by the features: shapes alone are equal for many, and would be held out together."""
    words = ["Ann", "Bob", "Eve", "Dan", "Kim", "Lou", "cat", "dog", "cow"]
    X, y = [[word] for word in words], [["N" if word.istitle() else "O"] for word in words]
    result = search(CRF(c2=0.1), X, y, {"features": [["word[0]"], ["shape[0]"]]})
    assert result.settings == {"features": ["shape[0]"]} and result.ranked(1)[0].accuracy == 1.0


def test_when_the_time_is_up_the_last_whole_rung_decides() -> None:
    def stop(item: Candidate) -> None:
        if item.rung == 2:
            raise OutOfTime

    with patch.object(halving, "FEWEST", 20):
        result = search(model(), *TRAIN, GRID, watch=stop)
    assert result.why == "the time was up" and result.settings == result.ranked(1)[0].settings
    with pytest.raises(ModelError, match="the time was up before anything was compared; got 0 seconds"):
        search(model(), *TRAIN, GRID, seconds=0)


def test_a_label_of_the_development_set_that_training_does_not_know() -> None:
    dev = [*DEV[0], ["new"]], [*DEV[1], ["B-Z"]]
    with pytest.raises(LabelError, match="unknown label; got 'B-Z'"):
        search(model(), *TRAIN, {"c2": [1.0]}, dev=dev)
    assert search(model(), *TRAIN, {"c2": [1.0]}, dev=dev, on_unknown="wrong").tried[0].f1 < 1


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ({}, "there is nothing to search"),
        ({"c2": []}, "the values of 'c2' are not a list"),
        ({"c2": "0.1"}, "the values of 'c2' are not a list"),
        ({"c3": [1]}, "unknown setting 'c3'"),
        ({"c2": [-1]}, "`c2` must be a non-negative number"),
        ({"scheme": ["BIO", None]}, "'scheme' cannot be searched"),
    ],
)
def test_invalid_grids_are_refused(grid: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        search(model(), *TRAIN, grid)


@pytest.mark.parametrize("seconds", [-1, float("nan"), "long", True])
def test_invalid_seconds_are_refused(seconds: Any) -> None:
    with pytest.raises(ModelError, match="`seconds` must be a non-negative number"):
        search(model(), *TRAIN, {"c2": [1.0]}, seconds=seconds)


def test_the_result_as_a_table_a_picture_and_json(tmp_path: Path) -> None:
    result = search(model(), *names(30, 1), GRID)
    document = json.loads(json.dumps(result.to_dict()))
    assert document["settings"] == result.settings and len(document["tried"]) == len(result.tried)
    lines = result.lines()
    assert lines[0].split()[:4] == ["rung", "sequences", "c2", "cutoff"]
    assert lines[-1].startswith("best by F1 on 4 folds: c2=")
    pytest.importorskip("matplotlib")
    for name in ("s.svg", "s.png"):
        result.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(FileError, match="cannot draw"):
        result.plot(tmp_path / "s.doc")


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path) -> None:
    result = search(model(), *TRAIN, {"c2": [1.0]})
    with (
        patch.dict("sys.modules", {"matplotlib.figure": None}),
        pytest.raises(MissingExtra, match=r"bridle-nlp\[plot\]"),
    ):
        result.plot(tmp_path / "s.svg")
