"""Templates: which features a token has, as lines of text.

    word[0]               the token itself
    word[-1] word[0]      the one before and it, together
    suffix2[0]            its last two characters (a derived column, see derived.py)
    lemma.suffix2[0]      the same of another column
    in:cities[0]          its place in a phrase of a list (derived.py)
    label[-1]             label bigrams: the label depends on the one before (without it, tokens are independent)
    label[-1] word[0]     a label bigram together with the token: the step from label to label depends on the text

Before the first token and after the last one a column has the values <s> and </s>. A template with label[-1] says
nothing of the first token, which has no label before it.

Templates of CRF++ and Wapiti, word being column 0 and pos column 1:

    CRF++                     Wapiti                            here
    U00:%x[0,0]               u:wrd=%x[0,0]                     word[0]
    U05:%x[-1,0]/%x[0,0]      u:bi=%x[-1,0]/%x[0,0]             word[-1] word[0]
    B                         b                                 label[-1]
    B01:%x[0,1]               b:pos=%x[0,1]                     label[-1] pos[0]
    U01:%x[0,0] + B01:%x[0,0] *:wrd=%x[0,0]                     word[0]  and  label[-1] word[0]

CRF++ and Wapiti give every such feature a weight for all pairs of labels, as pairs="all" of a CRF does; by default it
has one for the pairs that it occurs with in training. Both have numbered values outside the sequence (_B-1, _x-1 and
so on), where a column has <s> and </s> here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from bridle.errors import FeatureError, shown
from bridle.features.derived import FUNCTIONS, OF_PLACE, OF_TEXT, is_of_list
from bridle.features.sets import BIGRAM, SETS
from bridle.frames import renamed_by_step

_PLACE = re.compile(r"(?P<column>[^\s\[\]]+)\[(?P<offset>[+-]?\d{1,6})\]")
FURTHEST = 1000  # tokens away
MOST = 4096  # templates


@dataclass(frozen=True, slots=True)
class Place:
    """A column, or one that is derived from it, at an offset, such as ``word[-1]``."""

    column: str
    offset: int  # tokens after this one; negative: before it

    def __str__(self) -> str:
        return f"{self.column}[{self.offset}]"


@dataclass(frozen=True, slots=True)
class Template:
    """Places whose values together are one feature."""

    places: tuple[Place, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.places))


def split(column: str, main: str, functions: Container[str] = OF_TEXT) -> tuple[str | None, str | None]:
    """Return the source and the function of a column.

    >>> [split(column, "word") for column in ("lemma.lower", "lower", "pos", "bias")]
    [('lemma', 'lower'), ('word', 'lower'), ('pos', None), (None, 'bias')]
    """
    if column in OF_PLACE:
        return None, column
    if column in functions:
        return main, column
    source, dot, function = column.rpartition(".")
    if ":" in function and is_of_list(function):
        return source or main, function
    return (source, function) if dot and function in functions else (column, None)


@dataclass(frozen=True, slots=True)
class Templates:
    """Templates of a model: the features that tokens have.

    A template is a line of text: ``word[0]`` is the token itself, ``word[-1] word[0]`` the one before and it, together,
    ``suffix2[0]`` its last two characters, ``lemma.lower[0]`` a column without case. ``label[-1]`` on a line of its own
    asks for label bigrams; ``label[-1] word[0]`` for label bigrams together with the token, so that the score of a step
    from label to label depends on the text. CRF++ and Wapiti write these as ``B`` and ``B01:%x[0,0]``.

    Parameters
    ----------
    lines : tuple of Template
        The templates; `parse` reads them.
    bigram : bool
        Whether the label depends on the one before.
    edges : tuple of Template
        Templates whose features are about a label, the label before and these places.

    Examples
    --------
    >>> from bridle.features import Templates
    >>> t = Templates.parse(["word[0]", "word[-1] word[0]", "suffix3[0]", "label[-1]"])
    >>> t.sources, t.bigram
    (('word',), True)
    >>> str(Templates.parse(["word[0]", "label[-1] word[0]"]).edges[0])
    'word[0]'
    """

    lines: tuple[Template, ...]
    bigram: bool
    edges: tuple[Template, ...] = ()
    # All columns that the templates name, derived ones too; and the source and the function of each (`split`).
    columns: tuple[str, ...] = field(init=False, repr=False, compare=False)
    parts: dict[str, tuple[str | None, str | None]] = field(init=False, repr=False, compare=False)
    # Column of the token's text: `word` or `char`, else the first that is not derived; `word` if all are.
    main: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        templates = (*self.lines, *self.edges)
        columns = tuple(dict.fromkeys(place.column for template in templates for place in template.places))
        plain = [c for c in columns if split(c, "") == (c, None)]
        main = next((c for c in ("word", "char") if c in plain), plain[0] if plain else "word")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "parts", {column: split(column, main) for column in columns})
        object.__setattr__(self, "main", main)

    @classmethod
    def parse(cls, lines: str | Iterable[str]) -> Templates:
        """Read templates.

        Parameters
        ----------
        lines : str or iterable of str
            Lines of text, one template each; ``#`` begins a comment. Or the name of a ready-made set: ``"chunking"``,
            ``"pos"``, ``"ner"``, ``"characters"``, ``"fields"``, ``"srl"``.

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
                raise no_such_set(name)
            lines = lines.splitlines()
        if not isinstance(lines, Iterable):
            raise FeatureError("these are no templates", got=shown(lines), wanted="lines such as word[0]")
        plain: dict[Template, None] = {}
        edges: dict[Template, None] = {}
        bigram = False
        for number, line in enumerate(lines, start=1):
            text = re.split(r"(?:^|\s)#", str(line), maxsplit=1)[0].strip()
            if not text:
                continue
            if text == BIGRAM:
                bigram = True
                continue
            places, parts = [], text.split()
            if edge := BIGRAM in parts:
                parts.remove(BIGRAM)
            for part in parts:
                match = _PLACE.fullmatch(part)
                if match is None or abs(int(match["offset"])) > FURTHEST or match["column"] == "label":
                    raise no_template(number, part)
                places.append(Place(match["column"], int(match["offset"])))
            (edges if edge else plain)[Template(tuple(places))] = None
        if (count := len(plain) + len(edges)) > MOST:
            raise FeatureError("there are too many templates", got=f"{count:,}", wanted=f"at most {MOST:,}")
        if not plain:
            raise FeatureError("there are no templates", got="no line with one", wanted="lines such as word[0]")
        return cls(tuple(plain), bigram, tuple(edges))

    def __str__(self) -> str:
        edges = (f"{BIGRAM} {template}" for template in self.edges)
        return "\n".join([*map(str, self.lines), *edges, *([BIGRAM] if self.bigram else [])])

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns that must come with the tokens."""
        return tuple(dict.fromkeys(source for source, _ in self.parts.values() if source is not None))

    def check_columns(self, columns: Collection[str], functions: Collection[str] = OF_TEXT) -> None:
        """Raise `FeatureError` if templates name a column or a function that sequences with these columns lack.

        Examples
        --------
        >>> from bridle.features import Templates
        >>> from bridle.errors import FeatureError
        >>> try:
        ...     Templates.parse(["word[0]", "zeroes[0]"]).check_columns(["word", "pos"])
        ... except FeatureError as error:
        ...     print(error.what, error.cause)
        there is no column or function 'zeroes' Did you mean 'zeros'?
        """
        if (place := self.first_unknown(columns, functions)) is None:
            return
        known = next((name for name, text in SETS.items() if text == str(self)), None)
        if known is not None:
            raise missing_for_set(known, place.column, self.sources, columns)
        raise no_such_name(place.column, place.offset, self.main, columns)

    def first_unknown(self, columns: Collection[str], functions: Collection[str] = OF_TEXT) -> Place | None:
        """Find the first place whose column is not among these, nor derived from them by these functions."""
        for place in (place for template in (*self.lines, *self.edges) for place in template.places):
            source, _ = split(place.column, self.main, functions)
            if source is not None and source not in columns:
                return place
        return None


# ---- names that nothing has -----------------------------------------------------------------------------------------


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, whatever its case.

    >>> nearest("Word", ["pos", "word"]), nearest("zeroes", FUNCTIONS), nearest("xyz", FUNCTIONS)
    ('word', 'zeros', None)
    """
    by_lower = {each.lower(): each for each in reversed(list(known))}
    return next((by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=1)), None)


