"""The pipeline of transformers with rules: without them the same answers, with them the best that obey."""

from __future__ import annotations

import pickle
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from onnx import TensorProto, helper
from transformers import TokenClassificationPipeline
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

import bridle
from bridle import rules as r
from bridle.integrations.transformers import ConstrainedPipeline, Explained, batch, labels_of, pipeline
from tests.heavy.integrations.tiny_models import INVOICE, VOCABULARY, bert, byte_level, invoice, trained, word_piece

STRATEGIES = ["none", "simple", "first", "average", "max"]
NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
ONCE = ["at most 1 segment of TOTAL"]
TWO = "acme total 15 total 27"  # both are totals to the trained model

pytestmark = pytest.mark.filterwarnings("ignore:(The tokenizer|Tokenizer) does not:UserWarning")


def texts(seed: int, letters: str = "abcdef01é€.,İ", most: int = 12) -> list[str]:
    """Random texts: unknown letters, letters that the normalizer changes, spaces; and some special cases."""
    rng = random.Random(seed)

    def word() -> str:
        return "".join(rng.choices(letters, k=rng.randint(1, 5)))

    built = [" ".join(word() for _ in range(rng.randint(0, most))) for _ in range(60)]
    return [*built, "", "   ", "[SEP] ab [CLS]", "\u200b", "total total", "😀 a😀b", "x" * 40]


def agree(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """Compare entities: keys, types and values, scores up to rounding."""
    assert [list(entity) for entity in ours] == [list(entity) for entity in theirs]
    for own, other in zip(ours, theirs, strict=True):
        assert type(own["score"]) is type(other["score"])
        assert own["score"] == pytest.approx(other["score"], abs=1e-6)
        assert {**own, "score": 0} == {**other, "score": 0}


@pytest.fixture(scope="module")
def tagger() -> tuple[Any, Any]:
    tokenizer = word_piece()
    return trained(tokenizer), tokenizer


# ---- without rules: what the stock pipeline returns -----------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", [word_piece, byte_level])
@pytest.mark.parametrize("size", [1, 8])
def test_without_rules_nothing_changes(strategy: str, make: Any, size: int) -> None:
    model, tokenizer, some = bert(NAMES), make(), texts(seed=1)
    stock = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy=strategy)
    ours = pipeline(model, tokenizer, aggregation_strategy=strategy)
    entities = ours(some, batch_size=size)
    for own, other in zip(entities, stock(some, batch_size=size), strict=True):
        agree(own, other)
    assert sum(map(len, entities)) > 100
    assert type(entities[0]) is list


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("scheme", ["auto", "IO", None])
def test_labels_with_a_hyphen_keep_their_names(strategy: str, scheme: Any) -> None:
    """transformers calls both "container-title" and "title" a "title", so that a rule about one looks broken."""
    names = ["O", "container-title", "title", "citation-number"]
    pipe = pipeline(bert(names), word_piece(), aggregation_strategy=strategy, scheme=scheme)
    stock = TokenClassificationPipeline(model=pipe.model, tokenizer=pipe.tokenizer, aggregation_strategy=strategy)
    key = "entity" if strategy == "none" else "entity_group"
    entities_of_texts = pipe(some := texts(seed=3))
    assert {entity[key] for entities in entities_of_texts for entity in entities} == set(names) - {"O"}
    for own, other in zip(entities_of_texts, stock(some), strict=True):  # the rest is as it was
        if strategy != "none":
            own = [{**entity, key: entity[key].split("-", 1)[-1]} for entity in own]
        agree(own, other)
    once = pipe(some, rules=["at most 1 segment of container-title"])
    assert max(sum(entity[key] == "container-title" for entity in entities) for entities in once) > (strategy == "none")


def test_prefixes_of_schemes_are_not_part_of_names() -> None:
    for names in (["O", "B-page-range", "I-page-range"], ["O", *(f"{tag}-page-range" for tag in "BIES")]):
        pipe = pipeline(bert(names, seed=1), word_piece(), rules=["at least 1 segment of page-range"])
        groups = {entity["entity_group"] for entities in pipe(texts(seed=3)[:20]) for entity in entities}
        assert groups == {"page-range"}


