"""Modules of the explorer, called in a browser: they must agree with the library and with each other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import bridle

SCHEMES = {
    None: ["O", "NN", "VB-X"],
    "IO": ["O", "PER", "I-LOC"],
    "BIO": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "BIOES": ["O", *(f"{tag}-{kind}" for tag in "BIES" for kind in ("A-B", "C"))],
    "BMES": ["B", "M", "E", "S"],
}


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page of the server that runs no script of its own."""
    opened = browser.new_page()
    opened.goto(f"{address}docs")
    yield opened
    opened.close()


def imported(page: Any, module: str, code: str, argument: object) -> Any:
    """The value of code, in which `m` is a module and `given` the argument."""
    return page.evaluate(f"given => import('/static/{module}').then(m => {{ {code} }})", argument)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_segments_are_those_of_the_library(page: Any, scheme: Any) -> None:
    names = SCHEMES[scheme]
    labels = bridle.Labels(names, scheme=scheme)
    pick = random.Random(7)
    paths = [[pick.choice(names) for _ in range(pick.randrange(9))] for _ in range(200)]
    model = {"labels": names, "scheme": scheme}
    code = "return given.paths.map(path => m.segments(given.model, path).map(s => [s.start, s.end, s.type]));"
    result = imported(page, "labels.js", code, {"model": model, "paths": paths})
    for path, mine in zip(paths, result, strict=True):
        covered = [t for start, end, _ in mine for t in range(start, end)]
        assert covered == list(range(len(path)))
        wanted = [[*s] for s in labels.segments(labels.ids(path))]
        assert [item for item in mine if item[2] != "O"] == [item for item in wanted if item[2] != "O"]


def test_types_keep_their_colours(page: Any) -> None:
    model = {"labels": SCHEMES["BIO"], "scheme": "BIO"}
    code = "return ['B-PER', 'I-PER', 'B-LOC', 'O', 'B-NEW'].map(label => m.typeClass(given, label));"
    assert imported(page, "labels.js", code, model) == ["type-0", "type-0", "type-1", "", "type-unknown"]


def test_subscribers_never_see_an_older_state_after_a_newer_one(page: Any) -> None:
    code = """
        const store = m.createStore(), seen = [];
        store.subscribe((state, changed) => { if (changed.has("text") && state.text === "a") store.set({text: "b"}); });
        store.subscribe((state, changed) => seen.push([state.text, [...changed]]));
        store.set({text: "a"});
        store.set({text: "b"});
        return seen;
    """
    assert imported(page, "state.js", code, None) == [["b", ["text"]], ["b", ["text"]]]


@pytest.mark.parametrize("text", ["", "plain", "“ä” ☃ 𝄞 \u202eקנות", "<&>#%\n\t" * 500])
def test_links_hold_any_text(page: Any, text: str) -> None:
    code = """
        const state = {...m.INITIAL, text: given, rules: given + "!", model: {rules: ""}};
        return m.toFragment(state).then(m.fromFragment);
    """
    assert imported(page, "state.js", code, text) == {"text": text, "rules": text + "!"}


def test_a_link_cannot_fill_the_memory(page: Any) -> None:
    code = """
        const state = {...m.INITIAL, text: "x".repeat(6_000_000), model: {rules: ""}};
        return m.toFragment(state).then(async (link) => [link.length < 20_000, await m.fromFragment(link)]);
    """
    assert imported(page, "state.js", code, None) == [True, None]
