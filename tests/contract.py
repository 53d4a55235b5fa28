"""The contract that every engine keeps, checked against plain enumeration on one random problem at a time.

`examine(seed)` returns complaints; no complaint, no mismatch. test_contract.py and soak.py run it over many seeds.
A tally, if one is passed, counts what the problems were like and which engines answered: agreement says nothing
about what never occurred.
"""

from __future__ import annotations

import math
import pickle
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import bridle
from bridle.decoding.marginals import Wanted, sum_up
from bridle.decoding.problem import Problem
from bridle.engines import Engine, Search, engine_named
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules import at_most
from bridle.rules.base import Rule, Soft
from bridle.rules.references import RuleContext
from strategies import labellings, random_problem, random_rule, random_soft

Path = tuple[int, ...]


@dataclass(eq=False)
class Oracle:
    """All labellings of a problem: lattice score, what soft rules cost, is every hard rule obeyed."""

    rows: list[tuple[Path, float, float, bool]]
    broken: dict[Path, list[int]]  # how often each rule is violated

    @classmethod
    def of(cls, labels: Labels, rules: list[Rule], lattice: Lattice, given: dict[str, object]) -> Oracle:
        rows, broken = list[tuple[Path, float, float, bool]](), dict[Path, list[int]]()
        paths = list(labellings(len(lattice), len(labels)))
        for path, score in zip(paths, scores_of(lattice, paths), strict=True):
            if score == -math.inf:
                continue
            context = RuleContext(path, labels, given)
            counts = broken[path] = [rule.count_violations(context) for rule in rules]
            both = list(zip(rules, counts, strict=True))
            cost = sum(rule.cost(count) for rule, count in both if isinstance(rule, Soft))
            rows.append((path, score, cost, not any(count for rule, count in both if not isinstance(rule, Soft))))
        return cls(rows, broken)

    @cached_property
    def ranked(self) -> list[tuple[float, Path]]:
        """Labellings that obey the hard rules, best first."""
        return sorted(((score - cost, path) for path, score, cost, fine in self.rows if fine), reverse=True)

    def two_stage(self, tau: float) -> tuple[float, float] | None:
        """(least penalty within tau of the best score, the highest score with it)"""
        fine = [(score, cost) for _, score, cost, ok in self.rows if ok]
        if not fine:
            return None
        best = max(score for score, _ in fine)
        near = [(round(cost, 9), -score) for score, cost in fine if score >= best - (1 - tau) * abs(best) - 1e-9]
        cost, score = min(near)
        return cost, -score


def scores_of(lattice: Lattice, paths: list[Path]) -> list[float]:
    """The scores of all labellings, at once."""
    y, n = np.array(paths, dtype=np.int64).reshape(len(paths), len(lattice)), len(lattice)
    total = lattice.unary.astype(np.float64)[np.arange(n), y].sum(axis=1)
    if n and lattice.start is not None:
        total += lattice.start[y[:, 0]]
    if n and lattice.end is not None:
        total += lattice.end[y[:, -1]]
    if n > 1 and lattice.pairwise is not None:
        tables = np.broadcast_to(lattice.pairwise, (n - 1, *lattice.pairwise.shape[-2:]))
        total += tables[np.arange(n - 1), y[:, :-1], y[:, 1:]].sum(axis=1, dtype=np.float64)
    return [float(score) for score in total]


def close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))


def mode_of(rule: Rule) -> str:
    return f"soft per {rule.per}" if isinstance(rule, Soft) else "hard"


def kind_of(rule: Rule) -> str:
    return type(rule.rule if isinstance(rule, Soft) else rule).__name__


