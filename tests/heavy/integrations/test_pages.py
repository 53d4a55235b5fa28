"""The pages about integrations are true: their code runs beside the real packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from page_blocks import ROOT, is_run, run_page

FOLDER = ROOT / "docs" / "integrations"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in FOLDER.glob("*.md"))
ELSEWHERE = {"docs/integrations/ray.md", "docs/integrations/spark.md"}  # run by tests/heavy/distributed


@pytest.mark.parametrize("name", [name for name in PAGES if is_run(name) and name not in ELSEWHERE])
def test_a_page_runs(name: str, tmp_path: Path) -> None:
    run_page(name, tmp_path, seconds=180)


def test_the_first_page_leads_to_all_others() -> None:
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if not name.endswith("index.md") and Path(name).name not in text] == []
