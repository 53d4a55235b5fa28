"""bridle_spans and the ents_filter: the best spans of spancat, of a beam and of rulers, under rules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed

import bridle
from bridle.integrations.spacy import EntsFilter, beam_spans
from bridle.integrations.spacy.spans import keep_own, select_spans

TEXT = "Ada Lovelace met Charles Babbage in London"
PEOPLE = [(0, 12, "PER"), (17, 32, "PER"), (36, 42, "LOC")]
Row = tuple[int, int, str, float]


def scored(nlp: spacy.Language, text: str, rows: Sequence[Row], key: str = "sc") -> Doc:
    """A document with candidate spans."""
    doc = nlp.make_doc(text)
    doc.spans[key] = [Span(doc, start, end, label) for start, end, label, _ in rows]
    doc.spans[key].attrs["scores"] = np.array([score for *_, score in rows], dtype=np.float32)
    return doc


def with_spans(**config: Any) -> spacy.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("bridle_spans", config=config)
    return nlp


def found(spans: Sequence[Span]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label_) for span in spans]


ROWS: list[Row] = [
    (0, 2, "PER", 0.75),
    (0, 1, "PER", 0.7),
    (1, 2, "LOC", 0.7),
    (3, 5, "PER", 0.9),
    (6, 7, "LOC", 0.3),
]


# ---- bridle_spans ---------------------------------------------------------------------------------------------------


def test_the_best_spans_are_those_of_select() -> None:
    for rules in ([], ["at most 1 segment of PER"], ["present LOC", "at most 0 segments of PER  [penalty 0.5]"]):
        nlp = with_spans(rules=rules)
        doc = nlp(scored(nlp, TEXT, ROWS))
        best = bridle.select(ROWS, rules, scores="probability", tokens=TEXT.split())
        assert found(doc.ents) == [span[:3] for span in best.spans]
        record = doc._.bridle["bridle_spans"]
        assert record["score"] == pytest.approx(best.score) and record["optimal"] and record["status"] == "optimal"
        assert [entry["times"] for entry in record["violated"]] == [times for _, times in best.violated]


def test_greedy_search_would_lose() -> None:
    nlp = with_spans()
    assert found(nlp(scored(nlp, TEXT, ROWS)).ents) == [(0, 1, "PER"), (1, 2, "LOC"), (3, 5, "PER")]


def test_a_rule_brings_back_a_span_below_the_threshold() -> None:
    nlp = with_spans(rules=["fix LOC at tokens /London/"])
    assert (6, 7, "LOC") in found(nlp(scored(nlp, TEXT, ROWS)).ents)
    nlp = with_spans(threshold=0.2)
    assert (6, 7, "LOC") in found(nlp(scored(nlp, TEXT, ROWS)).ents)


def test_rules_see_spans_with_their_spaces() -> None:
    nlp = with_spans(rules=["forbid PER at tokens /Charles Babbage/"])
    assert (3, 5, "PER") not in found(nlp(scored(nlp, TEXT, ROWS)).ents)


def test_nested_spans() -> None:
    rows: list[Row] = [(0, 2, "PER", 0.9), (0, 1, "FIRST", 0.8), (1, 3, "X", 0.6)]
    nlp = with_spans(overlap="nest", sets="spans", spans_key_out="out")
    doc = nlp(scored(nlp, TEXT, rows))
    assert found(doc.spans["out"]) == [(0, 2, "PER"), (0, 1, "FIRST")] and not doc.ents
    assert doc.spans["out"].attrs["scores"].tolist() == pytest.approx([0.9, 0.8])
    with pytest.raises(bridle.ModelError, match=r"doc.ents cannot hold nested spans; got overlap='nest'"):
        with_spans(overlap="nest")


def test_log_odds_and_spans_without_scores() -> None:
    rows = [(start, end, label, np.log(p / (1 - p))) for start, end, label, p in ROWS]
    nlp = with_spans(scores="log_odds")
    assert found(nlp(scored(nlp, TEXT, rows)).ents) == [(0, 1, "PER"), (1, 2, "LOC"), (3, 5, "PER")]
    nlp = with_spans(default_score=0.8)
    doc = scored(nlp, TEXT, ROWS)
    del doc.spans["sc"].attrs["scores"]
    assert found(nlp(doc).ents) == [(0, 1, "PER"), (1, 2, "LOC"), (3, 5, "PER"), (6, 7, "LOC")]


def test_entities_that_are_there_can_be_kept() -> None:
    nlp = with_spans(existing="keep", rules=["at most 1 segment of PER"])
    doc = scored(nlp, TEXT, ROWS)
    doc.ents = [Span(doc, 1, 2, "PER"), Span(doc, 5, 6, "PREP")]
    assert found(nlp(doc).ents) == [(1, 2, "PER"), (5, 6, "PREP")]
    assert doc._.bridle["bridle_spans"]["score"] == pytest.approx(0)
    doc = scored(nlp, TEXT, ROWS)
    doc.ents = [Span(doc, 0, 1, "PER"), Span(doc, 3, 5, "PER")]
    kept = found(nlp(doc).ents)
    assert len(kept) == 2 and (1, 2, "LOC") in kept, "one PER had to go"
    nlp = with_spans(existing="keep", sets="spans")
    doc = scored(nlp, TEXT, ROWS[3:])
    doc.ents = [Span(doc, 0, 1, "X")]
    assert nlp(doc).spans["bridle"].attrs["scores"].tolist() == pytest.approx([1.0, 0.9])


def test_no_choice_obeys() -> None:
    rules = ["at least 2 segments of LOC", "at most 1 segment of LOC"]
    nlp = with_spans(rules=rules)
    with pytest.raises(bridle.Infeasible, match="no selection obeys the hard rules"):
        nlp(scored(nlp, TEXT, ROWS))
    nlp = with_spans(rules=rules, on_infeasible="skip")
    doc = scored(nlp, TEXT, ROWS)
    doc.ents = [Span(doc, 0, 1, "X")]
    assert found(nlp(doc).ents) == [(0, 1, "X")] and doc._.bridle["bridle_spans"] == {"status": "infeasible"}
    nlp = with_spans(rules=["present LOC"])
    failed: list[str] = []
    nlp.set_error_handler(lambda name, component, docs, error: failed.extend(doc.text for doc in docs))
    docs = [scored(nlp, TEXT, ROWS), scored(nlp, "no candidates", []), scored(nlp, TEXT, ROWS)]
    assert len(list(nlp.pipe(docs))) == 2 and failed == ["no candidates"]


def test_missing_spans_and_scores() -> None:
    nlp = with_spans()
    with pytest.raises(bridle.ModelError, match=r"has no spans 'sc'; got 'other'; wanted a component that makes them"):
        nlp(scored(nlp, TEXT, ROWS, key="other"))
    doc = scored(nlp, TEXT, ROWS)
    doc.spans["sc"].attrs["scores"] = [0.5]
    with pytest.raises(bridle.ModelError, match=r"got 1 scores, 5 spans"):
        nlp(doc)
    del doc.spans["sc"].attrs["scores"]
    with pytest.raises(bridle.ModelError, match=r"have no scores.*default_score"):
        nlp(doc)
    doc.spans["sc"].attrs["scores"] = [0.5, 0.5, 0.5, 0.5, 1.5]
    with pytest.raises(bridle.LatticeError, match=r"score of span 4 is not a probability; got 1.5"):
        nlp(doc)
    assert not nlp(scored(nlp, "", [])).ents


@pytest.mark.parametrize("score", [None, "high"])
def test_scores_that_are_no_numbers_stop_one_document(score: Any) -> None:
    nlp, failed = with_spans(), list[Exception]()
    nlp.set_error_handler(lambda name, component, docs, error: failed.append(error))
    docs = [scored(nlp, TEXT, ROWS) for _ in range(3)]
    docs[1].spans["sc"].attrs["scores"] = [score] * len(ROWS)
    assert list(nlp.pipe(docs)) == [docs[0], docs[2]] and len(failed) == 1
    with pytest.raises(
        bridle.ModelError, match=r"the scores of the spans 'sc' are not numbers; got .*; wanted numbers"
    ):
        raise failed[0]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"sets": "tag"}, r"setting sets .*got 'tag'; wanted 'ents' or 'spans'"),
        ({"existing": "add"}, r"setting existing .*got 'add'; wanted 'overwrite' or 'keep'"),
        ({"overlap": "allow"}, r"setting overlap .*got 'allow'"),
        ({"scores": "logits"}, r"setting scores .*got 'logits'; wanted 'probability' or 'log_odds'"),
        ({"threshold": 2.0}, r"threshold`; got 2.0; wanted a probability between 0 and 1"),
        ({"threshold": -3.0}, r"threshold`; got -3.0; wanted a probability between 0 and 1"),
        ({"beam_width": 0}, r"the beam needs at least one analysis; got beam_width=0; wanted 1 or more"),
        ({"on_infeasible": "relax"}, r"setting on_infeasible .*got 'relax'; wanted 'raise' or 'skip'"),
    ],
)
def test_bad_settings(config: dict[str, Any], says: str) -> None:
    with pytest.raises(bridle.BridleError, match=says):
        with_spans(**config)


# ---- beside what spaCy has trained ----------------------------------------------------------------------------------


def trained(component: str, annotation: dict[str, Any], updates: int = 20, **config: Any) -> spacy.Language:
    """A component that knows one sentence."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe(component, config=config)
    examples = [Example.from_dict(nlp.make_doc(TEXT), annotation)]
    nlp.initialize(lambda: examples)
    for _ in range(updates):
        nlp.update(examples)
    return nlp


