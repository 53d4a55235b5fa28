"""Sequences of two files that belong together; spans that are carried over to tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.data import Example
from bridle.data.pairing import Style, carried_over, check_tokens, paired
from bridle.data.standoff import segments_of
from bridle.errors import FileError


def named(*ids: object) -> list[Example]:
    return [Example({"word": [f"t{item}"]}, ["X"], id=item) for item in ids]


def ids(gold: list[Example], predicted: list[Example]) -> list[tuple[object, object]]:
    return [(a.id, b.id) for a, b in paired(gold, predicted)]


@given(st.permutations(range(6)))
def test_ids_decide(order: list[int]) -> None:
    assert ids(named(*range(6)), named(*map(str, order))) == [(k, str(k)) for k in range(6)]


def test_order_decides_without_ids_in_common() -> None:
    assert ids(named("a", "b"), named(0, 1)) == [("a", 0), ("b", 1)]
    assert ids(named(None, None), named(1, 0)) == [(None, 1), (None, 0)]
    assert ids([], []) == []


@pytest.mark.parametrize(
    ("gold", "predicted", "says"),
    [
        ([1, 2], [1], "got 1 predicted; wanted 2"),
        ([], [1], "got 1 predicted; wanted 0"),
        (["a", "b"], [1, 2, 3], "got 3 predicted; wanted 2"),
        ([1, 2, 3], [2, 1, 4], "this sequence has no prediction; got the id 3"),
        ([1, 2], [2, 1, 4], "this sequence has no gold labels; got the id 4"),
        ([1, 2, 3], [2, 2, 1], "two predictions have the same id"),
        ([1, 2], [2, None], "a sequence has no id"),
    ],
)
def test_sequences_without_a_partner(gold: list[object], predicted: list[object], says: str) -> None:
    with pytest.raises(FileError, match=says):
        ids(named(*gold), named(*predicted))


def test_tokens_must_be_the_same() -> None:
    item = Example({"word": ["a", "b"]}, where="x:1")
    check_tokens(item, Example({"form": ["a", "b"]}))
    with pytest.raises(FileError, match=r"another text than gold \(x:1\); got 'c' as token 2; wanted 'b'"):
        check_tokens(item, Example({"word": ["a", "c"]}))
    with pytest.raises(FileError, match="another number of tokens than gold"):
        check_tokens(item, Example({"word": ["a", "b", "c"]}))


@pytest.mark.parametrize("tokens", [["c"], ["a"], ["a", "b", "c"]])
def test_a_missing_sequence_is_told(tokens: list[str]) -> None:
    item, after = Example({"word": ["a", "b"]}), Example({"word": tokens})
    with pytest.raises(FileError, match="A sequence seems to be missing in the predictions"):
        check_tokens(item, Example({"form": tokens}), iter([after, item]))
    with pytest.raises(FileError) as output:
        check_tokens(item, Example({"form": tokens}), iter([item, after]))
    assert "seems to be missing" not in str(output.value)


# ---- spans onto tokens ----------------------------------------------------------------------------------------------

TOKENS = st.lists(st.text("abc ", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=6)


def characters(tokens: list[str], labels: list[str]) -> Example:
    """A text as `CHARACTERS` reads it: what is labelled BIO by tokens, by characters."""
    words, result = list[str](), list[str]()
    for token, label in zip(tokens, labels, strict=True):
        letters = [c for c in token if c != " "]
        words += letters
        result += [label if k == 0 else label.replace("B-", "I-") for k in range(len(letters))]
    return Example({"word": words}, result)


@given(TOKENS, st.data())
def test_spans_of_whole_tokens_are_carried_over_exactly(tokens: list[str], data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.sampled_from(["O", "B-P", "B-Q"]), min_size=len(tokens), max_size=len(tokens)))
    for t in range(1, len(labels)):
        if labels[t - 1] != "O" and data.draw(st.booleans()):
            labels[t] = "I" + labels[t - 1][1:]
    onto = Example({"word": tokens})
    for style in (Style("BIO"), Style("BIOES"), Style("BMES")):
        built = carried_over(characters(tokens, labels), onto, style).labels
        assert built is not None and segments_of(built, style.scheme or "IO") == segments_of(labels, "BIO")
    assert carried_over(characters(tokens, labels), onto, Style("BIO")).labels == labels


def test_styles_of_labels() -> None:
    onto = Example({"word": ["New", "York"]})
    spans = characters(["New", "York"], ["B-LOC", "I-LOC"])
    for names, wanted in (
        (["O", "B-LOC", "I-LOC"], ["B-LOC", "I-LOC"]),
        (["O", "S-LOC", "B-LOC", "E-LOC"], ["B-LOC", "E-LOC"]),
        (["O", "I-LOC"], ["I-LOC", "I-LOC"]),
        (["O", "LOC"], ["LOC", "LOC"]),
        (["O"], ["LOC", "LOC"]),
    ):
        assert carried_over(spans, onto, Style.of(names)).labels == wanted
    word = characters(["New", "York"], ["B-WORD", "I-WORD"])
    assert carried_over(word, onto, Style.of(["B", "M", "E", "S"])).labels == ["B", "E"]


def test_a_span_within_a_token_covers_it() -> None:
    onto = Example({"word": ["U.S.", "left", "."]})
    spans = Example({"word": list("U.S.left.")}, ["B-LOC", "I-LOC", "I-LOC", "O", "O", "O", "B-X", "O", "O"])
    assert carried_over(spans, onto, Style("BIO")).labels == ["B-LOC", "B-X", "O"]
    assert carried_over(Example({"word": list("U.S.left.")}), onto, Style("BIO")).labels is None
    with pytest.raises(FileError, match="another text than"):
        carried_over(Example({"word": list("U.S.lost.")}, ["O"] * 9), onto, Style("BIO"))
