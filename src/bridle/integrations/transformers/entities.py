"""Entities as `transformers.TokenClassificationPipeline` returns them: the same keys, words, offsets and scores.

Its rules without its loops over tokens. Two things differ where it knows less: labels of BIOES and BMES are grouped by
their scheme, and words that were given stay whole.
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

from bridle.integrations.logits.subwords import Array
from bridle.integrations.logits.windows import Tokens
from bridle.labels import Labels

Entity = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Groups:
    """Which neighbouring labels make one entity, and what it is called."""

    names: list[str]  # of the entity, by label
    kinds: Array  # (m,)   labels of one kind may stand in one entity
    opens: Array  # (m,)   begins an entity in any case
    closes: Array  # (m,)  ends one in any case

    @classmethod
    def of(cls, labels: Labels) -> Groups:
        """By the scheme if that is BIOES or BMES; otherwise as the pipeline of transformers does, by B- and I-."""
        names = [name.split("-", 1)[-1] if "-" in name else labels.type_of[y] for y, name in enumerate(labels)]
        if labels.scheme in ("BIOES", "BMES"):
            return cls(names, np.array(labels.kinds), np.array(labels.first), np.array(labels.last))
        tags = [name[2:] if name.startswith(("B-", "I-")) else name for name in labels]
        number = {tag: k for k, tag in enumerate(tags)}
        opens = np.array([name.startswith("B-") for name in labels])
        return cls(names, np.array([number[tag] for tag in tags]), opens, np.zeros(len(names), dtype=bool))

    def begins(self, ids: Array) -> list[int]:
        """Where entities begin in a labelling that is not empty; the outside label makes some too."""
        before, own = ids[:-1], ids[1:]
        new = (self.kinds[own] != self.kinds[before]) | self.opens[own] | self.closes[before]
        return [0, *(np.flatnonzero(new) + 1).tolist()]


@dataclass(frozen=True, eq=False)
class Document:
    """A text and its tokens."""

    text: str
    tokens: Tokens
    tokenizer: Any
    given: Array | None = None  # (k, 2)  where the words that were given begin and end in the text

    @cached_property
    def names(self) -> list[str]:
        """The tokens as the vocabulary writes them."""
        names: list[str] = self.tokenizer.convert_ids_to_tokens(self.tokens.ids.tolist())
        return names

    @cached_property
    def offsets(self) -> tuple[list[int | None], list[int | None]]:
        """Where the tokens begin, and where they end in the text; None for tokenizers that do not tell."""
        if self.tokens.offsets is None:
            return [None] * len(self.tokens.ids), [None] * len(self.tokens.ids)
        start, end = self.tokens.offsets.T
        return start.tolist(), end.tolist()

    @cached_property
    def pieces(self) -> list[str]:
        """The tokens as the vocabulary writes them, but unknown ones as the text does."""
        unknown = self.tokenizer.unk_token_id
        if unknown is None or self.tokens.offsets is None:
            return self.names
        found = self.names.copy()
        for t in np.flatnonzero(self.tokens.ids == unknown).tolist():
            found[t] = self.text[self.offsets[0][t] : self.offsets[1][t]]
        return found

    def word_starts(self) -> npt.NDArray[np.intp]:
        """The first token of each word: of the words that were given, or as the pipeline of transformers tells them."""
        if self.tokens.words is not None:
            return np.flatnonzero(np.diff(self.tokens.words, prepend=-2))
        goes_on = self._goes_on()
        goes_on[self.tokens.ids == self.tokenizer.unk_token_id] = False
        goes_on[0] = False
        return np.flatnonzero(~goes_on)

    @cached_property
    def kept(self) -> range:
        """Which of the words that were given are not cut off. Some of them may have no tokens, as "" has none."""
        assert self.tokens.words is not None and self.given is not None, "words were given"
        low, high = int(self.tokens.words[0]), int(self.tokens.words[-1]) + 1
        while low > 0 and self._has_no_tokens(low - 1):
            low -= 1
        while high < len(self.given) and self._has_no_tokens(high):
            high += 1
        return range(low, high)

    def _has_no_tokens(self, word: int) -> bool:
        assert self.given is not None, "words were given"
        start, end = self.given[word].tolist()
        options = {"is_split_into_words": True, "add_special_tokens": False, "return_special_tokens_mask": True}
        return all(self.tokenizer([self.text[start:end]], **options)["special_tokens_mask"])

    def places(self, first: Array | None) -> Array | None:
        """The positions of the words that have tokens, if some of the given words have none."""
        if first is None or self.tokens.words is None or len(first) == len(self.kept):
            return None
        return np.asarray(self.tokens.words[first] - self.kept.start)

    def _goes_on(self) -> npt.NDArray[np.bool_]:
        """Which tokens go on a word. A tokenizer with a prefix for these writes them longer than the text does."""
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
        """Where words begin and end in the text, or tokens if `first` is None."""
        if first is not None and self.given is not None:
            words = self.given[self.kept.start : self.kept.stop]
            return words[:, 0], words[:, 1]
        assert self.tokens.offsets is not None, "the pipeline has refused such a tokenizer"
        start, end = self.tokens.offsets.T
        return (start, end) if first is None else (start[first], end[np.append(first[1:], len(end)) - 1])

    def texts(self, first: Array | None) -> list[str]:
        """What the text has for each word or token; no spaces around it, which some tokenizers count to the word."""
        start, end = self.spans(first)
        return [self.text[a:b].strip() for a, b in zip(start.tolist(), end.tolist(), strict=True)]

    def matches(self, pattern: Any, first: Array | None) -> list[range]:
        """The words or tokens that have a part in each match of a compiled expression; empty matches are none."""
        start, end = self.spans(first)
        spans = [match.span() for match in pattern.finditer(self.text) if match.end() > match.start()]
        found = np.array(spans, dtype=np.int64).reshape(-1, 2)
        low, high = np.searchsorted(end, found[:, 0], side="right"), np.searchsorted(start, found[:, 1])
        return [range(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def of_tokens(document: Document, labels: Labels, ids: Array, scores: Array, ignored: Collection[str]) -> list[Entity]:
    """One entity for each token whose label is not ignored (``aggregation_strategy="none"``)."""
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


def of_groups(
    document: Document, groups: Groups, ids: Array, scores: Array, ignored: Collection[str], first: Array | None
) -> list[Entity]:
    """One entity for each group of words, or of tokens if `first` is None, whose name is not ignored."""
    string = document.tokenizer.convert_tokens_to_string
    cuts = list(range(len(ids) + 1)) if first is None else [*first.tolist(), len(document.tokens.ids)]
    (start, end), made = document.offsets, []
    for a, b in pairwise([*groups.begins(ids), len(ids)]):
        name = groups.names[ids[a]]
        if name in ignored:
            continue
        if first is None:
            words = document.pieces[a:b]
        else:
            words = [string(document.pieces[i:j]) for i, j in pairwise(cuts[a : b + 1])]
        made.append(
            {
                "entity_group": name,
                "score": scores[a] if b == a + 1 else scores[a:b].mean(),
                "word": string(words),
                "start": start[cuts[a]],
                "end": end[cuts[b] - 1],
            }
        )
    return made
