"""The judge: recomputes score, penalty and violations of a decoding. It shares no code with the engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bridle.decoding.result import Decoding
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.documents import cost_in_document, count_in_document

if TYPE_CHECKING:
    from bridle.decoding.documents import DocumentDecoding


@dataclass(frozen=True)
class Verdict:
    """Result of a check.

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
        """True if there are no complaints."""
        return not self.complaints


def check(
    lattice: Lattice | Sequence[Lattice],
    rules: Sequence[Rule],
    decoding: Decoding | DocumentDecoding,
    given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Check a decoding against the plain definitions: a sum of scores, and `violations` of each rule.

    It checks everything that needs no search: the engine proves that no other labelling is better, and tests compare
    this with enumeration. Better means by ``decoding.objective``: the bound of "two_stage" holds among labellings
    with the same penalty, so another labelling may score higher than the bound of an optimal one.

    Parameters
    ----------
    lattice : Lattice, or sequence of Lattice
        The scores that were decoded; those of the sentences if it is a `DocumentDecoding`.
    rules : sequence of Rule
        The rules of the decoder, in its order: ``decoder.rules``.
    decoding : Decoding or DocumentDecoding
        What the decoder returned. It must have labels.
    given : mapping, or sequence of mappings, optional
        The values that came with the sequence, or with each sentence.
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
    if isinstance(lattice, Lattice):
        assert not isinstance(given, Sequence) and isinstance(decoding.ids, np.ndarray)
        counts = [rule.violations(decoding.ids, decoding.label_set, given) for rule in rules]
        return judge(rules, counts, lattice.score(decoding.ids), decoding, tolerance)
    givens = [{}] * len(lattice) if given is None else given
    assert not isinstance(givens, Mapping)
    ids = [sentence.tolist() for sentence in decoding.ids]
    counts = [count_in_document(rule, ids, decoding.label_set, givens) for rule in rules]
    total = float(sum(x.score(y) for x, y in zip(lattice, decoding.ids, strict=True)))
    return judge(rules, counts, total, decoding, tolerance, cost=cost_in_document)


def judge(
    rules: Sequence[Rule],
    counts: list[int],
    total: float,
    claim: Any,
    tolerance: float,
    complaints: Sequence[str] = (),
    *,
    cost: Callable[[Soft, int], float] = Soft.cost,
) -> Verdict:
    """Judge a claim (a decoding or a selection) whose labels or spans score `total` and violate each rule so often."""
    penalty = sum(cost(rule, count) for rule, count in zip(rules, counts, strict=True) if isinstance(rule, Soft))
    score, wrong = total - penalty, list(complaints)
    near = tolerance * max(1.0, abs(score))
    for name, claimed, value in (("score", claim.score, score), ("penalty", claim.penalty, penalty)):
        if not abs(value - claimed) <= near:
            wrong.append(f"the {name} is {value}, not {claimed}")
    broken = [(rule, count) for rule, count in zip(rules, counts, strict=True) if count]
    if claim.status != "relaxed":
        wrong += [
            f"a hard rule is broken {count} times: {rule}" for rule, count in broken if not isinstance(rule, Soft)
        ]
    if broken != claim.violated:
        wrong.append(f"violated should be {broken}, not {claim.violated}")
    if claim.bound < score - near:
        wrong.append(f"the bound {claim.bound} is below the score {score}")
    if claim.optimal and abs(claim.bound - score) > near:
        wrong.append(f"optimal, but bound {claim.bound} and score {score} do not meet")
    return Verdict(score, float(penalty), counts, wrong)
