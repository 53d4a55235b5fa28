"""Run the test cases of .rules files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridle.decoding.decoder import Decoder
from bridle.models.tagger import Tagger
from bridle.rules.examples import RuleExample


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a test case."""

    example: RuleExample
    passed: bool
    message: str  # what was wanted and what was found, in plain English; "" if it passed
    tokens: tuple[str, ...]
    labels: tuple[str, ...]  # of the tokens; empty if no labelling was found
    wrong: tuple[int, ...]  # tokens whose labels are not those wanted


def run_examples(tagger: Tagger, examples: Sequence[RuleExample], decoder: Decoder) -> list[Outcome]:
    """Label the texts of test cases with a model and a decoder (`tagger.decoder(rules, ...)`), and compare.

    Raises
    ------
    ModelError
        If the model, or a rule, needs more than the tokens of a text.
    """
    raise NotImplementedError
