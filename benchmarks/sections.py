"""One function per input set: decode it, let the peers decode it, compare."""

from __future__ import annotations

import importlib.util
import os
import time
from functools import partial
from typing import Any

import numpy as np

import bridle
from bridle.engines import Ilp
from cp_sat_peer import solve_apart
from fst_peer import pynini_relax
from measure import Report, best_of, peer_seconds
from peers import highs_compact, highs_pruned, highs_rows
from plain_search import expansions
from problems import Problem, bioes, chunk, hard, softened, srl, viterbi


def _decode(problem: Problem, threads: int = 1, **options: Any) -> Any:
    """From labels and rules to answers: what a peer's building and solving is compared with."""
    decoder = bridle.Decoder(problem.labels, rules=problem.rules, **options)
    return decoder.decode_batch(problem.batch, given=problem.given, threads=threads)


def _ilp(problem: Problem, formulation: Any) -> tuple[float, list[float]]:
    """Our own builder with HiGHS, sequence by sequence."""
    decoder = bridle.Decoder(problem.labels, rules=problem.rules, engine=Ilp(formulation=formulation))
    pairs = list(zip(problem.lattices(), problem.givens(), strict=True))
    decoder.decode(pairs[0][0], given=pairs[0][1])
    begin = time.perf_counter()
    scores = [decoder.decode(lattice, given=given).score for lattice, given in pairs]
    return (time.perf_counter() - begin) / len(pairs), scores


def _cp_sat(problem: Problem, model: str) -> tuple[float, list[float]]:
    unaries = [x.unary for x in problem.lattices()]
    times, answers = solve_apart(model, unaries, problem.batch.pairwise, list(problem.facts))
    return float(np.mean(times)), [score for score, _ in answers]


def _installed(report: Report, module: str) -> bool:
    is_installed = importlib.util.find_spec(module) is not None
    if not is_installed:
        report.notes.append(f"{module} is not installed: compared with less")
    return is_installed


def run_srl(report: Report) -> None:
    """The ten rules of Roth & Yih on lattices of a local classifier."""
    quick = report.quick
    problem = srl(1_000 if quick else 4_000)
    plain = [viterbi(x.unary, None) for x in problem.take(500).lattices()]
    broken = [
        any(not rule.holds(y, problem.labels, given) for rule in problem.rules)
        for y, given in zip(plain, problem.givens(), strict=False)
    ]
    share = float(np.mean(broken))
    report.notes.append(f"srl: {share:.0%} of plain best paths break a rule (wanted: 50-80 %)")
    if not 0.5 <= share <= 0.8:
        report.wrong.append(f"srl: {share:.0%} of plain best paths break a rule")

    answers = _decode(problem)
    report.obeys(problem, answers)
    scores = [d.score for d in answers]
    ours = best_of(3 if quick else 7, lambda: _decode(problem))[0] / len(problem)

    some, few = problem.take(20 if quick else 100), problem.take(3 if quick else 25)
    models = {
        "every rule a row": partial(peer_seconds, highs_rows, few if quick else some),
        "edges pruned, LP first": partial(peer_seconds, highs_pruned, some, 3),
        "bridle's ilp engine": partial(_ilp, some, "tight"),
    }
    times = {}
    for name, run in models.items():
        times[name], optima = run()
        report.agree("srl", f"HiGHS ({name})", scores, optima)
    report.faster("srl", "HiGHS, tight rows: every rule a row", ours, times["every rule a row"], 4_000)
    fastest = min(times, key=lambda name: times[name])
    report.faster("srl", f"HiGHS, tight rows: fastest ({fastest})", ours, times[fastest], 1_000)
    took, optima = peer_seconds(highs_compact, some, 3)
    report.agree("srl", "HiGHS (no edges)", scores, optima)
    report.faster("srl", "HiGHS, no edges at all (no paper's rows)", ours, took)
    took, optima = _ilp(few, "paper")
    report.agree("srl", "HiGHS (paper)", scores, optima)
    report.faster("srl", "HiGHS, the paper's rows", ours, took, 5_000)
    if _installed(report, "ortools"):
        took, optima = _cp_sat(some, "nodes")  # edges were four times slower when measured
        report.agree("srl", "CP-SAT", scores, optima)
        report.faster("srl", "CP-SAT", ours, took, 300)
    if _installed(report, "pywrapfst"):
        part = problem.take(200 if quick else 1_000)
        took, optima = peer_seconds(pynini_relax, part, 3)
        report.agree("srl", "Pynini", scores, optima)
        report.faster("srl", "Pynini, Tromble & Eisner's relaxation", ours, took, 40)

    soft = softened(problem)
    penalised = _decode(soft)
    report.obeys(soft, penalised)
    report.data["srl_soft_penalised"] = float(np.mean([d.penalty > 0 for d in penalised]))
    decoders = [bridle.Decoder(p.labels, rules=p.rules) for p in (problem, soft)]
    runs = [partial(d.decode_batch, problem.batch, given=problem.given, threads=1) for d in decoders]
    of_hard, of_soft = best_of(5 if quick else 9, *runs)
    report.within("srl", "soft rules against hard ones", of_soft / len(problem), of_hard / len(problem), 1.5)

    many = problem.tiled(5)
    runs = [partial(decoders[0].decode_batch, many.batch, given=many.given, threads=k) for k in (1, 2)]
    single, double = best_of(3 if quick else 7, *runs)
    enough = (os.cpu_count() or 1) > 1
    report.faster("srl", "two threads against one", double / len(many), single / len(many), 1.7 if enough else None)


