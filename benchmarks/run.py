"""The benchmark: one command, a table of ratios, a JSON file and plots.

    python benchmarks/run.py [--quick] [--only NAME ...] [--data DIR] [--limit SECONDS] [--out benchmarks/out]

Exit code 1 when any two sides disagree about an optimum, an answer breaks a rule, or a section fails. A target that is
not met is printed as such; it does not change the exit code, because it depends on the machine.
"""

from __future__ import annotations

import argparse
import importlib.metadata as metadata
import json
import os
import platform
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # one thread on every side; before NumPy is loaded

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from growth import plot_growth, run_growth  # noqa: E402
from hard_plot import plot_proved  # noqa: E402
from hard_rules import run_many  # noqa: E402
from latency import run_latency  # noqa: E402
from many_labels import run_labels  # noqa: E402
from measure import Report, Row, told, where  # noqa: E402
from padded import run_padded  # noqa: E402
from papers import plot_papers, run_papers, show_papers  # noqa: E402
from peak import run_peak, show_peak  # noqa: E402
from sections import run_bioes, run_chunk, run_hard, run_srl  # noqa: E402

SECTIONS = {
    "srl": run_srl,
    "hard": run_hard,
    "chunk": run_chunk,
    "bioes": run_bioes,
    "latency": run_latency,
    "many": run_many,
    "padded": run_padded,
    "peak": run_peak,
    "labels": run_labels,
    "growth": run_growth,
    "papers": run_papers,
}


def _time(ms: float) -> str:
    return f"{ms * 1e3:,.1f} us" if ms < 1 else f"{ms:,.2f} ms" if ms < 1e3 else f"{ms / 1e3:,.2f} s"


def show(report: Report, console: Console) -> None:
    heads = ("set", "against", "bridle", "other", "ratio", "target", "met")
    table = Table(*heads, title=f"Mean time per sequence, one thread\n{told(report.data['where'])}")
    for row in report.rows:
        target = "" if row.target is None else f"{row.sense} {row.target:,g}x"
        met = {None: "", True: "yes", False: "NO"}[row.met]
        ratio = f"{row.ratio:,.2f}x" if row.ratio < 100 else f"{row.ratio:,.0f}x"
        table.add_row(row.section, row.what, _time(row.ours_ms), _time(row.other_ms), ratio, target, met)
    if report.rows:
        console.print(table)
    if "papers" in report.data:
        show_papers(report.data["papers"], console)
    if "peak" in report.data:
        show_peak(report.data["peak"], console)
    for note in report.notes:
        console.print(note, highlight=False)
    for name, share in sorted(report.proved.items()):
        console.print(f"proved optimal, {name}: {share:.2%}", highlight=False)
    for line in report.wrong[:20]:
        console.print(f"WRONG  {line}", style="red", highlight=False, markup=False)
    if len(report.wrong) > 20:
        console.print(f"WRONG  ... and {len(report.wrong) - 20} more", style="red")


def plot_ratios(rows: list[Row], file: Path) -> None:
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row.sense == ">="][::-1]
    figure, axes = plt.subplots(figsize=(9, 0.4 * len(rows) + 1.5))
    axes.barh(range(len(rows)), [row.ratio for row in rows], color="tab:blue", label="times as fast")
    for k, row in enumerate(rows):
        if row.target is not None:
            axes.plot([row.target] * 2, [k - 0.4, k + 0.4], color="black", label="target" if k == 0 else None)
    axes.set_yticks(range(len(rows)), [f"{row.section}: {row.what}" for row in rows], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("bridle is so many times as fast (black: target)")
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "machine": platform.machine(), "cores": str(os.cpu_count())}
    for name in ("bridle-nlp", "numpy", "highspy", "ortools", "pytoulbar2", "pynini", "torch", "pytorch-crf"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def write(report: Report, out: Path, took: float) -> None:
    """results.json and the plots. Without matplotlib there are no plots, and a note says so."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = [{**asdict(row), "met": row.met} for row in report.rows]
    stored = {
        "seconds": took,
        "quick": report.quick,
        "versions": _versions(),
        "rows": rows,
        "proved": report.proved,
        "wrong": report.wrong,
        "notes": report.notes,
        "data": report.data,
    }
    (out / "results.json").write_text(json.dumps(stored, indent=1, default=float) + "\n", encoding="utf-8")
    try:
        import matplotlib
    except ImportError:
        report.notes.append("matplotlib is not installed: no plots")
        return
    matplotlib.use("Agg")
    if report.rows:
        plot_ratios(report.rows, out / "ratios.png")
    if "growth" in report.data:
        plot_growth(report.data["growth"], out / "growth.png")
    if "many" in report.data:
        plot_proved(report.data["many"], out / "proved.png")
    if "papers" in report.data:
        plot_papers(report.data["papers"], out / "papers.png")


def main() -> int:
    parser = argparse.ArgumentParser(description="Bridle against its peers: same inputs, same optimum, one thread.")
    parser.add_argument("--quick", action="store_true", help="small sets, under a minute; figures are rough")
    names = ", ".join(SECTIONS)
    parser.add_argument("--only", action="append", choices=SECTIONS, metavar="NAME", help=f"one of {names}; repeatable")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="folder for JSON and plots")
    seconds = "for peers in `many`; 0: leave them out (default: 30; quick: 2)"
    parser.add_argument("--limit", type=float, metavar="SECONDS", help=seconds)
    wanted = "folder with citations-cora and citations-anystyle, for `many` (default: $BRIDLE_DATA)"
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR", help=wanted)
    chosen = parser.parse_args()
    limit = (2.0 if chosen.quick else 30.0) if chosen.limit is None else chosen.limit
    console = Console(width=None if sys.stdout.isatty() else 140)
    report = Report(chosen.quick, limit, None if chosen.data is None else Path(chosen.data))
    report.data["where"] = where()
    begin = time.perf_counter()
    for name in chosen.only or SECTIONS:
        console.print(f"[dim]{name} ...[/dim]")
        try:
            SECTIONS[name](report)
        except Exception as error:  # the other sections are still worth running
            traceback.print_exc()
            report.wrong.append(f"{name} failed: {type(error).__name__}: {error}".splitlines()[0])
    took = time.perf_counter() - begin
    write(report, chosen.out, took)
    show(report, console)
    console.print(f"{took:.0f} s; figures in {chosen.out}", highlight=False)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
