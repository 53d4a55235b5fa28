"""Rules about documents, found and priced on documents that the model has not seen.

What a rule says of gold is taken apart into cases (g): for agreement the groups of equal tokens, for all other rules
whole documents. Without rules, p[g](v) is the probability that case g has v violations:

    agreement      by the marginals q[t] of the tokens of the group, as if these did not depend on each other:
                   p(v) = sum over kinds c[1] .. c[k] with v changes of  q[1](c[1]) .. q[k](c[k])
    other rules    by labellings that are drawn from the model

    minimise  sum over g of  w gold[g] + log sum over v of p[g](v) exp(-w v)   +  l1 w       subject to  w >= 0

The problem is convex with one variable. A rule stays if it makes gold significantly more likely, document by document,
and if held-out documents are labelled better with it. One multiple of all prices is chosen by decoding, too: tokens of
a text share their errors, so that the likeliest price of agreement is often too high, and never too low.
    B sequences (b)    D documents (d)    G cases (g)    R rules (r)    N tokens
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bridle import rules as r
from bridle.decoding.decoder import Decoder
from bridle.labels import Bools
from bridle.learn.candidates import KINDS, Candidate, Limits
from bridle.learn.competitors import scaled
from bridle.learn.counted import Counted, Ints
from bridle.learn.evidence import Given, Ids, Learned, agreement_over_document, counter, priced
from bridle.learn.judged import STATES, Judged
from bridle.learn.pricing import Effect, effect_of
from bridle.report.sequences import SequenceScores
from bridle.report.significance import Comparison, Floats, benjamini_hochberg, log_binomial, log_tail
from bridle.rules.base import Rule, Soft
from bridle.rules.conditions import Tokens
from bridle.rules.documents import (
    JoinedSentences,
    broken_labels,
    count_in_document,
    groups_of_document,
    joined_rule,
)
from bridle.rules.equal import SameLabelForEqual

AGREEMENT = "agreement"
ACROSS = ("precedence", "presence", "count", "implication", "exclusion")  # kinds that documents can have, too
_TOKENS = ("[A-Z].*", r".*\d.*", "[a-z].*")  # whose labels may agree
_MULTIPLES = (1.0, 0.5, 0.25)  # of the likeliest prices
_DRAWS = 100  # labellings of each document
_DEAREST = 30.0  # weight
_STEPS = 50  # of the search for a weight


# ---- candidates ------------------------------------------------------------------------------------------------------


def mine_agreement(
    data: Counted, documents: npt.NDArray[np.int64], limits: Limits, significance: float
) -> list[Learned]:
    """Find tokens whose labels agree in documents more often than by chance.

    documents (D + 1,): the first sequence of each, and the number of all. limits: documents with such tokens, and the
    share of the pairs that must agree. A pair is a token and the next one with the same text; by chance it agrees as
    often as any two such tokens.
    """
    assert data.tokens is not None
    kinds = np.array(data.labels.kinds)[data.ids]
    candidates, tails = list[Learned](), list[float]()
    for pattern in _TOKENS:
        rule = r.in_document(r.same_label_for_equal(Tokens(pattern)))
        here = data.matching(pattern)
        shares = np.bincount(kinds[here]) / max(int(here.sum()), 1)
        pairs = held = applies = 0
        for low, high in pairwise(data.offsets[documents].tolist()):
            last, before = dict[str, int](), pairs
            for t in (low + np.flatnonzero(here[low:high])).tolist():
                kind = int(kinds[t])
                if (other := last.get(data.tokens[t])) is not None:
                    pairs, held = pairs + 1, held + (other == kind)
                last[data.tokens[t]] = kind
            applies += pairs > before
        if applies >= limits.support and held >= limits.confidence * pairs:
            candidates.append(Learned(rule, AGREEMENT, held, pairs, pairs, "pairs of equal tokens"))
            tails.append(log_binomial(held, pairs, float(shares @ shares)))
    sure = benjamini_hochberg(tails, significance)
    return [learned for learned, trust in zip(candidates, sure, strict=True) if trust]


def joined_labels(data: Counted, documents: npt.NDArray[np.int64]) -> Counted:
    """Join the sequences of each document to one sequence, with a break between two of them."""
    labels = broken_labels(data.labels)
    parts, sizes = list[Ints](), list[int]()
    for low, high in pairwise(documents.tolist()):
        pieces = [part for b in range(low, high) for part in (np.array([len(data.labels)]), data.sequence(b))][1:]
        parts += pieces
        sizes.append(sum(map(len, pieces)))
    ids = np.concatenate([np.zeros(0, np.int64), *parts])
    return Counted(labels, ids, np.cumsum([0, *sizes]).astype(np.int64))


def across(data: Counted, kinds: Sequence[str], limits: Limits) -> Iterator[Candidate]:
    """Propose rules about joined documents."""
    outside = {y for y, tag in enumerate(data.labels.tag_of) if tag == ""} | {len(data.labels) - 1}
    for kind in kinds:
        for candidate in KINDS[kind](data, limits):
            named = (names.resolve(data.labels, {}) for names in candidate.rule.names())
            if not any(outside & ids for sets in named for ids in sets):
                yield candidate


# ---- documents with scores -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """The cases of one rule."""

    log_p: Floats  # (G, V)  log of the probability of v violations, without rules
    gold: Ints  # (G,)  violations of gold
    document: Ints  # (G,)

    def losses(self, w: float) -> Floats:
        """(G,): -log of the probability of gold, up to what the weight does not change."""
        log_z: Floats = np.logaddexp.reduce(self.log_p - w * np.arange(self.log_p.shape[1]), axis=1)
        return w * self.gold + log_z

    def gains(self, w: float, count: int) -> Floats:
        """(D,): how much more likely the gold labels of each document are with this weight."""
        return np.bincount(self.document, self.losses(0.0) - self.losses(w), count).astype(np.float64)

    def weight(self, l1: float, use: Bools | None = None) -> float:
        """Return the likeliest weight. use (D,): documents to learn from."""
        chosen = slice(None) if use is None else use[self.document]
        log_p, gold = self.log_p[chosen], self.gold[chosen]
        violations = np.arange(log_p.shape[1])

        def slope(w: float) -> float:
            log = log_p - w * violations
            p = np.exp(log - np.logaddexp.reduce(log, axis=1)[:, None])
            return float((gold - p @ violations).sum()) + l1

        if not len(gold) or slope(0.0) >= 0:
            return 0.0
        low, high = 0.0, _DEAREST
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if slope(middle) >= 0 else (middle, high)
        return low


class Documents:
    """Judged sequences as documents."""

    def __init__(self, judged: Judged, rules: Sequence[Rule]) -> None:
        assert judged.documents is not None
        self.judged, self.cuts = judged, judged.documents
        self.given = judged.given_for(rules)
        self.fold: Ints = judged.fold[self.cuts[:-1]]  # (D,)
        self._lattices = [judged.scores.lattices[b] for b in range(len(judged))]

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def sequences(self, use: Bools) -> Bools:
        """(B,): the sequences of some documents."""
        return np.repeat(use, np.diff(self.cuts))

    def given_of(self, d: int) -> list[Given]:
        """Return what comes with the sequences of a document."""
        low, high = self.cuts[d : d + 2].tolist()
        return [{}] * (high - low) if self.given is None else list(self.given[low:high])

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode(self, rules: Sequence[Rule], use: Bools | None = None) -> Ids:
        """(N,): the best labels of all documents, or of those that are used, under rules."""
        judged = self.judged
        use = np.ones(len(self), dtype=bool) if use is None else use
        if not rules:
            return judged.decode([], None, use=self.sequences(use))
        chosen = np.flatnonzero(use).tolist()
        decoder = Decoder(judged.labels, rules, on_infeasible="relax", max_states=STATES)
        lattices = [self._lattices[slice(*self.cuts[d : d + 2].tolist())] for d in chosen]
        given = None if self.given is None else [self.given_of(d) for d in chosen]
        decodings = decoder.decode_documents(lattices, given, judged.threads)
        parts = [ids for decoding in decodings for ids in decoding.ids]
        return np.concatenate([np.zeros(0, np.int32), *parts])

    def judge(self, ids: Ids, use: Bools | None = None) -> SequenceScores:
        """Compare labels with gold, sequence by sequence."""
        return self.judged.judge(ids, None if use is None else self.sequences(use))

    def quality(self, scores: SequenceScores, use: Bools | None = None) -> Floats:
        """(D,): the quality of each document: that of its sequences, so that the mean is the mean of all sequences."""
        return self._shares(scores.quality, use)

    def _shares(self, values: npt.ArrayLike, use: Bools | None = None) -> Floats:
        sizes = np.diff(self.cuts) if use is None else np.diff(self.cuts)[use]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        sums: Floats = np.bincount(owner, np.asarray(values, dtype=np.float64), len(sizes)).astype(np.float64)
        return sums * (len(sizes) / max(int(sizes.sum()), 1))

    def compare(self, before: SequenceScores, after: SequenceScores) -> dict[str, Comparison]:
        """Compare two labellings of all sequences, document by document."""
        return {
            "exact": Comparison.of(self._shares(before.exact), self._shares(after.exact)),
            "quality": Comparison.of(self.quality(before), self.quality(after)),
        }

    def broken(self, rules: Sequence[Rule], ids: Ids) -> Bools:
        """(D, R): do labels of all sequences break the rules?"""
        split, labels = self.judged.split(ids), self.judged.labels
        broken = np.zeros((len(self), len(rules)), dtype=bool)
        for d, (low, high) in enumerate(pairwise(self.cuts.tolist())):
            its, given = [ids.tolist() for ids in split[low:high]], self.given_of(d)
            broken[d] = [count_in_document(rule, its, labels, given) > 0 for rule in rules]
        return broken

    # ---- chances without rules ---------------------------------------------------------------------------------------

    def cases(self, rules: Sequence[Rule], scale: float) -> list[Cases]:
        """Take rules about documents apart. scale: of the scores."""
        others = [rule for rule in rules if agreement_over_document(rule) is None]
        of_others = iter(self._drawn_cases(others, scale) if others else ())
        result = []
        for rule in rules:
            agreement = agreement_over_document(rule)
            if agreement is None:
                result.append(next(of_others))
            else:
                once = isinstance(rule, Soft) and rule.per == "sequence"  # a hard rule becomes one per violation
                result.append(self._agreement_cases(agreement, self._kinds(scale), once))
        return result

    def _kinds(self, scale: float) -> Floats:
        """(N, K): the probability of each kind of label for each token."""
        if scale not in self._known_kinds:
            labels = self.judged.labels
            rows = Decoder(labels).marginals_batch(scaled(self._lattices, scale), threads=self.judged.threads)
            kinds = np.zeros((len(self.judged.gold), max(labels.kinds) + 1))
            np.add.at(kinds.T, np.array(labels.kinds), np.concatenate(rows).T)
            self._known_kinds[scale] = kinds
        return self._known_kinds[scale]

    @cached_property
    def _known_kinds(self) -> dict[float, Floats]:
        return {}

    def _agreement_cases(self, rule: SameLabelForEqual, kinds: Floats, once: bool) -> Cases:
        gold = np.array(self.judged.labels.kinds)[self.judged.gold]
        rows, broken, document = list[Floats](), list[int](), list[int]()
        sizes = np.diff(self.judged.offsets)
        for d, (low, high) in enumerate(pairwise(self.cuts.tolist())):
            groups = groups_of_document(rule, self.given_of(d), sizes[low:high].tolist())
            at = np.argsort(groups, kind="stable")
            at = at[np.searchsorted(groups[at], 0) :]
            members = np.split(at, np.flatnonzero(np.diff(groups[at])) + 1) if len(at) else []
            mine, wrong = list[Floats](), list[int]()
            for tokens in members:
                tokens = tokens + self.judged.offsets[low]
                mine.append(_changes(kinds[tokens]))
                wrong.append(int((np.diff(gold[tokens]) != 0).sum()))
            if once and mine:
                obeys = float(np.prod([p[0] for p in mine]))
                mine, wrong = [np.array([obeys, 1 - obeys])], [int(any(wrong))]
            rows, broken, document = rows + mine, broken + wrong, document + [d] * len(mine)
        return _cases(rows, broken, document)

    def _drawn_cases(self, rules: Sequence[Rule], scale: float) -> list[Cases]:
        judged, labels = self.judged, self.judged.labels
        once = np.array([not isinstance(rule, Soft) or rule.per == "sequence" for rule in rules])
        count = counter([joined_rule(rule) for rule in rules], broken_labels(labels), threads=judged.threads)
        drawn = Decoder(labels).sample(scaled(self._lattices, scale), _DRAWS, threads=judged.threads)
        gold, sizes, at_break = judged.split(judged.gold), np.diff(judged.offsets), len(labels)
        violations = []  # (1 + draws, R) of each document, gold first
        for d, (low, high) in enumerate(pairwise(self.cuts.tolist())):
            joined = JoinedSentences.of(sizes[low:high].tolist(), self.given_of(d))
            paths = np.full((1 + _DRAWS, joined.size), at_break, dtype=np.int32)
            for b, start in zip(range(low, high), joined.starts, strict=True):
                paths[0, start : start + sizes[b]] = gold[b]
                paths[1:, start : start + sizes[b]] = drawn[b]
            offsets = np.arange(len(paths) + 1, dtype=np.int64) * joined.size
            counts = count(paths.reshape(-1), offsets, [joined.given] * len(paths))
            violations.append(np.where(once, np.minimum(counts, 1), counts))
        every = np.array(violations)  # (D, 1 + draws, R)
        cases = []
        for k in range(len(rules)):
            rows = [np.bincount(row[1:]) / _DRAWS for row in every[:, :, k]]
            cases.append(_cases(rows, every[:, 0, k].tolist(), list(range(len(self)))))
        return cases


def _changes(p: Floats) -> Floats:
    """Return the probability of each number of changes of kind. p (k, K): of the kinds of each token."""
    chances = np.zeros((len(p), p.shape[1]))  # of a number of changes, the last token being of a kind
    chances[0] = p[0]
    for here in p[1:]:
        changed = (chances.sum(axis=1, keepdims=True) - chances) * here
        chances *= here
        chances[1:] += changed[:-1]
    total: Floats = chances.sum(axis=1)
    return total


def _cases(rows: Sequence[Floats], gold: Sequence[int], document: Sequence[int]) -> Cases:
    width = max([1, *map(len, rows)])
    log_p = np.full((len(rows), width), -np.inf)
    with np.errstate(divide="ignore"):
        for row, p in zip(log_p, rows, strict=True):
            row[: len(p)] = np.log(p)
    return Cases(log_p, np.asarray(gold, dtype=np.int64), np.asarray(document, dtype=np.int64))


# ---- prices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class DocumentFit:
    """Rules about documents that passed all tests."""

    kept: dict[int, tuple[Soft, Effect]]  # by number
    held_out: SequenceScores  # under these rules and those about sentences, each fold priced on the others
    multiple: float
    dropped: Counter[str]


def fit_documents(
    documents: Documents,
    rules: Sequence[Rule],
    sentences: Mapping[int, Sequence[Rule]] | None,
    *,
    scale: float,
    l1: float,
    significance: float,
) -> DocumentFit:
    """Price rules about documents. sentences: of each fold, rules about sentences that are priced without it."""
    say = documents.judged.say
    say(f"pricing {len(rules)} rules about {len(documents):,} documents")
    cases, D, dropped = documents.cases(rules, scale), len(documents), Counter[str]()
    weights = [case.weight(l1) for case in cases]
    tails = [log_tail(case.gains(w, D)) if w > 0 else 0.0 for case, w in zip(cases, weights, strict=True)]
    sure = benjamini_hochberg(tails, significance)
    kept = [k for k, trust in enumerate(sure) if trust and weights[k] > 0]
    dropped["add nothing to the model"] = sum(w == 0 for w in weights)
    dropped["may be due to chance"] = len(rules) - len(kept) - dropped["add nothing to the model"]
    folds = np.unique(documents.fold).tolist()
    of_fold = {}
    for fold in folds:
        use = documents.fold != fold
        of_fold[fold] = {k: cases[k].weight(l1 * float(use.mean()), use) for k in kept}

    def held_out(chosen: Sequence[int], multiple: float) -> SequenceScores:
        ids = np.empty(len(documents.judged.gold), dtype=np.int32)
        for fold in folds:
            held = documents.fold == fold
            soft = [priced(rules[k], multiple * of_fold[fold][k] / scale) for k in chosen if of_fold[fold][k] > 0]
            where = np.repeat(documents.sequences(held), np.diff(documents.judged.offsets))
            ids[where] = documents.decode([*(sentences or {}).get(fold, ()), *soft], held)
        return documents.judge(ids)

    multiple, best = 1.0, held_out(kept, 1.0)
    for other in _MULTIPLES[1:] if kept else ():
        say(f"{other:g} times all prices, on held-out documents")
        scores = held_out(kept, other)
        if scores.quality.mean() > best.quality.mean():
            multiple, best = other, scores
    effects: dict[int, Effect] = {}
    while kept:
        say(f"decoding without each of {len(kept)} rules")
        without = {k: held_out([other for other in kept if other != k], multiple) for k in kept}
        effects = {
            k: effect_of(documents.quality(best) - documents.quality(scores), math.exp(tails[k]))
            for k, scores in without.items()
        }
        worst = min(kept, key=lambda k: effects[k].gain)
        if effects[worst].gain > 0:
            break
        dropped["do not help on held-out documents"] += 1
        best = without[worst]
        kept.remove(worst)
    soft = {k: priced(rules[k], float(f"{multiple * weights[k] / scale:.3g}")) for k in kept}
    return DocumentFit({k: (soft[k], effects[k]) for k in kept}, best, multiple, dropped)
