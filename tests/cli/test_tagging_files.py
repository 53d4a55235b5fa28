"""`bridle tag` over files: formats in and out, one file and shards, ids; messages and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridle
import bridle.rules
from bridle.data import Example, read, write
from bridle.runs.manifest import NAME
from commands import Cli

TRAIN = (
    "the D B-NP\nold J I-NP\nman N I-NP\nsleeps V B-VP\n\na D B-NP\ndog N I-NP\nsees V B-VP\nthe D B-NP\ncat N I-NP\n"
)
RULES = "at most 1 segment of NP\n"
NEVER = "at least 9 tokens of NP\n"
INPUTS = {
    "labelled.txt": TRAIN,
    "bare.txt": "the D\nold J\n\ncat N\n",
    "comments.txt": "# sent 1\nthe\tD\tB-NP\n\n# sent 2\n# more\ncat\tN\tI-NP\n",
    "gaps.txt": "the D ?\ncat N I-NP\n",
    "ids.jsonl": '{"id": "a", "tokens": ["the"], "pos": ["D"]}\n{"id": 7, "tokens": ["cat"], "pos": ["N"]}\n',
    "gold.jsonl": '{"tokens": ["the", "cat"], "pos": ["D", "N"], "labels": ["B-NP", "I-NP"]}\n',
    "some.jsonl": '{"tokens": ["the"], "pos": ["D"]}\n{"tokens": ["cat"], "pos": ["N"], "labels": ["I-NP"]}\n',
    "given.jsonl": '{"tokens": ["the"], "pos": ["D"], "given": {"verb": 0}}\n{"tokens": ["cat"], "pos": ["N"]}\n',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, inputs of several kinds, and rules."""
    place = tmp_path_factory.mktemp("cli_files")
    (place / "train.txt").write_text(TRAIN)
    (place / "np.rules").write_text(RULES)
    (place / "never.rules").write_text(NEVER)
    Cli().ok("train", place / "train.txt", "-o", place / "m.bridle", "--columns", "word,pos,chunk", "--c2", 1)
    for name, text in INPUTS.items():
        (place / name).write_text(text)
    examples = [Example({"word": ["the", "cat"], "pos": ["D", "N"]}, ["B-NP", "I-NP"], id=f"x{k}") for k in range(9)]
    write(place / "table.parquet", examples)
    write(place / "table.arrow", examples)
    return place


def content(path: Path) -> Any:
    """The bytes of a text, or the rows of a table."""
    if path.suffix in (".parquet", ".arrow"):
        return pa.ipc.open_file(path).read_all() if path.suffix == ".arrow" else pq.read_table(path)
    return path.read_bytes()


def labels_of(path: Path) -> list[Any]:
    """The labels of a file; None where there are none."""
    if path.suffix in (".parquet", ".arrow"):
        rows: list[Any] = content(path)["labels"].to_pylist()
    else:
        rows = [example.labels for example in read(path, path.suffix[1:])]
    return [None if labels is None or set(labels) == {"_"} else labels for labels in rows]


