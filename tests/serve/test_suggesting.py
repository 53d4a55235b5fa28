"""Rules that repair a label: each suggestion does repair it, and its effect is that of decoding with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import bridle
from bridle.data import Example
from bridle.serve import Service
from serving import Client, service_of


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = Client(replace(service_of(seconds=1000), sample=service_of().sample[:100]))
    yield client
    client.app.state.close()


def mistake(client: Client) -> tuple[dict[str, list[str]], int, int, str]:
    """The first wrong segment of a sequence of the sample: columns, its place, and the right label."""
    service = client.service
    decoder = service.decoder(service.default)
    for example in service.sample:
        columns = {name: list(values) for name, values in example.columns.items()}
        guess, gold = service.tagger.decode([columns], decoder)[0].labels, list(example.labels or ())
        wrong = [t for t, (y, z) in enumerate(zip(guess, gold, strict=True)) if y != z]
        if len(wrong) == 1:
            return columns, wrong[0], wrong[0] + 1, gold[wrong[0]]
    raise AssertionError("there is no such sequence")


def labels_with(client: Client, columns: dict[str, list[str]], rules: str) -> list[str]:
    [result] = client.ok("/tag", {"columns": [columns], "rules": rules})["results"]
    labels: list[str] = result["labels"]
    return labels


def test_each_suggestion_repairs_the_label(client: Client) -> None:
    columns, start, end, label = mistake(client)
    body = {"columns": columns, "at": [start, end], "label": label, "data": "sample"}
    answer = client.ok("/suggest", body)
    assert answer["message"] == "" and 3 <= len(answer["suggestions"]) <= 5
    base = client.ok("/evaluate", {"data": "sample"})
    for suggestion in answer["suggestions"]:
        rules = f"{client.service.default.text}\n{suggestion['rule']}\n"
        assert labels_with(client, columns, rules)[start:end] == [label] * (end - start)
    best, effect = answer["suggestions"][0], answer["suggestions"][0]["effect"]
    after = client.ok("/evaluate", {"data": "sample", "rules": f"{client.service.default.text}\n{best['rule']}\n"})
    fewer = sum(base["errors"]) - sum(after["errors"])
    assert fewer == effect["right"] - effect["wrong"] > 0
    assert effect["gain"]["gain"] == pytest.approx(after["all"]["f1"] - base["all"]["f1"])
    assert effect["gain"]["low"] <= effect["gain"]["gain"] <= effect["gain"]["high"]
    net = [each["effect"]["right"] - each["effect"]["wrong"] for each in answer["suggestions"]]
    assert net == sorted(net, reverse=True)


def test_without_data_there_are_no_effects(client: Client) -> None:
    columns, start, end, label = mistake(client)
    answer = client.ok("/suggest", {"columns": columns, "at": [start, end], "label": label})
    assert answer["suggestions"] and all(each["effect"] is None for each in answer["suggestions"])


def test_a_label_that_is_found_needs_no_rule(client: Client) -> None:
    columns, _, _, _ = mistake(client)
    labels = labels_with(client, columns, client.service.default.text)
    answer = client.ok("/suggest", {"columns": columns, "at": [0, 1], "label": labels[0]})
    assert answer["suggestions"] == [] and "already" in answer["message"]


def test_other_columns_are_looked_at() -> None:
    model = bridle.CRF(features=["word[0]", "pos[0]"])
    rows = [({"word": ["Ada", "wrote", "it"], "pos": ["N", "V", "P"]}, ["PER", "O", "O"])] * 4
    model.fit([columns for columns, _ in rows], [labels for _, labels in rows])
    examples = [Example(columns, labels) for columns, labels in rows]
    other = Client(Service(model, sample=examples))
    columns = {"word": ["Eve", "went", "off"], "pos": ["V", "V", "X"]}
    answer = other.ok("/suggest", {"columns": columns, "at": [2, 3], "label": "PER", "data": "sample"})
    assert "fix PER at pos /X/" in [each["rule"] for each in answer["suggestions"]]
    other.app.state.close()


@pytest.mark.parametrize(
    ("change", "code"),
    [({"at": [5, 5]}, "at"), ({"at": [0, 1000]}, "at"), ({"label": "X"}, "label"), ({"columns": {}}, "columns")],
)
def test_what_it_refuses(client: Client, change: dict[str, Any], code: str) -> None:
    columns, start, end, label = mistake(client)
    client.error("/suggest", {"columns": columns, "at": [start, end], "label": label, **change}, 422, code)
