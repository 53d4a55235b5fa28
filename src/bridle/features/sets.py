"""Ready-made sets of templates, each for a kind of task, and the choice among them for ``features="auto"``.

The choice looks at the labels and columns of at most `MOST` sequences:

    outside     the share of tokens labelled O
    recurrence  segments per segment type in a sequence: a reference has one title, a sentence has many nouns
    run         tokens per segment
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

from bridle.features.columns import names_in, sequences_of
from bridle.labels import FIRST, Scheme, scheme_of

BIGRAM = "label[-1]"


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """A ready-made set of templates."""

    name: str  # as in ``CRF(features="ner")``
    about: str  # the task that it is for
    templates: str  # one per line


def _window(column: str, low: int, high: int) -> list[str]:
    return [f"{column}[{k}]" for k in range(low, high + 1)]


def _runs(column: str, length: int, low: int, high: int) -> list[str]:
    """`length` neighbours together, the first of them at low .. high."""
    return [" ".join(_window(column, k, k + length - 1)) for k in range(low, high + 1)]


def _ends(column: str = "") -> list[str]:
    return [f"{column}{kind}{k}[0]" for kind in ("prefix", "suffix") for k in range(1, 5)]


_SETS: dict[str, tuple[str, list[str]]] = {
    # The 19 of the CoNLL-2000 tutorials: words and parts of speech in a window of two, neighbours together.
    "chunking": (
        "phrases of sentences whose parts of speech are known (columns word and pos)",
        [
            *_window("word", -2, 2),
            *_runs("word", 2, -1, 0),
            *_window("pos", -2, 2),
            *_runs("pos", 2, -2, 1),
            *_runs("pos", 3, -2, 0),
        ],
    ),
    # Ratnaparkhi (1996), spelling features for all words as in Collins (2002).
    "pos": (
        "parts of speech: a label for every word",
        [*_window("word", -2, 2), *_ends(), "digit[0]", "upper[0]", "hyphen[0]"],
    ),
    # Words, shapes and spelling in a window, and words beside what is capitalised; chosen by comparing them on English
    # and Chinese text (benchmarks/feature_sets.py). `caps` says nothing of scripts without case, where pairs of a word
    # and a shape would only repeat the word; pairs of words did not help either.
    "ner": (
        "named entities and other spans in running text, where most tokens are outside",
        [
            "word[0]",
            *_window("lower", -2, 2),
            *_window("shape", -2, 2),
            *_runs("shape", 2, -1, 0),
            *_runs("shape", 3, -1, -1),
            "lower[-1] caps[0]",
            "caps[-1] lower[0]",
            "lower[0] caps[1]",
            "caps[0] lower[1]",
            *_ends(),
            *(f"{end}3[{k}]" for end in ("prefix", "suffix") for k in (-1, 1)),
            "digit[0]",
            "upper[0]",
            "hyphen[0]",
            "first[0]",
        ],
    ),
    # Zhao & Marcus (2012), section 3.1.
    "characters": (
        "words of text that is written without blanks (column char)",
        [*_window("char", -2, 2), *_runs("char", 2, -2, 1), "char[-1] char[1]"],
    ),
    # Words as typed, without case, digits or punctuation; spelling; place.
    "fields": (
        "records whose fields cover nearly every token: references, addresses",
        [
            "word[0]",
            *_window("lower", -2, 2),
            *_window("bare", -1, 1),
            *_runs("lower", 2, -1, 0),
            *_window("zeros", -1, 1),
            *_window("shape", -1, 1),
            "shape[-1] shape[0]",
            "shape[0] shape[1]",
            *_ends(),
            *_window("tail", -1, 0),
            "digit[0]",
            "tenth[0]",
            "first[0]",
            "last[0]",
        ],
    ),
    # Roth & Yih (2005), section 5: tokens are chunks, `verb` is the lemma of the verb, `path` the chunks between,
    # `clause` the path through clauses (verb classes and named entities are left out).
    "srl": (
        "semantic roles of a verb, as in Roth & Yih (2005) (columns word, pos, chunk, verb, path, ...)",
        [
            *_window("word", -2, 2),
            *_window("pos", -2, 2),
            *_window("chunk", -2, 2),
            "verb[0]",
            "verb_pos[0]",
            "voice[0]",
            "position[0]",
            "path[0]",
            "clause[0]",
            "verb[0] word[0]",
            "verb[0] pos[0]",
            "verb[0] position[0]",
            "voice[0] position[0]",
            "verb[0] path[0]",
            "position[0] path[0] voice[0]",
        ],
    ),
}
FEATURE_SETS: dict[str, FeatureSet] = {
    name: FeatureSet(name, about, "\n".join([*lines, BIGRAM])) for name, (about, lines) in _SETS.items()
}
SETS: dict[str, str] = {name: feature_set.templates for name, feature_set in FEATURE_SETS.items()}


# ---- the choice -----------------------------------------------------------------------------------------------------

MOST = 2000  # sequences
OUTSIDE = "O"
TEXTS = {"word", "char", "token", "text", "form"}  # names of the column with the texts of tokens
RECORD = 0.3  # of the tokens are outside, at most, where fields make up a record
CHUNKED = 0.5  # of the tokens are outside, at most, where phrases make up a sentence
ONCE = 1.15  # segments of a type, at most, where each field comes once
RUN = 1.12  # tokens per segment, at least, of fields


@dataclass(frozen=True, slots=True)
class FeatureChoice:
    """A ready-made set that was chosen for data.

    Attributes
    ----------
    name : str
        The set, for example ``"ner"``.
    why : str
        What spoke for it, to be read after "because".
    templates : tuple of str
        Its templates, with the names of the columns that the data has.
    """

    name: str
    why: str
    templates: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}, because {self.why}"

    def to_dict(self) -> dict[str, str | list[str]]:
        """Return all attributes by name, for JSON."""
        return {"name": self.name, "why": self.why, "templates": list(self.templates)}

    @classmethod
    def restored(cls, head: Mapping[str, Any]) -> Self:
        """Restore from a file; raise TypeError or ValueError if the values are impossible."""
        choice = cls(head["name"], head["why"], tuple(head["templates"]))
        if not all(isinstance(text, str) for text in (choice.name, choice.why, *choice.templates)):
            raise ValueError("the chosen features are not text")
        return choice


def choose_features(X: Any, y: Sequence[Sequence[str | None]]) -> FeatureChoice:
    """Choose a ready-made set of templates for labelled sequences: what ``features="auto"`` does.

    Parameters
    ----------
    X : list
        Sequences: columns (``{"word": [...], "pos": [...]}``), lists of texts, or lists of one mapping per token.
    y : list of list of str
        Their labels; None where one is missing.

    Returns
    -------
    FeatureChoice
        The name of the set, why it was chosen, and its templates. The same data always gives the same choice.

    Examples
    --------
    >>> from bridle.features import choose_features
    >>> X = [["Ada", "Lovelace", "wrote", "the", "first", "program", "in", "London", "."]]
    >>> print(choose_features(X, [["B-PER", "I-PER", "O", "O", "O", "O", "O", "B-LOC", "O"]]))
    ner, because the labels mark BIO segments and 67% of the tokens are outside them
    """
    sequences = sequences_of(X)
    step = -(-len(sequences) // MOST) or 1
    columns = _columns(sequences[::step])
    text = next((name for name in ("word", "char") if name in columns), columns[0] if columns else "word")
    known = [[name for name in labels if isinstance(name, str)] for labels in y[::step]]
    name, why = _chosen(columns, text, sequences[::step], known)
    main = "char" if name == "characters" else "word"
    templates = SETS[name] if main == text else re.sub(rf"\b{main}(?=\[)", lambda _: text, SETS[name])
    return FeatureChoice(name, why, tuple(templates.splitlines()))


def are_features(X: Any) -> bool:
    """Return True if the tokens of X are features already, as CRFsuite takes them: a list or a dict per token.

    A dict of strings with the text of its token under one of the names `TEXTS` is a row of columns instead.
    """
    for x in sequences_of(X):
        if isinstance(x, Mapping):
            return False
        if not _is_list(x):
            continue
        token = next(iter(x))
        if isinstance(token, Mapping):
            return not (TEXTS & token.keys() and all(isinstance(value, str) for value in token.values()))
        return isinstance(token, (list, set, frozenset))
    return False


def _chosen(columns: Sequence[str], text: str, X: Sequence[Any], y: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return the name of a set, and why it fits."""
    labels = Counter(name for labels in y for name in labels)
    tokens = labels.total() or 1
    scheme, outside = scheme_of(labels), labels[OUTSIDE] / tokens
    if text == "char":
        return "characters", "the tokens are in a column called 'char'"
    if scheme is not None and _are_characters(X, text):
        return "characters", f"the labels mark {scheme} segments and every token is one character"
    types, segments = 0, 0
    for sequence in y:
        its_types = _types(sequence, scheme)
        types, segments = types + len(set(its_types)), segments + len(its_types)
    recurrence, run = segments / (types or 1), (tokens - labels[OUTSIDE]) / (segments or 1)
    marked = f"the labels mark {scheme} segments"
    share = f"{outside:.0%} of the tokens are outside them"
    if scheme is not None and "pos" in columns and outside <= CHUNKED:
        return "chunking", f"{marked}, {share}, and there is a column 'pos'"
    if outside <= RECORD and recurrence <= ONCE and run >= RUN:
        return "fields", f"the labels cover {1 - outside:.0%} of the tokens and hardly any comes back in a sequence"
    if scheme is not None:
        return "ner", f"{marked} and {share}"
    if labels and (most := labels.most_common(1)[0])[1] > tokens / 2:
        return "ner", f"{most[1] / tokens:.0%} of the tokens are labelled {most[0]!r}"
    again = ", and the same labels come back in a sequence" if recurrence > ONCE else ""
    return "pos", f"every token has a label of its own{again}"


