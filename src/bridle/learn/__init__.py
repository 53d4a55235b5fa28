"""Rules from data: deterministic ones for single tokens, relational ones for whole sequences, and their weights."""

from bridle.learn.audit_result import Audit
from bridle.learn.auditing import audit, audit_model
from bridle.learn.constrained import ConstrainedTagger
from bridle.learn.decided import Decided
from bridle.learn.deterministic import DeterministicRules
from bridle.learn.evidence import Learned, rules_of
from bridle.learn.joint import JointWeights
from bridle.learn.relational import RelationalRules
from bridle.learn.weights import from_counts, log_odds, violations

__all__ = [
    "Audit",
    "ConstrainedTagger",
    "Decided",
    "DeterministicRules",
    "JointWeights",
    "Learned",
    "RelationalRules",
    "audit",
    "audit_model",
    "from_counts",
    "log_odds",
    "rules_of",
    "violations",
]
