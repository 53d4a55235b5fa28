"""Uploaded data: parsed once, kept with its scores, and removed when other data needs the space."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from bridle.data import Example, Examples
from bridle.data.base import format_kind, format_named
from bridle.data.detection import format_guessed
from bridle.data.source import Source, TextSource
from bridle.deadline import check_stopped
from bridle.errors import BridleError, FileError
from bridle.recent import RecentCache
from bridle.serve.errors import HttpError
from bridle.serve.evaluation import EvaluateAnswer, GoldData, evaluate
from bridle.serve.schemas import Names, Request
from bridle.serve.service import RuleText, Service
from bridle.tagging.labelling import ModelColumns

SAMPLE = "sample"  # id of the data that the server was started with
# Formats that are text and a single file: others would open further files.
FORMATS = [
    "conll",
    "conllu",
    "csv",
    "doccano",
    "jsonl",
    "labelstudio",
    "parserator",
    "segmented",
    "segments",
    "slashed",
    "spans",
    "tagged",
    "text",
    "tsv",
]
_MAX_DATA_SETS = 64
_MAX_NAMED_LABELS = 10  # unknown labels that a warning names
_encode = msgspec.json.Encoder().encode


class DataRequest(Request, kw_only=True):
    """Text of a data file. Without `format`, the format is detected from the name and the first lines."""

    name: str
    text: str
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


class DataSequence(Struct):
    """A sequence; a missing label is null. `columns` is present if there are columns besides the tokens.

    `text` and `starts`, the characters at which tokens begin, are present if the data has texts.
    """

    id: str | None
    tokens: Names
    labels: list[str | None] | None
    columns: dict[str, Names] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    starts: list[int] | UnsetType = UNSET


class DataAnswer(Struct):
    """Sequences of the data; `id` identifies them in /evaluate."""

    id: str
    format: str
    has_gold: bool
    sequences: list[DataSequence]
    warnings: list[str]


@dataclass(eq=False)
class Data:
    """Sequences with their scores."""

    service: Service
    id: str
    format: str
    examples: Sequence[Example]
    warnings: list[str]
    fair: GoldData | None = None  # with scores of models that have not seen it, once they are known

    @property
    def has_gold(self) -> bool:
        """True if a sequence is labelled."""
        return any(example.labels is not None for example in self.examples)

    @cached_property
    def gold(self) -> GoldData:
        """Scores and gold labels, for `evaluate`."""
        columns = [dict(example.columns) for example in self.examples]
        given = [
            {**dict(example.given), **dict(example.columns), "tokens": list(example.tokens)}
            for example in self.examples
        ]
        gold = [list(example.labels or [None] * len(example)) for example in self.examples] if self.has_gold else None
        return GoldData(self.service.labels, self.service.tagger.lattices(columns), gold, given)

    @cached_property
    def answer(self) -> bytes:
        """Answer of POST /data."""
        sequences = [
            DataSequence(
                None if example.id is None else str(example.id),
                list(example.tokens),
                None if example.labels is None else list(example.labels),
                UNSET if len(example.columns) == 1 else self._columns(example),
                *(
                    (example.text, list(example.starts))
                    if example.text is not None and example.starts is not None
                    else ()
                ),
            )
            for example in self.examples
        ]
        return _encode(DataAnswer(self.id, self.format, self.has_gold, sequences, self.warnings))

    def _columns(self, example: Example) -> dict[str, list[str]]:
        """Return the columns of a sequence, the main one first; rules can refer to all of them."""
        names = dict.fromkeys([self.service.main, *example.columns])
        return {name: list(example.columns[name]) for name in names}


class DataCache:
    """Uploaded data by id, within a limit of memory."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._cache = RecentCache(_MAX_DATA_SETS, service.limits.data_bytes)
        self._sample = Data(service, SAMPLE, SAMPLE, service.sample, []) if service.sample else None

    def sample(self) -> Data:
        """Return the data that the server was started with."""
        if self._sample is None:
            wanted = "a server that was started with --data"
            raise HttpError(404, "unknown-data", "the server has no sample data", wanted=wanted)
        return self._sample

    def get(self, key: str) -> Data:
        """Return the data with this id."""
        data: Data | None = self.sample() if key == SAMPLE else self._cache.get(key)
        if data is None:
            wanted = "an id that POST /data returned"
            cause = "Data is removed when other data needs the space; upload it again."
            raise HttpError(404, "unknown-data", "unknown data", got=repr(key), wanted=wanted, cause=cause)
        return data

    def add(self, request: DataRequest) -> Data:
        """Parse data, unless the cache has it."""
        content = _encode([request.name, request.format, request.options, request.text])
        key = hashlib.sha256(content).hexdigest()[:24]
        data: Data | None = self._cache.get(key)
        if data is None:
            data = _parse(self._service, request, key)
            tokens, labels = sum(map(len, data.examples)), len(self._service.labels)
            self._cache.keep(key, data, 20 * len(request.text) + tokens * (8 * labels + 100))
        return data


