"""Explanations of labellings: what the scores alone prefer, which rules changed it, and the price of each."""

from bridle.explain.documents import DocumentEffect, DocumentExplanation, Mention
from bridle.explain.explanation import Charge, Explanation, RuleEffect, explain
from bridle.explain.impact import Change, Impact, RuleImpact

__all__ = [
    "Change",
    "Charge",
    "DocumentEffect",
    "DocumentExplanation",
    "Explanation",
    "Impact",
    "Mention",
    "RuleEffect",
    "RuleImpact",
    "explain",
]
