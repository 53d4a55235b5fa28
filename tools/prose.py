"""A linter for prose and names: phrases that are not plain English, sentences that are too long, empty names.

    python tools/prose.py                  check the files that [tool.prose] in pyproject.toml lists
    python tools/prose.py README.md src    check these files and folders
    python tools/prose.py --count src      findings per file

In Markdown, everything but code, links and comments is prose. In Python, docstrings and strings of five words or more
are, but not their doctests and literal blocks; in tests, docstrings alone. In C++, comments are. The first line of a
docstring must not begin with a question word (`OPENINGS`), and values must not have empty names (`EMPTY_NAMES`). The
patterns are in tools/prose.txt.
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
OPENINGS = re.compile(r"(What|Which|Whether|How|Why|Where|Who|It|The same|All of)\b")
EMPTY_NAMES = {"told", "made", "found", "one"}
SUFFIXES = (".md", ".py", ".cpp", ".h")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
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
    expressions = []
    for line in PATTERNS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            regex, instead = re.split(r" {2,}", line, maxsplit=1)
            expressions.append(Pattern(re.compile(regex.replace(" ", r"\s"), re.IGNORECASE), instead.strip()))
    return expressions


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


def python(text: str, *, messages: bool = True) -> Iterator[Passage]:
    """Docstrings of Python code, and its messages."""
    tree = ast.parse(text)
    docstrings = {id(node) for node in docstrings_of(tree)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = "".join(str(part.value) if isinstance(part, ast.Constant) else _CODE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            said = node.value
        else:
            continue
        if id(node) in docstrings or (messages and len(said.split()) >= LEAST_WORDS):
            yield from docstring(said, node.lineno)


def docstrings_of(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def cpp(text: str) -> Iterator[Passage]:
    """Comments of C++; one that stands alone on its line goes on in the next line."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        code, slashes, comment = re.sub(r'"(\\.|[^"\\])*"', "", line).partition("//")
        is_table = re.match(r" {2,}\S|.*\S {3,}\S", comment) is not None  # formulas and alphabets
        if code.strip() or not slashes or is_table:
            lines.append((number, ""))
        if slashes and not is_table:
            lines.append((number, re.sub(r"`[^`]+`|https?://\S+", _CODE, comment)))
    yield from _passages(iter(lines))


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


def passages(path: Path, text: str) -> Iterator[Passage]:
    """Split the prose of a file into passages."""
    if path.suffix == ".md":
        return markdown(text)
    return python(text, messages=not path.name.startswith("test_")) if path.suffix == ".py" else cpp(text)


def empty_names(path: Path, text: str) -> Iterator[Finding]:
    """Find names of values that do not say what the value is, and docstrings that begin like a question."""
    if path.suffix == ".py":
        tree = ast.parse(text)
        for docstring in docstrings_of(tree):
            if opening := OPENINGS.match(str(docstring.value)):
                yield Finding(
                    path, docstring.lineno, f"a docstring begins with '{opening[0]}': write what the caller gets"
                )
        names = (
            (node.lineno, node.id if isinstance(node, ast.Name) else node.arg)
            for node in ast.walk(tree)
            if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        )
    elif path.suffix in (".cpp", ".h"):
        lines = (re.sub(r'//.*|"(\\.|[^"\\])*"', "", line) for line in text.splitlines())
        names = (
            (number, word)
            for number, line in enumerate(lines, start=1)
            for word in re.findall(r"[\w>\]&*] +[&*]*(\w+)(?= *(?:=|;|,|\)|\{|:(?!:)))", line)
        )
    else:
        return
    for line, name in names:
        if name.rstrip("_") in EMPTY_NAMES:
            yield Finding(path, line, f"'{name}' as a name: use the noun of what it is")


def findings(path: Path, known: list[Pattern], *, names: bool) -> Iterator[Finding]:
    """Find what is wrong in one file; names: also names and openings of docstrings."""
    text = path.read_text(encoding="utf-8")
    if names:
        yield from empty_names(path, text)
    for passage in passages(path, text):
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
        inside = (p for path in paths if path.is_dir() for p in path.rglob("*") if p.suffix in SUFFIXES)
        return sorted({*inside, *(path for path in paths if path.is_file())})
    return sorted(listed("files") - listed("exclude"))


def listed(key: str) -> set[Path]:
    """Return the files that a list of patterns in pyproject.toml matches."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["prose"]
    return {path for pattern in settings[key] for path in ROOT.glob(pattern)}


def main() -> int:
    """The command: exit code 1 if anything is found."""
    parser = argparse.ArgumentParser(description="Find phrases that are not plain English, and overlong sentences.")
    parser.add_argument("files", nargs="*", help="files or folders; default: [tool.prose] in pyproject.toml")
    parser.add_argument("--count", action="store_true", help="print only the number of findings per file")
    options = parser.parse_args()
    known, named = patterns(), set() if options.files else listed("names")
    results = [
        finding
        for path in files(options.files)
        for finding in sorted(set(findings(path, known, names=bool(options.files) or path in named)))
    ]
    if options.count:
        for path, count in Counter(finding.path for finding in results).most_common():
            print(f"{count:5}  {_short(path)}")
        print(f"{len(results):5}  in all")
    else:
        for finding in results:
            print(f"{_short(finding.path)}:{finding.line}: {finding.message}".replace(_CODE, "..."))
    return int(bool(results))


def _short(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    sys.exit(main())
