"""The layer for PyTorch: values against enumeration, gradients against differences, answers against the decoder."""

from __future__ import annotations

import copy
import io
import pickle
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

import bridle  # noqa: E402
from bridle import Infeasible, LabelError, Labels, LatticeError  # noqa: E402
from bridle.rules import Soft  # noqa: E402
from bridle.torch import ConstrainedCRF  # noqa: E402

NAMES = ["O", "B-X", "I-X", "B-Y"]
RULES = [
    "at most 1 segment of X",
    "label at given verb is O",
    "if X then Y [penalty 0.7]",
    "at most 0 tokens of Y [penalty 0.4 per violation]",
]
GIVEN = [{"verb": 0}, {"verb": 1}, {"verb": 0}, {"verb": []}]
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
TAGS = torch.tensor([[0, 1, 2, 3], [3, 0, 0, -1], [-7, 0, 1, -7], [9, 9, 9, 9]])
PARTIAL = torch.tensor([[0, -100, 2, 3], [-100, -100, -100, 0], [0, 0, -100, 0], [0, 0, 0, 0]])


def layer(rules: list[str] = RULES, **options: Any) -> ConstrainedCRF:
    torch.manual_seed(0)
    crf = ConstrainedCRF(Labels(NAMES, "BIO"), rules, **{"batch_first": True, **options}).double()
    with torch.no_grad():
        for parameter in (crf.transitions, crf.start_transitions, crf.end_transitions):
            parameter.normal_()
    return crf


def emissions(seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, 4, 4, dtype=torch.float64, generator=generator).requires_grad_()


def enumerated(crf: ConstrainedCRF, x: torch.Tensor, b: int, *, rules: bool = True) -> dict[tuple[int, ...], float]:
    """log weight of each labelling of sequence b that obeys the hard rules; of the grammar alone without `rules`."""
    at = np.flatnonzero(MASK[b].numpy())
    unary, (table, start, end) = (
        x.detach().numpy()[b][at],
        (p.detach().numpy() for p in (crf.transitions, crf.start_transitions, crf.end_transitions)),
    )
    held = list(crf._decoder.rules if rules else crf._grammar.rules)
    prices = iter(crf.penalties.tolist())
    prices_of = [next(prices) if isinstance(rule, Soft) else 0.0 for rule in held]
    out = {}
    for y in product(range(4), repeat=len(at)):
        counts = [rule.violations(list(y), crf.labels, GIVEN[b]) for rule in held]
        if any(n for rule, n in zip(held, counts, strict=True) if not isinstance(rule, Soft)):
            continue
        score = (
            sum(unary[t, k] for t, k in enumerate(y))
            + sum(table[i, j] for i, j in pairwise(y))
            + start[y[0]]
            + end[y[-1]]
        )
        for rule, n, price in zip(held, counts, prices_of, strict=True):
            if isinstance(rule, Soft):
                score -= price * (n if rule.per == "violation" else n > 0)
        out[y] = score
    return out


def log_sum(weights: list[float]) -> float:
    return float(np.logaddexp.reduce(weights)) if weights else -np.inf


def agrees(y: tuple[int, ...], tags: torch.Tensor, b: int) -> bool:
    at = np.flatnonzero(MASK[b].numpy())
    return all(tags[b, t] in (-100, k) for t, k in zip(at, y, strict=True))


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tags", [TAGS, PARTIAL], ids=["whole", "partial"])
def test_likelihood_against_enumeration(tags: torch.Tensor) -> None:
    crf, x = layer(), emissions()
    value = crf.nll(x, tags, MASK, given=GIVEN, reduction="none")
    for b in range(3):
        weights = enumerated(crf, x, b)
        gold = log_sum([w for y, w in weights.items() if agrees(y, tags, b)])
        assert value[b].item() == pytest.approx(log_sum([*weights.values()]) - gold, abs=1e-9)
    assert value[3] == 0
    assert crf.nll(x, tags, MASK, given=GIVEN).item() == pytest.approx(value.sum().item() / 3)
    assert crf.nll(x, tags, MASK, given=GIVEN, reduction="token_mean").item() == pytest.approx(value.sum().item() / 9)
    assert crf(x, tags, MASK, given=GIVEN).item() == pytest.approx(-value.sum().item())


