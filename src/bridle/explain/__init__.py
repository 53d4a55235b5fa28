"""Why this labelling: what the scores alone prefer, which rules changed it and what each of them cost.

why.py finds out, impact.py does so for a data set; picture.py, page.py and terminal.py show it, words.py says it.
"""

from bridle.explain.explanation import Charge, Explanation, RuleEffect, explain
from bridle.explain.impact import Change, Impact, RuleImpact

__all__ = ["Change", "Charge", "Explanation", "Impact", "RuleEffect", "RuleImpact", "explain"]
