"""The exception tree. Every message has four parts: what is wrong, what was got, what was wanted, the likely cause.

An error carries data (which sequence, which rule, which argument); its text is made when it is shown::

    BridleError
    ├── LabelError        a label set or a label that is not in it
    ├── LatticeError      scores with a wrong shape or value
    ├── RuleError         a rule that makes no sense for this label set or this sequence
    │   ├── RuleSyntaxError   a line of a .rules file that cannot be read
    │   └── GivenError        a value that should have come with the sequence
    ├── FileError         a file that cannot be read or is not what it should be
    │   └── ModelFileError    a model file that is cut off, altered, too new, or no model at all
    ├── FeatureError      a template, or tokens that it cannot be applied to
    ├── ModelError        a model that cannot be trained, or used, like this
    ├── EngineError       an engine that cannot take this problem, or an unknown one
    ├── MissingExtra      an optional package that is not installed, or cannot be imported; an ImportError too
    ├── LimitReached      a limit stopped the work before any labelling was found
    └── Infeasible        no labelling obeys the hard rules
"""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

if getattr(sys.modules["bridle"], "__distribution__", None) != "bridle-nlp":  # another project's __init__.py, or none
    from bridle.installation import conflict, other_distributions

    raise conflict(other_distributions())

LONGEST = 1000  # characters of each part of a message: files may hold names and values of any length


def clipped(value: object, most: int = LONGEST) -> str:
    """Return the text of a value, cut if it is too long to be read.

    >>> clipped("x" * 30, most=20)
    'xxxxxxxxxx... (30 characters)'
    """
    text = value if isinstance(value, str) else shown(value, most) if isinstance(value, (list, dict)) else str(value)
    return text if len(text) <= most else f"{text[: most // 2]}... ({len(text):,} characters)"


def shown(value: object, most: int = 60) -> str:
    """Return the repr of a value, cut short; only the first items of a large value are visited.

    >>> shown([1] * 10**6), shown("x" * 10**6, 20)
    ('[1, 1, 1, 1, 1, 1, ...]', "'xxxxxxx...xxxxxxxx'")
    """
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = most
    return short.repr(value)[:most]


def nearest_name(name: str, names: Sequence[str]) -> str | None:
    """Return the name among `names` that a misspelled one was perhaps meant to be, or None."""
    from difflib import get_close_matches  # needed only for messages

    near = get_close_matches(name, names, n=1) or [x for x in names if x.lower() == name.lower()]
    return near[0] if near else None


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that an error is about, with a value that it has or should have; `...` is any value.

    >>> print(Argument("scheme", None), Argument("given", {"verb": ...}))
    scheme=None given={'verb': ...}
    """

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return f"{self.name}={_shown(self.value)}"


def _shown(value: Any) -> str:
    """Return the repr of a value; `...`, in it or alone, is any value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return "..." if value is ... else repr(value)


