"""Tiny tokenizers and models of transformers, made in memory: nothing is fetched."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

torch.set_num_threads(1)  # for models of this size, more take longer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["total", "subtotal", "tax", "due", "date", "for", "from", "acme", "the", "invoice", "grand"]
LETTERS = string.ascii_lowercase + string.digits
VOCABULARY = [*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), ".", ",", ":", "-"]


def word_piece(length: int = 64) -> Any:
    """A tokenizer like that of BERT: unknown words fall into letters, "é" becomes "e", "€" is unknown."""
    tokenizer = Tokenizer(models.WordPiece({word: k for k, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return _fast(tokenizer, length)


def byte_level(length: int = 64) -> Any:
    """A tokenizer like that of RoBERTa with one token per byte: those of one letter share its offset."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({word: k for k, word in enumerate([*SPECIAL, *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return _fast(tokenizer, length)


def _fast(backend: Tokenizer, length: int) -> Any:
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=length, **names)


def bert(names: Sequence[str], *, seed: int = 0, spread: float = 0.6, vocabulary: int = 300) -> Any:
    """A BERT of one layer; with a large spread of its random weights it is as sure of itself as trained ones are."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
        initializer_range=spread,
        id2label=dict(enumerate(names)),
        label2id={name: k for k, name in enumerate(names)},
    )
    return BertForTokenClassification(config).eval()


# ---- invoices: one total each --------------------------------------------------------------------------------------

INVOICE = ["O", "B-TOTAL", "I-TOTAL", "B-TAX", "I-TAX"]


def invoice(rng: random.Random, totals: int = 1) -> tuple[list[str], list[str]]:
    """The words of an invoice and their labels: an amount after "total" or "tax" is one, after "subtotal" none."""
    parts = ["total"] * totals + ["tax"] * rng.randint(0, 1) + ["subtotal"] * rng.randint(0, 1)
    rng.shuffle(parts)
    words, labels = [rng.choice(["acme", "invoice", "the", "from"])], ["O"]
    for part in parts:
        kind = part.upper() if part != "subtotal" else None
        amount = [f"{rng.randint(0, 99)}", *rng.choice([[], [f"{rng.randint(10, 99)}"]])]
        words += [part, *rng.choice([[], ["due"], [":"]]), *amount]
        labels += ["O"] * (len(words) - len(labels) - len(amount))
        labels += ["O" if kind is None else f"{'I' if k else 'B'}-{kind}" for k in range(len(amount))]
    return words, labels


def trained(tokenizer: Any, steps: int = 120) -> Any:
    """A BERT that finds totals and taxes; in training every invoice has one total. A few seconds."""
    model, rng = bert(INVOICE, spread=0.1), random.Random(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        examples = [invoice(rng) for _ in range(16)]
        encoded = tokenizer([w for w, _ in examples], is_split_into_words=True, padding=True, return_tensors="pt")
        gold = torch.full(encoded["input_ids"].shape, -100)
        for k, (_, labels) in enumerate(examples):
            previous = None
            for t, word in enumerate(encoded.word_ids(k)):
                if word is not None and word != previous:  # the first sub-word carries the label, as people do it
                    gold[k, t] = INVOICE.index(labels[word])
                previous = word
        loss = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"], labels=gold).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()
