"""Features of tokens: templates over columns of text, or lists and dicts that users make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from bridle.arrays import is_integer
from bridle.errors import FeatureError
from bridle.features.columns import Encoded, sequences_of
from bridle.features.derived import FUNCTIONS, Function, lists_of, templates_of_lists
from bridle.features.plain import PlainFeatures
from bridle.features.sets import FEATURE_SETS, SETS, FeatureChoice, FeatureSet, are_features, choose_features
from bridle.features.templates import Template, Templates
from bridle.features.vocabulary import TemplateFeatures

__all__ = [
    "FEATURES",
    "FEATURE_SETS",
    "FUNCTIONS",
    "SETS",
    "Encoded",
    "FeatureChoice",
    "FeatureSet",
    "Features",
    "Function",
    "PlainFeatures",
    "Template",
    "TemplateFeatures",
    "Templates",
    "are_features",
    "choose_features",
    "features_of",
    "sequences_of",
    "token_features",
]

Features = TemplateFeatures | PlainFeatures
FEATURES: dict[str, type[Features]] = {kind.kind: kind for kind in (TemplateFeatures, PlainFeatures)}  # for files


def features_of(
    spec: str | Iterable[str] | Templates | None, cutoff: int = 1, lists: Mapping[str, Any] | None = None
) -> Features:
    """Make features without a vocabulary yet from templates or the name of a set; None: X holds the features.

    A list of phrases that no template names is looked at as ``in:NAME[-1]``, ``in:NAME[0]`` and ``in:NAME[1]``.
    """
    if not is_integer(cutoff, 1):
        raise FeatureError("invalid value of `cutoff`", got=repr(cutoff), wanted="an integer >= 1")
    named = lists_of(lists)
    if spec is None:
        if named:
            got, wanted = f"lists {', '.join(named)} without templates", "features=[...] with templates"
            raise FeatureError("lists are for templates", got=got, wanted=wanted, cause="X holds the features itself.")
        return PlainFeatures(int(cutoff))
    templates = spec if isinstance(spec, Templates) else Templates.parse(spec)
    if more := templates_of_lists(templates.columns, named):
        templates = Templates.parse([*str(templates).splitlines(), *more])
    return TemplateFeatures(templates, int(cutoff), lists=named)


def token_features(templates: str | Iterable[str] | Templates, x: Any) -> list[list[str]]:
    """Show which features the tokens of a sequence get from templates.

    Parameters
    ----------
    templates : str, iterable of str or Templates
        Templates, or the name of a set.
    x : mapping or list
        One sequence: columns, or a list of texts.

    Returns
    -------
    list of list of str
        The names of the features of each token.

    Raises
    ------
    FeatureError
        If these are not templates, or the sequence lacks a column that they name.

    Examples
    --------
    >>> from bridle.features import token_features
    >>> token_features(["word[0]", "shape[0]", "word[-1] word[0]"], ["Dr.", "Smith"])[1]
    ['word[0]=Smith', 'shape[0]=Xx', 'word[-1]|word[0]=Dr.|Smith']
    """
    features = TemplateFeatures(templates if isinstance(templates, Templates) else Templates.parse(templates))
    encoded = features.fit([x])
    names = features.named(encoded.attrs)
    return [names[a:b] for a, b in pairwise(encoded.indptr.tolist())]
