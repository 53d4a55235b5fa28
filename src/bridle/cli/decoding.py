"""`bridle decode`: read scores, write labellings with their proof."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated

import typer

import bridle
from bridle.cli import options as opt
from bridle.cli.base import Command, Tally, app, escape_controls, exit_by_status, refuse_overwrite, warn
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import announce_keyboard, label_names, load_rules, make_labels
from bridle.data import Lines, Pace, open_scores
from bridle.data.jsonl import JsonLines
from bridle.errors import LabelError
from bridle.tagging import Block, tag
from bridle.tagging.figures import figures_of, want_of


@app.command(cls=Command)
def decode(
    scores: Annotated[
        str,
        typer.Argument(
            metavar="SCORES", help="Score file: npz, Parquet, Arrow, or JSON lines, optionally gzipped; - reads stdin."
        ),
    ],
    rules: opt.RulesOption = None,
    lenient: opt.LenientOption = False,
    labels: opt.LabelsOption = None,
    labels_file: opt.LabelsFileOption = None,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    engine: opt.EngineOption = "auto",
    threads: opt.ThreadsOption = 0,
    time_limit: opt.TimeLimitOption = None,
    max_memory: opt.MemoryOption = None,
    on_infeasible: opt.OnInfeasibleOption = opt.OnInfeasible.RAISE,
    k: Annotated[int | None, opt.option("--k N", "Also print the N best labellings of each sequence.", min=1)] = None,
    out: opt.OutOption = None,
    progress: opt.ProgressOption = None,
) -> None:
    """Decode your own scores under rules.

    The output is JSON lines, one per sequence, in the order of the input.

    \b
    SCORES is an npz file with these arrays, of which only unary is required:
      unary (N, labels), offsets (sequences + 1; if missing: one sequence),
      pairwise (labels, labels), start, end (labels), labels, tokens (N).
    Or it is a Parquet or Arrow table with a row per sequence: scores, a list of a list of numbers per token; tokens;
    given. Or it contains JSON lines, optionally with pairwise, start and end; null and "-inf" mean minus infinity:
      {"id": "s1", "unary": [[0.1, 2.0], [null, 1.0]], "tokens": ["I", "left"],
       "given": {"verb": 1}, "labels": ["O", "A0"]}

    \b
    Examples:
      bridle decode scores.npz --rules my.rules --labels O,A0,A1 --scheme IO -o out.jsonl
      cat scores.jsonl | bridle decode - --rules my.rules --on-infeasible skip > out.jsonl
      bridle decode scores.jsonl.gz --rules my.rules --k 5 --time-limit 0.1

    \b
    Exit codes:
      0    success
      1    finished, but some sequences are infeasible (skip), relaxed, or have no labelling: time ran out
      2    bad input, bad usage, or the output cannot be written
      3    a sequence has no labelling under the rules, or none was found in time (raise)
      130  interrupted by Ctrl-C; written lines are complete, and -o FILE is kept as FILE.part
      141  the reader of the output closed it
    """
    refuse_overwrite(out, scores, *(rules or ()), labels_file)
    memory = opt.parse_size(max_memory)
    names = label_names(labels, labels_file)
    load_rules(rules, None)
    pace = Pace()
    if scores == "-":
        announce_keyboard()
    with open_scores(scores, pace, None if names is None else len(names)) as source:
        known = make_labels(agreed_labels(names, source.labels), scheme)
        decoder = bridle.Decoder(
            known,
            load_rules(rules, known, lenient=lenient),
            engine,
            time_limit=time_limit,
            max_memory=memory,
            on_infeasible=on_infeasible.value,
        )
        want = want_of(figures_of(scores=False, k=k is not None))
        status, lines_format = Counter[str](), JsonLines()
        with Lines(out, warn, escape_controls) as lines, ProgressBar(progress, "decoding", out) as bar:
            for chunk in source.chunks:
                begun = time.perf_counter()
                block = Block(len(chunk), scores=chunk.lattices, given=chunk.givens, ids=chunk.ids)
                outcomes = tag(block, None, decoder, want=want, k=k or 1, threads=threads)
                n, error = outcomes.first_error(infeasible=on_infeasible is opt.OnInfeasible.RAISE)
                lines.put(lines_format.encode(block, outcomes, n))
                if error is not None:
                    raise error.at(where=chunk.where[n])
                status.update(outcomes.status.tolist())
                bar(source.done(), source.total)
                pace.took(time.perf_counter() - begun)
    exit_by_status(Tally(status.total(), status))


def agreed_labels(names: tuple[str, ...] | None, file_names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names of the columns: from the options or from the score file, which must agree."""
    if names is None and file_names is None:
        raise LabelError(
            "the score file does not name its labels", got="none in the score file", wanted="--labels or --labels-file"
        )
    if names is not None and file_names is not None and names != file_names:
        raise LabelError(
            "--labels differs from the labels in the score file",
            got=", ".join(file_names),
            wanted=", ".join(names),
            cause="Labels name the columns, so their order matters. Leave out --labels to use those of the file.",
        )
    return names or file_names or ()
