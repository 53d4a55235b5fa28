"""Reports: how good labellings are."""

from bridle.report.metrics import Counts, Scores, SegmentErrors
from bridle.report.scoring import score, segment_f1, sequence_accuracy, token_accuracy

__all__ = ["Counts", "Scores", "SegmentErrors", "score", "segment_f1", "sequence_accuracy", "token_accuracy"]
