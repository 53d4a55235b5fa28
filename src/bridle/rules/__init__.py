"""Rules: what must hold of a labelling. Declare, combine, check, print and parse them; engines find labellings.

>>> from bridle import rules as r
>>> print(r.at_most(1, of="TITLE"))
at most 1 segment of TITLE
>>> print(r.before("AUTHOR", "TITLE").soft(2.3))
AUTHOR before TITLE  [penalty 2.3]
>>> print(r.present("A0") >> r.label_at(r.given("verb"), "O"))
(present A0) implies (label at given verb is O)

A name is a label or, under BIO and similar schemes, a segment type (`LabelSpec`). `at` takes a position (negative ones
count from the end), a list of positions, ``given("key")``, or a condition on tokens (`Position`): ``tokens(regex)``,
which can look at another column (``column=``), a list (``phrases=``) and the neighbours (``after=``, ``before=``), or
``first_token()`` and ``last_token()``. Any other argument is a `RuleError`.
"""

from bridle.rules.arcs import automaton
from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import matches
from bridle.rules.conditions import first_token, last_token, phrases, tokens
from bridle.rules.counts import at_least, at_most, exactly, length, no_duplicates
from bridle.rules.documents import in_document
from bridle.rules.equal import same_label_for_equal
from bridle.rules.loading import load, parse_lines
from bridle.rules.order import before, ends_with, first_before, followed_by, if_present, present, starts_with
from bridle.rules.positions import (
    allow,
    around,
    fix,
    forbid,
    forbid_transition,
    immediately_followed_by,
    label_at,
    same_label,
    well_formed,
)
from bridle.rules.references import LabelSpec, Position, Spans, given
from bridle.rules.text import parse

__all__ = [
    "LabelSpec",
    "Position",
    "Rule",
    "Soft",
    "Spans",
    "allow",
    "around",
    "at_least",
    "at_most",
    "automaton",
    "before",
    "ends_with",
    "exactly",
    "first_before",
    "first_token",
    "fix",
    "followed_by",
    "forbid",
    "forbid_transition",
    "given",
    "if_present",
    "immediately_followed_by",
    "in_document",
    "label_at",
    "last_token",
    "length",
    "load",
    "matches",
    "no_duplicates",
    "parse",
    "parse_lines",
    "phrases",
    "present",
    "same_label",
    "same_label_for_equal",
    "starts_with",
    "tokens",
    "well_formed",
]
