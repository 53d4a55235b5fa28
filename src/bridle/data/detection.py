"""Detection of the format of a file: by the suffix of its name, and by its first lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bridle.data.base import FORMATS, formats
from bridle.data.source import PACKED, Source
from bridle.errors import Argument, FileError

DOCSTART = "-DOCSTART-"
_TOKENS = {"word", "words", "token", "tokens"}  # what columns are called
_LABELS = {"label", "labels", "tag", "tags", "ner", "ner_tag", "ner_tags", "pos", "pos_tag", "pos_tags", "chunk", "bio"}
_LABEL = re.compile(r"[A-Z][A-Z0-9$_:.+-]*|[BILMESU]-[^\s/|]+|[^\w\s/|]+")  # B-per, NNP, PRP$, a comma
_IN_SCHEME = re.compile(r"O|[BILMESU]-[^\s/|]+")
_MARKS = ("{", "[", "<", "PAR1", "ARROW1")  # how JSON, markup and tables begin
_OTHER = re.compile(r'\s*(?:<([^\W\d][\w.:-]*)>.*</\1>|\{".*\}$)', re.MULTILINE)  # a line of `tagged` or of JSON
_SEGMENT = re.compile(r".*\S \|[^\s|]+")  # a line of `segments`, not the row of a table
_WIDTH = 10  # columns of conllu
_LOOKED_AT = 10_000  # characters of a line that seems to have another format


@dataclass(frozen=True)
class Guess:
    """The format that a file seems to have."""

    format: str | None  # None: cannot be told
    sure: bool  # its suffix says so, or marks that plain text does not have
    first_line: str = ""
    error: FileError | None = None  # why it cannot be told


def guess_format(source: Source, head: str, usual: str | None) -> Guess:
    """Say which format a file that begins like this seems to have. usual: preferred if it could have several."""
    line = head.lstrip().partition("\n")[0]
    is_marked = line.startswith(_MARKS) or has_suffix(source.name)
    sure = is_marked or "\t" in line
    if usual is not None and not is_marked:
        if (seen := sure_format(head)) is not None:
            return Guess(seen, True, line)
        if not sure or FORMATS[usual].looks_like(head):
            return Guess(usual, sure, line)
    try:
        return Guess(format_guessed(source.name, source), sure, line)
    except FileError as error:
        return Guess(None, False, line, error)


def format_guessed(path: str, source: Source | None = None) -> str:
    """The name of the format of a file, from its suffix or, if there is a source to read, from its first lines."""
    suffix = _suffix(path)
    candidates = [name for name, kind in FORMATS.items() if suffix in kind.suffixes]
    misfit = ""
    rivals = [name for name, kind in FORMATS.items() if suffix in kind.shared]
    text = source.beginning() if source is not None and (rivals or not candidates) else ""
    if candidates and text:
        candidates = [name for name in rivals if FORMATS[name].looks_like(text)] or candidates
    elif not candidates and source is not None:
        if not text.strip():
            return "conll"  # nothing is in it: all formats read it alike
        likely = {name: kind for name, kind in FORMATS.items() if kind.looks_like(text)}
        # a special kind of a format that fits as well: CoNLL-U is CoNLL too
        special = {base for kind in likely.values() for base in kind.__mro__[1:]}
        candidates = [name for name, kind in likely.items() if kind not in special]
        misfit = "" if candidates else FORMATS["conll"].misfit(text)  # what most files are meant to be
    if len(candidates) == 1:
        return candidates[0]
    raise FileError(
        "the format of this file is ambiguous or unknown",
        where=source.name if source else path,
        got=f"what may be {' or '.join(sorted(candidates))}" if candidates else f"the suffix {suffix!r}",
        wanted=f"{{argument}}, one of {', '.join(formats())}",
        cause=misfit or None,
        argument=Argument("format"),
    )


def sure_format(head: str) -> str | None:
    """The name of the format that a file without a telling suffix has, by its first lines; None if it may be text."""
    lines, rows = [line for line in head.split("\n") if line.strip()], list(fields_of(head).values())
    if is_conllu(lines):
        return "conllu"
    layout: Literal["lines", "blocks"] = "blocks" if "\n\n" in head.strip() else "lines"
    if has_columns(head, rows) and are_labels([row[-1] for row in rows], layout):
        return "conll"
    tags = [piece.rpartition("/")[2] for piece in head.split()]
    if len(tags) > len(head.split("\n")) and is_slashed(head) and are_labels(tags, "lines"):
        return "slashed"
    return "segments" if lines and all(_SEGMENT.fullmatch(line.rstrip()) for line in lines) else None


def other_format(line: str) -> dict[str, Any]:
    """The likely cause if a line is not of the format that was expected, for messages: it has another one."""
    seen = sure_format(f"{line[:_LOOKED_AT]}\n" * 4)
    cause = f"Is it {'plain text' if seen is None else seen}? Pass {{argument}}."
    return {"cause": cause, "argument": Argument("format", seen or "text")}


# ---- what formats look like -----------------------------------------------------------------------------------------


def fields_of(head: str) -> dict[int, list[str]]:
    """The columns of the lines of tokens, by the number of the line."""
    return {
        number: line.split("\t") if "\t" in line else line.split()
        for number, line in enumerate(head.split("\n"), 1)
        if line.strip() and not line.startswith(("# ", DOCSTART))
    }


def has_columns(head: str, rows: Sequence[Sequence[str]]) -> bool:
    """Check whether lines have the same number of columns, two or more, as `conll` has."""
    alike = len(rows) > 1 and 1 < len(rows[0]) < 100 and all(len(row) == len(rows[0]) for row in rows)
    return alike and not _OTHER.match(head) and not names_columns(head)  # else `tsv`


def is_conllu(lines: Sequence[str]) -> bool:
    """Check whether lines that are not empty have the ten columns of `conllu`."""
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return bool(rows) and all(len(row) == _WIDTH and row[0][:1].isdecimal() for row in rows)


def is_slashed(head: str) -> bool:
    """Check whether all words have a slash inside."""
    pieces = head.split()
    return len(pieces) > 1 and all("/" in piece[1:-1] for piece in pieces)


def are_labels(values: Sequence[str], layout: Literal["lines", "blocks"]) -> bool:
    """Check whether the last words of lines are labels, instead of words of a text.

    layout: "blocks" if empty lines separate sequences; then labels in lower case are recognised too, if they repeat.
    """
    known = set(values)
    if len(values) < 3 or not all(map(str.isascii, known)) or not any(map(str.isalpha, "".join(known))):
        return False
    if all(map(_LABEL.fullmatch, known)):
        return len(known) * 2 <= len(values) or any(map(_IN_SCHEME.fullmatch, known))
    return layout == "blocks" and len(known) * 4 <= len(values)


def names_columns(head: str) -> bool:
    """Check whether a file begins with column names separated by TABs, with one for tokens and one for labels."""
    cells = {cell.strip().lower() for cell in head.lstrip("\n").partition("\n")[0].split("\t")}
    return bool(cells & _TOKENS) and bool(cells & _LABELS)


def has_suffix(path: str) -> bool:
    """Check whether the suffix of a file determines its format; that of a folder does not matter."""
    suffix = _suffix(path)
    return any(suffix in kind.suffixes for kind in FORMATS.values()) or Path(path).is_dir()


def _suffix(path: str) -> str:
    """The suffix of a file, in lower case; of a packed one, that of the file inside."""
    inner = next((path.removesuffix(suffix) for suffix in PACKED if path.endswith(suffix)), path)
    return Path(inner).suffix.lower()
