"""What each of some rules does to labelled sequences, fast enough to be shown while rules are typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.rules.base import Rule

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quality:
    """How good some labellings are; shares from 0 to 1."""

    accuracy: float  # tokens with the right label
    f1: float  # of segments
    all_right: float  # sequences without a wrong label


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """What one rule does. None: there is no gold, or the time was up."""

    rule: Rule
    gold: int | None  # sequences whose gold labels break it
    plain: int  # ... whose labels without rules break it
    best: int  # ... whose labels under all rules break it
    alone: Quality | None  # with this rule only
    without: Quality | None  # with all rules but this one
    changed: int | None  # sequences whose labels are others because of it: all rules against all but this one


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What rules do to some sequences. Sequences are numbered from 0, in the order of the data."""

    sequences: int
    tokens: int
    none: Quality | None  # without rules; None without gold
    all: Quality | None  # with all rules
    rules: tuple[RuleFigures, ...]  # in the order of the rules
    changed: tuple[int, ...]  # sequences whose labels the rules change
    broken: tuple[int, ...]  # ... whose labels without rules break a rule
    improved: tuple[int, ...]  # ... with more tokens right than without rules
    worse: tuple[int, ...]  # ... with fewer
    relaxed: tuple[int, ...]  # ... in which no labelling obeys the hard rules
    complete: bool  # False: the time was up before `alone`, `without` and `changed` of every rule were computed
    seconds: float


class GoldData:
    """Scores of some sequences, what rules read of them, and gold labels if there are any.

    Keep it beside the data: what does not depend on rules is computed once, when it is first needed.

    Parameters
    ----------
    labels : Labels
        The labels of the scores.
    lattices : Batch
        The scores (`Tagger.lattices`).
    gold : sequence of sequence of str, optional
        Gold labels; None where a label is missing. Names that `labels` lacks are never right.
    given : sequence of mapping, optional
        Values that rules may refer to by name, a mapping per sequence: the columns of the data, and its tokens
        as "tokens".
    """

    def __init__(
        self,
        labels: Labels,
        lattices: Batch,
        gold: Sequence[Sequence[str | None]] | None = None,
        given: Sequence[Given] | None = None,
    ) -> None:
        raise NotImplementedError


def evaluate(
    rules: Sequence[Rule],
    data: GoldData,
    *,
    budget: float | None = None,
    threads: int = 1,
    **options: Any,
) -> Evaluation:
    """Find out what rules do to labelled sequences, together and one by one.

    Parameters
    ----------
    rules : sequence of Rule
    data : GoldData
    budget : float, optional
        Seconds after which no further rule is tried alone and left out (`Evaluation.complete`).
    threads : int, default 1
    **options
        Options of `Decoder`, such as ``time_limit``. Hard rules that no labelling obeys are relaxed.

    Returns
    -------
    Evaluation
    """
    raise NotImplementedError
