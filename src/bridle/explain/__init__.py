"""Why this labelling: what the scores alone prefer, which rules changed it and what each of them cost.

why.py finds out, impact.py does so for a data set; picture.py, page.py and terminal.py show it, words.py says it.
"""

from bridle.explain.effects import Charge, RuleEffect
from bridle.explain.impact import Change, Impact, RuleImpact
from bridle.explain.why import Explanation, explain

__all__ = ["Change", "Charge", "Explanation", "Impact", "RuleEffect", "RuleImpact", "explain"]
