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


def trainer(folder: Path, model: TokenClassifier, collate: WordCollator, steps: int = 200) -> Trainer:
    arguments = TrainingArguments(
        str(folder),
        max_steps=steps,
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
    return Trainer(model, arguments, train_dataset=examples(300), data_collator=collate)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenClassifier, WordCollator]:
    model = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE, "TAX before TOTAL [penalty 0.5]"])
    collate = WordCollator(word_piece(), model.labels)
    trainer(tmp_path_factory.mktemp("trainer"), model, collate).train()
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


def test_the_trainer_evaluates_and_predicts(trained: tuple[TokenClassifier, WordCollator], tmp_path: Path) -> None:
    """Sequences of different lengths, in several batches: predictions are the emissions, padded with -100."""
    model, collate = trained
    test = examples(20, seed=6)
    at_work = trainer(tmp_path, model, collate)
    output = at_work.predict(test)
    longest = max(len(e["tokens"]) for e in test)
    assert output.predictions.shape == (20, longest, len(model.labels))
    assert output.metrics["test_loss"] == pytest.approx(at_work.evaluate(test)["eval_loss"], rel=1e-5)
    for example, labels in zip(test, output.label_ids, strict=True):
        assert [model.labels.names[y] for y in labels if y != -100] == example["labels"]
    words = [len(e["tokens"]) for e in test]
    emissions = [torch.tensor(scores[:n]) for scores, n in zip(output.predictions, words, strict=True)]
    answers = [model.crf.decode(scores[None], torch.ones(1, len(scores), dtype=torch.bool))[0] for scores in emissions]
    assert [[model.labels.names[y] for y in ids] for ids in answers] == model.predict(collate(test))


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated")
def test_memory_can_be_saved_in_training() -> None:
    """Activations of the encoder are computed again, with the same gradients."""
    gradients = []
    for saving in (False, True):
        model = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE])
        torch.manual_seed(1)
        torch.nn.init.normal_(model.classifier.weight, std=0.02)
        if saving:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(2)
        batch = WordCollator(word_piece(), model.labels)(examples(4))
        model.train()(**batch).loss.backward()
        gradients.append(model.encoder.embeddings.word_embeddings.weight.grad)
    assert torch.allclose(*gradients, atol=1e-7) and gradients[0].abs().max() > 0


def test_what_was_saved_answers_alike(trained: tuple[TokenClassifier, WordCollator], tmp_path: Path) -> None:
    model, collate = trained
    model.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}  # no pickle
    _, report = TokenClassifier.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())  # nothing is missing, nothing is initialised again
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


def test_a_word_without_sub_words_keeps_its_place() -> None:
    """Its scores are equal for all labels; rules and transitions decide."""
    model = TokenClassifier.from_encoder(encoder(), INVOICE, ["forbid TOTAL at 0", "fix TAX at 1"]).eval()
    batch = WordCollator(word_piece(), model.labels)([{"tokens": ["total", "", "40"], "labels": ["O", "B-TAX", "O"]}])
    assert batch["word_starts"].tolist() == [[1, -2, 2]]
    assert model(**batch).logits[0, 1].tolist() == [0] * len(INVOICE)
    [labels] = model.predict(batch)
    assert len(labels) == 3 and labels[1] == "B-TAX"
    assert model(**batch).loss.isfinite()


def test_a_tokenizer_without_a_limit_makes_one_window() -> None:
    tokenizer = word_piece()
    tokenizer.model_max_length = int(1e30)  # as transformers calls it
    words = ["total"] * 50
    batch = WordCollator(tokenizer, bridle.Labels(INVOICE))([{"tokens": words}, {"tokens": words[:3]}])
    assert batch["input_ids"].shape == (2, 52)
    assert (batch["word_starts"][0] == torch.arange(1, 51)).all()


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(bridle.LabelError, match="TOTL"):
        TokenClassifier.from_encoder(encoder(), INVOICE, ["at most 1 segment of TOTL"])
    collate = WordCollator(word_piece(), bridle.Labels(INVOICE))
    with pytest.raises(bridle.LatticeError, match="labels do not fit the words"):
        collate([{"tokens": ["total"], "labels": []}])
    with pytest.raises(bridle.LabelError, match="not one of the model's"):
        collate([{"tokens": ["total"], "labels": [9]}])
    with pytest.raises(bridle.LabelError, match=r"sequence 0: unknown label; got 'TOTL'"):
        collate([{"tokens": ["total"], "labels": ["TOTL"]}])
    for tokens in ("total 40", None, [4, 0]):
        with pytest.raises(bridle.LatticeError, match="not a list of words"):
            collate([{"tokens": tokens}])
    for window, stride in ((8, 8), (2, None), (8, -1)):
        with pytest.raises(bridle.ModelError, match="windows do not move on"):
            WordCollator(word_piece(), bridle.Labels(INVOICE), window, stride)
    with pytest.raises(bridle.ModelError, match="not an encoder; got 5"):
        TokenClassifier.from_encoder(5, INVOICE)
    with pytest.raises(bridle.ModelError, match="fast"):
        WordCollator(None, bridle.Labels(INVOICE))
    model = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE])
    with pytest.raises(bridle.Infeasible, match="exactly 1 segment of TOTAL"):
        model(**collate([{"tokens": ["total"], "labels": ["O"]}]))
    skipping = TokenClassifier.from_encoder(encoder(), INVOICE, [ONE], on_infeasible="skip")
    assert skipping(**collate([{"tokens": ["total"], "labels": ["O"]}])).loss.item() == 0
    assert skipping.crf.skipped == 1
