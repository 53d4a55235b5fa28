"""Rules as text: one line each, readable by people, with `parse(str(rule)) == rule`.

    at most 1 segment of TITLE
    AUTHOR before TITLE                    [penalty 2.3]   # held in 348 of 350
    (present A0) implies (label at given verb is O)

Every kind of rule brings its own sentence (`Rule.text`): words, and slots {field:type}. Here are the slot types and the
small grammar around sentences:  not, and, or, implies, iff, parentheses, a penalty at the end, comments after '#'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, NoReturn

from bridle.errors import RuleSyntaxError, shown
from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import And, Iff, Implies, Not, Or, _Pair
from bridle.rules.refer import Given, Names, Place, Tokens

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|"(?P<quoted>(?:[^"\\]|\\.)*)"|/(?P<regex>(?:[^/\\]|\\.)*)/
        |(?P<mark>[,()\[\]])|(?P<word>[^\s,()\[\]"\#]+))""",
    re.VERBOSE,
)
# from the tightest to the loosest
_PAIRS: dict[str, Callable[[Rule, Rule], _Pair]] = {"and": And, "or": Or, "implies": Implies, "iff": Iff}
MOST_CONNECTIVES = 150  # of one line: not, and, or, implies, iff, opened parentheses
_WORDS = {"not", *_PAIRS, "given", "tokens", "penalty", "per", "nowhere"}


class _Token(NamedTuple):
    kind: str
    text: str


class _Slot(NamedTuple):
    field: str
    type: str


class _Sentence(NamedTuple):
    kind: type[Rule]
    pieces: list[str | _Slot]
    words: frozenset[str]  # those among the pieces


_CONNECTIVES = {_Token("mark", "("), *(_Token("word", word) for word in ("not", *_PAIRS))}


@cache
def _sentences() -> list[_Sentence]:
    """All sentences, cut into words and slots."""
    made = []
    for kind in Rule.kinds:
        for text in kind.text:
            pieces = [_Slot(*w[1:-1].split(":")) if w[0] == "{" else w for w in text.split()]
            made.append(_Sentence(kind, pieces, frozenset(w for w in pieces if isinstance(w, str))))
    return made


@cache
def _reserved() -> Set[str]:
    return _WORDS.union(*(sentence.words for sentence in _sentences()))


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}  # a rule stays on one line
_MEANT = {"n": "\n", "r": "\r"}


def _quote(text: str) -> str:
    return '"' + re.sub(r'[\\"\n\r]', lambda found: _ESCAPED[found[0]], text) + '"'


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _MEANT.get(found[1], found[1]), text, flags=re.DOTALL)


def _unslash(text: str) -> str:
    return text.replace(r"\/", "/")


# ---- printing ---------------------------------------------------------------------------------------------------


def to_text(rule: Rule) -> str:
    """One line of text."""
    if isinstance(rule, Soft):
        per = " per violation" if rule.per == "violation" else ""
        return f"{to_text(rule.rule)}  [penalty {rule.penalty!r}{per}]"
    if isinstance(rule, Not):
        return f"not {_inner(rule.rule)}"
    if isinstance(rule, _Pair):
        return f"{_inner(rule.left)} {rule.word} {_inner(rule.right)}"
    for kind, pieces, _ in _sentences():
        values = {p.field: getattr(rule, p.field, None) for p in pieces if isinstance(p, _Slot)}
        if type(rule) is kind and None not in values.values():
            return " ".join(p if isinstance(p, str) else _show(p.type, values[p.field], rule) for p in pieces)
    raise TypeError(f"{type(rule).__name__} has no sentence")


def _inner(rule: Rule) -> str:
    return f"({to_text(rule)})"


def _show(kind: str, value: Any, rule: Rule) -> str:
    if kind == "unit":
        return str(value)[:-1] if getattr(rule, "k", 0) == 1 else str(value)
    if kind == "quoted":
        return _quote(value)
    if kind == "names":
        return ", ".join(_show_one(x) for x in value.items)
    if kind in ("place", "spans"):
        source = value.source
        if isinstance(source, (Given, Tokens)):
            return _show_one(source)
        return ", ".join(f"{x[0]}:{x[1]}" if kind == "spans" else str(x) for x in source) or "nowhere"
    return str(value)


def _show_one(item: Any) -> str:
    if isinstance(item, Given):
        return f"given {item.key}"
    if isinstance(item, Tokens):
        slashed = re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", item.pattern, flags=re.DOTALL)
        exact = _unslash(slashed) == item.pattern and not re.search(r"[\n\r]", slashed)
        by = "" if item.engine == "re2" else f" by {item.engine}"
        return f"tokens /{slashed}/{by}" if exact else f"tokens {_quote(item.pattern)}{by}"
    plain = re.fullmatch(r"[^\s,()\[\]\"#/]+", item) and item not in _reserved()
    return item if plain else _quote(item)


