"""`bridle explain`: show why a sequence has its labels, and what rules did to a data set."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

import bridle
from bridle.atomic import write_text
from bridle.cli import options as opt
from bridle.cli.base import NO_ANSWER, WARNINGS, Command, app, exit_with, json_line, refuse_overwrite, show, warn
from bridle.cli.decoding import agreed_labels
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import (
    ReadCounts,
    announce_keyboard,
    label_names,
    load_rules,
    make_labels,
    make_model_reader,
    make_reader,
    reading,
    source_name,
    text_example,
    warn_unknown_labels,
)
from bridle.data import Example, open_scores
from bridle.data.documents import document_of, documents_of
from bridle.data.reader import Reader
from bridle.decoding.decoder import Decoder
from bridle.errors import BridleError, FileError, LabelError
from bridle.explain import Explanation
from bridle.explain.impact import Impact, impact
from bridle.explain.page import explanation_page, impact_page
from bridle.explain.terminal import show_explanation, show_impact
from bridle.explain.words import to_dict, trellis_of
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.models import Tagger
from bridle.report.trellis import Show, draw_trellis


@app.command(cls=Command)
@opt.grouped
def explain(
    *,
    context: typer.Context,
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Model that bridle train wrote.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Sequences, with or without labels; - reads stdin.", show_default=False),
    ] = None,
    rules: opt.RulesOption = None,
    lenient: opt.LenientOption = False,
    scores: Annotated[
        str | None,
        opt.option("--scores FILE", "Explain these scores instead of a model; same formats as bridle decode."),
    ] = None,
    sequence: Annotated[
        int | None, opt.option("--sequence N", "Explain sequence number N, counted from 0.", min=0)
    ] = None,
    name: Annotated[str | None, opt.option("--id ID", "Explain the sequence with this id.")] = None,
    text: Annotated[str | None, opt.option("--text TEXT", "Explain this text.")] = None,
    k: Annotated[int, opt.option("--k N", "Number of next best labellings to show.", min=0)] = 5,
    html: Annotated[Path | None, opt.option("--html FILE", "Also write an HTML page.")] = None,
    svg: Annotated[Path | None, opt.option("--svg FILE", "Also write the trellis as an SVG picture.")] = None,
    whole: Annotated[
        bool, opt.option("--all", "Show all tokens of a long sequence, not only those near a change.")
    ] = False,
    reads: opt.DataOptions,
    labels: opt.LabelsOption = None,
    labels_file: opt.LabelsFileOption = None,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    engine: opt.EngineOption = "auto",
    time_limit: opt.TimeLimitOption = None,
    max_memory: opt.MemoryOption = None,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
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
    typed = set(opt.typed(context))
    selection = Selection(
        sequence, name, text, next((flag for flag in ("--svg", "--k", "--all") if flag in typed), None)
    )
    selection.check(model, data, scores, typed)
    for flag, path in (("--html", html), ("--svg", svg)):
        if str(path) == "-":
            raise FileError(f"{flag} does not write to stdout", got=f"{flag} -", wanted="the name of a file")
    refuse_overwrite(html, model, data, scores, *(rules or ()), labels_file, svg, flag="--html")
    refuse_overwrite(svg, model, data, scores, *(rules or ()), labels_file, flag="--svg")

    memory = opt.parse_size(max_memory)

    def decoder_of(known: Labels) -> Decoder:
        return Decoder(
            known,
            load_rules(rules, known, lenient=lenient),
            engine,
            time_limit=time_limit,
            max_memory=memory,
            on_infeasible="relax",
        )

    pictures = typed & {"--svg", "--k", "--all"} | ({"--html"} if html is not None else set())
    if reads.groups is not None and pictures:
        got, wanted = " and ".join(sorted(pictures)), "--groups without them"
        raise FileError("documents are explained as text or as JSON", got=got, wanted=wanted)
    if scores is not None:
        selected = from_scores(scores, selection, label_names(labels, labels_file), scheme, decoder_of)
    else:
        selected = from_model(model, data, selection, reads, decoder_of, progress)
    if reads.groups is not None:
        _explain_documents(selected, single=selection.single, as_json=as_json)
    output = _Output(k, "all" if whole else "changes", html, svg, as_json)
    if len(selected) == 1:
        with ProgressBar(progress, "measuring the effect of each rule") as bar:
            bar(0)
            explanation = selected.decoder.explain(
                selected.lattices[0], selected.givens[0] if selected.givens else None
            )
            explanation.alternatives(k)
        output.write_explanation(selected, explanation)
    with ProgressBar(progress, "leaving out one rule at a time") as bar:
        effects = impact(
            selected.decoder, selected.lattices, selected.givens, gold=selected.gold, threads=threads, watch=bar
        )
    output.write_effects(selected, effects, _look(context, effects))


def _explain_documents(selected: SelectedSequences, *, single: bool, as_json: bool) -> NoReturn:
    """Explain documents: the chosen one, or all whose labels rules changed or that pay a price."""
    relaxed = 0
    for (file, name), rows in groupby(range(len(selected)), key=selected.documents.__getitem__):
        low, *others = list(rows)
        high = low + 1 + len(others)
        lattices = [selected.lattices[b] for b in range(low, high)]
        givens = None if selected.givens is None else selected.givens[low:high]
        why = selected.decoder.explain_document(lattices, givens)
        relaxed += why.best.relaxed
        if as_json:
            typer.echo(json_line({"document": name, **why.to_dict()}))
        elif single or why.effects:
            sequences = "1 sequence" if high == low + 1 else f"{high - low} sequences"
            show([f"document {name} ({file}, {sequences})", *str(why).split("\n"), ""])
    if relaxed:
        documents = "1 document" if relaxed == 1 else f"{relaxed:,} documents"
        warn(f"{documents} cannot obey the hard rules; Bridle broke as few rules as possible")
    raise typer.Exit(WARNINGS if relaxed else 0)


@dataclass(frozen=True)
class _Output:
    """Writes explanations, as the options ask."""

    k: int
    show: Show
    html: Path | None
    svg: Path | None
    as_json: bool

    def write_explanation(self, selected: SelectedSequences, explanation: Explanation) -> NoReturn:
        """Write the explanation of one sequence."""
        tokens, gold = selected.tokens[0], None if selected.gold is None else selected.gold[0]
        title = f"Why these labels: {selected.title(0)}"
        if self.html is not None:
            page = explanation_page(explanation, tokens, title=title, k=self.k, show=self.show, gold=gold)
            write_text(self.html, page.html() + "\n")
        if self.svg is not None:
            picture = draw_trellis(trellis_of(explanation, tokens, k=self.k, gold=gold), show=self.show, title=title)
            write_text(self.svg, picture.rstrip("\n") + "\n")
        if self.as_json:
            gold_too = {} if gold is None else {"gold": list(gold)}
            typer.echo(json_line({"id": selected.ids[0], **gold_too, **to_dict(explanation, tokens, self.k)}))
        else:
            with _console() as console:
                show_explanation(
                    explanation, tokens, console, name=selected.title(0), k=self.k, show=self.show, gold=gold
                )
        if explanation.best.relaxed:
            exit_with(f"{selected.where[0]}: {_clash(explanation)}", NO_ANSWER)
        raise typer.Exit

    def write_effects(self, selected: SelectedSequences, effects: Impact, look: str) -> NoReturn:
        """Write the effect of rules on a data set."""
        if self.html is not None:
            page = impact_page(effects, selected.ids, title="Effect of the rules", below=selected.source, look=look)
            write_text(self.html, page.html() + "\n")
        if self.as_json:
            typer.echo(json_line(effects.to_dict(selected.ids)))
        else:
            with _console() as console:
                show_impact(effects, selected.ids, console, look=look)
        raise typer.Exit(WARNINGS if effects.relaxed or effects.unanswered else 0)


@contextmanager
def _console() -> Iterator[Console]:
    """Yield the console to print on; in a pipe, lines have no trailing blanks."""
    console = Console()
    if console.is_terminal:
        yield console
        return
    held = StringIO()
    yield Console(file=held, width=console.width)
    typer.echo("\n".join(line.rstrip() for line in held.getvalue().split("\n")).rstrip("\n"))


_OF_OUTPUT = {"--html", "--json", "--threads", "--progress"}  # options that do not change what is explained


def _clash(explanation: Explanation) -> str:
    rules = "; ".join(map(str, explanation.clash))
    return f"no labelling obeys the hard rules; got {len(explanation.clash)} that clash: {rules}."


def _look(context: typer.Context, effects: Impact) -> str:
    """Return the command that explains the most informative sequence; "" if rules changed none, or for stdin."""
    telling = [*effects.helped[:1], *effects.hurt[:1], *effects.dearest[:1]]
    if not telling or "-" in (context.params["data"], context.params["scores"]):
        return ""
    words = ["bridle", "explain"]
    for flag, value in opt.typed(context).items():
        if flag not in _OF_OUTPUT:
            for each in value if isinstance(value, list) else [value]:
                words += [*([flag] if flag.startswith("-") else []), *([] if each is True else [str(each)])]
    return shlex.join([*words, "--sequence", str(telling[0].sequence)])


@dataclass(frozen=True)
class SelectedSequences:
    """The chosen sequences, with their scores, ids, tokens and gold labels."""

    source: str
    decoder: Decoder
    lattices: Sequence[Lattice] | Batch
    givens: Sequence[dict[str, Any]] | None
    ids: list[Any]  # of each in the file; its number if it has none
    where: list[str]
    tokens: list[list[str]]
    gold: list[list[str]] | None
    documents: Sequence[tuple[str, Any]] = ()  # the file and the document of each, with --groups

    def __len__(self) -> int:
        return len(self.ids)

    def title(self, b: int) -> str:
        """Return the name of a sequence in output for people."""
        where = f" ({self.where[b]})" if self.where[b] else ""
        return f"{self.ids[b]}{where}"


@dataclass
class Selection:
    """The choice of a sequence by its number or its id, of a text, or of all sequences; counts the sequences seen."""

    sequence: int | None = None
    name: str | None = None
    text: str | None = None
    alone: str | None = None  # an option that needs a single sequence
    count: int = 0
    others: list[str] = field(default_factory=list)  # ids of those that were not chosen

    def check(self, model: Path | None, data: str | None, scores: str | None, options: set[str]) -> None:
        """Check that the arguments can be combined."""
        flags = [
            flag
            for flag, value in (("--sequence", self.sequence), ("--id", self.name), ("--text", self.text))
            if value is not None
        ]
        if len(flags) > 1:
            raise FileError(
                "--sequence, --id and --text cannot be combined", got=" and ".join(flags), wanted="one of them"
            )
        if model is None and scores is None:
            raise FileError(
                "there is nothing to explain",
                got="no MODEL and no --scores",
                wanted="MODEL and DATA, MODEL and --text, or --scores FILE",
                cause="Rules need scores: pass MODEL or --scores.",
            )
        if scores is not None and (model is not None or self.text is not None):
            got = f"--scores and {'MODEL' if model is not None else '--text'}"
            raise FileError(
                "--scores cannot be combined with MODEL or --text",
                got=got,
                wanted="--scores alone, or MODEL without it",
            )
        if scores is None and (data is None) == (self.text is None):
            what = "DATA or --text is missing" if data is None else "DATA and --text cannot be combined"
            got = "MODEL alone" if data is None else "both"
            raise FileError(what, got=got, wanted="DATA (- reads stdin), or --text TEXT")
        if scores is not None and (
            idle := sorted(options & {"--format", "--columns", "--label", "--option", "--groups"})
        ):
            raise FileError(
                "options for data files have no effect with --scores",
                got=" and ".join(idle),
                wanted="--scores without them",
            )
        if scores is None and (idle := sorted(options & {"--labels", "--labels-file", "--scheme"})):
            raise LabelError(
                "--labels and --scheme have no effect with MODEL", got=" and ".join(idle), wanted="MODEL without them"
            )

    def chooses(self, name: Any) -> bool:
        """Count the next sequence and return True if it is chosen; name: its id."""
        number, self.count = self.count, self.count + 1
        if number and self.alone is not None and not self.single:
            wanted = "--sequence or --id as well"
            raise FileError(
                f"{self.alone} needs --sequence, --id or --text",
                got=f"{self.alone} and several sequences",
                wanted=wanted,
            )
        if self.sequence is not None:
            return number == self.sequence
        if self.name is not None and str(number if name is None else name) != self.name:
            self.others.append(str(number if name is None else name))
            return False
        return True

    @property
    def single(self) -> bool:
        """True if the options select a single sequence."""
        return self.sequence is not None or self.name is not None

    def missing(self, source: str) -> FileError:
        """Return the error for a source without the wanted sequence."""
        if not self.count:
            return FileError("there are no sequences", got="an empty file", wanted="at least one", where=source)
        if self.sequence is not None:
            wanted = "0" if self.count == 1 else f"0 to {self.count - 1}"
            got = f"--sequence {self.sequence}"
            return FileError("the sequence does not exist", got=got, wanted=wanted, where=source)
        near = get_close_matches(self.name or "", self.others, n=3, cutoff=0.5) or self.others[:5]
        return FileError(
            "no sequence has this id",
            got=f"--id {self.name}",
            wanted="such as " + ", ".join(near),
            cause="A sequence without an id is identified by its number, counted from 0.",
            where=source,
        )


def from_scores(
    path: str,
    selection: Selection,
    names: tuple[str, ...] | None,
    scheme: opt.Scheme,
    decoder_of: Callable[[Labels], Decoder],
) -> SelectedSequences:
    """Sequences of a score file."""
    if path == "-":
        announce_keyboard()
    lattices: list[Lattice] = []
    givens: list[dict[str, Any]] = []
    ids: list[Any] = []
    where: list[str] = []
    with open_scores(path, None, None if names is None else len(names)) as source:
        for chunk in source.chunks:
            for b in range(len(chunk)):
                if selection.chooses(chunk.ids[b]):
                    lattices.append(chunk.lattices[b])
                    givens.append(chunk.givens[b])
                    ids.append(chunk.ids[b])
                    where.append(chunk.where[b])
            if ids and selection.single:
                break
        known = agreed_labels(names, source.labels) if ids else ()
    if not ids:
        raise selection.missing(source_name(path))
    tokens = [
        [str(t) for t in given.get("tokens") or range(len(lattice))]
        for given, lattice in zip(givens, lattices, strict=True)
    ]
    return SelectedSequences(
        source_name(path), decoder_of(make_labels(known, scheme)), lattices, givens, ids, where, tokens, None
    )


def from_model(
    model: Path | None,
    data: str | None,
    selection: Selection,
    reads: opt.DataOptions,
    decoder_of: Callable[[Labels], Decoder],
    progress: bool | None,
) -> SelectedSequences:
    """Sequences of a file, or a text, scored by a model."""
    tagger = bridle.load(str(model))
    decoder = decoder_of(tagger.labels_)
    before = Reader.noted(tagger.notes_)
    if selection.text is not None:
        examples = [text_example(selection.text, make_reader(*reads.arguments, before))]
    else:
        tags = Reader.noted(tagger.notes_, "missing")
        # Labels may be missing; but where the markup is the labels, it is wanted.
        reader = make_model_reader(tagger, *reads.arguments, "there" if tags.format == "text" else "missing")
        with reading(reader, str(data), progress, "reading") as (every, step):
            examples = list(_picked(every, selection, step))
    source = "--text" if data is None else source_name(data)
    if not examples:
        raise selection.missing(source)
    if data is not None and not selection.single:
        ReadCounts.of(examples).report([data])
    lattices = _scored(tagger, examples)
    known = tagger.given([e.columns for e in examples], decoder, [e.given for e in examples])
    first = selection.count - 1 if selection.single else 0
    return SelectedSequences(
        source,
        decoder,
        lattices,
        None if known is None else [dict(values) for values in known],
        [first + b if e.id is None else e.id for b, e in enumerate(examples)],
        [e.where for e in examples],
        [list(map(str, e.tokens)) for e in examples],
        _gold(examples, tagger.labels_, source),
        () if documents_of(examples) is None else [document_of(e) for e in examples],
    )


def _gold(examples: list[Example], known: Labels, source: str) -> list[list[str]] | None:
    """Return the labels of the data, if all sequences have some. Warns about missing or unknown labels."""
    gold = [e.known_labels for e in examples if e.labels is not None and None not in e.labels]
    if not gold:
        return None
    if len(gold) < len(examples):
        count = f"{len(examples) - len(gold):,} of {len(examples):,} sequences"
        which = "missing" if any(None in (e.labels or ()) for e in examples) else "no"
        warn(f"{source}: {count} have {which} labels; accuracy is not computed")
        return None
    warn_unknown_labels((name for labels in gold for name in labels), known)
    return gold


def _picked(examples: Iterable[Example], selection: Selection, step: Callable[[], None]) -> Iterator[Example]:
    """Yield the chosen sequences; with --groups, those of the chosen document."""
    group, chosen = None, False
    for example in examples:
        if selection.count % 1000 == 0:
            step()
        if example.group is not None and example.group == group:  # the document goes on
            chosen = group is not None and chosen
        else:
            if chosen and selection.single:
                return
            group, chosen = example.group, selection.chooses(example.id if example.group is None else example.group)
        if chosen:
            yield example


def _scored(tagger: Tagger, examples: list[Example]) -> Batch:
    try:
        return tagger.lattices([example.columns for example in examples])
    except BridleError as error:
        if error.sequence is not None:
            error.at(where=examples[error.sequence].where)
        raise
