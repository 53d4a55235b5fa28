"""Models for functions of tables: each is loaded once per process, however many copies of a function there are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import bridle.models
from bridle.data.tokenizer import Tokens, tokens_noted
from bridle.decoding.decoder import Decoder
from bridle.errors import FileError
from bridle.models import Tagger
from bridle.models.checks import templates_of
from bridle.recent import RecentCache
from bridle.rules.base import Rule

Model = str | os.PathLike[str] | bytes | Tagger

_MODELS = RecentCache(8, 1 << 31)  # what was loaded, by file or by content
_LOCK = RLock()


def _unlock() -> None:
    """A forked process has no thread that could let go of the lock."""
    global _LOCK
    _LOCK = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


@dataclass(frozen=True)
class LoadedModel:
    """A model, and the decoders that were made for it."""

    tagger: Tagger
    _decoders: RecentCache = field(default_factory=lambda: RecentCache(16, 1 << 28), repr=False)

    @cached_property
    def tokens(self) -> Tokens:
        """How text is split: as the training data was."""
        return tokens_noted(self.tagger.notes_, templates_of(self.tagger.features_).vocabulary)

    def decoder(self, rules: Sequence[Rule], options: Mapping[str, Any]) -> Decoder:
        """A decoder of these rules; the same one if it was made before."""
        key = (tuple(rules), tuple(sorted(options.items(), key=lambda pair: pair[0])))
        try:
            hash(key)
        except TypeError:  # an option that cannot be compared
            return self.tagger.decoder(rules, **options)
        with _LOCK:
            found: Decoder | None = self._decoders.get(key)
            if found is None:
                found = self.tagger.decoder(rules, **options)
                self._decoders.keep(key, found, 1 << 16)
            return found


def loaded(model: Model) -> LoadedModel:
    """The model; it is loaded unless this process has it."""
    if isinstance(model, Tagger):
        return LoadedModel(model)
    if isinstance(model, bytes):
        return _shared(hashlib.sha256(model).digest(), lambda: bridle.models.from_bytes(model), len(model))
    try:
        found = Path(model).stat()
    except (OSError, ValueError) as error:  # a ValueError: a path with a null in it
        raise FileError(
            "cannot read the model",
            got=getattr(error, "strerror", None) or str(error),
            wanted="a model file",
            where=os.fspath(model),
            cause="Does every machine of the cluster have it under this path? Pass its bytes to send it along.",
        ) from None
    key = (os.path.realpath(model), found.st_ino, found.st_mtime_ns, found.st_size)
    return _shared(key, lambda: bridle.models.load(os.fspath(model)), found.st_size)


def _shared(key: Hashable, load: Callable[[], Tagger], size: int) -> LoadedModel:
    with _LOCK:  # one thread loads it, the others wait
        found: LoadedModel | None = _MODELS.get(key)
        if found is None:
            found = LoadedModel(load())
            _MODELS.keep(key, found, size)
        return found
