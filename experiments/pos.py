"""`pos`, `pos-brown`: deterministic rules and the constrained tagger of Zhao & Marcus (2012), Tables 6, 7 and 9.

The Brown corpus is about as large as the paper's sections of the Wall Street Journal, and has more tags; the Web
Treebank and the sample of the Penn Treebank are smaller, and have the paper's tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bridle.data import Example, read
from bridle.errors import FileError
from bridle.learn import ConstrainedTagger, DeterministicRules
from bridle.processor import simd
from experiments.base import Recipe, Run
from experiments.pos_peers import PEERS, Peer
from experiments.pos_speed import Measured, X, Y, measure, seconds_of
from experiments.tables import Cell, Chart, Report, Row, Table

NEAR = 0.1  # points of accuracy that count as "no less accurate"; half of it when choosing
PAPER_6 = {"bigram": (0.993, 0.841, 0.911), "trigram": (0.996, 0.608, 0.755), "both": (0.992, 0.857, 0.920)}
PAPER_9 = {  # accuracy and speed, beam 1, then beam 5
    "raw": ((96.46, 97.16), (3, 1)),
    "constrained": ((96.80, 97.20), (14, 10)),
    "constrained, feature set B": ((97.03, 97.20), (11, 8)),
}
CHOICES = [  # threshold, cutoff, rare: the paper's, and stricter ones for a development set to choose from
    (0.99, 5, 5),
    (0.99, 20, 5),
    (0.999, 50, 5),
    (0.999, 20, 20),
    (0.999, 50, 50),
]
CHOSEN = "constrained, rules chosen on dev"
ALL = "constrained, trained on all tokens"
ALL_CHOSEN = "constrained, trained on all tokens, rules chosen on dev"
PLANS: dict[str, dict[str, Any]] = {
    "raw": {},
    "constrained": {"rules": DeterministicRules()},
    "constrained, feature set B": {"rules": DeterministicRules(), "lookahead": "decided"},
    ALL: {"rules": DeterministicRules(), "train": "all"},
}
SPEED = "processor time of one thread, taggers in turn, the best of several rounds; ratios to raw, beam 5"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Words and tags: to learn from, to choose by, to measure on."""

    name: str
    train: tuple[X, Y]
    dev: tuple[X, Y]
    test: tuple[X, Y]

    def sizes(self) -> str:
        """Tokens of the three parts."""
        return ", ".join(f"{part} {sum(map(len, getattr(self, part)[1])):,}" for part in ("train", "dev", "test"))


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings of rules, and what was tried to find them."""

    threshold: float
    cutoff: int
    rare: int
    tried: dict[str, tuple[float, float]]  # settings -> accuracy on dev in percent, share of tokens decided

    @property
    def settings(self) -> dict[str, Any]:
        """By name."""
        return {"threshold": self.threshold, "cutoff": self.cutoff, "rare": self.rare}

    def rules(self) -> DeterministicRules:
        """Rules to learn with them."""
        return DeterministicRules(**self.settings)


class Pos(Recipe):
    """Part-of-speech tagging with rules that decide most words."""

    name: ClassVar[str] = "pos"
    title: ClassVar[str] = "Part-of-speech tagging with deterministic rules (Zhao & Marcus 2012)"

    def run(self, run: Run) -> Report:
        """Tables 6, 7, 9 on the Web Treebank and on a sample of the Penn Treebank, and peers."""
        report = Report(self.name, self.title)
        report.settings = {
            "iterations": _iterations(run),
            "choices of (threshold, cutoff, rare)": f"{CHOICES}; the first are theirs",
            "chosen": f"what decides the most, of those within {NEAR / 2} of the highest accuracy on dev, beam 5",
            "speed": SPEED,
        }
        for corpus in [make(run) for make in (_ewt, _ptb)]:  # all files are asked for before the work begins
            run.say(f"{corpus.name}: {corpus.sizes()} tokens")
            report.settings[corpus.name] = corpus.sizes() + " tokens"
            self._corpus(run, corpus, report)
        return report

    def _corpus(self, run: Run, corpus: Corpus, report: Report) -> None:
        chosen = {CHOSEN: _chosen(run, corpus, "open"), ALL_CHOSEN: _chosen(run, corpus, "all")}
        plans = {name: PLANS[name] for name in PLANS if name != ALL}
        plans[CHOSEN] = {"rules": chosen[CHOSEN].rules()}
        plans[ALL] = PLANS[ALL]
        plans[ALL_CHOSEN] = {"rules": chosen[ALL_CHOSEN].rules(), "train": "all"}
        rounds = 5 if run.quick else 15
        raw, measured = _tables(run, corpus, report, plans, chosen, _iterations(run), rounds)
        report.tables.append(_peers(run, corpus, raw, measured["raw"][5], measured[ALL_CHOSEN][5]))


class PosBrown(Recipe):
    """Part-of-speech tagging on a million words."""

    name: ClassVar[str] = "pos-brown"
    title: ClassVar[str] = "Part-of-speech tagging with deterministic rules on a million words (Zhao & Marcus 2012)"

    def run(self, run: Run) -> Report:
        """Tables 6, 7, 9 on the Brown corpus."""
        report, corpus, iterations = Report(self.name, self.title), _brown(run), 2 if run.quick else 5
        here = simd()
        report.settings = {
            "iterations": iterations,
            "tags": "those of Brown without the suffixes -hl, -tl and -nc",
            "texts": "of 20, the 1st is for testing, the 11th for choosing",
            "speed": SPEED,
            "processor": f"{here.processor}, tier {here.tier}",
            corpus.name: f"{corpus.sizes()} tokens, {len(set(chain.from_iterable(corpus.train[1])))} tags",
        }
        _tables(run, corpus, report, PLANS, {}, iterations, rounds=5)
        return report


def _tables(
    run: Run,
    corpus: Corpus,
    report: Report,
    plans: Mapping[str, Mapping[str, Any]],
    chosen: dict[str, Choice],
    iterations: int,
    rounds: int,
) -> tuple[ConstrainedTagger, dict[str, dict[int, Measured]]]:
    """Train the taggers and add their tables; return the raw one and all figures."""
    report.tables += [_table_6(corpus), _table_7(corpus)]
    taggers: dict[str, dict[int, ConstrainedTagger]] = {name: {} for name in plans}
    for name, plan in plans.items():
        for width in (1, 5):
            run.say(f"{corpus.name}: {name}, beam {width}")
            tagger = ConstrainedTagger(**plan, width=width, iterations=iterations, seed=run.seed)
            taggers[name][width] = tagger.fit(*corpus.train)
    measured = measure(taggers, *corpus.test, rounds)
    evidence = _evidence({name: taggers[name][5] for name in ("raw", "constrained", ALL)}, corpus)
    report.tables += [_accuracy(corpus, measured, evidence, chosen), _speed(corpus, measured, evidence["share"])]
    report.tables.append(_breakdown(corpus, measured))
    report.charts.append(_chart(corpus, measured))
    report.figures[corpus.name] = {
        "choices on dev: accuracy, share decided": {name: choice.tried for name, choice in chosen.items()},
        "chosen": {name: choice.settings for name, choice in chosen.items()},
        "decided tokens": evidence,
        "seconds": {
            n: {
                w: {"whole": m.whole, "lookup": m.lookup, "rules": m.rules, "encode": m.encode, "search": m.search}
                for w, m in by.items()
            }
            for n, by in measured.items()
        },
    }
    return taggers["raw"][5], measured


def _iterations(run: Run) -> int:
    """Of all learners."""
    return 5 if run.quick else 10


# ---- data -----------------------------------------------------------------------------------------------------------


def _pair(examples: Iterator[Example]) -> tuple[X, Y]:
    xs, ys = X(), Y()
    for example in examples:
        if example.labels is None:
            raise example.error("a sentence has no tags", got="words only", wanted="a tag for each word")
        xs.append({"word": list(example.tokens)})
        ys.append(example.known_labels)
    return xs, ys


def _ewt(run: Run) -> Corpus:
    def part(name: str, quick: int) -> tuple[X, Y]:
        examples = read(run.file("pos-ewt", f"en_ewt-ud-{name}.conllu.gz"), "conllu")
        return _pair(islice(examples, quick if run.quick else None))

    return Corpus("pos-ewt", part("train", 2500), part("dev", 500), part("test", 500))


def _ptb(run: Run) -> Corpus:
    return _by_document("pos-ptb-sample", run.file("pos-ptb-sample", "wsj_0001-0199.pos.gz"), 2 if run.quick else 1, 10)


def _brown(run: Run) -> Corpus:
    corpus = _by_document("pos-brown", run.file("pos-brown", "brown.pos.gz"), 10 if run.quick else 1, 20)
    parts = (corpus.train, corpus.dev, corpus.test)
    return Corpus(corpus.name, *((xs, [[_SUFFIX.sub("", tag) for tag in y] for y in ys]) for xs, ys in parts))


_SUFFIX = re.compile(r"(?<=.)(-(hl|tl|nc))+$")  # headlines, titles, words that are quoted


def _by_document(name: str, path: Path, step: int, share: int) -> Corpus:
    """Sentences of one document are alike: of so many, one is for testing, one for choosing."""
    documents: dict[str, list[Example]] = {}
    for example in read(path, "conll"):
        document = next((w for c in example.comments for w in c.split() if w.startswith("doc=")), "")
        documents.setdefault(document, []).append(example)
    every = list(documents.values())[::step]
    if len(every) < share:
        wanted = f"{share} or more, each sentence under a comment with doc=NAME"
        raise FileError("too few documents to split", got=len(every), wanted=wanted, where=str(path))
    parts: list[list[Example]] = [[], [], []]
    for k, examples in enumerate(every):
        parts[{0: 2, share // 2: 1}.get(k % share, 0)] += examples
    train, dev, test = (_pair(iter(part)) for part in parts)
    return Corpus(name, train, dev, test)


# ---- measuring ------------------------------------------------------------------------------------------------------


def _chosen(run: Run, corpus: Corpus, train: Literal["open", "all"]) -> Choice:
    """The rules that decide the most tokens of dev, of those with which tagging is nearly as accurate as with any."""
    tried: dict[tuple[float, int, int], tuple[float, float]] = {}
    for settings in CHOICES:
        run.say(f"{corpus.name}: rules with {settings}, trained on {train} tokens")
        rules = DeterministicRules(threshold=settings[0], cutoff=settings[1], rare=settings[2])
        tagger = ConstrainedTagger(rules, train=train, iterations=_iterations(run), seed=run.seed).fit(*corpus.train)
        assert tagger.rules_ is not None
        tried[settings] = 100 * tagger.score(*corpus.dev), tagger.rules_.decide(corpus.dev[0]).share
    enough = max(accuracy for accuracy, _ in tried.values()) - NEAR / 2
    best = max((result for result in tried if tried[result][0] >= enough), key=lambda result: tried[result][1])
    return Choice(*best, {str(results): result for results, result in tried.items()})


def _flat(ys: Sequence[Sequence[str]]) -> npt.NDArray[np.str_]:
    return np.array(list(chain.from_iterable(ys)), dtype=np.str_)


def _evidence(taggers: dict[str, ConstrainedTagger], corpus: Corpus) -> dict[str, float]:
    """Test tokens that the paper's rules decide, and the others: how many are right, in percent, by whom."""
    rules = taggers["constrained"].rules_
    assert rules is not None
    xs, ys = corpus.test
    sure, gold = rules.decide(xs).ids >= 0, _flat(ys)
    out = {"share": float(sure.mean())}
    for name, tagger in taggers.items():
        right = _flat(tagger.predict(xs)) == gold
        for part, which in (("decided", sure), ("open", ~sure)):
            out[f"{name}, {part}"] = 100 * float(right[which].mean()) if which.any() else float("nan")
    return out


