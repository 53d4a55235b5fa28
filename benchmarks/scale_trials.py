"""Kill trials of files, Spark and Ray: `trial` of scale_files, scale_spark and scale_ray, in processes of their own."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import bridle
from scale_apart import Command, apart
from scale_rate import CHILD, environment

FEW = 20_000  # rows where the number matters less
TROUBLE = {"full_disk": "a full disk", "missing_input": "an input that is gone for a while"}  # of scale_files.py
VICTIMS = {"spark": ("worker", "executor", "driver"), "ray": ("actor", "worker", "driver")}
PACKAGES = {"spark": ("pyspark", "pyarrow"), "ray": ("ray", "pyarrow")}
Tell = Callable[[str], None]


class MissingError(Exception):
    """Something that a section needs is not installed."""


def files(folder: Path, rows: int, kills: int, seed: int, tell: Tell) -> dict[str, Any]:
    """Kill `bridle tag --resume` with kill -9 at random moments; then other trouble."""
    asked = partial(call, "scale_files", python=sys.executable, folder=fresh(folder))
    tell(f"files: {kills} kills")
    trials = [judged(asked("trial", rows=rows, kills=kills, seed=seed), "`bridle tag --resume`, kill -9")]
    for function, name in TROUBLE.items():
        tell(f"files: {name}")
        if result := asked(function, rows=min(rows, FEW)):
            trials.append(judged({"kills": 0, **result}, f"`bridle tag --resume`, {name}"))
    return {"trials": trials}


def cluster(name: str, python: str, folder: Path, rows: int, seed: int, tell: Tell) -> dict[str, Any]:
    """Kill parts of a cluster, one kind after the other; then measure its start-up, if its script can."""
    needs(python, name)
    asked = partial(call, f"scale_{name}", python=python, folder=fresh(folder))  # the trials share a model and rows
    trials = []
    for victim in VICTIMS[name]:
        tell(f"{name}: kill the {victim}")
        result = asked("trial", rows=rows, kill=victim, seed=seed)
        trials.append(judged(result, f"{name.capitalize()}, {victim}"))
    tell(f"{name}: start-up")
    return {"trials": trials, "measured": asked("measure", rows=min(rows, FEW))}


def call(module: str, function: str, python: str, folder: Path, **options: Any) -> dict[str, Any]:
    """Call a function of another script and add the seconds that it took; empty if there is no such function."""
    answer, begun = folder.with_name(f"{folder.name}.json"), time.perf_counter()
    job = {"work": "call", "module": module, "function": function, "folder": str(folder), "options": options}
    apart([Command((python, str(CHILD), json.dumps({**job, "answer": str(answer)})))], 0, env=environment())
    result: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    return {"seconds": time.perf_counter() - begun, **result} if result else {}


def judged(result: dict[str, Any], name: str) -> dict[str, Any]:
    """A trial with its verdict beside the other figures, and with how often something was killed."""
    flat = {**result, **result.get("verdict", {}), "trial": name}
    flat.pop("verdict", None)
    return {"kills": 1, **flat}


def fresh(folder: Path) -> Path:
    """An empty folder: what an earlier run left there could be resumed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def needs(python: str, name: str) -> None:
    """Raise an error that says what is missing for a section."""
    for package in (*PACKAGES[name], "bridle.arrow"):
        done = subprocess.run([python, "-c", f"import {package}"], capture_output=True, env=environment())
        if done.returncode:
            raise MissingError(f"{python} cannot import {package}; pip install 'bridle-nlp[{name}]', or pass --python")
    if name == "spark" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise MissingError("Spark needs Java 17 or newer; it is neither on the PATH nor in JAVA_HOME")


def versions(python: str, name: str) -> dict[str, str]:
    """Return the versions of the packages that a section was measured with."""
    asked = "import json, sys; from importlib.metadata import version; "
    asked += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    packages = PACKAGES.get(name, ("pyarrow", "numpy"))
    done = subprocess.run([python, "-c", asked, *packages], capture_output=True, text=True, check=True)
    return {"Bridle": bridle.__version__, "Python": platform.python_version(), **json.loads(done.stdout)}
