"""What was found for the tokens of a document, and how it is written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.decoding.result import Decoding
from bridle.integrations.spacy.component import part_of_spacy, record_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

Span: Any = part_of_spacy("tokens").Span


class Answer(NamedTuple):
    """What was found for one sequence of a document."""

    at: npt.NDArray[np.intp]  # (n)  positions of its tokens
    decoding: Decoding
    probabilities: list[float] | None  # (n)

    def record(self) -> dict[str, Any]:
        """How it was found, as JSON has it."""
        start, end = (int(self.at[0]), int(self.at[-1]) + 1) if len(self.at) else (0, 0)
        made = {"start": start, "end": end, **record_of(self.decoding)}
        return made if self.probabilities is None else {**made, "probabilities": self.probabilities}


def write_labels(doc: Doc, answers: Sequence[Answer], sets: str, values: npt.NDArray[np.uint64]) -> None:
    """Write labels to ``token.tag`` or ``token.pos``. values (m): what spaCy keeps of each label."""
    column = doc.to_array(sets.upper())
    for answer in answers:
        column[answer.at] = values[answer.decoding.ids]
    doc.from_array(sets.upper(), column)
    if sets == "pos":
        write_features(doc, answers)


def write_features(doc: Doc, answers: Sequence[Answer]) -> None:
    """Write the features of a morphologizer's labels to ``token.morph``, in place of all features that labels have.

    Others stay: the tokenizer of Japanese, for example, writes readings there.
    """
    known = {name for label in answers[0].decoding.label_set.names for name in features_of(label)}
    for answer in answers:
        for t, label in zip(answer.at.tolist(), answer.decoding.labels, strict=True):
            if not is_plain(label):
                others = {name: value for name, value in doc[t].morph.to_dict().items() if name not in known}
                doc[t].set_morph({**others, **features_of(label)})


def write_spans(doc: Doc, answers: Sequence[Answer], key: str | None) -> None:
    """Write segments to ``doc.ents``, or to ``doc.spans[key]`` with the least probability of their tokens as scores.

    Entities of sequences without an answer stay.
    """
    spans, scores = [], []
    for at, decoding, probabilities in answers:
        for segment in decoding.label_set.segments(decoding.ids):
            if segment.type != decoding.label_set.outside:  # without a scheme, it has segments too
                spans.append(Span(doc, int(at[segment.start]), int(at[segment.end - 1]) + 1, label=segment.type))
                scores.append(None if probabilities is None else min(probabilities[segment.start : segment.end]))
    if key is None:
        skipped = [doc[at[0] : at[-1] + 1] for at, decoding, _ in answers if not len(decoding.ids)]
        kept = [ent for ent in doc.ents if any(part.start <= ent.start and ent.end <= part.end for part in skipped)]
        missing = [doc[token.i : token.i + 1] for part in skipped for token in part if token.ent_iob == 0]
        doc.set_ents([*spans, *kept], missing=missing)
        return
    doc.spans[key] = spans
    if None not in scores:
        doc.spans[key].attrs["scores"] = np.array(scores, dtype=np.float32)


def is_plain(label: str) -> bool:
    """Is a label only a part of speech, not one of a morphologizer, which has features?

    >>> is_plain("NOUN"), is_plain("POS=NOUN"), is_plain("_")
    (True, False, False)
    """
    return "=" not in label and label != "_"


def part_of_speech(label: str) -> str:
    """The part of speech of a label: of ``NOUN`` itself, of ``POS=NOUN|Number=Sing`` the NOUN.

    >>> part_of_speech("NOUN"), part_of_speech("POS=NOUN|Number=Sing"), part_of_speech("Number=Sing")
    ('NOUN', 'NOUN', '')
    """
    if is_plain(label):
        return label
    return next((part.removeprefix("POS=") for part in label.split("|") if part.startswith("POS=")), "")


def features_of(label: str) -> dict[str, str]:
    """The morphological features of a label of a morphologizer.

    >>> features_of("POS=NOUN|Number=Sing"), features_of("POS=NOUN"), features_of("NOUN")
    ({'Number': 'Sing'}, {}, {})
    """
    parts = (part.split("=", 1) for part in label.split("|") if "=" in part)
    return {name: value for name, value in parts if name != "POS"}
