"""`bridle split`: split labelled sequences into parts, in the same format."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bridle.cli import options as opt
from bridle.cli.base import Command, app, check_writable, json_line, refuse_overwrite, show, warn
from bridle.cli.reading import make_reader
from bridle.data import Example, Lines, split_indices, write
from bridle.data.base import format_named
from bridle.data.detection import DOCSTART
from bridle.data.reader import Reader
from bridle.data.source import PACKED
from bridle.data.splitting import Pieces, documents_of, duplicates_across, pieces_of
from bridle.errors import FileError
from bridle.report.text import aligned


class Stratify(StrEnum):
    """Values of --stratify."""

    LABELS, NONE = "labels", "none"


class Duplicates(StrEnum):
    """Values of --duplicates."""

    KEEP, TOGETHER = "keep", "together"


@app.command(cls=Command)
@opt.grouped
def split(
    *,
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA", help="Files with labelled sequences, optionally gzipped.", show_default=False),
    ],
    out: Annotated[Path, opt.option("-o, --out DIR", "Folder for the parts.", show_default=False)],
    into: Annotated[
        str, opt.option("--into NAME=SHARE,...", "Names and shares of the parts; shares add up to 1.")
    ] = "train=0.8,dev=0.1,test=0.1",
    by: Annotated[
        str,
        opt.option(
            "--by WHAT",
            "What to keep in one part: single sequences, documents (-DOCSTART-, # newdoc), files, or, with the "
            "name of a column, sequences with the same value.",
        ),
    ] = "sequences",
    stratify: Annotated[
        Stratify, opt.option("--stratify", "labels: each part gets its share of every label, even of rare ones.")
    ] = Stratify.LABELS,
    duplicates: Annotated[
        Duplicates, opt.option("--duplicates", "together: keep sequences with the same tokens in one part.")
    ] = Duplicates.KEEP,
    force: Annotated[bool, opt.option("--force", "Overwrite existing files.")] = False,
    seed: opt.SeedOption = 0,
    reads: opt.DataOptions,
    as_json: opt.JsonOption = False,
) -> None:
    """Split labelled sequences into training, development and test data.

    Sequences are assigned to parts at random (--seed) and written in the format of DATA: DIR/train.txt and so on. The
    text of each sequence is copied as it is, with spacing, comments, inner tags and all columns, from all formats but
    brat, Parquet and Arrow, unless labels get new names (--map).

    \b
    Examples:
      bridle split all.txt -o parts                                      80 %, 10 %, 10 %
      bridle split all.txt -o parts --into train=0.7,test=0.3 --seed 7
      bridle split all.conll -o parts --by documents                     no document is in two parts
      bridle split acm.txt ieee.txt lncs.txt -o parts --by files
      bridle split all.jsonl -o parts --duplicates together              equal sequences stay in one part

    \b
    Exit codes:
      0    success
      2    bad input, bad usage, or a part cannot be written
      130  stopped by Ctrl-C
    """
    shares = _shares(into)
    places = {name: out / f"{name}{_suffix(data[0])}" for name in shares}
    for place in places.values():
        refuse_overwrite(place, *data)
        if place.exists() and not force:
            wanted = "another folder, or --force"
            raise FileError("this file would be overwritten", got=f"-o {out}", wanted=wanted, where=str(place))
    files, reader = _read(make_reader(*reads.arguments), data)
    copied = _copied(files, reader)
    examples = [example for _, examples_of_file in files for example in examples_of_file]
    groups = _groups(files, by, copied)
    parts = split_indices(
        examples, shares, seed=seed, groups=groups, stratify=stratify.value, duplicates=duplicates.value
    )
    if out.exists() and not out.is_dir():
        raise FileError("this is a file", got=f"-o {out}", wanted="a folder", where=str(out))
    out.mkdir(exist_ok=True)
    for place in places.values():
        check_writable(place)
    for name, part in parts.items():
        if copied is not None:
            with Lines(str(places[name])) as lines:
                lines.put(copied.text(part).encode(str(reader.options.get("encoding", "utf-8"))))
        else:
            write(places[name], (examples[b] for b in part), reader.format, **reader.options)
    others = sorted(place.name for place in out.glob(f"*{_suffix(data[0])}") if place not in places.values())
    if force and others:
        warn(f"{out} also holds {', '.join(others)}; if that is part of another split, it shares sequences with these")
    duplicated = duplicates_across(examples, parts)
    counted = {name: _counts([examples[b] for b in part]) for name, part in parts.items()}
    if as_json:
        facts = {n: {"file": str(places[n]), **counted[n], "duplicates": duplicated[n]} for n in parts}
        typer.echo(json_line({"parts": facts, "seed": seed}))
    else:
        show(_table(counted))
    if any(duplicated.values()):
        each = ", ".join(f"{count:,} of {name}" for name, count in duplicated.items() if count)
        warn(
            f"some sequences are also in another part: {each}; figures on them are too good. "
            "Use --duplicates together to keep equal sequences in one part"
        )


def _shares(into: str) -> dict[str, float]:
    """Parse --into."""
    shares: dict[str, float] = {}
    for part_text in into.split(","):
        name, _, share = (part.strip() for part in part_text.partition("="))
        try:
            if not name or name in shares or Path(name).name != name or name in (".", ".."):
                raise ValueError
            shares[name] = float(share)
        except ValueError:
            wanted = "NAME=SHARE, such as train=0.8,dev=0.1,test=0.1, each name once"
            raise FileError("--into must name parts and their shares", got=repr(part_text), wanted=wanted) from None
    return shares


def _read(reader: Reader, paths: list[str]) -> tuple[list[tuple[str, list[Example]]], Reader]:
    """Return the sequences of each file, and the reader with their format."""
    files: list[tuple[str, list[Example]]] = []
    for path in paths:
        if path == "-":
            raise FileError("standard input cannot be split", got="-", wanted="files", cause="The data is read twice.")
        with reader.open(path) as examples:
            examples_of_file = list(examples.labelled())
            reader = replace(reader, format=examples.format)
            for what, count in examples.left_out.items():
                if not what.startswith(DOCSTART):  # such lines are copied
                    warn(f"{path}: left out {count:,} {what}")
        reader = reader.settled(examples_of_file[0]) if examples_of_file else reader
        files.append((path, examples_of_file))
    return files, reader


def _suffix(path: str) -> str:
    """Return the suffix of a file, including .gz.

    >>> _suffix("all.conll.gz"), _suffix("v1.2/all")
    ('.conll.gz', '')
    """
    packed = next(filter(path.endswith, PACKED), "")
    return Path(path.removesuffix(packed)).suffix + packed


def _copied(files: list[tuple[str, list[Example]]], reader: Reader) -> Pieces | None:
    """Return the text of each sequence, unchanged; None if the format does not allow that."""
    format = format_named(str(reader.format), reader.options)
    if format.map:
        return None
    parts = [part for path, its in files if (part := pieces_of(path, format, its)) is not None]
    if len(parts) < len(files) or len({tuple(part.head.split()) for part in parts}) > 1:
        return None
    return Pieces(parts[0].head, [piece for part in parts for piece in part.pieces], parts[-1].foot)


def _groups(files: list[tuple[str, list[Example]]], by: str, copied: Pieces | None) -> list[Any] | None:
    """Return the groups of sequences that stay in one part, as --by says."""
    of_file = [path for path, its in files for _ in its]
    if by == "sequences":
        return None
    if by == "files":
        return of_file
    if by == "documents":
        numbers = [] if copied is None else documents_of(copied.pieces)
        if len(set(numbers)) < 2:
            wanted = "-DOCSTART- or # newdoc lines in CoNLL files"
            raise FileError("the data does not mark documents", got="--by documents", wanted=wanted)
        return list(zip(of_file, numbers, strict=True))
    examples = [example for _, its in files for example in its]
    for example in examples:
        if by not in example.columns and by not in example.given:
            known = ", ".join([*example.columns, *example.given])
            raise example.error(
                f"there is no column {by!r}", got=known, wanted="sequences, documents, files or a column"
            )
    return [str(e.given[by]) if by in e.given else next(iter(e.columns[by]), "") for e in examples]


def _counts(examples: list[Example]) -> dict[str, Any]:
    labels = Counter(label for example in examples for label in example.labels or () if label is not None)
    return {"sequences": len(examples), "tokens": sum(map(len, examples)), "labels": dict(sorted(labels.items()))}


def _table(counted: dict[str, dict[str, Any]]) -> list[str]:
    """Counts of each part, a row for each label."""
    names = sorted(set().union(*(part["labels"] for part in counted.values())))
    body = [["", *counted]]
    body += [[name, *(f"{part[name]:,}" for part in counted.values())] for name in ("sequences", "tokens")]
    body += [[name, *(f"{part['labels'].get(name, 0):,}" for part in counted.values())] for name in names]
    return aligned(body)
