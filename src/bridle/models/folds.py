"""Folds: data is cut into parts, and each part is scored by a model that is trained on the others.

A model is too sure of the sequences it was trained on. So all that asks how good a model will be on new data holds
data out, and goes through this module: the choice of `c1` and `c2` (tuning.py), the search for other settings and
cross-validation (halving.py, validation.py), and cross-fitted scores, against which rules are priced.

Sequences that belong together are in the same fold: those with equal features (a duplicate in another fold would be
known by heart), or those of the same group, if groups are given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, ModelFileError, shown
from bridle.features import Encoded
from bridle.frames import cells
from bridle.labels import Labels
from bridle.lattice import LARGEST, Batch, Lattice, Steps
from bridle.models import files
from bridle.models.checks import Given
from bridle.models.linear import Ints, Kind, Linear, Weights
from bridle.models.task import Examples, Learner, Task, select
from bridle.models.training import Plan, train
from bridle.report.sequences import SequenceScores

FOLDS = 4  # unless a model says otherwise
_STEPS = ("indptr", "pair", "score")  # in files


# ---- dealing sequences out ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The folds of sequences; each fold is held out once."""

    of: Ints  # (B,)  the number of each sequence's fold, from 0; -1: it is never held out

    def __len__(self) -> int:
        return int(self.of.max(initial=-1)) + 1

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield for each fold the sequences to train on, and those that are held out."""
        for fold in range(len(self)):
            yield np.flatnonzero(self.of != fold), np.flatnonzero(self.of == fold)


def folds_of(encoded: Encoded, count: int, seed: int, groups: Sequence[Hashable] | None = None) -> Folds:
    """Deal sequences out; those of a group, or without groups those with equal features, to the same fold."""
    if groups is not None:
        return deal(groups, count, seed)
    keys: Sequence[Hashable] = [_key(encoded, b) for b in range(len(encoded))]
    return deal(keys if len(set(keys)) > 1 else range(len(keys)), count, seed)  # nothing tells them apart: one by one


def deal(keys: Sequence[Hashable], count: int, seed: int) -> Folds:
    """Deal sequences out to folds of about the same size, those with equal keys to the same one.

    There are fewer folds than `count` if there are fewer different keys.
    """
    members: dict[Hashable, list[int]] = {}
    for b, key in enumerate(keys):
        members.setdefault(key, []).append(b)
    parts = list(members.values())
    order = np.random.default_rng(seed).permutation(len(parts)).tolist()
    order.sort(key=lambda g: -len(parts[g]))  # the large ones first, so that small ones fill what is left
    of, sizes = np.zeros(len(keys), dtype=np.int64), np.zeros(min(count, len(parts)), dtype=np.int64)
    for g in order:
        fold = int(sizes.argmin())
        of[parts[g]] = fold
        sizes[fold] += len(parts[g])
    return Folds(of)


def check_held_out(folds: Folds) -> None:
    """Raise `ModelError` if nothing can be held out."""
    if len(folds) < 2:
        raise ModelError("there are too few sequences to hold some out", got=len(folds.of), wanted="two or more")


def groups_of(groups: Any, count: int) -> Sequence[Hashable] | None:
    """Return a name or a number for each sequence; raise `ModelError` if all are the same. None: no groups."""
    if groups is None:
        return None
    groups = cells(groups)
    if isinstance(groups, str) or not hasattr(groups, "__len__") or len(groups) != count:
        got = f"{len(groups)} of them" if hasattr(groups, "__len__") else shown(groups)
        raise ModelError("groups do not fit the sequences", got=got, wanted=f"a list of {count}, one per sequence")
    try:
        different = len(set(groups))
    except TypeError:
        raise ModelError(
            "a group is neither a name nor a number", got=shown(groups), wanted="hashable values"
        ) from None
    if different < 2:
        raise ModelError(
            "all sequences are of the same group",
            got=shown(groups),
            wanted="at least two groups",
            cause="Leave it out.",
        )
    return list(groups)


def _key(encoded: Encoded, b: int) -> bytes:
    """Return the same key for sequences with equal features."""
    rows = encoded.indptr[encoded.offsets[b] : encoded.offsets[b + 1] + 1]
    digest = hashlib.blake2b((rows - rows[0]).tobytes(), digest_size=16)
    digest.update(encoded.attrs[rows[0] : rows[-1]].tobytes())
    if encoded.values is not None:
        digest.update(encoded.values[rows[0] : rows[-1]].tobytes())
    return digest.digest()


# ---- the driver -----------------------------------------------------------------------------------------------------


class FoldRun(NamedTuple):
    """Results of training on all folds but one, for one fold or more."""

    batches: list[Batch]  # scores of the sequences that were held out
    weights: list[Weights]
    iterations: int  # of all folds together
    seconds: float  # the same

    @classmethod
    def joined(cls, runs: Sequence[FoldRun]) -> FoldRun:
        """Put the results of folds together."""
        batches, weights, iterations, seconds = zip(*runs, strict=True)
        return cls([*chain(*batches)], [*chain(*weights)], sum(iterations), sum(seconds))


@dataclass(frozen=True, slots=True, eq=False)
class FoldedExamples:
    """Examples in folds; of each fold, the task to learn the others."""

    examples: Examples
    sequences: Ints  # (B,)  their numbers in the training data
    folds: Folds
    kind: Kind  # of the scores
    fold_of_token: Ints  # (N,)
    tasks: tuple[Task, ...]  # of each fold: all sequences but its own
    held: tuple[Encoded, ...]  # of each fold: its own sequences

    @classmethod
    def of(
        cls, examples: Examples, sequences: Ints, folds: Folds, *, kind: Kind, pairs: str, bigram: bool
    ) -> FoldedExamples:
        """Make the tasks of all folds. examples: of these `sequences`, which `folds` deals out."""
        encoded, sizes = examples.encoded, (len(examples.features), len(examples.labels))
        fold_of = np.repeat(folds.of, np.diff(encoded.offsets))
        tasks = tuple(
            Task.of(encoded.part(inside), examples.gold[fold_of != fold], sizes, pairs, bigram)
            for fold, (inside, _) in enumerate(folds)
        )
        return cls(examples, sequences, folds, kind, fold_of, tasks, tuple(encoded.part(held) for _, held in folds))

    def run(
        self,
        learner: Callable[[int, Task, list[Given] | None], Learner],
        plan: Plan,
        watch: Callable[[int, int], None] | None = None,
    ) -> FoldRun:
        """Train on all folds but one, and score that one; for each fold.

        learner: makes the learner of a fold, from its number, its task and the given values. watch: is called after
        each fold with the number of folds that are done, and of all. Errors that the plan raises end the run.
        """
        runs: list[FoldRun] = []
        for fold in range(len(self.tasks)):
            runs.append(self.run_fold(fold, learner, plan))
            if watch is not None:
                watch(fold + 1, len(self.tasks))
        return FoldRun.joined(runs)

    def run_fold(self, fold: int, learner: Callable[[int, Task, list[Given] | None], Learner], plan: Plan) -> FoldRun:
        """Train on all folds but this one, and score it."""
        begun, task, inside = perf_counter(), self.tasks[fold], np.flatnonzero(self.folds.of != fold)
        weights, progress, interruption = train(
            learner(fold, task, select(self.examples.given, inside)), plan, None, {}
        )
        if interruption is not None:
            raise interruption
        batch = Linear.of(task.layout, *weights).scores(self.held[fold], self.kind)
        return FoldRun([batch], [weights], progress.iteration, perf_counter() - begun)

    def scored(self, run: FoldRun, threads: int) -> tuple[SequenceScores, dict[str, Any]]:
        """Compare the labels of held-out sequences with gold; return iterations and seconds by name too."""
        begun, examples, guesses = perf_counter(), self.examples, np.empty(len(self.examples.gold), dtype=np.int64)
        for fold, (batch, (_, outside)) in enumerate(zip(run.batches, self.folds, strict=True)):
            decodings = examples.decoder.decode_batch(batch, select(examples.given, outside), threads=threads)
            guesses[self.fold_of_token == fold] = decodings.ids
        out, tokens = self.folds.of >= 0, self.fold_of_token >= 0
        offsets = np.concatenate([[0], np.cumsum(np.diff(examples.encoded.offsets)[out])])
        scores = SequenceScores.of(examples.labels, examples.gold[tokens], guesses[tokens], offsets)
        return scores, {"iterations": run.iterations, "seconds": round(run.seconds + perf_counter() - begun, 3)}

    def joined(self, batches: Sequence[Batch], identity: Mapping[str, Any]) -> CrossFit:
        """Put the scores of all folds in the order of the sequences."""
        labels, offsets, n = self.examples.labels, self.examples.encoded.offsets, len(self.examples.gold)
        unary = np.empty((n, len(labels)), dtype=np.float32)
        for fold, batch in enumerate(batches):
            unary[self.fold_of_token == fold] = batch.unary
        tables = [np.asarray(batch.pairwise) for batch in batches if batch.pairwise is not None]
        steps = [batch.steps for batch in batches if batch.steps is not None]
        place = np.empty(n, dtype=np.int64)  # of each token among those of the folds, end to end
        place[np.argsort(self.fold_of_token, kind="stable")] = np.arange(n)
        return CrossFit(
            labels,
            self.sequences,
            self.folds.of,
            unary,
            offsets,
            np.stack(tables) if tables else None,
            dict(identity),
            Steps.joined(steps).subset(place) if steps else None,
        )


# ---- cross-fitted scores --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """Scores of sequences, each by a model that was trained without it.

    `Tagger.cross_fit` makes it, and leaves it in `cross_fit_`.

    Attributes
    ----------
    labels : Labels
        The labels, in the order of the columns of `unary`.
    sequences : array of int, shape (B,)
        Numbers of the sequences in the training data, rising; all of them, or a sample of large data.
    fold : array of int, shape (B,)
        The fold of each.
    unary : array of float32, shape (N, m)
        Scores of their tokens, end to end.
    offsets : array of int, shape (B + 1,)
        Where each sequence begins.
    pairwise : array of float, shape (folds, m, m), or None
        Scores of label bigrams by the model of each fold.
    identity : dict
        Identifies the data and the settings.
    steps : Steps or None
        What each token adds to `pairwise`, if the model has templates with ``label[-1]`` beside other places.
    """

    labels: Labels
    sequences: Ints
    fold: Ints
    unary: npt.NDArray[np.float32]
    offsets: Ints
    pairwise: npt.NDArray[np.float64] | None
    identity: Mapping[str, Any]
    steps: Steps | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lattices(self) -> list[Lattice]:
        """Return the scores as lattices, one per sequence."""
        return list(map(self.lattice, range(len(self))))

    def lattice(self, k: int) -> Lattice:
        """Return the scores of one sequence.

        Parameters
        ----------
        k : int
            Its place in `sequences`, from 0.

        Returns
        -------
        Lattice
            Its scores, by the model of its fold.
        """
        low, high = self.offsets[[k, k + 1]].tolist()
        table = None if self.pairwise is None else self.pairwise[self.fold[k]]
        if self.steps is not None and high - low > 1:
            table = self.steps.tables(table, low + 1, high, len(self.labels))
        return Lattice(self.unary[low:high], table)

    def save(self, path: str | Path) -> None:
        """Write the scores to a file.

        Parameters
        ----------
        path : path
            Where to write.

        Raises
        ------
        FileError
            If the file cannot be written.
        """
        head = {"labels": list(self.labels.names), "scheme": self.labels.scheme, "identity": dict(self.identity)}
        arrays: dict[str, npt.NDArray[Any]] = {
            "sequences": self.sequences,
            "fold": self.fold,
            "unary": self.unary,
            "offsets": self.offsets,
        }
        if self.pairwise is not None:
            arrays["pairwise"] = self.pairwise
        if self.steps is not None:
            arrays |= {f"steps.{name}": getattr(self.steps, name) for name in _STEPS}
        files.save(path, "cross-fit", head, arrays)

    @classmethod
    def load(cls, path: str | Path) -> CrossFit:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        CrossFit
            The scores.

        Raises
        ------
        FileError
            If the file cannot be read.
        ModelFileError
            If it is cut off, altered, or holds something else.
        """
        stored = files.open_file(path)
        if stored.kind != "cross-fit":
            got, wanted = f"a file of the kind {stored.kind!r}", "what CrossFit.save writes"
            raise ModelFileError("these are not cross-fitted scores", got=got, wanted=wanted, where=str(path))
        try:
            head, arrays = stored.head, stored.arrays
            labels = Labels(head["labels"], head["scheme"])
            scores = cls(
                labels,
                arrays["sequences"],
                arrays["fold"],
                arrays["unary"],
                arrays["offsets"],
                arrays.get("pairwise"),
                dict(head["identity"]),
                Steps(*(arrays[f"steps.{name}"] for name in _STEPS)) if "steps.indptr" in arrays else None,
            )
            scores._check()
        except files.UNFIT as error:
            cause = "Written by another version of Bridle, or by something else?"
            raise files.unusable(error, path, "cross-fitted scores", "CrossFit.save", cause) from None
        return scores

    def _check(self) -> None:
        """Raise `ModelFileError` if arrays do not fit together: the kernels trust them."""
        m, count = len(self.labels), len(self.sequences)
        kinds = [a.dtype.name for a in (self.sequences, self.fold, self.unary, self.offsets)]
        fits = (
            kinds == ["int64", "int64", "float32", "int64"]
            and self.fold.shape == self.sequences.shape == (count,)
            and self.offsets.shape == (count + 1,)
            and (not count or (self.offsets[0] == 0 and int(self.fold.min()) >= 0 and int(self.sequences[0]) >= 0))
            and bool((np.diff(self.offsets) >= 0).all() and (np.diff(self.sequences) > 0).all())
            and self.unary.shape == (int(self.offsets[-1]), m)
            and bool(np.isfinite(self.unary).all())
        )
        if self.pairwise is not None:
            fits = fits and (
                self.pairwise.dtype == np.float64
                and self.pairwise.shape[1:] == (m, m)
                and int(self.fold.max(initial=-1)) < len(self.pairwise)
                and bool((np.abs(self.pairwise) <= LARGEST).all())
            )
        if fits and self.steps is not None:
            self.steps.check(len(self.unary), m)
        if not fits:
            raise ModelFileError("the scores do not fit together", wanted="scores of these sequences and labels")


def check_fits(cross_fit: CrossFit, identity: Mapping[str, Any]) -> None:
    """Raise `ModelError` if scores are those of other data or other settings."""
    if other := [name for name in identity if cross_fit.identity.get(name) != identity[name]]:
        titles = {"data": "the sequences and labels", "groups": "what was held out together"}
        raise ModelError(
            "these are cross-fitted scores of other data or settings",
            got=", ".join(titles.get(name, f"{name}={cross_fit.identity.get(name)!r}") for name in other),
            wanted=", ".join("the same" if name in titles else f"{name}={identity[name]!r}" for name in other),
            cause="Remove the file, or make the scores again.",
        )
