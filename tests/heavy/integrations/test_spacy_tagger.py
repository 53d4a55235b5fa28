"""bridle_tagger: labels become tags, entities or spans, whatever the scores come from; missing parts are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.util import fix_random_seed

import bridle
from bridle.integrations.spacy.tagger import log_probabilities

SENTENCES = [
    ("Ada Lovelace met Charles Babbage in London .", "B-PER I-PER O B-PER I-PER O B-LOC O"),
    ("Charles Darwin left London for New Zealand .", "B-PER I-PER O B-LOC O B-LOC I-LOC O"),
    ("New York is far from London .", "B-LOC I-LOC O O O B-LOC O"),
]
TEXT = "Ada Babbage left London for New York ."
Model = bridle.models.Tagger


@pytest.fixture(scope="module")
def names() -> Model:
    """People and places, in BIO."""
    words, labels = zip(*((text.split(), row.split()) for text, row in SENTENCES), strict=True)
    return bridle.CRF(features=["word[0]", "word[-1]", "label[-1]"], scheme="BIO").fit(list(words), list(labels))


@pytest.fixture(scope="module")
def parts_of_speech() -> Model:
    """Words to D, N and V."""
    X, y = [["the", "cat", "sleeps"], ["a", "dog", "runs"]], [["D", "N", "V"]] * 2
    return bridle.CRF(features=["word[0]", "label[-1]"]).fit(X, y)


def with_tagger(trained: Model | None, **config: Any) -> spacy.Language:
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("bridle_tagger", config=config)
    if trained is not None:
        tagger.model = trained
    return nlp


def ents(doc: Doc) -> list[tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in doc.ents]


# ---- what labels become ---------------------------------------------------------------------------------------------


def test_tags_are_those_of_the_model_and_of_its_rules(parts_of_speech: Model) -> None:
    words, rules = ["a", "cat", "dog", "runs"], ["at most 1 token of N"]
    for own in ([], rules):
        doc = with_tagger(parts_of_speech, rules=own)(" ".join(words))
        assert [token.tag_ for token in doc] == parts_of_speech.predict([words], own)[0]
    assert [token.tag_ for token in doc].count("N") == 1
    assert doc.has_annotation("TAG", require_complete=True)


def test_segments_become_entities(names: Model) -> None:
    doc = with_tagger(names, sets="ents")(TEXT)
    assert ents(doc) == [("Ada Babbage", "PER"), ("London", "LOC"), ("New York", "LOC")]
    doc = with_tagger(names, sets="ents", rules=["well formed", "at most 1 segment of LOC"])(TEXT)
    assert [label for _, label in ents(doc)].count("LOC") == 1


def test_segments_become_spans_with_probabilities(names: Model) -> None:
    nlp = with_tagger(names, sets="spans", spans_key="found", scores="marginals")
    doc = nlp(TEXT)
    spans, scores = doc.spans["found"], doc.spans["found"].attrs["scores"]
    assert [span.text for span in spans] == ["Ada Babbage", "London", "New York"] and not doc.ents
    table = names.decoder().marginals(names.lattice(TEXT.split()))
    assert scores[1] == pytest.approx(table[3].max())
    assert scores[0] == pytest.approx(table[:2].max(axis=1).min())
    [record] = doc._.bridle["bridle_tagger"]
    assert record["probabilities"] == pytest.approx(table.max(axis=1))


def test_parts_of_speech(parts_of_speech: Model) -> None:
    X, y = [["the", "cat", "sleeps"]] * 2, [["DET", "POS=NOUN|Number=Sing", "VERB"]] * 2
    doc = with_tagger(bridle.LocalTagger(features=["word[0]"]).fit(X, y), sets="pos")("the cat sleeps")
    assert [token.pos_ for token in doc] == ["DET", "NOUN", "VERB"] and str(doc[1].morph) == "Number=Sing"
    with pytest.raises(bridle.ModelError, match="a label is not a part of speech; got 'D'; wanted one of ADJ"):
        with_tagger(parts_of_speech, sets="pos")("the cat")


def test_features_of_a_morphologizer_replace_those_that_are_there() -> None:
    X, y = [["the", "cats", "sleep", "now"]] * 2, [["DET", "POS=NOUN", "POS=VERB|Number=Plur", "_"]] * 2
    nlp = with_tagger(bridle.LocalTagger(features=["word[0]"]).fit(X, y), sets="pos")
    doc = nlp.make_doc("the cats sleep now")
    for token in doc:
        token.set_morph("Number=Sing|Reading=x")
    others = "Reading=x"  # no label speaks of readings, and DET says nothing of numbers
    morphs = [str(token.morph) for token in nlp(doc)]
    assert morphs == [f"Number=Sing|{others}", others, f"Number=Plur|{others}", others]
    assert [token.pos_ for token in doc] == ["DET", "NOUN", "VERB", ""]


def test_the_record_is_the_proof(parts_of_speech: Model) -> None:
    rules = ["at most 1 token of N", "at most 0 tokens of V  [penalty 0.25]"]
    [record] = with_tagger(parts_of_speech, rules=rules)("a dog dog runs")._.bridle["bridle_tagger"]
    d = parts_of_speech.decoder(rules).decode(parts_of_speech.lattice(["a", "dog", "dog", "runs"]))
    assert (record["start"], record["end"], record["status"], record["optimal"]) == (0, 4, "optimal", True)
    assert record["score"] == d.score == record["bound"] and record["penalty"] == d.penalty == 0.25
    assert record["violated"] == [{"rule": rules[1], "times": 1}]


def test_white_space_has_no_label(names: Model) -> None:
    doc = with_tagger(names, sets="ents")("Ada \n Lovelace  met Charles\n")
    assert ents(doc) == [("Ada \n Lovelace", "PER"), ("Charles", "PER")]
    tagged = with_tagger(names)("\n")
    assert tagged[0].tag_ == "" and tagged._.bridle["bridle_tagger"] == []
    assert len(with_tagger(names)("")) == 0


def test_sentences_are_sequences_of_their_own(names: Model) -> None:
    text, rules = "Ada Lovelace met Charles . New York is far from London .", ["at most 1 segment of LOC"]
    nlp = with_tagger(names, sets="ents", sequences="sents", rules=rules)
    with pytest.raises(bridle.ModelError, match="no sentences; got sequences='sents'; wanted 'sentencizer'"):
        nlp(text)
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp(text)
    assert [record["start"] for record in doc._.bridle["bridle_tagger"]] == [0, 5]
    assert [label for _, label in ents(doc)].count("LOC") == 1
    twice = nlp("New York is far . London is far .")
    assert [label for _, label in ents(twice)] == ["LOC", "LOC"], "one per sentence"


def test_skipped_sentences_keep_their_entities(names: Model) -> None:
    rules = ["fix LOC at tokens /Ada/", "forbid LOC at tokens /Ada/"]
    nlp = with_tagger(names, sets="ents", sequences="sents", on_infeasible="skip", rules=rules)
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp.get_pipe("sentencizer")(nlp.make_doc("New York is far . Ada met Charles . London is far ."))
    own = [Span(doc, 0, 1, "OLD"), Span(doc, 5, 6, "OLD"), Span(doc, 8, 10, "OLD")]
    doc.set_ents(own, missing=[doc[6:8]])
    doc = nlp.get_pipe("bridle_tagger")(doc)
    assert ents(doc) == [("New York", "LOC"), ("Ada", "OLD"), ("London", "LOC")]
    assert [token.ent_iob_ for token in doc][5:8] == ["B", "", ""]
    assert [record["status"] for record in doc._.bridle["bridle_tagger"]] == ["optimal", "infeasible", "optimal"]


def test_documents_without_tokens_have_no_spans(names: Model) -> None:
    nlp = with_tagger(names, sets="spans", scores="marginals")
    nlp.add_pipe("bridle_spans", config={"spans_key": "bridle"})
    for doc in nlp.pipe(["", "\n", "is far ."]):
        assert len(doc.spans["bridle"]) == 0 and len(doc.spans["bridle"].attrs["scores"]) == 0


# ---- where scores come from -----------------------------------------------------------------------------------------


def test_columns_are_attributes_of_tokens(parts_of_speech: Model) -> None:
    Token.set_extension("is_name", getter=lambda token: token.text.istitle(), force=True)
    X = [{"word": ["Rose", "rose"], "pos": ["N", "V"], "name": ["True", "False"]}]
    model = bridle.LocalTagger(features=["pos[0]", "name[0]"]).fit(X * 3, [["X", "Y"]] * 3)
    nlp = with_tagger(model, sets="ents", columns={"pos": "tag_", "name": "_.is_name"})
    with pytest.raises(bridle.ModelError, match=r"'pos' is token.tag_, which no component has set.*wanted 'tagger'"):
        nlp("the cat")
    nlp.add_pipe("bridle_tagger", name="first", first=True).model = parts_of_speech
    assert [ent.label_ for ent in nlp("Cat sleeps").ents] == ["X", "Y"]
    Token.remove_extension("is_name")


def test_features_of_ones_own() -> None:
    @spacy.registry.misc("test_features.v1")
    def make() -> Any:
        return lambda tokens: [[f"lower={token.lower_}"] for token in tokens]

    model = bridle.CRF().fit([[["lower=the"], ["lower=cat"]]] * 2, [["D", "N"]] * 2)
    nlp = with_tagger(model, features={"@misc": "test_features.v1"})
    assert [token.tag_ for token in nlp("THE Cat")] == ["D", "N"]
    assert nlp.config["components"]["bridle_tagger"]["features"] == {"@misc": "test_features.v1"}
    with pytest.raises(bridle.ModelError, match=r"trained on features.*wanted the setting features"):
        with_tagger(model)("the cat")
    with pytest.raises(bridle.ModelError, match=r"setting columns does not fit the model.*wanted features"):
        with_tagger(model, columns={"word": "text"}, features={"@misc": "test_features.v1"})("the cat")


def test_rules_speak_of_columns_and_of_tokens_with_features(parts_of_speech: Model) -> None:
    X = [{"word": ["Rose", "rose"], "pos": ["N", "V"]}]
    model = bridle.LocalTagger(features=["pos[0]"]).fit(X * 3, [["X", "Y"]] * 3)
    nlp = with_tagger(model, columns={"pos": "tag_"}, rules=["fix Y at pos /N/", "fix X at tokens /runs/"])
    nlp.add_pipe("bridle_tagger", name="first", first=True).model = parts_of_speech
    assert [token.tag_ for token in nlp("dog runs")] == ["Y", "X"]
    own = bridle.CRF().fit([[["lower=the"], ["lower=cat"]]] * 2, [["D", "N"]] * 2)
    spacy.registry.misc("test_lower.v1", func=lambda: lambda tokens: [[f"lower={token.lower_}"] for token in tokens])
    nlp = with_tagger(own, features={"@misc": "test_lower.v1"}, rules=["fix N at tokens /THE/"])
    assert [[token.tag_ for token in doc] for doc in nlp.pipe(["THE Cat", "the cat"])] == [["N", "N"], ["D", "N"]]


def test_rules_speak_of_the_text_of_tokens(names: Model) -> None:
    doc = with_tagger(names, sets="ents", rules=["well formed", "fix LOC at tokens /Ada/"])("Ada met London .")
    assert ents(doc) == [("Ada", "LOC"), ("London", "LOC")]


@pytest.fixture(scope="module")
def statistical() -> spacy.Language:
    """spaCy's own tagger, trained on three sentences."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    texts = ["the cat sleeps", "a dog runs", "the dog sleeps here"]
    tags = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V", "A"]]
    examples = [Example.from_dict(nlp.make_doc(text), {"tags": row}) for text, row in zip(texts, tags, strict=True)]
    nlp.initialize(lambda: examples)
    for _ in range(15):
        nlp.update(examples)
    return nlp