def count_problem(tally: Counter[str], rules: list[Rule], lattice: Lattice, oracle: Oracle) -> None:
    """The shape of a problem."""
    scores = [score for score, _ in oracle.ranked[:2]]
    parts = [x for x in (lattice.unary, lattice.pairwise, lattice.start, lattice.end) if x is not None]
    modes = {mode_of(rule) for rule in rules}
    plain = max((score for _, score, _, _ in oracle.rows), default=0.0)
    obeys = max((row for row in oracle.rows if row[3]), key=lambda row: row[1], default=None)  # soft rules left out
    bites = obeys is not None and obeys[1] - obeys[2] < scores[0]
    tally.update(f"{kind_of(rule)} {mode_of(rule)}" for rule in rules)
    tally.update(
        name
        for name, true in {
            f"n={len(lattice)}": True,
            "infeasible": bool(oracle.rows) and not oracle.ranked,
            "no path": not oracle.rows,
            "tie": len(scores) == 2 and scores[0] == scores[1],
            "-inf": any(np.isneginf(x).any() for x in parts),
            "hard and soft": "hard" in modes and len(modes) > 1,
            "hard rules bite": obeys is not None and obeys[1] < plain,
            "soft rules bite": bites,
            "soft rules per sequence bite": bites and "soft per violation" not in modes,
            "pays": bool(oracle.ranked) and min(cost for _, _, cost, fine in oracle.rows if fine) > 0,
            "float32": lattice.unary.dtype == np.float32,
            "pairwise per step": lattice.pairwise is not None and lattice.pairwise.ndim == 3,
        }.items()
        if true
    )


def engine_of(name: str, **options: object) -> str | Engine:
    return name if name == "auto" else engine_named(name, **options)


def may_refuse(engine: str, labels: Labels, rules: list[Rule]) -> bool:
    """May an engine say that it does not take such rules?"""
    if engine == "viterbi":
        return bridle.Decoder(labels, rules).plan.engine != "viterbi"
    return engine == "lazy_intersection" and any(isinstance(rule, Soft) and rule.per == "violation" for rule in rules)


def examine(seed: int, *, ilp: bool = True, tally: Counter[str] | None = None) -> list[str]:
    """All complaints about one random problem."""
    rng = np.random.default_rng([20, seed])
    n_max, n_rules = int(rng.choice([4, 5, 6])), int(rng.choice([0, 1, 2, 2, 3, 4]))
    labels, rules, lattice, given = random_problem(rng, n_max, n_rules=n_rules, depth=2)
    if rng.random() < 0.3:  # all that `lazy_intersection` takes
        rules = [rule.rule.soft(rule.penalty) if isinstance(rule, Soft) else rule for rule in rules]
    oracle = Oracle.of(labels, rules, lattice, given)
    tally = Counter() if tally is None else tally
    count_problem(tally, rules, lattice, oracle)
    complaints: list[str] = []

    def complain(text: str) -> None:
        complaints.append(f"seed {seed}: {text}; rules {[str(rule) for rule in rules]}, n={len(lattice)}, {labels}")

    def ask(engine: str, **options: object) -> bridle.Decoding | None:
        """A decoding that the judge accepts; None if the engine says infeasible, or does not take it, and is right."""
        name = " ".join([engine, *map(str, options.values())])
        try:
            d = bridle.Decoder(labels, rules, engine_of(engine, **options)).decode(lattice, given)
        except bridle.Infeasible as error:
            tally[f"{engine} infeasible"] += 1
            if oracle.ranked:
                complain(f"{name} says infeasible, but {oracle.ranked[0]} is not")
            elif engine == "search":
                result = examine_clash(error, labels, rules, lattice, given)
                complaints.extend(f"seed {seed}: {text}" for text in result)
            return None
        except bridle.LimitReached as error:
            tally[f"{engine} found nothing"] += 1
            if engine != "beam" or (oracle.ranked and error.bound < oracle.ranked[0][0] - 1e-9):
                complain(f"{name}: {error}")
            return None
        except bridle.EngineError as error:
            tally[f"{engine} refused"] += 1
            if not may_refuse(engine, labels, rules):
                complain(f"{name}: {error}")
            return None
        tally[f"{engine} answered"] += 1
        verdict = bridle.check(lattice, rules, d, given)
        if not verdict.ok:
            complain(f"{name}: {verdict.complaints}")
        if d.labels != [labels.names[y] for y in d.ids] or d.relaxed:
            complain(f"{name}: labels {d.labels}, ids {d.ids}, relaxed={d.relaxed}")
        if not oracle.ranked:
            complain(f"{name} found {d.labels}, but nothing obeys the rules")
            return None
        return d

    exact = [
        ("search", {}),
        ("search", {"max_product_states": int(rng.choice([1, 3]))}),
        ("search", {"max_product_states": 1, "max_group_states": int(rng.choice([1, 4])), "decompose_after": 0}),
        ("product", {}),
        ("lazy_intersection", {}),
        ("viterbi", {}),
        ("auto", {}),
    ]
    if ilp:
        exact += [("ilp", {"formulation": "tight"}), ("ilp", {"formulation": "paper"})]
    for engine, options in exact:
        d = ask(engine, **options)
        if d is not None and not (d.optimal and close(d.score, best := oracle.ranked[0][0]) and close(d.bound, best)):
            complain(f"{engine} {options} found {d} ({d.labels}), optimum {oracle.ranked[0]}")
    d = ask("beam", width=2)
    if d is not None and not d.score - 1e-9 <= oracle.ranked[0][0] <= d.bound + 1e-9:
        complain(f"beam: score {d.score}, bound {d.bound}, optimum {oracle.ranked[0][0]}")
    if d is not None and d.optimal != close(d.score, d.bound):
        complain(f"beam: score {d.score}, bound {d.bound}, optimal={d.optimal}")
    tau = float(rng.choice([1.0, 0.9, 0.5, 0.0]))
    for stage in ("native", "ilp") if ilp else ("native",):
        d = ask("two_stage", tau=tau, stage=stage)
        wanted = oracle.two_stage(tau)
        if d is not None and wanted is not None:
            got = (d.penalty, d.score + d.penalty)
            if not (d.optimal and d.objective == "two_stage" and all(map(close, got, wanted))):
                complain(f"two_stage {stage} tau={tau}: penalty and score {got}, wanted {wanted}, optimal={d.optimal}")
    if seed % 3 == 0:
        tally["travelled"] += 1
        complaints.extend(f"seed {seed}: {text}" for text in examine_outcomes(labels, rules, lattice, given, oracle))
    if oracle.ranked:
        complaints.extend(f"seed {seed}: {text}" for text in examine_k_best(labels, rules, lattice, given, oracle, rng))
        complaints.extend(f"seed {seed}: {text}" for text in examine_sums(labels, rules, lattice, given, oracle))
        complaints.extend(f"seed {seed}: {text}" for text in examine_limits(labels, rules, lattice, given, oracle, rng))
    return complaints


