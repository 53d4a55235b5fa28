"""bridle_tagger: the best labels of tokens under rules become tags, entities or spans.

The scores come from a model of Bridle (`ModelSource`) or from a statistical component of the pipeline (`PipeSource`).
"""

# No `from __future__ import annotations`: spaCy reads the types of settings off the class.

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding
from bridle.errors import ModelError
from bridle.features import TemplateFeatures
from bridle.integrations.logits import log_softmax
from bridle.integrations.spacy.component import Component, Span, check_word, part_of_spacy, record_of
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.models import Tagger, from_bytes, load
from bridle.models.estimator import not_fitted
from bridle.tagging import Block, Column, Outcomes, tag
from bridle.tagging.block import offsets_of
from bridle.tagging.figures import Want, probabilities_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

MODEL = "model.bridle"  # file of a saved pipeline
PARTS_OF_SPEECH: Mapping[str, int] = part_of_spacy("parts_of_speech").IDS


class BridleTagger(Component):
    """Label the tokens of documents under rules: the component ``bridle_tagger``.

    Add it by ``nlp.add_pipe("bridle_tagger", config={...})``; the parameters below are the keys of that config. The
    result is in ``doc._.bridle["bridle_tagger"]``, one record per sequence: the status, the score, its bound and the
    violated soft rules, as in `bridle.Decoding`. Documents without tokens have no sequence.

    Parameters
    ----------
    nlp : Language
        The pipeline.
    name : str
        Name of the component.
    model : str, optional
        A model file of Bridle (`Tagger.save`). It is read at once, and saved with the pipeline, which does not need the
        file any more. In Python, set the attribute `model` instead.
    scores_from : str, optional
        Name of a tagger or morphologizer of the pipeline whose scores are decoded, instead of a model of Bridle. It may
        be disabled, or come later; what it needs (``tok2vec``) must run. It is looked up when it is first needed.
    rules : list of str, or str
        Sentences, or the path of a .rules file. The text of a file is saved with the pipeline.
    sets : {"tag", "pos", "ents", "spans"}, default "tag"
        What the labels become: ``token.tag_``; ``token.pos_``, and ``token.morph`` where labels are those of a
        morphologizer (``POS=NOUN|Number=Sing``; ``POS=NOUN`` takes the number away); ``doc.ents``; or
        ``doc.spans[spans_key]``. Entities and spans are the segments of the labels under their tagging scheme.
    spans_key : str, default "bridle"
        See `sets`.
    columns : dict of str to str
        Attributes of tokens that are the columns of the model, for example ``{"pos": "tag_", "gazetteer":
        "_.in_gazetteer"}``. The first column is ``text`` if it is not named here.
    features : callable, optional
        For models that were trained on features instead of columns: takes a list of tokens, returns the features of
        each. In a config: ``{"@misc": "my_features.v1"}``.
    sequences : {"doc", "sents"}, default "doc"
        What is labelled as one sequence: rules such as "at most 1 segment of TITLE" apply to that. With sentences,
        rules that begin with ``in the document:`` apply to the `Doc`, whose sentences are then decoded together.
    on_infeasible : {"raise", "relax", "skip"}, default "raise"
        If no labelling obeys the hard rules: raise (in ``nlp.pipe``, the error handler of the pipeline gets the
        document), take the labelling that violates the fewest, or leave the tokens as they are.
    scores : {"none", "marginals"}, default "none"
        ``"marginals"``: the probability of each token's label among all labellings that obey the hard rules is in the
        record (``"probabilities"``); the score of a span, in ``doc.spans[spans_key].attrs["scores"]``, is the least of
        its tokens.
    time_limit : float, optional
        Seconds per sequence.
    threads : int, default 1
        Number of threads that decode a batch; 0 means all cores.

    Examples
    --------
    >>> import bridle, spacy
    >>> X, y = [["the", "cat", "sleeps"], ["a", "dog", "runs"]], [["D", "N", "V"]] * 2
    >>> nlp = spacy.blank("en")
    >>> tagger = nlp.add_pipe("bridle_tagger", config={"rules": ["at most 1 token of N"]})
    >>> tagger.model = bridle.CRF(features=["word[0]", "label[-1]"]).fit(X, y)
    >>> doc = nlp("a dog dog runs")
    >>> [token.tag_ for token in doc], doc._.bridle["bridle_tagger"][0]["status"]
    (['D', 'D', 'N', 'V'], 'optimal')
    """

    def __init__(
        self,
        nlp: Any,
        name: str = "bridle_tagger",
        *,
        model: str | None = None,
        scores_from: str | None = None,
        rules: str | Sequence[str] = (),
        sets: str = "tag",
        spans_key: str = "bridle",
        columns: Mapping[str, str] | None = None,
        features: Callable[[list[Any]], Sequence[Any]] | None = None,
        sequences: str = "doc",
        on_infeasible: str = "raise",
        scores: str = "none",
        time_limit: float | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(nlp, name, rules, sets, spans_key)
        check_word("sets", sets, ("tag", "pos", "ents", "spans"))
        check_word("sequences", sequences, ("doc", "sents"))
        check_word("scores", scores, ("none", "marginals"))
        check_word("on_infeasible", on_infeasible, ("raise", "relax", "skip"))
        if model is not None and scores_from is not None:
            got = f"model={model!r} and scores_from={scores_from!r}"
            raise ModelError("`model` and `scores_from` cannot be combined", got=got, wanted="one of them")
        self._path, self._scores_from = model, scores_from
        self.spans_key, self.sequences = spans_key, sequences
        self._columns, self._features = dict(columns or {}), features
        self._options: dict[str, Any] = {"on_infeasible": on_infeasible, "time_limit": time_limit}
        self._threads = threads
        self._model: Tagger | None = None
        self._want: tuple[Want, ...] = ("probabilities",) if scores == "marginals" else ()
        self._check_at_construction()

    @property
    def model(self) -> Tagger | None:
        """The model of Bridle; None if there is none, or its file has not been needed yet.

        spaCy looks at all attributes while a pipeline is loaded, when the file may be gone: none of them reads it.
        """
        return self._model

    @model.setter
    def model(self, model: Tagger) -> None:
        if not isinstance(model, Tagger):
            raise ModelError("this is not a model of Bridle", got=type(model).__name__, wanted="such as bridle.CRF")
        if not model.__sklearn_is_fitted__():
            raise not_fitted("the model has not been trained", wanted="fit(X, y), or bridle.load(path)")
        Decoder(model.labels_, self._read_rules(), **self._options)  # raises if a rule names an unknown label
        self._model, self._prepared = model, None

    def _read_model(self) -> Tagger | None:
        if self._model is None and self._path is not None:
            self._model = load(self._path)
        return self._model

    def initialize(
        self, get_examples: Callable[[], Iterable[Any]] | None = None, *, nlp: Any = None, model: str | None = None
    ) -> None:
        """Read a model file: what ``[initialize.components.bridle_tagger]`` of a spaCy config can ask for.

        The other parameters, which spaCy passes, are not used: models are trained by Bridle.
        """
        if model is not None:
            self.model = load(model)
        super().initialize(get_examples, nlp=nlp)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the component can set, as far as they are known: a model file is not read for them."""
        if self._scores_from is not None:
            there = self._scores_from in self.nlp.component_names
            return tuple(self.nlp.get_pipe(self._scores_from).labels) if there else ()
        if self._model is None:
            return ()
        known = self._model.labels_
        return tuple(sorted(known.types)) if self.sets in ("ents", "spans") else known.names

    @property
    def rules(self) -> list[str]:
        """The rules, as sentences."""
        return [str(rule) for rule in self._read_rules()]

    def _check_rules(self) -> None:
        if self._scores_from is None:
            known = self._read_model() is not None
        else:  # a component that is not there yet, or not trained yet, is looked up later
            known = any(name == self._scores_from and getattr(pipe, "labels", ()) for name, pipe in self.nlp.components)
        if known:
            self._ready()

    def _ready(self) -> tuple["Source", Decoder]:
        """Return the source of scores and the decoder, built when they are first needed."""
        if self._prepared is None or not self._prepared[0].current():
            source = self._source()
            self._prepared = source, Decoder(source.labels, self._read_rules(), **self._options)
        ready: tuple[Source, Decoder] = self._prepared
        return ready

    def _values(self, labels: Iterable[str], docs: Sequence["Doc"]) -> npt.NDArray[np.uint64]:
        """Return the number of each label in spaCy, (m). Looked up for each batch: a memory zone forgets strings."""
        if self.sets == "pos":
            return np.array([part_of_speech(label) for label in labels], dtype=np.uint64)
        stores = {id(doc.vocab): doc.vocab.strings for doc in docs}  # several if documents are of several pipelines
        rows = [[strings.add(label) for label in labels] for strings in stores.values()]
        return np.array(rows[0], dtype=np.uint64)  # a string has the same number in all stores

    def _source(self) -> "Source":
        if self._scores_from is not None:
            return PipeSource(partial(self._other, self._scores_from, "a tagger or a morphologizer"), self._scores_from)
        if (model := self._read_model()) is None:
            raise ModelError(
                f"the component {self.name!r} has no model",
                got="neither model nor scores_from",
                wanted='config={"model": "my.bridle"}, config={"scores_from": "tagger"}, or an assignment to `model`',
                cause=f"In Python: nlp.get_pipe({self.name!r}).model = bridle.load('my.bridle').",
            )
        return ModelSource(model, self._columns, self._features)

    def _annotate(self, docs: Sequence["Doc"]) -> list[Exception | None]:
        source, decoder = self._ready()
        values = self._values(source.labels, docs)
        failures: list[Exception | None] = [None] * len(docs)
        sequences: list[TokenSequence] = []
        for number, doc in enumerate(docs):
            try:
                sequences += source.sequences(number, doc, self.sequences)
            except Exception as error:  # attributes and features of users can raise anything
                failures[number] = error
        answers: list[list[Answer]] = [[] for _ in docs]
        if sequences:
            block = source.block(sequences, "tokens" in decoder.required_inputs)
            if self.sequences == "sents" and decoder.about_documents:
                block = replace(block, groups=[sequence.number for sequence in sequences])
            outcomes = tag(block, source.model, decoder, want=self._want, threads=self._threads)
            errors = dict(outcomes.errors)
            if decoder.on_infeasible == "raise":
                errors |= {k: unanswered.error for k, unanswered in outcomes.decodings.unanswered.items()}
            for k, failure in errors.items():
                failure.sequence = None  # the error handler gets the document
                failures[sequences[k].number] = failures[sequences[k].number] or failure
            for k, sequence in enumerate(sequences):
                answers[sequence.number].append(Answer.of(sequence, outcomes, k))
        for number, doc in enumerate(docs):
            if failures[number] is None:
                try:
                    self._write(doc, answers[number], values)
                except Exception as error:  # of spaCy
                    failures[number] = error
        return failures

    def _write(self, doc: "Doc", answers: list["Answer"], values: npt.NDArray[np.uint64]) -> None:
        """Write the labels and the record of one document."""
        self._record(doc, [answer.record() for answer in answers])
        answered = [answer for answer in answers if len(answer.decoding.ids)]
        if self.sets == "spans" and (answered or not answers):  # a document without tokens has no spans
            write_spans(doc, answers, self.spans_key)
        elif answered:
            write_spans(doc, answers, None) if self.sets == "ents" else write_labels(doc, answered, self.sets, values)

    def _saved(self) -> dict[str, bytes]:
        saved = super()._saved()
        return saved if (model := self._read_model()) is None else {MODEL: model.to_bytes(), **saved}

    def _paths(self) -> dict[str, str | None]:
        return {**super()._paths(), MODEL: self._path}

    def _take(self, name: str, data: bytes) -> None:
        if name == MODEL:
            self.model = from_bytes(data)
        else:
            super()._take(name, data)


class Answer(NamedTuple):
    """Labels of one sequence of a document."""

    at: npt.NDArray[np.intp]  # (n)  positions of its tokens
    decoding: Decoding
    probabilities: list[float] | None  # (n)

    @classmethod
    def of(cls, sequence: "TokenSequence", outcomes: Outcomes, k: int) -> "Answer":
        """Return the answer for sequence k; labellings that violate hard rules have no probabilities."""
        return cls(sequence.at, outcomes.decodings[k], probabilities_of(outcomes, k))

    def record(self) -> dict[str, Any]:
        """Return status, score and bound as JSON."""
        record = {"start": int(self.at[0]), "end": int(self.at[-1]) + 1, **record_of(self.decoding)}
        return record if self.probabilities is None else {**record, "probabilities": self.probabilities}


def write_labels(doc: "Doc", answers: Sequence[Answer], sets: str, values: npt.NDArray[np.uint64]) -> None:
    """Write labels to ``token.tag``, or to ``token.pos`` and ``token.morph``; values (m) are their numbers in spaCy."""
    column = doc.to_array(sets.upper())
    for answer in answers:
        column[answer.at] = values[answer.decoding.ids]
    doc.from_array(sets.upper(), column)
    if sets != "pos":
        return
    # Features that no label has stay; the tokenizer of Japanese, for example, sets readings.
    known = {name for label in answers[0].decoding.label_set.names for name in analysis(label)[1] or ()}
    for answer in answers:
        for t, label in zip(answer.at.tolist(), answer.decoding.labels, strict=True):
            if (features := analysis(label)[1]) is not None:
                others = {name: value for name, value in doc[t].morph.to_dict().items() if name not in known}
                doc[t].set_morph({**others, **features})


def write_spans(doc: "Doc", answers: Sequence[Answer], key: str | None) -> None:
    """Write segments to ``doc.ents``, or to ``doc.spans[key]`` with the least probability of their tokens as scores.

    Entities of sequences without an answer stay.
    """
    spans, scores = [], []
    for at, decoding, probabilities in answers:
        for segment in decoding.label_set.segments(decoding.ids):
            if segment.type not in decoding.label_set.all_outside:  # without a scheme, it has segments too
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


def analysis(label: str) -> tuple[str, dict[str, str] | None]:
    """Return the part of speech of a label, and its features if it is a label of a morphologizer.

    >>> analysis("NOUN"), analysis("POS=NOUN|Number=Sing"), analysis("_")
    (('NOUN', None), ('NOUN', {'Number': 'Sing'}), ('', {}))
    """
    if "=" not in label and label != "_":
        return label, None
    features = dict(part.split("=", 1) for part in label.split("|") if "=" in part)
    return features.pop("POS", ""), features


def part_of_speech(label: str) -> int:
    """Return the number of the part of speech of a label in spaCy."""
    if (name := analysis(label)[0]) in PARTS_OF_SPEECH:
        return PARTS_OF_SPEECH[name]
    wanted = f"one of {', '.join(name for name in PARTS_OF_SPEECH if name.isalpha())}"
    cause = "Set another attribute, such as sets='tag'."
    raise ModelError("a label is not a part of speech", got=repr(label), wanted=wanted, cause=cause)


# ---- sources of scores ----------------------------------------------------------------------------------------------

# Attributes of tokens that a component sets: the annotation in spaCy, and the component.
SET_BY = {
    "tag_": ("TAG", "'tagger'"),
    "pos_": ("POS", "'morphologizer', or 'tagger' with 'attribute_ruler',"),
    "morph": ("MORPH", "'morphologizer'"),
    "lemma_": ("LEMMA", "'lemmatizer'"),
    "dep_": ("DEP", "'parser'"),
    "ent_type_": ("ENT_IOB", "'ner'"),
    "ent_iob_": ("ENT_IOB", "'ner'"),
}
# Attributes of tokens that documents export as an array.
ARRAYS = {"text": "ORTH", "ent_type_": "ENT_TYPE"} | {
    f"{name}_": name.upper() for name in ("lower", "norm", "shape", "prefix", "suffix", "lemma", "tag", "pos", "dep")
}
TINY = float(np.finfo(np.float32).tiny)


class TokenSequence(NamedTuple):
    """Tokens of a document that are labelled as one sequence."""

    number: int  # of the document in its batch
    doc: "Doc"
    at: npt.NDArray[np.intp]  # (n)  positions of the tokens
    slow: Any = None  # values read token by token: features, or columns by name


class ModelSource:
    """A model of Bridle, whose columns are attributes of tokens."""

    def __init__(
        self, model: Tagger, columns: Mapping[str, str], features: Callable[[list[Any]], Sequence[Any]] | None
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
        """Return True: a model does not change."""
        return True

    def sequences(self, number: int, doc: "Doc", kind: str) -> list[TokenSequence]:
        """Split a document into sequences without white space, which the training data does not have."""
        for name, attribute in self._columns.items():
            annotation, component = SET_BY.get(attribute, ("", ""))
            if annotation and len(doc) and not doc.has_annotation(annotation):
                what = f"the column {name!r} is token.{attribute}, which no component has set"
                wanted = f"{component} before this component"
                raise ModelError(what, got=f"a document without {annotation}", wanted=wanted)
        words = np.flatnonzero(np.asarray(doc.to_array("IS_SPACE")).reshape(-1) == 0)
        sequences = split_doc(number, doc, words, kind)
        if self._slow or self._features is not None:
            return [self._read(sequence) for sequence in sequences]
        return sequences

    def _read(self, sequence: TokenSequence) -> TokenSequence:
        """Add features, or the columns that documents do not export as arrays."""
        tokens = [sequence.doc[t] for t in sequence.at.tolist()]
        if self._features is not None:
            return sequence._replace(slow=self._features(tokens))
        try:
            columns = {name: list(map(str, map(attrgetter(path), tokens))) for name, path in self._slow.items()}
        except AttributeError as error:
            got, wanted = f"columns={self._columns}: {error}", "attributes of tokens such as 'text', 'tag_', 'lemma_'"
            raise ModelError("a column is not an attribute of tokens", got=got, wanted=wanted) from None
        return sequence._replace(slow=columns)

    def block(self, sequences: Sequence[TokenSequence], with_texts: bool) -> Block:
        """Pack sequences for the model, with the texts of tokens if rules refer to them."""
        given = None
        if with_texts and self._tokens != "text":
            texts = texts_of(sequences, "text")
            given = [{"tokens": texts.row(k)} for k in range(len(texts))]
        if self._features is not None:
            return Block(len(sequences), sequences=[sequence.slow for sequence in sequences], given=given)
        columns = {
            name: texts_of(sequences, attribute) for name, attribute in self._columns.items() if name not in self._slow
        }
        slow = {name: Column.of([sequence.slow[name] for sequence in sequences]) for name in self._slow}
        return Block(len(sequences), columns | slow, given=given)


class PipeSource:
    """Scores of a statistical component of the pipeline, such as spaCy's tagger."""

    model = None

    def __init__(self, find: Callable[[], Any], name: str) -> None:
        self._find, self._name = find, name
        component = find()
        scores_spans = hasattr(component, "moves") or hasattr(component, "suggester")  # or transitions
        if scores_spans or not hasattr(component, "model") or not hasattr(component.model, "predict"):
            raise self._no_scores(type(component).__name__)
        if not component.labels:
            raise ModelError(f"the component {name!r} has no labels", got="none", wanted="one that has been trained")
        self.labels = Labels(component.labels)

    def _no_scores(self, got: str) -> ModelError:
        what = f"the component {self._name!r} has no scores per token and label"
        cause = "For spans and named entity recognizers, see bridle_spans."
        return ModelError(what, got=got, wanted="a tagger or a morphologizer", cause=cause)

    def current(self) -> bool:
        """Return False if the component has other labels now, because it was replaced or trained."""
        return tuple(self._find().labels) == self.labels.names

    def sequences(self, number: int, doc: "Doc", kind: str) -> list[TokenSequence]:
        """Split a document into sequences with all tokens: such components were trained with white space."""
        return split_doc(number, doc, np.arange(len(doc)), kind)

    def block(self, sequences: Sequence[TokenSequence], with_texts: bool) -> Block:
        """Score sequences, with the texts of tokens if rules refer to them."""
        docs, model = {sequence.number: sequence.doc for sequence in sequences}, self._find().model
        tables = dict(zip(docs, map(model.ops.to_numpy, model.predict(list(docs.values()))), strict=True))
        for number, table in tables.items():
            if table.shape != (len(docs[number]), len(self.labels)):
                raise self._no_scores(f"an array of shape {table.shape}")
        unary = np.concatenate([tables[sequence.number][sequence.at] for sequence in sequences])
        scores = Batch(log_probabilities(unary), offsets_of(len(sequence.at) for sequence in sequences))
        return Block(len(sequences), {"tokens": texts_of(sequences, "text")} if with_texts else {}, scores=scores)


Source = ModelSource | PipeSource


def log_probabilities(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return log-probabilities of the predictions of a classifier, (n, m) probabilities or logits.

    ``spacy.Tagger.v1`` predicts probabilities, ``spacy.Tagger.v2`` logits by default.

    >>> log_probabilities(np.array([[0.25, 0.75]])).round(2).tolist()
    [[-1.39, -0.29]]
    >>> log_probabilities(np.array([[2.0, 2.0]])).round(2).tolist()
    [[-0.69, -0.69]]
    """
    if scores.min(initial=0) >= 0 and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return np.asarray(np.log(np.maximum(scores, TINY)))  # a probability that was rounded to 0 is not impossible
    return log_softmax(scores)


def texts_of(sequences: Sequence[TokenSequence], attribute: str) -> Column:
    """Return one of `ARRAYS` of the tokens as texts; `Token` objects would take longer than decoding."""
    docs = {sequence.number: sequence.doc for sequence in sequences}
    arrays = {number: np.reshape(doc.to_array(ARRAYS[attribute]), -1) for number, doc in docs.items()}
    rows = [arrays[sequence.number][sequence.at] for sequence in sequences]
    hashes, which = np.unique(np.concatenate(rows), return_inverse=True)
    stores = list({id(doc.vocab): doc.vocab.strings for doc in docs.values()}.values())  # one per pipeline
    texts = [next(strings[key] for strings in stores if key in strings) for key in hashes.tolist()]
    return Column(np.array(texts, dtype=object)[which].tolist(), offsets_of(map(len, rows)))


def split_doc(number: int, doc: "Doc", kept: npt.NDArray[np.intp], kind: str) -> list[TokenSequence]:
    """Split the tokens at `kept` into the sequences of a document: one, or one per sentence."""
    parts = [kept]
    if kind == "sents" and len(doc):
        if not doc.has_annotation("SENT_START"):
            wanted = "'sentencizer', 'senter' or 'parser' before this component"
            cause = "Or decode whole documents: sequences='doc'."
            raise ModelError("the document has no sentences", got="sequences='sents'", wanted=wanted, cause=cause)
        parts = np.split(kept, np.searchsorted(kept, [sentence.end for sentence in doc.sents][:-1]))
    return [TokenSequence(number, doc, at) for at in parts if len(at)]