def test_spancat() -> None:
    suggester = {"@misc": "spacy.ngram_suggester.v1", "sizes": [1, 2]}
    nlp = trained("spancat", {"spans": {"sc": PEOPLE}}, 5, suggester=suggester, threshold=0.001)
    doc = nlp(TEXT)
    candidates = [
        (*row, float(p)) for row, p in zip(found(doc.spans["sc"]), doc.spans["sc"].attrs["scores"], strict=True)
    ]
    assert len(candidates) > 3
    selector = nlp.add_pipe("bridle_spans", config={"rules": ["at most 1 segment of PER"]})
    best = bridle.select(candidates, ["at most 1 segment of PER"], scores="probability")
    assert found(nlp(TEXT).ents) == [span[:3] for span in best.spans]
    assert selector.labels == ("LOC", "PER")
    with pytest.raises(bridle.LabelError, match=r"unknown label .*got 'PERSON'; wanted one of O, LOC, PER"):
        nlp.add_pipe("bridle_spans", name="other", config={"rules": ["at most 1 segment of PERSON"]})


def test_the_beam_of_a_recognizer() -> None:
    nlp = trained("ner", {"entities": PEOPLE})
    [doc] = beam_spans(nlp.get_pipe("ner"), [nlp(TEXT)], spans_key="beam")
    plain = found(doc.ents)
    assert set(plain) <= set(found(doc.spans["beam"])) and plain == [(0, 2, "PER"), (3, 5, "PER"), (6, 7, "LOC")]
    assert 0 < doc.spans["beam"].attrs["scores"].min() <= doc.spans["beam"].attrs["scores"].max() <= 1
    [untouched] = beam_spans(nlp.get_pipe("ner"), [nlp.make_doc(TEXT)])
    assert untouched.spans["sc"] and not untouched.has_annotation("ENT_IOB")
    partly = nlp.make_doc(TEXT)
    known = [Span(partly, 0, 1, "X", kb_id="Q7259", span_id="ada")]
    partly.set_ents(known, missing=[partly[3:5]], blocked=[partly[6:7]])
    before = partly.to_array(["ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID"]).tolist()
    beam_spans(nlp.get_pipe("ner"), [partly])
    assert partly.to_array(["ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID"]).tolist() == before
    with pytest.raises(bridle.ModelError, match=r"the beam needs at least one analysis; got beam_width=0"):
        beam_spans(nlp.get_pipe("ner"), [partly], beam_width=0)
    nlp.add_pipe("bridle_spans", config={"scores_from": "ner"})
    assert [found(doc.ents) for doc in nlp.pipe([TEXT, "", TEXT])] == [plain, [], plain]
    nlp.remove_pipe("bridle_spans")
    nlp.add_pipe("bridle_spans", config={"scores_from": "ner", "rules": ["at most 1 segment of PER"]})
    nlp.disable_pipe("ner")
    assert [label for *_, label in found(nlp(TEXT).ents)].count("PER") == 1
    with pytest.raises(bridle.ModelError, match=r"has no beam of entities; got Sentencizer"):
        beam_spans(spacy.blank("en").add_pipe("sentencizer"), [doc])


