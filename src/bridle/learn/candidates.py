"""Candidate rules: kinds of rules, each proposing candidates with their counts and their odds by chance.

A kind is one function: it goes over the names (or tokens) of the data and yields candidates. A candidate applies to
some sequences and is broken in some of those. Its tail is the probability that so few are broken when labels are drawn
with no memory: segments one after another, whose order, neighbours and company mean nothing, as many as the sequence
has. Where the data chose a number or a set for a rule, the tail is multiplied by how many there were to choose from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bridle.labels import Bools
from bridle.learn.chance import Floats, log_binomial
from bridle.learn.counted import Counted
from bridle.rules.base import Rule

Check = Callable[[Counted], Bools]  # (K,) which sequences break a rule


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule that may be true."""

    rule: Rule
    kind: str
    speaks: Bools  # (K,)
    broken: Check
    log_tail: float  # log of the probability that chance alone does so well
    cost: float  # how much there is to read


@dataclass(frozen=True, slots=True)
class Limits:
    """How far kinds look."""

    confidence: float  # the share of sequences that obey, wanted where a number or a set is chosen
    support: int  # sequences in which a rule must speak
    numbers: int = 4  # the largest count
    names: int = 3  # the largest set of labels
    delimiters: int = 30  # the most frequent marks


Kind = Callable[[Counted, Limits], Iterator[Candidate]]
KINDS: dict[str, Kind] = {}
OF_TOKENS: set[str] = set()  # kinds that look at the texts of tokens


def kind(name: str, *, sees: Literal["labels", "tokens"] = "labels") -> Callable[[Kind], Kind]:
    """Adds a kind under its name."""

    def add(propose: Kind) -> Kind:
        KINDS[name] = propose
        if sees == "tokens":
            OF_TOKENS.add(name)
        return propose

    return add


def tail_of(data: Counted, speaks: Bools, broken: Check, p: float, choices: int = 1) -> float:
    """log P(so many sequences obey), each with probability p, times the choices there were."""
    spoke, bad = int(speaks.sum()), int(broken(data).sum())
    return min(0.0, log_binomial(spoke - bad, spoke, min(max(p, 0.0), 1.0)) + math.log(choices))


def mean(values: Floats, where: Bools) -> float:
    """The mean over some sequences; 1, the odds of what cannot fail, if there are none."""
    return float(values[where].mean()) if where.any() else 1.0


@dataclass(frozen=True, slots=True)
class Shares:
    """What the null model knows."""

    segments: Floats  # (U,) of all segments
    tokens: Floats  # (U,) of all tokens
    size: Floats  # (K,) segments in each sequence

    @classmethod
    def of(cls, data: Counted) -> Shares:
        per_name = data.segments.sum(axis=1)
        tokens = np.bincount(data.name_of, minlength=len(data.names))
        size = data.segments.sum(axis=0)
        return cls(per_name / max(per_name.sum(), 1), tokens / max(tokens.sum(), 1), size.astype(np.float64))

    def company(self, data: Counted, a: int, b: int, *, touching: bool) -> Floats:
        """(K,): P(b occurs) in what room the segments of a leave. touching: as if b could be next to itself."""
        room = 1 - self.segments[a] - (0 if touching else self.segments[b])
        share = min(self.segments[b] / room, 1.0) if room > 0 else 1.0
        chance: Floats = 1 - (1 - share) ** np.maximum(self.size - data.segments[a], 0)
        return chance
