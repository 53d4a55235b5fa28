"""Answers about the server itself, and what Label Studio asks and gets."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from bridle.data.tokenizer import Tokens
from bridle.serve.schemas import Names, Number

# ---- the server -----------------------------------------------------------------------------------------------------


class ModelAnswer(Struct, kw_only=True):
    """What the server has."""

    name: str
    version: str
    fingerprint: str
    labels: Names
    scheme: str | None
    types: Names
    columns: Names
    takes_text: bool
    tokens: Tokens  # how texts are split
    rules: str
    rule_sets: Names
    sample_texts: Names
    sample: bool
    limits: dict[str, float]


class HealthAnswer(Struct):
    """The server is up."""

    status: Literal["UP"]
    model: str


# ---- Label Studio ---------------------------------------------------------------------------------------------------


class PredictRequest(Struct):
    """Tasks of Label Studio; other fields that it sends are ignored."""

    tasks: list[dict[str, Any]]
    label_config: str | None = None


class Prediction(Struct, kw_only=True):
    """The regions of a task."""

    model_version: str
    score: Number
    result: list[dict[str, Any]]


class PredictAnswer(Struct):
    """A prediction per task."""

    results: list[Prediction]


class SetupAnswer(Struct):
    """The version of the model, as Label Studio shows it."""

    model_version: str


class WebhookAnswer(Struct):
    """Nothing is trained here: annotations are acknowledged and forgotten."""

    status: Literal["ignored"]