def test_a_tagger_of_the_pipeline_under_rules(statistical: spacy.Language, tmp_path: Path) -> None:
    texts = ["the cat sleeps", "a dog dog runs here", "", "dog"]
    plain = [[token.tag_ for token in doc] for doc in statistical.pipe(texts)]
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", source=statistical)
    nlp.add_pipe("bridle_tagger", config={"scores_from": "tagger"})
    assert [[token.tag_ for token in doc] for doc in nlp.pipe(texts)] == plain, "no rules: its own tags"
    nlp.remove_pipe("bridle_tagger")
    nlp.add_pipe("bridle_tagger", config={"scores_from": "tagger", "rules": ["at most 1 token of N"]})
    nlp.disable_pipe("tagger")  # its tags are not needed, only its scores
    nlp.to_disk(tmp_path)
    for pipeline in (nlp, spacy.load(tmp_path)):
        doc = pipeline(texts[1])
        assert [token.tag_ for token in doc].count("N") == 1 and doc._.bridle["bridle_tagger"][0]["optimal"]
    assert plain[1].count("N") == 2
    [record] = doc._.bridle["bridle_tagger"]
    scores = log_probabilities(statistical.get_pipe("tagger").model.predict([doc])[0])
    decoder = bridle.Decoder(statistical.get_pipe("tagger").labels, ["at most 1 token of N"])
    assert decoder.decode(bridle.Lattice(scores)).score == pytest.approx(record["score"])


