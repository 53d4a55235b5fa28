"""Split running text into tokens, and find out how the training data of a model was split."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Protocol

from bridle.data.base import format_named
from bridle.texts import word_pattern

Tokens = Literal["blanks", "words", "punctuation", "references", "characters"]
TOKENS: tuple[Tokens, ...] = ("blanks", "words", "punctuation", "references", "characters")

_PLAIN = {"blanks": r"\S+", "words": r"\w+", "punctuation": r"\w+|[^\w\s]", "characters": r"\S"}
_MARKS = [",", ".", ";", ":", "(", ")", "?", "!"]
_MOST_JOINED = 0.01  # share of tokens that end in a comma, in data where marks are tokens of their own
_ABBREVIATIONS = """Acad. Adv. al. Amer. Anal. Ann. Annu. Appl. Archit. Artif. Assoc. Autom. Biophys. Bull. Commun.
Comput. Conf. Constr. Cybern. Develop. Discov. diss. Distrib. ed. edn. Electr. Empir. Eng. Eur. Exp. Found. Funct.
Implement. Inf. Inform. Inst. Int. Intell. Interact. J. Jr. Knowl. Lang. Learn. Linguist. Mach. Manage. Math. Med. Nat.
Netw. No. no. Numer. Oper. Optim. p. Ph.D. pp. Princ. Proc. Process. Program. Psychol. Recognit. Rep. Represent. Res.
Retr. Rev. Roy. Sci. Secur. Ser. Soc. Softw. Statist. Symp. Syst. Tech. Technol. Trans. Verif. Vol. vol."""
_REFERENCES = rf"""
      (?<!\w)(?=\w+\.)(?:                              # a word that a dot follows, and
          {"|".join(map(re.escape, _ABBREVIATIONS.split()))}   #   it is known: Proc.  vol.  et al.  Ph.D.
        | [^\W\d_]\.(?:-[^\W\d_]\.)*                    #   it is an initial: D.  J.-P.
      )
    | \d+(?:[.,]\d+)+                                  # 5.0  100,000
    | ’\d\d(?!\w)                                      # SOSP ’03
    | \w+(?:(?:--|[-–’'/])\w+)*(?:\+\+)?                # words and numbers: time-sharing, 1--10, TCP/IP, C++
    | \S                                               # one mark
    """


@cache
def _pattern(how: Tokens, is_ascii: bool) -> re.Pattern[str]:
    """Compile the regular expression of tokens; for ASCII, a simpler one finds the same tokens faster."""
    if how == "references":
        return re.compile(_REFERENCES, re.VERBOSE)
    if is_ascii or how not in ("words", "punctuation"):
        return re.compile(_PLAIN[how])
    return re.compile(word_pattern() if how == "words" else rf"{word_pattern()}|[^\w\s]")


def tokens_of(text: str, how: Tokens) -> list[str]:
    """Split a text into tokens, without offsets."""
    return _pattern(how, text.isascii()).findall(text)


def tokenize(text: str, how: Tokens = "punctuation") -> tuple[list[str], array[int]]:
    """Split a text into tokens.

    Parameters
    ----------
    text : str
        Any text.
    how : {"blanks", "words", "punctuation", "references", "characters"}, default "punctuation"
        How to split: at blanks; into words of letters and digits, without other characters; also at punctuation, where
        each mark is a token; like the references that ship with Bridle (initials and known abbreviations keep a dot,
        time-sharing and 1--10 are single tokens); or into characters.

    Returns
    -------
    tokens : list of str
        The tokens.
    starts : array of int
        Where each begins.

    Examples
    --------
    >>> tokens, starts = tokenize("Knuth, D. E.: The TeXbook", "references")
    >>> tokens, list(starts)
    (['Knuth', ',', 'D.', 'E.', ':', 'The', 'TeXbook'], [0, 5, 7, 10, 12, 14, 18])
    """
    pattern = _pattern(how, text.isascii())
    # an array of numbers: eight bytes each, where a list of pairs would take more memory than a long text itself
    return pattern.findall(text), array("q", map(re.Match.start, pattern.finditer(text)))


# ---- the tokens of a model ------------------------------------------------------------------------------------------


class Vocabulary(Protocol):
    """The tokens of the training data, each once."""

    def find(self, texts: Sequence[str], /) -> Any:
        """Return a number for each text, which is negative if it is not there."""

    def texts(self) -> list[str]:
        """Return all tokens."""


def tokens_noted(notes: Mapping[str, Any], vocabulary: Vocabulary) -> Tokens:
    """Say how the training data of a model was split into tokens.

    notes: of the model (`Tagger.notes_`).   vocabulary: its tokens, for training data that consisted of tokens.
    """
    reader = notes.get("reader")
    reader = reader if isinstance(reader, Mapping) else {}
    format, how = reader.get("format"), None
    if format == "segmented":
        return "characters"
    if isinstance(format, str) and (default := format_named(format, {})).cuts:
        how = vars(default)["tokens"]
    how = dict(reader.get("options") or {}).get("tokens", how)
    return how if how in TOKENS else tokens_seen(vocabulary)


def tokens_seen(vocabulary: Vocabulary) -> Tokens:
    """Guess how text that has such tokens was split.

    blanks         no marks are tokens of their own, or some are, but many words have a comma at the end
    references     marks are tokens, and most tokens that end in a dot are initials or abbreviations as in references
    punctuation    otherwise
    """
    if not any(number >= 0 for number in vocabulary.find(_MARKS)):
        return "blanks"
    texts = vocabulary.texts()
    if sum(len(text) > 1 and text[-1] == "," for text in texts) > _MOST_JOINED * len(texts):
        return "blanks"
    dotted = [text for text in texts if len(text) > 1 and text[-1] == "." and text[-2] != "."]
    kept = sum(tokens_of(text, "references") == [text] for text in dotted)
    return "references" if 2 * kept > len(dotted) else "punctuation"
