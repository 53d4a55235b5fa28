"""Check that a release can be published.

`make release-check` prints a line for everything that is missing, and exits with code 1 if there is one.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TAKEN = {"bridle", "bridle-ai"}  # names on PyPI that belong to other projects


def missing() -> list[str]:
    """List what must be done before a release, one line each."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    version, tag, tasks = project["version"], os.environ.get("GITHUB_REF_NAME", ""), []
    if project["name"] in TAKEN:
        tasks.append(f"pyproject.toml: on PyPI the name {project['name']} belongs to another project; choose one")
    if any("OWNER" in url for url in project["urls"].values()):
        tasks.append("pyproject.toml: [project.urls] has a placeholder; write where the repository is")
    if f"## [{version}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        tasks.append(f"CHANGELOG.md: no section [{version}]")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        tasks.append(f"CITATION.cff: the version is not {version}")
    if f'\n__version__ = "{version}"\n' not in (ROOT / "src/bridle/__init__.py").read_text(encoding="utf-8"):
        tasks.append(f"src/bridle/__init__.py: the version is not {version}")
    if tag.startswith("v") and tag != f"v{version}":
        tasks.append(f"the tag is {tag}, the version in pyproject.toml is {version}")
    return tasks


if __name__ == "__main__":
    todo = missing()
    print(*todo, sep="\n", end="\n" if todo else "")
    sys.exit(1 if todo else 0)
