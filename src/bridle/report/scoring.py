"""Gold labels against guesses: tokens, segments and whole sequences, counted as conlleval (CoNLL-2000) counts them.

conlleval cuts between a label p-x and the next one q-y if x and y differ, or one of them is O, or

    after p \\ q     B  I  E           so: q is B, or p is E; an I or E after O begins a segment anyway
        B           x  .  .
        I           x  .  .
        E          (x) x  x           (x): not in conlleval, whose schemes with E (IOE) have no B; BIOES needs it

S is both B and E, M is I. "." does not cut. Without a scheme every run of one label is a segment, O like any other.
Labels are interned to ids; many short sequences are laid end to end and counted at once by NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.errors import Argument, LabelError, shown
from bridle.frames import Table, cells, is_missing
from bridle.labels import FIRST, LAST
from bridle.report.metrics import Counts, Scores, SegmentErrors

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TAGS = {
    "prefixes": tuple("BIESM"),
    "BIO": tuple("BI"),
    "IOB1": tuple("BI"),
    "BIOES": tuple("BIES"),
    "BMES": tuple("BMES"),
}
OUTSIDE = "O"
UNANSWERED = "_"  # what `bridle tag` writes for each token of a sequence that no labelling was found for
_AT_ONCE = 1 << 15  # tokens


def score(
    gold: Iterable[Sequence[str | None]],
    guessed: Iterable[Sequence[str]],
    scheme: str | None = "auto",
    *,
    outside: str | Sequence[str] = OUTSIDE,
) -> Scores:
    """Compare guessed labellings with gold, as conlleval (CoNLL-2000) counts.

    A segment is right if its first token, its last token and its type are those of a gold segment.

    Parameters
    ----------
    gold, guessed : iterable of sequence of str
        Labels, sequence by sequence; neither side is held in memory. Where a gold label is missing (None), the token is
        not counted, and segments end before it.
    scheme : {"auto", None, "IO", "BIO", "IOB1", "BIOES", "BMES", "prefixes"}, default "auto"
        What makes a segment. ``"prefixes"`` takes any of B-, I-, E-, S-, M- and O; None takes runs of one label.
        ``"auto"`` is ``"prefixes"`` if every label is O or has a prefix (a bare B, I, E, S or M has the type ""), else
        None.
    outside : str or sequence of str, default "O"
        The label of tokens outside all segments; or several, as `all_outside` of `Labels` has them.

    Returns
    -------
    Scores
        Accuracy, precision, recall and F1, with all counts.

    Raises
    ------
    LabelError
        If the two sides do not fit together, or a label does not fit the scheme.

    Examples
    --------
    >>> from bridle.report import score
    >>> print(*score([["B-NP", "I-NP", "O"]], [["B-NP", "O", "O"]]).lines(), sep="\\n")
    processed 3 tokens with 1 phrases; found: 1 phrases; correct: 0.
    accuracy:  66.67%; precision:   0.00%; recall:   0.00%; FB1:   0.00
                   NP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1
    """
    check_scheme(scheme)
    ways = [SegmentCounter(s, outside) for s in (("prefixes", None) if scheme == "auto" else (scheme,))]
    ids = _Ids()
    confusion = Counter[tuple[int, int]]()
    count = exact = missing = 0
    for a, b, lengths in _chunks(gold, guessed, ids):
        for name in ids.new():
            for way in list(ways):
                if not way.add(name):
                    if scheme != "auto":
                        raise misfit(name, scheme, way.outside)
                    ways.remove(way)
        begin = np.zeros(len(a), dtype=bool)
        begin[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
        if not (known := a >= 0).all():
            missing += int((~known).sum())
            begin[1:] |= ~known[:-1]
            left = np.diff(np.append(0, np.cumsum(known))[np.append(0, np.cumsum(lengths))])
            lengths = left[(left > 0) | (lengths == 0)]  # if nothing is known, it is neither right nor wrong
            a, b, begin = a[known], b[known], begin[known]
        pairs, counts = np.unique(a * len(ids.names) + b, return_counts=True)
        for pair, n in zip(pairs.tolist(), counts.tolist(), strict=True):
            confusion[divmod(pair, len(ids.names))] += n
        starts = np.cumsum(lengths) - lengths
        wrong = np.cumsum(np.append(0, a != b))
        exact += int((wrong[starts] == wrong[starts + lengths]).sum())
        count += len(lengths)
        for way in ways:
            way.count(a, b, begin)
    in_gold, in_guesses, right = Counter[int](), Counter[int](), Counter[int]()
    table: dict[str, dict[str, int]] = {}
    for name, guessed_name, n in sorted((ids.names[y], ids.names[guess], n) for (y, guess), n in confusion.items()):
        table.setdefault(name, {})[guessed_name] = n
    for (y, guess), n in confusion.items():
        in_gold[y] += n
        in_guesses[guess] += n
        right[y] += n if y == guess else 0
    by_label = {name: Counts(right[y], in_guesses[y], in_gold[y]) for name, y in sorted(ids.items())}
    way = ways[0]
    return Scores(
        way.scheme,
        in_gold.total(),
        right.total(),
        count,
        exact,
        way.by_type(),
        {name: counts for name, counts in by_label.items() if counts.guessed or counts.gold},
        table,
        SegmentErrors(*way.errors.tolist()),
        missing,
    )


def check_scheme(scheme: str | None) -> None:
    """Raise unless `score` knows the scheme."""
    if scheme not in (None, "auto", "IO", *TAGS):
        wanted = f"None, 'auto', 'IO', {', '.join(map(repr, TAGS))}"
        raise LabelError("unknown tagging scheme", got=repr(scheme), wanted=wanted, cause="A misspelled name?")


# ---- counting -------------------------------------------------------------------------------------------------------


class PackedSegments(NamedTuple):
    """Segments of many sequences end to end: S segments, N tokens."""

    starts: Ints  # (S,)  the first token
    ends: Ints  # (S,)  the token after the last
    types: Ints  # (N,)  of each token; -1 outside of segments


def same_segments(gold: PackedSegments, guessed: PackedSegments) -> Bools:
    """Mark the guessed segments that gold has, too."""
    same_type = gold.types[guessed.starts] == guessed.types[guessed.starts]
    return np.asarray((_end_of(gold)[guessed.starts] == guessed.ends) & same_type)


def _end_of(segments: PackedSegments) -> Ints:
    """(N,): the end of the segment that starts here; 0 if none does."""
    ends = np.zeros(len(segments.types), dtype=np.int64)
    ends[segments.starts] = segments.ends
    return ends


def _segment_errors(gold: PackedSegments, guessed: PackedSegments) -> Ints:
    """Count errors in the order of the fields of `SegmentErrors`."""
    exact = _end_of(guessed)[gold.starts] == gold.ends
    same = _within((gold.types >= 0) & (gold.types == guessed.types), gold)
    overlap = _within(guessed.types >= 0, gold)
    wrong = ~(exact & (gold.types[gold.starts] == guessed.types[gold.starts]))
    counts = list[int]()
    for kind in (exact, same, overlap, np.ones_like(exact)):
        counts.append(int((wrong & kind).sum()))
        wrong = wrong & ~kind
    return np.array([*counts, int((~_within(gold.types >= 0, guessed)).sum())], dtype=np.int64)


def _within(tokens: Bools, segments: PackedSegments) -> Bools:
    """(S,): does the segment have one of these tokens?"""
    before = np.cumsum(np.append(0, tokens))
    inside: Bools = before[segments.ends] > before[segments.starts]
    return inside


class LabelTables(NamedTuple):
    """Arrays over labels from which segments follow."""

    inside: Bools  # it belongs to a segment
    first: Bools  # it begins one wherever it stands
    last: Bools  # it ends one
    type: Ints  # its type; -1 outside

    def segments(self, ids: Ints, begin: Bools) -> PackedSegments:
        """Find the segments of labellings that lie end to end. begin[t]: a sequence starts at t."""
        types = self.type[ids]
        cut = begin | self.first[ids]
        cut[1:] |= self.last[ids[:-1]] | (types[1:] != types[:-1])
        places = np.flatnonzero(cut)
        kept = self.inside[ids[places]]
        return PackedSegments(places[kept], np.append(places[1:], len(ids))[kept], types)


class SegmentCounter:
    """Counts of segments under one scheme."""

    def __init__(self, scheme: str | None, outside: str | Sequence[str] = OUTSIDE) -> None:
        self.scheme = scheme
        self.outside = (outside,) if isinstance(outside, str) else tuple(outside)
        self.errors = np.zeros(len(fields(SegmentErrors)), dtype=np.int64)
        self._types = _Ids()
        self._counts = np.zeros((3, 0), dtype=np.int64)  # (correct, guessed, gold) x types
        self._labels: list[tuple[bool, bool, bool, int]] = []  # the rows of `LabelTables`

    def add(self, name: str) -> bool:
        """Add the next label; return False if it does not fit the scheme."""
        tag, kind = self._split(name)
        if tag is None:
            return False
        is_inside = tag != ""
        self._labels.append((is_inside, tag in FIRST, tag in LAST, self._types[kind] if is_inside else -1))
        return True

    def _split(self, name: str) -> tuple[str | None, str]:
        """Split a label into tag ("": outside) and type; the tag is None if the label does not fit the scheme."""
        if self.scheme is None:
            return "I", name
        if name in self.outside or name == UNANSWERED:
            return "", ""
        tag, dash, kind = name.partition("-")
        if self.scheme == "IO":
            return "I", kind if dash and tag == "I" else name
        return (tag if tag in TAGS[self.scheme] else None), kind

    def count(self, gold: Ints, guessed: Ints, begin: Bools) -> None:
        """Count the segments of sequences end to end. begin[t]: a sequence starts at t."""
        tables = self.tables()
        there, theirs = tables.segments(gold, begin), tables.segments(guessed, begin)
        self.errors += _segment_errors(there, theirs)
        correct = there.types[theirs.starts[same_segments(there, theirs)]]
        width = len(self._types.names)
        self._counts = np.pad(self._counts, ((0, 0), (0, width - self._counts.shape[1])))
        types = correct, theirs.types[theirs.starts], there.types[there.starts]
        self._counts += [np.bincount(kinds, minlength=width) for kinds in types]

    def tables(self) -> LabelTables:
        """Return the arrays for the labels so far."""
        rows = np.array(self._labels, dtype=np.int64).reshape(-1, 4)
        return LabelTables(rows[:, 0] > 0, rows[:, 1] > 0, rows[:, 2] > 0, rows[:, 3])

    def by_type(self) -> dict[str, Counts]:
        """Return the counts by type, sorted by name; types without segments are left out."""
        columns = zip(self._types.names, self._counts.T.tolist(), strict=False)  # the last types may have no counts
        return {name: Counts(*column) for name, column in sorted(columns) if any(column)}


def misfit(name: str, scheme: str | None, outside: Sequence[str]) -> LabelError:
    """Make the error for a label that does not fit the scheme."""
    tags = ", ".join(TAGS[scheme or "prefixes"])
    return LabelError(
        f"a label does not fit the scheme {scheme}",
        got=repr(name),
        wanted=f"{' or '.join(map(repr, outside))}, or a name that begins with one of {tags}",
        cause="Is the scheme right? Pass {argument} for labels without a scheme.",
        argument=Argument("scheme", None),
    )


# ---- reading --------------------------------------------------------------------------------------------------------


class _Ids(dict[str, int]):
    """Ids of names, assigned as names come."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._known = 0

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        self.names.append(str(name))  # NumPy's strings become plain ones
        self[self.names[-1]] = len(self.names) - 1
        return len(self.names) - 1

    def new(self) -> list[str]:
        """Return the names that came since the last call."""
        fresh = self.names[self._known :]
        self._known = len(self.names)
        return fresh


