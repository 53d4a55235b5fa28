"""The learners learn as theory says: bounds on mistakes, what can and cannot be learned, optima.

n attributes    m labels    k steps    w weights    u a separator of length 1, with margin g
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.random import Generator

from bridle import rules as r
from bridle.errors import ModelError
from bridle.features import Encoded
from bridle.models import CRF, LocalTagger
from bridle.models.likelihood import Likelihood, Objective
from bridle.models.perceptron import Local, Perceptron
from bridle.models.task import Task
from learning import Data, noisy, pinned

Floats = npt.NDArray[np.float64]


def dense_task(x: npt.NDArray[Any], y: npt.NDArray[Any], m: int, lengths: Any = None, bigram: bool = False) -> Task:
    """Tokens with the values x (N, n); one sequence, or sequences of these lengths."""
    offsets = np.concatenate([[0], np.cumsum([len(x)] if lengths is None else lengths)]).astype(np.int64)
    token, attribute = np.nonzero(x)
    indptr = np.searchsorted(token, np.arange(len(x) + 1)).astype(np.int64)
    values = x[token, attribute].astype(np.float32)
    encoded = Encoded(offsets, indptr, attribute.astype(np.int32), None if (values == 1).all() else values)
    return Task.of(encoded, y.astype(np.int32), (x.shape[1], m), "all", bigram)


# ---- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_novikoff(seed: int) -> None:
    """The perceptron makes at most 2 (R/g)^2 updates, R the longest x: each one adds at least g to w.u, and at most
    2 R^2 to |w|^2 (the weights of one label go up and those of another one down, hence the 2)."""
    rng = np.random.default_rng(seed)
    n, m = 8, 4
    u = rng.normal(size=(m, n))
    u /= np.linalg.norm(u)
    x = rng.normal(size=(2000, n)).astype(np.float32)
    score = np.sort(x @ u.T, axis=1)
    x = x[score[:, -1] - score[:, -2] > 0.2][:400]
    score = x @ u.T
    y, ranked = score.argmax(axis=1), np.sort(score, axis=1)
    longest, margin = float(np.linalg.norm(x, axis=1).max()), float((ranked[:, -1] - ranked[:, -2]).min())
    learner = Local(dense_task(x, y, m), winnow=False, margin=0.0, rate=1.0, average="last", seed=seed)
    k, order = 0, learner._order(len(x))
    while new := learner._native.local_pass(learner._task.joined, False, 0.0, 1.0, order)[1]:
        k += new
        w = learner._w.reshape(n, -1)[:, :m]
        assert (w.T * u).sum() >= margin * k * 0.9999
        assert (w**2).sum() <= 2 * longest**2 * k * 1.0001
        assert k <= 2 * (longest / margin) ** 2
    assert k > 10, "there was something to learn"
    assert learner.step() == 0
    assert learner.finished == "every token is right by more than the margin"
    assert ((x @ w).argmax(axis=1) == y).all()


def separable(rng: Generator, u: Floats, u_pair: Floats, count: int, least: float) -> tuple[Task, float, float]:
    """Sequences whose gold labels lead all others under u, by `least` or more; R and g of the theorem."""
    n, m = u.shape
    tokens, labels, furthest, margin = [], [], 0.0, np.inf
    lengths: list[int] = []
    while len(lengths) < count:
        length = int(rng.integers(1, 5))
        x = (rng.random((length, n)) < 0.4).astype(float)
        paths = list(itertools.product(range(m), repeat=length))
        count_of = [_counts(x, path, m) for path in paths]
        score = [(f * u).sum() + (b * u_pair).sum() for f, b in count_of]
        best, second = np.argsort(score)[[-1, -2]]
        if score[best] - score[second] < least:
            continue
        gold = count_of[best]
        away = max(((gold[0] - f) ** 2).sum() + ((gold[1] - b) ** 2).sum() for f, b in count_of)
        furthest, margin = max(furthest, float(away) ** 0.5), min(margin, float(score[best] - score[second]))
        tokens.append(x)
        labels.extend(paths[best])
        lengths.append(length)
    return dense_task(np.concatenate(tokens), np.array(labels), m, lengths, bigram=True), furthest, margin


def _counts(x: Floats, path: tuple[int, ...], m: int) -> tuple[Floats, Floats]:
    unary, pair = np.zeros((x.shape[1], m)), np.zeros((m, m))
    for t, y in enumerate(path):
        unary[:, y] += x[t]
        if t:
            pair[path[t - 1], y] += 1
    return unary, pair


@pytest.mark.parametrize("seed", range(3))
def test_collins(seed: int) -> None:
    """Collins (2002), theorem 1: the structured perceptron makes mistakes on at most (R/g)^2 sequences in all, R the
    largest distance between the features of the right and of another labelling; then it is right everywhere."""
    rng = np.random.default_rng(seed)
    u, u_pair = rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    size = np.sqrt((u**2).sum() + (u_pair**2).sum())
    u, u_pair = u / size, u_pair / size
    task, furthest, margin = separable(rng, u, u_pair, 60, 0.1)
    learner = Perceptron(task, average="last", seed=seed)
    k, before = 0, -1
    while k > before:
        before = k
        for b in range(60):
            k += learner._native.perceptron_pass(task.joined, np.array([b])) > 0
        w, pair = learner._w.reshape(6, -1)[:, :3], np.asarray(learner._pair)
        assert (w * u).sum() + (pair * u_pair).sum() >= margin * k * 0.9999
        assert (w**2).sum() + (pair**2).sum() <= furthest**2 * k * 1.0001
        assert k <= (furthest / margin) ** 2
    assert k > 3, "there was something to learn"
    assert learner.step() == 0
    assert learner.finished == "no mistakes left"


def stream(rng: Generator, count: int, n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Half of n attributes are active, three of them matter: yes if one of these is; and a constant attribute."""
    x = rng.random((count, n)) < 0.5
    x[:, :3] = rng.random((count, 3)) < 0.2
    return np.concatenate([x, np.ones((count, 1), dtype=bool)], axis=1), np.asarray(x[:, :3].any(axis=1))


