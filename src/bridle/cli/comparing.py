"""Gold labels and predicted ones, as `bridle eval` finds them: in one file, in two, or by a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from bridle.cli.base import warn
from bridle.cli.reading import Reader, tell_unknown
from bridle.data import Example, Examples
from bridle.data.base import Format, format_named
from bridle.data.files import Guess, read_chosen
from bridle.data.pairing import CHARACTERS, Style, carried_over, check_tokens, paired
from bridle.data.standoff import Standoff
from bridle.errors import Argument, FileError
from bridle.models import Tagger
from bridle.report.scoring import UNANSWERED
from bridle.rules.base import Rule

_AT_ONCE = 1024  # sequences
_GOLD = "gold"  # what `bridle tag` calls the column of gold labels
_LAYOUT = ("columns", "label")  # options of conll that a file with one more column does not share
_NAMES = {  # what formats call tokens and labels by default, and `bridle tag` in what it writes
    "jsonl": {"tokens": "tokens", "label": "labels"},
    "csv": {"tokens": "word", "label": "label"},
    "tsv": {"tokens": "word", "label": "label"},
}

Pair = tuple[Example, Sequence[str]]  # gold, and the predicted labels of the same tokens


@dataclass
class Comparison:
    """Pairs gold labels with predicted ones, and counts sequences that lack either."""

    unanswered: int = 0  # sequences without predicted labels
    left_out: int = 0  # texts without gold

    def one_file(self, examples: Examples) -> Iterator[Pair]:
        """Gold is the column "gold" or, in a file without column names, the column before the labels."""
        for example in examples:
            last = list(example.columns)[-1] if examples.format == "conll" and len(example.columns) > 1 else None
            name = _GOLD if _GOLD in example.columns else last
            if name is None:
                raise example.error(
                    "the file has only one column of labels",
                    got=f"the columns {', '.join(example.columns)} and the labels",
                    wanted="tokens, gold labels (a column named 'gold') and predicted labels",
                    cause="Pass a second file with the predicted labels, or --model.",
                )
            gold = [None if label == examples.missing else label for label in example.columns[name]]
            yield replace(example, labels=gold), self._answer(example)

    def two_files(self, gold: Examples, reader: Reader, path: str, asked: Reader) -> Iterator[Pair]:
        """Predicted labels from a file of any format. reader: of gold; asked: the options for the other file."""
        with read_chosen(path, lambda guess: _format_of(guess, gold.format, reader, asked)) as predicted:
            predicted.items = _told_apart(predicted.items)
            for a, b in self._matched(gold, reader, predicted, asked):
                if a.labels is None and a.text is None:
                    raise a.error("a sequence has no gold labels", got="tokens only", wanted="a label per token")
                if a.labels is None:  # a text that nobody has annotated yet
                    self.left_out += 1
                else:
                    yield a, self._answer(b)

    def _matched(
        self, gold: Examples, reader: Reader, predicted: Examples, asked: Reader
    ) -> Iterator[tuple[Example, Example]]:
        ours = format_named(gold.format, reader.options)
        spans = isinstance(ours, Standoff), _is_standoff(predicted.format)
        if spans[1]:  # its spans are cut at the tokens of gold
            held: Iterable[Example] = gold if spans[0] else list(gold)
            style = _style(ours) if spans[0] else Style.of(_names(held))
            for a, b in paired(held, predicted):
                yield a, carried_over(b, a, style)
        elif spans[0]:
            known = list(predicted)
            style = Style.of(_names(known))
            gold.items = format_named(gold.format, reader.options | CHARACTERS).read(gold.source)
            for a, b in paired(gold, known):
                yield carried_over(a, b, style), b
        else:
            layout = None if any(name in asked.options for name in _LAYOUT) else predicted.format
            for a, b in paired(gold, predicted):
                b = _laid_out(a, b, ours) if layout == "conll" else b
                check_tokens(a, b, gold if a.id is None else ())
                yield a, b

    def by_model(
        self, examples: Iterable[Example], tagger: Tagger, rules: Iterable[Rule], threads: int
    ) -> Iterator[Pair]:
        """Predicted labels by a model, under rules."""
        decoder = tagger.decoder(rules, on_infeasible="relax")
        relaxed, gold, left = 0, set[str | None](), iter(examples)
        while held := list(islice(left, _AT_ONCE)):
            xs = [example.columns for example in held]
            given = tagger.given(xs, decoder, [example.given for example in held])
            found = decoder.decode_batch(tagger.lattices(xs, threads=threads), given, threads)
            relaxed += sum(one.relaxed for one in found)
            gold.update(*(example.labels or () for example in held))
            yield from ((example, one.labels) for example, one in zip(held, found, strict=True))
        tell_unknown(gold, tagger.labels_)
        if relaxed:
            warn(f"{relaxed:,} sequences cannot obey the hard rules; Bridle broke as few rules as possible")

    def _answer(self, example: Example) -> Sequence[str]:
        """The predicted labels. A sequence without any, because no labelling was found, counts as wrong."""
        labels = example.labels
        if labels is None or (len(labels) and set(labels) == {UNANSWERED}):
            self.unanswered += 1
            return [UNANSWERED] * len(example)
        return [UNANSWERED if label is None else label for label in labels]


def _told_apart(predicted: Iterator[Example]) -> Iterator[Example]:
    """The same sequences; errors that suggest an option name the one for the file of predictions."""
    try:
        yield from predicted
    except FileError as error:
        if (argument := error.argument) is not None and argument.name == "format":
            error.argument = Argument("predicted_format", argument.value)
        elif argument is not None:
            value = "NAME" if argument.value is ... else argument.value
            error.argument = Argument("predicted_option", f"{argument.name}={value}")
        raise


def _names(examples: Iterable[Example]) -> set[str]:
    found = set(chain.from_iterable(example.labels or () for example in examples))
    return {name for name in found if name is not None} - {UNANSWERED}


def _is_standoff(name: str) -> bool:
    return isinstance(format_named(name, {}), Standoff)


def _style(format: Format) -> Style:
    """How a format with spans writes labels."""
    return Style(format.scheme if isinstance(format, Standoff) and format.scheme != "IO" else None)


def _format_of(guess: Guess, gold: str, reader: Reader, asked: Reader) -> tuple[str, dict[str, Any]]:
    """Format and options of a file with predicted labels: those of gold, unless it looks like another format."""
    name = asked.format or (guess.format if guess.format is not None and guess.sure else None) or gold
    options = dict(reader.options) if name == gold else {}
    options.pop("unlabelled", None)
    if name == "conll":
        options = {key: value for key, value in options.items() if key not in _LAYOUT}
    for option, usual in _NAMES.get(name, {}).items():
        own = str(options.get(option, usual))
        if own not in guess.first_line and usual in guess.first_line:  # what `bridle tag` has written
            del options[option]
    if _is_standoff(name):
        options |= CHARACTERS
    return name, options | asked.options


def _laid_out(gold: Example, example: Example, format: Format) -> Example:
    """A sequence of unnamed columns: as in the file of gold if it has as many columns, else the last are the labels."""
    last = [] if example.labels is None else [[UNANSWERED if y is None else y for y in example.labels]]
    cells = [*example.columns.values(), *last]
    names = list(vars(format).get("columns") or ()) if format.name == "conll" else []
    width = len(names) or len(gold.columns) + 1
    label, tokens = len(cells) - 1, 0
    if format.name == "conll" and len(cells) == width:
        asked = vars(format)["label"]
        if isinstance(asked, int):
            label = asked - 1 if asked > 0 else width + asked
        elif asked in names:
            label = names.index(asked)
    if names:
        tokens = next((k for k, name in enumerate(names) if name == next(iter(gold.columns))), 0)
    elif label == 0:
        tokens = 1
    if label == tokens or tokens >= len(cells):
        got, wanted = f"{len(cells)} columns", "tokens and labels"
        raise example.error("the file has no predicted labels", got=got, wanted=wanted)
    return replace(example, columns={"word": cells[tokens]}, labels=cells[label])
