"""Requests and answers as typed structs: they validate JSON, and the OpenAPI description is generated from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, field

from bridle.data.tokenizer import Tokens
from bridle.tagging.figures import FIGURES

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
    """Sequences to label: exactly one of `text`, `texts`, `tokens` and `columns`.

    With `groups`, the document of each sequence, those of a document are labelled together; they are in a row.
    """

    text: str | None = None
    texts: list[str] | None = None
    tokens: list[Names] | None = None
    columns: list[dict[str, Names]] | None = None
    groups: list[str | int] | None = None
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


class LabelledSequence(Struct, kw_only=True):
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
    k_best: list[Ranked] | UnsetType = UNSET  # shorter than in files
    error: Error | UnsetType = UNSET


if TYPE_CHECKING:
    Result = LabelledSequence
else:  # with a field for each further figure
    _further = {name: figure for name, figure in FIGURES.items() if name not in LabelledSequence.__struct_fields__}
    Result = defstruct(
        "Result",
        [(name, figure.json | UnsetType | None, UNSET) for name, figure in _further.items()],
        bases=(LabelledSequence,),
        namespace={"__doc__": LabelledSequence.__doc__},
        module=__name__,
        kw_only=True,
    )


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
