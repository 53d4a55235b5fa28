"""Loss and gradient of `bridle.torch.ConstrainedCRF` beside pytorch-crf and torch-struct, on the same tensors.

    BRIDLE_SIMD=avx2 python benchmarks/torch_layer.py [--rounds 7] [--write docs/results/torch.md]

One thread; the sides take turns, and the least processor time of all rounds counts. torch-struct gives log Z
and its gradient, without the score of the gold labels. The last table is a whole step of training, forward, backward
and AdamW, of an encoder of MiniLM's size with random weights: with cross-entropy, and with the layer and seven rules.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchcrf

import bridle
from bridle import _native
from bridle.torch import ConstrainedCRF

SHAPES = {(64, 128, 33): 30, (8, 512, 9): 150, (32, 64, 9): 20}  # sequences, tokens, labels: wanted times as fast
ENCODER = (16, 64)  # sequences and sub-words of a step of MiniLM
WANTED = {"well formed": 1.2, "one counting rule": 2.0, "four counting rules": 12.0}  # times our own plain time


def sides(shape: tuple[int, int, int]) -> dict[str, Callable[[], Any]]:
    """Return a step of each side: the loss and its gradient for emissions and parameters."""
    B, T, m = shape
    torch.manual_seed(0)
    types = [f"K{k}" for k in range((m - 1) // 2)]
    names = ["O", *(f"{tag}-{kind}" for kind in types for tag in "BI")]
    emissions, tags = torch.randn(B, T, m, requires_grad=True), torch.zeros(B, T, dtype=torch.long)
    tags[:, 3] = 1  # one segment of the first type: no rule is broken
    theirs = torchcrf.CRF(m, batch_first=True)
    plain, bio = bridle.Labels(names, scheme=None), bridle.Labels(names, scheme="BIO")
    count = "at most 1 segment of {}".format
    layers = {
        "plain": ConstrainedCRF(plain, batch_first=True),
        "well formed": ConstrainedCRF(bio, batch_first=True),
        "one counting rule": ConstrainedCRF(bio, [count("K0")], batch_first=True),
        "four counting rules": ConstrainedCRF(bio, [count(f"K{k}") for k in range(4)], batch_first=True),
    }

    def step(loss: Callable[[], Any], crf: Any) -> Callable[[], Any]:
        def run() -> None:
            emissions.grad = None
            crf.zero_grad(set_to_none=True)
            loss().backward()

        return run

    def struct() -> Any:
        # edge potentials (B, T - 1, m, m): [.., to, from]
        from torch_struct import LinearChainCRF

        potentials = theirs.transitions.T[None, None] + emissions[:, 1:, :, None]
        first = (emissions[:, :1] + theirs.start_transitions)[:, :, None, :]
        last = theirs.end_transitions[None, None, :, None]
        potentials = torch.cat([potentials[:, :1] + first, potentials[:, 1:-1], potentials[:, -1:] + last], dim=1)
        return LinearChainCRF(potentials).partition.sum()

    def theirs_loss() -> Any:
        return -theirs(emissions, tags)

    out = {"pytorch-crf": step(theirs_loss, theirs)}
    if importable("torch_struct") and B * T * m**3 < 10**8:  # else it takes gigabytes
        out["torch-struct, log Z and its gradient"] = step(struct, theirs)
    for name, crf in layers.items():
        out[name] = step(lambda crf=crf: crf.nll(emissions, tags, reduction="sum"), crf)  # type: ignore[misc]
    return out


def encoder_steps(B: int, T: int) -> dict[str, Callable[[], Any]]:
    """Return a step of training of an encoder, with cross-entropy of its tokens and with the layer."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    labels = bridle.Labels(["O", *(f"{tag}-K{k}" for k in range(4) for tag in "BI")], "BIO")
    rules = [f"at most 1 segment of K{k}" for k in range(4)]
    rules += ["K0 before K1", "if K2 then K3  [penalty 1]", "present K0  [penalty 2]"]
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    ids, tags = torch.randint(1000, 20_000, (B, T)), torch.zeros(B, T, dtype=torch.long)
    tags[:, 3], tags[:, 4], tags[:, 7] = 1, 2, 3

    def side(crf: ConstrainedCRF | None) -> Callable[[], Any]:
        body, out = BertModel(config), torch.nn.Linear(384, len(labels))
        parameters = [p for part in (body, out, crf) if part is not None for p in part.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=1e-6)

        def run() -> None:
            scores = out(body(ids).last_hidden_state)
            flat = torch.nn.functional.cross_entropy
            loss = flat(scores.flatten(0, 1), tags.flatten()) if crf is None else crf.nll(scores, tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return run

    return {"cross-entropy": side(None), "seven rules": side(ConstrainedCRF(labels, rules, batch_first=True))}


def importable(name: str) -> bool:
    """Return whether a package is installed."""
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def least(steps: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least processor time of each step in milliseconds; the sides take turns."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        step()
    gc.disable()
    for _ in range(rounds):
        for name, step in steps.items():
            for _ in range(1 if best[name] > 50 else 5):
                begin = time.process_time()
                step()
                best[name] = min(best[name], 1e3 * (time.process_time() - begin))
    gc.enable()
    return best


def main() -> None:
    """Measure all shapes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = [
        "# The layer for PyTorch: times of a step",
        "",
        f"`benchmarks/torch_layer.py` on {_native.processor()}, vectors: {_native.tier()}, one thread, torch "
        f"{torch.__version__}: loss and gradient for emissions and parameters, milliseconds of processor time, "
        f"the least of {options.rounds} rounds in which the sides take turns.",
        "",
        "| sequences, tokens, labels | side | ms | |",
        "|---|---|---|---|",
    ]
    for shape, wanted in SHAPES.items():
        times = least(sides(shape), options.rounds)
        for name, ms in times.items():
            if name in WANTED:
                note = f"{ms / times['plain']:.2f} times plain (wanted: {WANTED[name]:g} at most)"
            elif name == "plain":
                note = f"{times['pytorch-crf'] / ms:.0f} times as fast as pytorch-crf (wanted: {wanted})"
            else:
                note = ""
            side = name if name in ("pytorch-crf", "torch-struct, log Z and its gradient") else f"Bridle, {name}"
            lines.append(f"| {', '.join(map(str, shape))} | {side} | {ms:.2f} | {note} |")
    if importable("transformers"):
        times = least(encoder_steps(*ENCODER), options.rounds)
        ratio = times["seven rules"] / times["cross-entropy"]
        lines += ["", "| sequences, sub-words: a step of an encoder | loss | ms | |", "|---|---|---|---|"]
        for name, ms in times.items():
            note = f"{ratio:.3f} times cross-entropy (wanted: 1.05 at most)" if name == "seven rules" else ""
            lines.append(f"| {', '.join(map(str, ENCODER))} | {name} | {ms:.1f} | {note} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
