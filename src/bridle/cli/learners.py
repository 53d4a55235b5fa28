"""The model that `bridle train` trains, as --learner, --features and other options ask."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridle.cli.base import warn
from bridle.data import Example
from bridle.errors import FeatureError, FileError, ModelError
from bridle.features import SETS, Templates, choose_features
from bridle.features.templates import no_such_set
from bridle.models import CRF, LocalTagger, Tagger
from bridle.rules.base import Rule
from bridle.rules.loading import read_text

_OF_CRF = {"c1", "c2", "folds", "tuning_seconds"}
ITERATIONS = {True: 100, False: 20}  # of a CRF, of others


class Learner(StrEnum):
    """What --learner takes."""

    CRF, PERCEPTRON, IBT, LOCAL, WINNOW = "crf", "perceptron", "ibt", "local-perceptron", "local-winnow"


class Average(StrEnum):
    """What --average takes."""

    AVERAGED, LAST = "averaged", "last"


class Pairs(StrEnum):
    """What --pairs takes."""

    SEEN, ALL = "seen", "all"


def model_of(learner: Learner, common: dict[str, Any], own: dict[str, Any], rules: list[Rule]) -> Tagger:
    """The model that the options ask for. Options that have no effect on it are errors."""
    local = learner in (Learner.LOCAL, Learner.WINNOW)
    takes = _OF_CRF if learner is Learner.CRF else {"margin", "average"} if local else {"average"}
    if other := sorted(set(own) - takes):
        fitting = {"margin": "local-perceptron", "average": "perceptron"}.get(other[0], "crf")
        flag = other[0].replace("_", "-")
        raise ModelError(f"`--{flag}` has no effect with `--learner {learner}`; remove it or use `--learner {fitting}`")
    algorithm: Any = "lbfgs" if learner is Learner.CRF else learner.value.removeprefix("local-")
    if local:
        return LocalTagger(algorithm, **own, **common)
    return CRF(algorithm, rules=tuple(rules), **own, **common)


def strength_of(name: str, asked: str | None) -> float | str | None:
    """A strength of regularisation: a number, or auto."""
    if asked is None or asked == "auto":
        return asked
    try:
        return float(asked)
    except ValueError:
        raise ModelError(f"bad setting {name}", got=repr(asked), wanted="a number >= 0, or auto") from None


def features_for(asked: str, examples: Sequence[Example]) -> str | list[str]:
    """What --features asks for: "auto", or the templates of a set or of a file."""
    return asked if asked == "auto" else str(templates_of(asked, list(examples[0].columns))).splitlines()


def tell_choice(asked: str, examples: Sequence[Example]) -> None:
    """Print which features the model will choose, and why."""
    if asked == "auto":
        chosen = choose_features([one.columns for one in examples], [one.labels or () for one in examples])
        warn(f"features: {chosen}")


def class_weight_of(asked: str | None) -> dict[str, float] | str | None:
    """Weights of labels: LABEL=WEIGHT, separated by commas, or balanced."""
    if asked is None or asked == "balanced":
        return asked
    found: dict[str, float] = {}
    for part in asked.split(","):
        name, _, weight = (piece.strip() for piece in part.rpartition("="))
        try:
            if not name or name in found:
                raise ValueError
            found[name] = float(weight)
        except ValueError:
            raise ModelError(
                "`--class-weight` must be a list of weights, or balanced",
                got=repr(part),
                wanted="LABEL=NUMBER, each label once, such as PER=3,ORG=2, or balanced",
            ) from None
    return found


def list_files(asked: Sequence[str] | None) -> dict[str, str]:
    """Phrase files, by the names that --list gives them."""
    found: dict[str, str] = {}
    for text in asked or ():
        name, mark, path = text.partition("=")
        if not mark or not path or not re.fullmatch(r"\w+", name) or name in found:
            wanted = "--list NAME=FILE, each name once, of letters, digits and _"
            raise FileError("--list must name a file of phrases", got=f"--list {text}", wanted=wanted)
        found[name] = path
    return found


def templates_of(asked: str, columns: list[str]) -> Templates:
    """The templates of a set, of a file, or of the text itself. They must match the columns of the data."""
    if asked in SETS or "[" in asked:
        where, text = None, SETS.get(asked, asked)
    elif not os.path.exists(asked) and asked.isidentifier():  # noqa: PTH110  (it may be too long for a path)
        raise no_such_set(asked)
    else:
        where, text = asked, read_text(Path(asked))
    try:
        templates = Templates.parse(text)
    except FeatureError as error:
        raise error.at(where=where) from None
    if (place := templates.first_unknown(columns)) is None:
        return templates
    try:
        templates.check_columns(columns)
    except FeatureError as error:
        if asked in SETS or error.cause is None:
            error.cause = "Name the columns of the file: --columns word,pos,label."
        raise error.at(where=None if where is None else f"{where}:{_line_with(str(place), text)}") from None
    return templates


def _line_with(place: str, text: str) -> int:
    """The number of the first line of templates that contains a place."""
    lines = (line.replace("[+", "[").split() for line in text.splitlines())
    return next(number for number, words in enumerate(lines, start=1) if place in words)
