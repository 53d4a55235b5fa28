"""Changes to files, by chance: of bytes, and of what the bytes mean.

Everything comes from the generator that is passed in, so that a seed gives the same file again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz_binary import crfsuite_changed, model_changed, npz_changed, table_changed
from fuzz_text import bytes_changed, lines_changed, rules_changed, text_changed

LARGE = 20_000  # bytes; larger files are not changed again
CHANGES: dict[str, Callable[[Random, bytes], bytes]] = {
    "text": text_changed,
    "rules": rules_changed,
    "json": lines_changed,
    "npz": npz_changed,
    "table": table_changed,
    "model": model_changed,
    "crfsuite": crfsuite_changed,
}


def changed(rng: Random, kind: str, all_seeds: tuple[bytes, ...]) -> bytes:
    """A seed file of a kind of door (text, rules, json, npz, table, model, crfsuite), changed."""
    data = rng.choice(all_seeds)
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    structural = CHANGES[kind]
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        if len(data) > LARGE:
            break
        data = _tried(structural, rng, data) if rng.random() < 0.6 else bytes_changed(rng, data, all_seeds)
    return data


def _tried(change: Callable[[Random, bytes], bytes], rng: Random, data: bytes) -> bytes:
    """A change of what the bytes mean; they stay as they are if they mean nothing any more, by the changes before."""
    try:
        return change(rng, data)
    except Exception:
        return data
