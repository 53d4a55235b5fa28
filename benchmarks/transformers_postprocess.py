"""The last step of token classification in transformers: theirs, and ours without and with rules, on the same logits.

    python benchmarks/transformers_postprocess.py             # needs pip install 'bridle-nlp[transformers]'

Texts of a few words, of a sentence and of a page go through both pipelines; words are labelled by first sub-words. The
logits are made up: mostly sure of an entity every eight words, sometimes wrong; no network runs. Then there is a
document of 128,000 tokens with the 33 labels of openai/privacy-filter: how long it takes to decode it, and to join its
windows, decode it and write its entities. All sides run in turn, and the least time of some rounds counts.
"""

from __future__ import annotations

import argparse
import random
from functools import partial
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, TokenClassificationPipeline
from transformers.pipelines.token_classification import AggregationStrategy

from bridle.integrations.transformers import ConstrainedPipeline, pipeline, privacy_filter
from bridle.integrations.transformers.constrained_pipeline import LogitsModel
from measure import best_of, told, where

LABELS = ["O", *(f"{tag}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for tag in "BI")]
RULES = ["well formed", "no duplicates of MISC", "at most 3 segments of ORG", "PER before LOC  [penalty 2]"]
FIRST, SIMPLE = AggregationStrategy.FIRST, AggregationStrategy.SIMPLE
WINDOW, SHARED = 4096, 1024


def word_piece() -> Any:
    """A tokenizer of 1,000 words and the letters; every third word of the texts is not among them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [f"{a}{b}{c}" for a in letters[:10] for b in letters[:10] for c in letters[:10]]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *letters, *(f"##{x}" for x in letters)]
    tokenizer = Tokenizer(models.WordPiece({word: k for k, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", model_max_length=512
    )


def text_of(words: int, rng: random.Random) -> str:
    return " ".join("".join(rng.choices("abcdefghij", k=rng.choice([3, 3, 4]))) for _ in range(words))


def logits_of(count: int, m: int, rng: np.random.Generator) -> torch.Tensor:
    """(1, T, m) logits."""
    logits = rng.normal(size=(count, m)).astype(np.float32)
    logits[:, 0] += 6
    for t in np.flatnonzero(rng.random(count) < 1 / 8).tolist():
        logits[t, rng.integers(1, m)] += rng.uniform(4, 12)
    return torch.from_numpy(logits)[None]


def outputs_of(pipe: ConstrainedPipeline, text: str, rng: np.random.Generator, **options: Any) -> list[dict[str, Any]]:
    """Return the input of the last step, with logits that are made up."""
    before = pipe._sanitize_parameters(**options)[0]
    m = len(pipe.labels)
    return [{**x, "logits": logits_of(x["input_ids"].shape[1], m, rng)} for x in pipe.preprocess(text, **before)]


def short_texts(rounds: int) -> None:
    """Microseconds per text."""
    tokenizer, model = word_piece(), LogitsModel(lambda **_: None)
    model.config.id2label = dict(enumerate(LABELS))  # type: ignore[attr-defined]
    stock = TokenClassificationPipeline.__new__(TokenClassificationPipeline)  # its last step needs these two only
    stock.model, stock.tokenizer = model, tokenizer
    plain, ruled = (pipeline(model, tokenizer, rules=rules, on_infeasible="relax") for rules in ([], RULES))
    print(f"{'words':>6} {'transformers':>13} {'no rules':>10} {'4 rules':>10}   times as fast")
    for words in (5, 30, 300):
        rng, noise = random.Random(words), np.random.default_rng(words)
        inputs = [outputs_of(plain, text_of(words, rng), noise) for _ in range(3000 // words)]
        same = [[(e["entity_group"], e["start"]) for e in p.postprocess(inputs[0], FIRST)] for p in (stock, plain)]
        assert same[0] == same[1], "without rules the entities are the same"

        def last_step(pipe: Any, inputs: Any = inputs) -> None:
            for windows in inputs:
                pipe.postprocess(windows, FIRST)

        took = best_of(rounds, *(partial(last_step, pipe) for pipe in (stock, plain, ruled)))
        theirs, ours, with_rules = (seconds / len(inputs) * 1e6 for seconds in took)
        ratios = f"{theirs / ours:.1f} without rules, {theirs / with_rules:.1f} with"
        print(f"{words:>6} {theirs:>10.0f} us {ours:>7.0f} us {with_rules:>7.0f} us   {ratios}")


def long_document(rounds: int, tokens: int = 128_000) -> None:
    """Milliseconds for one document."""
    names = ["O", *(f"{tag}-{kind}" for kind in range(8) for tag in "BIES")]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({word: k for k, word in enumerate(["[PAD]", *alphabet])}, merges=[]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]")
    rules = ["fix 0 at given digits"]
    pipe = privacy_filter(
        lambda **_: None, tokenizer, id2label=names, patterns={"digits": r"\b\d{8,}\b"}, window=WINDOW, stride=SHARED
    )
    rng = random.Random(0)
    text = " ".join("".join(rng.choices("abcdefghij0123456789", k=9)) for _ in range(tokens // 10 + 1))[:tokens]
    windows = outputs_of(pipe, text, np.random.default_rng(0), window=WINDOW, stride=SHARED)
    options = {"stride": SHARED, "patterns": pipe._postprocess_params["patterns"]}
    decoder = pipe.decoder.with_rules(rules)
    lattice = pipe.postprocess(windows, SIMPLE, explain=True, **options).explanation.lattice
    works = {
        "decoding alone": lambda: pipe.decoder.decode(lattice),
        "last step, no rules": lambda: pipe.postprocess(windows, SIMPLE, **options),
        "last step, a pattern": lambda: pipe.postprocess(windows, SIMPLE, decoder=decoder, **options),
    }
    print(f"\n{tokens:,} tokens, {len(names)} labels, {len(windows)} windows")
    for name, seconds in zip(works, best_of(max(2, rounds // 3), *works.values()), strict=True):
        print(f"{name:<22}{seconds * 1e3:8.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds, of which the fastest counts (9)")
    chosen = parser.parse_args()
    print(told(where()))
    short_texts(chosen.rounds)
    long_document(chosen.rounds)
