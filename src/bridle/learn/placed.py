"""Conditions on tokens, answered once: rules such as `fix DATE at tokens /\\d+/` as rules about given positions.

A decoder matches the texts of tokens itself. Where many decoders see the same sequences, as when each rule is tried
alone, the positions are found once, by the kernels: the labels of `fix + at ...` are the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bridle.decoding.decoder import Decoder
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.learn.weights import Given, Offsets
from bridle.rules.base import Place, Rule
from bridle.rules.conditions import TokenPlace
from bridle.rules.inputs import Given as GivenValue
from bridle.rules.positions import fix

Positions = list[list[int]]  # of each sequence


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


def positions_of(place: TokenPlace, offsets: Offsets, given: Sequence[Given] | None) -> Positions:
    """Where a condition on tokens holds in each of some sequences."""
    decoder = Decoder(Labels(["-", "+"]), [fix("+", at=place)])
    scores = np.zeros((int(offsets[-1]), 2), dtype=np.float32)
    scores[:, 0] = 1.0
    found = decoder.decode_batch(Batch(scores, offsets), given, threads=1)
    tokens = np.flatnonzero(found.ids)
    cuts = np.searchsorted(tokens, offsets).tolist()
    local = (tokens - np.repeat(offsets[:-1], np.diff(cuts))).tolist()
    return [local[low:high] for low, high in pairwise(cuts)]
