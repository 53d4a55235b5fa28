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
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=COMPLETE_FORMATS,
        help="Format of the data: conll, jsonl, csv, text, doccano, labelstudio, ... "
        "Default: by the suffix or the first lines.",
        rich_help_panel=DATA,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="A,B,...", help="Names of the columns, in order; _ skips one.", rich_help_panel=DATA
    ),
]
LabelOption = Annotated[
    str | None,
    typer.Option("--label", metavar="NAME", help="Name or number of the column with the labels.", rich_help_panel=DATA),
]
FormatOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="Option of the format; can be repeated.", rich_help_panel=DATA),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW,...|FILE",
        help="New names of labels; a file has OLD=NEW, or OLD and NEW with a TAB between them, on each line. "
        "Can be repeated.",
        rich_help_panel=DATA,
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
    typer.Option(
        "--tokens",
        help="How to split texts into tokens. Default: as the training data was split.",
        rich_help_panel=DATA,
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--labels", metavar="A,B,...", help="Labels, in the order of the columns.", rich_help_panel=DATA),
]
LabelsFileOption = Annotated[
    Path | None,
    typer.Option("--labels-file", metavar="FILE", help="File with the labels, one per line.", rich_help_panel=DATA),
]
SchemeOption = Annotated[
    Scheme,
    typer.Option(
        "--scheme",
        metavar="|".join(Scheme),
        case_sensitive=False,
        help="Tagging scheme of the labels; auto: recognised from their names.",
        rich_help_panel=DATA,
    ),
]

OnUnknownOption = Annotated[
    OnUnknown,
    typer.Option(
        "--on-unknown",
        help="What to do with gold labels that the model does not know: stop, leave out the sequence, or count the "
        "label as wrong.",
        rich_help_panel=DATA,
    ),
]
LearnableOption = Annotated[
    Learnable,
    typer.Option(
        "--on-unknown",
        help="What to do with gold labels that the model does not know: stop, or leave out the sequence.",
        rich_help_panel=DATA,
    ),
]

# ---- rules and decoding ---------------------------------------------------------------------------------------------

RulesOption = Annotated[
    list[Path] | None, typer.Option("--rules", metavar="FILE", help=".rules file to obey; can be repeated.")
]
LenientOption = Annotated[
    bool,
    typer.Option("--lenient", help="Leave out rules about unknown labels, with a warning.", rich_help_panel=RULES),
]
OnInfeasibleOption = Annotated[
    OnInfeasible,
    typer.Option(
        "--on-infeasible",
        help="What to do if no labelling obeys the hard rules: stop, break the fewest rules, or skip the sequence.",
        rich_help_panel=RULES,
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME[:KEY=VALUE,...]",
        help="Decoding engine, with its options: auto, search, viterbi, product, lazy_intersection, ilp, "
        "ilp:formulation=paper, beam:width=16, two_stage:tau=0.95.",
        autocompletion=complete_from(lambda: ["auto", *engine_names()]),
        rich_help_panel=ADVANCED,
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Working memory for each sequence, such as 500MB. Default: 1GB.",
        rich_help_panel=LIMITS,
    ),
]
TimeLimitOption = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Time limit for each sequence.", rich_help_panel=LIMITS),
]

# ---- training and learning ------------------------------------------------------------------------------------------

HoldOutOption = Annotated[
    HoldOut,
    typer.Option(
        "--hold-out",
        help="What to hold out together in cross-validation: single sequences, or complete files, to estimate results "
        "on new sources.",
        rich_help_panel="Choosing settings",
    ),
]
MeasureOption = Annotated[
    Measure,
    typer.Option(
        "--measure",
        help="Measure to optimise. f1: F1 of segments; accuracy: share of correct tokens; exact: share of sequences "
        "without an error; quality: mean of f1 and exact. auto: f1 if labels form segments, otherwise accuracy.",
        rich_help_panel="Choosing settings",
    ),
]
CrossFitOption = Annotated[
    Path | None,
    typer.Option(
        "--cross-fit", metavar="FILE", help="Cache of cross-fitted scores: read if it exists, written otherwise."
    ),
]
ScoredByOption = Annotated[
    ScoredBy,
    typer.Option(
        "--scored-by",
        help="Scores to use: of models trained on other folds, or of MODEL itself. "
        "auto: cross-fitted if MODEL was trained on DATA.",
        rich_help_panel=ADVANCED,
    ),
]
ScoresOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="FILE",
        help="Scores of the gold data by any model, in the formats of bridle decode; several files: one per fold.",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", metavar="N", min=0, help="Seed of the random number generator.", rich_help_panel=ADVANCED),
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads", metavar="N", min=0, help="Number of threads; 0 uses all cores.", rich_help_panel=ADVANCED
    ),
]

# ---- output ---------------------------------------------------------------------------------------------------------

OutOption = Annotated[str | None, typer.Option("-o", "--out", metavar="FILE", help="Output file. Default: stdout.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print a single JSON object to stdout, for scripts.", rich_help_panel=OUTPUT)
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Plot the gains to this file: .png, .svg or .pdf; needs matplotlib.",
        rich_help_panel=OUTPUT,
    ),
]
ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show progress on stderr. Default: a bar on a terminal, a line every 10 seconds elsewhere.",
        rich_help_panel=OUTPUT,
    ),
]
