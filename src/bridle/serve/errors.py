"""Errors of requests: an HTTP status, and a JSON object with the four parts of a message."""

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

# Code of each class of errors; the first match applies.
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
    """An error that is sent to the client.

    It has an HTTP status, a `code` for programs such as ``"unknown-data"``, and the line of the rules if it has one.
    """

    def __init__(self, status: int, code: str, what: str, *, line: int | None = None, **parts: Any) -> None:
        self.status, self.code, self.line = status, code, line
        super().__init__(what, **parts)

    def to_struct(self) -> Error:
        """Return the JSON object of the error."""
        argument = "" if self.argument is None else str(self.argument)

        def text(part: object) -> str | None:
            return None if part is None else _as_utf8(clipped(part).replace("{argument}", argument))

        return Error(
            code=self.code,
            what=text(self.what) or "",
            got=None if self.got is None else _as_utf8(clipped(self.got)),
            wanted=text(self.wanted),
            cause=text(self.cause),
            where=text(self.where),
            sequence=self.sequence,
            rule=text(self.rule),
            line=self.line,
        )

    def to_json(self) -> bytes:
        """Return the body of the response to a request that failed."""
        return _encode(Failure(self.to_struct()))


def too_large(code: str, what: str, got: float, most: float, **parts: Any) -> HttpError:
    """Return the error for a request that exceeds a limit."""
    return HttpError(413, code, what, got=f"{got:,}", wanted=f"at most {most:,}", **parts)


def as_http_error(error: Exception) -> HttpError:
    """Convert an exception; the text of an unexpected one stays in the log."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, BridleError):
        status = 504 if isinstance(error, LimitReached) else 422
        code = next((code for kind, code in _CODES if isinstance(error, kind)), "bad-value")
        parts = {name: getattr(error, name) for name in ("got", "wanted", "cause", "sequence", "rule", "where")}
        converted = HttpError(status, code, error.what, line=getattr(error, "line", None), **parts)
        converted.argument = error.argument
        return converted
    if isinstance(error, (MemoryError, RecursionError)):
        return HttpError(413, "memory", "the request needs too much memory", wanted="a smaller request")
    return HttpError(500, "internal", "something went wrong in the server", cause="The log of the server says more.")


def _as_utf8(text: str) -> str:
    """Escape halves of surrogate pairs, which input can contain and UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()
