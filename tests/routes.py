"""Equal sequences over every route from texts to labels: the sequences, the reference, the routes, the comparison.

    ROWS -> reference: model.lattice, Decoder.decode, k_best, marginals, one by one, errors caught per row
         -> a route  : what it gives for the same rows
         -> compare  : the differences, by kind of row and field: those of KNOWN_DIFFERENCES, no more and no less

A `Route` says what it tells (`tells`) and which rows it cannot carry (`lacks`, by the names in `LACKS`). Nothing else
is left out: `compare` counts the rows, and the tests assert the counts.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bridle
from bridle.arrow import Decode, Tag
from bridle.bulk import ShardSize, tag_files
from bridle.errors import BridleError, FeatureError
from bridle.integrations import crfsuite
from bridle.labels import Segment
from bridle.serve import Limits, RuleText, Service
from commands import Cli
from segment_sums import segment_probabilities
from serving import Client


class Known(NamedTuple):
    """A difference that is known. A test fails if there is another one, and if this one has gone: remove it then."""

    field: str  # of `Result`; "together": rows that cannot be sent together
    kinds: str  # of rows, with commas between them; "*": some rows of any kind
    what: str
    routes: dict[str, str]  # the names of routes, each with the names of cases


KNOWN_DIFFERENCES: list[Known] = [
    Known(
        "labels",
        "*",
        "of labellings with the same score the one that CRFsuite takes",
        {"CRFsuite tagger": "plain"},
    ),
    Known(
        "probabilities",
        "*",
        "of labellings with the same score the one that CRFsuite takes",
        {"CRFsuite tagger": "plain"},
    ),
]

# ---- sequences ------------------------------------------------------------------------------------------------------

COUNT = 2000
K = 3
NONE: Any = ...  # not there, or not told
_WORDS = ["Ann", "Bob", "Lee", "met", "left", "saw", "in", "New", "York", "Paris", "12345", "90210", "the"]
_TRAIN = ["Ann/B-PER met/O Bob/B-PER Lee/I-PER", "in/O New/B-LOC York/I-LOC", "Ann/B-PER left/O Paris/B-LOC 12345/O"]
_RULES = (
    "at most 1 segment of PER",
    "at most 1 segment of LOC [penalty 0.7]",
    "fix B-LOC at tokens /[0-9]{5}/",
    'fix O at tokens "never"',
    'fix B-PER at tokens "never"',
)
_GIVEN = "fix O at given verb"


@dataclass(frozen=True)
class Row:
    """A sequence as users have it, or what they have in its place."""

    kind: str
    id: Any  # NONE: it has none
    tokens: Any
    pos: Any  # a second column; NONE: it is missing
    given: Any  # values for rules; NONE: there are none


_GOOD = {
    "empty": [],
    "one token": ["Ann"],
    "long token": ["Ann", "x" * 100_000, "met"],
    "many tokens": ["Ann", *["met"] * 498, "Paris"],
    "combining": ["Ame\u0301lie", "A\u030a\u0327nn", "e\u0301"],
    "right to left": ["שלום", "محمد", "\u202eAnn\u202c"],
    "zero width": ["An\u200bn", "\u200d", "\u2060Bob", "\u00ad"],
    "emoji": ["👩‍👩‍👧‍👦", "🇮🇸", "Bob🏽"],
    "crlf": ["a\r\nb", "Ann\n", "\r"],
    "bom": ["met", "\ufeffAnn", "\ufeff"],
    "nul": ["Bob", "a\0b", "\0"],
    "blank": ["Ann", "", " ", "New York", "\t", "\u00a0"],
    "separator": ["a\u2028b", "\x85", "a\x0bb", "\x1c"],
    "mark": ["Ann", '"', "a,b", "'", "\\", "?", "null"],
    "infeasible": ["Ann", "never", "Bob"],
    "no id": ["Bob", "met", "Ann"],
    "same id": ["Lee", "left", "Paris"],
    "number as id": ["in", "Paris"],
}
UNTYPED: dict[str, Any] = {
    "null row": None,
    "null token": ["Ann", None],
    "number token": ["Ann", 3],
    "string row": "Ann met",
    "nested row": ["Ann", ["met"]],
}
OF_COLUMNS = ("short column", "missing column", "null in column")
OF_GIVEN = ("no given", "given of another type", "given out of range")
BAD = (*UNTYPED, *OF_COLUMNS, *OF_GIVEN)
# Rows whose error has the same words on all routes. For the others, tables and JSON have words of their own: a number
# among lists is a null in a table, for example. Their errors have the same class.
WORDED = ("null token", "null in column", "short column", *OF_GIVEN, "infeasible")


def _special(kind: str, tokens: Any) -> Row:
    ids = {"no id": NONE, "same id": "twin"}
    words = tokens if isinstance(tokens, list) else ["Ann", "met"]
    pos: Any = ["N" if str(word)[:1].isupper() else "V" for word in words]
    pos = {"short column": pos[:-1], "missing column": NONE, "null in column": [*pos[:-1], None]}.get(kind, pos)
    given: Any = {"verb": 0 if words else []}
    given = {OF_GIVEN[0]: NONE, OF_GIVEN[1]: {"verb": "x"}, OF_GIVEN[2]: {"verb": 99}}.get(kind, given)
    return Row(kind, ids.get(kind, kind), tokens, pos, given)


def _rows() -> list[Row]:
    """Ordinary rows, and others among them; the first and the last are ordinary."""
    chance = random.Random(28)
    plain = {kind: ["Ann", "met", "Bob"] for kind in (*OF_COLUMNS, *OF_GIVEN)}
    special = [_special(kind, tokens) for kind, tokens in {**_GOOD, **UNTYPED, **plain}.items()]
    once = ("long token", "many tokens")
    special = [
        row if row.id in (NONE, "twin") else replace(row, id=f"{row.kind} {time}")
        for time in range(3)
        for row in special
        if not time or row.kind not in once
    ]
    result: list[Row] = []
    for k in range(COUNT - len(special)):
        row = _special("ordinary", [chance.choice(_WORDS) for _ in range(chance.randint(1, 8))])
        result.append(replace(row, id=f"r{k}", given={"verb": chance.randrange(len(row.tokens))}))
    for k, row in enumerate(special):
        result.insert(5 + 20 * k, row)
    # Ids that are the number of a later row without an id, among all rows and among those that can be labelled.
    clash = [k for k, row in enumerate(result) if row.kind == "no id"][2]
    numbers = iter([clash, sum(row.kind not in UNTYPED for row in result[:clash])])
    return [replace(row, id=next(numbers, row.id)) if row.kind == "number as id" else row for row in result]


ROWS = _rows()

# ---- models and rules -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model and rules, and the rows that are sent."""

    name: str
    rules: tuple[str, ...] = ()
    on_infeasible: str = "relax"
    columns: tuple[str, ...] = ("word",)
    given: bool = False  # do values come with the rows?
    bad: tuple[str, ...] = ("null token",)  # kinds of rows that cannot be labelled
    ordinary: int = 60  # rows of this kind

    @cached_property
    def rows(self) -> dict[int, Row]:
        """The rows that are sent, by their numbers in ROWS. Where bad rows are not looked at, a row is ordinary."""
        result: dict[int, Row] = {}
        ordinary = 0
        for k, row in enumerate(ROWS):
            row = replace(row, kind="ordinary") if row.kind in BAD and row.kind not in self.bad else row
            ordinary += row.kind == "ordinary"
            is_typed = isinstance(row.tokens, list) and all(isinstance(token, str) for token in row.tokens)
            if row.kind != "ordinary" or (ordinary <= self.ordinary and is_typed):
                result[k] = row
        return result

    def columns_of(self, row: Row) -> dict[str, Any]:
        """The columns of a row, as the model calls them."""
        both = {"word": row.tokens, "pos": row.pos}
        return {name: both[name] for name in self.columns if both[name] is not NONE}

    def x(self, row: Row) -> Any:
        """A row as models take it."""
        return row.tokens if len(self.columns) == 1 else self.columns_of(row)

    def given_of(self, row: Row) -> dict[str, Any]:
        """The values that come with a row."""
        return row.given if self.given and row.given is not NONE else {}

    def record(self, row: Row) -> dict[str, Any]:
        """A row as a JSON object."""
        record = {} if row.id is NONE else {"id": row.id}
        record["tokens"] = row.tokens
        record |= {name: values for name, values in self.columns_of(row).items() if name != "word"}
        return record | ({"given": row.given} if self.given and row.given is not NONE else {})


