"""Build wheels for the Pythons of this machine, and try them where no compiler is: `make wheel`, `make test-wheel`.

    python tools/wheels.py build [PYTHON ...]
    python tools/wheels.py test [PYTHON ...]

Without arguments: every CPython from 3.11 to 3.14, also free-threaded 3.14, on PATH or where pyenv and uv put them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, parse_tag
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PINS = ROOT / "requirements" / "constraints.txt"
VERSIONS = ["3.11", "3.12", "3.13", "3.14", "3.14t"]
MOST_BYTES = 5_000_000  # of a wheel
TESTS = [  # fast, and without optional packages
    *("test_labels.py", "test_lattice.py", "rules/test_rules.py", "decoding/test_threads.py", "spans/test_spans.py")
]
WITHOUT_WHEEL = {
    "3.14t": "highspy"
}  # dependencies that offer none for a Python; where bridle cannot be had without a compiler
ASK = "import json, sys, sysconfig; print(json.dumps([sys.implementation.name, list(sys.version_info[:3]), \
bool(sysconfig.get_config_var('Py_GIL_DISABLED')), sysconfig.get_platform()]))"


@dataclass(frozen=True)
class Python:
    """An interpreter."""

    path: Path
    version: str  # 3.12, 3.14t
    full: str
    platform: str

    @property
    def tags(self) -> set[Tag]:
        """Of wheels that it takes: those for itself, and, with the GIL, those for the stable ABI of 3.12 and newer."""
        own = f"cp{self.version.replace('.', '')}"
        tags = {f"{own.removesuffix('t')}-{own}"}
        if not own.endswith("t"):
            tags |= {f"cp3{minor}-abi3" for minor in range(12, int(self.version.partition(".")[2]) + 1)}
        system, machine = self.platform.split("-")[0], self.platform.split("-")[-1]
        kinds = [f"linux_{machine}", f"manylinux_2_28_{machine}"] if system == "linux" else [self.platform]
        return {
            tag
            for name in tags
            for kind in kinds
            for tag in parse_tag(f"{name}-{kind.replace('-', '_').replace('.', '_')}")
        }


def asked(path: str | Path) -> Python | None:
    """Ask an interpreter for its version; None if it does not run, or is none of those that Bridle supports."""
    try:
        done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=60)
        name, version, free, platform = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    short = f"{version[0]}.{version[1]}" + "t" * free
    return Python(Path(path), short, ".".join(map(str, version)), platform) if name == "cpython" else None


def pythons(named: list[str]) -> dict[str, Python]:
    """One interpreter per version: those that are named, or all that are found."""
    if named:
        interpreters = {path: asked(shutil.which(path) or path) for path in named}
        if wrong := [path for path, python in interpreters.items() if python is None or python.version not in VERSIONS]:
            sys.exit(f"wheels: not a CPython of {', '.join(VERSIONS)}: {', '.join(wrong)}")
        return {python.version: python for python in interpreters.values() if python is not None}
    out: dict[str, Python] = {}
    home = Path.home()
    for version in VERSIONS:
        places = [shutil.which(f"python{version}")]
        for folder in (".pyenv/versions", ".local/share/uv/python"):
            places += [str(path) for path in sorted(home.glob(f"{folder}/*/bin/python{version}"), reverse=True)]
        candidates = (python for place in places if place and (python := asked(place)) and python.version == version)
        if best := next(candidates, None):
            out[version] = best
    return out


def wheel_for(python: Python) -> Path | None:
    """The wheel in dist/ that this interpreter would install."""
    fitting = [path for path in sorted(DIST.glob("*.whl")) if parse_wheel_filename(path.name)[3] & python.tags]
    return fitting[-1] if fitting else None


def run(command: list[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; if it fails, show what it printed."""
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n", file=sys.stderr)
    return done


# ---- build ----------------------------------------------------------------------------------------------------------


