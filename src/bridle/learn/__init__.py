"""Rules from data: deterministic ones for single tokens, relational ones for whole sequences, and their weights."""

from bridle.learn.audit_result import Audit
from bridle.learn.auditing import audit, audit_model
from bridle.learn.compare import Comparison
from bridle.learn.constrained import ConstrainedTagger
from bridle.learn.decided import Decided
from bridle.learn.deterministic import DeterministicRules
from bridle.learn.evidence import Learned, rules_of
from bridle.learn.joint import JointWeights
from bridle.learn.pricing import Effect
from bridle.learn.relational import RelationalRules
from bridle.learn.relative import FittedRules, PricedRule, fit_rules
from bridle.learn.tuned import TunedRule, TunedRules, tune_rules
from bridle.learn.weights import from_counts, log_odds, violations

__all__ = [
    "Audit",
    "Comparison",
    "ConstrainedTagger",
    "Decided",
    "DeterministicRules",
    "Effect",
    "FittedRules",
    "JointWeights",
    "Learned",
    "PricedRule",
    "RelationalRules",
    "TunedRule",
    "TunedRules",
    "audit",
    "audit_model",
    "fit_rules",
    "from_counts",
    "log_odds",
    "rules_of",
    "tune_rules",
    "violations",
]
