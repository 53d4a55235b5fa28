"""Rules that would repair a wrong label, each with its effect on labelled data and its price.

A correction says that some tokens of a sequence carry a label. Candidates are rules that the present labels break and
that the best labels with the correction obey: rules about these tokens, their neighbours, columns and phrases
(`_of_tokens`), about order and number of labels (`_of_labels`), and those that the learner proposes from gold labels
(`learn.candidates`). A candidate stays if the best labels under the rules and itself have the correction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from bridle import rules as r
from bridle.deadline import check_stopped
from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding
from bridle.errors import BridleError
from bridle.lattice import Batch
from bridle.learn.candidates import KINDS, TOKEN_CLASSES, Limits
from bridle.learn.counted import Counted
from bridle.rules.base import Rule
from bridle.rules.conditions import Tokens
from bridle.rules.documents import hard_part
from bridle.serve.errors import HttpError
from bridle.serve.evaluation import Additions, GoldData, RuleEffect
from bridle.serve.schemas import Names, Pair, RulesRequest
from bridle.serve.service import RuleText, Service, is_backtracking

_MOST, _FEW = 5, 3  # suggestions; and those after which none that hurts is added
_MOST_OF_A_KIND = 2
_MOST_TRIED, _MOST_MEASURED = 60, 16  # candidates that are tried on the sequence, and on the data
_MOST_PHRASES, _LEAST_PHRASES = 20, 3  # of a list that is taken from gold labels
_EXCEPTIONS = 0.25  # share of the sequences in which gold may break a candidate of the learner
_MARGIN = 1.2  # a soft rule costs so many times the least penalty that repairs the sequence


class SuggestRequest(RulesRequest, kw_only=True):
    """A label that tokens of a sequence should have: tokens at[0] to at[1] - 1. Effects are measured on `data`."""

    columns: dict[str, Names]
    at: Pair
    label: str
    data: str | None = None


class Suggestion(Struct):
    """A rule that repairs the labels, what the score of the sequence loses, and what it does on the data."""

    rule: str
    reason: str
    price: float
    effect: RuleEffect | None


class SuggestAnswer(Struct):
    """Suggestions, the best first, the best labels with the correction, and why there are no suggestions."""

    suggestions: list[Suggestion]
    labels: Names
    message: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A rule that may repair the labels, and the reason to propose it."""

    rule: Rule
    kind: str  # those of one kind are alternatives to each other
    reason: str


@dataclass(frozen=True, slots=True)
class _Correction:
    """A sequence, its labels under the rules now, and those with the correction."""

    service: Service
    tokens: list[str]
    lattice: Batch
    given: dict[str, list[str]]
    rules: RuleText
    at: range
    label: str
    now: Decoding
    wanted: Decoding

    def decode(self, rules: Sequence[Rule]) -> Decoding:
        """Label the sequence under some rules."""
        return _decode(self.service, rules, self.lattice, self.given)

    @property
    def old(self) -> str:
        """The type that most of the wrong tokens have now."""
        names = Counter(name_of(self.service, int(self.now.ids[t])) for t in self.at)
        return names.most_common(1)[0][0]

    def is_repaired(self, decoding: Decoding) -> bool:
        """Return whether the tokens have the label."""
        names = self.service.labels.matching(self.label)
        return bool(len(decoding)) and not decoding.relaxed and all(int(decoding.ids[t]) in names for t in self.at)


def name_of(service: Service, y: int) -> str:
    """Return how rules name a label: its type, or itself outside of segments."""
    labels = service.labels
    return labels.type_of[y] or labels.names[y]


