"""The ready-made sets of features beside each other, and what `features="auto"` chooses.

    python benchmarks/feature_sets.py --data DIR            (or BRIDLE_DATA)

Per data set: F1 of segments, or accuracy where every token has a label of its own; the share of a test set of at most
--test sequences, after training on at most --train sequences, the mean over --seeds splits. c2 is the same for all sets
(--c2), and so is the number of iterations (--iterations). A row ends with what `auto` chooses, and how far that is from
the best of the row. What is missing under DIR is left out and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import repository  # noqa: F401  (it makes `experiments` importable)
from bridle import CRF, data
from bridle.errors import FeatureError, FileError
from bridle.features import choose_features
from bridle.report import score
from experiments.base import Run
from experiments.fields import Fields
from experiments.learned_rules_data import SETS, _by_stretches, _sample

OUT = Path(__file__).parent / "out" / "feature_sets.json"
COMPARED = ("pos", "ner", "fields", "chunking", "characters")
Split = Callable[[Run, int], tuple[Fields, Fields]]


def without_pos(run: Run, seed: int) -> tuple[Fields, Fields]:
    """The chunks, as a user without a tagger of parts of speech has them."""
    parts = next(data_set for data_set in SETS if data_set.name.startswith("chunks")).split(run, seed)
    train, test = (Fields([{"word": x["word"]} for x in part.X], part.y) for part in parts)
    return train, test


def entities(run: Run, seed: int) -> tuple[Fields, Fields]:
    """Names of people, places and organisations in the People's Daily, as its tags nr, ns and nt mark them."""
    kinds = {"nr": "PER", "ns": "LOC", "nt": "ORG"}
    X, y = [], []
    for sentence in islice(data.read(run.file("cws-pku", "199801.txt.gz"), "slashed"), 6000):
        names = [kinds.get(tag, "") for tag in sentence.labels or ()]
        before = ["", *names]
        y.append([f"{'I' if k == b else 'B'}-{k}" if k else "O" for k, b in zip(names, before, strict=False)])
        X.append({"word": list(sentence.tokens)})
    return _by_stretches(Fields(X, y), 3000, seed)


def characters(run: Run, seed: int) -> tuple[Fields, Fields]:
    """Words of Chinese text."""
    parts = (run.file("cws-msr", f"msr_{name}.normalised.txt.gz") for name in ("dev", "test"))
    train, test = (Fields(*data.load(path, "segmented")) for path in parts)
    return _sample(train, test, 2000, seed)


MORE: dict[str, Split] = {
    "chunks: CoNLL-2000, without pos": without_pos,
    "entities: People's Daily": entities,
    "words: MSR": characters,
}


def measured(train: Fields, test: Fields, features: str, asked: argparse.Namespace) -> dict[str, float] | None:
    """Measure a set of features on a data set, in percent; None: it needs columns that the data has not."""
    begun = time.perf_counter()
    model = CRF(features=features, c1=0.0, c2=asked.c2, iterations=asked.iterations, threads=asked.threads)
    try:
        model.fit(train.X, train.y)
    except FeatureError:
        return None
    seconds = time.perf_counter() - begun
    scores = score(test.y, model.predict(test.X, threads=asked.threads))
    plain = model.labels_.scheme is None and choose_features(train.X, train.y).name == "pos"
    value = scores.accuracy if plain else scores.segments.f1
    return {"value": 100 * value, "seconds": seconds, "weights": model.n_weights_}


def rows(run: Run, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row per data set."""
    for name, split in {**{data_set.name: data_set.split for data_set in SETS}, **MORE}.items():
        if asked.only and asked.only not in name:
            continue
        try:
            parts = [split(run, seed) for seed in range(asked.seeds)]
        except FileError as error:
            print(f"left out: {name}: {error}")
            continue
        parts = [(a.part(range(len(a))[: asked.train]), b.part(range(len(b))[: asked.test])) for a, b in parts]
        chosen = choose_features(parts[0][0].X, parts[0][0].y)
        values: dict[str, dict[str, float]] = {}
        for features in COMPARED:
            each = [measured(train, test, features, asked) for train, test in parts]
            if None not in each:
                keys = ("value", "seconds", "weights")
                values[features] = {key: mean(part[key] for part in each if part is not None) for key in keys}
        best = max(part["value"] for part in values.values())
        gap = values[chosen.name]["value"] - best
        yield {"data": name, "sets": values, "auto": chosen.name, "why": chosen.why, "gap": gap}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"))
    parser.add_argument("--only", help="data sets whose name has this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--c2", type=float, default=0.1)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--threads", type=int, default=0)
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("--data DIR, or BRIDLE_DATA")
    print(
        f"| data | {' | '.join(COMPARED)} | auto | beside the best |\n|---|{'---|' * (len(COMPARED) + 2)}", flush=True
    )
    results = []
    for row in rows(Run(asked.data), asked):
        cells = [
            f"{part['value']:.1f} ({part['seconds']:.1f} s, {part['weights']:,.0f})" if part else "-"
            for part in (row["sets"].get(name) for name in COMPARED)
        ]
        print(f"| {row['data']} | {' | '.join(cells)} | {row['auto']} | {row['gap']:.1f} |", flush=True)
        results.append(row)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
