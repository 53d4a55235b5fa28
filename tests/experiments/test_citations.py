"""The recipe `citations` on a few references made up here."""

import gzip
import json
from pathlib import Path

import pytest

from bridle import FileError
from experiments import Run, recipe_named
from experiments.citations import TABLE_3, anystyle
from experiments.citations_paper import delimited
from experiments.fields import ALL, PLAIN, Fields, figures, shares

NAMES, WORDS = ("Knuth", "Hoare", "Naur", "Dahl", "Floyd", "Wirth"), ("trees", "proofs", "monitors", "graphs", "types")


def reference(k: int) -> str:
    author, word = NAMES[k % len(NAMES)], WORDS[k % len(WORDS)]
    source = f"<journal> Journal of {word}, </journal>" if k % 2 else f"<booktitle> In Proc. of {word}, </booktitle>"
    return f"<author> {author}, A. </author> <title> On {word} {k}. </title> {source} <date> {1950 + k}. </date>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("citations-cora", "citations-anystyle", "citations-parscit"):
        (tmp_path / name).mkdir()
    cora = "\n".join(f"<NEWREFERENCE>\n{reference(k)}" for k in range(30))
    (tmp_path / "citations-cora" / "tagged_references.txt").write_text(cora + "\n", encoding="utf-8")
    item = "<citation-number>[7]</citation-number> <author>Gray, J.</author> <genre>Thesis</genre> <url>x.org</url>"
    built = "".join(f"<sequence> {text} </sequence>\n" for text in [item] + [reference(k) for k in range(60, 75)])
    with gzip.open(tmp_path / "citations-anystyle" / "good.xml.gz", "wt", encoding="utf-8") as file:
        file.write(f"<dataset>\n{built}</dataset>\n")
    overlap = "file\tindex\tmatch\ngood.xml\t2\tfull\nother.xml\t0\tfull\n"
    (tmp_path / "citations-anystyle" / "cora_overlap.tsv").write_text(overlap, encoding="utf-8")
    for k, name in enumerate(("flux-cim-cs", "iconip", "en-humanities", "it-humanities", "mixed-humanities")):
        lines = "".join(f"{reference(80 + 4 * k + i)}\n" for i in range(4))
        (tmp_path / "citations-parscit" / f"{name}.tagged.txt").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_tables_are_filled(folder: Path) -> None:
    output: list[str] = []
    report = recipe_named("citations").run(Run(folder, quick=True, threads=1, say=output.append))
    assert [table.title.split(":")[0] for table in report.tables[::2]] == ["Table 3", "Table 4", "Table 4"]
    first = report.tables[0]
    names = [row.name for row in first.rows]
    assert names[: len(TABLE_3) - 1] == list(TABLE_3)[:-1] and ALL in names
    assert [cell.paper for cell in first.rows[0].cells[:7]] == list(TABLE_3[PLAIN])
    accuracy = first.rows[0].cells[6].ours
    assert isinstance(accuracy, float) and 60 < accuracy <= 100
    assert all((row.seen is None) == (row.name not in TABLE_3 or row.name == PLAIN) for row in first.rows)
    kept = json.loads(report.json())["figures"]["Cora, words only"]
    assert len(kept["figures"][ALL]["search"]) == 2
    assert output


@pytest.mark.slow
def test_the_settings_of_the_paper(folder: Path) -> None:
    report = recipe_named("citations-paper").run(Run(folder, quick=True, threads=1))
    assert [table.title.split(":")[0] for table in report.tables[:1] + report.tables[1::2]] == [
        "Table 1",
        *["Table 3"] * 2,
        *["Table 4"] * 4,
    ]
    counts = {row.name: row.cells[0].ours for row in report.tables[0].rows}
    assert counts["author"] and counts["date"] == 21
    for table in report.tables[2::2]:
        assert "A, scaled" not in table.columns
        assert all(row.cells[-1].ours == 100 for row in table.rows[1:])


def test_figures_leave_delimiters_out() -> None:
    data = delimited(Fields([{"word": ["A", ",", "b", "."]}], [["x", "x", "y", "y"]]))
    assert data.y == [["x", "d", "y", "d"]]
    result = figures(data.y, [["x", "x", "x", "d"]], ["x", "y", "d"])
    assert result["A"] == 50 and result["macro R"] == 50


def test_anystyle_is_mapped_and_has_no_rows_of_cora(folder: Path) -> None:
    result = anystyle(Run(folder), "words")
    assert len(result) == 15
    assert result.X[0]["word"] == ["Gray", "J", "Thesis", "x", "org"]
    assert result.y[0] == ["author", "author", "tech", "note", "note"]
    assert not any("1961" in x["word"] for x in result.X)  # reference(61) stands at index 2


def test_equal_references_stay_together() -> None:
    words = [["a"], ["b"], ["A"], ["c"], ["d"], ["b"], ["e"], ["f"]]
    data = Fields([{"word": w} for w in words], [["x"]] * len(words))
    for seed in range(20):
        parts = shares(data, [5, 3], seed)
        assert sorted(parts[0] + parts[1]) == list(range(8))
        for twins in ({0, 2}, {1, 5}):
            assert twins <= set(parts[0]) or twins <= set(parts[1])


def test_figures_are_the_papers() -> None:
    result = figures([["a", "a", "a", "b"], ["z"]], [["a", "a", "b", "b"], ["a"]], ["a", "b", "c"])
    assert result["macro P"] == pytest.approx(100 * (2 / 3 + 1 / 2) / 2)
    assert result["macro R"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert result["micro P"] == pytest.approx(100 * (3 * 2 / 3 + 1 / 2) / 4)
    assert result["micro R"] == pytest.approx(100 * 3 / 4)
    assert result["A"] == pytest.approx(100 * 3 / 5)


def test_missing_data_is_named(folder: Path) -> None:
    (folder / "citations-parscit" / "iconip.tagged.txt").unlink()
    with pytest.raises(FileError, match=r"iconip\.tagged\.txt is not there(.|\n)*citations-parscit.README\.md"):
        recipe_named("citations").run(Run(folder, quick=True))


def test_a_bad_list_of_overlaps_is_named(folder: Path) -> None:
    (folder / "citations-anystyle" / "cora_overlap.tsv").write_text("file\tindex\ngood.xml two\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"cora_overlap\.tsv:2"):
        anystyle(Run(folder), "words")