def test_violations_against_enumeration() -> None:
    crf, x = layer(), emissions()
    value = crf.violation(x, MASK, given=GIVEN, reduction="none")
    hard = layer([rule for rule in RULES if "penalty" not in rule])
    hard.load_state_dict({k: v for k, v in crf.state_dict().items() if "transitions" in k}, strict=False)
    for b in range(3):
        whole = log_sum([*enumerated(crf, x, b, rules=False).values()])
        assert value[b].item() == pytest.approx(whole - log_sum([*enumerated(hard, x, b).values()]), abs=1e-9)
        q, p = enumerated(crf, x, b), enumerated(crf, x, b, rules=False)
        z, wanted = log_sum([*q.values()]), 0.0
        wanted = sum(np.exp(w - z) * ((w - z) - (p[y] - whole)) for y, w in q.items())
        assert crf.posterior(x, MASK, given=GIVEN, reduction="none")[b].item() == pytest.approx(wanted, abs=1e-9)
        for k in range(len(crf.rules)):
            rule = crf.rules[k].rule if isinstance(crf.rules[k], Soft) else crf.rules[k]
            held = [w for y, w in p.items() if not rule.violations(list(y), crf.labels, GIVEN[b])]
            single = crf.violation(x, MASK, rule=k, given=GIVEN, reduction="none")[b].item()
            assert single == pytest.approx(whole - log_sum(held), abs=1e-9)


def test_margin_and_risk_against_enumeration() -> None:
    crf, x = layer(), emissions()
    value = crf.margin(x, TAGS, MASK, cost=1.5, given=GIVEN, reduction="none")
    risk = crf.expected_cost(x, TAGS, MASK, n=4000, given=GIVEN, reduction="none")
    for b in range(3):
        weights = enumerated(crf, x, b)
        (gold,) = (y for y in weights if agrees(y, TAGS, b))
        wrong = {y: sum(a != c for a, c in zip(y, gold, strict=True)) for y in weights}
        wanted = max(w + 1.5 * wrong[y] for y, w in weights.items()) - weights[gold]
        assert value[b].item() == pytest.approx(wanted, abs=1e-9)
        z = log_sum([*weights.values()])
        assert risk[b].item() == pytest.approx(sum(np.exp(w - z) * wrong[y] for y, w in weights.items()), abs=0.1)


def test_the_gradient_of_the_risk_is_unbiased() -> None:
    """Over many samples it is the exact gradient of the expected number of wrong labels."""
    crf, x = layer(), emissions()
    crf.expected_cost(x, TAGS, MASK, n=20_000, given=GIVEN, reduction="sum").backward()
    weights = enumerated(crf, x, 0)
    (gold,) = (y for y in weights if agrees(y, TAGS, 0))
    z = log_sum([*weights.values()])
    p = {y: np.exp(w - z) for y, w in weights.items()}
    wrong = {y: sum(a != c for a, c in zip(y, gold, strict=True)) for y in p}
    mean = sum(p[y] * wrong[y] for y in p)
    wanted = np.zeros((4, 4))
    for y in p:
        wanted[np.arange(4), y] += p[y] * (wrong[y] - mean)
    assert x.grad is not None
    assert x.grad[0].numpy() == pytest.approx(wanted, abs=0.05)


# ---- gradients ------------------------------------------------------------------------------------------------------

