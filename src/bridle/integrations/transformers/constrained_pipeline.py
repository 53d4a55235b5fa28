"""The pipeline of transformers for token classification, with a decoder in its last step.

Windows of a long text are joined, sub-words become words (`logits`), the document is decoded once, and the answer has
the form of transformers (`entities`). ONNX Runtime sessions and functions can take the place of a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import index
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder, OnInfeasible
from bridle.decoding.result import raise_first
from bridle.errors import Argument, EngineError, LabelError, LatticeError, ModelError, shown
from bridle.explain import Explanation
from bridle.extras import needed
from bridle.integrations.logits import (
    AnyScheme,
    Array,
    Merge,
    Pool,
    Tokens,
    as_logits,
    find_invalid_rows,
    join_windows,
    labels_of,
    log_softmax,
    pool_words,
)
from bridle.integrations.transformers.entities import Document, Entity, Groups, group_entities, token_entities
from bridle.lattice import Lattice
from bridle.recent import RecentCache
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules
from bridle.rules.patterns import check_pattern
from bridle.tagging import Block, tag
from bridle.tagging.figures import Want

NEEDS = "token classification with transformers needs transformers and torch"
_torch = needed("torch", "transformers", NEEDS)
_stock = needed("transformers.pipelines.token_classification", "transformers", NEEDS)
_Pipeline: Any = _stock.TokenClassificationPipeline
NONE = _stock.AggregationStrategy.NONE

Given = Mapping[str, Any] | Callable[[list[str]], Mapping[str, Any]]
Score = Literal["model", "marginal"]
POOLS: dict[str, Pool] = {"first": "first", "average": "mean", "max": "max"}  # strategies that label whole words
STRATEGIES = [strategy.value for strategy in _stock.AggregationStrategy]
REST = "_rest"  # suffix of a pattern: its matches without their first words
INTEGERS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}


class LogitsModel:
    """A function that computes logits on the CPU, with the interface that pipelines expect of a model."""

    input_modalities = ("text",)

    def __init__(self, logits: Callable[..., Any]) -> None:
        self.logits, self.config = logits, SimpleNamespace(id2label=None)
        self.device = _torch.device("cpu")

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        """Compute the logits of a batch of windows."""
        logits = as_logits(self.logits(**{name: tensor.numpy() for name, tensor in inputs.items()}))
        shape = tuple(inputs["input_ids"].shape)
        if logits.ndim != 3 or logits.shape[:2] != shape:
            raise LatticeError(
                "the model gives logits of a wrong shape",
                got=logits.shape,
                wanted=f"({shape[0]}, {shape[1]}, labels), as input_ids are {shape}",
                cause="A function must return logits of all tokens of all texts, special ones and padding included.",
            )
        return {"logits": _torch.from_numpy(np.array(logits))}

    def can_generate(self) -> bool:
        """Return False: the model does not generate text."""
        return False


def _session_logits(session: Any) -> Callable[..., Any]:
    """Return a function of input_ids, attention_mask, ... that runs an ONNX Runtime session.

    It passes the inputs of the graph in their types, and returns the output "logits", or else the first one.
    """
    types = {entry.name: INTEGERS.get(entry.type) for entry in session.get_inputs()}
    outputs = [entry.name for entry in session.get_outputs()]
    output = "logits" if "logits" in outputs else outputs[0]

    def logits(**inputs: Any) -> Any:
        missing = sorted(types.keys() - inputs.keys())
        if missing:
            raise ModelError(
                "the ONNX graph has inputs that the tokenizer does not make",
                got=", ".join(missing),
                wanted=f"some of {', '.join(sorted(inputs))}",
                cause="Export the model with the names that its tokenizer uses, such as input_ids.",
            )
        feeds = {name: inputs[name].astype(kind or inputs[name].dtype) for name, kind in types.items()}
        return session.run([output], feeds)[0]

    return logits


def as_model(model: Any) -> Any:
    """Wrap sessions and functions in a `LogitsModel`; return other models unchanged."""
    if hasattr(model, "config"):
        return model
    if hasattr(model, "run") and hasattr(model, "get_inputs"):
        return LogitsModel(_session_logits(model))
    if callable(model):
        return LogitsModel(model)
    raise ModelError(
        "not a model",
        got=type(model).__name__,
        wanted="a model of transformers, an onnxruntime.InferenceSession, or a function that gives logits",
    )


class Explained(list[Entity]):
    """The entities of a text, with the reasons for its labels.

    Attributes
    ----------
    explanation : Explanation or None
        Which rules changed the labels, and what each cost; its positions are words, or tokens if these are labelled.
        None for a text without tokens, and for one that has no answer (``on_infeasible="skip"``).
    """

    def __init__(self, entities: Iterable[Entity] = (), explanation: Explanation | None = None) -> None:
        super().__init__(entities)
        self.explanation = explanation


class ConstrainedPipeline(_Pipeline):  # type: ignore[misc]
    """A `transformers.TokenClassificationPipeline` whose labels obey rules, as `pipeline` returns it.

    transformers can create one, too: ``transformers.pipeline("ner", ..., pipeline_class=ConstrainedPipeline,
    rules=[...])``. All other options are then those of transformers.

    Parameters
    ----------
    model : model of transformers
    rules, on_infeasible, time_limit, scheme, id2label, pairwise, start, end, merge
        As in `pipeline`.
    **options : object
        Options of `pipeline` that a call can change, and those of `TokenClassificationPipeline`.

    Attributes
    ----------
    labels : Labels
        The labels of the model.
    decoder : Decoder
        Decodes all texts whose call brings no rules of its own.
    """

    def __init__(
        self,
        *,
        model: Any,
        rules: Iterable[Rule | str] = (),
        on_infeasible: OnInfeasible = "raise",
        time_limit: float | None = None,
        scheme: AnyScheme = "auto",
        id2label: Any = None,
        pairwise: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
        merge: Merge = "nearest",
        **options: Any,
    ) -> None:
        if merge not in ("nearest", "mean"):
            raise _unknown_value("merge", merge, "'nearest' or 'mean'")
        tokenizer = options.get("tokenizer")
        if not hasattr(tokenizer, "is_fast"):
            raise ModelError("not a tokenizer", got=shown(tokenizer), wanted="tokenizer=..., that of the model")
        self.labels = labels_of(model if id2label is None else id2label, scheme)
        self.decoder = self._build_decoder(
            lambda: Decoder(self.labels, rules, on_infeasible=on_infeasible, time_limit=time_limit)
        )
        self._groups, self._merge = Groups.of(self.labels), merge
        self._transitions = (pairwise, start, end)
        self._lattice(np.zeros((1, len(self.labels))))  # raises at once if transitions do not fit
        self._decoders = RecentCache(16, 16)
        self._stride, self._window = options.get("stride"), options.get("window")
        super().__init__(model=model, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_decoders"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _decoders=RecentCache(16, 16))

    def check_model_type(self, supported_models: Any) -> None:
        """Accept any function that computes logits."""
        if not isinstance(self.model, LogitsModel):
            super().check_model_type(supported_models)

    def _build_decoder(self, build: Callable[[], Decoder]) -> Decoder:
        """Build a decoder; if a rule names an unknown label and the labels have no names, explain how to name them."""
        try:
            return build()
        except LabelError as error:
            if all(name == f"LABEL_{y}" for y, name in enumerate(self.labels.names)):
                error.cause = "The labels of this model have no names: pass id2label=[...], in the order of the logits."
            raise

    def _decoder(self, rules: Iterable[Rule | str] | None, on_infeasible: OnInfeasible | None) -> Decoder:
        """Return the decoder for the rules of one call, from the cache if possible."""
        parsed = self.decoder.rules if rules is None else as_rules(rules)
        key = (parsed, on_infeasible)
        decoder: Decoder | None = self._decoders.get(key)
        if decoder is None:
            decoder = self._build_decoder(lambda: self.decoder.with_rules(parsed, on_infeasible=on_infeasible))
            self._decoders.keep(key, decoder, 1)
        return decoder

    def _sanitize_parameters(
        self,
        rules: Iterable[Rule | str] | None = None,
        on_infeasible: OnInfeasible | None = None,
        given: Given | None = None,
        patterns: Mapping[str, Any] | None = None,
        explain: bool | None = None,
        score: Score | None = None,
        stride: int | None = None,
        window: int | None = None,
        aggregation_strategy: Any = None,
        **known: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort the options of a call, or of all calls, into those of the three steps."""
        strategy = getattr(aggregation_strategy, "value", aggregation_strategy)
        if strategy is not None and str(strategy).lower() not in STRATEGIES:
            raise _unknown_value("aggregation_strategy", strategy, f"one of {', '.join(STRATEGIES)}")
        if isinstance(strategy, str) and strategy.lower() in POOLS and not self.tokenizer.is_fast:
            raise _no_offsets(f'aggregation_strategy="{strategy}" makes words of sub-words')
        before, forward, after = super()._sanitize_parameters(aggregation_strategy=aggregation_strategy, **known)
        if rules is not None or on_infeasible is not None:
            after["decoder"] = self._decoder(rules, on_infeasible)
        if score is not None and score not in ("model", "marginal"):
            raise _unknown_value("score", score, "'model' or 'marginal'")
        if stride is not None or window is not None:
            stride = _as_int(self._stride if stride is None else stride)
            before["tokenizer_params"] = self._windows(stride, _as_int(self._window if window is None else window))
        if patterns is not None:
            after["patterns"] = _compile_patterns(patterns)
        chosen = {"given": given, "explain": explain, "score": score, "stride": stride}
        after.update({name: value for name, value in chosen.items() if value is not None})
        return before, forward, after

    def _windows(self, stride: Any, window: Any) -> dict[str, Any]:
        """Return the options of the tokenizer for windows."""
        if not self.tokenizer.is_fast:
            raise _no_offsets("stride= cuts the text into windows")
        if stride is None:
            raise EngineError(
                "{argument} needs stride",
                argument=Argument("window", window),
                wanted="stride=..., the tokens that two windows share",
            )
        longest = self.tokenizer.model_max_length if window is None else window
        most = self.tokenizer.model_max_length
        if type(longest) is not int or not 0 < longest <= most:
            raise EngineError(
                "bad {argument}",
                argument=Argument("window", window),
                wanted=f"at most {most} tokens, tokenizer.model_max_length",
            )
        usable = longest - self.tokenizer.num_special_tokens_to_add()
        if type(stride) is not int or not 0 <= stride < usable:
            raise EngineError(
                "bad {argument}",
                argument=Argument("stride", stride),
                wanted=f"tokens that two windows share, 0 .. {usable - 1} for windows of {longest} tokens",
            )
        options = {"return_overflowing_tokens": True, "padding": True, "stride": stride}
        return options if window is None else {**options, "max_length": window}

    def preprocess(self, sentence: Any, offset_mapping: Any = None, **options: Any) -> Any:
        """Split a text into windows of tokens. The options are copied, because transformers changes them."""
        if "tokenizer_params" in options:
            options["tokenizer_params"] = dict(options["tokenizer_params"])
        return super().preprocess(sentence, offset_mapping, **options)

    def postprocess(
        self,
        all_outputs: list[dict[str, Any]],
        aggregation_strategy: Any = NONE,
        ignore_labels: Iterable[str] | None = None,
        *,
        decoder: Decoder | None = None,
        given: Given | None = None,
        patterns: Mapping[str, Any] | None = None,
        explain: bool = False,
        score: Score = "model",
        stride: int = 0,
    ) -> list[Entity]:
        """Convert the outputs of the model for the windows of one text into entities."""
        tokens = join_windows([self._tokens(outputs) for outputs in all_outputs], stride, self._merge)
        if not len(tokens.ids):
            return Explained() if explain else []
        document = Document(all_outputs[0]["sentence"], tokens, self.tokenizer, _word_offsets(all_outputs[0]))
        pool, first, logits = POOLS.get(aggregation_strategy.value), None, tokens.logits
        if pool is not None:
            first = document.word_starts()
            logits = pool_words(logits, first, pool)
        decoder, ignored = decoder or self.decoder, ["O"] if ignore_labels is None else list(ignore_labels)
        values, places = self._given(decoder, given, patterns or {}, document, first), document.places(first)
        if places is not None:  # words without tokens can have any label, and are left out of entities
            padded = np.zeros((len(document.kept), logits.shape[1]), logits.dtype)
            padded[places] = logits
            logits = padded
        ids, scores, why = _decode(decoder, self._lattice(logits), values, explain, score)
        if places is not None and len(ids):
            ids, scores = ids[places], scores[places]
        if not len(ids):  # no answer, and on_infeasible="skip"
            return Explained() if explain else []
        scores = scores.astype(tokens.logits.dtype, copy=False)
        if aggregation_strategy == NONE:
            entities = token_entities(document, self.labels, ids, scores, ignored)
        else:
            entities = group_entities(document, self._groups, ids, scores, ignored, first)
        return Explained(entities, why) if explain else entities

    def _lattice(self, logits: Array) -> Lattice:
        return Lattice(log_softmax(logits), *self._transitions)

    def _tokens(self, outputs: dict[str, Any]) -> Tokens:
        """Return the tokens of a window with their logits, without special tokens and padding."""
        keep = np.flatnonzero(outputs["special_tokens_mask"][0].numpy() == 0)
        logits = as_logits(outputs["logits"][0])
        chosen = logits[keep]
        if logits.shape[1] != len(self.labels):
            raise LatticeError(
                "the model has another number of labels than id2label",
                got=f"{logits.shape[1]} logits for each token",
                wanted=f"{len(self.labels)}, one for each of {', '.join(self.labels.names[:6])}...",
                cause="Pass id2label with a name for each column of the logits.",
            )
        if len(find_invalid_rows(chosen)):
            raise LatticeError(
                "the logits of the model contain NaN or infinity",
                got="NaN or infinity",
                wanted="numbers, or -inf for some labels",
                cause="An overflow in half precision? Load the model with dtype=torch.float32.",
            )
        offsets, words = outputs["offset_mapping"], outputs.get("word_ids")
        if offsets is not None:
            offsets = np.asarray(offsets[0])[keep]
        if words is not None:
            padding = len(logits) - len(words) if self.tokenizer.padding_side == "left" else 0
            words = np.array([-1 if word is None else word for word in words], dtype=np.int64)[keep - padding]
            offsets = offsets + _word_offsets(outputs)[words, :1]
        return Tokens(chosen, outputs["input_ids"][0].numpy()[keep], keep, offsets, words)

    def _given(
        self,
        decoder: Decoder,
        given: Given | None,
        patterns: Mapping[str, Any],
        document: Document,
        first: Array | None,
    ) -> Mapping[str, Any] | None:
        """Return the values that rules refer to: texts of words, matches of patterns, values of the caller."""
        used = decoder.required_inputs & {"tokens", *patterns, *(name + REST for name in patterns)}
        if not used and not callable(given):
            return given
        if document.tokens.offsets is None:
            raise _no_offsets("a rule refers to the text")
        values: dict[str, Any] = {"tokens": document.texts(first)} if "tokens" in used or callable(given) else {}
        for name, pattern in patterns.items():
            if not used.isdisjoint((name, name + REST)):
                matches = document.matches(pattern, first)
                values[name] = sorted({t for match in matches for t in match})
                values[name + REST] = sorted({t for match in matches for t in match[1:]})
        return {**values, **((given(values["tokens"]) if callable(given) else given) or {})}


