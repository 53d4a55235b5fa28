"""The exception tree: one root, four parts in every message, fields that travel, text that is made last."""

from __future__ import annotations

import ast
import copy
import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
import bridle.errors as errors
import bridle.rules as r
from bridle.cli.base import option_text
from bridle.decoding.decoder import Decoder
from bridle.errors import Argument, BridleError, GivenError, Infeasible, LimitReached, RuleError, RuleSyntaxError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.models import CRF
from bridle.rules.base import named
from bridle.rules.lint import lint

SOURCE = Path(str(bridle.__file__)).parent
KINDS: list[Any] = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BridleError)]
EXTRA: dict[Any, dict[str, Any]] = {LimitReached: {"bound": 1.5}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_has_four_parts(kind: Any) -> None:
    error = kind("x is wrong.", got=[1], wanted="one more", cause="Too few?", **EXTRA.get(kind, {}))
    assert str(error) == "x is wrong; got [1]; wanted one more.\nToo few?"
    assert (error.what, error.got, error.wanted, error.cause) == ("x is wrong.", [1], "one more", "Too few?")
    assert isinstance(error, BridleError) and isinstance(error, Exception)
    assert kind.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_parts_may_lack(kind: Any) -> None:
    assert str(kind("x is wrong", **EXTRA.get(kind, {}))) == "x is wrong."
    assert str(kind("x is wrong", got=0, **EXTRA.get(kind, {}))) == "x is wrong; got 0."  # 0 was got all the same
    assert "\n" not in str(kind("x is wrong", got=1, wanted=2, **EXTRA.get(kind, {})))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("bad (x).", "bad (x)."),
        ("bad 'x'.", "bad 'x'."),
        ("cannot read .", "cannot read .."),
        ("cannot read ..", "cannot read ..."),
        ("no 'A'; did you mean 'B'?", "no 'A'; did you mean 'B'?"),
    ],
)
def test_a_message_ends_once(what: str, message: str) -> None:
    assert str(BridleError(what)) == message


def test_the_tree_is_the_one_in_the_text() -> None:
    assert errors.__doc__ is not None
    for kind in KINDS:
        assert kind.__name__ in errors.__doc__
    assert issubclass(RuleSyntaxError, RuleError) and issubclass(GivenError, RuleError)
    assert issubclass(errors.ModelFileError, errors.FileError)
    assert {kind for kind in KINDS if BridleError in kind.__bases__} == set(KINDS) - {
        BridleError,
        RuleSyntaxError,
        GivenError,
        errors.ModelFileError,
    }


def test_what_some_kinds_carry() -> None:
    error = RuleSyntaxError("odd", file="my.rules", line=3, got="x")
    assert str(error) == "my.rules:3: odd; got x." and (error.file, error.line) == ("my.rules", 3)
    assert str(RuleSyntaxError("odd", line=3)) == "3: odd."
    assert LimitReached("late", bound=2.0).bound == 2.0
    clash = [r.present("A"), r.forbid("A")]
    infeasible = Infeasible("nothing obeys", clash=clash, sequence=4)
    assert infeasible.clash == tuple(clash) and infeasible.sequence == 4
    assert Infeasible("nothing obeys").clash == ()


def test_errors_inside_a_rule_name_it_once() -> None:
    rule = r.present("A") & r.forbid("Z", at=0)
    with pytest.raises(BridleError) as caught:
        rule.holds(["A"], Labels(["A"]))
    assert str(caught.value).count("in the rule") == 1 and str(rule) in str(caught.value)
    assert (caught.value.got, caught.value.cause) == ("'Z'", "A misspelled name, or a different set of labels?")
    with pytest.raises(BridleError) as caught, named(r.present("B")), named(rule):
        raise GivenError("x", got=1)
    assert type(caught.value) is GivenError and str(caught.value).count("in the rule") == 1
    with pytest.raises(KeyError), named(rule):  # what is no error of ours passes as it is
        raise KeyError("x")
    with named(rule):
        pass


# ---- fields ---------------------------------------------------------------------------------------------------------


