"""Lists of phrases: names of cities, of journals, of streets; one phrase has one token or several.

    New York
    Boston
    St . Louis

A list is a value: it compares, hashes and pickles by its content, of which it keeps a digest, so that a million phrases
cost no more than three. Rules look for its phrases in tokens (`bridle.rules.tokens`), templates make features of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from bridle import _native
from bridle.errors import BridleError, FileError, RuleError, shown

Ignoring = Literal["case"] | None

LARGEST = 1 << 28  # bytes of a file, or of all phrases
MOST_PHRASES = 10_000_000
MOST_TOKENS = 100  # of a phrase

# By digest and by what is ignored: decoders and models share what they look phrases up in.
_lookups: WeakValueDictionary[tuple[bytes, Ignoring], Lookup] = WeakValueDictionary()


class PhraseList:
    """Phrases, sorted, each once.

    Make one with `bridle.rules.phrases`.

    Attributes
    ----------
    name : str or None
        The file that it was read from, as the caller named it.
    content : bytes
        The phrases in UTF-8, one per line; a space between two tokens.
    """

    __slots__ = ("_digest", "content", "name")

    def __init__(self, content: bytes, name: str | None = None) -> None:
        self.content, self.name = content, name
        self._digest = hashlib.sha256(content).digest()

    def __len__(self) -> int:
        return self.content.count(b"\n") + 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PhraseList):
            return NotImplemented
        return (self.name, self._digest) == (other.name, other._digest)

    def __hash__(self) -> int:
        return hash((self.name, self._digest))

    def __repr__(self) -> str:
        named = "" if self.name is None else f"{self.name!r}, "
        return f"PhraseList({named}{len(self):,} phrases, {self._digest.hex()[:8]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PhraseList, (self.content, self.name)

    def phrases(self) -> list[str]:
        """Return all phrases, each with a space between its tokens."""
        return self.content.decode("utf-8", "surrogatepass").split("\n")

    def lookup(self, ignoring: Ignoring = None) -> Lookup:
        """Return the lookup of the phrases; callers share it while it is in use."""
        key = self._digest, ignoring
        lookup = _lookups.get(key)
        return lookup if lookup is not None else _lookups.setdefault(key, Lookup(self.content, ignoring))


class Lookup:
    """Phrases in a form in which they can be found in tokens."""

    __slots__ = ("__weakref__", "_lines", "fold", "native")

    def __init__(self, content: bytes, ignoring: Ignoring) -> None:
        self.fold = ignoring == "case"
        if self.fold:
            folded = content.decode("utf-8", "surrogatepass").casefold()
            content = b"\n".join(sorted(set(_encoded(folded).split(b"\n"))))
        self._lines = b"\n" + content + b"\n"
        self.native = _native.Phrases(content)

    def key(self, token: str) -> bytes:
        """Return a token in the spelling of the phrases."""
        return _encoded(token.casefold() if self.fold else token)

    def word(self, token: str) -> int:
        """Return the number of a token in `native`; -1: no phrase has it."""
        return self.native.word(self.key(token))

    def runs(self, tokens: Sequence[str]) -> list[tuple[int, int]]:
        """Return all (first, last) such that tokens[first : last + 1] is a phrase: the plain definition."""
        keys, runs = list(map(self.key, tokens)), []
        for first in range(len(keys)):
            text = b""
            for last in range(first, len(keys)):
                if keys[last].split() != [keys[last]]:
                    break  # it is empty or has a blank inside, as no token of a phrase
                text += b" " + keys[last] if text else keys[last]
                line = self._line_from(text)
                if line == text:
                    runs.append((first, last))
                elif not line.startswith(text):
                    break
        return runs

    def __contains__(self, text: str) -> bool:
        """Return whether this text, split at blanks, is a phrase."""
        key = b" ".join(self.key(text).split())
        return key != b"" and self._line_from(key) == key

    def _line_from(self, text: bytes) -> bytes:
        """Return the first line that is not below a text; lines are sorted."""
        lines, low, high = self._lines, 0, len(self._lines) - 1  # both at line feeds; the line sought begins in between
        while low < high:
            middle = lines.rfind(b"\n", low, (low + high) // 2 + 1)
            end = lines.find(b"\n", middle + 1)
            if lines[middle + 1 : end] < text:
                low = end
            else:
                high = middle
        return lines[low + 1 : lines.find(b"\n", low + 1)] if low + 1 < len(lines) else b""


def list_of(phrases: Any) -> PhraseList:
    """Return a list of phrases from strings, lists of tokens, or the path of a file."""
    if isinstance(phrases, PhraseList):
        return phrases
    if isinstance(phrases, os.PathLike):
        return read_list(Path(phrases), str(phrases))
    if isinstance(phrases, (str, bytes)) or not isinstance(phrases, Iterable):
        cause = "A file? Pass rules.phrases(path). One phrase? Pass [phrase]." if isinstance(phrases, str) else None
        raise RuleError("phrases are not a list", got=shown(phrases), wanted="a list of phrases", cause=cause)
    lines: set[bytes] = set()
    for phrase in phrases:
        lines.add(_line(phrase))
        if len(lines) > MOST_PHRASES:
            raise _too_large("phrases", MOST_PHRASES)
    if not lines:
        raise RuleError("a list of phrases is empty", got="no phrases", wanted="at least one")
    content = b"\n".join(sorted(lines))
    if len(content) > LARGEST:
        raise _too_large("bytes", LARGEST)
    return PhraseList(content)


def _line(phrase: Any) -> bytes:
    if isinstance(phrase, str):
        tokens = _encoded(phrase).split()
    else:
        texts = list(phrase) if isinstance(phrase, Iterable) and not isinstance(phrase, bytes) else [None]
        tokens = [_encoded(text) if isinstance(text, str) else b"" for text in texts]
    if not tokens or b"" in tokens:
        raise RuleError("bad phrase in a list", got=shown(phrase), wanted="a string or a list of tokens, not empty")
    if any(token.split() != [token] for token in tokens):
        raise RuleError(
            "a token of a phrase has a blank inside",
            got=shown(phrase),
            wanted="tokens without spaces, tabs and line breaks",
            cause="In a string, blanks separate tokens.",
        )
    if len(tokens) > MOST_TOKENS:
        raise RuleError("a phrase is too long", got=f"{len(tokens)} tokens", wanted=f"at most {MOST_TOKENS}")
    return b" ".join(tokens)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _too_large(unit: str, most: int, path: str | None = None) -> BridleError:
    got, wanted = f"more than {most:,} {unit}", f"at most {most:,}"
    if path is None:
        return RuleError("a list of phrases is too large", got=got, wanted=wanted)
    return FileError(f"the list {path!r} is too large", got=got, wanted=wanted, cause="Is it another file?")


def read_list(path: Path, name: str) -> PhraseList:
    """Read a list from a file, under the name that the caller has for it; see `bridle.rules.phrases`."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # a ValueError: a path with a null in it
        got = getattr(error, "strerror", None) or str(error)
        cause = None if str(path) == name else f"Looked for {str(path)!r}."
        wanted = "a text file, one phrase per line"
        raise FileError(f"cannot read the list {name!r}", got=got, wanted=wanted, cause=cause) from None
    if len(data) > LARGEST:
        raise _too_large("bytes", LARGEST, name)
    data = data.removeprefix(b"\xef\xbb\xbf")
    _check_text(data, name)
    return PhraseList(_content(data, name), name)


