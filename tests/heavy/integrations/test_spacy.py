"""Whole pipelines with Bridle's components: saved and loaded, in other processes, in batches, drawn; and ja-ginza."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy import displacy
from spacy.tokens import Doc, DocBin

import bridle
from bridle.data import references

RULES = ["at most 1 segment of AUTHOR", "at most 1 segment of TITLE", "AUTHOR before TITLE"]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """References in a style that the model has not seen."""
    _, unseen = references.split(40)
    return [references.cite(work, "chicago").text for work in unseen[:30]]


@pytest.fixture(scope="module")
def model() -> bridle.models.Tagger:
    known, _ = references.split(40)
    data = references.references("acm", "ieee", of=known)
    features = ["word[0]", "word[-1]", "suffix2[0]", "label[-1]"]
    return bridle.CRF(features=features, scheme="IO", iterations=20).fit(
        [{"word": list(example.columns["word"])} for example in data], [list(example.labels) for example in data]
    )


@pytest.fixture
def nlp(model: bridle.models.Tagger) -> spacy.Language:
    """All three of Bridle's parts in one pipeline."""
    nlp = spacy.blank("en")
    nlp.add_pipe("bridle_tagger", config={"sets": "spans", "rules": RULES, "scores": "marginals"}).model = model
    nlp.add_pipe("bridle_spans", config={"spans_key": "bridle", "threshold": 0.3})
    chosen = {"@misc": "bridle.ents_filter.v1", "rules": ["at most 1 segment of YEAR"], "prefer": "existing"}
    ruler = nlp.add_pipe("span_ruler", config={"annotate_ents": True, "overwrite": False, "ents_filter": chosen})
    ruler.add_patterns([{"label": "YEAR", "pattern": [{"SHAPE": "dddd"}]}])
    return nlp


def ents(doc: Doc) -> list[tuple[int, int, str]]:
    return [(ent.start, ent.end, ent.label_) for ent in doc.ents]


def test_rules_hold(nlp: spacy.Language, texts: list[str]) -> None:
    without = spacy.blank("en")
    without.add_pipe("bridle_tagger", config={"sets": "ents"}).model = nlp.get_pipe("bridle_tagger").model
    labels = [[label for *_, label in ents(doc)] for doc in without.pipe(texts)]
    assert any(row.count("TITLE") > 1 or row.count("AUTHOR") > 1 for row in labels), "the model alone breaks them"
    for doc in nlp.pipe(texts):
        row = [span.label_ for span in doc.spans["bridle"]]
        assert row.count("TITLE") <= 1 and row.count("AUTHOR") <= 1
        assert [label for *_, label in ents(doc)].count("YEAR") <= 1
        assert all(record["optimal"] for record in doc._.bridle["bridle_tagger"])


def test_batches_give_what_single_documents_give(nlp: spacy.Language, texts: list[str]) -> None:
    single = [(ents(doc), doc._.bridle) for doc in map(nlp, texts)]
    for size in (1, 7, 1000):
        assert [(ents(doc), doc._.bridle) for doc in nlp.pipe(texts, batch_size=size)] == single
    nlp.get_pipe("bridle_tagger")._threads = 2
    assert [ents(doc) for doc in nlp.pipe(texts)] == [row for row, _ in single]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_other_processes(nlp: spacy.Language, texts: list[str]) -> None:
    single = [(ents(doc), doc._.bridle) for doc in nlp.pipe(texts)]
    assert [(ents(doc), doc._.bridle) for doc in nlp.pipe(texts, n_process=2, batch_size=5)] == single


def test_components_pickle(nlp: spacy.Language, texts: list[str]) -> None:
    """Components are pickled if processes are spawned."""
    for name in ("bridle_tagger", "bridle_spans"):
        nlp.add_pipe("sentencizer", name=f"before_{name}")  # the pipeline may hold others
        again = pickle.loads(pickle.dumps(nlp.get_pipe(name)))
        doc = again.nlp.make_doc(texts[0])
        for part in ("bridle_tagger", "bridle_spans"):
            doc = again.nlp.get_pipe(part)(doc)
        assert doc._.bridle[name] == nlp(texts[0])._.bridle[name]


