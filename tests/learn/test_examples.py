"""Test cases of .rules files, run with a model."""

from __future__ import annotations

import pytest

import bridle
from bridle.errors import GivenError, ModelError
from bridle.learn.examples import Outcome, run_examples
from bridle.models import CRF, LocalTagger, Tagger
from bridle.rules.loading import parse_example

NOTES = {"reader": {"format": "text", "options": {"tokens": "punctuation"}}}


def tagger(scheme: str = "IO") -> Tagger:
    """Knows every word: capitals are names, digits are dates, 'near' is a name too."""
    words = ["Ada", "Bob", ",", "near", "on", "1984", "1985"]
    kinds = ["A", "A", "A", "A", "O", "D", "D"]
    labels = [y if y == "O" or scheme == "IO" else f"B-{y}" for y in kinds]
    model = LocalTagger(features=["word[0]"], scheme=scheme).fit([[w] for w in words], [[y] for y in labels])
    model.notes_ = NOTES
    return model


def run(line: str, *rules: str, model: Tagger | None = None) -> Outcome:
    model = model or tagger()
    [outcome] = run_examples(model, [parse_example(line)], model.decoder(rules, on_infeasible="relax"))
    assert outcome.passed == (not outcome.message)
    return outcome


@pytest.mark.parametrize(
    "line",
    [
        'example "Ada on 1984" has A "Ada"',
        'example "Ada on 1984" is A "Ada", D "1984"',
        'example "Ada, Bob on 1984" has A "Ada, Bob"',
        'example "on" is nothing',
        'example "onAda on Ada" has A "Ada"',  # the first place where no token is cut
        'example "1984 on 1984" is D "1984", D "1984"',
        'example "  Ada" is A "  Ada"',
    ],
)
def test_what_is_found_passes(line: str) -> None:
    outcome = run(line, 'fix O at tokens "onAda"')
    assert (outcome.passed, outcome.message, outcome.wrong) == (True, "", ())


@pytest.mark.parametrize(
    ("line", "message", "wrong"),
    [
        ('example "Ada on 1984" has D "Ada"', 'wanted D "Ada", found A "Ada"', (0,)),
        ('example "Ada on 1984" has D "on 1984"', 'wanted D "on 1984", found D "1984"', (1,)),
        ('example "Ada Bob on" has A "Ada"', 'wanted A "Ada", found A "Ada Bob"', (0,)),
        ('example "Ada on" has D "on"', 'wanted D "on", found nothing there', (1,)),
        ('example "Ada on 1984" is A "Ada"', 'found D "1984", which is not wanted', (2,)),
        ('example "Ada on" is nothing', 'found A "Ada", which is not wanted', (0,)),
        ('example "Ada Bob on" is A "Ada", D "Bob"', 'wanted A "Ada", found A "Ada Bob"', (0, 1)),
        ('example "Ada" has E "Ada"', "unknown label 'E'; known: A, D", ()),
        ('example "Ada" has A "Eve"', 'the text of the test case does not contain "Eve"', ()),
        (
            'example "Ada, Bob" has A "Ad"',
            '"Ad" does not begin and end where tokens do; the tokens are: Ada | , | Bob',
            (),
        ),
    ],
)
def test_a_failure_says_what_was_wanted_and_found(line: str, message: str, wrong: tuple[int, ...]) -> None:
    outcome = run(line)
    assert not outcome.passed
    assert outcome.message.startswith(message)
    assert outcome.wrong == wrong


def test_texts_are_split_as_the_tokens_of_the_model_suggest() -> None:
    model, [line] = tagger(), [parse_example('example "Ada, Bob on 1984" has A "Ada, Bob"')]
    model.notes_ = {"reader": {"format": "conll", "options": {"columns": ["word", "label"]}}}
    assert run_examples(model, [line], model.decoder())[0].tokens == ("Ada", ",", "Bob", "on", "1984")
    [asked] = run_examples(model, [line], model.decoder(), "blanks")
    assert asked.tokens == ("Ada,", "Bob", "on", "1984")


def test_rules_decide() -> None:
    line = 'example "Ada on 1984" is D "1984"'
    assert not run(line).passed
    outcome = run(line, "forbid A")
    assert outcome.passed
    assert (outcome.tokens, outcome.labels[-1]) == (("Ada", "on", "1984"), "D")


def test_segments_of_other_schemes() -> None:
    model = tagger("BIO")
    assert run('example "Ada Bob" is A "Ada", A "Bob"', model=model).passed
    outcome = run('example "Ada Bob" is A "Ada Bob"', model=model)
    assert outcome.message == 'wanted A "Ada Bob", found A "Ada", A "Bob"' and outcome.wrong == (0, 1)


def test_rules_that_cannot_hold() -> None:
    model, lines = tagger(), [parse_example('example "Ada" has A "Ada"')]
    never = ["forbid A", "present A"]
    [relaxed] = run_examples(model, lines, model.decoder(never))
    assert relaxed.labels
    [skipped] = run_examples(model, lines, model.decoder(never, on_infeasible="skip"))
    assert (skipped.passed, skipped.labels, skipped.wrong) == (False, (), (0,))
    assert skipped.message == "no labelling was found that obeys the rules"


def test_models_and_rules_that_need_more_than_texts() -> None:
    lines = [parse_example('example "a" is nothing')]
    columns = [{"word": ["a", "b"], "pos": ["X", "Y"]}]
    both = CRF(features=["word[0]", "pos[0]"], iterations=2).fit(columns, [["O", "A"]])
    with pytest.raises(ModelError, match="needs other columns"):
        run_examples(both, lines, both.decoder())
    model = bridle.LocalTagger().fit([[["a"], ["b"]]], [["D", "N"]])
    with pytest.raises(ModelError, match="a model that reads text"):
        run_examples(model, lines, model.decoder())
    with pytest.raises(GivenError, match="'verb'"):
        run_examples(tagger(), lines, tagger().decoder(["label at given verb is O"]))
    assert run_examples(tagger(), [], tagger().decoder()) == []