LOSSES = ["nll", "partial", "flags", "violation", "violation of a rule", "posterior", "margin", "partial margin"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_gradients(loss: str, reduction: str) -> None:
    crf, x = layer(), emissions()
    target = crf.posterior_of(x + 0.3, MASK, given=GIVEN)
    flags = torch.nn.functional.one_hot(TAGS.clamp(0, 3), 4).bool() | (torch.arange(4) == 3)

    def value(u: torch.Tensor, *_parameters: torch.Tensor) -> torch.Tensor:
        more: dict[str, Any] = {"given": GIVEN, "reduction": reduction}
        if loss == "violation of a rule":
            return crf.violation(u, MASK, rule=2, **more)
        if loss in ("partial", "flags"):
            return crf.nll(u, PARTIAL if loss == "partial" else flags, MASK, **more)
        if loss == "violation":
            return crf.violation(u, MASK, **more)
        if loss == "partial margin":
            return crf.margin(u, PARTIAL, MASK, **more)
        if loss == "posterior":
            return crf.posterior(u, MASK, target=target, **more)
        return getattr(crf, loss)(u, TAGS, MASK, **more)

    assert torch.autograd.gradcheck(value, (x, *crf.parameters()), eps=1e-6, atol=1e-6)


def test_a_loss_of_unequal_weights_and_of_their_sum_agree() -> None:
    """More sequences in single precision than a vector of doubles has, some of which break a rule."""
    torch.manual_seed(3)
    crf = ConstrainedCRF(Labels(NAMES, "BIO"), RULES[:1], batch_first=True, on_infeasible="skip")
    x, tags = torch.randn(19, 6, 4, requires_grad=True), torch.zeros(19, 6, dtype=torch.long)
    tags[:, 1], tags[4, 3], tags[::3, 5] = 1, 1, 3  # 4: two segments of X
    gradients = []
    for reduction in ("none", "sum"):
        crf.zero_grad()
        x.grad = None
        crf.nll(x, tags, reduction=reduction).sum().backward()  # type: ignore[arg-type]
        gradients.append([p.grad.clone() for p in (x, crf.transitions, crf.start_transitions, crf.end_transitions)])
    assert crf.skipped == 2 and not gradients[0][0][4].any()
    for each, total in zip(*gradients, strict=True):
        assert torch.allclose(each, total, atol=1e-5)
    double = ConstrainedCRF(Labels(NAMES, "BIO"), RULES[:1], batch_first=True, on_infeasible="skip").double()
    double.load_state_dict(crf.state_dict())
    y = x.detach().double().requires_grad_()
    double.nll(y, tags, reduction="sum").backward()
    assert torch.allclose(y.grad.float(), gradients[1][0], atol=1e-5)
    assert torch.allclose(double.transitions.grad.float(), gradients[1][1], atol=1e-4)


def test_gradients_without_rules_are_those_of_pytorch_crf() -> None:
    torchcrf = pytest.importorskip("torchcrf")
    theirs = torchcrf.CRF(5, batch_first=True)
    ours = ConstrainedCRF.from_pytorch_crf(theirs)
    x, tags = torch.randn(3, 6, 5, requires_grad=True), torch.randint(5, (3, 6))
    mask = torch.arange(6)[None] < torch.tensor([[6], [4], [1]])
    for reduction in ("none", "sum", "mean", "token_mean"):
        results = []
        for crf in (theirs, ours):
            crf.zero_grad(), setattr(x, "grad", None)
            value = crf(x, tags, mask, reduction=reduction)
            value.sum().backward()
            results.append([value, x.grad, *(p.grad for n, p in sorted(crf.named_parameters()) if "transitions" in n)])
        for a, b in zip(*results, strict=True):
            assert torch.allclose(a, b, atol=2e-5)
    assert theirs.decode(x, mask) == ours.decode(x, mask)
    last = ConstrainedCRF.from_pytorch_crf(theirs, batch_first=False)
    assert last.decode(x.transpose(0, 1), mask.T) == ours.decode(x, mask)
    assert last(x.transpose(0, 1), tags.T, mask.T).item() == pytest.approx(ours(x, tags, mask).item(), abs=1e-4)


# ---- training -------------------------------------------------------------------------------------------------------


def test_penalties_are_learned() -> None:
    """A rule that gold always obeys becomes expensive, and one that gold always breaks cheap."""
    crf = ConstrainedCRF(
        ["O", "X", "Y"], ["at most 1 token of X [penalty 1]", "at most 0 tokens of Y [penalty 1]"], batch_first=True
    )
    tags = torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]])
    x = torch.zeros(2, 4, 3)
    optimizer = torch.optim.Adam([crf.raw_penalties], 0.1)
    for _ in range(60):
        optimizer.zero_grad()
        crf.nll(x, tags).backward()
        optimizer.step()
    high, low = crf.penalties.tolist()
    assert high > 1.2 and low < 0.5
    assert (
        ConstrainedCRF(
            ["O", "X"], ["at most 0 tokens of X [penalty 1]"], learn_penalties=False
        ).raw_penalties.requires_grad
        is False
    )


def test_losses_under_rules_train_a_network() -> None:
    torch.manual_seed(1)
    crf = ConstrainedCRF(Labels(NAMES, "BIO"), ["at most 1 segment of X"], batch_first=True)
    net, tags = torch.nn.Linear(6, 4), torch.tensor([[0, 1, 2, 0, 3, 0]]).repeat(8, 1)
    x = torch.randn(8, 6, 6) + torch.nn.functional.one_hot(tags, 6)
    optimizer = torch.optim.Adam([*net.parameters(), *crf.parameters()], 0.05)
    first = last = 0.0
    for step in range(40):
        optimizer.zero_grad()
        u = net(x)
        loss = crf.nll(u, tags) + 0.1 * crf.violation(u) + 0.1 * crf.margin(u, tags) + 0.1 * crf.posterior(u)
        loss = loss + 0.1 * crf.expected_cost(u, tags, n=4, seed=step)
        loss.backward()
        optimizer.step()
        first, last = first or loss.item(), loss.item()
    assert last < 0.6 * first


