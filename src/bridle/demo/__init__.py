"""The demo: train on a few references of two styles, then label other works in four other styles.

Three ways to the labels, all from the same scores: the best path (plain Viterbi), the best path under rules that were
learned from the training references, and the best path under the few sentences of references.rules. The learned rules
are priced by counts: of styles that are new, the model knows nothing that a price could be set against.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bridle.data import Example, references
from bridle.data.markup import runs_of
from bridle.learn import RelationalRules
from bridle.models import CRF
from bridle.report import score
from bridle.report.page import Page, fills
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import parse_lines

__all__ = ["SEEN", "UNSEEN", "WORKS", "Change", "Rate", "Results", "Way", "page", "run", "show"]

SEEN = ("acm", "lncs")  # styles to learn from
UNSEEN = ("ieee", "apa", "mla", "bibtex")
WORKS = 24  # to learn from; all others are for testing
PLAIN, LEARNED, WRITTEN = "plain Viterbi", "learned rules", "written rules"


@dataclass(frozen=True, slots=True)
class Rate:
    """Quality of labellings, as shares."""

    accuracy: float  # of the tokens
    f1: float  # of the fields
    exact: float  # references without a mistake
    broken: float  # references that break a hard rule of the written ones


@dataclass(frozen=True, slots=True)
class Way:
    """A way to label, and its labels and figures."""

    name: str
    rules: tuple[Rule, ...]
    labels: tuple[tuple[str, ...], ...]  # of every test reference
    rate: Rate
    by_style: dict[str, Rate]
    per_second: float  # references, from scores to labels, in one thread


@dataclass(frozen=True, slots=True)
class Change:
    """A reference that rules corrected."""

    example: Example
    before: tuple[str, ...]
    after: tuple[str, ...]
    broken: tuple[str, ...]  # the rules that `before` breaks, as sentences


@dataclass(frozen=True, slots=True)
class Results:
    """Figures and examples of the experiment."""

    train: int
    test: int
    tokens: int  # of the test
    seconds: float  # of training and learning rules
    ways: tuple[Way, ...]
    changes: tuple[Change, ...]
    written: str  # the file of rules

    def to_dict(self) -> dict[str, Any]:
        """Return every figure, for JSON."""
        ways = [
            {
                "name": way.name,
                "rules": [str(rule) for rule in way.rules],
                "references_per_second": way.per_second,
                **asdict(way.rate),
                "by_style": {style: asdict(rate) for style, rate in way.by_style.items()},
            }
            for way in self.ways
        ]
        changes = [
            {
                "id": change.example.id,
                "tokens": list(change.example.tokens),
                "gold": list(change.example.labels or ()),
                "before": list(change.before),
                "after": list(change.after),
                "broken": list(change.broken),
            }
            for change in self.changes
        ]
        sizes = {"train": self.train, "test": self.test, "tokens": self.tokens, "seconds": self.seconds}
        return {**sizes, "ways": ways, "changes": changes}


def run(*, say: Callable[[str], None] = lambda _: None, works: int = WORKS, seed: int = 0) -> Results:
    """Train, learn rules and label the test references. say: receives the steps as text."""
    start = time.perf_counter()
    known, unknown = references.split(works, seed)
    train, test = (references.references(*styles, of=of) for styles, of in ((SEEN, known), (UNSEEN, unknown)))
    say(f"training a CRF on {len(train)} references in the styles {' and '.join(SEEN)}")
    xs, ys = [dict(example.columns) for example in train], [example.known_labels for example in train]
    model = CRF(features="fields", c2=0.1).fit(xs, ys)
    say("learning rules from them")
    learned = RelationalRules(scheme="IO").fit(xs, ys).rules_
    text = (files("bridle.demo") / "references.rules").read_text(encoding="utf-8")
    written = [line.rule for line in parse_lines(text.splitlines(), "references.rules")]
    seconds = time.perf_counter() - start
    say(f"labelling {len(test)} references to other works in the styles {', '.join(UNSEEN)}")
    columns = [example.columns for example in test]
    scores = model.lattices(columns)
    ways = []
    for name, rules in ((PLAIN, []), (LEARNED, learned), (WRITTEN, written)):
        decoder = model.decoder(rules, on_infeasible="relax")
        given = model.given(columns, decoder, None)
        start = time.perf_counter()
        decodings = decoder.decode_batch(scores, given, threads=1)
        rate = len(test) / (time.perf_counter() - start)
        ways.append(_way(name, tuple(rules), [tuple(decoding.labels) for decoding in decodings], test, written, rate))
    sizes = len(train), len(test), sum(map(len, test))
    return Results(*sizes, seconds, tuple(ways), _changes(ways[0], ways[2], test), text)


def _way(
    name: str,
    rules: tuple[Rule, ...],
    labels: list[tuple[str, ...]],
    test: list[Example],
    judges: list[Rule],
    per_second: float,
) -> Way:
    def rate(style: str) -> Rate:
        chosen = [k for k, example in enumerate(test) if str(example.id).endswith(style)]
        scores = score([test[k].labels or () for k in chosen], [labels[k] for k in chosen], scheme="IO")
        broken = sum(bool(_broken(test[k], labels[k], judges)) for k in chosen)
        return Rate(scores.accuracy, scores.segments.f1, scores.exact, broken / max(len(chosen), 1))

    by_style = {style: rate(f"/{style}") for style in UNSEEN}
    return Way(name, rules, tuple(labels), rate(""), by_style, per_second)


def _broken(example: Example, labels: Sequence[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return the hard rules that a labelling breaks, as sentences."""
    ids, given = references.LABELS.ids(labels), {"tokens": list(example.tokens)}
    hard = (rule for rule in rules if not isinstance(rule, Soft))
    return tuple(str(rule) for rule in hard if not rule.holds(ids, references.LABELS, given))


