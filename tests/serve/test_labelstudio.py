"""The protocol of Label Studio's ML backends, as Label Studio speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridle.data import read
from bridle.errors import FileError
from bridle.labels import Segment
from bridle.serve import RuleText
from bridle.serve.labelstudio import Corrections, Tags, model_version
from bridle.serve.tagging import to_spans
from segment_sums import segment_probabilities
from serving import Client, service_of

CONFIG = """<View>
  <Labels name="field" toName="reference">
    <Label value="AUTHOR" background="red"/>
    <Label value="TITLE"/>
    <Label value="VENUE"/><Label value="VOLUME"/><Label value="PAGES"/><Label value="PUBLISHER"/><Label value="DATE"/>
  </Labels>
  <Text name="reference" value="$body"/>
</View>"""
NAMES = frozenset(["AUTHOR", "TITLE", "VENUE", "VOLUME", "PAGES", "PUBLISHER", "DATE"])
TEXTS = ["😀 Knuth, D. E.: The TeXbook. Addison-Wesley, 1984.", "Lamport, L.: LaTeX. Addison-Wesley, 1986."]
TASKS = [
    {
        "id": 7 + k,
        "data": {"body": text, "url": "http://127.0.0.1:1/x"},
        "annotations": [],
        "predictions": [],
        "meta": {},
        "created_at": "2026-01-01T00:00:00Z",
        "project": 3,
    }
    for k, text in enumerate(TEXTS)
]
REQUEST = {
    "tasks": TASKS,
    "label_config": CONFIG,
    "project": "3.1767225600",
    "model_version": None,
    "params": {"login": None, "password": None, "context": None},
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    built = Client(service_of())
    yield built
    built.app.state.close()


def test_tasks_get_regions_that_obey_the_rules(client: Client, tmp_path: Path) -> None:
    version = client.ok("/setup", {"project": "3.17", "schema": CONFIG, "hostname": "http://x", "access_token": "y"})
    result = client.ok("/predict", REQUEST)["results"]
    labels = [outcome["labels"] for outcome in client.ok("/tag", {"texts": TEXTS})["results"]]
    for text, prediction in zip(TEXTS, result, strict=True):
        assert prediction["model_version"] == version["model_version"]
        scores = [region["score"] for region in prediction["result"]]
        assert prediction["probability"] <= min(scores) and all(0 < score <= 1 for score in scores)
        for region in prediction["result"]:
            assert (region["from_name"], region["to_name"], region["type"]) == ("field", "reference", "labels")
            value = region["value"]
            assert text[value["start"] : value["end"]] == value["text"]
    # Label Studio keeps predictions with their tasks; what it exports is read as it was labelled.
    path = tmp_path / "export.json"
    path.write_text(
        json.dumps([{**task, "predictions": [item]} for task, item in zip(TASKS, result, strict=True)]),
        encoding="utf-8",
    )
    options = {"key": "body", "kind": "predictions", "scheme": "IO", "tokens": "references"}
    assert [list(label.labels or ()) for label in read(path, "labelstudio", **options)] == labels


def test_scores_are_those_of_the_model_alone(client: Client) -> None:
    """A label that a rule forced is certain given the rule; tasks that rules changed rank first."""
    service = client.service
    texts = [example.text for example in service.sample[:40] if example.text]
    predictions = client.ok("/predict", {"tasks": [{"data": {"text": text}} for text in texts]})["results"]
    plain = [item["labels"] for item in client.ok("/tag", {"texts": texts, "rule_set": "none"})["results"]]
    ruled = [item["labels"] for item in client.ok("/tag", {"texts": texts})["results"]]
    assert [item["changed_by_rules"] for item in predictions] == [a != b for a, b in zip(plain, ruled, strict=True)]
    assert 0 < sum(item["changed_by_rules"] for item in predictions) < len(texts)
    decoder = service.tagger.decoder()
    for text, labels, item in zip(texts, ruled, predictions, strict=True):
        tokens, _ = service.split(text)
        segments = [
            Segment(span.start_token, span.end_token, span.label) for span in to_spans(labels, service.span_labels)
        ]
        own = segment_probabilities(decoder, service.tagger.lattice(tokens), labels, segments)
        assert [region["score"] for region in item["result"]] == pytest.approx(own, abs=1e-6)
        assert item["score"] == pytest.approx(item["probability"] - item["changed_by_rules"])
        assert item["probability_with_rules"] > 0
    first = sorted(range(len(texts)), key=lambda k: predictions[k]["score"])
    changed = [predictions[k]["changed_by_rules"] for k in first]
    assert changed == sorted(changed, reverse=True)


def event_of(task: int, label: str, action: str = "ANNOTATION_CREATED") -> dict[str, object]:
    region = {"from_name": "field", "to_name": "reference", "type": "labels"}
    result = [{**region, "value": {"start": 0, "end": 7, "text": "Lamport", "labels": [label]}}]
    data = {"id": task, "data": {"body": TEXTS[1]}}
    return {"action": action, "annotation": {"id": 9, "result": result}, "task": data, "project": {"id": 3}}


def test_annotations_are_stored_for_training(tmp_path: Path) -> None:
    path = tmp_path / "corrections.jsonl"
    own = Client(service_of(), corrections=Corrections(path))
    assert own.ok("/webhook", event_of(1, "AUTHOR")) == {"status": "stored"}
    assert own.ok("/v1/webhook", event_of(2, "TITLE")) == {"status": "stored"}
    assert own.ok("/webhook", event_of(1, "VENUE", "ANNOTATION_UPDATED")) == {"status": "stored"}
    for other in ({"action": "PROJECT_UPDATED"}, {"action": "ANNOTATION_CREATED", "task": 3}, [], 7):
        assert own.ok("/webhook", other) == {"status": "ignored"}
    own.app.state.close()
    path.write_bytes(path.read_bytes().rstrip())  # as an editor may leave it
    again = Client(service_of(), corrections=Corrections(path))  # after a restart
    assert again.ok("/webhook", event_of(5, "DATE")) == {"status": "stored"}
    assert again.ok("/webhook", event_of(2, "DATE", "ANNOTATION_UPDATED")) == {"status": "stored"}
    again.app.state.close()
    examples = list(read(path, "labelstudio", key="body", scheme="IO", tokens="references"))
    assert [(example.id, (example.labels or [])[0]) for example in examples] == [(1, "VENUE"), (5, "DATE"), (2, "DATE")]
    deleted = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 7}], "project": {"id": 3}}
    last = Client(service_of(), corrections=Corrections(path))
    for event, status in (
        (event_of(4, "TITLE") | {"annotation": {"id": 7, "result": []}}, "stored"),
        ({**deleted, "project": {"id": 4}}, "ignored"),  # of another project
        (deleted, "removed"),
        (deleted, "ignored"),
        ({"action": "TASKS_DELETED", "tasks": [{"id": 1}, {"id": 5}, {"id": 6}], "project": {"id": 3}}, "removed"),
        ({"action": "TASKS_DELETED", "tasks": 1}, "ignored"),
        (event_of(4, "TITLE") | {"annotation": {"result": "text"}}, "ignored"),
        (event_of(1, "DATE"), "stored"),
    ):
        assert last.ok("/webhook", event) == {"status": status}, event
    last.app.state.close()
    assert [example.id for example in read(path, "labelstudio", key="body", scheme="IO", tokens="references")] == [2, 1]
    (tmp_path / "other.jsonl").write_text("[1]\n")
    for bad in (tmp_path / "other.jsonl", tmp_path, tmp_path / "nowhere" / "x"):
        with pytest.raises(FileError, match=r"cannot write this file|not a file of corrections"):
            Corrections(bad)


def test_what_cannot_be_stored_is_not_acknowledged(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "corrections.jsonl"
    own = Client(service_of(), corrections=Corrections(path))
    own.ok("/webhook", event_of(1, "AUTHOR"))
    path.unlink()
    path.parent.rmdir()
    for task in (1, 2):
        own.error("/webhook", event_of(task, "TITLE"), 500, "internal")
    own.app.state.close()


def test_events_are_acknowledged(client: Client) -> None:
    event = {"action": "ANNOTATION_CREATED", "annotation": {"id": 1}, "task": {"id": 2}, "project": {"id": 3}}
    assert client.ok("/webhook", event) == {"status": "ignored"}
    assert client.ok("/health")["status"] == "UP"


@pytest.mark.parametrize("task", [{}, {"data": None}, {"data": []}, {"data": {"text": 7}}, {"data": {"body": "x"}}])
def test_a_task_without_a_text_has_no_regions(client: Client, task: dict[str, object]) -> None:
    """A task without a text does not take regions from the others."""
    result = client.ok("/predict", {"tasks": [{"data": {"text": "Knuth, D.: The TeXbook. 1984."}}, task]})["results"]
    assert result[0]["result"] and (result[1]["result"], result[1]["score"]) == ([], None)
    client.error("/predict", {"tasks": [task]}, 422, "task")


def test_labels_that_annotators_cannot_choose_are_left_out(client: Client) -> None:
    config = """<View><!-- <Labels name="old" toName="t"><Label value="AUTHOR"/><Label value="DATE"/></Labels> -->
      <Labels name="intent" toName="t"><Label value="ASK"/></Labels>
      <Labels name="field" toName="t"><Label value="AUTHOR"/></Labels><Text name="t" value="$text"/></View>"""
    tasks = [{"data": {"text": "Knuth, D.: The TeXbook. 1984."}}]
    regions = client.ok("/predict", {"tasks": tasks, "label_config": config})["results"][0]["result"]
    assert [(item["from_name"], item["value"]["labels"]) for item in regions] == [("field", ["AUTHOR"])]
    fetched = '<Labels name="l" toName="t"/><Text name="t" value="$text" valueType="url"/>'
    client.error("/predict", {"tasks": tasks, "label_config": fetched}, 422, "task")


def test_other_rules_are_another_version() -> None:
    item, two = service_of(), service_of()
    assert model_version(item) == model_version(two)
    assert model_version(item) != model_version(replace(two, default=RuleText.from_text("present DATE\n", two.labels)))


@pytest.mark.parametrize(
    ("config", "tags"),
    [
        (None, Tags()),
        ("", Tags()),
        ("<View/>", Tags()),
        (CONFIG, Tags("field", "reference", "body", NAMES)),
        ("<Text name='t' value='$x'/><Labels toName='t' name='l'>", Tags("l", "t", "x")),
        (
            '<Text name="other" value="$y"/><Text name="t" value="$x"/><Labels name="l" toName="t"/>',
            Tags("l", "t", "x"),
        ),
        ('<Labels name="a&quot;b" toName="t">', Tags('a"b', "t", "text")),
        ("<Labels " * 50_000, Tags()),
        ("<!--" * 50_000, Tags()),
        ('<!-- <Labels name="old" toName="t"> --><Labels name="l" toName="t"/><!-- ', Tags("l", "t", "text")),
        ('<!DOCTYPE x [<!ENTITY a "&b;">]><Labels name="&a;" toName="t">', Tags("&a;", "t", "text")),
    ],
)
def test_names_come_from_the_labelling_configuration(config: str | None, tags: Tags) -> None:
    assert Tags.of(config) == tags
