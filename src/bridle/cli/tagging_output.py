"""What `bridle tag` writes: the format of the output, and examples and lines of JSON with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bridle.cli.reading import Reader, settings_of_format
from bridle.cli.stream import Record, Work, to_json
from bridle.data import Example
from bridle.data.base import Format, format_guessed, format_named, has_suffix
from bridle.data.standoff import Standoff, segments_of
from bridle.decoding.decoder import Decoder
from bridle.decoding.segments import segment_probabilities
from bridle.errors import BridleError, FileError
from bridle.lattice import Lattice
from bridle.models import Tagger

# formats that are also the default of the output; whose spans may have probabilities; with a column for gold labels
_ALIKE = ("conll", "slashed", "segmented", "jsonl", "spans", "doccano", "labelstudio", "brat", "csv", "tsv")
WITH_SCORES = ("spans", "labelstudio")
_WITH_GOLD = ("conll", "csv", "tsv", "parquet", "arrow")
# formats that are written without the options of the input and of the training data: they get one more column
_WITHOUT_OPTIONS = ("conll", "jsonl")
_MISSING = "_"  # the label of a token whose sequence has no labelling under the rules


def tagged_examples(
    work: Iterable[tuple[list[Example], list[Record]]], tagger: Tagger, made: Format, decoder: Decoder | None
) -> Iterator[Example]:
    """Examples with their labels, as a format needs them."""
    for some, records in work:
        yield from answered(some, records, tagger, made, decoder)


def json_lines(
    work: Iterable[tuple[list[Example], list[Record]]], tagger: Tagger, decoder: Decoder | None
) -> Iterator[str]:
    """Lines of JSON."""
    for some, records in work:
        for example, record in zip(some, records, strict=False):
            yield json_of(example, record, tagger, decoder)


def answered(
    some: list[Example], records: list[Record], tagger: Tagger, made: Format, decoder: Decoder | None
) -> list[Example]:
    """Examples with the labels of their records, as a format needs them. After an error, there are fewer records."""
    found = list[Example]()
    for example, record in zip(some, records, strict=False):
        labels, columns = record["labels"], example.columns
        if isinstance(made, Standoff):  # a text without an answer has no spans
            found.append(_with_spans(example, record, tagger, made, decoder))
            continue
        if (
            made.name in _WITH_GOLD and example.labels is not None
        ):  # gold and predicted labels, as bridle eval reads them
            columns = {**columns, "gold": made.without_gaps(example).known_labels}
        labels = [_MISSING] * len(example) if labels is None else labels
        found.append(replace(example, columns=columns, labels=labels))
    return found


def _with_spans(example: Example, record: Record, tagger: Tagger, made: Standoff, decoder: Decoder | None) -> Example:
    """An example with the labels of its record and, with a decoder, the probabilities of its spans."""
    labels = record["labels"]
    if labels is None or decoder is None or record.get("relaxed"):
        return replace(example, labels=labels)
    lattice, given = work_of([example], tagger, decoder, 1).scores(0)
    try:
        found = segment_probabilities(decoder, lattice, labels, segments_of(labels, made.scheme), given)
    except BridleError as error:  # a limit, for example
        raise error.at(where=example.where) from None
    return replace(example, labels=labels, probabilities=[round(p, 6) for p in found])


def work_of(
    some: list[Example], tagger: Tagger, decoder: Decoder, threads: int, names: Sequence[Any] | None = None
) -> Work:
    """Examples to be scored and decoded, with their ids in the output."""
    xs, givens = [example.columns for example in some], [example.given for example in some]

    def scores(b: int) -> tuple[Lattice, Mapping[str, Any] | None]:
        given = tagger.given([xs[b]], decoder, [givens[b]])
        return tagger.lattice(xs[b]), given[0] if given else None

    return Work(
        [example.id for example in some] if names is None else names,
        [example.where for example in some],
        lambda n: tagger.decode(xs[:n], decoder, given=givens[:n], threads=threads),
        scores,
    )


def format_by_suffix(out: str | None) -> str | None:
    """The format that the name of the output asks for; None if it does not."""
    if out in (None, "-") or not has_suffix(str(out)) or Path(str(out)).is_dir():
        return None
    with suppress(FileError):  # several formats share the suffix
        name = format_guessed(str(out))
        return None if name == "text" else name
    return None


def output_format(
    to: str | None, readers: tuple[Reader, Reader], tagger: Tagger, options: list[str] | None, scores: bool
) -> Format | None:
    """The format of the output; None: JSON lines. readers: of the input, and of the training data."""
    reader = readers[0]
    name = to or (reader.format if reader.format in _ALIKE else None)
    if name is None:
        name = "segmented" if tagger.labels_.scheme == "BMES" and reader.format == "text" else "conll"
    if name in ("jsonl", "json") or (scores and name not in WITH_SCORES):
        return None
    if name == "text":
        raise FileError("the output cannot have this format", got=name, wanted="a format with labels")
    asked = settings_of_format(options, "--to-option") if options else {}
    for known in () if name in _WITHOUT_OPTIONS else readers:
        if name == known.format:
            asked = known.options | asked
    made = format_named(name, asked)
    # O is never a span, whatever the scheme of the model is
    return replace(made, scheme=tagger.labels_.scheme or "IO") if isinstance(made, Standoff) else made


def json_of(example: Example, record: Record, tagger: Tagger, decoder: Decoder | None) -> str:
    """A line of JSON; with a decoder, including the probability of each label."""
    more = {} if decoder is None else {"probability": _probability(example, record, tagger, decoder)}
    others: dict[str, Any] = {name: list(column) for name, column in list(example.columns.items())[1:]}
    if example.labels is not None:
        others["gold"] = list(example.labels)
    return to_json({"id": record["id"], "tokens": list(example.tokens), **others, **record, **more})


def _probability(example: Example, record: Record, tagger: Tagger, decoder: Decoder) -> list[float] | None:
    """The probability of each label, given that the hard rules hold."""
    if record["labels"] is None or record.get("relaxed"):
        return None
    table = decoder.marginals(*work_of([example], tagger, decoder, 1).scores(0))
    return [round(float(table[t, y]), 6) for t, y in enumerate(tagger.labels_.ids(record["labels"]).tolist())]
