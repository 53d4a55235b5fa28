"""Bridle: the best labelling of a sequence that obeys your rules. Exact, fast, and it says how it knows.

import bridle
from bridle import rules as r

labels  = bridle.Labels(["O", "A0", "A1"], scheme="IO")
decoder = bridle.Decoder(labels, rules=[r.at_most(1, of="A0"), r.before("A0", "A1").soft(2.0)])
d = decoder.decode(bridle.Lattice(scores))      # d.labels, d.score, d.bound, d.optimal
"""

# Names are imported when they are first used, so that the command line starts at once. Nothing is imported here, not
# even `typing`: until `bridle.interrupts` is there, Ctrl-C would show a traceback.

TYPE_CHECKING = False  # type checkers take it for True

if TYPE_CHECKING:
    from typing import Any

    from bridle import data, engines, features, integrations, learn, models, report, rules
    from bridle.decoding.decoder import Decoder
    from bridle.decoding.documents import DocumentDecoding
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
    from bridle.learn.segmenter import Segmenter
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

__version__ = "0.2.0"
__distribution__ = "bridle-nlp"  # on PyPI, `bridle` is another project: see bridle.installation

__all__ = [  # noqa: RUF022  (plainly sorted)
    "Batch",
    "BridleError",
    "CRF",
    "Decoder",
    "Decoding",
    "Decodings",
    "DocumentDecoding",
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
    "Segmenter",
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
    "data",
    "engines",
    "features",
    "integrations",
    "learn",
    "load",
    "models",
    "report",
    "rules",
    "select",
    "simd",
]

_HOMES = {  # where each name is written
    "bridle.decoding.decoder": "Decoder",
    "bridle.decoding.documents": "DocumentDecoding",
    "bridle.decoding.judge": "Verdict check",
    "bridle.decoding.marginals": "Probability",
    "bridle.decoding.result": "Decoding Decodings",
    "bridle.errors": """
        BridleError EngineError FeatureError FileError GivenError Infeasible LabelError LatticeError
        LimitReached MissingExtra ModelError ModelFileError RuleError RuleSyntaxError
    """,
    "bridle.explain": "Explanation",
    "bridle.labels": "Labels Segment",
    "bridle.lattice": "Batch Lattice",
    "bridle.learn.segmenter": "Segmenter",
    "bridle.models": "CRF LocalTagger load",
    "bridle.processor": "Simd simd",
    "bridle.spans": """
        Selection Span SpanDecoder SpanDecoding SpanDecodings SpanLattice SpanSelector check_selection
        check_spans select
    """,
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers would take any name for one that exists

    def __getattr__(name: str) -> "Any":
        from importlib import import_module

        try:
            if name in _HOME_OF:
                value = getattr(import_module(_HOME_OF[name]), name)
            elif name in __all__ or name == "_native":
                value = import_module(f"bridle.{name}")
            else:
                raise AttributeError(f"module 'bridle' has no attribute {name!r}")
        except ImportError as problem:
            from bridle.installation import explain

            explain(problem)
            raise
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
