"""Tables as Hugging Face `datasets` stores them: labels as integers, with names in the schema, and saved folders.

    schema metadata   {"huggingface": {"info": {"features": {"ner_tags": {"feature": {"names": ["O", "B-PER"], ...}}}}}}
    a folder          dataset_dict.json  train/state.json  train/data-00000-of-00001.arrow  test/...

The package itself is not needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bridle.data.limits import LONGEST
from bridle.data.source import Source
from bridle.errors import Argument, FileError, shown

KEY = b"huggingface"
TAGS = ("ner_tags", "tags", "pos_tags", "chunk_tags")  # what data sets call their labels
UNKNOWN = -1  # the integer of a token that is not labelled


def is_saved(path: str) -> bool:
    """Check whether this is a folder that `save_to_disk` of datasets wrote."""
    return path != "-" and any(Path(path, name).is_file() for name in ("state.json", "dataset_dict.json"))


class Folder(Source):
    """A folder that `save_to_disk` wrote, as a source; its files are opened one by one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self.left_out, self.changed = {}, {}
        self.total, self.done, self._closes = None, 0, False

    def head(self, size: int = 1 << 16) -> bytes:
        return b""

    def files(self, split: str | None) -> list[Path]:
        """The files of a data set, or of one of several."""
        folder = Path(self.name)
        if (folder / "dataset_dict.json").is_file():
            splits = _names(_loaded(folder / "dataset_dict.json").get("splits"))
            if split is None and len(splits) == 1:
                split = splits[0]
            if split not in splits:
                raise FileError(
                    "the folder contains several data sets" if split is None else "the data set does not exist",
                    got=", ".join(splits)[:200] if split is None else repr(split),
                    wanted="{argument}" if split is None else "one of " + ", ".join(splits)[:200],
                    argument=Argument("split", splits[0] if splits else None),
                    where=self.name,
                )
            folder /= str(split)
        elif split is not None:
            raise FileError(
                "the folder contains only one data set", got=f"split={split!r}", wanted="no split", where=self.name
            )
        if not (folder / "state.json").is_file():
            wanted = "what `save_to_disk` of datasets writes"
            brat = next(folder.glob("*.ann"), None) is not None
            cause = f"Pass brat files one by one: {folder}/*.ann." if brat else None
            what, got = "the folder does not contain a data set", "no state.json"
            raise FileError(what, got=got, wanted=wanted, cause=cause, where=str(folder))
        state = _loaded(folder / "state.json")
        if state.get("_indices_data_files"):
            wanted = "rows in their order: call `flatten_indices` before `save_to_disk`"
            raise FileError("the rows of this data set are selected", got="indices", wanted=wanted, where=str(folder))
        entries = state.get("_data_files")
        files = (
            [entry.get("filename") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        )
        places = [folder / name for name in _names(files)]
        self.total = sum(place.stat().st_size for place in places if place.is_file())
        return places


def _loaded(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
        value = json.loads(data) if len(data) <= LONGEST else None
    except (OSError, ValueError, RecursionError) as error:
        raise FileError("not JSON", got=str(error)[:200], wanted="what datasets wrote", where=str(path)) from None
    if not isinstance(value, dict):
        raise FileError("not JSON", got=type(value).__name__, wanted="an object that datasets wrote", where=str(path))
    return value


def _names(values: Any) -> list[str]:
    """Names of files or folders; none may lead outside of the folder."""
    for name in values if isinstance(values, list) else [values]:
        if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name or "\0" in name:
            raise FileError("not a valid name of a split", got=shown(name), wanted="a plain name")
    return list(values)


# ---- names of integers ----------------------------------------------------------------------------------------------


def class_names(schema: Any) -> dict[str, list[str]]:
    """The names of integer labels in a table, by column; none if the schema does not name them."""
    try:
        features = json.loads((schema.metadata or {})[KEY])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    classes: dict[str, list[str]] = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        inner = feature[0] if isinstance(feature, list) and feature else feature  # older files have [feature]
        inner = inner.get("feature", inner) if isinstance(inner, dict) else None
        names = inner.get("names") if isinstance(inner, dict) else None
        if isinstance(names, list) and names and all(isinstance(name, str) and name for name in names):
            classes[column] = names
    return classes


def named(column: str, values: Any, names: Sequence[str]) -> list[str | None] | None:
    """The names of integers, with None for a missing one; None if none of them is known."""
    if not isinstance(values, list) or (values and all(value == UNKNOWN for value in values)):
        return None
    gaps = (None, UNKNOWN)
    for value in values:
        if value in gaps:
            continue
        if not isinstance(value, int) or not 0 <= value < len(names):
            got, wanted = shown(value), f"0 to {len(names) - 1}, which have names"
            raise FileError(f"{column!r} has a label without a name", got=got, wanted=wanted)
    return [None if value in gaps else names[value] for value in values]


def described(columns: Mapping[str, str], label: str | None, names: Sequence[str]) -> dict[bytes, bytes]:
    """The metadata of a schema whose labels are integers with these names. columns: "list" or "string", by name."""
    text = {"dtype": "string", "_type": "Value"}
    features: dict[str, Any] = {
        name: {"feature": text, "_type": "Sequence"} if kind == "list" else text for name, kind in columns.items()
    }
    if label in features:
        features[str(label)] = {"feature": {"names": list(names), "_type": "ClassLabel"}, "_type": "Sequence"}
    return {KEY: json.dumps({"info": {"features": features}}).encode()}
