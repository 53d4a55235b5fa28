"""`tune_rules`: written rules on labelled data. Which to keep hard, which soft and at what price, which to leave out.

start    a hard rule that gold never breaks stays hard; all others are soft, at prices learned jointly (prices.py),
         or off where the price is 0
sweep    rule by rule, in the order of the file: another choice is taken if it labels significantly better
verdict  the tuned rules (each fold under rules tuned on the others) against no rules and the rules as written
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.errors import RuleError, shown
from bridle.frames import LabelLists, Sequences, Table
from bridle.learn.evidence import counter, priced
from bridle.learn.pricing import Effect, Prices, Pricing, Scored, Source, fit
from bridle.learn.statistics import Comparison, compared
from bridle.models.checks import Given, check_callable, positive
from bridle.models.folds import CrossFit
from bridle.models.tagger import Tagger
from bridle.report.plots import draw_bars
from bridle.report.sequences import SequenceScores
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import as_rules

Choice = Literal["hard", "soft", "off"]
Ways = Literal["none", "written", "tuned"]
Bools = npt.NDArray[np.bool_]
L1 = 1.0  # somebody has thought about these rules: they need less evidence than those that were mined
_SURE = 0.1  # the p of a sign test below which another choice is taken
_HEADS = ("written", "tuned", "gold breaks", "model breaks", "better", "worse", "gain", "rule")


@dataclass(frozen=True, slots=True)
class TunedRule:
    """A written rule and how to use it.

    Attributes
    ----------
    written : Rule
        The rule as it was written.
    choice : {"hard", "soft", "off"}
        What labels best.
    rule : Rule or None
        The tuned rule; None if it is off.
    gold_breaks, model_breaks : int
        Sequences in which gold labels break it, and in which those of the model do without rules.
    effect : Effect or None
        What it does among the others; None if it is off.
    """

    written: Rule
    choice: Choice
    rule: Rule | None
    gold_breaks: int
    model_breaks: int
    effect: Effect | None


@dataclass(frozen=True, slots=True)
class TunedRules:
    """What written rules are worth, and how to use them.

    Attributes
    ----------
    found : tuple of TunedRule
        All rules, in their order.
    best : {"none", "written", "tuned"}
        What labels held-out sequences best: no rules, the rules as they were written, or as they were tuned.
    figures : dict
        For each of the three, shares of held-out sequences: ``"exact"``, ``"f1"``, ``"accuracy"``, ``"quality"``.
    gains : dict of str to Comparison
        What ``"written"`` and ``"tuned"`` rules gain over none in sequences all right.
    sequences, folds : int
        Number of sequences and of folds.
    source : str
        Whose scores: ``"cross-fitted"`` or ``"model"``, as in `FittedRules`.
    fingerprint : str
        Identifies the model.
    """

    found: tuple[TunedRule, ...]
    best: Ways
    figures: dict[Ways, dict[str, float]]
    gains: dict[str, Comparison]
    sequences: int
    folds: int
    source: str
    fingerprint: str

    @property
    def rules(self) -> list[Rule]:
        """The rules that label best: tuned, as written, or none."""
        if self.best == "tuned":
            return [one.rule for one in self.found if one.rule is not None]
        return [one.written for one in self.found] if self.best == "written" else []

    def lines(self) -> list[str]:
        """Print the table.

        Returns
        -------
        list of str
            Lines of text: shares in percent, gains in points of quality.
        """
        text = [f"{self.sequences:,} sequences in {self.folds} folds, {len(self.found)} rules"]
        for way, figures in self.figures.items():
            gain = f" ({self.gains[way]})" if way in self.gains else ""
            name = {"none": "no rules", "written": "as written", "tuned": "tuned"}[way]
            shares = f"quality {figures['quality']:.2%}, {figures['exact']:.1%} all right, F1 {figures['f1']:.2%}"
            text.append(f"{name + ':':<12}{shares}{gain}")
        body = [_cells(one) for one in self.found]
        widths = [max(len(row[c]) for row in [_HEADS, *body]) for c in range(len(_HEADS) - 1)]
        text += (
            "  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
            for row in [_HEADS, *body]
        )
        return text

    def plot(self, path: str | Path) -> None:
        """Draw what each rule gains among the others as bars. It needs matplotlib.

        Parameters
        ----------
        path : str or Path
            The file; its suffix is the format: .png, .svg or .pdf.

        Raises
        ------
        FileError
            If matplotlib is not installed, or the file cannot be written.
        """
        bars = [
            (str(one.written if one.rule is None else one.rule), 0.0 if one.effect is None else 100 * one.effect.gain)
            for one in self.found
        ]
        draw_bars(path, bars, "gain of quality among the tuned rules, points")

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures and rules by name; shares, not percent.
        """
        return {
            "best": self.best,
            "figures": self.figures,
            "gains": {way: gain.to_dict() for way, gain in self.gains.items()},
            "sequences": self.sequences,
            "folds": self.folds,
            "source": self.source,
            "fingerprint": self.fingerprint,
            "use": [str(rule) for rule in self.rules],
            "rules": [
                {
                    "written": str(one.written),
                    "choice": one.choice,
                    "rule": None if one.rule is None else str(one.rule),
                    "gold_breaks": one.gold_breaks,
                    "model_breaks": one.model_breaks,
                    "gain": None if one.effect is None else one.effect.gain,
                    "better": None if one.effect is None else one.effect.better,
                    "worse": None if one.effect is None else one.effect.worse,
                }
                for one in self.found
            ],
        }


