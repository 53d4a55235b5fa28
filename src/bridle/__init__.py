"""Bridle: the best labelling of a sequence that obeys your rules. Exact, fast, and it says how it knows.

import bridle
from bridle import rules as r

labels  = bridle.Labels(["O", "A0", "A1"], scheme="IO")
decoder = bridle.Decoder(labels, rules=[r.at_most(1, of="A0"), r.before("A0", "A1").soft(2.0)])
d = decoder.decode(bridle.Lattice(scores))      # d.labels, d.score, d.bound, d.optimal
"""

from bridle import engines, rules
from bridle.decoding.decoder import Decoder
from bridle.decoding.judge import Verdict, check
from bridle.decoding.marginals import Probability
from bridle.decoding.result import Decoding, Decodings
from bridle.errors import (
    BridleError,
    EngineError,
    FeatureError,
    FileError,
    GivenError,
    Infeasible,
    LabelError,
    LatticeError,
    LimitReached,
    MissingExtra,
    ModelError,
    ModelFileError,
    RuleError,
    RuleSyntaxError,
)
from bridle.explain import Explanation
from bridle.labels import Labels, Segment
from bridle.lattice import Batch, Lattice
from bridle.models import CRF, LocalTagger, load
from bridle.processor import Simd, simd
from bridle.spans import (
    Selection,
    Span,
    SpanDecoder,
    SpanDecoding,
    SpanDecodings,
    SpanLattice,
    SpanSelector,
    check_selection,
    check_spans,
    select,
)

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022  (plainly sorted)
    "Batch",
    "BridleError",
    "CRF",
    "Decoder",
    "Decoding",
    "Decodings",
    "EngineError",
    "Explanation",
    "FeatureError",
    "FileError",
    "GivenError",
    "Infeasible",
    "LabelError",
    "Labels",
    "Lattice",
    "LatticeError",
    "LimitReached",
    "LocalTagger",
    "MissingExtra",
    "ModelError",
    "ModelFileError",
    "Probability",
    "RuleError",
    "RuleSyntaxError",
    "Segment",
    "Selection",
    "Simd",
    "Span",
    "SpanDecoder",
    "SpanDecoding",
    "SpanDecodings",
    "SpanLattice",
    "SpanSelector",
    "Verdict",
    "check",
    "check_selection",
    "check_spans",
    "engines",
    "load",
    "rules",
    "select",
    "simd",
]