def test_a_label_outside_the_scheme_does_not_disable_all_types() -> None:
    names = ["O", "B-PER", "I-PER", "<pad>"]
    pipe = pipeline(bert(names), word_piece(), rules=["at most 1 segment of PER"])
    stock = TokenClassificationPipeline(model=pipe.model, tokenizer=pipe.tokenizer, aggregation_strategy="first")
    for own, other in zip(pipe(texts(seed=3), rules=[]), stock(texts(seed=3)), strict=True):
        agree(own, other)
    for entities in pipe(texts(seed=3)):
        assert sum(entity["entity_group"] == "PER" for entity in entities) <= 1


def test_batch_keeps_a_row_for_words_without_sub_words() -> None:
    """Positions in rules count the words of the caller, as in the pipeline."""
    tokenizer, words = word_piece(), [["", "total", "\u200b", "27", ""], ["tax", "", "15", "due"]]
    encoded = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
    word_ids = [encoded.word_ids(k) for k in range(2)]
    assert sorted({word for word in word_ids[0] if word is not None}) == [1, 3]
    logits = bert(NAMES)(**encoded).logits
    packed, back = batch(logits, encoded["attention_mask"], word_ids, n_words=[5, 4])
    assert back.words == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]
    decoder = bridle.Decoder(labels_of(bert(NAMES)), ["label at 3 is B-LOC", "label at 2 is O"])
    pipe = pipeline(bert(NAMES), tokenizer, rules=decoder.rules, ignore_labels=[])
    decodings = decoder.decode_batch(packed)
    assert (decodings.labels[0][3], decodings.labels[0][2]) == ("B-LOC", "O")
    groups = [entity["entity_group"] for entity in pipe([words[0]], is_split_into_words=True)[0]]
    assert groups[-1] == "LOC"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rules_that_nothing_breaks_change_nothing(strategy: str) -> None:
    model, tokenizer, some = bert(NAMES), word_piece(), texts(seed=2)
    plain = pipeline(model, tokenizer, aggregation_strategy=strategy)
    ruled = pipeline(
        model,
        tokenizer,
        aggregation_strategy=strategy,
        rules=["at most 99 segments of PER", "length of LOC at most 99"],
    )
    for own, other in zip(ruled(some), plain(some), strict=True):
        agree(own, other)


@pytest.mark.parametrize("names", [["O", "PER", "LOC"], ["B-A", "I-A", "other", "E-B"], ["O", "I-A", "I-B"]])
@pytest.mark.parametrize("ignored", [None, [], ["A", "PER"]])
def test_labels_of_other_kinds_are_grouped_as_there(names: list[str], ignored: list[str] | None) -> None:
    model, tokenizer, some = bert(names), word_piece(), texts(seed=3)
    options = {"aggregation_strategy": "max", "ignore_labels": ignored}
    stock = TokenClassificationPipeline(model=model, tokenizer=tokenizer, **options)
    ours = pipeline(model, tokenizer, **options)
    for own, other in zip(ours(some), stock(some), strict=True):
        agree(own, other)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [1, 4])
def test_words_that_are_given(strategy: str, size: int) -> None:
    model, tokenizer = bert(NAMES), word_piece()
    some = [text.split() for text in texts(seed=4, letters="abcdef01") if text.split()]
    some = [words for words in some if all(word.isalnum() and word.isascii() for word in words)]
    stock = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy=strategy)
    ours = pipeline(model, tokenizer, aggregation_strategy=strategy)
    options = {"is_split_into_words": True, "delimiter": " ", "batch_size": size}
    for own, other in zip(ours(some, **options), stock(some, **options), strict=True):
        agree(own, other)


def test_words_that_are_given_stay_whole() -> None:
    """The stock pipeline cuts "12.50" into three words, though it was given as one."""
    pipe = pipeline(bert(NAMES), word_piece(), ignore_labels=[], rules=["same label over given words"])
    words = ["total", "12.50", "a-b-c", "€"]
    [entities] = pipe([words], is_split_into_words=True, explain=True, given={"words": [(0, 4)]})
    assert len(entities.explanation.best.ids) == 4
    assert [(entity["start"], entity["end"]) for entity in entities][-1][1] == len(" ".join(words))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("options", [{}, {"explain": True}, {"rules": ["at most 99 segments of PER"]}])
def test_words_without_tokens(strategy: str, options: dict[str, Any]) -> None:
    model, tokenizer = bert(NAMES, seed=3), word_piece()
    stock = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy=strategy)
    ours = pipeline(model, tokenizer, aggregation_strategy=strategy, **options)
    some = [["", "tax", "due"], ["tax", "\u200b", "due", "", ""], ["", "\u200b"], [""], [], ["total", "ab"]]
    entities = ours(some, is_split_into_words=True)
    for own, other in zip(entities, stock(some, is_split_into_words=True), strict=True):
        agree(own, other)
    assert entities[0] and entities[1] and entities[2:5] == [[], [], []]


