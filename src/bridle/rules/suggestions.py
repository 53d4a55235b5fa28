"""Suggestions for lines that cannot be parsed: `at most one segment of A` -> `at most 1 segment of A`.

The words of the line are aligned with the words and slots of each sentence, at the least cost:

    cost[i][j] = the least cost to make the first j pieces of a sentence of the first i words of the line
        a word that fits its piece               0        a synonym, or a similar spelling              1
        a word that the line lacks         1 or 2         a word that says little, left out            1

Names are never left out. A suggestion may cost as much as the line has words, more or less, and is made only if it
parses. Lines come from untrusted sources, so their length is bounded. Curly quotation marks, as word processors write
them, become straight ones.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache

from bridle.errors import BridleError, RuleSyntaxError
from bridle.rules.text import PAIRS, Slot, quote, reserved, sentences

Parse = Callable[[str], object]  # raises `BridleError` or returns None if it does not accept a text
STRAIGHT_QUOTES = "Quotation marks must be straight, not curly as word processors write them."
# Quotations, expressions and comments stay as they are.
_CURLY_PAIRS = re.compile(
    r"""("(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|\#.*)|[“”„‟]([^“”„‟"]*)[“”„‟]|(?<!\w)[‘‚‛]([^‘‚‛"]*?)[’‘](?!\w)"""
)
_DOUBLE = str.maketrans(dict.fromkeys("“”„‟", '"'))
_ALL = str.maketrans(dict.fromkeys("“”„‟‘’‚‛", '"'))
_LONGEST, _MOST_WORDS = 400, 30  # characters and words of a line
_RAW = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|[,()\[\]"]|[^\s,()\[\]"#]+|\#.*')
_INCLUDE = re.compile(r'\s*(?:include|import)\s*:?\s+"?([^"#]*[^"#\s])"?\s*(?:#.*)?', re.IGNORECASE)
_NUMERALS = "zero one two three four five six seven eight nine ten"
_NUMBERS = {word: str(number) for number, word in enumerate(_NUMERALS.split())}
_NUMBERS |= {"once": "1", "twice": "2", "single": "1"}
_UNITS = {"segment": "segment segments span spans entity entities chunk chunks field fields time times"}
_UNITS["token"] = "token tokens word words position positions"
_TURNED = {
    "after": "{2} before {0}",
    "follows": "{2} followed by {0}",
    "implies": "if {0} then {2}",
    "requires": "if {0} then {2}",
    "needs": "if {0} then {2}",
}
# Words that people write for a word of a sentence.
_SYNONYMS = {
    "at": "on in for to over",
    "before": "precedes precede preceding earlier",
    "forbid": "never prohibit disallow ban exclude no",
    "allow": "permit only",
    "present": "require required requires exists exist has have contains contain needs mandatory",
    "if": "when whenever",
    "starts": "start begins begin",
    "ends": "end finishes",
    "exactly": "precisely just equal equals",
    "no": "without unique",
    "duplicates": "duplicate repeats repeat repetition repetitions",
    "followed": "follows follow",
    "fix": "set force label",
    "is": "= are be has",
    "over": "in across on",
    "well": "valid",
    "formed": "bio bioes",
    "equal": "identical same",
    "matches": "match regex pattern",
    "with": "by",
    "of": "for",
}
_LITTLE_WORDS = """
    the a an must should shall may can always be is are come comes occur occurs appear appears all any each every
    label labels tag tags rule there that of for to ,
"""
_LITTLE = frozenset(_LITTLE_WORDS.split())  # words that a line can do without
_EACH = ("no", "forbid", "never")  # sentences that a list says of each name: no duplicates of A and B
_PHRASES = {  # what people write for a phrase of a sentence
    "at most": ("no more than", "not more than", "maximum of", "max", "up to", "atmost"),
    "at least": ("no less than", "no fewer than", "not less than", "minimum of", "min", "atleast"),
    "ignoring case": ("ignore case",),
    "next to": ("immediately followed by", "directly followed by", "adjacent to"),
    "well formed": ("wellformed", "well-formed"),
    "penalty": ("penalty =", "cost", "weight"),
    "implies": ("->", "=>"),
    "and": ("&",),
    "or": ("|",),
}


def add_suggestion(error: RuleSyntaxError, line: str, parse: Parse) -> None:
    """Add the line that was perhaps meant, if `parse` accepts it, to an error about a line."""
    straight = straightened(line, parse)
    suggestion = straight or nearest(with_straight_pairs(line), parse)
    causes = [STRAIGHT_QUOTES] if straight or has_curly_quotes(line) else []
    if suggestion is not None:
        causes.append(f"Did you mean: {suggestion}")
        error.suggestion = suggestion
    error.cause = " ".join(causes) or error.cause


def has_curly_quotes(line: str) -> bool:
    """Return whether curly quotation marks enclose something."""
    return with_straight_pairs(line) != line


def with_straight_pairs(line: str) -> str:
    """Return the line with straight marks where curly ones enclose something.

    >>> with_straight_pairs('fix A at tokens “it’s”, "“", ‘b’  # “so”')
    'fix A at tokens "it’s", "“", "b"  # “so”'
    """

    def straight(match: re.Match[str]) -> str:
        kept, double, single = match.groups()
        return kept if kept is not None else f'"{double if double is not None else single}"'

    return _CURLY_PAIRS.sub(straight, line)


def straightened(line: str, parse: Parse) -> str | None:
    """Return the line with straight quotation marks, if `parse` accepts it."""
    if line.isascii():
        return None
    for candidate in dict.fromkeys([with_straight_pairs(line), line.translate(_DOUBLE), line.translate(_ALL)]):
        if candidate != line and _accepts(parse, candidate):
            return candidate.strip()
    return None


def _accepts(parse: Parse, text: str) -> bool:
    with suppress(BridleError):
        return parse(text) is not None
    return False


def nearest(line: str, parse: Parse) -> str | None:
    """Return a line near this one that `parse` accepts, or None.

    >>> from bridle.rules import parse
    >>> nearest("no duplicate of A", parse), nearest("A must come before B [penalty=2", parse)
    ('no duplicates of A', 'A before B  [penalty 2]')
    """
    words = _words(line)
    if not 0 < len(words) <= _MOST_WORDS or len(line) > _LONGEST:
        return None
    if (path := _INCLUDE.fullmatch(line)) is not None:
        return f"include {quote(path[1]) if ' ' in path[1] else path[1]}"
    body, penalty = _penalty(_rephrased(words))
    if penalty is None:
        return None
    for candidate in _candidates(body):
        text = re.sub(r"\b1 (segment|token)s\b", r"1 \1", candidate)
        text = f"{text}  [penalty {penalty}]" if penalty else text
        if text.split() != line.split() and _accepts(parse, text):
            return text
    return None


def _words(line: str) -> list[str]:
    """Return the words and marks of a line; an open quotation is closed."""
    words: list[str] = _RAW.findall(line[: _LONGEST + 1])
    if words and words[-1].startswith("#"):
        words.pop()
    if '"' in words:
        at = words.index('"')
        return [*words[:at], quote(" ".join(words[at + 1 :]))] if words[at + 1 :] else words[:at]
    return words


def _rephrased(words: list[str]) -> list[str]:
    """Replace phrases by those of sentences."""
    result = [*words]
    for phrase, variants in _PHRASES.items():
        for variant in (text.split() for text in variants):
            for k in range(len(result) - len(variant), -1, -1):
                if [word.lower() for word in result[k : k + len(variant)]] == variant:
                    result[k : k + len(variant)] = phrase.split()
    return result


def _penalty(words: list[str]) -> tuple[list[str], str | None]:
    """Return the words in front of a penalty, and the penalty: "" if there is none, None if it cannot be read."""
    for k, word in enumerate(words):
        match = re.fullmatch(r"penalty(?:[=:](.*))?", word, flags=re.IGNORECASE)
        if match is None or k == 0:
            continue
        rest = [part for part in ([match[1]] if match[1] else []) + words[k + 1 :] if part not in ("=", ":", "]", ")")]
        body = words[: k - 1] if words[k - 1] in ("[", "(") else words[:k]
        if len(rest) > 2 and rest[1] == ",":  # a decimal comma
            rest = [f"{rest[0]}.{rest[2]}", *rest[3:]]
        number, more = _number(rest[0]) if rest else None, {part.lower() for part in rest[1:]}
        each = "each" in more or ("per" in more and "sequence" not in more)
        return body, None if number is None else f"{number} per violation" if each else number
    if len(words) > 3 and words[-1] == "]" and words[-3] == "[" and _number(words[-2]):
        return words[:-3], words[-2]
    return words, ""


def _number(word: str) -> str | None:
    text = _NUMBERS.get(word.lower(), word)
    return text if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _candidates(words: list[str]) -> Iterator[str]:
    """Yield lines that the words may stand for, the likeliest first; a formula part by part."""
    yield from _turned(words)
    if (sentence := _sentence(words)) is not None:
        yield sentence
    joined = [*words]
    for k in range(1, len(words) - 1):
        if words[k] in ("and", "or", "&") and _is_name(words[k - 1]) and _is_name(words[k + 1]):
            if words[0].lower() == "present" and words[k] != "or":
                yield f"(present {words[k - 1]}) and (present {words[k + 1]})"
            elif words[k] == "or" or words[0].lower() in _EACH:
                joined[k] = ","
    if joined != words and (sentence := _sentence(joined)) is not None:
        yield sentence
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("(", ")", "not", *PAIRS):
            parts += [[word], []]
        else:
            parts[-1].append(word)
    if len(parts) > 1:
        texts = [_sentence(part) if k % 2 == 0 and part else " ".join(part) for k, part in enumerate(parts)]
        if None not in texts:
            yield " ".join(filter(None, texts)).replace("( ", "(").replace(" )", ")")


def _turned(words: list[str]) -> Iterator[str]:
    """Yield sentences that people write the other way round."""
    low = [word.lower() for word in words]
    if low[:1] == ["matches"] and len(words) > 1 and words[1][0] != '"':
        yield f"matches {quote(' '.join(words[1:]))}"
    if len(words) == 3 and low[1] in _TURNED and _is_name(words[0]) and _is_name(words[2]):
        yield _TURNED[low[1]].format(*words)
    if re.fullmatch(r"(at most|at least|exactly) \w+ (segment|token)s?", " ".join(low)) and _number(words[-2]):
        yield f"{' '.join(low[:-2])} {_number(words[-2])} {low[-1]} of LABEL"
    small = [word for word in words if word not in _LITTLE and word not in ("time", "times")]
    if len(small) == 4 and small[1:3] in (["at", "most"], ["at", "least"]) and _number(small[3]):
        yield f"at {small[2]} {_number(small[3])} segments of {words[0]}"  # A at most once


def _is_name(word: str) -> bool:
    return word[0] == '"' or (word not in reserved() and word[0] not in ",()[]/")


def _sentence(words: list[str]) -> str | None:
    """Return the sentence nearest to these words, if one is near enough."""
    groups = _grouped(words)
    cost, text = min((_aligned(groups, sentence.pieces) for sentence in sentences()), key=lambda pair: pair[0])
    return text if cost < 0.8 * len(groups) + 0.2 else None


def _grouped(words: list[str]) -> list[str]:
    """Join lists of names, and conditions such as `tokens /x/`, to one word each."""
    out: list[str] = []
    k = 0
    while k < len(words):
        word = words[k]
        if word == "," and out and k + 1 < len(words) and words[k + 1].lower() not in ("then", "so"):
            out[-1] += f", {words[k + 1]}"
            k += 1
        elif word in ("tokens", "token") and k + 1 < len(words) and words[k + 1][0] in '/"':
            out.append(f"tokens {words[k + 1]}")
            k += 1
        elif word == "tokens" and words[k + 1 : k + 2] == ["in"] and k + 2 < len(words):
            name = words[k + 2]
            out.append("tokens in " + (name if name[0] == '"' else quote(name)))
            k += 2
        elif word == "tokens" and words[k + 1 : k + 3] == ["ignoring", "case"]:
            out.append("tokens ignoring case")
            k += 2
        elif word in ("first", "last") and ("at" in words[k - 1 : k] or words[max(k - 2, 0) : k] == ["at", "the"]):
            out.append(f"{word} token")
            k += words[k + 1 : k + 2] in (["token"], ["tokens"])
        elif word == "given" and k + 1 < len(words):
            out.append(f"given {words[k + 1]}")
            k += 1
        elif word != ",":
            out.append(word)
        k += 1
    return out


def _aligned(words: list[str], pieces: list[str | Slot]) -> tuple[float, str]:
    """Return the cost of a sentence for these words, and the sentence."""
    row: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
    for word in words:
        row.append((row[-1][0] + _left_out(word), ()))
    for piece in pieces:
        lack, default = _lacking(piece)
        after = [(row[0][0] + lack, (*row[0][1], default))]
        for i, word in enumerate(words, start=1):
            fit, shown = _fits(word, piece)
            ways = [(row[i - 1][0] + fit, row[i - 1][1], shown), (row[i][0] + lack, row[i][1], default)]
            cost, before, text = min(ways, key=lambda way: way[0])
            skipped = after[-1][0] + _left_out(word)
            after.append((cost, (*before, text)) if cost <= skipped else (skipped, after[-1][1]))
        row = after
    return row[-1][0], " ".join(row[-1][1])


def _left_out(word: str) -> float:
    return 1.0 if word in _LITTLE else math.inf


def _lacking(piece: str | Slot) -> tuple[float, str]:
    """Return the cost of a piece that the line lacks, and the text for it."""
    if isinstance(piece, str):
        return (1.0 if piece in ("of", "at", "to", "by", "with", "first") else 2.0), piece
    return (1.5, "segments") if piece.type == "unit" else (math.inf, "")


@lru_cache(maxsize=4096)
def _spelt_alike(word: str, other: str) -> bool:
    return abs(len(word) - len(other)) < 3 and difflib.SequenceMatcher(None, word, other).ratio() > 0.7


def _fits(word: str, piece: str | Slot) -> tuple[float, str]:
    """Return the cost of a word at a piece, and the text for it."""
    low = word.lower()
    if isinstance(piece, str):
        if word == piece:
            return 0.0, piece
        near = low == piece or low in _SYNONYMS.get(piece, "").split() or _spelt_alike(low, piece)
        return (1.0 if near else math.inf), piece
    if piece.type == "int":
        number = _NUMBERS.get(low, word)
        return (math.inf if not re.fullmatch(r"-?\d{1,18}", number) else float(number != word)), number
    if piece.type == "unit":
        for unit, variants in _UNITS.items():
            if low in variants.split():
                return float(low not in (unit, f"{unit}s")), f"{unit}s"
        return math.inf, ""
    if piece.type == "quoted":
        return (0.0, word) if word[0] == '"' else (2.0, quote(word.strip("/")))
    if piece.type == "names":
        if word[0] in "/()[]" or word.startswith("tokens "):
            return math.inf, ""
        if any(low in variants.split() for variants in _UNITS.values()):
            return 3.0, word
        plain = word[0] == '"' or ", " in word or word.startswith("given ") or word not in reserved()
        return (0.5 if word in _LITTLE else 0.0, word) if plain else (3.5, quote(word))
    if piece.type == "place":
        if word[0] == "/":
            return 1.0, f"tokens {word}"
        pattern = r"tokens .*|given \w+|(first|last) token|-?\d+(, -?\d+)*"
    elif piece.type == "equal":
        if low == "words":
            return 1.0, "tokens"
        pattern = r"(?i:tokens)( .*)?|\w+ /.*"
    else:
        pattern = r"given \w+|\d+:\d+(, \d+:\d+)*"
    return (0.0 if re.fullmatch(pattern, word) else math.inf), word
