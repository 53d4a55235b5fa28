"""README.md and CONTRIBUTING.md are true: their examples run, and their commands print the output that they show."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from bridle.cli.base import COMMANDS
from bridle.engines import engine_names
from bridle.rules.text import parse
from page_blocks import BASH, ROOT, Block, blocks, expected, run, told, where

FILES = ("README.md", "CONTRIBUTING.md")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", blocks("python", *FILES), ids=where)
def test_python_runs(block: Block, tmp_path: Path) -> None:
    """The block runs alone; where it prints, the comments `#> ...` say what."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # some speak of the repository
    done = run([sys.executable, "-c", block.text], tmp_path)
    assert (done.returncode, done.stdout.splitlines()) == (0, expected(block.text)), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(BASH is None, reason="there is no bash to run the commands with")
@pytest.mark.parametrize("block", [b for b in blocks("console", *FILES) if "$ bridle" in b.text], ids=where)
def test_commands_print_what_is_shown(block: Block, tmp_path: Path) -> None:
    for pattern, output in told(block, tmp_path):
        assert re.fullmatch(pattern, output, re.DOTALL), output


def test_every_rule_sentence_of_the_tables_is_one() -> None:
    short = README.partition("## Rules")[2].partition("\n## ")[0]
    sentences = [row.replace("\\|", "|") for row in re.findall(r"^\| `(.+?)` \|", short, re.MULTILINE)]
    assert len(sentences) >= 7
    for sentence in sentences:
        assert str(parse(sentence)) == sentence


def test_the_readme_is_short() -> None:
    """README.md shows the beginning and says where to go on; tables of speed and lists of commands are in docs/."""
    assert len(README.splitlines()) <= 180
    assert not re.search(r"^\|.*\d+x \|", README, re.MULTILINE)


def test_the_readme_has_the_two_commands() -> None:
    assert "```console\n$ make demo\n$ make test\n```" in README


def test_the_readme_belongs_to_no_machine() -> None:
    """No path of a computer, and no address of a package index: mirrors have other addresses."""
    assert re.findall(r"(?<![\w.])/(?:home|root|work|tmp|usr|opt|Users)/|\bpypi\.\w+|\bpythonhosted\b", README) == []


def test_every_command_is_listed() -> None:
    text = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"| `bridle {name} " not in text and f"| `bridle {name}`" not in text] == []


def test_every_engine_is_described() -> None:
    text = (ROOT / "docs/how_it_works.md").read_text(encoding="utf-8")
    assert [name for name in ["auto", *engine_names()] if f"| `{name}` |" not in text] == []


def test_the_map_names_what_exists() -> None:
    """Every path in the map is there, and every module is in the map."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
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
