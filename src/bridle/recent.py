"""A cache of recently used values, bounded in entries and in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any


class RecentCache:
    """Values by keys; the least recently used ones are dropped when there are too many, or when they are too large."""

    def __init__(self, most_entries: int, most_bytes: int) -> None:
        self.most_entries, self.most_bytes = most_entries, most_bytes
        self.bytes = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Any:
        """Return the value, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def resize(self, key: Hashable, size: int) -> None:
        """Set the size of a value that has grown since it was stored, if it is still there."""
        with self._lock:
            if key in self._values:
                self.bytes += size - self._values[key][1]
                self._values[key] = self._values[key][0], size
                self._drop()

    def keep(self, key: Hashable, value: Any, size: int) -> None:
        """Store a value of about `size` bytes."""
        with self._lock:
            self.bytes += size - self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            self._drop()

    def _drop(self) -> None:
        while len(self._values) > self.most_entries or (self.bytes > self.most_bytes and len(self._values) > 1):
            _, (_, dropped) = self._values.popitem(last=False)
            self.bytes -= dropped
