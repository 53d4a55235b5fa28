r"""Rules as text: one line each, readable by people, with `parse(str(rule)) == rule`.

    at most 1 segment of TITLE
    AUTHOR before TITLE                    [penalty 2.3]   # held in 348 of 350
    (present A0) implies (label at given verb is O)

Every kind of rule brings its sentences (`Rule.text`): words, and slots {field:type}. Around sentences there is a small
grammar: not, and, or, implies, iff, parentheses, a penalty at the end, comments after '#'. A place may be a condition:

    place       condition [after condition] [before condition]
    condition   first token | last token | column pattern | column phrases
    column      tokens, a word or "a quotation"; a word is a column only if a pattern or phrases follow it
    pattern     /\d{5}/ or "\\d{5}", [by re]
    phrases     in "cities.txt" or among "New York", "Boston", [ignoring case]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, cast

from bridle.errors import RuleError, RuleSyntaxError, shown
from bridle.phrases import Ignoring, PhraseList, list_of, read_list
from bridle.rules.arcs import read_automaton
from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import And, Iff, Implies, Not, Or, Pair
from bridle.rules.conditions import (
    TOKENS,
    Condition,
    EndToken,
    Given,
    TokenPlace,
    Tokens,
    TokensIn,
    in_context,
    parts_of,
)
from bridle.rules.documents import InDocument, in_document
from bridle.rules.equal import Equal
from bridle.rules.references import Names, Place

MOST_CONNECTIVES = 150  # of one line: not, and, or, implies, iff, opened parentheses
# from the tightest to the loosest
PAIRS: dict[str, Callable[[Rule, Rule], Pair]] = {"and": And, "or": Or, "implies": Implies, "iff": Iff}
_DOCUMENT = ("in", "the", "document:")  # before a rule about all sentences of a document
WORDS = {"not", *PAIRS, "given", "tokens", "penalty", "per", "nowhere"}
# Words of sentences that were added later. Files may have labels with these names and no quotation marks, which go on
# to mean what they did; new ones are printed between quotation marks.
LATER = {"first", "for", "equal", "ignoring", "case", "include", "automaton"}

# ---- tokens and quotations ------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|"(?P<quoted>(?:[^"\\]|\\.)*)"|/(?P<regex>(?:[^/\\]|\\.)*)/
        |(?P<mark>[,()\[\]])|(?P<word>[^\s,()\[\]"\#]+))""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"-?\d+")
_FILE = "the name of a file in quotation marks"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}  # a rule stays on one line


class Token(NamedTuple):
    """A token of a line; `text` is the part between quotation marks or slashes, as it is written."""

    kind: str  # quoted, regex, mark, word
    text: str


class ScannedLine(NamedTuple):
    """The tokens of a line."""

    tokens: list[Token]
    comment: str  # from the first # on; "" if there is none
    extents: list[tuple[int, int]]  # begin and end of each token in the line


def scan(line: str) -> ScannedLine:
    """Split a line into tokens."""
    tokens, extents, comment = [], [], ""
    at, end = 0, len(line.rstrip())
    while at < end:
        match = _TOKEN.match(line, at)
        if match is None:
            rest = shown(line[at:].strip())
            raise RuleSyntaxError("a quotation mark is missing", got=rest, wanted="a closed quotation")
        kind, at = match.lastgroup or "", match.end()
        if kind == "comment":
            comment = match[kind].rstrip()
        else:
            tokens.append(Token(kind, match[kind]))
            extents.append((match.start(kind) - (kind in ("quoted", "regex")), at))
    return ScannedLine(tokens, comment, extents)


def quote(text: str) -> str:
    """Return the text between quotation marks, escaped."""
    return '"' + re.sub(r'[\\"\n\r]', lambda match: _ESCAPES[match[0]], text) + '"'


def unquote(text: str) -> str:
    """Undo the escapes of `quote` in the text between quotation marks."""
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), text, flags=re.DOTALL)


def _unslash(text: str) -> str:
    return text.replace(r"\/", "/")


def quoted_name(name: str) -> str:
    """Return a name as a line has it: between quotation marks unless it is a plain word."""
    plain = re.fullmatch(r"[^\s,()\[\]\"#/]+", name) and name not in _quoted_words()
    return name if plain else quote(name)


# ---- sentences ------------------------------------------------------------------------------------------------------


class Slot(NamedTuple):
    """A part of a sentence that a field of the rule fills."""

    field: str
    type: str


class Sentence(NamedTuple):
    """One way to write a kind of rule."""

    kind: type[Rule]
    pieces: list[str | Slot]
    words: frozenset[str]  # those among the pieces


@cache
def sentences() -> list[Sentence]:
    """Return the sentences of all kinds of rules."""
    result = []
    for kind in Rule.kinds:
        for text in kind.text:
            pieces = [Slot(*w[1:-1].split(":")) if w[0] == "{" else w for w in text.split()]
            result.append(Sentence(kind, pieces, frozenset(w for w in pieces if isinstance(w, str))))
    return result


@cache
def _quoted_words() -> Set[str]:
    """Return the words that are printed between quotation marks where they are label names."""
    return WORDS.union(LATER, *(sentence.words for sentence in sentences()))


@cache
def reserved() -> Set[str]:
    """Return the words that are label names only in quotation marks."""
    return _quoted_words() - LATER


# ---- printing -------------------------------------------------------------------------------------------------------


def to_text(rule: Rule) -> str:
    """Print a rule as one line, from which `parse` reads the same rule."""
    if isinstance(rule, Soft):
        per = " per violation" if rule.per == "violation" else ""
        return f"{to_text(rule.rule)}  [penalty {rule.penalty!r}{per}]"
    if isinstance(rule, InDocument):
        return f"in the document: {to_text(rule.rule)}"
    if isinstance(rule, Not):
        return f"not ({to_text(rule.rule)})"
    if isinstance(rule, Pair):
        return f"({to_text(rule.left)}) {rule.word} ({to_text(rule.right)})"
    for kind, pieces, _ in sentences():
        values = {p.field: getattr(rule, p.field, None) for p in pieces if isinstance(p, Slot)}
        if type(rule) is kind and None not in values.values():
            return " ".join(p if isinstance(p, str) else _print_slot(p.type, values[p.field], rule) for p in pieces)
    if type(rule).__str__ is not Rule.__str__:
        return str(rule)
    raise TypeError(f"{type(rule).__name__} has no sentence")


def _print_slot(kind: str, value: Any, rule: Rule) -> str:
    if kind == "unit":
        return str(value)[:-1] if getattr(rule, "k", 0) == 1 else str(value)
    if kind == "quoted":
        return quote(value)
    if kind == "names":
        return ", ".join(_print_name(name) for name in value.items)
    if kind == "equal":
        tokens = "tokens" if value.pattern is None else _print_condition(value.pattern)
        return f"{tokens} ignoring case" if value.ignoring_case else tokens
    if kind in ("place", "spans"):
        source = value.source
        if isinstance(source, Given):
            return _print_name(source)
        if isinstance(source, TokenPlace):
            parts = ((role, _print_condition(condition)) for role, condition in parts_of(source).items())
            return " ".join(text if role == "here" else f"{role} {text}" for role, text in parts)
        return ", ".join(f"{x[0]}:{x[1]}" if kind == "spans" else str(x) for x in source) or "nowhere"
    return str(value)


def _print_name(name: str | Given) -> str:
    return f"given {name.key}" if isinstance(name, Given) else quoted_name(name)


def _print_condition(condition: Condition) -> str:
    if isinstance(condition, EndToken):
        return f"{condition.end} token"
    column = TOKENS if condition.column is None else quoted_name(condition.column)
    if _NUMBER.fullmatch(column):
        column = quote(column)
    if isinstance(condition, Tokens):
        slashed = re.sub(r"(\\.)|/", lambda match: match[1] or r"\/", condition.pattern, flags=re.DOTALL)
        exact = _unslash(slashed) == condition.pattern and not re.search(r"[\n\r]", slashed)
        by = "" if condition.engine == "re2" else f" by {condition.engine}"
        return f"{column} /{slashed}/{by}" if exact else f"{column} {quote(condition.pattern)}{by}"
    name, ignoring = condition.phrases.name, "" if condition.ignoring is None else f" ignoring {condition.ignoring}"
    if name is not None:
        return f"{column} in {quote(name)}{ignoring}"
    return f"{column} among {', '.join(map(quote, condition.phrases.phrases()))}{ignoring}"


# ---- parsing --------------------------------------------------------------------------------------------------------


class _Mismatch(Exception):  # noqa: N818
    """A sentence does not fit the tokens."""


class _Parser:
    """Recursive descent over the tokens of one line; sentences are tried in turn and the longest fit wins."""

    def __init__(self, line: str, files: Files) -> None:
        self.files = files
        self.tokens, comment, _ = scan(line)
        self.comment = comment[1:].strip()
        self.at = 0
        # Only sentences whose words all occur can fit; `_fail` tries the others to say what was expected.
        words = {token.text for token in self.tokens}
        self.sentences = [sentence for sentence in sentences() if sentence.words <= words]
        self.furthest, self.expected = 0, set[str]()  # the furthest token that any attempt reached

    def mismatch(self, wanted: str) -> _Mismatch:
        if self.at > self.furthest:
            self.furthest, self.expected = self.at, set()
        if self.at == self.furthest:
            self.expected.add(wanted)
        return _Mismatch()

    def next_is(self, kind: str, *texts: str) -> bool:
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.kind == kind and (not texts or token.text in texts)

    def take(self, kind: str, *texts: str, wanted: str | None = None) -> str:
        if not self.next_is(kind, *texts):
            raise self.mismatch(wanted or " or ".join(map(repr, texts)) or f"a {kind}")
        self.at += 1
        return self.tokens[self.at - 1].text

    def skip(self, kind: str, text: str) -> bool:
        """Take a token if it is next."""
        fits = self.next_is(kind, text)
        self.at += fits
        return fits

    def skip_words(self, *words: str) -> bool:
        """Take words if they are next."""
        fits = self.tokens[self.at : self.at + len(words)] == [Token("word", word) for word in words]
        self.at += len(words) * fits
        return fits

    def line(self) -> Rule:
        """Parse the whole line: a rule, and its penalty if it has one."""
        rule = in_document(self.formula()) if self.skip_words(*_DOCUMENT) else self.formula()
        if self.skip("mark", "["):
            self.take("word", "penalty")
            penalty = self.number()
            per: Any = self.take("word", "violation", "sequence") if self.skip("word", "per") else "sequence"
            self.take("mark", "]")
            rule = Soft(rule, penalty, per)
        if self.at < len(self.tokens):
            raise self.mismatch("the end of the rule")
        return rule

    def formula(self, level: int = len(PAIRS) - 1) -> Rule:
        if level < 0:
            return self.single()
        word, kind = list(PAIRS.items())[level]
        rule = self.formula(level - 1)
        while self.skip("word", word):
            right = self.formula(level if word == "implies" else level - 1)  # a implies b implies c: to the right
            rule = kind(rule, right)
        return rule

    def single(self) -> Rule:
        if self.skip("word", "not"):
            return Not(self.single())
        if self.skip("mark", "("):
            rule = self.formula()
            self.take("mark", ")")
            return rule
        begin, best, end = self.at, None, self.at
        for kind, pieces, _ in self.sentences:
            self.at = begin
            with suppress(_Mismatch):
                values = self.slots(pieces)
                if self.at > end:
                    best, end = (kind, values), self.at
        self.at = end
        if best is None:
            raise self.mismatch("a rule")
        return best[0](**best[1])

    def slots(self, pieces: list[str | Slot]) -> dict[str, Any]:
        """Parse a sentence; return the values of its slots."""
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
            raise self.mismatch("a number") from None

    def matching(self, pattern: str, wanted: str) -> re.Match[str]:
        """Take the next token, of any kind, if it matches."""
        match = re.fullmatch(pattern, self.tokens[self.at].text) if self.at < len(self.tokens) else None
        if match is None:
            raise self.mismatch(wanted)
        self.at += 1
        return match

    def integer(self) -> int:
        return int(self.matching(r"-?\d{1,18}", "an integer")[0])

    def span(self) -> tuple[int, int]:
        match = self.matching(r"(\d{1,18}):(\d{1,18})", "a span such as 4:7")
        return int(match[1]), int(match[2])

    def name(self) -> str | Given:
        if self.next_is("quoted"):
            return self.quoted()
        if self.next_is("word", "given"):
            return self.given()
        if self.at < len(self.tokens) and self.tokens[self.at].text in reserved():
            raise self.mismatch("a label name")
        return self.take("word", wanted="a label name")

    def given(self) -> Given:
        self.take("word", "given")
        return Given(self.take("word", wanted="the name of a given value"))

    def listed(self, item: Callable[[], Any]) -> list[Any]:
        items = [item()]
        while self.skip("mark", ","):
            items.append(item())
        return items

    def names(self) -> Names:
        items = self.listed(self.name)
        return Names(tuple(dict.fromkeys(items))) if all(items) else Names.of(items)  # which raises

    def place(self) -> Place:
        if self.next_is("word", "given"):
            return Place(self.given())
        if self.skip("word", "nowhere"):
            return Place.at(())
        if self.condition_is_next():
            return Place(self.token_place())
        self.mismatch("a column and an expression such as pos /NNP/")
        return Place.at(self.listed(self.integer))

    def spans(self) -> Place:
        if self.next_is("word", "given"):
            return Place.spans(self.given())
        return Place.spans(() if self.skip("word", "nowhere") else self.listed(self.span))

    def equal(self) -> Equal:
        matches = any(token.kind in ("regex", "quoted") for token in self.tokens[self.at + 1 : self.at + 2])
        pattern = cast(Tokens, self.condition()) if matches else None
        if pattern is None:
            self.take("word", TOKENS)
        return Equal(pattern, ignoring_case=self.ignoring() is not None)

    def unit(self) -> str:
        word = self.take("word", "segment", "segments", "token", "tokens")
        return word if word.endswith("s") else word + "s"

    def quoted(self, wanted: str = "an expression in quotation marks") -> str:
        return unquote(self.take("quoted", wanted=wanted))

    def condition_is_next(self) -> bool:
        word, follows = (*self.tokens[self.at : self.at + 2], ("", ""), ("", ""))[:2]
        if word == ("word", TOKENS) or self.end_token_is_next():
            return True
        named = word[0] == "quoted" or (word[0] == "word" and not _NUMBER.fullmatch(word[1]))
        return named and (follows[0] in ("regex", "quoted") or follows in (("word", "in"), ("word", "among")))

    def end_token_is_next(self) -> bool:
        return self.next_is("word", "first", "last") and self.tokens[self.at + 1 : self.at + 2] == [("word", "token")]

    def token_place(self) -> TokenPlace:
        """Parse a condition, with those on the neighbours."""
        here, context = self.condition(), dict[str, Condition]()
        while any(role not in context and self.next_is("word", role) for role in ("after", "before")):
            role = self.take("word")
            context[role] = self.condition()
        return in_context(here, **context)

    def condition(self) -> Condition:
        if not self.condition_is_next():
            raise self.mismatch("a condition such as tokens /[A-Z].*/")
        if self.end_token_is_next():
            self.at += 2
            return EndToken("first" if self.tokens[self.at - 2].text == "first" else "last")
        text = self.quoted() if self.next_is("quoted") else self.take("word")
        column = None if text == TOKENS else text
        if self.skip("word", "in"):
            phrases = self.files.phrases(self.quoted(_FILE))
        elif self.skip("word", "among"):
            phrases = list_of(self.listed(lambda: self.quoted("a phrase in quotation marks")))
        else:
            return self.pattern(column)
        return TokensIn(phrases, self.ignoring(), column)

    def pattern(self, column: str | None) -> Tokens:
        if self.next_is("quoted"):
            pattern = self.quoted()
        else:
            pattern = _unslash(self.take("regex", wanted="an expression between slashes"))
        by_re = self.skip("word", "by") and self.take("word", "re")
        return Tokens(pattern, "re" if by_re else "re2", column)

    def ignoring(self) -> Ignoring:
        if not self.skip("word", "ignoring"):
            return None
        self.take("word", "case")
        return "case"


_SLOTS: dict[str, Callable[[_Parser], Any]] = {
    "int": _Parser.integer,
    "names": _Parser.names,
    "place": _Parser.place,
    "spans": _Parser.spans,
    "equal": _Parser.equal,
    "unit": _Parser.unit,
    "quoted": _Parser.quoted,
    "automaton": lambda parser: parser.files.automaton(parser.quoted(_FILE)),
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
    files = Files(folder)
    rule, _ = parse_line(line, files)
    return rule if rule is not None else _fail(_Parser(line, files), line)


def parse_line(
    line: str, files: Files | None = None, hint: Literal["suggest", "none"] = "suggest"
) -> tuple[Rule | None, str]:
    """Return the rule on a line, if there is one, and its comment. hint: whether errors suggest a sentence."""
    files = files or Files(None)
    try:
        return _parse(line, files)
    except RuleSyntaxError as error:
        if hint == "suggest" and included_by(line) is None:
            from bridle.rules.suggestions import add_suggestion  # it knows the sentences

            add_suggestion(error, line, lambda text: _parse(text, files)[0])
        raise


def _parse(line: str, files: Files) -> tuple[Rule | None, str]:
    parser = _Parser(line, files)
    if not parser.tokens:
        return None, parser.comment
    connectives = sum(token == ("mark", "(") or token in _CONNECTIVES for token in parser.tokens)
    try:
        if connectives > MOST_CONNECTIVES:
            raise RecursionError  # calls nest as the rule does
        return parser.line(), parser.comment
    except RecursionError:
        wanted = f"at most {MOST_CONNECTIVES} of not, and, or, implies, iff and parentheses on a line"
        raise RuleSyntaxError("a rule has too many parts", got=shown(line.strip()), wanted=wanted) from None
    except _Mismatch:
        _fail(parser, line)


_CONNECTIVES = {Token("word", word) for word in ("not", *PAIRS)}


def _fail(parser: _Parser, line: str) -> NoReturn:
    """Raise the error that says what was expected where, of all sentences that there are."""
    problem = cause = None
    if included_by(line) is not None:
        problem = "no files are included here"
        cause = "Only files include others: rules.load(path), or rules.parse_lines(lines, folder=...)."
    elif EXAMPLE.match(line):
        problem = "a test case is not a rule"
        cause = "Test cases are lines of .rules files, which rules.load and rules.parse_lines read."
    if problem is not None:
        raise RuleSyntaxError(problem, got=shown(line.strip()), wanted="a rule", cause=cause)
    parser.at, parser.sentences = 0, sentences()
    with suppress(_Mismatch):
        parser.line()
    rest = parser.tokens[parser.furthest :]
    got = repr(" ".join(token.text for token in rest[:6])) if rest else "the end of the line"
    expected = sorted(parser.expected) if "a rule" not in parser.expected else ["a rule such as 'A before B'"]
    if "a label name" in expected and rest and rest[0].text in reserved():
        cause = f'Put a label of that name in quotation marks: "{rest[0].text}".'
    wanted = ", or ".join(expected[:6])
    raise RuleSyntaxError(f"not a rule: {line.strip()!r}", got=got, wanted=wanted, cause=cause) from None


# ---- other lines of files, and files that rules name ----------------------------------------------------------------

# A line that is a test case (loading.py), or meant to be one. No rule begins so: after a label called `example`, a
# quotation is possible only behind a comma.
EXAMPLE = re.compile(r'\s*example(?:\s*"|\s+[“”„‟‘‚‛])')
_INCLUDE = re.compile(r"""\s*include\s+(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"#]\S*))\s*(?:\#.*)?""")


