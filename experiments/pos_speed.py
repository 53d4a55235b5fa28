"""Speed of the taggers of the recipe `pos`, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bridle.learn import ConstrainedTagger

X = list[dict[str, list[str]]]
Y = list[list[str]]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Measured:
    """A tagger on the test set. Seconds are processor time in one thread, the best of several runs."""

    accuracy: float  # percent
    whole: float  # seconds of predict
    lookup: float = 0.0  # texts to numbers
    rules: float = 0.0  # contexts looked up and compared
    encode: float = 0.0  # features of undecided tokens

    @property
    def search(self) -> float:
        """Seconds of the rest: scores, beam search and lists of labels."""
        return max(self.whole - self.lookup - self.rules - self.encode, 1e-9)


def seconds_of(jobs: Mapping[Key, Callable[[], object]], rounds: int) -> dict[Key, float]:
    """The best processor time of each job. They take turns, since a shared machine has fast and slow moments."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for key, work in jobs.items():
            begun = time.process_time()
            work()
            best[key] = min(best[key], time.process_time() - begun)
    return best


def measure(
    taggers: dict[str, dict[int, ConstrainedTagger]], xs: X, ys: Y, rounds: int
) -> dict[str, dict[int, Measured]]:
    """Accuracy, and where the time goes: each step of predict separately; search is what is left."""
    jobs: dict[tuple[str, int, str], Callable[[], object]] = {}
    for name, by in taggers.items():
        for width, tagger in by.items():
            jobs |= {(name, width, step): job for step, job in _steps(tagger, xs).items()}
    best = seconds_of(jobs, rounds)
    return {
        name: {
            width: Measured(
                100 * tagger.score(xs, ys),
                *(best.get((name, width, step), 0.0) for step in ("whole", "lookup", "rules", "encode")),
            )
            for width, tagger in by.items()
        }
        for name, by in taggers.items()
    }


def _steps(tagger: ConstrainedTagger, xs: X) -> dict[str, Callable[[], object]]:
    features, rules = tagger.features_, tagger.rules_
    prepared = features.prepare(xs)
    jobs: dict[str, Callable[[], object]] = {
        "whole": lambda: tagger.predict(xs, threads=1),
        "lookup": lambda: features.prepare(xs),
    }
    if rules is None:
        return jobs | {"encode": lambda: features.encode_prepared(prepared)}
    ours = rules.features_.prepare(xs)
    left = rules.agreed(ours) < 0
    return jobs | {
        "rules": lambda: rules.agreed(ours),
        "encode": lambda: features.encode_prepared(prepared, left),
    }
