"""Hugging Face `datasets`: data sets in memory as examples, and back.

    from datasets import load_dataset
    from bridle.integrations.datasets import examples

    train = list(examples(load_dataset("conll2003", split="train")))

Files of data sets (Parquet, Arrow, folders of `save_to_disk`) need no integration: `bridle.data.read` takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bridle.data import Example
from bridle.data.parquet import Arrow
from bridle.data.source import located
from bridle.errors import FileError, shown
from bridle.extras import needed

__all__ = ["examples", "to_dataset"]


def examples(
    dataset: Any, *, tokens: str = "tokens", label: str | None = "labels", columns: Sequence[str] | None = None
) -> Iterator[Example]:
    """Read the rows of a data set as labelled sequences.

    Parameters
    ----------
    dataset : datasets.Dataset or datasets.IterableDataset
        One split, with a row per sequence.
    tokens : str, default "tokens"
        Name of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Name of the labels, strings or integers with names; if there are no ``labels``, those called ``ner_tags``,
        ``tags``, ``pos_tags`` or ``chunk_tags`` are taken, in this order. A name of your own must be a column. None:
        there are no labels.
    columns : list of str, optional
        Which columns to read, besides the tokens; None reads all lists of strings and of integers with names.

    Yields
    ------
    Example
        A sequence; integers have become their names. Rows whose labels are all -1 are not labelled.

    Raises
    ------
    FileError
        If `dataset` is not a data set with these columns, or an integer has no name.

    Examples
    --------
    >>> from datasets import ClassLabel, Dataset, Features, Sequence, Value
    >>> tags = ClassLabel(names=["O", "B-PER"])
    >>> kinds = Features({"tokens": Sequence(Value("string")), "ner_tags": Sequence(tags)})
    >>> dataset = Dataset.from_dict({"tokens": [["Ann", "left"]], "ner_tags": [[1, 0]]}, features=kinds)
    >>> [(example.tokens, example.labels) for example in examples(dataset)]
    [(['Ann', 'left'], ['B-PER', 'O'])]
    """
    if not hasattr(dataset, "features") or not hasattr(dataset, "with_format"):
        cause = "Choose a split: dataset['train']." if isinstance(dataset, dict) else None
        raise FileError("not a data set", got=type(dataset).__name__, wanted="datasets.Dataset", cause=cause)
    names = {name: known for name, kind in (dataset.features or {}).items() if (known := _names(kind)) is not None}
    table = Arrow(tokens=tokens, label=label, columns=columns)
    for k, row in enumerate(dataset.with_format(None)):
        with located(f"sequence {k}") as where:
            chosen = table.labels(list(row))
            if chosen is not None and chosen not in names:
                _check(row[chosen], chosen)
            yield table.example(table.with_names(dict(row), names, chosen), where)


def _names(kind: Any) -> list[str] | None:
    """Return the names of integers if a feature is a list of ClassLabel."""
    inner = kind[0] if isinstance(kind, list) and len(kind) == 1 else getattr(kind, "feature", None)
    names = getattr(inner, "names", None)
    return list(names) if isinstance(names, list) else None


def _check(values: Any, column: str) -> None:
    if isinstance(values, list) and any(isinstance(value, int) for value in values):
        raise FileError(
            f"integers of {column!r} have no names",
            got=shown(values),
            wanted="a feature List(ClassLabel(names=[...]))",
            cause="Give them names with `dataset.cast_column`.",
        )


def to_dataset(examples: Iterable[Example], *, label: str = "ner_tags", names: Sequence[str] | None = None) -> Any:
    """Create a data set of labelled sequences.

    Parameters
    ----------
    examples : iterable of Example
        The sequences; all have the same columns.
    label : str, default "ner_tags"
        What to call the labels.
    names : list of str, optional
        All labels, in the order of their integers; None takes those that occur, ``"O"`` first.

    Returns
    -------
    datasets.Dataset
        With columns ``tokens``, `label` as integers with names, and the other columns; ``id`` as text.

    Raises
    ------
    FileError
        If sequences differ in their columns, or a label is not among `names`.

    Examples
    --------
    >>> from bridle.data import Example
    >>> dataset = to_dataset([Example({"word": ["Ann", "left"]}, ["B-PER", "O"])])
    >>> dataset[0], dataset.features["ner_tags"].feature.names
    ({'tokens': ['Ann', 'left'], 'ner_tags': [1, 0]}, ['O', 'B-PER'])
    """
    datasets = needed("datasets", "datasets", "data sets of Hugging Face need the package datasets")
    listed = list(examples)
    if names is None:
        present = {name for example in listed for name in example.labels or () if name is not None}
        names = sorted(present, key=lambda name: (name != "O", name))
    table = Arrow(label=label, names=names)
    rows = [table.row(example) for example in listed]
    columns = list(rows[0]) if rows else ["tokens"]
    for example, row in zip(listed, rows, strict=True):
        if list(row) != columns:
            got, wanted = ", ".join(row), ", ".join(columns)
            raise example.error("a sequence has other columns than the first", got=got, wanted=wanted)
    text = datasets.Value("string")
    kinds = {name: text if name in ("id", "given") else [text] for name in columns}
    if label in kinds:
        kinds[label] = [datasets.ClassLabel(names=list(names))]
    values = {name: [row[name] for row in rows] for name in columns}
    return datasets.Dataset.from_dict(values, features=datasets.Features(kinds))
