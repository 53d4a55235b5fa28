"""Many labels: one plain Viterbi pass in C as the yardstick, and what rules over a thousand names cost to build.

The pass is compiled when the benchmark runs, with the compiler of the machine, at -O3 and for this processor. It keeps
back pointers and adds in double precision, row by row, which compilers vectorise.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

import bridle
from bridle import rules as r
from measure import Report, best_of, seconds

Floats = npt.NDArray[np.float64]
TOKENS, LABELS, NAMES = 20, 2_000, 1_000
BUILD_LIMIT = 0.2  # seconds

SOURCE = r"""
#include <math.h>
#include <stddef.h>

double viterbi(const double* unary, const double* pairwise, int n, int m,
               double* best, double* next, int* back, int* path) {
    for (int j = 0; j < m; ++j) best[j] = unary[j];
    for (int t = 1; t < n; ++t) {
        int* from = back + (size_t)t * m;
        for (int j = 0; j < m; ++j) next[j] = -INFINITY, from[j] = 0;
        for (int i = 0; i < m; ++i) {
            const double before = best[i];
            const double* row = pairwise + (size_t)i * m;
            for (int j = 0; j < m; ++j) {
                const double score = before + row[j];
                if (score > next[j]) next[j] = score, from[j] = i;
            }
        }
        for (int j = 0; j < m; ++j) best[j] = next[j] + unary[(size_t)t * m + j];
    }
    int y = 0;
    for (int j = 1; j < m; ++j)
        if (best[j] > best[y]) y = j;
    const double score = best[y];
    for (int t = n - 1; t >= 0; --t) {
        path[t] = y;
        y = back[(size_t)t * m + y];
    }
    return score;
}
"""


class PlainViterbi:
    """The pass in C, with its memory."""

    def __init__(self, folder: Path, n: int, m: int, *flags: str) -> None:
        source, library = folder / "viterbi.c", folder / f"viterbi{len(flags)}.so"
        source.write_text(SOURCE, encoding="utf-8")
        compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
        subprocess.run([compiler, *flags, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self._run = ctypes.CDLL(str(library)).viterbi
        self._run.restype = ctypes.c_double
        self._rows = [np.zeros(m), np.zeros(m)]
        self._back, self.path = np.zeros((n, m), dtype=np.int32), np.zeros(n, dtype=np.int32)

    def __call__(self, unary: Floats, pairwise: Floats) -> float:
        arrays = [x.ctypes.data_as(ctypes.c_void_p) for x in (unary, pairwise, *self._rows, self._back, self.path)]
        return float(self._run(*arrays[:2], *unary.shape, *arrays[2:]))


def run_labels(report: Report) -> None:
    """2,000 labels with pairwise scores, and no_duplicates over 1,000 names."""
    _against_c(report)
    _rules(report)


def _against_c(report: Report) -> None:
    random = np.random.default_rng(7)
    unary, pairwise = random.normal(size=(TOKENS, LABELS)), random.normal(size=(LABELS, LABELS))
    labels = bridle.Labels([f"L{i}" for i in range(LABELS)])
    lattice = bridle.Lattice(unary, pairwise)
    with tempfile.TemporaryDirectory() as folder:
        plain = PlainViterbi(Path(folder), TOKENS, LABELS, "-O3")
        native = PlainViterbi(Path(folder), TOKENS, LABELS, "-O3", "-march=native")
        decoder = bridle.Decoder(labels)
        answer, wanted = decoder.decode(lattice), plain(unary, pairwise)
        report.agree("labels", "plain Viterbi in C", [answer.score], [wanted])
        first, later, base, fast = best_of(
            5,
            lambda: bridle.Decoder(labels).decode(lattice),  # makes its table anew
            lambda: decoder.decode(lattice),
            lambda: plain(unary, pairwise),
            lambda: native(unary, pairwise),
        )
    for flags, other in (("-O3", base), ("-O3 -march=native", fast)):
        what = f"{LABELS:,} labels x {TOKENS} tokens, Viterbi in C ({flags})"
        report.within("labels", f"{what}: first call", first, other, 3.0)
        report.within("labels", f"{what}: later calls", later, other, 3.0)


def _rules(report: Report) -> None:
    names = [f"L{i}" for i in range(NAMES)]
    kinds = {
        "no scheme": (bridle.Labels(names), names),
        "IO": (bridle.Labels(["O", *names], "IO"), names),
        "BIO": (bridle.Labels(["O", *(f"{t}-{x}" for x in names[:500] for t in "BI")], "BIO"), names[:500]),
    }
    random = np.random.default_rng(8)
    for kind, (labels, of) in kinds.items():
        rule = r.no_duplicates(of=of)
        build = best_of(3, partial(bridle.Decoder, labels, [rule]))[0]
        row = f"no_duplicates of {len(of):,} names ({kind}): to build, of {BUILD_LIMIT:g} s"
        report.within("labels", row, build, BUILD_LIMIT, 1.0)
        decoder = bridle.Decoder(labels, [rule])
        for title, crowd in (("random scores", 0.0), ("12 labels that all tokens want", 4.0)):
            unary = random.normal(size=(TOKENS, len(labels)))
            unary[:, :12] += crowd
            lattice = bridle.Lattice(unary)
            decoding = decoder.decode(lattice)
            if not rule.holds(decoding.ids, labels):
                report.wrong.append(f"labels, {kind}, {title}: a name occurs twice")
            took = seconds(partial(decoder.decode, lattice))
            proved = "proved" if decoding.optimal else "not proved"
            report.notes.append(f"labels: {kind}, {title}: decoded in {took * 1e3:.1f} ms, {proved}")
