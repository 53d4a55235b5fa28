"""Formats of the output, and which reader a file gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridle.bulk.base import OnError, Reader
from bridle.bulk.inputs import reader_of

SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "jsonl": ".jsonl", "conll": ".conll"}  # of what can be written


def reader_for(format: str, options: Mapping[str, Any] | None = None, on_error: OnError = "raise") -> Reader:
    """The reader of a format of `bridle.data`."""
    return reader_of(format, on_error=on_error, **(options or {}))
