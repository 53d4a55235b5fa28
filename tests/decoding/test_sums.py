"""Sums over the labellings of whole batches: several sequences share vectors, tables and automata.

That sums are right is shown against enumeration (contract.py: `examine_sums`), one lane at a time and three alike;
here lanes differ, and are compared with sequences summed up alone.
"""

from __future__ import annotations

import numpy as np
import pytest

from bridle import Batch, Decoder, EngineError, Infeasible, Labels, Lattice, LatticeError, LimitReached
from bridle import rules as r
from bridle.decoding.marginals import Wanted, sum_up
from bridle.decoding.problem import Problem

BIO = Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
RULES: dict[str, list[str]] = {
    "none": [],
    "masks": ["well formed"],
    "counts": ["well formed", "at most 1 segment of X", "at least 1 token of Y"],
    "marks": ["X before Y", "label at tokens /b.*/ is O or X [penalty 0.5]", "tokens /c/ are of the same label"],
    "soft": ["at most 1 segment of X [penalty 0.7 per violation]", "if X then Y [penalty 1.5]", "ends with O"],
    "given": ["label at given verb is O", "exactly 1 segment of given role [penalty 2]", "well formed"],
}


def parsed(sentences: list[str]) -> list[r.Rule]:
    """Those that the grammar of rules knows, written out as objects where a sentence would be long."""
    marks = [
        r.before("X", "Y"),
        r.fix(["O", "X"], r.tokens("b.*")).soft(0.5),
        r.at_most(1, of="Y"),
        r.if_present("X", then="Y"),
        r.around(at=r.tokens("c"), left="X", right="Y").soft(0.8, per="violation"),
    ]
    return marks if sentences is RULES["marks"] else [r.parse(sentence) for sentence in sentences]


def sequences(rng: np.random.Generator, count: int, longest: int = 12) -> tuple[list[Lattice], list[dict[str, object]]]:
    tables = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=5)
    lattices, given = [], []
    for _ in range(count):
        n = int(rng.integers(0, longest + 1))
        unary = rng.normal(size=(n, 5)) * 2
        unary[rng.random((n, 5)) < 0.05] = -np.inf
        lattices.append(Lattice(unary, *tables))
        words = rng.choice(["a", "b", "bb", "c"], size=n).tolist()
        given.append(
            {"tokens": words, "verb": int(rng.integers(max(n, 1))) if n else [], "role": str(rng.choice(["X", "Y"]))}
        )
    return lattices, given


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("soft", ["ignore", "factor"])
def test_a_batch_is_summed_up_as_its_sequences_are(name: str, soft: str) -> None:
    decoder = Decoder(BIO, parsed(RULES[name]), on_infeasible="skip")
    lattices, given = sequences(np.random.default_rng(3), 23)
    hard = [k for k, rule in enumerate(decoder.rules) if not isinstance(rule, r.Soft)]
    factors = [k for k in range(len(decoder.rules)) if k not in hard] if soft == "factor" else []
    wanted = Wanted(hard, factors, marginals=True, edges=True, counts=True, entropy=True, samples=3, seed=5)
    whole = sum_up(decoder, lattices, given, wanted)
    offsets = np.cumsum([0, *map(len, lattices)])
    for b, (lattice, values) in enumerate(zip(lattices, given, strict=True)):
        alone = sum_up(decoder, [lattice], [values], wanted)
        assert whole.log_partition[b] == pytest.approx(alone.log_partition[0], abs=1e-9)
        if whole.log_z[b] == -np.inf:
            continue
        here = slice(offsets[b], offsets[b + 1])
        assert whole.marginals[here] == pytest.approx(alone.marginals, abs=1e-9)
        assert whole.marginals[here].sum(axis=1) == pytest.approx(np.ones(len(lattice)), abs=1e-9)
        assert whole.edges[b] == pytest.approx(alone.edges[0], abs=1e-9)
        assert whole.counts[b] == pytest.approx(alone.counts[0], abs=1e-9)
        assert whole.entropy[b] == pytest.approx(alone.entropy[0], abs=1e-8)
    threaded = sum_up(decoder, lattices * 9, given * 9, wanted, threads=2)
    assert (threaded.log_z[:23] == whole.log_z).all()


