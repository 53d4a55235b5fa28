"""Tagging schemes: which labels make a segment.

    None   every label stands for itself; a segment is a maximal run of one label
    IO     the same, but the outside label (O) is not a segment; "I-A0" and "A0" both have the type A0
    BIO    B-x begins a segment, I-x goes on
    BIOES  B-x I-x* E-x, or S-x alone
    BMES   B M* E, or S alone (with or without "-x"); no outside label is needed

A segment that begins with I-x (or M, E) out of place counts as begun, as conlleval counts it; `well_formed()` is the
rule that forbids it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Scheme = Literal["IO", "BIO", "BIOES", "BMES"]
UNTYPED = "WORD"  # the type of a bare B, M, E or S

PREFIXES: dict[str | None, tuple[str, ...]] = {
    None: (),
    "IO": ("I",),
    "BIO": tuple("BI"),
    "BIOES": tuple("BIES"),
    "BMES": tuple("BMES"),
}
FIRST = frozenset("BS")  # tags that begin a segment
LAST = frozenset("ES")  # tags that end one


def scheme_of(names: Iterable[str], outside: str = "O") -> Scheme | None:
    """Return the tagging scheme that label names look like.

    Parameters
    ----------
    names : iterable of str
        The labels.
    outside : str, default "O"
        The label of tokens outside all segments.

    Returns
    -------
    {"IO", "BIO", "BIOES", "BMES"} or None
        None if they look like no scheme.

    Examples
    --------
    >>> scheme_of(["O", "B-PER", "I-PER"]), scheme_of(["B", "M", "E", "S"]), scheme_of(["NN", "VB"])
    ('BIO', 'BMES', None)
    """
    inside = [name for name in names if name != outside]
    typed = {name.partition("-")[1] for name in inside}  # all of them with a dash, or none
    tags = {name.partition("-")[0] for name in inside}
    if len(typed) != 1 or not tags <= set("BIMES") or (typed == {""} and tags == {"I"}):
        return None
    if tags == {"I"}:
        return "IO"
    if tags <= {"B", "I"}:
        return "BIO"
    if "I" not in tags and (typed == {""} or "M" in tags):
        return "BMES"
    return "BIOES" if "M" not in tags and typed == {"-"} else None
