"""ConstrainedCRF: a linear-chain CRF over the scores of a network, exact under rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bridle.decoding.decoder import Decoder
from bridle.errors import BridleError, EngineError, Infeasible, LabelError, LatticeError
from bridle.lattice import Batch
from bridle.rules.base import Soft
from bridle.torch.base import RuledLayer
from bridle.torch.sums import UNKNOWN, Difference, Given, Posterior, Scores, Term, split

Reduction = Literal["none", "sum", "mean", "token_mean"]
Prices = npt.NDArray[np.float64] | None
Outcome = tuple[Term, npt.NDArray[np.bool_]]  # a loss, and the sequences that it is of
Cost = Callable[[npt.NDArray[np.int32], npt.NDArray[np.int64]], npt.ArrayLike]


class ConstrainedCRF(RuledLayer):
    """A linear-chain conditional random field whose likelihood, losses and decoding know rules, exactly.

    ``p(y | rules) ~ exp(score(y) - penalties of the soft rules that y violates)`` over the labellings that obey the
    hard rules, with ``score(y) = start[y0] + sum emissions[t, yt] + sum transitions[y(t-1), yt] + end[y(n-1)]``. The
    grammar of the tagging scheme always holds. Names of parameters and methods are those of ``torchcrf.CRF``.

    Parameters
    ----------
    labels : Labels, iterable of str, or int
        The labels, in the order of the last axis of the emissions; a number stands for labels without names.
    rules : iterable of Rule or str
        Hard and soft rules. The penalty of a soft rule is where learning it begins.
    batch_first : bool, default False
        Are emissions (batch, tokens, labels)? Otherwise they are (tokens, batch, labels), as in ``torchcrf.CRF``.
    learn_penalties : bool, default True
        Are the penalties of soft rules learned, too? They stay positive.
    on_infeasible : {"raise", "skip"}, default "raise"
        What to do in a loss with a sequence whose gold labels break a hard rule: raise `Infeasible`, which names the
        sequence and the rules, or leave it out of the loss and count it in `skipped`.
    threads : int, default 1
        Number of threads of each call; 0 means all cores.
    time_limit, max_memory : optional
        Limits per sequence, as in `Decoder`.

    Attributes
    ----------
    transitions, start_transitions, end_transitions : Parameter
        Scores of label bigrams (m, m), of first and of last labels (m,).
    raw_penalties : Parameter
        The penalties of the soft rules, in the order of `rules`, before softplus.
    skipped : int
        Sequences that losses have left out.

    Examples
    --------
    >>> import torch
    >>> from bridle.torch import ConstrainedCRF
    >>> crf = ConstrainedCRF(["O", "B-X", "I-X"], ["at most 1 segment of X"], batch_first=True)
    >>> emissions = torch.tensor([[[0.0, 1.0, 0.5], [0.0, 0.5, 1.0], [1.0, 2.0, 0.0]]], requires_grad=True)
    >>> loss = crf.nll(emissions, torch.tensor([[1, 2, 0]]))
    >>> loss.backward()
    >>> crf.decode(emissions)
    [[1, 2, 0]]
    """

    # ---- losses -----------------------------------------------------------------------------------------------------

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: Reduction = "sum",
        given: Given = None,
    ) -> Tensor:
        """Compute the log-likelihood of labels, as ``torchcrf.CRF`` does: minus `nll`, summed over the batch.

        Parameters
        ----------
        emissions, tags, mask, reduction, given
            As in `nll`.

        Returns
        -------
        Tensor
        """
        return -self.nll(emissions, tags, mask, given=given, reduction=reduction)

    @torch.compiler.disable
    def nll(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        given: Given = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Compute -log p(labels | the hard rules hold), with soft rules as factors.

        Parameters
        ----------
        emissions : Tensor, shape (T, B, m), or (B, T, m) with ``batch_first``
            Scores of the network, before any softmax; half precision is taken as float32.
        tags : Tensor of int, shape (T, B) or (B, T)
            Label ids; -100: not known. Or flags with an axis of labels more: the labels that are allowed. Losses of
            sequences that are not wholly known are -log p(allowed labels).
        mask : Tensor, shape (T, B) or (B, T), optional
            1 for tokens, 0 for padding on either side. Sequences without tokens do not count.
        given : list of dict, optional
            What the rules refer to, one dict per sequence, as in `Decoder.decode_batch`.
        reduction : {"mean", "sum", "token_mean", "none"}, default "mean"
            Average over sequences or over tokens, sum, or one value per sequence.

        Returns
        -------
        Tensor
            A scalar, or (B,) without reduction, where sequences that were left out are 0.

        Raises
        ------
        Infeasible
            If the gold labels of a sequence break a hard rule and ``on_infeasible="raise"``.
        LatticeError
            If a score of a token is NaN, or shapes do not fit.
        """
        known = Tags(self, tags, emissions)

        def compute(scores: Scores, prices: Prices) -> Outcome:
            ids = known.ids(scores)
            if not len(ids) or ids.min() >= 0:
                term = scores.log_partition(self._decoder, given, True, prices, gold=ids, threads=self.threads)
                return term, self._kept(scores, term.value, known, given)
            allowed = np.ones(scores.shape, bool)
            allowed.reshape(-1, self.num_tags)[scores.rows] = known.packed(scores)
            part = scores.log_partition(self._decoder, given, True, prices, allowed, threads=self.threads)
            keep = self._kept(scores, part.value, known, given)
            return scores.log_partition(
                self._decoder, given, True, prices, keep=keep, threads=self.threads
            ) - part, keep

        return self._loss(emissions, mask, given, compute, reduction)

    @torch.compiler.disable
    def violation(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        rule: int | None = None,
        given: Given = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Compute -log P(all hard rules hold) under the model without rules: the semantic loss, exactly.

        Parameters
        ----------
        emissions, mask, given, reduction
            As in `nll`.
        rule : int, optional
            The number of a rule in `rules`, hard or soft: only this rule.

        Returns
        -------
        Tensor
        """
        if rule is None:
            decoder = self._decoder
        else:
            if rule not in self._alone:
                chosen = self.rules[rule]
                hard = chosen.rule if isinstance(chosen, Soft) else chosen
                self._alone[rule] = self._grammar.with_rules([*self._grammar.rules, hard])
            decoder = self._alone[rule]

        def compute(scores: Scores, _prices: Prices) -> Outcome:
            part = self._aligned(scores.log_partition(decoder, given, False, threads=self.threads))
            keep = self._kept(scores, part.value, None, given)
            return self._whole(scores, keep) - part, keep

        return self._loss(emissions, mask, given, compute, reduction)

    def posterior_of(self, emissions: Tensor, mask: Tensor | None = None, *, given: Given = None) -> Posterior:
        """Compute the posterior of each sequence under all rules, with soft rules as factors; no gradient.

        Parameters
        ----------
        emissions, mask, given
            As in `nll`.

        Returns
        -------
        Posterior
            A target for `posterior`.
        """
        scores, prices = self._scores(emissions, mask)
        return scores.posterior(self._decoder, given, True, prices, self.threads)

    @torch.compiler.disable
    def posterior(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        target: Posterior | None = None,
        given: Given = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Compute KL(q || p) of the model without rules to a posterior q under the rules: posterior regularisation.

        Parameters
        ----------
        emissions, mask, given, reduction
            As in `nll`.
        target : Posterior, optional
            q, which is held fixed. By default that of these emissions, as in the E-step of posterior regularisation.

        Returns
        -------
        Tensor
        """
        q = self.posterior_of(emissions, mask, given=given) if target is None else target

        def compute(scores: Scores, _prices: Prices) -> Outcome:
            goal = scores.expected(q, len(self._decoder.rules))
            keep = self._kept(scores, goal.value, None, given)
            return self._whole(scores, keep) - goal, keep

        return self._loss(emissions, mask, given, compute, reduction)

    @torch.compiler.disable
    def margin(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        cost: float = 1.0,
        given: Given = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Compute the structured hinge loss: the best score with `cost` for each wrong label, less that of gold.

        Parameters
        ----------
        emissions, tags, mask, given, reduction
            As in `nll`; of labels that are not known, the best ones count as gold.
        cost : float, default 1.0
            What each wrong label adds to the score of its labelling.

        Returns
        -------
        Tensor
        """
        known = Tags(self, tags, emissions)

        def compute(scores: Scores, prices: Prices) -> Outcome:
            decoder = self._with_penalties(prices)
            allowed = known.packed(scores)
            wrong = np.where(allowed.any(axis=1, keepdims=True), ~allowed, False)
            rival, answered = _best(decoder, scores, wrong * cost, given)
            gold, feasible = _best(decoder, scores, np.where(allowed, 0.0, -np.inf), given)
            keep = self._kept(scores, np.where(feasible, 0.0, -np.inf), known, given) & answered
            term, weight = scores.zero(len(self._decoder.rules)), keep.astype(np.float64)
            scores.add_path(term, weight, self._decoder, given, rival, prices)
            scores.add_path(term, -weight, self._decoder, given, gold, prices)
            missed = wrong[np.arange(len(rival)), rival]
            term.value[:] += cost * np.bincount(scores.sequence, missed, minlength=len(keep))
            return term, keep

        return self._loss(emissions, mask, given, compute, reduction)

    @torch.compiler.disable
    def expected_cost(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        cost: Cost | None = None,
        n: int = 16,
        seed: int = 0,
        given: Given = None,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Estimate the expected cost (risk) of labellings under the rules, from exact samples.

        The value is the mean cost of the samples of each sequence; its gradient is that of
        ``mean of (cost - mean of the other costs) * log p(sample)``, which is unbiased.

        Parameters
        ----------
        emissions, tags, mask, given, reduction
            As in `nll`. Labels that are not known cost nothing.
        cost : callable, optional
            ``cost(sampled, gold)`` gives the cost of each of n labellings (n, tokens) of a sequence, (n,); by default
            the number of wrong labels.
        n : int, default 16
            Number of samples of each sequence, 2 or more.
        seed : int, default 0
            Seed of the random number generator; change it from step to step.

        Returns
        -------
        Tensor
        """
        if n < 2:
            raise EngineError("`n` must be 2 or more: samples are compared with each other", got=n)
        known = Tags(self, tags, emissions)

        def compute(scores: Scores, prices: Prices) -> Outcome:
            decoder = self._with_penalties(prices)
            drawn = decoder.sample(scores.batch, n, given, self.threads, seed=seed, soft="factor")
            gold, B = known.ids(scores), len(drawn)
            costs = np.zeros((n, B))
            for b, (low, high) in enumerate(
                zip(scores.offsets[:-1].tolist(), scores.offsets[1:].tolist(), strict=True)
            ):
                y = gold[low:high]
                if len(drawn[b]) and cost is not None:
                    costs[:, b] = np.asarray(cost(drawn[b], y), dtype=np.float64)
                elif len(drawn[b]):
                    costs[:, b] = ((drawn[b] != y) & (y >= 0)).sum(axis=1)
            feasible = np.array([len(ids) > 0 for ids in drawn])
            keep = self._kept(scores, np.where(feasible, 0.0, -np.inf), None, given)
            term = scores.zero(len(self._decoder.rules))
            weight = (costs - costs.mean(axis=0)) / (n - 1) * keep  # less the mean of the others, over n
            for k in range(n):  # the weights of a sequence add up to 0, and so do those of log Z
                ids = [
                    y[k] if len(y) else np.zeros(size, np.int32) for y, size in zip(drawn, scores.lengths, strict=True)
                ]
                scores.add_path(term, weight[k], self._decoder, given, np.concatenate(ids), prices)
            term.value[:] = costs.mean(axis=0)
            return term, keep

        return self._loss(emissions, mask, given, compute, reduction)

    def _whole(self, scores: Scores, keep: npt.NDArray[np.bool_]) -> Term:
        """Sum up over all labellings of the scheme's grammar."""
        return self._aligned(scores.log_partition(self._grammar, None, False, keep=keep, threads=self.threads))

    def _aligned(self, term: Term) -> Term:
        """Return a term of other rules, none of which has a learned penalty, as one of the layer's rules."""
        return replace(term, counts=np.zeros((len(term.value), len(self._decoder.rules))))

    def _loss(
        self,
        emissions: Tensor,
        mask: Tensor | None,
        given: Given,
        of: Callable[[Scores, Prices], Outcome],
        reduction: Reduction,
    ) -> Tensor:
        if reduction not in ("none", "sum", "mean", "token_mean"):
            raise EngineError(
                "unknown `reduction`", got=repr(reduction), wanted="'mean', 'sum', 'token_mean' or 'none'"
            )
        grid, flags = self._padded(emissions, mask)
        if given is not None and len(given) != len(grid):
            raise LatticeError("`given` does not fit the batch", got=len(given), wanted=f"{len(grid)} dicts")
        numbers = split(self._decoder)[1]

        def compute(
            u: Any, transitions: Any, start: Any, end: Any, soft: Any
        ) -> tuple[Term, tuple[Any, Any], float | None]:
            scores = Scores(u, flags, transitions, start, end, each=reduction == "none")
            term, keep = of(scores, self._prices(soft))
            if not keep.all():
                for array in (term.value, term.emissions, term.counts, *([term.edges] if scores.each else [])):
                    array[~keep] = 0
            factor = None if scores.each else 1.0
            if reduction == "mean":
                factor = 1 / max(1, int(np.count_nonzero(keep)))
            elif reduction == "token_mean":
                factor = 1 / max(1, int(scores.lengths[keep].sum()))
            counts = term.counts[:, numbers] if numbers else np.zeros((len(keep), 0))
            return Term(term.value, term.emissions, term.edges, counts), scores.ends(), factor

        tables = self.transitions, self.start_transitions, self.end_transitions
        penalties = self.penalties if numbers else self.raw_penalties
        value: Tensor = Difference.apply(grid, *tables, penalties, compute)
        return value

    def _kept(
        self, scores: Scores, value: npt.NDArray[np.float64], tags: Tags | None, given: Given
    ) -> npt.NDArray[np.bool_]:
        """Return which sequences have tokens and a finite value; raise for, or count, the others."""
        there, fine = scores.lengths > 0, np.isfinite(value)
        for b in np.flatnonzero(there & ~fine).tolist():
            if self.on_infeasible == "raise":
                raise self._blame(scores, b, tags, given)
            self.skipped += 1
        return np.asarray(there & fine)

    def _blame(self, scores: Scores, b: int, tags: Tags | None, given: Given) -> BridleError:
        """Make the error for a sequence whose loss is infinite."""
        cause = 'Correct the labels or the rules, or leave such sequences out with on_infeasible="skip".'
        values = {} if given is None else given[b]
        if tags is None or np.isneginf(self._decoder.log_partition(scores.batch.part(b, b + 1), [values])[0]):
            return Infeasible(
                "no labelling of a sequence obeys the hard rules",
                got=", ".join(str(rule) for rule in self._decoder.rules if not isinstance(rule, Soft)) or None,
                cause='Leave such sequences out with on_infeasible="skip".',
                sequence=b,
            )
        ids = tags.ids(scores)[scores.offsets[b] : scores.offsets[b + 1]]
        hard = [rule for rule in self._decoder.rules if not isinstance(rule, Soft)]
        broken = [rule for rule in hard if (ids >= 0).all() and rule.violations(ids.tolist(), self.labels, values)]
        return Infeasible(
            "the labels of a sequence break hard rules" if broken else "the labels of a sequence are impossible",
            clash=broken,
            got="; ".join(map(str, broken)) or None,
            wanted="labels that obey all hard rules and have no score of -inf",
            cause=cause,
            sequence=b,
        )


class Tags:
    """Gold labels of a batch: ids, some of which may be unknown, or flags of the labels that are allowed."""

    def __init__(self, crf: ConstrainedCRF, tags: Tensor, emissions: Tensor) -> None:
        self._crf, self._m = crf, crf.num_tags
        flags = tags.ndim == 3
        wanted = tuple(emissions.shape) if flags else tuple(emissions.shape[:2])
        if tuple(tags.shape) != wanted:
            raise LatticeError("tags do not fit the emissions", got=tuple(tags.shape), wanted=wanted)
        if tags.is_floating_point():
            raise LatticeError("tags are not ids", got=str(tags.dtype), wanted="integers, or flags per label")
        table = (tags if crf.batch_first else tags.transpose(0, 1)).detach().cpu().numpy()
        self.flags: npt.NDArray[np.bool_] | None = table != 0 if flags else None
        self.table: npt.NDArray[Any] | None = None if flags else table

    def ids(self, scores: Scores) -> npt.NDArray[np.int64]:
        """Return the ids of the tokens end to end, (N,); -100: not known."""
        if self.flags is not None:
            flags = scores.pack(self.flags)
            return np.where(flags.sum(axis=1) == 1, flags.argmax(axis=1), UNKNOWN)
        assert self.table is not None
        y = scores.pack(self.table).astype(np.int64)
        if len(y) == 0 or (y.min() >= 0 and y.max() < self._m):
            return y
        bad = np.flatnonzero((y != UNKNOWN) & ((y < 0) | (y >= self._m)))
        if len(bad):
            raise LabelError(
                "a tag is not the id of a label",
                got=int(y[bad[0]]),
                wanted=f"0 .. {self._m - 1}, or {UNKNOWN}: not known",
                sequence=int(scores.sequence[bad[0]]),
            )
        return y

    def packed(self, scores: Scores) -> npt.NDArray[np.bool_]:
        """Return flags of the labels that are allowed, (N, m)."""
        if self.flags is not None:
            return scores.pack(self.flags)
        y = self.ids(scores)
        return np.asarray((y[:, None] == np.arange(self._m)) | (y[:, None] == UNKNOWN), dtype=bool)


def _best(
    decoder: Decoder, scores: Scores, more: npt.NDArray[np.floating[Any]], given: Given
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Find the best labellings with additions (N, m) to the scores; ids (N,), and which sequences have one."""
    batch = scores.batch
    unary = batch.unary[scores.rows] + more
    decodings = decoder.decode_batch(Batch(unary, scores.offsets, batch.pairwise, batch.start, batch.end), given, 1)
    return np.maximum(decodings.ids, 0), np.asarray(decodings.answered)
