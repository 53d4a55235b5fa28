"""Code that the recipes about fields of references and addresses share: Fersini et al. (2012), section 4.

A CRF and rules of five kinds are learned from the same sequences. Plain Viterbi is compared with

    two stages  the cheapest violations among labellings with score >= Z - (1 - tau) |Z|     engine two_stage
    search      score - penalties, the same penalties                                        engine search
    scaled      score - f * penalties                                                        engine search
    hard        no violations; the fewest where the rules clash                              engine search

tau and f are those that are best on held-out parts of the training sequences (cross-validation); of equals the rules
get the most weight, but never more than the penalties that were counted. Token figures as in (31)-(34), over the labels
of the model that occur in gold:

    macro = mean over y of P(y), R(y), F(y)         micro = the same, each y weighted by its share of the gold tokens
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from bridle.engines import TwoStage
from bridle.features import Encoded, features_of
from bridle.learn import RelationalRules
from bridle.models import CRF
from bridle.report import score
from bridle.rules import Rule, Soft

TAUS = (0.95, 0.98, 0.99, 0.995, 0.999)  # of both the first one wins ties
FACTORS = (1.0, 0.5, 0.25, 0.1, 2.0)
FIVE = {
    "Adjacency": "adjacency",
    "Precedence": "precedence",
    "State Change": "change",
    "Begin-End": "ends",
    "Presence and Precedence": "presence",
}
Tokens = Literal["words", "punctuation", "blanks"]
SAID: dict[Tokens, str] = {"words": "words only", "punctuation": "punctuation kept"}
TIES = (
    "of tau and factors that do equally well on held-out training data, those that give rules most are taken; taking "
    "those that stay nearest to Viterbi leaves fewer gains"
)
ALL, EVERY, PLAIN = "All Constraints", "all kinds that Bridle mines", "Baseline (Viterbi)"
WAYS = ("two stages", "search", "scaled", "hard")
DELIMITER = "d"  # the label of delimiters, whose tokens no figure counts
TOKEN_FIGURES = ("macro P", "macro R", "macro F", "micro P", "micro R", "micro F", "A")
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Fields:
    """Sequences and the labels of their tokens."""

    X: list[dict[str, list[str]]]
    y: list[list[str]]

    def __len__(self) -> int:
        return len(self.X)

    def part(self, which: Iterable[int]) -> Fields:
        """Some of them."""
        chosen = list(which)
        return Fields([self.X[k] for k in chosen], [self.y[k] for k in chosen])

    def without(self, other: Fields) -> Fields:
        """Those whose words are not also in the other ones."""
        known = {_key(x) for x in other.X}
        return self.part(k for k, x in enumerate(self.X) if _key(x) not in known)


def _key(x: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(word.lower() for word in x["word"])


def shares(data: Fields, sizes: Sequence[int], seed: int) -> list[list[int]]:
    """Parts of about these sizes; sequences with equal words are always in the same part."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for k, x in enumerate(data.X):
        groups.setdefault(_key(x), []).append(k)
    order = list(groups.values())
    built: list[list[int]] = [[] for _ in sizes]
    for g in np.random.default_rng(seed).permutation(len(order)).tolist():
        room = [size - len(part) for size, part in zip(sizes, built, strict=True)]
        built[room.index(max(room))] += order[g]
    return [sorted(part) for part in built]


def figures(gold: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]], names: Iterable[str]) -> Figures:
    """All that the tables show, in percent."""
    pairs = [_words(y, z) for y, z in zip(gold, guessed, strict=True)]
    scores = score([y for y, _ in pairs], [z for _, z in pairs], None)
    counts = [scores.by_label[y] for y in names if y in scores.by_label and scores.by_label[y].gold]
    weights = {"macro": [1.0] * len(counts), "micro": [float(c.gold) for c in counts]}
    out: Figures = {}
    for average, weight in weights.items():
        for letter, values in (
            ("P", [c.precision for c in counts]),
            ("R", [c.recall for c in counts]),
            ("F", [c.f1 for c in counts]),
        ):
            total = sum(w * value for w, value in zip(weight, values, strict=True))
            out[f"{average} {letter}"] = 100 * total / max(sum(weight), 1.0)
    return out | {"A": 100 * scores.accuracy, "segment F1": 100 * scores.segments.f1, "exact": 100 * scores.exact}


def _words(gold: Sequence[str], guessed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels of all tokens but delimiters."""
    kept = [t for t, label in enumerate(gold) if label != DELIMITER]
    return [gold[t] for t in kept], [guessed[t] for t in kept]


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings for learning models and rules."""

    features: str | Sequence[str] = "fields"
    sets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name of a set of rules -> RelationalRules(**)
    folds: int = 3
    seed: int = 0
    threads: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)  # of two stages, as `Decoder` takes them


