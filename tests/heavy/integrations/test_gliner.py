"""GLiNER: a tiny model with random weights; its own answers without rules, better ones with them."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, PreTrainedTokenizerFast

import bridle
from bridle.errors import EngineError, Infeasible, LabelError, LatticeError
from bridle.integrations.gliner import candidates, predict

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)  # while transformers imports DeBERTa
    from gliner.config import UniEncoderSpanConfig, UniEncoderTokenConfig
    from gliner.model import UniEncoderSpanGLiNER, UniEncoderTokenGLiNER

LABELS = ["person", "place", "date"]
WORDS = "ada wrote to babbage in london on 5 may 1843 . , invoice total 99 eur Ada Babbage London May EUR"
TEXTS = ["Ada wrote to Babbage in London on 5 May 1843.", "   ", "invoice , total 99 EUR", "Ada , London"]


def tiny(kind: str = "span") -> Any:
    """A model of one layer, made in memory."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word: k for k, word in enumerate([*special, *WORDS.split(), *LABELS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.add_tokens(["<<ENT>>", "<<SEP>>"], special_tokens=True)
    encoder = BertConfig(
        vocab_size=len(fast), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    options = {"span": UniEncoderSpanConfig, "token": UniEncoderTokenConfig}[kind]
    config = options(
        model_name="tiny", hidden_size=16, max_width=3, max_len=64, encoder_config=encoder.to_dict(),
        vocab_size=len(fast), dropout=0.0,
    )  # fmt: skip
    config.class_token_index = fast.convert_tokens_to_ids("<<ENT>>")
    torch.manual_seed(1)
    built = {"span": UniEncoderSpanGLiNER, "token": UniEncoderTokenGLiNER}[kind]
    model = built(config, tokenizer=fast, backbone_from_pretrained=False)
    with torch.no_grad():
        layer = model.model.prompt_rep_layer if kind == "span" else model.model.scorer
        for parameter in layer.parameters():  # far apart, so that scores differ
            parameter.mul_(12.0)
    return model


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny()


def overlaps(result: list[dict[str, Any]]) -> bool:
    return any(a["end"] > b["start"] for a, b in pairwise(result))


def test_without_rules_and_overlaps_it_is_gliners_own_answer(model: Any) -> None:
    """There is nothing to choose if GLiNER's candidates do not overlap."""
    own = model.inference(TEXTS, LABELS, flat_ner=False, multi_label=True, threshold=0.0)
    scores = sorted((entity["score"] for result in own for entity in result), reverse=True)
    agreed = 0
    for threshold in scores[1:25]:
        everything = model.inference(TEXTS, LABELS, flat_ner=False, multi_label=True, threshold=threshold)
        if any(overlaps(result) for result in everything):
            continue
        wanted = model.inference(TEXTS, LABELS, threshold=threshold)
        assert predict(model, TEXTS, LABELS, threshold=threshold) == wanted
        assert predict(model, TEXTS[0], LABELS, threshold=threshold) == wanted[0]
        agreed += any(wanted)
    assert agreed


def test_never_worse_than_greedy_search(model: Any) -> None:
    better = 0
    for threshold in (0.3, 0.4, 0.5, 0.6):
        for overlap, flat in (("forbid", True), ("nest", False)):
            for ours, greedy in zip(
                predict(model, TEXTS, LABELS, threshold=threshold, overlap=overlap),
                model.inference(TEXTS, LABELS, threshold=threshold, flat_ner=flat),
                strict=True,
            ):
                gain = [
                    sum(np.log(e["score"] / (1 - e["score"])) - np.log(threshold / (1 - threshold)) for e in result)
                    for result in (ours, greedy)
                ]
                assert gain[0] >= gain[1] - 1e-5
                better += gain[0] > gain[1] + 1e-5
    assert better


def test_a_rule_brings_back_what_the_threshold_dropped(model: Any) -> None:
    threshold = 1 - 1e-6
    plain = model.predict_entities(TEXTS[0], LABELS, threshold=threshold)
    assert not any(entity["label"] == "date" for entity in plain)
    entities = predict(model, TEXTS[0], LABELS, ["exactly 1 segment of date"], threshold=threshold, floor=1e-9)
    dates = [entity for entity in entities if entity["label"] == "date"]
    assert len(dates) == 1 and set(dates[0]) == {"start", "end", "text", "label", "score"}
    assert dates[0]["text"] == TEXTS[0][dates[0]["start"] : dates[0]["end"]]
    rules = ["label at 7, 9 is date", "exactly 1 segment of date", "present date"]  # words 7 to 9 are one date
    whole = predict(model, TEXTS[0], LABELS, rules, floor=1e-9)
    assert [entity["text"] for entity in whole if entity["label"] == "date"] == ["5 May 1843"]
    rules += ["forbid date at tokens /5 May 1843/"]
    with pytest.raises(Infeasible):
        predict(model, TEXTS[0], LABELS, rules, floor=1e-9)


def test_batches_and_what_comes_with_the_texts(model: Any) -> None:
    rules = ["fix person at given who"]
    given = [{"who": 3}, {"who": []}, {"who": 0}, {"who": -1}]
    entities = predict(model, TEXTS, LABELS, rules, floor=1e-9, given=given, batch_size=3)
    assert entities[1] == []
    assert any(e["label"] == "person" and "Babbage" in e["text"] for e in entities[0])
    assert any(e["label"] == "person" and "London" in e["text"] for e in entities[3])
    alone = predict(model, TEXTS, LABELS, rules, floor=1e-9, given=given, batch_size=1)
    assert [[(e["start"], e["label"]) for e in some] for some in entities] == [
        [(e["start"], e["label"]) for e in some] for some in alone
    ]
    own_labels = [["person"], ["person"], ["person", "date"], ["date", "place", "person"]]
    apart = predict(model, TEXTS, own_labels, ["at least 1 token of person"], floor=1e-9)
    assert [sorted({e["label"] for e in result} - set(own_labels[b])) for b, result in enumerate(apart)] == [[]] * 4


def test_errors_name_the_text_and_the_way_out(model: Any) -> None:
    with pytest.raises(Infeasible) as raised:
        predict(model, TEXTS, LABELS, ["at least 4 tokens of person"], floor=1e-9)
    assert raised.value.sequence == 3  # three words; the text without words is counted
    skipped = predict(model, TEXTS, LABELS, ["at least 4 tokens of person"], floor=1e-9, on_infeasible="skip")
    assert skipped[3] == [] and skipped[0]
    with pytest.raises(EngineError, match="no table of span scores"):
        predict(tiny("token"), TEXTS, LABELS)


def test_labels_of_rules_are_those_of_the_model(model: Any) -> None:
    described = {"person": "somebody", "place": "somewhere", "date": "a day"}
    for labels in (LABELS, described, [LABELS[:2]] * 3 + [LABELS], (name for name in LABELS)):
        with pytest.raises(LabelError, match=r"at most 1 segment of dates[\s\S]*Did you mean 'date'\?"):
            predict(model, TEXTS, labels, ["at most 1 segment of dates"])
    with pytest.raises(LabelError, match="Did you mean 'date'"):
        predict(model, TEXTS[0], "date", ["at most 1 segment of dates"])
    with pytest.raises(LabelError, match="Did you mean 'date'"):
        predict(model, TEXTS[0], LABELS, ["at most 1 segment of given what"], given=[{"what": "dates"}])
    own_labels = [["person"], ["date"], ["person"], ["person"]]  # a label of the text without words alone
    assert predict(model, TEXTS, own_labels, ["forbid date"]) == predict(model, TEXTS, own_labels, floor=0.01)
    assert predict(model, "  ", LABELS, ["at most 1 segment of date"]) == []
    lazily = predict(model, TEXTS, (name for name in LABELS), ["forbid date"])
    assert lazily == predict(model, TEXTS, LABELS, ["forbid date"])


@pytest.mark.parametrize("floor", [float("nan"), 2, -0.1, 0, 1, "0.5"])
def test_a_floor_is_a_probability(model: Any, floor: Any) -> None:
    with pytest.raises(EngineError, match="a probability between 0 and 1"):
        candidates(np.zeros((4, 2, 3)), LABELS, floor=floor)
    with pytest.raises(EngineError, match="a probability between 0 and 1"):
        predict(model, TEXTS[0], LABELS, floor=floor)


def test_candidates_are_checked() -> None:
    logits = np.zeros((4, 2, 3))
    assert len(candidates(logits, LABELS)["start"]) == (4 + 3) * 3
    assert set(candidates(logits, {1: "a", 3: "b"}, n_words=2)["label"].tolist()) == {"a", "b"}
    assert candidates(logits, LABELS, n_words=2)["end"].max() == 2
    assert len(bridle.select(candidates(torch.tensor(logits), LABELS)).spans) == 0
    for wrong in (logits[0], np.where(logits == 0, np.nan, 0)):
        with pytest.raises(LatticeError):
            candidates(wrong, LABELS)
    with pytest.raises(LatticeError, match="do not fit"):
        candidates(logits, [*LABELS, "more"])
