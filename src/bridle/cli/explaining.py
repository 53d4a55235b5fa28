"""`bridle explain`: why a sequence has its labels, and what rules did to a data set."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from bridle.atomic import write_text
from bridle.cli.bars import shown
from bridle.cli.base import (
    LOOK,
    NO_ANSWER,
    Names,
    NamesFile,
    Scheme,
    TheScheme,
    app,
    fail,
    json_line,
    keep,
    names_of,
    warn,
)
from bridle.cli.chosen import Chosen, Wanted, from_model, from_scores
from bridle.cli.options import (
    AsJson,
    TheEngine,
    TheLimit,
    TheMemory,
    TheProgress,
    TheRules,
    TheThreads,
    bytes_of,
)
from bridle.cli.reading import TheColumns, TheFormat, TheLabel, TheOptions, rules_of
from bridle.decoding.decoder import Decoder
from bridle.errors import FileError
from bridle.explain import Explanation
from bridle.explain.impact import Impact, impact
from bridle.explain.page import explanation_page, impact_page
from bridle.explain.picture import trellis_of
from bridle.explain.terminal import show_explanation, show_impact
from bridle.explain.words import to_dict
from bridle.labels import Labels
from bridle.report.layout import Show
from bridle.report.trellis import draw_trellis


@app.command()
def explain(
    context: typer.Context,
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="What bridle train made.", show_default=False)
    ] = None,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Sequences, labelled or not; - is stdin.", show_default=False)
    ] = None,
    rules: TheRules = None,
    scores: Annotated[
        str | None, typer.Option("--scores", metavar="FILE", help="Scores of your own, as bridle decode reads them.")
    ] = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", metavar="N", min=0, help="Look at this one; the first is 0.")
    ] = None,
    name: Annotated[str | None, typer.Option("--id", metavar="ID", help="Explain the sequence with this id.")] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Look at this text.")] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", min=0, help="How many of the next best labellings.")] = 5,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page, too.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trellis as a picture, too.")] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="All tokens of a long sequence, not only those near a change.")
    ] = False,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    labels: Names = None,
    labels_file: NamesFile = None,
    scheme: TheScheme = Scheme.NONE,
    engine: TheEngine = "auto",
    time_limit: TheLimit = None,
    max_memory: TheMemory = None,
    threads: TheThreads = 0,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Explain labels: which rules bit, where, at what price.

    One sequence: the trellis with the best labels without and with rules, where they part, which rules forced that and
    at what price, what soft rules charged, the next best labellings, and the proof. If the rules cannot hold together:
    those that clash, and the labels that break the fewest. A data set: how often each rule bit and, if the data has
    labels, whether that helped.

    \b
    Examples:
      bridle explain refs.bridle dev.txt --rules my.rules                            the data set
      bridle explain refs.bridle dev.txt --rules my.rules --sequence 17 --html why.html
      bridle explain refs.bridle --rules my.rules --text "Knuth , Literate programming , 1984"
      bridle explain --scores scores.jsonl --rules my.rules --labels O,A0,A1 --scheme IO --id s1

    \b
    MODEL reads DATA as it read its training data (--format, --columns and so on change that: --format text for plain
    text); labels in DATA are gold. --labels and --scheme are for --scores.

    \b
    Exit codes:
      0    fine
      1    some sequences of the data set cannot obey the hard rules, or had no labelling in time
      2    bad input, bad usage, or a file cannot be written
      3    the sequence has no labelling under the rules, or none was found in time
      130  stopped by Ctrl-C
    """
    asked = {flag for key, flag in _FLAGS.items() if _typed(context, key)}
    wanted = Wanted(sequence, name, text, next((flag for flag in ("--svg", "--k", "--all") if flag in asked), None))
    wanted.check(model, data, scores, asked)
    for flag, path in (("--html", html), ("--svg", svg)):
        if str(path) == "-":
            raise FileError(f"{flag} does not write to stdout", got=f"{flag} -", wanted="the name of a file")
    keep(html, model, data, scores, rules, labels_file, svg, flag="--html")
    keep(svg, model, data, scores, rules, labels_file, flag="--svg")

    memory = bytes_of(max_memory)

    def decoder_of(known: Labels) -> Decoder:
        return Decoder(
            known,
            rules_of(rules, known),
            engine,
            time_limit=time_limit,
            max_memory=memory,
            on_infeasible="relax",
        )

    if scores is not None:
        found = from_scores(scores, wanted, names_of(labels, labels_file), scheme, decoder_of)
    else:
        found = from_model(model, data, wanted, (format, columns, label, option), decoder_of, progress)
    output = _Output(k, "all" if whole else "changes", html, svg, as_json)
    if len(found) == 1:
        with _busy(progress, "finding out what each rule did"):
            told = found.decoder.explain(found.lattices[0], found.givens[0] if found.givens else None)
            told.alternatives(k)
        output.one(found, told)
    with _busy(progress, "leaving out one rule at a time") as watch:
        what = impact(found.decoder, found.lattices, found.givens, gold=found.gold, threads=threads, watch=watch)
    output.many(found, what, _look(context, found, what))