# ---- tables ---------------------------------------------------------------------------------------------------------


def _table_6(corpus: Corpus) -> Table:
    result = {}
    for contexts in PAPER_6:
        rules = DeterministicRules(contexts=contexts).fit(*corpus.train)  # type: ignore[arg-type]
        counts = rules.score(*corpus.dev)
        result[contexts] = (counts.precision, counts.recall, counts.f1, rules.n_rules_)
    seen = {
        "bigram": result["bigram"][1] > result["trigram"][1],
        "trigram": result["trigram"][0] >= result["bigram"][0],
        "both": result["both"][1] > result["bigram"][1] and result["both"][0] >= result["bigram"][0] - 0.005,
    }
    rows = [
        Row(
            contexts,
            [*(Cell(a, b, 3) for a, b in zip(ours[:3], PAPER_6[contexts], strict=True)), Cell(ours[3])],
            seen[contexts],
        )
        for contexts, ours in result.items()
    ]
    grown = []
    for part in (4, 2):
        fewer = (corpus.train[0][::part], corpus.train[1][::part])
        grown.append(DeterministicRules().fit(*fewer).score(*corpus.dev).recall)
    tokens = sum(map(len, corpus.train[1]))
    return Table(
        f"Table 6, {corpus.name}, dev: rules alone",
        ["precision", "recall", "F1", "rules"],
        rows,
        "trigrams are the most precise, bigrams decide more, both together the most, with little loss of precision.",
        f"How much is decided depends on the size of the training data: with a quarter, a half and all of {tokens:,} "
        f"tokens the recall of both is {grown[0]:.3f}, {grown[1]:.3f} and {result['both'][1]:.3f}. The paper's rules "
        "were learned from sections 0-18 of the Wall Street Journal.",
    )


