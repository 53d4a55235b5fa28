"""What decoding a span lattice gives, and its judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from bridle.decoding.judge import Verdict
from bridle.decoding.problem import OPTIMAL
from bridle.decoding.result import STATUSES, Status, penalty_of, status_of, violations_of
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.spans.lattice import Ints, SpanLattice

if TYPE_CHECKING:
    from bridle.spans.decoder import SpanDecoder
    from bridle.spans.packed import PackedSpans


@dataclass(frozen=True, eq=False)
class SpanDecoding:
    """The best words of one sequence under the rules, and how we know.

    Attributes
    ----------
    words : list of (int, int)
        Start and end of each word, left to right; the end is not included.
    arcs : array of int32, shape (w,)
        Their numbers in the lattice.
    ids : array of int32, shape (w,)
        Their label ids.
    labels : list of str
        Their labels, by names.
    score : float
        Lattice score minus penalty.
    penalty : float
        What violated soft rules cost.
    violated : list of (Rule, int)
        Soft rules that are violated, with how often.
    bound : float
        No path under the rules scores higher.
    optimal : bool
        Do bound and score meet?
    engine : str
        The engine that found it.
    stats : dict
        What the engine counted.
    label_set : Labels
        The labels that `ids` are numbers of.
    status : {"optimal", "limit", "infeasible", "nothing_found"}
        As in `Decoding`. Without an answer there are no words.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.SpanLattice(3, [(0, 1), (0, 2), (1, 3), (2, 3)], [1, 4, 3, 1], characters="abc")
    >>> d = bridle.SpanDecoder(rules=['forbid WORD at tokens "ab"']).decode(lattice)
    >>> d.words, lattice.texts(d.arcs), d.score, d.bound
    ([(0, 1), (1, 3)], ['a', 'bc'], 4.0, 4.0)
    """

    words: list[tuple[int, int]]
    arcs: Ints  # (w,)
    ids: Ints  # (w,)
    score: float
    penalty: float
    violated: list[tuple[Rule, int]]
    bound: float
    optimal: bool
    engine: str
    stats: dict[str, Any]
    label_set: Labels = field(repr=False)
    status: Status = "optimal"

    @property
    def labels(self) -> list[str]:
        """The label of each word."""
        return [self.label_set.names[y] for y in self.ids]

    def __len__(self) -> int:
        return len(self.words)


def span_decoding(
    labels: Labels,
    lattice: SpanLattice,
    arcs: Ints,
    score: float,
    violated: list[tuple[Rule, int]],
    bound: float,
    status: Status,
    engine: str,
    stats: dict[str, Any],
) -> SpanDecoding:
    """A decoding from what an engine found."""
    words = [(a, b) for a, b in lattice.spans[arcs].tolist()]
    ids, penalty, optimal = lattice.labels[arcs], penalty_of(violated), status == "optimal"
    return SpanDecoding(words, arcs, ids, score, penalty, violated, bound, optimal, engine, stats, labels, status)


class SpanDecodings(Sequence[SpanDecoding]):
    """The decodings of a batch, in order. Kept as packed arrays; a SpanDecoding is made when asked for.

    Attributes
    ----------
    scores, bounds : arrays of float, shape (B,)
        As in `SpanDecoding`.
    optimal : array of bool, shape (B,)
        As in `SpanDecoding`.
    status : array of str, shape (B,)
        As in `SpanDecoding`.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    >>> found = bridle.SpanDecoder().decode_batch([lattice] * 3)
    >>> len(found), found.scores.tolist(), found[2].words
    (3, [3.0, 3.0, 3.0], [(0, 2)])
    """

    def __init__(self, decoder: SpanDecoder, packed: PackedSpans) -> None:
        self._decoder, self._packed = decoder, packed
        self.scores, self.bounds = packed.score, packed.bound
        self.optimal = packed.status == OPTIMAL

    def __len__(self) -> int:
        return len(self._packed.n)

    @property
    def status(self) -> npt.NDArray[np.str_]:
        """How each sequence came out."""
        return np.asarray(STATUSES[self._packed.status])

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
        score, bound, status = float(p.score[k]), float(p.bound[k]), status_of(int(p.status[k]))
        labels, engine = self._decoder.labels, self._decoder.plan.engine
        return span_decoding(labels, p.lattices[k], arcs, score, violated, bound, status, engine, stats)


def check_spans(
    lattice: SpanLattice,
    rules: Sequence[Rule],
    decoding: SpanDecoding,
    given: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Check words against the plain definitions: that they join, a sum of scores, and `violations` of each rule.

    It shares no code with the engines. As `check`, it does not search for better words.

    Parameters
    ----------
    lattice : SpanLattice
        The possible words that were decoded.
    rules : sequence of Rule
        The rules of the decoder, in its order: ``decoder.rules``.
    decoding : SpanDecoding
        What the decoder returned.
    given : mapping, optional
        The values that came with the sequence.
    tolerance : float, default 1e-6
        How far scores may be apart, relative to their size.

    Returns
    -------
    Verdict
        Score, penalty and violations as they are, and complaints where the decoding says otherwise.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import bridle
    >>> lattice = bridle.SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    >>> d = bridle.SpanDecoder().decode(lattice)
    >>> bridle.check_spans(lattice, [], d).ok
    True
    >>> bridle.check_spans(lattice, [], replace(d, penalty=1.0)).complaints
    ['the penalty is 0, not 1.0']
    """
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
    return verdict(rules, counts, total, decoding, complaints, tolerance)


class _Told(Protocol):
    """What an answer says of itself."""

    @property
    def score(self) -> float: ...
    @property
    def penalty(self) -> float: ...
    @property
    def violated(self) -> list[tuple[Rule, int]]: ...
    @property
    def bound(self) -> float: ...
    @property
    def optimal(self) -> bool: ...


def verdict(
    rules: Sequence[Rule], counts: list[int], total: float, told: _Told, complaints: list[str], tolerance: float
) -> Verdict:
    """The verdict on an answer whose spans score `total` and violate each rule so often."""
    penalty = sum(rule.cost(v) for rule, v in zip(rules, counts, strict=True) if isinstance(rule, Soft))
    score = total - penalty
    near = tolerance * max(1.0, abs(score))
    for name, got, wanted in (("score", told.score, score), ("penalty", told.penalty, penalty)):
        if not abs(got - wanted) <= near:
            complaints.append(f"the {name} is {wanted}, not {got}")
    broken = [(rule, v) for rule, v in zip(rules, counts, strict=True) if v]
    complaints += [f"a hard rule is broken {v} times: {rule}" for rule, v in broken if not isinstance(rule, Soft)]
    if broken != told.violated:
        complaints.append(f"violated should be {broken}, not {told.violated}")
    if told.bound < score - near or (told.optimal and abs(told.bound - score) > near):
        complaints.append(f"the bound {told.bound} does not fit the score {score}")
    return Verdict(score, float(penalty), counts, complaints)
