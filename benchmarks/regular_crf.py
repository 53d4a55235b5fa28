"""`bridle.torch.ConstrainedCRF` beside the construction of RegCCRF (Papay et al. 2022), on semantic roles.

    BRIDLE_SIMD=avx2 python benchmarks/regular_crf.py --data DIR [--roles 1 2 3] [--write docs/results/regular-crf.md]

RegCCRF turns the regular language of the labellings that are allowed into a plain CRF: its tags are the edges of an
unambiguous automaton, so that each labelling has one path; tags that do not follow each other have a transition of
-inf, and all others share the parameters of their labels. It is written here in PyTorch after the paper's section 4.
The language is BIO where each of the first core roles (A0, A1, ...) has at most one segment: 2^k states for k roles.
Both layers have the same parameters and emissions, and their losses are compared. One thread, processor time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bridle
from bridle import _native
from bridle.torch import ConstrainedCRF


def propositions(file: Path) -> Iterator[list[str]]:
    """Yield the BIO labels of each proposition."""
    columns: list[list[str]] = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("# "):
                continue
            if line.strip():
                columns.append(line.rstrip("\n").split("\t")[7:])
                continue
            for brackets in zip(*columns, strict=True):
                labels, inside = [], ""
                for cell in brackets:
                    opened = cell.startswith("(")
                    inside = cell[1 : cell.index("*")] if opened else inside
                    labels.append(f"{'B' if opened else 'I'}-{inside}" if inside else "O")
                    inside = "" if cell.endswith(")") else inside
                yield labels
            columns = []


class RegularCRF(nn.Module):
    """A CRF whose tags are the edges of an automaton: (subset of the roles that were seen, label)."""

    def __init__(self, labels: bridle.Labels, roles: list[str], crf: ConstrainedCRF) -> None:
        super().__init__()
        names, self.crf = labels.names, crf
        bit = {f"B-{role}": 1 << k for k, role in enumerate(roles)}
        self.edges = [
            (before, y, before | bit.get(name, 0))
            for before in range(1 << len(roles))
            for y, name in enumerate(names)
            if not before & bit.get(name, 0) and (not name.startswith("I-") or self._seen(name, before, roles))
        ]
        self.number = {(before, y): e for e, (before, y, _) in enumerate(self.edges)}
        self.label = torch.tensor([y for _, y, _ in self.edges])
        before, after = (torch.tensor([edge[k] for edge in self.edges]) for k in (0, 2))
        inside = np.array([[n[0] != "I" or p[2:] == n[2:] for n in names] for p in names])
        follows = (after[:, None] == before[None]) & torch.from_numpy(inside)[self.label][:, self.label]
        self.mask = torch.zeros(len(self.edges), len(self.edges)).masked_fill_(~follows, -np.inf)
        first = (before == 0) & torch.tensor([names[y][0] != "I" for y in self.label.tolist()])
        self.first = torch.zeros(len(self.edges)).masked_fill_(~first, -np.inf)

    @staticmethod
    def _seen(name: str, before: int, roles: list[str]) -> bool:
        """Can a segment of this label be open in this state?"""
        return name[2:] not in roles or bool(before >> roles.index(name[2:]) & 1)

    def tables(self) -> tuple[Tensor, ...]:
        """Spread the shared parameters over the edges."""
        crf, y = self.crf, self.label
        return crf.transitions[y][:, y] + self.mask, crf.start_transitions[y] + self.first, crf.end_transitions[y]

    def nll(self, tables: tuple[Tensor, ...], emissions: Tensor, gold: list[int]) -> Tensor:
        """Compute -log p of one sequence, emissions (n, m)."""
        table, start, end = tables
        u, state, path = emissions[:, self.label], 0, []
        for y in gold:
            path.append(self.number[state, y])
            state = self.edges[path[-1]][2]
        at = torch.tensor(path)
        score = start[at[0]] + u[torch.arange(len(at)), at].sum() + table[at[:-1], at[1:]].sum() + end[at[-1]]
        a = start + u[0]
        for t in range(1, len(gold)):
            a = torch.logsumexp(a[:, None] + table, dim=0) + u[t]
        return torch.logsumexp(a + end, dim=0) - score

    @torch.no_grad()
    def decode(self, tables: tuple[Tensor, ...], emissions: Tensor) -> list[int]:
        """Find the best labelling of one sequence."""
        table, start, end = tables
        u, back = emissions[:, self.label], []
        a = start + u[0]
        for t in range(1, len(u)):
            a, best = (a[:, None] + table).max(dim=0)
            a = a + u[t]
            back.append(best)
        path = [int((a + end).argmax())]
        for best in reversed(back):
            path.append(int(best[path[-1]]))
        return self.label[path[::-1]].tolist()


def timed(work: Callable[[], Any], rounds: int = 1) -> tuple[float, Any]:
    """Return the least processor time of some rounds, and the last result."""
    least, result = float("inf"), None
    for _ in range(rounds):
        begin = time.process_time()
        result = work()
        least = min(least, time.process_time() - begin)
    return least, result


def row(labels: bridle.Labels, gold: list[list[int]], k: int) -> str:
    """Compare both layers with k unique roles."""
    roles = [f"A{role}" for role in range(k)]
    torch.manual_seed(0)
    rules = [f"at most 1 segment of {role}" for role in roles]
    ours_setup, crf = timed(lambda: ConstrainedCRF(labels, rules, batch_first=True))
    their_setup, regular = timed(lambda: RegularCRF(labels, roles, crf))
    longest = max(map(len, gold))
    emissions = torch.randn(len(gold), longest, len(labels), requires_grad=True)
    tags = torch.tensor([[*y, *[0] * (longest - len(y))] for y in gold])
    mask = torch.tensor([[t < len(y) for t in range(longest)] for y in gold])

    def step(loss: Callable[[], Tensor]) -> Callable[[], float]:
        def run() -> float:
            emissions.grad = None
            crf.zero_grad(set_to_none=True)
            value = loss()
            value.backward()
            return float(value.detach())

        return run

    def their_loss() -> Tensor:
        tables = regular.tables()
        return torch.stack([regular.nll(tables, emissions[b, : len(y)], y) for b, y in enumerate(gold)]).sum()

    def their_labels() -> list[list[int]]:
        tables = tuple(table.detach() for table in regular.tables())
        return [regular.decode(tables, emissions[b, : len(y)]) for b, y in enumerate(gold)]

    first_call, _ = timed(lambda: crf.nll(emissions.detach(), tags, mask))  # builds the product of the rules
    ours_step, ours = timed(step(lambda: crf.nll(emissions, tags, mask, reduction="sum")), 5)
    their_step, theirs = timed(step(their_loss))
    if abs(ours - theirs) > 1e-3 * abs(ours):
        raise SystemExit(f"the losses differ: {ours} and {theirs}")
    ours_decode, best = timed(lambda: crf.decode(emissions.detach(), mask), 5)
    their_decode, same = timed(their_labels)
    if best != same:
        raise SystemExit("the best labellings differ")
    pairs = ((their_setup, ours_setup + first_call), (their_step, ours_step), (their_decode, ours_decode))
    times = " | ".join(f"{1e3 * a:,.1f} / {1e3 * b:.2f} ({a / b:,.{int(a < 10 * b)}f}x)" for a, b in pairs)
    return f"| {k} | {len(regular.edges):,} | {times} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), help="the folder with srl-ewt")
    parser.add_argument("--roles", type=int, nargs="+", default=[1, 2, 3], help="how many core roles are unique")
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    if not options.data:
        parser.error("--data is missing: the folder that contains srl-ewt")
    torch.set_num_threads(1)
    every = list(propositions(Path(options.data) / "srl-ewt" / "train.conll.gz"))
    types = sorted({label[2:] for labels in every for label in labels if label != "O"})
    labels = bridle.Labels(["O", *(f"{tag}-{name}" for name in types for tag in "BI")], "BIO")
    gold = [labels.ids(y).tolist() for y in every if 10 <= len(y) <= 20][: options.sequences]
    lines = [
        "# ConstrainedCRF beside the construction of RegCCRF",
        "",
        f"`benchmarks/regular_crf.py` on {_native.processor()}, vectors: {_native.tier()}, one thread, torch "
        f"{torch.__version__}. {len(gold)} propositions of srl-ewt of 10 to 20 tokens, {len(labels)} BIO labels; the "
        "first core roles are unique. Milliseconds of processor time, RegCCRF / ConstrainedCRF: to set up a layer "
        "(ours: with its first loss, which builds the product of the rules), for the loss of the batch with its "
        "gradient, to decode the batch. Emissions are random; the network is not part of the times. Losses and "
        "labellings of both are equal.",
        "",
        "| unique roles | tags of RegCCRF | set up | step | decode |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for k in options.roles:
        lines.append(row(labels, gold, k))
        print(lines[-1], flush=True)
    if options.write:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
