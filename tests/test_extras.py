"""Optional packages that are not there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridle.errors import FileError, MissingExtra
from bridle.extras import needed


def test_a_package_that_is_there() -> None:
    assert needed("json.decoder", "none", "").JSONDecoder


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r"Spans need X; got no package nowhere; wanted pip install 'bridle\[x\]'\."):
        needed("nowhere.at_all", "x", "Spans need X")


def test_a_package_that_lacks_another_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import its_missing_half\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "half_installed", None)
    monkeypatch.delitem(sys.modules, "half_installed")
    with pytest.raises(FileError, match="half_installed without its_missing_half"):
        needed("half_installed", "x", "Spans need X", FileError)
