"""`bridle compare`: compare files of predictions, models and rules on the same gold labels."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

import bridle
from bridle.atomic import write_text
from bridle.cli import options as opt
from bridle.cli.base import Command, app, json_line, refuse_overwrite, show, warn
from bridle.cli.evaluating import (
    Pair,
    Pairing,
    PredictedFormat,
    PredictedOptions,
    Segments,
    SegmentsOption,
    sequence_name,
)
from bridle.cli.reading import (
    ReadCounts,
    load_model_rules,
    make_model_reader,
    make_reader,
    parse_format_options,
    reading,
    used_examples,
)
from bridle.data import Examples
from bridle.data.reader import Reader
from bridle.errors import FileError
from bridle.explain.impact import impact
from bridle.models import Tagger
from bridle.models.files import is_model
from bridle.report import RuleEffect, compare
from bridle.report.comparison import LabelledSequence

_ON_PAGE = 50  # sequences that a page shows


@app.command("compare", cls=Command)
@opt.grouped
def compare_systems(
    *,
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="File with labelled sequences.", show_default=False)],
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM...",
            help="Files of predictions, models, models with .rules files (m.bridle+a.rules+b.rules), or .rules files "
            "for --model (a.rules+b.rules).",
            show_default=False,
        ),
    ],
    model: Annotated[
        Path | None, opt.option("--model MODEL", "Model for .rules files; compared without rules, too.")
    ] = None,
    lenient: opt.LenientOption = False,
    reads: opt.DataOptions,
    predicted_format: PredictedFormat = None,
    predicted_option: PredictedOptions = None,
    scheme: SegmentsOption = Segments.AUTO,
    on_unknown: opt.OnUnknownOption = opt.OnUnknown.WRONG,
    samples: Annotated[int, opt.option("--samples N", "Number of bootstrap samples.", min=1)] = 10_000,
    html: Annotated[
        Path | None, opt.option("--html FILE", "Also write an HTML page, with differing sequences side by side.")
    ] = None,
    differing: Annotated[
        int, opt.option("--differing N", "Number of differing sequences on the page.", min=0)
    ] = _ON_PAGE,
    seed: opt.SeedOption = 0,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
) -> None:
    """Compare systems that label the same sequences, with tests of significance.

    Print for each system the shares of sequences and tokens that are right and the F1 of segments. Print for each pair
    of systems the differences with 95 % intervals, a paired bootstrap test and an exact sign test, both corrected for
    the number of pairs (Holm). With .rules files, also print which rule changed what.

    \b
    Examples:
      bridle compare gold.txt a.txt b.jsonl c.csv             files of predictions, in any formats
      bridle compare gold.txt old.bridle new.bridle           two models
      bridle compare gold.txt old.bridle+my.rules new.bridle+my.rules
      bridle compare gold.txt --model m.bridle my.rules       a model without rules and with them
      bridle compare gold.txt --model m.bridle hand.rules learned.rules hand.rules+learned.rules --html page.html

    \b
    Exit codes:
      0    success, whatever the figures are
      2    bad input or bad usage
      3    the scores allow no labelling at all (models)
      130  stopped by Ctrl-C
    """
    if gold == "-":
        raise FileError("GOLD is read for each system", got="standard input", wanted="the name of a file")
    parts = {system: _parts(system) for system in systems}
    refuse_overwrite(html, gold, model, *chain(*parts.values()))
    main = None if model is None else bridle.load(model)
    files = Reader(predicted_format, parse_format_options(predicted_option, "--predicted-option"))
    loaded = {
        path: bridle.load(path) for path, *rules in parts.values() if is_model(path) or (rules and not _is_rules(path))
    }
    known = {name for tagger in (main, *loaded.values()) if tagger is not None for name in tagger.labels_}
    if not known and on_unknown is not opt.OnUnknown.WRONG:
        raise FileError("--on-unknown is about the labels of models", got="no model", wanted="--model MODEL")
    source = _Source(gold, reads, files, known, on_unknown, lenient, threads, progress)
    names, pairs, effects = _names([*([str(model)] if model is not None else []), *systems]), list[list[Pair]](), []
    if main is not None:
        pairs.append(source.by_model(main, [], "")[0])
    for system, name in zip(systems, names[len(pairs) :], strict=True):
        rules = [path for path in parts[system] if _is_rules(path)]
        tagger = main if rules == parts[system] else loaded.get(parts[system][0])
        if tagger is not None:
            labelled, changed = source.by_model(tagger, rules, name)
            effects += changed
        elif rules:
            wanted = f"--model MODEL, or MODEL+{system}"
            raise FileError(".rules files need a model", got=system, wanted=wanted)
        else:
            labelled = source.by_file(system, main)
        pairs.append(labelled)
    if len(pairs) < 2:
        raise FileError("there is nothing to compare", got=f"one system, {names[0]}", wanted="two or more systems")
    first = pairs[0]
    if not first:
        raise FileError("there are no sequences", got="nothing", wanted="labelled sequences", where=gold)
    for name, others in zip(names[1:], pairs[1:], strict=True):
        _check_same(names[0], first, name, others)
    ReadCounts.of(example for example, _ in first).report([gold])
    truth = [list(example.labels or ()) for example, _ in first]
    labels = {name: [list(y) for _, y in its] for name, its in zip(names, pairs, strict=True)}
    comparison = compare(truth, labels, scheme.library_name, samples=samples, seed=seed).with_rules(effects)
    if html is not None:
        shown = [
            LabelledSequence(
                sequence_name(first[b][0], b), first[b][0].tokens, truth[b], {name: y[b] for name, y in labels.items()}
            )
            for b in comparison.differing[:differing]
        ]
        write_text(html, comparison.page("Comparison", f"{', '.join(names)} against {gold}", shown).html())
    if as_json:
        ids = [sequence_name(first[b][0], b) for b in comparison.differing]
        typer.echo(json_line(comparison.to_dict() | {"differing": ids}))
    else:
        show(comparison.lines())


def _parts(system: str) -> list[Path]:
    """Return the files of a system: a model and its rules, rules alone, or predictions."""
    names = [system] if Path(system).exists() else system.split("+")
    return [Path(name) for name in names] if all(map(_is_rules, names[1:])) else [Path(system)]


def _is_rules(path: str | Path) -> bool:
    return str(path).endswith(".rules")


def _names(systems: list[str]) -> list[str]:
    """Return the names of systems: those of their files, or complete paths where these are equal."""
    short = ["+".join(Path(part).name for part in system.split("+")) for system in systems]
    counts = Counter(short)
    names = [name if counts[name] == 1 else system for name, system in zip(short, systems, strict=True)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise FileError("a system is named twice", got=f"{twice[0]} again", wanted="each system once")
    return names


def _check_same(name: str, first: list[Pair], other: str, others: list[Pair]) -> None:
    """Raise unless gold was read in the same way for two systems."""
    for k, ((a, _), (b, _)) in enumerate(zip(first, others, strict=len(first) == len(others))):
        if list(a.tokens) != list(b.tokens) or list(a.labels or ()) != list(b.labels or ()):
            got = f"other tokens or labels of gold for {other} than for {name}, from {sequence_name(b, k)} on"
            cause = "Do both use the same tokens and the same tagging scheme?"
            raise FileError("the systems cannot be compared", got=got, wanted="the same for all", cause=cause)


@dataclass
class _Source:
    """Gold labels, which are read again for each system, as its model or its file needs them."""

    gold: str
    reads: opt.DataOptions
    files: Reader  # of files of predictions
    known: set[str]  # the labels of all models
    on_unknown: opt.OnUnknown
    lenient: bool
    threads: int
    progress: bool | None

    def by_file(self, path: str, model: Tagger | None) -> list[Pair]:
        """Pair gold with a file of predictions."""
        reader = (
            make_reader(*self.reads.arguments) if model is None else make_model_reader(model, *self.reads.arguments)
        )
        with ExitStack() as stack:
            pairing = Pairing()
            examples = self._open(stack, reader)
            pairs = list(pairing.two_files(examples, reader, path, self.files))
            if self.on_unknown is not opt.OnUnknown.WRONG:
                used = set(map(id, used_examples((a for a, _ in pairs), self.known, self.on_unknown)))
                pairs = [pair for pair in pairs if id(pair[0]) in used]
        if pairing.unanswered:
            warn(f"{path}: {pairing.unanswered:,} sequences have no predicted labels; they count as wrong")
        return pairs

    def by_model(self, model: Tagger, files: list[Path], name: str) -> tuple[list[Pair], list[RuleEffect]]:
        """Pair gold with the labels of a model under rules, and measure what each rule changed."""
        rules = load_model_rules(files, model, lenient=self.lenient)
        with ExitStack() as stack:
            examples = self._open(stack, make_model_reader(model, *self.reads.arguments))
            used = used_examples(examples.labelled(), self.known, self.on_unknown)
            pairs = list(Pairing().by_model(used, model, rules, self.threads))
        if not rules:
            return pairs, []
        decoder = model.decoder(rules, on_infeasible="relax")
        xs = [example.columns for example, _ in pairs]
        given = model.given(xs, decoder, [example.given for example, _ in pairs])
        gold = [["" if y is None else y for y in example.labels or ()] for example, _ in pairs]  # "": never right
        lattices = model.lattices(xs, threads=self.threads)
        effects = impact(decoder, lattices, given, gold=gold, threads=self.threads).rules
        return pairs, [
            RuleEffect(name, str(e.rule), e.broken, e.changed, e.helped or 0, e.hurt or 0, e.tokens or 0)
            for e in effects
        ]

    def _open(self, stack: ExitStack, reader: Reader) -> Examples:
        examples, _ = stack.enter_context(reading(reader, self.gold, self.progress, "comparing"))
        return examples
