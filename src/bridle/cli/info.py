"""`bridle info`: print the version, the processor and its vector instructions, or describe a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bridle.cli.base import app, json_line, show
from bridle.cli.options import AsJson
from bridle.decoding.threads import cores
from bridle.errors import FileError
from bridle.extras import versions
from bridle.processor import simd


@app.command()
def info(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="Model file to describe.")] = None,
    top: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Show the N features of each label, and the N transitions, with the largest weights.",
        ),
    ] = 10,
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only the weights of this label or segment type.")
    ] = None,
    as_json: AsJson = False,
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
        from bridle.cli.model_info import about_model, lines_of  # they bring models along

        about = about_model(model, top, label)
        if as_json:
            typer.echo(json_line(about))
        else:
            show(lines_of(about))
        return
    if label is not None:
        raise FileError("--label needs MODEL", got=f"--label {label}", wanted="bridle info MODEL --label NAME")
    here = simd()
    found: dict[str, Any] = {
        **versions(),
        "processor": here.processor,
        "cores": cores(),
        "simd": here.tier,
        "simd_available": list(here.available),
    }
    if as_json:
        typer.echo(json_line(found))
        return
    for name, value in found.items():
        show([f"{name.replace('_', ' '):15} {', '.join(value) if isinstance(value, list) else value}"])
