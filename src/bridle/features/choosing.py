"""`features="auto"`: which ready-made set fits data, by its labels and columns, and why.

What is looked at, on at most `MOST` sequences:

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
from bridle.features.sets import SETS
from bridle.labels import FIRST, Scheme, scheme_of

MOST = 2000  # sequences
OUTSIDE = "O"
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
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            All attributes by name.
        """
        return {"name": self.name, "why": self.why, "templates": list(self.templates)}

    @classmethod
    def restored(cls, head: Mapping[str, Any]) -> Self:
        """From a file; what makes no sense raises TypeError or ValueError."""
        made = cls(head["name"], head["why"], tuple(head["templates"]))
        if not all(isinstance(text, str) for text in (made.name, made.why, *made.templates)):
            raise ValueError("the chosen features are not text")
        return made


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


def _chosen(columns: Sequence[str], text: str, X: Sequence[Any], y: Sequence[Sequence[str]]) -> tuple[str, str]:
    """The name of a set, and why."""
    labels = Counter(name for labels in y for name in labels)
    tokens = labels.total() or 1
    scheme, outside = scheme_of(labels), labels[OUTSIDE] / tokens
    if text == "char":
        return "characters", "the tokens are in a column called 'char'"
    if scheme is not None and _are_characters(X, text):
        return "characters", f"the labels mark {scheme} segments and every token is one character"
    types, segments = 0, 0
    for sequence in y:
        found = _types(sequence, scheme)
        types, segments = types + len(set(found)), segments + len(found)
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
    """The types of the segments of a sequence, in order."""
    found: list[str] = []
    if scheme is None:
        return [name for name, _ in groupby(labels) if name != OUTSIDE]
    before = ""
    for label in labels:
        tag, _, kind = label.partition("-")
        if label != OUTSIDE and (tag in FIRST or before != kind):
            found.append(kind)
        before = "" if label == OUTSIDE else kind
    return found


def _columns(sequences: Sequence[Any]) -> list[str]:
    """The columns that all sequences have, in the order of the first; none if they are lists of texts."""
    found: list[str] | None = None
    for x in sequences:
        if (names := names_in(x)) is not None:
            found = names if found is None else [name for name in found if name in names]
    return found or []


def _are_characters(sequences: Sequence[Any], text: str) -> bool:
    """Is every token one character?"""
    for x in sequences:
        tokens = x.get(text, ()) if isinstance(x, Mapping) else x
        for token in tokens if _is_list(tokens) else ():
            if len(str(token.get(text, "") if isinstance(token, Mapping) else token)) != 1:
                return False
    return True


def _is_list(x: Any) -> bool:
    return hasattr(x, "__len__") and not isinstance(x, (str, bytes)) and len(x) > 0
