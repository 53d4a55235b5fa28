"""Scores against conlleval (written down once more, line by line), examples worked by hand, and Labels."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import LabelError
from bridle.labels import UNTYPED, Scheme
from bridle.report import scoring, segment_f1, sequence_accuracy, token_accuracy
from bridle.report.metrics import Counts, Scores, macro, micro
from bridle.report.scoring import score
from strategies import random_labels, seeds

Pair = tuple[list[str], list[str]]  # gold, guessed


# ---- conlleval ------------------------------------------------------------------------------------------------------


def end_of_chunk(prev_tag: str, tag: str, prev_type: str, type_: str) -> bool:
    """As the script has it, with its double lines, and without its brackets."""
    end = False
    if prev_tag == "B" and tag == "B":
        end = True
    if prev_tag == "B" and tag == "O":
        end = True
    if prev_tag == "I" and tag == "B":
        end = True
    if prev_tag == "I" and tag == "O":
        end = True
    if prev_tag == "E" and tag == "E":
        end = True
    if prev_tag == "E" and tag == "I":
        end = True
    if prev_tag == "E" and tag == "O":
        end = True
    if prev_tag != "O" and prev_type != type_:
        end = True
    return end


def start_of_chunk(prev_tag: str, tag: str, prev_type: str, type_: str) -> bool:
    start = False
    if prev_tag == "B" and tag == "B":
        start = True
    if prev_tag == "I" and tag == "B":
        start = True
    if prev_tag == "O" and tag == "B":
        start = True
    if prev_tag == "O" and tag == "I":
        start = True
    if prev_tag == "E" and tag == "E":
        start = True
    if prev_tag == "E" and tag == "I":
        start = True
    if prev_tag == "O" and tag == "E":
        start = True
    if tag != "O" and prev_type != type_:
        start = True
    return start


def conlleval(pairs: list[Pair]) -> list[str]:
    """Return the output of the script. Its variables keep their names."""
    correct_chunk, found_correct, found_guessed = Counter[str](), Counter[str](), Counter[str]()
    correct_tags = token_counter = 0
    in_correct = False
    last_correct = last_guessed = "O"
    last_correct_type = last_guessed_type = ""
    lines = [line for gold, guess in pairs for line in [*zip(gold, guess, strict=True), None]]
    for line in lines:
        correct_, guessed_ = line or ("O", "O")
        correct, _, correct_type = correct_.partition("-")
        guessed, _, guessed_type = guessed_.partition("-")
        ends = (
            end_of_chunk(last_correct, correct, last_correct_type, correct_type),
            end_of_chunk(last_guessed, guessed, last_guessed_type, guessed_type),
        )
        starts = (
            start_of_chunk(last_correct, correct, last_correct_type, correct_type),
            start_of_chunk(last_guessed, guessed, last_guessed_type, guessed_type),
        )
        if in_correct:
            if all(ends) and last_guessed_type == last_correct_type:
                in_correct = False
                correct_chunk[last_correct_type] += 1
            elif ends[0] != ends[1] or guessed_type != correct_type:
                in_correct = False
        if all(starts) and guessed_type == correct_type:
            in_correct = True
        found_correct[correct_type] += starts[0]
        found_guessed[guessed_type] += starts[1]
        if line is not None:
            correct_tags += correct == guessed and guessed_type == correct_type
            token_counter += 1
        last_guessed, last_correct = guessed, correct
        last_guessed_type, last_correct_type = guessed_type, correct_type
    if in_correct:
        correct_chunk[last_correct_type] += 1

    def percent(correct: int, guessed: int, gold: int) -> str:
        precision = 100 * correct / guessed if guessed > 0 else 0.0
        recall = 100 * correct / gold if gold > 0 else 0.0
        fb1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
        return "precision: %6.2f%%; recall: %6.2f%%; FB1: %6.2f" % (precision, recall, fb1)  # noqa: UP031

    totals = correct_chunk.total(), found_guessed.total(), found_correct.total()
    text = [
        f"processed {token_counter} tokens with {totals[2]} phrases; found: {totals[1]} phrases; correct: {totals[0]}."
    ]
    if token_counter > 0:
        text.append("accuracy: %6.2f%%; " % (100 * correct_tags / token_counter) + percent(*totals))
    for i in sorted({k for result in (found_correct, found_guessed) for k, n in result.items() if n}):
        numbers = percent(correct_chunk[i], found_guessed[i], found_correct[i])
        text.append("%17s: %s  %d" % (i, numbers, found_guessed[i]))  # noqa: UP031
    return text


def pairs_of(names: str) -> st.SearchStrategy[list[Pair]]:
    """A few sequences, the guess mostly near gold, so that segments are correct often enough."""
    label = st.sampled_from(names.split())
    token = st.tuples(label, st.one_of(st.none(), st.none(), label)).map(lambda p: (p[0], p[1] or p[0]))
    item = st.lists(token, max_size=8).map(lambda ts: ([a for a, _ in ts], [b for _, b in ts]))
    return st.lists(item, max_size=5)


def scored(pairs: list[Pair], scheme: str | None = "auto") -> Scores:
    return score((a for a, _ in pairs), (b for _, b in pairs), scheme)


@pytest.mark.parametrize("names", ["O B-X I-X B-Y I-Y", "O I-X I-Y I-X-Y", "O I-X E-X I-Y E-Y", "O B I B-X"])
def test_reports_are_those_of_conlleval(names: str) -> None:
    @given(pairs_of(names))
    def agrees(pairs: list[Pair]) -> None:
        result = scored(pairs)
        assert result.lines() == conlleval(pairs)
        assert result.scheme == "prefixes"

    agrees()


def test_the_extension_of_conlleval_is_what_it_says() -> None:
    """S is a B and an E at once, M an I; and E before B, which conlleval's own schemes cannot have, is a cut."""

    @given(pairs_of("O B-X I-X M-X E-X S-X B-Y E-Y S-Y"))
    def agrees(pairs: list[Pair]) -> None:
        def plain(labels: list[str]) -> list[str]:
            """Return the segments in BIO."""
            out, before = [], "O"
            for label in labels:
                fresh = label[0] in "BS" or before[0] in "ESO" or before[2:] != label[2:]
                out.append("O" if label == "O" else ("B" if fresh else "I") + label[1:])
                before = label
            return out

        result, wanted = scored(pairs), scored([(plain(a), plain(b)) for a, b in pairs], "BIO")
        assert result.by_type == wanted.by_type

    agrees()


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_worked_by_hand() -> None:
    gold = [["B-NP", "I-NP", "O", "B-VP", "B-NP"], ["B-PP", "B-NP", "I-NP"], []]
    guess = [["B-NP", "I-NP", "O", "B-VP", "I-NP"], ["B-PP", "B-NP", "O"], []]
    s = score(gold, guess)
    # gold: NP 0-2, VP 3-4, NP 4-5; PP 0-1, NP 1-3.   guess: NP 0-2, VP 3-4, NP 4-5 (I begins it); PP 0-1, NP 1-2
    assert s.lines() == [
        "processed 8 tokens with 5 phrases; found: 5 phrases; correct: 4.",
        "accuracy:  75.00%; precision:  80.00%; recall:  80.00%; FB1:  80.00",
        "               NP: precision:  66.67%; recall:  66.67%; FB1:  66.67  3",
        "               PP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
        "               VP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
    ]
    assert (s.tokens, s.correct_tokens, s.accuracy, s.sequences, s.exact_sequences) == (8, 6, 0.75, 3, 1)
    assert s.exact == pytest.approx(1 / 3)
    assert s.segments == Counts(correct=4, guessed=5, gold=5)
    assert s.by_type == {"NP": Counts(2, 3, 3), "PP": Counts(1, 1, 1), "VP": Counts(1, 1, 1)}
    assert s.by_label == {
        "B-NP": Counts(2, 2, 3),
        "B-PP": Counts(1, 1, 1),
        "B-VP": Counts(1, 1, 1),
        "I-NP": Counts(1, 2, 2),
        "O": Counts(1, 2, 1),
    }
    assert list(s.by_label) == sorted(s.by_label)
    assert s.micro == Counts(6, 8, 8)
    assert s.macro.precision == pytest.approx((1 + 1 + 1 + 0.5 + 0.5) / 5)
    assert s.macro.recall == pytest.approx((2 / 3 + 1 + 1 + 0.5 + 1) / 5)
    assert s.macro.f1 == pytest.approx((0.8 + 1 + 1 + 0.5 + 2 / 3) / 5)
    without = [c for y, c in s.by_label.items() if y != "O"]
    assert micro(without) == Counts(5, 6, 7)
    assert macro(without).recall == pytest.approx((2 / 3 + 1 + 1 + 0.5) / 4)


