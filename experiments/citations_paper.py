"""`citations-paper`: references as in Fersini et al. (2012): delimiters are labels, stage 2 has no limit of time.

Equation (19) reads e[., d], so a delimiter d is a label: commas and stops are labelled d, and a first-order model has
forgotten the field before them. Figures are about the other tokens. Table 4 is trained on 150 references. Rules are
all that hold in 95 % of the sequences and not by chance, without a choice among them. tau is not tuned.
"""

from __future__ import annotations

from collections import Counter

from bridle.processor import simd
from experiments.base import Recipe, Run
from experiments.citations import FEW, TABLE_3, TABLE_4, anystyle, parscit, references
from experiments.fields import DELIMITER, EVERY, Fields, Setting, Tally, Taught, rule_sets, shares, trial
from experiments.fields_tables import add_tables
from experiments.tables import Cell, Report, Row, Table

TAU = 0.95
MARKS = {",", "."}
SAID = {"words": "words only", "delimiters": "delimiters labelled d"}
TABLE_1 = {  # tokens of each label: Cora for training, for testing, Cora-Real
    "author": (1948, 801, 12071),
    "title": (2585, 1103, 12326),
    "publisher": (226, 61, 1567),
    "booktitle": (1414, 477, 6670),
    "date": (452, 187, 1922),
    "journal": (402, 219, 1478),
    "volume": (216, 104, 1181),
    "tech": (173, 57, 817),
    "institution": (236, 71, 1372),
    "pages": (500, 208, 3048),
    "editor": (151, 74, 2767),
    "location": (208, 95, 1956),
    "note": (116, 17, 631),
}


def delimited(data: Fields) -> Fields:
    """Label commas and stops as delimiters."""
    labels = [
        [DELIMITER if word in MARKS else label for word, label in zip(x["word"], y, strict=True)]
        for x, y in zip(data.X, data.y, strict=True)
    ]
    return Fields(data.X, labels)


class CitationsPaper(Recipe):
    """References in the paper's own settings."""

    name = "citations-paper"
    title = "References in the settings of the paper (Fersini, Messina & Felici 2012)"

    def run(self, run: Run) -> Report:
        report = Report(self.name, self.title)
        path = run.file("citations-cora", "tagged_references.txt")
        cora = {"words": references(path, "words"), "delimiters": delimited(references(path, "punctuation"))}
        elsewhere = {
            (name, how): read(run, "words") if how == "words" else delimited(read(run, "punctuation"))
            for name, read in (("AnyStyle", anystyle), ("ParsCit", parscit))
            for how in SAID
        }
        n, splits = len(cora["words"]), 2 if run.quick else 10
        sides = [shares(cora["words"], [round(0.7 * n), n - round(0.7 * n)], run.seed + k) for k in range(splits)]
        sets = {name: how for name, how in rule_sets(select="all").items() if name != EVERY}
        setting = Setting(FEW, sets, seed=run.seed, threads=run.threads, limits={"max_memory": 4_000_000_000})
        report.tables.append(_table_1(cora["words"], sides[0], elsewhere["AnyStyle", "words"]))
        for how, said in SAID.items():
            tally = Tally()
            for k, (inside, outside) in enumerate(sides):
                run.say(f"Cora, {said}: split {k + 1} of {splits}")
                self._trial(cora[how].part(inside), cora[how].part(outside), setting, tally)
            add_tables(report, f"Cora, {said}", f"Table 3: Cora, {said}", tally, TABLE_3, {})
            report.figures[f"Cora, {said}"] = tally.to_dict()
        step = 20 if run.quick else 10
        for (name, how), test in elsewhere.items():
            tally, there = Tally(), f"Cora to {name}, {SAID[how]}"
            run.say(there)
            some = test.part(range(0, len(test), step if name == "AnyStyle" else 1))
            self._trial(cora[how].part(sides[0][0][: round(0.3 * n)]), some, setting, tally)
            add_tables(report, there, f"Table 4: {there}", tally, TABLE_4, {})
            report.figures[there] = tally.to_dict()
        here = simd()
        report.settings |= {
            "features": ", ".join(FEW),
            "delimiters": "commas and stops are tokens with the label d; figures leave them out",
            "rules": "all that apply to 10 sequences, hold in 95 % of them, and not by chance; cost (30)",
            "tau": f"{TAU}, not tuned; no limit of time or states; 4 GB of memory for a reference",
            "splits of Cora": f"{splits}, {round(0.7 * n)} references for training; Table 4: {round(0.3 * n)} of those "
            "of the first split",
            "AnyStyle": f"every {step}th reference",
            "processor": f"{here.processor}, tier {here.tier}; times are those of a busy machine",
            "seed": run.seed,
        }
        return report

    def _trial(self, train: Fields, test: Fields, setting: Setting, tally: Tally) -> None:
        taught = Taught.by(train, setting)
        chosen = {name: {"tau": TAU, "factor": 1.0} for name in setting.sets}
        trial(taught, chosen, test, tally, ways=("two stages", "search", "hard"))


def _table_1(cora: Fields, sides: list[list[int]], elsewhere: Fields) -> Table:
    parts = [cora.part(sides[0]), cora.part(sides[1]), elsewhere]
    counts = [Counter(label for y in part.y for label in y) for part in parts]
    rows = [
        Row(label, [Cell(count[label], theirs) for count, theirs in zip(counts, paper, strict=True)])
        for label, paper in TABLE_1.items()
    ]
    columns = ["Cora, train", "Cora, test", "AnyStyle (Cora-Real)"]
    return Table("Table 1: tokens of each label, words only, in the first split", columns, rows)
