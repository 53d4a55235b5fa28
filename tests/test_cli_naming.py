"""Ids of what is tagged: those of the files stay, numbers go on from file to file."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bridle.cli.naming import Names
from bridle.data import Example
from commands import Cli


def named(*ids: object) -> list[Example]:
    return [Example({"word": ["a"]}, id=one) for one in ids]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9) | st.sampled_from(["3", "x"]))))
def test_numbers_are_never_used_twice(sequences: list[tuple[str, object]]) -> None:
    names = Names(files=2)
    found = [names.of(named(one), path)[0] for path, one in sorted(sequences, key=lambda pair: pair[0])]
    wanted = [one for _, one in sorted(sequences, key=lambda pair: pair[0])]
    assert [a for a, b in zip(found, wanted, strict=True) if b is not None] == [b for b in wanted if b is not None]
    numbers = [a for a, b in zip(found, wanted, strict=True) if b is None]
    assert numbers == sorted(set(numbers))
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if b is None:  # nor is it an id that came before
            assert str(a) not in map(str, found[:k])


def test_ids_of_two_files_are_kept_and_told() -> None:
    names = Names(files=2)
    assert names.of(named("a", None, 7), "x.jsonl") == ["a", 1, 7] and names.told() == ""
    assert names.of(named(7, None, "b"), "y.jsonl") == [7, 4, "b"]
    assert "the same id (1, such as 7 in x.jsonl and y.jsonl)" in names.told()
    alone = Names()
    assert alone.of(named("a", "a"), "-") == ["a", "a"] and alone.told() == ""


def test_several_files_are_tagged(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a X\nb Y\n\nb Y\n")
    run.ok("train", tmp_path / "train.txt", "-o", tmp_path / "m", "--features", "word[0]", "--c2", 1)
    tag = ["tag", tmp_path / "m", "--json"]
    out = run.ok(*tag, tmp_path / "train.txt", tmp_path / "train.txt")
    assert [json.loads(line)["id"] for line in out.stdout.splitlines()] == [0, 1, 2, 3] and out.stderr == ""
    (tmp_path / "one.jsonl").write_text('{"id": "s", "tokens": ["a"]}\n')
    for to in ("jsonl", "parquet"):
        place = tmp_path / f"out.{to}"
        result = run.ok(*tag[:2], tmp_path / "one.jsonl", tmp_path / "./one.jsonl", "--to", to, "-o", place)
        assert result.stderr == ""  # the same file twice
        (tmp_path / "two.jsonl").write_text('{"id": "s", "tokens": ["b"]}\n')
        result = run.ok(*tag[:2], tmp_path / "one.jsonl", tmp_path / "two.jsonl", "--to", to, "-o", place)
        assert "the same id (1, such as s in" in result.stderr
