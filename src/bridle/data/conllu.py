"""`conllu`: Universal Dependencies, a special kind of `conll`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from bridle.data.conll import NAMES, Conll
from bridle.data.examples import Example
from bridle.errors import FileError


@dataclass(frozen=True, kw_only=True)
class Conllu(Conll):
    """Universal Dependencies, ten TAB columns; ranges (1-2) and empty nodes (1.1) are skipped.

    The columns have names, and every line that begins with # is a comment.

    Parameters
    ----------
    columns : list of str, optional
        Names of the ten columns; ``"_"`` skips one. By default _, word, lemma, upos, xpos, feats, head, deprel,
        deps, misc.
    label : str, int or None, default "xpos"
        Column with the labels: its name or its number; None if there is none.
    comment : str or None, default "#"
        Prefix of comments.
    separator : {"auto", "tab", "blanks"}, default "tab"
        What separates columns.
    """

    name = "conllu"
    with_gold = False
    suffixes: ClassVar[tuple[str, ...]] = (".conllu",)
    ids: ClassVar[bool] = True

    columns: Sequence[str] | None = ("_", *NAMES[1:])
    label: str | int | None = "xpos"
    comment: str | None = "#"
    separator: Literal["auto", "tab", "blanks"] = "tab"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is None or len(self.columns) != len(NAMES):
            raise FileError("conllu: wrong columns", got=self.columns, wanted="ten names; '_' skips one")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        rows = [line.split("\t") for line in head.split("\n") if line.strip() and not line.startswith("#")]
        return bool(rows) and all(len(row) == len(NAMES) and row[0][:1].isdecimal() for row in rows)

    surely = looks_like

    def lines(self, example: Example) -> Iterable[str]:
        """Columns that the sequence does not have are "_"; the labels are in the column `label`."""
        columns = dict(example.columns)
        if "word" not in columns:
            columns["word"] = columns.pop(next(iter(columns)))
        if example.labels is not None:
            if self.label not in NAMES[2:]:
                raise FileError(
                    "conllu: the column of the labels does not exist",
                    got=repr(self.label),
                    wanted=" or ".join(NAMES[2:]),
                )
            columns[str(self.label)] = example.known_labels
        if unknown := [name for name in columns if name not in NAMES]:
            raise example.error("conllu has no such column", got=", ".join(unknown), wanted=", ".join(NAMES))
        n = len(example)
        columns.setdefault("id", [str(k) for k in range(1, n + 1)])
        whole = {name: columns.get(name) or ["_"] * n for name in NAMES}
        return super().lines(Example(whole, None, {}, example.comments, example.where))
