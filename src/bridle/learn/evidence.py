"""Learned rules with their evidence, penalties from counts, and the counts themselves.

p = (exceptions + a) / (support + 2 a)      the smoothed share of violations;  a = 1/2
from_counts   -log p                        Fersini et al. (2012), equation 30, with the sign that the text asks for
log_odds      max(0, log (1 - p) / p)       Tromble & Eisner (2006), section 6: the log odds of violation
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.problem import Limits, Problem, check_given
from bridle.decoding.threads import in_threads
from bridle.engines import Search, solve_one
from bridle.errors import LabelError, shown
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.models.checks import count_of_threads, one_of, positive
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules
from bridle.rules.documents import InDocument, hard_part
from bridle.rules.equal import SameLabelForEqual

Given = Mapping[str, Any]
Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Learned:
    """A rule found in data, with its evidence.

    Parameters
    ----------
    rule : Rule
        The rule, hard or soft.
    kind : str
        How it was found: ``"adjacency"``, ``"precedence"``, ``"count"``, ...
    held : int
        Number of sequences that obey it.
    of : int
        Number of all sequences.
    support : int
        Number of sequences to which it applies; "if A then B" applies only to sequences with an A.
    unit : str, default "sequences"
        What the numbers count: ``"documents"`` for rules about documents, ``"pairs of equal tokens"`` for agreement.

    Examples
    --------
    >>> from bridle import rules
    >>> from bridle.learn import Learned
    >>> print(Learned(rules.before("AUTHOR", "TITLE"), "presence", held=348, of=350, support=341).soft(2.3))
    AUTHOR before TITLE  [penalty 2.3]  # held in 348 of 350 sequences, applied in 341; presence
    """

    rule: Rule
    kind: str
    held: int
    of: int
    support: int
    unit: str = "sequences"

    @property
    def exceptions(self) -> int:
        """Number of sequences that break it."""
        return self.of - self.held

    @property
    def confidence(self) -> float:
        """Share of sequences that obey it, among those to which it applies."""
        return 1 - self.exceptions / self.support if self.support else 1.0

    def soft(self, penalty: float) -> Learned:
        """Make the rule soft, or give a soft one another penalty.

        Parameters
        ----------
        penalty : float
            The penalty for breaking it, 0 or more.

        Returns
        -------
        Learned
            A copy with the soft rule.
        """
        return replace(self, rule=priced(self.rule, penalty))

    def hard(self) -> Learned:
        """Make the rule hard.

        Returns
        -------
        Learned
            A copy with the rule without a penalty.
        """
        return replace(self, rule=self.rule.rule) if isinstance(self.rule, Soft) else self

    def __str__(self) -> str:
        return f"{self.rule}  # held in {self.held} of {self.of} {self.unit}, applied in {self.support}; {self.kind}"


def rules_of(learned: Iterable[Learned]) -> list[Rule]:
    """Return the rules without their evidence.

    Parameters
    ----------
    learned : iterable of Learned
        Rules with their evidence.

    Returns
    -------
    list of Rule
        The rules, for a `Decoder`.
    """
    return [item.rule for item in learned]


def from_counts(learned: Iterable[Learned], *, smoothing: float = 0.5) -> list[Learned]:
    """Price rules by how often they were broken: the penalty is -log p.

    p is the share of violations, smoothed: (exceptions + a) / (support + 2 a). A rule that was never broken is
    expensive; one that is broken half the time costs log 2.

    Parameters
    ----------
    learned : iterable of Learned
        Rules with their evidence.
    smoothing : float, default 0.5
        The count a, above 0.

    Returns
    -------
    list of Learned
        The same rules, soft.

    See Also
    --------
    fit_rules : Rules that add to what a model knows, with their prices.
    JointWeights : Penalties that take into account what the model already knows.

    Examples
    --------
    >>> from bridle import rules
    >>> [priced] = from_counts([Learned(rules.before("A", "B"), "presence", held=99, of=100, support=80)])
    >>> round(priced.rule.penalty, 2)  # -log(1.5 / 81)
    3.99
    """
    positive("smoothing", smoothing)
    return [replace(item, rule=priced(item.rule, -math.log(_share(item, smoothing)))) for item in learned]


def log_odds(
    learned: Iterable[Learned], *, smoothing: float = 0.5, useless: Literal["keep", "drop"] = "keep"
) -> list[Learned]:
    """Price rules by the log odds of a violation: the penalty is log (1 - p) / p, never below 0.

    p is the share of violations, smoothed as in `from_counts`. A rule that is broken half the time costs nothing.

    Parameters
    ----------
    learned : iterable of Learned
        Rules with their evidence.
    smoothing : float, default 0.5
        The count a of the smoothed share, above 0.
    useless : {"keep", "drop"}, default "keep"
        What to do with rules whose penalty is 0.

    Returns
    -------
    list of Learned
        The same rules, soft.

    Examples
    --------
    >>> from bridle import rules
    >>> half = Learned(rules.before("A", "B"), "presence", held=60, of=100, support=80)
    >>> [item.rule.penalty for item in log_odds([half])], log_odds([half], useless="drop")
    ([0.0], [])
    """
    positive("smoothing", smoothing)
    one_of("useless", useless, ("keep", "drop"))
    soft = []
    for item in learned:
        share = _share(item, smoothing)
        penalty = max(0.0, math.log((1 - share) / share)) if share < 1 else 0.0
        if useless == "keep" or penalty > 0:
            soft.append(replace(item, rule=priced(item.rule, penalty)))
    return soft


def _share(learned: Learned, a: float) -> float:
    """Return p. A rule applies to every sequence that breaks it, whatever was counted."""
    return (learned.exceptions + a) / (max(learned.support, learned.exceptions) + 2 * a)


def priced(rule: Rule, penalty: float) -> Soft:
    """Return the rule with this penalty, paid as often as before.

    A hard rule is then paid once per sequence, but agreement over documents for each violation: one price for a whole
    document would not say how many tokens agree.
    """
    if isinstance(rule, Soft):
        return replace(rule, penalty=penalty)
    return rule.soft(penalty, "violation" if agreement_over_document(rule) is not None else "sequence")


def agreement_over_document(rule: Rule) -> SameLabelForEqual | None:
    """Return what a rule, hard or soft, says of equal tokens in a document; None if it is about something else."""
    bare = hard_part(rule)
    return bare.rule if isinstance(bare, InDocument) and isinstance(bare.rule, SameLabelForEqual) else None


def about_document(rule: Rule) -> bool:
    """Check whether a rule, hard or soft, holds over documents."""
    return isinstance(hard_part(rule), InDocument)


def penalty_of(rule: Rule) -> float:
    """Return the cost of breaking the rule; infinity if it is hard."""
    return rule.penalty if isinstance(rule, Soft) else math.inf


# ---- counting -------------------------------------------------------------------------------------------------------


def counter(
    rules: Iterable[Rule], labels: Labels, *, threads: int = 0
) -> Callable[[Ids, Offsets, Sequence[Given] | None], Ids]:
    """Make a function that counts violations natively: (N,) ids, (B + 1,) offsets, given values -> (B, R).

    The kernels judge the only path of a lattice in which all labels but those of the labelling are impossible. The
    rules cost nothing there, so hard ones are judged and not obeyed.
    """
    compiled = CompiledRules(labels, [priced(rule, 0.0) for rule in rules], Limits().native())
    cores = count_of_threads(threads)

    def count(ids: Ids, offsets: Offsets, given: Sequence[Given] | None) -> Ids:
        check_given(given, len(offsets) - 1)

        def part(low: int, high: int, stop: _native.Stop) -> Ids:
            y = ids[offsets[low] : offsets[high]]
            unary = np.full((len(y), len(labels)), -np.inf, dtype=np.float32)
            unary[np.arange(len(y)), y] = 0
            path = Batch(unary, offsets[low : high + 1] - offsets[low])
            its = None if given is None else given[low:high]
            problem = Problem(compiled, path, its, first=low, many=True, stop=stop)
            return solve_one(Search(), problem).violations

        return np.concatenate(in_threads(part, len(offsets) - 1, cores))

    return count


def violations(
    rules: Sequence[Rule],
    labellings: Sequence[Sequence[str]],
    labels: Labels,
    given: Sequence[Given] | None = None,
    *,
    threads: int = 0,
) -> Ids:
    """Count how often each labelling breaks each rule, natively and in threads.

    Parameters
    ----------
    rules : sequence of Rule
        R rules, hard or soft.
    labellings : sequence of sequence of str
        B labellings.
    labels : Labels
        The labels and their tagging scheme.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence.
    threads : int, default 0
        Number of threads; 0 means all cores.

    Returns
    -------
    array of int, shape (B, R)
        Number of violations.

    Raises
    ------
    LabelError
        If a labelling is not a list of labels.
    GivenError
        If a value is missing in `given`, or does not fit.

    Examples
    --------
    >>> from bridle import rules
    >>> violations([rules.at_most(1, of="A"), rules.starts_with("B")], [["A", "B", "A"], ["B"]], Labels(["A", "B"]))
    array([[1, 1],
           [0, 0]], dtype=int32)
    """
    count = counter(rules, labels, threads=threads)
    for k, names in enumerate(labellings):
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise LabelError(f"labelling {k} is not a list of labels", got=shown(names), wanted="a label per token")
    ids = labels.ids(list(chain.from_iterable(labellings))).astype(np.int32)
    return count(ids, np.cumsum([0, *map(len, labellings)]).astype(np.int64), given)
