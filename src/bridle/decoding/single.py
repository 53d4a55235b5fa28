"""One sequence, straight to the kernel: no batch around it, nothing in Python that is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bridle import _native
from bridle.deadline import current_stop
from bridle.decoding.problem import INFEASIBLE, LIMIT, OPTIMAL, TOO_LARGE, Answers
from bridle.decoding.relaxation import relaxed_one
from bridle.decoding.result import Decoding, penalty_of, raise_first, status_of, violations_of
from bridle.errors import BridleError
from bridle.lattice import Lattice

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder


def decode_one(decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None) -> Decoding:
    """The best labelling of one sequence, by a decoder whose engine is a kernel (`Decoder.decode`)."""
    ids = np.empty(len(lattice.unary), dtype=np.int32)
    try:
        score, bound, status, violations, counters, seconds = _native.decode_one(
            decoder._native,
            decoder._kernel,
            lattice.unary,
            lattice.pairwise,
            lattice.start,
            lattice.end,
            given,
            len(decoder._engine.counters),
            ids,
            stop=current_stop(),
        )
    except BridleError as error:
        error.sequence = None
        raise
    if status > LIMIT:
        return without_answer(decoder, lattice, given, status, bound, seconds, counters)
    violated = [] if violations is None else violations_of(decoder.rules, violations)
    return Decoding(
        ids,
        score,
        penalty_of(violated) if violated else 0.0,
        violated,
        bound,
        status == OPTIMAL,
        decoder.plan.engine,
        decoder._engine.stats(counters),
        decoder.labels,
        status_of(status),
        objective=decoder.objective,
    )


def without_answer(
    decoder: Decoder,
    lattice: Lattice,
    given: Mapping[str, Any] | None,
    status: int,
    bound: float,
    seconds: float,
    counters: Sequence[int] = (),
) -> Decoding:
    """What becomes of a sequence for which a kernel found no labelling in so many seconds."""
    if status == TOO_LARGE:
        raise decoder._engine.too_large(len(decoder.rules), None)
    if status == INFEASIBLE and decoder.on_infeasible == "relax":
        relaxed, status, bound = relaxed_one(decoder, lattice, given, seconds)
        if relaxed is not None:
            return relaxed
    answers = Answers.blank(np.array([0, len(lattice.unary)]), len(decoder.rules), len(decoder._engine.counters))
    answers.bound[0], answers.status[0], answers.seconds[0] = bound, status, seconds
    answers.counters[0, : len(counters)] = counters
    found = decoder._answered(decoder._problem(lattice, given), answers)
    raise_first(found, infeasible=decoder.on_infeasible != "skip")
    return found[0]
