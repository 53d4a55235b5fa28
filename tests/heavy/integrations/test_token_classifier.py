"""An encoder with a CRF that knows rules: trained, saved, loaded, and used in the pipeline."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification, BertConfig, BertModel, Trainer, TrainingArguments

import bridle
from bridle.integrations.transformers import TokenClassifier, WordCollator, pipeline
from tests.heavy.integrations.tiny_models import INVOICE, VOCABULARY, invoice, word_piece

ONE = "exactly 1 segment of TOTAL"


def encoder(positions: int = 128) -> Any:
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=positions, initializer_range=0.1, **size)
    return BertModel(config)


def examples(n: int, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"tokens": words, "labels": labels} for words, labels in (invoice(rng) for _ in range(n))]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenClassifier, WordCollator]:
    model = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE, "TAX before TOTAL [penalty 0.5]"])
    collate = WordCollator(word_piece(), model.labels)
    arguments = TrainingArguments(
        str(tmp_path_factory.mktemp("trainer")),
        max_steps=200,
        per_device_train_batch_size=16,
        learning_rate=5e-3,
        remove_unused_columns=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
    )
    Trainer(model, arguments, train_dataset=examples(300), data_collator=collate).train()
    return model.eval(), collate


def test_the_trainer_trains_it_under_rules(trained: tuple[TokenClassifier, WordCollator]) -> None:
    model, collate = trained
    test = examples(40, seed=2)
    answers = model.predict(collate(test))
    right = sum(labels == e["labels"] for labels, e in zip(answers, test, strict=True))
    assert right >= 36
    assert not np.allclose(model.crf.penalties.tolist(), 0.5)  # learned, too
    decoder = bridle.Decoder(model.labels, [ONE, "well formed"])
    assert not any(rule.violations([model.labels.id(y) for y in labels], model.labels)
                   for labels in answers for rule in decoder.rules)  # fmt: skip


def test_what_was_saved_answers_alike(trained: tuple[TokenClassifier, WordCollator], tmp_path: Path) -> None:
    model, collate = trained
    model.save_pretrained(tmp_path)
    batch = collate(examples(8, seed=3))
    for load in (TokenClassifier, AutoModelForTokenClassification):
        again = load.from_pretrained(tmp_path).eval()
        assert type(again) is TokenClassifier
        assert (again.labels, again.crf.rules) == (model.labels, model.crf.rules)
        assert again.crf.penalties.tolist() == model.crf.penalties.tolist()
        assert torch.equal(again(**batch).logits, model(**batch).logits)
        assert again.predict(batch) == model.predict(batch)


def test_the_pipeline_takes_its_rules_and_transitions(trained: tuple[TokenClassifier, WordCollator]) -> None:
    model, collate = trained
    test = examples(30, seed=4)
    pipe = pipeline(model, collate.tokenizer)
    assert [str(rule) for rule in pipe.decoder.rules][:2] == ["well formed", ONE]
    for example, labels in zip(test, model.predict(collate(test)), strict=True):
        types = [segment.type for segment in model.labels.segments(labels)]
        assert [e["entity_group"] for e in pipe([example["tokens"]], is_split_into_words=True)[0]] == types
    free = pipeline(model, collate.tokenizer, rules=[])
    assert free.decoder.rules == ()


def test_labels_on_first_sub_words_give_the_same_loss(trained: tuple[TokenClassifier, WordCollator]) -> None:
    """As examples of transformers align them, without a collator of ours."""
    model, collate = trained
    batch = collate(examples(8, seed=5))
    starts, shape = batch["word_starts"], batch["input_ids"].shape
    aligned = torch.full((shape[0] * shape[1],), -100)
    aligned[starts[starts >= 0]] = batch["labels"][starts >= 0]
    other = model(batch["input_ids"], batch["attention_mask"], labels=aligned.reshape(shape), given=batch["given"])
    assert other.loss.item() == pytest.approx(model(**batch).loss.item(), rel=1e-5)


def test_windows_are_one_sequence() -> None:
    """Each word of a long text has emissions, from the window where it has the most context, and rules see it whole."""
    model = TokenClassifier.from_encoder(encoder(64), INVOICE, ["at most 1 segment of TOTAL"]).eval()
    words = [w for e in examples(20) for w in e["tokens"]]
    collate = WordCollator(word_piece(), model.labels, window=32, stride=8)
    batch = collate([{"tokens": words}, {"tokens": ["acme", "total"]}, {"tokens": []}])
    assert batch["input_ids"].shape[0] > 5
    starts = batch["word_starts"]
    assert (starts[0] >= 0).all()
    assert ((starts[1:] >= 0).sum(1) == torch.tensor([2, 0])).all()
    flat, texts = batch["input_ids"].flatten(), word_piece()
    for w, at in zip(words, starts[0].tolist(), strict=True):  # it is the first sub-word of that word
        assert flat[at].item() == texts([w], is_split_into_words=True)["input_ids"][1]
    answers = model.predict(batch)
    assert [len(labels) for labels in answers] == [len(words), 2, 0]
    assert sum(segment.type == "TOTAL" for segment in model.labels.segments(answers[0])) <= 1
    strict = TokenClassifier.from_encoder(encoder(64), INVOICE, [ONE])
    with pytest.raises(bridle.Infeasible, match="sequence 2"):  # no total in no words
        strict.predict(batch)
    assert strict.predict(batch, on_infeasible="skip")[2] == []


def test_a_word_cut_by_a_window_keeps_its_first_sub_word() -> None:
    model = TokenClassifier.from_encoder(encoder(64), ["O", "X"])
    collate = WordCollator(word_piece(), model.labels, window=8, stride=2)
    words = ["abcd", "efgh", "total", "ijklmnop", "qrs"]
    batch = collate([{"tokens": words}])
    flat, texts = batch["input_ids"].flatten(), word_piece()
    for w, at in zip(words, batch["word_starts"][0].tolist(), strict=True):
        assert flat[at].item() == texts([w], is_split_into_words=True)["input_ids"][1]


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(bridle.LabelError, match="TOTL"):
        TokenClassifier.from_encoder(encoder(), INVOICE, ["at most 1 segment of TOTL"])
    collate = WordCollator(word_piece(), bridle.Labels(INVOICE))
    with pytest.raises(bridle.LatticeError, match="labels do not fit the words"):
        collate([{"tokens": ["total"], "labels": []}])
    with pytest.raises(bridle.LabelError, match="not one of the model's"):
        collate([{"tokens": ["total"], "labels": [9]}])
    with pytest.raises(bridle.ModelError, match="fast"):
        WordCollator(None, bridle.Labels(INVOICE))
    model = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE])
    with pytest.raises(bridle.Infeasible, match="exactly 1 segment of TOTAL"):
        model(**collate([{"tokens": ["total"], "labels": ["O"]}]))
    skipping = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE], on_infeasible="skip")
    assert skipping(**collate([{"tokens": ["total"], "labels": ["O"]}])).loss.item() == 0
    assert skipping.crf.skipped == 1
