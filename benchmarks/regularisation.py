"""The search for c1 and c2 against the usual settings of CRFsuite: the same features, the same run.

    python benchmarks/regularisation.py --data DIR [--most N] [--only TEXT] [--splits N] [--twice] [--json FILE]

Per data set: what the search of `CRF().fit` chose, its time as a multiple of one training with c1 = c2 = 0.1 (time on
the processor, one thread, final training included), and how good the model is on test data beside CRFsuite with
(c1, c2) = (0, 1), (0, 0.1), (0.1, 0.1) and (0.1, 0.01). Both sides: features of the same templates, at most 100
iterations, label bigrams. p: sign tests over test sequences against the best of CRFsuite's four, chosen on the test
data: sequences that only one side has all right, and sequences in which one side has more tokens right.

--twice searches again beside busy loops, one per core and one more, with another number of threads, and compares all
figures of the search. Exit code 1: a search was not the same, took more than 6 times one training, or was significantly
worse (p < 0.05 in either test, by Holm over the data sets). 2: data or python-crfsuite are missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import repository  # noqa: F401  (it makes `experiments` importable)
from bridle.data import references
from bridle.features import token_features
from bridle.models import CRF
from bridle.report import score
from bridle.report.significance import sign_test
from experiments.base import Run
from experiments.fields import Fields
from experiments.learned_rules_data import SETS
from measure import told, where

USUAL = ((0.0, 1.0), (0.0, 0.1), (0.1, 0.1), (0.1, 0.01))
MOST_TIMES = 6.0
Parts = tuple[Fields, Fields, str, list[str] | None]  # training data, test data, features, groups of training data


# ---- data -----------------------------------------------------------------------------------------------------------


def styles(seed: int, *, grouped: bool = False) -> Parts:
    """References in two citation styles for training, in four for the test. grouped: a style is held out as a whole."""
    records = references.records()
    order = np.random.default_rng(seed).permutation(len(records)).tolist()

    def fields(names: tuple[str, ...], numbers: list[int]) -> Fields:
        examples = references.references(*names, of=[records[k] for k in numbers])
        return Fields(
            [dict(example.columns) for example in examples], [[*example.known_labels] for example in examples]
        )

    train, test = fields(("acm", "lncs"), order[:60]), fields(("acm", "lncs", "apa", "mla"), order[60:260])
    return train, test, "fields", ["acm"] * 60 + ["lncs"] * 60 if grouped else None


def generated(seed: int) -> Parts:
    """Words of a Zipf distribution per label; half of them belong to all labels; labels come in runs."""
    rng = np.random.default_rng(seed)
    own, common = 400, 800
    X: list[Any] = []
    y: list[list[str]] = []
    for _ in range(1200):
        runs = rng.permutation(6)[: rng.integers(2, 6)]
        labels = np.repeat(runs, rng.integers(1, 6, len(runs)))
        ranks = np.minimum(rng.zipf(1.3, len(labels)), own) - 1
        shared = rng.random(len(labels)) < 0.5
        words = [
            f"c{(r * 7 + 1) % common}" if s else f"w{label}-{r}"
            for r, s, label in zip(ranks, shared, labels, strict=True)
        ]
        X.append({"word": words})
        y.append([f"L{label}" for label in labels])
    whole = Fields(X, y)
    return whole.part(list(range(200))), whole.part(list(range(200, 1200))), "pos", None


def split(name: str, run: Run, seed: int) -> Parts:
    """Return a data set of `bridle reproduce learned-rules`."""
    data_set = next(data_set for data_set in SETS if data_set.name == name)
    return *data_set.split(run, seed), data_set.features, None


def tenth(name: str, run: Run, seed: int) -> Parts:
    """Return a data set with a tenth of its training data."""
    train, test, features, _ = split(name, run, seed)
    return train.part(list(range(0, len(train), 10))), test, features, None


def sets(run: Run) -> dict[str, Callable[[int], Parts]]:
    """All data sets by name."""
    out: dict[str, Callable[[int], Parts]] = {data_set.name: partial(split, data_set.name, run) for data_set in SETS}
    for name in ("chunks: CoNLL-2000", "addresses: usaddress", "references: AnyStyle"):
        out[f"{name}, 10 %"] = partial(tenth, name, run)
    by_style = {"references: two styles to four, style held out": partial(styles, grouped=True)}
    return {**out, "references: two styles to four": styles, **by_style, "generated": generated}


def cut(fields: Fields, most: int, seed: int) -> list[int]:
    """Draw at most so many sequences."""
    return [int(k) for k in np.sort(np.random.default_rng(seed).permutation(len(fields))[:most])]


# ---- the two sides --------------------------------------------------------------------------------------------------


def crfsuite(train: tuple[list[Any], list[list[str]]], test: list[Any], c1: float, c2: float) -> list[list[str]]:
    """Train CRFsuite on lists of features; return the labels of the test data."""
    import pycrfsuite  # type: ignore[import-untyped]

    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(*train, strict=True):
        trainer.append(x, labels)
    trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 100})
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger = pycrfsuite.Tagger()
        tagger.open(f"{folder}/model")
        return [tagger.tag(x) for x in test]


def figures(gold: list[list[str]], guessed: list[list[str]], scheme: str | None) -> dict[str, float]:
    """Tokens, segments and sequences right, in percent."""
    scores = score(gold, guessed, scheme)
    shares = {"tokens": scores.accuracy, "segments": scores.segments.f1, "sequences": scores.exact}
    return {name: round(100 * share, 2) for name, share in shares.items()}


def signs(gold: list[list[str]], ours: list[list[str]], theirs: list[list[str]]) -> dict[str, Any]:
    """Sign tests over sequences: all right, and tokens right."""

    def right(guessed: list[list[str]]) -> np.ndarray[Any, Any]:
        return np.array([sum(a == b for a, b in zip(x, y, strict=True)) for x, y in zip(gold, guessed, strict=True)])

    a, b, lengths = right(ours), right(theirs), np.array([len(labels) for labels in gold])
    out: dict[str, Any] = {}
    for name, x, y in (("sequences", a == lengths, b == lengths), ("tokens", a, b)):
        better, worse = int((x > y).sum()), int((x < y).sum())
        out[name] = {"better": better, "worse": worse, "p": round(sign_test(better, worse), 4)}
    return out


@contextmanager
def busy() -> Iterator[None]:
    """Keep all cores busy with other processes."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def compared(name: str, parts: Parts, most: int, seed: int, twice: bool) -> dict[str, Any]:
    """All figures of one data set."""
    chosen, features = cut(parts[0], most, seed), parts[2]
    train, test = parts[0].part(chosen), parts[1].part(cut(parts[1], 1000, seed))
    groups = None if parts[3] is None else [parts[3][k] for k in chosen]
    begun = time.process_time()
    CRF(features=features, c1=0.1, c2=0.1, threads=1).fit(train.X, train.y)
    one_training, begun = time.process_time() - begun, time.process_time()
    model = CRF(features=features, threads=1).fit(train.X, train.y, groups=groups)
    whole = time.process_time() - begun
    tuning = model.tuning_
    assert tuning is not None
    row: dict[str, Any] = {
        "data": name,
        "seed": seed,
        "sequences": len(train),
        "tokens": sum(map(len, train.y)),
        "c1": model.c1_,
        "c2": model.c2_,
        "times": round(whole / one_training, 2),
        "why": tuning.why,
    }
    ours, scheme = model.predict(test.X), model.labels_.scheme
    row["bridle"] = figures(test.y, ours, scheme)
    lists = [[token_features(str(model.features_.templates), x) for x in part.X] for part in (train, test)]  # type: ignore[union-attr]
    guesses = {setting: crfsuite((lists[0], train.y), lists[1], *setting) for setting in USUAL}
    row["crfsuite"] = {f"{c1:g}, {c2:g}": figures(test.y, guess, scheme) for (c1, c2), guess in guesses.items()}
    for by in ("sequences", "tokens"):
        best = max(USUAL, key=lambda setting: (row["crfsuite"]["{:g}, {:g}".format(*setting)][by], setting))
        row[f"best by {by}"] = "{:g}, {:g}".format(*best)
        row[f"p {by}"] = signs(test.y, ours, guesses[best])[by]
    if twice:
        with busy():
            other = CRF(features=features, threads=(os.cpu_count() or 1) + 1)
            again = other.fit(train.X, train.y, groups=groups).tuning_
        assert again is not None
        first, second = ([asdict(trial) | {"seconds": 0} for trial in tuned.trials] for tuned in (tuning, again))
        row["same"] = first == second and (tuning.c1, tuning.c2) == (again.c1, again.c2)
    return row


