"""Labels, schemes and segments, against hand-written examples, conlleval's own logic and a regex per scheme."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import bridle.rules as r
from bridle import Decoder, Lattice
from bridle.errors import LabelError
from bridle.labels import UNTYPED, Labels, Segment
from bridle.report import Counts, score
from strategies import labellings, random_labels, seeds

BIO = Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
BIOES = Labels(["O", "B-X", "I-X", "E-X", "S-X", "S-Y", "I-Y"], "BIOES")
BMES = Labels(["B", "M", "E", "S"], "BMES")


@pytest.mark.parametrize(
    "labels, y, segments",
    [
        (Labels(["O", "A", "B"]), "O A A B O", "0:1 O, 1:3 A, 3:4 B, 4:5 O"),  # without a scheme O is like any other
        (Labels(["O", "A", "B"], "IO"), "O A A B O", "1:3 A, 3:4 B"),
        (Labels(["O", "A", "I-A"], "IO"), "A I-A O A", "0:2 A, 3:4 A"),
        (Labels(["N", "A"], "IO", outside="N"), "N A N", "1:2 A"),
        (Labels(["O", "A"], "IO", outside="N"), "O A", "0:1 O, 1:2 A"),
        (BIO, "B-X I-X O B-Y", "0:2 X, 3:4 Y"),
        (BIO, "B-X B-X I-X", "0:1 X, 1:3 X"),
        (BIO, "O I-X I-X", "1:3 X"),  # begun out of place
        (BIO, "B-X I-Y I-Y", "0:1 X, 1:3 Y"),
        (BIO, "I-X I-X B-X", "0:2 X, 2:3 X"),
        (BIO, "", ""),
        (Labels(["O", "B", "I"], "BIO"), "B I O I", f"0:2 {UNTYPED}, 3:4 {UNTYPED}"),
        (BIOES, "B-X I-X E-X S-X O", "0:3 X, 3:4 X"),
        (BIOES, "S-X S-X S-Y", "0:1 X, 1:2 X, 2:3 Y"),
        (BIOES, "E-X E-X I-X", "0:1 X, 1:2 X, 2:3 X"),
        (BIOES, "B-X I-X O I-X E-X", "0:2 X, 3:5 X"),
        (BIOES, "S-X I-X E-X", "0:1 X, 1:3 X"),
        (BIOES, "B-X I-Y E-X", "0:1 X, 1:2 Y, 2:3 X"),
        (BMES, "B M E S B E", f"0:3 {UNTYPED}, 3:4 {UNTYPED}, 4:6 {UNTYPED}"),
        (BMES, "M M S", f"0:2 {UNTYPED}, 2:3 {UNTYPED}"),
        (Labels(["O", "B-X-Y", "I-X-Y"], "BIO"), "B-X-Y I-X-Y", "0:2 X-Y"),
    ],
)
def test_segments_by_example(labels: Labels, y: str, segments: str) -> None:
    wanted = [Segment(int(a), int(b), kind) for a, b, kind in re.findall(r"(\d+):(\d+) ([^,]+)", segments)]
    assert labels.segments(y.split()) == wanted
    assert labels.segments(labels.ids(y.split())) == wanted


@pytest.mark.parametrize(
    "names, scheme",
    [
        (["O", "B-X", "I-X"], "BIO"),
        (["O", "B-X", "I-X", "E-X", "S-X"], "BIOES"),
        (["B", "M", "E", "S"], "BMES"),
        (["O", "B", "I"], "BIO"),
        (["O", "I-X", "I-Y"], "IO"),
        (["O", "S"], None),  # S may be a name
        (["O", "X"], None),
        (["O", "B-X", "<pad>"], None),
        (["NN", "B-X"], None),
    ],
)
def test_labels_find_their_scheme(names: list[str], scheme: str | None) -> None:
    labels = Labels(names)
    assert labels.scheme == scheme and f"scheme={scheme!r}" in repr(labels)
    assert Labels(names, None).scheme is None
    assert pickle.loads(pickle.dumps(labels)) == labels


def test_rules_speak_of_types_without_a_scheme_being_named() -> None:
    labels = ["O", "B-X", "I-X"]
    decoder = Decoder(labels, ["at most 1 segment of X"])
    assert decoder.decode(Lattice([[0, 2, 0], [1, 0, 0], [0, 1.5, 0]])).labels == ["B-X", "O", "O"]
    with pytest.raises(LabelError, match=r"It is a segment type under BIO: pass scheme='BIO' to Labels"):
        Decoder(Labels(labels, None), ["at most 1 segment of X"])
    with pytest.raises(LabelError, match=r"pass scheme='BIO', outside=\['O', '<pad>'\] to Labels"):
        Labels([*labels, "<pad>"]).matching("X")
    with pytest.raises(LabelError, match=r"or outside=\['O', '<pad>'\] if this one is for tokens outside"):
        Labels([*labels, "<pad>"], "BIO")


def test_several_labels_may_be_outside() -> None:
    labels = Labels(["O", "B-X", "I-X", "<pad>"], outside=["O", "<pad>"])
    assert (labels.scheme, labels.outside, labels.all_outside) == ("BIO", "O", ("O", "<pad>"))
    assert labels.types == {"X"} and labels.matching("X") == {1, 2} and labels.matching("<pad>") == {3}
    assert labels.segments(["B-X", "<pad>", "O", "I-X"]) == [Segment(0, 1, "X"), Segment(3, 4, "X")]
    assert pickle.loads(pickle.dumps(labels)) == labels != Labels(labels.names, None)
    steps, first, last = labels.allowed
    assert steps[3].tolist() == steps[0].tolist() and first[3] and last[3]
    assert score([["<pad>", "B-X"]], [["O", "B-X"]], "BIO", outside=labels.all_outside).segments.f1 == 1
    assert score([["N", "B-X"]], [["N", "B-X"]], outside="N").segments == Counts(1, 1, 1)
    for bad in ([], [1]):
        with pytest.raises(LabelError, match="`outside` is not a label"):
            Labels(["O"], outside=bad)  # type: ignore[arg-type]


def conlleval(tags: list[tuple[str, str]]) -> list[Segment]:
    """startOfChunk and endOfChunk of conlleval (with S, as its later versions have it; M is an I)."""
    result, begin = [], None
    before, kind_before = "O", ""
    for t, (tag, kind) in enumerate([*tags, ("O", "")]):
        ends = before in "ES" or (before in "BI" and tag in "BSO") or (before != "O" and kind_before != kind)
        starts = tag in "BS" or (before in "ESO" and tag in "EI") or (tag != "O" and kind_before != kind)
        if begin is not None and ends:
            result.append(Segment(begin, t, kind_before))
            begin = None
        if starts:
            begin = t
        before, kind_before = tag, kind
    return result


def _tag(labels: Labels, y: int) -> tuple[str, str]:
    """Read from the name alone."""
    name = labels.names[y]
    if name == "O":
        return "O", ""
    tag, dash, kind = name.partition("-")
    if labels.scheme == "IO":
        return "I", kind if dash else name
    return "I" if tag == "M" else tag, kind if dash else UNTYPED


def test_segments_are_those_of_conlleval() -> None:
    for rng in seeds(60):
        labels = random_labels(rng)
        if labels.scheme is None:
            continue
        for n in range(5):
            for y in labellings(n, len(labels)):
                assert labels.segments(y) == conlleval([_tag(labels, i) for i in y]), (labels, y)


def test_segments_cover_all_but_the_outside() -> None:
    for rng in seeds(40, key=1):
        labels = random_labels(rng)
        for y in labellings(4, len(labels)):
            covered = [t for s in labels.segments(y) for t in range(s.start, s.end)]
            assert covered == [t for t in range(4) if labels.tag_of[y[t]]]
            starts = {s.start for s in labels.segments(y)}
            assert starts == {
                t for t in range(4) if labels.tag_of[y[t]] and labels.begins[y[t - 1] if t else len(labels), y[t]]
            }


def grammar(labels: Labels) -> re.Pattern[str]:
    """The scheme as an expression over one letter per label."""
    letter = {name: chr(ord("a") + i) for i, name in enumerate(labels.names)}
    never = "(?!)"

    def of(tag: str, kind: str) -> str:
        return letter.get(f"{tag}-{kind}") or letter.get(tag if kind == UNTYPED else "") or never

    words = [letter.get("O", never)]
    for kind in sorted(labels.types):
        middle = "M" if labels.scheme == "BMES" else "I"
        if labels.scheme == "BIO":
            words.append(f"{of('B', kind)}(?:{of('I', kind)})*")
        else:
            words += [of("S", kind), f"{of('B', kind)}(?:{of(middle, kind)})*{of('E', kind)}"]
    return re.compile(f"(?:{'|'.join(words)})*")


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "BMES"])
def test_well_formed_is_the_grammar_of_the_scheme(scheme: Any) -> None:
    sets = [labels for rng in seeds(150, key=2) if (labels := random_labels(rng)).scheme == scheme]
    assert len(sets) > 10
    for labels in [*sets, *(x for x in (BIO, BMES) if x.scheme == scheme)]:
        wanted = grammar(labels)
        for n in range(5):
            for y in labellings(n, len(labels)):
                text = "".join(chr(ord("a") + i) for i in y)
                assert r.well_formed().holds(y, labels) == (wanted.fullmatch(text) is not None), (labels, y)


def test_allowed_by_example() -> None:
    step, first, last = BIO.allowed
    assert first.tolist() == [True, True, False, True, False]
    assert last.tolist() == [True] * 5
    assert {(BIO.names[i], BIO.names[j]) for i, j in np.argwhere(~step)} == {
        ("O", "I-X"),
        ("O", "I-Y"),
        ("B-X", "I-Y"),
        ("I-X", "I-Y"),
        ("B-Y", "I-X"),
        ("I-Y", "I-X"),
    }
    step, first, last = BMES.allowed
    assert first.tolist() == [True, False, False, True]
    assert last.tolist() == [False, False, True, True]
    assert step.astype(int).tolist() == [[0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1]]
    for free in (Labels(["O", "A"]), Labels(["O", "A"], "IO")):
        assert all(table.all() for table in free.allowed)


def test_same_type() -> None:
    same = BIO.same_type
    assert {(BIO.names[i], BIO.names[j]) for i, j in np.argwhere(same) if i < j} == {("B-X", "I-X"), ("B-Y", "I-Y")}
    assert same.diagonal().all() and (same == same.T).all()
    odd = Labels(["O", "I-O"], "IO")  # a type that is called like the outside label is another type
    assert odd.same_type.tolist() == [[True, False], [False, True]]
    assert odd.begins.tolist() == [[False, True], [True, False], [True, True]]


def test_begins_in_all_its_forms() -> None:
    for rng in seeds(60, key=12):
        labels = random_labels(rng)
        before, ids = np.indices(labels.begins.shape)
        assert (labels.starts(before, ids) == labels.begins).all() and labels.begins[-1].all()
        m = range(len(labels))
        assert [[labels.begins_at(i, j) for j in m] for i in m] == labels.begins[:-1].tolist()
        assert [[labels.kinds[i] == labels.kinds[j] for j in m] for i in m] == labels.same_type.tolist()
        assert sorted(y for its in labels.by_kind for y in its) == list(m)


def test_names_and_ids() -> None:
    assert len(BIO) == 5 and list(BIO) == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    assert BIO.id("I-X") == 2
    ways: list[Any] = [["O", "I-Y"], [0, 4], np.array([0, 4]), np.array([0, 4], dtype=np.uint8), ("O", 4)]
    for y in [*ways, np.array(["O", "I-Y"])]:
        ids = BIO.ids(y)
        assert ids.tolist() == [0, 4] and ids.dtype == np.intp
    assert BIO.ids([]).tolist() == []
    assert BIO.matching("X") == {1, 2} and BIO.matching("B-X") == {1} and BIO.matching("O") == {0}
    assert BIO.types == {"X", "Y"} and BIO.tag_of == ("", "B", "I", "B", "I") and BIO.type_of[3] == "Y"
    assert Labels(["A", "I-A", "O"], "IO").matching("I-A") == {1}


def test_labels_are_values() -> None:
    assert Labels(["O", "A"]) == Labels(("O", "A")) and hash(Labels(["O", "A"])) == hash(Labels(["O", "A"]))
    assert Labels(["O", "A"]) != Labels(["A", "O"])
    assert Labels(["O", "A"]) != Labels(["O", "A"], "IO") != Labels(["O", "A"], "IO", outside="A")
    assert Labels(["O", "A"]) != ["O", "A"]
    assert eval(repr(BIO)) == BIO
    names = ["O", "A"]
    labels = Labels(names)
    names.append("B")
    assert len(labels) == 2


BAD: list[tuple[Any, str]] = [
    (lambda: Labels([]), "empty"),
    (lambda: Labels(None), "list of names"),  # type: ignore[arg-type]
    (lambda: Labels(["A", ""]), "not a name"),
    (lambda: Labels(["A", 3]), "not a name"),  # type: ignore[list-item]
    (lambda: Labels(["A", "B", "A"]), "repeat; got A"),
    (lambda: Labels("O,A,B"), "not a list of names; got 'O,A,B'"),
    (lambda: Labels(["A"], "BILOU"), "scheme"),  # type: ignore[arg-type]
    (lambda: Labels(["A"], ["BIO"]), "scheme"),  # type: ignore[arg-type]
    (lambda: Labels(["O", "X"], "BIO"), "'X'"),
    (lambda: Labels(["O", "E-X"], "BIO"), "'E-X'"),
    (lambda: Labels(["O", "BI-X"], "BIO"), "'BI-X'"),  # B and I are tags, BI is none
    (lambda: Labels(["O", "-X"], "BIO"), "'-X'"),
    (lambda: Labels(["IE"], "BIOES"), "'IE'"),
    (lambda: Labels(["B-X", "I-X"], "BMES"), "'I-X'"),
    (lambda: BIO.id("Z"), "'Z'"),
    (lambda: BIO.id(["O"]), "unknown label"),  # type: ignore[arg-type]
    (lambda: BIO.ids(["O", "X"]), "'X'"),  # a type is no label of a token
    (lambda: BIO.ids([0, 5]), "got 5"),
    (lambda: BIO.ids([0, -1]), "got -1"),
    (lambda: BIO.ids(np.array([7, 0])), "7"),
    (lambda: BIO.ids([0.5]), "0.5"),  # type: ignore[list-item]
    (lambda: BIO.ids([None]), "None"),  # type: ignore[list-item]
    (lambda: BIO.ids([10**30]), "1000"),
    (lambda: BIO.ids(np.zeros((2, 2), dtype=int)), "unknown label"),
    (lambda: BIO.matching("Z"), "a type among X, Y"),
    (lambda: BIO.matching(3), "got 3"),  # type: ignore[arg-type]
    (lambda: BIO.segments(["B-Z"]), "'B-Z'"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_labels_are_typed_errors(case: int) -> None:
    make, text = BAD[case]
    with pytest.raises(LabelError, match=re.escape(text)) as caught:
        make()
    error = caught.value
    assert error.what and error.got is not None and error.wanted is not None