def test_padded_batches_in_single_precision() -> None:
    rng = np.random.default_rng(0)
    scores, lengths = rng.normal(size=(9, 7, 5)).astype(np.float32), rng.integers(0, 8, size=9)
    scores[np.arange(7)[None] >= lengths[:, None]] = np.nan  # padding may hold anything
    decoder = Decoder(BIO, ["well formed", "at most 1 segment of X"])
    batch = Batch.from_padded(scores, lengths, pairwise=rng.normal(size=(5, 5)))
    one_by_one = [decoder.marginals(batch[k]) for k in range(9)]
    for part, wanted in zip(decoder.marginals_batch(batch), one_by_one, strict=True):
        assert part == pytest.approx(wanted, abs=1e-12)
    sums = sum_up(decoder, batch, None, Wanted([0, 1], marginals=True, dtype=np.float32))
    assert sums.marginals is not None and sums.marginals.dtype == np.float32
    for k, wanted in enumerate(one_by_one):
        low = k * 7
        assert sums.marginals[low : low + len(wanted)] == pytest.approx(wanted, abs=1e-6)
        assert not sums.marginals[low + len(wanted) : low + 7].any()


def test_samples_follow_the_marginals() -> None:
    """Chi-square over all labellings that obey the rules."""
    decoder = Decoder(BIO, ["well formed", "exactly 1 segment of X", "at most 1 token of Y [penalty 1]"])
    lattice = Lattice(np.random.default_rng(1).normal(size=(4, 5)), np.random.default_rng(2).normal(size=(5, 5)))
    n = 20_000
    (drawn,) = decoder.sample([lattice], n, soft="factor", seed=7)
    ranked = decoder.k_best(lattice, 10_000)
    total = decoder.log_partition([lattice], soft="factor")[0]
    numbers = {tuple(d.ids.tolist()): k for k, d in enumerate(ranked)}
    seen = np.bincount([numbers[tuple(path)] for path in drawn.tolist()], minlength=len(ranked))
    expected = n * np.exp([d.score - total for d in ranked])
    assert expected.sum() == pytest.approx(n, rel=1e-9)
    large = expected >= 5
    chi = ((seen - expected)[large] ** 2 / expected[large]).sum()
    degrees = large.sum()
    assert chi < degrees + 4 * np.sqrt(2 * degrees), "far less than one in a thousand"
    assert (drawn == decoder.sample([lattice], n, soft="factor", seed=7, threads=2)[0]).all()
    assert (drawn != decoder.sample([lattice], n, soft="factor", seed=8)[0]).any()


def test_penalties_may_be_others() -> None:
    decoder = Decoder(BIO, ["at most 1 token of X [penalty 1 per violation]"])
    lattices, _ = sequences(np.random.default_rng(4), 5)
    other = Decoder(BIO, ["at most 1 token of X [penalty 0.3 per violation]"])
    wanted = sum_up(other, lattices, None, Wanted([], [0], counts=True))
    same = sum_up(decoder, lattices, None, Wanted([], [0], counts=True, penalties=np.array([0.3])))
    assert (same.log_z == wanted.log_z).all() and (same.counts == wanted.counts).all()
    step = 1e-6
    more = sum_up(decoder, lattices, None, Wanted([], [0], penalties=np.array([0.3 + step])))
    assert (more.log_z - same.log_z) / step == pytest.approx(-same.counts[:, 0], abs=1e-5)


def test_scores_of_labellings() -> None:
    decoder = Decoder(BIO, parsed(RULES["soft"]), on_infeasible="skip")
    lattices, given = sequences(np.random.default_rng(6), 12)
    problem = Problem(decoder.compiled, lattices, given, many=True)
    decodings = decoder.decode_batch(lattices, given)
    counts, rows = np.zeros((12, 3)), np.arange(12)
    ids = np.maximum(decodings.ids, 0).astype(np.int32)
    score = problem.native().score_paths([2], [0, 1], rows, ids, -1.0, problem.stop, counts=counts)
    offset = sum_up(decoder, lattices, given, Wanted([2], [0, 1])).offset
    for b in np.flatnonzero(decodings.answered):
        assert score[b] + offset[b] == pytest.approx(decodings.scores[b], abs=1e-9)
        penalties = [rule.penalty if isinstance(rule, r.Soft) else 0.0 for rule in decoder.rules]
        assert counts[b] @ penalties == pytest.approx(decodings[int(b)].penalty, abs=1e-12)


