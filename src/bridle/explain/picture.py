"""An explanation as a trellis to draw: tokens, labels, how good each is, both paths, and what the rules changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from bridle.errors import LabelError, shown
from bridle.explain.why import Explanation
from bridle.explain.words import price
from bridle.lattice import Scores
from bridle.report.layout import Note, Trellis


def tokens_of(told: Explanation, tokens: Sequence[str] | None) -> list[str]:
    """The tokens: as passed, as given to the rules, or their positions."""
    n = len(told.best)
    found = tokens if tokens is not None else (told.given or {}).get("tokens")
    if found is None:
        return [str(t) for t in range(n)]
    if isinstance(found, str) or len(found) != n:
        raise LabelError(
            "tokens do not fit the labelling",
            got=shown(found) if isinstance(found, str) else len(found),
            wanted=f"a list of {n} texts",
            cause="Pass one text per position. Do the tokens belong to another sequence?",
        )
    return [str(token) for token in found]


def trellis_of(
    told: Explanation, tokens: Sequence[str] | None = None, *, k: int = 5, gold: Sequence[str] | None = None
) -> Trellis:
    """What there is to draw. k: alternatives whose labels are to be seen."""
    sure = told.probabilities()
    shade = _scaled(np.asarray(told.lattice.unary, dtype=np.float64)) if sure is None else sure
    notes = [
        Note(str(effect.rule), f"{_broken(effect.broken_by_plain)}price {price(effect)}", effect.at)
        for effect in told.effects
    ]
    return Trellis(
        tokens=tokens_of(told, tokens),
        labels=told.decoder.labels,
        shade=shade.tolist(),
        plain=told.plain.ids.tolist(),
        best=told.best.ids.tolist(),
        others=[d.ids.tolist() for d in told.alternatives(k)],
        notes=notes,
        gold=None if gold is None else list(gold),
        tell=partial(_told, told),
        means="how good by its own score" if sure is None else "how probable without rules",
    )


def _broken(times: int) -> str:
    return f"broken {times}x without rules, " if times else ""


def _scaled(unary: Scores) -> Scores:
    """(n, m) from 0 to 1: each position's own scores as probabilities."""
    top = np.max(unary, axis=1, keepdims=True, initial=-np.inf)
    raised = np.exp(unary - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(raised / np.maximum(raised.sum(axis=1, keepdims=True), 1e-300), dtype=np.float64)


def _told(told: Explanation, t: int, y: int) -> str:
    """The text on hover. Without hover, nobody waits for the probabilities under the rules."""
    score, sure = told.lattice.unary[t, y], told.probabilities()
    under = told.probabilities("rules") if told.decoder.rules else None
    parts = [f"score {score:.4f}" if np.isfinite(score) else "impossible"]
    parts += [] if sure is None else [f"{sure[t, y]:.1%} without rules"]
    parts += [] if under is None else [f"{under[t, y]:.1%} with rules"]
    return ", ".join(parts)
