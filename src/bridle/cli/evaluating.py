"""`bridle eval`: compare predicted labels with gold labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, pairwise, tee
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import write_text
from bridle.cli import options as opt
from bridle.cli.base import Command, app, json_line, refuse_overwrite, show, warn
from bridle.cli.reading import (
    ReadCounts,
    checked_lines,
    deterministic_rules,
    labels_in,
    load_model_rules,
    make_model_reader,
    make_reader,
    model_inputs,
    parse_format_options,
    read_all,
    read_unlabelled,
    reading,
    rule_inputs,
    source_name,
    used_examples,
    warn_unknown_labels,
)
from bridle.data import Example, Examples
from bridle.data.base import Format, format_named
from bridle.data.detection import Guess
from bridle.data.documents import batches, document_of, documents_of
from bridle.data.examples import known
from bridle.data.files import read_chosen
from bridle.data.pairing import CHARACTERS, Style, carried_over, check_tokens, paired
from bridle.data.reader import Reader
from bridle.data.standoff import Standoff
from bridle.decoding.documents import cuts_of
from bridle.errors import Argument, FileError
from bridle.learn.estimate import estimate_accuracy
from bridle.learn.evidence import violations
from bridle.learn.trials import broken_in_documents
from bridle.models import Tagger
from bridle.report import score
from bridle.report.evaluation import LABELS, Evaluation, RuleCount, WrongSequence
from bridle.report.metrics import Scores
from bridle.report.scoring import OUTSIDE, UNANSWERED
from bridle.rules.base import Rule
from bridle.rules.loading import read_files
from bridle.tagging import Block, tag

_ON_PAGE = 50  # wrong sequences that a page shows


class Segments(StrEnum):
    """Values of --scheme: all that conlleval knows."""

    AUTO, NONE, IO, BIO, IOB1, BIOES, BMES = "auto", "none", "IO", "BIO", "IOB1", "BIOES", "BMES"

    @property
    def library_name(self) -> str | None:
        """The scheme, as `score` calls it."""
        return None if self is Segments.NONE else self.value


SegmentsOption = Annotated[
    Segments,
    opt.option(
        f"--scheme {'|'.join(Segments)}",
        "Tagging scheme of the labels; none: a segment is a run of one label.",
        case_sensitive=False,
    ),
]
PredictedFormat = Annotated[
    str | None,
    opt.option(
        "--predicted-format NAME",
        "Format of predictions in files. Default: by the suffix or the first lines, or that of GOLD.",
        autocompletion=opt.COMPLETE_FORMATS,
    ),
]
PredictedOptions = Annotated[
    list[str] | None, opt.option("--predicted-option KEY=VALUE", "Option of that format; can be repeated.")
]


@app.command("eval", cls=Command)
@opt.grouped
def evaluate(
    *,
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Labelled sequences; - reads stdin.", show_default=False)],
    predicted: Annotated[
        str | None,
        typer.Argument(
            metavar="PREDICTED", help="The same sequences, labelled by a tagger, in any format.", show_default=False
        ),
    ] = None,
    model: Annotated[Path | None, opt.option("--model MODEL", "Tag GOLD with this model.")] = None,
    rules: Annotated[
        list[Path] | None,
        opt.option(
            "--rules FILE",
            "Count the sequences that break each rule; with --model, also obey the rules. Can be repeated.",
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        opt.option(
            "--unlabelled FILE",
            "Estimate how many tokens of these sequences --model labels right, calibrated on GOLD. Can be repeated.",
        ),
    ] = None,
    lenient: opt.LenientOption = False,
    reads: opt.DataOptions,
    predicted_format: PredictedFormat = None,
    predicted_option: PredictedOptions = None,
    scheme: SegmentsOption = Segments.AUTO,
    on_unknown: opt.OnUnknownOption = opt.OnUnknown.WRONG,
    by_label: Annotated[
        bool, opt.option("--by-label", f"Show all labels, even if there are more than {LABELS}.")
    ] = False,
    wrong: Annotated[
        int | None,
        opt.option("--wrong N", "Show the first N sequences with a wrong label. Default with --html: 50.", min=0),
    ] = None,
    html: Annotated[
        Path | None, opt.option("--html FILE", "Also write an HTML page with all tables and wrong sequences.")
    ] = None,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
) -> None:
    """Compare labels with gold labels.

    Print the shares of tokens and sequences that are right; precision, recall and F1 of segments, as conlleval counts
    them, and of labels; and which labels are confused.

    \b
    Examples:
      bridle eval tagged.txt                    one file with both, as bridle tag writes it for labelled data
      bridle eval gold.txt tagged.jsonl         two files, in any formats
      bridle eval gold.txt --model m.bridle     tag and compare, optionally under --rules
      bridle eval gold.txt tagged.txt --wrong 5 --html report.html
      bridle eval gold.txt --model m.bridle --unlabelled heap.txt --rules my.rules
      bridle eval tagged.txt --json             all figures, with the complete confusion matrix

    \b
    With --unlabelled, only the estimate is printed, with a 95 % interval. It holds for sequences of the same kind as
    GOLD, which may be the training data: then it is scored by models that were trained on the other sequences of GOLD.

    
    Sequences of two files are matched by their ids if both files have ids, otherwise by their order. In one file, the
    gold labels are in the column "gold" or, in CoNLL, in the last column but one. A sequence without predicted labels
    counts as wrong.

    \b
    Exit codes:
      0    success, whatever the figures are
      2    bad input or bad usage
      3    the scores allow no labelling at all (--model)
      130  stopped by Ctrl-C
    """
    if model is not None and predicted is not None:
        raise FileError("PREDICTED and --model cannot be combined", got="both", wanted="one of them")
    if model is None and on_unknown is not opt.OnUnknown.WRONG:
        raise FileError("--on-unknown is about the labels of a model", got="no --model", wanted="--model MODEL")
    if unlabelled is not None:
        if model is None or html is not None or wrong is not None or by_label:
            got, wanted = "other options", "--model, and neither --html, --wrong nor --by-label"
            raise FileError("--unlabelled only estimates an accuracy", got=got, wanted=wanted)
        _estimate(gold, unlabelled, bridle.load(model), rules, lenient, reads, on_unknown, threads, as_json, progress)
        return
    if gold == predicted == "-":
        raise FileError("both files are standard input", got="- twice", wanted="a file for one of them")
    refuse_overwrite(html, gold, predicted, model, *(rules or ()), flag="--html")
    tagger = None if model is None else bridle.load(model)
    reader = make_reader(*reads.arguments) if tagger is None else make_model_reader(tagger, *reads.arguments)
    other = Reader(predicted_format, parse_format_options(predicted_option, "--predicted-option"))
    if predicted is None and (other.format or other.options):
        got = "--predicted-format" if other.format else "--predicted-option"
        raise FileError("PREDICTED is missing", got=got, wanted="GOLD and PREDICTED")
    wrong_sequences, pairing = _WrongSequences(_ON_PAGE if wrong is None and html else wrong or 0), Pairing()
    counts = ReadCounts(labels=Counter())
    with ExitStack() as files:
        examples, step = files.enter_context(reading(reader, gold, progress, "comparing"))
        if tagger is not None:
            obeyed = load_model_rules(rules, tagger, lenient=lenient)
            used = used_examples(examples.labelled(), tagger.labels_, on_unknown)
            pairs = pairing.by_model(used, tagger, obeyed, threads)
        elif predicted is not None:
            pairs = pairing.two_files(examples, reader, predicted, other)
        else:
            pairs = pairing.one_file(examples)
        kept = list(pairs) if rules else pairs
        left, right = tee(wrong_sequences.watched(kept, step, counts))
        scores = score((a.labels or () for a, _ in left), (b for _, b in right), scheme.library_name)
    if not scores.sequences:
        raise FileError("there are no sequences", got="nothing", wanted="labelled sequences", where=source_name(gold))
    counts.report([gold])
    _check_shared(scores, source_name(gold), tagger)
    if pairing.left_out:
        warn(f"{gold}: left out {pairing.left_out:,} texts without annotations")
    broken = _broken(kept, rules, tagger, lenient, threads) if rules and isinstance(kept, list) else []
    evaluation = Evaluation(scores, wrong_sequences.wrong, broken, pairing.unanswered)
    if html is not None:
        below = " against ".join([str(predicted or model or "the last column"), source_name(gold)])
        write_text(html, evaluation.page("Evaluation", below).html())
    if as_json:
        typer.echo(json_line(evaluation.to_dict()))
        return
    shown = evaluation if wrong is not None else Evaluation(scores, (), broken, pairing.unanswered)
    show(shown.lines(None if by_label else LABELS))


def _estimate(
    gold: str,
    unlabelled: list[str],
    tagger: Tagger,
    rules: list[Path] | None,
    lenient: bool,
    reads: opt.DataOptions,
    on_unknown: opt.OnUnknownOption,
    threads: int,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Print an estimate of the accuracy on sequences without labels."""
    obeyed = load_model_rules(rules, tagger, lenient=lenient)
    read, _ = read_all(make_model_reader(tagger, *reads.arguments), [gold], progress)
    labelled = list(used_examples(read, tagger.labels_, on_unknown))
    X, y, given = model_inputs(labelled)
    examples, _ = read_unlabelled(make_model_reader(tagger, *reads.arguments, "missing"), unlabelled, progress)
    texts, _, values = model_inputs(examples)
    estimate = estimate_accuracy(
        tagger,
        texts,
        (X, y),
        obeyed,
        given=values,
        labelled_given=given,
        groups=documents_of(labelled),
        threads=threads,
    )
    if as_json:
        typer.echo(json_line(estimate.to_dict()))
    else:
        show(estimate.lines())