def mistakes(x: npt.NDArray[Any], y: npt.NDArray[Any], algorithm: str, *, epochs: int = 1) -> int:
    """Until all is right, or so many epochs."""
    winnow = algorithm == "winnow"
    learner = Local(dense_task(x, y, 2), winnow=winnow, margin=0.0, rate=0.5, average="last", seed=0)
    wrong = 0.0
    for _ in range(epochs):
        wrong += learner.step() * len(y)
        if learner.finished:
            break
    return round(wrong)


@pytest.mark.parametrize("seed", range(2))
def test_winnow_learns_what_depends_on_few_of_many_attributes(seed: int) -> None:
    """Littlestone (1988): a disjunction of 3 of n attributes costs winnow O(log n) mistakes. The perceptron needs a
    number that grows with n (Kivinen, Warmuth, Auer 1997), as noise from all n adds up in its weights."""
    few, many = (stream(np.random.default_rng(seed), 8000, n) for n in (100, 1000))
    winnow = [mistakes(*data, "winnow") for data in (few, many)]
    perceptron = [mistakes(*data, "perceptron") for data in (few, many)]
    assert winnow[1] < perceptron[1] / 10
    assert winnow[1] / winnow[0] < 2, "log 1000 / log 100 is 1.5"
    assert perceptron[1] / perceptron[0] > 5


@pytest.mark.parametrize("seed", range(3))
def test_the_perceptron_learns_what_depends_on_all_attributes(seed: int) -> None:
    """The other way round: every attribute matters and 3 of n are active. Then the perceptron's bound, in Euclidean
    lengths of few active attributes, is the smaller one."""
    rng = np.random.default_rng(seed)
    n = 500
    x = np.zeros((4 * n, n), dtype=bool)
    for row in x:
        row[rng.choice(n, 3, replace=False)] = True
    y = x @ rng.choice([-1, 1], n) > 0
    assert mistakes(x, y, "perceptron", epochs=100) < 0.95 * mistakes(x, y, "winnow", epochs=100)


