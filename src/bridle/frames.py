"""Sequences and labels in tables and columns of pandas, Polars, PyArrow and others.

    a column, a cell per sequence          ->  [[...], [...], ...]
    a table, a row per sequence            ->  [{"word": [...], "pos": [...]}, ...]
    a long table, a row per token          ->  the same, by `sequences`

None of these packages is imported: a table is what names its columns, a column is what turns itself into a list. Models
take the first two as they are; whatever they are given, `rows` has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from bridle.errors import BridleError, FeatureError, LabelError, shown
from bridle.extras import needed


class Table(Protocol):
    """A table, or a column of one: what models take in place of a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


Sequences = Sequence[Any] | Table  # X
LabelLists = Sequence[Sequence[str | None]] | Table  # y; None: the label is missing

_KEEPING = "ColumnTransformer(..., verbose_feature_names_out=False).set_output(transform='pandas')"
# The likely cause where a token is a list:
NAMELESS = (
    "Columns need names: pass {'word': [...], 'pos': [...]} per sequence. "
    f"Is X a table that has lost the names of its columns? {_KEEPING} keeps them."
)
_LISTED = ("to_pylist", "to_list", "tolist")  # PyArrow; Polars, pandas; others
_PLAIN = (list, tuple, str, bytes, Mapping, np.ndarray)  # neither tables nor columns


def renamed_by_step(missing: str, there: Iterable[Any]) -> str | None:
    """Return the likely cause if scikit-learn has put the name of a step before a missing column: step__word."""
    name = next((name for name in there if isinstance(name, str) and name.endswith(f"__{missing}")), None)
    return None if name is None else f"{name!r} has the name of a step before it; {_KEEPING} keeps names as they are."


def rows(data: Any) -> Any:
    """Return a table as a list of mappings, a column as a list of its cells; anything else unchanged."""
    names, data = _opened(data)
    if names is None:
        return _listed(data) if _is_column(data) else data
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise FeatureError(f"the column {twice!r} occurs twice", got=", ".join(map(repr, names)), wanted="each once")
    return [dict(zip(names, row, strict=True)) for row in zip(*(_listed(data[name]) for name in names), strict=True)]


def cells(data: Any) -> Any:
    """Return the cells of a column, or of the only column of a table; anything else unchanged."""
    names, data = _opened(data)
    if names is None:
        return _listed(data) if _is_column(data) else data
    if len(names) != 1:
        got = f"a table with the columns {', '.join(map(repr, names))}" if names else "a table without columns"
        raise LabelError("this should be one column, not a table", got=got, wanted="table['name'], for example")
    return _listed(data[names[0]])


