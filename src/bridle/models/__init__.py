"""Models that give scores to labels: how they are trained, used, kept in files."""

from bridle.models.crf import CRF
from bridle.models.local import LocalTagger
from bridle.models.tagger import Tagger, load
from bridle.models.training import Progress, Step

__all__ = ["CRF", "LocalTagger", "Progress", "Step", "Tagger", "load"]
