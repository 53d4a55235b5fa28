"""Models that give scores to labels: training, use and files."""

from typing import TYPE_CHECKING, Any

from bridle.models.crf import CRF
from bridle.models.folds import CrossFit
from bridle.models.loading import from_bytes, load
from bridle.models.local import LocalTagger
from bridle.models.tagger import Tagger
from bridle.models.training import Progress, Step
from bridle.models.tuning import Trial, Tuning, TuningTimeWarning

if TYPE_CHECKING:
    from bridle.models.halving import Candidate, Search, search
    from bridle.models.validation import CrossValidation, Fold, Spread, cross_validate
else:
    _HOMES = {
        **dict.fromkeys(("Candidate", "Search", "search"), "halving"),
        **dict.fromkeys(("CrossValidation", "Fold", "Spread", "cross_validate"), "validation"),
    }

    def __getattr__(name: str) -> Any:  # tagging does not need them, and importing them takes long
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'bridle.models' has no attribute {name!r}")
        return getattr(import_module(f"bridle.models.{_HOMES[name]}"), name)


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
    "TuningTimeWarning",
    "cross_validate",
    "from_bytes",
    "load",
    "search",
]
