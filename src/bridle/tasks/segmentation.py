"""`segmentation`: Chinese words by characters and by words (Zhao & Marcus 2012), Tables 8, 10 and 11."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from bridle.features import Templates
from bridle.learn import Decided, DeterministicRules
from bridle.models import CRF
from bridle.report import score
from bridle.report.tables import Cell, Chart, Report, Row, Table
from bridle.rules import well_formed
from bridle.spans import SpanDecoder, SpanDecoding, SpanLattice
from bridle.tasks.base import Recipe, Run
from bridle.tasks.segmentation_data import Corpus, Sentence, characters, hkcancor, labels_of, pku
from bridle.tasks.segmentation_words import Floats, Spans, WordCounts, spans_of, word_scores

PAPER_8 = {"BMES": (0.989, 0.566, 0.720), "IB": (0.996, 0.686, 0.812)}
VITERBI, ILP, COUNTS = (0.971, 0.966, 0.968), (0.970, 0.977, 0.974), (None, None, 0.975)
PAPER_11 = {"raw": (0.974, 1290.4, 113), "constrained": (0.974, 83.75, 12190)}
ALONE = "Viterbi, characters only"
SUMMED, OWN = "word lattice, the same weights", "word lattice, weights trained with it"
ROUNDS = 5  # of training with the lattice, and of the weights of word counts


@dataclass(frozen=True, slots=True)
class Found:
    """How good a segmentation is."""

    precision: float
    recall: float
    f1: float
    unknown: float  # recall of words that training does not have

    def cells(self, paper: Sequence[float | None] = (None, None, None)) -> list[Cell]:
        """For a table."""
        ours = (self.precision, self.recall, self.f1)
        return [*(Cell(a, b, 3) for a, b in zip(ours, paper, strict=True)), Cell(self.unknown, digits=3)]


@dataclass(frozen=True, slots=True)
class Judge:
    """Compares segmentations with gold."""

    gold: list[Sentence]
    known: frozenset[str]

    @classmethod
    def of(cls, gold: list[Sentence], train: Iterable[Sentence]) -> Judge:
        """With the words of training."""
        return cls(gold, frozenset(word for words in train for word in words))

    def __call__(self, guessed: Sequence[Spans]) -> Found:
        """Precision, recall and F of words."""
        new = hit = correct = n_guessed = n_gold = 0
        for words, spans in zip(self.gold, guessed, strict=True):
            there, right = set(spans), spans_of(words)
            correct += len(there & set(right))
            n_guessed, n_gold = n_guessed + len(spans), n_gold + len(right)
            fresh = [span for word, span in zip(words, right, strict=True) if word not in self.known]
            new, hit = new + len(fresh), hit + sum(span in there for span in fresh)
        precision, recall = correct / max(n_guessed, 1), correct / max(n_gold, 1)
        return Found(precision, recall, 2 * correct / max(n_guessed + n_gold, 1), hit / max(new, 1))

    def labels(self, labels: Sequence[Sequence[str]]) -> Found:
        """The same of BMES labels, well formed or not."""
        spans = []
        for tags in labels:
            cuts = [k for k in range(1, len(tags)) if tags[k] in "BS" or tags[k - 1] in "ES"]
            spans.append(list(zip([0, *cuts], [*cuts, len(tags)], strict=True)))
        return self(spans)


class Segmentation(Recipe):
    """Word segmentation: characters, word lattices, and rules that make the lattices small."""

    name: ClassVar[str] = "segmentation"
    title: ClassVar[str] = "Chinese word segmentation with word lattices and learned rules (Zhao & Marcus 2012)"

    def run(self, run: Run) -> Report:
        """Tables 8, 10, 11 on the People's Daily and on Cantonese talk, and peers."""
        report = Report(self.name, self.title)
        report.settings = {
            "width": "all ASCII folded to full width, in training and in testing",
            "sentences": "paragraphs are cut after 。！？； and what closes a quotation after it",
            "perceptrons": f"{_iterations(run)} iterations; {ROUNDS} with the lattice in training and for word counts",
            "word counts": "weighed by an averaged perceptron on dev, from which no other row learns, scores of "
            "characters standing still; no word longer than the longest of training",
            "words": "the raw ILP has all n(n+1)/2 of them, as in the paper",
        }
        for corpus in [make(run) for make in (pku, hkcancor)]:  # all files are asked for before the work begins
            run.say(f"{corpus.name}: {corpus.sizes()}")
            report.settings[corpus.name] = corpus.sizes()
            _corpus(run, corpus, report)
        return report


