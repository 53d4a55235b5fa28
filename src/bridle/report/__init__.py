"""Reports: how good labellings are."""

from bridle.report.metrics import Counts, Scores
from bridle.report.scoring import score

__all__ = ["Counts", "Scores", "score"]
