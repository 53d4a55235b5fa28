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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.problem import Limits, Problem
from bridle.decoding.threads import in_threads
from bridle.labels import Bools, Labels
from bridle.lattice import Batch, Lattice, Lattices
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
_CHUNK = 256  # sequences that are summed at once


# ---- sums over all labellings ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Scores of sequences with the same transitions, the longest first, padded."""

    numbers: Ints  # (b,)
    lengths: Ints  # (b,)
    unary: Floats  # (T, b, m)  those of first and last labels are in it
    pairwise: Floats | None  # (m, m), or (T - 1, b, m, m)

    @classmethod
    def of(cls, numbers: Sequence[int], lattices: Sequence[Lattice]) -> _Chunk:
        lengths = np.array([len(x) for x in lattices], dtype=np.int64)
        T, m = int(lengths.max(initial=0)), lattices[0].n_labels
        unary, table = np.zeros((T, len(lattices), m)), lattices[0].pairwise
        steps = None if table is None or table.ndim == 2 else np.zeros((max(T - 1, 0), len(lattices), m, m))
        for b, lattice in enumerate(lattices):
            n = len(lattice)
            unary[:n, b] = lattice.unary
            if lattice.start is not None and n:
                unary[0, b] += lattice.start
            if lattice.end is not None and n:
                unary[n - 1, b] += lattice.end
            if steps is not None and lattice.pairwise is not None:
                steps[: n - 1, b] = lattice.pairwise
        shared = None if table is None else np.asarray(table, dtype=np.float64)
        return cls(np.asarray(numbers), lengths, unary, shared if steps is None else steps)

    def forward(self, s: float) -> tuple[Floats, Floats, Floats | None]:
        """(b,) log Z; (T, b, m) shares of the labels of prefixes; exp of transitions, scaled."""
        T, count, m = self.unary.shape
        shares, log_z = np.zeros((T, count, m)), np.zeros(count)
        transitions, tops = None, np.zeros((1, 1))
        if self.pairwise is not None:
            tops = np.maximum(self.pairwise.max(axis=(-2, -1), keepdims=True), -1e300)
            transitions = np.exp(s * (self.pairwise - tops))
        for t in range(T):
            live = int(np.searchsorted(-self.lengths, -t, side="left"))  # those with more than t tokens
            u = self.unary[t, :live]
            top = u.max(axis=1, keepdims=True)
            here = np.exp(s * (u - np.maximum(top, -1e300)))
            if t:
                before = shares[t - 1, :live]
                if transitions is None:
                    pass  # shares sum to 1
                elif transitions.ndim == 2:
                    here *= before @ transitions
                    log_z[:live] += s * float(tops[0, 0])
                else:
                    here *= np.einsum("bi,bij->bj", before, transitions[t - 1, :live])
                    log_z[:live] += s * tops[t - 1, :live, 0, 0]
            total = here.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                shares[t, :live] = np.where(total > 0, here / total, 0.0)
                log_z[:live] += s * top[:, 0] + np.log(total[:, 0])
        return log_z, shares, transitions

    def draw(self, s: float, count: int, rng: np.random.Generator) -> Ids:
        """(T, b, J): labellings drawn from p."""
        _, shares, transitions = self.forward(s)
        T, size, _ = self.unary.shape
        ids = np.zeros((T, size, count), dtype=np.int32)
        for t in range(T - 1, -1, -1):
            chance = np.repeat(shares[t][:, None, :], count, axis=1)  # (b, J, m)
            if transitions is not None and t + 1 < T:
                going = self.lengths > t + 1
                onto = ids[t + 1, going]
                step = transitions.T[onto] if transitions.ndim == 2 else np.stack(
                    [table.T[after] for table, after in zip(transitions[t, going], onto, strict=True)]
                ) if going.any() else 1.0  # fmt: skip
                chance[going] *= step
            sums = np.cumsum(chance, axis=2)
            at = rng.random((size, count, 1)) * sums[:, :, -1:]
            ids[t] = np.minimum((sums <= at).sum(axis=2), sums.shape[2] - 1)
        return ids


class Sums:
    """Sums over all labellings of each sequence, without rules."""

    def __init__(self, lattices: Lattices) -> None:
        self._count = len(lattices)
        self._chunks = list(_chunks(lattices))

    def log_z(self, s: float) -> Floats:
        """(B,): log of the sum of exp(s score)."""
        out = np.zeros(self._count)
        for chunk in self._chunks:
            out[chunk.numbers] = chunk.forward(s)[0]
        return out

    def draw(self, s: float, count: int, wanted: Bools, seed: int) -> Iterator[tuple[int, Ids]]:
        """Draw labellings of the sequences that are wanted: (count, n) for each."""
        rng = np.random.default_rng(seed)
        for chunk in self._chunks:
            if wanted[chunk.numbers].any():
                ids = chunk.draw(s, count, rng)
                for row, b in enumerate(chunk.numbers.tolist()):
                    if wanted[b]:
                        yield b, ids[: chunk.lengths[row], row].T

    def fit(self, gold: Floats) -> float:
        """Find the scale under which gold is most likely. gold (B,): the scores of gold.

        The loss is convex in the scale; it is minimised by golden sections of its logarithm.
        """
        possible = np.isfinite(gold)

        def loss(x: float) -> float:
            s = math.exp(x)
            return float((self.log_z(s) - s * gold)[possible].sum())

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


def _chunks(lattices: Lattices) -> Iterator[_Chunk]:
    """Cut sequences into chunks with the same transitions and about the same lengths."""
    groups: dict[bytes | int, list[tuple[int, Lattice]]] = {}
    for b in range(len(lattices)):
        lattice = lattices[b]
        table = lattice.pairwise
        key = b"" if table is None else 3 if table.ndim == 3 else table.tobytes()
        groups.setdefault(key, []).append((b, lattice))
    for group in groups.values():
        group.sort(key=lambda pair: -len(pair[1]))
        for low in range(0, len(group), _CHUNK):
            numbers, some = zip(*group[low : low + _CHUNK], strict=True)
            if len(some[0]):
                yield _Chunk.of(numbers, some)


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
        sums = Sums(lattices)
        scores = np.array([x.score(y) for x, y in zip(self._lattices, gold, strict=True)])
        self.scale = sums.fit(scores) if scale is None else scale
        self._log_z = sums.log_z(self.scale)
        self._add(self._known, enumerate(gold))
        self._add(self._known, _k_best(labels, lattices, k, count_of_threads(threads)))
        rest = self._rest()
        if (rest > _REST).any() and draws:
            drawn = sums.draw(self.scale, draws, rest > _REST, seed)
            self._add(self._drawn, ((b, path) for b, paths in drawn for path in paths))
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
