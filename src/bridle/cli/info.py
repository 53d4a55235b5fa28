"""`bridle info`: print the version, the processor and its vector instructions, or describe a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bridle
from bridle.cli import options as opt
from bridle.cli.base import Command, app, json_line, show, warn
from bridle.decoding.threads import cores
from bridle.errors import FileError
from bridle.extras import versions
from bridle.processor import simd

if TYPE_CHECKING:
    from bridle.models import Tagger


@app.command(cls=Command)
def info(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="Model file to describe.")] = None,
    top: Annotated[
        int,
        opt.option(
            "--top N", "Show the N features of each label, and the N transitions, with the largest weights.", min=0
        ),
    ] = 10,
    label: Annotated[
        str | None, opt.option("--label NAME", "Show only the weights of this label or segment type.")
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Describe a model, or print versions, the processor and its vector instructions.

    \b
    For a model, it prints the labels, features, size and settings, the training data (from MODEL.json, if that file
    exists), and the largest weights.

    \b
    Bridle uses the fastest vector instructions (tier) of the processor. Set BRIDLE_SIMD to choose another tier:
    portable, baseline, avx2 or avx512. All tiers give the same labels.

    \b
    Examples:
      bridle info
      bridle info --json
      bridle info ner.bridle
      bridle info ner.bridle --label PER --top 20
      BRIDLE_SIMD=avx2 bridle info

    \b
    Exit codes:
      0    success
      1    BRIDLE_SIMD names a tier that this processor does not have
      2    bad usage, or the file does not contain a model
    """
    if model is not None:
        about = _describe_model(model, top, label)
        if as_json:
            typer.echo(json_line(about))
        else:
            show(_description_lines(about))
        return
    if label is not None:
        raise FileError("--label needs MODEL", got=f"--label {label}", wanted="bridle info MODEL --label NAME")
    instructions = simd()
    facts: dict[str, Any] = {
        **versions(),
        "processor": instructions.processor,
        "cores": cores(),
        "simd": instructions.tier,
        "simd_available": list(instructions.available),
    }
    if as_json:
        typer.echo(json_line(facts))
        return
    for name, value in facts.items():
        show([f"{name.replace('_', ' '):15} {', '.join(value) if isinstance(value, list) else value}"])


def _describe_model(path: Path, top: int, label: str | None) -> dict[str, Any]:
    """Return the description of a model, for JSON. label: a label or a segment type; None: all labels."""
    from bridle.models.largest import top_by_label

    model = bridle.load(path)
    wanted = list(model.labels_.names)
    if label is not None:
        chosen = model.labels_.matching(label)
        wanted = [name for k, name in enumerate(wanted) if k in chosen]
    record = _record(path, model)
    data, counts = _mapping(record, "data"), _mapping(_mapping(record, "data"), "labels")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "kind": type(model).__name__,
        "version": model.notes_.get("version") or _mapping(record, "versions").get("bridle"),
        "time": record.get("time"),
        "fingerprint": model.fingerprint_,
        "labels": {name: counts.get(name) for name in model.labels_.names},
        "scheme": model.labels_.scheme,
        "features": _features(model),
        "weights": _weights(model),
        "settings": _settings(model),
        "training": {"iterations": model.progress_.iteration, "ended": model.progress_.why},
        "rules": _rules(model),
        "data": data or None,
        "dev": _mapping(record, "dev") or None,
        "scores": _mapping(record, "scores") or None,
        "top_features": top_by_label(model, wanted, top) if top else {},
        "top_transitions": _transitions(model, top, label is not None and set(wanted)) if top else [],
    }


def _record(path: Path, model: Tagger) -> dict[str, Any]:
    """Return the record of the training of a model, if the file exists and belongs to this model."""
    from bridle.models.record import read_record, record_path

    place = record_path(path)
    if not place.exists():
        return {}
    try:
        record = read_record(place)
    except FileError as error:
        warn(f"the training configuration cannot be used: {error}")
        return {}
    theirs = _mapping(record, "model")
    if theirs.get("labels") != list(model.labels_.names) or theirs.get("weights") != model.n_weights_:
        warn(f"{place} belongs to another model and is ignored")
        return {}
    return record


