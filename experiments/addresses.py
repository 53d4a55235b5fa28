"""`addresses`: fields of US postal addresses with learned rules; Fersini et al. (2012), table 5, and usaddress's data.

US50: 51 addresses for training, 690 for testing (minus those that are also in training). Its labels 3, 4 and 8 are the
street; label 2 (boxes and suites) is in the test data only, so no model can know it: its tokens count as wrong in A.
"""

from __future__ import annotations

from collections import Counter

from bridle import data
from bridle.errors import FileError
from bridle.processor import simd
from experiments.base import Recipe, Run
from experiments.fields import (
    ALL,
    EVERY,
    PLAIN,
    SAID,
    TIES,
    Fields,
    Setting,
    Tally,
    Taught,
    Tokens,
    crfsuite_on,
    figures,
    peers_of,
    rule_sets,
    trial,
    tuned,
)
from experiments.fields_tables import Paper, add_tables
from experiments.tables import Cell, Report, Row, Table

TABLE_5: Paper = {
    PLAIN: (89.48, 90.06, 86.57, 89.79, 80.76, 80.77, 80.80),
    "Adjacency": (89.61, 90.31, 86.91, 89.92, 81.24, 81.29, 81.24),
    "Precedence": (90.74, 90.42, 87.52, 90.40, 81.57, 81.74, 82.12),
    "State Change": (90.02, 91.05, 87.07, 90.31, 82.66, 82.80, 82.91),
    "Begin-End": (90.00, 90.89, 87.95, 90.95, 82.50, 82.95, 83.25),
    "Presence and Precedence": (90.63, 91.13, 87.93, 90.99, 82.42, 82.19, 82.23),
    ALL: (91.23, 91.90, 88.75, 91.90, 83.39, 83.90, 84.55),
}
TABLE_2 = {  # tokens of each label, for training and for testing
    "Street": (228, 1782),
    "City": (61, 866),
    "Civic Number": (45, 597),
    "State": (50, 689),
    "Zip Code": (50, 689),
}
US50_LABELS = {
    "1": "Civic Number",
    "2": "Box",
    "3": "Street",
    "4": "Street",
    "5": "City",
    "6": "State",
    "7": "Zip Code",
    "8": "Street",
}
FEW = ("lower[0]", "label[-1]")
RELEASED = (
    "The model that usaddress releases was trained on data of its own, which may hold these very addresses (it has "
    "nearly all of its published training addresses right too), so it cannot be compared with ours; compare the row "
    "with its features and the same training data."
)


def us50(run: Run, part: str, tokens: Tokens) -> Fields:
    """Addresses with the paper's five labels, and Box."""
    path = run.file("addresses-us50", f"us50.{part}.tagged")
    X, y = data.load(path, "segments", tokens=tokens)
    if strange := {label for labels in y for label in labels} - US50_LABELS.keys():
        got, wanted = ", ".join(sorted(strange)), ", ".join(US50_LABELS)
        raise FileError("unknown labels", got=got, wanted=wanted, where=str(path))
    return Fields(X, [[US50_LABELS[label] for label in labels] for labels in y])


def usaddress(run: Run, part: str) -> Fields:
    """Hand-labelled addresses of the usaddress project."""
    return Fields(*data.load(run.file("addresses-usaddress", f"{part}_labeled.xml.gz"), "parserator"))


def usaddress_says(train: Fields, test: Fields) -> dict[str, list[list[str]]]:
    """Return labels by usaddress: its own model, and CRFsuite with its features on the same training data.

    The result is empty if it is not installed.
    """
    try:
        import usaddress as peer
    except ImportError:
        return {}
    seen, asked = ([peer.tokens2features(x["word"]) for x in part.X] for part in (train, test))
    result = {"usaddress as released (its own training data)": [list(peer.TAGGER.tag(items)) for items in asked]}
    same = crfsuite_on(seen, train.y, asked)
    return result if same is None else {"CRFsuite, usaddress's features, same training data": same, **result}


def _table_2(train: Fields, test: Fields) -> Table:
    counts = [Counter(label for y in part.y for label in y) for part in (train, test)]
    rows = [
        Row(label, [Cell(count[label], theirs) for count, theirs in zip(counts, paper, strict=True)])
        for label, paper in TABLE_2.items()
    ]
    return Table("Table 2: tokens of each label, words only", ["US50, train", "US50, test"], rows)


class Addresses(Recipe):
    """Postal addresses."""

    name = "addresses"
    title = "Addresses: soft rules learned from data (Fersini, Messina & Felici 2012)"

    def run(self, run: Run) -> Report:
        report = Report(self.name, self.title)
        sets = rule_sets()
        setting = Setting(sets=sets, folds=3 if run.quick else 5, seed=run.seed, threads=run.threads)
        sizes = {}
        for tokens in list(SAID)[: 1 if run.quick else None]:
            train, test = us50(run, "train", tokens), us50(run, "test", tokens)
            sizes["US50"] = len(train), len(test)
            if tokens == "words":
                report.tables.append(_table_2(train, test))
            self._one(run, report, train, test.without(train), setting, f"US50, {SAID[tokens]}")
            if tokens == "words" and not run.quick:
                few = Setting(FEW, {name: sets[name] for name in sets if name != EVERY}, 5, run.seed, run.threads)
                self._one(run, report, train, test.without(train), few, f"US50, {SAID[tokens]}, few features")
        train, test = usaddress(run, "train"), usaddress(run, "test")
        sizes["usaddress"] = len(train), len(test)
        if run.quick:
            train = train.part(range(0, len(train), 3))
        fewer_folds = Setting(sets=sets, folds=2 if run.quick else 3, seed=run.seed, threads=run.threads)
        self._one(run, report, train, test.without(train), fewer_folds, "usaddress")
        here = simd()
        report.settings |= {
            "ties": TIES,
            "sizes": sizes,
            "features": f"the set `fields`; few features: {', '.join(FEW)}",
            "two stages": "no limit of time",
            "processor": f"{here.processor}, tier {here.tier}; times are those of a busy machine",
            "left out": "test addresses that are also in the training data",
            "micro": "means weighted by the gold tokens of each label, so micro R is A of the labels that are known",
        }
        return report

    def _one(self, run: Run, report: Report, train: Fields, test: Fields, setting: Setting, said: str) -> None:
        run.say(f"{said}: {len(train)} addresses for training, {len(test)} for testing")
        paper: Paper = TABLE_5 if said.startswith("US50") else {}
        taught = Taught.by(train, setting)
        tally = Tally()
        trial(taught, tuned(train, setting), test, tally)
        peers = peers_of(taught, train, test, setting.features)
        own = usaddress_says(train, test) if not paper else {}
        peers |= {name: [figures(test.y, labels, taught.names())] for name, labels in own.items()}
        title = f"Table 5: {said}" if paper else said
        add_tables(report, said, title, tally, paper, peers, RELEASED if own else "")
        rules = {name: [str(rule) for rule in some] for name, some in taught.rules.items()}
        report.figures[said] = tally.to_dict() | {"rules": rules}
