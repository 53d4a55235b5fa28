"""Control characters in labels, tokens, rules and file names: a terminal sees escapes, files and pipes get the data."""

from __future__ import annotations

import json
import os
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from bridle.report.text import visible
from commands import Cli

pty = pytest.importorskip("pty")

EVIL = "\x1b]0;pwned\x07"  # would set the title of a terminal
A, B = f"A{EVIL}\x9b31m", "[red]B\u202e"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SHOWN_A, SHOWN_B = "A\\x1b]0;pwned\\x07\\x9b31m", "[red]B\\u202e"
TOKENS = [f"x{EVIL}", "[bold]y[/bold]", "z\r\u2066"]


def hostile(text: str) -> list[str]:
    """Characters that would steer a terminal; a line may end in CR LF, as a pseudo-terminal has it."""
    left = text.replace("\r\n", "\n")
    return [c for c in left if (unicodedata.category(c) == "Cc" and c not in "\n\t") or c in BIDI]


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, rules, scores and a model, all with names that a terminal should not get raw."""
    place = tmp_path_factory.mktemp("hostile")
    labels = [A, B, A]
    data = place / f"data{EVIL}.jsonl"
    data.write_text("".join(json.dumps({"tokens": TOKENS, "labels": labels}) + "\n" for _ in range(12)))
    (place / "broken.jsonl").write_text(json.dumps({"tokens": TOKENS, "labels": [B, A, B]}) + "\n")
    rules = [f'at least 1 token of "{A}"  # why{EVIL}']
    rules += [f'at most 1 token of "{B}"  [penalty 2]']
    (place / f"my{EVIL}.rules").write_text("\n".join(rules) + "\n")
    (place / "clash.rules").write_text(f'forbid "{A}"\n{rules[0]}\n')
    (place / "bad.rules").write_text(f"befor{EVIL} nothing\n")
    run.ok("train", data, "-o", place / "m", "--format", "jsonl", "--iterations", 3, "--features", "word[0]")
    return place


def in_a_terminal(run: Cli, folder: Path, *words: object) -> str:
    """Return stdout and stderr of a command on a pseudo-terminal without colours."""
    ours, its = pty.openpty()
    env = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "160"}
    with run.start(*words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=its, stderr=its):
        os.close(its)
        seen = b""
        while True:
            try:
                some = os.read(ours, 1 << 16)
            except OSError:  # how a pseudo-terminal ends
                some = b""
            if not some:
                break
            seen += some
    os.close(ours)
    return seen.decode()


RULES, DATA = f"my{EVIL}.rules", f"data{EVIL}.jsonl"
COMMANDS: dict[str, tuple[list[Any], list[str]]] = {
    "rules show": (["rules", "show", RULES], [SHOWN_A, SHOWN_B]),
    "rules check": (["rules", "check", "clash.rules", "--model", "m"], ["\\x1b]0;pwned\\x07"]),
    "rules check bad": (["rules", "check", "bad.rules"], ["befor"]),
    "rules test": (["rules", "test", RULES, DATA, "--model", "m"], [SHOWN_A, SHOWN_B]),
    "eval": (["eval", DATA, "--model", "m", "--by-label"], [SHOWN_A, SHOWN_B]),
    "explain": (["explain", "m", "broken.jsonl", "--rules", RULES, "--sequence", "0"], ["[red]B", "\\x1b"]),
    "explain all": (["explain", "m", DATA, "--rules", RULES], []),
    "learn": (["learn", DATA, "-o", f"new{EVIL}.rules", "--min-support", "1"], ["new\\x1b]0;pwned\\x07.rules"]),
    "tag": (["tag", "m", DATA, "--to", "conll"], ["\\x1b]0;pwned"]),
    "tag to JSON": (["tag", "m", DATA, "--json"], ["\\u202e"]),
    "no such file": (["tag", "m", f"none{EVIL}"], ["none\\x1b]0;pwned\\x07"]),
    "misuse": (["tag", "m", f"--nothing{EVIL}"], ["nothing\\x1b"]),
    "info": (["info"], ["processor"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_terminals_get_escapes(run: Cli, folder: Path, name: str) -> None:
    words, wanted = COMMANDS[name]
    seen = in_a_terminal(run, folder, *words)
    assert hostile(seen) == [] and "Traceback" not in seen
    for text in wanted:
        assert text in seen


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith(("tag", "rules show"))])
def test_tables_and_messages_in_pipes(run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "160")
    words, wanted = COMMANDS[name]
    result = run(*words)
    assert hostile(result.output) == []
    for text in wanted:
        assert text in result.output


def test_data_in_pipes_and_files_is_as_it_was(run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    piped = run.stdout("rules", "show", RULES)
    assert A in piped and B in piped and f"why{EVIL}" in piped
    (folder / "again.rules").write_text(piped)
    assert run.stdout("rules", "show", "again.rules") == piped
    for line in run.stdout("tag", "m", DATA, "--json").splitlines():
        assert json.loads(line)["tokens"] == TOKENS and set(json.loads(line)["labels"]) <= {A, B}
    run.ok("tag", "m", DATA, "--to", "jsonl", "-o", "out.jsonl")
    document = json.loads((folder / "out.jsonl").read_bytes().decode().split("\n")[0])
    assert document["tokens"] == TOKENS
    run.ok("learn", DATA, "-o", "learned.rules", "--min-support", 1, "--significance", 1, "--hard")
    assert A in (folder / "learned.rules").read_bytes().decode()
    assert json.loads(run.stdout("eval", DATA, "--model", "m", "--json"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("ä — 漢 👩‍👩‍👧", "ä — 漢 👩‍👩‍👧"),  # joiners make one picture of several
        ("\x00\x07\x1b\x7f\x80\x9b", r"\x00\x07\x1b\x7f\x80\x9b"),
        ("\r\n\t", r"\r\n\t"),
        (BIDI, "".join(f"\\u{ord(c):04x}" for c in BIDI)),
        ("\u2028\u200f\ud800", r"\u2028\u200f\ud800"),
        ("a\\x1b", "a\\x1b"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown and visible("\t" + text, keep="\t") == "\t" + shown.replace(r"\t", "\t")