# ---- what can be learned --------------------------------------------------------------------------------------------


def alternating(count: int) -> Data:
    """The first token says its label; the others all look alike, and their label is not that of the one before."""
    X = [["ab"[k % 2], *"x" * (3 + k % 6)] for k in range(count)]
    return X, [["AB"[(k + t) % 2] for t in range(len(x))] for k, x in enumerate(X)]


@pytest.mark.parametrize("algorithm", ["lbfgs", "perceptron"])
def test_labels_that_depend_on_the_label_before(algorithm: Any) -> None:
    X, y = alternating(40)
    test, gold = alternating(10)
    chain = CRF(algorithm, features=["word[0]", "label[-1]"], c2=0.01).fit(X, y)
    assert chain.predict(test) == gold
    for model in (
        CRF(algorithm, features=["word[0]"]),
        LocalTagger(features=["word[0]"]),
        LocalTagger("winnow", features=["word[0]"]),
    ):
        guessed = model.fit(X, y).predict(test)
        assert [labels[0] for labels in guessed] == [labels[0] for labels in gold]
        assert len({label for labels in guessed for label in labels[1:]}) == 1, "all look the same to it"


@pytest.mark.parametrize("kind", ["local", "winnow", "chain"])
def test_averaged_weights_are_better_than_the_last_ones(kind: str) -> None:
    """On noisy data the last weights follow the last mistakes; the mean over all steps does not."""
    scores: dict[str, list[float]] = {"averaged": [], "last": []}
    for seed, average in itertools.product(range(8), scores):
        rng = np.random.default_rng(seed)
        model: Any = CRF("perceptron", iterations=5) if kind == "chain" else LocalTagger(margin=0.0, iterations=5)
        model.set_params(average=average, seed=seed, **({"algorithm": "winnow"} if kind == "winnow" else {}))
        scores[average].append(model.fit(*noisy(rng, 200, 0.3)).score(*noisy(rng, 500, 0.0)))
    assert np.mean(scores["averaged"]) > np.mean(scores["last"]) + 0.1


def test_a_margin_keeps_them_learning() -> None:
    rng = np.random.default_rng(0)
    X, y = noisy(rng, 150, 0.0)
    for margin in (0.0, 8.0):
        model = LocalTagger(margin=margin, average="last", scores="raw", iterations=500).fit(X, y)
        assert model.progress_.why == "every token is right by more than the margin"
        assert (0.0 in model.progress_.losses[:-1]) == (margin > 0), "it went on though nothing was wrong"
        batch = model.lattices(X)
        gold = np.array([model.labels_.names.index(label) for labels in y for label in labels])
        right = batch.unary[np.arange(len(gold)), gold]
        batch.unary[np.arange(len(gold)), gold] = -np.inf
        assert (right - batch.unary.max(axis=1)).min() > margin


def one_of_five(rng: Generator, count: int) -> Data:
    """The A is where `s` is largest; how large it is on the whole differs from sequence to sequence. Six other values
    say nothing."""
    X, y = [], []
    for _ in range(count):
        s = rng.normal(size=5)
        best = int(s.argmax())
        s[best] += 0.5
        s += 3 * rng.normal()
        X.append([{"s": s[t], **{f"n{k}": rng.normal() for k in range(6)}} for t in range(5)])
        y.append(["A" if t == best else "O" for t in range(5)])
    return X, y