def test_long_sequences_keep_some_rows_only() -> None:
    rng = np.random.default_rng(5)
    lattice = Lattice(rng.normal(size=(3000, 5)), rng.normal(size=(5, 5)))
    rules = ["well formed", "at most 9 segments of X [penalty 0.1 per violation]"]
    small, large = Decoder(BIO, rules, max_memory=4_000_000), Decoder(BIO, rules)
    assert small.marginals(lattice, soft="factor") == pytest.approx(large.marginals(lattice, soft="factor"), abs=1e-9)
    wanted = Wanted([0], [1], edges=True, counts=True, entropy=True)
    less, more = (sum_up(decoder, [lattice], None, wanted) for decoder in (small, large))
    assert less.edges == pytest.approx(more.edges, abs=1e-8)
    assert less.counts == pytest.approx(more.counts, abs=1e-8)
    assert less.entropy == pytest.approx(more.entropy, rel=1e-9)


def test_scores_that_need_logarithms() -> None:
    """In the middle of a batch, beside sequences that do not."""
    rng = np.random.default_rng(8)
    lattices = [Lattice(rng.normal(size=(6, 5)), p) for p in [rng.normal(size=(5, 5))] * 4]
    extreme = rng.normal(size=(6, 5)) * 400
    lattices[2] = Lattice(extreme, lattices[0].pairwise)
    decoder = Decoder(BIO, ["exactly 2 tokens of X", "well formed"])
    for wanted, part in zip(map(decoder.marginals, lattices), decoder.marginals_batch(lattices), strict=True):
        assert part == pytest.approx(wanted, abs=1e-9)
        assert part.sum(axis=1) == pytest.approx(np.ones(6), abs=1e-9)


def test_what_cannot_be_summed_up_says_so() -> None:
    lattices = [Lattice(np.zeros((n, 5))) for n in (3, 1, 0)]
    decoder = Decoder(BIO, ["at least 2 tokens of X"])
    assert np.isneginf(decoder.log_partition(lattices)).tolist() == [False, True, True]
    with pytest.raises(Infeasible, match="at least 2 tokens of X") as caught:
        decoder.marginals_batch(lattices)
    assert caught.value.sequence == 1
    skipping = Decoder(BIO, ["at least 2 tokens of X"], on_infeasible="skip")
    assert np.isnan(skipping.marginals_batch(lattices)[1]).all()
    assert [part.shape for part in skipping.sample(lattices, 2)] == [(2, 3), (0, 1), (0, 0)]
    assert np.isnan(skipping.entropy(lattices)).tolist() == [False, True, True]
    with pytest.raises(EngineError, match="`soft`"):
        decoder.log_partition(lattices, soft="yes")  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="`n` must be"):
        decoder.sample(lattices, 0)
    with pytest.raises(EngineError, match="too many states") as large:
        Decoder(BIO, ["at most 99 tokens of X", "at most 98 tokens of Y"], max_states=50).log_partition(lattices)
    assert large.value.sequence == 0
    with pytest.raises(LimitReached):
        Decoder(BIO, ["X before Y"], time_limit=0).log_partition([Lattice(np.zeros((200_000, 5)))])
    huge = Lattice([[0.0, 1.0, 2.0, 0.0, 0.0]] * 2, pairwise=np.full((5, 5), -1e38) + np.diag([1e38, 0, 0, 0, 0]))
    with pytest.raises(LatticeError, match="too large for probabilities"):
        Decoder(BIO, ["at least 1 token of X", "at least 1 token of Y"]).log_partition([huge])


