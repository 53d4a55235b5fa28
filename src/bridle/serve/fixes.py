"""Quick fixes for what the linter finds, and rule sentences to choose from while typing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import getdoc

from bridle.rules.examples import RuleExample
from bridle.rules.lint import Finding
from bridle.rules.sentences import Sentence, Slot, quote, sentences, shown_name

_LONGEST = 60  # characters of a title


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to one line that removes a finding."""

    title: str  # what it does, for a button
    line: int  # from 1
    replacement: str | None  # the new line; None: delete it


@dataclass(frozen=True, slots=True)
class Completion:
    """A sentence that a rule can be written with."""

    sentence: str  # with slots: at most {k} segments of {labels}
    example: str  # a line that can be parsed: at most 1 segment of TITLE
    summary: str  # one line


def fix_of(finding: Finding, lines: Sequence[str]) -> Fix | None:
    """The quick fix for a finding about these lines of text, if it has an obvious one.

    >>> from bridle.rules.lint import lint
    >>> lines = ["at most one segment of TITLE  # no more", "TITLE before DATE", "TITLE before DATE"]
    >>> [fix_of(finding, lines) for finding in lint(lines)][:2]  # doctest: +NORMALIZE_WHITESPACE
    [Fix(title='Change to: at most 1 segment of TITLE  # no more', line=1,
         replacement='at most 1 segment of TITLE  # no more'),
     Fix(title='Delete this line', line=3, replacement=None)]
    """
    if finding.suggestion is None or not 0 < finding.line <= len(lines):
        return None
    if not finding.suggestion:
        return Fix("Delete this line", finding.line, None)
    text = finding.suggestion
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return Fix(f"Change to: {shown}", finding.line, text)


# ---- completion -------------------------------------------------------------------------------------------------


_FORMULAS = (
    ("not ({rule})", "not (present {0})", "The rule does not hold."),
    ("({rule}) and ({rule})", "(present {0}) and (present {1})", "Both rules hold."),
    ("({rule}) or ({rule})", "(present {0}) or (present {1})", "At least one of the two rules holds."),
    (
        "({rule}) implies ({rule})",
        "(present {0}) implies (starts with {0})",
        "If the first rule holds, so does the second.",
    ),
    ("({rule}) iff ({rule})", "(present {0}) iff (present {1})", "Both rules hold, or neither does."),
    ("{rule}  [penalty {number}]", "present {0}  [penalty 2.5]", "A soft rule: a sequence that breaks it pays this."),
    (
        "{rule}  [penalty {number} per violation]",
        "at most 1 segment of {0}  [penalty 2.5 per violation]",
        "A soft rule: each violation pays this.",
    ),
)


def completions(labels: Sequence[str] = ("AUTHOR", "TITLE")) -> list[Completion]:
    """All sentences of rules, with examples about the first two of these labels.

    >>> print(*[one.example for one in completions() if "at most {k}" in one.sentence])
    at most 1 segment of AUTHOR
    """
    a, b = [*labels, "AUTHOR", "TITLE"][:2] if len(labels) != 1 else (labels[0], labels[0])
    names = shown_name(a), shown_name(b)
    made = [Completion(_shown(s), _example(s, names), _summary(s)) for s in sentences()]
    made += [Completion(text, example.format(*names), summary) for text, example, summary in _FORMULAS]
    return [*made, *_test_cases(a)]


def _test_cases(label: str) -> Iterator[Completion]:
    has = RuleExample("first second", "has", ((label, "first"),))
    yield Completion(
        "example {text} has {label} {phrase}", str(has), "A test case: these segments are among those that are found."
    )
    one = RuleExample("first second", "is", ((label, "first second"),))
    yield Completion(
        "example {text} is {label} {phrase}", str(one), "A test case: these segments are found, and no others."
    )


_FIELDS = {"of": "labels", "label": "labels", "at": "place", "span": "spans", "pattern": "expression"}


def _shown(sentence: Sentence) -> str:
    """The sentence for people: the names of slots without their types."""

    def piece(one: str | Slot) -> str:
        if isinstance(one, str):
            return one
        plain = {"unit": "segments", "equal": "tokens"}.get(one.type)
        return plain or "{" + _FIELDS.get(one.field, one.field) + "}"

    return " ".join(map(piece, sentence.pieces))


def _example(sentence: Sentence, names: tuple[str, str]) -> str:
    """A rule with this sentence."""
    labels, numbers, words = iter([*names, names[0]]), iter(("1", "5")), []
    for piece in sentence.pieces:
        if isinstance(piece, str):
            words.append(piece)
        elif piece.type == "names":
            words.append(next(labels))
        elif piece.type == "int":
            words.append(next(numbers))
        elif piece.type == "quoted":
            words.append(quote(f"{names[0]}+ .*" if re.fullmatch(r"[\w-]+", names[0]) else ".*"))
        else:
            words.append(_VALUES[piece.type])
    return " ".join(words)


_VALUES = {"unit": "segment", "place": r"tokens /\d+/", "spans": "0:2", "equal": "tokens ignoring case"}


def _summary(sentence: Sentence) -> str:
    """The first paragraph of the docstring on one line, with the names of slots as the sentence has them."""
    text = " ".join((getdoc(sentence.kind) or "").split("\n\n")[0].split())
    slots = {piece.field for piece in sentence.pieces if isinstance(piece, Slot)}
    for name in slots:
        text = text.replace(f"`{name}`", "{" + _FIELDS.get(name, name) + "}")
    return text.replace("`", "")