def test_inference_based_training() -> None:
    """Only comparisons within a sequence show where the A is. With the rule on, a mistake is an A in the wrong place,
    and the update compares the two places: a problem that a weight on `s` separates, so Collins' bound holds and
    training ends. Without the rule each token must be right alone, which no weights achieve, as the same `s` is A
    here and O there; what is learned is noise (Punyakanok, Roth, Yih, Zimak 2005). Both decode with the rule."""
    rule = r.exactly(1, of="A", count="tokens")
    scores: dict[str, list[float]] = {"ibt": [], "perceptron": [], "lbfgs": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        train, (X, y) = one_of_five(rng, 30), one_of_five(rng, 100)
        for algorithm in scores:
            model = CRF(algorithm, iterations=15, rules=[rule] if algorithm == "ibt" else [])  # type: ignore[arg-type]
            guessed = model.fit(*train).predict(X, rules=[rule])
            scores[algorithm].append(sum(map(list.__eq__, guessed, y)) / len(y))
            assert (model.progress_.why == "no mistakes left") == (algorithm == "ibt")
    assert np.mean(scores["ibt"]) > 0.9
    assert min(scores["ibt"]) > max(*scores["perceptron"], *scores["lbfgs"]) + 0.2


# ---- likelihood -----------------------------------------------------------------------------------------------------


def test_l1_makes_zeros() -> None:
    data = noisy(np.random.default_rng(1), 300, 0.1)
    sizes = []
    for c1 in (0.0, 1.0, 5.0, 20.0):
        model = CRF(c1=c1, c2=0.01, iterations=300).fit(*data)
        sizes.append(int(np.count_nonzero(model.linear_.weights)))
        assert len(model.features_) <= sizes[-1], "attributes without weights are forgotten"
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]


def test_more_l2_means_smaller_weights() -> None:
    data = noisy(np.random.default_rng(2), 300, 0.1)
    norms = [np.linalg.norm(CRF(c2=c2, iterations=300).fit(*data).linear_.weights) for c2 in (0.01, 0.1, 1, 10, 1000)]
    assert all(more > less for more, less in itertools.pairwise(norms)), norms


def test_transitions_have_a_prior_of_their_own() -> None:
    """Fersini et al. (2012), equations 5 and 6: one variance for states, another one for transitions."""
    data = noisy(np.random.default_rng(2), 300, 0.1)
    settings: dict[str, Any] = {"c1": 0, "c2": 0.1, "iterations": 300, "tolerance": 1e-9}
    plain = CRF(**settings).fit(*data).linear_
    same = CRF(c2_transitions=0.1, **settings).fit(*data).linear_
    strong = [CRF(c2_transitions=c2, **settings).fit(*data).linear_ for c2 in (1.0, 10.0, 1e6)]
    assert plain.weights.tolist() == same.weights.tolist()
    norms = [float(np.linalg.norm(linear.pairwise)) for linear in (plain, *strong) if linear.pairwise is not None]
    assert norms[0] > norms[1] > norms[2] > norms[3] and norms[3] < 1e-3
    assert np.linalg.norm(strong[2].weights) > 0.5 * np.linalg.norm(plain.weights)
    with pytest.raises(ModelError, match="c2_transitions"):
        CRF(c2_transitions=-1.0).fit(*data)


@pytest.mark.parametrize("c1", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_lbfgs_reaches_the_optimum(c1: float, seed: int) -> None:
    """Of F = f + c1 |w|: f' = -c1 sign(w) where w is not 0, |f'| <= c1 where it is."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 5)), rng.integers(0, 3, 60)
    task = dense_task(x, y, 3, [10] * 6, bigram=True)
    learner = Likelihood(task, c1=c1, c2=0.1, threads=2)
    while learner.finished is None:
        learner.step()
    assert learner.finished == "converged"
    unary, pair, _ = learner.weights()
    w = np.concatenate([unary, np.asarray(pair).ravel()])
    gradient = Objective(task, 0.1, 1)(w)[1]
    np.testing.assert_allclose(gradient[w != 0], -c1 * np.sign(w[w != 0]), atol=1e-4)
    assert (np.abs(gradient[w == 0]) <= c1 + 1e-4).all()
    assert (w[~pinned(task)] == 0).any() == (c1 > 0)
