"""Label the sequences of requests, and explain labels.

    requests --read_sequences--> sequences --tag--> outcomes --to_results--> results

Requests under the same rules are labelled in one block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np

from bridle.deadline import check_stopped
from bridle.decoding.documents import cuts_of
from bridle.decoding.result import Decoding
from bridle.decoding.threads import thread_count
from bridle.errors import BridleError, LatticeError
from bridle.labels import Labels
from bridle.lattice import Lattice, Scores
from bridle.rules.base import Soft
from bridle.serve.errors import HttpError, as_http_error
from bridle.serve.lanes import Job, run_for
from bridle.serve.metrics import Metrics
from bridle.serve.schemas import (
    Alternative,
    BestLabels,
    Chances,
    DecodeRequest,
    Effect,
    Error,
    ExplainAnswer,
    ExplainRequest,
    LabelledSequence,
    PlainLabels,
    Ranked,
    Result,
    RuleName,
    ScoredSequence,
    Span,
    TagAnswer,
    TagRequest,
    Violation,
)
from bridle.serve.service import RuleText, Service
from bridle.tagging import Block, Outcomes, tag
from bridle.tagging.figures import FIGURES, figures_of, want_of

_encode = msgspec.json.Encoder().encode
_INFEASIBLE_RULES = Error(
    code="infeasible",
    what="no labelling obeys the hard rules",
    wanted='rules that can hold together, or on_infeasible="relax"',
    cause="POST /explain names the rules that clash.",
)
_INFEASIBLE_SCORES = Error(
    code="infeasible",
    what="the scores leave no labelling",
    wanted="at least one possible label at each token, and transitions between them",
)
_LIMIT_REACHED = Error(
    code="limit",
    what="a limit was reached before a labelling was found",
    wanted="a shorter sequence, or simpler rules",
)
Offsets = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SequenceInput:
    """Sequences of a request."""

    sequences: Sequence[Any]  # tokens, or columns by name
    tokens: Sequence[Sequence[str]]  # (B)  their texts
    offsets: Sequence[Offsets] | None = None  # (B)  of the tokens in the texts, if they are needed
    texts: Sequence[str] | None = None  # (B)


@dataclass(eq=False, slots=True)
class TagWork:
    """A request in a lane. Rules are parsed and texts are split there, not in the event loop."""

    service: Service
    request: TagRequest
    metrics: Metrics
    rules: RuleText | None = None
    input: SequenceInput | None = None

    def prepare(self) -> tuple[Any, ...]:
        """Parse rules and split texts; return a key that is equal for requests that can be labelled in one block."""
        service, request = self.service, self.request
        service.limits.check_k(request.k)
        self.rules = service.book.read(request.rules, request.rule_set)
        self.input = read_sequences(service, request)
        self._check_groups(len(self.input.tokens))
        total = service.limits.check_sequences(self.input.tokens)
        service.limits.check_k(request.k, total)
        self.metrics.count_sequences(len(self.input.tokens), total)
        together = request.groups is not None
        return id(self.rules), request.on_infeasible, request.columns is None, request.k, _figures(request), together

    def _check_groups(self, count: int) -> None:
        """Raise `HttpError` unless there is a document for each sequence, or none at all."""
        request = self.request
        if request.groups is None:
            return
        if len(request.groups) != count:
            got, wanted = f"{len(request.groups)} documents", f"{count}, one per sequence"
            raise HttpError(422, "input", "`groups` does not fit the sequences", got=got, wanted=wanted)
        if request.k > 1 or request.probabilities:
            got, wanted = "`k` or `probabilities` with `groups`", "labels, scores and bounds"
            raise HttpError(422, "input", "documents have no k best labellings here", got=got, wanted=wanted)
        cuts_of(request.groups)  # raises if a document comes back


def run_tagging(jobs: Sequence[Job]) -> None:
    """Label the sequences of requests in as few blocks as possible; the work of a lane."""
    groups: dict[tuple[Any, ...], list[Job]] = {}

    def prepare(job: Job) -> None:
        groups.setdefault(job.work.prepare(), []).append(job)

    for job in jobs:
        run_for([job], partial(prepare, job))
    for group in groups.values():
        run_for(group, partial(_tag_block, group))


def _tag_block(group: Sequence[Job]) -> None:
    first: TagWork = group[0].work
    service, rules, request = first.service, first.rules, first.request
    assert rules is not None
    decoder = service.decoder(rules, request.on_infeasible)
    sequences = [sequence for job in group for sequence in job.work.input.sequences]
    groups = None
    if request.groups is not None:
        groups = [(k, name) for k, job in enumerate(group) for name in job.work.request.groups]
    outcomes = tag(
        Block(len(sequences), sequences=sequences, groups=groups),
        service.tagger,
        decoder,
        want=want_of(figures := _figures(request)),
        k=request.k,
        threads=thread_count(service.threads) if rules.trusted else 1,  # rules of requests do not get all cores
    )
    results = to_results(outcomes, rules, figures)
    low = 0
    for job in group:
        high = low + len(job.work.input.sequences)
        job.error = request_error(outcomes, low, high)
        if job.error is None:
            _add_tokens_and_spans(job.work, results[low:high])
            job.answer = _encode(
                TagAnswer(service.fingerprint, rules.fingerprint, results[low:high])
            )  # not in the event loop: it is slow
        low = high


def check_exactly_one(**options: object) -> None:
    """Raise `HttpError` unless exactly one of these options has a value."""
    present = [name for name, value in options.items() if value is not None]
    if len(present) != 1:
        what = f"pass one of {', '.join(f'`{name}`' for name in options)}"
        raise HttpError(422, "input", what, got=" and ".join(present) or "none of them", wanted="exactly one")


def read_sequences(service: Service, request: TagRequest) -> SequenceInput:
    """Return the sequences of a request."""
    check_exactly_one(text=request.text, texts=request.texts, tokens=request.tokens, columns=request.columns)
    if request.columns is not None:
        service.check_columns(request.columns)
        return SequenceInput(request.columns, [columns.get(service.main, []) for columns in request.columns])
    service.check_text()
    if request.tokens is not None:
        return SequenceInput(request.tokens, request.tokens)
    texts = request.texts or ([] if request.text is None else [request.text])
    if not request.spans and not request.tokens_out:
        tokens = service.split_all(texts)
        return SequenceInput(tokens, tokens)
    pairs = [service.split(text) for text in texts]
    tokens = [tokens for tokens, _ in pairs]
    return SequenceInput(tokens, tokens, [offsets for _, offsets in pairs], texts)


# ---- results --------------------------------------------------------------------------------------------------------


def _figures(request: TagRequest | DecodeRequest) -> tuple[str, ...]:
    """List the figures that a request asks for; `score` and `bound` are in every answer."""
    return figures_of(scores=getattr(request, "probabilities", False), k=request.k > 1)


def request_error(outcomes: Outcomes, low: int, high: int) -> BridleError | None:
    """Return the error of a request with sequences low .. high-1 if all of them failed: that of the first one."""
    errors = outcomes.decodings.errors
    if low == high or not all(b in errors for b in range(low, high)):
        return None
    errors[low].sequence = 0
    return errors[low]


def to_results(outcomes: Outcomes, rules: RuleText, figures: Sequence[str] = ()) -> list[Result]:
    """Convert the outcomes of a block."""
    decodings = outcomes.decodings
    rows = decodings.labels, decodings.status.tolist(), decodings.scores.tolist(), decodings.bounds.tolist()
    results = [
        Result(labels=labels, status=status, score=score, bound=bound)
        for labels, status, score, bound in zip(*rows, strict=True)
    ]
    counts = decodings.violations  # (B, rules)
    for b in np.flatnonzero(counts.any(axis=1) & decodings.answered).tolist():
        results[b].violated = to_violations(rules, counts[b].tolist())
        results[b].penalty = math.fsum(each.cost for each in results[b].violated if each.cost is not None)
    for b, error in outcomes.errors.items():  # the other sequences of its request have their labels
        error.sequence = None
        results[b].error = as_http_error(error).to_struct()
    for b in decodings.unanswered:
        if results[b].status == "infeasible":
            results[b].error = _INFEASIBLE_RULES if rules.rules else _INFEASIBLE_SCORES
        else:
            results[b].error = _LIMIT_REACHED
    for b, result in enumerate(results):
        check_stopped()
        if outcomes.k_best is not None:
            result.k_best = [Ranked(decoding.labels, decoding.score) for decoding in outcomes.k_best[b] or ()]
        for name in set(figures).difference(LabelledSequence.__struct_fields__):
            setattr(result, name, FIGURES[name].value(outcomes, b))
    return results


def to_violations(rules: RuleText, counts: Sequence[int]) -> list[Violation]:
    """Return the violated rules; `counts` has the number of violations of each rule."""
    violated = []
    for rule, sentence, line, count in zip(rules.rules, rules.sentences, rules.lines, counts, strict=True):
        if count:
            cost = rule.cost(count) if isinstance(rule, Soft) else None
            violated.append(Violation(sentence, line, int(count), cost))
    return violated


def _add_tokens_and_spans(work: TagWork, results: Sequence[Result]) -> None:
    request, read = work.request, work.input
    if read is None or not (request.spans or request.tokens_out):
        return
    for b, result in enumerate(results):
        check_stopped()
        offsets = None if read.offsets is None else read.offsets[b]
        if request.tokens_out:
            result.tokens = list(read.tokens[b])
            if offsets is not None:
                result.offsets = [list(pair) for pair in offsets]
        if request.spans:
            text = None if read.texts is None else read.texts[b]
            result.spans = to_spans(result.labels, work.service.span_labels, offsets, text)


def to_spans(
    names: Sequence[str], labels: Labels, offsets: Offsets | None = None, text: str | None = None
) -> list[Span]:
    """Return the segments of a labelling."""
    spans = []
    for first, end, label in labels.segments(names) if names else ():
        start = stop = None
        if offsets is not None:
            start, stop = offsets[first][0], offsets[end - 1][1]
        quoted = None if text is None else text[start:stop]
        spans.append(Span(start, stop, label, quoted, first, end))
    return spans


# ---- POST /decode ---------------------------------------------------------------------------------------------------


def decode_scores(service: Service, request: DecodeRequest) -> TagAnswer:
    """Label sequences by the scores of another model."""
    service.limits.check_k(request.k)
    service.limits.check_sequences([each.tokens or [""] * len(each.unary) for each in request.sequences])
    labels = Labels(request.labels, request.scheme)
    labels.most_square = service.limits.most_square
    labels = service.labels if labels == service.labels else labels  # reuses compiled rules
    rules = _rules_for(service, request, labels)
    decoder = service.decoder(rules, request.on_infeasible, labels)
    errors: dict[int, BridleError] = {}
    lattices = [_lattice(each, b, len(labels), errors) for b, each in enumerate(request.sequences)]
    given = [{**each.given, **({} if each.tokens is None else {"tokens": each.tokens})} for each in request.sequences]
    block = Block(len(lattices), scores=lattices, given=given, errors=errors)
    figures = _figures(request)
    outcomes = tag(block, None, decoder, want=want_of(figures), k=request.k)
    if (error := request_error(outcomes, 0, len(block))) is not None:
        raise error
    results = to_results(outcomes, rules, figures)
    if request.spans:
        for result in results:
            result.spans = to_spans(result.labels, labels.span_labels)
    return TagAnswer(None, rules.fingerprint, results)


def _rules_for(service: Service, request: DecodeRequest, labels: Labels) -> RuleText:
    """Return the rules of a request. The default rules of the server apply only to the labels of its model."""
    book = service.book
    if labels == service.labels:
        return book.read(request.rules, request.rule_set)
    trusted = book.find(request.rules, request.rule_set)
    sentences = () if trusted is None or request.rule_set is None else trusted.sentences
    return book.parse(sentences or request.rules or "", labels)


def _lattice(sequence: ScoredSequence, b: int, m: int, errors: dict[int, BridleError]) -> Lattice:
    """Return the scores of sequence b; if they are invalid, note its error and return an empty lattice."""
    n = len(sequence.unary)
    try:
        if sequence.tokens is not None and len(sequence.tokens) != n:
            got, wanted = f"{len(sequence.tokens)} tokens", f"{n}, as many as rows of scores"
            raise LatticeError("`tokens` must have a text per row of scores", got=got, wanted=wanted)
        unary, *heads = map(_as_array, (sequence.unary, sequence.pairwise, sequence.start, sequence.end))
        return Lattice(unary if n else np.zeros((0, m)), *heads)
    except LatticeError as error:
        errors[b] = error
    except (TypeError, ValueError):
        got, wanted = "lists of different lengths", "lists of the same length"
        errors[b] = LatticeError("scores are not a table", got=got, wanted=wanted)
    return Lattice(np.zeros((0, m)))


def _as_array(values: list[Any] | None) -> Any:
    if values is None:
        return None
    array = np.array(values, dtype=np.float64)  # null becomes NaN, which JSON cannot express
    return np.where(np.isnan(array), -np.inf, array)


# ---- POST /explain --------------------------------------------------------------------------------------------------


def explain_labels(service: Service, request: ExplainRequest) -> ExplainAnswer:
    """Explain the labels of one sequence."""
    service.limits.check_k(request.k)
    sequence, tokens, offsets = _read_sequence(service, request)
    service.limits.check_explained(tokens)
    if (gold := request.gold) is not None and len(gold) != len(tokens):
        got, wanted = f"{len(gold)} labels", f"{len(tokens)}, as many as tokens"
        raise HttpError(422, "gold", "`gold` must have a label per token", got=got, wanted=wanted)
    rules = service.book.read(request.rules, request.rule_set)
    decoder = service.decoder(rules)
    given = service.tagger.given([sequence], decoder)
    why = decoder.explain(service.tagger.lattice(sequence), None if given is None else given[0])
    plain, best = why.plain, why.best
    plain_counts = [rule.violations(plain.ids, decoder.labels, why.given) for rule in rules.rules]
    best_counts = [0] * len(rules.rules)
    for rule, count in best.violated:
        best_counts[rules.index[id(rule)]] = count
    answer = ExplainAnswer(
        rules=rules.fingerprint,
        tokens=list(tokens),
        offsets=None if offsets is None else [list(pair) for pair in offsets],
        plain=PlainLabels(plain.labels, plain.score, to_violations(rules, plain_counts)),
        best=BestLabels(
            best.labels,
            best.score,
            best.bound,
            best.penalty,
            best.optimal,
            cast(Any, best.status),  # never "error", which only sequences of a block have
            to_violations(rules, best_counts),
        ),
        changed=why.changed,
        cost=why.cost,
        effects=[
            Effect(
                rule=str(effect.rule),
                line=rules.line_of(effect.rule),
                broken_by_plain=effect.broken_by_plain,
                price=effect.price,
                proved=effect.proved,
                at=list(effect.at),
                without=None if effect.without is None else Ranked(effect.without.labels, effect.without.score),
            )
            for effect in why.effects
        ],
        clash=[RuleName(str(rule), rules.line_of(rule)) for rule in why.clash],
        alternatives=[
            Alternative(other.labels, other.score, best.score - other.score)
            for other in (why.alternatives(request.k) if request.k else ())
        ],
        alternatives_missing=why.alternatives_missing(request.k) if request.k else "",
        probabilities=Chances(
            _probabilities(why.probabilities("scores"), plain),
            None if best.relaxed else _probabilities(why.probabilities("rules"), best),
        ),
        gold=gold,
    )
    if request.picture:
        known = None if gold is None or not set(gold) <= set(service.labels) else gold
        answer.svg = why.svg(tokens, k=request.k, gold=known)
    return answer


def _read_sequence(service: Service, request: ExplainRequest) -> tuple[Any, Sequence[str], Offsets | None]:
    """Return the sequence as the model takes it, its tokens, and their offsets if there is a text."""
    check_exactly_one(text=request.text, tokens=request.tokens, columns=request.columns)
    if request.columns is not None:
        service.check_sequence(request.columns)
        return request.columns, request.columns[service.main], None
    service.check_text()
    if request.tokens is not None:
        return request.tokens, request.tokens, None
    tokens, offsets = service.split(request.text or "")
    return tokens, tokens, offsets


def _probabilities(table: Scores | None, decoding: Decoding) -> list[float] | None:
    """Return the probability of each label of a labelling."""
    return None if table is None else [float(p) for p in table[np.arange(len(decoding)), decoding.ids]]
