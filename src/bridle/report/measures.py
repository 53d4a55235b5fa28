"""One number for guessed labellings: functions of gold and guesses, as `sklearn.metrics.make_scorer` wants them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridle.frames import Table, cells
from bridle.report.scoring import score

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