def suggest_rules(service: Service, request: SuggestRequest, rules: RuleText, gold: GoldData | None) -> SuggestAnswer:
    """Suggest rules that repair a label, the best first."""
    correction = _read(service, request, rules)
    if correction.is_repaired(correction.now):
        return SuggestAnswer([], correction.wanted.labels, "The rules find this label already.")
    repairing = list[tuple[_Candidate, Decoding]]()
    for candidate in _candidates(correction, gold):
        check_stopped()
        try:
            decoding = correction.decode([*rules.rules, candidate.rule])
        except BridleError:  # a pattern that RE2 does not take, for example
            continue
        if correction.is_repaired(decoding):
            repairing.append((candidate, decoding))
    if not repairing:
        message = "No single rule repairs this without breaking another one. Switch off the rule that forces the label."
        return SuggestAnswer([], correction.wanted.labels, message)
    suggestions = _measure(correction, repairing, gold)
    chosen, kinds = list[Suggestion](), Counter[str]()
    for kind, suggestion in sorted(suggestions, key=lambda pair: _rank(pair[1])):
        gain = None if suggestion.effect is None else suggestion.effect.gain
        is_harmful = gain is not None and gain.gain < 0
        if kinds[kind] < _MOST_OF_A_KIND and len(chosen) < (_FEW if is_harmful else _MOST):
            kinds[kind] += 1
            chosen.append(suggestion)
    return SuggestAnswer(chosen, correction.wanted.labels, "")


def _rank(suggestion: Suggestion) -> tuple[int, int, int]:
    """Sort by the tokens that become right less those that become wrong, then by what else changes, then by length."""
    effect = suggestion.effect or RuleEffect(None, None, None, None, [])
    return (effect.wrong or 0) - (effect.right or 0), len(effect.changed), len(suggestion.rule)


def _decode(service: Service, rules: Sequence[Rule], lattice: Batch, given: dict[str, list[str]]) -> Decoding:
    decoder = Decoder(service.labels, rules, on_infeasible="relax", **service.limits.of_trial)
    return decoder.decode_batch(lattice, [given], threads=1)[0]


def _read(service: Service, request: SuggestRequest, rules: RuleText) -> _Correction:
    columns = dict(request.columns)
    service.check_sequence(columns)
    tokens = list(columns[service.main])
    service.limits.check_explained(tokens)
    start, end = request.at
    if not 0 <= start < end <= len(tokens):
        possible = f"two positions from 0 to {len(tokens)}, the end after the last token"
        raise HttpError(422, "at", "there are no such tokens", got=f"{start} to {end}", wanted=possible)
    service.labels.matching(request.label)  # raises if there is no such label
    lattice = service.tagger.lattices([columns])
    given = {**columns, "tokens": tokens}
    at = range(start, end)
    now = _decode(service, rules.rules, lattice, given)
    wanted = _decode(service, [*rules.rules, r.fix(request.label, at=list(at))], lattice, given)
    return _Correction(service, tokens, lattice, given, rules, at, request.label, now, wanted)


# ---- candidates -----------------------------------------------------------------------------------------------------


def _candidates(correction: _Correction, gold: GoldData | None) -> list[_Candidate]:
    """Return candidates that are new; those that the learner supports come after the specific ones."""
    known = {str(hard_part(rule)) for rule in correction.rules.rules}
    proposed = [*_of_tokens(correction, gold), *_of_labels(correction), *_of_learner(correction, gold)]
    candidates = list[_Candidate]()
    for candidate in proposed:
        if (text := str(candidate.rule)) not in known and not is_backtracking(candidate.rule):
            known.add(text)
            candidates.append(candidate)
    return candidates[:_MOST_TRIED]