def _chunks(
    gold: Iterable[Sequence[str | None]], guessed: Iterable[Sequence[str]], ids: _Ids
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield gold ids (-1: missing) and guessed ids of many sequences end to end, and their lengths."""
    flat: tuple[list[str | None], list[str]] = ([], [])
    lengths: list[int] = []
    first = 0  # number of the first sequence in `flat`

    def packed() -> tuple[Ints, Ints, Ints]:
        try:
            a, b = _numbers(flat[0], ids, missing=-1), _numbers(flat[1], ids)
        except TypeError:
            raise _no_label(flat, lengths, first) from None
        return a, b, np.array(lengths, dtype=np.int64)

    for k, pair in enumerate(zip_longest(gold, guessed)):
        a, b = (_sequence(labels, side, k) for labels, side in zip(pair, ("gold", "guessed"), strict=True))
        if len(a) != len(b):
            raise LabelError(
                "there are not as many guessed labels as gold labels",
                got=f"{len(b)} guessed",
                wanted=f"{len(a)}",
                cause="Are both from the same input, in the same order?",
                sequence=k,
            )
        flat[0].extend(a)
        flat[1].extend(b)
        lengths.append(len(a))
        if len(flat[0]) >= _AT_ONCE or len(lengths) >= _AT_ONCE:
            yield packed()
            flat, lengths, first = ([], []), [], k + 1
    yield packed()


def _numbers(names: Sequence[Any], ids: _Ids, missing: int | None = None) -> Ints:
    """Return the ids of names, `missing` for missing ones if that is not None; raise TypeError for anything else."""
    try:
        return np.fromiter(map(ids.__getitem__, names), np.int64, len(names))
    except TypeError:
        if missing is None:
            raise
    known = (missing if not isinstance(name, str) and is_missing(name) else ids[name] for name in names)
    return np.fromiter(known, np.int64, len(names))


def _sequence(labels: Any, side: str, k: int) -> Sequence[str]:
    """Return the labels of one sequence as a list."""
    if isinstance(labels, (list, tuple)):
        return labels
    if labels is None:
        raise LabelError(
            f"it is missing in {side}",
            got=f"{k} sequences",
            wanted="as many in gold as guessed",
            cause="Are both from the same input?",
            sequence=k,
        )
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise LabelError(
            f"the labels in {side} are not a list",
            got=shown(labels, 80),
            wanted="a list of labels",
            cause="Was one sequence passed instead of a list of sequences?",
            sequence=k,
        )
    return list(labels)


def _no_label(flat: tuple[list[str | None], list[str]], lengths: Sequence[int], first: int) -> LabelError:
    """Make the error that names the sequence of a label that is not a string."""
    gold, guessed = ([(t, y) for t, y in enumerate(side) if not isinstance(y, str)] for side in flat)
    at, label = [*((t, y) for t, y in gold if not is_missing(y)), *guessed][0]
    k = first + int(np.searchsorted(np.cumsum(lengths), at, side="right"))
    return LabelError(
        "a label is not a name", got=shown(label, 80), wanted="a string", cause="Are these ids?", sequence=k
    )


Labellings = Iterable[Sequence[str]] | Table


def token_accuracy(y_true: Labellings, y_pred: Labellings) -> float:
    """Return the share of tokens with the right label.

    Parameters
    ----------
    y_true, y_pred : iterable of sequence of str
        Gold and guessed labels, sequence by sequence; or columns of lists.

    Returns
    -------
    float
        From 0 to 1; 0 if there are no tokens.

    Examples
    --------
    >>> from bridle.report import token_accuracy
    >>> token_accuracy([["D", "N"], ["N", "V"]], [["D", "N"], ["V", "V"]])
    0.75
    """
    return score(cells(y_true), cells(y_pred), scheme=None).accuracy


def sequence_accuracy(y_true: Labellings, y_pred: Labellings) -> float:
    """Return the share of sequences with no wrong label.

    Parameters
    ----------
    y_true, y_pred : iterable of sequence of str
        Gold and guessed labels, sequence by sequence; or columns of lists.

    Returns
    -------
    float
        From 0 to 1; 0 if there are no sequences.

    Examples
    --------
    >>> from bridle.report import sequence_accuracy
    >>> sequence_accuracy([["D", "N"], ["N", "V"]], [["D", "N"], ["V", "V"]])
    0.5
    """
    return score(cells(y_true), cells(y_pred), scheme=None).exact


def segment_f1(y_true: Labellings, y_pred: Labellings, *, scheme: str | None = "auto") -> float:
    """Return the F1 of segments of all types together, as conlleval counts them.

    Parameters
    ----------
    y_true, y_pred : iterable of sequence of str
        Gold and guessed labels, sequence by sequence; or columns of lists.
    scheme : {"auto", None, "IO", "BIO", "IOB1", "BIOES", "BMES", "prefixes"}, default "auto"
        What makes a segment, as for `score`.

    Returns
    -------
    float
        From 0 to 1; 0 if no segment is right, or there is none.

    Examples
    --------
    >>> from bridle.report import segment_f1
    >>> segment_f1([["B-NP", "I-NP", "O", "B-NP"]], [["B-NP", "O", "O", "B-NP"]])
    0.5
    """
    return score(cells(y_true), cells(y_pred), scheme).segments.f1
