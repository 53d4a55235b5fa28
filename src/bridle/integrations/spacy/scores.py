"""Where the scores of a spaCy document come from: a model of Bridle, or a statistical component of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError
from bridle.features import TemplateFeatures
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.models import Tagger

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

# Attributes of tokens that some component sets: its name in spaCy, and the component.
SET_BY = {
    "tag_": ("TAG", "'tagger'"),
    "pos_": ("POS", "'morphologizer', or 'tagger' with 'attribute_ruler',"),
    "morph": ("MORPH", "'morphologizer'"),
    "lemma_": ("LEMMA", "'lemmatizer'"),
    "dep_": ("DEP", "'parser'"),
    "ent_type_": ("ENT_IOB", "'ner'"),
    "ent_iob_": ("ENT_IOB", "'ner'"),
}
# Attributes of tokens that a document gives as one array.
ARRAYS = {
    "text": "ORTH",
    "lower_": "LOWER",
    "norm_": "NORM",
    "shape_": "SHAPE",
    "prefix_": "PREFIX",
    "suffix_": "SUFFIX",
    "lemma_": "LEMMA",
    "tag_": "TAG",
    "pos_": "POS",
    "dep_": "DEP",
    "ent_type_": "ENT_TYPE",
}
TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Tokens of a document that are labelled together."""

    number: int  # of the document in its batch
    doc: Doc
    at: npt.NDArray[np.intp]  # (n)  positions of the tokens

    def tokens(self) -> list[Token]:
        """The tokens."""
        doc = self.doc
        return list(doc) if len(self.at) == len(doc) else [doc[t] for t in self.at.tolist()]


class Scores(Protocol):
    """Gives scores to the labels of tokens."""

    labels: Labels
    skips_spaces: bool  # are tokens of white space left out?

    def current(self) -> bool:
        """Are these still the scores that are wanted?"""

    def check(self, doc: Doc) -> None:
        """Raise if the document lacks what the scores are made from."""

    def batch(self, sequences: Sequence[TokenSequence]) -> Batch:
        """The scores of sequences."""


class ModelScores:
    """The scores of a model of Bridle, whose columns are attributes of tokens."""

    skips_spaces = True  # the data of such models has none

    def __init__(
        self, model: Tagger, columns: Mapping[str, str], features: Callable[[list[Token]], Sequence[Any]] | None
    ) -> None:
        self.labels, self._model, self._features = model.labels_, model, features
        self._columns: dict[str, str] = {}
        templates = isinstance(model.features_, TemplateFeatures)
        if (unused := features if templates else columns or None) is not None:
            raise ModelError(
                f"the setting {'features' if templates else 'columns'} does not fit the model",
                got=repr(unused),
                wanted="columns" if templates else "features",
                cause=f"The model was trained on {'columns' if templates else 'features'}.",
            )
        if isinstance(model.features_, TemplateFeatures):
            main = model.features_.templates.main
            self._columns = {main: "text", **columns}
            self._check_columns(main, model.features_.sources)
        elif features is None:
            raise ModelError(
                "the model was trained on features, not on columns of tokens",
                got="no function that makes features of tokens",
                wanted="the setting features, such as {'@misc': 'my_features.v1'}",
                cause="Register a function that takes a list of tokens and returns the features of each.",
            )

    def _check_columns(self, main: str, sources: Sequence[str]) -> None:
        for name in sources:
            if name not in self._columns:
                raise ModelError(
                    f"the model needs a column {name!r}",
                    got=f"columns={self._columns}",
                    wanted=f"the attribute of tokens that it is: columns={{{name!r}: 'tag_'}}",
                    cause="Models see what they were trained on; name an attribute that holds the same.",
                )
        for name in self._columns:
            if name not in (main, *sources):
                raise ModelError(
                    f"the model has no column {name!r}",
                    got=f"columns={self._columns}",
                    wanted=", ".join(map(repr, dict.fromkeys([main, *sources]))),
                    cause="A misspelt name?",
                )

    def current(self) -> bool:
        """A model stays as it is."""
        return True

    def check(self, doc: Doc) -> None:
        """Raise if a component that sets one of the columns is missing."""
        for name, attribute in self._columns.items():
            annotation, component = SET_BY.get(attribute, ("", ""))
            if annotation and len(doc) and not doc.has_annotation(annotation):
                raise ModelError(
                    f"the column {name!r} is token.{attribute}, which no component has set",
                    got=f"a document without {annotation}",
                    wanted=f"{component} before this component",
                )

    def batch(self, sequences: Sequence[TokenSequence]) -> Batch:
        """The scores of sequences."""
        if not self._columns:
            assert self._features is not None
            return self._model.lattices([self._features(sequence.tokens()) for sequence in sequences])
        try:
            columns = {name: texts_of(sequences, attribute) for name, attribute in self._columns.items()}
        except AttributeError as error:
            got = f"columns={self._columns}: {error}"
            wanted = "'text', 'tag_', 'lemma_' or such"
            raise ModelError("a column is not an attribute of tokens", got=got, wanted=wanted) from None
        return self._model.lattices(
            [{name: column[k] for name, column in columns.items()} for k in range(len(sequences))]
        )


