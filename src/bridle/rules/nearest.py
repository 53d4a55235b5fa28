"""The sentence that a line was perhaps meant to be: `at most one segment of A` -> `at most 1 segment of A`.

The words of the line are aligned with the words and slots of each sentence, at the least cost:

    cost[i][j] = the least cost to make the first j pieces of a sentence of the first i words of the line
        a word that fits its piece               0        a synonym, or a similar spelling              1
        a word that the line lacks         1 or 2         a word that says little, left out            1

Names are never left out. A suggestion may cost as much as the line has words, more or less, and is made only if it
parses. Lines are written by anybody, so their length is bounded.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache

from bridle.errors import BridleError
from bridle.rules.base import Rule
from bridle.rules.sentences import PAIRS, Slot, quote, reserved, sentences

_LONGEST, _MOST_WORDS = 400, 30  # characters and words of a line
_RAW = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|[,()\[\]"]|[^\s,()\[\]"#]+|\#.*')
_INCLUDE = re.compile(r'\s*(?:include|import)\s*:?\s+"?([^"#]*[^"#\s])"?\s*(?:#.*)?', re.IGNORECASE)
_NUMBERS = {
    word: str(k)
    for k, word in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
}
_NUMBERS |= {"eight": "8", "nine": "9", "ten": "10", "once": "1", "twice": "2", "single": "1"}
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
_LITTLE = frozenset(
    {"the", "a", "an", "must", "should", "shall", "may", "can", "always", "be", "is", "are", "come", "comes", "occur"}
    | {"occurs", "appear", "appears", "all", "any", "each", "every", "label", "labels", "tag", "tags", "rule"}
    | {"there", "that", "of", "for", "to", ","}
)
_EACH = ("no", "forbid", "never")  # sentences that a list says of each name: no duplicates of A and B
_PHRASES = [
    (tuple(said.split()), tuple(meant.split()))
    for said, meant in {
        "no more than": "at most",
        "not more than": "at most",
        "maximum of": "at most",
        "max": "at most",
        "up to": "at most",
        "no less than": "at least",
        "no fewer than": "at least",
        "not less than": "at least",
        "minimum of": "at least",
        "min": "at least",
        "atmost": "at most",
        "atleast": "at least",
        "ignore case": "ignoring case",
        "immediately followed by": "next to",
        "directly followed by": "next to",
        "adjacent to": "next to",
        "wellformed": "well formed",
        "well-formed": "well formed",
        "penalty =": "penalty",
        "cost": "penalty",
        "weight": "penalty",
        "->": "implies",
        "=>": "implies",
        "&": "and",
        "|": "or",
    }.items()
]


def nearest(line: str, parse: Callable[[str], Rule]) -> str | None:
    """A line near this one that `parse` takes, or None.

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
    for made in _meant(body):
        made = re.sub(r"\b1 (segment|token)s\b", r"1 \1", made)
        text = f"{made}  [penalty {penalty}]" if penalty else made
        with suppress(BridleError):
            parse(text)
            if text.split() != line.split():
                return text
    return None


def _words(line: str) -> list[str]:
    """The words and marks of a line, expressions as they are written; an open quotation is closed."""
    found = _RAW.findall(line[: _LONGEST + 1])
    if found and found[-1].startswith("#"):
        found.pop()
    if '"' in found:
        at = found.index('"')
        return [*found[:at], quote(" ".join(found[at + 1 :]))] if found[at + 1 :] else found[:at]
    return list(found)


def _rephrased(words: list[str]) -> list[str]:
    """Phrases that people write for others."""
    found = [*words]
    for said, meant in _PHRASES:
        for k in range(len(found) - len(said), -1, -1):
            if tuple(word.lower() for word in found[k : k + len(said)]) == said:
                found[k : k + len(said)] = meant
    return found


def _penalty(words: list[str]) -> tuple[list[str], str | None]:
    """The words in front of a penalty, and what it is: "" if there is none, None if it cannot be read."""
    for k, word in enumerate(words):
        found = re.fullmatch(r"penalty(?:[=:](.*))?", word, flags=re.IGNORECASE)
        if found is None or k == 0:
            continue
        rest = [part for part in ([found[1]] if found[1] else []) + words[k + 1 :] if part not in ("=", ":", "]", ")")]
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