def _iterations(run: Run) -> int:
    return 5 if run.quick else 10


def _corpus(run: Run, corpus: Corpus, report: Report) -> None:
    rules, table_8 = _rules(run, corpus)
    report.tables.append(table_8)
    judge = Judge.of(corpus.test, corpus.train)
    found, model = _characters(run, corpus, judge)
    names = list(model.labels_.names)
    tables = _tables(model, corpus.test, names)
    run.say(f"{corpus.name}: word counts")
    found["word lattice with word counts"] = judge(_with_counts(run, corpus, model, tables))
    report.tables.append(_table_10(corpus, found))
    report.charts.append(Chart(f"F of words, {corpus.name}, test", list(found), {"F": [f.f1 for f in found.values()]}))
    decided = rules.decide(characters(corpus.test), threads=run.threads)
    table, figures = _table_11(run, corpus, judge, tables, decided)
    report.tables.append(table)
    report.figures[corpus.name] = figures
    if corpus.name == "cws-pku":
        report.tables.append(_peers(run, corpus, judge, found))


# ---- Table 8 --------------------------------------------------------------------------------------------------------


def _rules(run: Run, corpus: Corpus) -> tuple[DeterministicRules, Table]:
    counts = {}
    for scheme in ("BMES", "IB"):
        run.say(f"{corpus.name}: rules about {scheme}")
        y, held = ([labels_of(s, scheme) for s in part] for part in (corpus.train, corpus.dev))
        rules = DeterministicRules("characters").fit(characters(corpus.train), y)
        counts[scheme] = (rules.score(characters(corpus.dev), held), rules.n_rules_)
    (bmes, _), (ib, _) = counts["BMES"], counts["IB"]
    rows = []
    for scheme, (c, n) in counts.items():
        ours = zip((c.precision, c.recall, c.f1), PAPER_8[scheme], strict=True)
        seen = None if scheme == "BMES" else ib.precision > bmes.precision and ib.recall > bmes.recall
        rows.append(Row(scheme, [*(Cell(a, b, 3) for a, b in ours), Cell(n)], seen))
    return rules, Table(
        f"Table 8, {corpus.name}, dev: rules alone", ["precision", "recall", "F1", "rules"], rows,
        "rules about IB are more precise than rules about BMES, and decide more.",
    )  # fmt: skip


# ---- Table 10 -------------------------------------------------------------------------------------------------------


def _characters(run: Run, corpus: Corpus, judge: Judge) -> tuple[dict[str, Found], CRF]:
    """Character models on the test set, and the one whose word lattices do best on dev."""
    alone = [line for line in str(Templates.parse("characters")).splitlines() if line != "label[-1]"]
    X, y = characters(corpus.train), [labels_of(s, "BMES") for s in corpus.train]
    dev, test = characters(corpus.dev), characters(corpus.test)
    shared: dict[str, Any] = {"scheme": "BMES", "seed": run.seed, "threads": run.threads}
    run.say(f"{corpus.name}: characters by themselves")
    plain = CRF("perceptron", features=alone, iterations=_iterations(run), **shared).fit(X, y)
    run.say(f"{corpus.name}: characters with label pairs")
    pairs = CRF("perceptron", features="characters", iterations=_iterations(run), **shared).fit(X, y)
    run.say(f"{corpus.name}: characters, training with the lattice")
    own = CRF("ibt", features=alone, rules=[well_formed()], iterations=ROUNDS, **shared).fit(X, y)
    found = {
        ALONE: judge.labels(plain.predict(test)),
        "Viterbi, with label pairs": judge.labels(pairs.predict(test)),
    }
    on_dev, of_dev = {}, [labels_of(s, "BMES") for s in corpus.dev]
    for name, model in ((SUMMED, plain), (OWN, own)):
        found[name] = judge(_decoded(_tables(model, corpus.test, list(model.labels_.names)), run.threads))
        on_dev[name] = score(of_dev, model.predict(dev, [well_formed()]), "BMES").segments.f1
    return found, plain if on_dev[SUMMED] >= on_dev[OWN] else own


def _longest(corpus: Corpus) -> int:
    """The longest word of training; longer ones are not proposed."""
    return max((len(word) for words in corpus.train for word in words), default=1)


