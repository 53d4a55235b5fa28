"""Requests and answers as typed structs: they validate JSON, and the OpenAPI description is generated from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from bridle.data.tokenizer import Tokens

Names = list[str]
Rules = Annotated[
    str | list[str] | None,
    Meta(description="Text of a .rules file, or a list of sentences. Default: the rules of the server."),
]
RuleSet = Annotated[str | None, Meta(description='Name of a rule set of the server; "none" applies no rules.')]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Choice = Annotated[Literal["relax", "skip"], Meta(description="Action if no labelling obeys the hard rules.")]
Number = float | None  # null: infinite, or unknown
Pair = Annotated[list[int], Meta(min_length=2, max_length=2)]


class Request(Struct, forbid_unknown_fields=True, kw_only=True):
    """Base class of requests; unknown fields are errors."""


class RulesRequest(Request, kw_only=True):
    """Base class of requests that can contain rules."""

    rules: Rules = None
    rule_set: RuleSet = None


# ---- errors ---------------------------------------------------------------------------------------------------------


class Error(Struct, kw_only=True):
    """An error: what is wrong, the value received, the value expected, the likely cause and the location."""

    code: str
    what: str
    got: str | None = None
    wanted: str | None = None
    cause: str | None = None
    where: str | None = None
    sequence: int | None = None
    rule: str | None = None
    line: int | None = None


class Failure(Struct):
    """Response to a request that failed."""

    error: Error


# ---- labels ---------------------------------------------------------------------------------------------------------


class TagRequest(RulesRequest, kw_only=True):
    """Sequences to label: exactly one of `text`, `texts`, `tokens` and `columns`."""

    text: str | None = None
    texts: list[str] | None = None
    tokens: list[Names] | None = None
    columns: list[dict[str, Names]] | None = None
    k: Count = 1
    probabilities: bool = False
    spans: bool = False
    tokens_out: bool = False
    on_infeasible: Choice = "relax"


class ScoredSequence(Request, kw_only=True):
    """Scores of one sequence; null means impossible."""

    unary: list[list[Number]]
    pairwise: list[list[Number]] | None = None
    start: list[Number] | None = None
    end: list[Number] | None = None
    tokens: Names | None = None
    given: dict[str, Any] = field(default_factory=dict)


class DecodeRequest(RulesRequest, kw_only=True):
    """Scores to decode under rules."""

    labels: Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(min_length=1)]
    sequences: list[ScoredSequence]
    scheme: Literal["IO", "BIO", "BIOES", "BMES"] | None = None
    k: Count = 1
    spans: bool = False
    on_infeasible: Choice = "relax"


class Violation(Struct):
    """A rule that a labelling violates. The cost of a hard rule is null."""

    rule: str
    line: int | None
    times: int
    cost: Number


class Span(Struct):
    """A segment as character offsets (null without a text) and token offsets; ends are exclusive."""

    start: int | None
    end: int | None
    label: str
    text: str | None
    start_token: int
    end_token: int


class Ranked(Struct):
    """One of the best labellings."""

    labels: Names
    score: Number


class Result(Struct, kw_only=True):
    """Labelling of a sequence; `labels` is empty if the status is infeasible, nothing_found or error."""

    labels: Names
    status: Literal["optimal", "limit", "relaxed", "infeasible", "nothing_found", "error"]
    score: Number = None
    bound: Number = None
    penalty: Number = 0.0
    violated: list[Violation] = field(default_factory=list)
    spans: list[Span] | UnsetType = UNSET
    tokens: Names | UnsetType = UNSET
    offsets: list[Pair] | UnsetType = UNSET
    probabilities: list[float] | UnsetType | None = UNSET
    k_best: list[Ranked] | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class TagAnswer(Struct):
    """Results in the order of the sequences, with the fingerprints of the model and of the rules."""

    model: str | None
    rules: str
    results: list[Result]


# ---- explanations ---------------------------------------------------------------------------------------------------


class ExplainRequest(RulesRequest, kw_only=True):
    """A sequence to explain: exactly one of `text`, `tokens` and `columns`."""

    text: str | None = None
    tokens: Names | None = None
    columns: dict[str, Names] | None = None
    gold: list[str] | None = None
    k: Annotated[int, Meta(ge=0, le=1_000_000)] = 5
    picture: bool = False


class PlainLabels(Struct):
    """The best labelling without rules, and the rules that it violates."""

    labels: Names
    score: Number
    violated: list[Violation]


class BestLabels(Struct):
    """The best labelling under the rules."""

    labels: Names
    score: Number
    bound: Number
    penalty: Number
    optimal: bool
    status: Literal["optimal", "limit", "relaxed", "infeasible", "nothing_found"]
    violated: list[Violation]


class Effect(Struct):
    """Effect of one rule: its price, the tokens that it changed, and the best labelling without it."""

    rule: str
    line: int | None
    broken_by_plain: int
    price: Number
    proved: bool
    at: list[int]
    without: Ranked | None


class RuleName(Struct):
    """Sentence and line of a rule."""

    rule: str
    line: int | None


class Alternative(Struct):
    """Another labelling under the rules; `difference` is its distance from the best score."""

    labels: Names
    score: Number
    difference: Number


class Chances(Struct):
    """Probability of each label: `plain` under the scores alone, `best` given the hard rules."""

    plain: list[float] | None
    best: list[float] | None


class ExplainAnswer(Struct, kw_only=True):
    """Explanation of the labels of a sequence; `rules` is the fingerprint of the rules."""

    rules: str
    tokens: Names
    offsets: list[Pair] | None
    plain: PlainLabels
    best: BestLabels
    changed: list[int]
    cost: Number
    effects: list[Effect]
    clash: list[RuleName]
    alternatives: list[Alternative]
    alternatives_missing: str
    probabilities: Chances
    gold: Names | None
    svg: str | UnsetType = UNSET


# ---- rules ----------------------------------------------------------------------------------------------------------


class RulesText(Request, kw_only=True):
    """The text of a .rules file."""

    rules: str


class QuickFix(Struct):
    """Replacement of one line; null deletes the line."""

    title: str
    line: int
    replacement: str | None


class RuleFinding(Struct):
    """Finding of the linter; line 0 refers to the text as a whole."""

    line: int
    level: Literal["error", "warning", "info"]
    code: str
    message: str
    fix: QuickFix | None


class ParsedRule(Struct):
    """A rule and its parts."""

    line: int
    rule: str
    sentence: str
    penalty: float | None
    per: Literal["sequence", "violation"] | None
    comment: str


class ExampleLine(Struct):
    """Test case in a text of rules."""

    line: int
    text: str


class CheckAnswer(Struct):
    """Findings of the linter, rules and test cases of a text."""

    findings: list[RuleFinding]
    rules: list[ParsedRule]
    examples: list[ExampleLine]


class TestedExample(Struct):
    """Result of a test case; `wrong` lists the tokens with wrong labels."""

    line: int
    text: str
    passed: bool
    message: str
    tokens: Names
    labels: Names
    wrong: list[int]


class TestAnswer(Struct):
    """Results of all test cases."""

    examples: list[TestedExample]


class SentenceForm(Struct):
    """Form of a sentence, such as ``at most {k} segments of {labels}``, with an example that can be parsed."""

    sentence: str
    example: str
    summary: str


class SentencesAnswer(Struct):
    """All forms of sentences."""

    sentences: list[SentenceForm]


# ---- data -----------------------------------------------------------------------------------------------------------


class DataRequest(Request, kw_only=True):
    """Text of a data file. Without `format`, the format is detected from the name and the first lines."""

    name: str
    text: str
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


class DataSequence(Struct):
    """A sequence; a missing label is null. `columns` is present if there are columns besides the tokens.

    `text` and `starts`, the characters at which tokens begin, are present if the data has texts.
    """

    id: str | None
    tokens: Names
    labels: list[str | None] | None
    columns: dict[str, Names] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    starts: list[int] | UnsetType = UNSET


class DataAnswer(Struct):
    """Sequences of the data; `id` identifies them in /evaluate."""

    id: str
    format: str
    has_gold: bool
    sequences: list[DataSequence]
    warnings: list[str]


class EvaluateRequest(RulesRequest, kw_only=True):
    """Rules to evaluate on uploaded data.

    After `budget` seconds, no further rule is tried alone or left out, and `complete` is false.
    """

    data: str
    budget: Annotated[float, Meta(ge=0)] | None = None


class Quality(Struct):
    """Token accuracy, F1 of segments, and share of sequences without a mistake."""

    accuracy: float
    f1: float
    all_right: float


class Gain(Struct):
    """Gain in F1 with its 95 % bootstrap interval; sequences whose segments became better, and worse."""

    gain: float
    low: float
    high: float
    better: int
    worse: int


class Mistake(Struct):
    """A gold label and the one that was found instead, with its cause.

    "model": the label is the same without rules. "rules": the label without rules was right. "both": the rules changed
    a wrong label to another wrong one.
    """

    gold: str
    guess: str
    cause: Literal["model", "rules", "both"]
    count: int
    sequences: list[int]


class RuleSequences(Struct):
    """Sequences whose gold labels, labels without rules and labels under all rules violate a rule; those it changed."""

    gold: list[int] | None
    plain: list[int]
    best: list[int]
    changed: list[int] | None


class RuleFigures(Struct):
    """Figures of one rule.

    `gold`, `plain` and `best` count the sequences whose gold labels, labels without rules and labels under all rules
    violate it; `changed` counts the sequences whose labels depend on it. `alone` is the quality with this rule only,
    `without` the quality with all others; `gain` compares that with all rules, and `at` lists the sequences behind the
    counts. Null: no gold labels, or the time was up.
    """

    line: int | None
    rule: str
    gold: int | None
    plain: int
    best: int
    alone: Quality | None
    without: Quality | None
    changed: int | None
    gain: Gain | None
    at: RuleSequences


class EvaluateAnswer(Struct, kw_only=True):
    """Effect of rules on data, with sequences by number from 0.

    `none` is the quality without rules, `all` with all of them. `broken` lists the sequences whose labels without rules
    violate one; `improved` and `worse` those with more and fewer correct tokens; `relaxed` those in which no labelling
    obeys the hard rules.
    """

    sequences: int
    tokens: int
    none: Quality | None
    all: Quality | None
    gain: Gain | None
    rules: list[RuleFigures]
    changed: list[int]
    broken: list[int]
    improved: list[int]
    worse: list[int]
    relaxed: list[int]
    errors: list[int] | None
    errors_without: list[int] | None
    mistakes: list[Mistake]
    complete: bool
    seconds: float


# ---- the server -----------------------------------------------------------------------------------------------------


class ModelAnswer(Struct, kw_only=True):
    """Model, rules and limits of the server."""

    name: str
    version: str
    fingerprint: str
    labels: Names
    scheme: str | None
    types: Names
    columns: Names
    takes_text: bool
    tokens: Tokens
    rules: str
    rule_sets: Names
    sample_texts: Names
    sample: bool
    sample_name: str
    first: int
    workspace: bool
    rules_file: str | None
    limits: dict[str, float]


class ModelsAnswer(Struct):
    """All models of the server; requests that name none get the first one."""

    models: list[ModelAnswer]


class ReadyAnswer(Struct):
    """Names of the models that are loaded."""

    status: Literal["READY"]
    models: Names


class HealthAnswer(Struct):
    """State of the server."""

    status: Literal["UP"]
    model: str


# ---- Label Studio ---------------------------------------------------------------------------------------------------


class PredictRequest(Struct):
    """Tasks of Label Studio; other fields are ignored."""

    tasks: list[dict[str, Any]]
    label_config: str | None = None


class Prediction(Struct, kw_only=True):
    """Regions of a task.

    `probability` is that of its least probable token under the model alone, `probability_with_rules` given the hard
    rules. `score` is the former, minus 1 if a rule changed a label.
    """

    model_version: str
    score: Number
    result: list[dict[str, Any]]
    probability: Number = None
    probability_with_rules: Number = None
    changed_by_rules: bool = False


class PredictAnswer(Struct):
    """One prediction per task."""

    results: list[Prediction]


class SetupAnswer(Struct):
    """Version of the model, as Label Studio shows it."""

    model_version: str


class WebhookAnswer(Struct):
    """Acknowledgement of an event: was its annotation stored? The server does not train models."""

    status: Literal["stored", "ignored"]
