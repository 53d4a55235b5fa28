"""Labelled sequences in files: what is written is read back in every format; hostile files give typed errors."""

from __future__ import annotations

import gzip
import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.data import Example, Examples, formats, load, read, write
from bridle.data.base import Format
from bridle.data.limits import LONGEST
from bridle.data.source import Source
from bridle.errors import FileError

TEXT = ["conll", "conllu", "csv", "jsonl", "parserator", "segmented", "segments", "slashed", "tagged", "tsv"]
BINARY = ["arrow", "parquet"]
STANDOFF = ["brat", "doccano", "labelstudio", "spans"]  # a text and spans: test_data_standoff.py, test_data_brat.py
LABELLED = {name: ["B-NP", "E"] for name in TEXT + BINARY} | {"segmented": ["B", "E"], "parserator": ["Num", "Zip"]}


def examples_for(name: str, words: list[list[str]]) -> list[Example]:
    column = "char" if name == "segmented" else "word"
    return [
        Example({column: tokens}, [LABELLED[name][min(k, 1) if name == "segmented" else k % 2] for k in range(n)])
        for tokens in words
        if (n := len(tokens)) and (name != "segmented" or n == 2)
    ]


def saved(path: Path, data: bytes | str) -> str:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def word_columns(examples: Iterator[Example]) -> list[tuple[list[str], list[str] | None]]:
    return [(list(x.tokens), None if x.labels is None else list(x.labels)) for x in examples]


def test_all_formats_are_there() -> None:
    assert formats() == sorted([*TEXT, *BINARY, *STANDOFF, "text"])


# ---- what is written is read back -----------------------------------------------------------------------------------

LETTERS = st.characters(codec="utf-8", exclude_categories=["Z", "C"])
WORDS = st.lists(st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=5), max_size=4)


@pytest.mark.parametrize("name", [name for name in TEXT if name != "segmented"])
@settings(max_examples=30)
@given(words=WORDS)
def test_any_words_survive(tmp_path_factory: pytest.TempPathFactory, name: str, words: list[list[str]]) -> None:
    path = tmp_path_factory.getbasetemp() / f"survive.{name}"
    written = examples_for(name, words)
    write(path, written, name)
    back = list(read(path, name))
    assert word_columns(iter(back)) == word_columns(iter(written))
    assert [x.where.rpartition(":")[0] for x in back] == [str(path)] * len(back)


@pytest.mark.parametrize("name", TEXT + BINARY)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_files_and_packed_files(tmp_path: Path, name: str, packed: str) -> None:
    if name in BINARY and packed:
        return  # they are packed inside
    path = tmp_path / f"x.{name}{packed}"
    written = examples_for(name, [["a", "b"], ["ü", "#"], ["c", "d"]])
    write(path, iter(written), name)
    with read(path, name) as back:
        assert word_columns(back) == word_columns(iter(written))
        assert back.total == path.stat().st_size == back.done()
    if packed:
        assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", TEXT + BINARY)
def test_standard_input_and_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    written = examples_for(name, [["a", "b"], ["c", "d"]])
    write(None, written, name)
    sys.stdout.flush()
    out = capfdbinary.readouterr().out
    write(tmp_path / "x", written, name)
    assert out == (tmp_path / "x").read_bytes()
    for data in (out, gzip.compress(out)) if name in TEXT else (out,):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        examples = read("-", name)
        assert word_columns(examples) == word_columns(iter(written)) and examples.total is None
        assert not sys.stdin.buffer.closed


@pytest.mark.parametrize("name", TEXT + BINARY)
def test_an_empty_file_has_no_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = saved(tmp_path / "x", b"")
    assert list(read(path, name)) == [] and load(path, name) == ([], [])
    assert list(read(path)) == []
    write(tmp_path / "y", [], name)
    assert list(read(tmp_path / "y", name)) == []


