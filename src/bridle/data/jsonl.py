"""`jsonl`: one JSON object per line, and the base of formats whose columns have names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from bridle._native import JsonReader, write_json
from bridle.data.base import Format
from bridle.data.blocks import (
    Pace,
    TextReader,
    flags,
    known_labels,
    label_parts,
    output_name,
    parts_of,
)
from bridle.data.detection import other_format
from bridle.data.examples import Example
from bridle.data.limits import MOST_KEYS
from bridle.data.source import Source
from bridle.errors import Argument, BridleError, FeatureError, FileError, shown
from bridle.features.columns import null_token
from bridle.tagging.arrow import Layout, statuses_of
from bridle.tagging.block import INTEGER, TEXT, Block, Column, Ids, JsonObjects
from bridle.tagging.figures import FIGURES
from bridle.tagging.labelling import Outcomes
from bridle.texts import Offsets, Texts

_KEY = re.compile(r'[\s,]*+("(?:[^"\\]|\\.)*+")\s*+:\s*+', re.DOTALL)
_LABELLED = {"label", "labels", "entities", "annotations"}  # keys of doccano
KEYS = ("id", "tokens", "labels", "given")
BROKEN_RULES = ("violated", "clash")  # lists of rules in what `bridle tag` and `bridle decode` write; no columns


@dataclass(frozen=True, kw_only=True)
class Keyed(Format):
    """The base of formats whose columns have names.

    Parameters
    ----------
    columns : list of str, optional
        Columns to read in addition to the tokens; None reads all lists of strings.
    tokens : str, default "tokens"
        Name of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Name of the labels; None if there are none.
    """

    gaps = "null"

    columns: Sequence[str] | None = None
    tokens: str = "tokens"
    label: str | None = "labels"

    def example(self, record: Mapping[str, Any], where: str | None) -> Example:
        """The sequence of a record."""
        try:
            return self._example(record, where)
        except BridleError as error:
            error.at(where=where)
            raise

    def _example(self, record: Mapping[str, Any], where: str | None) -> Example:
        if self.tokens not in record:
            raise FileError(
                "there are no tokens",
                got=", ".join(map(repr, record))[:200] or "no keys",
                wanted=f"the key {self.tokens!r}",
                cause="Pass {argument} if they have another name.",
                argument=Argument("tokens"),
            )
        if record[self.tokens] is None:
            raise FeatureError(f"{self.tokens!r} is null", wanted="a list of tokens, which may be empty")
        words = _strings(record[self.tokens])
        if words is not None and None in words:
            raise null_token(self.tokens)
        if words is None:
            got = shown(record[self.tokens])
            raise FeatureError("tokens are not a list of strings", got=got, wanted='["He", "left"]')
        labels = None if self.label is None else record.get(self.label)
        known = [x for x in labels if x is not None] if isinstance(labels, list) else labels
        if labels is not None and _strings(known) is None:
            wanted = '["B-NP", "B-VP"]; null for an unknown label'
            raise FileError("labels are not a list of strings", got=shown(labels), wanted=wanted)
        given = record.get("given")
        if given is not None and not isinstance(given, dict):
            raise FileError("given is not an object", got=type(given).__name__, wanted='such as {"verb": 3}')
        columns = {"word": words}
        for name, value in record.items():
            is_column = name not in BROKEN_RULES if self.columns is None else name in self.columns
            if name == "gold" and self.columns is None and isinstance(value, list) and None in value:
                continue  # labels with gaps, which `bridle tag` writes
            if is_column and name not in (self.tokens, self.label, *KEYS):
                column = _strings(value)
                if column is not None and len(column) != len(words):
                    raise FeatureError(
                        "the columns differ in length",
                        got=f"{len(column)} in {name!r}",
                        wanted=f"{len(words)}, as in {self.tokens!r}",
                        cause="Pass {argument} with the columns to read; others are skipped.",
                        argument=Argument("columns", [...]),
                    )
                if column is not None:
                    columns[name] = column
                elif self.columns is not None:
                    raise FileError(
                        f"{name!r} is not a column",
                        got=shown(value),
                        wanted=f"a list of {len(words)} strings",
                        cause="Pass {argument} with the columns to read; others are skipped.",
                        argument=Argument("columns", [...]),
                    )
        for name in self.columns or ():
            if name not in columns:
                raise FileError("the column does not exist", got=", ".join(map(repr, columns)), wanted=repr(name))
        if labels is not None and len(labels) != len(words):
            raise FileError("labels and tokens differ in length", got=len(labels), wanted=len(words))
        group = None if self.groups in columns else record.get(self.groups or "")
        return Example(columns, labels, given or {}, (), where or "", record.get("id"), group=group)

    def record(self, example: Example) -> dict[str, Any]:
        """The record of a sequence; `example` reads it."""
        record: dict[str, Any] = {} if example.id is None else {"id": example.id}
        record[self.tokens] = list(example.tokens)
        if example.labels is not None and self.label is not None:
            record[self.label] = list(example.labels)
        for name, column in list(example.columns.items())[1:]:
            if name in (self.tokens, self.label, "word", *KEYS):
                raise example.error(f"{self.name} cannot store this column", got=repr(name), wanted="another name")
            record[name] = list(column)
        lists = {name: value for name, value in record.items() if isinstance(value, list)}
        bad = [
            x
            for name, value in lists.items()
            for x in value
            if not isinstance(x, str) and (x is not None or name != self.label)
        ]
        if bad:
            raise example.error("a column contains values that are not strings", got=shown(bad[0]), wanted="strings")
        return record | {"given": dict(example.given)} if example.given else record


@dataclass(frozen=True, kw_only=True)
class JsonLines(Keyed):
    """One JSON object per line.

        {"id": "s1", "tokens": ["He", "left"], "labels": ["B-NP", "B-VP"], "pos": ["PRP", "VBD"], "given": {"verb": 1}}

    Only `tokens` is required; they become the column `word`. Any other key with a list of strings is a column. Keys
    with other values are skipped, as are the broken rules (`violated`, `clash`) that `bridle tag` writes. An unknown
    label is null.
    """

    name = "jsonl"
    streams = contiguous = True
    suffixes = (".jsonl", ".ndjson")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def line(self, source: Source, number: int, line: str) -> Example:
        """The sequence of a line."""
        record = json_object(source, number, line, '{"tokens": [...], ...}')
        known = (self.tokens, self.label or "labels", "id", "given")
        for key in record if self.columns is None else ():
            near = near_key(key, known)
            if near and near not in record:
                raise source.error(number, "unknown key", got=repr(key), wanted=repr(near), cause="Misspelt?")
        return self.example(record, f"{source.name}:{number}")

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        for example in examples:  # empty ones too
            yield json_line(example, self.record(example))

    def blocks(self, source: Source, start: int, pace: Pace) -> Iterator[Block]:
        """A kernel reads lines about which nothing is unusual, `line` the others."""
        return _File(self, source, start).blocks(pace)

    def encode(self, block: Block, outcomes: Outcomes, n: int, first: int = 0) -> bytes:
        """Lines with scores, bounds, broken rules and what else was computed."""
        return write_json([*_data_fields(block, n), *_record_fields(outcomes, n)], n)

    def encode_rows(self, block: Block, outcomes: Outcomes, n: int, layout: Layout) -> bytes:
        """Lines with labels, status and error, and what else the layout has, as shards hold them."""
        fields = _data_fields(block, n)
        fields.insert(1 if block.ids is None else 2, _labels_field(outcomes, n))
        if block.given is not None:
            given = [block.given[row] for row in range(n)]
            fields.append(_values(_RAW, "given", [_json(dict(values)) if values else None for values in given]))
        return write_json([*fields, *_status_fields(outcomes, n, layout)], n)


_MORE, _FULL, _ODD = range(3)  # why a kernel stopped
_TOKENS, _LABELS, _ID, _GIVEN, _COLUMN, _WANTED, _SKIP, _GROUP = range(8)  # what a key is for; _GROUP: as _ID
_SHOWN = 60  # characters of a line, in messages
_MOST = 64  # keys that the kernel knows
_RAW, _STRING, _STRINGS = range(3)  # how the kernel writes a field


class _File(TextReader):
    """A file while it is read. The kernel learns the keys as they come: `line` reads a line with a new one."""

    def __init__(self, format: JsonLines, source: Source, start: int) -> None:
        super().__init__(source, format)
        self.format, self.kernel = format, JsonReader()
        self.roles: dict[str, int] = {}  # of the keys that the kernel knows, in their order
        if start:
            self.jump(start)

    def read(self, rows: int) -> bool:
        while (left := rows - self.builder.count) > 0:
            stop, self.at, end = self.kernel.read(self.data, self.at, self.final, left)
            self._take()
            if stop == _MORE:
                return False
            if stop == _ODD:
                self._read_one(end)
        return True

    def _read_one(self, end: int) -> None:
        """Read one line as Python reads JSON."""
        source, line = self.source, ""
        try:
            line = self.decoded(end).removesuffix("\n").removesuffix("\r")
            if line.strip():
                example = self.format.line(source, self.line(), line)
                if len(self.roles) < _MOST and self._learn(json_object(source, self.line(), line, "{...}")):
                    return  # the kernel can read it now
                self.builder.add(example)
        except BridleError as error:
            self.builder.fail(error, _id_of(line))
        self.at = end

    def _learn(self, record: dict[str, Any]) -> bool:
        """Tell the kernel about the keys of a line that is a sequence; are there new ones?"""
        form, before = self.format, len(self.roles)
        known = (form.tokens, form.label or "labels", "id", "given")
        for key in [*(form.columns or ()), *record]:
            near = near_key(key, known) if form.columns is None else None
            role = self._role(key)
            if key == form.groups and not isinstance(record.get(key), list):
                role = _GROUP
            if key == "word" and role in (_COLUMN, _WANTED):  # it replaces the tokens; the kernel would keep both
                continue
            if key not in self.roles and len(self.roles) < _MOST:
                self.roles[key] = role
                self.kernel.add_key(key, _ID if role == _GROUP else role, near or "")
        return len(self.roles) > before

    def _role(self, key: str) -> int:
        form = self.format
        roles = {"id": _ID, "given": _GIVEN, form.tokens: _TOKENS}
        if form.label is not None and form.label not in roles:
            roles[form.label] = _LABELS
        if key in roles:
            return roles[key]
        if key in KEYS or (form.columns is None and key in BROKEN_RULES):
            return _SKIP
        return _COLUMN if form.columns is None else _WANTED if key in form.columns else _SKIP

    def _take(self) -> None:
        """Add the rows that the kernel has read."""
        if not (count := len(self.kernel)):
            return
        pieces: dict[str, Any] = {"word": None}
        columns, places = self.kernel.take()
        for (key, role), (rows, known, whole, *strings) in zip(self.roles.items(), columns, strict=True):
            if role == _SKIP or (role != _TOKENS and not known.any()):
                continue
            texts = Texts(*strings)
            if role in (_ID, _GROUP):
                pieces[":id" if role == _ID else ":group"] = Ids(_one_each(rows, texts, known), known)
            elif role == _GIVEN:
                pieces[":given"] = JsonObjects(_one_each(rows, texts, known))
            elif role == _LABELS:
                pieces[":gold"] = known_labels(Column(texts, rows, flags(known), flags(whole)), self.format)
            else:
                pieces["word" if role == _TOKENS else key] = Column(texts, rows, flags(known))
        self.builder.extend(count, pieces, self.places(places))


def _one_each(rows: Offsets, texts: Texts, known: Any) -> Sequence[str]:
    """A string per row, empty where there is none, from lists with one string or none."""
    if known.all():
        return texts
    return [texts[at] if is_there else "" for at, is_there in zip(rows[:-1].tolist(), known.tolist(), strict=True)]


def _id_of(line: str) -> Any:
    """The id in a line that is not a sequence, if it can be read."""
    try:
        record = json.loads(line)
        json.dumps(record, ensure_ascii=False).encode()  # half a character, such as "\\ud800", fails
    except (ValueError, RecursionError):  # which UnicodeError is, too
        return None
    return record.get("id") if isinstance(record, dict) else None


# ---- fields of lines that kernels write -----------------------------------------------------------------------------


def _field(kind: int, name: str, parts: tuple[Any, ...], nulls: bool = False) -> tuple[Any, ...]:
    return kind, f"{json.dumps(name, ensure_ascii=False)}: ", parts, nulls


def _values(kind: int, name: str, texts: Sequence[str | None], which: Any = None) -> tuple[Any, ...]:
    """One string, or text of JSON, per row; None leaves it out. which: of the texts each row has."""
    known = None
    if not isinstance(texts, Texts):
        known = None if None not in texts else np.array([text is not None for text in texts], dtype=np.uint8)
        texts = Texts.of([text or "" for text in texts])
    return _field(kind, name, (None, known, texts.offsets, None, texts.data, which))


def _ids_field(ids: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Ids as they are: text in quotes, numbers and other JSON without."""
    if isinstance(ids, Ids) and isinstance(ids.texts, Texts):
        kinds = set(ids.kinds[:n].tolist())
        if kinds == {TEXT} or kinds == {INTEGER}:
            return _values(_STRING if kinds == {TEXT} else _RAW, "id", ids.texts[:n])
    return _values(_RAW, "id", [None if name is None else _json(name) for name in ids[:n]])