NAMES = ["Ada Lovelace", "Grace Hopper", "Alan", "London", "Paris", "New York"]


def letters(count: int, seed: int) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Sentences with people and cities, a third of them labelled at random, so that the recognizer is unsure."""
    random, sentences = np.random.default_rng(seed), []
    for _ in range(count):
        text, entities = "", []
        for _ in range(random.integers(2, 7)):
            text += " met " if random.random() < 0.5 else " in "
            number, unsure = random.integers(len(NAMES)), random.random() < 0.3
            kind = ["PER", "LOC"][random.integers(2) if unsure else int(number >= 3)]
            entities.append((len(text), len(text) + len(NAMES[number]), kind))
            text += NAMES[number]
        sentences.append((text, entities))
    return sentences


@pytest.fixture(scope="module")
def recognizer() -> spacy.Language:
    """A recognizer as spaCy trains it: greedily, which makes the probabilities of its beam poor."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = [Example.from_dict(nlp.make_doc(text), {"entities": spans}) for text, spans in letters(40, seed=1)]
    nlp.initialize(lambda: examples)
    for _ in range(12):
        nlp.update(examples)
    return nlp


def beside(recognizer: spacy.Language, **config: Any) -> spacy.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("ner", source=recognizer)
    nlp.add_pipe("bridle_spans", config={"scores_from": "ner", **config})
    nlp.disable_pipe("ner")
    return nlp


