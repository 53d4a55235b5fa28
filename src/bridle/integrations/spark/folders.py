"""Files in a folder that Spark can reach: on this machine, in HDFS or in an object store."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any


class Folder:
    """A folder, through the file systems of Hadoop.

    Spark has no public way to list and delete files; its `_jvm` is what programs use for that.
    """

    def __init__(self, spark: Any, path: str) -> None:
        self.path = path
        self._fs = spark.sparkContext._jvm.org.apache.hadoop.fs
        self._settings = spark.sparkContext._jsc.hadoopConfiguration()

    @cached_property
    def _files(self) -> Any:
        return self._fs.Path(self.path).getFileSystem(self._settings)

    def _at(self, name: str) -> Any:
        return self._fs.Path(self._fs.Path(self.path), name)

    def names(self) -> list[str]:
        """The names in the folder, in order; none if it does not exist."""
        folder = self._fs.Path(self.path)
        found = self._files.listStatus(folder) if self._files.exists(folder) else ()
        return sorted(status.getPath().getName() for status in found)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files."""
        for name in names:
            self._files.delete(self._at(name), False)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a file, which is complete or not there."""
        part = self._at(f"{name}.part")
        stream = self._files.create(part, True)
        try:
            stream.write(data)
        finally:
            stream.close()
        self._files.rename(part, self._at(name))
