"""Tokens know their places, however a text is cut."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.data import Example
from bridle.data.references import tokenise
from bridle.data.tokenizer import TOKENS, Tokens, tokenize
from bridle.errors import FileError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)  # combining marks and astral planes too


@pytest.mark.parametrize("how", TOKENS)
@given(text=TEXTS)
def test_every_token_stands_where_it_should(how: Tokens, text: str) -> None:
    tokens, starts = tokenize(text, how)
    assert [text[start : start + len(token)] for token, start in zip(tokens, starts, strict=True)] == tokens
    assert Example({"word": tokens}, text=text, starts=starts).offsets == [
        (start, start + len(token)) for token, start in zip(tokens, starts, strict=True)
    ]
    if how in ("blanks", "punctuation", "references", "characters"):
        assert "".join(tokens) == "".join(text.split())  # nothing but white space is left out


def test_references_are_cut_as_those_that_come_with_bridle() -> None:
    text = "Knuth, D.E. et al. In: Proc. X, 3(4), pp. 1--10."
    assert tokenize(text, "references")[0] == tokenise(text)


def test_each_way_to_cut() -> None:
    text = "Dr. Lee's 1--10 café 😀e\u0301"
    assert {how: tokenize(text, how)[0] for how in TOKENS[:3]} == {
        "blanks": ["Dr.", "Lee's", "1--10", "café", "😀e\u0301"],
        "words": ["Dr", "Lee", "s", "1", "10", "café", "e\u0301"],
        "punctuation": ["Dr", ".", "Lee", "'", "s", "1", "-", "-", "10", "café", "😀", "e\u0301"],
    }
    assert len(tokenize(text, "characters")[0]) == len("".join(text.split()))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("हिन्दी भाषा में, 3", ["हिन्दी", "भाषा", "में", ",", "3"]),
        ("cafe\u0301 nai\u0308ve!", ["cafe\u0301", "nai\u0308ve", "!"]),
        ("வணக்கம் ශ්\u200dරී می\u200cخواهم", ["வணக்கம்", "ශ්\u200dරී", "می\u200cخواهم"]),
        ("Łódź, straße Ωμέγα_1", ["Łódź", ",", "straße", "Ωμέγα_1"]),
        ("上海浦东。ที่นี่ ひらがな", ["上海浦东", "。", "ที่นี่", "ひらがな"]),  # runs of letters stay whole
    ],
)
def test_marks_stay_with_their_letters(text: str, tokens: list[str]) -> None:
    assert tokenize(text)[0] == tokens
    assert tokenize(text, "words")[0] == [token for token in tokens if token not in ",!。"]


@given(text=st.text(st.characters(max_codepoint=0x7F)))
def test_ascii_is_cut_as_by_the_simple_pattern(text: str) -> None:
    """Also in a text that is not all ASCII."""
    plain = re.findall(r"\w+|[^\w\s]", text)
    assert tokenize(text)[0] == plain
    assert tokenize(text + " é")[0] == [*plain, "é"]


@pytest.mark.parametrize(
    ("text", "starts", "message"),
    [
        ("He left", None, "pass both `text` and `starts`, or neither; got no starts"),
        (None, [0, 3], "pass both `text` and `starts`, or neither; got no text"),
        ("He left", [0], "pass both `text` and `starts`, or neither; got 1 starts; wanted a text and 2 starts"),
        ("He left", [0, 2], "is not in the text at its offset; got 'left' at 2"),
        ("He left", [3, 0], "is not in the text at its offset; got 'He' at 3"),
        ("He left", [0, 3.0], "got 'left' at 3.0"),
        ("He left", [0, -4], "got 'left' at -4"),
    ],
)
def test_places_are_checked(text: Any, starts: Any, message: str) -> None:
    with pytest.raises(FileError, match=message):
        Example({"word": ["He", "left"]}, text=text, starts=starts)


def test_an_example_without_a_text_has_no_offsets() -> None:
    assert Example({"word": ["He"]}).offsets is None