@pytest.mark.parametrize(
    "gold, guess, scheme, by_type",
    [
        ("B M E S", "B E S S", "auto", {"": (1, 3, 2)}),  # words of Chinese: |abc|d| and |ab|c|d|
        ("B M E S", "B E S S", "BMES", {"": (1, 3, 2)}),
        ("B E B E", "B I I E", "auto", {"": (0, 1, 2)}),
        ("S-X S-X", "S-X B-X", "BIOES", {"X": (2, 2, 2)}),
        ("I-X I-X B-X", "I-X I-X I-X", "IOB1", {"X": (0, 1, 2)}),
        ("I-X I-Y O", "I-X I-Y I-Y", "auto", {"X": (1, 1, 1), "Y": (0, 1, 1)}),
        ("A0 A0 O A1", "A0 A0 O O", "auto", {"A0": (1, 1, 1), "A1": (0, 0, 1), "O": (0, 1, 1)}),
        ("A0 A0 O A1", "A0 A0 O O", None, {"A0": (1, 1, 1), "A1": (0, 0, 1), "O": (0, 1, 1)}),
        ("A0 I-A0 O A1", "A0 A0 O O", "IO", {"A0": (1, 1, 1), "A1": (0, 0, 1)}),
        ("B-X I-X", "B-X I-X", None, {"B-X": (1, 1, 1), "I-X": (1, 1, 1)}),
        ("BI-X BI-X", "BI-X BI-X", "auto", {"BI-X": (1, 1, 1)}),  # BI is no prefix
        ("-X -X", "-X -X", "auto", {"-X": (1, 1, 1)}),
        ("O O", "O O", "auto", {}),
        ("B-X", "B-Y", "auto", {"X": (0, 0, 1), "Y": (0, 1, 0)}),
    ],
)
def test_schemes(gold: str, guess: str, scheme: str | None, by_type: dict[str, tuple[int, int, int]]) -> None:
    assert score([gold.split()], [guess.split()], scheme).by_type == {k: Counts(*v) for k, v in by_type.items()}


