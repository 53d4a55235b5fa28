"""The labels of a model of transformers, as its configuration names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from bridle.errors import LabelError, shown
from bridle.labels import Labels, Scheme, scheme_of

AnyScheme = Scheme | Literal["auto"] | None


def labels_of(model: Any, scheme: AnyScheme = "auto") -> Labels:
    """Take the labels from a model, its configuration, or an `id2label`.

    Parameters
    ----------
    model : model, config, mapping of int to str, or list of str
        Something with `config`, something with `id2label`, or the names themselves.
    scheme : {"auto", "IO", "BIO", "BIOES", "BMES"} or None, default "auto"
        The tagging scheme. "auto" tells it from the names; None: labels that stand for themselves.

    Returns
    -------
    Labels
        In the order of the columns of the logits.

    Raises
    ------
    LabelError
        If a number has no name, or the names do not fit the scheme.

    Examples
    --------
    >>> labels_of({0: "O", 1: "B-PER", 2: "I-PER"})
    Labels(['O', 'B-PER', 'I-PER'], scheme='BIO')
    """
    found = getattr(getattr(model, "config", model), "id2label", model)
    if isinstance(found, Mapping):
        names = _in_order(found)
    elif isinstance(found, Sequence) and not isinstance(found, str):
        names = list(found)
    else:
        raise LabelError(
            "the labels of the model are not known",
            got=shown(found) if found is not None else "no id2label",
            wanted='id2label, as in {0: "O", 1: "B-PER", ...}',
            cause="Pass id2label=model.config.id2label, or the list of names in the order of the logits.",
        )
    if scheme == "auto":
        return Labels(names, scheme_of(str(name) for name in names))
    return Labels(names, scheme)


def _in_order(id2label: Mapping[Any, Any]) -> list[Any]:
    """The names from 0 on; JSON has the numbers as strings."""
    try:
        by_id = {int(key): name for key, name in id2label.items()}
    except (TypeError, ValueError):
        raise LabelError(
            "the keys of id2label must be integers",
            got=shown(dict(id2label)),
            wanted='numbers from 0 on, as in {0: "O", 1: "B-PER"}',
            cause="Is it label2id?",
        ) from None
    missing = list(islice((k for k in range(max(by_id, default=-1) + 1) if k not in by_id), 6))
    if missing or len(by_id) != len(id2label) or min(by_id, default=0) < 0:
        raise LabelError(
            "id2label has gaps",
            got=f"no name for {', '.join(map(str, missing))}" if missing else shown(dict(id2label)),
            wanted=f"a name for each of 0 .. {max(by_id, default=0)}",
            cause="Every column of the logits needs a name: fill in id2label in the model's configuration.",
        )
    return [by_id[k] for k in range(len(by_id))]
