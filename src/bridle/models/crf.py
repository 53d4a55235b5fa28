"""CRF: a label depends on the token's features and on the label before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from bridle.decoding.decoder import Decoder
from bridle.errors import ModelError
from bridle.features import Features, Templates
from bridle.models.checks import Given, one_of, positive
from bridle.models.likelihood import Likelihood
from bridle.models.perceptron import Average, Perceptron
from bridle.models.tagger import Tagger
from bridle.models.task import Learner, Task
from bridle.rules.base import Rule
from bridle.rules.text import parse

_ITERATIONS = {"lbfgs": 100, "perceptron": 20, "ibt": 20}


class CRF(Tagger):
    """A linear-chain conditional random field.

    algorithm   "lbfgs": maximum likelihood with L2 (c2) and, if c1 > 0, L1 by OWL-QN
                "perceptron": the structured perceptron of Collins (2002)
                "ibt": the same, decoding with `rules` on (inference-based training)
    features    None: X holds lists of strings, or dicts, per token; otherwise templates, or the name of a set:
                chunking, pos, characters, fields, srl
    cutoff      attributes seen fewer times are left out
    pairs       "seen": weights for attributes and labels that occur together in training; "all": for all pairs
    average     of the perceptrons: "averaged" weights or the "last"
    tolerance   lbfgs stops when the loss falls by less than this share in ten iterations
    patience    stop after so many iterations without a better accuracy on the development set
    threads     0: all cores

    >>> X = [["the", "cat", "sleeps"], ["a", "dog", "runs"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"]]
    >>> model = CRF(features=["word[0]", "suffix1[0]", "label[-1]"]).fit(X, y)
    >>> model.predict([["a", "cat", "runs"]])
    [['D', 'N', 'V']]
    """

    def __init__(
        self,
        algorithm: Literal["lbfgs", "perceptron", "ibt"] = "lbfgs",
        *,
        features: str | Sequence[str] | Templates | None = None,
        cutoff: int = 1,
        pairs: Literal["seen", "all"] = "seen",
        c1: float = 0.0,
        c2: float = 1.0,
        iterations: int | None = None,
        tolerance: float = 1e-5,
        patience: int | None = None,
        average: Average = "averaged",
        rules: Sequence[Rule | str] = (),
        scheme: str | None = "auto",
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.features, self.cutoff, self.pairs, self.scheme = features, cutoff, pairs, scheme
        self.c1, self.c2 = c1, c2
        self.iterations, self.tolerance, self.patience = iterations, tolerance, patience
        self.average, self.rules = average, rules
        self.seed, self.threads = seed, threads

    def _check(self) -> None:
        one_of("algorithm", self.algorithm, tuple(_ITERATIONS))
        one_of("pairs", self.pairs, ("seen", "all"))
        one_of("average", self.average, ("averaged", "last"))
        positive("c1", self.c1, zero=True)
        positive("c2", self.c2, zero=True)
        positive("tolerance", self.tolerance, zero=True)
        if self._rules() and self.algorithm != "ibt":
            raise ModelError(
                "rules are for inference-based training only", got=f"algorithm={self.algorithm!r}",
                wanted="algorithm='ibt'", cause="To obey rules when tagging, pass them to predict.",
            )  # fmt: skip
        if self.algorithm == "ibt" and not self._rules():
            raise ModelError("inference-based training has no rules", got="rules=()", wanted="at least one rule")

    def _rules(self) -> tuple[Rule, ...]:
        rules: Any = self.rules
        if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, (Rule, str)) for rule in rules):
            raise ModelError("rules are not a list of rules", got=repr(rules)[:60], wanted="[rule, ...]")
        return tuple(rule if isinstance(rule, Rule) else parse(rule) for rule in rules)

    def _iterations(self) -> int:
        return _ITERATIONS[self.algorithm] if self.iterations is None else self.iterations

    def _tolerance(self) -> float:
        return self.tolerance if self.algorithm == "lbfgs" else 0.0

    def _bigram(self, features: Features) -> bool:
        return features.bigram

    def _learner(self, task: Task, decoder: Decoder, given: Sequence[Given] | None) -> Learner:
        if self.algorithm == "lbfgs":
            return Likelihood(task, c1=self.c1, c2=self.c2, threads=self._threads())
        under = decoder if self.algorithm == "ibt" else None
        return Perceptron(task, average=self.average, seed=self.seed, decoder=under, given=given)
