"""Explanations: what is said of one sequence, and how it looks in a terminal and on a page."""

from __future__ import annotations

import json
import re
from io import StringIO
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import bridle
from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.explain import Explanation, RuleEffect, explanation
from bridle.explain.impact import impact
from bridle.explain.terminal import show_explanation, show_impact
from bridle.explain.words import (
    changed_spans,
    difference,
    folded,
    gained,
    number,
    places,
    price,
    stretches,
    to_dict,
    together,
    trellis_of,
)
from bridle.report.page import UNKNOWN

# Semantic roles of one sentence, as a local classifier may see them (after Roth & Yih 2005).
TOKENS = ["I", "left", "my", "pearls", "to", "my", "daughter-in-law", "in", "my", "will", "."]
GOLD = ["A0", "O", "A1", "A1", "A2", "A2", "A2", "AM-LOC", "AM-LOC", "AM-LOC", "O"]
ROLES = Labels(["O", "A0", "A1", "A2", "A3", "AM-LOC"], scheme="IO")
GIVEN = {"verb": 1, "candidates": [(0, 1), (2, 4), (4, 7), (7, 10)], "frame": ["A0", "A1", "A2"]}
P = [
    [0.06, 0.78, 0.09, 0.03, 0.02, 0.02],
    [0.38, 0.02, 0.52, 0.04, 0.03, 0.01],
    [0.16, 0.07, 0.61, 0.12, 0.02, 0.02],
    [0.09, 0.05, 0.72, 0.10, 0.03, 0.01],
    [0.22, 0.01, 0.07, 0.55, 0.09, 0.06],
    [0.13, 0.06, 0.42, 0.35, 0.02, 0.02],
    [0.06, 0.06, 0.36, 0.48, 0.02, 0.02],
    [0.18, 0.01, 0.11, 0.03, 0.40, 0.27],
    [0.28, 0.01, 0.32, 0.01, 0.19, 0.19],
    [0.08, 0.02, 0.45, 0.02, 0.22, 0.21],
    [0.97, 0.001, 0.01, 0.01, 0.001, 0.01],
]
HARD = [
    r.no_duplicates(of=["A0", "A1", "A2", "A3"]),
    r.same_label(r.given("candidates")),
    r.fix("O", r.given("verb")),
    r.allow(["O", "AM-LOC", r.given("frame")]),
]
SOFT = r.before("AM-LOC", "A2").soft(0.3)
AB = Labels(["A", "B", "C"])


@pytest.fixture(scope="module")
def roles() -> Explanation:
    return Decoder(ROLES, [*HARD, SOFT]).explain(Lattice(np.log(P)), GIVEN)


def clashing() -> Explanation:
    rules = [r.forbid("A"), r.at_least(2, of="A", count="tokens"), r.present("B"), r.ends_with("B").soft(0.5)]
    return Decoder(AB, rules, on_infeasible="relax").explain(Lattice([[2.0, 0, 0], [0, 1, 0], [0, 0, 1]]))


def given_up() -> Explanation:
    return Decoder(AB, [r.forbid("A"), r.present("A")], on_infeasible="relax").explain(Lattice([[2.0, 0, 0]]))


# ---- one sequence ---------------------------------------------------------------------------------------------------


def test_rules_are_found_at_every_place_they_changed(roles: Explanation) -> None:
    assert roles.best.labels == GOLD
    result = changed_spans(roles, TOKENS)
    assert [(p.start, p.end, p.before, p.after) for p in result] == [
        (1, 2, "A1", "O"),
        (5, 6, "A1", "A2"),
        (7, 10, "A3 A1 x2", "AM-LOC x3"),
    ]
    assert all(p.rules for p in result)
    at = {str(effect.rule): effect.at for effect in roles.effects}
    assert at[str(HARD[2])] == (1,)
    # the second "my" would have to change for either rule alone, so leaving out one of them shows nothing there
    assert 5 in at[str(HARD[0])] and 5 in at[str(HARD[1])]


