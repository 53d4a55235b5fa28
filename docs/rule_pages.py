"""A page for every kind of rule, made from the library: sentence, meaning, examples, automaton, linear rows."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from automaton_picture import draw_automaton
from rule_kinds import KINDS, Kind

import bridle
from bridle import rules
from bridle.automata import DFA, CountingAutomaton
from bridle.decoding.problem import Limits
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules
from bridle.rules.linear import lower
from bridle.rules.linear_program import TABLE, Case, Program

TOKENS = ["12345", "saw", "12345", "Bob"]
EXAMPLE = 4  # tokens of the labellings that are shown
SHORT = 3  # tokens of the program that is shown
MOST_ROWS = 12


@dataclass(frozen=True)
class Subject:
    """A kind with the rule that stands for it."""

    kind: Kind
    rule: Rule
    labels: bridle.Labels

    @classmethod
    def of(cls, kind: Kind) -> Subject:
        return cls(kind, rules.parse(kind.sentence), bridle.Labels(kind.labels, scheme=kind.scheme))

    @property
    def hard(self) -> Rule:
        return self.rule.rule if isinstance(self.rule, Soft) else self.rule

    @property
    def arguments(self) -> dict[str, str]:
        """Labels of the example by the names that the function has for them."""
        call = ast.parse(self.kind.call, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return {}
        names = inspect.signature(getattr(rules, call.func.id)).parameters
        passed = [*zip(names, call.args, strict=False), *((word.arg or "", word.value) for word in call.keywords)]
        return {name: arg.value for name, arg in passed if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}

    def given(self, n: int) -> dict[str, Any]:
        """Return the values that come with a sequence of n tokens."""
        return {"tokens": TOKENS[:n], "verb": 1, "spot": 2, "phrases": [(0, 2)]}


# ---- examples -------------------------------------------------------------------------------------------------------


def labellings(subject: Subject) -> dict[tuple[str, ...], int]:
    """All labellings of a few tokens, with their violations."""
    given = subject.given(EXAMPLE)
    every = product(subject.labels.names, repeat=EXAMPLE)
    return {y: subject.rule.violations(y, subject.labels, given) for y in every}


def closest(violations: dict[tuple[str, ...], int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """One that holds and one that does not, one label apart, with as many different labels as there are."""
    names = sorted({y for labelling in violations for y in labelling})
    pairs = [
        (good, bad)
        for good, count in violations.items()
        if not count
        for t in range(len(good))
        for bad in ((*good[:t], y, *good[t + 1 :]) for y in names)
        if violations[bad]
    ]
    return max(pairs, key=lambda pair: (len(set(pair[0])), len(set(pair[1])), -violations[pair[1]]))


def examples(subject: Subject) -> Iterator[str]:
    """The table of labellings."""
    violations = labellings(subject)
    good, bad = closest(violations)
    asked = {key for place in subject.rule.places() for key in place.keys}
    came = ", ".join(f"`{key}` = `{value}`" for key, value in subject.given(EXAMPLE).items() if key in asked)
    scheme = f" (scheme {subject.kind.scheme})" if subject.kind.scheme else ""
    yield f"Over the labels {', '.join(subject.labels.names)}{scheme}{f', with {came}' if came else ''}:"
    yield from ("", "| labelling | `violations` |", "|---|---|")
    yield f"| `{' '.join(good)}` | 0 (obeys the rule) |"
    yield f"| `{' '.join(bad)}` | {violations[bad]} (breaks the rule) |"
    held = sum(not count for count in violations.values())
    yield from ("", f"{held} of the {len(violations)} possible labellings of {EXAMPLE} tokens obey the rule.", "")


# ---- the automaton --------------------------------------------------------------------------------------------------


def automaton(subject: Subject) -> DFA:
    """Build the automaton of a rule. If the rule names places, it reads each label once elsewhere and once there."""
    rule, m = subject.hard, len(subject.labels)
    marks = (0, 1) if rule.places() else (0,)
    sets = tuple(names.resolve(subject.labels, {}) for names in rule.names())
    whole = DFA.everything(m * len(marks))
    for automaton in rule.automata(sets, subject.labels):
        automaton = CountingAutomaton.build(automaton, m, marks).by_label()
        dead = automaton.n_states
        step = np.where(automaton.violations > 0, dead, automaton.step)  # (K, S, m)
        step = np.concatenate([step, np.full((len(marks), 1, m), dead)], axis=1)
        flat = step.transpose(1, 0, 2).reshape(dead + 1, -1).astype(np.int64)
        whole &= DFA(flat, np.append(automaton.final == 0, False))
    return whole


def picture(subject: Subject) -> str:
    """Draw the automaton as SVG, on white: an image of a page does not know whether the page is dark."""
    places = ("elsewhere", "there") if subject.hard.places() else ("",)
    title = f"automaton: {subject.hard}"
    svg = draw_automaton(automaton(subject), subject.labels.names, places=places, title=title)
    return svg.replace("height:auto", "height:auto;background:#fff", 1) + "\n"


# ---- linear rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Rows that a rule adds to the integer program of a short sequence, in words."""

    equation: str  # the general form; empty: a flow through the automaton
    lines: tuple[str, ...]