@pytest.mark.parametrize("name", ["conll", "jsonl", "parquet", "arrow"])
def test_columns_survive(tmp_path: Path, name: str) -> None:
    written = [Example({"word": ["He", "left"], "pos": ["PRP", "VBD"]}, ["B-NP", "B-VP"])]
    write(tmp_path / "x", written, name)
    options: dict[str, Any] = {"columns": ["word", "pos", "chunk"]} if name == "conll" else {}
    assert list(read(tmp_path / "x", name, **options)) == written
    assert load(tmp_path / "x", name, **options) == ([dict(written[0].columns)], [["B-NP", "B-VP"]])


@pytest.mark.parametrize("name", ["conll", "segmented", "slashed", "jsonl", "parquet", "arrow"])
def test_sequences_without_labels(tmp_path: Path, name: str) -> None:
    column = "char" if name == "segmented" else "word"
    write(tmp_path / "x", [Example({column: ["a", "b"]})], name)
    options: dict[str, Any] = {"segmented": {"scheme": None}, "slashed": {"label": None}}.get(name, {})
    assert list(read(tmp_path / "x", name, **options)) == [Example({column: ["a", "b"]})]
    with pytest.raises(FileError, match=r"x(:1|: sequence 0): a sequence has no labels"):
        load(tmp_path / "x", name, **options)


# ---- which format it is ---------------------------------------------------------------------------------------------

GUESSED = {
    "conll": "He PRP B-NP\nleft VBD B-VP\n\n# # B-NP\n",
    "conllu": "# text = a\n" + "\t".join(["1", "a", *"_" * 8]) + "\n",
    "jsonl": '\n{"tokens": []}\n',
    "slashed": "He/PRP left/VBD\n",
    "segments": "9112 |1\nMendenhall Mall Road, |3\n\nAK |6\n",
    "tagged": "<author> A </author> <title> B </title> <br>\n<author> C </author>",
    "parserator": "<AddressCollection>\n <AddressString><Num>1</Num></AddressString>\n</AddressCollection>",
}


@pytest.mark.parametrize("name", GUESSED)
def test_the_format_is_guessed_from_the_text(tmp_path: Path, name: str) -> None:
    text = GUESSED[name]
    path = saved(tmp_path / "x.txt", gzip.compress(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()))
    result = word_columns(read(path))
    assert result and result == word_columns(read(path, name))


@pytest.mark.parametrize("text", ["<NEWREFERENCE>\n<a>x</a>", "<?xml?><d>\n<sequence>\n<a>x</a></sequence></d>"])
def test_the_layouts_of_tagged_text_are_guessed(tmp_path: Path, text: str) -> None:
    assert word_columns(read(saved(tmp_path / "x", text))) == [(["x"], ["a"])]


@pytest.mark.parametrize("name", BINARY)
def test_the_format_is_guessed_from_magic_bytes_and_suffixes(tmp_path: Path, name: str) -> None:
    write(tmp_path / f"x.{name}", examples_for(name, [["a", "b"]]))
    (tmp_path / "y").write_bytes((tmp_path / f"x.{name}").read_bytes())
    assert word_columns(read(tmp_path / "y")) == [(["a", "b"], ["B-NP", "E"])]


@pytest.mark.parametrize("text", ["Some words of prose,\nnothing more.\n", "a/b c/d\ne/f g/h\n"])
def test_what_cannot_be_guessed_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileError, match="the format of this file is ambiguous or unknown") as caught:
        read(saved(tmp_path / "x.txt", text))
    assert "conll" in str(caught.value.wanted)
    with pytest.raises(FileError, match="ambiguous or unknown"):
        write(tmp_path / "x.odd", [])
    with pytest.raises(FileError, match="the format is not known"):
        write("-", [])


def test_unknown_names_come_with_the_nearest(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", "a b\n")
    with pytest.raises(FileError, match=r"unknown format; got 'connl'; wanted 'conll'"):
        read(path, "connl")
    with pytest.raises(FileError, match=r"no such option; got 'colums'; wanted 'columns'"):
        read(path, "conll", colums=["word"])
    with pytest.raises(FileError, match=r"unknown format; got 'xyz'; wanted one of arrow, brat, conll"):
        write(None, [], "xyz")
    with pytest.raises(FileError, match=r"`docstart` has an unknown value; got 'drop'; wanted 'skip' or 'keep'"):
        read(path, "conll", docstart="drop")


def test_two_formats_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="a format named 'conll' is already registered"):
        type("Again", (Format,), {"name": "conll"})


