"""Work for other processes in tests, in a module that is imported quickly."""

from __future__ import annotations

from typing import Any

from bridle import Decoder, Decoding, Lattice


def decoded(work: tuple[Decoder, Lattice, dict[str, Any]]) -> Decoding:
    decoder, lattice, given = work
    return decoder.decode(lattice, given)


def raised(error: BaseException) -> None:
    raise error
