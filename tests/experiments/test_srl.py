"""The recipe `srl`: propositions read as Roth & Yih label them, and the whole experiment on a made-up treebank."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bridle import Labels
from bridle.errors import FileError
from bridle.learn import violations
from experiments import Run, recipe_named
from experiments.srl import five_rules
from experiments.srl_data import ROLES, Proposition, expressible, frames, propositions

# word, part of speech, chunk, parse, lemma, roleset, arguments of each verb
GIVE = """\
{who}	NNP	B-NP	(S(NP*)	-	-	(A0*)
gave	VBD	B-VP	(VP*	give	give.01	(V*)
the	DT	B-NP	(NP*	-	-	(A1*
{what}	NN	I-NP	*)	-	-	*)
to	IN	B-PP	(PP*	-	-	(A2*
{whom}	NNP	B-NP	(NP*)))	-	-	*)
.	.	O	*)	-	-	*"""
WANT = """\
{who}	NNP	B-NP	(S(NP*)	-	-	(A0*)	(A0*)
wants	VBZ	B-VP	(VP*	want	want.01	(V*)	*
to	TO	I-VP	(S(VP*	-	-	(A1*	*
eat	VB	I-VP	(VP*	eat	eat.01	*	(V*)
{what}	NN	B-NP	(NP*)))))	-	-	*)	(A1*)
.	.	O	*)	-	-	*	*"""
SEEN = """\
{what}	NN	B-NP	(S(NP*)	-	-	(A1*)
was	VBD	B-VP	(VP*	-	-	*
seen	VBN	I-VP	(VP*))	see	see.01	(V*)
.	.	O	*)	-	-	*"""
GO = "Go\tVB\tB-VP\t(S(VP*))\tgo\tgo.01\t(V*)"
FRAMES = """\
roleset	lemma	name	alias_pos	aliases	roles	role_descriptions	propbank_versions
give.01	give	transfer	v	v:give	A0 A1 A2		3.4
want.01	want	wish	v	v:want	A0 A1		3.4
eat.01	eat	consume	v	v:eat	A0 A1		3.4
eat_out.02	eat_out	dine	v	v:eat_out	A0 A3		3.4
see.01	see	view	v	v:see	A0 A1		3.4
go.01	go	move	v	v:go	A1 A4		3.4
"""
PEOPLE, THINGS = ("Ann", "Bob", "Cid", "Dee"), ("book", "cake", "ball")


def with_tags(sentence: str) -> str:
    """The treebank's own part of speech is a column of its own."""
    rows = [line.split("\t") for line in sentence.split("\n")]
    return "\n".join("\t".join([*row[:3], row[1], *row[3:]]) for row in rows)


def treebank(count: int) -> str:
    built = []
    for k in range(count):
        pattern = (GIVE, WANT, SEEN, GO)[k % 4]
        values = {"who": PEOPLE[k % 4], "whom": PEOPLE[(k + 1) % 4], "what": THINGS[k % 3]}
        built.append(f"# sent_id={k}\n" + with_tags(pattern.format(**values)) + "\n")
    return "\n".join(built)


