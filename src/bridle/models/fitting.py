"""What `fit` of a model does: encode examples, choose settings, train, keep the weights that are not zero."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given
from bridle.errors import LabelError, ModelError
from bridle.features import Encoded, Features, TemplateFeatures, sequences_of
from bridle.labels import Labels, Scheme, scheme_of
from bridle.lattice import Batch
from bridle.models import files
from bridle.models.checks import (
    Given,
    check_callable,
    check_pair,
    count_of,
    digest_of,
    fingerprint,
    given_for,
    given_of,
    ids_of,
    labellings_of,
    names_of,
    of_dev,
    one_of,
    path_of,
)
from bridle.models.crossfit import CrossFit, FoldedTask
from bridle.models.folds import Folds, folds_of
from bridle.models.linear import Kind, Linear
from bridle.models.measures import judge_of, measure_of
from bridle.models.seen import Hashes, hashes_of, sketch_of
from bridle.models.task import Found, Learner, Task
from bridle.models.training import Plan, Progress, Step, train
from bridle.models.tuning import FEWEST, MOST_TOKENS, Tuning
from bridle.rules.base import Rule

Ids = npt.NDArray[np.int32]
_NO_MATTER = ("threads", "folds", "tuning_seconds", "patience")  # under others, scores are still those of this model


Tuner = Callable[[FoldedTask | None], tuple[Tuning, list[Batch]]]


@dataclass(frozen=True, slots=True)
class Data:
    """Sequences with labels, as they come to `fit`."""

    X: Sequence[Any]
    y: Sequence[Sequence[str | None]]  # None: the label is missing
    given: Sequence[Given] | None  # values for the rules of training

    @classmethod
    def of(cls, X: Any, y: Any, given: Any = None, name: str = "given") -> Data:
        """Lists of what may be tables; refuses given values that do not belong to the sequences."""
        made = cls(sequences_of(X), labellings_of(y), given_of(given))
        check_given(made.given, len(made.X), name)
        return made

    def labels(self, scheme: str | None) -> Labels:
        """The labels, once it is sure that each sequence has its own."""
        found = labels_of(self.y, scheme)
        if len(self.y) != len(self.X):
            got, wanted = f"{len(self.y)} lists", f"{len(self.X)} of them"
            raise LabelError("y and X differ in length", got=got, wanted=wanted)
        return found

    def part(self, chosen: npt.NDArray[np.int64]) -> Data:
        """Some of the sequences."""
        at = chosen.tolist()
        given = None if self.given is None else [self.given[b] for b in at]
        return Data([self.X[b] for b in at], [self.y[b] for b in at], given)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a model wants of its training."""

    features: Features  # without a vocabulary yet
    scheme: str | None  # of the labels; "auto": the one that their names suggest
    pairs: str  # "seen" or "all": which pairs of attribute and label get a weight
    bigram: bool  # are there weights of label bigrams?
    kind: Kind  # what the scores of the lattices are
    rules: tuple[Rule, ...]  # that are on in training
    learner: Callable[[Task, Decoder, Sequence[Given] | None, Tuning | None], Learner]
    settings: Mapping[str, Any]  # by which a checkpoint tells this training from others
    iterations: int  # at most
    tune: Tuner | None  # chooses settings; None: all are given
    folds: int  # for it, and for scores of sequences by models that have not seen them
    seed: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """What training leaves."""

    labels: Labels
    features: Features
    linear: Linear
    progress: Progress
    n_weights: int  # that could be learned
    tuning: Tuning | None  # how settings were chosen
    cross_fit: CrossFit | None  # what that left
    seen: Hashes  # the sequences, for those who ask whether the model has seen theirs
    trouble: BaseException | None  # what ended training before its time


@dataclass(frozen=True, slots=True)
class Encoding:
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
    check_callable("watch", watch, "a function of a Step")
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


def dev_of(dev: Any, given: Any) -> Data | None:
    """The development set as it came to `fit`: a pair of X and y, or None."""
    if dev is None:
        return None
    check_pair(dev)
    return Data.of(dev[0], dev[1], given, "dev_given")


def labels_of(y: Sequence[Sequence[str | None]], scheme: str | None) -> Labels:
    """The labels of the training data, sorted by name. scheme="auto": the one that the names suggest."""
    names = names_of(y)
    return Labels(names, cast(Scheme | None, scheme_of(names) if scheme == "auto" else scheme))


