"""Values that travel: between processes, into caches and copies. A lattice is out of reach of whoever made it."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import bridle
import bridle.errors
from bridle import CRF, Batch, Decoder, Labels, Lattice, LocalTagger, SpanDecoder, SpanLattice
from bridle import rules as r
from bridle.engines import Beam, Ilp, LazyIntersection, Product, Search, TwoStage, Viterbi
from bridle.errors import BridleError, RuleSyntaxError
from bridle.learn import ConstrainedTagger, DeterministicRules
from pool_work import decoded, raised
from strategies import RULE_KINDS, random_rule, seeds

LABELS = Labels(["O", "A", "B"], "IO", outside="O")
X, Y = [["the", "cat", "sat"], ["a", "dog", "ran"]] * 4, [["O", "A", "B"]] * 8
RULES = [r.at_most(1, of="A"), r.fix("B", r.given("at")), r.before("A", "B").soft(0.5), r.forbid("A", r.tokens("x+"))]
SCORES = np.random.default_rng(0).normal(size=(6, 3))
GIVEN = {"at": 2, "tokens": list("abcxyz")}
JOURNEYS: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {p}": lambda value, p=p: pickle.loads(pickle.dumps(value, p)) for p in range(2, 6)},  # type: ignore[misc]
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}
journeys = pytest.mark.parametrize("journey", JOURNEYS.values(), ids=JOURNEYS.keys())


@journeys
def test_labels_lattices_and_batches(journey: Callable[[Any], Any]) -> None:
    labels = journey(LABELS)
    assert labels == LABELS and labels.scheme == "IO" and labels.ids(["A"]).tolist() == [1]
    single = Lattice(SCORES.astype(np.float32), np.ones((3, 3)), start=[0, 1, 2], end=[0, -1, 0])
    for lattice in (Lattice(SCORES), single):
        again = journey(lattice)
        for name in ("unary", "pairwise", "start", "end"):
            assert np.array_equal(getattr(again, name), getattr(lattice, name))
        assert again.unary.dtype == lattice.unary.dtype and not again.unary.flags.writeable
    batch = journey(Batch.from_padded(SCORES.reshape(2, 3, 3), lengths=[3, 1], pairwise=np.zeros((3, 3))))
    assert batch.length == 3 and batch.offsets.tolist() == [0, 3, 4] and len(batch[1]) == 1


@journeys
def test_every_kind_of_rule(journey: Callable[[Any], Any]) -> None:
    for rng, kind in zip(seeds(len(RULE_KINDS), key=70), RULE_KINDS, strict=True):
        rule, _ = random_rule(rng, LABELS, 4, kind=kind)
        assert journey(rule) == rule and str(journey(rule)) == str(rule)
        assert journey(rule.soft(2.5, per="violation")) == rule.soft(2.5, per="violation")


@journeys
@pytest.mark.parametrize("engine", ["auto", "search", Search(max_product_states=2), Product(), Ilp(), Beam(width=9)])
def test_decoders_and_decodings(journey: Callable[[Any], Any], engine: Any) -> None:
    decoder = Decoder(LABELS, RULES, engine, time_limit=60.0, max_states=10**6, max_memory=10**8, on_infeasible="skip")
    again = journey(decoder)
    assert (again.rules, again.engine, again.limits, again.plan) == (tuple(RULES), engine, decoder.limits, decoder.plan)
    lattice = Lattice(SCORES)
    decoding, two = decoder.decode(lattice, GIVEN), journey(again.decode(lattice, GIVEN))
    assert decoding.labels == two.labels and decoding.score == two.score and decoding.violated == two.violated
    batch = journey(again.decode_batch([lattice] * 3, [GIVEN, {**GIVEN, "at": 0}, GIVEN]))
    assert batch.labels[0] == decoding.labels and batch.status[[0, 2]].tolist() == [decoding.status] * 2


def test_decodings_without_an_answer_can_say_why_elsewhere() -> None:
    rules = [r.fix("A", 0), r.fix("B", 0)]
    decodings = pickle.loads(
        pickle.dumps(Decoder(LABELS, rules, on_infeasible="skip").decode_batch([Lattice(SCORES)] * 2))
    )
    assert decodings.status.tolist() == ["infeasible"] * 2 and decodings[1].clash == tuple(rules)


@pytest.mark.parametrize("engine", [Viterbi(), TwoStage(tau=0.5), LazyIntersection(seed=3)], ids=repr)
def test_engines_are_values(engine: Any) -> None:
    assert pickle.loads(pickle.dumps(engine)) == engine and hash(engine) == hash(copy.deepcopy(engine))


@journeys
def test_word_lattices(journey: Callable[[Any], Any]) -> None:
    lattice = journey(SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1]))
    decoder = journey(SpanDecoder(rules=["at most 1 token of WORD"]))
    assert journey(decoder.decode(lattice)).words == [(0, 2)]


MODELS: dict[str, Callable[[], Any]] = {
    "crf": lambda: CRF(features=["word[0]", "label[-1]"], iterations=5, algorithm="ibt", rules=(r.at_most(2, of="A"),)),
    "local": lambda: LocalTagger(features=["word[0]"], iterations=3),
    "deterministic": lambda: DeterministicRules(cutoff=1, threshold=0.5),
    "constrained": lambda: ConstrainedTagger(iterations=2),
}


@journeys
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_models(make: Callable[[], Any], journey: Callable[[Any], Any]) -> None:
    blank = make()
    assert journey(blank).get_params() == blank.get_params()
    fitted = blank.fit(X, Y)
    again = journey(fitted)
    assert type(again) is type(fitted) and again.get_params() == fitted.get_params()
    if isinstance(fitted, DeterministicRules):
        assert np.array_equal(again.decide(X).ids, fitted.decide(X).ids) and list(again.lines()) == list(fitted.lines())
    else:
        assert again.predict(X) == fitted.predict(X)


def test_a_model_travels_as_the_bytes_of_its_file() -> None:
    data = pickle.dumps(MODELS["crf"]().fit(X, Y))
    assert b"BRIDLE" in data
    with pytest.raises(bridle.ModelFileError):
        pickle.loads(data.replace(b"cat", b"dog", 1))


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_decoders_in_other_processes(start: str) -> None:
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} on this system")
    decoder, lattice = Decoder(LABELS, RULES), Lattice(SCORES)
    here = decoder.decode(lattice, GIVEN)
    decoder.decode_batch([lattice] * 200, [GIVEN] * 200, threads=2)  # a forked process finds no threads of ours
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(start)) as pool:
        for there in pool.map(decoded, [(decoder, lattice, GIVEN)] * 4):
            assert there.labels == here.labels and there.score == here.score
        with pytest.raises(bridle.GivenError) as caught:
            list(pool.map(decoded, [(decoder, lattice, {})]))
        assert caught.value.rule == RULES[1]


def test_joblib() -> None:
    joblib = pytest.importorskip("joblib")
    decoder, lattice = Decoder(LABELS, RULES), Lattice(SCORES)
    result = joblib.Parallel(n_jobs=2)(joblib.delayed(decoded)((decoder, lattice, GIVEN)) for _ in range(3))
    assert [d.labels for d in result] == [decoder.decode(lattice, GIVEN).labels] * 3
    assert joblib.hash(lattice) == joblib.hash(Lattice(SCORES))


# ---- errors: every class of the package, every field ----------------------------------------------------------------


def kinds_of_errors() -> list[type[BaseException]]:
    """All exception classes that modules of Bridle define, private ones too."""
    for module in pkgutil.walk_packages(bridle.__path__, "bridle."):
        if not module.name.endswith("__main__") and not module.name.startswith("bridle.integrations."):
            with suppress(bridle.errors.MissingExtra):  # bridle.torch
                importlib.import_module(module.name)
    return sorted({k for k in _below(BaseException) if k.__module__.startswith("bridle.")}, key=lambda k: k.__name__)


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for base in type.__subclasses__(kind):
        yield base
        yield from _below(base)


ERRORS = kinds_of_errors()
FIELDS: dict[str, Any] = {
    "got": [1, "\x1b"],
    "wanted": "{argument}",
    "cause": "Too few?",
    "sequence": 4,
    "rule": RULES[0],
    "where": "data.txt:17",
    "argument": bridle.errors.Argument("given", {"verb": ...}),
    "file": "my.rules",
    "line": 3,
    "bound": 1.5,
    "decodings": [1, 2],
    "clash": tuple(RULES),
    "minimal": False,
    "status": 422,
    "code": "unknown-data",
    "suggestion": "A before B",
}


def with_all_fields(kind: type[BaseException]) -> BaseException:
    """An error with a value in every field that its class and those above it take."""
    if not issubclass(kind, BridleError):
        return kind(BridleError("x"))
    above = [base for base in kind.__mro__ if issubclass(base, BridleError) and "__init__" in vars(base)]
    taken = {name for item in above for name in inspect.signature(item).parameters}
    taken -= {"what", "parts"} | ({"where"} if "file" in taken else set())
    built = kind(what="x is wrong", **{name: FIELDS[name] for name in taken})
    if isinstance(built, RuleSyntaxError):
        built.others = (RuleSyntaxError("y is wrong", file="my.rules", line=9),)
    assert not [name for name, value in vars(built).items() if value in (None, ())], "a field is not set"
    return built


def alike(item: BaseException, two: BaseException) -> bool:
    mine, its = dict(vars(item)), dict(vars(two))
    pairs = [*zip(mine.pop("others", ()), its.pop("others", ()), strict=True)]
    if isinstance(mine.get("cause"), BridleError):
        pairs.append((mine.pop("cause"), its.pop("cause")))
    same = type(item) is type(two) and str(item) == str(two) and mine == its
    return same and all(alike(a, b) for a, b in pairs)


def test_all_classes_of_errors_are_known() -> None:
    listed = {kind for kind in vars(bridle.errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert listed < set(ERRORS)


@journeys
@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_errors(kind: type[BaseException], journey: Callable[[Any], Any]) -> None:
    error = with_all_fields(kind)
    assert alike(error, journey(error))
    error.__cause__ = ValueError("lost on the way, as with all exceptions")
    assert alike(error, journey(error))


@pytest.mark.slow
def test_errors_in_a_pool() -> None:
    """An error that cannot be unpickled would leave `get` waiting for ever."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for error in (with_all_fields(kind) for kind in ERRORS if issubclass(kind, Exception)):  # others end a worker
            with pytest.raises(type(error)) as caught:
                pool.apply_async(raised, [error]).get(timeout=60)
            assert alike(error, caught.value)


