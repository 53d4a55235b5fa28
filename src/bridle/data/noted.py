"""What a model notes about its training data: how text was split into tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridle.data.base import format_named
from bridle.data.tokenizer import TOKENS, Tokens


def tokens_noted(notes: Mapping[str, Any]) -> Tokens:
    """How the training data was split, by the notes of a model (`Tagger.notes_`); at blanks if they do not say.

    >>> tokens_noted({"reader": {"format": "text", "options": {"tokens": "words"}}}), tokens_noted({})
    ('words', 'blanks')
    """
    noted = notes.get("reader", {})
    options = dict(noted.get("options") or {}) if isinstance(noted, Mapping) else {}
    format = noted.get("format") if isinstance(noted, Mapping) else None
    if format == "segmented":
        return "characters"
    default = "blanks"
    if isinstance(format, str) and (made := format_named(format, {})).cuts:
        default = vars(made)["tokens"]
    how = options.get("tokens", default)
    return how if how in TOKENS else "blanks"
