"""The configuration of a training run, saved next to its model: settings, data and results.

People can read MODEL.json, and `bridle train --config` repeats the run with the `settings` in it.
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
from bridle.extras import versions
from bridle.features import FeatureChoice
from bridle.models import CRF, Progress, Tagger
from bridle.models.checks import count_of_threads, jsonable
from bridle.report import Scores
from bridle.rules.loading import read_text

_COMMAND = "bridle train"
# Options about output are not part of a run; and repeating a resumed run means repeating all of it.
_LEFT_OUT = {"config", "progress", "as_json", "resume"}


def place_of(model: Path) -> Path:
    """The path of the configuration of a model."""
    return model.with_name(model.name + ".json")


def place_beside(model: Path) -> Path:
    """The path for the configuration of a new model. Refuses to overwrite other files."""
    place = place_of(model)
    if place.exists():
        try:
            read_config(place)
        except FileError:
            raise FileError(
                "this file exists and would be overwritten",
                got="a file that is not a training configuration",
                wanted="another name for the model",
                cause=f"bridle train writes the configuration there, next to {model.name}.",
                where=str(place),
            ) from None
    return place


def read_config(path: Path) -> dict[str, Any]:
    """What `write_config` wrote."""
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        wanted = "what bridle train writes next to a model"
        raise FileError("not JSON", got=str(error), wanted=wanted, where=str(path)) from None
    if not isinstance(found, dict) or found.get("command") != _COMMAND or not isinstance(found.get("settings"), dict):
        got = "other JSON" if not isinstance(found, dict) or "command" not in found else shown(found["command"])
        wanted = f'"command": "{_COMMAND}", settings'
        raise FileError("not a training configuration", got=got, wanted=wanted, where=str(path))
    return found


def _set(context: typer.Context, path: Path | None) -> Path | None:
    """Use the settings of a file as defaults of the options."""
    if path is None or context.resilient_parsing:
        return path
    known = {str(one.name) for one in context.command.params}
    settings = {name.replace("-", "_"): value for name, value in read_config(path)["settings"].items()}
    if unknown := sorted(set(settings) - known):
        raise FileError(
            "unknown setting",
            got=repr(unknown[0]),
            wanted="names of options of bridle train",
            cause="Is it misspelled, or from another version of Bridle?",
            where=str(path),
        )
    data = settings.get("data") or []
    if not isinstance(data, list) or not all(isinstance(one, str) for one in data):
        wanted = '"data": ["train.txt", ...]'
        raise FileError('"data" must be a list of files', got=shown(data), wanted=wanted, where=str(path))
    if isinstance(settings.get("rules"), str):  # of a version that took one file
        settings["rules"] = [settings["rules"]]
    context.default_map = {name: value for name, value in settings.items() if value is not None}
    return path


TheConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_set,
        help="Repeat the run recorded in MODEL.json; options and DATA on the command line override it.",
    ),
]


def settings_of(context: typer.Context) -> dict[str, Any]:
    """All options in the order of the help, including those with default values."""
    names = [str(one.name) for one in context.command.params]
    return {name: _plain(context.params[name]) for name in names if name in context.params and name not in _LEFT_OUT}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def described(paths: Sequence[str], examples: Sequence[Example]) -> dict[str, Any]:
    """Data files with their sizes in bytes, and counts of sequences, tokens and labels."""
    labels = Counter(label for example in examples for label in example.labels or ())
    missing = labels.pop(None, 0)
    sizes = {path: Path(path).stat().st_size if Path(path).is_file() else None for path in paths}  # None: a pipe, say
    return {
        "files": [{"file": path, "bytes": size} for path, size in sizes.items()],
        "sequences": len(examples),
        "tokens": sum(map(len, examples)),
        "labels": dict(sorted((str(label), count) for label, count in labels.items())),
        **({"missing_labels": missing} if missing else {}),
    }


def changes(config: Path, now: Mapping[str, Any]) -> Iterator[str]:
    """Files whose size has changed since a configuration was written."""
    before = read_config(config)
    for part in ("data", "dev"):
        then, sizes = _sizes(before.get(part)), _sizes(now.get(part))
        for file in then.keys() & sizes.keys():
            if then[file] != sizes[file]:
                yield f"{file} has changed: {then[file]:,} bytes then, {sizes[file]:,} now"


def _sizes(part: Any) -> dict[str, int]:
    """Bytes by file. People may have edited the configuration, so invalid entries are skipped."""
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
    """The record of a run: settings, data (and `dev`) and results."""
    progress = model.progress_
    return {
        "command": _COMMAND,
        "settings": settings,
        **data,
        "model": {
            "kind": type(model).__name__,
            **{name: jsonable(value) for name, value in model.get_params().items()},
            **({"c1": model.c1_, "c2": model.c2_} if isinstance(model, CRF) and model.algorithm == "lbfgs" else {}),
            **({} if (chosen := model.feature_set_) is None else _chosen(chosen)),
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


def _chosen(features: FeatureChoice) -> dict[str, Any]:
    """The features that were chosen automatically."""
    return {"features": list(features.templates), "feature_set": {"name": features.name, "why": features.why}}


def scores_of(found: Scores, progress: Progress, commonest: str) -> dict[str, Any]:
    """The scores of a model on the development set, and the iteration of the best score.

    commonest: the most frequent label of the training data; always predicting it is the baseline.
    """
    alone = found.by_label[commonest].gold / found.tokens if commonest in found.by_label else 0.0
    return {
        "iteration": progress.best_iteration,
        "measure": progress.measure,
        "best": progress.best_score,
        "accuracy": found.accuracy,
        "always": {"label": commonest, "accuracy": alone},
        "exact": found.exact,
        "segments": found.segments.to_dict(),
    }


def write_config(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record atomically, as JSON."""
    write_text(path, _lines(record, 2) + "\n")


def _lines(value: Any, depth: int, before: str = "") -> str:
    """JSON with each entry of an object on its own line, down to some depth; a list stays on one line."""
    if not isinstance(value, Mapping) or not value or not depth:
        return json_line(value)
    more = before + "  "
    parts = (f"{more}{json_line(name)}: {_lines(part, depth - 1, more)}" for name, part in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{before}}}"
