"""A pool of actors that tag the batches of a dataset, and the settings that Ray's checkpoints need.

A checkpointed job asks for processors in three places, and Ray starts none of it in part:

    actors x num_cpus   tag; they hold their processors until the job ends
    1                   filters what is done already: an actor that only a resumed job has
    1                   lists, reads or writes files: tasks, at least one of which must find a processor

If actors take all of them, the first task waits forever. So `cpus_per_actor` leaves two, or one without a checkpoint.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import bridle.models
import bridle.rules
from bridle.arrow import Tag
from bridle.checks import is_integer
from bridle.errors import Argument, ModelError, shown
from bridle.extras import needed
from bridle.models import Tagger, from_bytes
from bridle.rules.base import Rule

Actors = int | tuple[int, int]
Model = str | os.PathLike[str] | bytes | Tagger
Rules = str | os.PathLike[str] | Iterable[Rule | str]

BLOCK_BYTES = 16 << 20  # of a checkpointed dataset: what one actor loses at most when it is killed


def ray_package() -> Any:
    """The package, with its part for data."""
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
        The model. Its file is read here and put into Ray's object store once; every actor loads it from there, so other
        machines need not have the file.
    rules : iterable of Rule or str, or path, default ()
        Rules, their sentences, or the path of a ``.rules`` file, which is read here.
    id_column : str, optional
        Name of a column with a different value in every row; needed by `checkpoint`.
    checkpoint : path or URI, optional
        Where Ray keeps the ids of the rows that have been written, so that a job that was killed goes on when it is
        run again. All machines must see this folder. It is not deleted at the end: without it, a second run would
        write every row again.
    actors : int or (int, int), default 2
        Number of actors, or the smallest and the largest number of a pool that grows and shrinks.
    num_cpus : float, optional
        Processors that each actor reserves. By default one, or a share of those that the cluster can spare.
    batch_size : int, default 1024
        Rows that an actor tags at once.
    block_bytes : int, optional
        Largest size of a block, in memory; one block is one written file and one step of a checkpoint. By default 16
        MiB with a checkpoint, else what the context of `dataset` says (128 MiB, of which small jobs have only one).
    **options
        Options of `bridle.arrow.Tag`: ``output``, ``scores``, ``k``, ``prefix`` and so on.

    Returns
    -------
    ray.data.Dataset
        The columns of `dataset`, then those that `bridle.arrow.Tag` adds. It has a context of its own.

    Raises
    ------
    ModelError
        If an argument is out of range, the ids would be lost, the rows come from memory (Ray can only checkpoint
        what it reads from files), or the cluster has too few processors.

    Examples
    --------
    >>> import bridle, ray
    >>> _ = ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    >>> ray.data.DataContext.get_current().enable_progress_bars = False
    >>> crf = bridle.CRF(features=["word[0]", "label[-1]"]).fit([["a", "cat"], ["the", "dog"]], [["D", "N"]] * 2)
    >>> tagged = tag(ray.data.from_items([{"tokens": ["the", "cat"]}]), crf, ["at most 1 token of N"], actors=1)
    >>> tagged.take(1)[0]["labels"]
    ['D', 'N']
    >>> ray.shutdown()
    """
    data = ray_package().data
    smallest, largest = _pool(actors)
    if not is_integer(batch_size, 1):
        _refuse("{argument} must be a positive integer", "batch_size", batch_size)
    if block_bytes is not None and not is_integer(block_bytes, 1):
        _refuse("{argument} must be a positive number of bytes", "block_bytes", block_bytes)
    made = Tag(loaded(model), rule_list(rules), **options)
    _check_schema(dataset, made, id_column)
    if checkpoint is not None:
        _check_checkpoint(dataset, id_column)
    processors = float(ray_package().cluster_resources().get("CPU", 0))
    tagged = dataset.map_batches(
        BridleTag,
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=data.ActorPoolStrategy(min_size=smallest, max_size=largest),
        fn_constructor_args=(ray_package().put(made),),
        num_cpus=cpus_per_actor(largest, num_cpus, total=processors, checkpoint=checkpoint is not None),
    )
    if checkpoint is None and block_bytes is None:
        return tagged
    tagged = data.Dataset.copy(tagged, _deep_copy=True)  # with a context of its own; that of `dataset` stays as it is
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
    """What an actor does: Ray makes one in each process of the pool, and shows its name."""

    def __init__(self, made: Any) -> None:
        self.tag: Tag = ray_package().get(made)

    def __call__(self, table: Any) -> Any:
        """The table, with the columns of `bridle.arrow.Tag`."""
        return self.tag(table)