def test_without_rules_entities_are_those_of_the_recognizer(recognizer: spacy.Language) -> None:
    texts = [text for text, _ in letters(60, seed=2)]
    plain = [found(doc.ents) for doc in recognizer.pipe(texts)]
    beams = beam_spans(recognizer.get_pipe("ner"), map(recognizer.make_doc, texts))
    alone = [found(doc.ents) for doc in with_spans().pipe(beams)]
    assert sum(a != b for a, b in zip(alone, plain, strict=True)) > 8, "the beam alone would change many"
    assert [found(doc.ents) for doc in beside(recognizer).pipe(texts)] == plain
    assert [found(doc.ents) for doc in beside(recognizer, threshold=0.9).pipe(texts)] == plain
    nested = beside(recognizer, overlap="nest", sets="spans")
    assert [found(doc.spans["bridle"]) for doc in nested.pipe(texts)] == plain
    with pytest.raises(bridle.ModelError, match=r"the scores of a beam are probabilities; got scores='log_odds'"):
        beside(recognizer, scores="log_odds")


@pytest.mark.parametrize("rule", ["at most 2 segments of PER", "at most 1 segment of LOC  [penalty 0.1]"])
def test_entities_change_only_where_they_break_a_rule(recognizer: spacy.Language, rule: str) -> None:
    texts, label, most = [text for text, _ in letters(60, seed=2)], rule.split()[5], int(rule.split()[2])
    broken = 0
    for own, doc in zip(recognizer.pipe(texts), beside(recognizer, rules=[rule]).pipe(texts), strict=True):
        breaks = sum(ent.label_ == label for ent in own.ents) > most
        broken += breaks
        if "penalty" not in rule:
            assert sum(ent.label_ == label for ent in doc.ents) <= most
        assert breaks or found(doc.ents) == found(own.ents)
        record = doc._.bridle["bridle_spans"]
        assert record["optimal"] and record["score"] == pytest.approx(record["bound"])
    assert 3 < broken < 57


