"""How a batch comes out: the answers of its parts put together, and sequences without an answer dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.problem import INFEASIBLE, LIMIT, RELAXED, Answers, Problem
from bridle.decoding.relaxation import relax_infeasible
from bridle.decoding.result import Decoding, Decodings, Unanswered, status_of
from bridle.lattice import Batch

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder


@dataclass(frozen=True, slots=True)
class Part:
    """The answers to some sequences of a batch."""

    answers: Answers
    sizes: npt.NDArray[np.int64]  # (B,)  tokens of each sequence
    unanswered: dict[int, Unanswered]  # by number in the whole batch
    relaxed: dict[int, dict[str, Any]]  # likewise: what was counted
    grid: tuple[int, npt.NDArray[np.int64]] | None  # of padded sequences: T, and where each begins

    @classmethod
    def of(cls, decoder: Decoder, problem: Problem, answers: Answers) -> Part:
        """Answers to a problem, with what is needed to say why there is none; relaxed if that is asked for."""
        relaxed = {}
        if decoder.on_infeasible == "relax" and (answers.status == INFEASIBLE).any():
            relaxed = relax_infeasible(problem, decoder.limits, answers)
        unanswered = {}
        for b in np.flatnonzero((answers.status > LIMIT) & (answers.status != RELAXED)).tolist():
            status, bound = status_of(int(answers.status[b])), float(answers.bound[b])
            lattice, given, limit = problem.lattices[b], problem.all_given(b), decoder.limits.time_limit
            left = None if limit is None or problem.many else max(0.0, limit - float(answers.seconds[b]))
            unanswered[problem.first + b] = Unanswered(decoder, lattice, given, status, bound, left)
        grid, lattices = None, problem.lattices
        if isinstance(lattices, Batch) and lattices.first is not None and lattices.length is not None:
            grid = lattices.length, lattices.first % max(lattices.length, 1)
        relaxed = {problem.first + b: told for b, told in relaxed.items()}
        return cls(answers, np.diff(problem.offsets), unanswered, relaxed, grid)


def collected(decoder: Decoder, parts: Sequence[Part]) -> Decodings:
    """All parts as one; sequences without an answer are dealt with as `on_infeasible` says."""
    sizes = parts[0].sizes if len(parts) == 1 else np.concatenate([part.sizes for part in parts])
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    unanswered = {b: one for part in parts for b, one in part.unanswered.items()}
    grids = [part.grid for part in parts if part.grid is not None]
    grid = (grids[0][0], np.concatenate([begin for _, begin in grids])) if grids else None
    answers = parts[0].answers if len(parts) == 1 else Answers.joined([part.answers for part in parts])
    relaxed = {b: told for part in parts for b, told in part.relaxed.items()}
    out = Decodings(decoder, answers, offsets, unanswered, relaxed, grid)
    if unanswered and decoder.on_infeasible == "raise":
        b, one = min(unanswered.items())
        error = one.error
        error.decodings, error.sequence = out, b if len(out) > 1 else None
        raise error
    return out


def only(found: Decodings, decoder: Decoder) -> Decoding:
    """The decoding of a single sequence; unless it may be skipped, it has labels."""
    if found.unanswered and decoder.on_infeasible != "skip":
        raise found.unanswered[0].error
    return found[0]