# ---- out of reach ---------------------------------------------------------------------------------------------------


def test_a_lattice_cannot_be_changed_behind_its_back() -> None:
    unary, pairwise, start = SCORES.copy(), np.zeros((3, 3)), np.zeros(3)
    lattice = Lattice(unary, pairwise, start)
    before = Decoder(LABELS).decode(lattice)
    unary[0, 0] = np.nan
    pairwise[:] = np.inf
    start[:] = 99.0
    after = Decoder(LABELS).decode(lattice)
    assert after.score == before.score and after.optimal and bridle.check(lattice, [], after).ok
    for array in (lattice.unary, lattice.pairwise, lattice.start):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.0  # type: ignore[index]
    with pytest.raises(bridle.LatticeError, match="is not a score"):
        Lattice(SCORES, pairwise)


def test_what_lattices_share_is_copied_once() -> None:
    pairwise = np.zeros((3, 3))
    first, second = Lattice(SCORES, pairwise), Lattice(SCORES, pairwise)
    assert first.pairwise is second.pairwise is not pairwise
    pairwise[0, 0] = 1.0
    third = Lattice(SCORES, pairwise)
    assert third.pairwise is not first.pairwise and third.pairwise[0, 0] == 1.0 and first.pairwise[0, 0] == 0.0  # type: ignore[index]


