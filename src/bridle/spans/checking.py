"""The judge of words and of selected spans: recomputes everything by the plain definitions, without the engines.

Selections: items are the chosen spans and, of every token, the pieces that no chosen span holds (label O); they are
ordered by start, longer ones first. A rule means of a selection what it means of the labels of its items, where

    every span is a segment of its own           a position stands for the items that hold it
    the text of an item is the text that it holds    the length of a span is the number of tokens that it touches
    `tokens /.../` and a list are about the text of an item; with after, before or a column, about the tokens it holds
    same_label over (a, b) is about items that begin at a + 1 .. b - 1: each agrees with the item before
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bridle.decoding.judge import Verdict, judge
from bridle.labels import Labels
from bridle.rules.base import Rule, named
from bridle.rules.conditions import TokenPlace, Tokens, TokensIn
from bridle.rules.loading import as_rules
from bridle.rules.references import Place, RuleContext
from bridle.spans.candidates import Document, ScoreKind, SpanLabels, candidates_of, document_of, labels_in
from bridle.spans.decoder import SpanDecoding
from bridle.spans.lattice import SpanLattice
from bridle.spans.selector import Selection


@dataclass(frozen=True, slots=True)
class _Items(RuleContext):
    """The items of a selection, as rules read them."""

    extents: tuple[tuple[int, int], ...]  # of each item, in positions
    sizes: tuple[int, ...]  # tokens that each touches
    n: int  # positions
    tokens: list[tuple[int, int]]  # where each begins and ends, in positions
    given_tokens: dict[str, Any]  # what came with them

    def positions(self, place: Place | None) -> list[int]:
        if place is None:
            return RuleContext.positions(self, place)
        match place.source:
            case Tokens(column=None):
                return RuleContext.positions(self, place)
            case TokensIn(phrases, ignoring, None):
                folded = str.casefold if ignoring == "case" else str
                known = {folded(phrase) for phrase in phrases.phrases()}
                return [k for k, text in enumerate(self.given["tokens"]) if " ".join(folded(text).split()) in known]
        if isinstance(place.source, TokenPlace):
            matching = [self.tokens[k] for k in place.positions(len(self.tokens), self.given_tokens)]
            at = [t for start, end in matching for t in range(start, end)]
        else:
            at = place.positions(self.n, self.given)
        if place.tied:
            return [k for k, (start, _) in enumerate(self.extents) if start in at and k > 0]
        return [k for k, (start, end) in enumerate(self.extents) if any(start <= t < end for t in at)]

    def segment_length(self, t: int) -> int:
        return self.sizes[t]


def check_spans(
    lattice: SpanLattice,
    rules: Sequence[Rule],
    decoding: SpanDecoding,
    given: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Check words against the plain definitions: that they join, a sum of scores, and `violations` of each rule.

    It shares no code with the engines. As `check`, it does not search for better words.

    Parameters
    ----------
    lattice : SpanLattice
        The possible words that were decoded.
    rules : sequence of Rule
        The rules of the decoder, in its order: ``decoder.rules``.
    decoding : SpanDecoding
        What the decoder returned.
    given : mapping, optional
        The values that came with the sequence.
    tolerance : float, default 1e-6
        How far scores may be apart, relative to their size.

    Returns
    -------
    Verdict
        Score, penalty and violations as they are, and complaints where the decoding says otherwise.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import bridle
    >>> lattice = bridle.SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    >>> d = bridle.SpanDecoder().decode(lattice)
    >>> bridle.check_spans(lattice, [], d).ok
    True
    >>> bridle.check_spans(lattice, [], replace(d, penalty=1.0)).complaints
    ['the penalty is 0, not 1.0']
    """
    complaints, at, total = [], 0, 0.0
    for arc, word, y in zip(decoding.arcs.tolist(), decoding.words, decoding.ids.tolist(), strict=True):
        if tuple(lattice.spans[arc].tolist()) != tuple(word) or int(lattice.labels[arc]) != y:
            complaints.append(f"arc {arc} is not the word {word} with label {y}")
        if word[0] != at:
            complaints.append(f"the word {word} does not begin at {at}")
        at, total = word[1], total + float(lattice.scores[arc])
    if at != lattice.n:
        complaints.append(f"the words end at {at}, not at {lattice.n}")
    values = dict(given or {})
    if lattice.characters is not None:
        values["tokens"] = ["".join(lattice.characters[a:b]) for a, b in decoding.words]
    counts = [rule.violations(decoding.ids, decoding.label_set, values) for rule in rules]
    return judge(rules, counts, total, decoding, tolerance, complaints)


