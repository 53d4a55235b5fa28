"""bridle_tagger: the best labels of tokens under rules become tags, entities or spans."""

# No `from __future__ import annotations`: spaCy reads the types of settings off the class.

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding
from bridle.errors import ModelError
from bridle.integrations.spacy.component import Component, Span, check_word, part_of_spacy, record_of
from bridle.integrations.spacy.scores import ModelSource, PipeSource, Source, TokenSequence
from bridle.models import Tagger, from_bytes, load
from bridle.models.estimator import not_fitted
from bridle.tagging import Outcomes, tag
from bridle.tagging.labelling import Want

if TYPE_CHECKING:
    from spacy.tokens import Doc

MODEL = "model.bridle"  # the file of a saved pipeline
PARTS_OF_SPEECH: Mapping[str, int] = part_of_spacy("parts_of_speech").IDS


class BridleTagger(Component):
    """Label the tokens of documents under rules: the component ``bridle_tagger``.

    Add it by ``nlp.add_pipe("bridle_tagger", config={...})``; the parameters below are the keys of that config. What
    it found, and how it knows, is in ``doc._.bridle["bridle_tagger"]``, one record per sequence: the status, the score,
    its bound and the soft rules that are violated, as in `bridle.Decoding`. Documents without tokens have no sequence.

    Parameters
    ----------
    nlp : Language
        The pipeline.
    name : str
        Name of the component.
    model : str, optional
        A model file of Bridle (`Tagger.save`). It is read when it is first needed, and saved with the pipeline, which
        does not need the file any more. In Python, set the attribute `model` instead.
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
        What is labelled as one sequence: rules such as "at most 1 segment of TITLE" apply to that.
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

    @property
    def model(self) -> Tagger | None:
        """The model of Bridle; None if there is none, or its file has not been needed yet.

        spaCy looks at all attributes while a pipeline is loaded, when the file may be gone: none of them reads it.
        """
        return self._model

    @model.setter
    def model(self, model: Tagger) -> None:
        if not isinstance(model, Tagger):
            raise ModelError("this is not a model of Bridle", got=type(model).__name__, wanted="a bridle.CRF, or such")
        if not model.__sklearn_is_fitted__():
            raise not_fitted("the model has not been trained", wanted="fit(X, y), or bridle.load(path)")
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

    def _ready(self) -> tuple[Source, Decoder]:
        """What the component decodes with, made when it is first needed."""
        if self._prepared is None or not self._prepared[0].current():
            source = self._source()
            self._prepared = source, Decoder(source.labels, self._read_rules(), **self._options)
        ready: tuple[Source, Decoder] = self._prepared
        return ready

    def _values(self, labels: Iterable[str], docs: Sequence["Doc"]) -> npt.NDArray[np.uint64]:
        """(m) what spaCy keeps of each label. They are looked up for each batch: a memory zone forgets strings."""
        if self.sets == "pos":
            return np.array([part_of_speech(label) for label in labels], dtype=np.uint64)
        stores = {id(doc.vocab): doc.vocab.strings for doc in docs}  # several, if documents are of several pipelines
        rows = [[strings.add(label) for label in labels] for strings in stores.values()]
        return np.array(rows[0], dtype=np.uint64)  # a string has the same number in all of them

    def _source(self) -> Source:
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
        problems: list[Exception | None] = [None] * len(docs)
        sequences: list[TokenSequence] = []
        for number, doc in enumerate(docs):
            try:
                sequences += source.sequences(number, doc, self.sequences)
            except Exception as error:  # of attributes and features that are not ours, too
                problems[number] = error
        answers: list[list[Answer]] = [[] for _ in docs]
        if sequences:
            block = source.block(sequences, "tokens" in decoder.required_inputs)
            outcomes = tag(block, source.model, decoder, want=self._want, threads=self._threads)
            errors = dict(outcomes.errors)
            if decoder.on_infeasible == "raise":
                errors |= {k: unanswered.error for k, unanswered in outcomes.decodings.unanswered.items()}
            for k, wrong in errors.items():
                wrong.sequence = None  # the error handler gets the document
                problems[sequences[k].number] = problems[sequences[k].number] or wrong
            for k, sequence in enumerate(sequences):
                answers[sequence.number].append(Answer.of(sequence, outcomes, k))
        for number, doc in enumerate(docs):
            if problems[number] is None:
                try:
                    self._write(doc, answers[number], values)
                except Exception as error:  # of spaCy
                    problems[number] = error
        return problems

    def _write(self, doc: "Doc", answers: list["Answer"], values: npt.NDArray[np.uint64]) -> None:
        """Put the labels of one document where they belong, and the record beside them."""
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
    """What was found for one sequence of a document."""

    at: npt.NDArray[np.intp]  # (n)  positions of its tokens
    decoding: Decoding
    probabilities: list[float] | None  # (n)

    @classmethod
    def of(cls, sequence: TokenSequence, outcomes: Outcomes, k: int) -> "Answer":
        """Take sequence k of the outcomes; labellings that break hard rules have no probabilities."""
        decodings, chances = outcomes.decodings, None
        if outcomes.probabilities is not None:
            listed = outcomes.probabilities[slice(*decodings.offsets[k : k + 2])]
            chances = None if np.isnan(listed).any() else listed.tolist()
        return cls(sequence.at, decodings[k], chances)

    def record(self) -> dict[str, Any]:
        """How it was found, as JSON has it."""
        record = {"start": int(self.at[0]), "end": int(self.at[-1]) + 1, **record_of(self.decoding)}
        return record if self.probabilities is None else {**record, "probabilities": self.probabilities}


def write_labels(doc: "Doc", answers: Sequence[Answer], sets: str, values: npt.NDArray[np.uint64]) -> None:
    """Write labels to ``token.tag``, or to ``token.pos`` and ``token.morph``. values (m): what spaCy keeps of each."""
    column = doc.to_array(sets.upper())
    for answer in answers:
        column[answer.at] = values[answer.decoding.ids]
    doc.from_array(sets.upper(), column)
    if sets != "pos":
        return
    # Features that no label has stay: the tokenizer of Japanese, for example, writes readings there.
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


def analysis(label: str) -> tuple[str, dict[str, str] | None]:
    """The part of speech of a label, and its features if it is one of a morphologizer.

    >>> analysis("NOUN"), analysis("POS=NOUN|Number=Sing"), analysis("_")
    (('NOUN', None), ('NOUN', {'Number': 'Sing'}), ('', {}))
    """
    if "=" not in label and label != "_":
        return label, None
    features = dict(part.split("=", 1) for part in label.split("|") if "=" in part)
    return features.pop("POS", ""), features


def part_of_speech(label: str) -> int:
    """The number that spaCy has for the part of speech of a label."""
    if (name := analysis(label)[0]) in PARTS_OF_SPEECH:
        return PARTS_OF_SPEECH[name]
    wanted = f"one of {', '.join(name for name in PARTS_OF_SPEECH if name.isalpha())}"
    cause = "Set another attribute, such as sets='tag'."
    raise ModelError("a label is not a part of speech", got=repr(label), wanted=wanted, cause=cause)
