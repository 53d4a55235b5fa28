"""The base of `Tag` and `Decode`: functions of tables that work part by part, report faults by row, and share models.

table -> parts of bounded size -> blocks -> `tag` -> columns
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Self

import numpy as np

import bridle.models
from bridle.arrays import is_integer
from bridle.arrow.kinds import as_table
from bridle.data.tokenizer import Tokens, tokens_noted
from bridle.decoding.decoder import Decoder
from bridle.decoding.documents import cuts_of
from bridle.decoding.problem import Limits, bad_option
from bridle.decoding.threads import over_parts, thread_count
from bridle.errors import EngineError, FeatureError, FileError, GivenError, clipped, shown
from bridle.models import Tagger
from bridle.models.checks import templates_of
from bridle.recent import RecentCache
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules, load
from bridle.tagging import Block, tag
from bridle.tagging.arrow import OUTPUTS, Layout, Output, arrow, is_kind, is_object, is_texts, parts_of
from bridle.tagging.figures import figures_of, want_of
from bridle.tagging.labelling import Scorer

OnError = Literal["row", "raise"]
Rules = Rule | str | os.PathLike[str] | Iterable[Rule | str]
GIVEN = "given"  # the column of values that rules refer to by name
GROUPS = "groups:"  # the purpose of the column with documents
_NAMES = ("string", "large_string", "string_view", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))
_LIMITS = ("time_limit", "max_states", "max_memory")
_OPTIONS = ("engine", *_LIMITS, "on_infeasible")  # of Decoder


class TableFunction:
    """A function of Arrow tables that adds columns; `Tag` and `Decode` say where scores come from."""

    def __init__(
        self,
        rules: Rules,
        columns: str | Mapping[str, str] | None,
        output: Output,
        scores: bool,
        k: int,
        on_error: OnError,
        prefix: str,
        keep: Sequence[str] | None,
        threads: int,
        groups: str | None,
        options: Mapping[str, Any],
    ) -> None:
        self.rules = rules_of(rules)
        self.columns, self.keep = _columns(columns), None if keep is None else _names(keep)
        for name, value, words in (("output", output, OUTPUTS), ("on_error", on_error, ("row", "raise"))):
            if value not in words:
                raise bad_option(name, value, ", ".join(map(repr, words)))
        if not isinstance(scores, (bool, np.bool_)):
            cause = "It says whether to add scores; `columns` names the columns of the table."
            raise EngineError("invalid value of `scores`", got=shown(scores), wanted="True or False", cause=cause)
        if not is_integer(k, 1):
            raise bad_option("k", k, "an integer >= 1")
        if not isinstance(prefix, str):
            raise bad_option("prefix", prefix, "a string")
        if groups is not None and (not isinstance(groups, str) or scores or k > 1):
            wanted = "the name of a column, without scores and k"
            raise bad_option("groups", groups, wanted)
        thread_count(threads)
        self.groups = groups
        self.layout, self.k = Layout(output, figures_of(scores=bool(scores), k=k > 1), prefix), int(k)
        self.on_error, self.threads, self.options = on_error, int(threads), _checked_options(options)

    # ---- what Tag and Decode add ------------------------------------------------------------------------------------

    def _decoder(self) -> Decoder:
        raise NotImplementedError

    def _needed(self) -> list[str]:
        """List the columns to read, by the names that the model and the rules have for them; the main one first."""
        raise NotImplementedError

    def _usual(self, name: str) -> Sequence[str]:
        """Return names that tables use for a column besides its own."""
        return ()

    def _wanted(self, name: str, column: str, kind: Any) -> str | None:
        """The type that a column of the table should have if this type can never work."""
        return None if is_texts(kind) else "list<string>"

    def _block(self, arrays: Mapping[str, Any], inputs: Mapping[str, str]) -> Block:
        """Some rows as a block; what is wrong with a row is its error."""
        raise NotImplementedError

    def _scorer(self) -> Scorer | None:
        """The model; None if the rows have scores."""
        return None

    def _is_text(self, schema: Any) -> bool:
        """Check whether tokens come from a text, so that spans can say where they are in it."""
        return False

    def _inputs(self, schema: Any) -> dict[str, str]:
        """Return the columns to read, by their purpose; raise `FeatureError` if one is missing or cannot work."""
        needed, decoder = self._needed(), self._decoder()
        columns = {needed[0]: self.columns} if isinstance(self.columns, str) else self.columns or {}
        if unknown := [name for name in columns if name not in (*needed, GIVEN)]:
            raise FeatureError(
                f"nothing needs a column {unknown[0]!r}",
                got=f"columns={columns}",
                wanted=", ".join(map(repr, needed)),
                cause="Keys are names of the model or of rules, values are names of the table.",
            )
        inputs = {name: columns.get(name) or self._named(name, schema) for name in needed}
        if decoder.required_inputs - decoder.required_columns:
            inputs[GIVEN] = columns.get(GIVEN, GIVEN)
        if self.groups is not None:
            inputs[GROUPS] = self.groups
        for name, column in inputs.items():
            kind = field_of(schema, column).type
            if name == GROUPS:
                wanted = None if is_kind(kind, *_NAMES) else "a string or an integer per row, which names its document"
            elif name == GIVEN:
                wanted = None if is_object(kind) else "a struct, a map, or JSON as a string"
            else:
                wanted = self._wanted(name, column, kind)
            if wanted is not None:
                raise FeatureError(f"the column {column!r} has a wrong type", got=clipped(kind, 200), wanted=wanted)
        return inputs

    def _named(self, name: str, schema: Any) -> str:
        """The table's column of that name, or of a usual one."""
        return next((candidate for candidate in (name, *self._usual(name)) if candidate in schema.names), name)

    def check(self, schema: Any = None) -> Self:
        """Load the model, if there is one, and compile the rules, so that mistakes show before the work begins.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            The schema of the tables that will come; their columns are checked too.

        Returns
        -------
        self
            The same object.

        Raises
        ------
        FileError, ModelFileError
            If the model cannot be read.
        RuleError, EngineError
            If the rules make no sense for the labels, or an option does not.
        FeatureError
            If the schema lacks a column, or a column has a type that cannot work.
        """
        self._needed()
        if schema is not None:
            self._inputs(schema)
            self.schema(schema)
        return self

    # ---- tables -----------------------------------------------------------------------------------------------------

    def schema(self, schema: Any) -> Any:
        """Return the schema of the result.

        Parameters
        ----------
        schema : pyarrow.Schema
            The schema of the tables that go in.

        Returns
        -------
        pyarrow.Schema
            The columns of the table, or those of `keep`, and the new ones.

        Raises
        ------
        FeatureError
            If a column of `keep` is missing, or a new one has the name of a column that is there.
        """
        kept = list(schema) if self.keep is None else [field_of(schema, name) for name in self.keep]
        added = self.layout.fields(self._spans_have_chars(schema))
        taken = [field.name for field in added if field.name in {other.name for other in kept}]
        if taken:
            raise FeatureError(
                f"the table has a column {taken[0]!r} already",
                got=", ".join(map(repr, schema.names)),
                wanted="another name for the result",
                cause="Pass a prefix, such as prefix='bridle_', or keep=[...] without that column.",
            )
        return arrow().schema([*kept, *added], metadata=schema.metadata)

    def __call__(self, data: Any) -> Any:
        """Add columns to a table.

        Parameters
        ----------
        data : table or column
            Rows of any number: a ``pyarrow.RecordBatch`` or ``Table``, a data frame of pandas or Polars, a dict of
            lists, or anything else that `bridle.arrow.kinds.as_table` takes.

        Returns
        -------
        table
            The same kind, with the same rows in the same order and the columns of `schema`.

        Raises
        ------
        FeatureError
            If it is not a table; if it lacks a column, or a column has a type that cannot work; with
            ``on_error="raise"``, any error of a row.
        """
        needed = self._needed()
        columns = {needed[0]: self.columns} if isinstance(self.columns, str) else self.columns or {}
        known = {candidate for name in needed for candidate in (name, *self._usual(name))}
        main = columns.get(needed[0]) or (*self._usual(needed[0]), needed[0])[0]
        table, back = as_table(data, wanted={*known, *columns.values(), GIVEN, self.groups or GIVEN}, column=main)
        return back(self._completed(table))

    def _completed(self, data: Any) -> Any:
        """A batch or table of PyArrow with the new columns."""
        pa = arrow()
        schema, inputs = self.schema(data.schema), self._inputs(data.schema)
        chars = self._spans_have_chars(data.schema)
        whole = data.combine_chunks() if self.groups is not None and isinstance(data, pa.Table) else data
        parts = []
        for first, chunk in _batches(whole, inputs):
            ranges: Iterable[tuple[int, int]] = parts_of(next(iter(chunk.values())))
            if self.groups is not None:
                ranges = _whole_documents(ranges, chunk[GROUPS].to_pylist(), self.groups)
            parts += [(chunk, first + low, low, high) for low, high in ranges]

        def work(k: int, _high: int, _stop: Any) -> list[Any]:
            chunk, first, low, high = parts[k]
            arrays = {name: array.slice(low, high - low) for name, array in chunk.items()}
            return self._part(arrays, inputs, first, chars)

        results = over_parts(work, [(k, k + 1) for k in range(len(parts))], thread_count(self.threads))
        added = schema.names[len(schema.names) - len(self.layout.fields(False)) :]
        columns = list(data.columns) if self.keep is None else [data.column(name) for name in self.keep]
        for k, name in enumerate(added):
            pieces, kind = [part[k] for part in results], schema.field(name).type
            if isinstance(data, pa.Table):
                columns.append(pa.chunked_array(pieces, kind))
            else:
                columns.append(pieces[0] if len(pieces) == 1 else _joined(pieces or [pa.array([], kind)]))
        return type(data).from_arrays(columns, schema=schema)

    def _spans_have_chars(self, schema: Any) -> bool:
        return self.layout.output == "spans" and self._is_text(schema)

    def _part(self, arrays: dict[str, Any], inputs: Mapping[str, str], first: int, chars: bool) -> list[Any]:
        """The new columns of some rows, which are numbered from `first`."""
        decoder, layout = self._decoder(), self.layout
        want = want_of(layout.figures)
        groups = arrays.pop(GROUPS, None)
        block = self._block(arrays, inputs)
        if groups is not None:
            block = replace(block, groups=groups.to_pylist())
        outcomes = tag(block, self._scorer(), decoder, want=want, k=self.k)
        if self.options["on_infeasible"] == "raise":  # rows without labels say why
            for row, unanswered in outcomes.decodings.unanswered.items():
                outcomes.errors.setdefault(row, unanswered.error)
        if outcomes.errors and self.on_error == "raise":
            row, error = min(outcomes.errors.items(), key=lambda pair: pair[0])
            error.sequence = first + row
            raise error.at(where=f"row {first + row}")
        return layout.arrays(outcomes, chars)

    def _decoder_options(self) -> dict[str, Any]:
        """The options of the decoder, which never raises because of a row."""
        skips = {"on_infeasible": "skip"} if self.options["on_infeasible"] == "raise" else {}
        return {**self.options, **skips}