def _check_shared(scores: Scores, where: str, tagger: Tagger | None) -> None:
    """Raise `FileError` if no label but O can be right, because labels have other names in gold."""
    known = {name for name, counts in scores.by_label.items() if counts.guessed} if tagger is None else tagger.labels_
    theirs = sorted(set(known) - {OUTSIDE, UNANSWERED})
    ours = sorted(name for name, counts in scores.by_label.items() if counts.gold and name != OUTSIDE)
    if not ours or not theirs or set(ours) & set(theirs):
        return
    if tagger is None and min(len(ours), len(theirs)) == 1:  # it may be so by chance
        warn(f"no predicted label ({theirs[0]}, ...) is a gold label ({ours[0]}, ...)")
        return
    raise FileError(
        "the gold labels have other names than the predicted ones",
        got=f"{', '.join(ours)[:100]} in gold",
        wanted=f"{', '.join(theirs)[:100]}, as predicted" if tagger is None else f"{', '.join(theirs)[:100]}",
        cause="Do the columns hold labels, under the same tagging scheme? --map OLD=NEW,... renames those of gold.",
        where=where,
    )


@dataclass
class _WrongSequences:
    """Collects the first sequences with wrong labels, and counts all."""

    most: int
    wrong: list[WrongSequence] = field(default_factory=list)

    def watched(self, pairs: Iterable[Pair], step: Callable[[], None], counts: ReadCounts) -> Iterator[Pair]:
        for k, (gold, labels) in enumerate(pairs):
            counts.add(gold)
            if k % 1000 == 0:
                step()
            if len(self.wrong) < self.most:
                sequence = WrongSequence.of(sequence_name(gold, k), gold.tokens, gold.labels or (), labels)
                self.wrong += [] if sequence is None else [sequence]
            yield gold, labels