def loaded(model: Model) -> Tagger:
    """The model; errors of its file come from here and not from an actor."""
    if isinstance(model, Tagger):
        return model
    return from_bytes(model) if isinstance(model, bytes) else bridle.models.load(os.fspath(model))


def rule_list(rules: Rules) -> list[Rule | str]:
    """Rules, with those of a file read here."""
    return [*bridle.rules.load(Path(rules))] if isinstance(rules, (str, os.PathLike)) else list(rules)


def absolute(path: str | os.PathLike[str]) -> str:
    """A URI as it is, a path from the root: workers of Ray have other working folders."""
    text = os.fspath(path)
    return text if "://" in text else str(Path(text).absolute())


def cpus_per_actor(actors: int, num_cpus: float | None, *, total: float, checkpoint: bool) -> float:
    """Processors that each actor may reserve of `total`, so that the other parts of the job find some.

    >>> [cpus_per_actor(4, None, total=total, checkpoint=True) for total in (8, 6, 3, 2)]
    [1.0, 1.0, 0.25, 0.0]

    Raises
    ------
    ModelError
        If the cluster has too few even for the other parts.
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
        raise ModelError(
            "the cluster has too few processors",
            got=f"{total:g}",
            wanted=f"at least {others}",
            cause="A checkpointed job that goes on needs one for its filter and one to read and write. On your own "
            "machine, ray.init(num_cpus=4) is enough, whatever it has.",
        )
    return min(1.0, math.floor((total - others) / actors * 100) / 100)


def _pool(actors: Any) -> tuple[int, int]:
    """The smallest and the largest number of actors."""
    pair = actors if isinstance(actors, (tuple, list)) else (actors, actors)
    if len(pair) != 2 or not is_integer(pair[0], 1) or not is_integer(pair[1], pair[0]):
        _refuse("{argument} must be a positive integer or a pair (smallest, largest)", "actors", actors)
    return int(pair[0]), int(pair[1])


def _check_schema(dataset: Any, made: Tag, id_column: str | None) -> None:
    """Tokens and ids are there, as far as that is known before anything is read."""
    schema = dataset.schema(fetch_if_missing=False)
    before = getattr(schema, "base_schema", None)
    if before is None or not hasattr(before, "metadata"):  # unknown yet, or not of Arrow
        return
    after = made.check(before).schema(before)
    if id_column is not None and id_column not in after.names:
        raise ModelError(
            "{argument} is not a column of the result",
            got=", ".join(after.names),
            argument=Argument("id_column", id_column),
            cause="The option keep must name it." if id_column in before.names else None,
        )


def _check_checkpoint(dataset: Any, id_column: str | None) -> None:
    if not isinstance(id_column, str) or not id_column:
        raise ModelError(
            "a checkpoint needs {argument}",
            got=shown(id_column),
            wanted="the name of a column with a different value in every row",
            argument=Argument("id_column"),
        )
    if not _reads_files(dataset._logical_plan.dag):
        raise ModelError(
            "only rows that are read from files can be checkpointed",
            got=str(dataset._logical_plan.dag.name),
            wanted="ray.data.read_parquet and the like",
            cause="Ray would write all rows again when the job goes on. Write them to files first.",
        )


def _reads_files(operator: Any) -> bool:
    """Do all rows come from operators before which Ray can filter?"""
    if type(operator).__name__ in ("Read", "ReadFiles"):
        return True
    return bool(operator.input_dependencies) and all(map(_reads_files, operator.input_dependencies))


def _refuse(what: str, name: str, value: object) -> None:
    raise ModelError(what, got=shown(value), argument=Argument(name))