def examine_outcomes(labels, rules, lattice, given, oracle):  # type: ignore[no-untyped-def]
    """A batch has a status per sequence; decoder, scores and decodings are the same after a journey."""
    decoder, lattice = travelled(bridle.Decoder(labels, rules, on_infeasible="skip")), travelled(lattice)
    decodings = travelled(decoder.decode_batch([lattice] * 2, [given] * 2, threads=1))
    engine = decoder.plan.engine
    decoding, wanted = travelled(decoder.decode(lattice, given)), "optimal" if oracle.ranked else "infeasible"
    if decodings.status.tolist() != [wanted] * 2 or decoding.status != wanted:
        got = f"{decodings.status.tolist()} and {decoding.status}"
        yield f"{engine}: status {got}, wanted {wanted}; {[str(r) for r in rules]}"
    if oracle.ranked and not all(close(score, oracle.ranked[0][0]) for score in (*decodings.scores, decoding.score)):
        got = [*decodings.scores.tolist(), decoding.score]
        yield f"{engine}: scores {got}, wanted {oracle.ranked[0]}; {[str(r) for r in rules]}"
    if not oracle.ranked:
        if decodings.labels != [[], []] or decoding.labels or (decodings.ids >= 0).any() or decodings.answered.any():
            yield f"{engine}: labels {decodings.labels} where nothing obeys the rules; {[str(r) for r in rules]}"
        if 1 not in decodings.unanswered:
            return
        error = decodings.unanswered[1].error
        yield from examine_clash(error, labels, rules, lattice, given)
        if (
            travelled(error).clash != error.clash
            or str(travelled(error)) != str(error)
            or decodings[0].clash != error.clash
        ):
            yield f"{engine}: the clash {error.clash} became {travelled(error).clash}"


