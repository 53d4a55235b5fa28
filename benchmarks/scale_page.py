"""The page of the trials at scale: sections of figures as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any

from scale_costs import FORMATS, OLD, USES, Costs, costs_of, rate_of, told_rate, told_time

TITLES = {
    "files": "Kill trials: `bridle tag --resume`",
    "spark": "Kill trials: Spark",
    "ray": "Kill trials: Ray",
    "rate": "Tokens per second",
    "memory": "Memory",
    "startup": "Start-up",
}
WAYS = {
    "library": "`Tagger.decode`, lists",
    "arrow": "`bridle.arrow.Tag`, record batches",
    "parquet": "`bridle tag`, Parquet",
    "jsonl": "`bridle tag`, JSON lines",
    "conll": "`bridle tag`, CoNLL",
}
FASTER = {"parquet": 5.0, "jsonl": 3.0, "conll": 3.0}  # than version 0.1, with two threads
NATIVE = 0.8  # of the rate of the library, for the Arrow path
GROWTH = 1.2  # of peak memory, for ten times the tokens
STARTS = (
    ("spark", "worker_s", "Python worker of Spark, until its first row is tagged"),
    ("ray", "bare_actor_s", "actor of Ray that does nothing"),
    ("ray", "actor_s", "actor of Ray, until its first row is tagged"),
)
CORES = (1, 2, 16, 64)
BILLION = 1e9
BEFORE = """\
Version 0.1 is commit {commit} (`benchmarks/baselines/tag.json`), measured under a load of {load:.0f}. Its rates are per
second of the processor; one thread does nearly all of its work."""


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A table in Markdown."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def verdict(value: float, target: float, sense: str) -> str:
    """Format the target of a value, and say if it was missed."""
    met = value >= target if sense == ">=" else value <= target
    return f"{sense} {target:g}x" + ("" if met else " (missed)")


def kills(section: dict[str, Any]) -> list[str]:
    """Trials with what was killed and what came out."""
    heads = ["trial", "kills", "rows", "lost", "doubled", "wrong", "unknown", "seconds"]
    names = heads[2:-1]
    rows = [
        [trial["trial"], trial["kills"], *(f"{trial[name]:,}" for name in names), f"{trial['seconds']:.0f}"]
        for trial in section["trials"]
    ]
    return table(heads, rows)


def rate(section: dict[str, Any]) -> list[str]:
    """Rates of all ways, then the ratios that were promised."""
    rates, lines = section["rates"], list[str]()
    for name in dict.fromkeys(rate["name"] for rate in rates):
        for rules in (False, True):
            heads = [f"{name}, {'with' if rules else 'no'} rules", *USES, "per second of the processor"]
            rows = []
            for way, shown in WAYS.items():
                chosen = {"name": name, "way": way, "rules": rules}
                cells = [told_rate(rate_of(rates, **chosen, use=use)) for use in USES]
                cells.append(told_rate(rate_of(rates, "tokens_per_cpu_second", **chosen, use="one core")))
                rows.append([shown, *cells])
            lines += [*table(heads, rows), ""]
    return [*lines, *compared(section)]


def compared(section: dict[str, Any]) -> list[str]:
    """The Arrow path beside the library, and files beside version 0.1."""
    rates, rows = section["rates"], []
    for rate in (rate for rate in rates if rate["way"] == "arrow"):
        base = rate_of(rates, **{**{key: rate[key] for key in ("name", "use", "rules")}, "way": "library"})
        if base:
            what = f"{WAYS['arrow']} / {WAYS['library']}: {rate['name']}, {rate['use']}{', rules' * rate['rules']}"
            ratio = rate["tokens_per_second"] / base
            rows.append([what, f"{ratio:.2f}x", verdict(ratio, NATIVE, ">=")])
    for format in FORMATS:
        chosen = {"name": "references", "use": "two threads", "rules": False}
        new = rate_of(rates, way=format, **chosen)
        stored = section.get("baseline", {}).get("rates", [])
        first = rate_of(stored, "tokens_per_cpu_second", way=f"{format} {OLD}", **chosen)
        if new and first:
            what = f"{WAYS[format]} / version 0.1, per second of the processor: references, two threads"
            rows.append([what, f"{new / first:.2f}x", verdict(new / first, FASTER[format], ">=")])
    lines = [*table(["ratio", "measured", "wanted"], rows), ""]
    if before := section.get("baseline"):
        lines.append(BEFORE.format(commit=before["commit"][:10], load=before["where"]["load"]))
    return lines


def memory(section: dict[str, Any]) -> list[str]:
    """Peaks for two lengths, then what a model adds."""
    first = section["peaks"][0]["tokens"]
    heads = ["peak memory", *(f"{told_rate(round(count, -4))} tokens" for count in first), "ratio", "wanted"]
    rows = [
        [
            peak["what"],
            *(f"{mb:.0f} MB" for mb in peak["peak"]),
            f"{peak['ratio']:.2f}x",
            verdict(peak["ratio"], GROWTH, "<="),
        ]
        for peak in section["peaks"]
    ]
    sizes = [
        [model["model"], f"{model['file']:.1f} MB", f"{model['before']:.0f} MB", f"{model['with']:.0f} MB"]
        for model in section["models"]
    ]
    before = "process before the model is loaded"
    return [*table(heads, rows), "", *table(["model", "file", before, "process with the model"], sizes)]


def startup(section: dict[str, Any], trials: dict[str, Any] | None = None) -> list[str]:
    """Steps of a worker, and the command."""
    steps = section["worker"]
    names = {
        "python": "start of Python",
        "import": "import of PyArrow and `bridle.arrow`",
        "load": "load of the model, compilation of the rules, first row",
        "batch": "first batch, 4,096 rows",
    }
    rows = [[names[name], told_time(seconds)] for name, seconds in steps.items()]
    rows.append(["`bridle tag` on one row, as a whole", told_time(section["command"]["seconds"])])
    rows += [[what, told_time(seconds)] for what, seconds in (trials or {}).items()]
    return table(["step", "time"], rows)


def worked(costs: Costs) -> list[str]:
    """A billion tokens on some cores: computed."""
    rows = []
    for cores in CORES:
        how = "measured rate" if cores <= 2 else "computed"
        times = (costs.seconds(BILLION, cores), costs.seconds_of_threads(BILLION, cores))
        rows.append([cores, *map(told_time, times), how])
    return table(["cores", "a process per core", "one process, a thread per core", "from"], rows)


def figures(costs: Costs) -> list[str]:
    """Format the figures of the cost model."""
    rows = [
        ["start-up of a process", told_time(costs.startup)],
        ["one core, alone", f"{told_rate(costs.single)} tokens/s"],
        ["one core, while the other works too (*busy*)", f"{told_rate(costs.busy)} tokens/s"],
        ["one process with two threads", f"{told_rate(costs.threads)} tokens/s"],
        ["*serial* share of a process", f"{costs.serial:.1%}"],
    ]
    if isfinite(costs.limit):
        rows.append(
            ["thread that reads or writes, whichever is slower (*limit*)", f"{told_rate(costs.limit)} tokens/s"]
        )
    return table(["Parquet, references, three rules", "measured"], rows)


SHOWN: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    **dict.fromkeys(("files", "spark", "ray"), kills),
    "rate": rate,
    "memory": memory,
    "startup": startup,
}


def starts(sections: dict[str, Any]) -> dict[str, float]:
    """Start-up times that Spark and Ray measured besides their trials."""
    startups = {}
    for name, key, what in STARTS:
        if seconds := sections.get(name, {}).get("measured", {}).get(key):
            startups[what] = float(seconds)
    return startups


def page(sections: dict[str, Any], command: str) -> str:
    """The whole page."""
    lines = [
        "# Trials at scale",
        "",
        f"Made by `{command}`. The page [A billion tokens](../scale.md) explains the figures.",
    ]
    for name, title in TITLES.items():
        lines += ["", f"### {title}", ""]
        if name not in sections:
            lines.append(f"Not run yet: `{command} --only {name}`.")
            continue
        more = startup(sections[name], starts(sections)) if name == "startup" else SHOWN[name](sections[name])
        lines += [*more, "", place(sections[name]["where"])]
    if costs := costs_of(sections):
        lines += ["", "### Cost on N cores", "", *figures(costs), "", "A billion tokens:", "", *worked(costs)]
        lines += ["", "![Tokens per second on N cores](scale.svg)"]
    return "\n".join(lines) + "\n"


def place(where: dict[str, Any]) -> str:
    """Describe the machine that measured a section."""
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    machine = f"{where['processor']}, {where['cores']} virtual cores, tier {where['tier']}"
    return f"{machine}, load {where['load']:.2f} at the start; {versions}."