def test_places_are_shown_in_front() -> None:
    assert str(BridleError("odd", sequence=3, got=1)) == "sequence 3: odd; got 1."
    assert str(BridleError("odd", where="data.txt:17")) == "data.txt:17: odd."
    assert str(BridleError("odd", where="data.txt:17", sequence=3)) == "data.txt:17: odd."  # it says the same
    assert str(BridleError("odd", sequence=0, rule=r.forbid("A"))) == "sequence 0: odd (in the rule: forbid A)."


def test_fields_are_filled_in_once() -> None:
    error = BridleError("odd", sequence=0)
    assert error.at(sequence=3, where="x:1", rule=r.forbid("A")) is error
    assert (error.sequence, error.where, error.rule) == (0, "x:1", r.forbid("A"))
    assert str(error.at(where="y:2")) == "x:1: odd (in the rule: forbid A)."
    with pytest.raises(AttributeError):
        error.at(place="x")


def test_arguments_are_spelt_when_the_message_is_made() -> None:
    error = BridleError(
        "{argument} is odd",
        got="'{argument}'",
        wanted="not {argument}",
        cause="Pass {argument}.",
        argument=Argument("comment", "# "),
    )
    inner = "comment='# '"
    assert str(error) == f"{inner} is odd; got '{{argument}}'; wanted not {inner}.\nPass {inner}."  # got is the user's
    assert error.message(lambda argument: argument.name.upper()).endswith("wanted not COMMENT.\nPass COMMENT.")
    assert str(BridleError("{argument}")) == "{argument}."
    others = RuleSyntaxError("odd", line=1)
    others.others = (RuleSyntaxError("{argument} too", line=2, argument=Argument("x", 1)),)
    assert others.message(lambda argument: f"--{argument.name}") == "1: odd.\n2: --x too."


@pytest.mark.parametrize(
    ("argument", "library", "line"),
    [
        (Argument("on_infeasible", "relax"), "on_infeasible='relax'", "--on-infeasible relax"),
        (Argument("on_unknown", "wrong"), "on_unknown='wrong'", "--on-unknown wrong"),
        (Argument("encoding", "latin-1"), "encoding='latin-1'", "--option encoding=latin-1"),
        (Argument("comment", "# "), "comment='# '", "--option comment='# '"),
        (Argument("on_error", "skip"), "on_error='skip'", "--option on_error=skip"),
        (Argument("label", None), "label=None", "--label none"),
        (Argument("tokens"), "tokens=...", "--option tokens=NAME"),
        (Argument("columns", [...]), "columns=[...]", "--columns A,B,..."),
        (Argument("format", "text"), "format='text'", "--format text"),
        (Argument("format"), "format=...", "--format NAME"),
        (Argument("scheme", None), "scheme=None", "--scheme none"),
        (Argument("labels"), "labels=...", "--labels or --model"),
        (
            Argument("given", {"verb": ...}),
            "given={'verb': ...}",
            '"given": {"verb": ...} in the JSON line of the sequence, or a column of that name',
        ),
        (
            Argument("given", {"tokens": ...}),
            "given={'tokens': ...}",
            '"tokens": [...] in the JSON line of the sequence',
        ),
    ],
)
def test_an_argument_in_the_library_and_on_the_command_line(argument: Argument, library: str, line: str) -> None:
    error = BridleError("odd", cause="Pass {argument}.", argument=argument)
    assert str(error).endswith(f"Pass {library}.") and error.message(option_text).endswith(f"Pass {line}.")


def test_the_library_names_arguments_in_fields() -> None:
    labels = Labels(["A", "B"])
    with pytest.raises(Infeasible) as infeasible:
        Decoder(labels, [r.forbid("A"), r.present("A")]).decode(Lattice(np.zeros((2, 2))))
    assert infeasible.value.argument == Argument("on_infeasible", "relax") and infeasible.value.sequence is None
    assert "decode with on_infeasible='relax'." in str(infeasible.value)
    assert "decode with --on-infeasible relax." in infeasible.value.message(option_text)
    with pytest.raises(GivenError) as missing:
        Decoder(labels, [r.forbid("A", at=r.given("verb"))]).decode_batch([Lattice(np.zeros((2, 2)))] * 2, [{}, {}])
    assert missing.value.sequence == 0 and missing.value.rule == r.forbid("A", at=r.given("verb"))
    assert str(missing.value) == (
        "sequence 0: given['verb'] is missing (in the rule: forbid A at given verb); got nothing; "
        "wanted given={'verb': ...}.\nPass it with each sequence."
    )
    assert [f.message for f in lint(["forbid A"], spell=option_text)] == [
        "only the text of the rules was checked: pass --labels or --model for more"
    ]


