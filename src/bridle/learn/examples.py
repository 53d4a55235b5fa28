"""Test cases of .rules files: does a model under the rules find the segments that they name?

A segment is right if its first token, its last token and its type are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bridle.data.tokenizer import Tokens, tokenize, tokens_noted
from bridle.deadline import check_stopped
from bridle.decoding.decoder import Decoder
from bridle.errors import GivenError, ModelError
from bridle.features import TemplateFeatures
from bridle.labels import Labels, Segment
from bridle.models.checks import templates_of
from bridle.models.tagger import Tagger
from bridle.rules.lint import unknown_name
from bridle.rules.loading import RuleExample
from bridle.rules.text import quote, quoted_name


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a test case."""

    example: RuleExample
    passed: bool
    message: str  # the segments that were wanted and found; "" if it passed
    tokens: tuple[str, ...]
    labels: tuple[str, ...]  # of the tokens; empty if no labelling was found
    wrong: tuple[int, ...]  # tokens of wrong segments


def run_examples(
    tagger: Tagger, examples: Sequence[RuleExample], decoder: Decoder, tokens: Tokens | None = None
) -> list[Outcome]:
    """Label the texts of test cases with a model under the rules of a decoder, and compare.

    Hard rules that no labelling obeys are relaxed, unless the decoder skips such sequences. tokens: how to split texts;
    by default, as the training data was split. Raise `ModelError` or `GivenError` if the model or a rule needs more
    than the tokens of a text.

    >>> import bridle
    >>> from bridle.rules.loading import parse_example
    >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["to", "Bonn"]], [["O", "CITY"]])
    >>> example = parse_example('example "to Bonn" has CITY "to"')
    >>> [outcome] = run_examples(model, [example], model.decoder())
    >>> outcome.passed, outcome.message
    (False, 'wanted CITY "to", found nothing there')
    """
    main = _column(tagger, decoder)
    if not examples:
        return []
    how = tokens or tokens_noted(tagger.notes_, templates_of(tagger.features_).vocabulary)
    split = [tokenize(example.text, how) for example in examples]
    if decoder.on_infeasible == "raise":
        decoder = decoder.with_rules(decoder.rules, on_infeasible="relax")
    decodings = tagger.decode([{main: tokens} for tokens, _ in split], decoder)
    return [
        _outcome(example, tokens, starts, decoding.labels, tagger.labels_)
        for example, (tokens, starts), decoding in zip(examples, split, decodings, strict=True)
    ]


def _column(tagger: Tagger, decoder: Decoder) -> str:
    """Return the column that the tokens of a text fill; raise if the model or the rules need another one."""
    features = tagger.features_
    if not isinstance(features, TemplateFeatures):
        raise ModelError(
            "test cases need a model that reads text",
            got="a model that takes ready-made features",
            wanted="a model with templates, such as CRF(features='ner')",
        )
    if more := [name for name in features.sources if name != features.main]:
        raise ModelError(
            "test cases consist of texts, and the model needs other columns as well",
            got=f"a model that reads {', '.join(map(repr, features.sources))}",
            wanted="a model of one column",
            cause=f"Train a model without {', '.join(more)} to use test cases.",
        )
    if lacking := sorted(decoder.required_inputs - {"tokens", features.main}):
        raise GivenError(
            "test cases consist of texts, and a rule needs other values as well",
            got=f"a rule that reads {', '.join(map(repr, lacking))}",
            wanted="rules about labels and the texts of tokens",
        )
    return features.main


def _outcome(
    example: RuleExample, tokens: list[str], starts: array[int], names: Sequence[str], labels: Labels
) -> Outcome:
    """Compare the labels of a text with its test case."""
    check_stopped()

    def outcome(message: str, wrong: Iterable[int] = ()) -> Outcome:
        return Outcome(example, not message, message, tuple(tokens), tuple(names), tuple(sorted(set(wrong))))

    def shown(segment: Segment) -> str:
        text = example.text[starts[segment.start] : starts[segment.end - 1] + len(tokens[segment.end - 1])]
        return f"{quoted_name(segment.type)} {quote(text)}"

    if tokens and not names:
        return outcome("no labelling was found that obeys the rules", range(len(tokens)))
    kinds = sorted(labels.types.difference(labels.all_outside))  # tokens outside of segments form none
    for label, _ in example.spans:
        if label not in kinds:
            return outcome(unknown_name(label, kinds)[0])
    expected = _expected(example, tokens, starts)
    if isinstance(expected, str):
        return outcome(expected)
    guessed = [segment for segment in labels.segments(names) if segment.type not in labels.all_outside]
    faults: dict[Segment, str] = {}
    for segment in expected:
        if segment not in guessed:
            there = [other for other in guessed if other.start < segment.end and segment.start < other.end]
            instead = ", ".join(map(shown, there)) or "nothing there"
            faults[segment] = f"wanted {shown(segment)}, found {instead}"
    near = {t for segment in faults for t in range(segment.start, segment.end)}
    for segment in guessed if example.kind == "is" else ():
        if segment not in expected:
            reported = not near.isdisjoint(range(segment.start, segment.end))
            faults[segment] = "" if reported else f"found {shown(segment)}, which is not wanted"
    right, guess = _types(expected), _types(guessed)
    wrong: list[int] = []
    for segment in faults:
        inside = range(segment.start, segment.end)
        differ = [t for t in inside if (t in right or segment not in expected) and right.get(t) != guess.get(t)]
        wrong += differ or inside
    return outcome("; ".join(filter(None, faults.values())), wrong)


def _expected(example: RuleExample, tokens: Sequence[str], starts: Sequence[int]) -> list[Segment] | str:
    """Find the segments that a test case names, or say why they cannot be found.

    A phrase is taken at the first place after the phrase before it where no token lies half inside it.
    """
    if (missing := example.missing()) is not None:
        return missing
    segments, at = [], 0
    ends = [start + len(token) for start, token in zip(starts, tokens, strict=True)]
    for label, phrase in example.spans:
        begin = example.text.find(phrase, at)
        while begin >= 0:
            end = begin + len(phrase)
            inside = [t for t in range(len(tokens)) if starts[t] < end and begin < ends[t]]
            if inside and starts[inside[0]] >= begin and ends[inside[-1]] <= end:
                break
            begin = example.text.find(phrase, begin + 1)
        else:
            return f"{quote(phrase)} does not begin and end where tokens do; the tokens are: {' | '.join(tokens)}"
        segments.append(Segment(inside[0], inside[-1] + 1, label))
        at = end
    return segments


def _types(segments: Sequence[Segment]) -> dict[int, str]:
    return {t: segment.type for segment in segments for t in range(segment.start, segment.end)}
