"""The page of the papers names what exists: Python names, commands, tests; its scripts run on a user's file."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import bridle
from bridle import cli
from bridle.data import references, write
from bridle.engines import engine_named, engine_names
from bridle.learn.relational import ALL
from page_blocks import ROOT, run

PAGE = "docs/papers.md"
PAPERS = ("Roth & Yih 2005", "Tromble & Eisner 2006", "Zhao & Marcus 2012", "Fersini, Messina & Felici 2012")
RESULTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "results").glob("*.md"))


def section(title: str) -> str:
    """The text below a heading of the page, up to the next one of the same level."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    [after] = re.findall(rf"^## {re.escape(title)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(after)


def rows(text: str) -> list[list[str]]:
    """The cells of the tables of a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for k, row in enumerate(cells) if not _rule(row) and (k + 1 == len(cells) or not _rule(cells[k + 1]))]


def _rule(row: list[str]) -> bool:
    return all(re.fullmatch(r"-+", cell) for cell in row)


METHODS = [row for title in (*PAPERS, "The slides: Chen 2017") for row in rows(section(title))]
DIFFERENCES = rows(section("Where Bridle differs from the papers"))


@cache
def names_of_tests(file: str) -> set[str]:
    """The tests of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def public(name: str) -> Any:
    """The object that a dotted name stands for; every part of the name must be public."""
    at: Any = bridle
    for part in name.split(".")[1:]:
        assert not part.startswith("_"), name
        if part in getattr(at, "__dataclass_fields__", ()):
            return at.__dataclass_fields__[part]
        at = getattr(at, part) if hasattr(at, part) else import_module(f"{at.__name__}.{part}")
    return at


def command_of(line: str) -> tuple[Any, list[str]]:
    """The command that a command line calls, and the words behind its name."""
    command: Any = typer.main.get_command(cli.app)
    words = shlex.split(line)[1:]
    while hasattr(command, "list_commands"):
        command, words = command.get_command(typer.Context(command), words[0]), words[1:]
        assert command is not None, line
    return command, words


def test_every_row_has_all_four() -> None:
    assert len(METHODS) > 60
    for row in METHODS:
        place, method, names, command, test = row
        assert place and method, row
        assert re.fullmatch(r"`bridle\.[\w.]+`(, `bridle\.[\w.]+`)*", names), row
        assert re.fullmatch(r"`bridle [^`]+`", command), row
        assert re.fullmatch(r"`tests/\S+\.py::test_\w+`", test), row


def test_every_name_can_be_imported() -> None:
    for name in sorted({name for row in METHODS for name in re.findall(r"`([^`]+)`", row[2])}):
        assert public(name) is not None, name


def test_every_command_can_be_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options and their values exist; nothing is run."""
    monkeypatch.chdir(tmp_path)
    for name in ("scores.npz", "scores.jsonl", "my.rules", "my.toml", "m.bridle", "train.txt", "new.txt", "gold.txt"):
        Path(name).touch()
    for line in sorted({row[3].strip("`") for row in METHODS}):
        command, words = command_of(line)
        context = command.make_context(command.name, words)
        if (engine := context.params.get("engine", "auto")) != "auto":
            engine_named(engine)
        assert {*(context.params.get("kinds") or ALL[0]).split(",")} <= {*ALL}, line


@pytest.mark.parametrize("table", [METHODS, DIFFERENCES], ids=["methods", "differences"])
def test_every_test_exists(table: list[list[str]]) -> None:
    for row in table:
        file, _, name = row[-1].strip("`").partition("::")
        assert name in names_of_tests(file), row


def test_every_difference_says_what_why_and_where() -> None:
    assert len(DIFFERENCES) > 25
    for row in DIFFERENCES:
        assert len(row) == 4 and all(row), row


@pytest.mark.parametrize("paper", PAPERS)
def test_a_script_of_ten_lines_runs_on_a_file_of_the_user(paper: str, tmp_path: Path) -> None:
    """The file has other references than the page, in another style."""
    script = re.findall(r"^```python\n(.*?)^```$", section(paper), re.MULTILINE | re.DOTALL)
    assert len(script) == 1
    lines = [line for line in script[0].splitlines() if line.strip() and not line.startswith("#> ")]
    assert len(lines) <= 10
    write(tmp_path / "refs.txt", references.references("lncs", count=40, seed=3), "conll")
    done = run([sys.executable, "-c", script[0]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def _engines(cells: list[str]) -> list[str]:
    """The first words of cells, up to a comma, if at least two of them are engines."""
    heads = [re.split(r"[,;]", cell.removeprefix("times "))[0].strip() for cell in cells]
    return heads if len({*heads} & {*engine_names()}) > 1 else []


@pytest.mark.parametrize("name", RESULTS)
def test_results_name_engines_and_options_that_exist(name: str) -> None:
    """Pages of results are written by long runs: what was renamed since then shows that they are stale."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        for engine in _engines([line.split("|")[1].strip() for line in table.splitlines()[2:]]):
            assert engine in engine_names(), f"{engine} is no engine: run the experiment again"
    for command in re.findall(r"`(bridle [^`]+)`", text):
        command, words = command_of(command)
        known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= known, command
