"""Text is split for a model by its notes or by its tokens."""

from __future__ import annotations

from typing import Any

import pytest

from bridle.data import references
from bridle.data.tokenizer import tokens_noted, tokens_of, tokens_seen
from bridle.features.columns import Interned


def interned(texts: list[str]) -> Interned:
    built = Interned()
    built.add(texts)
    return built


@pytest.mark.parametrize(
    ("tokens", "how"),
    [
        ("to Bonn", "blanks"),
        ("Knuth, D. The TeXbook. 1984.", "blanks"),
        ("Knuth, D. The , TeXbook . 1984.", "blanks"),  # a stray blank
        ("Knuth , Donald The TeXbook .", "punctuation"),
        ("Knuth , D . The TeXbook ; 1984", "punctuation"),
        ("Mr. Smith of IBM Corp. , and Mrs. Jones ... .", "punctuation"),
        ("Knuth , D. E. The TeXbook . 1984 .", "references"),
        ("Knuth , D. et al. Foo St. : TeX", "references"),
    ],
)
def test_tokens_say_how_text_was_split(tokens: str, how: str) -> None:
    assert tokens_seen(interned(tokens.split())) == how


@pytest.mark.parametrize("how", ["blanks", "punctuation", "references"])
def test_whole_corpora(how: Any) -> None:
    texts = [references.cite(work, references.STYLES[0]).text for work in references.split(100)[0]]
    assert tokens_seen(interned([token for text in texts for token in tokens_of(text, how)])) == how


@pytest.mark.parametrize(
    ("reader", "how"),
    [
        ({"format": "text", "options": {"tokens": "words"}}, "words"),
        ({"format": "text", "options": {}}, "blanks"),
        ({"format": "spans"}, "punctuation"),
        ({"format": "segmented"}, "characters"),
        ({"format": "conll", "options": {"columns": ["word", "label"]}}, "references"),
        ({"format": "text", "options": {"tokens": "unheard of"}}, "references"),
        ({}, "references"),
        (None, "references"),
    ],
)
def test_notes_come_first(reader: Any, how: str) -> None:
    assert tokens_noted({"reader": reader}, interned(["Knuth", ",", "D."])) == how
