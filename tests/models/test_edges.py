"""Label bigrams together with the text (`label[-1] word[0]`): sums by enumeration, learning, tagging, files.

N tokens (t)    A attributes of edges    m labels (i, then j)    E slots
"""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from sklearn.base import clone

import bridle
from bridle import CRF, LocalTagger
from bridle import rules as r
from bridle.decoding import problem
from bridle.errors import FeatureError, LatticeError, ModelError
from bridle.features import TemplateFeatures, Templates
from bridle.lattice import Steps
from bridle.learn import ConstrainedTagger
from bridle.models import likelihood, linear
from bridle.models.folds import CrossFit
from bridle.models.likelihood import Objective
from bridle.models.task import Task
from learning import Case, Floats, random_edges, steps_of
from strategies import seeds

TEMPLATES = ["word[0]", "label[-1]", "label[-1] word[0]"]


def scores_of_all(unary: Floats, steps: Floats) -> tuple[Any, Floats]:
    """All labellings of a sequence, and their scores; steps[t] leads to position t."""
    n, m = unary.shape
    paths = np.array(list(itertools.product(range(m), repeat=n)), dtype=np.int64).reshape(-1, n)
    score = unary[np.arange(n), paths].sum(axis=1)
    for t in range(1, n):
        score = score + steps[t][paths[:, t - 1], paths[:, t]]
    return paths, score


def loss_of(case: Case, task: Task, objective: Objective, w: Floats, c2: float) -> float:
    """The regularised negative log-likelihood, from all labellings."""
    state, pair, weights = objective.parts(w)
    assert weights is not None
    unary, steps, loss = case.unary(state), steps_of(task, pair, weights), c2 * float(w @ w)
    for low, high in case.parts:
        if low < high:
            paths, score = scores_of_all(unary[low:high], steps[low:high])
            gold = score[(paths == case.y[low:high]).all(axis=1)]
            loss += float(np.logaddexp.reduce(score) - gold[0])
    return loss


def random_weights(rng: Generator, objective: Objective, scale: float) -> Floats:
    w = rng.normal(scale=scale, size=objective.size)
    w[objective.pinned] = 0
    return w


# ---- likelihood -----------------------------------------------------------------------------------------------------


def test_the_loss_is_that_of_enumeration_and_the_gradient_that_of_differences() -> None:
    for rng in seeds(30):
        case, task = random_edges(rng, int(rng.integers(2, 5)))
        objective = Objective(task, 0.1, threads=int(rng.integers(1, 3)), c2_transitions=0.4)
        w = random_weights(rng, objective, 1.0)
        loss, gradient = objective(w)
        gradient = gradient.copy()
        transitions = w[task.layout.size :]
        expected = loss_of(case, task, objective, w, 0.1) + 0.3 * float(transitions @ transitions)
        assert loss == pytest.approx(expected, rel=1e-10, abs=1e-10)
        free = np.setdiff1d(np.arange(objective.size), objective.pinned)
        for k in rng.permutation(free)[:12].tolist() + free[-6:].tolist():  # the last ones are of edges
            step = np.zeros(objective.size)
            step[k] = 1e-5
            slope = (objective(w + step)[0] - objective(w - step)[0]) / 2e-5
            assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("scale", "single"), [(1.0, True), (12.0, True), (12.0, False), (150.0, True), (150.0, False)])