def _word_offsets(outputs: dict[str, Any]) -> Any:
    """Return start and end of the words that the caller passed, (k, 2); None for a text."""
    offsets = outputs.get("word_to_chars_map")
    return None if offsets is None else np.array(offsets, dtype=np.int64).reshape(-1, 2)


def _decode(
    decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None, explain: bool, score: Score
) -> tuple[Array, Array, Explanation | None]:
    """Return the best labels under the rules, their probabilities and the explanation; no labels without an answer.

    The probability of labels that violate hard rules is NaN.
    """
    block = Block(1, scores=[lattice], given=None if given is None else [given])
    want: tuple[Want, ...] = ("probabilities",) if score == "marginal" else ()
    outcomes = tag(block, None, decoder, want=want)
    raise_first(outcomes.decodings, infeasible=decoder.on_infeasible != "skip", errors=outcomes.errors)
    ids = outcomes.ids
    why = decoder.explain(lattice, given) if explain and outcomes.labelled[0] else None
    if outcomes.probabilities is None:
        return ids, np.exp(lattice.unary[np.arange(len(ids)), ids]), why
    return ids, outcomes.per_label(outcomes.probabilities), why


def _compile_patterns(patterns: Mapping[str, Any]) -> dict[str, Any]:
    """Compile regular expressions; expressions compiled by `re` or `re2` stay unchanged."""
    if not isinstance(patterns, Mapping) or not all(isinstance(name, str) for name in patterns):
        raise EngineError("patterns are not named", got=shown(patterns), wanted=r'a mapping, as in {"digits": r"\d+"}')
    for name in patterns:
        if name == "tokens" or name + REST in patterns:
            raise EngineError(
                f"a pattern cannot be called {name if name == 'tokens' else name + REST}",
                got=f"the patterns {', '.join(patterns)}",
                wanted="another name",
                cause=f"tokens are the texts of all words, NAME{REST} the matches of NAME without their first words.",
            )
    return {name: _compile(pattern) for name, pattern in patterns.items()}


def _compile(pattern: Any) -> Any:
    if isinstance(getattr(pattern, "pattern", None), bytes):  # compiled for bytes
        pattern = pattern.pattern
    if not hasattr(pattern, "finditer"):
        check_pattern(pattern, "re")
        pattern = re.compile(pattern)
    return pattern


def _as_int(value: Any) -> Any:
    """Return integers of all types as int; other values, and booleans, unchanged."""
    try:
        return value if isinstance(value, bool) else index(value)
    except TypeError:
        return value


def _unknown_value(name: str, value: object, wanted: str) -> EngineError:
    return EngineError(f"unknown {name}", got=shown(value), wanted=wanted)


def _no_offsets(what: str) -> ModelError:
    return ModelError(
        f"{what}, which needs the position of each token in the text",
        got="a slow tokenizer, which has no offsets",
        wanted="a fast tokenizer",
        cause="AutoTokenizer.from_pretrained gives one, in transformers 4 with use_fast=True. If there is none, use "
        'aggregation_strategy="simple" without stride, and rules that do not look at texts.',
    )
