"""Vector instructions that the kernels use."""

from __future__ import annotations

from dataclasses import dataclass

from bridle import _native


@dataclass(frozen=True)
class Simd:
    """Vector instructions that the kernels use; see `simd`.

    Attributes
    ----------
    tier : {"portable", "baseline", "avx2", "avx512"}
        Tier in use. The baseline is SSE2 or NEON.
    available : tuple of str
        Tiers that this processor has, the fastest last.
    processor : str
        Name of the processor.
    """

    tier: str
    available: tuple[str, ...]
    processor: str

    def __str__(self) -> str:
        return f"{self.tier} on {self.processor} (available: {', '.join(self.available)})"


def simd() -> Simd:
    """Say which vector instructions the kernels use.

    The fastest tier that the processor has is chosen when Bridle is imported; the environment variable ``BRIDLE_SIMD``
    (``portable``, ``baseline``, ``avx2`` or ``avx512``) chooses another one. All tiers give the same labels; scores,
    bounds and learned weights are the same up to rounding.

    Returns
    -------
    Simd
        The tier in use, those available, and the name of the processor.

    Examples
    --------
    >>> import bridle
    >>> bridle.simd().tier in bridle.simd().available
    True
    """
    return Simd(_native.tier(), tuple(_native.tiers()), _native.processor())
