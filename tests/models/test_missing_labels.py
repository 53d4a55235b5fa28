"""Labels that are not known: None in Python, `?` or null in files. Models learn from the others, measures skip them."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import CRF, LocalTagger
from bridle.data import Example, load, read, write
from bridle.data.references import references, split
from bridle.errors import FileError, LabelError, ModelError
from bridle.frames import sequences
from bridle.learn import DeterministicRules, RelationalRules, fit_rules
from bridle.report import score, segment_f1, token_accuracy
from commands import Cli
from learning import noisy

Y = list[list[str | None]]
MODELS: list[Any] = [CRF(c2=0.1), CRF(c1=0.1, c2=0.1), CRF("perceptron"), LocalTagger(), LocalTagger("winnow")]


def hidden(y: list[list[str]], share: float, seed: int = 0) -> Y:
    """Some labels are missing."""
    rng = np.random.default_rng(seed)
    return [[None if rng.random() < share else label for label in labels] for labels in y]


# ---- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_known_labels_are_learned(model: Any) -> None:
    X, y = noisy(np.random.default_rng(0), 600, 0.0)
    unseen, gold = noisy(np.random.default_rng(1), 200, 0.0)
    learned = copy.deepcopy(model).fit(X, hidden(y, 0.5))
    assert learned.labels_.names == ("L0", "L1", "L2")
    assert learned.score(unseen, gold) > 0.97


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("gone", [[0], [4], [0, 1, 2, 3], [2]], ids=str)
def test_gaps_anywhere(model: Any, gone: list[int]) -> None:
    X, y = noisy(np.random.default_rng(0), 300, 0.0)
    with_gaps: Y = [[None if t in gone else label for t, label in enumerate(labels)] for labels in y]
    assert copy.deepcopy(model).fit(X, with_gaps).score(X, y) > 0.9


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_sequence_without_labels_adds_nothing(model: Any) -> None:
    X, y = noisy(np.random.default_rng(0), 200, 0.0)
    plain, more = copy.deepcopy(model).fit(X, y), copy.deepcopy(model).fit([*X, *X[:9]], [*y, *[[None] * 5] * 9])
    assert more.n_weights_ == plain.n_weights_ or model.algorithm == "perceptron"
    if model.algorithm == "lbfgs":  # the others take sequences in another order if there are more of them
        for ours, theirs in zip(plain.lattices(X), more.lattices(X), strict=True):
            assert ours.unary == pytest.approx(theirs.unary, abs=1e-3)
    assert more.score(X, y) > 0.95


@pytest.mark.parametrize("model", [*MODELS, CRF("ibt", rules=["at least 0 tokens of A"])], ids=str)
def test_nothing_known_is_nothing_to_learn(model: Any) -> None:
    with pytest.raises(LabelError, match="there is nothing to learn; got only missing labels"):
        copy.deepcopy(model).fit([[["a"], ["b"]]], [[None, None]])
    with pytest.raises(LabelError, match="there is nothing to learn; got only the label 'A'"):
        copy.deepcopy(model).fit([[["a"], ["b"]]], [["A", None]])


def test_inference_based_training_needs_all_labels() -> None:
    model = CRF("ibt", rules=["at least 0 tokens of A"])
    with pytest.raises(ModelError, match="inference-based training needs all labels; got 1 missing"):
        model.fit([[["a"], ["b"], ["c"]]], [["A", "B", None]])


def test_neighbours_tell_what_is_missing() -> None:
    """Between B-X and E-X only I-X can stand, and the model finds out what it looks like."""
    X = [[["begin"], ["middle"], ["end"], ["out"]]] * 20 + [[["begin"], ["end"], ["out"], ["out"]]] * 5
    y: Y = [["B-X", None, "E-X", "O"]] * 19 + [["B-X", "I-X", "E-X", "O"]] + [["B-X", "E-X", "O", "O"]] * 5
    model = CRF(c2=0.01, pairs="all").fit(X, y)
    assert model.predict([[["out"], ["begin"], ["middle"], ["end"]]]) == [["O", "B-X", "I-X", "E-X"]]


def test_bigrams_beside_a_gap_can_be_learned() -> None:
    X, y = noisy(np.random.default_rng(0), 100, 0.0)
    every_other: Y = [[label if t % 2 else None for t, label in enumerate(labels)] for labels in y]
    model = CRF(features=None, c2=0.1).fit(X, every_other)
    assert model.linear_.pairwise is not None and model.linear_.pairwise.all()


@pytest.mark.parametrize("gap", [None, math.nan, np.nan])
def test_all_ways_to_say_missing(gap: Any) -> None:
    X, y = noisy(np.random.default_rng(0), 100, 0.0)
    ours = CRF(c2=0.1).fit(X, [[None if t == 1 else label for t, label in enumerate(item)] for item in y])
    theirs = CRF(c2=0.1).fit(X, [[gap if t == 1 else label for t, label in enumerate(item)] for item in y])
    assert ours.fingerprint_ == theirs.fingerprint_


def test_invalid_labels_are_not_missing_labels() -> None:
    with pytest.raises(LabelError, match="a label is not a name; got 3"):
        CRF().fit([[["a"], ["b"]]], [["A", 3]])  # type: ignore[list-item]


def test_the_development_set_counts_known_labels() -> None:
    X, y = noisy(np.random.default_rng(0), 200, 0.0)
    gaps: Y = [[labels[0], None, None, None, None] for labels in y]
    model = CRF(c2=0.1).fit(X, y, dev=(X, gaps))
    assert model.progress_.best_score == 1.0
    assert model.score(X, gaps) == 1.0
    with pytest.raises(ModelError, match="the development set is empty; got only missing labels"):
        CRF(c2=0.1).fit(X, y, dev=(X, [[None] * 5 for _ in X]))


def test_regularisation_is_chosen_and_folds_are_scored() -> None:
    X, y = noisy(np.random.default_rng(0), 200, 0.2)
    gaps = hidden(y, 0.3)
    model = CRF().fit(X, gaps)
    assert model.tuning_ is not None and 0.5 < model.tuning_.trials[0].accuracy <= 1
    scores = model.cross_fit(X, gaps)
    assert len(scores) == len(X) and scores.identity == model.cross_fit_identity(X, gaps)


def test_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    X, y = noisy(np.random.default_rng(0), 200, 0.2)
    gaps, check = hidden(y, 0.3), tmp_path / "check"
    whole = CRF(c2=0.1, iterations=8, tolerance=0).fit(X, gaps)
    CRF(c2=0.1, iterations=4, tolerance=0).fit(X, gaps, checkpoint=check, every=4)
    again = CRF(c2=0.1, iterations=8, tolerance=0).fit(X, gaps, resume=check)
    assert again.fingerprint_ == whole.fingerprint_


def test_hidden_labels_lose_little_and_beat_dropping_their_sequences() -> None:
    """In every other sequence 60 % of the labels are hidden: 30 % in all."""
    train, test = split(20)
    known, new = references("acm", "ieee", "mla", of=train), references("acm", "ieee", "mla", of=test[:60])
    X, y = [e.columns for e in known], [e.known_labels for e in known]
    unseen, gold = [e.columns for e in new], [e.known_labels for e in new]
    gaps = [labels if k % 2 else some for k, (labels, some) in enumerate(zip(y, hidden(y, 0.6), strict=True))]
    model = CRF(features="fields", c2=0.1, iterations=40)
    full = copy.deepcopy(model).fit(X, y).score(unseen, gold)
    partial = copy.deepcopy(model).fit(X, gaps).score(unseen, gold)
    dropped = copy.deepcopy(model).fit(X[1::2], y[1::2]).score(unseen, gold)
    assert full - 0.01 < partial and dropped < partial, (full, partial, dropped)


@pytest.mark.parametrize(
    "learn",
    [
        lambda X, y: RelationalRules().fit(X, y),
        lambda X, y: DeterministicRules().fit(X, y),
        lambda X, y: fit_rules(CRF(c2=0.1, features=["word[0]"]).fit(X, y), X, y),
    ],
)
def test_rules_are_learned_from_labels_that_are_all_known(learn: Any) -> None:
    X, y = [["a", "b", "c"]] * 4, [["A", "B", "A"]] * 3 + [["A", None, "A"]]
    with pytest.raises(LabelError, match="sequence 3: a label is missing; got 1 of 3 labels"):
        learn(X, y)


# ---- measures -------------------------------------------------------------------------------------------------------


def test_gaps_are_not_counted() -> None:
    gold: Y = [["B-X", None, "I-X", "O"], [None, "B-Y"], [None]]
    result = score(gold, [["B-X", "O", "I-X", "B-X"], ["O", "O"], ["O"]])
    assert (result.tokens, result.missing_tokens, result.correct_tokens, result.exact_sequences, result.sequences) == (
        4,
        3,
        2,
        0,
        2,
    )
    assert result.by_type["X"].to_dict()["correct"] == 2  # of each side of the gap
    assert result.lines()[-1] == "not counted: 3 tokens without a gold label"
    assert result.to_dict()["missing_tokens"] == 3
    assert token_accuracy([["A", math.nan]], [["A", "B"]]) == 1.0
    assert segment_f1([["B-X", None]], [["B-X", "I-X"]]) == 1.0


def test_guesses_have_no_gaps() -> None:
    with pytest.raises(LabelError, match="sequence 1: a label is not a name; got None"):
        score([["A"], ["A", "B"]], [["A"], [None, "B"]])  # type: ignore[list-item]
    with pytest.raises(LabelError, match="a label is not a name; got 3"):
        score([["A", None, 3]], [["A", "B", "B"]])  # type: ignore[list-item]


# ---- files ----------------------------------------------------------------------------------------------------------

GAPS = [
    Example({"word": ["a", "b", "c"]}, ["X", None, "Y"]),
    Example({"word": ["d"]}, [None]),
    Example({"word": ["e", "f"]}, ["X", "Y"]),
]
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("conll", {}),
    ("conllu", {}),
    ("csv", {}),
    ("tsv", {}),
    ("slashed", {}),
    ("tagged", {"outside": "?"}),
    ("tagged", {"missing": "unknown"}),
    ("parserator", {"missing": "Unknown"}),
    ("jsonl", {}),
    ("parquet", {}),
    ("arrow", {}),
    ("arrow", {"names": ["X", "Y"]}),
]


@pytest.mark.parametrize(("name", "options"), FORMATS)
def test_gaps_are_written_and_read_back(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    if name in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    write(tmp_path / "x", GAPS, name, **options)
    assert [list(e.labels or ()) for e in read(tmp_path / "x", name, **options)] == [e.labels for e in GAPS]


@pytest.mark.parametrize("name", ["spans", "doccano", "labelstudio", "segmented", "segments"])
def test_formats_without_room_for_gaps(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match=f"a label is missing; got 1 tokens.*because {name} cannot represent"):
        write(tmp_path / "x", GAPS, name)


def test_another_text_or_none(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("a ?\nb X\n\nc -\nd X\n")
    assert [e.labels for e in read(path)] == [[None, "X"], ["-", "X"]]
    assert [e.labels for e in read(path, missing="-")] == [["?", "X"], [None, "X"]]
    assert [e.labels for e in read(path, missing=None)] == [["?", "X"], ["-", "X"]]
    assert load(path)[1] == [[None, "X"], ["-", "X"]]
    with pytest.raises(FileError, match="`missing` must be a non-empty string; got ''"):
        read(path, missing="")
    with pytest.raises(FileError, match=r"a label is missing; got 1 tokens.*missing='\?'"):
        write(path, GAPS, missing=None)


def test_null_in_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"tokens": ["a", "b"], "labels": ["X", null]}\n')
    assert [e.labels for e in read(path)] == [["X", None]]
    path.write_text('{"tokens": ["a", "b"], "labels": ["X", 3]}\n')
    with pytest.raises(FileError, match=r"labels are not a list of strings.*null for an unknown label"):
        list(read(path))


def test_long_tables() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"s": [1, 1, 2], "word": ["a", "b", "c"], "tag": ["X", None, np.nan]})
    assert sequences(table, by="s", label="tag")[1] == [["X", None], [None]]


def test_labels_that_must_be_known() -> None:
    assert GAPS[2].known_labels == ["X", "Y"]
    with pytest.raises(FileError, match="a label is missing; got 1 tokens without a label"):
        GAPS[0].known_labels  # noqa: B018
    with pytest.raises(FileError, match="a label is missing; got no labels"):
        Example({"word": ["a"]}).known_labels  # noqa: B018


# ---- commands -------------------------------------------------------------------------------------------------------

DATA = "the D\nold ?\ncat N\n\na ?\ndog ?\n\nthe D\ndog N\n\na D\nnew J\ncat N\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "train.txt").write_text(DATA)
    return tmp_path / "train.txt"


def test_train_reports_missing_labels(run: Cli, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.bridle"
    stderr = run.ok("train", data, "-o", model, "--features", "word[0]").stderr
    assert "3 of 10 tokens have no label (? or null); training uses the others; 1 sequences have no label" in stderr
    assert bridle.load(model).labels_.names == ("D", "J", "N")
    assert json.loads((tmp_path / "m.bridle.json").read_text())["data"]["missing_labels"] == 3
    result = run.stdout("eval", data, "--model", model)
    assert result.startswith("processed 7 tokens") and "not counted: 3 tokens without a gold label" in result
    tagged = run.stdout("tag", model, data)
    assert "old\t?\t" in tagged
    (tmp_path / "tagged.txt").write_text(tagged)
    assert "not counted: 3 tokens" in run.stdout("eval", tmp_path / "tagged.txt")


def test_a_label_that_is_called_so(run: Cli, data: Path, tmp_path: Path) -> None:
    stderr = run.ok("train", data, "-o", tmp_path / "m", "--features", "word[0]", "--option", "missing=none").stderr
    assert "no label" not in stderr and bridle.load(tmp_path / "m").labels_.names == ("?", "D", "J", "N")
    run.ok("train", data, "-o", tmp_path / "m", "--features", "word[0]", "--option", "missing=N")
    assert bridle.load(tmp_path / "m").labels_.names == ("?", "D", "J")


def test_rules_come_from_whole_sequences(run: Cli, data: Path, tmp_path: Path) -> None:
    completed = run("learn", data, "-o", tmp_path / "x.rules", "--min-support", 1)
    assert "left out 2 sequences with missing labels" in completed.stderr


def test_labels_of_sequences_that_are_left_out_are_known(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.rules").write_text("at most 1 token of PER\n")
    gaps = "Ann PER\nleft ?\n\n" * 2
    (tmp_path / "x.txt").write_text(gaps + "it O\nrains O\n")
    completed = run("rules", "test", tmp_path / "x.rules", tmp_path / "x.txt", "--format", "conll")
    assert completed.exit_code == 0, completed.output
    assert "2 of 3 sequences have missing labels, and only the other 1 are used" in " ".join(completed.stderr.split())
    (tmp_path / "x.txt").write_text(gaps + "it O\nrains O\n\n" * 2)
    assert "are used" not in run.ok("rules", "test", tmp_path / "x.rules", tmp_path / "x.txt").stderr


def test_class_weights(run: Cli, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.bridle"
    run.ok("train", data, "-o", model, "--features", "word[0]", "--class-weight", "J=3, N=0.5")
    assert bridle.load(model).get_params()["class_weight"] == {"J": 3.0, "N": 0.5}
    run.ok("train", data, "-o", model, "--features", "word[0]", "--class-weight", "balanced", "--learner", "perceptron")
    for asked, message in (
        ("J", "`--class-weight` must be a list of weights, or balanced; got 'J'"),
        ("J=3,J=2", "each label once"),
        ("J=x", "got 'J=x'"),
        ("J=-1", "the weight of class 'J' is not positive; got -1.0"),
        ("J=nan", "not positive; got nan"),
        ("K=2", "names a label that the training data does not have; got 'K'"),
    ):
        stderr = run.ok("train", data, "-o", model, "--features", "word[0]", "--class-weight", asked, code=2).stderr
        assert message in " ".join(stderr.split())