# ---- answers --------------------------------------------------------------------------------------------------------


def test_answers_are_those_of_a_decoder() -> None:
    crf, x = layer(), emissions()
    priced = [
        r.rule.soft(p.item(), r.per)
        for r, p in zip([r for r in crf.rules if isinstance(r, Soft)], crf.penalties, strict=True)
    ]
    hard = [r for r in crf.rules if not isinstance(r, Soft)]
    decoder = bridle.Decoder(crf.labels, ["well formed", *hard, *priced])
    tables = [p.detach().numpy() for p in (crf.transitions, crf.start_transitions, crf.end_transitions)]
    lattices = [bridle.Lattice(x.detach().numpy()[b][MASK[b].numpy() == 1], *tables) for b in range(4)]
    decodings = [decoder.decode(lattice, values) for lattice, values in zip(lattices, GIVEN, strict=True)]
    assert crf.decode(x, MASK, given=GIVEN) == [d.ids.tolist() for d in decodings]
    assert crf.decodings(x, MASK, given=GIVEN).scores == pytest.approx([d.score for d in decodings])
    best = crf.k_best(x, 3, MASK, given=GIVEN)
    assert [d.score for d in best[1]] == pytest.approx([d.score for d in decoder.k_best(lattices[1], 3, GIVEN[1])])
    marginals = crf.marginals(x, MASK, given=GIVEN)
    assert marginals[2, 1:3].numpy() == pytest.approx(decoder.marginals(lattices[2], GIVEN[2], soft="factor"))
    assert not marginals[2, 0].any() and marginals.shape == x.shape
    assert crf.explain(x[0], GIVEN[0]).best.ids.tolist() == decodings[0].ids.tolist()


def test_weights_hold_labels_and_rules(tmp_path: Any) -> None:
    crf, x = layer(), emissions()
    torch.save(crf.state_dict(), tmp_path / "crf.pt")
    state = torch.load(tmp_path / "crf.pt", weights_only=True)
    again = ConstrainedCRF.from_state_dict(state, batch_first=True).double()
    assert again.rules == crf.rules and again.labels == crf.labels
    same = crf.nll(x, TAGS, MASK, given=GIVEN).item()
    assert again.nll(x, TAGS, MASK, given=GIVEN).item() == pytest.approx(same, abs=1e-5)
    with pytest.raises((LabelError, RuntimeError), match="other labels"):
        ConstrainedCRF(["O", "B-X", "I-X", "B-Z"], ["at most 1 segment of X [penalty 1]"] * 2).load_state_dict(state)
    with pytest.raises(LabelError, match="do not hold"):
        ConstrainedCRF.from_state_dict({"_extra_state": torch.zeros(3, dtype=torch.uint8)})
    for copied in (copy.deepcopy(crf), pickle.loads(pickle.dumps(crf))):
        assert copied.decode(x, MASK, given=GIVEN) == crf.decode(x, MASK, given=GIVEN)


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_gold_that_breaks_a_rule_is_named_or_left_out() -> None:
    crf, x, tags = layer(), emissions(), TAGS.clone()
    tags[0] = torch.tensor([0, 1, 0, 1])
    with pytest.raises(Infeasible, match="at most 1 segment of X") as caught:
        crf.nll(x, tags, MASK, given=GIVEN)
    assert caught.value.sequence == 0 and [str(rule) for rule in caught.value.clash] == ["at most 1 segment of X"]
    skipping = layer(on_infeasible="skip")
    value = skipping.nll(x, tags, MASK, given=GIVEN, reduction="none")
    assert value[0] == 0 and skipping.skipped == 1
    value.sum().backward()
    assert x.grad is not None and not x.grad[0].any() and x.grad[1].any() and x.grad.isfinite().all()
    mean = skipping.nll(x, tags, MASK, given=GIVEN)
    assert mean.item() == pytest.approx(value.sum().item() / 2) and skipping.skipped == 2
    impossible = layer(["at least 3 segments of Y"])
    with pytest.raises(Infeasible, match="no labelling of a sequence"):
        impossible.violation(x, MASK)