def fit(
    setup: Setup,
    data: Data,
    dev: Data | None,
    plan: Plan,
    on_unknown: str = "raise",
    groups: Sequence[Hashable] | None = None,
    measure: str = "auto",
    labels: Labels | None = None,
) -> Fitted:
    """Train on data; with a development set, keep the model that does best on it by the measure.

    on_unknown: labels of the development set that training does not know are an error ("raise"), or count as "wrong".
    groups: sequences of a group are held out together where settings are chosen. labels: those of the data if None.
    """
    one_of("on_unknown", on_unknown, ("raise", "wrong"))
    features = setup.features
    decoder, examples = encode(setup, data, labels)
    labels, encoded, gold = decoder.labels, examples.encoded, examples.gold
    identity = {**setup.settings, "data": fingerprint(encoded, gold), "given": digest_of(examples.given)}
    judge = held = None
    if dev is not None:
        held = _held_out(features, labels, decoder, dev, on_unknown)
        identity |= {"dev": fingerprint(held.encoded, held.gold), "dev_given": digest_of(held.given)}
        identity |= {"measure": measure_of(measure, labels)}
    tuning, cross_fit = _tuned(setup, examples, labels, plan, groups)
    if tuning is not None:
        identity["tuning"] = tuning.to_dict()
    task = Task.of(encoded, gold, (len(features), len(labels)), setup.pairs, setup.bigram)
    if dev is not None and held is not None:
        judge = judge_of(held.encoded, dev.y, held.given, task.layout, decoder, setup.kind, measure)
    learner = setup.learner(task, decoder, examples.given, tuning)
    n_weights, layout = task.n_weights, task.layout

    def check(found: Found, task: Task = task) -> None:
        task.check_pinned(*found)
        Linear.of(task.layout, *found)

    found, progress, trouble = train(learner, plan, judge, identity, check)
    del learner, judge, task, examples, encoded, held, check  # they are larger than all that follows
    kept, linear = Linear.of(layout, *found).pruned()
    features.keep(kept)
    if linear.edges is not None and isinstance(features, TemplateFeatures):
        kept, linear = linear.pruned_edges()
        features.keep_edges(kept)
    seen = sketch_of(hashes_of(features, data.X))
    return Fitted(labels, features, linear, progress, n_weights, tuning, cross_fit, seen, trouble)


def encode(setup: Setup, data: Data, labels: Labels | None) -> tuple[Decoder, Encoding]:
    """Data in numbers, and the decoder of training; without labels, those of the data."""
    features = setup.features
    encoded = features.fit(data.X)
    decoder = Decoder(labels or labels_of(data.y, setup.scheme), setup.rules, on_infeasible="relax")
    gold = ids_of(decoder.labels, data.y, encoded.offsets, missing="allow")
    return decoder, Encoding(encoded, gold, given_for(features, data.X, data.given, decoder))


# ---- folds ----------------------------------------------------------------------------------------------------------


def cross_fit(
    setup: Setup,
    data: Data,
    plan: Plan,
    labels: Labels | None,
    tuning: Tuning | None,
    groups: Sequence[Hashable] | None,
    watch: Callable[[int, int], None] | None,
) -> CrossFit:
    """Score all sequences, each fold by a model that is trained on the others.

    labels: those of a model that is trained already; None: those of the data. watch: hears how many folds are done.
    """
    decoder, examples = encode(setup, data, labels)
    folded = fold(setup, examples, decoder.labels, np.arange(len(examples.encoded)), groups)
    check_held_out(len(folded.tasks), len(folded.encoded))
    learn_fold = learner_of_folds(setup, decoder, examples.given, plan, tuning)

    def learn(fold: int, task: Task, sequences: npt.NDArray[np.int64]) -> Found:
        found, _ = learn_fold(task, sequences)
        if watch is not None:
            watch(fold + 1, len(folded.tasks))
        return found

    identity = identity_of(setup, decoder.labels, examples, tuning, groups)
    return folded.joined(folded.scores(learn, setup.kind), identity)


def check_held_out(folds: int, sequences: int) -> None:
    """Raise if nothing can be held out."""
    if folds < 2:
        raise ModelError("there are too few sequences to hold some out", got=sequences, wanted="two or more")


def learner_of_folds(
    setup: Setup, decoder: Decoder, given: Sequence[Given] | None, plan: Plan, tuning: Tuning | None
) -> Callable[[Task, npt.NDArray[np.int64]], tuple[Found, int]]:
    """Learns the task of a fold, made of some sequences of the data: its weights, and after how many iterations."""

    def learn(task: Task, sequences: npt.NDArray[np.int64]) -> tuple[Found, int]:
        its = None if given is None else [given[b] for b in sequences.tolist()]
        found, progress, trouble = train(setup.learner(task, decoder, its, tuning), plan, None, {})
        if trouble is not None:
            raise trouble
        return found, progress.iteration

    return learn


