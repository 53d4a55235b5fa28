"""Write the files of requirements/ again from pyproject.toml: `make pins`.

constraints.txt has a version of every package that a build, a test, a check or the documentation needs, for all
supported versions of Python and all platforms; oldest.txt has the oldest that pyproject.toml allows. integrations.txt,
gliner.txt and distributed.txt have what the tests beside other systems need: those packages are heavy, and not all of
them agree.
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
PLUGGED_INTO = {  # heavy extras
    *("datasets", "distributed", "gliner", "integrations", "onnx", "presidio", "ray", "spacy", "spark", "transformers")
}
SAME = ["--universal", "--constraint", str(ROOT / "requirements" / "constraints.txt")]
# torch is pinned by hand: which build it is (for which processor) depends on where pip finds it.
TORCH = "torch==2.13.0\n"
FILES = {  # extras, options of uv
    "constraints.txt": (None, ["--universal"]),
    "oldest.txt": (["test"], ["--resolution=lowest-direct"]),
    "integrations.txt": (["test", "integrations"], SAME),
    "gliner.txt": (["test", "gliner"], SAME),
    "distributed.txt": (["test", "distributed"], SAME),
}


def requirements(settings: dict[str, dict[str, object]], chosen: list[str] | None) -> list[str]:
    """List the requirements in pyproject.toml with some extras; None: all but those that Bridle plugs into."""
    project = settings["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    wanted = [*settings["build-system"]["requires"], *project["dependencies"]]  # type: ignore[misc]
    chosen = [name for name in extras if name not in PLUGGED_INTO] if chosen is None else chosen
    return [*wanted, *(requirement for name in chosen for requirement in extras[name]), "cmake>=3.20", "ninja>=1.11"]


def pin_hooks() -> None:
    """The versions of .pre-commit-config.yaml: the same as in constraints.txt."""
    hooks = ROOT / ".pre-commit-config.yaml"
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line and ";" not in line)
    old = hooks.read_text(encoding="utf-8")
    new = re.sub(r"\[([\w-]+)==[^\]]+\]", lambda match: f"[{match[1]}=={pinned[match[1]]}]", old)
    hooks.write_text(new, encoding="utf-8")


def main() -> None:
    """Resolve all files; `uv` is in the folder of the Python that runs this."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)
    for name, (extras, options) in FILES.items():
        target = ROOT / "requirements" / name
        with tempfile.TemporaryDirectory() as folder:
            asked = Path(folder) / "requirements.in"
            asked.write_text("\n".join(requirements(settings, extras)) + "\n", encoding="utf-8")
            without = Path(folder) / "without.txt"
            without.write_text("torch ; python_version < '3'\n", encoding="utf-8")
            output = Path(folder) / name
            uv = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
            python = ["--python-version", settings["project"]["requires-python"].removeprefix(">=")]  # type: ignore[attr-defined]
            options = [*options, "--override", str(without), "--output-file", str(output)]
            subprocess.run([*uv, *python, *options, str(asked)], check=True)
            torch = TORCH if {"integrations", "gliner"} & set(extras or ()) else ""
            target.write_text(HEAD + output.read_text(encoding="utf-8") + torch, encoding="utf-8")
        print(f"{target.relative_to(ROOT)}: {len(target.read_text(encoding='utf-8').splitlines()) - 1} packages")
    pin_hooks()


if __name__ == "__main__":
    main()
