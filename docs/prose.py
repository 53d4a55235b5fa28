"""Docstrings as Sphinx wants them: ours are plain prose, in which an indented block is meant to stay as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby


def to_rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText that says the same, whatever characters it holds."""
    made: list[str] = []
    for filled, group in groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            made += [*_paragraph(list(group)), ""]
    return made


def _paragraph(lines: list[str]) -> Iterator[str]:
    """Sentences, options (`name: what it is`), examples, or a block that stays as it is."""
    if lines[0].startswith(">>>"):
        yield from lines
        return
    if any(re.match(r"\S+ {2,}\S", line) for line in lines):  # a table: name, spaces, what it is
        yield from ("::", "", *(f"    {line}" for line in lines))
        return
    for indented, group in groupby(_unbroken(lines), key=lambda line: line.startswith(" ")):
        part = list(group)
        if indented:
            yield from ("", "::", "", *(f"    {line}" for line in part), "")
        elif any(_option(line) for line in part):
            yield from ("", *_options(part), "")
        else:
            yield from map(_escaped, part)


def _unbroken(lines: list[str]) -> list[str]:
    """An option that goes on, further in, on one line."""
    made: list[str] = []
    for line in lines:
        if made and line.startswith(" ") and _option(made[-1]):
            made[-1] += f" {line.strip()}"
        else:
            made.append(line)
    return made


def _option(line: str) -> bool:
    return re.match(r"[a-z_]+: ", line) is not None


def _options(lines: list[str]) -> Iterator[str]:
    """A list with an item for each option; what comes before the first is a sentence."""
    inside = False
    for line in lines:
        if _option(line) and not inside:
            yield ""
        inside = inside or _option(line)
        yield f"{'- ' if _option(line) else '  ' if inside else ''}{_escaped(line)}"


def _escaped(line: str) -> str:
    """Names in backquotes as code; nothing else is markup."""
    pieces = re.split(r"(`[^`]+`)", line)
    return "".join(
        f"`{piece}`" if piece.startswith("`") else re.sub(r"([\\*|]|_\b|`)", r"\\\1", piece) for piece in pieces
    )
