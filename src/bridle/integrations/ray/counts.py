"""Which rows there are: Parquet files, how many rows they have, and a checksum of their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import glob
from itertools import chain
from typing import Any

from bridle.bulk import checksum
from bridle.errors import FileError, shown
from bridle.extras import needed


@dataclass
class Counts:
    """How many rows, of which status, and the sum of a 64-bit hash of every id, modulo 2**64."""

    rows: int = 0
    checksum: int = 0
    status: Counter[str] = field(default_factory=Counter)

    def same_ids(self, other: Counts) -> bool:
        """Does each id occur equally often in both?"""
        return (self.rows, self.checksum) == (other.rows, other.checksum)


def file_system(path: str) -> tuple[Any, str]:
    """The file system of an absolute path or a URI, and the path there."""
    files, inside = needed("pyarrow.fs", "ray", "files of Ray need PyArrow").FileSystem.from_uri(path)
    return files, inside


def parquet_files(paths: Sequence[str]) -> tuple[Any, list[str]]:
    """The file system of some absolute paths or URIs, and the Parquet files there and in folders there, sorted.

    Raises
    ------
    FileError
        If there is nothing.
    """
    fs = needed("pyarrow.fs", "ray", "files of Ray need PyArrow")
    found: list[str] = []
    files = None
    for path in chain.from_iterable(map(_matches, paths)):
        files, inside = file_system(path)
        info = files.get_file_info(inside)
        if info.type == fs.FileType.File:
            found.append(inside)
        elif info.type == fs.FileType.Directory:
            below = files.get_file_info(fs.FileSelector(inside, recursive=True))
            found += [one.path for one in below if one.type == fs.FileType.File and one.extension == "parquet"]
        else:
            raise FileError("there is no such file", got=path, wanted="a Parquet file, or a folder of them", where=path)
    if not found:
        raise FileError("there are no Parquet files", got=shown(list(paths)), wanted="files *.parquet")
    return files, sorted(found)


def _matches(path: str) -> list[str]:
    """What a pattern of this machine's files stands for; anything else stands for itself."""
    pattern = "://" not in path and any(sign in path for sign in "*?[")
    return sorted(glob(path, recursive=True)) or [path] if pattern else [path]  # noqa: PTH207  (from the root)


def counted(files: Any, paths: Sequence[str], id_column: str, status: str | None = None) -> Counts:
    """Read the ids of Parquet files, and their status if that column is named.

    Raises
    ------
    FileError
        If a file cannot be read, or has rows without an id.
    """
    pa, dataset = needed("pyarrow", "ray", "Parquet files"), needed("pyarrow.dataset", "ray", "Parquet files")
    counts = Counts()
    if not paths:
        return counts
    try:
        found = dataset.dataset(list(paths), filesystem=files, format="parquet")
        if id_column not in found.schema.names:
            raise FileError(f"there is no column {id_column!r}", got=", ".join(found.schema.names), where=paths[0])
        for batch in found.to_batches(columns=[id_column] if status is None else [id_column, status]):
            ids = batch.column(0)
            if ids.null_count:
                raise FileError("rows have no id", got=f"{ids.null_count:,} rows", wanted=f"a value of {id_column!r}")
            counts.rows += len(ids)
            counts.checksum = (counts.checksum + checksum(list(map(str, ids.to_pylist())))) % 2**64
            if status is not None:
                counts.status.update(batch.column(1).to_pylist())
    except (pa.ArrowInvalid, OSError) as error:
        raise FileError("cannot read Parquet files", got=str(error), where=paths[0]) from error
    return counts
