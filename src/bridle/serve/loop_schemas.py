"""Requests and answers of the explorer's own endpoints: corrections, tuning, learning and files."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from bridle.serve.schemas import Error, Gain, Names, Pair, Request, RulesRequest

# ---- corrections, prices and new rules ------------------------------------------------------------------------------


class SuggestRequest(RulesRequest, kw_only=True):
    """A label that tokens of a sequence should have: tokens at[0] to at[1] - 1. Effects are measured on `data`."""

    columns: dict[str, Names]
    at: Pair
    label: str
    data: str | None = None


class Suggestion(Struct):
    """A rule that repairs the labels.

    `price` is what the score of the sequence loses. On the data: `gold_breaks` counts sequences whose gold labels break
    the rule, `right` and `wrong` the tokens that it makes so, and `changed` lists the sequences that it changes.
    """

    rule: str
    reason: str
    price: float
    gold_breaks: int | None
    right: int | None
    wrong: int | None
    gain: Gain | None
    changed: list[int]


class SuggestAnswer(Struct):
    """Suggestions, the best first, the best labels with the correction, and why there are no suggestions."""

    suggestions: list[Suggestion]
    labels: Names
    message: str


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


class JobRequest(RulesRequest, kw_only=True):
    """Work on labelled data: tune all rules, tune the rule of a line, or learn rules."""

    kind: Literal["tune", "learn"]
    data: str
    line: int | None = None


class JobQuestion(Request, kw_only=True):
    """A job that POST /jobs started, and whether it has to stop."""

    job: str
    stop: bool = False


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
    right: int | None
    wrong: int | None
    gain: Gain | None
    changed: list[int]


class LearnResult(Struct, tag="learn"):
    """Learned rules, the most useful first."""

    rules: list[LearnedLine]
    verdict: str
    notes: Names


class JobAnswer(Struct):
    """State of a job; `message` says what it does at the moment."""

    job: str
    state: Literal["running", "done", "failed", "stopped"]
    message: str
    seconds: float
    result: TuneResult | LearnResult | None = None
    error: Error | None = None


# ---- files ----------------------------------------------------------------------------------------------------------


class RulesFile(Struct):
    """The .rules file that the page edits. `text` is null if there is no such file yet."""

    name: str
    text: str | None
    fingerprint: str


class SaveRequest(Request, kw_only=True):
    """Rules to write into the file, which must have this fingerprint unless `overwrite` is true."""

    text: str
    fingerprint: str
    overwrite: bool = False


class OpenRequest(Request, kw_only=True):
    """A model that `bridle train` wrote, in base64."""

    name: str
    content: bytes
