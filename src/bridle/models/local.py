"""LocalTagger: a classifier of single tokens, for use with rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bridle.decoding.decoder import Decoder
from bridle.features import Features, Templates
from bridle.models.checks import Given, check_labels, not_negative, one_of, positive
from bridle.models.linear import Kind, refuse_edges
from bridle.models.perceptron import Average, Local
from bridle.models.tagger import Tagger
from bridle.models.task import ClassWeight, Learner, Task, check_class_weight, class_weights
from bridle.models.tuning import Tuning


class LocalTagger(Tagger):
    """A classifier of single tokens, for use with rules (Roth & Yih 2005, section 5.2).

    Its lattices have no scores of transitions: what neighbours have to do with each other is left to the rules. The
    conventions are those of scikit-learn, as for `CRF`.

    Parameters
    ----------
    algorithm : {"perceptron", "winnow"}, default "perceptron"
        The perceptron adds to weights; winnow multiplies them, and they stay positive.
    features : str, list of str, Templates or None, default "auto"
        Templates over columns of text, the name of a set, or ``"auto"``, as for `CRF`; label bigrams are not used.
        None: X holds the features themselves.
    lists : mapping of str to list, Path or PhraseList, optional
        Lists of phrases by name, for templates such as ``in:cities[0]``, as for `CRF`.
    cutoff : int, default 1
        Features that occur fewer times in training are left out.
    pairs : {"seen", "all"}, default "all"
        Which weights there are: for features and labels that occur together in training, or for all pairs.
    margin : float, default 1.0
        Weights also change when the right label leads by no more than this, which regularises.
    rate : float, optional
        How much weights change: the perceptron adds it (default 1.0), winnow multiplies by 1 + rate (default 0.1).
    average : {"averaged", "last"}, default "averaged"
        The mean of the weights over all steps ("voted" in the paper), or the last ones.
    scores : {"softmax", "raw"}, default "softmax"
        Scores of the lattices: log-probabilities of each token's labels, or the sums of weights themselves.
    iterations : int, default 20
        Number of passes over the training data.
    patience : int, optional
        Stop after this many iterations without a better score on the development set of `fit`.
    class_weight : dict of str to float, "balanced" or None, default None
        How much mistakes on a label weigh, by label or by segment type, as for `CRF`.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        Tagging scheme of the labels; ``"auto"`` tells it from their names.
    labels : list of str, optional
        Labels, or under BIO, BIOES and BMES segment types, that the model knows although the data may lack them.
        Features say nothing about them: rules, or scores that are added, decide where they are used.
    seed : int, default 0
        Seed of the random number generator, which shuffles the sequences.
    threads : int, default 0
        Number of threads; 0 means all cores.

    See Also
    --------
    CRF : A model with label bigrams.

    Examples
    --------
    >>> from bridle import LocalTagger
    >>> X = [["the", "cat"], ["a", "dog"]]
    >>> model = LocalTagger("winnow", features=["word[0]"]).fit(X, [["D", "N"], ["D", "N"]])
    >>> model.predict([["a", "cat"]])
    [['D', 'N']]
    """

    def __init__(
        self,
        algorithm: Literal["perceptron", "winnow"] = "perceptron",
        *,
        features: str | Sequence[str] | Templates | None = "auto",
        lists: Mapping[str, Any] | None = None,
        cutoff: int = 1,
        pairs: Literal["seen", "all"] = "all",
        margin: float = 1.0,
        rate: float | None = None,
        average: Average = "averaged",
        scores: Kind = "softmax",
        iterations: int = 20,
        patience: int | None = None,
        class_weight: ClassWeight = None,
        scheme: str | None = "auto",
        labels: Sequence[str] | None = None,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.features, self.lists, self.cutoff, self.pairs, self.scheme = features, lists, cutoff, pairs, scheme
        self.margin, self.rate, self.average, self.scores = margin, rate, average, scores
        self.iterations, self.patience, self.class_weight = iterations, patience, class_weight
        self.labels = labels
        self.seed, self.threads = seed, threads

    def _check(self) -> None:
        one_of("algorithm", self.algorithm, ("perceptron", "winnow"))
        one_of("pairs", self.pairs, ("seen", "all"))
        one_of("average", self.average, ("averaged", "last"))
        one_of("scores", self.scores, ("softmax", "raw"))
        not_negative("margin", self.margin)
        if self.labels is not None:
            check_labels(self.labels)
        check_class_weight(self.class_weight)
        if self.rate is not None:
            positive("rate", self.rate)

    def _iterations(self) -> int:
        return self.iterations

    def _bigram(self, features: Features) -> bool:
        refuse_edges(features, "LocalTagger")
        return False

    def _learner(
        self, task: Task, decoder: Decoder, given: Sequence[Given] | None, tuning: Tuning | None = None
    ) -> Learner:
        winnow = self.algorithm == "winnow"
        rate = self.rate if self.rate is not None else 0.1 if winnow else 1.0
        return Local(
            task,
            winnow=winnow,
            margin=self.margin,
            rate=rate,
            average=self.average,
            seed=self.seed,
            class_weight=class_weights(self.class_weight, decoder.labels, task.y),
        )
