"""Blocks, tag and outcomes: sequences at fault do not touch others; threads do not matter; columns are like lists."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
import bridle.arrow
from bridle import Batch, Decoder, Labels, Lattice
from bridle._native import Stop
from bridle.decoding.result import raise_first
from bridle.errors import BridleError, FeatureError, FileError, Infeasible, RuleError
from bridle.models import Tagger
from bridle.tagging import Block, Column, Outcomes, tag
from bridle.tagging.block import Ids, JsonObjects
from bridle.tagging.labelling import ModelColumns
from bridle.texts import Texts

Lists = list[list[str | None] | None]
EXTRAS = ["k_best", "probabilities", "segment_probabilities"]
RULES = ["at most 1 segment of NP", "if VP then NP", "fix B-VP at given verb"]
words = st.sampled_from(["the", "dog", "sees", "é", ""])
lists: st.SearchStrategy[Lists] = st.lists(st.none() | st.lists(st.none() | words, max_size=4), max_size=6)


@cache
def model() -> Tagger:
    """A model of two columns."""
    rows = [{"word": ["the", "dog", "sees"], "pos": ["D", "N", "V"]}, {"word": ["dog", "sees"], "pos": ["N", "V"]}]
    return bridle.CRF(features=["word[0]", "pos[-1]"], c2=1.0).fit(rows, [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]])


# ---- columns and ids ------------------------------------------------------------------------------------------------


def column_of(some: Lists, packed: bool) -> Column:
    column = Column.of(some)
    return Column(Texts.of(column.texts), column.offsets, column.known, column.whole) if packed else column


def listed(column: Column) -> Lists:
    return [column.row(k) for k in range(len(column))]


@given(lists, st.booleans(), st.data())
def test_a_column_is_like_the_lists_in_it(some: Lists, packed: bool, data: st.DataObject) -> None:
    column = column_of(some, packed)
    assert listed(column) == some and len(column) == len(some)
    low, high = sorted(data.draw(st.lists(st.integers(0, len(some)), min_size=2, max_size=2)))
    assert listed(column.part(low, high)) == some[low:high]
    gone = data.draw(st.sets(st.integers(0, len(some) - 1))) if some else set()
    assert listed(column.without(gone)) == [row if row is None or k not in gone else [] for k, row in enumerate(some)]
    assert listed(column.part(low, high).without(range(high - low))) == [row and [] for row in some[low:high]]


@given(st.lists(st.tuples(lists, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_columns_are_joined_like_lists(some: list[tuple[Lists, bool, bool]]) -> None:
    parts = [None if absent else column_of(rows, packed) for rows, packed, absent in some]
    joined = Column.joined(parts, [len(rows) for rows, _, _ in some])
    assert listed(joined) == [None if absent else row for rows, _, absent in some for row in rows]


values = st.none() | st.text(max_size=3) | st.integers() | st.lists(st.integers(), max_size=2) | st.booleans()


@given(st.lists(st.lists(values, max_size=3), min_size=1, max_size=3))
def test_ids_keep_their_types(some: list[list[Any]]) -> None:
    parts = [Ids.of(part) for part in some]
    assert [list(part) for part in parts] == some and list(parts[0][1:]) == some[0][1:]
    joined = Ids.joined([part if any(x is not None for x in part) else None for part in parts], list(map(len, parts)))
    assert repr(list(joined)) == repr([value for part in some for value in part])


def test_objects_are_parsed_when_they_are_asked_for() -> None:
    objects = JsonObjects(["", '{"a": 1}', "{"])
    assert (objects[0], objects[1], len(objects), list(objects[:2])) == ({}, {"a": 1}, 3, [{}, {"a": 1}])
    with pytest.raises(ValueError, match="property name"):
        _ = objects[2]


# ---- sequences at fault ---------------------------------------------------------------------------------------------


@st.composite
def text_rows(draw: st.DrawFn) -> dict[str, Any]:
    """A sequence, and perhaps something that is wrong with it."""
    tokens: Any = draw(st.lists(words, max_size=4))
    pos: Any = draw(st.lists(st.sampled_from("DNV"), min_size=len(tokens), max_size=len(tokens)))
    verb: Any = [draw(st.integers(0, len(tokens) - 1))] if tokens else []
    fault = draw(st.sampled_from(["", "", "read", "null token", "null pos", "no tokens", "no pos", "length", "given"]))
    if fault in ("null token", "null pos") and tokens:
        (tokens if fault == "null token" else pos)[0] = None
    elif fault in ("no tokens", "no pos"):
        tokens, pos = (None, pos) if fault == "no tokens" else (tokens, None)
    elif fault == "length":
        pos = [*pos, "N"]
    elif fault == "given":
        verb = "one" if tokens else verb
    bad = fault if tokens or fault not in ("null token", "null pos", "given") else ""
    return {"word": tokens, "pos": pos, "given": {"verb": verb}, "bad": bad}


def text_block(rows: list[dict[str, Any]], *, packed: bool = False) -> Block:
    columns = {name: column_of([row[name] for row in rows], packed) for name in ("word", "pos")}
    errors: dict[int, BridleError] = {k: FileError("unread") for k, row in enumerate(rows) if row["bad"] == "read"}
    return Block(len(rows), columns, errors=errors, given=[row["given"] for row in rows])


def described(outcomes: Outcomes, row: int) -> list[Any]:
    """All that is known of a sequence."""
    low, high = outcomes.decodings.offsets[row : row + 2]
    result = [outcomes.labels[row], outcomes.status[row], outcomes.decodings.scores[row], outcomes.record(row)]
    if outcomes.probabilities is not None:
        result.append(outcomes.probabilities[low:high].tolist())
    if outcomes.k_best is not None and (best := outcomes.k_best[row]) is not None:
        result += [(labelling.labels, labelling.score) for labelling in best]
    return [*result, None if outcomes.segment_probabilities is None else outcomes.segment_probabilities[row]]


def same(ours: Outcomes, theirs: Outcomes, rows: list[int]) -> None:
    """The sequences `rows` of one are all sequences of the other."""
    assert len(theirs) == len(rows)
    for k, row in enumerate(rows):
        assert repr(described(ours, row)) == repr(described(theirs, k))


@settings(max_examples=150, deadline=None)
@given(st.lists(text_rows(), max_size=6), st.booleans(), st.sampled_from([(), RULES]), st.sampled_from([[], EXTRAS]))
def test_texts_at_fault_do_not_touch_others(
    rows: list[dict[str, Any]], packed: bool, rules: list[str], want: list[Any]
) -> None:
    tagger = model()
    decoder = tagger.decoder(rules, on_infeasible="skip")
    result = tag(text_block(rows, packed=packed), tagger, decoder, want=want, k=3)
    bad = [k for k, row in enumerate(rows) if row["bad"] and (rules or row["bad"] != "given")]
    assert sorted(result.decodings.errors) == bad and set(bad) <= result.errors.keys()
    for k in bad:
        assert (
            result.labels[k] is None
            and result.status[k] == "error"
            and result.record(k) == {"error": str(result.errors[k])}
        )
        kinds = {"read": FileError, "given": RuleError}
        assert isinstance(result.errors[k], kinds.get(rows[k]["bad"], FeatureError))
    good = [k for k in range(len(rows)) if k not in bad]
    same(result, tag(text_block([rows[k] for k in good]), tagger, decoder, want=want, k=3), good)
    same(tag(text_block(rows), tagger, decoder, want=want, k=3, threads=3), result, list(range(len(rows))))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6), st.booleans(), st.sampled_from([[], EXTRAS]))
def test_scores_at_fault_do_not_touch_others(sizes: list[tuple[int, bool]], packed: bool, want: list[Any]) -> None:
    rng = np.random.default_rng(len(sizes))
    decoder = Decoder(
        Labels(["O", "A", "B"], scheme="IO"), ["at most 1 token of A", "if B then A"], on_infeasible="skip"
    )
    unary = [rng.normal(size=(n, 3)) for n, _ in sizes]

    def block(rows: list[int], errors: list[int]) -> Block:
        scores: Any = [Lattice(unary[k], np.ones((3, 3))) for k in rows]
        if packed:
            cuts = np.cumsum([0, *(len(unary[k]) for k in rows)])
            scores = Batch(np.concatenate([np.zeros((0, 3)), *(unary[k] for k in rows)]), cuts, np.ones((3, 3)))
        return Block(len(rows), scores=scores, errors={k: FileError("unread") for k in errors})

    bad = [k for k, (_, is_bad) in enumerate(sizes) if is_bad]
    good = [k for k in range(len(sizes)) if k not in bad]
    result = tag(block(list(range(len(sizes))), bad), None, decoder, want=want, k=2)
    assert sorted(result.errors) == bad
    same(result, tag(block(good, []), None, decoder, want=want, k=2), good)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": [["a"]]}, "there is no column 'pos'; got 'word'"),
        ({"word": [["a"]], "pos": [None]}, "there is no column 'pos'"),
        (
            {"word": [["a"]], "pos": [["N", "V"]]},
            "the columns differ in length; got 2 in 'pos'; wanted 1, as in 'word'",
        ),
        ({"word": [["a"]], "pos": [[None]]}, "a token in 'pos' is null"),
        ({"word": [[None]], "pos": [["N"]]}, "a token in 'word' is null"),
    ],
)
def test_errors_say_what_is_wrong(columns: dict[str, Lists], message: str) -> None:
    block = Block(1, {name: Column.of(some) for name, some in columns.items()})
    outcomes = tag(block, model(), model().decoder())
    assert message in str(outcomes.errors[0])
    with pytest.raises(FeatureError, match=message.split(";")[0]):
        raise_first(outcomes.decodings, infeasible=False)


# ---- outcomes -------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(text_rows(), max_size=6))
def test_segments_and_ids_of_all_sequences(rows: list[dict[str, Any]]) -> None:
    result = tag(text_block(rows), model(), model().decoder())
    first, last, at = result.segments
    names = result.label_set
    flat = [
        (k, segment.start, segment.end)
        for k, labels in enumerate(result.labels)
        for segment in names.segments(labels or [])
    ]
    begin = result.offsets[at]
    assert list(zip(at.tolist(), (first - begin).tolist(), (last - begin).tolist(), strict=True)) == flat
    assert [names.names[y] for y in result.ids] == [label for labels in result.labels for label in labels or ()]


def test_the_first_error_may_be_that_of_the_rules() -> None:
    rows = [{"word": ["dog"], "pos": ["N"], "given": {}, "bad": bad} for bad in ("", "", "read")]
    decoder = model().decoder(["at least 2 tokens of NP"], on_infeasible="skip")
    outcomes = tag(text_block(rows), model(), decoder)
    assert outcomes.status.tolist() == ["infeasible", "infeasible", "error"]
    assert outcomes.first_error(infeasible=False) == (2, outcomes.errors[2])
    number, error = outcomes.first_error(infeasible=True)
    assert number == 0 and isinstance(error, Infeasible)
    with pytest.raises(Infeasible) as caught:
        raise_first(outcomes.decodings, infeasible=True)
    assert caught.value.sequence == 0 and caught.value.decodings is outcomes.decodings
    with pytest.raises(FileError, match="unread"):
        raise_first(outcomes.decodings, infeasible=False)
    assert tag(text_block(rows[:0]), model(), decoder).first_error(infeasible=True) == (0, None)


@pytest.mark.parametrize("want", [[], ["k_best"], ["probabilities"]])
def test_a_stop_ends_it(want: list[Any]) -> None:
    stop = Stop()
    stop.set()
    rows = [{"word": ["dog"] * 50, "pos": ["N"] * 50, "given": {}, "bad": ""}] * 50
    with pytest.raises(KeyboardInterrupt):
        tag(text_block(rows), model(), model().decoder(RULES[:2]), want=want, k=5, stop=stop)


def test_one_function_says_which_columns_a_model_reads() -> None:
    pa = pytest.importorskip("pyarrow")
    X, y = [{"form": ["the", "cat"], "pos": ["D", "N"]}], [["A", "B"]]
    model = bridle.LocalTagger(features=["pos[0]"]).fit(X, y)
    model.notes_ = {"columns": ["form", "pos", "label"]}
    columns = ModelColumns.of(model)
    assert columns == (("pos",), "form") and columns.first == "pos"
    assert columns.renamed(["word", "pos"]) == ["word", "pos"] and columns.renamed(["word"]) == ["word"]
    both = bridle.LocalTagger(features=["pos[0]", "form[0]"]).fit(X, y)
    assert ModelColumns.of(both).renamed(["word", "pos"]) == ["word", "pos"]
    both.notes_ = {"columns": ["form", "pos", "label"]}
    assert ModelColumns.of(both) == (("form", "pos"), "form")
    assert ModelColumns.of(both).renamed(["word", "pos"]) == ["form", "pos"]
    with pytest.raises(FeatureError, match="no column 'pos'"):  # tokens are no parts of speech
        bridle.arrow.Tag(model).check(pa.schema({"tokens": pa.list_(pa.string())}))
    bridle.arrow.Tag(both).check(pa.schema({"tokens": pa.list_(pa.string()), "pos": pa.list_(pa.string())}))


def test_probabilities_of_other_labellings() -> None:
    """Those under rules get the probabilities that the model alone gives them, whatever is wrong with other rows."""
    tagger = model()
    rows: list[dict[str, Any]] = [
        {"word": ["the", "dog", "sees"], "pos": ["D", "N", "V"], "given": {"verb": [0]}, "bad": ""},
        {"word": ["dog", "sees"], "pos": ["N", "V"], "given": {"verb": "one"}, "bad": "given"},
        {"word": ["dog"], "pos": ["N"], "given": {"verb": [0]}, "bad": ""},
        {"word": ["dog"], "pos": ["N"], "given": {"verb": [0]}, "bad": "read"},
    ]
    block = text_block(rows)
    ruled = tag(block, tagger, tagger.decoder(["fix B-VP at given verb"]))
    plain = tag(block, tagger, tagger.decoder(), want=["probabilities", "segment_probabilities"], of=ruled.decodings)
    assert plain.probabilities is not None and plain.segment_probabilities is not None
    assert sorted(plain.decodings.errors) == [3] and plain.segment_probabilities[1] is plain.segment_probabilities[3]
    for b in (0, 2):
        labels, low = ruled.labels[b], plain.decodings.offsets[b]
        assert labels is not None and labels != plain.labels[b]
        table = tagger.decoder().marginals(tagger.lattice({"word": rows[b]["word"], "pos": rows[b]["pos"]}))
        its = [table[t, y] for t, y in enumerate(tagger.labels_.ids(labels))]
        assert plain.probabilities[low : low + len(labels)] == pytest.approx(its)
        assert len(plain.segment_probabilities[b] or ()) == len(tagger.labels_.segments(labels))
