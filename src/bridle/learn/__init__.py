"""Rules from data: deterministic ones for single tokens, relational ones for whole sequences, and their weights."""

from bridle.learn.active import Suggested, suggest
from bridle.learn.auditing import Audit, audit, audit_model
from bridle.learn.estimate import Estimate, estimate_accuracy
from bridle.learn.evidence import Learned, from_counts, log_odds, rules_of, violations
from bridle.learn.fitted import FittedRules, PricedRule, fit_rules
from bridle.learn.joint import JointWeights
from bridle.learn.pricing import Effect
from bridle.learn.relational import RelationalRules
from bridle.learn.scores import Scores, cross_fit
from bridle.learn.tuned import TunedRule, TunedRules, tune_rules
from bridle.models.constrained import ConstrainedTagger
from bridle.models.deterministic import Decided, DeterministicRules
from bridle.report.significance import Comparison

__all__ = [
    "Audit",
    "Comparison",
    "ConstrainedTagger",
    "Decided",
    "DeterministicRules",
    "Effect",
    "Estimate",
    "FittedRules",
    "JointWeights",
    "Learned",
    "PricedRule",
    "RelationalRules",
    "Scores",
    "Suggested",
    "TunedRule",
    "TunedRules",
    "audit",
    "audit_model",
    "cross_fit",
    "estimate_accuracy",
    "fit_rules",
    "from_counts",
    "log_odds",
    "rules_of",
    "suggest",
    "tune_rules",
    "violations",
]