def _tables(model: CRF, part: list[Sentence], names: list[str], longest: int | None = None) -> list[Floats]:
    """The scores of all possible words of sentences."""
    batch = model.lattices(characters(part))
    cuts = batch.offsets.tolist()
    rows = (batch.unary[a:b] for a, b in pairwise(cuts))
    return [word_scores(unary, names, longest or len(unary)) for unary in rows]


def _decoded(tables: Sequence[Floats], threads: int) -> list[Spans]:
    lattices = [SpanLattice.all_words(len(table), table) for table in tables]
    return [d.words for d in SpanDecoder().decode_batch(lattices, threads=threads)]


def _with_counts(run: Run, corpus: Corpus, model: CRF, tables: Sequence[Floats]) -> list[Spans]:
    longest = _longest(corpus)
    counts = WordCounts(corpus.train, longest)
    dev = _tables(model, corpus.dev, list(model.labels_.names), longest)
    asked = [counts.ask("".join(words)) for words in corpus.dev]
    counts.fit(dev, asked, [spans_of(words) for words in corpus.dev], rounds=ROUNDS, seed=run.seed)
    short = [table[:, :longest] for table in tables]
    added = [
        counts.added(table, counts.ask("".join(words))) for table, words in zip(short, corpus.test, strict=True)
    ]  # fmt: skip
    return _decoded(added, run.threads)


def _table_10(corpus: Corpus, found: dict[str, Found]) -> Table:
    paper = {ALONE: VITERBI, SUMMED: ILP, OWN: ILP, "word lattice with word counts": COUNTS}
    base, words = found[ALONE].f1, max(found[SUMMED].f1, found[OWN].f1)
    rows = []
    for name, f in found.items():
        seen, note = None, f"{100 * (f.f1 - base):+.2f}"
        if name in (SUMMED, OWN):
            seen = f.f1 > base
        elif name not in (ALONE, "Viterbi, with label pairs"):
            seen, note = f.f1 > words, f"{100 * (f.f1 - words):+.2f} against the better word lattice"
        rows.append(Row(name, f.cells(paper.get(name, (None, None, None))), seen, "" if name == ALONE else note))
    pairs = found["Viterbi, with label pairs"].f1
    return Table(
        f"Table 10, {corpus.name}, test: words", ["precision", "recall", "F", "OOV recall"], rows,
        "decoding words, which leaves out labels that make no words, gains 0.6 points of F over Viterbi with the same "
        "features; word counts gain 0.1 more.",
        "The features of section 3.1 have no label pairs, so that Viterbi may choose labels that make no words. Pairs "
        f"bring it {100 * (pairs - base):+.2f} points, the better word lattice {100 * (words - base):+.2f}.",
    )  # fmt: skip


# ---- Table 11 -------------------------------------------------------------------------------------------------------


def _table_11(
    run: Run, corpus: Corpus, judge: Judge, tables: Sequence[Floats], decided: Decided
) -> tuple[Table, dict[str, Any]]:
    begin = decided.labels.id("B")

    def begins(k: int) -> list[int]:
        ids = decided.ids[decided.offsets[k] : decided.offsets[k + 1]]
        return np.flatnonzero(ids == begin).tolist()

    def both(k: int) -> SpanLattice:
        table = tables[k]
        spans = np.array(list(decided.words(k, len(table))), dtype=np.int32).reshape(-1, 2)
        return SpanLattice(len(table), spans, table[spans[:, 0], spans[:, 1] - spans[:, 0] - 1])

    kinds: dict[str, Callable[[int], SpanLattice]] = {
        "raw": lambda k: SpanLattice.all_words(len(tables[k]), tables[k]),
        "constrained": lambda k: SpanLattice.all_words(len(tables[k]), tables[k], begins=begins(k)),
        "constrained, what is decided to be inside too": both,
    }
    sample = _sample(run, tables)
    rows, figures = [], dict[str, Any]()
    raw_f = raw_speed = 0.0
    for name, make in kinds.items():
        run.say(f"{corpus.name}: {name}, native on all, ILP on {len(sample)} sentences")
        every = [make(k) for k in range(len(tables))]
        native, native_speed = _timed(SpanDecoder(), every)
        few = [every[k] for k in sample]
        by_ilp, ilp_speed = _timed(SpanDecoder(engine="ilp"), few)
        gap = max((abs(a.score - native[k].score) for a, k in zip(by_ilp, sample, strict=True)), default=0.0)
        f = judge([d.words for d in native]).f1
        if name == "raw":
            raw_f, raw_speed = f, ilp_speed
        paper = PAPER_11.get(name, (None, None, None))
        ratio = ilp_speed / raw_speed
        paper_ratio = {"raw": 1.0, "constrained": 107.0}.get(name)
        cells = [
            Cell(f, paper[0], 3), Cell(float(np.mean([len(x) for x in every])), paper[1], 1),
            Cell(ilp_speed, paper[2], 0), Cell(ratio, paper_ratio, 1), Cell(native_speed, None, 0),
            Cell(native_speed / raw_speed, None, 0),
        ]  # fmt: skip
        seen = None if name == "raw" else ratio >= 50 and f >= raw_f - 0.002
        rows.append(Row(name, cells, seen, "" if name == "raw" else f"F {100 * (f - raw_f):+.2f}"))
        figures[name] = {
            "ILP and native differ by at most": gap,
            "ILP seconds": [d.stats["build_seconds"] + d.stats["solve_seconds"] for d in by_ilp],
            "sample": len(sample), "words in the sample": float(np.mean([len(x) for x in few])),
        }  # fmt: skip
    gap = max(figure["ILP and native differ by at most"] for figure in figures.values())
    return Table(
        f"Table 11, {corpus.name}, test: size and speed",
        ["F (native, all)", "words per sentence", "ILP, characters/s", "ratio", "native, characters/s", "to raw ILP"],
        rows, "with learned rules about IB the ILP is 107 times as fast, at no loss (wanted: 50; at most 0.2 of F).",
        f"ILP: HiGHS on {len(sample)} sentences drawn at random; there its scores and the native decoder's differ by "
        f"at most {gap:.1g}. Times are processor times of decoding, building the program included; the paper's solver "
        "was GLPK. "
        + _by_size(figures, [len(tables[k]) for k in sample]),
    ), figures  # fmt: skip


