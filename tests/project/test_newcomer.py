"""The afternoon of a newcomer with six data sets, row by row: the call, and the message that it gives now.

Rows that need long training, other data or other packages are held by other tests: the search that knew the clock by
`tests/models/test_tuning.py`, nested tags and exports by `tests/cli/test_reading_models.py`, unknown labels by
`tests/learn/test_unknown_gold.py`, scores of networks by `tests/learn/test_scores.py` and
`benchmarks/network_rules.py`, integrations by `tests/heavy/integrations`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import bridle
from bridle.errors import LabelError
from bridle.learn import JointWeights
from bridle.rules import parse
from commands import Cli

WORDS, LABELS = ["Ann", "met", "Bob", "in", "Rome", "."], ["B-PER", "O", "B-PER", "O", "B-LOC", "O"]
X, Y = [WORDS, WORDS[2:], WORDS[:4]] * 8, [LABELS, LABELS[2:], LABELS[:4]] * 8
FAST = ("--c1", "0", "--c2", "0.1", "--iterations", "15", "--features", "ner")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    text = "".join("\n".join(map(" ".join, zip(x, y, strict=True))) + "\n\n" for x, y in zip(X, Y, strict=True))
    (tmp_path / "train.txt").write_text(text)
    return tmp_path


def test_a_file_that_became_one_sequence(run: Cli, tmp_path: Path) -> None:
    """Row 3: sentences separated by `#doc` lines."""
    block = "\n".join(map(" ".join, zip(WORDS, LABELS, strict=True)))
    (tmp_path / "doc.txt").write_text("".join(f"#doc {k}\n{block}\n" for k in range(200)))
    command = ("train", tmp_path / "doc.txt", "-o", tmp_path / "m", *FAST)
    said = run.ok(*command).stderr
    assert "doc.txt: 1 sequence, 1,400 tokens" in said
    assert "one sequence has 1,400 of 1,400 tokens" in said and "pass --option comment='#doc'" in said
    assert "doc.txt: 200 sequences, 1,200 tokens, 3 labels" in run.ok(*command, "--option", "comment=#doc").stderr


def test_lists_of_words_and_labels_of_a_scheme() -> None:
    """Rows 4 and 5."""
    model = bridle.CRF(iterations=10).fit(X, Y)
    assert model.feature_set_ is not None and model.feature_set_.name == "ner"
    labels = bridle.Labels(["O", "B-X", "I-X"])
    assert labels.scheme == "BIO" and bridle.Decoder(labels, ["at most 1 segment of X"]).rules
    with pytest.raises(LabelError, match="It is a segment type under BIO: pass scheme='BIO'"):
        bridle.Decoder(bridle.Labels(["O", "B-X", "I-X"], None), ["at most 1 segment of X"])


def test_labels_that_the_training_data_lack(run: Cli, data: Path) -> None:
    """Row 6: one unseen label among others, in gold and in a rule; labels that a model gets from its settings."""
    model = bridle.CRF(c1=0, c2=0.1, iterations=10, labels=["ORG"]).fit(X, Y)
    assert {"B-ORG", "I-ORG"} <= set(model.labels_) and model.predict([WORDS], ["fix B-ORG at 0"])[0][0] == "B-ORG"
    gold = [["B-NEW", *y[1:]] for y in Y[:1]] + Y[1:]
    weights = JointWeights([parse("PER before LOC").soft(1)], model, iterations=2)
    assert weights.fit(X, gold, on_unknown="skip").weights_.shape == (1,)
    run.ok("train", data / "train.txt", "-o", data / "m", *FAST)
    (data / "some.rules").write_text("at most 2 segments of PER, LOC, ORG, EVENT\n")
    said = run.ok("tag", data / "m", data / "train.txt", "--rules", data / "some.rules", "-o", data / "out").stderr
    assert "the rule is read as: at most 2 segments of PER, LOC" in said


def test_rules_that_were_priced_apart(run: Cli, data: Path) -> None:
    """Row 7: used together, they may charge twice."""
    run.ok("train", data / "train.txt", "-o", data / "m", *FAST)
    head = f"# priced for model {bridle.load(data / 'm').fingerprint_} on 24 sequences in 4 folds; all right\n"
    for name, rule in (("a.rules", "PER before LOC"), ("b.rules", "first PER before first LOC")):
        (data / name).write_text(f"{head}{rule}  [penalty 2]\n")
    rules = ("--rules", data / "a.rules", "--rules", data / "b.rules")
    said = run.ok("tag", data / "m", data / "train.txt", *rules, "-o", data / "out").stderr
    assert "together they may charge twice" in said and "-o joint.rules" in said
    tuned = run("rules", "tune", data / "a.rules", data / "b.rules", "--model", data / "m", "--data",
                data / "train.txt", "-o", data / "joint.rules")  # fmt: skip
    assert tuned.exit_code in (0, 1), tuned.output
    verdict = tuned.stdout.splitlines()[-1]
    assert verdict.startswith("use ") and verdict.count("(p = ") == 2, "one sentence with the figures behind it"
    said = run.ok("tag", data / "m", data / "train.txt", "--rules", data / "joint.rules", "-o", data / "out").stderr
    assert "charge twice" not in said
