"""The recipe `networks` with a small encoder and invoices made up here."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel

from bridle import Labels
from bridle.rules import parse
from experiments import Run, networks, recipe_named
from tests.heavy.integrations.tiny_models import INVOICE, VOCABULARY, invoice, word_piece


def encoder() -> tuple[Any, Any]:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=128, initializer_range=0.1, **sizes)
    return word_piece(), BertModel(config).eval()


def sample(run: Run, size: int, seed: int) -> networks.Sample:
    rng = random.Random(seed)
    invoices = [invoice(rng) for _ in range(size + 30)]
    every = [networks.Example(words, labels, {"tokens": words}, []) for words, labels in invoices]
    return networks.Sample(Labels(INVOICE), [parse("exactly 1 segment of TOTAL")], every[:size], every[size:])


def test_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"SETS": {"invoices": sample}, "FROZEN": 1, "encoder": encoder}.items():
        monkeypatch.setattr(networks, name, value)
    run = Run(tmp_path, quick=True, threads=1, out=tmp_path)
    report = recipe_named("networks").run(run)
    figures = report.figures["invoices, 20"]
    assert set(figures) == set(networks.WAYS) and all(0 < its["accuracy"] <= 1 for its in figures.values())
    assert "| invoices | " in report.markdown()
    monkeypatch.setattr(networks, "encoder", None)  # all is kept
    assert recipe_named("networks").run(run).figures == report.figures


def test_padding_and_batches_change_nothing() -> None:
    tokenizer, body = encoder()
    net = networks.Network(tokenizer, body, Labels(INVOICE), 1, 0)
    some = sample(Run(Path()), 3, 0).training
    states = net.states(some)
    module = torch.nn.ModuleDict({"layers": body.encoder.layer[networks.FROZEN :], "out": torch.nn.Linear(32, 5)})
    together, alone = net.scores(module, states), [net.scores(module, [state])[0] for state in states]
    for example, x, y in zip(some, together, alone, strict=True):
        assert x.shape == (len(example.words), 5)
        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-4)
