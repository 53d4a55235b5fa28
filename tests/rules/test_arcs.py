"""Rules that are automata of the user's own: what they mean, the text format, files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.errors import FileError, LabelError, RuleError, RuleSyntaxError
from bridle.rules.arcs import LARGEST

PLAIN = Labels(["O", "A", "B"])
BIO = Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
ARCS = "0 0 ?; 0 1 A; 1 1 A; 1 1 O 2; 0; 1 1"


@pytest.mark.parametrize(
    ("labelling", "wanted"),
    [("", 0), ("O B", 0), ("A", 1), ("A A", 1), ("A O", 3), ("A B", 1), ("A B O O", 1), ("A O B", 3), ("O A O O", 5)],
)
def test_weights_and_missing_arcs_are_violations(labelling: str, wanted: int) -> None:
    """A missing arc is one violation more, and nothing behind it counts."""
    assert r.automaton(ARCS).violations(labelling.split(), PLAIN) == wanted


def test_ends_that_are_not_final_are_violations() -> None:
    rule = r.automaton("0 1 A; 1 0 A; 1")
    assert [rule.violations(["A"] * n, PLAIN) for n in range(4)] == [1, 0, 1, 0]


def test_the_first_line_begins_in_the_start_state() -> None:
    assert r.automaton("7 3 A; 3").holds(["A"], PLAIN)
    assert r.automaton("5").holds([], PLAIN) and not r.automaton("5").holds(["A"], PLAIN)


def test_names_are_labels_or_segment_types() -> None:
    rule = r.automaton("0 1 X; 1 1 I-X; 1 2 B-Y; 2")
    assert rule.holds(["B-X", "I-X", "B-Y"], BIO) and rule.holds(["I-X", "B-Y"], BIO)
    assert not rule.holds(["B-Y"], BIO) and not rule.holds(["B-X", "B-X", "B-Y"], BIO)
    with pytest.raises(LabelError, match="'Z'"):
        r.automaton("0 1 Z; 1").holds(["B-X"], BIO)


def test_overlapping_names_are_not_deterministic() -> None:
    rule = r.automaton("0 0 X; 0 1 B-X; 1")
    with pytest.raises(RuleError, match="two arcs from state 0 read B-X"):
        Decoder(BIO, [rule])
    assert r.automaton("0 1 X; 0 1 B-X; 1").holds(["B-X"], BIO)  # both go to the same state


def test_line_ends_and_semicolons_are_the_same() -> None:
    rule = r.automaton("0 0 ?\n0\t1\tA\r\n\n1 1 A 0\n0\n1\n")
    assert rule == r.automaton("0 0 ?; 0 1 A; 1 1 A; 0; 1") == r.parse(str(rule))
    assert str(rule) == 'automaton "0 0 ?; 0 1 A; 1 1 A; 0; 1"'


def test_labels_may_have_semicolons_and_quotation_marks() -> None:
    labels = Labels(["a;b", 'c"d'])
    rule = r.automaton('0 1 a;b\n1 1 c"d\n1')
    assert r.parse(str(rule)) == rule
    assert rule.holds(["a;b", 'c"d'], labels) and not rule.holds(['c"d'], labels)


def test_files_are_read_with_the_rules(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "arcs.txt").write_text("0\t0\t?\n0\t1\tA\n1\t1\tA\n0\n1\n", encoding="utf-8")
    (tmp_path / "my.rules").write_text('automaton from "sub/arcs.txt"  [penalty 2.0 per violation]\n', encoding="utf-8")
    [rule] = r.load(tmp_path / "my.rules")
    assert rule == r.automaton(folder / "arcs.txt").soft(2, per="violation")
    assert r.parse(str(rule)) == rule
    assert r.parse('automaton from "arcs.txt"', folder=folder) == r.automaton(folder / "arcs.txt")
    with pytest.raises(RuleError, match="files are not read here"):
        r.parse('automaton from "arcs.txt"')


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "arcs.txt").write_text("0 1 A\n1 1\n1 x A\n", encoding="utf-8")
    (tmp_path / "large.txt").write_text("0 0 A\n" * (LARGEST // 6 + 1), encoding="utf-8")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe0\x00")
    (tmp_path / "my.rules").write_text('present A\nautomaton from "arcs.txt"\n', encoding="utf-8")
    with pytest.raises(RuleSyntaxError, match=r"my\.rules:2: line 3 of the automaton 'arcs\.txt'"):
        r.load(tmp_path / "my.rules")
    with pytest.raises(RuleError, match="too large"):
        r.automaton(tmp_path / "large.txt")
    for name in ("binary.txt", "none.txt"):
        with pytest.raises(FileError, match="cannot read the automaton"):
            r.automaton(tmp_path / name)


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ("", "no final state"),
        ("0 1 A", "no final state"),
        ("0 1 A; 0 2 A; 1", "line 2 of the automaton: a second arc from state 0 with A"),
        ("0 1 A; 1; 1 2", "line 3 of the automaton: state 1 is final twice"),
        ("0 1 A 0.5; 1", "round them"),
        ("0 1 A; 1 -2", "neither an arc nor a final state"),
        ("0 1 a a b; 1", "acceptor"),
        ("0 1 <eps>; 1", "Remove epsilons"),
        ("0 one A; 1", "states and weights are integers"),
        (3, "a text or a file"),
    ],
)
def test_bad_automata_are_refused(arcs: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        r.automaton(arcs)


def test_labels_called_automaton_mean_what_they_did() -> None:
    assert r.parse("automaton before A") == r.before("automaton", "A")
    assert r.parse(str(r.present("automaton"))) == r.present("automaton")


@pytest.mark.parametrize("engine", ["search", "product", "lazy_intersection", "ilp", "beam:width=50"])
def test_soft_weights_cost_their_number(engine: str) -> None:
    """Two As in a row cost 2 x 0.6; one of them is worth 1."""
    rule = r.automaton("0 0 O; 0 1 A; 1 0 O; 1 1 A 2; 0; 1")
    per = "sequence" if engine == "lazy_intersection" else "violation"
    d = Decoder(["O", "A"], [rule.soft(0.6, per=per)], engine).decode(Lattice([[0, 1], [0, 1], [0, 1]]))
    assert d.score == pytest.approx(2.4 if per == "sequence" else 2.0)
    assert d.labels == (["A", "A", "A"] if per == "sequence" else ["A", "O", "A"])
