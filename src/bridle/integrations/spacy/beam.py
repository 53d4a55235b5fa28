"""Candidate spans from the beam of spaCy's named entity recognizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bridle.errors import ModelError
from bridle.integrations.spacy.component import part_of_spacy

if TYPE_CHECKING:
    from spacy.tokens import Doc

Span: Any = part_of_spacy("tokens").Span
BEAM_WIDTH, BEAM_DENSITY = 16, 0.0001  # analyses, and how probable they must be beside the best one

ENTITIES = ["ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID"]  # all that tokens say of them


class Candidates(NamedTuple):
    """Spans to choose from."""

    spans: list[Any]
    scores: list[float]  # as they came


def beam_spans(
    ner: Any,
    docs: Iterable[Doc],
    *,
    spans_key: str = "sc",
    beam_width: int = BEAM_WIDTH,
    beam_density: float = BEAM_DENSITY,
) -> list[Doc]:
    """Write the entities in the beam of a named entity recognizer, with their probabilities, to ``doc.spans``.

    The component ``bridle_spans`` does that automatically with ``scores_from``; use this to see the candidates.

    Parameters
    ----------
    ner : EntityRecognizer
        The component, for example ``nlp.get_pipe("ner")``.
    docs : iterable of Doc
        Documents that went through what the component needs. Their entities stay as they are.
    spans_key : str, default "sc"
        Where to write; probabilities go to ``doc.spans[spans_key].attrs["scores"]``.
    beam_width : int, default 16
        Number of analyses in the beam.
    beam_density : float, default 0.0001
        Analyses that are less probable than this times the best are dropped.

    Returns
    -------
    list of Doc
        The documents.

    Raises
    ------
    ModelError
        If the component has no beam, or a beam of no width is asked for.
    """
    check_width(beam_width)
    listed = list(docs)
    for doc, found in zip(listed, beams(ner, listed, beam_width, beam_density), strict=True):
        doc.spans[spans_key] = found.spans
        doc.spans[spans_key].attrs["scores"] = np.array(found.scores, dtype=np.float32)
    return listed


def check_width(width: int) -> None:
    """Raise if a beam cannot be that wide."""
    if width < 1:
        raise ModelError("the beam needs at least one analysis", got=f"beam_width={width}", wanted="1 or more")


def beams(ner: Any, docs: Sequence[Doc], width: int, density: float = BEAM_DENSITY) -> list[Candidates]:
    """The entities of all analyses in the beam; the probability of one is the share of analyses that have it."""
    if not hasattr(ner, "beam_parse") or not hasattr(ner, "scored_ents"):
        raise ModelError(
            "this component has no beam of entities",
            got=type(ner).__name__,
            wanted="a named entity recognizer of spaCy ('ner' or 'beam_ner')",
            cause="Spans of other components: leave scores_from out and name their spans_key.",
        )
    full = [doc for doc in docs if len(doc)]
    own = [doc.to_array(ENTITIES) for doc in full]
    for doc in full:  # the recognizer would leave entities as they are
        doc.set_ents([], default="missing")
    try:
        scored = iter(ner.scored_ents(ner.beam_parse(full, beam_width=width, beam_density=density)) if full else ())
    finally:
        for doc, ents in zip(full, own, strict=True):
            doc.from_array(ENTITIES, ents)
    found = []
    for doc in docs:
        mine = sorted(next(scored).items()) if len(doc) else []
        spans = [Span(doc, start, end, label=label) for (start, end, label), _ in mine]
        found.append(Candidates(spans, [min(float(score), 1.0) for _, score in mine]))
    return found
