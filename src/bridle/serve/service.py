"""Service: a model, its rule sets and their decoders, independent of HTTP. All methods may be called from any thread.

Rules in requests read no file, and their regular expressions are RE2's, which take linear time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from threading import local
from typing import Any, Literal

from bridle.data import Example, references
from bridle.data.tokenizer import Tokens, tokenize, tokens_noted, tokens_of
from bridle.deadline import check_stopped
from bridle.decoding.decoder import Decoder
from bridle.demo import SEEN, UNSEEN, WORKS
from bridle.errors import BridleError, RuleError
from bridle.features import TemplateFeatures
from bridle.labels import Labels
from bridle.models import CRF, Tagger
from bridle.models.checks import templates_of
from bridle.recent import RecentCache
from bridle.rules.base import Rule
from bridle.rules.boolean import leaves
from bridle.rules.conditions import TokenPlace, parts_of
from bridle.rules.conditions import Tokens as TokenPattern
from bridle.rules.equal import EqualPlace
from bridle.rules.lint import unknown_labels
from bridle.rules.loading import Line, Loaded, read_files, read_lines
from bridle.serve.errors import HttpError, too_large
from bridle.serve.limits import Limits
from bridle.serve.schemas import ModelAnswer
from bridle.serve.workspace import Workspace
from bridle.tagging.labelling import ModelColumns

NO_RULES = "none"  # name of the rule set without rules
_MAX_TEXTS, _MAX_TEXT_BYTES = 256, 1 << 24  # parsed rule texts of requests that are kept
_MAX_DECODERS, _DECODER_BYTES = 64, 1 << 20  # least size of a decoder: what Python holds
_MOST_JUDGED, _SHOWN_TOKENS = 1000, range(12, 45)  # sequences among which the first one is chosen; its tokens
_SAMPLE_TEXTS = 12  # texts that the explorer offers at its start
_EMBEDDED_WORKS = 150  # works of the embedded sample, each in all styles that the model has not seen


@dataclass(frozen=True, eq=False)
class RuleText:
    """Rules and the text that they come from. Caches identify it by `id`, so two are never equal."""

    text: str
    loaded: Loaded
    trusted: bool = False  # True for rules of the server, False for rules of a request

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order of their lines."""
        return tuple(line.rule for line in self.loaded.lines)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The rules as text."""
        return tuple(map(str, self.rules))

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of the rules, whatever their comments and layout."""
        return hashlib.sha256("\n".join(self.sentences).encode()).hexdigest()[:16]

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """The line of each rule."""
        return tuple(line.number for line in self.loaded.lines)

    @cached_property
    def index(self) -> dict[int, int]:
        """Position of each rule by its `id`; results of the library refer to the same objects."""
        return {id(rule): k for k, rule in enumerate(self.rules)}

    def line_of(self, rule: object) -> int | None:
        """Return the line of a rule object that the library returned."""
        k = self.index.get(id(rule))
        return None if k is None else self.lines[k]

    @classmethod
    def from_files(cls, paths: Sequence[Path], labels: Labels) -> RuleText:
        """Read rules of the server. Files that include others become one text, which the explorer can edit."""
        loaded = read_files(paths)
        lines = loaded.check()
        check_labels(lines, labels)
        if loaded.again:
            file, number, message = loaded.again[0]
            raise RuleError(message, where=f"{file}:{number}" if number else file, wanted="each file once")
        text = "\n".join("\n".join(part) for part in loaded.texts.values())
        if len(loaded.texts) > 1 or loaded.includes:
            text = "".join(f"{line.rule}{f'  # {line.comment}' if line.comment else ''}\n" for line in lines)
        return cls(text, loaded, trusted=True)

    @classmethod
    def from_text(cls, text: str, labels: Labels) -> RuleText:
        """Parse rules of the server."""
        loaded = read_lines(split_lines(text))
        check_labels(loaded.check(), labels)
        return cls(text, loaded, trusted=True)