# ---- tables and options ---------------------------------------------------------------------------------------------


def _batches(data: Any, inputs: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of the first row of each piece of a table, and the arrays that are read of it."""
    pieces = data.select(list(dict.fromkeys(inputs.values()))).to_batches() if hasattr(data, "to_batches") else [data]
    first = 0
    for piece in pieces:
        yield first, {name: piece.column(column) for name, column in inputs.items()}
        first += piece.num_rows


def _whole_documents(ranges: Iterable[tuple[int, int]], names: Sequence[Any], column: str) -> list[tuple[int, int]]:
    """Move the ends of parts to ends of documents; raise if a document comes back, or a row has none."""
    if None in names:
        what, wanted = f"{column!r} is null", "the document of every row"
        raise FeatureError(what, got="null", wanted=wanted, sequence=list(names).index(None))
    try:
        ends = cuts_of(names)
    except GivenError as error:
        parts = {name: getattr(error, name) for name in ("got", "wanted", "cause", "sequence")}
        raise FeatureError(error.what, **parts) from None
    cuts = sorted({0, *(ends[bisect_left(ends, high)] for _, high in ranges)})
    return list(pairwise(cuts))


def _joined(arrays: Sequence[Any]) -> Any:
    """Arrays end to end."""
    pa = arrow()
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid:  # offsets of lists and strings have 32 bits
        raise FeatureError(
            "the batch is too large",
            got=f"{sum(map(len, arrays)):,} rows whose labels take more than 2 GB",
            wanted="smaller batches, or a pyarrow.Table, whose columns may have several parts",
        ) from None


def rules_of(rules: Rules) -> tuple[Rule, ...]:
    """Rules as they are, sentences, or the rules of a file."""
    if isinstance(rules, os.PathLike) or (isinstance(rules, str) and rules.endswith(".rules")):
        return tuple(load(os.fspath(rules)))
    return as_rules([rules] if isinstance(rules, (Rule, str)) else rules)


def _columns(columns: str | Mapping[str, str] | None) -> str | dict[str, str] | None:
    if columns is None or isinstance(columns, str):
        return columns
    if isinstance(columns, Mapping) and all(isinstance(x, str) for pair in columns.items() for x in pair):
        return dict(columns)
    raise bad_option("columns", columns, "the name of a column, or names such as {'word': 'tokens'}")


def _names(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise bad_option("keep", names, "a list of names of columns")
    return list(names)


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in options if name not in _OPTIONS]:
        raise EngineError(f"there is no option {unknown[0]!r}", got=unknown[0], wanted=", ".join(_OPTIONS))
    settings = {"on_infeasible": "relax", **options}
    if settings["on_infeasible"] not in ("raise", "relax", "skip"):
        raise bad_option("on_infeasible", settings["on_infeasible"], "'raise', 'relax' or 'skip'")
    Limits(**{name: settings[name] for name in _LIMITS if name in settings})  # which checks them
    return settings


def field_of(schema: Any, name: str) -> Any:
    """The field of a column; an error if there is none, or more than one."""
    count = schema.names.count(name)
    if count != 1:
        raise FeatureError(
            f"the table has no column {name!r}" if not count else f"the table has {count} columns {name!r}",
            got=", ".join(map(repr, schema.names)) or "no columns",
            wanted=f"one column {name!r}",
        )
    return schema.field(name)


Model = str | os.PathLike[str] | bytes | Tagger

_MODELS = RecentCache(8, 1 << 31)  # what was loaded, by file or by content
_LOCK = RLock()


def _unlock() -> None:
    """A forked process has no thread that could let go of the lock."""
    global _LOCK
    _LOCK = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


@dataclass(frozen=True)
class LoadedModel:
    """A model, and the decoders that were made for it."""

    tagger: Tagger
    _decoders: RecentCache = field(default_factory=lambda: RecentCache(16, 1 << 28), repr=False)

    @cached_property
    def tokens(self) -> Tokens:
        """Say how to split text: as the training data was."""
        return tokens_noted(self.tagger.notes_, templates_of(self.tagger.features_).vocabulary)

    def decoder(self, rules: Sequence[Rule], options: Mapping[str, Any]) -> Decoder:
        """A decoder of these rules; the same one if it was made before."""
        key = (tuple(rules), tuple(sorted(options.items(), key=lambda pair: pair[0])))
        try:
            hash(key)
        except TypeError:  # an option that cannot be compared
            return self.tagger.decoder(rules, **options)
        with _LOCK:
            decoder: Decoder | None = self._decoders.get(key)
            if decoder is None:
                decoder = self.tagger.decoder(rules, **options)
                self._decoders.keep(key, decoder, 1 << 16)
            return decoder


def loaded(model: Model) -> LoadedModel:
    """The model; it is loaded unless this process has it."""
    if isinstance(model, Tagger):
        return LoadedModel(model)
    if isinstance(model, bytes):
        return _shared(hashlib.sha256(model).digest(), lambda: bridle.models.from_bytes(model), len(model))
    try:
        status = Path(model).stat()
    except (OSError, ValueError) as error:  # a ValueError: a path with a null in it
        raise FileError(
            "cannot read the model",
            got=getattr(error, "strerror", None) or str(error),
            wanted="a model file",
            where=os.fspath(model),
            cause="Does every machine of the cluster have it under this path? Pass its bytes to send it along.",
        ) from None
    key = (os.path.realpath(model), status.st_ino, status.st_mtime_ns, status.st_size)
    return _shared(key, lambda: bridle.models.load(os.fspath(model)), status.st_size)


def _shared(key: Hashable, load: Callable[[], Tagger], size: int) -> LoadedModel:
    with _LOCK:  # one thread loads it, the others wait
        model: LoadedModel | None = _MODELS.get(key)
        if model is None:
            model = LoadedModel(load())
            _MODELS.keep(key, model, size)
        return model
