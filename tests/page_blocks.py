"""The fenced blocks of a document, and how to run them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import bridle
from commands import Cli

ROOT = Path(__file__).parents[1]
BASH = shutil.which("bash")


class Block(NamedTuple):
    """A fenced block of a document."""

    file: str
    line: int  # its first, in the file
    text: str


def blocks(language: str, *names: str) -> list[Block]:
    """The blocks of documents, in order."""
    result: list[Block] = []
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        fenced = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        result += [Block(name, text.count("\n", 0, match.start()) + 2, match[1]) for match in fenced]
    return result


def where(block: Block) -> str:
    """Its place, as the name of a test."""
    return f"{block.file}:{block.line}"


def expected(text: str) -> list[str]:
    """Return the output that Python code announces: its comments `#> ...`."""
    return [line.partition("#> ")[2] for line in text.splitlines() if "#> " in line]


def commands(block: Block) -> list[tuple[str, str]]:
    """(command, what it prints) of a block that shows a terminal."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), "a terminal block begins with a command"
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts[1:]]


def make_files(block: Block, folder: Path) -> None:
    """`$ cat FILE` shows what is in a file, so here it makes the file."""
    for command, output in commands(block):
        if shows_file(command):
            (folder / command.split()[1]).write_text(output, encoding="utf-8")


def shows_file(command: str) -> bool:
    """Is it a plain `cat FILE`?"""
    return command.startswith("cat ") and "|" not in command


def run(command: list[str], folder: Path, *, seconds: float = 600) -> subprocess.CompletedProcess[str]:
    """Run a command elsewhere; `bridle` is still this Bridle."""
    here = str(Path(bridle.__file__).parents[1])
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": here, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)


def told(block: Block, folder: Path) -> Iterator[tuple[str, str]]:
    """(pattern of what should be printed, what is) for each command of a block. `...` stands for anything."""
    make_files(block, folder)
    for command, output in commands(block):
        if not shows_file(command):
            yield pattern_of(output.strip()), printed(command, folder).strip()


def printed(command: str, folder: Path) -> str:
    """Return what a command prints: a plain `bridle ...` runs in this process, all others in a shell."""
    if command.startswith("bridle ") and not re.search(r"[|&;<>$`*?~{}()\\]", command):
        with chdir(folder):
            result = Cli(env={"COLUMNS": "200", "NO_COLOR": "1"})(*shlex.split(command)[1:])
        if result.exception is None or isinstance(result.exception, SystemExit):
            return str(result.stdout + result.stderr)
        raise result.exception
    done = run([str(BASH), "-c", f'bridle() {{ "$PYTHON" -m bridle "$@"; }}\n{command}'], folder)
    return done.stdout + done.stderr


def pattern_of(text: str) -> str:
    """The regular expression for a text in which `...` stands for anything."""
    return ".*?".join(re.escape(piece) for piece in text.split("..."))


def is_run(name: str) -> bool:
    """Has a page code to run?"""
    return bool(blocks("python", name)) or any("$ bridle" in block.text for block in blocks("console", name))


def run_page(name: str, folder: Path, *, seconds: float = 600) -> None:
    """Files that a page shows are there; its Python is one script; then come its commands."""
    shown = [block for block in blocks("console", name) if "$ bridle" in block.text]
    for block in shown:
        make_files(block, folder)
    script = "\n".join(block.text for block in blocks("python", name))
    done = run([sys.executable, "-c", script], folder, seconds=seconds)
    printed = [line for line in done.stdout.splitlines() if "(raylet)" not in line]  # Ray's word on a busy machine
    wanted = expected(script)
    assert (done.returncode, len(printed)) == (0, len(wanted)), done.stderr
    for line, text in zip(printed, wanted, strict=True):
        assert re.fullmatch(pattern_of(text), line), f"got {line!r}, wanted {text!r}"
    for block in shown:
        for pattern, output in told(block, folder):
            assert re.fullmatch(pattern, output, re.DOTALL), output
