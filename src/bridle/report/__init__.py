"""Reports: how good labellings are."""

from bridle.report.metrics import Counts, Scores, score

__all__ = ["Counts", "Scores", "score"]
