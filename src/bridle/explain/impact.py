"""The impact of rules on a data set: how often each changed labels, at what cost, and whether labels got better.

    plain[b]  best without rules      all[b]  best with all rules      without[b][r]  best with all rules but r
    r changed b:  all[b] != without[b][r]       r helped b:  all[b] has more tokens right than without[b][r]

If plain[b] breaks no rule, all[b] and without[b][r] are plain[b], so only the other sequences are decoded again. Hard
rules that no labelling obeys are relaxed. Sequences that a limit left without labels are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.problem import check_given
from bridle.decoding.result import Decoding, Decodings
from bridle.errors import LabelError, RuleError
from bridle.explain.explanation import LEAST
from bridle.lattice import Lattices, subset
from bridle.rules.base import Rule, Soft

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

Given = Mapping[str, Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RuleImpact:
    """The impact of one rule among all others. Fields that need gold labels are None without them."""

    rule: Rule
    broken: int  # sequences whose labels without rules break it
    changed: int  # sequences whose labels are others because of it
    price: float  # how much the scores would rise without it, all sequences together
    unproved: int  # sequences that a limit stopped before their part of the price was proved
    charged: float  # what it took off the scores, if it is soft
    helped: int | None = None  # sequences with more tokens right because of it
    hurt: int | None = None  # ... with fewer
    tokens: int | None = None  # tokens that are right because of it, less those that are wrong because of it


@dataclass(frozen=True, slots=True)
class Change:
    """The impact of all rules together on one sequence."""

    sequence: int
    tokens: int  # whose label they changed
    cost: float
    gain: int | None = None  # tokens that are right because of them, less those that are wrong because of them


@dataclass(frozen=True, slots=True)
class Impact:
    """The impact of rules on a data set; the rules that changed most come first."""

    sequences: int
    tokens: int
    rules: tuple[RuleImpact, ...]
    changes: tuple[Change, ...]  # of sequences that the rules changed, in order
    relaxed: tuple[int, ...]  # sequences in which no labelling obeys the hard rules
    unproved: tuple[int, ...]  # ... whose labels a limit left without a proof
    unanswered: tuple[int, ...]  # ... which a limit left without labels: no other figure counts them
    right_plain: int | None = None  # tokens that are right without rules
    right: int | None = None  # ... and with them

    @property
    def helped(self) -> list[Change]:
        """Sequences that the rules made better, the most helped first."""
        return sorted((c for c in self.changes if c.gain and c.gain > 0), key=lambda c: (-(c.gain or 0), c.sequence))

    @property
    def hurt(self) -> list[Change]:
        """Sequences that the rules made worse, the worst first."""
        return sorted((c for c in self.changes if c.gain and c.gain < 0), key=lambda c: (c.gain or 0, c.sequence))

    @property
    def dearest(self) -> list[Change]:
        """Sequences that the rules changed, the most expensive first."""
        return sorted(self.changes, key=lambda c: (-c.cost, c.sequence))

    def to_dict(self, ids: Sequence[Any]) -> dict[str, Any]:
        """Convert to what JSON can hold. ids: the names of the sequences."""
        numbers = {"relaxed": self.relaxed, "unproved": self.unproved, "unanswered": self.unanswered}
        return {
            **_fields(self),
            **{name: [ids[b] for b in listed] for name, listed in numbers.items()},
            "rules": [{**_fields(rule), "rule": str(rule.rule)} for rule in self.rules],
            "changes": [{"id": ids[change.sequence], **_fields(change)} for change in self.changes],
        }


def _fields(value: Impact | RuleImpact | Change) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def impact(
    decoder: Decoder,
    lattices: Lattices,
    given: Sequence[Given] | None = None,
    *,
    gold: Sequence[Sequence[str]] | None = None,
    threads: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> Impact:
    """Measure what the decoder's rules did. watch: called with the number of rules that are done, and of all.

    >>> import bridle
    >>> decoder = bridle.Decoder(bridle.Labels(["A", "B"]), [bridle.rules.at_most(1, of="A")])
    >>> result = impact(decoder, [bridle.Lattice([[2, 0], [0, 2], [1, 0]])], gold=[["A", "B", "B"]])
    >>> result.rules[0].helped, result.right_plain, result.right
    (1, 2, 3)
    """
    check_given(given, len(lattices))
    rules = decoder.rules
    relaxing = decoder.with_rules(rules, on_infeasible="relax")
    counted = [(r.rule if isinstance(r, Soft) else r).soft(0.0, per="violation") for r in rules]  # not obeyed
    try:
        plain = decoder.with_rules(counted, engine="auto", on_infeasible="skip").decode_batch(lattices, given, threads)
    except RuleError:  # raise it for the rule as it was written
        relaxing.decode_batch(lattices, given, threads)
        raise
    truth = None if gold is None else _truth(decoder, plain, gold)

    def decode(decoder: Decoder, chosen: list[int]) -> list[Decoding | None]:
        """Decode the chosen sequences; None where there is no labelling, or none was found in time."""
        values = None if given is None else [given[b] for b in chosen]
        decodings = decoder.decode_batch(subset(lattices, np.array(chosen, dtype=np.intp)), values, threads)
        return [None if decoding.unanswered is not None else decoding for decoding in decodings]

    broken: npt.NDArray[np.bool_] = plain.violations > 0  # (B, R)
    suspects = np.flatnonzero(broken.any(axis=1)).tolist()
    best = dict(zip(suspects, decode(relaxing, suspects), strict=True))
    unanswered = tuple(sorted({b for b, d in best.items() if d is None}.union(plain.unanswered)))
    chosen = [b for b, d in best.items() if d is not None]
    after = _Labellings([d for d in best.values() if d is not None], chosen, truth)
    impacts = []
    for r, rule in enumerate(rules):
        without = decode(relaxing.with_rules(rules[:r] + rules[r + 1 :]), chosen)
        twins = sum(other is rule for other in rules)
        impacts.append(_impact_of(rule, int(broken[chosen, r].sum()), after, without, truth, twins))
        if watch is not None:
            watch(r + 1, len(rules))
    before = _Labellings([plain[b] for b in chosen], chosen, truth)
    changes = tuple(
        Change(b, int(moved), float(cost), None if truth is None else int(gain))
        for b, moved, cost, gain in zip(
            chosen, before.differ(after), before.scores - after.scores, after.right - before.right, strict=True
        )
        if moved
    )
    answered = sorted(set(range(len(plain))).difference(unanswered))
    right = None if truth is None else int(_Labellings([plain[b] for b in answered], answered, truth).right.sum())
    return Impact(
        len(answered),
        int(np.diff(plain.offsets)[answered].sum()),
        tuple(sorted(impacts, key=lambda rule: (-rule.changed, -rule.broken, -rule.price))),
        changes,
        tuple(b for b, d in zip(chosen, after.decodings, strict=True) if d.relaxed),
        tuple(b for b, d in zip(chosen, after.decodings, strict=True) if not d.optimal),
        unanswered,
        right,
        None if right is None else right + int((after.right - before.right).sum()),
    )


class _Labellings:
    """Labellings of some of the sequences, packed, and how many tokens of each are right (0 without gold)."""

    def __init__(self, decodings: Sequence[Decoding], chosen: Sequence[int], truth: list[Ints] | None) -> None:
        self.decodings, self.chosen = decodings, chosen
        self.scores = np.array([d.score for d in decodings], dtype=np.float64)
        empty = np.zeros(0, dtype=np.int64)
        self.ids = np.concatenate([empty, *(d.ids for d in decodings)])
        self.cuts = np.cumsum([0, *map(len, decodings)])
        self.right = np.zeros(len(decodings), dtype=np.int64)
        if truth is not None:
            self.right = self._sums(self.ids == np.concatenate([empty, *(truth[b] for b in chosen)]))

    def differ(self, other: _Labellings) -> Ints:
        """Count the tokens of each sequence that have another label."""
        return self._sums(self.ids != other.ids)

    def _sums(self, true: npt.NDArray[np.bool_]) -> Ints:
        sums = np.concatenate([[0], np.cumsum(true)])
        counts: Ints = sums[self.cuts[1:]] - sums[self.cuts[:-1]]
        return counts


def _impact_of(
    rule: Rule, broken: int, best: _Labellings, tried: Sequence[Decoding | None], truth: list[Ints] | None, twins: int
) -> RuleImpact:
    """Compare with the labellings without a rule. twins: copies of the rule, which violations do not distinguish."""
    pairs = list(zip(tried, best.decodings, strict=True))
    without = _Labellings([same if d is None else d for d, same in pairs], best.chosen, truth)
    price = np.maximum(without.scores - best.scores, 0.0)
    price[price <= LEAST] = 0.0
    unproved = sum(d is None or not (d.optimal and same.optimal) for d, same in pairs)
    charged = 0.0
    if isinstance(rule, Soft):
        charged = sum(rule.cost(times) for d in best.decodings for other, times in d.violated if other is rule) / twins
    figures: dict[str, int] = {}
    if truth is not None:
        gain = best.right - without.right
        figures = {"helped": int((gain > 0).sum()), "hurt": int((gain < 0).sum()), "tokens": int(gain.sum())}
    changed = int((best.differ(without) > 0).sum())
    return RuleImpact(rule, broken, changed, float(price.sum()), unproved, charged, **figures)


def _truth(decoder: Decoder, plain: Decodings, gold: Sequence[Sequence[str]]) -> list[Ints]:
    """Return gold as ids; -1 for labels that the decoder does not know, which are never right."""
    if list(map(len, gold)) != np.diff(plain.offsets).tolist():
        raise LabelError(
            "gold does not fit the lattices",
            got=f"{len(gold)} labellings",
            wanted=f"{len(plain)}, with a label per token",
            cause="Are both from the same input, in order?",
        )
    known = {name: y for y, name in enumerate(decoder.labels)}
    return [np.array([known.get(name, -1) for name in names], dtype=np.int64) for names in gold]
