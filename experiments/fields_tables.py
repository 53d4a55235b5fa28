"""Tables and charts of the recipes about fields: ours beside the paper's, and the evidence why they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.fields import ALL, EVERY, PLAIN, TOKEN_FIGURES, Figures, Tally
from experiments.tables import Cell, Chart, Report, Row, Table

SHOWN = (*TOKEN_FIGURES, "segment F1", "exact")
Paper = Mapping[str, Sequence[float]]  # name of a row -> its TOKEN_FIGURES

CLAIM = (
    "rules learned from the training data, as soft constraints in two stages, beat Viterbi, and all of them together "
    "are best. An effect counts as seen if accuracy moves the same way and the share of corrected errors is at least "
    "half of the paper's."
)


def paper_table(
    title: str, tally: Tally, paper: Paper, peers: Mapping[str, Sequence[Figures]], remark: str = ""
) -> Table:
    """A table of the paper, by two stages as there; peers: figures of other programs in the same trials."""
    rows = [Row(PLAIN, _cells([tally.mean(PLAIN, "plain", figure) for figure in SHOWN], paper.get(PLAIN)))]
    unseen = []
    for name in tally.evidence:
        seen, note = judged(tally, name, paper)
        cells = _cells([tally.mean(name, "two stages", figure) for figure in SHOWN], paper.get(name))
        rows.append(Row(name, cells, seen, note))
        unseen += [_why(tally, name)] if seen is False else []
    for name, result in peers.items():
        means = [sum(item[figure] for item in result) / len(result) for figure in SHOWN]
        rows.append(Row(name, _cells(means, None), None, f"{means[6] - tally.mean(PLAIN, 'plain', 'A'):+.2f} points"))
    analysis = "\n\n".join(part for part in (_analysis(unseen, tally, paper), remark) if part)
    return Table(title, SHOWN, rows, CLAIM, analysis)


def _cells(ours: Sequence[float], paper: Sequence[float] | None) -> list[Cell]:
    theirs = [*paper, None, None] if paper else [None] * len(ours)
    return [Cell(a, b) for a, b in zip(ours, theirs, strict=True)]


def judged(tally: Tally, name: str, paper: Paper) -> tuple[bool | None, str]:
    """Is the paper's effect on accuracy seen? In points, and as a share of the errors of plain Viterbi."""
    gain, error = tally.gain(name, "two stages")
    share = gain / max(100 - tally.mean(PLAIN, "plain", "A"), 1e-9)
    note = f"A {gain:+.2f} ± {error:.2f}, {share:+.0%} of the errors"
    if name not in paper:
        return None, note
    theirs = paper[name][6] - paper[PLAIN][6]
    their_share = theirs / (100 - paper[PLAIN][6])
    seen = bool(gain * theirs > 0 and abs(share) >= abs(their_share) / 2)
    return seen, f"{note} ({theirs:+.2f}, {their_share:+.0%})"


def _why(tally: Tally, name: str) -> str:
    output = {what: tally.told(name, what) for what in tally.evidence[name][0]}
    if not output["rules"]:
        return (
            f"- {name}: no rule of this kind was found. It would have to hold in 95 % of the training sequences; rules "
            "of State Change need marks among the tokens besides."
        )
    return (
        f"- {name}: {output['rules']:.0f} rule(s); gold itself breaks one in {output['gold breaks']:.1f} % of the test "
        f"sequences, Viterbi's labels do in {output['plain breaks']:.1f} %, and these sequences hold "
        f"{output['reach']:.0f} % of the wrong tokens: no decoder with these rules can correct the others. "
        f"{tally.mean(name, 'two stages', 'better'):.0f} sequences got better, "
        f"{tally.mean(name, 'two stages', 'worse'):.0f} worse."
    )


def _analysis(unseen: Sequence[str], tally: Tally, paper: Paper) -> str:
    if not unseen:
        return ""
    ours, theirs = tally.mean(PLAIN, "plain", "A"), paper[PLAIN][6]
    head = (
        f"Not seen, in sign or size. Our Viterbi is at {ours:.2f} where the paper's is at {theirs:.2f}, so there is "
        "less to correct. What the rules can reach:"
    )
    return "\n".join([head, "", *unseen])


def ways_table(title: str, tally: Tally) -> Table:
    """Compare the ways to use the same rules, and what they are worth on gold."""
    used = _ways(tally)
    columns = (
        "rules",
        "gold breaks one, %",
        "Viterbi breaks one, %",
        "wrong tokens there, %",
        *(f"A, {way}" for way in used),
        "ms, two stages",
        "ms, search",
        "proved, two stages, %",
    )
    plain = tally.mean(PLAIN, "plain", "A")
    rows = [Row(PLAIN, [Cell(None)] * 4 + [Cell(plain)] * len(used) + [Cell(None)] * 3)]
    for name in tally.evidence:
        output = [Cell(tally.told(name, what), digits=1) for what in ("rules", "gold breaks", "plain breaks", "reach")]
        result = [Cell(tally.mean(name, way, "A")) for way in used]
        size = tally.mean(name, "search", "sequences")
        times = [Cell(1000 * tally.mean(name, way, "seconds") / size, digits=3) for way in ("two stages", "search")]
        gains = {way: tally.gain(name, way) for way in used}
        best = max(gains, key=lambda way: gains[way][0])
        note = f"best: {best}, A {gains[best][0]:+.2f} ± {gains[best][1]:.2f}"
        seen = gains["two stages"][0] > 0 and gains["search"][0] > 0 if name in (ALL, EVERY) else None
        proved = Cell(tally.mean(name, "two stages", "proved"), digits=1)
        rows.append(Row(name, [*output, *result, *times, proved], seen, note))
    claim = "all constraints together beat Viterbi. (Seen: in two stages and in one search with the same penalties.)"
    return Table(title, columns, rows, claim, "\n".join(_why(tally, row.name) for row in rows if row.seen is False))


def _ways(tally: Tally) -> list[str]:
    """The ways to use rules that were tried."""
    return list(tally.figures[next(iter(tally.evidence))])


def gains_chart(title: str, tally: Tally, paper: Paper) -> Chart:
    """Gains in accuracy over Viterbi."""
    names = [name for name in tally.evidence if name in paper or not paper]
    series = {way: [tally.gain(name, way)[0] for name in names] for way in _ways(tally)}
    if paper:
        series["paper"] = [paper[name][6] - paper[PLAIN][6] for name in names]
    return Chart(title, names, series, label="points of accuracy over Viterbi")


def add_tables(
    report: Report, said: str, title: str, tally: Tally, paper: Paper, peers: dict[str, list[Figures]], note: str = ""
) -> None:
    """The paper's table, the ways to use the rules, and the picture of one trial."""
    report.tables.append(paper_table(title, tally, paper, peers, note))
    report.tables.append(ways_table(f"{said}: ways to use the rules", tally))
    report.charts.append(gains_chart(said, tally, paper))
