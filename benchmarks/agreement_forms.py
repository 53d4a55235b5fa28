"""Forms of agreement between the tokens of a document, compared on Wikigold with a CRF without rules.

    python benchmarks/agreement_forms.py --data DIR

Each form gives a token a key, and tokens with equal keys should have one type; "no key" is a token on its own:

    tokens             its text, if it begins with a capital
    ignoring case      the same, without regard to case
    without s          the same, without a plural or genitive s: what lemmas would give
    phrases            capitalised tokens in a row are one phrase; its k-th token has the phrase and k as its key
    not first          as tokens, but the first token of a sentence has none
    longer than 3      as tokens, but tokens of up to three characters have none
    a price per type   as tokens, with a price for each type that a token has or has not

Five random splits by document: 60 % for the CRF, 20 % to choose the penalty, 20 % to test. F1 of segments over the test
documents of all splits, with a paired bootstrap over documents against `tokens`.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bridle
from bridle.automata import CountingAutomaton, LazyAutomaton
from bridle.rules.equal import Equal, SameLabelForEqual
from measure import told, where

Sentence = tuple[list[str], list[str]]  # words and labels
Document = list[Sentence]
Keys = Callable[[list[str]], list[str]]
PENALTIES = (0.5, 1.0, 2.0, 3.0, 5.0)
KEY, NONE = "K:", "-"
SPLITS, DRAWS = 5, 10_000


def read(folder: Path) -> list[Document]:
    """The documents of Wikigold."""
    text = gzip.decompress((folder / "ner-wikigold" / "wikigold.conll.txt.gz").read_bytes()).decode()
    documents: list[Document] = [[]]
    for block in text.split("\n\n"):
        rows = [line.split(" ") for line in block.splitlines() if line.strip()]
        if rows and rows[0][0] == "-DOCSTART-":
            documents.append([])
        elif rows:
            documents[-1].append(([row[0] for row in rows], [row[1] for row in rows]))
    return [document for document in documents if document]


def keyed(key: Callable[[str], str]) -> Keys:
    """Keys of capitalised tokens."""
    return lambda words: [KEY + key(word) if word[:1].isupper() else NONE for word in words]


def phrases(words: list[str]) -> list[str]:
    """Keys of tokens in phrases: capitalised tokens in a row."""
    keys, first = [], 0
    for t, word in enumerate(words):
        if not word[:1].isupper():
            first = t + 1
            keys.append(NONE)
            continue
        last = next((u for u in range(t, len(words)) if not words[u][:1].isupper()), len(words))
        keys.append(f"{KEY}{' '.join(words[first:last])} {t - first}")
    return keys


def not_first(words: list[str]) -> list[str]:
    """Keys of capitalised tokens behind the first."""
    return [NONE, *FORMS["tokens"](words)[1:]]


def longer(words: list[str]) -> list[str]:
    """Keys of capitalised tokens of four characters and more."""
    return [key if len(word) > 3 else NONE for word, key in zip(words, FORMS["tokens"](words), strict=True)]


FORMS: dict[str, Keys] = {
    "tokens": keyed(str),
    "ignoring case": keyed(str.casefold),
    "without s": keyed(lambda word: re.sub(r"'?s$", "", word)),
    "phrases": phrases,
    "not first": not_first,
    "longer than 3": longer,
}


@dataclass(frozen=True)
class OneType(SameLabelForEqual):
    """Tokens with equal keys have this type, or none of them has."""

    kind: str = ""

    def tables(self, sets: Any, labels: bridle.Labels, marks: tuple[int, ...]) -> list[CountingAutomaton]:
        kinds = np.array([name == self.kind for name in labels.type_of], dtype=np.uint16)

        def step(last: Any, y: int, mark: int) -> tuple[Any, int]:
            return (kinds[y], int(last not in (None, kinds[y]))) if mark else (last, 0)

        return [CountingAutomaton.build(LazyAutomaton(None, step, classes=kinds), len(kinds), (0, 1))]


class Split:
    """One split, with its model."""

    def __init__(self, documents: list[Document], seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(documents)).tolist()
        low, high = round(0.6 * len(documents)), round(0.8 * len(documents))
        train, self.dev, self.test = (
            [documents[d] for d in part] for part in (order[:low], order[low:high], order[high:])
        )
        X, y = ([sentence[k] for document in train for sentence in document] for k in (0, 1))
        self.model = bridle.CRF(features="ner", c1=0.1, c2=0.1, seed=seed).fit(X, y)
        self.lattices = {id(x): [self.model.lattice(words) for words, _ in x] for x in self.dev + self.test}

    def counts(self, documents: list[Document], rules: Sequence[Any], keys: Keys) -> npt.NDArray[np.int64]:
        """Segments right, guessed and gold of each document, (D, 3)."""
        decoder = self.model.decoder(rules, time_limit=20.0)
        given = [[{"tokens": keys(words)} for words, _ in document] for document in documents]
        decodings = decoder.decode_documents([self.lattices[id(x)] for x in documents], given)
        rows = []
        for document, decoding in zip(documents, decodings, strict=True):
            pairs = [(segments(y), segments(gold)) for y, (_, gold) in zip(decoding.labels, document, strict=True)]
            rows.append([sum(len(a & b) for a, b in pairs), *(sum(len(p[k]) for p in pairs) for k in (0, 1))])
        return np.array(rows, dtype=np.int64)

    def one_price(self, keys: Keys) -> tuple[list[Any], float]:
        """The agreement rule with the penalty that is best on the development documents."""
        rule = bridle.rules.in_document(bridle.rules.same_label_for_equal(bridle.rules.tokens(f"{KEY}.*")))
        rules = [[rule.soft(penalty, per="violation")] for penalty in PENALTIES]
        values = [f1(self.counts(self.dev, its, keys).sum(axis=0)) for its in rules]
        best = int(np.argmax(values))
        return rules[best], PENALTIES[best]

    def price_per_type(self, first: float) -> list[Any]:
        """A rule for each type; half the common penalty, then one type after another by what is best."""
        keys = FORMS["tokens"]
        prices = dict.fromkeys(sorted(self.model.labels_.types), first / 2)

        def rules(prices: dict[str, float]) -> list[Any]:
            equal = Equal(bridle.rules.tokens(f"{KEY}.*"))
            return [
                bridle.rules.in_document(OneType(equal, k)).soft(v, per="violation") for k, v in prices.items() if v
            ]

        best = f1(self.counts(self.dev, rules(prices), keys).sum(axis=0))
        for kind in prices:
            for factor in (0.0, 0.5, 2.0, 4.0):
                other = {**prices, kind: factor * first / 2}
                value = f1(self.counts(self.dev, rules(other), keys).sum(axis=0))
                if value > best:
                    best, prices = value, other
        return rules(prices)


def segments(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Segments of IO or BIO labels: begin, end and type."""
    result, begin = set(), 0
    for t, label in enumerate([*labels, "O"]):
        before = labels[t - 1] if t else "O"
        if label[:2] == "B-" or label[2:] != before[2:]:
            if before != "O":
                result.add((begin, t, before[2:]))
            begin = t
    return result


