"""The sequences that `bridle explain` is asked about: of a score file, or of a model and its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import bridle
from bridle.cli.base import Scheme, labels_of, warn
from bridle.cli.decoding import agreed
from bridle.cli.reading import Reader, at_the_keyboard, called, model_reader, reader_of, reading, tell_unknown
from bridle.data import Example, open_scores
from bridle.data.tokenizer import TOKENS, tokenize
from bridle.decoding.decoder import Decoder
from bridle.errors import BridleError, FileError, LabelError
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.models import Tagger
from bridle.report.text import cut

Reads = tuple[str | None, str | None, str | None, list[str] | None]  # --format, --columns, --label, --option


@dataclass(frozen=True)
class Chosen:
    """The chosen sequences, with their scores, ids, tokens and gold labels."""

    source: str
    decoder: Decoder
    lattices: Sequence[Lattice] | Batch
    givens: Sequence[dict[str, Any]] | None
    ids: list[Any]  # of each in the file; its number if it has none
    where: list[str]
    tokens: list[list[str]]
    gold: list[list[str]] | None

    def __len__(self) -> int:
        return len(self.ids)

    def called(self, b: int) -> str:
        """The name of a sequence in output for people."""
        where = f" ({self.where[b]})" if self.where[b] else ""
        return f"{self.ids[b]}{where}"


@dataclass
class Wanted:
    """Which sequences to choose: one by its number or its id, a text, or all. Counts the sequences that it has seen."""

    sequence: int | None = None
    name: str | None = None
    text: str | None = None
    alone: str | None = None  # an option that needs a single sequence
    count: int = 0
    others: list[str] = field(default_factory=list)  # ids of those that were not chosen

    def check(self, model: Path | None, data: str | None, scores: str | None, options: set[str]) -> None:
        """Check that the arguments can be combined."""
        asked = [
            flag
            for flag, value in (("--sequence", self.sequence), ("--id", self.name), ("--text", self.text))
            if value is not None
        ]
        if len(asked) > 1:
            raise FileError(
                "--sequence, --id and --text cannot be combined", got=" and ".join(asked), wanted="one of them"
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
        if scores is not None and (idle := sorted(options & {"--format", "--columns", "--label", "--option"})):
            raise FileError(
                "options for data files have no effect with --scores",
                got=" and ".join(idle),
                wanted="--scores without them",
            )
        if scores is None and (idle := sorted(options & {"--labels", "--labels-file", "--scheme"})):
            raise LabelError(
                "--labels and --scheme have no effect with MODEL", got=" and ".join(idle), wanted="MODEL without them"
            )

    def means(self, name: Any) -> bool:
        """Is the next sequence, which has this id, one of the chosen ones?"""
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
        """Do the options ask for a single sequence?"""
        return self.sequence is not None or self.name is not None

    def missing(self, source: str) -> FileError:
        """The error for a source without the wanted sequence."""
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
    path: str, wanted: Wanted, asked: tuple[str, ...] | None, scheme: Scheme, decoder_of: Callable[[Labels], Decoder]
) -> Chosen:
    """Sequences of a score file."""
    if path == "-":
        at_the_keyboard()
    lattices: list[Lattice] = []
    givens: list[dict[str, Any]] = []
    ids: list[Any] = []
    where: list[str] = []
    with open_scores(path, None, None if asked is None else len(asked)) as source:
        for chunk in source.chunks:
            for b in range(len(chunk)):
                if wanted.means(chunk.ids[b]):
                    lattices.append(chunk.lattices[b])
                    givens.append(chunk.givens[b])
                    ids.append(chunk.ids[b])
                    where.append(chunk.where[b])
            if ids and wanted.single:
                break
        names = agreed(asked, source.labels) if ids else ()
    if not ids:
        raise wanted.missing(called(path))
    tokens = [
        [str(t) for t in given.get("tokens") or range(len(one))] for given, one in zip(givens, lattices, strict=True)
    ]
    return Chosen(called(path), decoder_of(labels_of(names, scheme)), lattices, givens, ids, where, tokens, None)


def from_model(
    model: Path | None,
    data: str | None,
    wanted: Wanted,
    reads: Reads,
    decoder_of: Callable[[Labels], Decoder],
    progress: bool | None,
) -> Chosen:
    """Sequences of a file, or a text, scored by a model."""
    tagger = bridle.load(str(model))
    decoder = decoder_of(tagger.labels_)
    before = Reader.noted(tagger.notes_)
    if wanted.text is not None:
        found = [example_of(wanted.text, reader_of(*reads, before))]
    else:
        tags = Reader.noted(tagger.notes_, "missing")
        # Labels may be missing; but where the markup is the labels, it is wanted.
        reader = model_reader(tagger, *reads, "there" if tags.format == "text" else "missing")
        with reading(reader, str(data), progress, "reading") as (examples, bar):
            found = list(_picked(examples, wanted, bar))
    source = "--text" if data is None else called(data)
    if not found:
        raise wanted.missing(source)
    lattices = _scored(tagger, found)
    known = tagger.given([e.columns for e in found], decoder, [e.given for e in found])
    first = wanted.count - 1 if wanted.single else 0
    return Chosen(
        source,
        decoder,
        lattices,
        None if known is None else [dict(one) for one in known],
        [first + b if e.id is None else e.id for b, e in enumerate(found)],
        [e.where for e in found],
        [list(map(str, e.tokens)) for e in found],
        _gold(found, tagger.labels_, source),
    )


def _gold(examples: list[Example], known: Labels, source: str) -> list[list[str]] | None:
    """The labels of the data, if all sequences have some. Prints a warning if labels are missing or unknown."""
    gold = [e.known_labels for e in examples if e.labels is not None and None not in e.labels]
    if not gold:
        return None
    if len(gold) < len(examples):
        count = f"{len(examples) - len(gold):,} of {len(examples):,} sequences"
        which = "missing" if any(None in (e.labels or ()) for e in examples) else "no"
        warn(f"{source}: {count} have {which} labels; accuracy is not computed")
        return None
    tell_unknown((name for labels in gold for name in labels), known)
    return gold


def _picked(examples: Iterable[Example], wanted: Wanted, bar: Callable[[], None]) -> Iterator[Example]:
    """The chosen sequences."""
    for example in examples:
        if wanted.count % 1000 == 0:
            bar()
        if wanted.means(example.id):
            yield example
            if wanted.single:
                return


def _scored(tagger: Tagger, examples: list[Example]) -> Batch:
    try:
        return tagger.lattices([example.columns for example in examples])
    except BridleError as error:
        if error.sequence is not None:
            error.at(where=examples[error.sequence].where)
        raise


def example_of(text: str, reader: Reader) -> Example:
    """Split a text into tokens of the kind that the model was trained on."""
    kind = reader.tokens or str(reader.options.get("tokens") or "blanks")
    kind = "characters" if reader.format == "segmented" else kind
    if kind not in TOKENS:
        raise FileError("unknown tokenizer", got=repr(kind), wanted="--option tokens=" + ", ".join(TOKENS))
    tokens, starts = tokenize(text, kind)
    if not tokens:
        raise FileError("the text has no tokens", got=f"--text {text!r}", wanted="words", cause=f"Tokens are: {kind}.")
    named = [name for name in reader.options.get("columns") or () if name not in ("_", reader.options.get("label"))]
    column = named[0] if named else str(reader.options.get("column") or ("char" if kind == "characters" else "word"))
    return Example({column: tokens}, where="--text", id=cut(text, 60), text=text, starts=starts)
