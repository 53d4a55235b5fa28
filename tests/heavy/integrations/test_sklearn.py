"""scikit-learn with tables of pandas, Polars and PyArrow, and scorers that decode under rules."""

from __future__ import annotations

import pickle
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import bridle
from bridle.data import references
from bridle.errors import FeatureError, LabelError, ModelError
from bridle.frames import sequences
from bridle.integrations.sklearn import scorer
from bridle.learn import ConstrainedTagger, DeterministicRules, RelationalRules, audit_model, fit_rules, tune_rules
from bridle.report import segment_f1, sequence_accuracy, token_accuracy

EXAMPLES = references.references("acm", "lncs", count=20)
WORDS = [list(example.columns["word"]) for example in EXAMPLES]
CASES = [[str(word.isupper()) for word in words] for words in WORDS]
LABELS = [list(example.labels) for example in EXAMPLES]
COLUMNS = {"word": WORDS, "case": CASES, "label": LABELS, "style": [f"s{k % 3}" for k in range(len(WORDS))]}
SEQUENCES = [{"word": word, "case": case} for word, case in zip(WORDS, CASES, strict=True)]
ARROW = pa.table(COLUMNS)
FRAMES = {
    "pandas": pd.DataFrame(COLUMNS, index=[f"row {k}" for k in range(len(WORDS))]),  # the index means nothing
    "pandas, arrays in cells": ARROW.to_pandas(),
    "pandas, Arrow types": ARROW.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame(COLUMNS),
    "pyarrow": ARROW,
    "datasets": datasets.Dataset(ARROW),
}
MODEL = bridle.CRF(features=["word[0]", "case[0]", "label[-1]"], c2=0.1, iterations=8, scheme="IO", threads=1)
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


@pytest.fixture(scope="module")
def plain() -> bridle.CRF:
    """Check an estimator that takes lists."""
    return bridle.CRF(**MODEL.get_params()).fit(SEQUENCES, LABELS)


@frames
def test_a_table_is_as_good_as_lists(frame: Any, plain: bridle.CRF) -> None:
    dev = frame, frame["label"]
    model = bridle.CRF(**MODEL.get_params()).fit(*dev, dev=dev, measure="accuracy")
    assert model.predict(frame) == plain.predict(SEQUENCES)
    assert model.score(frame, frame["label"]) == plain.score(SEQUENCES, LABELS)
    assert np.array_equal(model.lattices(frame).unary, plain.lattices(SEQUENCES).unary)
    assert model.share_seen(frame) == 1.0
    ours, theirs = model.cross_fit(frame, frame["label"]), plain.cross_fit(SEQUENCES, LABELS)
    assert ours.identity == theirs.identity


@frames
def test_a_column_is_as_good_as_a_list(frame: Any) -> None:
    model = bridle.LocalTagger(features=["word[0]"]).fit(frame["word"], frame["label"])
    assert model.predict(frame["word"]) == bridle.LocalTagger(features=["word[0]"]).fit(WORDS, LABELS).predict(WORDS)


@frames
def test_groups_of_a_table(frame: Any) -> None:
    settings: dict[str, Any] = {"features": ["word[0]"], "iterations": 3, "threads": 1}
    model = bridle.CRF(**settings).fit(frame, frame["label"], groups=frame["style"])
    same = bridle.CRF(**settings).fit(SEQUENCES, LABELS, groups=COLUMNS["style"])
    assert model.tuning_ is not None and model.fingerprint_ == same.fingerprint_


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "datasets"])  # scikit-learn takes no rows of those
def test_tools_of_scikit_learn(name: str, plain: bridle.CRF) -> None:
    frame = FRAMES[name]
    guessed = cross_val_predict(MODEL, frame, frame["label"], cv=3)
    assert guessed.tolist() == cross_val_predict(MODEL, SEQUENCES, LABELS, cv=3).tolist()
    search = GridSearchCV(MODEL, {"c2": [1e5, 0.1]}, cv=GroupKFold(3), error_score="raise")
    search.fit(frame, frame["label"], groups=COLUMNS["style"])
    assert search.best_params_ == {"c2": 0.1}
    assert search.predict(frame) == plain.predict(SEQUENCES)


