"""Files that are whole or not there, whoever else writes them, and whatever ends the writer."""

from __future__ import annotations

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle import CRF, atomic
from bridle.atomic import Replacement, append, claimed, replacing, write_text
from bridle.data import Example, Lines, write
from bridle.data.scores import save_scores
from bridle.errors import FileError, ModelFileError
from commands import Cli

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")

WRITER = """
import sys, time
from bridle.atomic import Replacement
made = Replacement(sys.argv[1])
made.raw.write(b"half")
print(made.part, flush=True)
sys.stdin.read()
made.finish()
"""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process in the midst of writing a file."""
    environment = os.environ | {"PYTHONPATH": str(Path(atomic.__file__).parents[1])}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], env=environment, **pipes) as process:
        assert process.stdout is not None and process.stdout.readline().strip().endswith(b".part")
        yield process
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


WRITES = re.compile(
    r"write_(text|bytes)\(|savefig\((path|place)\b|open\([^)]*[\"'][wax][bt+]*[\"']|os\.(replace|rename)\("
)
# into folders of their own that no other process knows; what is left of standard output; this module
EXEMPT = {"models/estimator.py", "cli/base.py", "atomic.py"}


def test_all_writers_use_this_module() -> None:
    source = Path(atomic.__file__).parent
    for path in source.rglob("*.py"):
        if path.relative_to(source).as_posix() not in EXEMPT:
            lines = [line for line in path.read_text(encoding="utf-8").split("\n") if "..." not in line]
            result = [line for line in lines if WRITES.search(line) and " write_text(" not in f" {line.strip()}"]
            assert result == [], path


# ---- one writer -----------------------------------------------------------------------------------------------------


def test_the_name_comes_last(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
        parts = [path for path in tmp_path.iterdir() if path.suffix == ".part"]
        assert path.read_text() == "old" and len(parts) == 1 and stat.S_IMODE(parts[0].stat().st_mode) == 0o640
        assert parts[0].name.startswith(f"out.{os.getpid()}-")
    assert path.read_text() == "new" and names(tmp_path) == ["link", "out"]
    assert (tmp_path / "link").is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_secret_file_is_secret_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.touch(0o600)
    replacement = Replacement(path)
    assert replacement.part is not None and stat.S_IMODE(replacement.part.stat().st_mode) == 0o600
    replacement.discard()


@pytest.mark.parametrize("trouble", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")])
def test_nothing_is_left_of_what_failed(tmp_path: Path, trouble: BaseException) -> None:
    (tmp_path / "out").write_text("old")
    expected = FileError if isinstance(trouble, OSError) else type(trouble)
    with pytest.raises(expected), replacing(tmp_path / "out") as file:
        file.write(b"x" * 100_000)
        file.write(b"x")  # still in the buffer
        raise trouble
    assert names(tmp_path) == ["out"] and (tmp_path / "out").read_text() == "old"


def test_a_file_that_may_grow_no_more(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(FileError, match="disk is full"):
            write_text(tmp_path / "a", "x" * 20_000)
        with pytest.raises(FileError, match="disk is full"):
            save_scores(tmp_path / "b.jsonl", [bridle.Lattice([[0.5, 1.5]] * 3000)])
        examples = [Example({"word": [f"w{k}"] * 90}, ["O"] * 90) for k in range(99)]
        with pytest.raises(FileError, match="disk is full"):
            write(tmp_path / "c.conll", examples)
        append(tmp_path / "d", b"one\n")
        with pytest.raises(FileError, match="disk is full"):
            append(tmp_path / "d", b"x" * 20_000)
        append(tmp_path / "d", b"two\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) in (["d"], ["c.conll.part", "d"]) and (tmp_path / "d").read_bytes() == b"one\ntwo\n"


def test_devices_and_pipes_are_written_as_they_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_text(tmp_path / "pipe", "through")
    reader.join(10)
    assert read == [b"through"] and names(tmp_path) == ["pipe"]
    write_text("/dev/null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    write_text("/dev/stdout", "said")
    assert capfd.readouterr().out == "said"
    if Path("/dev/full").exists():
        with pytest.raises(FileError, match="disk is full"):
            write_text("/dev/full", "x")


def test_packed_files_do_not_replace_devices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.conll.gz")
    reader = threading.Thread(target=(tmp_path / "out.conll.gz").read_bytes)
    reader.start()
    write(tmp_path / "out.conll.gz", [Example({"word": ["a"]}, ["O"])])
    reader.join(10)
    assert stat.S_ISFIFO((tmp_path / "out.conll.gz").stat().st_mode)


@pytest.mark.slow
def test_a_redirected_standard_output_is_added_to(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    environment = os.environ | {"PYTHONPATH": str(Path(atomic.__file__).parents[1])}
    program = "from bridle.atomic import write_text; write_text('/dev/stdout', 'after\\n')"
    with (tmp_path / "log").open("a") as log:
        subprocess.run([sys.executable, "-c", program], env=environment, stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "before\nafter\n"


def test_places_where_nothing_can_be(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for bad in (tmp_path, tmp_path / "none" / "x", "a\0b", tmp_path / "circle", None, 3):
        with pytest.raises(FileError):
            Replacement(bad)  # type: ignore[arg-type]
    assert names(tmp_path) == ["circle"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(FileError, match="may you write to it"):
        write_text(tmp_path / "shut" / "x", "x")


def test_long_names_are_told_apart(tmp_path: Path) -> None:
    item, two = tmp_path / ("ä" * 120 + "1"), tmp_path / ("ä" * 120 + "2")
    first, second = Replacement(item), Replacement(two)
    assert first.part != second.part
    with pytest.raises(FileError, match="another thread of this process"):
        Replacement(item)
    first.finish()
    assert second.keep() is not None and item.exists()


# ---- what is kept, and what was left --------------------------------------------------------------------------------


def test_what_is_kept_is_never_removed_or_replaced(tmp_path: Path) -> None:
    for k, name in enumerate(["out.part", "out.part.2", "out.part.3"]):
        replacement = Replacement(tmp_path / "out")
        replacement.raw.write(b"%d" % k)
        assert replacement.keep() == tmp_path / name
    write_text(tmp_path / "out", "whole")
    assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ["whole", "0", "1", "2"]


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for name in ("out.part", "out.part.2"):
        assert Replacement(tmp_path / "out").keep() == tmp_path / name
    assert names(tmp_path) == ["out.part", "out.part.2"]


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with writer(path) as process:
        process.kill()
        process.wait(10)
        assert len(names(tmp_path)) == 2 and path.read_text() == "old"
    host = atomic._host()
    dead = process.pid
    similar = [
        f"out.{dead}-{host}-0123456.part",
        f"out.{dead}-{host}-01234567.part.txt",
        f"other.{dead}-{host}-01234567.part",
        f"out2.{dead}-{host}-01234567.part",
        f"out.{dead}-000000-01234567.part",  # of another host
        f"out.{os.getppid()}-{host}-01234567.part",  # of a living process that may not have locked it yet
        f"out.{dead}.part",
        "out.part",
    ]
    for name in similar:
        (tmp_path / name).touch()
    (tmp_path / f"out.{dead}-{host}-89abcdef.part").mkdir()
    write_text(path, "new")
    assert names(tmp_path) == sorted(["out", *similar, f"out.{dead}-{host}-89abcdef.part"])


def test_what_an_earlier_process_of_the_same_id_left_is_removed(tmp_path: Path) -> None:
    """In a container the next run often has the id of the one that was killed."""
    left = tmp_path / f"out.{os.getpid()}-{atomic._host()}-01234567.part"
    left.write_text("half")
    mine = Replacement(tmp_path / "out")
    assert mine.part is not None and names(tmp_path) == [mine.part.name]
    mine._close()  # the lock is gone, but not yet the part
    write_text(tmp_path / "out", "second")
    assert mine.part.exists()
    mine.finish()
    assert names(tmp_path) == ["out"] and not atomic._own & {left, mine.part}


def test_nothing_is_removed_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host of the same name may be writing there."""

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    left = tmp_path / f"out.{2**22 + 1}-{atomic._host()}-01234567.part"
    left.touch()
    monkeypatch.setattr("fcntl.flock", refuse)
    write_text(tmp_path / "out", "x")
    assert left.exists()