def _of_tokens(correction: _Correction, gold: GoldData | None) -> Iterator[_Candidate]:
    """Propose rules about the texts of the tokens and of their neighbours, their look, other columns, and phrases."""
    tokens, at, label = correction.tokens, correction.at, correction.label
    texts = [tokens[t] for t in at]
    phrase = " ".join(texts)
    before = tokens[at.start - 1] if at.start else None
    after = tokens[at.stop] if at.stop < len(tokens) else None
    neighbours = [(side, text) for side, text in (("after", before), ("before", after)) if text is not None]
    if len(texts) == 1:
        exact = re.escape(texts[0])
        yield _Candidate(r.fix(label, r.tokens(exact)), "this text", f"“{phrase}” is {label}")
        for side, text in neighbours:
            reason = f"“{phrase}” {side} “{text}” is {label}"
            yield _Candidate(r.fix(label, _near(exact, side, text)), "this text there", reason)
    else:
        yield _Candidate(r.fix(label, r.tokens(phrases=[phrase])), "this text", f"“{phrase}” is {label}")
    for name, pattern in TOKEN_CLASSES.items():
        if not all(re.fullmatch(pattern, text) for text in texts):
            continue
        reason = f"tokens that look like this ({name}) are {label}"
        yield _Candidate(r.fix(label, r.tokens(pattern)), "look", reason)
        reason = f"tokens that look like this ({name}) are never {correction.old}"
        yield _Candidate(r.forbid(correction.old, at=r.tokens(pattern)), "look", reason)
        for side, text in neighbours if len(texts) == 1 else ():
            reason = f"tokens that look like this ({name}) {side} “{text}” are {label}"
            yield _Candidate(r.fix(label, _near(pattern, side, text)), "look there", reason)
    for column, values in correction.given.items():
        everywhere = gold is None or gold.given is None or all(column in given for given in gold.given)
        if column in (correction.service.main, "tokens") or not everywhere or len({values[t] for t in at}) > 1:
            continue
        value = values[at.start]
        exact, whose = re.escape(value), f"tokens whose {column} is “{value}”"
        yield _Candidate(r.fix(label, r.tokens(exact, column=column)), column, f"{whose} are {label}")
        for side, text in neighbours if len(texts) == 1 else ():
            place = _near(exact, side, text, column)
            yield _Candidate(r.fix(label, place), f"{column} there", f"{whose} {side} “{text}” are {label}")
    if gold is not None and (phrases := _phrases_of(correction, gold)):
        reason = f"{len(phrases)} phrases that the gold labels have as {label} only"
        yield _Candidate(r.fix(label, r.tokens(phrases=phrases)), "list", reason)


def _near(pattern: str, side: str, text: str, column: str | None = None) -> Any:
    """Return the condition that a token, or its value in a column, matches and has this text after or before it."""
    there = Tokens(re.escape(text))
    after, before = (there, None) if side == "after" else (None, there)
    return r.tokens(pattern, column=column, after=after, before=before)


def _phrases_of(correction: _Correction, gold: GoldData) -> list[str]:
    """Return words that gold labels have as this label only, and the corrected one: a list for a rule."""
    if gold.counts is None or gold.given is None or len(correction.at) > 1:
        return []
    names = gold.counts.names
    wanted = {
        names.index(correction.service.labels.names[y]) for y in correction.service.labels.matching(correction.label)
    }
    times: Counter[str] = Counter()
    elsewhere = set[str]()
    texts = (text for values in gold.given for text in values["tokens"])
    for text, y in zip(texts, gold.counts.ids.tolist(), strict=True):
        if y in wanted:
            times[text] += 1
        elif y >= 0:
            elsewhere.add(text)
    own = correction.tokens[correction.at.start]
    if own in elsewhere or not any(map(str.isalpha, own)):
        return []
    often = [text for text, n in times.most_common() if n > 1 and text not in elsewhere and any(map(str.isalpha, text))]
    phrases = list(dict.fromkeys([own, *often]))[:_MOST_PHRASES]
    return phrases if len(phrases) >= _LEAST_PHRASES else []


