"""Rules from several files, and from files that include others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import FileError, RuleSyntaxError, rules
from bridle import rules as r
from bridle.decoding.decoder import Decoder
from bridle.labels import Labels
from bridle.rules.lint import lint
from bridle.rules.loading import RuleExample, load_lines, parse_example, read_files, read_lines
from bridle.rules.suggestions import STRAIGHT_QUOTES
from bridle.rules.text import EXAMPLE, included_by


def write(folder: Path, **files: str) -> Path:
    """Files by name (`a` is a.rules; `sub__b` is sub/b.rules); the path of the first."""
    paths = [folder / f"{name.replace('__', '/')}.rules" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return paths[0]


def test_several_files_add_up(tmp_path: Path) -> None:
    item = write(tmp_path, a="present A\n", b="# first\npresent B  # so\n")
    two = tmp_path / "b.rules"
    assert r.load(item, two) == [r.present("A"), r.present("B")] and r.load(two, item)[0] == r.present("B")
    assert [(line.where, line.comment) for line in load_lines(item, two)] == [(f"{item}:1", ""), (f"{two}:2", "so")]


def test_paths_start_in_the_folder_of_their_file(tmp_path: Path) -> None:
    top = write(
        tmp_path,
        a='present A\n  include sub/b.rules  # the rest\ninclude "my own.rules"\npresent E\n',
        sub__b="present B\ninclude c.rules\n",
        sub__c="present C\n",
    )
    (tmp_path / "my own.rules").write_text("present D\n")
    lines = load_lines(top)
    assert [str(line.rule) for line in lines] == [f"present {name}" for name in "ABCDE"]
    assert [line.file for line in lines] == [
        str(tmp_path / name) for name in ("a.rules", "sub/b.rules", "sub/c.rules", "my own.rules", "a.rules")
    ]
    assert r.parse_lines(["include sub/b.rules"], folder=tmp_path)[1].rule == r.present("C")


def test_each_file_is_read_once(tmp_path: Path) -> None:
    top = write(tmp_path, a="include b.rules\ninclude sub/../b.rules\n", b="present B [penalty 1]\n", sub__c="")
    result = read_files([top, tmp_path / "b.rules", str(top)])
    assert len(result.check()) == 1
    assert [(Path(str(file)).name, line) for file, line, _ in result.again] == [
        ("a.rules", 2),
        ("b.rules", 0),
        ("a.rules", 0),
    ]
    assert result.again[0][2] == f"sub/../b.rules is already included by {top}:1; it is read once"


def test_a_circle_is_told(tmp_path: Path) -> None:
    top = write(tmp_path, a="present A\ninclude b.rules\n", b="\ninclude c.rules\n", c="include a.rules\n")
    with pytest.raises(RuleSyntaxError) as caught:
        r.load(top)
    error = caught.value
    assert (error.file, error.line, error.what) == (str(tmp_path / "c.rules"), 1, "a.rules includes itself")
    assert error.got == "a.rules includes b.rules includes c.rules includes a.rules"
    assert error.cause == f"Included by {tmp_path / 'b.rules'}:2."
    alone = write(tmp_path, d="include d.rules\n")
    with pytest.raises(RuleSyntaxError, match=r"d\.rules includes itself"):
        r.load(alone)


def test_what_is_wrong_in_a_file_that_is_included(tmp_path: Path) -> None:
    top = write(tmp_path, a="include b.rules\ninclude none.rules\nwhat\n", b="A befor B\n")
    with pytest.raises(RuleSyntaxError) as caught:
        r.load(top)
    first, *others = caught.value, *caught.value.others
    assert first.where == f"{tmp_path / 'b.rules'}:1"
    assert first.cause == f"Did you mean: A before B\n{tmp_path / 'b.rules'} is included by {top}:1."
    assert [other.where for other in others] == [f"{top}:2", f"{top}:3"]
    assert others[0].what == "cannot include none.rules: cannot read the rules file" and others[0].got
    assert str(tmp_path / "none.rules") in str(others[0].cause)


def test_depth_files_and_rules_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(25):
        (tmp_path / f"{k}.rules").write_text(f"present A{k}\ninclude {k + 1}.rules\n")
    with pytest.raises(
        RuleSyntaxError, match=r"files include each other too deeply; got 20\.rules; wanted at most 20 deep"
    ):
        r.load(tmp_path / "0.rules")
    top = write(tmp_path, a="include b.rules\npresent A\n", b="present A\n" * 9)
    monkeypatch.setattr("bridle.rules.loading.MOST_RULES", 9)
    with pytest.raises(FileError, match=r"a\.rules: there are too many rules; got more than 9"):
        r.load(top)
    monkeypatch.setattr("bridle.rules.loading.MOST_RULES", 8)
    with pytest.raises(FileError, match=r"b\.rules: there are too many rules"):
        r.load(top)
    monkeypatch.setattr("bridle.rules.loading._MOST_FILES", 1)
    with pytest.raises(RuleSyntaxError, match=r"cannot include b\.rules: there are too many rules files"):
        r.load(top)


def test_text_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a="present A\n")
    for ask in (lambda: r.parse("include a.rules"), lambda: r.parse_lines(["include a.rules"], "my.rules")):
        with pytest.raises(RuleSyntaxError, match=r"no files are included here; got 'include a\.rules'"):
            ask()


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("include a.rules", "a.rules"),
        ('\tinclude  "a b.rules"  # so', "a b.rules"),
        ('include "C:\\new.rules"', "C:\\new.rules"),
        ("include a#b.rules", "a#b.rules"),
        ("include ../x/y.rules#", "../x/y.rules#"),
        ("include", None),
        ("include # nothing", None),
        ("include before B", None),
        ("include, A before B", None),
        ("present include", None),
        ('include ""', None),
    ],
)
def test_what_an_include_looks_like(line: str, path: str | None) -> None:
    assert included_by(line) == path


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("include before B", r.before("include", "B")),
        ("include followed by first", r.followed_by("include", "first")),
        (
            "present first, for, equal, ignoring, case, include",
            r.present(["first", "for", "equal", "ignoring", "case", "include"]),
        ),
        ("first before B", r.before("first", "B")),
        ("A before first", r.before("A", "first")),
        ("first, A before first", r.before(["first", "A"], "first")),
        ("first first before first first", r.first_before("first", "first")),
        ("forbid for at 0", r.forbid("for", 0)),
        ("(present case) and (present equal)", r.present("case") & r.present("equal")),
    ],
)
def test_labels_with_the_names_of_new_words_mean_what_they_did(line: str, rule: r.Rule, tmp_path: Path) -> None:
    assert r.parse(line) == rule == r.parse(str(rule))
    assert r.load(write(tmp_path, a=line + "\n")) == [rule]


def test_odd_paths(tmp_path: Path) -> None:
    top = write(tmp_path, a='include "\0"\ninclude .\n')
    with pytest.raises(RuleSyntaxError) as caught:
        r.load(top)
    assert [item.what for item in (caught.value, *caught.value.others)] == [
        "cannot include \0: cannot read the rules file",
        "cannot include .: cannot read the rules file",
    ]
    with pytest.raises(FileError, match="cannot read the rules file"):
        r.load(tmp_path / "none.rules")


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    top = write(tmp_path, a="include b.rules\ninclude c.rules\n", b="present B\n")
    (tmp_path / "c.rules").symlink_to(tmp_path / "b.rules")
    assert len(r.load(top)) == 1


def test_models_that_files_were_priced_for(tmp_path: Path) -> None:
    heads = [f"# priced for model {digit * 16} on 3 sequences\n" for digit in "ab"]
    top = write(
        tmp_path, a=f"{heads[0]}present A [penalty 1]\ninclude b.rules\n", b=f"{heads[1]}present B [penalty 1]\n", c=""
    )
    result = read_files([top, tmp_path / "c.rules"])
    assert result.priced_for == {str(top): "a" * 16, str(tmp_path / "b.rules"): "b" * 16}


# ---- test cases in files ---------------------------------------------------------------------------------------------

KNUTH = 'example "Knuth, D. The TeXbook. 1984" has AUTHOR "Knuth, D.", DATE "1984"'
LABELS = Labels(["O", "AUTHOR", "TITLE", "DATE"], scheme="IO")

some_text = st.text(min_size=1).filter(str.strip)
some_spans = st.lists(st.tuples(st.text(min_size=1), some_text), min_size=1, max_size=4).map(tuple)
any_example = st.one_of(
    st.builds(RuleExample, some_text, st.sampled_from(["has", "is"]), some_spans),
    st.builds(RuleExample, some_text, st.just("is"), st.just(())),
)


@given(any_example)
def test_what_is_printed_is_read_again(example: RuleExample) -> None:
    line = str(example)
    assert EXAMPLE.match(line) and "\n" not in line and "\r" not in line
    assert parse_example(line) == parse_example(f"  {line}  # {line}") == example


def test_a_line_is_read() -> None:
    spans = (("AUTHOR", "Knuth, D."), ("DATE", "1984"))
    assert parse_example(KNUTH) == RuleExample("Knuth, D. The TeXbook. 1984", "has", spans)
    assert parse_example(r'example "a \"b\"" is nothing') == RuleExample('a "b"', "is", ())
    assert parse_example('example "a" is nothing "a"').spans == (("nothing", "a"),)  # a label of that name


@pytest.mark.parametrize(
    "line",
    [
        "example before TITLE",
        "example, TITLE before DATE",
        'example, "a b" before DATE',
        "present example",
        "example next to has",
        "example followed by has, example",
        'fix TITLE at example "x"',
        'not (example before "has")',
    ],
)
def test_rules_about_a_label_called_example_mean_what_they_did(line: str) -> None:
    assert not EXAMPLE.match(line)
    result = read_lines([line])
    assert not result.examples and not result.wrong
    assert str(result.lines[0].rule) == str(rules.parse(line))


@pytest.mark.parametrize(
    ("line", "got", "wanted"),
    [
        ('example "a b" was X "a"', "'was X a'", "'has' or 'is'"),
        ('example "a b"', "the end of the line", "'has' or 'is'"),
        ('example "a b" has', "the end of the line", "a label and a phrase"),
        ('example "a b" has X', "the end of the line", "after the label X"),
        ('example "a b" has X a', "'a'", "in quotation marks, after the label X"),
        ('example "a b" has X "a" Y "b"', "'Y b'", "a comma"),
        ('example "a b" has X "a",', "the end of the line", "a label and a phrase"),
        ('example "a b" has nothing', "the end of the line", "after the label nothing"),
        ('example "a b" has X ""', 'X ""', "example"),
        ('example " " is nothing', "' '", "a text"),
        ('example "a b', "'\"a b'", "a closed quotation"),
    ],
)
def test_a_bad_line_says_what_was_expected(line: str, got: str, wanted: str) -> None:
    assert EXAMPLE.match(line)
    [error] = read_lines([line], "my.rules").wrong
    assert (error.where, error.got) == ("my.rules:1", got)
    assert wanted in str(error.wanted)


def test_a_test_case_is_no_rule() -> None:
    with pytest.raises(RuleSyntaxError, match="a test case is not a rule"):
        rules.parse(KNUTH)
    with pytest.raises(RuleSyntaxError, match="a test case is not a rule"):
        Decoder(LABELS, [f"  {KNUTH}  # with a comment"])


def test_files_keep_them_apart_from_rules(tmp_path: Path) -> None:
    main, other = tmp_path / "main.rules", tmp_path / "other.rules"
    main.write_text(f"present TITLE\n{KNUTH}  # the first\ninclude other.rules\n", "utf-8")
    other.write_text('starts with AUTHOR\n\nexample "x" is nothing\n', "utf-8")
    result = read_files([main])
    assert [str(line.rule) for line in result.check()] == ["present TITLE", "starts with AUTHOR"]
    assert [(sentence.file, sentence.number, sentence.comment) for sentence in result.examples] == [
        (str(main), 2, "the first"),
        (str(other), 3, ""),
    ]
    assert result.examples[1].where == f"{other}:3"
    assert list(map(str, rules.load(main))) == ["present TITLE", "starts with AUTHOR"]
    assert [line.number for line in rules.parse_lines([KNUTH, "present TITLE"])] == [2]


def test_the_linter_checks_labels_and_phrases() -> None:
    lines = [
        KNUTH,
        'example "Knuth 1984" has DATE "1984", AUTHOR "Knuth"',
        'example "Knuth 1984" has DATE "1985"',
        'example "a a" has TITLE "a", TITLE "a"',
        'example "a a" has TITLE "a", TITLE "a", TITLE "a"',
        'example "Knuth 1984" has AUTOR "Knuth"',
    ]
    result = [(f.line, f.level, f.code) for f in lint(["present TITLE", *lines], LABELS)]
    assert result == [
        (3, "error", "example-phrase"),
        (4, "error", "example-phrase"),
        (6, "error", "example-phrase"),
        (7, "error", "unknown-label"),
    ]
    messages = [f.message for f in lint(["present TITLE", *lines], LABELS)]
    assert messages[0] == '"Knuth" does not occur after "1984" in the text; name segments in order'
    assert messages[1] == 'the text of the test case does not contain "1985"'
    assert messages[3] == "unknown label 'AUTOR'; did you mean 'AUTHOR'?"


def test_segments_have_types_not_tags() -> None:
    labels = Labels(["O", "B-PER", "I-PER"], scheme="BIO")
    [finding] = lint(["present PER", 'example "Ada" has B-PER "Ada"'], labels)
    assert (finding.code, finding.suggestion) == ("unknown-label", 'example "Ada" has PER "Ada"')
    assert lint(["present PER", 'example "Ada" has PER "Ada"'], labels) == []


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("example “to Bonn” has CITY “Bonn”  # “so”", 'example "to Bonn" has CITY "Bonn"  # “so”'),
        ("example „it’s Bonn“ has CITY ‘Bonn’", 'example "it’s Bonn" has CITY "Bonn"'),
        ('example "the “Bonn”" has CITY “Bonn”', 'example "the “Bonn”" has CITY "Bonn"'),
        ('example "to Bonn” has CITY "Bonn”', 'example "to Bonn" has CITY "Bonn"'),
        ("example “to Bonn” has “Bonn”", None),
    ],
)
def test_curly_quotation_marks(line: str, meant: str | None) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        rules.parse_lines([line])
    assert caught.value.suggestion == meant
    assert str(caught.value.cause).startswith(STRAIGHT_QUOTES)
