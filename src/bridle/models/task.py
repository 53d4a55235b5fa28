"""What there is to learn: encoded examples with gold labels, and where the weights lie."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import ModelError
from bridle.features import Encoded
from bridle.labels import MOST_SQUARE
from bridle.models import layout as layouts
from bridle.models.edges import EdgeLayout
from bridle.models.layout import Layout

Array = npt.NDArray[Any]
Vector = npt.NDArray[np.float64]
Found = tuple[Vector, Vector | None, Vector | None]  # weights (W), label bigrams (m, m), those with the text (E)


@dataclass(frozen=True, eq=False)
class Task:
    """Examples with gold labels, over attributes 0 .. A-1 and labels 0 .. m-1."""

    encoded: Encoded
    y: npt.NDArray[np.int32]  # (N), below 0: the label is not known
    layout: Layout
    pair_free: npt.NDArray[np.uint8] | None  # (m, m) which label bigrams may be learned; None: there are no bigrams

    @classmethod
    def of(cls, encoded: Encoded, y: npt.NDArray[np.int32], sizes: tuple[int, int], pairs: str, bigram: bool) -> Task:
        """sizes: attributes and labels. pairs: "seen", only what occurs together in the examples, or "all"."""
        n_attributes, m = sizes
        if bigram and m > MOST_SQUARE:
            raise ModelError(
                "there are too many labels for weights of label bigrams",
                got=f"{m:,}",
                wanted=f"at most {MOST_SQUARE:,}",
                cause="Use a LocalTagger, or templates without label[-1].",
            )
        if pairs == "all":
            layouts.check_labels(m)
            where = layouts.all_pairs(n_attributes, m)
        else:
            where = layouts.seen(encoded.native(y), n_attributes, m)
        if encoded.edges is not None:
            where = replace(where, edges=EdgeLayout.of(encoded, y, m, pairs))
        if not bigram:
            return cls(encoded, y, where, None)
        return cls(encoded, y, where, np.ones((m, m), dtype=np.uint8) if pairs == "all" else _bigrams(encoded, y, m))

    @property
    def m(self) -> int:
        """Labels."""
        return self.layout.m

    @cached_property
    def joined(self) -> _native.Joined:
        """Examples and weights as the kernels of training want them."""
        return _native.Joined(self.layout.native, self.encoded.native(self.y))

    @cached_property
    def bundles(self) -> _native.Bundles:
        """The same for the likelihood, which is a sum over all of them: attributes that come together are one."""
        return _native.Bundles(self.layout.native, self.encoded.native(self.y))

    @cached_property
    def edges(self) -> _native.Edges | None:
        """Label bigrams together with the text, for all kernels of training."""
        if self.layout.edges is None:
            return None
        return _native.Edges(self.layout.edges.native, self.encoded.native_edges(self.y))

    @property
    def n_edges(self) -> int:
        """Weights of label bigrams together with the text."""
        return 0 if self.layout.edges is None else self.layout.edges.size

    @property
    def n_weights(self) -> int:
        """Weights that may be learned."""
        bigrams = 0 if self.pair_free is None else int(self.pair_free.sum())
        return self.layout.n_weights + bigrams + self.n_edges

    def check_pinned(self, weights: Array, pair: Array | None, edges: Array | None = None) -> None:
        """Weights from a file must be zero where there is nothing to learn: kernels and layouts count on that."""
        free = self.layout.free
        loose = free is not None and bool(weights[..., free == 0].any())
        if pair is not None and self.pair_free is not None:
            loose = loose or bool(pair[self.pair_free == 0].any())
        if loose:
            raise ModelError("a weight that this training does not have is not zero", wanted="what training writes")


def _bigrams(encoded: Encoded, y: npt.NDArray[np.int32], m: int) -> npt.NDArray[np.uint8]:
    """(m, m): the label bigrams that occur; beside a label that is not known, all that agree with what is known."""
    inside = np.ones(max(len(y) - 1, 0), dtype=bool)
    inside[encoded.offsets[(encoded.offsets > 0) & (encoded.offsets < len(y))] - 1] = False
    before, after = y[:-1][inside], y[1:][inside]
    free = np.zeros((m, m), dtype=np.uint8)
    both = (before >= 0) & (after >= 0)
    free[before[both], after[both]] = 1
    free[before[(before >= 0) & (after < 0)]] = 1
    free[:, after[(before < 0) & (after >= 0)]] = 1
    if ((before < 0) & (after < 0)).any():
        free[:] = 1
    return free


def check_state(state: Mapping[str, Array], wanted: Mapping[str, Array], *, but: Collection[str] = ()) -> None:
    """A state that is resumed has the arrays of this training; those in `but` may have other lengths."""
    for name, array in wanted.items():
        found = state.get(name)
        fits = found is not None and found.dtype == array.dtype and (name in but or found.shape == array.shape)
        if not fits or set(state) != set(wanted):
            got = "none" if found is None else f"{found.dtype} {found.shape}"
            raise ModelError(
                f"the state {name!r} is not that of this training",
                got=got,
                wanted=f"{array.dtype} {array.shape}",
                cause="A checkpoint of another version of Bridle, or altered?",
            )
    for name, array in state.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(f"the state {name!r} is not finite", got="inf or nan", wanted="finite numbers")


class Learner(Protocol):
    """A way to learn weights, one iteration per step."""

    finished: str | None  # why there is nothing left to learn; None: go on

    def step(self) -> float:
        """One iteration; the loss after it."""

    def weights(self) -> Found:
        """What has been learned."""

    def state(self) -> dict[str, Array]:
        """All that is needed to go on from here."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from there, exactly as if nothing had happened; a state that makes no sense is refused."""
