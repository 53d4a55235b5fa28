"""Where the labels of a spaCy document come from: a model of Bridle, or a statistical component of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError
from bridle.features import TemplateFeatures
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.models import Tagger
from bridle.tagging import Block, Column
from bridle.tagging.block import offsets_of

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
ARRAYS = {"text": "ORTH", "ent_type_": "ENT_TYPE"} | {
    f"{name}_": name.upper() for name in ("lower", "norm", "shape", "prefix", "suffix", "lemma", "tag", "pos", "dep")
}
TINY = float(np.finfo(np.float32).tiny)


class TokenSequence(NamedTuple):
    """Tokens of a document that are labelled together."""

    number: int  # of the document in its batch
    doc: Doc
    at: npt.NDArray[np.intp]  # (n)  positions of the tokens
    own: Any = None  # what was read token by token: features, or columns by name


class ModelSource:
    """A model of Bridle, whose columns are attributes of tokens."""

    def __init__(
        self, model: Tagger, columns: Mapping[str, str], features: Callable[[list[Token]], Sequence[Any]] | None
    ) -> None:
        self.labels, self.model, self._features, self._tokens = model.labels_, model, features, ""
        templates, self._columns = isinstance(model.features_, TemplateFeatures), dict[str, str]()
        if (unused := features if templates else columns or None) is not None:
            wrong, wanted = ("features", "columns") if templates else ("columns", "features")
            what, cause = f"the setting {wrong} does not fit the model", f"The model was trained on {wanted}."
            raise ModelError(what, got=repr(unused), wanted=wanted, cause=cause)
        if isinstance(model.features_, TemplateFeatures):
            main = model.features_.templates.main
            self._columns = {main: "text", **columns}
            self._tokens = self._columns[main]  # the attribute that the model takes for the texts of tokens
            self._check_columns(dict.fromkeys([main, *model.features_.sources]))
        elif features is None:
            raise ModelError(
                "the model was trained on features, not on columns of tokens",
                got="no function that makes features of tokens",
                wanted="the setting features, such as {'@misc': 'my_features.v1'}",
                cause="Register a function that takes a list of tokens and returns the features of each.",
            )
        self._slow = {name: attribute for name, attribute in self._columns.items() if attribute not in ARRAYS}

    def _check_columns(self, needed: Iterable[str]) -> None:
        if missing := [name for name in needed if name not in self._columns]:
            raise ModelError(
                f"the model needs a column {missing[0]!r}",
                got=f"columns={self._columns}",
                wanted=f"the attribute of tokens that it is: columns={{{missing[0]!r}: 'tag_'}}",
                cause="Models see what they were trained on; name an attribute that holds the same.",
            )
        if unknown := [name for name in self._columns if name not in needed]:
            what, wanted = f"the model has no column {unknown[0]!r}", ", ".join(map(repr, needed))
            raise ModelError(what, got=f"columns={self._columns}", wanted=wanted, cause="A misspelt name?")

    def current(self) -> bool:
        """A model stays as it is."""
        return True

    def sequences(self, number: int, doc: Doc, kind: str) -> list[TokenSequence]:
        """Cut a document into sequences without white space, which the data of such models does not have."""
        for name, attribute in self._columns.items():
            annotation, component = SET_BY.get(attribute, ("", ""))
            if annotation and len(doc) and not doc.has_annotation(annotation):
                what = f"the column {name!r} is token.{attribute}, which no component has set"
                wanted = f"{component} before this component"
                raise ModelError(what, got=f"a document without {annotation}", wanted=wanted)
        words = np.flatnonzero(np.asarray(doc.to_array("IS_SPACE")).reshape(-1) == 0)
        found = cut(number, doc, words, kind)
        return [self._read(sequence) for sequence in found] if self._slow or self._features is not None else found

    def _read(self, sequence: TokenSequence) -> TokenSequence:
        """Add what only the tokens themselves tell: features, or columns that documents have no arrays of."""
        tokens = [sequence.doc[t] for t in sequence.at.tolist()]
        if self._features is not None:
            return sequence._replace(own=self._features(tokens))
        try:
            own = {name: list(map(str, map(attrgetter(attribute), tokens))) for name, attribute in self._slow.items()}
        except AttributeError as error:
            got, wanted = f"columns={self._columns}: {error}", "'text', 'tag_', 'lemma_' or such"
            raise ModelError("a column is not an attribute of tokens", got=got, wanted=wanted) from None
        return sequence._replace(own=own)

    def block(self, sequences: Sequence[TokenSequence], with_texts: bool) -> Block:
        """Pack sequences for the model. with_texts: rules refer to the texts of tokens."""
        given = None
        if with_texts and self._tokens != "text":
            texts = texts_of(sequences, "text")
            given = [{"tokens": texts.row(k)} for k in range(len(texts))]
        if self._features is not None:
            return Block(len(sequences), sequences=[sequence.own for sequence in sequences], given=given)
        columns = {name: texts_of(sequences, its) for name, its in self._columns.items() if name not in self._slow}
        slow = {name: Column.of([sequence.own[name] for sequence in sequences]) for name in self._slow}
        return Block(len(sequences), columns | slow, given=given)


class PipeSource:
    """Scores of a statistical component of the pipeline, such as spaCy's tagger."""

    model = None

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
        what = f"the component {self._name!r} has no scores per token and label"
        cause = "For spans and named entity recognizers, see bridle_spans."
        return ModelError(what, got=got, wanted="a tagger or a morphologizer", cause=cause)

    def current(self) -> bool:
        """The component may have been replaced, or trained on."""
        return tuple(self._find().labels) == self.labels.names

    def sequences(self, number: int, doc: Doc, kind: str) -> list[TokenSequence]:
        """Cut a document into sequences with all tokens: such components were trained with white space."""
        return cut(number, doc, np.arange(len(doc)), kind)

    def block(self, sequences: Sequence[TokenSequence], with_texts: bool) -> Block:
        """Score sequences. with_texts: rules refer to the texts of tokens."""
        docs, model = {sequence.number: sequence.doc for sequence in sequences}, self._find().model
        found = dict(zip(docs, map(model.ops.to_numpy, model.predict(list(docs.values()))), strict=True))
        for number, own in found.items():
            if own.shape != (len(docs[number]), len(self.labels)):
                raise self._no_scores(f"an array of shape {own.shape}")
        unary = np.concatenate([found[sequence.number][sequence.at] for sequence in sequences])
        scores = Batch(log_probabilities(unary), offsets_of(len(sequence.at) for sequence in sequences))
        return Block(len(sequences), {"tokens": texts_of(sequences, "text")} if with_texts else {}, scores=scores)


