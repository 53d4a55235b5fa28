"""`bridle learn`: labelled sequences in, rules out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import claimed, replacing
from bridle.cli.bars import shown
from bridle.cli.base import INTERRUPTED, LOOK, app, check_kind, fail, json_line, keep, on_screen, tell, warn
from bridle.cli.options import AnyScheme, AsJson, DataScheme, Labelled, TheProgress, TheSeed, TheThreads
from bridle.cli.reading import Reader, TheColumns, TheFormat, TheLabel, TheOptions, read_all, reader_of, split
from bridle.data import Example, Lines
from bridle.errors import FileError, ModelError
from bridle.learn import DeterministicRules, Learned
from bridle.learn.joint import JointWeights
from bridle.learn.relational import ALL, RelationalRules
from bridle.learn.weights import from_counts, log_odds, penalty_of, priced
from bridle.models import Step, Tagger


class Kind(StrEnum):
    """What --kind takes."""

    RELATIONAL, DETERMINISTIC = "relational", "deterministic"


class Penalty(StrEnum):
    """What --penalty takes."""

    COUNTS, LOG_ODDS, JOINT = "counts", "log-odds", "joint"


@app.command()
def learn(
    context: typer.Context,
    data: Labelled,
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Where the rules go; - is stdout.")],
    kind: Annotated[
        Kind, typer.Option(help="Between labels (a .rules file), or of single tokens by their context.")
    ] = Kind.RELATIONAL,
    kinds: Annotated[
        str | None, typer.Option(metavar="A,B,...", help=f"Some of {', '.join(ALL)}. Default: all.")
    ] = None,
    soft: Annotated[bool, typer.Option("--soft/--hard", help="With penalties or without.")] = True,
    penalty: Annotated[Penalty, typer.Option(help="joint: those by counts, corrected by decoding.")] = Penalty.COUNTS,
    model: Annotated[Path | None, typer.Option(metavar="MODEL", help="For --penalty joint.")] = None,
    tune: Annotated[str | None, typer.Option(metavar="FILE", help="joint: learn penalties here, not on DATA.")] = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="joint: keep the penalties best on this.")] = None,
    iterations: Annotated[
        int, typer.Option(metavar="N", min=1, help="joint: passes over the sequences, at most.")
    ] = 20,
    patience: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="joint: stop after so many without a gain.")
    ] = None,
    min_support: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Sequences in which a rule must speak.")
    ] = None,
    significance: Annotated[
        float | None, typer.Option(metavar="X", help="The share of rules that may be due to chance.")
    ] = None,
    max_rules: Annotated[int | None, typer.Option(metavar="N", min=1, help="Keep the most useful ones.")] = None,
    scheme: DataScheme = AnyScheme.AUTO,
    threshold: Annotated[
        float, typer.Option(metavar="X", help="deterministic: the share of a label in its context, above.")
    ] = 0.99,
    cutoff: Annotated[
        int, typer.Option(metavar="N", min=0, help="deterministic: a context must occur more often.")
    ] = 5,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    seed: TheSeed = 0,
    threads: TheThreads = 0,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Learn rules from labelled sequences, with their evidence.

    \b
    Examples:
      bridle learn refs.tagged -o refs.rules
      bridle learn train.txt -o my.rules --columns word,pos,chunk --kinds presence,count --hard
      bridle learn train.txt -o my.rules --penalty joint --model m.bridle --tune held.txt --dev dev.txt
      bridle learn train.txt -o pos.det --kind deterministic

    \b
    A .rules file is text: read it, edit it, try it with bridle rules test, obey it with bridle tag --rules.
    Penalties that are learned jointly want sequences that the model was not trained on (--tune).
    Deterministic rules are many; their file is no text.

    \b
    Exit codes:
      0    rules were found
      1    none was found (the file says so)
      2    bad input, bad usage, or the rules cannot be written
      130  stopped by Ctrl-C; if penalties were being learned, the best so far are written
    """
    _fits(kind, soft, penalty, model, {"--tune": tune, "--dev": dev}, out, as_json)
    keep(out, *data, model, tune, dev)
    if kind is Kind.DETERMINISTIC:
        check_kind(Path(out))
    context.with_resource(claimed(out))
    tagger = None if model is None else bridle.load(model)
    before = None if tagger is None else Reader.noted(tagger.notes_)
    examples, reader = read_all(reader_of(format, columns, label, option, before), data, progress)
    if kind is Kind.DETERMINISTIC:
        _deterministic(examples, out, threshold, cutoff, as_json)
        return
    limits = {"min_support": min_support, "significance": significance, "max_rules": max_rules}
    miner = RelationalRules(
        ALL if kinds is None else [name.strip() for name in kinds.split(",")],
        penalty=None,
        seed=seed,
        scheme=scheme.asked,
        **{name: value for name, value in limits.items() if value is not None},  # type: ignore[arg-type]
    )
    miner.fit([list(e.tokens) for e in examples], [list(e.labels or ()) for e in examples])
    found = _Found(miner.learned_, {why: int(n) for why, n in miner.report_.dropped.items()})
    if soft and found.learned:
        by = log_odds if penalty is Penalty.LOG_ODDS else from_counts
        found = found.softened(by(found.learned), "cost nothing: broken half the time")
        if penalty is Penalty.JOINT and tagger is not None:
            where = read_all(reader, [tune], progress)[0] if tune is not None else examples
            held = None if dev is None else read_all(reader, [dev], progress)[0]
            settings = {"iterations": iterations, "patience": patience, "seed": seed, "threads": threads}
            found = _joint(found, tagger, where, held, settings, _watch(progress))
    how = f"penalties by {penalty.value}" if soft else "hard"
    if model is not None:
        asked = {"model": model, "tune": tune, "dev": dev, "iterations": iterations, "patience": patience}
        how += "".join(f", {name} {_plain(str(value))}" for name, value in asked.items() if value is not None)
    made = [*_head(data, len(examples), miner, how), *_body(found.learned)]
    _keep_edited(out, made)
    with Lines(out, None, on_screen) as lines:
        lines.write(made)
    tell("\n".join(_summary(found, len(examples), out)))
    if as_json:
        typer.echo(json_line(_as_dict(found, len(examples), out)))
    if found.interrupted:
        fail("interrupted; these are the best penalties so far", INTERRUPTED)
    raise typer.Exit(0 if found.learned else LOOK)