def test_places_of_a_bite_are_where_the_labels_without_it_differ() -> None:
    rng = np.random.default_rng(5)
    rules = [r.at_most(1, of="A"), r.before("A", "B"), r.present("C").soft(1.0)]
    seen = 0
    for _ in range(20):
        explanation = Decoder(AB, rules).explain(Lattice(rng.normal(size=(6, 3)) * 2))
        for effect in explanation.effects:
            if effect.without is not None:
                apart = np.flatnonzero(effect.without.ids != explanation.best.ids).tolist()
                assert set(apart) <= set(effect.at) <= set(apart) | set(explanation.changed)
                seen += 1
    assert seen > 10


def test_what_soft_rules_charged(roles: Explanation) -> None:
    (charge,) = roles.charged
    assert charge.rule is SOFT and charge.cost == pytest.approx(0.3) == pytest.approx(roles.best.penalty)
    per = r.forbid("A").soft(0.25, per="violation")
    explanation = Decoder(AB, [per]).explain(Lattice([[9.0, 0, 0]] * 3))
    assert [(c.times, c.cost) for c in explanation.charged] == [(3, 0.75)]


def test_alternatives_are_the_next_best(roles: Explanation) -> None:
    ranked = roles.decoder.k_best(roles.lattice, 5, GIVEN)
    assert [d.labels for d in roles.alternatives(4)] == [d.labels for d in ranked[1:]]
    assert roles.alternatives(0) == []
    assert len(Decoder(AB, [r.fix("A", 0)]).explain(Lattice(np.zeros((2, 3)))).alternatives(99)) == 2
    with pytest.raises(bridle.EngineError, match="`k` must be"):
        roles.alternatives(-1)


def test_probabilities(roles: Explanation) -> None:
    assert roles.probabilities() == pytest.approx(np.array(P) / np.sum(P, axis=1, keepdims=True))
    under = roles.probabilities("rules")
    assert under is not None and under == pytest.approx(roles.decoder.marginals(roles.lattice, GIVEN))
    assert under[1, 0] == pytest.approx(1.0)


def test_scores_stand_in_for_probabilities_that_need_too_many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise bridle.EngineError("too many states")

    monkeypatch.setattr(Decoder, "marginals", refuse)
    explanation = Decoder(AB, [r.present("B")]).explain(Lattice([[0.0, 1.0, -np.inf], [1.0, 1.0, 1.0]]))
    assert explanation.probabilities() is None and explanation.probabilities("rules") is None
    built = trellis_of(explanation)
    assert built.size_meaning == "how good by its own score"
    assert built.shade[0] == pytest.approx([0.26894, 0.73106, 0.0], abs=1e-4)
    assert built.hover_text is not None and built.hover_text(0, 2) == "impossible"


def test_rules_that_clash() -> None:
    output = clashing()
    assert output.best.relaxed and set(output.clash) == {output.decoder.rules[0], output.decoder.rules[1]}
    assert output.alternatives() == []
    free = {str(effect.rule) for effect in output.effects if not effect.price}
    assert not free & {str(rule) for rule, _ in output.best.violated}
    assert Decoder(AB, [r.present("B")]).explain(Lattice(np.zeros((1, 3)))).clash == ()


def hard(**options: Any) -> Explanation:
    """More rules than can be obeyed at once without a search."""
    rng = np.random.default_rng(0)
    labels = Labels([f"F{k}" for k in range(9)])
    lattice = Lattice(rng.normal(size=(60, 9)) * 2, rng.normal(size=(9, 9)))
    return Decoder(labels, [r.at_most(1, of=name) for name in labels], **options).explain(lattice)


