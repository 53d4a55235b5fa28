"""How a model gets from the driver to the Python workers of Spark, and how these use it.

    driver:    Model.of(...) -> shipped(session, model, ship) -> function(place, ...), which Spark pickles
    executor:  the function -> tag_of(...), once per Python worker -> Tag

Spark keeps a Python worker for many tasks and unpickles the function for each of them, so what was loaded is kept here.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import bridle
from bridle.arrow import Tag
from bridle.atomic import replacing
from bridle.errors import Argument, ModelError, ModelFileError
from bridle.models import Tagger
from bridle.models.tagger import from_bytes
from bridle.recent import RecentCache

Ship = Literal["file", "broadcast", "path"]
Function = Callable[[Iterator[Any]], Iterator[Any]]

_tags = RecentCache(most_entries=4, most_bytes=1 << 31)  # of this Python worker


@dataclass(frozen=True)
class Model:
    """A model, loaded once on the driver and known by what is in its file."""

    tagger: Tagger
    data: bytes  # of its file
    path: str | None  # of its file, if it came from one

    @classmethod
    def of(cls, model: str | os.PathLike[str] | bytes | Tagger) -> Model:
        """Load a model from what users pass."""
        if isinstance(model, Tagger):
            return cls(model, model.to_bytes(), None)
        if isinstance(model, bytes):
            return cls(from_bytes(model), model, None)
        path = Path(model).absolute()
        return cls(bridle.load(path), path.read_bytes(), str(path))

    @property
    def digest(self) -> str:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Place:
    """Where a Python worker finds the model."""

    ship: Ship
    at: Any  # the name of a file of Spark, a broadcast variable, or a path
    digest: str

    def read(self) -> bytes:
        """The bytes of the model file, checked; on an executor."""
        if self.ship == "broadcast":
            return bytes(self.at.value)
        if self.ship == "file":
            from pyspark import SparkFiles

            path = Path(SparkFiles.get(self.at))
        else:
            path = Path(self.at)
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise ModelFileError(
                "an executor cannot read the model",
                got=problem.strerror,
                wanted="a path that all machines see" if self.ship == "path" else None,
                cause="`ship='file'` sends the model to the executors." if self.ship == "path" else None,
                where=str(path),
            ) from None
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ModelFileError(
                "an executor has another model than the driver",
                got="a file with other content",
                wanted=f"the file with the SHA-256 {self.digest}",
                cause="It was replaced while the job ran, or the machines do not see the same folder.",
                where=str(path),
            )
        return data


def shipped(session: Any, model: Model, ship: Ship) -> Place:
    """Send a model to where the Python workers of a session find it.

    Raises
    ------
    ModelError
        If `ship` is not a way to send a model, or this session or this model does not allow it.
    """
    if ship not in get_args(Ship):
        wanted = ", ".join(map(repr, get_args(Ship)))
        raise ModelError("bad {argument}", wanted=wanted, argument=Argument("ship", ship))
    from pyspark import SparkFiles

    connect = type(session).__module__.startswith("pyspark.sql.connect")
    if ship == "path":
        if model.path is None:
            raise ModelError(
                "{argument} needs the path of a model file",
                got="a model in memory",
                wanted="its path",
                argument=Argument("ship", ship),
            )
        return Place(ship, model.path, model.digest)
    if ship == "broadcast":
        if connect:
            raise ModelError(
                "{argument} needs a classic Spark session",
                got="Spark Connect, which has no broadcast variables",
                wanted="ship='file' or ship='path'",
                argument=Argument("ship", ship),
            )
        return Place(ship, session.sparkContext.broadcast(model.data), model.digest)
    name = f"{model.digest[:32]}.bridle"  # Spark knows files by their names: another model must have another one
    if connect:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            _write(path, model.data)
            session.addArtifact(str(path), file=True)  # the server has a copy when this returns
        return Place(ship, name, model.digest)
    path = Path(SparkFiles.getRootDirectory()) / "bridle" / name  # Spark removes this folder at its end
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        _write(path, model.data)  # a copy: the user may train the model again while the job runs
    session.sparkContext.addFile(str(path))
    return Place(ship, name, model.digest)


def _write(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


def function(place: Place, rules: list[Any], options: Mapping[str, Any]) -> Function:
    """The function that Spark calls on an executor with the Arrow batches of a task.

    Spark pickles it by its code, because it is a local one, so it can say what is wrong where Bridle is missing.
    """
    setup = pickle.dumps((place.ship, place.digest, rules, dict(options)))
    key = hashlib.sha256(setup).hexdigest()
    at, version = place.at, bridle.__version__

    def tagged(batches):  # type: ignore[no-untyped-def]  # annotations would be looked up where Bridle is missing
        import platform
        import sys

        try:
            from bridle import __version__ as found
            from bridle.integrations.spark.shipping import tag_of
        except ImportError as problem:
            raise ImportError(
                f"an executor cannot import Bridle; got {problem} with {sys.executable} on {platform.node()}; "
                f"wanted bridle {version} with PyArrow in the Python of every executor.\n"
                "Install it there, or send an environment: see 'What executors need' on the page about Spark."
            ) from None
        if found != version:
            raise RuntimeError(
                f"an executor has another version of Bridle than the driver; got {found} with {sys.executable} "
                f"on {platform.node()}; wanted {version}."
            )
        tag = tag_of(key, setup, at)
        for batch in batches:
            yield tag(batch)

    return tagged


def tag_of(key: str, setup: bytes, at: Any) -> Tag:
    """The `Tag` of a job, made when this Python worker first meets the job."""
    found = _tags.get(key)
    if found is None:
        ship, digest, rules, options = pickle.loads(setup)
        data = Place(ship, at, digest).read()
        found = Tag(from_bytes(data), rules, **options)
        _tags.keep(key, found, len(data))
    return found  # type: ignore[no-any-return]
