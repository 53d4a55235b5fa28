"""Probabilities of segments, one labelling at a time: the routes, which compute them by blocks, must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bridle import Decoder, Lattice
from bridle.decoding.marginals import probabilities
from bridle.decoding.problem import Problem
from bridle.decoding.result import infeasible_on
from bridle.labels import Segment


def segment_probabilities(
    decoder: Decoder,
    lattice: Lattice,
    labels: Sequence[str],
    segments: Sequence[Segment],
    given: Mapping[str, Any] | None = None,
) -> list[float]:
    """Compute the probability of segments of one labelling, given that all hard rules hold: these very labels there."""
    first, end = (np.array(ends, dtype=np.int32) for ends in ([s.start for s in segments], [s.end for s in segments]))
    ids, rows = decoder.labels.ids(labels).astype(np.int32), np.zeros(1, dtype=np.int64)
    problem = Problem.of_one(decoder.compiled, lattice, given)
    result = probabilities(problem, ids, rows, segments=(first, end), seconds=decoder.limits.time_limit)
    for error in result.errors.values():
        raise error
    if result.log_z[0] == -np.inf:
        raise infeasible_on(decoder, lattice, given)
    return [float(p) for p in result.segments]