def build(interpreters: dict[str, Python]) -> int:
    """The sdist, then from it, in a clean environment, a wheel for each interpreter that has none yet."""
    shutil.rmtree(DIST, ignore_errors=True)
    pins = {"PIP_CONSTRAINT": str(PINS), "PIP_BUILD_CONSTRAINT": str(PINS), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | pins
    if run([sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT], env=env).returncode:
        return 1
    [sdist] = DIST.glob("*.tar.gz")
    print(f"{sdist.name}: {sdist.stat().st_size:,} bytes")
    for python in interpreters.values():
        if wheel_for(python):
            continue
        print(f"wheels: building for {python.version} ({python.path})", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            run([python.path, "-m", "venv", folder])
            pip = [Path(folder) / "bin" / "python", "-m", "pip", "wheel", "--quiet", "--no-deps"]
            if run([*pip, "--wheel-dir", DIST, sdist], env=env, cwd=folder).returncode:
                return 1
    return max((look_into(path) for path in sorted(DIST.glob("*.whl"))), default=1)


def look_into(wheel: Path) -> int:
    """Print size and contents; 1 if it is too large, or its native module is not what the name of the wheel says."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    folders: dict[str, list[int]] = {}
    for entry in entries:
        folders.setdefault(
            "/".join(entry.filename.split("/")[:2]) if entry.filename.count("/") > 1 else entry.filename.split("/")[0],
            [],
        ).append(entry.file_size)
    native = [entry for entry in entries if "_native" in entry.filename and not entry.filename.endswith(".pyi")]
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size:,} bytes, {len(entries)} files")
    for name, sizes in sorted(folders.items()):
        print(f"  {name}: {len(sizes)} files, {sum(sizes):,} bytes")
    print(*(f"  {entry.filename}: {entry.file_size:,} bytes" for entry in native), sep="\n")
    stable = "-abi3-" in wheel.name
    right = len(native) == 1 and (os.name == "nt" or (".abi3." in native[0].filename) == stable) and size < MOST_BYTES
    return 0 if right else 1


# ---- test -----------------------------------------------------------------------------------------------------------


def test(interpreters: dict[str, Python]) -> int:
    """A table: interpreter, wheel, result."""
    rows = [(version, *row(version, interpreters.get(version))) for version in VERSIONS]
    widths = [max(len(str(line[k])) for line in rows) for k in range(3)]
    for line in rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)).rstrip())
    bad = [version for version, _, _, result in rows if result.startswith("FAILED")]
    good = [version for version, _, _, result in rows if result.startswith("passed")]
    print(f"wheels: {len(good)} passed, {len(bad)} failed, {len(rows) - len(good) - len(bad)} not tried")
    return 1 if bad or not good else 0


def row(version: str, python: Python | None) -> tuple[str, str, str]:
    """Full version, wheel, result."""
    if python is None:
        return "-", "-", "not found"
    wheel = wheel_for(python)
    if wheel is None:
        return python.full, "-", "FAILED: no wheel; make wheel"
    if version in WITHOUT_WHEEL:
        return python.full, wheel.name, f"not tried: {WITHOUT_WHEEL[version]} offers no wheel for {version}"
    print(f"wheels: trying {wheel.name} on {python.full}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return python.full, wheel.name, tried(python, wheel, Path(folder))


def tried(python: Python, wheel: Path, folder: Path) -> str:
    """Install it with nothing on PATH but the environment itself, then use it."""
    run([python.path, "-m", "venv", folder / "env"])
    bin_ = folder / "env" / "bin"
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HOME", "LANG"))}
    env = kept | {"PATH": str(bin_), "CC": "/bin/false", "CXX": "/bin/false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    (folder / "tests").mkdir()
    for path in (ROOT / "tests").glob("*.py"):
        shutil.copy(path, folder / "tests")
    shutil.copy(ROOT / "tools" / "smoke.py", folder)
    tests = [f"tests/{name}" for name in TESTS]
    steps: dict[str, list[str | Path]] = {
        "install": [
            bin_ / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            "-c",
            PINS,
            wheel,
            "pytest",
            "hypothesis",
        ],
        "bridle info": [bin_ / "bridle", "info"],
        "bridle demo": [bin_ / "bridle", "demo"],
        "smoke.py": [bin_ / "python", "smoke.py"],
        "tests": [
            bin_ / "python",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            "-W",
            "error",
            *tests,
        ],
    }
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n", encoding="utf-8")
    for name, command in steps.items():
        done = run(command, env=env, cwd=folder)
        if done.returncode:
            return f"FAILED: {name}"
    return f"passed: {done.stdout.strip().splitlines()[-1].strip('= ')}"


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("build", "test"):
        sys.exit(__doc__)
    sys.exit({"build": build, "test": test}[sys.argv[1]](pythons(sys.argv[2:])))