def test_a_component_may_come_later(statistical: spacy.Language, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", source=statistical)
    config = {"scores_from": "tagger", "sets": "spans", "rules": ["at most 0 tokens of N"]}
    nlp.add_pipe("bridle_tagger", before="tagger", config=config)
    nlp.to_disk(tmp_path)
    for pipeline in (nlp, spacy.load(tmp_path)):
        doc = pipeline("a dog")
        assert doc[1].tag_ == "N" and "N" not in {span.label_ for span in doc.spans["bridle"]}


def test_a_component_may_be_replaced(statistical: spacy.Language) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", source=statistical)
    tagger = nlp.add_pipe("bridle_tagger", config={"scores_from": "tagger"})
    assert nlp("dog")[0].tag_ == "N" and tagger.labels == ("A", "D", "N", "V")
    other = nlp.replace_pipe("tagger", "tagger")
    other.add_label("X")
    with pytest.raises(ValueError, match="tagger"):  # spaCy's: it has not been initialized
        nlp("dog")
    nlp.remove_pipe("tagger")
    assert tagger.labels == ()
    with pytest.raises(bridle.ModelError, match="there is no component 'tagger' in the pipeline; got bridle_tagger"):
        nlp("dog")


def test_components_without_scores(statistical: spacy.Language) -> None:
    with pytest.raises(bridle.ModelError, match="there is no component 'tagger' in the pipeline; got bridle_tagger"):
        with_tagger(None, scores_from="tagger")("dog")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("bridle_tagger", config={"scores_from": "sentencizer"})
    with pytest.raises(bridle.ModelError, match=r"'sentencizer' has no scores per token and label; got Sentencizer"):
        nlp("dog")
    nlp.add_pipe("ner").add_label("X")
    nlp.add_pipe("textcat_multilabel").add_label("X")
    nlp.add_pipe("spancat").add_label("X")
    nlp.initialize()
    for name in ("ner", "textcat_multilabel", "spancat"):
        with pytest.raises(bridle.ModelError, match=r"no scores per token and label.*\n.*see bridle_spans"):
            nlp.add_pipe("bridle_tagger", name=f"of_{name}", config={"scores_from": name})(nlp.make_doc("dog"))
    blank = spacy.blank("en")
    blank.add_pipe("tagger")
    blank.add_pipe("bridle_tagger", config={"scores_from": "tagger"})
    with pytest.raises(bridle.ModelError, match="has no labels; got none; wanted one that has been trained"):
        blank.get_pipe("bridle_tagger")(blank.make_doc("dog"))


# ---- rules that cannot hold, and other mistakes ---------------------------------------------------------------------


CLASH = ["fix N at 0", "fix D at tokens /the/"]


def test_no_labelling_obeys(parts_of_speech: Model) -> None:
    texts = ["a dog", "the cat", "dog runs"]
    with pytest.raises(bridle.Infeasible) as caught:
        list(with_tagger(parts_of_speech, rules=CLASH).pipe(texts))
    assert len(caught.value.clash) == 2
    skipped = list(with_tagger(parts_of_speech, rules=CLASH, on_infeasible="skip").pipe(texts))
    assert [doc[0].tag_ for doc in skipped] == ["N", "", "N"]
    assert skipped[1]._.bridle["bridle_tagger"] == [{"start": 0, "end": 2, "status": "infeasible"}]
    relaxed = with_tagger(parts_of_speech, rules=CLASH, on_infeasible="relax", scores="marginals")("the cat")
    assert relaxed[0].tag_ in ("N", "D") and relaxed._.bridle["bridle_tagger"][0]["status"] == "relaxed"


def test_the_error_handler_gets_single_documents(parts_of_speech: Model) -> None:
    nlp, failed = with_tagger(parts_of_speech, rules=CLASH), list[tuple[str, list[str], str]]()

    def handle(name: str, component: Any, docs: list[Doc], error: Exception) -> None:
        failed.append((name, [doc.text for doc in docs], type(error).__name__))

    nlp.set_error_handler(handle)
    assert [doc.text for doc in nlp.pipe(["a dog", "the cat", "dog runs"])] == ["a dog", "dog runs"]
    assert failed == [("bridle_tagger", ["the cat"], "Infeasible")]
    failed.clear()
    none = with_tagger(None)
    none.set_error_handler(handle)
    assert not list(none.pipe(["a dog", "the cat"]))
    assert failed == [("bridle_tagger", [text], "ModelError") for text in ("a dog", "the cat")]


@pytest.mark.parametrize(
    ("config", "texts", "bad"),
    [
        ({"rules": ["fix N at 2"]}, ["the cat sleeps", "a dog", "", "a dog runs"], [("a dog", "RuleError")]),
        ({"columns": {"word": "_.fragile"}}, ["the cat", "the fault", "a dog"], [("the fault", "ZeroDivisionError")]),
    ],
)
def test_one_document_does_not_take_its_batch_with_it(
    parts_of_speech: Model, config: dict[str, Any], texts: list[str], bad: list[tuple[str, str]]
) -> None:
    Token.set_extension("fragile", getter=lambda token: 1 // (token.text != "fault") and token.text, force=True)
    nlp, failed = with_tagger(parts_of_speech, **config), list[tuple[str, str]]()
    nlp.set_error_handler(lambda name, _, docs, error: failed.extend((doc.text, type(error).__name__) for doc in docs))
    done = list(nlp.pipe(texts))
    assert failed == bad and [doc.text for doc in done] == [text for text in texts if text not in dict(bad)]
    assert [[token.tag_ for token in doc] for doc in done] == [[token.tag_ for token in nlp(doc.text)] for doc in done]
    Token.remove_extension("fragile")


def test_a_batch_that_fails_is_not_tried_again(statistical: spacy.Language, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, failed, calls = spacy.blank("en"), list[tuple[str, str]](), list[int]()
    nlp.add_pipe("tagger", source=statistical)
    tagger = nlp.add_pipe("bridle_tagger", config={"scores_from": "tagger"})
    nlp.disable_pipe("tagger")
    model = nlp.get_pipe("tagger").model

    def fail(self: Any, docs: list[Doc]) -> Any:
        calls.append(len(docs))
        raise OSError("out of memory")

    monkeypatch.setattr(type(model), "predict", fail)
    tagger.set_error_handler(lambda name, _, docs, error: failed.extend((doc.text, str(error)) for doc in docs))
    assert not list(nlp.pipe(["a dog", "the cat", ""], batch_size=3))
    assert calls == [2] and failed == [(text, "out of memory") for text in ("a dog", "the cat", "")]


def test_errors_of_a_batch_do_not_number_its_sequences(parts_of_speech: Model) -> None:
    """The error handler gets the document; a number in the batch would mean nothing to it."""
    nlp, errors = with_tagger(parts_of_speech, rules=["fix N at 2", *CLASH]), list[bridle.BridleError]()
    nlp.set_error_handler(lambda *result: errors.append(result[-1]))
    assert not list(nlp.pipe(["a dog", "the cat sleeps", "the cat"]))
    assert [(type(error).__name__, error.sequence) for error in errors] == [
        ("RuleError", None),
        ("Infeasible", None),
        ("RuleError", None),
    ]


def test_documents_without_tokens_are_not_decoded(parts_of_speech: Model) -> None:
    nlp = with_tagger(parts_of_speech, rules=["fix N at 0", "present V"])
    assert [doc._.bridle["bridle_tagger"] for doc in nlp.pipe(["", "\n"])] == [[], []]


def test_missing_models_and_files(tmp_path: Path, parts_of_speech: Model) -> None:
    with pytest.raises(bridle.ModelError, match=r"has no model.*config=\{\"model\": \"my.bridle\"\}"):
        with_tagger(None)("the cat")
    nlp = with_tagger(None, model=str(tmp_path / "no.bridle"))
    assert nlp.get_pipe("bridle_tagger").model is None, "spaCy asks for it where no file must be read"
    with pytest.raises(bridle.ModelFileError, match=r"no\.bridle: cannot read this file; got No such file"):
        nlp("the cat")
    with pytest.raises(bridle.FileError, match=r"no\.rules: cannot read the rules file; got No such file"):
        with_tagger(parts_of_speech, rules=str(tmp_path / "no.rules"))
    with pytest.raises(bridle.ModelError, match="this is not a model of Bridle; got str"):
        nlp.get_pipe("bridle_tagger").model = "my.bridle"
    with pytest.raises(bridle.ModelError, match="the model has not been trained"):
        nlp.get_pipe("bridle_tagger").model = bridle.CRF()
    for data, says in (("text", "got str"), (b"\xc1", "not what to_bytes returned")):
        with pytest.raises(bridle.ModelError, match=says):
            nlp.get_pipe("bridle_tagger").from_bytes(data)


def test_unknown_labels_are_found_before_the_first_document(
    statistical: spacy.Language, parts_of_speech: Model, tmp_path: Path
) -> None:
    says = r"unknown label .*got 'NN'; wanted one of .*D, N, V"
    rules, file, saved = ["at most 1 token of NN"], tmp_path / "my.rules", tmp_path / "my.bridle"
    file.write_text(rules[0])
    parts_of_speech.save(saved)
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", source=statistical)
    for config in ({"scores_from": "tagger"}, {"model": str(saved)}):
        for wrong in (rules, str(file)):
            with pytest.raises(bridle.LabelError, match=says):
                nlp.add_pipe("bridle_tagger", config={**config, "rules": wrong})
    tagger = nlp.add_pipe("bridle_tagger", config={"rules": rules})
    with pytest.raises(bridle.LabelError, match=says):
        tagger.model = parts_of_speech
    assert tagger.model is None
    nlp.config["initialize"]["components"]["bridle_tagger"] = {"model": str(saved)}
    with pytest.raises(bridle.LabelError, match=says):
        nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("the cat"), {"tags": ["D", "N"]})])
    nlp = with_tagger(None, model=str(saved))
    nlp.to_disk(tmp_path / "pipeline")
    with pytest.raises(bridle.LabelError, match=says):
        spacy.load(tmp_path / "pipeline", config={"components": {"bridle_tagger": {"rules": rules}}})


