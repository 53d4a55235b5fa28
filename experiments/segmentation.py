"""`segmentation`: Chinese words by characters and by words (Zhao & Marcus 2012), Tables 8, 10 and 11."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from bridle import Segmenter
from bridle.features import Templates
from bridle.learn import DeterministicRules
from bridle.learn.word_scores import Floats, Spans, labels_of, spans_of, word_scores
from bridle.models import CRF
from bridle.processor import simd
from bridle.spans import SpanDecoder, SpanLattice
from experiments.base import Recipe, Run
from experiments.segmentation_data import Corpus, Sentence, characters, hkcancor, pku
from experiments.segmentation_speed import table_11
from experiments.tables import Cell, Chart, Report, Row, Table

PAPER_8 = {"BMES": (0.989, 0.566, 0.720), "IB": (0.996, 0.686, 0.812)}
VITERBI, ILP, COUNTS = (0.971, 0.966, 0.968), (0.970, 0.977, 0.974), (None, None, 0.975)
ALONE = "Viterbi, characters only"
SUMMED, OWN = "word lattice, the same weights", "word lattice, weights trained with it"
JOINT, COUNTED = "word lattice with word counts, learned together", "word lattice with word counts, stacked"
SETTINGS: dict[str, dict[str, Any]] = {  # of the class, by row
    OWN: {"counts": "none", "training": "joint"},
    JOINT: {"training": "joint"},
    COUNTED: {"training": "stacked"},
}


@dataclass(frozen=True, slots=True)
class Found:
    """Scores of a segmentation."""

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
        """Score BMES labels, well formed or not."""
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
        report, here = Report(self.name, self.title), simd()
        report.settings = {
            "width": "all ASCII folded to full width, in training and in testing",
            "sentences": "paragraphs are cut after 。！？； and what closes a quotation after it",
            "perceptrons": f"{_iterations(run)} iterations; with the lattice in training, the best of them on dev",
            "word counts": "learned on the training data, where the words of a sentence do not count themselves",
            "words": "the raw ILP has all n(n+1)/2 of them, as in the paper",
            "processor": f"{here.processor}, tier {here.tier}",
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
    result, tables = _characters(run, corpus, judge)
    report.tables.append(_table_10(corpus, result))
    report.charts.append(
        Chart(f"F of words, {corpus.name}, test", list(result), {"F": [f.f1 for f in result.values()]})
    )
    decided = rules.decide(characters(corpus.test), threads=run.threads)
    table, figures = table_11(run, corpus.name, lambda words: judge(words).f1, tables, decided)
    report.tables.append(table)
    report.figures[corpus.name] = figures
    if corpus.name == "cws-pku":
        report.tables.append(_peers(run, corpus, judge, result))


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
        f"Table 8, {corpus.name}, dev: rules alone",
        ["precision", "recall", "F1", "rules"],
        rows,
        "rules about IB are more precise than rules about BMES, and decide more.",
    )


# ---- Table 10 -------------------------------------------------------------------------------------------------------


def _characters(run: Run, corpus: Corpus, judge: Judge) -> tuple[dict[str, Found], list[Floats]]:
    """Models on the test set, and the scores of all words there by characters alone."""
    alone = [line for line in str(Templates.parse("characters")).splitlines() if line != "label[-1]"]
    X, y = characters(corpus.train), [labels_of(s, "BMES") for s in corpus.train]
    test = characters(corpus.test)
    shared: dict[str, Any] = {"scheme": "BMES", "seed": run.seed, "threads": run.threads}
    run.say(f"{corpus.name}: characters by themselves")
    plain = CRF("perceptron", features=alone, iterations=_iterations(run), **shared).fit(X, y)
    run.say(f"{corpus.name}: characters with label pairs")
    pairs = CRF("perceptron", features="characters", iterations=_iterations(run), **shared).fit(X, y)
    tables = _tables(plain, corpus.test)
    result = {
        ALONE: judge.labels(plain.predict(test)),
        "Viterbi, with label pairs": judge.labels(pairs.predict(test)),
        SUMMED: judge(_decoded(tables, run.threads)),
    }
    for name, settings in SETTINGS.items():
        run.say(f"{corpus.name}: {name}")
        segmenter = Segmenter(**settings, iterations=_iterations(run), seed=run.seed)
        decodings = segmenter.fit(corpus.train, dev=corpus.dev).decode(
            ["".join(s) for s in corpus.test], threads=run.threads
        )
        result[name] = judge([d.words for d in decodings])
    return result, tables


def _tables(model: CRF, part: list[Sentence]) -> list[Floats]:
    """The scores of all possible words of sentences."""
    batch, names = model.lattices(characters(part)), list(model.labels_.names)
    rows = (batch.unary[a:b] for a, b in pairwise(batch.offsets.tolist()))
    return [word_scores(unary, names, len(unary)) for unary in rows]


def _decoded(tables: Sequence[Floats], threads: int) -> list[Spans]:
    lattices = [SpanLattice.all_words(len(table), table) for table in tables]
    return [d.words for d in SpanDecoder().decode_batch(lattices, threads=threads)]


def _table_10(corpus: Corpus, result: dict[str, Found]) -> Table:
    paper = {ALONE: VITERBI, SUMMED: ILP, OWN: ILP, JOINT: COUNTS, COUNTED: COUNTS}
    base, words = result[ALONE].f1, max(result[SUMMED].f1, result[OWN].f1)
    rows = []
    for name, f in result.items():
        seen, note = None, f"{100 * (f.f1 - base):+.2f}"
        if name in (SUMMED, OWN):
            seen = f.f1 > base
        elif name not in (ALONE, "Viterbi, with label pairs"):
            seen, note = f.f1 > words, f"{100 * (f.f1 - words):+.2f} against the better word lattice"
        rows.append(Row(name, f.cells(paper.get(name, (None, None, None))), seen, "" if name == ALONE else note))
    pairs = result["Viterbi, with label pairs"].f1
    return Table(
        f"Table 10, {corpus.name}, test: words",
        ["precision", "recall", "F", "OOV recall"],
        rows,
        "decoding words, which leaves out labels that make no words, gains 0.6 points of F over Viterbi with the same "
        "features; word counts gain 0.1 more.",
        "The features of section 3.1 have no label pairs, so that Viterbi may choose labels that make no words. Pairs "
        f"bring it {100 * (pairs - base):+.2f} points, the better word lattice {100 * (words - base):+.2f}.",
    )


# ---- peers ----------------------------------------------------------------------------------------------------------


def _peers(run: Run, corpus: Corpus, judge: Judge, result: dict[str, Found]) -> Table:
    best = max(result, key=lambda name: result[name].f1)
    rows, missing = [Row(f"Bridle, {best}", result[best].cells())], []
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
        f"Beside others, {corpus.name}, test",
        ["precision", "recall", "F", "OOV recall"],
        rows,
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
