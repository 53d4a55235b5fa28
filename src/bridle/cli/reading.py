"""Reading of labelled sequences in commands: their options, and what a model records about them."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from bridle.cli.base import mark_warning, on_terminal, warn
from bridle.cli.options import HoldOut, Learnable, OnUnknown
from bridle.cli.options import Scheme as OptionScheme
from bridle.cli.progress import ProgressBar
from bridle.data import Example, Examples
from bridle.data.documents import documents_of
from bridle.data.reader import ModelReader, Reader, options_of
from bridle.data.tokenizer import TOKENS, tokenize
from bridle.errors import FileError, LabelError, RuleError
from bridle.labels import Labels, Scheme
from bridle.models import Tagger
from bridle.models.checks import is_used
from bridle.models.files import is_model
from bridle.report.text import counted, cut
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import Line, Loaded, read_files, read_text

if TYPE_CHECKING:
    from bridle.models.deterministic import DeterministicRules

_GAPS = "sequences with missing labels"
_MOST_TOLD = 5  # unknown labels, besides the first
_HUGE = 1000  # tokens of a sequence, if it has most of the data,
_MANY = 20  # and sequences of one token, that are worth a warning
# Options whose value is a list of names, separated by commas.
_LISTS = {"columns", "names"}
# Options whose value is text, even if it looks like a number.
_TEXTS = {"missing"}


def make_reader(
    format: str | None, columns: str | None, label: str | None, options: list[str] | None, before: Reader | None = None
) -> Reader:
    """Return the reader that the options ask for; other settings are those of `before`."""
    settings: dict[str, Any] = {}
    if columns is not None:
        settings["columns"] = [name.strip() for name in columns.split(",")]
    if label is not None:
        settings["label"] = _value(label)
    if options:
        settings |= parse_format_options(options, "--option")
    other = before is None or (format is not None and format != before.format)
    reader = (
        Reader(format, settings) if before is None or other else Reader(before.format, {**before.options, **settings})
    )
    if before is not None and (other or "tokens" in settings) and reader.tokens and before.tokens:
        if "tokens" not in settings:
            return reader.with_tokens_of(before)  # as the model knows them
        if reader.tokens != before.tokens:
            warn(
                f"tokens={reader.tokens} splits text differently from the training data, "
                f"which used tokens={before.tokens}"
            )
    return reader


def parse_format_options(options: list[str] | None, flag: str) -> dict[str, Any]:
    """Parse options of the form KEY=VALUE."""
    settings: dict[str, Any] = {}
    for option in options or []:
        key, is_, value = option.partition("=")
        if not is_:
            raise FileError(
                f"{flag} is not of the form KEY=VALUE",
                got=repr(option),
                wanted="KEY=VALUE, such as tokens=words",
            )
        key = key.strip()
        if key == "map":
            settings[key] = settings.get(key, {}) | _parse_map(value)
        elif key in _LISTS:
            settings[key] = [name.strip() for name in value.split(",")]
        else:
            settings[key] = value if key in _TEXTS and value.lower() != "none" else _value(value)
    return settings


def with_map(options: list[str] | None, names: list[str] | None) -> list[str] | None:
    """Return the options of a format with new names of labels, as --map has them."""
    return options if not names else [*(options or ()), *(f"map={pairs}" for pairs in names)]


def _parse_map(text: str) -> dict[str, str]:
    """Parse OLD=NEW,..., or the file with this name."""
    is_file = "=" not in text or Path(text).is_file()
    lines = read_text(Path(text)).splitlines() if is_file else text.split(",")
    names: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        old, _, new = (part.strip() for part in line.partition("\t" if "\t" in line else "="))
        if not line.strip():
            continue
        if not (old and new) or names.get(old, new) != new:
            raise FileError(
                "--map must have an old and a new name of labels, each old name once",
                got=repr(line[:80]),
                wanted="OLD=NEW,..., or a file with OLD=NEW on each line",
                where=f"{text}:{number}" if is_file else None,
            )
        names[old] = new
    return names


def _value(text: str) -> str | int | None:
    if text.lower() == "none":
        return None
    return int(text) if text.removeprefix("-").isdigit() else text


def source_name(path: str) -> str:
    """Return the name of a file in messages."""
    return "<stdin>" if path == "-" else path


def announce_keyboard() -> None:
    """Tell the user that the command is reading from the keyboard."""
    if on_terminal(sys.stdin):
        warn("reading from the keyboard; press Ctrl-D to finish")


@contextmanager
def reading(
    reader: Reader, path: str, progress: bool | None, doing: str, out: str | None = ""
) -> Iterator[tuple[Examples, Callable[[], None]]]:
    """Examples of a file, and the function that updates its progress. At the end, reports what was left out."""
    if path == "-":
        announce_keyboard()
    examples = reader.open(path)
    try:
        with ProgressBar(progress, doing, out) as bar:
            yield examples, lambda: bar(examples.done(), examples.total)
        for what, count in examples.source.left_out.items():
            warn(f"{path}: left out {count:,} {what}")
        for what, count in examples.source.changed.items():
            warn(f"{path}: changed {count:,} {what}")
    finally:
        examples.close()


def stepping(examples: Iterable[Example], step: Callable[[], None]) -> Iterator[Example]:
    """Yield sequences, and update the progress from time to time."""
    for k, example in enumerate(examples):
        yield example
        if k % 1000 == 0:
            step()


def model_inputs(examples: Sequence[Example]) -> tuple[list[Any], list[list[Any]], list[dict[str, Any]]]:
    """X, y (None where a label is missing) and given values, as models take them."""
    return [e.columns for e in examples], [list(e.labels or ()) for e in examples], [dict(e.given) for e in examples]


def rule_inputs(example: Example) -> dict[str, Any]:
    """Return the values that rules may refer to: the columns of a sequence, its tokens and its given values."""
    return {**example.columns, "tokens": list(example.tokens), **example.given}


def gold_labels(examples: Sequence[Example]) -> list[list[str]]:
    """Return the labels of sequences that `read_all` has read without gaps."""
    return [example.known_labels for example in examples]


def label_names(listed: str | None, file: Path | None) -> tuple[str, ...] | None:
    """Return the labels of --labels or --labels-file; None without them."""
    if listed is not None and file is not None:
        raise LabelError("--labels and --labels-file cannot be combined", got="both", wanted="one of them")
    if file is not None:
        return tuple(line.strip() for line in read_text(file).splitlines() if line.strip())
    return None if listed is None else tuple(name.strip() for name in listed.split(","))


def make_labels(names: tuple[str, ...], scheme: OptionScheme) -> Labels:
    """Return labels under the scheme of an option."""
    return Labels(names, cast(Scheme | None, scheme.library_name))


def labels_in(gold: Iterable[Iterable[str | None]], scheme: str | None, extra: Iterable[str] = ()) -> Labels:
    """Return the labels of data, missing ones aside; scheme "auto": recognised from their names."""
    names = sorted({name for name in (*chain.from_iterable(gold), *extra) if name is not None})
    return Labels(names, cast(Scheme | None, scheme))


def load_rules(paths: Sequence[Path] | None, labels: Labels | None, *, lenient: bool = False) -> list[Rule]:
    """Load the rules of all files. One error lists all unknown labels with their lines.

    labels: None if they are not known yet, but other mistakes should be reported before the data is read.
    lenient: leave out rules about unknown labels, with a warning; the command then ends with exit code 1.
    """
    loaded = read_files(paths or ())
    rules = [line.rule for line in checked_lines(loaded, labels, lenient=lenient)]
    if labels is not None:
        _warn_priced_apart(loaded)
    return rules


def load_model_rules(paths: Sequence[Path] | None, model: Tagger, *, lenient: bool = False) -> list[Rule]:
    """Load the rules of all files for a model, with a warning if some were priced for another one.

    Deterministic rules, from bridle learn --kind deterministic, are given to the model.
    """
    decide, texts = deterministic_rules(paths or ())
    loaded = read_files(texts)
    rules = [line.rule for line in checked_lines(loaded, model.labels_, lenient=lenient)]
    for file, other in loaded.priced_for.items():
        if other != model.fingerprint_:
            warn(
                f"the penalties in {file} were learned for another model ({other}; this one is {model.fingerprint_}); "
                "learn them again with bridle learn or bridle rules tune"
            )
    _warn_priced_apart(loaded)
    if decide is not None:
        model.decide_with(decide)
    return rules


def deterministic_rules(paths: Sequence[Path]) -> tuple[DeterministicRules | None, list[Path]]:
    """Load the deterministic rules among files of rules; the second list has the other files."""
    decide = [path for path in paths if is_model(path)]
    if not decide:
        return None, [*paths]
    if len(decide) > 1:
        got = " and ".join(map(str, decide))
        raise RuleError("only one file of deterministic rules can be used", got=got, wanted="one of them")
    from bridle.models.deterministic import DeterministicRules  # importing it takes long

    return DeterministicRules.load(decide[0]), [path for path in paths if path not in decide]


def _warn_priced_apart(loaded: Loaded) -> None:
    """Warn if penalties were learned for a file of rules alone, and other files charge as well."""
    charging = list(dict.fromkeys(line.file for line in loaded.lines if isinstance(line.rule, Soft)))
    if len(charging) > 1 and (apart := [file for file in charging if file in loaded.priced_for]):
        files = " ".join(shlex.quote(str(file)) for file in charging)
        warn(
            f"the penalties in {' and '.join(map(str, apart))} were learned without the rules of the other files, so "
            f"that together they may charge twice; bridle rules tune {files} --model MODEL --data DATA -o joint.rules "
            "learns them together"
        )


def checked_lines(loaded: Loaded, labels: Labels | None, *, lenient: bool = False) -> list[Line]:
    """Return the rules that were read. Rules about unknown labels are an error or, if lenient, left out.

    A rule that only forbids and names some labels that are known applies to these.
    """
    lines = loaded.check()
    if labels is None:
        return lines
    from bridle.rules.lint import unknown_labels, without_unknown, without_unseen  # importing it takes long

    for file, number, text in loaded.again:
        warn(f"{file}:{number}: {text}" if number else f"{file}: {text}")
    if not unknown_labels(lines, labels):
        return lines
    lines, fewer = without_unseen(lines, labels)
    for line, text in fewer:
        warn(f"{line.where}: {text}")
    if lenient:
        lines, left_out = without_unknown(lines, labels)
        for line, text in left_out:
            warn(f"{line.where}: {text}")
            mark_warning()
    elif wrong := unknown_labels(lines, labels):
        first = {unknown.name: unknown for unknown in reversed(wrong)}  # a name is told once, the advice in any case
        others = [
            f"{unknown.line.where}: {unknown.message}"
            for name, unknown in reversed(first.items())
            if name != wrong[0].name
        ]
        more = [f"and {len(others) - _MOST_TOLD} more labels"] if len(others) > _MOST_TOLD else []
        advice = "Are these rules for other data, or other labels? --lenient leaves them out."
        cause = "\n".join([*others[:_MOST_TOLD], *more, advice])
        raise RuleError(wrong[0].message, cause=cause, where=wrong[0].line.where)
    return lines


def warn_unknown_labels(gold: Iterable[str | None], known: Labels) -> None:
    """Warn about gold labels that the model does not have."""
    if strange := {name for name in gold if name is not None}.difference(known):
        warn(f"the data has labels that the model does not know: {_listed(strange)}")


def used_examples(
    examples: Iterable[Example], known: Iterable[str], on_unknown: OnUnknown | Learnable
) -> Iterator[Example]:
    """Yield the sequences to use, as --on-unknown says. Warns about those that are left out."""
    names, left_out, unknown = {*known, None}, 0, set[str]()
    for example in examples:
        labels = example.labels or ()
        try:
            used = is_used(names, labels, on_unknown.value)
        except LabelError as error:
            raise error.at(where=example.where) from None
        if used:
            yield example
        else:
            left_out += 1
            unknown.update(name for name in labels if name is not None and name not in names)
    if left_out:
        warn(f"left out {counted(left_out, 'sequence')} with labels that the model does not know: {_listed(unknown)}")


def _listed(names: Iterable[str]) -> str:
    """List names, the first ten at most."""
    known = sorted(names)
    return ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")


def file_groups(examples: Sequence[Example], hold_out: HoldOut) -> list[str] | None:
    """Return the groups that are held out together: documents, or files; None: each sequence separately."""
    documents = documents_of(examples)
    if documents is not None:
        if hold_out is not HoldOut.SEQUENCES:
            got, wanted = "--groups and --hold-out files", "one of them"
            raise FileError("documents are held out as a whole", got=got, wanted=wanted)
        return documents
    if hold_out is HoldOut.SEQUENCES:
        return None
    files = [example.where.rpartition(":")[0] or example.where for example in examples]
    if len(set(files)) < 2:
        raise FileError(
            "--hold-out files needs two or more files", got="--hold-out files", wanted="two or more files of DATA"
        )
    return files


def read_all(
    reader: Reader,
    paths: list[str],
    progress: bool | None,
    gaps: Literal["leave out", "keep"] = "leave out",
    names: set[str | None] | None = None,
) -> tuple[list[Example], Reader]:
    """All labelled sequences of some files, and the reader with their format.

    gaps: whether to leave out (and count) or to keep sequences with missing labels.
    names: gets the labels of all sequences, including those that are left out.
    """
    examples_read: list[Example] = []
    left_out = Counter[str]()
    for path in paths:
        with reading(reader, path, progress, f"reading {Path(path).name}") as (examples, step):
            reader = reader.read_as(examples.format)
            for example in stepping(examples.labelled(), step):
                if names is not None:
                    names.update(example.labels or ())
                if gaps == "keep" or None not in (example.labels or ()):
                    examples_read.append(example)
                else:
                    examples.source.leave_out(_GAPS)
            left_out.update(examples.left_out)
    if not examples_read:
        files = ", ".join(map(source_name, paths))
        got = ", ".join(f"{count:,} {what}" for what, count in left_out.items()) or "nothing"
        raise FileError("there are no sequences", got=got, wanted="labelled sequences", where=files)
    if left_out[_GAPS] > len(examples_read):
        warn(
            f"{left_out[_GAPS]:,} of {left_out[_GAPS] + len(examples_read):,} sequences have missing labels, and only "
            f"the other {len(examples_read):,} are used; pass --option missing=none if ? is a label like others"
        )
    counts = ReadCounts.of(examples_read)
    counts.report(paths)
    if rare := [name for name, count in (counts.labels or {}).items() if count == 1]:
        warn(f"labels that occur once: {_listed(rare)}; a misspelled one can be renamed with --map OLD=NEW")
    return examples_read, reader.settled(examples_read[0])


def read_unlabelled(reader: Reader, paths: list[str], progress: bool | None) -> tuple[list[Example], str]:
    """Read all sequences of some files that may lack labels; also return the format of the last file."""
    sequences: list[Example] = []
    format = ""
    for path in paths:
        with reading(reader, path, progress, f"reading {Path(path).name}") as (examples, step):
            format = examples.format
            sequences += stepping(examples, step)
    if not sequences:
        files = ", ".join(map(source_name, paths))
        raise FileError("there are no sequences", got="nothing", wanted="sequences without labels", where=files)
    return sequences, format


@dataclass
class ReadCounts:
    """Counts of what was read, and warnings about what often is a mistake."""

    sequences: int = 0
    tokens: int = 0
    labels: Counter[str] | None = None  # None: labels were not read
    longest: int = 0  # tokens of a sequence
    longest_where: str = ""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> ReadCounts:
        """Count some sequences."""
        counts = cls(labels=Counter())
        for example in examples:
            counts.add(example)
        return counts

    def add(self, example: Example) -> None:
        """Count a sequence."""
        self.sequences += 1
        self.tokens += len(example)
        if self.labels is not None and example.labels is not None:
            self.labels.update(label for label in example.labels if label is not None)
        if len(example) > self.longest:
            self.longest, self.longest_where = len(example), example.where

    def report(self, paths: Sequence[str]) -> None:
        """Print how much was read from some files, and warn."""
        files = source_name(paths[0]) if len(paths) == 1 else f"{len(paths):,} files"
        labels = [counted(len(self.labels), "label")] if self.labels else []
        warn(f"{files}: {', '.join([counted(self.sequences, 'sequence'), counted(self.tokens, 'token'), *labels])}")
        if self.longest >= _HUGE and 2 * self.longest > self.tokens:
            warn(
                f"{self.longest_where or files}: one sequence has {self.longest:,} of {self.tokens:,} tokens; are "
                "sequences separated by other lines than empty ones? For lines that begin with #doc, pass "
                "--option comment='#doc'"
            )
        if self.sequences >= _MANY and self.longest == 1:
            warn("every sequence has one token; are there empty lines between the tokens of a sequence?")


def text_example(text: str, reader: Reader) -> Example:
    """Return a text as a sequence, with tokens of the kind that the reader makes."""
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


def make_model_reader(
    tagger: Tagger,
    format: str | None,
    columns: str | None,
    label: str | None,
    options: list[str] | None,
    labels: Literal["there", "missing"] = "there",
) -> ModelReader:
    """Return the reader of data for a model: as the options say, and otherwise as the training data was read.

    labels="missing": the data may have no labels.
    """
    before = Reader.noted(tagger.notes_, labels)
    reader, asked = before, Reader()
    if format is not None or columns is not None or label is not None or options:
        asked = Reader(format, make_reader(None, columns, label, options).options)
        reader = make_reader(format, columns, label, options, before)
        if format is not None and format != before.format:
            known = options_of(tagger, format, before.options)
            reader = replace(reader, options={**known, **reader.options})
        reader = reader.unlabelled() if labels == "missing" else reader
    return ModelReader(reader.format, reader.options, asked=asked, model=tagger, labels=labels, warn_split=_warn_split)


def _warn_split(tokens: str) -> None:
    warn(f"text is split at {tokens}; pass --option tokens=NAME if the training data was split in another way")
