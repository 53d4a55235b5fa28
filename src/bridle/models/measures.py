"""Which figure decides: on a development set, between settings, between the candidates of a search.

f1        F1 of all segments together, as conlleval counts them
accuracy  share of the tokens with the right label
exact     share of the sequences with no wrong label
quality   mean over the sequences of (1 if all right, else 0) / 2 + F1 / 2  (report/sequences.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

from bridle.checks import MISSING
from bridle.decoding.decoder import Decoder
from bridle.errors import LabelError, ModelError
from bridle.features import Encoded
from bridle.labels import Labels
from bridle.models.checks import Given, ids_of, of_dev, one_of
from bridle.models.layout import Layout
from bridle.models.linear import Kind, Linear
from bridle.models.task import Found
from bridle.models.training import Judge
from bridle.report.sequences import SequenceScores

Measure = Literal["auto", "f1", "accuracy", "exact", "quality"]
# What each is called in messages; the keys of SequenceScores.to_dict().
TITLES = {"f1": "F1", "accuracy": "accuracy", "exact": "sequence accuracy", "quality": "quality"}
MEASURES = ("auto", *TITLES)


def check_measure(asked: Any) -> None:
    """Raise if there is no such measure."""
    one_of("measure", asked, MEASURES)


def measure_of(asked: str, labels: Labels) -> str:
    """The measure that was asked for; "auto": F1 if the labels make segments, otherwise accuracy.

    They make segments if they have a scheme, or an outside label: where most tokens are O, a model that finds nothing
    has a high accuracy.

    >>> measure_of("auto", Labels(["B-PER", "I-PER", "O"], "BIO")), measure_of("auto", Labels(["NN", "VB"]))
    ('f1', 'accuracy')
    """
    if asked != "auto":
        return asked
    return "f1" if labels.scheme is not None or "O" in labels else "accuracy"


def judge_of(
    encoded: Encoded,
    y: Sequence[Sequence[str | None]],
    given: Sequence[Given] | None,
    layout: Layout,
    decoder: Decoder,
    kind: Kind,
    measure: str,
) -> Judge:
    """How good weights are on a development set."""
    labels, name = with_unknown(decoder.labels, y), measure_of(measure, decoder.labels)
    gold = ids_of(labels, y, encoded.offsets, missing="allow")
    if not (gold != MISSING).any():
        got = "only missing labels" if len(gold) else "no tokens"
        raise ModelError("the development set is empty", got=got, wanted="at least one labelled token")

    def score(found: Found) -> float:
        batch = Linear.of(layout, *found).scores(encoded, kind)
        with of_dev():
            guessed = decoder.decode_batch(batch, given).ids
        return SequenceScores.of(labels, gold, guessed, encoded.offsets).to_dict()[name]

    return Judge(name, score)


def with_unknown(labels: Labels, y: Sequence[Sequence[str | None]]) -> Labels:
    """The labels, and behind them those of a development set that training does not know: no guess has them."""
    unknown = sorted({name for name in chain.from_iterable(y) if name is not None}.difference(labels))
    if not unknown:
        return labels
    names = [*labels.names, *unknown]
    try:
        return Labels(names, labels.scheme)
    except LabelError:  # one does not fit the scheme: runs of labels are counted, as `bridle.report.score` does
        return Labels(names)
