"""Write the figures of docs/how_it_works.md anew, from the JSON files of the benchmarks.

    BRIDLE_SIMD=avx2 python benchmarks/run.py --out benchmarks/out/avx2
    BRIDLE_SIMD=avx2 python benchmarks/train.py --data DIR --json benchmarks/out/avx2/train.json
    BRIDLE_SIMD=avx2 python benchmarks/tag.py --data DIR --json benchmarks/out/avx2/tag.json
    (the same with avx512, if the processor has it)
    python docs/figures.py benchmarks/out/avx2 [benchmarks/out/avx512]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "how_it_works.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
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
    """What a row is about; which model of a peer was the fastest may differ."""
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
        shown = "".join(f" {compared(one)} |" for one in [row, *others])
        wanted = "" if row["target"] is None else f"{row['sense']} {row['target']:g} {row['by']}".replace(" x", "x")
        missed = " (missed)" if row["met"] is False else ""
        lines.append(f"| {row['what']} | {ours} | {theirs} |{shown} {wanted}{missed} |")
    return lines


def _peak(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| tier | labels | columns that may win | backward | path | arithmetic | read | share of the limit |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        share = f"{max(row['peak'], row['read']) / row['scan']:.0%}" if row["kind"] == "all" else ""
        figures = " | ".join(f"{row[name]:.1f}" for name in ("scan", "follow", "peak", "read"))
        lines.append(f"| {row['tier']} | {row['m']} | {KINDS[row['kind']]} | {figures} | {share} |")
    return lines


def tables(folders: list[Path]) -> str:
    """All tables, each with where it was measured."""

    def stored(name: str) -> list[dict[str, Any]]:
        return [json.loads((folder / name).read_text(encoding="utf-8")) for folder in folders]

    runs, train, tag = stored("results.json"), stored("train.json"), stored("tag.json")
    parts = ["Decoding; times are those of the first tier:", "", *_compared(runs), ""]
    parts += [f"- {_where(run['data']['where'])}" for run in runs]
    parts += ["", "Training on CoNLL-2000, 19 templates, beside python-crfsuite:", "", *_versus(train), ""]
    parts += ["Tagging its test set, texts to labels, the same weights:", "", *_versus(tag), ""]
    if "peak" in runs[0]["data"]:
        parts += ["The Viterbi kernel, nanoseconds per token: its two passes, m x m additions and maxima at full",
                  "speed, and m x m transition scores read once from where they lie:", ""]  # fmt: skip
        parts += [*_peak(runs[0]["data"]["peak"]), ""]
    return "\n".join(parts)


def main() -> None:
    """The command."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    made = tables([Path(argument) for argument in sys.argv[1:]])
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
