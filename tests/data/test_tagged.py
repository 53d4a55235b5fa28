"""Text with tags, segments, JSON lines and Arrow tables: tokens, labels, and what goes wrong on which line."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bridle.data import Example, read, write
from bridle.errors import FeatureError, FileError, GivenError

pa: Any = import_module("pyarrow")  # it has no types
pq: Any = import_module("pyarrow.parquet")


def parsed(tmp_path: Path, text: str, name: str, **options: Any) -> list[Example]:
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode())
    return list(read(path, name, **options))


def wrong(tmp_path: Path, text: str, name: str, **options: Any) -> str:
    with pytest.raises(FileError) as caught:
        parsed(tmp_path, text, name, **options)
    return str(caught.value).removeprefix(f"{tmp_path}/")


# ---- tagged ---------------------------------------------------------------------------------------------------------

CITED = "<author> A. Cau, & B. </author> <date> (1992). </date>"


@pytest.mark.parametrize(
    ("tokens", "author", "date"),
    [
        ("blanks", ["A.", "Cau,", "&", "B."], ["(1992)."]),
        ("words", ["A", "Cau", "B"], ["1992"]),
        ("punctuation", ["A", ".", "Cau", ",", "&", "B", "."], ["(", "1992", ")", "."]),
        ("references", ["A.", "Cau", ",", "&", "B."], ["(", "1992", ")", "."]),
    ],
)
def test_tokens_of_tagged_text(tmp_path: Path, tokens: str, author: list[str], date: list[str]) -> None:
    labels = ["author"] * len(author) + ["date"] * len(date)
    assert parsed(tmp_path, CITED, "tagged", tokens=tokens) == [Example({"word": author + date}, labels)]


def test_layouts_of_tagged_text(tmp_path: Path) -> None:
    wanted = [(["x", "y"], ["a", "b"]), (["&", "<b>"], ["a", "a"])]
    lines = ["<a>x</a><b>y</b>", "<a>&amp; &lt;b&gt;</a>"]
    for text in (
        "\n".join(lines) + "\n",
        "<NEWREFERENCE>\n" + "\n<NEWREFERENCE>\n".join(line.replace("><", ">\n<") for line in lines),
        "<?xml version='1.0'?>\n<!-- x -->\n<data n='1'>\n"
        + "".join(f'  <sequence id="1">\n    {line}\n  </sequence>\n' for line in lines)
        + "</data>",
        "".join(f"<sequence>{line}</sequence>" for line in lines),
    ):
        assert [(x.tokens, x.labels) for x in parsed(tmp_path, text, "tagged")] == wanted


def test_lines_of_tagged_text(tmp_path: Path) -> None:
    text = "<data>\n<sequence>\n<a>x</a>\n</sequence>\n\n<sequence><a>y</a></sequence></data>"
    assert [x.where.rpartition(":")[2] for x in parsed(tmp_path, text, "tagged")] == ["2", "6"]
    assert [x.where.rpartition(":")[2] for x in parsed(tmp_path, "\n" + CITED, "tagged")] == ["2"]


def test_text_outside_tags(tmp_path: Path) -> None:
    text = "in <a>x</a> and <br> <b> lost <a>y </c> <i>z</i></a> end </b>"
    (tmp_path / "x").write_text(text)
    reader = read(tmp_path / "x", "tagged", depth="outer")
    assert [(x.tokens, x.labels) for x in reader] == [(["x", "lost", "y", "z", "end"], ["a", "b", "b", "b", "b"])]
    assert reader.left_out == {"characters outside tags": 5, "tags without a partner": 2}
    (result,) = parsed(tmp_path, "in <a>x</a>, <b>lost", "tagged", outside="O")
    assert (result.tokens, result.labels) == (["in", "x", ",", "lost"], ["O", "a", "O", "O"])


NESTED = (
    "<author> <person> A. Cau </person> , ed. </author> "
    "<venue> <journal> J. ACM </journal> <year> 1998 </year> </venue>"
)


@pytest.mark.parametrize(
    ("depth", "labels"),
    [
        ("outer", ["author"] * 4 + ["venue"] * 3),
        ("inner", ["person"] * 2 + ["author"] * 2 + ["journal"] * 2 + ["year"]),
        ("path", ["author/person"] * 2 + ["author"] * 2 + ["venue/journal"] * 2 + ["venue/year"]),
    ],
)
def test_tags_within_tags(tmp_path: Path, depth: str, labels: list[str]) -> None:
    (result,) = parsed(tmp_path, NESTED, "tagged", depth=depth)
    assert (result.tokens, result.labels) == (["A.", "Cau", ",", "ed.", "J.", "ACM", "1998"], labels)
    write(tmp_path / "y", [result], "tagged", depth=depth)
    assert list(read(tmp_path / "y", "tagged", depth=depth)) == [result]
    assert ((tmp_path / "y").read_text() == NESTED + "\n") == (depth == "path"), "nothing is lost"
    message = wrong(tmp_path, f"<b>x</b>\n{NESTED}", "tagged")
    assert message.startswith("x.txt:2: a tag is within another one; got <person> in <author>") and "depth" in message
    assert read(tmp_path / "x.txt").format == "tagged"
    (tmp_path / "x.txt").write_text(NESTED)
    assert read(tmp_path / "x.txt").format == "tagged"  # not parserator


def test_tags_that_cross_are_not_nested(tmp_path: Path) -> None:
    (result,) = parsed(tmp_path, "<a>x <b>y</a> z</b> <a>p <a>q</a> r</a>", "tagged", outside="O")
    assert (result.tokens, result.labels) == (list("xyzpqr"), ["a", "a", "O", "a", "a", "O"])


def test_many_tags_take_linear_time(tmp_path: Path) -> None:
    tags = [f"<t{k}>" for k in range(20_000)]
    text = "".join(tags) + "x" + "".join(tag.replace("<", "</") for tag in reversed(tags))
    assert parsed(tmp_path, text, "tagged", depth="inner")[0].labels == ["t19999"]


def test_tagged_text_gone_wrong(tmp_path: Path) -> None:
    assert wrong(tmp_path, f"{CITED}\nprose\n", "tagged").startswith("x.txt:2: no tagged text; got 'prose'")
    assert len(parsed(tmp_path, f"{CITED}\nprose\n", "tagged", on_error="skip")) == 1
    assert "`tokens` has an unknown value" in wrong(tmp_path, CITED, "tagged", tokens="letters")
    assert "3: <sequence> without its end" in wrong(tmp_path, "<?xml?>\n\n<sequence>\n<a>x</a>\n", "tagged")
    with pytest.raises(FileError, match="a label cannot be a tag; got '1'"):
        write(tmp_path / "y", [Example({"word": ["a"]}, ["1"])], "tagged")


def test_entities_are_never_expanded(tmp_path: Path) -> None:
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE x [\n<!ENTITY a "ha">\n<!ENTITY b "&a;&a;">\n]>\n'
    text = bomb + f"<AddressString><A>&b;&#65;&#x42;&amp;amp;&{'#' + '9' * 9000};</A></AddressString>"
    (result,) = parsed(tmp_path, text, "parserator", on_error="skip")
    assert result.tokens == ["&b;AB&amp;&#" + "9" * 9000 + ";"]


# ---- parserator -----------------------------------------------------------------------------------------------------

HOUSE = "<AddressString><Num>12</Num> <Street>Elm</Street>, <Zip>60201</Zip></AddressString>"


def test_one_element_per_token(tmp_path: Path) -> None:
    text = f"<AddressCollection>\n  {HOUSE}\n  {HOUSE.replace('Elm', '&amp; Co')}</AddressCollection>"
    first, second = parsed(tmp_path, text, "parserator")
    assert first == Example({"word": ["12", "Elm,", "60201"]}, ["Num", "Street", "Zip"])
    assert second.tokens == ["12", "& Co,", "60201"] and second.where.endswith(":3")
    assert parsed(tmp_path, text, "parserator", after="drop")[0].tokens == ["12", "Elm", "60201"]
    named = "<Names><Name>\n<Given>A</Given>\n<Last>B</Last> and so\n</Name></Names>"
    (tmp_path / "n").write_text(named)
    reader = read(tmp_path / "n")
    assert [x.tokens for x in reader] == [["A", "B"]] and reader.left_out == {"characters outside tags": 5}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (HOUSE.replace("<Street>", "<<Street>"), "3: not well-formed; got '<<Street>Elm"),
        (HOUSE.replace("</Street>", "</Stret>"), "3: not well-formed; got '<Street>Elm"),
        (HOUSE.replace("<Num>12</Num>", "\n12 <Num>"), "4: not well-formed; got '12 <Num>"),
        ("<AddressString> </AddressString>", "3: the sequence has no tokens"),
        ("<AddressString><Num>1</Num>", "4: <AddressString> within <AddressString>"),
        ("<Num>1</Num></AddressString>", "3: </AddressString> without its beginning"),
        ("stray text", "3: text outside of <AddressString>; got 'stray text'"),
    ],
)
def test_what_is_not_well_formed_names_its_line(tmp_path: Path, bad: str, message: str) -> None:
    text = f"<AddressCollection>\n{HOUSE}\n{bad}\n{HOUSE}\n</AddressCollection>\n"
    assert wrong(tmp_path, text, "parserator").startswith(f"x.txt:{message}")
    reader = read(tmp_path / "x.txt", "parserator", on_error="skip")
    assert len(list(reader)) == 2 and reader.left_out["sequences that are not well-formed"] == 1


def test_labels_name_the_elements(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="a sequence has no labels"):
        write(tmp_path / "x", [Example({"word": ["a"]})], "parserator")
    write(tmp_path / "x", [Example({"word": ["<a> &"]}, ["Num"])], "parserator", sequence="Name", collection="Names")
    assert (tmp_path / "x").read_text() == "<Names>\n  <Name><Num>&lt;a&gt; &amp;</Num></Name>\n</Names>\n"


# ---- segments -------------------------------------------------------------------------------------------------------


def test_segments(tmp_path: Path) -> None:
    text = "9112 |1\nMall Road, |3\n\n\nA|B |6"
    result = parsed(tmp_path, text, "segments")
    assert result == [Example({"word": ["9112", "Mall", "Road,"]}, ["1", "3", "3"]), Example({"word": ["A|B"]}, ["6"])]
    assert [x.where.rpartition(":")[2] for x in result] == ["1", "5"]
    assert parsed(tmp_path, text, "segments", tokens="words")[0].tokens == ["9112", "Mall", "Road"]
    write(tmp_path / "y", result, "segments")
    assert (tmp_path / "y").read_text() == "9112 |1\nMall Road, |3\n\nA|B |6\n\n"
    for bad in ("AK 6", "AK |"):
        assert wrong(tmp_path, f"a |1\n{bad}\n", "segments").startswith("x.txt:2: a segment without a label")


# ---- JSON lines -----------------------------------------------------------------------------------------------------


def test_json_lines(tmp_path: Path) -> None:
    record = {"id": 7, "tokens": ["a", "b"], "labels": ["X", "Y"], "pos": ["P", "Q"], "given": {"verb": 1}, "n": 3}
    (result,) = parsed(tmp_path, json.dumps(record) + "\n\n", "jsonl")
    assert result == Example({"word": ["a", "b"], "pos": ["P", "Q"]}, ["X", "Y"], {"verb": 1}, id=7)
    assert (result.id, result.where) == (7, f"{tmp_path}/x.txt:1")
    write(tmp_path / "y.jsonl", [result, Example({"word": []}, [])])
    assert list(read(tmp_path / "y.jsonl")) == [result, Example({"word": []}, [])]
    other = parsed(
        tmp_path,
        json.dumps({"text": ["a"], "tags": ["X"], "keys": ["p", "q"]}),
        "jsonl",
        tokens="text",
        label="tags",
        columns=[],
    )
    assert other == [Example({"word": ["a"]}, ["X"])]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tokens": ["a"', "not a JSON line"),
        ("[" * 100_000, "not a JSON line"),
        ('{"tokens": ["a"], "n": ' + "9" * 10_000 + "}", "not a JSON line"),
        ('{"tokens": ["\\ud800"]}', "not a JSON line"),
        ("[1]", "a line is not a JSON object; got list"),
        ('{"labels": ["a"]}', "there are no tokens; got 'labels'; wanted the key 'tokens'"),
        ('{"token": ["a"]}', "unknown key; got 'token'; wanted 'tokens'"),
        ('{"tokens": ["a"], "lables": ["X"]}', "unknown key; got 'lables'; wanted 'labels'"),
        ('{"tokens": "a b"}', "tokens are not a list of strings; got 'a b'"),
        ('{"tokens": ["a"], "labels": [1]}', r"labels are not a list of strings; got \[1\]"),
        ('{"tokens": ["a"], "labels": ["X", "Y"]}', "labels and tokens differ in length; got 2; wanted 1"),
        ('{"tokens": ["a"], "pos": ["X", "Y"]}', "the columns differ in length; got 2 in 'pos'; wanted 1"),
        ('{"tokens": ["a", null]}', "a token in 'tokens' is null"),
        ('{"tokens": ["a"], "given": [1]}', "given is not an object; got list"),
    ],
)
def test_json_lines_gone_wrong(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"tokens": ["a"]}\n' + line + "\n")
    with pytest.raises((FeatureError, FileError), match=rf"x\.jsonl:2: {message}") as caught:
        list(read(path))
    assert len(str(caught.value)) < 1000


def test_a_column_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    output = wrong(tmp_path, '{"tokens": []}', "jsonl", columns=["pos"])
    assert "the column does not exist; got 'word'; wanted 'pos'" in output
    assert "`columns` must be a list of names" in wrong(tmp_path, '{"tokens": []}', "jsonl", columns="pos")


@pytest.mark.parametrize("name", ["jsonl", "parquet"])
def test_values_that_are_no_json(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="a value is not JSON"):
        write(tmp_path / "x", [Example({"word": ["a"]}, given={"set": {1}})], name)
    with pytest.raises(FileError, match="cannot store this column; got 'given'"):
        write(tmp_path / "x", [Example({"word": ["a"], "given": ["b"]})], name)
    assert list(tmp_path.iterdir()) == []


# ---- Parquet and Arrow ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_tables(tmp_path: Path, name: str) -> None:
    written = [
        Example({"word": ["a", "b"], "pos": ["P", "Q"]}, ["X", "Y"], {"verb": [1, 2]}, id="s1"),
        Example({"word": []}, []),
        Example({"word": ["c"]}),
    ] * 1000
    write(tmp_path / f"x.{name}", written)
    with read(tmp_path / f"x.{name}") as back:
        size = back.total
        assert next(back) == written[0] and back.done() == 0
        for _ in range(1500):
            next(back)
        assert size is not None and 0 < back.done() < size == back.total
        assert list(back) == written[1501:] and back.done() == size
    (bare, *_) = read(tmp_path / f"x.{name}", columns=[], label=None)
    assert bare == Example({"word": ["a", "b"]}, None, {"verb": [1, 2]}, id="s1")


def test_tables_of_others(tmp_path: Path) -> None:
    rows = {"words": [["a"], ["b", "c"]], "tags": [["X"], ["Y", "Z"]], "given": [{"verb": 0}, None], "n": [1, 2]}
    table = pa.table(rows)
    pq.write_table(table, tmp_path / "x.parquet")
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
        out.write_table(table)
    for name in ("x.parquet", "x.arrow"):
        assert list(read(tmp_path / name, tokens="words", label="tags")) == [
            Example({"word": ["a"]}, ["X"], {"verb": 0}),
            Example({"word": ["b", "c"]}, ["Y", "Z"]),
        ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"words": [["a"]]}, "x: there are no tokens"),
        ({"tokens": [["a"], ["b", None]]}, "x: sequence 1: a token in 'tokens' is null"),
        ({"tokens": [["a"]], "labels": [["X", "Y"]]}, "x: sequence 0: labels and tokens differ in length"),
        ({"tokens": [["a"]], "labels": [[1]]}, "x: labels is not a column of lists of strings; got list<"),
        ({"tokens": [["a"]], "given": ["{"]}, "x: sequence 0: 'given' is not JSON"),
    ],
)
def test_tables_gone_wrong(tmp_path: Path, rows: dict[str, list[Any]], message: str) -> None:
    pq.write_table(pa.table(rows), tmp_path / "x")
    with pytest.raises((FeatureError, FileError, GivenError), match=message):
        list(read(tmp_path / "x", "parquet"))


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_tables_that_are_none(tmp_path: Path, name: str) -> None:
    write(tmp_path / "whole", [Example({"word": ["a"]}, ["B"])] * 100, name)
    data = (tmp_path / "whole").read_bytes()
    for bad in (data[: len(data) // 2], data[:5], b"prose", b"\0" * 100):
        (tmp_path / "x").write_bytes(bad)
        with pytest.raises(FileError, match=f"x: cannot read this {name} file"):
            list(read(tmp_path / "x", name))


def test_a_column_that_comes_late(tmp_path: Path) -> None:
    late = [Example({"word": ["a"]})] * 3000 + [Example({"word": ["a"]}, ["B"])]
    with pytest.raises(FileError, match="sequence 3000: this sequence has a column that the first 1024 do not"):
        write(tmp_path / "x", late, "parquet")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"wanted pip install 'bridle-nlp\[arrow\]'"):
        list(read(tmp_path / "x"))
    with pytest.raises(FileError, match=r"wanted pip install 'bridle-nlp\[arrow\]'"):
        write(tmp_path / "y", [], "arrow")
