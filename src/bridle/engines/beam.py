"""`beam`: a fixed number of hypotheses per token; not exact. The baseline of Zhao & Marcus (2012)."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.arrays import is_integer
from bridle.decoding.problem import bad_option
from bridle.engines import NativeEngine


@dataclass(frozen=True)
class Beam(NativeEngine):
    """Beam search: fast but not exact; the bound says how far the result may be from the best.

    Parameters
    ----------
    width : int, default 8
        Hypotheses that are kept per token.

    Raises
    ------
    EngineError
        If the option is bad.

    Examples
    --------
    A beam of one spends the only B on the first token. A wider one finds the best labelling, but does not prove it:

    >>> import bridle
    >>> lattice = bridle.Lattice([[0, 2], [0, 1], [0, 3]])
    >>> for width in (1, 8):
    ...     engine = bridle.engines.Beam(width=width)
    ...     d = bridle.Decoder(["A", "B"], ["at most 1 token of B"], engine).decode(lattice)
    ...     print(d.labels, d.score, d.bound, d.status)
    ['B', 'A', 'A'] 2.0 6.0 limit
    ['A', 'A', 'B'] 3.0 6.0 limit
    """

    name = "beam"
    native_options = ("width",)
    width: int = 8

    def __post_init__(self) -> None:
        if not is_integer(self.width, 1, 2**31 - 1):
            raise bad_option("width", self.width, "an integer >= 1")
