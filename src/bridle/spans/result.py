"""What decoding a span lattice gives, and its judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from bridle.decoding.judge import Verdict
from bridle.decoding.problem import OPTIMAL
from bridle.decoding.result import violations_of
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.spans.lattice import Ints, SpanLattice

if TYPE_CHECKING:
    from bridle.spans.decoder import SpanDecoder
    from bridle.spans.packed import PackedSpans


@dataclass(frozen=True, eq=False)
class SpanDecoding:
    """The best words of one sequence under the rules, and how we know."""

    words: list[tuple[int, int]]  # start, end (not included), left to right
    arcs: Ints  # their numbers in the lattice
    ids: Ints  # their label ids
    score: float  # lattice score - penalty
    penalty: float  # what soft rules cost
    violated: list[tuple[Rule, int]]  # soft rules that are broken, with how often
    bound: float  # no path under the rules scores higher
    optimal: bool  # bound and score meet
    engine: str
    stats: dict[str, Any]
    label_set: Labels = field(repr=False)

    @property
    def labels(self) -> list[str]:
        """The label of each word."""
        return [self.label_set.names[y] for y in self.ids]

    def __len__(self) -> int:
        return len(self.words)


class SpanDecodings(Sequence[SpanDecoding]):
    """The decodings of a batch, in order. Kept as packed arrays; a SpanDecoding is made when asked for."""

    def __init__(self, decoder: SpanDecoder, packed: PackedSpans) -> None:
        self._decoder, self._packed = decoder, packed
        self.scores, self.bounds = packed.score, packed.bound  # (B,)
        self.optimal = packed.status == OPTIMAL  # (B,)

    def __len__(self) -> int:
        return len(self._packed.n)

    @overload
    def __getitem__(self, k: int) -> SpanDecoding: ...
    @overload
    def __getitem__(self, k: slice) -> list[SpanDecoding]: ...
    def __getitem__(self, k: int | slice) -> SpanDecoding | list[SpanDecoding]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        k, p = k % len(self), self._packed
        arcs = p.path[p.offsets[k] : p.offsets[k] + p.length[k]]
        stats = p.stats[k] if p.stats else {"rounds": int(p.counters[k, 0]), "states": int(p.counters[k, 1])}
        violated = violations_of(self._decoder.rules, p.violations[k].tolist())
        bound, optimal, engine = float(p.bound[k]), bool(self.optimal[k]), self._decoder.plan.engine
        return self._decoder.made(p.lattices[k], arcs, float(p.score[k]), violated, bound, optimal, engine, stats)


def check_spans(
    lattice: SpanLattice, rules: Sequence[Rule], decoding: SpanDecoding, given: Mapping[str, Any] | None = None, *,
    tolerance: float = 1e-6,
) -> Verdict:
    """The judge for words: re-derives everything from plain definitions. It shares no code with the engines."""
    complaints, at, total = [], 0, 0.0
    for arc, word, y in zip(decoding.arcs.tolist(), decoding.words, decoding.ids.tolist(), strict=True):
        if tuple(lattice.spans[arc].tolist()) != tuple(word) or int(lattice.labels[arc]) != y:
            complaints.append(f"arc {arc} is not the word {word} with label {y}")
        if word[0] != at:
            complaints.append(f"the word {word} does not begin at {at}")
        at, total = word[1], total + float(lattice.scores[arc])
    if at != lattice.n:
        complaints.append(f"the words end at {at}, not at {lattice.n}")
    values = dict(given or {})
    if lattice.characters is not None:
        values["tokens"] = ["".join(lattice.characters[a:b]) for a, b in decoding.words]
    counts = [rule.violations(decoding.ids, decoding.label_set, values) for rule in rules]
    penalty = sum(rule.cost(v) for rule, v in zip(rules, counts, strict=True) if isinstance(rule, Soft))
    score = total - penalty
    near = tolerance * max(1.0, abs(score))
    for name, got, wanted in (("score", decoding.score, score), ("penalty", decoding.penalty, penalty)):
        if not abs(got - wanted) <= near:
            complaints.append(f"the {name} is {wanted}, not {got}")
    broken = [(rule, v) for rule, v in zip(rules, counts, strict=True) if v]
    complaints += [f"a hard rule is broken {v} times: {rule}" for rule, v in broken if not isinstance(rule, Soft)]
    if broken != decoding.violated:
        complaints.append(f"violated should be {broken}, not {decoding.violated}")
    if decoding.bound < score - near or (decoding.optimal and abs(decoding.bound - score) > near):
        complaints.append(f"the bound {decoding.bound} does not fit the score {score}")
    return Verdict(score, float(penalty), counts, complaints)
