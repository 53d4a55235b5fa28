"""Random labels, rules, lattices and whole problems, small enough to be checked by enumeration.

Two doors: plain functions of a numpy Generator (fast; the same seed gives the same problem), and hypothesis strategies
at the end of the file. Values that rules ask for (`given`) are made together with the rules.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator

import bridle.rules as r
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft

Values = dict[str, Any]  # what comes with a sequence
Maker = Callable[[Generator, Labels, int, Values, int], Rule]

SOAK = os.environ.get("BRIDLE_SOAK", "0") not in ("", "0")


def rounds(usual: int) -> int:
    """Return the number of random cases to try: fifty times as many in a soak."""
    return usual * 50 if SOAK else usual


def seeds(usual: int, key: int = 0) -> Iterator[Generator]:
    """Generators with fixed seeds, other ones for other keys."""
    return (np.random.default_rng([key, seed]) for seed in range(rounds(usual)))


def labellings(n: int, m: int) -> Iterator[tuple[int, ...]]:
    """All label sequences of length n."""
    return itertools.product(range(m), repeat=n)


def _chance(rng: Generator, share: float) -> bool:
    return bool(rng.random() < share)


def _pick(rng: Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


# ---- labels -----------------------------------------------------------------------------------------------------

_POOLS: dict[str | None, list[list[str]]] = {
    None: [["O", "A", "B", "C", "D"]],
    "IO": [["O", "A", "B", "C"], ["O", "I-A", "I-B", "C"], ["O", "A", "I-A", "B"]],
    "BIO": [["O", "B-X", "I-X", "B-Y", "I-Y"], ["O", "B", "I"]],
    "BIOES": [["O", "B-X", "I-X", "E-X", "S-X"], ["O", "B-X", "E-X", "S-Y", "B-Y", "E-Y"]],
    "BMES": [["B", "M", "E", "S"], ["O", "B-X", "M-X", "E-X", "S-X", "S-Y"]],
}


def random_labels(rng: Generator, m_max: int = 4) -> Labels:
    """One to m_max labels under any scheme, in any order; some tags of a scheme may lack."""
    scheme = _pick(rng, list(_POOLS))
    pool = _pick(rng, _POOLS[scheme])
    m = min(len(pool), int(rng.integers(1, m_max + 1)))
    return Labels([str(name) for name in rng.permutation(pool)[:m]], scheme)


# ---- what rules speak of ----------------------------------------------------------------------------------------

TEXT_COLUMNS = ("tokens", "pos", "a column")  # columns of texts that rules look at
_TEXTS = ["a", "b7", "12345", "x/y", "", "("]
_PHRASES = ["a", "A", "b7 12345", "a a", "x/y a B7", ["("], "nothing", "a nothing"]
_PATTERNS = [r"\d{5}", r"[a-b].*", r"x/y|\(", r"\w*", r"nothing", r""]


def _put(given: Values, value: Any) -> Any:
    key = f"g{len(given)}"
    given[key] = value
    return r.given(key)


def _names(rng: Generator, labels: Labels, given: Values) -> Any:
    """A name, a list of names, given(...) or a list with given(...) in it."""
    known = sorted({*labels.names, *labels.types})
    some = [_pick(rng, known) for _ in range(int(rng.integers(1, 4)))]
    match int(rng.integers(8)):
        case 0:
            return some
        case 1:
            return _put(given, some[0])
        case 2:
            return _put(given, some if _chance(rng, 0.8) else [])
        case 3:
            return [_pick(rng, known), _put(given, some)]
    return some[0]


def _place(rng: Generator, n: int, given: Values) -> Any:
    """A position, a list of them, given(...) or tokens(...); without tokens only what names no position."""
    some = [int(rng.integers(-n, n)) for _ in range(int(rng.integers(0, 4)))] if n else []
    kind = int(rng.integers(7)) if n else int(rng.integers(4))
    if kind == 0:
        return some
    if kind == 1:
        return _put(given, np.array(some, dtype=np.int64) if _chance(rng, 0.3) else some)
    if kind == 2:
        given.setdefault("tokens", [_pick(rng, _TEXTS) for _ in range(n)])
        return r.tokens(_pick(rng, _PATTERNS))
    if kind == 3:
        return random_token_place(rng, n, given)
    item = int(rng.integers(-n, n))
    return _put(given, item) if kind == 4 else item


def random_token_place(rng: Generator, n: int, given: Values) -> Any:
    """A condition on tokens, in some column, with or without conditions on the neighbours."""
    after, before = (random_condition(rng, n, given) if _chance(rng, 0.3) else None for _ in range(2))
    if _chance(rng, 0.15):
        return r.first_token(before=before) if _chance(rng, 0.5) else r.last_token(after=after)
    return random_condition(rng, n, given, after=after, before=before)


def random_condition(rng: Generator, n: int, given: Values, **context: Any) -> Any:
    """A condition on tokens; the values that it looks at are added to `given`."""
    if not context and _chance(rng, 0.1):
        return r.first_token() if _chance(rng, 0.5) else r.last_token()
    column = _pick(rng, [None, None, *TEXT_COLUMNS[1:]])
    given.setdefault(column or "tokens", [_pick(rng, _TEXTS) for _ in range(n)])
    if _chance(rng, 0.4):
        return r.tokens(_pick(rng, _PATTERNS), column=column, **context)
    phrases = [_pick(rng, _PHRASES) for _ in range(int(rng.integers(1, 4)))]
    return r.tokens(phrases=phrases, ignoring=_pick(rng, [None, "case"]), column=column, **context)


def _spans(rng: Generator, n: int, given: Values) -> Any:
    """A span, a list of spans (which may overlap) or given(...)."""
    some = [tuple(sorted(int(t) for t in rng.integers(0, n + 1, 2))) for _ in range(int(rng.integers(0, 4)))]
    match int(rng.integers(4)):
        case 0:
            return some
        case 1:
            return _put(given, np.array(some, dtype=np.int64).reshape(-1, 2) if _chance(rng, 0.3) else some)
        case 2:
            return _put(given, (0, n))
    return (0, n) if not some else some[0]


def random_pattern(rng: Generator, names: list[str], depth: int = 2) -> str:
    """An expression over label names."""
    if depth == 0 or _chance(rng, 0.25):
        some = " ".join(_pick(rng, names) for _ in range(int(rng.integers(1, 3))))
        return str(_pick(rng, [_pick(rng, names), _pick(rng, names), ".", f"[{some}]", f"[^{some}]"]))
    parts = [random_pattern(rng, names, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    whole = f"({_pick(rng, [' ', '|', ' | ']).join(parts)})"
    return whole + str(_pick(rng, ["", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}"]))


def random_arcs(rng: Generator, labels: Labels) -> str:
    """A deterministic automaton over names that share no label; some arcs and final states have weights."""
    names: list[str] = []
    for name in rng.permutation(sorted({*labels.names, *labels.types})):
        if all(labels.matching(str(name)).isdisjoint(labels.matching(other)) for other in names):
            names.append(str(name))
    size = int(rng.integers(1, 4))
    lines = []
    for state in range(size):
        some = [name for name in [*names, "?"] if _chance(rng, 0.6)]
        lines += [f"{state} {rng.integers(size)} {name}{_pick(rng, ['', '', ' 1', ' 2'])}" for name in some]
    lines += [f"{state}{_pick(rng, ['', ' 1'])}" for state in range(size) if _chance(rng, 0.6)]
    return "; ".join([*lines, f"{size}"])  # the last one may not be reached


# ---- rules ------------------------------------------------------------------------------------------------------


def _unit(rng: Generator) -> Any:
    return _pick(rng, ["segments", "tokens"])


def _small(rng: Generator) -> int:
    return int(rng.integers(0, 4))


def _everywhere_or(rng: Generator, n: int, g: Values) -> Any:
    return None if _chance(rng, 0.3) else _place(rng, n, g)


def _length(rng: Generator, labels: Labels, n: int, g: Values, depth: int) -> Rule:
    low, high = _pick(rng, [(1, None), (2, None), (3, None), (None, 1), (None, 2), (1, 2), (2, 2), (3, 1)])
    return r.length(_names(rng, labels, g), at_least=low, at_most=high)


def _equal(rng: Generator, labels: Labels, n: int, g: Values, depth: int) -> Rule:
    g.setdefault("tokens", [_pick(rng, _TEXTS) for _ in range(n)])
    which = None if _chance(rng, 0.5) else r.tokens(_pick(rng, _PATTERNS))
    return r.same_label_for_equal(which, case=_pick(rng, ["exact", "ignored"]))


def _part(rng: Generator, labels: Labels, n: int, g: Values, depth: int) -> Rule:
    """A part of a formula: often an atom, so that the formulas say something."""
    if _chance(rng, 0.4):
        return RULE_KINDS[_pick(rng, ["LabelAt", "Present"])](rng, labels, n, g, depth)
    return random_rule(rng, labels, n, g, depth=depth - 1)[0]


def _pair(join: Callable[[Rule, Rule], Rule]) -> Maker:
    def make(rng: Generator, labels: Labels, n: int, g: Values, depth: int) -> Rule:
        return join(_part(rng, labels, n, g, depth), _part(rng, labels, n, g, depth))

    return make


BOOLEAN_KINDS: dict[str, Maker] = {
    "And": _pair(lambda a, b: a & b),
    "Or": _pair(lambda a, b: a | b),
    "Implies": _pair(lambda a, b: a >> b),
    "Iff": _pair(lambda a, b: a.iff(b)),
    "Not": lambda rng, labels, n, g, depth: ~_part(rng, labels, n, g, depth),
}

RULE_KINDS: dict[str, Maker] = {
    "Forbid": lambda rng, labels, n, g, _d: r.forbid(_names(rng, labels, g), _everywhere_or(rng, n, g)),
    "Allow": lambda rng, labels, n, g, _d: r.allow(_names(rng, labels, g), _everywhere_or(rng, n, g)),
    "Fix": lambda rng, labels, n, g, _d: r.fix(_names(rng, labels, g), _place(rng, n, g)),
    "LabelAt": lambda rng, labels, n, g, _d: r.label_at(_place(rng, n, g), _names(rng, labels, g)),
    "ForbidTransition": lambda rng, labels, n, g, _d: r.forbid_transition(
        _names(rng, labels, g), _names(rng, labels, g)
    ),
    "WellFormed": lambda rng, labels, n, g, _d: r.well_formed(),
    "AtMost": lambda rng, labels, n, g, _d: r.at_most(_small(rng), _names(rng, labels, g), _unit(rng)),
    "AtLeast": lambda rng, labels, n, g, _d: r.at_least(_small(rng), _names(rng, labels, g), _unit(rng)),
    "Exactly": lambda rng, labels, n, g, _d: r.exactly(_small(rng), _names(rng, labels, g), _unit(rng)),
    "NoDuplicates": lambda rng, labels, n, g, _d: r.no_duplicates(_names(rng, labels, g)),
    "Length": _length,
    "Present": lambda rng, labels, n, g, _d: r.present(_names(rng, labels, g)),
    "IfPresent": lambda rng, labels, n, g, _d: r.if_present(_names(rng, labels, g), then=_names(rng, labels, g)),
    "SameLabel": lambda rng, labels, n, g, _d: r.same_label(_spans(rng, n, g)),
    "ImmediatelyFollowedBy": lambda rng, labels, n, g, _d: r.immediately_followed_by(
        _names(rng, labels, g), _names(rng, labels, g)
    ),
    "FollowedBy": lambda rng, labels, n, g, _d: r.followed_by(_names(rng, labels, g), _names(rng, labels, g)),
    "Around": lambda rng, labels, n, g, _d: r.around(
        _place(rng, n, g), left=_names(rng, labels, g), right=_names(rng, labels, g)
    ),
    "StartsWith": lambda rng, labels, n, g, _d: r.starts_with(_names(rng, labels, g)),
    "EndsWith": lambda rng, labels, n, g, _d: r.ends_with(_names(rng, labels, g)),
    "Before": lambda rng, labels, n, g, _d: r.before(_names(rng, labels, g), _names(rng, labels, g)),
    "FirstBefore": lambda rng, labels, n, g, _d: r.first_before(_names(rng, labels, g), _names(rng, labels, g)),
    "SameLabelForEqual": _equal,
    "Automaton": lambda rng, labels, n, g, _d: r.automaton(random_arcs(rng, labels)),
    "Matches": lambda rng, labels, n, g, _d: r.matches(random_pattern(rng, sorted({*labels.names, *labels.types}))),
    **BOOLEAN_KINDS,
}


def random_rule(
    rng: Generator, labels: Labels, n: int, given: Values | None = None, depth: int = 2, kind: str | None = None
) -> tuple[Rule, Values]:
    """A hard rule (of one kind, if named) for sequences of n tokens, and the values it asks for.

    Pass one dict as `given` to collect the values of several rules. depth bounds the nesting of formulas.
    """
    values = {} if given is None else given
    if kind is None:
        kind = _pick(rng, [k for k in RULE_KINDS if depth > 0 or k not in BOOLEAN_KINDS])
    return RULE_KINDS[kind](rng, labels, n, values, depth), values


def random_soft(rng: Generator, rule: Rule) -> Soft:
    """The rule with a penalty on a coarse grid, 0 among them; halves add up exactly, tenths do not."""
    penalty = _pick(rng, [float(rng.integers(0, 9)) / 2, float(rng.integers(0, 41)) / 10])
    return rule.soft(penalty, _pick(rng, ["sequence", "violation"]))


# ---- lattices and problems --------------------------------------------------------------------------------------


def random_scores(rng: Generator, shape: tuple[int, ...], impossible: float = 0.0) -> np.ndarray[Any, Any]:
    """Halves between -2 and 2, so that ties are frequent and sums are exact; a share of them -inf."""
    scores = rng.integers(-4, 5, shape) / 2
    return np.where(rng.random(shape) < impossible, -np.inf, scores)


def random_lattice(rng: Generator, n: int, m: int, impossible: float | None = None) -> Lattice:
    """Scores of n positions x m labels; pairwise none, shared or per position; start and end now and then."""
    if impossible is None:
        impossible = float(_pick(rng, [0.0, 0.0, 0.05, 0.25]))
    shapes = {
        "unary": (n, m),
        "pairwise": _pick(rng, [None, (m, m), (max(n - 1, 0), m, m)]),
        "start": _pick(rng, [None, (m,)]),
        "end": _pick(rng, [None, (m,)]),
    }
    kind = np.float32 if _chance(rng, 0.3) else np.float64
    parts = {
        name: None if shape is None else random_scores(rng, shape, impossible).astype(kind)
        for name, shape in shapes.items()
    }
    return Lattice(**parts)


def random_problem(
    rng: Generator,
    n_max: int = 6,
    m_max: int = 4,
    n_rules: int | None = None,
    *,
    mode: str | None = None,
    depth: int = 1,
    kinds: list[str] | None = None,
) -> tuple[Labels, list[Rule], Lattice, Values]:
    """Labels, rules, a lattice of 0 to n_max tokens and what the rules ask for.

    mode: "hard", "soft" or "mixed" (None: one of the three). kinds: the names of RULE_KINDS to choose from (None: all).
    """
    labels = random_labels(rng, m_max)
    n = int(rng.integers(0, n_max + 1))
    given: Values = {}
    mode = _pick(rng, ["hard", "soft", "mixed"]) if mode is None else mode
    soft_share = {"hard": 0.0, "soft": 1.0, "mixed": 0.5}[mode]
    rules: list[Rule] = []
    for _ in range(int(rng.integers(0, 4)) if n_rules is None else n_rules):
        rule, _ = random_rule(rng, labels, n, given, depth, _pick(rng, kinds) if kinds else None)
        rules.append(random_soft(rng, rule) if _chance(rng, soft_share) else rule)
    return labels, rules, random_lattice(rng, n, len(labels)), given


# ---- hypothesis -------------------------------------------------------------------------------------------------

generators: st.SearchStrategy[Generator] = st.integers(0, 2**32 - 1).map(np.random.default_rng)
problems = generators.map(random_problem)
label_sets = generators.map(random_labels)

_ODD = [
    "at",
    "given",
    "is",
    "not",
    "of",
    "tokens",
    "#",
    "a b",
    'say "x"',
    "back\\slash",
    "a/b",
    "/x/",
    "(",
    "[",
    ",",
    "-1",
    "3:4",
    "\n",
    "\r\n",
    "\t",
    "\u2028",
    "\\n",
    "é",
    "'",
    "{k}",
    "[penalty 2]",
    "nowhere",
    " ",
]
odd_names = st.sampled_from(_ODD) | st.text(min_size=1, max_size=6)  # what a label may be called
penalties = st.floats(0, 1e290)
token_patterns = st.sampled_from(
    [r"\d{5}", "/", r"\/", r"a\\/b", r"\\", r"[/\]]", r"(?i)st\.", "a\nb", "\\\n", "#", '"', r"\"", "", " x ", r"\\\/"]
) | st.text(alphabet='ab/\\"#\n .', max_size=6).filter(lambda p: _compiles(p))


def _compiles(pattern: str) -> bool:
    import re

    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


@st.composite
def rules_and_values(draw: st.DrawFn, n_max: int = 4, depth: int = 2) -> tuple[Labels, int, Rule, Values]:
    """Labels, a length, a hard rule and what it asks for."""
    rng = draw(generators)
    kind = draw(st.sampled_from(sorted(RULE_KINDS)))
    labels, n = random_labels(rng), draw(st.integers(0, n_max))
    return labels, n, *random_rule(rng, labels, n, depth=depth, kind=kind)
