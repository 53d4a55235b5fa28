"""The experiment: train on a few references of two styles, then label other works in four other styles.

Three ways to the labels, all from the same scores: the best path (plain Viterbi), the best path under rules that were
learned from the training references, and the best path under the few sentences of references.rules.

The learned rules are priced by counts: of styles that are new the model knows nothing that a price could be set
against. Where new data is like the training data, `bridle.learn.fit_rules` prices rules against the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from bridle.data import Example, references
from bridle.learn import RelationalRules
from bridle.models import CRF
from bridle.report import score
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import parse_lines

SEEN = ("acm", "lncs")  # styles to learn from
UNSEEN = ("ieee", "apa", "mla", "bibtex")
WORKS = 24  # to learn from; all others are for testing
PLAIN, LEARNED, WRITTEN = "plain Viterbi", "learned rules", "written rules"


@dataclass(frozen=True, slots=True)
class Rate:
    """How good some labellings are; shares."""

    accuracy: float  # of the tokens
    f1: float  # of the fields
    exact: float  # references without a mistake
    broken: float  # references that break a hard rule of the written ones


@dataclass(frozen=True, slots=True)
class Way:
    """One way to label, and what came of it."""

    name: str
    rules: tuple[Rule, ...]
    labels: tuple[tuple[str, ...], ...]  # of every test reference
    rate: Rate
    by_style: dict[str, Rate]
    per_second: float  # references, from scores to labels, in one thread


@dataclass(frozen=True, slots=True)
class Change:
    """A reference that rules set right, or nearly so."""

    example: Example
    before: tuple[str, ...]
    after: tuple[str, ...]
    broken: tuple[str, ...]  # the rules that `before` breaks, as sentences


@dataclass(frozen=True, slots=True)
class Story:
    """What the experiment found."""

    train: int
    test: int
    tokens: int  # of the test
    seconds: float  # of training and learning rules
    ways: tuple[Way, ...]
    changes: tuple[Change, ...]
    written: str  # the file of rules

    def to_dict(self) -> dict[str, Any]:
        """Every figure, for JSON."""
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


def tell(*, say: Callable[[str], None] = lambda _: None, works: int = WORKS, seed: int = 0) -> Story:
    """Run it. say: hears what is being done."""
    begun = time.perf_counter()
    known, unknown = references.split(works, seed)
    train, test = (references.references(*styles, of=of) for styles, of in ((SEEN, known), (UNSEEN, unknown)))
    say(f"training a CRF on {len(train)} references in the styles {' and '.join(SEEN)}")
    xs, ys = [dict(example.columns) for example in train], [example.known_labels for example in train]
    model = CRF(features="fields", c2=0.1).fit(xs, ys)
    say("learning rules from them")
    learned = RelationalRules(scheme="IO").fit(xs, ys).rules_
    text = (files("bridle.demo") / "references.rules").read_text(encoding="utf-8")
    written = [line.rule for line in parse_lines(text.splitlines(), "references.rules")]
    seconds = time.perf_counter() - begun
    say(f"labelling {len(test)} references to other works in the styles {', '.join(UNSEEN)}")
    columns = [example.columns for example in test]
    scores = model.lattices(columns)
    ways = []
    for name, rules in ((PLAIN, []), (LEARNED, learned), (WRITTEN, written)):
        decoder = model.decoder(rules, on_infeasible="relax")
        given = model.given(columns, decoder, None)
        begun = time.perf_counter()
        found = decoder.decode_batch(scores, given, threads=1)
        rate = len(test) / (time.perf_counter() - begun)
        ways.append(_way(name, tuple(rules), [tuple(one.labels) for one in found], test, written, rate))
    sizes = len(train), len(test), sum(map(len, test))
    return Story(*sizes, seconds, tuple(ways), _changes(ways[0], ways[2], test), text)


def _way(
    name: str,
    rules: tuple[Rule, ...],
    labels: list[tuple[str, ...]],
    test: list[Example],
    judges: list[Rule],
    per_second: float,
) -> Way:
    def rate(style: str) -> Rate:
        some = [k for k, example in enumerate(test) if str(example.id).endswith(style)]
        scores = score([test[k].labels or () for k in some], [labels[k] for k in some], scheme="IO")
        broken = sum(bool(_broken(test[k], labels[k], judges)) for k in some)
        return Rate(scores.accuracy, scores.segments.f1, scores.exact, broken / max(len(some), 1))

    by_style = {style: rate(f"/{style}") for style in UNSEEN}
    return Way(name, rules, tuple(labels), rate(""), by_style, per_second)


def _broken(example: Example, labels: Sequence[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """The hard rules that a labelling breaks, as sentences."""
    ids, given = references.LABELS.ids(labels), {"tokens": list(example.tokens)}
    hard = (rule for rule in rules if not isinstance(rule, Soft))
    return tuple(str(rule) for rule in hard if not rule.holds(ids, references.LABELS, given))


def _changes(before: Way, after: Way, test: list[Example], count: int = 3) -> tuple[Change, ...]:
    """Short references that break a rule before and are right after, each in another style, for another reason."""
    chosen: list[Change] = []
    told: set[object] = set()  # works, styles and sets of rules
    for k in sorted(range(len(test)), key=lambda k: len(test[k])):
        broken = _broken(test[k], before.labels[k], after.rules)
        right = after.labels[k] == tuple(test[k].labels or ())
        new = {*str(test[k].id).split("/"), frozenset(broken)}
        if broken and right and not new & told and len(chosen) < count:
            chosen.append(Change(test[k], before.labels[k], after.labels[k], broken))
            told |= new
    return tuple(chosen)
