"""Rules on the model of usaddress, against labelled addresses: "each component once", hard, soft and tuned.

    python benchmarks/usaddress_rules.py --data DIR

Needs usaddress, and in DIR/addresses-usaddress the labelled addresses of its repository (`train_*.xml.gz`,
`test_*.xml.gz`). A parse that has a component twice makes `usaddress.tag` raise RepeatedLabelError. Prices are tuned on
the training files, and everything is counted on both; the model of usaddress has seen the training files.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import usaddress

import bridle
from bridle.data import read
from bridle.integrations.crfsuite import Tagger, load
from bridle.learn import tune_rules
from bridle.rules import Rule
from measure import best_of, told, where

MODEL = Path(usaddress.__file__).with_name("usaddr.crfsuite")
STREETS = [label for label in usaddress.LABELS if "StreetName" in label]  # an intersection has two streets
OTHERS = [label for label in usaddress.LABELS if label not in STREETS]
ONCE = [
    f"no duplicates of {', '.join(OTHERS)}",
    f"(present IntersectionSeparator) or (no duplicates of {', '.join(STREETS)})",
]
CORE = "no duplicates of AddressNumber, PlaceName, StateName, ZipCode"
NUMBERS = "AddressNumber, OccupancyIdentifier, SubaddressIdentifier, USPSBoxID, ZipCode"
ZIP = rf"allow {NUMBERS} at tokens /\d{{5}},?/"  # a token of five digits is one of these


def raises(labels: Sequence[str]) -> bool:
    """Would `usaddress.tag` raise RepeatedLabelError? A label with two segments, but for streets of an intersection."""
    seen: list[str] = []
    second = ""
    for label in labels:
        second = "Second" if label == "IntersectionSeparator" else second
        name = second + label if "StreetName" in label else label
        if seen[-1:] != [name]:
            if name in seen:
                return True
            seen.append(name)
    return False


class Addresses:
    """Labelled addresses with the features of usaddress."""

    def __init__(self, folder: Path, part: str) -> None:
        paths = sorted(folder.glob(f"{part}_*.xml.gz"))
        every = [example for path in paths for example in read(path, "parserator", on_error="skip")]
        # Some gold tokens are not what usaddress makes of the text.
        examples = [
            example for example in every if usaddress.tokenize(" ".join(example.tokens)) == list(example.tokens)
        ]
        self.left_out = len(every) - len(examples)
        self.tokens = [list(example.tokens) for example in examples]
        self.gold = [list(example.labels or ()) for example in examples]
        self.features = [usaddress.tokens2features(tokens) for tokens in self.tokens]
        self.given = [{"tokens": tokens} for tokens in self.tokens]


def row(what: str, data: Addresses, rules: Sequence[Rule | str]) -> list[list[str]]:
    """Print a row of the table; the labellings."""
    tagger = Tagger(MODEL, rules=rules)
    parses: list[list[str]] = []

    def tag() -> None:
        parses[:] = [tagger.tag(x, given) for x, given in zip(data.features, data.given, strict=True)]

    (seconds,) = best_of(3, tag)
    pairs = list(zip(parses, data.gold, strict=True))
    right = sum(guess == gold for guess, gold in pairs)
    tokens = sum(a == b for guess, gold in pairs for a, b in zip(guess, gold, strict=True))
    total = sum(map(len, data.gold))
    print(
        f"  {what:44} {right:7,} {100 * right / len(pairs):7.2f} % {100 * tokens / total:7.2f} %"
        f" {sum(map(raises, parses)):8} {1e6 * seconds / len(parses):8.1f}"
    )
    return parses


def compared(plain: list[list[str]], ruled: list[list[str]], gold: list[list[str]]) -> str:
    """Count the parses that rules changed: right before, right now."""
    changed = [(a, b, y) for a, b, y in zip(plain, ruled, gold, strict=True) if a != b]
    better, worse = sum(b == y for _, b, y in changed), sum(a == y for a, _, y in changed)
    return f"{len(changed)} changed: {better} made right, {worse} made wrong"


def where_it_raises(plain: list[list[str]], ruled: list[list[str]], gold: list[list[str]]) -> str:
    """Describe the answers of rules for addresses that have no answer without them."""
    some = [(b, y) for a, b, y in zip(plain, ruled, gold, strict=True) if raises(a)]
    right = sum(a == b for guess, y in some for a, b in zip(guess, y, strict=True))
    return f"{len(some)} addresses get an answer, {right / sum(len(y) for _, y in some):.1%} of their tokens right"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("BRIDLE_DATA"), help="folder of data sets (or BRIDLE_DATA)")
    folder = parser.parse_args().data
    if folder is None:
        raise SystemExit("--data DIR is missing: the folder that holds addresses-usaddress")
    print(told(where()))
    train, test = (Addresses(Path(folder) / "addresses-usaddress", part) for part in ("train", "test"))
    model = load(MODEL)
    tuned = tune_rules(model, [*ONCE, CORE, ZIP], train.features, train.gold, given=train.given, scores="model")
    priced = tuned.rules
    print("tuned on the training files:", *tuned.lines(), sep="\n  ")
    ways: list[tuple[str, list[Any]]] = [
        ("no rules", []),
        ("each component once", ONCE),
        ("each component once, penalty 2", [bridle.rules.parse(rule).soft(2.0) for rule in ONCE]),
        ("number, place, state and ZIP code once", [CORE]),
        ("five digits: one of five labels", [ZIP]),
        ("both", [CORE, ZIP]),
        ("tuned", list(priced)),
    ]
    for name, data in (("training files", train), ("test files", test)):
        counts = f"{len(data.gold):,} addresses ({data.left_out:,} of other tokens left out)"
        print(f"{name}: {counts}, {sum(map(raises, data.gold))} with a component twice in gold")
        print(f"  {'':44} {'right':>7} {'':9} {'tokens':>9} {'raise':>8} {'us each':>8}")
        plain: list[list[str]] = []
        for what, rules in ways:
            parses = row(what, data, rules)
            plain = plain or parses
            if rules:
                print(f"    {compared(plain, parses, data.gold)}")
            if rules == ONCE:
                print(f"    where usaddress.tag raises: {where_it_raises(plain, parses, data.gold)}")


if __name__ == "__main__":
    main()
