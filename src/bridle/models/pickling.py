"""Pickling of what is saved in several files: as the bytes of these files, which are read as any others."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def pickled(model: Any, fitted: bool) -> tuple[Any, ...]:
    """How `model` is pickled, which has get_params, save and load: as its parameters and the bytes of its files."""
    data: dict[str, bytes] = {}
    if fitted:
        with TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            data = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return _unpickled, (type(model), model.get_params(), data)


def _unpickled(kind: Any, params: dict[str, Any], data: dict[str, bytes]) -> Any:
    if not data:
        return kind(**params)
    with TemporaryDirectory() as folder:
        for name, content in data.items():
            (Path(folder) / name).write_bytes(content)
        made = kind.load(Path(folder) / "model")
    made.__dict__.update(params)
    return made
