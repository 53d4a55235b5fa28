"""Tables and columns of other packages as Arrow tables, and the way back.

    table, back = as_table(frame)         pyarrow.Table, and the function that makes a frame of the result
    return back(labelled(table))          the frame with its own columns, and the new ones

A frame keeps its own columns as they are: only what was added comes from Arrow. None of the packages is imported. A
kind is known by the name of its class, and whoever passes a frame has imported its package.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from copy import copy
from typing import Any

from bridle.errors import FeatureError, shown
from bridle.extras import needed

Back = Callable[[Any], Any]

_KNOWN = "a table or column of PyArrow, pandas, Polars or DuckDB, or a dict of lists"
_OWN = {"bridle": "own"}  # metadata of the columns that a table begins with: what was added may have their names
# Tables that are labelled part by part: how their packages call a function.
_IN_PARTS = {
    "polars.LazyFrame": "frame.map_batches(tag, schema=tag(frame.head(0).collect()).schema)",
    "dask.DataFrame": "frame.map_partitions(tag, meta=tag(frame._meta))",
    "datasets.Dataset": "dataset.map(tag, batched=True)",
    "datasets.IterableDataset": "dataset.map(tag, batched=True)",
    "pyspark.DataFrame": "bridle.integrations.spark.tag(frame, model)",
    "ray.Dataset": "bridle.integrations.ray.tag(dataset, model)",
}


def as_table(data: Any, *, wanted: Collection[str] | None = None, column: str = "tokens") -> tuple[Any, Back]:
    """Turn a table or a column of any package into an Arrow table.

    Parameters
    ----------
    data : object
        A ``pyarrow.RecordBatch`` or ``Table``, a data frame of pandas or Polars, a mapping of names to lists, or
        anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``; or a column: an array of PyArrow, a series of
        pandas or Polars. A column of structs stands for a table.
    wanted : collection of str, optional
        The columns that will be read; all by default. Of a frame, the others are not converted: the table has a column
        of type null in their place.
    column : str, default "tokens"
        The name that a column gets.

    Returns
    -------
    table : pyarrow.RecordBatch or pyarrow.Table
        The rows. An Arrow batch or table is returned as it is. A cell that Arrow cannot hold beside the others of its
        column, such as a number among lists, is null.
    back : callable
        Takes the table again, with more columns and perhaps without some of its own, whose fields must be as they were.
        It returns what `data` was: a frame for a frame, a dict for a dict. A column becomes a column of structs that
        has only what was added (a series of pandas, a frame of those). Anything that is only known by its Arrow
        interface, and a batch of Hugging Face `datasets`, becomes an Arrow table.

    Raises
    ------
    FeatureError
        If it is neither a table nor a column, or if the names of its columns are not strings or not distinct.

    Examples
    --------
    >>> table, back = as_table({"id": [7, 8], "tokens": [["a", "b"], None]})
    >>> table.column_names
    ['id', 'tokens']
    >>> back(table.append_column("n", [[2, 0]]))
    {'id': [7, 8], 'tokens': [['a', 'b'], None], 'n': [2, 0]}
    """
    pa = needed("pyarrow", "arrow", "Arrow tables need PyArrow")
    if isinstance(data, (pa.RecordBatch, pa.Table)):
        return data, lambda result: result
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return _of_array(pa, data, column)
    for name in _names(data):
        if name in _IN_PARTS:
            raise FeatureError("this table is labelled in parts", got=name, wanted=_IN_PARTS[name])
        if name in _FRAMES:
            return _FRAMES[name](pa, data, wanted)
        if name in _SERIES:
            return _SERIES[name](pa, data, column)
    if isinstance(data, Mapping):
        return _of_mapping(pa, data, wanted)
    if hasattr(type(data), "__arrow_c_stream__"):
        try:
            return pa.table(data), lambda result: result
        except pa.ArrowInvalid:  # it has no columns, so it is one
            return _of_array(pa, pa.chunked_array(data), column)
    if hasattr(type(data), "__arrow_c_array__"):
        array = pa.array(data)
        is_table = pa.types.is_struct(array.type)
        return (pa.RecordBatch.from_struct_array(array), lambda x: x) if is_table else _of_array(pa, array, column)
    raise FeatureError("this is not a table", got=f"{type(data).__name__}: {shown(data)}", wanted=_KNOWN)


def _names(data: Any) -> list[str]:
    """Name a class and its bases: package.Class, whatever module they are in."""
    return [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(data).__mro__]


# ---- tables ---------------------------------------------------------------------------------------------------------


def _converted(pa: Any, names: Sequence[Any], wanted: Collection[str] | None, n: int, get: Callable[[str], Any]) -> Any:
    """A table of columns by name; of a column that is not wanted, only the name."""
    for k, name in enumerate(names):
        if not isinstance(name, str):
            cause = "In pandas, frame.rename(columns=str) makes them strings."
            raise FeatureError("a column has no name", got=shown(name), wanted="a string for every column", cause=cause)
        if name in names[:k]:
            raise FeatureError(f"the column {name!r} occurs twice", got=shown(list(names)), wanted="each name once")
    arrays = [get(name) if wanted is None or name in wanted else pa.nulls(n) for name in names]
    return _marked(pa, pa.table(arrays, names=list(names)))


def _marked(pa: Any, table: Any) -> Any:
    """A table whose columns are known as its own."""
    return type(table).from_arrays(
        table.columns, schema=pa.schema([field.with_metadata(_OWN) for field in table.schema])
    )


def _split(result: Any) -> tuple[list[str], list[str]]:
    """The columns that were there before and those that were added."""
    original = {field.name for field in result.schema if b"bridle" in (field.metadata or {})}
    return [name for name in result.schema.names if name in original], [
        x for x in result.schema.names if x not in original
    ]


def _of_pandas(pa: Any, frame: Any, wanted: Collection[str] | None) -> tuple[Any, Back]:
    names = list(frame.columns)

    def back(result: Any) -> Any:
        kept, added = _split(result)
        native = not any(type(kind).__name__ == "ArrowDtype" for kind in frame.dtypes)
        series = {name: _pandas_series(result.column(name), frame.index, native=native) for name in added}
        return frame[kept].assign(**series)

    return _converted(pa, names, wanted, len(frame), lambda name: _array(pa, frame[name])), back


def _pandas_series(column: Any, index: Any, *, native: bool) -> Any:
    """A column in pandas' own types, with lists in its cells; or as it is, which copies nothing."""
    pd = sys.modules["pandas"]
    if not native:
        return pd.Series(pd.arrays.ArrowExtensionArray(column), index=index)
    if column.type.num_fields:  # lists: pandas has objects for them, PyArrow would make arrays
        return pd.Series(column.to_pylist(), index=index, dtype=object)
    return column.to_pandas().set_axis(index)


