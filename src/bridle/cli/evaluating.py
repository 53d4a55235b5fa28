"""`bridle eval`: compare predicted labels with gold labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import tee
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import write_text
from bridle.cli.base import app, json_line, keep, show, warn
from bridle.cli.comparing import Comparison, Pair
from bridle.cli.options import FORMATS, AsJson, TheLenient, TheProgress, TheThreads
from bridle.cli.reading import (
    Reader,
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    called,
    given_of,
    labels_in,
    model_reader,
    reader_of,
    reading,
    rules_for,
    rules_of,
    settings_of_format,
)
from bridle.errors import FileError
from bridle.learn.evidence import violations
from bridle.models import Tagger
from bridle.report import score
from bridle.report.evaluation import LABELS, Evaluation, RuleCount, WrongSequence
from bridle.report.scoring import UNANSWERED

_ON_PAGE = 50  # wrong sequences that a page shows


class Segments(StrEnum):
    """What --scheme takes: all that conlleval knows."""

    AUTO, NONE, IO, BIO, IOB1, BIOES, BMES = "auto", "none", "IO", "BIO", "IOB1", "BIOES", "BMES"


@app.command("eval")
def evaluate(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Labelled sequences; - reads stdin.", show_default=False)],
    predicted: Annotated[
        str | None,
        typer.Argument(
            metavar="PREDICTED", help="The same sequences, labelled by a tagger, in any format.", show_default=False
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", metavar="MODEL", help="Tag GOLD with this model.")] = None,
    rules: Annotated[
        list[Path] | None,
        typer.Option(
            "--rules",
            metavar="FILE",
            help="Count the sequences that break each rule; with --model, also obey the rules. Can be repeated.",
        ),
    ] = None,
    lenient: TheLenient = False,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    predicted_format: Annotated[
        str | None,
        typer.Option(
            "--predicted-format",
            metavar="NAME",
            autocompletion=FORMATS,
            help="Format of PREDICTED. Default: by the suffix or the first lines, or that of GOLD.",
        ),
    ] = None,
    predicted_option: Annotated[
        list[str] | None,
        typer.Option("--predicted-option", metavar="KEY=VALUE", help="Option of that format; can be repeated."),
    ] = None,
    scheme: Annotated[
        Segments,
        typer.Option(
            "--scheme",
            metavar="|".join(Segments),
            case_sensitive=False,
            help="Tagging scheme of the labels; none: a segment is a run of one label.",
        ),
    ] = Segments.AUTO,
    by_label: Annotated[
        bool, typer.Option("--by-label", help=f"Show all labels, even if there are more than {LABELS}.")
    ] = False,
    wrong: Annotated[
        int | None,
        typer.Option(
            "--wrong",
            metavar="N",
            min=0,
            help="Show the first N sequences with a wrong label. Default with --html: 50.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with all tables and wrong sequences."),
    ] = None,
    threads: TheThreads = 0,
    as_json: AsJson = False,
    progress: TheProgress = None,
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
      bridle eval tagged.txt --json             all figures, with the complete confusion matrix

    \b
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
    if gold == predicted == "-":
        raise FileError("both files are standard input", got="- twice", wanted="a file for one of them")
    keep(html, gold, predicted, model, *(rules or ()), flag="--html")
    tagger = None if model is None else bridle.load(model)
    reads = format, columns, label, option
    reader = reader_of(*reads) if tagger is None else model_reader(tagger, *reads)
    other = Reader(predicted_format, settings_of_format(predicted_option, "--predicted-option"))
    if predicted is None and (other.format or other.options):
        got = "--predicted-format" if other.format else "--predicted-option"
        raise FileError("PREDICTED is missing", got=got, wanted="GOLD and PREDICTED")
    made, comparison = _Made(_ON_PAGE if wrong is None and html else wrong or 0), Comparison()
    with ExitStack() as files:
        examples, bar = files.enter_context(reading(reader, gold, progress, "comparing"))
        if tagger is not None:
            obeyed = rules_for(rules, tagger, lenient=lenient)
            pairs = comparison.by_model(examples.labelled(), tagger, obeyed, threads)
        elif predicted is not None:
            pairs = comparison.two_files(examples, reader, predicted, other)
        else:
            pairs = comparison.one_file(examples)
        kept = list(pairs) if rules else pairs
        left, right = tee(made.watched(kept, bar))
        scores = score(
            (a.labels or () for a, _ in left), (b for _, b in right), None if scheme is Segments.NONE else scheme.value
        )
    if not scores.sequences:
        raise FileError("there are no sequences", got="nothing", wanted="labelled sequences", where=called(gold))
    if not scores.correct_tokens and predicted is None and tagger is None:
        warn("no predicted label equals its gold label; are they in the last two columns?")
    if comparison.left_out:
        warn(f"{gold}: left out {comparison.left_out:,} texts without annotations")
    broken = _broken(kept, rules, tagger, lenient, threads) if rules and isinstance(kept, list) else []
    found = Evaluation(scores, made.wrong, broken, comparison.unanswered)
    if html is not None:
        below = " against ".join([str(predicted or model or "the last column"), called(gold)])
        write_text(html, found.page("Evaluation", below).html())
    if as_json:
        typer.echo(json_line(found.to_dict()))
        return
    shown = found if wrong is not None else Evaluation(scores, (), broken, comparison.unanswered)
    show(shown.lines(None if by_label else LABELS))


@dataclass
class _Made:
    """Collects the first sequences with wrong labels."""

    most: int
    wrong: list[WrongSequence] = field(default_factory=list)

    def watched(self, pairs: Iterable[Pair], bar: Any) -> Iterator[Pair]:
        for k, (gold, labels) in enumerate(pairs):
            if k % 1000 == 0:
                bar()
            if len(self.wrong) < self.most:
                name = gold.where if gold.id is None else f"{gold.where}: {gold.id}" if gold.where else str(gold.id)
                one = WrongSequence.of(name or f"sequence {k}", gold.tokens, gold.labels or (), labels)
                self.wrong += [] if one is None else [one]
            yield gold, labels


def _broken(
    pairs: list[Pair], rules: list[Path], tagger: Tagger | None, lenient: bool, threads: int
) -> list[RuleCount]:
    """How many sequences break each rule: with gold labels, if all of them are known, and with predicted labels."""
    predicted = [list(b) for _, b in pairs]
    gold = {k: a.known_labels for k, (a, _) in enumerate(pairs) if None not in (a.labels or ())}
    names = [labels for labels in (*gold.values(), *predicted) if set(labels) != {UNANSWERED}]
    known = labels_in(names, "auto") if tagger is None else labels_in(names, tagger.labels_.scheme, tagger.labels_)
    obeyed = rules_of(rules, known, lenient=lenient)
    given = [given_of(a) for a, _ in pairs]
    answered = [k for k, labels in enumerate(predicted) if set(labels) != {UNANSWERED}]

    def count(labels: list[list[str]], where: Iterable[int]) -> list[int]:
        broken = violations(obeyed, labels, known, [given[k] for k in where], threads=threads) > 0
        return [int(n) for n in broken.sum(axis=0)]

    counts = zip(
        obeyed, count(list(gold.values()), gold), count([predicted[k] for k in answered], answered), strict=True
    )
    return [RuleCount(str(rule), a, b) for rule, a, b in counts]
