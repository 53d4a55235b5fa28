"""Documents: against enumeration, what they return, and what can be wrong with them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bridle
import bridle.rules as r
from bridle import GivenError, Infeasible, Labels, Lattice, LimitReached, RuleError
from bridle.decoding.documents import cuts_of
from document_contract import examine_document
from strategies import rounds

LABELS = Labels(["O", "PER", "LOC"], "IO")
SAME = "in the document: same label for equal tokens"


@pytest.mark.parametrize("part", range(4))
def test_against_enumeration(part: int) -> None:
    seeds = range(part * rounds(30), (part + 1) * rounds(30))
    assert [text for seed in seeds for text in examine_document(seed)] == []


def test_a_labelling_that_is_known_does_not_hide_that_the_best_path_disagrees() -> None:
    assert examine_document(1014755) == []


def sentences(*texts: str, seed: int = 0) -> tuple[list[Lattice], list[dict[str, list[str]]]]:
    rng = np.random.default_rng(seed)
    return [Lattice(rng.normal(size=(len(x.split()), 3))) for x in texts], [{"tokens": x.split()} for x in texts]


def test_a_rule_about_sentences_does_not_reach_across() -> None:
    lattices, given = sentences("Paris a", "Paris b")
    lattices = [Lattice([[0, 2, 0], [1, 0, 0]]), Lattice([[0, 0, 1], [1, 0, 0]])]
    apart = bridle.Decoder(LABELS, ["same label for equal tokens"]).decode_document(lattices, given)
    together = bridle.Decoder(LABELS, [SAME]).decode_document(lattices, given)
    assert apart.labels == [["PER", "O"], ["LOC", "O"]] and together.labels == [["PER", "O"], ["PER", "O"]]
    assert together.score == 4 and together.violated == [] and together.optimal and len(together) == 2


def test_segments_end_with_their_sentence() -> None:
    lattices = [Lattice([[0, 1, 0]]), Lattice([[0, 2, 0]])]
    decoder = bridle.Decoder(LABELS, ["in the document: at most 1 segment of PER"])
    assert decoder.decode_document(lattices).labels == [["O"], ["PER"]]
    assert decoder.decode(Lattice([[0, 1, 0], [0, 2, 0]])).labels == ["PER", "PER"]  # a document of one


def test_transitions_do_not_cross() -> None:
    pairwise = np.full((3, 3), -5.0)
    lattices = [Lattice(np.eye(3)[[k]], pairwise, start=[0, 1, 0], end=[0.5, 0, 0]) for k in range(3)]
    for rules in ([], [SAME], ["in the document: exactly 2 tokens of PER"]):
        given = [{"tokens": [text]} for text in "abc"]
        d = bridle.Decoder(LABELS, rules).decode_document(lattices, given)
        assert d.score == pytest.approx(sum(x.score(y) for x, y in zip(lattices, d.ids, strict=True)))
        assert bridle.check(lattices, bridle.Decoder(LABELS, rules).rules, d, given).ok


def test_many_documents_in_threads() -> None:
    decoder = bridle.Decoder(LABELS, [r.in_document(r.same_label_for_equal()).soft(0.5, per="violation")])
    documents = [sentences("a b c", "b a", "c c d", seed=k) for k in range(20)]
    lattices, given = zip(*documents, strict=True)
    many = decoder.decode_documents(lattices, given, threads=2)
    assert [d.labels for d in many] == [decoder.decode_document(*document).labels for document in documents]
    assert all(d.optimal for d in many) and decoder.decode_documents([]) == []
    again = pickle.loads(pickle.dumps(decoder)).decode_document(*documents[3])
    assert again.score == many[3].score
    batch = bridle.Batch(np.concatenate([x.unary for x in lattices[0]]), [0, 3, 5, 8])
    assert decoder.decode_document(batch, given[0]).score == pytest.approx(many[0].score)


def test_soft_rules_about_sentences_are_charged_in_each() -> None:
    lattices = [Lattice([[0, 2, 0]]), Lattice([[0, 3, 0]]), Lattice([[1, 0, 0]])]
    rules = ["at most 0 tokens of PER  [penalty 1]", "in the document: at most 1 token of PER  [penalty 0.5]"]
    d = bridle.Decoder(LABELS, rules).decode_document(lattices)
    assert d.labels == [["PER"], ["PER"], ["O"]] and d.penalty == 2.5 and d.score == 3.5
    assert [(str(rule), times) for rule, times in d.violated] == [
        ("at most 0 tokens of PER  [penalty 1.0]", 2),
        ("in the document: at most 1 token of PER  [penalty 0.5]", 1),
    ]


def test_no_answer() -> None:
    lattices, given = sentences("a", "a")
    rules = ["in the document: at least 3 tokens of PER", "at most 1 token of PER"]
    with pytest.raises(Infeasible) as caught:
        bridle.Decoder(LABELS, rules).decode_documents([lattices] * 2, [given] * 2)
    assert [str(rule) for rule in caught.value.clash] == [rules[0]] and caught.value.sequence == 0
    skipped = bridle.Decoder(LABELS, rules, on_infeasible="skip").decode_document(lattices, given)
    assert skipped.status == "infeasible" and skipped.labels == [[], []] and len(skipped.clash) == 1
    relaxed = bridle.Decoder(LABELS, rules, on_infeasible="relax").decode_document(lattices, given)
    assert relaxed.relaxed and [(str(rule), times) for rule, times in relaxed.violated] == [(rules[0], 1)]


def test_limits() -> None:
    lattices, given = sentences(*["a b c d e"] * 20)
    best = bridle.Decoder(LABELS, [SAME]).decode_document(lattices, given)
    assert best.optimal
    try:
        d = bridle.Decoder(LABELS, [SAME], time_limit=0.0).decode_document(lattices, given)
        assert d.bound >= best.score - 1e-9 and d.score <= best.score + 1e-9
    except LimitReached as error:
        assert error.bound is not None and error.bound >= best.score - 1e-9


def test_bad_input() -> None:
    lattices, given = sentences("a", "a")
    decoder = bridle.Decoder(LABELS, [SAME])
    with pytest.raises(GivenError, match="given does not fit the documents"):
        decoder.decode_documents([lattices], [given, given])
    with pytest.raises(GivenError, match="one dict per sequence"):
        decoder.decode_document(lattices, given[:1])
    with pytest.raises(GivenError, match=r"given\['tokens'\] is missing"):
        decoder.decode_document(lattices)
    with pytest.raises(bridle.LatticeError):
        decoder.decode_document([Lattice([[0.0, 1.0]])], [{"tokens": ["a"]}])
    with pytest.raises(GivenError, match="a document comes back after another one; got 'x'"):
        cuts_of(["x", "x", "y", "x"])
    assert cuts_of(["x", "x", "y"]) == [0, 2, 3] and cuts_of([]) == [0]


@pytest.mark.parametrize(
    "rule",
    ["fix PER at 0", "well formed", "at most 1 token of given x", "(same label for equal tokens) or (present PER)"],
)
def test_rules_without_a_meaning_in_documents(rule: str) -> None:
    with pytest.raises(RuleError, match="a rule has no meaning over a document"):
        r.parse(f"in the document: {rule}")


def test_rules_about_documents_are_not_parts_of_others() -> None:
    rule = r.in_document(r.present("PER"))
    with pytest.raises(RuleError, match="rules about documents cannot be combined"):
        rule & r.present("LOC")
    with pytest.raises(RuleError, match="made of a hard rule"):
        r.in_document(r.present("PER").soft(1))


def test_a_long_document() -> None:
    rng = np.random.default_rng(3)
    texts = [[f"w{k}" for k in rng.integers(0, 400, 20)] for _ in range(100)]
    lattices = [Lattice(rng.normal(size=(20, 3)) * 2) for _ in texts]
    rule = r.in_document(r.same_label_for_equal(r.tokens("w1.*"))).soft(1.0, per="violation")
    decoder = bridle.Decoder(LABELS, [rule, "at most 4 segments of PER", "LOC before PER  [penalty 1]"])
    given = [{"tokens": text} for text in texts]
    d = decoder.decode_document(lattices, given)
    assert d.optimal and bridle.check(lattices, decoder.rules, d, given).ok


def test_models_decode_documents() -> None:
    X, y = [["Boston", "is", "big"], ["Boston", "won"]], [["LOC", "O", "O"], ["ORG", "O"]]
    model = bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(X * 5, y * 5)
    rules = ["in the document: same label for equal tokens /[A-Z].*/"]
    together = model.predict(X * 2, rules, groups=["a", "a", "b", "b"])
    assert model.predict(X * 2, rules) == y * 2
    assert together[0][0] == together[1][0] and together[2][0] == together[3][0]
    with pytest.raises(GivenError, match="a document comes back"):
        model.predict(X * 2, rules, groups=["a", "b", "a", "b"])
    with pytest.raises(GivenError, match="groups does not fit the sequences"):
        model.predict(X, rules, groups=["a"])


def test_an_explanation_says_which_mentions_decided() -> None:
    rule = SAME + " /[A-Z].*/  [penalty 1 per violation]"
    lattices = [Lattice([[0, 3, 0], [2, 0, 0]]), Lattice([[0, 1, 1.4]]), Lattice([[0, 2, 0]]), Lattice([[0, 2, 0]])]
    given = [{"tokens": text.split()} for text in ("Paris won", "Paris", "Paris", "Rome")]
    decoder = bridle.Decoder(LABELS, [rule, "in the document: at most 3 tokens of PER  [penalty 0.25]"])
    why = decoder.explain_document(lattices, given)
    assert [(m.sentence, m.token, m.text, m.plain, m.label, m.others, m.mentions) for m in why.mentions] == [
        (1, 0, "Paris", "LOC", "PER", 2, 3)
    ]
    assert why.mentions[0].price == pytest.approx(0.65)  # 0.4, and no fourth PER
    assert [(effect.rule, round(effect.price, 6)) for effect in why.effects] == [
        (decoder.rules[0], 0.65),
        (decoder.rules[1], 0.25),
    ]
    assert "sentence 2, token 1: Paris is PER here because 2 other mentions say so, at a price of 0.65" in str(why)
    assert why.complete and not bridle.Decoder(LABELS).explain_document(lattices, given).mentions