# ---- the development set --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        (([{"word": ["a"]}, {"text": ["a"]}], [["X"], ["X"]]), "sequence 1 of the development set: there is no column"),
        (([{"word": ["a"]}], [["Z"]]), "sequence 0 of the development set: unknown label; got 'Z'"),
        (([{"word": ["a"]}], [["X", "Y"]]), "sequence 0 of the development set: the labels and the tokens differ"),
        (([{"word": ["a"]}], []), "the development set: y and X differ in length"),
    ],
)
def test_errors_about_the_development_set_say_so(dev: Any, message: str) -> None:
    with pytest.raises(BridleError, match=message):
        CRF(features=["word[0]"]).fit([{"word": ["a", "b"]}], [["X", "Y"]], dev=dev)


def test_training_under_rules_names_the_sequence() -> None:
    xs, ys = [{"word": ["a", "b"]}] * 3, [["X", "Y"]] * 3
    given: list[Any] = [{"v": 0}, {"v": 0}, {}]
    model = CRF("ibt", features=["word[0]"], rules=("forbid Y at given v",))
    with pytest.raises(GivenError, match=r"sequence 2: given\['v'\] is missing"):
        model.fit(xs, ys, given=given)
    with pytest.raises(GivenError, match=r"sequence 2 of the development set: given\['v'\] is missing"):
        model.fit(xs, ys, given=[{"v": 0}] * 3, dev=(xs, ys), dev_given=given)


def test_numbers_count_over_all_threads() -> None:
    model = CRF(features=["word[0]"], iterations=1).fit([{"word": ["a", "b"]}], [["X", "Y"]])
    xs: list[Any] = [{"word": ["a"]}] * 200 + [{"text": ["a"]}]
    for work in (partial(model.lattices, threads=2), partial(model.predict, threads=2)):
        with pytest.raises(errors.FeatureError) as caught:
            work(xs)
        assert caught.value.sequence == 200
    given: list[Any] = [{"v": 0}] * 199 + [{}, {"v": 0}]
    with pytest.raises(GivenError) as late:
        model.predict([{"word": ["a"]}] * 201, ["forbid X at given v"], given=given, threads=2)
    assert late.value.sequence == 199


# ---- copies ---------------------------------------------------------------------------------------------------------


def full(kind: Any) -> BridleError:
    """An error of this kind with all that it can carry."""
    rules = [r.present("A"), r.forbid("A", at=r.given("verb")).soft(2.0), r.at_most(1, of="A") | r.matches('"A" "B"*')]
    extra: dict[Any, dict[str, Any]] = {
        RuleSyntaxError: {"file": "my.rules", "line": 3},
        LimitReached: {"bound": 1.5, "decodings": [1, 2]},
        Infeasible: {"clash": rules, "decodings": None},
    }
    place = {} if kind is RuleSyntaxError else {"where": "data.txt:17"}
    built: BridleError = kind(
        "x is wrong.",
        got=[1],
        wanted="{argument}",
        cause="Too few?",
        sequence=4,
        rule=rules[0],
        argument=Argument("given", {"verb": ...}),
        **place,
        **extra.get(kind, {}),
    )
    if isinstance(built, RuleSyntaxError):
        built.others = (RuleSyntaxError("y is wrong", file="my.rules", line=9, got=2),)
    return built


def same(error: BridleError, other: BridleError) -> None:
    """Equal in type, text and all fields."""
    mine, its = dict(vars(error)), dict(vars(other))
    for a, b in zip(mine.pop("others", ()), its.pop("others", ()), strict=True):
        same(a, b)
    assert type(error) is type(other) and str(error) == str(other) and mine == its and error.args == other.args
    assert error.message(option_text) == other.message(option_text)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickle_and_copies(kind: Any) -> None:
    for error in (full(kind), kind("x", **EXTRA.get(kind, {}))):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            same(error, pickle.loads(pickle.dumps(error, protocol)))
        same(error, copy.copy(error))
        same(error, copy.deepcopy(error))
    assert copy.deepcopy(full(kind)).at(sequence=9).sequence == 4


