r"""Regular expressions over the texts of tokens: Python's `re` says what they mean, RE2 matches them in linear time.

An expression is parsed by Python and rewritten for RE2. What a single character may be, as in ``\d``, ``[^\W_]``
or ``(?i)k``, comes from `re` itself, which is asked about all characters, so both engines agree on every text:

    \d            ->  [\x{30}-\x{39}\x{660}-\x{669}...]
    (a|b)+?       ->  (?:(?:a|b)){1,}         the whole text must match, so greedy and lazy do not differ
    ^a$, \Aa\Z    ->  \Aa\z
    \b            ->  \b, which looks at ASCII letters only: `_words_apart` says how it sees the others

What has no linear-time equivalent (look-around, back-references, possessive and atomic groups) is an error, unless the
user chooses `re`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, reduce
from itertools import product
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal

import numpy as np

from bridle.automata.regex import NOTHING, Part
from bridle.deadline import check_stopped
from bridle.errors import RuleError

TextEngine = Literal["re2", "re"]
Ranges = tuple[tuple[int, int], ...]  # of code points, both ends included

LONGEST = 1 << 16  # characters of an expression
_MEMORY = 1 << 23  # bytes that RE2 may use for one expression
_MEMORY_OF_ALL = 1 << 26  # and for all those of a decoder

_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
_REFUSED = {
    op.ASSERT: "look-ahead (?=...) or look-behind (?<=...)",
    op.ASSERT_NOT: "negative look-ahead (?!...) or look-behind (?<!...)",
    op.GROUPREF: r"a back-reference such as \1",
    op.GROUPREF_EXISTS: "a conditional group (?(1)...)",
    op.ATOMIC_GROUP: "an atomic group (?>...)",
    op.POSSESSIVE_REPEAT: "a possessive repeat such as a++",
}
_INVALID = "invalid regular expression for tokens"


class _Untranslatable(Exception):  # noqa: N818
    """The name of something that RE2 does not have."""


# ---- sets of characters ---------------------------------------------------------------------------------------------


@cache
def _every_character() -> str:
    return np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def _cased_characters() -> str:
    return "".join(c for c in _every_character()[:0x20000] if c.lower() != c or c.upper() != c)  # planes 0 and 1


@lru_cache(maxsize=256)
def _members(source: str, flags: int, among: Literal["all", "cased"] = "all") -> Ranges:
    """Return the characters that a set such as [\\w-] matches in `re`."""
    if among == "cased":
        return tuple((ord(c), ord(c)) for c in re.compile(source, flags).findall(_cased_characters()))
    runs = re.compile(source + "+", flags).finditer(_every_character())
    return tuple((run.start(), run.end() - 1) for run in runs)


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


def _set_source(items: Iterable[tuple[Any, Any]]) -> str:
    parts = []
    for kind, value in items:
        if kind is op.NEGATE:
            parts.append("^")
        elif kind is op.LITERAL:
            parts.append(_escaped(value))
        elif kind is op.RANGE:
            parts.append(f"{_escaped(value[0])}-{_escaped(value[1])}")
        else:
            parts.append(_CATEGORIES[value])
    return f"[{''.join(parts)}]"


def characters(kind: Any, value: Any, flags: int) -> Ranges:
    """Return the characters that a node for one character matches."""
    few = flags & (re.IGNORECASE | re.ASCII)
    if kind is op.ANY:
        return ((0, sys.maxunicode),) if flags & re.DOTALL else ((0, 9), (11, sys.maxunicode))
    if kind is op.LITERAL and not flags & re.IGNORECASE:
        return ((value, value),)
    if kind is op.LITERAL:
        return ((value, value), *_members(f"[{_escaped(value)}]", few, "cased"))
    if kind is op.NOT_LITERAL:
        return _members(f"[^{_escaped(value)}]", few)
    return _members(_set_source(value), few)


# ---- writing it anew ------------------------------------------------------------------------------------------------


class _Writer:
    """The tree of an expression, written for RE2."""

    def __init__(self, pattern: str) -> None:
        tree = _parser.parse(pattern)
        boundaries = set(_boundaries(tree.data, tree.state.flags))
        if len(boundaries) > 1:
            raise _Untranslatable(r"\b with and without the flag for ASCII")
        self.apart = True in boundaries  # are texts written with `_words_apart`?
        self.text = self.series(tree.data, tree.state.flags, last=True)

    def series(self, nodes: Sequence[tuple[Any, Any]], flags: int, last: bool) -> str:
        """Write nodes; last: whether nothing follows them."""
        after = [last] * len(nodes)  # does nothing follow that takes characters?
        for k in range(len(nodes) - 1, 0, -1):
            after[k - 1] = after[k] and nodes[k][0] is op.AT
        return "".join(self.node(*node, flags, end) for node, end in zip(nodes, after, strict=True))

    def node(self, kind: Any, value: Any, flags: int, last: bool) -> str:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            return self.one_of(characters(kind, value, flags))
        if kind is op.AT:
            return self.place(value, flags, last)
        if kind is op.SUBPATTERN:
            _, added, removed, inside = value
            return f"(?:{self.series(inside.data, (flags | added) & ~removed, last)})"
        if kind is op.BRANCH:
            return f"(?:{'|'.join(self.series(part.data, flags, last) for part in value[1])})"
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            low, high, inside = value
            text = self.series(inside.data, flags, last and high == 1)
            return f"(?:{text}){{{low},{'' if high is op.MAXREPEAT else high}}}"
        raise _Untranslatable(_REFUSED.get(kind, str(kind)))

    def place(self, value: Any, flags: int, last: bool) -> str:
        if value in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            return r"\b" if value is op.AT_BOUNDARY else r"\B"
        if flags & re.MULTILINE and value in (op.AT_BEGINNING, op.AT_END):
            return "(?m:^)" if value is op.AT_BEGINNING else "(?m:$)"
        if value is op.AT_END and not last:  # it may stand before a newline, if this is the last character
            raise _Untranslatable("$ in the middle")
        return r"\A" if value in (op.AT_BEGINNING, op.AT_BEGINNING_STRING) else r"\z"

    def one_of(self, characters: Ranges) -> str:
        if not self.apart or all(high < 128 for _, high in characters):
            return _class(characters)
        words: list[tuple[int, int]] = []
        others: list[tuple[int, int]] = []
        for low, high, is_word in _cut_by_words(characters):
            (words if is_word else others).append((low, high))
        return f"(?:{_class(others)}|0{_class(words)}0)"


def _class(characters: Iterable[tuple[int, int]]) -> str:
    ranges = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in characters)
    return f"[{ranges}]" if ranges else r"[^\x{0}-\x{10ffff}]"


def _boundaries(nodes: Any, flags: int) -> Iterable[bool]:
    r"""Yield for each \b and \B whether it considers the letters of all scripts."""
    for kind, value in nodes:
        if kind is op.AT and value in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            yield not flags & re.ASCII
        elif kind is op.SUBPATTERN:
            yield from _boundaries(value[3].data, (flags | value[1]) & ~value[2])
        elif kind is op.BRANCH:
            for part in value[1]:
                yield from _boundaries(part.data, flags)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            yield from _boundaries(value[2].data, flags)


# RE2's \b knows ASCII letters, digits and _ only. For an expression with \b, every other letter or digit stands between
# two zeros, in the text and in the expression, so that \b sees a word beside it. Nothing is ambiguous: such a letter
# without its zeros occurs in neither.
_OTHER_WORD = re.compile(r"[^\W\x00-\x7f]")


def _words_apart(text: str) -> str:
    return text if text.isascii() else _OTHER_WORD.sub(r"0\g<0>0", text)


def _cut_by_words(characters: Ranges) -> Iterable[tuple[int, int, bool]]:
    """Split ranges where letters beyond ASCII begin and end."""
    words = _members(_OTHER_WORD.pattern, 0)
    k = 0
    for low, high in sorted(characters):
        while low <= high:
            while k and words[k - 1][1] >= low:
                k -= 1
            while k < len(words) and words[k][1] < low:
                k += 1
            begin, end = words[k] if k < len(words) else (high + 1, high + 1)
            inside = begin <= low
            stop = min(high, end if inside else begin - 1)
            yield low, stop, inside
            low = stop + 1


# ---- matching -------------------------------------------------------------------------------------------------------


Matching = Callable[[str], tuple[int, ...]]  # a text -> the numbers of the expressions that match


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _together(numbers: tuple[int, ...], texts: tuple[str, ...]) -> Matching:
    """Match expressions all at once in RE2; one more, which matches any text, shows that RE2 did not give up."""
    import re2

    count, nothing = len(texts), [len(texts)]
    together = re2.Set.FullMatchSet(_options(min(count * _MEMORY, _MEMORY_OF_ALL)))
    for text in (*texts, "(?s:.*)"):
        check_stopped()
        together.Add(text)
    check_stopped()
    try:
        together.Compile()
    except re2.error:  # too large together
        return _apart(numbers, texts)
    match = together.Match

    def matching(text: str) -> tuple[int, ...]:
        try:
            matches = match(text.encode())
        except UnicodeEncodeError:
            matches = match(_encoded(text))
        if matches == nothing:
            return ()
        if matches and count in matches:
            return tuple([numbers[k] for k in matches if k < count])
        return _apart(numbers, texts)(text)

    return matching


@lru_cache(maxsize=16)
def _apart(numbers: tuple[int, ...], texts: tuple[str, ...]) -> Matching:
    """Match expressions one by one."""
    import re2

    every = []
    for k, text in zip(numbers, texts, strict=True):
        check_stopped()
        every.append((k, re2.compile(text, _options(_MEMORY)).fullmatch))

    def matching(text: str) -> tuple[int, ...]:
        matches, encoded = list[int](), _encoded(text)
        for k, fullmatch in every:
            check_stopped()
            if fullmatch(encoded):
                matches.append(k)
        return tuple(matches)

    return matching


def _options(memory: int) -> Any:
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = memory, False, True
    return options


@lru_cache(maxsize=128)
def matcher(*patterns: tuple[str, TextEngine]) -> Matching:
    """Return a function from a text to the numbers of the expressions that match it as a whole."""
    for pattern, engine in patterns:
        check_pattern(pattern, engine)
    written = [(k, _written(text)) for k, (text, by) in enumerate(patterns) if by == "re2"]
    plain = [(k, text) for k, (text, apart) in written if not apart]
    apart = [(k, text) for k, (text, apart) in written if apart]
    parts: list[Matching] = []
    if plain:
        parts.append(_together(*zip(*plain, strict=True)))
    if apart:
        with_words_apart = _together(*zip(*apart, strict=True))
        parts.append(lambda text: with_words_apart(_words_apart(text)))
    if backtracking := [(k, re.compile(text).fullmatch) for k, (text, by) in enumerate(patterns) if by == "re"]:
        parts.append(lambda text: tuple(k for k, fullmatch in backtracking if fullmatch(text)))
    return parts[0] if len(parts) == 1 else lambda text: tuple(k for part in parts for k in part(text))


@lru_cache(maxsize=512)
def _written(pattern: str) -> tuple[str, bool]:
    """Return an expression for RE2, and whether it matches texts as `_words_apart` writes them."""
    writer = _Writer(pattern)
    return writer.text, writer.apart


def check_pattern(pattern: object, engine: object) -> None:
    """Raise `RuleError` if an engine does not support an expression."""
    if engine not in ("re2", "re"):
        raise RuleError("unknown engine for regular expressions", got=repr(engine), wanted="'re2' or 're'")
    wanted = r"an expression of Python's re, such as \d{5}"
    if not isinstance(pattern, str):
        raise RuleError(_INVALID, got=repr(pattern), wanted=wanted)
    if len(pattern) > LONGEST:
        raise RuleError(_INVALID, got=f"{len(pattern):,} characters", wanted=f"at most {LONGEST:,}")
    check_stopped()
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise RuleError(_INVALID, got=_shown(pattern), wanted=wanted, cause=str(error)) from None
    if engine == "re2":
        _check_linear(pattern)


def _check_linear(pattern: str) -> None:
    import re2

    by_re = 'Pass tokens(pattern, engine="re"), in a .rules file: tokens /.../ by re. No time limit stops such a match.'
    try:
        re2.compile(_written(pattern)[0], _options(_MEMORY))
    except (_Untranslatable, RecursionError) as reason:
        raise RuleError(
            "a regular expression for tokens cannot be matched in linear time",
            got=f"{reason or 'deep nesting'} in {_shown(pattern)}",
            wanted="an expression without it",
            cause=f"If you need it, choose Python's re. {by_re}",
        ) from None
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise RuleError(
            "a regular expression for tokens is too large",
            got=f"{_shown(pattern)} ({message})",
            wanted=f"counts of at most 1,000, and {_MEMORY >> 20} MB in all",
            cause=f"Large counts, or counts inside counts? If you need them, choose Python's re. {by_re}",
        ) from None


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:77] + "...")


# ---- expressions for which Python's `re` may take exponential time --------------------------------------------------
#
# It does if some part can be repeated in two ways that read the same text, as in (a+)+ or (a|ab|b)*: n repeats can be
# read in 2 ** n ways, and all of them are tried before a text is given up. In terms of places (Glushkov), one for each
# character of the expression: two edges between the same places lie on a loop, or one word leads along two different
# loops from a place back to itself. Expressions that only take polynomial time, such as .*.*.*, are accepted.

_MOST_PLACES = 48  # places; larger expressions are not looked at
_MANY_REPEATS = 8  # repeats that count as without end


class _TooLarge(Exception):  # noqa: N818
    """There are more places than are examined."""


class _Places:
    """The places of an expression, and how often each leads to each."""

    def __init__(self, pattern: str) -> None:
        self.sets: list[Ranges] = []
        self.edges: dict[tuple[int, int], int] = {}
        tree = _parser.parse(pattern)
        self.series(tree.data, tree.state.flags)

    def link(self, a: Part, b: Part) -> None:
        for edge in product(a.last, b.first):
            self.edges[edge] = self.edges.get(edge, 0) + 1

    def then(self, a: Part, b: Part) -> Part:
        self.link(a, b)
        return a.then(b)

    def series(self, nodes: Any, flags: int) -> Part:
        part = NOTHING
        for kind, value in nodes:
            part = self.then(part, self.node(kind, value, flags))
        return part

    def node(self, kind: Any, value: Any, flags: int) -> Part:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            if len(self.sets) >= _MOST_PLACES:
                raise _TooLarge
            self.sets.append(characters(kind, value, flags))
            here = frozenset({len(self.sets) - 1})
            return Part(here, here, False)
        if kind is op.SUBPATTERN:
            return self.series(value[3].data, (flags | value[1]) & ~value[2])
        if kind is op.BRANCH:
            return reduce(Part.either, [self.series(part.data, flags) for part in value[1]])
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            low, high, inside = value
            return self.repeat(low, high, inside, flags)
        return NOTHING  # places between characters; what is never given back, or not known

    def repeat(self, low: int, high: Any, inside: Any, flags: int) -> Part:
        if high is op.MAXREPEAT or high >= _MANY_REPEATS:
            part = self.series(inside.data, flags)
            self.link(part, part)
            return part._replace(empty=part.empty or low == 0)
        copies = NOTHING
        for k in range(high):
            part = self.series(inside.data, flags)
            copies = self.then(copies, part._replace(empty=part.empty or k >= low))
        return copies


def may_explode(pattern: str) -> bool:
    """Return whether Python's `re` may take exponential time to reject a text. False if the expression is large."""
    try:
        places = _Places(pattern)
    except (_TooLarge, RecursionError, re.error):
        return False
    count = range(len(places.sets))
    after: list[list[int]] = [[] for _ in count]
    for a, b in places.edges:
        after[a].append(b)
    reach = [_reached([p], after) for p in count]
    if any(times > 1 and a in reach[b] for (a, b), times in places.edges.items()):
        return True
    meet = [[_overlap(places.sets[p], places.sets[q]) for q in count] for p in count]

    def pairs(pair: tuple[int, int], within: set[int]) -> Iterable[tuple[int, int]]:
        for p, q in product(after[pair[0]], after[pair[1]]):
            if meet[p][q] and p in within and q in within:
                yield p, q

    for s in count:
        loop = {p for p in reach[s] if s in reach[p]}  # what lies on a loop through s
        ahead: dict[tuple[int, int], list[tuple[int, int]]] = {}
        todo = [(s, s)] if loop else []
        for pair in todo:  # grows while we walk
            if pair not in ahead:
                ahead[pair] = list(pairs(pair, loop))
                todo += ahead[pair]
        back: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for pair, following in ahead.items():
            for nxt in following:
                back.setdefault(nxt, []).append(pair)
        if any(p != q for p, q in _reached([(s, s)], back)):
            return True
    return False


def _reached(start: list[Any], after: Any) -> set[Any]:
    """Return the nodes that one or more edges lead to."""
    reached: set[Any] = set()
    todo = list(start)
    for node in todo:  # grows in the loop
        following = after.get(node, ()) if isinstance(after, dict) else after[node]
        todo += (fresh := [other for other in dict.fromkeys(following) if other not in reached])
        reached.update(fresh)
    return reached


def _overlap(a: Ranges, b: Ranges) -> bool:
    k = 0
    b = tuple(sorted(b))
    for low, high in sorted(a):
        while k < len(b) and b[k][1] < low:
            k += 1
        if k < len(b) and b[k][0] <= high:
            return True
    return False
