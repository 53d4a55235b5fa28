"""openai/privacy-filter: its real class in a tiny configuration, and its decoder against a plain one in NumPy."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import OpenAIPrivacyFilterConfig, OpenAIPrivacyFilterForTokenClassification, PreTrainedTokenizerFast

import bridle
from bridle.integrations.logits import STEPS
from bridle.integrations.transformers import labels_of, privacy_filter
from tests.heavy.integrations.tiny_models import SPECIAL

NAMES = [OpenAIPrivacyFilterConfig().id2label[k] for k in range(33)]
ZERO = {f"transition_bias_{name}": 0.0 for name in STEPS}


def tokenizer(length: int = 131_072) -> Any:
    """One token per byte, no special tokens in the text: like that of the model, but for its merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({word: k for k, word in enumerate([*SPECIAL, *alphabet])}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, pad_token="[PAD]")


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    config = OpenAIPrivacyFilterConfig(
        vocab_size=264,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_local_experts=2,
        num_experts_per_tok=1,
        head_dim=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        sliding_window=4,
        pad_token_id=0,
        eos_token_id=0,
        initializer_range=0.8,
    )
    return OpenAIPrivacyFilterForTokenClassification(config).eval()


def calibration(rng: np.random.Generator) -> dict[str, Any]:
    return {"operating_points": {"default": {"biases": {name: float(rng.normal()) for name in ZERO}}}}


def viterbi(logp: np.ndarray, names: list[str], biases: dict[str, float]) -> list[str]:
    """The published decoder, step by step: legal transitions of BIOES, six biases, legal ends."""

    def step(before: str, after: str) -> float:
        (a, _, x), (b, _, y) = before.partition("-"), after.partition("-")
        name = None
        if a == "O":
            name = {"O": "background_stay", "B": "background_to_start", "S": "background_to_start"}.get(b)
        elif a in "ES":
            name = {"O": "end_to_background", "B": "end_to_start", "S": "end_to_start"}.get(b)
        elif x == y:
            name = {"I": "inside_to_continue", "E": "inside_to_end"}.get(b)
        return -np.inf if name is None else biases[f"transition_bias_{name}"]

    table = np.array([[step(a, b) for b in names] for a in names])
    best, back = logp[0] + [0 if name[0] in "OBS" else -np.inf for name in names], []
    for row in logp[1:]:
        total = best[:, None] + table
        back.append(total.argmax(axis=0))
        best = total.max(axis=0) + row
    y = int((best + [0 if name[0] in "OES" else -np.inf for name in names]).argmax())
    path = [names[y]]
    for column in reversed(back):
        y = int(column[y])
        path.insert(0, names[y])
    return path


