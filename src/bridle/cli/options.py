"""Options that several commands share, with the same names and help texts, and completion for shells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from bridle.data import formats
from bridle.data.tokenizer import TOKENS, Tokens
from bridle.decoding.problem import LEAST_MEMORY, MOST_MEMORY
from bridle.engines import engine_names
from bridle.errors import Argument, EngineError
from bridle.features import SETS


class AnyScheme(StrEnum):
    """What --scheme takes if the labels come from data."""

    AUTO, NONE, IO, BIO, BIOES, BMES = "auto", "none", "IO", "BIO", "BIOES", "BMES"

    @property
    def asked(self) -> str | None:
        """As the library calls it."""
        return None if self is AnyScheme.NONE else self.value


class HoldOut(StrEnum):
    """What --hold-out takes."""

    SEQUENCES, FILES = "sequences", "files"


class Measure(StrEnum):
    """What --measure takes."""

    AUTO, F1, ACCURACY, EXACT, QUALITY = "auto", "f1", "accuracy", "exact", "quality"


class Scores(StrEnum):
    """What --scores takes."""

    AUTO, CROSS_FITTED, MODEL = "auto", "cross-fitted", "model"


class SplitAs(StrEnum):
    """What --tokens takes."""

    BLANKS, WORDS, PUNCTUATION, REFERENCES, CHARACTERS = TOKENS

    @property
    def asked(self) -> Tokens:
        """As the library calls it."""
        return next(how for how in TOKENS if how == self.value)


def one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completion of a partial word in a shell."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def bytes_of(size: str | None, option: str = "max_memory") -> int:
    """Convert a size to bytes; without a size, return the default of --max-memory. option: which one has it.

    >>> bytes_of("500MB"), bytes_of("1.5 GB"), bytes_of("2000000"), bytes_of(None)
    (500000000, 1500000000, 2000000, 1000000000)
    """
    if size is None:
        return MOST_MEMORY
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)", size.strip().lower())
    count = 0 if found is None or found[2] not in _UNITS else int(Fraction(found[1]) * _UNITS[found[2]])
    if not LEAST_MEMORY <= count <= 10**18:
        raise EngineError(
            f"bad option {option}",
            got=repr(size),
            wanted="a size from 1MB, such as 500MB or 2GB",
            argument=Argument(option, size),
        )
    return count


FORMATS = one_of(formats)
ENGINES = one_of(lambda: ["auto", *engine_names()])
FEATURES = one_of(lambda: ["auto", *SETS])
_ENGINES = "Decoding engine: auto, search, viterbi, product, lazy_intersection, ilp, beam, two_stage."

Labelled = Annotated[
    list[str],
    typer.Argument(metavar="DATA", help="Labelled sequences, optionally gzipped; - reads stdin.", show_default=False),
]
TheRules = Annotated[
    list[Path] | None, typer.Option("--rules", metavar="FILE", help=".rules file to obey; can be repeated.")
]
TheLenient = Annotated[bool, typer.Option("--lenient", help="Leave out rules about unknown labels, with a warning.")]
TheEngine = Annotated[str, typer.Option("--engine", metavar="NAME", help=_ENGINES, autocompletion=ENGINES)]
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
TheMemory = Annotated[
    str | None,
    typer.Option("--max-memory", metavar="SIZE", help="Working memory for each sequence, such as 500MB. Default: 1GB."),
]
TheLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="SECONDS", help="Time limit for each sequence.")
]
DataScheme = Annotated[
    AnyScheme,
    typer.Option("--scheme", metavar="|".join(AnyScheme), case_sensitive=False, help="Tagging scheme of the labels."),
]
TheSeed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the random number generator.")]
TheThreads = Annotated[int, typer.Option("--threads", metavar="N", min=0, help="Number of threads; 0 uses all cores.")]
TheHoldOut = Annotated[
    HoldOut,
    typer.Option(
        "--hold-out",
        help="What to hold out together in cross-validation: single sequences, or complete files, to estimate results "
        "on new sources.",
    ),
]
TheMeasure = Annotated[
    Measure,
    typer.Option(
        "--measure",
        help="Measure to optimise. f1: F1 of segments; accuracy: share of correct tokens; exact: share of sequences "
        "without an error; quality: mean of f1 and exact. auto: f1 if labels form segments, otherwise accuracy.",
    ),
]
TheCrossFit = Annotated[
    Path | None,
    typer.Option(
        "--cross-fit", metavar="FILE", help="Cache of cross-fitted scores: read if it exists, written otherwise."
    ),
]
TheScores = Annotated[
    Scores,
    typer.Option(
        "--scores",
        help="Scores to use: of models trained on other folds, or of MODEL itself. "
        "auto: cross-fitted if MODEL was trained on DATA.",
    ),
]
TheOut = Annotated[str | None, typer.Option("-o", "--out", metavar="FILE", help="Output file. Default: stdout.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a single JSON object to stdout, for scripts.")]
TheTokens = Annotated[
    SplitAs | None,
    typer.Option("--tokens", help="How to split texts into tokens. Default: as the training data was split."),
]
TheProgress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress", help="Show progress on stderr. Default: on a terminal, if the command takes long."
    ),
]
