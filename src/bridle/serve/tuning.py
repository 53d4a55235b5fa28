"""Prices and new rules: curves of F1 against a penalty, tuned rules, learned rules. All take labelled data.

Scores of sequences that the model was trained on are too good to judge rules by. `fair_data` scores them by models that
have not seen them, as `tune_rules` and `fit_rules` do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from bridle.deadline import Deadline, check_stopped
from bridle.learn.evidence import penalty_of, priced
from bridle.learn.fitted import fit_rules
from bridle.learn.judged import SEEN, scores_of
from bridle.learn.trials import Trial
from bridle.learn.tuned import tune_rules
from bridle.rules.base import Rule, Soft
from bridle.rules.documents import hard_part
from bridle.serve.data_cache import Data
from bridle.serve.errors import HttpError
from bridle.serve.evaluation import Additions, GoldData, RuleEffect
from bridle.serve.schemas import Names, RulesRequest
from bridle.serve.service import RuleText

Say = Callable[[str], None]
_PENALTIES = (0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0)
_MOST_LEARNED = 30  # rules that are offered
_LITTLE = 0.0005  # a gain in F1 below this is none
_ADVICE = {"none": "these rules do not help", "written": "use the rules as written", "tuned": "use the tuned rules"}


class CurvesRequest(RulesRequest, kw_only=True):
    """Soft rules, or the rules of these lines, for which F1 is measured under several penalties."""

    data: str
    lines: list[int] | None = None
    budget: Annotated[float, Meta(ge=0)] = 2.0


class CurvePoint(Struct):
    """F1 under a penalty (null: the rule is hard; 0: it is off), and its gain over the rule switched off."""

    penalty: float | None
    f1: float
    low: float
    high: float
    gain: float


class Curve(Struct):
    """F1 against the penalty of the rule of a line, and the penalty with the highest F1."""

    line: int
    points: list[CurvePoint]
    best: float | None


class CurvesAnswer(Struct):
    """Curves. `seen`: the model was trained on the data, so that penalties look worse than they are."""

    curves: list[Curve]
    seen: bool
    complete: bool


class TunedLine(Struct):
    """A rule as it was written and as it is best used; gain in quality among the others."""

    line: int
    written: str
    choice: Literal["hard", "soft", "off"]
    rule: str | None
    gain: float | None
    better: int | None
    worse: int | None


class TuneResult(Struct, tag="tune"):
    """Tuned rules. `best`: the rules as tuned, as written, or no rules label held-out sequences best."""

    rules: list[TunedLine]
    best: Literal["none", "written", "tuned"]
    verdict: str
    notes: Names
    curve: Curve | None


class LearnedLine(Struct):
    """A learned rule, its evidence, and what it adds to the rules that are there."""

    rule: str
    evidence: str
    penalty: float | None
    effect: RuleEffect


class LearnResult(Struct, tag="learn"):
    """Learned rules, the most useful first."""

    rules: list[LearnedLine]
    verdict: str
    notes: Names


def fair_data(data: Data, say: Say = lambda text: None) -> GoldData:
    """Return the data with scores of models that have not seen it; computed once, which can take a while."""
    if data.fair is None:
        X, y = _labelled(data)
        service = data.service
        say("finding out whether the model was trained on this data")
        scores = scores_of(service.tagger, X, y, threads=1, say=say)
        kept = scores.sequences.tolist()
        given = [{**X[k], "tokens": X[k][service.main]} for k in kept]
        data.fair = GoldData(service.labels, scores.lattices, [y[k] for k in kept], given)
    return data.fair


def _labelled(data: Data) -> tuple[list[dict[str, list[str]]], list[list[Any]]]:
    """Return columns and labels of the sequences whose labels are all known to the model."""
    known = set(data.service.labels)
    labelled = [each for each in data.examples if each.labels and known.issuperset(each.labels)]
    if len(labelled) < 2:
        wanted = "two sequences or more with a label of the model for each token"
        raise HttpError(422, "data", "the data has too few labels to learn from", wanted=wanted)
    X = [{name: list(values) for name, values in each.columns.items()} for each in labelled]
    return X, [list(each.labels or ()) for each in labelled]


# ---- curves ---------------------------------------------------------------------------------------------------------


def draw_curves(data: Data, rules: RuleText, lines: Sequence[int] | None, budget: float) -> CurvesAnswer:
    """Return F1 for several penalties of each soft rule, or of the rules of some lines, the others kept as they are."""
    deadline, curves = Deadline.after(budget), list[Curve]()
    share = data.service.tagger.share_seen([dict(example.columns) for example in data.examples])
    seen = data.fair is None and share is not None and share >= SEEN
    gold = data.fair or data.gold
    if gold.counts is None:
        raise HttpError(422, "data", "the data has no gold labels", wanted="labelled data")
    for k, (rule, line) in enumerate(zip(rules.rules, rules.lines, strict=True)):
        if (line not in lines) if lines is not None else not isinstance(rule, Soft):
            continue
        if deadline.passed():
            return CurvesAnswer(curves, seen, False)
        curves.append(_curve(gold, rules.rules, k, line, data.service.limits.of_trial))
    return CurvesAnswer(curves, seen, True)


def _curve(gold: GoldData, rules: Sequence[Rule], k: int, line: int, options: dict[str, Any]) -> Curve:
    rule = rules[k]
    others = Additions(gold, [*rules[:k], *rules[k + 1 :]], **options)
    penalties = sorted({*_PENALTIES, *([rule.penalty] if isinstance(rule, Soft) else [])} - {0.0})
    trials: list[tuple[float | None, Trial]] = [(0.0, others.base)]
    for penalty in penalties:
        check_stopped()
        trials.append((penalty, others.best(priced(rule, penalty))))
    trials.append((None, others.best(hard_part(rule))))
    points = []
    for price, trial in trials:
        quality, gain = gold.quality(trial), gold.f1_gain(others.base, trial)
        if quality is not None and gain is not None:
            points.append(CurvePoint(price, quality.f1, gain.low, gain.high, gain.gain))
    best = max(points, key=lambda point: (round(point.gain, 6), -math.inf if point.penalty is None else -point.penalty))
    return Curve(line, points, best.penalty)


# ---- jobs -----------------------------------------------------------------------------------------------------------


def _tune_line(data: Data, rules: RuleText, line: int, say: Say) -> TuneResult:
    """Choose the penalty of one rule, the others kept as they are: the best point of its curve."""
    if line not in rules.lines:
        raise HttpError(422, "line", f"line {line} has no rule", wanted="the line of a rule")
    gold = fair_data(data, say)
    say("trying penalties")
    k = rules.lines.index(line)
    rule = rules.rules[k]
    curve = _curve(gold, rules.rules, k, line, data.service.limits.of_trial)
    at = {point.penalty: point for point in curve.points}
    now = at[rule.penalty if isinstance(rule, Soft) else None]
    best = at[curve.best]
    if best.gain < now.gain + _LITTLE:
        best = now
    how = "off" if best.penalty == 0 else "hard" if best.penalty is None else "soft"
    tuned = None if best.penalty == 0 else hard_part(rule) if best.penalty is None else priced(rule, best.penalty)
    row = TunedLine(line, str(rule), how, None if tuned is None else str(tuned), best.gain, None, None)  # type: ignore[arg-type]
    worth = f"F1 {now.f1:.1%} now, {best.f1:.1%} with this choice"
    verdict = "this rule is best as it is" if best is now else f"{_named(how, best.penalty)}: {worth}"
    return TuneResult([row], "tuned" if best is not now else "written", verdict, [], curve)


def _named(how: str, penalty: float | None) -> str:
    return {"off": "switch it off", "hard": "make it hard"}.get(how, f"penalty {penalty:g}")


def tune(data: Data, rules: RuleText, line: int | None, say: Say) -> TuneResult:
    """Choose for all rules, or the rule of a line, whether they are hard, soft or off, by `tune_rules`."""
    if line is not None:
        return _tune_line(data, rules, line, say)
    X, y = _labelled(data)
    say("scoring the data")
    tuned = tune_rules(data.service.tagger, rules.rules, X, y, threads=1, watch=say)
    rows = [
        TunedLine(
            line,
            str(row.written),
            row.choice,
            None if row.rule is None else str(row.rule),
            None if row.effect is None else row.effect.gain,
            None if row.effect is None else row.effect.better,
            None if row.effect is None else row.effect.worse,
        )
        for line, row in zip(rules.lines, tuned.tuned, strict=True)
    ]
    shares = {way: f"{figures['f1']:.1%}" for way, figures in tuned.figures.items()}
    f1 = f"F1 {shares['tuned']} tuned, {shares['written']} as written, {shares['none']} without rules"
    return TuneResult(rows, tuned.best, f"{_ADVICE[tuned.best]}: {f1}, on sequences held out", list(tuned.notes), None)


def learn_more(data: Data, rules: RuleText, _line: int | None, say: Say) -> LearnResult:
    """Find rules by `fit_rules`, and measure what each adds to those that are there."""
    X, y = _labelled(data)
    say("scoring the data")
    fitted = fit_rules(data.service.tagger, X, y, threads=1, watch=say)
    known = {str(hard_part(rule)) for rule in rules.rules}
    additions = Additions(fair_data(data, say), rules.rules, **data.service.limits.of_trial)
    useful = list[tuple[float, LearnedLine]]()
    for k, item in enumerate(fitted.priced):
        rule = item.learned.rule
        if str(hard_part(rule)) in known:
            continue
        say(f"measuring rule {k + 1} of {len(fitted.priced)}")
        effect = additions.effect(rule)
        evidence = f"held in {item.learned.held} of {item.learned.of} sequences; {item.learned.kind}"
        penalty = None if penalty_of(rule) == float("inf") else penalty_of(rule)
        if effect.gain is not None and effect.gain.gain >= _LITTLE:
            useful.append((effect.gain.gain, LearnedLine(str(rule), evidence, penalty, effect)))
    useful.sort(key=lambda pair: -pair[0])
    return LearnResult([line for _, line in useful[:_MOST_LEARNED]], fitted.verdict, list(fitted.notes))