def _types(labels: Sequence[str], scheme: Scheme | None) -> list[str]:
    """Return the types of the segments of a sequence, in order."""
    if scheme is None:
        return [name for name, _ in groupby(labels) if name != OUTSIDE]
    types: list[str] = []
    before = ""
    for label in labels:
        tag, _, kind = label.partition("-")
        if label != OUTSIDE and (tag in FIRST or before != kind):
            types.append(kind)
        before = "" if label == OUTSIDE else kind
    return types


def _columns(sequences: Sequence[Any]) -> list[str]:
    """Return the columns that all sequences have, in the order of the first; none if they are lists of texts."""
    columns: list[str] | None = None
    for x in sequences:
        if (names := names_in(x)) is not None:
            columns = names if columns is None else [name for name in columns if name in names]
    return columns or []


def _are_characters(sequences: Sequence[Any], text: str) -> bool:
    """Return True if every token is one character."""
    for x in sequences:
        tokens = x.get(text, ()) if isinstance(x, Mapping) else x
        for token in tokens if _is_list(tokens) else ():
            if len(str(token.get(text, "") if isinstance(token, Mapping) else token)) != 1:
                return False
    return True


def _is_list(x: Any) -> bool:
    return hasattr(x, "__len__") and not isinstance(x, (str, bytes)) and len(x) > 0
