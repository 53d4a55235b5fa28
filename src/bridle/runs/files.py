"""Label files: `tag_files` writes shards or one file, `check` reads shards again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bridle.data.base import format_named
from bridle.data.blocks import ROWS, Pace
from bridle.data.files import check_places, files, opened
from bridle.errors import Argument, FileError, shown
from bridle.models import Tagger, load
from bridle.rules.base import Rule
from bridle.runs.counts import Counts, RunResult, compare, text_sum
from bridle.runs.manifest import read
from bridle.runs.output import ShardSize, check_files, format_by_name, is_folder, shard_format, write_one, write_shards
from bridle.runs.run import MEMORY, OnError, Progress, Run, want_of
from bridle.tagging.block import Ids


def tag_files(
    model: str | os.PathLike[str] | Tagger,
    inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    rules: Iterable[Rule | str] = (),
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    to: str | None = None,
    resume: bool = True,
    shard_size: ShardSize | None = None,
    scores: bool = False,
    k: int = 1,
    memory: int = MEMORY,
    threads: int = 0,
    on_error: OnError = "row",
    progress: Callable[[Progress], None] | None = None,
    **decoder: Any,
) -> RunResult:
    """Label the sequences of files with a model, optionally under rules; go on where an earlier call was stopped.

    With `resume`, the output is a folder of shards with a manifest. If the process is killed, the same call goes on
    after the last finished shard; no row is lost or doubled. A row without an id gets its number in the run, from 0,
    even if another row has that as its id.

    Parameters
    ----------
    model : path or Tagger
        The model.
    inputs : path or list of paths
        Files, folders, or patterns such as ``"data/*.jsonl"``.
    out : path
        A folder, which is made if it does not exist; without `resume` also a file.
    rules : list of Rule or str, optional
        Rules to obey.
    format : str, optional
        Format of the input, one of `bridle.data.formats`; by default by its suffix or its first lines.
    options : dict, optional
        Options of the format.
    to : str, optional
        Format of the output; by default that of the name `out`, or of the input, or Parquet. Shards are ``"parquet"``,
        ``"arrow"``, ``"jsonl"`` or ``"conll"``.
    resume : bool, default True
        Whether to begin a run that can be resumed, or to go on with one. False writes one file, or shards into a new
        folder if `out` ends with a slash or is a folder.
    shard_size : ShardSize, optional
        When a shard is full; by default at 256 MB before compression. It ends with the block of up to 4096 rows that
        reaches this size.
    scores : bool, default False
        Whether to add score, bound and probabilities, as `bridle.arrow.Tag` does.
    k : int, default 1
        If it is above 1, add the k best labellings.
    memory : int, default 1 GB
        Bytes for rows under way, besides the model.
    threads : int, default 0
        Threads that label; 0 uses all processors.
    on_error : {"row", "raise"}, default "row"
        Whether a row that cannot be labelled is written with the status "error" and its message, or stops the run.
    progress : callable, optional
        Called with a `Progress` after each block of rows, and at least four times a second.
    **decoder
        Options of `Decoder`, such as ``time_limit``. ``on_infeasible`` is ``"relax"`` by default.

    Returns
    -------
    RunResult

    Raises
    ------
    FileError
        If a file cannot be read or written, or `out` holds a run with another model, other rules, options or inputs.
        What is finished stays; call it again to go on.

    Examples
    --------
    >>> import bridle, pathlib, tempfile
    >>> from bridle.bulk import tag_files
    >>> model = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "left"]] * 2, [["PER", "O"]] * 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.jsonl")
    ...     _ = path.write_text('{"id": "a", "tokens": ["Ann", "left"]}\\n{"id": "b", "tokens": ["we"]}\\n')
    ...     run = tag_files(model, path, pathlib.Path(folder, "tagged"), to="jsonl")
    ...     print(run.rows, run.tokens, dict(run.status))
    ...     print(tag_files(model, path, pathlib.Path(folder, "tagged"), to="jsonl").state)
    2 3 {'optimal': 2}
    nothing to do
    """
    if on_error not in ("row", "raise"):
        argument = Argument("on_error", on_error)
        raise FileError("unknown {argument}", got=shown(on_error), wanted="'row' or 'raise'", argument=argument)
    tagger = model if isinstance(model, Tagger) else load(os.fspath(model))
    named = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    place, asked = os.fspath(out), dict(options or {})
    settings = {"on_infeasible": "relax", **decoder}
    run = Run(
        tagger,
        tagger.decoder(rules, **settings),
        files(named),
        lambda path: opened(path, format, asked),
        want_of(scores=scores, k=k),
        k,
        on_error=on_error,
        threads=threads,
        memory=memory,
        progress=progress,
    )
    if resume or is_folder(place):
        shape = shard_format(to, place, run)
        check_places(named, place, f"part-00000.{shape.name}")
        reading = {"format": format, "options": asked, "scores": scores, "k": k, **settings}
        return write_shards(run, place, shape, options=reading, resume=resume, size=shard_size)
    begun, name = time.monotonic(), to or format_by_name(place) or run.first_format().name
    write_one(run, place, format_named(name, {}))
    return RunResult.of(place, run.counts, seconds=time.monotonic() - begun, left_out=dict(run.left_out))


def check(folder: str | os.PathLike[str]) -> RunResult:
    """Check that the shards of a finished run are what its manifest says.

    All shards are read: their rows are counted, and the checksum of their ids is computed again.

    Parameters
    ----------
    folder : path
        What `tag_files` or ``bridle tag -o FOLDER/`` wrote.

    Returns
    -------
    RunResult
        What the run has written.

    Raises
    ------
    FileError
        If the run has not finished; if a shard is missing, or has other rows than the manifest says.
    """
    record, where = read(folder), os.fspath(folder)
    check_files(Path(folder), record)
    if record.finished is None:
        got, wanted = f"{len(record.shards)} shards", "a run that has finished"
        raise FileError("the run has not finished", got=got, wanted=wanted, cause="Resume it.", where=where)
    name = str(record.head["options"]["to"])
    for shard in record.shards:
        path = str(Path(folder) / shard.name)
        source, format = opened(path, name, {})
        found = Counts()
        try:
            for block in format.blocks(source, 0, Pace(ROWS)):
                ids = 0
                if block.ids is not None and name != "conll":
                    ids = text_sum(Ids.packed(block.ids).known_texts(len(block)))
                found += Counts(len(block), ids=ids)
        finally:
            source.close()
        wanted_ids = 0 if name == "conll" else shard.counts.ids
        compare(found, replace(shard.counts, ids=wanted_ids), path, "a shard has other rows than the manifest says")
    return RunResult.of(where, record.counts, shards=len(record.shards))
