"""Share of the vector unit's peak that the Viterbi kernel reaches, per tier and number of labels (peak.cpp)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import bridle
from measure import Report

ROOT = Path(__file__).parents[1]
FLAGS = ["-O3", "-std=c++20", "-Icpp", "-w", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
WIDE = ["-mavx2", "-mfma", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"]
TIERS = {"baseline": ("sse2", []), "avx2": ("avx2", WIDE[:2]), "avx512": ("avx512", WIDE)}  # as in CMakeLists.txt
FILES = ["benchmarks/peak.cpp", "cpp/simd/kernels.cpp", "cpp/search/table.cpp"]


def run_peak(report: Report) -> None:
    """Compile the kernels of each tier with a small program around them, and run it."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None or "x86" not in os.uname().machine:
        report.notes.append("peak: no C++ compiler, or not an x86-64 processor: left out")
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for tier in bridle.simd().available:
            if tier not in TIERS:
                continue
            name, flags = TIERS[tier]
            program = str(Path(folder) / tier)
            defined = [f"-DBRIDLE_TIER={name}", f'-DBRIDLE_TIER_NAME="{tier}"']
            if "g++" in compiler:
                flags = [*flags, "-fno-tree-loop-distribute-patterns"]
            subprocess.run([compiler, *FLAGS, *flags, *defined, *FILES, "-o", program], cwd=ROOT, check=True)
            lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
            rows += [json.loads(line) for line in lines]
    report.data["peak"] = rows


def show_peak(rows: list[dict[str, Any]], console: Console) -> None:
    """Nanoseconds per token, and the share of what is possible: arithmetic or reading, whichever takes longer."""
    title = "Viterbi, ns per token: the two passes; m x m additions and maxima at full speed; m x m scores read once"
    heads = ("tier", "labels", "columns that may win", "backward", "path", "arithmetic", "read", "share of the limit")
    table = Table(*heads, title=title)
    kinds = {"all": "all", "few": "few, as with a trained model", "flat": "no transition scores"}
    for row in rows:
        share = f"{max(row['peak'], row['read']) / row['scan']:.0%}" if row["kind"] == "all" else ""
        table.add_row(
            row["tier"],
            str(row["m"]),
            kinds[row["kind"]],
            f"{row['scan']:.1f}",
            f"{row['follow']:.1f}",
            f"{row['peak']:.1f}",
            f"{row['read']:.1f}",
            share,
        )
    console.print(table)
