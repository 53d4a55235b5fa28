"""Run the test cases of .rules files: does a model under the rules find the segments that they name?

    text      Knuth, D. The TeXbook.        split into tokens as the training data was
    wanted    AUTHOR at tokens 0..2         a phrase is found at the first place after the one before where no token
    found     AUTHOR at tokens 0..3         lies half inside it

A segment is right if its first token, its last token and its type are.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

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
    """What came of a test case."""

    example: RuleExample
    passed: bool
    message: str  # what was wanted and what was found, in plain English; "" if it passed
    tokens: tuple[str, ...]
    labels: tuple[str, ...]  # of the tokens; empty if no labelling was found
    wrong: tuple[int, ...]  # tokens of segments that are not as they should be


def run_examples(
    tagger: Tagger, examples: Sequence[RuleExample], decoder: Decoder, tokens: Tokens | None = None
) -> list[Outcome]:
    """Label the texts of test cases with a model under rules, and compare.

    Parameters
    ----------
    tagger : Tagger
        The model. Its training data must have consisted of tokens without other columns.
    examples : sequence of RuleExample
        The test cases.
    decoder : Decoder
        The rules: ``tagger.decoder(rules, ...)``. Hard rules that no labelling obeys are relaxed, unless the decoder
        skips such sequences.
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, optional
        How to split texts. By default, as the training data was split.

    Returns
    -------
    list of Outcome
        One per test case, in order.

    Raises
    ------
    ModelError
        If the model needs more than the tokens of a text.
    GivenError
        If a rule does.

    Examples
    --------
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
    found = tagger.decode([{main: tokens} for tokens, _ in split], decoder)
    return [
        _outcome(example, tokens, starts, one.labels, tagger.labels_)
        for example, (tokens, starts), one in zip(examples, split, found, strict=True)
    ]


def _column(tagger: Tagger, decoder: Decoder) -> str:
    """The column that the tokens of a text fill, if the model and the rules need no other one."""
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


# ---- comparing ------------------------------------------------------------------------------------------------------


def _outcome(
    example: RuleExample, tokens: list[str], starts: array[int], names: Sequence[str], labels: Labels
) -> Outcome:
    check_stopped()

    def told(message: str, wrong: Sequence[int] = ()) -> Outcome:
        return Outcome(example, not message, message, tuple(tokens), tuple(names), tuple(sorted(set(wrong))))

    if tokens and not names:
        return told("no labelling was found that obeys the rules", range(len(tokens)))
    kinds = sorted(labels.types - {labels.outside})  # what lies outside of segments is not one
    for label, _ in example.spans:
        if label not in kinds:
            return told(unknown_name(label, kinds)[0])
    wanted = _wanted(example, tokens, starts)
    if isinstance(wanted, str):
        return told(wanted)
    found = [one for one in labels.segments(names) if one.type != labels.outside]
    faults: dict[Segment, str] = {}
    for one in wanted:
        if one not in found:
            there = [other for other in found if other.start < one.end and one.start < other.end]
            instead = ", ".join(_shown(other, example, tokens, starts) for other in there) or "nothing there"
            faults[one] = f"wanted {_shown(one, example, tokens, starts)}, found {instead}"
    near = {t for one in faults for t in range(one.start, one.end)}
    for one in found if example.kind == "is" else ():
        if one not in wanted:
            reported = not near.isdisjoint(range(one.start, one.end))
            faults[one] = "" if reported else f"found {_shown(one, example, tokens, starts)}, which is not wanted"
    meant, guessed = _types(wanted), _types(found)
    wrong = []
    for one in faults:
        inside = range(one.start, one.end)
        wrong.append(
            [t for t in inside if (t in meant or one not in wanted) and meant.get(t) != guessed.get(t)] or inside
        )
    return told("; ".join(filter(None, faults.values())), list(chain.from_iterable(wrong)))


def _wanted(example: RuleExample, tokens: Sequence[str], starts: Sequence[int]) -> list[Segment] | str:
    """The segments that a test case names; or what is wrong with it."""
    if (missing := example.missing()) is not None:
        return missing
    out, at = [], 0
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
        out.append(Segment(inside[0], inside[-1] + 1, label))
        at = end
    return out


def _types(segments: Sequence[Segment]) -> dict[int, str]:
    return {t: one.type for one in segments for t in range(one.start, one.end)}


def _shown(one: Segment, example: RuleExample, tokens: Sequence[str], starts: Sequence[int]) -> str:
    text = example.text[starts[one.start] : starts[one.end - 1] + len(tokens[one.end - 1])]
    return f"{quoted_name(one.type)} {quote(text)}"
