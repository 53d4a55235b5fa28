"""Ready-made sets of templates, each for a kind of task; `choosing.py` chooses among them by the labels of data."""

from __future__ import annotations

from dataclasses import dataclass

BIGRAM = "label[-1]"


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """A ready-made set of templates.

    Parameters
    ----------
    name : str
        Its name, as in ``CRF(features="ner")``.
    about : str
        What it is for.
    templates : str
        Its templates, one per line.
    """

    name: str
    about: str
    templates: str


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
SETS: dict[str, str] = {name: one.templates for name, one in FEATURE_SETS.items()}
