"""`tag` labels the sequences of a block with a model and rules, all at once; `Outcomes` are its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import is_integer, ranges
from bridle.deadline import stopping
from bridle.decoding.decoder import Decoder, Given, Scored, decodings_of
from bridle.decoding.documents import DocumentDecoding, cuts_of, decode_all, packed_documents
from bridle.decoding.marginals import probabilities
from bridle.decoding.problem import LIMIT, NOTHING_FOUND, Answers, Problem, bad_option, offsets_of, other_labels
from bridle.decoding.result import Decoding, Decodings, first_error, nothing_found
from bridle.errors import BridleError, FeatureError
from bridle.features import Features, TemplateFeatures
from bridle.features.columns import column_of, names_in
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Lattices
from bridle.rules.conditions import missing_column
from bridle.tagging.block import Block
from bridle.tagging.figures import FIGURES, Want, sentence_of

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(eq=False)
class Outcomes:
    """The labellings of the sequences of a block; errors are values here, one per sequence that has one.

    Attributes
    ----------
    decodings : Decodings
        Labels, scores, bounds and statuses. A sequence that could not be labelled has the status "error".
    label_set : Labels
        The labels that ids are numbers of.
    errors : dict of int to BridleError
        Why a sequence could not be labelled, or why one that was labelled lacks what else was wanted.
    k_best : list, optional
        The best labellings of each sequence; None where there is no labelling.
    probabilities : array of float, shape (N,), optional
        The probability of each token's label, given that the hard rules hold; NaN where they do not.
    segment_probabilities : list, optional
        The probability of each segment of each labelling, in order; None where there is none.
    chars : pair of arrays, optional
        Where the tokens begin and end in their texts.
    wanted : set of str
        What was computed besides labels, scores and bounds.
    """

    decodings: Decodings
    label_set: Labels
    errors: dict[int, BridleError] = field(default_factory=dict)
    k_best: list[Sequence[Decoding] | None] | None = None
    probabilities: npt.NDArray[np.float64] | None = None
    segment_probabilities: list[list[float] | None] | None = None
    chars: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None
    wanted: frozenset[Want] = frozenset()

    def __len__(self) -> int:
        return len(self.decodings)

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """(B) sequences that have labels."""
        return self.decodings.answered

    @cached_property
    def status(self) -> npt.NDArray[np.str_]:
        """(B) the status of each sequence."""
        return self.decodings.status

    @cached_property
    def labels(self) -> list[list[str] | None]:
        """The labels of each sequence; None where there are none."""
        there = self.labelled.tolist()
        return [labels if known else None for labels, known in zip(self.decodings.labels, there, strict=True)]

    @cached_property
    def offsets(self) -> npt.NDArray[np.int32]:
        """(B + 1) where the labels of each sequence begin among `ids`."""
        sizes = np.where(self.labelled, np.diff(self.decodings.offsets), 0)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)

    @cached_property
    def ids(self) -> npt.NDArray[np.int32]:
        """Label ids of all sequences that have labels, end to end."""
        return self.per_label(self.decodings.ids)

    def per_label(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Leave out the values of tokens without labels."""
        ids = self.decodings.ids
        return values if ids.min(initial=0) >= 0 else values[ids >= 0]

    @cached_property
    def segments(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The segments of all labellings: first token and the one after the last, among `ids`; the sequence."""
        return segments_of(self.label_set.span_labels, self.ids, self.offsets)

    def record(self, row: int) -> dict[str, Any]:
        """Return the results of a sequence except its labels, as JSON: `Decoding.to_dict` and other figures."""
        if row in self.decodings.errors:
            return {"error": str(self.errors[row])}
        record = self.decodings[row].to_dict(sentence_of)
        del record["labels"]
        for name, figure in FIGURES.items():
            if name not in record and figure.want in (None, *self.wanted):
                record[name] = figure.value(self, row)
        if row in self.errors:
            record["error"] = str(self.errors[row])
        return record

    def first_error(self, *, infeasible: bool) -> tuple[int, BridleError | None]:
        """The number of the first sequence that has an error, and the error; how many there are, if none has one.

        infeasible: that no labelling obeys the rules, or none was found in time, is an error too.
        """
        return first_error(self.decodings, self.errors, infeasible=infeasible)


def segments_of(
    labels: Labels, ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Cut many labellings into segments, as `Labels.segments` does: first token, the one after the last, sequence.

    Tokens are counted over all sequences.
    """
    none = np.zeros(0, dtype=np.int32)
    if not len(ids):
        return none, none, none.astype(np.int64)
    before = np.concatenate([[0], ids[:-1]])
    starts = labels.starts(before, ids)
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    first = np.flatnonzero(starts).astype(np.int32)
    last = np.append(first[1:], np.int32(len(ids)))
    inside = np.array([bool(tag) for tag in labels.tag_of])[ids[first]]
    first, last = first[inside], last[inside]
    return first, last, np.searchsorted(offsets, first, side="right") - 1


_WANT = frozenset(get_args(Want))


class Scorer(Protocol):
    """A trained model."""

    features_: Features
    decides: Any  # deterministic rules, which look at texts

    def scored(
        self, sequences: Sequence[Any], stop: _native.Stop | None = None, errors: dict[int, BridleError] | None = None
    ) -> tuple[Batch, Sequence[str] | None]:
        """Score sequences; return the scores and the texts."""


def tag(
    block: Block,
    model: Scorer | None,
    decoder: Decoder,
    *,
    want: Collection[Want] = (),
    k: int = 1,
    of: Decodings | None = None,
    stop: _native.Stop | None = None,
    threads: int = 1,
) -> Outcomes:
    """Label the sequences of a block; those that cannot be labelled have an error.

    Parameters
    ----------
    block : Block
        The sequences; the names of its columns are those of the model (`columns_for` says which is which).
    model : Predictor or None
        The model that scores texts; None if the block has scores.
    decoder : Decoder
        The labels and the rules. What it does if no labelling obeys the rules is a status here, never raised.
    want : collection of str
        What to compute besides labels, scores and bounds: "k_best", the `k` best labellings; "probabilities", of the
        label of each token; "segment_probabilities", of each segment.
    k : int, default 1
        Number of labellings for "k_best".
    of : Decodings, optional
        Labellings of the same sequences, such as those under other rules, whose probabilities are wanted instead of
        those of the best labellings.
    stop : Stop, optional
        Set it in another thread to end the work, which raises `KeyboardInterrupt` here.
    threads : int, default 1
        Number of threads; 0 means all cores. The results do not depend on it.

    Returns
    -------
    Outcomes
        One outcome per sequence, in order.

    Examples
    --------
    >>> import bridle
    >>> from bridle.tagging import Block, tag
    >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
    >>> outcomes = tag(Block(3, sequences=[["the", "cat"], ["the", None], []]), model, model.decoder())
    >>> outcomes.labels, outcomes.status.tolist(), list(outcomes.errors)
    ([['D', 'N'], None, []], ['optimal', 'error', 'optimal'], [1])
    """
    if isinstance(want, str) or not _WANT.issuperset(want):
        raise bad_option("want", want, f"a list of {', '.join(map(repr, sorted(_WANT)))}")
    if want and not is_integer(k, 1):
        raise bad_option("k", k, "an integer >= 1")
    scores = _scores_of(block, model, decoder)
    if block.groups is not None:
        if want:
            raise bad_option("want", sorted(want), "nothing but labels, scores and bounds for documents")
        decodings = _of_documents(block.groups, scores, decoder, stop)
        return Outcomes(decodings, decoder.labels, dict(decodings.errors), chars=block.chars)
    extras = _Extras(decoder, frozenset(want), k, of) if want else None
    decodings, parts = decoder.decode_parts(scores, block.count, threads, stop=stop, more=extras)
    outcomes = Outcomes(decodings, decoder.labels, dict(decodings.errors), chars=block.chars, wanted=frozenset(want))
    if extras is not None:
        extras.add_to(outcomes, parts)
    return outcomes


def _of_documents(
    groups: Sequence[Any],
    scores: Callable[[int, int, _native.Stop], Scored],
    decoder: Decoder,
    stop: _native.Stop | None,
) -> Decodings:
    """Decode sequences of documents together; an error of a document is one of all its sequences."""
    cuts, documents = cuts_of(groups), list[DocumentDecoding | BridleError]()
    stop = stop or _native.Stop()
    lattices, given, _, errors = scores(0, len(groups), stop)
    if given is not None and errors:  # sequences that could not be read are empty
        empty: Given = {name: [] for name in decoder.required_columns}
        given = [empty if b in errors else values for b, values in enumerate(given)]
    with stopping(stop):
        for low, high in pairwise(cuts):
            part = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
            try:
                documents += decode_all(decoder, part, [0, high - low], None if given is None else given[low:high])
            except BridleError as error:
                documents.append(error)
    return packed_documents(decoder, documents, cuts, lattices, given, errors)


class ModelColumns(NamedTuple):
    """The columns that a model reads, and the one that holds the tokens of its training data, which may not be read.

    Files, tables and requests ask here which column is which.
    """

    needed: tuple[str, ...]  # the one with tokens first
    main: str

    @classmethod
    def of(cls, model: Any) -> ModelColumns:
        """Say which columns a model reads."""
        columns, sources = model.notes_.get("columns"), tuple(getattr(model.features_, "sources", ()))
        listed = [name for name in columns if isinstance(name, str)] if isinstance(columns, list) else []
        main = listed[0] if listed else getattr(model.features_, "main", "word")
        return cls(tuple(sorted(sources, key=lambda name: name != main)), main)

    @property
    def first(self) -> str:
        """The column to which a text or bare tokens belong."""
        return self.needed[0] if self.needed else self.main

    def renamed(self, names: Sequence[str]) -> list[str]:
        """The names that the model has for columns, of which the first one holds the tokens.

        It is the model's column of tokens, unless the model knows it by its own name, or that column is there, too.
        """
        first, *others = names
        is_main = first not in self.needed and self.main in self.needed and self.main not in others
        return [self.main if is_main else first, *others]


# ---- scores ---------------------------------------------------------------------------------------------------------


def _scores_of(block: Block, model: Scorer | None, decoder: Decoder) -> Callable[[int, int, _native.Stop], Scored]:
    """Make the function that scores sequences low .. high-1; one that cannot be scored is empty and has an error."""
    errors, given = dict(block.errors), block.given if decoder.rules and decoder.required_inputs else None
    columns = decoder.required_columns if decoder.rules else frozenset()
    has_tokens = given is not None and any("tokens" in values for values in given)
    has_tokens = has_tokens or block.groups is not None  # as rules about documents want them
    if columns - {"tokens"} or (columns and (has_tokens or decoder.compares_tokens)):
        features = None if model is None else model.features_
        given, columns = with_columns(block, features, given, columns, errors), frozenset()
    if model is None:
        packed = block.packed(["tokens"] if columns else [], errors) if block.columns else None
        texts = None if packed is None else packed.texts.get("tokens")
        lattices = _without_rows(block.scores, errors, decoder)
        cuts = offsets_of(lattices)

        def scores(low: int, high: int, _stop: _native.Stop) -> Scored:
            words = None if texts is None else texts[int(cuts[low]) : int(cuts[high])]
            part = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
            return part, None if given is None else given[low:high], words, _part_of(errors, low, high)

        return scores
    features, sequences = model.features_, block.sequences
    if sequences is None:
        if not isinstance(features, TemplateFeatures):
            raise _no_text(block)
        main = [features.templates.main] if columns or model.decides is not None else []
        sequences = block.packed(list(dict.fromkeys([*features.sources, *main])), errors)

    def scores_by_model(low: int, high: int, stop: _native.Stop) -> Scored:
        wrong = _part_of(errors, low, high) if errors else {}
        part = sequences if high - low == block.count else sequences[low:high]
        batch, texts = model.scored(part, stop, wrong)
        return batch, None if given is None else given[low:high], texts if columns else None, wrong

    return scores_by_model


def _no_text(block: Block) -> FeatureError:
    return FeatureError(
        "the model takes ready-made features, not text",
        got=", ".join(map(repr, block.columns)) or "no columns",
        wanted="a model with templates, such as CRF(features='ner')",
        cause="Score your features in Python, and decode the scores with bridle.Decoder or bridle.arrow.Decode.",
    )


def _part_of(errors: Mapping[int, BridleError], low: int, high: int) -> dict[int, BridleError]:
    return {row - low: error for row, error in errors.items() if low <= row < high}


def with_columns(
    block: Block,
    features: Features | None,
    given: Sequence[Given] | None,
    columns: frozenset[str],
    errors: dict[int, BridleError],
) -> list[Given]:
    """Given values, with the columns that rules look at; sequences that lack one get an error."""
    rows: list[Given] = []
    for row in range(len(block)):
        values = {} if given is None or row in errors else given[row]
        try:
            texts = {
                name: _column(block, features, row, name)
                for name in columns
                if name not in values and row not in errors
            }
            rows.append({**texts, **values})
        except BridleError as error:
            errors[row] = error
            rows.append({})
    return rows


def _column(block: Block, features: Features | None, row: int, name: str) -> Sequence[str]:
    """The values of a column that rules look at, of one sequence."""
    if block.sequences is not None:
        x = block.sequences[row]
        if name == "tokens" and isinstance(features, TemplateFeatures):
            return features.tokens(x)
        texts = column_of(x, name)
        names = names_in(x) or []
    else:
        if name == "tokens" and isinstance(features, TemplateFeatures):
            name = features.templates.main
        texts = block.columns[name].row(row) if name in block.columns else None  # type: ignore[assignment]
        names = list(block.columns)
    if texts is None:
        raise missing_column(name, names)
    return texts


def _without_rows(batch: Lattices | None, errors: dict[int, BridleError], decoder: Decoder) -> Lattices:
    """Replace sequences that have errors, or other labels than the decoder, by empty ones."""
    if batch is None:
        wanted = "a model, or a block with scores"
        raise FeatureError("there is no model to score the sequences", got="a block of texts, and None", wanted=wanted)
    if not isinstance(batch, Batch):
        m = len(decoder.labels)
        for b, x in enumerate(batch):
            if x.n_labels != m:
                errors.setdefault(b, other_labels(x.n_labels, m))
        return [Lattice(np.zeros((0, m))) if b in errors else x for b, x in enumerate(batch)] if errors else batch
    if not errors:
        return batch
    kept = np.ones(len(batch), dtype=bool)
    kept[list(errors)] = False
    lengths = np.diff(batch.offsets)
    begin = batch.offsets[:-1] if batch.first is None else batch.first
    cuts = np.concatenate([[0], np.cumsum(lengths * kept)])
    tokens = np.arange(cuts[-1]) + np.repeat((begin - cuts[:-1])[kept], lengths[kept])
    return Batch(batch.unary[tokens], cuts, batch.pairwise, batch.start, batch.end)


# ---- k best, and probabilities --------------------------------------------------------------------------------------


class _Extras:
    """Computes what is wanted besides labels, for all sequences of a part at once."""

    def __init__(self, decoder: Decoder, want: frozenset[Want], k: int, of: Decodings | None) -> None:
        self.decoder, self.k, self.of = decoder, k, of
        self.wanted = want

    def __call__(self, problem: Problem, answers: Answers) -> tuple[Any, ...]:
        """The number of the first row; k best labellings, probabilities of tokens and of segments, errors by row."""
        rows = np.flatnonzero(answers.status <= LIMIT)
        errors: dict[int, BridleError] = {}
        best: dict[int, list[Decoding]] = {}
        if "k_best" in self.wanted:
            for b, labellings in zip(
                rows.tolist(), problem.native().k_best_all(self.k, rows, problem.stop), strict=True
            ):
                if labellings and labellings[0][2] == NOTHING_FOUND:
                    errors[b] = nothing_found("search", labellings[0][3])
                else:
                    best[b] = decodings_of(self.decoder, labellings)
        ids = answers.ids
        if self.of is not None:
            rows = rows[self.of.answered[problem.first + rows]]
            ids = np.full(len(ids), -1, dtype=np.int32)
            ids[ranges(problem.offsets, rows)[0]] = self.of.ids[ranges(self.of.offsets, problem.first + rows)[0]]
        tokens, segments = "probabilities" in self.wanted, None
        listed: dict[int, list[float]] = {}
        if "segment_probabilities" in self.wanted:
            first, end, owner = segments_of(self.decoder.labels.span_labels, ids, problem.offsets)
            answered = np.isin(owner, rows)
            segments, owner = (first[answered], end[answered]), owner[answered]
        if not tokens and segments is None:
            return problem.first, best, None, listed, errors
        limit = self.decoder.limits.time_limit
        chances = probabilities(problem, ids, rows, tokens=tokens, segments=segments, seconds=limit)
        if segments is not None:
            cuts, values = np.searchsorted(owner, [rows, rows + 1]).tolist(), chances.segments.tolist()
            spans = zip(rows.tolist(), *cuts, strict=True)
            listed = {b: values[low:high] for b, low, high in spans if b not in chances.errors}
        return problem.first, best, chances.tokens, listed, chances.errors | errors

    def add_to(self, outcomes: Outcomes, parts: Sequence[tuple[Any, ...]]) -> None:
        """Put the results of all parts together."""
        decodings = outcomes.decodings
        best: list[Any] = [None] * len(decodings)
        segments: list[Any] = [None] * len(decodings)
        for first, labellings_of, _, some_segments, errors in parts:
            for b, labellings in labellings_of.items():
                best[first + b] = labellings
            for b, chances in some_segments.items():
                segments[first + b] = chances
            for b, error in errors.items():
                outcomes.errors.setdefault(first + b, error)
        for b in np.flatnonzero(decodings.relaxed).tolist():
            best[b] = [decodings[b]]
        for b in decodings.errors:
            best[b] = segments[b] = None
        outcomes.k_best = best if "k_best" in self.wanted else None
        outcomes.segment_probabilities = segments if "segment_probabilities" in self.wanted else None
        if "probabilities" in self.wanted:
            outcomes.probabilities = np.concatenate([np.zeros(0), *(chances for _, _, chances, _, _ in parts)])