def _mapping(part: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a record; {} if it is not an object, because people may have edited the file."""
    value = part.get(name)
    return value if isinstance(value, Mapping) else {}


def _features(model: Tagger) -> dict[str, Any]:
    """Describe the features of a model."""
    from bridle.features import SETS

    templates = model.features_.head().get("templates")
    chosen, set_name = model.feature_set_, None
    if templates is not None:
        set_name = next((name for name, text in SETS.items() if text.splitlines() == templates), None)
    return {
        "kind": model.features_.kind,
        "set": chosen.name if chosen is not None else set_name,
        "why": None if chosen is None else chosen.why,
        "templates": templates,
        "cutoff": model.features_.cutoff,
        "attributes": len(model.features_) + (model.features_.n_edges or 0),
    }


def _weights(model: Tagger) -> dict[str, Any]:
    """Count weights; weights that are zero are not stored."""
    linear = model.linear_
    kept = int((linear.weights != 0).sum())
    kept += sum(int((more != 0).sum()) for more in (linear.pairwise, linear.edges) if more is not None)
    total = max(model.n_weights_, kept)
    return {"count": total, "nonzero": kept, "share_zero": 1 - kept / total if total else 0.0}


def _rules(model: Tagger) -> list[str]:
    """Return the rules of training; of contexts that decide tokens, the most frequent."""
    rules = getattr(model, "rules_", None)
    if rules is not None:
        return [f"{rules.n_rules_:,} contexts that decide tokens", *rules.lines(5)]
    return [str(rule) for rule in model.get_params().get("rules") or ()]


def _settings(model: Tagger) -> dict[str, Any]:
    """Return the training settings; for a model that was trained by CRFsuite, the settings that its file has."""
    from bridle.models import CRF
    from bridle.models.checks import jsonable

    if not model.progress_.iteration:
        return dict(model.notes_.get("crfsuite", {}))
    left_out = ("features", "rules", "threads")
    settings = {name: jsonable(value) for name, value in model.get_params().items() if name not in left_out}
    if isinstance(model, CRF) and model.algorithm == "lbfgs":
        settings |= {"c1": model.c1_, "c2": model.c2_}
    return settings


def _transitions(model: Tagger, top: int, among: Any) -> list[tuple[str, str, float]]:
    """Return the label bigrams with the largest weights: of all labels, or of some."""
    if not among:
        return model.top_transitions(top)
    transitions = model.top_transitions(len(model.labels_) ** 2)
    return [transition for transition in transitions if transition[0] in among or transition[1] in among][:top]


def _description_lines(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description of a model as lines of text."""
    for name, value in _summary(about):
        yield f"{name:12} {value}"
    for name, weights in about["top_features"].items():
        yield from ("", f"features for {name}:" if weights else f"features for {name}: none")
        yield from (f"  {weight:8.3f}  {feature}" for feature, weight in weights)
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
        if (content := about[part]) is not None:
            files = ", ".join(str(file.get("file")) for file in content.get("files", ()) if isinstance(file, Mapping))
            yield part, f"{files}: {_number(content, 'sequences')} sequences, {_number(content, 'tokens')} tokens"
    if (scores := about["scores"]) is not None:
        accuracy, f1 = _number(scores, "accuracy", ".2%"), _number(_mapping(scores, "segments"), "f1", ".2%")
        yield "scores", f"accuracy {accuracy}, F1 {f1} on dev, after iteration {_number(scores, 'iteration')}"


def _number(part: Mapping[str, Any], name: str, form: str = ",") -> str:
    value = part.get(name)
    return format(value, form) if isinstance(value, (int, float)) else "?"


def _of_features(features: Mapping[str, Any]) -> str:
    attributes = f"{features['attributes']:,} attributes"
    if features["templates"] is None:
        return f"ready-made, {attributes}"
    called = f"{features['set']}, " if features["set"] else ""
    because = f"; chosen because {features['why']}" if features["why"] else ""
    return f"{called}{len(features['templates'])} templates, {attributes}{because}"
