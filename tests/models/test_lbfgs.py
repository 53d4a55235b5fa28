"""L-BFGS and OWL-QN: against closed forms, a slow proximal gradient and the textbook recursion; and bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import ModelError
from bridle.models import lbfgs
from bridle.models.lbfgs import Lbfgs

Vector = npt.NDArray[np.float64]
Evaluate = Callable[[Vector], tuple[float, Vector]]


def logistic(seed: int, *, n: int = 60, d: int = 30, c2: float = 0.1) -> Evaluate:
    """Logistic regression with an L2 term, on random data: some columns are rare and some are large."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.uniform(0.1, 1, d)) * rng.uniform(0.2, 3, d)
    y = np.where(x @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)

    def evaluate(w: Vector) -> tuple[float, Vector]:
        margin = y * (x @ w)
        wrong = np.exp(-np.logaddexp(0, margin))
        return float(np.logaddexp(0, -margin).sum() + c2 * w @ w), 2 * c2 * w - x.T @ (y * wrong)

    return evaluate


def quadratic(seed: int, d: int, condition: float) -> tuple[Evaluate, Vector]:
    """(w - best)' A (w - best) / 2 and its best point."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    a = turn * np.geomspace(1, condition, d) @ turn.T
    best = rng.normal(size=d)
    return lambda w: (float((w - best) @ a @ (w - best)) / 2, a @ (w - best)), best


def rosenbrock(w: Vector) -> tuple[float, Vector]:
    """A bent valley in each pair of dimensions; smallest, 0, at all ones."""
    a, b = w[::2], w[1::2]
    gradient = np.empty_like(w)
    gradient[::2] = -400 * a * (b - a * a) - 2 * (1 - a)
    gradient[1::2] = 200 * (b - a * a)
    return float((100 * (b - a * a) ** 2 + (1 - a) ** 2).sum()), gradient


def run(optimiser: Lbfgs, most: int = 1000) -> list[float]:
    """The losses, the first one included."""
    losses = [optimiser.loss]
    while len(losses) <= most and optimiser.step():
        losses.append(optimiser.loss)
    return losses


def fit(evaluate: Evaluate, d: int, c1: float = 0.0) -> Lbfgs:
    optimiser = Lbfgs(evaluate, np.zeros(d), c1=c1)
    run(optimiser)
    assert optimiser.why == "converged"
    return optimiser


def far_from_optimal(gradient: Vector, w: Vector, c1: float) -> float:
    """By how much the optimality conditions are missed."""
    away = np.where(w == 0, np.maximum(np.abs(gradient) - c1, 0), gradient + c1 * np.sign(w))
    return float(np.linalg.norm(away))


# ---- the right answer ------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 20), st.sampled_from([1.0, 10.0, 100.0]))
def test_quadratics(seed: int, d: int, condition: float) -> None:
    evaluate, best = quadratic(seed, d, condition)
    np.testing.assert_allclose(fit(evaluate, d).w, best, atol=1e-4)


def test_rosenbrock_in_50_dimensions() -> None:
    optimiser = Lbfgs(rosenbrock, np.tile([-1.2, 1.0], 25))
    assert len(run(optimiser)) < 100
    np.testing.assert_allclose(optimiser.w, 1, atol=1e-4)  # the least curvature is 0.4, the gradient below 7e-5


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.01, 0.5, 3.0]), st.sampled_from([0.05, 1.0]))
def test_random_convex_problems(seed: int, c1: float, c2: float) -> None:
    """Optimality holds at the end, the reported figures are true, and the loss falls all the way."""
    evaluate = logistic(seed, n=30, d=12, c2=c2)
    start = np.random.default_rng(seed).normal(size=12)
    optimiser = Lbfgs(evaluate, start, c1=c1)
    losses = run(optimiser)
    assert np.array_equal(start, np.random.default_rng(seed).normal(size=12))  # the caller's array is not touched
    loss, gradient = evaluate(optimiser.w)
    away = far_from_optimal(gradient, optimiser.w, c1)
    assert optimiser.why == "converged"
    assert away <= 1e-5 * max(1.0, float(np.linalg.norm(optimiser.w)))
    assert optimiser.gradient_norm == pytest.approx(away)
    assert optimiser.loss == pytest.approx(loss + c1 * np.abs(optimiser.w).sum())
    assert optimiser.iteration == len(losses) - 1
    assert np.all(np.diff(losses) < 0)


@pytest.mark.parametrize("c1", [1.0, 3.0, 6.0])
def test_l1_against_a_proximal_gradient(c1: float) -> None:
    evaluate = logistic(1, c2=0.05)
    w, rate = np.zeros(30), 3e-3
    for _ in range(5_000):
        w -= rate * evaluate(w)[1]
        w = np.sign(w) * np.maximum(np.abs(w) - rate * c1, 0)
    result = fit(evaluate, 30, c1).w
    np.testing.assert_allclose(result, w, atol=1e-4)
    assert np.array_equal(result == 0, w == 0) and 0 < np.count_nonzero(w) < 30


def test_a_large_l1_weight_keeps_all_weights_at_zero() -> None:
    optimiser = fit(logistic(2), 30, c1=1e4)
    assert optimiser.evaluations == 1 and not optimiser.w.any()


@pytest.mark.parametrize("c1", [0.0, 0.05])
def test_hills_as_well_as_valleys(c1: float) -> None:
    """Steps over a hill top bring pairs with s.y < 0, which must not enter the history."""
    hills: Evaluate = lambda w: (float(np.cos(w).sum() + 0.01 * w @ w), 0.02 * w - np.sin(w))  # noqa: E731
    optimiser = Lbfgs(hills, np.linspace(-1, 2, 9), c1=c1)
    losses = [optimiser.loss]
    while optimiser.step():
        losses.append(optimiser.loss)
        state = optimiser.state()
        assert np.all((state["steps"] * state["changes"]).sum(1) > 0)
    assert optimiser.why == "converged" and np.all(np.diff(losses) < 0)
    assert np.all(np.cos(optimiser.w[optimiser.w != 0]) < 0.02)  # no one rests on a hill


# ---- the algorithm ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c1", [0.0, 1.0])
def test_the_direction_is_that_of_the_textbook(c1: float) -> None:
    """The two loops on whole vectors give the step that was taken, where the first trial was good."""
    optimiser = Lbfgs(logistic(3), np.zeros(30), c1=c1, memory=4)
    compared = 0
    for _ in range(12):
        before = optimiser.state()
        calls = optimiser.evaluations
        assert optimiser.step()
        if len(before["steps"]) and optimiser.evaluations == calls + 1:
            np.testing.assert_allclose(optimiser.w, textbook(before, c1), rtol=1e-9, atol=1e-13)
            compared += 1
    assert compared > 6


def textbook(state: dict[str, npt.NDArray[Any]], c1: float) -> Vector:
    """The next point: Nocedal & Wright, algorithm 7.4; Andrew & Gao, sections 3.1 and 3.2."""
    pairs = list(zip(state["steps"], state["changes"], strict=True))
    w, g = state["w"], state["gradient"]
    p = np.where(w == 0, np.sign(g) * np.maximum(np.abs(g) - c1, 0), g + c1 * np.sign(w))
    q, alphas = p.copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    s, y = pairs[-1]
    q *= s @ y / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += s * (alpha - y @ q / (s @ y))
    if not c1:
        return np.asarray(w - q)
    there = w - np.where(q * p > 0, q, 0)
    return np.where(np.sign(there) == np.where(w == 0, -np.sign(p), np.sign(w)), there, 0)


@pytest.mark.parametrize("evaluate, start", [(rosenbrock, np.tile([-1.2, 1.0], 5)), (logistic(12), np.zeros(30))])
def test_steps_obey_the_strong_wolfe_conditions(evaluate: Evaluate, start: Vector) -> None:
    optimiser = Lbfgs(evaluate, start)
    loss, p, w = optimiser.loss, optimiser.state()["gradient"], optimiser.w.copy()
    while optimiser.step():
        s, g = optimiser.w - w, optimiser.state()["gradient"]
        assert optimiser.loss <= loss + 1e-4 * (1 - 1e-6) * (p @ s)
        assert abs(g @ s) <= 0.9 * (1 + 1e-6) * abs(p @ s)
        loss, p, w = optimiser.loss, g, optimiser.w.copy()


def test_a_tiny_gain_is_not_enough() -> None:
    """Far out the curve is flat and a hair lower than at the start; with an L1 term, the other side of a bowl."""
    curve = Lbfgs(lambda w: (float(-w[0] * np.exp(-20 * w[0] ** 2)), (40 * w**2 - 1) * np.exp(-20 * w**2)), np.zeros(1))
    assert curve.step() and curve.loss < -0.01
    bowl = Lbfgs(lambda w: (float((w - 5) @ (w - 5)), 2 * (w - 5)), np.array([4.499999]), c1=1e-9)
    assert bowl.step() and bowl.evaluations == 3


@pytest.mark.parametrize("best, result", [(0.3, 0.3), (0.1, 0.1), (30.0, 5.0)])
def test_cubic_interpolation_is_exact_on_parabolas(best: float, result: float) -> None:
    """The first trial is at 1, the second at the best point, but at most at 5."""
    optimiser = Lbfgs(lambda w: (float((w - best) @ (w - best)), 2 * (w - best)), np.zeros(1))
    assert optimiser.step() and (optimiser.evaluations, optimiser.w[0]) == (3, pytest.approx(result))


def test_a_wall_beyond_the_best_point() -> None:
    """The last trials of the search fail; it returns to the best one, with its own gradient."""

    def evaluate(w: Vector) -> tuple[float, Vector]:
        return (1e12 - float(w[0]), np.full(1, -1.0)) if w[0] <= 1 else (np.inf, np.full(1, np.nan))

    optimiser = Lbfgs(evaluate, np.zeros(1))
    assert optimiser.step()
    assert (optimiser.loss, optimiser.w.tolist(), optimiser.gradient_norm) == (1e12 - 1, [1.0], 1.0)


@pytest.mark.parametrize("c1", [0.0, 0.5])
@pytest.mark.parametrize("pairs", [0, 1])
def test_no_search_below_the_precision_of_the_loss(c1: float, pairs: int) -> None:
    """The remaining gain cannot be seen in a loss as large as this: one trial, not twenty."""
    state = Lbfgs(lambda w: (1e20, w), np.ones(4), c1=c1).state()
    state["steps"] = state["changes"] = np.ones((pairs, 4))
    optimiser = Lbfgs.resume(lambda w: (1e20, w), state)
    assert not optimiser.step()
    assert (optimiser.why, optimiser.evaluations) == ("line search failed", 2)


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_the_history_is_the_last_pairs(c1: float) -> None:
    optimiser = Lbfgs(logistic(4), np.zeros(30), c1=c1, memory=3)
    points = [optimiser.w.copy()]
    for _ in range(5):
        assert optimiser.step()
        points.append(optimiser.w.copy())
    state = optimiser.state()
    assert np.array_equal(state["steps"], np.diff(points, axis=0)[-3:])
    gradients = [logistic(4)(w)[1] for w in points]
    assert np.array_equal(state["changes"], np.diff(gradients, axis=0)[-3:])


@pytest.mark.parametrize("c1", [0.0, 0.2])
def test_few_evaluations(c1: float) -> None:
    optimisers = [Lbfgs(logistic(seed, n=200, d=100), np.zeros(100), c1=c1) for seed in range(5)]
    iterations = sum(len(run(optimiser, 40)) - 1 for optimiser in optimisers)
    assert sum(optimiser.evaluations for optimiser in optimisers) < 1.15 * iterations


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_blocks_do_not_matter(c1: float, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Lbfgs(logistic(5), np.zeros(30), c1=c1)
    losses = run(whole, 20)
    monkeypatch.setattr(lbfgs, "BLOCK", 7)  # the last block is a short one
    blocks = Lbfgs(logistic(5), np.zeros(30), c1=c1)
    np.testing.assert_allclose(run(blocks, 20), losses, rtol=1e-8)
    assert blocks.gradient_norm == pytest.approx(whole.gradient_norm, rel=1e-2)


def test_a_slope_without_end() -> None:
    """No Wolfe point exists; the search still gives back the best point it saw, in a bounded number of trials."""
    optimiser = Lbfgs(lambda w: (float(-w.sum()), -np.ones(3)), np.zeros(3))
    assert optimiser.step()
    assert optimiser.loss == -optimiser.w.sum() < -1e6
    assert optimiser.evaluations <= 1 + lbfgs.TRIALS


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_a_gradient_that_lies(c1: float) -> None:
    """Uphill only: the step is refused and nothing moves."""
    optimiser = Lbfgs(lambda w: (float(w @ w), -2 * w), np.ones(3), c1=c1)
    assert not optimiser.step()
    assert (optimiser.why, optimiser.loss, optimiser.w.tolist()) == ("line search failed", 3 + 3 * c1, [1, 1, 1])


@pytest.mark.parametrize("c1", [0.0, 0.5])
@pytest.mark.parametrize("scale", [1e20, 1e180])  # the second overflows at once
def test_a_history_that_misleads_is_dropped(c1: float, scale: float) -> None:
    """A pair that is not of this problem: twenty trials along its far too long direction fail, then plain descent."""
    state = Lbfgs(logistic(6), np.ones(30), c1=c1).state()
    state["steps"], state["changes"] = np.full((1, 30), scale), np.full((1, 30), 1 / scale)
    optimiser = Lbfgs.resume(logistic(6), state)
    assert optimiser.step()
    assert len(optimiser.state()["steps"]) == 1 and abs(optimiser.state()["steps"]).max() < 10
    run(optimiser)
    assert optimiser.why == "converged"


# ---- stop and go on --------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.5]), st.integers(0, 9), st.integers(1, 7))
def test_a_resumed_run_has_the_same_bits(seed: int, c1: float, stop: int, memory: int) -> None:
    evaluate = logistic(seed, n=30, d=12)
    straight = Lbfgs(evaluate, np.zeros(12), c1=c1, memory=memory)
    run(straight, 12)
    first = Lbfgs(evaluate, np.zeros(12), c1=c1, memory=memory)
    run(first, stop)
    state = first.state()
    run(first, 3)  # the state is a copy: what comes later does not reach it
    resumed = Lbfgs.resume(evaluate, state)
    run(resumed, 12 - resumed.iteration)
    assert_same(resumed, straight)


def assert_same(a: Lbfgs, b: Lbfgs) -> None:
    left, right = ({key: part.tobytes() for key, part in o.state().items()} for o in (a, b))
    assert left == right and a.gradient_norm == b.gradient_norm


def test_a_state_survives_a_file(tmp_path: Path) -> None:
    optimiser = Lbfgs(logistic(7), np.zeros(30), c1=0.1)
    run(optimiser, 8)
    np.savez(tmp_path / "state.npz", **optimiser.state())  # type: ignore[arg-type]
    with np.load(tmp_path / "state.npz", allow_pickle=False) as kept:
        assert_same(Lbfgs.resume(logistic(7), kept), optimiser)


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_an_interrupted_step_leaves_no_trace(c1: float) -> None:
    """After an exception in `evaluate` the run goes on as if nothing had been, but for the count of calls."""
    straight = Lbfgs(logistic(8), np.zeros(30), c1=c1)
    run(straight, 15)
    countdown = [10]

    def evaluate(w: Vector) -> tuple[float, Vector]:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise KeyboardInterrupt
        return logistic(8)(w)

    stopped = Lbfgs(evaluate, np.zeros(30), c1=c1)
    with pytest.raises(KeyboardInterrupt):
        run(stopped, 15)
    run(stopped, 15 - stopped.iteration)
    assert (stopped.loss, stopped.w.tobytes()) == (straight.loss, straight.w.tobytes())


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_a_reused_gradient_buffer_is_safe(c1: float) -> None:
    buffer = np.empty(30)

    def evaluate(w: Vector) -> tuple[float, Vector]:
        buffer[:] = np.nan
        loss, buffer[:] = logistic(9)(w)
        return loss, buffer

    reused, fresh = Lbfgs(evaluate, np.zeros(30), c1=c1), Lbfgs(logistic(9), np.zeros(30), c1=c1)
    assert run(reused) == run(fresh)
    buffer[:] = np.nan
    assert_same(reused, fresh)


# ---- numbers that are none -------------------------------------------------------------------------------------------


def barrier(edge: float, outside: tuple[float, float]) -> Evaluate:
    """-log(edge - w) - 2 w / edge, smallest at w = edge / 2; from the edge on, the loss and the gradient `outside`."""

    def evaluate(w: Vector) -> tuple[float, Vector]:
        if w.max() >= edge:
            return outside[0], np.full(len(w), outside[1])
        return float(-np.log(edge - w).sum() - 2 / edge * w.sum()), 1 / (edge - w) - 2 / edge

    return evaluate


@pytest.mark.parametrize("c1", [0.0, 0.1])
@pytest.mark.parametrize("outside", [(np.nan, 0.0), (np.inf, np.inf), (-np.inf, 0.0), (-1e9, np.nan), (1e200, 1e200)])
def test_a_search_that_leaves_the_domain_comes_back(c1: float, outside: tuple[float, float]) -> None:
    optimiser = Lbfgs(barrier(0.01, outside), np.full(2, -1.0), c1=c1)
    assert np.all(np.diff(run(optimiser)) < 0)
    np.testing.assert_allclose(optimiser.w, 0.01 - 1 / (200 - c1), atol=1e-7)
    tiny = Lbfgs(barrier(1e-8, (np.inf, np.inf)), np.zeros(1), c1=c1)  # the first trial is far too long
    assert tiny.step() and 0 < tiny.w[0] < 1e-8


@pytest.mark.parametrize("loss, gradient", [(np.nan, 0.0), (np.inf, 1.0), (1.0, np.nan), (1.0, -np.inf)])
@pytest.mark.parametrize("c1", [0.0, 0.1])
def test_not_finite_at_the_start(loss: float, gradient: float, c1: float) -> None:
    with pytest.raises(ModelError, match="not finite at the start"):
        Lbfgs(lambda w: (loss, np.full(2, gradient)), np.zeros(2), c1=c1)


@pytest.mark.parametrize(
    "shape, options, words",
    [
        (2, {"c1": -1.0}, "`c1` must be"),
        (2, {"c1": np.nan}, "`c1` must be"),
        (2, {"memory": 0}, "history"),
        ((2, 2), {}, "not a vector"),
        (3, {}, "wrong shape"),
    ],
)
def test_bad_calls(shape: int | tuple[int, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Lbfgs(lambda w: (0.0, np.zeros(2)), np.zeros(shape), **options)


@pytest.mark.parametrize(
    "part",
    [{"w": np.zeros(3)}, {"counts": np.ones(1)}, {"gradient": np.zeros(3)}, {"steps": np.zeros((1, 30))}],
)
def test_bad_states(part: dict[str, npt.NDArray[Any]]) -> None:
    state = Lbfgs(logistic(11), np.zeros(30)).state()
    for wrong in (state | part, {key: state[key] for key in state.keys() - part.keys()}):
        with pytest.raises(ModelError, match="state"):
            Lbfgs.resume(logistic(11), wrong)
