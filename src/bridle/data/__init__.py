"""Files in and out: scores (npz, JSON lines) and lines of output that stay whole."""

from bridle.data.output import Lines
from bridle.data.scores import Chunk, Pace, ScoreFile, open_scores, save_scores

__all__ = ["Chunk", "Lines", "Pace", "ScoreFile", "open_scores", "save_scores"]