@pytest.mark.parametrize(
    "words", [["", "tax", "due"], ["tax", "\u200b", "due", ""], ["total", "", "", "tax", "\u200b"]]
)
def test_positions_are_those_of_the_words_that_are_given(words: list[str]) -> None:
    pipe = pipeline(bert(NAMES), word_piece(), ignore_labels=[], rules=["fix I-LOC at given here"], explain=True)
    seen: list[list[str]] = []

    def all_words(got: list[str]) -> dict[str, Any]:
        seen.append(got)
        return {"here": [k for k, word in enumerate(words) if word]}

    for k, word in enumerate(words):
        [entities] = pipe([words], is_split_into_words=True, given={"here": [k]})
        assert len(entities.explanation.best) == len(words) and entities.explanation.best.labels[k] == "I-LOC"
        assert not word.isalpha() or any(e["entity_group"] == "LOC" and word in e["word"] for e in entities)
    [entities] = pipe([words], is_split_into_words=True, given=all_words)
    assert seen == [words] and [entity["entity_group"] for entity in entities] == ["LOC"]
    [entities] = pipe([words], is_split_into_words=True, patterns={"here": "tax|due"})
    assert entities.explanation.given["here"] == [k for k, word in enumerate(words) if word in ("tax", "due")]


@pytest.mark.parametrize("side", ["left", "right"])
def test_words_that_are_cut_off_do_not_count(side: str) -> None:
    tokenizer, words = word_piece(6), ["", *"abcdefgh", ""]
    tokenizer.truncation_side = side
    [entities] = pipeline(bert(NAMES), tokenizer, explain=True)([words], is_split_into_words=True)
    assert len(entities.explanation.best) == 5  # four tokens, and the empty word beside them


def test_streams_and_single_texts() -> None:
    model, tokenizer, some = bert(NAMES), word_piece(), texts(seed=5)
    pipe = pipeline(model, tokenizer)
    assert list(pipe(text for text in some)) == pipe(some) == [pipe(text) for text in some]


def test_transformers_makes_it_too(tmp_path: Path) -> None:
    model, tokenizer, some = bert(NAMES), word_piece(), texts(seed=6)
    pipe = pipeline(model, tokenizer, rules=["at most 1 segment of PER"])
    options = {"aggregation_strategy": "first", "rules": [r.at_most(1, of="PER")]}
    same = transformers.pipeline("ner", model=model, tokenizer=tokenizer, pipeline_class=ConstrainedPipeline, **options)
    assert isinstance(same, ConstrainedPipeline) and same(some) == pipe(some)
    pipe.save_pretrained(tmp_path)
    assert pipeline(tmp_path, str(tmp_path), rules=["at most 1 segment of PER"])(some) == pipe(some)


# ---- with rules ----------------------------------------------------------------------------------------------------


def totals(entities: list[dict[str, Any]]) -> int:
    return sum(entity["entity_group"] == "TOTAL" for entity in entities)


def test_a_trained_model_is_repaired(tagger: tuple[Any, Any]) -> None:
    """Trained on invoices with one total; some of these have two, and the model alone finds both."""
    stock = TokenClassificationPipeline(model=tagger[0], tokenizer=tagger[1], aggregation_strategy="first")
    ruled = pipeline(*tagger, rules=["exactly 1 segment of TOTAL"])
    rng, broken, untouched = random.Random(2), 0, 0
    for k in range(60):
        words, _ = invoice(rng, totals=1 + k % 2)
        text = " ".join(words)
        plain, best = stock(text), ruled(text)
        assert totals(best) == 1
        broken += totals(plain) > 1
        if totals(plain) == 1:
            agree(best, plain)
            untouched += 1
    assert broken >= 20 and untouched >= 20


