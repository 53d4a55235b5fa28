"""Models that give scores to labels: how they are trained, used, kept in files."""

from bridle.models.crf import CRF
from bridle.models.crossfit import CrossFit
from bridle.models.local import LocalTagger
from bridle.models.search_result import Candidate, Search
from bridle.models.searching import search
from bridle.models.tagger import Tagger, from_bytes, load
from bridle.models.training import Progress, Step
from bridle.models.tuning import Trial, Tuning
from bridle.models.validation import CrossValidation, Fold, Spread, cross_validate

__all__ = [
    "CRF",
    "Candidate",
    "CrossFit",
    "CrossValidation",
    "Fold",
    "LocalTagger",
    "Progress",
    "Search",
    "Spread",
    "Step",
    "Tagger",
    "Trial",
    "Tuning",
    "cross_validate",
    "from_bytes",
    "load",
    "search",
]