def _of_polars(pa: Any, frame: Any, wanted: Collection[str] | None) -> tuple[Any, Back]:
    names = frame.columns

    def get(name: str) -> Any:
        return pa.nulls(len(frame)) if str(frame.schema[name]) == "Object" else frame[name].to_arrow()

    def back(result: Any) -> Any:
        pl = sys.modules["polars"]
        kept, added = _split(result)
        return pl.DataFrame([*(frame[name] for name in kept), *pl.from_arrow(result.select(added)).get_columns()])

    return _converted(pa, names, wanted, len(frame), get), back


def _of_mapping(pa: Any, data: Mapping[str, Any], wanted: Collection[str] | None) -> tuple[Any, Back]:
    """The lists of a dict, of which those that are not wanted are not looked at."""
    names = [name for name in data if wanted is None or name in wanted]
    for name in names:
        if isinstance(data[name], (str, bytes)) or not hasattr(data[name], "__len__"):
            cause = "`datasets` pass single rows unless you say dataset.map(tag, batched=True)."
            raise FeatureError(f"{name!r} is not a list of cells", got=shown(data[name]), wanted=_KNOWN, cause=cause)
    n = len(data[names[0]]) if names else 0
    if other := [name for name in names if len(data[name]) != n]:
        got = f"{n} cells in {names[0]!r}, {len(data[other[0]])} in {other[0]!r}"
        raise FeatureError("columns have different lengths", got=got, wanted="a cell per row in each")

    def back(result: Any) -> Any:
        whole = copy(data) if isinstance(data, MutableMapping) else dict(data)
        kept, added = _split(result)
        for name in data.keys() - set(kept):
            del whole[name]
        whole.update({name: result.column(name).to_pylist() for name in added})
        return whole

    return _converted(pa, list(data), wanted, n, lambda name: _array(pa, data[name])), back


