"""Runs over files that are killed at chosen points: `python run_faults.py MODEL INPUT OUT`, in a process of its own.

For each point a child begins or resumes the run and ends there at once, as `kill -9` would end it; nothing is cleaned
up. The last child finishes the run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from bridle.atomic import Replacement
from bridle.bulk import ShardSize, tag_files
from bridle.runs.files import _TableFile
from bridle.runs.manifest import Manifest

KILLED = 9


def die(*_: Any, **__: Any) -> None:
    os._exit(KILLED)


def after(method: Callable[..., Any], calls: int = 1) -> Callable[..., Any]:
    """The method, and the end of the process after some calls of it."""
    left = [calls]

    def called(*args: Any, **named: Any) -> Any:
        result = method(*args, **named)
        left[0] -= 1
        if not left[0]:
            die()
        return result

    return called


def torn(self: Manifest, line: dict[str, Any]) -> None:
    """Half a line, then the end."""
    os.write(self._file, json.dumps(line).encode()[:20])
    die()


FAULTS: dict[str, list[tuple[type, str, Callable[..., Any]]]] = {
    "while the head is written": [(Manifest, "_add", torn)],
    "while a shard is written": [(_TableFile, "write", after(_TableFile.write, 3))],
    "before it is renamed": [(Replacement, "finish", die)],
    "before it is noted": [(Manifest, "add", die)],
    "while it is noted": [(Manifest, "add", lambda self, shard: torn(self, shard.to_json()))],
    "after it is noted": [(Manifest, "add", after(Manifest.add))],
    "before the end is noted": [(Manifest, "finish", die)],
    "while the end is noted": [(Manifest, "finish", lambda self, seconds: torn(self, {"finished": {"rows": 1}}))],
    "after the end is noted": [(Manifest, "finish", after(Manifest.finish))],
    "never": [],
}


def main(model: str, data: str, out: str) -> None:
    """Kill a run at every point, each time resuming what is there; print how each child ended."""
    ends = {}
    pyarrow.array([1])  # which imports pandas; once, not in each child
    for name, patches in FAULTS.items():
        child = os.fork()
        if not child:
            for owner, method, fault in patches:
                setattr(owner, method, fault)
            tag_files(model, data, out, shard_size=ShardSize(rows=7), threads=2)
            os._exit(0)
        ends[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps(ends))


if __name__ == "__main__":
    main(*sys.argv[1:])
