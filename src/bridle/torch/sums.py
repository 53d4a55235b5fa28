"""Sums over labellings as functions that PyTorch can differentiate.

Every loss of the layer is a difference of functions of the same scores, one value per sequence:

    log Z(rules, allowed labels)        gradient: expected labels, label bigrams and violations
    score of a labelling                gradient: its own labels, bigrams and violations
    expected score under a posterior    gradient: that posterior's

`Term` is such a value with its gradient, in NumPy; `Difference` is the one `autograd.Function`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bridle.decoding.decoder import Decoder
from bridle.decoding.marginals import Wanted, sum_up
from bridle.decoding.problem import FOREVER, Problem
from bridle.lattice import Batch
from bridle.rules.base import Soft
from bridle.rules.compiled import as_bits

Floats = npt.NDArray[np.floating[Any]]
Doubles = npt.NDArray[np.float64]
Given = Sequence[Mapping[str, Any]] | None
UNKNOWN = -100  # the id of a label that is not known, as in torch.nn.CrossEntropyLoss


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A function of the scores at one point: its value for each sequence, and its gradient."""

    value: Doubles  # (B,)
    emissions: Floats  # (B, T, m)
    edges: Floats  # (B, m, m), or (m, m) for all sequences together
    counts: Doubles  # (B, R)  for the penalties

    def __sub__(self, other: Term) -> Term:
        return Term(
            self.value - other.value,
            self.emissions - other.emissions,
            self.edges - other.edges,
            self.counts - other.counts,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """A distribution over the labellings of a batch, by what a linear model needs of it.

    Attributes
    ----------
    emissions : array of float, shape (B, T, m)
        Probability of each label at each token.
    edges : array of float, shape (B, m, m)
        Expected number of label bigrams.
    entropy : array of float, shape (B,)
    log_z : array of float, shape (B,)
        -inf where no labelling obeys the rules.
    """

    emissions: Floats
    edges: Floats
    entropy: Doubles
    log_z: Doubles


class Scores:
    """Scores of a batch on the host: padded emissions with transitions, and which tokens are there.

    each: keep the bigrams of each sequence apart, for gradients that differ from one to the next.
    """

    def __init__(
        self,
        emissions: Floats,
        mask: npt.NDArray[np.bool_] | None,
        transitions: Floats,
        start: Floats,
        end: Floats,
        each: bool = False,
    ) -> None:
        self.shape = emissions.shape
        tables = np.concatenate([transitions, start[None], end[None]], dtype=np.float64)
        self.batch = Batch.from_padded(emissions, mask=mask, pairwise=tables[:-2], start=tables[-2], end=tables[-1])
        assert self.batch.first is not None
        self.offsets, self.lengths = self.batch.offsets, np.diff(self.batch.offsets)
        self.dtype, self.each, self.whole = emissions.dtype, each, mask is None

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each token in the padded scores, (N,)."""
        assert self.batch.first is not None
        return np.asarray(np.repeat(self.batch.first - self.offsets[:-1], self.lengths) + np.arange(self.offsets[-1]))

    @cached_property
    def sequence(self) -> npt.NDArray[np.int64]:
        """The number of the sequence of each token, (N,)."""
        return np.repeat(np.arange(self.shape[0]), self.lengths)

    def ends(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the first and the last position of each sequence, (B,); those of empty ones mean nothing."""
        assert self.batch.first is not None
        T = max(self.shape[1], 1)
        first = self.batch.first % T
        return first, np.maximum(first + self.lengths - 1, 0)

    def pack(self, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the rows of the tokens of a padded table (B, T, ...)."""
        flat = table.reshape(-1, *table.shape[2:])
        return np.ascontiguousarray(flat if self.whole else flat[self.rows])

    def log_partition(
        self,
        decoder: Decoder,
        given: Given,
        soft: bool,
        penalties: Doubles | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
        gold: npt.NDArray[np.integer] | None = None,
        keep: npt.NDArray[np.bool_] | None = None,
        threads: int = 1,
    ) -> Term:
        """Sum up over the labellings that obey the rules of a decoder; -inf: there is none. allowed (B, T, m).

        gold (N,): less the score of this labelling; inf: it breaks a rule. keep (B,): others have no gradient.
        """
        bits = None if allowed is None else as_bits(self.pack(allowed))
        ids = None if gold is None else np.ascontiguousarray(gold, np.int32)
        edges = {"edges" if self.each else "edge_sum": True}
        wanted = _wanted(decoder, soft, penalties, allowed=bits, gold=ids, keep=keep, dtype=self.dtype, **edges)
        sums = sum_up(decoder, self.batch, given, wanted, threads)
        table = sums.edges if self.each else sums.edge_sum
        assert sums.marginals is not None and table is not None and sums.counts is not None
        value = sums.log_z if sums.gold is None else sums.log_z - np.where(np.isneginf(sums.log_z), 0, sums.gold)
        return Term(value, sums.marginals.reshape(self.shape), table, -sums.counts)

    def posterior(
        self, decoder: Decoder, given: Given, soft: bool, penalties: Doubles | None = None, threads: int = 1
    ) -> Posterior:
        """Compute the posterior of each sequence under the rules of a decoder."""
        wanted = _wanted(decoder, soft, penalties, edges=True, dtype=self.dtype, entropy=True)
        sums = sum_up(decoder, self.batch, given, wanted, threads)
        assert sums.marginals is not None and sums.edges is not None and sums.entropy is not None
        entropy = np.where(np.isneginf(sums.log_z), 0.0, sums.entropy)
        return Posterior(sums.marginals.reshape(self.shape), sums.edges, entropy, sums.log_z)

    def zero(self, n_rules: int) -> Term:
        """Return a term of value 0."""
        B, _, m = self.shape
        edges = np.zeros((B, m, m) if self.each else (m, m))
        return Term(np.zeros(B), np.zeros(self.shape, self.dtype), edges, np.zeros((B, n_rules)))

    def add_path(
        self,
        term: Term,
        weight: Doubles,
        decoder: Decoder,
        given: Given,
        ids: npt.NDArray[np.integer],
        penalties: Doubles | None = None,
    ) -> None:
        """Add weight (B,) times the score of a labelling of each sequence that obeys the rules, ids (N,), to a term."""
        m, first = self.shape[2], np.zeros(len(ids), bool)
        first[self.offsets[:-1][self.lengths > 0]] = True
        here, share = np.flatnonzero(~first), weight[self.sequence]
        term.emissions.reshape(-1, m)[self.rows, ids] += share.astype(self.dtype)
        bigram = ids[here - 1].astype(np.int64) * m + ids[here]
        if self.each:
            bigram += self.sequence[here] * (m * m)
        term.edges.reshape(-1)[:] += np.bincount(bigram, share[here], minlength=term.edges.size)
        problem = Problem(decoder.compiled, self.batch, given, many=True)
        hard, factors = split(decoder)
        counts, limit = np.zeros(term.counts.shape), decoder.limits.time_limit
        value = problem.native().score_paths(
            hard,
            factors,
            np.arange(len(weight)),
            np.ascontiguousarray(ids, np.int32),
            -1.0 if limit is None else min(limit, FOREVER),
            problem.stop,
            penalties=penalties,
            counts=counts,
        )
        used = weight != 0
        term.value[used] += weight[used] * np.asarray(value)[used]
        term.counts[:] -= weight[:, None] * counts

    def expected(self, q: Posterior, n_rules: int) -> Term:
        """Compute the expected score under a posterior and its entropy, relative as `log_partition` is."""
        B, T, m = self.shape
        unary, (first, last) = np.zeros((B * T, m)), self.ends()
        unary[self.rows] = self.batch.unary[self.rows]
        tables = [x if x is not None else np.zeros(0) for x in (self.batch.pairwise, self.batch.start, self.batch.end)]
        here = np.arange(B)
        value = _dot(unary.reshape(B, -1), q.emissions.reshape(B, -1)) + _dot(tables[0].ravel(), q.edges.reshape(B, -1))
        value += _dot(tables[1], q.emissions[here, first]) + _dot(tables[2], q.emissions[here, last])
        tops = np.bincount(self.sequence, self.batch.unary[self.rows].max(axis=1), minlength=B)
        offset = tops + np.maximum(self.lengths - 1, 0) * tables[0].max()
        value += q.entropy - offset
        value[np.isneginf(q.log_z)] = -np.inf
        return Term(value, q.emissions, q.edges if self.each else q.edges.sum(axis=0), np.zeros((B, n_rules)))


def _wanted(decoder: Decoder, soft: bool, penalties: Doubles | None, **what: Any) -> Wanted:
    hard, factors = split(decoder)
    return Wanted(hard, factors if soft else (), marginals=True, counts=True, penalties=penalties, **what)


def _dot(scores: Floats, shares: Floats) -> Doubles:
    """Sum score * share over the last axis; what has no share does not count, even where it is impossible."""
    return cast(
        Doubles, np.where(shares > 0, np.where(shares > 0, scores, 0) * shares, 0).sum(axis=-1, dtype=np.float64)
    )


def split(decoder: Decoder) -> tuple[list[int], list[int]]:
    """Return the numbers of the hard and of the soft rules of a decoder."""
    soft = [k for k, rule in enumerate(decoder.rules) if isinstance(rule, Soft)]
    return [k for k in range(len(decoder.rules)) if k not in soft], soft


# ---- PyTorch --------------------------------------------------------------------------------------------------------

Compute = Callable[[Floats, Floats, Floats, Floats, Doubles], tuple[Term, tuple[Any, Any], float | None]]


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors of one type in the memory of the processor; those of another device come in one copy."""
    tensors = [tensor.detach() for tensor in tensors]
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return [tensor.contiguous() for tensor in tensors]
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).to("cpu")
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors, strict=True)]


