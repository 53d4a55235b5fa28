"""Tag: tables in, tables out, with the answers of the model; faults of rows are reported by row."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
import bridle.models
from bridle import rules
from bridle.arrow import Tag, base
from bridle.errors import BridleError, FeatureError, GivenError
from bridle.labels import Labels
from bridle.tagging import arrow
from bridle.tagging.labelling import segments_of

X = [["Ada", "met", "Bob"], ["Bob", "Smith", "left"], ["we", "met"], ["Ada", "Smith", "and", "Zoë"]]
Y = [["B", "O", "B"], ["B", "I", "O"], ["O", "O"], ["B", "I", "O", "B"]]
Y = [[name if name == "O" else f"{name}-PER" for name in row] for row in Y]
MODEL = bridle.CRF(features=["word[0]", "shape[0]", "lower[-1]", "suffix2[0]", "label[-1]"], scheme="BIO").fit(X, Y)
RULES = ["at most 1 segment of PER", 'fix O at tokens "and"']
ROWS = [["Ada", "met", "Zed"], [], ["and", "Bob", "Smith"], ["x"]]


def listed(table: Any, name: str) -> list[Any]:
    rows: list[Any] = table.column(name).to_pylist()
    return rows


# ---- the same answers ----------------------------------------------------------------------------------------------

TOKENS = st.one_of(st.text(max_size=4), st.sampled_from(["Ada", "Bob", "Smith", "met", "and", "", "\0", "a\nb", "Zoë"]))


@settings(max_examples=25)
@given(st.lists(st.lists(TOKENS, max_size=6), max_size=6), st.integers(1, 4), st.integers(0, 2))
def test_labels_are_those_of_lists(rows: list[list[str]], size: int, threads: int) -> None:
    column = pa.chunked_array([rows[k : k + size] for k in range(0, len(rows), size)], pa.list_(pa.string()))
    table = pa.table({"tokens": column})
    for obeyed in ([], RULES):
        wanted = MODEL.decode(rows, MODEL.decoder(obeyed, on_infeasible="relax"))
        tagger = Tag(MODEL, obeyed, threads=threads, scores=size == 1)(table)
        assert tagger.num_rows == len(rows) and tagger.column("tokens") == column
        assert listed(tagger, "labels") == wanted.labels and listed(tagger, "status") == wanted.status.tolist()
        assert set(listed(tagger, "error")) <= {None}
        batch = pa.record_batch({"tokens": pa.array([["z"], *rows], pa.list_(pa.string()))}).slice(1)
        again = Tag(MODEL, obeyed, output="ids", threads=threads)(batch)
        assert isinstance(again, pa.RecordBatch)
        assert [[MODEL.labels_.names[y] for y in row] for row in listed(again, "ids")] == wanted.labels


def test_parts_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "MOST_TOKENS", 4)
    rows: list[list[str] | None] = [["Ada", "met"], None, ["Bob"] * 6, [], ["and"], ["Bob", "Smith"]] * 5
    table = pa.table({"tokens": pa.array(rows, pa.list_(pa.string()))})
    whole = Tag(MODEL, RULES, scores=True, k=2, output="spans")
    for threads in (1, 3):
        tagger = Tag(MODEL, RULES, scores=True, k=2, output="spans", threads=threads)(table)
        assert tagger.column("spans").num_chunks > 5
        tagger.validate(full=True)
        assert tagger.to_pylist() == whole(table.to_batches()[0]).to_pylist() * 1
    assert whole(table.slice(3, 4)).to_pylist() == whole(table).to_pylist()[3:7]


@settings(max_examples=50)
@given(st.sampled_from([None, "IO", "BIO", "BIOES", "BMES"]), st.data())
def test_segments_are_those_of_labels(scheme: Any, data: st.DataObject) -> None:
    tags = {None: ["O", "A", "B-A"], "IO": ["O", "A", "I-B"], "BIO": ["O", "B-A", "I-A", "B-C", "I-C"]}
    names = tags.get(scheme, ["B-A", "E-A", "S-A", *(["O", "I-A"] if scheme == "BIOES" else ["M-A"])])
    labels = Labels(names, scheme)
    rows = data.draw(st.lists(st.lists(st.integers(0, len(names) - 1), max_size=6), max_size=5))
    ids = np.array([y for row in rows for y in row], dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(list(map(len, rows)))]).astype(np.int32)
    first, last, row = segments_of(labels, ids, offsets)
    begin = offsets[row]
    result = list(
        zip(row.tolist(), (first - begin).tolist(), (last - begin).tolist(), ids[first].tolist(), strict=True)
    )
    wanted = [(k, segment) for k, some in enumerate(rows) for segment in labels.segments(some)]
    assert [(k, a, b, labels.type_of[y]) for k, a, b, y in result] == [(k, *item) for k, item in wanted]


# ---- columns -------------------------------------------------------------------------------------------------------


def test_spans_scores_and_more() -> None:
    table = pa.table({"id": [1, 2], "tokens": [["Ada", "Smith", "met", "Bob"], ["met"]]})
    tag = Tag(MODEL, output="spans", scores=True, k=3, prefix="b_", keep=["id"])
    result = tag(table)
    names = ["b_spans", "b_score", "b_bound", "b_probabilities", "b_k_best", "b_status", "b_error"]
    assert result.schema.names == ["id", *names] and result.schema == tag.schema(table.schema)
    assert listed(result, "b_spans")[0][0] == {"start": 0, "end": 2, "label": "PER"}
    decoder = MODEL.decoder()
    for x, row in zip(table.column("tokens").to_pylist(), result.to_pylist(), strict=True):
        best, lattice = decoder.decode(MODEL.lattice(x)), MODEL.lattice(x)
        assert row["b_score"] == pytest.approx(best.score) and row["b_bound"] == pytest.approx(best.bound)
        marginals = decoder.marginals(lattice)[np.arange(len(x)), best.ids]
        assert row["b_probabilities"] == pytest.approx(marginals.tolist())
        ranked = decoder.k_best(lattice, 3)
        assert [labelling["labels"] for labelling in row["b_k_best"]] == [labelling.labels for labelling in ranked]
        assert [labelling["score"] for labelling in row["b_k_best"]] == pytest.approx(
            [labelling.score for labelling in ranked]
        )


def test_the_outside_label_is_never_a_span() -> None:
    model = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "met", "Bob"]] * 3, [["PER", "O", "PER"]] * 3)
    result = Tag(model, output="spans")(pa.table({"tokens": [["Ann", "met"]]}))
    assert listed(result, "spans") == [[{"start": 0, "end": 1, "label": "PER"}]]


@pytest.mark.parametrize("output", ["labels", "spans", "ids"])
@pytest.mark.parametrize("column", ["tokens", "text"])
def test_the_schema_is_known_without_rows(output: Any, column: str) -> None:
    kind = pa.list_(pa.string()) if column == "tokens" else pa.string()
    schema = pa.schema([("id", pa.int64()), pa.field(column, kind, metadata={"a": "b"})], metadata={"c": "d"})
    for more in ({}, {"scores": True, "k": 2}):
        tag = Tag(MODEL, output=output, **more)
        for empty in (
            schema.empty_table(),
            pa.record_batch([pa.array([], item.type) for item in schema], schema=schema),
        ):
            result = tag(empty)
            assert result.num_rows == 0 and type(result) is type(empty)
            assert result.schema.equals(tag.schema(schema), check_metadata=True)
            assert result.schema.metadata == {b"c": b"d"}


def test_text_is_split_and_spans_have_characters() -> None:
    texts = ["Ada  met Zoë Smith", None, "", "x"]
    tag = Tag(MODEL, output="spans")
    result = tag(pa.table({"text": texts}))
    assert listed(result, "status") == ["optimal", "error", "optimal", "optimal"]
    spans = listed(result, "spans")
    assert [texts[0][span["start_char"] : span["end_char"]] for span in spans[0]] == ["Ada", "Zoë Smith"]  # type: ignore[index]
    assert spans[0][1]["start"] == 2 and spans[1:3] == [None, []]
    assert tag.schema(pa.schema([("text", pa.string())])) == result.schema
    named = Tag(MODEL, columns="note", output="spans")(pa.table({"note": texts, "tokens": [["Bob"]] * 4}))
    assert listed(named, "spans") == spans
    assert "start_char" not in str(Tag(MODEL, output="spans")(pa.table({"text": texts, "tokens": [["x"]] * 4})).schema)


@pytest.mark.parametrize(
    "notes, wanted",
    [
        ({}, ["Ada,", "x"]),
        ({"reader": {"format": "text", "options": {"tokens": "punctuation"}}}, ["Ada", ",", "x"]),
        ({"reader": {"format": "segmented"}}, list("Ada,x")),
        ({"reader": {"format": "spans", "options": {}}}, ["Ada", ",", "x"]),
        ({"reader": "?"}, ["Ada,", "x"]),
    ],
)
def test_text_is_split_as_the_training_data_was(notes: dict[str, Any], wanted: list[str], tmp_path: Path) -> None:
    MODEL.save(tmp_path / "m.bridle", notes=notes)
    tagger = Tag(tmp_path / "m.bridle")(pa.table({"text": ["Ada, x"]}))
    assert len(listed(tagger, "labels")[0]) == len(wanted)


def test_text_is_split_as_the_tokens_of_the_model_suggest() -> None:
    model = bridle.LocalTagger(features=["word[0]"]).fit([["Ada", ",", "x"]], [["A", "B", "C"]])
    assert listed(Tag(model)(pa.table({"text": ["Ada, x"]})), "labels") == [["A", "B", "C"]]


def test_several_columns_and_rules_about_them() -> None:
    rows = [{"word": ["a", "b"], "pos": ["D", "N"]}, {"word": ["b"], "pos": ["N"]}]
    model = bridle.LocalTagger(features=["word[0]", "pos[0]"]).fit(rows, [["X", "Y"], ["Y"]])
    table = pa.table({"tokens": [["a", "b"], ["b", "a"], ["a"]], "tags": [["D", "N"], ["N"], ["D"]]})
    for obeyed in ([], ["forbid X at pos /D/"], ["forbid Y at chunk /B/"]):
        more = {"chunk": "tags"} if "chunk" in str(obeyed) else {}
        tagger = Tag(model, obeyed, columns={"pos": "tags", **more})(table)
        assert listed(tagger, "status") == ["optimal", "error", "optimal"]
        assert listed(tagger, "error")[1].startswith(
            "the columns differ in length; got 1 in 'pos'; wanted 2, as in 'word'"
        )
    assert listed(Tag(model, ["forbid X at pos /D/"], columns={"pos": "tags"})(table), "labels")[2] == ["Y"]
    with pytest.raises(FeatureError, match="the table has no column 'pos'"):
        Tag(model)(table)


def test_rules_that_compare_tokens() -> None:
    rows = [["Ada", "met", "Ada"], ["Bob", "Smith", "and", "Smith"]]
    for obeyed in (["same label for equal tokens"], ['forbid B-PER at tokens /[A-Z].*/ after tokens "met"']):
        wanted = MODEL.decode(rows, MODEL.decoder(obeyed))
        assert listed(Tag(MODEL, obeyed)(pa.table({"tokens": rows})), "labels") == wanted.labels


def test_values_of_rules_come_from_the_table() -> None:
    obeyed = ["fix B-PER at given verb"]
    table = pa.table(
        {
            "tokens": [["x", "y"]] * 6,
            "given": [{"verb": 0}, {"verb": 1}, None, {"verb": 7}, {"verb": None}, {"verb": -1}],
        }
    )
    texts = [None if value is None else json.dumps(value) for value in listed(table, "given")]
    for given_column in (table.column("given"), pa.chunked_array([texts])):
        tagger = Tag(MODEL, obeyed)(table.set_column(1, "given", given_column))
        assert listed(tagger, "status") == ["optimal", "optimal", "error", "error", "error", "optimal"]
        assert [row and row.index("B-PER") for row in listed(tagger, "labels")] == [0, 1, None, None, None, 1]
        assert "given['verb'] is missing" in listed(tagger, "error")[2]
        assert "sequence 3" not in listed(tagger, "error")[3], "the row says which it is"
    with pytest.raises(FeatureError, match="no column 'given'"):
        Tag(MODEL, obeyed)(table.drop_columns(["given"]))
    with pytest.raises(FeatureError, match="'given' has a wrong type"):
        Tag(MODEL, obeyed)(table.set_column(1, "given", pa.array([1] * 6)))
    with pytest.raises(GivenError, match=r"^row 2: given\['verb'\] is missing"):
        Tag(MODEL, obeyed, on_error="raise")(table)


# ---- rows that cannot be labelled ------------------------------------------------------------------------------------


def test_bad_rows_are_reported_by_row() -> None:
    rows = [["Ada"], None, ["a", None], ["x" * 70_000], [], ["Bob", "met"]]
    tagger = Tag(MODEL, scores=True, k=2)(pa.table({"n": range(6), "tokens": rows}))
    assert listed(tagger, "n") == list(range(6))
    assert listed(tagger, "status") == ["optimal", "error", "error", "optimal", "optimal", "optimal"]
    assert [error is None for error in listed(tagger, "error")] == [True, False, False, True, True, True]
    for name in ("labels", "score", "bound", "probabilities", "k_best"):
        assert [value is None for value in listed(tagger, name)] == [False, True, True, False, False, False], name
    assert listed(tagger, "labels")[4] == [] and listed(tagger, "probabilities")[4] == []
    with pytest.raises(FeatureError, match=r"^row 1: 'tokens' is null") as caught:
        Tag(MODEL, on_error="raise")(pa.table({"tokens": rows}))
    assert caught.value.sequence == 1


def test_rows_without_an_answer() -> None:
    table = pa.table({"tokens": [["x"], ["x", "y"]]})
    obeyed = ["fix B-PER at 0", "fix I-PER at -1"]
    wanted = {"relax": "relaxed", "skip": "infeasible", "raise": "infeasible"}
    for how, status in wanted.items():
        tagger = Tag(MODEL, obeyed, on_infeasible=how, scores=True, k=2)(table)
        assert listed(tagger, "status") == [status, "optimal"]
        assert (listed(tagger, "labels")[0] is None) == (how != "relax")
        assert listed(tagger, "probabilities")[0] is None and listed(tagger, "probabilities")[1] is not None
        message = listed(tagger, "error")[0]
        assert message is None if how != "raise" else "no labelling obeys" in message.lower() or "rules" in message
    with pytest.raises(bridle.Infeasible, match=r"^row 0: ") as caught:
        Tag(MODEL, obeyed, on_infeasible="raise", on_error="raise")(table)
    assert len(caught.value.clash) == 2


def test_probabilities_that_cannot_be_had_are_an_error_of_the_row() -> None:
    table = pa.table({"tokens": [["x", "y", "z"]]})
    tagger = Tag(MODEL, ["at most 1 segment of PER"], scores=True, max_states=1)(table)
    assert listed(tagger, "labels")[0] is not None and listed(tagger, "probabilities") == [None]
    assert "sum over all labellings" in listed(tagger, "error")[0]


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"output": "label"}, "invalid value of `output`"),
        ({"on_error": "skip"}, "invalid value of `on_error`"),
        ({"k": 0}, "invalid value of `k`"),
        ({"scores": "logits"}, "`columns` names the columns"),
        ({"prefix": 1}, "invalid value of `prefix`"),
        ({"keep": "id"}, "invalid value of `keep`"),
        ({"columns": ["tokens"]}, "invalid value of `columns`"),
        ({"threads": -1}, "`threads`"),
        ({"thread": 1}, "there is no option 'thread'"),
        ({"time_limit": -1}, "time_limit"),
        ({"on_infeasible": "ignore"}, "on_infeasible"),
        ({"rules": ["at most one X"]}, "not a rule"),
        ({"rules": 3}, "`rules` must be a list"),
        ({"model": 3}, "not a model"),
    ],
)
def test_mistakes_show_when_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BridleError, match=message):
        Tag(**{"model": "nowhere.bridle", **options})


def test_mistakes_that_need_the_model_show_when_it_is_checked(tmp_path: Path) -> None:
    with pytest.raises(bridle.FileError, match=r"cannot read the model; got No such file(.|\n)*every machine"):
        Tag(tmp_path / "nowhere.bridle").check()
    with pytest.raises(BridleError, match="unknown label"):
        Tag(MODEL, ["forbid ORG"]).check()
    plain = bridle.LocalTagger().fit([[["a"], ["b"]]], [["D", "N"]])
    with pytest.raises(bridle.ModelError, match=r"ready-made features(.|\n)*bridle.arrow.Decode"):
        Tag(plain).check()
    tag = Tag(MODEL)
    assert tag.check() is tag and tag.check(pa.schema([("tokens", pa.list_(pa.string()))])) is tag
    for schema, message in (
        (pa.schema([("x", pa.list_(pa.string()))]), "no column 'word'"),
        (pa.schema([("tokens", pa.list_(pa.int64()))]), "'tokens' has a wrong type; got list<.*int64>"),
        (
            pa.schema([("tokens", pa.list_(pa.string())), ("status", pa.string())]),
            "a column 'status' already(.|\n)*prefix",
        ),
        (pa.schema([("tokens", pa.list_(pa.string()))] * 2), "2 columns 'tokens'"),
    ):
        with pytest.raises(FeatureError, match=message):
            tag.check(schema)
    with pytest.raises(FeatureError, match="nothing needs a column 'pos'"):
        Tag(MODEL, columns={"pos": "x"}).check(pa.schema([("tokens", pa.list_(pa.string()))]))
    with pytest.raises(FeatureError, match="no column 'id'"):
        Tag(MODEL, keep=["id"])(pa.table({"tokens": [["x"]]}))
    with pytest.raises(FeatureError, match="this is not a table; got int"):
        tag(3)


def test_other_columns_may_have_one_name() -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([["Ada"]])], names=["x", "x", "tokens"])
    tagger = Tag(MODEL)(table)
    assert tagger.column_names[:3] == ["x", "x", "tokens"] and tagger.column(1).to_pylist() == [2]


# ---- one model per process ------------------------------------------------------------------------------------------


def test_it_is_pickled_without_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.bridle"
    MODEL.save(path)
    (tmp_path / "my.rules").write_text("at most 1 segment of PER\n", encoding="utf-8")
    loads: list[str] = []
    load = bridle.models.load
    monkeypatch.setattr(bridle.models, "load", lambda file: loads.append(file) or load(file))
    phrases = rules.fix("O", at=rules.tokens(phrases=["Ada met"]))
    tag = Tag(str(path), [*rules.load(tmp_path / "my.rules"), phrases, *RULES[1:]])
    assert not loads and "m.bridle" in repr(tag) and "3 rules" in repr(tag)
    table = pa.table({"tokens": ROWS})
    wanted = tag(table).to_pylist()
    sent = pickle.dumps(tag)
    assert len(sent) < 3000 and len(loads) == 1
    copies = [pickle.loads(sent) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda copy: copy(table).to_pylist(), copies)) == [wanted] * 3
    assert len(loads) == 1 and copies[0].tagger is copies[1].tagger and copies[0]._decoder() is copies[1]._decoder()
    assert Tag(path, tmp_path / "my.rules").rules == Tag(path, str(tmp_path / "my.rules")).rules == tag.rules[:1]
    assert Tag(path, RULES[0]).rules == Tag(path, tag.rules[0]).rules == tag.rules[:1]


def test_a_new_file_is_loaded_again(tmp_path: Path) -> None:
    path, other = tmp_path / "m.bridle", bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["X", "YYY"]])
    MODEL.save(path)
    first = Tag(path)
    assert first.labels == MODEL.labels_
    other.save(path)
    assert Tag(path).labels == other.labels_ and first.labels == MODEL.labels_


def test_a_model_in_memory_is_sent_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_MODELS", base.RecentCache(8, 1 << 31))
    table = pa.table({"tokens": ROWS})
    for tag in (Tag(MODEL), Tag(MODEL.to_bytes())):
        sent = pickle.loads(pickle.dumps(tag))
        assert isinstance(sent.model, bytes) and "bytes" in repr(sent)
        assert sent(table).to_pylist() == tag(table).to_pylist()
    assert len(base._MODELS) == 1, "the same bytes are one model"


def test_an_engine_with_options() -> None:
    tag = Tag(MODEL, RULES, engine=bridle.engines.Beam(width=4))
    assert listed(tag(pa.table({"tokens": ROWS})), "status")[0] in ("optimal", "limit")


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list])
def test_views_of_strings_with_a_bad_row(outer: Any) -> None:
    tokens = pa.array([["Ada"], None, ["x", "Ada"]], outer(pa.string_view()))
    tagger = Tag(MODEL)(pa.table({"tokens": tokens}))
    assert tagger["status"].to_pylist() == ["optimal", "error", "optimal"]
    assert [tagger["labels"].to_pylist()[k] for k in (0, 2)] == MODEL.predict([["Ada"], ["x", "Ada"]])


def test_arrays_without_buffers_and_damaged_ones() -> None:
    empty = pa.ListArray.from_buffers(pa.list_(pa.string()), 0, [None, None], children=[pa.array([], pa.string())])
    assert len(Tag(MODEL)(pa.record_batch({"tokens": empty}))) == 0
    for begin, size in ((0, 3), (-1, 1), (0, -1)):
        buffers = [None, pa.py_buffer(np.int32([begin]).tobytes()), pa.py_buffer(np.int32([size]).tobytes())]
        kind, child = pa.list_view(pa.string()), pa.array(["a", "b"])
        damaged = pa.Array.from_buffers(kind, 1, buffers, children=[child])
        with pytest.raises(FeatureError, match="is damaged"):
            Tag(MODEL)(pa.table({"tokens": damaged}))


def test_a_model_that_is_trained_again() -> None:
    model = bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["P", "Q"]])
    tag, table = Tag(model), pa.table({"tokens": [["a", "b"]]})
    assert tag(table)["labels"].to_pylist() == [["P", "Q"]]
    model.fit([["a", "b"]], [["X", "Y"]])
    assert tag(table)["labels"].to_pylist() == [["X", "Y"]]


def test_only_a_column_that_is_called_text_is_split() -> None:
    table = pa.table({"tokens": ["Ada x"]})
    with pytest.raises(FeatureError, match=r"wrong type; got string; wanted list<string>(.|\n)*columns="):
        Tag(MODEL)(table)
    assert Tag(MODEL, columns="tokens")(table)["labels"].to_pylist() == MODEL.predict([["Ada", "x"]])


def test_given_values_that_python_cannot_hold_are_faults_of_their_rows() -> None:
    given = pa.StructArray.from_arrays([pa.array([0, 0]), pa.array([1, 2**53], pa.timestamp("s"))], ["spot", "when"])
    table = pa.table({"tokens": [["Ada"], ["Ada"]], "given": given})
    tagger = Tag(MODEL, [f"fix {MODEL.labels_.names[0]} at given spot"])(table)
    assert tagger["status"].to_pylist() == ["optimal", "error"] and "cannot be read" in tagger["error"][1].as_py()
