"""Tagger: what all models have in common. Sequences in, lattices or labels out; scikit-learn's conventions; files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.threads import in_threads
from bridle.errors import LabelError, ModelError, ModelFileError
from bridle.features import Encoded, Features, check_sequences, features_of, restored
from bridle.labels import MOST_SQUARE, Labels, Scheme, scheme_of
from bridle.lattice import Batch, Lattice
from bridle.models import files
from bridle.models.checks import (
    check_given,
    check_pair,
    check_seed,
    count_of,
    count_of_threads,
    counted_from,
    digest_of,
    fingerprint,
    ids_of,
    jsonable,
    names_of,
    of_dev,
    one_of,
    path_of,
    with_tokens,
)
from bridle.models.layout import check_labels
from bridle.models.linear import Kind, Linear
from bridle.models.task import Learner, Task
from bridle.models.training import Found, Plan, Progress, Step, train
from bridle.rules.base import Rule

Given = Mapping[str, Any]


class Tagger:
    """Base of the models: `fit` on sequences with labels, then `predict`, with rules if you like.

    X is a list of sequences: columns ({"word": [...], "pos": [...]}) or lists of texts if there are templates,
    otherwise lists of features per token. y is a list of lists of labels.
    """

    kinds: ClassVar[dict[str, type[Tagger]]] = {}  # by name, for files
    # settings that all of them have
    features: Any
    cutoff: int
    pairs: str
    scheme: str | None
    patience: int | None
    seed: int
    threads: int
    # what training leaves
    labels_: Labels
    features_: Features
    linear_: Linear
    progress_: Progress  # how training went
    n_weights_: int  # that could be learned
    notes_: Mapping[str, Any] = MappingProxyType({})  # what `save` was asked to keep

    def __init_subclass__(cls) -> None:
        Tagger.kinds.setdefault(cls.__name__, cls)

    # ---- what a kind of model adds ----------------------------------------------------------------------------------

    def _check(self) -> None:
        """Are the settings possible?"""
        raise NotImplementedError

    def _learner(self, task: Task, decoder: Decoder, given: Sequence[Given] | None) -> Learner:
        """The learner of these settings."""
        raise NotImplementedError

    def _scores(self) -> Kind:
        """What the scores of the lattices are."""
        return "raw"

    def _rules(self) -> tuple[Rule, ...]:
        """Rules that are on in training."""
        return ()

    def _bigram(self, features: Features) -> bool:
        """Does the label depend on the one before?"""
        raise NotImplementedError

    def _iterations(self) -> int:
        """Iterations, unless something ends training before."""
        raise NotImplementedError

    def _tolerance(self) -> float:
        """Training ends when the loss falls by less than this share; 0: never."""
        return 0.0

    # ---- scikit-learn's conventions ---------------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change settings; they count at the next `fit`."""
        for name, value in params.items():
            if name not in self._names():
                raise ModelError(f"unknown setting {name!r}", got=repr(value)[:60], wanted=", ".join(self._names()))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        shown = (f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name])
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "linear_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags  # only scikit-learn itself asks

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=True), transformer_tags=None, classifier_tags=None,
            regressor_tags=None, input_tags=InputTags(two_d_array=False, string=True),
        )  # fmt: skip

    # ---- training ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Sequence[str]],
        *,
        dev: tuple[Sequence[Any], Sequence[Sequence[str]]] | None = None,
        given: Sequence[Given] | None = None,
        dev_given: Sequence[Given] | None = None,
        on_unknown: Literal["raise", "wrong"] = "raise",
        watch: Callable[[Step], None] | None = None,
        checkpoint: str | Path | None = None,
        every: int = 10,
        resume: str | Path | None = None,
    ) -> Self:
        """Learn from sequences with labels.

        dev: a development set; the model that does best on it is kept, and `patience` counts on it. on_unknown: labels
        of it that training does not know are an error, or count as wrong. given: values for rules used in training.
        watch: called after each iteration. checkpoint: a file written after each `every` iterations, from which
        `resume` goes on to the same end. Ctrl-C, or a checkpoint that cannot be written, ends training: the best model
        so far is kept, and the error is raised again.
        """
        self._check()
        check_seed(self.seed)
        if self.patience is not None:
            count_of("patience", self.patience)
        one_of("on_unknown", on_unknown, ("raise", "wrong"))
        check_given("given", given, X)
        if watch is not None and not callable(watch):
            raise ModelError("watch cannot be called", got=repr(watch)[:60], wanted="a function of a Step")
        if dev is not None:
            check_pair(dev)
            check_given("dev_given", dev_given, dev[0])
        plan = Plan(
            count_of("iterations", self._iterations()), self._tolerance(), self.patience, watch,
            path_of("checkpoint", checkpoint), count_of("every", every), path_of("resume", resume),
        )  # fmt: skip
        if plan.patience is not None and dev is None:
            raise ModelError("patience needs a development set", got="dev=None", wanted="fit(X, y, dev=(X, y))")
        features = features_of(self.features, self.cutoff)
        encoded = features.fit(X)
        names = names_of(y)
        labels = Labels(names, cast(Scheme | None, scheme_of(names) if self.scheme == "auto" else self.scheme))
        gold = ids_of(labels, y, encoded.offsets)
        task = Task.of(encoded, gold, (len(features), len(labels)), self.pairs, self._bigram(features))
        decoder = Decoder(labels, self._rules(), on_infeasible="relax")
        known = with_tokens(features, X, given, decoder.required_inputs)
        measure, told = None, {"data": fingerprint(encoded, gold), "given": digest_of(known)}
        if dev is not None:
            with of_dev():
                held = features.encode(dev[0])
                held_gold = ids_of(labels, dev[1], held.offsets, on_unknown)
            held_known = with_tokens(features, dev[0], dev_given, decoder.required_inputs)
            measure = self._measure(task, held, held_gold, decoder, held_known)
            told |= {"dev": fingerprint(held, held_gold), "dev_given": digest_of(held_known)}
        learner = self._learner(task, decoder, known)
        identity = {"model": type(self).__name__, **self._settings(), "threads": self._threads(), **told}
        identity.pop("iterations", None)  # more of them may be wanted
        n_weights, layout = task.n_weights, task.layout
        found, progress, trouble = train(learner, plan, measure, identity)
        del learner, measure, task, encoded  # they are larger than all that follows
        kept, linear = Linear.of(layout, *found).pruned()
        features.keep(kept)
        self.labels_, self.features_, self.linear_ = labels, features, linear
        self.progress_, self.n_weights_ = progress, n_weights
        if trouble is not None:
            raise trouble
        return self

    def _threads(self) -> int:
        return count_of_threads(self.threads)

    def _settings(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {name: jsonable(value) for name, value in self.get_params().items()}

    def _measure(
        self, task: Task, encoded: Encoded, gold: npt.NDArray[np.int32], decoder: Decoder, given: Sequence[Given] | None
    ) -> Callable[[Found], float]:
        """Accuracy on the development set, as a function of the weights."""
        if not len(gold):
            raise ModelError("the development set is empty", got="no tokens", wanted="at least one")

        def accuracy(found: Found) -> float:
            batch = Linear.of(task.layout, *found).scores(encoded, self._scores())
            with of_dev():
                return float((decoder.decode_batch(batch, given).ids == gold).mean())

        return accuracy

    # ---- use --------------------------------------------------------------------------------------------------------

    def lattice(self, x: Any) -> Lattice:
        """The scores of one sequence."""
        return self.lattices([x])[0]

    def lattices(self, X: Sequence[Any], *, threads: int = 1) -> Batch:
        """The scores of many sequences, packed."""
        self._fitted()
        check_sequences(X)
        parts = in_threads(partial(self._part, X), len(X), count_of_threads(threads))
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)]
        return Batch(np.concatenate([p.unary for p in parts]), np.concatenate([[0], *offsets]), self.linear_.pairwise)

    def _part(self, X: Sequence[Any], low: int, high: int, stop: _native.Stop) -> Batch:
        with counted_from(low):
            return self.linear_.scores(self.features_.encode(X[low:high]), self._scores(), stop)

    def given(
        self, X: Sequence[Any], decoder: Decoder, given: Sequence[Given] | None = None
    ) -> Sequence[Given] | None:
        """What the rules of a decoder ask of sequences: the texts of the tokens, and what you give yourself."""
        self._fitted()
        return with_tokens(self.features_, X, given, decoder.required_inputs)

    def decoder(self, rules: Iterable[Rule | str] = (), **options: Any) -> Decoder:
        """A decoder for the labels of this model."""
        self._fitted()
        return Decoder(self.labels_, rules, **options)

    def predict(
        self, X: Sequence[Any], rules: Iterable[Rule | str] = (), *, given: Sequence[Given] | None = None,
        threads: int = 0, **options: Any,
    ) -> list[list[str]]:  # fmt: skip
        """The best labels under the rules, which may be sentences. options: of Decoder, as on_infeasible="relax"."""
        decoder = self.decoder(rules, **options)
        check_sequences(X)
        check_given("given", given, X)

        def work(low: int, high: int, stop: _native.Stop) -> list[list[str]]:
            batch = self._part(X, low, high, stop)
            with counted_from(low):
                values = self.given(X[low:high], decoder, None if given is None else given[low:high])
                return decoder.decode_batch(batch, values, threads=1).labels

        return list(chain.from_iterable(in_threads(work, len(X), count_of_threads(threads))))

    def score(self, X: Sequence[Any], y: Sequence[Sequence[str]]) -> float:
        """The share of right tokens."""
        guessed = self.predict(X)
        if list(map(len, guessed)) != list(map(len, y)):
            raise LabelError("y does not fit X", got="other numbers of labels", wanted="one label per token")
        total = sum(map(len, guessed))
        right = sum(a == b for ours, gold in zip(guessed, y, strict=True) for a, b in zip(ours, gold, strict=True))
        return right / total if total else 1.0

    def top_weights(self, count: int = 20) -> list[tuple[str, str, float]]:
        """The heaviest weights: attribute, label, weight. Label bigrams are called `label[-1]=...`."""
        self._fitted()
        names, layout = self.features_.names(), self.linear_.layout
        found = [
            (names[layout.attribute[s]], self.labels_.names[layout.label[s]], float(self.linear_.weights[s]))
            for s in np.argsort(-np.abs(self.linear_.weights), kind="stable")[:count].tolist()
        ]
        if self.linear_.pairwise is not None:
            for (i, j), weight in np.ndenumerate(self.linear_.pairwise):
                found.append((f"label[-1]={self.labels_.names[i]}", self.labels_.names[j], float(weight)))
        return sorted(found, key=lambda one: -abs(one[2]))[:count]

    def _fitted(self) -> None:
        if not hasattr(self, "linear_"):
            wanted = "fit(X, y), or bridle.load(path)"
            raise ModelError("the model has not been trained", got="no call of fit", wanted=wanted)

    def save(self, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
        """Write the model to a file: aside first, then renamed. notes: what JSON can hold, kept with it as `notes_`."""
        self._fitted()
        head = {
            "model": type(self).__name__, "settings": self._settings(), "labels": list(self.labels_.names),
            "scheme": self.labels_.scheme, "features": self.features_.head(), "n_weights": self.n_weights_,
            "progress": asdict(self.progress_), "notes": dict(notes or self.notes_),
        }  # fmt: skip
        files.save(path, "model", head, {**self.features_.arrays(), **self.linear_.arrays()})


def _check_shapes(path: str | Path, shapes: dict[str, tuple[int, ...]]) -> None:
    if max(shapes.get("pairwise", ()), default=0) > MOST_SQUARE:
        raise ModelFileError(
            "this file has scores of too many label bigrams", got=f"an array of {shapes['pairwise']}", where=str(path),
            wanted=f"at most {MOST_SQUARE:,} labels", cause="It was not written by Bridle; do not trust it.",
        )  # fmt: skip


def load(path: str | Path) -> Tagger:
    """Read a model that was saved. Runs no code of the file and trusts nothing in it."""
    stored = files.open_file(path, partial(_check_shapes, path))
    if stored.kind != "model":
        got = f"a file of the kind {stored.kind!r}"
        raise ModelFileError("this is not a model", got=got, wanted="a model", where=str(path))
    head = stored.head
    with files.usable(path, "model", "Tagger.save", "Written by another version of Bridle, or by something else?"):
        made = Tagger.kinds[head["model"]](**head["settings"])
        check_labels(len(head["labels"]))
        labels = Labels(head["labels"], head["scheme"])
        features = restored(head["features"], stored.arrays)
        linear = Linear.restored(stored.arrays, len(features), len(labels))
        made.labels_, made.features_, made.linear_ = labels, features, linear
        made.progress_, made.n_weights_ = Progress(**head["progress"]), int(head["n_weights"])
        made.notes_ = dict(head["notes"])
        made._check()
    return made
