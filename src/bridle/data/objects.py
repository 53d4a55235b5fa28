"""Read the JSON objects of a file one by one, from a list or one after the other; only one is in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bridle.data import limits
from bridle.data.jsonl import check_keys
from bridle.data.source import Source
from bridle.errors import FileError

_BLANK = re.compile(r"[ \t\r\n]*+")
_NEAR = 16  # characters: an error so near to the end of what has been read may go away when more is read
_DECODER = json.JSONDecoder()
# What may come at each point, and the point after it.
_NEXT = {
    "begin": {"[": "first", "{": "loose"},
    "loose": {"{": "loose"},  # objects without a list around them
    "first": {"{": "after", "]": "end"},
    "after": {",": "next", "]": "end"},
    "next": {"{": "after"},
    "end": {},
}
_ENDS = ("begin", "loose", "end")  # where a file may end


def json_objects(source: Source, encoding: str, wanted: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects, each with the line it begins on. wanted: the expected form, for messages."""
    pieces = source.runs(encoding, "anywhere")
    text, at, line, state = "", 0, 1, "begin"
    while True:
        begun, at = at, _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too
        line += text.count("\n", begun, at)
        if at == len(text):
            more = next(pieces, None)
            if more is None:
                break
            text, at = more[1][0], 0
            continue
        if text[at] not in _NEXT[state]:
            expected = " or ".join(map(repr, _NEXT[state])) or "the end of the file"
            got = repr(text[at : at + 20])
            raise source.error(line, "not JSON", got=got, wanted=f"{expected}, as in {wanted}")
        state = _NEXT[state][text[at]]
        if text[at] != "{":
            at += 1
            continue
        record, text, at, end = _object(source, pieces, text, at, line, wanted)
        check_keys(record, f"{source.name}:{line}")
        yield line, record
        line += text.count("\n", at, end)
        at = end
    if state not in _ENDS:
        got, cause = "the end of the file", "It is cut off."
        raise source.error(line, "not JSON", got=got, wanted=f"the end of the list, as in {wanted}", cause=cause)


def _object(
    source: Source, pieces: Iterator[tuple[int, list[str]]], text: str, at: int, line: int, wanted: str
) -> tuple[dict[str, Any], str, int, int]:
    """The object at a place of a text, which grows until the object is complete; with the text, its begin and end."""
    while True:
        try:
            record, end = _DECODER.raw_decode(text, at)
            if "\\u" in text[at:end]:
                json.dumps(record, ensure_ascii=False).encode()  # half a character, such as "\ud800", fails
            return record, text, at, end
        except json.JSONDecodeError as error:
            place = line + text.count("\n", at, error.pos)
            wrong = source.error(place, "not JSON", got=error.msg, wanted=wanted, cause="Is the file cut off?")
            if error.pos < len(text) - _NEAR and not error.msg.startswith("Unterminated string"):
                raise wrong from None
        except (ValueError, RecursionError) as error:
            raise source.error(line, "not JSON", got=str(error)[:200], wanted=wanted) from None
        text, at = _longer(source, pieces, text[at:], line, wrong), 0


def _longer(source: Source, pieces: Iterator[tuple[int, list[str]]], text: str, line: int, wrong: FileError) -> str:
    """Double a text, so that the total time stays proportional to the data."""
    parts, size = [text], len(text)
    while size < max(2 * len(text), 1) and (more := next(pieces, None)):
        parts.append(more[1][0])
        size += len(parts[-1])
        if size > 2 * limits.LONGEST:
            got, most = f"{size:,} characters so far", f"at most {limits.LONGEST:,}"
            raise source.error(line, "an object is too long", got=got, wanted=most)
    if size == len(text):
        raise wrong
    return "".join(parts)
