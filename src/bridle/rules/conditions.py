r"""Values that come with a sequence (`given`), and conditions on tokens, which say where rules apply.

tokens /\d{5}/                          the text of the token matches a regular expression
pos /NNP/                               so does its value in another column of the data
tokens in "cities.txt" ignoring case    it is part of a phrase of a list
first token                             it is the first of the sequence
tokens /[A-Z].*/ after tokens /Dr\./    and the token before it is so, or the token after it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from bridle.errors import Argument, GivenError, RuleError, nearest_name, shown
from bridle.phrases import Ignoring, PhraseList, list_of, read_list
from bridle.rules.patterns import TextEngine, check_pattern, matcher

TOKENS = "tokens"  # the column that holds the texts of the tokens themselves
# The token that a condition is about: the token of the rule, the one before it, or the one after it.
Role = Literal["here", "after", "before"]


@dataclass(frozen=True, slots=True)
class Given:
    """A placeholder for a value that comes with the sequence: given[key]."""

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not re.fullmatch(r"\w+", self.key):
            raise RuleError("a given value needs a plain name", got=shown(self.key), wanted="letters, digits and _")

    def of(self, given: Mapping[str, Any]) -> Any:
        """Return the value in the `given` of a sequence."""
        try:
            return given[self.key]
        except (KeyError, TypeError):
            raise missing(self.key, given) from None


def missing(key: str, given: object) -> GivenError:
    """Return the error for a value that did not come with the sequence."""
    keys = ", ".join(map(str, given)) if isinstance(given, Mapping) and given else "nothing"
    return GivenError(
        f"given[{key!r}] is missing",
        got=keys,
        wanted="{argument}",
        cause="Pass it with each sequence.",
        argument=Argument("given", {key: ...}),
    )


def missing_column(column: str, columns: Iterable[str]) -> GivenError:
    """Return the error for a column that rules read and the data does not have."""
    names = [str(name) for name in columns]
    near = nearest_name(column, names)
    return GivenError(
        f"there is no column {column!r}",
        got=f"columns {', '.join(names)}" if names else "no columns",
        wanted=f"the values of {column!r}, one per token",
        cause=f"Did you mean {near!r}?" if near is not None else "Pass them with each sequence: {argument}.",
        argument=Argument("given", {column: [...]}),
    )


def is_list(value: Any) -> bool:
    """Return whether a value holds items. Texts and mappings do not count."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0  # an array of no dimension says it can be iterated, and cannot
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def texts_of(given: Mapping[str, Any], column: str, n: int) -> list[str]:
    """Return the values of a column, one text per token; for `TOKENS`, the texts of the tokens."""
    try:
        values = given[column]
    except (KeyError, TypeError):
        if column == TOKENS:
            raise missing(column, given) from None
        raise missing_column(column, given if isinstance(given, Mapping) else ()) from None
    if not is_list(values):
        content = "the tokens" if column == TOKENS else "one text per token"
        raise GivenError(f"given[{column!r}] should be {content}", got=shown(values), wanted="a list of strings")
    texts = list(map(str, values))
    if len(texts) != n:
        raise GivenError(f"given[{column!r}] and the sequence differ in length", got=len(texts), wanted=n)
    return texts


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens whose value in a column matches a regular expression; without a column: whose text matches."""

    pattern: str
    engine: TextEngine = "re2"
    column: str | None = None

    def __post_init__(self) -> None:
        check_pattern(self.pattern, self.engine)
        _check_column(self.column)

    def positions(self, n: int, given: Mapping[str, Any], role: Role = "here") -> list[int]:
        """Return the positions of a sequence of n tokens at which it holds."""
        matching = matcher((self.pattern, self.engine))
        return [t for t, text in enumerate(texts_of(given, self.column or TOKENS, n)) if matching(text)]


@dataclass(frozen=True, slots=True)
class TokensIn:
    """Tokens in a phrase of a list; before or after another token: tokens at which a phrase begins or ends."""

    phrases: PhraseList
    ignoring: Ignoring = None
    column: str | None = None

    def __post_init__(self) -> None:
        if self.ignoring not in (None, "case"):
            raise RuleError("unknown value of `ignoring`", got=shown(self.ignoring), wanted="'case' or None")
        _check_column(self.column)

    def positions(self, n: int, given: Mapping[str, Any], role: Role = "here") -> list[int]:
        """Return the positions of a sequence of n tokens at which it holds."""
        runs = self.phrases.lookup(self.ignoring).runs(texts_of(given, self.column or TOKENS, n))
        if role == "here":
            return sorted({t for first, last in runs for t in range(first, last + 1)})
        return sorted({last if role == "after" else first for first, last in runs})


@dataclass(frozen=True, slots=True)
class EndToken:
    """The first or the last token of the sequence."""

    end: Literal["first", "last"]

    def positions(self, n: int, given: Mapping[str, Any], role: Role = "here") -> list[int]:
        """Return the position at which it holds, or none if the sequence is empty."""
        return [0 if self.end == "first" else n - 1] if n else []


Condition: TypeAlias = Tokens | TokensIn | EndToken


@dataclass(frozen=True, slots=True)
class InContext:
    """A condition on a token, with conditions on the token before it (`after`) and on the one behind it (`before`)."""

    here: Condition
    after: Condition | None = None
    before: Condition | None = None

    def positions(self, n: int, given: Mapping[str, Any]) -> list[int]:
        """Return the positions of a sequence of n tokens at which all of them hold."""
        positions = set(self.here.positions(n, given))
        if self.after is not None:
            positions &= {t + 1 for t in self.after.positions(n, given, "after")}
        if self.before is not None:
            positions &= {t - 1 for t in self.before.positions(n, given, "before")}
        return sorted(positions)


TokenPlace: TypeAlias = Condition | InContext


def _check_column(column: object) -> None:
    if column is not None and (not isinstance(column, str) or not column):
        raise RuleError("a column needs a name", got=shown(column), wanted="the name of a column of the data")


def parts_of(place: TokenPlace) -> dict[Role, Condition]:
    """Return the conditions of a place, by the token that each is about."""
    if not isinstance(place, InContext):
        return {"here": place}
    conditions: dict[Role, Condition | None] = {"here": place.here, "after": place.after, "before": place.before}
    return {role: condition for role, condition in conditions.items() if condition is not None}


def columns_of(place: TokenPlace) -> tuple[str, ...]:
    """Return the columns that a place reads; `TOKENS` stands for the texts of the tokens."""
    conditions = parts_of(place).values()
    return tuple(dict.fromkeys(c.column or TOKENS for c in conditions if not isinstance(c, EndToken)))


def in_context(here: Condition, after: Any = None, before: Any = None) -> TokenPlace:
    """Combine a condition with those on its neighbours, if there are any."""
    for name, value in (("after", after), ("before", before)):
        if value is not None and not isinstance(value, Condition):
            inner = isinstance(value, InContext)
            raise RuleError(
                f"{name} is not a condition on tokens",
                got="one with an after or a before of its own" if inner else shown(value),
                wanted="tokens(...), first_token() or last_token()",
                cause="It describes only the token next to the one that the rule is about." if inner else None,
            )
    return here if after is None and before is None else InContext(here, after, before)


def without_files(value: Any) -> Any:
    """Return a rule, or a part of one, whose lists print their phrases and are parsed without files."""
    if isinstance(value, PhraseList):
        return PhraseList(value.content)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{field.name: without_files(getattr(value, field.name)) for field in fields(value)})


def list_files(rule: Any) -> set[str]:
    """Return the names of the phrase files in a rule, as it has them."""
    sources = [place.source for place in rule.places()]
    parts = [part for place in sources if isinstance(place, TokenPlace) for part in parts_of(place).values()]
    return {part.phrases.name for part in parts if isinstance(part, TokensIn) and part.phrases.name is not None}


# ---- public functions -----------------------------------------------------------------------------------------------


def tokens(
    pattern: str | None = None,
    *,
    column: str | None = None,
    phrases: PhraseList | Path | Iterable[str | Iterable[str]] | None = None,
    ignoring: Ignoring = None,
    after: Condition | None = None,
    before: Condition | None = None,
    engine: TextEngine = "re2",
) -> TokenPlace:
    r"""Refer to all positions whose token matches a regular expression, or is in a phrase of a list.

    The tokens come with each sequence as ``given={"tokens": [...]}``, and the values of another column as
    ``given={"pos": [...]}``: a list of strings, one per token. Models that have them in their data pass them for you.

    Parameters
    ----------
    pattern : str, optional
        A regular expression in the syntax of Python's `re`, at most 65,536 characters. It must match the whole token.
    column : str, optional
        Column of the data to look at instead of the texts of the tokens, for example ``"pos"``.
    phrases : list of str, list of list of str, Path or what `phrases` returns, optional
        A list of phrases instead of a pattern. A phrase is a string with spaces between its tokens, or a list of
        tokens, at most 100. Every position inside a phrase counts; phrases may overlap.
    ignoring : {"case"}, optional
        With ``"case"``, phrases match tokens in upper and lower case (`str.casefold`). In a pattern, write ``(?i)``.
    after, before : condition, optional
        Conditions on the token directly before this one (which comes *after* it) and on the token directly behind it:
        `tokens`, `first_token` or `last_token`. With a list, a phrase must end, or begin, there.
    engine : {"re2", "re"}, default "re2"
        Library that matches the pattern. RE2 takes time proportional to the length of the token, whatever the
        expression is. It does not support look-around, back-references, atomic groups, possessive repeats or counts
        above 1,000, and ``$`` only works at the end. Python's `re` supports all of them, but some expressions take
        exponential time, and `time_limit` does not stop it. If both support an expression, they match the same tokens.

    Returns
    -------
    Tokens, TokensIn or InContext
        A placeholder that you pass to rules as a position.

    Raises
    ------
    RuleError
        If `pattern` is not a regular expression that the engine supports; if `phrases` is empty or too long; if you
        pass both or neither.
    FileError
        If `phrases` is a path and the file cannot be read.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> rule = r.fix("ZIP", r.tokens(r"\d{5}"))
    >>> print(rule)
    fix ZIP at tokens /\d{5}/
    >>> rule.holds(["O", "ZIP"], Labels(["O", "ZIP"]), given={"tokens": ["Evanston", "60201"]})
    True
    >>> print(r.fix("ZIP", r.tokens(r"(?!00)\d{5}", engine="re")))
    fix ZIP at tokens /(?!00)\d{5}/ by re
    >>> print(r.fix("PER", r.tokens(r"NNP", column="pos", after=r.tokens(r"Dr\.|Mr\."))))
    fix PER at pos /NNP/ after tokens /Dr\.|Mr\./
    >>> print(r.fix("CITY", r.tokens(phrases=["New York", "Boston"], ignoring="case")))
    fix CITY at tokens among "Boston", "New York" ignoring case
    """
    if (pattern is None) == (phrases is None):
        got = "neither" if pattern is None else "both"
        raise RuleError("tokens(...) takes a pattern or phrases", got=got, wanted="one of them")
    column = None if column == TOKENS else column
    if pattern is None:
        return in_context(TokensIn(list_of(phrases), ignoring, column), after, before)
    if ignoring is not None:
        cause = "Write (?i) at the beginning of the pattern."
        raise RuleError(
            "`ignoring` only applies to phrases", got=f"ignoring={ignoring!r}", wanted="phrases", cause=cause
        )
    return in_context(Tokens(pattern, engine, column), after, before)


def first_token(*, before: Condition | None = None) -> TokenPlace:
    """Refer to the first token of the sequence. An empty sequence has none, which is not an error.

    Parameters
    ----------
    before : condition, optional
        Condition on the second token, as in `tokens`.

    Returns
    -------
    EndToken or InContext
        A placeholder that you pass to rules as a position.

    Examples
    --------
    >>> from bridle import rules as r
    >>> print(r.forbid("TITLE", r.first_token()))
    forbid TITLE at first token
    """
    return in_context(EndToken("first"), None, before)


def last_token(*, after: Condition | None = None) -> TokenPlace:
    """Refer to the last token of the sequence. An empty sequence has none, which is not an error.

    Parameters
    ----------
    after : condition, optional
        Condition on the last token but one, as in `tokens`.

    Returns
    -------
    EndToken or InContext
        A placeholder that you pass to rules as a position.

    Examples
    --------
    >>> from bridle import rules as r
    >>> print(r.fix("O", r.last_token(after=r.tokens(r"etc"))))
    fix O at last token after tokens /etc/
    """
    return in_context(EndToken("last"), after, None)


def phrases(source: str | Path | Iterable[str | Iterable[str]]) -> PhraseList:
    """Read a list of phrases from a file, or create one from strings, for `tokens` and for the features of models.

    A file has one phrase per line, with spaces between tokens as your data has them: ``St . Louis`` if your tokenizer
    separates the full stop. It is UTF-8, with or without a byte order mark, and its lines end with LF, CRLF or CR.
    Empty lines, lines with ``#`` alone and lines that begin with ``#`` and a space are skipped; ``#berlin`` is a
    phrase. A file may have at most 268,435,456 bytes and 10,000,000 phrases, and a phrase at most 100 tokens.

    Parameters
    ----------
    source : str, Path or list
        The path of the file; or phrases, each a string or a list of tokens.

    Returns
    -------
    PhraseList
        It is immutable; lists of the same file and the same content are equal.

    Raises
    ------
    FileError
        If the file cannot be read, is not UTF-8, has no phrases or too many.
    RuleError
        If there are no phrases, or one of them is invalid.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bridle import rules as r
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "cities.txt")
    ...     _ = path.write_text("New York\\nBoston\\n")
    ...     cities = r.phrases(path)
    >>> len(cities), cities.phrases()
    (2, ['Boston', 'New York'])
    """
    return read_list(Path(source), source) if isinstance(source, str) else list_of(source)
