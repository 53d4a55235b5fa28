"""CrossFit: scores of training sequences by models that have not seen them.

A model is too sure of the sequences it was trained on. So the data is cut into folds, and each fold is scored by a
model trained on the others, with the same settings: that is how the model will do on new data, and what rules should
be priced against. The scores can be kept in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, ModelFileError
from bridle.features import Encoded
from bridle.labels import Labels
from bridle.lattice import LARGEST, Batch, Lattice
from bridle.models import files
from bridle.models.folds import Folds
from bridle.models.linear import Kind, Linear
from bridle.models.task import Found, Task
from bridle.report.sequences import SequenceScores
from bridle.steps import Steps

Ints = npt.NDArray[np.int64]
_STEPS = ("indptr", "pair", "score")  # in files
# Learns a fold: its number, its task and the numbers of its sequences -> weights and label bigrams.
Learn = Callable[[int, Task, Ints], Found]


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """Scores of sequences, each by a model that was trained without it.

    `Tagger.cross_fit` makes it; a `CRF` that chose `c1` or `c2` itself has it as `cross_fit_`.

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
        """Return the scores as lattices.

        Returns
        -------
        list of Lattice
            One per sequence.
        """
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
        head = {
            "labels": list(self.labels.names),
            "scheme": self.labels.scheme,
            "identity": dict(self.identity),
        }
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
            made = cls(
                labels,
                arrays["sequences"],
                arrays["fold"],
                arrays["unary"],
                arrays["offsets"],
                arrays.get("pairwise"),
                dict(head["identity"]),
                Steps(*(arrays[f"steps.{name}"] for name in _STEPS)) if "steps.indptr" in arrays else None,
            )
            made._check()
        except files.UNFIT as error:
            cause = "Written by another version of Bridle, or by something else?"
            raise files.unusable(error, path, "cross-fitted scores", "CrossFit.save", cause) from None
        return made

    def _check(self) -> None:
        """Refuse arrays that do not fit together, since the kernels trust them."""
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


@dataclass(frozen=True, slots=True, eq=False)
class FoldedTask:
    """Encoded sequences with gold labels in folds, each fold a task of its own."""

    encoded: Encoded
    gold: npt.NDArray[np.int32]  # (N,)
    labels: Labels
    sequences: Ints  # (B,)  their numbers in the training data
    folds: Folds
    fold_of_token: Ints  # (N,)
    tasks: tuple[Task, ...]  # of each fold: all sequences but its own
    held: tuple[Encoded, ...]  # of each fold: its own sequences

    @classmethod
    def of(
        cls,
        encoded: Encoded,
        gold: npt.NDArray[np.int32],
        labels: Labels,
        sequences: Ints,
        folds: Folds,
        *,
        n_attributes: int,
        pairs: str,
        bigram: bool,
    ) -> FoldedTask:
        """The tasks of all folds. encoded, gold: of all `sequences`, which `folds` deals out."""
        fold_of = np.repeat(folds.of, np.diff(encoded.offsets))
        sizes = n_attributes, len(labels)
        tasks = tuple(
            Task.of(encoded.part(inside), gold[fold_of != fold], sizes, pairs, bigram)
            for fold, (inside, _) in enumerate(folds)
        )
        held = tuple(encoded.part(outside) for _, outside in folds)
        return cls(encoded, gold, labels, sequences, folds, fold_of, tasks, held)

    def scores(self, learn: Learn, kind: Kind) -> list[Batch]:
        """The held-out sequences of each fold, scored by the model that is learned on the others."""
        made = []
        for fold, (task, held, (inside, _)) in enumerate(zip(self.tasks, self.held, self.folds, strict=True)):
            found = learn(fold, task, self.sequences[inside])
            made.append(Linear.of(task.layout, *found).scores(held, kind))
        return made

    def compare(self, batches: Sequence[Batch], decode: Callable[[Batch], npt.NDArray[np.integer]]) -> SequenceScores:
        """How good the labels are that the models of the folds give to the sequences that are held out."""
        guesses = np.empty(len(self.gold), dtype=np.int64)
        for fold, batch in enumerate(batches):
            guesses[self.fold_of_token == fold] = decode(batch)
        out, tokens = self.folds.of >= 0, self.fold_of_token >= 0
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.encoded.offsets)[out])])
        return SequenceScores.of(self.labels, self.gold[tokens], guesses[tokens], offsets)

    def joined(self, batches: Sequence[Batch], identity: Mapping[str, Any]) -> CrossFit:
        """The scores of all folds in the order of the sequences."""
        unary = np.empty((len(self.gold), len(self.labels)), dtype=np.float32)
        for fold, batch in enumerate(batches):
            unary[self.fold_of_token == fold] = batch.unary
        tables = [np.asarray(batch.pairwise) for batch in batches if batch.pairwise is not None]
        pairwise = np.stack(tables) if tables else None
        made = [batch.steps for batch in batches if batch.steps is not None]
        steps = None
        if made:  # in the order of the folds
            place = np.empty(len(self.gold), dtype=np.int64)
            place[np.argsort(self.fold_of_token, kind="stable")] = np.arange(len(self.gold))
            steps = Steps.joined(made).subset(place)
        offsets = self.encoded.offsets
        return CrossFit(self.labels, self.sequences, self.folds.of, unary, offsets, pairwise, dict(identity), steps)


def check_fits(cross_fit: CrossFit, identity: Mapping[str, Any]) -> None:
    """Refuse scores of other data or other settings."""
    if other := [name for name in identity if cross_fit.identity.get(name) != identity[name]]:
        said = {"data": "the sequences and labels", "groups": "what was held out together"}
        raise ModelError(
            "these are cross-fitted scores of other data or settings",
            got=", ".join(said.get(name, f"{name}={cross_fit.identity.get(name)!r}") for name in other),
            wanted=", ".join("the same" if name in said else f"{name}={identity[name]!r}" for name in other),
            cause="Remove the file, or make the scores again.",
        )
