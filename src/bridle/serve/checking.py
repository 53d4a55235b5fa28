"""Rules as text: findings of the linter with quick fixes, test cases, and sentence forms for completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import getdoc
from typing import Literal

from msgspec import Struct

from bridle.learn.examples import run_examples
from bridle.rules.base import Soft
from bridle.rules.conditions import TOKENS, Given
from bridle.rules.lint import Finding, lint
from bridle.rules.loading import RuleExample
from bridle.rules.text import Sentence, Slot, quote, quoted_name, sentences
from bridle.serve.schemas import Names, Request
from bridle.serve.service import Service, split_lines

_LONGEST_TITLE = 60  # characters


class RulesText(Request, kw_only=True):
    """The text of a .rules file."""

    rules: str


class QuickFix(Struct):
    """Replacement of one line; null deletes the line."""

    title: str
    line: int
    replacement: str | None


class RuleFinding(Struct):
    """Finding of the linter; line 0 refers to the text as a whole."""

    line: int
    level: Literal["error", "warning", "info"]
    code: str
    message: str
    fix: QuickFix | None


class ParsedRule(Struct):
    """A rule and its parts."""

    line: int
    rule: str
    sentence: str
    penalty: float | None
    per: Literal["sequence", "violation"] | None
    comment: str


class ExampleLine(Struct):
    """Test case in a text of rules."""

    line: int
    text: str


class CheckAnswer(Struct):
    """Findings of the linter, rules and test cases of a text."""

    findings: list[RuleFinding]
    rules: list[ParsedRule]
    examples: list[ExampleLine]


class TestedExample(Struct):
    """Result of a test case; `wrong` lists the tokens with wrong labels."""

    line: int
    text: str
    passed: bool
    message: str
    tokens: Names
    labels: Names
    wrong: list[int]


class TestAnswer(Struct):
    """Results of all test cases."""

    examples: list[TestedExample]


class SentenceForm(Struct):
    """Form of a sentence, such as ``at most {k} segments of {labels}``, with an example that can be parsed."""

    sentence: str
    example: str
    summary: str


class SentencesAnswer(Struct):
    """All forms of sentences."""

    sentences: list[SentenceForm]


def check_rules(service: Service, request: RulesText) -> CheckAnswer:
    """Lint a text of rules, and return its rules and test cases."""
    loaded, texts = service.book.load(request.rules), split_lines(request.rules)
    parsed = [ParsedRule(line.number, *_rule_parts(line.rule), line.comment) for line in loaded.lines]
    examples = [ExampleLine(line.number, line.example.text) for line in loaded.examples]
    findings, allowed = list[Finding](), []
    for line in loaded.lines:
        if (error := service.book.refuse(line)) is None:
            allowed.append(line)
        else:
            message = f"{error.what}; wanted {error.wanted}"
            findings.append(Finding(line.number, "error", error.code.replace("_", "-"), message))
    loaded.lines = allowed
    notes = lint(loaded, service.labels)
    keys = {key for line in allowed for place in line.rule.places() for key in place.keys}
    names = any(isinstance(x, Given) for line in allowed for field in line.rule.names() for x in field.items)
    if not names and keys <= {TOKENS, *service.columns}:  # requests bring these by themselves
        notes = [finding for finding in notes if finding.code != "given"]
    findings += notes
    return CheckAnswer(
        [RuleFinding(each.line, each.level, each.code, each.message, quick_fix(each, texts)) for each in findings],
        parsed,
        examples,
    )


def _rule_parts(rule: object) -> tuple[str, str, float | None, Literal["sequence", "violation"] | None]:
    """Return the rule as text, its text without the penalty, the penalty, and the unit that pays it."""
    if isinstance(rule, Soft):
        return str(rule), str(rule.rule), rule.penalty, rule.per
    return str(rule), str(rule), None, None


def quick_fix(finding: Finding, lines: Sequence[str]) -> QuickFix | None:
    """Return the quick fix for a finding about these lines, if the linter suggests one.

    >>> lines = ["at most one segment of TITLE  # no more", "TITLE before DATE", "TITLE before DATE"]
    >>> [quick_fix(finding, lines) for finding in lint(lines)][:2]  # doctest: +NORMALIZE_WHITESPACE
    [QuickFix(title='Change to: at most 1 segment of TITLE  # no more', line=1,
              replacement='at most 1 segment of TITLE  # no more'),
     QuickFix(title='Delete this line', line=3, replacement=None)]
    """
    text = finding.suggestion
    if text is None or not 0 < finding.line <= len(lines):
        return None
    if not text:
        return QuickFix("Delete this line", finding.line, None)
    title = text if len(text) <= _LONGEST_TITLE else f"{text[: _LONGEST_TITLE - 3]}..."
    return QuickFix(f"Change to: {title}", finding.line, text)


def run_test_cases(service: Service, request: RulesText) -> TestAnswer:
    """Run the test cases of a text under its rules."""
    rules = service.book.read(request.rules)
    rules.loaded.check()  # test cases too
    lines = rules.loaded.examples
    service.limits.check_sequences(service.split_all([line.example.text for line in lines]))
    outcomes = run_examples(service.tagger, [line.example for line in lines], service.decoder(rules), service.tokens)
    tested = [
        TestedExample(
            line.number,
            line.example.text,
            outcome.passed,
            outcome.message,
            list(outcome.tokens),
            list(outcome.labels),
            list(outcome.wrong),
        )
        for line, outcome in zip(lines, outcomes, strict=True)
    ]
    return TestAnswer(tested)


# ---- sentence forms -------------------------------------------------------------------------------------------------

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
_SLOT_NAMES = {"of": "labels", "label": "labels", "at": "place", "span": "spans", "pattern": "expression"}
_SLOT_WORDS = {"unit": "segments", "equal": "tokens"}  # slots that are shown as a word
_SLOT_EXAMPLES = {"unit": "segment", "place": r"tokens /\d+/", "spans": "0:2", "equal": "tokens ignoring case"}


def list_sentences(service: Service) -> SentencesAnswer:
    """Return the sentence forms, with examples about labels of the model."""
    names = [name for name in service.labels.names if name not in service.labels.all_outside]
    return SentencesAnswer(sentence_forms(names[:2] if len(names) > 1 else service.labels.names[:2]))


def sentence_forms(labels: Sequence[str] = ("AUTHOR", "TITLE")) -> list[SentenceForm]:
    """Return all sentence forms, with examples about the first two of these labels.

    >>> print(*[form.example for form in sentence_forms() if "at most {k}" in form.sentence])
    at most 1 segment of AUTHOR
    """
    a, b = [*labels, "AUTHOR", "TITLE"][:2] if len(labels) != 1 else (labels[0], labels[0])
    names = quoted_name(a), quoted_name(b)
    known = [s for s in sentences() if all(isinstance(p, str) or p.type != "automaton" for p in s.pieces)]  # no files
    forms = [SentenceForm(_form(s), _example(s, names), _summary(s)) for s in known]
    forms += [SentenceForm(form, example.format(*names), summary) for form, example, summary in _FORMULAS]
    has, exact = (
        RuleExample("first second", "has", ((a, "first"),)),
        RuleExample("first second", "is", ((a, "first second"),)),
    )
    return [
        *forms,
        SentenceForm("example {text} has {label} {phrase}", str(has), "A test case: the result has these segments."),
        SentenceForm(
            "example {text} is {label} {phrase}",
            str(exact),
            "A test case: the result has exactly these segments.",
        ),
    ]


def _form(sentence: Sentence) -> str:
    """Return the sentence with the names of its slots, without their types."""

    def word(piece: str | Slot) -> str:
        if isinstance(piece, str):
            return piece
        return _SLOT_WORDS.get(piece.type) or "{" + _SLOT_NAMES.get(piece.field, piece.field) + "}"

    return " ".join(map(word, sentence.pieces))


def _example(sentence: Sentence, names: tuple[str, str]) -> str:
    """Return a rule with this sentence."""
    labels, numbers, words = iter([*names, names[0]]), iter(("1", "5")), []
    for piece in sentence.pieces:
        if isinstance(piece, str):
            words.append(piece)
        elif piece.type == "names":
            words.append(next(labels))
        elif piece.type == "int":
            words.append(next(numbers))
        elif piece.type == "quoted":
            name = names[0] if re.fullmatch(r"[\w-]+", names[0]) else ""
            arcs = f"0 0 ?; 0 1 {name}; 0; 1" if name else "0 0 ?; 0"
            words.append(quote(arcs if piece.field == "arcs" else f"{name}+ .*" if name else ".*"))
        else:
            words.append(_SLOT_EXAMPLES[piece.type])
    return " ".join(words)


def _summary(sentence: Sentence) -> str:
    """Return the first paragraph of the rule's docstring on one line, with slots named as in the sentence form."""
    text = " ".join((getdoc(sentence.kind) or "").split("\n\n")[0].split())
    for name in {piece.field for piece in sentence.pieces if isinstance(piece, Slot)}:
        text = text.replace(f"`{name}`", "{" + _SLOT_NAMES.get(name, name) + "}")
    return text.replace("`", "")
