"""Model files that are altered and signed again: their checksums fit, their contents need not."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bridle.errors import ModelFileError
from bridle.models import files
from bridle.models.files import DTYPES, Stored

ODD: list[Any] = [None, True, False, 0, 1, -1, 7, 2**31, -(2**63), 2**70, 0.5, -1e300, 1e308, "", "x", "word[0]", "\0"]
ODD += ["é" * 9, [], {}, [[]], [None], ["x"], [1, 2], {"x": 1}, {"kind": "x"}, "BIO", "lbfgs", "O", [0.5] * 3]


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths of all values in a JSON object."""
    result = [at] if at else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return result + [path for key, item in inner for path in _paths(item, (*at, key))]


def _alter_head(head: Any, rng: random.Random) -> None:
    path = rng.choice(_paths(head))
    holder = head
    for key in path[:-1]:
        holder = holder[key]
    key, value = path[-1], holder[path[-1]]
    how = rng.randrange(5)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(value, list) and value:
        value.append(rng.choice(value))
    elif how == 2 and isinstance(value, list) and value:
        value.pop(rng.randrange(len(value)))
    elif how == 3 and isinstance(holder, dict):
        holder[rng.choice(["x", key + "x", ""])] = holder.pop(key)
    elif isinstance(value, (int, float)) and rng.random() < 0.5:
        holder[key] = value * rng.choice([-1, 2, 0, 1000]) + rng.choice([0, 1, -1])
    else:
        holder[key] = copy.deepcopy(rng.choice(ODD))


def _alter_array(arrays: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(list(arrays))
    array = np.array(arrays[name])
    how = rng.randrange(9)
    with np.errstate(all="ignore"):
        if how == 0:
            del arrays[name]
        elif how == 1:
            arrays[name + rng.choice(["x", ".", "s"])] = arrays.pop(name)
        elif how == 2:
            arrays[name] = array.astype(rng.choice(DTYPES))
        elif how == 3:
            arrays[name] = array.reshape(rng.choice([(1, *array.shape), (-1, 1), (*array.shape, 1)]))
        elif how == 4 and array.ndim:
            arrays[name] = rng.choice([array[:0], array[:-1], np.array(1, array.dtype), np.concatenate([array, array])])
        elif how == 5:
            other = rng.choice(list(arrays))
            arrays[name], arrays[other] = arrays[other], array
        elif how == 6 and array.size:
            array.reshape(-1)[:] = array.reshape(-1)[rng.sample(range(array.size), array.size)]
            arrays[name] = array
        elif array.size:
            real = array.dtype.kind == "f"
            low, high = (-np.inf, np.inf) if real else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
            odd = [low, high, high // 2, 0, 1, 3] if not real else [low, high, np.nan, 1e308, -1e308, 1e-320, 0.0]
            array.reshape(-1)[rng.randrange(array.size)] = np.array(rng.choice(odd)).astype(array.dtype)
            arrays[name] = array


def altered(stored: Stored, seed: int) -> Stored:
    """Change a file in one to three places."""
    rng = random.Random(seed)
    head, arrays = copy.deepcopy(stored.head), dict(stored.arrays)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if arrays and rng.random() < 0.5:
            _alter_array(arrays, rng)
        elif head:
            _alter_head(head, rng)
    return Stored(stored.kind, head, arrays)


def complaints(
    stored: Stored, path: Path, use: Callable[[Path], object], seeds: range, right: type[Exception] = ModelFileError
) -> list[str]:
    """Altered files that end in anything but an answer or the right error."""
    result = []
    for seed in seeds:
        other = altered(stored, seed)
        files.save(path, other.kind, other.head, other.arrays)
        try:
            use(path)
        except right:
            pass
        except Exception as error:
            result.append(f"{seed}: {type(error).__name__}: {error}")
    return result
