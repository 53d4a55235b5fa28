"""The linter: each kind of finding; and, on random rule sets, its verdicts against enumeration."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import bridle
from bridle import FileError, LabelError, Labels, rules
from bridle import rules as r
from bridle.rules.base import Rule, Soft
from bridle.rules.lint import Finding, lint, unknown_labels, without_unknown, without_unseen
from bridle.rules.loading import Line, read_files
from strategies import labellings, random_labels, random_rule, random_soft, seeds

IO = Labels(["O", "A0", "A1"], "IO")
BIO = Labels(["O", "B-PER", "I-PER"], "BIO")


def found(*lines: str, labels: Labels | None = IO) -> list[tuple[int, str, str]]:
    return [(f.line, f.level, f.code) for f in lint(lines, labels)]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["at most 1 segment of A0", "", "# nothing", "A0 before A1 [penalty 2.0]"], []),
        ([], [(0, "info", "no-rules")]),
        (["what", "forbid A0", "A0 bfore A1"], [(1, "error", "syntax"), (3, "error", "syntax")]),
        (["forbid A0 [penalty -1]"], [(1, "error", "syntax")]),
        (["forbid A2, X", 'matches "O* Y"'], [(1, "error", "unknown-label")] * 2 + [(2, "error", "unknown-label")]),
        (["(present A0) and (forbid A0)"], [(1, "error", "never-holds")]),
        (['matches ""'], [(1, "error", "never-holds")]),
        (["(present A0) and (forbid A0) [penalty 1]"], [(1, "warning", "always-broken")]),
        (["present A0", "present A1", "at most 1 token of A0, A1"], [(3, "error", "clash")]),
        (["forbid A0", "forbid A0"], [(2, "warning", "duplicate")]),
        (["forbid A0 [penalty 1]", "forbid A0 [penalty 2]"], [(2, "warning", "duplicate")]),
        (["label at given v is O", "label at given v is O"], [(2, "warning", "duplicate"), (0, "info", "given")]),
        (["label at 0 is O", "label at 0 is O [penalty 2]"], [(2, "warning", "never-bites")]),
        (["no duplicates of A0, A1", "at most 1 segment of A0"], [(2, "warning", "redundant")]),
        (
            ["at most 1 segment of A0", "at most 1 segment of A1", "no duplicates of A0, A1"],
            [(3, "warning", "redundant")],
        ),
        (["present A0", "not (forbid A0)"], [(2, "warning", "redundant")]),
        (["at most 1 segment of A0", "at most 2 segments of A0 [penalty 1]"], [(2, "warning", "never-bites")]),
        (["forbid A0", "starts with A0 [penalty 1]"], [(2, "warning", "always-broken")]),
        (["if A0 then A0"], [(1, "warning", "always-holds")]),
        (["forbid A0 [penalty 0]"], [(1, "warning", "zero-penalty")]),
        (["forbid given bad at tokens /x/"], [(0, "info", "given")] * 2),
        (
            ["fix A0 at tokens /x/", "fix A1 at tokens /x/", "fix A1 at tokens /y/"],
            [(2, "error", "clash"), (0, "info", "given")],
        ),
        (["label at 0 is A0", "forbid A0"], [(2, "error", "clash")]),
        (["length of A0 at least 20000"], [(1, "info", "too-large")]),
        (["present A0 [penalty 1]", "exactly 1 segment of A0 [penalty 2]"], [(1, "warning", "charged-twice")]),
        (
            ["at most 1 segment of A0 [penalty 1]", "no duplicates of A0, A1 [penalty 2]"],
            [(1, "warning", "charged-twice")],
        ),
        (["present A0 [penalty 1]", "not (forbid A0) [penalty 2]"], [(1, "warning", "charged-twice")]),
        (["present A0 [penalty 1]", "at most 1 segment of A0 [penalty 2]"], []),
        (["present A0", "exactly 1 segment of A0 [penalty 2]"], []),
        (["A0 before A1 [penalty 1]", "first A0 before first A1 [penalty 1]"], [(2, "warning", "charged-twice")]),
    ],
)
def test_findings(lines: list[str], wanted: list[tuple[int, str, str]]) -> None:
    assert found(*lines) == wanted


def test_messages_help() -> None:
    def message(*lines: str, labels: Labels = IO) -> str:
        return lint(lines, labels)[0].message

    assert message("forbid a0") == "unknown label 'a0'; did you mean 'A0'?"
    assert message("forbid PRE", labels=BIO) == "unknown label 'PRE'; did you mean 'PER'?"
    assert "line 1 (starts with A0); line 3 (forbid A0)" in message("starts with A0", "present A1", "forbid A0")
    assert message("present A0", "at most 1 segment of A1", "at most 2 segments of A1").endswith("line 2")
    assert message("at most 1 token of given frame at") != ""
    texts = 'use the texts of tokens: data files have them, score files need "tokens"'
    fixed = ["fix A0 at tokens /a/", "fix A0 at tokens /b/", "fix A0 at tokens /c/", "", "fix A0 at tokens /d/"]
    assert message(*fixed) == f"lines 1-3, 5 {texts}"
    assert message("fix A0 at given a", "", "forbid A1 at given a") == "lines 1, 3 need given['a'] with each sequence"
    assert message("PER next to O", labels=BIO) == (
        "allows PER only segments of one token; for longer segments, write: PER next to PER, O"
    )


@pytest.mark.parametrize(
    ("rule", "labels", "output"),
    [
        ("A0 next to A1", IO, True),
        ("A0 next to A0, A1", IO, False),
        ("A0 next to A1 [penalty 1]", IO, False),
        ("(A0 next to A1) and (present A0)", IO, True),
        ("O next to A0", IO, False),
        ("A0 next to A1", Labels(IO.names), False),  # no scheme: labels of tokens, not of segments
        ("PER next to O", BIO, True),
        ("I-PER next to O", BIO, False),
        ("PER next to PER, O", BIO, False),
    ],
)
def test_next_to_is_about_tokens(rule: str, labels: Labels, output: bool) -> None:
    assert ((1, "warning", "one-token") in found(rule, labels=labels)) is output


def test_without_labels_only_the_text_is_checked() -> None:
    assert found("forbid X", "forbid X", "x y", labels=None) == [
        (2, "warning", "duplicate"),
        (3, "error", "syntax"),
        (0, "info", "no-labels"),
    ]


def test_large_sets_end_in_time() -> None:
    """Each at most once: the product has 3^13 states; the questions need few of them."""
    labels = Labels(["O", *(f"L{k}" for k in range(13))], "IO")
    rules = [f"at most 1 segment of L{k}" for k in range(13)]
    assert found(*rules, labels=labels) == []
    whole = f"no duplicates of {', '.join(labels.names[1:])}"
    assert found(*rules, whole, labels=labels) == [(14, "warning", "redundant")]
    total = f"at most 13 segments of {', '.join(labels.names[1:])}"  # needs them all
    assert found(*rules, total, labels=labels) == [(14, "info", "too-large")]


def test_verdicts_agree_with_enumeration() -> None:
    """Up to length 4. What is said to hold for all lengths must hold there; a clash must leave no labelling."""
    seen = set()
    for rng in seeds(400):
        labels = random_labels(rng)
        if len(labels) > 3:
            continue
        rules: list[Rule] = []
        for _ in range(int(rng.integers(1, 5))):
            rule, _ = random_rule(rng, labels, 0, depth=1)
            if not rule.places() and all(field.fixed for field in rule.names()):
                rules.append(random_soft(rng, rule) if rng.random() < 0.4 else rule)
        texts = [str(rule) for rule in rules]
        words = [w for n in range(1, 5) for w in product(range(len(labels)), repeat=n)]
        for finding in lint(texts, labels):
            agrees(finding, rules, words, labels)
            seen.add(finding.code)
        codes = {f.code for f in lint(texts, labels)}
        hard = [rule for rule in rules if not isinstance(rule, Soft)]
        if not codes & {"clash", "never-holds", "too-large"} and len(labels) > 0:
            longer = [*words, *product(range(len(labels)), repeat=6)]
            assert any(all(rule.holds(w, labels) for rule in hard) for w in longer), texts
    assert {"clash", "never-holds", "always-holds", "redundant", "never-bites", "charged-twice"} <= seen


def agrees(f: Finding, rules: list[Rule], words: list[tuple[int, ...]], labels: Labels) -> None:
    rule = rules[f.line - 1] if f.line else None
    others = [other for k, other in enumerate(rules) if k != f.line - 1 and not isinstance(other, Soft)]
    legal = [w for w in words if all(other.holds(w, labels) for other in others)]
    if f.code == "never-holds":
        assert rule is not None and not any(rule.holds(w, labels) for w in words), f
    elif f.code == "clash":
        hard = [x for x in rules if not isinstance(x, Soft)]
        assert not any(all(x.holds(w, labels) for x in hard) for w in words), f
    elif f.code == "always-holds":
        assert rule is not None and all(rule.holds(w, labels) for w in words), f
    elif f.code in ("redundant", "never-bites"):
        assert rule is not None and all(rule.holds(w, labels) for w in legal), f
    elif f.code == "charged-twice":
        named = [int(number) for number in re.findall(r"line (\d+)", f.message)]
        assert rule is not None and named
        for other in named:
            assert not any(rules[other - 1].holds(w, labels) and not rule.holds(w, labels) for w in words), f
    elif f.code == "always-broken":
        assert rule is not None and not any(rule.holds(w, labels) for w in legal), f


def test_several_files_are_checked_together(tmp_path: Path) -> None:
    """Each line is named with its file; a file that is met again is reported, and not charged again."""
    item, two = tmp_path / "a.rules", tmp_path / "b.rules"
    item.write_text("present A0  [penalty 1]\ninclude b.rules\n")
    two.write_text("# nothing\nno duplicate of A0\nexactly 1 segment of A0  [penalty 2]\nforbid A9\n")
    output = lint(read_files([item, two]), IO)
    assert [(Path(f.file).name, f.line, f.level, f.code) for f in output] == [
        ("a.rules", 1, "warning", "charged-twice"),
        ("b.rules", 2, "error", "syntax"),
        ("b.rules", 4, "error", "unknown-label"),
        ("b.rules", 0, "warning", "read-once"),
    ]
    assert f"also breaks line 3 of {two} (exactly 1 segment of A0" in output[0].message
    assert output[1].message.endswith(f"Did you mean: no duplicates of A0 {two} is included by {item}:2.")
    two.write_text("present A0  [penalty 1]\npresent A0\n")
    output = lint(read_files([item]), IO)
    assert [(Path(f.file).name, f.line, f.code) for f in output] == [
        ("a.rules", 1, "never-bites"),
        ("b.rules", 1, "duplicate"),
    ]
    assert output[1].message == f"the same rule as line 1 of {item}; both penalties are paid"


def test_large_files_of_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Automata are made once per rule, and only so many; rules beyond the maximum are refused."""
    labels = Labels(["A", "B"])
    lines = [f"at most {k} tokens of A  [penalty 1]" for k in range(1, 9)] * 2
    assert "too-large" not in {finding.code for finding in lint(lines, labels)}
    monkeypatch.setattr("bridle.rules.lint_automata._MOST_STATES", 20)
    assert "too-large" in {finding.code for finding in lint(lines, labels)}
    path = tmp_path / "x.rules"
    path.write_text("\n".join(lines))
    assert len(rules.load(path)) == 16
    monkeypatch.setattr("bridle.rules.loading.MOST_RULES", 15)
    with pytest.raises(FileError, match=r"x\.rules: there are too many rules; got more than 15"):
        rules.load(path)
    with pytest.raises(FileError, match="there are too many rules"):
        lint(lines, labels)
    monkeypatch.setattr("bridle.rules.loading.LARGEST", 100)
    with pytest.raises(FileError, match="the rules file is too large; got more than 100 bytes"):
        rules.load(path)


