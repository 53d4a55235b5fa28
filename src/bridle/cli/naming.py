"""Ids of sequences in the output: sequences keep their ids, and others are numbered through all files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bridle.cli.reading import called
from bridle.data import Example

MOST = 100_000  # ids that are remembered, so that files of any size need the same memory


@dataclass
class Names:
    """Ids for the sequences of some files.

    A sequence with an id keeps it, so that results can be joined with the data. Ids that occur in more than one file
    are counted. A sequence without an id gets its number among all sequences, or the next number that is not yet used
    as an id.
    """

    files: int = 1
    repeated: int = 0  # ids of an earlier file
    example: str = ""  # one of them, in words
    _count: int = 0  # sequences so far
    _next: int = 0  # the next number
    _seen: dict[str, str] = field(default_factory=dict)  # ids of the files, with the file of each

    def of(self, some: Sequence[Example], path: str) -> list[Any]:
        """The ids of the next sequences, which are in this file."""
        return [self._name(example, path) for example in some]

    def _name(self, example: Example, path: str) -> Any:
        self._next = max(self._next, self._count)
        self._count += 1
        if example.id is None:
            while str(self._next) in self._seen:
                self._next += 1
            self._next += 1
            return self._next - 1
        if self.files > 1:  # in one file, ids may repeat
            first = self._seen.get(str(example.id), path)
            if first != path:
                self.repeated += 1
                self.example = self.example or f"{example.id} in {called(first)} and {called(path)}"
            elif len(self._seen) < MOST:
                self._seen[str(example.id)] = path
        return example.id

    def told(self) -> str:
        """The text of a warning about repeated ids; "" if there are none."""
        if not self.repeated:
            return ""
        return (
            f"sequences in different files have the same id ({self.repeated:,}, such as {self.example}); "
            "tag the files one by one to distinguish them"
        )
