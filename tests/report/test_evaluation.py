"""Evaluations as lines and as a page: complete, escaped, and readable without colours."""

from __future__ import annotations

import re

from bridle.report import score
from bridle.report.evaluation import Evaluation, RuleCount, WrongSequence
from tests.report.test_page import Balance

NASTY = "<script>alert(1)</script>\x1b[31m\"'&"


def wrong(tokens: list[str], gold: list[str | None], guessed: list[str]) -> WrongSequence:
    result = WrongSequence.of("x:1", tokens, gold, guessed)
    assert result is not None
    return result


def test_what_users_wrote_is_escaped() -> None:
    scores = score([["A", NASTY]], [[NASTY, NASTY]])
    item = wrong(["a", NASTY], ["A", NASTY], [NASTY, NASTY])
    page = Evaluation(scores, [item], [RuleCount(NASTY, 1, 2)]).page(NASTY, NASTY).html()
    assert "<script" not in page and "\x1b" not in page and "&lt;script&gt;" in page
    Balance().feed(page)
    assert not re.search(r"(src|href)=", page)


def test_the_matrix_says_in_words_what_it_shows() -> None:
    scores = score([["A", "A", "B"]], [["A", "B", "B"]])
    page = Evaluation(scores).page("x").html()
    assert 'title="gold A, predicted B: 1 (50.0% of the row)">1</td>' in page and '<th scope="row">A</th>' in page
    assert "No label is taken for another." in Evaluation(score([["A"]], [["A"]])).page("x").html()


def test_large_tables_are_cut_and_say_so() -> None:
    gold = [[f"L{k:02}" for k in range(60)]]
    result = Evaluation(score(gold, [gold[0][1:] + gold[0][:1]]))
    lines = list(result.lines())
    assert "and 30 more labels" in lines and "and 50 more confusions" in lines
    assert len(list(result.lines(labels=None))) == len(lines) + 29
    assert "Only the 40 labels" in result.page("x").html()


def test_long_sequences_show_what_is_around() -> None:
    tokens = [f"t{k}" for k in range(100)]
    gold: list[str | None] = ["O"] * 100
    item = wrong(tokens, gold, ["O"] * 50 + ["X"] + ["O"] * 49)
    scores = score([["O"] * 100], [list(item.guessed)])
    lines = list(Evaluation(scores, [item]).lines())
    assert "x:1: 1 of 100 labels wrong" in lines and "  t50    O     X          <" in lines
    assert not any(line.startswith("  t47") for line in lines) and "  ..." in lines
    assert "t50" in (page := Evaluation(scores, [item]).page("x").html()) and ">t9<" not in page


def test_labels_that_are_not_known_are_not_wrong() -> None:
    assert WrongSequence.of("x", ["a"], [None], ["X"]) is None
    assert wrong(["a", "b"], [None, "Y"], ["X", "X"]).wrong == [1]


def test_json_has_everything() -> None:
    item = wrong(["a"], ["A"], ["B"])
    result = Evaluation(score([["A"]], [["B"]]), [item], [RuleCount("present A", 0, 1)], 0).to_dict()
    assert result["confusion"] == {"A": {"B": 1}} and result["rules"][0]["predicted"] == 1
    assert result["wrong"] == [{"sequence": "x:1", "tokens": ["a"], "gold": ["A"], "predicted": ["B"]}]
