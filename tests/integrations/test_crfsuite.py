"""CRFsuite models without CRFsuite: the reader against files made here, the tagger against a slow twin."""

from __future__ import annotations

import copy
import pickle
import struct
import sys
import threading
import time
from collections import OrderedDict, UserDict, UserList, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
import bridle.learn
from bridle.decoding import decoder
from bridle.features.plain import pairs_of
from bridle.integrations.crfsuite import Tagger, from_sklearn, from_weights, load
from bridle.integrations.crfsuite.model import parse_contents
from crfsuite_writer import SMALL
from crfsuite_writer import crfsuite_file as written

ATTRIBUTES = ["w=a", "w=b", "line\nbreak", "Straße", "w:a", "in:deep:x"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    built = tmp_path / "small.crfsuite"
    built.write_bytes(SMALL)
    return built


# ---- files ----------------------------------------------------------------------------------------------------------


def test_reads_what_is_written() -> None:
    result = parse_contents(SMALL)
    assert result.labels == ["O", "A", "B"]
    assert result.attributes == ["w=a", "w=b", "line\nbreak", "Straße", "\udcff\udcfe", "w:a", "in:deep:x"]
    attribute, label, weight = result.state
    assert list(zip(attribute.tolist(), label.tolist(), weight.tolist(), strict=True))[:2] == [
        (0, 1, 1.5),
        (0, 0, -0.25),
    ]
    assert result.transition[2].tolist() == [0.5, -0.1, 0.25, 1.0]
    assert result.header["num_labels"] == "3" and result.header["size"] == str(len(SMALL))


def test_a_cut_file_is_refused_wherever_it_is_cut() -> None:
    for size in range(len(SMALL)):
        with pytest.raises(bridle.ModelFileError):
            parse_contents(SMALL[:size])


def place_of(name: str) -> int:
    names = ("features", "labels", "attributes")
    return int(struct.unpack_from("<I", SMALL, 28 + 4 * names.index(name))[0])


def number(at: int, value: int) -> bytes:
    return SMALL[:at] + struct.pack("<I", value) + SMALL[at + 4 :]


FIRST_LABEL = place_of("labels") + 24 + 2048
BACK_OF_LABELS = place_of("labels") + struct.unpack_from("<I", SMALL, place_of("labels") + 20)[0]
DAMAGED = {
    "not a model of CRFsuite": b"BRIDLE" + SMALL[6:],
    "longer than its header says": SMALL + b"x",
    "is cut off": number(4, len(SMALL) + 1),
    "kind of CRFsuite model is not known": number(12, 101),
    "number of labels is impossible": number(20, 0),
    "the features lie outside the file": number(28, 2**32 - 1),
    "the features are not where they should be": number(28, 48 + 4),
    "the labels lie outside the file": number(32, len(SMALL) - 3),
    "the labels are not where": number(32, 48),
    "a feature is impossible": number(48 + 12, 2),  # its type
    "features lie outside": number(48 + 8, 2**32 - 1),  # how many there are
    "a feature occurs twice": SMALL[: 48 + 32] + SMALL[48 + 12 : 48 + 32] + SMALL[48 + 52 :],
    "table of labels is damaged": number(place_of("labels") + 12, 0),  # byte order
    "table of attributes is damaged": number(24, 8),  # more than there are
    "a text with another number": number(FIRST_LABEL, 1),
    "a place at": number(BACK_OF_LABELS, 2**31),
}
IMPOSSIBLE = {
    "attribute": {(9, 0): 1.0},
    "label": {(0, 3): 1.0},
    "nan": {(0, 0): float("nan")},
    "inf": {(0, 0): float("inf")},
    "huge": {(0, 0): 1e300},
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_told(what: str) -> None:
    with pytest.raises(bridle.ModelFileError, match=what):
        parse_contents(DAMAGED[what])


@pytest.mark.parametrize("state", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_features_are_told(state: dict[tuple[int, int], float]) -> None:
    with pytest.raises(bridle.ModelFileError, match="a feature is impossible"):
        parse_contents(written([b"O", b"A"], [b"x"], state, {}))


def test_texts_that_overlap_are_refused() -> None:
    """A thousand attributes that all reach to the end of their table would be a thousand times as large as the file."""
    table = bytearray(written([b"O"], [b"x" * 50] * 2000, {}, {}))
    place = struct.unpack_from("<I", table, 36)[0]
    for k in range(1000):
        struct.pack_into("<I", table, place + 24 + 2048 + 59 * k + 4, 59 * (2000 - k) - 8)
    with pytest.raises(bridle.ModelFileError, match="table of attributes is damaged"):
        parse_contents(bytes(table))


def test_a_text_with_two_numbers_is_refused() -> None:
    with pytest.raises(bridle.ModelFileError, match="a text with two numbers"):
        parse_contents(written([b"O"], [b"x", b"x"], {}, {}))


@pytest.mark.parametrize("label", [b"", b"\xff\xfe"])
def test_labels_that_are_no_names_are_told_with_the_file(tmp_path: Path, label: bytes) -> None:
    path = tmp_path / "labels.crfsuite"
    path.write_bytes(written([b"O", label], [b"x"], {}, {}))
    with pytest.raises(bridle.ModelFileError, match="a label is not a name") as output:
        load(path)
    assert output.value.where == str(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(bridle.ModelFileError, match="cannot read this file"):
        load(tmp_path / "none.crfsuite")
    with pytest.raises(bridle.ModelFileError, match="cannot read this file"):
        Tagger(tmp_path)


# ---- the model ------------------------------------------------------------------------------------------------------


def test_a_model_works_as_others_do(path: Path, tmp_path: Path) -> None:
    model = load(path)
    x = [["w=a"], ["w=b", "Straße"], {"w": "a", "line\nbreak": 0.1}]
    assert model.predict([x]) == [["A", "B", "O"]]
    assert model.predict([x], rules=["forbid B"]) == [["A", "O", "A"]]
    assert model.lattice(x).unary.dtype == np.float64
    assert model.lattice(x).unary[2].tolist() == [0.0, 0.3 + 0.1 * 0.1, 0.0]
    assert model.top_weights(1) == [("\udcff\udcfe", "B", 3.0)]
    model.save(tmp_path / "small.bridle")
    for again in (bridle.load(tmp_path / "small.bridle"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.fingerprint_ == model.fingerprint_ and again.labels_ == model.labels_
        assert (again.lattice(x).unary == model.lattice(x).unary).all()
        assert again.notes_["crfsuite"]["num_attrs"] == "7"


def test_rules_are_learned_and_tuned_on_a_model_that_was_not_trained_here(path: Path) -> None:
    model = load(path)
    X = [[["w=a"], ["w=b"], ["Straße"]], [["w=b"], ["w=a"]]] * 10
    y = [["A", "B", "O"], ["B", "O"]] * 10
    for scores in ("model", "auto"):
        tuned = bridle.learn.tune_rules(model, ["A before B", "at most 1 token of A"], X, y, scored_by=scores)
        assert len(tuned.tuned) == 2 and tuned.source == ("model" if scores == "model" else "cross-fitted")
        assert bridle.learn.fit_rules(model, X, y, scored_by=scores).fingerprint == model.fingerprint_


def test_the_scheme_of_the_labels(path: Path, tmp_path: Path) -> None:
    (tmp_path / "bio").write_bytes(written([b"O", b"B-X", b"I-X"], [b"a"], {(0, 0): 1.0}, {}))
    assert load(path).labels_.scheme is None
    assert load(tmp_path / "bio").labels_.scheme == "BIO"
    assert load(tmp_path / "bio", scheme=None).labels_.scheme is None
    with pytest.raises(bridle.LabelError, match="does not fit the scheme"):
        load(path, scheme="BIO")


def test_columns_of_text_are_refused(path: Path) -> None:
    with pytest.raises(bridle.FeatureError, match="takes ready-made features, not text"):
        load(path).predict([{"word": ["a", "b"]}])


def test_weights_that_you_have(path: Path) -> None:
    output = Tagger(path).info()
    model = from_weights(list(output.labels), output.state_features, output.transitions)
    x = [["w=a"], ["w=b", "Straße"], {"w": "a", "line\nbreak": 0.1}]
    assert (model.lattice(x).unary == load(path).lattice(x).unary).all()
    assert (model.linear_.pairwise == load(path).linear_.pairwise).all() and model.notes_ == {}
    with pytest.raises(bridle.LabelError, match="unknown label"):
        from_weights(["A"], {("a", "B"): 1.0}, {})
    for weight in (float("nan"), float("-inf")):
        with pytest.raises(bridle.ModelError, match="not a finite number"):
            from_weights(["A"], {}, {("A", "A"): weight})
    for state in ({("a", "A"): "x"}, {("a", "A"): None}, {("a", "A"): 10**400}, {"a": 1.0}, {("a", "A", "A"): 1.0}, []):
        with pytest.raises(bridle.ModelError):
            from_weights(["A"], state, {})
    with pytest.raises(bridle.ModelError, match="no pair of names"):
        from_weights(["A"], {}, {("A", 0): 1.0})


def test_from_sklearn_wants_an_estimator() -> None:
    with pytest.raises(bridle.ModelError, match="not a trained estimator of sklearn-crfsuite"):
        from_sklearn(bridle.CRF())


# ---- the tagger -----------------------------------------------------------------------------------------------------


def best_path(unary: np.ndarray, pairwise: np.ndarray) -> list[int]:
    """The slow twin: CRFsuite's loops, with its choice among equal scores."""
    scores, back = unary[0], []
    for row in unary[1:]:
        steps = scores[:, None] + pairwise
        back.append(steps.argmax(axis=0))
        scores = steps.max(axis=0) + row
    path = [int(scores.argmax())]
    for before in reversed(back):
        path.append(int(before[path[-1]]))
    return path[::-1]


@given(st.data())
def test_labels_are_those_of_the_slow_twin_also_among_equals(data: Any) -> None:
    """Integer scores make many ties."""
    m, n, seed = (data.draw(st.integers(*ends)) for ends in ((1, 9), (0, 12), (0, 2**20)))
    rng = np.random.default_rng(seed)
    state = {(a, y): float(rng.integers(-1, 2)) for a in range(5) for y in range(m)}
    transition = {(i, j): float(rng.integers(-1, 2)) for i in range(m) for j in range(m)}
    tagger = Tagger()
    tagger.open_inmemory(written([b"%d" % y for y in range(m)], [b"%d" % a for a in range(5)], state, transition))
    x = [[str(a) for a in rng.integers(0, 7, rng.integers(0, 4))] for _ in range(n)]
    unary = tagger.model.lattice(x).unary
    assert tagger.tag(x) == ([str(y) for y in best_path(unary, tagger.model.linear_.pairwise)] if n else [])
    tagger.set(x)
    assert (tagger._current()[0].unary == unary).all()


def values() -> Any:
    names = st.sampled_from([*ATTRIBUTES, "w", "in", "deep", "x", "unknown", "\0", b"w=a", b"\xff\xfe"])
    numbers = st.one_of(st.booleans(), st.floats(-5, 5), st.integers(-3, 3))
    kinds = [np.bool_, np.int8, np.int64, np.longlong, np.float16, np.float32, np.float64, np.longdouble]
    scalars = st.builds(lambda kind, value: kind(value), st.sampled_from(kinds), st.integers(0, 3))
    lists = st.lists(names, max_size=3)
    leaves = st.one_of(names, numbers, scalars, lists, lists.map(tuple), st.sets(names), st.frozensets(names))
    inner = st.dictionaries(names, st.one_of(leaves, st.dictionaries(names, leaves, max_size=2)), max_size=4)
    return st.lists(st.one_of(lists, lists.map(tuple), st.sets(names), st.frozensets(names), inner), max_size=5)


@given(values())
def test_the_kernel_reads_features_as_the_model_does(x: Any) -> None:
    tagger = Tagger()
    tagger.open_inmemory(SMALL)
    assert tagger._native.set(x, pytest.fail, None)  # no token is left to Python
    ours = tagger._current()[0].unary
    assert np.allclose(ours, tagger.model.lattice(x).unary, rtol=0, atol=1e-12)


class Column(UserList[Any]):
    """As a column of pandas has it."""

    def items(self) -> Any:
        return enumerate(self)


@pytest.mark.parametrize(
    "x",
    [
        [{"w=a"}, frozenset(["w=b"])],
        (["w=a"], ("w=b",)),
        iter([["w=a"], ["w=b"]]),
        [OrderedDict({"w=a": 1}), {"w=b": np.float32(1)}],
        [{"w=a": np.True_}, {"w=b": np.int64(1)}],
        [["w=a", "\udc80"], ["w=b"]],
        [{"w=a": 1, "set": {"x"}}, ["w=b"]],
        [{"w=a": Decimal(1)}, {"w=b": Fraction(1)}],
        [UserDict({"w=a": True}), deque(["w=b"])],
        Column([["w=a"], {"w=b": True}]),
        np.array([["w=a", "x"], ["w=b", "y"]]),
    ],
    ids=[
        *("sets", "tuples", "iterator", "numbers", "numpy", "half a character", "inner set", "exact numbers"),
        *("other mappings", "column", "array"),
    ],
)
def test_other_kinds_of_features(x: Any) -> None:
    tagger = Tagger()
    tagger.open_inmemory(SMALL)
    assert tagger.tag(x) == ["A", "B"]
    assert tagger.tag() == ["A", "B"]
    other = Tagger(rules=["forbid O"])
    other.open_inmemory(SMALL)
    other.set([["w=b"]])
    other.set([["w=a"], ["w=b"]])
    assert other.tag() == ["A", "B"]


def test_only_tokens_of_other_kinds_are_turned_into_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = Tagger()
    tagger.open_inmemory(SMALL)
    seen: list[Any] = []
    monkeypatch.setattr("bridle.integrations.crfsuite.tagger.pairs_of", lambda x: seen.append(x) or pairs_of(x))
    monkeypatch.setattr(bridle.CRF, "lattice", None)
    odd = {"w=b": Decimal(1), "in": {"deep": ("x",)}}
    assert tagger.tag([["w=a"], odd, {"w=b": 1}]) == ["A", "B", "B"]
    assert seen == [odd]


def test_a_token_that_changes_the_sequence_while_it_is_read() -> None:
    tagger = Tagger()
    tagger.open_inmemory(SMALL)

    class Clearing(UserDict[str, Any]):
        def items(self) -> Any:
            x.clear()
            return super().items()

    x: list[Any] = [Clearing({"w=a": 1}), ["w=b"], {"w=b": 1}]
    assert tagger.tag(x) == ["A", "B", "B"] and x == []


@pytest.mark.parametrize(
    "x",
    [
        *([None], [3], ["w=a"], [{"w": None}], "w=a", 7, {"w": "a"}, [[3]], [{3}]),
        *([{"w": number}] for number in (float("nan"), 10**400, 10**5000, Decimal("sNaN"), Decimal("1e10"))),
        *([{"w": [item]}] for item in (1, None, ["x"])),
        *([{"w": {item}}] for item in (1, None, ("x",))),
    ],
)
def test_what_has_no_features_is_told(x: Any) -> None:
    tagger = Tagger()
    tagger.open_inmemory(SMALL)
    for call in (tagger.tag, tagger.set):
        with pytest.raises(bridle.FeatureError):
            call(x)


def test_features_without_end_are_refused() -> None:
    tagger = Tagger()
    tagger.open_inmemory(SMALL)
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(bridle.FeatureError, match="nested too deeply"):
        tagger.tag([loop])


def test_rules_are_obeyed_and_proved(path: Path) -> None:
    x = [["w=a"], ["w=b"], ["w=b"], ["w=a"]]
    plain, ruled = Tagger(path), Tagger(path, rules=["at most 1 segment of B", "ends with A"])
    assert plain.tag(x) == ["A", "B", "B", "A"]
    model, decoder = load(path), ruled.decoder
    assert ruled.tag(x) == decoder.decode(model.lattice(x)).labels
    for engine in ("product", "ilp"):
        assert Tagger(path, rules=["exactly 1 token of B"], engine=engine).tag(x).count("B") == 1


def test_rules_speak_of_tokens(path: Path) -> None:
    rule = 'fix O at tokens "b"'
    x = [["w=a"], ["w=b"]]
    built = Tagger(path, rules=[rule], tokens=lambda x: [token[0][-1] for token in x])
    assert built.tag(x) == built.tag(iter(x)) == built.tag() == ["A", "O"]
    assert built.tag(x, given={"tokens": ["b", "a"]}) == ["O", "B"]
    assert built.marginal("O", 0) == 1.0
    assert Tagger(path, rules=[rule]).tag(x, {"tokens": ["a", "b"]}) == ["A", "O"]
    with pytest.raises(bridle.GivenError):
        Tagger(path, rules=[rule]).tag(x)


def test_rules_that_cannot_hold(path: Path) -> None:
    rules, x = ["forbid A", "starts with A"], [["w=a"], ["w=b"]]
    with pytest.raises(bridle.Infeasible):
        Tagger(path, rules=rules).tag(x)
    assert Tagger(path, rules=rules, on_infeasible="skip").tag(x) == []
    assert len(Tagger(path, rules=rules, on_infeasible="relax").tag(x)) == 2
    with pytest.raises(bridle.LabelError, match="unknown label"):
        Tagger(path, rules=["forbid C"])


def test_a_sequence_is_solved_once_within_one_time_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that the kernel has spent is not available to the steps after it."""
    left: list[float | None] = []
    run = decoder.run_kernel

    def spy(kernel: Any, lattice: Any, given: Any, n_counters: int, seconds: float | None = None) -> Any:
        left.append(seconds)
        return run(kernel, lattice, given, n_counters, seconds)

    monkeypatch.setattr(decoder, "run_kernel", spy)
    monkeypatch.setattr(bridle.Decoder, "decode", None)
    rules, x = ["forbid A", "starts with A"], [["w=a"], ["w=b"]]
    assert len(Tagger(path, rules=rules, time_limit=60, on_infeasible="relax").tag(x)) == 2
    assert len(left) == 1 and left[0] is not None and 0 < left[0] < 60
    assert Tagger(path, rules=rules, on_infeasible="skip").tag(x) == []
    with pytest.raises(bridle.Infeasible):
        Tagger(path, rules=rules).tag(x)
    counts = [f"exactly {k} tokens of {y}" for y, k in (("A", 20), ("B", 20))]
    try:
        assert len(Tagger(path, rules=[*counts, "A before B"], time_limit=0).tag(x * 30)) == 60
    except bridle.LimitReached as error:
        assert error.sequence is None


def test_other_threads_run_while_many_labels_are_weighed() -> None:
    """However short the sequence is."""
    ticks, done = [0], threading.Event()
    tagger, x = Tagger(), [["a"]] * 60
    names = [b"%d" % y for y in range(300)]
    every = {(i, j): (i * j % 7) / 100 for i in range(300) for j in range(300)}
    tagger.open_inmemory(written(names, [b"a"], {(0, 3): 9.0}, every))

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    before = sys.getswitchinterval()
    sys.setswitchinterval(5)  # no other thread runs, unless the GIL is let go
    try:
        thread.start()
        so_far = ticks[0]
        for _ in range(500):  # it may take a while until it is woken
            assert tagger.tag(x) == ["3"] * 60
            if (now := ticks[0]) > so_far:
                break
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join()
    assert now > so_far


def test_rules_and_options_are_looked_at_when_the_tagger_is_made() -> None:
    with pytest.raises(bridle.RuleError, match="`rules` must be a list"):
        Tagger(rules="at most 1 token of A")
    with pytest.raises(bridle.RuleSyntaxError):
        Tagger(rules=["at most at most"])
    for options in ({"on_infeasible": "never"}, {"time_limit": -1}, {"engine": "steam"}):
        with pytest.raises(bridle.EngineError):
            Tagger(**options)


def test_probabilities_are_those_of_enumeration(path: Path) -> None:
    x = [["w=a"], ["w=b"], {"w": "a"}]
    for rules in ([], ["at most 1 token of A", "B before O"], ["forbid O"]):
        tagger = Tagger(path, rules=rules)
        tagger.set(x)
        lattice = load(path).lattice(x)
        every = list(np.ndindex(3, 3, 3))
        obeys = [all(rule.holds(list(y), tagger.decoder.labels) for rule in tagger.decoder.rules) for y in every]
        weights = np.array([np.exp(lattice.score(y)) * fine for y, fine in zip(every, obeys, strict=True)])
        for y, weight in zip(every, weights / weights.sum(), strict=True):
            assert tagger.probability([tagger.labels()[k] for k in y]) == pytest.approx(weight, rel=1e-12, abs=1e-300)
        for t in range(3):
            for k, name in enumerate(tagger.labels()):
                wanted = sum(w for y, w in zip(every, weights, strict=True) if y[t] == k) / weights.sum()
                assert tagger.marginal(name, t) == pytest.approx(wanted, rel=1e-12, abs=1e-300)


def test_questions_that_make_no_sense(path: Path) -> None:
    tagger = Tagger(path)
    assert tagger.tag() == [] and tagger.tag([]) == [] and tagger.probability([]) == 0.0
    tagger.set([["w=a"], ["w=b"]])
    with pytest.raises(bridle.LabelError, match="one per token"):
        tagger.probability(["A"])
    with pytest.raises(bridle.LabelError, match="'X'"):
        tagger.probability(["A", "X"])
    for y, pos in (("A", 2), ("A", -1), ("X", 0), ("A", 1.0), ("A", "0"), (1, 0), (["A"], 0)):
        with pytest.raises(bridle.LabelError):
            tagger.marginal(y, pos)
    assert tagger.marginal("A", np.int64(0)) == tagger.marginal("A", 0)
    assert tagger.probability(iter("AB")) == tagger.probability(("A", "B")) > 0
    for labels in ([1, 2], None, 7, b"AB", [b"A", b"B"]):
        with pytest.raises(bridle.LabelError):
            tagger.probability(labels)
    for call in (tagger.tag, tagger.set):
        with pytest.raises(bridle.GivenError, match="given is not a dict"):
            call([["w=a"]], given=5)


def test_a_type_of_segments_is_no_label() -> None:
    tagger = Tagger()
    tagger.open_inmemory(written([b"O", b"B-X", b"I-X"], [b"a"], {(0, 1): 1.0}, {}))
    tagger.set([["a"]])
    for call in (lambda: tagger.marginal("X", 0), lambda: tagger.probability(["X"])):
        with pytest.raises(bridle.LabelError) as output:
            call()
        assert output.value.wanted == "one of ['O', 'B-X', 'I-X']"


def test_opening_and_closing(path: Path) -> None:
    tagger = Tagger(rules=["forbid A"])
    with tagger.open(path) as opened:
        assert opened is tagger and tagger.tag([["w=a"]]) != ["A"]
    calls = (tagger.labels, tagger.tag, tagger.info, lambda: tagger.set([]), lambda: tagger.marginal("A", 0))
    for call in (*calls, lambda: tagger.probability([]), lambda: tagger.decoder, lambda: tagger.model):
        with pytest.raises(bridle.ModelError, match="the tagger has no model"):
            call()
    for data in (SMALL, bytearray(SMALL), memoryview(SMALL)):
        tagger.open_inmemory(data)
        assert tagger.labels() == ["O", "A", "B"]
    for data in ("abc", 7, None):
        with pytest.raises(bridle.ModelFileError, match="not the content of a file"):
            tagger.open_inmemory(data)
    with pytest.raises(bridle.ModelError, match="makes its own features"):
        Tagger(bridle.CRF(features=["word[0]"]).fit([["a", "b"]], [["X", "Y"]]))
    with pytest.raises(bridle.ModelError):
        Tagger(bridle.CRF())


def test_info_has_all_digits_and_line_breaks(path: Path) -> None:
    result = Tagger(path).info()
    assert result.labels == {"O": "0", "A": "1", "B": "2"}
    assert result.attributes["line\nbreak"] == "2"
    assert result.transitions == {("O", "A"): 0.5, ("A", "A"): -0.1, ("A", "B"): 0.25, ("B", "O"): 1.0}
    assert result.state_features[("in:deep:x", "B")] == 1 / 3 and len(result.state_features) == 8
    assert result.header["type"] == "FOMC" and result.header["off_features"] == "0x30"


def test_threads_share_a_tagger() -> None:
    """Each gets the labels of its own sequence."""
    rng = np.random.default_rng(0)
    xs = [[[ATTRIBUTES[a] for a in rng.integers(0, 6, 3)] for _ in range(n)] for n in (1, 3, 90, 200)]
    taggers = [Tagger(rules=rules) for rules in ([], ["at most 1 segment of A"])]
    wrong: list[int] = []
    for tagger in taggers:
        tagger.open_inmemory(SMALL)
        right = [tagger.tag(x) for x in xs]

        def work(k: int, tagger: Tagger = tagger, right: list[list[str]] = right) -> None:
            wrong.extend(k for _ in range(50) if tagger.tag(xs[k]) != right[k])

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_tagger_travels(path: Path) -> None:
    tagger = Tagger(path, rules=["forbid A"])
    for again in (pickle.loads(pickle.dumps(tagger)), copy.deepcopy(tagger)):
        assert again.tag([["w=a"], ["w=b"]]) == tagger.tag([["w=a"], ["w=b"]])
    tagger.close()
    with pytest.raises(bridle.ModelError, match="no model"):
        pickle.loads(pickle.dumps(tagger)).tag([])


@pytest.mark.parametrize("rules", [[], ["forbid B"]], ids=["no rules", "a rule"])
def test_scores_beyond_all_bounds_are_told(rules: list[str]) -> None:
    tagger = Tagger(rules=rules)
    tagger.open_inmemory(written([b"A", b"B"], [b"x", b"y"], {(0, 0): 1e290, (1, 0): -1e290}, {}))
    assert tagger.tag([["x"], ["x", "y"]]) == ["A", "A"]
    for x in ([["x"] * 3], [{"y": 1e9}], [{"x": 1e9}] * 90):
        with pytest.raises(bridle.LatticeError):
            tagger.tag(x)


def test_half_characters_in_attributes() -> None:
    model = bridle.CRF(c2=1.0).fit([[["\ud800"], ["b"]]] * 3, [["X", "Y"]] * 3)
    assert Tagger(model).tag([["\ud800"], ["b"]]) == ["X", "Y"]
    same = bridle.CRF(c2=1.0).fit([[["é"], ["\udcc3\udca9"]]] * 3, [["X", "Y"]] * 3)
    with pytest.raises(bridle.ModelError, match="the same in UTF-8"):
        Tagger(same)


@pytest.mark.parametrize("call", ["tag", "set"])
@pytest.mark.parametrize("wrong", [{"w": None}, None, {"w": [1]}, ["w=a", 3]], ids=str)
def test_a_sequence_that_cannot_be_read_leaves_the_current_one_as_it_is(path: Path, call: str, wrong: Any) -> None:
    plain, ruled = Tagger(path), Tagger(path, rules=['fix O at tokens "b"'])
    plain.tag([["w=a"], ["w=b"]])
    ruled.tag([["w=a"], ["w=b"]], given={"tokens": ["a", "b"]})
    for tagger, labels, more in ((plain, ["A", "B"], None), (ruled, ["A", "O"], {"tokens": ["b"] * 3})):
        before = tagger.marginal("O", 0)
        with pytest.raises(bridle.FeatureError):
            getattr(tagger, call)([["w=b"], ["w=b"], wrong], more)
        assert tagger.tag() == labels and tagger.marginal("O", 0) == before and tagger.probability(labels) > 0


def test_the_current_sequence_is_the_one_that_could_not_be_tagged(path: Path) -> None:
    tagger = Tagger(path, rules=['fix O at tokens "b"'])
    with pytest.raises(bridle.GivenError):
        tagger.tag([["w=a"], ["w=b"]])
    assert tagger.tag(given={"tokens": ["a", "b"]}) == ["A", "O"]


def test_single_precision_models_tag_too() -> None:
    model = bridle.CRF(c2=1.0).fit([[["a"], {"b": 2.0}]] * 3, [["X", "Y"]] * 3)
    assert model.linear_.weights.dtype == np.float32
    assert Tagger(model).tag([["a"], {"b": 2.0}]) == ["X", "Y"]
    assert Tagger(model).info().header == {}
