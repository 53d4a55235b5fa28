"""Reports: how good labellings are."""

from bridle.report.confusion import SegmentErrors
from bridle.report.measures import segment_f1, sequence_accuracy, token_accuracy
from bridle.report.metrics import Counts, Scores
from bridle.report.scoring import score

__all__ = ["Counts", "Scores", "SegmentErrors", "score", "segment_f1", "sequence_accuracy", "token_accuracy"]