# ---- single precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 30.0])  # 30: the range of single precision is left, and sums are done again
@pytest.mark.parametrize("name", ["none", "counts", "soft"])
def test_gradients_in_single_precision(name: str, scale: float) -> None:
    """More sequences than a vector of doubles has: log Z is as exact as ever, and gradients are those of doubles."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 30, size=37)
    scores = (scale * rng.normal(size=(37, 29, 5))).astype(np.float32)
    tables = {"pairwise": rng.normal(size=(5, 5)), "start": rng.normal(size=5), "end": rng.normal(size=5)}
    single = Batch.from_padded(scores, lengths, **tables)
    double = Batch.from_padded(scores.astype(np.float64), lengths, **tables)
    decoder = Decoder(BIO, parsed(RULES[name]), on_infeasible="skip")
    soft = [k for k, rule in enumerate(decoder.rules) if isinstance(rule, r.Soft)]
    rules = [k for k in range(len(decoder.rules)) if k not in soft], soft
    keep = rng.random(37) < 0.8
    what = {"marginals": True, "counts": True}
    wanted = sum_up(decoder, double, None, Wanted(*rules, **what, edges=True))
    each = sum_up(decoder, single, None, Wanted(*rules, **what, edges=True, dtype=np.float32))
    total = sum_up(decoder, single, None, Wanted(*rules, **what, edge_sum=True, keep=keep, dtype=np.float32), threads=2)
    assert wanted.edges is not None and each.edges is not None and total.edge_sum is not None
    for sums in (each, total):
        assert sums.log_z == pytest.approx(wanted.log_z, rel=1e-9, abs=1e-9)
        assert sums.marginals == pytest.approx(wanted.marginals, abs=3e-6)
        assert sums.counts == pytest.approx(wanted.counts, abs=3e-5)
    assert each.edges == pytest.approx(wanted.edges, abs=3e-5)
    assert total.edge_sum == pytest.approx(wanted.edges[keep].sum(axis=0), abs=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_less_a_labelling(dtype: type) -> None:
    rng = np.random.default_rng(8)
    decoder = Decoder(BIO, ["well formed", "at most 1 segment of X", "if X then Y [penalty 1.5]"], on_infeasible="skip")
    scores = rng.normal(size=(21, 9, 5)).astype(dtype)
    batch, rules = Batch.from_padded(scores, pairwise=rng.normal(size=(5, 5))), ([0, 1], [2])
    gold = decoder.decode_batch(batch).ids.astype(np.int32)
    gold[:2] = 1, 4  # B-X I-Y: not well formed
    what = {"marginals": True, "counts": True, "edges": True, "edge_sum": True, "dtype": dtype}
    plain = sum_up(decoder, batch, None, Wanted(*rules, **what, keep=np.arange(21) > 0))
    less = sum_up(decoder, batch, None, Wanted(*rules, **what, gold=gold))
    problem = Problem(decoder.compiled, batch, None, many=True)
    counts = np.zeros((21, 3))
    score = problem.native().score_paths(*rules, np.arange(21), gold, -1.0, problem.stop, counts=counts)
    assert np.isneginf(score[0]) and np.isfinite(score[1:]).all()
    assert less.gold == pytest.approx(score, abs=1e-12) and less.log_z == pytest.approx(plain.log_z)
    one_hot, bigrams = np.eye(5)[gold], np.zeros((21, 5, 5))
    for b, ids in enumerate(gold.reshape(21, 9)):
        np.add.at(bigrams[b], (ids[:-1], ids[1:]), 1)
    assert plain.marginals is not None and less.marginals is not None and less.edges is not None
    assert less.marginals[9:] == pytest.approx((plain.marginals - one_hot)[9:], abs=1e-6)
    assert plain.edges is not None and plain.edge_sum is not None and plain.counts is not None
    assert less.edges[1:] == pytest.approx((plain.edges - bigrams)[1:], abs=1e-5)
    assert less.edge_sum == pytest.approx(plain.edge_sum - bigrams[1:].sum(axis=0), abs=1e-4)
    assert less.counts is not None and less.counts[1:] == pytest.approx((plain.counts - counts)[1:], abs=1e-5)
