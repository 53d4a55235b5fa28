"""Names in templates that nothing has: which column, function or set was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from bridle.errors import FeatureError
from bridle.features.derived import FUNCTIONS, OF_PLACE, OF_TEXT
from bridle.features.sets import BIGRAM, SETS
from bridle.frames import renamed_by_step


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever its case.

    >>> nearest("Word", ["pos", "word"]), nearest("zeroes", FUNCTIONS), nearest("xyz", FUNCTIONS)
    ('word', 'zeros', None)
    """
    by_lower = {one.lower(): one for one in reversed(list(known))}
    found = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def no_such_name(name: str, offset: int, main: str, columns: Collection[str]) -> FeatureError:
    """The error of a place, `name[offset]`, that asks for a column which is not there. main: the column of texts."""
    place, own = f"{name}[{offset}]", ", ".join(columns) or "none"
    head, dot, tail = name.rpartition(".")
    cause: str | None
    if name in OF_TEXT:  # it is the column behind it that is missing
        what, wanted = f"there is no column {main!r}", f"one of the columns {own}"
        first = next(iter(columns), "token")
        cause = f"Of another column it is written {first}.{place}."
    elif dot and tail in OF_TEXT:
        what, wanted = f"there is no column {head!r}", f"one of the columns {own}"
        near = nearest(head, columns)
        cause = _meant(near and f"{near}.{tail}")
    elif dot and tail in OF_PLACE:
        what, wanted = f"{tail!r} looks at the place of a token and takes no column", f"{tail}[{offset}]"
        cause = f"Write {wanted}, without the column."
    elif dot and head in columns:
        what, wanted = f"there is no function {tail!r}", f"one of the functions {_listed(OF_TEXT)}"
        near = nearest(tail, OF_TEXT)
        cause = _of_affixes(tail) or _meant(near and f"{head}.{near}")
    else:
        what = f"there is no column or function {name!r}"
        wanted = f"one of the columns {own}, or of the functions {_listed(FUNCTIONS)}"
        cause = renamed_by_step(name, columns) or _of_affixes(name) or _meant(_nearest_with_column(name, columns))
    return FeatureError(what, got=f"the template {place!r}", wanted=wanted, cause=cause)


def missing_for_set(name: str, column: str, needs: Collection[str], columns: Collection[str]) -> FeatureError:
    """The error of a ready-made set that asks for a column which is not there."""
    missing = column if column in needs else next(one for one in needs if one not in columns)
    return FeatureError(
        f"there is no column {missing!r}, which the feature set {name!r} needs",
        got=f"the columns {', '.join(columns) or 'none'}",
        wanted=f"the columns {', '.join(needs)}",
        cause="Does the column have another name? Otherwise, features='auto' chooses a set that needs no more columns.",
    )


def _nearest_with_column(name: str, columns: Collection[str]) -> str | None:
    """The nearest column or function; of `Word.Lower`, the nearest of both parts."""
    head, dot, tail = name.rpartition(".")
    if not dot:
        return nearest(name, [*columns, *FUNCTIONS])
    column, function = nearest(head, columns), nearest(tail, OF_TEXT)
    return f"{column}.{function}" if column and function else nearest(name, columns)


def _meant(name: str | None) -> str | None:
    return None if name is None else f"Did you mean {name!r}?"


def _of_affixes(name: str) -> str | None:
    """Prefixes and suffixes that are too long, or have no length."""
    found = re.fullmatch(r"(prefix|suffix)_?(\d*)", name.lower())
    return found and f"A {found[1]} has 1 to 4 characters: {found[1]}1 to {found[1]}4."


def _listed(names: Iterable[str]) -> str:
    """Names of functions; runs such as prefix1 to prefix4 are put together."""
    text = ", ".join(names)
    return re.sub(r"(\w+fix)1, .*\1(\d)", r"\g<1>1 to \g<1>\2", text)


def no_such_set(name: str) -> FeatureError:
    """The error of a name that no ready-made set has."""
    near = nearest(name, SETS)
    cause = f"Did you mean {near!r}?" if near else "Templates look like word[0]."
    if name == "auto":
        cause = "Only a model can choose, by the labels of its training data: CRF(features='auto')."
    return FeatureError("unknown feature set", got=repr(name), wanted="one of " + ", ".join(SETS), cause=cause)


def no_template(number: int, part: str) -> FeatureError:
    """The error of a line that is not a template."""
    return FeatureError(
        f"line {number} is not a template",
        got=repr(part),
        wanted=f"column[offset], or {BIGRAM} once in a line",
        cause=_why_no_template(part),
    )


def _why_no_template(part: str) -> str | None:
    if part.startswith("label["):
        return f"Only the label of the token just before can be used: {BIGRAM}, alone or as in {BIGRAM} word[0]."
    if part in SETS:
        return f"{part!r} is the name of a feature set: pass it alone, without templates."
    if re.fullmatch(r"[^\s\[\]]+", part):
        return f"Which token? {part}[0] is the token itself, {part}[-1] the one before it."
    if re.fullmatch(r"[^\s\[\]]+\[[+-]?\d+", part):
        return f"The bracket is not closed: {part}]."
    if part.count("[") > 1:
        return "Put a blank between two columns: word[-1] word[0]."
    if re.fullmatch(r"[^\s\[\]]+\[[+-]?\d+\]", part):
        return "The offset is too large."
    return None
