"""GLiNER: spans chosen from its logits, under rules.

GLiNER keeps the spans above a threshold and drops overlaps greedily. `predict` returns the same dictionaries, but
chooses the best set of spans under your rules, exactly; a rule such as ``present date`` can choose spans below the
threshold. `candidates` converts logits to candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.arrays import as_array
from bridle.errors import BridleError, EngineError, LatticeError, shown
from bridle.rules import Rule
from bridle.rules.loading import as_rules
from bridle.spans import SpanSelector
from bridle.spans.candidates import checked_probability, log_odds

_FLOOR = 0.01  # the least probability of a span that rules can choose


class _Chosen(NamedTuple):
    """A chosen span in the form of GLiNER, whose end is inclusive."""

    start: int
    end: int
    entity_type: str
    score: float
    class_probs: None = None


def candidates(
    logits: npt.ArrayLike,
    labels: Sequence[str] | Mapping[int, str],
    n_words: int | None = None,
    *,
    floor: float = _FLOOR,
) -> dict[str, npt.NDArray[Any]]:
    """Convert the logits of one text to candidates for `bridle.select`.

    Parameters
    ----------
    logits : array of float, shape (L, K, C)
        GLiNER's output for one text: first word, number of words minus 1, class.
    labels : sequence of str, or mapping of int to str
        Names of the C classes, or GLiNER's ``id_to_classes``, which counts from 1. Classes without a name are padding.
    n_words : int, optional
        Number of words; without it, L. Spans that end after the last word are padding.
    floor : float, default 0.01
        Spans with a smaller probability are left out. Rules can choose candidates only.

    Returns
    -------
    dict
        Columns start, end (not included), label, score (the logit: log-odds) and class (from 0).

    Raises
    ------
    LatticeError
        If shapes do not fit together, or a logit is NaN.
    EngineError
        If `floor` is not a probability between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import bridle
    >>> logits = np.full((3, 2, 2), -9.0)
    >>> logits[0, 1, 0], logits[2, 0, 1] = 2.0, -1.0
    >>> spans = candidates(logits, ["person", "date"])
    >>> bridle.select(spans).spans
    [Span(start=0, end=2, label='person', score=2.0)]
    >>> bridle.select(spans, ["present date"]).spans[1]
    Span(start=2, end=3, label='date', score=-1.0)
    """
    lowest = log_odds(checked_probability("floor", floor))
    table = as_array("logits", logits)
    if table.ndim != 3:
        raise LatticeError(
            "logits of one text have another shape",
            got=table.shape,
            wanted="(words, widths, classes)",
            cause="Pass the logits of one text of the batch: logits[b].",
        )
    n_starts, n_widths, n_classes = table.shape
    names = dict(enumerate(labels, 1)) if not isinstance(labels, Mapping) else dict(labels)
    if not all(1 <= number <= n_classes for number in names):
        raise LatticeError("labels do not fit the logits", got=shown(names), wanted=f"{n_classes} classes")
    count = n_starts if n_words is None else n_words
    ends = np.arange(n_starts)[:, None] + np.arange(1, n_widths + 1)
    inside = (ends <= count)[:, :, None] & np.isin(np.arange(1, n_classes + 1), list(names))
    if np.isnan(table[inside]).any():
        raise LatticeError("a logit is NaN", got="NaN", wanted="numbers")
    start, width, kind = np.nonzero(inside & (table >= lowest))
    label = np.array([names.get(k + 1) for k in range(n_classes)], dtype=object)[kind]
    return {"start": start, "end": start + width + 1, "label": label, "score": table[start, width, kind], "class": kind}


def predict(
    model: Any,
    texts: str | Sequence[str],
    labels: Any,
    rules: Iterable[Rule | str] = (),
    *,
    threshold: float = 0.5,
    floor: float | None = None,
    overlap: Literal["forbid", "nest"] = "forbid",
    given: Sequence[Mapping[str, Any]] | None = None,
    on_infeasible: Literal["raise", "skip"] = "raise",
    time_limit: float | None = None,
    batch_size: int = 8,
) -> list[Any]:
    """Find entities with a GLiNER model, under rules.

    Parameters
    ----------
    model : gliner.GLiNER
        A model that scores spans. Those that tag tokens (``span_mode="token_level"``) have no scores of spans.
    texts : str or sequence of str
        One text, or many.
    labels : list of str, mapping, or list of these
        As in GLiNER's ``inference``.
    rules : iterable of Rule or str
        Rules for the chosen spans. Positions in rules are words, and `tokens` matches the text of a span.
    threshold : float, default 0.5
        The probability from which on a span is worth choosing.
    floor : float, optional
        The least probability of a span that rules can choose; 0.01, or `threshold` if there are no rules.
    overlap : {"forbid", "nest"}, default "forbid"
        GLiNER's ``flat_ner=True``; or spans that may nest (``flat_ner=False``).
    given : sequence of mappings, optional
        Values that the rules refer to by `given`, one per text.
    on_infeasible : {"raise", "skip"}, default "raise"
        What to do with a text that no choice obeys the hard rules of: raise an error, or find nothing in it.
    time_limit : float, optional
        Seconds per text, for choosing.
    batch_size : int, default 8
        Texts that the model sees at once.

    Returns
    -------
    list of dict, or list of list of dict
        For one text what ``predict_entities`` returns, for many what ``inference`` returns: start, end, text, label and
        score (the probability) of each entity, in text order.

    Raises
    ------
    Infeasible
        If no choice obeys the hard rules; ``error.sequence`` is the text.
    LabelError
        If a rule names a label that is not among `labels`.
    EngineError
        If the model gives no scores of spans, or an option has another value.
    """
    rules = as_rules(rules)
    labels = labels if isinstance(labels, (str, list, Mapping)) else list(labels)
    selector = SpanSelector(
        rules,
        _names(labels) if rules else None,
        overlap=overlap,
        threshold=threshold,
        on_infeasible=on_infeasible,
        time_limit=time_limit,
    )
    lowest = checked_probability("floor", floor) if floor is not None else _FLOOR if rules else threshold
    model.eval()
    prepared = model.prepare_batch([texts] if isinstance(texts, str) else list(texts), labels)
    where = prepared["valid_to_orig_idx"]  # texts without words are left out
    starts, ends = prepared["start_token_map"], prepared["end_token_map"]
    scored = [
        pair for low in range(0, len(where), batch_size) for pair in _scored(model, prepared, low, batch_size, lowest)
    ]
    try:
        selections = selector.select_batch(
            [columns for columns, _ in scored],
            text=prepared["valid_texts"],
            tokens=[list(zip(*offsets, strict=True)) for offsets in zip(starts, ends, strict=True)],
            given=None if given is None else [given[i] for i in where],
        )
    except BridleError as error:
        if error.sequence is not None:
            error.sequence = where[error.sequence]
        raise
    chosen = [
        [
            _Chosen(span.start, span.end - 1, span.label, score)
            for span, score in zip(selection.spans, scores[selection.indices].tolist(), strict=True)
        ]
        for selection, (_, scores) in zip(selections, scored, strict=True)
    ]
    entities: list[list[Any]] = model.map_entities_to_text(
        chosen, prepared["valid_texts"], where, starts, ends, prepared["num_original"]
    )
    return entities[0] if isinstance(texts, str) else entities


def _names(labels: str | list[Any] | Mapping[str, str]) -> list[str]:
    """Return the names of all labels, including those of single texts."""
    items = [labels] if isinstance(labels, str) else labels
    return sorted({name for item in items for name in ([item] if isinstance(item, str) else item)})


def _scored(
    model: Any, prepared: dict[str, Any], low: int, batch_size: int, floor: float
) -> Iterator[tuple[dict[str, npt.NDArray[Any]], npt.NDArray[Any]]]:
    """Yield the candidates of each text of a batch, with their probabilities."""
    part = range(low, min(low + batch_size, len(prepared["input_x"])))
    batch = model.collate_batch(
        [prepared["input_x"][i] for i in part],
        _of_part(prepared["entity_types"], part),
        label_names=_of_part(prepared["label_names"], part),
    )
    logits, probabilities = _scores(model, batch)
    names = batch["id_to_classes"]
    for row, words in enumerate(batch["tokens"]):  # of a long text the model sees only the beginning
        columns = candidates(logits[row], names[row] if isinstance(names, list) else names, len(words), floor=floor)
        at = columns["start"], columns["end"] - columns["start"] - 1, columns["class"]
        yield columns, probabilities[row][at]


def _of_part(labels: list[Any], part: range) -> list[Any]:
    """Return the labels of a part of the texts, which share one list or have one each."""
    return [labels[i] for i in part] if labels and isinstance(labels[0], list) else labels


def _scores(model: Any, batch: dict[str, Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return logits and probabilities, (B, L, K, C) both."""
    output = model.run_batch(batch)
    logits = output[0]
    if getattr(model.config, "span_mode", "") in ("token_level", "token-level") or output.span_idx is not None:
        raise EngineError(
            "this GLiNER model gives no table of span scores",
            got=f"{type(model).__name__}, span_mode={model.config.span_mode!r}",
            wanted="a model that scores the spans of up to max_width words",
            cause="Models that tag tokens build spans themselves; pass those spans to bridle.select.",
        )
    if isinstance(logits, np.ndarray):  # of ONNX and OpenVINO sessions
        return logits, 1 / (1 + np.exp(-logits))
    return logits.float().cpu().numpy(), logits.sigmoid().float().cpu().numpy()
