"""Features: what a model sees of tokens. Templates over columns of text, or lists and dicts that users make."""

from __future__ import annotations

from collections.abc import Iterable

from bridle.checks import is_integer
from bridle.errors import FeatureError
from bridle.features.columns import sequences_of
from bridle.features.encoded import Encoded
from bridle.features.plain import PlainFeatures
from bridle.features.templates import SETS, Template, Templates
from bridle.features.vocabulary import TemplateFeatures

__all__ = [
    "FEATURES",
    "SETS",
    "Encoded",
    "Features",
    "PlainFeatures",
    "Template",
    "TemplateFeatures",
    "Templates",
    "features_of",
    "sequences_of",
]

Features = TemplateFeatures | PlainFeatures
FEATURES: dict[str, type[Features]] = {kind.kind: kind for kind in (TemplateFeatures, PlainFeatures)}  # for files


def features_of(spec: str | Iterable[str] | Templates | None, cutoff: int = 1) -> Features:
    """Make features, without a vocabulary yet.

    Parameters
    ----------
    spec : str, iterable of str, Templates or None
        Templates, or the name of a set; None: X holds the features themselves.
    cutoff : int, default 1
        Features that occur fewer times in training are left out.

    Returns
    -------
    TemplateFeatures or PlainFeatures
        Call `fit` to number what occurs.

    Raises
    ------
    FeatureError
        If `spec` holds no templates, or `cutoff` is not a whole number >= 1.
    """
    if not is_integer(cutoff, 1):
        raise FeatureError("cutoff is not a number of times", got=repr(cutoff), wanted="a whole number >= 1")
    if spec is None:
        return PlainFeatures(int(cutoff))
    return TemplateFeatures(spec if isinstance(spec, Templates) else Templates.parse(spec), int(cutoff))
