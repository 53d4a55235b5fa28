"""Sequences in parts: all of them once, in the right shares, what belongs together in one part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import FileError
from bridle.data import Example, read, split_indices, write
from bridle.data.base import format_named
from bridle.data.splitting import documents_of, duplicates_across, pieces_of

THREE = {"train": 0.8, "dev": 0.1, "test": 0.1}
SHARES = st.lists(st.integers(1, 9), min_size=2, max_size=4).map(
    lambda weights: {f"part{k}": weight / sum(weights) for k, weight in enumerate(weights)}
)
LABELS = st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=3)


def examples(labellings: list[list[str]]) -> list[Example]:
    return [Example({"word": [f"w{k}"] * len(labels)}, labels) for k, labels in enumerate(labellings)]


@given(st.lists(LABELS, min_size=4, max_size=60), SHARES, st.integers(0, 9), st.sampled_from(["labels", "none"]))
def test_every_sequence_is_in_one_part_and_the_sizes_are_the_shares(
    labellings: list[list[str]], into: dict[str, float], seed: int, stratify: Any
) -> None:
    parts = split_indices(examples(labellings), into, seed=seed, stratify=stratify)
    assert sorted(b for part in parts.values() for b in part) == list(range(len(labellings)))
    assert list(parts) == list(into)
    for name, part in parts.items():
        assert part == sorted(part) and part
        assert abs(len(part) - into[name] * len(labellings)) < len(into)
    assert parts == split_indices(examples(labellings), into, seed=seed, stratify=stratify), "a seed settles it"


@given(st.lists(st.integers(0, 9), min_size=12, max_size=60), SHARES, st.integers(0, 9))
def test_a_group_is_in_one_part_and_no_part_is_empty(groups: list[int], into: dict[str, float], seed: int) -> None:
    result = examples([["A"]] * len(groups))
    if len(set(groups)) < len(into):
        with pytest.raises(FileError, match="fewer groups than parts"):
            split_indices(result, into, groups=groups)
        return
    for stratify in ("labels", "none"):
        parts = split_indices(result, into, seed=seed, groups=groups, stratify=stratify)  # type: ignore[arg-type]
        of = [{groups[b] for b in part} for part in parts.values()]
        assert all(of) and sum(map(len, of)) == len(set(groups))


def test_rare_labels_are_in_every_part() -> None:
    """Twenty labels of three sequences each among two hundred: by chance most parts would lack some."""
    rare = [[f"R{k}"] for k in range(20) for _ in range(3)]
    result = examples([*rare, *([["O"]] * 340)])
    parts = split_indices(result, THREE, seed=1)
    for part in parts.values():
        assert {f"R{k}" for k in range(20)} <= {result[b].labels[0] for b in part if result[b].labels}
    by_chance = split_indices(result, THREE, seed=1, stratify="none")
    assert not {f"R{k}" for k in range(20)} <= {(result[b].labels or [""])[0] for b in by_chance["dev"]}
    assert [len(part) for part in parts.values()] == [320, 40, 40]


def test_common_labels_get_their_share() -> None:
    result = examples([["A", "O"] if k % 4 == 0 else ["O"] for k in range(400)])
    parts = split_indices(result, THREE)
    assert [sum("A" in (result[b].labels or ()) for b in part) for part in parts.values()] == [80, 10, 10]


def test_equal_sequences_are_counted_or_kept_together() -> None:
    result = [Example({"word": [f"w{k % 10}"]}, ["A"]) for k in range(100)]
    parts = split_indices(result, THREE)
    assert all(duplicates_across(result, parts).values())
    parts = split_indices(result, THREE, duplicates="together")
    assert duplicates_across(result, parts) == {"train": 0, "dev": 0, "test": 0}
    assert [len(part) for part in parts.values()] == [80, 10, 10]
    pairs = [k // 2 for k in range(100)]  # w0 and w1 are in a group: so are w0, w1, and all that equal them
    both = split_indices(result, {"a": 0.5, "b": 0.5}, groups=pairs, duplicates="together")
    for item, other in ((0, 1), (2, 3), (8, 9)):
        assert {name for name, part in both.items() for b in part if b % 10 in (item, other)} != {"a", "b"}


@pytest.mark.parametrize(
    ("into", "options", "says"),
    [
        ({"train": 0.8, "test": 0.1}, {}, "the shares must add up to 1; got 0.9"),
        ({"train": 1}, {}, "`into` must name at least two parts"),
        ({"train": 1.5, "test": -0.5}, {}, "the share of 'train' must be between 0 and 1"),
        (THREE, {"stratify": "yes"}, "unknown stratify"),
        (THREE, {"duplicates": "drop"}, "unknown duplicates"),
        (THREE, {"seed": -1}, "`seed` must be a non-negative integer"),
        (THREE, {"groups": [1]}, "`groups` must have one entry per sequence"),
    ],
)
def test_what_makes_no_sense_is_said(into: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(FileError, match=says):
        split_indices(examples([["A"]] * 9), into, **options)
    with pytest.raises(FileError, match="fewer sequences than parts; got 2; wanted 3 or more"):
        split_indices(examples([["A"]] * 2), THREE)


# ---- lines as they are ----------------------------------------------------------------------------------------------

CONLL = """# global