def _table_7(corpus: Corpus) -> Table:
    lines = DeterministicRules().fit(*corpus.train).lines()
    good = (line for line in lines if "{" in line and "|" not in line and "s>" not in line)
    rows = []
    for line in islice(good, 0, 400, 80):
        rule, _, evidence = line.rpartition("  # ")
        rows.append(Row(f"`{rule}`", [Cell(evidence)]))
    return Table(f"Table 7, {corpus.name}: rules with morph features", ["held in training"], rows)


def _accuracy(
    corpus: Corpus, measured: dict[str, dict[int, Measured]], evidence: dict[str, float], chosen: dict[str, Choice]
) -> Table:
    raw = measured["raw"]
    rows = []
    for name, by in measured.items():
        item, five = by[1].accuracy, by[5].accuracy
        paper = PAPER_9.get(name, ((None, None), ()))[0]
        if name == "raw":
            seen, note = item < five, f"the narrow beam costs {five - item:.2f}"
        else:
            seen = item > raw[1].accuracy and five >= raw[5].accuracy - NEAR
            note = f"against raw {item - raw[1].accuracy:+.2f} and {five - raw[5].accuracy:+.2f}"
        if name in chosen:
            note += "; " + ", ".join(f"{key} {value}" for key, value in chosen[name].settings.items())
        rows.append(Row(name, [Cell(item, paper[0]), Cell(five, paper[1])], seen, note))
    return Table(
        f"Table 9, {corpus.name}, test: accuracy in percent",
        ["beam 1", "beam 5"],
        rows,
        "the constrained tagger is more accurate than the raw one: +0.34 with beam 1, +0.04 with beam 5.",
        f"With the paper's settings rules decide {evidence['share']:.1%} of the test tokens, "
        f"{evidence['constrained, decided']:.2f} % of them rightly; the raw tagger has "
        f"{evidence['raw, decided']:.2f} % of the same tokens right. On the tokens left open the constrained tagger "
        f"has {evidence['constrained, open']:.2f} % right, the raw one {evidence['raw, open']:.2f} %, the one trained "
        f"on all tokens {evidence[f'{ALL}, open']:.2f} %: it has the raw tagger's weights, and takes the best "
        "labelling that keeps what is decided.",
    )


