"""Ray: tag datasets with a pool of actors, and go on after a crash.

import ray
from bridle.integrations.ray import run, tag

tagged = tag(ray.data.read_parquet("refs"), "refs.bridle", rules, actors=2)   # a dataset
run("refs", "tagged", "refs.bridle", rules, id_column="id")                    # files, resumable and checked
"""

from __future__ import annotations

import math
import os
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from glob import glob
from itertools import chain
from typing import Any

from bridle.arrays import is_integer
from bridle.arrow import Tag
from bridle.arrow.base import Model, Rules, loaded
from bridle.errors import Argument, FileError, ModelError, shown
from bridle.extras import needed
from bridle.runs import ArrowFolder, Counts, RunResult, absolute, claim, compare, head_of

__all__ = ["RunSummary", "run", "tag"]

Actors = int | tuple[int, int]
RunSummary = RunResult
BLOCK_BYTES = 16 << 20  # of a checkpointed dataset: what one actor loses at most when it is killed


def _ray() -> Any:
    """Import ray, with ray.data."""
    needed("ray.data", "ray", "datasets of Ray need the package ray")
    return needed("ray", "ray", "datasets of Ray need the package ray")


def tag(
    dataset: Any,
    model: Model,
    rules: Rules = (),
    *,
    id_column: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    actors: Actors = 2,
    num_cpus: float | None = None,
    batch_size: int = 1024,
    block_bytes: int | None = None,
    **options: Any,
) -> Any:
    """Label the rows of a Ray dataset with a model, optionally under rules.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The rows, with a column of tokens (see `columns` of `bridle.arrow.Tag`). It is not changed.
    model : path, bytes or Tagger
        The model. Its file is read here and put into Ray's object store once; other machines need not have it.
    rules : iterable of Rule or str, or path, default ()
        Rules, their sentences, or the path of a ``.rules`` file, which is read here.
    id_column : str, optional
        Name of a column with a different value in every row; needed by `checkpoint`.
    checkpoint : path or URI, optional
        Folder that all machines see, where Ray keeps the ids of written rows. A killed job resumes from it when it
        is run again; without it, a second run would write every row again.
    actors : int or (int, int), default 2
        Number of actors, or the smallest and the largest number of a pool that grows and shrinks.
    num_cpus : float, optional
        Processors that each actor reserves. By default one, or a share of those that the cluster can spare.
    batch_size : int, default 1024
        Rows that an actor tags at once.
    block_bytes : int, optional
        Largest size of a block, in memory; one block is one written file and one step of a checkpoint. By default 16
        MiB with a checkpoint, else what the context of `dataset` says.
    **options
        Options of `bridle.arrow.Tag`: ``output``, ``scores``, ``k``, ``prefix`` and so on. With ``groups``, Ray brings
        the rows of each document together, in the order of `id_column`; this does not work with a checkpoint.

    Returns
    -------
    ray.data.Dataset
        The columns of `dataset`, then those that `bridle.arrow.Tag` adds. It has a context of its own.

    Raises
    ------
    ModelError
        If an argument is out of range, ids would be lost, rows come from memory although there is a checkpoint, or
        the cluster has too few processors.

    Examples
    --------
    >>> import bridle, ray
    >>> _ = ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    >>> crf = bridle.CRF(features=["word[0]", "label[-1]"]).fit([["a", "cat"], ["the", "dog"]], [["D", "N"]] * 2)
    >>> tagged = tag(ray.data.from_items([{"tokens": ["the", "cat"]}]), crf, ["at most 1 token of N"], actors=1)
    >>> tagged.take(1)[0]["labels"]
    ['D', 'N']
    >>> ray.shutdown()
    """
    data = _ray().data
    smallest, largest = _pool(actors)
    if not is_integer(batch_size, 1):
        _refuse("{argument} must be a positive integer", "batch_size", batch_size)
    if block_bytes is not None and not is_integer(block_bytes, 1):
        _refuse("{argument} must be a positive number of bytes", "block_bytes", block_bytes)
    tagger = Tag(loaded(model).tagger, rules, **options)  # pickled with the model
    _check_schema(dataset, tagger, id_column)
    if checkpoint is not None:
        _check_checkpoint(dataset, id_column)
    processors = float(_ray().cluster_resources().get("CPU", 0))
    settings: dict[str, Any] = {
        "batch_format": "pyarrow",
        "compute": data.ActorPoolStrategy(min_size=smallest, max_size=largest),
        "fn_constructor_args": (_ray().put(tagger), id_column),
        "num_cpus": cpus_per_actor(largest, num_cpus, total=processors, checkpoint=checkpoint is not None),
    }
    if tagger.groups is None:
        tagged = dataset.map_batches(BridleTag, batch_size=batch_size, **settings)
    else:
        if checkpoint is not None or id_column is None:
            got = "no id_column" if checkpoint is None else "a checkpoint"
            wanted = "id_column, which orders the rows of a document, and no checkpoint"
            raise ModelError("documents are brought together", got=got, wanted=wanted, argument=Argument("groups"))
        tagged = dataset.groupby(tagger.groups).map_groups(BridleTag, **settings)
    if checkpoint is None and block_bytes is None:
        return tagged
    tagged = data.Dataset.copy(tagged, _deep_copy=True)  # with its own context; that of `dataset` stays unchanged
    context = tagged.context
    context.target_max_block_size = block_bytes or BLOCK_BYTES
    context.target_min_block_size = min(context.target_min_block_size, context.target_max_block_size)
    if checkpoint is not None:
        saved = needed("ray.data.checkpoint", "ray", "checkpoints need Ray 2.60 or newer")
        context.checkpoint_config = saved.CheckpointConfig(
            id_column, absolute(checkpoint), delete_checkpoint_on_success=False
        )
    return tagged