CASES = {
    case.name: case
    for case in (
        Case("plain", bad=tuple(UNTYPED), ordinary=COUNT),
        Case("relax", _RULES),
        Case("skip", _RULES, "skip"),
        Case("raise", _RULES, "raise"),
        Case("given", (*_RULES, _GIVEN), given=True, bad=("null token", *OF_GIVEN)),
        Case("columns", columns=("word", "pos"), bad=("null token", *OF_COLUMNS)),
    )
}


@cache
def model_of(columns: tuple[str, ...]) -> bridle.CRF:
    """A small model of people and places."""
    sentences = [[word.split("/") for word in text.split()] for text in _TRAIN * 3]
    X = [[word for word, _ in sentence] for sentence in sentences]
    y = [[label for _, label in sentence] for sentence in sentences]
    features = ["word[0]", "word[-1]", "word[1]", "suffix2[0]", "shape[0]", "label[-1]"]
    if len(columns) == 1:
        return bridle.CRF(features=features, c2=0.1).fit(X, y)
    both = [{"word": x, "pos": ["N" if word[0].isupper() else "V" for word in x]} for x in X]
    return bridle.CRF(features=[*features, "pos[0]"], c2=0.1).fit(both, y)


@dataclass(frozen=True)
class Setting:
    """A case with a folder, in which the files of a route are written."""

    case: Case
    folder: Path

    @property
    def model(self) -> bridle.CRF:
        """The model."""
        return model_of(self.case.columns)

    @property
    def decoder(self) -> bridle.Decoder:
        """The rules."""
        return self.model.decoder(self.case.rules, on_infeasible=self.case.on_infeasible)

    @property
    def file(self) -> Path:
        """The file of the model."""
        path = self.folder / f"{'_'.join(self.case.columns)}.bridle"
        if not path.exists():
            self.model.save(path)
        return path

    @property
    def rules(self) -> Path:
        """The file of the rules."""
        path = self.folder / f"{self.case.name}.rules"
        path.write_text("\n".join(self.case.rules) + "\n")
        return path


# ---- results --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """The report of a route about a row. NONE: it does not say it; None: there is none."""

    labels: Any = NONE
    status: Any = NONE
    score: Any = NONE
    k_best: Any = NONE  # [(labels, score)]
    probabilities: Any = NONE  # of the label of each token
    spans: Any = NONE  # [(first token, the one behind the last, type)]
    span_probabilities: Any = NONE
    id: Any = NONE
    error: Any = NONE  # the name of its class
    message: Any = NONE  # what is wrong, without the place


FIELDS = [field.name for field in fields(Result)]
OUTCOME = frozenset({"labels", "status", "error", "message"})


def failed(error: str, message: Any = NONE, **more: Any) -> Result:
    """A row without labels because of an error."""
    nothing = dict.fromkeys(("labels", "score", "k_best", "probabilities", "spans", "span_probabilities"))
    return Result(**{**nothing, "status": "error", "error": error, "message": message, **more})


# The class that a message stands for, where a route tells nothing but the message.
_CLASSES = (
    (r"a token .*(is null|is not a string)|.* is null|templates cannot be applied|the columns differ|", "FeatureError"),
    (r"there is no column|the table has no column|tokens are not a list of strings", "FeatureError"),
    (r"given\['\w+'\] is missing", "GivenError"),
    (r"given\['\w+'\] (should be|names position)", "RuleError"),
    (r"no labelling obeys", "Infeasible"),
)
_CODES = {"features": "FeatureError", "given": "GivenError", "rule": "RuleError", "infeasible": "Infeasible"}


def class_of(message: str) -> str:
    """The class of the error with this message; the message itself if it is none of the known ones."""
    return next((name for form, name in _CLASSES if re.match(f"({form.rstrip('|')})", message)), message[:60])


def without_place(text: str) -> str:
    """Return the first part of a message: the fault, without the place that it begins with and without what was got."""
    line = text.strip().split("\n")[0].removeprefix("bridle: ")
    return re.sub(r"^(?:(?:(?:/[^:]*|-|<stdin>)(?::\d+)?|row \d+|sequence \d+): )*", "", line).split("; got ")[0]


class RefusedError(Exception):
    """A route that has failed and says so in words."""

    def __init__(self, text: str, name: str | None = None) -> None:
        self.text = without_place(text)
        self.name = name or class_of(self.text)
        super().__init__(self.text)


def failure_of(error: Exception) -> Result:
    """Turn an exception into a result of the first row that is at fault."""
    if isinstance(error, RefusedError):
        name, text = error.name, error.text
    else:
        name, text = type(error).__name__, without_place(str(error))
    return failed(name, text, status="infeasible" if name == "Infeasible" else "error")


# ---- the reference --------------------------------------------------------------------------------------------------


@cache
def reference(name: str, features: bool) -> dict[int, Result]:
    """Compute the result that every route should have, row by row and without any route; by the number in ROWS.

    features: of the model over ready-made features.
    """
    case = CASES[name]
    model = feature_model() if features else model_of(case.columns)
    decoder = model.decoder(case.rules)
    lenient = model.decoder(case.rules, on_infeasible=case.on_infeasible)
    result = {}
    for k, row in case.rows.items():
        if features and LACKS["rows without scores"](row):
            continue
        x, given = _features(row.tokens) if features else case.x(row), {"tokens": row.tokens, **case.given_of(row)}
        try:
            lattice = model.lattice(x)
            item = _decoded(lenient, lattice, given)
            if isinstance(item, Result):
                result[k] = item
                continue
            spans = [tuple(segment) for segment in model.labels_.segments(item.labels)]
            best = sums = chances = None
            if not item.relaxed:
                best = [(rank.labels, rank.score) for rank in decoder.k_best(lattice, K, given)]
                sums = decoder.marginals(lattice, given)[np.arange(len(item)), item.ids].tolist()
                parts = [Segment(*span) for span in spans]
                chances = segment_probabilities(decoder, lattice, item.labels, parts, given)
            best = best or [(item.labels, item.score)]  # of a relaxed one: itself
            built = Result(item.labels, item.status, item.score, best, sums, spans, chances, error=None, message=None)
        except BridleError as error:
            built = failure_of(_wanted(row, case, error))
        result[k] = built
    return result


def _decoded(decoder: bridle.Decoder, lattice: bridle.Lattice, given: Mapping[str, Any]) -> Any:
    """The labelling; a Result if there is none."""
    try:
        decoding = decoder.decode(lattice, given)
    except bridle.Infeasible as error:
        return failure_of(error)
    if decoding.status == "infeasible":  # skipped: some routes say why, others do not
        return failed(NONE, status="infeasible")
    return decoding


