"""How text is split for a model: as its notes about the training data say, or as the tokens that it knows suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bridle.data.base import format_named
from bridle.data.tokenizer import TOKENS, Tokens, tokens_of

_MARKS = [",", ".", ";", ":", "(", ")", "?", "!"]
_MOST_JOINED = 0.01  # share of tokens that end in a comma, in data where marks are tokens of their own


class Vocabulary(Protocol):
    """The tokens of the training data, each once."""

    def find(self, texts: Sequence[str], /) -> Any:
        """A number for each text, which is negative if it is not there."""

    def texts(self) -> list[str]:
        """All of them."""


def tokens_noted(notes: Mapping[str, Any], vocabulary: Vocabulary) -> Tokens:
    """How the training data was split into tokens.

    notes: of a model (`Tagger.notes_`).   vocabulary: its tokens, for training data that consisted of tokens.
    """
    return _said(notes) or tokens_seen(vocabulary)


def _said(notes: Mapping[str, Any]) -> Tokens | None:
    noted = notes.get("reader", {})
    options = dict(noted.get("options") or {}) if isinstance(noted, Mapping) else {}
    format = noted.get("format") if isinstance(noted, Mapping) else None
    if format == "segmented":
        return "characters"
    default = None
    if isinstance(format, str) and (made := format_named(format, {})).cuts:
        default = vars(made)["tokens"]
    how = options.get("tokens", default)
    return how if how in TOKENS else None


def tokens_seen(vocabulary: Vocabulary) -> Tokens:
    """How text that has such tokens was split.

    blanks         no marks are tokens of their own, or some are, but many words have a comma at the end
    references     marks are tokens, and most tokens that end in a dot are initials or abbreviations as in references
    punctuation    otherwise
    """
    if not any(number >= 0 for number in vocabulary.find(_MARKS)):
        return "blanks"
    texts = vocabulary.texts()
    if sum(len(text) > 1 and text[-1] == "," for text in texts) > _MOST_JOINED * len(texts):
        return "blanks"
    dotted = [text for text in texts if len(text) > 1 and text[-1] == "." and text[-2] != "."]
    kept = sum(tokens_of(text, "references") == [text] for text in dotted)
    return "references" if 2 * kept > len(dotted) else "punctuation"
