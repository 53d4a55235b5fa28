"""Hard rule sets: random soft rules, mixed rules, rules that clash, learned rules on references.

A family is one or more sets of rules, each with lattices, and what is wanted of Bridle on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import bridle
import repository  # noqa: F401  (it makes `experiments` importable)
from bridle.data import references
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.learn import RelationalRules
from bridle.rules import Rule
from bridle.rules.base import Soft
from experiments import citations
from experiments.base import Run
from growth import mix
from many_rules import clashing_set, mixed_set, soft_set

BLANKS: Any = "blanks"  # tokens are cut there, as in relational.py
Givens = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RuleSet:
    """Rules, and the sequences to decode under them."""

    labels: Labels
    rules: tuple[Rule, ...]
    lattices: Sequence[Lattice] | Batch
    givens: Givens | None = None  # one for each sequence

    def given(self, k: int) -> Mapping[str, Any]:
        """Return the values that come with sequence k."""
        return {} if self.givens is None else self.givens[k]

    def value(self, k: int, ids: Sequence[int]) -> tuple[int, float]:
        """Violations of hard rules, negative, and score less penalties: of two labellings the larger one is better."""
        given, hard, penalty = self.given(k), 0, 0.0
        for rule in self.rules:
            count = rule.violations(ids, self.labels, given)
            if isinstance(rule, Soft):
                penalty += rule.cost(count)
            else:
                hard += count
        return -hard, self.lattices[k].score(ids) - penalty

    @property
    def hard(self) -> RuleSet:
        """Return the set with every rule hard."""
        return replace(self, rules=tuple(rule.rule if isinstance(rule, Soft) else rule for rule in self.rules))


@dataclass(frozen=True)
class Family:
    """Rule sets of one kind, and what is wanted."""

    name: str
    sets: tuple[RuleSet, ...]
    mean: float | None = None  # seconds of a call, at most
    worst: float | None = None  # seconds in which every optimum is proved
    on_infeasible: Literal["raise", "relax"] = "raise"
    kind: Literal["random", "references", "real"] = "random"
    peers: int = 1  # sequences that peers are given; most end at their limit, and a run should not take an hour

    def __len__(self) -> int:
        return sum(len(rule_set.lattices) for rule_set in self.sets)

    def sequences(self) -> Iterator[tuple[int, int]]:
        """Numbers of set and sequence, the first sequence of each set first: peers take the first few."""
        most = max(len(rule_set.lattices) for rule_set in self.sets)
        return ((i, k) for k in range(most) for i, rule_set in enumerate(self.sets) if k < len(rule_set.lattices))


Drawn = tuple[Labels, list[Rule], list[Lattice]]

# tokens, labels, soft rules, penalty, wanted: mean and worst seconds; sequences for peers
SOFT = [
    (30, 8, 15, 2.0, None, None, 5),
    (40, 10, 20, 2.0, 0.008, None, 3),
    (40, 10, 33, 2.0, 0.025, 0.150, 2),
    (60, 13, 26, 3.0, 0.040, 1.0, 1),
    (60, 13, 40, 3.0, 0.400, 5.0, 1),
    (80, 16, 50, 3.0, None, None, 1),
]


def random_families(quick: bool) -> Iterator[Family]:
    """The families that need no data, from seeds."""
    draws, size = (1, 3) if quick else (3, 8)

    def sets(draw: Callable[[int], Drawn], some: int = draws) -> tuple[RuleSet, ...]:
        return tuple(RuleSet(names, tuple(rules), x) for names, rules, x in map(draw, range(some)))

    for n, m, count, penalty, mean, worst, peers in SOFT:
        few = size if n < 80 else 1 if quick else 3  # what is not proved takes all the time there is

        def soft(seed: int, at: tuple[int, int, int, float, int] = (n, m, count, penalty, few)) -> Drawn:
            return soft_set(*at, seed)

        yield Family(f"{n} x {m} x {count} soft", sets(soft), mean, worst, peers=peers)
    for count, mean in ((100, None), (200, 0.040)):

        def grown(seed: int, count: int = count) -> Drawn:
            problem = mix(100, 30, count, size, seed)
            return problem.labels, problem.rules, problem.lattices

        yield Family(f"100 x 30 x {count} mixed", sets(grown), mean)
    for count in (100, 200):

        def mixed(seed: int, count: int = count) -> Drawn:
            return mixed_set(40, 30, count, 2.0, 3.0, size, seed)

        yield Family(f"40 x 30 x {count} mixed", sets(mixed))
    for n, m, count in ((40, 10, 33), (60, 13, 40)):

        def clashing(seed: int, at: tuple[int, int, int] = (n, m, count)) -> Drawn:
            return clashing_set(*at, size, seed)

        yield Family(f"{n} x {m} x {count} clashing", sets(clashing), on_infeasible="relax")


def _columns(examples: Sequence[Any]) -> tuple[list[Any], list[list[str]]]:
    return [dict(example.columns) for example in examples], [list(example.labels) for example in examples]


def _learned(
    name: str, train: tuple[Any, Any], test: list[Any], kind: Literal["references", "real"]
) -> Iterator[Family]:
    """Rules that were learned from `train` on the sequences of `test`: with their penalties, and hard."""
    model = bridle.CRF(features="fields", c1=0.0, c2=1.0).fit(*train)
    rules = tuple(RelationalRules().fit(*train).rules_)
    soft = RuleSet(model.labels_, rules, model.lattices(test), [{"tokens": list(x["word"])} for x in test])
    yield Family(f"{name}, {len(rules)} soft", (soft,), kind=kind, peers=4)
    yield Family(f"{name}, {len(rules)} hard", (soft.hard,), on_infeasible="relax", kind=kind, peers=4)


def reference_families(quick: bool) -> Iterator[Family]:
    """Learned from all works in two styles, decoded in two other styles."""
    test, _ = _columns(references.references("ieee", "apa"))
    yield from _learned(
        "references", _columns(references.references("acm", "lncs")), test[:: 8 if quick else 1], "references"
    )


def real_families(folder: Path, quick: bool) -> Iterator[Family]:
    """Learned from the 500 references of Cora, decoded on AnyStyle's, which are of all styles and languages."""
    run = Run(folder)
    cora = citations.references(run.file("citations-cora", "tagged_references.txt"), BLANKS)
    test = citations.anystyle(run, BLANKS).X
    yield from _learned("Cora to AnyStyle", (cora.X, cora.y), test[:: 20 if quick else 1], "real")
