"""Rules from several files, and from files that include others."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle import FileError, RuleSyntaxError
from bridle import rules as r
from bridle.rules.loading import load_lines, read_files
from bridle.rules.text import included_by


def write(folder: Path, **files: str) -> Path:
    """Files by name (`a` is a.rules; `sub__b` is sub/b.rules); the path of the first."""
    paths = [folder / f"{name.replace('__', '/')}.rules" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return paths[0]


def test_several_files_add_up(tmp_path: Path) -> None:
    one = write(tmp_path, a="present A\n", b="# first\npresent B  # so\n")
    two = tmp_path / "b.rules"
    assert r.load(one, two) == [r.present("A"), r.present("B")] and r.load(two, one)[0] == r.present("B")
    assert [(line.where, line.comment) for line in load_lines(one, two)] == [(f"{one}:1", ""), (f"{two}:2", "so")]


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
    found = read_files([top, tmp_path / "b.rules", str(top)])
    assert len(found.check()) == 1
    assert [(Path(str(file)).name, line) for file, line, _ in found.again] == [
        ("a.rules", 2),
        ("b.rules", 0),
        ("a.rules", 0),
    ]
    assert found.again[0][2] == f"sub/../b.rules is already included by {top}:1; it is read once"


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
    assert [one.what for one in (caught.value, *caught.value.others)] == [
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
    found = read_files([top, tmp_path / "c.rules"])
    assert found.priced_for == {str(top): "a" * 16, str(tmp_path / "b.rules"): "b" * 16}