def _meant(words: list[str]) -> Iterator[str]:
    """What the words may have been meant to be, the likeliest first; a formula part by part."""
    yield from _turned(words)
    whole = _sentence(words)
    if whole is not None:
        yield whole
    joined = [*words]
    for k in range(1, len(words) - 1):
        if words[k] in ("and", "or", "&") and _is_name(words[k - 1]) and _is_name(words[k + 1]):
            if words[0].lower() == "present" and words[k] != "or":
                yield f"(present {words[k - 1]}) and (present {words[k + 1]})"
            elif words[k] == "or" or words[0].lower() in _EACH:
                joined[k] = ","
    if joined != words and (whole := _sentence(joined)) is not None:
        yield whole
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("(", ")", "not", *PAIRS):
            parts += [[word], []]
        else:
            parts[-1].append(word)
    if len(parts) > 1:
        made = [_sentence(part) if k % 2 == 0 and part else " ".join(part) for k, part in enumerate(parts)]
        if all(part is not None for part in made):
            yield " ".join(filter(None, made)).replace("( ", "(").replace(" )", ")")


def _turned(words: list[str]) -> Iterator[str]:
    """Sentences that people write the other way round."""
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
    """The sentence nearest to these words."""
    groups = _grouped(words)
    best, text = 0.8 * len(groups) + 0.2, None
    for sentence in sentences():
        cost, made = _aligned(groups, sentence.pieces)
        if cost < best:
            best, text = cost, made
    return text


def _grouped(words: list[str]) -> list[str]:
    """Lists of names as one word; `tokens /x/` too."""
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
    """The cost of a sentence for these words, and the sentence."""
    row: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
    for word in words:
        row.append((row[-1][0] + _left_out(word), ()))
    for piece in pieces:
        lack, default = _lacking(piece)
        after = [(row[0][0] + lack, (*row[0][1], default))]
        for i, word in enumerate(words, start=1):
            fit, shown = _fits(word, piece)
            ways = [
                (row[i - 1][0] + fit, row[i - 1][1], shown),
                (row[i][0] + lack, row[i][1], default),
            ]
            cost, before, text = min(ways, key=lambda way: way[0])
            skipped = after[-1][0] + _left_out(word)
            after.append((cost, (*before, text)) if cost <= skipped else (skipped, after[-1][1]))
        row = after
    return row[-1][0], " ".join(row[-1][1])


def _left_out(word: str) -> float:
    return 1.0 if word in _LITTLE else math.inf


def _lacking(piece: str | Slot) -> tuple[float, str]:
    """What it costs if the line lacks a piece, and what is written for it."""
    if isinstance(piece, str):
        return (1.0 if piece in ("of", "at", "to", "by", "with", "first") else 2.0), piece
    return (1.5, "segments") if piece.type == "unit" else (math.inf, "")


@lru_cache(maxsize=4096)
def _spelt_alike(word: str, other: str) -> bool:
    return abs(len(word) - len(other)) < 3 and difflib.SequenceMatcher(None, word, other).ratio() > 0.7


def _fits(word: str, piece: str | Slot) -> tuple[float, str]:
    """The cost of a word at a piece, and what is written for it."""
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
        for unit, said in _UNITS.items():
            if low in said.split():
                return float(low not in (unit, f"{unit}s")), f"{unit}s"
        return math.inf, ""
    if piece.type == "quoted":
        return (0.0, word) if word[0] == '"' else (2.0, quote(word.strip("/")))
    if piece.type == "names":
        if word[0] in "/()[]" or word.startswith("tokens "):
            return math.inf, ""
        if any(low in said.split() for said in _UNITS.values()):
            return 3.0, word
        plain = word[0] == '"' or ", " in word or word.startswith("given ") or word not in reserved()
        return (0.5 if word in _LITTLE else 0.0, word) if plain else (3.5, quote(word))
    if piece.type == "place":
        if word[0] == "/":
            return 1.0, f"tokens {word}"
        return (
            0.0 if re.fullmatch(r"tokens .*|given \w+|(first|last) token|-?\d+(, -?\d+)*", word) else math.inf
        ), word
    if piece.type == "equal":
        return (0.0 if low == "tokens" or low.startswith("tokens ") else 1.0 if low == "words" else math.inf), (
            "tokens" if low == "words" else word
        )
    return (0.0 if re.fullmatch(r"given \w+|\d+:\d+(, \d+:\d+)*", word) else math.inf), word
