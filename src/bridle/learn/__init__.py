"""Rules from data: deterministic ones for single tokens, relational ones for whole sequences, and their weights."""

from bridle.learn.evidence import Learned, rules_of

__all__ = ["Learned", "rules_of"]