def test_the_spans_of_a_recognizer_are_the_best_until_one_of_them_is_forbidden() -> None:
    """Whatever the beam says; then probable candidates take its place, and the others stay."""
    random, replaced = np.random.default_rng(0), 0
    doc = spacy.blank("en").make_doc("a b c d e f g h")
    for _ in range(200):
        cuts = sorted(random.choice(9, size=6, replace=False).tolist())
        spans = [Span(doc, a, b, "X") for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
        starts = random.integers(0, 8, 9).tolist()
        spans += [Span(doc, a, min(8, a + int(random.integers(1, 4))), "Y") for a in starts]
        gains = keep_own(random.normal(0, 5, len(spans)), spans, [0, 1, 2], "forbid")
        assert select_spans(bridle.SpanSelector(), doc, spans, gains).indices == [0, 1, 2]
        gains[1] = -np.inf
        chosen = select_spans(bridle.SpanSelector(), doc, spans, gains).indices
        assert {0, 2} <= set(chosen)
        replaced += len(chosen) == 3
    assert replaced > 20


def test_unknown_labels_are_found_before_the_first_document(recognizer: spacy.Language, tmp_path: Path) -> None:
    says, rules = r"unknown label .*got 'PERS'; wanted one of O, LOC, PER.*\n.*'PER'", ["at most 1 segment of PERS"]
    file = tmp_path / "my.rules"
    file.write_text(rules[0])
    for wrong in (rules, str(file)):
        with pytest.raises(bridle.LabelError, match=says):
            beside(recognizer, rules=wrong)
    with pytest.raises(bridle.LabelError, match=r"unknown label .*got 'PERS'"):
        with_spans(rules=rules, labels=["PER", "LOC"])
    beside(recognizer).to_disk(tmp_path / "pipeline")
    with pytest.raises(bridle.LabelError, match=says):
        spacy.load(tmp_path / "pipeline", config={"components": {"bridle_spans": {"rules": rules}}})
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    nlp.add_pipe("bridle_spans", config={"scores_from": "ner", "rules": rules})  # no labels are known yet
    with pytest.raises(bridle.LabelError, match=says):
        nlp.initialize(lambda: [Example.from_dict(nlp.make_doc(TEXT), {"entities": PEOPLE})])


def test_a_recognizer_may_come_later(tmp_path: Path) -> None:
    nlp = trained("ner", {"entities": PEOPLE})
    nlp.add_pipe("bridle_spans", before="ner", config={"scores_from": "ner", "sets": "spans"})
    nlp.to_disk(tmp_path)
    doc = spacy.load(tmp_path)(TEXT)
    assert found(doc.spans["bridle"]) == found(doc.ents) and doc.ents
    with pytest.raises(bridle.ModelError, match=r"there is no component 'ner' in the pipeline; got bridle_spans"):
        with_spans(scores_from="ner")(TEXT)


def test_evaluate() -> None:
    for sets, wanted in (("ents", "ents_p"), ("spans", "spans_bridle_p")):
        nlp = with_spans(sets=sets, rules=["at most 1 segment of PER"])
        gold = scored(nlp, TEXT, ROWS)
        gold.ents = gold.spans["bridle"] = [Span(gold, 3, 5, "PER")]
        example = Example(nlp(scored(nlp, TEXT, ROWS)), gold)
        assert nlp.get_pipe("bridle_spans").score([example])[wanted] == 0.5


# ---- the filter -----------------------------------------------------------------------------------------------------

PATTERNS = [("GPE", "New York"), ("ORG", "New York Times"), ("ORG", "Times Square Bank"), ("FAC", "Times Square")]
SQUARE = "New York Times Square Bank"


def ruler(**config: Any) -> spacy.Language:
    nlp = spacy.blank("en")
    filtered = {"@misc": "bridle.ents_filter.v1", **config}
    pipe = nlp.add_pipe("span_ruler", config={"annotate_ents": True, "ents_filter": filtered})
    pipe.add_patterns([{"label": label, "pattern": pattern} for label, pattern in PATTERNS])
    return nlp


def test_matches_compete_under_rules() -> None:
    assert [ent.text for ent in ruler()(SQUARE).ents] == ["New York", "Times Square Bank"], "it covers most"
    forbidden = ruler(rules=["forbid ORG"])(SQUARE)
    assert [ent.text for ent in forbidden.ents] == ["New York", "Times Square"]
    labels = sorted({label for label, _ in PATTERNS})
    again = ruler(rules=["forbid ORG"], labels=labels)(SQUARE)
    assert found(again.ents) == found(forbidden.ents)
    with pytest.raises(bridle.LabelError, match=r"unknown label .*got 'ORGS'; wanted one of .*ORG"):
        ruler(rules=["forbid ORGS"], labels=labels)


def test_who_is_preferred() -> None:
    doc = spacy.blank("en").make_doc(SQUARE)
    old, new = [Span(doc, 1, 4, "A")], [Span(doc, 0, 2, "B"), Span(doc, 2, 5, "B"), Span(doc, 3, 5, "C")]
    assert found(EntsFilter()(old, new)) == [(0, 2, "B"), (2, 5, "B")]
    assert found(EntsFilter(prefer="new")(old, [new[2]])) == [(3, 5, "C")]
    assert found(EntsFilter(prefer="existing")(old, new)) == [(1, 4, "A")]
    assert found(EntsFilter()([Span(doc, 0, 2, "A")], [Span(doc, 0, 2, "B")])) == [(0, 2, "A")], "of equal ones"
    assert found(EntsFilter(prefer="new")([Span(doc, 0, 2, "A")], [Span(doc, 0, 2, "B")])) == [(0, 2, "B")]
    assert EntsFilter()([], []) == []
    short = [Span(doc, start, end, "X") for start, end in ((0, 1), (1, 2), (2, 3), (3, 5))]
    for prefer in ("longest", "new", "existing"):  # five tokens by four spans, not four by one
        assert EntsFilter(prefer=prefer)([], [Span(doc, 0, 4, "X"), *short]) == short
        assert EntsFilter(prefer=prefer)([Span(doc, 0, 4, "X"), *short], []) == short
    for penalty, chosen in ((2, short), (3, short[3:])):  # three tokens are worth more than 2
        assert EntsFilter(rules=[f"at most 1 segment of X  [penalty {penalty}]"])([], short) == chosen
    with pytest.raises(bridle.ModelError, match=r"setting prefer .*got 'old'; wanted 'longest', 'new' or 'existing'"):
        EntsFilter(prefer="old")
    other = spacy.blank("en").make_doc(SQUARE)
    with pytest.raises(bridle.ModelError, match="spans are of different documents"):
        EntsFilter()(old, [Span(other, 0, 1, "X")])


@pytest.mark.parametrize("prefer", ["longest", "new", "existing"])
def test_the_choice_is_the_best_of_all(prefer: str) -> None:
    """Against enumeration: tokens covered by the preferred ones, then by all, by the fewest spans."""
    random = np.random.default_rng(0)
    doc = spacy.blank("en").make_doc("a b c d e f g h")
    for _ in range(60):
        places = [
            (int(a), int(min(a + n, 8)))
            for a, n in zip(random.integers(0, 8, 7), random.integers(1, 5, 7), strict=True)
        ]
        spans = [Span(doc, start, end, "X") for start, end in dict.fromkeys(places)]
        cut = int(random.integers(0, len(spans)))
        old, new = spans[:cut], spans[cut:]
        first = {"longest": spans, "new": new, "existing": old}[prefer]

        def rank(chosen: Sequence[Span], first: Sequence[Span] = first) -> tuple[int, int, int]:
            return sum(len(span) for span in chosen if span in first), sum(map(len, chosen)), -len(chosen)

        free = [
            chosen
            for k in range(len(spans) + 1)
            for chosen in combinations(spans, k)
            if all(a.end <= b.start or b.end <= a.start for a, b in combinations(chosen, 2))
        ]
        assert rank(EntsFilter(prefer=prefer)(old, new)) == max(map(rank, free))