def test_a_price_that_is_not_proved_says_so() -> None:
    output, exact = hard(max_states=5), hard()
    assert all(effect.proved for effect in exact.effects)
    assert not any("about" in price(effect) for effect in exact.effects)
    doubtful = [effect for effect in output.effects if not effect.proved]
    assert doubtful and {price(effect)[:5] for effect in doubtful} <= {"about", "?"}
    written = to_dict(output, [""] * 60, 0)["effects"]
    assert [effect["proved"] for effect in written] == [effect.proved for effect in output.effects]
    dear = next(effect for effect in doubtful if effect.price)
    assert f"about {dear.price:.4f}" in printed(output, None) and f"about {dear.price:.4f}" in output.html()
    assert f"price about {dear.price:.4f}" in output.svg() and f"price about {dear.price:.4f}" in str(output)
    assert price(RuleEffect(r.present("A"), 1, 0.0, None, proved=False)) == "?"


def test_a_price_is_not_proved_if_only_the_labels_without_the_rule_are() -> None:
    rng = np.random.default_rng(1)
    labels = Labels([f"F{k}" for k in range(5)])
    rules = [*(r.at_most(1, of=name) for name in labels), r.before("F1", "F0")]
    lattice = Lattice(rng.normal(size=(30, 5)) * 2, rng.normal(size=(5, 5)))
    explanation = Decoder(labels, rules, max_states=1).explain(lattice)
    assert not explanation.best.optimal and any(
        effect.without and effect.without.optimal for effect in explanation.effects
    )
    assert not any(effect.proved for effect in explanation.effects)


def test_nothing_is_decoded_again_if_no_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "_decode_with", None)
    assert Decoder(AB, [r.present("A")]).explain(Lattice([[1.0, 0, 0]])).effects == []


