"""bridle_spans and bridle.ents_filter.v1: the best set of candidate spans under rules becomes the entities."""

# No `from __future__ import annotations`: spaCy reads the types of settings off the class.

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, shown
from bridle.integrations.spacy.component import Component, Span, check_word, record_of
from bridle.spans.candidates import candidates_of
from bridle.spans.selector import Selection, SpanSelector

if TYPE_CHECKING:
    from spacy.tokens import Doc

BEAM_WIDTH, BEAM_DENSITY = 16, 0.0001  # analyses, and how probable they must be beside the best one
MARGIN = 0.001  # log-odds by which an entity of the recognizer is worth choosing, whatever its beam says
ENTITIES = ["ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID"]  # attributes of tokens that hold entities


class Candidates(NamedTuple):
    """Spans to choose from."""

    spans: list[Any]
    scores: list[float]
    own: list[int] | None = None  # those that the recognizer itself chooses, by their numbers


class BridleSpans(Component):
    """Select the best spans of documents under rules: the component ``bridle_spans``.

    Candidates come from ``doc.spans[spans_key]`` with their scores, as ``spancat`` leaves them, or from a named entity
    recognizer. Of all sets of them that obey the rules and do not overlap, the best one becomes ``doc.ents``. How it is
    known to be the best is in ``doc._.bridle["bridle_spans"]``: the status, the score, its bound and the soft rules
    that are violated, as in `bridle.Selection`.

    The entities of a recognizer stay unless they break a rule: its beam offers other candidates and says how probable
    each is, but no candidate is worth more than the entities that it would replace.

    Parameters
    ----------
    nlp : Language
        The pipeline.
    name : str
        Name of the component.
    spans_key : str, default "sc"
        Where the candidates are.
    scores_from : str, optional
        Name of a named entity recognizer whose entities and beam give the candidates instead. It may be disabled, or
        come later; what it needs (``tok2vec``) must run. It is looked up when it is first needed.
    beam_width : int, default 16
        Number of analyses in that beam.
    rules : list of str, or str
        Sentences, or the path of a .rules file. The text of a file is saved with the pipeline.
    labels : list of str, optional
        Labels that rules may name. By default those of the component that makes the candidates, if it is known. Other
        names are an error as soon as the labels are known: in ``add_pipe`` if that component is there and trained.
    scores : {"probability", "log_odds"}, default "probability"
        What the scores of candidates are; those of a beam are probabilities.
    threshold : float, default 0.5
        The probability from which on a span is worth choosing. Entities of a recognizer always are; for them, it shifts
        what they are worth beside the penalties of soft rules.
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
        scores: str = "probability",
        threshold: float = 0.5,
        default_score: float | None = None,
        overlap: str = "forbid",
        sets: str = "ents",
        spans_key_out: str = "bridle",
        existing: str = "overwrite",
        on_infeasible: str = "raise",
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
        if scores_from is not None and scores == "log_odds":
            raise ModelError("the scores of a beam are probabilities", got="scores='log_odds'", wanted="'probability'")
        self.spans_key, self.spans_key_out, self.existing = spans_key, spans_key_out, existing
        self._scores_from, self._width, self._default = scores_from, beam_width, default_score
        self._labels, self._threshold = labels, threshold
        self._kind: Any = scores
        self._options: dict[str, Any] = {"overlap": overlap, "on_infeasible": on_infeasible, "time_limit": time_limit}
        self._check_at_construction()

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the spans may have, as far as they are known."""
        return tuple(sorted(self._known_labels() or ()))

    def _makers(self) -> list[Any]:
        """Return the components of the pipeline that make the candidates."""
        if self._scores_from is not None:
            return [pipe for name, pipe in self.nlp.components if name == self._scores_from]
        return [pipe for _, pipe in self.nlp.components if getattr(pipe, "key", None) == self.spans_key]

    def _known_labels(self) -> set[str] | None:
        """Return the labels of the candidates, if they are known."""
        if self._labels is not None:
            return set(self._labels)
        return {label for pipe in self._makers() for label in getattr(pipe, "labels", ())} or None

    def _check_rules(self) -> None:
        makers = self._makers()
        if self._labels is not None or all(getattr(pipe, "labels", ()) for pipe in makers):  # patterns may come later
            self._build_selector()

    def _build_selector(self) -> SpanSelector:
        """Compile the rules; raise if one names a label that no candidate can have."""
        rules, known = self._read_rules(), self._known_labels()
        if known is not None and (self._labels is not None or self.existing == "overwrite"):
            SpanSelector(rules, sorted(known))
        return SpanSelector(rules, **self._options)

    def _ready(self) -> SpanSelector:
        if self._prepared is None:
            self._prepared = self._build_selector()
        selector: SpanSelector = self._prepared
        return selector

    def _annotate(self, docs: Sequence["Doc"]) -> list[Exception | None]:
        selector = self._ready()
        recognized: Sequence[Candidates | None] = [None] * len(docs)
        if self._scores_from is not None:
            recognizer = self._other(self._scores_from, "a named entity recognizer")
            recognized = recognize(recognizer, docs, self._width)
        failures: list[Exception | None] = [None] * len(docs)
        for number, (doc, candidates) in enumerate(zip(docs, recognized, strict=True)):
            try:
                self._select(selector, doc, candidates or self._candidates(doc))
            except Exception as error:
                failures[number] = error
        return failures

    def _candidates(self, doc: "Doc") -> Candidates:
        """Return the spans of a document under the key."""
        key = self.spans_key
        if key not in doc.spans:
            got, cause = ", ".join(map(repr, doc.spans)) or "no spans", "Is spans_key the key of that component?"
            wanted = "a component that makes them, such as 'spancat', before this one"
            raise ModelError(f"the document has no spans {key!r}", got=got, wanted=wanted, cause=cause)
        spans, scores = list(doc.spans[key]), doc.spans[key].attrs.get("scores")
        if scores is None and (self._default is not None or not spans):
            scores = [self._default] * len(spans)
        if scores is None:
            got, wanted = f"doc.spans[{key!r}].attrs without 'scores'", "one score per span, or default_score"
            raise ModelError(f"the spans {key!r} have no scores", got=got, wanted=wanted)
        if len(scores) != len(spans):
            what, got = f"the scores do not fit the spans {key!r}", f"{len(scores)} scores, {len(spans)} spans"
            cause = "Were spans added after they had been scored?"
            raise ModelError(what, got=got, wanted="one score per span", cause=cause)
        try:
            return Candidates(spans, list(map(float, scores)))
        except (TypeError, ValueError):
            what = f"the scores of the spans {key!r} are not numbers"
            raise ModelError(what, got=shown(scores), wanted="numbers") from None

    def _select(self, selector: SpanSelector, doc: "Doc", candidates: Candidates) -> None:
        scored = zip(candidates.spans, candidates.scores, strict=True)
        rows = [(span.start, span.end, span.label_, score) for span, score in scored]
        gains = candidates_of(rows, self._kind, self._threshold).gains
        if candidates.own is not None:
            gains = keep_own(gains, candidates.spans, candidates.own, self._options["overlap"])
        kept = list(doc.ents) if self.existing == "keep" else []
        weight = 1 + float(np.abs(gains[np.isfinite(gains)]).sum())  # more than all candidates together
        spans = [*candidates.spans, *kept]
        selection = select_spans(selector, doc, spans, np.append(gains, np.full(len(kept), weight)))
        bonus = sum(index >= len(rows) for index in selection.indices) * weight
        self._record(doc, record_of(selection, bonus))
        if selection.status in ("infeasible", "nothing_found"):
            return
        chosen = [spans[index] for index in selection.indices]
        if self.sets == "ents":
            doc.ents = chosen
            return
        scores = [*candidates.scores, *[1.0 if self._kind == "probability" else weight] * len(kept)]
        doc.spans[self.spans_key_out] = chosen
        doc.spans[self.spans_key_out].attrs["scores"] = np.array(scores, np.float32)[selection.indices]


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
    labels : list of str, optional
        Labels that rules may name; with them, a misspelled one is an error.

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

    def __init__(self, rules: Sequence[str] = (), prefer: str = "longest", labels: Sequence[str] | None = None) -> None:
        check_word("prefer", prefer, ("longest", "new", "existing"))
        self.prefer = prefer
        SpanSelector(rules, labels)  # raises if a rule names another label; spans may have others
        self._selector = SpanSelector(rules)

    def __call__(self, entities: Iterable[Span], spans: Iterable[Span]) -> list[Span]:
        """Choose among the entities of a document and matches; the best set comes in the order of the text.

        Raises `Infeasible` if none obeys the hard rules.
        """
        old, new = list(entities), list(spans)
        both = [*old, *new]
        if not both:
            return []
        if any(span.doc is not both[0].doc for span in both):
            got, wanted = f"{len(both)} spans", "those of one document"
            raise ModelError("spans are of different documents", got=got, wanted=wanted)
        # In order of importance: tokens covered by the preferred spans, tokens covered, fewer spans, existing spans.
        # All terms are multiples of powers of two, so that sums are exact and no term outweighs one before it.
        lengths = np.array([float(span.end - span.start) for span in both])
        part = 2.0 ** -len(both).bit_length()  # of all spans together: less than one token
        gains = lengths - part
        if self.prefer == "longest":
            gains[: len(old)] += part**2
        else:
            first = slice(len(old)) if self.prefer == "existing" else slice(len(old), None)
            gains[first] += lengths[first] * 2.0 ** len(both[0].doc).bit_length()
        return [both[index] for index in select_spans(self._selector, both[0].doc, both, gains).indices]


