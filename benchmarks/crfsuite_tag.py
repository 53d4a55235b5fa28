"""Bridle's tagger beside python-crfsuite's, on the model and the features of usaddress: one call per sequence.

    python benchmarks/crfsuite_tag.py [--addresses 300] [--repeats 15]

Needs python-crfsuite and usaddress. The addresses are made up; features are made in advance, by usaddress itself: as
dicts (what it passes to its tagger), as lists of strings (the same without those that are False), and as an
ItemSequence, which python-crfsuite has converted before the clock runs. A long sequence is thirty addresses.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import pycrfsuite
import usaddress

from bridle.integrations.crfsuite import Tagger
from measure import best_calls, told, where

MODEL = Path(usaddress.__file__).with_name("usaddr.crfsuite")
RULES = [
    "no duplicates of AddressNumber, StreetName, PlaceName, StateName, ZipCode",
    "AddressNumber before PlaceName",
    "StateName before ZipCode",
]
# A long sequence of many addresses has many of each.
LOCAL = ["forbid ZipCode then PlaceName", "length of StateName at most 2", "not (starts with ZipCode)"]
STREETS = ["Main", "Oak", "Pine", "Maple", "Elm", "Washington", "Lake", "Hill", "Church", "Park", "2nd", "42nd"]
KINDS = ["St.", "Ave", "Blvd", "Road", "Dr", "Lane", "Court", "Pkwy", "street", "avenue"]
CITIES = ["Chicago", "New York", "San Francisco", "Boise", "St. Paul", "Des Moines", "Austin", "Salt Lake City"]
STATES = ["IL", "NY", "CA", "ID", "MN", "LA", "TX", "UT", "NV"]


def addresses(count: int, seed: int = 0) -> list[str]:
    """Addresses that people could write; some of them twice as long as usual."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        parts = [str(rng.randrange(1, 20_000)), rng.choice(["", "N", "S.", "West"]), rng.choice(STREETS)]
        parts += [rng.choice(KINDS), rng.choice(["", "", f"Apt {rng.randrange(99)}", f"Suite {rng.randrange(900)},"])]
        parts += [rng.choice(CITIES) + ",", rng.choice(STATES), f"{rng.randrange(10_000, 99_999)}"]
        lines.append(" ".join(part for part in parts if part))
    return lines


def listed(sequence: list[dict[str, Any]]) -> list[list[str]]:
    """Return the features as lists of strings."""
    items = pycrfsuite.ItemSequence(sequence).items()
    return [[name for name, value in token.items() if value] for token in items]


def compare(what: str, sequences: list[Any], ours: list[Any], repeats: int, rules: list[str] = RULES) -> None:
    """A row of the table: microseconds per sequence, without rules and with."""
    peer, plain, ruled = pycrfsuite.Tagger(), Tagger(MODEL), Tagger(MODEL, rules=rules)
    peer.open(str(MODEL))
    wrong = sum(peer.tag(x) != plain.tag(y) for x, y in zip(sequences, ours, strict=True))
    bitten = sum(ruled.tag(y) != plain.tag(y) for y in ours)
    theirs, own, under = best_calls(repeats, (peer.tag, sequences), (plain.tag, ours), (ruled.tag, ours))
    print(
        f"{what:34} {theirs:10.1f} {own:9.1f} {theirs / own:7.1f}x {under:9.1f} {theirs / under:7.1f}x"
        f" {wrong:9} {bitten:9}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--addresses", type=int, default=300, help="how many (default: 300)")
    parser.add_argument(
        "--repeats", type=int, default=15, help="calls for each sequence, of which the best counts (default: 15)"
    )
    chosen = parser.parse_args()
    dicts = [usaddress.tokens2features(usaddress.tokenize(text)) for text in addresses(chosen.addresses)]
    lists = [listed(x) for x in dicts]
    tokens, attributes = sum(map(len, dicts)), sum(len(token) for x in lists for token in x)
    print(told(where()))
    sizes = f"{tokens / len(dicts):.1f} tokens, {attributes / tokens:.1f} attributes per token that are not False"
    print(f"{len(dicts)} addresses: {sizes}; microseconds per sequence")
    print(f"{'':34} {'CRFsuite':>10} {'Bridle':>9} {'':8} {'3 rules':>9} {'':8} {'differ':>9} {'rules bit':>9}")
    joined = [[token for x in dicts[k : k + 30] for token in x] for k in range(0, len(dicts) - 29, 30)]
    long_lists = [listed(x) for x in joined]
    packed = [pycrfsuite.ItemSequence(x) for x in dicts]
    compare("dicts", dicts, dicts, chosen.repeats)
    compare("lists", lists, lists, chosen.repeats)
    compare("ItemSequence, both", packed, packed, chosen.repeats)
    compare("ItemSequence, Bridle from dicts", packed, dicts, chosen.repeats)
    compare("ItemSequence, Bridle from lists", packed, lists, chosen.repeats)
    if joined:
        compare("long, dicts", joined, joined, chosen.repeats, LOCAL)
        compare("long, lists", long_lists, long_lists, chosen.repeats, LOCAL)


if __name__ == "__main__":
    main()