# ---- unknown labels --------------------------------------------------------------------------------------------------

LABELS = Labels(["O", "A", "B"])


def lines(*texts: str) -> list[Line]:
    return r.parse_lines(texts)


def test_the_nearest_label_is_named() -> None:
    labels = Labels(["O", "B-PER", "I-PER"], "BIO")
    result = unknown_labels(lines("present PRE, PER", "forbid X", 'matches "O* Q"', "fix b-per at given verb"), labels)
    assert [(item.line.number, item.message) for item in result] == [
        (1, "unknown label 'PRE'; did you mean 'PER'?"),
        (2, "unknown label 'X'; known: O, B-PER, I-PER, PER"),
        (3, "unknown label 'Q'; known: O, B-PER, I-PER, PER"),
        (4, "unknown label 'b-per'; did you mean 'B-PER'?"),
    ]


@pytest.mark.parametrize("rule", ["present TITEL", "TITEL before A", "fix TITEL at given x", 'matches "TITEL*"'])
def test_python_says_so_too(rule: str) -> None:
    labels = Labels(["O", "A", "TITLE"])
    with pytest.raises(LabelError, match="Did you mean 'TITLE'"):
        bridle.Decoder(labels, [rule])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("no duplicates of A, X", "no duplicates of A"),
        ("at most 1 segment of A, X  [penalty 2]", "at most 1 segment of A  [penalty 2.0]"),
        ("A, X before B", "A before B"),
        ("first A before first B, X", "first A before first B"),
        ("forbid A then B, X", "forbid A then B"),
        ("forbid A, X at 0", "forbid A at 0"),
        ("length of A, X at most 2", "length of A at most 2"),
        ("X before B", None),
        ("forbid X", None),
        ("present X", None),
        ("present A, X", None),  # could be obeyed by X only, which the model lacks
        ("A next to A, X", None),
        ("allow A, X", None),
        ("if A then X", None),
        ("at least 1 token of A, X", None),
        ("(no duplicates of A, X) or (present B)", None),
        ('matches "[A X]*"', None),
    ],
)
def test_what_is_left_of_a_rule(text: str, left: str | None) -> None:
    kept, output = without_unknown(lines("present A", text), LABELS)
    assert [str(line.rule) for line in kept] == ["present A", *([] if left is None else [left])]
    [(line, why)] = output
    assert line.number == 2 and why.startswith("unknown label 'X'; known: O, A, B; the rule is ")
    assert why.endswith(f"left out: {r.parse(text)}" if left is None else f"read as: {left}")