class BridleError(Exception):
    """The root of all errors that Bridle raises on purpose.

    Parameters
    ----------
    what : str
        What is wrong.
    got, wanted : object, optional
        What was found, and what should have been there.
    cause : str, optional
        The likely cause, or what to do about it.
    sequence : int, optional
        The number of the sequence, in a batch of many.
    rule : Rule, optional
        The rule that the error is about.
    where : str, optional
        The place in a file, as in ``data.txt:17``.
    argument : Argument, optional
        The argument that the error is about. ``{argument}`` in `what`, `wanted` and `cause` stands for it, so that a
        command line can spell it its own way.

    Examples
    --------
    >>> import bridle
    >>> try:
    ...     bridle.Decoder(bridle.Labels(["O", "X"]), ["at most 1 segment of Y"])
    ... except bridle.BridleError as error:
    ...     print(error.rule, "|", error.got)
    at most 1 segment of Y | 'Y'
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        wanted: object = None,
        cause: str | None = None,
        sequence: int | None = None,
        rule: Any = None,
        where: str | None = None,
        argument: Argument | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.got, self.wanted, self.cause = what, got, wanted, cause
        self.sequence, self.rule, self.where, self.argument = sequence, rule, where, argument

    def at(self, **fields: Any) -> Self:
        """Fill in fields that are not known yet.

        Parameters
        ----------
        **fields : object
            Fields of the error by name, for example ``sequence=3``. One that is known already keeps its value.

        Returns
        -------
        BridleError
            The error itself, so that it can be raised at once.

        Examples
        --------
        >>> error = RuleError("no such label", got="'TITEL'")
        >>> print(error.at(where="my.rules:3"))
        my.rules:3: no such label; got 'TITEL'.
        """
        for name, value in fields.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def message(self, spell: Callable[[Argument], str | None] = str) -> str:
        """Make the text of the error from its fields.

        Parameters
        ----------
        spell : callable, optional
            How to write the argument that the error is about; as in a Python call by default. None if whoever reads
            the message cannot set it: sentences of the cause that advise it are left out.

        Returns
        -------
        str
            What is wrong, what was got and wanted; the likely cause on a line of its own.

        Examples
        --------
        >>> error = EngineError("bad {argument}", argument=Argument("time_limit", -1), wanted="seconds >= 0")
        >>> error.message()
        'bad time_limit=-1; wanted seconds >= 0.'
        >>> error.message(spell=lambda argument: f"--{argument.name.replace('_', '-')}")
        'bad --time-limit; wanted seconds >= 0.'
        """

        word = None if self.argument is None else spell(self.argument)

        def spelt(text: object) -> str:
            cut = clipped(text)
            if self.argument is None:
                return cut
            return cut.replace("{argument}", f"another `{self.argument.name}`" if word is None else clipped(word))

        what = self.what if self.what[-2:-1] in ("", " ", "/", ".") else self.what.removesuffix(".")  # "cannot read ."
        what = spelt(what)
        if self.where is not None:
            what = f"{self.where}: {what}"
        elif self.sequence is not None:
            what = f"sequence {self.sequence}: {what}"
        if self.rule is not None:
            what += f" (in the rule: {clipped(self.rule)})"
        parts = [what]
        if self.got is not None:
            parts.append(f"got {clipped(self.got)}")
        if self.wanted is not None:
            parts.append(f"wanted {spelt(self.wanted)}")
        text = "; ".join(parts)
        text += "" if text.endswith("?") else "."
        cause = self.cause or ""
        if self.argument is not None and word is None:
            cause = " ".join(part for part in re.split(r"(?<=[.?!])\s+", cause) if "{argument}" not in part)
        return f"{text}\n{spelt(cause)}" if cause else text

    def __str__(self) -> str:
        return self.message()

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (type(self), self.what), self.__dict__  # in two steps: what it carries may refer to it


def _blank(kind: type[BridleError], what: str) -> BridleError:
    """Return an unpickled error, before its fields are restored."""
    return kind.__new__(kind, what)


class LabelError(BridleError):
    """A label set that cannot be, or a label that is not in the set."""


class LatticeError(BridleError):
    """Scores with a wrong shape or an impossible value."""


class RuleError(BridleError):
    """A rule that makes no sense for this label set or this sequence."""


class RuleSyntaxError(RuleError):
    """A line of text that is not a rule.

    Parameters
    ----------
    what : str
        What is wrong.
    file : str, optional
        The file that the line is in.
    line : int, optional
        Its number, from 1. `file` and `line` make up `where`.
    suggestion : str, optional
        The sentence that was perhaps meant.
    **parts : object
        Other fields of `BridleError`.

    Attributes
    ----------
    others : tuple of RuleSyntaxError
        The errors of further lines of the same file.

    Examples
    --------
    >>> from bridle import rules
    >>> try:
    ...     rules.parse_lines(["A before B", "A befor B", "most 1 of A"], file="my.rules")
    ... except RuleSyntaxError as error:
    ...     print(error.where, [other.line for other in error.others])
    my.rules:2 [3]
    """

    def __init__(
        self,
        what: str,
        *,
        file: str | None = None,
        line: int | None = None,
        suggestion: str | None = None,
        **parts: Any,
    ) -> None:
        self.file, self.line, self.suggestion = file, line, suggestion
        self.others: tuple[RuleSyntaxError, ...] = ()
        super().__init__(what, where=":".join(str(x) for x in (file, line) if x is not None) or None, **parts)

    def message(self, spell: Callable[[Argument], str | None] = str) -> str:
        """Make the text of the error, followed by the first lines of those in `others`.

        Parameters
        ----------
        spell : callable, optional
            As in `BridleError.message`.

        Returns
        -------
        str
            One line per further error, five at most.

        Examples
        --------
        >>> first, second = RuleSyntaxError("odd", line=2), RuleSyntaxError("odder", line=3)
        >>> first.others = (second,)
        >>> print(first.message())
        2: odd.
        3: odder.
        """
        more = [other.message(spell).split("\n")[0] for other in self.others[:5]]
        more += [f"and {len(self.others) - 5} more"] * (len(self.others) > 5)
        return "\n".join([super().message(spell), *more])


class GivenError(RuleError):
    """A rule refers to a value that should have come with the sequence."""


class FileError(BridleError):
    """A file that cannot be read, or that is not what it should be."""


class ModelFileError(FileError):
    """A model file that is cut off, altered, of a newer format, or no model file at all."""


class FeatureError(BridleError):
    """A feature template that makes no sense, or tokens that it cannot be applied to."""


class ModelError(BridleError):
    """A model that cannot be trained, or used, like this."""


class EngineError(BridleError):
    """An engine that cannot take this problem, or that does not exist."""


class MissingExtra(BridleError, ImportError):
    """An optional package that a part of Bridle needs is not installed, or cannot be imported.

    It is an `ImportError` too, as whoever looks for modules expects.
    """


class LimitReached(BridleError):
    """A limit stopped the work before any labelling that obeys the rules was found.

    Parameters
    ----------
    what : str
        What happened.
    bound : float
        No labelling under the rules scores higher; true in spite of the limit.
    decodings : Decodings, optional
        Everything that was decoded, if `Decoder.decode_batch` raised it; `sequence` is the first without an answer.
    **parts : object
        Other fields of `BridleError`.

    Examples
    --------
    The one hypothesis that this beam keeps never carries a B:

    >>> import bridle
    >>> beam = bridle.engines.Beam(width=1)
    >>> decoder = bridle.Decoder(["A", "B"], ["at least 1 token of B"], beam)
    >>> try:
    ...     decoder.decode(bridle.Lattice([[2, 1], [2, 1], [2, 1]]))
    ... except bridle.LimitReached as error:
    ...     print(error.bound)
    6.0
    """

    def __init__(self, what: str, *, bound: float, decodings: Any = None, **parts: Any) -> None:
        self.bound, self.decodings = bound, decodings
        super().__init__(what, **parts)


class Infeasible(BridleError):
    """No labelling obeys the hard rules.

    Parameters
    ----------
    what : str
        What is wrong.
    clash : sequence of Rule
        A set of hard rules that cannot hold together. If it is `minimal`, the others can without any one of them.
        Empty if the scores alone leave no path.
    minimal : bool, default True
        Is the clash minimal? False if the time was up before each of its rules was known to be needed.
    decodings : Decodings, optional
        Everything that was decoded, if `Decoder.decode_batch` raised it; `sequence` is the first without an answer.
    **parts : object
        Other fields of `BridleError`.

    Examples
    --------
    >>> import bridle
    >>> rules = ["at most 1 token of A", "starts with A", "ends with A"]
    >>> decoder = bridle.Decoder(["A", "B"], rules)
    >>> try:
    ...     decoder.decode_batch([bridle.Lattice([[1, 0]]), bridle.Lattice([[1, 0], [1, 0]])])
    ... except bridle.Infeasible as error:
    ...     print(error.sequence, len(error.clash), error.decodings.status.tolist())
    1 3 ['optimal', 'infeasible']
    """

    def __init__(
        self, what: str, *, clash: Sequence[object] = (), minimal: bool = True, decodings: Any = None, **parts: Any
    ) -> None:
        self.clash, self.minimal, self.decodings = tuple(clash), minimal, decodings
        super().__init__(what, **parts)
