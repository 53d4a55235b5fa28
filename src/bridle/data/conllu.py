"""`conllu`: Universal Dependencies, ten TAB columns; ranges (1-2) and empty nodes (1.1) are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from bridle.data.conll import Conll
from bridle.data.examples import Example
from bridle.errors import FileError

NAMES = ("id", "word", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


@dataclass(frozen=True, kw_only=True)
class Conllu(Conll):
    """Like conll, but columns have names, and every line that begins with # is a comment.

    Parameters
    ----------
    columns : list of str, optional
        Names of the ten columns; ``"_"`` skips one. By default _, word, lemma, upos, xpos, feats, head, deprel,
        deps, misc.
    label : str, int or None, default "xpos"
        Column with the labels: its name or its number; None if there is none.
    comment : str or None, default "#"
        Prefix of comments.
    docstart : {"skip", "keep"}, default "skip"
        What to do with lines that begin with -DOCSTART-.
    separator : {"auto", "tab", "blanks"}, default "tab"
        What separates columns.
    unlabelled : {"refuse", "allow"}, default "refuse"
        Whether the column of the labels may be missing, as in data to be tagged.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
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

    @classmethod
    def surely(cls, head: str) -> bool:
        return cls.looks_like(head)

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