def test_saved_and_loaded(nlp: spacy.Language, texts: list[str], tmp_path: Path) -> None:
    before = [(ents(doc), doc._.bridle) for doc in nlp.pipe(texts)]
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert [(ents(doc), doc._.bridle) for doc in again.pipe(texts)] == before
    assert again.config.to_str() == nlp.config.to_str()
    blank = spacy.blank("en")
    for name in ("bridle_tagger", "bridle_spans", "span_ruler"):
        blank.add_pipe(
            name, config={key: value for key, value in nlp.config["components"][name].items() if key != "factory"}
        )
    blank.from_bytes(nlp.to_bytes())
    assert [(ents(doc), doc._.bridle) for doc in blank.pipe(texts)] == before


def test_a_fresh_process_needs_no_import(nlp: spacy.Language, texts: list[str], tmp_path: Path) -> None:
    """spaCy finds the components by the entry points of the installed package."""
    nlp.to_disk(tmp_path / "pipeline")
    code = (
        "import json, sys, spacy\n"
        "nlp = spacy.load(sys.argv[1])\n"
        "print(json.dumps([[[e.start, e.end, e.label_] for e in doc.ents] for doc in nlp.pipe(json.load(sys.stdin))]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "pipeline")]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    assert [[tuple(ent) for ent in row] for row in json.loads(done.stdout)] == [ents(doc) for doc in nlp.pipe(texts)]


def test_without_spacy() -> None:
    code = "import sys; sys.modules['spacy'] = None; import bridle.integrations.spacy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtra: Bridle's spaCy components need spaCy; got no package spacy" in done.stderr
    assert "pip install 'bridle-nlp[spacy]'" in done.stderr


def test_a_pipeline_needs_no_other_files(model: bridle.models.Tagger, texts: list[str], tmp_path: Path) -> None:
    files, saved = tmp_path / "elsewhere", tmp_path / "pipeline"
    files.mkdir()
    model.save(files / "references.bridle")
    (files / "my.rules").write_text("# once each\n" + "\n".join(RULES), encoding="utf-8")
    nlp = spacy.blank("en")
    config = {"model": str(files / "references.bridle"), "rules": str(files / "my.rules"), "sets": "ents"}
    nlp.add_pipe("bridle_tagger", config=config)
    nlp.to_disk(saved)  # before anything was decoded
    before, data = [ents(doc) for doc in nlp.pipe(texts)], nlp.to_bytes()
    assert sorted(path.name for path in (saved / "bridle_tagger").iterdir()) == [
        "model.bridle",
        "rules.rules",
        "sources.json",
    ]
    for path in files.iterdir():
        path.unlink()
    again = spacy.load(saved)
    assert [ents(doc) for doc in again.pipe(texts)] == before
    assert again.get_pipe("bridle_tagger").rules == RULES
    blank = spacy.blank("en")
    blank.add_pipe("bridle_tagger", config=config)
    assert [ents(doc) for doc in blank.from_bytes(data).pipe(texts)] == before
    (saved / "bridle_tagger" / "model.bridle").write_bytes(b"BRIDLE")
    with pytest.raises(bridle.ModelFileError, match=r"model\.bridle: this is not a Bridle model"):
        spacy.load(saved)
    (saved / "bridle_tagger" / "model.bridle").unlink()
    (saved / "bridle_tagger" / "rules.rules").write_bytes(b"\xff\xfe")
    with pytest.raises(bridle.FileError, match=r"rules\.rules: not UTF-8"):
        spacy.load(saved)
    (saved / "bridle_tagger" / "sources.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(bridle.FileError, match=r"sources\.json: not the paths of files"):
        spacy.load(saved)


def test_rules_can_be_exchanged_when_a_pipeline_is_loaded(
    nlp: spacy.Language, texts: list[str], tmp_path: Path
) -> None:
    nlp.to_disk(tmp_path)
    rules = ["at most 0 tokens of TITLE"]
    again = spacy.load(tmp_path, config={"components": {"bridle_tagger": {"rules": rules}}})
    assert again.get_pipe("bridle_tagger").rules == rules
    assert not [span for doc in again.pipe(texts) for span in doc.spans["bridle"] if span.label_ == "TITLE"]


@pytest.mark.parametrize("by_path", [True, False])
def test_files_can_be_exchanged_when_a_pipeline_is_loaded(
    model: bridle.models.Tagger, texts: list[str], tmp_path: Path, by_path: bool
) -> None:
    for name, rules in (("a", RULES), ("b", ["forbid TITLE"])):
        (tmp_path / f"{name}.rules").write_text("\n".join(rules), encoding="utf-8")
    model.save(tmp_path / "a.bridle")
    bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["TITLE", "B"]]).save(tmp_path / "b.bridle")
    nlp = spacy.blank("en")
    config = {"rules": str(tmp_path / "a.rules"), **({"model": str(tmp_path / "a.bridle")} if by_path else {})}
    tagger = nlp.add_pipe("bridle_tagger", config=config)
    if not by_path:
        tagger.model = model
    nlp.to_disk(tmp_path / "pipeline")

    def loaded(**settings: str) -> Any:
        again = spacy.load(tmp_path / "pipeline", config={"components": {"bridle_tagger": settings}})
        list(again.pipe(texts[:1]))
        pipe = again.get_pipe("bridle_tagger")
        return pipe.rules, "B" in pipe.labels

    assert loaded() == (RULES, False)
    assert loaded(rules=str(tmp_path / "b.rules")) == (["forbid TITLE"], False)
    other = {"model": str(tmp_path / "b.bridle"), "rules": str(tmp_path / "b.rules")}
    assert loaded(**other) == (["forbid TITLE"], True)


