"""Lists of phrases: what a file may hold, values by content, and one definition of where phrases are."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

import bridle.phrases as module
from bridle import rules as r
from bridle.errors import BridleError, FileError, RuleError
from bridle.phrases import Ignoring, Lookup, PhraseList

words = st.sampled_from(["a", "A", "b", "ab", "ß", "SS", "İ", "i̇", "\ud800", "é", "\x0b", "", "a b", "#", "0"])
plain_words = st.sampled_from(["a", "A", "b", "ab", "ß", "SS", "İ", "i̇", "\ud800", "é", "#", "0"])
phrase_lists = st.lists(st.lists(plain_words, min_size=1, max_size=4), min_size=1, max_size=6)
ignorings = st.sampled_from([None, "case"])


def by_definition(phrases: list[list[str]], ignoring: Ignoring, tokens: list[str]) -> list[tuple[int, int]]:
    folded = str.casefold if ignoring == "case" else str
    known = {tuple(map(folded, phrase)) for phrase in phrases}
    ends = [(a, b) for a in range(len(tokens)) for b in range(a, len(tokens))]
    return [(a, b) for a, b in ends if tuple(map(folded, tokens[a : b + 1])) in known]


@for_all(phrase_lists, ignorings, st.lists(words, max_size=7))
def test_runs_are_those_of_the_definition(phrases: list[list[str]], ignoring: Ignoring, tokens: list[str]) -> None:
    lookup = r.phrases(phrases).lookup(ignoring)
    assert lookup.runs(tokens) == by_definition(phrases, ignoring, tokens)
    assert len(lookup.native) == len({tuple(map(lookup.key, phrase)) for phrase in phrases})


@for_all(phrase_lists, ignorings, st.lists(plain_words, max_size=4))
def test_a_text_is_a_phrase_if_its_tokens_are(phrases: list[list[str]], ignoring: Ignoring, tokens: list[str]) -> None:
    lookup = r.phrases(phrases).lookup(ignoring)
    assert ("  ".join(tokens) + " " in lookup) == ((0, len(tokens) - 1) in by_definition(phrases, ignoring, tokens))


@for_all(phrase_lists, st.lists(words, max_size=9))
def test_places_are_those_of_the_first_and_longest(phrases: list[list[str]], tokens: list[str]) -> None:
    lookup = r.phrases(phrases).lookup()
    wanted, free = [0] * len(tokens), 0
    for first, last in sorted(by_definition(phrases, None, tokens), key=lambda run: (run[0], -run[1])):
        if first < free:
            continue
        free = last + 1
        wanted[first : last + 1] = [4] if first == last else [1, *[2] * (last - first - 1), 3]
    out = np.zeros(len(tokens), np.int32)
    lookup.native.places(np.array([*map(lookup.word, tokens)], np.int32), np.array([0, len(tokens)], np.int64), out)
    assert out.tolist() == wanted


def test_lists_are_values() -> None:
    some = r.phrases(["New York", "Boston", "New  York"])
    assert some.phrases() == ["Boston", "New York"] and len(some) == 2
    assert some == r.phrases([["Boston"], ["New", "York"]]) and hash(some) == hash(r.phrases(["Boston", "New York"]))
    assert some != r.phrases(["Boston"]) and some != PhraseList(some.content, "cities.txt")
    assert some != "Boston" and pickle.loads(pickle.dumps(some)) == some
    assert repr(some).startswith("PhraseList(2 phrases, ") and "'c.txt', " in repr(PhraseList(b"a", "c.txt"))


def test_equal_lists_share_what_they_are_looked_up_in() -> None:
    item, other = r.phrases(["x y"]), r.phrases([["x", "y"]])
    assert item.lookup() is other.lookup() and item.lookup("case") is not item.lookup()
    kept = item.lookup()
    del kept
    gc.collect()
    assert not [
        key for key, value in module._lookups.items() if isinstance(value, Lookup) and value._lines == b"\nx y\n"
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"New York\nBoston\n",
        b"\xef\xbb\xbfNew York\r\nBoston",
        b"# cities\n\n  New\t York \r#\rBoston\n#\tmore\n",
        b"Boston\nNew York\nBoston\n\n",
    ],
)
def test_files(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_bytes(data)
    result = r.phrases(tmp_path / "cities.txt")
    assert result.phrases() == ["Boston", "New York"] and result.name == str(tmp_path / "cities.txt")
    assert r.phrases(str(tmp_path / "cities.txt")) == result


def test_only_a_hash_with_a_blank_begins_a_comment(tmp_path: Path) -> None:
    (tmp_path / "tags.txt").write_text("#berlin\n# comment\n#\n#1 hit\n")
    assert r.phrases(tmp_path / "tags.txt").phrases() == ["#1 hit", "#berlin"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\n\xff\n", "not UTF-8; got byte 0xff on line 2"),
        (b"\xff\xfea\0", "it may be UTF-16"),
        (b"\n# nothing\n", "has no phrases"),
        (b"a " * 101, "a phrase that is too long; got 101 tokens; wanted at most 100"),
        (None, "cannot read the list"),
    ],
)
def test_bad_files(data: bytes | None, message: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "list.txt").write_bytes(data)
    with pytest.raises(FileError) as caught:
        r.phrases(tmp_path / "list.txt")
    assert message.split(";")[0] in str(caught.value) and "list.txt" in str(caught.value)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "list.txt").write_text("aa\nbb\ncc\n")
    monkeypatch.setattr(module, "MOST_PHRASES", 2)
    for kind, source in ((FileError, tmp_path / "list.txt"), (RuleError, ["a", "b", "c"])):
        with pytest.raises(kind, match="more than 2 phrases"):
            r.phrases(source)
    monkeypatch.setattr(module, "LARGEST", 4)
    for kind, source in ((FileError, tmp_path / "list.txt"), (RuleError, ["aaa", "bbb"])):
        with pytest.raises(kind, match="more than 4 bytes"):
            r.phrases(source)


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        ([], "is empty"),
        ([""], "bad phrase"),
        ([[]], "bad phrase"),
        ([["New", ""]], "bad phrase"),
        ([3], "bad phrase"),
        ([[3]], "bad phrase"),
        ([b"x"], "bad phrase"),
        ([["New York"]], "has a blank inside"),
        (["a " * 101], "101 tokens"),
        (3, "not a list"),
    ],
)
def test_bad_phrases(phrases: Any, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        r.tokens(phrases=phrases)


def test_a_string_is_no_list() -> None:
    with pytest.raises(BridleError, match=r"rules.phrases\(path\)"):
        r.tokens(phrases="cities.txt")
