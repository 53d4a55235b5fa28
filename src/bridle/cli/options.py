"""Options that several commands share: names, help texts, values and completion for shells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import typer

from bridle.data import formats
from bridle.data.tokenizer import TOKENS, Tokens
from bridle.decoding.problem import LEAST_MEMORY, MOST_MEMORY
from bridle.engines import engine_names
from bridle.errors import Argument, EngineError
from bridle.features import SETS

# Panels of the help; options without a panel come first.
DATA, RULES, LIMITS, OUTPUT, ADVANCED = "Data", "Rules", "Limits", "Output", "Advanced"
_Function = TypeVar("_Function", bound=Callable[..., Any])
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


class Scheme(StrEnum):
    """Values of --scheme."""

    AUTO, NONE, IO, BIO, BIOES, BMES = "auto", "none", "IO", "BIO", "BIOES", "BMES"

    @property
    def library_name(self) -> str | None:
        """The scheme, as the library calls it."""
        return None if self is Scheme.NONE else self.value


class OnInfeasible(StrEnum):
    """Values of --on-infeasible."""

    RAISE, RELAX, SKIP = "raise", "relax", "skip"


class OnUnknown(StrEnum):
    """Values of --on-unknown."""

    RAISE, SKIP, WRONG = "raise", "skip", "wrong"


class Learnable(StrEnum):
    """Values of --on-unknown where rules are learned: from a label that is wrong, there is nothing to learn."""

    RAISE, SKIP = "raise", "skip"


class HoldOut(StrEnum):
    """Values of --hold-out."""

    SEQUENCES, FILES = "sequences", "files"


class Measure(StrEnum):
    """Values of --measure."""

    AUTO, F1, ACCURACY, EXACT, QUALITY = "auto", "f1", "accuracy", "exact", "quality"


class ScoredBy(StrEnum):
    """Values of --scored-by."""

    AUTO, CROSS_FITTED, MODEL = "auto", "cross-fitted", "model"


class TokensKind(StrEnum):
    """Values of --tokens."""

    BLANKS, WORDS, PUNCTUATION, REFERENCES, CHARACTERS = TOKENS

    @property
    def library_name(self) -> Tokens:
        """The tokenizer, as the library calls it."""
        return next(kind for kind in TOKENS if kind == self.value)


def option(usage: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """Declare an option by its use, such as "-o, --out FILE"; more: arguments of `typer.Option`."""
    flags, _, metavar = usage.replace(", ", ",").partition(" ")
    return typer.Option(*flags.split(","), metavar=metavar or None, help=help, rich_help_panel=panel, **more)


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the completion of a partial word in a shell."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def parse_size(size: str | None, option: str = "max_memory") -> int:
    """Convert a size to bytes; without a size, return the default of --max-memory. option: its name, for errors.

    >>> parse_size("500MB"), parse_size("1.5 GB"), parse_size("2000000"), parse_size(None)
    (500000000, 1500000000, 2000000, 1000000000)
    """
    if size is None:
        return MOST_MEMORY
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)", size.strip().lower())
    count = 0 if match is None or match[2] not in _UNITS else int(Fraction(match[1]) * _UNITS[match[2]])
    if not LEAST_MEMORY <= count <= 10**18:
        raise EngineError(
            f"bad option {option}",
            got=repr(size),
            wanted="a size from 1MB, such as 500MB or 2GB",
            argument=Argument(option, size),
        )
    return count


def typed(context: typer.Context) -> dict[str, Any]:
    """Return what the command line sets: values by flags, or by the names of arguments, in the order of the help."""
    params = [param for param in context.command.params if param.name in context.params]
    sources = {param.opts[0]: (context.get_parameter_source(str(param.name)), param) for param in params}
    return {
        flag: context.params[str(param.name)]
        for flag, (source, param) in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    }


def grouped(command: _Function) -> _Function:
    """Let a command take options that belong together as one parameter, which is a dataclass such as `DataOptions`."""
    groups: dict[str, type] = {}
    flat: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        if not is_dataclass(parameter.annotation):
            flat.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        group = groups[parameter.name] = cast(type, parameter.annotation)
        hints = get_type_hints(group, include_extras=True)
        flat += [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
            for field in fields(group)
        ]

    @wraps(command)
    def run(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    run.__signature__ = signature(command).replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return cast(_Function, run)


COMPLETE_FORMATS = complete_from(formats)
COMPLETE_FEATURES = complete_from(lambda: ["auto", *SETS])

# ---- data -----------------------------------------------------------------------------------------------------------

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model that bridle train wrote.", show_default=False)
]
LabelledArgument = Annotated[
    list[str],
    typer.Argument(metavar="DATA", help="Labelled sequences, optionally gzipped; - reads stdin.", show_default=False),
]
FormatOption = Annotated[
    str | None,
    option(
        "--format NAME",
        "Format of the data: conll, jsonl, csv, text, doccano, labelstudio, ... "
        "Default: by the suffix or the first lines.",
        DATA,
        autocompletion=COMPLETE_FORMATS,
    ),
]
ColumnsOption = Annotated[str | None, option("--columns A,B,...", "Names of the columns, in order; _ skips one.", DATA)]
LabelOption = Annotated[str | None, option("--label NAME", "Name or number of the column with the labels.", DATA)]
FormatOptions = Annotated[
    list[str] | None, option("--option KEY=VALUE", "Option of the format; can be repeated.", DATA)
]
MapOption = Annotated[
    list[str] | None,
    option(
        "--map OLD=NEW,...|FILE",
        "New names of labels; a file has OLD=NEW, or OLD and NEW with a TAB between them, on each line. "
        "Can be repeated.",
        DATA,
    ),
]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="NAME",
        help="Label, learn or test whole documents: the column or field that names the document of each sequence; or "
        "docstart, newdoc, if documents begin at -DOCSTART- lines or at comments such as # newdoc.",
        rich_help_panel=DATA,
    ),
]


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Options about reading labelled sequences."""

    format: FormatOption = None
    columns: ColumnsOption = None
    label: LabelOption = None
    option: FormatOptions = None
    map: MapOption = None
    groups: GroupsOption = None

    @property
    def arguments(self) -> tuple[str | None, str | None, str | None, list[str] | None]:
        """Return format, columns, label and options of the format, for `make_reader` and `make_model_reader`."""
        options = [*(self.option or ()), *(f"map={pairs}" for pairs in self.map or ())]
        options += [] if self.groups is None else [f"groups={self.groups}"]
        return self.format, self.columns, self.label, options or None


