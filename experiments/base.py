"""Recipes: a recipe is one experiment of a paper on real data, put together from public names of the library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

from bridle.errors import FileError
from experiments.tables import Report

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of a run of an experiment."""

    data: Path
    quick: bool = False
    seed: int = 0
    threads: int = 0
    say: Say = field(default=lambda text: None)  # what is going on, for people who wait

    def file(self, *parts: str) -> Path:
        """A file of the data; a clear error if it is not there."""
        path = self.data.joinpath(*parts)
        if not path.exists():
            raise FileError(
                f"{path} is not there",
                wanted=f"the file that {self.data / parts[0] / 'README.md'} describes",
                cause="--data is the folder that holds the data sets, one folder each; docs/results.md lists them.",
            )
        return path


class Recipe(ABC):
    """An experiment; a file in this folder that defines one with a name is registered automatically."""

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    known: ClassVar[dict[str, type[Recipe]]] = {}

    def __init_subclass__(cls) -> None:
        if cls.name:
            Recipe.known[cls.name] = cls

    @abstractmethod
    def run(self, run: Run) -> Report:
        """Do it all."""


def recipe_named(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in Recipe.known:
        near = get_close_matches(name, Recipe.known, n=1)
        raise FileError(
            "unknown experiment",
            got=repr(name),
            wanted="one of " + ", ".join(sorted(Recipe.known)),
            cause=f"Did you mean {near[0]!r}?" if near else None,
        )
    return Recipe.known[name]()
