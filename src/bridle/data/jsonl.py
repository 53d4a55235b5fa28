"""`jsonl`: one JSON object per line.

    {"id": "s1", "tokens": ["He", "left"], "labels": ["B-NP", "B-VP"], "pos": ["PRP", "VBD"], "given": {"verb": 1}}

Only `tokens` is required; they become the column `word`. Any other key with a list of strings is a column. Keys with
other values are skipped, as are the broken rules (`violated`, `clash`) that `bridle tag` writes. An unknown label is
null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bridle.data.base import Format, other_format
from bridle.data.examples import Example
from bridle.data.limits import MOST_KEYS
from bridle.data.source import Source
from bridle.errors import Argument, BridleError, FileError, shown

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
        Columns to read in addition to the tokens; None reads all.
    tokens : str, default "tokens"
        Name of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Name of the labels; None if there are none.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    gaps = "null"

    columns: Sequence[str] | None = None
    tokens: str = "tokens"
    label: str | None = "labels"

    def __post_init__(self) -> None:
        names = self.columns
        if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
            raise FileError("`columns` must be a list of names", got=repr(names), wanted="['pos', ...]")

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
        words = _strings(record[self.tokens])
        if words is None:
            got = shown(record[self.tokens])
            raise FileError("tokens are not a list of strings", got=got, wanted='["He", "left"]')
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
            asked = name not in BROKEN_RULES if self.columns is None else name in self.columns
            if asked and name not in (self.tokens, self.label, *KEYS):
                column = _strings(value)
                if column is not None and len(column) == len(words):
                    columns[name] = column
                elif column is not None or self.columns is not None:
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
        return Example(columns, labels, given or {}, (), where or "", record.get("id"))

    def record(self, example: Example) -> dict[str, Any]:
        """The record of a sequence; `example` reads it."""
        made: dict[str, Any] = {} if example.id is None else {"id": example.id}
        made[self.tokens] = list(example.tokens)
        if example.labels is not None and self.label is not None:
            made[self.label] = list(example.labels)
        for name, column in list(example.columns.items())[1:]:
            if name in (self.tokens, self.label, "word", *KEYS):
                raise example.error(f"{self.name} cannot store this column", got=repr(name), wanted="another name")
            made[name] = list(column)
        lists = {name: value for name, value in made.items() if isinstance(value, list)}
        bad = [
            x
            for name, value in lists.items()
            for x in value
            if not isinstance(x, str) and (x is not None or name != self.label)
        ]
        if bad:
            raise example.error("a column contains values that are not strings", got=shown(bad[0]), wanted="strings")
        return made | {"given": dict(example.given)} if example.given else made


@dataclass(frozen=True, kw_only=True)
class JsonLines(Keyed):
    """JSON lines.

    Parameters
    ----------
    columns : list of str, optional
        Keys to read as columns, in addition to the tokens; None reads all lists of strings.
    tokens : str, default "tokens"
        Key of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Key of the labels; None if there are none.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            if line.strip():
                yield self.line(source, number, line)

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
            got=str(error)[:200],
            wanted=f"{wanted} on one line",
            **_likely(source.name, line),
        ) from None
    if not isinstance(record, dict):
        raise source.error(number, "a line is not a JSON object", got=type(record).__name__, wanted=wanted)
    check_keys(record, f"{source.name}:{number}")
    return record


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
    return value if isinstance(value, list) and all(isinstance(x, str) for x in value) else None
