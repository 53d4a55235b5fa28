"""The recipe `pos` on sentences made for the test."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bridle.errors import FileError
from experiments import Run, recipe_named
from experiments.pos import ALL, ALL_CHOSEN, CHOICES, CHOSEN, NEAR, PLANS
from experiments.pos_peers import strings
from experiments.tables import Report

SENTENCES = [
    [("the", "DT"), ("old", "JJ"), ("dog", "NN"), ("sleeps", "VBZ"), (".", ".")],
    [("a", "DT"), ("cat", "NN"), ("sees", "VBZ"), ("the", "DT"), ("dog", "NN"), (".", ".")],
    [("she", "PRP"), ("automata", "VBZ"), ("to", "TO"), ("the", "DT"), ("house", "NN"), (".", ".")],
    [("the", "DT"), ("automata", "NNS"), ("tire", "VBP"), ("old", "JJ"), ("dogs", "NNS"), (".", ".")],
]
PARTS = {"train": 15, "dev": 3, "test": 3}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return _written(tmp_path)


def _written(tmp_path: Path) -> Path:
    (tmp_path / "pos-ewt").mkdir()
    (tmp_path / "pos-ptb-sample").mkdir()
    for part, times in PARTS.items():
        lines = []
        for sentence in SENTENCES * times:
            lines += [f"{k}\t{w}\t{w}\tX\t{t}\t_\t_\t_\t_\t_" for k, (w, t) in enumerate(sentence, 1)] + [""]
        with gzip.open(tmp_path / "pos-ewt" / f"en_ewt-ud-{part}.conllu.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    with gzip.open(tmp_path / "pos-ptb-sample" / "wsj_0001-0199.pos.gz", "wt", encoding="utf-8") as file:
        for document in range(40):
            for k, sentence in enumerate(SENTENCES):
                file.write(f"# doc=wsj_{document} sent={k}\n" + "".join(f"{w}\t{t}\n" for w, t in sentence) + "\n")
    return tmp_path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    data = _written(tmp_path_factory.mktemp("data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.pos.PEERS", {"no such tagger": _missing})
        return recipe_named("pos").run(Run(data, quick=True, threads=1))


def _missing(*_: object) -> object:
    raise ImportError


def test_all_tables_are_there(report: Report) -> None:
    titles = [table.title for table in report.tables]
    assert len(titles) == len(set(titles)) == 12
    for corpus in ("pos-ewt", "pos-ptb-sample"):
        assert [t.split(",")[0] for t in titles if corpus in t][:4] == ["Table 6", "Table 7", "Table 9", "Table 9"]
    json.loads(report.json())
    assert "## Settings" in report.markdown()


def test_sentences_seen_in_training_are_tagged_rightly(report: Report) -> None:
    table = next(t for t in report.tables if t.title.startswith("Table 9, pos-ewt, test: accuracy"))
    for row in table.rows:
        assert row.cells[1].ours == pytest.approx(100.0), row.name


def test_both_ways_to_train_are_compared(report: Report) -> None:
    for corpus in ("pos-ewt", "pos-ptb-sample"):
        for what in ("accuracy", "speed"):
            table = next(t for t in report.tables if t.title.startswith(f"Table 9, {corpus}, test: {what}"))
            assert [row.name for row in table.rows[:2]] == ["raw", "constrained"]
            assert [row.name for row in table.rows[-3:]] == [CHOSEN, ALL, ALL_CHOSEN]
        figures = report.figures[corpus]
        assert figures["chosen"].keys() == {CHOSEN, ALL_CHOSEN}


def test_the_choice_is_what_decides_the_most_among_the_accurate(report: Report) -> None:
    figures = report.figures["pos-ewt"]
    for name, tried in figures["choices on dev: accuracy, share decided"].items():
        assert len(tried) == len(CHOICES)
        accuracy, share = tried[str(tuple(figures["chosen"][name].values()))]
        assert accuracy >= max(a for a, _ in tried.values()) - NEAR / 2
        assert all(a < accuracy or s <= share for a, s in tried.values())


def test_rules_alone_are_never_wrong_on_what_they_were_learned_from(report: Report) -> None:
    table = next(t for t in report.tables if t.title.startswith("Table 6, pos-ewt"))
    for row in table.rows:
        precision, recall = row.cells[0].ours, row.cells[1].ours
        assert precision == 1.0
        assert isinstance(recall, float) and 0 < recall <= 1


def test_times_add_up(report: Report) -> None:
    for by in report.figures["pos-ewt"]["seconds"].values():
        for parts in by.values():
            steps = sum(parts[name] for name in ("lookup", "rules", "encode"))
            assert parts["whole"] > 0
            assert parts["search"] == pytest.approx(max(parts["whole"] - steps, 1e-9))


def test_brown_is_split_by_texts_and_its_tags_lose_suffixes(tmp_path: Path) -> None:
    (tmp_path / "pos-brown").mkdir()
    with gzip.open(tmp_path / "pos-brown" / "brown.pos.gz", "wt", encoding="utf-8") as file:
        for document in range(200):
            for k, sentence in enumerate(SENTENCES):
                lines = "".join(f"{w}\t{t}{'-tl' if t == 'NN' else '-hl' * (k == 0)}\n" for w, t in sentence)
                file.write(f"# doc=ca{document} cat=news sent={k}\n{lines}\n")
    report = recipe_named("pos-brown").run(Run(tmp_path, quick=True, threads=1))
    tags = {tag for sentence in SENTENCES for _, tag in sentence}
    tokens = sum(map(len, SENTENCES))
    assert report.settings["pos-brown"] == f"train {18 * tokens}, dev {tokens}, test {tokens} tokens, {len(tags)} tags"
    assert [table.title.split(",")[0] for table in report.tables][:4] == ["Table 6", "Table 7", "Table 9", "Table 9"]
    assert [row.name for row in report.tables[2].rows] == list(PLANS)


def test_peers_that_are_not_there_are_left_out_and_named(report: Report) -> None:
    table = next(t for t in report.tables if t.title.startswith("Beside others, pos-ewt"))
    assert len(table.rows) == 2
    assert "no such tagger" in table.analysis


def test_missing_file_is_named(data: Path) -> None:
    (data / "pos-ewt" / "en_ewt-ud-dev.conllu.gz").unlink()
    with pytest.raises(FileError, match=r"en_ewt-ud-dev\.conllu\.gz is not there; wanted .*pos-ewt.README\.md"):
        recipe_named("pos").run(Run(data, quick=True))


def test_too_few_documents(data: Path) -> None:
    with gzip.open(data / "pos-ptb-sample" / "wsj_0001-0199.pos.gz", "wt", encoding="utf-8") as file:
        file.write("# doc=wsj_1 sent=0\nthe\tDT\ndog\tNN\n")
    with pytest.raises(FileError, match="too few documents"):
        recipe_named("pos").run(Run(data, quick=True, threads=1))


def test_strings_for_crfsuite() -> None:
    first = strings(["F-16", "flies"])[0]
    assert {"0=F-16", "-1=<s>", "1=flies", "2=</s>", "p1=F", "s2=16", "digit", "upper", "hyphen"} <= set(first)
