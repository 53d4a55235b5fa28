"""Rules as text: one line each, readable by people, with `parse(str(rule)) == rule`.

    at most 1 segment of TITLE
    AUTHOR before TITLE                    [penalty 2.3]   # held in 348 of 350
    (present A0) implies (label at given verb is O)

Every kind of rule brings its own sentence (sentences.py). Here are the types of its slots and the small grammar
around sentences: not, and, or, implies, iff, parentheses, a penalty at the end, comments after '#'.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NoReturn

from bridle.errors import RuleSyntaxError, shown
from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import Not
from bridle.rules.condition_text import ReadList, condition_is_next, lists_in, read_token_place
from bridle.rules.conditions import Tokens
from bridle.rules.equal import Equal
from bridle.rules.examples import EXAMPLE
from bridle.rules.inputs import Given
from bridle.rules.line_tokens import Token, scan
from bridle.rules.quotation import ADVICE, has_curly, paired, straightened
from bridle.rules.refer import Names, Place
from bridle.rules.sentences import PAIRS, Slot, reserved, sentences, unquote, unslash

MOST_CONNECTIVES = 150  # of one line: not, and, or, implies, iff, opened parentheses
_CONNECTIVES = {Token("mark", "("), *(Token("word", word) for word in ("not", *PAIRS))}


class _Miss(Exception):  # noqa: N818
    """A sentence does not fit here."""


class _Reader:
    """Recursive descent over the tokens of one line; sentences are tried in turn and the longest fit wins."""

    def __init__(self, line: str, lists: ReadList) -> None:
        self.read_list = lists
        self.tokens, comment, _ = scan(line)
        self.comment = comment[1:].strip()
        self.at = 0
        # Only sentences whose words are all there can fit; `parse` tries the others to say what was expected.
        there = {token.text for token in self.tokens}
        self.sentences = [sentence for sentence in sentences() if sentence.words <= there]
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
        rule = self.pair(len(PAIRS) - 1)
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
        word, kind = list(PAIRS.items())[level]
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
            rule = self.pair(len(PAIRS) - 1)
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

    def slots(self, pieces: list[str | Slot]) -> dict[str, Any]:
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
        raise self.miss("an integer")

    def name(self) -> str | Given:
        if self.next_is("quoted"):
            return unquote(self.take("quoted"))
        if self.next_is("word", "given"):
            return self.given()
        if self.at < len(self.tokens) and self.tokens[self.at].text in reserved():
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
        if self.next_is("word", "nowhere"):
            self.at += 1
            return Place.at(())
        if condition_is_next(self):
            return Place(read_token_place(self))
        self.miss("a column and an expression such as pos /NNP/")
        return Place.at(self.listed(self.integer))

    def matching_tokens(self) -> Tokens:
        self.take("word", "tokens")
        if self.next_is("quoted"):
            pattern = self.quoted()
        else:
            pattern = unslash(self.take("regex", wanted="an expression between slashes"))
        if not self.next_is("word", "by"):
            return Tokens(pattern)
        self.at += 1
        self.take("word", "re")
        return Tokens(pattern, "re")

    def equal(self) -> Equal:
        at = self.at
        self.take("word", "tokens")
        pattern = None
        if self.next_is("regex") or self.next_is("quoted"):
            self.at = at
            pattern = self.matching_tokens()
        if not self.next_is("word", "ignoring"):
            return Equal(pattern)
        self.at += 1
        self.take("word", "case")
        return Equal(pattern, ignoring_case=True)

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
        return unquote(self.take("quoted", wanted="an expression in quotation marks"))


_SLOTS: dict[str, Callable[[_Reader], Any]] = {
    "int": _Reader.integer,
    "names": _Reader.names,
    "place": _Reader.place,
    "spans": _Reader.spans,
    "equal": _Reader.equal,
    "unit": _Reader.unit,
    "quoted": _Reader.quoted,
}


def parse(line: str, *, folder: str | Path | None = None) -> Rule:
    """Read a rule from its sentence, one line of a .rules file.

    Parameters
    ----------
    line : str
        The sentence, with ``[penalty ...]`` for a soft rule; a comment after ``#`` is skipped. It may have at
        most 150 of not, and, or, implies, iff and opening parentheses.
    folder : str or Path, optional
        Folder of the files that the sentence names, as in ``tokens in "cities.txt"``. Without it, no file is read, so
        you can parse rules from untrusted sources.

    Returns
    -------
    Rule
        ``parse(str(rule)) == rule`` for every rule; with `folder`, if it names files.

    Raises
    ------
    RuleSyntaxError
        If the line is not a rule; the message says what was expected, and where.
    RuleError
        If its values are invalid, or it names a file and `folder` is missing.
    FileError
        If a file that it names cannot be read.

    Examples
    --------
    >>> from bridle import rules
    >>> rules.parse("AUTHOR before TITLE [penalty 2.3]") == rules.before("AUTHOR", "TITLE").soft(2.3)
    True
    """
    lists = lists_in(folder)
    rule, _ = parse_line(line, lists)
    return rule if rule is not None else _no_rule(_Reader(line, lists), line)


def parse_line(
    line: str, lists: ReadList | None = None, hint: Literal["suggest", "none"] = "suggest"
) -> tuple[Rule | None, str]:
    """The rule on a line, if there is one, and its comment.

    lists: what reads the lists that it names.   hint: does an error name the sentence that was meant?
    """
    lists = lists or lists_in(None)
    try:
        return _parsed(line, lists)
    except RuleSyntaxError as error:
        if hint == "suggest" and included_by(line) is None:
            from bridle.rules.nearest import nearest  # only what is wrong needs it

            def read(text: str) -> Rule:
                return _must(_parsed(text, lists)[0])

            straight = straightened(line, read)
            meant = straight or nearest(paired(line), read)
            causes = [ADVICE] if straight or has_curly(line) else []
            if meant is not None:
                causes.append(f"Did you mean: {meant}")
                error.suggestion = meant
            error.cause = " ".join(causes) or error.cause
        raise


def _must(rule: Rule | None) -> Rule:
    if rule is None:
        raise RuleSyntaxError("no rule", got="a comment", wanted="a rule")
    return rule


def _parsed(line: str, lists: ReadList) -> tuple[Rule | None, str]:
    reader = _Reader(line, lists)
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


_INCLUDE = re.compile(r"""\s*include\s+(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"#]\S*))\s*(?:\#.*)?""")


