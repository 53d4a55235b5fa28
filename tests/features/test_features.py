"""Templates as text, derived columns, vocabularies, and every form that tokens come in."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridle.errors import FeatureError
from bridle.features import (
    FEATURE_SETS,
    FEATURES,
    FUNCTIONS,
    SETS,
    Encoded,
    Features,
    Function,
    PlainFeatures,
    Templates,
    features_of,
)
from bridle.features.derived import OF_PLACE, OF_TEXT
from bridle.features.templates import split

# ---- templates ------------------------------------------------------------------------------------------------------

COLUMNS = st.one_of(
    st.sampled_from(["word", "pos", "lemma", "lower", "lemma.suffix2", "shape", "bias", "tenth", "a.b", "a#b"]),
    st.text(st.characters(exclude_categories=("Z", "C", "Cs")), min_size=1, max_size=4).filter(
        lambda name: not set("[]") & set(name) and name != "label"
    ),
)
PLACES = st.tuples(COLUMNS, st.integers(-1000, 1000), st.sampled_from(["", "+"])).map(
    lambda place: f"{place[0]}[{place[2] if place[1] >= 0 else ''}{place[1]}]"
)
LINES = st.lists(st.tuples(st.lists(PLACES, min_size=1, max_size=4), st.sampled_from([" ", "\t", "   "])), max_size=4)


def restored(head: dict[str, Any], arrays: Any) -> Features:
    """Features as a model file keeps them."""
    return FEATURES[head["kind"]].restored(head, arrays)


@given(LINES, st.booleans())
@example([(["x[0]", "#b[0]"], "\t")], False)
@example([(["word[0]", "word[0]"], " "), (["word[0]", "word[0]"], " ")], True)
def test_what_was_parsed_is_printed_and_parsed_again(lines: list[tuple[list[str], str]], bigram: bool) -> None:
    text = [space.join(places) for places, space in lines] + ["word[0]"] + ["label[-1]"] * bigram
    parsed = Templates.parse(text)
    assert Templates.parse(str(parsed)) == Templates.parse(str(parsed).splitlines()) == parsed
    assert parsed.bigram == bigram


def test_comments_and_empty_lines() -> None:
    parsed = Templates.parse("# what we use\n\n  word[0]   # the token\nword[+1]\nlabel[-1] # bigrams\nword[0]\n")
    assert str(parsed) == "word[0]\nword[1]\nlabel[-1]"


@pytest.mark.parametrize(
    "line",
    [
        "word",
        "word[]",
        "word[x]",
        "word[1.5]",
        "[0]",
        "word[0]word[1]",
        "word [0]",
        "word[0",
        "word[1001]",
        "word[-1001]",
        "label[0]",
        "label[-2]",
        "label[-1] label[-1]",
        "word[0] label[-2]",
        f"word[{'9' * 5000}]",
    ],
)
def test_invalid_templates(line: str) -> None:
    with pytest.raises(FeatureError, match="line 2 is not a template"):
        Templates.parse(["word[0]", line])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("chunkin", "Did you mean 'chunking'"),
        ("nothing", "unknown feature set"),
        ("", "no templates"),
        ([], "no templates"),
        ("label[-1]", "no templates"),
        ("# word[0]", "no templates"),
        (5, "."),
    ],
)
def test_what_are_no_templates(spec: Any, says: str) -> None:
    with pytest.raises(FeatureError, match=says):
        features_of(spec)


@pytest.mark.parametrize("cutoff", [0, -1, 1.5, True, "2", None])
def test_invalid_cutoffs(cutoff: Any) -> None:
    with pytest.raises(FeatureError, match="cutoff"):
        features_of("chunking", cutoff)


def test_a_cutoff_may_come_from_numpy() -> None:
    assert features_of("chunking", np.int64(2)).cutoff == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SETS)
def test_ready_made_sets(name: str) -> None:
    parsed = Templates.parse(name)
    assert parsed.bigram
    assert Templates.parse(str(parsed)) == parsed
    assert len(parsed.lines) == len(SETS[name].splitlines()) - 1, "no template is there twice"
    sequence = {column: ["a", "b"] for column in parsed.sources}
    assert features_of(name).fit([sequence]).n_tokens == 2


def test_the_19_templates_of_chunking() -> None:
    words = [f"word[{k}]" for k in range(-2, 3)] + ["word[-1] word[0]", "word[0] word[1]"]
    tags = [f"pos[{k}]" for k in range(-2, 3)]
    tags += [f"pos[{k}] pos[{k + 1}]" for k in range(-2, 2)]
    tags += [f"pos[{k}] pos[{k + 1}] pos[{k + 2}]" for k in range(-2, 1)]
    assert str(Templates.parse("chunking")).splitlines() == [*words, *tags, "label[-1]"]
    assert Templates.parse("chunking").sources == ("word", "pos")


# ---- derived columns ------------------------------------------------------------------------------------------------

DERIVED = {
    "lower": [("USA", "usa"), ("ÄÖ", "äö")],
    "shape": [("McDonald-24b", "XxXx-dx"), ("U.S.", "X.X."), ("", ""), ("日本", "x")],
    "caps": [("McDonald-24b", "XxXx-dx"), ("iPod", "xXx"), ("ibm", ""), ("日本", ""), ("", "")],
    "zeros": [("1993.", "0000."), ("B2", "b0")],
    "bare": [("(U.S.)", "us"), ("--", ""), ("l'été", "lété")],
    "tail": [("1993.", "."), ("end", ""), ("", ""), (")", ")")],
    "digit": [("a1", "yes"), ("a", "")],
    "upper": [("aB", "yes"), ("ab", "")],
    "hyphen": [("a-b", "yes"), ("a_b", "")],
    "prefix1": [("ab", "a")],
    "prefix2": [("ab", "ab"), ("a", "")],
    "prefix3": [("abcd", "abc"), ("ab", "")],
    "prefix4": [("abcd", "abcd"), ("abc", "")],
    "suffix1": [("ab", "b"), ("", "")],
    "suffix2": [("abc", "bc"), ("a", "")],
    "suffix3": [("abc", "abc")],
    "suffix4": [("abcde", "bcde"), ("abc", "")],
}


def test_derived_columns() -> None:
    assert DERIVED.keys() == OF_TEXT.keys(), "every one has an example here"
    for column, examples in DERIVED.items():
        for text, value in examples:
            assert rows(features_of([f"{column}[0]"]), [[text]]) == [[f"{column}[0]={value}"] if value else []]


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda item: item.name)
def test_a_function_does_what_its_example_says(function: Function) -> None:
    result = rows(features_of([f"{function.name}[0]"]), [list(function.tokens)])
    assert result == [[f"{function.name}[0]={value}"] if value else [] for value in function.values]
    assert function.about and any(function.values)
    assert (function.of == "text") == (function.name in OF_TEXT)


def test_every_function_is_described() -> None:
    assert list(FUNCTIONS) == [*OF_TEXT, *OF_PLACE]


def test_the_page_of_features_has_all_functions_and_sets() -> None:
    """docs/features.md says what the code says."""
    page = (Path(__file__).parents[2] / "docs" / "features.md").read_text(encoding="utf-8")
    for item in FUNCTIONS.values():
        values = " ".join(value or "-" for value in item.values)
        assert f"| `{item.name}` | {item.about} | `{' '.join(item.tokens)}` | `{values}` |\n" in page
    for name, each in FEATURE_SETS.items():
        assert f"| `{name}` | {each.about} | {len(each.templates.splitlines())} |\n" in page


def test_columns_of_the_place() -> None:
    features = features_of(["bias[0]", "first[0]", "last[0]", "tenth[0]"])
    bias = "bias[0]=yes"
    assert rows(features, [["a"], [], ["b", "c", "d"]]) == [
        [bias, "first[0]=yes", "last[0]=yes", "tenth[0]=0"],
        [bias, "first[0]=yes", "tenth[0]=0"],
        [bias, "tenth[0]=3"],
        [bias, "last[0]=yes", "tenth[0]=6"],
    ]
    assert [names[-1][-1] for names in rows(features_of(["tenth[0]"]), [["x"] * 20])] == list("00112233445566778899")


def test_unseen_words_have_derived_values() -> None:
    features = features_of(["word[0]", "suffix1[0]", "shape[0] shape[1]", "lower[-1]"])
    features.fit([["Cats", "sleep"]])
    assert known(features, [["Dogs", "run", "SLEEP", "Xs"]]) == [
        ["suffix1[0]=s", "shape[0]|shape[1]=Xx|x", "lower[-1]=<s>"],
        [],
        [],
        ["suffix1[0]=s"],
    ]


# ---- a twin of the vocabulary ---------------------------------------------------------------------------------------


def rows(features: Features, sequences: list[Any]) -> list[list[str]]:
    """The attributes of each token by name, as `fit` finds them."""
    return _named(features, features.fit(sequences))


def known(features: Features, sequences: list[Any]) -> list[list[str]]:
    return _named(features, features.encode(sequences))


def _named(features: Features, encoded: Encoded) -> list[list[str]]:
    names = features.names()
    return [[names[a] for a in encoded.attrs[low:high]] for low, high in itertools.pairwise(encoded.indptr.tolist())]


def slow(templates: Templates, sequence: dict[str, list[str]]) -> list[list[str]]:
    """Attributes by name, without numbers."""
    n = len(next(iter(sequence.values())))

    def value(column: str, t: int) -> str | None:
        if not 0 <= t < n:
            return "<s>" if t < 0 else "</s>"
        source, function = split(column, templates.main)
        if source is None:
            here = {"bias": "yes", "first": "yes" * (t == 0), "last": "yes" * (t == n - 1), "tenth": str(10 * t // n)}
            return here[str(function)] or None
        return sequence[source][t] if function is None else OF_TEXT[function]([sequence[source][t]])[0] or None

    out: list[list[str]] = []
    for t in range(n):
        out.append([])
        for template in templates.lines:
            values = [value(place.column, t + place.offset) for place in template.places]
            if None not in values:
                out[-1].append(f"{'|'.join(map(str, template.places))}={'|'.join(map(str, values))}")
    return out


KNOWN = st.sampled_from(["word", "pos", *OF_TEXT, *OF_PLACE, "pos.lower", "pos.suffix2"])
SHORT = st.tuples(KNOWN, st.integers(-3, 3)).map(lambda place: f"{place[0]}[{place[1]}]")
TEMPLATES = st.lists(st.lists(SHORT, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=5)
TEXT = st.sampled_from(["a", "b", "Ab", "a-1", "X.", "", "日本", "\n", "\0", "a b"])
SEQUENCES = st.lists(
    st.lists(st.tuples(TEXT, TEXT), max_size=5).map(lambda s: {"word": [a for a, _ in s], "pos": [b for _, b in s]}),
    max_size=4,
)


@given(TEMPLATES, SEQUENCES, SEQUENCES, st.integers(1, 3))
def test_attributes_are_what_the_templates_say(
    lines: list[str], train: list[dict[str, list[str]]], test: list[dict[str, list[str]]], cutoff: int
) -> None:
    features = features_of(lines, cutoff)
    templates = Templates.parse(lines)
    result = [row for sequence in train for row in slow(templates, sequence)]
    count = {name: sum(row.count(name) for row in result) for row in result for name in row}
    kept = {name for name, times in count.items() if times >= cutoff}
    assert rows(features, train) == [[name for name in row if name in kept] for row in result]
    assert set(features.names()) == kept
    assert len(features) == len(features.names()) == len(kept)
    assert known(features, train) == [[name for name in row if name in kept] for row in result]
    wanted = [[name for name in row if name in kept] for sequence in test for row in slow(templates, sequence)]
    assert known(features, test) == wanted
    again = restored(features.head(), features.arrays())
    assert again.names() == features.names()
    assert known(again, test) == wanted
    features.keep(np.array([name.endswith("a") for name in features.names()], dtype=bool))
    assert known(features, test) == [[name for name in row if name.endswith("a")] for row in wanted]


def test_names_of_hashed_attributes_tell_them_apart() -> None:
    """Four columns of 70,000 texts: the product of their sizes is beyond 64 bits."""
    texts = [f"w{k}" for k in range(70_000)]
    features = features_of(["a[0] b[0] c[0] d[0]"])
    encoded = features.fit([dict.fromkeys("abcd", texts)])
    assert len(set(features.names())) == len(features) == 70_000
    np.testing.assert_array_equal(features.encode([dict.fromkeys("abcd", texts)]).attrs, encoded.attrs)


def test_the_form_of_x_does_not_matter() -> None:
    features = features_of("chunking")
    columns = {"word": ["a", "b"], "pos": ["X", "Y"]}
    per_token: Any = [{"word": "a", "pos": "X", "more": 1}, {"word": "b", "pos": "Y"}]
    wanted = rows(features, [columns])
    forms: list[Any] = [
        per_token,
        tuple(per_token),
        *({key: kind(v) for key, v in columns.items()} for kind in (tuple, np.array)),
    ]
    for form in forms:
        assert rows(features_of("chunking"), [form]) == known(features, [form]) == wanted
    item = features_of(["text[0]", "suffix1[0]", "bias[0]"])
    wanted = rows(item, [["ab", "c"]])
    forms = [[{"text": "ab"}, {"text": "c"}], {"text": ["ab", "c"], "other": ["x", "y"]}, ("ab", "c")]
    for form in forms:
        assert known(item, [form]) == wanted


# ---- ready-made features --------------------------------------------------------------------------------------------


def valued(sequences: list[Any]) -> list[dict[str, float]]:
    features = features_of(None)
    encoded, names = features.fit(sequences), features.names()
    values = np.ones(len(encoded.attrs)) if encoded.values is None else encoded.values
    pairs = list(zip((names[a] for a in encoded.attrs), values.tolist(), strict=True))
    return [dict(pairs[low:high]) for low, high in itertools.pairwise(encoded.indptr.tolist())]


@pytest.mark.parametrize(
    ("token", "wanted"),
    [
        (["w=a", "t"], {"w=a": 1, "t": 1}),
        (("w=a", "t"), {"w=a": 1, "t": 1}),
        ([], {}),
        ({}, {}),
        ({"w": "a"}, {"w:a": 1}),
        ({"up": True, "low": False, "np": np.True_}, {"up": 1, "np": 1}),
        ({"n": 3, "x": -0.5, "zero": 0}, {"n": 3, "x": -0.5, "zero": 0}),
        ({"float": np.float32(2), "int": np.int64(4)}, {"float": 2, "int": 4}),
        ({"in": ["a", "b"], "set": {"d", "c"}}, {"in:a": 1, "in:b": 1, "set:c": 1, "set:d": 1}),
        ({"a": {"b": {"c": 2.5}, "d": "e", "f": True, "g": ["h"]}}, {"a:b:c": 2.5, "a:d:e": 1, "a:f": 1, "a:g:h": 1}),
        ({7: "x"}, {"7:x": 1}),
    ],
)
def test_ready_made_features(token: Any, wanted: dict[str, float]) -> None:
    assert valued([[token]]) == [wanted]
    assert valued([[], [["first"], token], []]) == [{"first": 1}, wanted]


def test_unknown_ready_made_features_are_left_out() -> None:
    features = features_of(None, cutoff=2)
    sequences = [[{"a": 2, "b": "x"}, ["a", "b:x", "rare"]], [["a"]]]
    assert rows(features, sequences) == known(features, sequences) == [["a", "b:x"], ["a", "b:x"], ["a"]]
    encoded = features.encode([[{"rare": 5, "a": 3}, {"b": "y"}]])
    assert encoded.values is not None and encoded.values.tolist() == [3]
    assert known(restored(features.head(), features.arrays()), sequences) == known(features, sequences)
    features.keep(np.array([False, True]))
    assert known(features, sequences) == [["b:x"], ["b:x"], []]


# ---- what cannot be -------------------------------------------------------------------------------------------------

ONE, TWO = ["word[0]"], "chunking"


@pytest.mark.parametrize(
    ("spec", "X", "says"),
    [
        (ONE, "a sentence", "X is not a list"),
        (ONE, {"word": ["a"]}, "Pass .sequence"),
        (ONE, iter([["a"]]), "X is not a list"),
        (ONE, None, "X is not a list"),
        (ONE, ["a sentence"], "cut into tokens"),
        (ONE, [{"word": "ab"}], "should be a list"),
        (ONE, [[1, 2]], "not a string"),
        (ONE, [["a", None]], "is null"),
        (ONE, [[b"a"]], "not a string"),
        (ONE, [{"word": [1]}], "not a string"),
        (ONE, [5], "sequence 0"),
        (ONE, [["a"], None], "sequence 1"),
        (ONE, [{"word": None}], "."),
        (ONE, [{"word": 5}], "."),
        (ONE, [[{"word": "a"}, "b"]], "."),
        (TWO, [["a"]], "columns word, pos"),
        (TWO, [{"word": ["a"]}], "no column 'pos'"),
        (TWO, [[{"word": "a", "pos": "X"}, {"word": "b"}]], "no column 'pos'"),
        (TWO, [{}], "no column"),
        (TWO, [{"word": ["a"], "pos": ["X"]}, {"word": ["a", "b"], "pos": ["X"]}], "sequence 1: the columns differ"),
        (["bias[0]"], [{"word": 5}], "."),
        (None, "ab", "X is not a list"),
        (None, [["a", "b"]], "a token has no features"),
        (None, ["ab"], "no features"),
        (None, [{"word": ["a"]}], "ready-made features, not text"),
        (None, [5], "no features"),
        (None, [[5]], "no features"),
        (None, [[None]], "no features"),
        (None, [[[1]]], "not a string"),
        (None, [[("a", None)]], "not a string"),
        (None, [[{"v": float("nan")}]], "value of 'v'"),
        (None, [[{"v": float("inf")}]], "value of 'v'"),
        (None, [[{"v": {"w": -np.inf}}]], "value of 'v:w'"),
        (None, [[{"v": None}]], "value of 'v'"),
        (None, [[{"v": 1j}]], "value of 'v'"),
        (None, [[{"v": 10**400}]], "value of 'v'"),
    ],
)
@pytest.mark.parametrize("call", ["fit", "encode"])
def test_what_features_cannot_be_made_of(spec: Any, X: Any, says: str, call: str) -> None:
    features = features_of(spec)
    if call == "encode":
        features.fit([[["a"]]] if spec is None else [{"word": ["a"], "pos": ["X"]}])
    with pytest.raises(FeatureError, match=says):
        getattr(features, call)(X)


def test_a_missing_text_is_refused_in_every_form() -> None:
    """None in a table is a hole in the data, not the text "None"; columns refuse it too."""
    with pytest.raises(FeatureError, match="is null"):
        features_of(ONE).fit([[{"word": None}]])


def test_a_vocabulary_comes_first() -> None:
    with pytest.raises(FeatureError, match="no vocabulary yet"):
        features_of(ONE).encode([["a"]])


def test_files_that_do_not_fit_together() -> None:
    features = features_of(["word[0]", "lower[0] word[1]"])
    features.fit([["A", "b"]])
    head, good = features.head(), features.arrays()
    for name, array in good.items():
        for other in (array[:-1], np.append(array, array), array.astype(np.float32), np.full_like(array, 100)):
            with pytest.raises((FeatureError, KeyError)):
                restored(head, good | {name: other})
        with pytest.raises(KeyError):
            restored(head, {key: value for key, value in good.items() if key != name})
    with pytest.raises((FeatureError, KeyError)):
        restored(head | {"templates": ["word[0]"]}, good)


def test_sequences_are_read_once() -> None:
    """A sequence that changes meanwhile, by another thread, is longer when its tokens are counted."""

    class Shrinking(list[Any]):
        def __len__(self) -> int:
            return 5

    for token in (["a", "b"], {"a": 1, "b": 2}):
        encoded = PlainFeatures().fit([Shrinking([token]), [token]])
        assert encoded.offsets.tolist() == [0, 1, 2] and encoded.indptr.tolist() == [0, 2, 4]


@pytest.mark.parametrize("items", [[1], [None], [["x"]], {1}, {("x",)}, ("x", 1)], ids=str)
def test_lists_within_features_hold_strings(items: Any) -> None:
    with pytest.raises(FeatureError, match="a value in 'a' is not a string"):
        PlainFeatures().fit([[{"a": items}]])


@pytest.mark.parametrize("value", [Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.longdouble(0.5)], ids=repr)
def test_numbers_of_all_kinds_are_values(value: Any) -> None:
    encoded = PlainFeatures().fit([[{"a": value}]])
    assert encoded.values is not None and encoded.values.tolist() == [0.5]


def test_values_out_of_range() -> None:
    for value in (10**400, 10**5000, Decimal("nan"), Decimal("sNaN"), Fraction(10**400)):
        with pytest.raises(FeatureError, match="not a number to count with"):
            PlainFeatures().fit([[{"a": value}]])
