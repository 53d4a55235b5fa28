"""Tagger: what all models have in common. Training, cross-fitted scores and files; predictor.py has their use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline
from bridle.decoding.decoder import Decoder
from bridle.errors import ModelError
from bridle.features import FeatureChoice, Features, are_features, choose_features, features_of
from bridle.features.derived import lists_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.models import files
from bridle.models.checks import (
    Given,
    OnUnknown,
    check_callable,
    check_seed,
    count_of,
    count_of_threads,
    jsonable,
    names_of,
    one_of,
    path_of,
)
from bridle.models.folds import FOLDS, CrossFit, FoldedExamples, Folds, check_held_out, folds_of, groups_of
from bridle.models.linear import Ints, Layout, Linear, Weights
from bridle.models.predictor import Predictor
from bridle.models.task import Data, Examples, Learner, Task, hashes_of, sketch_of
from bridle.models.training import MEASURES, Judge, Measure, Plan, Progress, Step, measure_of, train
from bridle.models.tuning import Trial, Tuning
from bridle.models.unlabelled import ROUNDS, Text, Unlabelled, task_of
from bridle.rules.base import Rule

Restored = TypeVar("Restored")
OTHER_WRITER = "Written by another version of Bridle, or by something else?"
_NO_MATTER = ("threads", "folds", "tuning_seconds", "patience")  # under others, scores are still those of this model


class Tagger(Predictor):
    """Base of the models: `fit` on sequences with labels, then `predict`, optionally with rules.

    X is a list of sequences: columns ({"word": [...], "pos": [...]}) or lists of texts if there are templates,
    otherwise lists of features per token. y is a list of lists of labels. Both may be tables or columns of lists.
    """

    kinds: ClassVar[dict[str, type[Tagger]]] = {}  # by name, for files
    # settings that all of them have
    features: Any
    lists: Any
    cutoff: int
    pairs: str
    scheme: str | None
    labels: Sequence[str] | None
    patience: int | None
    seed: int
    threads: int
    # what training leaves, besides what a Predictor has, and records that are properties
    n_weights_: int  # that could be learned
    cross_fit_: CrossFit | None = None  # the last result of `cross_fit`; no part of a file
    notes_: Mapping[str, Any] = MappingProxyType({})  # that `save` got

    _records: tuple[Mapping[str, Any], str] = (MappingProxyType({}), "")  # the head of the file, and its name

    def __init_subclass__(cls) -> None:
        Tagger.kinds.setdefault(cls.__name__, cls)

    @cached_property  # records of the training are restored when they are asked for, which tagging never does
    def progress_(self) -> Progress:
        """Iterations, losses and the best score of the training."""
        if (progress := self._record("progress", Progress.restored)) is None:
            raise AttributeError(f"this {type(self).__name__} has not been trained")
        return progress

    @cached_property
    def tuning_(self) -> Tuning | None:
        """The settings that were chosen on held-out data, with all that were tried."""
        return self._record("tuning", Tuning.restored)

    @cached_property
    def feature_set_(self) -> FeatureChoice | None:
        """The templates that were chosen for features="auto", and the reason."""
        return self._record("feature_set", FeatureChoice.restored)

    def _record(self, name: str, restored: Callable[[Any], Restored]) -> Restored | None:
        head, path = self._records
        try:
            return restored(head[name]) if head.get(name) else None
        except files.UNFIT as error:
            raise files.unusable(error, path, "record of its training", "Tagger.save", OTHER_WRITER) from None

    # ---- what a kind of model adds ----------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raise `ModelError` if a setting is impossible."""
        raise NotImplementedError

    def _learner(
        self, task: Task, decoder: Decoder, given: Sequence[Given] | None, tuning: Tuning | None = None
    ) -> Learner:
        """Make the learner of these settings, and of those that were chosen."""
        raise NotImplementedError

    def _choose(
        self,
        examples: Examples,
        resume: Path | None,
        groups: Sequence[Hashable] | None,
        measure: str,
        watch: Callable[[Trial], None] | None,
    ) -> Tuning | None:
        """Choose settings that are left open on held-out data, or take those of the checkpoint `resume`."""
        return None

    def _learner_with_text(self, task: Task, text: Unlabelled, tuning: Tuning | None) -> Learner:
        """Make the learner of these settings from labelled data and unlabelled text."""
        got = f"{type(self).__name__}({getattr(self, 'algorithm', '')!r})"
        raise ModelError("this model does not learn from unlabelled text", got=got, wanted="CRF('lbfgs')")

    def _tuned(self) -> Tuning | None:
        """Return the settings that were chosen, as far as they are still left open."""
        return self.tuning_

    def _rules(self) -> tuple[Rule, ...]:
        """Return the rules that are on in training."""
        return ()

    def _bigram(self, features: Features) -> bool:
        """Return True if the label depends on the one before."""
        raise NotImplementedError

    def _judge(self, examples: Examples, dev: Data, layout: Layout, measure: str) -> Judge:
        """Make the judge of weights of this layout on a development set."""

        def guess(weights: Weights) -> npt.NDArray[np.int32]:
            batch = Linear.of(layout, *weights).scores(examples.encoded, self.scores)
            return examples.decoder.decode_batch(batch, examples.given).ids

        return Judge.of(examples, dev.y, measure, guess)

    def _use(self, linear: Linear) -> None:
        """Take over weights that were learned, after labels and features."""
        self.linear_ = linear

    def _restore(self, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], path: str) -> None:
        """Take over what a kind of model adds to files; raise one of `files.UNFIT` if it does not fit."""

    def _iterations(self) -> int:
        """Return the most iterations."""
        raise NotImplementedError

    def _tolerance(self) -> float:
        """Return by which share the loss must fall for training to go on; 0: any."""
        return 0.0

    # ---- training ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequences,
        y: LabelLists,
        *,
        dev: tuple[Sequences, LabelLists] | None = None,
        measure: Measure = "auto",
        given: Sequence[Given] | Table | None = None,
        dev_given: Sequence[Given] | Table | None = None,
        on_unknown: OnUnknown = "raise",
        groups: Sequence[Hashable] | Table | None = None,
        unlabelled: Sequences | None = None,
        rules: Iterable[Rule | str] = (),
        unlabelled_given: Sequence[Given] | Table | None = None,
        watch: Callable[[Step], None] | None = None,
        watch_tuning: Callable[[Trial], None] | None = None,
        checkpoint: str | Path | None = None,
        every: int = 10,
        resume: str | Path | None = None,
    ) -> Self:
        """Learn from sequences with labels.

        Parameters
        ----------
        X : list
            One entry per sequence: columns (``{"word": [...], "pos": [...]}``) or a list of tokens if the model has
            templates, otherwise a list of features per token. Or a table of pandas, Polars or PyArrow with a row per
            sequence and lists in its cells, or one column of it.
        y : list of list of str
            One label per token, None where it is not known; or a column of lists.
        dev : (X, y), optional
            A development set. The model that does best on it is kept, and `patience` counts on it.
        measure : {"auto", "f1", "accuracy", "exact", "quality"}, default "auto"
            What "best" means: the F1 of segments, the share of right tokens, of sequences all right, or the mean of the
            last and of the F1 of each sequence. ``"auto"``: ``"f1"`` if the labels have a scheme or an O, otherwise
            ``"accuracy"``; `c1` and `c2` are then chosen by the mean accuracy of held-out sequences (`Trial`). Any
            other value decides both.
        given, dev_given : list of mapping, optional
            Values for rules that are used in training, one mapping per sequence.
        on_unknown : {"raise", "skip", "wrong"}
            What to do with a label of the development set that the model does not know: raise an error, leave out the
            sequence, or count the label as wrong.
        groups : sequence, optional
            A name or a number per sequence: its document, or its source. Where settings are chosen on held-out data, a
            group is held out as a whole, as fits data that will come from new sources.
        unlabelled : list, optional
            Sequences without labels, like those of `X`, for a `CRF` trained by ``"lbfgs"``. With few labelled sequences
            they are worth several times as many labels.
        rules : iterable of Rule or str, optional
            Rules that hold in the unlabelled sequences, hard or soft. Pass them to `predict` as well.
        unlabelled_given : list of mapping, optional
            Values that these rules refer to, one mapping per unlabelled sequence.
        watch : callable, optional
            Called with a `Step` after each iteration.
        watch_tuning : callable, optional
            Called with a `Trial` after each comparison that chooses settings.
        checkpoint : path, optional
            A file that is written after each `every` iterations.
        every : int
            Iterations between two checkpoints.
        resume : path, optional
            A checkpoint to go on from. The result is that of a training without interruption.

        Returns
        -------
        self
            The trained model.

        Raises
        ------
        LabelError
            If labels do not fit the sequences, or there are fewer than two different ones.
        FeatureError
            If the features cannot be computed from `X`.
        ModelError
            If a setting is impossible, or `resume` is a checkpoint of another training.
        KeyboardInterrupt, FileError
            After Ctrl-C, or if a checkpoint cannot be written; the best model so far is kept.

        Examples
        --------
        >>> import bridle
        >>> X, y = [["the", "cat", "sleeps"], ["a", "dog", "runs"]], [["D", "N", "V"]] * 2
        >>> model = bridle.CRF(features=["word[0]", "label[-1]"]).fit(X, y, dev=(X, y))
        >>> model.progress_.best_score, model.progress_.measure
        (1.0, 'accuracy')
        """
        self._check()
        check_seed(self.seed)
        one_of("measure", measure, MEASURES)
        one_of("on_unknown", on_unknown, get_args(OnUnknown))
        check_callable("watch", watch, "a function of a Step")
        check_callable("watch_tuning", watch_tuning, "a function of a Trial")
        data, dev_data = Data.of(X, y, given), Data.of_dev(dev, dev_given)
        patience = None if self.patience is None else count_of("patience", self.patience)
        if patience is not None and dev is None:
            raise ModelError("patience needs a development set", got="dev=None", wanted="fit(X, y, dev=(X, y))")
        places = path_of("checkpoint", checkpoint), count_of("every", every), path_of("resume", resume)
        plan = Plan(count_of("iterations", self._iterations()), self._tolerance(), patience, watch, *places)
        held_together = groups_of(groups, len(data.X))
        text = None if unlabelled is None else Text.of(unlabelled, rules, unlabelled_given)
        if text is not None:  # each round ends by itself
            plan = replace(plan, iterations=plan.iterations * (ROUNDS + 1), tolerance=0.0)
        elif rules or unlabelled_given is not None:
            raise ModelError(
                "there is no text for the rules of fit",
                got="rules without unlabelled text",
                wanted="fit(X, y, unlabelled=U, rules=R)",
                cause="To obey rules when tagging, pass them to predict.",
            )
        return self._fit(data, plan, held_together, measure, dev_data, on_unknown, watch_tuning=watch_tuning, text=text)

    def _fit(
        self,
        data: Data,
        plan: Plan,
        groups: Sequence[Hashable] | None,
        measure: str,
        dev: Data | None = None,
        on_unknown: OnUnknown = "raise",
        *,
        labels: Labels | None = None,
        watch_tuning: Callable[[Trial], None] | None = None,
        text: Text | None = None,
    ) -> Self:
        """Train on checked data; labels: those of the data if None."""
        choice = self._choose_features(data)
        features = self._new_features(choice)
        unlabelled = None
        if text is None:
            known = lambda: labels or data.labels(self.scheme, self.labels)  # noqa: E731  (once the features fit)
            examples = Examples.of(data, features, self._rules(), known)
        else:
            names = labels or data.labels(self.scheme, self.labels)
            examples, unlabelled = Unlabelled.join(data, text, features, names)
        identity = {**self._identity(), "data": examples.fingerprint(), "given": examples.given_digest()}
        judge = dev_examples = None
        if dev is not None:
            dev = dev.used(examples.labels, on_unknown)
            dev_examples = examples.of_dev(dev, on_unknown)
            identity |= {"dev": dev_examples.fingerprint(), "dev_given": dev_examples.given_digest()}
            identity["measure"] = measure_of(measure, examples.labels)
        if unlabelled is not None:
            identity |= unlabelled.fingerprint()
        tuning = self._choose(examples, plan.resume, groups, measure, watch_tuning)
        if tuning is not None:
            identity["tuning"] = tuning.to_dict()
        bigram = self._bigram(features)
        if unlabelled is None:
            sizes = len(features), len(examples.labels)
            task = Task.of(examples.encoded, examples.gold, sizes, self.pairs, bigram)
        else:
            task = task_of(examples, unlabelled, self.pairs, bigram)
        if dev is not None and dev_examples is not None:
            judge = self._judge(dev_examples, dev, task.layout, measure)
        if unlabelled is None:
            learner = self._learner(task, examples.decoder, examples.given, tuning)
        else:
            learner = self._learner_with_text(task, unlabelled, tuning)
        n_weights, layout, labels = task.n_weights, task.layout, examples.labels

        def check(weights: Weights, task: Task = task) -> None:
            task.check_pinned(*weights)
            Linear.of(task.layout, *weights)

        weights, progress, interruption = train(learner, plan, judge, identity, check)
        del learner, judge, task, examples, dev_examples, check  # they are larger than all that follows
        linear = Linear.of(layout, *weights).pruned(features)
        self.labels_, self.features_, self.feature_set_ = labels, features, choice
        self.progress_, self.n_weights_, self.tuning_, self.cross_fit_ = progress, n_weights, tuning, None
        self._use(linear)
        self.seen_ = sketch_of(hashes_of(features, data.X))
        if interruption is not None:
            raise interruption
        return self

    def _choose_features(self, data: Data) -> FeatureChoice | None:
        """Choose the templates for data if they are "auto"; None: X holds the features."""
        if not isinstance(self.features, str) or self.features != "auto":
            return None
        names_of(data.y)  # which says what is wrong with labels
        if are_features(data.X):
            return None
        return choose_features(data.X, data.y)

    def _new_features(self, choice: FeatureChoice | None) -> Features:
        """Make the features, without a vocabulary yet."""
        spec = None if isinstance(self.features, str) and self.features == "auto" else self.features
        return features_of(spec if choice is None else choice.templates, self.cutoff, self.lists)

    def _plan(self, deadline: Deadline | None = None) -> Plan:
        """Plan a training on folds; it raises `OutOfTime` after the deadline."""
        watch = None if deadline is None else lambda step: deadline.check()
        return Plan(count_of("iterations", self._iterations()), self._tolerance(), watch=watch)

    def _threads(self) -> int:
        return count_of_threads(self.threads)

    def _settings(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return {name: jsonable(value) for name, value in self.get_params().items() if name != "lists"}

    def _identity(self) -> dict[str, Any]:
        """Return the settings by which a checkpoint tells this training from others."""
        settings = {"model": type(self).__name__, **self._settings(), "threads": self._threads()}
        settings.pop("iterations", None)  # there may be more of them when training is resumed
        if self.lists:
            settings["lists"] = [f"{name}: {phrases!r}" for name, phrases in lists_of(self.lists).items()]
        return settings

    # ---- held-out data ----------------------------------------------------------------------------------------------

    def cross_fit(
        self,
        X: Sequences,
        y: LabelLists,
        *,
        given: Sequence[Given] | Table | None = None,
        groups: Sequence[Hashable] | Table | None = None,
        folds: int | None = None,
        watch: Callable[[int, int], None] | None = None,
    ) -> CrossFit:
        """Score sequences by models that have not seen them.

        Each fold is scored by a model with the settings of this one, trained on the others. That is how good this model
        can be expected to be on new data, and what rules are priced against.

        Parameters
        ----------
        X, y : list
            Sequences and their labels, as for `fit`; usually those that the model was trained on.
        given : list of mapping, optional
            Values for rules that are used in training.
        groups : sequence, optional
            A name or a number per sequence; sequences of a group are held out together.
        folds : int, optional
            Number of folds; by default that of the settings, or 4.
        watch : callable, optional
            Called after each fold with the number of folds that are done, and of all.

        Returns
        -------
        CrossFit
            The scores of all sequences; also kept in `cross_fit_`, where `bridle.learn` finds them.

        Raises
        ------
        LabelError
            If labels do not fit the sequences, or one is not among those of the model.
        ModelError
            If a setting is impossible, or there are too few sequences to make two folds.

        Examples
        --------
        >>> import bridle
        >>> X, y = [["the", "cat"], ["a", "dog"], ["the", "dog"]], [["D", "N"]] * 3
        >>> scores = bridle.LocalTagger(features=["word[0]"]).cross_fit(X, y, folds=3)
        >>> [lattice.unary.shape for lattice in scores.lattices()]
        [(2, 2), (2, 2), (2, 2)]
        """
        self._check()
        check_seed(self.seed)
        check_callable("watch", watch, "a function of two numbers")
        data = Data.of(X, y, given)
        held_together = groups_of(groups, len(data.X))
        examples = self._examples(data)
        count = None if folds is None else count_of("folds", folds, 2)
        folded = self._folded(examples, np.arange(len(data.X)), held_together, count)
        check_held_out(folded.folds)
        tuning = self._tuned()
        run = folded.run(lambda _, task, its: self._learner(task, examples.decoder, its, tuning), self._plan(), watch)
        self.cross_fit_ = folded.joined(run.batches, self._cross_fit_identity(examples, tuning, held_together))
        return self.cross_fit_

    def cross_fit_identity(
        self, X: Sequences, y: LabelLists, groups: Sequence[Hashable] | Table | None = None
    ) -> dict[str, Any]:
        """Identify data and settings: what cross-fitted scores of this data have as their `identity`.

        Parameters
        ----------
        X, y : list
            Sequences and their labels, as for `cross_fit`.
        groups : sequence, optional
            The groups, if there are any.

        Returns
        -------
        dict
            Settings, and checksums of the data.
        """
        self._fitted()
        data = Data.of(X, y)
        return self._cross_fit_identity(self._examples(data), self._tuned(), groups_of(groups, len(data.X)))

    def _examples(self, data: Data) -> Examples:
        """Number data with the features that were chosen; for a model that is not trained, those that would be."""
        choice = self.feature_set_ if hasattr(self, "linear_") and self.features == "auto" else None
        features = self._new_features(choice or self._choose_features(data))
        known = getattr(self, "labels_", None)
        return Examples.of(data, features, self._rules(), lambda: known or data.labels(self.scheme, self.labels))

    def _cross_fit_identity(
        self, examples: Examples, tuning: Tuning | None, groups: Sequence[Hashable] | None
    ) -> dict[str, Any]:
        settings = {name: value for name, value in self._identity().items() if name not in _NO_MATTER}
        names = None if groups is None else repr(list(groups)).encode("utf-8", "surrogatepass")
        return {
            **settings,
            **({} if tuning is None else {"c1": tuning.c1, "c2": tuning.c2}),
            "iterations": self._iterations(),
            "labels": list(examples.labels.names),
            "scheme": examples.labels.scheme,
            "data": examples.fingerprint(),
            "groups": None if names is None else hashlib.sha256(names).hexdigest(),
        }

    def _folded(
        self,
        examples: Examples,
        chosen: Ints,
        groups: Sequence[Hashable] | None = None,
        folds: Folds | int | None = None,
    ) -> FoldedExamples:
        """Cut sequences into folds; without `folds`, as many as the settings say."""
        part = examples.part(chosen)
        if not isinstance(folds, Folds):
            names = None if groups is None else [groups[b] for b in chosen.tolist()]
            count = getattr(self, "folds", FOLDS) if folds is None else folds
            folds = folds_of(part.encoded, count, self.seed, names)
        bigram = self._bigram(examples.features)
        return FoldedExamples.of(part, chosen, folds, kind=self.scores, pairs=self.pairs, bigram=bigram)

    def _fold_keys(self, data: Data, groups: Sequence[Hashable] | None) -> Sequence[Hashable]:
        """Return the keys by which sequences are dealt out: their groups, or hashes of their texts."""
        if groups is not None:
            return groups
        return list(hashes_of(self._new_features(self._choose_features(data)), data.X).tolist())

    # ---- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
        """Write the model to a file.

        The file is written under another name and then renamed, so that a failure leaves an older file as it was.

        Parameters
        ----------
        path : path
            Where to write.
        notes : mapping, optional
            Anything that JSON can hold. It is kept in the file, and `load` puts it into `notes_`.

        Raises
        ------
        FileError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile, bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/words.bridle", notes={"trained on": "two words"})
        ...     again = bridle.load(f"{folder}/words.bridle")
        >>> again.predict([["cat", "the"]]), again.notes_
        ([['N', 'D']], {'trained on': 'two words'})
        """
        files.save(path, "model", *self._stored(notes or self.notes_))

    def to_bytes(self) -> bytes:
        """Return what `save` would write, for programs that keep models in files of their own.

        Returns
        -------
        bytes
            What `bridle.models.from_bytes` reads.

        Examples
        --------
        >>> import bridle
        >>> model = bridle.LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
        >>> bridle.models.from_bytes(model.to_bytes()).predict([["cat", "the"]])
        [['N', 'D']]
        """
        return files.to_bytes("model", *self._stored(self.notes_))

    def _stored(self, notes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the head and the arrays for a model file."""
        self._fitted()
        head = {
            "model": type(self).__name__,
            "settings": self._settings(),
            "labels": list(self.labels_.names),
            "scheme": self.labels_.scheme,
            "features": self.features_.head(),
            "feature_set": None if self.feature_set_ is None else self.feature_set_.to_dict(),
            "n_weights": self.n_weights_,
            "progress": asdict(self.progress_),
            "tuning": None if self.tuning_ is None else self.tuning_.to_dict(),
            "notes": dict(notes),
        }
        seen = {} if self.seen_ is None else {"seen": self.seen_}
        return head, {**self._arrays(), **seen}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy a model as the bytes of its file."""
        data = self.to_bytes() if hasattr(self, "linear_") else None
        request = {name: getattr(self, name) for name in ("_metadata_request", "decides") if hasattr(self, name)}
        from bridle.models.loading import unpickled  # which knows all kinds of models

        return unpickled, (type(self), self.get_params(), data, request)