# ---- the command ----------------------------------------------------------------------------------------------------


def significantly_worse(rows: list[dict[str, Any]]) -> list[str]:
    """Return data sets on which a test says so at 5 %, by Holm over all tests."""
    tests = [(row[f"p {by}"], f"{row['data']} ({by})") for row in rows for by in ("sequences", "tokens")]
    ranked = sorted((test["p"] if test["worse"] > test["better"] else 1.0, name) for test, name in tests)
    names: list[str] = []
    for k, (p, name) in enumerate(ranked):
        if p * (len(ranked) - k) >= 0.05:
            break
        names.append(name)
    return names


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figures as Markdown."""
    head = [
        "data",
        "sequences",
        "c1, c2",
        "times one training",
        *(f"CRFsuite {c1:g}, {c2:g}" for c1, c2 in USUAL),
        "Bridle",
    ]
    lines = [" | ".join(["", *head, "p sequences, tokens", ""]).strip(), "|---" * (len(head) + 1) + "|"]
    cell = "{tokens:.1f} / {segments:.1f} / {sequences:.1f}"
    for row in rows:
        ps = ", ".join(
            f"{row[f'p {by}']['p']:.2g}{' -' if row[f'p {by}']['worse'] > row[f'p {by}']['better'] else ''}"
            for by in ("sequences", "tokens")
        )
        theirs = (cell.format(**shares) for shares in row["crfsuite"].values())
        cells = [row["data"], f"{row['sequences']:,}", f"{row['c1']:g}, {row['c2']:g}", f"{row['times']:.1f}", *theirs]
        lines.append("| " + " | ".join([*cells, cell.format(**row["bridle"]), ps]) + " |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR")
    parser.add_argument("--most", type=int, default=500, metavar="N", help="training sequences (default: 500)")
    parser.add_argument("--only", metavar="TEXT", help="data sets whose names contain it")
    parser.add_argument("--splits", type=int, default=1, metavar="N", help="splits of each data set (default: 1)")
    parser.add_argument("--twice", action="store_true", help="search again beside busy loops")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    asked = parser.parse_args()
    if asked.data is None or importlib.util.find_spec("pycrfsuite") is None:
        print("wanted: --data DIR or BRIDLE_DATA, and python-crfsuite (pip install python-crfsuite)", file=sys.stderr)
        return 2
    rows: list[dict[str, Any]] = []
    chosen = {name: parts for name, parts in sets(Run(asked.data)).items() if (asked.only or "") in name}
    for name, seed in ((name, seed) for name in chosen for seed in range(asked.splits)):
        rows.append(compared(name, chosen[name](seed), asked.most, seed, asked.twice))
        print("\n".join(table(rows[-1:])[2:]), file=sys.stderr, flush=True)
    print(f"{told(where())}\n")
    print("tokens / segments (F1) / sequences right on test data, in percent; -: Bridle has fewer right\n")
    print("\n".join(table(rows)))
    problems = [f"significantly worse: {name}" for name in significantly_worse(rows)]
    problems += [f"not the same beside busy loops: {row['data']}" for row in rows if not row.get("same", True)]
    problems += [f"{row['times']} times one training: {row['data']}" for row in rows if row["times"] > MOST_TIMES]
    means = {
        by: np.mean([row["bridle"][by] - max(x[by] for x in row["crfsuite"].values()) for row in rows])
        for by in ("tokens", "segments", "sequences")
    }
    print("\nmean difference to the best of the four:", ", ".join(f"{by} {mean:+.2f}" for by, mean in means.items()))
    print(
        "\n".join(problems)
        or "nothing significantly worse, nothing above 6 times one training"
        + (", all searches the same beside busy loops" if asked.twice else "")
    )
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"where": where(), "rows": rows}, indent=1) + "\n", "utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
