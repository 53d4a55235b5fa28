"""Optional packages: imported when a part of Bridle needs them, with an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bridle.errors import BridleError, MissingExtra


def needed(module: str, extra: str, what: str, error: type[BridleError] = MissingExtra) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        The module, for example ``"pyarrow.parquet"``.
    extra : str
        The extra of Bridle that installs it.
    what : str
        What needs it: the beginning of the message.
    error : type, optional
        The error to raise.

    Returns
    -------
    module

    Raises
    ------
    MissingExtra
        If it cannot be imported.

    Examples
    --------
    >>> needed("nowhere", "spacy", "components need spaCy")
    Traceback (most recent call last):
    bridle.errors.MissingExtra: components need spaCy; got no package nowhere; wanted pip install 'bridle[spacy]'.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        missing = (problem.name or module).split(".")[0]
        own = missing == module.split(".")[0]
        got = f"no package {missing}" if own else f"{module.split('.')[0]} without {missing}: {problem}"
        raise error(what, got=got, wanted=f"pip install 'bridle[{extra}]'") from None
