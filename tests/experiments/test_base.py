"""The recipes that `bridle reproduce` offers."""

from __future__ import annotations

from bridle.cli.reproducing import NAMES
from experiments import Recipe


def test_the_command_lists_all_recipes() -> None:
    assert set(NAMES) == set(Recipe.known)