def _check_text(data: bytes, name: str) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, byte = data[: error.start].count(b"\n") + 1, data[error.start]
        raise FileError(
            f"the list {name!r} is not UTF-8",
            got=f"byte 0x{byte:02x} on line {line}",
            wanted="text in UTF-8",
            cause="Save it as UTF-8" + (" (it may be UTF-16)." if error.start == 0 and byte >= 0xFE else "."),
        ) from None


def _content(data: bytes, name: str) -> bytes:
    """Return the phrases among the lines of a file, sorted, each once."""
    lines = {b" ".join(line.split()) for line in data.splitlines()}  # of bytes: at LF, CR and CRLF
    lines = {line for line in lines if line and line != b"#" and not line.startswith(b"# ")}
    if not lines:
        raise FileError(f"the list {name!r} has no phrases", got="no lines", wanted="one phrase per line")
    if len(lines) > MOST_PHRASES:
        raise _too_large("phrases", MOST_PHRASES, name)
    if (most := max(line.count(b" ") for line in lines) + 1) > MOST_TOKENS:
        raise FileError(
            f"the list {name!r} has a phrase that is too long",
            got=f"{most:,} tokens",
            wanted=f"at most {MOST_TOKENS}",
            cause="Each line is one phrase. Is it another file?",
        )
    return b"\n".join(sorted(lines))
