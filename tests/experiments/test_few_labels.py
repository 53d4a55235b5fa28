"""The recipe `few-labels` on sequences made up here."""

from itertools import product
from pathlib import Path

import pytest

from experiments import Run, recipe_named
from experiments.base import Kept, kept_file
from experiments.few_labels import BOTH, PLAIN, WAYS
from experiments.few_labels_data import SETS, Few, Sample
from experiments.fields import Fields

NAMES, CITIES = ["Ann", "Bob", "Kim", "Eve", "Tom"], ["Rome", "Oslo", "Lima", "Bonn", "Kyiv"]
TEXT = [{"word": [name, "went", "to", city]} for name, city in product(NAMES, CITIES)]
FEW = Fields(
    [{"word": ["Ann", "is", "here"]}, {"word": ["Oslo", "is", "big"]}] * 2, [["N", "O", "O"], ["C", "O", "O"]] * 2
)
TEST = Fields([{"word": [word, "is", "here"]} for word in NAMES + CITIES], [[y, "O", "O"] for y in "NNNNNCCCCC"])
RULES = ["fix C at tokens /[A-Z].*/ after tokens /to/", "fix N at tokens /[A-Z].*/ before tokens /went/  [penalty 16]"]


def toy(name: str) -> Few:
    sample = Sample(FEW, TEXT, TEST, ["C", "N", "O"])
    return Few(name, lambda run, labels, number: sample, "ner", False)


def test_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("experiments.few_labels.SETS", (toy("Cora"), toy("other")))
    for name in ("cora", "other"):
        (tmp_path / f"{name}.rules").write_text("\n".join(RULES))
    monkeypatch.setattr("experiments.few_labels_data.FOLDER", tmp_path)
    output: list[str] = []
    report = recipe_named("few-labels").run(Run(tmp_path, quick=True, threads=1, say=output.append, out=tmp_path))
    assert [row.name for row in report.tables[1].rows] == ["Cora", "other"]
    first = dict(zip(WAYS, report.tables[0].rows[0].cells, strict=True))
    assert first[PLAIN].ours < 100 and first[BOTH].ours == 100
    assert len(kept_file(tmp_path, "few-labels").read_text().split()) > 3
    monkeypatch.setattr("experiments.few_labels.trial", None)  # all is kept
    again = recipe_named("few-labels").run(Run(tmp_path, quick=True, threads=1, out=tmp_path))
    assert again.figures == report.figures


def test_figures_are_kept_over_a_stop(tmp_path: Path) -> None:
    run = Run(tmp_path, out=tmp_path / "results")
    assert Kept(run, "x").measured(["a", 1], lambda: {"f": 0.5}) == {"f": 0.5}
    with kept_file(tmp_path / "results", "x").open("a") as file:
        file.write('\n["cut o')
    assert Kept(run, "x").measured(["b", 1], lambda: {"f": 0.7}) == {"f": 0.7}
    kept = Kept(run, "x")
    assert [kept.measured([name, 1], lambda: {"f": -1.0})["f"] for name in "ab"] == [0.5, 0.7]
    assert Kept(Run(tmp_path), "x").measured(["a", 1], lambda: {"f": 0.9}) == {"f": 0.9}


@pytest.mark.parametrize("few", SETS, ids=lambda few: few.name)
def test_rules_can_be_read(few: Few) -> None:
    assert len(few.rules) >= 8
    needs = few.given([{"word": ["a", "b", ",", "c", "d", "e", "."]}])[0]
    assert needs == ({"words": [(0, 2), (3, 6)]} if few.name == "Cora" else {})