# ---- parsing ----------------------------------------------------------------------------------------------------


class _Miss(Exception):  # noqa: N818
    """A sentence does not fit here."""


class _Reader:
    """Recursive descent over the tokens of one line; sentences are tried in turn and the longest fit wins."""

    def __init__(self, line: str) -> None:
        self.tokens: list[_Token] = []
        self.comment = ""
        at, end = 0, len(line.rstrip())
        while at < end:
            found = _TOKEN.match(line, at)
            if found is None:
                raise RuleSyntaxError("cannot read this", got=shown(line[at:].strip()), wanted="a closed quotation")
            kind = found.lastgroup or ""
            if kind == "comment":
                self.comment = found[kind][1:].strip()
            else:
                self.tokens.append(_Token(kind, found[kind]))
            at = found.end()
        self.at = 0
        # Only sentences whose words are all there can fit; `parse` tries the others to say what was expected.
        there = {token.text for token in self.tokens}
        self.sentences = [sentence for sentence in _sentences() if sentence.words <= there]
        self.far, self.hopes = 0, set[str]()  # the furthest point that any attempt reached, and what it hoped for

    def miss(self, wanted: str) -> _Miss:
        if self.at > self.far:
            self.far, self.hopes = self.at, set()
        if self.at == self.far:
            self.hopes.add(wanted)
        return _Miss()

    def next_is(self, kind: str, *texts: str) -> bool:
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.kind == kind and (not texts or token.text in texts)

    def take(self, kind: str, *texts: str, wanted: str | None = None) -> str:
        if not self.next_is(kind, *texts):
            raise self.miss(wanted or " or ".join(map(repr, texts)) or f"a {kind}")
        self.at += 1
        return self.tokens[self.at - 1].text

    def line(self) -> Rule:
        """All of it: a rule, and its penalty if it has one."""
        rule = self.pair(len(_PAIRS) - 1)
        if self.next_is("mark", "["):
            self.at += 1
            self.take("word", "penalty")
            penalty = self.number()
            per: Any = "sequence"
            if self.next_is("word", "per"):
                self.at += 1
                per = self.take("word", "violation", "sequence")
            self.take("mark", "]")
            rule = Soft(rule, penalty, per)
        if self.at < len(self.tokens):
            raise self.miss("the end of the rule")
        return rule

    def pair(self, level: int) -> Rule:
        if level < 0:
            return self.single()
        word, kind = list(_PAIRS.items())[level]
        rule = self.pair(level - 1)
        while self.next_is("word", word):
            self.at += 1
            right = self.pair(level if word == "implies" else level - 1)  # a implies b implies c: to the right
            rule = kind(rule, right)
        return rule

    def single(self) -> Rule:
        if self.next_is("word", "not"):
            self.at += 1
            return Not(self.single())
        if self.next_is("mark", "("):
            self.at += 1
            rule = self.pair(len(_PAIRS) - 1)
            self.take("mark", ")")
            return rule
        begin, best, end = self.at, None, self.at
        for kind, pieces, _ in self.sentences:
            self.at = begin
            try:
                values = self.slots(pieces)
            except _Miss:
                continue
            if self.at > end:
                best, end = (kind, values), self.at
        if best is None:
            self.at = begin
            raise self.miss("a rule")
        self.at = end
        return best[0](**best[1])

    def slots(self, pieces: list[str | _Slot]) -> dict[str, Any]:
        """Read a sentence: what fills its slots."""
        values = {}
        for piece in pieces:
            if isinstance(piece, str):
                self.take("word", piece)
            else:
                values[piece.field] = _SLOTS[piece.type](self)
        return values

    def number(self) -> float:
        at = self.at
        text = self.take("word", wanted="a number")
        try:
            return float(text)
        except ValueError:
            self.at = at
            raise self.miss("a number") from None

    def integer(self) -> int:
        if self.at < len(self.tokens) and re.fullmatch(r"-?\d{1,18}", self.tokens[self.at].text):
            return int(self.take("word"))
        raise self.miss("a whole number")

    def name(self) -> str | Given:
        if self.next_is("quoted"):
            return _unquote(self.take("quoted"))
        if self.next_is("word", "given"):
            return self.given()
        if self.at < len(self.tokens) and self.tokens[self.at].text in _reserved():
            raise self.miss("a label name")
        return self.take("word", wanted="a label name")

    def given(self) -> Given:
        self.take("word", "given")
        return Given(self.take("word", wanted="the name of a given value"))

    def listed(self, item: Callable[[], Any]) -> list[Any]:
        items = [item()]
        while self.next_is("mark", ","):
            self.at += 1
            items.append(item())
        return items

    def names(self) -> Names:
        items = self.listed(self.name)
        return Names(tuple(dict.fromkeys(items))) if all(items) else Names.of(items)  # which says what is wrong

    def place(self) -> Place:
        if self.next_is("word", "given"):
            return Place(self.given())
        if self.next_is("word", "tokens"):
            return Place(self.matching_tokens())
        if self.next_is("word", "nowhere"):
            self.at += 1
            return Place.at(())
        return Place.at(self.listed(self.integer))

    def matching_tokens(self) -> Tokens:
        self.take("word", "tokens")
        if self.next_is("quoted"):
            pattern = self.quoted()
        else:
            pattern = _unslash(self.take("regex", wanted="an expression between slashes"))
        if not self.next_is("word", "by"):
            return Tokens(pattern)
        self.at += 1
        self.take("word", "re")
        return Tokens(pattern, "re")

    def spans(self) -> Place:
        if self.next_is("word", "given"):
            return Place.spans(self.given())
        if self.next_is("word", "nowhere"):
            self.at += 1
            return Place.spans(())
        return Place.spans(self.listed(self.span))

    def span(self) -> tuple[int, int]:
        if self.at < len(self.tokens) and (found := re.fullmatch(r"(\d{1,18}):(\d{1,18})", self.tokens[self.at].text)):
            self.at += 1
            return int(found[1]), int(found[2])
        raise self.miss("a span such as 4:7")

    def unit(self) -> str:
        word = self.take("word", "segment", "segments", "token", "tokens")
        return word if word.endswith("s") else word + "s"

    def quoted(self) -> str:
        return _unquote(self.take("quoted", wanted="an expression in quotation marks"))


