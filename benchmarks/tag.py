"""Tagging against CRFsuite: from token strings to labels, the making of features included.

    python benchmarks/tag.py --data DIR [--quick] [--json benchmarks/out/tag.json]

CRFsuite is trained for a few iterations and Bridle takes over its weights, so that both have the same to do and must
give the same labels. The best of three rounds counts, in turns. CRFsuite's features are made by plain Python
(crfsuite_peer.py: f-strings over the window), as its users do. Exit code 1 when the labels are not the same (but for
ties: 1 token in 10,000) or an answer breaks a rule.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import bridle
import crfsuite_peer
from bridle import rules as r
from chunking import Job, corpus, options, read, run_apart
from measure import best_of
from versus import Table

RULES = [
    r.well_formed(),
    r.if_present("PRT", then="VP"),  # a particle belongs to a verb
    r.if_present("SBAR", then="VP"),  # so does a clause
    r.before("LST", "NP"),  # the number of an item comes first
    r.at_most(3, of="SBAR"),
    r.at_most(1, of="PRT"),
    r.at_most(2, of="ADJP"),
    r.length("ADVP", at_most=3),
    r.at_least(1, of="VP").soft(2.0),  # headlines have none
]


def taken_over(model: Any, tagger: Any) -> int:
    """Give a model the weights of CRFsuite, feature by feature; the number of weights that found no place."""
    state, transitions = crfsuite_peer.weights(tagger)
    names, labels, layout = model.features_.names(), model.labels_.names, model.linear_.layout
    own = [
        f"{places.replace('word', 'w').replace('pos', 'p')}={values}"
        for places, _, values in (name.partition("=") for name in names)
    ]
    keys = [(own[a], labels[y]) for a, y in zip(layout.attribute.tolist(), layout.label.tolist(), strict=True)]
    row = np.array([state.pop(key, 0.0) for key in keys], dtype=np.float32)
    pairs = np.array([[transitions.pop((i, j), 0.0) for j in labels] for i in labels])
    model.linear_ = replace(model.linear_, weights=row, pairwise=pairs)
    return len(state) + len(transitions)


def stages(model: Any, X: list[Any], rules: list[Any], rounds: int) -> dict[str, float]:
    """Seconds of the parts of `predict` with one thread, each alone."""
    decoder = model.decoder(rules)
    given = model.given(X, decoder)
    encoded = model.features_.encode(X)
    batch = model.linear_.scores(encoded)
    decodings = decoder.decode_batch(batch, given, threads=1)
    names = np.array(model.labels_.names, dtype=object)

    def lists() -> list[list[str]]:
        flat = names[decodings.ids].tolist()
        return [flat[a:b] for a, b in pairwise(decodings.offsets.tolist())]

    parts: dict[str, Callable[[], Any]] = {
        "prepare rules": lambda: model.decoder(rules),
        "encode": lambda: model.features_.encode(X),
        "score": lambda: model.linear_.scores(encoded),
        "given": lambda: model.given(X, decoder),
        "decode": lambda: decoder.decode_batch(batch, given, threads=1),
        "lists": lists,
    }
    return dict(zip(parts, best_of(rounds, *parts.values()), strict=True))


def halves(tagger: Any, columns: list[tuple[list[str], list[str]]]) -> dict[str, float]:
    """Seconds of CRFsuite's two parts, sentence by sentence: features of all at once would leave the cache."""
    making = tagging = 0.0
    for words, tags in columns:
        begin = time.perf_counter()
        sequence = crfsuite_peer.features(words, tags)
        middle = time.perf_counter()
        tagger.tag(sequence)
        making += middle - begin
        tagging += time.perf_counter() - middle
    return {"features": making, "tagging": tagging}


def floor(model: Any, X: list[Any], rounds: int) -> float:
    """Seconds of what cannot be left out: put the texts end to end, go over the scores once."""
    unary = np.asarray(model.lattices(X).unary)

    def least() -> None:
        for column in ("word", "pos"):
            "\n".join(text for x in X for text in x[column]).encode()
        unary.max()

    return best_of(rounds, least)[0]


def share(a: list[list[str]], b: list[list[str]]) -> float:
    """The share of tokens with equal labels."""
    pairs = [(i, j) for x, y in zip(a, b, strict=True) for i, j in zip(x, y, strict=True)]
    return sum(i == j for i, j in pairs) / len(pairs)


def shown(parts: dict[str, float]) -> str:
    """Parts of a time in ms."""
    return ", ".join(f"{name} {1e3 * took:.1f}" for name, took in parts.items()) + " ms"


