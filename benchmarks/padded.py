"""Padded batches of a network against pytorch-crf: decoding alone, under the tagging scheme, under six more rules."""

from __future__ import annotations

import importlib.util
import os
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import bridle
from bridle import rules as r
from measure import Report, best_of

KINDS = [f"K{k}" for k in range(16)]
LABELS = bridle.Labels(["O", *(f"{tag}-{kind}" for kind in KINDS for tag in "BI")], "BIO")
SHAPES = {(64, 512): 50, (8, 128): None, (1, 64): 15}  # sequences, tokens: wanted times as fast
SCHEME = [r.well_formed()]
SIX = [
    *SCHEME,
    r.at_most(40, of="K0"),
    r.before("K1", "K2").soft(0.5),
    r.if_present("K3", then="K4").soft(1.0),
    r.length("K5", at_most=6),
    r.at_least(1, of="K6").soft(0.5),
    r.no_duplicates(of=["K15"]).soft(2.0),
]


def scores_of(count: int, length: int) -> tuple[Any, Any]:
    """(B, T, m) scores as a trained network gives them: mostly sure of a labelling with segments, sometimes wrong."""
    rng = np.random.default_rng(count)
    lengths = rng.integers(length // 2, length + 1, size=count)
    lengths[0] = length
    scores = rng.normal(size=(count, length, len(LABELS))).astype(np.float32)
    for row in scores:
        t = 0
        while t < length:
            kind, size = int(rng.integers(-16, 15)), int(rng.integers(1, 5))
            ids = [0] * size if kind < 0 else [1 + 2 * kind, *[2 + 2 * kind] * (size - 1)]
            for k, y in enumerate(ids[: length - t]):
                row[t + k, y] += rng.uniform(1, 9)
            t += size
    return scores, lengths


@dataclass(frozen=True)
class Layer:
    """A CRF layer with padded scores, as both sides take them."""

    layer: Any
    scores: Any  # (B, T, m) tensor
    lengths: Any  # (B,)

    def theirs(self) -> list[list[int]]:
        """Decode with pytorch-crf."""
        import torch

        with torch.no_grad():
            mask = torch.arange(self.scores.shape[1]) < torch.tensor(self.lengths)[:, None]
            labellings: list[list[int]] = self.layer.decode(self.scores, mask)
            return labellings

    @property
    def shared(self) -> dict[str, Any]:
        """Transitions, first and last labels."""
        names = {"pairwise": "transitions", "start": "start_transitions", "end": "end_transitions"}
        return {ours: getattr(self.layer, name).detach() for ours, name in names.items()}

    def ours(self, decoder: bridle.Decoder) -> Any:
        """(B, T) ids."""
        batch = bridle.Batch.from_padded(self.scores, self.lengths, **self.shared)
        return decoder.decode_batch(batch, threads=1).padded()

    def compare(self, report: Report, name: str) -> None:
        """Compare the scores: pytorch-crf adds in single precision, so ours may be a little better."""
        labels = self.ours(bridle.Decoder(LABELS))
        for b, ids in enumerate(self.theirs()):
            lattice = bridle.Lattice(self.scores[b, : len(ids)], **self.shared)
            ours, other = lattice.score(labels[b, : len(ids)]), lattice.score(ids)
            if not -1e-6 * abs(other) <= ours - other <= 1e-4 * abs(other):
                report.wrong.append(f"padded {name}, sequence {b}: bridle {ours:.9g}, pytorch-crf {other:.9g}")


def run_padded(report: Report) -> None:
    """One thread on either side; what comes in is a tensor, what goes out is an array of ids."""
    if importlib.util.find_spec("torchcrf") is None:
        report.notes.append("padded: pytorch-crf is not installed (pip install torch pytorch-crf): left out")
        return
    if bridle.simd().tier == "avx2":
        os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
    import torch
    import torchcrf

    torch.set_num_threads(1)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")  # it passes masks as bytes
    for (count, length), target in SHAPES.items():
        values, lengths = scores_of(count, length)
        both = Layer(torchcrf.CRF(len(LABELS), batch_first=True), torch.tensor(values), lengths)
        name = f"({count}, {length}, {len(LABELS)})"
        both.compare(report, name)
        more = min(20, 64 * 512 // (count * length))  # what takes a moment only is repeated more often
        peer = best_of(2 if report.quick else 5 * min(more, 8), both.theirs)[0]
        for what, rules in (("no rules", []), ("well_formed()", SCHEME), ("well_formed() and six rules", SIX)):
            took = best_of(5 if report.quick else 15 * more, partial(both.ours, bridle.Decoder(LABELS, rules)))[0]
            wanted = target if rules is not SIX else None
            report.faster("padded", f"{name} pytorch-crf without rules; {what}", took / count, peer / count, wanted)
