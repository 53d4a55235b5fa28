"""Label the sequences of requests: many requests in one block, if they ask for the same rules.

requests --input_of--> sequences --tag--> outcomes --results_of--> results
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from bridle.deadline import check_stopped
from bridle.decoding.threads import thread_count
from bridle.errors import BridleError
from bridle.labels import Labels
from bridle.rules.base import Soft
from bridle.serve.batching import Job, work_for
from bridle.serve.metrics import Metrics
from bridle.serve.problems import HttpError, error_of, problem_of
from bridle.serve.rulebook import RuleText
from bridle.serve.schemas import Error, Ranked, Result, Span, TagAnswer, TagRequest, Violation
from bridle.serve.service import Service
from bridle.tagging import Block, Outcomes, tag
from bridle.tagging.labelling import Want

_encode = msgspec.json.Encoder().encode
_NO_ANSWER = {
    "infeasible": Error(
        code="infeasible",
        what="no labelling obeys the hard rules",
        wanted='rules that can hold together, or on_infeasible="relax"',
        cause="POST /explain names the rules that clash.",
    ),
    "nothing_found": Error(
        code="limit",
        what="a limit was reached before a labelling was found",
        wanted="a shorter sequence, or simpler rules",
    ),
}


_NO_PATH = Error(
    code="infeasible",
    what="the scores leave no labelling",
    wanted="at least one possible label at each token, and transitions between them",
)


@dataclass(frozen=True, slots=True)
class Input:
    """Sequences of a request."""

    sequences: Sequence[Any]  # tokens, or columns by name
    tokens: Sequence[Sequence[str]]  # (B)  their texts
    offsets: Sequence[Sequence[tuple[int, int]]] | None = None  # (B)  places in the texts, if they are needed
    texts: Sequence[str] | None = None  # (B)


@dataclass(eq=False, slots=True)
class TagWork:
    """A request in a lane. Its rules are read and its texts are split there, not in the event loop."""

    service: Service
    request: TagRequest
    metrics: Metrics
    rules: RuleText | None = None
    input: Input | None = None

    def prepare(self) -> tuple[Any, ...]:
        """Read rules and texts; requests for which the same comes back can be decoded together."""
        service, request = self.service, self.request
        service.limits.check_k(request.k)
        self.rules = service.book.read(request.rules, request.rule_set)
        self.input = input_of(service, request)
        total = service.limits.check_sequences(self.input.tokens)
        service.limits.check_k(request.k, total)
        self.metrics.decoded(len(self.input.tokens), total)
        return id(self.rules), request.on_infeasible, request.columns is None, request.k, request.probabilities


def check_one(**named: object) -> None:
    """Raise unless a request brings exactly one of these."""
    given = [name for name, value in named.items() if value is not None]
    if len(given) != 1:
        what = f"pass one of {', '.join(f'`{name}`' for name in named)}"
        raise HttpError(422, "input", what, got=" and ".join(given) or "none of them", wanted="exactly one")


def input_of(service: Service, request: TagRequest) -> Input:
    """The sequences of a request."""
    check_one(texts=request.texts, tokens=request.tokens, columns=request.columns)
    if request.columns is not None:
        service.check_columns(request.columns)
        return Input(request.columns, [columns.get(service.main, []) for columns in request.columns])
    service.check_text()
    if request.tokens is not None:
        return Input(request.tokens, request.tokens)
    texts = request.texts or []
    if not request.spans and not request.tokens_out:
        tokens = service.split_all(texts)
        return Input(tokens, tokens)
    cut = [service.split(text) for text in texts]
    tokens = [tokens for tokens, _ in cut]
    return Input(tokens, tokens, [offsets for _, offsets in cut], texts)


def run(jobs: Sequence[Job]) -> None:
    """Label the sequences of requests, those with the same rules together; the work of a lane."""
    groups: dict[tuple[Any, ...], list[Job]] = {}

    def prepare(job: Job) -> None:
        groups.setdefault(job.work.prepare(), []).append(job)

    for job in jobs:
        work_for([job], partial(prepare, job))
    for group in groups.values():
        work_for(group, partial(_label, group))


def _label(group: Sequence[Job]) -> None:
    """Label the sequences of requests with the same rules."""
    first: TagWork = group[0].work
    service, rules, request = first.service, first.rules, first.request
    assert rules is not None
    decoder = service.decoder(rules, request.on_infeasible)
    sequences = [sequence for job in group for sequence in job.work.input.sequences]
    outcomes = tag(
        Block(len(sequences), sequences=sequences),
        service.tagger,
        decoder,
        want=wanted(request.k, request.probabilities),
        k=request.k,
        threads=thread_count(service.threads) if rules.own else 1,  # others' rules do not get all cores
    )
    results = results_of(outcomes, rules)
    low = 0
    for job in group:
        high = low + len(job.work.input.sequences)
        job.error = request_error(outcomes, low, high)
        if job.error is None:
            if job.work.request.spans or job.work.request.tokens_out:
                _complete(service, job.work, results[low:high])
            job.answer = _encode(TagAnswer(service.fingerprint, results[low:high]))  # in the loop it would hold up all
        low = high


# ---- results --------------------------------------------------------------------------------------------------------


def wanted(k: int, probabilities: bool = False) -> list[Want]:
    """What to ask `tag` for."""
    more: list[Want] = ["k_best"] if k > 1 else []
    return [*more, "probabilities"] if probabilities else more


def request_error(outcomes: Outcomes, low: int, high: int) -> BridleError | None:
    """The error of a request with sequences low .. high-1, if none of them can be labelled: that of the first one."""
    errors = outcomes.decodings.errors
    if low == high or not all(b in errors for b in range(low, high)):
        return None
    errors[low].sequence = 0
    return errors[low]


def results_of(outcomes: Outcomes, rules: RuleText) -> list[Result]:
    """The labellings of a block, by names, with what else was asked for."""
    found = outcomes.decodings
    rows = found.labels, found.status.tolist(), found.scores.tolist(), found.bounds.tolist()
    results = [
        Result(labels=labels, status=status, score=score, bound=bound)
        for labels, status, score, bound in zip(*rows, strict=True)
    ]
    counts = found.violations  # (B, rules)
    for b in np.flatnonzero(counts.any(axis=1) & found.answered).tolist():
        results[b].violated = violations(rules, counts[b].tolist())
        results[b].penalty = math.fsum(one.cost for one in results[b].violated if one.cost is not None)
    for b, error in outcomes.errors.items():  # the others of its request are not touched
        error.sequence = None
        results[b].error = error_of(problem_of(error))
    for b in found.unanswered:
        status = results[b].status
        results[b].error = _NO_PATH if status == "infeasible" and not rules.rules else _NO_ANSWER[status]
    if outcomes.k_best is not None:
        for result, best in zip(results, outcomes.k_best, strict=True):
            check_stopped()
            result.k_best = [Ranked(one.labels, one.score) for one in best or ()]
    if outcomes.probabilities is not None:
        chances = np.split(outcomes.probabilities, found.offsets[1:-1])
        for result, its, answered in zip(results, chances, found.answered.tolist(), strict=True):
            result.probabilities = None if not answered or np.isnan(its).any() else its.tolist()
    return results


def violations(rules: RuleText, counts: Sequence[int]) -> list[Violation]:
    """The rules that are broken; counts: how often each is."""
    told = []
    for k, times in enumerate(counts):
        if times:
            rule = rules.rules[k]
            cost = rule.cost(times) if isinstance(rule, Soft) else None
            told.append(Violation(rules.sentences[k], rules.lines[k], int(times), cost))
    return told


def _complete(service: Service, work: TagWork, results: Sequence[Result]) -> None:
    """Add tokens and spans to the results of a request, as it wants them."""
    request, given = work.request, work.input
    assert given is not None
    for b, result in enumerate(results):
        check_stopped()
        offsets = None if given.offsets is None else given.offsets[b]
        if request.tokens_out:
            result.tokens = list(given.tokens[b])
            if offsets is not None:
                result.offsets = [list(pair) for pair in offsets]
        if request.spans:
            text = None if given.texts is None else given.texts[b]
            result.spans = spans_of(result.labels, service.span_labels, offsets, text)


def spans_of(
    labels: Sequence[str], known: Labels, offsets: Sequence[tuple[int, int]] | None, text: str | None
) -> list[Span]:
    """The segments of a labelling."""
    if not labels:
        return []
    made = []
    for first, end, kind in known.segments(labels):
        start = stop = quote = None
        if offsets is not None:
            start, stop = offsets[first][0], offsets[end - 1][1]
            quote = None if text is None else text[start:stop]
        made.append(Span(start, stop, kind, quote, first, end))
    return made