def test_the_labels_are_the_best_that_obey(tagger: tuple[Any, Any]) -> None:
    """The plain definition: of all labellings of a short text, the one with the highest sum of log-probabilities."""
    model, tokenizer = tagger
    words = ["total", "5", "total", "7"]
    encoded = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        logp = torch.log_softmax(model(**encoded).logits[0].double(), -1).numpy()[1:-1]
    labels, rules = labels_of(model), [r.at_most(1, of="TOTAL"), r.well_formed()]
    grid = np.stack(np.meshgrid(*[range(5)] * 4, indexing="ij"), -1).reshape(-1, 4)
    fine = [y for y in grid if all(rule.holds(y, labels) for rule in rules)]
    best = max(fine, key=lambda y: logp[range(4), y].sum())
    entities = pipeline(*tagger, rules=rules, explain=True)(words, is_split_into_words=True)[0]
    assert entities.explanation.best.ids.tolist() == best.tolist()


def test_rules_of_one_call(tagger: tuple[Any, Any]) -> None:
    pipe, text = pipeline(*tagger), TWO
    assert totals(pipe(text)) == 2
    assert totals(pipe(text, rules=ONCE)) == totals(pipe(text, rules=[r.at_most(1, of="TOTAL")])) == 1
    assert totals(pipe(text)) == 2
    assert len(pipe._decoders) == 1
    assert {e["word"] for e in pipe(text, rules=["forbid TOTAL at tokens /1\\d/"]) if e["entity_group"] == "TOTAL"} == {
        "27"
    }
    tax = ["fix TAX at given here"]
    assert pipe(text, rules=tax, given={"here": [4]})[-1]["entity_group"] == "TAX"
    [first, _] = pipe(text, rules=tax, given=lambda words: {"here": words.index("15")})
    assert (first["entity_group"], first["start"]) == ("TAX", 11)


def test_patterns_over_the_text(tagger: tuple[Any, Any]) -> None:
    """Every word that has a part in a match, even of a pattern that goes over several."""
    pipe = pipeline(*tagger, rules=["fix TAX at given date"], patterns={"date": r"\d\d-\d\d"})
    entities = pipe("for 12-34 acme", explain=True).explanation.best
    assert [name.endswith("TAX") for name in entities.labels] == [False, True, True, True, False]
    for pattern, matched in (("-", [2]), ("2-3", [1, 2, 3]), ("r 1", [0, 1]), ("x", []), (r"2?", [1]), ("(?=2)", [])):
        given = pipe("for 12-34 acme", patterns={"date": pattern}, explain=True).explanation.given
        assert given == {"date": matched, "date_rest": matched[1:]}
    whole = ["fix TAX at given date", "forbid B-TAX at given date_rest", "well formed"]
    assert pipe("for 12-34 acme", rules=whole, explain=True).explanation.best.labels[1:4] == ["B-TAX", "I-TAX", "I-TAX"]
    assert pipe("for acme") == pipeline(*tagger)("for acme")
    for bad in ("(", 3, re.compile(b"x")):
        with pytest.raises(bridle.RuleError, match="regular expression"):
            pipe("x", patterns={"date": bad})
    for names in ({"date": "x", "date_rest": "y"}, {"tokens": "x"}):
        with pytest.raises(bridle.EngineError, match=r"a pattern cannot be called (date_rest|tokens)"):
            pipe("x", patterns=names)
    for unnamed in (["x"], {3: "x"}):
        with pytest.raises(bridle.EngineError, match="patterns are not named"):
            pipe("x", patterns=unnamed)


def test_no_answer(tagger: tuple[Any, Any]) -> None:
    clash = ["fix TAX at 0", "fix TOTAL at 0"]
    with pytest.raises(bridle.Infeasible, match="2 rules that contradict each other"):
        pipeline(*tagger, rules=clash)("total 5")
    pipe = pipeline(*tagger, rules=clash, on_infeasible="skip")
    assert pipe("total 5") == []
    assert pipe("total 5", explain=True).explanation is None
    assert pipe("total 5", on_infeasible="relax")
    assert all(np.isnan(e["score"]) for e in pipe("total 5", on_infeasible="relax", score="marginal"))
    assert pipe("total 5", rules=[], on_infeasible="relax") == pipeline(*tagger)("total 5")


def test_time_is_limited(tagger: tuple[Any, Any]) -> None:
    pipe = pipeline(*tagger, rules=ONCE, time_limit=0.0)
    assert pipe("total 5") == pipeline(*tagger)("total 5")  # what breaks no rule needs no time
    with pytest.raises(bridle.LimitReached):
        pipe(TWO, rules=["exactly 2 segments of TOTAL", "exactly 1 token of TOTAL"])


