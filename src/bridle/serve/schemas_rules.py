"""Requests and answers about rules, and about data that they are measured on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from bridle.serve.schemas import Names, Request, Ruled

# ---- rules ----------------------------------------------------------------------------------------------------------


class RulesText(Request, kw_only=True):
    """The text of a .rules file."""

    rules: str


class QuickFix(Struct):
    """A change of one line; null deletes it."""

    title: str
    line: int
    replacement: str | None


class FoundInRules(Struct):
    """What the linter found; line 0 is about all of the text."""

    line: int
    level: Literal["error", "warning", "info"]
    code: str
    message: str
    fix: QuickFix | None


class ReadRule(Struct):
    """A rule as it was read."""

    line: int
    rule: str
    sentence: str
    penalty: float | None
    per: Literal["sequence", "violation"] | None
    comment: str


class ExampleLine(Struct):
    """A test case in the rules."""

    line: int
    text: str


class CheckAnswer(Struct):
    """What is odd about rules, and what was read."""

    findings: list[FoundInRules]
    rules: list[ReadRule]
    examples: list[ExampleLine]


class TestedExample(Struct):
    """A test case and what came of it; `wrong` are the tokens with wrong labels."""

    line: int
    text: str
    passed: bool
    message: str
    tokens: Names
    labels: Names
    wrong: list[int]


class TestAnswer(Struct):
    """All test cases."""

    examples: list[TestedExample]


class SentenceForm(Struct):
    """A sentence that a rule can be written with."""

    sentence: str
    example: str
    summary: str


class SentencesAnswer(Struct):
    """All forms of rules."""

    sentences: list[SentenceForm]


# ---- data -----------------------------------------------------------------------------------------------------------


class DataRequest(Request, kw_only=True):
    """A file of sequences, as its text. Without `format`, the name and the first lines decide."""

    name: str
    text: str
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


class DataSequence(Struct):
    """One sequence of the data; null is a label that is not known. `columns`: if there are more than the tokens."""

    id: str | None
    tokens: Names
    labels: list[str | None] | None
    columns: dict[str, Names] | UnsetType = UNSET


class DataAnswer(Struct):
    """The data as it was read; `id` names it in /evaluate."""

    id: str
    format: str
    has_gold: bool
    sequences: list[DataSequence]
    warnings: list[str]


class EvaluateRequest(Ruled, kw_only=True):
    """Rules to measure on data that was sent before.

    After `budget` seconds, no further rule is tried alone and left out: `complete` is false then.
    """

    data: str
    budget: Annotated[float, Meta(ge=0)] | None = None


class Quality(Struct):
    """Shares from 0 to 1: right tokens, F1 of segments, sequences without a mistake."""

    accuracy: float
    f1: float
    all_right: float


class RuleFigures(Struct):
    """Sequences whose gold, plain and constrained labels break a rule; quality with it alone, and without it."""

    line: int | None
    rule: str
    gold: int | None
    plain: int
    best: int
    alone: Quality | None
    without: Quality | None
    changed: int | None


class EvaluateAnswer(Struct, kw_only=True):
    """What rules do to data. Sequences are numbered from 0."""

    sequences: int
    tokens: int
    none: Quality | None
    all: Quality | None
    rules: list[RuleFigures]
    changed: list[int]
    broken: list[int]
    improved: list[int]
    worse: list[int]
    relaxed: list[int]
    complete: bool
    seconds: float