def _raise(error: BridleError) -> None:
    raise error


def _clash() -> None:
    lattices = [Lattice(np.zeros((2, 2)))] * 2
    Decoder(Labels(["A", "B"]), [r.forbid("A"), r.present("A")]).decode_batch(lattices)


def test_errors_survive_another_process() -> None:
    """They come out of a pool of processes as they were raised, whatever they carry."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for error in map(full, KINDS):
            with pytest.raises(type(error)) as caught:
                pool.submit(_raise, error).result()
            same(error, caught.value)
        with pytest.raises(Infeasible) as clash:
            pool.submit(_clash).result()
    assert clash.value.sequence == 0 and set(clash.value.clash) == {r.forbid("A"), r.present("A")}


# ---- code does not read messages -------------------------------------------------------------------------------------


def _is_message(node: ast.expr) -> bool:
    """Does an expression stand for the text of an error: str(error), error.args, error.message(...), or part of it?"""
    match node:
        case ast.Call(func=ast.Name("str"), args=[ast.Name(id=name)]):
            return name in ERRORS
        case ast.Attribute(value=ast.Name(id=name), attr="args" | "what"):
            return name in ERRORS
        case ast.Call(func=ast.Attribute(value=value, attr="message" | "lower" | "strip")):
            return (isinstance(value, ast.Name) and value.id in ERRORS) or _is_message(value)
        case ast.Subscript(value=value):
            return _is_message(value)
    return False


ERRORS = {"error", "e", "exc", "err", "failed", "wrong", "caught"}
READS = {
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
    "partition",
    "rpartition",
    "count",
    "replace",
}
MATCHES = {"search", "match", "fullmatch", "sub", "findall", "finditer", "split"}  # of compiled patterns


def _readers(tree: ast.AST) -> Iterator[ast.AST]:
    """Code that looks for something in the text of an error, or rewrites it."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args):
                searched = attr in MATCHES or (isinstance(value, ast.Name) and value.id == "re")
                if (attr in READS and _is_message(value)) or (searched and any(map(_is_message, args))):
                    yield node
            case ast.Compare(ops=ops, comparators=others, left=left):
                kinds = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
                if any(isinstance(op, kinds) for op in ops) and any(map(_is_message, (left, *others))):
                    yield node
            case ast.Assign(targets=targets):
                if any(isinstance(node, ast.Attribute) and node.attr == "args" for node in targets):
                    yield node


@pytest.mark.parametrize(
    "text",
    [
        "re.sub('a', 'b', str(error))",
        "PATTERN.search(str(error))",
        "str(error).startswith('x')",
        "'x' in str(error)",
        "error.args = ('x',)",
        "error.args[0].removeprefix('x')",
        "'x' in error.args[0]",
        "error.message() == 'x'",
        "str(error).lower().find('x')",
        "error.what.startswith('x')",
    ],
)
def test_readers_of_messages_are_found(text: str) -> None:
    assert len(list(_readers(ast.parse(text)))) == 1


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_code_reads_messages(path: Path) -> None:
    result = list(_readers(ast.parse(path.read_text(encoding="utf-8"))))
    assert [node.lineno for node in result if isinstance(node, (ast.expr, ast.stmt))] == []


def test_long_values_are_clipped_in_messages() -> None:
    """Files may hold names and values of any length; the fields keep them."""
    long = "x" * 10**6
    error = errors.FileError(long, got=long, wanted=[long] * 10**5, cause=long, rule=long)
    assert len(str(error)) < 6000 and "(1,000,000 characters)" in str(error) and error.got == long
    deep: list[object] = []
    for _ in range(10**5):
        deep = [deep]
    assert len(errors.shown(deep)) <= 60 and len(errors.clipped(deep)) <= 1000
    while deep:  # one by one: to free it at once would take as many calls within each other
        deep = deep[0]  # type: ignore[assignment]
