"""Optional packages: imported when a part of Bridle needs them, with an error that says what to install."""

from __future__ import annotations

import platform
import sys
from importlib import import_module, metadata
from typing import Any

from bridle.errors import BridleError, MissingExtra


def needed(module: str, extra: str, purpose: str, error: type[BridleError] = MissingExtra) -> Any:
    """Import a module such as ``"pyarrow.parquet"``, which an extra of Bridle installs, or raise `error`.

    >>> needed("nowhere", "spacy", "components need spaCy")
    Traceback (most recent call last):
    bridle.errors.MissingExtra: components need spaCy; got no package nowhere; wanted pip install 'bridle-nlp[spacy]'.
    In a clone, run pip install '.[spacy]' instead.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        package = module.split(".")[0]
        missing = (problem.name or package).split(".")[0]
        absent = isinstance(problem, ModuleNotFoundError) and missing == package
        if absent:
            got = f"no package {package}"
        elif isinstance(problem, ModuleNotFoundError):
            got = f"{package} without {missing}: {problem}"
        else:
            got = f"{package}, which cannot be imported: {problem}"
        wanted, cause = f"pip install 'bridle-nlp[{extra}]'", f"In a clone, run pip install '.[{extra}]' instead."
        raise error(purpose, got=got, wanted=wanted, cause=cause) from (None if absent else problem)


def versions() -> dict[str, str]:
    """Return the versions of Python, Bridle and the packages that results depend on."""
    known = {"python": platform.python_version(), "bridle": str(getattr(sys.modules.get("bridle"), "__version__", "?"))}
    for name in ("numpy", "highspy"):
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            known[name] = "not installed"
    return known
