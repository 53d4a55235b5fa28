"""Update what the Python code of a page prints: its comments `#> ...`.

    python docs/refresh.py docs/tutorials/tag.md ...

Run it after a change of the library or of the data of a tutorial. It does not update the text around the code, nor what
commands print: read `git diff` and correct them.
"""

from __future__ import annotations

import builtins
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from page_blocks import ROOT, blocks, make_files


def printed(script: str) -> list[tuple[int, str]]:
    """(line of the script, text) of all lines that it prints."""
    outputs: list[tuple[int, str]] = []

    def note(*values: Any, **options: Any) -> None:
        text, number = io.StringIO(), sys._getframe(1).f_lineno
        builtins.print(*values, **{**options, "file": text})
        outputs.extend((number, line) for line in text.getvalue().splitlines())

    exec(compile(script, "<page>", "exec"), {"print": note, "__name__": "__main__"})
    return outputs


def refreshed(script: str) -> str:
    """The script with the comments that are true of it now.

    Comments that stand alone belong to all that was printed since the comments before them.
    """
    outputs, refreshed, since = printed(script), [], 0
    lines = script.splitlines()
    for number, line in enumerate(lines, start=1):
        alone, inline = line.startswith("#> "), not line.startswith("#> ") and "#> " in line
        if inline:
            here = " ".join(text for at, text in outputs if at == number)
            refreshed.append(line.partition("#> ")[0] + f"#> {here}")
            since = number
        elif not alone:
            refreshed.append(line)
        elif number == len(lines) or not lines[number].startswith("#> "):  # the last of its group
            group = [f"#> {text}" for at, text in outputs if since < at < number]
            refreshed += group or ["#> ?"]  # ?: nothing was printed
            since = number
    return "\n".join(refreshed) + "\n"


def main(name: str) -> None:
    """Refresh one page, given by its path from the root of the repository."""
    path = ROOT / name
    shown = blocks("python", name)
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks("console", name):
            if "$ bridle" in block.text:
                make_files(block, Path(folder))
        os.chdir(folder)
        mark = "\n# ---- next block\n"
        parts = refreshed(mark.join(block.text for block in shown)).split(mark.lstrip("\n"))
        os.chdir(ROOT)
    text = path.read_text(encoding="utf-8")
    for block, part in zip(shown, parts, strict=True):
        text = text.replace(f"```python\n{block.text}```", f"```python\n{part.rstrip()}\n```")
    path.write_text(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE), encoding="utf-8")


if __name__ == "__main__":
    for page in sys.argv[1:]:
        main(page)
