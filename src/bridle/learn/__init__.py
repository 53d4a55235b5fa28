"""Rules from data: deterministic ones for single tokens, relational ones for whole sequences, and their weights."""

from bridle.learn.constrained import ConstrainedTagger
from bridle.learn.decided import Decided
from bridle.learn.deterministic import DeterministicRules
from bridle.learn.evidence import Learned, rules_of

__all__ = ["ConstrainedTagger", "Decided", "DeterministicRules", "Learned", "rules_of"]
