"""What README.md and CONTRIBUTING.md show is true: their examples run, their commands print what stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import bridle
from bridle import rules
from bridle.engines import engine_names
from bridle.rules.text import parse

ROOT = Path(__file__).parents[1]
BASH = shutil.which("bash")


class Block(NamedTuple):
    """A fenced block of a document."""

    file: str
    line: int  # its first, in the file
    text: str


def blocks(language: str) -> list[Block]:
    found: list[Block] = []
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        fenced = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        found += [Block(name, text.count("\n", 0, match.start()) + 2, match[1]) for match in fenced]
    return found


def where(block: Block) -> str:
    return f"{block.file}:{block.line}"


def commands(block: Block) -> list[tuple[str, str]]:
    """(command, what it prints) of a block that shows a terminal."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), "a terminal block begins with a command"
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts[1:]]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command elsewhere; `bridle` is this Bridle all the same."""
    here = str(Path(bridle.__file__).parents[1])
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": here, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("block", blocks("python"), ids=where)
def test_python_runs(block: Block, tmp_path: Path) -> None:
    """The block runs, by itself; where it prints, the comments `#> ...` say what."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # some speak of the repository
    expected = [line.partition("#> ")[2] for line in block.text.splitlines() if "#> " in line]
    done = run([sys.executable, "-c", block.text], tmp_path)
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr


@pytest.mark.skipif(BASH is None, reason="there is no bash to run the commands with")
@pytest.mark.parametrize("block", [b for b in blocks("console") if "$ bridle" in b.text], ids=where)
def test_commands_print_what_is_shown(block: Block, tmp_path: Path) -> None:
    """`$ cat FILE` shows what is in a file, so here it makes the file. `...` stands for anything."""
    for command, output in commands(block):
        if command.startswith("cat ") and "|" not in command:
            (tmp_path / command.split()[1]).write_text(output, encoding="utf-8")
            continue
        done = run([str(BASH), "-c", f'bridle() {{ "$PYTHON" -m bridle "$@"; }}\n{command}'], tmp_path)
        told = (done.stdout + done.stderr).strip()
        pattern = ".*?".join(re.escape(piece) for piece in output.strip().split("..."))
        assert re.fullmatch(pattern, told, re.DOTALL), told


def test_every_rule_sentence_of_the_table_is_one() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Rules")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \|", table, re.MULTILINE)
    assert len(rows) >= 21
    for call, sentence in rows:
        made = eval(call.replace("\\|", "|"), {name: getattr(rules, name) for name in rules.__all__})
        assert str(made) == sentence.replace("\\|", "|")
        assert parse(str(made)) == made


def test_every_engine_stands_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in ["auto", *engine_names()])


def test_the_map_names_what_exists() -> None:
    """Every path in the map is there, and every module is in the map."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.partition("## Map")[2].partition("```text\n")[2].partition("```")[0]
    folder, named = "", set()
    for line in shown.splitlines():
        for name in re.findall(r"[\w./]+", line[:20]):
            if not line.startswith(" "):
                folder = name if name.endswith("/") else ""
            path = name if name == folder else folder + name
            assert (ROOT / path).exists(), path
            named.add(path.rstrip("/"))
    for path in sorted((ROOT / "src" / "bridle").iterdir()):
        if path.suffix in (".py", "") and not path.name.startswith("_"):
            assert path.relative_to(ROOT).as_posix() in named, f"{path.name} is not in the map"