def test_a_model_by_its_path(tmp_path: Path, parts_of_speech: Model) -> None:
    parts_of_speech.save(tmp_path / "a.bridle")
    nlp = with_tagger(None, model=str(tmp_path / "a.bridle"))
    assert nlp("dog")[0].tag_ == "N"
    other = with_tagger(None)
    other.config["initialize"]["components"]["bridle_tagger"] = {"model": str(tmp_path / "a.bridle")}
    other.initialize()
    assert other("dog")[0].tag_ == "N"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"sets": "lemma"}, "setting sets .*got 'lemma'; wanted 'tag', 'pos', 'ents' or 'spans'"),
        ({"sequences": "sentences"}, "setting sequences .*got 'sentences'; wanted 'doc' or 'sents'"),
        ({"scores": "yes"}, "setting scores .*got 'yes'; wanted 'none' or 'marginals'"),
        ({"on_infeasible": "ignore"}, "setting on_infeasible .*got 'ignore'; wanted 'raise', 'relax' or 'skip'"),
        ({"model": "a.bridle", "scores_from": "tagger"}, "cannot be combined.*wanted one of them"),
        ({"rules": ["at mst 1 token of N"]}, "cannot read|not a rule"),
    ],
)
def test_bad_settings(config: dict[str, Any], says: str) -> None:
    with pytest.raises(bridle.BridleError, match=says):
        spacy.blank("en").add_pipe("bridle_tagger", config=config)


