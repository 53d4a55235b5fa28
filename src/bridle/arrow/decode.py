"""Decode: rules as a function of Arrow tables that hold the scores of your own model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.arrow.base import GIVEN, OnError, Rules, TableFunction
from bridle.decoding.decoder import Decoder
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.tagging import Block
from bridle.tagging.arrow import Errors, Output, given_of, scores_of, texts_of, wrong_type

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
    output, scores, k, on_error, prefix, keep, threads : optional
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
    >>> found = decode(pa.table({"scores": [[[0.0, 3.0], [1.0, 2.0]], [[0.0, float("nan")]]]}))
    >>> found.column("labels").to_pylist(), found.column("status").to_pylist()
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
        **options: Any,
    ) -> None:
        super().__init__(rules, columns, output, scores, k, on_error, prefix, keep, threads, options)
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