def included_by(line: str) -> str | None:
    """The path in a line such as ``include other.rules``. A rule about a label of that name has more words."""
    found = _INCLUDE.fullmatch(line)
    return None if found is None else found["quoted"] or found["plain"]


def _no_rule(reader: _Reader, line: str) -> NoReturn:
    """Say what was expected where, of all sentences that there are."""
    if included_by(line) is not None:
        raise RuleSyntaxError(
            "no files are included here",
            got=shown(line.strip()),
            wanted="a rule",
            cause="Only files include others: rules.load(path), or rules.parse_lines(lines, folder=...).",
        )
    if EXAMPLE.match(line):
        raise RuleSyntaxError(
            "a test case is not a rule",
            got=shown(line.strip()),
            wanted="a rule",
            cause="Test cases are lines of .rules files, which rules.load and rules.parse_lines read.",
        )
    reader.at, reader.sentences = 0, sentences()
    with suppress(_Miss):
        reader.line()
    rest = reader.tokens[reader.far :]
    got = repr(" ".join(token.text for token in rest[:6])) if rest else "the end of the line"
    hopes = sorted(reader.hopes) if "a rule" not in reader.hopes else ["a rule such as 'A before B'"]
    named = "a label name" in hopes and rest and rest[0].text in reserved()
    raise RuleSyntaxError(
        f"not a rule: {line.strip()!r}",
        got=got,
        wanted=", or ".join(hopes[:6]),
        cause=f'Put a label of that name in quotation marks: "{rest[0].text}".' if named else None,
    ) from None