class BridleTag:
    """An actor that tags; Ray creates one in each process of the pool, and shows its name."""

    def __init__(self, tagger: Any, id_column: str | None) -> None:
        self.tag: Tag = _ray().get(tagger)
        self.id_column = id_column

    def __call__(self, table: Any) -> Any:
        return self.tag(table if self.tag.groups is None else table.sort_by(self.id_column))


def cpus_per_actor(actors: int, num_cpus: float | None, *, total: float, checkpoint: bool) -> float:
    """Compute the processors that each actor may reserve of `total`, leaving some for the other parts of the job.

    >>> [cpus_per_actor(4, None, total=total, checkpoint=True) for total in (8, 6, 3, 2)]
    [1.0, 1.0, 0.25, 0.0]
    """
    others = 2 if checkpoint else 1
    if num_cpus is not None:
        if not (isinstance(num_cpus, (int, float)) and 0 <= num_cpus < math.inf):
            _refuse("{argument} must be a number of processors", "num_cpus", num_cpus)
        if actors * num_cpus + others > total:
            warnings.warn(
                f"{actors} actors x {num_cpus:g} processors and {others} for reading, writing"
                f"{' and the filter of a resumed job' if checkpoint else ''} are more than the {total:g} of the "
                "cluster; the job will wait until it has grown.",
                RuntimeWarning,
                stacklevel=3,
            )
        return num_cpus
    if total < others:
        cause = "A checkpointed job that goes on needs one for its filter and one to read and write. On your own "
        cause += "machine, ray.init(num_cpus=4) is enough, whatever it has."
        raise ModelError(
            "the cluster has too few processors", got=f"{total:g}", wanted=f"at least {others}", cause=cause
        )
    return min(1.0, math.floor((total - others) / actors * 100) / 100)