def measure(table: Table, model: Any, tagger: Any, test: Path, rounds: int) -> None:
    """All rows and notes."""
    X, gold = read(test)
    columns = [(x["word"], x["pos"]) for x in X]
    n = sum(map(len, gold))

    def peer() -> list[list[str]]:
        return [tagger.tag(crfsuite_peer.features(words, tags)) for words, tags in columns]

    runs: dict[str, Callable[[], list[list[str]]]] = {
        "plain": partial(model.predict, X, threads=1),
        "rules": partial(model.predict, X, RULES, threads=1),
        "plain, 2 threads": partial(model.predict, X, threads=2),
        "rules, 2 threads": partial(model.predict, X, RULES, threads=2),
        "crfsuite": peer,
    }
    answers = {name: run() for name, run in runs.items()}
    took = dict(zip(runs, best_of(rounds, *runs.values()), strict=True))
    pace = {name: n / seconds for name, seconds in took.items()}
    rows: list[tuple[str, str, float | None]] = [
        ("no rules", "plain", 13),
        (f"{len(RULES)} rules on (CRFsuite: none)", "rules", 11),
        ("no rules, two threads against one", "plain, 2 threads", None),
        (f"{len(RULES)} rules, two threads against one", "rules, 2 threads", None),
    ]
    for what, name, target in rows:
        table.faster(what, pace[name], pace["crfsuite"], target, "tokens/s")

    parts = min((halves(tagger, columns) for _ in range(rounds)), key=lambda times: sum(times.values()))
    tagging = n / parts["tagging"]
    table.faster("no rules, CRFsuite's features for free", pace["plain"], tagging, None, "tokens/s")
    split = {
        "bridle": stages(model, X, [], rounds),
        "bridle, rules": stages(model, X, RULES, rounds),
        "crfsuite": parts,
    }
    least = floor(model, X, rounds)
    agree = share(answers["plain"], answers["crfsuite"])
    changed = sum(a != b for a, b in zip(answers["plain"], answers["rules"], strict=True))
    right = {name: share(gold, answers[name]) for name in ("plain", "rules", "crfsuite")}
    table.notes += [
        *(f"where the time goes, {name}: {shown(times)}" for name, times in split.items()),
        f"floor (join the texts, one pass over the scores): {1e3 * least:.1f} ms, {n / least:,.0f} tokens/s",
        f"labels equal to CRFsuite's: {agree:.4%} of {n:,}; the rules changed {changed} of {len(X):,} sequences",
        "tokens right: " + ", ".join(f"{name} {part:.2%}" for name, part in right.items()),
    ]
    table.data = {
        "tokens": n,
        "seconds": took,
        "stages": split,
        "floor": least,
        "labels_equal": agree,
        "sequences": len(X),
        "changed": changed,
        "accuracy": right,
    }
    if agree < 0.9999:
        table.wrong.append(f"the same weights, but only {agree:.3%} of the labels are CRFsuite's")
    for single, two in (("plain", "plain, 2 threads"), ("rules", "rules, 2 threads")):
        if answers[single] != answers[two]:
            table.wrong.append(f"{single}: two threads give other labels than one")
    for k, labels in enumerate(answers["rules"]):
        ids = [model.labels_.names.index(name) for name in labels]
        table.wrong += [
            f"sequence {k} breaks: {rule}"
            for rule in RULES
            if not hasattr(rule, "penalty") and not rule.holds(ids, model.labels_)
        ]


def main() -> int:
    """The command."""
    chosen = options("Tagging: Bridle against CRFsuite.", "tag.json").parse_args()
    train, test = corpus(chosen.data)
    iterations, limit = (5, 894) if chosen.quick else (30, None)
    table = Table("Tagging the CoNLL-2000 test set, from texts to labels, the same weights")
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (str(Path(folder) / side) for side in ("bridle", "crfsuite"))
        run_apart(Job("bridle", "lbfgs", 2, str(train), ours, limit))  # for the features; its weights do not stay
        run_apart(Job("crfsuite", "lbfgs", iterations, str(train), theirs, limit))
        tagger = crfsuite_peer.tagger(Path(theirs))
        model = bridle.load(ours)
        if lost := taken_over(model, tagger):
            table.wrong.append(f"{lost:,} weights of CRFsuite have no place in the model")
        measure(table, model, tagger, test, 3)
        tagger.close()
    table.show()
    table.write(chosen.json, quick=chosen.quick, seconds=time.perf_counter() - begin)
    print(f"{time.perf_counter() - begin:.0f} s; figures in {chosen.json}")
    return 1 if table.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