def _data_fields(block: Block, n: int) -> list[tuple[Any, ...]]:
    """Id, tokens, other columns, gold labels and given values of the rows of a block."""
    fields = []
    if block.ids is not None:
        fields.append(_ids_field(block.ids, n))
    for k, (name, column) in enumerate(block.columns.items()):
        fields.append(_field(_STRINGS, "tokens" if k == 0 else output_name(name), parts_of([column], n)[0]))
    if block.gold is not None:
        fields.append(_field(_STRINGS, "gold", parts_of([block.gold], n)[0]))
    return fields


def _labels_field(outcomes: Outcomes, n: int) -> tuple[Any, ...]:
    return _field(_STRINGS, "labels", label_parts(outcomes, n), nulls=True)


def _status_fields(outcomes: Outcomes, n: int, layout: Layout) -> list[tuple[Any, ...]]:
    fields = []
    for name in layout.figures:
        values = [FIGURES[name].value(outcomes, row) for row in range(n)]
        fields.append(_values(_RAW, name, [None if value is None else _json(value) for value in values]))
    statuses, which = statuses_of(outcomes)
    fields.append(_values(_STRING, "status", statuses, which[:n]))
    if outcomes.errors:
        messages = [None if (error := outcomes.errors.get(row)) is None else str(error) for row in range(n)]
        fields.append(_values(_STRING, "error", messages))
    return fields