# ---- bad files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("kind", ["missing", "directory", "null", "no path"])
def test_files_that_cannot_be_opened(tmp_path: Path, name: str, kind: str) -> None:
    path: Any = {"missing": tmp_path / "none", "directory": tmp_path, "null": "a\0b", "no path": 3}[kind]
    with pytest.raises(FileError):
        read(path, name)
    with pytest.raises(FileError):
        write(tmp_path / "none" / "x" if kind == "missing" else path, [], name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", TEXT)
def test_bytes_that_are_no_text(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x", b"\n\n\n" + b"caf\xe9")
    with pytest.raises(FileError, match=r"x:4: not utf-8; got byte 0xe9 at byte 6 of the file") as caught:
        list(read(path, name))
    assert "Pass encoding='latin-1'" in str(caught.value)
    with pytest.raises(FileError, match="x:3: a NUL character"):
        list(read(saved(tmp_path / "x", "\n\na\0b\n"), name))
    with pytest.raises(FileError, match="unknown encoding; got 'hex'"):
        list(read(path, name, encoding="hex"))
    with pytest.raises(FileError, match="unknown encoding; got 'utf-9'"):
        list(read(path, name, encoding="utf-9"))


def test_a_wrong_byte_is_found_far_into_the_file(tmp_path: Path) -> None:
    good = "größe NN\n\n".encode() * 24_000
    path = saved(tmp_path / "x", good + b"bad\xff NN\n")
    with pytest.raises(FileError, match=rf"x:48001: not utf-8; got byte 0xff at byte {len(good) + 3:,} "):
        list(read(path, "conll"))
    half = saved(tmp_path / "y", good + "ö".encode()[:1])
    with pytest.raises(FileError, match=rf"y:48001: .* at byte {len(good):,} of the file \(unexpected end"):
        list(read(half, "conll"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "latin-1", "gb18030"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = "größe NN\r\nist VB\r\n\r\nda RB"
    path = saved(tmp_path / "x", text.encode(encoding))
    assert word_columns(read(path, "conll", encoding=encoding)) == [
        (["größe", "ist"], ["NN", "VB"]),
        (["da"], ["RB"]),
    ]


def test_a_cut_off_gzip_file(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(b"word%d TAG\n\n" % k for k in range(20_000)))
    with pytest.raises(FileError, match=r"x: cannot read this file.*wanted a complete gzip file"):
        list(read(saved(tmp_path / "x", data[: len(data) // 2]), "conll"))
    with pytest.raises(FileError, match="cannot read this file"):
        list(read(saved(tmp_path / "y", data[:2000] + b"oops" + data[2004:]), "conll"))
    for size in range(2, 20):
        with pytest.raises(FileError, match="cannot read this file"):
            list(read(saved(tmp_path / "z", data[:size]), "conll"))


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("piece", ["x", "<a>", "<a x='", "</a><a>", "a ", "[", "# ", "&#1;", "\u3000", "a/b "])
def test_a_long_line_takes_no_time(tmp_path: Path, name: str, piece: str) -> None:
    path = saved(tmp_path / "x", piece * (200_000 // len(piece)))
    begun = time.process_time()
    try:
        assert sum(len(x) for x in read(path, name)) <= 200_000
    except FileError as error:
        assert len(str(error)) < 1000
    assert time.process_time() - begun < 2  # seconds; a search that looks back at all it has seen would take minutes


def test_a_line_must_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LONGEST >= 10_000_000
    monkeypatch.setattr("bridle.data.limits.LONGEST", 300_000)
    with pytest.raises(FileError, match="x:2: a line is too long"):
        list(read(saved(tmp_path / "x", "a B\n" + "x" * 10_000_000), "conll"))


# ---- the iterator ---------------------------------------------------------------------------------------------------


def test_reading_tells_how_far_it_is(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", "a_long_token_so_that_there_are_many_bytes LABEL\n\n" * 20_000)
    with read(path, "conll") as examples:
        assert (examples.total, examples.done()) == (980_000, 0)
        next(examples)
        assert 0 < examples.done() < 500_000
        for _ in range(19_999):
            next(examples)
        assert examples.done() == 980_000
        assert next(examples, None) is None


def test_files_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Source] = []
    begin = Source.__init__

    def noted(self: Source, path: str) -> None:
        begin(self, path)
        opened.append(self)

    monkeypatch.setattr(Source, "__init__", noted)
    path = saved(tmp_path / "x", "a B\n\nc D\n")
    with read(path, "conll") as examples:
        next(examples)
    assert next(examples, None) is None
    list(read(path, "conll"))  # read to its end
    read(path, "conll")  # never read
    with pytest.raises(FileError):
        read(path, "conll", odd=1)
    with pytest.raises(FileError):
        next(read(path, "jsonl"))
    assert [source.raw.closed for source in opened] == [True] * 5


# ---- examples and writing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        ({}, None, "has no columns"),
        ({"word": ["a"]}, [], "'labels' and the tokens differ in length; got 0; wanted 1"),
        ({"word": ["a"], "pos": ["x", "y"]}, None, "'pos' and the tokens differ in length; got 2; wanted 1"),
        ({"word": "ab"}, ["x", "y"], "'word' must be a list of strings"),
        ({"word": ["a", "b"]}, "xy", "'labels' must be a list of strings"),
        ({"word": 3}, None, "'word' must be a list of strings"),
    ],
)
def test_examples_are_checked(columns: Any, labels: Any, message: str) -> None:
    with pytest.raises(FileError, match=f"x:1: .*{message}"):
        Example(columns, labels, where="x:1")


@pytest.mark.parametrize("name", TEXT + BINARY)
@pytest.mark.parametrize("word", ["a b", "a\tb", "a\nb", "a\r", "a\0b", "", " ", "\ud800", "\x85", 3])
def test_a_token_is_written_as_it_is_or_not_at_all(tmp_path: Path, name: str, word: Any) -> None:
    column = "char" if name == "segmented" else "word"
    example = Example({column: [word, "x"]}, LABELLED[name])
    try:
        write(tmp_path / "x", [example], name)
    except FileError:
        assert list(tmp_path.iterdir()) == []
    else:
        assert isinstance(word, str)
        assert word_columns(read(tmp_path / "x", name)) == word_columns(iter([example]))


@pytest.mark.parametrize("name", sorted(set(TEXT) - {"jsonl"}))
def test_empty_sequences_have_no_room_in_most_formats(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="an empty sequence cannot be written"):
        write(tmp_path / "x", [Example({"word": []}, [])], name)


def test_a_file_gets_its_name_when_all_is_done(tmp_path: Path) -> None:
    def broken() -> Iterator[Example]:
        yield from [Example({"word": ["a"]}, ["B"])] * 5000
        raise KeyError("halfway")

    for name in ("x.conll", "x.conll.gz", "x.jsonl", "x.parquet"):
        path = tmp_path / name
        write(path, [Example({"word": ["old"]}, ["B"])])
        with pytest.raises(KeyError):
            write(path, broken())
        assert word_columns(read(path)) == [(["old"], ["B"])]
        write(path, read(path))  # onto itself
        assert word_columns(read(path)) == [(["old"], ["B"])]


def test_only_examples_are_written(tmp_path: Path) -> None:
    bad: Any = [(["a"], ["B"])]
    with pytest.raises(FileError, match=r"not a sequence; got tuple; wanted bridle\.data\.Example"):
        write(tmp_path / "x", bad, "conll")
    with pytest.raises(FileError, match="not a path"):
        write(bad, [], "conll")


def test_examples_is_an_iterator(tmp_path: Path) -> None:
    examples = read(saved(tmp_path / "x", "a B\n"), "conll")
    assert isinstance(examples, Examples) and iter(examples) is examples
    assert [len(x) for x in examples] == [1]
