"""Word lattices: decode over spans instead of tokens (Zhao & Marcus 2012, section 3.3).

Boundaries 0 .. n between n characters are nodes, possible words are arcs, a path holds each character once. A rule sees
the words of a path as a sequence with one label per word; `tokens(regex)` speaks of the text of a word.

    lattice = bridle.SpanLattice.all_words(len(text), score, max_length=8, characters=text)
    d = bridle.SpanDecoder(rules=[r.at_most(5, of="WORD", count="tokens")]).decode(lattice)
    d.words, d.score, d.optimal
"""

from bridle.spans.decoder import SpanDecoder
from bridle.spans.lattice import SpanLattice
from bridle.spans.result import SpanDecoding, SpanDecodings, check_spans

__all__ = ["SpanDecoder", "SpanDecoding", "SpanDecodings", "SpanLattice", "check_spans"]
