"""Hugging Face transformers: token classification under rules.

`pipeline` is the pipeline of transformers with rules; `batch` packs logits for code with its own loop;
`TokenClassifier` is any encoder with a CRF on top that knows rules in training, too; `privacy_filter` is the decoder of
openai/privacy-filter, which transformers does not have, with rules on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import numpy.typing as npt

from bridle.decoding.decoder import OnInfeasible
from bridle.errors import ModelError
from bridle.extras import needed
from bridle.integrations.logits import (
    AnyScheme,
    Back,
    Merge,
    batch,
    check_complete,
    labels_of,
    read_biases,
    transition_scores,
)
from bridle.integrations.transformers.constrained_pipeline import (
    NEEDS,
    ConstrainedPipeline,
    Explained,
    LogitsModel,
    Score,
    as_model,
)
from bridle.integrations.transformers.token_classifier import TokenClassifier, TokenClassifierConfig, WordCollator
from bridle.rules.base import Rule

__all__ = [
    "Back",
    "ConstrainedPipeline",
    "Explained",
    "TokenClassifier",
    "TokenClassifierConfig",
    "WordCollator",
    "batch",
    "labels_of",
    "pipeline",
    "privacy_filter",
]

CHECKPOINT = "openai/privacy-filter"


def pipeline(
    model: Any,
    tokenizer: Any,
    *,
    rules: Iterable[Rule | str] | None = None,
    patterns: Mapping[str, Any] | None = None,
    aggregation_strategy: str = "first",
    stride: int | None = None,
    window: int | None = None,
    scheme: AnyScheme = "auto",
    id2label: Any = None,
    on_infeasible: OnInfeasible = "raise",
    time_limit: float | None = None,
    explain: bool = False,
    score: Score = "model",
    merge: Merge = "nearest",
    pairwise: npt.ArrayLike | None = None,
    start: npt.ArrayLike | None = None,
    end: npt.ArrayLike | None = None,
    **options: Any,
) -> ConstrainedPipeline:
    """Create a token classification pipeline of transformers whose labels obey rules.

    It takes and returns what `transformers.TokenClassificationPipeline` does. Without rules it finds the same labels.

    Parameters
    ----------
    model : model, onnxruntime.InferenceSession, callable, str or path
        A model for token classification, such as a `TokenClassifier`, which brings its own rules, scheme and
        transitions; an ONNX graph or a function ``f(input_ids, attention_mask, ...)`` that gives
        logits (B, T, m); or where `AutoModelForTokenClassification` finds one.
    tokenizer : tokenizer, str or path
        Its tokenizer. It must be a fast one if words, windows or rules about the texts of tokens are asked for.
    rules : iterable of Rule or str, optional
        Rules, or sentences such as ``"at most 1 segment of TOTAL"``. They are about words, or about tokens under "none"
        and "simple". ``tokens /\\d{8,}/`` matches their text. There are no hidden rules: write ``"well
        formed"`` if labels should obey their scheme.
    patterns : mapping of str to regular expression, optional
        Expressions that are searched for in the text. ``given NAME`` in a rule then stands for all words, or tokens,
        that have a part in a match: with ``patterns={"digits": r"\\d{8,}"}``, ``fix ACCOUNT at given digits``. ``given
        NAME_rest`` leaves out the first one of each match: ``forbid B-ACCOUNT at given digits_rest`` keeps it in one
        piece. Empty matches do not count. Expressions are strings for `re`, or compiled; those of `re2` take linear
        time whatever the text.
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
    time_limit : float, optional
        Seconds per text for decoding. When they are over, the best labels so far are taken; if there are none,
        `LimitReached` is raised.
    explain : bool, default False
        Return `Explained` lists: the entities with the `Explanation` of the labels.
    score : {"model", "marginal"}, default "model"
        What "score" is: the probability that the model gives to the label, the mean over the words of an entity, as in
        transformers; or the probability of the label given that the hard rules hold (NaN where they cannot).
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
        holds other values that the rules refer to: a mapping, or a function that makes one from the words of a text.
        With ``is_split_into_words=True``, positions count the words as you gave them. One that has no tokens, such as
        an empty string, can have any label, and is in no entity.

    Raises
    ------
    LabelError
        If a rule names a label that the model does not have, or `id2label` has gaps.
    ModelError
        If a slow tokenizer is asked for words, windows or texts of tokens.
    MissingExtra
        If transformers or torch is not installed.

    Examples
    --------
    A function in the place of a model, and a tokenizer of three words:

    >>> import numpy as np
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from transformers import PreTrainedTokenizerFast
    >>> backend = Tokenizer(models.WordLevel({"?": 0, "total": 1, "7": 2, "9": 3}, unk_token="?"))
    >>> backend.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")
    >>> logits = np.array([[2, 0], [2, 0], [0, 1], [0, 2.0]])
    >>> pipe = pipeline(
    ...     lambda input_ids, **_: logits[input_ids],
    ...     tokenizer,
    ...     id2label=["O", "TOTAL"],
    ...     rules=["at most 1 token of TOTAL"],
    ...     aggregation_strategy="simple",
    ... )
    >>> [(entity["word"], entity["start"]) for entity in pipe("total 7 total 9")]
    [('9', 14)]
    """
    if isinstance(tokenizer, (str, PathLike)):
        tokenizer = needed("transformers", "transformers", NEEDS).AutoTokenizer.from_pretrained(tokenizer)
    model = as_model(_load(model))
    if isinstance(model, LogitsModel):
        options.setdefault("device", "cpu")
    if isinstance(model, TokenClassifier):
        rules = model.crf.priced_rules if rules is None else rules
        id2label = model.labels if id2label is None else id2label
        if pairwise is None and start is None and end is None:
            tables = model.crf.transitions, model.crf.start_transitions, model.crf.end_transitions
            pairwise, start, end = (table.detach().cpu().numpy() for table in tables)
    return ConstrainedPipeline(
        model=model,
        tokenizer=tokenizer,
        rules=rules or (),
        patterns=patterns,
        aggregation_strategy=aggregation_strategy,
        stride=stride,
        window=window,
        scheme=scheme,
        id2label=id2label,
        on_infeasible=on_infeasible,
        time_limit=time_limit,
        explain=explain,
        score=score,
        merge=merge,
        pairwise=pairwise,
        start=start,
        end=end,
        **options,
    )


def privacy_filter(
    model: Any = CHECKPOINT,
    tokenizer: Any = None,
    *,
    calibration: Mapping[str, Any] | str | PathLike[str] | None = None,
    operating_point: str = "default",
    rules: Iterable[Rule | str] = (),
    window: int = 4096,
    stride: int = 1024,
    id2label: Any = None,
    **options: Any,
) -> ConstrainedPipeline:
    """Create a pipeline that finds private data with openai/privacy-filter, or a model fine-tuned from it.

    Long texts go through the network in windows of constant size, one by one unless `batch_size` says otherwise. Only
    the logits of a window are kept: about 130 MB for a text of 128,000 tokens and 33 labels, while it is decoded. Where
    windows overlap, the probabilities of a token are averaged; the text is decoded once.

    Parameters
    ----------
    model : model, onnxruntime.InferenceSession, callable, str or path, default "openai/privacy-filter"
        As in `pipeline`. Its labels are O and B-, I-, E-, S- of each type, in any order.
    tokenizer : tokenizer, str or path, optional
        A fast tokenizer; by default the one that comes with the model, if that is named by a string.
    calibration : mapping, str or path, optional
        The six biases: a calibration file, or what it holds, ``{"operating_points": {"default": {"biases": {...}}}}``.
        None: all are 0.
    operating_point : str, default "default"
        Which of its entries to use.
    rules : iterable of Rule or str, optional
        Rules on top, as in `pipeline`. They are about tokens, which are pieces of words: for the text of an entity, use
        `patterns`.
    window, stride : int
        Tokens of a window, and how many of them two windows share. The model looks 128 tokens to either side in each of
        its 8 layers: 1,024 tokens from an edge, what is beyond it makes no difference any more.
    id2label : mapping or list of str, optional
        As in `pipeline`.
    **options : object
        Other options of `pipeline`, such as patterns, on_infeasible, explain, batch_size.

    Returns
    -------
    ConstrainedPipeline
        ``pipe(text)`` gives entities with the keys entity_group, score, word, start and end.

    Raises
    ------
    ModelError
        If the calibration does not hold exactly the six biases, or there is no tokenizer.
    LabelError
        If the labels of the model are not those of BIOES, or some of them are missing.

    Examples
    --------
    A network that finds nothing, and a pattern that does. Real ones need `model` and `tokenizer` only:

    >>> import numpy as np
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from transformers import PreTrainedTokenizerFast
    >>> backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    >>> backend.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> pipe = privacy_filter(
    ...     lambda input_ids, **_: np.zeros((*input_ids.shape, 5)) + [3, 0, 0, 0, 0],
    ...     PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?", pad_token="?"),
    ...     id2label=["O", "B-account", "I-account", "E-account", "S-account"],
    ...     patterns={"digits": r"\\b\\d{8,}\\b"},
    ...     rules=["fix account at given digits"],
    ... )
    >>> [(entity["entity_group"], entity["word"]) for entity in pipe("card 12345678 room 1234")]
    [('account', '12345678')]
    """
    if tokenizer is None and not isinstance(model, (str, PathLike)):
        raise ModelError(
            "the tokenizer is missing",
            got="a model without one",
            wanted="its tokenizer",
            cause=f'Pass AutoTokenizer.from_pretrained("{CHECKPOINT}"), or the name of the model instead of the model.',
        )
    network, biases = _load(model), read_biases(calibration, operating_point)
    labels = labels_of(network if id2label is None else id2label, "BIOES")
    check_complete(labels)
    pairwise, start, end = transition_scores(labels, biases)
    return pipeline(
        network,
        model if tokenizer is None else tokenizer,
        rules=rules,
        aggregation_strategy="simple",
        stride=stride,
        window=window,
        scheme="BIOES",
        id2label=id2label,
        merge="mean",
        pairwise=pairwise,
        start=start,
        end=end,
        **options,
    )


def _load(model: Any) -> Any:
    """Load a model from its name or folder; return other models unchanged."""
    if isinstance(model, (str, PathLike)):
        return needed("transformers", "transformers", NEEDS).AutoModelForTokenClassification.from_pretrained(model)
    return model