def _speed(corpus: Corpus, measured: dict[str, dict[int, Measured]], share: float) -> Table:
    base = measured["raw"][5]
    rows = []
    for name, by in measured.items():
        paper = PAPER_9.get(name, ((), (None, None)))[1]
        whole = {width: base.whole / result.whole for width, result in by.items()}
        after = (base.encode + base.search) / (by[5].encode + by[5].search)
        cells = [Cell(whole[1], paper[0]), Cell(whole[5], paper[1]), Cell(after), Cell(base.search / by[5].search)]
        rows.append(Row(name, cells, whole[1] > 1 if name == "raw" else whole[5] >= 5))
    words, rules = sum(map(len, corpus.test[1])), measured["constrained"][5]
    most = base.whole / (base.lookup + (1 - share) * (base.encode + base.search))
    return Table(
        f"Table 9, {corpus.name}, test: speed, raw with beam 5 = 1",
        ["beam 1, all", "beam 5, all", "beam 5, encode + score + search", "beam 5, score + search"],
        rows,
        "constrained tagging with beam 5 is 10 times as fast as raw (wanted here: 5).",
        f"Our raw tagger with beam 5 reads {words / base.whole:,.0f} words a second in one thread. Of its time, the "
        f"rules with the paper's settings cost {rules.rules / base.whole:.0%}; what they save in features, scores and "
        f"search is {(base.encode + base.search - rules.encode - rules.search) / base.whole:.0%}. They decide "
        f"{share:.1%} of these tokens: if they were free, and every other token as expensive as in the raw tagger, "
        f"tagging would be {most:.1f} times as fast. All: texts looked up, rules, features, scores, search, lists of "
        "labels.",
    )


