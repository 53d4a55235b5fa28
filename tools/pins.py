"""Write requirements/constraints.txt and requirements/oldest.txt anew from pyproject.toml: `make pins`.

constraints.txt has a version of every package that a build, a test, a check or the documentation needs, for all
supported versions of Python and all platforms; oldest.txt has the oldest that pyproject.toml allows.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "# Written by `make pins` from pyproject.toml; do not edit.\n"
FILES = {
    "constraints.txt": ["--universal"],
    "oldest.txt": ["--resolution=lowest-direct"],
}


def requirements(settings: dict[str, dict[str, object]], file: str) -> list[str]:
    """All that pyproject.toml asks for; of the oldest, only what a test needs: the rest are tools."""
    project = settings["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    wanted = [*settings["build-system"]["requires"], *project["dependencies"]]  # type: ignore[misc]
    chosen = extras if file == "constraints.txt" else ["test"]
    return [*wanted, *(one for name in chosen for one in extras[name]), "cmake>=3.20", "ninja>=1.11"]


def pin_hooks() -> None:
    """The versions of .pre-commit-config.yaml: the same as in constraints.txt."""
    hooks = ROOT / ".pre-commit-config.yaml"
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line and ";" not in line)
    old = hooks.read_text(encoding="utf-8")
    new = re.sub(r"\[([\w-]+)==[^\]]+\]", lambda found: f"[{found[1]}=={pinned[found[1]]}]", old)
    hooks.write_text(new, encoding="utf-8")


def main() -> None:
    """Resolve both files; `uv` stands beside the Python that runs this."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)
    for name, options in FILES.items():
        target = ROOT / "requirements" / name
        with tempfile.TemporaryDirectory() as folder:
            asked = Path(folder) / "requirements.in"
            asked.write_text("\n".join(requirements(settings, name)) + "\n", encoding="utf-8")
            made = Path(folder) / name
            uv = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
            python = ["--python-version", settings["project"]["requires-python"].removeprefix(">=")]  # type: ignore[attr-defined]
            subprocess.run([*uv, *python, *options, "--output-file", str(made), str(asked)], check=True)
            target.write_text(HEAD + made.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"{target.relative_to(ROOT)}: {len(target.read_text(encoding='utf-8').splitlines()) - 1} packages")
    pin_hooks()


if __name__ == "__main__":
    main()