def _of_labels(correction: _Correction) -> Iterator[_Candidate]:
    """Propose rules about order and number that the labels break now, and not with the correction."""
    labels, label, old = correction.service.labels, correction.label, correction.old
    outside = labels.all_outside
    types = [name_of(correction.service, int(y)) for y in correction.wanted.ids]
    kinds = [name for name in dict.fromkeys(types) if name not in outside]
    proposed: list[tuple[Rule, str]] = []
    if label not in outside:
        proposed += [
            (r.present(label), f"there is always {label}"),
            (r.no_duplicates([label]), f"{label} in one piece"),
        ]
    if old and old not in outside:
        proposed.append((r.no_duplicates([old]), f"{old} is in one piece"))
    if correction.at.start == 0:
        proposed.append((r.starts_with(label), f"the first label is {label}"))
    if correction.at.stop == len(correction.tokens):
        proposed.append((r.ends_with(label), f"the last label is {label}"))
    for other in kinds:
        if label not in outside and other != label:
            proposed += [
                (r.before(label, other), f"{label} comes before {other}"),
                (r.before(other, label), f"{other} comes before {label}"),
            ]
    now = [name_of(correction.service, int(y)) for y in correction.now.ids]
    for a, b in dict.fromkeys((a, b) for a, b in pairwise(now) if a != b):
        proposed.append((r.forbid_transition(a, b), f"no {b} directly after {a}"))
    for rule, reason in proposed:
        try:
            breaks_now = rule.violations(correction.now.ids.tolist(), labels, correction.given) > 0
            breaks_then = rule.violations(correction.wanted.ids.tolist(), labels, correction.given) > 0
        except BridleError:
            continue
        if breaks_now and not breaks_then:
            yield _Candidate(rule, "order", reason)


def _of_learner(correction: _Correction, gold: GoldData | None) -> list[_Candidate]:
    """Return candidates of the learner that gold labels support, and that the correction speaks for."""
    counted = None if gold is None else gold.counted
    if counted is None:
        return []
    n, labels = len(correction.tokens), correction.service.labels
    ids = np.concatenate([correction.now.ids, correction.wanted.ids]).astype(np.int64)
    both = Counted(labels, ids, np.array([0, n, 2 * n], dtype=np.int64), [*correction.tokens, *correction.tokens])
    limits = Limits(1 - _EXCEPTIONS, max(2, len(counted) // 100))
    supported = list[tuple[float, _Candidate]]()
    for name, propose in KINDS.items():
        check_stopped()
        for candidate in propose(counted, limits):
            if candidate.broken(both).tolist() != [True, False]:
                continue
            support, exceptions = int(candidate.applies.sum()), int(candidate.broken(counted).sum())
            if support >= limits.support and exceptions <= _EXCEPTIONS * support:
                reason = f"gold obeys it in {support - exceptions} of {support} sequences"
                supported.append((candidate.log_tail, _Candidate(candidate.rule, f"learner: {name}", reason)))
    return [candidate for _, candidate in sorted(supported, key=lambda pair: pair[0])]


# ---- effects --------------------------------------------------------------------------------------------------------


def _measure(
    correction: _Correction, repairing: Sequence[tuple[_Candidate, Decoding]], gold: GoldData | None
) -> list[tuple[str, Suggestion]]:
    """Measure candidates on the data, hard and, if gold breaks them, soft; the better of both stays."""
    additions = None if gold is None else Additions(gold, correction.rules.rules, **correction.service.limits.of_trial)
    suggestions = list[tuple[str, Suggestion]]()
    for candidate, decoding in repairing[:_MOST_MEASURED]:
        price = max(0.0, float(correction.now.score - decoding.score))
        variants = [candidate.rule]
        if additions is None or additions.gold_breaks(candidate.rule):
            soft = candidate.rule.soft(max(0.1, round(_MARGIN * price + 0.05, 1)))
            if correction.is_repaired(correction.decode([*correction.rules.rules, soft])):
                variants.append(soft)
        measured = [_suggestion(candidate, rule, price, additions) for rule in variants]
        suggestions.append((candidate.kind, min(measured, key=_rank)))
    return suggestions


def _suggestion(candidate: _Candidate, rule: Rule, price: float, additions: Additions | None) -> Suggestion:
    check_stopped()
    return Suggestion(str(rule), candidate.reason, price, None if additions is None else additions.effect(rule))
