"""Labellings that compete with gold, and how likely they are without rules at the right temperature.

    p(y) = exp(s M(y)) / Z(s)                         M score of the model    s the scale of its scores, 1 / temperature
    minimise over s   - sum over sequences of log p(gold)                     exact: Z sums over all labellings

    Z(w) / Z  =  sum over y of p(y) exp(- w v(y))      what is left under the prices w;  v[r] violations of rule r
              ~  sum over listed c of p(c) exp(- w v(c))  +  (rest / J) sum over draws of exp(- w v(y_j))

Listed are gold, the k best labellings and those that were best under prices met on the way. What they leave of the
probability is the rest; J labellings that are not listed are drawn from p, so that flat scores of long sequences, whose
k best labellings have a small share, are not taken for steep ones.
    B sequences (b)    C labellings of all sequences, those of a sequence side by side (c)    R rules (r)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import Limits, Problem
from bridle.decoding.threads import in_threads
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Lattices, subset
from bridle.learn.evidence import Given, Ids, counter
from bridle.models.checks import count_of_threads
from bridle.report.significance import Floats
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
LEAST, MOST = 0.01, 100.0  # of the scale
_PRECISION = 0.01  # of its logarithm
_GOLDEN = (math.sqrt(5) - 1) / 2
_K_BEST, _DRAWS = 30, 50
_REST = 1e-3  # a smaller rest is left out
_FAINT = -20.0  # log p of labellings that are left out


# ---- sums over all labellings ---------------------------------------------------------------------------------------


def scaled(lattices: Lattices, s: float) -> Lattices:
    """Multiply all scores by s."""

    def times(scores: npt.NDArray[np.floating] | None) -> Floats | None:
        return None if scores is None else np.asarray(scores, dtype=np.float64) * s

    if isinstance(lattices, Batch) and lattices.first is None and lattices.steps is None:
        x = lattices
        return Batch(times(x.unary), x.offsets, times(x.pairwise), times(x.start), times(x.end))  # type: ignore[arg-type]
    whole = (lattices[b] for b in range(len(lattices)))
    return [
        Lattice(times(x.unary), times(x.pairwise), times(x.start), times(x.end))  # type: ignore[arg-type]
        for x in whole
    ]


def log_z(labels: Labels, lattices: Lattices, s: float, threads: int = 0) -> Floats:
    """(B,): log of the sum of exp(s score)."""
    return Decoder(labels).log_partition(scaled(lattices, s), threads=threads)


def fit_scale(labels: Labels, lattices: Lattices, gold: Floats, threads: int = 0) -> float:
    """Find the scale under which gold is most likely. gold (B,): the scores of gold.

    The loss is convex in the scale; it is minimised by golden sections of its logarithm.
    """
    possible = np.isfinite(gold)

    def loss(x: float) -> float:
        s = math.exp(x)
        return float((log_z(labels, lattices, s, threads) - s * gold)[possible].sum())

    low, high = math.log(LEAST), math.log(MOST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > _PRECISION:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return math.exp((low + high) / 2) if possible.any() else 1.0


# ---- labellings -----------------------------------------------------------------------------------------------------


_Paths = dict[bytes, tuple[float, Floats32]]  # labellings, each with its score or its number of draws, and what it pays


class Competitors:
    """Gold and other labellings of sequences, with their chances without rules and the rules that they break."""

    scale: float  # of the scores
    owner: Ints  # (C,)  the sequence of each; rising
    first: Ints  # (B,)  the first of each sequence, which is gold
    log_p: Floats  # (C,)  log p; for draws, of their share of the rest
    # What is paid: an entry for each labelling and rule that it breaks.
    row: Ints  # (E,)  the labelling
    rule: Ints  # (E,)
    times: Floats  # (E,)  how often the rule is paid for; 1 for a rule paid once per sequence

    def __init__(
        self,
        labels: Labels,
        lattices: Lattices,
        gold: Sequence[Ids],
        rules: Sequence[Rule],
        given: Sequence[Given] | None,
        *,
        k: int = _K_BEST,
        draws: int = _DRAWS,
        scale: float | None = None,
        threads: int = 0,
        seed: int = 0,
    ) -> None:
        self._lattices, self._given = [lattices[b] for b in range(len(lattices))], given
        self._count = counter(rules, labels, threads=threads)
        self._once = np.array([not isinstance(rule, Soft) or rule.per == "sequence" for rule in rules], dtype=bool)
        self._known: list[_Paths] = [{} for _ in self._lattices]
        self._drawn: list[_Paths] = [{} for _ in self._lattices]
        scores = np.array([x.score(y) for x, y in zip(self._lattices, gold, strict=True)])
        self.scale = fit_scale(labels, lattices, scores, threads) if scale is None else scale
        self._log_z = log_z(labels, lattices, self.scale, threads)
        self._add(self._known, enumerate(gold))
        self._add(self._known, _k_best(labels, lattices, k, count_of_threads(threads)))
        flat = np.flatnonzero(self._rest() > _REST)
        if len(flat) and draws:
            skewed = scaled(subset(lattices, flat), self.scale)
            drawn = Decoder(labels, on_infeasible="skip").sample(skewed, draws, threads=threads, seed=seed)
            pairs = zip(flat.tolist(), drawn, strict=True)
            self._add(self._drawn, ((b, path) for b, paths in pairs for path in paths))
        self._pack()

    @property
    def n_rules(self) -> int:
        """R."""
        return len(self._once)

    @property
    def at_bound(self) -> bool:
        """Is the scale as small or as large as it may be?"""
        return not LEAST * 1.02 < self.scale < MOST / 1.02

    def add(self, labellings: Iterable[tuple[int, Ids]]) -> int:
        """Add labellings, each with the number of its sequence; return how many of them were new."""
        count = self._add(self._known, labellings)
        if count:
            self._pack()
        return count

    def _add(self, to: list[_Paths], labellings: Iterable[tuple[int, Ids]]) -> int:
        new: dict[tuple[int, bytes], Ids] = {}
        times: dict[tuple[int, bytes], int] = {}
        draws = to is self._drawn
        for b, ids in labellings:
            path = np.ascontiguousarray(ids, dtype=np.int32)
            if (key := path.tobytes()) not in self._known[b]:
                new[b, key] = path
                times[b, key] = times.get((b, key), 0) + 1
        if new:
            paths, offsets = np.concatenate([*new.values()]), np.cumsum([0, *map(len, new.values())]).astype(np.int64)
            broken = self._count(paths, offsets, None if self._given is None else [self._given[b] for b, _ in new])
            paid = np.where(self._once, np.minimum(broken, 1), broken).astype(np.float32)
            for (b, key), path, row in zip(new, new.values(), paid, strict=True):
                to[b][key] = times[b, key] if draws else self._lattices[b].score(path), row
        return len(new)

    def _rest(self) -> Floats:
        """(B,): the probability that the listed labellings leave."""
        listed = [np.fromiter((score for score, _ in known.values()), dtype=np.float64) for known in self._known]
        chances = (float(np.exp(self.scale * x - z).sum()) for x, z in zip(listed, self._log_z, strict=True))
        return np.maximum(1 - np.fromiter(chances, dtype=np.float64), 0.0)

    def _pack(self) -> None:
        rest = self._rest()
        log_p: list[float] = []
        rows: list[Floats32] = []
        sizes = []
        for b, (known, drawn) in enumerate(zip(self._known, self._drawn, strict=True)):
            for key in drawn.keys() & known.keys():
                del drawn[key]
            log_p += [self.scale * score - float(self._log_z[b]) for score, _ in known.values()]
            rows += [row for _, row in known.values()]
            sizes.append(len(known))
            if drawn and rest[b] > _REST:
                each = math.log(rest[b] / sum(times for times, _ in drawn.values()))
                log_p += [each + math.log(times) for times, _ in drawn.values()]
                rows += [row for _, row in drawn.values()]
                sizes[-1] += len(drawn)
        owner, chances = np.repeat(np.arange(len(sizes)), sizes), np.array(log_p)
        kept = chances > _FAINT
        kept[np.cumsum([0, *sizes[:-1]])[: len(sizes)]] = True  # gold
        self.owner, self.log_p = owner[kept], chances[kept]
        self.first = np.searchsorted(self.owner, np.arange(len(sizes)))
        paid = np.array(list(compress(rows, kept)), dtype=np.float32).reshape(len(self.owner), self.n_rules)
        self.row, self.rule = np.nonzero(paid)
        self.times = paid[self.row, self.rule].astype(np.float64)


def _k_best(labels: Labels, lattices: Lattices, k: int, threads: int) -> list[tuple[int, Ids]]:
    """Find the k best labellings of each sequence by scores alone."""
    compiled = CompiledRules(labels, [], Limits().native())

    def work(low: int, high: int, stop: _native.Stop) -> list[tuple[int, Ids]]:
        part = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
        problem = Problem(compiled, part, None, first=low, many=True, stop=stop).native()
        best = problem.k_best_all(k, np.arange(high - low), stop)
        return [(low + b, np.array(path, dtype=np.int32)) for b, paths in enumerate(best) for path, *_ in paths]

    return [pair for part in in_threads(work, len(lattices), threads) for pair in part]
