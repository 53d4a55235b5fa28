"""The exception tree: one root, four parts in every message, constructors that do not fail."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import bridle.errors as errors
import bridle.rules as r
from bridle.errors import BridleError, GivenError, Infeasible, LimitReached, RuleError, RuleSyntaxError
from bridle.labels import Labels
from bridle.rules.base import named

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
    ("what", "told"),
    [
        ("bad (x).", "bad (x)."), ("bad 'x'.", "bad 'x'."), ("cannot read .", "cannot read .."),
        ("cannot read ..", "cannot read ..."), ("no 'A'; did you mean 'B'?", "no 'A'; did you mean 'B'?"),
    ],
)  # fmt: skip
def test_a_message_ends_once(what: str, told: str) -> None:
    assert str(BridleError(what)) == told


def test_the_tree_is_the_one_in_the_text() -> None:
    assert errors.__doc__ is not None
    for kind in KINDS:
        assert kind.__name__ in errors.__doc__
    assert issubclass(RuleSyntaxError, RuleError) and issubclass(GivenError, RuleError)
    assert issubclass(errors.ModelFileError, errors.FileError)
    assert {kind for kind in KINDS if kind.__base__ is BridleError} == set(KINDS) - {
        BridleError, RuleSyntaxError, GivenError, errors.ModelFileError,
    }  # fmt: skip


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
    assert (caught.value.got, caught.value.cause) == ("'Z'", "A misspelt name, or other labels?")
    with pytest.raises(BridleError) as caught, named(r.present("B")), named(rule):
        raise GivenError("x", got=1)
    assert type(caught.value) is GivenError and str(caught.value).count("in the rule") == 1
    with pytest.raises(KeyError), named(rule):  # what is no error of ours passes as it is
        raise KeyError("x")
    with named(rule):
        pass


def test_errors_can_be_copied() -> None:
    """A copy (as a process pool or a logger makes it) keeps type and text."""
    error = BridleError("x", got=1, wanted=2, cause="c")
    again = copy.copy(error)
    assert type(again) is BridleError and again.what and again.got == 1
