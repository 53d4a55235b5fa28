"""Streams of the command line: numbers, memory, bars, readers that go away, full disks, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bridle
from bridle.data import Example, Pace
from bridle.data.base import Format
from bridle.data.source import Source
from bridle.models import CRF
from bridle.runs.run import Run
from commands import Cli

TRAIN = "the D B-NP\nman N I-NP\nsleeps V B-VP\n\na D B-NP\ndog N I-NP\nruns V B-VP\n\nhe N B-NP\nruns V B-VP\n"


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training file, a model and rules."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "train.txt").write_text(TRAIN)
    (folder / "my.rules").write_text("at most 1 segment of NP\nif VP then NP\n")
    train = ["train", folder / "train.txt", "-o", folder / "m.bridle", "--columns", "word,pos,chunk"]
    assert run(*train, "--iterations", 5).exit_code == 0
    return folder


def test_numbers_go_on_from_file_to_file(run: Cli, folder: Path) -> None:
    result = run("tag", folder / "m.bridle", folder / "train.txt", folder / "train.txt", "--json")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == list(range(6))


def test_tagging_holds_some_blocks_at_most(folder: Path, tmp_path: Path) -> None:
    """However long the input is, only so much of it is read ahead of what has been written."""
    model = bridle.load(folder / "m.bridle")
    assert isinstance(model, CRF)
    taken = given = most = 0

    class Endless(Format):
        """One sequence again and again."""

        def read(self, source: Source) -> Iterator[Example]:
            nonlocal taken
            while taken < 12_000:
                taken += 1
                yield Example({"word": ["the", "man"], "pos": ["D", "N"]})

    decoder = model.decoder(bridle.rules.load(folder / "my.rules"))
    run = Run(
        model, decoder, [str(folder / "my.rules")], lambda path: (Source(path), Endless()), threads=1, memory=1 << 20,
        pace=Pace(sequences=1, most=128),
    )  # fmt: skip
    for rows in run:
        most = max(most, taken - given)
        given += rows.n
    assert given == 12_000 and 128 <= most <= 6 * 128  # four blocks in the queue, one before and one behind it


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
def test_readers_that_go_away_and_full_disks(run: Cli, folder: Path) -> None:
    """Neither Typer nor Rich prints a stack trace; processes of their own, at once."""
    end, other = os.pipe()
    os.close(end)  # without a reader
    with Path("/dev/full").open("wb") as full:
        printing = run.start("--help", stdout=full)
    drawing = run.start("rules", "test", folder / "my.rules", folder / "train.txt", stdout=other)
    os.close(other)
    said = printing.communicate(timeout=60)[1]
    assert printing.returncode == 2 and b"No space left on device" in said and b"Traceback" not in said
    [said] = drawing.communicate(timeout=60)[1].splitlines()
    assert b"3 sequences, 8 tokens, 3 labels" in said and drawing.returncode == 141


def test_what_a_terminal_cannot_show_is_escaped(run: Cli, folder: Path) -> None:
    (folder / "odd.rules").write_text("forbid 猫\n")
    env = {"PYTHONIOENCODING": "cp1252"}
    process = run.start("rules", "show", folder / "odd.rules", env=env, stdout=subprocess.PIPE)
    out, output = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), output) == (0, rb"forbid \u732b", b"")


def test_the_command_line_starts_without_numpy_and_kernels() -> None:
    """A shell starts all this whenever the user asks it to complete a word. (Its time: benchmarks/startup.py.)"""
    code = "import sys, bridle.cli; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(Path(bridle.__file__).parents[1])}
    names = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True, text=True).stdout
    loaded = set(names.split())
    assert not {"numpy", "rich", "bridle._native", "bridle.rules", "bridle.cli.tagging"} & loaded
    assert {"typer", "bridle.cli.base"} <= loaded


def test_two_lines_are_tagged_without_what_they_do_not_need(run: Cli, folder: Path) -> None:
    """Half of the time of a short command is imports. (The time: benchmarks/startup.py.)"""
    code = f"""if True:
        import sys
        sys.argv = ["bridle", "tag", {str(folder / "m.bridle")!r}, "--no-progress"]
        from bridle.cli import app
        app(standalone_mode=False)
        print(*sys.modules, file=sys.stderr)
    """
    env = {**os.environ, "PYTHONPATH": str(Path(bridle.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=env, input="the D\nman N\n", capture_output=True, check=False, text=True)
    names = set(ended.stderr.split())
    assert not {"rich", "pyarrow", "pandas", "polars", "highspy", "re2", "matplotlib", "asyncio", "sklearn"} & names
    assert (
        not {"bridle.learn", "bridle.explain", "bridle.spans", "bridle.report.comparison", "bridle.rules.lint"} & names
    )
    assert "bridle.models.crf" in names and sum(name.partition(".")[0] == "bridle" for name in names) <= 125


def test_a_command_brings_along_only_what_it_needs() -> None:
    code = "import sys, bridle.cli.tagging; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(Path(bridle.__file__).parents[1])}
    names = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True, text=True).stdout
    assert not {"experiments", "bridle.demo", "bridle.data.references", "bridle.cli.training"} & set(names.split())


@pytest.mark.parametrize("module", ["typer", "numpy", "bridle.cli.tagging"])
def test_ctrl_c_while_commands_are_imported(module: str, run: Cli, tmp_path: Path) -> None:
    """A real signal, at the moment when a module is looked for."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "class Stopped:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r} and 'bridle.interrupts' in sys.modules:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stopped())\n"
    )
    source = Path(bridle.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(source)])}
    command = [sys.executable, "-m", "bridle", "tag", "missing.bridle"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "bridle: interrupted\n")


def test_ctrl_c_is_left_alone_where_the_command_line_is_called(run: Cli) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run("info").exit_code == 0 and signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_outside_of_a_command(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("typer.core.TyperGroup.make_context", stop)
    try:
        result = run("demo")
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