def linear_rows(subject: Subject, formulation: Any) -> Rows:
    """The rows of a rule over the trellis of a short sequence."""
    given, m = subject.given(SHORT), len(subject.labels)
    program = Program(SHORT, m)
    first_row, first_column = program.n_rows, program.n_columns
    lower(program, subject.rule, subject.labels, given, formulation)
    said = equation(subject, formulation)
    words = Words(program, subject.labels.names, first_column, own_names(said, program.n_columns - first_column))
    starts, columns, coefs = program.matrix()
    lows, highs = program.limits
    lines = list(words.shut())
    for row in range(first_row, program.n_rows):
        part = slice(starts[row], starts[row + 1] if row + 1 < len(starts) else None)
        terms = dict(zip(columns[part].tolist(), coefs[part].tolist(), strict=True))
        if terms:
            lines.append(words.row(terms, float(lows[row]), float(highs[row])))
    return Rows(said, (*dict.fromkeys(lines), *words.prices()))


def equation(subject: Subject, formulation: Any) -> str:
    """The first sentence of the lowering that takes the rule; empty if none does."""
    soft = subject.rule if isinstance(subject.rule, Soft) else None
    for name in ("paper", "tight") if formulation == "paper" else ("tight",):
        make = TABLE.get((type(subject.hard), name))
        if make is None:
            continue
        sets = tuple(names.resolve(subject.labels, {}) for names in subject.hard.names())
        price: dict[str, Any] = {"price": soft.penalty, "per": soft.per} if soft is not None else {}
        program = Program(SHORT, len(subject.labels))
        case = Case(program, subject.hard, subject.labels, subject.given(SHORT), sets, **price)
        if make(case):
            text = (inspect.getdoc(make) or "One row.").partition("\n\n")[0]
            text = text.replace("RY ", "Roth & Yih, ").replace("Fersini (", "Fersini et al., (")
            return _of_the_example(text, subject)
    return ""


def own_names(said: str, count: int) -> list[str]:
    """The columns that a rule makes, as its equation calls them: seen[0], seen[1], ...; or z1, z2, ..."""
    by_token = re.match(r"(\w+)\[t\]:", said)
    if by_token and count == SHORT:
        return [f"{by_token[1]}[{t}]" for t in range(count)]
    return ["w"] if count == 1 and re.search(r"\bw\b", said) else [f"z{k + 1}" for k in range(count)]


class Words:
    """Columns and rows of a program, as people write them."""

    def __init__(self, program: Program, names: tuple[str, ...], own: int, own_names: list[str]) -> None:
        self.program, self.names, self.own, self.own_names = program, names, own, own_names

    def column(self, c: int) -> str:
        """An edge x[t, before -> label], or a column that the rule has made."""
        p = self.program
        if c >= self.own:
            return self.own_names[c - self.own]
        t, j = p.pos[c], self.names[p.dst[c]]
        return f"v[0,{j}]" if p.src[c] == p.m else f"x[{t},{self.names[p.src[c]]}→{j}]"

    def gathered(self, terms: dict[int, float]) -> Iterator[tuple[str, float]]:
        """Terms of a sum; all edges into a label at a position, equally weighed, are v[t, label]."""
        p, left = self.program, dict(terms)
        for t, j in product(range(p.n), range(p.m)):
            into = np.flatnonzero((p.pos == t) & (p.dst == j)).tolist()
            weights = {left.get(c) for c in into}
            if len(weights) == 1 and (weight := weights.pop()) is not None:
                yield f"v[{t},{self.names[j]}]", weight
                for c in into:
                    del left[c]
        yield from ((self.column(c), weight) for c, weight in left.items())

    def row(self, terms: dict[int, float], low: float, high: float) -> str:
        """An inequality without minus signs."""
        weights = list(self.gathered(terms))
        left = [_times(weight, name) for name, weight in weights if weight > 0]
        right = [_times(-weight, name) for name, weight in weights if weight < 0]
        sign = "=" if low == high else "≤"
        if high > 0:
            right.append(f"{high:g}")
        elif high < 0:
            left.append(f"{-high:g}")
        if not left or (left == [f"{-high:g}"] and sign == "≤"):
            return f"{' + '.join(right)} {'≥' if sign == '≤' else '='} {' + '.join(left) or '0'}"
        return f"{' + '.join(left)} {sign} {' + '.join(right) or '0'}"

    def shut(self) -> Iterator[str]:
        """Edges that may not be used."""
        closed = dict.fromkeys(np.flatnonzero(self.program.edge_upper == 0).tolist(), 1.0)
        yield from (f"{name} = 0" for name, _ in self.gathered(closed))

    def prices(self) -> Iterator[str]:
        """Yield the penalties of columns."""
        costs = {c: float(price) for c, price in enumerate(self.program.price) if price}
        yield from (f"{name} costs {weight:g}" for name, weight in self.gathered(costs))