def check_selection(
    spans: Any,
    rules: Iterable[Rule | str],
    selection: Selection,
    *,
    overlap: Literal["forbid", "nest"] = "forbid",
    scores: ScoreKind = "log_odds",
    threshold: float = 0.5,
    text: str | None = None,
    tokens: Any = None,
    given: Mapping[str, Any] | None = None,
    tolerance: float = 1e-6,
) -> Verdict:
    """Check a selection against the plain definitions: overlaps, a sum of scores, and the violations of each rule.

    As `check`, it does not search for a better one.

    Parameters
    ----------
    spans, rules
        As they were passed to `select`.
    selection : Selection
        What came out. It must have an answer.
    overlap, scores, threshold, text, tokens, given
        As they were passed to `select`.
    tolerance : float, default 1e-6
        How far scores may be apart, relative to their size.

    Returns
    -------
    Verdict
        Score, penalty and violations as they are, and complaints where the selection says otherwise.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import bridle
    >>> spans = [(0, 2, "A", 1.0), (1, 3, "A", 2.0)]
    >>> selection = bridle.select(spans)
    >>> bridle.check_selection(spans, [], selection).ok
    True
    >>> both = replace(selection, indices=[0, 1], spans=[bridle.Span(*span) for span in spans])
    >>> bridle.check_selection(spans, [], both).complaints  # doctest: +NORMALIZE_WHITESPACE
    ['spans 0 and 1 overlap', 'the score is 3.0, not 2.0', 'the bound 2.0 is below the score 3.0',
     'optimal, but bound 2.0 and score 3.0 do not meet']
    """
    parsed, values = as_rules(rules), dict(given or {})
    candidates = candidates_of(spans, scores, threshold)
    document = document_of(text, values.get("tokens") if text is None and tokens is None else tokens, candidates.end)
    complaints, chosen = [], []
    for k, span in zip(selection.indices, selection.spans, strict=True):
        start, end = int(candidates.start[k]), int(candidates.end[k])
        label = candidates.labels[k] if isinstance(candidates.labels[k], str) else span.label  # or it is a number
        if (start, end, label, float(candidates.scores[k])) != tuple(span):
            complaints.append(f"{tuple(span)} is not candidate {k}")
        chosen.append((start, end, label))
    complaints += _overlaps(selection.indices, chosen, overlap)
    names = {label for _, _, label in chosen} | labels_in(parsed, values)
    counts = _violations(parsed, document, chosen, SpanLabels(tuple(sorted(names))), values)
    total = sum(float(candidates.gains[k]) for k in selection.indices)
    return judge(parsed, counts, total, selection, tolerance, complaints)


_Chosen = tuple[int, int, str]  # start, end, label


def _overlaps(indices: list[int], chosen: list[_Chosen], overlap: str) -> list[str]:
    complaints = []
    for i, (a, b, _) in enumerate(chosen):
        for j, (c, d, _) in enumerate(chosen[:i]):
            shared = min(b, d) > max(a, c)
            inside = (a, b) != (c, d) and ((a <= c and d <= b) or (c <= a and b <= d))
            if shared and not (overlap == "nest" and inside):
                complaints.append(f"spans {indices[j]} and {indices[i]} overlap")
    return complaints


def _violations(
    rules: tuple[Rule, ...], document: Document, chosen: list[_Chosen], labels: Labels, given: dict[str, Any]
) -> list[int]:
    items = sorted([*chosen, *_uncovered(document, chosen)], key=lambda item: (item[0], -item[1]))
    extents = tuple((start, end) for start, end, _ in items)
    tokens = list(zip(document.starts.tolist(), document.ends.tolist(), strict=True))
    sizes = tuple(sum(a < end and start < b for a, b in tokens) for start, end in extents)
    of_tokens = given
    if document.slice is not None:
        of_tokens = {**given, "tokens": [document.slice(start, end) for start, end in tokens]}
        given = {**given, "tokens": [document.slice(start, end) for start, end in extents]}
    ids = tuple(labels.id(item[2]) for item in items)
    context = _Items(ids, labels, given, extents, sizes, document.n, tokens, of_tokens)
    counts = []
    for rule in rules:
        with named(rule):
            counts.append(rule.count_violations(context))
    return counts


def _uncovered(document: Document, chosen: list[_Chosen]) -> list[_Chosen]:
    """Return the pieces of tokens that no chosen span holds."""
    held = {t for start, end, _ in chosen for t in range(start, end)}
    uncovered = []
    for low, high in zip(document.starts.tolist(), document.ends.tolist(), strict=True):
        free = [t for t in range(low, high) if t not in held]
        for t in free:
            if t - 1 not in free:
                end = next(u for u in range(t + 1, high + 1) if u not in free)
                uncovered.append((t, end, "O"))
    return uncovered
