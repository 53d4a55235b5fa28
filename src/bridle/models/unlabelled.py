"""Training with rules and unlabelled text: weights that begin where the text says, instead of at zero.

    q       = p(labels | text) of the model under the rules, soft ones as factors               on the unlabelled text
    n(a, y) = expected number of tokens with attribute a and label y: under q, and in the labelled data
    mu(a, y) = r(a) log( (n(a, y) + s p(a)) / ((n(y) + s) p(a)) )      how much more frequent a is with y than elsewhere
    w       = argmax  log-likelihood of the labelled data - c2 |w - mu|^2 - c1 |w - mu|_1

ROUNDS times, from weights that were trained without mu. a is a word attribute: of one place, at or beside the token.
p(a) is its share of all tokens; r(a) is STRENGTH by the number of word attributes of a token, as they repeat each
other, times ENOUGH / (ENOUGH + labelled tokens with a).

This is posterior regularisation (Ganchev et al. 2010) whose M-step counts, as in a hidden Markov model, and is the mean
of the prior of a CRF, as in Suzuki & Isozaki (2008). An M-step that fits the likelihood to q instead repeats what the
model believes already, and gained nothing (`bridle reproduce few-labels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.errors import FeatureError, ModelError
from bridle.features import Encoded, Features, TemplateFeatures, sequences_of
from bridle.features.vocabulary import listed
from bridle.labels import MISSING, Labels
from bridle.models.checks import Given, given_for, given_of
from bridle.models.likelihood import Likelihood
from bridle.models.linear import Array, Ints, Layout, Linear, Vector, Weights
from bridle.models.task import Data, Examples, Task, check_state
from bridle.rules.base import Rule
from bridle.rules.text import parse

ROUNDS = 3
STRENGTH = 1.0  # of all word attributes of a token together
ENOUGH = 3.0  # labelled tokens of an attribute with which its mean is halved: they know better
SMOOTHING = 2.0  # tokens by which every attribute is taken to be spread evenly over the labels
LEAST = 2  # tokens of unlabelled text that have a word attribute
SETTLED = 1e-4  # a round ends when the loss falls by less than this share in PERIOD iterations
PERIOD = 10


@dataclass(frozen=True, slots=True)
class Text:
    """Unlabelled sequences and the rules that hold in them, as users pass them to `fit`."""

    X: Sequence[Any]
    rules: tuple[Rule, ...]
    given: Sequence[Given] | None

    @classmethod
    def of(cls, X: Any, rules: Iterable[Rule | str], given: Any) -> Text:
        """Check what users pass."""
        parsed = tuple(rule if isinstance(rule, Rule) else parse(rule) for rule in rules)
        text = cls(sequences_of(X), parsed, given_of(given))
        if not len(text.X):
            raise ModelError("there is no unlabelled text", got="no sequences", wanted="one sequence or more")
        return text


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Unlabelled text in numbers."""

    examples: Examples  # with the decoder of the rules; all labels are missing
    words: npt.NDArray[np.bool_]  # (A) the word attributes

    @classmethod
    def join(cls, data: Data, text: Text, features: Features, labels: Labels) -> tuple[Examples, Unlabelled]:
        """Number the features of labelled data and of unlabelled text; those of text alone if they are of words."""
        count = len(data.X)
        encoded = features.fit([*data.X, *text.X])
        try:
            decoder = Decoder(labels, text.rules, on_infeasible="relax")
            given = given_for(features, text.X, text.given, decoder)
        except FeatureError as error:
            error.where = error.where or "the unlabelled text"
            raise
        numbers = np.arange(len(encoded))
        ours, theirs = encoded.part(numbers[:count]), encoded.part(numbers[count:])
        words = _words(features) & (np.bincount(theirs.attrs, minlength=len(features)) >= LEAST)
        seen = np.bincount(ours.attrs, minlength=len(features)) > 0
        encoded = features.keep(words | seen, encoded)
        if encoded.edges is not None and isinstance(features, TemplateFeatures) and ours.edges is not None:
            seen_edges = np.bincount(ours.edges.attrs, minlength=ours.edges.size) > 0
            encoded = features.keep_edges(seen_edges, encoded)
        theirs = encoded.part(numbers[count:])
        missing = np.full(theirs.n_tokens, MISSING, dtype=np.int32)
        examples = Examples.numbered(data, features, encoded.part(numbers[:count]), Decoder(labels))
        return examples, cls(Examples(features, decoder, theirs, missing, given), words[words | seen])

    def fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint tells this text and these rules by."""
        data, given = self.examples.fingerprint(), self.examples.given_digest()
        return {"unlabelled": data, "unlabelled_given": given, "rules": [*map(str, self.examples.decoder.rules)]}

    def posterior(self, linear: Linear, threads: int) -> npt.NDArray[np.float64]:
        """(N, m): compute the probabilities of labels under the rules; 0 in sequences that no labelling can have."""
        batch = linear.scores(self.examples.encoded)
        tables = self.examples.decoder.marginals_batch(batch, self.examples.given, threads, soft="factor")
        return np.nan_to_num(np.concatenate(tables))


def _words(features: Features) -> npt.NDArray[np.bool_]:
    """(A,): mark the attributes of one place at or beside the token; of features that users make, all."""
    if not isinstance(features, TemplateFeatures):
        return np.ones(len(features), dtype=bool)
    single = [len(line.places) == 1 and abs(line.places[0].offset) <= 1 for line in features.templates.lines]
    return np.array(single)[listed(features._known)[0]]


class _Counts:
    """Expected numbers of tokens with a word attribute and a label."""

    def __init__(self, encoded: Encoded, words: npt.NDArray[np.bool_]) -> None:
        kept = words[encoded.attrs]
        number = np.cumsum(words) - 1
        self._size = int(words.sum())
        self._attribute = number[encoded.attrs[kept]]
        self._token = np.repeat(np.arange(encoded.n_tokens), np.diff(encoded.indptr))[kept]
        self._value = None if encoded.values is None else np.abs(encoded.values[kept])
        self.per_token = len(self._token) / max(encoded.n_tokens, 1)

    def __call__(self, q: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(A', m): count under the probabilities of labels q (N, m)."""
        columns = []
        for of_label in q.T:
            weight = of_label[self._token] if self._value is None else of_label[self._token] * self._value
            columns.append(np.bincount(self._attribute, weight, minlength=self._size))
        return np.stack(columns, axis=1)


