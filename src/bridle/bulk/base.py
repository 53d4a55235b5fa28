"""What readers and writers of batches have in common.

    reader.blocks(path, start)   blocks of rows, from a point where an earlier block ended
    writer(file, schema)         a file that is written batch by batch

The columns of a batch, in this order; all but the tokens may be absent:

    id          string, or int64 if all ids of the block are integers
    tokens      list<string>: the first column of the file, whatever its name
    ...         list<string>: its other columns, null where a sequence does not have one
    gold        list<string>: the labels that the file has, null where one is not known
    given       string: values for rules, as a JSON object
    _comments   list<string>: comment lines above the sequence, in `conll`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

OnError = Literal["raise", "row"]

ID, TOKENS, GOLD, GIVEN, COMMENTS = "id", "tokens", "gold", "given", "_comments"
OWN = (ID, TOKENS, GOLD, GIVEN, COMMENTS)  # names of columns that have a meaning of their own
ROWS = 4096  # of a block
SIZE = 1 << 22  # bytes of a block, about


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a file, in their order."""

    batch: Any  # pyarrow.RecordBatch, with the columns above
    end: int  # where the next block begins; only the reader of the format knows what it counts
    share: float  # of the file that has been read, from 0 to 1
    errors: Mapping[int, str] = field(default_factory=dict)  # why a row of the batch has no tokens, by its number
    left_out: Mapping[str, int] = field(default_factory=dict)  # counts, by name, of what was skipped in this block


class Reader(Protocol):
    """Reads files of one format."""

    def blocks(self, path: str, start: int = 0, *, rows: int = ROWS, size: int = SIZE) -> Iterator[Block]:
        """Blocks of at most `rows` rows and about `size` bytes, from `start`, which is 0 or the end of a block."""
        ...


class Writer(Protocol):
    """Writes one file of one format."""

    def write(self, batch: Any) -> None:
        """Add the rows of a batch."""
        ...

    def close(self) -> None:
        """Write what is left, and the end of the file. The file itself stays open."""
        ...
