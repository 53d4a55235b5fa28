"""Costs of a call: one sequence at a time, as services and notebooks decode, against the same sequences as a batch.

The sequences are like those of semantic role labelling: 19 tokens on average, 7 labels. Static rules are the same for
all of them; the given ones are about the verb, its frame and the candidate spans of each.
"""

from __future__ import annotations

from functools import partial

import bridle
from bridle.lattice import Lattice
from measure import Report, best_of
from problems import Problem, srl

OVERHEAD = 25e-6  # seconds of a call beyond the kernel, without rules


def run_latency(report: Report) -> None:
    """Single calls under no rules, static rules, given rules and all; and a batch with infeasible sequences."""
    problem, repeats = srl(200 if report.quick else 1_000, seed=21), 5 if report.quick else 15
    static = [rule for rule in problem.rules if "given" not in str(rule)]
    bound = [rule for rule in problem.rules if "given" in str(rule)]
    given = f"{len(bound)} given rules"
    sets = [("static rules", static, 3.0), (given, bound, 6.0), ("all rules", problem.rules, None)]
    plain, kernel = _seconds(problem, [], repeats)
    report.within("latency", "no rules: a call beyond the kernel, against 25 us", plain[0] - kernel, OVERHEAD, 1.0)
    for name, rules, target in sets:
        (single, batch), _ = _seconds(problem, rules, repeats)
        report.within("latency", f"{name}: a call against its share of a batch", single, batch, target)
    _infeasible(report, repeats)


def _seconds(problem: Problem, rules: list[bridle.rules.Rule], repeats: int) -> tuple[tuple[float, float], float]:
    """Per sequence: a call of `decode` and a list in `decode_batch`; and the kernel, by a packed batch."""
    decoder = bridle.Decoder(problem.labels, rules, on_infeasible="skip")
    given = problem.givens() if decoder.required_inputs else None
    lattices = [Lattice(x.unary, x.pairwise) for x in problem.lattices()]

    def one_by_one() -> None:
        for k, lattice in enumerate(lattices):
            decoder.decode(lattice, None if given is None else given[k])

    whole = partial(decoder.decode_batch, given=given, threads=1)
    single, listed, packed = best_of(repeats, one_by_one, lambda: whole(lattices), lambda: whole(problem.batch))
    return (single / len(lattices), listed / len(lattices)), packed / len(lattices)


def _infeasible(report: Report, repeats: int) -> None:
    """10,000 sequences of which ten have no labelling under the rules."""
    count = 1_000 if report.quick else 10_000
    problem = srl(count, seed=22)
    rules = [*problem.rules, bridle.rules.fix("A0", bridle.rules.given("extra"))]
    fine = [{**given, "extra": []} for given in problem.givens()]
    bad = [{**given, "extra": [given["verb"]]} if k % (count // 10) == 7 else given for k, given in enumerate(fine)]
    decoder = bridle.Decoder(problem.labels, rules, on_infeasible="skip")
    without, ten = decoder.decode_batch(problem.batch, fine), decoder.decode_batch(problem.batch, bad)
    if len(ten.unanswered) != len(without.unanswered) + 10:
        report.wrong.append(f"latency: {len(ten.unanswered)} sequences without an answer")
    runs = [partial(decoder.decode_batch, problem.batch, given, threads=1) for given in (bad, fine)]
    ours, base = best_of(repeats, *runs)
    report.within("latency", f"{count:,} sequences, ten infeasible, against none", ours / count, base / count, 1.2)