@pytest.mark.parametrize("more", [[], ["--rules", "np.rules"], ["--rules", "never.rules", "--on-infeasible", "skip"]])
@pytest.mark.parametrize("to", ["conll", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("name", [*INPUTS, "table.parquet", "table.arrow"])
def test_one_file_and_shards_hold_what_the_library_says(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, to: str, more: list[str]
) -> None:
    monkeypatch.chdir(folder)
    model = bridle.load("m.bridle")
    rules = bridle.rules.load(more[1]) if more else ()
    options = {"columns": ["word", "pos", "chunk"], "unlabelled": "allow"} if name.endswith("txt") else {}
    with read(name, **options) as examples:
        result = model.decode(
            [dict(sentence.columns) for sentence in examples], model.decoder(rules, on_infeasible="skip")
        )
    wanted = [labels or None for labels in result.labels]
    code = 1 if None in wanted else 0
    run.ok("tag", "m.bridle", name, "--to", to, "-o", f"{tmp_path}/shards/", *more, code=code)
    shards = sorted((tmp_path / "shards").glob("part-*"))
    assert [labels for path in shards for labels in labels_of(path)] == wanted
    run.ok("tag", "m.bridle", name, "--to", to, "-o", tmp_path / f"one.{to}", *more, code=code)
    if (name, to) != ("some.jsonl", "conll"):  # some have gold labels: lines differ in their columns
        assert len(shards) == 1 and labels_of(tmp_path / f"one.{to}") == wanted


def test_progress_as_json_has_a_last_line(run: Cli, folder: Path, tmp_path: Path) -> None:
    for out in (["-o", tmp_path / "x.txt"], [], ["-o", f"{tmp_path}/shards/"]):
        stderr = run.ok("tag", folder / "m.bridle", folder / "bare.txt", *out, "--json-progress").stderr
        (last,) = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
        assert (last["rows"], last["tokens"], last["share"]) == (2, 3, 1.0)


@pytest.mark.parametrize("name", ["bare.txt", "ids.jsonl", "table.parquet"])
def test_shards_begin_and_end(run: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    command = ["tag", folder / "m.bridle", folder / name, "-o", out]
    stderr = run.ok(*command, "--resume", "--shard-size", 1).stderr
    assert "rows" in stderr and "tokens/s" in stderr and "checksum of ids" in stderr
    again = run.ok(*command, "--resume", "--shard-size", 1).stderr
    assert again.startswith("bridle: this run has finished already: ") and stderr.split("; ")[1] == again.split("; ")[1]
    refused = run.ok(*command, code=2).stderr
    assert "already holds a run" in refused and "--resume to go on with it" in refused
    suffix = {"bare.txt": ".conll", "ids.jsonl": ".jsonl", "table.parquet": ".parquet"}[name]
    assert sorted(path.name for path in out.iterdir())[:2] == [NAME, f"part-00000{suffix}"]


def test_the_folder_names_the_format(run: Cli, folder: Path, tmp_path: Path) -> None:
    run.ok("tag", folder / "m.bridle", folder / "bare.txt", "-o", f"{tmp_path}/tagged.parquet/")
    table = pq.read_table(tmp_path / "tagged.parquet" / "part-00000.parquet")
    assert table.schema.names == ["id", "tokens", "labels", "pos", "status", "error"]
    assert table["id"].to_pylist() == ["0", "1"] and table["labels"].to_pylist() == [["B-NP", "I-NP"], ["I-NP"]]
    run.ok("tag", folder / "m.bridle", folder / "bare.txt", "-o", f"{tmp_path}/j/", "--json")
    rows = [json.loads(line) for line in (tmp_path / "j" / "part-00000.jsonl").read_text().splitlines()]
    assert rows[1] == {
        "id": "1",
        "tokens": ["cat"],
        "labels": ["I-NP"],
        "pos": ["N"],
        "status": "optimal",
    }


def test_folders_and_patterns(run: Cli, folder: Path, tmp_path: Path) -> None:
    for k in range(3):
        (tmp_path / f"x{k}.conll").write_text(f"the D\nw{k} N\n")
    wanted = "".join(f"the\tD\tB-NP\nw{k}\tN\tI-NP\n\n" for k in range(3))
    assert run.stdout("tag", folder / "m.bridle", tmp_path) == wanted
    assert run.stdout("tag", folder / "m.bridle", f"{tmp_path}/x*.conll") == wanted


def test_rows_that_fail_are_counted_and_kept(run: Cli, folder: Path, tmp_path: Path) -> None:
    tokens = [["the", "cat"], None, ["the", None], ["cat"]]
    pos = [["D", "N"], None, ["D", "N"], ["N"]]
    pq.write_table(pa.table({"id": list("abcd"), "tokens": tokens, "pos": pos}), tmp_path / "x.parquet")
    command = ["tag", folder / "m.bridle", tmp_path / "x.parquet"]
    stderr = run.ok(*command, "-o", f"{tmp_path}/t/", code=1).stderr
    assert "2 sequences failed and have no labels" in stderr and "2 error" in stderr
    table = pq.read_table(tmp_path / "t" / "part-00000.parquet")
    assert table["status"].to_pylist() == ["optimal", "error", "error", "optimal"]
    assert table["id"].to_pylist() == list("abcd") and table["error"].null_count == 2
    run.ok(*command, "-o", f"{tmp_path}/c/", "--to", "conll", code=1)
    assert [e.labels for e in read(tmp_path / "c" / "part-00000.conll", "conll")] == [
        ["B-NP", "I-NP"],
        ["_"],
        ["_", "_"],
        ["I-NP"],
    ]
    run.ok(*command, "-o", f"{tmp_path}/r/", "--on-error", "raise", code=2)


def test_rows_that_fail_are_kept_in_one_file_too(run: Cli, folder: Path, tmp_path: Path) -> None:
    lines = ['{"tokens": ["cat"], "pos": ["N"]}', '{"id": "s", "tokens": [1]}', '{"tokens": ["the"], "pos": ["D"]}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    command = ["tag", folder / "m.bridle", tmp_path / "x.jsonl", "--on-error", "row"]
    done = run.ok(*command, "--json", code=1)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["id"], record["labels"]) for record in records] == [(0, ["I-NP"]), ("s", None), (2, ["B-NP"])]
    assert "x.jsonl:2: tokens are not a list of strings" in records[1]["error"]
    assert "1 sequences failed and have no labels" in done.stderr
    assert "cat\tN\tI-NP\n\n_\t_\t_\n\nthe\tD\tB-NP\n" in run.ok(*command, "--to", "conll", code=1).stdout
    assert run.ok(*command, "--to", "csv", code=1).stdout.split() == [
        "word,pos,label",
        "cat,N,I-NP",
        "_,_,_",
        "the,D,B-NP",
    ]
    assert [json.loads(x)["text"] for x in run.ok(*command, "--to", "spans", code=1).stdout.splitlines()] == [
        "cat",
        "_",
        "the",
    ]
    for to in ("parquet", "arrow"):
        run.ok(*command, "-o", tmp_path / f"y.{to}", code=1)
        assert content(tmp_path / f"y.{to}")["tokens"].to_pylist()[::2] == [["cat"], ["the"]]


@pytest.mark.parametrize("to", ["parquet", "arrow", "jsonl"])
def test_shards_have_scores_and_the_k_best(run: Cli, folder: Path, tmp_path: Path, to: str) -> None:
    run.ok("tag", folder / "m.bridle", folder / "bare.txt", "-o", f"{tmp_path}/out/", "--to", to, "--k", 2, "--scores")
    path = tmp_path / "out" / f"part-00000.{to}"
    lines = [] if to != "jsonl" else [json.loads(line) for line in path.read_text().splitlines()]
    rows = lines or content(path).to_pylist()
    model = bridle.load(folder / "m.bridle")
    wanted = model.decode(
        [{"word": ["the", "old"], "pos": ["D", "J"]}, {"word": ["cat"], "pos": ["N"]}], model.decoder()
    )
    for row, decoding in zip(rows, wanted, strict=True):
        assert row["score"] == pytest.approx(decoding.score) and row["status"] == "optimal"
        assert len(row["probabilities"]) == len(row["labels"]) and len(row["k_best"]) == 2
        assert row["k_best"][0]["labels"] == row["labels"] == decoding.labels


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--resume"], "--resume needs a folder for its output"),
        (["--shard-size", "5", "-o", "x.txt"], "the output has no shards; got --shard-size 5 with one file"),
        (["-o", "new/", "--to", "csv"], "the output cannot have this format; got 'csv'"),
        (["-o", "new/", "--shard-size", "much"], "bad option shard_size; got 'much'"),
        (["-o", "new/", "--memory", "much"], "bad option memory; got 'much'"),
        (["-o", "no/where/", "--to", "conll"], "cannot write the manifest"),
    ],
)
def test_what_is_refused(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in run.ok("tag", folder / "m.bridle", folder / "bare.txt", *more, code=2).stderr
    assert not list(tmp_path.iterdir())
    assert "a run needs files" in run.ok("tag", folder / "m.bridle", "-o", "new/", code=2, stdin="the D\n").stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_are_not_read(run: Cli, folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    output = run.ok(
        "tag", folder / "m.bridle", "--format", "conll", tmp_path / "pipe", "-o", f"{tmp_path}/out/", code=2
    )
    assert "a run needs files to read; got a pipe or a device" in output.stderr


def test_output_in_the_input_or_where_a_file_is(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("the D\n")
    command = ["tag", folder / "m.bridle", tmp_path, "--resume", "-o"]
    assert "the output would be read as input" in run.ok(*command, tmp_path / "out", code=2).stderr
    command[2] = tmp_path / "x.conll"
    (tmp_path / "file").write_text("")
    assert "The output is a file, not a folder." in run.ok(*command, tmp_path / "file", code=2).stderr


def test_the_first_sequence_may_fail(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"tokens": null}\n{"tokens": ["cat"], "pos": ["N"]}\n')
    command = ["tag", folder / "m.bridle", tmp_path / "x.jsonl", "--to", "json"]
    assert "1 error" in run.ok(*command, "-o", f"{tmp_path}/out/", code=1).stderr
    assert len((tmp_path / "out" / "part-00000.jsonl").read_text().splitlines()) == 2
    run.ok(*command, "-o", f"{tmp_path}/no/", "--on-error", "raise", code=2)


@pytest.mark.parametrize("suffix", ["conll.gz", "conll.zst", "jsonl.gz", "jsonl.zst"])
def test_packed_files_are_read_and_written(run: Cli, folder: Path, tmp_path: Path, suffix: str) -> None:
    once, twice = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    run.ok("tag", folder / "m.bridle", folder / "bare.txt", "-o", once)
    assert once.read_bytes()[:2] in (b"\x1f\x8b", b"\x28\xb5")
    run.ok("tag", folder / "m.bridle", once, "-o", twice)
    assert [example.labels for example in read(twice)] == [["B-NP", "I-NP"], ["I-NP"]]
    run.ok("tag", folder / "m.bridle", once, "-o", f"{tmp_path}/out/", "--to", "parquet")
    assert pq.read_table(tmp_path / "out" / "part-00000.parquet").num_rows == 2


def test_saved_folders_become_shards(run: Cli, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    table = pa.table({"tokens": [["the", "cat"], ["cat"]], "pos": [["D", "N"], ["N"]]})
    with pa.ipc.new_stream(saved / "data-00000-of-00001.arrow", table.schema) as file:
        file.write_table(table)
    (saved / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    command = ["tag", folder / "m.bridle", saved, "--resume", "-o", tmp_path / "out"]
    assert "2 rows" in run.ok(*command).stderr and "finished already" in run.ok(*command).stderr


def test_the_first_column_has_another_name(run: Cli, folder: Path, tmp_path: Path) -> None:
    model, data = tmp_path / "m.bridle", tmp_path / "x.txt"
    run.ok("train", folder / "train.txt", "-o", model, "--columns", "pos,word,chunk", "--c2", 1)
    data.write_text("the D\ncat N\n")
    wanted = run.stdout("tag", model, data)
    run.ok("tag", model, data, "-o", tmp_path / "one.txt")
    run.ok("tag", model, data, "-o", f"{tmp_path}/out/", "--to", "conll")
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "out" / "part-00000.conll").read_text() == wanted


def test_data_without_a_column_of_the_model(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"tokens": ["cat"]}\n')
    stderr = run.ok("tag", folder / "m.bridle", tmp_path / "x.jsonl", "-o", f"{tmp_path}/out/", code=2).stderr
    assert "the model needs the column 'pos'" in stderr and not (tmp_path / "out").exists()


def test_an_error_in_one_file_keeps_what_is_written(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the D\n")
    (tmp_path / "b.txt").write_text("cat N\n\nthe D X Y Z\n")
    stderr = run.ok(
        "tag", folder / "m.bridle", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "x", code=2
    ).stderr
    assert "they are kept in" in stderr and "b.txt:3" in stderr
    assert (tmp_path / "x.part").read_text().startswith("the\tD\t") and not (tmp_path / "x").exists()


def test_ids_and_numbers_of_several_files(run: Cli, folder: Path, tmp_path: Path) -> None:
    tag = ["tag", folder / "m.bridle"]
    out = run.ok(*tag, folder / "train.txt", folder / "train.txt", "--json")  # the same file twice
    assert [json.loads(line)["id"] for line in out.stdout.splitlines()] == [0, 1, 2, 3]
    assert out.stderr == "bridle: 2 files: 4 sequences, 18 tokens\n"
    item, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    item.write_text('{"id": "s", "tokens": ["the"], "pos": ["D"]}\n{"tokens": ["cat"], "pos": ["N"]}\n')
    two.write_text('{"id": 1, "tokens": ["cat"], "pos": ["N"]}\n{"tokens": ["the"], "pos": ["D"]}\n')
    out = run.ok(*tag, item, two)
    assert [json.loads(line)["id"] for line in out.stdout.splitlines()] == ["s", 1, 1, 3]
    two.write_text('{"id": "s", "tokens": ["cat"], "pos": ["N"]}\n')
    for to in ("jsonl", "parquet"):
        place = tmp_path / f"out.{to}"
        assert "same id" not in run.ok(*tag, item, f"{tmp_path}/./one.jsonl", "--to", to, "-o", place).stderr
        assert "the same id (1, such as s in" in run.ok(*tag, item, two, "--to", to, "-o", place).stderr


@pytest.mark.slow
def test_ctrl_c_keeps_shards_and_says_how_to_go_on(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TRAIN * 4_000)
    out = tmp_path / "out"
    command = ["tag", folder / "m.bridle", tmp_path / "x.txt", "-o", out, "--resume", "--shard-size", 100]
    process = run.start(*command, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list(out.glob("part-*.conll")) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130, output
    assert "run the same command with --resume to go on" in output and "Traceback" not in output
    assert not [name for name in os.listdir(out) if name.endswith(".part")]  # noqa: PTH208


@pytest.mark.parametrize("size", [5, 17, 20])
def test_no_row_is_lost_when_a_run_stops_at_a_bad_one(run: Cli, folder: Path, tmp_path: Path, size: int) -> None:
    good = [json.dumps({"id": f"r{k}", "tokens": ["the"], "pos": ["D"]}) for k in range(40)]
    bad = [*good[:21], json.dumps({"id": "r21", "tokens": [None], "pos": ["D"]}), *good[22:]]
    path, out = tmp_path / "x.jsonl", tmp_path / "out"
    path.write_text("\n".join(bad) + "\n")
    words = ["tag", folder / "m.bridle", path, "-o", out, "--resume", "--on-error", "raise", "--shard-size", size]
    for _ in range(3):
        assert "x.jsonl:22" in run.ok(*words, "--to", "jsonl", code=2).stderr
    ids = [json.loads(line)["id"] for part in sorted(out.glob("part-*")) for line in part.read_text().splitlines()]
    assert ids == [f"r{k}" for k in range(len(ids))] and len(ids) <= 21


def test_hard_rules_that_must_hold_stop_shards_too(run: Cli, folder: Path, tmp_path: Path) -> None:
    words = ["tag", folder / "m.bridle", folder / "ids.jsonl", "--rules", folder / "never.rules"]
    words += ["--on-infeasible", "raise", "-o"]
    run.ok(*words, f"{tmp_path}/a/", code=3)
    run.ok(*words, f"{tmp_path}/b/", "--on-error", "row", code=1)


def test_a_command_that_waits_for_input_ends_at_ctrl_c_and_when_its_output_is_closed(run: Cli, folder: Path) -> None:
    lines = b'{"tokens": ["the"], "pos": ["D"]}\n' * 20_000  # enough for a thread that reads

    def write(pipe: Any) -> None:
        with contextlib.suppress(OSError):  # the command has ended
            left = memoryview(lines)
            while left:
                left = left[os.write(pipe.fileno(), left) :]

    for code in (130, 141):
        process = run.start(
            "tag", folder / "m.bridle", "-", "--format", "jsonl", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with process, process.stdin as stdin, process.stdout as stdout:  # type: ignore[union-attr]
            writer = threading.Thread(target=write, args=(stdin,))
            writer.start()  # beside the reader, because pipes hold less than this; stdin stays open
            for _ in range(15_000):
                stdout.readline()
            if code == 130:
                process.send_signal(signal.SIGINT)
            stdout.close()
            try:
                assert process.wait(60) in (code, 141), process.returncode
            finally:
                process.kill()
                writer.join()
