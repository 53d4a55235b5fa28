"""The unchanged lines of each sequence in its file, with comments and columns that were not read.

A sequence of `conll` and `conllu` owns its block of lines and the lines between it and the previous block: comments,
-DOCSTART- lines. A sequence of a format with one sequence per line owns that line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridle.data.conll import BLANK, DOCSTART
from bridle.data.examples import Example
from bridle.data.source import Source

BLOCKS = ("conll", "conllu")
LINES = ("jsonl", "spans", "doccano", "segmented", "slashed")
_DOCUMENTS = (DOCSTART, "# newdoc")  # lines that stand above the first sequence of a document


def lines_of(path: str, format: str, options: Mapping[str, Any], examples: Sequence[Example]) -> list[list[str]] | None:
    """The lines of each sequence of a file; None if the format does not separate sequences by lines.

    examples: all sequences of the file, in order. Line ends are removed.
    """
    if format not in (*BLOCKS, *LINES):
        return None
    source = Source(path)
    try:
        lines = [line for _, line in source.lines(str(options.get("encoding", "utf-8")))]
    finally:
        source.close()
    firsts = [int(example.where.rpartition(":")[2]) - 1 for example in examples]
    if format in LINES:
        return [[lines[first]] for first in firsts]
    found, begin = list[list[str]](), 0
    for first in firsts:
        end = first
        while end < len(lines) and lines[end].strip(BLANK):
            end += 1
        while not lines[begin].strip(BLANK):
            begin += 1
        found.append([*lines[begin:end], ""])
        begin = end
    return found


def documents_of(lines: Sequence[Sequence[str]]) -> list[int]:
    """The number of each sequence's document, from 0; -DOCSTART- or `# newdoc` begins a new one."""
    found, number = list[int](), 0
    for k, its in enumerate(lines):
        number += k > 0 and any(line.startswith(_DOCUMENTS) for line in its)
        found.append(number)
    return found