def test_it_travels(tagger: tuple[Any, Any]) -> None:
    pipe = pipeline(*tagger, rules=ONCE, patterns={"digits": r"\d+"})
    same = pickle.loads(pickle.dumps(pipe))
    assert same(TWO) == pipe(TWO) and same(TWO, rules=[]) == pipe(TWO, rules=[])
    result = pickle.loads(pickle.dumps(pipe(TWO, explain=True)))
    assert result == pipe(TWO) and str(result.explanation) == str(pipe(TWO, explain=True).explanation)


def test_explanations(tagger: tuple[Any, Any]) -> None:
    pipe = pipeline(*tagger, rules=ONCE, explain=True)
    [repaired, fine, nothing] = pipe([TWO, "acme total 5", ""])
    assert isinstance(repaired, Explained) and isinstance(repaired, list)
    assert [str(effect.rule) for effect in repaired.explanation.effects] == ONCE
    assert repaired.explanation.cost > 0 and fine.explanation.cost == 0
    assert nothing == [] and nothing.explanation is None
    assert type(pipe("total 5", explain=False)) is list


def test_scores_under_the_rules(tagger: tuple[Any, Any]) -> None:
    model, under = (pipeline(*tagger, rules=ONCE, score=kind)(TWO) for kind in ("model", "marginal"))
    assert [{**entity, "score": 0} for entity in model] == [{**entity, "score": 0} for entity in under]
    why = pipeline(*tagger, rules=ONCE, explain=True)(TWO).explanation
    marginals, ids, words = why.decoder.marginals(why.lattice), why.best.ids, TWO.split()
    for own, other in zip(model, under, strict=True):
        at = words.index(own["word"])
        assert own["score"] == pytest.approx(np.exp(why.lattice.unary[at, ids[at]]), abs=1e-6)
        assert other["score"] == pytest.approx(marginals[at, ids[at]])
        assert abs(other["score"] - own["score"]) > 1e-3  # the rule makes a difference


@pytest.mark.parametrize("rules", [["well formed"], []])
def test_schemes_that_transformers_does_not_know(rules: list[str]) -> None:
    names = ["O", *(f"{tag}-{kind}" for kind in ("X", "Y") for tag in "BIES")]
    pipe = pipeline(bert(names), word_piece(), rules=rules, explain=True)
    for text in texts(seed=7, letters="abc"):
        entities = pipe(text)
        if entities.explanation is not None:
            best = entities.explanation.best
            segments = best.label_set.segments(best.ids)
            assert [entity["entity_group"] for entity in entities] == [segment.type for segment in segments]


def test_scores_of_transitions() -> None:
    """A CRF layer: as Bridle decodes it without transformers."""
    rng = np.random.default_rng(0)
    pairwise, start, end = rng.normal(size=(5, 5)) * 3, rng.normal(size=5), rng.normal(size=5)
    pipe = pipeline(bert(NAMES), word_piece(), pairwise=pairwise, start=start, end=end, explain=True)
    why = pipe("ab cd ef ab").explanation
    expected = bridle.Decoder(NAMES).decode(bridle.Lattice(why.lattice.unary, pairwise, start, end))
    assert why.best.ids.tolist() == expected.ids.tolist()
    assert why.best.ids.tolist() != why.lattice.unary.argmax(1).tolist()
    with pytest.raises(bridle.LatticeError, match="pairwise"):
        pipeline(bert(NAMES), word_piece(), pairwise=np.zeros((4, 4)))


# ---- long texts ----------------------------------------------------------------------------------------------------


def context_free(m: int, seed: int = 0) -> Any:
    """Logits that depend on the token alone, so that all windows agree."""
    table = np.random.default_rng(seed).normal(size=(300, m)).astype(np.float32) * 3
    return lambda input_ids, **_: table[input_ids]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", [word_piece, byte_level])
@pytest.mark.parametrize(("window", "stride"), [(16, 0), (16, 5), (20, 17), (9, 1)])
def test_windows_change_nothing_where_they_agree(strategy: str, make: Any, window: int, stride: int) -> None:
    """As if the text had been labelled in one piece: entities that cross an edge, words that are cut by one."""
    options = {"id2label": NAMES, "aggregation_strategy": strategy}
    whole = pipeline(context_free(5), make(100_000), **options)
    pieces = pipeline(context_free(5), make(64), window=window, stride=stride, **options)
    some = texts(seed=8, most=60)[::3]
    for own, other in zip(pieces(some, batch_size=3), whole(some), strict=True):
        agree(own, other)


