"""An encoder of transformers with a `ConstrainedCRF` on top: trained by `Trainer`, saved by `save_pretrained`.

    emissions[w] = linear(hidden state of the first sub-word of word w); 0 for all labels if it has no sub-words
    p(y | rules) as in bridle.torch

A text that is longer than the encoder's window becomes several windows that overlap; each word takes its emissions from
the window in which it has the most context, and the CRF sees the text as one sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

from bridle.decoding.decoder import OnInfeasible
from bridle.errors import LabelError, LatticeError, ModelError, shown
from bridle.integrations.logits import AnyScheme, labels_of
from bridle.labels import Labels
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules
from bridle.torch import ConstrainedCRF
from bridle.torch.sums import UNKNOWN

STRIDE = 4  # windows of a long text share a quarter of their tokens
_PADDING, _NO_SUB_WORDS = -1, -2  # places of what is no word, and of a word that the tokenizer drops
_NO_LIMIT = 10**9  # tokenizers without a limit have a larger one


class TokenClassifierConfig(PretrainedConfig):
    """The settings that `TokenClassifier` is built from: the encoder's configuration, the labels and the rules.

    Parameters
    ----------
    encoder : dict, optional
        The configuration of the encoder.
    rules : list of str
        Sentences of the rules.
    scheme : str or None
        The tagging scheme of the labels.
    outside : list of str
        The labels of tokens outside all segments.
    on_infeasible : {"raise", "skip"}, default "raise"
        As in `ConstrainedCRF`.
    **options : object
        Options of `transformers.PretrainedConfig`; ``id2label`` names the labels.
    """

    model_type = "bridle-token-classifier"

    def __init__(
        self,
        encoder: Mapping[str, Any] | None = None,
        rules: Sequence[str] = (),
        scheme: AnyScheme = None,
        outside: Sequence[str] = ("O",),
        on_infeasible: Literal["raise", "skip"] = "raise",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.encoder, self.rules = dict(encoder or {}), list(rules)
        self.scheme, self.outside, self.on_infeasible = scheme, list(outside), on_infeasible

    @property
    def labels(self) -> Labels:
        """The labels, in the order of the emissions."""
        return Labels([self.id2label[y] for y in range(len(self.id2label))], self.scheme, outside=self.outside)


class TokenClassifier(PreTrainedModel):
    """Any encoder of transformers with a CRF on top that knows rules, in training and in decoding.

    Build it with `from_encoder`; `from_pretrained` loads what `save_pretrained` wrote, labels and rules included, and
    so does ``AutoModelForTokenClassification`` once this module is imported. `pipeline` accepts it as any other model
    and uses its rules and transitions.

    Parameters
    ----------
    config : TokenClassifierConfig

    Attributes
    ----------
    encoder : PreTrainedModel
    classifier : Linear
        From hidden states to emissions.
    crf : ConstrainedCRF
        Transitions, rules and losses.
    """

    config_class = TokenClassifierConfig
    base_model_prefix = "encoder"
    _keys_to_ignore_on_save = ("crf._extra_state",)  # the configuration has labels and rules
    _keys_to_ignore_on_load_missing = (r"crf\._extra_state",)
    supports_gradient_checkpointing = True  # of the encoder

    def __init__(self, config: TokenClassifierConfig) -> None:
        super().__init__(config)
        kind = dict(config.encoder)
        self.encoder = AutoModel.from_config(AutoConfig.for_model(kind.pop("model_type"), **kind))
        inner = self.encoder.config
        dropout = next(
            (p for n in ("classifier_dropout", "hidden_dropout_prob") if (p := getattr(inner, n, None)) is not None),
            0.1,
        )
        self.labels = config.labels
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(inner.hidden_size, len(self.labels))
        self.crf = ConstrainedCRF(self.labels, config.rules, batch_first=True, on_infeasible=config.on_infeasible)
        self.post_init()

    @classmethod
    def from_encoder(
        cls,
        encoder: Any,
        labels: Labels | Iterable[str],
        rules: Iterable[Rule | str] = (),
        *,
        scheme: AnyScheme = "auto",
        on_infeasible: Literal["raise", "skip"] = "raise",
    ) -> Self:
        """Put a new classifier and a new CRF on top of a pretrained encoder.

        Parameters
        ----------
        encoder : PreTrainedModel, str or path
            An encoder, as `AutoModel` loads it, or its name or folder.
        labels : Labels or iterable of str
            The labels.
        rules : iterable of Rule or str
            Hard and soft rules; the penalties of soft rules are learned.
        scheme : {"auto", "IO", "BIO", "BIOES", "BMES"} or None, default "auto"
            The tagging scheme; "auto" tells it from the names of the labels.
        on_infeasible : {"raise", "skip"}, default "raise"
            What to do with training sequences whose labels break a hard rule, as in `ConstrainedCRF`.

        Returns
        -------
        TokenClassifier

        Raises
        ------
        LabelError
            If a rule names an unknown label.
        ModelError
            If `encoder` is not a model of transformers.
        """
        if isinstance(encoder, (str, PathLike)):
            encoder = AutoModel.from_pretrained(encoder)
        if not isinstance(encoder, PreTrainedModel):
            raise ModelError("not an encoder", got=shown(encoder), wanted="a model of transformers, its name or folder")
        if not isinstance(labels, Labels):
            labels = labels_of(list(labels), scheme)
        config = TokenClassifierConfig(
            encoder.config.to_dict(),
            [str(rule) for rule in as_rules(rules)],
            labels.scheme,
            labels.all_outside,
            on_infeasible,
            id2label=dict(enumerate(labels.names)),
            label2id={name: y for y, name in enumerate(labels.names)},
        )
        model = cls(config)
        model.encoder = encoder
        return model

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        word_starts: Tensor | None = None,
        given: Sequence[Mapping[str, Any]] | None = None,
        **inputs: Any,
    ) -> TokenClassifierOutput:
        """Compute emissions and, with `labels`, the loss: -log p(labels | the hard rules hold).

        Parameters
        ----------
        input_ids, attention_mask : Tensor of int, shape (R, T)
            Windows of sub-words, as the tokenizer gives them.
        labels : Tensor of int, shape (B, W), optional
            Ids of the labels of the words; -100: not known. Without `word_starts`, (R, T): the ids of first sub-words,
            and -100 for all other tokens, as transformers aligns them.
        word_starts : Tensor of int, shape (B, W), optional
            Where the first sub-word of each word is among the R * T tokens; -1: padding; -2: a word without sub-words.
            `WordCollator` makes it.
        given : list of dict, optional
            What the rules refer to, one dict per sequence.
        **inputs : object
            Other inputs of the encoder, such as ``token_type_ids``.

        Returns
        -------
        TokenClassifierOutput
            `logits` are the emissions: of words (B, W, m) with `word_starts`, otherwise of tokens (R, T, m).
        """
        inputs.pop("return_dict", None)
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **inputs)[0]
        logits = self.classifier(self.dropout(hidden))
        if word_starts is None and labels is None:
            return TokenClassifierOutput(logits=logits)
        starts = _labelled(labels) if word_starts is None else word_starts
        words = logits.flatten(0, 1)[starts.clamp(min=0)].masked_fill((starts < 0)[..., None], 0)
        if word_starts is None and labels is not None:
            labels = labels.flatten()[starts.clamp(min=0)]
        loss = None if labels is None else self.crf.nll(words, labels, starts != _PADDING, given=given)
        return TokenClassifierOutput(loss=loss, logits=logits if word_starts is None else words)

    @torch.no_grad()
    def predict(self, batch: Mapping[str, Any], *, on_infeasible: OnInfeasible = "raise") -> list[list[str]]:
        """Label the words of a batch of `WordCollator` under the rules.

        Parameters
        ----------
        batch : mapping
            What `WordCollator` makes; labels are not needed.
        on_infeasible : {"raise", "relax", "skip"}, default "raise"
            What to do with a sequence no labelling of which obeys the hard rules, as in `Decoder`.

        Returns
        -------
        list of list of str
            The labels of each sequence; none if it was skipped.
        """
        self.eval()
        inputs = {k: v.to(self.device) if isinstance(v, Tensor) else v for k, v in batch.items() if k != "labels"}
        mask, given = inputs["word_starts"] != _PADDING, inputs.get("given")
        return list(self.crf.decodings(self(**inputs).logits, mask, given=given, on_infeasible=on_infeasible).labels)

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise what the encoder's weights do not hold."""
        if module is self.classifier:
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)


