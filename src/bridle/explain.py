"""Why this labelling: what would have been best without the rules, which rules bit, and what each of them cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridle.decoding import Decoding
from bridle.lattice import Lattice
from bridle.rules.base import Rule

if TYPE_CHECKING:
    from bridle.decode import Decoder


@dataclass(frozen=True)
class Bite:
    """What one rule did."""

    rule: Rule
    broken_by_plain: int  # how often the best labelling without rules breaks it
    price: float  # how much the score would rise without this rule, the others kept
    without: Decoding | None  # the best labelling without it, if that is another one


@dataclass(frozen=True)
class Explanation:
    """The labelling, the one that plain scores prefer, and the rules between them."""

    plain: Decoding  # the best labelling without any rule
    best: Decoding  # the best labelling under the rules
    bites: list[Bite]  # rules that the plain labelling breaks or that cost something, the dearest first

    @property
    def cost(self) -> float:
        """What the rules cost together."""
        return self.plain.score - self.best.score

    @property
    def changed(self) -> list[int]:
        """Positions where the rules changed the label."""
        return [t for t in range(len(self.best)) if self.plain.ids[t] != self.best.ids[t]]

    def __str__(self) -> str:
        lines = [
            f"without rules  {self.plain.score:10.4f}  {' '.join(self.plain.labels)}",
            f"with rules     {self.best.score:10.4f}  {' '.join(self.best.labels)}",
        ]
        for bite in self.bites:
            broken = f", broken {bite.broken_by_plain}x by the plain labelling" if bite.broken_by_plain else ""
            lines.append(f"  {bite.rule}: price {bite.price:.4f}{broken}")
            if bite.without is not None:
                lines.append(f"    without it {bite.without.score:10.4f}  {' '.join(bite.without.labels)}")
        return "\n".join(lines if self.bites else [*lines, "  no rule bites"])


def explain(decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None) -> Explanation:
    """Decode without rules, with all of them, and without each that could matter."""
    best = decoder.decode(lattice, given)
    plain = decoder.with_rules([], engine="viterbi").decode(lattice)
    bites = []
    for k, rule in enumerate(decoder.rules):
        others = decoder.rules[:k] + decoder.rules[k + 1 :]
        without = decoder.with_rules(others).decode(lattice, given)
        broken = rule.violations(plain.ids, decoder.labels, given)
        price = max(0.0, without.score - best.score)
        if broken or price > 1e-12:
            changed = (without.ids != best.ids).any()
            bites.append(Bite(rule, broken, price, without if changed else None))
    return Explanation(plain, best, sorted(bites, key=lambda bite: -bite.price))
