"""The rules of ingredient-parser, decoded exactly, beside its own decoding and repair.

    python benchmarks/ingredients.py [--sentences 3000]

Needs ingredient-parser-nlp, whose model, features and decoder are used as they are. Its sentences are not part of the
wheel, so these are made up: quantities, units, names and alternatives ("red or white wine"), with foods of the list
that it ships. There are no gold labels; what is counted is agreement, broken rules, scores and time. Its features
include parts of speech by NLTK, whose data comes from the web; without --tags nltk, rules of thumb replace it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
from importlib.resources import files
from typing import Any

from ingredient_parser.en import PreProcessor, preprocess
from ingredient_parser.en._loaders import load_ingredient_tagdict, load_parser_model
from ingredient_parser.inference import PROHIBITED_TRANSITIONS

import bridle
from bridle.integrations.crfsuite import Tagger, from_weights
from bridle.rules import Rule, parse
from measure import best_calls, told, where

NAMES = ["B_NAME_TOK", "I_NAME_TOK", "NAME_VAR", "NAME_MOD", "NAME_SEP"]
AMOUNTS = ["1", "2", "1/2", "3/4", "2-3", "1 1/2", "a", "500", "one", "about 2", ""]
UNITS = ["cup", "cups", "tbsp", "teaspoons", "g", "oz", "lb", "cloves", "(14 oz) can", "large", "small", "pinch of", ""]
KINDS = ["fresh", "red or white", "dried or fresh", "low-sodium chicken or vegetable", "extra virgin", "frozen", "", ""]
AFTER = [", chopped", ", finely diced", " (optional)", " to taste", ", for serving", ", plus extra", "", "", ""]
PLAIN = ["olive oil", "butter", "sugar", "basil", "onion", "garlic", "stock", "wine", "salt", "pepper", "milk", "tofu"]


CLOSED = {
    "a": "DT",
    "the": "DT",
    "or": "CC",
    "and": "CC",
    "of": "IN",
    "to": "TO",
    "for": "IN",
    "with": "IN",
    "in": "IN",
}


def simple_tags(tokens: list[str]) -> list[tuple[str, str]]:
    """Parts of speech by rules of thumb and the list of words that ingredient-parser ships."""
    known = load_ingredient_tagdict()

    def tag(token: str) -> str:
        if token[0].isdigit() or token in ("one", "two", "three"):
            return "CD"
        if not any(letter.isalpha() for letter in token):
            return token if token in (",", ".", "(", ")", ":") else "SYM"
        if (tag := known.get(token, CLOSED.get(token.lower()))) is not None:
            return tag
        endings = {"ly": "RB", "ed": "VBN", "ing": "VBG", "less": "JJ", "ous": "JJ", "al": "JJ", "s": "NNS"}
        return next((name for ending, name in endings.items() if token.endswith(ending)), "NN")

    return [(token, tag(token)) for token in tokens]


def model() -> bridle.CRF:
    """Read the model of ingredient-parser from the JSON file of its wheel; its weights are integers."""
    data = json.loads(gzip.decompress((files("ingredient_parser.en") / "data/model.en.json.gz").read_bytes()))

    def weights(kind: str) -> dict[tuple[str, str], float]:
        scale = data["quantization_scale"]
        return {(a, b): w / scale for (a, b), w in ((key.split("\x1f"), w) for key, w in data[kind].items())}

    return from_weights(list(data["labels"]), weights("state_features"), weights("transitions"), scheme=None)


def rules(labels: list[str]) -> list[Rule]:
    """Its table of transitions, what its decoder and its repair are about, and that there should be a name."""
    rest = " | ".join(label for label in labels if label not in ("B_NAME_TOK", "I_NAME_TOK", "NAME_SEP"))
    name = f"({rest})* (B_NAME_TOK (B_NAME_TOK | I_NAME_TOK | {rest})*)?"
    return [
        *(parse(f"forbid {a} then {b}") for a, others in PROHIBITED_TRANSITIONS.items() for b in sorted(others)),
        parse(f'matches "({name} NAME_SEP)* {name}"'),  # no I_NAME_TOK before the B_NAME_TOK that it goes on from
        parse("(present NAME_VAR) implies (at least 2 segments of NAME_VAR)"),
        parse("NAME_VAR followed by B_NAME_TOK"),
        # A name, if a labelling with one is at least 0.15 times as probable as the best one without.
        parse(f"at least 1 token of {', '.join(NAMES)}").soft(-math.log(0.15)),
    ]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences that recipes could have."""
    rng = random.Random(seed)
    lines = (
        gzip.decompress((files("ingredient_parser.en") / "data/fdc_ingredients.csv.gz").read_bytes())
        .decode()
        .splitlines()
    )
    foods = [line.split(",")[2].strip('" ').lower() for line in lines[1:] if line.count(",") >= 3]
    ingredients = []
    for _ in range(count):
        names = [rng.choice(PLAIN if rng.random() < 0.5 else foods) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
        name = rng.choice([" or ", " and ", ", ", " and/or ", " or other "]).join(names)
        parts = [rng.choice(AMOUNTS), rng.choice(UNITS), rng.choice(KINDS), name]
        ingredients.append(" ".join(part for part in parts if part) + rng.choice(AFTER))
    return ingredients


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=3000, help="how many (default: 3,000)")
    parser.add_argument(
        "--tags", choices=["nltk", "simple"], default="simple", help="parts of speech (default: simple)"
    )
    chosen = parser.parse_args()
    if chosen.tags == "simple":
        preprocess.pos_tag = simple_tags
    xs: list[list[Any]] = [PreProcessor(text).sentence_features() for text in sentences(chosen.sentences)]
    xs = [x for x in xs if x]
    print(told(where()))
    print(f"parts of speech: {chosen.tags}")
    print(f"{len(xs):,} sentences of {sum(map(len, xs)) / len(xs):.1f} tokens")
    crf, theirs = model(), load_parser_model()
    asked = rules(list(crf.labels_.names))
    ours = Tagger(crf, rules=asked, on_infeasible="relax")
    repaired = [[label for label, _ in theirs.tag_from_features(x)] for x in xs]
    exact = [ours.tag(x) for x in xs]
    plain = list(map(Tagger(crf).tag, xs))
    hard, soft = asked[:-1], asked[-1]

    def breaks(y: list[str]) -> bool:
        return any(rule.violations(crf.labels_.ids(y).tolist(), crf.labels_) for rule in hard)

    def score(x: list[Any], y: list[str]) -> float:
        ids = crf.labels_.ids(y)
        return crf.lattice(x).score(ids) - soft.cost(soft.violations(ids.tolist(), crf.labels_))

    for what, labellings in (("no rules", plain), ("its decoder and repair", repaired), ("rules, exact", exact)):
        print(f"{what:24} {sum(map(breaks, labellings)):6,} labellings break a hard rule")
    differ = [(x, a, b) for x, a, b in zip(xs, repaired, exact, strict=True) if a != b]
    invalid = [pair for pair in differ if breaks(pair[1])]
    lost = [score(x, b) - score(x, a) for x, a, b in differ if not breaks(a)]
    less = [loss for loss in lost if loss > 1e-9]
    print(f"repaired and exact labellings differ: {len(differ):,}")
    print(f"  the repaired one breaks a hard rule: {len(invalid):,}")
    mean = sum(less) / max(1, len(less))
    print(
        f"  it obeys them but scores less: {len(less):,}, by {mean:.1f} on average; as much: {len(lost) - len(less):,}"
    )
    a, b = best_calls(5, (theirs.tag_from_features, xs), (ours.tag, xs))
    print(f"microseconds per sentence, features made: theirs {a:.0f}, ours {b:.1f}: {a / b:.0f}x")


if __name__ == "__main__":
    main()
