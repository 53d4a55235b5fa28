"""Engines as in the papers: the counters of Tromble & Eisner (2006), tables 3 and 4 and figure 6, on the SRL-like set.

Their figures are printed beside ours for the shape only: their lattices come from a trained classifier, ours from a
seeded generator that is noisier on purpose. An arc of ours joins two labels, so that pairwise scores fit on it; without
them a lattice needs only one arc per token and label, which is where theirs begin.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import bridle
from bridle.engines import Engine, Ilp, LazyIntersection, Product
from measure import Report
from problems import SRL_NAMES, Problem, srl, viterbi

TABLE_3 = {
    "ARGUMENT CANDIDATES": 0.376,
    "NO DUPLICATE A1": 0.209,
    "NO DUPLICATE A0": 0.081,
    "NO DUPLICATE A2": 0.035,
    "AT LEAST ONE ARGUMENT": 0.025,
    "DISALLOW ARGUMENTS": 0.011,
    "NO DUPLICATE A3": 0.003,
    "NO DUPLICATE A4": 0.001,
    "NO DUPLICATE A5": 0.000,
    "KNOWN VERB POSITION": 0.000,
}
TABLE_4 = [0.550, 0.200, 0.211, 0.036, 0.002, 0.000]
MEAN_INTERSECTIONS = 0.65


def run_papers(report: Report) -> None:
    problem = srl(150 if report.quick else 1_000, seed=11)
    relaxed, product = (_decode(problem, engine) for engine in (LazyIntersection(), Product()))
    report.agree("papers", "product", [d.score for d in relaxed], [d.score for d in product])
    size = len(problem)
    violated = _violated(problem)
    for k, (d, mine) in enumerate(zip(relaxed, violated, strict=True)):
        if list(d.stats.get("violated", mine)) != mine:
            report.wrong.append(f"papers, sequence {k}: y0 breaks {mine}, told as {d.stats['violated']}")
    broken = Counter(SRL_NAMES[k] for rules in violated for k in rules)
    counts = Counter(len(rules) for rules in violated)
    paths: dict[int, list[list[int]]] = defaultdict(list)
    brute: dict[int, list[int]] = defaultdict(list)
    for a, b in zip(relaxed, product, strict=True):
        paths[a.stats["intersections"]].append(a.stats["arcs"])
        brute[a.stats["intersections"]].append(b.stats["arcs"])
    integral = {}
    for formulation, some in (("tight", 20 if report.quick else 200), ("paper", 3 if report.quick else 25)):
        part = problem.take(some)
        decodings = _decode(part, Ilp(formulation=formulation))
        report.agree("papers", f"ilp, {formulation}", [d.score for d in decodings], [d.score for d in relaxed])
        integral[formulation] = float(np.mean([d.stats["lp_integral"] for d in decodings]))
    report.data["papers"] = {
        "sequences": size,
        "violations_per_rule": {name: broken[name] / size for name in TABLE_3},
        "violations_per_sequence": {k: counts[k] / size for k in sorted(counts)},
        "mean_intersections": float(np.mean([d.stats["intersections"] for d in relaxed])),
        "arcs": {
            k: {"sequences": len(rows), "lazy_intersection": _means(rows), "product": float(np.mean(brute[k]))}
            for k, rows in sorted(paths.items())
        },
        "lp_integral": integral,
    }


def _decode(problem: Problem, engine: Engine) -> list[Any]:
    decoder = bridle.Decoder(problem.labels, rules=problem.rules, engine=engine)
    return [decoder.decode(x, given=g) for x, g in zip(problem.lattices(), problem.givens(), strict=True)]


def _violated(problem: Problem) -> list[list[int]]:
    """The rules that each plain best path breaks, by the rules' own definitions."""
    violated = []
    for lattice, given in zip(problem.lattices(), problem.givens(), strict=True):
        y = viterbi(lattice.unary, None)
        violated.append([k for k, rule in enumerate(problem.rules) if not rule.holds(y, problem.labels, given)])
    return violated


def _means(rows: list[list[int]]) -> list[float]:
    """Mean arcs before, and after each intersection."""
    width = min(len(row) for row in rows)
    return [float(np.mean([row[k] for row in rows])) for k in range(width)]


def show_papers(figures: dict[str, Any], console: Console) -> None:
    three = Table(
        "rule", "share of best paths that break it", "TE table 3", title="lazy_intersection: violations of y0 per rule"
    )
    for name, share in sorted(figures["violations_per_rule"].items(), key=lambda item: -item[1]):
        three.add_row(name, f"{share:.3f}", f"{TABLE_3[name]:.3f}")
    four = Table("rules broken by y0", "share", "TE table 4", title="lazy_intersection: violations per sequence")
    for k in range(max(len(TABLE_4), max(figures["violations_per_sequence"], default=0) + 1)):
        theirs = f"{TABLE_4[k]:.3f}" if k < len(TABLE_4) else "0.000"
        four.add_row(str(k), f"{figures['violations_per_sequence'].get(k, 0.0):.3f}", theirs)
    six = Table(
        "intersections",
        "sequences",
        "mean arcs of lazy_intersection, before and after each",
        "product",
        title="Lattice arcs (TE fig. 6)",
    )
    for k, row in figures["arcs"].items():
        arcs = " > ".join(f"{a:,.0f}" for a in row["lazy_intersection"])
        six.add_row(str(k), str(row["sequences"]), arcs, f"{row['product']:,.0f}")
    for table in (three, four, six):
        console.print(table)
    console.print(f"mean intersections: {figures['mean_intersections']:.2f} (TE: {MEAN_INTERSECTIONS})")
    for formulation, share in figures["lp_integral"].items():
        console.print(f"ilp, {formulation} rows: {share:.1%} of LPs integral")


def plot_papers(figures: dict[str, Any], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, left = plt.subplots(figsize=(7, 4.5))
    right = left.twinx()
    for k, row in figures["arcs"].items():
        right.bar(k, row["sequences"], color="tab:gray", alpha=0.25)
        line = left.plot(range(len(row["lazy_intersection"])), row["lazy_intersection"], "o-", markersize=3)[0]
        left.plot([k], [row["product"]], "x", color=line.get_color())
    left.set_yscale("log")
    left.set_xlabel("intersections (lines: lazy_intersection, x: product)")
    left.set_ylabel("mean arcs")
    right.set_ylabel("sequences (bars)")
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)