# Options that not all uses have.
_FLAGS = {
    "svg": "--svg",
    "k": "--k",
    "whole": "--all",
    "labels": "--labels",
    "labels_file": "--labels-file",
    "scheme": "--scheme",
    "format": "--format",
    "columns": "--columns",
    "label": "--label",
    "option": "--option",
}


def _typed(context: typer.Context, key: str) -> bool:
    source = context.get_parameter_source(key)
    return source is not None and source.name == "COMMANDLINE"


@dataclass(frozen=True)
class _Output:
    """Where explanations go."""

    k: int
    show: Show
    html: Path | None
    svg: Path | None
    as_json: bool

    def one(self, found: Chosen, told: Explanation) -> NoReturn:
        """One sequence, explained."""
        tokens, gold = found.tokens[0], None if found.gold is None else found.gold[0]
        title = f"Why these labels: {found.called(0)}"
        if self.html is not None:
            page = explanation_page(told, tokens, title=title, k=self.k, show=self.show, gold=gold)
            write_text(self.html, page.html() + "\n")
        if self.svg is not None:
            picture = draw_trellis(trellis_of(told, tokens, k=self.k, gold=gold), show=self.show, title=title)
            write_text(self.svg, picture.rstrip("\n") + "\n")
        if self.as_json:
            gold_too = {} if gold is None else {"gold": list(gold)}
            typer.echo(json_line({"id": found.ids[0], **gold_too, **to_dict(told, tokens, self.k)}))
        else:
            with _console() as console:
                show_explanation(told, tokens, console, name=found.called(0), k=self.k, show=self.show, gold=gold)
        if told.best.relaxed:
            fail(f"{found.where[0]}: {_clash(told)}", NO_ANSWER)
        raise typer.Exit

    def many(self, found: Chosen, what: Impact, look: str) -> NoReturn:
        """A data set."""
        if self.html is not None:
            page = impact_page(what, found.ids, title="What the rules did", below=found.source, look=look)
            write_text(self.html, page.html() + "\n")
        if self.as_json:
            typer.echo(json_line(what.to_dict(found.ids)))
        else:
            with _console() as console:
                show_impact(what, found.ids, console, look=look)
        raise typer.Exit(LOOK if what.relaxed or what.unanswered else 0)


@contextmanager
def _console() -> Iterator[Console]:
    """Where to print; in a pipe, lines end with their last word."""
    console = Console()
    if console.is_terminal:
        yield console
        return
    held = StringIO()
    yield Console(file=held, width=console.width)
    typer.echo("\n".join(line.rstrip() for line in held.getvalue().split("\n")).rstrip("\n"))


def _clash(told: Explanation) -> str:
    rules = "; ".join(map(str, told.clash))
    return f"no labelling obeys the hard rules; got {len(told.clash)} that clash: {rules}."


def _look(context: typer.Context, found: Chosen, what: Impact) -> str:
    """The command that shows the most telling sequence; "" if the rules changed none, or if stdin is gone."""
    telling = [*what.helped[:1], *what.hurt[:1], *what.dearest[:1]]
    given: dict[str, Any] = context.params
    if not telling or "-" in (given["data"], given["scores"]):
        return ""
    words = ["bridle", "explain", *(str(given[key]) for key in ("model", "data") if given[key] is not None)]
    named = [("scores", "--scores"), ("rules", "--rules"), ("labels", "--labels"), ("labels_file", "--labels-file")]
    named += [("format", "--format"), ("columns", "--columns"), ("label", "--label"), ("time_limit", "--time-limit")]
    named += [("max_memory", "--max-memory")]
    for key, flag in named:
        words += [flag, str(given[key])] if given[key] is not None else []
    for setting in given["option"] or []:
        words += ["--option", str(setting)]
    if found.decoder.labels.scheme is not None and given["scores"] is not None:
        words += ["--scheme", found.decoder.labels.scheme]
    if given["engine"] != "auto":
        words += ["--engine", given["engine"]]
    return shlex.join([*words, "--sequence", str(telling[0].sequence)])


@contextmanager
def _busy(asked: bool | None, doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar while the work goes on, and how to move it; off a terminal, a line that it has begun."""
    console = Console(stderr=True)
    if not shown(asked):
        yield None
    elif console.is_terminal:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(doing, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        warn(f"{doing} ...")
        yield None