@pytest.mark.parametrize(
    "text", ["no duplicates of A, X", "A, X before B, X", "forbid A then B, X", "length of A, X at most 1"]
)
def test_a_rule_that_only_forbids_keeps_its_meaning(text: str) -> None:
    """On labellings without X, which are all that a model without it can find."""
    whole, wide = r.parse(text), Labels(["O", "A", "B", "X"])
    [kept], _ = without_unknown(lines(text), LABELS)
    for y in labellings(4, 3):
        assert kept.rule.violations(y, LABELS) == whole.violations(y, wide)


@pytest.mark.parametrize(
    "text", ["no duplicates of A, X", "forbid X", "A next to A, X", "no duplicates of TITLE, TITEL"]
)
def test_rules_that_only_forbid_apply_to_the_labels_that_there_are(text: str) -> None:
    labels = Labels(["O", "A", "B", "TITLE"])
    [kept], notes = without_unseen(lines(text), labels)
    left = "no duplicates of A" if text == "no duplicates of A, X" else text  # TITEL may be misspelled
    assert kept.rule == r.parse(left) and len(notes) == (left != text)


def test_known_names_stay_as_they_are() -> None:
    given = lines("present A", "fix B at given x", "allow given frame")
    assert without_unknown(given, LABELS) == (given, [])