def to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Return tensors of one type in the memory of a device, where they go in one copy."""
    if device.type == "cpu":
        return list(tensors)
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    if device.type == "cuda":
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors, strict=True)]


class Difference(torch.autograd.Function):
    """A loss as a function of emissions (B, T, m), transitions, start, end and penalties (R,).

    It is the sum over the sequences times a factor, or a value per sequence (B,) if there is no factor.
    """

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor,
        end: Tensor,
        penalties: Tensor,
        compute: Compute,
    ) -> Tensor:
        """Compute the value, and keep the gradient."""
        scores, device = emissions.dtype, emissions.device
        inputs = to_host([x.to(scores) for x in (emissions, transitions, start, end, penalties)])
        unary, table, first_labels, last_labels, prices = (x.numpy() for x in inputs)
        term, (first, last), factor = compute(unary, table, first_labels, last_labels, prices.astype(np.float64))
        B, T, m = unary.shape
        ends = [term.emissions[range(B), at] if T else np.zeros((B, m)) for at in (first, last)]
        value, parts = term.value, [*ends, term.counts]
        if factor is not None:
            value, parts = np.array(value.sum() * factor), [part.sum(axis=0, keepdims=True) for part in parts]
        tables = np.concatenate([term.edges.reshape(-1, m * m), *parts], axis=1)
        arrays = [torch.from_numpy(x).to(scores) for x in (value, term.emissions, tables)]
        out, *saved = to_device(arrays, device)
        ctx.save_for_backward(*saved)
        ctx.factor, ctx.shapes = factor, [transitions.shape, start.shape, end.shape, penalties.shape]
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Weigh the gradient of each sequence."""
        unary, tables = ctx.saved_tensors
        if ctx.factor is None:
            unary, shared = unary * gradient[:, None, None], gradient @ tables
        else:
            weight = gradient if ctx.factor == 1 else gradient * ctx.factor
            unary, shared = unary * weight, tables[0] * weight
        parts = shared.split([shape.numel() for shape in ctx.shapes])
        return unary, *(part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)), None
