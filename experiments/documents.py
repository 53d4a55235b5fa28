"""`documents`: agreement across the sentences of a document, learned; Wikigold by document, five random splits.

    plain       a CRF with the features `ner`, regularisation chosen by cross-validation over documents, Viterbi
    learned     rules that `fit_rules` finds and prices with `groups=`: agreement of equal tokens and its price, too
    vote        after plain decoding, every capitalised text gets the label that most of its tokens have

F1 over the test documents of all splits together, with a paired bootstrap over documents.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle import check
from bridle.labels import Labels
from bridle.learn import fit_rules
from bridle.models import CRF
from bridle.processor import simd
from bridle.report.sequences import SequenceScores
from bridle.rules import Rule, Soft
from experiments.base import Recipe, Run
from experiments.tables import Cell, Chart, Report, Row, Table

PLAIN, LEARNED, VOTE = WAYS = ("plain", "learned", "vote")
DRAWS = 10_000
SECONDS = 20.0  # for each document

Ints = npt.NDArray[np.int64]
Sentence = tuple[list[str], list[str]]  # words and labels
PUBLISHED = (
    "Published gains of the same kind, from the papers and not repeated here: Finkel, Grenager and Manning (2005) "
    "report up to 9 % fewer errors of F1 on CoNLL-2003 and on seminar announcements, by Gibbs sampling; Krishnan and "
    "Manning (2006) 12.6 % on CoNLL-2003, with a second CRF that reads the labels of the first. Rush, Reichart, "
    "Collins and Globerson (2012) decode consistency between sentences exactly by dual decomposition, as here, for "
    "tagging and parsing with little or foreign training data; their gains are in other measures."
)


class Split(NamedTuple):
    """The test documents of one split: segments right, guessed and gold of each, per way, and what was chosen."""

    counts: dict[str, Ints]  # [way] (D, 3)
    rules: Sequence[Rule]
    proved: int
    worse: int  # documents for which the vote is not the best labelling under the rules
    foreseen: float


@dataclass(frozen=True, slots=True)
class Gain:
    """The difference of F1 that a way makes."""

    before: float
    after: float
    low: float
    high: float
    p: float

    @classmethod
    def of(cls, before: Ints, after: Ints, seed: int) -> Gain:
        """Draw documents with replacement."""
        rng, size = np.random.default_rng(seed), len(before)
        weights = rng.multinomial(size, np.full(size, 1 / size), size=DRAWS)
        d = _f1(weights @ after) - _f1(weights @ before)
        low, high = np.quantile(d, [0.025, 0.975])
        sides = 1 + min((d <= 0).sum(), (d >= 0).sum())
        first, second = (float(_f1(counts.sum(axis=0))) for counts in (before, after))
        return cls(first, second, float(low), float(high), min(1.0, float(2 * sides / (1 + DRAWS))))


def _f1(counts: Ints) -> npt.NDArray[np.float64]:
    """F1 of segments right, guessed and gold, in the last axis."""
    return np.asarray(2 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1))


def read_documents(run: Run) -> list[list[Sentence]]:
    """The sentences of each document of Wikigold."""
    text = gzip.decompress(run.file("ner-wikigold", "wikigold.conll.txt.gz").read_bytes()).decode()
    documents: list[list[Sentence]] = [[]]
    for block in text.split("\n\n"):
        rows = [line.split(" ") for line in block.splitlines() if line.strip()]
        if rows and rows[0][0] == "-DOCSTART-":
            documents.append([])
        elif rows:
            documents[-1].append(([row[0] for row in rows], [row[1] for row in rows]))
    return [document for document in documents if document]


class Documents(Recipe):
    """Agreement that is learned."""

    name = "documents"
    title = "Documents: agreement of names across sentences, learned on Wikigold"

    def run(self, run: Run) -> Report:
        """Measure all splits."""
        every, splits = read_documents(run), list[Split]()
        for k in range(count := 1 if run.quick else 5):
            run.say(f"split {k + 1} of {count}")
            order = np.random.default_rng(run.seed + k).permutation(len(every)).tolist()
            cut = round(0.7 * len(every))
            splits.append(_split(run, [every[d] for d in order[:cut]], [every[d] for d in order[cut:]], run.seed + k))
        report = Report(self.name, self.title, [_gains(splits, run.seed), _splits(splits)])
        shares = {way: [100 * float(_f1(split.counts[way].sum(axis=0))) for split in splits] for way in WAYS}
        report.charts = [Chart("F1 of entities", [f"split {k + 1}" for k in range(len(splits))], shares, label="%")]
        here = simd()
        report.settings = {
            "data": f"{len(every)} documents, {sum(map(len, every)):,} sentences; 70 % for training",
            "splits": f"{len(splits)} at random by document, seeds {run.seed} to {run.seed + len(splits) - 1}",
            "model": 'CRF(features="ner"), c1 and c2 by cross-validation over documents',
            "rules": "fit_rules(model, X, y, groups=documents), as `bridle learn --groups` does; nothing else is set",
            "bootstrap": f"{DRAWS:,} samples of test documents",
            "processor": f"{here.processor}, tier {here.tier}",
        }
        report.figures = {
            "counts": {way: [split.counts[way].tolist() for split in splits] for way in WAYS},
            "rules": [[str(rule) for rule in split.rules] for split in splits],
        }
        return report


def _split(run: Run, train: list[list[Sentence]], test: list[list[Sentence]], seed: int) -> Split:
    X, y = ([sentence[part] for document in train for sentence in document] for part in (0, 1))
    groups = [d for d, document in enumerate(train) for _ in document]
    model = CRF(features="ner", seed=seed, threads=run.threads).fit(X, y, groups=groups)
    fitted = fit_rules(model, X, y, groups=groups, seed=seed, threads=run.threads)
    lattices = [[model.lattice(words) for words, _ in document] for document in test]
    given = [[{"tokens": words} for words, _ in document] for document in test]
    plain = model.decoder().decode_documents(lattices, threads=run.threads)
    decoder = model.decoder(fitted.rules, time_limit=SECONDS, on_infeasible="relax")
    learned = decoder.decode_documents(lattices, given, threads=run.threads)
    voted = [_vote(document, decoding.labels) for document, decoding in zip(test, plain, strict=True)]
    worse = 0
    for sentences, its, labels, decoding in zip(lattices, given, voted, learned, strict=True):
        vote = replace(decoding, ids=[model.labels_.ids(y).astype(np.int32) for y in labels])
        worse += decoding.score - check(sentences, fitted.rules, vote, its).score > 1e-6
    guesses = {PLAIN: [d.labels for d in plain], LEARNED: [d.labels for d in learned], VOTE: voted}
    counts = {way: _counts(model.labels_, test, labels) for way, labels in guesses.items()}
    foreseen = (fitted.held_out["f1"] - fitted.plain["f1"]) * fitted.won
    return Split(counts, fitted.rules, sum(d.optimal for d in learned), worse, foreseen)


def _vote(document: list[Sentence], guessed: list[list[str]]) -> list[list[str]]:
    """Every capitalised text gets the label that most of its tokens have."""
    seen: dict[str, Counter[str]] = {}
    for (words, _), labels in zip(document, guessed, strict=True):
        for word, label in zip(words, labels, strict=True):
            if word[0].isupper():
                seen.setdefault(word, Counter())[label] += 1
    most = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    return [
        [most.get(word, label) for word, label in zip(words, labels, strict=True)]
        for (words, _), labels in zip(document, guessed, strict=True)
    ]


def _counts(labels: Labels, documents: list[list[Sentence]], guesses: list[list[list[str]]]) -> Ints:
    """(D, 3): segments right, guessed and gold."""
    gold = list(chain.from_iterable(y for document in documents for _, y in document))
    strange = sorted({*gold}.difference(labels))
    known = Labels([*labels, *strange], labels.scheme)
    sizes = [len(words) for document in documents for words, _ in document]
    guess = known.ids(list(chain.from_iterable(chain.from_iterable(guesses))))
    scores = SequenceScores.of(known, known.ids(gold), guess, np.cumsum([0, *sizes]).astype(np.int64))
    begin = np.cumsum([0, *map(len, documents[:-1])])
    return np.add.reduceat(np.stack([scores.correct, scores.guessed, scores.gold], axis=1), begin)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _gains(splits: Sequence[Split], seed: int) -> Table:
    whole = {way: np.concatenate([split.counts[way] for split in splits]) for way in WAYS}
    rows = [Row(PLAIN, [Cell(100 * float(_f1(whole[PLAIN].sum(axis=0)))), *[Cell(None)] * 3])]
    for way in (LEARNED, VOTE):
        gain = Gain.of(whole[PLAIN], whole[way], seed)
        shown = f"{100 * (gain.after - gain.before):+.2f} ({100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
        left = f"{(gain.after - gain.before) / (1 - gain.before):+.1%}"
        rows.append(Row(way, [Cell(100 * gain.after), Cell(shown), Cell(f"{gain.p:.2g}"), Cell(left)]))
    tested, proved = len(whole[PLAIN]), sum(split.proved for split in splits)
    worse = sum(split.worse for split in splits)
    analysis = (
        f"{proved} of {tested} test documents are proved optimal. The vote is not the best labelling under the learned "
        f"rules for {worse} of {tested}. Test documents of different splits overlap, so the interval is a little too "
        f"narrow.\n\n{PUBLISHED}"
    )
    columns = ("F1, %", "gain (95 % interval)", "p", "share of the errors")
    return Table("F1 of entities in the test documents of all splits", columns, rows, "", analysis)


def _splits(splits: Sequence[Split]) -> Table:
    rows = []
    for k, split in enumerate(splits):
        figures = [Cell(100 * float(_f1(split.counts[way].sum(axis=0)))) for way in WAYS]
        rules = "; ".join(f"`{rule}`" for rule in sorted(split.rules, key=lambda rule: not _across(rule)))
        rows.append(Row(str(k + 1), [*figures, Cell(100 * split.foreseen), Cell(rules)]))
    columns = (*(f"{way}: F1" for way in WAYS), "gain foreseen", "learned rules")
    return Table("Each split", columns, rows, "", "The gain foreseen is that on held-out training documents.")


def _across(rule: Rule) -> bool:
    return (rule.rule if isinstance(rule, Soft) else rule).of_document
