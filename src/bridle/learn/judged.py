"""Scored sequences with gold labels, cut into folds, to judge rules by. A model becomes `Scores` first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given, offsets_of
from bridle.errors import LabelError, ModelError, shown
from bridle.features import sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Bools, Labels
from bridle.lattice import Lattices, subset
from bridle.learn.evidence import Given, Ids, Offsets, counter
from bridle.learn.scores import Ints, Scores, keys_of, texts_of
from bridle.learn.trials import plain_ids, positions_of, token_places, with_positions
from bridle.models.checks import (
    all_known,
    check_callable,
    check_seed,
    count_of_threads,
    given_for,
    given_of,
    ids_of,
    labellings_of,
    one_of,
    used_sequences,
)
from bridle.models.folds import FOLDS, CrossFit, check_fits, deal, groups_of
from bridle.models.tagger import Tagger
from bridle.models.task import select
from bridle.report.sequences import SequenceScores
from bridle.rules.base import Rule

ScoredBy = Literal["auto", "cross-fitted", "model"]
Say = Callable[[str], None]
MOST = 4000  # sequences of larger data that are sampled: prices are a few numbers
SEEN = 0.1  # the share of sequences that a model has seen from which on they count as its training data
STATES = 10_000  # of the search for a labelling: a guess that is not proved best serves as well
_TOO_GOOD = 0.002  # errors per token below which scores look like those of training data


# ---- scores of a model ----------------------------------------------------------------------------------------------


def scores_of(
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    given: Sequence[Given] | Table | None = None,
    *,
    scored_by: ScoredBy = "auto",
    cross_fit: CrossFit | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    threads: int = 0,
    say: Say = lambda text: None,
) -> Scores:
    """Score sequences: by the model if they are new to it, otherwise by models of its kind that have not seen them."""
    one_of("scored_by", scored_by, ("auto", "cross-fitted", "model"))
    X, labels = sequences_of(X), model.decoder().labels
    if scored_by == "auto":
        share = model.share_seen(X)
        scored_by = "model" if cross_fit is None and share is not None and share < SEEN else "cross-fitted"
    lattices: Lattices
    if scored_by == "model":
        if cross_fit is not None:
            raise ModelError(
                "`cross_fit` has no effect with scored_by='model'",
                got="cross_fit",
                wanted="scored_by='cross-fitted'",
            )
        numbers, folds, lattices = np.arange(len(X)), None, model.lattices(X, threads=threads)
    else:
        if cross_fit is None:
            cross_fit = cross_fitted(model, X, all_known(labellings_of(y)), given_of(given), groups, say)
        elif not isinstance(cross_fit, CrossFit):
            got = shown(cross_fit)
            raise ModelError("`cross_fit` must be what `cross_fit` returns", got=got, wanted="a CrossFit")
        else:
            check_fits(cross_fit, model.cross_fit_identity(X, labellings_of(y), groups))
        numbers, folds, lattices = cross_fit.sequences, cross_fit.fold, cross_fit.lattices()
    values = given_of(given)
    scores = Scores(labels, lattices, folds=folds)
    scores.X = [X[k] for k in numbers.tolist()]
    scores.given = None if values is None else [values[k] for k in numbers.tolist()]
    scores.sequences, scores.features, scores.exact = numbers, model.features_, True
    scores._fingerprint = model.fingerprint_
    return scores


def cross_fitted(
    model: Tagger,
    X: Sequence[Any],
    y: Sequence[Sequence[str | None]],
    given: Sequence[Given] | None,
    groups: Sequence[Hashable] | Table | None,
    say: Say,
) -> CrossFit:
    """Return scores of held-out sequences: those of the last `cross_fit` of the model, or new ones."""
    known = model.cross_fit_
    if known is not None and known.identity == model.cross_fit_identity(X, y, groups):
        return known
    say("scoring each part of the data by a model trained on the others")
    return model.cross_fit(X, y, given=given, groups=groups, watch=lambda done, of: say(f"fold {done} of {of}"))


def _part(scores: Scores, numbers: Ints) -> Scores:
    """Return some of the sequences."""
    part = object.__new__(Scores)
    part.__dict__.update(scores.__dict__)
    chosen = numbers.tolist()
    part.lattices = subset(scores.lattices, numbers)
    part.X = None if scores.X is None else [scores.X[b] for b in chosen]
    part.given = None if scores.given is None else [scores.given[b] for b in chosen]
    part.folds = None if scores.folds is None else scores.folds[numbers]
    part.sequences, part._fingerprint, part.best = scores.sequences[numbers], scores.fingerprint, None
    return part


def _sample(scores: Scores, names: Sequence[Hashable] | None, seed: int) -> Ints:
    """Choose sequences of large data at random; if their groups are documents, whole documents."""
    rng = np.random.default_rng(seed)
    cuts = cuts_in_a_row(None if names is None else [names[k] for k in scores.sequences.tolist()])
    if cuts is None:
        return np.sort(rng.choice(len(scores), MOST, replace=False))
    order = rng.permutation(len(cuts) - 1)
    chosen = order[: max(2, int(np.searchsorted(np.cumsum(np.diff(cuts)[order]), MOST)))]
    return np.concatenate([np.arange(cuts[d], cuts[d + 1]) for d in np.sort(chosen)])


def cuts_in_a_row(names: Sequence[Hashable] | None) -> Offsets | None:
    """Return where documents begin, and their end; None if some come back later, or all have one sequence."""
    if names is None or not len(names):
        return None
    new = [b for b in range(len(names)) if not b or names[b] != names[b - 1]]
    if len(new) == len(names) or len(new) != len(set(names)):
        return None
    return np.array([*new, len(names)], dtype=np.int64)


def _given_for(scores: Scores, rules: Sequence[Rule]) -> Sequence[Given] | None:
    """Return the values that rules refer to."""
    values, decoder = scores.given, Decoder(scores.labels, rules)
    if scores.X is None or not decoder.required_columns:
        return values if decoder.required_inputs else None
    if scores.features is None and (texts := texts_of(scores.X, None)) is not None:  # perhaps with another name
        values = [{"tokens": words, **({} if values is None else values[b])} for b, words in enumerate(texts)]
    return given_for(scores.features, scores.X, values, decoder)  # type: ignore[arg-type]


# ---- scores and gold labels -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Sequences with scores and gold labels, cut into folds, to judge rules by."""

    scores: Scores  # of B sequences
    gold: Ids  # (N,)
    offsets: Offsets  # (B + 1,)
    fold: Ints  # (B,)
    texts: list[list[str]] | None  # of all sequences, also of those that a sample leaves out
    y: Sequence[Sequence[str]]  # their labels
    notes: tuple[str, ...]  # doubts about the scores
    threads: int = 0
    names: Sequence[Hashable] | None = None  # the group of each sequence, also of those that a sample leaves out
    documents: Offsets | None = None  # (D + 1,)  where groups begin, if they are documents
    say: Say = lambda text: None  # tells about each step

    @classmethod
    def of(
        cls,
        model: Tagger | Scores,
        X: Any,
        y: Any,
        given: Sequence[Given] | Table | None,
        scored_by: ScoredBy,
        cross_fit: CrossFit | None,
        groups: Sequence[Hashable] | Table | None,
        on_unknown: Literal["raise", "skip"],
        seed: int,
        threads: int,
        watch: Say | None,
    ) -> Judged:
        """Score sequences if `model` is a model; pair scores with gold labels. With `Scores`, X is y."""
        check_callable("watch", watch, "a function of a sentence")
        say = watch or (lambda text: None)
        check_seed(seed)
        count_of_threads(threads)
        one_of("on_unknown", on_unknown, ("raise", "skip"))
        if isinstance(model, Scores):
            if y is not None and X is not None:
                raise ModelError("`X` has no effect with Scores", got="X and y", wanted="y alone")
            for name, value in (("given", given), ("cross_fit", cross_fit)):
                if value is not None:
                    wanted = "Scores(..., given=...)" if name == "given" else f"no {name}"
                    raise ModelError(f"`{name}` has no effect with Scores", got=name, wanted=wanted)
            y = X if y is None else y
            count = len(model)
        elif not isinstance(model, Tagger):
            wanted = "a trained CRF or LocalTagger, or bridle.learn.Scores"
            raise ModelError("not a trained model", got=shown(model), wanted=wanted)
        elif y is None:
            raise LabelError("`y` must be a list of label lists", got="None", wanted="a list per sequence")
        else:
            X = sequences_of(X)
            check_given(given_of(given), count := len(X))
        y = labellings_of(y)
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise LabelError("`y` must be a list of label lists", got=shown(y), wanted="a list per sequence")
        if len(y) != count:
            raise LabelError("y and X differ in length", got=f"{len(y)} lists", wanted=f"{count} of them")
        y, names = all_known(y), groups_of(groups, count)
        labels = model.labels if isinstance(model, Scores) else model.decoder().labels
        used = used_sequences(labels.names, y, on_unknown)
        if len(used) < count:
            chosen = used.tolist()
            y, names = [y[k] for k in chosen], None if names is None else [names[k] for k in chosen]
            groups, given = names, select(given_of(given), used)
            if isinstance(model, Scores):
                model = _part(model, used)
                model.sequences = np.arange(len(used))
            else:
                X = [X[k] for k in chosen]
        if len(used) < 2:
            raise ModelError("there are too few sequences to hold some out", got=len(used), wanted="two or more")
        scores = (
            model
            if isinstance(model, Scores)
            else scores_of(
                model, X, y, given, scored_by=scored_by, cross_fit=cross_fit, groups=groups, threads=threads, say=say
            )
        )
        texts = texts_of(scores.X, None) if isinstance(model, Scores) else texts_of(X, model.features_)
        if len(scores) > MOST:
            scores = _part(scores, _sample(scores, names, seed))
        offsets = offsets_of(scores.lattices)
        gold = ids_of(scores.labels, [y[k] for k in scores.sequences.tolist()], offsets)
        keys = keys_of(scores)
        scored = None if names is None else [names[k] for k in scores.sequences.tolist()]
        if scores.folds is not None:
            fold = scores.folds
        elif scored is not None:
            fold = deal(scored, FOLDS, seed).of
        else:
            fold = deal(keys, FOLDS, seed).of
        judged = cls(scores, gold, offsets, fold, texts, y, (), threads, names, cuts_in_a_row(scored), say)
        return judged if scores.exact else replace(judged, notes=tuple(judged._doubts(keys)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def labels(self) -> Labels:
        """The labels."""
        return self.scores.labels

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return len(np.unique(self.fold))

    def _doubts(self, keys: list[Hashable]) -> list[str]:
        """List reasons to think that the model has seen the sequences."""
        if self.scores.folds is not None:
            folds: dict[Hashable, set[int]] = {}
            for key, fold in zip(keys, self.fold.tolist(), strict=True):
                folds.setdefault(key, set()).add(fold)
            if twice := sum(len(folds[key]) > 1 for key in keys):
                return [
                    f"{twice:,} of {len(self):,} sequences are also in another fold, so that the model which scored "
                    "them has seen them; keep equal sequences in one fold"
                ]
            return []
        errors = float(np.mean(self.plain != self.gold)) if len(self.gold) else 1.0
        if errors < _TOO_GOOD:
            return [
                f"the scores are right on {1 - errors:.2%} of the tokens; if the model was trained on these sequences, "
                "penalties are too low: pass scores of held-out sequences, or of several folds"
            ]
        return []

    def split(self, ids: Ids) -> list[Ids]:
        """Cut labels of all sequences into those of each."""
        return [ids[a:b] for a, b in pairwise(self.offsets.tolist())]

    def given_for(self, rules: Sequence[Rule]) -> Sequence[Given] | None:
        """Return the values that rules refer to."""
        return _given_for(self.scores, rules)

    def with_positions(self, rules: Sequence[Rule]) -> tuple[list[Rule], Sequence[Given] | None]:
        """Find the tokens that conditions of rules are about, once; return rules about positions, and given values."""
        given = self.given_for(rules)
        names = {place: f"__place_{k}" for k, place in enumerate(dict.fromkeys(chain(*map(token_places, rules))))}
        if not names:
            return list(rules), given
        positions = positions_of(list(names), self.offsets, given)
        rows = ({} if given is None else given[b] for b in range(len(self)))
        values = [
            {**row, **{name: where[b] for name, where in zip(names.values(), positions, strict=True)}}
            for b, row in enumerate(rows)
        ]
        return [with_positions(rule, names.__getitem__) for rule in rules], values

    def broken(self, rules: Sequence[Rule], ids: Ids, given: Sequence[Given] | None) -> Bools:
        """(B, R): do these labels of all sequences break the rules?"""
        broken: Bools = counter(rules, self.labels, threads=self.threads)(ids, self.offsets, given) > 0
        return broken

    @property
    def plain(self) -> Ids:
        """(N,): the best labels without rules."""
        known = self.scores.best
        if known is None:
            known = self.scores.best = plain_ids(self.labels, self.scores.lattices, threads=self.threads)
        return known

    def decode(
        self,
        rules: Sequence[Rule],
        given: Sequence[Given] | None,
        touched: Bools | None = None,
        use: Bools | None = None,
    ) -> Ids:
        """(N,): the best labels under rules of all sequences, or of those that are used.

        touched (B,): sequences whose best labels without rules break one of them, if it is known; the others keep them.
        """
        use = np.ones(len(self), dtype=bool) if use is None else use
        sizes = np.diff(self.offsets)
        chosen = np.flatnonzero(use if touched is None else use & touched)
        ids = self.plain[np.repeat(use, sizes)]
        if rules and len(chosen):
            decoder = Decoder(self.labels, rules, on_infeasible="relax", max_states=STATES)
            values = None if given is None else [given[b] for b in chosen.tolist()]
            decodings = decoder.decode_batch(subset(self.scores.lattices, chosen), values, threads=self.threads)
            here = np.zeros(len(self), dtype=bool)
            here[chosen] = True
            ids = ids.copy()
            ids[np.repeat(here[use], sizes[use])] = decodings.ids
        return ids

    def judge(self, guesses: npt.NDArray[np.integer], use: Bools | None = None) -> SequenceScores:
        """Compare labels of all sequences, or of those that are used, with gold."""
        sizes = np.diff(self.offsets)
        if use is None:
            return SequenceScores.of(self.labels, self.gold, guesses, self.offsets)
        offsets = np.concatenate([[0], np.cumsum(sizes[use])]).astype(np.int64)
        return SequenceScores.of(self.labels, self.gold[np.repeat(use, sizes)], guesses, offsets)
