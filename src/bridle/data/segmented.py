"""`segmented`: words separated by blanks, one sequence per line; the tokens are their characters.

The labels of a word are these::

    scheme   a word of 1, 2, 3, 4 characters
    BMES     S   BE   BME   BMME
    BI       B   BI   BII   BIII       (IB is another name for BI)
    None     no labels: blanks are dropped, for text that is not segmented yet
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.source import Source


@dataclass(frozen=True, kw_only=True)
class Segmented(Format):
    """Words as characters with labels.

    Parameters
    ----------
    scheme : {"BMES", "BI", "IB", None}, default "BMES"
        Labels of the characters of a word; None reads text without labels.
    column : str, default "char"
        Name of the column with the characters.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "segmented"
    streams = True
    gaps = "never"

    scheme: Literal["BMES", "BI", "IB"] | None = "BMES"
    column: str = "char"

    def __post_init__(self) -> None:
        self.check(scheme=("BMES", "BI", "IB", None))

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            words = line.split()  # by all white space: bakeoff files use U+3000 too
            if words:
                labels = None if self.scheme is None else list("".join(map(self.labels, map(len, words))))
                yield Example({self.column: list("".join(words))}, labels, where=f"{source.name}:{number}")

    def labels(self, n: int) -> str:
        """The labels of a word of n characters."""
        if self.scheme == "BMES":
            return "S" if n == 1 else "B" + "M" * (n - 2) + "E"
        return "B" + "I" * (n - 1)

    def lines(self, example: Example) -> Iterable[str]:
        if bad := [x for x in example.tokens if len(x) != 1 or x.isspace() or x == "\0"]:
            raise example.error(
                "a token cannot be written", got=repr(bad[0]), wanted="a single character other than white space"
            )
        if example.labels is None:
            yield "".join(example.tokens)
            return
        tags = [label.partition("-")[0] for label in example.known_labels]  # "B-NN": with a type
        if bad := sorted({tag for tag in tags if tag not in tuple("BIMES")}):
            raise example.error("the labels do not form words", got=", ".join(bad)[:60], wanted="B M E S, or B I")
        cuts = [k for k in range(len(tags)) if k == 0 or tags[k] in "BS" or tags[k - 1] in "ES"] + [len(tags)]
        yield " ".join("".join(example.tokens[a:b]) for a, b in pairwise(cuts))
