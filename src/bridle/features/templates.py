"""Templates: which features a token has, as lines of text.

    word[0]               the token itself
    word[-1] word[0]      the one before and it, together
    suffix2[0]            its last two characters (a derived column, see derived.py)
    lemma.suffix2[0]      the same of another column
    label[-1]             label bigrams: the label depends on the one before (without it, each token is by itself)

Before the first token and after the last one a column has the values <s> and </s>.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from bridle.errors import FeatureError, shown
from bridle.features.derived import OF_PLACE, OF_TEXT

_PLACE = re.compile(r"(?P<column>[^\s\[\]]+)\[(?P<offset>[+-]?\d{1,6})\]")
FURTHEST = 1000  # tokens away
MOST = 4096  # templates
BIGRAM = "label[-1]"


@dataclass(frozen=True, slots=True)
class Place:
    """A column at an offset, such as ``word[-1]``.

    Parameters
    ----------
    column : str
        Name of the column, or of one that is derived from it.
    offset : int
        How many tokens after this one; negative ones before it.
    """

    column: str
    offset: int

    def __str__(self) -> str:
        return f"{self.column}[{self.offset}]"


@dataclass(frozen=True, slots=True)
class Template:
    """Places whose values together are one feature.

    Parameters
    ----------
    places : tuple of Place
        Columns with their offsets, such as ``word[-1]``.
    """

    places: tuple[Place, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.places))


def split(column: str, main: str, functions: Container[str] = OF_TEXT) -> tuple[str | None, str | None]:
    """The source and the function of a column: `lemma.lower` -> (lemma, lower), `lower` -> (main, lower), `pos` ->
    (pos, None), `bias` -> (None, bias)."""
    if column in OF_PLACE:
        return None, column
    if column in functions:
        return main, column
    source, dot, function = column.rpartition(".")
    return (source, function) if dot and function in functions else (column, None)


@dataclass(frozen=True, slots=True)
class Templates:
    """All templates of a model: which features a token has.

    A template is a line of text: ``word[0]`` is the token itself, ``word[-1] word[0]`` the one before and it, together,
    ``suffix2[0]`` its last two characters, ``lemma.lower[0]`` a column without case. ``label[-1]`` on a line of its own
    asks for label bigrams.

    Parameters
    ----------
    lines : tuple of Template
        The templates; `parse` reads them.
    bigram : bool
        Whether the label depends on the one before.

    Examples
    --------
    >>> from bridle.features import Templates
    >>> t = Templates.parse(["word[0]", "word[-1] word[0]", "suffix3[0]", "label[-1]"])
    >>> t.sources, t.bigram
    (('word',), True)
    """

    lines: tuple[Template, ...]
    bigram: bool
    # All columns that the templates name, derived ones too.
    columns: tuple[str, ...] = field(init=False, repr=False, compare=False)
    # Column of the token's text: `word` or `char`, else the first that is not derived; `word` if all are.
    main: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = tuple(dict.fromkeys(place.column for template in self.lines for place in template.places))
        plain = [c for c in columns if split(c, "") == (c, None)]
        main = next((c for c in ("word", "char") if c in plain), plain[0] if plain else "word")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "main", main)

    @classmethod
    def parse(cls, lines: str | Iterable[str]) -> Templates:
        """Read templates.

        Parameters
        ----------
        lines : str or iterable of str
            Lines of text, one template each; ``#`` begins a comment. Or the name of a ready-made set: ``"chunking"``,
            ``"pos"``, ``"characters"``, ``"fields"``, ``"srl"``.

        Returns
        -------
        Templates
            Each template once.

        Raises
        ------
        FeatureError
            If a line is not a template, or there are none.
        """
        if isinstance(lines, str):
            if (name := lines.strip()) in SETS:
                lines = SETS[name]
            elif name.isidentifier():
                near = get_close_matches(name, SETS, n=1)
                raise FeatureError(
                    "unknown feature set",
                    got=repr(name),
                    wanted="one of " + ", ".join(SETS),
                    cause=f"Did you mean {near[0]!r}?" if near else "Templates look like word[0].",
                )
            lines = lines.splitlines()
        if not isinstance(lines, Iterable):
            raise FeatureError("these are no templates", got=shown(lines), wanted="lines such as word[0]")
        made: dict[Template, None] = {}
        bigram = False
        for number, line in enumerate(lines, start=1):
            text = re.split(r"(?:^|\s)#", str(line), maxsplit=1)[0].strip()
            if not text:
                continue
            if text == BIGRAM:
                bigram = True
                continue
            places = []
            for part in text.split():
                match = _PLACE.fullmatch(part)
                if match is None or abs(int(match["offset"])) > FURTHEST or match["column"] == "label":
                    raise _no_template(number, part)
                places.append(Place(match["column"], int(match["offset"])))
            made[Template(tuple(places))] = None
        if len(made) > MOST:
            raise FeatureError("there are too many templates", got=f"{len(made):,}", wanted=f"at most {MOST:,}")
        if not made:
            raise FeatureError("there are no templates", got="no line with one", wanted="lines such as word[0]")
        return cls(tuple(made), bigram)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.lines), *([BIGRAM] if self.bigram else [])])

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns that must come with the tokens."""
        found = (split(column, self.main)[0] for column in self.columns)
        return tuple(dict.fromkeys(source for source in found if source is not None))


def _no_template(number: int, part: str) -> FeatureError:
    return FeatureError(
        f"line {number} is no template",
        got=repr(part),
        wanted=f"column[offset], or {BIGRAM} on its own line",
        cause="Labels can only be asked of the token just before." if part.startswith("label[") else None,
    )


def _window(column: str, low: int, high: int) -> list[str]:
    return [f"{column}[{k}]" for k in range(low, high + 1)]


def _runs(column: str, length: int, low: int, high: int) -> list[str]:
    """`length` neighbours together, the first of them at low .. high."""
    return [" ".join(_window(column, k, k + length - 1)) for k in range(low, high + 1)]


def _ends(column: str = "") -> list[str]:
    return [f"{column}{kind}{k}[0]" for kind in ("prefix", "suffix") for k in range(1, 5)]


SETS: dict[str, str] = {
    name: "\n".join([*lines, BIGRAM])
    for name, lines in {
        # The 19 of the CoNLL-2000 tutorials: words and parts of speech in a window of two, neighbours together.
        "chunking": [
            *_window("word", -2, 2),
            *_runs("word", 2, -1, 0),
            *_window("pos", -2, 2),
            *_runs("pos", 2, -2, 1),
            *_runs("pos", 3, -2, 0),
        ],
        # Ratnaparkhi (1996), spelling features for all words as in Collins (2002).
        "pos": [*_window("word", -2, 2), *_ends(), "digit[0]", "upper[0]", "hyphen[0]"],
        # Zhao & Marcus (2012), section 3.1.
        "characters": [*_window("char", -2, 2), *_runs("char", 2, -2, 1), "char[-1] char[1]"],
        # References and addresses: words as typed, without case, digits or punctuation; spelling; place.
        "fields": [
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
        # Roth & Yih (2005), section 5: tokens are chunks, `verb` is the lemma of the verb, `path` the chunks between,
        # `clause` the path through clauses (verb classes and named entities are left out).
        "srl": [
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
    }.items()
}
