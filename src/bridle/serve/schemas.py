"""Requests and answers as typed structs: JSON is checked against them, and OpenAPI is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Names = list[str]
Rules = Annotated[
    str | list[str] | None,
    Meta(description="The text of a .rules file, or a list of sentences. Default: the rules of the server."),
]
RuleSet = Annotated[str | None, Meta(description='A rule set of the server by its name; "none": no rules.')]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Choice = Annotated[Literal["relax", "skip"], Meta(description="What to do if no labelling obeys the hard rules.")]
Number = float | None  # null: infinite, or unknown
Pair = Annotated[list[int], Meta(min_length=2, max_length=2)]


class Request(Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of requests: a name that is not known is an error, not silently ignored."""


class Ruled(Request, kw_only=True):
    """The base of requests that can bring rules along."""

    rules: Rules = None
    rule_set: RuleSet = None


# ---- errors ---------------------------------------------------------------------------------------------------------


class Error(Struct, kw_only=True):
    """What is wrong: what, what was got, what was wanted, the likely cause; and the place, if it is known."""

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
    """An answer with an error."""

    error: Error


# ---- labels ---------------------------------------------------------------------------------------------------------


class TagRequest(Ruled, kw_only=True):
    """Sequences to label: exactly one of `texts`, `tokens` and `columns`."""

    texts: list[str] | None = None
    tokens: list[Names] | None = None
    columns: list[dict[str, Names]] | None = None
    k: Count = 1
    probabilities: bool = False
    spans: bool = False
    tokens_out: bool = False
    on_infeasible: Choice = "relax"


class ScoredSequence(Request, kw_only=True):
    """Scores of one sequence; null stands for impossible."""

    unary: list[list[Number]]
    pairwise: list[list[Number]] | None = None
    start: list[Number] | None = None
    end: list[Number] | None = None
    tokens: Names | None = None
    given: dict[str, Any] = field(default_factory=dict)


class DecodeRequest(Ruled, kw_only=True):
    """Scores to decode under rules."""

    labels: Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(min_length=1)]
    sequences: list[ScoredSequence]
    scheme: Literal["IO", "BIO", "BIOES", "BMES"] | None = None
    k: Count = 1
    spans: bool = False
    on_infeasible: Choice = "relax"


class Violation(Struct):
    """A rule that a labelling breaks. The cost of a hard rule is null."""

    rule: str
    line: int | None
    times: int
    cost: Number


class Span(Struct):
    """A segment: characters of the text (null if there was none), and tokens; ends are exclusive."""

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
    """The labelling of a sequence; without one (status infeasible, nothing_found, error), `labels` is empty."""

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
    """Labels of all sequences, in their order."""

    model: str | None
    results: list[Result]


# ---- reasons --------------------------------------------------------------------------------------------------------


class ExplainRequest(Ruled, kw_only=True):
    """A sequence to explain: exactly one of `text`, `tokens` and `columns`."""

    text: str | None = None
    tokens: Names | None = None
    columns: dict[str, Names] | None = None
    gold: list[str] | None = None
    k: Annotated[int, Meta(ge=0, le=1_000_000)] = 5
    picture: bool = False


class PlainLabels(Struct):
    """The best labelling without rules, and the rules that it breaks."""

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
    """What one rule did: its price, the tokens that it changed, and the best labelling without it."""

    rule: str
    line: int | None
    broken_by_plain: int
    price: Number
    proved: bool
    at: list[int]
    without: Ranked | None


class RuleName(Struct):
    """A rule by its sentence, with its line."""

    rule: str
    line: int | None


class Alternative(Struct):
    """Another labelling under the rules, and how much it scores below the best."""

    labels: Names
    score: Number
    difference: Number


class Chances(Struct):
    """Probability of the label of each token: plain by the scores, best given the hard rules."""

    plain: list[float] | None
    best: list[float] | None


class ExplainAnswer(Struct, kw_only=True):
    """Why these labels."""

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