def no_such_name(name: str, offset: int, main: str, columns: Collection[str]) -> FeatureError:
    """Return the error of a place, `name[offset]`, whose column is not there. main: the column of texts."""
    place, there = f"{name}[{offset}]", ", ".join(columns) or "none"
    head, dot, tail = name.rpartition(".")
    cause: str | None
    if name in OF_TEXT:  # it is the column behind it that is missing
        what, wanted = f"there is no column {main!r}", f"one of the columns {there}"
        first = next(iter(columns), "token")
        cause = f"Of another column it is written {first}.{place}."
    elif dot and tail in OF_TEXT:
        what, wanted = f"there is no column {head!r}", f"one of the columns {there}"
        near = nearest(head, columns)
        cause = _meant(near and f"{near}.{tail}")
    elif dot and tail in OF_PLACE:
        what, wanted = f"{tail!r} looks at the place of a token and takes no column", f"{tail}[{offset}]"
        cause = f"Write {wanted}, without the column."
    elif dot and head in columns:
        what, wanted = f"there is no function {tail!r}", f"one of the functions {_listed(OF_TEXT)}"
        near = nearest(tail, OF_TEXT)
        cause = _of_affixes(tail) or _meant(near and f"{head}.{near}")
    else:
        what = f"there is no column or function {name!r}"
        wanted = f"one of the columns {there}, or of the functions {_listed(FUNCTIONS)}"
        cause = renamed_by_step(name, columns) or _of_affixes(name) or _meant(_nearest_with_column(name, columns))
    return FeatureError(what, got=f"the template {place!r}", wanted=wanted, cause=cause)


