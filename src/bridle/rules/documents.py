"""Rules about whole documents: `in_document`, and what rules mean when the sentences of a document are one sequence.

A document is a list of sequences, its sentences, that are decoded together. To count, or to see an order, across them,
they are joined to one sequence with a *break* between two of them, a position with a label of its own:

    y[0] .. y[n-1]  |  y[0] .. y[k-1]  |  ...

No rule names the label of a break, so for a rule about the document a segment ends there. A rule about sentences
(`InSentence`) begins again behind each break.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.automata import LazyAutomaton, joint_classes
from bridle.automata.counting import CountingAutomaton
from bridle.errors import RuleError
from bridle.labels import Labels
from bridle.rules.base import Mask, Rule, Sets, Soft, Wrapper
from bridle.rules.boolean import Formula
from bridle.rules.counts import AtLeast, AtMost, Exactly, NoDuplicates
from bridle.rules.equal import SameLabelForEqual
from bridle.rules.order import Before, FirstBefore, FollowedBy, IfPresent, Present
from bridle.rules.references import Place, RuleContext

SENTENCES = "_sentences"  # the key of what comes with the sentences of a joined sequence: (start, length, given) each
APART = "_apart"  # the key of tokens of a sentence that need not agree with others, for prices
BREAK = "\n"  # the label of a break
_ACROSS = (AtLeast, AtMost, Before, Exactly, FirstBefore, FollowedBy, IfPresent, NoDuplicates, Present)


@dataclass(frozen=True)
class InDocument(Wrapper):
    """A rule about all sentences of a document; a sequence that is decoded alone is a document of one sentence."""

    rule: Rule
    of_document = True

    def tables(self, sets: tuple[Sets, ...], labels: Labels, marks: tuple[int, ...]) -> list[CountingAutomaton]:
        return self.rule.tables(sets, labels, marks)

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return self.rule.mask(sets, labels)

    def conjuncts(self) -> tuple[Rule, ...]:
        return self.rule.conjuncts()


def hard_part(rule: Rule) -> Rule:
    """Return a rule without its penalty."""
    return rule.rule if isinstance(rule, Soft) else rule


# ---- rules of a joined sequence --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _JoinedPlace(Place):
    """The positions of a place in every sentence."""

    place: Place | None = None

    def positions(self, n: int, given: Mapping[str, Any]) -> list[int]:
        assert self.place is not None
        return [start + t for start, size, values in given[SENTENCES] for t in self.place.positions(size, values)]


@dataclass(frozen=True)
class InSentence(Wrapper):
    """A rule about each sentence of a joined sequence.

    once: at most one violation per sentence, for penalties that are charged once.
    """

    rule: Rule
    once: bool

    def __str__(self) -> str:
        return str(self.rule)

    def count_violations(self, context: RuleContext) -> int:
        counts = []
        for start, size, values in context.given[SENTENCES]:
            counts.append(
                self.rule.count_violations(RuleContext(context.ids[start : start + size], context.labels, values))
            )
        return sum(min(count, 1) if self.once else count for count in counts)

    def places(self) -> tuple[Place, ...]:
        return tuple(_JoinedPlace((), place.tied, place) for place in self.rule.places())

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        parts = self.rule.automata(sets, labels)
        if not self.once:
            return [_restarting([part], labels, once=False) for part in parts]
        return [_restarting(parts, labels, once=True)]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        """Return that of the rule, with breaks as the ends of sentences."""
        mask = self.rule.mask(sets, labels)
        if mask is None:
            return None
        m = len(labels) - 1
        token = None if mask.token is None else np.append(mask.token[:m], True)
        first, last, step = mask.first, mask.last, None
        if mask.step is not None or first is not None or last is not None:
            step = np.ones((m + 1, m + 1), dtype=bool)
            step[:m, :m] = True if mask.step is None else mask.step[:m, :m]
            step[m, :m] = True if first is None else first[:m]
            step[:m, m] = True if last is None else last[:m]
            first, last = (None if ends is None else np.append(ends[:m], True) for ends in (first, last))
        return replace(mask, token=token, step=step, first=first, last=last)


def _restarting(parts: Sequence[LazyAutomaton], labels: Labels, *, once: bool) -> LazyAutomaton:
    """Run automata side by side that begin again at each break. once: at most one violation until the next one."""
    at_break, start = len(labels) - 1, tuple(part.start for part in parts)

    def final(states: Any) -> int:
        violations = 0 if states is None else sum(part.final(s) for part, s in zip(parts, states, strict=True))
        return min(violations, 1) if once else violations

    def step(states: Any, y: int, mark: int) -> tuple[Any, int]:
        if y == at_break:
            return start, final(states)
        if states is None:  # paid
            return None, 0
        after, counts = zip(*(part.step(s, y, mark) for part, s in zip(parts, states, strict=True)), strict=True)
        return (None, 1) if once and any(counts) else (after, sum(counts))

    classes = joint_classes(parts)
    if classes is not None:
        classes = np.append(classes[:at_break], classes.max() + 1).astype(np.uint16)
    return LazyAutomaton(start, step, final, classes)


@dataclass(frozen=True)
class JoinedAgreement(SameLabelForEqual):
    """`same label for equal tokens` in a joined sequence: over the whole document, or in each sentence."""

    across: bool = True

    def __str__(self) -> str:
        rule = SameLabelForEqual(self.equal)
        return str(InDocument(rule) if self.across else rule)

    def groups(self, given: Mapping[str, Any], n: int) -> npt.NDArray[np.int32]:
        """Return the group of each position."""
        groups, before = np.full(n, -1, dtype=np.int32), 0
        sentences = given[SENTENCES]
        if self.across:
            at = np.concatenate([np.arange(start, start + size) for start, size, _ in sentences])
            groups[at] = groups_of_document(self, [values for _, _, values in sentences], [s for _, s, _ in sentences])
            return groups
        for start, size, values in sentences:
            numbers = super().groups(values, size)
            groups[start : start + size] = np.where(numbers < 0, -1, numbers + before)
            before += int(numbers.max(initial=-1)) + 1
        return groups


def groups_of_document(
    rule: SameLabelForEqual, givens: Sequence[Mapping[str, Any]], sizes: Sequence[int]
) -> npt.NDArray[np.int32]:
    """Return the group of each token of a document; -1 for those that `APART` names."""
    texts, apart = list[str](), list[int]()
    for values, n in zip(givens, sizes, strict=True):
        apart += [len(texts) + t for t in values.get(APART, ())]
        texts += rule.texts(values, n)
    groups = rule.groups_of(texts)
    if apart:
        groups = groups.copy()
        groups[apart] = -1
    return groups


def joined_rule(rule: Rule) -> Rule:
    """Return a rule about sentences, or about a document, as a rule about a joined sequence."""
    bare = hard_part(rule)
    across = isinstance(bare, InDocument)
    if isinstance(bare, InDocument):
        bare = bare.rule
    once = isinstance(rule, Soft) and rule.per == "sequence" and not across
    joined: Rule
    if isinstance(bare, SameLabelForEqual) and not once:
        joined = JoinedAgreement(bare.equal, across=across)
    elif across:
        joined = bare
    else:
        joined = InSentence(bare, once)
    return joined.soft(rule.penalty, "violation" if once else rule.per) if isinstance(rule, Soft) else joined


class JoinedSentences(NamedTuple):
    """Sentences of a document in the joined sequence: where they are, and what comes with it."""

    starts: list[int]
    size: int
    given: dict[str, Any]

    @classmethod
    def of(cls, sizes: Sequence[int], givens: Sequence[Mapping[str, Any]]) -> JoinedSentences:
        """Join sentences of these sizes."""
        starts, at = [], 0
        for n in sizes:
            starts.append(at)
            at += n + 1
        return cls(starts, max(at - 1, 0), {SENTENCES: list(zip(starts, sizes, givens, strict=True))})


def count_in_document(
    rule: Rule, ids: Sequence[Sequence[int]], labels: Labels, givens: Sequence[Mapping[str, Any]]
) -> int:
    """Count the violations of a rule by the labellings of the sentences of a document.

    A rule about sentences whose penalty is charged once per sequence is violated at most once by each.
    """
    joined, m = JoinedSentences.of([len(y) for y in ids], givens), len(labels)
    path = [m] * joined.size
    for start, y in zip(joined.starts, ids, strict=True):
        path[start : start + len(y)] = map(int, y)
    return hard_part(joined_rule(rule)).count_violations(RuleContext(tuple(path), broken_labels(labels), joined.given))


def cost_in_document(rule: Rule, violations: int) -> float:
    """Return what violations cost that `count_in_document` has counted."""
    joined = joined_rule(rule)
    return joined.cost(violations) if isinstance(joined, Soft) else 0.0


# ---- public functions ------------------------------------------------------------------------------------------------


def in_document(rule: Rule) -> Rule:
    """Make a rule hold over all sentences of a document together, instead of in each of them.

    Decode documents with `Decoder.decode_document`. A sequence that is decoded alone is a document of one sentence.

    Parameters
    ----------
    rule : Rule
        A hard rule about presence, counts or order, a formula of such rules, or `same_label_for_equal`. A segment ends
        where its sentence ends.

    Returns
    -------
    Rule
        It has as many violations as the rule has in the document.

    Raises
    ------
    RuleError
        If the rule is soft, is about positions or neighbours, or needs values that come with each sequence.

    Examples
    --------
    >>> import bridle
    >>> from bridle import rules as r
    >>> rule = r.in_document(r.exactly(1, of="TOTAL"))
    >>> print(rule)
    in the document: exactly 1 segment of TOTAL
    >>> sentences = [bridle.Lattice([[0, 2], [1, 0]]), bridle.Lattice([[0, 1]])]
    >>> bridle.Decoder(["O", "TOTAL"], [rule]).decode_document(sentences).labels
    [['TOTAL', 'O'], ['O']]
    """
    if isinstance(rule, Soft):
        wanted = "a hard rule; call .soft(...) on the result"
        raise RuleError("a rule about documents is made of a hard rule", got=str(rule), wanted=wanted)
    if not isinstance(rule, Rule) or not _fits(rule):
        raise RuleError(
            "a rule has no meaning over a document",
            got=str(rule),
            wanted="a rule about presence, counts or order, without given values, or `same label for equal tokens`",
            cause="Rules about positions and neighbours hold in each sentence anyway: remove `in the document:`.",
        )
    return InDocument(rule)


def _fits(rule: Rule) -> bool:
    if isinstance(rule, SameLabelForEqual):
        return True
    if isinstance(rule, Formula):
        return all(_fits(part) and not isinstance(part, SameLabelForEqual) for part in rule.parts)
    return isinstance(rule, _ACROSS) and all(names.fixed for names in rule.names())


def broken_labels(labels: Labels) -> Labels:
    """Return the labels and one more, which marks a break."""
    return Labels((*labels.names, BREAK), labels.scheme, outside=(*labels.all_outside, BREAK))
