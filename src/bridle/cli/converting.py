"""`bridle convert`: convert a model of another system into a Bridle model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridle.cli import options as opt
from bridle.cli.base import Command, app, check_model_path, check_writable, json_line, show


@app.command(cls=Command)
def convert(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="CRFsuite model file.", show_default=False)],
    out: Annotated[Path, opt.option("-o, --out FILE", "Bridle model to write.", show_default=False)],
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    as_json: opt.JsonOption = False,
) -> None:
    """Convert a CRFsuite model into a Bridle model.

    \b
    The model gives the same scores in Python: bridle.load(FILE).predict(X, rules=[...]), where X contains the same
    kind of features as its training data. CRFsuite files do not record how features are made from text, so
    "bridle tag" cannot use the model.

    \b
    Examples:
      bridle convert usaddr.crfsuite -o usaddr.bridle
      bridle convert ner.crfsuite -o ner.bridle --scheme BIO

    \b
    Exit codes:
      0    success
      2    bad usage, MODEL is not a CRFsuite model, or FILE cannot be written
      130  interrupted by Ctrl-C
    """
    from bridle.integrations.crfsuite import load  # it brings models along

    check_writable(out)
    check_model_path(out)
    converted = load(model, scheme=scheme.library_name)
    converted.save(out)
    facts = {
        "labels": len(converted.labels_.names),
        "scheme": converted.labels_.scheme,
        "attributes": len(converted.features_),
        "weights": converted.n_weights_,
        "out": str(out),
    }
    if as_json:
        typer.echo(json_line(facts))
    else:
        counts = f"{facts['labels']} labels, {facts['attributes']:,} attributes, {facts['weights']:,} weights"
        show([f"{out}: {counts}, scheme {converted.labels_.scheme or 'none'}"])
