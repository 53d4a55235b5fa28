"""`bridle reproduce`: run experiments from papers on real data."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridle.atomic import write_text
from bridle.cli.base import app, show_data, tell, warn
from bridle.cli.options import RECIPES, AsJson, TheSeed, TheThreads
from bridle.errors import BridleError, FileError

if TYPE_CHECKING:
    from bridle.report.tables import Report


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Experiment: srl, pos, segmentation, citations, addresses or learned-rules.",
            autocompletion=RECIPES,
        ),
    ],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder with the data sets. Default: $BRIDLE_DATA.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use a part of the data: minutes instead of hours, rough figures.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder for NAME.md, NAME.json and NAME.svg.")
    ] = None,
    seed: TheSeed = 0,
    threads: TheThreads = 0,
    as_json: AsJson = False,
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", help="Show on stderr what is being done.")
    ] = True,
) -> None:
    """Reproduce an experiment from a paper on real data.

    The output is Markdown tables with Bridle's figures next to those of the paper.

    \b
    Examples:
      bridle reproduce citations --data DATA --quick
      bridle reproduce srl --data DATA -o docs/results
      BRIDLE_DATA=DATA bridle reproduce pos --json --no-progress > pos.json

    \b
    Exit codes:
      0    success, whatever the figures are
      2    the data folder was not found, or bad usage
      130  stopped by Ctrl-C
    """
    from bridle.tasks import Run, recipe_named  # they bring models and learners along

    recipe = recipe_named(name)
    report = recipe.run(Run(_folder(data), quick, seed, threads, _say if progress else lambda text: None))
    report.settings |= {"seed": seed, "size": "quick" if quick else "full"}
    for line in (report.json() if as_json else report.markdown()).split("\n"):
        show_data(line)
    if out is not None:
        _write(report, out)


def _folder(asked: Path | None) -> Path:
    found = asked or (Path(os.environ["BRIDLE_DATA"]) if "BRIDLE_DATA" in os.environ else None)
    if found is None or not found.is_dir():
        got = "nothing" if found is None else f"{found}, which is not a folder"
        raise FileError(
            "the data folder was not found",
            got=got,
            wanted="--data DIR, or the environment variable BRIDLE_DATA",
            cause="DIR contains one folder for each data set. The data sets are not part of Bridle.",
        )
    return found


_begun = time.monotonic()


def _say(text: str) -> None:
    tell(f"[{time.monotonic() - _begun:6.0f} s] {text}")


def _write(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = {"md": report.markdown(), "json": report.json()}
    try:
        made["svg"] = report.svg()
    except BridleError as error:
        warn(f"no picture: {error}")
    for suffix, text in made.items():
        write_text(folder / f"{report.name}.{suffix}", text.rstrip("\n") + "\n")
