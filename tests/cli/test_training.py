"""`bridle train`, `tag` and `eval`: files in, files out, and what goes wrong."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.data import load, read
from bridle.errors import FileError
from commands import Cli

SENTENCES = [
    ("the/D/B-NP old/J/I-NP man/N/I-NP sleeps/V/B-VP", 3),
    ("a/D/B-NP cat/N/I-NP sees/V/B-VP the/D/B-NP dog/N/I-NP", 3),
    ("dogs/N/B-NP sleep/V/B-VP in/P/O a/D/B-NP house/N/I-NP", 2),
    ("he/N/B-NP runs/V/B-VP to/P/O the/D/B-NP old/J/I-NP house/N/I-NP", 2),
]
COLUMNS = ["--columns", "word,pos,chunk"]


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training file and a model."""
    folder = tmp_path_factory.mktemp("models")
    rows = ["\n".join(w.replace("/", " ") for w in text.split()) for text, times in SENTENCES for _ in range(times)]
    (folder / "train.txt").write_text("\n\n".join(rows) + "\n")
    run.ok("train", folder / "train.txt", "-o", folder / "m.bridle", *COLUMNS, "--iterations", 30)
    return folder


def plain(text: str) -> str:
    """Columns without their labels."""
    return "\n".join(" ".join(line.split()[:2]) for line in text.splitlines()) + "\n"