def _of_lazy_batch(pa: Any, batch: Any, wanted: Collection[str] | None) -> tuple[Any, Back]:
    """Convert a batch of `datasets`: rows of their Arrow table, which are decoded when they are used.

    They take an Arrow table back, and should get one. In lists, a column of errors has no type until there is one.
    """
    del wanted  # all columns are there, so that nothing has to be decoded
    names = list(batch)
    arrays = [batch.pa_table[x] if x in batch.keys_to_format else _array(pa, batch[x]) for x in names]
    return pa.table(arrays, names=names), lambda result: result


# ---- columns --------------------------------------------------------------------------------------------------------


def _of_array(pa: Any, array: Any, column: str) -> tuple[Any, Back]:
    """A column; one of structs stands for a table."""
    chunked = isinstance(array, pa.ChunkedArray)
    kind = pa.Table if chunked else pa.RecordBatch
    struct = pa.types.is_struct(array.type)
    table = _marked(pa, kind.from_struct_array(array) if struct else kind.from_arrays([array], names=[column]))

    def back(result: Any) -> Any:
        _, added = _split(result)
        fields = [result.schema.field(name) for name in added]
        parts = [
            pa.StructArray.from_arrays([batch.column(name) for name in added], fields=fields)
            for batch in (result.to_batches() if chunked else [result])
        ]
        return pa.chunked_array(parts, pa.struct(fields)) if chunked else parts[0]

    return table, back


def _of_polars_series(pa: Any, series: Any, column: str) -> tuple[Any, Back]:
    table, back = _of_array(pa, series.to_arrow(), column)
    return table, lambda result: sys.modules["polars"].Series(series.name, back(result))


def _of_pandas_series(pa: Any, series: Any, column: str) -> tuple[Any, Back]:
    table, back = _of_pandas(pa, series.to_frame(column), None)
    return table, lambda result: back(result).drop(columns=column, errors="ignore")


def _array(pa: Any, cells: Any) -> Any:
    """A column as an array; if some cells do not fit in, of the type that most of them have, null where they do not."""
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError):
        alone = [_alone(pa, cell) for cell in cells]
    kinds = [kind for kind, _ in Counter(array.type for array in alone if array.type != pa.null()).most_common()]
    if not kinds:
        return pa.nulls(len(alone))
    kind = next((kind for kind in kinds if kind != kinds[0] and _fits(pa, kinds[0], kind)), kinds[0])
    fitting = (x if _fits(pa, x.type, kind) else pa.nulls(1) for x in alone)
    return pa.concat_arrays([x if x.type == kind else x.cast(kind) for x in fitting])  # a cast may damage list<null>


def _alone(pa: Any, cell: Any) -> Any:
    """The array of one cell. (To convert it to a type would split a string where the type is a list.)"""
    try:
        return pa.array([cell], from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError):
        return pa.nulls(1)


def _fits(pa: Any, kind: Any, other: Any) -> bool:
    """Check whether a cell of this type has the other one too: equal, null, or an empty list."""
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return _fits(pa, kind.value_type, other.value_type)
    return bool(kind in (other, pa.null()))


_FRAMES: dict[str, Callable[[Any, Any, Collection[str] | None], tuple[Any, Back]]] = {
    "datasets.LazyBatch": _of_lazy_batch,
    "pandas.DataFrame": _of_pandas,
    "polars.DataFrame": _of_polars,
}
_SERIES: dict[str, Callable[[Any, Any, str], tuple[Any, Back]]] = {
    "pandas.Series": _of_pandas_series,
    "polars.Series": _of_polars_series,
}
