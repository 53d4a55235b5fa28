"""What `fit` of a model does: encode examples, train on them, keep the weights that are not zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given
from bridle.errors import ModelError, shown
from bridle.features import Encoded, Features, check_sequences
from bridle.labels import Labels, Scheme, scheme_of
from bridle.models.checks import (
    Given,
    check_pair,
    count_of,
    digest_of,
    fingerprint,
    ids_of,
    names_of,
    of_dev,
    one_of,
    path_of,
    with_tokens,
)
from bridle.models.layout import Layout
from bridle.models.linear import Kind, Linear
from bridle.models.task import Learner, Task
from bridle.models.training import Found, Plan, Progress, Step, train
from bridle.rules.base import Rule

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Data:
    """Sequences with labels, as they come to `fit`."""

    X: Sequence[Any]
    y: Sequence[Sequence[str]]
    given: Sequence[Given] | None = None  # values for the rules of training

    def check(self, name: str = "given") -> None:
        """Refuse given values that do not belong to the sequences."""
        check_sequences(self.X)
        check_given(self.given, len(self.X), name)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a model wants of its training."""

    features: Features  # without a vocabulary yet
    scheme: str | None  # of the labels; "auto": the one that their names suggest
    pairs: str  # "seen" or "all": which pairs of attribute and label get a weight
    bigram: bool  # are there weights of label bigrams?
    kind: Kind  # what the scores of the lattices are
    rules: tuple[Rule, ...]  # that are on in training
    learner: Callable[[Task, Decoder, Sequence[Given] | None], Learner]
    settings: Mapping[str, Any]  # by which a checkpoint tells this training from others


@dataclass(frozen=True, slots=True)
class Fitted:
    """What training leaves."""

    labels: Labels
    features: Features
    linear: Linear
    progress: Progress
    n_weights: int  # that could be learned
    trouble: BaseException | None  # what ended training before its time


@dataclass(frozen=True, slots=True)
class _Examples:
    """Data in numbers."""

    encoded: Encoded
    gold: Ids  # (N,)
    given: Sequence[Given] | None


def plan_of(
    *,
    iterations: Any,
    tolerance: float,
    patience: Any,
    dev: Data | None,
    watch: Callable[[Step], None] | None,
    checkpoint: str | Path | None,
    every: Any,
    resume: str | Path | None,
) -> Plan:
    """Check the settings that say how long to train, what to show and what to keep."""
    if patience is not None:
        count_of("patience", patience)
    if watch is not None and not callable(watch):
        raise ModelError("watch cannot be called", got=shown(watch), wanted="a function of a Step")
    if patience is not None and dev is None:
        raise ModelError("patience needs a development set", got="dev=None", wanted="fit(X, y, dev=(X, y))")
    return Plan(
        count_of("iterations", iterations),
        tolerance,
        patience,
        watch,
        path_of("checkpoint", checkpoint),
        count_of("every", every),
        path_of("resume", resume),
    )


def dev_of(dev: Any, given: Sequence[Given] | None) -> Data | None:
    """The development set as it came to `fit`: a pair of X and y, or None."""
    if dev is None:
        return None
    check_pair(dev)
    made = Data(dev[0], dev[1], given)
    made.check("dev_given")
    return made


def labels_of(y: Sequence[Sequence[str]], scheme: str | None) -> Labels:
    """The labels of the training data, sorted by name. scheme="auto": the one that the names suggest."""
    names = names_of(y)
    return Labels(names, cast(Scheme | None, scheme_of(names) if scheme == "auto" else scheme))


def fit(setup: Setup, data: Data, dev: Data | None, plan: Plan, on_unknown: str = "raise") -> Fitted:
    """Train on data; with a development set, keep the model that does best on it.

    on_unknown: labels of the development set that training does not know are an error ("raise"), or count as "wrong".
    """
    one_of("on_unknown", on_unknown, ("raise", "wrong"))
    features = setup.features
    encoded = features.fit(data.X)
    labels = labels_of(data.y, setup.scheme)
    gold = ids_of(labels, data.y, encoded.offsets)
    task = Task.of(encoded, gold, (len(features), len(labels)), setup.pairs, setup.bigram)
    decoder = Decoder(labels, setup.rules, on_infeasible="relax")
    examples = _Examples(encoded, gold, with_tokens(features, data.X, data.given, decoder.required_inputs))
    identity = {**setup.settings, "data": fingerprint(encoded, gold), "given": digest_of(examples.given)}
    measure = None
    if dev is not None:
        held = _held_out(features, labels, decoder, dev, on_unknown)
        measure = _accuracy_on(held, task.layout, decoder, setup.kind)
        identity |= {"dev": fingerprint(held.encoded, held.gold), "dev_given": digest_of(held.given)}
    learner = setup.learner(task, decoder, examples.given)
    n_weights, layout = task.n_weights, task.layout

    def check(found: Found, task: Task = task) -> None:
        task.check_pinned(*found)
        Linear.of(task.layout, *found)

    found, progress, trouble = train(learner, plan, measure, identity, check)
    del learner, measure, task, examples, encoded, check  # they are larger than all that follows
    kept, linear = Linear.of(layout, *found).pruned()
    features.keep(kept)
    return Fitted(labels, features, linear, progress, n_weights, trouble)


def _held_out(features: Features, labels: Labels, decoder: Decoder, dev: Data, on_unknown: str) -> _Examples:
    """The development set in numbers."""
    with of_dev():
        encoded = features.encode(dev.X)
        gold = ids_of(labels, dev.y, encoded.offsets, on_unknown)
        return _Examples(encoded, gold, with_tokens(features, dev.X, dev.given, decoder.required_inputs))


def _accuracy_on(held: _Examples, layout: Layout, decoder: Decoder, kind: Kind) -> Callable[[Found], float]:
    """Accuracy on the development set, as a function of the weights."""
    if not len(held.gold):
        raise ModelError("the development set is empty", got="no tokens", wanted="at least one")

    def accuracy(found: Found) -> float:
        batch = Linear.of(layout, *found).scores(held.encoded, kind)
        with of_dev():
            return float((decoder.decode_batch(batch, held.given).ids == held.gold).mean())

    return accuracy