def _wanted(row: Row, case: Case, error: BridleError) -> BridleError:
    """The error that all routes should have. Nulls are named."""
    nulls = [name for name, column in case.columns_of(row).items() if isinstance(column, list) and None in column]
    if not nulls:
        return error
    return FeatureError(f"a token in {nulls[0]!r} is null", got="null", wanted="a string, which may be empty")


# ---- the comparison -------------------------------------------------------------------------------------------------

Run = Callable[[Setting, Sequence[Row]], list[Result]]


@dataclass(frozen=True)
class Route:
    """A way from rows to labels."""

    name: str
    run: Run
    tells: frozenset[str]  # fields of `Result`
    lacks: tuple[str, ...] = ()  # rows that it cannot carry: names of LACKS
    cases: tuple[str, ...] = ("plain", "relax", "skip", "raise")
    bad: str = "value"  # what it does with a bad row; "raise": it raises the error of the first one
    digits: int | None = None  # to which it rounds probabilities
    features: bool = False  # is it about the model over ready-made features?
    one_of_each: bool = False  # is it called once per row, so that it gets only one row of each kind?

    def __str__(self) -> str:
        return self.name


def _texts(row: Row) -> list[str]:
    """All strings of a row."""
    return [text for text in row.tokens if isinstance(text, str)] if isinstance(row.tokens, list) else []


# Rows that some formats cannot have.
LACKS: dict[str, Callable[[Row], bool]] = {
    "rows without tokens": lambda row: row.tokens == [],
    "other types than strings in lists": lambda row: row.kind in ("number token", "string row", "nested row"),
    "nulls": lambda row: row.kind in ("null row", "null token", "null in column"),
    "tokens with blanks": lambda row: any(text.split() != [text] for text in _texts(row)),
    "tokens of nothing but blanks": lambda row: any(text.isspace() for text in _texts(row)),
    "empty tokens": lambda row: "" in _texts(row),
    "rows that lack a column": lambda row: row.kind in OF_COLUMNS,
    "rows without scores": lambda row: row.kind in (*UNTYPED, *OF_COLUMNS),
    "NUL": lambda row: any("\0" in text for text in _texts(row)),
}
WORDS_ONLY = ("rows without tokens", "other types than strings in lists", "nulls", "tokens with blanks", "empty tokens")


class Outcome(NamedTuple):
    """Differences between a route and the reference."""

    differences: dict[tuple[str, str], str]  # by kind and field: wanted and got
    compared: int
    left_out: dict[str, int]  # by the reason


def compare(route: Route, case: Case, folder: Path) -> Outcome:
    """Send the rows of a case over a route, and compare what comes back with the reference."""
    wanted, rows = reference(case.name, route.features), case.rows
    sent: list[int] = []
    left_out: dict[str, int] = {}
    kinds = set[str]()
    for k, row in case.rows.items():
        reason = next((name for name in route.lacks if LACKS[name](row)), None)
        repeated = row.kind in kinds and (route.one_of_each or (route.bad == "raise" and _is_bad(wanted[k])))
        reason = reason or ("one row of each kind is enough" if repeated else None)
        if reason is not None:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        kinds.add(row.kind)
        sent.append(k)
    differences: dict[tuple[str, str], str] = {}
    setting = Setting(case, folder)
    for numbers, results in _parts(route, setting, sent, wanted, differences):
        assert len(numbers) == len(results), f"{len(results)} results for {len(numbers)} rows"
        for place, (k, result) in enumerate(zip(numbers, results, strict=True)):
            for field, both in _different(route, rows[k], place, wanted[k], result):
                differences.setdefault((rows[k].kind, field), both)
    return Outcome(differences, len(sent), left_out)


def _is_bad(result: Result) -> bool:
    return result.error not in (None, NONE)


def _parts(
    route: Route,
    setting: Setting,
    sent: list[int],
    wanted: Mapping[int, Result],
    differences: dict[tuple[str, str], str],
) -> Iterable[tuple[list[int], list[Result]]]:
    """The rows as they are sent together, with what comes back.

    Where the contract is to raise, each bad row is sent between two others. If the rows cannot be sent together
    although they should, that is a difference; then all rows of a kind are sent together.
    """
    rows = setting.case.rows
    good = [k for k in sent if not _is_bad(wanted[k])]
    alone = [k for k in sent if route.bad == "raise" and _is_bad(wanted[k])]
    together = [k for k in sent if k not in set(alone)]
    try:
        yield together, route.run(setting, [rows[k] for k in together])
    except Exception as error:
        name = "some good rows" if route.bad == "raise" else "some bad rows"
        groups: dict[str, list[int]] = {}
        for k in together:
            groups.setdefault(rows[k].kind, []).append(k)
        differences[name, "together"] = (
            f"wanted results for all rows, got {failure_of(error).error}: {str(error)[:100]!r}"
        )
        for numbers in groups.values():
            try:
                yield numbers, route.run(setting, [rows[k] for k in numbers])
            except Exception as error:
                yield numbers, [failure_of(error)] * len(numbers)
    for k in alone:
        try:
            results = route.run(setting, [rows[good[0]], rows[k], rows[good[-1]]])
        except Exception as error:
            yield [k], [failure_of(error)]
        else:
            yield [k], [replace(results[1], id=NONE)]


def _different(route: Route, row: Row, place: int, wanted: Result, result: Result) -> Iterable[tuple[str, str]]:
    """The fields in which two results differ. A route must report every field that it claims to report."""
    if _is_bad(result) != _is_bad(wanted) and NONE not in (result.error, wanted.error):  # then everything differs
        what = f"{result.error}: {result.message}" if _is_bad(result) else f"{result.status} {_short(result.labels)}"
        yield "error", f"wanted {wanted.error or wanted.status}, got {what}"
        return
    for field in FIELDS:
        a, b = getattr(wanted, field), getattr(result, field)
        if field == "id" and field in route.tells:
            a = str(place if row.id is NONE else row.id)
        if field not in route.tells and field not in OUTCOME:
            assert b in (NONE, None), f"{route} tells {field}, which is not in its table"
            continue
        if b is NONE:
            refused = _is_bad(wanted) or _is_bad(result)
            assert field not in route.tells or refused, f"{route} does not tell {field} of {row.kind}"
            continue
        if a is NONE:
            continue
        if field in ("spans", "span_probabilities") and not wanted.spans and "status" not in route.tells:
            a = []  # a text without an answer has no spans, and nothing else says so
        if field in ("probabilities", "span_probabilities") and a is not None and route.digits is not None:
            a = [round(p, route.digits) for p in a]
        if field == "message" and (row.kind not in WORDED or result.error != wanted.error):
            continue
        if field == "message" and a is not None:
            a, b = (str(text).replace("'word'", "'tokens'") for text in (a, b))
        if a != b:
            yield field, f"wanted {_short(a)}, got {_short(b)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:160]}... ({len(text)})"


# ---- routes of the library ------------------------------------------------------------------------------------------


def _told(decodings: bridle.Decodings) -> list[Result]:
    return [
        Result(decoding.labels, decoding.status, decoding.score, error=None, message=None)
        if decoding.unanswered is None
        else failed(NONE, status=decoding.status, labels=None)
        for decoding in decodings
    ]


def _givens(case: Case, rows: Sequence[Row]) -> list[dict[str, Any]] | None:
    return [case.given_of(row) for row in rows] if case.given else None