def data_identity(
    setup: Setup, data: Data, labels: Labels, tuning: Tuning | None, groups: Sequence[Hashable] | None
) -> dict[str, Any]:
    """The identity of cross-fitted scores of this data."""
    return identity_of(setup, labels, encode(setup, data, labels)[1], tuning, groups)


def identity_of(
    setup: Setup, labels: Labels, examples: Encoding, tuning: Tuning | None, groups: Sequence[Hashable] | None
) -> dict[str, Any]:
    """What tells cross-fitted scores apart from those of other data and settings."""
    strengths = {} if tuning is None else {"c1": tuning.c1, "c2": tuning.c2}
    settings = {name: value for name, value in setup.settings.items() if name not in _NO_MATTER}
    held = None if groups is None else hashlib.sha256(repr(list(groups)).encode("utf-8", "surrogatepass")).hexdigest()
    return {
        **settings,
        **strengths,
        "iterations": setup.iterations,
        "labels": list(labels.names),
        "scheme": labels.scheme,
        "data": fingerprint(examples.encoded, examples.gold),
        "groups": held,
    }


def fold(
    setup: Setup,
    examples: Encoding,
    labels: Labels,
    chosen: npt.NDArray[np.int64],
    groups: Sequence[Hashable] | None,
    folds: Folds | None = None,
) -> FoldedTask:
    """Some of the examples in folds; without `folds`, those that settings and groups ask for."""
    whole, gold = examples.encoded, examples.gold
    encoded = whole if len(chosen) == len(whole) else whole.part(chosen)
    if encoded is not whole:
        gold = gold[np.repeat(np.isin(np.arange(len(whole)), chosen, assume_unique=True), np.diff(whole.offsets))]
    its = None if groups is None else [groups[b] for b in chosen.tolist()]
    return FoldedTask.of(
        encoded,
        gold,
        labels,
        chosen,
        folds_of(encoded, setup.folds, setup.seed, its) if folds is None else folds,
        n_attributes=len(setup.features),
        pairs=setup.pairs,
        bigram=setup.bigram,
    )


def _tuned(
    setup: Setup, examples: Encoding, labels: Labels, plan: Plan, groups: Sequence[Hashable] | None
) -> tuple[Tuning | None, CrossFit | None]:
    """Settings that are chosen by cross-validation, and the scores of held-out sequences that this leaves."""
    if setup.tune is None:
        return None, None
    if plan.resume is not None and (before := _tuning_in(plan.resume)) is not None:
        return before, None
    encoded = examples.encoded
    folded = None
    if len(encoded) >= FEWEST:
        folded = fold(setup, examples, labels, _sample(encoded, setup.seed), groups)
    if folded is None or len(folded.tasks) < 2:
        return setup.tune(None)[0], None
    tuning, scores = setup.tune(folded)
    made = folded.joined(scores, identity_of(setup, labels, examples, tuning, groups)) if scores else None
    return tuning, made


def _sample(encoded: Encoded, seed: int) -> npt.NDArray[np.int64]:
    """The numbers of all sequences; of large data, of as many as there is time for."""
    if encoded.n_tokens <= MOST_TOKENS:
        return np.arange(len(encoded))
    order = np.random.default_rng(seed).permutation(len(encoded))
    enough = int(np.searchsorted(np.cumsum(np.diff(encoded.offsets)[order]), MOST_TOKENS))
    return np.sort(order[: max(enough, FEWEST)])


def _tuning_in(checkpoint: Path) -> Tuning | None:
    """What was chosen before training was interrupted; `train` says what is wrong with a file that does not tell."""
    try:
        return Tuning.restored(files.open_file(checkpoint).head["identity"]["tuning"])
    except files.UNFIT:
        return None


# ---- the development set --------------------------------------------------------------------------------------------


def _held_out(features: Features, labels: Labels, decoder: Decoder, dev: Data, on_unknown: str) -> Encoding:
    """The development set in numbers."""
    with of_dev():
        encoded = features.encode(dev.X)
        gold = ids_of(labels, dev.y, encoded.offsets, on_unknown, missing="allow")
        return Encoding(encoded, gold, given_for(features, dev.X, dev.given, decoder))
