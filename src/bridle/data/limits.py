"""Limits that keep a small file, or one that decompresses to very much data, from filling the memory.

| what | at most |
|---|---|
| a line of text | 16,777,216 (2^24) characters |
| a line of scores (JSON lines) | 67,108,864 (2^26) bytes: 128,000 tokens of 33 labels fit; npz has no such limit |
| a sequence of several lines (`conll`, `csv`, `segments`, `tagged`, `parserator`) | 2^24 characters, 2,097,152 (2^21) \
lines |
| a task of `labelstudio`, a text of `brat` | about 2^24 characters |
| a cell of a table (`csv`, `tsv`) | 131,072 (2^17) characters, the default of Python's csv module |
| a row of a table (`arrow`, `parquet`) | 2^24 tokens and bytes of text, together |
| a column of a row group (`parquet`) | 33,554,432 (2^25) tokens, or 64 per byte if that is more |
| keys of a JSON object that is a sequence | 1,000 |
| decompressed at once: a record batch, a page of a column, rows of an npz array | 67,108,864 (2^26) bytes, or 16 \
times its compressed size if that is more |
| a table from standard input | 268,435,456 (2^28) bytes |
| an npz file | 2^24 sequences, labels of 1,024 characters, tokens of 65,536 |
| a `.rules` file | 2^24 bytes, 10,000 rules, 150 of not, and, or, implies, iff and parentheses on a line |
| the automata of all rules of a decoder together | 262,144 (2^18) states |
| the header of a model or checkpoint, the footer of a `parquet` file | 2^24 bytes |

Uncompressed data takes at most the size of the file in memory, times a small factor; there is no other limit. Time is
proportional to the size of the decompressed text.
"""

from __future__ import annotations

from bridle.errors import FileError

LONGEST = 1 << 24  # characters of a line, or of a sequence; more is no text but a mistake, or an attack
LONGEST_SCORES = 1 << 26  # bytes of a line of scores
MOST_LINES = 1 << 21  # of one sequence
MOST_KEYS = 1000  # of a JSON object
UNPACKED = 1 << 26  # bytes of what is unpacked at once,
RATIO = 16  # if they are more than so many times what they were packed to
PIPED = 1 << 28  # bytes of a file that must be held to be read


def check_unpacked(what: str, unpacked: int, packed: int) -> None:
    """Raise if a part of a file decompresses to more than it may, before any memory is allocated for it."""
    most = max(UNPACKED, RATIO * packed)
    if unpacked > most:
        raise FileError(
            f"{what} decompresses to too much data",
            got=f"{unpacked:,} bytes from {packed:,}",
            wanted=f"at most {most:,} bytes",
            cause="Is the file damaged or malicious? Write it again in smaller parts, or uncompressed.",
        )