@pytest.mark.parametrize("merge", ["nearest", "mean"])
def test_windows_and_rules(merge: str) -> None:
    """A rule applies to the whole document: the one total is the surest of all windows."""
    pipe = pipeline(
        context_free(3),
        word_piece(10),
        id2label=["O", "TOTAL", "TAX"],
        stride=3,
        merge=merge,
        rules=["at most 1 token of TOTAL"],
    )
    text = " ".join(texts(seed=9, letters="abc"))
    entities = pipe(text, explain=True)
    unary = entities.explanation.lattice.unary
    assert entities.explanation.best.labels.count("TOTAL") == 1
    gain = unary[:, 1] - unary[:, [0, 2]].max(axis=1)
    assert entities.explanation.best.labels.index("TOTAL") == gain.argmax()


def test_tokens_get_the_scores_of_the_window_with_most_context() -> None:
    model, tokenizer = bert(NAMES), word_piece(12)  # ten tokens and two special ones
    pipe = pipeline(model, tokenizer, stride=4, aggregation_strategy="none", ignore_labels=[])
    text = " ".join("abcdefghijklmnop")  # 16 tokens: windows 0-9 and 6-15
    entities, scores = pipe(text), {}
    for low, high, own in ((0, 10, range(8)), (6, 16, range(8, 16))):
        with torch.no_grad():
            logits = model(**tokenizer(" ".join(text.split()[low:high]), return_tensors="pt")).logits[0, 1:-1]
        scores |= {t: torch.softmax(logits[t - low], -1).max().item() for t in own}
    assert [entity["index"] for entity in entities] == list(range(1, 17))
    assert [entity["score"] for entity in entities] == pytest.approx([scores[t] for t in range(16)], abs=1e-5)


def test_a_call_changes_the_windows() -> None:
    """Settings that a call leaves out are those of the pipeline."""
    sizes, logits = set(), context_free(5)

    def model(input_ids: np.ndarray, **_: Any) -> np.ndarray:
        sizes.add(input_ids.shape[1])
        return logits(input_ids)

    pipe, text = pipeline(model, word_piece(), id2label=NAMES, stride=4, window=16), "total tax due " * 30
    entities = pipe(text)
    for options, size in (
        ({"stride": 6}, 16),
        ({"stride": np.int64(6)}, 16),
        ({"window": 20}, 20),
        ({"window": np.int32(20), "stride": 3}, 20),
        ({}, 16),
    ):
        sizes.clear()
        assert pipe(text, **options) == entities
        assert sizes == {size}
    with pytest.raises(bridle.EngineError, match="window=9 needs stride"):
        pipeline(model, word_piece(), id2label=NAMES)(text, window=9)


def test_words_that_are_given_are_for_one_call() -> None:
    pipe = pipeline(context_free(5), word_piece(), id2label=NAMES, stride=4)
    text = "total tax due " * 30
    entities = pipe(text)
    assert pipe(text.split(), is_split_into_words=True) == [entities]
    assert pipe(text) == entities


def test_texts_that_are_too_long_are_cut_off_without_a_stride() -> None:
    model, tokenizer, text = bert(NAMES), word_piece(12), " ".join("abcdefghijklmnop")
    stock = TokenClassificationPipeline(model=model, tokenizer=tokenizer, ignore_labels=[])
    ours = pipeline(model, tokenizer, aggregation_strategy="none", ignore_labels=[])
    agree(ours(text), stock(text))
    assert ours(text)[-1]["word"] == "j"