def predict(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Predictor.predict."""
    case = setting.case
    X, options = [case.x(row) for row in rows], {"on_infeasible": case.on_infeasible}
    result = setting.model.predict(X, case.rules, given=_givens(case, rows), **options)
    empty = [None if not labels and row.tokens else labels for labels, row in zip(result, rows, strict=True)]
    return [Result(labels) for labels in empty]


def decode(threads: int) -> Run:
    """Predictor.decode."""

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        case = setting.case
        X = [case.x(row) for row in rows]
        return _told(setting.model.decode(X, setting.decoder, given=_givens(case, rows), threads=threads))

    return run


def decode_batch(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Decoder.decode_batch of the scores of all rows."""
    case, model, decoder = setting.case, setting.model, setting.decoder
    X = [case.x(row) for row in rows]
    return _told(decoder.decode_batch(model.lattices(X), model.given(X, decoder, _givens(case, rows))))


# ---- Arrow ----------------------------------------------------------------------------------------------------------


def table_of(case: Case, rows: Sequence[Row], *, ids: bool = True) -> pa.Table:
    """Rows as a table; values for rules as JSON."""
    texts = pa.list_(pa.string())
    columns: dict[str, Any] = {}
    if ids:
        columns["id"] = pa.array([None if row.id is NONE else str(row.id) for row in rows], pa.string())
    columns["tokens"] = pa.array([row.tokens for row in rows], texts)
    if "pos" in case.columns:
        columns["pos"] = pa.array([None if row.pos is NONE else row.pos for row in rows], texts)
    if case.given:
        given = [None if row.given is NONE else json.dumps(row.given) for row in rows]
        columns["given"] = pa.array(given, pa.string())
    return pa.table(columns)


def lists_of(case: Case, rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as lists, with whatever is in them."""
    columns = {"tokens": [row.tokens for row in rows]}
    if "pos" in case.columns:
        columns["pos"] = [None if row.pos is NONE else row.pos for row in rows]
    if case.given:
        columns["given"] = [None if row.given is NONE else json.dumps(row.given) for row in rows]
    return columns


def of_columns(rows: Iterable[Mapping[str, Any]], **more: Callable[[Mapping[str, Any]], Any]) -> list[Result]:
    """Results from the columns of `Tag` and `Decode`."""
    return [_of_column(row, more) for row in rows]


def _of_column(row: Mapping[str, Any], more: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Result:
    output: dict[str, Any] = {"status": row["status"]}
    output |= {name: row[name] for name in ("labels", "score", "probabilities") if name in row}
    for name in ("labels", "probabilities"):  # Ray and pandas have arrays
        if output.get(name) is not None and name in output:
            output[name] = list(output[name])
    if "k_best" in row:
        best = row["k_best"]
        output["k_best"] = (
            None if best is None else [(list(labelling["labels"]), labelling["score"]) for labelling in best]
        )
    if "spans" in row:
        spans = row["spans"]
        output["spans"] = None if spans is None else [(span["start"], span["end"], span["label"]) for span in spans]
    output |= {name: get(row) for name, get in more.items()}
    message = row["error"]
    if message is None:
        return Result(**output, error=NONE if row["status"] == "infeasible" else None, message=NONE)
    text = without_place(message)
    return Result(**output, error=class_of(text), message=text)


def tag_of(setting: Setting, **options: Any) -> Tag:
    """The rules and the model as a function of tables."""
    case = setting.case
    return Tag(setting.model, case.rules, on_infeasible=case.on_infeasible, **{"scores": True, "k": K, **options})


def arrow_table(threads: int, **options: Any) -> Run:
    """Tag of a table in several chunks."""

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        built, case = tag_of(setting, threads=threads, **options), setting.case
        parts = [table_of(case, rows[low : low + 300], ids=False) for low in range(0, len(rows), 300)]
        records = built(pa.concat_tables(parts)).to_pylist()
        if options.get("output") != "ids":
            return of_columns(records)
        names = built.labels.names
        return of_columns(records, labels=lambda row: None if row["ids"] is None else [names[k] for k in row["ids"]])

    return run


def arrow_batch(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Tag of a record batch; labels only."""
    [batch] = table_of(setting.case, rows, ids=False).to_batches()
    return of_columns(tag_of(setting, scores=False, k=1)(batch).to_pylist())


def arrow_lists(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Tag of a dict of lists."""
    result = tag_of(setting)(lists_of(setting.case, rows))
    return of_columns([dict(zip(result, values, strict=True)) for values in zip(*result.values(), strict=True)])


def arrow_raise(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Tag with on_error="raise"."""
    return of_columns(tag_of(setting, on_error="raise")(table_of(setting.case, rows, ids=False)).to_pylist())


def arrow_text(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Tag of texts, which it splits; where spans are in them."""
    texts = [" ".join(row.tokens) for row in rows]
    records = tag_of(setting, output="spans")(pa.table({"text": texts})).to_pylist()
    placed = [
        {**record, "spans": _placed(row, [(x["start_char"], x["end_char"], x["label"]) for x in record["spans"] or ()])}
        if record["spans"] is not None
        else record
        for record, row in zip(records, rows, strict=True)
    ]
    keys = ("start", "end", "label")
    as_before = [
        {**item, "spans": None if item["spans"] is None else [dict(zip(keys, x, strict=True)) for x in item["spans"]]}
        for item in placed
    ]
    return of_columns(as_before)


def _placed(row: Row, spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Spans of characters of the text of a row as spans of its tokens."""
    begins, ends, at = {}, {}, 0
    for t, token in enumerate(row.tokens):
        begins[at], ends[at + len(token)] = t, t + 1
        at += len(token) + 1
    return [(begins[start], ends[end], label) for start, end, label in spans]


def arrow_decode(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """Decode of a column of scores."""
    case = setting.case
    lattices = [setting.model.lattice(case.x(row)) for row in rows]
    head = next(lattice for lattice in lattices if len(lattice))
    built = Decode(
        case.rules,
        setting.model.labels_,
        pairwise=head.pairwise,
        start=head.start,
        end=head.end,
        scores=True,
        k=K,
        on_infeasible=case.on_infeasible,
    )
    unary = pa.array([lattice.unary.tolist() for lattice in lattices], pa.list_(pa.list_(pa.float64())))
    table = table_of(case, rows, ids=False).append_column("scores", unary)
    return of_columns(built(table).to_pylist())


# ---- the command line -----------------------------------------------------------------------------------------------

_CLI = Cli()
_ENDINGS = {"json": "jsonl", "jsonl": "jsonl", "parquet": "parquet", "arrow": "arrow", "conll": "conll", "csv": "csv"}


def write(case: Case, rows: Sequence[Row], format: str, path: Path) -> Path:
    """Write rows into a file of a format."""
    if format == "jsonl":
        path.write_text("".join(json.dumps(case.record(row), ensure_ascii=False) + "\n" for row in rows), newline="")
    elif format == "parquet":
        pq.write_table(table_of(case, rows), path, row_group_size=500)
    elif format == "arrow":
        table = table_of(case, rows)
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=500)
    elif format == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(case.columns)
            for row in rows:
                table.writerows(zip(*case.columns_of(row).values(), strict=True))
                table.writerow([])
    elif format == "conll":
        lines = (
            "\t".join(values) for row in rows for values in (*zip(*case.columns_of(row).values(), strict=True), ())
        )
        path.write_text("\n".join(lines) + "\n", newline="", encoding="utf-8")
    else:
        path.write_text("".join(" ".join(row.tokens) + "\n" for row in rows), newline="", encoding="utf-8")
    return path


def call(*words: object, **more: Any) -> Any:
    """A command that must succeed, perhaps with rows that need a look."""
    completed = _CLI(*words, **more)
    if completed.exception is not None and not isinstance(completed.exception, SystemExit):
        raise completed.exception
    if completed.exit_code not in (0, 1):
        stderr = [
            line for line in completed.stderr.splitlines() if line.startswith("bridle: ") and " kept in " not in line
        ]
        raise RefusedError(
            stderr[-1] if stderr else completed.output, "Infeasible" if completed.exit_code == 3 else None
        )
    return completed


def _options(setting: Setting) -> list[object]:
    rules = ["--rules", setting.rules] if setting.case.rules else []
    return [*rules, "--on-infeasible", setting.case.on_infeasible]


def of_json(line: str, *, ids: bool = True) -> Result:
    """A line of what `bridle tag` writes as JSON."""
    record = json.loads(line)
    labels = record["labels"]
    output: dict[str, Any] = {"id": str(record["id"])} if ids else {}
    if "probabilities" in record:
        output["probabilities"] = record["probabilities"]
    if "status" in record:  # in shards
        if (text := record.get("error")) is None:
            error: dict[str, Any] = {"error": NONE if record["status"] == "infeasible" else None}
        else:
            error = {"error": class_of(without_place(text)), "message": without_place(text)}
        return Result(labels, record["status"], **output, **error)
    if labels is None:
        return Result(None, "infeasible" if "clash" in record else "nothing_found", None, None, **output)
    if "k_best" in record:
        output["k_best"] = [(labelling["labels"], labelling["score"]) for labelling in record["k_best"]]
    status = "relaxed" if record.get("relaxed") else "optimal" if record["optimal"] else "limit"
    return Result(labels, status, record["score"], **output)


def _how(case: Case, source: str) -> list[object]:
    """Options that say how the input is read."""
    if source == "text":
        return ["--format", "text", "--option", "tokens=blanks"]
    return ["--format", "conll", "--columns", ",".join((*case.columns, "label"))] if source == "conll" else []


def tag_command(source: str, to: str, place: str, *more: object, ids: bool = True) -> Run:
    """`bridle tag`. source: format of the input; to: of the output; place: from where to where, as in the table."""

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        case, folder = setting.case, setting.folder / f"{place} {source} {to}".replace(" ", "_")
        folder.mkdir(exist_ok=True)
        ending, out = _ENDINGS.get(to, to), folder / f"out.{_ENDINGS.get(to, to)}"
        data: list[object] = [write(case, rows, source, folder / f"in.{_ENDINGS.get(source, 'txt')}")]
        stdin = None
        if place.startswith("stdin"):
            stdin, data = data[0].read_bytes(), ["-"]
        elif place.startswith("gz"):
            packed = Path(f"{data[0]}.gz")
            packed.write_bytes(gzip.compress(data[0].read_bytes(), 1))
            data, out = [packed], Path(f"{out}.gz")
        elif place.startswith("folder"):
            inside = folder / "in"
            inside.mkdir(exist_ok=True)
            cut = len(rows) // 2
            for k, some in enumerate((rows[:cut], rows[cut:])):
                write(case, some, source, inside / f"{k}.{_ENDINGS[source]}")
            data = [inside]
        words: list[object] = ["tag", setting.file, *data, *_how(case, source), *_options(setting), *more]
        words += ["--json"] if to == "json" else ["--to", to]
        if place.endswith("stdout"):
            return _read(case, to, call(*words, stdin=stdin).stdout.encode(), rows, ids)
        if place.endswith("shards"):
            _empty(folder / "out")
            call(*words, "--on-error", "row", "-o", f"{folder / 'out'}/")
            parts = sorted((folder / "out").glob("part-*"))
            assert parts and all(part.name.endswith(ending) for part in parts)
            data_of = [part.read_bytes() for part in parts]
            return _read(case, to, data_of if to in ("parquet", "arrow") else b"".join(data_of), rows, ids)
        call(*words, "-o", out)
        content = gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes()
        return _read(case, to, content, rows, ids)

    return run


def _empty(folder: Path) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _read(case: Case, to: str, content: Any, rows: Sequence[Row], ids: bool) -> list[Result]:
    """Read the output of a command."""
    if to in ("json", "jsonl"):
        return [of_json(line, ids=ids) for line in content.decode().removesuffix("\n").split("\n")]
    if to in ("parquet", "arrow"):
        read = pq.read_table if to == "parquet" else (lambda file: pa.ipc.open_file(file).read_all())
        parts = [read(io.BytesIO(part)) for part in (content if isinstance(content, list) else [content])]
        return [_of_row(row, ids) for part in parts for row in part.to_pylist()]
    if to == "conll":
        sequences = content.decode().removesuffix("\n\n").removesuffix("\n").split("\n\n")
        return [Result(_answered([line.split("\t")[-1] for line in sentence.split("\n")])) for sentence in sequences]
    if to == "csv":
        return [Result(_answered(labels)) for labels in _csv(content.decode())]
    assert to == "spans"
    result = []
    for line, row in zip(content.decode().splitlines(), rows, strict=True):
        spans = json.loads(line).get("spans") or []
        chances = [span.get("probability") for span in spans]
        chances = None if None in chances else chances
        result.append(
            Result(spans=_placed(row, [(x["start"], x["end"], x["label"]) for x in spans]), span_probabilities=chances)
        )
    return result


def _csv(text: str) -> list[list[str]]:
    result: list[list[str]] = [[]]
    for cells in list(csv.reader(io.StringIO(text, newline="")))[1:]:
        if cells:
            result[-1].append(cells[-1])
        else:
            result.append([])
    return result if result[-1] else result[:-1]


def _answered(labels: list[str]) -> list[str] | None:
    return None if labels and set(labels) == {"_"} else labels


def _of_row(row: Mapping[str, Any], ids: bool) -> Result:
    output = {"id": row.get("id")} if ids else {}
    if "status" not in row:
        return Result(_answered(row["labels"]), **output)
    [built] = of_columns([row])
    return replace(built, **output)


def eval_command(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """`bridle eval --model`: all gold labels are wrong, so that it shows all predicted ones."""
    path = setting.folder / "gold.jsonl"
    records = [{**setting.case.record(row), "labels": ["I-WRONG"] * len(row.tokens or ())} for row in rows]
    known = next(name for name in setting.model.labels_ if name != "O")  # gold without any known label is an error
    records.append({**setting.case.record(rows[0]), "labels": [known] * len(rows[0].tokens or ())})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    rules = ["--rules", setting.rules] if setting.case.rules else []
    words = ["eval", path, "--model", setting.file, *rules, "--wrong", len(records), "--json"]
    document = json.loads(call(*words).stdout)["wrong"]
    return [Result(item["predicted"]) for item in document[: len(rows)]]


def explain_command(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """`bridle explain`, one row after the other; it relaxes rules, and its alternatives are the next best."""
    path = write(setting.case, rows, "jsonl", setting.folder / "explain.jsonl")
    rules = ["--rules", setting.rules] if setting.case.rules else []
    result = []
    for k, _ in enumerate(rows):
        words = ["explain", setting.file, path, *rules, "--sequence", k, "--json", "--k", K]
        completed = _CLI(*words)
        if not completed.stdout:
            raise RefusedError(completed.stderr)
        record = json.loads(completed.stdout)
        best = record["best"]
        result.append(Result(best["labels"], "relaxed" if best.get("relaxed") else "optimal", best["score"]))
    return result


def files(source: str, to: str, *, resume: bool = False, shards: bool = True) -> Run:
    """`bridle.bulk.tag_files`; resume: it is stopped on the way, and goes on."""

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        case, folder = setting.case, setting.folder / f"files_{source}_{to}_{resume}"
        folder.mkdir(exist_ok=True)
        path, out = write(case, rows, source, folder / f"in.{source}"), folder / ("out" if shards else f"out.{to}")
        _empty(out)
        options: dict[str, Any] = {"to": to, "rules": case.rules, "on_infeasible": case.on_infeasible, "resume": shards}
        if resume:
            options["shard_size"] = ShardSize(rows=100)
            with suppress(KeyboardInterrupt):
                tag_files(setting.model, path, out, progress=_stop_after(250), **options)
        tag_files(setting.model, path, out, **options)
        parts = sorted(out.glob("part-*")) if shards else [out]
        if to == "jsonl":
            return _read(case, to, b"".join(part.read_bytes() for part in parts), rows, True)
        return _read(case, to, [part.read_bytes() for part in parts], rows, True)

    return run


def _stop_after(rows: int) -> Callable[[Any], None]:
    def tell(progress: Any) -> None:
        if progress.rows >= rows:
            raise KeyboardInterrupt

    return tell


# ---- the HTTP service -----------------------------------------------------------------------------------------------


def client_of(setting: Setting) -> Client:
    """A server with the rules of the case, and without limits that a row exceeds."""
    own = RuleText.from_text("\n".join(setting.case.rules) + "\n", setting.model.labels_)
    limits = Limits(token_characters=200_000, body_bytes=40_000_000, seconds=60)
    return Client(Service(setting.model, "routes", own, {}, limits, split_as="blanks"))


def _answer(setting: Setting, path: str, body: Any) -> Any:
    answer = client_of(setting).post(path, body)
    if answer.status_code != 200:
        raise RefusedError(*_words(answer.json()["error"]))
    return answer.json()["results"]


def _words(error: Mapping[str, Any]) -> tuple[str, str]:
    """The message of an error, as the library words it, and its class."""
    rule = "" if error["rule"] is None else f" (in the rule: {error['rule']})"
    return error["what"] + rule, _CODES.get(error["code"], error["code"])


def _of_answer(item: Mapping[str, Any]) -> Result:
    error = item.get("error")
    output: dict[str, Any] = {"labels": item["labels"], "status": item["status"], "score": item["score"]}
    if error is not None:
        nothing = {
            name: None for name in ("labels", "k_best", "probabilities", "spans") if name in item or name == "labels"
        }
        text, name = _words(error)
        return Result(**{**output, **nothing, "error": name, "message": text})
    if "k_best" in item:
        output["k_best"] = [(best["labels"], best["score"]) for best in item["k_best"]]
    if "spans" in item:
        output["spans"] = [(span["start_token"], span["end_token"], span["label"]) for span in item["spans"]]
    if "probabilities" in item:
        output["probabilities"] = item["probabilities"]
    return Result(**output, error=None, message=None)


def post_tag(what: str) -> Run:
    """`POST /tag` with texts, tokens or columns."""

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        case = setting.case
        values = {
            "texts": lambda row: " ".join(row.tokens),
            "tokens": lambda row: row.tokens,
            "columns": case.columns_of,
        }
        body = {what: [values[what](row) for row in rows], "k": K, "probabilities": True, "spans": True}
        choice = {} if case.on_infeasible == "raise" else {"on_infeasible": case.on_infeasible}
        return [_of_answer(item) for item in _answer(setting, "/tag", {**body, **choice})]

    return run


def post_decode(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """`POST /decode` with the scores of the model."""
    case = setting.case
    lattices = [setting.model.lattice(case.x(row)) for row in rows]
    parts = [
        {
            name: None if values is None else values.tolist()
            for name, values in (("pairwise", x.pairwise), ("start", x.start), ("end", x.end), ("unary", x.unary))
        }
        for x in lattices
    ]
    sequences = [
        {**scores, "tokens": row.tokens, "given": case.given_of(row)} for scores, row in zip(parts, rows, strict=True)
    ]
    labels = setting.model.labels_
    body = {"labels": list(labels.names), "scheme": labels.scheme, "sequences": sequences, "k": K, "spans": True}
    answer = _answer(setting, "/decode", {**body, "on_infeasible": case.on_infeasible})
    return [_of_answer(item) for item in answer]


def post_predict(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """`POST /predict`, as Label Studio calls it."""
    tasks = [{"id": k, "data": {"text": " ".join(row.tokens)}} for k, row in enumerate(rows)]
    result = []
    for record, row in zip(_answer(setting, "/predict", {"tasks": tasks}), rows, strict=True):
        values = [region["value"] for region in record["result"]]
        spans = _placed(row, [(value["start"], value["end"], value["labels"][0]) for value in values])
        chances = [region.get("meta", {}).get("probability_with_rules") for region in record["result"]]
        result.append(Result(spans=spans, span_probabilities=None if None in chances else chances))
    return result


# ---- ready-made features --------------------------------------------------------------------------------------------


@cache
def feature_model() -> bridle.CRF:
    """A model over features that are computed elsewhere, in double precision, as those of CRFsuite are."""
    sentences = [[word.split("/") for word in text.split()] for text in _TRAIN * 3]
    X = [_features([word for word, _ in sentence]) for sentence in sentences]
    info = crfsuite.Tagger(
        bridle.CRF(c2=0.1).fit(X, [[label for _, label in sentence] for sentence in sentences])
    ).info()
    return crfsuite.from_weights(list(info.labels), info.state_features, info.transitions)


def _features(tokens: Sequence[str]) -> list[list[str]]:
    before = ["", *tokens]
    return [[f"w={token}", f"b={before[t]}", f"s={token[-2:]}"] for t, token in enumerate(tokens)]


def crfsuite_tagger(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    """`bridle.integrations.crfsuite.Tagger`, one row after the other."""
    case = setting.case
    tagger = crfsuite.Tagger(
        feature_model(),
        rules=case.rules,
        tokens=lambda xseq: [x[0].removeprefix("w=") for x in xseq],
        on_infeasible=case.on_infeasible,
    )
    return [_tagged(tagger, case, row) for row in rows]


def _tagged(tagger: crfsuite.Tagger, case: Case, row: Row) -> Result:
    try:
        labels = tagger.tag(_features(row.tokens), case.given_of(row))
    except BridleError as error:
        return failure_of(error)
    if not labels and row.tokens:
        return failed(NONE, status=NONE)
    try:
        sums = [tagger.marginal(label, t) for t, label in enumerate(labels)]
    except bridle.Infeasible:  # relaxed: there is nothing to sum over
        sums = None
    return Result(labels, probabilities=sums)


# ---- the table ------------------------------------------------------------------------------------------------------

_LABELS = frozenset({"labels"})
_BEST = frozenset({"labels", "status", "score"})
_ALL = frozenset({"labels", "status", "score", "k_best", "probabilities"})
_ROWS = frozenset({"labels", "status", "id"})  # of shards, with the error as a text
_ARROW = ("other types than strings in lists",)
_CONLL = (*WORDS_ONLY, "NUL", "rows that lack a column")
_EVERY = tuple(CASES)
_LINES = ("plain", "relax", "skip", "raise", "given", "columns")
_SERVED = ("plain", "relax", "skip")
_TYPED = ("other types than strings in lists", "nulls")
_JSON = _ALL | {"id"}

ROUTES = [
    Route(
        "CRFsuite tagger",
        crfsuite_tagger,
        frozenset({"labels", "probabilities"}),
        ("rows without scores",),
        ("plain", "relax", "skip", "raise", "given"),
        features=True,
    ),
    Route("predict", predict, _LABELS, bad="raise", cases=_EVERY),
    Route("decode, 1 thread", decode(1), _BEST, bad="raise", cases=_EVERY),
    Route("decode, 2 threads", decode(2), _BEST, bad="raise", cases=_EVERY),
    Route("decode_batch", decode_batch, _BEST, bad="raise", cases=_EVERY),
    Route("Tag, table", arrow_table(1), _ALL, _ARROW, _EVERY),
    Route("Tag, table, 2 threads", arrow_table(2), _ALL, _ARROW, ("plain", "relax")),
    Route("Tag, table, ids", arrow_table(1, output="ids"), _ALL, _ARROW, ("relax", "skip")),
    Route("Tag, table, spans", arrow_table(1, output="spans"), _ALL - _LABELS | {"spans"}, _ARROW, ("skip",)),
    Route("Tag, record batch", arrow_batch, _LABELS | {"status"}, _ARROW, _EVERY),
    Route("Tag, dict of lists", arrow_lists, _ALL, (), _EVERY),
    Route("Tag, on_error=raise", arrow_raise, _ALL, _ARROW, ("plain", "raise", "given", "columns"), "raise"),
    Route("Tag, texts", arrow_text, _ALL - _LABELS | {"spans"}, WORDS_ONLY, ("plain", "relax", "skip", "raise")),
    Route("Decode", arrow_decode, _ALL, ("rows without scores",), ("relax", "skip", "raise", "given")),
    Route("tag_files, parquet to parquet", files("parquet", "parquet"), _ROWS, _ARROW, _EVERY),
    Route("tag_files, jsonl to jsonl", files("jsonl", "jsonl"), _ROWS, (), _EVERY),
    Route(
        "tag_files, arrow to arrow, resumed", files("arrow", "arrow", resume=True), _ROWS, _ARROW, ("plain", "relax")
    ),
    Route(
        "tag, jsonl, stdin to stdout, --k --scores",
        tag_command("jsonl", "json", "stdin to stdout", "--k", K, "--scores"),
        _JSON,
        cases=_LINES,
        bad="raise",
    ),
    Route("tag, jsonl, file to stdout", tag_command("jsonl", "json", "file to stdout"), _BEST | {"id"}, bad="raise"),
    Route(
        "tag, jsonl, file to file, --k --scores",
        tag_command("jsonl", "json", "file to file", "--k", K, "--scores"),
        _JSON,
        cases=("relax", "given"),
        bad="raise",
    ),
    Route(
        "tag, jsonl, gz to gz", tag_command("jsonl", "json", "gz to gz"), _BEST | {"id"}, cases=("plain",), bad="raise"
    ),
    Route(
        "tag, jsonl, folder to file",
        tag_command("jsonl", "json", "folder to file"),
        _BEST | {"id"},
        cases=("plain",),
        bad="raise",
    ),
    Route(
        "tag, parquet to jsonl, --k --scores",
        tag_command("parquet", "json", "file to stdout", "--k", K, "--scores"),
        _JSON,
        _ARROW,
        ("given", "columns"),
        "raise",
    ),
    Route(
        "tag, arrow to jsonl",
        tag_command("arrow", "json", "file to stdout"),
        _BEST | {"id"},
        _ARROW,
        ("plain",),
        "raise",
    ),
    Route(
        "tag, conll to jsonl",
        tag_command("conll", "json", "file to stdout", ids=False),
        _BEST,
        _CONLL,
        ("plain", "skip", "columns"),
        "raise",
    ),
    Route(
        "tag, csv to jsonl",
        tag_command("csv", "json", "file to stdout", ids=False),
        _BEST,
        _CONLL,
        ("plain", "columns"),
        "raise",
    ),
    Route(
        "tag, text to jsonl, --k --scores",
        tag_command("text", "json", "file to stdout", "--k", K, "--scores", ids=False),
        _ALL,
        _CONLL,
        ("relax",),
        "raise",
    ),
    Route(
        "tag, text to spans, --scores",
        tag_command("text", "spans", "stdin to stdout", "--scores"),
        frozenset({"spans", "span_probabilities"}),
        _CONLL,
        ("plain", "relax", "skip"),
        "raise",
        6,
    ),
    Route(
        "tag, conll to conll",
        tag_command("conll", "conll", "stdin to stdout"),
        _LABELS,
        _CONLL,
        ("plain", "relax", "skip", "raise"),
        "raise",
    ),
    Route(
        "tag, conll to conll file", tag_command("conll", "conll", "file to file"), _LABELS, _CONLL, ("plain",), "raise"
    ),
    Route(
        "tag, jsonl to parquet",
        tag_command("jsonl", "parquet", "file to file"),
        _LABELS | {"id"},
        (),
        ("plain", "skip", "columns"),
        "raise",
    ),
    Route(
        "tag, parquet to parquet",
        tag_command("parquet", "parquet", "file to file"),
        _LABELS | {"id"},
        _ARROW,
        ("plain", "given"),
        "raise",
    ),
    Route(
        "tag, parquet to arrow",
        tag_command("parquet", "arrow", "file to file"),
        _LABELS | {"id"},
        _ARROW,
        ("plain",),
        "raise",
    ),
    Route("tag, csv to csv", tag_command("csv", "csv", "file to file"), _LABELS, _CONLL, ("plain",), "raise"),
    Route(
        "tag, jsonl to parquet, --on-error raise",
        tag_command("jsonl", "parquet", "file to file", "--on-error", "raise"),
        _LABELS | {"id"},
        (),
        ("plain", "raise", "given", "columns"),
        "raise",
    ),
    Route(
        "tag, conll to conll file, --on-error raise",
        tag_command("conll", "conll", "file to file", "--on-error", "raise"),
        _LABELS,
        _CONLL,
        ("plain", "skip"),
        "raise",
    ),
    Route(
        "tag, parquet to parquet, --on-error row",
        tag_command("parquet", "parquet", "file to file", "--on-error", "row"),
        _LABELS | {"id"},
        _ARROW,
        ("plain",),
    ),
    Route("tag, jsonl to shards of jsonl", tag_command("jsonl", "jsonl", "file to shards"), _ROWS, (), _EVERY),
    Route(
        "tag, jsonl to shards of parquet",
        tag_command("jsonl", "parquet", "file to shards"),
        _ROWS,
        (),
        ("plain", "raise"),
    ),
    Route(
        "tag, parquet to shards of arrow",
        tag_command("parquet", "arrow", "file to shards"),
        _ROWS,
        _ARROW,
        ("plain", "given"),
    ),
    Route(
        "tag, folder to shards of parquet, --resume",
        tag_command("parquet", "parquet", "folder to shards", "--resume"),
        _ROWS,
        _ARROW,
        ("plain",),
    ),
    Route(
        "tag, conll to shards of conll",
        tag_command("conll", "conll", "file to shards"),
        _LABELS,
        _CONLL,
        ("plain", "skip"),
    ),
    Route(
        "tag, jsonl to shards, --on-error raise",
        tag_command("jsonl", "jsonl", "file to shards", "--on-error", "raise"),
        _ROWS,
        (),
        ("plain",),
        "raise",
    ),
    Route(
        "eval --model", eval_command, _LABELS, ("rows without tokens",), ("plain", "relax", "given", "columns"), "raise"
    ),
    Route("explain", explain_command, _BEST, ("rows without tokens",), ("given",), "raise", one_of_each=True),
    # a request whose lists have other types is refused as a whole: it does not fit the schema of the API
    Route("/tag, tokens", post_tag("tokens"), _ALL | {"spans"}, _TYPED, _SERVED),
    Route("/tag, columns", post_tag("columns"), _ALL | {"spans"}, _TYPED, ("columns",)),
    Route("/tag, texts", post_tag("texts"), _ALL | {"spans"}, WORDS_ONLY, _SERVED),
    Route(
        "/decode",
        post_decode,
        _BEST | {"k_best", "spans"},
        ("rows without scores",),
        ("plain", "relax", "skip", "given"),
    ),
    Route(
        "/predict", post_predict, frozenset({"spans", "span_probabilities"}), WORDS_ONLY, ("plain", "relax"), digits=6
    ),
]


# How many rows each route has compared, by the cases: nothing is left out unnoticed.
# COMPARED
COMPARED = {
    "CRFsuite tagger": {"plain": 1985, "relax": 110, "skip": 110, "raise": 110, "given": 119},
    "predict": {"plain": 1990, "relax": 111, "skip": 111, "raise": 109, "given": 114, "columns": 114},
    "decode, 1 thread": {"plain": 1990, "relax": 111, "skip": 111, "raise": 109, "given": 114, "columns": 114},
    "decode, 2 threads": {"plain": 1990, "relax": 111, "skip": 111, "raise": 109, "given": 114, "columns": 114},
    "decode_batch": {"plain": 1990, "relax": 111, "skip": 111, "raise": 109, "given": 114, "columns": 114},
    "Tag, table": {"plain": 1991, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "Tag, table, 2 threads": {"plain": 1991, "relax": 113},
    "Tag, table, ids": {"relax": 113, "skip": 113},
    "Tag, table, spans": {"skip": 113},
    "Tag, record batch": {"plain": 1991, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "Tag, dict of lists": {"plain": 2000, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "Tag, on_error=raise": {"plain": 1987, "raise": 109, "given": 114, "columns": 114},
    "Tag, texts": {"plain": 1973, "relax": 98, "skip": 98, "raise": 98},
    "Decode": {"relax": 110, "skip": 110, "raise": 110, "given": 119},
    "tag_files, parquet to parquet": {
        "plain": 1991,
        "relax": 113,
        "skip": 113,
        "raise": 113,
        "given": 122,
        "columns": 122,
    },
    "tag_files, jsonl to jsonl": {"plain": 2000, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "tag_files, arrow to arrow, resumed": {"plain": 1991, "relax": 113},
    "tag, jsonl, stdin to stdout, --k --scores": {
        "plain": 1990,
        "relax": 111,
        "skip": 111,
        "raise": 109,
        "given": 114,
        "columns": 114,
    },
    "tag, jsonl, file to stdout": {"plain": 1990, "relax": 111, "skip": 111, "raise": 109},
    "tag, jsonl, file to file, --k --scores": {"relax": 111, "given": 114},
    "tag, jsonl, gz to gz": {"plain": 1990},
    "tag, jsonl, folder to file": {"plain": 1990},
    "tag, parquet to jsonl, --k --scores": {"given": 114, "columns": 114},
    "tag, arrow to jsonl": {"plain": 1987},
    "tag, conll to jsonl": {"plain": 1970, "skip": 95, "columns": 95},
    "tag, csv to jsonl": {"plain": 1970, "columns": 95},
    "tag, text to jsonl, --k --scores": {"relax": 95},
    "tag, text to spans, --scores": {"plain": 1970, "relax": 95, "skip": 95},
    "tag, conll to conll": {"plain": 1970, "relax": 95, "skip": 95, "raise": 93},
    "tag, conll to conll file": {"plain": 1970},
    "tag, jsonl to parquet": {"plain": 1990, "skip": 111, "columns": 114},
    "tag, parquet to parquet": {"plain": 1987, "given": 114},
    "tag, parquet to arrow": {"plain": 1987},
    "tag, csv to csv": {"plain": 1970},
    "tag, jsonl to parquet, --on-error raise": {"plain": 1990, "raise": 109, "given": 114, "columns": 114},
    "tag, conll to conll file, --on-error raise": {"plain": 1970, "skip": 95},
    "tag, parquet to parquet, --on-error row": {"plain": 1991},
    "tag, jsonl to shards of jsonl": {
        "plain": 2000,
        "relax": 113,
        "skip": 113,
        "raise": 113,
        "given": 122,
        "columns": 122,
    },
    "tag, jsonl to shards of parquet": {"plain": 2000, "raise": 113},
    "tag, parquet to shards of arrow": {"plain": 1991, "given": 122},
    "tag, folder to shards of parquet, --resume": {"plain": 1991},
    "tag, conll to shards of conll": {"plain": 1970, "skip": 95},
    "tag, jsonl to shards, --on-error raise": {"plain": 1990},
    "eval --model": {"plain": 1987, "relax": 108, "given": 111, "columns": 111},
    "explain": {"given": 22},
    "/tag, tokens": {"plain": 1985, "relax": 110, "skip": 110},
    "/tag, columns": {"columns": 116},
    "/tag, texts": {"plain": 1973, "relax": 98, "skip": 98},
    "/decode": {"plain": 1985, "relax": 110, "skip": 110, "given": 119},
    "/predict": {"plain": 1973, "relax": 98},
    "pandas": {"plain": 2000, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "Polars": {"plain": 1991, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "datasets": {"plain": 1991, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "spaCy": {"plain": 1976, "relax": 101, "skip": 101, "raise": 101},
    "Spark": {"plain": 1991, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
    "Ray": {"plain": 1991, "relax": 113, "skip": 113, "raise": 113, "given": 122, "columns": 122},
}
# /COMPARED


def check(route: Route, case: Case, folder: Path) -> None:
    """Assert that a route differs from the reference where KNOWN_DIFFERENCES says so, and nowhere else."""
    result = compare(route, case, folder)
    known = {
        (kind, item.field)
        for item in KNOWN_DIFFERENCES
        if case.name in item.routes.get(route.name, "").split()
        for kind in item.kinds.split(", ")
    }
    new = {
        (kind, field): what
        for (kind, field), what in result.differences.items()
        if not known & {(kind, field), ("*", field)}
    }
    assert not new, f"{route.name}, {case.name}: new differences: {new}"
    seen = {*result.differences, *(("*", field) for _, field in result.differences)}
    assert known <= seen, f"{route.name}, {case.name}: remove it from KNOWN_DIFFERENCES: {known - seen}"
    assert result.compared == COMPARED[route.name][case.name], f"{result.compared} rows; left out: {result.left_out}"


# ---- routes that need other packages --------------------------------------------------------------------------------

_FRAMES = ("plain", "relax", "skip", "raise", "given", "columns")


def _not_here(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    raise NotImplementedError("the tests of the package say how")


# Their tests say how they run: tests/heavy/integrations/test_routes.py, tests/heavy/distributed/test_routes.py.
OTHER_ROUTES = [
    Route("pandas", _not_here, _ALL, (), _FRAMES),
    Route("Polars", _not_here, _ALL, _ARROW, _FRAMES),
    Route("datasets", _not_here, _ALL, _ARROW, _FRAMES),
    Route(
        "spaCy",  # which has no empty tokens, and does not label blanks
        _not_here,
        _BEST | {"probabilities"},
        ("rows without scores", "empty tokens", "tokens of nothing but blanks"),
        ("plain", "relax", "skip", "raise"),
    ),
    Route("Spark", _not_here, _ALL, _ARROW, _FRAMES),
    Route("Ray", _not_here, _ALL, _ARROW, _FRAMES),
]


def other(name: str, run: Run) -> Route:
    """A route of the table above, with the function of a test."""
    [route] = [route for route in OTHER_ROUTES if route.name == name]
    return replace(route, run=run)