def test_rules_are_learned_from_tables(plain: bridle.CRF) -> None:
    frame = FRAMES["pandas, arrays in cells"]
    y = frame["label"]
    rules = ["starts with AUTHOR", "DATE before TITLE"]
    assert tune_rules(plain, rules, frame, y).to_dict() == tune_rules(plain, rules, SEQUENCES, LABELS).to_dict()
    assert (
        fit_rules(plain, frame, y, rules=rules).to_dict() == fit_rules(plain, SEQUENCES, LABELS, rules=rules).to_dict()
    )
    parsed = [bridle.rules.parse(rule) for rule in rules]
    assert audit_model(parsed, plain, frame, y).lines() == audit_model(parsed, plain, SEQUENCES, LABELS).lines()
    assert RelationalRules().fit(frame, y).rules_ == RelationalRules().fit(SEQUENCES, LABELS).rules_
    assert DeterministicRules().fit(frame, y).score(frame, y) == DeterministicRules().fit(WORDS, LABELS).score(
        WORDS, LABELS
    )
    tagger = ConstrainedTagger(features=["word[0]"], iterations=2).fit(frame, y)
    assert tagger.score(frame, y) == ConstrainedTagger(features=["word[0]"], iterations=2).fit(WORDS, LABELS).score(
        WORDS, LABELS
    )


# ---- pipelines ------------------------------------------------------------------------------------------------------


def lowered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.map(lambda words: [word.lower() for word in words])


def test_a_column_transformer_keeps_names() -> None:
    lower = FunctionTransformer(lowered, feature_names_out="one-to-one")
    columns = ColumnTransformer([("text", lower, ["word"]), ("rest", "passthrough", ["case"])])
    columns.set_params(verbose_feature_names_out=False).set_output(transform="pandas")
    frame = FRAMES["pandas"]
    model = make_pipeline(columns, MODEL).fit(frame, frame["label"])
    small = [[word.lower() for word in words] for words in WORDS]
    assert model[-1].top_weights() == MODEL.fit(pd.DataFrame({"word": small, "case": CASES}), LABELS).top_weights()
    advice = r"ColumnTransformer\(\.\.\., verbose_feature_names_out=False\)\.set_output\(transform='pandas'\)"
    with pytest.raises(FeatureError, match=rf"no column or function(.|\n)*'(text|rest)__\w+' has the name.*{advice}"):
        make_pipeline(columns.set_params(verbose_feature_names_out=True), MODEL).fit(frame, frame["label"])
    with pytest.raises(FeatureError, match=advice):
        make_pipeline(columns.set_output(transform="default"), MODEL).fit(frame, frame["label"])


def test_expressions_of_polars() -> None:
    lower = pl.col("word").list.eval(pl.element().str.to_lowercase())
    frame = FRAMES["polars"]
    model = make_pipeline(FunctionTransformer(lambda data: data.with_columns(lower)), MODEL).fit(frame, frame["label"])
    assert model.predict(frame[:3]) == MODEL.predict(frame[:3].with_columns(lower))


# ---- long tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_long_tables(kind: str) -> None:
    long = pd.DataFrame(COLUMNS).reset_index(names="number").explode(["word", "case", "label"])
    table = {"pandas": long, "polars": pl.from_pandas(long), "pyarrow": pa.Table.from_pandas(long)}[kind]
    X, y = sequences(table, by="number", columns=["word", "case"], label="label")
    assert (X, y) == (SEQUENCES, LABELS)


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
def test_a_word_that_pandas_takes_for_nothing(missing: Any) -> None:
    frame = pd.DataFrame({"sentence": [0, 0], "word": ["North", missing], "tag": ["A", "B"]})
    with pytest.raises(FeatureError, match=r"row 1 of column 'word' is empty(.|\n)*keep_default_na=False"):
        sequences(frame, by="sentence", label="tag")


def test_sentences_that_are_numbered_on_their_first_row() -> None:
    frame = pd.DataFrame({"sentence": ["s1", None, "s2"], "word": ["a", "b", "c"], "tag": ["A", "B", "B"]})
    with pytest.raises(FeatureError, match=r"row 1 belongs to no sequence(.|\n)*ffill"):
        sequences(frame, by="sentence", label="tag")
    assert sequences(frame.assign(sentence=frame["sentence"].ffill()), by="sentence", label="tag")[1] == [
        ["A", "B"],
        ["B"],
    ]


# ---- what tables cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (pl.LazyFrame({"word": [["a"], ["b"]]}), r"got LazyFrame(.|\n)*X\.collect\(\)"),
        (pd.Series([["a"], np.nan]), r"sequence 1: .* got nan(.|\n)*The cell is empty"),
        (pl.Series([["a"], None]), r"sequence 1: .* got None(.|\n)*The cell is empty"),
        (pl.Series([["a"], [None]]), "sequence 1: a token in .* is null"),
        (pl.Series([[1], [2]]), "sequence 0: a token is not a string; got 1"),
        (pd.Series(["a", "b"]), "cut into tokens first"),
        (pd.DataFrame({"text": [["a"], ["b"]]}), "no column or function 'word'; got .*one of the columns text"),
        (pd.DataFrame({"word": ["a", "b"]}), r"bridle\.frames\.sequences"),
    ],
)
def test_what_a_table_cannot_be(X: Any, says: str) -> None:
    with pytest.raises(FeatureError, match=says):
        bridle.LocalTagger(features=["word[0]"]).fit(X, [["A"], ["B"]])