@dataclass(frozen=True)
class _Found:
    """Rules, and what was left out and why."""

    learned: list[Learned]
    dropped: dict[str, int] = field(default_factory=dict)
    told: str = ""  # how penalties were learned
    interrupted: bool = False

    def softened(self, priced_ones: Sequence[Learned], reason: str) -> _Found:
        """With these penalties, rounded so that people can read them; without rules that cost nothing."""
        short = [replace(one, rule=priced(one.rule, float(f"{penalty_of(one.rule):.4g}"))) for one in priced_ones]
        kept = [one for one in short if penalty_of(one.rule) > 0]
        less = {reason: len(short) - len(kept)} if len(kept) < len(short) else {}
        return replace(self, learned=kept, dropped={**self.dropped, **less})


def _fits(
    kind: Kind, soft: bool, penalty: Penalty, model: Path | None, files: dict[str, str | None], out: str, as_json: bool
) -> None:
    """Do the options go together?"""
    joint = soft and penalty is Penalty.JOINT and kind is Kind.RELATIONAL
    if joint and model is None:
        raise ModelError("joint penalties need a model", got="--penalty joint", wanted="--model MODEL")
    for name, value in {"--model": model, **files}.items():
        if value is not None and not joint:
            raise ModelError(f"{name} is for joint penalties", got=f"{name} {value}", wanted="--penalty joint, --soft")
    if out == "-" and (as_json or kind is Kind.DETERMINISTIC):
        why = "--json" if as_json else "--kind deterministic"
        raise FileError("the rules cannot go to standard output", got=f"-o - with {why}", wanted="-o FILE")


def _deterministic(examples: list[Example], out: str, threshold: float, cutoff: int, as_json: bool) -> None:
    """Rules of single tokens: contexts that nearly always go with one label."""
    characters = "char" in examples[0].columns
    made = DeterministicRules("characters" if characters else "words", threshold=threshold, cutoff=cutoff)
    made.fit([list(e.tokens) for e in examples], [list(e.labels or ()) for e in examples])
    made.save(out)
    warn(f"{len(examples):,} sequences; {made.n_rules_:,} rules; saved as {out}")
    if as_json:
        told = {"file": out, "sequences": len(examples), "n_rules": made.n_rules_, "rules": list(made.lines(20))}
        typer.echo(json_line(told))
    if not made.n_rules_:
        fail(f"no context decides a label: lower --cutoff ({cutoff}) or --threshold ({threshold:g})", LOOK)


