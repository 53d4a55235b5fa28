"""A million sequences, decoded: the figure of the tutorial "Decode a million sequences".

    python docs/million.py [--packs 10] [--threads 1]

Scores are random, in packs of 100,000 sequences; making them is not part of the time. Printed: sequences, tokens, the
share whose labels are other than under `well formed` alone, the share proved optimal, seconds, and, on Unix, the peak
of memory.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import bridle
from bridle import rules as r

LABELS = bridle.Labels(["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"], scheme="BIO")
RULES = [r.well_formed(), r.no_duplicates(of=["PER", "LOC"]), r.at_most(2, of="ORG"), r.before("PER", "LOC").soft(1.0)]


def pack(sequences: int, seed: int) -> bridle.Batch:
    """Sequences of 5 to 25 tokens that are mostly O, packed end to end."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], rng.integers(5, 26, size=sequences).cumsum()])
    unary = rng.normal(size=(offsets[-1], len(LABELS))).astype(np.float32)
    unary[:, 0] += 2
    return bridle.Batch(unary, offsets)


def main() -> None:
    """Decode pack after pack and print the sums."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--packs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    decoder, plain = bridle.Decoder(LABELS, RULES), bridle.Decoder(LABELS, [r.well_formed()])
    sequences = tokens = proved = changed = 0
    seconds = 0.0
    for seed in range(chosen.packs):
        batch = pack(100_000, seed)
        start = time.perf_counter()
        decodings = decoder.decode_batch(batch, threads=chosen.threads)
        seconds += time.perf_counter() - start
        without = plain.decode_batch(batch, threads=chosen.threads).ids
        differs = np.logical_or.reduceat(decodings.ids != without, batch.offsets[:-1])
        sequences, tokens = sequences + len(batch), tokens + int(batch.offsets[-1])
        proved, changed = proved + int(decodings.optimal.sum()), changed + int(differs.sum())
    print(f"{sequences:,} sequences, {tokens:,} tokens, {chosen.threads} thread(s)")
    print(f"changed by the rules {changed / sequences:.1%}, proved optimal {proved / sequences:.1%}")
    print(f"{seconds:.1f} s, {sequences / seconds:,.0f} sequences a second{memory()}")


def memory() -> str:
    """The peak of memory; only Unix tells it."""
    if sys.platform == "win32":
        return ""
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kB elsewhere
    return f", peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit:,.0f} MB"


if __name__ == "__main__":
    main()
