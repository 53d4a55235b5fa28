"""Labels: names <-> ids under a tagging scheme, which says which labels make a segment.

    None   every label stands for itself; a segment is a maximal run of one label
    IO     the same, but the outside label (O) is not a segment; "I-A0" and "A0" both have the type A0
    BIO    B-x begins a segment, I-x goes on
    BIOES  B-x I-x* E-x, or S-x alone
    BMES   B M* E, or S alone (with or without "-x"); no outside label is needed

A segment that begins with I-x (or M, E) out of place counts as begun, as conlleval counts it; `well_formed()` is the
rule that forbids it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import Argument, EngineError, LabelError, nearest_name, shown
from bridle.recent import RecentCache

MOST_LABELS = 2**16 - _native.ROW_WIDTH  # ids have 16 bits, and a padded row of weights has less than 2**16 slots
MOST_SQUARE = _native.MOST_SQUARE  # labels of which a table of labels x labels may be made: 512 MB of doubles

MISSING = -2  # the id of a label that is not known: the token is neither learned from nor counted
Scheme = Literal["IO", "BIO", "BIOES", "BMES"]
UNTYPED = "WORD"  # the type of a bare B, M, E or S

PREFIXES: dict[str | None, tuple[str, ...]] = {
    None: (),
    "IO": ("I",),
    "BIO": tuple("BI"),
    "BIOES": tuple("BIES"),
    "BMES": tuple("BMES"),
}
FIRST = frozenset("BS")  # tags that begin a segment
LAST = frozenset("ES")  # tags that end one

_WITH_TYPE = tuple(f"{tag}-" for tag in "BIMES")

Bools = npt.NDArray[np.bool_]


def scheme_of(names: Iterable[str], outside: str | Collection[str] = "O") -> Scheme | None:
    """Return the tagging scheme that label names look like.

    Parameters
    ----------
    names : iterable of str
        The labels.
    outside : str or collection of str, default "O"
        The label of tokens outside all segments, or several.

    Returns
    -------
    {"IO", "BIO", "BIOES", "BMES"} or None
        None if they look like no scheme. Labels without types need a B and another tag: a single S may be a name.

    Examples
    --------
    >>> scheme_of(["O", "B-PER", "I-PER"]), scheme_of(["B", "M", "E", "S"]), scheme_of(["NN", "VB"])
    ('BIO', 'BMES', None)
    """
    outer = {outside} if isinstance(outside, str) else set(outside)
    inside = [name for name in names if name not in outer]
    typed = {name.partition("-")[1] for name in inside}  # all of them with a dash, or none
    tags = {name.partition("-")[0] for name in inside}
    bare = typed == {""} and not ("B" in tags and len(tags) > 1)
    if len(typed) != 1 or not tags <= set("BIMES") or bare:
        return None
    if tags == {"I"}:
        return "IO"
    if tags <= {"B", "I"}:
        return "BIO"
    if "I" not in tags and (typed == {""} or "M" in tags):
        return "BMES"
    return "BIOES" if "M" not in tags and typed == {"-"} else None


class Segment(NamedTuple):
    """Tokens that belong together under the tagging scheme.

    Attributes
    ----------
    start, end : int
        The first token, and the one after the last.
    type : str
        Segment type, for example ``"PER"``.
    """

    start: int
    end: int
    type: str


class Labels:
    """An ordered set of label names under a tagging scheme.

    Inside Bridle a label is its id, the position of its name in `names`; columns of scores are in the same order. Under
    BIO, BIOES and BMES, rules may name a segment type (``"PER"``) instead of its labels (``"B-PER"``, ``"I-PER"``).

    Parameters
    ----------
    names : iterable of str
        The labels, each once, in the order of the columns of the scores.
    scheme : {"auto", "IO", "BIO", "BIOES", "BMES", None}, default "auto"
        What makes a segment of neighbouring tokens. None and ``"IO"``: the same label. ``"BIO"``: B-x begins, I-x goes
        on. ``"BIOES"``, ``"BMES"``: E-x ends it, S-x is a segment of one token. ``"auto"``: the scheme that the names
        look like, as `scheme` then says; None if they look like none.
    outside : str or sequence of str, default "O"
        The label of tokens outside all segments; or several, such as ``["O", "<pad>"]``, the main one first.

    Attributes
    ----------
    names : tuple of str
        The labels.
    scheme : str or None
        The tagging scheme; None if there is none.
    outside : str
        The main label of tokens outside all segments.
    all_outside : tuple of str
        All labels of such tokens.

    Raises
    ------
    LabelError
        If a name is missing, repeats or does not fit the scheme.

    Examples
    --------
    >>> from bridle import Labels
    >>> labels = Labels(["O", "B-PER", "I-PER"])
    >>> labels
    Labels(['O', 'B-PER', 'I-PER'], scheme='BIO')
    >>> labels.ids(["B-PER", "I-PER", "O"])
    array([1, 2, 0])
    >>> labels.segments(["B-PER", "I-PER", "O", "B-PER"])
    [Segment(start=0, end=2, type='PER'), Segment(start=3, end=4, type='PER')]
    """

    __slots__ = ("__dict__", "_ids", "all_outside", "names", "outside", "scheme")

    most_square = MOST_SQUARE  # a service allows less for labels that requests bring along

    def __init__(
        self,
        names: Iterable[str],
        scheme: Scheme | Literal["auto"] | None = "auto",
        *,
        outside: str | Sequence[str] = "O",
    ) -> None:
        if not isinstance(names, Iterable) or (isinstance(names, str) and not names.isalpha()):  # "BMES" is a list too
            raise LabelError("labels are not a list of names", got=shown(names), wanted="a list of strings")
        self.names: tuple[str, ...] = tuple(names)
        self.all_outside: tuple[str, ...] = (outside,) if isinstance(outside, str) else tuple(outside)
        if not self.all_outside or not all(isinstance(name, str) for name in self.all_outside):
            raise LabelError("`outside` is not a label", got=shown(outside), wanted="'O', or ['O', '<pad>']")
        self.outside = self.all_outside[0]
        if not self.names:
            raise LabelError(
                "the label set is empty", got="no names", wanted="at least one name", cause="Was the file empty?"
            )
        if len(self.names) > MOST_LABELS:
            raise LabelError(
                "there are too many labels",
                got=f"{len(self.names):,}",
                wanted=f"at most {MOST_LABELS:,}",
                cause="Is this a list of words? A label is one of a closed set of tags.",
            )
        for name in self.names:
            if not isinstance(name, str) or not name:
                raise LabelError("a label is not a name", got=shown(name), wanted="non-empty strings")
        self._ids = {name: i for i, name in enumerate(self.names)}
        if len(self._ids) < len(self.names):
            twice = sorted(name for name, count in Counter(self.names).items() if count > 1)
            raise LabelError("label names repeat", got=", ".join(twice), wanted="each name once")
        if not (scheme is None or isinstance(scheme, str)) or scheme not in (*PREFIXES, "auto"):
            wanted = "'auto', 'IO', 'BIO', 'BIOES', 'BMES' or None"
            raise LabelError("unknown tagging scheme", got=shown(scheme), wanted=wanted)
        self.scheme: Scheme | None = scheme_of(self.names, self.all_outside) if scheme == "auto" else scheme
        if self.scheme not in (None, "IO"):
            for name in self.names:
                if self._split(name)[0] not in PREFIXES[self.scheme] and name not in self.all_outside:
                    raise LabelError(
                        f"a label does not fit the scheme {self.scheme}",
                        got=shown(name),
                        wanted=f"{' or '.join(map(repr, self.all_outside))}, or a name that begins with one of "
                        + ", ".join(PREFIXES[self.scheme]),
                        cause="Is the scheme right? Pass {argument} for labels without a scheme, or "
                        f"outside={[*self.all_outside, name]!r} if this one is for tokens outside all segments.",
                        argument=Argument("scheme", None),
                    )

    def _split(self, name: str) -> tuple[str, str]:
        """Return the tag and the type of a label: 'B-PER' -> ('B', 'PER'); outside labels have the tag ''."""
        if self.scheme is None:
            return "I", name
        if name in self.all_outside:
            return "", name
        tag, dash, kind = name.partition("-")
        if dash and tag in PREFIXES[self.scheme]:
            return tag, kind
        if self.scheme == "IO":
            return "I", name
        return name, UNTYPED

    @cached_property
    def automata(self) -> RecentCache:
        """Automata of rules about these labels, for all decoders (rules/compiled.py)."""
        return RecentCache(4096, 1 << 26)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.names, self.scheme, self.all_outside)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return (self.names, self.scheme, self.all_outside) == (other.names, other.scheme, other.all_outside)

    def __hash__(self) -> int:
        return hash((self.names, self.scheme, self.all_outside))

    def __repr__(self) -> str:
        outside = "" if self.all_outside == ("O",) else f", outside={list(self.all_outside)!r}"
        return f"Labels({list(self.names)!r}, scheme={self.scheme!r}{outside})"

    def id(self, name: str) -> int:
        """Look up the id of a label.

        Parameters
        ----------
        name : str
            A full label, not a segment type.

        Returns
        -------
        int
            Its id, from 0.

        Raises
        ------
        LabelError
            If there is no such label.
        """
        try:
            return self._ids[name]
        except (KeyError, TypeError):
            raise self._unknown(name) from None

    def ids(self, names: Sequence[str] | Sequence[int] | npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
        """Turn a labelling into ids.

        Parameters
        ----------
        names : sequence of str or int
            A label per token, as names or as ids. Ids are only checked.

        Returns
        -------
        array of int
            The ids.

        Raises
        ------
        LabelError
            If one is not a label.
        """
        if isinstance(names, np.ndarray) and names.ndim == 1 and names.dtype.kind in "iu":
            ids = np.where((names >= 0) & (names < len(self)), names.astype(np.intp), -1)
        else:
            ids = np.array([self._checked(y) for y in names], dtype=np.intp)
        if ids.size and ids.min() < 0:
            raise self._unknown(list(names)[int(ids.argmin())])
        return ids

    def named(self, ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.integer]) -> list[list[str]]:
        """Turn ids of many sequences, end to end, into names.

        Parameters
        ----------
        ids : array of int, shape (N,)
            A label id per token.
        offsets : array of int, shape (B + 1,)
            Where each sequence begins, and N at the end.

        Returns
        -------
        list of list of str
            The names, per sequence.
        """
        flat = np.array(self.names, dtype=object)[ids].tolist()
        return [flat[a:b] for a, b in pairwise(offsets.tolist())]

    def _checked(self, y: object) -> int:
        """Return the id of a name or of an id; -1 for anything else, such as a float, which would be cut silently."""
        if isinstance(y, str):
            return self._ids.get(y, -1)
        return int(y) if isinstance(y, (int, np.integer)) and 0 <= y < len(self) else -1

    def matching(self, name: str) -> frozenset[int]:
        """Find the labels that a rule means by a name.

        Parameters
        ----------
        name : str
            A full label, or a segment type.

        Returns
        -------
        frozenset of int
            The id of the label, or the ids of all labels of the type.

        Raises
        ------
        LabelError
            If it is neither.
        """
        if isinstance(name, str):
            if name in self._ids:
                return frozenset({self._ids[name]})
            if name in self._typed:
                return self._typed[name]
        raise self._unknown(name)

    def _unknown(self, name: object) -> LabelError:
        known = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
        types = f" or a type among {', '.join(sorted(self.types)[:12])}" if self.scheme not in (None, "IO") else ""
        near = nearest_name(name, [*self.names, *sorted(self.types)]) if isinstance(name, str) else None
        cause = "A misspelled name, or a different set of labels?" if near is None else f"Did you mean {near!r}?"
        if (hint := self._scheme_hint(name)) is not None:
            cause = hint
        return LabelError("unknown label", got=shown(name), wanted=f"one of {known}{types}", cause=cause)

    def _scheme_hint(self, name: object) -> str | None:
        """Say how an unknown name would be a segment type: under another scheme, or with other outside labels."""
        if self.scheme is not None or not isinstance(name, str):
            return None
        plain = {y for y in self.names if y[:2] not in _WITH_TYPE}
        outside = [*self.all_outside, *sorted(plain - set(self.all_outside))]
        scheme = scheme_of(self.names, outside)
        if scheme is None or name not in Labels(self.names, scheme, outside=outside).types:
            return None
        others = f", outside={outside!r}" if plain - set(self.all_outside) else ""
        return f"It is a segment type under {scheme}: pass scheme={scheme!r}{others} to Labels."

    @cached_property
    def tag_of(self) -> tuple[str, ...]:
        """B, I, E, S, M of each label; '' for the outside label."""
        return tuple(self._split(name)[0] for name in self.names)

    @cached_property
    def type_of(self) -> tuple[str, ...]:
        """The segment type of each label; the outside label is its own type."""
        return tuple(self._split(name)[1] for name in self.names)

    @cached_property
    def types(self) -> frozenset[str]:
        """All segment types, the outside label not among them."""
        return frozenset(kind for tag, kind in zip(self.tag_of, self.type_of, strict=True) if tag)

    @cached_property
    def span_labels(self) -> Labels:
        """Labels such that the outside label is never a segment, even without a scheme."""
        return self if self.scheme is not None else Labels(self.names, "IO", outside=self.all_outside)

    @cached_property
    def _typed(self) -> dict[str, frozenset[int]]:
        """All labels of each segment type."""
        ids: dict[str, list[int]] = {}
        for i, kind in enumerate(self.type_of):
            ids.setdefault(kind, []).append(i)
        return {kind: frozenset(ids[kind]) for kind in self.types}

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """The number of each label's type; the outside label has one of its own, whatever types are called."""
        number: dict[tuple[str, bool], int] = {}
        pairs = ((kind, bool(tag)) for kind, tag in zip(self.type_of, self.tag_of, strict=True))
        return tuple(number.setdefault(pair, len(number)) for pair in pairs)

    @cached_property
    def by_kind(self) -> tuple[tuple[int, ...], ...]:
        """The labels of each of these types."""
        ids: list[list[int]] = [[] for _ in range(max(self.kinds) + 1)]
        for i, kind in enumerate(self.kinds):
            ids[kind].append(i)
        return tuple(map(tuple, ids))

    @cached_property
    def first(self) -> tuple[bool, ...]:
        """(m,): does the label always begin a segment?"""
        return tuple(tag in FIRST for tag in self.tag_of)

    @cached_property
    def last(self) -> tuple[bool, ...]:
        """(m,): does the label always end a segment?"""
        return tuple(tag in LAST for tag in self.tag_of)

    def begins_at(self, before: int, y: int) -> bool:
        """Return whether a segment begins at a token.

        Parameters
        ----------
        before, y : int
            Ids of the label before, and of its own.

        Returns
        -------
        bool
            True if it does.
        """
        return self.kinds[before] != self.kinds[y] or self.first[y] or self.last[before]

    def starts(self, before: npt.NDArray[np.integer], ids: npt.NDArray[np.integer]) -> Bools:
        """Return for many tokens whether a segment begins there.

        Parameters
        ----------
        before, ids : array of int
            Ids of the labels before, and of their own. In `before`, m stands for the start of the sequence.

        Returns
        -------
        array of bool
            True where one does.
        """
        kinds, first, last = np.array([*self.kinds, -1]), np.array(self.first), np.array([*self.last, True])
        begins: Bools = (kinds[before] != kinds[ids]) | first[ids] | last[before]
        return begins

    @property
    def n_bytes(self) -> int:
        """Memory of the tables and automata that have been made of these labels."""
        values = [part for value in self.__dict__.values() for part in (value if isinstance(value, tuple) else [value])]
        return self.automata.bytes + sum(part.nbytes for part in values if isinstance(part, np.ndarray))

    def check_square(self) -> None:
        """Raise if a table of labels x labels would be too large."""
        if len(self) > self.most_square:
            raise EngineError(
                "there are too many labels for a table of labels x labels",
                got=f"{len(self):,} labels",
                wanted=f"at most {self.most_square:,}",
                cause="Rules about neighbours and tagging schemes need it. Use fewer labels, or rules that count.",
            )

    @cached_property
    def begins(self) -> Bools:
        """(m + 1, m): does a segment begin at label j just after label i? Row m: at the start of the sequence."""
        self.check_square()
        return self.starts(np.arange(len(self) + 1)[:, None], np.arange(len(self))[None, :])

    @cached_property
    def allowed(self) -> tuple[Bools, Bools, Bools]:
        """The scheme's own grammar: transitions (m, m), first labels (m,), last labels (m,)."""
        self.check_square()
        m = len(self)
        if self.scheme in (None, "IO"):
            return np.ones((m, m), dtype=bool), np.ones(m, dtype=bool), np.ones(m, dtype=bool)
        opens = np.array([t in "BIM" and t != "" for t in self.tag_of])  # the segment goes on after it, or may
        must = opens if self.scheme in ("BIOES", "BMES") else np.zeros(m, dtype=bool)
        enters = np.array([t == "" or t in FIRST for t in self.tag_of])  # may follow a closed segment
        kinds = np.array(self.type_of, dtype=object)
        same = kinds[:, None] == kinds[None, :]
        inside = ~enters[None, :] & opens[:, None] & same
        outside = enters[None, :] & ~must[:, None]
        return inside | outside, enters.copy(), ~must

    @cached_property
    def same_type(self) -> Bools:
        """(m, m): do labels i and j have the same type?"""
        self.check_square()
        kinds = np.array(self.kinds)
        same: Bools = kinds[:, None] == kinds[None, :]
        return same

    def segments(self, names: Sequence[str] | Sequence[int] | npt.NDArray[np.integer]) -> list[Segment]:
        """Cut a labelling into segments.

        Parameters
        ----------
        names : sequence of str or int
            A label per token, as names or as ids.

        Returns
        -------
        list of Segment
            In order. Tokens with the outside label are left out; without a scheme nothing is.

        Raises
        ------
        LabelError
            If one is not a label.
        """
        ids = self.ids(names).tolist()
        cuts = [t for t in range(len(ids)) if t == 0 or self.begins_at(ids[t - 1], ids[t])] + [len(ids)]
        return [Segment(a, b, self.type_of[ids[a]]) for a, b in pairwise(cuts) if self.tag_of[ids[a]]]


def _restored(names: tuple[str, ...], scheme: Scheme | None, outside: tuple[str, ...]) -> Labels:
    return Labels(names, scheme, outside=outside)
