"""Rows of text under each other: the first column to the left, the others to the right."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose rows have equally many cells.

    >>> aligned([["name", "F1"], ["PER", "90.00"]])
    ['name     F1', 'PER   90.00']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
