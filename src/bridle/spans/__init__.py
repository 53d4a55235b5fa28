"""Word lattices and span selection: decode over spans instead of tokens.

A word lattice (Zhao & Marcus 2012, section 3.3) holds words that must cover a text; `select` chooses among candidate
spans of which any may be left out.

Boundaries 0 .. n between n characters are nodes, possible words are arcs, a path holds each character once. A rule sees
the words of a path as a sequence with one label per word; `tokens(regex)` matches the text of a word.

    lattice = bridle.SpanLattice.all_words(len(text), score, max_length=8, characters=text)
    d = bridle.SpanDecoder(rules=[r.at_most(5, of="WORD", count="tokens")]).decode(lattice)
    d.words, d.score, d.optimal

    found = bridle.select([(0, 2, "PER", 1.5), (1, 3, "ORG", 0.7)], ["at most 1 segment of PER"])
    found.spans, found.score, found.optimal
"""

from bridle.spans.candidates import Span
from bridle.spans.checking import check_selection, check_spans
from bridle.spans.decoder import SpanDecoder, SpanDecoding, SpanDecodings
from bridle.spans.lattice import SpanLattice
from bridle.spans.selector import Selection, SpanSelector, select

__all__ = [
    "Selection",
    "Span",
    "SpanDecoder",
    "SpanDecoding",
    "SpanDecodings",
    "SpanLattice",
    "SpanSelector",
    "check_selection",
    "check_spans",
    "select",
]
