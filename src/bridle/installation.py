"""Find out why a part of the package `bridle` cannot be imported.

The distribution is called `bridle-nlp`. Two other projects on PyPI, `bridle` and `bridle-ai`, also install a package
named `bridle`. pip does not notice: a later installation overwrites files of an earlier one in the same environment,
and uninstalling one project removes files of the other. This module is imported only after an import has failed.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "bridle-nlp"
INSTALL = f"pip install {DISTRIBUTION} (in a clone of the repository: pip install .)"


def other_distributions() -> list[str]:
    """List the names of other distributions that have files in the folder of this package."""
    folder = Path(__file__).resolve().parent
    names = set()
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"]).lower().replace("_", "-")
        owns = any(file.parts[:1] == (folder.name,) for file in distribution.files or ())
        if name != DISTRIBUTION and owns and Path(str(distribution.locate_file(folder.name))).resolve() == folder:
            names.add(name)
    return sorted(names)


def conflict(names: list[str]) -> ImportError:
    """Return the error for a package that has files of other projects, those of `names` if they are known."""
    folder = Path(__file__).parent
    got = (
        f"files of {' and '.join(names) or 'another project'}"
        if (folder / "__init__.py").exists()
        else "no __init__.py"
    )
    removed = " ".join([*(names or ["bridle", "bridle-ai"]), DISTRIBUTION])
    return ImportError(
        f"the package in {folder} is not intact; got {got}; wanted the files of {DISTRIBUTION} and no others.\n"
        f"Other projects install a package named bridle too. Run pip uninstall {removed}, then {INSTALL}."
    )


def explain(problem: ImportError) -> None:
    """Raise a clearer `ImportError` if a module of Bridle itself is missing or cannot be loaded."""
    if (problem.name or "").partition(".")[0] != "bridle":
        return
    if names := other_distributions():
        raise conflict(names) from problem
    if problem.name == "bridle._native":
        version = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(
            f"cannot load bridle._native, the compiled part of Bridle; got {problem}; wanted a build for Python "
            f"{version} on this machine.\nInstall Bridle with this Python: {INSTALL}."
        ) from problem