def rule_sets(**options: Any) -> dict[str, dict[str, Any]]:
    """The sets of the paper's tables, and one with all kinds."""
    sets: dict[str, dict[str, Any]] = {name: {"kinds": (kind,), **options} for name, kind in FIVE.items()}
    return {**sets, ALL: {"kinds": tuple(FIVE.values()), **options}, EVERY: dict(options)}


@dataclass(frozen=True, slots=True)
class Taught:
    """A model and sets of rules from the same sequences."""

    model: CRF
    rules: dict[str, list[Rule]]
    setting: Setting

    @classmethod
    def by(cls, train: Fields, setting: Setting) -> Taught:
        """Learn."""
        model = CRF(features=setting.features, c1=0.0, c2=1.0, threads=setting.threads).fit(train.X, train.y)
        wrong = min(4000, 20 * len(train))  # more of them tell nothing new of few sequences, and take most of the time
        sets = {name: RelationalRules(**{"wrong": wrong, **how}) for name, how in setting.sets.items()}
        mined = {name: miner.fit(train.X, train.y).rules_ for name, miner in sets.items()}
        return cls(model, mined, setting)

    def names(self) -> Sequence[str]:
        """The labels it knows."""
        return self.model.labels_.names

    def decode(self, data: Fields, rules: Sequence[Rule] = (), **options: Any) -> tuple[list[list[str]], float, float]:
        """Labels, seconds of decoding (not of scoring), and the share of answers proved best."""
        decoder = self.model.decoder(rules, on_infeasible="relax", **options)
        batch, given = self.model.lattices(data.X), self.model.given(data.X, decoder)
        begin = time.perf_counter()
        decodings = decoder.decode_batch(batch, given, threads=self.setting.threads)
        seconds = time.perf_counter() - begin
        return [decoding.labels for decoding in decodings], seconds, mean(decoding.optimal for decoding in decodings)

    def two_stages(self, tau: float) -> dict[str, Any]:
        """Options of decoding in two stages."""
        return {"engine": TwoStage(tau=tau), **self.setting.limits}

    def broken(self, data: Fields, rules: Sequence[Rule], labellings: Sequence[Sequence[str]]) -> list[bool]:
        """Mark the labellings that break a rule, except those with labels that the rules cannot know."""
        known = set(self.names())
        return [
            known.issuperset(y) and any(not rule.holds(y, self.model.labels_, {"tokens": x["word"]}) for rule in rules)
            for x, y in zip(data.X, labellings, strict=True)
        ]


def scaled(rules: Sequence[Rule], factor: float) -> list[Rule]:
    """Soft rules with other penalties."""
    return [rule.rule.soft(factor * rule.penalty) if isinstance(rule, Soft) else rule for rule in rules]


