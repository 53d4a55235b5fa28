"""`bridle learn` and `bridle rules test`, as users call them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import rules
from bridle.data import read, write
from bridle.data import references as samples
from bridle.learn import DeterministicRules
from bridle.learn.evidence import penalty_of
from bridle.learn.joint import JointWeights
from bridle.models import CrossFit
from bridle.rules.base import Soft
from bridle.rules.loading import load_lines, parse_lines
from commands import Cli

COLUMNS = ["--columns", "word,label"]
BY_COUNTS = ["--penalty", "counts"]


def references(count: int, seed: int, noise: float = 0.0) -> str:
    """AUTHOR+ TITLE+ DATE?; words say little. Some have their date in front."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        parts = ["AUTHOR"] * rng.integers(1, 4) + ["TITLE"] * rng.integers(1, 5)
        date = ["DATE"] * int(rng.random() < 0.8)
        labels = date + parts if rng.random() < noise else parts + date
        words = [f"{y[0].lower()}{rng.integers(3)}" if rng.random() < 0.7 else "x" for y in labels]
        out.append("".join(f"{word} {label}\n" for word, label in zip(words, labels, strict=True)))
    return "\n".join(out)


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training data, data to tune on, and a model."""
    folder = tmp_path_factory.mktemp("learn")
    (folder / "train.txt").write_text(references(150, 0, 0.03))
    (folder / "tune.txt").write_text(references(80, 1, 0.03))
    train = ["train", folder / "train.txt", "-o", folder / "m.bridle", *COLUMNS]
    run.ok(*train, "--features", "word[0]", "--iterations", 5)
    return folder


@pytest.fixture(scope="module")
def learned(run: Cli, folder: Path) -> Path:
    """A file of learned rules."""
    run.ok("learn", folder / "train.txt", "-o", folder / "my.rules", *COLUMNS, *BY_COUNTS)
    return folder / "my.rules"


# ---- learn ----------------------------------------------------------------------------------------------------------


def test_a_rules_file_is_written_and_read_back(run: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.rules"
    result = run.ok("learn", folder / "train.txt", "-o", out, *COLUMNS, *BY_COUNTS, "--json")
    document = json.loads(result.stdout)
    text = out.read_text()
    assert text.startswith("# Rules learned by bridle") and "train.txt\n# 150 sequences, 3 labels" in text
    built = rules.load(out)
    assert built == [
        rules.parse(rule["rule"]).soft(rule["penalty"])
        for rule in sorted(
            document["rules"],
            key=lambda item: list(dict.fromkeys(x["kind"] for x in document["rules"])).index(item["kind"]),
        )
    ]
    assert len(built) >= 3 and all(penalty_of(rule) > 0 for rule in built)
    assert all(line.comment.startswith("held in ") for line in load_lines(out))
    assert f"{len(built)} rules" in result.stderr and " dropped: " in result.stderr
    assert sorted(tmp_path.iterdir()) == [out]


def test_kinds_and_limits(run: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.rules"
    run.ok("learn", folder / "train.txt", "-o", out, *COLUMNS, "--kinds", "presence, count", "--hard", "--max-rules", 2)
    built = rules.load(out)
    assert len(built) == 2 and not any(isinstance(rule, Soft) for rule in built)
    heads = [line for line in out.read_text().splitlines() if line.startswith("# ----")]
    assert {head.split()[2].rstrip(":") for head in heads} <= {"presence", "count"}
    assert "hard" in out.read_text().splitlines()[1] and "max_rules 2" in out.read_text()


def test_log_odds_are_not_counts(run: Cli, folder: Path, tmp_path: Path, learned: Path) -> None:
    run.ok("learn", folder / "train.txt", "-o", tmp_path / "odds.rules", *COLUMNS, "--penalty", "log-odds")
    by_counts, by_odds = (
        {rule.rule: rule.penalty for rule in rules.load(path) if isinstance(rule, Soft)}
        for path in (learned, tmp_path / "odds.rules")
    )
    assert by_counts.keys() == by_odds.keys()
    assert all(by_odds[rule] < by_counts[rule] for rule in by_odds)  # log (1 - p) / p < -log p


def test_joint_penalties(run: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "joint.rules"
    joint = ["--penalty", "joint", "--model", folder / "m.bridle", "--tune", folder / "tune.txt", "--iterations", 4]
    result = run.ok("learn", folder / "train.txt", "-o", out, *joint, "--dev", folder / "tune.txt", "--progress")
    assert "on the development set" in result.stderr and "1/4" in result.stderr
    assert rules.load(out)
    assert "penalties by joint" in out.read_text()


def test_ctrl_c_keeps_the_penalties_so_far(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = JointWeights.fit

    def stopped(self: JointWeights, *args: Any, **named: Any) -> JointWeights:
        fit(self, *args, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(JointWeights, "fit", stopped)
    out = tmp_path / "joint.rules"
    joint = ["--penalty", "joint", "--model", folder / "m.bridle", "--iterations", 1]
    result = run("learn", folder / "train.txt", "-o", out, *joint)
    assert result.exit_code == 130 and "best penalties so far" in result.stderr
    assert rules.load(out)


def test_no_rule_is_found_in_noise(run: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data, out = tmp_path / "noise.txt", tmp_path / "my.rules"
    lines = [[f"w {'ABC'[y]}\n" for y in rng.integers(0, 3, 6)] for _ in range(30)]
    data.write_text("\n".join("".join(line) for line in lines))
    result = run("learn", data, "-o", out, *COLUMNS, "--significance", 0.001)
    assert result.exit_code == 1 and "no rule was found in 30 sequences" in result.stderr
    assert all(line.startswith("#") for line in out.read_text().splitlines()) and rules.load(out) == []


def test_rules_go_to_standard_output(run: Cli, folder: Path, learned: Path) -> None:
    result = run.ok(
        "learn", "-", "-o", "-", *COLUMNS, *BY_COUNTS, "--format", "conll", stdin=(folder / "train.txt").read_text()
    )
    assert [line.rule for line in parse_lines(result.stdout.split("\n"))] == rules.load(learned)


def test_deterministic_rules(run: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.det"
    result = run.ok("learn", folder / "train.txt", "-o", out, *COLUMNS, "--kind", "deterministic", "--json")
    built = DeterministicRules.load(out)
    assert built.n_rules_ == json.loads(result.stdout)["n_rules"] > 0
    result = run("learn", folder / "train.txt", "-o", out, *COLUMNS, "--kind", "deterministic", "--cutoff", 100000)
    assert result.exit_code == 1 and "lower --cutoff" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--penalty", "joint"], "--model MODEL"),
        (["--dev", "x"], "--dev has no effect with this --penalty"),
        (["--penalty", "counts", "--model", "x"], "--model has no effect with this --penalty"),
        (["--hard", "--cross-fit", "x"], "--cross-fit has no effect with this --penalty"),
        (["--hold-out", "files"], "--hold-out files needs two or more files"),
        (["--kinds", "presence,nothing"], "'nothing'"),
        (["--significance", "2"], "significance"),
        (["--scheme", "BIO"], "scheme BIO"),
        (["--model", "no.bridle", "--penalty", "joint"], "no.bridle"),
        (["--label", "nothing"], "nothing"),
    ],
)
def test_learn_says_what_is_wrong(run: Cli, folder: Path, tmp_path: Path, args: list[str], message: str) -> None:
    result = run("learn", folder / "train.txt", "-o", tmp_path / "my.rules", *COLUMNS, *args)
    assert result.exit_code == 2 and message in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run("learn", folder / "train.txt", "-o", "-", *COLUMNS, *BY_COUNTS, "--json").exit_code == 2


# ---- priced against a model ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weak(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """References, and a model that knows words only: rules help it."""
    folder = tmp_path_factory.mktemp("weak")
    for name, styles in (("acm", ["acm"]), ("lncs", ["lncs"]), ("train", ["acm", "lncs"])):
        write(folder / f"{name}.jsonl", samples.references(*styles, count=70))
    train = ["train", folder / "train.jsonl", "-o", folder / "m.bridle", "--scheme", "IO", "--c2", 0.1]
    run.ok(*train, "--features", "lower[0]\nlabel[-1]", "--cross-fit", folder / "m.scores")
    return folder


def test_rules_are_priced_against_a_model(run: Cli, weak: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.rules"
    args = ["learn", weak / "train.jsonl", "-o", out, "--model", weak / "m.bridle"]
    document = json.loads(run.ok(*args, "--json", "--progress").stdout)
    built, text = rules.load(out), out.read_text()
    assert 0 < len(built) == len(document["rules"]) and all(isinstance(rule, Soft) for rule in built)
    assert document["fit"]["won"] and document["fit"]["held_out"]["exact"] > document["fit"]["plain"]["exact"]
    model = bridle.load(weak / "m.bridle")
    assert f"# priced for model {model.fingerprint_} on 140 sequences in 4 folds" in text
    assert "# sequences all right: " in text and "95 % interval" in text and "better in" in text
    accuracy = [
        json.loads(run.ok("eval", weak / "train.jsonl", "--model", weak / "m.bridle", *more, "--json").stdout)["exact"]
        for more in ([], ["--rules", out])
    ]
    assert accuracy[1] >= accuracy[0]


def test_scores_are_read_from_their_file_or_kept_in_it(run: Cli, weak: Path, tmp_path: Path) -> None:
    args = ["learn", weak / "train.jsonl", "--model", weak / "m.bridle"]
    run.ok(*args, "-o", tmp_path / "a.rules", "--cross-fit", weak / "m.scores")
    run.ok(*args, "-o", tmp_path / "b.rules", "--cross-fit", tmp_path / "new.scores")
    assert (tmp_path / "new.scores").exists()
    assert rules.load(tmp_path / "a.rules") == rules.load(tmp_path / "b.rules")
    result = run("learn", weak / "acm.jsonl", "--model", weak / "m.bridle", "-o", tmp_path / "c.rules",
                 "--cross-fit", weak / "m.scores")  # fmt: skip
    assert result.exit_code == 2 and "other data or settings" in result.stderr


def test_files_can_be_held_out(run: Cli, weak: Path, tmp_path: Path) -> None:
    files = [weak / "acm.jsonl", weak / "lncs.jsonl"]
    args = [
        "learn",
        *files,
        "-o",
        tmp_path / "my.rules",
        "--model",
        weak / "m.bridle",
        "--hold-out",
        "files",
        "--kinds",
        "count",
    ]
    assert run(*args).exit_code in (0, 1)
    assert "on 140 sequences in 2 folds" in (tmp_path / "my.rules").read_text()


def test_without_a_model_one_is_trained(run: Cli, weak: Path, tmp_path: Path) -> None:
    result = run("learn", weak / "acm.jsonl", "-o", tmp_path / "my.rules", "--kinds", "count")
    assert "training one on DATA first" in result.stderr
    assert result.exit_code == (0 if rules.load(tmp_path / "my.rules") else 1)


def test_a_model_that_needs_no_rules_gets_none(run: Cli, weak: Path, tmp_path: Path) -> None:
    train = ["train", weak / "train.jsonl", "-o", tmp_path / "good.bridle", "--features", "fields", "--c2", 0.03]
    run.ok(*train, "--scheme", "IO")
    args = ["learn", weak / "train.jsonl", "-o", tmp_path / "my.rules", "--model", tmp_path / "good.bridle"]
    assert run(*args).exit_code == 1
    assert rules.load(tmp_path / "my.rules") == []
    assert "# no rules: none of the candidates makes the model better" in (tmp_path / "my.rules").read_text()


def test_counts_come_with_a_warning(run: Cli, folder: Path, tmp_path: Path) -> None:
    result = run.ok("learn", folder / "train.txt", "-o", tmp_path / "my.rules", *COLUMNS, *BY_COUNTS)
    assert "charge again for what the model already knows" in result.stderr


def test_tag_warns_of_rules_for_another_model(run: Cli, weak: Path, tmp_path: Path) -> None:
    model = bridle.load(weak / "m.bridle")
    for print_of, warned in ((model.fingerprint_, False), ("0123456789abcdef", True)):
        (tmp_path / "my.rules").write_text(f"# priced for model {print_of} on 9 sequences\npresent DATE  [penalty 1]\n")
        for command in (
            ["tag", weak / "m.bridle", weak / "acm.jsonl"],
            ["eval", weak / "acm.jsonl", "--model", weak / "m.bridle"],
        ):
            result = run.ok(*command, "--rules", tmp_path / "my.rules")
            assert ("another model" in result.stderr) == warned


PRICED = "# priced for model {} on 9 sequences\npresent {}  [penalty 1]\n"


@pytest.mark.parametrize(
    ("second", "noticed"),
    [
        (PRICED, True),
        ("present {1}  [penalty 2]\n", True),  # written by hand: it charges, and the first does not know
        ("present {1}\n", False),  # hard: nothing is charged
    ],
)
def test_penalties_that_were_learned_apart_are_noticed(
    run: Cli, weak: Path, tmp_path: Path, second: str, noticed: bool
) -> None:
    model = bridle.load(weak / "m.bridle")
    a, b = tmp_path / "a.rules", tmp_path / "b.rules"
    a.write_text(PRICED.format(model.fingerprint_, "DATE"))
    b.write_text(second.format(model.fingerprint_, "TITLE"))
    for command in (["eval", weak / "acm.jsonl", "--model"], ["tag"], ["explain"]):
        files = [] if command[0] == "eval" else [weak / "acm.jsonl"]
        warned = run(*command, weak / "m.bridle", *files, "--rules", a, "--rules", b).stderr
        assert warned.count(f"bridle rules tune {a} {b} --model MODEL --data DATA -o joint.rules") == noticed, command
        assert "learned without" not in run(*command, weak / "m.bridle", *files, "--rules", a).stderr


# ---- scores of any model ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored(weak: Path) -> Path:
    """Scores of the training data of models that have not seen them, a file per fold."""
    known = CrossFit.load(weak / "m.scores")
    arrays = {"labels": np.array(known.labels.names), "pairwise": bridle.load(weak / "m.bridle").linear_.pairwise}
    words = [example.tokens for example in read(weak / "train.jsonl")]
    order = np.argsort(known.fold, kind="stable")
    for fold in range(4):
        some = [known.unary[a:b] for a, b in pairwise(known.offsets.tolist())]
        inside = np.flatnonzero(known.fold == fold).tolist()
        tokens = np.array([word for k in inside for word in words[k]])
        cuts = np.cumsum([0, *(len(some[k]) for k in inside)])
        np.savez(weak / f"fold{fold}.npz", unary=np.concatenate([some[k] for k in inside]), offsets=cuts,
                 tokens=tokens, **arrays)  # fmt: skip
    examples = list(read(weak / "train.jsonl"))
    write(weak / "gold.jsonl", [examples[k] for k in order.tolist()])
    return weak


def test_rules_are_learned_for_scores(run: Cli, scored: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.rules"
    first, *more = (scored / f"fold{k}.npz" for k in range(4))  # as a shell passes `--scores fold*.npz`
    args = ["--scores", first, *more, "--gold", scored / "gold.jsonl", "--scheme", "IO", "-o", out]
    document = json.loads(run.ok("learn", *args, "--json").stdout)
    assert document["fit"]["won"] and document["fit"]["source"] == "cross-fitted" and document["fit"]["folds"] == 4
    assert 0 < len(rules.load(out)) == len(document["rules"])
    assert f"# priced for model {document['fit']['fingerprint']} on 140 sequences in 4 folds" in out.read_text()
    run.ok("decode", first, "--rules", out, "--scheme", "IO", "-o", tmp_path / "labels.jsonl")


def test_rules_are_tuned_for_scores(run: Cli, scored: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "my.rules", tmp_path / "tuned.rules"
    path.write_text(WRITTEN)
    args = ["--scores", scored / "fold0.npz", "--gold", tmp_path / "gold.jsonl", "--scheme", "IO", "-o", out]
    folds = CrossFit.load(scored / "m.scores").fold
    write(tmp_path / "gold.jsonl", list(read(scored / "gold.jsonl"))[: int((folds == 0).sum())])
    document = json.loads(run.ok("rules", "tune", path, *args, "--json").stdout)
    assert document["source"] == "model" and document["best"] == "tuned" and len(rules.load(out)) > 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model", "m.bridle"], "--model cannot be combined with --scores"),
        (["--scored-by", "model"], "--scored-by cannot be combined with --scores"),
        (["--cross-fit", "x"], "--cross-fit cannot be combined with --scores"),
        (["--penalty", "counts"], "--scores has no effect with this --penalty"),
        (["--labels", "A,B"], "differ in their labels"),
        ([], "the scores do not fit the tokens"),
    ],
)
def test_scores_that_do_not_fit(run: Cli, scored: Path, tmp_path: Path, args: list[str], message: str) -> None:
    base = ["learn", scored / "gold.jsonl", "--scores", scored / "fold0.npz", "-o", tmp_path / "my.rules"]
    result = run(*base, *args)
    assert result.exit_code == 2 and message in result.stderr
    labels = run("learn", scored / "gold.jsonl", "--labels", "A", "-o", tmp_path / "my.rules")
    assert labels.exit_code == 2 and "--labels has no effect without --scores" in labels.stderr
    none = run("rules", "tune", tmp_path / "my.rules", "--data", scored / "gold.jsonl")
    assert none.exit_code == 2 and "--model or --scores" in none.stderr


# ---- rules tune -----------------------------------------------------------------------------------------------------

WRITTEN = """# what we know of references

