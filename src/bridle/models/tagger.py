"""Tagger: what all models have in common. Training, use (see `predictor.py`) and files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.errors import ModelFileError
from bridle.features import FEATURES, FeatureChoice, Features, features_of
from bridle.features.lists import lists_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import MOST_SQUARE, Labels
from bridle.models import files, fitting
from bridle.models.checks import Given, check_seed, count_of_threads, jsonable
from bridle.models.crossfit import CrossFit
from bridle.models.crossfitter import CrossFitter
from bridle.models.estimator import Estimator
from bridle.models.fitting import Tuner
from bridle.models.folds import FOLDS, groups_of
from bridle.models.linear import Linear
from bridle.models.measures import Measure, check_measure
from bridle.models.routing import Routed
from bridle.models.seen import Hashes, checked_sketch
from bridle.models.task import Learner, Task
from bridle.models.training import Progress, Step
from bridle.models.tuning import Trial, Tuning
from bridle.models.weights import Weighted
from bridle.rules.base import Rule


class Tagger(Weighted, Estimator, Routed, CrossFitter):
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
    patience: int | None
    seed: int
    threads: int
    # what training leaves, besides what a Predictor has
    progress_: Progress  # how training went
    n_weights_: int  # that could be learned
    tuning_: Tuning | None = None  # how settings were chosen
    cross_fit_: CrossFit | None = None  # scores of held-out sequences, if settings were chosen; no part of a file
    seen_: Hashes | None = None  # a sketch of the training sequences
    notes_: Mapping[str, Any] = MappingProxyType({})  # what `save` was asked to keep

    def __init_subclass__(cls) -> None:
        Tagger.kinds.setdefault(cls.__name__, cls)

    # ---- what a kind of model adds ----------------------------------------------------------------------------------

    def _check(self) -> None:
        """Are the settings possible?"""
        raise NotImplementedError

    def _learner(
        self, task: Task, decoder: Decoder, given: Sequence[Given] | None, tuning: Tuning | None = None
    ) -> Learner:
        """The learner of these settings, and of those that were chosen."""
        raise NotImplementedError

    def _tuner(self, watch: Callable[[Trial], None] | None, measure: str = "auto") -> Tuner | None:
        """Chooses settings by cross-validation and this measure; None: all are given."""
        return None

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
        on_unknown: Literal["raise", "wrong"] = "raise",
        groups: Sequence[Hashable] | Table | None = None,
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
            ``"accuracy"``, and ``"quality"`` where `c1` and `c2` are chosen. Any other value decides both.
        given, dev_given : list of mapping, optional
            Values for rules that are used in training, one mapping per sequence.
        on_unknown : {"raise", "wrong"}
            What to do with a label of the development set that does not occur in `y`: raise an error, or count it as
            wrong.
        groups : sequence, optional
            A name or a number per sequence: its document, or its source. Where settings are chosen by cross-validation,
            a group is held out as a whole, as fits data that will come from new sources.
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
        check_measure(measure)
        data, held = fitting.Data.of(X, y, given), fitting.dev_of(dev, dev_given)
        held_together = groups_of(groups, len(data.X))
        plan = fitting.plan_of(
            iterations=self._iterations(),
            tolerance=self._tolerance(),
            patience=self.patience,
            dev=held,
            watch=watch,
            checkpoint=checkpoint,
            every=every,
            resume=resume,
        )
        choice = self._chosen(data)
        setup = self._setup(choice, self._tuner(watch_tuning, measure))
        self._take(fitting.fit(setup, data, held, plan, on_unknown, held_together, measure), choice)
        return self

    def _take(self, made: fitting.Fitted, choice: FeatureChoice | None) -> None:
        """Keep what training leaves, then raise what ended it before its time."""
        self.labels_, self.features_, self.linear_ = made.labels, made.features, made.linear
        self.feature_set_ = choice
        self.progress_, self.n_weights_ = made.progress, made.n_weights
        self.tuning_, self.cross_fit_, self.seen_ = made.tuning, made.cross_fit, made.seen
        if made.trouble is not None:
            raise made.trouble

    def _setup(self, choice: FeatureChoice | None, tune: Tuner | None = None) -> fitting.Setup:
        """What training is to be like."""
        settings = {"model": type(self).__name__, **self._settings(), "threads": self._threads()}
        settings.pop("iterations", None)  # more of them may be wanted when training is resumed
        features = features_of(self.features if choice is None else choice.templates, self.cutoff, self.lists)
        if self.lists:
            settings["lists"] = [f"{name}: {phrases!r}" for name, phrases in lists_of(self.lists).items()]
        return fitting.Setup(
            features,
            self.scheme,
            self.pairs,
            self._bigram(features),
            self.scores,
            self._rules(),
            self._learner,
            settings,
            self._iterations(),
            tune,
            getattr(self, "folds", FOLDS),
            self.seed,
        )

    def _threads(self) -> int:
        return count_of_threads(self.threads)

    def _settings(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {name: jsonable(value) for name, value in self.get_params().items() if name != "lists"}

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
        ModelError
            If the model has not been trained.
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
        """What a file holds: its head, and arrays."""
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
        return head, {**self.features_.arrays(), **self.linear_.arrays(), **seen}

    def __reduce__(self) -> tuple[Any, ...]:
        """A model is pickled, and copied, as the bytes of its file."""
        data = self.to_bytes() if hasattr(self, "linear_") else None
        own = {name: getattr(self, name) for name in ("_metadata_request",) if hasattr(self, name)}
        return _unpickled, (type(self), self.get_params(), data, own)


_LONGEST = {"pairwise": (MOST_SQUARE, "this file has scores of too many label bigrams")}


def load(path: str | Path) -> Tagger:
    """Read a model that was written by `save`.

    Nothing in the file is trusted: no code of it runs, and sizes are checked before memory is allocated.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Tagger
        A model of the class that was saved, ready to use.

    Raises
    ------
    FileError
        If the file cannot be read.
    ModelFileError
        If it is cut off, altered, of a newer format, or not a model.

    Examples
    --------
    >>> import tempfile, bridle
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bridle.LocalTagger().fit([[["a"], ["b"]]], [["D", "N"]]).save(f"{folder}/small.bridle")
    ...     bridle.load(f"{folder}/small.bridle").labels_.names
    ('D', 'N')
    """
    return _loaded(files.open_file(path, _LONGEST), str(path))


def from_bytes(data: bytes) -> Tagger:
    """Read a model from what `Tagger.to_bytes` returned. It is trusted no more than a file.

    Parameters
    ----------
    data : bytes
        The content of a model file.

    Returns
    -------
    Tagger
        As from `load`.

    Raises
    ------
    ModelFileError
        As from `load`.
    """
    return _loaded(files.from_bytes(data, _LONGEST), "a model in memory")


def _unpickled(
    kind: type[Tagger], params: dict[str, Any], data: bytes | None, own: Mapping[str, Any] = MappingProxyType({})
) -> Tagger:
    """A model as it was before it was pickled; own: what else it had, that no file keeps."""
    made = kind(**params) if data is None else _loaded(files.from_bytes(data, _LONGEST), "a model in memory", kind)
    made.__dict__.update(params)  # as they were, not as JSON has them
    made.__dict__.update(own)
    return made


def _loaded(stored: files.Stored, path: str, kind: type[Tagger] | None = None) -> Tagger:
    if stored.kind != "model":
        got, cause = f"a file of the kind {stored.kind!r}", "Is it a ConstrainedTagger? It has its own load."
        raise ModelFileError("this is not a model", got=got, wanted="a model", where=path, cause=cause)
    head = stored.head
    try:
        made = (kind or Tagger.kinds[head["model"]])(**head["settings"])
        labels = Labels(head["labels"], head["scheme"])
        features = FEATURES[head["features"]["kind"]].restored(head["features"], stored.arrays)
        linear = Linear.restored(stored.arrays, len(features), len(labels.names), features.n_edges)
        made.labels_, made.features_, made.linear_ = labels, features, linear
        made.lists = getattr(features, "lists", None) or None
        made.progress_, made.n_weights_ = Progress.restored(head["progress"]), int(head["n_weights"])
        made.tuning_ = None if head.get("tuning") is None else Tuning.restored(head["tuning"])
        made.seen_ = checked_sketch(stored.arrays.get("seen"))
        made.notes_ = dict(head["notes"])
        made.feature_set_ = FeatureChoice.restored(head["feature_set"]) if head.get("feature_set") else None
        made._check()
    except files.UNFIT as error:
        cause = "Written by another version of Bridle, or by something else?"
        raise files.unusable(error, path, "model", "Tagger.save", cause) from None
    return made
