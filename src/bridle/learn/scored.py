"""Labelled sequences with scores of a model that has not seen them: what rules are priced against."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given, offsets_of
from bridle.errors import LabelError, ModelError, shown
from bridle.features import sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.models.checks import (
    Given,
    all_known,
    check_seed,
    count_of_threads,
    given_of,
    ids_of,
    labellings_of,
    one_of,
)
from bridle.models.crossfit import CrossFit, check_fits
from bridle.models.folds import FOLDS, deal, groups_of
from bridle.models.seen import hashes_of
from bridle.models.tagger import Tagger
from bridle.report.sequences import SequenceScores
from bridle.rules.base import Rule

Ids = npt.NDArray[np.int32]
Source = Literal["auto", "cross-fitted", "model"]
MOST = 4000  # sequences of larger data that are looked at: prices are a few numbers
SEEN = 0.1  # the share of sequences that a model has seen from which on they count as its training data
_STATES = 10_000  # of the search for a labelling: a guess that is not proved best serves as well


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Sequences with scores, gold labels, and what rules ask for."""

    labels: Labels
    lattices: list[Lattice]  # (B)
    gold: Ids  # (N,)
    offsets: npt.NDArray[np.int64]  # (B + 1,)
    X: list[Any]  # (B)  the sequences themselves
    given: list[Given] | None
    fold: npt.NDArray[np.int64]  # (B,)
    source: str  # "cross-fitted" or "model"
    model: Tagger
    threads: int = 0

    @classmethod
    def of(
        cls,
        model: Tagger,
        X: Sequences,
        y: LabelLists,
        given: Sequence[Given] | Table | None,
        *,
        scores: Source,
        cross_fit: CrossFit | None,
        groups: Sequence[Hashable] | Table | None,
        threads: int,
        seed: int,
        say: Callable[[str], None],
    ) -> Scored:
        """Score sequences: by the model itself if they are new to it, otherwise by cross-fitting."""
        if not isinstance(model, Tagger):
            raise ModelError("not a trained model", got=shown(model), wanted="a trained CRF or LocalTagger")
        check_seed(seed)
        count_of_threads(threads)
        X, y, given = sequences_of(X), labellings_of(y), given_of(given)
        check_given(given, len(X))
        groups = groups_of(groups, len(X))
        one_of("scores", scores, ("auto", "cross-fitted", "model"))
        labels = model.decoder().labels
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise LabelError("`y` must be a list of label lists", got=shown(y), wanted="a list per sequence")
        if len(X) < 2:
            raise ModelError("there are too few sequences to hold some out", got=len(X), wanted="two or more")
        if len(y) != len(X):
            raise LabelError("y and X differ in length", got=f"{len(y)} lists", wanted=f"{len(X)} of them")
        y = all_known(y)
        if scores == "auto":
            share = model.share_seen(X)
            scores = "model" if cross_fit is None and share is not None and share < SEEN else "cross-fitted"
        if scores == "model":
            if cross_fit is not None:
                raise ModelError(
                    "`cross_fit` has no effect with scores='model'", got="cross_fit", wanted="scores='cross-fitted'"
                )
            chosen = np.arange(len(X))
            fold = deal(hashes_of(model.features_, X).tolist() if groups is None else groups, FOLDS, seed).of
            lattice_of = model.lattices(X, threads=threads).__getitem__
        else:
            if cross_fit is None:
                made = cross_fitted(model, X, y, given, groups, say)
            else:
                made = _checked(cross_fit, model.cross_fit_identity(X, y, groups))
            chosen, fold, lattice_of = made.sequences, made.fold, made.lattice
        some = _sample(len(chosen), seed)
        numbers = chosen[some].tolist()
        scored = list(map(lattice_of, some.tolist()))
        offsets = offsets_of(scored)
        return cls(
            labels,
            scored,
            ids_of(labels, [y[k] for k in numbers], offsets),
            offsets,
            [X[k] for k in numbers],
            None if given is None else [given[k] for k in numbers],
            fold[some],
            scores,
            model,
            threads,
        )

    def __len__(self) -> int:
        return len(self.lattices)

    def gold_of(self) -> list[Ids]:
        """Gold labels, sequence by sequence."""
        return [self.gold[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]

    def asked_by(self, rules: Sequence[Rule]) -> Sequence[Mapping[str, Any]] | None:
        """What these rules ask for."""
        return self.model.given(self.X, Decoder(self.labels, rules), self.given)

    def decode(self, rules: Sequence[Rule], which: npt.NDArray[np.int64] | None = None) -> Ids:
        """(N,): the best labels of some sequences, or of all, under rules."""
        numbers = range(len(self)) if which is None else which.tolist()
        decoder = Decoder(self.labels, rules, on_infeasible="relax", max_states=_STATES)
        own = None if self.given is None else [self.given[b] for b in numbers]
        given = self.model.given([self.X[b] for b in numbers], decoder, own)
        found = decoder.decode_batch([self.lattices[b] for b in numbers], given, threads=self.threads)
        return np.asarray(found.ids, dtype=np.int32)

    def quality(self, rules: Sequence[Rule], use: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Of the labels of some sequences under rules."""
        which = np.flatnonzero(use)
        mine = np.repeat(use, np.diff(self.offsets))
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[which])])
        return SequenceScores.of(self.labels, self.gold[mine], self.decode(rules, which), offsets).quality

    def judge(self, guesses: npt.NDArray[np.integer]) -> SequenceScores:
        """Compare labels of all sequences with gold."""
        return SequenceScores.of(self.labels, self.gold, guesses, self.offsets)

    def held_out(self, rules_of: Callable[[npt.NDArray[np.bool_]], Sequence[Rule]]) -> SequenceScores:
        """Decode each fold under rules that were made from the others; rules_of(B) gets the ones to use."""
        guesses = np.empty(len(self.gold), dtype=np.int32)
        fold_of = np.repeat(self.fold, np.diff(self.offsets))
        for fold in np.unique(self.fold):
            rules = rules_of(self.fold != fold)
            guesses[fold_of == fold] = self.decode(rules, np.flatnonzero(self.fold == fold))
        return self.judge(guesses)


def cross_fitted(
    model: Tagger,
    X: Sequence[Any],
    y: Sequence[Sequence[str | None]],
    given: Sequence[Given] | None,
    groups: Sequence[Hashable] | None,
    say: Callable[[str], None],
) -> CrossFit:
    """Scores of held-out sequences: those by which the settings of the model were chosen, or new ones."""
    made = model.cross_fit_
    if made is not None and made.identity == model.cross_fit_identity(X, y, groups):
        return made
    say("scoring each part of the data by a model trained on the others")
    return model.cross_fit(X, y, given=given, groups=groups, watch=lambda done, of: say(f"fold {done} of {of}"))


def _checked(cross_fit: CrossFit, identity: Mapping[str, Any]) -> CrossFit:
    """Scores that came from elsewhere."""
    if not isinstance(cross_fit, CrossFit):
        raise ModelError("`cross_fit` must be what `cross_fit` returns", got=shown(cross_fit), wanted="a CrossFit")
    check_fits(cross_fit, identity)
    return cross_fit


def _sample(count: int, seed: int) -> npt.NDArray[np.int64]:
    if count <= MOST:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, MOST, replace=False))