@pytest.mark.slow
def test_what_a_killed_command_left_is_removed_by_the_next(run: Cli, tmp_path: Path) -> None:
    """`bridle train`, killed while it writes checkpoints, and run again: its claims go too."""
    (tmp_path / "x.txt").write_text("a X\nb Y\n\na Y\nb Y\n\n" * 50)
    train = ["train", tmp_path / "x.txt", "-o", tmp_path / "m", "--features", "word[0]", "--learner", "perceptron"]
    endless = [*train, "--iterations", 10**6, "--checkpoint", tmp_path / "c", "--every", 1]
    with run.start(*endless) as process:
        _until(lambda: bool(list(tmp_path.glob("m.*.part"))))
        process.kill()
    assert list(tmp_path.glob("m.*.part"))
    run.ok(*train, "--checkpoint", tmp_path / "c")
    assert names(tmp_path) == ["c", "m", "m.json", "x.txt"]


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---- several writers ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_another_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with writer(path) as process:
        with pytest.raises(
            FileError, match=f"another process is writing this file; got process {process.pid}"
        ) as caught:
            Replacement(path)
        assert "\n" in str(caught.value) and caught.value.where == str(path)
        with pytest.raises(FileError, match="another process"):
            Lines(str(path))
        process.communicate(b"")
        assert path.read_text() == "half"
    write_text(path, "mine")
    assert names(tmp_path) == ["out"] and path.read_text() == "mine"


