"""Check the text of rules, and run the test cases in it."""

from __future__ import annotations

from typing import Literal

from bridle.learn.examples import run_examples
from bridle.rules.base import Soft
from bridle.rules.lint import Finding, lint
from bridle.serve.fixes import completions, fix_of
from bridle.serve.rulebook import lines_of
from bridle.serve.schemas_rules import (
    CheckAnswer,
    ExampleLine,
    FoundInRules,
    QuickFix,
    ReadRule,
    RulesText,
    SentenceForm,
    SentencesAnswer,
    TestAnswer,
    TestedExample,
)
from bridle.serve.service import Service


def check(service: Service, request: RulesText) -> CheckAnswer:
    """What the linter says about a text, with quick fixes, and the rules that could be read."""
    loaded, texts = service.book.loaded(request.rules), lines_of(request.rules)
    read = [ReadRule(line.number, *_parts(line.rule), line.comment) for line in loaded.lines]
    examples = [ExampleLine(line.number, line.example.text) for line in loaded.examples]
    found, kept = list[Finding](), []
    for line in loaded.lines:
        if (problem := service.book.refusal(line)) is None:
            kept.append(line)
        else:
            message = f"{problem.what}; wanted {problem.wanted}"
            found.append(Finding(line.number, "error", problem.code.replace("_", "-"), message))
    loaded.lines = kept
    found += lint(loaded, service.labels)
    return CheckAnswer([_told(finding, texts) for finding in found], read, examples)


def _parts(rule: object) -> tuple[str, str, float | None, Literal["sequence", "violation"] | None]:
    """The rule as text, without its penalty, its penalty, and what that is per."""
    if isinstance(rule, Soft):
        return str(rule), str(rule.rule), rule.penalty, rule.per
    return str(rule), str(rule), None, None


def _told(finding: Finding, texts: list[str]) -> FoundInRules:
    fix = fix_of(finding, texts)
    made = None if fix is None else QuickFix(fix.title, fix.line, fix.replacement)
    return FoundInRules(finding.line, finding.level, finding.code, finding.message, made)


def test(service: Service, request: RulesText) -> TestAnswer:
    """Run the test cases of a text under its rules."""
    rules = service.book.read(request.rules)
    rules.loaded.check()  # test cases too
    lines = rules.loaded.examples
    examples = [line.example for line in lines]
    service.limits.check_sequences(service.split_all([example.text for example in examples]))
    outcomes = run_examples(service.tagger, examples, service.decoder(rules), service.tokens)
    return TestAnswer(
        [
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
    )


def sentences(service: Service) -> SentencesAnswer:
    """The forms of rules, for completion."""
    names = [name for name in service.labels.names if name != service.labels.outside]
    found = completions(names[:2] if len(names) > 1 else service.labels.names[:2])
    return SentencesAnswer([SentenceForm(one.sentence, one.example, one.summary) for one in found])
