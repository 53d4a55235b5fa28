"""`bridle convert`: a model of another system as a model of Bridle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridle.cli.base import app, check_kind, check_place, json_line, show
from bridle.cli.options import AnyScheme, AsJson, DataScheme


@app.command()
def convert(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file of CRFsuite.", show_default=False)],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="The model of Bridle to write.", show_default=False)
    ],
    scheme: DataScheme = AnyScheme.AUTO,
    as_json: AsJson = False,
) -> None:
    """Convert a model of CRFsuite, python-crfsuite or sklearn-crfsuite.

    \b
    The model gives the same scores in Python: bridle.load(FILE).predict(X, rules=[...]), where X holds features as
    it was trained on. CRFsuite files do not say how features are made of text, so that "bridle tag" cannot use it.

    \b
    Examples:
      bridle convert usaddr.crfsuite -o usaddr.bridle
      bridle convert ner.crfsuite -o ner.bridle --scheme BIO

    \b
    Exit codes:
      0    fine
      2    bad usage, MODEL is not a model of CRFsuite, or FILE cannot be written
      130  interrupted by Ctrl-C
    """
    from bridle.integrations.crfsuite import load  # it brings models along

    check_place(out)
    check_kind(out)
    made = load(model, scheme=scheme.asked)
    made.save(out)
    found = {
        "labels": len(made.labels_.names),
        "scheme": made.labels_.scheme,
        "attributes": len(made.features_),
        "weights": made.n_weights_,
        "out": str(out),
    }
    if as_json:
        typer.echo(json_line(found))
    else:
        counts = f"{found['labels']} labels, {found['attributes']:,} attributes, {found['weights']:,} weights"
        show([f"{out}: {counts}, scheme {made.labels_.scheme or 'none'}"])
