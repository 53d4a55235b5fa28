"""Data that was sent to the server: read once, kept with its scores, and forgotten when others need the space."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from bridle.data import Example, Examples
from bridle.data.base import format_guessed, format_kind, format_named
from bridle.data.source import Source, TextSource
from bridle.deadline import check_stopped
from bridle.errors import BridleError, FileError
from bridle.recent import RecentCache
from bridle.serve.evaluation import Evaluation, GoldData, evaluate
from bridle.serve.evaluation import Quality as Figures
from bridle.serve.problems import HttpError
from bridle.serve.rulebook import RuleText
from bridle.serve.schemas_rules import DataAnswer, DataRequest, DataSequence, EvaluateAnswer, Quality, RuleFigures
from bridle.serve.service import Service

SAMPLE = "sample"  # the id of the data that the server has itself
_MOST = 64  # data sets at the same time
# Formats that are text and a single file: others would open files beside it.
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
_MOST_STRANGE = 10  # unknown labels that a warning names
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, eq=False)
class Data:
    """Sequences with their scores."""

    service: Service
    id: str
    format: str
    examples: Sequence[Example]
    warnings: list[str]

    @property
    def has_gold(self) -> bool:
        """Is any sequence labelled?"""
        return any(example.labels is not None for example in self.examples)

    @cached_property
    def gold(self) -> GoldData:
        """Scores and gold labels, for figures."""
        columns = [dict(example.columns) for example in self.examples]
        given = [
            {**dict(example.given), **dict(example.columns), "tokens": list(example.tokens)}
            for example in self.examples
        ]
        gold = [list(example.labels or [None] * len(example)) for example in self.examples] if self.has_gold else None
        return GoldData(self.service.labels, self.service.tagger.lattices(columns), gold, given)

    @cached_property
    def answer(self) -> bytes:
        """What POST /data says."""
        sequences = [
            DataSequence(
                None if example.id is None else str(example.id),
                list(example.tokens),
                None if example.labels is None else list(example.labels),
                msgspec.UNSET if len(example.columns) == 1 else self._columns(example),
            )
            for example in self.examples
        ]
        return _encode(DataAnswer(self.id, self.format, self.has_gold, sequences, self.warnings))

    def _columns(self, example: Example) -> dict[str, list[str]]:
        """The columns of a sequence, the one with the tokens first; rules may ask for any of them."""
        names = dict.fromkeys([self.service.main, *example.columns])
        return {name: list(example.columns[name]) for name in names}


class DataCache:
    """Data by id, bounded in bytes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known = RecentCache(_MOST, service.limits.data_bytes)
        self._sample = Data(service, SAMPLE, SAMPLE, service.sample, []) if service.sample else None

    def sample(self) -> Data:
        """The data of the server itself."""
        if self._sample is None:
            wanted = "a server that was started with --data"
            raise HttpError(404, "unknown-data", "the server has no sample data", wanted=wanted)
        return self._sample

    def get(self, key: str) -> Data:
        """The data with this id."""
        found: Data | None = self.sample() if key == SAMPLE else self._known.get(key)
        if found is None:
            cause = "Data is forgotten when others need the space; send it again."
            wanted = "an id that POST /data returned"
            raise HttpError(404, "unknown-data", "unknown data", got=repr(key), wanted=wanted, cause=cause)
        return found

    def add(self, request: DataRequest) -> Data:
        """Read data, or find that it is known."""
        asked = _encode([request.name, request.format, request.options, request.text])
        key = hashlib.sha256(asked).hexdigest()[:24]
        found: Data | None = self._known.get(key)
        if found is None:
            found = _read(self._service, request, key)
            tokens, labels = sum(map(len, found.examples)), len(self._service.labels)
            self._known.keep(key, found, 20 * len(request.text) + tokens * (8 * labels + 100))
        return found


def _read(service: Service, request: DataRequest, key: str) -> Data:
    source = TextSource(request.name, request.text)
    name, options = _format(service, request, source)
    try:
        chosen = format_named(name, options)
        items = Examples(chosen.read(source), source, name, chosen.missing)
        examples = [_fitted(service, example) for example in items.take(service.limits.sequences + 1, 1 << 62)]
    except BridleError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # an option of a type that it cannot have
        raise FileError("the data cannot be read", got=str(error), wanted=f"a file and options of {name}") from None
    if not examples:
        raise HttpError(422, "data", "there are no sequences", got="nothing", wanted=f"sequences as {name} has them")
    service.limits.check_sequences([example.tokens for example in examples])
    return Data(service, key, name, examples, _warnings(service, items, examples))