def travelled(value: Any) -> Any:
    """Send a value through another process and back."""
    return pickle.loads(pickle.dumps(value))


def examine_k_best(labels, rules, lattice, given, oracle, rng):  # type: ignore[no-untyped-def]
    """Sorted, distinct, complete."""
    k = int(rng.choice([1, 2, 5, 10_000]))
    engine = Search(max_product_states=int(rng.choice([1, 2, 3, 64])))
    best = bridle.Decoder(labels, rules, engine).k_best(lattice, k, given)
    wanted = oracle.ranked[:k]
    if [round(d.score, 6) for d in best] != [round(score, 6) for score, _ in wanted]:
        yield f"k_best({k}): {[d.score for d in best]}, wanted {[s for s, _ in wanted]}; {[str(r) for r in rules]}"
    known = {path: score for score, path in oracle.ranked}
    if any(not close(known.get(tuple(d.ids.tolist()), math.nan), d.score) for d in best):
        yield f"k_best({k}) has labellings with a score that is not theirs; {[str(r) for r in rules]}"
    if len({tuple(d.ids.tolist()) for d in best}) != len(best):
        yield f"k_best({k}) repeats itself; {[str(r) for r in rules]}"
    for d in best:
        if complaints := bridle.check(lattice, rules, d, given).complaints:
            yield f"k_best({k}): {complaints}"


def examine_sums(labels, rules, lattice, given, oracle):  # type: ignore[no-untyped-def]
    """Everything that is summed up is a sum over all labellings."""
    decoder, n, m = bridle.Decoder(labels, rules), len(lattice), len(labels)
    about = f"; {[str(r) for r in rules]}"
    for soft in ("ignore", "factor"):
        weights = {path: math.exp(score - (cost if soft == "factor" else 0)) for path, score, cost, _ in oracle.rows}
        fine = {path: weights[path] for path, _, _, ok in oracle.rows if ok}
        z = sum(fine.values())
        table, edges, counts = np.zeros((n, m)), np.zeros((max(n - 1, 0), m, m)), np.zeros(len(rules))
        for path, weight in fine.items():
            table[np.arange(n), path] += weight / z
            for t in range(n - 1):
                edges[t, path[t], path[t + 1]] += weight / z
            for k, rule in enumerate(rules):
                if isinstance(rule, Soft) and soft == "factor":
                    broken = oracle.broken[path][k]
                    counts[k] += weight / z * (broken if rule.per == "violation" else broken > 0)
        if not np.allclose(decoder.marginals(lattice, given, soft=soft), table, atol=1e-9):
            yield f"marginals differ{about}"
        factors = [k for k, rule in enumerate(rules) if isinstance(rule, Soft)] if soft == "factor" else []
        hard = [k for k, rule in enumerate(rules) if not isinstance(rule, Soft)]
        what = {"marginals": True, "edges": True, "counts": True, "entropy": True, "samples": 2}
        sums = sum_up(decoder, [lattice] * 3, [given] * 3, Wanted(hard, factors, **what))
        entropy = -sum(w / z * math.log(w / z) for w in fine.values())
        if not np.allclose(sums.log_partition, math.log(z), rtol=1e-12, atol=1e-9):
            yield f"log Z {sums.log_partition}, wanted {math.log(z)}, soft={soft}{about}"
        if not np.allclose(sums.marginals, np.concatenate([table] * 3), atol=1e-9):
            yield f"marginals of a batch differ, soft={soft}{about}"
        if not np.allclose(sums.edges, edges.sum(axis=0), atol=1e-9):
            yield f"bigrams differ, soft={soft}{about}"
        if not np.allclose(sums.counts, counts, atol=1e-9):
            yield f"violations {sums.counts[0]}, wanted {counts}{about}"
        if not np.allclose(sums.entropy, entropy, atol=1e-9):
            yield f"entropy {sums.entropy}, wanted {entropy}, soft={soft}{about}"
        drawn = [tuple(path) for path in sums.samples.reshape(-1, n).tolist()] if n else []
        if any(path not in fine for path in drawn):
            yield f"samples {drawn} break a rule, soft={soft}{about}"
        whole, probability = sum(weights.values()), decoder.probability(lattice, given, soft=soft)
        if not close(probability.all, z / whole):
            yield f"P(all) = {probability.all}, wanted {z / whole}, soft={soft}{about}"
        for k, (rule, p) in enumerate(probability.each):
            held = sum(w for path, w in weights.items() if oracle.broken[path][k] == 0)
            if not close(p, held / whole):
                yield f"P({rule}) = {p}, wanted {held / whole}, soft={soft}{about}"
    steps = np.zeros((n, m, m))
    problem = Problem.of_one(decoder.compiled, lattice, given)
    problem.native().sums(hard, factors, np.zeros(1, np.int64), -1.0, problem.stop, steps=steps)
    if n and not np.allclose(steps[1:], edges, atol=1e-9):
        yield f"bigrams of positions differ{about}"


