"""`beam`: a fixed number of hypotheses per token; not exact. The baseline of Zhao & Marcus (2012)."""

from __future__ import annotations

from bridle.engines.base import NativeEngine


class Beam(NativeEngine):
    name = "beam"