@pytest.mark.parametrize("seed", range(4))
def test_it_decodes_as_published(network: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    output, text = calibration(rng), "".join(rng.choice(list("abc 0123@.é"), size=60))
    result = privacy_filter(network, tokenizer(), calibration=output, explain=True)(text)
    with torch.no_grad():
        logits = network(**tokenizer()(text, return_tensors="pt")).logits[0]
    expected = viterbi(
        torch.log_softmax(logits.double(), -1).numpy(), NAMES, output["operating_points"]["default"]["biases"]
    )
    assert result.explanation.best.labels == expected
    segments = bridle.Labels(NAMES, "BIOES").segments(expected)
    assert [entity["entity_group"] for entity in result] == [segment.type for segment in segments]


def test_the_outside_label_may_stand_anywhere() -> None:
    rng = np.random.default_rng(5)
    names = list(rng.permutation(NAMES))
    output, table = calibration(rng), rng.normal(size=(264, 33)) * 2
    pipe = privacy_filter(
        lambda input_ids, **_: table[input_ids], tokenizer(), id2label=names, calibration=output, explain=True
    )
    text = "call 555 0199 now"
    scores = table[tokenizer()(text)["input_ids"]]
    logp = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    biases = output["operating_points"]["default"]["biases"]
    assert pipe(text).explanation.best.labels == viterbi(logp, names, biases)


def test_a_calibration_shifts_precision_and_recall(network: Any, tmp_path: Path) -> None:
    text = "mail bob@example.org or call 555 0199"
    cautious = {"operating_points": {"strict": {"biases": {**ZERO, "transition_bias_background_stay": 50.0}}}}
    (tmp_path / "calibration.json").write_text(json.dumps(cautious), encoding="utf-8")
    assert len(privacy_filter(network, tokenizer())(text)) > 1
    strict = privacy_filter(network, tokenizer(), calibration=tmp_path / "calibration.json", operating_point="strict")
    assert strict(text) == []


def test_windows_are_merged_by_their_mean(network: Any) -> None:
    """log of the mean of the probabilities: logaddexp less the logarithm of the number of windows."""
    text, model = "mail bob@example.org or call 555 0199 now", network
    pipe = privacy_filter(model, tokenizer(), window=30, stride=19, explain=True)
    unary, ids = pipe(text).explanation.lattice.unary, tokenizer()(text)["input_ids"]
    total, count = np.full((len(ids), 33), -np.inf), np.zeros(len(ids))
    for low in range(0, len(ids) - 19, 11):
        with torch.no_grad():
            logits = model(torch.tensor([ids[low : low + 30]])).logits[0].double()
        total[low : low + 30] = np.logaddexp(total[low : low + 30], torch.log_softmax(logits, -1).numpy())
        count[low : low + 30] += 1
    assert count.max() == 2
    np.testing.assert_allclose(unary, total - np.log(count)[:, None], atol=1e-5)


def test_a_pattern_is_an_account(network: Any) -> None:
    """Tokens are pieces of words: what the text looks like is said by patterns, not by tokens."""
    text, digits = "account 12345678, room 1234", {"digits": r"\b\d{8,}\b"}
    rules = [
        "fix account_number at given digits",
        "forbid B-account_number, S-account_number at given digits_rest",
    ]
    accounts = [
        (entity["start"], entity["end"])
        for entity in privacy_filter(network, tokenizer(), patterns=digits, rules=rules)(text)
        if entity["entity_group"] == "account_number"
    ]
    assert any(start <= 8 and end >= 16 for start, end in accounts), "in one piece"
    assert privacy_filter(network, tokenizer(), patterns=digits, rules=rules[:1])(text) != privacy_filter(
        network, tokenizer()
    )(text)


def test_a_long_document_in_constant_memory() -> None:
    """128,000 tokens: the network sees windows of 4,096 only, and all of the document is labelled."""
    rng, sizes = np.random.default_rng(6), set()
    table = rng.normal(size=(264, 33)).astype(np.float32)

    def logits(input_ids: np.ndarray, **_: Any) -> np.ndarray:
        sizes.add(input_ids.shape)
        return table[input_ids]

    letters = rng.choice(list("abcdefghij 0123456789"), size=128_000)
    text = "x" + "".join(letters[1:-1]) + "x"
    pipe = privacy_filter(logits, tokenizer(), id2label=NAMES, ignore_labels=[], rules=["well formed"])
    entities = pipe(text)
    assert sizes == {(1, 4096)}
    assert (entities[0]["start"], entities[-1]["end"]) == (0, len(text))
    assert all(a["end"] == b["start"] for a, b in pairwise(entities))


def test_labels_that_are_not_bioes() -> None:
    with pytest.raises(bridle.LabelError, match="does not fit the scheme BIOES"):
        privacy_filter(lambda **_: None, tokenizer(), id2label=["O", "PER"])
    for names in (["O", "B-x", "I-x"], ["B-x", "I-x", "E-x", "S-x"]):  # it would find nothing
        with pytest.raises(bridle.LabelError, match=r"BIOES labels are missing.*\n.*Use pipeline\(\)"):
            privacy_filter(lambda **_: None, tokenizer(), id2label=names)
    assert labels_of(OpenAIPrivacyFilterConfig()).scheme == "BIOES"


def test_a_tokenizer_is_needed(network: Any) -> None:
    with pytest.raises(bridle.ModelError, match=r"the tokenizer is missing.*\n.*openai/privacy-filter"):
        privacy_filter(network)
