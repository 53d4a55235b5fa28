"""Bridle in spaCy: components that label tokens and select spans under rules.

spaCy finds them by name once Bridle is installed, in ``nlp.add_pipe("bridle_tagger")`` as in ``spacy.load(...)``; this
module need not be imported.

==========================  ===============================================================================
``bridle_tagger``           a model of Bridle, or a tagger of the pipeline, sets tags, entities or spans
``bridle_spans``            the best set of candidate spans becomes the entities
``bridle.ents_filter.v1``   an ``ents_filter`` for ``span_ruler``: entities and matches under rules
==========================  ===============================================================================
"""
# No `from __future__ import annotations`: spaCy reads the types of settings off the factories.

from collections.abc import Callable
from typing import Any

from bridle.integrations.spacy_component import part_of_spacy
from bridle.integrations.spacy_tagger import BridleTagger

__all__ = ["BridleTagger", "make_tagger"]

Language: Any = part_of_spacy("language").Language


def make_tagger(
    nlp: Any,
    name: str,
    model: str | None,
    scores_from: str | None,
    rules: list[str] | str,
    sets: str,
    spans_key: str,
    columns: dict[str, str],
    features: Callable[..., Any] | None,
    sequences: str,
    on_infeasible: str,
    scores: str,
    time_limit: float | None,
    threads: int,
) -> Any:
    """Make a `BridleTagger` from its config.

    Parameters
    ----------
    nlp, name, model, scores_from, rules, sets, spans_key, columns, features, sequences, on_infeasible, scores, \
time_limit, threads : object
        As in `BridleTagger`.

    Returns
    -------
    BridleTagger
        The component.
    """
    settings = {name: value for name, value in locals().items() if name not in ("nlp", "name")}
    return BridleTagger(nlp, name, **settings)


Language.factory(
    "bridle_tagger",
    default_config={
        "model": None,
        "scores_from": None,
        "rules": [],
        "sets": "tag",
        "spans_key": "bridle",
        "columns": {},
        "features": None,
        "sequences": "doc",
        "on_infeasible": "raise",
        "scores": "none",
        "time_limit": None,
        "threads": 1,
    },
    assigns=["token.tag", "doc.ents", "token.ent_iob", "token.ent_type", "doc.spans"],
    func=make_tagger,
)