# ---- batches of one's own loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["first", "mean", "max"])
def test_a_loop_of_ones_own(tagger: tuple[Any, Any], pool: str) -> None:
    model, tokenizer = tagger
    rng = random.Random(3)
    words = [invoice(rng, totals=2)[0] for _ in range(12)]
    encoded = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
    logits = model(**encoded).logits  # with gradients: a loop that has forgotten no_grad
    word_ids = [encoded.word_ids(k) for k in range(len(words))]
    packed, back = batch(logits, encoded["attention_mask"], word_ids, pool=pool)
    decoder = bridle.Decoder(labels_of(model), [*ONCE, "well formed"])
    decodings = decoder.decode_batch(packed)
    strategy = {"first": "first", "mean": "average", "max": "max"}[pool]
    pipe = pipeline(*tagger, rules=[*ONCE, "well formed"], aggregation_strategy=strategy, explain=True)
    for k, entities in enumerate(pipe(words, is_split_into_words=True)):
        assert decodings[k].ids.tolist() == entities.explanation.best.ids.tolist()
        assert back.words[k] == list(range(len(words[k])))
        spread = back(decodings)[k]
        assert [spread[t] for t, w in enumerate(word_ids[k]) if w is None] == [-100] * word_ids[k].count(None)
        assert all(spread[t] == decodings[k].ids[w] for t, w in enumerate(word_ids[k]) if w is not None)
    for same in (logits.detach().numpy(), logits.detach().double()):
        other, _ = batch(same, encoded["attention_mask"].numpy(), word_ids, pool=pool)
        np.testing.assert_allclose(other.unary, packed.unary, atol=1e-6)
    half, _ = batch(logits.to(torch.bfloat16), word_ids=word_ids, pool=pool)
    assert half.unary.shape == packed.unary.shape


# ---- ONNX ----------------------------------------------------------------------------------------------------------