def _labelled(labels: Tensor) -> Tensor:
    """Return where the labelled tokens of each row (R, T) are among all R * T, (R, W); -1: there are no more."""
    rows, places = torch.nonzero(labels != UNKNOWN, as_tuple=True)
    count = (labels != UNKNOWN).cumsum(1)
    starts = labels.new_full((len(labels), int(count.max()) if count.numel() else 0), _PADDING)
    starts[rows, count[rows, places] - 1] = rows * labels.shape[1] + places
    return starts


@dataclass(frozen=True, slots=True)
class WordCollator:
    """Makes batches for `TokenClassifier` of sequences of words; for `Trainer` with ``remove_unused_columns=False``.

    Parameters
    ----------
    tokenizer : tokenizer
        A fast one.
    labels : Labels
        Those of the model, ``model.labels``.
    window : int, optional
        Tokens of a window, special ones included. Default: ``tokenizer.model_max_length``; if the tokenizer has no
        limit, a sequence is a single window.
    stride : int, optional
        Tokens that windows of a long sequence share; a quarter of a window by default.

    Raises
    ------
    ModelError
        If the tokenizer is not a fast one, or `stride` is not less than the words' part of a window.
    """

    tokenizer: Any
    labels: Labels
    window: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        if not getattr(self.tokenizer, "is_fast", False):
            raise ModelError("not a fast tokenizer", got=shown(self.tokenizer), wanted="one that tells words")
        window, stride = self._sizes()
        inner = None if window is None else window - self.tokenizer.num_special_tokens_to_add()
        if inner is not None and not 0 <= stride < inner:
            wanted = f"a stride of 0 .. {inner - 1}, or a larger window" if inner > 0 else "a larger window"
            raise ModelError("windows do not move on", got=f"window={window}, stride={stride}", wanted=wanted)

    def _sizes(self) -> tuple[int | None, int]:
        """Return the tokens of a window (None: no limit) and the stride."""
        limit = self.tokenizer.model_max_length
        window = self.window if self.window is not None else None if limit > _NO_LIMIT else limit
        return window, self.stride if self.stride is not None else 0 if window is None else window // STRIDE

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Encode sequences.

        Parameters
        ----------
        examples : sequence of dict
            With the words as "tokens", their labels (names or ids; None or -100: not known) as "labels", which may be
            missing, and what rules refer to as "given", which may be missing. Rules about texts of tokens need no
            "given".

        Returns
        -------
        dict
            The arguments of `TokenClassifier.forward`.

        Raises
        ------
        LabelError
            If a label is not one of the model's.
        LatticeError
            If a sequence has no list of words, or another number of labels than words.
        """
        words = [_words(example, b) for b, example in enumerate(examples)]
        window, stride = self._sizes()
        encoded = self.tokenizer(
            words,
            is_split_into_words=True,
            truncation=window is not None,
            max_length=window,
            stride=stride,
            return_overflowing_tokens=True,
            padding=True,
            return_tensors="pt",
        )
        rows = encoded.pop("overflow_to_sample_mapping", None)
        owners = list(range(len(words))) if rows is None else rows.tolist()
        starts = self._starts([len(w) for w in words], owners, encoded)
        batch = {**encoded, "word_starts": torch.from_numpy(starts)}
        batch["given"] = [
            {"tokens": own, **(example.get("given") or {})} for own, example in zip(words, examples, strict=True)
        ]
        if any(example.get("labels") is not None for example in examples):
            batch["labels"] = torch.from_numpy(self._ids(words, examples, starts))
        return batch

    def _starts(self, lengths: list[int], owners: list[int], encoded: Any) -> Any:
        """Find the first sub-word of each word, in the window in which it has the most context, (B, W)."""
        starts = np.full((len(lengths), max([*lengths, 1])), _PADDING, dtype=np.int64)
        for b, n in enumerate(lengths):
            starts[b, :n] = _NO_SUB_WORDS
        context = np.full(starts.shape, -1, dtype=np.int64)
        T = encoded["input_ids"].shape[1]
        for row, b in enumerate(owners):
            ids = np.array([-1 if word is None else word for word in encoded.word_ids(row)], dtype=np.int64)
            places = np.flatnonzero(ids >= 0)
            own, first = np.unique(ids[places], return_index=True)
            at = places[first]
            if len(at) == 0:
                continue
            beside = np.minimum(at - places[0], places[-1] - at)
            better = beside > context[b, own]  # never a window that begins within the word: 0 there, 0 or more before
            starts[b, own[better]], context[b, own[better]] = row * T + at[better], beside[better]
        return starts

    def _ids(self, words: list[list[str]], examples: Sequence[Mapping[str, Any]], starts: Any) -> Any:
        ids = np.full(starts.shape, UNKNOWN, dtype=np.int64)
        for b, example in enumerate(examples):
            gold = example.get("labels")
            if gold is None:
                continue
            if len(gold) != len(words[b]):
                raise LatticeError(
                    "labels do not fit the words", got=len(gold), wanted=f"{len(words[b])} labels", sequence=b
                )
            for t, label in enumerate(gold):
                ids[b, t] = self._id(label, b)
        return ids

    def _id(self, label: Any, sequence: int) -> int:
        if label is None or label == UNKNOWN:
            return UNKNOWN
        if isinstance(label, str):
            try:
                return self.labels.id(label)
            except LabelError as error:
                raise error.at(sequence=sequence) from None
        if not 0 <= int(label) < len(self.labels):
            raise LabelError(
                "a label is not one of the model's",
                got=shown(label),
                wanted=f"0 .. {len(self.labels) - 1}, or a name",
                sequence=sequence,
            )
        return int(label)


def _words(example: Mapping[str, Any], sequence: int) -> list[str]:
    """Return the words of an example."""
    words = example.get("tokens")
    if isinstance(words, str) or not isinstance(words, Iterable) or not all(isinstance(w, str) for w in words):
        got, wanted = shown(words), 'a list of words as "tokens"'
        raise LatticeError("a sequence is not a list of words", got=got, wanted=wanted, sequence=sequence)
    return list(words)


AutoConfig.register(TokenClassifierConfig.model_type, TokenClassifierConfig, exist_ok=True)
AutoModelForTokenClassification.register(TokenClassifierConfig, TokenClassifier, exist_ok=True)
