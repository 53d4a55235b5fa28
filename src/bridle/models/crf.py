"""CRF: a label depends on the token's features and on the label before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bridle.deadline import Deadline
from bridle.decoding.decoder import Decoder
from bridle.errors import ModelError, shown
from bridle.features import Features, Templates
from bridle.labels import Labels
from bridle.models.checks import Given, check_labels, count_of, not_negative, one_of
from bridle.models.folds import FOLDS
from bridle.models.likelihood import Likelihood
from bridle.models.linear import Weights
from bridle.models.perceptron import Average, Perceptron
from bridle.models.tagger import Tagger
from bridle.models.task import ClassWeight, Examples, Learner, Task, check_class_weight, class_weights
from bridle.models.tuning import DECIDES, FEWEST, HALVES, OUT_OF_TIME, Trial, Tuning, TuningTimeWarning, sample_of, tune
from bridle.models.unlabelled import Unlabelled, UnlabelledLikelihood
from bridle.rules.base import Rule
from bridle.rules.conditions import without_files
from bridle.rules.text import parse

_LONGEST_RULES = 1 << 22  # characters: the header of a model file holds them
_ITERATIONS = {"lbfgs": 100, "perceptron": 20, "ibt": 20}


class CRF(Tagger):
    """A linear-chain conditional random field.

    A label depends on the features of its token and on the label before. The conventions are those of scikit-learn: the
    constructor only stores settings, `fit` checks them and learns, learned values end in an underscore.

    Parameters
    ----------
    algorithm : {"lbfgs", "perceptron", "ibt"}, default "lbfgs"
        ``"lbfgs"`` maximises the likelihood, with L2 regularisation and, if `c1` is above 0, L1 by OWL-QN.
        ``"perceptron"`` is the structured perceptron of Collins (2002). ``"ibt"`` is the same, but it decodes with
        `rules` on (inference-based training).
    features : str, list of str, Templates or None, default "auto"
        Templates over columns of text, such as ``["word[0]", "word[-1] word[0]", "label[-1]"]``, or the name of a set:
        ``"chunking"``, ``"pos"``, ``"ner"``, ``"characters"``, ``"fields"``, ``"srl"``. ``"auto"`` chooses one of them
        by the labels and columns of the training data, and `fit` leaves the choice and its reason in `feature_set_`;
        where X holds features already (a list of strings or a dict per token, as CRFsuite takes them), they are taken
        as they are, which is what None always does. A line such as ``"label[-1] word[0]"`` lets the step from label to
        label depend on the text (`Templates`).
    lists : mapping of str to list, Path or PhraseList, optional
        Lists of phrases by name, for templates such as ``in:cities[0]``: the beginning (B), inside (I) or end (E) of a
        phrase, or a phrase of its own (S). A list that no template names is looked at at the token and its neighbours.
        The model keeps the phrases. See `bridle.rules.phrases`.
    cutoff : int, default 1
        Features that occur fewer times in training are left out.
    pairs : {"seen", "all"}, default "seen"
        Which weights there are: for features and labels that occur together in training, or for all pairs. A feature of
        ``"label[-1] word[0]"`` has weights for two labels in a row.
    c1, c2 : float or "auto", default "auto"
        Strength of L1 and L2 regularisation, ``"lbfgs"`` only. ``"auto"`` is chosen on held-out halves of the training
        data: it can make more of a difference than any rule. This takes less than five times as long as the training
        itself, and the choice is always the same for the same data and settings. With a number for `c2`, ``c1="auto"``
        is 0. `fit` leaves what was chosen in `c1_` and `c2_`, and all that was compared in `tuning_`. Data of fewer
        than 16 sequences is not compared: then both are 0.1.
    c2_transitions : float, optional
        Strength of L2 regularisation of the weights of two labels in a row; that of the others, `c2`, if None.
    folds : int, default 4
        Folds of `cross_fit`.
    tuning_seconds : float, optional
        The most time to choose `c1` and `c2` in. If it ends the search, the best so far is taken, at worst 0.1 for
        both, and a `TuningTimeWarning` says so: the choice then depends on how busy the machine is.
    iterations : int, optional
        The most iterations: 100 for ``"lbfgs"`` and 20 for the others if None.
    tolerance : float, default 1e-5
        ``"lbfgs"`` stops when the loss falls by less than this share in ten iterations.
    patience : int, optional
        Stop after this many iterations without a better score on the development set of `fit`.
    average : {"averaged", "last"}, default "averaged"
        Weights of the perceptrons: the mean over all steps, or the last ones.
    rules : list of Rule or str, default ()
        Rules for ``"ibt"``. To use rules on any model, pass them to `predict`.
    class_weight : dict of str to float, "balanced" or None, default None
        How much mistakes on a label weigh, by label or by segment type (``{"PER": 3.0}``); others weigh 1.
        ``"balanced"`` weighs each class by the inverse of its frequency. More weight gives a class more recall and less
        precision.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        Tagging scheme of the labels; ``"auto"`` tells it from their names.
    labels : list of str, optional
        Labels, or under BIO, BIOES and BMES segment types, that the model knows although the data may lack them.
        Features say nothing about them: rules, or scores that are added, decide where they are used.
    seed : int, default 0
        Seed of the random number generator, which shuffles the sequences for the perceptrons and deals out the folds.
    threads : int, default 0
        Number of threads in training; 0 means all cores.

    See Also
    --------
    LocalTagger : A model without label bigrams.

    Examples
    --------
    >>> from bridle import CRF
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
        features: str | Sequence[str] | Templates | None = "auto",
        lists: Mapping[str, Any] | None = None,
        cutoff: int = 1,
        pairs: Literal["seen", "all"] = "seen",
        c1: float | Literal["auto"] = "auto",
        c2: float | Literal["auto"] = "auto",
        c2_transitions: float | None = None,
        folds: int = FOLDS,
        tuning_seconds: float | None = None,
        iterations: int | None = None,
        tolerance: float = 1e-5,
        patience: int | None = None,
        average: Average = "averaged",
        rules: Sequence[Rule | str] = (),
        class_weight: ClassWeight = None,
        scheme: str | None = "auto",
        labels: Sequence[str] | None = None,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.features, self.lists, self.cutoff, self.pairs, self.scheme = features, lists, cutoff, pairs, scheme
        self.c1, self.c2, self.c2_transitions = c1, c2, c2_transitions
        self.folds, self.tuning_seconds = folds, tuning_seconds
        self.iterations, self.tolerance, self.patience = iterations, tolerance, patience
        self.average, self.rules, self.class_weight, self.labels = average, rules, class_weight, labels
        self.seed, self.threads = seed, threads

    def _check(self) -> None:
        one_of("algorithm", self.algorithm, tuple(_ITERATIONS))
        one_of("pairs", self.pairs, ("seen", "all"))
        one_of("average", self.average, ("averaged", "last"))
        not_negative("tolerance", self.tolerance)
        if self.tuning_seconds is not None:
            not_negative("tuning_seconds", self.tuning_seconds)
        not_negative("c1", self.c1, "auto")
        not_negative("c2", self.c2, "auto")
        if self.c2_transitions is not None:
            not_negative("c2_transitions", self.c2_transitions)
        count_of("folds", self.folds, 2)
        if self.labels is not None:
            check_labels(self.labels)
        check_class_weight(self.class_weight)
        rules = self._rules()
        if rules and self.algorithm != "ibt":
            raise ModelError(
                "rules are for inference-based training only",
                got=f"algorithm={self.algorithm!r}",
                wanted="algorithm='ibt'",
                cause="To obey rules when tagging, pass them to predict.",
            )
        if self.algorithm == "ibt" and not rules:
            raise ModelError("inference-based training has no rules", got="rules=()", wanted="at least one rule")
        if sum(len(str(without_files(rule))) for rule in rules) > _LONGEST_RULES:
            raise ModelError(
                "the rules are too long to be kept in the model",
                got=f"more than {_LONGEST_RULES:,} characters, phrases of lists included",
                wanted="shorter lists",
                cause="Large lists are for rules at tagging time, or for features: lists={...}.",
            )

    def _rules(self) -> tuple[Rule, ...]:
        rules: Any = self.rules
        if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, (Rule, str)) for rule in rules):
            raise ModelError("rules are not a list of rules", got=shown(rules), wanted="[rule, ...]")
        return tuple(rule if isinstance(rule, Rule) else parse(rule) for rule in rules)

    def _iterations(self) -> int:
        return _ITERATIONS[self.algorithm] if self.iterations is None else self.iterations

    def _tolerance(self) -> float:
        return self.tolerance if self.algorithm == "lbfgs" else 0.0

    def _bigram(self, features: Features) -> bool:
        return features.bigram

    def _learner(
        self, task: Task, decoder: Decoder, given: Sequence[Given] | None, tuning: Tuning | None = None
    ) -> Learner:
        if self.algorithm == "lbfgs":
            return self._likelihood(task, decoder.labels, *self._strengths(tuning))
        weights = class_weights(self.class_weight, decoder.labels, task.y)
        under = decoder if self.algorithm == "ibt" else None
        return Perceptron(task, average=self.average, seed=self.seed, decoder=under, given=given, class_weight=weights)

    def _learner_with_text(self, task: Task, text: Unlabelled, tuning: Tuning | None) -> Learner:
        if self.algorithm != "lbfgs":
            return super()._learner_with_text(task, text, tuning)
        c1, c2 = self._strengths(tuning)
        return UnlabelledLikelihood(
            task,
            text,
            c1=c1,
            c2=c2,
            threads=self._threads(),
            iterations=self._iterations(),
            class_weight=class_weights(self.class_weight, text.examples.labels, task.y),
            c2_transitions=self.c2_transitions,
        )

    def _likelihood(
        self, task: Task, labels: Labels, c1: float, c2: float, start: Weights | None = None, threads: int | None = None
    ) -> Likelihood:
        weights = class_weights(self.class_weight, labels, task.y)
        return Likelihood(
            task,
            c1=c1,
            c2=c2,
            threads=threads or self._threads(),
            start=start,
            class_weight=weights,
            c2_transitions=self.c2_transitions,
        )

    # ---- regularisation ---------------------------------------------------------------------------------------------

    @property
    def c1_(self) -> float:
        """Strength of L1 regularisation: `c1`, or what was chosen."""
        return self._used()[0]

    @property
    def c2_(self) -> float:
        """Strength of L2 regularisation: `c2`, or what was chosen."""
        return self._used()[1]

    def _used(self) -> tuple[float, float]:
        self._fitted()
        if self.algorithm != "lbfgs":
            raise ModelError("a perceptron has no regularisation", got=repr(self.algorithm), wanted="'lbfgs'")
        return self._strengths(self._tuned())

    def _tuned(self) -> Tuning | None:
        return self.tuning_ if self._fixed_strengths()[1] is None else None

    def _strengths(self, tuning: Tuning | None) -> tuple[float, float]:
        chosen = tuning or Tuning.untried(*self._fixed_strengths(), 0, "")
        return chosen.c1, chosen.c2

    def _fixed_strengths(self) -> tuple[float | None, float | None]:
        """Return c1 and c2; None: to be chosen. If only c2 is a number, there is no L1."""
        c1, c2 = (None if strength == "auto" else float(strength) for strength in (self.c1, self.c2))
        return 0.0 if c1 is None and c2 is not None else c1, c2

    def _choose(
        self,
        examples: Examples,
        resume: Path | None,
        groups: Sequence[Hashable] | None,
        measure: str,
        watch: Callable[[Trial], None] | None,
    ) -> Tuning | None:
        c1, c2 = self._fixed_strengths()
        if self.algorithm != "lbfgs" or c2 is not None:
            return None
        if resume is not None and (tuning := Tuning.from_checkpoint(resume)) is not None:
            return tuning
        folded = None
        if len(examples.encoded) >= FEWEST:
            folded = self._folded(examples, sample_of(examples.encoded, self.seed), groups, HALVES)
        if folded is None or len(folded.folds) < HALVES:
            return Tuning.untried(c1, None, 0, f"there are fewer than {FEWEST} sequences")
        tuning = tune(
            folded,
            lambda task, strength, start: self._likelihood(task, examples.labels, *strength, start, threads=1),
            self._plan(Deadline.after(None if self.tuning_seconds is None else float(self.tuning_seconds))),
            c1=c1,
            measure=DECIDES if measure == "auto" else measure,
            threads=self._threads(),
            watch=watch,
        )
        if tuning.why == OUT_OF_TIME:
            warnings.warn(tuning.time_was_up(self.tuning_seconds), TuningTimeWarning, stacklevel=4)
        return tuning
