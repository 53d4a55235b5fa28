"""Training on partly labelled data, and class weights.

    python benchmarks/partial_labels.py
    python benchmarks/partial_labels.py --data DIR

The first table hides labels of references in the styles that come with Bridle, and compares a CRF that is trained on
what is left with one that is trained on whole sequences only. The second one weighs a class: PUBLISHER of the same
references, or with --data (or BRIDLE_DATA) MISC of DIR/ner-wikigold/wikigold.conll.txt.gz.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bridle import CRF
from bridle.data import Example, read
from bridle.data.references import references, split
from bridle.report import Scores, score
from measure import told, where

STYLES = ("acm", "ieee", "mla")
SHARES = (0.3, 0.6, 0.9)
WEIGHTS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)


def hidden(y: Sequence[Sequence[str]], share: float) -> list[list[str | None]]:
    """Labels, a share of which is missing."""
    rng = np.random.default_rng(0)
    return [[None if rng.random() < share else label for label in labels] for labels in y]


def columns_of(examples: Sequence[Example]) -> tuple[list[Any], list[list[str]]]:
    """X and y."""
    return [e.columns for e in examples], [e.known_labels for e in examples]


def missing_labels(works: int) -> None:
    """Accuracy on unseen references, by the share of hidden labels."""
    train, test = split(works)
    X, y = columns_of(references(*STYLES, of=train))
    unseen, gold = columns_of(references(*STYLES, of=test[:100]))

    def accuracy(X: list[Any], y: Sequence[Sequence[str | None]]) -> float:
        return CRF(features="fields", c1=0.0, c2=0.1).fit(X, y).score(unseen, gold)

    full = accuracy(X, y)
    print(f"\n{len(X)} references, all labels known: {full:.2%}")
    print(f"{'hidden':>8} {'in all sequences':>18} {'in every other':>16} {'the others alone':>18}")
    alone = accuracy(X[1::2], y[1::2])
    for share in SHARES:
        gaps = hidden(y, share)
        half = [known if k % 2 else some for k, (known, some) in enumerate(zip(y, gaps, strict=True))]
        print(f"{share:8.0%} {accuracy(X, gaps):18.2%} {accuracy(X, half):16.2%} {alone:18.2%}")


def class_weights(train: Sequence[Example], test: Sequence[Example], name: str, features: Any) -> None:
    """Precision and recall of one class and of all, by its weight."""
    (X, y), (unseen, gold) = columns_of(train), columns_of(test)
    print(f"\n{len(X):,} sequences; the class {name}")
    print(f"{'weight':>9} {'precision':>10} {'recall':>8} {'F1':>8}   {'all: precision':>14} {'recall':>8} {'F1':>8}")
    for weight in (*WEIGHTS, "balanced"):
        asked: Any = weight if isinstance(weight, str) else {name: weight}
        model = CRF(features=features, c1=0.0, c2=0.1, class_weight=asked).fit(X, y)
        scores: Scores = score(gold, model.predict(unseen))
        weighted, every = scores.by_type[name], scores.segments
        print(
            f"{weight!s:>9} {weighted.precision:10.2%} {weighted.recall:8.2%} {weighted.f1:8.2%}   "
            f"{every.precision:14.2%} {every.recall:8.2%} {every.f1:8.2%}"
        )


def main() -> None:
    """Print both tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR")
    asked.add_argument("--works", type=int, default=20, help="works in the training data")
    options = asked.parse_args()
    print(told(where()))
    missing_labels(options.works)
    if options.data is None:
        train, test = split(options.works)
        class_weights(references(*STYLES, of=train), references(*STYLES, of=test[:100]), "PUBLISHER", "fields")
        return
    path = Path(options.data) / "ner-wikigold" / "wikigold.conll.txt.gz"
    blocks = list(read(path, "conll", columns=["word", "tag"]))
    documents = [blocks[k : k + 12] for k in range(0, len(blocks), 12)]  # about as long as an article
    order = np.random.default_rng(0).permutation(len(documents)).tolist()
    cut = 2 * len(order) // 3
    train, test = ([e for k in some for e in documents[k]] for some in (order[:cut], order[cut:]))
    class_weights(train, test, "MISC", "fields")


if __name__ == "__main__":
    main()
