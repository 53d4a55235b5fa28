"""Models that give scores to labels: how they are trained, used, kept in files."""

from bridle.models.crf import CRF
from bridle.models.crossfit import CrossFit
from bridle.models.local import LocalTagger
from bridle.models.tagger import Tagger, from_bytes, load
from bridle.models.training import Progress, Step
from bridle.models.tuning import Trial, Tuning

__all__ = ["CRF", "CrossFit", "LocalTagger", "Progress", "Step", "Tagger", "Trial", "Tuning", "from_bytes", "load"]
