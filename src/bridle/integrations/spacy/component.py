"""Base class of the spaCy components: batches, error handling, rules, and serialization."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bridle.atomic import replacing
from bridle.decoding.result import Decoding
from bridle.errors import FileError, ModelError
from bridle.extras import needed
from bridle.rules.base import Rule
from bridle.rules.conditions import without_files
from bridle.rules.loading import as_rules, parse_lines, read_files
from bridle.spans.selector import Selection

if TYPE_CHECKING:
    from spacy.tokens import Doc


def part_of_spacy(module: str) -> Any:
    """Import a module of spaCy."""
    return needed(f"spacy.{module}", "spacy", "Bridle's spaCy components need spaCy")


spacy_util = part_of_spacy("util")
Pipe: Any = part_of_spacy("pipeline").Pipe
Span: Any = part_of_spacy("tokens").Span
RULES = "rules.rules"  # file of a saved pipeline
SOURCES = "sources.json"  # another one: the original paths of the saved files
RECORD = "bridle"  # doc._.bridle: status, score and bound by component
if not part_of_spacy("tokens").Doc.has_extension(RECORD):
    part_of_spacy("tokens").Doc.set_extension(RECORD, default=None)


def settings_of(component: type) -> dict[str, Any]:
    """Return the defaults of the settings of a component, which are the keyword-only parameters of its class."""
    parameters = [part for part in signature(component).parameters.values() if part.kind is Parameter.KEYWORD_ONLY]
    return {part.name: [] if part.default == () else part.default for part in parameters}


def check_word(name: str, value: object, words: Sequence[str]) -> None:
    """Raise `ModelError` if a setting is not one of these words."""
    if value not in words:
        wanted = f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
        raise ModelError(f"the setting {name} has an unknown value", got=repr(value), wanted=wanted)


def record_of(answer: Decoding | Selection, bonus: float = 0.0) -> dict[str, Any]:
    """Return status, score and bound of an answer as JSON; `bonus` is subtracted from its score."""
    if answer.status in ("infeasible", "nothing_found"):
        return {"status": answer.status}
    return {
        "status": answer.status,
        "score": answer.score - bonus,
        "penalty": answer.penalty,
        "bound": answer.bound - bonus if math.isfinite(answer.bound) else None,
        "optimal": answer.optimal,
        "violated": [{"rule": str(rule), "times": times} for rule, times in answer.violated],
    }


class Component(Pipe):  # type: ignore[misc]  # spaCy has no types that are checked here
    """A component that annotates documents in batches, and that is saved with its pipeline.

    Subclasses define `_annotate` and `_check_rules`, and extend `_paths`, `_saved` and `_take` if they save more than
    rules.
    """

    def __init__(self, nlp: Any, name: str, rules: str | Sequence[str], sets: str, key: str) -> None:
        """`sets` names the annotation that is written, `key` the key of spans."""
        self.nlp, self.name, self.sets, self._key = nlp, name, sets, key
        self._rules_file = rules if isinstance(rules, str) else None
        self._rules_text: str | None = None  # of the file, once it has been read or loaded with the pipeline
        self._sentences = () if isinstance(rules, str) else as_rules(rules)
        self._prepared: Any = None  # built from the settings when it is first needed
        self._sources: dict[str, str | None] = {}  # `_paths` at the time of saving, while loading

    def _annotate(self, docs: Sequence[Doc]) -> list[Exception | None]:
        """Annotate a batch; return the error of each document, or None.

        It may raise before the first document is changed, if the error concerns all of them.
        """
        raise NotImplementedError

    def _check_rules(self) -> None:
        """Raise if a rule names an unknown label, provided that the labels are known."""
        raise NotImplementedError

    def _check_at_construction(self) -> None:
        """Check the rules, unless files are needed that a saved pipeline has contents of its own for."""
        files = [path for path in self._paths().values() if path is not None]
        loading = self.name in self.nlp._meta.get("components", ())  # by spacy.load, which calls from_disk next
        if not (files and loading) and all(Path(path).exists() for path in files):
            self._check_rules()

    def initialize(self, get_examples: Callable[[], Iterable[Any]] | None = None, *, nlp: Any = None) -> None:
        """Check the rules: ``nlp.initialize`` calls this when the components before this one know their labels.

        The parameters, which spaCy passes, are not used.
        """
        self._check_rules()

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one document, in place."""
        [failure] = self._annotate([doc])
        if failure is not None:
            raise failure
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents, `batch_size` of them at once, and yield them in order.

        A document that cannot be annotated goes to the error handler of the component; the others of its batch are
        still annotated.
        """
        handle = self.get_error_handler()
        for docs in spacy_util.minibatch(stream, size=batch_size):
            try:
                failures = self._annotate(docs)
            except Exception as error:
                failures = [error] * len(docs)
            for doc, failure in zip(docs, failures, strict=True):
                if failure is None:
                    yield doc
                else:
                    handle(self.name, self, [doc], failure)

    def _record(self, doc: Doc, record: Any) -> None:
        """Set ``doc._.bridle["name of the component"]``."""
        doc._.set(RECORD, {**(doc._.get(RECORD) or {}), self.name: record})

    def _other(self, name: str, what: str) -> Any:
        """Return another component of the pipeline, disabled or not."""
        if name not in self.nlp.component_names:
            got = ", ".join(self.nlp.component_names) or "an empty pipeline"
            cause = "It may come later in the pipeline, and may be disabled, but not excluded."
            raise ModelError(f"there is no component {name!r} in the pipeline", got=got, wanted=what, cause=cause)
        return self.nlp.get_pipe(name)

    def score(self, examples: Iterable[Any], **options: Any) -> dict[str, Any]:
        """Score predicted documents against gold ones: what ``nlp.evaluate`` calls.

        Returns ``tag_acc``, ``pos_acc``, ``ents_f`` and so on, or ``spans_bridle_f`` and so on, depending on `sets`;
        `options` are passed on to spaCy's scorer.
        """
        scorer = part_of_spacy("scorer")
        match self.sets:
            case "ents":
                scores = scorer.get_ner_prf(examples, **options)
            case "spans":
                scores = part_of_spacy("pipeline.spancat").spancat_score(examples, spans_key=self._key, **options)
            case attribute:
                scores = scorer.Scorer.score_token_attr(examples, attribute, **options)
        return dict(scores)

    def _read_rules(self) -> tuple[Rule, ...]:
        """Return the rules. Their file is read when they are first needed: a saved pipeline contains its text."""
        if self._rules_file is None:
            return self._sentences
        if self._rules_text is not None:
            return tuple(line.rule for line in parse_lines(self._rules_text.split("\n"), self._rules_file))
        loaded = read_files([self._rules_file])
        rules = tuple(line.rule for line in loaded.check())
        portable = tuple(without_files(rule) for rule in rules)  # saved rules refer to no other file
        unchanged = portable == rules and not loaded.includes
        self._rules_text = "\n".join(loaded.texts[self._rules_file] if unchanged else map(str, portable))
        return rules

    def _saved(self) -> dict[str, bytes]:
        """Return the files that are saved besides the config: name -> content."""
        if self._rules_file is None:
            return {}  # the rules are in the config
        self._read_rules()
        return {RULES: (self._rules_text or "").encode()}

    def _saved_with_sources(self) -> dict[str, bytes]:
        saved = self._saved()
        return {SOURCES: json.dumps(self._paths()).encode(), **saved} if saved else {}

    def _paths(self) -> dict[str, str | None]:
        """Return the paths in the settings, by the names of the saved files."""
        return {RULES: self._rules_file}

    def _restore(self, name: str, data: bytes) -> None:
        """Load a saved file, unless the settings name another path now."""
        if name == SOURCES:
            try:
                self._sources = dict(json.loads(data))
            except (TypeError, ValueError) as error:
                raise FileError("not the paths of files", got=str(error), wanted="JSON", where=name) from None
            return
        path = self._paths()[name]
        if path is None or path == self._sources.get(name, path):
            self._take(name, data)

    def _take(self, name: str, data: bytes) -> None:
        """Use the content of a saved file."""
        try:
            self._rules_text = data.decode()
        except UnicodeDecodeError as error:
            raise FileError("not UTF-8", got=str(error), wanted="text in UTF-8", where=name) from None

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the model and the rules; `exclude` may name "model" and "rules"."""
        getters = {name: partial(bytes, data) for name, data in self._saved_with_sources().items()}
        return bytes(spacy_util.to_bytes(getters, exclude))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Load the result of `to_bytes`. Raises `ModelError` if these are other bytes."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            got, wanted = type(data).__name__, "what to_bytes returned"
            raise ModelError("a component is loaded from bytes", got=got, wanted=wanted)
        self._prepared, self._sources = None, {}
        try:
            spacy_util.from_bytes(
                data, {name: partial(self._restore, name) for name in (SOURCES, *self._paths())}, exclude
            )
        except (TypeError, ValueError) as error:  # of msgpack
            raise ModelError("this is not what to_bytes returned", got=str(error), wanted="its bytes") from None
        self._check_rules()
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model and the rules to a folder, which is created if needed."""
        saved = self._saved_with_sources()
        spacy_util.to_disk(path, {name: partial(_write, data) for name, data in saved.items()}, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load the folder that `to_disk` wrote."""
        self._prepared, self._sources = None, {}
        spacy_util.from_disk(path, dict.fromkeys([SOURCES, *self._paths()], self._read), exclude)
        self._check_rules()
        return self

    def _read(self, file: Path) -> None:
        if not file.exists():
            return  # the config contains the rules, or another component has the scores
        try:
            self._restore(file.name, file.read_bytes())
        except FileError as error:
            error.where = str(file)
            raise


def _write(data: bytes, file: Path) -> None:
    with replacing(file) as out:
        out.write(data)
