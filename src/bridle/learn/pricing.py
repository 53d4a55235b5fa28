"""Which rules to keep, and at what price: penalties learned jointly, then tested one by one.

    prices        the most likely ones with an L1 term (prices.py); what is best under them joins the candidates
    paired test   per sequence, how much less likely gold is without the rule; of the rules that stay, a share of at
                  most `significance` is expected to be chance (Benjamini & Hochberg, over all candidates)
    harm          the exact decoder, with and without the rule: one that makes significantly more sequences worse than
                  better goes, however likely it makes gold

Rules are removed one at a time, and the others are priced again: of rules that say the same, one remains.

The test uses likelihood because labels show too little: a rule that shifts the odds in a hundred sequences may
change the best labels of three of them. Tested by labels alone, hardly any rule passed, and the gains were lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.learn.chance import believed, log_binomial
from bridle.learn.compare import log_tail
from bridle.learn.kbest import Candidates
from bridle.learn.prices import Prices, fit, worth
from bridle.learn.scored import Scored
from bridle.learn.weights import priced
from bridle.rules.base import Rule, Soft

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
_ROUNDS = 5
_FEW = 0.002  # new candidates per sequence below which another round changes nothing
_HARM = math.log(0.05)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one rule does among all.

    Attributes
    ----------
    p : float or None
        Probability that gold is so much more likely with the rule by chance; None if that was not tested.
    gain : float
        Mean difference in the quality of a sequence that the rule makes.
    better, worse : int
        Sequences whose labels are better with it, and worse.
    """

    p: float | None
    gain: float
    better: int
    worse: int


class Pricing:
    """Rules under way to their prices."""

    def __init__(self, scored: Scored, rules: Sequence[Rule], *, l1: float, significance: float) -> None:
        self.scored, self.rules, self.l1, self._significance = scored, list(rules), l1, significance
        self.dropped: Counter[str] = Counter()
        given = scored.asked_by(self.rules)
        self.candidates = Candidates(
            scored.labels, scored.lattices, scored.gold_of(), rules, given, threads=scored.threads
        )

    def at(self, l1: float) -> Pricing:
        """The same rules and candidates under another L1 term."""
        made = copy(self)
        made.l1, made.dropped = l1, Counter()
        return made

    def soft(self, prices: Prices) -> list[Soft]:
        """The rules that cost something, with their penalties."""
        return [priced(self.rules[r], float(prices.penalties[r])) for r in prices.kept]

    def learn(self) -> Prices:
        """The most likely prices."""
        prices = Prices.none(self.candidates.n_rules)
        for _ in range(_ROUNDS):
            prices = fit(self.candidates, l1=self.l1, start=prices)
            ids, offsets = self.scored.decode(self.soft(prices)), self.scored.offsets
            found = ((b, ids[offsets[b] : offsets[b + 1]]) for b in range(len(self.scored)))
            if self.candidates.add(found) <= _FEW * len(self.scored):
                break
        return prices

    def significant(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Without the rules that fail the paired test. use (B,): the sequences to learn from."""
        here = np.ones(len(self.scored), dtype=bool) if use is None else use
        while prices.kept:
            tails = self.tails(prices, here)
            worst = max(tails, key=lambda r: tails[r])
            others = [0.0] * (len(self.rules) - len(tails))  # rules that are out already
            if all(believed([*tails.values(), *others], self._significance)[: len(tails)]):
                break
            prices = self._without(worst, prices, use)
        return prices

    def harmless(self, prices: Prices, use: Bools | None = None) -> Prices:
        """Without rules that do more harm than good to labels. use (B,): the sequences to look at."""
        while True:
            effects = self.effects(prices, use)
            bad = {r: log_binomial(e.worse, e.better + e.worse, 0.5) for r, e in effects.items() if e.worse > e.better}
            worst = min(bad, key=lambda r: bad[r]) if bad else None
            if worst is None or bad[worst] > _HARM:
                return prices
            self.dropped["make more sequences worse than better"] += 1
            prices = self._without(worst, prices, use)

    def relearn(self, prices: Prices, use: Bools) -> Prices:
        """All candidates once more, priced and tested on some of the sequences only. prices: where to begin."""
        own = self.at(self.l1)  # with a count of its own of what is dropped
        share = float(use.mean())
        tested = own.significant(fit(self.candidates, l1=self.l1 * share, start=prices, use=use), use)
        return own.harmless(tested, use)

    def tails(self, prices: Prices, use: Bools) -> dict[int, float]:
        """For each rule that costs something: log of the probability that it helps gold so much by chance."""
        return {r: log_tail(d[use]) for r, d in worth(self.candidates, prices).items()}

    def effects(self, prices: Prices, use: Bools | None = None) -> dict[int, Effect]:
        """What each rule does to labels, by decoding with all and with all but it."""
        here = np.ones(len(self.scored), dtype=bool) if use is None else use
        tails = self.tails(prices, here)
        best = self.scored.quality(self.soft(prices), here)
        found = {}
        for r in prices.kept:
            d = best - self.scored.quality(self.soft(prices.without(r)), here)
            found[r] = Effect(math.exp(tails[r]), float(d.mean()), int((d > 0).sum()), int((d < 0).sum()))
        return found

    def _without(self, r: int, prices: Prices, use: Bools | None) -> Prices:
        """The prices without one of the rules."""
        stay = prices.w > 0
        stay[r] = False
        l1 = self.l1 if use is None else self.l1 * float(use.mean())
        return fit(self.candidates, l1=l1, start=prices, use=use, rules=stay)