def _record_fields(outcomes: Outcomes, n: int) -> list[tuple[Any, ...]]:
    """Return the entries of `Decoding.to_dict`, field by field."""
    records = [outcomes.record(row) for row in range(n)]
    names = dict.fromkeys(name for record in records for name in record)
    texts = {name: [_json(record[name]) if name in record else None for record in records] for name in names}
    return [_labels_field(outcomes, n), *(_values(_RAW, name, values) for name, values in texts.items())]


def _json(value: Any) -> str:
    """JSON of a value; an id that JSON or UTF-8 cannot represent is escaped or becomes text."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    except ValueError:
        return json.dumps(str(value))
    return text


def json_lines(source: Source, encoding: str, wanted: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The object on each line, with its line number. wanted: the expected form, for messages."""
    for number, line in source.lines(encoding):
        if line.strip():
            yield number, json_object(source, number, line, wanted)


def json_object(source: Source, number: int, line: str, wanted: str) -> dict[str, Any]:
    """The object on a line."""
    try:
        record = json.loads(line)
        if "\\u" in line:
            json.dumps(record, ensure_ascii=False).encode()  # half a character, such as "\ud800", fails
    except (ValueError, RecursionError) as error:
        raise source.error(
            number,
            "not a JSON line",
            got=_cut(line, error),
            wanted=f"{wanted} on one line",
            **_likely(source.name, line),
        ) from None
    if not isinstance(record, dict):
        raise source.error(number, "a line is not a JSON object", got=type(record).__name__, wanted=wanted)
    check_keys(record, f"{source.name}:{number}")
    return record


