"""Reports: how good labellings are, and whether one system is better than another."""

from bridle.report.comparison import Difference, RuleEffect, System, SystemComparison, compare
from bridle.report.metrics import Counts, Scores, SegmentErrors
from bridle.report.scoring import score, segment_f1, sequence_accuracy, token_accuracy

__all__ = [
    "Counts",
    "Difference",
    "RuleEffect",
    "Scores",
    "SegmentErrors",
    "System",
    "SystemComparison",
    "compare",
    "score",
    "segment_f1",
    "sequence_accuracy",
    "token_accuracy",
]
