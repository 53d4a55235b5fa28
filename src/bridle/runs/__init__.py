"""Runs that can be resumed and checked: one manifest, one checksum of ids and one result for files, Spark and Ray."""

from bridle.runs.counts import Counts, RunResult, checksum, compare, id_sum, id_texts
from bridle.runs.manifest import (
    NAME,
    ArrowFolder,
    HadoopFolder,
    Manifest,
    Place,
    Record,
    Shard,
    absolute,
    claim,
    head_of,
    read,
)

__all__ = [
    "NAME",
    "ArrowFolder",
    "Counts",
    "HadoopFolder",
    "Manifest",
    "Place",
    "Record",
    "RunResult",
    "Shard",
    "absolute",
    "checksum",
    "claim",
    "compare",
    "head_of",
    "id_sum",
    "id_texts",
    "read",
]
