"""What there is to explore without a model of one's own: the references that ship with Bridle, and a small CRF."""

from __future__ import annotations

from importlib.resources import files

from bridle.data import Example, references
from bridle.data.tokenizer import tokenize
from bridle.demo.experiment import SEEN, UNSEEN, WORKS
from bridle.models import CRF, Tagger

SAMPLE_WORKS = 150  # each in all styles that the model has not seen
_NOTES = {"reader": {"format": "text", "options": {"tokens": "references"}}}


def embedded_model() -> Tagger:
    """A CRF, trained on a few references in two styles; it takes a fraction of a second."""
    known, _ = references.split(WORKS)
    train = references.references(*SEEN, of=known)
    model = CRF(features="fields", c2=0.1)
    model.fit([dict(example.columns) for example in train], [example.known_labels for example in train])
    model.notes_ = _NOTES
    return model


def embedded_rules() -> str:
    """Rules for references."""
    return (files("bridle.demo") / "references.rules").read_text(encoding="utf-8")


def embedded_sample() -> list[Example]:
    """References to other works, each in all styles that the model has not seen; neighbours are in different ones."""
    _, unknown = references.split(WORKS)
    turns, works = range(len(UNSEEN)), unknown[:SAMPLE_WORKS]
    styles = [(work, UNSEEN[(k + turn) % len(UNSEEN)]) for turn in turns for k, work in enumerate(works)]
    return [_example(references.cite(work, style)) for work, style in styles]


def _example(made: references.Reference) -> Example:
    tokens, starts = tokenize(made.text, "references")
    if tuple(tokens) != made.tokens:  # a text that is cut otherwise at the borders of its fields
        return Example({"word": list(made.tokens)}, list(made.labels), id=f"{made.key}/{made.style}")
    return Example(
        {"word": tokens}, list(made.labels), id=f"{made.key}/{made.style}", text=made.text, starts=list(starts)
    )
