"""The exception tree. Every message has four parts: what is wrong, what was got, what was wanted, the likely cause.

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
    ├── LimitReached      a limit stopped the work before any labelling was found
    └── Infeasible        no labelling obeys the hard rules
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class BridleError(Exception):
    """The root of all errors that Bridle raises on purpose."""

    def __init__(self, what: str, *, got: object = None, wanted: object = None, cause: str | None = None) -> None:
        self.what, self.got, self.wanted, self.cause = what, got, wanted, cause
        parts = [what if what[-2:-1] in ("", " ", "/", ".") else what.removesuffix(".")]  # "cannot read .": a folder
        if got is not None:
            parts.append(f"got {got}")
        if wanted is not None:
            parts.append(f"wanted {wanted}")
        text = "; ".join(parts)
        text += "" if text.endswith("?") else "."
        super().__init__(f"{text}\n{cause}" if cause else text)


class LabelError(BridleError):
    """A label set that cannot be, or a label that is not in the set."""


class LatticeError(BridleError):
    """Scores with a wrong shape or an impossible value."""


class RuleError(BridleError):
    """A rule that makes no sense for this label set or this sequence."""


class RuleSyntaxError(RuleError):
    """A line of text that is not a rule."""

    def __init__(self, what: str, *, file: str | None = None, line: int | None = None, **parts: Any) -> None:
        self.file, self.line = file, line
        where = ":".join(str(x) for x in (file, line) if x is not None)
        super().__init__(f"{where}: {what}" if where else what, **parts)


class GivenError(RuleError):
    """A rule speaks of a value that should have come with the sequence."""


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


class LimitReached(BridleError):
    """A limit stopped the work before any labelling that obeys the rules was found; `bound` holds all the same."""

    def __init__(self, what: str, *, bound: float, **parts: Any) -> None:
        self.bound = bound
        super().__init__(what, **parts)


class Infeasible(BridleError):
    """No labelling obeys the hard rules. `clash` is a minimal set of rules that cannot hold together."""

    def __init__(self, what: str, *, clash: Sequence[object] = (), sequence: int | None = None, **parts: Any) -> None:
        self.clash = tuple(clash)
        self.sequence = sequence
        super().__init__(what, **parts)
