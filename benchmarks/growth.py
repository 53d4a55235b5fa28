"""Growth of the time per sequence with tokens, rules and labels, under a mix of rules that people write."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bridle
from bridle import rules as r
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules import Rule
from measure import Report

LIMIT = 5.0  # seconds for one sequence; one that meets it is counted, not hidden


@dataclass(frozen=True)
class Mix:
    """Lattices around one gold labelling, and rules of which the hard ones hold in it."""

    labels: Labels
    rules: list[Rule]
    lattices: list[Lattice]


def _gold(rng: np.random.Generator, n: int, m: int) -> list[int]:
    """Common labels drift from the first to the last, as fields of a document do; rare ones occur once or twice."""
    common = max(3, 2 * m // 3)
    y: list[int] = []
    while len(y) < n:
        middle = 1 + (common - 2) * len(y) / n
        label = 0 if rng.random() < 0.25 else int(np.clip(round(rng.normal(middle, 1.5)), 1, common - 1))
        y += [label] * (1 if rng.random() < 0.3 else int(rng.integers(2, 8)))
    y = y[:n]
    for label in range(common, m):
        for _ in range(int(rng.integers(0, 3))):
            at = int(rng.integers(0, n))
            y[at : at + 2] = [label] * len(y[at : at + 2])
    return y


def _rule(rng: np.random.Generator, names: list[str], y: list[str]) -> Rule:
    """One rule of a random kind over random labels, most of them labels that occur."""
    n = len(y)
    here = sorted(set(y) - {"O"}) or names
    a, b, c = (str(rng.choice(here if rng.random() < 0.7 else names)) for _ in range(3))
    i, j = (int(rng.integers(0, n)) for _ in range(2))
    kinds = [
        lambda: r.at_most(int(rng.integers(1, 4)), of=a),
        lambda: r.before(a, b),
        lambda: r.if_present(a, then=b),
        lambda: r.followed_by(a, b),
        lambda: r.length(a, at_most=int(rng.integers(2, 9))),
        lambda: r.forbid_transition(a, b),
        lambda: r.immediately_followed_by(a, b),
        lambda: r.at_least(1, of=sorted({a, b, c})),
        lambda: r.label_at(i, y[i]) | r.label_at(j, b),
        lambda: r.label_at(i, a) >> r.present(b),
    ]
    return kinds[int(rng.integers(len(kinds)))]()


def mix(n: int, m: int, n_rules: int, count: int, seed: int = 7) -> Mix:
    """A problem of the given size; a fifth of the rules are soft, and a few of those are broken in gold."""
    rng = np.random.default_rng([seed, n, m, n_rules])
    labels = Labels(["O", *(f"T{k}" for k in range(1, m))], scheme="IO")
    gold = _gold(rng, n, m)
    named = [labels.names[k] for k in gold]
    rules: list[Rule] = []
    while len(rules) < n_rules:
        rule = _rule(rng, list(labels.names[1:]), named)
        soft = rng.random() < 0.2
        if rule not in rules and (rule.holds(gold, labels) or (soft and rng.random() < 0.1)):
            rules.append(rule.soft(round(float(rng.uniform(2, 5)), 1)) if soft else rule)
    pairwise = rng.normal(0, 0.3, (m, m)) + 0.7 * np.eye(m)
    lattices = []
    for _ in range(count):
        scores = rng.normal(0, 1.0, (n, m))
        scores[np.arange(n), gold] += 3.5
        for _ in range(max(1, n // 50)):  # a stretch that looks like another label
            at = int(rng.integers(0, n))
            scores[at : at + int(rng.integers(1, 5)), int(rng.integers(0, m))] += 4.5
        lattices.append(Lattice(scores, pairwise))
    return Mix(labels, rules, lattices)


AXES = {
    "tokens": [(n, 20, 10) for n in (50, 100, 200, 500, 1_000, 2_000, 5_000)],
    "rules": [(100, 30, k) for k in (1, 2, 5, 10, 20, 50, 100, 200)],
    "labels": [(100, m, 10) for m in (5, 10, 20, 40, 70, 100)],
}
PLACE = {"tokens": 0, "labels": 1, "rules": 2}


def exponent(x: list[float], y: list[float]) -> float:
    """The slope of a straight line through the points on log-log axes."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _timed(decoder: bridle.Decoder, lattice: Lattice) -> tuple[float, bool]:
    """Seconds, and whether the answer is proved. Automata are built when first needed: the second run is the one."""
    for again in (True, False):
        begin = time.perf_counter()
        try:
            proved = bool(decoder.decode(lattice).optimal)
        except bridle.LimitReached:
            proved = False
        took = time.perf_counter() - begin
        if again and took > LIMIT / 2:
            break
    return took, proved


def run_growth(report: Report) -> None:
    draws, count = (1, 3) if report.quick else (4, 5)  # sets of rules, lattices for each
    curves: dict[str, Any] = {}
    all_proved: list[bool] = []
    for axis, sizes in AXES.items():
        if report.quick:
            sizes = [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
        means, slowest, shares = [], [], []
        for n, m, n_rules in sizes:
            runs = []
            for draw in range(draws):
                problem = mix(n, m, n_rules, count, seed=draw)
                decoder = bridle.Decoder(problem.labels, rules=problem.rules, time_limit=LIMIT)
                runs += [_timed(decoder, lattice) for lattice in problem.lattices]
            times = [took for took, _ in runs]
            means.append(float(np.mean(times)))
            slowest.append(max(times))
            shares.append(float(np.mean([proved for _, proved in runs])))
            all_proved += [proved for _, proved in runs]
        x = [size[PLACE[axis]] for size in sizes]
        curves[axis] = {"x": x, "seconds": means, "slowest": slowest, "proved": shares, "exponent": exponent(x, means)}
        shown = ", ".join(f"{a:,}: {1e3 * s:.2f} ms" for a, s in zip(x, means, strict=True))
        report.notes.append(f"growth with {axis}: exponent {curves[axis]['exponent']:.2f} ({shown})")
    report.proved["growth"] = float(np.mean(all_proved))
    report.data["growth"] = curves


def plot_growth(curves: dict[str, Any], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    for panel, (axis, curve) in zip(panels, curves.items(), strict=True):
        x, y = np.array(curve["x"], dtype=float), np.array(curve["seconds"]) * 1e3
        slope = curve["exponent"]
        panel.loglog(x, y, "o-", label="mean")
        panel.loglog(x, np.array(curve["slowest"]) * 1e3, ".", color="tab:gray", label="slowest")
        fitted = np.exp(np.log(y).mean() + slope * (np.log(x) - np.log(x).mean()))
        panel.loglog(x, fitted, "--", label=f"~ x^{slope:.2f}")
        panel.set_xlabel(axis)
        panel.legend()
    panels[0].set_ylabel("ms per sequence (auto, one thread)")
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)
