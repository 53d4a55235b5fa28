"""LocalTagger: every token by itself; what neighbours have to do with each other is left to the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bridle.decoding.decoder import Decoder
from bridle.features import Features, Templates
from bridle.models.checks import Given, one_of, positive
from bridle.models.linear import Kind
from bridle.models.perceptron import Average, Local
from bridle.models.tagger import Tagger
from bridle.models.task import Learner, Task


class LocalTagger(Tagger):
    """A classifier of single tokens, whose scores are lattices without pairwise terms (Roth & Yih 2005, section 5.3).

    algorithm   "perceptron": weights are added to; "winnow": they are multiplied, and stay positive
    margin      weights change also when the right label leads by no more than this (regularisation)
    rate        how much they change: the perceptron adds it, winnow multiplies by 1 + rate
    average     "averaged" weights over all steps ("voted" in the paper) or the "last"
    scores      of the lattice: "softmax", log-probabilities per token, or "raw"
    The other settings are those of CRF; label bigrams of the templates are not used.

    >>> X = [["the", "cat"], ["a", "dog"]]
    >>> model = LocalTagger("winnow", features=["word[0]"]).fit(X, [["D", "N"], ["D", "N"]])
    >>> model.predict([["a", "cat"]])
    [['D', 'N']]
    """

    def __init__(
        self,
        algorithm: Literal["perceptron", "winnow"] = "perceptron",
        *,
        features: str | Sequence[str] | Templates | None = None,
        cutoff: int = 1,
        pairs: Literal["seen", "all"] = "all",
        margin: float = 1.0,
        rate: float | None = None,
        average: Average = "averaged",
        scores: Kind = "softmax",
        iterations: int = 20,
        patience: int | None = None,
        scheme: str | None = "auto",
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.features, self.cutoff, self.pairs, self.scheme = features, cutoff, pairs, scheme
        self.margin, self.rate, self.average, self.scores = margin, rate, average, scores
        self.iterations, self.patience = iterations, patience
        self.seed, self.threads = seed, threads

    def _check(self) -> None:
        one_of("algorithm", self.algorithm, ("perceptron", "winnow"))
        one_of("pairs", self.pairs, ("seen", "all"))
        one_of("average", self.average, ("averaged", "last"))
        one_of("scores", self.scores, ("softmax", "raw"))
        positive("margin", self.margin, zero=True)
        if self.rate is not None:
            positive("rate", self.rate, zero=False)

    def _scores(self) -> Kind:
        return self.scores

    def _iterations(self) -> int:
        return self.iterations

    def _bigram(self, features: Features) -> bool:
        return False

    def _learner(self, task: Task, decoder: Decoder, given: Sequence[Given] | None) -> Learner:
        winnow = self.algorithm == "winnow"
        rate = self.rate if self.rate is not None else 0.1 if winnow else 1.0
        return Local(task, winnow=winnow, margin=self.margin, rate=rate, average=self.average, seed=self.seed)