def test_what_labels_cannot_be() -> None:
    with pytest.raises(LabelError, match=r"sequence 1: .* got None(.|\n)*The cell is empty"):
        bridle.LocalTagger(features=["word[0]"]).fit([["a"], ["b"]], pl.Series([["A"], None]))
    with pytest.raises(LabelError, match="one column, not a table"):
        bridle.LocalTagger(features=["word[0]"]).fit([["a"]], pd.DataFrame({"x": [["A"]], "y": [["B"]]}))
    with pytest.raises(LabelError, match="a label is not a name; got 0"):
        bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], pl.Series([[0, 1]]))


def test_features_in_structs() -> None:
    tokens = pl.Series([[{"w": "a", "n": 1.0}, {"w": "b", "n": 2.0}]])
    assert bridle.LocalTagger().fit(tokens, [["A", "B"]]).predict(tokens) == [["A", "B"]]


# ---- scorers --------------------------------------------------------------------------------------------------------

ONCE = ["no duplicates of TITLE, DATE"]
NAMES = {name for labels in LABELS for name in labels}


def test_scorers_decode_under_rules(plain: bridle.CRF) -> None:
    frame = FRAMES["polars"]
    judge = scorer("segment_f1", rules=ONCE, labels=NAMES)
    assert judge(plain, frame, frame["label"]) == segment_f1(LABELS, plain.predict(SEQUENCES, ONCE))
    scoring = {"with": scorer("sequence_accuracy", rules=ONCE, labels=NAMES), "without": scorer("sequence_accuracy")}
    result = cross_validate(MODEL, SEQUENCES, LABELS, scoring=scoring, cv=2)
    guessed = [bridle.CRF(**MODEL.get_params()).fit(SEQUENCES[20:], LABELS[20:]).predict(SEQUENCES[:20], ONCE)]
    assert result["test_with"][0] == np.mean([a == b for a, b in zip(guessed[0], LABELS[:20], strict=True)])


@frames
def test_measures_take_columns(frame: Any, plain: bridle.CRF) -> None:
    guessed = plain.predict(SEQUENCES)
    for measure in (segment_f1, token_accuracy, sequence_accuracy):
        assert make_scorer(measure)(plain, SEQUENCES, frame["label"]) == measure(LABELS, guessed)


def test_labels_become_columns(plain: bridle.CRF) -> None:
    guessed = plain.predict(SEQUENCES)
    assert pd.Series(guessed).to_list() == pl.Series(guessed).to_list() == pa.array(guessed).to_pylist() == guessed
    assert pd.DataFrame({"label": guessed})["label"].to_list() == pl.DataFrame({"label": guessed})["label"].to_list()


def test_scorers_in_pipelines() -> None:
    judge = scorer("token_accuracy", rules=ONCE, labels=NAMES, on_infeasible="relax")
    assert pickle.loads(pickle.dumps(judge)) == judge, "searches in several processes send it"
    scores = cross_val_score(make_pipeline(FunctionTransformer(), MODEL), SEQUENCES, LABELS, scoring=judge, cv=2)
    assert scores.tolist() == cross_val_score(MODEL, SEQUENCES, LABELS, scoring=judge, cv=2).tolist()


def test_values_for_the_rules_of_a_scorer() -> None:
    rule = ["fix DATE at given years"]
    years = lambda x: {"years": [t for t, word in enumerate(x["word"]) if word.isdigit()]}  # noqa: E731
    judge = scorer(rules=rule, labels=NAMES, given=years)
    years = [{"years": [t for t, word in enumerate(words) if word.isdigit()]} for words in WORDS]
    model = MODEL.fit(SEQUENCES, LABELS)
    assert judge(model, FRAMES["pandas"], LABELS) == model.score(SEQUENCES, LABELS, rules=rule, given=years)


def test_what_scorers_cannot_be() -> None:
    with pytest.raises(ModelError, match=r"unknown measure; got 'f1'; wanted 'token_accuracy', 'segment_f1'"):
        scorer("f1")
    with pytest.raises(ModelError, match="rules are not a list"):
        scorer(rules="at most 1 segment of TITLE")  # type: ignore[arg-type]
    with pytest.raises(LabelError, match=r"unknown label .*got 'TITEL'; wanted one of .*TITLE"):
        scorer(rules=["at most 1 segment of TITEL"], labels=NAMES)
    with pytest.raises(LabelError, match="rules need the labels that they can name; got no labels"):
        scorer(rules=ONCE)
    assert scorer(rules=["at most 1 segment of X"], labels=["O", "B-X", "I-X"]).rules
