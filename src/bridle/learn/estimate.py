"""Accuracy on sequences without labels, estimated from confidence and rules, and calibrated on labelled sequences.

    P(right) = 1 / (1 + exp(-w x)) for each token
    w = argmax  log-likelihood of what is right in the labelled sequences - |w - (0, 1, 0, 0)|^2 / (2 PRIOR)

    x1 = 1
    x2 = logit of the probability of its label under the rules
    x3 = 1 if the model alone chooses another label
    x4 = share of the rules that the labels of the model alone break in the sequence

    accuracy = mean P(right) over the unlabelled tokens      g = its gradient by w
    variance = g' (V + H^-1) g + variance of the residuals of as many sequences

H is the Hessian of the sum that w maximises, V its sandwich over sequences: tokens of a sequence are not independent.
Without evidence, w says that probabilities are what they seem. The interval is symmetric in the logit of accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder, Given
from bridle.decoding.problem import offsets_of
from bridle.errors import ModelError
from bridle.features import sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.lattice import Lattices
from bridle.learn.active import label_probabilities
from bridle.learn.evidence import violations
from bridle.learn.judged import SEEN, scores_of
from bridle.models.checks import all_known, given_for, given_of, ids_of, labellings_of
from bridle.models.folds import CrossFit, groups_of
from bridle.models.tagger import Tagger
from bridle.rules.base import Rule

Floats = npt.NDArray[np.float64]

PRIOR = 1.0  # variance of the weights
LEAST = 4  # labelled sequences
FOLDS = 10  # of them, if the model has seen them: models that were trained on fewer sequences are worse
_STEPS, _SETTLED, _MOST_LOGIT = 100, 1e-8, 12.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated share of tokens that a model labels right, and what it is estimated from.

    Attributes
    ----------
    accuracy : float
        The estimate.
    low, high : float
        Its 95 % interval, as far as the unlabelled sequences are like the labelled ones.
    confidence : float
        The mean probability of the labels under the rules, which is often too high.
    changed : float
        The share of tokens whose label the rules change.
    broken : float
        The share of sequences in which the labels of the model alone break a rule.
    sequences, tokens : int
        Number of unlabelled sequences and tokens.
    labelled : int
        Number of labelled sequences that it is calibrated on.
    labelled_accuracy : float
        The share of right tokens among those.
    """

    accuracy: float
    low: float
    high: float
    confidence: float
    changed: float
    broken: float
    sequences: int
    tokens: int
    labelled: int
    labelled_accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            All attributes by name; shares, not percent.
        """
        return asdict(self)

    def lines(self) -> list[str]:
        """Describe the estimate.

        Returns
        -------
        list of str
            Lines of text.
        """
        broken = f"the model alone breaks a rule in {self.broken:.1%} of the sequences"
        return [
            f"{self.sequences:,} sequences without labels, {self.tokens:,} tokens",
            f"tokens right: about {self.accuracy:.1%} (95 % interval {self.low:.1%} to {self.high:.1%})",
            f"mean probability of the labels: {self.confidence:.1%}",
            *([f"the rules change {self.changed:.1%} of the labels; {broken}"] if self.broken else []),
            f"calibrated on {self.labelled:,} labelled sequences; {self.labelled_accuracy:.1%} of the tokens right",
        ]


@dataclass(frozen=True)
class _Signals:
    """Signals of the tokens of scored sequences."""

    x: Floats  # (N, 4)
    ids: npt.NDArray[np.int32]  # (N,)  labels under the rules
    offsets: npt.NDArray[np.int64]  # (B + 1,)
    broken: npt.NDArray[np.bool_]  # (B,)

    @classmethod
    def of(cls, decoder: Decoder, lattices: Lattices, given: Sequence[Given] | None, threads: int) -> _Signals:
        """Decode with rules and without."""
        offsets = offsets_of(lattices)
        p = np.concatenate(label_probabilities(decoder, lattices, given, threads))  # the first to fail
        ids = decoder.decode_batch(lattices, given, threads).ids
        alone = Decoder(decoder.labels).decode_batch(lattices, None, threads)
        chance = np.clip(p[np.arange(len(ids)), ids], math.exp(-_MOST_LOGIT), 1 - math.exp(-_MOST_LOGIT))
        counts = violations(decoder.rules, alone.labels, decoder.labels, given, threads=threads) > 0
        share = counts.mean(axis=1) if decoder.rules else np.zeros(len(offsets) - 1)
        changed = ids != alone.ids
        of_sequence = np.repeat(share, np.diff(offsets))
        x = np.stack([np.ones(len(ids)), np.log(chance / (1 - chance)), changed, of_sequence], axis=1)
        return cls(x, ids, offsets, share > 0)


def estimate_accuracy(
    model: Tagger,
    X: Sequences,
    labelled: tuple[Sequences, LabelLists],
    rules: Iterable[Rule | str] = (),
    *,
    given: Sequence[Given] | Table | None = None,
    labelled_given: Sequence[Given] | Table | None = None,
    cross_fit: CrossFit | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    threads: int = 0,
) -> Estimate:
    """Estimate how many tokens of sequences without labels a model labels right.

    The estimate comes from the probabilities of the labels, from labels that the rules change, and from rules that the
    model alone breaks. What these say is calibrated on labelled sequences: by the model itself if they are new to it,
    otherwise by models that were trained without them.

    Parameters
    ----------
    model : Tagger
        A trained model.
    X : list
        Sequences without labels, as for `predict`.
    labelled : (X, y)
        Labelled sequences of the same kind. The interval does not hold for text of another kind.
    rules : iterable of Rule or str
        The rules that you use with the model.
    given, labelled_given : list of mapping, optional
        Values that the rules refer to, one mapping per sequence.
    cross_fit : CrossFit, optional
        The result of `cross_fit` on the labelled sequences, if there is one.
    groups : sequence, optional
        A name or a number per labelled sequence; sequences of a group are held out together.
    threads : int
        Number of threads; 0 means all cores.

    Returns
    -------
    Estimate

    Raises
    ------
    ModelError
        If there are fewer than four labelled sequences, or none without labels.

    Examples
    --------
    >>> import bridle
    >>> from bridle.learn import estimate_accuracy
    >>> X, y = [["the", "cat", "sleeps"], ["a", "dog", "runs"]] * 4, [["D", "N", "V"]] * 8
    >>> model = bridle.CRF(features=["word[0]", "label[-1]"]).fit(X, y)
    >>> estimate = estimate_accuracy(model, [["the", "dog", "sleeps"]] * 9, (X, y))
    >>> estimate.low < estimate.accuracy < estimate.high <= 1
    True
    """
    sequences, (known, gold) = sequences_of(X), (sequences_of(labelled[0]), all_known(labellings_of(labelled[1])))
    for what, count, least in (
        ("labelled sequences", len(known), LEAST),
        ("sequences without labels", len(sequences), 1),
    ):
        if count < least:
            raise ModelError(f"there are not enough {what}", got=count, wanted=f"{least} or more")
    decoder = model.decoder(rules, on_infeasible="relax")
    values, known_values = given_of(given), given_of(labelled_given)
    share = model.share_seen(known)
    if cross_fit is None and (share is None or share >= SEEN):
        names = groups_of(groups, len(known))
        folds = min(FOLDS, len(known) if names is None else len(set(names)))
        cross_fit = model.cross_fit(known, gold, given=known_values, groups=names, folds=folds)
    scores = scores_of(model, known, gold, known_values, cross_fit=cross_fit, groups=groups, threads=threads)
    chosen = scores.sequences.tolist()
    theirs = given_for(model.features_, [known[k] for k in chosen], scores.given, decoder)
    seen = _Signals.of(decoder, scores.lattices, theirs, threads)
    right = seen.ids == ids_of(model.labels_, [gold[k] for k in chosen], seen.offsets, "wrong")
    calibration = _Calibration(seen, right)
    new = _Signals.of(
        decoder, model.lattices(sequences, threads=threads), model.given(sequences, decoder, values), threads
    )
    if not len(new.ids):
        raise ModelError("there is nothing to estimate", got="sequences without tokens", wanted="one token or more")
    accuracy, low, high = calibration.interval(new)
    return Estimate(
        accuracy,
        low,
        high,
        confidence=float((1 / (1 + np.exp(-new.x[:, 1]))).mean()),
        changed=float(new.x[:, 2].mean()),
        broken=float(new.broken.mean()),
        sequences=len(sequences),
        tokens=len(new.ids),
        labelled=len(chosen),
        labelled_accuracy=float(right.mean()),
    )


class _Calibration:
    """The weights of the signals, and how sure they are."""

    def __init__(self, signals: _Signals, right: npt.NDArray[np.bool_]) -> None:
        x, cuts = signals.x, signals.offsets
        start = np.array([0.0, 1.0, 0.0, 0.0])
        w = start

        def loss(w: Floats) -> float:
            return float(
                np.logaddexp(0, np.where(right, -1, 1) * (x @ w)).sum() + ((w - start) ** 2).sum() / (2 * PRIOR)
            )

        for _ in range(_STEPS):  # Newton's method; the loss is convex
            p = _logistic(x @ w)
            gradient = x.T @ (right - p) - (w - start) / PRIOR
            hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(w)) / PRIOR
            step = np.linalg.solve(hessian, gradient)
            while loss(w + step) > loss(w) and np.abs(step).max() > _SETTLED:
                step /= 2
            w = w + step
            if np.abs(step).max() <= _SETTLED:
                break
        p = _logistic(x @ w)
        inverse = np.linalg.inv(hessian)
        n = len(cuts) - 1
        each = np.stack([(x[a:b] * (right - p)[a:b, None]).sum(axis=0) for a, b in pairwise(cuts.tolist())])
        self.w, self.n = w, n
        self.covariance = inverse + n / (n - 1) * inverse @ (each.T @ each) @ inverse
        residual = each[:, 0] / max(len(x) / n, 1)  # as a share of the tokens of a mean sequence
        self.spread = float((residual**2).sum() / (n - 1))

    def interval(self, signals: _Signals) -> tuple[float, float, float]:
        """Estimate the accuracy, with its 95 % interval."""
        p = _logistic(signals.x @ self.w)
        accuracy = float(p.mean())
        gradient = (signals.x * (p * (1 - p))[:, None]).mean(axis=0)
        variance = float(gradient @ self.covariance @ gradient) + self.spread / (len(signals.offsets) - 1)
        accuracy = min(max(accuracy, 1e-9), 1 - 1e-9)
        center = math.log(accuracy / (1 - accuracy))
        half = _t(self.n - 1) * math.sqrt(variance) / (accuracy * (1 - accuracy))
        low, high = (float(_logistic(np.array(center + sign * half))) for sign in (-1, 1))
        return accuracy, low, high


def _logistic(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _t(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's distribution, by its expansion around the normal one."""
    z = NormalDist().inv_cdf(0.975)
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return float(z + sum(term / degrees**k for k, term in enumerate(terms, 1)))
