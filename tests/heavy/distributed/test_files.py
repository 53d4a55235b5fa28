"""`bridle tag --resume`, killed at random moments, on a full disk, and without one of its inputs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))  # the modules of benchmarks

import scale_files


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    trial = scale_files.trial(tmp_path / "trial", rows=4000, kills=4, seed=seed)
    assert trial["ok"] and trial["kills"] == 4 and trial["restarts"] > 4, trial


def test_a_full_disk(tmp_path: Path) -> None:
    result = scale_files.full_disk(tmp_path / "trial", rows=2000)
    assert result["ok"], result


def test_a_missing_input(tmp_path: Path) -> None:
    result = scale_files.missing_input(tmp_path / "trial", rows=4000)
    assert result["ok"], result