def sequence_name(gold: Example, k: int) -> str:
    """Return the id of a sequence, and where it stands."""
    name = gold.where if gold.id is None else f"{gold.where}: {gold.id}" if gold.where else str(gold.id)
    return name or f"sequence {k}"


def _broken(
    pairs: list[Pair], rules: list[Path], tagger: Tagger | None, lenient: bool, threads: int
) -> list[RuleCount]:
    """Count what breaks each rule, with gold labels, if all are known, and with predicted labels.

    These are sequences or, if they have documents, the documents whose labels are all there.
    """
    predicted = [list(b) for _, b in pairs]
    gold = {k: a.known_labels for k, (a, _) in enumerate(pairs) if None not in (a.labels or ())}
    names = [labels for labels in (*gold.values(), *predicted) if set(labels) != {UNANSWERED}]
    known = labels_in(names, "auto") if tagger is None else labels_in(names, tagger.labels_.scheme, tagger.labels_)
    obeyed = [line.rule for line in checked_lines(read_files(deterministic_rules(rules)[1]), known, lenient=lenient)]
    given = [rule_inputs(a) for a, _ in pairs]
    answered = [k for k, labels in enumerate(predicted) if set(labels) != {UNANSWERED}]

    def count(labels: list[list[str]], where: Iterable[int]) -> list[int]:
        if pairs and pairs[0][0].group is not None:
            cuts = cuts_of([document_of(a) for a, _ in pairs])
            there, whole = dict(zip(where, labels, strict=True)), list[int]()
            for low, high in pairwise(cuts):
                whole += range(low, high) if all(k in there for k in range(low, high)) else ()
            if not whole:
                return [0] * len(obeyed)
            ids = [known.ids(there[k]).tolist() for k in whole]
            kept = cuts_of([document_of(pairs[k][0]) for k in whole])
            values = [given[k] for k in whole]
            return [int(n) for n in broken_in_documents(obeyed, ids, known, values, kept).sum(axis=0)]
        broken = violations(obeyed, labels, known, [given[k] for k in where], threads=threads) > 0
        return [int(n) for n in broken.sum(axis=0)]

    counts = zip(
        obeyed, count(list(gold.values()), gold), count([predicted[k] for k in answered], answered), strict=True
    )
    return [RuleCount(str(rule), a, b) for rule, a, b in counts]


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
class Pairing:
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
            gold = [known(label, examples) for label in example.columns[name]]
            yield replace(example, labels=gold), self._answer(example)

    def two_files(self, gold: Examples, reader: Reader, path: str, options: Reader) -> Iterator[Pair]:
        """Predicted labels from a file of any format. reader: of gold; asked: the options for the other file."""
        with read_chosen(path, lambda guess: _format_of(guess, gold.format, reader, options)) as predicted:
            predicted.items = _name_options(predicted.items)
            for a, b in self._matched(gold, reader, predicted, options):
                if a.labels is None and a.text is None:
                    raise a.error("a sequence has no gold labels", got="tokens only", wanted="a label per token")
                if a.labels is None:  # a text without annotations
                    self.left_out += 1
                else:
                    yield a, self._answer(b)

    def _matched(
        self, gold: Examples, reader: Reader, predicted: Examples, options: Reader
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
            layout = None if any(name in options.options for name in _LAYOUT) else predicted.format
            for a, b in paired(gold, predicted):
                b = _laid_out(a, b, ours) if layout == "conll" else b
                check_tokens(a, b, gold if a.id is None else ())
                yield a, b

    def by_model(
        self, examples: Iterable[Example], tagger: Tagger, rules: Iterable[Rule], threads: int
    ) -> Iterator[Pair]:
        """Predicted labels by a model, under rules."""
        decoder = tagger.decoder(rules, on_infeasible="relax")
        relaxed, gold = 0, set[str | None]()
        for batch in batches(examples, _AT_ONCE):
            groups = None if batch[0].group is None else [document_of(example) for example in batch]
            xs, given = [example.columns for example in batch], [example.given for example in batch]
            block = Block(len(batch), sequences=xs, given=given, groups=groups)
            outcomes = tag(block, tagger, decoder, threads=threads)
            row, error = outcomes.first_error(infeasible=False)
            if error is not None:
                raise error.at(where=batch[row].where)
            decodings = outcomes.decodings
            relaxed += sum(decoding.relaxed for decoding in decodings)
            gold.update(*(example.labels or () for example in batch))
            yield from ((example, decoding.labels) for example, decoding in zip(batch, decodings, strict=True))
        warn_unknown_labels(gold, tagger.labels_)
        if relaxed:
            warn(f"{relaxed:,} sequences cannot obey the hard rules; Bridle broke as few rules as possible")

    def _answer(self, example: Example) -> Sequence[str]:
        """Return the predicted labels; a sequence without any counts as wrong."""
        labels = example.labels
        if labels is None or (len(labels) and set(labels) == {UNANSWERED}):
            self.unanswered += 1
            return [UNANSWERED] * len(example)
        return [UNANSWERED if label is None else label for label in labels]


def _name_options(predicted: Iterator[Example]) -> Iterator[Example]:
    """Yield the sequences; errors that suggest an option name the option for the file of predictions."""
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
    names = set(chain.from_iterable(example.labels or () for example in examples))
    return {name for name in names if name is not None} - {UNANSWERED}


def _is_standoff(name: str) -> bool:
    return isinstance(format_named(name, {}), Standoff)


def _style(format: Format) -> Style:
    """Return the style in which a format with spans writes labels."""
    return Style(format.scheme if isinstance(format, Standoff) and format.scheme != "IO" else None)


def _format_of(guess: Guess, gold: str, reader: Reader, overrides: Reader) -> tuple[str, dict[str, Any]]:
    """Format and options of a file with predicted labels: those of gold, unless it looks like another format."""
    name = overrides.format or (guess.format if guess.format is not None and guess.sure else None) or gold
    options = dict(reader.options) if name == gold else {}
    options.pop("unlabelled", None)
    if name == "conll":
        options = {key: value for key, value in options.items() if key not in _LAYOUT}
    for option, usual in _NAMES.get(name, {}).items():
        column = str(options.get(option, usual))
        if column not in guess.first_line and usual in guess.first_line:  # what `bridle tag` has written
            del options[option]
    if _is_standoff(name):
        options |= CHARACTERS
    return name, options | overrides.options


def _laid_out(gold: Example, example: Example, format: Format) -> Example:
    """Return a sequence of unnamed columns laid out as gold if it has as many columns; else the last are the labels."""
    last = [] if example.labels is None else [[UNANSWERED if y is None else y for y in example.labels]]
    cells = [*example.columns.values(), *last]
    names = list(vars(format).get("columns") or ()) if format.name == "conll" else []
    width = len(names) or len(gold.columns) + 1
    label, tokens = len(cells) - 1, 0
    if format.name == "conll" and len(cells) == width:
        column = vars(format)["label"]
        if isinstance(column, int):
            label = column - 1 if column > 0 else width + column
        elif column in names:
            label = names.index(column)
    if names:
        tokens = next((k for k, name in enumerate(names) if name == next(iter(gold.columns))), 0)
    elif label == 0:
        tokens = 1
    if label == tokens or tokens >= len(cells):
        got, wanted = f"{len(cells)} columns", "tokens and labels"
        raise example.error("the file has no predicted labels", got=got, wanted=wanted)
    return replace(example, columns={"word": cells[tokens]}, labels=cells[label])
