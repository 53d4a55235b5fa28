"""Optional packages that are not there."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from bridle.errors import FileError, MissingExtra
from bridle.extras import needed


def test_a_package_that_is_there() -> None:
    assert needed("json.decoder", "none", "").JSONDecoder


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(
        MissingExtra, match=r"Spans need X; got no package nowhere; wanted pip install 'bridle-nlp\[x\]'\."
    ):
        needed("nowhere.at_all", "x", "Spans need X")


def module(folder: Path, name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that can be imported, or not, until the test is over."""
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, name)


def test_who_looks_for_modules_goes_on() -> None:
    """As pkgutil does: modules that cannot be imported are skipped."""
    assert issubclass(MissingExtra, ImportError)
    error = pickle.loads(pickle.dumps(MissingExtra("X", got="no package x")))
    assert (str(error), error.name) == ("X; got no package x.", None)


def test_a_package_that_lacks_another_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, "half_installed", "import its_missing_half\n", monkeypatch)
    with pytest.raises(FileError, match="half_installed without its_missing_half"):
        needed("half_installed", "x", "Spans need X", FileError)


def test_a_package_that_is_broken_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, but a library of the system is missing: the name of the error is None."""
    module(tmp_path, "broken", "raise ImportError('libx.so.12: cannot open shared object file')\n", monkeypatch)
    with pytest.raises(
        MissingExtra, match=r"got broken, which cannot be imported: libx\.so\.12: cannot open"
    ) as raised:
        needed("broken", "x", "Spans need X")
    assert isinstance(raised.value.__cause__, ImportError)
