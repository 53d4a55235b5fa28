"""`beam`: a fixed number of hypotheses per token; not exact. The baseline of Zhao & Marcus (2012)."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.checks import is_integer
from bridle.decoding.problem import bad_option
from bridle.engines.base import NativeEngine


@dataclass(frozen=True)
class Beam(NativeEngine):
    """Beam search: fast and not exact; its bound says how far it may be off.

    Parameters
    ----------
    width : int, default 8
        Hypotheses that are kept per token.
    """

    name = "beam"
    told = ("width",)
    width: int = 8

    def __post_init__(self) -> None:
        if not is_integer(self.width, 1, 2**31 - 1):
            raise bad_option("width", self.width, "a whole number >= 1")
