"""`jsonl`: one JSON object per line.

    {"id": "s1", "tokens": ["He", "left"], "labels": ["B-NP", "B-VP"], "pos": ["PRP", "VBD"], "given": {"verb": 1}}

Only `tokens` must be there; they become the column `word`. Any other key with a list of strings is a column. Keys with
other values are passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.limits import MOST_KEYS
from bridle.data.source import Source
from bridle.errors import Argument, BridleError, FileError, shown

_KEY = re.compile(r'[\s,]*+("(?:[^"\\]|\\.)*+")\s*+:\s*+', re.DOTALL)
_LABELLED = {"label", "labels", "entities", "annotations"}  # keys of doccano
KEYS = ("id", "tokens", "labels", "given")


@dataclass(frozen=True, kw_only=True)
class Keyed(Format):
    """The base of formats whose columns have names.

    Parameters
    ----------
    columns : list of str, optional
        Which columns to read, besides the tokens; None reads all.
    tokens : str, default "tokens"
        Name of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Name of the labels; None if there are none.
    encoding : str, default "utf-8"
        Encoding of what is read; what is written is always UTF-8.
    """

    columns: Sequence[str] | None = None
    tokens: str = "tokens"
    label: str | None = "labels"

    def __post_init__(self) -> None:
        names = self.columns
        if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
            raise FileError("`columns` must be a list of names", got=repr(names), wanted="['pos', ...]")

    def example(self, record: Mapping[str, Any], where: str | None) -> Example:
        """The sequence that a record tells of."""
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
        if labels is not None and (labels := _strings(labels)) is None:
            got = shown(record[str(self.label)])
            raise FileError("labels are not a list of strings", got=got, wanted='["B-NP", "B-VP"]')
        given = record.get("given")
        if given is not None and not isinstance(given, dict):
            raise FileError("given is not an object", got=type(given).__name__, wanted='such as {"verb": 3}')
        columns = {"word": words}
        for name, value in record.items():
            if name not in (self.tokens, self.label, *KEYS) and (self.columns is None or name in self.columns):
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
                raise FileError("there is no such column", got=", ".join(map(repr, columns)), wanted=repr(name))
        if labels is not None and len(labels) != len(words):
            raise FileError("labels and tokens differ in length", got=len(labels), wanted=len(words))
        return Example(columns, labels, given or {}, (), where or "", record.get("id"))

    def record(self, example: Example) -> dict[str, Any]:
        """What `example` makes a sequence of."""
        made: dict[str, Any] = {} if example.id is None else {"id": example.id}
        made[self.tokens] = list(example.tokens)
        if example.labels is not None and self.label is not None:
            made[self.label] = list(example.labels)
        for name, column in list(example.columns.items())[1:]:
            if name in (self.tokens, self.label, "word", *KEYS):
                raise example.error(f"{self.name} has no room for this column", got=repr(name), wanted="another name")
            made[name] = list(column)
        if bad := [x for value in made.values() if isinstance(value, list) for x in value if not isinstance(x, str)]:
            raise example.error("a column holds what is no text", got=shown(bad[0]), wanted="strings")
        return made | {"given": dict(example.given)} if example.given else made


@dataclass(frozen=True, kw_only=True)
class JsonLines(Keyed):
    """JSON lines.

    Parameters
    ----------
    columns : list of str, optional
        Keys to read as columns, besides the tokens; None reads all that fit.
    tokens : str, default "tokens"
        Key of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Key of the labels; None if there are none.
    encoding : str, default "utf-8"
        Encoding of what is read; what is written is always UTF-8.
    """

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def read(self, source: Source) -> Iterator[Example]:
        known = (self.tokens, self.label or "labels", "id", "given")
        for number, record in json_lines(source, self.encoding, '{"tokens": [...], ...}'):
            for key in record if self.columns is None else ():
                near = near_key(key, known)
                if near and near not in record:
                    raise source.error(number, "unknown key", got=repr(key), wanted=repr(near), cause="Misspelt?")
            yield self.example(record, f"{source.name}:{number}")

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        for example in examples:  # empty ones too
            yield json_line(example, self.record(example))


def json_lines(source: Source, encoding: str, wanted: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The object on each line, with the number of the line. wanted: what messages say that there should be."""
    for number, line in source.lines(encoding):
        if not line.strip():
            continue
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
            raise source.error(number, "a line is no object", got=type(record).__name__, wanted=wanted)
        check_keys(record, f"{source.name}:{number}")
        yield number, record


def _likely(name: str, line: str) -> dict[str, Any]:
    """Why a line is no JSON: what errors say."""
    if line.lstrip().startswith("{"):
        return {"cause": "One sequence per line; is the file cut off?"}
    if name.endswith(".ann"):
        return {"cause": "Is it a file of brat? Pass {argument}.", "argument": Argument("format", "brat")}
    if line.strip() == "[" or line.lstrip().startswith("[{"):
        return {
            "cause": "Is it a file of Label Studio? Pass {argument}.",
            "argument": Argument("format", "labelstudio"),
        }
    return {"cause": "Is it plain text? Pass {argument}.", "argument": Argument("format", "text")}


def json_line(example: Example, record: dict[str, Any]) -> str:
    """The line of a record that was made of a sequence."""
    try:
        return json.dumps(record, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise example.error("a value is not JSON", got=str(error), wanted="plain values") from None


def json_kind(head: str) -> str | None:
    """The format of a file that begins with a JSON object, or with a list of some, by the keys of the first one."""
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
    """The keys of the object that a text begins with, not of what is in it, with the first character of each value."""
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
            cause="One sequence per line; does this one hold many?",
            where=where,
        )


def near_key(key: str, known: Sequence[str]) -> str | None:
    """The known key that an unknown one is likely to mean."""
    if key in known or len(key) > 2 * max(map(len, known)):  # a long one is like none, and takes long to compare
        return None
    return next(iter(get_close_matches(key, known, n=1, cutoff=0.8)), None)


def _strings(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(x, str) for x in value) else None