def f1(counts: npt.NDArray[Any]) -> Any:
    """F1, in per cent, of segments right, guessed and gold in the last axis."""
    return 200 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), help="folder of the data sets")
    chosen = parser.parse_args()
    if chosen.data is None:
        parser.error("--data DIR, or the variable BRIDLE_DATA, is needed")
    print(told(where()))
    documents, counts = read(chosen.data), dict[str, list[Any]]()
    for seed in range(SPLITS):
        split = Split(documents, seed)
        counts.setdefault("no rules", []).append(split.counts(split.test, [], FORMS["tokens"]))
        common = 0.0
        for name, keys in FORMS.items():
            rules, penalty = split.one_price(keys)
            common = penalty if name == "tokens" else common
            counts.setdefault(name, []).append(split.counts(split.test, rules, keys))
        priced = split.price_per_type(common)
        counts.setdefault("a price per type", []).append(split.counts(split.test, priced, FORMS["tokens"]))
    whole = {name: np.concatenate(parts) for name, parts in counts.items()}
    weights = np.random.default_rng(0).multinomial(
        len(whole["tokens"]), np.full(len(whole["tokens"]), 1 / len(whole["tokens"])), size=DRAWS
    )
    print(f"\n{'form':<18} {'F1, %':>7} {'against tokens (95 % interval)':>32}")
    for name, rows in whole.items():
        difference = f1(weights @ rows) - f1(weights @ whole["tokens"])
        low, high = np.quantile(difference, [0.025, 0.975])
        gain = f1(rows.sum(axis=0)) - f1(whole["tokens"].sum(axis=0))
        print(f"{name:<18} {f1(rows.sum(axis=0)):7.2f} {gain:+12.2f} ({low:+.2f} to {high:+.2f})")


if __name__ == "__main__":
    main()