def test_scores_far_apart_in_both_precisions(scale: float, single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Single precision goes over to double where scores differ much, and double to logarithms."""
    monkeypatch.setattr(likelihood, "SINGLE", 0 if single else 1 << 40)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        case, task = random_edges(rng, 3)
        objective = Objective(task, 0.0, threads=1)
        w = random_weights(rng, objective, 1.0)
        w[-task.n_edges :] *= scale
        loss, gradient = objective(w)
        gradient, tolerance = gradient.copy(), 2e-5 if single else 1e-9
        assert loss == pytest.approx(loss_of(case, task, objective, w, 0.0), rel=tolerance, abs=tolerance * scale)
        monkeypatch.setattr(likelihood, "SINGLE", 1 << 40)
        exact = Objective(task, 0.0, threads=1)(w)[1]
        np.testing.assert_allclose(gradient, exact, atol=1e-4)
        monkeypatch.setattr(likelihood, "SINGLE", 0 if single else 1 << 40)


def test_many_positions_are_added_up_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long sequence, in single precision: expected counts of bigrams are those in double."""
    rng = np.random.default_rng(3)
    _, task = random_edges(rng, 9, sequences=4, longest=900)
    result = {}
    for single in (0, 1 << 40):
        monkeypatch.setattr(likelihood, "SINGLE", single)
        objective = Objective(task, 0.0, threads=1)
        result[single] = objective(random_weights(np.random.default_rng(4), objective, 0.5))[1].copy()
    np.testing.assert_allclose(result[0], result[1 << 40], atol=5e-3, rtol=1e-4)


# ---- learning -------------------------------------------------------------------------------------------------------


def flips(count: int, seed: int, length: int = 8) -> tuple[list[list[str]], list[list[str]]]:
    """The first word says the label; after that "stay" keeps the label and "turn" changes it."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        label = int(rng.integers(2))
        words, labels = [("on", "off")[label]], [label]
        for word in rng.choice(["stay", "turn"], length - 1).tolist():
            label ^= word == "turn"
            words.append(word)
            labels.append(label)
        X.append(words)
        y.append([("ON", "OFF")[k] for k in labels])
    return X, y


@pytest.mark.parametrize(
    "options",
    [
        {"c2": 0.1},
        {"c1": 0.05, "c2": 0.01},
        {"c2": 0.1, "pairs": "all"},
        {"algorithm": "perceptron"},
        {"algorithm": "ibt", "rules": ["at most 40 tokens of ON"], "iterations": 4},
    ],
    ids=str,
)
def test_what_depends_on_the_label_before_and_the_word_is_learned(options: dict[str, Any]) -> None:
    (X, y), test = flips(60, 1), flips(30, 2)
    model = CRF(features=TEMPLATES, **options).fit(X, y)
    assert model.score(*test) == 1.0
    assert CRF(features=TEMPLATES[:2], **options).fit(X, y).score(*test) < 0.9


@pytest.mark.parametrize(
    "options", [{"c2": 0.1}, {"c2": 0.1, "class_weight": {"ON": 3.0, "OFF": 0.5}}, {"algorithm": "perceptron"}], ids=str
)
def test_missing_labels_and_weighted_classes(options: dict[str, Any]) -> None:
    (X, y), test, rng = flips(120, 1), flips(30, 2), np.random.default_rng(0)
    gaps = [[None if rng.random() < 0.4 else label for label in labels] for labels in y]
    assert CRF(features=TEMPLATES, **options).fit(X, gaps).score(*test) == 1.0
    assert CRF(features=TEMPLATES[:2], **options).fit(X, gaps).score(*test) < 0.9


def test_updates_of_the_perceptron_are_scaled() -> None:
    X, y = flips(30, 1)
    plain, twice = (
        CRF("perceptron", features=TEMPLATES, iterations=3, class_weight={"ON": w, "OFF": w}).fit(X, y) for w in (1, 2)
    )
    assert plain.linear_.edges is not None and twice.linear_.edges is not None
    assert (twice.linear_.edges == 2 * plain.linear_.edges).all() and plain.linear_.edges.any()


def test_pairs_beside_a_gap_have_no_weights_of_their_own() -> None:
    X, y = [["a", "b", "c"], ["a", "b", "d"]], [["P", "Q", None], ["P", "Q", "P"]]
    model = CRF(features=TEMPLATES, c2=0.1).fit(X, y)
    result = {(name, label) for name, label, _ in model.top_weights(100) if "|" in name}
    assert result == {("label[-1]|word[0]=P|b", "Q"), ("label[-1]|word[0]=Q|d", "P")}


def test_without_label_bigrams_of_their_own() -> None:
    X, y = flips(60, 1)
    model = CRF(features=["word[0]", "label[-1] word[0]"], c2=0.1).fit(X, y)
    assert model.linear_.pairwise is None and model.score(*flips(30, 2)) == 1.0


def test_several_places_and_templates() -> None:
    """The label of "turn" depends on the word before it, too."""
    (X, y), names = flips(60, 1), ["word[0]", "label[-1] shape[-1] word[0]", "label[-1] word[-1] word[0]"]
    model = CRF(features=names, c2=0.1).fit(X, y)
    assert model.score(*flips(20, 2)) == 1.0
    assert any(name.startswith("label[-1]|word[-1]|word[0]=ON|on|turn") for name, _, _ in model.top_weights(500))


def test_weights_are_counted_and_named() -> None:
    X, y = flips(40, 1)
    model, plain = (CRF(features=lines, c2=0.1).fit(X, y) for lines in (TEMPLATES, TEMPLATES[:2]))
    assert model.n_weights_ == plain.n_weights_ + 4  # two words with two pairs each
    top = {(name, label): weight for name, label, weight in model.top_weights(100)}
    assert top["label[-1]|word[0]=ON|turn", "OFF"] > 1 > -1 > min(top.values()) - 1
    assert dict(model.top_features("OFF", 3))["label[-1]|word[0]=ON|turn"] == top["label[-1]|word[0]=ON|turn", "OFF"]
    assert all("|" not in item for before, after, _ in model.top_transitions(9) for item in (before, after))
    assert set(top) >= {("label[-1]|word[0]=OFF|stay", "OFF"), ("label[-1]=ON", "OFF"), ("word[0]=on", "ON")}


def test_cutoff() -> None:
    X, y = [["a", "b", "rare"], ["a", "b"]], [["X", "Y", "X"], ["X", "Y"]]
    encoded = TemplateFeatures(Templates.parse(TEMPLATES), cutoff=2).fit(X)
    assert encoded.edges is not None and encoded.edges.size == 1  # "b"; "a" only stands first
    assert np.diff(encoded.edges.indptr).tolist() == [0, 1, 0, 0, 1]
    assert CRF(features=TEMPLATES, cutoff=2, c2=0.1).fit(X, y).predict(X[1:]) == y[1:]


def test_training_is_resumed_to_the_bit(tmp_path: Path) -> None:
    X, y = flips(30, 1)
    for options in ({"c2": 0.1}, {"c1": 0.1, "c2": 0.1}, {"algorithm": "perceptron"}):
        kept = tmp_path / "checkpoint"
        whole = CRF(features=TEMPLATES, iterations=6, **options).fit(X, y, dev=(X, y))
        CRF(features=TEMPLATES, iterations=3, **options).fit(X, y, dev=(X, y), checkpoint=kept, every=3)
        again = CRF(features=TEMPLATES, iterations=6, **options).fit(X, y, dev=(X, y), resume=kept)
        assert again.linear_.edges is not None and whole.linear_.edges is not None
        assert (again.linear_.edges == whole.linear_.edges).all() and again.fingerprint_ == whole.fingerprint_


def test_strengths_are_chosen_and_scores_cross_fitted(tmp_path: Path) -> None:
    X, y = flips(24, 1, length=5)
    model = CRF(features=TEMPLATES, folds=2, iterations=10).fit(X[:16], y[:16])
    assert model.tuning_ is not None and model.tuning_.trials
    built = CRF(features=TEMPLATES, folds=3, c2=0.1).cross_fit(X, y)
    built.save(tmp_path / "scores")
    again = CrossFit.load(tmp_path / "scores")
    decoder = model.decoder()
    assert [decoder.decode(lattice).labels for lattice in again.lattices()] == y
    for k, lattice in enumerate(built.lattices()):
        other = again.lattice(k)
        assert lattice.pairwise is not None and lattice.pairwise.shape == (4, 2, 2)
        assert other.pairwise is not None and (other.pairwise == lattice.pairwise).all()
        ids = model.labels_.ids(y[k])
        assert lattice.score(ids) == max(lattice.score(np.array(path)) for path in itertools.product((0, 1), repeat=5))


# ---- tagging --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> CRF:
    """Three labels, two templates of edges that share pairs; not all words are known when it tags."""
    rng = np.random.default_rng(0)
    X = [rng.choice(["a", "b", "c", "Dd"], rng.integers(1, 7)).tolist() for _ in range(40)]
    y = [rng.choice(["O", "P", "Q"], len(x)).tolist() for x in X]
    lines = ["word[0]", "label[-1]", "label[-1] word[0]", "label[-1] shape[-1] word[0]"]
    return CRF(features=lines, c2=0.05, iterations=15).fit(X, y)


SEQUENCES = [["a", "Dd", "new", "c", "b"], ["b"], [], ["Dd", "a", "a", "c"], ["new", "newer"]]


def test_tables_are_sums_of_named_weights(model: CRF) -> None:
    """The native path against a plain one: each template, each token, each weight by its name."""
    weights = {(name, label): weight for name, label, weight in model.top_weights(100_000)}
    names, batch = model.labels_.names, model.lattices(SEQUENCES)
    for words, lattice in zip(SEQUENCES, (batch[k] for k in range(len(batch))), strict=True):
        for t, i, j in itertools.product(range(1, len(words)), range(3), range(3)):
            shape = "Xx" if words[t - 1] == "Dd" else "x"
            wanted = weights.get((f"label[-1]={names[i]}", names[j]), 0.0)
            wanted += weights.get((f"label[-1]|word[0]={names[i]}|{words[t]}", names[j]), 0.0)
            wanted += weights.get((f"label[-1]|shape[-1]|word[0]={names[i]}|{shape}|{words[t]}", names[j]), 0.0)
            assert lattice.pairwise is not None
            assert lattice.pairwise[t - 1, i, j] == pytest.approx(wanted, rel=1e-5, abs=1e-6)


RULES = ["at most 2 tokens of P", "if P then Q", "O before Q [penalty 1.5]"]


@pytest.mark.parametrize("engine", ["auto", "search", "product", "ilp"])
def test_decoding_under_rules_is_that_of_enumeration(model: CRF, engine: str) -> None:
    rules = [r.parse(rule) for rule in RULES]
    decoder = model.decoder(rules, engine=engine)
    decodings = model.decode(SEQUENCES, decoder, threads=1)
    for words, decoding in zip(SEQUENCES, decodings, strict=True):
        lattice, best = model.lattice(words), -np.inf
        for path in itertools.product(range(3), repeat=len(words)):
            broken = [rule.violations(path, model.labels_) for rule in rules]
            if not any(broken[:2]):
                best = max(best, lattice.score(np.array(path, dtype=np.int64)) - 1.5 * (broken[2] > 0))
        assert decoding.optimal and decoding.score == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert decoder.decode(lattice).score == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_marginals_k_best_and_probabilities(model: CRF) -> None:
    words = SEQUENCES[0]
    lattice, decoder = model.lattice(words), model.decoder(["at most 1 token of P"])
    steps = np.concatenate([np.zeros((1, 3, 3)), np.asarray(lattice.pairwise)])
    paths, score = scores_of_all(np.asarray(lattice.unary, dtype=np.float64), steps)
    allowed = (paths == model.labels_.ids(["P"])[0]).sum(axis=1) <= 1
    p = np.exp(score - np.logaddexp.reduce(score))
    assert decoder.probability(lattice).all == pytest.approx(p[allowed].sum())
    wanted = [[p[allowed & (paths[:, t] == y)].sum() / p[allowed].sum() for y in range(3)] for t in range(5)]
    np.testing.assert_allclose(decoder.marginals(lattice), wanted, atol=1e-9)
    best = [labelling.score for labelling in decoder.k_best(lattice, 4)]
    np.testing.assert_allclose(best, np.sort(score[allowed])[::-1][:4], rtol=1e-9)
    assert "P" in str(decoder.explain(lattice)) or decoder.decode(lattice).score == pytest.approx(best[0])


def test_blocks_and_threads_change_nothing(model: CRF, monkeypatch: pytest.MonkeyPatch) -> None:
    X = SEQUENCES * 40
    rules = [*RULES, "forbid O at tokens /a/"]
    whole = model.decode(X, model.decoder(rules), threads=1)
    monkeypatch.setattr(problem, "TABLES", 600)  # bytes: eight tokens
    for threads in (1, 2):
        parts = model.decode(X, model.decoder(rules), threads=threads)
        assert parts.labels == whole.labels and [part.score for part in parts] == [part.score for part in whole]
    batch = model.lattices(X, threads=2)
    assert model.decoder(RULES).decode_batch(batch).labels == model.predict(X, RULES)
    assert model.decoder().decode_batch([batch[k] for k in range(len(batch))]).labels == model.predict(X)


def test_a_batch_is_cut_put_together_and_pickled(model: CRF) -> None:
    batch = model.lattices(SEQUENCES)
    again, chosen = pickle.loads(pickle.dumps(batch)), bridle.lattice.subset(batch, np.array([3, 0, 3]))
    for part, k, of in ((batch.part(1, 4), 2, 3), (again, 0, 0), (chosen, 2, 3), (chosen, 1, 0)):
        assert (np.asarray(part[k].pairwise) == np.asarray(batch[of].pairwise)).all()
        assert (part[k].unary == batch[of].unary).all()


# ---- files ----------------------------------------------------------------------------------------------------------


def test_models_are_saved_pickled_and_cloned(model: CRF, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    for again in (bridle.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert again.predict(SEQUENCES, RULES) == model.predict(SEQUENCES, RULES)
        assert again.fingerprint_ == model.fingerprint_ and again.top_weights(9) == model.top_weights(9)
    assert not hasattr(clone(model), "linear_") and clone(model).features == model.features


def test_weights_that_are_zero_are_not_kept() -> None:
    X, y = flips(60, 1)
    X = [[*x, "end"] for x in X]
    y = [[*labels, labels[-1]] for labels in y]
    model = CRF(features=TEMPLATES, c1=3.0, c2=0.1).fit(X, y)
    edges = model.linear_.edges
    assert edges is not None and edges.all() and len(edges) < model.n_weights_
    assert model.features_.n_edges == len(model.linear_.layout.edges.begin) - 1  # type: ignore[union-attr]


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["label[-1] label[-1]", "label[-1] label[0]", "label[-2] word[0]", "word[0] label"])
def test_labels_elsewhere_are_no_templates(line: str) -> None:
    with pytest.raises(FeatureError, match=r"line 1 is not a template.*got"):
        Templates.parse([line])


def test_templates_are_printed_as_they_are_read() -> None:
    built = Templates.parse("word[0]\npos[0] label[-1]\nlabel[-1]\nlabel[-1] word[-1] pos[0]  # both")
    assert str(built).splitlines() == ["word[0]", "label[-1] pos[0]", "label[-1] word[-1] pos[0]", "label[-1]"]
    assert Templates.parse(str(built)) == built and built.columns == ("word", "pos")


def test_templates_of_labels_alone_are_not_enough() -> None:
    with pytest.raises(FeatureError, match="no templates"):
        Templates.parse(["label[-1] word[0]"])


@pytest.mark.parametrize("kind", [LocalTagger, ConstrainedTagger])
def test_only_a_crf_takes_them(kind: Any) -> None:
    with pytest.raises(ModelError, match=r"takes no templates with label\[-1\].*got label\[-1\] word\[0\].*CRF"):
        kind(features=TEMPLATES).fit(*flips(3, 1))


def test_too_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MOST_EDGE_LABELS", 1)
    with pytest.raises(ModelError, match="too many labels for templates"):
        CRF(features=TEMPLATES, c2=0.1).fit(*flips(3, 1))
    monkeypatch.setattr(linear, "MOST_EDGE_LABELS", 9)
    monkeypatch.setattr(linear, "MOST_EDGES", 3)
    with pytest.raises(ModelError, match=r"too many weights.*2 features x 2 x 2 labels"):
        CRF(features=TEMPLATES, c2=0.1, pairs="all").fit(*flips(3, 1))


@pytest.mark.parametrize(
    ("indptr", "pair", "score"),
    [([0, 1], [4], [1.0]), ([0, 1], [-1], [1.0]), ([0, 2], [1], [1.0]), ([1, 1], [], []), ([0, 1], [1], [np.inf])],
)
def test_steps_that_do_not_fit_are_refused(indptr: list[int], pair: list[int], score: list[float]) -> None:
    steps = Steps(np.array(indptr), np.array(pair, dtype=np.int32), np.array(score, dtype=np.float32))
    with pytest.raises(LatticeError):
        steps.check(1, 2)