def _parse(service: Service, request: DataRequest, key: str) -> Data:
    source = TextSource(request.name, request.text)
    name, options = _choose_format(service, request, source)
    try:
        format_ = format_named(name, options)
        items = Examples(format_.read(source), source, name, format_.missing, format_.map)
        examples = [_with_columns(service, example) for example in items.take(service.limits.sequences + 1, 1 << 62)]
    except BridleError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # an option of a wrong type
        raise FileError("the data cannot be read", got=str(error), wanted=f"a file and options of {name}") from None
    if not examples:
        raise HttpError(422, "data", "there are no sequences", got="nothing", wanted=f"sequences as {name} has them")
    service.limits.check_sequences([example.tokens for example in examples])
    return Data(service, key, name, examples, _warnings(service, items, examples))


def _choose_format(service: Service, request: DataRequest, source: Source) -> tuple[str, dict[str, Any]]:
    """Return the format of the data and its options; by default those of the training data."""
    reader = service.tagger.notes_.get("reader", {})
    usual = reader.get("format") if isinstance(reader, Mapping) else None
    name = request.format
    if name is None:
        try:
            name = format_guessed(request.name, source)
        except FileError:
            name = usual if isinstance(usual, str) and usual in FORMATS else "text"
    if name not in FORMATS:
        what, wanted = "the data has a format that cannot be sent as text", "one of " + ", ".join(FORMATS)
        raise HttpError(422, "format", what, got=repr(name), wanted=wanted)
    options = dict(reader.get("options") or {}) if name == usual and isinstance(reader, Mapping) else {}
    kind = format_kind(name)
    if kind.cuts:
        options["tokens"] = service.tokens
    if "unlabelled" in kind.__dataclass_fields__ and options.get("columns"):
        options["unlabelled"] = "allow"
    return name, {**options, **request.options}


def _with_columns(service: Service, example: Example) -> Example:
    """Return a sequence with the columns that the model reads; its first column becomes the main one."""
    check_stopped()
    names = ModelColumns.of(service.tagger).renamed(list(example.columns))
    columns = dict(zip(names, example.columns.values(), strict=True))
    for name in service.columns:
        if name not in columns:
            raise example.error(
                f"the model needs the column {name!r}",
                got=", ".join(columns),
                wanted=", ".join(service.columns),
                cause='Pass the names of the columns in `options`, such as {"columns": [...]}.',
            )
    return replace(example, columns=columns)


def _warnings(service: Service, items: Examples, examples: Sequence[Example]) -> list[str]:
    """Return warnings about skipped and changed sequences, unknown labels, and labels read as a column."""
    warnings = [f"left out: {count:,} {what}" for what, count in items.left_out.items()]
    warnings += [f"changed: {count:,} {what}" for what, count in items.changed.items()]
    names = {name for example in examples for name in example.labels or () if name is not None}
    if unknown := sorted(names - set(service.labels)):
        more = f" and {len(unknown) - _MAX_NAMED_LABELS} more" if len(unknown) > _MAX_NAMED_LABELS else ""
        warnings.append("the model does not know these labels: " + ", ".join(unknown[:_MAX_NAMED_LABELS]) + more)
    if not any(example.labels for example in examples) and (column := _column_of_labels(service, examples)) is not None:
        warnings.append(
            f"the last column looks like labels, but was read as {column!r}; "
            'pass the names of the columns in `options`, such as {"columns": ["word", "label"]}'
        )
    return warnings


def _column_of_labels(service: Service, examples: Sequence[Example]) -> str | None:
    """Return the last column of data without labels if most of its values are labels of the model."""
    *before, column = examples[0].columns
    if not before:
        return None
    counts = Counter(value for example in examples for value in example.columns.get(column, ()))
    names = set(service.labels)
    labels = sum(count for value, count in counts.items() if value in names)
    return column if 2 * labels > counts.total() else None


def evaluate_rules(data: Data, rules: RuleText, budget: float | None) -> EvaluateAnswer:
    """Compute the effect of rules on data within `budget` seconds, or half of the time of a request."""
    limits = data.service.limits
    most = limits.seconds / 2
    answer = evaluate(rules.rules, data.gold, budget=most if budget is None else min(budget, most), **limits.of_trial)
    for figures, line in zip(answer.rules, rules.lines, strict=True):
        figures.line = line
    return answer
