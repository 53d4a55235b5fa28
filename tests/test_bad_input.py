"""Bad input of every kind is a typed error that says what is wrong, what was got and what was wanted."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Batch, Decoder, Labels, Lattice
from bridle import rules as r
from bridle.data.scores import open_scores
from bridle.engines import engine_named
from bridle.errors import (
    BridleError,
    EngineError,
    FileError,
    GivenError,
    Infeasible,
    LabelError,
    LatticeError,
    RuleError,
    RuleSyntaxError,
)

LABELS = Labels(["O", "A", "B"], "IO")
FLAT = Lattice(np.zeros((3, 3)))
NAN, INF = float("nan"), float("inf")
ONCE = r.at_most(1, of="A")
VERB = r.fix("O", r.given("verb"))


def unary(value: float) -> np.ndarray[Any, Any]:
    table = np.zeros((3, 3))
    table[1, 2] = value
    return table


def decode(*rules: r.Rule, given: Any = None, lattice: Any = FLAT, **options: Any) -> Any:
    return Decoder(LABELS, rules, **options).decode(lattice, given)


Case = tuple[Callable[[], Any], type[BridleError], str]

SCORES: dict[str, Case] = {
    "NaN": (lambda: Lattice(unary(NAN)), LatticeError, "unary[1, 2] is not a score; got nan"),
    "+inf": (lambda: Lattice(unary(INF)), LatticeError, "unary[1, 2] is not a score; got inf"),
    "NaN in float32": (lambda: Lattice(unary(NAN).astype(np.float32)), LatticeError, "unary[1, 2] is not a score"),
    "NaN before +inf": (lambda: Lattice([[NAN, INF]]), LatticeError, "unary[0, 0] is not a score; got nan"),
    "NaN in pairwise": (lambda: Lattice(FLAT.unary, unary(NAN)), LatticeError, "pairwise[1, 2] is not a score"),
    "+inf per step": (
        lambda: Lattice(FLAT.unary, [np.zeros((3, 3)), unary(INF)]),
        LatticeError,
        "pairwise[1, 1, 2] is not a score",
    ),
    "NaN at the start": (lambda: Lattice(FLAT.unary, start=[0, NAN, 0]), LatticeError, "start[1] is not a score"),
    "+inf at the end": (lambda: Lattice(FLAT.unary, end=[0, 0, INF]), LatticeError, "end[2] is not a score"),
    "NaN in a batch": (lambda: Batch(unary(NAN), [0, 3]), LatticeError, "unary[1, 2] is not a score"),
    "one dimension": (lambda: Lattice([0, 1]), LatticeError, "unary has a wrong shape; got (2,)"),
    "three dimensions": (lambda: Lattice(np.zeros((2, 3, 3))), LatticeError, "unary has a wrong shape; got (2, 3, 3)"),
    "ragged": (lambda: Lattice([[0, 1], [0]]), LatticeError, "unary is not an array of numbers"),
    "words": (lambda: Lattice([["a", "b"]]), LatticeError, "unary is not an array of numbers"),
    "complex": (lambda: Lattice([[1j, 0]]), LatticeError, "unary is not an array of numbers"),
    "no labels": (lambda: Lattice(np.zeros((3, 0))), LatticeError, "unary has no labels"),
    "pairwise of other labels": (lambda: Lattice(FLAT.unary, np.zeros((2, 2))), LatticeError, "pairwise has a wrong"),
    "pairwise of other steps": (lambda: Lattice(FLAT.unary, np.zeros((3, 3, 3))), LatticeError, "pairwise has a wrong"),
    "start too long": (lambda: Lattice(FLAT.unary, start=np.zeros(4)), LatticeError, "start has a wrong shape"),
    "offsets": (lambda: Batch(FLAT.unary, [0, 2]), LatticeError, "`offsets` must divide the tokens"),
    "offsets that fall": (lambda: Batch(FLAT.unary, [0, 3, 2, 3]), LatticeError, "`offsets` must divide the tokens"),
    "offsets of fractions": (lambda: Batch(FLAT.unary, [0.0, 3.0]), LatticeError, "offsets must be integers"),
    "other labels than the decoder": (
        lambda: decode(lattice=Lattice(np.zeros((3, 2)))),
        LatticeError,
        "differ in their number of labels",
    ),
    "a batch of other labels": (
        lambda: Decoder(LABELS).decode_batch(Batch(np.zeros((3, 2)), [0, 3])),
        LatticeError,
        "differ in their number of labels",
    ),
    "an array": (lambda: decode(lattice=FLAT.unary), LatticeError, "Pass bridle.Lattice(scores)."),
    "an array for k_best": (lambda: Decoder(LABELS).k_best(FLAT.unary, 2), LatticeError, "not a Lattice"),
    "an array for marginals": (lambda: Decoder(LABELS).marginals(FLAT.unary), LatticeError, "not a Lattice"),
    "a number for probability": (lambda: Decoder(LABELS).probability(3), LatticeError, "not a Lattice"),
    "one lattice as a batch": (lambda: Decoder(LABELS).decode_batch(FLAT), LatticeError, "must be a list of lattices"),
    "nothing as a batch": (lambda: Decoder(LABELS).decode_batch(None), LatticeError, "must be a list of lattices"),
    "a generator": (
        lambda: Decoder(LABELS).decode_batch(x for x in [FLAT]),
        LatticeError,
        "must be a list of lattices",
    ),
    "a labelling of other length": (lambda: FLAT.score([0]), LatticeError, "another length than its lattice"),
    "a labelling of other ids": (lambda: FLAT.score([0, 1, 3]), LatticeError, "an invalid label id"),
    "no path": (lambda: decode(lattice=Lattice(np.full((2, 3), -INF))), Infeasible, "the lattice has no path"),
}

NAMES: dict[str, Case] = {
    "an empty label set": (lambda: Labels([]), LabelError, "the label set is empty"),
    "an empty label set of a decoder": (lambda: Decoder([]), LabelError, "the label set is empty"),
    "labels that are no list": (lambda: Decoder(3), LabelError, "labels are not a list of names"),
    "a label twice": (lambda: Labels(["A", "A"]), LabelError, "label names repeat"),
    "a scheme": (lambda: Labels(["A"], "BILOU"), LabelError, "unknown tagging scheme"),
    "a label out of scheme": (lambda: Labels(["O", "PER"], "BIO"), LabelError, "does not fit the scheme"),
    "an unknown label": (lambda: Decoder(LABELS, [r.at_most(1, of="Z")]), LabelError, "unknown label (in the rule: at"),
    "in an expression": (lambda: Decoder(LABELS, [r.matches("Z*")]), LabelError, "unknown label (in the rule: matches"),
    "deep inside": (lambda: Decoder(LABELS, [ONCE & ~r.present("Z")]), LabelError, "unknown label (in the rule"),
    "beside a given one": (lambda: Decoder(LABELS, [r.present(["Z", r.given("x")])]), LabelError, "unknown label"),
    "given": (lambda: decode(r.present(r.given("x")), given={"x": "Z"}), LabelError, "unknown label (in the rule"),
    "asked of a labelling": (lambda: ONCE.holds(["O", "Z"], LABELS), LabelError, "unknown label"),
}

RULES: dict[str, Case] = {
    "a position outside": (lambda: decode(r.fix("A", 3)), RuleError, "names position 3 (in the rule: fix A at 3)"),
    "a position before": (lambda: decode(r.fix("A", -4)), RuleError, "a rule names position -4"),
    "a position of nothing": (
        lambda: decode(r.fix("A", 0), lattice=Lattice(np.zeros((0, 3)))),
        RuleError,
        "a rule names position 0",
    ),
    "a given position outside": (lambda: decode(VERB, given={"verb": 9}), RuleError, "given['verb'] names position 9"),
    "outside, inside a formula": (lambda: decode(ONCE >> r.label_at(7, "A")), RuleError, "names position 7"),
    "outside, soft": (lambda: decode(r.forbid("A", at=7).soft(1.0)), RuleError, "names position 7"),
    "outside, as a program": (lambda: decode(r.fix("A", 3), engine="ilp"), RuleError, "names position 3"),
    "a span that ends outside": (lambda: decode(r.same_label((1, 4))), RuleError, "a span that ends at 4"),
    "a span backwards": (lambda: r.same_label((2, 1)), RuleError, "should be spans"),
    "a position that is none": (lambda: r.fix("A", "first"), RuleError, "should be positions"),
    "a negative penalty": (lambda: ONCE.soft(-1.0), RuleError, "`penalty` must be a non-negative number; got -1.0"),
    "a negative penalty in text": (lambda: r.parse(f"{ONCE} [penalty -1]"), RuleError, "`penalty` must be"),
    "a penalty of NaN": (lambda: ONCE.soft(NAN), RuleError, "`penalty` must be a non-negative number; got nan"),
    "a penalty of inf": (lambda: ONCE.soft(INF), RuleError, "`penalty` must be a non-negative number; got inf"),
    "a penalty of words": (lambda: ONCE.soft("much"), RuleError, "`penalty` must be a non-negative number; got 'much'"),
    "a penalty per token": (lambda: ONCE.soft(1.0, per="token"), RuleError, "unknown `per`"),
    "soft twice": (lambda: ONCE.soft(1.0).soft(1.0), RuleError, "the rule is already soft"),
    "soft parts": (lambda: ONCE & ONCE.soft(1.0), RuleError, "only hard rules can be combined"),
    "a negative count": (lambda: r.at_most(-1, of="A"), RuleError, "invalid value of `k`"),
    "a count of halves": (lambda: r.at_most(1.5, of="A"), RuleError, "invalid value of `k`"),
    "a count of what": (lambda: r.at_most(1, of="A", count="words"), RuleError, "unknown unit"),
    "no names": (lambda: r.at_most(1, of=[]), RuleError, "invalid labels of a rule; got []"),
    "no limits": (lambda: r.length("A"), RuleError, "length() needs a limit"),
    "an expression cut short": (lambda: r.matches("(A"), RuleSyntaxError, "bad label expression"),
    "a pattern cut short": (lambda: r.tokens("(a"), RuleError, "invalid regular expression for tokens"),
    "text": (lambda: Decoder(LABELS, "my.rules"), RuleError, "Pass bridle.rules.load('my.rules')."),
    "one rule, no list": (lambda: Decoder(LABELS, ONCE), RuleError, "`rules` must be a list"),
    "a number": (lambda: Decoder(LABELS, 3), RuleError, "`rules` must be a list"),
    "true or false": (lambda: bool(ONCE), RuleError, "a rule has no truth value"),
    "a line that is no rule": (lambda: r.parse("at most one of A"), RuleSyntaxError, "not a rule"),
    "contradictory rules": (
        lambda: decode(ONCE, r.fix("A", 0), r.fix("B", 0)),
        Infeasible,
        "2 rules that contradict each other: fix A at 0; fix B at 0",
    ),
    "contradictory rules, k best": (
        lambda: Decoder(LABELS, [r.forbid(["O", "A", "B"])]).k_best(FLAT, 2),
        Infeasible,
        "1 rule that cannot hold: forbid O, A,",
    ),
}

GIVEN: dict[str, Case] = {
    "nothing": (lambda: decode(VERB), GivenError, "given['verb'] is missing (in the rule: fix O at given verb)"),
    "something else": (lambda: decode(VERB, given={"noun": 1}), GivenError, "given['verb']"),
    "nothing, as a program": (lambda: decode(VERB, engine="ilp"), GivenError, "given['verb'] is missing"),
    "nothing, k best": (lambda: Decoder(LABELS, [VERB]).k_best(FLAT, 2), GivenError, "given['verb'] is missing"),
    "nothing, marginals": (lambda: Decoder(LABELS, [VERB]).marginals(FLAT), GivenError, "given['verb'] is missing"),
    "nothing, probability": (lambda: Decoder(LABELS, [VERB]).probability(FLAT), GivenError, "given['verb'] is missing"),
    "nothing, explain": (lambda: Decoder(LABELS, [VERB]).explain(FLAT), GivenError, "given['verb'] is missing"),
    "nothing, asked of a labelling": (lambda: VERB.holds("OOO", LABELS), GivenError, "given['verb'] is missing"),
    "no labels": (lambda: decode(r.present(r.given("x"))), GivenError, "given['x'] is missing"),
    "no tokens": (lambda: decode(r.fix("A", r.tokens("x"))), GivenError, "given['tokens'] is missing"),
    "too few tokens": (
        lambda: decode(r.fix("A", r.tokens("x")), given={"tokens": ["x"]}),
        GivenError,
        "differ in length",
    ),
    "tokens that are none": (
        lambda: decode(r.fix("A", r.tokens("x")), given={"tokens": 3}),
        GivenError,
        "should be the tokens",
    ),
    "tokens in one string": (
        lambda: decode(r.fix("A", r.tokens("x")), given={"tokens": "xxx"}),
        GivenError,
        "should be the tokens",
    ),
    "labels that are none": (
        lambda: decode(r.present(r.given("x")), given={"x": 3}),
        GivenError,
        "given['x'] should hold labels",
    ),
    "a position that is none": (
        lambda: decode(VERB, given={"verb": "third"}),
        RuleError,
        "given['verb'] should be positions",
    ),
    "a position of halves": (lambda: decode(VERB, given={"verb": 0.5}), RuleError, "given['verb'] should be positions"),
    "truth for a position": (lambda: decode(VERB, given={"verb": True}), RuleError, "given['verb'] should be position"),
    "spans that are none": (
        lambda: decode(r.same_label(r.given("x")), given={"x": [(0, 1, 2)]}),
        RuleError,
        "given['x'] should be spans",
    ),
    "spans of halves": (
        lambda: decode(r.same_label(r.given("x")), given={"x": [(0.5, 2)]}),
        RuleError,
        "given['x'] should be spans",
    ),
    "no dict": (lambda: decode(given=3), GivenError, "given is not a dict; got 3"),
    "no dict, k best": (lambda: Decoder(LABELS).k_best(FLAT, 2, given=3), GivenError, "given is not a dict"),
    "one dict for a batch": (
        lambda: Decoder(LABELS).decode_batch([FLAT], {"verb": 1}),
        GivenError,
        "does not fit the batch; got one dict",
    ),
    "too many dicts": (lambda: Decoder(LABELS).decode_batch([FLAT], [{}, {}]), GivenError, "got 2 dicts"),
    "a number for a batch": (lambda: Decoder(LABELS).decode_batch([FLAT], 3), GivenError, "does not fit the batch"),
    "a name that is none": (lambda: r.given("the verb"), RuleError, "a given value needs a plain name"),
}

OPTIONS: dict[str, Case] = (
    {
        f"{name}={value!r}": (lambda name=name, value=value: Decoder(LABELS, **{name: value}), EngineError, text)  # type: ignore[misc]
        for name, value, text in [
            ("engine", "simplex", "unknown engine; got 'simplex'"),
            ("engine", ["auto"], "unknown engine"),
            ("engine", "simplex:tau=1", "unknown engine; got 'simplex'"),
            ("engine", "beam:16", "not of the form KEY=VALUE; got '16'"),
            ("engine", "beam:width=wide", "invalid value of `width`"),
            ("engine", "beam:tau=1", "engine 'beam' has no option 'tau'"),
            ("engine", "two_stage:formulation=paper", "invalid value of `formulation`"),
            ("time_limit", -1, "invalid value of `time_limit`"),
            ("time_limit", NAN, "invalid value of `time_limit`"),
            ("time_limit", "1 s", "invalid value of `time_limit`"),
            ("max_states", 0, "invalid value of `max_states`"),
            ("max_states", 1.5, "invalid value of `max_states`"),
            ("max_states", 2**63, "invalid value of `max_states`"),
            ("max_memory", 10**5, "invalid value of `max_memory`"),
            ("max_memory", 1e9, "invalid value of `max_memory`"),
            ("on_infeasible", "ignore", "invalid value of `on_infeasible`"),
        ]
    }
    | {
        f"{engine}({name}={value!r})": (
            lambda engine=engine, name=name, value=value: engine_named(engine, **{name: value}),
            EngineError,
            text,  # type: ignore[misc]
        )
        for engine, name, value, text in [
            ("beam", "width", 0, "invalid value of `width`"),
            ("beam", "width", True, "invalid value of `width`"),
            ("beam", "width", 2**31, "invalid value of `width`"),
            ("beam", "tau", 1, "engine 'beam' has no option 'tau'"),
            ("two_stage", "tau", 1.1, "invalid value of `tau`"),
            ("two_stage", "tau", NAN, "invalid value of `tau`"),
            ("two_stage", "stage", "third", "invalid value of `stage`"),
            ("ilp", "formulation", "loose", "invalid value of `formulation`"),
            ("lazy_intersection", "seed", -1, "invalid value of `seed`"),
            ("lazy_intersection", "seed", "x", "invalid value of `seed`"),
            ("lazy_intersection", "seed", 2**64, "invalid value of `seed`"),
            ("search", "max_product_states", 0, "invalid value of `max_product_states`"),
            ("search", "max_product_states", 5000, "invalid value of `max_product_states`"),
        ]
    }
    | {
        "threads=-1": (
            lambda: Decoder(LABELS).decode_batch([FLAT], threads=-1),
            EngineError,
            "`threads` must be",
        ),
        "threads='all'": (
            lambda: Decoder(LABELS).decode_batch([FLAT], threads="all"),
            EngineError,
            "`threads` must be",
        ),
        "k=0": (lambda: Decoder(LABELS).k_best(FLAT, 0), EngineError, "`k` must be a positive integer; got 0"),
        "k=2.5": (lambda: Decoder(LABELS).k_best(FLAT, 2.5), EngineError, "`k` must be a positive integer; got 2.5"),
    }
)

CASES = [
    pytest.param(*case, id=f"{group}: {name}")
    for group, cases in [("scores", SCORES), ("names", NAMES), ("rules", RULES), ("given", GIVEN), ("options", OPTIONS)]
    for name, case in cases.items()
]


def four_parts(error: BridleError) -> None:
    """The parts what, got and wanted are there, in this order, and the message is not a page."""
    text = str(error)
    assert error.what and error.got is not None and error.wanted is not None, text
    wanted, cause = (str(part).replace("{argument}", str(error.argument)) for part in (error.wanted, error.cause))
    assert f"; got {error.got}; wanted {wanted}." in text and len(text) < 600
    assert error.cause is None or text.endswith(f"\n{cause}")


@pytest.mark.parametrize(("call", "kind", "said"), CASES)
def test_bad_input_is_a_typed_error(call: Callable[[], Any], kind: type[BridleError], said: str) -> None:
    with pytest.raises(BridleError) as caught:
        call()
    assert type(caught.value) is kind
    assert said in str(caught.value)
    four_parts(caught.value)


def test_the_likely_cause_is_told_where_there_is_one() -> None:
    for call in (
        lambda: Lattice(unary(NAN)),
        lambda: Lattice([0, 1]),
        lambda: decode(r.fix("A", 3)),
        lambda: decode(VERB),
        lambda: Labels([]),
        lambda: Decoder(LABELS, [r.present("Z")]),
        lambda: ONCE.soft(-1.0),
        lambda: decode(r.fix("A", 0), r.fix("B", 0)),
        lambda: Decoder(LABELS, ONCE),
    ):
        with pytest.raises(BridleError) as caught:
            call()
        assert caught.value.cause


# ---- files ------------------------------------------------------------------------------------------------------


def packed(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def archive(name: str, data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as built:
        built.writestr(name, data)
    return stream.getvalue()


RULE_FILES: dict[str, tuple[bytes | None, type[BridleError], str]] = {
    "missing": (None, FileError, "cannot read the rules file"),
    "not text": (b"forbid A\n\xff\xfe\n", FileError, ""),
    "not a rule": (b"# fine\nforbid A\n\nforbid at\n", RuleSyntaxError, ":4: "),
    "a bad penalty": (b"forbid A\nforbid B [penalty lots]\n", RuleSyntaxError, ":2: "),
    "a negative penalty": (b"forbid A\nforbid B [penalty -1]\n", RuleError, ":2: "),
    "a bad expression": (b'matches "(A"\n', RuleSyntaxError, ":1: "),
    "a bad pattern": (b"fix A at tokens /(/\n", RuleError, ":1: "),
}


@pytest.mark.parametrize("name", RULE_FILES)
def test_rules_files(name: str, tmp_path: Path) -> None:
    data, kind, said = RULE_FILES[name]
    file = tmp_path / "my.rules"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(kind) as caught:
        r.load(file)
    four_parts(caught.value)
    assert said in str(caught.value) and "my.rules" in str(caught.value)


def test_a_folder_is_no_rules_file(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        r.load(tmp_path)
    four_parts(caught.value)


FLAT_ARRAY = np.zeros((3, 2))
SCORE_FILES: dict[str, tuple[bytes | None, str]] = {
    "missing.npz": (None, "cannot read"),
    "missing.jsonl": (None, "cannot read"),
    "text.npz": (b"unary", ""),
    "nothing.npz": (b"", ""),
    "cut.npz": (packed(unary=FLAT_ARRAY)[:-40], ""),
    "changed.npz": (packed(unary=FLAT_ARRAY).replace(b"NUMPY", b"NUMBY"), ""),
    "other.npz": (archive("unary.npy", b"no array"), ""),
    "empty.npz": (archive("readme.txt", b""), "unary"),
    "array.npy": (b"\x93NUMPY\x01\x00", "a single array is not a score file"),
    "no_unary.npz": (packed(scores=FLAT_ARRAY), "unary"),
    "objects.npz": (packed(unary=np.array([[None]], dtype=object)), ""),
    "words.npz": (packed(unary=np.array([["a"]])), ""),
    "nan.npz": (packed(unary=FLAT_ARRAY * NAN), "is not a score"),
    "inf.npz": (packed(unary=FLAT_ARRAY + INF), "is not a score"),
    "shape.npz": (packed(unary=np.zeros(3)), ""),
    "pairwise.npz": (packed(unary=FLAT_ARRAY, pairwise=np.zeros((3, 3))), "pairwise"),
    "offsets.npz": (packed(unary=FLAT_ARRAY, offsets=[0, 9]), "offsets"),
    "no_json.jsonl": (b'{"unary": [[0, 1]]}\n{"unary": [[0, 1]\n', "jsonl:2: "),
    "no_object.jsonl": (b"[1, 2]\n", "jsonl:1: "),
    "no_unary.jsonl": (b'{"scores": [[0, 1]]}\n', "unary"),
    "nan.jsonl": (b'{"unary": [[0, NaN]]}\n', "jsonl:1: "),
    "inf.jsonl": (b'{"unary": [[0, 1]]}\n{"unary": [[0, Infinity]]}\n', "jsonl:2: "),
    "ragged.jsonl": (b'{"unary": [[0, 1], [0]]}\n', "jsonl:1: "),
    "bytes.jsonl": (b'{"unary": [[0, 1]]}\n\xff\xfe\n', ""),
}


@pytest.mark.parametrize("name", SCORE_FILES)
def test_score_files(name: str, tmp_path: Path) -> None:
    data, said = SCORE_FILES[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(BridleError) as caught, open_scores(str(tmp_path / name)) as file:
        list(file.chunks)
    four_parts(caught.value)
    assert said in str(caught.value) and name in str(caught.value)
