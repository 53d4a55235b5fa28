"""Costs of bridle_tagger in a spaCy pipeline: tokens per second beside Bridle alone and beside spaCy's own parts.

    python benchmarks/spacy_pipe.py [--copies 20] [--repeats 5] [--json benchmarks/out/spacy_pipe.json]

References that come with Bridle, in a style that the model has not seen, are decoded under four rules, on one thread:

    alone        model.decode on lists of words: no documents
    ents, tags   bridle_tagger in nlp.pipe on existing documents
    tokenizer    nlp.make_doc: what every pipeline of spaCy does first
    tagger       spaCy's own tagger, trained for a moment on the same labels, in nlp.pipe on such documents

All of them take turns; the least processor time of some repeats counts. The last column is that time in tokenizers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.training import Example

import bridle
from bridle.data import references

RULES = [
    "at most 1 segment of AUTHOR",
    "at most 1 segment of TITLE",
    "at most 1 segment of VENUE",
    "AUTHOR before TITLE",
]


def trained(words: list[list[str]], labels: list[list[str]]) -> bridle.models.Tagger:
    """The model of Bridle."""
    templates = ["word[0]", "word[-1]", "word[1]", "suffix2[0]", "label[-1]"]
    return bridle.CRF(features=templates, scheme="IO", iterations=30).fit(words, labels)


def with_component(name: str, **config: Any) -> spacy.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe(name, config=config)
    return nlp


def spacy_tagger(words: list[list[str]], labels: list[list[str]]) -> spacy.Language:
    """spaCy's own tagger; its speed does not depend on how well it is trained."""
    nlp = with_component("tagger")
    pairs = zip(words[:50], labels[:50], strict=True)
    examples = [Example.from_dict(Doc(nlp.vocab, words=row), {"tags": tags}) for row, tags in pairs]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    return nlp


def measured(copies: int, repeats: int) -> tuple[int, dict[str, float]]:
    """The number of tokens, and seconds of each."""
    known, unknown = references.split(100)
    data = references.references("acm", "ieee", of=known)
    words, labels = [list(example.columns["word"]) for example in data], [list(example.labels) for example in data]
    model, tagger = trained(words, labels), spacy_tagger(words, labels)
    texts = [references.cite(work, "chicago").text for work in unknown] * copies
    pipelines = {name: with_component("bridle_tagger", sets=name, rules=RULES) for name in ("ents", "tag")}
    for nlp in pipelines.values():
        nlp.get_pipe("bridle_tagger").model = model
    rows = [[token.text for token in tagger.make_doc(text)] for text in texts]
    decoder = model.decoder(RULES)
    best: dict[str, float] = {}

    def timed(name: str, run: Callable[[], Any]) -> None:
        start = time.process_time()
        run()
        best[name] = min(best.get(name, float("inf")), time.process_time() - start)

    for _ in range(repeats):
        timed("alone", lambda: model.decode(rows, decoder, threads=1))
        timed("tokenizer", lambda: list(map(tagger.make_doc, texts)))
        for name, nlp in [*pipelines.items(), ("tagger", tagger)]:
            docs = [nlp.make_doc(text) for text in texts]
            timed(name, lambda nlp=nlp, docs=docs: list(nlp.pipe(docs, batch_size=256)))
    return sum(map(len, rows)), best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=20, help="how often the references are repeated")
    parser.add_argument("--repeats", type=int, default=5, help="the least of so many counts")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    tokens, seconds = measured(asked.copies, asked.repeats)
    print(f"{tokens:,} tokens, {bridle.simd().processor}, {bridle.simd().tier}")
    for name, took in seconds.items():
        print(f"{name:10}{tokens / took:>12,.0f} tokens/s {took / seconds['tokenizer']:8.2f}")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"tokens": tokens, "seconds": seconds}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
