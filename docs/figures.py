"""Update the figures of docs/how_it_works.md from the JSON files of the benchmarks.

    BRIDLE_SIMD=avx2 python benchmarks/run.py --data DIR --out benchmarks/out/avx2
    BRIDLE_SIMD=avx2 python benchmarks/train.py --data DIR --json benchmarks/out/avx2/train.json
    BRIDLE_SIMD=avx2 python benchmarks/tag.py --data DIR --json benchmarks/out/avx2/tag.json
    (the same with avx512, if the processor has it)
    python docs/figures.py benchmarks/out/avx2 [benchmarks/out/avx512]

Without train.json and tag.json only the table of hard rule sets is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "how_it_works.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
HARD, END_HARD = "<!-- hard rule sets -->", "<!-- end of hard rule sets -->"
KINDS = {"all": "all", "few": "few, as with a trained model", "flat": "no transition scores"}


def _time(ms: float) -> str:
    return f"{ms * 1e3:,.1f} us" if ms < 1 else f"{ms:,.2f} ms" if ms < 1e3 else f"{ms / 1e3:,.2f} s"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}x" if value < 100 else f"{value:,.0f}x"


def _wanted(row: dict[str, Any]) -> str:
    if row["target"] is None:
        return ""
    return f"{row['sense']} {row['target']:,g}x" + ("" if row["met"] else " (missed)")


def _where(place: dict[str, Any]) -> str:
    return f"{place['processor']}, {place['cores']} virtual cores, tier {place['tier']}, load {place['load']:.2f}"


def _key(row: dict[str, Any]) -> tuple[str, str]:
    """Return the key of a row; which model of a peer was the fastest may differ."""
    what = row["what"]
    return row["section"], what.partition(" (")[0] if "fastest" in what else what


def _compared(runs: list[dict[str, Any]]) -> list[str]:
    """Rows of the decoding benchmarks; those of the first run, with the ratios of all."""
    heads = "".join(f" ratio, {run['data']['where']['tier']} |" for run in runs)
    lines = [f"| set | against | Bridle | other |{heads} wanted |", "|---|---|---|---|" + "---|" * len(runs) + "---|"]
    others = [{_key(row): row["ratio"] for row in run["rows"]} for run in runs[1:]]
    for row in runs[0]["rows"]:
        key = _key(row)
        ratios = "".join(f" {_ratio(value)} |" for value in [row["ratio"], *(other.get(key) for other in others)])
        shown = f"| {row['section']} | {row['what']} | {_time(row['ours_ms'])} | {_time(row['other_ms'])} |"
        lines.append(f"{shown}{ratios} {_wanted(row)} |")
    return lines


def _form(value: float, unit: str) -> str:
    if unit == "s":
        return f"{1e3 * value:.1f} ms" if value < 1 else f"{value:,.2f} s"
    if unit in ("tokens/s", "MB", "weights"):
        return f"{value:,.0f} {unit}"
    return f"{value:,.2f}{' %' if unit == '%' else ''}"


def _versus(runs: list[dict[str, Any]]) -> list[str]:
    """Rows of training or tagging against CRFsuite."""
    heads = "".join(f" {run['where']['tier']} |" for run in runs)
    lines = [f"| what | Bridle | CRFsuite |{heads} wanted |", "|---|---|---|" + "---|" * len(runs) + "---|"]

    def compared(row: dict[str, Any]) -> str:
        return _ratio(row["compared"]) if row["by"] == "x" else f"{row['compared']:+.2f} {row['by']}"

    for row, *others in zip(*(run["rows"] for run in runs), strict=True):
        ours, theirs = _form(row["ours"], row["unit"]), _form(row["theirs"], row["unit"])
        shown = "".join(f" {compared(run)} |" for run in [row, *others])
        wanted = "" if row["target"] is None else f"{row['sense']} {row['target']:g} {row['by']}".replace(" x", "x")
        missed = " (missed)" if row["met"] is False else ""
        lines.append(f"| {row['what']} | {ours} | {theirs} |{shown} {wanted}{missed} |")
    return lines


def _peak(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| tier | labels | columns that may win | backward | path | arithmetic | read | share of the limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        share = f"{max(row['peak'], row['read']) / row['scan']:.0%}" if row["kind"] == "all" else ""
        figures = " | ".join(f"{row[name]:.1f}" for name in ("scan", "follow", "peak", "read"))
        lines.append(f"| {row['tier']} | {row['m']} | {KINDS[row['kind']]} | {figures} | {share} |")
    return lines


def _hard(run: dict[str, Any]) -> list[str]:
    """Families of hard rule sets: times of Bridle, and the share that each solver proved."""
    many = run["data"]["many"]
    solvers = dict.fromkeys(name for family in many["families"].values() for name in family["solvers"])
    peers = [name for name in solvers if name != "bridle"]
    soon = f"below the best after {1e3 * many['soon']:g} ms"
    lines = [
        "| family | mean | worst | proved |" + "".join(f" {name} |" for name in peers) + f" {soon} |",
        "|---|---|---|---|" + "---|" * len(peers) + "---|",
    ]
    for name, family in many["families"].items():
        ours = family["solvers"]["bridle"]
        took, cells = [1e3 * s for s in ours["seconds"]], [name]
        cells += [_time(sum(took) / len(took)), _time(max(took)), _share(ours)]
        cells += [_share(family["solvers"].get(peer)) for peer in peers]
        gaps = family.get("soon", {}).get("gaps")
        nothing = family.get("soon", {}).get("nothing", 0)
        gap = f"{100 * sum(gaps) / len(gaps):.2f} %, worst {100 * max(gaps):.2f} %" if gaps else ""
        cells.append(gap + (f", nothing found for {nothing}" if nothing else ""))
        lines.append("| " + " | ".join(cells) + " |")
    limits = f"{many['limit']:g} s for Bridle, {many['peer_limit']:g} s for the others"
    return [*lines, "", f"Limits for one sequence: {limits}. {_where(run['data']['where'])}."]


def _share(solver: dict[str, Any] | None) -> str:
    """Format the number of proved optima, and their mean time."""
    if solver is None:
        return ""
    done = [s for s, proved in zip(solver["seconds"], solver["proved"], strict=True) if proved]
    mean = f", {_time(1e3 * sum(done) / len(done))}" if done else ""
    return f"{len(done)} of {len(solver['proved'])}{mean}"


def tables(folders: list[Path]) -> str:
    """All tables, each with where it was measured."""

    def stored(name: str) -> list[dict[str, Any]]:
        return [json.loads((folder / name).read_text(encoding="utf-8")) for folder in folders]

    runs, train, tag = stored("results.json"), stored("train.json"), stored("tag.json")
    parts = ["Decoding (times are those of the first tier):", "", *_compared(runs), ""]
    parts += [f"- {_where(run['data']['where'])}" for run in runs]
    parts += ["", "Training on CoNLL-2000 with 19 templates, compared with python-crfsuite:", "", *_versus(train), ""]
    parts += ["Tagging the test set of CoNLL-2000, from texts to labels, with the same weights:", "", *_versus(tag), ""]
    if "peak" in runs[0]["data"]:
        parts += [
            "The Viterbi kernel, in nanoseconds per token: its two passes, m x m additions and maxima at full",
            "speed, and m x m transition scores read once from memory:",
            "",
        ]
        parts += [*_peak(runs[0]["data"]["peak"]), ""]
    return "\n".join(parts)


def _between(text: str, begin: str, end: str, content: str) -> str:
    """The text with something else between two marks."""
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    """The command."""
    folders = [Path(argument) for argument in sys.argv[1:]]
    text = PAGE.read_text(encoding="utf-8")
    if all((folder / name).is_file() for folder in folders for name in ("train.json", "tag.json")):
        text = _between(text, BEGIN, END, tables(folders))
    first = json.loads((folders[0] / "results.json").read_text(encoding="utf-8"))
    if "many" in first["data"]:
        text = _between(text, HARD, END_HARD, "\n".join(_hard(first)))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
