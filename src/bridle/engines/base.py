"""What an engine is: it takes a problem, says so if it cannot, and returns answers with their proof."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bridle.decoding.problem import TOO_LARGE, Answers, Problem
from bridle.errors import EngineError
from bridle.rules.base import Rule

_ENGINES: dict[str, type[Engine]] = {}


class Engine:
    """The base of all engines."""

    name: ClassVar[str] = ""
    counters: ClassVar[tuple[str, ...]] = ()  # numbers that it leaves per sequence

    def __init_subclass__(cls) -> None:
        if cls.name in _ENGINES and _ENGINES[cls.name].__module__ != cls.__module__:
            raise TypeError(f"two engines are called {cls.name!r}")
        if "name" in cls.__dict__:
            _ENGINES[cls.name] = cls

    def accept(self, rules: tuple[Rule, ...], absorbed: list[bool]) -> None:
        """Raise EngineError if this engine cannot take such rules. absorbed: which rules are masks."""

    def solve(self, problem: Problem, answers: Answers) -> None:
        """Decode all sequences of the problem into `answers`."""
        raise NotImplementedError

    def stats(self, answers: Answers, b: int) -> dict[str, Any]:
        """The counters of sequence b, by name."""
        return answers.stats[b]


class NativeEngine(Engine):
    """An engine whose work is done by a kernel of the same name."""

    absorbs: ClassVar[bool] = True  # fold hard masks into the lattice first

    def solve(self, problem: Problem, answers: Answers) -> None:
        problem.native(absorb=self.absorbs).decode(
            self.name, problem.options.native, problem.stop,
            answers.ids, answers.score, answers.bound, answers.status, answers.violations, answers.counters,
        )
        if answers.status.max(initial=0) == TOO_LARGE:
            number = problem.number(int(np.flatnonzero(answers.status == TOO_LARGE)[0]))
            raise EngineError(
                f"engine {self.name!r} cannot hold the intersection with these rules",
                got=f"{len(problem.rules)} rules", wanted="fewer states than max_states or memory allows",
                cause="Use engine='search' or 'auto', which intersect only what is violated.", sequence=number,
            )

    def stats(self, answers: Answers, b: int) -> dict[str, Any]:
        return dict(zip(self.counters, answers.counters[b].tolist(), strict=True))


def engine_names() -> list[str]:
    """All engines there are, `auto` not among them."""
    return sorted(_ENGINES)


def solve_one(name: str, problem: Problem) -> Answers:
    """The answers of a named engine to a problem, in this thread."""
    engine = engine_named(name)
    answers = Answers.blank(int(problem.offsets[-1]), len(problem), len(problem.rules), len(engine.counters))
    engine.solve(problem, answers)
    return answers


def engine_named(name: str) -> Engine:
    """A new engine of this name."""
    if not isinstance(name, str) or name not in _ENGINES:
        raise EngineError("unknown engine", got=repr(name), wanted=", ".join(["auto", *engine_names()]))
    return _ENGINES[name]()