def test_settings_that_do_not_fit_the_model(parts_of_speech: Model) -> None:
    with pytest.raises(
        bridle.LabelError, match=r"unknown label .in the rule: forbid X.; got 'X'; wanted one of D, N, V"
    ):
        with_tagger(parts_of_speech, rules=["forbid X"])("the cat")
    with pytest.raises(bridle.ModelError, match=r"the model has no column 'pos'.*wanted 'word'"):
        with_tagger(parts_of_speech, columns={"pos": "tag_"})("the cat")
    with pytest.raises(bridle.ModelError, match=r"not an attribute of tokens.*no attribute 'txt'"):
        with_tagger(parts_of_speech, columns={"word": "txt"})("the cat")
    two = bridle.LocalTagger(features=["word[0]", "pos[0]"]).fit(
        [{"word": ["a", "b"], "pos": ["x", "y"]}], [["D", "N"]]
    )
    with pytest.raises(bridle.ModelError, match=r"the model needs a column 'pos'.*columns={'pos': 'tag_'}"):
        with_tagger(two)("the cat")


def test_a_component_from_another_pipeline(parts_of_speech: Model) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("bridle_tagger", source=with_tagger(parts_of_speech, rules=["at most 1 token of N"]))
    assert [token.tag_ for token in nlp("a dog dog")].count("N") == 1