def select_spans(
    selector: SpanSelector, doc: "Doc", spans: Sequence[Span], gains: npt.NDArray[np.float64]
) -> Selection:
    """Select spans of a document; `gains` has the score of each."""
    rows = [(span.start, span.end, span.label_, gain) for span, gain in zip(spans, gains.tolist(), strict=True)]
    at = doc.to_array(["IDX", "LENGTH"]).astype(np.int64).reshape(-1, 2)
    return selector.select(rows, text=doc.text, tokens=np.cumsum(at, axis=1))


def beam_spans(
    ner: Any,
    docs: Iterable["Doc"],
    *,
    spans_key: str = "sc",
    beam_width: int = BEAM_WIDTH,
    beam_density: float = BEAM_DENSITY,
) -> list["Doc"]:
    """Write the entities of a named entity recognizer and of its beam, with their probabilities, to ``doc.spans``.

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
    for doc, candidates in zip(listed, recognize(ner, listed, beam_width, beam_density), strict=True):
        doc.spans[spans_key] = candidates.spans
        doc.spans[spans_key].attrs["scores"] = np.array(candidates.scores, dtype=np.float32)
    return listed


def check_width(width: int) -> None:
    """Raise `ModelError` if the width of a beam is not positive."""
    if width < 1:
        raise ModelError("the beam needs at least one analysis", got=f"beam_width={width}", wanted="1 or more")


def recognize(ner: Any, docs: Sequence["Doc"], width: int, density: float = BEAM_DENSITY) -> list[Candidates]:
    """Return the entities of a recognizer and those of all analyses in its beam; the entities of documents stay.

    The score of each is the probability of the analyses that have it.
    """
    if not hasattr(ner, "beam_parse") or not hasattr(ner, "scored_ents"):
        got, wanted = type(ner).__name__, "a named entity recognizer of spaCy ('ner' or 'beam_ner')"
        cause = "Spans of other components: leave scores_from out and name their spans_key."
        raise ModelError("this component has no beam of entities", got=got, wanted=wanted, cause=cause)
    full = [doc for doc in docs if len(doc)]
    entities = [doc.to_array(ENTITIES) for doc in full]
    for doc in full:  # the recognizer would keep existing entities
        doc.set_ents([], default="missing")
    try:
        scored = iter(ner.scored_ents(ner.beam_parse(full, beam_width=width, beam_density=density)) if full else ())
        ner.set_annotations(full, ner.predict(full))
        chosen = iter([[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in full])
    finally:
        for doc, array in zip(full, entities, strict=True):
            doc.from_array(ENTITIES, array)
    candidates = []
    for doc in docs:
        own = next(chosen) if len(doc) else []
        scores = dict.fromkeys(own, 0.0) | (next(scored) if len(doc) else {})
        rows = sorted(scores)
        spans = [Span(doc, start, end, label=label) for start, end, label in rows]
        probabilities = [min(float(scores[row]), 1.0) for row in rows]
        candidates.append(Candidates(spans, probabilities, [rows.index(row) for row in own]))
    return candidates


def keep_own(
    gains: npt.NDArray[np.float64], spans: Sequence[Any], own: Sequence[int], overlap: str
) -> npt.NDArray[np.float64]:
    """Return gains (N,) of spans under which those at `own` are the best choice as long as no rule speaks against it.

    g(s) = max(gain(s), MARGIN)                       for a span s at `own`, with which n(s) others overlap
    g(c) = min(gain(c), g(s) / (1 + n(s)))            for another one, and every s that it overlaps with
    g(c) = min(gain(c), -MARGIN)                      for another one that overlaps with none

    At most n(s) spans can take the place of s, so they are worth less than s together.
    """
    start, end = np.array([(span.start, span.end) for span in spans], dtype=np.int64).reshape(-1, 2).T
    kept, other = np.array(own, dtype=np.intp), np.setdiff1d(np.arange(len(spans)), own)
    better = gains.copy()
    better[kept] = np.maximum(gains[kept], MARGIN)
    meets = (start[kept, None] < end[other]) & (start[other] < end[kept, None])  # (own, others)
    if overlap == "nest":  # a span inside another one does not take its place
        meets[:] = False
    shares = better[kept] / (1 + meets.sum(axis=1))
    most = np.where(meets, shares[:, None], np.inf).min(axis=0, initial=np.inf)
    better[other] = np.minimum(gains[other], np.where(meets.any(axis=0), most, -MARGIN))
    return better
