"""The explanation of one labelling: the best one without rules, the rules that changed it, and the price of each.

    price of rule r = best score with all rules but r - best score with all rules

So prices do not have to add up: if two rules require the same, each of them costs nothing. The time limit of the
decoder is for decoding and all prices together; if it has none, prices may take PATIENCE, and so may alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bridle.deadline import Deadline
from bridle.decoding.result import Decoding, infeasible_on
from bridle.errors import EngineError, Infeasible, LimitReached
from bridle.lattice import Lattice, Scores
from bridle.rules.base import Rule, Soft

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder


PATIENCE = 10.0  # seconds
GRACE = 0.02  # seconds after the deadline in which violations are still counted
LEAST = 1e-12  # a smaller price is none


@dataclass(frozen=True)
class RuleEffect:
    """The effect of one rule on a labelling."""

    rule: Rule
    broken_by_plain: int  # how often the best labelling without rules violates it
    price: float  # how much the score would rise without this rule, the others kept
    without: Decoding | None  # the best labelling without it, if that is another one
    at: tuple[int, ...] = ()  # positions that it changed, as far as that is known
    proved: bool = True  # False: a limit was reached before the price was proved


@dataclass(frozen=True)
class Charge:
    """The penalty of one soft rule that the best labelling violates."""

    rule: Soft
    times: int  # how often it is violated
    cost: float  # its penalty, once per sequence or per violation


@dataclass(frozen=True)
class Explanation:
    """The labelling, the one that plain scores prefer, and the rules between them.

    `Decoder.explain` creates it. It prints as a short report.

    Attributes
    ----------
    plain : Decoding
        The best labelling without any rule.
    best : Decoding
        The best labelling under the rules.
    effects : list of RuleEffect
        Rules that the plain labelling violates or that cost something, the most expensive first.
    decoder : Decoder
        The decoder that is explained.
    lattice : Lattice
        The scores.
    given : mapping or None
        The values that came with the sequence.
    cost : float
        What the rules cost together: the score of `plain` minus that of `best`.
    changed : list of int
        Positions where the rules changed the label.
    charged : list of Charge
        The penalty that each soft rule subtracted from the score, the highest first.
    clash : tuple of Rule
        If no labelling obeys the hard rules: rules that contradict each other; minimal unless a limit was reached.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.Lattice([[0, 3, 1], [2, 0, 1], [0, 2, 1.5]])
    >>> why = bridle.Decoder(["O", "WHO", "WHAT"], ["at most 1 token of WHO"]).explain(lattice)
    >>> print(why)
    without rules      7.0000  WHO O WHO
    with rules         6.5000  WHO O WHAT
      at most 1 token of WHO: price 0.5000, broken 1x by the plain labelling
        without it     7.0000  WHO O WHO
    >>> why.changed, why.cost
    ([2], 0.5)
    """

    plain: Decoding
    best: Decoding
    effects: list[RuleEffect]
    decoder: Decoder = field(repr=False)
    lattice: Lattice = field(repr=False)
    given: Mapping[str, Any] | None = field(repr=False)

    @property
    def cost(self) -> float:
        """The cost of all rules together."""
        if np.array_equal(self.plain.ids, self.best.ids) and not self.best.penalty:  # engines add in different orders
            return 0.0
        return self.plain.score - self.best.score

    @property
    def changed(self) -> list[int]:
        """Positions where the rules changed the label."""
        return _differ(self.plain, self.best)

    @property
    def charged(self) -> list[Charge]:
        """The penalty that each soft rule subtracted from the score, the highest first."""
        charges = [Charge(rule, v, rule.cost(v)) for rule, v in self.best.violated if isinstance(rule, Soft)]
        return sorted(charges, key=lambda charge: -charge.cost)

    @cached_property
    def clash(self) -> tuple[Rule, ...]:
        """If no labelling obeys the hard rules: a minimal set of them that cannot hold together."""
        if not self.best.relaxed:
            return ()
        clash = infeasible_on(self.decoder, self.lattice, self.given).clash
        return tuple(rule for rule in clash if isinstance(rule, Rule))

    def alternatives(self, k: int = 5) -> list[Decoding]:
        """Return the next best labellings under the rules.

        Parameters
        ----------
        k : int, default 5
            How many.

        Returns
        -------
        list of Decoding
            Best first; fewer if there are fewer, or if a limit was reached. `alternatives_missing` says which.

        Examples
        --------
        >>> import bridle
        >>> lattice = bridle.Lattice([[0, 3, 1], [2, 0, 1], [0, 2, 1.5]])
        >>> why = bridle.Decoder(["O", "WHO", "WHAT"], ["at most 1 token of WHO"]).explain(lattice)
        >>> [(d.labels, d.score) for d in why.alternatives(1)]
        [(['WHO', 'WHAT', 'WHAT'], 5.5)]
        """
        return list(self._ranking(k)[0])

    def alternatives_missing(self, k: int = 5) -> str:
        """Say why alternatives are missing, or may not be the next best.

        Parameters
        ----------
        k : int, default 5
            As in `alternatives`.

        Returns
        -------
        str
            "" if they are all there, or all that exist, and proved.

        Examples
        --------
        >>> import bridle
        >>> decoder = bridle.Decoder(["A", "B"], ["fix A at 0", "fix B at 0"], on_infeasible="relax")
        >>> decoder.explain(bridle.Lattice([[0, 1]])).alternatives_missing()
        'none: no labelling obeys the hard rules'
        """
        return self._ranking(k)[1]

    def _ranking(self, k: int) -> tuple[list[Decoding], str]:
        if k not in self._ranked:
            try:
                limited = self.decoder.with_rules(self.decoder.rules, time_limit=_limit(self.decoder))
                best = limited.k_best(self.lattice, k + 1, self.given)
                others = [d for d in best if _differ(d, self.best)][:k]
                why = "" if all(d.optimal for d in best) else "a limit was reached before all were found and proved"
            except Infeasible:
                others, why = [], "none: no labelling obeys the hard rules"
            except LimitReached:
                others, why = [], "a limit was reached before any was found"
            self._ranked[k] = others, why
        return self._ranked[k]

    @cached_property
    def _ranked(self) -> dict[int, tuple[list[Decoding], str]]:
        """Alternatives by k, kept because they can take longer than all the rest."""
        return {}

    def probabilities(self, under: Literal["scores", "rules"] = "scores") -> Scores | None:
        """Return the probability of each label at each position.

        Parameters
        ----------
        under : {"scores", "rules"}, default "scores"
            By the scores alone, or given that all hard rules hold.

        Returns
        -------
        array of float, shape (n, m), or None
            None if the sum needs too many states or too long, or no labelling obeys the hard rules.

        Examples
        --------
        >>> import bridle
        >>> why = bridle.Decoder(["A", "B"], ["at most 1 token of B"]).explain(bridle.Lattice([[0, 1], [0, 2]]))
        >>> [why.probabilities(under).round(2).tolist() for under in ("scores", "rules")]
        [[[0.27, 0.73], [0.12, 0.88]], [[0.76, 0.24], [0.33, 0.67]]]
        """
        return self._by_scores if under == "scores" else self._by_rules

    @cached_property
    def _by_scores(self) -> Scores | None:
        try:
            return self.decoder.with_rules([], engine="viterbi").marginals(self.lattice)
        except (EngineError, LimitReached):
            return None

    @cached_property
    def _by_rules(self) -> Scores | None:
        try:
            return self.decoder.marginals(self.lattice, self.given)
        except (EngineError, Infeasible, LimitReached):
            return None

    def svg(
        self,
        tokens: Sequence[str] | None = None,
        *,
        k: int = 5,
        show: Literal["changes", "all"] = "changes",
        gold: Sequence[str] | None = None,
    ) -> str:
        """Draw the trellis with both labellings.

        Parameters
        ----------
        tokens : sequence of str, optional
            The tokens; by default those in ``given["tokens"]``, or else their positions.
        k : int, default 5
            Labels of this many alternatives are shown, too.
        show : {"changes", "all"}, default "changes"
            "changes" cuts a long sequence to the places that the rules changed.
        gold : sequence of str, optional
            The right labels, to be marked.

        Returns
        -------
        str
            An SVG picture.

        Raises
        ------
        LabelError
            If there is not one token per position.

        Examples
        --------
        >>> import bridle
        >>> why = bridle.Decoder(["A", "B"], ["at most 1 token of B"]).explain(bridle.Lattice([[0, 1], [0, 2]]))
        >>> why.svg(["one", "two"]).startswith("<svg")
        True
        """
        from bridle.explain.words import trellis_of  # imported only for drawing
        from bridle.report.trellis import draw_trellis

        return draw_trellis(trellis_of(self, tokens, k=k, gold=gold), show=show)

    def html(
        self,
        tokens: Sequence[str] | None = None,
        *,
        title: str = "Why these labels",
        k: int = 5,
        show: Literal["changes", "all"] = "changes",
        gold: Sequence[str] | None = None,
    ) -> str:
        """Make a page of the picture, the rules, the alternatives and the proof.

        Parameters
        ----------
        tokens : sequence of str, optional
            As in `svg`.
        title : str, default "Why these labels"
            The title of the page.
        k : int, default 5
            How many alternatives are listed.
        show : {"changes", "all"}, default "changes"
            As in `svg`.
        gold : sequence of str, optional
            As in `svg`.

        Returns
        -------
        str
            HTML that needs no other file.

        Raises
        ------
        LabelError
            If there is not one token per position.

        Examples
        --------
        >>> import bridle
        >>> why = bridle.Decoder(["A", "B"], ["at most 1 token of B"]).explain(bridle.Lattice([[0, 1], [0, 2]]))
        >>> "<title>Sentence 7</title>" in why.html(["one", "two"], title="Sentence 7")
        True
        """
        from bridle.explain.page import explanation_page

        return explanation_page(self, tokens, title=title, k=k, show=show, gold=gold).html()

    def __str__(self) -> str:
        lines = [
            f"without rules  {self.plain.score:10.4f}  {' '.join(self.plain.labels)}",
            f"with rules     {self.best.score:10.4f}  {' '.join(self.best.labels)}",
        ]
        for effect in self.effects:
            broken = f", broken {effect.broken_by_plain}x by the plain labelling" if effect.broken_by_plain else ""
            about = "" if effect.proved else "about "
            price = f"{about}{effect.price:.4f}" if effect.proved or effect.price > LEAST else "unknown"
            lines.append(f"  {effect.rule}: price {price}{broken}")
            if effect.without is not None:
                lines.append(f"    without it {effect.without.score:10.4f}  {' '.join(effect.without.labels)}")
        return "\n".join(lines if self.effects else [*lines, "  no rule changes the labels"])


def explain(decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None) -> Explanation:
    """Decode without rules, with all of them, and without each that could matter."""
    if decoder.on_infeasible == "skip":
        decoder = decoder.with_rules(decoder.rules, on_infeasible="raise")  # the error says why there is no labelling
    whole = Deadline.after(decoder.limits.time_limit)
    best = decoder.decode(lattice, given)
    plain = decoder.with_rules([], engine="viterbi", time_limit=whole.left).decode(lattice)
    given_up = {id(rule) for rule, _ in best.violated if not isinstance(rule, Soft)}  # if no labelling obeys them all
    in_time = (rule if not whole.passed(-GRACE) else None for rule in decoder.rules)  # in long sequences it may be up
    broken = [0 if rule is None else rule.violations(plain.ids, decoder.labels, given) for rule in in_time]
    prices, effects = whole if whole.left is not None else Deadline.after(_limit(decoder)), list[RuleEffect]()
    unbroken = [k for k, times in enumerate(broken) if not times] if any(broken) else []
    idle = _idle(decoder, unbroken, best, lattice, given, prices)
    for k, rule in enumerate(decoder.rules if any(broken) else ()):  # if it breaks none, it is the best without any
        if k in idle:
            continue
        without = _decode_with(decoder, decoder.rules[:k] + decoder.rules[k + 1 :], lattice, given, prices)
        price = 0.0 if without is None else max(0.0, without.score - best.score)
        if (broken[k] and id(rule) not in given_up) or price > LEAST:
            at = [] if without is None else _differ(without, best)
            proved = best.optimal and without is not None and without.optimal
            effects.append(RuleEffect(rule, broken[k], price, without if at else None, tuple(at), proved))
    effects.sort(key=lambda effect: -effect.price)
    explanation = Explanation(plain, best, effects, decoder, lattice, given)
    unplaced = set(explanation.changed).difference(*(effect.at for effect in effects))
    if not unplaced:
        return explanation
    return replace(explanation, effects=[_placed(effect, unplaced, explanation, prices) for effect in effects])


def _placed(effect: RuleEffect, places: set[int], explanation: Explanation, deadline: Deadline) -> RuleEffect:
    """Add positions that change whichever rule is left out, if the rule alone changes them too."""
    if not effect.broken_by_plain:
        return effect
    alone = _decode_with(explanation.decoder, [effect.rule], explanation.lattice, explanation.given, deadline)
    if alone is None:
        return effect
    return replace(effect, at=tuple(sorted({*effect.at, *places.intersection(_differ(explanation.plain, alone))})))


def _idle(
    decoder: Decoder,
    numbers: Sequence[int],
    best: Decoding,
    lattice: Lattice,
    given: Mapping[str, Any] | None,
    deadline: Deadline,
) -> set[int]:
    """Return those of some rules whose price is 0: without all of them at once, the score is the same."""
    if len(numbers) < 2 or not best.optimal or best.relaxed:
        return set()
    left_out = set(numbers)
    others = [rule for k, rule in enumerate(decoder.rules) if k not in left_out]
    without = _decode_with(decoder, others, lattice, given, deadline)
    if without is None or not without.optimal or without.relaxed:
        return set()
    if without.score - best.score <= LEAST:
        return left_out
    half = len(numbers) // 2
    halves = numbers[:half], numbers[half:]
    return {k for part in halves for k in _idle(decoder, part, best, lattice, given, deadline)}


def _limit(decoder: Decoder) -> float | None:
    """Return a time limit for a decoder that has no limit of its own."""
    return PATIENCE if decoder.limits.time_limit is None and decoder.limits.max_states is None else None


def _decode_with(
    decoder: Decoder, rules: Sequence[Rule], lattice: Lattice, given: Mapping[str, Any] | None, deadline: Deadline
) -> Decoding | None:
    """Find the best labelling under other rules; None if a limit comes first."""
    with suppress(LimitReached):
        return None if deadline.passed() else decoder.with_rules(rules, time_limit=deadline.left).decode(lattice, given)
    return None


def _differ(a: Decoding, b: Decoding) -> list[int]:
    """Return the positions with different labels."""
    return [int(t) for t in np.flatnonzero(a.ids != b.ids)]