def test_documents_of_two_vocabularies_in_one_batch(parts_of_speech: Model) -> None:
    nlp, other = with_tagger(parts_of_speech), spacy.blank("en")
    docs = [nlp.make_doc("the cat"), other.make_doc("a dog"), nlp.make_doc("a cat")]
    done = nlp.get_pipe("bridle_tagger").pipe(docs)
    assert [[token.tag_ for token in doc] for doc in done] == [["D", "N"]] * 3


def test_memory_zones(parts_of_speech: Model) -> None:
    """A zone forgets the strings that were new in it; the labels must be known in the next one."""
    nlp = with_tagger(parts_of_speech)
    for _ in range(2):
        with nlp.memory_zone():
            assert [token.tag_ for doc in nlp.pipe(["the cat", "a dog"]) for token in doc] == ["D", "N", "D", "N"]


# ---- beside spaCy ---------------------------------------------------------------------------------------------------


def test_evaluate(names: Model, parts_of_speech: Model) -> None:
    nlp = with_tagger(names, sets="ents")
    gold = {"entities": [(0, 11, "PER"), (17, 23, "LOC")]}
    result = nlp.evaluate([Example.from_dict(nlp.make_doc(TEXT), gold)])
    assert result["ents_p"] == pytest.approx(2 / 3) and result["ents_r"] == 1
    nlp = with_tagger(parts_of_speech)
    result = nlp.evaluate([Example.from_dict(nlp.make_doc("the cat"), {"tags": ["D", "V"]})])
    assert result["tag_acc"] == 0.5
    nlp = with_tagger(names, sets="spans")
    example = Example.from_dict(nlp.make_doc(TEXT), {"spans": {"bridle": [(0, 11, "PER")]}})
    assert nlp.evaluate([example])["spans_bridle_r"] == 1