TokensOption = Annotated[
    TokensKind | None,
    option("--tokens", "How to split texts into tokens. Default: as the training data was split.", DATA),
]
LabelsOption = Annotated[str | None, option("--labels A,B,...", "Labels, in the order of the columns.", DATA)]
LabelsFileOption = Annotated[Path | None, option("--labels-file FILE", "File with the labels, one per line.", DATA)]
SchemeOption = Annotated[
    Scheme,
    option(
        f"--scheme {'|'.join(Scheme)}",
        "Tagging scheme of the labels; auto: recognised from their names.",
        DATA,
        case_sensitive=False,
    ),
]

OnUnknownOption = Annotated[
    OnUnknown,
    option(
        "--on-unknown",
        "What to do with gold labels that the model does not know: stop, leave out the sequence, or count the "
        "label as wrong.",
        DATA,
    ),
]
LearnableOption = Annotated[
    Learnable,
    option(
        "--on-unknown",
        "What to do with gold labels that the model does not know: stop, or leave out the sequence.",
        DATA,
    ),
]

# ---- rules and decoding ---------------------------------------------------------------------------------------------

RulesOption = Annotated[list[Path] | None, option("--rules FILE", ".rules file to obey; can be repeated.")]
LenientOption = Annotated[bool, option("--lenient", "Leave out rules about unknown labels, with a warning.", RULES)]
OnInfeasibleOption = Annotated[
    OnInfeasible,
    option(
        "--on-infeasible",
        "What to do if no labelling obeys the hard rules: stop, break the fewest rules, or skip the sequence.",
        RULES,
    ),
]
EngineOption = Annotated[
    str,
    option(
        "--engine NAME[:KEY=VALUE,...]",
        "Decoding engine, with its options: auto, search, viterbi, product, lazy_intersection, ilp, "
        "ilp:formulation=paper, beam:width=16, two_stage:tau=0.95.",
        ADVANCED,
        autocompletion=complete_from(lambda: ["auto", *engine_names()]),
    ),
]
MemoryOption = Annotated[
    str | None, option("--max-memory SIZE", "Working memory for each sequence, such as 500MB. Default: 1GB.", LIMITS)
]
TimeLimitOption = Annotated[float | None, option("--time-limit SECONDS", "Time limit for each sequence.", LIMITS)]

# ---- training and learning ------------------------------------------------------------------------------------------

HoldOutOption = Annotated[
    HoldOut,
    option(
        "--hold-out",
        "What to hold out together in cross-validation: single sequences, or complete files, to estimate results "
        "on new sources.",
        "Choosing settings",
    ),
]
MeasureOption = Annotated[
    Measure,
    option(
        "--measure",
        "Measure to optimise. f1: F1 of segments; accuracy: share of correct tokens; exact: share of sequences "
        "without an error; quality: mean of f1 and exact. auto: f1 if labels form segments, otherwise accuracy.",
        "Choosing settings",
    ),
]
CrossFitOption = Annotated[
    Path | None, option("--cross-fit FILE", "Cache of cross-fitted scores: read if it exists, written otherwise.")
]
ScoredByOption = Annotated[
    ScoredBy,
    option(
        "--scored-by",
        "Scores to use: of models trained on other folds, or of MODEL itself. "
        "auto: cross-fitted if MODEL was trained on DATA.",
        ADVANCED,
    ),
]
ScoresOption = Annotated[
    list[str] | None,
    option(
        "--scores FILE",
        "Scores of the gold data by any model, in the formats of bridle decode; several files: one per fold.",
    ),
]
SeedOption = Annotated[int, option("--seed N", "Seed of the random number generator.", ADVANCED, min=0)]
ThreadsOption = Annotated[int, option("--threads N", "Number of threads; 0 uses all cores.", ADVANCED, min=0)]

# ---- output ---------------------------------------------------------------------------------------------------------

OutOption = Annotated[str | None, option("-o, --out FILE", "Output file. Default: stdout.")]
JsonOption = Annotated[bool, option("--json", "Print a single JSON object to stdout, for scripts.", OUTPUT)]
PlotOption = Annotated[
    Path | None, option("--plot FILE", "Plot the gains to this file: .png, .svg or .pdf; needs matplotlib.", OUTPUT)
]
ProgressOption = Annotated[
    bool | None,
    option(
        "--progress/--no-progress",
        "Show progress on stderr. Default: a bar on a terminal, a line every 10 seconds elsewhere.",
        OUTPUT,
    ),
]
