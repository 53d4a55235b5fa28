"""bridle_spans: the best set of candidate spans under rules becomes the entities of a document."""

# No `from __future__ import annotations`: spaCy reads the types of settings off the class.

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, shown
from bridle.integrations.spacy.beam import BEAM_WIDTH, Candidates, beams, check_width
from bridle.integrations.spacy.component import (
    Component,
    Existing,
    OrSkip,
    Overlap,
    ScoreKind,
    SpanSets,
    check_word,
    record_of,
)
from bridle.spans.candidates import candidates_of
from bridle.spans.selection import Selection
from bridle.spans.selector import SpanSelector

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

RECOGNIZER = "a named entity recognizer"  # a component with a beam of entities


class BridleSpans(Component):
    """Select the best spans of documents under rules: the component ``bridle_spans``.

    Candidates come from ``doc.spans[spans_key]`` with their scores, as ``spancat`` leaves them, or from the beam of a
    named entity recognizer. Of all sets of them that obey the rules and do not overlap, the best one becomes
    ``doc.ents``. How it is known to be the best is in ``doc._.bridle["bridle_spans"]``: the status, the score, its
    bound and the soft rules that are violated, as in `bridle.Selection`.

    Parameters
    ----------
    nlp : Language
        The pipeline.
    name : str
        Name of the component.
    spans_key : str, default "sc"
        Where the candidates are.
    scores_from : str, optional
        Name of a named entity recognizer whose beam gives the candidates instead. It may be disabled, or come later;
        what it needs (``tok2vec``) must run. It is looked up when it is first needed.
    beam_width : int, default 16
        Number of analyses in that beam.
    rules : list of str, or str
        Sentences, or the path of a .rules file. The text of a file is saved with the pipeline.
    labels : list of str, optional
        Labels that rules may name. By default those of the component that makes the candidates, if it is known.
    scores : {"probability", "log_odds"}, default "probability"
        What the scores of candidates are.
    threshold : float, default 0.5
        The probability from which on a span is worth choosing.
    default_score : float, optional
        The score of candidates that have none, for example of a ``span_ruler``.
    overlap : {"forbid", "nest"}, default "forbid"
        Chosen spans share no token; or they may lie inside one another, which only ``sets="spans"`` can hold.
    sets : {"ents", "spans"}, default "ents"
        What the chosen spans become: ``doc.ents``, or ``doc.spans[spans_key_out]`` with their scores.
    spans_key_out : str, default "bridle"
        See `sets`.
    existing : {"overwrite", "keep"}, default "overwrite"
        What happens to entities that the document has. Kept ones take part: rules count them, and candidates that
        overlap with them lose. One of them goes only if hard rules leave no other way, or if a soft rule that it
        violates costs more than all candidates together are worth.
    on_infeasible : {"raise", "skip"}, default "raise"
        If no choice obeys the hard rules: raise (in ``nlp.pipe``, the error handler of the pipeline gets the document),
        or leave the document as it is.
    time_limit : float, optional
        Seconds per document.

    Raises
    ------
    ModelError, EngineError
        If a setting is impossible.

    See Also
    --------
    BridleTagger : The best labels of tokens.
    bridle.select : The same without spaCy.

    Examples
    --------
    >>> import spacy
    >>> from spacy.tokens import Span
    >>> nlp = spacy.blank("en")
    >>> selector = nlp.add_pipe("bridle_spans", config={"rules": ["at most 1 segment of CITY"]})
    >>> doc = nlp.make_doc("from New York City to Boston")
    >>> spans = [Span(doc, 1, 3, "STATE"), Span(doc, 1, 4, "CITY"), Span(doc, 5, 6, "CITY")]
    >>> doc.spans["sc"] = spans
    >>> doc.spans["sc"].attrs["scores"] = [0.7, 0.8, 0.9]
    >>> selector(doc).ents
    (New York, Boston)
    """

    def __init__(
        self,
        nlp: Any,
        name: str = "bridle_spans",
        *,
        spans_key: str = "sc",
        scores_from: str | None = None,
        beam_width: int = BEAM_WIDTH,
        rules: str | Sequence[str] = (),
        labels: Sequence[str] | None = None,
        scores: ScoreKind = "probability",
        threshold: float = 0.5,
        default_score: float | None = None,
        overlap: Overlap = "forbid",
        sets: SpanSets = "ents",
        spans_key_out: str = "bridle",
        existing: Existing = "overwrite",
        on_infeasible: OrSkip = "raise",
        time_limit: float | None = None,
    ) -> None:
        super().__init__(nlp, name, rules, sets, spans_key_out)
        check_word("sets", sets, ("ents", "spans"))
        check_word("existing", existing, ("overwrite", "keep"))
        check_word("scores", scores, ("probability", "log_odds"))
        check_word("overlap", overlap, ("forbid", "nest"))
        check_word("on_infeasible", on_infeasible, ("raise", "skip"))
        SpanSelector(threshold=threshold, time_limit=time_limit)  # raises if one of them is impossible
        check_width(beam_width)
        if overlap == "nest" and sets == "ents":
            raise ModelError("doc.ents cannot hold nested spans", got="overlap='nest'", wanted="sets='spans'")
        self.spans_key, self.spans_key_out, self.existing = spans_key, spans_key_out, existing
        self._scores_from, self._width, self._default = scores_from, beam_width, default_score
        self._labels, self._kind, self._threshold = labels, scores, threshold
        self._overlap, self._on_infeasible, self._limit = overlap, on_infeasible, time_limit
        self._selector: SpanSelector | None = None

    # ---- rules ------------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the spans may have, as far as they are known."""
        return tuple(sorted(self._known_labels() or ()))

    def _known_labels(self) -> set[str] | None:
        """The labels of what makes the candidates, if they are known."""
        if self._labels is not None:
            return set(self._labels)
        if self._scores_from is not None:
            makers = [pipe for name, pipe in self.nlp.components if name == self._scores_from]
        else:
            makers = [pipe for _, pipe in self.nlp.components if getattr(pipe, "key", None) == self.spans_key]
        return {label for pipe in makers for label in pipe.labels} or None

    def _forget(self) -> None:
        self._selector = None

    def _ready(self) -> SpanSelector:
        if self._selector is None:
            rules, known = self._setting.rules(), self._known_labels()
            if known is not None and (self._labels is not None or self.existing == "overwrite"):
                SpanSelector(rules, sorted(known))  # raises if a rule names another label
            self._selector = SpanSelector(
                rules, overlap=self._overlap, on_infeasible=self._on_infeasible, time_limit=self._limit
            )
        return self._selector

    # ---- documents --------------------------------------------------------------------------------------------------

    def _annotate(self, docs: Sequence["Doc"]) -> list[Exception | None]:
        selector, problems = self._ready(), list[Exception | None]()
        analyses: Sequence[Candidates | None] = [None] * len(docs)
        if self._scores_from is not None:
            ner = self._other(self._scores_from, RECOGNIZER)
            analyses = beams(ner, docs, self._width)
        for doc, candidates in zip(docs, analyses, strict=True):
            try:
                self._select(selector, doc, candidates or self._candidates(doc))
                problems.append(None)
            except Exception as error:
                problems.append(error)
        return problems

    def _candidates(self, doc: "Doc") -> Candidates:
        """The spans of a document under the key."""
        if self.spans_key not in doc.spans:
            raise ModelError(
                f"the document has no spans {self.spans_key!r}",
                got=", ".join(map(repr, doc.spans)) or "no spans",
                wanted="a component that makes them, such as 'spancat', before this one",
                cause="Is spans_key the key of that component?",
            )
        group = doc.spans[self.spans_key]
        spans, scores = list(group), group.attrs.get("scores")
        if scores is None and self._default is not None:
            scores = [self._default] * len(spans)
        if spans and scores is None:
            raise ModelError(
                f"the spans {self.spans_key!r} have no scores",
                got=f"doc.spans[{self.spans_key!r}].attrs without 'scores'",
                wanted="one score per span, or the setting default_score",
            )
        if scores is not None and len(scores) != len(spans):
            raise ModelError(
                f"the scores do not fit the spans {self.spans_key!r}",
                got=f"{len(scores)} scores, {len(spans)} spans",
                wanted="one score per span",
                cause="Were spans added after they had been scored?",
            )
        try:
            return Candidates(spans, [float(score) for score in ([] if scores is None else scores)])
        except (TypeError, ValueError):
            raise ModelError(
                f"the scores of the spans {self.spans_key!r} are not numbers", got=shown(scores), wanted="numbers"
            ) from None

    def _select(self, selector: SpanSelector, doc: "Doc", found: Candidates) -> None:
        rows = [(span.start, span.end, span.label_, score) for span, score in zip(*found, strict=True)]
        gains = candidates_of(rows, self._kind, self._threshold).gains
        kept = list(doc.ents) if self.existing == "keep" else []
        weight = 1 + float(np.abs(gains[np.isfinite(gains)]).sum())  # more than all candidates together
        spans = [*found.spans, *kept]
        selection = selected(selector, doc, spans, np.append(gains, np.full(len(kept), weight)))
        again = sum(index >= len(rows) for index in selection.indices) * weight
        self._record(doc, record_of(selection, again))
        if selection.status in ("infeasible", "nothing_found"):
            return
        chosen = [spans[index] for index in selection.indices]
        if self.sets == "ents":
            doc.ents = chosen
            return
        scores = [*found.scores, *[1.0 if self._kind == "probability" else weight] * len(kept)]
        doc.spans[self.spans_key_out] = chosen
        doc.spans[self.spans_key_out].attrs["scores"] = np.array(scores, np.float32)[selection.indices]


def selected(selector: SpanSelector, doc: "Doc", spans: Sequence["Span"], gains: npt.NDArray[np.float64]) -> Selection:
    """Choose among spans of a document; what each adds to the total is `gains`."""
    columns = {
        "start": [span.start for span in spans],
        "end": [span.end for span in spans],
        "label": [span.label_ for span in spans],
        "score": gains,
    }
    at = doc.to_array(["IDX", "LENGTH"]).astype(np.int64).reshape(-1, 2)
    return selector.select(columns, text=doc.text, tokens=np.cumsum(at, axis=1))
