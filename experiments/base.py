"""Recipes: a recipe is one experiment of a paper on real data, put together from public names of the library."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar

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
    out: Path | None = None  # folder for results, and for what is measured before a stop

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


class Kept:
    """Figures that are measured one by one and kept in a file, so that a run goes on after a stop."""

    def __init__(self, run: Run, name: str) -> None:
        self._path = None if run.out is None else kept_file(run.out, name)
        self._known: dict[str, dict[str, float]] = {}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    key, figures = json.loads(line)
                except ValueError:  # the line that was cut off
                    continue
                self._known[key] = figures

    def measured(self, key: Sequence[Any], work: Callable[[], Mapping[str, float]]) -> dict[str, float]:
        """Return the figures of this key: those that are kept, or new ones."""
        name = json.dumps(list(key))
        if name not in self._known:
            self._known[name] = dict(work())
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"\n{json.dumps([name, self._known[name]])}")
        return self._known[name]


def kept_file(out: Path, name: str) -> Path:
    """Return the file of figures that a run has measured before it is done."""
    return out / f"{name}.part.jsonl"


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