def _joint(
    found: _Found,
    tagger: Tagger,
    examples: list[Example],
    dev: list[Example] | None,
    settings: dict[str, Any],
    watch: Callable[[Step], None],
) -> _Found:
    """The rules with penalties learned by decoding."""
    learner = JointWeights([one.rule for one in found.learned], tagger, start="penalties", **settings)
    X, y, given = split(examples)
    held = None if dev is None else split(dev)
    interrupted = False
    try:
        learner.fit(
            X,
            y,
            given=given,
            dev=None if held is None else (held[0], held[1]),
            dev_given=None if held is None else held[2],
            watch=watch,
        )
    except KeyboardInterrupt:
        if not hasattr(learner, "weights_"):
            raise
        interrupted = True
    pairs = zip(found.learned, learner.weights_.tolist(), strict=True)
    made = [replace(one, rule=priced(one.rule, weight)) for one, weight in pairs]
    done = learner.progress_
    told = f"penalties: {done.iteration} iterations ({done.why})"
    if done.best_accuracy is not None:
        what = f"after {done.best_iteration}" if done.best_iteration else "with those by counts"
        told += f"; {done.best_accuracy:.2%} right on the development set {what}"
    found = found.softened(made, "useless to the model: the penalty ends at 0")
    return replace(found, told=told, interrupted=interrupted)


def _watch(asked: bool | None) -> Callable[[Step], None]:
    def watch(step: Step) -> None:
        if shown(asked):
            accuracy = "" if step.accuracy is None else f"  dev {step.accuracy:.2%}{' *' if step.best else ''}"
            now = f"{step.loss:.2%} wrong{accuracy}  {step.seconds:.2f} s"
            tell(f"{step.iteration:4d}/{step.iterations}  {now}")

    return watch


def _keep_edited(out: str, made: list[str]) -> None:
    """Somebody may have worked on the file that is there: it stays, as FILE.bak, if it says something else."""
    try:
        before = Path(out).read_bytes() if Path(out).is_file() else b""
        if before.strip() and before.split(b"\n") != [*(line.encode() for line in made), b""]:
            with replacing(f"{out}.bak") as file:
                file.write(before)
            warn(f"what was in {out} is kept in {out}.bak")
    except (OSError, ValueError, FileError) as error:
        got = error.got if isinstance(error, FileError) else getattr(error, "strerror", None) or str(error)
        what, wanted = f"cannot keep this file as {out}.bak", "a place with room for it"
        raise FileError(what, got=got, wanted=wanted, where=out) from None


# ---- what is written ------------------------------------------------------------------------------------------------


def _head(data: list[str], count: int, miner: RelationalRules, how: str) -> Iterator[str]:
    names = ("min_support", "min_confidence", "significance", "select", "max_rules", "seed")
    settings = ", ".join(f"{name} {getattr(miner, name)}" for name in names if getattr(miner, name) is not None)
    yield f"# Rules learned by bridle {bridle.__version__} from {_plain(', '.join(data))}"
    yield f"# {count:,} sequences, {len(miner.labels_)} labels, scheme {miner.labels_.scheme or 'none'}; {how}"
    yield f"# kinds {', '.join(miner.kinds)}"
    yield f"# {settings}"


def _body(learned: list[Learned]) -> Iterator[str]:
    """The rules by kind; the kind with the most useful rule first."""
    if not learned:
        yield "# no rule was found"
    for kind in dict.fromkeys(one.kind for one in learned):
        some = [one for one in learned if one.kind == kind]
        yield ""
        yield f"# ---- {kind}: {len(some)}"
        yield from map(str, some)


def _plain(text: str) -> str:
    """On one line, whatever a file is called."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _summary(found: _Found, count: int, out: str) -> Iterator[str]:
    place = "standard output" if out == "-" else out
    by_kind = ", ".join(f"{n} {kind}" for kind, n in Counter(one.kind for one in found.learned).most_common())
    if not found.learned:
        yield f"bridle: no rule was found in {count:,} sequences; {place} says only so"
    else:
        yield f"bridle: {count:,} sequences; {len(found.learned)} rules ({by_kind}); written to {place}"
    if found.told:
        yield f"  {found.told}"
    yield from (f"  {n:,} dropped: {reason}" for reason, n in found.dropped.items() if n)


def _as_dict(found: _Found, count: int, out: str) -> dict[str, Any]:
    rules = [
        {
            "rule": str(one.hard().rule),
            "kind": one.kind,
            "held": one.held,
            "of": one.of,
            "support": one.support,
            "penalty": None if one.hard() is one else penalty_of(one.rule),
        }
        for one in found.learned
    ]
    return {"file": out, "sequences": count, "rules": rules, "dropped": {k: n for k, n in found.dropped.items() if n}}
