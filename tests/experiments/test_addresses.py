"""The recipe `addresses` on a few addresses made up here."""

import gzip
from pathlib import Path

import pytest

from bridle import FileError
from experiments import Run, recipe_named
from experiments.addresses import TABLE_5, us50

STREETS, CITIES = ("Elm", "Oak", "Lake", "Hill", "Mill"), ("Salem", "Dover", "Bath", "Troy")


def address(k: int) -> str:
    street, city = STREETS[k % 5], CITIES[k % 4]
    return f"{100 + 7 * k} |1\n{street} |3\nRoad, |4\n{city}, |5\nME |6\n{10000 + 13 * k} |7\n\n"


def tagged(k: int) -> str:
    parts = {"AddressNumber": str(k + 1), "StreetName": STREETS[k % 5], "PlaceName": CITIES[k % 4], "StateName": "ME"}
    return f"<AddressString>{' '.join(f'<{name}>{text}</{name}>' for name, text in parts.items())}</AddressString>\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("addresses-us50", "addresses-usaddress"):
        (tmp_path / name).mkdir()
    for part, numbers in (("train", range(20)), ("test", range(19, 30))):
        text = "".join(map(address, numbers)) + ("PO Box 7 |2\nBath, |5\nME |6\n04530 |7\n\n" if part == "test" else "")
        (tmp_path / "addresses-us50" / f"us50.{part}.tagged").write_text(text, encoding="utf-8")
        with gzip.open(tmp_path / "addresses-usaddress" / f"{part}_labeled.xml.gz", "wt", encoding="utf-8") as file:
            file.write(f"<AddressCollection>\n{''.join(map(tagged, numbers))}</AddressCollection>\n")
    return tmp_path


@pytest.mark.slow
def test_tables_are_filled(folder: Path) -> None:
    output: list[str] = []
    report = recipe_named("addresses").run(Run(folder, quick=True, threads=1, say=output.append))
    counts, *tables = report.tables
    assert {row.name: row.cells[0].ours for row in counts.rows}["Street"] == 40
    assert [table.title for table in tables[::2]] == ["Table 5: US50, words only", "usaddress"]
    assert "20 addresses for training, 11 for testing" in output[0]  # one of 12 is in training too
    first = tables[0]
    assert [row.name for row in first.rows[:7]] == list(TABLE_5)
    assert [cell.paper for cell in first.rows[6].cells[:7]] == list(TABLE_5["All Constraints"])
    accuracy, recall = first.rows[0].cells[6].ours, first.rows[0].cells[4].ours
    assert isinstance(accuracy, float) and isinstance(recall, float)
    assert accuracy < recall  # the box is unknown: wrong in A, in no average over labels
    assert not [row for row in tables[2].rows if row.seen is not None]
    assert all(chart.series for chart in report.charts)


def test_labels_are_those_of_the_paper(folder: Path) -> None:
    result = us50(Run(folder), "train", "words")
    assert result.X[0]["word"] == ["100", "Elm", "Road", "Salem", "ME", "10000"]
    assert result.y[0] == ["Civic Number", "Street", "Street", "City", "State", "Zip Code"]


def test_unknown_labels_are_told(folder: Path) -> None:
    (folder / "addresses-us50" / "us50.train.tagged").write_text("Elm |9\n\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"us50\.train\.tagged: unknown labels"):
        recipe_named("addresses").run(Run(folder, quick=True))


def test_missing_data_is_named(folder: Path) -> None:
    (folder / "addresses-us50" / "us50.test.tagged").unlink()
    with pytest.raises(FileError, match=r"us50\.test\.tagged is not there(.|\n)*addresses-us50.README\.md"):
        recipe_named("addresses").run(Run(folder, quick=True))