def test_one_label_late_makes_auto_choose_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_AT_ONCE", 2)
    gold = [["B-X", "I-X", "O"]] * 4 + [["TITLE"]]
    assert score(gold, gold).scheme is None
    assert score(gold, gold) == score(gold, gold, None)
    assert score(gold[:-1], gold[:-1]).by_type == {"X": Counts(4, 4, 4)}


def test_segments_do_not_cross_sequences() -> None:
    assert score([["I-X"], [], ["I-X"]], [["I-X"], [], ["I-X"]]).by_type == {"X": Counts(2, 2, 2)}
    assert score([["A"], ["A"]], [["A"], ["A"]]).by_type == {"A": Counts(2, 2, 2)}


def test_nothing_at_all() -> None:
    s = score([], [])
    assert (s.tokens, s.sequences, s.accuracy, s.exact, s.segments.f1, s.macro.f1) == (0, 0, 0.0, 0.0, 0.0, 0.0)
    assert s.lines() == conlleval([])


def test_undefined_is_zero() -> None:
    for counts in (Counts(0, 0, 0), Counts(0, 3, 0), Counts(0, 0, 3)):
        assert (counts.precision, counts.recall, counts.f1) == (0.0, 0.0, 0.0)


# ---- laws -----------------------------------------------------------------------------------------------------------


def test_segments_are_those_of_labels() -> None:
    """Counted from `Labels.segments` as sets; valid labellings or not."""
    for rng in seeds(150):
        labels = random_labels(rng)
        pairs = []
        for n in rng.integers(0, 9, size=6):
            gold = rng.integers(len(labels), size=n)
            guess = np.where(rng.random(n) < 0.3, rng.integers(len(labels), size=n), gold)
            pairs.append(([labels.names[y] for y in gold], [labels.names[y] for y in guess]))
        wanted = Counter[tuple[str, str]]()
        for gold_names, guess_names in pairs:
            a, b = (set(labels.segments(side)) for side in (gold_names, guess_names))
            for what, results in (("correct", a & b), ("guessed", b), ("gold", a)):
                wanted.update((what, segment.type) for segment in results)
        result = scored(pairs, labels.scheme)
        got = Counter[tuple[str, str]]()
        for kind, counts in result.by_type.items():
            kind = kind if kind or labels.scheme is None else UNTYPED
            got.update({(what, kind): getattr(counts, what) for what in ("correct", "guessed", "gold")})
        assert +got == wanted, (labels, pairs)


@given(pairs_of("O B-X I-X B-Y I-Y"), st.integers(1, 9))
def test_chunks_change_nothing(pairs: list[Pair], at_once: int) -> None:
    whole = scored(pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "_AT_ONCE", at_once)
        assert scored(pairs) == whole


@given(pairs_of("O B-X I-X A"))
def test_gold_and_guess_change_places(pairs: list[Pair]) -> None:
    item, other = scored(pairs), scored([(b, a) for a, b in pairs])
    assert (item.accuracy, item.exact, item.segments.f1) == (other.accuracy, other.exact, other.segments.f1)
    assert item.segments.precision == other.segments.recall


@given(pairs_of("O B-X I-X B-Y"))
def test_tokens_by_counting(pairs: list[Pair]) -> None:
    result = scored(pairs)
    tokens = [t for a, b in pairs for t in zip(a, b, strict=True)]
    assert result.tokens == len(tokens)
    assert result.correct_tokens == sum(a == b for a, b in tokens)
    assert result.exact_sequences == sum(a == b for a, b in pairs)
    assert result.by_label == {
        y: Counts(tokens.count((y, y)), sum(b == y for _, b in tokens), sum(a == y for a, _ in tokens))
        for y in sorted({y for pair in tokens for y in pair})
    }
    assert result.micro.f1 == result.accuracy


