"""`bridle reproduce`: run experiments from papers on real data."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import write_text
from bridle.cli import options as opt
from bridle.cli.base import Command, app, print_stderr, show_data, warn
from bridle.errors import BridleError, FileError

NAMES = (
    "srl",
    "pos",
    "pos-brown",
    "segmentation",
    "citations",
    "citations-paper",
    "addresses",
    "learned-rules",
    "documents",
    "few-labels",
    "networks",
)


@app.command(cls=Command)
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"Experiment: {', '.join(NAMES[:-1])} or {NAMES[-1]}.",
            autocompletion=lambda incomplete: [name for name in NAMES if name.startswith(incomplete)],
        ),
    ],
    data: Annotated[Path | None, opt.option("--data DIR", "Folder with the data sets. Default: $BRIDLE_DATA.")] = None,
    quick: Annotated[
        bool, opt.option("--quick", "Use a part of the data: minutes instead of hours, rough figures.")
    ] = False,
    out: Annotated[Path | None, opt.option("-o, --out DIR", "Folder for NAME.md, NAME.json and NAME.svg.")] = None,
    seed: opt.SeedOption = 0,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: Annotated[bool, opt.option("--progress/--no-progress", "Show progress on stderr.")] = True,
) -> None:
    """Reproduce an experiment from a paper on real data.

    The output is Markdown tables with Bridle's figures next to those of the paper. The experiments are part of the
    repository, not of the installed package: run this in the folder of a clone.
    With -o, few-labels and networks continue after a stop.

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
    experiments = _experiments()
    recipe = experiments.recipe_named(name)
    say = _say if progress else lambda text: None
    settings = experiments.Run(_data_folder(data), quick, seed, threads, say, out)
    report = recipe.run(settings)
    report.settings |= {"seed": seed, "size": "quick" if quick else "full"}
    for line in (report.json() if as_json else report.markdown()).split("\n"):
        show_data(line)
    if out is not None:
        _write(report, out)
        experiments.kept_file(out, name).unlink(missing_ok=True)


def _experiments() -> Any:
    """Import the package `experiments` of the clone that Bridle runs from, or of the one in the current folder."""
    for root in (Path(bridle.__file__).parents[2], Path.cwd()):
        if (root / "experiments" / "__init__.py").is_file() and (root / "src" / "bridle" / "cli").is_dir():
            sys.path.insert(0, str(root))
            return import_module("experiments")
    raise FileError(
        "the experiments were not found",
        got=f"bridle in {Path(bridle.__file__).parent}, and the current folder {Path.cwd()}",
        wanted="a clone of the repository, which has the folder experiments",
        cause="The installed package does not contain them: clone the repository and run this command in its folder.",
    )


def _data_folder(folder: Path | None) -> Path:
    if folder is None and "BRIDLE_DATA" in os.environ:
        folder = Path(os.environ["BRIDLE_DATA"])
    if folder is None or not folder.is_dir():
        got = "nothing" if folder is None else f"{folder}, which is not a folder"
        raise FileError(
            "the data folder was not found",
            got=got,
            wanted="--data DIR, or the environment variable BRIDLE_DATA",
            cause="DIR contains one folder for each data set. The data sets are not part of Bridle.",
        )
    return folder


_start = time.monotonic()


def _say(text: str) -> None:
    print_stderr(f"[{time.monotonic() - _start:6.0f} s] {text}")


def _write(report: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": report.markdown(), "json": report.json()}
    try:
        texts["svg"] = report.svg()
    except BridleError as error:
        warn(f"no picture: {error}")
    for suffix, text in texts.items():
        write_text(folder / f"{report.name}.{suffix}", text.rstrip("\n") + "\n")