def session(table: np.ndarray, kind: int = TensorProto.INT64, extra: str | None = None) -> Any:
    """logits = embedding[input_ids] @ weights, as an ONNX graph."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(table.shape[1], 5)).astype(np.float32)
    floats = lambda name, value: helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.ravel())  # noqa: E731
    inputs = [helper.make_tensor_value_info(n, kind, ["B", "T"]) for n in ["input_ids", *([extra] if extra else [])]]
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
            helper.make_node("MatMul", ["hidden", "weights"], ["logits"]),
        ],
        "tagger",
        inputs,
        [
            helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["B", "T", table.shape[1]]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", "T", 5]),
        ],
        [floats("table", table), floats("weights", weights)],
    )
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnxruntime.InferenceSession(
        network.SerializeToString(), providers=["CPUExecutionProvider"]
    ), table @ weights


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_onnx_sessions(kind: int) -> None:
    run, logits = session(np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32), kind)
    options = {"id2label": NAMES, "rules": ["at most 1 segment of PER", "well formed"]}
    ours = pipeline(run, word_piece(), **options)
    same = pipeline(lambda input_ids, **_: logits[input_ids], word_piece(), **options)
    some = texts(seed=10)
    entities = ours(some, batch_size=4)
    for own, other in zip(entities, same(some), strict=True):
        agree(own, other)
    assert sum(map(len, entities)) > 30 and "LogitsModel" in repr(ours)
    encoded = word_piece()(["ab", "cd ef"], padding=True, return_tensors="np")
    packed, _ = batch(
        run.run(
            ["logits"], {"input_ids": encoded["input_ids"].astype(np.int32 if kind == TensorProto.INT32 else np.int64)}
        )[0],
        encoded["attention_mask"],
    )
    assert np.diff(packed.offsets).tolist() == encoded["attention_mask"].sum(axis=1).tolist()


def test_onnx_graphs_with_other_inputs() -> None:
    run, _ = session(np.zeros((300, 8), dtype=np.float32), extra="pixels")
    with pytest.raises(bridle.ModelError, match="inputs that the tokenizer does not make; got pixels"):
        pipeline(run, word_piece(), id2label=NAMES)("ab")


# ---- errors --------------------------------------------------------------------------------------------------------


def test_rules_that_do_not_fit_the_labels() -> None:
    with pytest.raises(bridle.LabelError, match=r"unknown label.*'TOTL'.*wanted one of O, B-TOTAL"):
        pipeline(bert(INVOICE), word_piece(), rules=["at most 1 segment of TOTL"])
    pipe = pipeline(bert([f"LABEL_{k}" for k in range(3)]), word_piece())
    with pytest.raises(bridle.LabelError, match="have no names: pass id2label"):
        pipe("ab", rules=["at most 1 segment of TOTAL"])
    with pytest.raises(bridle.LabelError, match="does not fit the scheme BIO"):
        pipeline(bert(["O", "TOTAL"]), word_piece(), scheme="BIO")


def test_gaps_in_id2label() -> None:
    model = bert(["O", "A", "B"])
    model.config.id2label = {0: "O", 2: "B"}
    with pytest.raises(bridle.LabelError, match=r"no name for 1; wanted a name for each of 0 .. 2"):
        pipeline(model, word_piece())
    assert pipeline(model, word_piece(), id2label={"0": "O", "1": "A", "2": "B"})("ab")
    with pytest.raises(bridle.LatticeError, match="another number of labels than id2label; got 3 logits"):
        pipeline(model, word_piece(), id2label=["O", "A"])("ab")
    with pytest.raises(bridle.LabelError, match="labels of the model are not known"):
        pipeline(context_free(3), word_piece())


def test_tokenizers_without_offsets(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    slow, model = BertTokenizerLegacy(str(tmp_path / "vocab.txt")), bert(NAMES)
    with pytest.raises(bridle.ModelError, match=r"makes words of sub-words.*slow tokenizer.*\n.*AutoTokenizer"):
        pipeline(model, slow)
    with pytest.raises(bridle.ModelError, match="cuts the text into windows"):
        pipeline(model, slow, aggregation_strategy="simple", stride=3)
    pipe = pipeline(model, slow, aggregation_strategy="simple", rules=["at most 1 segment of PER"])
    assert all(entity["start"] is None for entity in pipe("total 5 ab cd"))
    with pytest.raises(bridle.ModelError, match="a rule refers to the text"):
        pipe("total 5", rules=["fix PER at tokens /5/"])
    stock = TokenClassificationPipeline(model=model, tokenizer=slow, aggregation_strategy="simple")
    agree(pipe("total 5 ab", rules=[]), stock("total 5 ab"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 62}, r"bad stride=62; wanted tokens that two windows share, 0 .. 61 for windows of 64"),
        ({"stride": -1}, "bad stride=-1"),
        ({"window": 9}, "window=9 needs stride"),
        ({"stride": True}, "bad stride=True"),
        ({"stride": 4, "window": True}, "bad window=True"),
        ({"stride": "9"}, "bad stride='9'"),
        ({"stride": 5, "window": 65}, "bad window=65; wanted at most 64 tokens"),
        ({"score": "best"}, "unknown score; got 'best'"),
        ({"merge": "last"}, "unknown merge; got 'last'"),
        ({"on_infeasible": "ignore"}, "on_infeasible"),
        (
            {"aggregation_strategy": "last"},
            "unknown aggregation_strategy; got 'last'; wanted one of none, simple, first",
        ),
        ({"aggregation_strategy": 3}, "unknown aggregation_strategy; got 3"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bridle.EngineError, match=message):
        pipeline(bert(NAMES), word_piece(), **options)


def test_logits_that_are_no_numbers() -> None:
    pipe = pipeline(lambda input_ids, **_: np.full((*input_ids.shape, 5), np.nan), word_piece(), id2label=NAMES)
    with pytest.raises(bridle.LatticeError, match="contain NaN or infinity"):
        pipe("ab")
    with pytest.raises(bridle.ModelError, match="not a model; got int"):
        pipeline(3, word_piece())


@pytest.mark.parametrize("shape", [None, (4, 5), (1, 2, 5), (3, 4, 5), (1, 4), ()])
def test_logits_of_a_wrong_shape(shape: tuple[int, ...] | None) -> None:
    """A function that gives something else than logits of each token: [CLS] a b [SEP]."""
    pipe = pipeline(lambda **_: None if shape is None else np.zeros(shape), word_piece(), id2label=NAMES)
    with pytest.raises(bridle.LatticeError, match=r"logits of a wrong shape; got .*; wanted \(1, 4, labels\)"):
        pipe("a b")


@pytest.mark.parametrize("tokenizer", [None, 3])
def test_no_tokenizer(tokenizer: Any) -> None:
    with pytest.raises(bridle.ModelError, match=f"not a tokenizer; got {tokenizer}"):
        pipeline(bert(NAMES), tokenizer)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_large_logits_are_numbers(strategy: str) -> None:
    row = np.array([-3e38, 3e38, 0, 0, -np.inf], dtype=np.float32)
    large = pipeline(
        lambda input_ids, **_: np.broadcast_to(row, (*input_ids.shape, 5)),
        word_piece(),
        id2label=NAMES,
        aggregation_strategy=strategy,
    )
    assert {entity.get("entity_group", entity.get("entity")) for entity in large("ab total")} <= {"PER", "B-PER"}
    assert large("ab total")


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_without_the_extra(missing: str) -> None:
    """`batch` needs neither of them; the pipeline says what to install."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from bridle.integrations.logits import batch\n"
        "batch([[[0.0, 1.0]]])\n"
        "import bridle.integrations.transformers"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"got no package {missing}; wanted pip install 'bridle-nlp[transformers]'" in done.stderr
