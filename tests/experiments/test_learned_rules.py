"""The recipe `learned-rules` on a few references and addresses made up here."""

from pathlib import Path

import numpy as np
import pytest

from bridle.models import CRF
from bridle.rules import parse
from experiments import Run, learned_rules_data, recipe_named
from experiments.fields import Fields
from experiments.learned_rules import WAYS, _scores
from experiments.learned_rules_data import SETS, DataSet

WORDS = {"author": ["Ann", "Bob", "Cid"], "title": ["sets", "maps", "trees"], "date": ["1990", "1991"]}


def references(count: int, seed: int) -> Fields:
    """author+ title+ date, and words that sometimes say something else."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = ["author"] * int(rng.integers(1, 4)) + ["title"] * int(rng.integers(1, 4)) + ["date"]
        shown = [label if rng.random() < 0.8 else str(rng.choice(list(WORDS))) for label in labels]
        X.append({"word": [str(rng.choice(WORDS[label])) for label in shown]})
        y.append(labels)
    return Fields(X, y)


@pytest.mark.slow
def test_all_ways_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rules = (parse("author before title"), parse("exactly 1 segment of date"), parse("present isbn"))
    built = [
        DataSet(name, lambda run, seed: (references(60, seed), references(80, seed + 9)), "pos", rules)
        for name in ("one", "two", "three", "four")
    ]
    monkeypatch.setattr("experiments.learned_rules.SETS", tuple(built))
    output: list[str] = []
    report = recipe_named("learned-rules").run(Run(tmp_path, quick=True, threads=1, say=output.append))
    assert output == ["one: split 1 of 1", "four: split 1 of 1"]
    table, gains, chosen, strengths = report.tables
    assert [row.name for row in table.rows] == ["one", "four"] and len(table.columns) == 3 * len(WAYS)
    plain, _, relative, written, tuned = (cell.ours for cell in table.rows[0].cells[:5])
    assert all(isinstance(share, float) and 0 <= share <= 100 for share in (plain, relative, written, tuned))
    assert relative >= plain - 5  # type: ignore[operator]
    assert "significantly worse on 0" in gains.analysis and "95 % interval" in gains.columns[0]
    assert chosen.rows[0].cells[2].ours in ("0 of 1", "1 of 1")
    assert strengths.columns[-2:] == ["auto", "auto - the best of each split"]
    assert set(report.charts[0].series) == set(WAYS[1:])
    assert report.markdown() and report.json()


def test_written_rules_speak_of_labels_that_are_there() -> None:
    item = DataSet(
        "x", lambda run, seed: (references(3, 0),) * 2, "pos", (parse("present isbn"), parse("present date"))
    )
    assert [str(rule) for rule in item.rules(references(3, 0))] == ["present date"]
    for known in SETS:
        assert known.written and known.features in ("fields", "pos", "chunking")


def test_splits_do_not_share_sequences() -> None:
    whole = Fields([{"word": [f"w{k}"]} for k in range(100)], [["A"]] * 100)
    for split in (learned_rules_data._random, learned_rules_data._by_stretches):
        train, test = split(whole, 40, 1)
        inside, outside = ({x["word"][0] for x in part.X} for part in (train, test))
        assert 35 <= len(inside) <= 45 and len(inside | outside) == 100 and not inside & outside
    assert len(learned_rules_data._sample(whole, whole, 10, 0)[0]) == 10


def test_labels_that_the_model_does_not_know_are_wrong() -> None:
    train = references(30, 0)
    model = CRF(features="pos", c2=0.1, iterations=5, threads=1).fit(train.X, train.y)
    test = Fields(train.X[:2], [train.y[0], ["isbn", *train.y[1][1:]]])
    result = _scores(model, test)
    assert not result.exact[1] and result.right[1] < result.lengths[1]