def _changes(before: Way, after: Way, test: list[Example], count: int = 3) -> tuple[Change, ...]:
    """Choose short references that rules corrected, each in another style and for another reason."""
    chosen: list[Change] = []
    seen: set[object] = set()  # works, styles and sets of rules
    for k in sorted(range(len(test)), key=lambda k: len(test[k])):
        broken = _broken(test[k], before.labels[k], after.rules)
        right = after.labels[k] == tuple(test[k].labels or ())
        new = {*str(test[k].id).split("/"), frozenset(broken)}
        if broken and right and not new & seen and len(chosen) < count:
            chosen.append(Change(test[k], before.labels[k], after.labels[k], broken))
            seen |= new
    return tuple(chosen)


# ---- output -------------------------------------------------------------------------------------------------------

HEADS = ("", "tokens right", "fields, F1", "references all right", "break a rule", "references/s")


def cells(name: str, rate: Rate, per_second: float | None = None) -> tuple[str, ...]:
    """Return a row of the table."""
    shares = (f"{100 * share:.1f} %" for share in (rate.accuracy, rate.f1, rate.exact, rate.broken))
    return (name, *shares, "" if per_second is None else f"{per_second:,.0f}")


def head(results: Results) -> str:
    """Return a sentence about the data."""
    return (
        f"A CRF learned from {results.train} references in two styles ({results.seconds:.1f} s); here it labels "
        f"{results.test} references to other works in four other styles ({results.tokens:,} tokens)."
    )


def show(results: Results, console: Console) -> None:
    """Print the results on a terminal."""
    console.print(Text("References in styles that the tagger has never seen", style="bold"))
    console.print(head(results) + "\n", highlight=False)
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for k, name in enumerate(HEADS):
        table.add_column(name, justify="right" if k else "left")
    for way in results.ways:
        table.add_row(*cells(way.name, way.rate, way.per_second))
    console.print(table)
    gain = results.ways[-1].rate.accuracy - results.ways[0].rate.accuracy
    console.print(f"\nWritten rules: {100 * gain:+.1f} points of tokens right over plain Viterbi.\n", highlight=False)
    for change in results.changes:
        _change(change, console)


def _change(change: Change, console: Console) -> None:
    colours = fills(sorted({*change.before, *change.after}))
    console.print(Text(f"{change.example.id}: without rules, it breaks", style="bold"))
    for rule in change.broken:
        console.print(Text(f"  {rule}", style="red"))
    table = Table.grid(padding=(0, 2))
    for name, labels in (("before", change.before), ("after", change.after)):
        line = Text()
        for label, tokens in runs_of(replace(change.example, labels=labels)):
            text = " ".join(tokens)
            if label == "O":
                line.append(f"{text} ", style="dim")
            else:
                line.append(f"[{label} {text}]", style=f"black on {colours[label]}")
                line.append(" ")
        table.add_row(f"  {name}", line)
    console.print(table)
    console.print()


def page(results: Results) -> str:
    """Return the results as an HTML page that opens without a network."""
    html_page = Page("References in styles that the tagger has never seen", head(results))
    ways = results.ways
    best = max(range(len(ways)), key=lambda k: ways[k].rate.accuracy)
    html_page.heading("Without and with rules")
    html_page.table(HEADS, [cells(way.name, way.rate, way.per_second) for way in ways], best=best)
    html_page.text(
        "The same scores three times. Plain Viterbi takes the best path; the others take the best one under their "
        "rules (soft ones may be broken at a price) and prove it. Break a rule: a hard one of the written.",
        "dim",
    )
    html_page.heading("Style by style, tokens right", 3)
    rows = [[way.name, *(f"{100 * way.by_style[style].accuracy:.1f} %" for style in UNSEEN)] for way in ways]
    html_page.table(["", *UNSEEN], rows)
    html_page.heading("Before and after")
    colours = fills(["O", "AUTHOR", "TITLE", "VENUE", "VOLUME", "PAGES", "PUBLISHER", "DATE"])
    html_page.legend(colours)
    for change in results.changes:
        html_page.heading(str(change.example.id), 3)
        html_page.text("Plain Viterbi breaks: " + "; ".join(change.broken), "bad")
        tokens, gold = change.example.tokens, change.example.labels or ()
        for name, labels in (("plain Viterbi", change.before), ("with rules", change.after)):
            wrong = [t for t, (a, b) in enumerate(zip(labels, gold, strict=True)) if a != b]
            html_page.tokens(tokens, labels, colours, name=name, wrong=wrong)
    html_page.text("Framed: a wrong label.", "dim")
    html_page.heading("The written rules").code(results.written)
    learned = next(way.rules for way in ways if way.name == "learned rules")
    html_page.heading("The learned rules").text(
        "From the training references alone, with what breaking them costs.", "dim"
    )
    return html_page.code("\n".join(map(str, learned))).html()
