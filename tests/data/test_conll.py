"""One token per line, word/tag text, segmented text: columns, labels, comments, and what goes wrong on which line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.data import Example, read, write
from bridle.errors import FileError
from bridle.labels import Labels

CHUNKS = "He PRP B-NP\nreckons VBZ B-VP\n\n. . O\n"


def parsed(tmp_path: Path, text: str, name: str = "conll", **options: Any) -> list[Example]:
    path = tmp_path / "train.txt"
    path.write_bytes(text.encode())
    return list(read(path, name, **options))


def wrong(tmp_path: Path, text: str, name: str = "conll", **options: Any) -> str:
    with pytest.raises(FileError) as caught:
        parsed(tmp_path, text, name, **options)
    return str(caught.value).removeprefix(f"{tmp_path}/")


# ---- columns and labels ---------------------------------------------------------------------------------------------


def test_columns_have_names(tmp_path: Path) -> None:
    first, second = parsed(tmp_path, CHUNKS)
    assert first == Example({"word": ["He", "reckons"], "column2": ["PRP", "VBZ"]}, ["B-NP", "B-VP"])
    assert (first.where, second.where) == (f"{tmp_path}/train.txt:1", f"{tmp_path}/train.txt:4")
    named = parsed(tmp_path, CHUNKS, columns=["word", "pos", "chunk"])
    assert named[0].columns == {"word": ["He", "reckons"], "pos": ["PRP", "VBZ"]}
    assert list(parsed(tmp_path, CHUNKS, columns=["word", "_", "chunk"])[0].columns) == ["word"]


@pytest.mark.parametrize(
    ("label", "names", "labels"),
    [
        ("pos", ["word", "chunk"], ["PRP", "VBZ"]),
        (2, ["word", "chunk"], ["PRP", "VBZ"]),
        (-2, ["word", "chunk"], ["PRP", "VBZ"]),
        (1, ["pos", "chunk"], ["He", "reckons"]),
        (-1, ["word", "pos"], ["B-NP", "B-VP"]),
        (None, ["word", "pos", "chunk"], None),
    ],
)
def test_any_column_holds_the_labels(tmp_path: Path, label: Any, names: list[str], labels: list[str] | None) -> None:
    first = parsed(tmp_path, CHUNKS, columns=["word", "pos", "chunk"], label=label)[0]
    assert (list(first.columns), first.labels) == (names, labels)


def test_one_column_is_words_without_labels(tmp_path: Path) -> None:
    assert parsed(tmp_path, "He\nleft\n") == [Example({"word": ["He", "left"]})]
    assert "1: no column is left for the tokens" in wrong(tmp_path, "He\n", label=1)


@pytest.mark.parametrize("label", [0, 4, -4, "chink", True, 1.5])
def test_labels_in_no_column(tmp_path: Path, label: Any) -> None:
    message = wrong(tmp_path, CHUNKS, columns=["word", "pos", "chunk"], label=label)
    assert repr(label) in message and "column" in message


@pytest.mark.parametrize("columns", ["word", ["word", "word", "x"], [1, 2, 3], 7])
def test_bad_names_of_columns(tmp_path: Path, columns: Any) -> None:
    assert "column" in wrong(tmp_path, CHUNKS, columns=columns)


@pytest.mark.parametrize("comment", ["", " ", 3])
def test_bad_comment_prefixes(tmp_path: Path, comment: Any) -> None:
    assert f"`comment` must be a prefix; got {comment!r}" in wrong(tmp_path, CHUNKS, comment=comment)


def test_ragged_columns_name_the_line(tmp_path: Path) -> None:
    message = wrong(tmp_path, "a B C\n\nd E F\ng H\n")
    assert message.startswith(
        "train.txt:4: this line has a different number of columns; got 2 in 'g H'; wanted 3, as in the lines above"
    )
    assert wrong(tmp_path, "a B C\nd E F G\nh I\n").startswith(
        "train.txt:2: this line has a different number of columns; got 4"
    )
    assert "got 2 in 'a\\tB'; wanted 3: x, y, z" in wrong(tmp_path, "a\tB\n", columns=["x", "y", "z"])
    assert "2: this line has a different number of columns; got 1" in wrong(tmp_path, "a\tB\nc D\n")  # a TAB file
    assert "3: a sequence has an empty label" in wrong(tmp_path, "a\tB\n\nc\t\n")


def test_a_line_of_prose_is_no_token(tmp_path: Path) -> None:
    assert wrong(tmp_path, "a " * 10_001).startswith("train.txt:1: too many columns; got 10,001; wanted at most 10,000")


# ---- how lines are cut ----------------------------------------------------------------------------------------------


def test_tabs_or_blanks(tmp_path: Path) -> None:
    spaced = [Example({"word": ["New York", ""]}, ["LOC", "O"])]
    assert parsed(tmp_path, "New York\tLOC\n\tO\n") == spaced
    assert parsed(tmp_path, "a B\nNew\tLOC\n  c   D \n") == [Example({"word": ["a", "New", "c"]}, ["B", "LOC", "D"])]
    assert parsed(tmp_path, "10\u00a0000 CD\n\u3000 W\n")[0].columns["word"] == ["10\u00a0000", "\u3000"]
    assert parsed(tmp_path, "New York\n", separator="tab")[0].tokens == ["New York"]
    assert parsed(tmp_path, "a\tB C\n", separator="blanks")[0].labels == ["C"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("gap", ["", " ", "\t", " \t "])
def test_empty_lines(tmp_path: Path, end: str, gap: str) -> None:
    text = end.join([gap, gap, "a B", "c D", gap, gap, gap, "e F", gap, "g H"])
    result = parsed(tmp_path, text)
    assert [x.tokens for x in result] == [["a", "c"], ["e"], ["g"]]
    assert [x.where.rpartition(":")[2] for x in result] == ["3", "8", "10"]


def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\ufeffgröße NN\r\nist VB\r\n\r\n# a comment\r\nda RB\r\n \r\nwo RB\r\n"
    whole = parsed(tmp_path, text)
    for block in range(1, 20):
        for module in ("source", "base"):
            monkeypatch.setattr(f"bridle.data.{module}.BLOCK", block)
        assert [(x, x.where) for x in parsed(tmp_path, text)] == [(x, x.where) for x in whole]


def test_docstart(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP I-ORG\n\n-DOCSTART-\nUK NNP B-NP I-LOC\n"
    assert [x.tokens for x in parsed(tmp_path, text)] == [["EU"], ["UK"]]
    assert [x.where.rpartition(":")[2] for x in parsed(tmp_path, text)] == ["3", "6"]
    assert parsed(tmp_path, "-DOCSTART- O\n", docstart="keep")[0].tokens == ["-DOCSTART-"]


# ---- comments -------------------------------------------------------------------------------------------------------


def test_comments_in_a_tab_file(tmp_path: Path) -> None:
    text = "# doc=1\n\n# id=1\n# x\ty\tz\n#\tSYM\n# 1\tCD\n# within\n\n# 2\tCD\n"
    first, second = parsed(tmp_path, text)
    comments = ("# doc=1", "# id=1", "# x\ty\tz", "# within")
    assert first == Example({"word": ["#", "# 1"]}, ["SYM", "CD"], comments=comments)
    assert (second.tokens, second.comments) == (["# 2"], ())
    assert first.where.endswith(":5")


def test_a_hash_in_a_blank_file_is_a_token_if_its_label_is_known(tmp_path: Path) -> None:
    text = "# a comment of six fields\na NN O\n# # O\n\n# # O\n1 CD O\n\n# two fields more\nb NN O\n"
    assert [(x.tokens, len(x.comments)) for x in parsed(tmp_path, text)] == [
        (["a", "#"], 1),
        (["#", "1"], 0),
        (["b"], 1),
    ]
    assert parsed(tmp_path, "# # O\n1 CD O\n")[0].tokens == ["#", "1"]  # known from the lines below


@pytest.mark.parametrize(
    ("text", "line"),
    [("a NN O\n\n# id domain=x\nb NN O\n", 3), ("# id domain=x\nb NN O\n", 1), ("\n# # O\n\nb NN O\n", 2)],
)
def test_a_doubtful_hash_is_an_error_until_somebody_says_what_it_is(tmp_path: Path, text: str, line: int) -> None:
    assert wrong(tmp_path, text).startswith(f"train.txt:{line}: this line could be a comment or the token '#'")
    tokens = sum(len(x) for x in parsed(tmp_path, text, comment=None))
    assert sum(len(x) for x in parsed(tmp_path, text, comment="# ")) == tokens - 1


def test_many_comments_take_no_time(tmp_path: Path) -> None:
    text = "# one comment\n" * 50_000 + "a B\n"
    assert len(parsed(tmp_path, text)[0].comments) == 50_000


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\0"), max_size=4)
WORD = st.sampled_from(["#", "# ", "# a", "##", "a", "-", "B-NP", "ü", "\u2028", "\x85", "'"])
ROWS = st.lists(st.tuples(CELL | WORD, CELL | WORD, st.sampled_from(["O", "B-NP", "#"])), min_size=1, max_size=4)


@settings(max_examples=100)
@given(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from(["tab", "blanks"]), st.booleans())
def test_whatever_is_written_is_read_back_or_refused(
    tmp_path_factory: pytest.TempPathFactory, many: list[list[tuple[str, str, str]]], separator: str, noted: bool
) -> None:
    """Refused by the writer, or by the reader as doubtful; never changed in silence."""
    path = tmp_path_factory.getbasetemp() / "law.conll"
    columns = [list(map(list, zip(*rows, strict=True))) for rows in many]
    comments = ("# four words in all",) if noted else ()
    written = [Example({"word": w, "column2": p}, y, comments=comments) for w, p, y in columns]
    try:
        write(path, written, "conll", separator=separator)
        result = list(read(path, "conll"))
    except FileError as error:
        if "could be a comment" in str(error):
            assert many[0][0][0].startswith("# ") if separator == "tab" else any(rows[0][0] == "#" for rows in many)
        else:
            assert separator == "blanks" and "cannot be written" in str(error)
            assert any(" " in cell or not cell for rows in many for row in rows for cell in row)
    else:
        assert result == written


def test_comments_and_tokens_that_cannot_be_written(tmp_path: Path) -> None:
    for comment in ("no prefix", "# two\nlines"):
        with pytest.raises(FileError, match="not a valid comment"):
            write(tmp_path / "x", [Example({"word": ["a"]}, ["B"], comments=(comment,))], "conll")
    for word in ("# a", "New York"):  # one column only: it would be read as something else
        with pytest.raises(FileError, match="x:1: a token cannot be written"):
            write(tmp_path / "x", [Example({"word": [word]}, where="x:1")], "conll")
    with pytest.raises(FileError, match="labels not empty"):
        write(tmp_path / "x", [Example({"word": ["a"]}, [""])], "conll")


# ---- CoNLL-U --------------------------------------------------------------------------------------------------------

UD = (
    "# sent_id = 1\n# text = don't\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\tA=b c\n"
    "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\t#\t#\tSYM\tSYM\t_\t0\troot\t_\t_\n"
)


def test_conllu(tmp_path: Path) -> None:
    first, second = parsed(tmp_path, UD, "conllu")
    assert (first.tokens, first.labels) == (["do", "n't"], ["VBP", "RB"])
    assert first.comments == ("# sent_id = 1", "# text = don't") and first.where.endswith(":4")
    assert list(first.columns) == ["word", "lemma", "upos", "feats", "head", "deprel", "deps", "misc"]
    assert first.columns["misc"] == ["A=b c", "_"] and second.tokens == ["#"]
    assert parsed(tmp_path, UD, "conllu", label="upos")[0].labels == ["AUX", "PART"]
    reader = read(tmp_path / "train.txt", "conllu")
    assert len(list(reader)) == 2 and reader.left_out == {"lines that are not tokens": 2}
    write(tmp_path / "again.conllu", [first, second])
    assert list(read(tmp_path / "again.conllu")) == [first, second]


def test_conllu_errors(tmp_path: Path) -> None:
    assert "5: this line has a different number of columns; got 3" in wrong(
        tmp_path, UD.replace("\n2\t", "\n2\tx\ty\n2\t"), "conllu"
    )
    assert "got 1 in '1 do do AUX'; wanted 10" in wrong(tmp_path, "1 do do AUX\n", "conllu")
    assert "wrong columns" in wrong(tmp_path, UD, "conllu", columns=["word"])
    with pytest.raises(FileError, match="no such column; got shape; wanted id, word"):
        write(tmp_path / "x", [Example({"word": ["a"], "shape": ["x"]}, ["B"])], "conllu")
    with pytest.raises(FileError, match="the column of the labels does not exist; got 'word'"):
        write(tmp_path / "x", [Example({"word": ["a"]}, ["B"])], "conllu", label="word")


# ---- word/tag and segmented text ------------------------------------------------------------------------------------


def test_slashed(tmp_path: Path) -> None:
    result = parsed(tmp_path, "1/2/CD  //SYM\r\n\r\n\u3000/w", "slashed")
    assert result == [Example({"word": ["1/2", "/"]}, ["CD", "SYM"]), Example({"word": ["\u3000"]}, ["w"])]
    assert parsed(tmp_path, "a_b_C", "slashed", separator="_")[0].tokens == ["a_b"]
    assert parsed(tmp_path, "a/b c", "slashed", label=None) == [Example({"word": ["a/b", "c"]})]
    for bad in ("word", "word/", "/tag"):
        message = wrong(tmp_path, f"a/B\n\nc/D {bad}\n", "slashed")
        assert message.startswith(f"train.txt:3: a word without a tag; got '{bad}'")
    assert "`separator` is not valid" in wrong(tmp_path, "a/B", "slashed", separator=" ")
    with pytest.raises(FileError, match="cannot be written as word/tag; got 'a/B/C'"):
        write(tmp_path / "x", [Example({"word": ["a"]}, ["B/C"])], "slashed")


LETTERS = st.characters(codec="utf-8", exclude_categories=["Z", "C"])
WORDS = st.lists(st.text(LETTERS, min_size=1), min_size=1, max_size=5)


@settings(max_examples=60)
@given(st.lists(WORDS, max_size=3), st.sampled_from(["BMES", "BI", "IB"]))
def test_segmented_text_survives(tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], scheme: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = "".join(" ".join(words) + "\n" for words in lines)
    (folder / "words.txt").write_bytes(text.replace(" ", " \u3000 ").replace("\n", "\r\n\r\n").encode())
    result = list(read(folder / "words.txt", "segmented", scheme=scheme))
    write(folder / "again.txt", result, "segmented")
    assert (folder / "again.txt").read_bytes().decode() == text
    labels = Labels("BMES", scheme="BMES") if scheme == "BMES" else Labels("BI", scheme="BIO")
    for example, words in zip(result, lines, strict=True):
        assert example.labels is not None and list(example.columns) == ["char"]
        ends = [(segment.start, segment.end) for segment in labels.segments(example.labels)]
        assert ["".join(example.tokens[a:b]) for a, b in ends] == words


def test_labels_that_make_no_words(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="the labels do not form words; got NN; wanted B M E S"):
        write(tmp_path / "x", [Example({"char": ["a"]}, ["NN"])], "segmented")
    write(tmp_path / "x", [Example({"char": list("abcd")}, ["M-n", "E-n", "I-v", "S-v"])], "segmented")
    assert (tmp_path / "x").read_text() == "ab c d\n"


@pytest.mark.parametrize("between", ["\t", " "])
@pytest.mark.parametrize("many", [False, True])
def test_comments_with_a_prefix_separate_sequences(tmp_path: Path, between: str, many: bool) -> None:
    """No empty line at all: such a file was a single sequence if it had TABs, and an error otherwise."""
    rows = [["#doc 1", "He,PRP", "left,VBD"], ["#doc 2", "#doc 3", "She,PRP"], ["#doc 4", "ran,VBD"]]
    lines = [line for sequence in rows * (500 if many else 1) for line in sequence]
    (tmp_path / "x").write_text("\n".join(lines).replace(",", between) + "\n")
    reader = read(tmp_path / "x", "conll", comment="#doc")
    result = list(reader)
    assert [(x.tokens, x.comments) for x in result[:3]] == [
        (["He", "left"], ("#doc 1",)),
        (["She"], ("#doc 2", "#doc 3")),
        (["ran"], ("#doc 4",)),
    ]
    assert len(result) == 3 * (500 if many else 1) and [x.where.rpartition(":")[2] for x in result[:3]] == [
        "2",
        "6",
        "8",
    ]
    path = tmp_path / "x"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert list(read(path, "conll", comment="#doc")) == result
    path.write_text("x A\n\n" + path.read_text().replace("\t", " "))  # after sequences that the kernel has read
    assert len(list(read(path, "conll", comment="#doc"))) == len(result) + 1