def _pool(actors: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of actors."""
    pair = actors if isinstance(actors, (tuple, list)) else (actors, actors)
    if len(pair) != 2 or not is_integer(pair[0], 1) or not is_integer(pair[1], pair[0]):
        _refuse("{argument} must be a positive integer or a pair (smallest, largest)", "actors", actors)
    return int(pair[0]), int(pair[1])


def _check_schema(dataset: Any, tagger: Tag, id_column: str | None) -> None:
    """Raise `ModelError` if a column is missing, as far as columns are known before data is read."""
    schema = dataset.schema(fetch_if_missing=False)
    before = getattr(schema, "base_schema", None)
    if before is None or not hasattr(before, "metadata"):  # unknown yet, or not of Arrow
        return
    after = tagger.check(before).schema(before)
    if id_column is not None and id_column not in after.names:
        what, argument = "{argument} is not a column of the result", Argument("id_column", id_column)
        cause = "The option keep must name it." if id_column in before.names else None
        raise ModelError(what, got=", ".join(after.names), argument=argument, cause=cause)


def _check_checkpoint(dataset: Any, id_column: str | None) -> None:
    if not isinstance(id_column, str) or not id_column:
        wanted = "the name of a column with a different value in every row"
        raise ModelError(
            "a checkpoint needs {argument}", got=shown(id_column), wanted=wanted, argument=Argument("id_column")
        )
    if not _reads_files(dataset._logical_plan.dag):
        what, got = "only rows that are read from files can be checkpointed", str(dataset._logical_plan.dag.name)
        cause = "Ray would write all rows again when the job goes on. Write them to files first."
        raise ModelError(what, got=got, wanted="ray.data.read_parquet and the like", cause=cause)


def _reads_files(operator: Any) -> bool:
    """Return True if all rows come from files, so that Ray can filter them."""
    if type(operator).__name__ in ("Read", "ReadFiles"):
        return True
    return bool(operator.input_dependencies) and all(map(_reads_files, operator.input_dependencies))


def _refuse(what: str, name: str, value: object) -> None:
    raise ModelError(what, got=shown(value), argument=Argument(name))


# ---- from Parquet files to Parquet files ----------------------------------------------------------------------------
# out/NAME-0.parquet                    rows
# checkpoint/_manifest.jsonl            head of the run
# checkpoint/ids/NAME.parquet           ids, once the file of rows is complete
# checkpoint/ids/NAME.pending.parquet   ids, while it is written
#
# Ray writes the pending ids, then the rows, then renames the ids; when it resumes, it deletes the rows of pending ids.
# If a retried task is killed between these steps, or a file is deleted, ids may be recorded without their rows.
# `reconcile` compares both sides before a run resumes, and removes files without a counterpart.

_SIZES = ("actors", "num_cpus", "batch_size", "block_bytes")  # options that may differ when a run resumes
_NAME = re.compile(
    r"(\w+_[0-9a-f]{32}_\d{6,})(?:-\d+|(\.pending))?\.parquet"
)  # as Ray names files: dataset, write, task


def run(
    inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    model: Model,
    rules: Rules = (),
    *,
    id_column: str = "id",
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> RunSummary:
    """Label the rows of Parquet files on a Ray cluster. A run resumes when it is called again after a crash.

    Parameters
    ----------
    inputs : path, URI, or list of them
        Parquet files, or folders of them, that all machines see.
    out : path or URI
        Folder of the output, which all machines see. It is created if it does not exist.
    id_column : str, default "id"
        Name of a column with a different value in every row.
    checkpoint : path or URI, optional
        Folder of the checkpoint. By default the name of `out` with ``.checkpoint`` appended.
    model, rules, **options
        As for `tag`: ``actors``, ``num_cpus``, ``batch_size``, ``block_bytes`` and the options of `bridle.arrow.Tag`.

    Returns
    -------
    RunSummary
        Counts, after the ids of the output have been compared with those of the input.

    Raises
    ------
    FileError
        If the inputs cannot be read, an id is missing, the folders belong to another run, or ids of the output are
        not those of the input.

    Examples
    --------
    >>> summary = run("refs", "tagged", "refs.bridle", ["at most 1 segment of TITLE"])  # doctest: +SKIP
    >>> summary.rows, summary.resumed, summary.files, summary.checksum  # doctest: +SKIP
    (100000, 0, 50, '5bd3f0a2c0de9b11')
    """
    begun, place = time.monotonic(), absolute(out)
    kept = absolute(checkpoint) if checkpoint is not None else place.rstrip("/") + ".checkpoint"
    if f"{kept.rstrip('/')}/".startswith(f"{place.rstrip('/')}/"):
        what, cause = "the checkpoint cannot lie in the output", "Ray lists the output."
        raise FileError(what, got=kept, wanted="another folder", cause=cause)
    paths = [absolute(path) for path in ([inputs] if isinstance(inputs, (str, os.PathLike)) else inputs)]
    tagger = loaded(model).tagger
    files, inside = parquet_files(paths)
    expected = count_rows(files, inside, id_column)
    rows, notes, ids = ArrowFolder(place), ArrowFolder(kept), ArrowFolder(f"{kept.rstrip('/')}/ids")
    fixed = {name: value for name, value in options.items() if name not in _SIZES}
    parsed = Tag(tagger, rules, **fixed).rules
    dataset = _ray().data.read_parquet(inside, filesystem=files)
    tagged = tag(dataset, tagger, parsed, id_column=id_column, checkpoint=ids.path, **options)
    fixed["id_column"] = id_column
    claim(notes, head_of(tagger.fingerprint_, parsed, fixed, [{"path": path} for path in sorted(paths)], "ray"), rows)
    reconcile(rows, ids)
    before = after = _count_written(rows, id_column, options)
    if (before.rows, before.ids) != (expected.rows, expected.ids):
        tagged.write_parquet(place)
        after = _count_written(rows, id_column, options)
    cause = "Are there ids that occur twice in the input? Have the inputs changed since the run began?"
    compare(after, expected, place, cause=cause)
    facts = {"shards": len(rows.names()), "rows_before": before.rows, "seconds": time.monotonic() - begun}
    return RunResult.of(place, after, state="nothing to do" if before is after else "finished", **facts)


def parquet_files(paths: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the file system and the sorted Parquet files at absolute paths or URIs, and in folders there."""
    fs = needed("pyarrow.fs", "ray", "files of Ray need PyArrow")
    names: list[str] = []
    files = None
    for path in chain.from_iterable(map(_matches, paths)):
        files, inside = fs.FileSystem.from_uri(path)
        info = files.get_file_info(inside)
        if info.type == fs.FileType.File:
            names.append(inside)
        elif info.type == fs.FileType.Directory:
            below = files.get_file_info(fs.FileSelector(inside, recursive=True))
            names += [file.path for file in below if file.type == fs.FileType.File and file.extension == "parquet"]
        else:
            raise FileError("there is no such file", got=path, wanted="a Parquet file, or a folder of them", where=path)
    if not names:
        raise FileError("there are no Parquet files", got=shown(list(paths)), wanted="files *.parquet")
    return files, sorted(names)


def _matches(path: str) -> list[str]:
    """Expand a pattern of local files; return other paths unchanged."""
    pattern = "://" not in path and any(sign in path for sign in "*?[")
    return sorted(glob(path, recursive=True)) or [path] if pattern else [path]  # noqa: PTH207  (from the root)


def count_rows(files: Any, paths: Sequence[str], id_column: str, prefix: str = "") -> Counts:
    """Count the rows of Parquet files; `FileError` if a file cannot be read, or has rows without an id."""
    pa, dataset = needed("pyarrow", "ray", "Parquet files"), needed("pyarrow.dataset", "ray", "Parquet files")
    counts = Counts()
    if not paths:
        return counts
    try:
        rows = dataset.dataset(list(paths), filesystem=files, format="parquet")
        names = rows.schema.names
        if id_column not in names:
            raise FileError(f"there is no column {id_column!r}", got=", ".join(names), where=paths[0])
        columns = [name for name in (id_column, f"{prefix}status", f"{prefix}error") if name in names]
        for batch in rows.to_batches(columns=columns):
            if missing := batch.column(id_column).null_count:
                raise FileError("rows have no id", got=f"{missing:,} rows", wanted=f"a value of {id_column!r}")
            counts += Counts.of(batch, id_column, prefix)
    except (pa.ArrowInvalid, OSError) as error:
        raise FileError("cannot read Parquet files", got=str(error), where=paths[0]) from error
    return counts


def _count_written(rows: ArrowFolder, id_column: str, options: Mapping[str, Any]) -> Counts:
    """Count the rows of the output."""
    return count_rows(rows.files, [rows.at(name) for name in rows.names()], id_column, options.get("prefix", ""))


def reconcile(rows: ArrowFolder, ids: ArrowFolder) -> int:
    """Remove files of rows without recorded ids, and of ids without rows; return their number.

    Raises `FileError` if there is a file that Ray has not written.
    """
    named: dict[str, list[tuple[ArrowFolder, str]]] = defaultdict(list)  # by the write that they belong to
    balance: dict[str, float] = defaultdict(int)  # written rows minus recorded ids
    for folder, sign in ((rows, 1), (ids, -1)):
        for name in folder.names():
            match = _NAME.fullmatch(name)
            if match is None:
                what, cause = "a file is not of this run", "Move it elsewhere, or write to another folder."
                raise FileError(what, got=name, wanted="only files that Ray wrote", where=folder.path, cause=cause)
            named[match[1]].append((folder, name))
            balance[match[1]] += sign * (math.nan if match[2] else _rows(folder, name))
    unequal = [file for key, files in named.items() if balance[key] != 0 for file in files]
    for folder, name in unequal:
        folder.remove([name])
    return len(unequal)


def _rows(folder: ArrowFolder, name: str) -> float:
    """Return the number of rows of a Parquet file; NaN if it is cut off."""
    pa, pq = needed("pyarrow", "ray", "files of Ray need PyArrow"), needed("pyarrow.parquet", "ray", "Parquet")
    try:
        return int(pq.read_metadata(folder.at(name), filesystem=folder.files).num_rows)
    except (pa.ArrowInvalid, OSError):
        return math.nan