def test_the_config_is_json(nlp: spacy.Language) -> None:
    config = json.loads(json.dumps(nlp.config))
    again = spacy.blank("en").from_config(config)
    assert again.pipe_names == nlp.pipe_names and again.config["components"] == nlp.config["components"]


def test_analysis(nlp: spacy.Language) -> None:
    result: dict[str, Any] = nlp.analyze_pipes()
    assert "doc.ents" in result["summary"]["bridle_spans"]["assigns"] and not any(result["problems"].values())
    assert result["summary"]["bridle_tagger"]["retokenizes"] is False


def test_pictures_and_stores(nlp: spacy.Language, texts: list[str]) -> None:
    doc = nlp(texts[0])
    drawn = displacy.render(doc, style="ent", jupyter=False)
    assert "TITLE" in drawn and "AUTHOR" in drawn and drawn.count("<mark") == len(doc.ents)
    drawn = displacy.render(doc, style="span", jupyter=False, options={"spans_key": "bridle"})
    assert "TITLE" in drawn and "AUTHOR" in drawn
    [again] = DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab)
    assert json.dumps(again._.bridle) == json.dumps(doc._.bridle) and ents(again) == ents(doc)
    assert doc.to_json(underscore=["bridle"])["_"]["bridle"] == doc._.bridle


# ---- ja-ginza -------------------------------------------------------------------------------------------------------

SENTENCE = "東京都の小池百合子知事は2024年に渋谷区で記者会見を行った。"


def test_ja_ginza(tmp_path: Path) -> None:
    nlp = spacy.load("ja_ginza")
    plain = nlp(SENTENCE)
    assert [ent.label_ for ent in plain.ents].count("Position_Vocation") == 2
    assert [token.pos_ for token in plain][2:4] == ["PROPN", "PROPN"]
    tags = {"scores_from": "morphologizer", "sets": "pos", "rules": ['at most 2 tokens of "POS=PROPN"']}
    nlp.add_pipe("bridle_tagger", after="morphologizer", config=tags)
    nlp.add_pipe("bridle_spans", config={"scores_from": "ner", "rules": ["at most 1 segment of Position_Vocation"]})
    nlp.to_disk(tmp_path)
    for pipeline in (nlp, spacy.load(tmp_path)):
        [doc, empty] = pipeline.pipe([SENTENCE, ""])
        assert [ent.text for ent in doc.ents] == ["東京都", "小池百合子", "知事", "2024年", "渋谷区"]
        assert [token.pos_ for token in doc].count("PROPN") == 2 and doc[2].morph.get("Reading") == ["コイケ"]
        assert doc._.bridle["bridle_spans"]["optimal"] and doc._.bridle["bridle_tagger"][0]["optimal"]
        assert len(empty) == 0
    free = nlp(SENTENCE).copy()
    assert displacy.render(free, style="ent", jupyter=False).count("<mark") == 5