def _cells(one: TunedRule) -> tuple[str, ...]:
    def price(rule: Rule | None) -> str:
        return "off" if rule is None else f"{rule.penalty:.3g}" if isinstance(rule, Soft) else "hard"

    e = one.effect
    told = ("", "", "") if e is None else (str(e.better), str(e.worse), f"{100 * e.gain:+.2f}")
    bare = one.written.rule if isinstance(one.written, Soft) else one.written
    return price(one.written), price(one.rule), str(one.gold_breaks), str(one.model_breaks), *told, str(bare)


def tune_rules(
    model: Tagger,
    rules: Iterable[Rule | str],
    X: Sequences,
    y: LabelLists,
    *,
    given: Sequence[Given] | Table | None = None,
    scores: Source = "auto",
    cross_fit: CrossFit | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    l1: float = L1,
    seed: int = 0,
    threads: int = 0,
    watch: Callable[[str], None] | None = None,
) -> TunedRules:
    """Find out how to use written rules with a model: which hard, which soft and at what price, which not at all.

    Parameters
    ----------
    model : Tagger
        A trained model.
    rules : iterable of Rule or str
        The rules as they were written, or sentences.
    X, y : sequence
        Labelled sequences, as for `Tagger.fit`: those that the model was trained on, or new ones.
    given : sequence of mapping, optional
        Values that rules refer to by name, a mapping per sequence.
    scores, cross_fit, groups
        Whose scores, as for `fit_rules`.
    l1 : float, default 1.0
        How much the log-likelihood must gain for a penalty of 1.
    seed : int, default 0
        Seed of the random number generator, which assigns folds and samples large data.
    threads : int, default 0
        Number of threads; 0 means all cores.
    watch : callable, optional
        Called with a sentence about what is being done.

    Returns
    -------
    TunedRules
        A row per rule, what they gain as written and as tuned, and the rules that label best (`rules`).

    Raises
    ------
    ModelError
        If the model is not trained, or a setting is invalid.
    RuleError
        If there are no rules.
    LabelError
        If `y` does not fit `X`, or has labels that the model does not know.

    Examples
    --------
    >>> import bridle
    >>> from bridle.data import references
    >>> train = references.references("acm", "lncs", count=40)
    >>> X, y = [e.columns for e in train], [e.labels for e in train]
    >>> model = bridle.CRF(features="fields", c1=0, c2=0.1, scheme="IO").fit(X, y)
    >>> written = ["starts with AUTHOR", "DATE before TITLE"]
    >>> [one.choice for one in bridle.learn.tune_rules(model, written, X, y).found]
    ['hard', 'off']
    """
    written = as_rules(rules)
    if not written:
        raise RuleError("there are no rules", got=shown(rules), wanted="a list of rules")
    positive("l1", l1)
    check_callable("watch", watch, "a function of a sentence")
    say = watch or (lambda text: None)
    scored = Scored.of(
        model, X, y, given, scores=scores, cross_fit=cross_fit, groups=groups, threads=threads, seed=seed, say=say
    )
    say(f"pricing {len(written)} rules on {len(scored):,} sequences")
    tuner = _Tuner(scored, written, l1)
    say("trying each rule hard, soft and off")
    variants, choices = tuner.choose(np.ones(len(scored), dtype=bool))
    say("comparing with no rules and with the rules as written")
    ways: dict[Ways, SequenceScores] = {
        "none": scored.judge(scored.decode([])),
        "written": scored.judge(scored.decode(written)),
        "tuned": scored.held_out(lambda use: _on(*tuner.choose(use))),
    }
    plain = ways["none"]
    return TunedRules(
        tuner.rows(variants, choices),
        _best({way: figures.quality for way, figures in ways.items()}),
        {way: figures.to_dict() for way, figures in ways.items()},
        {way: compared(plain, figures)["exact"] for way, figures in ways.items() if way != "none"},
        len(scored),
        len(set(scored.fold.tolist())),
        scored.source,
        model.fingerprint_,
    )


