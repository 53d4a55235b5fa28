"""Entities as `transformers.TokenClassificationPipeline` returns them: the same keys, words, offsets and scores.

Three things differ: labels of BIOES and BMES are grouped by their scheme, names with a hyphen stay whole
("container-title" is not "title"), and so do words that the caller passes.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.integrations.logits import Array, Tokens
from bridle.labels import Labels

Entity = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Groups:
    """Grouping of neighbouring labels into entities."""

    names: list[str]  # (m)    name of the entity, by label
    kinds: Array  # (m,)   labels of one kind can form one entity
    opens: Array  # (m,)   always begins an entity
    closes: Array  # (m,)  always ends one

    @classmethod
    def of(cls, labels: Labels) -> Groups:
        """Group by the scheme if it is BIOES or BMES, and otherwise by B- and I-, as transformers does."""
        if labels.scheme in ("BIOES", "BMES"):
            return cls(list(labels.type_of), np.array(labels.kinds), np.array(labels.first), np.array(labels.last))
        names = [name[2:] if name.startswith(("B-", "I-")) else name for name in labels]
        number = {name: k for k, name in enumerate(names)}
        opens = np.array([name.startswith("B-") for name in labels])
        return cls(names, np.array([number[name] for name in names]), opens, np.zeros(len(names), dtype=bool))

    def begins(self, ids: Array) -> list[int]:
        """Return the starts of entities, and of runs of the outside label, in a labelling that is not empty."""
        before, after = ids[:-1], ids[1:]
        new = (self.kinds[after] != self.kinds[before]) | self.opens[after] | self.closes[before]
        return [0, *(np.flatnonzero(new) + 1).tolist()]


@dataclass(frozen=True, eq=False)
class Document:
    """A text and its tokens."""

    text: str
    tokens: Tokens
    tokenizer: Any
    word_offsets: Array | None = None  # (k, 2)  start and end of the words that the caller passed

    @cached_property
    def names(self) -> list[str]:
        """The tokens as in the vocabulary."""
        names: list[str] = self.tokenizer.convert_ids_to_tokens(self.tokens.ids.tolist())
        return names

    @cached_property
    def offsets(self) -> tuple[list[int | None], list[int | None]]:
        """Starts and ends of the tokens in the text; None for slow tokenizers."""
        if self.tokens.offsets is None:
            return [None] * len(self.tokens.ids), [None] * len(self.tokens.ids)
        start, end = self.tokens.offsets.T
        return start.tolist(), end.tolist()

    @cached_property
    def pieces(self) -> list[str]:
        """The tokens as in the vocabulary, but unknown ones as in the text."""
        unknown = self.tokenizer.unk_token_id
        if unknown is None or self.tokens.offsets is None:
            return self.names
        pieces = self.names.copy()
        for t in np.flatnonzero(self.tokens.ids == unknown).tolist():
            pieces[t] = self.text[self.offsets[0][t] : self.offsets[1][t]]
        return pieces

    def word_starts(self) -> npt.NDArray[np.intp]:
        """Return the first token of each word: of the words of the caller, or as transformers splits the text."""
        if self.tokens.words is not None:
            return np.flatnonzero(np.diff(self.tokens.words, prepend=-2))
        continues = self._continuing()
        continues[self.tokens.ids == self.tokenizer.unk_token_id] = False
        continues[0] = False
        return np.flatnonzero(~continues)

    @cached_property
    def kept(self) -> range:
        """Words of the caller that are not cut off. Some may have no tokens, such as the empty string."""
        assert self.tokens.words is not None and self.word_offsets is not None, "the caller passed words"
        low, high = int(self.tokens.words[0]), int(self.tokens.words[-1]) + 1
        while low > 0 and self._has_no_tokens(low - 1):
            low -= 1
        while high < len(self.word_offsets) and self._has_no_tokens(high):
            high += 1
        return range(low, high)

    def _has_no_tokens(self, word: int) -> bool:
        assert self.word_offsets is not None, "the caller passed words"
        start, end = self.word_offsets[word].tolist()
        options = {"is_split_into_words": True, "add_special_tokens": False, "return_special_tokens_mask": True}
        return all(self.tokenizer([self.text[start:end]], **options)["special_tokens_mask"])

    def places(self, first: Array | None) -> Array | None:
        """Return the positions of the words that have tokens; None if all have."""
        if first is None or self.tokens.words is None or len(first) == len(self.kept):
            return None
        return np.asarray(self.tokens.words[first] - self.kept.start)

    def _continuing(self) -> npt.NDArray[np.bool_]:
        """Return which tokens continue a word. Tokenizers with a prefix for these write them longer than the text."""
        start, end = self.spans(None)
        backend = getattr(self.tokenizer, "_tokenizer", None)
        if backend is not None and getattr(backend.model, "continuing_subword_prefix", None):
            return np.asarray(np.fromiter(map(len, self.names), np.int64, len(start)) != end - start)
        warnings.warn(
            "The tokenizer does not mark sub-words, so words are split at spaces. "
            "If you have the words, pass them with is_split_into_words=True.",
            UserWarning,
            stacklevel=2,
        )
        space = np.array([*(letter == " " for letter in self.text), False])
        return np.asarray((start > 0) & ~space[start - 1] & ~space[start])

    def spans(self, first: Array | None) -> tuple[Array, Array]:
        """Return starts and ends of words in the text, or of tokens if `first` is None."""
        if first is not None and self.word_offsets is not None:
            words = self.word_offsets[self.kept.start : self.kept.stop]
            return words[:, 0], words[:, 1]
        assert self.tokens.offsets is not None, "the pipeline rejects tokenizers without offsets"
        start, end = self.tokens.offsets.T
        return (start, end) if first is None else (start[first], end[np.append(first[1:], len(end)) - 1])

    def texts(self, first: Array | None) -> list[str]:
        """Return the text of each word or token, without the spaces that some tokenizers include."""
        start, end = self.spans(first)
        return [self.text[a:b].strip() for a, b in zip(start.tolist(), end.tolist(), strict=True)]

    def matches(self, pattern: Any, first: Array | None) -> list[range]:
        """Return the words or tokens that overlap with each match of a compiled expression that is not empty."""
        start, end = self.spans(first)
        spans = [match.span() for match in pattern.finditer(self.text) if match.end() > match.start()]
        bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
        low, high = np.searchsorted(end, bounds[:, 0], side="right"), np.searchsorted(start, bounds[:, 1])
        return [range(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def token_entities(
    document: Document, labels: Labels, ids: Array, scores: Array, ignored: Collection[str]
) -> list[Entity]:
    """Return an entity for each token whose label is not ignored (``aggregation_strategy="none"``)."""
    shown = np.array([name not in ignored for name in labels.names])
    start, end = document.offsets
    return [
        {
            "entity": labels.names[ids[t]],
            "score": scores[t],
            "index": int(document.tokens.index[t]),
            "word": document.pieces[t],
            "start": start[t],
            "end": end[t],
        }
        for t in np.flatnonzero(shown[ids]).tolist()
    ]


def group_entities(
    document: Document, groups: Groups, ids: Array, scores: Array, ignored: Collection[str], first: Array | None
) -> list[Entity]:
    """Return an entity for each group of words, or of tokens if `first` is None, whose name is not ignored."""
    string = document.tokenizer.convert_tokens_to_string
    cuts = list(range(len(ids) + 1)) if first is None else [*first.tolist(), len(document.tokens.ids)]
    (start, end), entities = document.offsets, []
    for a, b in pairwise([*groups.begins(ids), len(ids)]):
        name = groups.names[ids[a]]
        if name in ignored:
            continue
        if first is None:
            words = document.pieces[a:b]
        else:
            words = [string(document.pieces[i:j]) for i, j in pairwise(cuts[a : b + 1])]
        entities.append(
            {
                "entity_group": name,
                "score": scores[a] if b == a + 1 else scores[a:b].mean(),
                "word": string(words),
                "start": start[cuts[a]],
                "end": end[cuts[b] - 1],
            }
        )
    return entities
