"""`bridle explain`: show why a sequence has its labels, and what rules did to a data set."""

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
    TheLenient,
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
from bridle.explain.terminal import show_explanation, show_impact
from bridle.explain.words import to_dict, trellis_of
from bridle.labels import Labels
from bridle.report.trellis import Show, draw_trellis


@app.command()
def explain(
    context: typer.Context,
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Model that bridle train wrote.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Sequences, with or without labels; - reads stdin.", show_default=False),
    ] = None,
    rules: TheRules = None,
    lenient: TheLenient = False,
    scores: Annotated[
        str | None,
        typer.Option(
            "--scores", metavar="FILE", help="Explain these scores instead of a model; same formats as bridle decode."
        ),
    ] = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", metavar="N", min=0, help="Explain sequence number N, counted from 0.")
    ] = None,
    name: Annotated[str | None, typer.Option("--id", metavar="ID", help="Explain the sequence with this id.")] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Explain this text.")] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", min=0, help="Number of next best labellings to show.")] = 5,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write an HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the trellis as an SVG picture.")] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Show all tokens of a long sequence, not only those near a change.")
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
    """Explain labels: which rules changed them, where, and at what cost.

    For one sequence, it shows the trellis with the best labels without and with rules, where they differ, and which
    rules caused that at what cost. Then it shows the penalties of soft rules, the next best labellings, and the proof.
    If rules contradict each other, it shows those rules, and the labels that break as few as possible. For a data set,
    it shows how often each rule changed labels and, if the data has labels, whether that helped.

    \b
    Examples:
      bridle explain refs.bridle dev.txt --rules my.rules                            the data set
      bridle explain refs.bridle dev.txt --rules my.rules --sequence 17 --html why.html
      bridle explain refs.bridle --rules my.rules --text "Knuth , Literate programming , 1984"
      bridle explain --scores scores.jsonl --rules my.rules --labels O,A0,A1 --scheme IO --id s1

    \b
    DATA is read in the same way as the training data of MODEL. --format, --columns and so on change that; use
    --format text for plain text. Labels in DATA are gold labels. --labels and --scheme apply to --scores only.

    \b
    Exit codes:
      0    success
      1    some sequences of a data set cannot obey the hard rules, or time ran out
      2    bad input, bad usage, or a file cannot be written
      3    the sequence has no labelling under the rules, or time ran out
      130  stopped by Ctrl-C
    """
    asked = {flag for key, flag in _FLAGS.items() if _typed(context, key)}
    wanted = Wanted(sequence, name, text, next((flag for flag in ("--svg", "--k", "--all") if flag in asked), None))
    wanted.check(model, data, scores, asked)
    for flag, path in (("--html", html), ("--svg", svg)):
        if str(path) == "-":
            raise FileError(f"{flag} does not write to stdout", got=f"{flag} -", wanted="the name of a file")
    keep(html, model, data, scores, *(rules or ()), labels_file, svg, flag="--html")
    keep(svg, model, data, scores, *(rules or ()), labels_file, flag="--svg")

    memory = bytes_of(max_memory)

    def decoder_of(known: Labels) -> Decoder:
        return Decoder(
            known,
            rules_of(rules, known, lenient=lenient),
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
        with _busy(progress, "measuring the effect of each rule"):
            told = found.decoder.explain(found.lattices[0], found.givens[0] if found.givens else None)
            told.alternatives(k)
        output.one(found, told)
    with _busy(progress, "leaving out one rule at a time") as watch:
        what = impact(found.decoder, found.lattices, found.givens, gold=found.gold, threads=threads, watch=watch)
    output.many(found, what, _look(context, found, what))


# Options that some uses of the command do not have.
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
    """Writes explanations, as the options ask."""

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
            page = impact_page(what, found.ids, title="Effect of the rules", below=found.source, look=look)
            write_text(self.html, page.html() + "\n")
        if self.as_json:
            typer.echo(json_line(what.to_dict(found.ids)))
        else:
            with _console() as console:
                show_impact(what, found.ids, console, look=look)
        raise typer.Exit(LOOK if what.relaxed or what.unanswered else 0)


@contextmanager
def _console() -> Iterator[Console]:
    """The console to print on; in a pipe, lines have no trailing blanks."""
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
    """The command that explains the most informative sequence; "" if rules changed none, or for stdin."""
    telling = [*what.helped[:1], *what.hurt[:1], *what.dearest[:1]]
    given: dict[str, Any] = context.params
    if not telling or "-" in (given["data"], given["scores"]):
        return ""
    words = ["bridle", "explain", *(str(given[key]) for key in ("model", "data") if given[key] is not None)]
    named = [("scores", "--scores"), ("labels", "--labels"), ("labels_file", "--labels-file")]
    named += [("format", "--format"), ("columns", "--columns"), ("label", "--label"), ("time_limit", "--time-limit")]
    named += [("max_memory", "--max-memory")]
    for key, flag in named:
        words += [flag, str(given[key])] if given[key] is not None else []
    for key, flag in (("rules", "--rules"), ("option", "--option")):
        for value in given[key] or []:
            words += [flag, str(value)]
    words += ["--lenient"] if given["lenient"] else []
    if found.decoder.labels.scheme is not None and given["scores"] is not None:
        words += ["--scheme", found.decoder.labels.scheme]
    if given["engine"] != "auto":
        words += ["--engine", given["engine"]]
    return shlex.join([*words, "--sequence", str(telling[0].sequence)])


@contextmanager
def _busy(asked: bool | None, doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar with the function that updates it; without a terminal, a line that says what has begun."""
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