def examine_limits(labels, rules, lattice, given, oracle, rng):  # type: ignore[no-untyped-def]
    """Stopped or not, the bound is true and the labelling, if any, obeys the rules."""
    engine = str(rng.choice(["search", "lazy_intersection", "beam"]))
    limits = {"time_limit": 0.0} if rng.random() < 0.5 else {"max_states": 1}
    try:
        d = bridle.Decoder(labels, rules, engine, **limits).decode(lattice, given)
    except bridle.LimitReached as error:
        if error.bound < oracle.ranked[0][0] - 1e-9:
            yield f"{engine} {limits}: bound {error.bound} below {oracle.ranked[0]}"
        return
    except bridle.Infeasible as error:
        yield f"{engine} {limits}: {error}, but {oracle.ranked[0]} is not"
        return
    except bridle.EngineError:
        return
    if d.bound < oracle.ranked[0][0] - 1e-9 or (d.optimal and not close(d.score, oracle.ranked[0][0])):
        yield f"{engine} {limits}: {d}, optimum {oracle.ranked[0]}; {[str(r) for r in rules]}"
    if complaints := bridle.check(lattice, rules, d, given).complaints:
        yield f"{engine} {limits}: {complaints}"


def examine_clash(error, labels, rules, lattice, given):  # type: ignore[no-untyped-def]
    """A clashing set is infeasible, and no longer if any one rule is left out; relaxing breaks the fewest."""
    rows = Oracle.of(labels, [], lattice, given).rows
    if not rows:
        if error.clash:
            yield f"the lattice is empty, but {error.clash} are blamed"
        return

    def feasible(some: list[Rule]) -> bool:
        return any(
            all(rule.count_violations(RuleContext(path, labels, given)) == 0 for rule in some) for path, *_ in rows
        )

    clash = list(error.clash)
    if feasible(clash):
        yield f"no clash: {[str(r) for r in clash]}"
    for k in range(len(clash)):
        if not feasible(clash[:k] + clash[k + 1 :]):
            yield f"not minimal: {[str(r) for r in clash]}"
    yield from examine_relaxed(labels, rules, lattice, given, [path for path, *_ in rows])


