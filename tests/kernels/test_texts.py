"""Texts in arrays against lists of strings: looked up, made distinct, derived from, matched by rules."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bridle
from bridle import _native, rules
from bridle.features import features_of
from bridle.features import vocabulary as module
from bridle.features.columns import Ids, Interned, Packed
from bridle.features.derived import FIRST, OF_PLACE, OF_TEXT
from bridle.features.vocabulary import DerivedTexts
from bridle.texts import Texts

STRINGS = st.one_of(
    st.text(max_size=6), st.text("\0\nn\\", max_size=4), st.text("aB-7_.é", max_size=8), st.text("ab\ud800", max_size=4)
)
LISTS = st.lists(STRINGS, max_size=20)


@given(LISTS, st.data())
def test_texts_are_a_sequence_of_strings(strings: list[str], data: st.DataObject) -> None:
    texts = Texts.of(strings)
    assert len(texts) == len(strings) and list(texts) == texts.tolist() == strings
    assert [texts[k] for k in range(-len(strings), len(strings))] == strings + strings
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(strings))] * 2)))
    part = texts[low:high]
    assert part.tolist() == strings[low:high] and part.data is texts.data, "a slice copies nothing"
    assert part[1:].tolist() == strings[low:high][1:] and texts[high:low].tolist() == strings[high:low]


def test_texts_beyond_the_end() -> None:
    texts = Texts.of(["a", "bc"])
    assert repr(texts) == "Texts(2 strings, 3 bytes)"
    with pytest.raises(IndexError, match="text 2 of 2"):
        _ = texts[2]
    with pytest.raises(ValueError, match="step of 2"):
        _ = texts[::2]


@given(LISTS, LISTS, st.integers(0, 5))
def test_texts_are_found_as_lists_are(known: list[str], others: list[str], first: int) -> None:
    strings = Interned()
    strings.add(known)
    for some in (known, others, known + others):
        assert strings.find(Texts.of(some)[first:]).tolist() == strings.find(some[first:]).tolist()


@given(LISTS, st.data())
def test_distinct_texts(strings: list[str], data: st.DataObject) -> None:
    at = np.array(data.draw(st.lists(st.integers(0, len(strings) - 1))) if strings else [], dtype=np.int64)
    for places in (None, at):
        texts, which = Texts.of(strings).distinct(places)
        there = strings if places is None else [strings[k] for k in places.tolist()]
        assert texts.tolist() == list(dict.fromkeys(there))
        assert [texts[k] for k in which.tolist()] == there


# ASCII but line feeds and nulls, letters of Latin-1, and marks such as dashes and quotes: others are left to Python.
RANGES = [(1, 0x80), (0xC0, 0x100), (0x2010, 0x2028), (0x2030, 0x203F)]
READABLE = {chr(k) for low, high in RANGES for k in range(low, high)} - {"\n"}


def ids_of(columns: list[Any], strings: list[str], numbers: Ids) -> tuple[Ids, int]:
    """The ids of some columns of one sequence, and how many are left to Python."""
    texts, out = Texts.of(strings), np.full((len(columns), len(strings)), -7, dtype=np.int32)
    source, offsets = (texts.data, texts.offsets, numbers), np.array([0, len(strings)])
    return out, _native.TokenColumns(columns).ids([source], offsets, out)


@settings(max_examples=20)
@pytest.mark.parametrize("name", OF_TEXT)
@example(strings=[*READABLE, *(f"a{c}{c}B" for c in READABLE), "\xbf", "\u203f", "\u2028"])
@given(strings=LISTS | st.lists(st.text(st.sampled_from(sorted(READABLE)))))
def test_functions_of_templates_in_the_kernels_are_those_in_python(name: str, strings: list[str]) -> None:
    built = OF_TEXT[name](strings)
    known = Interned()
    known.add([*(text for text in built if text), "yes"][::2])  # some of them
    table, numbers = np.array([99], dtype=np.int32), known.find(built)
    out, left = ids_of([(0, name, table, known.native)], strings, np.full(len(strings), -1, dtype=np.int32))
    assert left == np.sum(out < 0)
    for k, text in enumerate(strings):
        if set(text) - READABLE:
            assert out[0, k] == -1, "left to Python"
        else:
            assert out[0, k] == (numbers[k] + FIRST if built[k] and numbers[k] >= 0 else 0), (text, built[k])


def test_other_functions_are_left_to_python() -> None:
    table = np.array([7, 8], dtype=np.int32)
    for name in ("", "prefix", "prefix10", "prefixx", "lowered", "first"):
        columns = [(0, name, table, _native.Strings()), (0, "", None, None), (-1, "", None, None)]
        out, left = ids_of(columns, ["a", "b", "c", "c"], np.array([1, 0, -1, -1], dtype=np.int32))
        assert left == 2
        assert out.tolist() == [[8, 7, -1, -1], [FIRST + 1, FIRST, 0, 0], [-7] * 4], "the last one is left alone"


@given(st.lists(st.integers(0, 12), max_size=6))
def test_columns_of_places(lengths: list[int]) -> None:
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    out = np.full((4, int(offsets[-1])), -7, dtype=np.int32)
    native = _native.TokenColumns([(-1, name, None, None) for name in OF_PLACE])
    assert list(OF_PLACE) == ["first", "last", "tenth", "bias"]
    assert native.ids([], offsets, out) == 0
    wanted = [
        [FIRST * (t == 0), FIRST * (t == length - 1), FIRST + 10 * t // length, FIRST]
        for length in lengths
        for t in range(length)
    ]
    assert out.T.tolist() == wanted


@pytest.mark.parametrize("offsets", [[], [-1, 0], [0, 4], [2, 1]])
def test_offsets_that_would_leave_the_bytes_are_refused(offsets: list[int]) -> None:
    data, cuts = np.zeros(3, dtype=np.uint8), np.array(offsets, dtype=np.int64)
    out = np.zeros(max(len(offsets) - 1, 0), dtype=np.int32)
    strings = _native.Strings()
    with pytest.raises(ValueError, match="do not rise"):
        strings.find(data, cuts, out)
    with pytest.raises(ValueError, match="do not rise"):
        strings.add(data, cuts, None, out)
    with pytest.raises(ValueError, match="do not rise"):
        native = _native.TokenColumns([(0, "", None, None)])
        native.ids([(data, cuts, out)], np.array([0, len(out)]), out.reshape(1, -1))


def test_places_and_lengths_that_do_not_fit_are_refused() -> None:
    texts, strings = Texts.of(["a", "b"]), _native.Strings()
    for at in ([2], [-1]):
        with pytest.raises(ValueError, match="no such text"):
            strings.add(texts.data, texts.offsets, np.array(at), np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="another length"):
        strings.find(texts.data, texts.offsets, np.zeros(3, np.int32))
    columns, cuts, two = _native.TokenColumns([(0, "", None, None)]), np.array([0, 2]), np.zeros(2, np.int32)
    for numbers, ids in ((two[:1], two), (two, two[:1])):
        with pytest.raises(ValueError, match="another length"):
            columns.ids([(texts.data, texts.offsets, numbers)], cuts, ids)
    with pytest.raises(ValueError, match="no such source"):
        columns.ids([], cuts, two)


# ---- features and rules of packed texts -----------------------------------------------------------------------------

LISTED = ["word[0]", "lower[-1]", "shape[0]", "bare[0]", "suffix2[0]", "in:places[0]", "lemma.prefix1[0]"]
ROWS = st.lists(st.lists(STRINGS, max_size=4), min_size=1, max_size=4)


def packed(rows: list[list[str]]) -> Packed:
    """Pack rows as texts in arrays, as two columns."""
    flat = [text for row in rows for text in row]
    offsets = np.concatenate([[0], np.cumsum(list(map(len, rows)))]).astype(np.int64)
    return Packed({"word": Texts.of(flat), "lemma": Texts.of(text.upper() for text in flat)}, offsets)


@settings(max_examples=40)
@given(ROWS, ROWS)
def test_features_of_packed_texts_are_those_of_lists(training: list[list[str]], rows: list[list[str]]) -> None:
    def listed(some: list[list[str]]) -> list[dict[str, list[str]]]:
        return [{"word": row, "lemma": [text.upper() for text in row]} for row in some]

    features = features_of(LISTED, lists={"places": ["a b", "B", "é", "-7"]})
    features.fit(listed(training))
    for some in (rows, training, [*rows, *training]):
        ours, theirs = features.encode(packed(some)), features.encode(listed(some))
        assert ours.attrs.tolist() == theirs.attrs.tolist() and ours.indptr.tolist() == theirs.indptr.tolist()


def test_packed_columns_are_a_sequence_of_columns() -> None:
    columns = packed([["a", "b"], [], ["c"]])
    assert [dict(row) for row in columns] == [
        {"word": ["a", "b"], "lemma": ["A", "B"]},
        {"word": [], "lemma": []},
        {"word": ["c"], "lemma": ["C"]},
    ]
    assert columns[1:][1] == columns[-1] and len(columns[:1]) == 1 and len(columns[2:1]) == 0
    with pytest.raises(IndexError, match="sequence 3 of 3"):
        _ = columns[3]
    with pytest.raises(bridle.FeatureError, match="no column 'pos'"):
        features = features_of(["pos[0]"])
        features.fit([{"pos": ["x"]}])
        features.encode(columns)


IN_LIST = rules.fix("N", at=rules.tokens(phrases=["b bc", "a"]))
RULES = ['fix N at tokens "a"', "forbid D at tokens /[bc]+/"]


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "bc", "é", "", "\n"]), min_size=1, max_size=5), min_size=1))
def test_rules_about_tokens_see_the_same_texts(rows: list[list[str]]) -> None:
    model = MODEL
    texts = Packed({"word": packed(rows).texts["word"]}, packed(rows).offsets)
    for obeyed in (RULES[:1], RULES, ["at most 1 token of N"], [IN_LIST], []):
        decoder = model.decoder(obeyed, on_infeasible="relax")
        ours, theirs = model.decode(texts, decoder), model.decode(rows, decoder)
        assert ours.labels == theirs.labels and ours.scores.tolist() == theirs.scores.tolist()


MODEL = bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"], ["bc", "a"]], [["D", "N"], ["D", "D"]])


def test_rules_that_no_text_could_obey_say_what_the_tokens_are() -> None:
    decoder = MODEL.decoder(['fix N at tokens "a"', "forbid N"], on_infeasible="skip")
    rows = packed([["b"], ["b", "a"]])
    result = MODEL.decode(rows, decoder)
    assert result.status.tolist() == ["optimal", "infeasible"]
    assert result.unanswered[1].given == {"tokens": ["b", "a"]}


def test_texts_for_rules_must_fit() -> None:
    native = MODEL.decoder(['fix N at tokens "a"']).compiled.native("masks")
    assert native.reads_tokens and not MODEL.decoder(["at most 1 token of N"]).compiled.native("masks").reads_tokens
    offsets = np.array([0, 2])
    for texts, which in ((["a"], [0]), (["a"], [0, 1]), (["a"], [0, -1]), ([], [0, 0])):
        with pytest.raises(ValueError, match="which"):
            native.bind(offsets, None, texts, np.array(which, dtype=np.int32))


# ---- what is remembered of unseen texts ----------------------------------------------------------------------------


def test_derived_values_are_cached_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def lengths(texts: object) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        assert isinstance(texts, list)
        asked.extend(texts)
        return np.array(list(map(len, texts)), dtype=np.int32)

    monkeypatch.setattr(module, "MOST_BYTES", 5000)
    derived = DerivedTexts([lengths])
    for _ in range(3):
        assert derived.of(["é", "ab", "é" * 300]).tolist() == [[1], [2], [300]]
    assert asked == ["é", "ab", "é" * 300, "é" * 300, "é" * 300], "long texts are not"
    for k in range(1000):
        assert derived.of([f"{k:04}"]).tolist() == [[4]]
        assert derived.known.bytes <= 5000 and len(derived.known) < 25
    asked.clear()
    derived.of(["0999", "0000"])
    assert asked == ["0000"], "the newest are kept"


def test_many_threads_derive_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 3000)
    features = features_of(["lower[0]", "shape[0]", "suffix3[0]"])
    features.fit([["Zürich", "Wien", "liegt"]])
    rng = np.random.default_rng(0)
    rows = [[f"{'Zü' * (k % 3)}{k}ürich" for k in rng.integers(0, 50, 20).tolist()] for _ in range(50)]
    wanted = [features.encode([row]).attrs.tolist() for row in rows]
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda row: features.encode([row]).attrs.tolist(), rows * 4))
    assert result == wanted * 4
