"""Rules as text: the one line from which `parse` reads the same rule."""

from __future__ import annotations

from typing import Any

from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import Not, _Pair
from bridle.rules.condition_text import shown_token_place
from bridle.rules.conditions import TokenPlace
from bridle.rules.inputs import Given
from bridle.rules.sentences import Slot, quote, sentences, shown_name


def to_text(rule: Rule) -> str:
    """One line of text."""
    if isinstance(rule, Soft):
        per = " per violation" if rule.per == "violation" else ""
        return f"{to_text(rule.rule)}  [penalty {rule.penalty!r}{per}]"
    if isinstance(rule, Not):
        return f"not {_inner(rule.rule)}"
    if isinstance(rule, _Pair):
        return f"{_inner(rule.left)} {rule.word} {_inner(rule.right)}"
    for kind, pieces, _ in sentences():
        values = {p.field: getattr(rule, p.field, None) for p in pieces if isinstance(p, Slot)}
        if type(rule) is kind and None not in values.values():
            return " ".join(p if isinstance(p, str) else _show(p.type, values[p.field], rule) for p in pieces)
    raise TypeError(f"{type(rule).__name__} has no sentence")


def _inner(rule: Rule) -> str:
    return f"({to_text(rule)})"


def _show(kind: str, value: Any, rule: Rule) -> str:
    if kind == "unit":
        return str(value)[:-1] if getattr(rule, "k", 0) == 1 else str(value)
    if kind == "quoted":
        return quote(value)
    if kind == "names":
        return ", ".join(_show_one(x) for x in value.items)
    if kind == "equal":
        tokens = "tokens" if value.pattern is None else shown_token_place(value.pattern)
        return f"{tokens} ignoring case" if value.ignoring_case else tokens
    if kind in ("place", "spans"):
        source = value.source
        if isinstance(source, Given):
            return _show_one(source)
        if isinstance(source, TokenPlace):
            return shown_token_place(source)
        return ", ".join(f"{x[0]}:{x[1]}" if kind == "spans" else str(x) for x in source) or "nowhere"
    return str(value)


def _show_one(item: Any) -> str:
    if isinstance(item, Given):
        return f"given {item.key}"
    return shown_name(item)
