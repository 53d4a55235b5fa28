"""Conditions on tokens, answered once: rules such as `fix DATE at tokens /\\d+/` as rules about given positions.

A decoder matches the texts of tokens itself. Where many decoders see the same sequences, as when each rule is tried
alone, the positions are found once, by the kernels: with a label for every set of conditions, the best labelling under
`allow (sets with the condition) at (the condition)` is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.lattice import Batch
from bridle.learn.weights import Given, Offsets
from bridle.rules.base import Place, Rule
from bridle.rules.conditions import TokenPlace
from bridle.rules.inputs import Given as GivenValue
from bridle.rules.positions import allow

Positions = list[list[int]]  # of each sequence
_AT_ONCE = 5  # conditions, with 32 labels


def token_places(rule: Rule) -> list[TokenPlace]:
    """The conditions on tokens that a rule has for its positions."""
    sources = [place.source for place in rule.places() if type(place) is Place]
    return [source for source in sources if isinstance(source, TokenPlace)]


def with_positions(rule: Rule, key_of: Callable[[TokenPlace], str]) -> Rule:
    """The rule with positions that are given by these names, instead of conditions on tokens.

    >>> from bridle.rules import parse
    >>> print(with_positions(parse("(fix A at tokens /x/) or (present B)"), lambda place: "x"))
    (fix A at given x) or (present B)
    """
    changed: dict[str, Any] = {}
    for field in fields(rule):
        value = getattr(rule, field.name)
        if isinstance(value, Rule):
            changed[field.name] = with_positions(value, key_of)
        elif type(value) is Place and isinstance(value.source, TokenPlace):
            changed[field.name] = Place(GivenValue(key_of(value.source)))
    return replace(rule, **changed) if changed else rule


def positions_of(places: Sequence[TokenPlace], offsets: Offsets, given: Sequence[Given] | None) -> list[Positions]:
    """Where each of some conditions on tokens holds in each of some sequences."""
    found: list[Positions] = []
    for low in range(0, len(places), _AT_ONCE):
        some = places[low : low + _AT_ONCE]
        bits = np.arange(1 << len(some))
        names = [str(y) for y in bits.tolist()]
        rules = [allow([names[y] for y in bits[bits >> k & 1 == 1]], at=place) for k, place in enumerate(some)]
        scores = np.zeros((int(offsets[-1]), len(bits)), dtype=np.float32)
        scores -= sum(bits >> k & 1 for k in range(len(some)))  # as few as the rules leave
        ids = Decoder(names, rules).decode_batch(Batch(scores, offsets), given, threads=1).ids
        found += [_by_sequence(np.flatnonzero(ids >> k & 1), offsets) for k in range(len(some))]
    return found


def _by_sequence(tokens: npt.NDArray[np.intp], offsets: Offsets) -> Positions:
    cuts = np.searchsorted(tokens, offsets)
    local = (tokens - np.repeat(offsets[:-1], np.diff(cuts))).tolist()
    return [local[low:high] for low, high in pairwise(cuts.tolist())]
