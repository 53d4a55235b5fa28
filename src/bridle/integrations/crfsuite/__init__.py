"""CRFsuite: its model files in Bridle, and a tagger with the interface of python-crfsuite that takes rules.

Neither CRFsuite nor python-crfsuite is needed.
"""

from bridle.integrations.crfsuite.model import Info, from_sklearn, from_weights, load
from bridle.integrations.crfsuite.tagger import Tagger

__all__ = ["Info", "Tagger", "from_sklearn", "from_weights", "load"]
