"""Label the sequences of requests: many requests in one batch, if they ask for the same rules.

A batch is decoded as arrays; Python sees each sequence once, when its result is written down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decodings
from bridle.errors import EngineError, Infeasible, LimitReached
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.rules.base import Soft
from bridle.serve.batching import Job
from bridle.serve.metrics import Metrics
from bridle.serve.problems import HttpError
from bridle.serve.rulebook import RuleText
from bridle.serve.schemas import Error, Ranked, Result, Span, TagAnswer, TagRequest, Violation
from bridle.serve.service import Service

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
        return id(self.rules), request.on_infeasible, request.columns is None


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
        for b, columns in enumerate(request.columns):
            service.check_columns(columns, b)
        return Input(request.columns, [columns[service.main] for columns in request.columns])
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
    """Decode the requests of a batch, those with the same rules together; the work of a lane."""
    groups: dict[tuple[Any, ...], list[Job]] = {}
    for job in jobs:
        try:
            groups.setdefault(job.work.prepare(), []).append(job)
        except Exception as error:  # what is wrong with a request is its own problem
            job.error = error
    for group in groups.values():
        _together(group)


def _together(group: Sequence[Job]) -> None:
    """Decode requests with the same rules at once. If that fails, one by one: the others are not to blame."""
    try:
        _decode(group)
    except Exception as error:
        if len(group) == 1:
            group[0].error = error
            return
        for job in group:
            _together([job])


def _decode(group: Sequence[Job]) -> None:
    work: TagWork = group[0].work
    service, rules = work.service, work.rules
    assert rules is not None
    decoder = service.decoder(rules, work.request.on_infeasible)
    xs = [x for job in group for x in job.work.input.sequences]
    if rules.own and sum(len(tokens) for job in group for tokens in job.work.input.tokens) < STOPPABLE:
        found = service.tagger.decode(xs, decoder, threads=1)
    else:
        found = stoppable(service, decoder, xs, group)
    results = results_of(found, rules)
    low = 0
    for job in group:
        high = low + len(job.work.input.sequences)
        try:
            some = results[low:high]
            add(service, decoder, job, some)
            job.answer = _encode(TagAnswer(service.fingerprint, some))  # here: a large one would hold up the loop
        except Exception as error:
            job.error = error
        low = high


# ---- work that can be stopped ---------------------------------------------------------------------------------------

STOPPABLE = 4096  # from so many tokens on, even trusted rules are decoded such that it can be stopped


class Stops:
    """Stops the kernels when all requests of a batch have given up."""

    def __init__(self, group: Sequence[Job]) -> None:
        self._group, self._stops, self.stopped = group, list[_native.Stop](), False
        for job in group:
            job.on_give_up(self._look)

    def add(self, stop: _native.Stop) -> None:
        """A kernel that begins its work."""
        self._stops.append(stop)
        if self.stopped:
            stop.set()

    def _look(self) -> None:
        if all(job.given_up for job in self._group):
            self.stopped = True
            for stop in self._stops:
                stop.set()


def stoppable(service: Service, decoder: Decoder, xs: Sequence[Any], group: Sequence[Job]) -> Decodings:
    """Score and decode the sequences of requests, part by part, such that it can be stopped.

    In one thread: requests that come together have several, and an exception that stops a thread must not come while it
    holds a lock of a pool.
    """
    tagger, stops = service.tagger, Stops(group)

    def part(low: int, high: int, stop: _native.Stop) -> tuple[Batch, Sequence[Mapping[str, Any]] | None, None]:
        stops.add(stop)
        some = list(xs[low:high])
        return tagger.lattices(some), tagger.given(some, decoder), None

    return decoder.decode_parts(part, len(xs), threads=1)


# ---- results --------------------------------------------------------------------------------------------------------


def results_of(found: Decodings, rules: RuleText) -> list[Result]:
    """The labellings of a batch, by names."""
    made = [
        Result(labels=labels, status=status, score=score, bound=bound)
        for labels, status, score, bound in zip(
            found.labels, found.status.tolist(), found.scores.tolist(), found.bounds.tolist(), strict=True
        )
    ]
    counts = found.violations  # (B, rules)
    for b in np.flatnonzero(counts.any(axis=1)).tolist():
        if b not in found.unanswered:
            made[b].violated = violations(rules, counts[b].tolist())
            made[b].penalty = math.fsum(one.cost for one in made[b].violated if one.cost is not None)
    for b in found.unanswered:
        status = made[b].status
        made[b].error = _NO_PATH if status == "infeasible" and not rules.rules else _NO_ANSWER[status]
    return made


def violations(rules: RuleText, counts: Sequence[int]) -> list[Violation]:
    """The rules that are broken; counts: how often each is."""
    told = []
    for k, times in enumerate(counts):
        if times:
            rule = rules.rules[k]
            cost = rule.cost(times) if isinstance(rule, Soft) else None
            told.append(Violation(rules.sentences[k], rules.lines[k], int(times), cost))
    return told


def add(service: Service, decoder: Decoder, job: Job, results: Sequence[Result]) -> None:
    """Add what a request wants beside labels."""
    request: TagRequest = job.work.request
    given: Input = job.work.input
    if request.tokens_out:
        for b, result in enumerate(results):
            result.tokens = list(given.tokens[b])
            if given.offsets is not None:
                result.offsets = [list(pair) for pair in given.offsets[b]]
    if request.spans:
        for b, result in enumerate(results):
            offsets = None if given.offsets is None else given.offsets[b]
            text = None if given.texts is None else given.texts[b]
            result.spans = spans_of(result.labels, service.span_labels, offsets, text)
    if request.k > 1 or request.probabilities:
        lattices = service.tagger.lattices(list(given.sequences))
        givens = service.tagger.given(list(given.sequences), decoder)
        rank(decoder, lattices, givens, results, k=request.k, chances=request.probabilities)


def rank(
    decoder: Decoder,
    lattices: Batch | Sequence[Lattice],
    givens: Sequence[Mapping[str, Any]] | None,
    results: Sequence[Result],
    *,
    k: int,
    chances: bool,
) -> None:
    """Add the k best labellings and probabilities, sequence by sequence."""
    for b, result in enumerate(results):
        given = None if givens is None else givens[b]
        holds = result.status in ("optimal", "limit")
        if k > 1:
            result.k_best = k_best(decoder, lattices[b], k, given) if holds else []
        if chances:
            result.probabilities = probabilities(decoder, lattices[b], result.labels, given) if holds else None


def k_best(decoder: Decoder, lattice: Lattice, k: int, given: Mapping[str, Any] | None) -> list[Ranked]:
    """The best labellings; none if they cannot be found within the limits."""
    try:
        return [Ranked(one.labels, one.score) for one in decoder.k_best(lattice, k, given)]
    except (Infeasible, LimitReached, EngineError):
        return []


def probabilities(
    decoder: Decoder, lattice: Lattice, labels: Sequence[str], given: Mapping[str, Any] | None
) -> list[float] | None:
    """The probability of each label given the hard rules; None if the sum takes too long or too much memory."""
    try:
        table = decoder.marginals(lattice, given)
    except (Infeasible, LimitReached, EngineError):
        return None
    ids = decoder.labels.ids(labels)
    return [float(p) for p in table[np.arange(len(ids)), ids]]


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