def _breakdown(corpus: Corpus, measured: dict[str, dict[int, Measured]]) -> Table:
    base = measured["raw"][5].whole
    rows = []
    for name, by in measured.items():
        m = by[5]
        parts = (m.lookup, m.rules, m.encode, m.search, m.whole)
        rows.append(Row(name, [Cell(100 * part / base, digits=1) for part in parts]))
    return Table(
        f"Where the time goes, {corpus.name}, beam 5, in percent of raw",
        ["texts", "rules", "features", "score + search", "all"],
        rows,
    )


def _chart(corpus: Corpus, measured: dict[str, dict[int, Measured]]) -> Chart:
    series = {f"beam {width}": [by[width].accuracy for by in measured.values()] for width in (1, 5)}
    return Chart(f"Accuracy, {corpus.name}, test", list(measured), series, "lines", "percent")


def _peers(run: Run, corpus: Corpus, ours_raw: ConstrainedTagger, raw: Measured, constrained: Measured) -> Table:
    ours = {"Bridle, raw, beam 5": raw, f"Bridle, {ALL_CHOSEN}, beam 5": constrained}
    rows = [Row(name, [Cell(m.accuracy), Cell(raw.whole / m.whole)]) for name, m in ours.items()]
    missing = []
    for name, peer in PEERS.items():
        run.say(f"{corpus.name}: {name}")
        try:
            tagger: Peer = peer(corpus.train, _iterations(run), run.seed)
        except ImportError:
            missing.append(name)
            continue
        xs = corpus.test[0]
        right = _flat(tagger(xs)) == _flat(corpus.test[1])
        both = {"peer": partial(tagger, xs), "raw": partial(ours_raw.predict, xs, threads=1)}
        seconds = seconds_of(both, 1 if run.quick else 3)
        accuracy = 100 * float(right.mean())
        beaten = max(raw.accuracy, constrained.accuracy) >= accuracy
        rows.append(
            Row(
                name,
                [Cell(accuracy), Cell(seconds["raw"] / seconds["peer"], digits=3)],
                beaten,
                "ours is not worse" if beaten else "ours is worse",
            )
        )
    return Table(
        f"Beside others, {corpus.name}, test: the same training data",
        ["accuracy", "speed"],
        rows,
        analysis=f"Left out, since they are not installed: {', '.join(missing)}." if missing else "",
    )
