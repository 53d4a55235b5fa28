"""The recipe `segmentation` on sentences made for the test."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

import bridle
from bridle.errors import FileError
from bridle.spans import ilp
from experiments import Run, recipe_named, segmentation_speed
from experiments import segmentation as recipe
from experiments.segmentation_data import full_width, sentences
from experiments.tables import Report

LINES = [
    "我们/r 在/p 北京/ns 。/w",
    "他们/r 研究/v 历史/n 。/w 我们/r 学习/v ！/w",
    "北京/ns 人/n 在/p 学习/v 历史/n 。/w",
    "图书馆/n 在/p 北京/ns 。/w",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return _written(tmp_path)


def _written(tmp_path: Path) -> Path:
    (tmp_path / "cws-pku").mkdir()
    (tmp_path / "cws-hkcancor").mkdir()
    with gzip.open(tmp_path / "cws-pku" / "199801.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(LINES * 20) + "\n")
    with gzip.open(tmp_path / "cws-pku" / "pku_test_gold.utf8.gz", "wt", encoding="utf-8", newline="") as file:
        file.write("我们  在  北京  。\r\n北京  人  在  学习  历史  。\r\n")
    with tarfile.open(tmp_path / "cws-hkcancor" / "hkcancor-chat.tar.gz", "w:gz") as archive:
        for k in range(10):
            text = "@Begin\n*XXA:\t你 老公 有冇\n\t機票 啊 ?\n%mor:\tr|nei5\n*XXB:\t有 機票 啊 .\n@End\n" * 4
            member = tarfile.TarInfo(f"hkcancor/{k}.cha")
            content = text.encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return tmp_path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    def missing() -> object:
        raise ImportError

    data = _written(tmp_path_factory.mktemp("data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "_jieba", missing)
        patch.setattr(recipe, "_pkuseg", missing)
        return recipe_named("segmentation").run(Run(data, quick=True, threads=1))


def test_all_tables_are_there(report: Report) -> None:
    titles = [table.title.split(",")[0] for table in report.tables]
    assert titles == ["Table 8", "Table 10", "Table 11", "Beside others", "Table 8", "Table 10", "Table 11"]
    assert "full width" in report.settings["width"]
    assert "jieba, pkuseg" in report.tables[3].analysis
    json.loads(report.json())
    assert "## Settings" in report.markdown()


def test_sentences_seen_in_training_are_segmented_rightly(report: Report) -> None:
    assert [row.name for row in report.tables[1].rows][-len(recipe.SETTINGS) :] == list(recipe.SETTINGS)
    for row in report.tables[1].rows:
        assert row.cells[2].ours == pytest.approx(1.0), row.name


def test_rules_make_lattices_smaller_and_lose_nothing(report: Report) -> None:
    raw, begins, both = report.tables[2].rows[:3]
    sizes = [row.cells[1].ours for row in (raw, begins, both)]
    assert sizes == sorted(sizes, reverse=True)  # type: ignore[type-var]
    assert sizes[0] == (6 * 7 / 2 + 9 * 10 / 2) / 2  # sentences of 6 and 9 characters
    assert sizes[1] != sizes[0]
    assert begins.cells[0].ours == raw.cells[0].ours


def test_ilp_and_native_agree(report: Report) -> None:
    for figures in report.figures.values():
        assert figures["ILP and native differ by at most"] < 1e-6


def test_speeds_and_ratios_are_of_the_same_seconds(report: Report) -> None:
    table, figures = report.tables[2], report.figures["cws-pku"]
    assert figures["sample"] == [2, 0] and "on the 2 sentences with at most 1,290 words" in table.analysis
    assert [row.name.partition(";")[2] for row in table.rows] == [""] * 3 + [" HiGHS's own presolve on"] * 3
    for row in table.rows:
        kind, colon, rest = row.name.partition(";")
        seconds, raw = (sum(figures["ILP seconds"][name][colon + rest]) for name in (kind, "raw"))
        assert row.cells[2].ours == pytest.approx((6 + 9) / seconds)
        assert row.cells[3].ours == pytest.approx(raw / seconds)
        assert row.seen is None if kind == "raw" else row.seen == (raw / seconds >= 50)


def test_rows_with_presolve_are_solved_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    options, solver = list[str](), ilp.Solver
    monkeypatch.setattr(ilp, "Solver", lambda presolve: options.append(presolve) or solver(presolve))
    lattice = bridle.SpanLattice.all_words(2, np.zeros((2, 2)))
    for name, presolve in ((segmentation_speed.PRESOLVED, "on"), (segmentation_speed.OURS, "off")):
        segmentation_speed.SOLVERS[name]([lattice])
        assert options.pop() == presolve and not options


@pytest.mark.parametrize("name", ["cws-pku/pku_test_gold.utf8.gz", "cws-hkcancor/hkcancor-chat.tar.gz"])
def test_missing_file_is_named(data: Path, name: str) -> None:
    (data / name).unlink()
    with pytest.raises(FileError, match=rf"{Path(name).name} is not there; wanted .*README\.md"):
        recipe_named("segmentation").run(Run(data, quick=True, threads=1))


def test_archive_that_is_none(data: Path) -> None:
    (data / "cws-hkcancor" / "hkcancor-chat.tar.gz").write_bytes(b"no archive")
    with pytest.raises(FileError, match="the archive cannot be read"):
        recipe_named("segmentation").run(Run(data, quick=True, threads=1))


def test_sentences_end_after_what_closes_them() -> None:
    assert list(sentences(["说", "：", "“", "好", "。", "”", "他", "走", "！"])) == [
        ["说", "：", "“", "好", "。", "”"],
        ["他", "走", "！"],
    ]
    assert full_width("1998年A") == "１９９８年Ａ"
