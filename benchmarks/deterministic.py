"""Deterministic rules beside Zhao & Marcus (2012): Tables 6, 7 and 8; how fast they are learned and fire.

    python benchmarks/deterministic.py --data DIR            (or BRIDLE_DATA)

Needs pos-ewt, pos-ptb-sample, pos-brown and cws-pku under DIR; what is missing is left out and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bridle.data import Example, read
from bridle.learn import DeterministicRules

OUT = Path(__file__).parent / "out" / "deterministic.json"
PAPER_6 = {"bigram": (0.993, 0.841, 0.911), "trigram": (0.996, 0.608, 0.755), "both": (0.992, 0.857, 0.920)}
PAPER_8 = {"BMES": (0.989, 0.566, 0.720), "BI": (0.996, 0.686, 0.812)}
Pairs = tuple[list[Any], list[list[str]]]


def pairs(examples: Iterator[Example]) -> Pairs:
    """X and y."""
    X, y = [], []
    for example in examples:
        X.append(dict(example.columns))
        y.append(list(example.labels or ()))
    return X, y


def by_document(path: Path) -> tuple[Pairs, Pairs]:
    """Nine tenths of the documents, and the others; a comment line `# doc=...` begins a document."""
    documents: dict[str, list[Example]] = {}
    for example in read(path, "conll"):
        name = next((w for c in example.comments for w in c.split() if w.startswith("doc=")), "doc=")
        documents.setdefault(name, []).append(example)
    names = list(documents)
    held = set(names[::10])
    return (
        pairs(e for name in names if name not in held for e in documents[name]),
        pairs(e for name in names if name in held for e in documents[name]),
    )


def corpora(data: Path) -> Iterator[tuple[str, Pairs, Pairs]]:
    """Name, training and held-out data of the part-of-speech corpora."""
    ewt = data / "pos-ewt"
    yield "pos-ewt, dev", pairs(read(ewt / "en_ewt-ud-train.conllu.gz")), pairs(read(ewt / "en_ewt-ud-dev.conllu.gz"))
    yield "pos-ptb-sample, a tenth of the documents", *by_document(data / "pos-ptb-sample" / "wsj_0001-0199.pos.gz")


def row(name: str, rules: DeterministicRules, held: Pairs, paper: tuple[float, ...]) -> dict[str, Any]:
    counts = rules.score(*held)
    ours = (counts.precision, counts.recall, counts.f1)
    shown = " | ".join(f"{a:.3f} ({b:.3f})" for a, b in zip(ours, paper, strict=True))
    print(f"| {name} | {shown} | {rules.n_rules_:,} |")
    figures = dict(zip(("precision", "recall", "f1"), ours, strict=True))
    return {"name": name, **figures, "rules": rules.n_rules_, "paper": paper}


def words(data: Path) -> Iterator[dict[str, Any]]:
    for name, train, held in corpora(data):
        print(f"\n**{name}**: ours (Zhao & Marcus, Table 6, on the Wall Street Journal)\n")
        print("| contexts | precision | recall | F1 | rules |\n|---|---|---|---|---|")
        for contexts, paper in PAPER_6.items():
            rules = DeterministicRules(contexts=contexts).fit(*train)  # type: ignore[arg-type]
            yield {"corpus": name, **row(contexts, rules, held, paper)}
        print("\nRules with morph features, as in Table 7:\n")
        for line in islice((x for x in rules.lines() if "{" in x and "</s>" not in x and "<s>" not in x), 0, 400, 80):
            print(f"    {line}")


def characters(data: Path) -> Iterator[dict[str, Any]]:
    whole = data / "cws-pku" / "199801.txt.gz"
    print("\n**cws-pku, the last tenth of the lines**: ours (Table 8, on the Chinese Treebank)\n")
    print("| tagset | precision | recall | F1 | rules |\n|---|---|---|---|---|")
    for scheme, paper in PAPER_8.items():
        lines = [list(e.columns["word"]) for e in read(whole, "slashed")]
        X = [{"char": list("".join(line))} for line in lines]
        y = [[tag for word in line for tag in tags(len(word), scheme)] for line in lines]
        cut = len(X) * 9 // 10
        begun = time.perf_counter()
        rules = DeterministicRules("characters").fit(X[:cut], y[:cut])
        seconds = time.perf_counter() - begun
        n = sum(map(len, y[:cut]))
        figures = row(scheme, rules, (X[cut:], y[cut:]), paper)
        yield {"corpus": "cws-pku", "seconds": seconds, "characters": n, **figures}
        print(f"learned from {n:,} characters in {seconds:.1f} s", file=sys.stderr)


def tags(n: int, scheme: str) -> str:
    if scheme == "BI":
        return "B" + "I" * (n - 1)
    return "S" if n == 1 else "B" + "M" * (n - 2) + "E"


def speed(data: Path) -> Iterator[dict[str, Any]]:
    """A million tokens: learning, memory, firing."""
    train, held = by_document(data / "pos-brown" / "brown.pos.gz")
    n, new = sum(map(len, train[1])), sum(map(len, held[1]))
    begun = time.perf_counter()
    rules = DeterministicRules().fit(*train)
    learning = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    best = min(_seconds(rules, held[0]) for _ in range(5))
    print(
        f"\n**pos-brown**: {rules.n_rules_:,} rules from {n:,} tokens in {learning:.1f} s (wanted: under 300), "
        f"peak memory {peak:.2f} GB (wanted: under 4); they fire on {new / best:,.0f} tokens a second in one thread "
        f"(wanted: 1,000,000)"
    )
    yield {
        "corpus": "pos-brown",
        "rules": rules.n_rules_,
        "tokens": n,
        "seconds": learning,
        "gigabytes": peak,
        "fires_per_second": new / best,
    }


def _seconds(rules: DeterministicRules, X: list[Any]) -> float:
    begun = time.perf_counter()
    rules.decide(X, threads=1)
    return time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), help="the folder of the corpora")
    parser.add_argument("--json", type=Path, default=OUT)
    asked = parser.parse_args()
    if asked.data is None or not asked.data.is_dir():
        print("where is the data? --data DIR, or BRIDLE_DATA", file=sys.stderr)
        return 2
    rows: list[dict[str, Any]] = []
    for part, folder in ((words, "pos-ewt"), (characters, "cws-pku"), (speed, "pos-brown")):
        if (asked.data / folder).is_dir():
            rows += part(asked.data)
        else:
            print(f"left out: there is no {folder}", file=sys.stderr)
    asked.json.parent.mkdir(exist_ok=True)
    asked.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
