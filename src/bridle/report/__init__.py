"""Reports: how good labellings are, and whether one system is better than another."""

from typing import TYPE_CHECKING, Any

from bridle.report.metrics import Counts, Scores, SegmentErrors
from bridle.report.scoring import score, segment_f1, sequence_accuracy, token_accuracy

if TYPE_CHECKING:
    from bridle.report.comparison import Difference, RuleEffect, System, SystemComparison, compare
else:

    def __getattr__(name: str) -> Any:  # models need scores only, and importing the rest takes long
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module 'bridle.report' has no attribute {name!r}")
        return getattr(import_module("bridle.report.comparison"), name)


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