def test_train_tag_eval(run: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    run.ok("tag", folder / "m.bridle", folder / "train.txt", "-o", out)
    X, y = load(out, columns=["word", "pos", "gold", "guess"])
    assert [x["gold"] for x in X] == y and len(y) == 10
    report = run.stdout("eval", out)
    assert report.startswith("processed 49 tokens with") and "accuracy: 100.00%" in report
    assert json.loads(run.stdout("eval", out, "--json"))["segments"]["f1"] == 1.0
    itself = run.stdout("eval", folder / "train.txt", "--model", folder / "m.bridle", "--json")
    assert json.loads(itself)["accuracy"] == 1.0
    assert "B-NP" in run.stdout("eval", out, "--by-label")


def test_a_file_without_labels_can_be_tagged(run: Cli, folder: Path) -> None:
    text = plain((folder / "train.txt").read_text())
    tagged = run.stdout("tag", folder / "m.bridle", stdin=text)
    assert tagged.splitlines()[0].split("\t") == ["the", "D", "B-NP"]
    assert run.stdout("tag", folder / "m.bridle", "-", "--threads", 2, stdin=text) == tagged


def test_two_files_are_compared(run: Cli, folder: Path, tmp_path: Path) -> None:
    guess = tmp_path / "guess.txt"
    guess.write_text((folder / "train.txt").read_text().replace("he N B-NP", "he N O", 1))
    scores = json.loads(run.stdout("eval", folder / "train.txt", guess, "--json", *COLUMNS))
    assert scores["tokens"] - scores["correct_tokens"] == 1
    guess.write_text("the D B-NP\n")
    result = run("eval", folder / "train.txt", guess, *COLUMNS)
    assert result.exit_code == 2 and "another number of tokens" in result.output
    guess.write_text((folder / "train.txt").read_text() + "\nx N O\n")
    assert "different numbers of sequences" in run("eval", folder / "train.txt", guess, *COLUMNS).output


def test_rules_scores_and_the_k_best(run: Cli, folder: Path, tmp_path: Path) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text("at most 1 segment of NP\nfix O at tokens /house/\n")
    text = "a D\ncat N\nsees V\nthe D\nhouse N\n"
    record = json.loads(run.stdout("tag", folder / "m.bridle", "--rules", rules, "--to", "jsonl", stdin=text))
    assert record["labels"][-1] == "O" and record["optimal"] and record["tokens"][1] == "cat"
    segments = bridle.load(folder / "m.bridle").labels_.segments(record["labels"])
    assert sum(s.type == "NP" for s in segments) <= 1
    ranked = json.loads(run.stdout("tag", folder / "m.bridle", "--k", 3, stdin=text))["k_best"]
    assert len(ranked) == 3 and ranked[0]["score"] >= ranked[1]["score"] >= ranked[2]["score"]
    scored = json.loads(run.stdout("tag", folder / "m.bridle", "--scores", stdin=text))
    assert len(scored["probabilities"]) == 5 and all(0 < p <= 1 for p in scored["probabilities"])


def test_an_infeasible_sequence(run: Cli, folder: Path, tmp_path: Path) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text("fix O at 0\nfix B-NP at 0\n")
    text = "a D\ncat N\n"
    assert run("tag", folder / "m.bridle", "--rules", rules, stdin=text).exit_code == 1  # relaxed, and told
    stopped = run("tag", folder / "m.bridle", "--rules", rules, "--on-infeasible", "raise", stdin=text)
    assert stopped.exit_code == 3 and "<stdin>:1" in stopped.output
    skipped = run("tag", folder / "m.bridle", "--rules", rules, "--on-infeasible", "skip", stdin=text)
    assert skipped.exit_code == 1 and skipped.stdout.splitlines()[0] == "a\tD\t_"


@pytest.mark.parametrize("learner", ["crf", "perceptron", "local-perceptron", "local-winnow", "ibt"])
def test_every_learner(run: Cli, folder: Path, tmp_path: Path, learner: str) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text("well formed\n")
    more = ["--rules", rules] if learner == "ibt" else []
    model, log = tmp_path / "m.bridle", tmp_path / "log.jsonl"
    args = ["train", folder / "train.txt", "-o", model, *COLUMNS, "--learner", learner, "--iterations", 5, *more]
    result = run(*args, "--log", log, "--dev", folder / "train.txt", "--progress")
    assert result.exit_code == 0 and f"saved as {model}" in result.stderr and "1/5" in result.stderr
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    assert steps[0]["iteration"] == 1 and all(0 <= step["score"] <= 1 for step in steps)
    assert json.loads(run.stdout("eval", folder / "train.txt", "--model", model, "--json"))["accuracy"] > 0.9


def test_checkpoint_and_resume(run: Cli, folder: Path, tmp_path: Path) -> None:
    args: list[Any] = ["train", folder / "train.txt", *COLUMNS, "--checkpoint", tmp_path / "c", "--every", 4]
    run.ok(*args, "-o", tmp_path / "whole", "--iterations", 12)
    run.ok(*args, "-o", tmp_path / "half", "--iterations", 8)
    run.ok(*args, "-o", tmp_path / "resumed", "--iterations", 12, "--resume", tmp_path / "c")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
    other = run(*args, "-o", tmp_path / "x", "--resume", tmp_path / "c", "--c2", 3)
    assert other.exit_code == 2 and "another training" in other.output and not (tmp_path / "x").exists()


def test_templates_from_a_file(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("word[0]\nsuffix2[0] pos[-1]\n")
    run.ok("train", folder / "train.txt", "-o", tmp_path / "m", *COLUMNS, "--features", tmp_path / "t")
    assert bridle.load(tmp_path / "m").linear_.pairwise is None  # no label[-1]


def test_markup_is_trained_on_and_plain_text_is_tagged(run: Cli, tmp_path: Path) -> None:
    line = "<author> A. Cau, </author> <title> On <br> it. </title> <date> 1992. </date>\n"
    (tmp_path / "refs.txt").write_text(line * 3)
    run.ok("train", tmp_path / "refs.txt", "-o", tmp_path / "m", "--format", "tagged")
    tagged = run.stdout("tag", tmp_path / "m", stdin="A. Cau, On it. 1992.\n")
    assert [line.split("\t") for line in tagged.split("\n") if line] == [
        ["A.", "author"],
        ["Cau,", "author"],
        ["On", "title"],
        ["it.", "title"],
        ["1992.", "date"],
    ]


def test_words_are_segmented(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("共同 创造 美好 的 世纪\n美好 的 新 世纪\n" * 3)
    run.ok("train", tmp_path / "words.txt", "-o", tmp_path / "m", "--format", "segmented", "--learner", "perceptron")
    assert run.stdout("tag", tmp_path / "m", stdin="共同创造美好的新世纪\n") == "共同 创造 美好 的 新 世纪\n"


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def test_bad_training_data(run: Cli, folder: Path, tmp_path: Path) -> None:
    def told(text: str, *more: object) -> str:
        (tmp_path / "bad.txt").write_bytes(text.encode() if isinstance(text, str) else text)
        result = run("train", tmp_path / "bad.txt", "-o", tmp_path / "m", "--format", "conll", *more)
        assert result.exit_code == 2 and not (tmp_path / "m").exists(), result.output
        return result.output

    assert "no sequences" in told("")
    assert "only the label 'B'" in told("a B\nb B\n")
    assert "bad.txt:2: this line has a different number of columns" in told("a B\nb\n")
    assert "no column 'pos'" in told("a B\nb C\n", "--features", "chunking")
    assert "unknown feature set" in told("a B\nb C\n", "--features", "chonking")
    assert "at least one rule" in told("a B\nb C\n", "--learner", "ibt")
    assert "wanted an integer >= 1" in told("a B\nb C\n", "--iterations", 0)
    assert "patience" in told("a B\nb C\n", "--patience", 2)
    (tmp_path / "dev").write_text("a X\n")
    unknown = told("a B\nb C\n", "--dev", tmp_path / "dev")
    assert "dev:1: unknown label; got 'X'; wanted" in unknown and "pass --on-unknown wrong to count it" in unknown


def test_wrong_encoding_names_the_line(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("a B\nb\xfc C\n".encode("latin-1"))
    result = run("train", tmp_path / "latin.txt", "-o", tmp_path / "m", "--format", "conll")
    assert result.exit_code == 2 and "latin.txt:2" in result.output
    run.ok("train", tmp_path / "latin.txt", "-o", tmp_path / "m", "--format", "conll", "--option", "encoding=latin-1")


def test_a_bad_model_and_bad_usage(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "no").write_bytes((folder / "m.bridle").read_bytes()[:-1])
    assert run("tag", tmp_path / "no", stdin="a D\n").exit_code == 2
    assert run("tag", tmp_path / "none", stdin="a D\n").exit_code == 2
    assert run("tag", folder / "m.bridle", "--k", 2, "--to", "conll", stdin="a D\n").exit_code == 2
    assert "PREDICTED and --model cannot be combined" in run("eval", "x", "y", "--model", folder / "m.bridle").output
    assert "KEY=VALUE" in run("tag", folder / "m.bridle", "--option", "x", stdin="a D\n").output
    assert "only one column" in run("eval", "-", "--format", "conll", stdin="a B\nb C\n").output


def test_a_full_disk_leaves_the_earlier_model(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "m"
    run.ok("train", folder / "train.txt", "-o", model, *COLUMNS, "--iterations", 3)
    before = model.read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bridle.atomic.os.fsync", full)
    result = run("train", folder / "train.txt", "-o", model, *COLUMNS, "--iterations", 4)
    assert result.exit_code == 2 and model.read_bytes() == before


@pytest.mark.slow
def test_ctrl_c_saves_the_best_model_so_far(run: Cli, tmp_path: Path) -> None:
    """A training that would go on for long, in a process of its own."""
    lines = [f"w{k % 97} {'ABC'[k % 3]}" + ("\n" if k % 11 == 0 else "") for k in range(20000)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    more = ["--learner", "perceptron", "--format", "conll", "--log", "log"]
    process = run.start("train", "train.txt", "-o", "m", "--iterations", 1_000_000, *more, cwd=tmp_path)
    while not any(part.stat().st_size for part in tmp_path.glob("log.*.part")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=30)
    assert process.returncode == 130 and b"best model so far" in output and b"Traceback" not in output
    assert len(bridle.load(tmp_path / "m").labels_) == 3


# ---- the format `text`, and files without their label column --------------------------------------------------------


def test_plain_text(tmp_path: Path) -> None:
    (tmp_path / "t.raw").write_text("Knuth, D. (1984).\n\n  x \n")
    assert [list(e.tokens) for e in read(tmp_path / "t.raw")] == [["Knuth,", "D.", "(1984)."], ["x"]]
    words = [list(e.tokens) for e in read(tmp_path / "t.raw", tokens="words")]
    marks = [list(e.tokens) for e in read(tmp_path / "t.raw", tokens="punctuation")]
    characters = next(read(tmp_path / "t.raw", tokens="characters", column="char"))
    assert words[0] == ["Knuth", "D", "1984"] and marks[0][:4] == ["Knuth", ",", "D", "."]
    assert "".join(characters.columns["char"]) == "Knuth,D.(1984)."
    with pytest.raises(FileError, match="`tokens` has an unknown value"):
        read(tmp_path / "t.raw", tokens="none")


def test_the_label_column_may_be_missing_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("a D\nb N\n")
    columns = ["word", "pos", "chunk"]
    assert next(read(tmp_path / "x.conll", columns=columns, unlabelled="allow")).labels is None
    with pytest.raises(FileError, match="this line has a different number of columns"):
        next(read(tmp_path / "x.conll", columns=columns))
    (tmp_path / "y.conll").write_text("a D X\n")
    assert next(read(tmp_path / "y.conll", columns=columns, unlabelled="allow")).labels == ["X"]


# ---- what a review found --------------------------------------------------------------------------------------------


def test_the_layout_of_the_training_file_is_remembered(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.conll").write_text("the\tD\nold\tJ\nman\tN\n\na\tD\ndog\tN\n")
    run.ok("train", tmp_path / "t.conll", "-o", tmp_path / "m", "--features", "word[0]")
    assert run.stdout("tag", tmp_path / "m", stdin="the\ndog\n").splitlines()[:2] == ["the\tD", "dog\tN"]
    result = run("tag", tmp_path / "m", stdin="the dog sleeps .\n")
    assert result.exit_code == 2 and "this line has a different number of columns" in result.output


def test_nothing_is_trained_that_cannot_be_saved(run: Cli, folder: Path, tmp_path: Path) -> None:
    train = ["train", folder / "train.txt", *COLUMNS]
    for out in (tmp_path / "none" / "m", tmp_path, "-"):
        result = run(*train, "-o", out)
        assert result.exit_code == 2 and "cannot write" in result.output
    assert "another name" in run(*train, "-o", tmp_path / "m", "--checkpoint", tmp_path / "m").output


def test_a_checkpoint_that_fails_loses_no_model(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridle.models import files

    plain = files.save

    def full(path: Any, kind: str, *more: Any) -> None:
        if kind == "checkpoint":
            raise FileError("cannot write the checkpoint", got="no space")
        plain(path, kind, *more)

    monkeypatch.setattr(files, "save", full)
    args = ["train", folder / "train.txt", "-o", tmp_path / "m", *COLUMNS, "--checkpoint", tmp_path / "c", "--every", 2]
    result = run(*args, "--iterations", 9)
    assert result.exit_code == 2 and "cannot write the checkpoint" in result.output
    assert bridle.load(tmp_path / "m").progress_.iteration == 2


def test_errors_name_the_line(run: Cli, folder: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"tokens": ["a"], "pos": ["D"]})] * 40 + [json.dumps({"tokens": ["a"]})]
    (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")
    result = run("tag", folder / "m.bridle", tmp_path / "x.jsonl", "--format", "jsonl")
    assert result.exit_code == 2 and "x.jsonl:41" in result.output and "no column 'pos'" in result.output
    assert result.stdout.count("\n") >= 40  # what came before it
    (tmp_path / "t").write_text("word[0\n")
    result = run("train", folder / "train.txt", "-o", tmp_path / "m", *COLUMNS, "--features", tmp_path / "t")
    assert result.exit_code == 2 and f"{tmp_path / 't'}: line 1" in result.output


def test_eval_compares_the_same_texts_only(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "g").write_text("a X\nb Y\n")
    (tmp_path / "h").write_text("a X\nc Y\n")
    result = run("eval", tmp_path / "g", tmp_path / "h", "--format", "conll")
    assert result.exit_code == 2 and "another text" in result.output


def test_options_that_say_nothing_are_refused(run: Cli, folder: Path, tmp_path: Path) -> None:
    train = ["train", folder / "train.txt", "-o", tmp_path / "m", *COLUMNS]
    (tmp_path / "margin.toml").write_text("margin = 2\n")
    (tmp_path / "average.toml").write_text('average = "last"\n')
    for more, flag, learner, other in (
        (["--settings", tmp_path / "margin.toml"], "margin", "crf", "local-perceptron"),
        (["--settings", tmp_path / "average.toml"], "average", "crf", "perceptron"),
        (["--learner", "perceptron", "--c2", 2], "--c2", "perceptron", "crf"),
    ):
        result = run(*train, *more)
        output = f"`{flag}` has no effect with `--learner {learner}`; remove it or use `--learner {other}`."
        assert result.exit_code == 2 and output in result.output
    assert "cannot have this format" in run("tag", folder / "m.bridle", "--to", "text", stdin="a D\n").output


def test_json_lines_keep_columns_and_gold(run: Cli, folder: Path) -> None:
    record = json.loads(run.stdout("tag", folder / "m.bridle", "--to", "jsonl", stdin="a D B-NP\n"))
    assert record["pos"] == ["D"] and record["gold"] == ["B-NP"] and record["tokens"] == ["a"]


def test_what_was_left_out_is_told(run: Cli, folder: Path) -> None:
    result = run("tag", folder / "m.bridle", stdin="-DOCSTART- -X- O\n\na D B-NP\n")
    assert result.exit_code == 0 and "left out 1" in result.stderr


def test_a_constrained_tagger(run: Cli, tmp_path: Path) -> None:
    """Take a constrained tagger as a model like others: tag with it, under rules, evaluate and describe it."""
    words = [("the", "D"), ("cat", "N"), ("sees", "V"), ("a", "D"), ("dog", "N")]
    sentences = ["".join(f"{word} {label}\n" for word, label in words[k:]) for k in (0, 3, 0) * 9]
    (tmp_path / "train.txt").write_text("\n".join(sentences))
    (tmp_path / "one.rules").write_text("at most 1 token of N\n")
    model, data = tmp_path / "m.bridle", tmp_path / "train.txt"
    train = ["train", data, "-o", model, "--learner", "constrained", "--features", "pos"]
    run.ok(*train, "--dev", data)
    loaded = bridle.load(model)
    assert type(loaded).__name__ == "ConstrainedTagger" and loaded.score([["the", "dog"]], [["D", "N"]]) == 1
    described = run.stdout("info", model)
    assert "contexts that decide tokens" in described and "ConstrainedTagger" in described
    assert "-> N" in json.loads(run.stdout("info", model, "--json"))["rules"][1]
    assert "100.00" in run.stdout("eval", data, "--model", model)
    tag = ["tag", model, "-", "--columns", "word", "--label", "none", "--rules", tmp_path / "one.rules", "--k", 2]
    best = json.loads(run.stdout(*tag, stdin="x\nfish\nsees\nfish\n"))["k_best"]
    assert len(best) == 2 and all(d["labels"].count("N") <= 1 for d in best)
    for flag in (["--cv", 2], ["--search", "cutoff"], ["--cross-fit", tmp_path / "x"]):
        assert "cannot be used with --learner constrained" in run.ok(*train, *flag, code=2).stderr
    assert "has no effect with" in run.ok(*train, "--class-weight", "N=2", code=2).stderr


def test_unlabelled_text_and_rules(run: Cli, tmp_path: Path) -> None:
    few, heap, rules = tmp_path / "few.txt", tmp_path / "heap.txt", tmp_path / "my.rules"
    few.write_text("Ann N\nwent O\nto O\nRome C\n\nBob N\nis O\nhere O\n\nOslo C\nis O\nbig O\n")
    pairs = [(name, city) for name in ("Ann", "Bob", "Kim") for city in ("Rome", "Oslo", "Lima", "Bonn")]
    heap.write_text("\n".join(f"{name}\nwent\nto\n{city}\n" for name, city in pairs))
    rules.write_text("fix C at tokens /[A-Z].*/ after tokens /to/\nfix N at tokens /[A-Z].*/ before tokens /went/\n")
    out, new = tmp_path / "m.bridle", tmp_path / "new.txt"
    new.write_text("Lima\nis\nbig\n\nKim\nis\nhere\n")
    columns = ("--columns", "word,label", "--features", "word[0]\nword[-1]\nword[1]\nlabel[-1]")
    text = ("--unlabelled", heap, "--rules", rules)
    said = run.ok("train", few, "-o", out, *columns, *text).stderr
    assert "3 rounds over the unlabelled text" in said
    assert run.stdout("tag", out, new) == "Lima\tC\nis\tO\nbig\tO\n\nKim\tN\nis\tO\nhere\tO\n\n"
    record = json.loads((tmp_path / "m.bridle.json").read_text())
    assert record["unlabelled"]["sequences"] == 12 and record["unlabelled"]["files"][0]["file"] == str(heap)
    assert record["settings"]["unlabelled"] == [str(heap)]
    again = tmp_path / "again.bridle"
    run.ok("train", "--settings", tmp_path / "m.bridle.json", "-o", again)
    assert again.read_bytes() == out.read_bytes()
    for more in (("--cv", 2), ("--search", "c2"), ("--learner", "ibt"), ("--cross-fit", tmp_path / "x.scores")):
        refused = run.ok("train", few, "-o", tmp_path / "n.bridle", *columns, *text, *more, code=2).stderr
        assert f"--unlabelled and {more[0]}" in refused and "cannot be combined" in refused
    (tmp_path / "empty.txt").write_text("")
    nothing = ("train", few, "-o", tmp_path / "n.bridle", *columns, "--unlabelled", tmp_path / "empty.txt")
    assert "empty.txt" in run.ok(*nothing, code=2).stderr and not (tmp_path / "n.bridle").exists()
    run.ok("train", few, "-o", heap, *columns, *text, code=2)
    assert heap.read_text().startswith("Ann")
