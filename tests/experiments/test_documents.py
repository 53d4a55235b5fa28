"""The recipe `documents` on a few documents made up here."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments import Run, recipe_named
from experiments.documents import WAYS, Gain, _vote, read_documents

CUES = {"I-PER": "said", "I-LOC": "in"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(40):
        kinds = rng.choice(list(CUES), 2)
        for k in range(6):
            kind, clear = str(kinds[k % 2]), rng.random() < 0.5
            lines += [f"{CUES[kind] if clear else 'the'} O", f"Name{k % 2} {kind}", ". O", ""]
        lines += ["-DOCSTART- O", ""]
    (tmp_path / "ner-wikigold").mkdir()
    with gzip.open(tmp_path / "ner-wikigold" / "wikigold.conll.txt.gz", "wt") as file:
        file.write("\n".join(lines))
    return tmp_path


def test_documents_are_read(folder: Path) -> None:
    documents = read_documents(Run(folder))
    assert len(documents) == 40 and all(len(document) == 6 for document in documents)
    assert documents[0][0][0][1:] == ["Name0", "."]


@pytest.mark.slow
def test_agreement_is_learned(folder: Path) -> None:
    output: list[str] = []
    report = recipe_named("documents").run(Run(folder, quick=True, threads=1, say=output.append))
    assert output == ["split 1 of 1"]
    gains, splits = report.tables
    assert [row.name for row in gains.rows] == list(WAYS)
    plain, learned = (row.cells[0].ours for row in gains.rows[:2])
    assert isinstance(plain, float) and isinstance(learned, float) and learned > plain + 5
    assert "in the document: same label for equal tokens" in str(splits.rows[0].cells[-1])
    assert "12 of 12 test documents are proved" in gains.analysis


def test_gain_and_vote() -> None:
    before, after = np.array([[1, 2, 2]] * 50), np.array([[2, 2, 2]] * 50)
    gain = Gain.of(before, after, 0)
    assert (gain.before, gain.after, gain.low, gain.high) == (0.5, 1.0, 0.5, 0.5) and gain.p < 0.001
    document = [(["Ann"], ["O"]), (["Ann"], ["O"]), (["Ann"], ["O"])]
    assert _vote(document, [["A"], ["B"], ["B"]]) == [["B"]] * 3