def test_who_writes_in_one_go_waits(tmp_path: Path) -> None:
    first = Replacement(tmp_path / "out")
    threading.Timer(0.2, first.finish).start()
    begun = time.monotonic()
    write_text(tmp_path / "out", "second")
    assert time.monotonic() - begun > 0.1 and (tmp_path / "out").read_text() == "second"
    first = Replacement(tmp_path / "out")
    with (
        pytest.raises(ModelFileError, match="another thread"),
        replacing(tmp_path / "out", patience=0.1, error=ModelFileError),
    ):
        pass
    first.discard()


def test_of_two_that_start_together_one_writes(tmp_path: Path) -> None:
    for _ in range(20):
        together, result = threading.Barrier(4), []

        def write(k: int, together: threading.Barrier = together, result: list[int] = result) -> None:
            together.wait(10)
            try:
                replacement = Replacement(tmp_path / "out")
            except FileError:
                together.wait(10)
                return
            together.wait(10)  # all have tried
            result.append(k)
            replacement.raw.write(b"%d" % k)
            replacement.finish()

        threads = [threading.Thread(target=write, args=[k]) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(result) == 1 and (tmp_path / "out").read_text() == str(result[0])
        assert names(tmp_path) == ["out"]


def test_threads_that_save_the_same_model(tmp_path: Path) -> None:
    models = [CRF(features=["word[0]"], iterations=k).fit([["a", "b"]], [["X", "Y"]]) for k in (1, 2)]
    threads = [threading.Thread(target=models[k % 2].save, args=[tmp_path / "m"]) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert bridle.load(tmp_path / "m").get_params()["iterations"] in (1, 2) and names(tmp_path) == ["m"]


def test_where_nothing_can_be_locked_the_last_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", refuse)
        first, second = Replacement(tmp_path / "out"), Replacement(tmp_path / "out")
    monkeypatch.setattr(atomic, "fcntl", None)
    third = Replacement(tmp_path / "out")
    for k, built in enumerate((first, second, third)):
        built.raw.write(b"%d" % k)
        built.finish()
        assert (tmp_path / "out").read_text() == str(k)
    assert names(tmp_path) == ["out"]


@pytest.mark.slow
def test_a_claim_keeps_others_out_but_not_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "out"
    program = f"from bridle.atomic import Replacement; Replacement({str(path)!r})"
    environment = os.environ | {"PYTHONPATH": str(Path(atomic.__file__).parents[1])}
    with claimed(path, None, "-", "/dev/null"):
        write_text(path, "mine")
        done = subprocess.run([sys.executable, "-c", program], env=environment, check=False, stderr=subprocess.PIPE)
        assert done.returncode == 1 and f"got process {os.getpid()}".encode() in done.stderr
    assert names(tmp_path) == ["out"] and path.read_text() == "mine"


# ---- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(run: Cli, tmp_path: Path) -> Path:
    (tmp_path / "train.txt").write_text("a X\nb Y\n")
    run.ok("train", tmp_path / "train.txt", "-o", tmp_path / "m", "--format", "conll", "--iterations", 2)
    return tmp_path / "m"


@pytest.mark.slow
def test_two_taggings_of_the_same_output(run: Cli, model: Path, tmp_path: Path) -> None:
    for word in "ab":
        (tmp_path / f"{word}.txt").write_text(f"{word}\n\n" * 10_000)
    for _ in range(2):
        both = [run.start("tag", model, tmp_path / f"{word}.txt", "-o", tmp_path / "out") for word in "ab"]
        said = [process.communicate(timeout=60)[1].decode() for process in both]
        codes = [process.returncode for process in both]
        whole = (tmp_path / "out").read_text()
        assert whole in ("a\tX\n\n" * 10_000, "b\tY\n\n" * 10_000) and not list(tmp_path.glob("*.part"))
        # both succeed if one had ended before the other began
        assert sorted(codes) in ([0, 0], [0, 2])
        for code, text in zip(codes, said, strict=True):
            assert ("another process is writing this file; got process" in text) == (code == 2)


@pytest.mark.slow
def test_a_killed_tagging_is_cleaned_up_after(run: Cli, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with run.start("tag", model, "-", "-o", out, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\n\n" * 5000)
        process.stdin.flush()
        end = time.monotonic() + 20
        while not any(part.stat().st_size for part in tmp_path.glob("out.*.part")):
            assert time.monotonic() < end
            time.sleep(0.02)
        refused = run("tag", model, "-", "-o", out, stdin="b\n")
        assert refused.exit_code == 2 and f"got process {process.pid}" in refused.stderr
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert not out.exists() and len(list(tmp_path.glob("out.*.part"))) == 1
    run.ok("tag", model, "-", "-o", out, stdin="b\n")
    assert out.read_text() == "b\tY\n\n" and not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_a_second_training_is_refused_at_once(run: Cli, tmp_path: Path) -> None:
    lines = [f"w{k % 97} {'ABC'[k % 3]}" + ("\n" if k % 11 == 0 else "") for k in range(5000)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    train = ["train", "train.txt", "--format", "conll", "--learner", "perceptron", "--iterations", 10**7]
    with run.start(*train, "-o", "m", "--checkpoint", "c", "--every", 1, cwd=tmp_path) as process:
        end = time.monotonic() + 20
        while not (tmp_path / "c").exists():
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.02)
        for other in (["-o", "m"], ["-o", "m2", "--checkpoint", "c"]):
            second = run.start(*train, *other, cwd=tmp_path)
            said = second.communicate(timeout=20)[1].decode()
            assert second.returncode == 2 and f"got process {process.pid}" in said
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    left = list(tmp_path.glob("*.part"))
    assert left and not (tmp_path / "m").exists()
    few = [*train[:-1], 2, "--checkpoint", tmp_path / "c2"]
    few[1] = tmp_path / "train.txt"
    run.ok(*few, "-o", tmp_path / "m")
    bridle.load(tmp_path / "m")
    assert {part.name.split(".")[0] for part in tmp_path.glob("*.part")} <= {"c"}  # another file's