-DOCSTART- -X- O

# id 1
He  PRP B-NP
left VBD B-VP


She PRP B-NP

# newdoc
# id 3
ran VBD B-VP
"""


def test_pieces_of_conll_keep_comments_and_blanks(tmp_path: Path) -> None:
    path = tmp_path / "all.conll"
    path.write_text(CONLL)
    copied = pieces_of(str(path), format_named("conll", {"comment": "# "}), list(read(path, "conll", comment="# ")))
    assert copied is not None and "".join(copied.pieces) == CONLL + "\n"
    assert [piece.split()[-1] for piece in copied.pieces] == ["B-VP", "B-NP", "B-VP"]
    assert copied.pieces[1] == "She PRP B-NP\n\n"
    assert documents_of(copied.pieces) == [0, 0, 1]


def test_sequences_that_end_at_a_comment_are_pieces(tmp_path: Path) -> None:
    path, text = tmp_path / "all.conll", "#doc 1\nHe\tA\nleft\tB\n#doc 2\n#doc 3\nShe\tA\n"
    path.write_text(text)
    copied = pieces_of(str(path), format_named("conll", {"comment": "#doc"}), list(read(path, "conll", comment="#doc")))
    assert copied is not None
    assert copied.pieces == ["#doc 1\nHe\tA\nleft\tB\n", "#doc 2\n#doc 3\nShe\tA\n\n"]


FILES = {
    "jsonl": [f'{{"tokens": ["w{k}"],   "labels": ["A"], "more": {k}}}\n\n' for k in range(4)],
    "tagged": [f"<a><b>w{k}</b>\t!</a>  <c>x</c>\n" for k in range(4)],
    "segments": [f"w{k}  |1\nx |2\n\n\n" for k in range(4)],
    "slashed": [f"w{k}/A  b/B\r\n" for k in range(4)],
    "csv": [f'w{k},A,"x\n\ny"\n"""",B,\n\n' for k in range(4)],
    "parserator": [f'  <S n="1"><a>w{k}</a>,\n <b>x</b></S>\n' for k in range(4)],
    "labelstudio": [
        f'{{"id":{k},   "data": {{"text": "w{k}", "meta": [{k}]}}, "annotations": [{{"result": []}}]}}'
        for k in range(4)
    ],
}
AROUND = {
    "csv": ("word,label,note\n", ""),
    "parserator": ('<?xml version="1.0"?>\n<All>\n', "</All>\n"),
    "labelstudio": ("[", "]\n"),
    "xml": ("<data>\n", "</data>\n"),
    "new": ("", ""),
}
FILES["xml"] = [f"<sequence>\n {line} </sequence>\n" for line in FILES["tagged"]]
FILES["new"] = [f"<NEWREFERENCE>\n{line}\n" for line in FILES["tagged"]]


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_text_of_every_sequence_is_copied(tmp_path: Path, name: str, encoding: str) -> None:
    """Spacing, inner tags, keys and columns that Bridle does not read stay; and the copies are read again."""
    format = "tagged" if name in ("xml", "new") else name
    options = {"encoding": encoding} | ({"depth": "path"} if format == "tagged" else {})
    head, foot = AROUND.get(name, ("", ""))
    joint = "," if name == "labelstudio" else ""
    text = head + joint.join(FILES[name]) + foot
    path = tmp_path / "all.txt"
    path.write_bytes(text.encode(encoding))
    whole = list(read(path, format, **options))
    copied = pieces_of(str(path), format_named(format, options), whole)
    assert copied is not None and len(whole) == 4
    assert "".join(copied.text(range(4)).split()) == "".join(text.split())
    if not joint:
        assert copied.text(range(4)) == text
    part = tmp_path / "part.txt"
    part.write_bytes(copied.text([1, 3]).encode(encoding))
    again = list(read(part, format, **options))
    assert [(x.columns, x.labels) for x in again] == [(x.columns, x.labels) for x in (whole[1], whole[3])]
    for k in (1, 3):
        assert FILES[name][k] in copied.text([1, 3])


def test_tables_are_not_copied_in_pieces(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", examples([["A"]]))
    rows = list(read(tmp_path / "x.parquet"))
    assert pieces_of(str(tmp_path / "x.parquet"), format_named("parquet", {}), rows) is None