class RuleBook:
    """Rule sets of a server by name, and a cache of the rule texts of recent requests."""

    def __init__(self, labels: Labels, limits: Limits, sets: Mapping[str, RuleText], default: RuleText) -> None:
        self.labels, self.limits, self.default = labels, limits, default
        self.sets = {**sets, NO_RULES: RuleText("", Loaded(), trusted=True)}
        self._recent = RecentCache(_MAX_TEXTS, _MAX_TEXT_BYTES)

    def find(self, rules: object, rule_set: str | None) -> RuleText | None:
        """Return the rules of the server that a request refers to; None if the request contains its own."""
        if rules is not None and rule_set is not None:
            what, wanted = "`rules` and `rule_set` cannot be combined", "`rules` or `rule_set`"
            raise HttpError(422, "rules", what, got="both", wanted=wanted)
        if rule_set is not None:
            if rule_set not in self.sets:
                wanted = "one of " + ", ".join(map(repr, sorted(self.sets)))
                raise HttpError(404, "unknown-rule-set", "unknown rule set", got=repr(rule_set), wanted=wanted)
            return self.sets[rule_set]
        return self.default if rules is None or rules == self.default.text else None

    def read(self, rules: str | Sequence[str] | None, rule_set: str | None = None) -> RuleText:
        """Return the rules that apply to a request, checked against the labels of the model."""
        return self.find(rules, rule_set) or self.parse(rules or "", self.labels)

    def parse(self, rules: str | Sequence[str], labels: Labels) -> RuleText:
        """Parse rules of a request, for any labels."""
        text = rules if isinstance(rules, str) else "\n".join(rules)
        key = (rules if isinstance(rules, str) else tuple(rules), labels)
        rule_text: RuleText | None = self._recent.get(key)
        if rule_text is None:
            self.limits.check_rule_characters(len(text))
            lines = split_lines(text) if isinstance(rules, str) else _checked_list(rules)
            rule_text = RuleText(text, self._parse_lines(lines, labels))
            label_size = 0 if labels is self.labels else estimate_bytes(labels)
            self._recent.keep(key, rule_text, 1000 + 10 * len(text) + label_size)
        return rule_text

    def load(self, text: str) -> Loaded:
        """Parse a text, collecting its errors."""
        self.limits.check_rule_characters(len(text))
        lines = split_lines(text)
        self.limits.check_rules(lines)
        return read_lines(lines)

    def _parse_lines(self, lines: Sequence[str], labels: Labels) -> Loaded:
        self.limits.check_rules(lines)
        loaded = read_lines(lines)
        checked = loaded.check(examples="skip")
        check_labels(checked, labels)
        for line in checked:
            if (error := self.refuse(line)) is not None:
                raise error
        return loaded

    def refuse(self, line: Line) -> HttpError | None:
        """Return an error if a valid rule is not allowed in requests."""
        place: dict[str, Any] = {"rule": str(line.rule), "where": line.where, "line": line.number}
        if is_backtracking(line.rule):
            what = "regular expressions by re are not allowed here"
            wanted = "an expression without 'by re', which RE2 matches in linear time"
            return HttpError(422, "backtracking", what, got=str(line.rule), wanted=wanted, **place)
        if (parts := len(leaves(line.rule))) > self.limits.rule_parts:
            return too_large("rule_parts", "the rule has too many parts", parts, self.limits.rule_parts, **place)
        return None


def estimate_bytes(labels: Labels) -> int:
    """Estimate the memory that labels of a request take."""
    return sum(100 + 2 * len(name) for name in labels.names)


def _checked_list(rules: Sequence[str]) -> list[str]:
    """Return the rules of a list; raise `HttpError` if an element has several lines."""
    for k, rule in enumerate(rules):
        if "\n" in rule or "\r" in rule:
            what = "a rule of the list has several lines"
            wanted = "one rule in each element, or the text of a .rules file instead of a list"
            raise HttpError(422, "rules", what, got=repr(rule[:60]), wanted=wanted, line=k + 1)
    return list(rules)


def split_lines(text: str) -> list[str]:
    """Split a text into lines as .rules files are split."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def check_labels(lines: Iterable[Line], labels: Labels) -> None:
    """Raise `HttpError` if a rule names an unknown label."""
    for unknown in unknown_labels(lines, labels):
        line, wanted = unknown.line, "a label or a segment type of the model"
        place: dict[str, Any] = {"rule": str(line.rule), "where": line.where, "line": line.number}
        raise HttpError(422, "unknown-label", unknown.message, got=repr(unknown.name), wanted=wanted, **place)


def is_backtracking(rule: Rule) -> bool:
    """Return True if a rule uses an expression of Python's re, whose running time is unbounded."""
    sources = [place.equal.pattern if isinstance(place, EqualPlace) else place.source for place in rule.places()]
    parts = (part for source in sources if isinstance(source, TokenPlace) for part in parts_of(source).values())
    return any(isinstance(part, TokenPattern) and part.engine == "re" for part in parts)


