"""The files of an explorer on one's own machine: the rules that the page writes back, and models that it opens.

A server has a workspace only if it was started by `bridle explore`; `bridle serve` reads and writes no file for a
request.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from bridle.atomic import replacing
from bridle.errors import FileError
from bridle.models import Tagger, load
from bridle.serve.errors import HttpError
from bridle.serve.schemas import Request


class RulesFile(Struct):
    """The .rules file that the page edits. `text` is null if there is no such file yet."""

    name: str
    text: str | None
    fingerprint: str


class SaveRequest(Request, kw_only=True):
    """Rules to write into the file, which must have this fingerprint unless `overwrite` is true."""

    text: str
    fingerprint: str
    overwrite: bool = False


class OpenRequest(Request, kw_only=True):
    """A model that `bridle train` wrote, in base64."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Workspace:
    """The .rules file that is edited, if there is one."""

    rules: Path | None = None

    def read(self) -> RulesFile:
        """Return the file as it is now."""
        path = self._path()
        try:
            text = path.read_text(encoding="utf-8-sig")  # as rules are loaded
        except FileNotFoundError:
            return RulesFile(path.name, None, "")
        except (OSError, UnicodeDecodeError) as error:
            raise FileError("the rules file cannot be read", got=str(error), wanted="a text in UTF-8") from None
        return RulesFile(path.name, text, _fingerprint(text))

    def save(self, request: SaveRequest) -> RulesFile:
        """Write the file, unless its content is not the one that the page knows; then the status is 409."""
        path, now = self._path(), self.read()
        if now.fingerprint != request.fingerprint and now.text != request.text and not request.overwrite:
            raise HttpError(
                409,
                "changed-outside",
                f"{path.name} was changed by another program",
                wanted="the file as it was opened or saved last",
                cause="Load the file, and lose what you changed here; or save, and lose what was changed there.",
            )
        text = request.text.replace("\n", "\r\n") if self._has_windows_lines() else request.text
        with replacing(path, flush_to="disk") as file:
            file.write(text.encode())
        return RulesFile(path.name, request.text, _fingerprint(request.text))

    def _has_windows_lines(self) -> bool:
        path = self._path()
        return path.exists() and b"\r\n" in path.read_bytes()

    def _path(self) -> Path:
        if self.rules is None:
            wanted = "bridle explore my.rules"
            raise HttpError(404, "no-file", "the page was opened without a .rules file", wanted=wanted)
        return self.rules


def read_model(request: OpenRequest) -> Tagger:
    """Read a model that was sent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sent.bridle"
        with replacing(path) as file:
            file.write(request.content)
        try:
            return load(path)
        except FileError as error:
            error.where = request.name
            raise


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
