"""Write what is made from the library and from results: a page for each kind of rule, the file formats, figures.

    python docs/generate.py          write them
    python docs/generate.py --check  only say which are out of date, and exit with 1 if there are any

They are committed, so that you can read them without a build. Run this after a change of a rule kind, of
docs/rule_kinds.py, of a format, of their docstrings, of docs/results/learned-rules.json, or of docs/results/scale.json;
`make docs` runs it first.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import format_pages
import gain_table
import rule_pages
import scale_figures

DOCS = Path(__file__).parent
FORMATS = DOCS / "formats.md"
REST = "<!-- The rest of this page is made by docs/generate.py. -->\n"
GAINS = DOCS / "when_rules_hurt.md"
SCALE = DOCS / "scale.md"
BEGIN, END = "<!-- gains -->\n", "<!-- end of gains -->\n"


def made() -> dict[Path, str]:
    """All files that this script writes, with their text."""
    pages = {DOCS / "rules" / "generated" / name: text for name, text in rule_pages.pages().items()}
    written, _, _ = FORMATS.read_text(encoding="utf-8").partition(REST)
    before, _, rest = GAINS.read_text(encoding="utf-8").partition(BEGIN)
    return pages | {
        FORMATS: f"{written}{REST}{format_pages.text()}\n",
        GAINS: f"{before}{BEGIN}\n{gain_table.text()}\n\n{END}{rest.partition(END)[2]}",
        SCALE: scale_figures.filled(SCALE.read_text(encoding="utf-8")),
    }


def stale() -> dict[Path, str]:
    """Files that are missing or differ from what would be written; an empty text: one that is to be removed."""
    pages = made()
    old = {path: "" for path in (DOCS / "rules" / "generated").glob("*") if path not in pages}
    return old | {
        path: text for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    """Write or check, as the first argument says."""
    pages = stale()
    for path, text in pages.items():
        print(path.relative_to(DOCS.parent))
        if "--check" in sys.argv[1:]:
            continue
        path.parent.mkdir(exist_ok=True)
        if text:
            path.write_text(text, encoding="utf-8", newline="\n")
        else:
            path.unlink()
    return int("--check" in sys.argv[1:] and bool(pages))


if __name__ == "__main__":
    sys.exit(main())
