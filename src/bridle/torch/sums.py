"""Sums over labellings as functions that PyTorch can differentiate.

Every loss of the layer is a difference of functions F of the same scores, one value per sequence:

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
    edges: Floats  # (B, m, m)
    counts: Doubles  # (B, R)  for the penalties

    def __sub__(self, other: Term) -> Term:
        return Term(
            self.value - other.value,
            self.emissions - other.emissions,
            self.edges - other.edges,
            self.counts - other.counts,
        )

    def only(self, rows: npt.NDArray[np.bool_]) -> Term:
        """Set the others to 0, value and gradient."""
        if not rows.all():
            for array in (self.value, self.emissions, self.edges, self.counts):
                array[~rows] = 0
        return self


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
    """Scores of a batch on the host: padded emissions with transitions, and which tokens are there."""

    def __init__(
        self, emissions: Floats, mask: npt.NDArray[np.bool_] | None, transitions: Floats, start: Floats, end: Floats
    ) -> None:
        self.shape = emissions.shape
        table, first, last = (np.array(x, dtype=np.float64) for x in (transitions, start, end))
        self.batch = Batch.from_padded(emissions, mask=mask, pairwise=table, start=first, end=last)
        assert self.batch.first is not None
        self.offsets, self.lengths = self.batch.offsets, np.diff(self.batch.offsets)
        self.dtype = emissions.dtype

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
        return np.ascontiguousarray(table.reshape(-1, *table.shape[2:])[self.rows])

    def log_partition(
        self,
        decoder: Decoder,
        given: Given,
        soft: bool,
        penalties: Doubles | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
        threads: int = 1,
    ) -> Term:
        """Sum up over the labellings that obey the rules of a decoder; -inf: there is none. allowed (B, T, m)."""
        bits = None if allowed is None else as_bits(self.pack(allowed))
        wanted = _wanted(decoder, soft, penalties, allowed=bits, dtype=self.dtype)
        sums = sum_up(decoder, self.batch, given, wanted, threads)
        assert sums.marginals is not None and sums.edges is not None and sums.counts is not None
        return Term(sums.log_z, sums.marginals.reshape(self.shape), sums.edges, -sums.counts)

    def posterior(
        self, decoder: Decoder, given: Given, soft: bool, penalties: Doubles | None = None, threads: int = 1
    ) -> Posterior:
        """Compute the posterior of each sequence under the rules of a decoder."""
        wanted = _wanted(decoder, soft, penalties, dtype=self.dtype, entropy=True)
        sums = sum_up(decoder, self.batch, given, wanted, threads)
        assert sums.marginals is not None and sums.edges is not None and sums.entropy is not None
        entropy = np.where(np.isneginf(sums.log_z), 0.0, sums.entropy)
        return Posterior(sums.marginals.reshape(self.shape), sums.edges, entropy, sums.log_z)

    def path(
        self, decoder: Decoder, given: Given, soft: bool, ids: npt.NDArray[np.integer], penalties: Doubles | None = None
    ) -> Term:
        """Score a labelling of each sequence, relative as `log_partition` is; -inf: it breaks a rule. ids (N,)."""
        B, _, m = self.shape
        zero = Term(np.zeros(B), np.zeros(self.shape, self.dtype), np.zeros((B, m, m), self.dtype), np.zeros((B, 1)))
        term = self.less_path(zero, decoder, given, soft, ids, penalties)
        return Term(-term.value, -term.emissions, -term.edges, -term.counts)

    def less_path(
        self,
        whole: Term,
        decoder: Decoder,
        given: Given,
        soft: bool,
        ids: npt.NDArray[np.integer],
        penalties: Doubles | None = None,
    ) -> Term:
        """Subtract the score of a labelling, as `path` has it, from a term, whose arrays are used again."""
        B, T, m = self.shape
        problem = Problem(decoder.compiled, self.batch, given, many=True)
        hard, factors = split(decoder)
        counts, limit = np.zeros((B, len(decoder.rules))), decoder.limits.time_limit
        value = problem.native().score_paths(
            hard,
            factors if soft else [],
            np.arange(B),
            np.ascontiguousarray(ids, np.int32),
            -1.0 if limit is None else min(limit, FOREVER),
            problem.stop,
            penalties=penalties,
            counts=counts,
            marginals=whole.emissions.reshape(B * T, m),
            edges=whole.edges,
        )
        return Term(whole.value - np.asarray(value), whole.emissions, whole.edges, whole.counts + counts)

    def expected(self, q: Posterior, n_rules: int) -> Term:
        """Compute the expected score under a posterior, relative as `log_partition` is."""
        B, T, m = self.shape
        unary, (first, last) = np.zeros((B * T, m)), self.ends()
        unary[self.rows] = self.batch.unary[self.rows]
        tables = [x if x is not None else np.zeros(0) for x in (self.batch.pairwise, self.batch.start, self.batch.end)]
        here = np.arange(B)
        value = _dot(unary.reshape(B, -1), q.emissions.reshape(B, -1)) + _dot(tables[0].ravel(), q.edges.reshape(B, -1))
        value += _dot(tables[1], q.emissions[here, first]) + _dot(tables[2], q.emissions[here, last])
        tops = np.bincount(self.sequence, self.batch.unary[self.rows].max(axis=1), minlength=B)
        offset = tops + np.maximum(self.lengths - 1, 0) * tables[0].max()
        return Term(value - offset, q.emissions, q.edges, np.zeros((B, n_rules)))


def _wanted(decoder: Decoder, soft: bool, penalties: Doubles | None, **what: Any) -> Wanted:
    hard, factors = split(decoder)
    return Wanted(hard, factors if soft else (), marginals=True, edges=True, counts=True, penalties=penalties, **what)


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

Compute = Callable[[Floats, Floats, Floats, Floats, Doubles], tuple[Term, tuple[Any, Any]]]


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
    """A value per sequence, (B,), as a function of emissions (B, T, m), transitions, start, end and penalties (R,)."""

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
        scores = emissions.dtype
        inputs = to_host([x.to(scores) for x in (emissions, transitions, start, end, penalties)])
        unary, table, first_labels, last_labels, prices = (x.numpy() for x in inputs)
        term, (first, last) = compute(unary, table, first_labels, last_labels, prices.astype(np.float64))
        arrays = [term.value, term.emissions, term.edges, term.counts]
        out = to_device([torch.from_numpy(np.ascontiguousarray(x)).to(scores) for x in arrays], emissions.device)
        ctx.save_for_backward(*out[1:])
        ctx.ends = first, last
        return out[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Weigh the gradient of each sequence."""
        unary, edges, counts = ctx.saved_tensors
        here = torch.arange(len(unary), device=unary.device)
        first, last = (torch.as_tensor(x, device=unary.device) for x in ctx.ends)
        total = gradient @ edges.flatten(1)
        if unary.shape[1] == 0:
            empty = unary.new_zeros(unary.shape[2])
            return torch.zeros_like(unary), total.view(edges.shape[1:]), empty, empty, gradient @ counts, None
        ends = (gradient @ unary[here, at] for at in (first, last))
        return torch.mul(unary, gradient[:, None, None]), total.view(edges.shape[1:]), *ends, gradient @ counts, None
