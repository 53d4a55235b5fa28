"""The fuzzer finds what it should; what it found once is refused now: tests/corpus, and files that are made here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bridle
import fuzz
import fuzz_doors
from bridle.data import formats
from bridle.models import files
from fuzz_binary import signed
from fuzz_doors import doors, seeds

CORPUS = sorted((Path(__file__).parents[1] / "corpus").iterdir())


def checkpoint(change: Callable[[dict[str, object], dict[str, object]], None]) -> Callable[[Path], None]:
    """A checkpoint with another head or other arrays, and the right checksums."""

    def make(path: Path) -> None:
        path.write_bytes(seeds("checkpoint")[0])
        stored = files.open_file(path)
        arrays = {name: array.copy() for name, array in stored.arrays.items()}
        change(stored.head, arrays)  # type: ignore[arg-type]
        files.save(path, stored.kind, stored.head, arrays)

    return make


def text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content, encoding="utf-8") and None


# What failed once and takes more room than a small file: by the name of its door.
LARGER: dict[str, Callable[[Path], None]] = {
    "rules--deep": text("(" * 5000 + "present A" + ")" * 5000),
    "rules--parentheses": text("(" * 199 + "present A" + ")" * 199),
    "rules--not": text("not " * 900 + "present A"),
    "rules--and": text("present A and " * 5000 + "present A"),
    "rules--long": text("at most 1 segment of " + "x" * 100_000),
    "config--deep": text("[" * 100_000),
    "checkpoint--best": checkpoint(lambda head, _: head["progress"].update(best_score=[])),  # type: ignore[attr-defined]
    "checkpoint--losses": checkpoint(lambda head, _: head["progress"].update(losses=["x"] * 3)),  # type: ignore[attr-defined]
    "checkpoint--memory": checkpoint(lambda _, arrays: arrays["state.counts"].__setitem__(0, 2**51)),  # type: ignore[attr-defined]
    "model--header": lambda path: path.write_bytes(signed(b"[" * 100_000, [])) and None,
}


@pytest.mark.parametrize("name", LARGER)
def test_what_failed_once_is_refused(name: str, tmp_path: Path) -> None:
    door = name.split("--")[0]
    path = tmp_path / f"{name}{doors()[door].suffix}"
    LARGER[name](path)
    assert fuzz.verdict(door, str(path)) == fuzz.REFUSED


@pytest.mark.parametrize(
    "rule", ["(" * 150 + "present A" + ")" * 150, "not " * 150 + "present A", "present A" + " or present A" * 150]
)
def test_rules_may_be_nested(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "x.rules"
    path.write_text(rule)
    assert fuzz.verdict("rules", str(path)) == fuzz.ACCEPTED


def test_every_format_has_a_door_and_seeds_that_are_accepted(tmp_path: Path) -> None:
    assert set(formats()) < set(doors())
    for name, door in doors().items():
        for k, data in enumerate(seeds(name)):
            path = tmp_path / f"{name}{k}{door.suffix}"
            path.write_bytes(data)
            assert fuzz.verdict(name, str(path)) == fuzz.ACCEPTED, (name, k)


def test_a_seed_gives_the_same_file_again() -> None:
    for name in doors():
        some = [fuzz.content(name, k) for k in range(9)]
        assert some == [fuzz.content(name, k) for k in range(9)] and len(set(some)) > 5, name
    assert fuzz.tasks_of(["a", "b"], 3, 7) == [("a", "7"), ("b", "7"), ("a", "8")]


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(what: str) -> None:
        try:
            raise MemoryError if what == "memory" else ValueError
        except (MemoryError, ValueError):
            if what != "untyped":
                raise bridle.BridleError("x" * 100) from None
            raise

    monkeypatch.setattr(fuzz_doors, "doors", lambda: {"x": fuzz_doors.Door("text", "", list, read)})
    result = [fuzz.verdict("x", what) for what in ("typed", "untyped", "memory")]
    assert (
        result[0] == fuzz.REFUSED and result[1].startswith("untyped error") and result[2].startswith("asked for more")
    )


@pytest.mark.slow
def test_findings_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fuzz_doors.TRAP, "1")
    words = ["fine", "refuse", "raise", "grow", "die", "fine"]
    for k, word in enumerate(words):
        (tmp_path / f"{k}").write_text(word)
    tally = fuzz.run([("trap", str(tmp_path / f"{k}")) for k in range(len(words))], 1, show=False)
    output = [finding[2] for finding in tally.findings]
    assert [tally.counts["trap", key] for key in (fuzz.ACCEPTED, fuzz.REFUSED, "findings")] == [2, 1, 3]
    assert "untyped" in output[0] and "more than 1 GB" in output[1] and "exit code -11" in output[2]
    assert "trap" in tally.table()


@pytest.mark.slow
def test_the_corpus_is_refused_and_a_short_run_finds_nothing() -> None:
    corpus = [(path.name.split("--")[0], str(path)) for path in CORPUS]
    tally = fuzz.run([*corpus, *fuzz.tasks_of(list(doors()), 300, 0)], 2, show=False)
    assert not tally.findings
    assert sum(tally.counts.values()) == len(corpus) + 300
    for name in {name for name, _ in corpus}:
        assert tally.counts[name, fuzz.REFUSED] >= sum(name == other for other, _ in corpus)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in CORPUS if "offset" in path.name], ids=lambda path: path.stem)
def test_a_process_survives(path: Path) -> None:
    """In a process of its own: whether it dies depends on what else is in its memory."""
    lines = ["try: list(bridle.data.read(sys.argv[1]))", "except bridle.BridleError: print('typed')"]
    program = "\n".join(["import sys, bridle, bridle.data", *lines])
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "typed\n")