def test_labels_are_known_once_the_model_is(names: Model) -> None:
    nlp = with_tagger(names, sets="ents", rules=["at most 1 segment of PER"])
    assert nlp.pipe_labels["bridle_tagger"] == ["LOC", "PER"]
    assert nlp.get_pipe("bridle_tagger").rules == ["at most 1 segment of PER"]
    assert with_tagger(None).pipe_labels["bridle_tagger"] == []


def test_lists_that_rules_name_are_saved_with_the_pipeline(names: Model, tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("ada\n")
    (tmp_path / "my.rules").write_text('well formed\nfix LOC at tokens in "cities.txt" ignoring case\n')
    nlp = with_tagger(names, sets="ents", rules=str(tmp_path / "my.rules"))
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "my.rules").unlink()
    (tmp_path / "cities.txt").unlink()
    for item in (nlp, spacy.load(tmp_path / "pipeline")):
        assert next((ent.text, ent.label_) for ent in item("Ada met London .").ents) == ("Ada", "LOC")


def test_a_column_that_spacy_does_not_pass_is_named(names: Model) -> None:
    with pytest.raises(bridle.GivenError, match="there is no column 'pos'"):
        with_tagger(names, sets="ents", rules=["fix LOC at pos /NNP/"])("Ada met London .")


def test_the_sentences_of_a_doc_are_decoded_together() -> None:
    X, y = [["Boston", "is", "big"], ["Boston", "won"]], [["LOC", "O", "O"], ["ORG", "O"]]
    model = bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(X * 5 + X[:1] * 9, y * 5 + y[:1] * 9)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    rule = "in the document: same label for equal tokens /[A-Z].*/"
    nlp.add_pipe("bridle_tagger", config={"rules": [rule], "sequences": "sents"}).model = model
    docs = list(nlp.pipe(["Boston is big . Boston won", "Boston won"]))
    assert [[token.tag_ for token in doc if token.text == "Boston"] for doc in docs] == [["LOC", "LOC"], ["ORG"]]
    records = docs[0]._.bridle["bridle_tagger"]
    assert [record["status"] for record in records] == ["optimal"] * 2
    assert records[0]["score"] == records[1]["score"]  # of the document
