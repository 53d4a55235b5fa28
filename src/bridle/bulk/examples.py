"""Blocks of any format of `bridle.data`, from its sequences one by one: as fast as those are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bridle.bulk.base import ROWS, SIZE, Block
from bridle.bulk.batches import Pieces
from bridle.bulk.source import Packed, changed
from bridle.data.base import Format
from bridle.data.huggingface import Folder
from bridle.data.source import Source

_BYTES_PER_TOKEN = 8  # about, with its other columns


@dataclass(frozen=True)
class ExampleReader:
    """Reads files sequence by sequence; the end of a block counts sequences. A sequence that is wrong ends the file."""

    format: Format

    def blocks(self, path: str, start: int = 0, *, rows: int = ROWS, size: int = SIZE) -> Iterator[Block]:
        """Blocks of rows."""
        source: Source = Folder(path) if _is_folder(path) else Packed(path)
        try:
            yield from self._blocks(source, start, rows, size)
        finally:
            source.close()

    def _blocks(self, source: Source, start: int, rows: int, size: int) -> Iterator[Block]:
        examples, pieces = self.format.read(source), Pieces(source.name, self.format.missing)
        passed = sum(1 for _ in islice(examples, start))
        if passed < start:
            raise changed(source.name, f"{passed:,} sequences", f"at least {start:,}")
        end, held = start, 0
        source.left_out.clear()  # it was told before the run was stopped

        def made() -> Block:
            pieces.left_out, source.left_out = dict(source.left_out), {}
            return pieces.block(end, min(source.done() / max(source.total or 0, 1), 1.0))

        for example in examples:
            pieces.add(example)
            end, held = end + 1, held + _BYTES_PER_TOKEN * len(example) * len(example.columns)
            if len(pieces) >= rows or held >= size:
                yield made()
                held = 0
        if len(pieces) or source.left_out:
            yield made()


def _is_folder(path: str) -> bool:
    return path != "-" and Path(path).is_dir()
