"""Trace of a sentence: functions, files and changes of file on the way of `bridle tag`, without and with rules.

    python benchmarks/trace.py [--list] [--json benchmarks/out/trace.json]

It trains a toy model in a folder of its own and tags one sentence of three words in this process, with a profile hook
that notes every call of a function of Bridle. Printed are the distinct functions that have a name (comprehensions and
lambdas do not count), the files that define them, how often a call is in another file than the call before it, and
all calls. --list: the functions, file by file, in the order of their first call.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType

import bridle
from bridle.cli import app
from bridle.errors import MissingExtra

_SKIPPED = re.compile(r".*(__main__$|\.integrations\.|\.cli\.)").match
_DECLARES = "cli/options.py", "option"  # of other commands, if something has imported them
ROOT = str(Path(bridle.__file__).parent) + os.sep
RULES = "at most 1 token of N\nstarts with D\nfix V at tokens /sat/\nN before V  [penalty 2.0]\n"
SENTENCES = "the D\ncat N\nsat V\n\na D\ndog N\nran V\noff P\n\n"


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls of one command line, in order."""

    calls: tuple[tuple[str, str], ...]  # file, and name of the function in it

    @property
    def by_file(self) -> dict[str, list[str]]:
        """The functions that have a name, by file."""
        by_file: dict[str, list[str]] = {}
        for file, name in dict.fromkeys(self.calls):
            if not name.rpartition(".")[2].startswith("<"):
                by_file.setdefault(file, []).append(name)
        return by_file

    def figures(self) -> dict[str, int]:
        """Return the figures to print."""
        files = [file for file, _ in self.calls]
        return {
            "functions": sum(map(len, self.by_file.values())),
            "files": len(set(files)),
            "changes": sum(a != b for a, b in pairwise(files)),
            "calls": len(files),
        }


def traced(words: Sequence[str]) -> Trace:
    """Run a command line of Bridle and note its calls; what it prints is dropped."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            call = frame.f_code.co_filename[len(ROOT) :], frame.f_code.co_qualname
            calls.extend([call] if call != _DECLARES else [])

    with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.StringIO()), suppress(SystemExit):
        sys.setprofile(note)
        try:
            app(list(words))
        finally:
            sys.setprofile(None)
    return Trace(tuple(calls))


def traces(folder: Path) -> dict[str, Trace]:
    """A toy model is trained in the folder; one sentence is tagged without and with rules."""
    # imports are no part of the way; a command line imports its own command only
    modules = [module.name for module in pkgutil.walk_packages(bridle.__path__, "bridle.") if not _SKIPPED(module.name)]
    for module in (*modules, "bridle.cli.training", "bridle.cli.tagging"):
        with suppress(MissingExtra):  # bridle.torch
            importlib.import_module(module)
    texts = {"train.txt": SENTENCES * 20, "one.txt": "the\ndog\nsat\n", "my.rules": RULES}
    for name, text in texts.items():
        (folder / name).write_text(text)
    model, sentence, rules = (str(folder / name) for name in ("m.bridle", "one.txt", "my.rules"))
    traced(["train", str(folder / "train.txt"), "-o", model, "--features", "pos", "--columns", "word,label"])
    return {
        "without rules": traced(["tag", model, sentence]),
        "with rules": traced(["tag", model, sentence, "--rules", rules]),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Functions, files and changes of file on the way of one sentence.")
    parser.add_argument("--list", action="store_true", help="list the functions, file by file")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        by_name = traces(Path(folder))
    for name, trace in by_name.items():
        print(f"{name:14}", ", ".join(f"{count:,} {what}" for what, count in trace.figures().items()))
        for file, functions in trace.by_file.items() if asked.list else ():
            print(f"    {file:24} {len(functions):3}  {' '.join(functions)}")
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({name: trace.figures() for name, trace in by_name.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
