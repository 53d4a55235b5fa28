"""A linter for prose: phrases that are not plain English, and sentences that are too long.

    python tools/prose.py                  check what [tool.prose] in pyproject.toml names
    python tools/prose.py README.md src    check these files and folders
    python tools/prose.py --count src      findings per file

In Markdown, everything but code, links and comments is prose. In Python, docstrings and strings of five words or more
are, but not their doctests and literal blocks. The patterns are in tools/prose.txt.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PATTERNS = ROOT / "tools" / "prose.txt"
MOST_WORDS = 40  # of a sentence
LEAST_WORDS = 5  # of a string that is prose
_CODE = "\x00"  # stands for code: the words around it are not one phrase


class Pattern(NamedTuple):
    """An expression to avoid, and what to write instead."""

    regex: re.Pattern[str]
    instead: str


class Passage(NamedTuple):
    """A paragraph, item or cell: its text in one line, and where each of its lines begins."""

    text: str
    starts: list[int]  # offsets in the text
    lines: list[int]  # numbers in the file

    @classmethod
    def of(cls, lines: list[tuple[int, str]]) -> Passage:
        starts, text = [], ""
        for _, line in lines:
            starts.append(len(text))
            text += f"{line.strip()} "
        return cls(text.rstrip(), starts, [number for number, _ in lines])

    def line(self, offset: int) -> int:
        return self.lines[bisect_right(self.starts, offset) - 1]


class Finding(NamedTuple):
    """A place in a file, and what is wrong there."""

    path: Path
    line: int
    message: str


def patterns() -> list[Pattern]:
    """The expressions of tools/prose.txt."""
    found = []
    for line in PATTERNS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            regex, instead = re.split(r" {2,}", line, maxsplit=1)
            found.append(Pattern(re.compile(regex.replace(" ", r"\s"), re.IGNORECASE), instead.strip()))
    return found


# ---- what is prose --------------------------------------------------------------------------------------------------


def markdown(text: str) -> Iterator[Passage]:
    """Paragraphs, items, cells and headings of Markdown, without code."""
    text = re.sub(r"<!--.*?-->", _blank, text, flags=re.DOTALL)
    text = re.sub(r"^(```+).*?^\1$", _blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(    .*\n)+", _blank, text)  # indented code
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", lambda match: _CODE + "\n" * match[0].count("\n"), text)
    text = re.sub(r"\]\([^)\s]*\)|https?://\S+", "", text)
    yield from _passages(enumerate(text.splitlines(), start=1))


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _passages(lines: Iterator[tuple[int, str]]) -> Iterator[Passage]:
    gathered: list[tuple[int, str]] = []
    for number, line in lines:
        starts = re.match(r"\s*([-*] |#+ |\d+\. |\|)", line)
        if (starts or not line.strip()) and gathered:
            yield Passage.of(gathered)
            gathered = []
        if starts and "|" in starts[0]:
            yield from (Passage.of([(number, cell)]) for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" -"))
        elif line.strip():
            gathered.append((number, line))
    if gathered:
        yield Passage.of(gathered)


def python(text: str) -> Iterator[Passage]:
    """Docstrings and messages of Python."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = (node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body)
    docstrings = {id(first.value) for first in bodies if isinstance(first, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = "".join(str(part.value) if isinstance(part, ast.Constant) else _CODE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            said = node.value
        else:
            continue
        if id(node) in docstrings or len(said.split()) >= LEAST_WORDS:
            yield from docstring(said, node.lineno)


def docstring(text: str, first: int) -> Iterator[Passage]:
    """Paragraphs of a docstring or message, without doctests, literal blocks, headings and code."""
    deeper = " " * (_indent(text) + 4)
    command = " " * (_indent(text) + 2) + "bridle "  # an example of the command line
    lines: list[tuple[int, str]] = []
    literal = False
    for number, line in enumerate(text.expandtabs().splitlines(), start=first):
        bare = line.strip()
        literal = literal and (not bare or line.startswith(deeper))
        code = literal or line.startswith(command) or re.match(r">>>|\.\.\. |---+$|\.\. ", bare)
        shown = "" if code else line
        row = re.search(r"\S {3,}\S", shown) is not None  # of a table: no sentence goes on after it
        lines += [(number, "")] * row
        lines.append((number, re.sub(r"(`+)[^`]+\1|https?://\S+", _CODE, shown)))
        lines += [(number, "")] * row
        literal = literal or bare.endswith("::")
    yield from _passages(iter(lines))


def _indent(text: str) -> int:
    rest = [line for line in text.splitlines()[1:] if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in rest), default=0)


# ---- findings -------------------------------------------------------------------------------------------------------


def findings(path: Path, known: list[Pattern]) -> Iterator[Finding]:
    """What is wrong in one file."""
    text = path.read_text(encoding="utf-8")
    for passage in markdown(text) if path.suffix == ".md" else python(text):
        for pattern in known:
            for match in pattern.regex.finditer(passage.text):
                yield Finding(path, passage.line(match.start()), f"'{match[0].strip()}': write {pattern.instead}")
        for sentence in re.finditer(r"[^.!?:;]+(?:[.!?:;](?!\s)[^.!?:;]+)*", passage.text):
            words = sum(any(c.isalpha() for c in word) for word in sentence[0].split())
            if words > MOST_WORDS:
                yield Finding(path, passage.line(sentence.start()), f"a sentence of {words} words: write two")


def files(names: list[str]) -> list[Path]:
    """Files that are named, or that lie in folders that are; without names, those of pyproject.toml."""
    if names:
        paths = [Path(name) for name in names]
        inside = (p for path in paths if path.is_dir() for p in path.rglob("*") if p.suffix in (".md", ".py"))
        return sorted({*inside, *(path for path in paths if path.is_file())})
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["prose"]
    chosen = {path for pattern in settings["files"] for path in ROOT.glob(pattern)}
    return sorted(chosen - {path for pattern in settings["exclude"] for path in ROOT.glob(pattern)})


def main() -> int:
    """The command: exit code 1 if anything is found."""
    parser = argparse.ArgumentParser(description="Find phrases that are not plain English, and overlong sentences.")
    parser.add_argument("files", nargs="*", help="files or folders; default: [tool.prose] in pyproject.toml")
    parser.add_argument("--count", action="store_true", help="print only the number of findings per file")
    options = parser.parse_args()
    known = patterns()
    found = [finding for path in files(options.files) for finding in sorted(set(findings(path, known)))]
    if options.count:
        for path, count in Counter(finding.path for finding in found).most_common():
            print(f"{count:5}  {_short(path)}")
        print(f"{len(found):5}  in all")
    else:
        for finding in found:
            print(f"{_short(finding.path)}:{finding.line}: {finding.message}".replace(_CODE, "..."))
    return int(bool(found))


def _short(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    sys.exit(main())