def _cut(line: str, error: Exception) -> str:
    """The line up to the place where it stops being JSON, or why it is none, for messages."""
    at = getattr(error, "pos", None)
    if not isinstance(at, int):
        return str(error)[:200]
    before = line[max(0, at - _SHOWN) : at].lstrip()
    return f"{before}, and then {'the end of the line' if at >= len(line.rstrip()) else line[at : at + 10].rstrip()}"


def _likely(name: str, line: str) -> dict[str, Any]:
    """The likely cause if a line is not JSON, for messages."""
    if line.lstrip().startswith("{"):
        return {"cause": "One sequence per line; is the file cut off?"}
    if name.endswith(".ann"):
        return {"cause": "Is it a file of brat? Pass {argument}.", "argument": Argument("format", "brat")}
    if line.strip() == "[" or line.lstrip().startswith("[{"):
        return {
            "cause": "Is it a file of Label Studio? Pass {argument}.",
            "argument": Argument("format", "labelstudio"),
        }
    return other_format(line)


def json_line(example: Example, record: dict[str, Any]) -> str:
    """The JSON line of the record of a sequence."""
    try:
        return json.dumps(record, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise example.error("a value is not JSON", got=str(error), wanted="plain values") from None


def json_kind(head: str) -> str | None:
    """The format of a file that begins with a JSON object or a list of objects, by the keys of the first one."""
    start = head.lstrip()
    line = start[1:].lstrip() if start.startswith("[") else start.partition("\n")[0]
    if not line.startswith("{"):
        return None
    keys = dict(_own_keys(line))
    if start.startswith("["):
        return "labelstudio" if keys.keys() & {"data", "text"} else None
    if "tokens" in keys or not ("text" in keys or keys.get("data") in ("{", '"')):
        return "jsonl"
    if "text" not in keys:
        return "labelstudio" if keys["data"] == "{" else "doccano"
    return "doccano" if "spans" not in keys and keys.keys() & _LABELLED else "spans"


def _own_keys(text: str) -> Iterator[tuple[str, str]]:
    """The keys of the object at the beginning of a text, not nested ones, with the first character of each value."""
    at = 1
    try:
        while key := _KEY.match(text, at):
            yield json.loads(key[1]), text[key.end() : key.end() + 1]
            at = json.JSONDecoder(strict=False).raw_decode(text, key.end())[1]
    except (ValueError, RecursionError):  # it is cut off, or broken
        return


def check_keys(record: dict[str, Any], where: str) -> None:
    """Raise if an object has more keys than a sequence can have."""
    if len(record) > MOST_KEYS:
        raise FileError(
            "an object has too many keys",
            got=f"{len(record):,}",
            wanted=f"at most {MOST_KEYS:,}",
            cause="One sequence per line; does this one contain many?",
            where=where,
        )


def near_key(key: str, known: Sequence[str]) -> str | None:
    """The known key that is closest to an unknown one."""
    if key in known or len(key) > 2 * max(map(len, known)):  # a long one is like none, and takes long to compare
        return None
    return next(iter(get_close_matches(key, known, n=1, cutoff=0.8)), None)


def _strings(value: Any) -> list[str] | None:
    """A list of strings, some of which may be null; None if it is something else."""
    return value if isinstance(value, list) and all(x is None or isinstance(x, str) for x in value) else None
