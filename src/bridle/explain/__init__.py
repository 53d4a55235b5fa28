"""Why this labelling: what the scores alone prefer, which rules bit, what each of them cost; of one sequence, of many.

why.py finds out, tolls.py does so for a data set; picture.py, page.py and terminal.py show it, words.py says it.
"""

from bridle.explain.tolls import Change, Survey, Toll, survey
from bridle.explain.why import Bite, Charge, Explanation, explain

__all__ = ["Bite", "Change", "Charge", "Explanation", "Survey", "Toll", "explain", "survey"]