# ---- the service ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Service:
    """A model with its rules, ready to answer requests.

    Parameters
    ----------
    tagger : Tagger
        The model. It must have templates, because requests contain text.
    name : str
        Name of the model.
    default : RuleText, optional
        Rules of requests that name no others; by default none.
    sets : mapping of str to RuleText, optional
        Further rules by name.
    limits : Limits, optional
        Limits of requests.
    sample : sequence of Example, optional
        Sequences that the explorer shows.
    threads : int, default 0
        Batches that are decoded at the same time; 0 means one per core.
    split_as : {"blanks", "words", "punctuation", "references", "characters"}, optional
        How texts are split into tokens. By default, as the training data was split.
    sample_name : str, optional
        Name of the sample, such as that of its file.
    workspace : Workspace, optional
        Files that the explorer may write; without it, it cannot save rules, open models, or learn.
    """

    tagger: Tagger
    name: str = "model"
    default: RuleText = field(default_factory=lambda: RuleText("", Loaded(), trusted=True))
    sets: Mapping[str, RuleText] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    sample: Sequence[Example] = ()
    threads: int = 0
    split_as: Tokens | None = None
    sample_name: str = ""
    workspace: Workspace | None = None
    _decoders: RecentCache = field(init=False, repr=False)
    _used: local = field(default_factory=local, repr=False)  # keys of the decoders that a thread uses

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoders", RecentCache(_MAX_DECODERS, self.limits.compiled_bytes))
        _ = self.features  # raises at once if the model cannot read text

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
        """The fingerprint of the model."""
        return self.tagger.fingerprint_

    @cached_property
    def book(self) -> RuleBook:
        """The rule sets."""
        return RuleBook(self.labels, self.limits, self.sets, self.default)

    @cached_property
    def main(self) -> str:
        """The column that contains the texts of the tokens."""
        return ModelColumns.of(self.tagger).first

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model reads, the main one first."""
        return ModelColumns.of(self.tagger).needed or (self.main,)

    @property
    def takes_text(self) -> bool:
        """True if the model needs no column besides the tokens."""
        return len(self.columns) == 1

    @cached_property
    def tokens(self) -> Tokens:
        """Tokenization of texts."""
        return self.split_as or tokens_noted(self.tagger.notes_, self.features.vocabulary)

    @cached_property
    def span_labels(self) -> Labels:
        """The labels, with O never a segment."""
        return self.labels.span_labels

    def split(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """Split a text into tokens, with their start and end offsets."""
        check_stopped()
        tokens, starts = tokenize(text, self.tokens)
        return tokens, [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)]

    def split_all(self, texts: Sequence[str]) -> list[list[str]]:
        """Split texts into tokens, without offsets."""
        sequences, mode = list[list[str]](), self.tokens
        for text in texts:
            check_stopped()
            sequences.append(tokens_of(text, mode))
        return sequences

    def check_text(self) -> None:
        """Raise `HttpError` if the model needs more than a text."""
        if not self.takes_text:
            what, wanted = "the model needs more than a text", "`columns` with " + ", ".join(map(repr, self.columns))
            raise HttpError(422, "columns", what, got="text or tokens", wanted=wanted)

    def check_columns(self, sequences: Sequence[Mapping[str, Sequence[str]]]) -> None:
        """Raise `HttpError` if all sequences lack a column; if only some lack it, `tag` reports these one by one."""
        for name in self.columns:
            if sequences and not any(name in columns for columns in sequences):
                got = ", ".join(map(repr, sequences[0])) or "no columns"
                wanted = ", ".join(map(repr, self.columns))
                raise HttpError(422, "columns", f"the column {name!r} is missing", got=got, wanted=wanted, sequence=0)

    def check_sequence(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Raise `HttpError` if a sequence lacks a column, or its columns differ in length."""
        self.check_columns([columns])
        if len({len(column) for column in columns.values()}) > 1:
            got = ", ".join(f"{len(column)} in {name!r}" for name, column in columns.items())
            raise HttpError(422, "columns", "the columns differ in length", got=got, wanted="a text per token in each")

    def decoder(
        self, rules: RuleText, on_infeasible: Literal["relax", "skip"] = "relax", labels: Labels | None = None
    ) -> Decoder:
        """Return the decoder for some rules, compiled once."""
        key = (id(rules), on_infeasible, labels)
        entry: tuple[Decoder, RuleText] | None = self._decoders.get(key)
        if entry is None:  # two threads may both compile it: the second one wins, and nothing is lost
            decoder = Decoder(
                labels or self.labels,
                rules.rules,
                on_infeasible=on_infeasible,
                **self.limits.of_sequence,
            )
            entry = decoder, rules  # a reference to the rules keeps their id valid
            self._decoders.keep(key, entry, self._size_of(decoder))
        vars(self._used).setdefault("decoders", {})[key] = entry[0]
        return entry[0]

    def measure(self) -> None:
        """Measure the decoders that this thread has used: tables are made when scores come, and searches are kept."""
        used = vars(self._used).get("decoders", {})
        while used:
            key, decoder = used.popitem()
            self._decoders.resize(key, self._size_of(decoder))

    def _size_of(self, decoder: Decoder) -> int:
        own = 0 if decoder.labels is self.labels else decoder.labels.n_bytes + estimate_bytes(decoder.labels)
        return _DECODER_BYTES + decoder.compiled.n_bytes + own

    def describe(self) -> ModelAnswer:
        """Return the answer of GET /model."""
        from bridle import __version__

        return ModelAnswer(
            name=self.name,
            version=__version__,
            fingerprint=self.fingerprint,
            labels=list(self.labels.names),
            scheme=self.labels.scheme,
            types=sorted(self.span_labels.types),
            columns=list(self.columns),
            takes_text=self.takes_text,
            tokens=self.tokens,
            rules=self.default.text,
            rule_sets=sorted(self.book.sets),
            sample_texts=self.sample_texts,
            sample=bool(self.sample),
            sample_name=self.sample_name,
            first=self.first,
            workspace=self.workspace is not None,
            rules_file=None if self.workspace is None or self.workspace.rules is None else self.workspace.rules.name,
            limits=self.limits.to_dict(),
        )

    @cached_property
    def first(self) -> int:
        """The sequence of the sample that shows best what rules do: most tokens become right, and none stays wrong."""
        sample = self.sample[:_MOST_JUDGED]
        if not self.default.rules or not any(example.labels for example in sample):
            return 0
        columns = [dict(example.columns) for example in sample]
        try:
            plain = self.tagger.decode(columns, self.decoder(self.book.sets[NO_RULES]))
            ruled = self.tagger.decode(columns, self.decoder(self.default))
        except BridleError:  # rules that need further values
            return 0
        best = (0, 0)
        for k, example in enumerate(sample):
            gold, before, after = list(example.labels or ()), plain[k].labels, ruled[k].labels
            if gold == after and len(gold) in _SHOWN_TOKENS:
                best = max(best, (sum(y != z for y, z in zip(gold, before, strict=True)), -k))
        return -best[1]

    @cached_property
    def sample_texts(self) -> list[str]:
        """A few texts, spread over the sample."""
        step = max(1, len(self.sample) // _SAMPLE_TEXTS)
        chosen = self.sample[::step][:_SAMPLE_TEXTS] if self.takes_text else []
        return [example.text if example.text is not None else " ".join(example.tokens) for example in chosen]


# ---- the embedded references ----------------------------------------------------------------------------------------


def embedded_model() -> Tagger:
    """Train a small CRF on references in two styles, in a fraction of a second."""
    known, _ = references.split(WORKS)
    train = references.references(*SEEN, of=known)
    model = CRF(features="fields", c2=0.1)
    model.fit([dict(example.columns) for example in train], [example.known_labels for example in train])
    model.notes_ = {"reader": {"format": "text", "options": {"tokens": "references"}}}
    return model


def embedded_rules() -> str:
    """Return the rules for references."""
    return (files("bridle.demo") / "references.rules").read_text(encoding="utf-8")


def embedded_sample() -> list[Example]:
    """Return references to other works in all styles that the model has not seen; neighbours differ in style."""
    _, unknown = references.split(WORKS)
    turns, works = range(len(UNSEEN)), unknown[:_EMBEDDED_WORKS]
    styles = [(work, UNSEEN[(k + turn) % len(UNSEEN)]) for turn in turns for k, work in enumerate(works)]
    return [_as_example(references.cite(work, style)) for work, style in styles]


def _as_example(reference: references.Reference) -> Example:
    tokens, starts = tokenize(reference.text, "references")
    columns, labels = {"word": list(reference.tokens)}, list(reference.labels)
    key = f"{reference.key}/{reference.style}"
    if tuple(tokens) != reference.tokens:  # the tokenizer splits the text elsewhere than the borders of its fields
        return Example(columns, labels, id=key)
    return Example(columns, labels, id=key, text=reference.text, starts=list(starts))