def missing_for_set(name: str, column: str, needs: Collection[str], columns: Collection[str]) -> FeatureError:
    """Return the error of a ready-made set that needs a column which is not there."""
    missing = column if column in needs else next(name for name in needs if name not in columns)
    return FeatureError(
        f"there is no column {missing!r}, which the feature set {name!r} needs",
        got=f"the columns {', '.join(columns) or 'none'}",
        wanted=f"the columns {', '.join(needs)}",
        cause="Does the column have another name? Otherwise, features='auto' chooses a set that needs no more columns.",
    )


def _nearest_with_column(name: str, columns: Collection[str]) -> str | None:
    """Return the nearest column or function; of `Word.Lower`, the nearest of both parts."""
    head, dot, tail = name.rpartition(".")
    if not dot:
        return nearest(name, [*columns, *FUNCTIONS])
    column, function = nearest(head, columns), nearest(tail, OF_TEXT)
    return f"{column}.{function}" if column and function else nearest(name, columns)


def _meant(name: str | None) -> str | None:
    return None if name is None else f"Did you mean {name!r}?"


def _of_affixes(name: str) -> str | None:
    """Explain prefixes and suffixes that are too long, or have no length."""
    match = re.fullmatch(r"(prefix|suffix)_?(\d*)", name.lower())
    return match and f"A {match[1]} has 1 to 4 characters: {match[1]}1 to {match[1]}4."


def _listed(names: Iterable[str]) -> str:
    """List names of functions; runs such as prefix1 to prefix4 are put together."""
    text = ", ".join(names)
    return re.sub(r"(\w+fix)1, .*\1(\d)", r"\g<1>1 to \g<1>\2", text)


def no_such_set(name: str) -> FeatureError:
    """Return the error of a name that no ready-made set has."""
    near = nearest(name, SETS)
    cause = f"Did you mean {near!r}?" if near else "Templates look like word[0]."
    if name == "auto":
        cause = "Only a model can choose, by the labels of its training data: CRF(features='auto')."
    return FeatureError("unknown feature set", got=repr(name), wanted="one of " + ", ".join(SETS), cause=cause)


def no_template(number: int, part: str) -> FeatureError:
    """Return the error of a line that is not a template."""
    return FeatureError(
        f"line {number} is not a template",
        got=repr(part),
        wanted=f"column[offset], or {BIGRAM} once in a line",
        cause=_why_no_template(part),
    )


def _why_no_template(part: str) -> str | None:
    if part.startswith("label["):
        return f"Only the label of the token just before can be used: {BIGRAM}, alone or as in {BIGRAM} word[0]."
    if part in SETS:
        return f"{part!r} is the name of a feature set: pass it alone, without templates."
    if re.fullmatch(r"[^\s\[\]]+", part):
        return f"Which token? {part}[0] is the token itself, {part}[-1] the one before it."
    if re.fullmatch(r"[^\s\[\]]+\[[+-]?\d+", part):
        return f"The bracket is not closed: {part}]."
    if part.count("[") > 1:
        return "Put a blank between two columns: word[-1] word[0]."
    if re.fullmatch(r"[^\s\[\]]+\[[+-]?\d+\]", part):
        return "The offset is too large."
    return None
