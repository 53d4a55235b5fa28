"""Bridle in spaCy: components that label tokens and select spans under rules.

spaCy finds them by name once Bridle is installed, in ``nlp.add_pipe("bridle_tagger")`` as in ``spacy.load(...)``; this
module need not be imported.

==========================  ===============================================================================
``bridle_tagger``           a model of Bridle, or a tagger of the pipeline, sets tags, entities or spans
``bridle_spans``            the best set of candidate spans becomes the entities
``bridle.ents_filter.v1``   an ``ents_filter`` for ``span_ruler``: entities and matches under rules
==========================  ===============================================================================
"""

from __future__ import annotations

from typing import Any

from bridle.integrations.spacy.component import part_of_spacy, settings_of
from bridle.integrations.spacy.spans import BridleSpans, EntsFilter, beam_spans
from bridle.integrations.spacy.tagger import BridleTagger

__all__ = ["BridleSpans", "BridleTagger", "EntsFilter", "beam_spans"]

_language: Any = part_of_spacy("language").Language
_language.factory(
    "bridle_tagger",
    default_config=settings_of(BridleTagger),
    assigns=["token.tag", "token.pos", "doc.ents", "token.ent_iob", "token.ent_type", "doc.spans"],
    func=BridleTagger,
)
_language.factory(
    "bridle_spans",
    default_config=settings_of(BridleSpans),
    assigns=["doc.ents", "token.ent_iob", "token.ent_type", "doc.spans"],
    func=BridleSpans,
)
part_of_spacy("util").registry.misc("bridle.ents_filter.v1", func=EntsFilter)