def test_bad_input_is_refused() -> None:
    crf, x = layer([]), emissions()
    bad = x.detach().clone()
    bad[1, 3] = float("nan")  # padding
    assert crf.nll(bad, TAGS, MASK).isfinite()
    bad[1, 2, 0] = float("nan")
    with pytest.raises(LatticeError, match=r"NaN|nan"):
        crf.nll(bad, TAGS, MASK)
    with pytest.raises(LatticeError, match="emissions do not fit"):
        crf.nll(x[..., :2], TAGS)
    with pytest.raises(LatticeError, match="mask does not fit"):
        crf.nll(x, TAGS, MASK[:, :2])
    with pytest.raises(LatticeError, match="tags do not fit"):
        crf.nll(x, TAGS[:, :2], MASK)
    with pytest.raises(LabelError, match="not the id of a label") as caught:
        crf.nll(x, TAGS + 4, MASK)
    assert caught.value.sequence == 0
    with pytest.raises(LatticeError, match="mask"):
        crf.nll(x, TAGS, torch.tensor([[1, 0, 1, 1]] * 4))
    with pytest.raises(bridle.EngineError, match="reduction"):
        crf.nll(x, TAGS, MASK, reduction="max")  # type: ignore[arg-type]
    with pytest.raises(LabelError):
        ConstrainedCRF(0)
    nothing = crf.nll(x, TAGS, torch.zeros(4, 4))
    nothing.backward()
    assert nothing == 0 and x.grad is not None and not x.grad.any()
    assert crf.decode(torch.zeros(2, 0, 4)) == [[], []]


# ---- precision, devices, compilation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype) -> None:
    crf, x = layer(), emissions()
    wanted = crf.nll(x, TAGS, MASK, given=GIVEN).item()
    low = x.detach().to(dtype).requires_grad_()
    value = crf.float().nll(low, TAGS, MASK, given=GIVEN)
    value.backward()
    assert value.dtype == torch.float32 and value.item() == pytest.approx(wanted, abs=0.05)
    assert low.grad is not None and low.grad.dtype == dtype and low.grad.isfinite().all()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert crf.nll(torch.nn.Linear(4, 4)(x.detach().float()), TAGS, MASK, given=GIVEN).dtype == torch.float32


class Away(torch.Tensor):
    """A tensor that says it is on another device, and counts the copies from there."""

    copies = 0

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("privateuseone")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.to and args[1:] == ("cpu",):
            cls.copies += 1
            return args[0].as_subclass(torch.Tensor)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_tensors_of_a_device_come_in_one_copy() -> None:
    from bridle.torch.sums import to_host

    tensors = [torch.randn(2, 3), torch.randn(4), torch.randn(0)]
    there = [tensor.as_subclass(Away) for tensor in tensors]
    assert all(map(torch.equal, to_host(there), tensors)) and Away.copies == 1
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(to_host(tensors[:2]), tensors[:2], strict=True))


def test_compiled_modules_and_data_loaders_work() -> None:
    crf, x = layer(), emissions()
    compiled = torch.compile(lambda u: crf.nll(u * 1.0, TAGS, MASK, given=GIVEN), backend="eager")
    assert compiled(x).item() == pytest.approx(crf.nll(x, TAGS, MASK, given=GIVEN).item())
    compiled(x).backward()
    assert x.grad is not None and x.grad.any()
    crf.nll(x, TAGS, MASK, given=GIVEN)  # threads and caches are there before the fork
    loader = DataLoader(Decoded(crf, x.detach()), batch_size=None, num_workers=1, multiprocessing_context="fork")
    wanted = crf.decode(x, MASK, given=GIVEN)
    assert [[int(y) for y in ids] for ids in loader] == wanted[:2]


class Decoded(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """A data set whose workers use the layer."""

    def __init__(self, crf: ConstrainedCRF, x: torch.Tensor) -> None:
        self.crf, self.x = crf, x

    def __len__(self) -> int:
        return 2

    def __getitem__(self, k: int) -> list[int]:
        return self.crf.decode(self.x, MASK, given=GIVEN)[k]


def test_a_saved_layer_is_small() -> None:
    stream = io.BytesIO()
    torch.save(layer().state_dict(), stream)
    assert stream.tell() < 10_000
