"""`bridle tag` over files: the same output in blocks and sequence by sequence; shards; messages and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridle.bulk.manifest import NAME
from bridle.cli import bulk
from bridle.data import Example, read, write
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
    place = tmp_path_factory.mktemp("cli_bulk")
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


@pytest.mark.parametrize("more", [[], ["--rules", "np.rules"], ["--rules", "never.rules", "--on-infeasible", "skip"]])
@pytest.mark.parametrize("to", ["conll", "parquet", "arrow"])
@pytest.mark.parametrize("name", [*INPUTS, "table.parquet", "table.arrow"])
def test_one_file_is_the_same_by_both_routes(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, to: str, more: list[str]
) -> None:
    monkeypatch.chdir(folder)
    made = [tmp_path / f"{k}.{to}" for k in range(2)]
    results = []
    for out, small in zip(made, (1 << 40, 0), strict=True):
        monkeypatch.setattr(bulk, "SMALL", small)
        found = run("tag", "m.bridle", name, "--to", to, "-o", out, *more)
        results.append((found.exit_code, found.stderr.replace(str(out), "OUT")))
    if results[0][0] == 2:  # sequence by sequence, gold labels with gaps cannot be written as a table
        assert name == "gaps.txt" and to != "conll" and results[1][0] in (0, 1)
        return
    assert results[0] == results[1]
    old, new = map(content, made)
    assert old == new


def test_the_fast_route_is_taken(run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above would compare nothing."""
    monkeypatch.setattr(bulk, "SMALL", 0)
    told = run.ok("tag", folder / "m.bridle", folder / "bare.txt", "-o", tmp_path / "x.txt", "--json-progress").stderr
    assert json.loads(told.splitlines()[-1])["rows"] == 2
    told = run.ok("tag", folder / "m.bridle", folder / "bare.txt", "--json-progress").stderr
    assert told == ""


@pytest.mark.parametrize("name", ["bare.txt", "ids.jsonl", "table.parquet"])
def test_shards_begin_and_end(run: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    command = ["tag", folder / "m.bridle", folder / name, "-o", out]
    told = run.ok(*command, "--resume", "--shard-size", 1).stderr
    assert "rows" in told and "tokens/s" in told and "checksum of ids" in told
    again = run.ok(*command, "--resume", "--shard-size", 1).stderr
    assert again.startswith("bridle: this run has finished already: ") and told.split("; ")[1] == again.split("; ")[1]
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
    told = run.ok(*command, "-o", f"{tmp_path}/t/", code=1).stderr
    assert "2 sequences failed and have no labels" in told and "2 error" in told
    table = pq.read_table(tmp_path / "t" / "part-00000.parquet")
    assert table["status"].to_pylist() == ["optimal", "error", "error", "optimal"]
    assert table["id"].to_pylist() == list("abcd") and table["error"].null_count == 2
    run.ok(*command, "-o", f"{tmp_path}/c/", "--to", "conll", code=1)
    assert [e.labels for e in read(tmp_path / "c" / "part-00000.conll", "conll")] == [
        ["B-NP", "I-NP"],
        ["_"],
        ["_"],
        ["I-NP"],
    ]
    run.ok(*command, "-o", f"{tmp_path}/r/", "--on-error", "raise", code=2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--resume"], "--resume needs a folder for its output"),
        (["--shard-size", "5", "-o", "x.txt"], "the output has no shards; got --shard-size 5 with one file"),
        (["-o", "new/", "--k", "2"], "shards hold labels without this; got --k"),
        (["-o", "new/", "--to", "csv"], "the output cannot have this format; got 'csv'"),
        (["-o", "new/", "--shard-size", "much"], "bad option shard_size; got 'much'"),
        (["-o", "new/", "--memory", "much"], "bad option memory; got 'much'"),
        (["-o", "no/where/", "--to", "conll"], "cannot write the manifest"),
        (["--on-error", "row"], "--on-error row needs shards here"),
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
    told = run.ok("tag", folder / "m.bridle", "--format", "conll", tmp_path / "pipe", "-o", f"{tmp_path}/out/", code=2)
    assert "a run needs files to read; got a pipe or a device" in told.stderr


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


@pytest.mark.parametrize("small", [0, 1 << 40])
@pytest.mark.parametrize("suffix", ["conll.gz", "conll.zst", "jsonl.gz", "jsonl.zst"])
def test_packed_files_are_read_and_written(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, small: int
) -> None:
    monkeypatch.setattr(bulk, "SMALL", small)
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


def test_the_first_column_has_another_name(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = tmp_path / "m.bridle", tmp_path / "x.txt"
    run.ok("train", folder / "train.txt", "-o", model, "--columns", "pos,word,chunk", "--c2", 1)
    data.write_text("the D\ncat N\n")
    wanted = run.stdout("tag", model, data)
    monkeypatch.setattr(bulk, "SMALL", 0)
    run.ok("tag", model, data, "-o", tmp_path / "one.txt")
    run.ok("tag", model, data, "-o", f"{tmp_path}/out/", "--to", "conll")
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "out" / "part-00000.conll").read_text() == wanted


def test_data_without_a_column_of_the_model(run: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"tokens": ["cat"]}\n')
    told = run.ok("tag", folder / "m.bridle", tmp_path / "x.jsonl", "-o", f"{tmp_path}/out/", code=2).stderr
    assert "the model needs the column 'pos'" in told and not (tmp_path / "out").exists()


def test_an_error_in_one_file_keeps_what_is_written(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SMALL", 0)
    (tmp_path / "a.txt").write_text("the D\n")
    (tmp_path / "b.txt").write_text("cat N\n\nthe D X Y Z\n")
    told = run.ok(
        "tag", folder / "m.bridle", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "x", code=2
    ).stderr
    assert "they are kept in" in told and "b.txt:3" in told
    assert (tmp_path / "x.part").read_text().startswith("the\tD\t") and not (tmp_path / "x").exists()


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
    told = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130, told
    assert "run the same command with --resume to go on" in told and "Traceback" not in told
    assert not [name for name in os.listdir(out) if name.endswith(".part")]  # noqa: PTH208
