"""Word segmentation on the command line: `bridle train --task segmentation`, and `bridle tag` with its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import typer

from bridle.atomic import claimed
from bridle.cli import options as opt
from bridle.cli.base import check_model_path, check_writable, escape_controls, refuse_overwrite, warn
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import announce_keyboard, load_rules, parse_format_options, reading, stepping
from bridle.data import Example, Lines
from bridle.data.reader import Reader
from bridle.data.source import Source
from bridle.errors import FileError, ModelError
from bridle.learn.segmenter import Segmenter
from bridle.models.training import Step

_OF_TRAIN = (
    "data",
    "-o",
    "--task",
    "--dev",
    "--features",
    "--iterations",
    "--seed",
    "--progress",
    "--format",
    "--option",
)
_OF_TAG = ("model", "data", "-o", "--rules", "--engine", "--threads", "--progress")
_LINES = 1000  # that are cut at once


def train_segmenter(context: typer.Context) -> None:
    """Train a segmenter, as the options of `bridle train` say."""
    given = context.params
    _refuse_others(context, _OF_TRAIN, "--task segmentation")
    data, out, dev = given["data"], given["out"], given["dev"]
    if not data or out is None:
        missing = "-o MODEL" if data else "DATA"
        raise FileError(f"{missing} is missing", got="nothing", wanted=missing)
    refuse_overwrite(out, *data, dev)
    check_writable(out)
    check_model_path(out)
    context.with_resource(claimed(out))
    reader = Reader(given["format"] or "segmented", parse_format_options(given["option"], "--option"))
    sentences = [*_sentences(reader, data, given["progress"])]
    held_out = None if dev is None else [*_sentences(reader, [dev], given["progress"])]
    features = "characters" if given["features"] == "auto" else given["features"]
    segmenter = Segmenter(features=features, iterations=given["iterations"] or 10, seed=given["seed"])
    characters = sum(map(len, map("".join, sentences)))
    warn(f"{len(sentences):,} sentences, {sum(map(len, sentences)):,} words, {characters:,} characters")
    with ProgressBar(given["progress"], "training") as show:

        def watch(step: Step) -> None:
            score = "" if step.score is None else f"  dev F1 {step.score:.2%}{' *' if step.best else ''}"
            show(step.iteration, step.iterations, f"{step.loss:.2%} wrong{score}  {step.seconds:.2f} s")

        segmenter.fit(sentences, dev=held_out, watch=watch)
    segmenter.save(out)
    progress = segmenter.progress_
    best = "" if progress.best_score is None else f"; best F1 of words {progress.best_score:.2%} on the development set"
    warn(f"{progress.iteration} iterations ({progress.why}){best}; saved as {out}")


def tag_segmenter(context: typer.Context) -> None:
    """Cut lines of text into words, as the options of `bridle tag` say."""
    given = context.params
    _refuse_others(context, _OF_TAG, "a segmenter")
    paths, out = given["data"] or ["-"], given["out"]
    refuse_overwrite(out, given["model"], *(given["rules"] or ()), *paths)
    segmenter = Segmenter.load(given["model"])
    rules = load_rules(given["rules"], None)

    def cut(lines: Sequence[str]) -> Iterable[str]:
        segmented = segmenter.segment_all(lines, rules, engine=given["engine"], threads=given["threads"])
        return map(" ".join, segmented)

    with Lines(None if out == "-" else out, warn, escape_controls) as written:
        for path in paths:
            if path == "-":
                announce_keyboard()
            for lines in _blocks(path):
                written.write(cut(lines))


def _blocks(path: str) -> Iterator[list[str]]:
    source = Source(path)
    try:
        lines = (line for _, line in source.lines())
        while block := list(islice(lines, _LINES)):
            yield block
    finally:
        source.close()


def _sentences(reader: Reader, paths: Sequence[str], progress: bool | None) -> Iterator[list[str]]:
    """Yield the words of each sentence: tokens, or characters joined by their labels."""
    for path in paths:
        with reading(reader, path, progress, f"reading {Path(path).name}") as (examples, step):
            for example in stepping(examples, step):
                if words := _words(example):
                    yield words


def _words(example: Example) -> list[str]:
    if "char" not in example.columns:
        return [word for token in example.tokens for word in token.split()]
    labels = example.known_labels
    words: list[str] = []
    for k, character in enumerate(example.tokens):
        if k == 0 or labels[k] in ("B", "S") or labels[k - 1] in ("E", "S"):
            words.append(character)
        else:
            words[-1] += character
    return words


def _refuse_others(context: typer.Context, known: Sequence[str], what: str) -> None:
    """Raise `ModelError` if an option has no effect."""
    for flag in opt.typed(context):
        if flag not in known:
            raise ModelError(f"{flag} has no effect with {what}", got=flag, wanted=", ".join(known))
