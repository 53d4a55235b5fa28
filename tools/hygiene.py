"""Small things that spoil a diff: `python tools/hygiene.py FILE ...` names them, and exits with 1 if there are any."""

from __future__ import annotations

import sys
from pathlib import Path

MOST_BYTES = 600_000
GENERATED = (".svg", ".tsv")  # as their programs write them
MARKS = ("<<<<<<< ", ">>>>>>> ")


def faults(path: Path) -> list[str]:
    """List what is wrong with a file, one line each."""
    data = path.read_bytes()
    lines = [f"{path}: {len(data):,} bytes, at most {MOST_BYTES:,}"] if len(data) > MOST_BYTES else []
    if b"\r\n" in data:
        lines.append(f"{path}: lines end with CR LF")
    if data and path.suffix not in GENERATED and (not data.endswith(b"\n") or data.endswith(b"\n\n")):
        lines.append(f"{path}: does not end with one line feed")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if line.startswith(MARKS):
            lines.append(f"{path}:{number}: a mark of a merge conflict")
        if line != line.rstrip() and path.suffix not in GENERATED:
            lines.append(f"{path}:{number}: white space at the end")
    return lines


if __name__ == "__main__":
    wrong = [fault for name in sys.argv[1:] for fault in faults(Path(name))]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)
