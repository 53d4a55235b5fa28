"""From Parquet files to Parquet files: a run that goes on after a crash, and that is checked at its end."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bridle.errors import FileError
from bridle.integrations.ray.counts import counted, parquet_files
from bridle.integrations.ray.ledger import Ledger, inside
from bridle.integrations.ray.pool import (
    BLOCK_BYTES,
    Actors,
    Model,
    Rules,
    absolute,
    loaded,
    ray_package,
    rule_list,
    tag,
)

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True)
class RunSummary:
    """What a finished run wrote.

    Attributes
    ----------
    rows : int
        Rows in the output, as many as in the input.
    resumed : int
        Rows among them that earlier runs had written.
    status : dict of str to int
        Rows of each status: ``optimal``, ``error`` and so on.
    files : int
        Files in the output.
    checksum : int
        Sum of a 64-bit hash of every id, modulo 2**64: the same for input and output.
    """

    rows: int
    resumed: int
    status: dict[str, int]
    files: int
    checksum: int


def run(
    inputs: Paths,
    out: str | os.PathLike[str],
    model: Model,
    rules: Rules = (),
    *,
    id_column: str = "id",
    checkpoint: str | os.PathLike[str] | None = None,
    actors: Actors = 2,
    num_cpus: float | None = None,
    batch_size: int = 1024,
    block_bytes: int = BLOCK_BYTES,
    **options: Any,
) -> RunSummary:
    """Label the rows of Parquet files on a Ray cluster; run it again after a crash, and it goes on.

    Parameters
    ----------
    inputs : path, URI, or list of them
        Parquet files, or folders of them, that all machines see.
    out : path or URI
        Folder of the output, which all machines see. It is made if it does not exist.
    model : path, bytes or Tagger
        The model.
    rules : iterable of Rule or str, or path, default ()
        Rules, their sentences, or the path of a ``.rules`` file.
    id_column : str, default "id"
        Name of a column with a different value in every row.
    checkpoint : path or URI, optional
        Folder of what is done. By default the name of `out` with ``.checkpoint`` after it.
    actors, num_cpus, batch_size, block_bytes
        As for `tag`.
    **options
        Options of `bridle.arrow.Tag`.

    Returns
    -------
    RunSummary
        Counts, after the ids of the output have been compared with those of the input.

    Raises
    ------
    FileError
        If the inputs cannot be read, an id is missing, the folders belong to another run, or ids of the output are
        not those of the input.
    ModelError
        As for `tag`.

    Examples
    --------
    >>> run("refs", "tagged", "refs.bridle", ["at most 1 segment of TITLE"])  # doctest: +SKIP
    RunSummary(rows=100000, resumed=0, status={'optimal': 100000}, files=50, checksum=1209741...)
    """
    place = absolute(out)
    kept = absolute(checkpoint) if checkpoint is not None else place.rstrip("/") + ".checkpoint"
    if inside(kept, place):
        raise FileError(
            "the checkpoint cannot lie in the output", got=kept, wanted="another folder", cause="Ray lists the output."
        )
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    tagger = loaded(model)
    chosen = rule_list(rules)
    files, found = parquet_files([absolute(path) for path in paths])
    wanted = counted(files, found, id_column)
    dataset = ray_package().data.read_parquet(found, filesystem=files)
    ledger, status = Ledger(place, kept), f"{options.get('prefix', '')}status"
    sizes: dict[str, Any] = {
        "actors": actors,
        "num_cpus": num_cpus,
        "batch_size": batch_size,
        "block_bytes": block_bytes,
    }
    tagged = tag(dataset, tagger, chosen, id_column=id_column, checkpoint=ledger.ids, **sizes, **options)
    ledger.claim(
        {
            "model": hashlib.sha256(tagger.to_bytes()).hexdigest(),
            "inputs": sorted(absolute(path) for path in paths),
            "rules": [repr(rule) for rule in chosen],  # with the phrases of lists
            "id_column": id_column,
            "options": {name: repr(value) for name, value in sorted(options.items())},
        }
    )
    ledger.reconcile()
    before = ledger.counted(id_column, status)
    if not before.same_ids(wanted):
        tagged.write_parquet(place)
    after = ledger.counted(id_column, status)
    if not after.same_ids(wanted):
        raise FileError(
            "the ids of the output are not those of the input",
            got=f"{after.rows:,} rows with checksum {after.checksum:016x}",
            wanted=f"{wanted.rows:,} rows with checksum {wanted.checksum:016x}",
            where=place,
            cause="Are there ids that occur twice in the input? Have the inputs changed since the run began?",
        )
    return RunSummary(after.rows, before.rows, dict(after.status), len(ledger.files()), after.checksum)
