"""Explanations of documents: the price of each rule, and the mentions that follow others of the same text.

price of a rule      best score without it - best score
price of a mention   best score if this token need not agree with others - best score
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bridle.deadline import Deadline
from bridle.explain.explanation import LEAST, PATIENCE
from bridle.lattice import Batch, Lattice
from bridle.rules.base import Rule
from bridle.rules.conditions import TOKENS
from bridle.rules.documents import APART, InDocument, groups_of_document, hard_part
from bridle.rules.equal import SameLabelForEqual

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder
    from bridle.decoding.documents import DocumentDecoding

Givens = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class DocumentEffect:
    """The effect of one rule on the labels of a document."""

    rule: Rule
    price: float  # how much the score would rise without this rule, the others kept
    changed: int  # tokens that have another label without it
    proved: bool = True  # False: a limit was reached before the price was proved


@dataclass(frozen=True)
class Mention:
    """A token whose type is another one because tokens with the same text should agree."""

    sentence: int
    token: int
    text: str
    plain: str  # its type without rules
    label: str  # its type
    others: int  # other tokens of this text that have this type without rules
    mentions: int  # tokens of this text
    price: float  # how much the score would rise if it need not agree

    def __str__(self) -> str:
        others = "1 other mention says" if self.others == 1 else f"{self.others} other mentions say"
        why = f"because {others} so" if self.others else "as the other mentions are"
        return (
            f"sentence {self.sentence + 1}, token {self.token + 1}: {self.text} is {self.label} here {why}, "
            f"at a price of {self.price:.4g} ({self.plain} without rules)"
        )


@dataclass(frozen=True)
class DocumentExplanation:
    """The labels of a document, those that plain scores prefer, and what lies between them.

    `Decoder.explain_document` creates it. It prints as a short report.

    Attributes
    ----------
    plain : DocumentDecoding
        The best labelling without any rule.
    best : DocumentDecoding
        The best labelling under the rules.
    effects : list of DocumentEffect
        Rules that cost something, the most expensive first.
    mentions : list of Mention
        Tokens whose type other tokens with the same text decided, in order.
    complete : bool
        False if the time limit was reached before all rules and mentions had a price.

    Examples
    --------
    >>> import bridle
    >>> rule = "in the document: same label for equal tokens  [penalty 1 per violation]"
    >>> sentences = [bridle.Lattice([scores]) for scores in ([0, 3, 0], [0, 1, 1.4], [0, 2, 0])]
    >>> why = bridle.Decoder(["O", "LOC", "PER"], [rule]).explain_document(sentences, [{"tokens": ["Paris"]}] * 3)
    >>> print(why)
    without rules      6.4000
    with rules         6.0000, 1 token has another label
      in the document: same label for equal tokens  [penalty 1.0 per violation]: price 0.4000
      sentence 2, token 1: Paris is LOC here because 2 other mentions say so, at a price of 0.4 (PER without rules)
    """

    plain: DocumentDecoding
    best: DocumentDecoding
    effects: list[DocumentEffect]
    mentions: list[Mention]
    complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            score, plain_score, labels, effects, mentions and complete.
        """
        return {
            "score": self.best.score,
            "plain_score": self.plain.score,
            "status": self.best.status,
            "labels": self.best.labels,
            "effects": [{**vars(effect), "rule": str(effect.rule)} for effect in self.effects],
            "mentions": [asdict(mention) for mention in self.mentions],
            "complete": self.complete,
        }

    def __str__(self) -> str:
        count = _changed(self.plain, self.best)
        tokens = "1 token has" if count == 1 else f"{count} tokens have"
        lines = [
            f"without rules  {self.plain.score:10.4f}",
            f"with rules     {self.best.score:10.4f}, {tokens} another label",
        ]
        about = {True: "", False: "about "}
        lines += [f"  {effect.rule}: price {about[effect.proved]}{effect.price:.4f}" for effect in self.effects]
        lines += [f"  {mention}" for mention in self.mentions]
        if not self.complete:
            lines.append("the time limit was reached: rules and mentions may be missing")
        return "\n".join(lines)


def explain_document(
    decoder: Decoder, lattices: Batch | Sequence[Lattice], given: Givens | None
) -> DocumentExplanation:
    """Explain the labels of a document; the time limit of the decoder, or PATIENCE, is for all prices together."""
    limit = decoder.limits.time_limit
    deadline = Deadline.after(PATIENCE if limit is None else limit)
    givens: Givens = [{}] * len(lattices) if given is None else given
    best, plain = decoder.decode_document(lattices, givens), decoder.with_rules([]).decode_document(lattices)
    effects, mentions, complete = list[DocumentEffect](), list[Mention](), True
    if best.unanswered is not None:
        return DocumentExplanation(plain, best, [], [])
    for rule in decoder.rules:
        if deadline.passed():
            complete = False
            break
        fewer = decoder.with_rules([other for other in decoder.rules if other is not rule], on_infeasible="skip")
        without = fewer.decode_document(lattices, givens)
        price = without.score - best.score
        if without.unanswered is None and (price > LEAST or not without.optimal):
            proved = without.optimal and best.optimal
            effects.append(DocumentEffect(rule, max(0.0, price), _changed(without, best), proved))
    for mention, sentence, token in _mentions(decoder, plain, best, givens):
        if deadline.passed():
            complete = False
            break
        changed = [dict(values) for values in givens]
        changed[sentence][APART] = [token]
        alone = decoder.decode_document(lattices, changed)
        if alone.score - best.score > LEAST:
            mentions.append(replace(mention, price=alone.score - best.score))
    return DocumentExplanation(plain, best, sorted(effects, key=lambda effect: -effect.price), mentions, complete)


def _changed(a: DocumentDecoding, b: DocumentDecoding) -> int:
    return sum(int(np.count_nonzero(x != y)) for x, y in zip(a.ids, b.ids, strict=True))


def _mentions(
    decoder: Decoder, plain: DocumentDecoding, best: DocumentDecoding, givens: Givens
) -> list[tuple[Mention, int, int]]:
    """List tokens of repeated texts that have another type than without rules, still without their prices."""
    sizes, labels = [len(y) for y in best.ids], decoder.labels
    at = [(b, t) for b, n in enumerate(sizes) for t in range(n)]
    before, after = ([labels.type_of[y] for ids in d.ids for y in ids.tolist()] for d in (plain, best))
    mentions: dict[int, tuple[Mention, int, int]] = {}
    for rule in map(hard_part, decoder.rules):
        if not (isinstance(rule, InDocument) and isinstance(rule.rule, SameLabelForEqual)):
            continue
        groups = groups_of_document(rule.rule, givens, sizes).tolist()
        sizes_of, votes = Counter(groups), Counter(zip(groups, before, strict=True))
        for k, g in enumerate(groups):
            if g >= 0 and before[k] != after[k]:
                b, t = at[k]
                texts = givens[b].get(TOKENS) or rule.rule.texts(givens[b], sizes[b])
                text, others = str(texts[t]), votes[g, after[k]]
                mention = Mention(b, t, text, before[k], after[k], others, sizes_of[g], 0.0)
                mentions.setdefault(k, (mention, b, t))
    return [mentions[k] for k in sorted(mentions)]
