"""Gain by agreement across a document: Wikigold, five random splits by document.

    python benchmarks/documents_ner.py --data DIR

A CRF (`features="ner"`, c2 = 0.3) is trained on 70 % of the documents and tested on the others. The penalty of `in the
document: same label for equal tokens /[A-Z].*/` is chosen on the training documents, whose scores come from models
trained on the other two of three parts; 0 (no rule) is one of the choices. Beside it: a majority vote per capitalised
text after decoding. F1 over all test documents of all splits, with a paired bootstrap over documents.
"""

from __future__ import annotations

import argparse
import gzip
import os
from collections import Counter
from pathlib import Path

import numpy as np

import bridle

PENALTIES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
RULE = bridle.rules.in_document(bridle.rules.same_label_for_equal(bridle.rules.tokens("[A-Z].*")))
SPLITS, FOLDS, DRAWS = 5, 3, 10_000
Document = list[tuple[list[str], list[str]]]  # sentences: words and labels
Counts = np.ndarray  # right, guessed, gold segments


def documents(path: Path) -> list[Document]:
    """Sentences by document."""
    result: list[Document] = [[]]
    words: list[str] = []
    tags: list[str] = []
    text = gzip.decompress(path.read_bytes()).decode()
    for line in [*text.splitlines(), ""]:
        if line.startswith("-DOCSTART-"):
            result.append([])
        elif line.strip():
            word, tag = line.split(" ")
            words.append(word)
            tags.append(tag)
        elif words:
            result[-1].append((words, tags))
            words, tags = [], []
    return [document for document in result if document]


def train(some: list[Document]) -> bridle.CRF:
    sentences = [sentence for document in some for sentence in document]
    return bridle.CRF(features="ner", c1=0.0, c2=0.3).fit([words for words, _ in sentences], [y for _, y in sentences])


def scored(model: bridle.CRF, some: list[Document]) -> list[list[bridle.Lattice]]:
    return [[model.lattice(words) for words, _ in document] for document in some]


def decode(labels: bridle.Labels, some: list[Document], lattices: list[list[bridle.Lattice]], penalty: float):
    """Labels of each document, and how many are proved."""
    rules = [RULE.soft(penalty, per="violation")] if penalty else []
    given = [[{"tokens": words} for words, _ in document] for document in some]
    decodings = bridle.Decoder(labels, rules, time_limit=20).decode_documents(lattices, given)
    return [d.labels for d in decodings], sum(d.optimal for d in decodings), [d.score for d in decodings]


def vote(document: Document, guessed: list[list[str]]) -> list[list[str]]:
    """Every capitalised text gets the label that most of its tokens have."""
    seen: dict[str, Counter[str]] = {}
    for (words, _), y in zip(document, guessed, strict=True):
        for word, label in zip(words, y, strict=True):
            if word[0].isupper():
                seen.setdefault(word, Counter())[label] += 1
    most = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    return [
        [most.get(word, label) for word, label in zip(words, y, strict=True)]
        for (words, _), y in zip(document, guessed, strict=True)
    ]


def counts_of(labels: bridle.Labels, document: Document, guessed: list[list[str]]) -> Counts:
    total = np.zeros(3)
    for (_, gold), y in zip(document, guessed, strict=True):
        a, b = set(labels.segments(y)), set(labels.segments(gold))
        total += len(a & b), len(a), len(b)
    return total


def f1(counts: Counts) -> float:
    right, guessed, gold = counts.sum(axis=0)
    return 2 * right / max(guessed + gold, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("BRIDLE_DATA"), metavar="DIR", help="folder with ner-wikigold")
    parser.add_argument("--splits", type=int, default=SPLITS, metavar="K", help=f"(default: {SPLITS})")
    chosen = parser.parse_args()
    if chosen.data is None:
        parser.error("--data DIR, or BRIDLE_DATA")
    every = documents(Path(chosen.data) / "ner-wikigold" / "wikigold.conll.txt.gz")
    counts: dict[str, list[Counts]] = {"plain": [], "agreement": [], "vote": []}
    proved = tested = worse = 0
    for split in range(chosen.splits):
        order = np.random.default_rng(split).permutation(len(every))
        cut = round(0.7 * len(every))
        train_set, test_set = [every[k] for k in order[:cut]], [every[k] for k in order[cut:]]
        totals = {penalty: np.zeros(3) for penalty in PENALTIES}
        for fold in range(FOLDS):
            held = train_set[fold::FOLDS]
            model = train([document for k, document in enumerate(train_set) if k % FOLDS != fold])
            lattices = scored(model, held)
            for penalty in PENALTIES:
                for document, guessed in zip(held, decode(model.labels_, held, lattices, penalty)[0], strict=True):
                    totals[penalty] += counts_of(model.labels_, document, guessed)
        best = max(PENALTIES, key=lambda penalty: f1(totals[penalty][None]))
        model = train(train_set)
        labels, lattices = model.labels_, scored(model, test_set)
        plain, _, _ = decode(labels, test_set, lattices, 0.0)
        agreed, optimal, scores = decode(labels, test_set, lattices, best)
        voted = [vote(document, y) for document, y in zip(test_set, plain, strict=True)]
        proved, tested = proved + optimal, tested + len(test_set)
        for document, x, y, score in zip(test_set, lattices, voted, scores, strict=True):
            ids = [labels.ids(labelling) for labelling in y]
            total = sum(lattice.score(path) for lattice, path in zip(x, ids, strict=True))
            tokens = {"tokens": [word for words, _ in document for word in words]}
            flat = [label for labelling in y for label in labelling]
            worse += score - (total - best * RULE.violations(flat, labels, tokens)) > 1e-9
        for name, guessed in (("plain", plain), ("agreement", agreed), ("vote", voted)):
            rows = [counts_of(labels, document, y) for document, y in zip(test_set, guessed, strict=True)]
            counts[name].append(np.array(rows))
        line = ", ".join(f"{name} {f1(rows[-1]):.2%}" for name, rows in counts.items())
        print(f"split {split}: penalty {best:g}; F1 {line}; proved {optimal} of {len(test_set)}", flush=True)
    whole = {name: np.concatenate(rows) for name, rows in counts.items()}
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(whole["plain"]), (DRAWS, len(whole["plain"])))
    for name in ("agreement", "vote"):
        gains = np.array([f1(whole[name][draw]) - f1(whole["plain"][draw]) for draw in draws])
        low, high = np.quantile(gains, [0.025, 0.975])
        gain, left = f1(whole[name]) - f1(whole["plain"]), 1 - f1(whole["plain"])
        p = 2 * min((gains <= 0).mean(), (gains >= 0).mean())
        print(
            f"{name}: {f1(whole['plain']):.2%} -> {f1(whole[name]):.2%}, gain {gain:+.2%} (95 % from {low:+.2%} to "
            f"{high:+.2%}), {gain / left:+.1%} of the errors, p = {p:.4f}"
        )
    print(f"proved: {proved} of {tested} documents; the vote is not the best labelling of {worse} of {tested}")


if __name__ == "__main__":
    main()