def examine_relaxed(labels, rules, lattice, given, paths):  # type: ignore[no-untyped-def]
    """The fewest violations of hard rules, then the best score; both are proved, or bounded if a limit came first."""

    def judged(path: Path) -> tuple[int, float]:
        context = RuleContext(path, labels, given)
        hard = sum(rule.count_violations(context) for rule in rules if not isinstance(rule, Soft))
        soft = sum(rule.cost(rule.count_violations(context)) for rule in rules if isinstance(rule, Soft))
        return hard, soft - lattice.score(path)

    fewest, loss = min(map(judged, paths))
    sentences = [str(rule) for rule in rules]
    small = Search(max_product_states=1, max_group_states=2, decompose_after=0)
    for engine, seconds in [("auto", None), (small, None), ("auto", 0.0), (small, 0.0)]:
        decoder = bridle.Decoder(labels, rules, engine, on_infeasible="relax", time_limit=seconds)
        try:
            decoding, many = decoder.decode(lattice, given), decoder.decode_batch([lattice] * 2, [given] * 2, threads=1)
        except bridle.LimitReached:
            if seconds is None:
                yield f"relaxed: nothing found; {sentences}"
            continue
        for d in (decoding, *many) if seconds is None else (decoding,):
            mine, low = judged(tuple(d.ids.tolist())), d.stats.get("hard_violations_bound", 0)
            if seconds is None and not (d.relaxed and d.optimal and mine[0] == fewest and close(mine[1], loss)):
                yield f"relaxed {mine}, optimal={d.optimal}, wanted {(fewest, loss)}; {sentences}"
            if not low <= fewest <= mine[0] or d.stats["hard_violations"] != mine[0] or not close(d.score, -mine[1]):
                yield f"relaxed {mine} says {d.stats} and {d.score}, fewest violations {fewest}; {sentences}"
            if mine[0] == fewest and d.bound < -loss - 1e-9:
                yield f"relaxed: bound {d.bound} below {-loss}; {sentences}"
            if complaints := bridle.check(lattice, rules, d, given).complaints:
                yield f"relaxed: {complaints}"


def examine_medium(seed: int, *, tally: Counter[str] | None = None) -> list[str]:
    """Too large to enumerate: `search`, folding much or little, against `product`, which intersects everything."""
    rng = np.random.default_rng([21, seed])
    n, m = int(rng.integers(8, 30)), int(rng.integers(3, 7))
    scheme = [None, "IO"][int(rng.integers(2))]
    labels = Labels([f"L{y}" for y in range(m)], scheme)  # type: ignore[arg-type]
    given: dict[str, object] = {}
    kinds = ["AtMost", "AtLeast", "Exactly", "NoDuplicates", "Before", "IfPresent", "FollowedBy", "Length", "SameLabel"]
    rules: list[Rule] = []
    for _ in range(int(rng.integers(2, 7))):
        rule, _ = random_rule(rng, labels, n, given, 0, str(rng.choice(kinds)))
        rules.append(random_soft(rng, rule) if rng.random() < 0.4 else rule)
    pairwise = None if rng.random() < 0.3 else rng.normal(size=(m, m) if rng.random() < 0.7 else (n - 1, m, m))
    lattice = Lattice(rng.normal(size=(n, m)) * 2, pairwise)
    tally = Counter() if tally is None else tally
    scores = {}
    for name, options in [
        ("product", {}),
        ("search", {}),
        ("search", {"max_product_states": 1}),
        ("search", {"max_product_states": 8}),
        ("search", {"max_product_states": 1, "max_group_states": int(rng.choice([1, 4])), "decompose_after": 0}),
        ("lazy_intersection", {}),
    ]:
        key = " ".join([name, *map(str, options.values())])
        try:
            d = bridle.Decoder(labels, rules, engine_of(name, **options)).decode(lattice, given)
            verdict = bridle.check(lattice, rules, d, given)
            scores[key] = d.score if verdict.ok and d.optimal else math.nan
        except bridle.Infeasible:
            scores[key] = -math.inf
        except bridle.EngineError:  # too large for product, or penalties per violation for relax
            tally[f"{key} refused"] += 1
            if name == "search" or (name == "lazy_intersection" and not may_refuse("lazy_intersection", labels, rules)):
                scores[key] = math.nan
            continue
        tally[f"{key} answered"] += 1
    tally["infeasible"] += -math.inf in scores.values()
    if not all(close(a, b) for a in scores.values() for b in scores.values()):
        return [f"medium seed {seed}: {scores}; rules {[str(rule) for rule in rules]}, n={n}, m={m}"]
    return []


def hard_lattice(seed: int) -> tuple[Labels, Lattice, list[Rule]]:
    """60 tokens, 13 labels, each of them at most one segment: nothing is proved in one step."""
    rng, labels = np.random.default_rng(seed), Labels([f"L{k}" for k in range(13)])
    lattice = Lattice(rng.normal(size=(60, 13)) * 2, rng.normal(size=(13, 13)))
    return labels, lattice, [at_most(1, of=name) for name in labels]