def included_by(line: str) -> str | None:
    """Return the path in a line such as ``include other.rules``. A rule about a label of that name has more words."""
    match = _INCLUDE.fullmatch(line)
    return None if match is None else match["quoted"] or match["plain"]


class Files:
    """The files that rules name, in a folder; without a folder, to name one is an error."""

    def __init__(self, folder: str | Path | None) -> None:
        self._folder = folder
        self._lists: dict[str, PhraseList] = {}

    def phrases(self, name: str) -> PhraseList:
        """Read a list of phrases, once."""
        if name not in self._lists:
            instead = 'write the phrases: among "New York", "Boston"'
            self._lists[name] = read_list(self._path(name, "list", "in", instead), name)
        return self._lists[name]

    def automaton(self, name: str) -> str:
        """Read the text of an automaton."""
        return read_automaton(self._path(name, "automaton", "from", 'write the arcs: automaton "0 1 A; 1"'), name)

    def _path(self, name: str, what: str, word: str, instead: str) -> Path:
        if self._folder is None:
            raise RuleError(
                f"a rule names {'an' if what[0] == 'a' else 'a'} {what} in a file, and files are not read here",
                got=f"{word} {quote(name)}",
                wanted=f"rules.parse(sentence, folder=...), the folder of {quote(name)}",
                cause=f"Load a .rules file with rules.load(path), or {instead}.",
            )
        return Path(self._folder, name)
