"""What the styles share: pieces of a reference, tokens, names, sentence case, short names of journals.

A style writes pieces, each a label and a text. Joined they are the printed reference; a token has the label of the
piece that it begins in, so labels are known and nothing is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import accumulate

from bridle.data.references.works import Author

Piece = tuple[str, str]  # a label, a text

# A word of a title keeps its capital in sentence case if it is a name; words with more capitals, or digits, keep them.
PROPER = frozenset(
    [
        "Amazon",
        "Bayes",
        "Bayou",
        "Boltzmann",
        "Boolean",
        "Borg",
        "Byzantine",
        "Chubby",
        "Cilk",
        "Click",
        "Diffie",
        "Dirichlet",
        "English",
        "Entscheidungsproblem",
        "Ethernet",
        "Fibonacci",
        "Fourier",
        "Gaussian",
        "Gibbs",
        "Google",
        "Haskell",
        "Hellman",
        "Internet",
        "Johnny",
        "Latin",
        "Markov",
        "Net",
        "Neumann",
        "Penn",
        "Treebank",
        "Turing",
        "Volcano",
        "Web",
        "Weil",
        "Wide",
        "World",
    ]
)
# ISO 4, as ACM and IEEE print it; small words are left out.
SHORT = {
    "Academy": "Acad.",
    "Advances": "Adv.",
    "American": "Amer.",
    "Analysis": "Anal.",
    "Annals": "Ann.",
    "Annual": "Annu.",
    "Applications": "Appl.",
    "Architecture": "Archit.",
    "Artificial": "Artif.",
    "Association": "Assoc.",
    "Automation": "Autom.",
    "Biophysics": "Biophys.",
    "Bulletin": "Bull.",
    "Communication": "Commun.",
    "Communications": "Commun.",
    "Computation": "Comput.",
    "Computational": "Comput.",
    "Computer": "Comput.",
    "Computers": "Comput.",
    "Computing": "Comput.",
    "Conference": "Conf.",
    "Construction": "Constr.",
    "Cybernetics": "Cybern.",
    "Development": "Develop.",
    "Discovery": "Discov.",
    "Distributed": "Distrib.",
    "Electrical": "Electr.",
    "Empirical": "Empir.",
    "Engineering": "Eng.",
    "Engineers": "Eng.",
    "European": "Eur.",
    "Experimental": "Exp.",
    "Foundations": "Found.",
    "Functional": "Funct.",
    "Implementation": "Implement.",
    "Informatica": "Inform.",
    "Information": "Inf.",
    "Institute": "Inst.",
    "Intelligence": "Intell.",
    "Interactive": "Interact.",
    "International": "Int.",
    "Journal": "J.",
    "Knowledge": "Knowl.",
    "Language": "Lang.",
    "Languages": "Lang.",
    "Learning": "Learn.",
    "Linguistics": "Linguist.",
    "Machine": "Mach.",
    "Management": "Manage.",
    "Mathematical": "Math.",
    "Mathematics": "Math.",
    "Mathematik": "Math.",
    "Medical": "Med.",
    "National": "Nat.",
    "Natural": "Nat.",
    "Network": "Netw.",
    "Networking": "Netw.",
    "Networks": "Netw.",
    "Numerische": "Numer.",
    "Operating": "Oper.",
    "Optimization": "Optim.",
    "Principles": "Princ.",
    "Proceedings": "Proc.",
    "Processing": "Process.",
    "Programming": "Program.",
    "Psychological": "Psychol.",
    "Psychology": "Psychol.",
    "Recognition": "Recognit.",
    "Representations": "Represent.",
    "Research": "Res.",
    "Retrieval": "Retr.",
    "Review": "Rev.",
    "Royal": "Roy.",
    "Science": "Sci.",
    "Sciences": "Sci.",
    "Security": "Secur.",
    "Series": "Ser.",
    "Society": "Soc.",
    "Software": "Softw.",
    "Statistical": "Statist.",
    "Statistics": "Statist.",
    "Symposium": "Symp.",
    "System": "Syst.",
    "Systems": "Syst.",
    "Technical": "Tech.",
    "Techniques": "Tech.",
    "Technologies": "Technol.",
    "Technology": "Technol.",
    "Transactions": "Trans.",
    "Verification": "Verif.",
}
SMALL = frozenset(["The", "a", "and", "for", "in", "of", "on", "the", "to", "&"])
WRITTEN = ("al.", "diss.", "ed.", "edn.", "Jr.", "no.", "No.", "p.", "Ph.D.", "pp.", "Rep.", "Tech.", "vol.", "Vol.")
_DOTTED = "|".join(re.escape(word) for word in sorted({*SHORT.values(), *WRITTEN}, reverse=True) if word[-1] == ".")
TOKEN = re.compile(
    rf"""
      (?<!\w)(?=\w+\.)(?:                   # a word that a dot follows, and
          {_DOTTED}                          #   it is known: Proc.  vol.  et al.  Ph.D.
        | [^\W\d_]\.(?:-[^\W\d_]\.)*         #   it is an initial: D.  J.-P.
      )
    | \d+(?:[.,]\d+)+                       # 5.0  100,000
    | ’\d\d(?!\w)                           # SOSP ’03
    | \w+(?:(?:--|[-–’'/])\w+)*(?:\+\+)?     # words and numbers: time-sharing, 1--10, TCP/IP, C++
    | \S                                    # one mark
    """,
    re.VERBOSE,
)


def tokenise(text: str) -> list[str]:
    """Cut text into words, numbers and marks; initials and known abbreviations keep their dot.

    Parameters
    ----------
    text : str
        A reference.

    Returns
    -------
    list of str
        Its tokens.

    Examples
    --------
    >>> tokenise("D.E. Knuth et al. In: Proc. X, 3(4), pp. 1--10.")
    ['D.', 'E.', 'Knuth', 'et', 'al.', 'In', ':', 'Proc.', 'X', ',', '3', '(', '4', ')', ',', 'pp.', '1--10', '.']
    """
    return TOKEN.findall(text)


def fill(template: str, **texts: str) -> list[Piece]:
    """The pieces of a template: {FIELD} is a text with that label, <...> is left out if its fields are empty.

    Names in lower case are not fields: their text is outside, as is the text of the template itself.

    >>> fill("{TITLE}<, {PAGES}>{edition}.", TITLE="A", PAGES="", edition=", 2nd ed")
    [('TITLE', 'A'), ('O', ', 2nd ed'), ('O', '.')]
    """
    pieces = list[Piece]()
    for needs, parts in _parsed(template):
        if not needs or any(texts[name] for name in needs):
            pieces += [(name if name.isupper() else "O", texts[name] if name else text) for name, text in parts]
    return pieces


@cache
def _parsed(template: str) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """The stretches of a template: the fields that it hangs on, and its parts, each a name or a text."""
    stretches = []
    for stretch in re.findall("<[^>]*>|[^<]+", template):
        parts = re.findall(r"{(\w+)}|([^<>{}]+)", stretch)
        stretches.append(([name for name, _ in parts if name and stretch[0] == "<"], parts))
    return stretches


def printed(pieces: Iterable[Piece]) -> tuple[str, list[str], list[str]]:
    """The text of the pieces, its tokens and their labels. No full stop follows another end of a sentence.

    >>> printed([("TITLE", "Why?"), ("O", ". "), ("DATE", "1984"), ("O", ".")])
    ('Why? 1984.', ['Why', '?', '1984', '.'], ['TITLE', 'TITLE', 'DATE', 'O'])
    """
    kept = list[Piece]()
    text = ""
    for label, part in pieces:
        doubled = text[-1:] + part[:1] in ("..", "?.", "!.", "?,", "!,")
        kept.append((label, part[doubled:]))
        text += part[doubled:]
    ends = list(accumulate(len(part) for _, part in kept))
    tokens, labels, piece = list[str](), list[str](), 0
    for match in TOKEN.finditer(text):
        while ends[piece] <= match.start():
            piece += 1
        tokens.append(match.group())
        labels.append(kept[piece][0])
    return text, tokens, labels


def sentence(title: str) -> str:
    """A title in sentence case: small letters but for the first word, after a colon, and in names.

    >>> sentence("Large-Scale Markov Models for TCP/IP: The Time-Sharing Case")
    'Large-scale Markov models for TCP/IP: The time-sharing case'
    """
    words = title.split(" ")
    starts = [True, *(word[-1] in ":?!" for word in words[:-1])]
    heads = [word.partition("-")[0] if start else "" for word, start in zip(words, starts, strict=True)]
    return " ".join(head + _small(word.removeprefix(head)) for word, head in zip(words, heads, strict=True))


def _small(word: str) -> str:
    """A word in lower case, part by part, unless a part is a name or not a plain capitalised word."""
    return re.sub(
        r"[^\W\d_]+(?:[’'][a-z]+)?",
        lambda part: part[0].lower() if re.sub("[’'].*", "", part[0]) not in PROPER and _plain(part[0]) else part[0],
        word,
    )


def _plain(word: str) -> bool:
    return word == "A" or (len(word) > 1 and word[0].isupper() and word[1:].islower())


def short(name: str) -> str:
    """The short name of a journal or conference.

    >>> short("Proceedings of the 3rd Annual ACM Symposium on Theory of Computing")
    'Proc. 3rd Annu. ACM Symp. Theory Comput.'
    """
    words = [word for word in name.split() if word not in SMALL]
    if len(words) == 1:
        return name
    return " ".join(SHORT.get(word.rstrip(","), word) + word[len(word.rstrip(",")) :] for word in words)


# ---- names ----------------------------------------------------------------------------------------------------------


def full(author: Author) -> str:
    """Guy L. Steele Jr."""
    return " ".join(filter(None, [author.given, author.family, author.suffix]))


def initials_first(author: Author) -> str:
    """G. L. Steele Jr."""
    return " ".join(filter(None, [*author.initials, author.family, author.suffix]))


def family_first(author: Author) -> str:
    """Steele, Guy L., Jr."""
    return ", ".join(filter(None, [author.family, author.given, author.suffix]))


def initials_last(author: Author) -> str:
    """Steele, G. L., Jr."""
    return ", ".join(filter(None, [author.family, " ".join(author.initials), author.suffix]))


def initials_tight(author: Author) -> str:
    """Steele Jr., G.L."""
    family = " ".join(filter(None, [author.family, author.suffix]))
    return ", ".join(filter(None, [family, "".join(author.initials)]))


def initials_bare(author: Author) -> str:
    """Steele GL Jr"""
    letters = "".join(letter for letter in "".join(author.initials) if letter.isalpha())
    return " ".join(filter(None, [author.family, letters, author.suffix.rstrip(".")]))


def listed(
    authors: Sequence[Author],
    name: Callable[[Author], str],
    *,
    rest: Callable[[Author], str] | None = None,
    two: str = ", ",
    last: str = ", ",
    most: int | None = None,
    shown: int = 1,
    others: str = " et al.",
) -> str:
    """Names in a row: the first by `name`, the others by `rest`; more than `most` names are `shown` names and `others`.

    >>> people = [Author("Rivest", "Ronald L."), Author("Shamir", "Adi"), Author("Adleman", "Leonard")]
    >>> listed(people, initials_first, two=" and ", last=", and ")
    'R. L. Rivest, A. Shamir, and L. Adleman'
    >>> listed(people, family_first, most=2, others=", et al.")
    'Rivest, Ronald L., et al.'
    """
    names = [name(author) if k == 0 else (rest or name)(author) for k, author in enumerate(authors)]
    if most is not None and len(names) > most:
        return ", ".join(names[:shown]) + others
    if len(names) < 3:
        return two.join(names)
    return ", ".join(names[:-1]) + last + names[-1]