def _format(service: Service, request: DataRequest, source: Source) -> tuple[str, dict[str, Any]]:
    """The format of the data and its options: those of the training data, if nothing else is asked for or seen."""
    noted = service.tagger.notes_.get("reader", {})
    usual = noted.get("format") if isinstance(noted, Mapping) else None
    name = request.format
    if name is None:
        try:
            name = format_guessed(request.name, source)
        except FileError:
            name = usual if isinstance(usual, str) and usual in FORMATS else "text"
    if name not in FORMATS:
        wanted = "one of " + ", ".join(FORMATS)
        raise HttpError(
            422, "format", "the data has a format that cannot be sent as text", got=repr(name), wanted=wanted
        )
    options = dict(noted.get("options") or {}) if name == usual and isinstance(noted, Mapping) else {}
    kind = format_kind(name)
    if kind.cuts:
        options["tokens"] = service.tokens
    if "unlabelled" in kind.__dataclass_fields__ and options.get("columns"):
        options["unlabelled"] = "allow"
    return name, {**options, **request.options}


def _fitted(service: Service, example: Example) -> Example:
    """A sequence with the columns that the model reads: its first one holds the tokens, whatever it is called."""
    check_stopped()
    columns = dict(example.columns)
    if service.main not in columns:
        first, *others = columns.items()
        columns = {service.main: first[1], **dict(others)}
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
    """What was left out or changed, and labels that the model does not know."""
    told = [f"left out: {count:,} {what}" for what, count in items.left_out.items()]
    told += [f"changed: {count:,} {what}" for what, count in items.changed.items()]
    names = {name for example in examples for name in example.labels or () if name is not None}
    if strange := sorted(names - set(service.labels)):
        more = f" and {len(strange) - _MOST_STRANGE} more" if len(strange) > _MOST_STRANGE else ""
        told.append("the model does not know these labels: " + ", ".join(strange[:_MOST_STRANGE]) + more)
    if not any(example.labels for example in examples) and (column := _like_labels(service, examples)) is not None:
        told.append(
            f"the last column looks like labels, but was read as {column!r}; "
            'pass the names of the columns in `options`, such as {"columns": ["word", "label"]}'
        )
    return told


def _like_labels(service: Service, examples: Sequence[Example]) -> str | None:
    """The last column of data without labels, if most of its values are labels of the model."""
    *before, column = examples[0].columns
    if not before:
        return None
    counts = Counter(value for example in examples for value in example.columns.get(column, ()))
    names = set(service.labels)
    labels = sum(count for value, count in counts.items() if value in names)
    return column if 2 * labels > counts.total() else None


def figures(service: Service, data: Data, rules: RuleText, budget: float | None) -> EvaluateAnswer:
    """What rules do to data. budget: seconds after which no further rule is tried alone or left out."""
    limits = service.limits
    most = limits.seconds / 2
    found = evaluate(
        rules.rules,
        data.gold,
        budget=most if budget is None else min(budget, most),
        time_limit=limits.seconds / 500,  # of a sequence: there are many, and each is decoded again and again
        max_memory=limits.max_memory,
    )
    return _answer(found, rules)


def _answer(found: Evaluation, rules: RuleText) -> EvaluateAnswer:
    told = [
        RuleFigures(
            line, sentence, one.gold, one.plain, one.best, _quality(one.alone), _quality(one.without), one.changed
        )
        for line, sentence, one in zip(rules.lines, rules.sentences, found.rules, strict=True)
    ]
    return EvaluateAnswer(
        sequences=found.sequences,
        tokens=found.tokens,
        none=_quality(found.none),
        all=_quality(found.all),
        rules=told,
        changed=list(found.changed),
        broken=list(found.broken),
        improved=list(found.improved),
        worse=list(found.worse),
        relaxed=list(found.relaxed),
        complete=found.complete,
        seconds=found.seconds,
    )


def _quality(one: Figures | None) -> Quality | None:
    return None if one is None else Quality(one.accuracy, one.f1, one.all_right)