_SLOTS: dict[str, Callable[[_Reader], Any]] = {
    "int": _Reader.integer,
    "names": _Reader.names,
    "place": _Reader.place,
    "spans": _Reader.spans,
    "unit": _Reader.unit,
    "quoted": _Reader.quoted,
}


def parse(line: str) -> Rule:
    """Read a rule from its sentence, one line of a .rules file.

    Parameters
    ----------
    line : str
        The sentence, with ``[penalty ...]`` for a soft rule; a comment after ``#`` is passed over. It may have 150
        of not, and, or, implies, iff and opened parentheses.

    Returns
    -------
    Rule
        ``parse(str(rule)) == rule`` for every rule.

    Raises
    ------
    RuleSyntaxError
        If it is not a sentence of the language; the message says what was expected where.
    RuleError
        If it is one, but its values make no rule.

    Examples
    --------
    >>> from bridle import rules
    >>> rules.parse("AUTHOR before TITLE [penalty 2.3]") == rules.before("AUTHOR", "TITLE").soft(2.3)
    True
    """
    rule, _ = parse_line(line)
    return rule if rule is not None else _no_rule(_Reader(line), line)


def parse_line(line: str) -> tuple[Rule | None, str]:
    """The rule on a line, if there is one, and its comment."""
    reader = _Reader(line)
    if not reader.tokens:
        return None, reader.comment
    try:
        if sum(token in _CONNECTIVES for token in reader.tokens) > MOST_CONNECTIVES:
            raise RecursionError  # calls nest as the rule does
        return reader.line(), reader.comment
    except RecursionError:
        wanted = f"at most {MOST_CONNECTIVES} of not, and, or, implies, iff and parentheses on a line"
        raise RuleSyntaxError("a rule has too many parts", got=shown(line.strip()), wanted=wanted) from None
    except _Miss:
        _no_rule(reader, line)


def _no_rule(reader: _Reader, line: str) -> NoReturn:
    """Say what was expected where, of all sentences that there are."""
    reader.at, reader.sentences = 0, _sentences()
    with suppress(_Miss):
        reader.line()
    rest = reader.tokens[reader.far :]
    got = repr(" ".join(token.text for token in rest[:6])) if rest else "the end of the line"
    hopes = sorted(reader.hopes) if "a rule" not in reader.hopes else ["a rule such as 'A before B'"]
    named = "a label name" in hopes and rest and rest[0].text in _reserved()
    raise RuleSyntaxError(
        f"not a rule: {line.strip()!r}",
        got=got,
        wanted=", or ".join(hopes[:6]),
        cause=f'A label of that name goes between quotation marks: "{rest[0].text}".' if named else None,
    ) from None