Source = ModelSource | PipeSource


def log_probabilities(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Log-probabilities of what a classifier of spaCy predicts: (n, m) probabilities, or numbers before the softmax.

    Which of the two it is depends on the architecture: ``spacy.Tagger.v1`` normalizes, ``v2`` does not by default.

    >>> log_probabilities(np.array([[0.25, 0.75]])).round(2).tolist()
    [[-1.39, -0.29]]
    >>> log_probabilities(np.array([[2.0, 2.0]])).round(2).tolist()
    [[-0.69, -0.69]]
    """
    if scores.min(initial=0) >= 0 and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return np.asarray(np.log(np.maximum(scores, TINY)))  # a probability that was rounded to zero is not impossible
    top = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(top - np.log(np.exp(top).sum(axis=1, keepdims=True)))


def texts_of(sequences: Sequence[TokenSequence], attribute: str) -> Column:
    """One of `ARRAYS` of the tokens of sequences, as texts; objects of all tokens would take longer than decoding."""
    docs = {sequence.number: sequence.doc for sequence in sequences}
    arrays = {number: np.reshape(doc.to_array(ARRAYS[attribute]), -1) for number, doc in docs.items()}
    rows = [arrays[sequence.number][sequence.at] for sequence in sequences]
    hashes, which = np.unique(np.concatenate(rows), return_inverse=True)
    stores = list({id(doc.vocab): doc.vocab.strings for doc in docs.values()}.values())  # one per pipeline
    texts = [next(strings[key] for strings in stores if key in strings) for key in hashes.tolist()]
    return Column(np.array(texts, dtype=object)[which].tolist(), offsets_of(map(len, rows)))


def cut(number: int, doc: Doc, kept: npt.NDArray[np.intp], kind: str) -> list[TokenSequence]:
    """The sequences of a document that have tokens among those at `kept`: all of it, or its sentences."""
    parts = [kept]
    if kind == "sents" and len(doc):
        if not doc.has_annotation("SENT_START"):
            wanted = "'sentencizer', 'senter' or 'parser' before this component"
            cause = "Or decode whole documents: sequences='doc'."
            raise ModelError("the document has no sentences", got="sequences='sents'", wanted=wanted, cause=cause)
        parts = np.split(kept, np.searchsorted(kept, [sentence.end for sentence in doc.sents][:-1]))
    return [TokenSequence(number, doc, at) for at in parts if len(at)]
