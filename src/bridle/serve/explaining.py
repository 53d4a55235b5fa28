"""Explain one labelling: what each rule changed and cost, alternatives, probabilities, the clash, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from bridle.decoding.result import Decoding
from bridle.explain import Explanation
from bridle.lattice import Scores
from bridle.serve.problems import HttpError, too_large
from bridle.serve.rulebook import RuleText
from bridle.serve.schemas import (
    Alternative,
    BestLabels,
    Chances,
    Effect,
    ExplainAnswer,
    ExplainRequest,
    PlainLabels,
    Ranked,
    RuleName,
    Violation,
)
from bridle.serve.service import Service
from bridle.serve.tagging import check_one, violations


def explain(service: Service, request: ExplainRequest) -> ExplainAnswer:
    """Why these labels."""
    service.limits.check_k(request.k)
    sequence, tokens, offsets = _sequence(service, request)
    service.limits.check_sequences([tokens])
    if len(tokens) > service.limits.explain_tokens:
        what = "the sequence is too long to be explained"
        raise too_large("explain_tokens", what, len(tokens), service.limits.explain_tokens)
    rules = service.book.read(request.rules, request.rule_set)
    decoder = service.decoder(rules)
    given = service.tagger.given([sequence], decoder)
    why = decoder.explain(service.tagger.lattice(sequence), None if given is None else given[0])
    gold = _gold(request.gold, tokens)
    plain, best = why.plain, why.best
    answer = ExplainAnswer(
        tokens=list(tokens),
        offsets=None if offsets is None else [list(pair) for pair in offsets],
        plain=PlainLabels(plain.labels, plain.score, _broken(rules, why, why.given)),
        best=BestLabels(
            best.labels,
            best.score,
            best.bound,
            best.penalty,
            best.optimal,
            cast(Any, best.status),  # never "error", which only sequences of a block have
            _violated(rules, best),
        ),
        changed=why.changed,
        cost=why.cost,
        effects=_effects(rules, why),
        clash=[RuleName(str(rule), rules.line_of(rule)) for rule in why.clash],
        alternatives=[
            Alternative(other.labels, other.score, best.score - other.score)
            for other in (why.alternatives(request.k) if request.k else ())
        ],
        alternatives_missing=why.alternatives_missing(request.k) if request.k else "",
        probabilities=Chances(
            _chances(why.probabilities("scores"), plain),
            None if best.relaxed else _chances(why.probabilities("rules"), best),
        ),
        gold=gold,
    )
    if request.picture:
        known = None if gold is None or not set(gold) <= set(service.labels) else gold
        answer.svg = why.svg(tokens, k=request.k, gold=known)
    return answer


def _sequence(service: Service, request: ExplainRequest) -> tuple[Any, Sequence[str], Sequence[tuple[int, int]] | None]:
    """The sequence as the model takes it, its tokens, and their places in the text."""
    check_one(text=request.text, tokens=request.tokens, columns=request.columns)
    if request.columns is not None:
        service.check_columns([request.columns])
        if len({len(column) for column in request.columns.values()}) > 1:
            got = ", ".join(f"{len(column)} in {name!r}" for name, column in request.columns.items())
            raise HttpError(422, "columns", "the columns differ in length", got=got, wanted="a text per token in each")
        return request.columns, request.columns[service.main], None
    service.check_text()
    if request.tokens is not None:
        return request.tokens, request.tokens, None
    tokens, offsets = service.split(request.text or "")
    return tokens, tokens, offsets


def _gold(gold: list[str] | None, tokens: Sequence[str]) -> list[str] | None:
    if gold is not None and len(gold) != len(tokens):
        what = "`gold` must have a label per token"
        raise HttpError(422, "gold", what, got=f"{len(gold)} labels", wanted=f"{len(tokens)}, as many as tokens")
    return gold


def _broken(rules: RuleText, why: Explanation, given: Mapping[str, Any] | None) -> list[Violation]:
    """The rules that the plain labelling breaks."""
    labels = why.decoder.labels
    return violations(rules, [rule.violations(why.plain.ids, labels, given) for rule in rules.rules])


def _violated(rules: RuleText, found: Decoding) -> list[Violation]:
    counts = [0] * len(rules.rules)
    for rule, times in found.violated:
        counts[rules.places[id(rule)]] = times
    return violations(rules, counts)


def _effects(rules: RuleText, why: Explanation) -> list[Effect]:
    return [
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
    ]


def _chances(table: Scores | None, found: Decoding) -> list[float] | None:
    """The probability of each label of a labelling."""
    return None if table is None else [float(p) for p in table[np.arange(len(found)), found.ids]]