class PipeScores:
    """The scores of a statistical component of the pipeline, such as spaCy's tagger."""

    skips_spaces = False  # such components were trained with them

    def __init__(self, find: Callable[[], Any], name: str) -> None:
        self._find, self._name = find, name
        component = find()
        others = hasattr(component, "moves") or hasattr(component, "suggester")  # they score transitions, or spans
        if others or not hasattr(component, "model") or not hasattr(component.model, "predict"):
            raise self._no_scores(type(component).__name__)
        if not component.labels:
            raise ModelError(f"the component {name!r} has no labels", got="none", wanted="one that has been trained")
        self.labels = Labels(component.labels)

    def _no_scores(self, got: str) -> ModelError:
        return ModelError(
            f"the component {self._name!r} has no scores per token and label",
            got=got,
            wanted="a tagger or a morphologizer",
            cause="For spans and named entity recognizers, see bridle_spans.",
        )

    def current(self) -> bool:
        """The component may have been replaced, or trained on."""
        return tuple(self._find().labels) == self.labels.names

    def check(self, doc: Doc) -> None:
        """Nothing is needed beyond the tokens."""

    def batch(self, sequences: Sequence[TokenSequence]) -> Batch:
        """The scores of sequences."""
        docs = {sequence.number: sequence.doc for sequence in sequences if len(sequence.at)}
        model = self._find().model
        scores = map(model.ops.to_numpy, model.predict(list(docs.values())) if docs else [])
        found = dict(zip(docs, scores, strict=True))
        for number, own in found.items():
            if own.shape != (len(docs[number]), len(self.labels)):
                raise self._no_scores(f"an array of shape {own.shape}")
        rows = [found[sequence.number][sequence.at] for sequence in sequences if len(sequence.at)]
        unary = np.concatenate(rows) if rows else np.zeros((0, len(self.labels)), dtype=np.float32)
        return Batch(log_probabilities(unary), np.cumsum([0, *(len(sequence.at) for sequence in sequences)]))


def log_probabilities(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Log-probabilities of what a classifier of spaCy predicts: (n, m) probabilities, or numbers before the softmax.

    Which of the two it is depends on the architecture: ``spacy.Tagger.v1`` normalizes, ``v2`` does not by default.

    Parameters
    ----------
    scores : array of float, shape (n, m)
        What ``model.predict`` returned.

    Returns
    -------
    array of float, shape (n, m)
        The logarithm of each label's probability.

    Examples
    --------
    >>> import numpy as np
    >>> log_probabilities(np.array([[0.25, 0.75]])).round(2).tolist()
    [[-1.39, -0.29]]
    >>> log_probabilities(np.array([[2.0, 2.0]])).round(2).tolist()
    [[-0.69, -0.69]]
    """
    if len(scores) == 0:
        return scores
    if scores.min() >= 0 and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return np.asarray(np.log(np.maximum(scores, TINY)))  # a probability that was rounded to zero is not impossible
    top = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(top - np.log(np.exp(top).sum(axis=1, keepdims=True)))


def texts_of(sequences: Sequence[TokenSequence], attribute: str = "text") -> list[list[str]]:
    """An attribute of the tokens of sequences, as text.

    Each text is made once: to make objects of all tokens would take several times as long as to decode them.
    """
    if attribute not in ARRAYS:
        get = attrgetter(attribute)
        return [[str(get(token)) for token in sequence.tokens()] for sequence in sequences]
    docs = {sequence.number: sequence.doc for sequence in sequences}
    if not docs:
        return []
    if len({id(doc.vocab) for doc in docs.values()}) > 1:  # each has strings of its own
        return [texts_of([sequence], attribute)[0] for sequence in sequences]
    arrays = {number: np.reshape(doc.to_array(ARRAYS[attribute]), -1) for number, doc in docs.items()}
    rows = [arrays[sequence.number][sequence.at] for sequence in sequences]
    hashes, which = np.unique(np.concatenate(rows), return_inverse=True)
    strings = sequences[0].doc.vocab.strings
    flat = np.array([strings[one] for one in hashes.tolist()], dtype=object)[which].tolist()
    return [flat[a:b] for a, b in pairwise(np.cumsum([0, *map(len, rows)]).tolist())]


def parts_of(scores: Scores, number: int, doc: Doc, cut: str) -> list[TokenSequence]:
    """The sequences of a document: all of it, or its sentences."""
    kept = np.arange(len(doc))
    if scores.skips_spaces:
        kept = np.flatnonzero(np.asarray(doc.to_array("IS_SPACE")).reshape(-1) == 0)
    if cut == "doc" or not len(doc):
        return [TokenSequence(number, doc, kept)]
    if not doc.has_annotation("SENT_START"):
        raise ModelError(
            "the document has no sentences",
            got="sequences='sents'",
            wanted="'sentencizer', 'senter' or 'parser' before this component",
            cause="Or decode whole documents: sequences='doc'.",
        )
    ends = [sentence.end for sentence in doc.sents]
    return [TokenSequence(number, doc, at) for at in np.split(kept, np.searchsorted(kept, ends[:-1]))]