def is_missing(cell: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or the missing value of pandas."""
    if cell is None or isinstance(cell, (str, list)):
        return cell is None
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor different; arrays are many things
        return not hasattr(cell, "__len__")


def sequences(
    table: Any, *, by: str | Sequence[str], columns: Sequence[str] | None = None, label: str | None = None
) -> tuple[list[dict[str, list[str]]], list[list[str | None]] | None]:
    """Make sequences of a long table, which has one row per token.

    The rows of a sequence must stand together, in the order of its tokens. Sequences come in the order of the table, so
    that labels laid end to end fit its rows again.

    Parameters
    ----------
    table : pandas.DataFrame, polars.DataFrame, pyarrow.Table or similar
        One row per token.
    by : str or list of str
        The column, or the columns, that identify sequences, for example ``["document", "sentence"]``.
    columns : list of str, optional
        The columns of text that features are made of; all others by default.
    label : str, optional
        The column of labels.

    Returns
    -------
    X : list of dict
        One mapping of columns per sequence.
    y : list of list of str, or None
        The labels, None where a cell is empty; None without `label`.

    Raises
    ------
    FeatureError
        If a column is not there, a cell is empty or not a string, or the rows of a sequence are scattered.
    LabelError
        If a label is neither a string nor an empty cell.

    Examples
    --------
    >>> import pyarrow
    >>> from bridle.frames import sequences
    >>> table = pyarrow.table({"sentence": [1, 1, 2], "word": ["the", "cat", "dogs"], "tag": ["D", "N", "N"]})
    >>> X, y = sequences(table, by="sentence", label="tag")
    >>> X
    [{'word': ['the', 'cat']}, {'word': ['dogs']}]
    >>> y
    [['D', 'N'], ['N']]
    """
    known, table = _opened(table)
    if known is None:
        raise FeatureError(
            "this is not a table",
            got=shown(table),
            wanted="a data frame with one row per token",
            cause="A lazy frame must be collected first: table.collect()." if _has(table, "collect") else None,
        )
    keys = [by] if isinstance(by, str) else list(by)
    texts = [name for name in known if name not in (*keys, label)] if columns is None else list(columns)
    for name in (*keys, *texts, *([] if label is None else [label])):
        if name not in known:
            raise FeatureError(
                f"there is no column {name!r}", got=", ".join(map(repr, known)), wanted="a column of the table"
            )
    if not keys or not texts:
        purpose = "column identifies sequences" if not keys else "column of text is left"
        raise FeatureError(f"no {purpose}", got=f"by={by!r}, columns={columns!r}", wanted="at least one")
    bounds = _bounds(keys, [_listed(table[name]) for name in keys])
    of_texts = {name: _strings(name, _listed(table[name]), FeatureError) for name in texts}
    X = [{name: column[low:high] for name, column in of_texts.items()} for low, high in bounds]
    if label is None:
        return X, None
    cells = [None if is_missing(cell) else cell for cell in _listed(table[label])]
    _strings(label, ["" if cell is None else cell for cell in cells], LabelError)
    return X, [cells[low:high] for low, high in bounds]


def _bounds(keys: Sequence[str], values: Sequence[list[Any]]) -> list[tuple[int, int]]:
    """Return the first row of each sequence, and the row after its last."""
    for name, column in zip(keys, values, strict=True):
        if (empty := next((k for k, cell in enumerate(column) if is_missing(cell)), None)) is not None:
            raise FeatureError(
                f"row {empty} belongs to no sequence",
                got=f"an empty cell in {name!r}",
                wanted="a value in every row",
                cause="Is it only in the first row of each sequence? Fill it down: ffill() in pandas, "
                "forward_fill() in Polars.",
            )
    seen, bounds, low = set(), [], 0
    for key, group in groupby(zip(*values, strict=True)):
        if key in seen:
            raise FeatureError(
                "the rows of a sequence are scattered",
                got=f"{', '.join(map(repr, keys))} = {', '.join(map(shown, key))} again in row {low}",
                wanted="all rows of a sequence together",
                cause="Do the numbers start again in each document? Pass by=[document, sentence]. "
                "Otherwise sort the table.",
            )
        seen.add(key)
        bounds.append((low, low + sum(1 for _ in group)))
        low = bounds[-1][1]
    return bounds


def _strings(name: str, column: list[Any], error: type[BridleError]) -> list[str]:
    """Return a column of text; raise `error` if a cell is not a string."""
    if (wrong := next((k for k, cell in enumerate(column) if not isinstance(cell, str)), None)) is not None:
        empty = is_missing(column[wrong])
        raise error(
            f"row {wrong} of column {name!r} " + ("is empty" if empty else "is not a string"),
            got=shown(column[wrong]),
            wanted="a string in every row",
            cause="pandas reads the words NA, None and null as empty cells: read_csv(..., keep_default_na=False)."
            if empty
            else "Turn it into text first, or name the columns of text: columns=[...].",
        )
    return column


def _opened(data: Any) -> tuple[list[str] | None, Any]:
    """Return the column names of a table, and the table; None instead of names for anything else."""
    if isinstance(data, _PLAIN):
        return None, data
    if _has(data, "__len__") and _has(data, "__getitem__"):
        names = getattr(data, "column_names", getattr(data, "columns", None))
        return None if names is None else list(names), data
    if _has(data, "__arrow_c_stream__"):
        table = needed("pyarrow", "arrow", "reading Arrow data needs PyArrow").table(data)
        return list(table.column_names), table
    return None, data


def _is_column(data: Any) -> bool:
    return not isinstance(data, _PLAIN) and any(_has(data, name) for name in _LISTED)


def _listed(column: Any) -> list[Any]:
    """Return the cells of a column; arrays in cells, as pandas may have them, become lists."""
    method = next((getattr(column, name) for name in _LISTED if _has(column, name)), column.__iter__)
    return [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in method()]


def _has(data: Any, name: str) -> bool:
    return hasattr(type(data), name)
