"""Texts with spans of characters: spans, doccano, labelstudio. What is written is read back; bad files are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.data import Example, formats, read, write
from bridle.data.base import format_named
from bridle.data.standoff import SCHEMES, Span, Standoff
from bridle.data.tokenizer import tokenize
from bridle.errors import FileError

NAMES = ["doccano", "labelstudio", "spans"]
TEXT = "Ann 😀 Lee went to New York."
PLACES = [(0, 9, "PER"), (18, 26, "LOC")]
LABELS = ["B-PER", "I-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"]
SHIFTED = [(0, 10, "PER"), (19, 27, "LOC")]  # in UTF-16


def file_of(name: str, text: Any, spans: list[Any] | None, **more: Any) -> str:
    """A text with its spans, as a tool writes it."""
    if name == "spans":
        built = {"text": text} | ({} if spans is None else {"spans": [labelled(*span) for span in spans]})
        return json.dumps(built | more) + "\n"
    if name == "doccano":
        return json.dumps({"text": text} | ({} if spans is None else {"label": spans}) | more) + "\n"
    regions = [{"type": "labels", "value": labelled(*span, "labels")} for span in spans or []]
    result = {} if spans is None else {"annotations": [{"result": regions}]}
    return json.dumps([{"data": {"text": text}} | result | more], indent=1)


def labelled(start: Any, end: Any, label: Any, key: str = "label") -> dict[str, Any]:
    return {"start": start, "end": end, key: [label] if key == "labels" else label}


def saved(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_all_of_them_are_here() -> None:
    kinds = [name for name in formats() if isinstance(format_named(name, {}), Standoff)]
    assert kinds == ["brat", *NAMES]


# ---- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ({"text": "a", "label": [], "meta": {"tokens": 3, "data": 4}}, "doccano"),
        ({"meta": [{"spans": 1}], "text": "a", "label": []}, "doccano"),
        ({"text": "a", "data": "x", "label": []}, "doccano"),
        ({"data": "a", "label": []}, "doccano"),
        ({"data": "a"}, "doccano"),
        ({"text": "a", "spans": [], "meta": {"label": 1}}, "spans"),
        ({"text": "a", "meta": {"label": 1, "tokens": 2}}, "spans"),
        ({"text": 'a \\" "label": ', 'tok"ens': 1}, "spans"),
        ({"data": {"text": "a", "tokens": 3}, "annotations": []}, "labelstudio"),
        ({"tokens": ["a"], "meta": {"text": "b"}}, "jsonl"),
        ({"meta": {"text": "b"}, "tokens": ["a"]}, "jsonl"),
        ({"text": "a " * 100_000, "label": []}, "spans"),  # what comes after so much is not looked at
    ],
)
def test_the_keys_of_the_object_itself_tell_its_format(tmp_path: Path, line: Any, name: str) -> None:
    assert read(saved(tmp_path / "x.jsonl", json.dumps(line) + "\n")).format == name


def test_doccano_may_call_a_text_data(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.jsonl", json.dumps({"data": "Ann left", "label": [[0, 3, "PER"]]}))
    assert [(x.text, x.labels) for x in read(path)] == [("Ann left", ["B-PER", "O"])]


def test_spans_are_no_file_of_doccano(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.jsonl", file_of("spans", TEXT, PLACES))
    with pytest.raises(
        FileError, match=r"x.jsonl:1: there are no labels; got 'spans'.*\nDoes it have .* Pass format='spans'"
    ):
        list(read(path, "doccano"))
    with pytest.raises(FileError, match=r"there are no spans; got 'label'.*\nIs it .* Pass format='doccano'"):
        list(read(saved(path, file_of("doccano", TEXT, PLACES)), "spans"))


@pytest.mark.parametrize("name", NAMES)
def test_what_tools_write_is_read(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x.json", file_of(name, TEXT, PLACES, id=7))
    with read(path) as examples:
        assert examples.format == name
        (example,) = examples
    assert (example.text, example.labels, example.id) == (TEXT, LABELS, 7)
    assert example.offsets is not None and example.offsets[2] == (6, 9)
    (bare,) = read(saved(path, file_of(name, TEXT, None)), name)
    assert (bare.text, bare.labels) == (TEXT, None)
    (none,) = read(saved(path, file_of(name, TEXT, [])), name)
    assert none.labels == ["O"] * 8


@st.composite
def annotated(draw: st.DrawFn) -> tuple[str, list[Span]]:
    """A text and spans of whole tokens."""
    text = draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
    tokens, starts = tokenize(text)
    spans, t = list[Span](), 0
    while t < len(tokens):
        n = draw(st.integers(1, 3))
        end = min(t + n, len(tokens))
        if draw(st.booleans()):
            label = draw(st.sampled_from(["PER", "B-x", "O", "Ü y"]))
            spans.append(Span(starts[t], starts[end - 1] + len(tokens[end - 1]), label))
        t = end
    return text, spans


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "IO"])
@pytest.mark.parametrize("units", ["characters", "utf-16"])
@settings(max_examples=25)
@given(item=annotated())
def test_any_spans_survive(
    tmp_path_factory: pytest.TempPathFactory, name: str, scheme: str, units: str, item: tuple[str, list[Span]]
) -> None:
    text, spans = item
    options: dict[str, Any] = {"scheme": scheme, "units": units}
    path = tmp_path_factory.getbasetemp() / f"survive.{name}"
    places = [
        (len(text[:a].encode("utf-16-le")) // 2, len(text[:b].encode("utf-16-le")) // 2, x) for a, b, x, *_ in spans
    ]
    result = list(
        read(saved(path, file_of(name, text, places if units == "utf-16" else [s[:3] for s in spans])), name, **options)
    )
    if not tokenize(text)[0]:
        assert result == []
        return
    kind = format_named(name, options)
    assert isinstance(kind, Standoff)
    back_text, back = kind.spans(result[0])
    assert back_text == text
    assert [span[:3] for span in back] == ([s[:3] for s in spans] if units == "characters" else places)
    assert [span.quote for span in back] == [text[s.start : s.end] for s in spans]
    write(path, result, name, **options)
    assert list(read(path, name, **options)) == result


def test_schemes(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.jsonl", file_of("spans", "a b c d", [(0, 1, "X"), (2, 7, "Y")]))
    result = {scheme: next(read(path, scheme=scheme)).labels for scheme in SCHEMES}
    assert result == {
        "IO": ["X", "Y", "Y", "Y"],
        "BIO": ["B-X", "B-Y", "I-Y", "I-Y"],
        "BIOES": ["S-X", "B-Y", "I-Y", "E-Y"],
        "BMES": ["S-X", "B-Y", "M-Y", "E-Y"],
    }
    for scheme in SCHEMES:
        write(tmp_path / "y.jsonl", read(path, scheme=scheme), "doccano", scheme=scheme)
        assert json.loads((tmp_path / "y.jsonl").read_text())["label"] == [[0, 1, "X"], [2, 7, "Y"]]
    write(tmp_path / "y.jsonl", [Example({"word": ["a", "b"]}, ["I-X", "X"])], "doccano", scheme="IO")
    assert json.loads((tmp_path / "y.jsonl").read_text())["label"] == [[0, 3, "X"]]
    with pytest.raises(FileError, match=r"labels do not fit the scheme.*Pass scheme='IO'|labels do not fit"):
        write(tmp_path / "y.jsonl", [Example({"word": ["a"]}, ["X"])], "doccano")


def test_tokens_without_a_text_are_joined_by_blanks(tmp_path: Path) -> None:
    write(tmp_path / "x", [Example({"word": ["Ann", "Lee", "left"]}, ["B-PER", "I-PER", "O"], id="a")], "spans")
    span = {"start": 0, "end": 7, "label": "PER", "text": "Ann Lee"}
    assert json.loads((tmp_path / "x").read_text()) == {"id": "a", "text": "Ann Lee left", "spans": [span]}


def test_probabilities_are_written(tmp_path: Path) -> None:
    example = Example({"word": ["Ann", "left"]}, ["B-PER", "O"], probabilities=[0.75])
    write(tmp_path / "x", [example], "spans")
    assert json.loads((tmp_path / "x").read_text())["spans"][0]["probability"] == 0.75
    write(tmp_path / "x", [example], "labelstudio", from_name="ner", to_name="doc", model_version="m1")
    (task,) = json.loads((tmp_path / "x").read_text())
    value = {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}
    region = {"id": "span0", "from_name": "ner", "to_name": "doc", "type": "labels", "score": 0.75, "value": value}
    assert task == {
        "data": {"text": "Ann left"},
        "predictions": [{"model_version": "m1", "score": 0.75, "result": [region]}],
    }
    with pytest.raises(FileError, match="the numbers of segments and probabilities differ; got 1; wanted 0"):
        write(tmp_path / "x", [Example({"word": ["a"]}, ["O"], probabilities=[0.5])], "spans")


def test_text_is_cut_as_it_is_asked_for(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", file_of("spans", "D.E. Knuth", [(0, 4, "A")]))
    assert next(read(path, "spans", tokens="references")).tokens == ["D.", "E.", "Knuth"]
    assert next(read(path, "spans", tokens="blanks")).labels == ["B-A", "O"]
    assert next(read(path, "spans")).tokens == ["D", ".", "E", ".", "Knuth"]


# ---- spans that fit badly -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_span_within_a_token(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x", file_of(name, "Paris-based firm", [(1, 5, "LOC"), (12, 13, "X")]))
    with read(path, name) as examples:
        assert next(examples).labels == ["B-LOC", "O", "O", "B-X"]
        assert (examples.changed, examples.left_out) == ({"spans: widened to complete tokens": 2}, {})
    with read(path, name, on_mismatch="skip") as examples:
        assert next(examples).labels == ["O"] * 4
        assert examples.left_out == {"spans that begin or end within a token": 2}
    with pytest.raises(
        FileError, match=r"x:\d: a span begins or ends within a token; got 'aris', 1 to 5, LOC"
    ) as caught:
        list(read(path, name, on_mismatch="raise"))
    assert "Pass on_mismatch='skip'" in str(caught.value)


def test_two_spans_within_one_token(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", file_of("spans", "Parisbased", [(0, 5, "LOC"), (5, 10, "X")]))
    with read(path, "spans") as examples:
        assert next(examples).labels == ["B-LOC"]
        assert examples.left_out == {"spans that share a token with others": 1}


def test_blanks_around_a_span_do_no_harm(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", file_of("spans", "to  Paris  now", [(2, 11, "LOC"), (3, 4, "X"), (14, 14, "X")]))
    with read(path, "spans", on_overlap="skip") as examples:
        assert next(examples).labels == ["O", "B-LOC", "O"]
        assert (examples.changed, examples.left_out) == (
            {},
            {"spans that overlap others": 1, "spans that have no tokens": 1},
        )


@pytest.mark.parametrize("name", NAMES)
def test_overlapping_spans(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x", file_of(name, "New York Times", [(0, 8, "LOC"), (0, 14, "ORG"), (9, 14, "X")]))
    with pytest.raises(FileError, match=r"a span overlaps another one; got 'New York', 0 to 8, LOC") as caught:
        list(read(path, name))
    assert "on_overlap='skip'" in str(caught.value)
    with read(path, name, on_overlap="skip") as examples:
        assert next(examples).labels == ["B-ORG", "I-ORG", "I-ORG"]  # the longest of those that begin first
        assert examples.left_out == {"spans that overlap others": 2}


@pytest.mark.parametrize("name", NAMES)
def test_utf_16(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x", file_of(name, TEXT, SHIFTED))
    assert next(read(path, name, units="utf-16")).labels == LABELS
    with pytest.raises(FileError, match=r"a span begins or ends within a character; got 5 to 10"):
        list(read(saved(path, file_of(name, TEXT, [(5, 10, "PER")])), name, units="utf-16"))
    with pytest.raises(FileError, match=r"is outside of its text.*\n.*Pass units='utf-16'"):
        list(read(saved(path, file_of(name, "😀 Ann", [(3, 6, "PER")])), name))


def test_a_span_that_says_something_else(tmp_path: Path) -> None:
    said = {"start": 7, "end": 10, "label": "PER", "text": "Lee"}
    path = saved(tmp_path / "x", json.dumps({"text": TEXT, "spans": [said]}))
    with pytest.raises(FileError, match=r"does not match its text; got 'ee ' at 7 to 10; wanted 'Lee'") as caught:
        list(read(path, "spans"))
    assert "units='utf-16'" in str(caught.value)
    assert next(read(path, "spans", units="utf-16")).labels is not None
    breaks = {"text": "New\nYork", "spans": [{"start": 0, "end": 8, "label": "LOC", "text": "New\\nYork"}]}
    assert next(read(saved(path, json.dumps(breaks)), "spans")).labels == ["B-LOC", "I-LOC"]
    far = {"text": "a" + " " * 1000, "spans": [{"start": 0, "end": 1000, "label": "X", "text": "a"}]}
    with pytest.raises(FileError, match="does not match its text"):
        list(read(saved(path, json.dumps(far)), "spans"))


# ---- bad files ------------------------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("start", "end", "label", "message"),
    [
        (NAN, 3, "X", r"the offsets of a span must be integers; got \(nan, 3\)"),
        (0, INF, "X", "must be integers"),
        (0.0, 3, "X", "must be integers"),
        (True, 3, "X", "must be integers"),
        ("0", "3", "X", "must be integers"),
        (None, 3, "X", "must be integers"),
        (-1, 3, "X", "is outside of its text; got '-1 to 3'; wanted 0 <= start <= end <= 7"),
        (3, 2, "X", "is outside of its text"),
        (0, 8, "X", "is outside of its text"),
        (0, 10**300, "X", "is outside of its text"),
        (0, 3, "", "a span has no label"),
        (0, 3, None, "a span has no label"),
        (0, 3, 5, "a span has no label"),
    ],
)
def test_bad_spans(tmp_path: Path, name: str, start: Any, end: Any, label: Any, message: str) -> None:
    path = saved(tmp_path / "x", file_of(name, "Ann saw", [(start, end, label)]))
    with pytest.raises(FileError, match=rf"x:\d: .*{message}"):
        list(read(path, name))


def test_the_outside_label_is_no_span_under_io(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", file_of("spans", "Ann", [(0, 3, "O")]))
    assert next(read(path, "spans")).labels == ["B-O"]
    with pytest.raises(FileError, match="a span cannot have this label; got 'O'"):
        list(read(path, "spans", scheme="IO"))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("spans", "{", "x:1: not a JSON line"),
        ("spans", '{"text": ' + "[" * 100_000, "x:1: not a JSON line; got maximum recursion"),
        ("spans", '{"text": "\\ud800"}', "x:1: not a JSON line; got .*surrogates"),
        ("spans", '{"text": "a", "spans": [' + "9" * 5000 + "]}", "x:1: not a JSON line; got Exceeds the limit"),
        ("spans", "[]", "x:1: a line is not a JSON object"),
        ("spans", "{}", "x:1: there is no text; got no keys; wanted the key 'text'"),
        ("spans", '{"text": 3}', "x:1: the text must be a string; got 3"),
        ("spans", '{"text": "a", "spans": {}}', "x:1: 'spans' must be a list; got {}"),
        ("spans", '{"text": "a", "spans": [[0, 1, "X"]]}', r"x:1: not a span; got \[0, 1, 'X'\]"),
        ("spans", '{"text": "a", "label": []}', "x:1: there are no spans; got 'label'; .*\nIs it a doccano file"),
        ("doccano", '\n{"text": "a", "label": [[0, 1]]}', "x:2: not a span"),
        ("doccano", '{"text": "a", "label": [{"start_offset": 0, "label": "X"}]}', "x:1: not a span"),
        ("doccano", '{"text": "a", "label": [], "entities": []}', "x:1: the line has spans under two keys"),
        ("doccano", '{"text": "a", "annotations": [{"label": 1}]}', "x:1: an old export of doccano"),
        ("doccano", '{"text": "a", "relations": 3}', "x:1: 'relations' must be a list"),
        ("labelstudio", "[", "x:1: not JSON; got the end of the file"),
        ("labelstudio", '[{"data": {"text": "a"}}', "x:1: not JSON; got the end of the file; .*\nIt is cut off"),
        ("labelstudio", '[\n{"data": {"text": "a"}} x', "x:2: not JSON; got 'x'; wanted ',' or ']'"),
        ("labelstudio", '[{"data": {"text": "a"}}] 3', "x:1: not JSON; got '3'; wanted the end of the file"),
        ("labelstudio", '[{"data": {"te', "x:1: not JSON; got Unterminated string"),
        ("labelstudio", '[{"data": nope, "x": "' + "y" * 100 + '"}]', "x:1: not JSON; got Expecting value"),
        ("labelstudio", "[" * 100_000, r"x:1: not JSON; got '\[\[\["),
        ("labelstudio", '[{"data": ' + "[" * 100_000, "x:1: not JSON; got maximum recursion"),
        ("labelstudio", '[{"data": {"text": "\\udfff"}}]', "x:1: not JSON; got .*surrogates"),
        ("labelstudio", '[{"data": ' + "9" * 5000 + "}]", "x:1: not JSON; got Exceeds the limit"),
        ("labelstudio", "3", r"x:1: not JSON; got '3'; wanted '\[' or '{'"),
        ("labelstudio", '[{"data": 3}]', "x:1: the data of a task is not an object; got 3"),
        ("labelstudio", '[{"data": {"body": "a"}}]', "x:1: there is no text; got 'body'; wanted the key 'text'"),
        ("labelstudio", '[{"data": {"text": "a"}, "annotations": 3}]', "'annotations' must be a list"),
        ("labelstudio", '[{"data": {"text": "a"}, "annotations": [3]}]', "annotations are not objects; got 3"),
        ("labelstudio", '[{"data": {"text": "a"}, "annotations": [{}]}]', "'result' must be a list; got None"),
        (
            "labelstudio",
            '[{"data": {"text": "a"}, "annotations": [{"result": [3]}]}]',
            "a result is not an object; got 3",
        ),
        ("labelstudio", '[{"text": "a", "label": [{"start": 0, "end": 1, "labels": "X"}]}]', "a region has no labels"),
        ("labelstudio", "[{" + ",".join(f'"{k}": 1' for k in range(2000)) + "}]", "too many keys; got 2,000"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, data: str, message: str) -> None:
    with pytest.raises(FileError, match=message) as caught:
        list(read(saved(tmp_path / "x", data), name))
    assert len(str(caught.value)) < 1000


def test_options_are_checked(tmp_path: Path) -> None:
    path = saved(tmp_path / "x", "")
    for option in (
        {"tokens": "letters"},
        {"scheme": "IOB"},
        {"on_mismatch": "cut"},
        {"on_overlap": "nest"},
        {"units": "bytes"},
    ):
        with pytest.raises(FileError, match=f"`{next(iter(option))}` has an unknown value"):
            read(path, "spans", **option)
    with pytest.raises(FileError, match="`kind` has an unknown value"):
        read(path, "labelstudio", kind="drafts")


# ---- which of them it is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "format"),
    [
        ({"tokens": ["a"], "labels": ["X"]}, "jsonl"),
        ({"tokens": ["a"], "text": "a", "spans": []}, "jsonl"),
        ({"tokenz": ["a"]}, "jsonl"),
        ({"text": "a", "spans": []}, "spans"),
        ({"id": 1, "text": "a"}, "spans"),
        ({"text": "a", "label": []}, "doccano"),
        ({"text": "a", "labels": [], "Comments": []}, "doccano"),
        ({"text": "a", "entities": [], "relations": []}, "doccano"),
        ({"text": "a", "annotations": []}, "doccano"),
        ({"data": {"text": "a"}, "annotations": []}, "labelstudio"),
        ([{"data": {"text": "a"}}], "labelstudio"),
        ([{"text": "a", "label": []}], "labelstudio"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".json", ".jsonl"])
def test_formats_are_told_apart(tmp_path: Path, line: Any, format: str, suffix: str) -> None:
    path = saved(tmp_path / f"x{suffix}", json.dumps(line) + "\n")
    with read(path) as examples:
        assert examples.format == format


def test_a_suffix_alone_is_that_of_its_owner(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", [Example({"word": ["a"]}, ["X"])])
    assert json.loads((tmp_path / "x.jsonl").read_text()) == {"tokens": ["a"], "labels": ["X"]}
    with pytest.raises(FileError, match="not a JSON line"):
        list(read(saved(tmp_path / "y.jsonl", "nonsense\n")))


# ---- Label Studio and doccano ---------------------------------------------------------------------------------------


def task(**more: Any) -> dict[str, Any]:
    return {"data": {"text": "Ann left"}, **more}


def region(start: int, end: int, *labels: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "labels",
        "from_name": "label",
        "value": {"start": start, "end": end, "labels": list(labels)},
        **more,
    }


def test_one_annotation_of_a_task_is_read(tmp_path: Path) -> None:
    first = {
        "result": [region(0, 3, "PER", "X"), {"type": "choices", "value": {}}, region(4, 8, "V", from_name="verbs")]
    }
    tasks = [
        task(annotations=[{"was_cancelled": True, "result": []}, first, {"result": []}], predictions=[{"result": []}]),
        task(annotations=[], predictions=[{"result": [region(4, 8, "P")]}]),
        task(annotations=[{"was_cancelled": True, "result": []}]),
        task(predictions=[{"result": [region(4, 8, "P")]}]),
    ]
    path = saved(tmp_path / "x.json", json.dumps(tasks))
    with read(path) as examples:
        assert [example.labels for example in examples] == [["B-PER", "B-V"], None, None, ["O", "B-P"]]
        assert examples.left_out == {
            "cancelled annotations": 2,
            "further annotations of a task": 1,
            "further labels of a region": 1,
            "results that are not text regions": 1,
        }
    assert [x.labels for x in read(path, kind="predictions")] == [["O", "O"], ["O", "B-P"], None, ["O", "B-P"]]
    with read(path, from_name="verbs") as examples:
        assert next(examples).labels == ["O", "B-V"]
        assert examples.left_out["regions of other tags"] == 1


def test_tasks_need_not_be_in_a_list(tmp_path: Path) -> None:
    item = json.dumps(task(id=1))
    assert [x.id for x in read(saved(tmp_path / "x", item + "\n" + item), "labelstudio")] == [1, 1]
    assert [x.id for x in read(saved(tmp_path / "x", "\ufeff[" + item + ",\n" + item + "]"), "labelstudio")] == [1, 1]
    assert list(read(saved(tmp_path / "x", " [ ] "), "labelstudio")) == []
    write(tmp_path / "x", [], "labelstudio")
    assert json.loads((tmp_path / "x").read_text()) == []


def test_annotations_can_be_written(tmp_path: Path) -> None:
    write(tmp_path / "x", [Example({"word": ["Ann"]}, ["B-PER"])], "labelstudio", kind="annotations", key="body")
    (document,) = json.loads((tmp_path / "x").read_text())
    assert document["data"] == {"body": "Ann"} and document["annotations"][0]["result"][0]["value"]["labels"] == ["PER"]
    assert next(read(tmp_path / "x", key="body")).labels == ["B-PER"]


def test_a_large_export_is_read_piece_by_piece(tmp_path: Path) -> None:
    """One line that is longer than a block, with a task that is; tasks keep their line."""
    long = task(id=1, note="x" * 600_000)
    tasks = [task(id=0), long, *[task(id=k) for k in range(2, 3000)]]
    path = saved(tmp_path / "x.json", json.dumps(tasks))
    assert [x.id for x in read(path, "labelstudio")] == list(range(3000))
    lines = "[\n" + ",\n".join(map(json.dumps, tasks)) + "\n]\n"
    assert [x.where for x in read(saved(path, lines), "labelstudio")] == [f"{path}:{k + 2}" for k in range(3000)]


def test_an_object_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.data.limits.LONGEST", 300_000)
    path = saved(tmp_path / "x", '[{"data": "' + "x" * 2_000_000)
    with pytest.raises(FileError, match="x:1: an object is too long"):
        list(read(path, "labelstudio"))


def test_exports_of_doccano_with_relations(tmp_path: Path) -> None:
    entity = {"id": 3, "label": "PER", "start_offset": 0, "end_offset": 3}
    built = {"id": 9, "text": "Ann left", "entities": [entity], "relations": [{"id": 1}], "Comments": []}
    with read(saved(tmp_path / "x.jsonl", json.dumps(built))) as examples:
        assert [(x.id, x.labels) for x in examples] == [(9, ["B-PER", "O"])]
        assert examples.left_out == {"relations": 1}


def test_texts_without_tokens_are_left_out(tmp_path: Path) -> None:
    with read(saved(tmp_path / "x.jsonl", '{"text": " "}\n{"text": "a"}\n')) as examples:
        assert [x.tokens for x in examples] == [["a"]]
        assert examples.left_out == {"texts without tokens": 1}


# ---- what else Label Studio exports --------------------------------------------------------------------------------


def annotated(*results: Any, **more: Any) -> dict[str, Any]:
    return {"data": {"text": "Ann left"}, "annotations": [{"result": list(results)}]} | more


def marked(**more: Any) -> dict[str, Any]:
    return {"from_name": "ner", "to_name": "text", "type": "labels", "value": labelled(0, 3, "PER", "labels")} | more


@pytest.mark.parametrize("kind", ["hypertextlabels", "paragraphlabels"])
def test_regions_that_are_not_of_plain_text_are_an_error(tmp_path: Path, kind: str) -> None:
    other = marked(type=kind, from_name="html", value={"start": "/p[1]", "end": "/p[1]", "hypertextlabels": ["PER"]})
    path = saved(tmp_path / "x.json", json.dumps([annotated(other, marked())]))
    with pytest.raises(FileError, match=f"x.json:1: these regions are not plain text; got the type '{kind}'"):
        list(read(path))
    assert [x.labels for x in read(path, from_name="ner")] == [["B-PER", "O"]]


def test_regions_of_one_text_alone(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.json", json.dumps([annotated(marked(), marked(to_name="title"))]))
    with read(path, to_name="text") as result:
        assert [x.labels for x in result] == [["B-PER", "O"]]
        assert result.left_out == {"regions of other tags": 1}


def test_the_name_of_the_tag_in_json_min(tmp_path: Path) -> None:
    brief = {"id": 1, "text": "Ann left", "ner": [labelled(0, 3, "PER", "labels")], "choice": ["x"], "annotator": 1}
    path = saved(tmp_path / "x.json", json.dumps([brief]))
    assert [x.labels for x in read(path)] == [["B-PER", "O"]]
    saved(path, json.dumps([brief | {"more": brief["ner"]}]))
    with pytest.raises(FileError, match="under several names; got 'ner', 'more'; wanted from_name='ner', the one"):
        list(read(path))
    assert [x.labels for x in read(path, from_name="more")] == [["B-PER", "O"]]


def test_ids_of_predictions_are_counted(tmp_path: Path) -> None:
    unread = {"data": {"text": "Ann left"}, "predictions": [3, 4]}
    with read(saved(tmp_path / "x.json", json.dumps([unread]))) as result:
        assert [x.labels for x in result] == [None]
        assert result.left_out == {"predictions with only an id": 2}


# ---- files of other formats ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("x.json", '[\n{"data": {"text": "a"}}\n]\n', "labelstudio"),
        ("x.ann", "T1\tPER 0 1\ta\n", "brat"),
        ("x.txt", "Ann left\n", "text"),
    ],
)
def test_the_likely_format_is_told(tmp_path: Path, name: str, text: str, wanted: str) -> None:
    with pytest.raises(FileError, match=f"not a JSON line.*\nIs it .* Pass format='{wanted}'"):
        list(read(saved(tmp_path / name, text), "doccano"))


def test_a_folder_of_brat_files(tmp_path: Path) -> None:
    saved(tmp_path / "x.ann", "")
    with pytest.raises(FileError, match=r"does not contain a data set.*\nPass brat files one by one: .*/\*\.ann"):
        list(read(tmp_path))
