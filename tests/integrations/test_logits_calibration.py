"""Calibrations of openai/privacy-filter: six biases, no more and no fewer, and the transitions that they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle.integrations.logits import STEPS, check_complete, read_biases, transition_scores

SIX = {f"transition_bias_{name}": float(k) for k, name in enumerate(STEPS, start=1)}


def file_of(biases: Any) -> dict[str, Any]:
    return {"operating_points": {"default": {"biases": biases}}}


def test_a_calibration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(file_of(SIX)), encoding="utf-8")
    expected = {name: float(k) for k, name in enumerate(STEPS, start=1)}
    assert read_biases(path) == read_biases(str(path)) == read_biases(file_of(SIX)) == expected
    assert set(read_biases(None).values()) == {0.0}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["O", "B-x", "I-x"], "got no E-x, no S-x; wanted O"),
        (["O", "B-x", "I-x", "S-x"], "got no E-x;"),
        (["B-x", "I-x", "E-x", "S-x"], "got no O;"),
        (["O", "S-x", "B-y", "I-y", "E-y", "S-y"], "got no B-x, no I-x, no E-x;"),
        (["O"], "got no types"),
    ],
)
def test_labels_that_are_not_all_there(names: list[str], message: str) -> None:
    with pytest.raises(bridle.LabelError, match=message):
        check_complete(bridle.Labels(names, "BIOES"))
    check_complete(bridle.Labels(["E-x", "S-x", "O", "B-x", "I-x"], "BIOES"))


def test_transitions_have_the_biases_of_their_kind() -> None:
    labels = bridle.Labels(["E-x", "S-y", "O", "B-x", "I-x", "B-y", "E-y", "I-y", "S-x"], "BIOES")
    pairwise, start, end = transition_scores(labels, read_biases(file_of(SIX)))
    result = {
        (labels.names[i], labels.names[j]): pairwise[i, j] for i, j in np.argwhere(np.isfinite(pairwise)).tolist()
    }
    closed, opening = ["E-x", "S-x", "E-y", "S-y"], ["B-x", "S-x", "B-y", "S-y"]
    assert result == {
        ("O", "O"): 1,
        **{("O", b): 2 for b in opening},
        **{(a, f"I-{kind}"): 3 for kind in "xy" for a in (f"B-{kind}", f"I-{kind}")},
        **{(a, f"E-{kind}"): 4 for kind in "xy" for a in (f"B-{kind}", f"I-{kind}")},
        **{(a, "O"): 5 for a in closed},
        **{(a, b): 6 for a in closed for b in opening},
    }
    assert {labels.names[y] for y in np.flatnonzero(start == 0)} == {"O", *opening}
    assert {labels.names[y] for y in np.flatnonzero(end == 0)} == {"O", *closed}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "has no 'operating_points'"),
        ({"operating_point": {}}, "has no 'operating_points'; got operating_point"),
        ({"operating_points": {"strict": {}}}, "has no 'default'; got strict"),
        ({"operating_points": {"default": {}}}, "has no 'biases'; got nothing"),
        (file_of([1]), "does not have the six biases"),
        (file_of({**SIX, "transition_bias_other": 0}), "does not have the six biases; got 'transition_bias_other'"),
        (file_of({k: v for k, v in SIX.items() if "stay" not in k}), "got no transition_bias_background_stay"),
        (file_of({**SIX, "transition_bias_end_to_start": "0"}), "transition_bias_end_to_start is not a bias; got '0'"),
        (file_of({**SIX, "transition_bias_end_to_start": True}), "is not a bias; got True"),
        (file_of({**SIX, "transition_bias_end_to_start": float("nan")}), "is not a bias; got nan"),
        (file_of({**SIX, "transition_bias_end_to_start": 10**400}), "is not a bias"),
    ],
)
def test_bad_calibrations(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(bridle.ModelError, match=message):
        read_biases(content)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(bridle.ModelError, match=f"calibration.json: .*{message}"):
        read_biases(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(bridle.FileError, match="cannot read the calibration file"):
        read_biases(tmp_path / "none.json")
    for content in ("{", "[" * 10**6):
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
        with pytest.raises(bridle.ModelError, match="not JSON"):
            read_biases(tmp_path / "bad.json")