def _best(quality: dict[Ways, npt.NDArray[np.float64]]) -> Ways:
    """Tuned rules, unless they do not beat none or those as written are significantly better."""
    written = Comparison.of(quality["tuned"], quality["written"])
    if quality["tuned"].mean() > quality["none"].mean() and not (written.gain > 0 and written.p < _SURE):
        return "tuned"
    return "written" if quality["written"].mean() > quality["none"].mean() else "none"


Variants = list[dict[Choice, Rule | None]]  # of each rule: what it is for each choice


def _on(variants: Variants, choices: Sequence[Choice], but: int | None = None) -> list[Rule]:
    """The rules that are on; without one of them, if it is named."""
    chosen = (one[choice] for r, (one, choice) in enumerate(zip(variants, choices, strict=True)) if r != but)
    return [rule for rule in chosen if rule is not None]


class _Tuner:
    """Written rules on scored sequences."""

    def __init__(self, scored: Scored, rules: Sequence[Rule], l1: float) -> None:
        self._scored, self._rules, self._l1 = scored, list(rules), l1
        self._pricing = Pricing(scored, rules, l1=l1, significance=1.0)
        self._prices = self._pricing.learn()
        count, given = counter(rules, scored.labels, threads=scored.threads), scored.asked_by(rules)
        self._gold: npt.NDArray[np.bool_] = count(scored.gold, scored.offsets, given) > 0  # (B, R)  does gold break it?
        self._model: npt.NDArray[np.bool_] = count(scored.decode([]), scored.offsets, given) > 0

    def choose(self, use: Bools) -> tuple[Variants, list[Choice]]:
        """What to do with each rule, judged on some of the sequences."""
        l1 = self._l1 * float(use.mean())
        prices = fit(self._pricing.candidates, l1=l1, start=self._prices, use=use)
        variants = [self._variants(r, prices, use) for r in range(len(self._rules))]
        choices: list[Choice] = ["hard" if self._starts_hard(r, use) else "soft" for r in range(len(self._rules))]
        best = self._quality(variants, choices, use)
        for r, mine in enumerate(variants):
            for other in mine:
                if mine[other] is not mine[choices[r]]:
                    tried = [*choices[:r], other, *choices[r + 1 :]]
                    quality = self._quality(variants, tried, use)
                    seen = Comparison.of(best, quality)
                    if seen.gain > 0 and seen.p < _SURE:
                        choices, best = tried, quality
        return variants, choices

    def rows(self, variants: Variants, choices: Sequence[Choice]) -> tuple[TunedRule, ...]:
        """What became of each rule."""
        everywhere = np.ones(len(self._scored), dtype=bool)
        best = self._quality(variants, choices, everywhere)
        out = []
        for r, (mine, choice) in enumerate(zip(variants, choices, strict=True)):
            rule, effect = mine[choice], None
            if rule is not None:
                d = best - self._scored.quality(_on(variants, choices, but=r), everywhere)
                effect = Effect(None, float(d.mean()), int((d > 0).sum()), int((d < 0).sum()))
            gold, model = int(self._gold[:, r].sum()), int(self._model[:, r].sum())
            out.append(TunedRule(self._rules[r], choice if rule is not None else "off", rule, gold, model, effect))
        return tuple(out)

    def _starts_hard(self, r: int, use: Bools) -> bool:
        return not isinstance(self._rules[r], Soft) and not self._gold[use, r].any()

    def _variants(self, r: int, prices: Prices, use: Bools) -> dict[Choice, Rule | None]:
        """A soft rule may become hard if gold never breaks it; a hard one may stay so in any case."""
        written, penalty = self._rules[r], float(f"{prices.penalties[r]:.3g}")
        made: dict[Choice, Rule | None] = {"soft": priced(written, penalty) if penalty > 0 else None, "off": None}
        if not isinstance(written, Soft):
            made["hard"] = written
        elif not self._gold[use, r].any():
            made["hard"] = written.rule
        return made

    def _quality(self, variants: Variants, choices: Sequence[Choice], use: Bools) -> npt.NDArray[np.float64]:
        """Of some sequences."""
        return self._scored.quality(_on(variants, choices), use)


__all__ = ["TunedRule", "TunedRules", "tune_rules"]
