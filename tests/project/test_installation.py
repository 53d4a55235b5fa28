"""Files of another project in the same folder, and a compiled module that is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bridle
from bridle.errors import MissingExtra
from bridle.installation import DISTRIBUTION, explain

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages that holds a copy of Bridle."""
    ignored = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(Path(bridle.__file__).parent, tmp_path / "bridle", ignore=ignored)
    record(tmp_path, DISTRIBUTION, "bridle/__init__.py")
    return tmp_path


def record(site: Path, name: str, *files: str) -> None:
    """Write what pip writes about a distribution."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")


def without_native(site: Path) -> None:
    for path in (site / "bridle").glob("_native.*"):
        path.unlink()


def error_of(site: Path, code: str, *options: str) -> str:
    """Run code that must fail, and return the message of its error."""
    command, environment = [sys.executable, *options, "-c", code], {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_the_name_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == bridle.__distribution__ == DISTRIBUTION


def test_every_extra_for_users_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {"test", "integrations", "distributed", "explorer", "check", "wheel", "docs", "bench"}
    page = (ROOT / "docs/installation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", page.partition("## Extras")[2].partition("\n## ")[0], re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert explained == set(project["optional-dependencies"]) - ours


@pytest.mark.parametrize("name", ["bridle", "bridle-ai"])
@pytest.mark.parametrize("code", ["import bridle.rules", "from bridle.cli import app"])
def test_a_package_overwritten_by_another_project_is_an_error(site: Path, name: str, code: str) -> None:
    (site / "bridle" / "__init__.py").write_text("VERSION = 7\n", encoding="utf-8")
    record(site, name, "bridle/__init__.py", "bridle/horse.py")
    message = error_of(site, code)
    assert f"got files of {name}; wanted the files of bridle-nlp and no others." in message
    assert f"Run pip uninstall {name} bridle-nlp, then pip install bridle-nlp (in a clone" in message


def test_an_uninstalled_project_leaves_a_package_that_is_not_intact(site: Path) -> None:
    """`pip uninstall bridle` removes our `__init__.py` with its own."""
    (site / "bridle" / "__init__.py").unlink()
    message = error_of(site, "import bridle.errors", "-S")
    assert "is not intact; got no __init__.py; wanted the files of bridle-nlp and no others." in message
    assert "Run pip uninstall bridle bridle-ai bridle-nlp, then" in message


@pytest.mark.parametrize("code", ["import bridle; bridle.Decoder", "from bridle.__main__ import main; main()"])
def test_a_module_of_another_project_in_place_of_ours(site: Path, code: str) -> None:
    record(site, "bridle", "bridle/errors.py")
    (site / "bridle" / "errors.py").write_text("class HorseError(Exception): ...\n", encoding="utf-8")
    assert "got files of bridle; wanted the files of bridle-nlp and no others." in error_of(site, code)


@pytest.mark.parametrize(
    "code", ["from bridle import _native", "import bridle; bridle.Decoder", "import bridle.lattice"]
)
def test_a_missing_compiled_module(site: Path, code: str) -> None:
    without_native(site)
    message = error_of(site, code)
    assert "cannot load bridle._native, the compiled part of Bridle; got No module named 'bridle._native'" in message
    assert f"wanted a build for Python {sys.version_info[0]}.{sys.version_info[1]}" in message


def test_a_distribution_in_another_folder_is_no_conflict(site: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    without_native(site)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    record(elsewhere, "bridle", "bridle/__init__.py")
    code = f"import sys; sys.path.append({str(elsewhere)!r}); import bridle.lattice"
    assert "cannot load bridle._native" in error_of(site, code)


@pytest.mark.parametrize(
    "problem", [ModuleNotFoundError("x", name="numpy"), MissingExtra("spans need X"), ImportError()]
)
def test_errors_of_other_packages_are_left_alone(problem: ImportError) -> None:
    explain(problem)


def test_an_intact_package_does_not_look() -> None:
    """Importing Bridle does not load the module that looks for other projects."""
    code = "import sys, bridle; bridle.Decoder; print('bridle.installation' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