def test_prices_are_those_of_leaving_each_rule_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that change nothing are left out together, so there are fewer trials than rules."""
    random, trials, decode = np.random.default_rng(3), list[int](), explanation._decode_with

    def counted(decoder: Decoder, rules: Any, *more: Any) -> Any:
        trials.append(len(rules))
        return decode(decoder, rules, *more)

    monkeypatch.setattr(explanation, "_decode_with", counted)
    texts = [f"at most {k} segment{'s' * (k > 1)} of {name}" for k in (1, 2, 3) for name in "ABC"]
    rules = [*map(r.parse, [*texts, "A before B", "present C", "starts with O"]), r.present("B").soft(0.5)]
    rules += [r.forbid("A", at=r.tokens(f"no{k}")) for k in range(40)]
    decoder, values = Decoder(Labels(list("OABC")), rules), {"tokens": ["x"] * 12}
    for _ in range(10):
        lattice = Lattice(random.normal(size=(12, 4)))
        best = decoder.decode(lattice, values).score
        without = [decoder.with_rules(rules[:k] + rules[k + 1 :]).decode(lattice, values) for k in range(len(rules))]
        trials.clear()
        prices = {effect.rule: effect.price for effect in decoder.explain(lattice, values).effects}
        assert len(trials) < len(rules)
        assert [prices.get(rule, 0.0) for rule in rules] == pytest.approx(
            [each.score - best for each in without], abs=1e-9
        )


def test_prices_and_alternatives_do_not_take_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "PATIENCE", 0.0)
    output = hard()
    assert output.best.optimal and not all(effect.proved for effect in output.effects)
    assert output.alternatives() == [] and output.alternatives_missing() == "a limit was reached before any was found"
    asked: list[float | None] = []
    monkeypatch.setattr(
        Decoder, "with_rules", lambda self, rules, **options: asked.append(options.get("time_limit")) or self
    )
    Decoder(AB, [r.forbid("A")], time_limit=7.0).explain(Lattice([[1.0, 0, 0]])).alternatives()
    assert asked and all(seconds is None or 0 < seconds <= 7.0 for seconds in asked)  # a limit of one's own stands
    asked.clear()
    Decoder(AB, [r.forbid("A")], max_states=7).explain(Lattice([[1.0, 0, 0]])).alternatives()
    assert asked and set(asked) == {None}


def test_alternatives_that_a_limit_cut_off_say_so() -> None:
    output = hard(max_states=5)
    assert output.alternatives() == [] and "a limit was reached before" in output.alternatives_missing()
    for text in (printed(output, None), output.html(), json.dumps(to_dict(output, [""] * 60, 5))):
        assert output.alternatives_missing()[1:] in text
    assert hard().alternatives_missing() == "" and len(hard().alternatives()) == 5
    assert clashing().alternatives_missing() == "none: no labelling obeys the hard rules"
    assert "next best" not in printed(output, None, k=0)


def test_rules_that_ask_for_the_same_are_priced_together(roles: Explanation) -> None:
    explanation = Decoder(AB, [r.forbid("A"), r.fix("B", 0), r.forbid("C", at=1)]).explain(
        Lattice([[2.0, 1, 0], [0, 1, 3]])
    )
    same = {str(effect.rule): together(explanation, effect) for effect in explanation.effects}
    assert same == {"forbid C at 1": "", "forbid A": "together with 3", "fix B at 0": "together with 2"}
    text = printed(explanation, None)
    assert "0, together with 3" in text and "Prices do not have to add up." in " ".join(text.split())
    dear = [effect for effect in roles.effects if effect.price and 5 in effect.at]
    assert len(dear) > 1 and not any(together(roles, effect) for effect in dear)  # each changes something by itself
    assert "together with 3" in explanation.html() and "Prices do not have to add up." in explanation.html()


def test_a_terminal_does_not_wait_for_what_it_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = Decoder(AB, [r.present("B")]).explain(Lattice([[1.0, 0, 0]]))
    asked = []
    monkeypatch.setattr(Explanation, "probabilities", lambda self, under="scores": asked.append(under))
    printed(explanation, None)
    assert set(asked) == {"scores"}
    explanation.svg()
    assert set(asked) == {"scores", "rules"}


# ---- words ----------------------------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 30)))
def test_stretches_hold_exactly_the_positions(at: set[int]) -> None:
    built = stretches(sorted(at))
    assert [t for a, b in built for t in range(a, b)] == sorted(at)
    assert all(b < c for (_, b), (c, _) in pairwise(built))


def test_places_and_labels_as_text() -> None:
    assert number(-1e-9) == "0.0000" and number(-10.00004) == "-10.0000" and number(float("inf")) == "inf"
    assert places([0, 1, 2, 5]) == "0-2, 5" and places([]) == ""
    assert places(range(0, 60, 2)).endswith("22, ...")
    assert folded(["A", "A", "B"]) == "A x2 B" and folded([]) == ""


def test_difference_of_labellings(roles: Explanation) -> None:
    assert difference(roles.best, roles.plain, TOKENS) == (
        "'left' A1 (not O); 'my' A1 (not A2); 'in my will' A3 A1 x2 (not AM-LOC x3)"
    )
    other = Decoder(AB).decode(Lattice([[0.0, 1, 0]] * 12))
    decoding = Decoder(AB).decode(Lattice([[1.0, 0, 0]] * 12))
    assert difference(decoding, other, list("abcdefghijkl")) == "'a b c ... j k l' B x12 (not A x12)"


def test_long_places_are_shortened() -> None:
    explanation = Decoder(AB, [r.forbid("A")]).explain(Lattice([[1.0, 0, 0]] * 40))
    (only,) = changed_spans(explanation, [str(t) for t in range(40)])
    assert only.text == "0 1 2 3 4 5 6 7 8 ... 31 32 33 34 35 36 37 38 39" and only.before == "A x40"


def test_did_it_help(roles: Explanation) -> None:
    assert gained(roles, GOLD) == "Of 11 tokens 6 are right without rules and 11 with them: the rules helped."
    assert gained(roles, roles.plain.labels).endswith("the rules hurt.")
    assert gained(roles, ["?"] * 11).endswith("the rules made no difference.")


def test_json_holds_all_of_it(roles: Explanation) -> None:
    document = json.loads(json.dumps(to_dict(roles, TOKENS, 3), allow_nan=False))
    assert (
        document["best"]["labels"] == GOLD
        and document["changed"] == roles.changed
        and len(document["alternatives"]) == 3
    )
    assert [b["rule"] for b in document["effects"]] == [str(b.rule) for b in roles.effects]
    assert document["charged"] == [{"rule": str(SOFT), "times": 3, "cost": 0.3}] and document["clash"] == []
    assert len(to_dict(clashing(), ["a", "b", "c"], 3)["clash"]) == 2


# ---- the terminal ---------------------------------------------------------------------------------------------------


def printed(output: Explanation, tokens: list[str] | None, width: int = 80, **options: Any) -> str:
    out = StringIO()
    show_explanation(output, tokens, Console(file=out, width=width), **options)
    return out.getvalue()


def test_the_terminal_tells_it_all(roles: Explanation) -> None:
    text = printed(roles, TOKENS, name="s1", gold=GOLD)
    assert "\x1b" not in text and max(map(cell_len, text.splitlines())) <= 80
    left = next(line for line in text.splitlines() if line.startswith("O "))
    assert left.split("[")[1].startswith(" 38]")  # the verb
    assert "( 52)" in text and "the rules helped" in text and "A3 A1 x2" in text
    for effect in roles.effects:
        assert str(effect.rule).split("  [")[0] in " ".join(text.split()) and f"{effect.price:.4f}" in text
    assert "penalties of soft rules" in text and "next best under the rules" in text and "proved optimal" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_columns_stand_below_each_other(roles: Explanation, width: int) -> None:
    """Every closing bracket is in line with the end of its token, also for characters that are two cells wide."""
    tokens = ["北京", "left", "\x07", "e\u0301", *TOKENS[4:]]
    blocks = printed(roles, tokens, width).split("\n\n")
    grids = [block.strip("\n").splitlines() for block in blocks if "[ " in block.split("\n")[-1] or "\nO " in block]
    ends = []
    for lines in grids:
        head, *body = lines
        words = {cell_len(head[: result.end()]) for result in re.finditer(r"[^ ]+", head)}
        for line in body:
            marks = [cell_len(line[: k + 1]) for k, c in enumerate(line) if c in "])" and line[k - 1].isdigit()]
            assert set(marks) <= words, (head, line)
            ends += marks
    assert len(ends) == len(tokens) + len(roles.changed)


def test_users_texts_do_not_steer_the_terminal() -> None:
    red = "R\x1b[31mED\x00"
    rules = [r.forbid(red), r.at_most(0, of=red).soft(1.0), r.present(red).soft(2.0)]
    explanation = Decoder(Labels([red, "B"]), rules).explain(Lattice([[1.0, 0], [0, 1.0]]))
    text = printed(explanation, [red, "\x1b[2J"], name=red, gold=[red, "\x07"])
    out = StringIO()
    impacts = impact(explanation.decoder, [explanation.lattice], gold=[[red, red]])
    show_impact(impacts, [red], Console(file=out, width=80), look=red)
    for shown in (text, out.getvalue()):
        assert not {c for c in shown if not c.isprintable()} - {"\n"} and r"R\x1b[31mED\x00" in shown


def test_colour_marks_what_changed(roles: Explanation) -> None:
    out = StringIO()
    show_explanation(roles, TOKENS, Console(file=out, width=200, force_terminal=True, color_system="standard"))
    assert "\x1b[1;32m  [ 38]\x1b[0m" in out.getvalue() and "\x1b[1;31m  ( 52)\x1b[0m" in out.getvalue()


def test_long_and_empty_sequences_and_no_bites() -> None:
    explanation = Decoder(AB, [r.forbid("A", at=40)]).explain(Lattice([[1.0, 0, 0]] * 80))
    text = printed(explanation, None)
    assert "..37.." in text and "..36.." in text and " 39 " in text and " 20 " not in text
    assert ".." not in printed(explanation, None, show="all").split("where the labels differ")[0]
    idle = printed(Decoder(AB, [r.present("A")]).explain(Lattice([[1.0, 0, 0]])), ["x"])
    assert "none: the best labels by scores alone obey all rules" in idle and "( )" not in idle
    empty = printed(Decoder(AB).explain(Lattice(np.zeros((0, 3)))), [])
    assert "no tokens" in empty


def test_the_terminal_names_the_clash() -> None:
    text = printed(clashing(), ["x", "y", "z"])
    head = text.split("\n\n")[0]
    assert "No labelling obeys the hard rules" in head and "forbid A" in head and "at least 2 tokens of A" in head
    assert "none: these are the labels that the scores alone prefer" in printed(given_up(), ["x"])
    assert "present B" not in head and "1x  at least 2 tokens of A" in head


# ---- the page -------------------------------------------------------------------------------------------------------


def test_the_page_tells_it_all(roles: Explanation) -> None:
    page = roles.html(TOKENS, title="s1", gold=GOLD)
    assert page == roles.html(TOKENS, title="s1", gold=GOLD)
    assert page.count('<polyline class="best"') >= 1 and "<h1>s1</h1>" in page and "the rules helped" in page
    for effect in roles.effects:
        assert f"<td>{effect.rule}</td>" in page.replace("&#x27;", "'")
    assert (
        "Penalties of soft rules" in page
        and "Next best under the rules" in page
        and "Rules that contradict each other" not in page
    )
    assert "Rules that contradict each other" in clashing().html()
    assert "obey all rules" in Decoder(AB, [r.present("A")]).explain(Lattice([[1.0, 0, 0]])).html()
    assert "none: there are no rules" in Decoder(AB).explain(Lattice([[1.0, 0, 0]])).html().lower()


def test_lines_of_a_long_sequence_without_changes_are_left_out() -> None:
    explanation = Decoder(AB, [r.forbid("A", at=90)]).explain(Lattice([[1.0, 0, 0]] * 100))
    page = explanation.html([f"token{t}" for t in range(100)])
    shown = page.split("<h2>The trellis")[0]
    assert "token90<" in shown and "token1<" not in shown and "Not all lines are shown." in shown


def test_many_changes_are_cut() -> None:
    explanation = Decoder(AB, [r.forbid("A")]).explain(Lattice([[1.0, 0, 0], [0, 1.0, 0]] * 1500))
    page = explanation.html()
    assert len(page) < 400_000 and "and 1,400 more places" in page and "more changed tokens are not shown" in page
    assert page.split("<h2>The trellis")[0].count('"dim">tokens ') == 8 and "Not all lines are shown." in page
    text = printed(explanation, None)
    assert len(text) < 40_000 and "more changed tokens are not shown" in text


def test_gold_that_the_model_does_not_know_stands_out() -> None:
    explanation = Decoder(AB, [r.forbid("A")]).explain(Lattice([[1.0, 0, 0]]))
    page = explanation.html(["x"], gold=["DATE"])
    assert f'style="background:{UNKNOWN}" title="DATE">x<' in page and "DATE (not a label of the model)" in page
    assert "not a label" not in explanation.html(["x"], gold=["A"])


def test_tokens_come_from_what_was_given_or_are_numbers() -> None:
    lattice = Lattice([[1.0, 0, 0], [1.0, 0, 0]])
    explanation = Decoder(AB, [r.fix("B", r.tokens("x+"))]).explain(lattice, {"tokens": ["a", "xx"]})
    assert ">xx<" in explanation.svg()
    assert ">1<title>1</title>" in Decoder(AB).explain(lattice).svg()
    for wrong in (["a"], "ab"):
        with pytest.raises(bridle.LabelError, match="tokens do not fit"):
            explanation.svg(wrong)
