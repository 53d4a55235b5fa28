"""The record of a training run: settings, data and results, in MODEL.json next to the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle.atomic import write_text
from bridle.errors import FileError, shown
from bridle.extras import versions
from bridle.models.checks import count_of_threads
from bridle.models.crf import CRF
from bridle.models.tagger import Tagger
from bridle.models.training import Progress
from bridle.report import Scores
from bridle.rules.loading import read_text

if TYPE_CHECKING:
    from bridle.data import Example

_COMMAND = "bridle train"


def record_path(model: Path) -> Path:
    """Return the path of the record of a model."""
    return model.with_name(model.name + ".json")


def check_record_path(model: Path) -> Path:
    """Return the path for the record of a new model; raise `FileError` if another kind of file has that name."""
    path = record_path(model)
    if path.exists():
        try:
            read_record(path)
        except FileError:
            raise FileError(
                "this file exists and would be overwritten",
                got="a file that is not a training configuration",
                wanted="another name for the model",
                cause=f"bridle train writes the configuration there, next to {model.name}.",
                where=str(path),
            ) from None
    return path


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; raise `FileError` if the file is something else."""
    try:
        record = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        wanted = "what bridle train writes next to a model"
        raise FileError("not JSON", got=str(error), wanted=wanted, where=str(path)) from None
    if (
        not isinstance(record, dict)
        or record.get("command") != _COMMAND
        or not isinstance(record.get("settings"), dict)
    ):
        got = "other JSON" if not isinstance(record, dict) or "command" not in record else shown(record["command"])
        wanted = f'"command": "{_COMMAND}", settings'
        raise FileError("not a training configuration", got=got, wanted=wanted, where=str(path))
    return record


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record atomically, as JSON with a line for each entry."""
    write_text(path, _indented(record, 2) + "\n")


def build_record(
    model: Tagger,
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    seconds: float,
    scores: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the record of a run. data: descriptions of the training data and of `dev`."""
    progress, chosen = model.progress_, model.feature_set_
    details: dict[str, Any] = model._settings()
    if isinstance(model, CRF) and model.algorithm == "lbfgs":
        details |= {"c1": model.c1_, "c2": model.c2_}
    if chosen is not None:
        details |= {"features": list(chosen.templates), "feature_set": {"name": chosen.name, "why": chosen.why}}
    return {
        "command": _COMMAND,
        "settings": settings,
        **data,
        "model": {
            "kind": type(model).__name__,
            **details,
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


def describe_data(paths: Sequence[str], examples: Sequence[Example]) -> dict[str, Any]:
    """Return data files with their sizes in bytes, and counts of sequences, tokens and labels."""
    labels = Counter(label for example in examples for label in example.labels or ())
    missing = labels.pop(None, 0)
    sizes = {path: Path(path).stat().st_size if Path(path).is_file() else None for path in paths}  # None: a pipe
    return {
        "files": [{"file": path, "bytes": size} for path, size in sizes.items()],
        "sequences": len(examples),
        "tokens": sum(map(len, examples)),
        "labels": dict(sorted((str(label), count) for label, count in labels.items())),
        **({"missing_labels": missing} if missing else {}),
    }


def changed_files(record: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each file whose size has changed since the record was written."""
    for part in ("data", "dev", "unlabelled"):
        before, now = _sizes(record.get(part)), _sizes(data.get(part))
        for file in before.keys() & now.keys():
            if before[file] != now[file]:
                yield f"{file} has changed: {before[file]:,} bytes then, {now[file]:,} now"


def describe_scores(scores: Scores, progress: Progress, most_frequent: str) -> dict[str, Any]:
    """Return the scores on the development set next to the baseline that always predicts the most frequent label."""
    baseline = scores.by_label[most_frequent].gold / scores.tokens if most_frequent in scores.by_label else 0.0
    return {
        "iteration": progress.best_iteration,
        "measure": progress.measure,
        "best": progress.best_score,
        "accuracy": scores.accuracy,
        "always": {"label": most_frequent, "accuracy": baseline},
        "exact": scores.exact,
        "segments": scores.segments.to_dict(),
    }


def _sizes(part: Any) -> dict[str, int]:
    """Return bytes by file; invalid entries of a record that was edited are skipped."""
    files = part.get("files") if isinstance(part, Mapping) else None
    entries = [entry for entry in files if isinstance(entry, Mapping)] if isinstance(files, list) else []
    pairs = ((entry.get("file"), entry.get("bytes")) for entry in entries)
    return {file: size for file, size in pairs if isinstance(file, str) and isinstance(size, int)}


def _indented(value: Any, depth: int, indent: str = "") -> str:
    """Return JSON with each entry of an object on its own line, down to some depth; a list stays on one line."""
    if not isinstance(value, Mapping) or not value or not depth:
        line = json.dumps(value, ensure_ascii=False)
        return line if line.isprintable() else json.dumps(value)
    more = indent + "  "
    entries = (f"{more}{_indented(name, 0)}: {_indented(part, depth - 1, more)}" for name, part in value.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
