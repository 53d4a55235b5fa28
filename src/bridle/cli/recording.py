"""The configuration of a training, saved beside its model: what was asked for, what was there, what came out.

MODEL.json is read by people, and by `bridle train --config`, which repeats the run with the `settings` in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from bridle.atomic import write_text
from bridle.cli.base import json_line
from bridle.data import Example
from bridle.errors import FileError, shown
from bridle.models import CRF, Tagger
from bridle.models.checks import count_of_threads, jsonable
from bridle.report import Scores
from bridle.report.tables import versions
from bridle.rules.files import text_of

_COMMAND = "bridle train"
# How a run is looked at is no part of it; and whoever repeats a run that was resumed wants all of it.
_LEFT_OUT = {"config", "progress", "as_json", "resume"}


def place_beside(model: Path) -> Path:
    """Where the configuration of a model goes. What is there and is none stays as it is."""
    place = model.with_name(model.name + ".json")
    if place.exists():
        try:
            read_config(place)
        except FileError:
            raise FileError(
                "this file is in the way",
                got="what is no configuration",
                wanted="another name for the model",
                cause=f"The configuration of the training is written there, beside {model.name}.",
                where=str(place),
            ) from None
    return place


def read_config(path: Path) -> dict[str, Any]:
    """What `write_config` wrote."""
    try:
        found = json.loads(text_of(path))
    except (ValueError, RecursionError) as error:
        wanted = "what bridle train writes beside a model"
        raise FileError("not JSON", got=str(error), wanted=wanted, where=str(path)) from None
    if not isinstance(found, dict) or found.get("command") != _COMMAND or not isinstance(found.get("settings"), dict):
        got = "other JSON" if not isinstance(found, dict) or "command" not in found else shown(found["command"])
        wanted = f'"command": "{_COMMAND}", settings'
        raise FileError("no configuration of a training", got=got, wanted=wanted, where=str(path))
    return found


def _set(context: typer.Context, path: Path | None) -> Path | None:
    """The settings of a file are what options default to."""
    if path is None or context.resilient_parsing:
        return path
    known = {str(one.name) for one in context.command.params}
    settings = {name.replace("-", "_"): value for name, value in read_config(path)["settings"].items()}
    if unknown := sorted(set(settings) - known):
        raise FileError(
            "unknown setting",
            got=repr(unknown[0]),
            wanted="names of options of bridle train",
            cause="Misspelt, or of another version of Bridle?",
            where=str(path),
        )
    data = settings.get("data") or []
    if not isinstance(data, list) or not all(isinstance(one, str) for one in data):
        wanted = '"data": ["train.txt", ...]'
        raise FileError('"data" is not a list of files', got=shown(data), wanted=wanted, where=str(path))
    context.default_map = {name: value for name, value in settings.items() if value is not None}
    return path


TheConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_set,
        help="Repeat the run that MODEL.json tells of; options and DATA given here win over it.",
    ),
]


def settings_of(context: typer.Context) -> dict[str, Any]:
    """All options in the order of the help, those that were left out too."""
    names = [str(one.name) for one in context.command.params]
    return {name: _plain(context.params[name]) for name in names if name in context.params and name not in _LEFT_OUT}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def described(paths: Sequence[str], examples: Sequence[Example]) -> dict[str, Any]:
    """Files of data with their sizes in bytes, and what is in them."""
    labels = Counter(label for example in examples for label in example.labels or ())
    sizes = {path: Path(path).stat().st_size if Path(path).is_file() else None for path in paths}  # None: a pipe, say
    return {
        "files": [{"file": path, "bytes": size} for path, size in sizes.items()],
        "sequences": len(examples),
        "tokens": sum(map(len, examples)),
        "labels": dict(sorted(labels.items())),
    }


def changes(config: Path, now: Mapping[str, Any]) -> Iterator[str]:
    """Files that are not as large as they were when a configuration was written."""
    before = read_config(config)
    for part in ("data", "dev"):
        then, sizes = _sizes(before.get(part)), _sizes(now.get(part))
        for file in then.keys() & sizes.keys():
            if then[file] != sizes[file]:
                yield f"{file} has changed: {then[file]:,} bytes then, {sizes[file]:,} now"


def _sizes(part: Any) -> dict[str, int]:
    """Bytes by file; people may have edited them, so that what is none is passed over."""
    found = part.get("files") if isinstance(part, Mapping) else None
    files = found if isinstance(found, list) else []
    pairs = ((one.get("file"), one.get("bytes")) for one in files if isinstance(one, Mapping))
    return {file: size for file, size in pairs if isinstance(file, str) and isinstance(size, int)}


def recorded(
    model: Tagger,
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    seconds: float,
    scores: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A run: its settings, its data (and `dev`), and what came out."""
    progress = model.progress_
    return {
        "command": _COMMAND,
        "settings": settings,
        **data,
        "model": {
            "kind": type(model).__name__,
            **{name: jsonable(value) for name, value in model.get_params().items()},
            **({"c1": model.c1_, "c2": model.c2_} if isinstance(model, CRF) and model.algorithm == "lbfgs" else {}),
            "labels": list(model.labels_.names),
            "weights": model.n_weights_,
        },
        "training": {
            "iterations": progress.iteration,
            "ended": progress.why or "interrupted",
            "seconds": round(seconds, 3),
            "threads": count_of_threads(model.threads),
            "loss": progress.losses[-1],
            "losses": progress.losses,
        },
        "tuning": None if model.tuning_ is None else model.tuning_.to_dict(),
        "scores": scores,
        "versions": versions(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def scores_of(found: Scores, iteration: int) -> dict[str, Any]:
    """How good a model is on the development set, and after which iteration it was that good."""
    return {"iteration": iteration, "accuracy": found.accuracy, "segments": found.segments.to_dict()}


def write_config(path: Path, record: Mapping[str, Any]) -> None:
    """Written aside first, so that it is there as a whole or not at all."""
    write_text(path, _lines(record, 2) + "\n")


def _lines(value: Any, depth: int, before: str = "") -> str:
    """JSON with the parts of objects on lines of their own, down to some depth; a list stays on one line."""
    if not isinstance(value, Mapping) or not value or not depth:
        return json_line(value)
    more = before + "  "
    parts = (f"{more}{json_line(name)}: {_lines(part, depth - 1, more)}" for name, part in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{before}}}"
