"""`bridle eval`: gold against guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from itertools import islice, tee
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.cli.base import app, json_line, show, warn
from bridle.cli.options import AsJson, TheProgress, TheThreads
from bridle.cli.reading import (
    Reader,
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    called,
    reader_of,
    reading,
    rules_for,
    tell_unknown,
)
from bridle.data import Example
from bridle.errors import FileError, shown
from bridle.models import Tagger
from bridle.report import Scores, score
from bridle.report.metrics import COLUMNS, rows

_AT_ONCE = 1024  # sequences


class Segments(StrEnum):
    """What --scheme takes: all that conlleval knows."""

    AUTO, NONE, IO, BIO, IOB1, BIOES, BMES = "auto", "none", "IO", "BIO", "IOB1", "BIOES", "BMES"


@app.command("eval")
def evaluate(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Labelled sequences; - is stdin.", show_default=False)],
    guess: Annotated[
        str | None, typer.Argument(metavar="GUESS", help="The same ones, labelled by a tagger.", show_default=False)
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", metavar="MODEL", help="Tag GOLD with this model.")] = None,
    rules: Annotated[Path | None, typer.Option("--rules", metavar="FILE", help="Rules for --model.")] = None,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    scheme: Annotated[
        Segments,
        typer.Option(
            "--scheme",
            metavar="|".join(Segments),
            case_sensitive=False,
            help="How labels make segments; none: runs of a label.",
        ),
    ] = Segments.AUTO,
    by_label: Annotated[bool, typer.Option("--by-label", help="Tokens by label too.")] = False,
    threads: TheThreads = 0,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Compare labels with gold labels.

    Accuracy of tokens; precision, recall and F1 of segments, as conlleval counts them.

    \b
    Examples:
      bridle eval tagged.txt                    the last two columns are gold and guess (what bridle tag writes)
      bridle eval gold.txt guess.txt            two files
      bridle eval gold.txt --model m.bridle     tag and compare, with --rules if you like
      bridle eval tagged.txt --json             all figures, those by label too

    \b
    Exit codes:
      0    compared, whatever came out
      2    bad input or bad usage
      3    the scores allow no labelling at all (--model)
      130  stopped by Ctrl-C
    """
    if model is not None and guess is not None:
        raise FileError("there are two guesses", got="GUESS and --model", wanted="one of them")
    tagger = None if model is None else bridle.load(model)
    if rules is not None and tagger is None:
        raise FileError("rules are for tagging", got="--rules without --model", wanted="--model MODEL too")
    before = None if tagger is None else Reader.noted(tagger.notes_)
    reader = reader_of(format, columns, label, option, before)
    with ExitStack() as files:
        examples, bar = files.enter_context(reading(reader, gold, progress, "comparing"))
        if tagger is not None:
            pairs = _by_model(examples.labelled(), tagger, rules, threads)
        elif guess is not None:
            other = files.enter_context(replace(reader, format=examples.format).open(guess))
            pairs = ((_labels(a), _labels(b)) for a, b in _together(examples, other))
        else:
            pairs = map(_side_by_side, examples)
        found = _scores(pairs, None if scheme is Segments.NONE else scheme.value, bar)
    if not found.sequences:
        raise FileError("there are no sequences", got="nothing", wanted="labelled sequences", where=called(gold))
    if not found.correct_tokens and guess is None and tagger is None:
        warn("gold and guess never agree; are they the last two columns?")
    if as_json:
        typer.echo(json_line(found.to_dict()))
        return
    show(found.lines())
    if by_label:
        show(_table(found))


def _scores(pairs: Iterable[tuple[Sequence[str], Sequence[str]]], scheme: str | None, bar: Any) -> Scores:
    def moved() -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        for k, pair in enumerate(pairs):
            if k % 1000 == 0:
                bar()
            yield pair

    left, right = tee(moved())
    return score((a for a, _ in left), (b for _, b in right), scheme)


def _labels(example: Example) -> Sequence[str]:
    if example.labels is None:
        raise example.error("a sequence has no labels", got="tokens only", wanted="a label per token")
    return example.labels


def _together(gold: Iterable[Example], guess: Iterable[Example]) -> Iterator[tuple[Example, Example]]:
    """Sequences of two files; they must have the same tokens."""
    ours, theirs = iter(gold), iter(guess)
    while True:
        a, b = next(ours, None), next(theirs, None)
        if a is None and b is None:
            return
        if a is None or b is None:
            last = a or b
            assert last is not None
            raise last.error("one file has more sequences than the other", wanted="the same sequences in both")
        if len(a) != len(b):
            raise b.error(f"another number of tokens than {a.where}", got=len(b), wanted=len(a))
        if list(a.tokens) != list(b.tokens):
            pair = next(pair for pair in zip(a.tokens, b.tokens, strict=True) if pair[0] != pair[1])
            raise b.error(f"another text than {a.where}", got=shown(pair[1]), wanted=shown(pair[0]))
        yield a, b


def _side_by_side(example: Example) -> tuple[Sequence[str], Sequence[str]]:
    """Gold and guess in the last two columns."""
    guess = _labels(example)
    if len(example.columns) < 2:
        raise example.error(
            "there is only one column of labels",
            got=f"the columns {', '.join(example.columns)} and the labels",
            wanted="tokens, gold, guess",
            cause="Pass a second file, or --model.",
        )
    return list(example.columns.values())[-1], guess


def _by_model(
    examples: Iterable[Example], tagger: Tagger, rules: Path | None, threads: int
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    decoder = tagger.decoder(rules_for(rules, tagger), on_infeasible="relax")
    relaxed, gold = 0, set[str]()
    for held in _some(examples):
        xs = [example.columns for example in held]
        given = tagger.given(xs, decoder, [example.given for example in held])
        found = decoder.decode_batch(tagger.lattices(xs, threads=threads), given, threads)
        relaxed += sum(one.relaxed for one in found)
        gold.update(*(example.labels or () for example in held))
        yield from ((_labels(example), one.labels) for example, one in zip(held, found, strict=True))
    tell_unknown(gold, tagger.labels_)
    if relaxed:
        warn(f"{relaxed:,} sequences cannot obey the hard rules; they break the fewest")


def _some(examples: Iterable[Example]) -> Iterator[list[Example]]:
    left = iter(examples)
    while held := list(islice(left, _AT_ONCE)):
        yield held


def _table(found: Scores) -> Iterator[str]:
    body = [COLUMNS, *rows(found, of="labels")]
    shown = [[f"{x:.2%}" if isinstance(x, float) else str(x) for x in row] for row in body]
    widths = [max(len(row[c]) for row in shown) for c in range(len(COLUMNS))]
    yield ""
    for row in shown:
        yield "  ".join(x.ljust(w) if c == 0 else x.rjust(w) for c, (x, w) in enumerate(zip(row, widths, strict=True)))
