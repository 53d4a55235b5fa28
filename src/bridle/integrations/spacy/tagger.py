"""bridle_tagger: a model, or a tagger of the pipeline, is decoded under rules and sets tags, entities or spans."""

# No `from __future__ import annotations`: spaCy reads the types of settings off the class.

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding
from bridle.errors import BridleError, ModelError
from bridle.integrations.spacy.answers import Answer, part_of_speech, write_labels, write_spans
from bridle.integrations.spacy.component import (
    RULES,
    SOURCES,
    Component,
    OnInfeasible,
    SequenceKind,
    Sets,
    TokenScores,
    check_word,
    part_of_spacy,
)
from bridle.integrations.spacy.scores import ModelScores, PipeScores, Scores, TokenSequence, parts_of, texts_of
from bridle.lattice import Batch
from bridle.models import Tagger, from_bytes, load
from bridle.models.estimator import not_fitted

if TYPE_CHECKING:
    from spacy.tokens import Doc

MODEL = "model.bridle"  # the file of a saved pipeline
SCORED = "a tagger or a morphologizer"  # components with scores per token
PARTS_OF_SPEECH: Mapping[str, int] = part_of_spacy("parts_of_speech").IDS


class Ready(NamedTuple):
    """What a component decodes with, made when it is first needed."""

    scores: Scores
    decoder: Decoder


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

    Raises
    ------
    ModelError
        If a setting is impossible.

    See Also
    --------
    BridleSpans : The best set of candidate spans.

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

    files: ClassVar[tuple[str, ...]] = (SOURCES, MODEL, RULES)

    def __init__(
        self,
        nlp: Any,
        name: str = "bridle_tagger",
        *,
        model: str | None = None,
        scores_from: str | None = None,
        rules: str | Sequence[str] = (),
        sets: Sets = "tag",
        spans_key: str = "bridle",
        columns: Mapping[str, str] | None = None,
        features: Callable[[list[Any]], Sequence[Any]] | None = None,
        sequences: SequenceKind = "doc",
        on_infeasible: OnInfeasible = "raise",
        scores: TokenScores = "none",
        time_limit: float | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(nlp, name, rules, sets, spans_key)
        check_word("sets", sets, ("tag", "pos", "ents", "spans"))
        check_word("sequences", sequences, ("doc", "sents"))
        check_word("scores", scores, ("none", "marginals"))
        check_word("on_infeasible", on_infeasible, ("raise", "relax", "skip"))
        if model is not None and scores_from is not None:
            raise ModelError(
                "`model` and `scores_from` cannot be combined",
                got=f"model={model!r} and scores_from={scores_from!r}",
                wanted="one of them",
            )
        self._path, self._scores_from = model, scores_from
        self.spans_key, self.sequences = spans_key, sequences
        self._columns, self._features = dict(columns or {}), features
        self._on_infeasible, self._with, self._limit, self._threads = on_infeasible, scores, time_limit, threads
        self._model: Tagger | None = None
        self._made: Ready | None = None

    # ---- the model --------------------------------------------------------------------------------------------------

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
        self._model, self._made = model, None

    def _read_model(self) -> Tagger | None:
        if self._model is None and self._path is not None:
            self._model = load(self._path)
        return self._model

    def initialize(
        self, get_examples: Callable[[], Iterable[Any]] | None = None, *, nlp: Any = None, model: str | None = None
    ) -> None:
        """Read a model file: what ``[initialize.components.bridle_tagger]`` of a spaCy config can ask for.

        Parameters
        ----------
        get_examples : callable, optional
            Not used: models are trained by Bridle.
        nlp : Language, optional
            Not used.
        model : str, optional
            The model file.
        """
        if model is not None:
            self.model = load(model)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the component can set, as far as they are known: a model file is not read for them."""
        if self._scores_from is not None:
            found = self.nlp.get_pipe(self._scores_from).labels if self._scores_from in self.nlp.component_names else ()
            return tuple(found)
        if self._model is None:
            return ()
        known = self._model.labels_
        return tuple(sorted(known.types)) if self.sets in ("ents", "spans") else known.names

    @property
    def rules(self) -> list[str]:
        """The rules, as sentences."""
        return [str(rule) for rule in self._setting.rules()]

    def _ready(self) -> Ready:
        if self._made is None or not self._made.scores.current():
            scores = self._source()
            how: OnInfeasible = "relax" if self._on_infeasible == "relax" else "skip"  # errors go document by document
            decoder = Decoder(scores.labels, self._setting.rules(), on_infeasible=how, time_limit=self._limit)
            self._made = Ready(scores, decoder)
        return self._made

    def _values(self, labels: Iterable[str], docs: Sequence["Doc"]) -> npt.NDArray[np.uint64]:
        """(m) what spaCy keeps of each label. They are looked up for each batch: a memory zone forgets strings."""
        if self.sets == "pos":
            return np.array([self._part_of_speech(label) for label in labels], dtype=np.uint64)
        stores = {id(doc.vocab): doc.vocab.strings for doc in docs}  # several, if documents are of several pipelines
        rows = [[strings.add(label) for label in labels] for strings in stores.values()]
        return np.array(rows[0], dtype=np.uint64)  # a string has the same number in all of them

    def _part_of_speech(self, label: str) -> int:
        if (name := part_of_speech(label)) not in PARTS_OF_SPEECH:
            raise ModelError(
                "a label is not a part of speech",
                got=repr(label),
                wanted=f"one of {', '.join(name for name in PARTS_OF_SPEECH if name.isalpha())}",
                cause="Set another attribute, such as sets='tag'.",
            )
        return PARTS_OF_SPEECH[name]

    def _source(self) -> Scores:
        if self._scores_from is not None:
            return PipeScores(partial(self._other, self._scores_from, SCORED), self._scores_from)
        if (model := self._read_model()) is None:
            raise ModelError(
                f"the component {self.name!r} has no model",
                got="neither model nor scores_from",
                wanted='config={"model": "my.bridle"}, config={"scores_from": "tagger"}, or an assignment to `model`',
                cause=f"In Python: nlp.get_pipe({self.name!r}).model = bridle.load('my.bridle').",
            )
        return ModelScores(model, self._columns, self._features)

    # ---- documents --------------------------------------------------------------------------------------------------

    def _annotate(self, docs: Sequence["Doc"]) -> list[Exception | None]:
        scores, decoder = self._ready()
        values = self._values(scores.labels, docs)
        problems: list[Exception | None] = [None] * len(docs)
        sequences: list[TokenSequence] = []
        for number, doc in enumerate(docs):
            try:
                scores.check(doc)
                sequences += [part for part in parts_of(scores, number, doc, self.sequences) if len(part.at)]
            except BridleError as error:
                problems[number] = error
        batch = scores.batch(sequences)
        given = None
        if "tokens" in decoder.required_inputs:
            given = [{"tokens": texts} for texts in texts_of(sequences)]
        found = decoder.decode_batch(batch, given, threads=self._threads)
        for k, unanswered in found.unanswered.items():
            if self._on_infeasible == "raise":
                problems[sequences[k].number] = problems[sequences[k].number] or unanswered.error
        answers: list[list[Answer]] = [[] for _ in docs]
        for k, sequence in enumerate(sequences):
            if problems[sequence.number] is None:
                try:
                    decoding = found[k]
                    sure = self._probabilities(batch, k, decoding, given) if self._with == "marginals" else None
                    answers[sequence.number].append(Answer(sequence.at, decoding, sure))
                except BridleError as error:  # too many states to sum over, or the time was up
                    problems[sequence.number] = error
        for number, doc in enumerate(docs):
            if problems[number] is None:
                try:
                    self._write(doc, answers[number], values)
                except Exception as error:
                    problems[number] = error
        return problems

    def _probabilities(
        self, batch: Batch, k: int, decoding: Decoding, given: list[dict[str, Any]] | None
    ) -> list[float] | None:
        """The probability of each token's label in sequence k, if hard rules hold."""
        if decoding.status not in ("optimal", "limit"):
            return None
        table = self._ready().decoder.marginals(batch[k], None if given is None else given[k])
        found: list[float] = table[np.arange(len(decoding.ids)), decoding.ids].tolist()
        return found

    def _write(self, doc: "Doc", answers: list[Answer], values: npt.NDArray[np.uint64]) -> None:
        """Put the labels of one document where they belong, and the record beside them."""
        self._record(doc, [answer.record() for answer in answers])
        answered = [answer for answer in answers if len(answer.decoding.ids)]
        if self.sets == "spans" and (answered or not answers):  # a document without tokens has no spans
            write_spans(doc, answers, self.spans_key)
        elif self.sets == "ents" and answered:
            write_spans(doc, answers, None)
        elif answered:
            write_labels(doc, answered, self.sets, values)

    # ---- files ------------------------------------------------------------------------------------------------------

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

    def _forget(self) -> None:
        self._made = None