class UnlabelledLikelihood:
    """The learner of a CRF with unlabelled text: rounds of `Likelihood`, each with another mean of the prior."""

    def __init__(
        self,
        task: Task,
        text: Unlabelled,
        *,
        c1: float,
        c2: float,
        threads: int,
        iterations: int,
        class_weight: Vector | None,
        c2_transitions: float | None = None,
    ) -> None:
        self.finished: str | None = None
        self._task, self._text, self._threads, self._iterations = task, text, threads, iterations
        self._settings: dict[str, Any] = {"c1": c1, "c2": c2, "threads": threads, "class_weight": class_weight}
        self._settings["c2_transitions"] = c2_transitions
        self._in_text = _Counts(text.examples.encoded, text.words)
        y, m = task.y, task.m
        gold = np.zeros((len(y), m))
        gold[np.flatnonzero(y >= 0), y[y >= 0]] = 1
        self._gold = _Counts(task.encoded, text.words)(gold), gold.sum(axis=0)
        rows = task.layout.begin[:-1][text.words]
        self._slots: Ints = rows[:, None] + np.arange(m)  # (A', m) of the weights of word attributes
        self._mean = np.zeros(task.layout.size)
        self._round, self._losses = 0, list[float]()
        self._inner = self._likelihood(None)

    def _likelihood(self, start: Weights | None) -> Likelihood:
        return Likelihood(self._task, **self._settings, start=start, mean=self._mean)

    def step(self) -> float:
        """Do one iteration of L-BFGS, behind the sums of a round if one begins; return the loss after it."""
        if self._settled():
            self._begin_round()
        loss = self._inner.step()
        self._losses.append(loss)
        if self._round == ROUNDS and self._settled():
            self.finished = f"{ROUNDS} rounds over the unlabelled text, {self._inner.finished or 'settled'}"
        return loss

    def _settled(self) -> bool:
        losses = self._losses
        short = len(losses) > PERIOD and losses[-1 - PERIOD] - losses[-1] < SETTLED * abs(losses[-1])
        return bool(self._inner.finished) or short or len(losses) >= self._iterations

    def _begin_round(self) -> None:
        """Compute the mean of the prior again; what was learned besides it stays."""
        q = self._text.posterior(Linear.of(self._task.layout, *self._inner.weights()), self._threads)
        mean = np.zeros_like(self._mean)
        mean[self._slots] = self._means(q)
        self._mean, self._losses = mean, []
        self._inner = self._likelihood(self._inner.learned())
        self._round += 1

    def _means(self, q: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        of_pairs, of_labels = self._in_text(q) + self._gold[0], q.sum(axis=0) + self._gold[1]
        share = of_pairs.sum(axis=1, keepdims=True) / max(of_labels.sum(), 1.0)
        share = np.maximum(share, np.finfo(np.float64).tiny)
        ratio = (of_pairs + SMOOTHING * share) / ((of_labels + SMOOTHING) * share)
        trust = ENOUGH / (ENOUGH + self._gold[0].sum(axis=1, keepdims=True))
        return np.asarray(STRENGTH / max(self._in_text.per_token, 1.0) * trust * np.log(ratio))

    def weights(self) -> Weights:
        """Return weights (W), label bigrams (m, m) and those with the text (E)."""
        return self._inner.weights()

    def state(self) -> dict[str, Array]:
        """Return what this round needs to go on."""
        return {**self._inner.state(), **self._own_state()}

    def _own_state(self) -> dict[str, Array]:
        return {"mean": self._mean, "round": np.array([self._round]), "round_losses": np.array(self._losses)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from a state."""
        now = self._own_state()
        own = {name: state[name] for name in now if name in state}
        check_state(own, now, but=("round_losses",))
        number, losses, mean = int(own["round"][0]), own["round_losses"].ravel(), own["mean"].copy()
        learned = np.zeros_like(mean)
        learned[self._slots] = mean[self._slots]
        if not 0 <= number <= ROUNDS or (learned != mean).any() or (number == 0 and mean.any()):
            raise ModelError("the state of the rounds does not fit together", wanted="what training writes")
        self._mean, self._round, self._losses = mean, number, losses.tolist()
        self._inner = self._likelihood(None)
        self._inner.restore({name: array for name, array in state.items() if name not in own})


def task_of(examples: Examples, text: Unlabelled, pairs: str, bigram: bool) -> Task:
    """Lay out weights: word attributes and label bigrams have one for every label, whatever the labelled data has."""
    sizes = len(examples.features), len(examples.labels)
    task = Task.of(examples.encoded, examples.gold, sizes, pairs, bigram)
    layout: Layout = task.layout.with_rows(np.flatnonzero(text.words))
    return replace(task, layout=layout, pair_free=None if task.pair_free is None else np.ones_like(task.pair_free))