def packed(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    packed(tmp_path / "frames" / "rolesets.tsv.gz", FRAMES)
    for name, count in (("train", 48), ("dev", 8), ("test", 12)):
        packed(tmp_path / "srl-ewt" / f"{name}.conll.gz", treebank(count))
    return tmp_path


@pytest.mark.slow
def test_all_tables_are_filled(data: Path) -> None:
    report = recipe_named("srl").run(Run(data, quick=True, threads=1))
    titles = [table.title for table in report.tables]
    for part in ("Roth & Yih, Table 1", "Table 2: local", "Table 3: training", "Training with rules", "What each rule"):
        assert sum(part in title for title in titles) == 1
    for k in range(1, 6):
        assert sum(title.startswith(f"Tromble & Eisner, Table {k}") for title in titles) == 1
    assert "figure 6" in titles[-1]
    by_title = {table.title: table for table in report.tables}
    locals_ = by_title["Roth & Yih, Table 2: local learners, F1"]
    assert [row.name[:1] for row in locals_.rows] == ["b", "1", "2", "3", "4", "5", "a"]
    assert [cell.paper for cell in locals_.rows[5].cells] == [74.49, 72.04, 70.36, 70.67]
    agreement = by_title["Search against the others"]
    assert all(row.seen for row in agreement.rows)
    assert [row.cells[0].ours for row in agreement.rows] == [12] * 4  # of 15: "Go" cannot have an argument
    assert report.figures["decoding"]["infeasible"] == 3
    document = json.loads(report.json())
    assert document["figures"]["learners"]["VP"]["steps"]["4 + verb pos"]["f1"] > 0.9
    assert "15 propositions" in report.settings["test"]
    assert len(report.charts) == 3


@pytest.mark.parametrize("name", ["frames/rolesets.tsv.gz", "srl-ewt/test.conll.gz"])
def test_a_missing_file_is_named(data: Path, name: str) -> None:
    (data / name).unlink()
    with pytest.raises(FileError, match=f"{name} is not there.*{name.split('/')[0]}/README.md"):
        recipe_named("srl").run(Run(data, quick=True))


# ---- propositions ---------------------------------------------------------------------------------------------------


def read(folder: Path, text: str) -> list[Proposition]:
    known = frames(packed(folder / "rolesets.tsv.gz", FRAMES))
    return list(propositions(packed(folder / "some.conll.gz", text), known))


def test_units_are_chunks_with_heads(tmp_path: Path) -> None:
    [item] = read(tmp_path, with_tags(GIVE.format(who="Ann", what="book", whom="Bob")))
    assert item.x["word"] == ["Ann", "gave", "book", "to", "Bob", "."]
    assert item.y == ["A0", "O", "A1", "A2", "A2", "O"]
    assert item.x["chunk"] == ["NP", "VP", "NP", "PP", "NP", "O"]
    assert item.x["position"] == ["before", "verb", "after", "after", "after", "after"]
    assert item.x["path"][4] == "VP>NP>PP>NP"
    assert item.given["verb"] == 1
    assert item.given["candidates"] == [(0, 1), (2, 3), (3, 4), (3, 5), (4, 5), (5, 6)]  # (3, 5): the PP; its children
    assert item.given["frame"] == ["O", "A0", "A1", "A2"]
    assert expressible([item]) == 1


def test_the_verb_is_the_head_of_its_own_unit(tmp_path: Path) -> None:
    want, eat = read(tmp_path, with_tags(WANT.format(who="Ann", what="cake")))
    assert (want.x["word"][1], eat.x["word"][1]) == ("wants", "eat")
    assert (want.y, eat.y) == (["A0", "O", "A1", "O"], ["A0", "O", "A1", "O"])
    assert want.last_word == "A1"  # "wants to eat" is one chunk, and "eat" belongs to what is wanted
    assert expressible([want]) == 0.5
    assert want.x["clause"] == ["| NP", "| VP", "|S NP", "| O"]
    assert eat.x["clause"] == ["S| NP", "| VP", "| NP", "S| O"]
    assert eat.given["frame"] == ["O", "A0", "A1", "A3"]  # of all senses


def test_voice(tmp_path: Path) -> None:
    seen, gave = read(tmp_path, treebank(3))[-1], read(tmp_path, treebank(1))[0]
    assert (seen.x["voice"][0], gave.x["voice"][0]) == ("passive", "active")


def test_coordination_is_no_candidate(tmp_path: Path) -> None:
    both = "\n".join(
        [
            "Ann\tNNP\tB-NP\t(S(NP*)\t-\t-\t(A0*)\t(A0*)",
            "sang\tVBD\tB-VP\t(VP(VP*)\tsing\tsing.01\t(V*)\t*",
            "and\tCC\tO\t*\t-\t-\t*\t*",
            "went\tVBD\tB-VP\t(VP*\tgo\tgo.01\t*\t(V*)",
            "home\tNN\tB-NP\t(NP*))))\t-\t-\t*\t(A4*)",
        ]
    )
    sang, went = read(tmp_path, with_tags(both))
    assert sang.given["candidates"] == [(0, 1), (2, 3)]
    assert went.given["candidates"] == [(0, 1), (2, 3), (4, 5)]
    assert sang.given["frame"] == ["O", *ROLES]  # a verb without a frame may have all


def test_gold_keeps_the_rules_that_it_should(tmp_path: Path) -> None:
    some = read(tmp_path, treebank(4))
    labels = Labels(["O", *ROLES], scheme="IO")
    broken = violations(five_rules(ROLES), [item.y for item in some], labels, [item.given for item in some])
    assert broken.tolist() == [[0] * 5] * 4 + [[0, 0, 1, 0, 0]]  # "Go" has no argument


# ---- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n.\t.\tO\t.\t*)\t-\t-\t*", "\n.\t.\tO", ":4: a wrong number of columns; got 3; wanted 8"),
        ("(S(NP*)", "(S(NP*)))", ":1: a bracket too many"),
        ("(S(NP*)", "(S((NP*", ":1: a broken parse"),
        ("(V*)", "*)", ":3: an argument ends that did not begin"),
        ("(V*)", "(V*", ":1: an argument does not end"),
        ("see\tsee.01", "-\t-", ":1: verbs and columns of arguments do not match; got 0 verbs, 1 columns"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = with_tags(SEEN.format(what="book"))
    assert old in text
    with pytest.raises(FileError) as caught:
        read(tmp_path, text.replace(old, new))
    assert f"some.conll.gz{message}" in str(caught.value)


def test_frames_with_too_few_columns(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"f\.tsv:2: a wrong number of columns"):
        frames_file = tmp_path / "f.tsv"
        frames_file.write_text("roleset\tlemma\tname\talias_pos\taliases\troles\ngive.01\tgive\n")
        frames(frames_file)
