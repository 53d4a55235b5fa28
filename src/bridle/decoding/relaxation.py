"""When hard rules clash: the labelling that violates them the fewest times; of those, the one that scores best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.result import penalty_of, violations_of
from bridle.errors import Infeasible
from bridle.lattice import LARGEST, Lattice
from bridle.rules.base import Rule, Soft

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

Relaxed = tuple[npt.NDArray[np.int32], float, float, bool, list[int]]  # ids, score, bound, optimal, violations


def relaxed(decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None) -> Relaxed | None:
    """The fewest violations of hard rules; None if the lattice has no path at all."""
    # Dearer than all that scores and soft rules can make up for: a rule counts at most n + 1 violations per automaton.
    most = sum(rule.penalty for rule in decoder.rules if isinstance(rule, Soft)) * (len(lattice) + 1)
    most *= max(1, len(decoder.labels))  # automata of a rule about each label by itself
    dear = min(1.0 + _range(lattice) + most, LARGEST)
    rules: list[Rule] = [rule if isinstance(rule, Soft) else rule.soft(dear, per="violation") for rule in decoder.rules]
    try:
        found = decoder.with_rules(rules, engine="search", on_infeasible="raise").decode(lattice, given)
    except Infeasible:
        return None
    counts = [rule.violations(found.ids, decoder.labels, given) for rule in decoder.rules]
    score = lattice.score(found.ids) - penalty_of(violations_of(decoder.rules, counts))
    # Beside such a price small differences of scores are lost; then nothing is proved but that no rule raises a score.
    rounding = np.finfo(np.float64).eps * dear * (len(lattice) + 1) * (1 + sum(counts))
    if found.optimal and rounding <= 1e-9 * max(1.0, abs(score)):
        return found.ids, score, score, True, counts
    free = decoder.with_rules([], engine="viterbi", on_infeasible="raise").decode(lattice).score
    return found.ids, score, max(free, score), False, counts


def _range(lattice: Lattice) -> float:
    """No two labellings of finite score are further apart."""

    def spread(scores: Any) -> float:
        if scores is None or scores.size == 0:
            return 0.0
        finite = np.where(np.isfinite(scores), scores, np.nan)
        with np.errstate(all="ignore"):
            return float(np.nanmax(finite) - np.nanmin(finite)) if np.isfinite(scores).any() else 0.0

    n = len(lattice)
    return (
        sum(spread(row) for row in lattice.unary)
        + n * spread(lattice.pairwise)
        + spread(lattice.start)
        + spread(lattice.end)
    )
