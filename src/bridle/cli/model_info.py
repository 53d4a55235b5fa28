"""`bridle info MODEL`: describe a model file and its training configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import bridle
from bridle.cli.base import warn
from bridle.cli.recording import place_of, read_config
from bridle.errors import FileError
from bridle.features import SETS
from bridle.models import CRF, Tagger
from bridle.models.checks import jsonable
from bridle.models.predictor import top_by_label

_ALIKE = ("labels", "weights")  # parts that a model and its configuration must share


def about_model(path: Path, top: int, label: str | None) -> dict[str, Any]:
    """Describe a model, for JSON. label: a label or a segment type; None: all labels."""
    model = bridle.load(path)
    wanted = list(model.labels_.names)
    if label is not None:
        chosen = model.labels_.matching(label)
        wanted = [name for k, name in enumerate(wanted) if k in chosen]
    config = _config(path, model)
    data, counts = _mapping(config, "data"), _mapping(_mapping(config, "data"), "labels")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "kind": type(model).__name__,
        "version": model.notes_.get("version") or _mapping(config, "versions").get("bridle"),
        "time": config.get("time"),
        "fingerprint": model.fingerprint_,
        "labels": {name: counts.get(name) for name in model.labels_.names},
        "scheme": model.labels_.scheme,
        "features": _features(model),
        "weights": _weights(model),
        "settings": _settings(model),
        "training": {"iterations": model.progress_.iteration, "ended": model.progress_.why},
        "rules": [str(rule) for rule in model.get_params().get("rules", ())],
        "data": data or None,
        "dev": _mapping(config, "dev") or None,
        "scores": _mapping(config, "scores") or None,
        "top_features": top_by_label(model, wanted, top) if top else {},
        "top_transitions": _transitions(model, top, label is not None and set(wanted)) if top else [],
    }


def _config(path: Path, model: Tagger) -> dict[str, Any]:
    """The configuration of a model, if the file exists and belongs to this model."""
    place = place_of(path)
    if not place.exists():
        return {}
    try:
        config = read_config(place)
    except FileError as error:
        warn(f"the training configuration cannot be used: {error}")
        return {}
    ours = {"labels": list(model.labels_.names), "weights": model.n_weights_}
    theirs = config.get("model")
    if not isinstance(theirs, Mapping) or any(theirs.get(name) != ours[name] for name in _ALIKE):
        warn(f"{place} belongs to another model and is ignored")
        return {}
    return config


def _mapping(part: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a configuration; {} if it is not an object, because people may have edited the file."""
    found = part.get(name)
    return found if isinstance(found, Mapping) else {}


def _features(model: Tagger) -> dict[str, Any]:
    """The features of the model."""
    templates = model.features_.head().get("templates")
    chosen, asked = model.feature_set_, None
    if templates is not None:
        asked = next((name for name, text in SETS.items() if text.splitlines() == templates), None)
    return {
        "kind": model.features_.kind,
        "set": chosen.name if chosen is not None else asked,
        "why": None if chosen is None else chosen.why,
        "templates": templates,
        "cutoff": model.features_.cutoff,
        "attributes": len(model.features_) + (model.features_.n_edges or 0),
    }


def _weights(model: Tagger) -> dict[str, Any]:
    """The number of weights; weights that are zero are not stored."""
    linear = model.linear_
    kept = int(np.count_nonzero(linear.weights))
    kept += sum(int(np.count_nonzero(more)) for more in (linear.pairwise, linear.edges) if more is not None)
    total = max(model.n_weights_, kept)
    return {"count": total, "nonzero": kept, "share_zero": 1 - kept / total if total else 0.0}


def _settings(model: Tagger) -> dict[str, Any]:
    """The training settings; for a model that was trained by CRFsuite, what its file records."""
    if not model.progress_.iteration:
        return dict(model.notes_.get("crfsuite", {}))
    left_out = ("features", "rules", "threads")
    found = {name: jsonable(value) for name, value in model.get_params().items() if name not in left_out}
    if isinstance(model, CRF) and model.algorithm == "lbfgs":
        found |= {"c1": model.c1_, "c2": model.c2_}
    return found


def _transitions(model: Tagger, top: int, among: Any) -> list[tuple[str, str, float]]:
    """The label bigrams with the largest weights: of all labels, or of some."""
    if not among:
        return model.top_transitions(top)
    found = model.top_transitions(len(model.labels_) ** 2)
    return [one for one in found if one[0] in among or one[1] in among][:top]


# ---- for people -----------------------------------------------------------------------------------------------------


def lines_of(about: Mapping[str, Any]) -> Iterator[str]:
    """The description as lines of text."""
    for name, value in _summary(about):
        yield f"{name:12} {value}"
    for name, found in about["top_features"].items():
        yield from ("", f"features for {name}:" if found else f"features for {name}: none")
        yield from (f"  {weight:8.3f}  {feature}" for feature, weight in found)
    if about["top_transitions"]:
        yield from ("", "transitions:")
        yield from (f"  {weight:8.3f}  {before} -> {after}" for before, after, weight in about["top_transitions"])


def _summary(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    written = f", written by Bridle {about['version']}" if about["version"] else ""
    when = f", {about['time']}" if about["time"] else ""
    yield "model", f"{about['kind']}, {about['bytes']:,} bytes{written}{when}"
    labels = ", ".join(name if n is None else f"{name} {n:,}" for name, n in about["labels"].items())
    yield "labels", f"{len(about['labels'])}, scheme {about['scheme'] or 'none'}: {labels}"
    yield "features", _of_features(about["features"])
    weights = about["weights"]
    yield "weights", f"{weights['count']:,}, {weights['share_zero']:.1%} of them zero"
    if about["settings"]:
        yield "settings", ", ".join(f"{name} {value}" for name, value in about["settings"].items() if value is not None)
    training = about["training"]
    iterations = f"{training['iterations']} iterations: " if training["iterations"] else ""
    yield "training", f"{iterations}{training['ended'] or 'interrupted'}"
    for rule in about["rules"]:
        yield "rule", rule
    for part in ("data", "dev"):
        if (found := about[part]) is not None:
            files = ", ".join(str(one.get("file")) for one in found.get("files", ()) if isinstance(one, Mapping))
            yield part, f"{files}: {_number(found, 'sequences')} sequences, {_number(found, 'tokens')} tokens"
    if (scores := about["scores"]) is not None:
        accuracy, f1 = _number(scores, "accuracy", ".2%"), _number(_mapping(scores, "segments"), "f1", ".2%")
        yield "scores", f"accuracy {accuracy}, F1 {f1} on dev, after iteration {_number(scores, 'iteration')}"


def _number(part: Mapping[str, Any], name: str, form: str = ",") -> str:
    found = part.get(name)
    return format(found, form) if isinstance(found, (int, float)) else "?"


def _of_features(found: Mapping[str, Any]) -> str:
    attributes = f"{found['attributes']:,} attributes"
    if found["templates"] is None:
        return f"ready-made, {attributes}"
    called = f"{found['set']}, " if found["set"] else ""
    because = f"; chosen because {found['why']}" if found["why"] else ""
    return f"{called}{len(found['templates'])} templates, {attributes}{because}"
