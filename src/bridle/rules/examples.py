"""Test cases in .rules files: a text, and segments that a model under the rules must find in it.

    example "Knuth, D. The TeXbook. 1984" has AUTHOR "Knuth, D.", DATE "1984"
    example "Knuth, D. The TeXbook. 1984" is AUTHOR "Knuth, D.", TITLE "The TeXbook", DATE "1984"

`has`: these segments are among those found. `is`: these and no others. Phrases are found from left to right, each
after the one before. learn/examples.py runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A test case: ``RuleExample.parse(str(example)) == example``."""

    text: str
    kind: Literal["has", "is"]
    spans: tuple[tuple[str, str], ...]  # label, phrase


@dataclass(frozen=True, slots=True)
class ExampleLine:
    """A test case of a file, and its line (`Loaded.examples`)."""

    example: RuleExample
    number: int  # from 1
    comment: str
    file: str | None = None