def test_what_only_looks_read_only_is_copied() -> None:
    scores = SCORES.copy()
    view = scores[:]
    scores.setflags(write=False)
    lattice, words = Lattice(scores), SpanLattice(6, [(k, k + 1) for k in range(6)], scores[:, 0])
    view[0, 0] = np.nan
    assert not np.isnan(lattice.unary).any() and not np.isnan(words.scores).any()
    with pytest.raises(ValueError, match="WRITEABLE"):
        lattice.unary.setflags(write=True)
    assert np.shares_memory(Batch(view[1:], [0, 5]).unary, scores)  # a batch borrows


def test_lattices_of_a_batch_share_its_transitions() -> None:
    batch = Batch(SCORES, [0, 2, 6], np.zeros((3, 3)))
    assert batch[0].pairwise is batch[1].pairwise is batch.pairwise


class Own(Decoder):
    """A decoder of a user, made in another way."""

    def __init__(self, name: str) -> None:
        super().__init__(LABELS, RULES)
        self.name = name


def test_decoders_of_users() -> None:
    again = pickle.loads(pickle.dumps(Own("mine")))
    assert type(again) is Own and again.name == "mine" and again.decode(Lattice(SCORES), GIVEN).optimal
    assert again.with_rules([]).name == "mine" and again.with_rules([]).rules == ()
