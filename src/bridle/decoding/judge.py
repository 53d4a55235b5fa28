"""The judge: re-derives score, penalty and violations of a decoding. It shares no code with the engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridle.decoding.result import Decoding
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft


@dataclass(frozen=True)
class Verdict:
    """What the judge found.

    Attributes
    ----------
    score : float
        Lattice score minus penalty, recomputed.
    penalty : float
        Sum of the penalties of violated soft rules, recomputed.
    violations : list of int
        How often each rule is violated.
    complaints : list of str
        Claims of the decoding that are wrong.
    ok : bool
        True if there are no complaints.

    Examples
    --------
    >>> Verdict(score=7.3, penalty=1.2, violations=[0, 3], complaints=[]).ok
    True
    """

    score: float
    penalty: float
    violations: list[int]
    complaints: list[str]

    @property
    def ok(self) -> bool:
        """Are there no complaints?"""
        return not self.complaints


def check(
    lattice: Lattice,
    rules: Sequence[Rule],
    decoding: Decoding,
    given: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Check a decoding against the plain definitions: a sum of scores, and `violations` of each rule.

    It checks everything that needs no search: the engine proves that no other labelling is better, and tests compare
    this with enumeration. Better means by ``decoding.objective``: the bound of "two_stage" holds among labellings
    with the same penalty, so another labelling may score higher than the bound of an optimal one.

    Parameters
    ----------
    lattice : Lattice
        The scores that were decoded.
    rules : sequence of Rule
        The rules of the decoder, in its order: ``decoder.rules``.
    decoding : Decoding
        What the decoder returned. It must have labels.
    given : mapping, optional
        The values that came with the sequence.
    tolerance : float, default 1e-6
        Largest difference of scores, relative to their size.

    Returns
    -------
    Verdict
        Recomputed score, penalty and violations, with complaints if the decoding differs.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import bridle
    >>> lattice = bridle.Lattice([[1, 2], [0, 3]])
    >>> decoder = bridle.Decoder(["A", "B"], ["at most 1 token of B"])
    >>> d = decoder.decode(lattice)
    >>> bridle.check(lattice, decoder.rules, d).ok
    True
    >>> bridle.check(lattice, decoder.rules, replace(d, score=9.0, bound=9.0)).complaints
    ['the score is 4.0, not 9.0', 'optimal, but bound 9.0 and score 4.0 do not meet']
    """
    ids = decoding.ids
    violations = [rule.violations(ids, decoding.label_set, given) for rule in rules]
    penalty = sum(rule.cost(v) for rule, v in zip(rules, violations, strict=True) if isinstance(rule, Soft))
    score = lattice.score(ids) - penalty
    near = tolerance * max(1.0, abs(score))
    complaints = []
    if not abs(score - decoding.score) <= near:
        complaints.append(f"the score is {score}, not {decoding.score}")
    if not abs(penalty - decoding.penalty) <= near:
        complaints.append(f"the penalty is {penalty}, not {decoding.penalty}")
    for rule, count in zip(rules, violations, strict=True):
        if count and not isinstance(rule, Soft) and not decoding.relaxed:
            complaints.append(f"a hard rule is broken {count} times: {rule}")
    broken = [(rule, count) for rule, count in zip(rules, violations, strict=True) if count]
    if broken != decoding.violated:
        complaints.append(f"violated should be {broken}, not {decoding.violated}")
    if decoding.bound < score - near:
        complaints.append(f"the bound {decoding.bound} is below the score {score}")
    if decoding.optimal and abs(decoding.bound - score) > near:
        complaints.append(f"optimal, but bound {decoding.bound} and score {score} do not meet")
    return Verdict(score, float(penalty), violations, complaints)
