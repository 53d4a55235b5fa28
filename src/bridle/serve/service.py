"""Service: a model, rule sets and decoders, free of HTTP. Everything here may be called from any thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from bridle.data import Example
from bridle.data.noted import tokens_noted
from bridle.data.tokenizer import Tokens, tokenize, tokens_of
from bridle.deadline import check_stopped
from bridle.decoding.decoder import Decoder
from bridle.features import TemplateFeatures
from bridle.labels import Labels
from bridle.models import Tagger
from bridle.models.checks import templates_of
from bridle.recent import RecentCache
from bridle.rules.loading import Loaded
from bridle.serve.limits import Limits
from bridle.serve.problems import HttpError
from bridle.serve.rulebook import RuleBook, RuleText, label_bytes

SHARE = 0.2  # of the time of a request that a single sequence may take
_MOST_DECODERS, _DECODER_BYTES = 64, 1 << 20
_LONGEST_SAMPLE = 12  # texts that a page offers to begin with


@dataclass(frozen=True, eq=False)
class Service:
    """A model with its rules, ready to answer.

    Parameters
    ----------
    tagger : Tagger
        The model. It must have templates: what comes in is text.
    name : str
        What the model is called.
    default : RuleText, optional
        The rules of requests that do not ask for others; by default there are none.
    sets : mapping of str to RuleText, optional
        Other rules by name.
    limits : Limits, optional
        What a request may ask for.
    sample : sequence of Example, optional
        Sequences that a page can show.
    threads : int, default 0
        Batches that are decoded at the same time; 0 means as many as there are cores.
    split_as : {"blanks", "words", "punctuation", "references", "characters"}, optional
        How texts are split into tokens. By default, as the training data was split.
    """

    tagger: Tagger
    name: str = "model"
    default: RuleText = field(default_factory=lambda: RuleText("", Loaded(), own=True))
    sets: Mapping[str, RuleText] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    sample: Sequence[Example] = ()
    threads: int = 0
    split_as: Tokens | None = None
    _decoders: RecentCache = field(default_factory=lambda: RecentCache(_MOST_DECODERS, 1 << 30), repr=False)

    def __post_init__(self) -> None:
        _ = self.features  # a model that cannot read text is an error now, not later

    @cached_property
    def features(self) -> TemplateFeatures:
        """The templates of the model."""
        return templates_of(self.tagger.features_)

    @property
    def labels(self) -> Labels:
        """The labels of the model."""
        return self.tagger.labels_

    @cached_property
    def fingerprint(self) -> str:
        """What distinguishes the model from others."""
        return self.tagger.fingerprint_

    @cached_property
    def book(self) -> RuleBook:
        """All rules."""
        return RuleBook(self.labels, self.limits, dict(self.sets), self.default)

    @cached_property
    def main(self) -> str:
        """The column that holds the texts of the tokens."""
        main, sources = self.features.templates.main, self.features.sources
        return main if main in sources or not sources else sources[0]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model reads, the main one first."""
        return tuple(dict.fromkeys([self.main, *self.features.sources]))

    @property
    def takes_text(self) -> bool:
        """Is a text enough, or does the model need other columns?"""
        return len(self.columns) == 1

    @cached_property
    def tokens(self) -> Tokens:
        """How text is split: as the training data was, unless something else was asked for."""
        return self.split_as or tokens_noted(self.tagger.notes_, self.features.vocabulary)

    @cached_property
    def span_labels(self) -> Labels:
        """The labels, such that O is never a segment."""
        return self.labels.span_labels

    # ---- sequences --------------------------------------------------------------------------------------------------

    def split(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """Tokens of a text, and where each begins and ends."""
        check_stopped()
        tokens, starts = tokenize(text, self.tokens)
        return tokens, [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)]

    def split_all(self, texts: Sequence[str]) -> list[list[str]]:
        """Tokens of texts, without their places."""
        out, how = list[list[str]](), self.tokens
        for text in texts:
            check_stopped()
            out.append(tokens_of(text, how))
        return out

    def check_text(self) -> None:
        """Raise if the model needs more than a text."""
        if not self.takes_text:
            raise HttpError(
                422,
                "columns",
                "the model needs more than a text",
                got="text or tokens",
                wanted="`columns` with " + ", ".join(map(repr, self.columns)),
            )

    def check_columns(self, sequences: Sequence[Mapping[str, Sequence[str]]]) -> None:
        """Raise if a column is missing in all sequences of a request; a sequence that lacks one is an error alone."""
        for name in self.columns:
            if sequences and not any(name in columns for columns in sequences):
                got = ", ".join(map(repr, sequences[0])) or "no columns"
                wanted = ", ".join(map(repr, self.columns))
                raise HttpError(422, "columns", f"the column {name!r} is missing", got=got, wanted=wanted, sequence=0)

    # ---- rules ------------------------------------------------------------------------------------------------------

    def decoder(
        self, rules: RuleText, on_infeasible: Literal["relax", "skip"] = "relax", labels: Labels | None = None
    ) -> Decoder:
        """A decoder for rules; the same one if it was made before."""
        key = (id(rules), on_infeasible, labels)
        found: tuple[Decoder, RuleText] | None = self._decoders.get(key)
        if found is None:  # two threads may both make it: the second one wins, and nothing is lost
            made = Decoder(
                labels or self.labels,
                rules.rules,
                time_limit=self.limits.seconds * SHARE,
                max_memory=self.limits.max_memory,
                on_infeasible=on_infeasible,
            )
            found = made, rules  # holds on to the rules, so that their id stays theirs
            self._decoders.keep(key, found, _DECODER_BYTES + (0 if labels is None else 50 * label_bytes(labels)))
        return found[0]

    def describe(self) -> dict[str, Any]:
        """What GET /model says."""
        from bridle import __version__

        limits = self.limits
        return {
            "name": self.name,
            "version": __version__,
            "fingerprint": self.fingerprint,
            "labels": list(self.labels.names),
            "scheme": self.labels.scheme,
            "types": sorted(self.span_labels.types),
            "columns": list(self.columns),
            "takes_text": self.takes_text,
            "tokens": self.tokens,
            "rules": self.default.text,
            "rule_sets": sorted(self.book.sets),
            "sample_texts": self.sample_texts,
            "sample": bool(self.sample),
            "limits": limits.to_dict(),
        }

    @cached_property
    def sample_texts(self) -> list[str]:
        """A few texts of the sample, spread over it."""
        step = max(1, len(self.sample) // _LONGEST_SAMPLE)
        some = self.sample[::step][:_LONGEST_SAMPLE] if self.takes_text else []
        return [example.text if example.text is not None else " ".join(example.tokens) for example in some]
