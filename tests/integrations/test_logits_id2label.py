"""The labels of a model: every column of its logits has a name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import bridle
from bridle.integrations.logits import labels_of

BIO = {0: "O", 1: "B-PER", 2: "I-PER"}


def test_wherever_they_are() -> None:
    expected = bridle.Labels(list(BIO.values()), "BIO")
    config = SimpleNamespace(id2label=BIO)
    shuffled = {"2": "I-PER", "0": "O", "1": "B-PER"}  # as JSON has it
    for source in (BIO, shuffled, list(BIO.values()), config, SimpleNamespace(config=config)):
        assert labels_of(source) == expected
    assert labels_of(BIO, scheme=None).scheme is None
    assert labels_of(["O", "TOTAL"]).scheme is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({0: "O", 2: "X", 5: "Y"}, r"id2label has gaps; got no name for 1, 3, 4; wanted a name for each of 0 .. 5"),
        ({0: "O", 10**12: "X"}, "id2label has gaps; got no name for 1, 2, 3, 4, 5, 6; wanted"),
        ({-1: "O", 0: "X"}, "id2label has gaps"),
        ({0: "O", "0": "X"}, "id2label has gaps"),
        ({"O": 0, "X": 1}, "keys of id2label must be integers"),
        ({}, "label set is empty"),
        ({0: "O", 1: "O"}, "label names repeat; got O"),
        ({0: "O", 1: None}, "a label is not a name"),
        ("O", "labels of the model are not known"),
        (None, "got no id2label"),
        (SimpleNamespace(config=SimpleNamespace(id2label=None)), "got no id2label"),
    ],
)
def test_what_is_no_id2label(source: Any, message: str) -> None:
    with pytest.raises(bridle.LabelError, match=message):
        labels_of(source)


def test_a_label_outside_the_scheme_does_not_disable_all_types() -> None:
    names = ["<pad>", "O", "B-PER", "I-PER", "X"]
    labels = labels_of(names)
    assert (labels.scheme, labels.all_outside, labels.types) == ("BIO", ("O", "<pad>", "X"), {"PER"})
    assert labels_of(["O", *(f"{tag}-A" for tag in "BIES"), "[PAD]"]).scheme == "BIOES"
    assert labels_of(["NN", "VB", "B-X"]).scheme is None and labels_of(["O", "container-title", "title"]).scheme is None
    assert labels_of(["B", "M", "E", "S"]).scheme == "BMES"
    own = bridle.Labels(names, outside=["O", "<pad>", "X"])
    assert labels_of(own) is own