def hardened(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules without penalties."""
    return [rule.rule if isinstance(rule, Soft) else rule for rule in rules]


def _right(gold: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> int:
    return sum(_right_tokens(gold, guessed))


def _right_tokens(gold: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> list[int]:
    """Right tokens of each sequence, without delimiters."""
    return [sum(a == b != DELIMITER for a, b in zip(y, z, strict=True)) for y, z in zip(gold, guessed, strict=True)]


def tuned(train: Fields, setting: Setting) -> dict[str, dict[str, float]]:
    """tau and the factor of each set of rules, by tokens right on held-out folds of the training data."""
    sets = {name: how for name, how in setting.sets.items() if name != EVERY}  # slow to mine: it takes those of ALL
    right = {name: {"tau": Counter[float](), "factor": Counter[float]()} for name in sets}
    for held in shares(train, [-(-len(train) // setting.folds)] * setting.folds, setting.seed):
        out = set(held)
        taught = Taught.by(train.part(k for k in range(len(train)) if k not in out), replace(setting, sets=sets))
        data = train.part(held)
        for name, rules in taught.rules.items():
            for tau in TAUS:
                near = taught.decode(data, rules, **taught.two_stages(tau))[0]
                right[name]["tau"][tau] += _right(data.y, near)
            for factor in FACTORS:
                right[name]["factor"][factor] += _right(data.y, taught.decode(data, scaled(rules, factor))[0])
    best = {name: {key: max(n, key=n.__getitem__) for key, n in both.items()} for name, both in right.items()}
    return best | {name: best[ALL] for name in setting.sets if name not in best}


@dataclass(slots=True)
class Tally:
    """Figures of all trials: [set of rules][way] -> one dict per trial; what else is known of each set."""

    figures: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    evidence: dict[str, list[Figures]] = field(default_factory=dict)

    def add(self, name: str, way: str, values: Figures) -> None:
        """Figures of one trial."""
        self.figures.setdefault(name, {}).setdefault(way, []).append(values)

    def values(self, name: str, way: str, figure: str) -> list[float]:
        """A figure in each trial."""
        return [item[figure] for item in self.figures[name][way]]

    def mean(self, name: str, way: str, figure: str) -> float:
        """A figure, the mean of all trials."""
        return mean(self.values(name, way, figure))

    def told(self, name: str, what: str) -> float:
        """Something else about a set of rules, the mean of all trials."""
        return mean(item[what] for item in self.evidence[name])

    def gain(self, name: str, way: str, figure: str = "A") -> tuple[float, float]:
        """Points above plain Viterbi in the same trials, with the standard error: over trials, or of the only one."""
        pairs = zip(self.values(name, way, figure), self.values(PLAIN, "plain", figure), strict=True)
        gains = [ours - plain for ours, plain in pairs]
        return mean(gains), stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else self.mean(name, way, "error")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"figures": self.figures, "evidence": self.evidence}


def trial(
    taught: Taught,
    chosen: Mapping[str, Mapping[str, float]],
    test: Fields,
    tally: Tally,
    ways: Sequence[str] = WAYS,
) -> None:
    """Decode the test sequences in these ways with all sets of rules."""
    plain, seconds, _ = taught.decode(test)
    names = taught.names()
    tally.add(PLAIN, "plain", figures(test.y, plain, names) | {"seconds": seconds})
    before = np.array(_right_tokens(test.y, plain))
    lengths = np.array([len(y) - y.count(DELIMITER) for y in test.y])
    for name, rules in taught.rules.items():
        tau, factor = chosen[name]["tau"], chosen[name]["factor"]
        known: dict[str, tuple[list[Rule], dict[str, Any]]] = {
            "two stages": (rules, taught.two_stages(tau)),
            "search": (rules, {}),
            "scaled": (scaled(rules, factor), {}),
            "hard": (hardened(rules), {}),
        }
        for way in ways:
            used, options = known[way]
            result, seconds, proved = taught.decode(test, used, **options)
            won = np.array(_right_tokens(test.y, result)) - before
            error = 100 * float(won.std()) * len(won) ** 0.5 / int(lengths.sum())
            values = {"seconds": seconds, "proved": 100 * proved, "error": error, "sequences": len(test)}
            values |= {"better": int((won > 0).sum()), "worse": int((won < 0).sum())}
            tally.add(name, way, figures(test.y, result, names) | values)
        broken, gold_broken = taught.broken(test, rules, plain), taught.broken(test, rules, test.y)
        wrong = lengths - before
        reach = int(wrong[broken].sum()) / max(int(wrong.sum()), 1)
        tally.evidence.setdefault(name, []).append(
            {
                "rules": len(rules),
                "gold breaks": 100 * mean(gold_broken),
                "plain breaks": 100 * mean(broken),
                "reach": 100 * reach,
                "tau": tau,
                "factor": factor,
            }
        )


def peers_of(taught: Taught, train: Fields, test: Fields, features: str | Sequence[str]) -> dict[str, list[Figures]]:
    """CRFsuite beside the model; nothing if it is not installed."""
    result = crfsuite(train, test, features)
    return {} if result is None else {"CRFsuite, same features": [figures(test.y, result, taught.names())]}


def crfsuite(train: Fields, test: Fields, features: str | Sequence[str]) -> list[list[str]] | None:
    """Label with CRFsuite, with the same features and the same L2; None if it is not installed."""
    built = features_of(features)

    def strings(encoded: Encoded) -> list[list[list[str]]]:
        names = built.names()
        rows = [[names[i] for i in encoded.attrs[a:b].tolist()] for a, b in pairwise(encoded.indptr.tolist())]
        return [rows[a:b] for a, b in pairwise(encoded.offsets.tolist())]

    return crfsuite_on(strings(built.fit(train.X)), train.y, strings(built.encode(test.X)))


def crfsuite_on(train: Sequence[Any], y: Sequence[Sequence[str]], test: Sequence[Any]) -> list[list[str]] | None:
    """Label with CRFsuite, given features in one of the forms that it takes."""
    try:
        import pycrfsuite
    except ImportError:
        return None
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", params={"c1": 0.0, "c2": 1.0, "max_iterations": 100}, verbose=False)
    for items, labels in zip(train, y, strict=True):
        trainer.append(items, labels)
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "crfsuite")
        trainer.train(place)
        tagger = pycrfsuite.Tagger()
        tagger.open(place)
        return [tagger.tag(items) for items in test]
