"""The pipeline of transformers for token classification, with a decoder in its last step.

Windows of a long text are put together (`windows`), sub-words become words (`subwords`), the document is decoded once,
and the answer is written as transformers writes it (`entities`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder, OnInfeasible
from bridle.decoding.result import raise_first
from bridle.errors import Argument, EngineError, LabelError, LatticeError, ModelError, shown
from bridle.explain import Explanation
from bridle.extras import needed
from bridle.integrations.logits.id2label import AnyScheme, labels_of
from bridle.integrations.logits.subwords import Array, Pool, as_logits, log_softmax, pooled, softmax, without_scores
from bridle.integrations.logits.windows import Merge, Tokens, join
from bridle.integrations.transformers.entities import Document, Entity, Groups, of_groups, of_tokens
from bridle.integrations.transformers.onnx import LogitsModel
from bridle.lattice import Lattice
from bridle.recent import RecentCache
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules
from bridle.rules.patterns import check_pattern
from bridle.tagging import Block, tag
from bridle.tagging.labelling import Want

NEEDS = "token classification with transformers needs transformers and torch"
needed("torch", "transformers", NEEDS)
_stock = needed("transformers.pipelines.token_classification", "transformers", NEEDS)
_Pipeline: Any = _stock.TokenClassificationPipeline
NONE = _stock.AggregationStrategy.NONE

Given = Mapping[str, Any] | Callable[[list[str]], Mapping[str, Any]]
Score = Literal["model", "marginal"]
POOLS: dict[str, Pool] = {"first": "first", "average": "mean", "max": "max"}  # strategies that label whole words
STRATEGIES = [strategy.value for strategy in _stock.AggregationStrategy]
REST = "_rest"  # after the name of a pattern: its matches without their first words


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
    """A `transformers.TokenClassificationPipeline` whose labels obey rules; `pipeline` makes one.

    It can also be made by transformers itself: ``transformers.pipeline("ner", ..., pipeline_class=ConstrainedPipeline,
    rules=[...])``. Then everything that is not named there is as in transformers.

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
            raise _unknown("merge", merge, "'nearest' or 'mean'")
        tokenizer = options.get("tokenizer")
        if not hasattr(tokenizer, "is_fast"):
            raise ModelError("not a tokenizer", got=shown(tokenizer), wanted="tokenizer=..., that of the model")
        self.labels = labels_of(model if id2label is None else id2label, scheme)
        self.decoder = self._named(
            lambda: Decoder(self.labels, rules, on_infeasible=on_infeasible, time_limit=time_limit)
        )
        self._groups, self._merge = Groups.of(self.labels), merge
        self._transitions = (pairwise, start, end)
        self._has_transitions = any(part is not None for part in self._transitions)
        self._lattice(np.zeros((1, len(self.labels))))  # transitions that do not fit fail here, not at the first text
        self._decoders = RecentCache(16, 16)
        self._stride, self._window = options.get("stride"), options.get("window")
        super().__init__(model=model, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_decoders"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _decoders=RecentCache(16, 16))

    def check_model_type(self, supported_models: Any) -> None:
        """Any function that gives logits will do."""
        if not isinstance(self.model, LogitsModel):
            super().check_model_type(supported_models)

    def _named(self, make: Callable[[], Decoder]) -> Decoder:
        """Make a decoder; if rules name labels that a model without names does not have, say so."""
        try:
            return make()
        except LabelError as error:
            if all(name == f"LABEL_{y}" for y, name in enumerate(self.labels.names)):
                error.cause = "The labels of this model have no names: pass id2label=[...], in the order of the logits."
            raise

    def _decoder(self, rules: Iterable[Rule | str] | None, on_infeasible: OnInfeasible | None) -> Decoder:
        """The decoder for one call, made once for the same rules."""
        wanted = self.decoder.rules if rules is None else as_rules(rules)
        key = (wanted, on_infeasible)
        found: Decoder | None = self._decoders.get(key)
        if found is None:
            found = self._named(lambda: self.decoder.with_rules(wanted, on_infeasible=on_infeasible))
            self._decoders.keep(key, found, 1)
        return found

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
            raise _unknown("aggregation_strategy", strategy, f"one of {', '.join(STRATEGIES)}")
        if isinstance(strategy, str) and strategy.lower() in POOLS and not self.tokenizer.is_fast:
            raise _no_offsets(f'aggregation_strategy="{strategy}" makes words of sub-words')
        before, forward, after = super()._sanitize_parameters(aggregation_strategy=aggregation_strategy, **known)
        if rules is not None or on_infeasible is not None:
            after["decoder"] = self._decoder(rules, on_infeasible)
        if score is not None and score not in ("model", "marginal"):
            raise _unknown("score", score, "'model' or 'marginal'")
        if stride is not None or window is not None:
            stride = _whole(self._stride if stride is None else stride)
            before["tokenizer_params"] = self._windows(stride, _whole(self._window if window is None else window))
        if patterns is not None:
            after["patterns"] = _compiled(patterns)
        chosen = {"given": given, "explain": explain, "score": score, "stride": stride}
        after.update({name: value for name, value in chosen.items() if value is not None})
        return before, forward, after

    def _windows(self, stride: Any, window: Any) -> dict[str, Any]:
        """The options of the tokenizer for windows."""
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
        room = longest - self.tokenizer.num_special_tokens_to_add()
        if type(stride) is not int or not 0 <= stride < room:
            raise EngineError(
                "bad {argument}",
                argument=Argument("stride", stride),
                wanted=f"tokens that two windows share, 0 .. {room - 1} for windows of {longest} tokens",
            )
        told = {"return_overflowing_tokens": True, "padding": True, "stride": stride}
        return told if window is None else {**told, "max_length": window}

    def preprocess(self, sentence: Any, offset_mapping: Any = None, **options: Any) -> Any:
        """Make windows of tokens; transformers writes into these options, which all calls share."""
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
        """Label one text: from what the model said about its windows to entities."""
        tokens = join([self._tokens(outputs) for outputs in all_outputs], stride, self._merge)
        if not len(tokens.ids):
            return Explained() if explain else []
        document = Document(all_outputs[0]["sentence"], tokens, self.tokenizer, _words_given(all_outputs[0]))
        pool, first, logits = POOLS.get(aggregation_strategy.value), None, tokens.logits
        if pool is not None:
            first = document.word_starts()
            logits = pooled(logits, first, pool)
        decoder, ignored = decoder or self.decoder, ["O"] if ignore_labels is None else list(ignore_labels)
        why: Explanation | None = None
        if decoder.rules or explain or score == "marginal" or self._has_transitions:
            values = self._given(decoder, given, patterns or {}, document, first)
            places = document.places(first)
            if places is not None:  # words without tokens can have any label, and are left out of entities
                logits, known = np.zeros((len(document.kept), logits.shape[1]), logits.dtype), logits
                logits[places] = known
            ids, scores, why = _decoded(decoder, self._lattice(logits), values, explain, score)
            if places is not None and len(ids):
                ids, scores = ids[places], scores[places]
        else:
            ids, scores = _most_probable(logits)
        if not len(ids):  # no answer, and on_infeasible="skip"
            return Explained() if explain else []
        scores = scores.astype(tokens.logits.dtype, copy=False)
        if aggregation_strategy == NONE:
            found = of_tokens(document, self.labels, ids, scores, ignored)
        else:
            found = of_groups(document, self._groups, ids, scores, ignored, first)
        return Explained(found, why) if explain else found

    def _lattice(self, logits: Array) -> Lattice:
        return Lattice(log_softmax(logits), *self._transitions)

    def _tokens(self, outputs: dict[str, Any]) -> Tokens:
        """What the model said about the tokens of a window, without special ones and padding."""
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
        if len(without_scores(chosen)):
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
            offsets = offsets + _words_given(outputs)[words, :1]
        return Tokens(chosen, outputs["input_ids"][0].numpy()[keep], keep, offsets, words)

    def _given(
        self,
        decoder: Decoder,
        given: Given | None,
        patterns: Mapping[str, Any],
        document: Document,
        first: Array | None,
    ) -> Mapping[str, Any] | None:
        """The values that the rules refer to: texts of words or tokens, where patterns match, what the caller gave."""
        wanted = decoder.required_inputs & {"tokens", *patterns, *(name + REST for name in patterns)}
        if not wanted and not callable(given):
            return given
        if document.tokens.offsets is None:
            raise _no_offsets("a rule refers to the text")
        values: dict[str, Any] = {"tokens": document.texts(first)} if "tokens" in wanted or callable(given) else {}
        for name, pattern in patterns.items():
            if not wanted.isdisjoint((name, name + REST)):
                found = document.matches(pattern, first)
                values[name] = sorted({t for match in found for t in match})
                values[name + REST] = sorted({t for match in found for t in match[1:]})
        return {**values, **((given(values["tokens"]) if callable(given) else given) or {})}


def _words_given(outputs: dict[str, Any]) -> Any:
    """(k, 2): where the words that were given begin and end in the text; None for a text."""
    found = outputs.get("word_to_chars_map")
    return None if found is None else np.array(found, dtype=np.int64).reshape(-1, 2)


def _most_probable(logits: Array) -> tuple[Array, Array]:
    """The best label of each word alone, and its probability."""
    probabilities = softmax(logits)
    ids = probabilities.argmax(axis=-1)
    return ids, probabilities[np.arange(len(ids)), ids]


def _decoded(
    decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None, explain: bool, score: Score
) -> tuple[Array, Array, Explanation | None]:
    """The best labels under the rules, their probabilities, and the reasons; no labels if there is no answer.

    Labels that break hard rules have no probability given that these hold: NaN.
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


def _compiled(patterns: Mapping[str, Any]) -> dict[str, Any]:
    """Compiled regular expressions; those that are compiled already, by `re` or `re2`, stay as they are."""
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
    return {name: _expression(pattern) for name, pattern in patterns.items()}


def _expression(pattern: Any) -> Any:
    if isinstance(getattr(pattern, "pattern", None), bytes):  # compiled, but not for texts
        pattern = pattern.pattern
    if not hasattr(pattern, "finditer"):
        check_pattern(pattern, "re")
        pattern = re.compile(pattern)
    return pattern


def _whole(value: Any) -> Any:
    """Integers of all types as int; other values stay as they are, and so does True."""
    try:
        return value if isinstance(value, bool) else index(value)
    except TypeError:
        return value


def _unknown(name: str, value: object, wanted: str) -> EngineError:
    return EngineError(f"unknown {name}", got=shown(value), wanted=wanted)


def _no_offsets(what: str) -> ModelError:
    return ModelError(
        f"{what}, which needs the position of each token in the text",
        got="a slow tokenizer, which has no offsets",
        wanted="a fast tokenizer",
        cause="AutoTokenizer.from_pretrained gives one, in transformers 4 with use_fast=True. If there is none, use "
        'aggregation_strategy="simple" without stride, and rules that do not look at texts.',
    )
