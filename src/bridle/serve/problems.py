"""Errors as HTTP sees them: a status, and a JSON object with the four parts of our messages."""

from __future__ import annotations

from typing import Any

import msgspec

from bridle.errors import (
    BridleError,
    EngineError,
    FeatureError,
    FileError,
    GivenError,
    Infeasible,
    LabelError,
    LatticeError,
    LimitReached,
    ModelError,
    RuleError,
    RuleSyntaxError,
    clipped,
)
from bridle.serve.schemas import Error, Failure

# What is wrong with a request, by the class of the error. The first that fits is taken.
_CODES: tuple[tuple[type[BridleError], str], ...] = (
    (RuleSyntaxError, "rule-syntax"),
    (GivenError, "given"),
    (RuleError, "rule"),
    (LabelError, "label"),
    (LatticeError, "scores"),
    (FileError, "data"),
    (FeatureError, "features"),
    (ModelError, "model"),
    (EngineError, "engine"),
    (Infeasible, "infeasible"),
    (LimitReached, "limit"),
)
_encode = msgspec.json.Encoder().encode


class HttpError(BridleError):
    """A request that gets an error as its answer.

    Parameters
    ----------
    status : int
        The HTTP status.
    code : str
        A short word for programs, such as ``"unknown-data"``.
    what : str
        What is wrong.
    line : int, optional
        The line of the rules that the error is about.
    **parts : object
        Other fields of `BridleError`.
    """

    def __init__(self, status: int, code: str, what: str, *, line: int | None = None, **parts: Any) -> None:
        self.status, self.code, self.line = status, code, line
        super().__init__(what, **parts)


def too_large(code: str, what: str, got: float, most: float, **parts: Any) -> HttpError:
    """The error for a request that is over a limit."""
    return HttpError(413, code, what, got=f"{got:,}", wanted=f"at most {most:,}", **parts)


def late(seconds: float) -> HttpError:
    """The error for a request whose time is up."""
    return HttpError(
        504,
        "time",
        "the request took too long",
        got=f"more than {seconds:g} seconds",
        wanted="an answer in time",
        cause="Send fewer or shorter sequences at once, or simpler rules.",
    )


def stopping() -> HttpError:
    """The error for a request that comes while the server stops."""
    return HttpError(503, "stopping", "the server is stopping", wanted="another server, or this one when it is back")


def problem_of(error: Exception) -> HttpError:
    """The error that a request gets; the text of one that nobody expected is not shown to the world."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, BridleError):
        status = 504 if isinstance(error, LimitReached) else 422
        code = next((code for kind, code in _CODES if isinstance(error, kind)), "bad-value")
        parts = {name: getattr(error, name) for name in ("got", "wanted", "cause", "sequence", "rule", "where")}
        made = HttpError(status, code, error.what, line=getattr(error, "line", None), **parts)
        made.argument = error.argument
        return made
    if isinstance(error, (MemoryError, RecursionError)):
        return HttpError(413, "memory", "the request needs too much memory", wanted="a smaller request")
    return HttpError(500, "internal", "something went wrong in the server", cause="The log of the server says more.")


def error_of(problem: HttpError) -> Error:
    """The JSON object for an error."""
    spelt = _spelt(problem)
    return Error(
        code=problem.code,
        what=spelt(problem.what) or "",
        got=None if problem.got is None else _text(clipped(problem.got)),
        wanted=spelt(problem.wanted),
        cause=spelt(problem.cause),
        where=spelt(problem.where),
        sequence=problem.sequence,
        rule=spelt(problem.rule),
        line=problem.line,
    )


def failure(problem: HttpError) -> bytes:
    """The JSON of an answer with an error."""
    return _encode(Failure(error_of(problem)))


def _spelt(problem: HttpError) -> Any:
    """A function that makes text of a part of the error, with the argument that it is about."""
    argument = "" if problem.argument is None else str(problem.argument)

    def spelt(part: object) -> str | None:
        return None if part is None else _text(clipped(part).replace("{argument}", argument))

    return spelt


def _text(text: str) -> str:
    """Text that UTF-8 can hold: input may have half of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode()
