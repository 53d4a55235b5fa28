"""Scores of sequences that the scoring model has not seen: what rules are priced against.

They come from anything that scores labels: the logits of a network, a file, or a model of Bridle, which becomes
`Scores` by its own cross-fitting. Pricing (pricing.py) sees scores and gold labels only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.arrays import as_array
from bridle.data import Pace, open_scores
from bridle.decoding.problem import check_given, offsets_of
from bridle.errors import FileError, LabelError, LatticeError, ModelError, shown
from bridle.features import Features, PlainFeatures, TemplateFeatures, sequences_of
from bridle.features.columns import column_of, length_of, names_in
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Lattices
from bridle.learn.evidence import Given, Ids
from bridle.models.checks import (
    all_known,
    check_callable,
    check_seed,
    count_of,
    given_of,
    labellings_of,
    names_of,
)
from bridle.models.folds import FOLDS, deal, groups_of
from bridle.models.task import hashes_of

Ints = npt.NDArray[np.int64]
Model = TypeVar("Model")


# ---- scores ---------------------------------------------------------------------------------------------------------


class Scores:
    """Scores of sequences by a model that has not seen them: logits of a network, or of anything that scores labels.

    `fit_rules` and `tune_rules` take them in place of a model. Scores of the data that the model was trained on make
    rules too cheap: take held-out data, or `cross_fit`.

    Parameters
    ----------
    labels : Labels or iterable of str
        The labels, in the order of the columns of the scores. The scheme of names is found: BIO, BIOES, BMES.
    logits : list of array, list of Lattice, Batch, or array of shape (B, T, m)
        Scores of B sequences: an array or tensor (tokens x labels) for each; lattices or a batch, which may have
        transitions; or one padded array or tensor. Padding follows the tokens; `Batch.from_padded` takes masks.
    tokens : list, optional
        The sequences: lists of token texts, or mappings of columns. Rules about tokens need them, and padded scores for
        their lengths.
    folds : array of int, shape (B,), optional
        Cross-fitted scores: the fold of each sequence. Those of a fold were scored by a model that was trained on the
        other folds. None: all of them are new to the model.
    given : list of mapping, optional
        Values that rules refer to by name, a mapping per sequence.

    Raises
    ------
    LatticeError, LabelError, ModelError
        If the arguments do not fit together.

    Examples
    --------
    >>> from bridle.learn import Scores, fit_rules
    >>> logits = [[[2, 0], [0, 1]], [[0, 3], [1, 1], [0, 2]]] * 20
    >>> gold = [["A", "B"], ["A", "A", "B"]] * 20
    >>> print(*fit_rules(Scores(["A", "B"], logits), gold, rules=["starts with A"]).rules)
    starts with A  [penalty 10.7]
    """

    labels: Labels
    lattices: Lattices  # (B)
    X: Sequence[Any] | None  # (B)
    folds: Ints | None  # (B,)
    given: Sequence[Given] | None  # (B)
    sequences: Ints  # (B,)  their numbers in the data: all of it, or a part
    features: Features | None = None  # of a model, which say where texts of tokens are
    exact: bool = False  # does a model of Bridle know what it has seen?
    best: Ids | None = None  # (N,)  the best labels without rules, once they are known

    def __init__(
        self,
        labels: Labels | Iterable[str],
        logits: Any,
        tokens: Sequences | None = None,
        *,
        folds: npt.ArrayLike | None = None,
        given: Sequence[Given] | Table | None = None,
    ) -> None:
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        self.X, self.given = None if tokens is None else sequences_of(tokens), given_of(given)
        lengths = None if self.X is None else [length_of(x, k) for k, x in enumerate(self.X)]
        self.lattices = _lattices(logits, lengths, len(self.labels))
        offsets = offsets_of(self.lattices)
        sizes = np.diff(offsets).tolist()
        if lengths is not None and lengths != sizes:
            k = next((k for k, (a, b) in enumerate(zip(lengths, sizes, strict=False)) if a != b), None)
            got, wanted = (len(sizes), len(lengths)) if k is None else (sizes[k], lengths[k])
            what = "sequences" if k is None else "tokens"
            raise LatticeError(
                "the scores do not fit the tokens", got=f"{got} {what}", wanted=f"{wanted} {what}", sequence=k
            )
        check_given(self.given, len(self))
        self.folds = None if folds is None else _folds(folds, len(self))
        self.sequences = np.arange(len(self))

    def __len__(self) -> int:
        return len(self.lattices)

    def __repr__(self) -> str:
        return f"Scores({len(self):,} sequences, {len(self.labels)} labels, {self.source})"

    @property
    def source(self) -> str:
        """``"cross-fitted"`` if there are folds; otherwise ``"model"``: the sequences are new to the model."""
        return "model" if self.folds is None else "cross-fitted"

    @property
    def fingerprint(self) -> str:
        """A digest of the labels and the scores in 16 hexadecimal digits."""
        if self._fingerprint is None:
            digest = hashlib.sha256(repr((self.labels.names, self.labels.scheme)).encode())
            rows = [self.lattices.unary] if isinstance(self.lattices, Batch) else [x.unary for x in self.lattices]
            for array in rows:
                digest.update(np.ascontiguousarray(array).tobytes())
            self._fingerprint = digest.hexdigest()[:16]
        return self._fingerprint

    _fingerprint: str | None = None

    @classmethod
    def load(
        cls,
        paths: Sequence[str | Path],
        tokens: Sequences | None = None,
        *,
        labels: Labels | Iterable[str] | None = None,
        given: Sequence[Given] | Table | None = None,
    ) -> Scores:
        """Read score files: npz, Parquet, Arrow or JSON lines.

        Parameters
        ----------
        paths : sequence of path
            One file: scores of data that is new to the model. Several: one per fold, by a model that was trained on the
            others; together they have the sequences in the order of the gold labels, or ids that say their places: the
            numbers from 0 on, each once.
        tokens : list, optional
            The sequences; by default the tokens in the files. If both are known, they must be the same.
        labels : Labels or iterable of str, optional
            The labels in the order of the columns, for files that do not name them.
        given : list of mapping, optional
            Values that rules refer to by name; by default those in the files.

        Returns
        -------
        Scores
            The scores of all files.

        Raises
        ------
        FileError, LabelError, LatticeError
            If a file cannot be read, or the files do not fit together.
        """
        names = None if labels is None else labels.names if isinstance(labels, Labels) else tuple(labels)
        lattices: list[Lattice] = []
        folds, ids, values, where = list[int](), list[Any](), list[dict[str, Any]](), list[str]()
        for fold, path in enumerate(paths):
            with open_scores(str(path), Pace(most=1 << 14), None if names is None else len(names)) as file:
                if names is not None and file.labels not in (None, tuple(names)):
                    got, wanted = ", ".join(file.labels or ()), ", ".join(names)
                    raise LabelError("score files differ in their labels", got=got, wanted=wanted, where=str(path))
                names = file.labels if names is None else names
                for chunk in file.chunks:
                    lattices += [chunk.lattices[k] for k in range(len(chunk))]
                    folds += [fold] * len(chunk)
                    ids, values, where = ids + chunk.ids, values + chunk.givens, where + chunk.where
        if names is None:
            wanted = "the array `labels` in npz, the key `labels` in JSON lines, or `labels=`"
            raise LabelError("the score files do not name their labels", got="no names", wanted=wanted)
        if sorted(map(str, ids)) == sorted(map(str, range(len(ids)))):
            order = np.argsort([int(number) for number in ids]).tolist()
            lattices, folds, values, where = ([part[k] for k in order] for part in (lattices, folds, values, where))
        written = [row.get("tokens") for row in values]
        values = [{name: value for name, value in row.items() if name != "tokens"} for row in values]
        if tokens is None:
            tokens = None if None in written else [list(words or ()) for words in written]
        else:
            for k, (words, texts) in enumerate(zip(written, texts_of(sequences_of(tokens), None) or [], strict=False)):
                if words is not None and list(words) != texts:
                    raise FileError(
                        "the score file has other tokens than the gold data", got=shown(words), wanted=shown(texts),
                        cause="Are the files in the same order?", where=where[k]
                    )  # fmt: skip
        if given is None and any(values):
            given = values
        plain = all(x.pairwise is None and x.start is None and x.end is None for x in lattices)
        known = labels if isinstance(labels, Labels) else Labels(names)
        logits: Any = [x.unary for x in lattices] if plain else lattices
        return cls(known, logits, tokens, folds=folds if len(paths) > 1 else None, given=given)


def texts_of(X: Sequence[Any] | None, features: Features | None) -> list[list[str]] | None:
    """Return the texts of the tokens of sequences, if they are known."""
    if X is None or isinstance(features, PlainFeatures):
        return None
    if isinstance(features, TemplateFeatures):
        return [list(features.tokens(x)) for x in X]
    texts: list[list[str]] = []
    for x in X:
        columns = (x if names_in(x) == [] else column_of(x, name) for name in ("tokens", "word", "text"))
        column = next((column for column in columns if column is not None), None)
        if column is None:
            return None
        texts.append(list(column))
    return texts


def _lattices(logits: Any, lengths: list[int] | None, m: int) -> Lattices:
    """Convert scores to a batch, or to a list of lattices."""
    lattices: Lattices
    if isinstance(logits, Batch):
        lattices = logits
    elif isinstance(logits, (list, tuple)):
        if logits and all(isinstance(x, Lattice) for x in logits):
            lattices = list(logits)
        else:
            arrays = [as_array("logits", x) for x in logits]
            for k, array in enumerate(arrays):
                if array.ndim != 2 or array.shape[1] != m:
                    wanted = f"(tokens, {m}): a column for each label"
                    raise LatticeError("scores have a wrong shape", got=array.shape, wanted=wanted, sequence=k)
            rows = np.concatenate(arrays) if arrays else np.zeros((0, m))
            lattices = Batch(rows, np.cumsum([0, *map(len, arrays)]))
    else:
        grid = as_array("logits", logits)
        if lengths is None:
            raise LatticeError(
                "padded scores need the tokens, or their lengths",
                got=f"an array of shape {grid.shape} without `tokens`",
                wanted="Scores(labels, logits, tokens), or Batch.from_padded(logits, lengths=...)",
            )
        lattices = Batch.from_padded(grid, lengths=lengths)
    for k in range(len(lattices) if isinstance(lattices, list) else min(len(lattices), 1)):
        if (got := lattices[k].n_labels) != m:
            raise LatticeError("scores have another number of labels", got=got, wanted=m, sequence=k)
    return lattices


def _folds(folds: npt.ArrayLike, count: int) -> Ints:
    array = np.asarray(folds)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        got = f"{array.dtype} of shape {array.shape}"
        raise ModelError("`folds` must be a number per sequence", got=got, wanted=f"{count} integers")
    numbers = np.unique(array, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if count and numbers.max() == 0:
        raise ModelError(
            "all sequences are in the same fold", got=shown(folds), wanted="two folds or more, or folds=None",
            cause="Scores of new data, by one model, need no folds."
        )  # fmt: skip
    return numbers


def keys_of(scores: Scores) -> list[Hashable]:
    """Return equal keys for sequences with equal texts, or without texts with equal scores."""
    if scores.X is None:
        return [scores.lattices[b].unary.tobytes() for b in range(len(scores))]
    if scores.features is not None:
        return list(hashes_of(scores.features, scores.X).tolist())
    texts = texts_of(scores.X, scores.features)
    return list(map(repr, scores.X)) if texts is None else list(map(tuple, texts))


def cross_fit(
    train: Callable[[list[Any], list[Sequence[str]]], Model],
    score: Callable[[Model, list[Any]], Any],
    X: Sequences,
    y: LabelLists,
    folds: int = FOLDS,
    *,
    labels: Labels | Iterable[str] | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    given: Sequence[Given] | Table | None = None,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score sequences by models of any framework that have not seen them.

    The sequences are cut into folds. For each fold, a model is trained on the others and scores it. Equal sequences are
    in the same fold.

    Parameters
    ----------
    train : callable
        ``train(X, y)`` returns a new model, trained on these sequences.
    score : callable
        ``score(model, X)`` returns the scores of these sequences: whatever `Scores` takes.
    X, y : list
        Sequences (lists of token texts, or mappings of columns) and their labels.
    folds : int, default 4
        Number of folds, and of models that are trained.
    labels : Labels or iterable of str, optional
        The labels in the order of the columns of the scores. By default all labels of `y`, sorted.
    groups : sequence, optional
        A name or a number per sequence; sequences of a group are held out together.
    given : list of mapping, optional
        Values that rules refer to by name, a mapping per sequence.
    seed : int, default 0
        Seed of the random number generator, which assigns folds.
    watch : callable, optional
        Called after each fold with the number of folds that are done, and of all.

    Returns
    -------
    Scores
        Scores of all sequences, for `fit_rules` and `tune_rules`.

    Raises
    ------
    ModelError, LabelError, LatticeError
        If a setting is invalid, or the scores do not fit the sequences.

    Examples
    --------
    >>> from bridle.learn import cross_fit
    >>> X, y = [["the", "cat"], ["a", "dog"], ["the", "dog"]], [["D", "N"]] * 3
    >>> count = lambda X, y: {x: labels for words, names in zip(X, y) for x, labels in zip(words, names)}
    >>> score = lambda known, X: [[[known.get(x) == "D", known.get(x) == "N"] for x in words] for words in X]
    >>> cross_fit(count, score, X, y, folds=3)
    Scores(3 sequences, 2 labels, cross-fitted)
    """
    for name, function in (("train", train), ("score", score), ("watch", watch)):
        check_callable(name, function if name == "watch" or function is not None else 0, "a function")
    check_seed(seed)
    X, gold = list(sequences_of(X)), all_known(labellings_of(y))
    if len(X) != len(gold):
        raise LabelError("y and X differ in length", got=f"{len(gold)} lists", wanted=f"{len(X)} of them")
    known = labels if isinstance(labels, Labels) else Labels(names_of(gold) if labels is None else labels)
    whole = Scores(known, [np.zeros((length_of(x, k), len(known))) for k, x in enumerate(X)], X, given=given)
    of = deal(groups_of(groups, len(X)) or keys_of(whole), count_of("folds", folds, 2), seed).of
    parts = int(of.max(initial=0)) + 1
    if parts < 2:
        raise ModelError("there are too few different sequences to hold some out", got=len(X), wanted="two or more")
    lattices: list[Any] = [None] * len(X)
    for fold in range(parts):
        inside, outside = np.flatnonzero(of != fold).tolist(), np.flatnonzero(of == fold).tolist()
        model = train([X[k] for k in inside], [gold[k] for k in inside])
        held_out = [X[k] for k in outside]
        part = Scores(known, score(model, held_out), held_out)
        for row, k in enumerate(outside):
            lattices[k] = part.lattices[row]
        if watch is not None:
            watch(fold + 1, parts)
    plain = all(x.pairwise is None and x.start is None and x.end is None for x in lattices)
    return Scores(known, [x.unary for x in lattices] if plain else lattices, X, folds=of, given=given)
