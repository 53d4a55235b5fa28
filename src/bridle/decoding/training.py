"""The rules of a decoder in training: bound once to sequences that are decoded again in each pass, by other weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder
from bridle.decoding.relaxation import KERNEL
from bridle.engines import NativeEngine
from bridle.rules.compiled import Absorb, Givens


class TrainingRules:
    """Rules bound to the training sequences.

    Parameters
    ----------
    decoder : Decoder
        With an engine that is a kernel, as "auto" is; time limits are not asked for.
    offsets : array of int, shape (B + 1,)
        Where each sequence begins among all tokens.
    givens : sequence of mappings, optional
        What comes with each sequence.

    Raises
    ------
    GivenError, RuleError
        If a rule refers to a value or a position that a sequence does not have (``error.sequence``).
    """

    def __init__(self, decoder: Decoder, offsets: npt.NDArray[np.int64], givens: Givens) -> None:
        engine = decoder._engine
        assert isinstance(engine, NativeEngine)
        self._compiled, self._offsets, self._givens, self._relaxed = decoder.compiled, offsets, givens, False
        self.native = _native.TrainingRules(offsets, *self._bound(engine.absorb), engine.kernel)

    def _bound(self, absorb: Absorb) -> tuple[_native.CompiledRules, _native.BoundRules | None]:
        rules = self._compiled.native(absorb)
        return rules, self._compiled.bind(rules, self._offsets, self._givens) if rules.depends else None

    def relax(self) -> bool:
        """Bind the rules for sequences on which they clash, unless that is done; few trainings need it."""
        if self._relaxed:
            return False
        self.native.relax(*self._bound("relaxed"), KERNEL)
        self._relaxed = True
        return True