def _times(weight: float, name: str) -> str:
    return name if weight == 1 else f"{weight:g} {name}"


def shown_rows(subject: Subject) -> Iterator[str]:
    """The part of the page about linear rows."""
    tight, paper = linear_rows(subject, "tight"), linear_rows(subject, "paper")
    yield f"The rule adds these rows to the integer program of a sequence of {SHORT} tokens. `x[t,i→j]` is 1 if token"
    yield "t-1 has label i and token t has label j. `v[t,y]` is 1 if token t has label y. The rule may add columns."
    for name, rows in (("tight", tight), ("paper", paper)):
        if name == "paper" and rows == tight:
            yield from ("", '`formulation="paper"` gives the same rows.', "")
            continue
        yield from ("", f'### `formulation="{name}"`', "")
        said = (
            f"``{rows.equation}``"
            if rows.equation
            else "This kind has no rows of its own. One unit flows through its automaton."
        )
        yield from (said, "")
        most = rows.lines[:MOST_ROWS]
        more = [f"... and {len(rows.lines) - len(most)} more"] if len(rows.lines) > len(most) else []
        yield from ("```text", *(most or ["no rows: every labelling obeys the rule"]), *more, "```", "")


# ---- pages ----------------------------------------------------------------------------------------------------------


def meaning(subject: Subject) -> str:
    """Return the beginning of the docstring of the function or class, with the labels of the example."""
    text = inspect.getdoc(getattr(rules, subject.kind.name, type(subject.rule))) or ""
    return subject.kind.summary or _of_the_example(re.split(r"\n\n\w+\n---+\n", text)[0], subject)


def definition(subject: Subject) -> str:
    """Return the definition of a violation, from the section Returns of the function's docstring."""
    text = inspect.getdoc(getattr(rules, subject.kind.name, None)) or ""
    said = re.search(r"\nReturns\n---+\nRule\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    return _of_the_example(" ".join(said[1].split()), subject) if said else ""


def _of_the_example(text: str, subject: Subject) -> str:
    """A text with the labels of the example where it says a and b; "a" is a word, too."""
    passed = subject.arguments
    named = {name: passed[name] for name in ("a", "b", "then", "left", "right") if name in passed}
    if "then" in passed:
        named["b"] = passed["then"]  # so equations call it
    for name, label in named.items():
        bare = {"a": r"|\ba\b(?= has| occurs|\.|\])", "b": r"|\bb\b"}.get(name, rf"|(?<=, ){name}(?=\])")
        text = re.sub(rf"`{name}`{bare}", label, text)
    return text.replace("a A ", "an A ")


def absorbed(subject: Subject) -> str:
    """Describe the cost of a rule for an engine."""
    if CompiledRules(subject.labels, [subject.rule], Limits().native()).absorbed()[0]:
        return "Bridle folds this rule into the scores before decoding, so it costs no search."
    sets = tuple(names.resolve(subject.labels, {}) for names in subject.hard.names())
    automata = subject.hard.automata(sets, subject.labels)
    if all(automaton.count is not None for automaton in automata):
        return "This automaton only counts. When the best path breaks the rule, one multiplier per count gives a bound."
    return "When the best path breaks the rule, the engine `search` folds this automaton into the lattice."


def page(kind: Kind) -> str:
    """The page of one kind, as Markdown."""
    subject = Subject.of(kind)
    lines = [
        f"# {kind.title}",
        "",
        meaning(subject),
        "",
        "| in Python | in a `.rules` file |",
        "|---|---|",
        f"| `{_cell(kind.call)}` | `{_cell(kind.sentence)}` |",
        "",
        f"**When to use it.** {kind.use}",
        "",
        "## Holds and breaks",
        "",
        definition(subject),
        "",
        *examples(subject),
        "## Automaton",
        "",
        f"![The automaton of this rule]({kind.name}.svg)",
        "",
        _caption(subject),
        "",
        "## Linear rows",
        "",
        *shown_rows(subject),
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")  # a bar ends the cell of a table, code or not


def _caption(subject: Subject) -> str:
    places = " *There* marks the places that the rule names." if subject.hard.places() else ""
    drawn = "States with a double ring accept. A transition that is not drawn breaks the rule."
    return f"{drawn}{places} {absorbed(subject)}"


def pages() -> dict[str, str]:
    """All pages and their pictures, by file name."""
    pages = {f"{kind.name}.md": page(kind) for kind in KINDS}
    return pages | {f"{kind.name}.svg": picture(Subject.of(kind)) for kind in KINDS}
