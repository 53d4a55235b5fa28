"""The contract of documents, checked against plain enumeration on one random document at a time.

`examine_document(seed)` returns complaints; test_documents.py and `soak.py --documents` run it over many seeds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

import bridle
import bridle.rules as r
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.equal import SameLabelForEqual
from contract import close
from strategies import labellings, random_labels, random_lattice, random_rule, random_soft

ACROSS = ["AtMost", "AtLeast", "Exactly", "NoDuplicates", "Present", "IfPresent", "FollowedBy", "Before", "FirstBefore"]
MOST_TOKENS = 6


@dataclass(eq=False)
class Document:
    """A random document: sentences, what comes with each, and rules about both."""

    labels: Labels
    rules: list[Rule]
    lattices: list[Lattice]
    givens: list[dict[str, Any]]


def random_document(rng: Generator) -> Document:
    """1 to 4 sentences of 6 tokens together, some of them empty, with rules of all kinds."""
    labels, sizes = random_labels(rng, 4), rng.integers(0, 4, int(rng.choice([1, 2, 2, 3, 4]))).tolist()
    while sum(sizes) > MOST_TOKENS:
        sizes.pop()
    sizes = sizes or [2]
    lattices = [random_lattice(rng, n, len(labels)) for n in sizes]
    head = lattices[0]
    if rng.random() < 0.6 and head.pairwise is not None and head.pairwise.ndim == 2:  # as those of a model
        lattices = [Lattice(x.unary, head.pairwise, head.start, head.end) for x in lattices]
    givens: list[dict[str, Any]] = [{"tokens": [str(rng.choice([*"abcA"])) for _ in range(n)]} for n in sizes]
    rules: list[Rule] = []
    for _ in range(int(rng.choice([0, 1, 1, 2]))):
        rule, values = random_rule(rng, labels, min(sizes), {}, 1)
        each = [{**values, **its} for its in givens]
        if all(names.fixed for names in rule.names()) and _fits(rule, sizes, each):
            givens = each
            rules.append(random_soft(rng, rule) if rng.random() < 0.5 else rule)
    for _ in range(int(rng.choice([1, 1, 2]))):
        rule = _across(rng, labels)
        rules.append(random_soft(rng, rule) if rng.random() < 0.55 else rule)
    return Document(labels, [rules[k] for k in rng.permutation(len(rules))], lattices, givens)


def _fits(rule: Rule, sizes: list[int], givens: list[dict[str, Any]]) -> bool:
    try:
        for n, values in zip(sizes, givens, strict=True):
            for place in rule.places():
                place.positions(n, values)
    except bridle.BridleError:
        return False
    return True


def _across(rng: Generator, labels: Labels) -> Rule:
    if rng.random() < 0.45:
        tokens = r.tokens("[a-b]") if rng.random() < 0.3 else None
        return r.in_document(r.same_label_for_equal(tokens, case=str(rng.choice(["exact", "ignored"]))))
    rule = _countable(rng, labels)
    if rng.random() < 0.25:
        rule = rule | _countable(rng, labels) if rng.random() < 0.5 else rule & _countable(rng, labels)
    return r.in_document(rule)


def _countable(rng: Generator, labels: Labels) -> Rule:
    while True:
        rule, _ = random_rule(rng, labels, 3, {}, 0, str(rng.choice(ACROSS)))
        if all(names.fixed for names in rule.names()):
            return rule


@dataclass(frozen=True)
class Optimum:
    """The best score under the rules, None if nothing obeys them; and the fewest violations, with the best score."""

    best: float | None
    relaxed: tuple[int, float] | None
    ranked: list[float]  # the scores of all labellings that obey the rules, the best first


def enumerate_document(document: Document, rules: list[Rule]) -> Optimum:
    """Look at every labelling of every sentence; rules about the document see a label of no rule between sentences."""
    labels, m = document.labels, len(document.labels)
    each = []
    for lattice, values in zip(document.lattices, document.givens, strict=True):
        apart = [(k, rule) for k, rule in enumerate(rules) if about(rule) is None]
        scored = ((y, lattice.score(np.array(y, dtype=int)) if y else 0.0) for y in labellings(len(lattice), m))
        each.append(
            [
                (y, score, {k: rule.violations(y, labels, values) for k, rule in apart})
                for y, score in scored
                if score > -math.inf
            ]
        )
    wide = Labels((*labels.names, "<break>"), labels.scheme, outside=(*labels.all_outside, "<break>"))
    texts = {"tokens": [text for values in document.givens for text in values["tokens"]]}
    ranked, relaxed = list[float](), None
    for chosen in itertools.product(*each):
        score, cost, hard = sum(row[1] for row in chosen), 0.0, 0
        for k, rule in enumerate(rules):
            inner = about(rule)
            if inner is None:
                counts = [row[2][k] for row in chosen]
            elif isinstance(inner, SameLabelForEqual):
                counts = [inner.violations([y for row in chosen for y in row[0]], labels, texts)]
            else:
                counts = [inner.violations([y for row in chosen for y in (*row[0], m)][:-1], wide)]
            if isinstance(rule, Soft):
                cost += sum(map(rule.cost, counts))
            else:
                hard += sum(counts)
        if hard == 0:
            ranked.append(score - cost)
        relaxed = min(relaxed or (math.inf, 0.0), (hard, cost - score))  # type: ignore[assignment]
    ranked.sort(reverse=True)
    return Optimum(ranked[0] if ranked else None, None if relaxed is None else (relaxed[0], -relaxed[1]), ranked)


def about(rule: Rule) -> Rule | None:
    """The rule inside one about the document; None for a rule about sentences."""
    bare: Any = rule.rule if isinstance(rule, Soft) else rule
    return bare.rule if bare.of_document else None


def examine_document(seed: int) -> list[str]:
    """All complaints about one random document."""
    rng = np.random.default_rng([32, seed])
    document = random_document(rng)
    labels, rules, lattices, givens = document.labels, document.rules, document.lattices, document.givens
    optimum, complaints = enumerate_document(document, rules), list[str]()
    best = optimum.best

    def complain(text: str) -> None:
        complaints.append(f"document {seed}: {text}; rules {[str(rule) for rule in rules]}, {labels}")

    for engine in ("auto", bridle.engines.Search(max_product_states=1), "product"):
        d = bridle.Decoder(labels, rules, engine, on_infeasible="skip").decode_document(lattices, givens)
        if best is None:
            if d.status != "infeasible" or d.labels != [[]] * len(lattices):
                complain(f"{engine}: {d}, but nothing obeys the rules")
            elif optimum.relaxed is not None and enumerate_document(document, list(d.clash)).best is not None:
                complain(f"{engine}: no clash: {d.clash}")
        elif not d.optimal or not close(d.score, best) or not close(d.bound, best):
            complain(f"{engine}: {d}, optimum {best}")
        elif wrong := bridle.check(lattices, rules, d, givens).complaints:
            complain(f"{engine}: {wrong}")
    d = bridle.Decoder(labels, rules, max_states=1, on_infeasible="skip").decode_document(lattices, givens)
    if best is not None and (d.bound < best - 1e-9 or d.score > best + 1e-9 or d.status == "infeasible"):
        complain(f"with a limit: {d}, optimum {best}")
    k = int(rng.integers(2, 9))
    if best is not None:
        several = bridle.Decoder(labels, rules).k_best_document(lattices, k, givens)
        wanted = optimum.ranked[:k]
        if len(several) != len(wanted) or not all(map(close, [d.score for d in several], wanted)):
            complain(f"{k} best: {[d.score for d in several]}, wanted {wanted}")
        elif len({str(d.labels) for d in several}) < len(several):
            complain(f"{k} best: one labelling twice")
        elif wrong := [x for d in several for x in bridle.check(lattices, rules, d, givens).complaints]:
            complain(f"{k} best: {wrong}")
    if best is None and optimum.relaxed is not None:
        d = bridle.Decoder(labels, rules, on_infeasible="relax").decode_document(lattices, givens)
        hard, score = optimum.relaxed
        if d.status != "relaxed" or d.stats["hard_violations"] != hard or not close(d.score, score):
            complain(f"relaxed: {d}, fewest violations and best score {optimum.relaxed}")
    return complaints
