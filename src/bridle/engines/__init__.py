"""Engines: one file per way to decode, each a frozen value with its own options.

Choose one by name, with its usual options, or as a value::

    Decoder(labels, rules, engine="search")
    Decoder(labels, rules, engine=bridle.engines.Beam(width=32))

A file that defines a subclass of `Engine` with a name is registered automatically.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar

import numpy as np

from bridle import _native
from bridle.decoding.problem import TOO_LARGE, Answers, Limits, Objective, Problem
from bridle.errors import EngineError
from bridle.labels import Labels
from bridle.rules.base import Rule
from bridle.rules.compiled import Absorb, CompiledRules

_ENGINES: dict[str, type[Engine]] = {}


@dataclass(frozen=True)
class Engine:
    """The base of all engines: a way to decode, as a frozen value whose fields are its options.

    A subclass defines `solve`; one with a `name` can be chosen by it: ``Decoder(labels, engine="name")``.

    Examples
    --------
    >>> import bridle
    >>> engine = bridle.engines.Beam(width=32)
    >>> engine == bridle.engines.engine_named("beam", width=32)
    True
    >>> bridle.Decoder(["A", "B"], engine=engine).plan.engine
    'beam'
    """

    name: ClassVar[str] = ""
    counters: ClassVar[tuple[str, ...]] = ()  # names of the numbers that it leaves per sequence
    native_options: ClassVar[tuple[str, ...]] = ()  # its options that the kernels take
    objective: ClassVar[Objective] = "score"  # what it optimises

    def __init_subclass__(cls) -> None:
        if "name" not in cls.__dict__:
            return
        if cls.name in _ENGINES and _ENGINES[cls.name].__module__ != cls.__module__:
            raise TypeError(f"an engine named {cls.name!r} is already registered")
        _ENGINES[cls.name] = cls

    def accept(self, rules: CompiledRules) -> None:
        """Raise `EngineError` if this engine does not support one of these rules; ``rules.rules`` are as written."""

    def solve(self, problem: Problem, limits: Limits, answers: Answers) -> None:
        """Decode all sequences of a problem: lattices, rules, and the values that came with the sequences.

        To be filled in are the ids, score, bound, status and violations of each sequence, its counters or stats, and
        the seconds that it took, if there is a time limit: what is left of it is for relaxing. That no labelling obeys
        the rules, or that a limit was reached first, is a status; `EngineError` is for an engine that cannot finish.
        """
        raise NotImplementedError

    def stats(self, counters: list[int]) -> dict[str, Any]:
        """Return the counters of a sequence by their names: the entries of `Decoding.stats`."""
        return dict(zip(self.counters, counters, strict=True))

    def too_large(self, n_rules: int, sequence: int | None) -> EngineError:
        """Make the error for a product of automata that does not fit; sequence: its number, in a batch of many."""
        return EngineError(
            f"engine {self.name!r} cannot hold the intersection of the lattice with these rules",
            got=f"{n_rules} rules",
            wanted="fewer states than max_states or max_memory allows",
            sequence=sequence,
            cause="Use engine='search' or 'auto', which intersect only what is violated.",
        )


@dataclass(frozen=True)
class NativeEngine(Engine):
    """An engine whose work is done by a kernel of the same name."""

    absorb: ClassVar[Absorb] = "masks"  # which hard rules are folded into the lattice first
    kernel: ClassVar[int] = -1  # the number of its kernel, which is found by its name

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        with suppress(ValueError):
            cls.kernel = _native.engine(cls.name)

    def accept(self, rules: CompiledRules) -> None:
        if self.kernel < 0:
            known = ", ".join(name for name, kind in sorted(_ENGINES.items()) if getattr(kind, "kernel", -1) >= 0)
            raise EngineError(
                "there is no kernel for this engine",
                got=repr(self.name),
                wanted=f"the name of a kernel, as {known}",
                cause="An engine of your own is a subclass of Engine that defines solve().",
            )

    def solve(self, problem: Problem, limits: Limits, answers: Answers) -> None:
        problem.native(self.absorb).decode(self.kernel, problem.stop, *answers.arrays)
        if TOO_LARGE not in answers.status.tobytes():  # ten times as fast as to compare a short array
            return
        for b in np.flatnonzero(answers.status == TOO_LARGE).tolist():
            problem.fail(b, self.too_large(len(problem.rules), None))


def engine_names() -> list[str]:
    """Return the names of all engines, sorted; "auto", which chooses one of them, is not among them."""
    return sorted(_ENGINES)


def solve_one(engine: Engine, problem: Problem, limits: Limits = Limits()) -> Answers:  # noqa: B008  (it is frozen)
    """Let an engine decode a problem in this thread; by default, without limits."""
    answers = Answers.blank(problem.offsets, len(problem.rules), len(engine.counters))
    engine.solve(problem, limits, answers)
    return answers


def engine_named(name: object, **options: Any) -> Engine:
    """Make an engine by its name.

    Parameters
    ----------
    name : str
        One of `engine_names`, with options after a colon if they differ from its defaults: ``"beam:width=16"``.
    **options : object
        Options of this engine that differ from its defaults.

    Returns
    -------
    Engine

    Raises
    ------
    EngineError
        If there is no such engine, or it has no such option.

    Examples
    --------
    >>> from bridle.engines import engine_named
    >>> engine_named("two_stage", tau=0.95) == engine_named("two_stage:tau=0.95")
    True
    >>> engine_named("two_stage:stage=ilp,formulation=paper")
    TwoStage(tau=0.9, stage='ilp', formulation='paper')
    """
    if isinstance(name, str) and ":" in name:
        name, _, listed = name.partition(":")
        options = _parse_options(listed) | options
    if not isinstance(name, str) or name not in _ENGINES:
        wanted = ", ".join(["auto", *engine_names()])
        raise EngineError("unknown engine", got=repr(name), wanted=f"{wanted}, or an engine object")
    if unknown := sorted(set(options) - {field.name for field in fields(_ENGINES[name])}):
        known = ", ".join(field.name for field in fields(_ENGINES[name])) or "no options"
        raise EngineError(f"engine {name!r} has no option {unknown[0]!r}", got=repr(options[unknown[0]]), wanted=known)
    return _ENGINES[name](**options)


def _parse_options(listed: str) -> dict[str, Any]:
    """Parse "tau=0.95,stage=ilp"; numbers become numbers."""
    options: dict[str, Any] = {}
    for part in listed.split(","):
        key, is_, text = (word.strip() for word in part.partition("="))
        if not is_ or not key:
            raise EngineError("an option of an engine is not of the form KEY=VALUE", got=repr(part), wanted="tau=0.95")
        options[key] = text
        for number in (float, int):
            with suppress(ValueError):
                options[key] = number(text)
    return options


@dataclass(frozen=True)
class Plan:
    """The name of the engine that answers, and why it was chosen."""

    engine: str
    reason: str
    beyond: tuple[Rule, ...] = ()  # rules that are the reason

    @property
    def why(self) -> str:
        """The reason in words."""
        more = f" and {len(self.beyond) - 1} more" if len(self.beyond) > 1 else ""
        return f"{self.reason}: {self.beyond[0]}{more}" if self.beyond else self.reason


def plan_engine(
    labels: Labels, rules: Sequence[Rule], engine: str | Engine, limits: Limits
) -> tuple[Engine, CompiledRules, Plan]:
    """Return the engine to use, for "auto" the one that suits the rules; the rules compiled for it; and the reason."""
    auto = isinstance(engine, str) and engine == "auto"
    chosen = _SEARCH if auto else engine if isinstance(engine, Engine) else engine_named(engine)
    compiled = CompiledRules(labels, rules, limits.native(chosen, chosen.native_options))
    if not auto:
        chosen.accept(compiled)
        return chosen, compiled, Plan(chosen.name, "you selected it")
    if not rules:
        return _VITERBI, compiled, Plan("viterbi", "there are no rules")
    beyond = tuple(rule for rule, mask in zip(rules, compiled.absorbed(), strict=True) if not mask)
    if beyond:
        return chosen, compiled, Plan("search", "masks cannot express", beyond)
    return _VITERBI, compiled, Plan("viterbi", "every rule is a mask on labels and transitions")


for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

from bridle.engines.beam import Beam  # noqa: E402  (all files are imported by now)
from bridle.engines.ilp import Ilp  # noqa: E402
from bridle.engines.lazy_intersection import LazyIntersection  # noqa: E402
from bridle.engines.product import Product  # noqa: E402
from bridle.engines.search import Search  # noqa: E402
from bridle.engines.two_stage import TwoStage  # noqa: E402
from bridle.engines.viterbi import Viterbi  # noqa: E402

_SEARCH, _VITERBI = Search(), Viterbi()  # "auto" chooses one of them

__all__ = [
    "Beam",
    "Engine",
    "Ilp",
    "LazyIntersection",
    "NativeEngine",
    "Plan",
    "Product",
    "Search",
    "TwoStage",
    "Viterbi",
    "engine_named",
    "engine_names",
    "plan_engine",
    "solve_one",
]
