"""Which model `bridle train` trains: what --learner, --features and the settings of learners ask for."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridle.cli.reading import Reader
from bridle.data import Example
from bridle.errors import FeatureError, ModelError
from bridle.features import SETS, Templates
from bridle.models import CRF, LocalTagger, Tagger
from bridle.rules.base import Rule
from bridle.rules.files import text_of

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
    """The model that the options ask for; options that say nothing to it are refused."""
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


def templates_of(asked: str, example: Example, reader: Reader) -> list[str]:
    """Templates: of a set, out of a file, or as the columns suggest. The first column stands for `word`."""
    names = list(example.columns)
    if asked == "auto":
        asked = "characters" if "char" in names else "chunking" if "pos" in names else "pos"
        if reader.format == "parserator" or reader.tokens is not None:  # texts with markup or spans
            asked = "fields"
    templates = Templates.parse(asked) if asked in SETS else _named_templates(asked)
    if missing := [name for name in templates.sources if name not in names]:
        raise FeatureError(
            f"there is no column {missing[0]!r}",
            got=", ".join(names),
            wanted=", ".join(templates.sources),
            cause="Name the columns of the file: --columns word,pos,label.",
        )
    return str(templates).splitlines()


def _named_templates(asked: str) -> Templates:
    """Out of a file; or, if there is none, written out."""
    if "[" in asked:
        return Templates.parse(asked)
    if not os.path.exists(asked) and asked.isidentifier():  # noqa: PTH110  (it may be too long for a path)
        return Templates.parse(asked)  # which says what sets there are
    try:
        return Templates.parse(text_of(Path(asked)))
    except FeatureError as error:
        raise error.at(where=asked) from None