def run_hard(report: Report) -> None:
    """At most one segment of each of 13 labels, noisy scores."""
    quick = report.quick
    problem = hard(40 if quick else 200)
    cap = 100_000 if quick else 400_000
    plain = [expansions(x, cap) for x in problem.take(2 if quick else 12).lattices()]
    mean = float(np.mean([count for count, _ in plain]))
    report.notes.append(f"hard: plain best-first expands {mean:,.0f} states on average (stopped at {cap:,})")
    if not quick and mean < 100_000:
        report.wrong.append(f"hard: plain best-first needs only {mean:,.0f} expansions; the set is too easy")

    answers = _decode(problem)
    report.obeys(problem, answers, count=len(problem))
    scores = [d.score for d in answers]
    for k, (_, best) in enumerate(plain):
        if best is not None:
            report.agree("hard", "plain best-first", scores[k : k + 1], [best])
    report.data["hard_expansions"] = [d.stats.get("expansions", 0) for d in answers]
    ours = best_of(2 if quick else 3, lambda: _decode(problem))[0] / len(problem)

    some = problem.take(3 if quick else 20)
    models = {
        "every rule a row": partial(peer_seconds, highs_rows, some.take(2 if quick else 10)),
        "LP first": partial(peer_seconds, highs_pruned, some),
        "bridle's ilp engine": partial(_ilp, some.take(2 if quick else 10), "tight"),
    }
    times = {}
    for name, run in models.items():
        times[name], optima = run()
        report.agree("hard", f"HiGHS ({name})", scores, optima)
        report.data.setdefault("hard_highs_seconds", {})[name] = times[name]
    fastest = min(times, key=lambda name: times[name])
    report.faster("hard", f"HiGHS, tight rows: fastest ({fastest})", ours, times[fastest], 2_000)

    decoder = bridle.Decoder(problem.labels, rules=problem.rules)
    lattices = problem.lattices()
    alone = [best_of(3, partial(decoder.decode, x))[0] for x in lattices]
    report.data["hard_seconds"] = alone
    report.faster("hard", f"slowest of {len(alone)} against HiGHS's mean", max(alone), times[fastest], 20)


def run_chunk(report: Report) -> None:
    """Nothing violated: what rules cost when they do not bite."""
    problem = chunk(500 if report.quick else 2_000).tiled(2)
    plain = bridle.Decoder(problem.labels, rules=[])
    ruled = bridle.Decoder(problem.labels, rules=problem.rules)
    answers = ruled.decode_batch(problem.batch, threads=1)
    report.obeys(problem, answers)
    report.agree(
        "chunk",
        "plain Viterbi",
        [d.score for d in answers],
        [d.score for d in plain.decode_batch(problem.batch, threads=1)],
    )
    runs = [partial(d.decode_batch, problem.batch, threads=1) for d in (ruled, plain)]
    ours, base = best_of(7 if report.quick else 15, *runs)
    report.within("chunk", "six rules against plain Viterbi", ours / len(problem), base / len(problem), 1.3)


def run_bioes(report: Report) -> None:
    """One sequence of 128,000 tokens under the scheme's own grammar."""
    problem = bioes(32_000 if report.quick else 128_000)
    lattice = problem.batch[0]
    decoder = bridle.Decoder(problem.labels, rules=problem.rules)
    answer = decoder.decode(lattice)
    report.obeys(problem, [answer])
    ours = best_of(5, lambda: decoder.decode(lattice))[0]
    step, first, last = (np.where(x, 0.0, -np.inf) for x in problem.labels.allowed)
    unary = np.asarray(lattice.unary)
    base = best_of(2, lambda: viterbi(unary, step, first, last))[0]
    report.agree("bioes", "NumPy", [answer.score], [lattice.score(viterbi(unary, step, first, last))])
    report.faster("bioes", f"vectorised NumPy Viterbi, {len(lattice):,} tokens", ours, base, 60)
    if importlib.util.find_spec("torchcrf") is not None:
        took = _pytorch_crf(unary, problem)
        report.faster("bioes", "pytorch-crf", ours, took, 20)


def _pytorch_crf(unary: Any, problem: Problem) -> float:
    """Forbidden transitions get a large negative score, as its maintainers advise."""
    import torch
    import torchcrf

    torch.set_num_threads(1)
    step, first, last = (torch.tensor(np.where(x, 0.0, -1e4)).float() for x in problem.labels.allowed)
    layer = torchcrf.CRF(len(problem.labels), batch_first=True)
    layer.transitions.data, layer.start_transitions.data, layer.end_transitions.data = step, first, last
    scores = torch.tensor(unary).float()[None]
    with torch.no_grad():
        return best_of(1, lambda: layer.decode(scores))[0]
