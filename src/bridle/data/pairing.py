"""Pairs of gold and predicted sequences.

Sequences are matched by their ids if both files have ids and share some, and by their order otherwise. Pairs must have
the same tokens. If one of the two is a text with spans of characters, it has no tokens of its own: it is read
character by character (`CHARACTERS`), and its spans are transferred to the tokens of the other side::

    spans    "Ann Lee left."   (0, 7, PER)
    tokens   Ann    Lee    left.               as in the other file
    labels   B-PER  I-PER  O
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from bridle.data.examples import Example
from bridle.data.standoff import OUTSIDE, segment_labels, segments_of
from bridle.errors import FileError, shown
from bridle.labels import UNTYPED, Scheme, scheme_of

CHARACTERS: dict[str, Any] = {"tokens": "characters", "scheme": "BIO"}  # options of a format with spans


def paired(gold: Iterable[Example], predicted: Iterable[Example]) -> Iterator[tuple[Example, Example]]:
    """The sequences of two files that belong together, in the order of gold.

    The files are read as you iterate, unless their ids differ in order: then the rest of both is kept in memory.
    """
    ours, theirs, k = iter(gold), iter(predicted), 0
    for a in ours:
        b = next(theirs, None)
        if b is None:
            raise _numbers(a, k + 1 + sum(1 for _ in ours), k)
        if a.id is not None and b.id is not None and _key(a) != _key(b):
            yield from _reordered([a, *ours], [b, *theirs], k)
            return
        yield a, b
        k += 1
    if (b := next(theirs, None)) is not None:
        raise _numbers(b, k, k + 1 + sum(1 for _ in theirs))


def _reordered(gold: list[Example], predicted: list[Example], before: int) -> Iterator[tuple[Example, Example]]:
    """Match the rest of two files after a difference of ids; `before`: how many sequences had the same ids."""
    known: dict[str, Example] = {}
    for b in predicted:
        if b.id is None:
            raise b.error(
                "a sequence has no id", got="ids of other sequences", wanted="ids for all sequences, or for none"
            )
        if _key(b) in known:
            raise b.error("two predictions have the same id", got=f"{shown(b.id)} again", wanted="each id once")
        known[_key(b)] = b
    if not before and known.keys().isdisjoint(_key(a) for a in gold):  # each file has numbers of its own
        if len(gold) != len(predicted):
            raise _numbers(predicted[-1], len(gold), len(predicted))
        yield from zip(gold, predicted, strict=True)
        return
    for a in gold:
        if a.id is None or _key(a) not in known:
            raise a.error(
                "this sequence has no prediction",
                got=f"the id {shown(a.id)}",
                wanted="the same ids in both files, each once",
            )
        yield a, known.pop(_key(a))
    for b in known.values():
        raise b.error("this sequence has no gold labels", got=f"the id {shown(b.id)}", wanted="the same ids in both")


def _key(example: Example) -> str:
    return str(example.id)  # a table of text has "7" for what JSON has as 7


def _numbers(example: Example, gold: int, predicted: int) -> FileError:
    return example.error(
        "the files have different numbers of sequences",
        got=f"{predicted:,} predicted",
        wanted=f"{gold:,}, as many as in gold",
        cause="Are both from the same input?",
    )


def check_tokens(gold: Example, predicted: Example, following: Iterable[Example] = ()) -> None:
    """Raise unless both have the same tokens. following: the gold sequences after this one, for the message."""
    if list(gold.tokens) == list(predicted.tokens):
        return
    after = next(iter(following), None)
    lost = after is not None and list(after.tokens) == list(predicted.tokens)
    missing = "A sequence seems to be missing in the predictions." if lost else None
    other = "another text than gold" + (f" ({gold.where})" if gold.where else "")
    for t, (a, b) in enumerate(zip(gold.tokens, predicted.tokens, strict=False), 1):
        if a != b:
            raise predicted.error(other, got=f"{shown(b)} as token {t}", wanted=shown(a), cause=missing)
    cause = missing or "Do both files have the same tokens?"
    what = other.replace("text", "number of tokens")
    raise predicted.error(what, got=len(predicted), wanted=len(gold), cause=cause)


@dataclass(frozen=True)
class Style:
    """The spelling of labels: under a scheme ("IO": I-PER, None: PER), and with types or without (a bare B)."""

    scheme: Scheme | None
    typed: bool = True

    @classmethod
    def of(cls, names: Iterable[str]) -> Style:
        """The style of some labels."""
        inside = {name for name in names if name != OUTSIDE}
        return cls(scheme_of(inside), not inside or any("-" in name for name in inside))

    def labels(self, kind: str, n: int) -> list[str]:
        """The labels of a segment of n tokens."""
        if self.scheme == "IO":
            return [f"I-{kind}"] * n
        labels = segment_labels(kind, n, self.scheme or "IO")
        return labels if self.typed or kind != UNTYPED else [name.partition("-")[0] for name in labels]


def carried_over(spans: Example, onto: Example, style: Style) -> Example:
    """The sequence `onto` with the labels of `spans`, which has the same text and was read with `CHARACTERS`.

    A span that begins or ends within a token covers all of it. White space does not count.
    """
    ours, theirs = ("".join("".join(x.tokens).split()) for x in (spans, onto))
    if ours != theirs:
        same = zip(ours, theirs, strict=False)
        at = next((t for t, (a, b) in enumerate(same) if a != b), min(len(ours), len(theirs)))
        raise spans.error(
            "another text than " + (onto.where or "the other file"),
            got=shown(ours[max(at - 10, 0) : at + 20]),
            wanted=shown(theirs[max(at - 10, 0) : at + 20]),
        )
    if spans.labels is None:
        return replace(onto, labels=None)
    ends = list(accumulate((len("".join(token.split())) for token in onto.tokens), initial=0))
    owner = [t for t, (start, end) in enumerate(pairwise(ends)) for _ in range(start, end)]  # the token of a character
    labels, taken = [OUTSIDE] * len(onto), 0
    for first, end, kind in segments_of(spans.known_labels, "BIO"):
        start, stop = max(owner[first], taken), owner[end - 1] + 1
        labels[start:stop] = style.labels(kind, max(stop - start, 0))
        taken = stop
    return replace(onto, labels=labels)
