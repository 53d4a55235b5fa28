"""A full evaluation, as lines and as a page: figures, confusions, broken rules, wrong sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bridle.report.metrics import ERRORS, Counts, Scores, confusion_rows, most_confused
from bridle.report.page import AROUND, Page
from bridle.report.text import aligned, cut

LABELS = 30  # of a table, unless all are requested
CONFUSIONS = 10  # that are printed
MATRIX = 40  # labels of the matrix on a page


@dataclass(frozen=True, slots=True)
class WrongSequence:
    """A sequence with a wrong label."""

    name: str  # its id, or where it stands
    tokens: Sequence[str]  # (n)
    gold: Sequence[str]  # (n)
    guessed: Sequence[str]  # (n)
    wrong: Sequence[int]  # the tokens whose label is wrong

    @classmethod
    def of(
        cls, name: str, tokens: Sequence[str], gold: Sequence[str | None], guessed: Sequence[str]
    ) -> WrongSequence | None:
        """Return the sequence if a label is wrong. A gold label that is None is not known."""
        wrong = [t for t, (a, b) in enumerate(zip(gold, guessed, strict=True)) if a is not None and a != b]
        return cls(name, tokens, ["?" if y is None else y for y in gold], guessed, wrong) if wrong else None

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold."""
        labels = {"gold": list(self.gold), "predicted": list(self.guessed)}
        return {"sequence": self.name, "tokens": list(self.tokens), **labels}


@dataclass(frozen=True, slots=True)
class RuleCount:
    """The number of sequences that break a rule."""

    rule: str
    gold: int
    predicted: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores, wrong sequences and broken rules."""

    scores: Scores
    wrong: Sequence[WrongSequence] = ()  # the first ones
    rules: Sequence[RuleCount] = ()
    unanswered: int = 0  # sequences without predicted labels

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold."""
        figures = {**self.scores.to_dict(), "unanswered": self.unanswered}
        if self.rules:
            figures["rules"] = [asdict(rule) for rule in self.rules]
        if self.wrong:
            figures["wrong"] = [sequence.to_dict() for sequence in self.wrong]
        return figures

    # ---- lines ------------------------------------------------------------------------------------------------------

    def lines(self, labels: int | None = LABELS) -> Iterator[str]:
        """Print what conlleval prints, and more figures below. labels: how many to list; None lists all."""
        scores = self.scores
        yield from scores.lines()
        yield ""
        yield f"sequences all right: {_share(scores.exact_sequences, scores.sequences)}"
        if self.unanswered:
            yield f"sequences without predicted labels: {_share(self.unanswered, scores.sequences)}"
        if errors := _errors(scores):
            yield f"segments not right: {', '.join(f'{count:,} {name}' for name, count in errors)}"
        yield from ("", *aligned([["label", "precision", "recall", "f1", "support"], *_by_label(scores, labels)]))
        if labels is not None and len(scores.by_label) > labels:
            yield f"and {len(scores.by_label) - labels:,} more labels"
        if pairs := _confusions(scores):
            heads = ["gold", "predicted", "tokens", "of gold"]
            yield from ("", *aligned([heads, *pairs[:CONFUSIONS]], left=(0, 1)))
            if len(pairs) > CONFUSIONS:
                yield f"and {len(pairs) - CONFUSIONS:,} more confusions"
        if self.rules:
            yield from ("", *aligned([["rule", "broken by gold", "by predicted"], *self._rules()]))
        for sequence in self.wrong:
            yield from ("", *_wrong_lines(sequence))

    # ---- page -------------------------------------------------------------------------------------------------------

    def page(self, title: str, below: str = "") -> Page:
        """Make an HTML page of the same, with the matrix of confusions."""
        scores, page = self.scores, Page(title, below)
        segments = scores.segments
        page.table(
            ["", "right", "of", "share"],
            [
                ["tokens", f"{scores.correct_tokens:,}", f"{scores.tokens:,}", f"{scores.accuracy:.2%}"],
                ["sequences", f"{scores.exact_sequences:,}", f"{scores.sequences:,}", f"{scores.exact:.2%}"],
            ],
        )
        if self.unanswered:
            page.text(
                f"{self.unanswered:,} sequences have no predicted labels; all their tokens count as wrong.", "bad"
            )
        page.heading("Segments")
        heads = ["type", "precision", "recall", "F1", "right", "predicted", "gold"]
        types = [_row(name, counts) for name, counts in scores.by_type.items()]
        page.table(heads, [_row("all types", segments), *types], best=0)
        if errors := _errors(scores):
            page.table(["segments that are not right", "number"], [[name, f"{count:,}"] for name, count in errors])
            page.text(
                "Spurious segments are predicted where gold has none; the others are gold ones that were not found.",
                "dim",
            )
        page.heading("Labels").table(["label", *heads[1:]], [_row(*item) for item in scores.by_label.items()])
        self._add_confusions(page)
        if self.rules:
            page.heading("Rules").table(["rule", "sequences of gold that break it", "predicted"], self._rules())
        if self.wrong:
            self._add_mistakes(page)
        return page

    def _rules(self) -> list[list[str]]:
        return [[rule.rule, f"{rule.gold:,}", f"{rule.predicted:,}"] for rule in self.rules]

    def _add_confusions(self, page: Page) -> None:
        scores, pairs = self.scores, _confusions(self.scores)
        page.heading("Confusion between labels")
        if not pairs:
            page.text("No label is taken for another.", "good")
            return
        names = most_confused(scores.confusion, MATRIX)
        caption = "Tokens by gold label (row) and predicted label (column). The darker a cell, the larger its share."
        if len(names) < len({*scores.by_label}):
            caption += f" Only the {len(names)} labels with the most confusions are shown."
        page.heat_map(names, confusion_rows(scores.confusion, names), caption)
        page.table(["gold", "predicted", "tokens", "of gold"], pairs[: 3 * CONFUSIONS])

    def _add_mistakes(self, page: Page) -> None:
        scores = self.scores
        page.heading("Sequences that are not right")
        left = scores.sequences - scores.exact_sequences
        page.text(f"{len(self.wrong):,} of {left:,}. Framed: the predicted label is not that of gold.", "dim")
        for sequence in self.wrong:
            rows = {"gold": sequence.gold, "predicted": sequence.guessed}
            page.labellings(sequence.name, sequence.tokens, rows, dict.fromkeys(rows, sequence.wrong))