def _by_size(figures: dict[str, Any], lengths: Sequence[int]) -> str:
    """What the ratio depends on: the fixed cost of a call, and how large the raw program is."""
    raw, small = (np.array(figures[name]["ILP seconds"]) for name in ("raw", "constrained"))
    large = np.array([n * (n + 1) / 2 > PAPER_11["raw"][1] for n in lengths])
    text = f"By the clock, no sentence takes HiGHS less than {1000 * small.min():.2f} ms, however small. "
    for name, which in (("at most", ~large), ("more than", large)):
        if which.any():
            ratio = raw[which].sum() / small[which].sum()
            text += f"On the {which.sum()} with {name} 1,290 words (the paper's mean) the ratio is {ratio:.1f}. "
    return text.rstrip()


def _sample(run: Run, tables: Sequence[Floats]) -> list[int]:
    size = min(len(tables), 40 if run.quick else 200)
    return sorted(random.Random(run.seed).sample(range(len(tables)), size))


def _timed(
    decoder: SpanDecoder, lattices: Sequence[SpanLattice]
) -> tuple[list[SpanDecoding], float]:
    """Decodings, and characters per second of processor time in one thread; the best of five, or of one by ILP."""
    best = float("inf")
    for _ in range(1 if decoder.plan.engine == "ilp" else 5):
        begun = time.process_time()
        found = decoder.decode_batch(lattices, threads=1)
        best = min(best, time.process_time() - begun)
    return list(found), sum(x.n for x in lattices) / best


# ---- peers ----------------------------------------------------------------------------------------------------------


def _peers(run: Run, corpus: Corpus, judge: Judge, found: dict[str, Found]) -> Table:
    best = max(found, key=lambda name: found[name].f1)
    rows, missing = [Row(f"Bridle, {best}", found[best].cells())], []
    for name, make in (("jieba", _jieba), ("pkuseg", _pkuseg)):
        run.say(f"{corpus.name}: {name}")
        try:
            cut = make()
        except ImportError:
            missing.append(name)
            continue
        f = judge([spans_of(cut("".join(words))) for words in corpus.test])
        rows.append(Row(name, f.cells(), None, "its own training data and standard of what a word is"))
    return Table(
        f"Beside others, {corpus.name}, test", ["precision", "recall", "F", "OOV recall"], rows,
        analysis=f"Left out, since they are not installed: {', '.join(missing)}." if missing else "",
    )


def _jieba() -> Callable[[str], list[str]]:
    import jieba

    jieba.setLogLevel("ERROR")
    return lambda text: list(jieba.cut(text))


def _pkuseg() -> Callable[[str], list[str]]:
    import pkuseg

    segmenter = pkuseg.pkuseg()
    return lambda text: list(segmenter.cut(text))
