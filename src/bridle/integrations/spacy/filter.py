"""An ents_filter for spaCy's span_ruler: entities and matches compete under rules."""

# No `from __future__ import annotations`: spaCy reads the types of settings off the class.

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from bridle.errors import ModelError
from bridle.integrations.spacy.component import check_word
from bridle.integrations.spacy.spans import selected
from bridle.spans.selector import SpanSelector

if TYPE_CHECKING:
    from spacy.tokens import Span

    Prefer = Literal["longest", "new", "existing"]
else:
    Prefer = str


class EntsFilter:
    """Choose among the entities of a document and the matches of a ruler, under rules.

    Of all sets that do not overlap and obey the rules it takes the one that covers most tokens, by the fewest spans.
    In a config it is ``{"@misc": "bridle.ents_filter.v1", "rules": [...], "prefer": "longest"}``.

    Parameters
    ----------
    rules : list of str
        Sentences. The penalty of a soft rule counts in tokens: one of 2 is worth two tokens that are not covered.
    prefer : {"longest", "new", "existing"}, default "longest"
        ``"longest"`` treats entities and matches alike, as spaCy's own default filter does. ``"new"`` first covers as
        many tokens as it can by matches, ``"existing"`` by entities that the document has; the others fill the gaps.

    Raises
    ------
    ModelError
        If `prefer` is another word.

    Examples
    --------
    spaCy's own filter takes the first of the longest matches, which leaves no room for the others:

    >>> import spacy
    >>> nlp = spacy.blank("en")
    >>> chosen = {"@misc": "bridle.ents_filter.v1", "rules": ["at most 1 segment of ORG"]}
    >>> ruler = nlp.add_pipe("span_ruler", config={"annotate_ents": True, "ents_filter": chosen})
    >>> names = [("ORG", "New York Times"), ("GPE", "New York"), ("ORG", "Times Square Bank")]
    >>> ruler.add_patterns([{"label": label, "pattern": name} for label, name in names])
    >>> nlp("New York Times Square Bank").ents
    (New York, Times Square Bank)
    """

    def __init__(self, rules: Sequence[str] = (), prefer: Prefer = "longest") -> None:
        check_word("prefer", prefer, ("longest", "new", "existing"))
        self.prefer = prefer
        self._selector = SpanSelector(rules)

    def __call__(self, entities: Iterable["Span"], spans: Iterable["Span"]) -> list["Span"]:
        """Choose among entities and spans.

        Parameters
        ----------
        entities : iterable of Span
            Entities that the document has.
        spans : iterable of Span
            Matches.

        Returns
        -------
        list of Span
            The best set of them, in the order of the text.

        Raises
        ------
        Infeasible
            If none obeys the hard rules.
        """
        old, new = list(entities), list(spans)
        both = [*old, *new]
        if not both:
            return []
        if any(span.doc is not both[0].doc for span in both):
            raise ModelError(
                "spans are of different documents", got=f"{len(both)} spans", wanted="those of one document"
            )
        # What counts most comes first: tokens covered by the preferred spans, tokens covered, fewer spans, spans that
        # were there. All parts of a sum are powers of two, so that it is exact and no part reaches the one before it.
        lengths = np.array([float(span.end - span.start) for span in both])
        part = 2.0 ** -len(both).bit_length()  # all spans together have less than one token of these
        gains = lengths - part
        if self.prefer == "longest":
            gains[: len(old)] += part**2
        else:
            first = slice(len(old)) if self.prefer == "existing" else slice(len(old), None)
            gains[first] += lengths[first] * 2.0 ** len(both[0].doc).bit_length()
        return [both[index] for index in selected(self._selector, both[0].doc, both, gains).indices]
