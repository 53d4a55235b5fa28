"""What comes with a sequence: values that rules ask for by name, and columns with one text per token."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridle.errors import Argument, GivenError, RuleError, shown

TOKENS = "tokens"  # the column that holds the texts of the tokens themselves


@dataclass(frozen=True, slots=True)
class Given:
    """Stands for a value that comes with the sequence: given[key]."""

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not re.fullmatch(r"\w+", self.key):
            raise RuleError("a given value needs a plain name", got=shown(self.key), wanted="letters, digits and _")

    def of(self, given: Mapping[str, Any]) -> Any:
        """The value in one sequence's `given`."""
        try:
            return given[self.key]
        except (KeyError, TypeError):
            raise missing(self.key, given) from None


def missing(key: str, given: object) -> GivenError:
    """The error for a value that did not come with the sequence."""
    keys = ", ".join(map(str, given)) if isinstance(given, Mapping) and given else "nothing"
    return GivenError(
        f"given[{key!r}] is missing",
        got=keys,
        wanted="{argument}",
        cause="Pass it with each sequence.",
        argument=Argument("given", {key: ...}),
    )


def missing_column(column: str, columns: Iterable[str]) -> GivenError:
    """The error for a column that rules look at and the data does not have."""
    there = [str(name) for name in columns]
    near = difflib.get_close_matches(column, there, n=1) or [x for x in there if x.lower() == column.lower()]
    return GivenError(
        f"there is no column {column!r}",
        got=f"columns {', '.join(there)}" if there else "no columns",
        wanted=f"the values of {column!r}, one per token",
        cause=f"Did you mean {near[0]!r}?" if near else "Pass them with each sequence: {argument}.",
        argument=Argument("given", {column: [...]}),
    )


def is_list(value: Any) -> bool:
    """Does it hold items? Texts and mappings do not count."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0  # an array of no dimension says it can be iterated, and cannot
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def texts_of(given: Mapping[str, Any], column: str, n: int) -> list[str]:
    """The values of a column, one text per token; of the column `TOKENS`: the texts of the tokens."""
    try:
        values = given[column]
    except (KeyError, TypeError):
        if column == TOKENS:
            raise missing(column, given) from None
        raise missing_column(column, given if isinstance(given, Mapping) else ()) from None
    if not is_list(values):
        what = "the tokens" if column == TOKENS else "one text per token"
        raise GivenError(f"given[{column!r}] should be {what}", got=shown(values), wanted="a list of strings")
    texts = list(map(str, values))
    if len(texts) != n:
        raise GivenError(f"given[{column!r}] and the sequence differ in length", got=len(texts), wanted=n)
    return texts
