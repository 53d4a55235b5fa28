"""What rules did to a data set: how often each changed labels, what that cost, and whether the labels got better.

    plain[b]  best without rules      all[b]  best with all rules      without[b][r]  best with all rules but r
    r changed b:  all[b] != without[b][r]       r helped b:  all[b] has more tokens right than without[b][r]

    B sequences (b)    R rules (r)

If plain[b] breaks no rule, all[b] and without[b][r] are plain[b], so only the other sequences are decoded again. Hard
rules that no labelling obeys are relaxed to the fewest violations. What a limit stopped before any labelling was found
is left out. The result reports both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """What one rule did among all others. Fields that need gold labels are None without them."""

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
    """What all rules together did to one sequence."""

    sequence: int
    tokens: int  # whose label they changed
    cost: float
    gain: int | None = None  # tokens that are right because of them, less those that are wrong because of them


@dataclass(frozen=True, slots=True)
class Impact:
    """What rules did to a data set; the rules that did most come first."""

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
        """For JSON; ids: what the sequences are called."""
        return {
            "sequences": self.sequences,
            "tokens": self.tokens,
            "right_plain": self.right_plain,
            "right": self.right,
            "relaxed": [ids[b] for b in self.relaxed],
            "unproved": [ids[b] for b in self.unproved],
            "unanswered": [ids[b] for b in self.unanswered],
            "rules": [
                {
                    "rule": str(t.rule),
                    "broken": t.broken,
                    "changed": t.changed,
                    "price": t.price,
                    "charged": t.charged,
                    "unproved": t.unproved,
                    "helped": t.helped,
                    "hurt": t.hurt,
                    "tokens": t.tokens,
                }
                for t in self.rules
            ],
            "changes": [
                {"id": ids[c.sequence], "sequence": c.sequence, "tokens": c.tokens, "cost": c.cost, "gain": c.gain}
                for c in self.changes
            ],
        }


def impact(
    decoder: Decoder,
    lattices: Lattices,
    given: Sequence[Given] | None = None,
    *,
    gold: Sequence[Sequence[str]] | None = None,
    threads: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> Impact:
    """Find out what the decoder's rules did. watch: called with how many rules are done, and how many there are.

    >>> import bridle
    >>> decoder = bridle.Decoder(bridle.Labels(["A", "B"]), [bridle.rules.at_most(1, of="A")])
    >>> found = impact(decoder, [bridle.Lattice([[2, 0], [0, 2], [1, 0]])], gold=[["A", "B", "B"]])
    >>> found.rules[0].helped, found.right_plain, found.right
    (1, 2, 3)
    """
    check_given(given, len(lattices))
    rules = decoder.rules
    relaxing = decoder.with_rules(rules, on_infeasible="relax")
    counted = [(r.rule if isinstance(r, Soft) else r).soft(0.0, per="violation") for r in rules]  # told, not obeyed
    try:
        telling = decoder.with_rules(counted, engine="auto", on_infeasible="skip")
        plain = telling.decode_batch(lattices, given, threads)
    except RuleError:  # is told of the rule as it was written
        relaxing.decode_batch(lattices, given, threads)
        raise
    truth = None if gold is None else _truth(decoder, plain, gold)
    broken = _broken(plain, counted)
    some = np.flatnonzero(broken.any(axis=1)).tolist()
    tried = _decoded(relaxing, lattices, given, some, threads)
    missing = {b for b, d in zip(some, tried, strict=True) if d is None}
    unanswered = tuple(sorted(missing.union(plain.unanswered)))
    some = [b for b, d in zip(some, tried, strict=True) if d is not None]
    here = _Part([d for d in tried if d is not None], some, truth)
    impacts = []
    for r, rule in enumerate(rules):
        found = _decoded(relaxing.with_rules(rules[:r] + rules[r + 1 :]), lattices, given, some, threads)
        twins = sum(other is rule for other in rules)
        impacts.append(_impact_of(rule, int(broken[some, r].sum()), here, found, truth, twins))
        if watch is not None:
            watch(r + 1, len(rules))
    before = _Part([plain[b] for b in some], some, truth)
    changes = tuple(
        Change(b, int(moved), float(cost), None if truth is None else int(gain))
        for b, moved, cost, gain in zip(
            some, before.differ(here), before.scores - here.scores, here.right - before.right, strict=True
        )
        if moved
    )
    counts = sorted(set(range(len(plain))).difference(unanswered))
    right = None if truth is None else int(_Part([plain[b] for b in counts], counts, truth).right.sum())
    return Impact(
        len(counts),
        int(np.diff(plain.offsets)[counts].sum()),
        tuple(sorted(impacts, key=lambda t: (-t.changed, -t.broken, -t.price))),
        changes,
        tuple(b for b, d in zip(some, here.found, strict=True) if d.relaxed),
        tuple(b for b, d in zip(some, here.found, strict=True) if not d.optimal),
        unanswered,
        right,
        None if right is None else right + int((here.right - before.right).sum()),
    )


def _decoded(
    decoder: Decoder,
    lattices: Lattices,
    given: Sequence[Given] | None,
    some: list[int],
    threads: int,
) -> list[Decoding | None]:
    """The best labellings of some sequences; None where there is none, or none was found in time."""
    theirs = None if given is None else [given[b] for b in some]
    found = decoder.decode_batch(subset(lattices, np.array(some, dtype=np.intp)), theirs, threads)
    return [None if one.unanswered is not None else one for one in found]


class _Part:
    """Labellings of some of the sequences, packed, and how many tokens of each are right (0 without gold)."""

    def __init__(self, found: Sequence[Decoding], some: Sequence[int], truth: list[Ints] | None) -> None:
        self.found, self.some, self.gold = found, some, truth is not None
        self.scores = np.array([d.score for d in found], dtype=np.float64)
        self.ids = np.concatenate([np.zeros(0, dtype=np.int64), *(d.ids for d in found)])
        self.cuts = np.cumsum([0, *(len(d) for d in found)])
        known = self.ids if truth is None else np.concatenate([np.zeros(0, dtype=np.int64), *(truth[b] for b in some)])
        self.right = self._sums(self.ids == known) if self.gold else np.zeros(len(found), dtype=np.int64)

    def differ(self, other: _Part) -> Ints:
        """How many tokens of each sequence have another label."""
        return self._sums(self.ids != other.ids)

    def _sums(self, true: npt.NDArray[np.bool_]) -> Ints:
        sums = np.concatenate([[0], np.cumsum(true)])
        counts: Ints = sums[self.cuts[1:]] - sums[self.cuts[:-1]]
        return counts


def _impact_of(
    rule: Rule, broken: int, best: _Part, tried: Sequence[Decoding | None], truth: list[Ints] | None, twins: int
) -> RuleImpact:
    """twins: how often the same rule occurs; violations do not distinguish these copies."""
    found = [own if d is None else d for d, own in zip(tried, best.found, strict=True)]
    without = _Part(found, best.some, truth)
    price = np.maximum(without.scores - best.scores, 0.0)
    price[price <= LEAST] = 0.0
    unproved = sum(d is None or not (d.optimal and own.optimal) for d, own in zip(tried, best.found, strict=True))
    charged = 0.0
    if isinstance(rule, Soft):
        charged = sum(rule.cost(times) for d in best.found for other, times in d.violated if other is rule) / twins
    figures: dict[str, int] = {}
    if best.gold:
        gain = best.right - without.right
        figures = {"helped": int((gain > 0).sum()), "hurt": int((gain < 0).sum()), "tokens": int(gain.sum())}
    changed = int((best.differ(without) > 0).sum())
    return RuleImpact(rule, broken, changed, float(price.sum()), unproved, charged, **figures)


def _broken(plain: Decodings, rules: Sequence[Rule]) -> npt.NDArray[np.bool_]:
    """(B, R): which rules each labelling breaks."""
    table = np.zeros((len(plain), len(rules)), dtype=bool)
    number = {id(rule): r for r, rule in enumerate(rules)}
    for b, d in enumerate(plain):
        table[b, [number[id(rule)] for rule, _ in d.violated]] = True
    return table


def _truth(decoder: Decoder, plain: Decodings, gold: Sequence[Sequence[str]]) -> list[Ints]:
    """Gold as ids; -1 for labels that the decoder does not know, which are never right."""
    if list(map(len, gold)) != np.diff(plain.offsets).tolist():
        raise LabelError(
            "gold does not fit the lattices",
            got=f"{len(gold)} labellings",
            wanted=f"{len(plain)}, with a label per token",
            cause="Are both from the same input, in order?",
        )
    known = {name: y for y, name in enumerate(decoder.labels)}
    return [np.array([known.get(name, -1) for name in one], dtype=np.int64) for one in gold]
