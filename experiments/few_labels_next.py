"""The number of labels that are as good as 100 random ones, for `few-labels`.

Training begins with FIRST random sequences. STEP by STEP, sequences of the pool are labelled that `suggest` chooses, or
random ones, until the model does as well as the mean of five models with 100 random sequences; MOST at most. Models and
suggestions go without rules, or with them.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np

from bridle.learn import suggest
from bridle.models import CRF
from experiments.base import Run
from experiments.few_labels_data import Few

FIRST, STEP, MOST, RANDOM, TARGETS = 10, 5, 150, 100, 5
SUGGESTED, AT_RANDOM = "suggested", "random"
STRENGTH = 0.1  # c1 and c2


def labels_needed(few: Few, run: Run, sample: int, ruled: bool) -> dict[str, float]:
    """Count the labels until the target is reached; MOST if it is not."""
    data = few.read(run, few.pool, sample)
    X, y = data.few.X, data.few.y
    rules = few.rules if ruled else []
    in_pool = few.given(X)
    relaxed: dict[str, Any] = {"given": few.given(data.test.X), "on_infeasible": "relax"} if ruled else {}
    rng = np.random.default_rng(1000 + sample)

    def trained(chosen: list[int]) -> CRF:
        model = CRF(features=few.features, labels=data.labels, c1=STRENGTH, c2=STRENGTH, threads=run.threads)
        return model.fit([X[k] for k in chosen], [y[k] for k in chosen])

    def right(model: CRF) -> float:
        return few.right(data, model.predict(data.test.X, rules, threads=run.threads, **relaxed))

    def needed(choose: Callable[[CRF, list[int]], list[int]]) -> int:
        chosen = order[:FIRST]
        while right(model := trained(chosen)) < target and len(chosen) < min(MOST, len(X)):
            chosen = [*chosen, *choose(model, [k for k in order if k not in chosen])]
        return len(chosen)

    def suggested(model: CRF, rest: list[int]) -> list[int]:
        given = [in_pool[k] for k in rest] if ruled else None
        best = suggest(model, [X[k] for k in rest], STEP, rules, given=given, threads=run.threads)
        return [rest[s.index] for s in best]

    target = mean(right(trained(rng.permutation(len(X))[:RANDOM].tolist())) for _ in range(TARGETS))
    order = rng.permutation(len(X)).tolist()
    return {SUGGESTED: needed(suggested), AT_RANDOM: needed(lambda _, rest: rest[:STEP]), "target": target}