exactly 1 segment of DATE   # one year
DATE before AUTHOR
AUTHOR before TITLE  [penalty 0.5]
"""


def test_written_rules_are_tuned(run: Cli, weak: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "my.rules", tmp_path / "tuned.rules"
    path.write_text(WRITTEN)
    args = ["rules", "tune", path, "--model", weak / "m.bridle", "--data", weak / "train.jsonl"]
    result = run.ok(*args, "--cross-fit", weak / "m.scores", "--plot", tmp_path / "gains.svg")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("140 sequences in 4 folds") and lines[0].endswith("; 3 rules")
    assert lines[-1].startswith("use the tuned rules: quality ") and "as written (p = " in lines[-1]
    assert "judged" not in result.stderr  # it is the training data, as it should be
    assert path.read_text() == WRITTEN and (tmp_path / "gains.svg").exists()
    result = run.ok(*args, "-o", out)
    assert "2 of 3 rules; written to" in result.stderr
    text = out.read_text().splitlines()
    assert text[0].startswith("# Tuned by bridle") and "# priced for model" in text[1]
    assert text[2:4] == ["# what we know of references", ""]
    assert text[4].startswith("exactly 1 segment of DATE") and text[4].endswith("  # one year")
    assert text[5] == "# off: DATE before AUTHOR"
    assert len(rules.load(out)) == 2
    document = json.loads(run.ok(*args, "--json").stdout)
    assert document["best"] == "tuned" and [rule["choice"] for rule in document["rules"]][1] == "off"


def test_files_that_were_priced_apart_are_tuned_together(run: Cli, weak: Path, tmp_path: Path) -> None:
    names = ["a.rules", "b.rules"]
    for name, label in zip(names, ("DATE", "TITLE"), strict=True):
        (tmp_path / name).write_text(
            PRICED.format("0123456789abcdef", label).replace("present", "exactly 1 segment of")
        )
    args = ["--model", weak / "m.bridle", "--data", weak / "train.jsonl", "-o", tmp_path / "joint.rules"]
    assert "learned without" not in run("rules", "tune", *(tmp_path / name for name in names), *args).stderr
    text = (tmp_path / "joint.rules").read_text()
    assert text.count("priced for model") <= 1 and "0123456789abcdef" not in text and len(text.splitlines()) >= 5


@pytest.mark.parametrize(("share", "said"), [(0.5, "other models are judged"), (0.05, "as if they were new")])
def test_sequences_that_the_model_has_seen_are_reported(
    run: Cli, weak: Path, tmp_path: Path, share: float, said: str
) -> None:
    seen = list(read(weak / "train.jsonl"))[: round(40 * share)]
    write(tmp_path / "mixed.jsonl", [*seen, *samples.references("apa", count=40 - len(seen))])
    (tmp_path / "my.rules").write_text("exactly 1 segment of DATE\n")
    args = ["rules", "tune", tmp_path / "my.rules", "--model", weak / "m.bridle", "--data", tmp_path / "mixed.jsonl"]
    result = run(*args)
    assert f"trained on about {len(seen)} of these 40 sequences" in result.stderr and said in result.stderr
    judged = run(*args, "--scored-by", "model")
    assert judged.exit_code in (0, 1) and "trained on" not in judged.stderr


def test_a_file_is_tuned_in_place_if_asked(run: Cli, weak: Path, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text(WRITTEN)
    run.ok("rules", "tune", path, "--model", weak / "m.bridle", "--data", weak / "train.jsonl", "-o", path)
    run("rules", "tune", path, "--model", weak / "m.bridle", "--data", weak / "train.jsonl", "-o", path)
    assert path.read_text().count("# Tuned by bridle") == 1  # heads do not pile up


def test_rules_that_do_not_help_are_all_off(run: Cli, weak: Path, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text("at most 9 segments of TITLE\n")
    args = ["rules", "tune", tmp_path / "my.rules", "--model", weak / "m.bridle", "--data", weak / "train.jsonl"]
    result = run(*args, "-o", tmp_path / "tuned.rules")
    assert result.exit_code == 1 and "use no rules" in result.stdout
    assert rules.load(tmp_path / "tuned.rules") == []
    (tmp_path / "none.rules").write_text("# nothing\n")
    result = run("rules", "tune", tmp_path / "none.rules", "--model", weak / "m.bridle", "--data", weak / "train.jsonl")
    assert result.exit_code == 2 and "there are no rules" in result.stderr


# ---- rules test -----------------------------------------------------------------------------------------------------


def test_rules_against_gold(run: Cli, folder: Path, learned: Path) -> None:
    result = run.ok("rules", "test", learned, folder / "tune.txt", *COLUMNS)
    head, *table = result.stdout.splitlines()
    assert head == f"80 sequences, {len(rules.load(learned))} rules" and table[0].split() == ["in", "gold", "rule"]
    assert "gold obeys, %" in result.stdout


def test_rules_against_a_model(run: Cli, folder: Path, learned: Path, tmp_path: Path) -> None:
    args = ["rules", "test", learned, folder / "tune.txt", "--model", folder / "m.bridle"]
    document = json.loads(run.ok(*args, "--json").stdout)
    assert document["sequences"] == 80 and len(document["rules"]) == len(rules.load(learned))
    assert document["all"]["accuracy"] > document["none"]["accuracy"]
    text = run.ok(*args, "--no-leave-out").stdout
    assert f"no rules:  {document['none']['accuracy']:.2%}" in text and "F1 among" not in text
    assert "gain of F1 when added alone" in text
    accuracy = json.loads(run.ok("eval", folder / "tune.txt", "--model", folder / "m.bridle", "--json").stdout)
    assert document["none"]["accuracy"] == accuracy["accuracy"]


def test_relaxed_sequences_make_the_exit_code(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "never.rules").write_text("at least 5 segments of TITLE\n")
    result = run("rules", "test", tmp_path / "never.rules", folder / "tune.txt", "--model", folder / "m.bridle")
    assert result.exit_code == 1 and "sequences relaxed" in result.stdout


def test_unknown_labels_are_told_with_their_lines(run: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.rules"
    path.write_text("# head\nAUTHOR before TITEL\nat most 1 segment of YEAR\n")
    for model in ([], ["--model", folder / "m.bridle"]):
        result = run("rules", "test", path, folder / "tune.txt", *COLUMNS, *model)
        assert result.exit_code == 2 and "bad.rules:2: unknown label 'TITEL'; did you mean 'TITLE'?" in result.stderr
        assert "bad.rules:3: unknown label 'YEAR'" in result.stderr
    assert run("rules", "test", path, folder / "tune.txt", *COLUMNS, "--labels", "TITEL,YEAR").exit_code == 0


@pytest.mark.parametrize(("text", "message"), [("nonsense\n", "bad.rules:1:"), ("# nothing\n", "there are no rules")])
def test_rules_test_says_what_is_wrong(run: Cli, folder: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.rules").write_text(text)
    result = run("rules", "test", tmp_path / "bad.rules", folder / "tune.txt", *COLUMNS)
    assert result.exit_code == 2 and message in result.stderr


def test_rules_about_tokens_find_their_texts(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.rules").write_text("fix DATE at tokens /d\\d/\n")
    for model in ([], ["--model", folder / "m.bridle"]):
        document = json.loads(
            run.ok("rules", "test", tmp_path / "t.rules", folder / "tune.txt", *COLUMNS, "--json", *model).stdout
        )
        assert document["rules"][0]["gold"] == 1.0


# ---- test cases of rules files --------------------------------------------------------------------------------------

GOOD = 'example "a1 a2 t0 d1" has AUTHOR "a1 a2", DATE "d1"'
BAD = 'example "a1 t0 d1" is DATE "a1", TITLE "t0", DATE "d1"  # so'


def test_test_cases_without_data(run: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.rules"
    path.write_text(f"AUTHOR before TITLE\n{GOOD}\n")
    args = ["rules", "test", path, "--model", folder / "m.bridle"]
    assert run.ok(*args).stdout == "1 test case: 1 passed, 0 failed\n"
    split = json.loads(run(*args, "--tokens", "characters", "--json").stdout)["examples"][0]
    assert split["tokens"] == list("a1a2t0d1")
    path.write_text(f"AUTHOR before TITLE\n{GOOD}\n{BAD}\n")
    result = run(*args)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"failed {path}:3: {BAD.removesuffix('  # so')}",
        '       wanted DATE "a1", found AUTHOR "a1"',
        "2 test cases: 1 passed, 1 failed",
    ]
    result = run(*args, "--json")
    good, bad = json.loads(result.stdout)["examples"]
    assert result.exit_code == 1 and (good["passed"], bad["passed"]) == (True, False)
    assert (bad["line"], bad["wrong"], bad["tokens"], bad["labels"][0]) == (3, [0], ["a1", "t0", "d1"], "AUTHOR")


def test_test_cases_beside_data(run: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.rules"
    path.write_text(f"AUTHOR before TITLE\n{BAD}\n")
    args = ["rules", "test", path, folder / "tune.txt", *COLUMNS]
    result = run.ok(*args)
    assert result.stdout.startswith("80 sequences, 1 rules") and "1 test case not run: pass --model" in result.stdout
    assert json.loads(run.ok(*args, "--json").stdout)["examples"] is None
    result = run(*args, "--model", folder / "m.bridle")
    assert result.exit_code == 1 and result.stdout.endswith("1 test case: 0 passed, 1 failed\n")
    document = json.loads(run(*args, "--model", folder / "m.bridle", "--json").stdout)
    assert document["sequences"] == 80 and [sentence["passed"] for sentence in document["examples"]] == [False]


def test_a_file_of_test_cases_alone(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.rules").write_text(f"{GOOD}\n")
    assert run("rules", "test", tmp_path / "t.rules", "--model", folder / "m.bridle").exit_code == 0
    result = run("rules", "test", tmp_path / "t.rules", folder / "tune.txt", "--model", folder / "m.bridle")
    assert result.exit_code == 2 and "there are no rules" in result.stderr


@pytest.mark.parametrize(
    ("text", "model", "more", "message"),
    [
        (GOOD, False, (), "got no DATA and no --model"),
        ("present TITLE", True, (), "no test cases in the rules file"),
        (GOOD, True, ("--plot", "p.svg"), "--plot draws"),
    ],
)
def test_nothing_to_test_on(
    run: Cli, folder: Path, tmp_path: Path, text: str, model: bool, more: tuple[str, ...], message: str
) -> None:
    (tmp_path / "t.rules").write_text(f"{text}\n")
    result = run("rules", "test", tmp_path / "t.rules", *(["--model", folder / "m.bridle"] if model else []), *more)
    assert result.exit_code == 2 and message in result.stderr


def test_test_cases_stay_when_rules_are_tuned_and_shown(run: Cli, folder: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "t.rules", tmp_path / "tuned.rules"
    path.write_text(f"AUTHOR before TITLE\n{BAD}\nTITLE before DATE\n")
    run("rules", "tune", path, "--model", folder / "m.bridle", "--data", folder / "tune.txt", *COLUMNS, "-o", other)
    assert BAD in other.read_text().splitlines()
    assert run.ok("rules", "show", path).stdout == f"AUTHOR before TITLE\nTITLE before DATE\n{BAD}\n"
    last = json.loads(run.ok("rules", "show", path, "--json").stdout.splitlines()[-1])
    assert last == {"file": str(path), "line": 2, "example": BAD.removesuffix("  # so"), "comment": "so"}


def test_deterministic_rules_decide_under_a_model(run: Cli, folder: Path, tmp_path: Path) -> None:
    """Pass the file to --rules of commands that have a model, beside others; other commands say where it belongs."""
    det, more, data = tmp_path / "c.det", tmp_path / "one.rules", folder / "tune.txt"
    run.ok("learn", folder / "train.txt", "-o", det, *COLUMNS, "--kind", "deterministic")
    more.write_text("at most 1 segment of DATE\n")
    tag = ["tag", folder / "m.bridle", data, "--json", "--on-infeasible", "skip"]
    lines = run(*tag, "--rules", det, "--rules", more).stdout.splitlines()
    tokens = [list(example.tokens) for example in read(data, columns=["word", "label"])]
    kept = 0
    for line, sure in zip(lines, DeterministicRules.load(det).decide(tokens).names(), strict=True):
        labels = json.loads(line)["labels"]
        assert not labels or all(b in (None, a) for a, b in zip(labels, sure, strict=True))
        kept += sum(b is not None for b in sure)
    assert kept > 50
    assert "accuracy" in run.stdout("eval", data, "--model", folder / "m.bridle", "--rules", det)
    np.savez(tmp_path / "s.npz", unary=np.zeros((2, 3)))
    failed = run.ok("decode", tmp_path / "s.npz", "--labels", "AUTHOR,DATE,TITLE", "--rules", det, code=2).stderr
    assert "a binary file of Bridle" in failed and "bridle tag MODEL --rules FILE" in failed
    assert "only one file of deterministic rules" in run.ok(*tag, "--rules", det, "--rules", det, code=2).stderr
