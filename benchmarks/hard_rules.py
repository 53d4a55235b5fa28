"""Section `many`: hard rule sets, decoded by Bridle, within ten milliseconds, and by general solvers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import bridle
from bridle.decoding.problem import Problem
from bridle.engines import engine_named, solve_one
from bridle.errors import FileError
from hard_sets import Family, random_families, real_families, reference_families
from measure import TOLERANCE, Report, best_of
from solver_peers import PEERS, Run, missing

LIMIT = 10.0  # seconds that Bridle has for a sequence
SOON = 0.010  # and when it is asked for what can be found at once
Value = tuple[int, float]  # violations of hard rules, negative; score less penalties


@dataclass(frozen=True)
class Decoded:
    """One sequence as Bridle decoded it."""

    run: Run
    value: Value
    relaxed: bool


def _families(report: Report) -> Iterator[Family]:
    yield from random_families(report.quick)
    yield from reference_families(report.quick)
    if report.corpora is None:
        report.notes.append("many: no real references; they need --data DIR or BRIDLE_DATA")
        return
    try:
        yield from real_families(report.corpora, report.quick)
    except FileError as error:
        report.notes.append(f"many: no real references; {str(error).splitlines()[0]}")


def _decoder(family: Family, i: int, limit: float, **options: Any) -> bridle.Decoder:
    rule_set = family.sets[i]
    settings = {"on_infeasible": family.on_infeasible, **options}
    return bridle.Decoder(rule_set.labels, rule_set.rules, time_limit=limit, **settings)


def _decode(family: Family, report: Report) -> tuple[dict[tuple[int, int], Decoded], list[float]]:
    """Decode sequence by sequence; also return the seconds of making each decoder and its first call."""
    decoded, decoders, setup = {}, [], []
    for i, rule_set in enumerate(family.sets):
        begin = time.perf_counter()
        decoders.append(_decoder(family, i, LIMIT))
        decoders[-1].decode(rule_set.lattices[0], given=rule_set.given(0))
        setup.append(time.perf_counter() - begin)
    for i, k in family.sequences():
        rule_set = family.sets[i]
        lattice, given = rule_set.lattices[k], rule_set.given(k)
        begin = time.perf_counter()
        d = decoders[i].decode(lattice, given=given)
        took = time.perf_counter() - begin
        if not bridle.check(lattice, rule_set.rules, d, given=given).ok:
            report.wrong.append(f"many, {family.name}, set {i}, sequence {k}: the judge complains")
        ids = d.ids.tolist()
        decoded[i, k] = Decoded(Run(took, bool(d.optimal), ids), rule_set.value(k, ids), d.relaxed)
    return decoded, setup


def _better(a: Value, b: Value) -> bool:
    """Is a better than b, by more than rounding?"""
    return a[0] > b[0] or (a[0] == b[0] and a[1] > b[1] + TOLERANCE * max(1.0, abs(b[1])))


def _compare(
    family: Family, peer: str, runs: dict[tuple[int, int], Run], best: dict[tuple[int, int], Decoded], report: Report
) -> dict[tuple[int, int], Value]:
    """Check that no solver is better than what another one proved to be the best; return the answer of the peer."""
    values = {}
    for (i, k), run in runs.items():
        if run.ids is None:
            continue
        ours, theirs = best[i, k], family.sets[i].value(k, run.ids)
        values[i, k] = theirs
        if (ours.run.proved and _better(theirs, ours.value)) or (run.proved and _better(ours.value, theirs)):
            report.wrong.append(f"many, {family.name}, set {i}, sequence {k}: bridle {ours.value}, {peer} {theirs}")
    return values


def _soon(family: Family, best: dict[tuple[int, int], Value]) -> dict[str, Any]:
    """Compare answers within ten milliseconds with the best known ones."""
    decoders = [_decoder(family, i, SOON, on_infeasible="skip") for i in range(len(family.sets))]
    gaps, took, nothing = [], [], 0
    for i, decoder in enumerate(decoders):
        decoder.decode_batch([family.sets[i].lattices[0]], given=[family.sets[i].given(0)], threads=1)
    for i, k in best:
        rule_set = family.sets[i]
        begin = time.perf_counter()
        d = decoders[i].decode_batch([rule_set.lattices[k]], given=[rule_set.given(k)], threads=1)[0]
        took.append(time.perf_counter() - begin)
        if not len(d.ids):
            nothing += 1
            continue
        known = best[i, k][1]
        gaps.append(max(0.0, known - d.score) / max(1.0, abs(known)))
    return {"gaps": gaps, "nothing": nothing, "seconds": took}


def _figures(runs: list[Run]) -> dict[str, Any]:
    return {"seconds": [run.seconds for run in runs], "proved": [run.proved for run in runs]}


def _targets(family: Family, decoded: list[Decoded], report: Report) -> None:
    """Rows of the table: mean and worst time against what is wanted."""
    took = [answer.run.seconds for answer in decoded]
    for what, seconds, wanted in (("mean", float(np.mean(took)), family.mean), ("worst", max(took), family.worst)):
        if wanted is not None:
            report.within("many", f"{family.name}: {what} against {1e3 * wanted:g} ms", seconds, wanted, 1.0)
        else:
            report.notes.append(f"many, {family.name}: {what} {1e3 * seconds:.2f} ms")
    report.proved[f"many, {family.name}"] = float(np.mean([answer.run.proved for answer in decoded]))
    if family.kind == "random" or family.on_infeasible == "raise":
        return
    relaxed = [answer.run.seconds for answer in decoded if answer.relaxed]
    obeyed = [answer.run.seconds for answer in decoded if not answer.relaxed]
    if relaxed and obeyed:
        what = f"{family.name}: {len(relaxed)} of {len(decoded)} infeasible, relaxed against the others"
        report.within("many", what, float(np.mean(relaxed)), float(np.mean(obeyed)), 3.0)
    if relaxed:
        report.within("many", f"{family.name}: worst relaxed against 100 ms", max(relaxed), 0.100, 1.0)


def _kernel(decoder: bridle.Decoder, family: Family) -> Callable[[], object]:
    """The kernel of a decoder on a whole batch, when the rules have been bound to it."""
    rule_set = family.sets[0]
    problem = Problem(decoder.compiled, rule_set.lattices, rule_set.givens if decoder.rules else None)
    problem.native()
    return partial(solve_one, engine_named(decoder.plan.engine), problem)


def _beside_viterbi(family: Family, report: Report) -> None:
    """A whole batch under learned rules, and without any: the kernels, and the calls with all that is around them."""
    rule_set = family.sets[0]
    ruled, plain = bridle.Decoder(rule_set.labels, rule_set.rules), bridle.Decoder(rule_set.labels, [])
    calls = [
        partial(ruled.decode_batch, rule_set.lattices, given=rule_set.givens, threads=1),
        partial(plain.decode_batch, rule_set.lattices, threads=1),
    ]
    runs = [_kernel(ruled, family), _kernel(plain, family), *calls]
    ours, base, *whole = (took / len(family) for took in best_of(3 if report.quick else 7, *runs))
    report.within("many", f"{family.name}: kernel against plain Viterbi", ours, base, 4.0)
    times = whole[0] / whole[1]
    report.notes.append(f"many, {family.name}: a call of decode_batch takes {times:.1f} times as long as without rules")


def run_many(report: Report) -> None:
    """All families; peers on the first few sequences of each (quick: on one, where some of them may get done)."""
    absent = missing()
    report.notes += [f"{name} is not installed: hard rule sets without it" for name in absent]
    stored = report.data.setdefault("many", {"limit": LIMIT, "peer_limit": report.limit, "soon": SOON, "families": {}})
    for family in _families(report):
        decoded, setup = _decode(family, report)
        best = {at: answer.value for at, answer in decoded.items()}
        solvers = {"bridle": _figures([answer.run for answer in decoded.values()])}
        chosen = list(family.sequences())[: family.peers if not report.quick else 1 if family.peers > 1 else 0]
        for name, (_, solve) in PEERS.items():
            if name in absent or not chosen or report.limit == 0:
                continue
            runs = dict(zip(chosen, solve(family, chosen, report.limit), strict=True))
            for at, value in _compare(family, name, runs, decoded, report).items():
                best[at] = max(best[at], value)
            solvers[name] = _figures(list(runs.values()))
        _targets(family, list(decoded.values()), report)
        if family.kind != "random" and family.on_infeasible == "raise":
            _beside_viterbi(family, report)
        figures: dict[str, Any] = {"rules": len(family.sets[0].rules), "setup": setup, "solvers": solvers}
        if family.on_infeasible == "raise":
            figures["soon"] = soon = _soon(family, best)
            gaps = 100 * np.array(soon["gaps"] or [np.nan])
            report.notes.append(
                f"many, {family.name}: after {1e3 * SOON:g} ms {gaps.mean():.2f} % below the best known, "
                f"worst {gaps.max():.2f} % (wanted: 1 %), nothing found {soon['nothing']} times"
            )
        stored["families"][family.name] = figures
