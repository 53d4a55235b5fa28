"""Hugging Face transformers: token classification under rules.

`pipeline` is the pipeline of transformers with rules; `batch` is for people who have a loop of their own;
`privacy_filter` is the decoder of openai/privacy-filter, with rules on top.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy.typing as npt

from bridle.decoding.decoder import OnInfeasible
from bridle.extras import needed
from bridle.integrations.constrained_pipeline import NEEDS, ConstrainedPipeline, Explained, Score
from bridle.integrations.id2label import AnyScheme, labels_of
from bridle.integrations.onnx import as_model
from bridle.integrations.subwords import Back, batch
from bridle.integrations.windows import Merge
from bridle.rules.base import Rule

__all__ = ["Back", "ConstrainedPipeline", "Explained", "batch", "labels_of", "pipeline"]


def pipeline(
    model: Any,
    tokenizer: Any,
    *,
    rules: Iterable[Rule | str] = (),
    aggregation_strategy: str = "first",
    stride: int | None = None,
    window: int | None = None,
    scheme: AnyScheme = "auto",
    id2label: Any = None,
    on_infeasible: OnInfeasible = "raise",
    explain: bool = False,
    score: Score = "model",
    merge: Merge = "nearest",
    pairwise: npt.ArrayLike | None = None,
    start: npt.ArrayLike | None = None,
    end: npt.ArrayLike | None = None,
    **options: Any,
) -> ConstrainedPipeline:
    """Make a token classification pipeline of transformers whose labels obey rules.

    It takes and returns what `transformers.TokenClassificationPipeline` does. Without rules it finds the same labels.

    Parameters
    ----------
    model : model, onnxruntime.InferenceSession, callable, str or path
        A model for token classification; an ONNX graph or a function ``f(input_ids, attention_mask, ...)`` that gives
        logits (B, T, m); or where `AutoModelForTokenClassification` finds one.
    tokenizer : tokenizer, str or path
        Its tokenizer. It must be a fast one if words, windows or rules about the texts of tokens are asked for.
    rules : iterable of Rule or str, optional
        Rules, or sentences such as ``"at most 1 segment of TOTAL"``. They speak of words, or of tokens under "none" and
        "simple". ``tokens /\\d{8,}/`` matches what the text has for them. There are no hidden rules: write ``"well
        formed"`` if labels should obey their scheme.
    aggregation_strategy : {"first", "average", "max", "simple", "none"}, default "first"
        As in transformers. The first three label whole words, by the scores of their first sub-word, by the mean of
        all, or by the surest one; the others label tokens.
    stride : int, optional
        Tokens that windows of a long text share. The windows are put together and decoded once. Without it, a text
        that is too long for the model is cut off, as in transformers.
    window : int, optional
        Tokens of a window, special ones included; ``tokenizer.model_max_length`` by default.
    scheme : {"auto", "IO", "BIO", "BIOES", "BMES"} or None, default "auto"
        The tagging scheme of the labels, by which entities are cut; "auto" tells it from their names.
    id2label : mapping or list of str, optional
        The names of the labels, if those of ``model.config`` will not do, or if there is no such thing.
    on_infeasible : {"raise", "relax", "skip"}, default "raise"
        What to do when no labelling of a text obeys the hard rules: raise `Infeasible`, break as few as possible, or
        return no entities.
    explain : bool, default False
        Return `Explained` lists: the entities with the `Explanation` of the labels.
    score : {"model", "marginal"}, default "model"
        What "score" is: the probability that the model gives to the label, the mean over the words of an entity, as in
        transformers; or the probability of the label given that the hard rules hold.
    merge : {"nearest", "mean"}, default "nearest"
        Where the scores of a token come from that is in several windows: the window in which it has the most context,
        or the mean of the probabilities in all.
    pairwise, start, end : array of float, optional
        Scores of transitions (m, m), of first and of last labels (m,), for models with a CRF layer.
    **options : object
        Options of `transformers.TokenClassificationPipeline`: device, batch_size, ignore_labels, ...

    Returns
    -------
    ConstrainedPipeline
        ``pipe(texts, rules=..., given=..., explain=..., score=..., stride=...)`` changes options for one call. `given`
        holds other values that the rules speak of: a mapping, or a function that makes one of the words of a text.

    Raises
    ------
    LabelError
        If a rule speaks of a label that the model does not have, or `id2label` has gaps.
    ModelError
        If a slow tokenizer is asked for words, windows or texts of tokens.
    MissingExtra
        If transformers or torch is not installed.

    Examples
    --------
    >>> from bridle.integrations.transformers import pipeline
    >>> pipe = pipeline("path/to/model", "path/to/model", rules=["no duplicates of TOTAL"])  # doctest: +SKIP
    >>> pipe("Total due: 12.00")  # doctest: +SKIP
    [{'entity_group': 'TOTAL', 'score': 0.98, 'word': '12. 00', 'start': 11, 'end': 16}]
    """
    auto = needed("transformers", "transformers", NEEDS)
    if isinstance(model, (str, PathLike)):
        model = auto.AutoModelForTokenClassification.from_pretrained(model)
    if isinstance(tokenizer, (str, PathLike)):
        tokenizer = auto.AutoTokenizer.from_pretrained(tokenizer)
    if (made := as_model(model)) is not model:
        options.setdefault("device", "cpu")
    return ConstrainedPipeline(
        model=made,
        tokenizer=tokenizer,
        rules=rules,
        aggregation_strategy=aggregation_strategy,
        stride=stride,
        window=window,
        scheme=scheme,
        id2label=id2label,
        on_infeasible=on_infeasible,
        explain=explain,
        score=score,
        merge=merge,
        pairwise=pairwise,
        start=start,
        end=end,
        **options,
    )
