"""`Tag`: a model and rules as a function of Arrow tables; `Decode`: rules, for tables with scores of your own model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.arrow.base import GIVEN, LoadedModel, Model, OnError, Rules, TableFunction, field_of, loaded
from bridle.data.tokenizer import tokenize
from bridle.decoding.decoder import Decoder
from bridle.errors import ModelError, shown
from bridle.features import TemplateFeatures
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.models import Tagger
from bridle.models.checks import templates_of
from bridle.tagging import Block, Column
from bridle.tagging.arrow import (
    Errors,
    Output,
    given_of,
    is_text,
    is_texts,
    scores_of,
    split_text,
    texts_of,
    wrong_type,
)
from bridle.tagging.labelling import ModelColumns


class Tag(TableFunction):
    """Label the rows of Arrow tables with a model, optionally under rules.

    A row is a sequence. Its tokens are a list of strings, or a text that is split as the training data was. All rows
    come back, in their order, with new columns (each name with `prefix` before it):

    =================================  =============================================================================
    ``labels: list<string>``           with ``output="labels"``
    ``ids: list<int32>``               with ``output="ids"``: positions in ``Tag.labels.names``
    ``spans: list<struct>``            with ``output="spans"``: start, end (token positions, end exclusive), label;
                                       if the tokens come from a text, also start_char and end_char
    ``score, bound: double``           with ``scores=True``: of the labelling, as in `Decoding`
    ``probabilities: list<double>``    with ``scores=True``: of the label of each token, given that the hard rules
                                       hold; null if they do not
    ``k_best: list<struct>``           with ``k > 1``: labels and score of the best labellings
    ``status: string``                 optimal, limit, relaxed, infeasible, nothing_found, or error
    ``error: string``                  what is wrong with the row; null if nothing is
    =================================  =============================================================================

    It can be pickled, and it loads its model when it is first called, once per process for all copies.

    Parameters
    ----------
    model : path, bytes or Tagger
        A model file, its content, or a model. A path is pickled as a path; the others as bytes.
    rules : Rule, str, path or iterable of them
        Rules, sentences, or the path of a ``.rules`` file, which is read now.
    columns : str or mapping, optional
        Which columns of the table to read: ``{"word": "tokens"}`` says that the model's column ``word`` is the table's
        ``tokens``; a string names the main one. By default, columns have the names that the model has for them; for the
        main one also ``tokens``, or ``text`` if that is a string. Rules that refer to values find them in ``given``, a
        struct or JSON.
    output : {"labels", "spans", "ids"}, default "labels"
        Form of the labelling.
    scores : bool, default False
        Whether to add score, bound and probabilities. Probabilities take several times as long as labels.
    k : int, default 1
        If it is above 1, add the k best labellings.
    on_error : {"row", "raise"}, default "row"
        What to do with a row that cannot be labelled: report it in the columns ``status`` and ``error``, or raise the
        error. A table that lacks a column, or has one of a wrong type, always raises.
    prefix : str, default ""
        What the names of the new columns begin with.
    keep : list of str, optional
        Columns of the table to keep, in this order; all of them by default.
    threads : int, default 1
        Number of threads; 0 means all cores. The results do not depend on it.
    groups : str, optional
        The column that names the document of each row. Rows of a document are in a row and are labelled together, so
        that rules with ``in the document:`` reach across them. A document has to be in one table as a whole.
    **options : object
        Options of `Decoder`: engine, time_limit, max_states, max_memory, on_infeasible. Here, ``on_infeasible`` is
        ``"relax"`` by default; with ``"raise"``, rows without a labelling have an error that says why.

    Raises
    ------
    RuleSyntaxError, FileError
        If the rules cannot be read.
    EngineError
        If an option is invalid.

    Examples
    --------
    >>> import bridle, pyarrow as pa
    >>> from bridle.arrow import Tag
    >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
    >>> tag = Tag(model, ["at most 1 token of D"])
    >>> tagged = tag(pa.table({"id": [1, 2], "tokens": [["the", "cat"], None]}))
    >>> tagged.column("labels").to_pylist(), tagged.column("status").to_pylist()
    ([['D', 'N'], None], ['optimal', 'error'])
    >>> tagged.column("error")[1].as_py()
    "'tokens' is null; got null; wanted a list of tokens, which may be empty."
    """

    def __init__(
        self,
        model: Model,
        rules: Rules = (),
        *,
        columns: str | Mapping[str, str] | None = None,
        output: Output = "labels",
        scores: bool = False,
        k: int = 1,
        on_error: OnError = "row",
        prefix: str = "",
        keep: Sequence[str] | None = None,
        threads: int = 1,
        groups: str | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(model, (str, os.PathLike, bytes, Tagger)):
            raise ModelError("not a model", got=shown(model), wanted="the path of a model file, its bytes, or a Tagger")
        super().__init__(rules, columns, output, scores, k, on_error, prefix, keep, threads, groups, options)
        self.model = model
        self._loaded: LoadedModel | None = None
        self._made: Decoder | None = None
        if self.rules and isinstance(model, Tagger):
            self._decoder()  # rules that do not fit the labels show now; files are read later, or by check

    def __repr__(self) -> str:
        model = f"{len(self.model):,} bytes" if isinstance(self.model, bytes) else repr(self.model)
        return f"Tag({model}, {len(self.rules)} rules, output={self.layout.output!r})"

    def __getstate__(self) -> dict[str, Any]:
        model = self.model.to_bytes() if isinstance(self.model, Tagger) else self.model
        return {**self.__dict__, "model": model, "_loaded": None, "_made": None}

    @property
    def tagger(self) -> Tagger:
        """The model; it is loaded if needed."""
        return self._model().tagger

    def _model(self) -> LoadedModel:
        if self._loaded is None:
            self._loaded = loaded(self.model)
        return self._loaded

    @property
    def labels(self) -> Labels:
        """The labels of the model, in the order of their ids."""
        return self.tagger.labels_

    # ---- what is read -----------------------------------------------------------------------------------------------

    def _decoder(self) -> Decoder:
        if self._made is None or self._made.labels is not self.tagger.labels_:  # trained again
            if isinstance(self.model, Tagger):
                self._loaded = None
            self._made = self._model().decoder(self.rules, self._decoder_options())
        return self._made

    def _features(self) -> TemplateFeatures:
        return templates_of(self.tagger.features_)

    def _main(self) -> str:
        """The model's column that a table's tokens are, if nothing else is said."""
        return ModelColumns.of(self.tagger).first

    def _needed(self) -> list[str]:
        """The columns that the model and the rules need, the main one first."""
        features, decoder = self._features(), self._decoder()
        rules = decoder.required_columns
        tokens = [features.templates.main] if "tokens" in rules else []
        return list(dict.fromkeys([self._main(), *features.sources, *tokens, *sorted(rules - {"tokens"})]))

    def _usual(self, name: str) -> Sequence[str]:
        return ("tokens", "text") if name == ModelColumns.of(self.tagger).main else ()

    def _wanted(self, name: str, column: str, kind: Any) -> str | None:
        if name != self._main() or is_texts(kind):
            return super()._wanted(name, column, kind)
        chosen = self.columns.get(name) if isinstance(self.columns, Mapping) else self.columns
        if is_text(kind) and column in ("text", chosen):  # others may be lists that something has turned into text
            return None
        return f"list<string>; for text that is to be split, a column 'text', or columns={column!r}"

    def _is_text(self, schema: Any) -> bool:
        main = self._main()
        chosen = self.columns.get(main) if isinstance(self.columns, dict) else self.columns
        return is_text(field_of(schema, chosen or self._named(main, schema)).type)

    # ---- how it is read ---------------------------------------------------------------------------------------------

    def _scorer(self) -> Tagger:
        return self.tagger

    def _block(self, arrays: Mapping[str, Any], inputs: Mapping[str, str]) -> Block:
        columns: dict[str, Column] = {}
        errors: Errors = {}
        chars = given = None
        for name, array in arrays.items():
            if name == GIVEN:
                given = given_of(array, inputs[name], errors)
            elif is_text(array.type):
                split = partial(tokenize, how=self._model().tokens)
                columns[name], chars = split_text(array, inputs[name], split, errors)
            else:
                columns[name] = texts_of(array, inputs[name], errors)
        return Block(len(next(iter(columns.values()))), columns, errors=errors, given=given, chars=chars)


SCORES = "scores"


class Decode(TableFunction):
    """Find the best labelling of the rows of Arrow tables under rules, from scores of your own model.

    A row is a sequence. Its scores are a list of lists of numbers, tokens x labels: ``list<list<float>>``,
    ``list<fixed_size_list<float, m>>``, or other lists of lists of numbers. Arrays of float and double are read where
    they are. The new columns are those of `Tag`. It can be pickled.

    Parameters
    ----------
    rules : Rule, str, path or iterable of them
        Rules, sentences, or the path of a ``.rules`` file, which is read now.
    labels : Labels or iterable of str
        The labels, in the order of the scores of a token.
    columns : str or mapping, optional
        Which columns of the table to read: ``{"scores": "logits", "tokens": "words"}``; a string names that of the
        scores. By default, they are ``scores``; ``tokens`` and others that rules look at; and ``given``, a struct or
        JSON, for values that rules refer to.
    pairwise : array of float, shape (m, m), optional
        Transition scores: label i just before label j. The same for all rows.
    start, end : array of float, shape (m,), optional
        Scores of first and last labels.
    output, scores, k, on_error, prefix, keep, threads, groups : optional
        As in `Tag`.
    **options : object
        Options of `Decoder`, as in `Tag`.

    Raises
    ------
    RuleError, LabelError, LatticeError, EngineError
        If rules, labels, pairwise scores or options do not fit together.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bridle.arrow import Decode
    >>> decode = Decode(["at most 1 token of NAME"], ["O", "NAME"])
    >>> tagged = decode(pa.table({"scores": [[[0.0, 3.0], [1.0, 2.0]], [[0.0, float("nan")]]]}))
    >>> tagged.column("labels").to_pylist(), tagged.column("status").to_pylist()
    ([['NAME', 'O'], None], ['optimal', 'error'])
    """

    def __init__(
        self,
        rules: Rules,
        labels: Labels | Iterable[str],
        *,
        columns: str | Mapping[str, str] | None = None,
        pairwise: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
        output: Output = "labels",
        scores: bool = False,
        k: int = 1,
        on_error: OnError = "row",
        prefix: str = "",
        keep: Sequence[str] | None = None,
        threads: int = 1,
        groups: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(rules, columns, output, scores, k, on_error, prefix, keep, threads, groups, options)
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        head = Lattice(np.zeros((1, len(self.labels))), pairwise, start, end)  # which checks them
        self.pairwise, self.start, self.end = head.pairwise, head.start, head.end
        self.check()

    def __repr__(self) -> str:
        return f"Decode({len(self.rules)} rules, {len(self.labels)} labels, output={self.layout.output!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    @cached_property
    def _made(self) -> Decoder:
        return Decoder(self.labels, self.rules, **self._decoder_options())

    def _decoder(self) -> Decoder:
        return self._made

    def _needed(self) -> list[str]:
        return [SCORES, *sorted(self._decoder().required_columns - {SCORES})]

    def _wanted(self, name: str, column: str, kind: Any) -> str | None:
        return wrong_type(kind, len(self.labels)) if name == SCORES else super()._wanted(name, column, kind)

    def _block(self, arrays: Mapping[str, Any], inputs: Mapping[str, str]) -> Block:
        errors: Errors = {}
        columns = {name: texts_of(x, inputs[name], errors) for name, x in arrays.items() if name not in (SCORES, GIVEN)}
        given = given_of(arrays[GIVEN], inputs[GIVEN], errors) if GIVEN in arrays else None
        unary, offsets = scores_of(arrays[SCORES], inputs[SCORES], len(self.labels), errors)
        batch = Batch(unary, offsets, self.pairwise, start=self.start, end=self.end)
        return Block(len(batch), columns, scores=batch, errors=errors, given=given)