def _by_label(scores: Scores, most: int | None) -> list[list[str]]:
    """Make rows of the most frequent labels, sorted by name."""
    names = sorted(scores.by_label, key=lambda name: (-scores.by_label[name].gold, name))[:most]
    kept = sorted(names)
    return [[name, *_measures(scores.by_label[name]), f"{scores.by_label[name].gold:,}"] for name in kept]


def _measures(counts: Counts) -> list[str]:
    return [f"{x:.2%}" for x in (counts.precision, counts.recall, counts.f1)]


def _row(name: str, counts: Counts) -> list[str]:
    return [name, *_measures(counts), f"{counts.correct:,}", f"{counts.guessed:,}", f"{counts.gold:,}"]


def _errors(scores: Scores) -> list[tuple[str, int]]:
    return [(ERRORS[name], count) for name, count in scores.segment_errors.to_dict().items() if count]


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(whole, 1):.2%})"


def _confusions(scores: Scores) -> list[list[str]]:
    """Make rows of confusions, the most frequent first."""
    gold = {name: max(counts.gold, 1) for name, counts in scores.by_label.items()}
    return [[a, b, f"{count:,}", f"{count / gold[a]:.2%}"] for a, b, count in scores.confusions()]


def _wrong_lines(sequence: WrongSequence) -> Iterator[str]:
    """Print every token of a short sequence, and of a long one those around wrong labels."""
    wrong = sequence.wrong
    yield f"{sequence.name}: {len(wrong):,} of {len(sequence.tokens):,} labels wrong"
    shown = sorted({t for at in wrong for t in range(max(at - 2, 0), min(at + 3, len(sequence.tokens)))})
    shown = shown if len(sequence.tokens) > 2 * AROUND else list(range(len(sequence.tokens)))
    marked = set(wrong)
    rows, before = list[list[str]](), -1
    for t in shown:
        if t != before + 1:
            rows.append(["  ...", "", "", ""])
        rows.append(
            ["  " + cut(sequence.tokens[t], 40), sequence.gold[t], sequence.guessed[t], "<" if t in marked else ""]
        )
        before = t
    yield from aligned([["  token", "gold", "predicted", ""], *rows], left=range(4))