# ---- for tables, JSON and streams -----------------------------------------------------------------------------------


def test_json() -> None:
    s = score([["B-X", "O", "B-Y"]], [["B-X", "O", "O"]])
    assert s.to_dict()["by_type"] == {
        "X": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "correct": 1, "guessed": 1, "gold": 1},
        "Y": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "correct": 0, "guessed": 0, "gold": 1},
    }
    assert list(s.to_dict()["by_label"]) == ["B-X", "B-Y", "O"]
    value = json.loads(json.dumps(s.to_dict(), allow_nan=False))
    assert value == s.to_dict()
    assert value["segments"] == {
        "precision": 1.0,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
        "correct": 1,
        "guessed": 1,
        "gold": 2,
    }
    assert value["by_type"]["Y"]["gold"] == 1
    assert (value["accuracy"], value["exact"]) == (pytest.approx(2 / 3), 0.0)


def test_strings_of_numpy_are_labels() -> None:
    labels: Any = np.array(["B-X", "O"])
    s = score([labels], [("B-X", "O")])
    assert {type(y) for y in s.by_label} == {str}
    assert s.segments == Counts(1, 1, 1)


def test_memory_does_not_grow_with_the_input() -> None:
    def endless(count: int) -> Iterator[list[str]]:
        for _ in range(count):
            yield ["B-X", "I-X", "O"] * 20

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            score(endless(count), endless(count))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    assert peak(4_000) < 1.3 * peak(1_000)


# ---- wrong input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gold, guess, says",
    [
        ([["O"], ["O", "O"]], [["O"], ["O"]], "sequence 1: there are not as many guessed labels as gold labels; got 1"),
        ([["O"]], [["O"], ["O"]], "sequence 1: it is missing in gold"),
        ([["O"], ["O"]], [["O"]], "sequence 1: it is missing in guessed"),
        (["O", "B-X"], ["O", "B-X"], "sequence 0: the labels in gold are not a list"),
        ([["O"]], ["O"], "sequence 0: the labels in guessed are not a list"),
        ([1], [1], "sequence 0: the labels in gold are not a list"),
        ([["O"], [], ["O", 3]], [["O"], [], ["O", "O"]], "sequence 2: a label is not a name; got 3"),
        ([["O"], ["O", "O"]], [["O"], [["O"], "O"]], "sequence 1: a label is not a name; got ['O']"),
    ],
)
def test_wrong_input(gold: Any, guess: Any, says: str) -> None:
    with pytest.raises(LabelError) as caught:
        score(gold, guess)
    assert says in str(caught.value)
    assert None not in (caught.value.got, caught.value.wanted, caught.value.cause)


def test_the_sequence_is_named_in_later_chunks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_AT_ONCE", 3)
    gold: list[Any] = [["O", "O"]] * 7 + [["O", 3]]
    with pytest.raises(LabelError, match="sequence 7: a label"):
        score(gold, [["O", "O"]] * 8)


@pytest.mark.parametrize(
    "scheme, label", [("BIO", "E-X"), ("BIOES", "M-X"), ("BMES", "I-X"), ("prefixes", "X"), ("IOB1", "S")]
)
def test_labels_that_do_not_fit_the_scheme(scheme: str, label: str) -> None:
    with pytest.raises(LabelError, match=f"does not fit the scheme {scheme}; got '{label}'"):
        score([["O"], [label]], [["O"], ["O"]], scheme)


def test_unknown_words() -> None:
    with pytest.raises(LabelError, match="unknown tagging scheme; got 'bio'"):
        score([], [], "bio")


def test_the_schemes_of_labels_are_known_here() -> None:
    for scheme in get_args(Scheme):
        assert score([["O"]], [["O"]], scheme).scheme == scheme


# ---- single numbers -------------------------------------------------------------------------------------------------


def test_measures_are_those_of_the_scores() -> None:
    for rng in seeds(20):
        sides = [[rng.choice(["O", "B-X", "I-X", "I-Y"], n).tolist() for n in (0, 1, 3, 9)] for _ in range(2)]
        for scheme in ("auto", None, "BIO"):
            scores = score(*sides, scheme)
            assert segment_f1(*sides, scheme=scheme) == scores.segments.f1
            assert (token_accuracy(*sides), sequence_accuracy(*sides)) == (scores.accuracy, scores.exact)


def test_measures_take_arrays_of_lists() -> None:
    gold = np.empty(2, dtype=object)
    gold[:] = [["A", "B"], ["A"]]
    assert token_accuracy(gold, [["A", "A"], ["A"]]) == pytest.approx(2 / 3)
