"""CSV and TSV with named columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.data import Example, read, write
from bridle.errors import FileError

KAGGLE = "Sentence #,Word,POS,Tag\nSentence: 1,Thousands,NNS,O\n,of,IN,O\nSentence: 2,Iran,NNP,B-geo\n"


def saved(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_rows_without_text_stand_between_sequences(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.csv", 'pos,word,label\r\n\r\nPRP,He,B\r\nX,"a, ""b""\nc",I\r\n,,\r\n\r\nPRP,She,B\r\n')
    result = list(read(path))
    assert [(x.columns, x.labels) for x in result] == [
        ({"word": ["He", 'a, "b"\nc'], "pos": ["PRP", "X"]}, ["B", "I"]),
        ({"word": ["She"], "pos": ["PRP"]}, ["B"]),
    ]
    assert [x.where for x in result] == [f"{path}:3", f"{path}:8"]
    assert next(iter(result[0].columns)) == "word"


def test_a_column_that_numbers_sequences(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.csv", KAGGLE)
    names = {"tokens": "Word", "label": "Tag", "sequence": "Sentence #"}
    result = list(read(path, **names))
    assert [(x.id, x.columns, x.labels) for x in result] == [
        ("Sentence: 1", {"word": ["Thousands", "of"], "POS": ["NNS", "IN"]}, ["O", "O"]),
        ("Sentence: 2", {"word": ["Iran"], "POS": ["NNP"]}, ["B-geo"]),
    ]
    write(tmp_path / "y.tsv", result, "tsv", **names)
    assert list(read(tmp_path / "y.tsv", "tsv", **names)) == result
    assert (tmp_path / "y.tsv").read_text().splitlines()[1] == "Sentence: 1\tThousands\tNNS\tO"
    assert [list(x.columns) for x in read(path, **names, columns=[])] == [["word"], ["word"]]


def test_sequences_without_a_name_are_numbered(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", [Example({"word": ["a"]}), Example({"word": ["b"]})], sequence="n")
    assert (tmp_path / "x.csv").read_text() == "n,word\n0,a\n1,b\n"


def test_labels_may_be_missing(tmp_path: Path) -> None:
    for text in ("word,pos\na,X\n", "word,pos,label\na,X,\n"):
        (result,) = read(saved(tmp_path / "x.csv", text))
        assert (result.labels, result.columns) == (None, {"word": ["a"], "pos": ["X"]})
    (result,) = read(saved(tmp_path / "x.csv", "word,label\na,X\n"), label=None)
    assert (result.labels, result.columns) == (None, {"word": ["a"], "label": ["X"]})


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=5)


@pytest.mark.parametrize("name", ["csv", "tsv"])
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_any_cells_survive(tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.getbasetemp() / f"cells.{name}"
    example = Example({"word": [word for word, _ in rows]}, [label for _, label in rows])
    write(path, [example, example], name)
    assert [(x.tokens, x.labels) for x in read(path, name)] == [(example.tokens, example.labels)] * 2


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "token,label\na,X\n",
            {},
            "x:1: the column does not exist; got 'token', 'label'; wanted 'word'.\nPass tokens=...",
        ),
        ("word,label\na,X\n", {"sequence": "s"}, "x:1: the column does not exist; .*; wanted 's'"),
        ("word,label\na,X\n", {"columns": ["pos"]}, "x:1: the column does not exist; .*; wanted 'pos'"),
        ("word,word\na,X\n", {}, "x:1: the first row does not name columns"),
        ("word,W\na,X\n", {"tokens": "W"}, "x:1: two columns would have the name 'word'"),
        (",".join(map(str, range(1001))), {}, "x:1: the first row does not name columns"),
        ("word,label\na,X\nb\n", {}, "x:3: a row has a different number of cells; got 1 cells; wanted 2"),
        ("s,word\n1,a\n2\n", {"sequence": "s"}, "x:3: a row has a different number of cells"),
        ("word,label\n,X\n", {}, "x:2: a token has no text"),
        ("word,label\na,X\nb,\n", {}, "x:2: a token has no label; got \\['b', ''\\]"),
        ('word,label\n"a,X\n', {}, "x:2: not a table; got unexpected end of data.*\n.*Pass quote=None"),
        ('word,label\n"a"b,X\n', {}, "x:2: not a table; got ',' expected after '\"'"),
        ('word,label\n"' + "a" * 200_000, {}, "x:2: not a table; got field larger than field limit"),
        ("word\na\n", {"quote": "''"}, "`quote` must be a single character"),
        ("word\na\n", {"columns": "pos"}, "`columns` must be a list of names"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError, match=message) as caught:
        list(read(saved(tmp_path / "x", text), "csv", **options))
    assert len(str(caught.value)) < 1000


def test_quotation_marks_may_be_tokens(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", 'word\tlabel\n"\tX\n')
    assert [x.tokens for x in read(path, "tsv", quote=None)] == [['"']]
    write(tmp_path / "y", read(path, "tsv", quote=None), "tsv", quote=None)
    assert (tmp_path / "y").read_text() == 'word\tlabel\n"\tX\n\n'
    with pytest.raises(FileError, match="a cell cannot be written"):
        write(tmp_path / "y", [Example({"word": ["a\tb"]}, ["X"])], "tsv", quote=None)


def test_a_sequence_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.data.limits.MOST_LINES", 100)
    with pytest.raises(FileError, match="x:2: a sequence is too long"):
        list(read(saved(tmp_path / "x", "word\n" + "a\n" * 200), "csv"))


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (
            [Example({"word": ["a"]}, ["X"]), Example({"word": ["a"]})],
            "other columns than the first; got word; wanted word, label",
        ),
        ([Example({"word": ["a"], "label": ["b"]}, ["X"])], "columns have the same name"),
        ([Example({"word": ["a", ""]}, ["X", "Y"])], "an empty token cannot be written"),
        ([Example({"word": ["a\r"]}, ["X"])], "a cell cannot be written"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, examples: list[Example], message: str) -> None:
    with pytest.raises(FileError, match=message):
        write(tmp_path / "x", examples, "csv")


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("word\tlabel", {}),
        ("Word\tTag", {"tokens": "Word", "label": "Tag"}),
        ("token\tner", {"tokens": "token", "label": "ner"}),
    ],
)
def test_tabs_and_a_row_of_names(tmp_path: Path, header: str, options: dict[str, Any]) -> None:
    """Without a row of names such files are conll, whatever they are called."""
    rows = "Ann\tB-PER\nleft\tO\n\nHe\tO\n"
    for name in ("x.tsv", "x.txt"):
        path = saved(tmp_path / name, f"{header}\n{rows}")
        result = read(path, **options)
        assert result.format == "tsv"
        assert [(x.tokens, x.labels) for x in result] == [(["Ann", "left"], ["B-PER", "O"]), (["He"], ["O"])]
        assert read(saved(tmp_path / name, rows)).format == "conll"


def test_a_row_of_other_names_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"'token', 'label'; wanted 'word'.\nPass tokens="):
        list(read(saved(tmp_path / "x.tsv", "token\tlabel\nAnn\tB-PER\n")))


def test_other_delimiters(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.csv", "word;label\nAnn;B-PER\n,;O\n")
    (result,) = read(path, delimiter=";")
    assert (result.tokens, result.labels) == (["Ann", ","], ["B-PER", "O"])
    write(tmp_path / "y.csv", [result], delimiter=";")
    assert (tmp_path / "y.csv").read_text() == "word;label\nAnn;B-PER\n,;O\n\n"
    with pytest.raises(
        FileError, match=r"x.csv:1: the first row has only one cell; got 'word;label'.*\n?.*delimiter=';'"
    ):
        list(read(path))
    with pytest.raises(FileError, match=r"the first row has only one cell.*\n?.*format='tsv'"):
        list(read(saved(tmp_path / "z.csv", "word\tlabel\nAnn\tO\n")))
    for wrong in ("", ";;", "\n", '"', None):
        with pytest.raises(FileError, match="`delimiter` must be a single character"):
            read(path, delimiter=wrong)
